# SPDX-License-Identifier: MIT
"""Where a fitted model starts: the state of a field, and for equations of second order its rate,
taken from measured data.

One difference of two readings divides their noise by a time step. Here both come from one
polynomial in time through several readings at each point, as many as a cubic follows to within the
noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.symbols.coordinates import t

if TYPE_CHECKING:
    import sympy as sp


@dataclass(frozen=True)
class StartSettings:
    """How the state at the start is fitted.

    Attributes:
        degree: of the polynomial in time; a cubic gives a rate of third order.
        allowed: how far the mean square of a difference may exceed that of the noise, whose size is
            known to 2 %.
        deviations: standard deviations of that mean square that chance may add.
        growth: by how much a stretch is longer than the one before.
        rounding: share of the signal that counts as followed without noise.
    """

    degree: int = 3
    allowed: float = 1.05
    deviations: float = 3.0
    growth: float = 1.3
    rounding: float = 1e-9


def start_with_rate(
    data: Dataset,
    noise: Mapping[sp.Expr, float],
    begin: float,
    settings: StartSettings | None = None,
) -> Dataset:
    """Data that are linear in time, with the fitted state and rate at the start.

    Args:
        data: the measured values; missing ones are filled already.
        noise: the standard deviation of the noise of each component.
        begin: the time of the start.
        settings: see `StartSettings`.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> times = np.linspace(0, 1, 9)
        >>> wave = np.cos(times)[None] + np.sin(times)[None] * np.ones((4, 1))
        >>> data = Dataset.from_arrays({cf.x: np.arange(4.0), cf.t: times}, {u: wave})
        >>> started = start_with_rate(data, {u: 0.0}, 0.0).values[u]
        >>> bool(abs(started[0, 0] - 1) < 1e-4), bool(abs(started[0, 8] - started[0, 0] - 1) < 2e-3)
        (True, True)
    """
    chosen = settings or StartSettings()
    times = np.asarray(data.coordinates[t], dtype=float)
    values = {}
    for part, array in data.values.items():
        state, rate = fitted_start(array, times - begin, noise.get(part, 0.0), chosen)
        values[part] = state[..., None] + rate[..., None] * (times - begin)
    return replace(data, values=values)


def fitted_start(
    array: np.ndarray, since: np.ndarray, noise: float, settings: StartSettings
) -> tuple[np.ndarray, np.ndarray]:
    """State and rate at time zero of readings along the last axis, `since` being the times of the
    readings.

    Longer stretches average more noise and follow the solution less. The longest one is taken whose
    state and rate differ from those of every shorter one by no more than noise does (Lepski's
    rule).
    """
    order = np.argsort(np.abs(since), kind="stable")
    degree = min(settings.degree, len(since) - 1)
    floor = settings.rounding * float(np.sqrt(np.mean(array**2)))
    points = max(array[..., 0].size, 1)
    allowed = settings.allowed + settings.deviations * math.sqrt(2 / points)
    accepted: list[np.ndarray] = []
    for count in counts(degree + 1, len(since), settings.growth):
        near = order[:count]
        scale = float(np.abs(since[near]).max()) or 1.0
        weights = np.zeros((2, len(since)))
        rows = np.linalg.pinv(np.vander(since[near] / scale, degree + 1, increasing=True))[:2]
        weights[: len(rows), near] = rows / np.array([[1.0], [scale]])[: len(rows)]
        for shorter in accepted:
            apart = weights - shorter
            expected = noise**2 * np.sum(apart**2, axis=1) + floor**2 * np.array([1.0, scale**-2])
            found = np.sum((array @ apart.T) ** 2, axis=tuple(range(array.ndim - 1))) / points
            if np.any(found > allowed * expected):
                break
        else:
            accepted.append(weights)
            continue
        break
    state, rate = np.moveaxis(array @ accepted[-1].T, -1, 0)
    return state, rate


def counts(least: int, most: int, growth: float) -> list[int]:
    """Numbers of readings to try, each larger than the one before by a factor, at least by one."""
    found = [least]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, int(growth * found[-1]))))
    return found
