# SPDX-License-Identifier: MIT
"""Matrices of the lowest-order elements on a whole mesh of simplices, gathered on one rank: P1, the
fluxes of Raviart and Thomas, and Crouzeix–Raviart, with one diffusion tensor for each cell.

They serve constants of the domain that take one eigenvalue problem for a mesh (`approximation`). A
flux has one unknown for each facet, what flows through it altogether; a function of Crouzeix and
Raviart one, its mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from cffem._compat import cell_geometry, exterior_facets

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


@dataclass(frozen=True)
class Walls:
    """The conditions on facets of the boundary: where nothing else is said, functions vanish.

    Attributes:
        natural: whether ∇z·n + κ z is given instead, for each facet of the boundary of this rank.
        transfer: κ ≥ 0 there.
    """

    natural: np.ndarray
    transfer: np.ndarray


@dataclass(frozen=True)
class WholeMesh:
    """A mesh of simplices, all of it.

    Attributes:
        cells: the corners of the cells, shape (cells, dim + 1).
        facets: the facets opposite to the corners, of the same shape.
        points: the vertices.
        boundary: whether a facet is on the boundary, for all facets.
        natural: whether functions are free on it.
        transfer: κ of the facets, zero where there is none.
        tensors: A of the cells, shape (cells, dim, dim).
    """

    cells: np.ndarray
    facets: np.ndarray
    points: np.ndarray
    boundary: np.ndarray
    natural: np.ndarray
    transfer: np.ndarray
    tensors: np.ndarray

    @property
    def dim(self) -> int:
        """The dimension."""
        return self.points.shape[1]

    @cached_property
    def _jacobians(self) -> np.ndarray:
        corners = self.points[self.cells]
        return np.moveaxis(corners[:, 1:] - corners[:, :1], 1, 2)

    @cached_property
    def volume(self) -> np.ndarray:
        """|K|."""
        return np.abs(np.linalg.det(self._jacobians)) / math.factorial(self.dim)

    @cached_property
    def slopes(self) -> np.ndarray:
        """∇λ_i of the barycentric coordinates, shape (cells, dim + 1, dim)."""
        inner = np.linalg.inv(self._jacobians)
        return np.concatenate([-inner.sum(axis=1, keepdims=True), inner], axis=1)

    @cached_property
    def areas(self) -> np.ndarray:
        """|F| of all facets; the facet opposite to corner i has |F| = dim |K| |∇λ_i|."""
        result = np.zeros(len(self.boundary))
        sizes = self.dim * self.volume[:, None] * np.linalg.norm(self.slopes, axis=2)
        result[self.facets.ravel()] = sizes.ravel()
        return result

    @cached_property
    def held(self) -> np.ndarray:
        """Whether a vertex is on a facet where functions vanish."""
        result = np.zeros(len(self.points), dtype=bool)
        for i in range(self.dim + 1):
            here = (self.boundary & ~self.natural)[self.facets[:, i]]
            result[np.delete(self.cells[here], i, axis=1)] = True
        return result

    @property
    def floats(self) -> bool:
        """Whether nothing holds constants: all of the boundary is free of conditions on values."""
        return not np.any(self.boundary & (~self.natural | (self.transfer > 0)))

    # Matrices -------------------------------------------------------------------------------------

    def _added(self, local: np.ndarray, places: np.ndarray, size: int) -> sparse.csr_matrix:
        count = places.shape[1]
        rows, columns = np.repeat(places, count, axis=1), np.tile(places, (1, count))
        entries = (local.ravel(), (rows.ravel(), columns.ravel()))
        return sparse.csr_matrix(entries, shape=(size, size))

    def _products(self) -> np.ndarray:
        """|K| ∇λ_i·A ∇λ_j."""
        raised = np.einsum("cij,ckj->cki", self.tensors, self.slopes)
        return self.volume[:, None, None] * (raised @ np.swapaxes(self.slopes, 1, 2))

    def stiffness(self) -> sparse.csr_matrix:
        """(A ∇u, ∇v) + ⟨κ u, v⟩ of P1, on all vertices."""
        found = self._added(self._products(), self.cells, len(self.points))
        dim = self.dim
        for i in range(dim + 1):
            here = np.flatnonzero(self.transfer[self.facets[:, i]] > 0)
            if not len(here):
                continue
            facets = self.facets[here, i]
            weight = (self.transfer * self.areas)[facets] / (dim * (dim + 1))
            local = weight[:, None, None] * (np.ones((dim, dim)) + np.eye(dim))
            found = found + self._added(
                local, np.delete(self.cells[here], i, axis=1), len(self.points)
            )
        return found

    def loads(self) -> sparse.csr_matrix:
        """(f, v) of functions f that are constant on cells, shape (vertices, cells)."""
        count = len(self.cells)
        share = np.repeat(self.volume / (self.dim + 1), self.dim + 1)
        places = (self.cells.ravel(), np.repeat(np.arange(count), self.dim + 1))
        return sparse.csr_matrix((share, places), shape=(len(self.points), count))

    @cached_property
    def signs(self) -> np.ndarray:
        """1 where what flows out of a cell through a facet counts as positive, else −1."""
        flat = self.facets.ravel()
        first = np.full(len(self.boundary), -1)
        cell = np.repeat(np.arange(len(self.cells)), self.dim + 1)
        # The last assignment stands.
        first[flat[::-1]] = cell[::-1]
        return np.where(first[flat] == cell, 1.0, -1.0).reshape(self.facets.shape)

    def divergence(self) -> sparse.csr_matrix:
        """∫_K div p, shape (cells, facets)."""
        count = len(self.cells)
        places = (np.repeat(np.arange(count), self.dim + 1), self.facets.ravel())
        return sparse.csr_matrix((self.signs.ravel(), places), shape=(count, len(self.boundary)))

    def fluxes(self) -> sparse.csr_matrix:
        """(A⁻¹ p, q) + ⟨κ⁻¹ p·n, q·n⟩."""
        dim, corners = self.dim, self.points[self.cells]
        middle = corners.mean(axis=1)
        away = middle[:, None] - corners
        inverse = np.linalg.inv(self.tensors)
        # ∫ (x − a)·B (y − b) is that of the middle plus the spread of a uniform distribution.
        spread = np.einsum("cvi,cij,cvj->c", away, inverse, away) / ((dim + 1) * (dim + 2))
        local = np.einsum("cvi,cij,cwj->cvw", away, inverse, away) + spread[:, None, None]
        scale = self.signs[:, :, None] * self.signs[:, None] / (dim**2 * self.volume)[:, None, None]
        found = self._added(local * scale, self.facets, len(self.boundary))
        free = self.transfer > 0
        through = np.zeros(len(self.boundary))
        through[free] = 1 / (self.transfer[free] * self.areas[free])
        return found + sparse.diags(through)

    def means(self) -> tuple[sparse.csr_matrix, sparse.csr_matrix]:
        """Stiffness and mass of Crouzeix–Raviart elements, on all facets; of values at facets,
        κ ∫_F v w is taken with the means of v and w.
        """
        dim = self.dim
        stiffness = self._added(dim**2 * self._products(), self.facets, len(self.boundary))
        share = dim**2 / ((dim + 1) * (dim + 2))
        local = (1 - 2 * dim / (dim + 1) + share) * np.ones((dim + 1, dim + 1))
        local = local + share * np.eye(dim + 1)
        mass = self._added(self.volume[:, None, None] * local, self.facets, len(self.boundary))
        return stiffness + sparse.diags(self.transfer * self.areas), mass


def gathered(
    mesh: Mesh, tensors: np.ndarray | None = None, walls: Walls | None = None
) -> WholeMesh | None:
    """The whole mesh on the first rank, None elsewhere; collective.

    Args:
        mesh: a mesh of straight simplices.
        tensors: A of this rank's own cells; the identity where there is none.
        walls: the conditions on this rank's facets of the boundary, in the order of DOLFINx; where
            there is none functions vanish.
    """
    topology, dim, comm = mesh.topology, mesh.topology.dim, mesh.comm
    topology.create_connectivity(dim, dim - 1)
    topology.create_connectivity(dim - 1, dim)
    mine = topology.index_map(dim).size_local
    maps = [topology.index_map(0), topology.index_map(dim - 1)]
    lists = [topology.connectivity(dim, k).array.reshape(-1, dim + 1)[:mine] for k in (0, dim - 1)]
    if dim == 1:
        lists[1] = lists[1][:, ::-1]
    cells, facets = (
        index.local_to_global(listed.ravel().astype(np.int32)).reshape(listed.shape)
        for index, listed in zip(maps, lists, strict=True)
    )
    corners = mesh.geometry.x[cell_geometry(mesh)[0][:mine], :dim]
    if tensors is None:
        tensors = np.broadcast_to(np.eye(dim), (mine, dim, dim))
    outer = exterior_facets(mesh)
    if walls is None:
        walls = Walls(np.zeros(len(outer), dtype=bool), np.zeros(len(outer)))
    numbers = maps[1].local_to_global(outer.astype(np.int32))
    parts = comm.gather((cells, facets, corners, tensors, numbers, walls.natural, walls.transfer))
    if parts is None:
        return None
    cells, facets, corners, tensors, numbers, natural, transfer = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    points = np.zeros((maps[0].size_global, dim))
    points[cells] = corners
    boundary = np.zeros(maps[1].size_global, dtype=bool)
    boundary[numbers] = True
    free, coefficient = np.zeros_like(boundary), np.zeros(len(boundary))
    free[numbers], coefficient[numbers] = natural, transfer
    return WholeMesh(cells, facets, points, boundary, free, coefficient, tensors)
