# SPDX-License-Identifier: MIT
"""Functions of a coarse space on a mesh of its own, interpolated into a finer space on another mesh
of the same domain.

Every unknown of the finer space is a functional of values at points of one of its cells. Each point
lies in a coarse cell, whose basis is evaluated there, mapped as the element asks (plainly, by J⁻ᵀ
for Nédélec or by J/det J for Raviart–Thomas) and pulled back to the finer cell. That gives one
sparse matrix, with which whole trajectories are carried over. Points outside the coarse mesh,
beside a curved boundary, take the polynomial of the nearest cell. The error of the interpolation is
of the order of the coarse error, and belongs to the gap between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import scipy.sparse as sparse
from scipy.spatial import cKDTree

from cffem.bounds.levels.prolongation import affine, oriented, turned

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh


# How many cells about a point are looked at, by the dimension; a point lies in one of the nearest,
# and mostly in one of the first few.
CANDIDATES, FEW = {1: 3, 2: 16, 3: 48}, {1: 3, 2: 4, 3: 8}
# Up to rounding a point with such a barycentric coordinate lies on a facet.
INSIDE = 1e-12
# By how much more cells are looked at where none of the nearest contains a point: cells of very
# different sizes may lie beside each other.
MORE = 8


def interpolation(coarse: fem.FunctionSpace, fine: fem.FunctionSpace) -> sparse.csr_matrix:
    """The matrix from local values of a coarse space to those of a finer one on another mesh.

    Args:
        coarse: a space on straight simplices; this process has all of its mesh.
        fine: a space of the same family on straight simplices.

    Example:
        >>> from mpi4py import MPI
        >>> from dolfinx import fem, mesh
        >>> low, high = (
        ...     fem.functionspace(mesh.create_unit_square(MPI.COMM_SELF, n, n), ("Lagrange", 1))
        ...     for n in (2, 3)
        ... )
        >>> f, g = fem.Function(low), fem.Function(high)
        >>> f.interpolate(lambda x: 1 + x[0] - 2 * x[1])
        >>> g.interpolate(lambda x: 1 + x[0] - 2 * x[1])
        >>> bool(abs(interpolation(low, high) @ f.x.array - g.x.array).max() < 1e-12)
        True
    """
    element = fine.element.basix_element
    dofs = fine.dofmap.list
    # Each unknown is taken from the first cell that has it.
    numbers, first = np.unique(dofs.ravel(), return_index=True)
    own, which = np.divmod(first, dofs.shape[1])
    cells, place = np.unique(own, return_inverse=True)
    origin, jacobian = affine(fine.mesh, cells)
    points = origin[:, None] + np.einsum("cij,pj->cpi", jacobian, element.points)
    inside, local = located(coarse.mesh, points.reshape(-1, points.shape[2]))
    values = _basis(coarse, inside, local)  # (points, basis, components)
    pairs = (len(cells), len(element.points))
    values = _pulled_back(element.map_type, values.reshape(*pairs, *values.shape[1:]), jacobian)
    # Basix orders the values that it interpolates by component first and point second.
    matrix = element.interpolation_matrix.reshape(element.dim, values.shape[3], pairs[1])
    weights = _turned_rows(fine, cells, matrix)  # (cells, dofs, components, points)
    chosen = weights[place, which]
    # Small matrices one after another are multiplied faster than sums over several indices.
    entries = (values[place] @ chosen.transpose(0, 2, 1)[..., None])[..., 0]
    columns = coarse.dofmap.list[inside.reshape(pairs)[place]]
    rows = np.broadcast_to(numbers[:, None, None], entries.shape)
    return _assembled(coarse, fine, rows.ravel(), columns.ravel(), entries.ravel())


def located(mesh: Mesh, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each point the cell of a mesh that it lies in, or the nearest, and its place in the
    reference cell.
    """
    dimension = mesh.topology.dim
    count = mesh.topology.index_map(dimension).size_local
    origin, jacobian = affine(mesh, np.arange(count))
    inverse = np.linalg.pinv(jacobian)
    middles = origin + jacobian.sum(axis=2) / (dimension + 1)
    tree = cKDTree(middles)
    best = np.full(len(points), -np.inf)
    cell, place = np.zeros(len(points), dtype=int), np.zeros((len(points), dimension))
    left = np.arange(len(points))
    for many in (FEW[dimension], CANDIDATES[dimension], MORE * CANDIDATES[dimension]):
        near = min(many, count)
        _, candidates = tree.query(points[left], k=near)
        for column in candidates.reshape(len(left), near).T:
            # Points that lie in a cell need no other.
            still = best[left] < -INSIDE
            where, chosen = left[still], column[still]
            if not len(where):
                break
            away = points[where] - origin[chosen]
            local = (inverse[chosen] @ away[:, :, None])[:, :, 0]
            depth = np.minimum(local.min(axis=1), 1 - local.sum(axis=1))
            better = depth > best[where] + INSIDE
            where = where[better]
            best[where], cell[where], place[where] = depth[better], chosen[better], local[better]
        left = left[best[left] < -INSIDE]
        if not len(left):
            break
    return cell, place


