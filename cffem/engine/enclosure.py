# SPDX-License-Identifier: MIT
"""Enclosures of expressions over boxes by interval arithmetic, and simplices divided into smaller ones.

A rule knows a function at its points only, and a spike between them escapes any two rules. An enclosure of the values over the
bounding box of a cell escapes nothing, but it is too wide, so cells are divided until it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

Interval = tuple[np.ndarray, np.ndarray]

# Polynomials of higher degree are taken apart like other functions.
LARGEST_DEGREE = 8


class NotEnclosed(Exception):
    """There is no interval rule for a function."""


def enclosed(expr: sp.Expr, where: Mapping[sp.Symbol, Interval]) -> Interval:
    """Bounds of an expression where each symbol is between two numbers, rounding errors left aside.

    Args:
        expr: the expression.
        where: for each symbol its smallest and its largest value, arrays of one shape.

    Raises:
        NotEnclosed: it contains a function without a rule.

    Example:
        >>> x = sp.Symbol("x")
        >>> low, high = enclosed(sp.exp(-(x - 2)**2), {x: (np.array([0.0, 1.0]), np.array([1.0, 4.0]))})
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.0183, 0.0183], [0.3679, 1.0])
    """
    known: dict[sp.Basic, Interval] = dict(where)

    def read(node: sp.Basic) -> Interval:
        rule = next((rule for kind, rule in RULES.items() if isinstance(node, kind)), None)
        if rule is None:
            raise NotEnclosed(f"there is no enclosure of {node.func}")
        low, high = rule(node, visit)
        polynomial = _polynomial(node) if node.is_Add else None
        if polynomial is None:
            return low, high
        # Squares that are not negative are seen by the one form, cancellation by the other.
        other = _centred(polynomial, where)
        return np.maximum(low, other[0]), np.minimum(high, other[1])

    def visit(node: sp.Basic) -> Interval:
        if node not in known:
            known[node] = (np.array(float(node)),) * 2 if node.is_number else read(node)
        return known[node]

    with np.errstate(all="ignore"):
        low, high = np.broadcast_arrays(*visit(expr), *next(iter(where.values())))[:2]
    # 0 · ∞ and the like say nothing.
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


# Rules --------------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _polynomial(node: sp.Expr) -> sp.Poly | None:
    """A sum as a polynomial, where it is one that is worth a form of its own."""
    symbols = sorted(node.free_symbols, key=str)
    if not symbols or not node.is_polynomial(*symbols):
        return None
    found = sp.Poly(node, *symbols)
    return found if 1 < found.total_degree() <= LARGEST_DEGREE else None


def _centred(polynomial: sp.Poly, where: Mapping[sp.Symbol, Interval]) -> Interval:
    """A polynomial by its Taylor coefficients in the middle, in which large terms have cancelled already."""
    boxes = [where[symbol] for symbol in polynomial.gens]
    middles, radii = [(low + high) / 2 for low, high in boxes], [(high - low) / 2 for low, high in boxes]
    value, spread = np.zeros(np.shape(middles[0])), np.zeros(np.shape(middles[0]))
    terms = [(powers, float(coefficient)) for powers, coefficient in polynomial.terms()]
    for order in product(*(range(max(powers[i] for powers, _ in terms) + 1) for i in range(len(boxes)))):
        above = [(powers, factor) for powers, factor in terms if all(p >= k for p, k in zip(powers, order, strict=True))]
        taylor = np.zeros_like(value)
        for powers, factor in above:
            counts = math.prod(math.comb(p, k) for p, k in zip(powers, order, strict=True))
            taylor += factor * counts * math.prod(m ** (p - k) for m, p, k in zip(middles, powers, order, strict=True) if p > k)
        if any(order):
            spread += np.abs(taylor) * math.prod(r**k for r, k in zip(radii, order, strict=True) if k)
        else:
            value = taylor
    return value - spread, value + spread


def _sum(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    parts = [visit(part) for part in node.args]
    return sum(low for low, _ in parts), sum(high for _, high in parts)


def _product(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    low, high = visit(node.args[0])
    for factor in node.args[1:]:
        first, last = visit(factor)
        corners = [low * first, low * last] + ([] if low is high else [high * first, high * last])
        low, high = reduce(np.minimum, corners), reduce(np.maximum, corners)
    return low, high


def _power(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    base, exponent = node.args
    if not exponent.is_number:
        raise NotEnclosed("there is no enclosure of a variable power")
    (low, high), power = visit(base), float(exponent)
    if not exponent.is_integer:
        # Real powers want a base that is not negative; elsewhere the values are not finite, which is found by sampling.
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    ends = low**power, high**power
    below, above = np.minimum(*ends), np.maximum(*ends)
    inside = (low < 0) & (high > 0)
    if power < 0:
        # A pole inside.
        below, above = np.where(inside, -np.inf, below), np.where(inside, np.inf, above)
    elif exponent.is_integer and int(exponent) % 2 == 0:
        below = np.where(inside, 0.0, below)
    return below, above


def _wave(shift: float) -> Callable[[sp.Basic, Callable[[Any], Interval]], Interval]:
    """The rule of sin(a + shift)."""

    def rule(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
        low, high = (end + shift for end in visit(node.args[0]))
        ends = np.sin(low), np.sin(high)
        # Extreme values are at (k − 1/2) π, the largest for odd k.
        first, last = (np.floor(end / math.pi + 0.5) for end in (low, high))
        count, odd = last - first, last % 2 == 1
        many = ~(count < 2)
        below = np.where(many | ((count == 1) & ~odd), -1.0, np.minimum(*ends))
        return below, np.where(many | ((count == 1) & odd), 1.0, np.maximum(*ends))

    return rule


def _increasing(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[sp.Basic, Callable[[Any], Interval]], Interval]:
    def rule(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
        low, high = visit(node.args[0])
        return function(low), function(high)

    return rule


def _absolute(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    low, high = visit(node.args[0])
    ends = np.abs(low), np.abs(high)
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def _extreme(choose: Any) -> Callable[[sp.Basic, Callable[[Any], Interval]], Interval]:
    def rule(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
        parts = [visit(part) for part in node.args]
        return reduce(choose, [low for low, _ in parts]), reduce(choose, [high for _, high in parts])

    return rule


def _pieces(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    """All pieces that may hold; none after one that surely does."""
    low, high, left = np.array(np.inf), np.array(-np.inf), np.array(True)
    for value, condition in node.args:
        (first, last), (possible, certain) = visit(value), _truth(condition, visit)
        here = left & possible
        low, high = np.where(here, np.minimum(low, first), low), np.where(here, np.maximum(high, last), high)
        left = left & ~certain
    return low, high


def _truth(condition: sp.Basic, visit: Callable[[Any], Interval]) -> tuple[np.ndarray, np.ndarray]:
    """Whether a condition may hold, and whether it surely does."""
    if condition in (sp.true, sp.false):
        return (np.array(condition == sp.true),) * 2
    if isinstance(condition, sp.And | sp.Or):
        parts = [_truth(part, visit) for part in condition.args]
        join = np.logical_and if isinstance(condition, sp.And) else np.logical_or
        return reduce(join, [possible for possible, _ in parts]), reduce(join, [certain for _, certain in parts])
    if isinstance(condition, sp.StrictLessThan | sp.LessThan | sp.StrictGreaterThan | sp.GreaterThan):
        below = isinstance(condition, sp.StrictLessThan | sp.LessThan)
        (first, last), (other, end) = visit(condition.lhs), visit(condition.rhs)
        low, high = (first - end, last - other) if below else (other - last, end - first)
        return low <= 0, high < 0
    return np.array(True), np.array(False)


def _step(node: sp.Basic, visit: Callable[[Any], Interval]) -> Interval:
    low, high = visit(node.args[0])
    return (low > 0).astype(float), (high >= 0).astype(float)


RULES: dict[Any, Callable[[Any, Callable[[Any], Interval]], Interval]] = {
    sp.Add: _sum,
    sp.Mul: _product,
    sp.Pow: _power,
    sp.sin: _wave(0.0),
    sp.cos: _wave(math.pi / 2),
    sp.exp: _increasing(np.exp),
    sp.log: _increasing(np.log),
    sp.tanh: _increasing(np.tanh),
    sp.atan: _increasing(np.arctan),
    sp.sinh: _increasing(np.sinh),
    sp.Abs: _absolute,
    sp.Max: _extreme(np.maximum),
    sp.Min: _extreme(np.minimum),
    sp.Piecewise: _pieces,
    sp.Heaviside: _step,
}


# Simplices --------------------------------------------------------------------------------------------------------


def divided(corners: np.ndarray) -> np.ndarray:
    """Simplices divided into 2^dim parts of equal measure, the parts of one next to each other.

    Example:
        >>> divided(np.array([[[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]])).shape
        (4, 3, 2)
    """
    count = corners.shape[1]
    middle = {(i, j): (corners[:, i] + corners[:, j]) / 2 for i in range(count) for j in range(i + 1, count)}

    def point(i: int, j: int) -> np.ndarray:
        return corners[:, i] if i == j else middle[min(i, j), max(i, j)]

    parts = [[(i, j) for j in range(count)] for i in range(count)]
    if count == 3:
        parts.append([(0, 1), (1, 2), (0, 2)])
    elif count == 4:
        # The octahedron in the middle, cut along one diagonal.
        ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
        parts += [[(0, 2), (1, 3), ring[k], ring[(k + 1) % 4]] for k in range(4)]
    return np.stack([np.stack([point(*pair) for pair in part], axis=1) for part in parts], axis=1).reshape(-1, *corners.shape[1:])
