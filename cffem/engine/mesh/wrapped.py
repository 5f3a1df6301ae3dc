# SPDX-License-Identifier: MIT
"""Meshes whose periodic sides are joined: cells on opposite sides are neighbours.

Vertices that a periodic condition identifies become one vertex of the topology, while every cell
keeps the coordinates of its own nodes. Facets of both sides are then one facet between two cells,
over which fluxes of discontinuous fields are integrated like over any other, and every element has
the continuity across it that it has between cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import basix
import numpy as np
from dolfinx import cpp
from dolfinx.common import IndexMap
from dolfinx.mesh import GhostMode, Mesh, create_mesh, entities_to_geometry, meshtags
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cffem._compat import bare, cell_geometry, cell_partitioner, coordinate_map
from cffem.engine.mesh.boundary_parts import Boundary
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx.mesh import MeshTags

    from cffem.engine.mesh.meshes import MeshData
    from cffem.symbols.problem.conditions import Periodic

# Nodes match if they are as close as this, relative to the size of the sides.
CLOSE = 1e-8


def wrapped(domain: MeshData, periodic: Sequence[Periodic]) -> MeshData:
    """A mesh with its periodic sides joined; names of these sides are gone. Collective.

    Args:
        domain: the mesh with its names.
        periodic: the conditions.

    Raises:
        InputError: the sides do not match, cells are curved, or there are fewer than three cells
            from side to side.
    """
    # Models on one mesh, which levels compare cell by cell, share what is made of it.
    kept = domain.mesh.__dict__.setdefault("_cffem_wrapped", [])
    sides = [(p.on, p.to) for p in periodic]
    for of, joined_sides, found in kept:
        if (of.facet_tags, of.cell_tags, joined_sides) == (
            domain.facet_tags,
            domain.cell_tags,
            sides,
        ):
            return found
    made = _joined(domain, periodic)
    kept.append((domain, sides, made))
    return made


def _joined(domain: MeshData, periodic: Sequence[Periodic]) -> MeshData:
    mesh = domain.mesh
    if cell_geometry(mesh)[1] > 1:
        raise InputError(
            "fluxes across periodic sides need straight cells; take a mesh of degree 1"
        )
    whole = _Gathered(domain, periodic)
    made = whole.joined()
    nodes, rows = _nodes(whole, made)
    joined = _with_nodes(made, nodes, rows, whole.points)
    cell_tags = None
    if domain.cell_tags is not None:
        values = whole.tags_of_cells()[made.topology.original_cell_index]
        index = np.flatnonzero(values >= 0).astype(np.int32)
        cell_tags = meshtags(joined, mesh.topology.dim, index, values[index].astype(np.int32))
    names = {n: v for n, v in domain.names.items() if n not in whole.sides}
    return replace(
        domain,
        mesh=joined,
        cell_tags=cell_tags,
        facet_tags=_facet_tags(joined, whole, nodes, names),
        names=names,
        curved=None,
        remade=None,
    )


class _Gathered:
    """All cells, nodes and named facets of a mesh on every rank."""

    def __init__(self, domain: MeshData, periodic: Sequence[Periodic]):
        mesh = domain.mesh
        self.domain, self.mesh, self.comm = domain, mesh, mesh.comm
        self.sides = {side for p in periodic for side in (p.on, p.to)}
        geometry = mesh.geometry
        imap = geometry.index_map()
        owned = imap.size_local
        self.points = np.concatenate(self.comm.allgather(geometry.x[:owned, : geometry.dim].copy()))
        self._global = np.asarray(
            imap.local_to_global(np.arange(owned + imap.num_ghosts, dtype=np.int32))
        )
        self.count = mesh.topology.index_map(mesh.topology.dim).size_local
        mine = self._global[cell_geometry(mesh)[0][: self.count]].reshape(self.count, -1)
        self.mine = mine
        self.cells = np.concatenate(self.comm.allgather(mine))
        boundary = Boundary(domain, periodic)
        self.facets = {name: self._gather(boundary.facets[name]) for name in boundary.tags}
        self.representative = self._identified(periodic)

    def _gather(self, facets: np.ndarray) -> np.ndarray:
        """The nodes of some facets of all ranks, one row for each."""
        dim = self.mesh.topology.dim
        self.mesh.topology.create_connectivity(dim - 1, dim)
        self.mesh.topology.create_connectivity(dim - 1, 0)
        imap = self.mesh.topology.index_map(dim - 1)
        facets = facets[facets < imap.size_local].astype(np.int32)
        found = self._global[_corners(self.mesh, facets)] if len(facets) else None
        rows = [part for part in self.comm.allgather(found) if part is not None]
        return np.concatenate(rows) if rows else np.empty((0, 1), dtype=np.int64)

    def _identified(self, periodic: Sequence[Periodic]) -> np.ndarray:
        """For every node the one that stands for it."""
        pairs = []
        for condition in periodic:
            ours, others = (np.unique(self.facets[s]) for s in (condition.on, condition.to))
            if len(ours) != len(others):
                raise InputError(
                    f"{condition}: the parts have {len(ours)} and {len(others)} nodes, so they do "
                    "not match; use a mesh with equal nodes on both parts"
                )
            points, targets = self.points[ours], self.points[others]
            shift = targets.mean(axis=0) - points.mean(axis=0)
            distance, index = cKDTree(targets).query(points + shift)
            size = np.ptp(np.concatenate([points, targets]), axis=0).max()
            if distance.max() > CLOSE * size or len(np.unique(index)) != len(index):
                worst = tuple(float(c) for c in points[np.argmax(distance)].round(6))
                raise InputError(
                    f"{condition}: the node at {worst} has no partner; use a mesh with equal nodes "
                    "on both parts"
                )
            pairs.append(np.column_stack([ours, others[index]]))
        joined = np.concatenate(pairs)
        graph = coo_array(
            (np.ones(len(joined)), (joined[:, 0], joined[:, 1])), shape=(len(self.points),) * 2
        )
        _, labels = connected_components(graph, directed=False)
        _, first = np.unique(labels, return_index=True)
        return first[labels]

    def joined(self) -> Mesh:
        """The mesh of joined vertices, with wrong coordinates for the cells at one of two sides."""
        kept, number = np.unique(self.representative, return_inverse=True)
        self._check_room()
        cells = number[self.mine]
        chunk = np.array_split(self.points[kept], self.comm.size)[self.comm.rank]
        return create_mesh(
            self.comm,
            cells=cells,
            x=np.ascontiguousarray(chunk),
            e=self.mesh.ufl_domain(),
            partitioner=cell_partitioner(GhostMode.shared_facet),
        )

    def _check_room(self) -> None:
        """Refuse sides so close that joining them makes one facet of several."""
        cell = self.mesh.basix_cell()
        corners = basix.topology(cell)[self.mesh.topology.dim - 1]
        counts = []
        for cells in (self.cells, self.representative[self.cells]):
            rows = [np.sort(cells[:, facet], axis=1) for facet in corners if len(facet)]
            sizes = {row.shape[1] for row in rows}
            counts.append(
                sum(
                    len(np.unique(np.concatenate([r for r in rows if r.shape[1] == k]), axis=0))
                    for k in sizes
                )
            )
        both = sum(len(self.facets[side]) for side in self.sides) // 2
        repeated = any(len(set(c)) < len(c) for c in self.representative[self.cells].tolist())
        if repeated or counts[1] != counts[0] - both:
            raise InputError(
                "fluxes of discontinuous fields across periodic sides need at least three cells "
                "from side to side; refine the mesh"
            )

    def tags_of_cells(self) -> np.ndarray:
        """The number of each cell of all ranks, −1 without one."""
        tags: MeshTags = self.domain.cell_tags
        values = np.full(self.count, -1)
        inside = tags.indices < self.count
        values[tags.indices[inside]] = tags.values[inside]
        return np.concatenate(self.comm.allgather(values))


def _corners(mesh: Mesh, facets: np.ndarray) -> np.ndarray:
    """The positions of the nodes of some facets, a row for each; DOLFINx fails without any."""
    nodes = entities_to_geometry(mesh, mesh.topology.dim - 1, facets)
    return np.asarray(nodes).reshape(len(facets), -1)


def _nodes(whole: _Gathered, made: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of the cells of a joined mesh on this rank, and rows of their positions."""
    cells = whole.cells[made.topology.original_cell_index]
    stands, there = whole.points[whole.representative[cells]], cell_geometry(made)[0]
    gap = np.abs(stands - made.geometry.x[there][..., : made.geometry.dim]).max(initial=0.0)
    if gap > CLOSE * max(np.ptp(whole.points, axis=0).max(), 1e-300):
        raise InputError("the periodic mesh could not be joined: its cells are numbered otherwise")
    nodes, rows = np.unique(cells, return_inverse=True)
    return nodes, rows.reshape(cells.shape).astype(np.int32)


