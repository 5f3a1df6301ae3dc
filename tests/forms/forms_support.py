"""Meshes, functions and dense linear algebra for the tests of the forms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import scipy.sparse as sparse
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from scipy.sparse.linalg import spsolve

from cffem._compat import form
from cffem.forms.lowering import Context, lower

CELLS = ("interval", "triangle", "quadrilateral", "tetrahedron", "hexahedron")


def parallelepiped(cell: str, *counts: int, shear: float = 0.3) -> mesh.Mesh:
    """A sheared unit cube of affine cells with the given numbers of cells along its axes."""
    kind = getattr(mesh.CellType, cell)
    make = {1: mesh.create_unit_interval, 2: mesh.create_unit_square, 3: mesh.create_unit_cube}[
        len(counts)
    ]
    domain = (
        make(MPI.COMM_SELF, *counts) if len(counts) == 1 else make(MPI.COMM_SELF, *counts, kind)
    )
    dim = domain.geometry.dim
    domain.geometry.x[:, :dim] = domain.geometry.x[:, :dim] @ (
        np.eye(dim) + shear * np.tri(dim, k=-1)
    )
    return domain


def random_function(domain: mesh.Mesh, element: Any, seed: int = 0) -> fem.Function:
    """A function with independent normal coefficients."""
    function = fem.Function(fem.functionspace(domain, element))
    function.x.array[:] = np.random.default_rng(seed).standard_normal(function.x.array.size)
    return function


def smooth_context(domain: mesh.Mesh, values: Mapping[sp.Expr, sp.Expr]) -> Context:
    """A context in which fields are given formulas in the coordinates."""
    plain = Context(domain.ufl_domain())
    return Context(
        domain.ufl_domain(), {symbol: lower(value, plain) for symbol, value in values.items()}
    )


def matrix(bilinear: ufl.Form) -> sparse.csr_matrix:
    """A form as a SciPy matrix."""
    compiled = form(bilinear, MPI.COMM_SELF)
    assembled = fem.assemble_matrix(compiled)
    assembled.scatter_reverse()
    return sparse.csr_matrix(assembled.to_scipy())


def vector(linear: ufl.Form) -> np.ndarray:
    """A form as a NumPy vector."""
    return fem.assemble_vector(form(linear, MPI.COMM_SELF)).array.copy()


def scalar(functional: ufl.Form) -> float:
    """A functional as a number."""
    return fem.assemble_scalar(form(functional, MPI.COMM_SELF))


def boundary_dofs(space: fem.FunctionSpace) -> np.ndarray:
    """All degrees of freedom on the boundary, unrolled."""
    domain = space.mesh
    facet_dim = domain.topology.dim - 1
    domain.topology.create_connectivity(facet_dim, facet_dim + 1)
    facets = mesh.exterior_facet_indices(domain.topology)
    blocks = fem.locate_dofs_topological(space, facet_dim, facets)
    size = space.dofmap.index_map_bs
    return (size * blocks[:, None] + np.arange(size)).ravel()


def constrained_solve(
    A: sparse.csr_matrix, b: np.ndarray, fixed: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Solve A x = b where the entries `fixed` of x are given."""
    solution = np.zeros(len(b))
    solution[fixed] = values
    free = np.setdiff1d(np.arange(len(b)), fixed)
    solution[free] = spsolve(A[free][:, free].tocsc(), (b - A @ solution)[free])
    return solution


def observed_orders(error: Callable[[int], float], counts: Sequence[int]) -> list[float]:
    """The orders between successive meshes with the given numbers of cells along an axis."""
    errors = [error(n) for n in counts]
    sizes = zip(pairwise(errors), pairwise(counts))
    return [float(np.log(e0 / e1) / np.log(n1 / n0)) for (e0, e1), (n0, n1) in sizes]
