# SPDX-License-Identifier: MIT
"""Interval arithmetic on arrays: bounds of sums, products and elementary functions, rounding errors
left aside.

An interval is a pair of arrays, its lower and its upper ends. Where nothing can be said, as of 0 ·
∞ or beyond a pole, an interval is the whole line. A function that is not defined on all of an
interval is bounded where it is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce

import numpy as np
from scipy import special

Interval = tuple[np.ndarray, np.ndarray]

WHOLE: Interval = (np.array(-np.inf), np.array(np.inf))
ONE: Interval = (np.array(1.0),) * 2


def point(value: float) -> Interval:
    """One number."""
    return (np.array(float(value)),) * 2


def cleaned(interval: Interval) -> Interval:
    """The whole line where arithmetic has lost its ends."""
    low, high = interval
    if not (np.isnan(low).any() or np.isnan(high).any()):
        return interval
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def plus(one: Interval, other: Interval) -> Interval:
    """The sum."""
    return one[0] + other[0], one[1] + other[1]


def scaled(interval: Interval, factor: float) -> Interval:
    """The product with a number.

    Example:
        >>> [end.tolist() for end in scaled((np.array([1.0]), np.array([2.0])), -3)]
        [[-6.0], [-3.0]]
    """
    low, high = interval
    return (factor * low, factor * high) if factor >= 0 else (factor * high, factor * low)


def times(one: Interval, other: Interval) -> Interval:
    """The product."""
    if one[0] is one[1]:
        one, other = other, one
    (low, high), (first, last) = one, other
    if first is last:
        ends = low * first, high * first
        return np.minimum(*ends), np.maximum(*ends)
    corners = [low * first, low * last, high * first, high * last]
    return reduce(np.minimum, corners), reduce(np.maximum, corners)


def joined(one: Interval, other: Interval) -> Interval:
    """The smallest interval that contains both."""
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1])


def shared(one: Interval, other: Interval) -> Interval:
    """What two bounds of the same values have in common."""
    low, high = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
    # Rounding errors may have set apart two bounds of one value.
    return np.minimum(low, high), np.maximum(low, high)


def size(interval: Interval) -> np.ndarray:
    """The largest absolute value."""
    return np.maximum(np.abs(interval[0]), np.abs(interval[1]))


def chosen(mask: np.ndarray, one: Interval, other: Interval) -> Interval:
    """One interval where a condition holds, the other elsewhere."""
    return np.where(mask, one[0], other[0]), np.where(mask, one[1], other[1])


# Functions ----------------------------------------------------------------------------------------


def power(interval: Interval, exponent: float) -> Interval:
    """A constant power; one that is no integer is defined for numbers that are not negative.

    Example:
        >>> [end.tolist() for end in power((np.array([-1.0]), np.array([2.0])), 2)]
        [[0.0], [4.0]]
        >>> [end.tolist() for end in power((np.array([-1.0]), np.array([2.0])), -1)]
        [[-inf], [inf]]
    """
    low, high = interval
    whole = float(exponent).is_integer()
    if not whole:
        low, high = np.maximum(low, 0.0), np.maximum(high, 0.0)
    # Powers of 0.0 and of −0.0 differ, and the side from which a pole is met is the inner one.
    low, high = np.where(low == 0, 0.0, low), np.where(high == 0, -0.0 if whole else 0.0, high)
    ends = low**exponent, high**exponent
    below, above = np.minimum(*ends), np.maximum(*ends)
    inside = (low < 0) & (high > 0)
    if exponent < 0:
        pole = inside | ((low == 0) & (high == 0))
        return np.where(pole, -np.inf, below), np.where(pole, np.inf, above)
    if whole and int(exponent) % 2 == 0:
        below = np.where(inside, 0.0, below)
    return below, above


def increasing(
    function: Callable[[np.ndarray], np.ndarray], least: float = -np.inf, most: float = np.inf
) -> Callable[[Interval], Interval]:
    """The rule of an increasing function that is defined between two numbers."""

    def rule(interval: Interval) -> Interval:
        return function(np.clip(interval[0], least, most)), function(
            np.clip(interval[1], least, most)
        )

    return rule


def sine(interval: Interval, shift: float = 0.0) -> Interval:
    """sin(a + shift)."""
    low, high = (end + shift for end in interval)
    ends = np.sin(low), np.sin(high)
    # Extreme values are at (k − 1/2) π, the largest for odd k.
    first, last = (np.floor(end / math.pi + 0.5) for end in (low, high))
    count, odd = last - first, last % 2 == 1
    many = ~(count < 2)
    below = np.where(many | ((count == 1) & ~odd), -1.0, np.minimum(*ends))
    return below, np.where(many | ((count == 1) & odd), 1.0, np.maximum(*ends))


def cosine(interval: Interval) -> Interval:
    """cos."""
    return sine(interval, math.pi / 2)


def tangent(interval: Interval) -> Interval:
    """tan, the whole line where a pole may be inside."""
    low, high = interval
    first, last = (np.floor(end / math.pi + 0.5) for end in (low, high))
    pole = ~(first == last)
    return np.where(pole, -np.inf, np.tan(low)), np.where(pole, np.inf, np.tan(high))


def absolute(interval: Interval) -> Interval:
    """|a|."""
    low, high = interval
    ends = np.abs(low), np.abs(high)
    return np.where((low < 0) & (high > 0), 0.0, np.minimum(*ends)), np.maximum(*ends)


def hyperbolic_cosine(interval: Interval) -> Interval:
    """cosh, which is increasing in |a|."""
    low, high = absolute(interval)
    return np.cosh(low), np.cosh(high)


def signum(interval: Interval) -> Interval:
    """sign."""
    return np.sign(interval[0]), np.sign(interval[1])


def angle(ordinate: Interval, abscissa: Interval) -> tuple[Interval, np.ndarray]:
    """atan2, and where it may jump: on the negative half axis and at the origin."""
    cut = (ordinate[0] <= 0) & (ordinate[1] >= 0) & (abscissa[0] <= 0)
    corners = [np.arctan2(second, first) for first in abscissa for second in ordinate]
    found = reduce(np.minimum, corners), reduce(np.maximum, corners)
    return chosen(cut, point_pair(-math.pi, math.pi), found), cut


def point_pair(low: float, high: float) -> Interval:
    """The interval between two numbers."""
    return np.array(low), np.array(high)


exponential = increasing(np.exp)
logarithm = increasing(np.log, 0.0)
hyperbolic_sine, hyperbolic_tangent = increasing(np.sinh), increasing(np.tanh)
arctangent = increasing(np.arctan)
arcsine = increasing(np.arcsin, -1.0, 1.0)
area_sine, area_tangent = increasing(np.arcsinh), increasing(np.arctanh, -1.0, 1.0)
area_cosine = increasing(np.arccosh, 1.0)
error_function = increasing(special.erf)
rounded_down, rounded_up = increasing(np.floor), increasing(np.ceil)


def complementary_error_function(interval: Interval) -> Interval:
    """erfc, without the cancellation of 1 − erf."""
    ends: tuple[np.ndarray, np.ndarray] = special.erfc(interval[1]), special.erfc(interval[0])
    return ends
