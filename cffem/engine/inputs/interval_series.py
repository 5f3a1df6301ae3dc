# SPDX-License-Identifier: MIT
"""Taylor coefficients of functions along all segments in a box, enclosed by interval arithmetic.

Let s be a function on a convex cell with centre c, and g(τ) = s(c + τ d) for a point c + d of the
cell. A series [G_0, G_1, …, G_n] has g⁽ʲ⁾(τ)/j! ∈ G_j for all τ ∈ [0, 1] and all d, so that the
Taylor polynomial T of degree j − 1 in c obeys |s − T| ≤ |G_j| on the cell. Coordinates have the
series [box, box − c, 0, …], and sums, products and functions follow by the recurrences of automatic
differentiation (Moore, Interval Analysis, 1966). A function with a kink has G_1, by its Lipschitz
constant, and none after it; one that jumps has G_0 only. None stands for a coefficient that is
zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from cffem.engine.inputs import interval_arithmetic as intervals
from cffem.engine.inputs.interval_arithmetic import (
    ONE,
    WHOLE,
    Interval,
    cleaned,
    plus,
    point,
    scaled,
    times,
)

Series = list[Interval | None]
ZERO = point(0.0)


def constant(value: float, order: int) -> Series:
    """A number."""
    return [point(value), *[None] * order]


def first(series: Series) -> Interval:
    """G_0."""
    return ZERO if series[0] is None else series[0]


def is_constant(series: Series) -> bool:
    """Whether all derivatives are zero."""
    return all(part is None for part in series[1:])


def negative(series: Series) -> Series:
    """−a."""
    return multiple(series, -1.0)


def multiple(series: Series, factor: float) -> Series:
    """A number times a."""
    return [None if part is None else scaled(part, factor) for part in series]


def total(parts: list[Series]) -> Series:
    """The sum."""
    columns = [[part for part in column if part is not None] for column in zip(*parts, strict=True)]
    return [reduce(plus, column) if column else None for column in columns]


def product(one: Series, other: Series) -> Series:
    """The product, by Cauchy's rule."""
    return [_convolution(one, other, range(order + 1), order) for order in range(len(one))]


def _convolution(one: Series, other: Series, places: range, order: int) -> Interval | None:
    """Σ a_j b_{n−j} for some j."""
    found: Interval | None = None
    for place in places:
        left, right = one[place], other[order - place]
        if left is not None and right is not None:
            part = cleaned(times(left, right))
            found = part if found is None else plus(found, part)
    return found


def slope(series: Series) -> Series:
    """The derivative along the segment, one coefficient shorter."""
    return [
        None if part is None else scaled(part, float(order))
        for order, part in enumerate(series[1:], start=1)
    ]


def primitive(start: Interval, rate: Series) -> Series:
    """The series with a given G_0 and derivative."""
    return [
        start,
        *(
            None if part is None else scaled(part, 1.0 / order)
            for order, part in enumerate(rate, start=1)
        ),
    ]


def shortened(series: Series) -> Series:
    """All coefficients but the last."""
    return series[:-1]


def chosen(mask: np.ndarray, one: Series, other: Series) -> Series:
    """One series where a condition holds, the other elsewhere."""
    return [
        None if a is None and b is None else intervals.chosen(mask, a or ZERO, b or ZERO)
        for a, b in zip(one, other, strict=True)
    ]


def rough(start: Interval, order: int, rate: Interval | None = WHOLE) -> Series:
    """A function of which no more than its values, or a Lipschitz constant, are known."""
    return [start, rate, *[WHOLE] * (order - 1)][: order + 1]


# Functions ----------------------------------------------------------------------------------------


def composed(start: Interval, series: Series, derivative: Callable[[Series], Series]) -> Series:
    """f(a) with f(G_0) and f′ given."""
    if is_constant(series):
        return [start, *series[1:]]
    return primitive(start, product(derivative(shortened(series)), slope(series)))


def exponential(series: Series) -> Series:
    """exp: f′ = f a′."""
    found: Series = [intervals.exponential(first(series))]
    _extended(found, found, slope(series))
    return found


