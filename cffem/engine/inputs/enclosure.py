# SPDX-License-Identifier: MIT
"""Enclosures of expressions over boxes by interval arithmetic, and simplices divided into smaller
ones.

A rule knows a function at its points only, and a spike between them escapes any two rules. An
enclosure over the bounding box of a cell escapes nothing: neither that of the values (`enclosed`),
which is wide, nor that of the distance to a polynomial (`distances`), which falls with a power of
the size of the cell.

Every function of the language of terms has its rule here; a function without one is `NotEnclosed`,
which nobody may take for zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from cffem.engine.inputs import interval_arithmetic as intervals
from cffem.engine.inputs import interval_series as series
from cffem.engine.inputs.interval_arithmetic import Interval, cleaned, shared
from cffem.engine.inputs.interval_series import Series, constant, first

Visit = Callable[[Any], Series]

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
        >>> box = {x: (np.array([0.0, 1.0]), np.array([1.0, 4.0]))}
        >>> low, high = enclosed(sp.exp(-(x - 2)**2), box)
        >>> low.round(4).tolist(), high.round(4).tolist()
        ([0.0183, 0.0183], [0.3679, 1.0])
    """
    found = first(_read(expr, where, {}, 0))
    low, high = np.broadcast_arrays(*found, *next(iter(where.values())))[:2]
    return low, high


def distances(
    expr: sp.Expr,
    where: Mapping[sp.Symbol, Interval],
    centre: Mapping[sp.Symbol, np.ndarray],
    degree: int,
) -> np.ndarray:
    """Bounds of the largest distance of an expression to some polynomial, on convex cells in boxes.

    Args:
        expr: the expression.
        where: the boxes, for each symbol its smallest and its largest value.
        centre: for each symbol that varies on a cell its value at a point of the cell.
        degree: the largest degree of the polynomial; a cell has the one of the degree that suits it
            best.

    Returns:
        One number for each box; infinite where the expression may have no bound.

    Raises:
        NotEnclosed: it contains a function without a rule.

    Example:
        >>> x = sp.Symbol("x")
        >>> box, middle = {x: (np.array([0.0]), np.array([0.2]))}, {x: np.array([0.1])}
        >>> [
        ...     float(distances(sp.sin(x), box, middle, degree)[0].round(7))
        ...     for degree in (0, 1, 2, 3)
        ... ]
        [0.0993347, 0.0009933, 0.0001667, 8e-07]
        >>> distances(x**3 - x, box, middle, 3).tolist()
        [0.0]
    """
    ways = {symbol: (where[symbol][0] - at, where[symbol][1] - at) for symbol, at in centre.items()}
    found = _read(expr, where, ways, degree + 1)
    low, high = first(found)
    with np.errstate(all="ignore"):
        best = (high - low) / 2
    for part in found[1:]:
        best = np.fmin(best, 0.0 if part is None else intervals.size(part))
    best = np.where(np.isnan(best), np.inf, best)
    return np.broadcast_to(best, np.shape(next(iter(where.values()))[0]))


def _read(
    expr: sp.Expr,
    where: Mapping[sp.Symbol, Interval],
    ways: Mapping[sp.Symbol, Interval],
    order: int,
) -> Series:
    """The series of an expression up to an order, the coordinates moving by `ways` along
    segments.
    """
    known: dict[sp.Basic, Series] = {
        symbol: [box, ways.get(symbol), *[None] * (order - 1)][: order + 1]
        for symbol, box in where.items()
    }

    def read(node: sp.Basic) -> Series:
        if node.is_number:
            return constant(_number(node), order)
        rule = next((rule for kind, rule in RULES.items() if isinstance(node, kind)), None)
        if rule is None:
            raise NotEnclosed(f"{node.func.__name__} has no rule of interval arithmetic")
        found = [None if part is None else cleaned(part) for part in rule(node, visit)]
        polynomial = _polynomial(node) if node.is_Add else None
        if polynomial is not None:
            # Squares that are not negative are seen by the one form, cancellation by the other.
            found[0] = shared(first(found), _centred(polynomial, where))
        return found

    def visit(node: sp.Basic) -> Series:
        if node not in known:
            known[node] = read(node)
        return known[node]

    with np.errstate(all="ignore"):
        return visit(sp.sympify(expr))


def _number(node: sp.Basic) -> float:
    try:
        return float(node)
    except (TypeError, ValueError):
        raise NotEnclosed(f"{node} is no real number") from None


