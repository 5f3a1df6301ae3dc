# SPDX-License-Identifier: MIT
"""Operators and products as SymPy nodes: what each applies to, the shape of its result, how it
differentiates and prints.

Conventions are UFL's: grad(v)[i, j] = ∂v_i/∂x_j, div contracts the last index, dot(grad(v), v) =
(v·∇)v. In 2D, curl of a vector is a scalar, curl of a scalar is the vector (∂u/∂y, −∂u/∂x), and
cross of two vectors is a scalar.

A node is brought into normal form when it is built (the rules are in `calculus`). With
`evaluate=False` it stays as written and is called *held*: substitution, `xreplace` and pickling
keep it held, `doit` lets it go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.relational import Relational
from sympy.printing.precedence import PRECEDENCE, PRECEDENCE_TRADITIONAL

from cffem.symbols.algebra.foreign import refuse_foreign
from cffem.symbols.algebra.normal_forms import NORMAL_FORMS
from cffem.symbols.algebra.shapes import Shape, rank_name, shape_of, unify
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import AmbiguousShape, ShapeError, SymbolError
from cffem.symbols.fields import CheckedArithmetic, Component, CoordinateFunction, Field
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from sympy.printing.printer import Printer


# In LaTeX the prefix operators bind as loosely as SymPy's own vector operators, so that a factor
# after them cannot be misread.
for _name in ("Grad", "Div", "Lap", "Inner", "Outer"):
    PRECEDENCE_TRADITIONAL.setdefault(_name, PRECEDENCE["Mul"] - 1)


class Node(CheckedArithmetic, CoordinateFunction):
    """Base of all operator nodes: an indivisible function of the coordinates with a shape."""

    __slots__ = ("held",)
    symbol = "?"
    # SymPy takes apart whatever can be iterated over; a vector is one symbol.
    __iter__ = None

    def __new__(cls, *args: object, evaluate: bool = True) -> sp.Expr:
        exprs = tuple(as_expr(arg) for arg in args)
        cls.check(*exprs)
        if cls.vanishes(*exprs):
            return sp.S.Zero
        normal = NORMAL_FORMS[cls](*exprs)
        if evaluate:
            return normal
        node = cls.build(*exprs)
        if node == normal:
            return normal
        shape_of(
            node
        )  # refuses what has no definite shape while the user still sees what was written
        node.held = True
        return node

    @classmethod
    def build(cls, *args: sp.Expr) -> sp.Expr:
        """The node itself, without looking for a simpler form."""
        node = sp.Expr.__new__(cls, *args)
        node.held = False
        return node

    @classmethod
    def hold(cls, *args: object) -> sp.Expr:
        """The node as written."""
        return cls(*args, evaluate=False)

    @classmethod
    def check(cls, *args: sp.Expr) -> None:
        """Raise ShapeError if the operator does not apply to these arguments."""

    @classmethod
    def vanishes(cls, *args: sp.Expr) -> bool:
        """Whether the node is zero because an argument is: zero has every shape."""
        return any(arg == 0 for arg in args)

    @property
    def func(self) -> Callable[..., sp.Expr]:
        return type(self).hold if self.held else type(self)

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        return self.args, {"evaluate": not self.held}

    @property
    def shape(self) -> Shape:
        raise NotImplementedError

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set().union(*(arg.free_symbols for arg in self.args)) | {*COORDINATES}

    def __getitem__(self, index: int) -> sp.Expr:
        return NORMAL_FORMS[Component](self, index)

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        if isinstance(s, sp.Symbol):
            # All operators are linear in each argument and commute with partial derivatives, which
            # go innermost.
            parts = [
                self.func(*self.args[:i], arg.diff(s), *self.args[i + 1 :])
                for i, arg in enumerate(self.args)
            ]
            return sp.Add(*parts)
        return sp.S.One if s == self else sp.S.Zero

    def doit(self, **hints: object) -> sp.Expr:
        args = [arg.doit(**hints) for arg in self.args] if hints.get("deep", True) else self.args
        return type(self)(*args)

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.symbol}({', '.join(printer._print(arg) for arg in self.args)})"

    def _latex_args(self, printer: Printer) -> list[str]:
        return [
            printer._print(arg) if reads_as_one(arg) else rf"\left({printer._print(arg)}\right)"
            for arg in self.args
        ]


class LinearOperator(Node):
    """A linear first- or second-order differential operator acting on one expression."""

    __slots__ = ()
    latex_symbol = "?"

    def _latex(self, printer: Printer) -> str:
        return f"{self._latex_operator()} {self._latex_args(printer)[0]}"

    def _latex_operator(self) -> str:
        return self.latex_symbol


class Grad(LinearOperator):
    """Gradient. `grad(x)` of a coordinate is the unit vector along it."""

    __slots__ = ()
    symbol = "grad"
    latex_symbol = r"\nabla"

    @classmethod
    def check(cls, arg: sp.Expr) -> None:
        if len(shape_of(arg)) > 1:
            raise ShapeError(f"grad of a tensor is not supported: {arg}")

    @property
    def shape(self) -> Shape:
        shape = shape_of(self.args[0])
        return (*shape, shape[0]) if shape else (dimension_of(self.args[0]),)

    @property
    def is_identity(self) -> bool:
        """Whether it is the gradient of the place, the identity tensor."""
        place = self.args[0]
        return isinstance(place, Vec) and place.args == COORDINATES[: len(place.args)]

    def _sympystr(self, printer: Printer) -> str:
        named = f"identity({len(self.args[0].args)})" if self.is_identity else None
        return named or super()._sympystr(printer)

    def _latex(self, printer: Printer) -> str:
        return r"\mathbf{I}" if self.is_identity else super()._latex(printer)


class Div(LinearOperator):
    """Divergence of a vector or (row-wise) of a tensor."""

    __slots__ = ()
    symbol = "div"
    latex_symbol = r"\nabla \cdot"

    @classmethod
    def check(cls, arg: sp.Expr) -> None:
        if shape_of(arg) == () and arg != 0:
            raise ShapeError(f"div takes a vector or tensor, but {arg} is a scalar")

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[:-1]


class Curl(LinearOperator):
    """Curl: 3D vector to vector, 2D vector to scalar, 2D scalar to (∂u/∂y, −∂u/∂x)."""

    __slots__ = ()
    symbol = "curl"

    @classmethod
    def check(cls, arg: sp.Expr) -> None:
        shape = shape_of(arg)
        if len(shape) > 1:
            raise ShapeError(f"curl of a tensor is not supported: {arg}")
        if (
            shape == (1,)
            or dimension_of(arg) == 1
            or (shape == () and dimension_of(arg) == 3 and arg != 0)
        ):
            raise ShapeError(
                f"curl takes a 3D vector, a 2D vector or a 2D scalar, but {arg} is none of them"
            )

    @property
    def shape(self) -> Shape:
        shape = shape_of(self.args[0])
        if shape == ():
            return (2,)
        if shape[0] is None:
            raise AmbiguousShape(
                f"curl({self.args[0]}) is a scalar in 2D and a vector in 3D; give a field its dim"
            )
        return () if shape[0] == 2 else shape

    def _latex_operator(self) -> str:
        # The rotated gradient of a 2D scalar is a different operator from the curl of a vector.
        return r"\nabla^{\perp}" if shape_of(self.args[0]) == () else r"\nabla \times"


class Lap(LinearOperator):
    """Laplacian of a scalar or (componentwise) of a vector."""

    __slots__ = ()
    symbol = "lap"
    latex_symbol = r"\Delta"

    @classmethod
    def check(cls, arg: sp.Expr) -> None:
        if len(shape_of(arg)) > 1:
            raise ShapeError(f"lap of a tensor is not supported: {arg}")

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])


class Product(Node):
    """A product that is linear in each of its two factors."""

    __slots__ = ()
    latex_symbol = "?"

    def _latex(self, printer: Printer) -> str:
        left, right = self._latex_args(printer)
        return f"{left} {self.latex_symbol} {right}"


class Dot(Product):
    """Contraction of the last index of `a` with the first of `b`; symmetric for two vectors."""

    __slots__ = ()
    symbol = "dot"
    latex_symbol = r"\cdot"

    @classmethod
    def check(cls, a: sp.Expr, b: sp.Expr) -> None:
        if 0 in (a, b):
            return
        sa, sb = shape_of(a), shape_of(b)
        if not sa or not sb:
            raise ShapeError(
                f"dot takes vectors or tensors, but got the {rank_name(sa)} {a} and the "
                f"{rank_name(sb)} {b}"
            )
        unify((sa[-1],), (sb[0],), f"dot({a}, {b})")

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[:-1] + shape_of(self.args[1])[1:]

    def _latex(self, printer: Printer) -> str:
        a, b = self.args
        if a == b and self.shape == ():
            return rf"\left|{printer._print(a)}\right|^{{2}}"
        if isinstance(a, Grad) and self.shape != ():
            # The convection (b·∇)v as it is written by hand.
            direction, argument = self._latex_args(printer)[1], Node._latex_args(a, printer)[0]
            return rf"\left({direction} \cdot \nabla\right) {argument}"
        # A gradient in a scalar product cannot be misread: E · ∇u.
        left, right = (
            printer._print(arg) if isinstance(arg, Grad) else text
            for arg, text in zip(self.args, self._latex_args(printer), strict=True)
        )
        return rf"{left} \cdot {right}"


class Inner(Product):
    """Full contraction of two tensors; for vectors it is `dot`, for scalars the product."""

    __slots__ = ()
    symbol = "inner"
    latex_symbol = ":"

    @classmethod
    def check(cls, a: sp.Expr, b: sp.Expr) -> None:
        if 0 not in (a, b):
            unify(shape_of(a), shape_of(b), f"inner({a}, {b})")

    @property
    def shape(self) -> Shape:
        return ()


class Cross(Product):
    """Cross product: a vector in 3D, a scalar in 2D. Antisymmetric."""

    __slots__ = ()
    symbol = "cross"
    latex_symbol = r"\times"

    @classmethod
    def check(cls, a: sp.Expr, b: sp.Expr) -> None:
        if 0 in (a, b):
            return
        sa, sb = shape_of(a), shape_of(b)
        if len(sa) != 1 or len(sb) != 1 or unify(sa, sb, f"cross({a}, {b})") == (1,):
            raise ShapeError(f"cross takes two vectors of 2 or 3 components, not {a} and {b}")

    @property
    def shape(self) -> Shape:
        shape = unify(shape_of(self.args[0]), shape_of(self.args[1]), self)
        if shape[0] is None:
            raise AmbiguousShape(
                f"{self} is a scalar in 2D and a vector in 3D; give a field its dim"
            )
        return () if shape[0] == 2 else shape


class Outer(Product):
    """Outer product of two vectors: outer(a, b)[i, j] = a_i b_j."""

    __slots__ = ()
    symbol = "outer"
    latex_symbol = r"\otimes"

    @classmethod
    def check(cls, a: sp.Expr, b: sp.Expr) -> None:
        if 0 not in (a, b) and (len(shape_of(a)) != 1 or len(shape_of(b)) != 1):
            raise ShapeError(f"outer takes two vectors, not {a} and {b}")

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0]) + shape_of(self.args[1])


class TensorMap(LinearOperator):
    """A pointwise linear map of tensors: transpose, symmetric part, trace."""

    __slots__ = ()

    @classmethod
    def check(cls, arg: sp.Expr) -> None:
        if len(shape_of(arg)) != 2 and arg != 0:
            raise ShapeError(
                f"{cls.symbol} takes a tensor such as grad(v), but {arg} is a "
                f"{rank_name(shape_of(arg))}"
            )

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])

    def _latex(self, printer: Printer) -> str:
        return rf"{self.latex_symbol}\left({printer._print(self.args[0])}\right)"


class Transpose(TensorMap):
    """Transpose of a tensor."""

    __slots__ = ()
    symbol = "transpose"

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[::-1]

    def _latex(self, printer: Printer) -> str:
        return rf"\left({printer._print(self.args[0])}\right)^{{\mathsf T}}"


class Sym(TensorMap):
    """Symmetric part (A + Aᵀ)/2 of a tensor."""

    __slots__ = ()
    symbol = "sym"
    latex_symbol = r"\operatorname{sym}"


class TensorTrace(TensorMap):
    """Trace of a tensor; the trace of a gradient is the divergence."""

    __slots__ = ()
    symbol = "trace"
    latex_symbol = r"\operatorname{tr}"

    @property
    def shape(self) -> Shape:
        return ()


class ByEntries(Node):
    """A vector or tensor given by its scalar entries."""

    __slots__ = ()

    @classmethod
    def vanishes(cls, *parts: sp.Expr) -> bool:
        return all(part == 0 for part in parts)

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        return type(self)(*(part.diff(s) for part in self.args))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set().union(*(arg.free_symbols for arg in self.args))


class Vec(ByEntries):
    """A vector given by its scalar components."""

    __slots__ = ()
    symbol = "vector"

    @classmethod
    def check(cls, *parts: sp.Expr) -> None:
        if len(parts) not in (1, 2, 3):
            raise ShapeError(f"a vector has 1, 2 or 3 components, not {len(parts)}")
        for part in parts:
            if shape_of(part) != ():
                raise ShapeError(
                    f"the components of a vector are scalars, but {part} is a "
                    f"{rank_name(shape_of(part))}"
                )

    @property
    def shape(self) -> Shape:
        return (len(self.args),)

    def _latex(self, printer: Printer) -> str:
        return rf"\left({', '.join(printer._print(part) for part in self.args)}\right)"


def reads_as_one(expr: sp.Expr) -> bool:
    """Whether the LaTeX of an operator's argument needs no brackets around it."""
    bracketed = isinstance(expr, Vec | TensorMap) or (
        isinstance(expr, sp.Function) and not isinstance(expr, sp.Piecewise)
    )
    return bracketed or (expr.is_Atom and not expr.is_negative) or isinstance(expr, Component)