def _basis(space: fem.FunctionSpace, cells: np.ndarray, local: np.ndarray) -> np.ndarray:
    """The basis functions of a space on given cells at one point each, in physical components."""
    element = space.element.basix_element
    values = element.tabulate(0, local)[0]
    if space.element.needs_dof_transformations:
        turns = oriented(space, cells)
        # ψ_i = Σ_j T_ij φ_j turns coefficients of the cell into those of the reference cell.
        matrices = turned(space.element.Tt_apply, values.shape[1], turns)
        values = matrices.transpose(0, 2, 1) @ values
    _, jacobian = affine(space.mesh, cells)
    if element.map_type == basix.MapType.covariantPiola:
        return values @ np.linalg.inv(jacobian)
    if element.map_type == basix.MapType.contravariantPiola:
        scaled = jacobian / np.linalg.det(jacobian)[:, None, None]
        return values @ scaled.transpose(0, 2, 1)
    return values


def _pulled_back(kind: Any, values: np.ndarray, jacobian: np.ndarray) -> np.ndarray:
    """Values in physical components (cells, points, basis, components) as those on the reference
    cell.
    """
    if kind == basix.MapType.covariantPiola:
        return values @ jacobian[:, None]
    if kind == basix.MapType.contravariantPiola:
        scaled = np.linalg.inv(jacobian) * np.linalg.det(jacobian)[:, None, None]
        return values @ scaled.transpose(0, 2, 1)[:, None]
    return values


def _turned_rows(fine: fem.FunctionSpace, cells: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """The functionals of the unknowns of each cell, orientations included."""
    if not fine.element.needs_dof_transformations:
        return np.broadcast_to(matrix, (len(cells), *matrix.shape))
    turns = turned(fine.element.Tt_inv_apply, matrix.shape[0], oriented(fine, cells))
    size = matrix.shape[0]
    return (turns @ matrix.reshape(size, -1)).reshape(-1, *matrix.shape)


def _assembled(
    coarse: fem.FunctionSpace,
    fine: fem.FunctionSpace,
    rows: np.ndarray,
    columns: np.ndarray,
    entries: np.ndarray,
) -> sparse.csr_matrix:
    shape = tuple(
        s.dofmap.index_map.size_local + s.dofmap.index_map.num_ghosts for s in (fine, coarse)
    )
    kept = np.abs(entries) > 1e-14
    scalar = sparse.csr_matrix((entries[kept], (rows[kept], columns[kept])), shape=shape)
    block = fine.dofmap.index_map_bs
    return scalar if block == 1 else sparse.kron(scalar, sparse.identity(block), format="csr")
