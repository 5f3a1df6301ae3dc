"""Differential operators and products as SymPy nodes, brought into a normal form when they are built.

Safe identities are applied at once: operators are linear, products and functions differentiate by the product and chain rules,
div curl = 0, curl grad = 0, div grad = lap, partial derivatives go innermost. Coefficients that jump (`Piecewise`, `Heaviside` in the
coordinates) are not differentiated: `div(a*grad(u))` then stays a divergence, as the physics means it. `evaluate=False` keeps any
operator as written, for instance to integrate `div(u*b)` by parts as a divergence.

Conventions are UFL's: grad(v)[i, j] = dv_i/dx_j, div contracts the last index, dot(grad(v), v) = (v·∇)v. In 2D, curl of a vector is a
scalar, curl of a scalar is the vector (∂u/∂y, −∂u/∂x), and cross of two vectors is a scalar.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy as sp
from sympy.core.sorting import default_sort_key

from cffem.symbols.coordinates import COORDINATES, SPACE, t
from cffem.symbols.errors import ShapeError
from cffem.symbols.fields import Component, CoordinateFunction, Field, VectorField
from cffem.symbols.shapes import Shape, rank_name, shape_of, unify

JUMPS = (sp.Piecewise, sp.Heaviside, sp.sign, sp.floor, sp.ceiling)


class Node(CoordinateFunction):
    """Base of all operator nodes: an indivisible function of the coordinates with a shape."""

    __slots__ = ()
    symbol = "?"

    @property
    def shape(self) -> Shape:
        raise NotImplementedError

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set().union(*(arg.free_symbols for arg in self.args)) | {*COORDINATES}

    def _sympystr(self, printer: Any) -> str:
        return f"{self.symbol}({', '.join(printer._print(arg) for arg in self.args)})"

    def _latex_args(self, printer: Any) -> list[str]:
        return [printer.parenthesize(arg, 100) for arg in self.args]


class LinearOperator(Node):
    """A linear first- or second-order differential operator acting on one expression."""

    __slots__ = ()
    latex_symbol = "?"

    def __new__(cls, arg: Any, evaluate: bool = True) -> sp.Expr:
        arg = as_expr(arg)
        cls.check(shape_of(arg), arg)
        if not evaluate:
            return sp.Expr.__new__(cls, arg)
        return cls.normal_form(arg)

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        """Raise ShapeError if the operator does not apply to this shape."""

    @classmethod
    def normal_form(cls, arg: sp.Expr) -> sp.Expr:
        arg = sp.expand_mul(arg)
        if isinstance(arg, sp.Add):
            return sp.Add(*(cls(a) for a in arg.args))
        constant, rest = split_constant(arg)
        if constant != 1:
            return constant * cls(rest)
        if not depends_on_space(arg):
            return sp.S.Zero
        return cls.of_monomial(arg)

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        """Normal form for an argument that is neither a sum nor has a constant factor."""
        return sp.Expr.__new__(cls, arg)

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        if s in COORDINATES:
            # Partial derivatives commute with every operator here and go innermost.
            return type(self)(self.args[0].diff(s))
        return super()._eval_derivative(s)

    def doit(self, **hints: Any) -> sp.Expr:
        return type(self)(self.args[0].doit(**hints) if hints.get("deep", True) else self.args[0])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = f"{self.latex_symbol} {self._latex_args(printer)[0]}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Grad(LinearOperator):
    """Gradient. `grad(x)` of a coordinate is the unit vector along it."""

    __slots__ = ()
    symbol = "grad"
    latex_symbol = r"\nabla"

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        if len(shape) > 1:
            raise ShapeError(f"grad of a tensor is not supported: {arg}")

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        scalar, tensor = split_scalar(arg)
        if tensor == 1:
            return chain_rule(cls, scalar)
        if scalar == 1 or has_jump(scalar):
            return sp.Expr.__new__(cls, arg)
        return scalar * cls(tensor) + outer(tensor, cls(scalar))

    @property
    def shape(self) -> Shape:
        shape = shape_of(self.args[0])
        return (*shape, shape[0]) if shape else (dimension_of(self.args[0]),)


class Div(LinearOperator):
    """Divergence of a vector or (row-wise) of a tensor."""

    __slots__ = ()
    symbol = "div"
    latex_symbol = r"\nabla \cdot"

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        if shape == () and arg != 0:
            raise ShapeError(f"div takes a vector or tensor, but {arg} is a scalar")

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        scalar, tensor = split_scalar(arg)
        if scalar != 1:
            if has_jump(scalar):
                return sp.Expr.__new__(cls, arg)
            return scalar * cls(tensor) + dot(tensor, Grad(scalar))
        if isinstance(arg, Grad):
            return sp.S.Zero if arg.args[0] in SPACE else Lap(arg.args[0])
        if isinstance(arg, Curl):
            return sp.S.Zero
        if isinstance(arg, Cross):
            a, b = arg.args
            return dot(b, curl(a)) - dot(a, curl(b))
        if isinstance(arg, Outer):
            a, b = arg.args
            return dot(Grad(a), b) + a * cls(b)
        if isinstance(arg, Vec):
            return sp.Add(*(c.diff(s) for c, s in zip(arg.args, SPACE, strict=False)))
        if isinstance(arg, Transpose) and isinstance(arg.args[0], Grad):
            return Grad(cls(arg.args[0].args[0]))
        return sp.Expr.__new__(cls, arg)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[:-1]


class Curl(LinearOperator):
    """Curl: of a 3D vector a vector, of a 2D vector a scalar, of a 2D scalar the vector (∂u/∂y, −∂u/∂x)."""

    __slots__ = ()
    symbol = "curl"
    latex_symbol = r"\nabla \times"

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        if len(shape) > 1:
            raise ShapeError(f"curl of a tensor is not supported: {arg}")
        if shape == (1,) or dimension_of(arg) == 1 or (shape == () and dimension_of(arg) == 3 and arg != 0):
            raise ShapeError(f"curl takes a 3D vector, a 2D vector or a 2D scalar, but {arg} is none of them")

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        scalar, tensor = split_scalar(arg)
        if tensor == 1:
            return chain_rule(cls, scalar)
        if scalar != 1:
            if has_jump(scalar):
                return sp.Expr.__new__(cls, arg)
            return scalar * cls(tensor) + cross(Grad(scalar), tensor)
        if isinstance(arg, Grad):
            return sp.S.Zero
        if isinstance(arg, Vec):
            return curl_of_components(arg.args)
        return sp.Expr.__new__(cls, arg)

    @property
    def shape(self) -> Shape:
        shape = shape_of(self.args[0])
        if shape == ():
            return (2,)
        if shape[0] is None:
            raise ShapeError(f"curl({self.args[0]}) is a scalar in 2D and a vector in 3D; give a field its dim")
        return () if shape[0] == 2 else shape


class Lap(LinearOperator):
    """Laplacian of a scalar or (componentwise) of a vector."""

    __slots__ = ()
    symbol = "lap"
    latex_symbol = r"\Delta"

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        if len(shape) > 1:
            raise ShapeError(f"lap of a tensor is not supported: {arg}")

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        scalar, tensor = split_scalar(arg)
        if tensor == 1:
            return laplacian_chain_rule(scalar)
        if scalar != 1:
            if has_jump(scalar):
                return sp.Expr.__new__(cls, arg)
            return scalar * cls(tensor) + 2 * dot(Grad(tensor), Grad(scalar)) + tensor * cls(scalar)
        if isinstance(arg, Grad) and arg.args[0] in SPACE:
            return sp.S.Zero
        if isinstance(arg, Grad | Curl | Div):
            # The Laplacian commutes with them and goes innermost.
            return type(arg)(cls(arg.args[0]))
        if isinstance(arg, Vec):
            return Vec(*(cls(c) for c in arg.args))
        return sp.Expr.__new__(cls, arg)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])


class Dot(Node):
    """Contraction of the last index of `a` with the first of `b`; symmetric for two vectors."""

    __slots__ = ()
    symbol = "dot"

    def __new__(cls, a: Any, b: Any, evaluate: bool = True) -> sp.Expr:
        a, b = as_expr(a), as_expr(b)
        if 0 in (a, b):
            return sp.S.Zero
        sa, sb = shape_of(a), shape_of(b)
        if not sa or not sb:
            raise ShapeError(f"dot takes vectors or tensors, but got the {rank_name(sa)} {a} and the {rank_name(sb)} {b}")
        unify((sa[-1],), (sb[0],), f"dot({a}, {b})")
        if not evaluate:
            return sp.Expr.__new__(cls, a, b)
        return bilinear(cls, a, b)

    @classmethod
    def of_pair(cls, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        vectors = len(shape_of(a)) == len(shape_of(b)) == 1
        for unit, other in ((a, b), (b, a)) if vectors else ():
            if isinstance(unit, Grad) and unit.args[0] in SPACE and has_components(other):
                return component(other, SPACE.index(unit.args[0]))
        if isinstance(a, Vec) and isinstance(b, Vec):
            return sp.Add(*(p * q for p, q in zip(a.args, b.args, strict=True)))
        for vec, other in ((a, b), (b, a)) if vectors else ():
            if isinstance(vec, Vec) and isinstance(other, Grad):
                return sp.Add(*(c * component(other, i) for i, c in enumerate(vec.args)))
        if isinstance(b, Grad) and b.args[0] in SPACE and isinstance(a, Grad) and len(a.shape) == 2:
            return a.args[0].diff(b.args[0])
        if vectors:
            a, b = sorted((a, b), key=default_sort_key)
        return sp.Expr.__new__(cls, a, b)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[:-1] + shape_of(self.args[1])[1:]

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = r"{} \cdot {}".format(*self._latex_args(printer))
        if self.args[0] == self.args[1] and self.shape == ():
            body = rf"\left|{printer._print(self.args[0])}\right|^{{2}}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Inner(Node):
    """Full contraction of two tensors; for vectors it is `dot`, for scalars the product."""

    __slots__ = ()
    symbol = "inner"

    def __new__(cls, a: Any, b: Any, evaluate: bool = True) -> sp.Expr:
        a, b = as_expr(a), as_expr(b)
        if 0 in (a, b):
            return sp.S.Zero
        shape = unify(shape_of(a), shape_of(b), f"inner({a}, {b})")
        if len(shape) < 2:
            return Dot(a, b) if shape else a * b
        if not evaluate:
            return sp.Expr.__new__(cls, a, b)
        return bilinear(cls, a, b)

    @classmethod
    def of_pair(cls, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        return sp.Expr.__new__(cls, *sorted((a, b), key=default_sort_key))

    @property
    def shape(self) -> Shape:
        return ()

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = "{} : {}".format(*self._latex_args(printer))
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Cross(Node):
    """Cross product: a vector in 3D, a scalar in 2D. Antisymmetric."""

    __slots__ = ()
    symbol = "cross"

    def __new__(cls, a: Any, b: Any, evaluate: bool = True) -> sp.Expr:
        a, b = as_expr(a), as_expr(b)
        if 0 in (a, b):
            return sp.S.Zero
        sa, sb = shape_of(a), shape_of(b)
        if len(sa) != 1 or len(sb) != 1 or unify(sa, sb, f"cross({a}, {b})") == (1,):
            raise ShapeError(f"cross takes two vectors of 2 or 3 components, not {a} and {b}")
        if not evaluate:
            return sp.Expr.__new__(cls, a, b)
        return bilinear(cls, a, b)

    @classmethod
    def of_pair(cls, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        if a == b:
            return sp.S.Zero
        if isinstance(a, Vec) and isinstance(b, Vec):
            return cross_of_components(a.args, b.args)
        first, second = sorted((a, b), key=default_sort_key)
        node = sp.Expr.__new__(cls, first, second)
        return node if first == a else -node

    @property
    def shape(self) -> Shape:
        shape = unify(shape_of(self.args[0]), shape_of(self.args[1]), self)
        if shape[0] is None:
            raise ShapeError(f"{self} is a scalar in 2D and a vector in 3D; give a field its dim")
        return () if shape[0] == 2 else shape

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = r"{} \times {}".format(*self._latex_args(printer))
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Outer(Node):
    """Outer product of two vectors: outer(a, b)[i, j] = a_i b_j."""

    __slots__ = ()
    symbol = "outer"

    def __new__(cls, a: Any, b: Any, evaluate: bool = True) -> sp.Expr:
        a, b = as_expr(a), as_expr(b)
        if 0 in (a, b):
            return sp.S.Zero
        if len(shape_of(a)) != 1 or len(shape_of(b)) != 1:
            raise ShapeError(f"outer takes two vectors, not {a} and {b}")
        if not evaluate:
            return sp.Expr.__new__(cls, a, b)
        return bilinear(cls, a, b)

    @classmethod
    def of_pair(cls, a: sp.Expr, b: sp.Expr) -> sp.Expr:
        return sp.Expr.__new__(cls, a, b)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0]) + shape_of(self.args[1])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return r"{} \otimes {}".format(*self._latex_args(printer))


class TensorMap(LinearOperator):
    """A pointwise linear map of tensors: transpose, symmetric part, trace."""

    __slots__ = ()

    @classmethod
    def check(cls, shape: Shape, arg: sp.Expr) -> None:
        if len(shape) != 2 and arg != 0:
            raise ShapeError(f"{cls.symbol} takes a tensor such as grad(v), but {arg} is a {rank_name(shape)}")

    @classmethod
    def normal_form(cls, arg: sp.Expr) -> sp.Expr:
        arg = sp.expand_mul(arg)
        if isinstance(arg, sp.Add):
            return sp.Add(*(cls(a) for a in arg.args))
        scalar, tensor = split_scalar(arg)
        return scalar * cls.of_monomial(tensor) if arg != 0 else sp.S.Zero


class Transpose(TensorMap):
    """Transpose of a tensor."""

    __slots__ = ()
    symbol = "transpose"

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        if isinstance(arg, Transpose):
            return arg.args[0]
        if isinstance(arg, Outer):
            return Outer(arg.args[1], arg.args[0])
        return arg if isinstance(arg, Sym) else sp.Expr.__new__(cls, arg)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])[::-1]

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\left({printer._print(self.args[0])}\right)^{{\mathsf T}}"


class Sym(TensorMap):
    """Symmetric part (A + Aᵀ)/2 of a tensor."""

    __slots__ = ()
    symbol = "sym"

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        if isinstance(arg, Sym):
            return arg
        return sp.Expr.__new__(cls, arg.args[0] if isinstance(arg, Transpose) else arg)

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\operatorname{{sym}} {self._latex_args(printer)[0]}"


class Trace(TensorMap):
    """Trace of a tensor; the trace of a gradient is the divergence."""

    __slots__ = ()
    symbol = "trace"

    @classmethod
    def of_monomial(cls, arg: sp.Expr) -> sp.Expr:
        if isinstance(arg, Sym | Transpose):
            return cls(arg.args[0])
        if isinstance(arg, Grad):
            return Div(arg.args[0])
        if isinstance(arg, Outer):
            return Dot(*arg.args)
        return sp.Expr.__new__(cls, arg)

    @property
    def shape(self) -> Shape:
        return ()

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body = rf"\operatorname{{tr}} {self._latex_args(printer)[0]}"
        return body if exp is None else rf"\left({body}\right)^{{{exp}}}"


class Vec(Node):
    """A vector given by its scalar components."""

    __slots__ = ()
    symbol = "vector"
    __iter__ = None

    def __new__(cls, *components: Any) -> sp.Expr:
        parts = [as_expr(c) for c in components]
        if len(parts) not in (1, 2, 3):
            raise ShapeError(f"a vector has 1, 2 or 3 components, not {len(parts)}")
        for part in parts:
            if shape_of(part) != ():
                raise ShapeError(f"the components of a vector are scalars, but {part} is a {rank_name(shape_of(part))}")
        return sp.S.Zero if all(p == 0 for p in parts) else sp.Expr.__new__(cls, *parts)

    def __getitem__(self, index: int) -> sp.Expr:
        return self.args[index]

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        return Vec(*(c.diff(s) for c in self.args))

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set().union(*(arg.free_symbols for arg in self.args))

    @property
    def shape(self) -> Shape:
        return (len(self.args),)

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        return rf"\left({', '.join(printer._print(c) for c in self.args)}\right)"


class Normal(CoordinateFunction, sp.core.expr.AtomicExpr):
    """The outward unit normal of the boundary, for boundary terms."""

    __slots__ = ()

    @property
    def shape(self) -> Shape:
        return (None,)

    def _sympystr(self, printer: Any) -> str:
        return "n"

    def _latex(self, printer: Any) -> str:
        return r"\mathbf{n}"


n = Normal()


# ---------------------------------------------------------------------------------------------------------------------------------
# How normal forms are found


def as_expr(value: Any) -> sp.Expr:
    """Turn a user's value into an expression: numbers, SymPy objects, and tuples or matrices as vectors."""
    if isinstance(value, sp.Expr):
        return value
    if isinstance(value, sp.MatrixBase):
        return Vec(*value)
    if isinstance(value, Sequence | sp.Tuple) and not isinstance(value, str):
        return Vec(*value)
    if isinstance(value, str):
        raise TypeError(f"{value!r} is a string; use cffem.parse to read terms from text")
    return sp.sympify(value, strict=True)


