"""The linear solver of a projection: built once, used for every field, content with consistent singular systems.

A projection asks for a correction, not for a multiplier: where the multiplier is not unique any one will do, so this solver does
not refuse a singular matrix as the engine's does. What counts, the constraint residual of the corrected field, is computed and
corrected again by the projection itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from petsc4py import PETSc

from cffem.engine.linear import SolveError

_PREFIXES = itertools.count()

DIRECT: dict[str, Any] = {
    "ksp_type": "preonly",
    "pc_type": "lu",
    "pc_factor_mat_solver_type": "mumps",
    # A multiplier may be determined only up to a kernel that no field sees; MUMPS fixes it where it finds a null pivot.
    "mat_mumps_icntl_24": 1,
    "mat_mumps_icntl_14": 80,
}
# A mass matrix is as well conditioned as its cells are; diagonal scaling is all it needs.
MASS: dict[str, Any] = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-13}


class Solver:
    """A KSP bound to one matrix.

    Args:
        matrix: the matrix; it is destroyed with the solver.
        options: PETSc options without prefix; an empty mapping is the direct solve.
        blocks: named index sets for a block preconditioner.

    Attributes:
        iterations: of all solves so far.
    """

    def __init__(self, matrix: Any, options: Mapping[str, Any], blocks: Mapping[str, Any] | None = None):
        self.matrix = matrix
        self.options = dict(options) or DIRECT
        self.iterations = 0
        self.ksp = PETSc.KSP().create(matrix.comm)
        prefix = f"cffem_projection_{next(_PREFIXES)}_"
        self.ksp.setOptionsPrefix(prefix)
        self.ksp.setTolerances(rtol=1e-10, atol=1e-300, max_it=1000)
        self.ksp.setOperators(matrix)
        if self.options.get("ksp_type") != "preonly":
            self.ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        database = PETSc.Options()
        for key, value in self.options.items():
            database[prefix + key] = value
        try:
            self.ksp.setFromOptions()
            if blocks is not None:
                self.ksp.getPC().setFieldSplitIS(*blocks.items())
            self.ksp.setUp()
            self.ksp.setUpOnBlocks()
        finally:
            for key in self.options:
                database.delValue(prefix + key)

    def solve(self, right: Any, solution: Any, what: str) -> None:
        """Solve; a right-hand side of zero has the solution zero.

        Raises:
            SolveError: the solver did not converge.
        """
        solution.set(0.0)
        if right.norm() == 0.0:
            return
        self.ksp.solve(right, solution)
        self.iterations += self.ksp.getIterationNumber()
        if self.ksp.getConvergedReason() < 0:
            raise SolveError(f"{what} was not solved: PETSc's reason is {self.ksp.getConvergedReason()}")

    def destroy(self) -> None:
        """Free solver and matrix; collective."""
        self.ksp.destroy()
        self.matrix.destroy()
