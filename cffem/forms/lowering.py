# SPDX-License-Identifier: MIT
"""The translation of SymPy expressions into UFL: a memoised visitor with one small handler per kind
of node.

A `Context` says what the symbols mean on a given mesh: which UFL expression stands for each field,
time derivative, parameter and the time t. Conventions agree on both sides: grad(v)[i, j] =
∂v_i/∂x_j, div contracts the last index, the curl of a plane vector is a scalar. Parameters are
meant to be UFL constants, so that a change of value compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce, singledispatchmethod
from typing import Any

import sympy as sp
import ufl
from sympy.core.function import AppliedUndef
from sympy.core.sympify import converter
from sympy.logic.boolalg import And, BooleanFalse, BooleanTrue, Not, Or
from ufl.constantvalue import Zero
from ufl.domain import extract_unique_domain

from cffem._compat import geometric_dimension
from cffem.forms.functions import COMPARISONS, FUNCTIONS
from cffem.forms.translation_errors import DimensionError, UnsupportedTerm
from cffem.symbols.algebra.foreign import refuse
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import COORDINATES, SPACE, t
from cffem.symbols.fields import Component, Field
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known, KnownEntry
from cffem.symbols.operators import (
    Cross,
    Curl,
    Det,
    Div,
    Dot,
    Grad,
    Inner,
    Inverse,
    Lap,
    Normal,
    Outer,
    Sym,
    Tensor,
    TensorTrace,
    Transpose,
    Vec,
)

# SymPy asks these before it tries to make a number of an unknown object.
for _kind in (ufl.core.expr.Expr, ufl.form.BaseForm):
    converter[_kind] = refuse

UflExpr = Any
# Powers up to this one are written as products.
MULTIPLIED = 6


@dataclass(frozen=True)
class Context:
    """What the symbols of a term mean on a mesh.

    Args:
        domain: the UFL domain of the mesh (a DOLFINx mesh's `ufl_domain()`).
        values: UFL expressions for fields, time derivatives `dt(u)`, parameters and `t`. A field
            may be a function, a test or trial function, or a component of a mixed function.
        data: what stands for a scalar function of the coordinates where it is multiplied, None for
            the function itself. Inside nonlinear functions and derivatives, data are as they are
            written.

    Example:
        >>> import basix.ufl, ufl, cffem as cf
        >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
        >>> space = ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "triangle", 2))
        >>> u, nu = cf.ScalarField("u"), cf.Parameter("nu")
        >>> context = Context(
        ...     domain, {u: ufl.Coefficient(space, count=0), nu: ufl.Constant(domain, count=0)}
        ... )
        >>> print(lower(nu * cf.lap(u), context))
        c_0 * (div(grad(w_0)))
    """

    domain: Any
    values: Mapping[sp.Expr, UflExpr] = field(default_factory=dict)
    data: Callable[[sp.Expr], UflExpr | None] | None = None

    def __post_init__(self) -> None:
        for symbol, value in self.values.items():
            if isinstance(symbol, Field):
                self._check_field(symbol, tuple(ufl.as_ufl(value).ufl_shape))

    @property
    def dimension(self) -> int:
        """The dimension of space."""
        return geometric_dimension(self.domain)

    def extended(self, values: Mapping[sp.Expr, UflExpr]) -> Context:
        """A context with further or replaced values."""
        return replace(self, values={**self.values, **values})

    def _check_field(self, symbol: Field, shape: tuple[int, ...]) -> None:
        if symbol.dim not in (None, self.dimension):
            raise DimensionError(
                f"the field has dimension {symbol.dim}, but the mesh has dimension "
                f"{self.dimension}",
                symbol,
            )
        if shape != symbol.shape:
            raise DimensionError(
                f"the field has shape {symbol.shape}, but its function has shape {shape}", symbol
            )


def lower(term: sp.Expr, context: Context) -> UflExpr:
    """Translate one term; see `Lowering` to translate many that share parts."""
    return Lowering(context)(term)


class Lowering:
    """Translates terms in one context, remembering every part it has translated.

    Args:
        context: the meaning of the symbols.
    """

    def __init__(self, context: Context):
        self.context = context
        self.dimension = context.dimension
        self.plain = self if context.data is None else Lowering(replace(context, data=None))
        self._memo: dict[sp.Basic, UflExpr] = {}

    def __call__(self, term: sp.Expr) -> UflExpr:
        """The UFL expression of a term; `UnsupportedTerm` names what has no translation."""
        try:
            return ufl.as_ufl(self.visit(term))
        except UnsupportedTerm as error:
            raise error.within(term) from None

    def visit(self, node: sp.Basic) -> UflExpr:
        """The translation of a node, looked up before it is made."""
        if node not in self._memo:
            known = node in self.context.values
            self._memo[node] = (
                self.context.values[node]
                if known
                else self.of_data(node)
                if self.is_data(node)
                else self.lower(node)
            )
        return self._memo[node]

    def is_data(self, node: sp.Basic) -> bool:
        """Whether a node is a scalar function of the coordinates, which may be replaced."""
        if self.context.data is None or not isinstance(node, sp.Expr) or node.is_Atom:
            return False
        return (
            node.free_symbols <= {*COORDINATES}
            and bool(node.free_symbols & {*SPACE})
            and shape_of(node) == ()
        )

    def of_data(self, node: sp.Expr) -> UflExpr:
        """What stands for data, or the data as they are written."""
        assert self.context.data is not None
        found = self.context.data(node)
        return self.plain.visit(node) if found is None else found

    def partial(self, f: UflExpr, direction: int) -> UflExpr:
        """∂f/∂x_i; zero for what does not vary in space."""
        f = ufl.as_ufl(f)
        return Zero(f.ufl_shape) if extract_unique_domain(f) is None else f.dx(direction)

    def gradient(self, f: UflExpr) -> UflExpr:
        """The gradient; zero for what does not vary in space."""
        f = ufl.as_ufl(f)
        return (
            Zero((*f.ufl_shape, self.dimension))
            if extract_unique_domain(f) is None
            else ufl.grad(f)
        )

    def divergence(self, f: UflExpr) -> UflExpr:
        """The divergence over the last index."""
        return Zero(f.ufl_shape[:-1]) if extract_unique_domain(f) is None else ufl.div(f)

    @singledispatchmethod
    def lower(self, node: sp.Basic) -> UflExpr:
        """Translate a node whose kind has a handler below."""
        raise UnsupportedTerm("it has no UFL counterpart", node)

    # Atoms
    # ----------------------------------------------------------------------------------------------

    @lower.register(sp.Number)
    @lower.register(sp.NumberSymbol)
    def number(self, node: sp.Number) -> UflExpr:
        if not node.is_finite:
            raise UnsupportedTerm("only finite real numbers can be used", node)
        return (
            ufl.as_ufl(int(node))
            if node.is_Integer and abs(node) < 2**31
            else ufl.as_ufl(float(node))
        )

    @lower.register(sp.Symbol)
    def symbol(self, node: sp.Symbol) -> UflExpr:
        if node not in SPACE:
            raise UnsupportedTerm(
                "the symbol has no value; declare it as a Parameter and give it one", node
            )
        self.check_coordinate(node)
        return ufl.SpatialCoordinate(self.context.domain)[SPACE.index(node)]

    def check_coordinate(self, node: sp.Symbol) -> None:
        """Refuse a coordinate that the mesh does not have."""
        if SPACE.index(node) >= self.dimension:
            raise DimensionError(
                f"a mesh of dimension {self.dimension} has no coordinate {node}", node
            )

    @lower.register(Field)
    def field(self, node: Field) -> UflExpr:
        raise UnsupportedTerm("the field has no function; give it one in the context", node)

    @lower.register(Known)
    def known(self, node: Known) -> UflExpr:
        raise UnsupportedTerm("the known field has no values; give it some in known={…}", node)

    @lower.register(KnownEntry)
    def known_entry(self, node: KnownEntry) -> UflExpr:
        return self.visit(node.known)[node.index]

    @lower.register(Component)
    def component(self, node: Component) -> UflExpr:
        return self.visit(node.field)[node.index]

    @lower.register(Normal)
    def normal(self, node: Normal) -> UflExpr:
        return ufl.FacetNormal(self.context.domain)

    @lower.register(AppliedUndef)
    def undefined_function(self, node: AppliedUndef) -> UflExpr:
        raise UnsupportedTerm(
            "an unspecified function cannot be evaluated; use a field or a formula", node
        )

    # Algebra
    # ----------------------------------------------------------------------------------------------

    @lower.register(sp.Add)
    def add(self, node: sp.Add) -> UflExpr:
        return reduce(lambda a, b: a + b, map(self.visit, node.args))

    @lower.register(sp.Mul)
    def multiply(self, node: sp.Mul) -> UflExpr:
        known = [factor for factor in node.args if self.is_data(factor) or factor in SPACE]
        if any(self.is_data(factor) for factor in known):
            # Data that stand together are one function.
            rest = sp.Mul(*(factor for factor in node.args if factor not in known))
            return self.of_data(sp.Mul(*known)) * self.visit(rest)
        numerator: list[sp.Expr] = []
        denominator: list[sp.Expr] = []
        for factor in node.args:
            divides = isinstance(factor, sp.Pow) and factor.exp.is_Number and factor.exp.is_negative
            (denominator if divides else numerator).append(1 / factor if divides else factor)
        result = reduce(lambda a, b: a * b, map(self.visit, numerator), ufl.as_ufl(1))
        return reduce(lambda a, b: a / b, map(self.visit, denominator), result)

    @lower.register(sp.Pow)
    def power(self, node: sp.Pow) -> UflExpr:
        if self.plain is not self:
            return self.plain.visit(node)
        base, exponent = node.args
        if exponent.is_Number and exponent.is_negative:
            return 1 / self.visit(base**-exponent)
        if exponent == sp.Rational(1, 2):
            return ufl.sqrt(self.visit(base))
        if exponent.is_Integer and exponent <= MULTIPLIED:
            # Compiled code multiplies several times faster than it calls pow.
            return reduce(lambda a, b: a * b, [self.visit(base)] * int(exponent))
        return self.visit(base) ** self.visit(exponent)

    @lower.register(sp.Function)
    def function(self, node: sp.Function) -> UflExpr:
        if type(node) not in FUNCTIONS:
            raise UnsupportedTerm("this function has no UFL counterpart", node)
        return FUNCTIONS[type(node)](*map(self.plain.visit, node.args))

    @lower.register(sp.Min)
    def minimum(self, node: sp.Min) -> UflExpr:
        return reduce(ufl.min_value, map(self.plain.visit, node.args))

    @lower.register(sp.Max)
    def maximum(self, node: sp.Max) -> UflExpr:
        return reduce(ufl.max_value, map(self.plain.visit, node.args))

    # Conditions
    # ----------------------------------------------------------------------------------------------

    @lower.register(sp.Piecewise)
    def piecewise(self, node: sp.Piecewise) -> UflExpr:
        *branches, (value, condition) = node.args
        if condition != sp.true:
            raise UnsupportedTerm(
                "it has no value where none of its conditions holds; end it with (value, True)",
                node,
            )
        if self.plain is not self:
            return self.by_parts_of_space(node)
        shape = max((self.as_shaped(v, ()).ufl_shape for v, _ in node.args), key=len)
        result = self.as_shaped(value, shape)
        for value, condition in reversed(branches):
            result = ufl.conditional(self.visit(condition), self.as_shaped(value, shape), result)
        return result

    def by_parts_of_space(self, node: sp.Piecewise) -> UflExpr:
        """Branches that contain fields, each times the indicator of where it holds; zero
        where the indicator is.
        """
        shape = max((self.plain.as_shaped(v, ()).ufl_shape for v, _ in node.args), key=len)
        before, result = sp.S.false, ufl.as_ufl(0.0) if shape == () else Zero(shape)
        for value, condition in node.args:
            here = sp.Piecewise((1, sp.And(condition, sp.Not(before))), (0, True))
            if not self.is_data(here):
                return self.plain.visit(node)
            indicator, branch = self.visit(here), self.plain.as_shaped(value, shape)
            outside = ufl.eq(indicator, ufl.as_ufl(0.0))
            result = result + ufl.conditional(outside, Zero(shape), indicator * branch)
            before = sp.Or(before, condition)
        return result

    def as_shaped(self, value: sp.Expr, shape: tuple[int, ...]) -> UflExpr:
        """A branch of a Piecewise; the zero vector is written 0."""
        return Zero(shape) if value == 0 else ufl.as_ufl(self.visit(value))

    @lower.register(sp.core.relational.Relational)
    def relation(self, node: sp.core.relational.Relational) -> UflExpr:
        return COMPARISONS[type(node)](*map(self.visit, node.args))

    @lower.register(And)
    def conjunction(self, node: And) -> UflExpr:
        return reduce(ufl.And, map(self.visit, node.args))

    @lower.register(Or)
    def disjunction(self, node: Or) -> UflExpr:
        return reduce(ufl.Or, map(self.visit, node.args))

    @lower.register(Not)
    def negation(self, node: Not) -> UflExpr:
        return ufl.Not(self.visit(node.args[0]))

    @lower.register(BooleanTrue)
    @lower.register(BooleanFalse)
    def truth(self, node: sp.Basic) -> UflExpr:
        return ufl.eq(ufl.as_ufl(1), ufl.as_ufl(1 if node else 0))

    # Derivatives
    # ----------------------------------------------------------------------------------------------

    @lower.register(sp.Derivative)
    def derivative(self, node: sp.Derivative) -> UflExpr:
        if self.plain is not self:
            return self.plain.visit(node)
        in_time = sum(int(count) for variable, count in node.variable_count if variable == t)
        inner = node.expr.diff((t, in_time)) if in_time else node.expr
        if inner == node:
            if isinstance(node.expr, Component):
                return self.visit(node.expr.field.diff((t, in_time)))[node.expr.index]
            raise UnsupportedTerm(
                "the time derivative has no value here; give it one in the context", node
            )
        result = self.visit(inner)
        for variable, count in node.variable_count:
            if variable in SPACE:
                self.check_coordinate(variable)
                for _ in range(int(count)):
                    result = self.partial(result, SPACE.index(variable))
            elif variable != t:
                raise UnsupportedTerm(
                    f"a derivative with respect to {variable} has no meaning here", node
                )
        return result

    @lower.register(Grad)
    def grad(self, node: Grad) -> UflExpr:
        return self.gradient(self.plain.visit(node.args[0]))

    @lower.register(Div)
    def div(self, node: Div) -> UflExpr:
        return self.divergence(self.plain.visit(node.args[0]))

    @lower.register(Lap)
    def lap(self, node: Lap) -> UflExpr:
        return self.divergence(self.gradient(self.plain.visit(node.args[0])))

    @lower.register(Curl)
    def curl(self, node: Curl) -> UflExpr:
        f = ufl.as_ufl(self.plain.visit(node.args[0]))
        if self.dimension == 1:
            raise DimensionError("there is no curl on an interval", node)
        if f.ufl_shape == ():
            return ufl.as_vector((self.partial(f, 1), -self.partial(f, 0)))
        if self.dimension == 2:
            return self.rotation(f, 0, 1)
        # Written out, because UFL's own curl fails on vectors with a constant component.
        return ufl.as_vector([self.rotation(f, i, j) for i, j in ((1, 2), (2, 0), (0, 1))])

    def rotation(self, f: UflExpr, i: int, j: int) -> UflExpr:
        """∂f_j/∂x_i − ∂f_i/∂x_j."""
        return self.partial(f[j], i) - self.partial(f[i], j)

    @lower.register(FormTerm)
    def given_form(self, node: FormTerm) -> UflExpr:
        raise UnsupportedTerm("it is given as a UFL form and has no formula", node)

    # Products and tensors
    # ----------------------------------------------------------------------------------------------

    @lower.register(Dot)
    def dot(self, node: Dot) -> UflExpr:
        return ufl.dot(*map(self.visit, node.args))

    @lower.register(Inner)
    def inner(self, node: Inner) -> UflExpr:
        return ufl.inner(*map(self.visit, node.args))

    @lower.register(Cross)
    def cross(self, node: Cross) -> UflExpr:
        a, b = map(self.visit, node.args)
        return ufl.cross(a, b) if self.dimension == 3 else a[0] * b[1] - a[1] * b[0]

    @lower.register(Outer)
    def outer(self, node: Outer) -> UflExpr:
        return ufl.outer(*map(self.visit, node.args))

    @lower.register(Transpose)
    def transpose(self, node: Transpose) -> UflExpr:
        return ufl.transpose(self.visit(node.args[0]))

    @lower.register(Sym)
    def sym(self, node: Sym) -> UflExpr:
        return ufl.sym(self.visit(node.args[0]))

    @lower.register(TensorTrace)
    def trace(self, node: TensorTrace) -> UflExpr:
        return ufl.tr(self.visit(node.args[0]))

    @lower.register(Det)
    def determinant(self, node: Det) -> UflExpr:
        return ufl.det(self.plain.visit(node.args[0]))

    @lower.register(Inverse)
    def inverse(self, node: Inverse) -> UflExpr:
        return ufl.inv(self.plain.visit(node.args[0]))

    @lower.register(Tensor)
    def tensor(self, node: Tensor) -> UflExpr:
        if node.shape[0] != self.dimension:
            raise DimensionError(
                f"a tensor of {node.shape[0]} rows on a mesh of dimension {self.dimension}", node
            )
        return ufl.as_tensor([[self.visit(part) for part in row] for row in node.rows])

    @lower.register(Vec)
    def vec(self, node: Vec) -> UflExpr:
        if len(node.args) != self.dimension:
            raise DimensionError(
                f"a vector of {len(node.args)} components on a mesh of dimension {self.dimension}",
                node,
            )
        return ufl.as_vector([self.visit(part) for part in node.args])