def as_expr(value: object) -> sp.Expr:
    """An expression from a number, a SymPy object, a tuple or matrix as a vector or tensor."""
    if isinstance(value, sp.MatrixBase):
        return Vec(*value) if 1 in value.shape else NORMAL_FORMS[sp.MatrixBase](value.tolist())
    if isinstance(value, Sequence | sp.Tuple) and not isinstance(value, str):
        nested = any(isinstance(part, Sequence | sp.Tuple) for part in value)
        return NORMAL_FORMS[sp.MatrixBase](value) if nested else Vec(*value)
    if isinstance(value, str):
        raise TypeError(f"{value!r} is a string; use cffem.parse to read terms from text")
    refuse_foreign(value)
    expr = value if isinstance(value, sp.Basic) else sp.sympify(value, strict=True)
    if isinstance(expr, Relational):
        raise SymbolError(
            f"{value!r} is not an expression: inequalities have no solver here; add a term that "
            "drives the field back, such as Max(-u, 0) with a large coefficient"
        )
    if not isinstance(expr, sp.Expr):
        raise SymbolError(f"{value!r} is not an expression but a {type(value).__name__}")
    return expr


def dimensions(expr: sp.Expr) -> set[int]:
    """The dimensions of space that parts of the expression ask for; more than one is wrong."""
    found = {field.dim for field in expr.atoms(Field) if field.dim is not None}
    found |= {node.shape[0] for node in expr.atoms(ByEntries)}
    found |= {known.shape[0] for known in expr.atoms(Known) if known.shape}
    rotated = any(shape_of(node.args[0]) == () for node in expr.atoms(Curl))
    return found | ({2} if rotated else set())


def dimension_of(expr: sp.Expr) -> int | None:
    """The dimension of space an expression lives in, where one of its fields or vectors tells."""
    dims = dimensions(expr)
    if len(dims) > 1:
        raise ShapeError(f"{expr} mixes fields of different dimensions {sorted(dims)}")
    return dims.pop() if dims else None
