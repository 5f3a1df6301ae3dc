# SPDX-License-Identifier: MIT
"""A sparse matrix close to the inverse of a mass matrix: the cells' own inverses, averaged where
cells meet.

The mass matrix is a sum M = Σ Rᵀ M_K R over cells. With diagonal weights D_K that sum to one at
every unknown,

    W = Σ Rᵀ D_K M_K⁻¹ D_K R

has the pattern of M, and since every v is Σ Rᵀ D_K R v the least eigenvalue of W M is at least one.
With the diagonal of M_K over that of M as weights the greatest is 1.8 for quadratic triangles and
3.0 for quadratic tetrahedra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import basix
import numpy as np
from dolfinx import la
from petsc4py import PETSc
from scipy.sparse import coo_array

from cffem import _compat

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx import fem
    from dolfinx.mesh import Mesh


def can_be_averaged(mesh: Mesh, element: _ElementBase) -> bool:
    """Whether the cells are flat simplices and the element is a Lagrange element.

    For normal-continuous elements W is as close, but there B W Bᵀ couples so many more cells that
    it does not pay.
    """
    simplices = _compat.cell_name(mesh.ufl_domain()) in ("interval", "triangle", "tetrahedron")
    flat = mesh.geometry.dim == mesh.topology.dim and _compat.cell_geometry(mesh)[1] == 1
    return simplices and flat and element.map_type == basix.MapType.identity


def averaged_inverse(
    space: fem.FunctionSpace,
    element: _ElementBase,
    pattern: PETSc.Mat,
    numbers: np.ndarray | None = None,
) -> PETSc.Mat:
    """W for the mass matrix of a space, or for that of a field in a state.

    Args:
        space: the DOLFINx space.
        element: its Basix element.
        pattern: a matrix in which the unknowns of each cell are coupled; only its pattern is used.
        numbers: global numbers in that matrix of the space's local unknowns, ghosts included; None
            are those of the space.
    """
    inverse = cell_inverses(space, element)
    dofs, imap, block = (
        space.dofmap.list[: len(inverse)].astype(np.int64),
        space.dofmap.index_map,
        space.dofmap.bs,
    )
    shares = np.einsum("cii->ci", np.linalg.inv(inverse))
    total = la.vector(imap, 1)
    total.array[:] = 0.0
    np.add.at(total.array, dofs, shares)
    total.scatter_reverse(la.InsertMode.add)
    total.scatter_forward()
    weights = shares / total.array[dofs]
    values = weights[:, :, None] * inverse * weights[:, None, :]
    size = imap.size_local + imap.num_ghosts
    rows, columns = (
        np.broadcast_to(dofs[:, :, None], values.shape),
        np.broadcast_to(dofs[:, None, :], values.shape),
    )
    summed = coo_array(
        (values.ravel(), (rows.ravel(), columns.ravel())), shape=(size, size)
    ).tocsr()
    if numbers is None:
        numbers = (
            imap.local_to_global(np.arange(size, dtype=np.int32))[:, None] * block
            + np.arange(block)
        ).ravel()
    result = pattern.duplicate(copy=False)
    for component in range(block):
        mine = numbers[component::block].astype(PETSc.IntType)
        csr = summed.indptr.astype(PETSc.IntType), mine[summed.indices], summed.data
        result.setValuesIJV(*csr, addv=PETSc.InsertMode.ADD_VALUES, rowmap=mine)
    result.assemble()
    return result


def cell_inverses(space: fem.FunctionSpace, element: _ElementBase) -> np.ndarray:
    """The inverse mass matrix of one component on each cell that this rank owns."""
    mesh = space.mesh
    dimension, count = mesh.topology.dim, mesh.topology.index_map(mesh.topology.dim).size_local
    corners = mesh.geometry.x[_compat.cell_geometry(mesh)[0][:count]][:, :, :dimension]
    volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1]))
    reference = (element.sub_elements[0] if space.dofmap.bs > 1 else element).basix_element
    points, weights = basix.make_quadrature(reference.cell_type, 2 * reference.embedded_superdegree)
    basis = reference.tabulate(0, points)[0, :, :, 0]
    return np.linalg.inv(basis.T @ (weights[:, None] * basis)) / volumes[:, None, None]
