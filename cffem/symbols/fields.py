# SPDX-License-Identifier: MIT
"""The unknowns: scalar and vector fields, their components and their partial derivatives.

A field is a SymPy atom that depends on the coordinates, so SymPy's own `diff`, `subs`, `latex`,
`==` and pickling work. Partial derivatives are SymPy's `Derivative`; its variables are sorted,
hence mixed partial derivatives commute by construction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.expr import AtomicExpr

from cffem.symbols.algebra.foreign import refuse_foreign
from cffem.symbols.algebra.normal_forms import NORMAL_FORMS
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import AmbiguousShape, SymbolError

if TYPE_CHECKING:
    from sympy.printing.printer import Printer


RESERVED = frozenset({"x", "y", "z", "t", "n"})


class CoordinateFunction(sp.Expr):
    """Mixin for indivisible functions of the coordinates: the chain rule stops at them."""

    __slots__ = ()
    is_commutative = True
    _diff_wrt = True

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return {self, *COORDINATES}

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        if s == self:
            return sp.S.One
        if s in COORDINATES:
            return sp.Derivative(self, s, evaluate=False)
        return sp.S.Zero

    def _eval_derivative_n_times(self, s: sp.Basic, n: sp.Expr) -> sp.Expr:
        # SymPy's atoms return zero here for every symbol but themselves.
        return sp.Basic._eval_derivative_n_times(self, s, n)


class GuardedArithmetic(sp.Expr):
    """Mixin for all symbols of a term: DOLFINx and UFL objects are refused as operands."""

    __slots__ = ()


class CheckedArithmetic(GuardedArithmetic):
    """Mixin for vectors and operators: a sum, product or power without meaning is refused
    where it is written.
    """

    __slots__ = ()
    # Above every SymPy class, so that these methods are the ones called whichever side the vector
    # stands on.
    _op_priority = 20.0


def _guarded(method: str) -> Callable[..., sp.Expr]:
    plain = getattr(sp.Expr, method)

    @wraps(plain)
    def operation(self: sp.Expr, other: object) -> sp.Expr:
        refuse_foreign(other)
        return plain(self, other)

    return operation


def _checked(method: str) -> Callable[..., sp.Expr]:
    plain = _guarded(method)

    @wraps(plain)
    def operation(self: sp.Expr, other: object) -> sp.Expr:
        result = plain(self, other)
        if result is not NotImplemented:
            # What is ambiguous now may cancel: curl(grad(u*v)) is the sum of grad(u)×grad(v) and
            # grad(v)×grad(u).
            with suppress(AmbiguousShape):
                shape_of(result)
        return result

    return operation


for _word in ("add", "sub", "mul", "truediv", "pow"):
    for _method in (f"__{_word}__", f"__r{_word}__"):
        setattr(GuardedArithmetic, _method, _guarded(_method))
        setattr(CheckedArithmetic, _method, _checked(_method))


class Field(CoordinateFunction, AtomicExpr):
    """A named unknown; use `ScalarField` or `VectorField`."""

    __slots__ = ("dim", "name")

    def __new__(cls, name: str, dim: int | None = None) -> Field:
        if not isinstance(name, str) or not name.isidentifier():
            raise SymbolError(f"a field's name must be an identifier, not {name!r}")
        if name in RESERVED:
            raise SymbolError(
                f"a field cannot be called {name!r}: that name is a coordinate or the normal"
            )
        if dim is not None and (isinstance(dim, bool) or dim not in (1, 2, 3)):
            raise SymbolError(
                f"the dimension of field {name} must be 1, 2 or 3, not {dim!r}; write further "
                "components as scalar fields of a System"
            )
        obj = AtomicExpr.__new__(cls)
        obj.name = name
        obj.dim = dim
        return obj

    def __getnewargs__(self) -> tuple[object, ...]:
        return (self.name, self.dim)

    def _hashable_content(self) -> tuple[object, ...]:
        return (self.name, str(self.dim))

    def __getstate__(self) -> None:
        return None

    def _subs(self, old: sp.Basic, new: sp.Basic, **hints: object) -> sp.Basic:
        if old in COORDINATES:
            raise SymbolError(
                f"{old} cannot be replaced by {new} in the field {self}: delays, shifts and "
                "values at a point have no term here; give an observable at a time or point, "
                "replace the whole field, or write a delay as a field w of its own with dt(w) = u "
                "- w say"
            )
        return as_vector(new) if old == self else self

    @property
    def real_part(self) -> Field:
        """The real field that holds the real part where this field is measured with complex
        values: `psi_re` of `psi`.
        """
        return type(self)(f"{self.name}_re", self.dim)

    @property
    def imaginary_part(self) -> Field:
        """The real field that holds the imaginary part where this field is measured with
        complex values: `psi_im` of `psi`.
        """
        return type(self)(f"{self.name}_im", self.dim)

    def sort_key(self, order: object = None) -> tuple[object, ...]:
        return self.class_key(), (1, (self.name,)), sp.S.One.sort_key(), sp.S.One

    def _sympystr(self, printer: Printer) -> str:
        return self.name

    def _sympyrepr(self, printer: Printer) -> str:
        return f"{type(self).__name__}({self.name!r}, dim={self.dim})"


class ScalarField(GuardedArithmetic, Field):
    """A scalar unknown.

    Args:
        name: an identifier other than a coordinate's name.
        dim: the dimension of space, only needed where an expression is ambiguous without it
            (`curl(u*grad(v))`).

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> (u**2).diff(cf.x)
        2*u*Derivative(u, x)
    """

    __slots__ = ()
    is_real = True
    is_extended_real = True
    is_complex = True
    is_finite = True

    @property
    def shape(self) -> tuple[int | None, ...]:
        return ()

    def _latex(self, printer: Printer) -> str:
        return printer._deal_with_super_sub(self.name)


class VectorField(CheckedArithmetic, Field):
    """A vector unknown with `dim` components, written `E[0]`, `E[1]`, ….

    Example:
        >>> import cffem as cf
        >>> E = cf.VectorField("E", dim=3)
        >>> E[0].diff(cf.y)
        Derivative(E[0], y)
    """

    __slots__ = ()

    def __new__(cls, name: str, dim: int | None = None) -> VectorField:
        if dim is None:
            raise SymbolError(
                f"a vector field needs its number of components: VectorField({name!r}, dim=2)"
            )
        return super().__new__(cls, name, dim)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.dim,)

    def __getitem__(self, index: int) -> Component:
        return Component(self, sp.Integer(index))

    # SymPy takes apart whatever can be iterated over; a vector is one symbol.
    __iter__ = None

    def _xreplace(self, rule: Mapping[sp.Basic, sp.Basic]) -> tuple[sp.Basic, bool]:
        return (as_vector(rule[self]), True) if self in rule else (self, False)

    def _latex(self, printer: Printer) -> str:
        return rf"\mathbf{{{printer._deal_with_super_sub(self.name)}}}"


def as_vector(value: object) -> sp.Expr:
    """A tuple or matrix as the vector node it means; anything else as it is."""
    return (
        NORMAL_FORMS[tuple](value)
        if isinstance(value, tuple | list | sp.Tuple | sp.MatrixBase)
        else value
    )


class Normal(CheckedArithmetic, CoordinateFunction, AtomicExpr):
    """The outward unit normal of the boundary, for boundary terms."""

    __slots__ = ()
    __iter__ = None

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (None,)

    def __getitem__(self, index: int) -> sp.Expr:
        return Component(self, index)

    def _sympystr(self, printer: Printer) -> str:
        return "n"

    def _latex(self, printer: Printer) -> str:
        return r"\mathbf{n}"


n = Normal()


class Component(GuardedArithmetic, CoordinateFunction):
    """One scalar component of a vector field or of the normal."""

    __slots__ = ()
    is_real = True
    is_extended_real = True
    is_complex = True
    is_finite = True

    def __new__(cls, vector: object, index: int | sp.Integer) -> sp.Expr:
        if not isinstance(vector, VectorField | Normal):
            # Substituting an expression for a field takes the component of that expression.
            return NORMAL_FORMS[Component](vector, int(index))
        size = vector.dim if isinstance(vector, VectorField) else 3
        if not 0 <= int(index) < size:
            raise IndexError(f"{vector} has components 0 to {size - 1}, not {index}")
        return sp.Expr.__new__(cls, vector, sp.Integer(index))

    @property
    def field(self) -> VectorField | Normal:
        return self.args[0]

    @property
    def index(self) -> int:
        return int(self.args[1])

    @property
    def shape(self) -> tuple[int | None, ...]:
        return ()

    def _sympystr(self, printer: Printer) -> str:
        return f"{printer._print(self.args[0])}[{self.index}]"

    def _latex(self, printer: Printer) -> str:
        name = (
            "n" if isinstance(self.field, Normal) else printer._deal_with_super_sub(self.field.name)
        )
        return f"{name}_{{{'xyz'[self.index]}}}"


def fields_of(expr: sp.Basic) -> frozenset[Field]:
    """The fields that occur in an expression."""
    return frozenset(expr.atoms(Field))
