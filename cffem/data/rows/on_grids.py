# SPDX-License-Identifier: MIT
"""Weak rows on tensor grids: separable test functions, finite differences of denoised data,
resampling blocks.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.data.noise.grid_noise import consistent_noises, is_uniform, measure_noise, noise_ratio
from cffem.data.noise.missing_values import DEGREES, Bridge, bridge
from cffem.data.noise.reconstruction import RECONSTRUCTION, Spline
from cffem.data.rows.conservation import Order
from cffem.data.rows.summation import MomentRule
from cffem.data.testfunctions import Axis, half_width, power_for, spectral_corner
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import sympy as sp


BLOCKS = {
    0: (12,),
    1: (4, 3),
    2: (3, 3, 2),
    3: (2, 2, 2, 2),
}  # by dimension of space, along each axis, time last


@dataclass(frozen=True)
class GridTestSettings:
    """Test functions on grids.

    Args:
        space_share: half widths along space: a test function spans at most a quarter of it.
        time_share: half widths along time: a test function spans at most a third of it.
        smallest_half: half width in grid points: where there are enough of them, bumps are at
            least this wide.
        short_share: half widths along an axis of space that is too short for such bumps.
        overlap: centres per half width.
        quiet_overlap: the same where noise is weak: denser test functions only average noise
            better.
        resolution: grid points per half width that are enough.
        wrap: points from the other end of a period with which differences reach over it.
        noisy: noise level from which neighbouring values are averaged first.
    """

    space_share: int = 8
    time_share: int = 6
    smallest_half: int = 8
    short_share: int = 4
    overlap: int = 4
    quiet_overlap: int = 2
    resolution: int = 14
    wrap: int = 3
    noisy: float = 0.1


GRID_TESTS = GridTestSettings()


# Rules that keep less noise than the full one, or fail less beyond their degree.
QUIETER = (
    MomentRule(12, largest_sum=300.0),
    MomentRule(12, largest_sum=30.0),
    MomentRule(8, largest_sum=30.0),
    MomentRule(4, largest_sum=30.0),
)
CROWDED = (MomentRule(7), MomentRule(6))  # tried where few readings have large weights
FEW_READINGS = 12

USUAL_WIDTH = 5  # neighbouring points of a first difference, which is then of fourth order


class GridSampling:
    """Integrals of gridded data against test functions, and everything else that depends on
    the layout of the data.
    """

    def __init__(self, data: Dataset, orders: Order, noisy: bool = False) -> None:
        self.data = data
        self.symbols = [c for c in COORDINATES if c in data.coordinates]
        self.orders = [orders[COORDINATES.index(c)] for c in self.symbols]
        self.points = [data.coordinates[c] for c in self.symbols]
        known = (
            data.values
            if data.mask is None
            else {name: v[~data.mask] for name, v in data.values.items()}
        )
        measured = {
            name: measure_noise(v, data.mask, self.points) for name, v in data.values.items()
        }
        self.noises = consistent_noises(measured, known)
        ratio = noise_ratio(self.noises, known)
        self.spline = Spline(degree=DEGREES[len(self.symbols)]).smoothed(ratio)
        # Averaged data look less noisy than they were, so `noisy` remembers it.
        strong = noisy or ratio > GRID_TESTS.noisy
        self.overlap = GRID_TESTS.overlap if strong else GRID_TESTS.quiet_overlap
        self.axes = [self._axis(k) for k in range(len(self.symbols))]

    def _axis(self, number: int) -> Axis:
        symbol, orders = self.symbols[number], self.orders[number]
        points = self.data.coordinates[symbol]
        share = GRID_TESTS.time_share if symbol == COORDINATES[3] else GRID_TESTS.space_share
        wanted = max(half_width(len(points), spectral_corner(v, number)) for v in self.whitened)
        # On a short axis of space narrow bumps leave several rows; along time there may be one
        # window only.
        usual = (
            GRID_TESTS.smallest_half
            if symbol == COORDINATES[3]
            else min(GRID_TESTS.smallest_half, len(points) // GRID_TESTS.short_share)
        )
        largest = min(max(usual, len(points) // share), (len(points) - 1) // 2)
        fewest = fewest_half(len(points), orders, symbol)
        axis = self._axis_of(number, max(min(wanted, largest), fewest))
        if axis.resolved:
            return axis
        others = [self._axis_of(number, half) for half in range(max(fewest, 2), axis.half)]
        rules = (*QUIETER, *CROWDED) if len(points) <= FEW_READINGS else QUIETER
        quieter = [replace(a, rule=rule) for a in (*others, axis) for rule in rules]
        return min([axis, *others, *quieter], key=lambda a: self._axis_error(number, a))

    @cached_property
    def whitened(self) -> list[np.ndarray]:
        """The fields with white noise everywhere, also where values were filled in, so that
        its floor shows in their spectra.
        """
        random = np.random.default_rng(0)
        fields = []
        for name, values in self.data.values.items():
            white = self.noises[name].whitened(self.filled(values))
            if self.bridge is not None:
                white = white + self.noises[name].sd * self.bridge.filled * random.standard_normal(
                    white.shape
                )
            fields.append(white)
        return fields

    def _axis_of(self, number: int, half: int) -> Axis:
        """Bumps of one half width along an axis."""
        orders = self.orders[number]
        period = self.data.period.get(self.symbols[number])
        return Axis(
            self.points[number],
            half,
            power_for(half, orders),
            max(1, half // self.overlap),
            orders,
            period=period,
        )

    def narrowed(self, share: float) -> GridSampling:
        """The same with test functions of a share of the width along every axis of space."""
        other = copy.copy(self)
        for name in ("failing", "complete", "blocks"):
            other.__dict__.pop(name, None)
        other.axes = [
            a if symbol == COORDINATES[3] else self._axis_of(k, self._narrow_half(k, a, share))
            for k, (symbol, a) in enumerate(zip(self.symbols, self.axes, strict=True))
        ]
        return other

    def _narrow_half(self, number: int, axis: Axis, share: float) -> int:
        """Half width of a narrower bump that still carries the derivatives."""
        fewest = fewest_half(len(axis.coordinates), axis.orders, self.symbols[number])
        return min(axis.half, max(fewest, 2, round(share * axis.half)))

    def _lines(self, number: int) -> dict[sp.Expr, np.ndarray]:
        """The data of every field along one axis: readings × lines."""
        moved = {
            name: np.moveaxis(self.filled(values), number, 0)
            for name, values in self.data.values.items()
        }
        return {name: values.reshape(len(values), -1) for name, values in moved.items()}

    def _failing_axis(self, number: int, axis: Axis) -> Axis:
        """An axis with what its sums fail by on these data."""
        return axis.failing(
            (values, self.noises[name].sd) for name, values in self._lines(number).items()
        )

    def _axis_error(self, number: int, axis: Axis) -> float:
        """How far sums along an axis are from integrals, and what noise they keep, relative
        to what they measure.
        """
        order = axis.orders
        exact, failing = axis.matrices[order], self._failing_axis(number, axis).matrices[order]
        errors = []
        for name, values in self._lines(number).items():
            energy = float(((exact @ values) ** 2).mean())
            quadrature = float((((failing - exact) @ values) ** 2).mean())
            noise = (
                self.noises[name].sd ** 2 * float((exact**2).sum(axis=1).mean()) / axis.independent
            )
            errors.append((quadrature + noise) / max(energy, np.finfo(float).tiny))
        return max(errors)

    @cached_property
    def failing(self) -> GridSampling | None:
        """The same integrals with what sums over few or irregular readings fail by, where
        that can matter.
        """
        gaps = self.bridge is not None and self.spline.smoothing < RECONSTRUCTION.noise_decides
        if all(axis.resolved for axis in self.axes) and not gaps:
            return None
        other = copy.copy(self)
        other.axes = [
            a if a.resolved else self._failing_axis(k, a) for k, a in enumerate(self.axes)
        ]
        if gaps:
            other.spline = replace(self.spline, degree=self.spline.degree - 1, power=3)
            other.__dict__.pop("bridge", None)
        return other

    @cached_property
    def bridge(self) -> Bridge | None:
        """How missing values are filled, or None where none is missing."""
        if self.data.mask is None:
            return None
        return bridge(self.data.mask, self.spline, outside=self.data.never_measured)

    def filled(self, values: np.ndarray) -> np.ndarray:
        """The values with gaps bridged from their neighbours; rows that touch a wider gap are
        dropped later.
        """
        return values if self.bridge is None else self.bridge(values)

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """What fresh noise at the known values becomes everywhere."""
        return self.filled(noise)

    def averaged(self, noise_ratio: float) -> Dataset:
        """Data averaged over small boxes, where noise is strong and the test functions are resolved
        far more than needed.

        Averaging lowers the noise before powers of it are taken, and makes everything that follows
        cheaper.
        """
        factors = [max(1, axis.half // GRID_TESTS.resolution) for axis in self.axes]
        # Boxes must fill a period, which they do if their size divides the number of points.
        factors = [
            f
            if a.period is None
            else max(k for k in range(1, f + 1) if len(a.coordinates) % k == 0)
            for f, a in zip(factors, self.axes, strict=True)
        ]
        if noise_ratio <= GRID_TESTS.noisy or max(factors) == 1 or self.data.mask is not None:
            return self.data
        coordinates = {
            c: box_mean(self.data.coordinates[c], [f])
            for c, f in zip(self.symbols, factors, strict=True)
        }
        values = {name: box_mean(v, factors) for name, v in self.data.values.items()}
        return replace(self.data, coordinates=coordinates, values=values)

    def coordinate(self, symbol: object) -> np.ndarray:
        """Values of a coordinate, shaped to broadcast against the data."""
        number = self.symbols.index(symbol)
        shape = [1] * len(self.symbols)
        shape[number] = -1
        return self.data.coordinates[symbol].reshape(shape)

    def differentiate(self, values: np.ndarray, order: Order) -> np.ndarray:
        """Finite differences of smooth data, fourth order inside the grid."""
        for number, symbol in enumerate(self.symbols):
            for _ in range(order[COORDINATES.index(symbol)]):
                values = derivative(
                    values, self.data.coordinates[symbol], number, self.data.period.get(symbol)
                )
        return values

    def integrate(
        self, values: np.ndarray, order: Order, memory: dict, key: Hashable
    ) -> np.ndarray:
        """∫ values ∂^order φ_k for all test functions; orders share work through `memory`."""
        steps = [order[COORDINATES.index(c)] for c in self.symbols]
        result = values
        for number in reversed(range(len(self.axes))):
            label = (key, tuple(steps[number:]))
            if label not in memory:
                memory[label] = along(self.axes[number].matrices[steps[number]], result, number)
            result = memory[label]
        return result.ravel()

    @cached_property
    def complete(self) -> np.ndarray:
        """Test functions whose support holds no missing value."""
        count = math.prod(len(a.centres) for a in self.axes)
        if self.bridge is None or not self.bridge.open.any():
            return np.ones(count, dtype=bool)
        touched = self.bridge.open.astype(float)
        for number, axis in enumerate(self.axes):
            support = (axis.matrices[0] != 0).astype(float)
            touched = along(support, touched, number)
        return touched.ravel() == 0

    @cached_property
    def blocks(self) -> np.ndarray:
        """Resampling block of every test function."""
        counts = block_counts(BLOCKS[self.data.dim], [len(a.centres) for a in self.axes])
        label = np.zeros([len(a.centres) for a in self.axes], dtype=int)
        for number, (axis, parts) in enumerate(zip(self.axes, counts, strict=True)):
            index = np.minimum(np.arange(len(axis.centres)) * parts // len(axis.centres), parts - 1)
            shape = [1] * len(self.axes)
            shape[number] = -1
            label = label * parts + index.reshape(shape)
        return label.ravel()

    @property
    def effective(self) -> float:
        """Number of independent test functions."""
        return math.prod(a.independent for a in self.axes) * float(self.complete.mean())

    @property
    def notes(self) -> dict:
        notes = {"half_widths": [a.half for a in self.axes], "powers": [a.power for a in self.axes]}
        if self.failing is not None:
            notes["tails"] = [
                float("nan") if a.tail is None else a.tail.ratio for a in self.failing.axes
            ]
        return notes


def fewest_half(length: int, orders: int, symbol: object) -> int:
    """Half width with as many readings as derivatives need, refused where there are not so many."""
    half = max(1, math.ceil((orders + 1) / 2))
    if length < 2 * half + 1:
        kind = f"derivatives of order {orders}" if orders else "test functions"
        raise InputError(
            f"{kind} along {symbol} need at least {2 * half + 1} readings there, but the data "
            f"have {length}; measure at more "
            f"values of {symbol}"
        )
    return half


def block_counts(usual: tuple[int, ...], centres: list[int]) -> list[int]:
    """Into how many blocks each axis is cut: as usual, but where an axis has few test functions the
    others are cut finer.

    Example:
        >>> block_counts((4, 3), [40, 1])
        [12, 1]
    """
    counts = [min(parts, n) for parts, n in zip(usual, centres, strict=False)]
    while math.prod(counts) < math.prod(usual):
        room = [n / parts for n, parts in zip(centres, counts, strict=True)]
        if max(room) < 2:
            break
        counts[room.index(max(room))] += 1
    return counts


def along(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """A matrix applied along one axis of an array, without copies for moving axes."""
    shape = (*values.shape[:axis], len(matrix), *values.shape[axis + 1 :])
    if axis == values.ndim - 1:
        return values @ matrix.T
    return (
        matrix @ values.reshape(math.prod(values.shape[:axis]), values.shape[axis], -1)
    ).reshape(shape)


def box_mean(values: np.ndarray, factors: list[int]) -> np.ndarray:
    """Means over boxes of the given size; an incomplete box at the end is dropped."""
    for axis, factor in enumerate(factors):
        count = values.shape[axis] // factor
        kept = np.take(values, np.arange(count * factor), axis)
        values = kept.reshape(*values.shape[:axis], count, factor, *values.shape[axis + 1 :]).mean(
            axis=axis + 1
        )
    return values


def derivative(
    values: np.ndarray,
    points: np.ndarray,
    axis: int,
    period: float | None = None,
    width: int = USUAL_WIDTH,
) -> np.ndarray:
    """First derivative along an axis, exact for polynomials through so many neighbouring points;
    of second order at the ends of an equidistant grid.
    """
    if period is not None:
        around = np.r_[
            points[-GRID_TESTS.wrap :] - period, points, points[: GRID_TESTS.wrap] + period
        ]
        ends = (
            np.take(values, range(-GRID_TESTS.wrap, 0), axis),
            values,
            np.take(values, range(GRID_TESTS.wrap), axis),
        )
        inner = np.arange(GRID_TESTS.wrap, GRID_TESTS.wrap + len(points))
        around_values = np.concatenate(ends, axis=axis)
        return np.take(derivative(around_values, around, axis, width=width), inner, axis)
    steps = np.diff(points)
    if width != USUAL_WIDTH or len(points) < 6 or not is_uniform(points):
        return along(difference_matrix(points, width), values, axis)
    result = np.empty_like(values)
    moved, target, step = np.moveaxis(values, axis, 0), np.moveaxis(result, axis, 0), steps[0]
    target[2:-2] = (8 * (moved[3:-1] - moved[1:-3]) - (moved[4:] - moved[:-4])) / (12 * step)
    target[1], target[-2] = (moved[2] - moved[0]) / (2 * step), (moved[-1] - moved[-3]) / (2 * step)
    target[0] = (4 * moved[1] - 3 * moved[0] - moved[2]) / (2 * step)
    target[-1] = (3 * moved[-1] - 4 * moved[-2] + moved[-3]) / (2 * step)
    return result


def difference_matrix(points: np.ndarray, width: int) -> np.ndarray:
    """The matrix that takes values to the slopes of the polynomials through the nearest points.

    Example:
        >>> points = np.array([0.0, 0.1, 0.3, 0.4, 0.8])
        >>> bool(np.allclose(difference_matrix(points, 5) @ points**4, 4 * points**3))
        True
    """
    count, width = len(points), min(width, len(points))
    matrix = np.zeros((count, count))
    for number in range(count):
        first = min(max(number - width // 2, 0), count - width)
        near = np.arange(first, first + width)
        offset = points[near] - points[number]
        size = np.abs(offset).max()
        slope = np.zeros(width)
        slope[1] = 1 / size
        matrix[number, near] = np.linalg.solve(np.vander(offset / size, increasing=True).T, slope)
    return matrix
