# SPDX-License-Identifier: MIT
"""Values missing here and there on a grid: bridged by splines through their neighbours, as far as
neighbours are near.

Values missing at random leave almost no test function whole, though nearly all that it needs is
there. A missing value with known ones around it is reconstructed from them (`reconstruction`),
linearly, so that noise drawn at the known places goes the same way. What is far from any known
value, in a cloud or outside the domain, stays missing, and test functions that touch it are left
out.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree

from cffem.data.dataset import Dataset
from cffem.data.noise.reconstruction import Spline
from cffem.symbols.errors import InputError

DEGREES = {
    1: 3,
    2: 3,
    3: 2,
    4: 2,
}  # of polynomials that are reconstructed exactly, by number of axes


@dataclass(frozen=True)
class GapRule:
    """Which gaps are bridged, in units of the grid.

    Args:
        nearest: distance to the nearest known value.
        spread: distance to the farthest value that is used, as a multiple of what is usual.
    """

    nearest: float = 2.9
    spread: float = 2.0


@dataclass(frozen=True)
class Bridge:
    """The gaps of one grid, of which some can be filled.

    Args:
        missing: where values are missing.
        filled: where they are missing and can be reconstructed.
        matrix: takes the known values to the reconstructed ones.
        outside: places without a value at any time, land say. Beside known values they are filled
            as well, which keeps averages near a coast as they are, but no result rests on them.
    """

    missing: np.ndarray
    filled: np.ndarray
    matrix: sparse.csr_matrix = field(repr=False)
    outside: np.ndarray | None = None

    def __call__(self, values: np.ndarray) -> np.ndarray:
        """The values with gaps filled from known values, or else with their mean."""
        known = values[~self.missing]
        result = np.where(self.missing, known.mean(), values)
        result[self.filled] = self.matrix @ known
        return result

    @property
    def open(self) -> np.ndarray:
        """Where values stay missing."""
        empty = self.missing & ~self.filled
        return empty if self.outside is None else empty | (self.missing & self.outside)


def bridge(
    missing: np.ndarray,
    spline: Spline,
    rule: GapRule | None = None,
    outside: np.ndarray | None = None,
) -> Bridge:
    """Find the gaps that can be bridged and how.

    Args:
        missing: where values are missing.
        spline: how values are reconstructed.
        rule: which gaps are bridged.
        outside: see `Bridge`.

    Example:
        >>> missing = np.zeros((9, 9), dtype=bool)
        >>> missing[4, 4] = missing[7, 2] = True
        >>> i, j = np.meshgrid(np.arange(9.0), np.arange(9.0), indexing="ij")
        >>> over = bridge(missing, Spline())
        >>> bool(np.allclose(over(np.where(missing, np.nan, i**3 - i * j)), i**3 - i * j))
        True
    """
    rule = GapRule() if rule is None else rule
    places, targets = np.argwhere(~missing).astype(float), np.argwhere(missing).astype(float)
    size, _ = spline.stencil(len(places), missing.ndim)
    if size == len(places):
        raise InputError(
            f"only {len(places)} values of the dataset are not missing, too few for any design"
        )
    distance, _ = cKDTree(places).query(targets, size)
    usual = np.median(distance[:, -1]) if len(targets) else 1.0
    close = (distance[:, 0] <= rule.nearest) & (distance[:, -1] <= rule.spread * usual)
    filled = np.zeros_like(missing)
    filled[tuple(targets[close].astype(int).T)] = True
    return Bridge(missing, filled, spline.matrix(places, targets[close][:, None, :]), outside)


def without_empty_slices(data: Dataset) -> Dataset:
    """Gridded data without the times, or other slices across an axis, at which nothing was
    measured at all.
    """
    if data.mask is None or data.points is not None:
        return data
    coordinates, mask, values = dict(data.coordinates), data.mask, dict(data.values)
    for axis, (symbol, points) in enumerate(data.coordinates.items()):
        if symbol in data.period:
            continue
        kept = np.flatnonzero(~mask.all(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        if len(kept) < len(points):
            coordinates[symbol], mask = points[kept], np.take(mask, kept, axis)
            values = {name: np.take(v, kept, axis) for name, v in values.items()}
    return replace(data, coordinates=coordinates, values=values, mask=mask if mask.any() else None)
