# SPDX-License-Identifier: MIT
"""A mesh with curved cells from one with straight cells, whose file says which of its points lie
within curves.

The boundary between two corners is taken to be the cubic spline through the points of the mesh, by
the lengths of its facets. That is O(h⁴) away from a smooth curve, while straight facets are O(h²)
away. The cells are those of the given mesh; of each facet on a curve the middle is moved onto the
spline, as second-order geometry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import CubicSpline

from cffem.engine.collective import collectively
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.mesh.raw_mesh import RawMesh
from cffem.engine.mesh.remeshing import (
    closed_loops,
    gathered_boundary,
    gathered_cells,
    gathered_lines,
    is_straight,
    smooth_points,
)

if TYPE_CHECKING:
    from cffem.engine.mesh.meshes import MeshData
    from cffem.engine.mesh.remeshing import Run

# Where the first and the last point of a chain are the same, up to this share of its length.
CLOSED = 1e-12


def has_curves(domain: MeshData) -> bool:
    """Whether the file of a plane mesh without named inner lines says that its boundary is curved;
    collective.
    """
    if not smooth_points(domain):
        return False
    try:
        loops = boundary_loops(domain)
    except MeshError:
        return False
    return any(not is_straight(points) for loop in loops for points, _ in loop)


def boundary_loops(domain: MeshData) -> list[list[Run]]:
    """The boundary of a mesh as closed chains of runs between corners, on every rank; collective.

    Raises:
        MeshError: there are named lines within, or the boundary touches itself.
    """
    facets, values = gathered_boundary(domain)
    return closed_loops(facets, values, smooth_points(domain))


def middles(points: np.ndarray) -> np.ndarray:
    """The middles of the pieces of a curve through points.

    Example:
        >>> angle = np.linspace(0, np.pi / 2, 9)
        >>> found = middles(np.stack([np.cos(angle), np.sin(angle)], axis=1))
        >>> bool(abs(np.hypot(*found.T) - 1).max() < 1e-4)
        True
    """
    lengths = np.hypot(*np.diff(points, axis=0).T)
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    closed = len(points) > 2 and np.hypot(*(points[-1] - points[0])) <= CLOSED * at[-1]
    curve = CubicSpline(at, points, bc_type="periodic" if closed else "not-a-knot")
    return np.asarray(curve((at[1:] + at[:-1]) / 2))


def rounded(domain: MeshData) -> MeshData:
    """The same mesh with curved cells along its curves; collective.

    Raises:
        MeshError: a cell would be turned inside out.
    """
    from cffem.engine.mesh.meshes import checked, distribute

    cells, tags = gathered_cells(domain)
    loops = boundary_loops(domain)
    lines, parts = gathered_lines(domain)
    raw = collectively(
        domain.mesh.comm, lambda: checked(with_middles(cells, tags, loops, lines, parts, domain))
    )
    return distribute(raw, domain.mesh.comm)


def with_middles(
    cells: np.ndarray,
    tags: np.ndarray,
    loops: list[list[Run]],
    lines: np.ndarray,
    parts: np.ndarray,
    domain: MeshData,
) -> RawMesh:
    """The arrays of the mesh of second order, with those of its facets that have names."""
    points, number = np.unique(cells.reshape(-1, 2), axis=0, return_inverse=True)
    corners = np.asarray(number).reshape(-1, 3)
    ends = np.sort(np.stack([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]], axis=1))
    edges, which = np.unique(ends.reshape(-1, 2), axis=0, return_inverse=True)
    between = points[edges].mean(axis=1)
    place = {tuple(pair): k for k, pair in enumerate(edges.tolist())}
    number_of = {tuple(point): k for k, point in enumerate(points.tolist())}

    def edge(a: np.ndarray, b: np.ndarray) -> int:
        first, second = sorted((number_of[tuple(a.tolist())], number_of[tuple(b.tolist())]))
        return place[first, second]

    for run, _ in (run for loop in loops for run in loop):
        if not is_straight(run):
            for a, b, middle in zip(run, run[1:], middles(run), strict=False):
                between[edge(a, b)] = middle
    named = np.array([edge(a, b) for a, b in lines], dtype=np.int64)
    return RawMesh(
        "triangle",
        2,
        np.concatenate([points, between]),
        np.hstack([corners, len(points) + np.asarray(which).reshape(-1, 3)]),
        tags,
        np.column_stack([edges[named], len(points) + named]),
        parts.astype(np.int32),
        dict(domain.names),
    )
