# SPDX-License-Identifier: MIT
"""Whole trajectories as columns: products and solves for all time levels at once, and exact L2
norms of broken polynomials.

Functions on a mesh are mapped to coefficients with respect to discontinuous Legendre polynomials
that are orthonormal on each cell. For polynomials up to the degree of that basis this is an
isometry: the L2 norm of a sum of curls, gradients and states is the Euclidean norm of the sum of
their coefficients, without cancellation of large inner products.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import basix
import basix.ufl
import numpy as np
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, cell_name, form
from cffem.bounds.enclosed.pieces import Simplices
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.geometry.mesh_constants import Domain, volumes
from cffem.engine.solve.factorisation import Factors

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from mpi4py import MPI
    from ufl.core.expr import Expr


# How many projected values of data are kept on a rank.
KEPT_NUMBERS = 20_000_000


def product(matrix: PETSc.Mat, columns: np.ndarray) -> np.ndarray:
    """A matrix times columns of owned values; collective."""
    (rows, _), sizes = matrix.getSizes()
    result = np.zeros((rows, columns.shape[1]), order="F")
    right, left = (
        _dense(sizes, columns, matrix.comm),
        _dense(matrix.getSizes()[0], result, matrix.comm),
    )
    matrix.matMult(right, result=left)
    right.destroy()
    left.destroy()
    return result


def _dense(sizes: tuple[int, int], columns: np.ndarray, comm: MPI.Comm) -> PETSc.Mat:
    """A dense matrix that shares its numbers with Fortran-ordered columns."""
    matrix = PETSc.Mat().createDense(
        (sizes, (None, columns.shape[1])), array=np.asfortranarray(columns), comm=comm
    )
    matrix.assemble()
    return matrix


class Factor:
    """A factorisation by MUMPS that solves for many right-hand sides at once.

    Args:
        matrix: a symmetric matrix, positive definite unless said otherwise; it is freed with the
            factor.
        dim: of the mesh.
        definite: whether it is.
    """

    def __init__(self, matrix: PETSc.Mat, dim: int, definite: bool = True):
        self.matrix = matrix
        if definite:
            matrix.setOption(PETSc.Mat.Option.SPD, True)
        # Approximate minimum fill: in the plane nested dissection takes most of the time and saves
        # nothing.
        ordering = {"mat_mumps_icntl_7": 2} if dim == 2 else {}
        self._factors = Factors(
            matrix, "cholesky", ordering, "an auxiliary problem of an error bound"
        )

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """Solutions for columns of owned values; what is wrong with them is for the bound to
        see; collective.
        """
        return self._factors.solve_many(columns)

    def destroy(self) -> None:
        """Free matrix and factors; collective."""
        self._factors.destroy()
        self.matrix.destroy()


class Broken:
    """Discontinuous polynomials with an orthonormal basis on each cell.

    Args:
        domain: the mesh.
        degree: the degree.
        components: how many components.
    """

    def __init__(self, domain: Domain | Simplices, degree: int, components: int):
        # Of plain simplices only the mesh, the dimension and the corners are known.
        self.domain: Mesh = domain
        self.degree, self.components, self.comm = degree, components, domain.mesh.comm
        self.cell = cell_name(domain.mesh.ufl_domain())
        shape = (components,) if components > 1 else None
        variant = basix.LagrangeVariant.legendre
        self.element = basix.ufl.element(
            "DG", self.cell, degree, lagrange_variant=variant, shape=shape
        )
        self.space = fem.functionspace(domain.mesh, self.element)
        self.scale = 1 / np.sqrt(volumes(domain.corners) * math.factorial(domain.dim))

    @property
    def owned(self) -> int:
        """How many coefficients this rank owns."""
        return self.space.dofmap.index_map.size_local * self.components

    @cached_property
    def sources(self) -> Sources:
        """Data on the cells, projected to these polynomials."""
        return Sources(self.comm, self.domain.corners, self.degree)

    def positions(self) -> np.ndarray:
        """Positions of the coefficients of each own cell, shape (cells, basis, components)."""
        places = self.space.dofmap.list[: len(self.domain.corners)]
        return places[:, :, None] * self.components + np.arange(self.components)

    def places(self, lower: Broken) -> np.ndarray:
        """Where the coefficients of polynomials of a lower degree are: the basis is
        hierarchical.
        """
        theirs, ours = lower.positions(), self.positions()
        result = np.empty(lower.owned, dtype=np.int64)
        result[theirs] = ours[:, : theirs.shape[1]]
        return result

    def spread(self, values: np.ndarray) -> np.ndarray:
        """One number for each own cell, repeated for its coefficients."""
        result = np.zeros(self.owned)
        result[self.positions()] = values[:, None, None]
        return result

    def moments(
        self,
        space: fem.FunctionSpace,
        expression: Callable[[Mesh], Expr],
        weights: np.ndarray | None = None,
    ) -> np.ndarray:
        """The matrix from values in a space to the coefficients of an expression in them,
        weighted cell by cell.
        """
        trial, test = ufl.TrialFunction(space), ufl.TestFunction(self.space)
        matrix = assemble_matrix(form(ufl.inner(expression(trial), test) * ufl.dx, self.comm))
        scale = matrix.createVecLeft()
        scale.array[:] = self.spread(self.scale if weights is None else self.scale * weights)
        matrix.diagonalScale(L=scale)
        scale.destroy()
        return matrix
