# SPDX-License-Identifier: MIT
"""Sensors with readings of their own: other times at each, or some missing, brought to common
times.

Along time every sensor's readings are joined by a spline where they are near enough; what is left
open is taken from the sensors around it at the same time. Both are linear, one sparse matrix F for
all, so fresh noise at the readings goes the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cffem.data.noise.grid_noise import GRID_NOISE, MEDIAN_TO_SD, divided_difference
from cffem.data.noise.reconstruction import Spline
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import sympy as sp


FEWEST = 4  # readings that a sensor needs for a cubic in time


@dataclass(frozen=True)
class Gathered:
    """How values at common times came from readings.

    Args:
        matrix: F, which takes all readings to all values at common times.
        noise: standard deviation of the readings of every field.
    """

    matrix: sparse.csr_matrix = field(repr=False)
    noise: Mapping[sp.Expr, float]

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """What noise at the readings becomes at the common times."""
        return (self.matrix @ noise.ravel()).reshape(noise.shape)


@dataclass(frozen=True)
class TimeRule:
    """How readings are joined along time.

    Args:
        stencil: readings that are used for one value.
        gap: distance to the nearest reading, in mean distances of readings, beyond which neighbours
            in space are asked.
    """

    stencil: int = 7
    gap: float = 1.5


def gathered(
    points: np.ndarray,
    times: np.ndarray,
    arrays: Mapping[sp.Expr, np.ndarray],
    rule: TimeRule | None = None,
) -> tuple[np.ndarray, dict[sp.Expr, np.ndarray], Gathered]:
    """Common times, the values there, and how they came about.

    Args:
        points: n × dim places.
        times: the reading times: m of them, or n × m.
        arrays: n × m readings of every field and component; NaN where one is missing.
        rule: how readings are joined.
    """
    rule = TimeRule() if rule is None else rule
    known = np.logical_and.reduce([np.isfinite(a) for a in arrays.values()])
    own = np.where(known & np.isfinite(np.broadcast_to(times, known.shape)), times, np.inf)
    known = np.isfinite(own)
    few = np.flatnonzero(known.sum(axis=1) < FEWEST)
    if len(few):
        raise InputError(
            f"sensor {few[0] + 1} has less than {FEWEST} readings; leave out the {len(few)} "
            "sensors with so few"
        )
    order = np.argsort(own, axis=1, kind="stable")
    own = np.take_along_axis(own, order, axis=1)
    counts = known.sum(axis=1)
    common = (
        times
        if times.ndim == 1
        else np.linspace(own[:, 0].max(), last_readings(own, counts).min(), own.shape[1])
    )
    if not common[-1] > common[0]:
        raise InputError(
            "the sensors were not read during a common time: the last one began after the first "
            "one had ended"
        )
    if any(np.diff(own[k, : counts[k]]).min() <= 0 for k in range(len(own))):
        raise InputError("a sensor has two readings at the same time; keep one of them")
    noise = {
        name: reading_noise(np.take_along_axis(a, order, axis=1), own, counts)
        for name, a in arrays.items()
    }
    raw = {name: np.where(known, a, 0.0) for name, a in arrays.items()}
    ratio = max(noise[n] / max(float(np.std(a[known])), 1e-300) for n, a in arrays.items())
    along, still_open = along_time(own, order, counts, common, Spline().smoothed(ratio), rule)
    matrix = (
        across_space(
            points, still_open, Spline(degree=2 if points.shape[1] > 2 else 3).smoothed(ratio)
        )
        @ along
    ).tocsr()
    values = {
        name: (matrix @ a.ravel()).reshape(len(points), len(common)) for name, a in raw.items()
    }
    return common, values, Gathered(matrix, noise)


def last_readings(own: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The last reading time of every sensor."""
    return own[np.arange(len(own)), counts - 1]


def reading_noise(values: np.ndarray, own: np.ndarray, counts: np.ndarray) -> float:
    """Standard deviation of the noise from divided differences of the readings of each
    sensor, in their own times.
    """
    size = min(GRID_NOISE.differences + 1, int(counts.min()))
    index = np.arange(own.shape[1] - size + 1)[:, None] + np.arange(size)
    sensors, starts = np.nonzero(np.arange(len(index))[None, :] + size <= counts[:, None])
    windows = index[starts]
    weights = divided_difference(own[sensors[:, None], windows])
    misses = (weights * values[sensors[:, None], windows]).sum(axis=1)
    return float(np.median(np.abs(misses)) / MEDIAN_TO_SD)


def along_time(
    own: np.ndarray,
    order: np.ndarray,
    counts: np.ndarray,
    common: np.ndarray,
    spline: Spline,
    rule: TimeRule,
) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The matrix that joins readings along time, with empty rows where none is near, and
    where these are.
    """
    sensors, width = own.shape
    size = min(rule.stencil, int(counts.min()))
    after = np.array([np.searchsorted(own[k, : counts[k]], common) for k in range(sensors)])
    first = np.clip(after - size // 2, 0, (counts - size)[:, None])
    stencil = first[..., None] + np.arange(size)
    rows = np.arange(sensors)[:, None, None]
    nodes = own[rows, stencil]
    step = (common[-1] - common[0]) / max(1, len(common) - 1)
    is_open = np.abs(nodes - common[None, :, None]).min(axis=2) > rule.gap * step
    targets = np.broadcast_to(common[None, :, None, None], (sensors, len(common), 1, 1)).reshape(
        -1, 1, 1
    )
    weights = spline.weights(nodes.reshape(-1, size, 1), targets)[:, 0].reshape(
        sensors, len(common), size
    )
    weights = np.where(is_open[..., None], 0.0, weights)
    columns = (rows * width + order[rows, stencil]).ravel()
    starts = size * np.arange(sensors * len(common) + 1)
    return sparse.csr_matrix(
        (weights.ravel(), columns, starts), shape=(sensors * len(common), sensors * width)
    ), is_open


def across_space(points: np.ndarray, is_open: np.ndarray, spline: Spline) -> sparse.csr_matrix:
    """The matrix that keeps values and takes open ones from the sensors around at the same time."""
    sensors, count = is_open.shape
    place = np.arange(sensors * count).reshape(sensors, count)
    rows, columns, entries = [place[~is_open]], [place[~is_open]], [np.ones(int((~is_open).sum()))]
    for k in np.flatnonzero(is_open.any(axis=0)):
        here = ~is_open[:, k]
        if here.sum() < 2 * points.shape[1] + 2:
            raise InputError(
                f"only {here.sum()} sensors were read near the time number {k + 1}; leave it out"
            )
        part = spline.matrix(points[here], points[~here][:, None, :]).tocoo()
        rows.append(place[~here, k][part.row])
        columns.append(place[here, k][part.col])
        entries.append(part.data)
    joined = (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
    return sparse.csr_matrix(joined, shape=(sensors * count,) * 2)
