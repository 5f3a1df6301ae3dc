# SPDX-License-Identifier: MIT
"""Smooth test functions with compact support, and how wide they should be.

On a grid a test function is a product of bumps (1 − s²)^p, one per axis, s ∈ [−1, 1]. Its half
width follows the corner of the data's spectrum: as wide as the scale at which the signal sinks into
the noise, because averaging over less keeps noise and averaging over more loses the dynamics.

A sum over few readings is no integral: on seven readings −Σ tφ′ is 14 % short of Σ φ, and a
coefficient is 14 % short with it. The weights of every bump are therefore changed as little as
possible so that they integrate polynomials exactly,

    Σ_i w_i P(t_i) = ∫ P φ^(d) dt   for all P up to a degree of d + 7, or as far as the readings go,

wherever the readings are. Polynomials then keep integration by parts, and the rows their equation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import Polynomial, legendre
from scipy.optimize import brentq

from cffem.data.noise.grid_noise import is_uniform

TAIL = 1e-10  # value to which the bump has fallen one grid point before its edge
SPREAD = 2.0  # how many spectral widths of the bump fit below the data's corner
LARGEST_POWER = 16
GAUSS_POINTS = 40  # integrate a bump of the largest power against the polynomials of a rule exactly
RESOLVED_HALF = (
    8  # readings per half width from which equally spaced sums are integrals to seven digits
)
FEWEST_POINTS = (
    1.6  # grid points per standard deviation of a bump that still integrate it accurately
)


def bump_derivatives(s: np.ndarray, power: int, orders: int) -> np.ndarray:
    """(1 − s²)^p and its derivatives up to `orders`, zero outside [−1, 1].

    The d-th derivative is (1 − s²)^(p−d) q_d with q_{d+1} = (1 − s²) q_d' − 2 (p − d) s q_d: no
    cancellation at the ends.

    Example:
        >>> bump_derivatives(np.array([0.0, 1.0]), 3, 1)
        array([[ 1.,  0.],
               [ 0., -0.]])
    """
    return np.array([bump_derivative(s, power, order) for order in range(orders + 1)])


def bump_derivative(s: np.ndarray, power: int, order: int) -> np.ndarray:
    """The derivative of (1 − s²)^p of one order, zero outside [−1, 1]."""
    if order >= power:
        raise ValueError(
            f"a bump of power {power} has only {power - 1} continuous derivatives, but {order} "
            "are needed"
        )
    return np.clip(1 - s**2, 0, None) ** (power - order) * np.polynomial.polynomial.polyval(
        s, bump_factor(power, order)
    )


@lru_cache(maxsize=256)
def bump_factor(power: int, order: int) -> tuple[float, ...]:
    """Coefficients of q_d, lowest first."""
    if order == 0:
        return (1.0,)
    lower, base = Polynomial(bump_factor(power, order - 1)), Polynomial([1.0, 0.0, -1.0])
    factor = base * lower.deriv() - 2 * (power - order + 1) * Polynomial([0.0, 1.0]) * lower
    return tuple(factor.coef)


@dataclass(frozen=True)
class MomentRule:
    """How weights are made exact for polynomials.

    Args:
        moments: how many degrees beyond the order of the derivative are integrated exactly, where
            there are readings for it.
        edge: share of the correction that the ends of a bump may carry, relative to its middle.
        fewer: how many of these degrees are given up, to see what they are worth.
        largest_sum: of |w| relative to ∫ |φ^(d)|; irregular readings whose weights exceed it get
            fewer moments.
    """

    moments: int = 8
    edge: float = 1e-3
    fewer: int = 0
    largest_sum: float = 30.0

    def weights(self, s: np.ndarray, power: int, orders: int) -> np.ndarray:
        """(1 + orders) × readings: the weights of each derivative of the bump for readings at
        s ∈ [−1, 1].
        """
        spacing = np.gradient(s)
        spacing[0], spacing[-1] = (s[1] - s[0]) / 2, (s[-1] - s[-2]) / 2
        plain = bump_derivatives(s, power, orders) * spacing
        share = ((1 - s**2) ** 2 + self.edge) * spacing
        nodes, gauss = legendre.leggauss(GAUSS_POINTS)
        exact = bump_derivatives(nodes, power, orders) * gauss
        rows = []
        for order in range(orders + 1):
            most = max(min(order + 1, len(s)), min(order + self.moments, len(s)) - self.fewer)
            largest = self.largest_sum * np.abs(exact[order]).sum()
            for count in range(most, min(order + 1, most) - 1, -1):
                basis = legendre.legvander(s, count - 1).T
                lacking = (
                    legendre.legvander(nodes, count - 1).T @ exact[order] - basis @ plain[order]
                )
                solved = np.linalg.lstsq((basis * share) @ basis.T, lacking, rcond=1e-12)[0]
                corrected = plain[order] + share * (solved @ basis)
                if np.abs(corrected).sum() <= largest:
                    break
            rows.append(corrected)
        return np.array(rows)


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
    rule: MomentRule = MomentRule()
    period: float | None = None

    @cached_property
    def centres(self) -> np.ndarray:
        """Indices of the readings in the middle of each bump."""
        first = 0 if self.period is not None else self.half
        return np.arange(first, len(self.coordinates) - first, self.stride)

    @cached_property
    def uniform(self) -> bool:
        """Whether all readings are equally far apart."""
        points = self.coordinates
        return is_uniform(points if self.period is None else np.r_[points, points[0] + self.period])

    @property
    def resolved(self) -> bool:
        """Whether the readings are many and regular enough for the error of the weights not
        to matter.
        """
        return self.uniform and self.half >= RESOLVED_HALF

    @cached_property
    def matrices(self) -> np.ndarray:
        """orders × centres × points: integrating data against the d-th derivative of each
        bump is one matrix product.
        """
        count = len(self.coordinates)
        result = np.zeros((self.orders + 1, len(self.centres), count))
        scale = np.arange(self.orders + 1.0)
        known: np.ndarray | None = None
        for number, centre in enumerate(self.centres):
            window = self._window(int(centre))
            points = self.coordinates[window % count] + (window // count) * (self.period or 0.0)
            middle, radius = (points[0] + points[-1]) / 2, (points[-1] - points[0]) / 2
            if known is None or not self.uniform:
                known = self.rule.weights(
                    np.clip((points - middle) / radius, -1, 1), self.power, self.orders
                )
            np.add.at(result[:, number].T, window % count, (known * radius ** -scale[:, None]).T)
        return result

    def _window(self, centre: int) -> np.ndarray:
        """Indices of the readings under a bump; where readings are crowded there are more of
        them.
        """
        first, last, points = centre - self.half, centre + self.half, self.coordinates
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
    """Weighted squared distance of the values between two indices from the chord through
    their ends.
    """
    slope = (values[last] - values[first]) / (grid[last] - grid[first])
    part = slice(first, last + 1)
    distance = values[part] - values[first] - slope * (grid[part] - grid[first])
    return float(weights[part] @ distance**2)


def half_width(length: int, corner: int) -> int:
    """Half width in grid points so that the bump's spectrum ends at the corner."""
    scale = length * SPREAD / (2 * math.pi * corner)

    def excess(m: float) -> float:
        first = math.log((2 * m - 1) / m**2) * (
            4 * math.pi**2 * corner**2 * m**2 - 3 * length**2 * SPREAD**2
        )
        return first - 2 * length**2 * SPREAD**2 * math.log(TAIL)

    low, high = math.sqrt(3) * scale, scale * math.sqrt(3 - 8 * math.log(TAIL))
    if excess(low) * excess(high) > 0:
        return round((low + high) / 2)
    return math.ceil(brentq(excess, low, high))


def power_for(half: int, orders: int) -> int:
    """Exponent that makes the bump vanish to the tail value at its edge and smooth enough for
    the derivatives.
    """
    wanted = (
        math.floor(math.log(TAIL) / math.log(1 - (1 - 1 / half) ** 2)) if half > 1 else orders + 1
    )
    resolved = math.floor(
        ((half / FEWEST_POINTS) ** 2 - 3) / 2
    )  # the bump's standard deviation is half/√(2p + 3) grid points
    return max(orders + 1, min(wanted, max(resolved, half + 1), LARGEST_POWER))
