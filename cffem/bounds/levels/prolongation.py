# SPDX-License-Identifier: MIT
"""Functions of a coarse space as the same functions of a finer, nested space.

A child cell K′ lies in its parent K, and both are affine images of the reference cell, x = x_K +
J_K X. The values at the child's interpolation points are those of the parent's basis at X = J_K⁻¹
(x_{K′} − x_K) + A X′ with A = J_K⁻¹ J_{K′}, mapped as the element asks: plainly, by Aᵀ (Nédélec) or
by det(A) A⁻¹ (Raviart–Thomas). In a uniform refinement few different A occur, so that few small
matrices make up the sparse one that represents the embedding exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import scipy.sparse as sparse

from cffem._compat import cell_geometry

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh


# A child's position in its parent is a multiple of 1/2; rounding makes equal positions compare
# equal.
DIGITS = 9


def prolongation(
    coarse: fem.FunctionSpace, fine: fem.FunctionSpace, parents: np.ndarray | None = None
) -> sparse.csr_matrix:
    """The matrix that turns local dofs of a coarse space into those of a finer one.

    Args:
        coarse, fine: spaces of one family, on one mesh or on a mesh and its refinement.
        parents: for each local cell of the fine mesh the local cell of the coarse one that it is
            in; None: the meshes are one.

    Returns:
        A sparse matrix from local values (ghosts included) to local values.

    Example:
        >>> from mpi4py import MPI
        >>> from dolfinx import fem, mesh
        >>> square = mesh.create_unit_square(MPI.COMM_SELF, 2, 2)
        >>> low, high = (fem.functionspace(square, ("Lagrange", k)) for k in (1, 2))
        >>> prolongation(low, high).shape
        (25, 9)
    """
    cells = np.arange(len(fine.dofmap.list)) if parents is None else np.arange(len(parents))
    above = cells if parents is None else np.asarray(parents)
    kinds, where = _positions(coarse.mesh, fine.mesh, cells, above, parents is None)
    turns = [oriented(space, chosen) for space, chosen in ((coarse, above), (fine, cells))]
    keys, groups = np.unique(np.column_stack([where, *turns]), axis=0, return_inverse=True)
    # A rank may have no cells, and so no kinds of them.
    sizes = fine.dofmap.list.shape[1], coarse.dofmap.list.shape[1]
    plain = np.array([_embedding(coarse.element, fine.element, kind) for kind in kinds]).reshape(
        len(kinds), *sizes
    )
    local = plain[keys[:, 0]]
    if coarse.element.needs_dof_transformations:
        local = local @ turned(coarse.element.Tt_apply, sizes[1], keys[:, 1])
    if fine.element.needs_dof_transformations:
        local = turned(fine.element.Tt_inv_apply, sizes[0], keys[:, 2]) @ local
    return _assembled(
        coarse, fine, fine.dofmap.list[cells], coarse.dofmap.list[above], local[groups.ravel()]
    )


def _assembled(
    coarse: fem.FunctionSpace,
    fine: fem.FunctionSpace,
    rows: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
) -> sparse.csr_matrix:
    """The matrix of the small ones of all cells; entries that several cells give are the same
    number each time: one of them counts.

    Args:
        coarse, fine: the spaces.
        rows, columns: the dofs of each cell, in the finer and in the coarser space.
        values: the small matrix of each cell.
    """
    shape = tuple(
        s.dofmap.index_map.size_local + s.dofmap.index_map.num_ghosts for s in (fine, coarse)
    )
    cell, i, j = np.nonzero(np.abs(values) > 1e-14)
    places = rows[cell, i].astype(np.int64) * shape[1] + columns[cell, j]
    places, first = np.unique(places, return_index=True)
    entries = values[cell[first], i[first], j[first]]
    scalar = sparse.csr_matrix((entries, (places // shape[1], places % shape[1])), shape=shape)
    block = fine.dofmap.index_map_bs
    return scalar if block == 1 else sparse.kron(scalar, sparse.identity(block), format="csr")


def _positions(
    coarse: fem.FunctionSpace,
    fine: fem.FunctionSpace,
    cells: np.ndarray,
    above: np.ndarray,
    same: bool,
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The different pairs (A, b) with X = A X′ + b, and which of them each cell has."""
    dimension = fine.topology.dim
    if same:
        return [(np.eye(dimension), np.zeros(dimension))], np.zeros(len(cells), dtype=np.int64)
    origin, jacobian = affine(coarse, above)
    child_origin, child_jacobian = affine(fine, cells)
    inverse = np.linalg.pinv(jacobian)
    a = inverse @ child_jacobian
    b = np.einsum("nij,nj->ni", inverse, child_origin - origin)
    numbers = np.round(np.concatenate([a.reshape(len(cells), -1), b], axis=1), DIGITS) + 0.0
    unique, which = np.unique(numbers, axis=0, return_inverse=True)
    split = dimension * dimension
    return [
        (row[:split].reshape(dimension, dimension), row[split:]) for row in unique
    ], which.ravel()


def affine(mesh: Mesh, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes = cell_geometry(mesh)[0][cells]
    points = mesh.geometry.x[nodes][:, :, : mesh.geometry.dim]
    return points[:, 0], np.swapaxes(points[:, 1 : mesh.topology.dim + 1] - points[:, :1], 1, 2)


def _embedding(
    coarse: fem.FunctionSpace, fine: fem.FunctionSpace, position: tuple[np.ndarray, np.ndarray]
) -> np.ndarray:
    """The small matrix between reference dofs, orientations left aside."""
    a, b = position
    source, target = coarse.basix_element, fine.basix_element
    values = source.tabulate(0, target.points @ a.T + b)[0]
    if source.map_type == basix.MapType.covariantPiola:
        values = np.einsum("ji,pdj->pdi", a, values)
    elif source.map_type == basix.MapType.contravariantPiola:
        values = np.einsum("ij,pdj->pdi", np.linalg.det(a) * np.linalg.inv(a), values)
    # Basix orders the values that it interpolates by component first and point second.
    return target.interpolation_matrix @ np.transpose(values, (2, 0, 1)).reshape(
        -1, values.shape[1]
    )


def oriented(space: fem.FunctionSpace, cells: np.ndarray) -> np.ndarray:
    """The orientations of some cells, as a number each; zero where the element has none."""
    if not space.element.needs_dof_transformations:
        return np.zeros(len(cells), dtype=np.int64)
    space.mesh.topology.create_entity_permutations()
    return space.mesh.topology.get_cell_permutation_info()[cells].astype(np.int64)


def turned(apply: Any, size: int, turns: np.ndarray) -> np.ndarray:
    """Tᵀ or T⁻ᵀ of some orientations: the dofs of a cell are those of the reference cell up to its
    orientation.

    Args:
        apply: `Tt_apply` or `Tt_inv_apply` of the element.
        size: its dimension.
        turns: the orientations.
    """
    different, which = np.unique(turns, return_inverse=True)
    matrices = np.tile(np.eye(size), (len(different), 1, 1))
    for matrix, turn in zip(matrices, different, strict=True):
        apply(matrix.reshape(-1), np.array([turn], dtype=np.uint32), size)
    return matrices[which.ravel()]
