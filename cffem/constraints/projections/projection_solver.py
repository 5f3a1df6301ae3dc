# SPDX-License-Identifier: MIT
"""The linear solver of a projection: built once, used for every field, content with consistent
singular systems.

A projection asks for a correction, not for a multiplier: where the multiplier is not unique any one
will do, so this solver does not refuse a singular matrix as the engine's does. What counts, the
constraint residual of the corrected field, is computed and corrected again by the projection
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from petsc4py import PETSc

from cffem.engine.solve.factorisation import sound
from cffem.engine.solve.petsc_options import new_ksp, reading
from cffem.engine.solve.scope import Scope
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import OptionValue, PetscOptions


DIRECT: dict[str, Any] = {
    "ksp_type": "preonly",
    # All matrices here are symmetric, though some are indefinite: L D Lᵀ needs half the memory of
    # LU.
    "pc_type": "cholesky",
    "pc_factor_mat_solver_type": "mumps",
    # An ordering that keeps rows of zero diagonals apart takes longer to find and saves nothing on
    # these matrices.
    "mat_mumps_icntl_12": 1,
    # A multiplier may be determined only up to a kernel that no field sees; MUMPS fixes it where it
    # finds a null pivot.
    "mat_mumps_icntl_24": 1,
}
# A mass matrix is as well conditioned as its cells are; diagonal scaling is all it needs.
MASS: dict[str, Any] = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-13}
# Digits of a solution that mends the last digits of another one.
LOOSE = 1e-6
# What interpolation on the reference cell leaves instead of zeros.
ROUND_OFF = 1e-13


def boomeramg(dimension: int, prefix: str = "") -> dict[str, OptionValue]:
    """Options of algebraic multigrid for a Laplacian: in space PETSc's defaults coarsen too
    slowly, at up to twice the cost.
    """
    chosen: dict[str, OptionValue] = {"strong_threshold": 0.25}
    if dimension == 3:
        chosen |= {"coarsen_type": "HMIS", "interp_type": "ext+i", "P_max": 4}
    options = {f"{prefix}pc_hypre_boomeramg_{key}": value for key, value in chosen.items()}
    return {f"{prefix}pc_type": "hypre", f"{prefix}pc_hypre_type": "boomeramg", **options}


def multigrid(dimension: int) -> dict[str, OptionValue]:
    """Options for a Poisson problem that is solved twice, the second time loosely for what
    the first one left.
    """
    return {"ksp_type": "cg", "ksp_rtol": 1e-9, **boomeramg(dimension)}


class Solver(Scope):
    """A KSP bound to one matrix.

    Args:
        matrix: the matrix; it is destroyed with the solver.
        options: PETSc options without prefix; an empty mapping is the direct solve.
        blocks: named index sets for a block preconditioner.

    Attributes:
        iterations: of all solves so far.
    """

    def __init__(
        self, matrix: PETSc.Mat, options: PetscOptions, blocks: Mapping[str, PETSc.IS] | None = None
    ):
        self.matrix = self.own(matrix)
        matrix.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        self.options = dict(options) or DIRECT
        self.iterations = 0
        self._blocks = blocks
        self.ksp = self.own(sound(self._create, matrix, "a projection onto the constraint"))

    def _create(self, percentage: int) -> PETSc.KSP:
        """The solver, set up, with this percentage of additional workspace for factors."""
        ksp = new_ksp(self.matrix)
        if self.options.get("ksp_type") != "preonly":
            ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        factorised = self.options.get("pc_type") in ("lu", "cholesky")
        workspace = {"mat_mumps_icntl_14": percentage} if factorised else {}
        with reading(ksp, {**self.options, **workspace}, "projection"):
            if self._blocks is not None:
                ksp.getPC().setFieldSplitIS(*self._blocks.items())
            ksp.setUp()
            ksp.setUpOnBlocks()
        return ksp

    def solve(
        self, right: PETSc.Vec, solution: PETSc.Vec, what: str, loosely: bool = False
    ) -> None:
        """Solve; a right-hand side of zero has the solution zero.

        Args:
            right: the right-hand side.
            solution: where the solution goes.
            what: words for the error.
            loosely: whether a few digits of the solution are enough, because it mends the last
                digits of another one.

        Raises:
            SolveError: the solver did not converge.
        """
        solution.set(0.0)
        if right.norm() == 0.0:
            return
        kept = self.ksp.getTolerances()
        if loosely:
            self.ksp.setTolerances(rtol=max(LOOSE, kept[0]))
        self.ksp.solve(right, solution)
        self.ksp.setTolerances(*kept)
        self.iterations += self.ksp.getIterationNumber()
        if self.ksp.getConvergedReason() < 0:
            raise SolveError(
                f"{what} was not solved: PETSc's reason is {self.ksp.getConvergedReason()}"
            )


def without_zeros(matrix: PETSc.Mat, level: float = 0.0) -> PETSc.Mat:
    """The matrix without stored zeros, in its place: components of a field share a pattern in which
    they are not coupled.

    Args:
        matrix: a matrix, which is destroyed.
        level: what counts as zero, relative to the largest entry of the row; above zero for
            matrices whose entries are numbers of the reference cell only, such as that of a
            derivative, where interpolation leaves round-off.
    """
    starts, columns, values = matrix.getValuesCSR()
    sizes = np.abs(values)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    largest = np.zeros(len(starts) - 1)
    np.maximum.at(largest, rows, sizes)
    kept = sizes > level * largest[rows]
    counted = np.concatenate([[0], np.cumsum(kept)])
    csr = counted[starts].astype(PETSc.IntType), columns[kept], values[kept]
    result = PETSc.Mat().createAIJ(matrix.getSizes(), csr=csr, comm=matrix.comm)
    result.assemble()
    matrix.destroy()
    return result


# Up to this many unknowns a factorisation, made once, beats the iterations of every later solve.
FACTORISED = 40_000


class BlockSolver(Scope):
    """Solves with the block of a mass-like matrix that belongs to some of the unknowns; the others
    are left out altogether.

    Args:
        matrix: a matrix on the state space.
        free: a mask over the owned unknowns.
        rows: global numbers of the free unknowns.
    """

    def __init__(self, matrix: PETSc.Mat, free: np.ndarray, rows: np.ndarray):
        self.where = np.flatnonzero(free)
        chosen = PETSc.IS().createGeneral(rows, comm=matrix.comm)
        block = matrix.createSubMatrix(chosen, chosen)
        chosen.destroy()
        self._solution, self._right = self.own_all(block.createVecs())
        options = DIRECT if block.size[0] <= FACTORISED else MASS
        self._solver = self.own(Solver(block, options))

    def solve(self, right: np.ndarray, what: str) -> np.ndarray:
        """The solution for a right-hand side given as a state, zero outside the block."""
        self._right.array[:] = right[self.where]
        self._solver.solve(self._right, self._solution, what)
        result = np.zeros_like(right)
        result[self.where] = self._solution.array_r
        return result