# Polynomials --------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _polynomial(node: sp.Expr) -> sp.Poly | None:
    """A sum as a polynomial, where it is one that is worth a form of its own."""
    symbols = sorted(node.free_symbols, key=str)
    if not symbols or not node.is_polynomial(*symbols):
        return None
    found = sp.Poly(node, *symbols)
    return found if 1 < found.total_degree() <= LARGEST_DEGREE else None


def _centred(polynomial: sp.Poly, where: Mapping[sp.Symbol, Interval]) -> Interval:
    """A polynomial by its Taylor coefficients in the middle, in which large terms have
    cancelled.
    """
    boxes = [where[symbol] for symbol in polynomial.gens]
    middles = [(low + high) / 2 for low, high in boxes]
    radii = [(high - low) / 2 for low, high in boxes]
    value, spread = np.zeros(np.shape(middles[0])), np.zeros(np.shape(middles[0]))
    terms = [(powers, float(coefficient)) for powers, coefficient in polynomial.terms()]
    largest = [max(powers[i] for powers, _ in terms) for i in range(len(boxes))]
    for order in product(*(range(most + 1) for most in largest)):
        taylor = np.zeros_like(value)
        for powers, factor in terms:
            if any(p < k for p, k in zip(powers, order, strict=True)):
                continue
            counts = math.prod(math.comb(p, k) for p, k in zip(powers, order, strict=True))
            rest = zip(middles, powers, order, strict=True)
            taylor += factor * counts * math.prod(m ** (p - k) for m, p, k in rest if p > k)
        if any(order):
            spread += np.abs(taylor) * math.prod(
                r**k for r, k in zip(radii, order, strict=True) if k
            )
        else:
            value = taylor
    return value - spread, value + spread


# Rules --------------------------------------------------------------------------------------------


def _sum(node: sp.Basic, visit: Visit) -> Series:
    return series.total([visit(part) for part in node.args])


def _product(node: sp.Basic, visit: Visit) -> Series:
    return reduce(series.product, [visit(part) for part in node.args])


def _power(node: sp.Basic, visit: Visit) -> Series:
    base, exponent = node.args
    if exponent.is_number:
        return series.power(visit(base), _number(exponent))
    # a^b = exp(b log a).
    return series.exponential(series.product(visit(exponent), _logarithm(visit(base))))


def _logarithm(a: Series) -> Series:
    return series.composed(intervals.logarithm(first(a)), a, _reciprocal)


def _reciprocal(a: Series) -> Series:
    return series.power(a, -1.0)


def _circular(a: Series) -> tuple[Series, Series]:
    return series.paired(intervals.sine(first(a)), intervals.cosine(first(a)), a, -1.0)


def _hyperbolic(a: Series) -> tuple[Series, Series]:
    values = intervals.hyperbolic_sine(first(a)), intervals.hyperbolic_cosine(first(a))
    return series.paired(*values, a, 1.0)


def _tangent(a: Series) -> Series:
    return series.riccati(intervals.tangent(first(a)), a, 1.0)


def _hyperbolic_tangent(a: Series) -> Series:
    return series.riccati(intervals.hyperbolic_tangent(first(a)), a, -1.0)


def _arctangent(a: Series) -> Series:
    return series.composed(
        intervals.arctangent(first(a)), a, lambda b: _reciprocal(_quadratic(b, 1, 1))
    )


def _quadratic(a: Series, free: float, leading: float) -> Series:
    """free + leading · a²."""
    square = series.multiple(series.power(a, 2.0), leading)
    return series.total([constant(free, len(a) - 1), square])


def _inverse_root(free: float, leading: float) -> Callable[[Series], Series]:
    return lambda a: series.power(_quadratic(a, free, leading), -0.5)


def _error_function(a: Series) -> Series:
    def bell(b: Series) -> Series:
        square = series.multiple(series.power(b, 2.0), -1.0)
        return series.multiple(series.exponential(square), 2 / math.sqrt(math.pi))

    return series.composed(intervals.error_function(first(a)), a, bell)


def _complement(a: Series) -> Series:
    found = series.negative(_error_function(a))
    return [intervals.complementary_error_function(first(a)), *found[1:]]


def _angle(node: sp.Basic, visit: Visit) -> Series:
    ordinate, abscissa = (visit(part) for part in node.args)
    start, cut = intervals.angle(first(ordinate), first(abscissa))
    if len(ordinate) == 1:
        return [start]
    y, x = series.shortened(ordinate), series.shortened(abscissa)
    across = [series.product(x, series.slope(ordinate)), series.product(y, series.slope(abscissa))]
    square = series.total([series.power(x, 2.0), series.power(y, 2.0)])
    turned = series.total([across[0], series.negative(across[1])])
    smooth = series.primitive(start, series.product(turned, _reciprocal(square)))
    return series.chosen(cut, series.rough(start, len(ordinate) - 1), smooth)