def _with_nodes(made: Mesh, nodes: np.ndarray, rows: np.ndarray, points: np.ndarray) -> Mesh:
    """The mesh with nodes of its own for each side."""
    geometry = cpp.mesh.Geometry_float64(
        IndexMap(made.comm, len(nodes)),
        np.ascontiguousarray(rows),
        bare(coordinate_map(made)),
        np.ascontiguousarray(points[nodes]),
        nodes.astype(np.int64),
    )
    mesh = cpp.mesh.Mesh_float64(made.comm, made.topology._cpp_object, geometry)
    return Mesh(mesh, made.ufl_domain())


def _facet_tags(
    mesh: Mesh, whole: _Gathered, nodes: np.ndarray, names: dict[str, tuple[int, int]]
) -> MeshTags | None:
    """The numbers of named facets, found by the vertices that stand for theirs."""
    tags, dim = whole.domain.facet_tags, mesh.topology.dim
    if tags is None:
        return None
    wanted = {}
    for dimension, number in names.values():
        if dimension == dim - 1:
            found = whole._gather(tags.find(number))
            rows = np.sort(whole.representative[found], axis=1)
            wanted.update({tuple(row): number for row in rows.tolist()})
    mesh.topology.create_entities(dim - 1)
    imap = mesh.topology.index_map(dim - 1)
    mesh.topology.create_connectivity(dim - 1, dim)
    mesh.topology.create_connectivity(dim - 1, 0)
    facets = np.arange(imap.size_local + imap.num_ghosts, dtype=np.int32)
    if not len(facets):
        return meshtags(mesh, dim - 1, facets, facets)
    there = _corners(mesh, facets)
    rows = np.sort(whole.representative[nodes[there]], axis=1)
    values = np.array([wanted.get(tuple(row), -1) for row in rows.tolist()], dtype=np.int32)
    index = np.flatnonzero(values >= 0).astype(np.int32)
    return meshtags(mesh, dim - 1, index, values[index])