def is_atom(expr: sp.Basic) -> bool:
    """Whether the chain rule stops at this node."""
    return isinstance(expr, CoordinateFunction | sp.Derivative) or expr in SPACE


def depends_on_space(expr: sp.Expr) -> bool:
    """Whether an expression varies in space (fields always do)."""
    return bool(expr.free_symbols & {*SPACE})


def has_jump(expr: sp.Expr) -> bool:
    """Whether a coefficient jumps in space, so that the product rule would lose a surface term."""
    return any(depends_on_space(node) for node in expr.atoms(*JUMPS))


def split_constant(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Split a monomial into a factor constant in space and the rest."""
    constant, rest = [], []
    for factor in sp.Mul.make_args(expr):
        (rest if depends_on_space(factor) or shape_of(factor) != () else constant).append(factor)
    return sp.Mul(*constant), sp.Mul(*rest)


def split_scalar(expr: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """Split a monomial into its scalar factor and its vector or tensor factor (1 if it is a scalar)."""
    scalar, tensor = [], []
    for factor in sp.Mul.make_args(expr):
        (tensor if shape_of(factor) != () else scalar).append(factor)
    if len(tensor) > 1:
        shape_of(expr)
    return sp.Mul(*scalar), sp.Mul(*tensor)


def scalar_atoms(expr: sp.Expr) -> list[sp.Expr]:
    """The indivisible functions of space in a scalar expression, in a fixed order."""
    found: set[sp.Expr] = set()

    def visit(node: sp.Basic) -> None:
        if is_atom(node):
            found.add(node)
        else:
            for arg in node.args:
                visit(arg)

    visit(expr)
    return sorted(found, key=default_sort_key)


def chain_rule(operator: type[LinearOperator], expr: sp.Expr) -> sp.Expr:
    """operator(f(a, b, …)) = Σ ∂f/∂a operator(a), for the gradient and the 2D curl of a scalar."""
    if is_atom(expr) or has_jump(expr):
        return sp.Expr.__new__(operator, expr)
    atoms = scalar_atoms(expr)
    partials = partial_derivatives(expr, atoms)
    return sp.Add(*(f_a * sp.Expr.__new__(operator, a) for a, f_a in zip(atoms, partials, strict=True)))


def laplacian_chain_rule(expr: sp.Expr) -> sp.Expr:
    """lap f(a, b, …) = Σ ∂f/∂a lap(a) + Σ ∂²f/∂a∂b grad(a)·grad(b)."""
    if isinstance(expr, Div):
        return Div(Lap(expr.args[0]))
    if expr in SPACE:
        return sp.S.Zero
    if is_atom(expr) or has_jump(expr):
        return sp.Expr.__new__(Lap, expr)
    atoms = scalar_atoms(expr)
    first = partial_derivatives(expr, atoms)
    result = [f_a * Lap(a) for a, f_a in zip(atoms, first, strict=True)]
    for a, f_a in zip(atoms, first, strict=True):
        for b, f_ab in zip(atoms, partial_derivatives(f_a, atoms), strict=True):
            if f_ab != 0:
                result.append(f_ab * dot(sp.Expr.__new__(Grad, a), sp.Expr.__new__(Grad, b)))
    return sp.Add(*result)


def partial_derivatives(expr: sp.Expr, atoms: Iterable[sp.Expr]) -> list[sp.Expr]:
    """Derivatives of an expression with respect to each atom, the others held fixed."""
    atoms = list(atoms)
    dummies = {a: sp.Dummy(real=True) for a in atoms}
    back = {d: a for a, d in dummies.items()}
    plain = expr.xreplace(dummies)
    return [plain.diff(d).xreplace(back) for d in dummies.values()]


def bilinear(cls: Any, a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """Distribute a product over sums and pull scalar factors out."""
    terms = []
    for p in sp.Add.make_args(sp.expand_mul(a)):
        for q in sp.Add.make_args(sp.expand_mul(b)):
            (sa, va), (sb, vb) = split_scalar(p), split_scalar(q)
            terms.append(sa * sb * cls.of_pair(va, vb))
    return sp.Add(*terms)


def dimension_of(expr: sp.Expr) -> int | None:
    """The dimension of space an expression lives in, where one of its fields or vectors tells."""
    dims = {f.dim for f in expr.atoms(Field) if f.dim is not None} | {len(v.args) for v in expr.atoms(Vec)}
    if len(dims) > 1:
        raise ShapeError(f"{expr} mixes fields of different dimensions {sorted(dims)}")
    return dims.pop() if dims else None


def has_components(expr: sp.Expr) -> bool:
    """Whether `component` can take this vector apart."""
    return isinstance(expr, VectorField | Vec | Grad | sp.Derivative | Curl) and not (
        isinstance(expr, Curl) and expr.shape != (3,) and expr.shape != (2,)
    )


def component(expr: Any, index: int) -> sp.Expr:
    """The scalar component `index` of a vector expression.

    Example:
        >>> import cffem as cf
        >>> cf.component(cf.grad(cf.ScalarField("u")), 0)
        Derivative(u, x)
    """
    expr = sp.expand_mul(as_expr(expr))
    if expr == 0:
        return expr
    if isinstance(expr, sp.Add):
        return sp.Add(*(component(a, index) for a in expr.args))
    scalar, vector = split_scalar(expr)
    if scalar != 1:
        return scalar * component(vector, index)
    if isinstance(vector, VectorField):
        return Component(vector, index)
    if isinstance(vector, Vec):
        return vector.args[index]
    if isinstance(vector, sp.Derivative):
        return component(vector.expr, index).diff(*vector.variable_count)
    if isinstance(vector, Grad) and len(vector.shape) == 1:
        return vector.args[0].diff(SPACE[index])
    if isinstance(vector, Lap):
        return Lap(component(vector.args[0], index))
    if isinstance(vector, Curl):
        inner = vector.args[0]
        if shape_of(inner) == ():
            return (inner.diff(SPACE[1]), -inner.diff(SPACE[0]))[index]
        return component(curl_of_components([component(inner, i) for i in range(3)]), index)
    if isinstance(vector, Cross):
        a, b = ([component(v, i) for i in range(3)] for v in vector.args)
        return component(cross_of_components(a, b), index)
    if isinstance(vector, Dot) and isinstance(vector.args[0], Grad):
        tensor, direction = vector.args
        dim = dimension_of(vector)
        part = component(tensor.args[0], index)
        return sp.Add(*(part.diff(SPACE[i]) * component(direction, i) for i in range(dim)))
    raise ShapeError(f"{vector} has no components that can be written out")


def curl_of_components(parts: Sequence[sp.Expr]) -> sp.Expr:
    """Curl of a vector given by components (2D: a scalar)."""
    ex, ey, *rest = parts
    if not rest:
        return ey.diff(SPACE[0]) - ex.diff(SPACE[1])
    (ez,) = rest
    sx, sy, sz = SPACE
    return Vec(ez.diff(sy) - ey.diff(sz), ex.diff(sz) - ez.diff(sx), ey.diff(sx) - ex.diff(sy))


def cross_of_components(a: Sequence[sp.Expr], b: Sequence[sp.Expr]) -> sp.Expr:
    """Cross product of two vectors given by components (2D: a scalar)."""
    if len(a) == 2:
        return a[0] * b[1] - a[1] * b[0]
    return Vec(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


# ---------------------------------------------------------------------------------------------------------------------------------
# The words users write


def grad(expr: Any, evaluate: bool = True) -> sp.Expr:
    """Gradient of a scalar (a vector) or of a vector (a tensor, grad(v)[i, j] = ∂v_i/∂x_j)."""
    return Grad(expr, evaluate=evaluate)


def div(expr: Any, evaluate: bool = True) -> sp.Expr:
    """Divergence of a vector, or row by row of a tensor."""
    return Div(expr, evaluate=evaluate)


def curl(expr: Any, evaluate: bool = True) -> sp.Expr:
    """Curl of a 3D vector, of a 2D vector (a scalar) or of a 2D scalar (a vector)."""
    return Curl(expr, evaluate=evaluate)


def lap(expr: Any, evaluate: bool = True) -> sp.Expr:
    """Laplacian of a scalar or, componentwise, of a vector."""
    return Lap(expr, evaluate=evaluate)


def dt(expr: Any) -> sp.Expr:
    """Time derivative; `dt(dt(u))` is the second one."""
    return as_expr(expr).diff(t)


def dot(a: Any, b: Any) -> sp.Expr:
    """Scalar product of two vectors; with a tensor the usual matrix–vector product."""
    return Dot(a, b)


def inner(a: Any, b: Any) -> sp.Expr:
    """Full contraction of two expressions of the same shape."""
    return Inner(a, b)


def cross(a: Any, b: Any) -> sp.Expr:
    """Cross product of two 3D vectors (a vector) or two 2D vectors (a scalar)."""
    return Cross(a, b)


def outer(a: Any, b: Any) -> sp.Expr:
    """Outer product of two vectors."""
    return Outer(a, b)


def sym(a: Any) -> sp.Expr:
    """Symmetric part of a tensor."""
    return Sym(a)


def transpose(a: Any) -> sp.Expr:
    """Transpose of a tensor."""
    return Transpose(a)


def trace(a: Any) -> sp.Expr:
    """Trace of a tensor."""
    return Trace(a)


def norm2(a: Any) -> sp.Expr:
    """Squared Euclidean norm: `norm2(grad(u))` is |∇u|²."""
    a = as_expr(a)
    return inner(a, a)


def vector(*components: Any) -> sp.Expr:
    """A vector from scalar components: `vector(-y, x)`."""
    return Vec(*components)
