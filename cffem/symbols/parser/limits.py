# SPDX-License-Identifier: MIT
"""How much work a text may cause: the size an expression has when multiplied out, and a budget
spent before each operation.

SymPy evaluates while it builds, so a short text can ask for years of work (`9**9**9`, the Laplacian
of a product of long sums). The parser therefore asks `Budget` before every operation. The counts
depend on the expression alone, never on a clock, so that all ranks of a parallel run accept or
refuse the same texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy as sp
from sympy.core.numbers import ImaginaryUnit

from cffem.symbols.errors import ParseError
from cffem.symbols.fields import CoordinateFunction
from cffem.symbols.parser.constants import check_exponent


@dataclass(frozen=True)
class ExpressionLimits:
    """How large an expression of a stranger may become.

    Args:
        power: exponent of a power.
        digits: digits of a whole number or fraction.
        terms: summands when multiplied out.
        nodes: nodes of the expression.
        work: nodes that are visited while it is made.
        growth: exponentials stacked on each other.
    """

    power: int = 32
    digits: int = 40
    terms: int = 1_000
    nodes: int = 3_000
    work: int = 5_000
    growth: int = 2


LIMITS = ExpressionLimits()


@dataclass(frozen=True)
class CallLimits:
    """How much one call or condition may hold.

    Args:
        arguments: arguments of Min, Max and their like.
        order: order of a derivative.
        comparisons: comparisons in a condition.
        constant: parts of a constant, which SymPy would evaluate.
    """

    arguments: int = 8
    order: int = 8
    comparisons: int = 8
    constant: int = 24


CALL_LIMITS = CallLimits()


NOT_FINITE = (sp.nan, sp.zoo, sp.oo, -sp.oo)
GROWING = (sp.exp, sp.sinh, sp.cosh)
BRANCHING = (sp.Min, sp.Max, sp.Piecewise, sp.atan2)


@dataclass(frozen=True)
class Size:
    """Size of an expression.

    Attributes:
        nodes: nodes of the expression tree as it stands.
        terms: summands after multiplying everything out, powers of sums included.
        summands: summands after multiplying out products only, as the operators do.
        weight: nodes of the largest such summand.
        leaves: coordinates and unknowns in the largest such summand, counted as often as they
            occur.
        powers: terms of the largest power of a sum that occurs anywhere; SymPy multiplies it out to
            find signs.
        growth: how many exponentials are stacked on each other.
    """

    nodes: int
    terms: int = 1
    summands: int = 1
    weight: int = 1
    leaves: int = 0
    powers: int = 0
    growth: int = 0


class Budget:
    """The work one text may cause; `measure` refuses expressions that are too large or not real and
    finite.

    Example:
        >>> from cffem import x, y
        >>> Budget().measure((x + y) ** 3, column=1).terms
        4
    """

    def __init__(self) -> None:
        self.work = 0
        self.sizes: dict[sp.Basic, Size] = {}

    def spend(self, work: int, column: int) -> None:
        """Account for an operation before it is carried out."""
        self.work += work
        if self.work > LIMITS.work:
            raise ParseError(
                "the expression is too large to be multiplied out and differentiated", column
            )

    def measure(self, expr: sp.Basic, column: int) -> Size:
        """Size of an expression, or a `ParseError` if it exceeds the limits."""
        size = self.sizes.get(expr)
        if size is None:
            size = self._measure(expr, column)
            if size.nodes > LIMITS.nodes:
                raise ParseError(f"the expression has more than {LIMITS.nodes} parts", column)
            if size.terms > LIMITS.terms:
                raise ParseError(
                    f"multiplied out, the expression has more than {LIMITS.terms} terms", column
                )
            if size.growth > LIMITS.growth:
                raise ParseError(
                    f"more than {LIMITS.growth} exponentials are stacked on each other", column
                )
            self.sizes[expr] = size
        return size

    def _measure(self, expr: sp.Basic, column: int) -> Size:
        if expr in NOT_FINITE:
            raise ParseError("the value is not finite (a division by zero?)", column)
        if isinstance(expr, ImaginaryUnit):
            raise ParseError("the value is not real", column)
        if isinstance(expr, sp.DiracDelta):
            raise ParseError("the derivative of a jump has no value", column)
        if isinstance(expr, sp.Rational):
            check_digits(expr, column)
        if (
            isinstance(expr, sp.Pow)
            and isinstance(expr.exp, sp.Number)
            and abs(expr.exp) > LIMITS.power
        ):
            raise ParseError(f"powers up to {LIMITS.power} are read, not {expr.exp}", column)
        if isinstance(expr, sp.Pow | sp.exp):
            base, exponent = expr.as_base_exp()
            check_exponent(base, exponent, column)
        sizes = [self.measure(arg, column) for arg in expr.args]
        nodes = 1 + sum(size.nodes for size in sizes)
        powers, growth = (
            max((getattr(size, name) for size in sizes), default=0) for name in ("powers", "growth")
        )
        if isinstance(expr, sp.Add):
            weight, leaves = max(s.weight for s in sizes), max(s.leaves for s in sizes)
            return Size(
                nodes,
                sum(s.terms for s in sizes),
                sum(s.summands for s in sizes),
                weight,
                leaves,
                powers,
                growth,
            )
        if isinstance(expr, sp.Mul):
            terms, summands = (
                math.prod(s.terms for s in sizes),
                math.prod(s.summands for s in sizes),
            )
            return Size(
                nodes,
                terms,
                summands,
                sum(s.weight for s in sizes),
                sum(s.leaves for s in sizes),
                powers,
                growth,
            )
        weight = 1 + sum(s.summands * s.weight for s in sizes)
        leaves = sum(s.summands * s.leaves for s in sizes)
        if isinstance(expr, sp.Pow) and isinstance(expr.exp, sp.Number):
            # A power n of k terms has C(k+n−1, n) terms.
            power = math.ceil(abs(expr.exp))
            terms = math.comb(sizes[0].terms + power - 1, power)
            return Size(nodes, terms, 1, weight, leaves, max(terms, powers), growth)
        if isinstance(expr, CoordinateFunction | sp.Symbol):
            leaves = max(1, leaves)
        if isinstance(expr, (sp.Pow, *GROWING)):
            growth += bool(expr.free_symbols)
        if isinstance(expr, BRANCHING):
            # Each branch is compared with every other one, also in derivatives.
            weight, leaves = 2 * weight * len(expr.args), leaves * len(expr.args)
        return Size(nodes, 1, 1, weight, leaves, powers, growth)


def check_digits(number: sp.Rational, column: int) -> None:
    """Refuse fractions with more digits than any coefficient needs."""
    if max(abs(number.p), number.q) >= 10**LIMITS.digits:
        raise ParseError(
            f"a whole number or fraction has at most {LIMITS.digits} digits; write 1e-3 for a "
            "decimal",
            column,
        )
