# SPDX-License-Identifier: MIT
"""Functions of a coarse space as the same functions of a finer, nested space.

A child cell K′ lies in its parent K, and both are affine images of the reference cell, x = x_K + J_K X. The values at the child's
interpolation points are those of the parent's basis at X = J_K⁻¹ (x_{K′} − x_K) + A X′ with A = J_K⁻¹ J_{K′}, mapped as the element
asks: plainly, by Aᵀ (Nédélec) or by det(A) A⁻¹ (Raviart–Thomas). In a uniform refinement few different A occur, so that few small
matrices make up the sparse one that represents the embedding exactly.
"""

from __future__ import annotations

from typing import Any

import basix
import numpy as np
import scipy.sparse as sparse

from cffem._compat import cell_geometry

# A child's position in its parent is a multiple of 1/2; rounding makes equal positions compare equal.
DIGITS = 9


def prolongation(coarse: Any, fine: Any, parents: np.ndarray | None = None) -> sparse.csr_matrix:
    """The matrix that turns local dofs of a coarse space into those of a finer one.

    Args:
        coarse, fine: spaces of one family, on one mesh or on a mesh and its refinement.
        parents: for each local cell of the fine mesh the local cell of the coarse one that it is in; None: the meshes are one.

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
    turns = [_orientation(space, chosen) for space, chosen in ((coarse, above), (fine, cells))]
    keys, groups = np.unique(np.column_stack([where, *turns]), axis=0, return_inverse=True)
    rows, columns, values = [], [], []
    plain = [_embedding(coarse.element, fine.element, kind) for kind in kinds]
    for index, (kind, turn_above, turn) in enumerate(keys):
        members = cells[groups.ravel() == index]
        local = _turned(coarse.element, fine.element, plain[kind], turn_above, turn)
        i, j = fine.dofmap.list[members], coarse.dofmap.list[above[members]]
        rows.append(np.repeat(i, local.shape[1], axis=1).ravel())
        columns.append(np.tile(j, (1, local.shape[0])).ravel())
        values.append(np.tile(local.ravel(), len(members)))
    return _assembled(coarse, fine, rows, columns, values)


def _assembled(coarse: Any, fine: Any, rows: list, columns: list, values: list) -> sparse.csr_matrix:
    """Entries that several cells give are the same number each time: one of them counts."""
    shape = tuple(s.dofmap.index_map.size_local + s.dofmap.index_map.num_ghosts for s in (fine, coarse))
    nothing = np.empty(0, dtype=np.int64)
    i, j = (np.concatenate(part or [nothing]).astype(np.int64) for part in (rows, columns))
    _, first = np.unique(i * shape[1] + j, return_index=True)
    entries = np.concatenate(values or [np.empty(0)])[first]
    kept = np.abs(entries) > 1e-14
    scalar = sparse.csr_matrix((entries[kept], (i[first][kept], j[first][kept])), shape=shape)
    block = fine.dofmap.index_map_bs
    return scalar if block == 1 else sparse.kron(scalar, sparse.identity(block), format="csr")


def _positions(
    coarse: Any, fine: Any, cells: np.ndarray, above: np.ndarray, same: bool
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
    return [(row[:split].reshape(dimension, dimension), row[split:]) for row in unique], which.ravel()


def affine(mesh: Any, cells: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    nodes = cell_geometry(mesh)[0][cells]
    points = mesh.geometry.x[nodes][:, :, : mesh.geometry.dim]
    return points[:, 0], np.swapaxes(points[:, 1 : mesh.topology.dim + 1] - points[:, :1], 1, 2)


def _embedding(coarse: Any, fine: Any, position: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """The small matrix between reference dofs, orientations left aside."""
    a, b = position
    source, target = coarse.basix_element, fine.basix_element
    values = source.tabulate(0, target.points @ a.T + b)[0]
    if source.map_type == basix.MapType.covariantPiola:
        values = np.einsum("ji,pdj->pdi", a, values)
    elif source.map_type == basix.MapType.contravariantPiola:
        values = np.einsum("ij,pdj->pdi", np.linalg.det(a) * np.linalg.inv(a), values)
    # Basix orders the values that it interpolates by component first and point second.
    return target.interpolation_matrix @ np.transpose(values, (2, 0, 1)).reshape(-1, values.shape[1])


def _orientation(space: Any, cells: np.ndarray) -> np.ndarray:
    if not space.element.needs_dof_transformations:
        return np.zeros(len(cells), dtype=np.int64)
    space.mesh.topology.create_entity_permutations()
    return space.mesh.topology.get_cell_permutation_info()[cells].astype(np.int64)


def _turned(coarse: Any, fine: Any, local: np.ndarray, turn_above: int, turn: int) -> np.ndarray:
    """T′⁻ᵀ B Tᵀ: the dofs of a cell are those of the reference cell up to its orientation."""
    if coarse.needs_dof_transformations:
        size = local.shape[1]
        turned = np.eye(size).ravel()
        coarse.Tt_apply(turned, np.array([turn_above], dtype=np.uint32), size)
        local = local @ turned.reshape(size, size)
    if fine.needs_dof_transformations:
        flat = local.flatten()  # a copy: the matrix serves other orientations too
        fine.Tt_inv_apply(flat, np.array([turn], dtype=np.uint32), local.shape[1])
        local = flat.reshape(local.shape)
    return local
