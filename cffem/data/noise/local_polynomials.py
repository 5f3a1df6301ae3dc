# SPDX-License-Identifier: MIT
"""Derivatives of noisy gridded fields by local polynomials, at the ends of the grid as well.

Differences amplify noise, and a filter in the cosine basis bends a field at the ends of the grid,
where it is flat by construction. A polynomial that is fitted to the readings around a point is the
projection of the data onto smooth functions there, and its derivatives are those of the data. Its
window is as wide as the polynomial still fits the readings to within their noise: a narrower one
keeps more noise, a wider one misses the curvature. Without noise it interpolates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class LocalPolynomialSettings:
    """How local polynomials are chosen.

    Args:
        above: degrees of the polynomial above the order of the derivative.
        excess: share by which residuals may exceed what noise leaves.
        growth: factor from one window to the next wider one.
        largest_share: of an axis that a window may take.
    """

    above: int = 2
    excess: float = 0.05
    growth: float = 1.25
    largest_share: float = 0.5


LOCAL_POLYNOMIALS = LocalPolynomialSettings()


def local_derivative(
    values: np.ndarray,
    axes: Sequence[np.ndarray],
    orders: Sequence[int],
    sd: float,
    periods: Sequence[float | None] = (),
) -> np.ndarray:
    """A derivative of gridded values with noise of a known size, one axis after the other.

    Args:
        values: the field.
        axes: the points along each axis.
        orders: of the derivative along each axis; along the others the field is smoothed.
        sd: standard deviation of the noise.
        periods: length after which an axis repeats itself, or None, for each axis.

    Example:
        >>> points = np.linspace(0, 1, 41)
        >>> bend = local_derivative(points[:, None] ** 3 * np.ones(9), [points, np.arange(9.0)],
        ...                         (2, 0), 0.0)
        >>> bool(np.allclose(bend, 6 * points[:, None]))
        True
    """
    # All windows are chosen on the readings, whose noise is known, and used one after the other.
    chosen = []
    for axis, (points, order) in enumerate(zip(axes, orders, strict=True)):
        period = periods[axis] if axis < len(periods) else None
        degree = order + LOCAL_POLYNOMIALS.above
        half = widest_half(values, points, axis, degree, sd, period)
        chosen.append(fit_matrix(points, half, degree, order, period))
    result = values
    for axis, matrix in enumerate(chosen):
        result = applied(matrix, result, axis)
    return result


def widest_half(
    values: np.ndarray,
    points: np.ndarray,
    axis: int,
    degree: int,
    sd: float,
    period: float | None = None,
) -> int:
    """Half width, in points, of the widest window in which polynomials fit to within the noise."""
    best, half = math.ceil(degree / 2), math.ceil(degree / 2) + 1
    lines = np.moveaxis(values, axis, 0).reshape(len(points), -1)
    while half <= LOCAL_POLYNOMIALS.largest_share * (len(points) - 1) / 2:
        if not fits(lines, points, half, degree, sd, period):
            break
        best, half = half, max(half + 1, round(LOCAL_POLYNOMIALS.growth * half))
    return best


def fits(
    lines: np.ndarray,
    points: np.ndarray,
    half: int,
    degree: int,
    sd: float,
    period: float | None,
) -> bool:
    """Whether polynomials in windows of one width, both ends among them, leave of the readings
    (points × lines) no more than noise.
    """
    last = len(points) - 1 - (0 if period is not None else half)
    centres = np.unique(np.r_[np.arange(0 if period is not None else half, last, half), last])
    residual, freedom = 0.0, 0
    for centre in centres:
        near, offset, _ = window(points, int(centre), half, period)
        basis = np.linalg.qr(np.vander(offset, degree + 1, increasing=True))[0]
        part = lines[near]
        residual += float((part**2).sum() - ((basis.T @ part) ** 2).sum())
        freedom += (len(near) - degree - 1) * lines.shape[1]
    return residual <= (1 + LOCAL_POLYNOMIALS.excess) * sd**2 * freedom


def window(
    points: np.ndarray, centre: int, half: int, period: float | None
) -> tuple[np.ndarray, np.ndarray, float]:
    """The readings around a point, how far they are from it in units of the farthest, and how far
    that one is; at the ends the window stays inside.
    """
    count = len(points)
    width = min(2 * half + 1, count)
    first = centre - half if period is not None else min(max(centre - half, 0), count - width)
    near = np.arange(first, first + width)
    offset = points[near % count] + (near // count) * (period or 0.0) - points[centre]
    size = float(np.abs(offset).max())
    return near % count, offset / size, size


def fit_matrix(
    points: np.ndarray, half: int, degree: int, order: int, period: float | None = None
) -> np.ndarray:
    """The matrix that takes values to a derivative of the polynomials fitted around each point; at
    the ends the window stays inside.
    """
    matrix = np.zeros((len(points), len(points)))
    for number in range(len(points)):
        near, offset, size = window(points, number, half, period)
        powers = np.vander(offset, min(degree, len(near) - 1) + 1, increasing=True)
        row = np.linalg.pinv(powers)[order] * math.factorial(order) / size**order
        np.add.at(matrix[number], near, row)
    return matrix


def applied(matrix: np.ndarray, values: np.ndarray, axis: int) -> np.ndarray:
    """A matrix applied along one axis."""
    return np.moveaxis(np.tensordot(matrix, values, (1, axis)), 0, axis)
