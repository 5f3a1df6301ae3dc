# SPDX-License-Identifier: MIT
"""Taking pictures: values of solutions on the points of a drawing, gathered on rank 0.

Lines and areas are drawn cell by cell, each cell cut into a few simplices so that elements of
higher degree show their shape. A volume is shown on a plane through it and as a body
(`solids.body_camera`), and an area with more cells than a drawing may hold on a regular grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem import _compat
from cffem.study.report.drawn_fields import Fields
from cffem.study.report.solids.body_camera import Body
from cffem.study.report.solids.sampling import (
    by_owner,
    joined,
    lattice_of,
    located,
    minimum,
    plane_grid,
    weights_of,
)

if TYPE_CHECKING:
    from dolfinx import fem

    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

LIMIT = 20_000  # points of a drawing
GRID = 121  # points along the longer side of a plane
# A plane through the middle is where symmetric fields vanish; another one is taken if the field is
# this much larger there.
PLANES, CLEARLY = (0.5, 0.35, 0.2), 1.5
AXES = "xyz"


class Camera:
    """Evaluates solutions of one model at the end of the window on the points of one drawing.

    Args:
        factual: the factual solution, which chooses the plane of a volume.
        limit: the largest number of points.

    Attributes:
        where: what is drawn where that is not the whole domain.
    """

    def __init__(self, factual: Solution, limit: int = LIMIT):
        self.model: Model = factual.model
        self.mesh = self.model.discretisation.mesh
        self.comm = self.model.comm
        self.time = None if factual.steady else float(factual.times[-1])
        self.where = ""
        topology = self.mesh.topology
        self.dimension = topology.dim
        count = topology.index_map(self.dimension).size_global
        degree = max(
            self.model.spaces.elements[field].embedded_superdegree
            for field in self.model.discretisation.unknowns
        )
        pieces = _pieces(
            _compat.cell_name(self.mesh.ufl_domain()), min(max(degree, 1), 3), limit / max(count, 1)
        )
        self.body: Body | None = None
        if pieces is not None and self.dimension < 3:
            self._by_cells(*pieces)
        else:
            self._by_plane(factual)
        if self.dimension == 3:
            self.body = Body(self.mesh, degree)

    # Drawings
    # ----------------------------------------------------------------------------------------------

    def _by_cells(self, lattice: np.ndarray, simplices: np.ndarray) -> None:
        """Every owned cell, cut into simplices."""
        owned = self.mesh.topology.index_map(self.dimension).size_local
        nodes = _compat.cell_geometry(self.mesh)[0][:owned]
        corners = self.mesh.geometry.x[
            nodes[:, : _corners(self.dimension, _compat.cell_name(self.mesh.ufl_domain()))]
        ]
        self._where = np.einsum(
            "pc,kcd->kpd", weights_of(lattice, corners.shape[1]), corners
        ).reshape(-1, 3)
        self._cells = np.repeat(np.arange(owned, dtype=np.int32), len(lattice))
        self._owner = None
        first = self.comm.exscan(len(self._where)) or 0
        cells = (
            simplices[None] + (first + len(lattice) * np.arange(owned))[:, None, None]
        ).reshape(-1, simplices.shape[1])
        self.axes = tuple(AXES[: self.dimension])
        if self.mesh.geometry.dim > self.dimension:
            self.where = f"projected onto {', '.join(self.axes)}"
        self._layout = self._joined(self._where[:, : self.dimension]), self._joined(cells)

    def _by_plane(self, factual: Solution) -> None:
        """A regular grid in a plane; of a volume the plane across its shortest side."""
        x = self.mesh.geometry.x
        low = np.array(
            [
                self.comm.allreduce(v, minimum())
                for v in (x.min(axis=0) if len(x) else np.full(3, np.inf))
            ]
        )
        high = -np.array(
            [
                self.comm.allreduce(v, minimum())
                for v in (-x.max(axis=0) if len(x) else np.full(3, np.inf))
            ]
        )
        normal = 2 if self.dimension < 3 else 2 - int(np.argmin((high - low)[::-1]))
        inside = [axis for axis in range(3) if axis != normal]
        shares: tuple[float, ...] = PLANES if self.dimension == 3 else (0.0,)
        best, chosen = -1.0, None
        for share in shares:
            height = low[normal] + share * (high[normal] - low[normal])
            self._locate(*plane_grid(low, high, inside, normal, height))
            size = self._size(factual) if len(shares) > 1 else 1.0
            if size > (CLEARLY * best if chosen else best):
                best, chosen = size, height
        self._locate(*plane_grid(low, high, inside, normal, chosen if chosen is not None else 0.0))
        self.axes = tuple(AXES[axis] for axis in inside)
        if self.dimension == 3:
            self.where = f"slice {AXES[normal]} = {chosen:.3g}"

    def _locate(self, points: np.ndarray, flat: np.ndarray, cells: np.ndarray) -> None:
        """Find for each point the rank that evaluates it, and its cell there."""
        self._where, self._cells, self._owner = located(self.mesh, points)
        outside = self._owner == self.comm.size
        kept = cells[~outside[cells].any(axis=1)]
        self._layout = (flat, kept) if self.comm.rank == 0 else (None, None)

    # Values
    # ----------------------------------------------------------------------------------------------

    def take(self, solution: Solution) -> dict[str, np.ndarray] | None:
        """Values of all fields at the end, by name, on rank 0; of a volume those on its body
        follow those on the plane. Collective.
        """
        result = {}
        for unknown in self.model.discretisation.unknowns:
            function = solution.function(unknown)
            size = function.function_space.value_size
            local = np.zeros((0, size))
            if len(self._where):
                local = np.asarray(function.eval(self._where, self._cells)).real.reshape(
                    len(self._where), size
                )
            seen = self._gathered(local)
            if self.body is not None:
                rest = self.body.take(function)
                seen = None if rest is None else np.concatenate([seen, rest])
            result[str(unknown)] = seen
        return result if self.comm.rank == 0 else None

    def cell_values(self, function: fem.Function) -> np.ndarray | None:
        """The values of a function that is constant on every cell, on rank 0; collective."""
        places = function.function_space.dofmap.list[self._cells, 0]
        found = self._gathered(function.x.array[places].reshape(-1, 1))
        return None if found is None else found[:, 0]

    def drawing(self, factual: Mapping[str, np.ndarray] | None) -> Fields | None:
        """The drawing with the factual values that `take` gave; None on other ranks than 0."""
        points, cells = self._layout
        if factual is None:
            return None
        solid = None
        if self.body is not None:
            rest = {name: array[len(points) :] for name, array in factual.items()}
            solid = self.body.solid(rest)
            factual = {name: array[: len(points)] for name, array in factual.items()}
        return Fields(points, cells, self.axes, factual, {}, self.where, self.time, solid=solid)

    def _gathered(self, local: np.ndarray) -> Any:
        return (
            self._joined(local) if self._owner is None else by_owner(self.comm, self._owner, local)
        )

    def _joined(self, local: np.ndarray) -> Any:
        return joined(self.comm, local)

    def _size(self, solution: Solution) -> float:
        """Root mean square of all fields on the present points."""
        values = self.take(solution)
        size = (
            None
            if values is None
            else float(
                np.sqrt(np.nanmean(np.concatenate([v.ravel() ** 2 for v in values.values()])))
            )
        )
        size = self.comm.bcast(size)
        return size if np.isfinite(size) else -1.0


def _corners(dimension: int, cell: str) -> int:
    return 4 if cell == "quadrilateral" else dimension + 1


def _pieces(cell: str, finest: int, points_per_cell: float) -> tuple[np.ndarray, np.ndarray] | None:
    """A lattice in the reference cell and its simplices, as fine as allowed; None where even
    the corners are too many.
    """
    for parts in range(finest, 0, -1):
        lattice, simplices = lattice_of(cell, parts)
        if len(lattice) and len(lattice) <= points_per_cell:
            return lattice, simplices
    return None