def _largest(node: sp.Basic, visit: Visit) -> Series:
    return reduce(series.larger, [visit(part) for part in node.args])


def _smallest(node: sp.Basic, visit: Visit) -> Series:
    parts = [series.negative(visit(part)) for part in node.args]
    return series.negative(reduce(series.larger, parts))


def _step(node: sp.Basic, visit: Visit) -> Series:
    def rule(interval: Interval) -> Interval:
        return (interval[0] > 0).astype(float), (interval[1] >= 0).astype(float)

    return series.jumping(visit(node.args[0]), rule)


def _pieces(node: sp.Basic, visit: Visit) -> Series:
    """The piece that surely holds; where more than one may, no more than their values."""
    order = len(visit(node.args[0][0])) - 1
    start = np.array(np.inf), np.array(-np.inf)
    left, count = np.array(True), np.array(0)
    only: Series = [None] * (order + 1)
    for value, condition in node.args:
        (possible, certain), piece = _truth(condition, visit), _where(value, condition, visit)
        here = left & possible
        start = intervals.chosen(here, intervals.joined(start, first(piece)), start)
        only = series.chosen(here & (count == 0), piece, only)
        count, left = count + here, left & ~certain
    # Where no piece holds there is no value.
    start = intervals.chosen(left & (count == 0), intervals.WHOLE, start)
    return series.chosen((count == 1) & ~left, only, series.rough(start, order))


def _where(value: sp.Expr, condition: sp.Basic, visit: Visit) -> Series:
    """A piece where its condition holds: 1/(1 − r²) is positive for r² < 1, whatever the box
    says.
    """
    found = visit(value)
    if np.isfinite(first(found)[0]).all() and np.isfinite(first(found)[1]).all():
        return found
    bounded = _signs(value, condition)
    if not bounded:
        return found
    clipped: dict[sp.Basic, Series] = {}

    def inner(node: sp.Basic) -> Series:
        if node not in clipped:
            if not node.has(*bounded):
                clipped[node] = visit(node)
            elif node in bounded:
                low, high = first(visit(node))
                positive = bounded[node] > 0
                ends = (np.maximum(low, 0.0), high) if positive else (low, np.minimum(high, 0.0))
                clipped[node] = [shared(ends, ends), *visit(node)[1:]]
            else:
                rule = next(rule for kind, rule in RULES.items() if isinstance(node, kind))
                parts = rule(node, inner)
                clipped[node] = [None if part is None else cleaned(part) for part in parts]
        return clipped[node]

    return [first(inner(value)), *found[1:]]


@lru_cache(maxsize=256)
def _signs(value: sp.Expr, condition: sp.Basic) -> dict[sp.Expr, int]:
    """Sums in a piece of which the condition gives the sign: multiples of the difference it
    compares.
    """
    parts = condition.args if isinstance(condition, sp.And) else (condition,)
    found: dict[sp.Expr, int] = {}
    for part in parts:
        if not isinstance(part, LESS + MORE):
            continue
        gap = part.rhs - part.lhs if isinstance(part, LESS) else part.lhs - part.rhs
        for node in value.atoms(sp.Add):
            ratio = _ratio(node, gap)
            if ratio:
                found[node] = 1 if ratio > 0 else -1
    return found


def _ratio(one: sp.Expr, other: sp.Expr) -> float:
    """The factor between two sums, zero where one is no multiple of the other."""
    ours, theirs = (sp.expand(part).as_coefficients_dict() for part in (one, other))
    if set(ours) != set(theirs):
        return 0.0
    ratios = [float(ours[key] / theirs[key]) for key in ours]
    return ratios[0] if np.ptp(ratios) <= 1e-12 * abs(ratios[0]) else 0.0


LESS = (sp.StrictLessThan, sp.LessThan)
MORE = (sp.StrictGreaterThan, sp.GreaterThan)


def _truth(condition: sp.Basic, visit: Visit) -> tuple[np.ndarray, np.ndarray]:
    """Whether a condition may hold, and whether it surely does."""
    if condition in (sp.true, sp.false):
        return (np.array(condition == sp.true),) * 2
    if isinstance(condition, sp.And | sp.Or):
        parts = [_truth(part, visit) for part in condition.args]
        join = np.logical_and if isinstance(condition, sp.And) else np.logical_or
        return reduce(join, [possible for possible, _ in parts]), reduce(
            join, [c for _, c in parts]
        )
    if isinstance(condition, sp.Not):
        possible, certain = _truth(condition.args[0], visit)
        return ~certain, ~possible
    if not isinstance(condition, LESS + MORE):
        return np.array(True), np.array(False)
    less, more = (condition.lhs, condition.rhs)[:: 1 if isinstance(condition, LESS) else -1]
    (low, high), (least, most) = first(visit(less)), first(visit(more))
    return low <= most, high < least


