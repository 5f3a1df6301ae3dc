# SPDX-License-Identifier: MIT
"""Smooth test functions with compact support, and how wide they should be.

On a grid a test function is a product of bumps (1 − s²)^p, one per axis, s ∈ [−1, 1]. Its half
width follows the corner of the data's spectrum: as wide as the scale at which the signal sinks into
the noise, because averaging over less keeps noise and averaging over more loses the dynamics.

A sum over few readings is no integral. The weights of every bump are therefore such that
integration by parts holds exactly for polynomials (see `summation`), wherever the readings are, and
the rows keep their equation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from cffem.data.noise.grid_noise import is_uniform
from cffem.data.rows.summation import SEEN, MomentRule, Tail, coefficients


@dataclass(frozen=True)
class BumpSettings:
    """Bumps (1 − s²)^p and their integrals.

    Args:
        tail: value to which the bump has fallen one grid point before its edge.
        spread: how many spectral widths of the bump fit below the data's corner.
        largest_power: largest p.
        resolved_half: readings per half width from which equally spaced sums are integrals to
            seven digits.
        fewest_points: grid points per standard deviation of a bump that still integrate it
            accurately.
    """

    tail: float = 1e-10
    spread: float = 2.0
    largest_power: int = 16
    resolved_half: int = 8
    fewest_points: float = 1.6


BUMPS = BumpSettings()


FULL_RULE = MomentRule()


@dataclass(frozen=True)
class BumpSupport:
    """The readings under one bump: their numbers, their places from −1 to 1, half their
    extent, and the weights of each order.
    """

    readings: np.ndarray
    s: np.ndarray
    radius: float
    weights: np.ndarray


@dataclass(frozen=True)
class Axis:
    """Test functions along one grid axis: bumps over equally many readings, with weights that are
    exact for polynomials.

    Args:
        coordinates: the grid points, increasing.
        half: half width of the bumps in grid points.
        power: exponent p of the bump.
        stride: distance of neighbouring centres in grid points.
        orders: highest derivative needed.
        rule: how the weights are made exact.
        period: length after which the axis repeats itself, or None.
        tail: of the data; if it is given, what its polynomials make the sums fail by is added to
            them.

    Example:
        >>> axis = Axis(np.array([0.0, 0.2, 0.5, 0.6, 0.9]), half=2, power=2, stride=1, orders=1)
        >>> value, slope = axis.matrices[:, 0]
        >>> bool(np.isclose(-slope @ axis.coordinates, value.sum()))  # −∫ tφ′ = ∫ φ
        True
    """

    coordinates: np.ndarray
    half: int
    power: int
    stride: int
    orders: int
    rule: MomentRule = FULL_RULE
    period: float | None = None
    tail: Tail | None = None

    @cached_property
    def centres(self) -> np.ndarray:
        """Indices of the readings in the middle of each bump."""
        if self.whole:
            return np.array([self.half])
        first = 0 if self.period is not None else self.half
        return np.arange(first, len(self.coordinates) - first, self.stride)

    @property
    def whole(self) -> bool:
        """Whether one bump takes all readings, as one more on either side would not fit."""
        return self.period is None and len(self.coordinates) <= 2 * self.half + 2

    @cached_property
    def uniform(self) -> bool:
        """Whether all readings are equally far apart."""
        points = self.coordinates
        return is_uniform(points if self.period is None else np.r_[points, points[0] + self.period])

    @property
    def resolved(self) -> bool:
        """Whether readings are so many and regular that the error of the weights is negligible."""
        return self.uniform and self.half >= BUMPS.resolved_half

    @cached_property
    def supports(self) -> list[BumpSupport]:
        """The readings under each bump with their weights."""
        found: list[BumpSupport] = []
        count = len(self.coordinates)
        for centre in self.centres:
            window = self._window(int(centre))
            points = self.coordinates[window % count] + (window // count) * (self.period or 0.0)
            middle, radius = (points[0] + points[-1]) / 2, (points[-1] - points[0]) / 2
            if found and self.uniform:
                found.append(replace(found[0], readings=window % count))
            else:
                s = np.clip((points - middle) / radius, -1, 1)
                found.append(
                    BumpSupport(
                        window % count, s, radius, self.rule.weights(s, self.power, self.orders)
                    )
                )
        return found

    @cached_property
    def matrices(self) -> np.ndarray:
        """orders × centres × points: integrating data against the d-th derivative of each
        bump is one matrix product.
        """
        exact = self._assembled([support.weights for support in self.supports])
        if self.tail is None:
            return exact
        parts: list[np.ndarray] = []
        for support in self.supports:
            same = bool(parts) and self.uniform
            parts.append(
                parts[0] if same else self.tail.defects(support.s, support.weights, self.seen)
            )
        return exact + self._assembled(parts)

    def _assembled(self, weights: list[np.ndarray]) -> np.ndarray:
        """Weights in the scale of the axis, at the places of their readings."""
        result = np.zeros((self.orders + 1, len(self.centres), len(self.coordinates)))
        scale = np.arange(self.orders + 1.0)[:, None]
        for number, (support, part) in enumerate(zip(self.supports, weights, strict=True)):
            np.add.at(result[:, number].T, support.readings, (part * support.radius**-scale).T)
        return result

    @property
    def seen(self) -> int:
        """Degree up to which the readings under a bump show the polynomials in the data."""
        return min(SEEN, 2 * self.half)

    def tail_of(self, values: np.ndarray, sd: float) -> Tail:
        """How the data (readings × lines) go on beyond the polynomials that the readings show.

        Args:
            values: the data.
            sd: standard deviation of their noise.
        """
        energy, noise = np.zeros(self.seen + 1), np.zeros(self.seen + 1)
        for support in self.supports:
            fit = coefficients(support.s, self.seen)
            energy += ((fit @ values[support.readings]) ** 2).mean(axis=1)
            noise += sd**2 * (fit**2).sum(axis=1)
        return Tail.of(energy, noise)

    def failing(self, fields: Iterable[tuple[np.ndarray, float]]) -> Axis:
        """The same sums with what they fail by on these data: of all fields (readings ×
        lines, with their noise) the worst.
        """
        tails = [self.tail_of(values, sd) for values, sd in fields]
        return replace(self, tail=Tail(max(f.ratio for f in tails), max(f.signal for f in tails)))

    def _window(self, centre: int) -> np.ndarray:
        """Indices of the readings under a bump; more of them where readings are crowded."""
        first, last, points = centre - self.half, centre + self.half, self.coordinates
        if self.whole:
            return np.arange(len(points))
        if self.period is not None or self.uniform:
            return np.arange(first, last + 1)
        usual = self.half * (points[-1] - points[0]) / (len(points) - 1)
        while points[last] - points[first] < usual and (first > 0 or last < len(points) - 1):
            first, last = max(0, first - 1), min(len(points) - 1, last + 1)
        return np.arange(first, last + 1)

    @property
    def independent(self) -> float:
        """Number of test functions along this axis that do not overlap by more than half."""
        whole = len(self.coordinates) / self.half
        return max(1.0, whole if self.period is not None else whole - 1)


def spectral_corner(data: np.ndarray, axis: int) -> int:
    """Wave number at which the mean spectrum along one axis turns from signal to noise:
    corner of a two-segment fit.
    """
    length = data.shape[axis]
    mean = np.abs(np.fft.rfft(data, axis=axis))
    mean = mean.mean(axis=tuple(k for k in range(data.ndim) if k != axis))[1:]
    total = np.cumsum(mean[::-1])[
        ::-1
    ]  # from the highest wave number down, as the noise floor is a straight line there
    if total[0] == 0:
        return 1
    total = total / total[0]
    grid = np.arange(1, len(total) + 1, dtype=float)
    weights = (
        1 / np.maximum(total, np.finfo(float).eps) ** 2
    )  # below rounding the spectrum tells nothing, and it may be zero
    best, corner = math.inf, 1
    for k in range(2, len(total) - 2):
        error = chord_error(grid, total, weights, 0, k) + chord_error(
            grid, total, weights, k, len(total) - 1
        )
        if error < best:
            best, corner = error, k + 1
    return max(1, min(corner, length // 4))


def chord_error(
    grid: np.ndarray, values: np.ndarray, weights: np.ndarray, first: int, last: int
) -> float:
    """Weighted squared distance of the values between two indices from their chord."""
    slope = (values[last] - values[first]) / (grid[last] - grid[first])
    part = slice(first, last + 1)
    distance = values[part] - values[first] - slope * (grid[part] - grid[first])
    return float(weights[part] @ distance**2)


def half_width(length: int, corner: int) -> int:
    """Half width in grid points so that the bump's spectrum ends at the corner."""
    scale = length * BUMPS.spread / (2 * math.pi * corner)

    def excess(m: float) -> float:
        first = math.log((2 * m - 1) / m**2) * (
            4 * math.pi**2 * corner**2 * m**2 - 3 * length**2 * BUMPS.spread**2
        )
        return first - 2 * length**2 * BUMPS.spread**2 * math.log(BUMPS.tail)

    low, high = math.sqrt(3) * scale, scale * math.sqrt(3 - 8 * math.log(BUMPS.tail))
    if excess(low) * excess(high) > 0:
        return round((low + high) / 2)
    return math.ceil(brentq(excess, low, high))


def power_for(half: int, orders: int) -> int:
    """Exponent that makes the bump vanish to the tail value at its edge and smooth enough for
    the derivatives.
    """
    wanted = (
        math.floor(math.log(BUMPS.tail) / math.log(1 - (1 - 1 / half) ** 2))
        if half > 1
        else orders + 1
    )
    resolved = math.floor(
        ((half / BUMPS.fewest_points) ** 2 - 3) / 2
    )  # the bump's standard deviation is half/√(2p + 3) grid points
    return max(orders + 1, min(wanted, max(resolved, half + 1), BUMPS.largest_power))
