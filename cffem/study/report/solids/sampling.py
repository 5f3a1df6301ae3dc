# SPDX-License-Identifier: MIT
"""Points of drawings: lattices in cells, grids in planes, and which rank has a point."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from mpi4py import MPI

GRID = 121  # points along the longer side of a plane


def minimum() -> MPI.Op:
    """The smallest of all ranks."""
    from mpi4py import MPI

    return MPI.MIN


def located(mesh: Mesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points that this rank evaluates and their cells, and for each point the rank that does,
    as many as there are ranks where none has it. Collective.
    """
    from dolfinx import geometry

    comm = mesh.comm
    tree = geometry.bb_tree(mesh, mesh.topology.dim)
    found = geometry.compute_colliding_cells(
        mesh, geometry.compute_collisions_points(tree, points), points
    )
    starts = found.offsets
    mine = np.diff(starts) > 0
    cell = np.where(
        mine,
        found.array[np.minimum(starts[:-1], len(found.array) - 1)] if len(found.array) else 0,
        0,
    )
    candidate = np.where(mine, comm.rank, comm.size).astype(np.int64)
    owner = np.empty_like(candidate)
    comm.Allreduce(candidate, owner, minimum())
    take = owner == comm.rank
    return points[take], cell[take].astype(np.int32), owner


def joined(comm: MPI.Comm, local: np.ndarray) -> np.ndarray | None:
    """The rows of all ranks one after another, on rank 0; collective."""
    parts = comm.gather(local)
    return None if parts is None else np.concatenate(parts)


def by_owner(comm: MPI.Comm, owner: np.ndarray, local: np.ndarray) -> np.ndarray | None:
    """The rows of all ranks at the points that each has, nan where none does, on rank 0;
    collective.
    """
    parts = comm.gather(local)
    if parts is None:
        return None
    values = np.full((len(owner), local.shape[1]), np.nan)
    for rank, part in enumerate(parts):
        values[owner == rank] = part
    return values


def plane_grid(
    low: np.ndarray,
    high: np.ndarray,
    inside: list[int],
    normal: int,
    height: float,
    most: int = GRID,
) -> tuple[np.ndarray, ...]:
    """Points in space, the same in the plane, and the triangles of a regular grid."""
    extent = (high - low)[inside]
    counts = [max(2, round(1 + (most - 1) * side / extent.max())) for side in extent]
    axes = [
        np.linspace(low[axis], high[axis], count)
        for axis, count in zip(inside, counts, strict=True)
    ]
    flat = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    points = np.zeros((len(flat), 3))
    points[:, inside], points[:, normal] = flat, height
    corner = np.arange(len(flat)).reshape(counts)
    a, b, c, d = (
        part.ravel()
        for part in (corner[:-1, :-1], corner[1:, :-1], corner[:-1, 1:], corner[1:, 1:])
    )
    return points, flat, np.concatenate([np.column_stack([a, b, c]), np.column_stack([b, d, c])])


def lattice_of(cell: str, parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Equispaced points of an interval, triangle or quadrilateral, and the simplices between
    them.
    """
    if cell == "interval":
        return np.linspace(0, 1, parts + 1)[:, None], np.column_stack(
            [np.arange(parts), np.arange(1, parts + 1)]
        )
    if cell not in ("triangle", "quadrilateral"):
        return np.zeros((0, 3)), np.zeros((0, 4), dtype=int)
    square = cell == "quadrilateral"
    index = {
        key: number
        for number, key in enumerate(
            (i, j) for j in range(parts + 1) for i in range(parts + 1 if square else parts + 1 - j)
        )
    }
    simplices = [
        [index[i + di, j + dj] for di, dj in corners]
        for i in range(parts)
        for j in range(parts)
        for corners in (((0, 0), (1, 0), (0, 1)), ((1, 0), (1, 1), (0, 1)))
        if all((i + di, j + dj) in index for di, dj in corners)
    ]
    return np.array(list(index), dtype=float) / parts, np.array(simplices)


def weights_of(lattice: np.ndarray, corners: int) -> np.ndarray:
    """Weights of a cell's corners at the points of a lattice."""
    if corners == 4:
        s, t = lattice.T
        return np.column_stack([(1 - s) * (1 - t), s * (1 - t), (1 - s) * t, s * t])
    return np.column_stack([1 - lattice.sum(axis=1), lattice])
