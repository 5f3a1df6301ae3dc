# SPDX-License-Identifier: MIT
"""Anomalies: values less their mean over all times, or less a smooth curve of the season."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline, PchipInterpolator

from cffem.symbols.errors import InputError

ANOMALIES = ("none", "mean", "month")


CLIMATOLOGY_PASSES = 4  # after which the means of the months are gone to a few parts in a thousand


class DataError(InputError):
    """Measured data that cannot be used as they are."""


def without_mean(values: np.ndarray, times: np.ndarray, anomaly: str) -> np.ndarray:
    """Values less their mean at each place, over all times or over the season.

    Readings once a month lose the mean of their calendar month. More frequent ones lose a smooth
    climatology with these means: the step from one month's mean to the next would be a jump in the
    anomaly, and a source of heat in every equation.

    Example:
        >>> without_mean(
        ...     np.array([[[1.0, 3.0]]]),
        ...     np.array(["2001-01-01", "2001-02-01"], dtype="datetime64[D]"),
        ...     "mean",
        ... )
        array([[[-1.,  1.]]])
    """
    if anomaly == "none":
        return values
    if anomaly == "mean":
        return values - group_means(values, np.zeros(len(times), dtype=int))[0]
    if not np.issubdtype(times.dtype, np.datetime64):
        raise DataError("monthly anomalies need dates, not numbers, as times")
    months = times.astype("datetime64[M]").astype(int)
    if len(np.unique(months)) == len(months):
        means, found = group_means(values, months % 12)
        return values - means[..., np.searchsorted(found, months % 12)]
    year = times.astype("datetime64[Y]")
    phase = (times - year) / ((year + 1).astype("datetime64[s]") - year.astype("datetime64[s]"))
    result = values
    for _ in range(
        CLIMATOLOGY_PASSES
    ):  # a curve through the means has other means; what it lacks is added
        result = result - seasonal_curve(result, months % 12, phase)
    return result


def group_means(values: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means over the times of each group (last axis) without missing values, and the groups."""
    found = np.unique(groups)
    means = []
    for group in found:
        chosen = values[..., groups == group]
        counts = np.isfinite(chosen).sum(axis=-1)
        means.append(np.nansum(chosen, axis=-1) / np.maximum(counts, 1))
    return np.stack(means, axis=-1), found


def seasonal_curve(values: np.ndarray, months: np.ndarray, phase: np.ndarray) -> np.ndarray:
    """A smooth curve of the phase of the year through the means of the months, at all times;
    periodic if it has every month.
    """
    means, found = group_means(values, months)
    middle = np.array([circular_mean(phase[months == month]) for month in found])
    order = np.argsort(middle)
    middle, means = middle[order], means[..., order]
    if len(found) == 1:
        return np.broadcast_to(means, values.shape)
    if len(found) == 12:
        around = np.r_[middle, middle[0] + 1.0]
        curve = CubicSpline(
            around, np.concatenate([means, means[..., :1]], axis=-1), axis=-1, bc_type="periodic"
        )
        return curve((phase - middle[0]) % 1.0 + middle[0])
    # Part of a year: start after the longest time without readings, and go on straight before the
    # first month's middle and after the last one's.
    gap = int(np.argmax(np.diff(np.r_[middle, middle[0] + 1.0])))
    first = middle[(gap + 1) % len(middle)]
    turned = np.argsort((middle - first) % 1.0)
    places = ((middle - first) % 1.0)[turned]
    before = (1.0 - places[-1]) / 2
    late = (phase - first + before) % 1.0 - before
    inside = np.clip(late, 0.0, places[-1])
    curve = PchipInterpolator(places, means[..., turned], axis=-1)
    return curve(inside) + curve.derivative()(inside) * (late - inside)


def circular_mean(phase: np.ndarray) -> float:
    """The mean of phases of the year, which begins anew after 1."""
    return float(np.angle(np.exp(2j * np.pi * phase).mean()) / (2 * np.pi) % 1.0)
