# SPDX-License-Identifier: MIT
"""Trajectories of equations of second order and polynomials of time on each step, in Legendre polynomials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

WINDOW = 16


@dataclass(frozen=True)
class Trajectory:
    """Owned values and rates of the unknown at all levels, one column each, on levels that are equally far apart.

    Attributes:
        states: u at the levels.
        rates: u_t at the levels.
        times: the levels.
    """

    states: np.ndarray
    rates: np.ndarray
    times: np.ndarray

    @property
    def step(self) -> float:
        """The distance of two levels."""
        return float(self.times[-1] - self.times[0]) / (len(self.times) - 1)

    @property
    def bump(self) -> np.ndarray:
        """s, where ũ = I u + β s with β = (t − t_{n−1})(t − t_n)/2: the mean second derivative on each step."""
        result: np.ndarray = np.diff(self.rates, axis=1) / self.step
        return result

    @property
    def integral(self) -> np.ndarray:
        """∫ ũ from the start to each level."""
        parts = self.step * (self.states[:, 1:] + self.states[:, :-1]) / 2 - self.step**3 / 12 * self.bump
        return np.concatenate([np.zeros((len(self.states), 1)), np.cumsum(parts, axis=1)], axis=1)

    def __sub__(self, other: Trajectory) -> Trajectory:
        return Trajectory(self.states - other.states, self.rates - other.rates, self.times)


def interpolated(levels: np.ndarray, bump: np.ndarray | None, step: float) -> list[np.ndarray]:
    """I x + β s on each step in Legendre polynomials of time: β = τ²/12 (P₂ − P₀)."""
    first, last = levels[:, :-1], levels[:, 1:]
    if bump is None:
        return [(first + last) / 2, (last - first) / 2]
    return [(first + last) / 2 - step**2 / 12 * bump, (last - first) / 2, step**2 / 12 * bump]


def differentiated(levels: np.ndarray, bump: np.ndarray, step: float) -> list[np.ndarray]:
    """The time derivative of I x + β s: β' = τ/2 P₁."""
    return [np.diff(levels, axis=1) / step, step / 2 * bump]


def integrated(start: np.ndarray, parts: list[np.ndarray], step: float) -> list[np.ndarray]:
    """start + ∫ of a polynomial on each step: ∫P_n = (P_{n+1} − P_{n−1}) τ/2 / (2n + 1), and P₀ + P₁ for n = 0."""
    result = [start + step / 2 * parts[0], step / 2 * parts[0]] + [np.zeros_like(parts[0]) for _ in parts[1:]]
    for n, part in enumerate(parts[1:], start=1):
        result[n + 1] = result[n + 1] + step / 2 / (2 * n + 1) * part
        result[n - 1] = result[n - 1] - step / 2 / (2 * n + 1) * part
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


def subtracted(one: list[np.ndarray], other: list[np.ndarray]) -> list[np.ndarray]:
    """The difference of polynomials in time, of any degrees."""
    common = [a - b for a, b in zip(one, other, strict=False)]
    return common + one[len(other) :] + [-b for b in other[len(one) :]]


def second_differences(levels: np.ndarray, step: float) -> np.ndarray:
    """Approximate second derivatives in the middle of each step."""
    count = levels.shape[1] - 1
    result = np.zeros((levels.shape[0], count), order="F")
    if count == 2:
        result[:] = (levels[:, 2:] - 2 * levels[:, 1:2] + levels[:, :1]) / step**2
    elif count > 2:
        result[:, 1:-1] = (levels[:, 3:] - levels[:, 2:-1] - levels[:, 1:-2] + levels[:, :-3]) / (2 * step**2)
        for end, inner, next_one in ((0, 1, min(2, count - 2)), (-1, -2, max(-3, 1 - count))):
            result[:, end] = 2 * result[:, inner] - result[:, next_one]
    return result


def windows(count: int) -> Iterator[slice]:
    """Slices of at most a few columns."""
    for start in range(0, count, WINDOW):
        yield slice(start, min(start + WINDOW, count))