def _of_one(function: Callable[[Series], Series]) -> Callable[[sp.Basic, Visit], Series]:
    return lambda node, visit: function(visit(node.args[0]))


def _composed(
    value: Callable[[Interval], Interval], derivative: Callable[[Series], Series]
) -> Callable[[sp.Basic, Visit], Series]:
    return _of_one(lambda a: series.composed(value(first(a)), a, derivative))


def _jumps(value: Callable[[Interval], Interval]) -> Callable[[sp.Basic, Visit], Series]:
    return _of_one(lambda a: series.jumping(a, value))


RULES: dict[type[sp.Basic], Callable[[sp.Basic, Visit], Series]] = {
    sp.Add: _sum,
    sp.Mul: _product,
    sp.Pow: _power,
    sp.exp: _of_one(series.exponential),
    sp.log: _of_one(_logarithm),
    sp.sin: _of_one(lambda a: _circular(a)[0]),
    sp.cos: _of_one(lambda a: _circular(a)[1]),
    sp.tan: _of_one(_tangent),
    sp.cot: _of_one(lambda a: series.product(_circular(a)[1], _reciprocal(_circular(a)[0]))),
    sp.sec: _of_one(lambda a: _reciprocal(_circular(a)[1])),
    sp.csc: _of_one(lambda a: _reciprocal(_circular(a)[0])),
    sp.asin: _composed(intervals.arcsine, _inverse_root(1, -1)),
    sp.acos: _of_one(
        lambda a: series.total(
            [
                constant(math.pi / 2, len(a) - 1),
                series.negative(
                    series.composed(intervals.arcsine(first(a)), a, _inverse_root(1, -1))
                ),
            ]
        )
    ),
    sp.atan: _of_one(_arctangent),
    sp.acot: _of_one(lambda a: _arctangent(_reciprocal(a))),
    sp.atan2: _angle,
    sp.sinh: _of_one(lambda a: _hyperbolic(a)[0]),
    sp.cosh: _of_one(lambda a: _hyperbolic(a)[1]),
    sp.tanh: _of_one(_hyperbolic_tangent),
    sp.coth: _of_one(lambda a: _reciprocal(_hyperbolic_tangent(a))),
    sp.sech: _of_one(lambda a: _reciprocal(_hyperbolic(a)[1])),
    sp.csch: _of_one(lambda a: _reciprocal(_hyperbolic(a)[0])),
    sp.asinh: _composed(intervals.area_sine, _inverse_root(1, 1)),
    sp.acosh: _composed(intervals.area_cosine, _inverse_root(-1, 1)),
    sp.atanh: _composed(intervals.area_tangent, lambda a: _reciprocal(_quadratic(a, 1, -1))),
    sp.erf: _of_one(_error_function),
    sp.erfc: _of_one(_complement),
    sp.Abs: _of_one(series.absolute),
    sp.Max: _largest,
    sp.Min: _smallest,
    sp.sign: _jumps(intervals.signum),
    sp.floor: _jumps(intervals.rounded_down),
    sp.ceiling: _jumps(intervals.rounded_up),
    sp.Heaviside: _step,
    sp.Piecewise: _pieces,
}


# Cells --------------------------------------------------------------------------------------------


def divided(corners: np.ndarray) -> np.ndarray:
    """Simplices divided into 2^dim parts of equal measure, the parts of one next to each other.

    Example:
        >>> divided(np.array([[[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]]])).shape
        (4, 3, 2)
    """
    count = corners.shape[1]
    middle = {
        (i, j): (corners[:, i] + corners[:, j]) / 2
        for i in range(count)
        for j in range(i + 1, count)
    }

    def point(i: int, j: int) -> np.ndarray:
        return corners[:, i] if i == j else middle[min(i, j), max(i, j)]

    parts = [[(i, j) for j in range(count)] for i in range(count)]
    if count == 3:
        parts.append([(0, 1), (1, 2), (0, 2)])
    elif count == 4:
        # The octahedron in the middle, cut along one diagonal.
        ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
        parts += [[(0, 2), (1, 3), ring[k], ring[(k + 1) % 4]] for k in range(4)]
    return np.stack(
        [np.stack([point(*pair) for pair in part], axis=1) for part in parts], axis=1
    ).reshape(-1, *corners.shape[1:])
