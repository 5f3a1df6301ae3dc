# SPDX-License-Identifier: MIT
"""Functions of the place on simplices, whose values at points come with a bound of what lies
between them.

On each cell or facet a polynomial T of degree m has |s − T| ≤ ρ by interval arithmetic
(`cffem.engine.inputs.enclosure`). A rule that is exact for T² and its products then integrates s up
to multiples of ρ: ‖s − p‖ ≤ ‖s − p‖_rule + 2 ρ |K|^{1/2} and ‖Π s − p‖ ≤ 2 ρ |K|^{1/2} for the
projection p of s by the rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import ROUGH
from cffem.engine.inputs.enclosure import NotEnclosed, distances, enclosed
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.known import Known

# The degree m of the polynomials that functions are compared with.
ORDER = 3
# Cells that touch a jump do not see it: boxes are smaller by this share of their size.
TOUCHING = 1e-13
# Boxes are divided into so many in each direction for the bounds of values.
DIVIDED = 3


class PlaceFunctions:
    """Evaluates functions on simplices of any dimension.

    Args:
        corners: shape (simplices, corners, dim).
        barycentric: the points of a rule, shape (points, corners).
        known: fields that are constant on each simplex, by their values there.
    """

    def __init__(
        self,
        corners: np.ndarray,
        barycentric: np.ndarray,
        known: Mapping[Known, np.ndarray] | None = None,
    ):
        self._known = {
            field: (sp.Dummy(field.name, real=True), values)
            for field, values in (known or {}).items()
        }
        self.corners, self.count, self.dim = corners, len(corners), corners.shape[2]
        self.symbols = SPACE[: self.dim]
        self.places = [corners[:, :, axis] @ barycentric.T for axis in range(self.dim)]
        self._low, self._high = corners.min(axis=1), corners.max(axis=1)
        self._centre = corners.mean(axis=1)

    def values(self, expr: sp.Expr) -> np.ndarray:
        """At the points, shape (simplices, points).

        Raises:
            NotCovered: a value is not finite.
        """
        shape = self.places[0].shape
        expr, stands = self._plain(expr)
        names = (*self.symbols, *stands)
        places = [*self.places, *(values[:, None] for values in stands.values())]
        with np.errstate(all="ignore"):
            raw = np.asarray(numeric(expr, names)(*places), dtype=float)
        if not np.isfinite(raw).all():
            raise NotCovered(f"{expr} is not finite everywhere"[:100])
        return np.broadcast_to(raw, shape)

    def _plain(self, expr: sp.Expr) -> tuple[sp.Expr, dict[sp.Symbol, np.ndarray]]:
        """An expression with symbols for known fields, and their values."""
        used = {k: pair for k, pair in self._known.items() if expr.has(k)}
        plain = expr.xreplace({k: symbol for k, (symbol, _) in used.items()})
        return plain, dict(used.values())

    def boxes(self, expr: sp.Expr) -> dict[sp.Symbol, tuple[np.ndarray, np.ndarray]]:
        """The box around each simplex, a little smaller for functions that may jump."""
        width = self._high - self._low
        less = TOUCHING * width.max(axis=1, keepdims=True) if expr.has(*ROUGH) else 0.0 * width
        less = np.where(width > 2 * less, less, 0.0)
        return {
            symbol: (self._low[:, axis] + less[:, axis], self._high[:, axis] - less[:, axis])
            for axis, symbol in enumerate(self.symbols)
        }

    def radius(self, expr: sp.Expr) -> np.ndarray:
        """ρ of each simplex.

        Raises:
            NotCovered: there is no enclosure.
        """
        expr, stands = self._plain(expr)
        if not expr.free_symbols:
            return np.zeros(self.count)
        centre = {symbol: self._centre[:, axis] for axis, symbol in enumerate(self.symbols)}
        fixed = {symbol: (values, values) for symbol, values in stands.items()}
        try:
            found = distances(expr, {**self.boxes(expr), **fixed}, centre, ORDER)
        except NotEnclosed as reason:
            raise NotCovered(f"{expr} is not enclosed: {reason}"[:160]) from None
        if not np.isfinite(found).all():
            raise NotCovered(f"{expr} is not bounded by its enclosure"[:120])
        return np.asarray(found)

    def bounds(self, expr: sp.Expr) -> tuple[np.ndarray, np.ndarray]:
        """The smallest and the largest value on each simplex, or beyond.

        Raises:
            NotCovered: there is no enclosure.
        """
        expr, stands = self._plain(expr)
        fixed = {symbol: (values, values) for symbol, values in stands.items()}
        if not expr.free_symbols:
            value = np.full(self.count, float(expr))
            return value, value
        boxes = self.boxes(expr)
        lows, highs = [], []
        try:
            for part in product(range(DIVIDED), repeat=self.dim):
                where = {
                    symbol: tuple(
                        ends[0] + (k + end) / DIVIDED * (ends[1] - ends[0]) for end in (0, 1)
                    )
                    for k, (symbol, ends) in zip(part, boxes.items(), strict=True)
                }
                one, other = enclosed(expr, {**where, **fixed})
                lows.append(np.broadcast_to(one, (self.count,)))
                highs.append(np.broadcast_to(other, (self.count,)))
        except NotEnclosed as reason:
            raise NotCovered(f"{expr} is not enclosed: {reason}"[:160]) from None
        low, high = np.min(lows, axis=0), np.max(highs, axis=0)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise NotCovered(f"{expr} is not bounded by its enclosure"[:120])
        return low, high


def off_line(
    places: PlaceFunctions, function: sp.Expr, times: np.ndarray, by_range: bool = True
) -> np.ndarray:
    """Bounds of |g − I g| on each simplex and step, I linear interpolation in time: its range, or
    τ²/8 max |g_tt|; without `by_range` the latter alone.

    Raises:
        NotCovered: there is no enclosure.
    """
    steps = np.diff(times)
    boxes = {
        symbol: tuple(np.repeat(end[:, None], len(steps), axis=1) for end in ends)
        for symbol, ends in places.boxes(function).items()
    }
    shape = (places.count, len(steps))
    boxes[t] = tuple(np.broadcast_to(end, shape) for end in (times[:-1], times[1:]))

    def over(expr: sp.Expr) -> tuple[np.ndarray, np.ndarray]:
        if not expr.free_symbols:
            return np.full(shape, float(expr)), np.full(shape, float(expr))
        low, high = enclosed(expr, boxes)
        return np.broadcast_to(low, shape), np.broadcast_to(high, shape)

    try:
        low, high = over(function)
        found = high - low
        if not function.has(*ROUGH):
            bent = over(function.diff(t, 2))
            smooth = steps**2 / 8 * np.maximum(np.abs(bent[0]), np.abs(bent[1]))
            found = np.fmin(found, smooth) if by_range else smooth
    except NotEnclosed as reason:
        raise NotCovered(f"{function} is not enclosed: {reason}"[:160]) from None
    if not np.isfinite(found).all():
        raise NotCovered(f"{function} is not bounded by its enclosure"[:120])
    return found
