# SPDX-License-Identifier: MIT
"""Trajectories of equations of second order and polynomials of time on each step, in Legendre
polynomials.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

WINDOW = 16


@dataclass(frozen=True)
class Trajectory:
    """Owned values and rates of the unknown at all levels, one column each.

    Attributes:
        states: u at the levels.
        rates: u_t at the levels.
        times: the levels.
    """

    states: np.ndarray
    rates: np.ndarray
    times: np.ndarray

    @property
    def steps(self) -> np.ndarray:
        """τ_n, the distances of neighbouring levels."""
        return np.diff(self.times)

    @property
    def bump(self) -> np.ndarray:
        """s, where ũ = I u + β s with β = (t − t_{n−1})(t − t_n)/2: the mean second
        derivative on each step.
        """
        result: np.ndarray = np.diff(self.rates, axis=1) / self.steps
        return result

    @property
    def integral(self) -> np.ndarray:
        """∫ ũ from the start to each level."""
        steps = self.steps
        parts = steps * (self.states[:, 1:] + self.states[:, :-1]) / 2 - steps**3 / 12 * self.bump
        return np.concatenate([np.zeros((len(self.states), 1)), np.cumsum(parts, axis=1)], axis=1)

    def __sub__(self, other: Trajectory) -> Trajectory:
        return Trajectory(self.states - other.states, self.rates - other.rates, self.times)


def interpolated(
    levels: np.ndarray, bump: np.ndarray | None, steps: np.ndarray
) -> list[np.ndarray]:
    """I x + β s on each step in Legendre polynomials of time: β = τ²/12 (P₂ − P₀)."""
    # In place as far as possible: these arrays are large, and making one costs more than filling
    # it.
    middle, slope = levels[:, :-1] + levels[:, 1:], levels[:, 1:] - levels[:, :-1]
    middle *= 0.5
    slope *= 0.5
    if bump is None:
        return [middle, slope]
    curved = steps**2 / 12 * bump
    middle -= curved
    return [middle, slope, curved]


def differentiated(levels: np.ndarray, bump: np.ndarray, steps: np.ndarray) -> list[np.ndarray]:
    """The time derivative of I x + β s: β' = τ/2 P₁."""
    return [np.diff(levels, axis=1) / steps, steps / 2 * bump]


def integrated(start: np.ndarray, parts: list[np.ndarray], steps: np.ndarray) -> list[np.ndarray]:
    """start + ∫ of a polynomial on each step: ∫P_n = (P_{n+1} − P_{n−1}) τ/2 / (2n + 1), and
    P₀ + P₁ for n = 0.
    """
    slope = steps / 2 * parts[0]
    result = [start + slope, slope]
    for n, part in enumerate(parts[1:], start=1):
        higher = steps / 2 / (2 * n + 1) * part
        result[n - 1] -= higher
        result.append(higher)
    return result


def added(*polynomials: list[np.ndarray]) -> list[np.ndarray]:
    """The sum of polynomials in time."""
    result = []
    for n in range(max(map(len, polynomials))):
        first, *others = (p[n] for p in polynomials if n < len(p))
        total = first + others[0] if others else first
        for other in others[1:]:
            total += other
        result.append(total)
    return result


def differences(one: list[np.ndarray], other: list[np.ndarray]) -> Iterator[np.ndarray]:
    """The coefficients of the difference of two polynomials in time, up to their signs, one
    after the other in the same place.
    """
    room = np.empty(max((part.size for part in one), default=0))
    for a, b in zip_longest(one, other):
        if a is None or b is None:
            yield b if a is None else a
        else:
            yield np.subtract(a, b, out=room[: a.size].reshape(a.shape, order="F"))


def second_differences(levels: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Approximate second derivatives in the middle of each step.

    Example:
        >>> times = np.array([0.0, 1.0, 3.0, 4.0, 6.0])
        >>> second_differences(times[None] ** 2, np.diff(times)).tolist()
        [[2.0, 2.0, 2.0, 2.0]]
    """
    count = len(steps)
    result = np.zeros((levels.shape[0], count), order="F")
    if count < 2:
        return result
    slopes = np.diff(levels, axis=1) / steps
    at_levels = 2 * np.diff(slopes, axis=1) / (steps[1:] + steps[:-1])
    if count == 2:
        result[:] = at_levels
        return result
    result[:, 1:-1] = (at_levels[:, 1:] + at_levels[:, :-1]) / 2
    middles = np.cumsum(steps) - steps / 2
    for end, inner, next_one in ((0, 1, min(2, count - 2)), (-1, -2, max(-3, 1 - count))):
        apart = middles[inner] - middles[next_one]
        reach = (middles[end] - middles[inner]) / apart if apart else 0.0
        result[:, end] = result[:, inner] + reach * (result[:, inner] - result[:, next_one])
    return result


def windows(count: int) -> Iterator[slice]:
    """Slices of at most a few columns."""
    for start in range(0, count, WINDOW):
        yield slice(start, min(start + WINDOW, count))
