"""The unknowns: scalar and vector fields, their components and their partial derivatives.

A field is a SymPy atom that depends on the coordinates, so SymPy's own `diff`, `subs`, `latex`, `==` and pickling work. Partial
derivatives are SymPy's `Derivative`; its variables are sorted, hence mixed partial derivatives commute by construction.
"""

from __future__ import annotations

from typing import Any

import sympy as sp
from sympy.core.expr import AtomicExpr

from cffem.symbols.coordinates import COORDINATES

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


class Field(CoordinateFunction, AtomicExpr):
    """A named unknown; use `ScalarField` or `VectorField`."""

    __slots__ = ("dim", "name")

    def __new__(cls, name: str, dim: int | None = None) -> Field:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"a field's name must be an identifier, not {name!r}")
        if name in RESERVED:
            raise ValueError(f"a field cannot be called {name!r}: that name is a coordinate or the normal")
        if dim is not None and (isinstance(dim, bool) or dim not in (1, 2, 3)):
            raise ValueError(f"the dimension of field {name} must be 1, 2 or 3, not {dim!r}")
        obj = AtomicExpr.__new__(cls)
        obj.name = name
        obj.dim = dim
        return obj

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.name, self.dim)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.name, str(self.dim))

    def __getstate__(self) -> None:
        return None

    def sort_key(self, order: Any = None) -> Any:
        return self.class_key(), (1, (self.name,)), sp.S.One.sort_key(), sp.S.One

    def _sympystr(self, printer: Any) -> str:
        return self.name

    def _sympyrepr(self, printer: Any) -> str:
        return f"{type(self).__name__}({self.name!r}, dim={self.dim})"


class ScalarField(Field):
    """A scalar unknown.

    Args:
        name: an identifier other than a coordinate's name.
        dim: the dimension of space, only needed where an expression is ambiguous without it (`curl(u*grad(v))`).

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

    def _latex(self, printer: Any) -> str:
        return printer._deal_with_super_sub(self.name)


class VectorField(Field):
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
            raise ValueError(f"a vector field needs its number of components: VectorField({name!r}, dim=2)")
        return super().__new__(cls, name, dim)

    @property
    def shape(self) -> tuple[int | None, ...]:
        return (self.dim,)

    def __getitem__(self, index: int) -> Component:
        return Component(self, sp.Integer(index))

    # SymPy takes apart whatever can be iterated over; a vector is one symbol.
    __iter__ = None

    def _latex(self, printer: Any) -> str:
        return rf"\mathbf{{{printer._deal_with_super_sub(self.name)}}}"


class Component(CoordinateFunction):
    """One scalar component of a vector field."""

    __slots__ = ()
    is_real = True
    is_extended_real = True
    is_complex = True
    is_finite = True

    def __new__(cls, vector: sp.Expr, index: int | sp.Integer) -> sp.Expr:
        if not isinstance(vector, VectorField):
            # Substituting an expression for a field takes the component of that expression.
            from cffem.symbols.operators import component

            return component(vector, int(index))
        if not 0 <= int(index) < vector.dim:
            raise IndexError(f"{vector} has components 0 to {vector.dim - 1}, not {index}")
        return sp.Expr.__new__(cls, vector, sp.Integer(index))

    @property
    def field(self) -> VectorField:
        return self.args[0]

    @property
    def index(self) -> int:
        return int(self.args[1])

    @property
    def shape(self) -> tuple[int | None, ...]:
        return ()

    def _sympystr(self, printer: Any) -> str:
        return f"{printer._print(self.args[0])}[{self.index}]"

    def _latex(self, printer: Any) -> str:
        return f"{printer._deal_with_super_sub(self.field.name)}_{{{'xyz'[self.index]}}}"


def fields_of(expr: sp.Basic) -> frozenset[Field]:
    """The fields that occur in an expression."""
    return frozenset(expr.atoms(Field))
