# SPDX-License-Identifier: MIT
"""Values at points as rows: u(x) = Σ_i φ_i(x) u_i, with the φ_i that DOLFINx itself evaluates.

The rows hold for every element and geometry, because each entry is the value at the point of the
function whose only nonzero unknown is i. A point on a facet belongs to several cells; the mean over
them is taken, so that where a field jumps both sides count, whatever rank they are on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import fem, geometry
from mpi4py import MPI
from scipy.sparse import csr_array

from cffem.engine.response.observable_values import extent
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component
from cffem.symbols.problem.observations import Channel, spoken_point

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.assembly.spaces import Spaces

# A point that is off the mesh by less than this share of its extent is on its boundary up to
# rounding.
ROUNDING = 1e-9


class PointCells:
    """The owned cells that hold points, given on all ranks alike; collective.

    Args:
        mesh: the mesh.
        points: one row for each.

    Attributes:
        cells: pairs of arrays (number of the point, cell) on this rank.
        share: one over the number of cells that hold each point; zero where none does.
        distance: of each point from the mesh.
    """

    def __init__(self, mesh: Mesh, points: np.ndarray):
        dimension = mesh.geometry.dim
        if points.shape[1] != dimension:
            raise InputError(
                f"the points have {points.shape[1]} coordinates, but the mesh has dimension "
                f"{dimension}"
            )
        self.mesh, self.count = mesh, len(points)
        self.points = np.zeros((len(points), 3))
        self.points[:, :dimension] = points
        topology = mesh.topology.dim
        self.owned = mesh.topology.index_map(topology).size_local
        tree = geometry.bb_tree(mesh, topology)
        found = geometry.compute_colliding_cells(
            mesh, geometry.compute_collisions_points(tree, self.points), self.points
        )
        numbers = np.repeat(np.arange(len(points)), np.diff(found.offsets))
        mine = found.array < self.owned
        self.cells = numbers[mine], found.array[mine].astype(np.int32)
        self.distance = np.zeros(len(points))
        self._take_rounded()
        hits = np.bincount(self.cells[0], minlength=len(points)).astype(float)
        total = mesh.comm.allreduce(hits)
        self.share = np.divide(1.0, total, out=np.zeros(len(points)), where=total > 0)

    def _take_rounded(self) -> None:
        """Points that rounding has put outside belong to the nearest cell."""
        comm, mesh = self.mesh.comm, self.mesh
        hits = comm.allreduce(np.bincount(self.cells[0], minlength=self.count))
        lost = np.flatnonzero(hits == 0)
        if not len(lost):
            return
        size = max(extent(mesh, axis) for axis in range(mesh.geometry.dim))
        cells = np.arange(self.owned, dtype=np.int32)
        numbers, chosen = list(self.cells[0]), list(self.cells[1])
        for point in lost:
            squares = geometry.squared_distance(
                mesh, mesh.topology.dim, cells, np.tile(self.points[point], (len(cells), 1))
            )
            own = float(np.sqrt(squares.min(initial=np.inf)))
            nearest = comm.allreduce(own, op=MPI.MIN)
            self.distance[point] = nearest
            if nearest <= ROUNDING * size and own == nearest:
                numbers.append(point)
                chosen.append(cells[int(np.argmin(squares))])
        self.cells = np.array(numbers, dtype=int), np.array(chosen, dtype=np.int32)

    def refuse_outside(self, labels: Sequence[str]) -> None:
        """Refuse points that are off the mesh."""
        outside = np.flatnonzero(self.share == 0)
        if len(outside):
            first = outside[0]
            point = self.points[first, : self.mesh.geometry.dim]
            more = f", as are {len(outside) - 1} more" if len(outside) > 1 else ""
            raise InputError(
                f"{labels[first]} at {spoken_point(point)} is outside the mesh, by "
                f"{self.distance[first]:.3g}{more}"
            )


def rows_at(
    spaces: Spaces,
    channel: Channel,
    points: np.ndarray,
    cells: np.ndarray,
    numbers: np.ndarray,
    weights: np.ndarray,
    size: int,
) -> csr_array:
    """Σ weight · (value of a channel at a point in a cell), summed over entries of one number.

    Args:
        spaces: the spaces of the state.
        channel: a scalar field or a component.
        points: one row of three coordinates for each entry.
        cells: the cell of each entry.
        numbers: the row that each entry goes to.
        weights: of the entries.
        size: the number of rows.

    Returns:
        A matrix from the local values of a state, ghosts included, to the rows; this rank's part.
    """
    unknown, index = (
        (channel.field, channel.index) if isinstance(channel, Component) else (channel, 0)
    )
    space, _ = spaces.own(unknown)
    positions, block = spaces.dofs(unknown), space.dofmap.index_map_bs
    function = fem.Function(space)
    entries: list[tuple[np.ndarray, int, np.ndarray]] = []
    order = np.argsort(cells, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        if not len(chosen):
            continue
        dofs = space.dofmap.cell_dofs(cells[chosen[0]])
        for dof in (dofs[:, None] * block + np.arange(block)).ravel():
            function.x.array[dof] = 1.0
            values = function.eval(points[chosen], cells[chosen])
            function.x.array[dof] = 0.0
            values = np.asarray(values).reshape(len(chosen), -1)[:, index]
            entries.append((numbers[chosen], int(positions[dof]), values * weights[chosen]))
    imap = spaces.space.dofmap.index_map
    width = (imap.size_local + imap.num_ghosts) * spaces.space.dofmap.index_map_bs
    if not entries:
        return csr_array((size, width))
    rows = np.concatenate([row for row, _, _ in entries])
    columns = np.concatenate([np.full(len(row), column) for row, column, _ in entries])
    data = np.concatenate([values for _, _, values in entries])
    kept = data != 0
    return csr_array((data[kept], (rows[kept], columns[kept])), shape=(size, width))


def ball_rule(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of the mean over the unit ball with the weight (1 − r²)².

    Products of Gauss rules in the radius and equal angles: exact for polynomials of degree five.

    Example:
        >>> points, weights = ball_rule(2)
        >>> float(np.round(weights.sum(), 12)), float(np.round(weights @ points[:, 0] ** 2, 12))
        (1.0, 0.125)
    """
    radius, weight = np.polynomial.legendre.leggauss(6)
    radius, weight = (radius + 1) / 2, weight / 2
    if dimension == 1:
        directions, share = np.array([[-1.0], [1.0]]), np.full(2, 0.5)
    elif dimension == 2:
        angle = 2 * np.pi * np.arange(8) / 8
        directions, share = np.column_stack([np.cos(angle), np.sin(angle)]), np.full(8, 1 / 8)
    else:
        height, part = np.polynomial.legendre.leggauss(4)
        angle = 2 * np.pi * np.arange(8) / 8
        flat = np.sqrt(1 - height**2)[:, None]
        directions = np.stack(
            [flat * np.cos(angle), flat * np.sin(angle), np.repeat(height[:, None], 8, 1)], axis=-1
        ).reshape(-1, 3)
        share = np.repeat(part / 2, 8) / 8
    radial = weight * (1 - radius**2) ** 2 * radius ** (dimension - 1)
    points = (radius[:, None, None] * directions).reshape(-1, dimension)
    weights = (radial[:, None] * share).ravel()
    return points, weights / weights.sum()
