"""Linear solves that tell the truth: the true residual is recomputed, and a solve that misses its tolerance is an error.

The default is a direct solve by MUMPS, whose symbolic analysis is kept as long as the matrix object is: overwriting its values
and solving again refactorises in place. The user's PETSc options are merged over the defaults.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from petsc4py import PETSc

_PREFIXES = itertools.count()

DIRECT: dict[str, Any] = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}
# What a direct solve with two steps of refinement reaches on any problem that is not singular to working precision.
DIRECT_TOLERANCE = 1e-9


class SolveError(RuntimeError):
    """A linear or nonlinear solve that did not reach its tolerance.

    Attributes:
        history: residual norms, as far as they are known.
    """

    def __init__(self, message: str, history: Any = ()):
        super().__init__(message)
        self.history = [float(value) for value in history]


@dataclass
class SolveRecord:
    """What the solves of one run cost and how well they did."""

    solves: int = 0
    iterations: int = 0
    factorisations: int = 0
    newton_steps: int = 0
    worst_residual: float = 0.0
    reasons: list[str] = field(default_factory=list)


class LinearSolver:
    """A Krylov or direct solver bound to one matrix object whose values may be overwritten.

    Args:
        matrix: the matrix, with essential rows and columns eliminated.
        options: PETSc options without prefix, merged over the direct default; any `ksp_type` or `pc_type` replaces it.
    """

    def __init__(self, matrix: Any, options: Mapping[str, Any] | None = None, record: SolveRecord | None = None):
        self.matrix = matrix
        self.record = record if record is not None else SolveRecord()
        given = dict(options or {})
        self.direct = not ({"ksp_type", "pc_type"} & set(given))
        self.options = {**(DIRECT if self.direct else {}), **given}
        self.ksp = PETSc.KSP().create(matrix.comm)
        self.prefix = f"cffem_{next(_PREFIXES)}_"
        self.ksp.setOptionsPrefix(self.prefix)
        database = PETSc.Options()
        for key, value in self.options.items():
            database[self.prefix + key] = value
        if not self.direct:
            self.ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
            self.ksp.setTolerances(rtol=1e-10, atol=1e-50, max_it=1000)
        self.ksp.setFromOptions()
        for key in self.options:
            database.delValue(self.prefix + key)
        self.ksp.setErrorIfNotConverged(False)
        self.ksp.setOperators(matrix)
        self.tolerance = DIRECT_TOLERANCE if self.direct else 10 * self.ksp.getTolerances()[0]
        self._residual = matrix.createVecLeft()
        self._correction = matrix.createVecRight()

    def refresh(self) -> None:
        """Say that the values of the matrix have changed."""
        self.ksp.setOperators(self.matrix)
        self.record.factorisations += 1

    def solve(self, right: Any, solution: Any, what: str = "the linear system") -> float:
        """Solve and return the true relative residual.

        Raises:
            SolveError: the matrix is singular, or the tolerance was missed.
        """
        scale = right.norm()
        if not np.isfinite(scale):
            raise SolveError(f"{what} has a right-hand side that is not finite")
        solution.set(0.0)
        if scale == 0.0:
            return 0.0
        history = []
        relative = np.inf
        # One or two steps of iterative refinement make a direct solve as good as working precision allows.
        for _ in range(3 if self.direct else 1):
            self.matrix.mult(solution, self._residual)
            self._residual.aypx(-1.0, right)
            self._ksp_solve(self._residual, self._correction, what)
            solution.axpy(1.0, self._correction)
            self.matrix.mult(solution, self._residual)
            self._residual.aypx(-1.0, right)
            relative = self._residual.norm() / scale
            history.append(relative)
            if not np.isfinite(relative) or relative <= 1e-13 or (len(history) > 1 and relative > 0.5 * history[-2]):
                break
        if not relative <= self.tolerance:
            raise SolveError(
                f"{what} was solved to a relative residual of {relative:.1e} only, not {self.tolerance:.0e}", history
            )
        self.record.worst_residual = max(self.record.worst_residual, relative)
        return relative

    def _ksp_solve(self, right: Any, solution: Any, what: str) -> None:
        try:
            self.ksp.solve(right, solution)
        except PETSc.Error as error:
            raise SolveError(f"{what} could not be solved: PETSc error {error.ierr}") from None
        self.record.solves += 1
        self.record.iterations += self.ksp.getIterationNumber()
        reason = self.ksp.getConvergedReason()
        if reason < 0:
            names = {v: k for k, v in vars(PETSc.KSP.ConvergedReason).items() if isinstance(v, int)}
            name = names.get(reason, str(reason)).lower()
            singular = " (the matrix is singular)" if "pc" in name or "pcsetup" in name else ""
            raise SolveError(f"{what} could not be solved: {name}{singular}", self.ksp.getConvergenceHistory())

    def solve_transpose(self, right: Any, solution: Any, what: str = "the adjoint system") -> float:
        """Solve with the transposed matrix and return the true relative residual."""
        scale = right.norm()
        solution.set(0.0)
        if scale == 0.0:
            return 0.0
        self.ksp.solveTranspose(right, solution)
        self.record.solves += 1
        self.record.iterations += self.ksp.getIterationNumber()
        self.matrix.multTranspose(solution, self._residual)
        self._residual.aypx(-1.0, right)
        relative = self._residual.norm() / scale
        if self.ksp.getConvergedReason() < 0 or not relative <= self.tolerance:
            raise SolveError(f"{what} was solved to a relative residual of {relative:.1e} only, not {self.tolerance:.0e}")
        return relative

    def destroy(self) -> None:
        """Free the solver; collective."""
        for thing in (self.ksp, self._residual, self._correction):
            thing.destroy()
