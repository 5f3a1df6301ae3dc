# SPDX-License-Identifier: MIT
"""The cells of one rank with their corners sorted, and the factors by which their integrals
differ from the reference cell's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem._compat import cell_geometry
from cffem.bounds.geometry.mesh_constants import determinants, inverses
from cffem.bounds.geometry.reference_cell import Reference, permuted_nodes
from cffem.bounds.scalar_problem import Operator

if TYPE_CHECKING:
    from dolfinx import fem


# Cells are treated so many at a time: their arrays stay in the cache and are not asked of the
# system again and again.
BLOCK = 2048


class FluxCells:
    """This rank's cells.

    Args:
        space: the space of the states.
        tensors: the reference cell.

    Attributes:
        corners: shape (cells, dim + 1, dim).
        nodes: the local unknowns of the state on each cell, shape (nodes, cells).
        vertices, owners: numbers of the corners in the mesh and the ranks that own them.
        facets: numbers in the mesh of the facets opposite to the corners.
        jacobian, inverse, volume, oriented: J, J⁻¹, |det J| and whether det J is positive.
        gamma, kappa: see `reference`.
    """

    def __init__(self, space: fem.FunctionSpace, tensors: Reference):
        self.tensors, degree = tensors, tensors.degree
        mesh, dim = space.mesh, space.mesh.topology.dim
        mesh.topology.create_connectivity(dim, dim - 1)
        mine, index = mesh.topology.index_map(dim).size_local, mesh.topology.index_map(0)
        vertices = mesh.topology.connectivity(dim, 0).array.reshape(-1, dim + 1)[:mine]
        facets = mesh.topology.connectivity(dim, dim - 1).array.reshape(-1, dim + 1)[:mine]
        numbers = index.local_to_global(vertices.ravel().astype(np.int32)).reshape(vertices.shape)
        order = np.argsort(numbers, axis=1)
        ranks = np.concatenate([np.full(index.size_local, mesh.comm.rank), index.owners])
        self.vertices = np.take_along_axis(numbers, order, axis=1)
        self.owners = np.take_along_axis(ranks[vertices], order, axis=1)
        # The facets of an interval are its corners, in the same order.
        facets = facets[:, ::-1] if dim == 1 else facets
        facets = np.take_along_axis(facets, order, axis=1)
        self.facets = (
            mesh.topology.index_map(dim - 1)
            .local_to_global(facets.ravel().astype(np.int32))
            .reshape(facets.shape)
        )
        corners = mesh.geometry.x[cell_geometry(mesh)[0][:mine], :dim]
        self.corners = np.take_along_axis(corners, order[:, :, None], axis=1)
        self.nodes = self._sorted_nodes(space, order, dim, degree)
        jacobian = np.moveaxis(self.corners[:, 1:] - self.corners[:, :1], 1, 2)
        determinant = determinants(jacobian)
        self.jacobian, self.volume, self.oriented = jacobian, np.abs(determinant), determinant > 0
        self.inverse = inverses(jacobian, determinant)
        self.gamma = _products(np.moveaxis(jacobian, 2, 0)) / self.volume
        self.kappa = _products(np.moveaxis(self.inverse, 1, 0)) * self.volume

    @staticmethod
    def _sorted_nodes(
        space: fem.FunctionSpace, order: np.ndarray, dim: int, degree: int
    ) -> np.ndarray:
        listed = space.dofmap.list[: len(order)]
        nodes = np.empty_like(listed)
        for permutation, moved in permuted_nodes(dim, degree).items():
            cells = np.flatnonzero((order == permutation).all(axis=1))
            nodes[cells] = listed[cells][:, moved]
        return np.ascontiguousarray(nodes.T)

    def blocks(self) -> Iterator[CellBlock]:
        """All cells, a block at a time."""
        for start in range(0, len(self.corners), BLOCK):
            here = slice(start, min(start + BLOCK, len(self.corners)))
            yield CellBlock(
                here,
                self.tensors,
                np.ascontiguousarray(self.nodes[:, here]),
                self.volume[here],
                np.ascontiguousarray(self.gamma[:, :, here]),
                np.ascontiguousarray(self.kappa[:, :, here]),
                self.jacobian[here],
                self.inverse[here],
                self.corners[here, 0],
            )


def _products(vectors: np.ndarray) -> np.ndarray:
    """Σ_l v_ml v_nl for vectors of all cells, shape (m, cells, l); the last axis of the
    result counts the cells.
    """
    count = len(vectors)
    result = np.empty((count, count, vectors.shape[1]))
    for m in range(count):
        for n in range(m + 1):
            result[m, n] = result[n, m] = sum(
                vectors[m, :, axis] * vectors[n, :, axis] for axis in range(vectors.shape[2])
            )
    return result


@dataclass
class CellBlock:
    """Some cells; the last axis of arrays counts them.

    Attributes:
        here: which ones.
        tensors: the reference cell.
        nodes, volume, gamma, kappa: see `FluxCells`; of the last two with one entry for each of the
            reference cell's pairs.
        jacobian, inverse, origin: J, J⁻¹ and the first corner, the first axis counting the cells.
    """

    here: slice
    tensors: Reference
    nodes: np.ndarray
    volume: np.ndarray
    gamma: np.ndarray
    kappa: np.ndarray
    jacobian: np.ndarray
    inverse: np.ndarray
    origin: np.ndarray

    def __post_init__(self) -> None:
        self.gammas = [self.gamma[m, n] for m, n in self.tensors.pairs]
        self.kappas = [self.kappa[m, n] for m, n in self.tensors.pairs]
        self._known: tuple[Operator, np.ndarray, np.ndarray] | None = None

    def slopes(self, nodal: np.ndarray) -> list[np.ndarray]:
        """The partial derivatives ∂ŵ in orthonormal polynomials of the reference cell."""
        return [gradient @ nodal for gradient in self.tensors.gradient]

    def carried(self, slopes: list[np.ndarray]) -> list[np.ndarray]:
        """κ ∇̂ŵ."""
        return [sum(k * s for k, s in zip(row, slopes, strict=True)) for row in self.kappa]

    def transported(
        self, operator: Operator, nodal: np.ndarray, slopes: list[np.ndarray]
    ) -> np.ndarray:
        """b·∇w + c w in orthonormal polynomials of the reference cell."""
        result = (operator.reaction * self.tensors.values) @ nodal
        velocity, change = self._advection(operator)
        for speed, slope in zip(velocity, slopes, strict=False):
            result += speed * slope
        for row, slope in zip(change, slopes, strict=False):
            for factor, linear in zip(row, self.tensors.linear, strict=True):
                result += factor * (linear @ slope)
        return result

    def _advection(self, operator: Operator) -> tuple[np.ndarray, np.ndarray]:
        """J⁻¹ b at the first corner and J⁻¹ ∇b J, nothing where they vanish; those of the
        last operator are kept.
        """
        if self._known is None or self._known[0] is not operator:
            velocity = change = np.zeros((0, len(self.volume)))
            if np.any(operator.shift) or np.any(operator.slope):
                start = operator.shift + self.origin @ operator.slope.T
                velocity = np.ascontiguousarray(
                    np.matmul(self.inverse, start[:, :, None])[:, :, 0].T
                )
            if np.any(operator.slope):
                change = np.ascontiguousarray(
                    np.moveaxis(self.inverse @ operator.slope @ self.jacobian, 0, -1)
                )
            self._known = operator, velocity, change
        return self._known[1:]
