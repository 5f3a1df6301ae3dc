# SPDX-License-Identifier: MIT
"""Taking pictures of bodies: values of solutions on the surface of a volume and on three planes
through its middle that show its inside where the corner next to the viewer is cut away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from cffem import _compat
from cffem.study.report.solids.sampling import (
    by_owner,
    joined,
    lattice_of,
    located,
    minimum,
    plane_grid,
    weights_of,
)
from cffem.study.report.solids.solid import Solid, viewer

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh

SURFACE = 24_000  # points of a surface; one with more corners is left out, the planes stay
PLANE = 73  # points along the longer side of each plane


class Body:
    """Points on the surface and on three planes of a mesh of volumes, and values there.

    Args:
        mesh: the mesh.
        degree: of its elements; the surface is cut as finely as they bend, as far as it may be.
    """

    def __init__(self, mesh: Mesh, degree: int):
        self.mesh, self.comm = mesh, mesh.comm
        x = mesh.geometry.x
        ends = [x.min(axis=0), -x.max(axis=0)] if len(x) else [np.full(3, np.inf)] * 2
        low, high = (np.array([self.comm.allreduce(v, minimum()) for v in end]) for end in ends)
        high = -high
        self.corner = (low + high) / 2
        surface, cells, triangles = self._surface(degree)
        self._skin, self._skin_cells = surface, cells
        planes, squares = self._planes(low, high)
        self._inside, self._inside_cells, self._owner = located(mesh, planes)
        skin, skin_triangles = joined(self.comm, surface), joined(self.comm, triangles)
        self._layout: tuple[np.ndarray, np.ndarray] | None = None
        if skin is not None and skin_triangles is not None:
            outside = self._owner == self.comm.size
            kept = squares[~outside[squares].any(axis=1)]
            self._layout = (
                np.concatenate([skin, planes]),
                np.concatenate([skin_triangles, len(skin) + kept]),
            )

    def _surface(self, degree: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points of this rank's part of the surface, their cells, and triangles of the points of
        all ranks.
        """
        from dolfinx.mesh import entities_to_geometry

        topology = self.mesh.topology
        topology.create_connectivity(3, 2)
        facets = _compat.exterior_facets(self.mesh)
        flat = _compat.cell_name(self.mesh.ufl_domain())
        shape = {"tetrahedron": "triangle", "hexahedron": "quadrilateral"}.get(flat)
        count = self.comm.allreduce(len(facets))
        lattice = np.zeros((0, 2))
        for parts in range(min(max(degree, 1), 3), 0, -1):
            lattice, triangles = lattice_of(shape or "", parts)
            if shape is None or len(lattice) * count <= SURFACE:
                break
        if shape is None or len(lattice) * count > SURFACE:
            return np.zeros((0, 3)), np.zeros(0, np.int32), np.zeros((0, 3), np.int64)
        corners = 3 if shape == "triangle" else 4
        nodes = np.asarray(entities_to_geometry(self.mesh, 2, facets)).reshape(len(facets), -1)
        places = self.mesh.geometry.x[nodes[:, :corners]]
        points = np.einsum("pc,kcd->kpd", weights_of(lattice, corners), places).reshape(-1, 3)
        owners = topology.connectivity(2, 3)
        cells = np.array([owners.links(facet)[0] for facet in facets], dtype=np.int32)
        first = self.comm.exscan(len(points)) or 0
        shifts = first + len(lattice) * np.arange(len(facets))
        return (
            points,
            np.repeat(cells, len(lattice)),
            (triangles[None] + shifts[:, None, None]).reshape(-1, 3),
        )

    def _planes(self, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The three faces of the corner that is cut away, as grids."""
        near = viewer()[2] > 0
        start = np.where(near, self.corner, low)
        stop = np.where(near, high, self.corner)
        points, cells, count = [], [], 0
        for normal in range(3):
            inside = [axis for axis in range(3) if axis != normal]
            found, _, squares = plane_grid(
                start, stop, inside, normal, float(self.corner[normal]), PLANE
            )
            points.append(found)
            cells.append(squares + count)
            count += len(found)
        return np.concatenate(points), np.concatenate(cells)

    def take(self, function: fem.Function) -> np.ndarray | None:
        """The values of a function at all points, on rank 0; collective."""
        size = function.function_space.value_size
        parts = []
        for points, cells in ((self._skin, self._skin_cells), (self._inside, self._inside_cells)):
            local = np.zeros((0, size))
            if len(points):
                local = np.asarray(function.eval(points, cells)).real.reshape(len(points), size)
            parts.append(local)
        skin = joined(self.comm, parts[0])
        planes = by_owner(self.comm, self._owner, parts[1])
        return None if skin is None or planes is None else np.concatenate([skin, planes])

    def solid(self, factual: Mapping[str, np.ndarray]) -> Solid | None:
        """The drawing with the factual values that `take` gave, on rank 0."""
        if self._layout is None:
            return None
        return Solid(*self._layout, self.corner, factual)