def _extended(found: Series, factor: Series, rate: Series, sign: float = 1.0) -> None:
    """Append the further coefficients of f with f′ = ± factor · a′, where the factor grows
    with f.
    """
    for order in range(1, len(rate) + 1):
        part = _convolution(factor, rate, range(order), order - 1)
        found.append(None if part is None else scaled(part, sign / order))


def paired(one: Interval, other: Interval, series: Series, sign: float) -> tuple[Series, Series]:
    """f and g with f′ = g a′ and g′ = ± f a′: sine and cosine, of both kinds."""
    f: Series = [one]
    g: Series = [other]
    rate = slope(series)
    for order in range(1, len(series)):
        parts = [_convolution(factor, rate, range(order), order - 1) for factor in (g, f)]
        f.append(None if parts[0] is None else scaled(parts[0], 1.0 / order))
        g.append(None if parts[1] is None else scaled(parts[1], sign / order))
    return f, g


def riccati(start: Interval, series: Series, sign: float) -> Series:
    """f with f′ = (1 ± f²) a′: the tangents."""
    found: Series = [start]
    factor: Series = [plus(ONE, scaled(intervals.power(start, 2), sign))]
    rate = slope(series)
    for order in range(1, len(series)):
        part = _convolution(factor, rate, range(order), order - 1)
        found.append(None if part is None else scaled(part, 1.0 / order))
        square = _convolution(found, found, range(order + 1), order)
        factor.append(None if square is None else scaled(square, sign))
    return found


def power(series: Series, exponent: float) -> Series:
    """A constant power."""
    start = intervals.power(first(series), exponent)
    if is_constant(series):
        return [start, *series[1:]]
    if float(exponent).is_integer() and exponent > 0:
        return [start, *_whole_power(series, int(exponent))[1:]]
    # a f′ = p f a′.
    base = first(series)
    inverse = intervals.power(base if float(exponent).is_integer() else _not_negative(base), -1)
    found: Series = [start]
    for order in range(1, len(series)):
        parts: list[Interval] = []
        for place in range(1, order + 1):
            left, right = series[place], found[order - place]
            if left is not None and right is not None:
                weight = (exponent * place - (order - place)) / order
                parts.append(scaled(cleaned(times(left, right)), weight))
        found.append(cleaned(times(inverse, reduce(plus, parts))) if parts else None)
    return found


def _not_negative(interval: Interval) -> Interval:
    return np.maximum(interval[0], 0.0), np.maximum(interval[1], 0.0)


def _whole_power(series: Series, exponent: int) -> Series:
    if exponent == 1:
        return series
    if exponent % 2:
        return product(series, _whole_power(series, exponent - 1))
    half = _whole_power(series, exponent // 2)
    return [_square(half, order) for order in range(len(half))]


def _square(series: Series, order: int) -> Interval | None:
    """One coefficient of a²: each mixed product counts twice, and squares are not negative."""
    mixed = _convolution(series, series, range((order + 1) // 2), order)
    found = None if mixed is None else scaled(mixed, 2.0)
    middle = series[order // 2] if order % 2 == 0 else None
    if middle is None:
        return found
    own = intervals.power(middle, 2)
    return own if found is None else plus(found, own)


def absolute(series: Series) -> Series:
    """|a|: a kink where a changes its sign."""
    low, high = first(series)
    order = len(series) - 1
    bent: Series = [intervals.absolute((low, high))]
    if order:
        largest = intervals.size(series[1] or ZERO)
        bent = rough(bent[0] or ZERO, order, (-largest, largest))
    smooth = chosen(low >= 0, series, chosen(high <= 0, negative(series), bent))
    return smooth


def larger(one: Series, other: Series) -> Series:
    """max(a, b): a kink where the larger one changes."""
    (low, high), (least, most) = first(one), first(other)
    order = len(one) - 1
    start = np.maximum(low, least), np.maximum(high, most)
    bent = rough(
        start, order, intervals.joined(one[1] or ZERO, other[1] or ZERO) if order else None
    )
    return chosen(low >= most, one, chosen(high <= least, other, bent))


def jumping(series: Series, rule: Callable[[Interval], Interval]) -> Series:
    """A function that is constant but for jumps."""
    start, order = rule(first(series)), len(series) - 1
    flat: Series = [start, *[None] * order]
    return chosen(start[0] == start[1], flat, rough(start, order)) if order else [start]
