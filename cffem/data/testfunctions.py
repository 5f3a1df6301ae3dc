# SPDX-License-Identifier: MIT
"""Smooth test functions with compact support, and how wide they should be.

On a grid a test function is a product of bumps (1 − s²)^p, one per axis, s ∈ [−1, 1]. Its half width follows the corner of the
data's spectrum: as wide as the scale at which the signal sinks into the noise, because averaging over less keeps noise and
averaging over more loses the dynamics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import brentq

TAIL = 1e-10  # value to which the bump has fallen one grid point before its edge
SPREAD = 2.0  # how many spectral widths of the bump fit below the data's corner
LARGEST_POWER = 16
FEWEST_POINTS = 1.6  # grid points per standard deviation of a bump that still integrate it accurately


def bump_derivatives(s: np.ndarray, power: int, orders: int) -> np.ndarray:
    """(1 − s²)^p and its derivatives up to `orders`, zero outside [−1, 1].

    The d-th derivative is (1 − s²)^(p−d) q_d with q_{d+1} = (1 − s²) q_d' − 2 (p − d) s q_d: no cancellation at the ends.

    Example:
        >>> bump_derivatives(np.array([0.0, 1.0]), 3, 1)
        array([[ 1.,  0.],
               [ 0., -0.]])
    """
    if orders >= power:
        raise ValueError(f"a bump of power {power} has only {power - 1} continuous derivatives, but {orders} are needed")
    inside = np.clip(1 - s**2, 0, None)
    factor = np.polynomial.Polynomial([1.0])
    base, slope = np.polynomial.Polynomial([1.0, 0.0, -1.0]), np.polynomial.Polynomial([0.0, 1.0])
    rows = []
    for d in range(orders + 1):
        rows.append(inside ** (power - d) * factor(s))
        factor = base * factor.deriv() - 2 * (power - d) * slope * factor
    return np.array(rows)


@dataclass(frozen=True)
class Axis:
    """Test functions along one grid axis: bumps of equal width at equidistant centres.

    Args:
        coordinates: the grid points, increasing.
        half: half width of the bumps in grid points.
        power: exponent p of the bump.
        stride: distance of neighbouring centres in grid points.
        orders: highest derivative needed.
    """

    coordinates: np.ndarray
    half: int
    power: int
    stride: int
    orders: int

    @cached_property
    def centres(self) -> np.ndarray:
        """Indices of the centres."""
        return np.arange(self.half, len(self.coordinates) - self.half, self.stride)

    @cached_property
    def matrices(self) -> np.ndarray:
        """orders × centres × points: integrating data against the d-th derivative of each bump is one matrix product."""
        points = self.coordinates
        weights = np.gradient(points)
        weights[0], weights[-1] = (points[1] - points[0]) / 2, (points[-1] - points[-2]) / 2
        radius = self.half * (points[-1] - points[0]) / (len(points) - 1)
        s = (points[None, :] - points[self.centres][:, None]) / radius
        values = bump_derivatives(np.clip(s, -1, 1), self.power, self.orders)
        scale = radius ** -np.arange(self.orders + 1.0)
        return values * scale[:, None, None] * weights / radius

    @property
    def independent(self) -> float:
        """Number of test functions along this axis that do not overlap by more than half."""
        return max(1.0, len(self.coordinates) / self.half - 1)


def spectral_corner(data: np.ndarray, axis: int) -> int:
    """Wave number at which the mean spectrum along one axis turns from signal to noise: corner of a two-segment fit."""
    length = data.shape[axis]
    mean = np.abs(np.fft.rfft(data, axis=axis))
    mean = mean.mean(axis=tuple(k for k in range(data.ndim) if k != axis))[1:]
    total = np.cumsum(mean[::-1])[::-1]  # from the highest wave number down, as the noise floor is a straight line there
    if total[0] == 0:
        return 1
    total = total / total[0]
    grid = np.arange(1, len(total) + 1, dtype=float)
    weights = 1 / np.maximum(total, np.finfo(float).eps) ** 2  # below rounding the spectrum tells nothing, and it may be zero
    best, corner = math.inf, 1
    for k in range(2, len(total) - 2):
        error = chord_error(grid, total, weights, 0, k) + chord_error(grid, total, weights, k, len(total) - 1)
        if error < best:
            best, corner = error, k + 1
    return max(1, min(corner, length // 4))


def chord_error(grid: np.ndarray, values: np.ndarray, weights: np.ndarray, first: int, last: int) -> float:
    """Weighted squared distance of the values between two indices from the chord through their ends."""
    slope = (values[last] - values[first]) / (grid[last] - grid[first])
    part = slice(first, last + 1)
    distance = values[part] - values[first] - slope * (grid[part] - grid[first])
    return float(weights[part] @ distance**2)


def half_width(length: int, corner: int) -> int:
    """Half width in grid points so that the bump's spectrum ends at the corner."""
    scale = length * SPREAD / (2 * math.pi * corner)

    def excess(m: float) -> float:
        first = math.log((2 * m - 1) / m**2) * (4 * math.pi**2 * corner**2 * m**2 - 3 * length**2 * SPREAD**2)
        return first - 2 * length**2 * SPREAD**2 * math.log(TAIL)

    low, high = math.sqrt(3) * scale, scale * math.sqrt(3 - 8 * math.log(TAIL))
    if excess(low) * excess(high) > 0:
        return round((low + high) / 2)
    return math.ceil(brentq(excess, low, high))


def power_for(half: int, orders: int) -> int:
    """Exponent that makes the bump vanish to the tail value at its edge and smooth enough for the derivatives."""
    wanted = math.floor(math.log(TAIL) / math.log(1 - (1 - 1 / half) ** 2)) if half > 1 else orders + 1
    resolved = math.floor(((half / FEWEST_POINTS) ** 2 - 3) / 2)  # the bump's standard deviation is half/√(2p + 3) grid points
    return max(orders + 1, min(wanted, resolved, LARGEST_POWER))
