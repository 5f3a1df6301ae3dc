# SPDX-License-Identifier: MIT
"""Integration by parts as a symbolic rule: ⟨D w, W⟩ = ±⟨w, D* W⟩ + ∮ ⟨w∘n, W⟩, with one small
handler per kind of node.

A differential operator inside a term is first brought to the front, by moving the algebra around it
to the weight W (the adjoint of a dot product is a multiplication, and so on), and then handed over
to W. W starts as the test function and collects coefficients. The trace w∘n and the weight are kept
apart, because on a boundary a declared condition replaces the trace, and between cells its jump is
what a discontinuous element must be charged for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatchmethod

import sympy as sp

from cffem.forms.translation_errors import UnsupportedTerm
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import SPACE
from cffem.symbols.operators import (
    Cross,
    Curl,
    Div,
    Dot,
    Grad,
    Inner,
    Lap,
    Outer,
    Sym,
    Transpose,
    Vec,
    component,
    cross,
    curl,
    div,
    dot,
    grad,
    has_jump,
    inner,
    n,
    outer,
    sym,
    transpose,
    vector,
)

Trace = tuple[sp.Expr, sp.Expr]


@dataclass(frozen=True)
class WeakIntegrand:
    """The result of an integration by parts.

    Attributes:
        volume: the integrand inside cells.
        traces: pairs (trace, weight) of equal shape; the boundary integrand is the sum of their
            inner products.
    """

    volume: sp.Expr = sp.S.Zero
    traces: tuple[Trace, ...] = ()

    def __add__(self, other: WeakIntegrand) -> WeakIntegrand:
        return WeakIntegrand(self.volume + other.volume, self.traces + other.traces)

    def scaled(self, factor: sp.Expr) -> WeakIntegrand:
        """A multiple."""
        return WeakIntegrand(
            factor * self.volume, tuple((factor * trace, weight) for trace, weight in self.traces)
        )


def contraction(traces: tuple[Trace, ...]) -> sp.Expr:
    """The sum of the inner products of traces with their weights."""
    return sp.Add(*(inner(trace, weight) for trace, weight in traces))


class IntegrationByParts:
    """Integrates by parts where a predicate asks for it.

    Args:
        must_move: whether an expression contains an operator that goes over to the weight.

    Example:
        >>> import cffem as cf
        >>> u, v = cf.ScalarField("u"), cf.ScalarField("v")
        >>> moved = IntegrationByParts(lambda expr: expr.has(cf.lap(u)))(cf.x * cf.lap(u), v)
        >>> moved.volume
        -v*Derivative(u, x) - x*dot(grad(u), grad(v))
        >>> contraction(moved.traces)
        v*x*dot(n, grad(u))
    """

    def __init__(self, must_move: Callable[[sp.Expr], bool]):
        self.must_move = must_move

    def __call__(self, term: sp.Expr, weight: sp.Expr) -> WeakIntegrand:
        """⟨term, weight⟩ with the operators that must move handed over to the weight."""
        return (
            self.move(term, weight) if self.must_move(term) else WeakIntegrand(inner(term, weight))
        )

    def handed_over(
        self, volume: Callable[[], sp.Expr], trace: sp.Expr, weight: sp.Expr, node: sp.Expr
    ) -> WeakIntegrand:
        """One integration by parts; refused where the weight jumps, because its derivative
        then is not a function.
        """
        if has_jump(weight):
            raise UnsupportedTerm(
                "a coefficient that jumps multiplies a derivative; write it inside, as in "
                "div(a*grad(u))",
                node,
            )
        return WeakIntegrand(volume(), ((trace, weight),))

    @singledispatchmethod
    def move(self, term: sp.Expr, weight: sp.Expr) -> WeakIntegrand:
        """Hand over; a handler for each kind of node follows."""
        raise UnsupportedTerm(
            "a derivative inside a nonlinear function cannot be moved to the test function; make "
            "it a field of its own in a System, w - lap(u) = 0 say (powers are taken point by "
            "point, operators of fractional order have no term here)",
            term,
        )

    # Differential operators
    # ----------------------------------------------------------------------------------------------

    @move.register(Lap)
    def of_lap(self, term: Lap, weight: sp.Expr) -> WeakIntegrand:
        slope = grad(term.args[0])
        return self.handed_over(lambda: -inner(slope, grad(weight)), dot(slope, n), weight, term)

    @move.register(Div)
    def of_div(self, term: Div, weight: sp.Expr) -> WeakIntegrand:
        flux = term.args[0]
        return self.handed_over(lambda: -inner(flux, grad(weight)), dot(flux, n), weight, term)

    @move.register(Grad)
    def of_grad(self, term: Grad, weight: sp.Expr) -> WeakIntegrand:
        f = term.args[0]
        trace = outer(f, n) if shape_of(f) else f * n
        return self.handed_over(lambda: -inner(f, div(weight)), trace, weight, term)

    @move.register(Curl)
    def of_curl(self, term: Curl, weight: sp.Expr) -> WeakIntegrand:
        f = term.args[0]
        trace = cross(n, f) if shape_of(f) else f * vector(n[1], -n[0])
        return self.handed_over(lambda: inner(f, curl(weight)), trace, weight, term)

    @move.register(sp.Derivative)
    def of_derivative(self, term: sp.Derivative, weight: sp.Expr) -> WeakIntegrand:
        variable = next(s for s, _ in term.variable_count if s in SPACE)
        counts = [(s, count - (s == variable)) for s, count in term.variable_count]
        f = (
            term.expr.diff(*(pair for pair in counts if pair[1] > 0))
            if any(c > 0 for _, c in counts)
            else term.expr
        )
        return self.handed_over(
            lambda: -inner(f, weight.diff(variable)), f * n[SPACE.index(variable)], weight, term
        )

    # Algebra: its adjoint goes to the weight
    # -------------------------------------------------------------------------------

    @move.register(sp.Add)
    def of_add(self, term: sp.Add, weight: sp.Expr) -> WeakIntegrand:
        return sum((self(part, weight) for part in term.args), WeakIntegrand())

    @move.register(sp.Mul)
    def of_multiply(self, term: sp.Mul, weight: sp.Expr) -> WeakIntegrand:
        factor = self.only_due(term)
        rest = sp.Mul(*(arg for arg in term.args if arg is not factor))
        return self(factor, inner(rest, weight) if shape_of(rest) else rest * weight)

    @move.register(Dot)
    def of_dot(self, term: Dot, weight: sp.Expr) -> WeakIntegrand:
        a, b = term.args
        if self.only_due(term) is a:
            return self(a, _product(weight, transpose(b) if len(shape_of(b)) == 2 else b))
        return self(b, _product(transpose(a) if len(shape_of(a)) == 2 else a, weight))

    @move.register(Inner)
    def of_inner(self, term: Inner, weight: sp.Expr) -> WeakIntegrand:
        a, b = term.args
        return self(a, weight * b) if self.only_due(term) is a else self(b, weight * a)

    @move.register(Cross)
    def of_cross(self, term: Cross, weight: sp.Expr) -> WeakIntegrand:
        a, b = term.args
        if shape_of(term) == ():
            return (
                self(a, weight * _turned(b))
                if self.only_due(term) is a
                else self(b, -weight * _turned(a))
            )
        return self(a, cross(b, weight)) if self.only_due(term) is a else self(b, cross(weight, a))

    @move.register(Outer)
    def of_outer(self, term: Outer, weight: sp.Expr) -> WeakIntegrand:
        a, b = term.args
        return self(a, dot(weight, b)) if self.only_due(term) is a else self(b, dot(a, weight))

    @move.register(Sym)
    def of_sym(self, term: Sym, weight: sp.Expr) -> WeakIntegrand:
        return self(term.args[0], sym(weight))

    @move.register(Transpose)
    def of_transpose(self, term: Transpose, weight: sp.Expr) -> WeakIntegrand:
        return self(term.args[0], transpose(weight))

    @move.register(Vec)
    def of_vec(self, term: Vec, weight: sp.Expr) -> WeakIntegrand:
        return sum(
            (self(part, component(weight, i)) for i, part in enumerate(term.args)), WeakIntegrand()
        )

    def only_due(self, term: sp.Expr) -> sp.Expr:
        """The only factor of a product that must move."""
        moving = [arg for arg in term.args if self.must_move(arg)]
        if len(moving) != 1:
            raise UnsupportedTerm(
                "a product of several derivatives of second order cannot be moved to the test "
                "function",
                term,
            )
        return moving[0]


def _product(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    """The adjoint of a dot product: a scalar multiplies, two vectors give a tensor, otherwise
    tensors contract.
    """
    if () in (shape_of(a), shape_of(b)):
        return a * b
    return outer(a, b) if len(shape_of(a)) == len(shape_of(b)) == 1 else dot(a, b)


def _turned(v: sp.Expr) -> sp.Expr:
    """The plane vector w with w·a = a × v."""
    return vector(component(v, 1), -component(v, 0))
