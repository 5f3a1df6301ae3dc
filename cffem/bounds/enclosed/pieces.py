# SPDX-License-Identifier: MIT
"""Where data are looked at: cells, steps of time or prisms of both, their parts, and rules
for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp

from cffem.bounds.geometry.mesh_constants import volumes
from cffem.engine.inputs.enclosure import divided
from cffem.symbols.coordinates import t

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


CELLS = {1: basix.CellType.interval, 2: basix.CellType.triangle, 3: basix.CellType.tetrahedron}


@dataclass(frozen=True)
class Simplices:
    """Straight simplices of a mesh.

    Attributes:
        mesh: the DOLFINx mesh.
        dim: its dimension.
        corners: corners of this rank's own cells, shape (cells, dim + 1, dim).
    """

    mesh: Mesh
    dim: int
    corners: np.ndarray


@dataclass(frozen=True)
class Prisms:
    """Cells, steps of time, or prisms of both.

    Attributes:
        corners: of simplices, shape (cells, dim + 1, dim).
        symbols: the coordinates of the simplices.
        spans: the beginning and the end of each prism in time, shape (cells, 2); None without.
        fixed: values of further symbols, one number or one for each cell.
    """

    corners: np.ndarray
    symbols: tuple[sp.Symbol, ...]
    spans: np.ndarray | None = None
    fixed: Mapping[sp.Symbol, np.ndarray] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        """The dimension of the simplices."""
        return self.corners.shape[2]

    @property
    def arguments(self) -> tuple[sp.Symbol, ...]:
        """All symbols that have a value."""
        return (*self.symbols, *((t,) if self.spans is not None else ()), *self.fixed)

    def sizes(self) -> np.ndarray:
        """The measure of each cell."""
        found = volumes(self.corners)
        return found if self.spans is None else found * np.diff(self.spans, axis=1)[:, 0]


@dataclass(frozen=True)
class Pieces:
    """Parts of the cells of a grid, those of one cell next to each other.

    Attributes:
        cell: the number of the cell.
        shape: barycentric coordinates of the corners in the cell, shape (parts, corners, corners).
        span: beginning and end as fractions of that of the cell, shape (parts, 2).
        depth: how often they were divided.
    """

    cell: np.ndarray
    shape: np.ndarray
    span: np.ndarray
    depth: np.ndarray

    @classmethod
    def whole(cls, cells: np.ndarray, corners: int) -> Pieces:
        """Cells as they are."""
        count = len(cells)
        shape = np.broadcast_to(np.eye(corners), (count, corners, corners))
        span = np.broadcast_to([0.0, 1.0], (count, 2))
        return cls(cells, shape, span, np.zeros(count, dtype=int))

    def __getitem__(self, chosen: np.ndarray | slice) -> Pieces:
        return Pieces(self.cell[chosen], self.shape[chosen], self.span[chosen], self.depth[chosen])

    def __len__(self) -> int:
        return len(self.cell)

    def split(self, timed: bool) -> Pieces:
        """All of them divided, in time as well where that is asked for."""
        shape, many = divided(self.shape), 2 ** (self.shape.shape[1] - 1)
        cell, depth, span = (np.repeat(a, many, axis=0) for a in (self.cell, self.depth, self.span))
        if timed:
            middle = span.mean(axis=1)
            halves = [
                np.stack(ends, axis=1) for ends in ((span[:, 0], middle), (middle, span[:, 1]))
            ]
            cell, depth = np.repeat(cell, 2), np.repeat(depth, 2)
            shape, span = np.repeat(shape, 2, axis=0), np.stack(halves, axis=1).reshape(-1, 2)
        return Pieces(cell, shape, span, depth + 1)

    @staticmethod
    def joined(one: Pieces, other: Pieces) -> Pieces:
        """Both, sorted by cells."""
        parts = [
            np.concatenate([getattr(p, name) for p in (one, other)])
            for name in ("cell", "shape", "span", "depth")
        ]
        both = Pieces(*parts)
        return both[np.argsort(both.cell, kind="stable")]


@dataclass(frozen=True)
class Rule:
    """A quadrature rule on a simplex, times one of Gauss in time.

    Attributes:
        points: barycentric coordinates.
        moments: of time, between 0 and 1.
        weights: which add up to one.
    """

    points: np.ndarray
    moments: np.ndarray
    weights: np.ndarray


@lru_cache(maxsize=64)
def rule_of(dim: int, exact: int, timed: bool) -> Rule:
    """A rule that is exact for polynomials of a degree."""
    points, weights = basix.make_quadrature(CELLS[dim], exact)
    points, weights = np.column_stack([1 - points.sum(axis=1), points]), weights / weights.sum()
    if not timed:
        return Rule(points, np.zeros(len(points)), weights)
    times, shares = basix.make_quadrature(CELLS[1], exact)
    return Rule(
        np.repeat(points, len(times), axis=0),
        np.tile(times[:, 0], len(points)),
        np.outer(weights, shares).ravel(),
    )
