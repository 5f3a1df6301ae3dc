# SPDX-License-Identifier: MIT
"""Linear solves that tell the truth: the true residual is recomputed, and a solve that misses its
tolerance is an error.

The default is a direct solve by MUMPS, whose symbolic analysis is kept as long as the matrix object
is: overwriting its values and solving again refactorises in place. A factorisation says whether the
matrix is singular to working precision; a singular one never yields a solution, and nothing of a
solver that failed is used again. Systems of several fields are solved and judged in the scale that
`cffem.engine.solve.scaling` brings them to. Other solvers come from `presets`, and the user's PETSc
options are merged over them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc

from cffem.engine.solve.factorisation import WORKSPACE, failure, sound
from cffem.engine.solve.petsc_options import new_ksp, reading, warn_of_unread
from cffem.engine.solve.presets import SolverPlan, factorised, plan, symmetric
from cffem.engine.solve.scaling import MatrixEquilibration, row_sizes
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.solve_errors import SolveError, as_raised, petsc_words

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import PetscOptions


@dataclass(frozen=True)
class LinearSettings:
    """When a linear solve is believed.

    Attributes:
        direct: relative residual that a direct solve with two steps of refinement reaches on any
            problem that is not singular to working precision.
        rounded: a residual so small in every row, relative to what its sums are made of, is what
            their rounding leaves: refinement gains nothing.
        together: relative residual of right-hand sides that are solved for together; others are
            refined one by one.
        singular: condition number, after row scaling, beyond which fewer than three digits of a
            solution are left.
        share: a right-hand side without structure has about 1/√n of its size along a null vector of
            the transposed matrix, which stays in the residual; this share of that is to go away.
        tries: iterations that a Krylov solver has for it, at least; then a factorisation decides.
    """

    direct: float = 1e-9
    rounded: float = 1e-15
    together: float = 1e-12
    singular: float = 1e13
    share: float = 0.03
    tries: int = 300


LINEAR = LinearSettings()


class LinearSolver:
    """A Krylov or direct solver bound to one matrix object whose values may be overwritten.

    Args:
        matrix: the matrix, with essential rows and columns eliminated.
        options: a plan from `presets`, or PETSc options without prefix; nothing means the direct
            solve.
        record: where the costs are counted.

    Example:
        >>> from petsc4py import PETSc
        >>> matrix = (
        ...     PETSc.Mat()
        ...     .createDense((2, 2), array=[[2.0, 0.0], [0.0, 0.0]], comm=PETSc.COMM_SELF)
        ...     .convert("aij")
        ... )
        >>> LinearSolver(matrix).solve(matrix.createVecLeft() + 1.0, matrix.createVecRight())
        Traceback (most recent call last):
        ...
        cffem.engine.solve_errors.SolveError: the linear system has no unique solution: its matrix
            is singular (...)
    """

    def __init__(
        self,
        matrix: PETSc.Mat,
        options: SolverPlan | PetscOptions | None = None,
        record: SolveRecord | None = None,
    ):
        self.matrix = matrix
        self.record = record if record is not None else SolveRecord()
        self.plan = options if isinstance(options, SolverPlan) else plan(options)
        self.ksp: PETSc.KSP = None
        self.direct = False
        self.symmetric = self.elliptic = True
        self._current = False
        self._helper: Any = None
        self._transposed: LinearSolver | None = None
        self._residual, self._correction = matrix.createVecLeft(), matrix.createVecRight()
        self._rows: np.ndarray | None = (
            None  # the sums of absolute values in each row, for direct solves
        )
        self.scaling: MatrixEquilibration | None = None
        self._scaled: PETSc.Mat = None  # the matrix in that scale

    @property
    def operator(self) -> PETSc.Mat:
        """What is factorised: the matrix itself, or the one in which all fields are of one
        scale.
        """
        return self.matrix if self._scaled is None else self._scaled

    # Setting up
    # ----------------------------------------------------------------------------------------------

    def refresh(self, what: str = "the linear system") -> None:
        """Take over changed values of the matrix.

        Raises:
            SolveError: the matrix is singular to working precision, or holds numbers that are not
                finite; nothing is left of a solver that failed.
        """
        self.record.factorisations += 1
        self._current = False
        self._drop_transposed()
        # The Frobenius norm is a sum, in which a NaN stays a NaN.
        if not np.isfinite(self.matrix.norm(PETSc.NormType.FROBENIUS)):
            raise SolveError(
                f"{what} has a matrix with entries that are not finite", cause="not finite"
            )
        try:
            self._set_up(what)
        except SolveError as error:
            if not self.plan.automatic:
                raise
            self._give_way(str(error))
            self._set_up(what)
        self.record.solver = self.plan.name
        self._current = True

    def _set_up(self, what: str) -> None:
        try:
            with as_raised():
                self._scale()
                self._make(what)
                if self.direct:
                    self._check_factors(what)
        except PETSc.Error as error:
            self._forget()
            solver = (
                "the solver of the given options"
                if self.plan.name == "own"
                else f"the solver {self.plan.name!r}"
            )
            raise SolveError(
                f"{what} could not be prepared by {solver} ({petsc_words(error)})"
            ) from None
        except Exception:
            self._forget()
            raise

    def _scale(self) -> None:
        """Bring the fields of a coupled system to one scale."""
        blocks = self.plan.blocks
        if blocks is not None:
            self.scaling = MatrixEquilibration(blocks, self.matrix, np.asarray(self.plan.held))
            self._scaled = self.scaling.scaled(self.matrix, self._scaled)

    def _make(self, what: str) -> None:
        """Make the solver, or bring the one that is there up to date."""
        # One Krylov solver serves all steps of Newton's method, so that one must take any matrix.
        steady = self.plan.equation is None or self.plan.equation.affine
        is_symmetric = self.plan.name == "direct" or (
            steady and symmetric(self.matrix, self.plan.held)
        )
        kind = is_symmetric, self.plan.elliptic
        if self.ksp is not None and kind != (self.symmetric, self.elliptic):
            self._forget_solver()
        self.symmetric, self.elliptic = kind
        if self.ksp is not None:
            self.ksp.setOperators(self.operator)
            self._prepare()
            self.ksp.setUp()
            if failure(self.ksp.getPC()) is None:
                return
            self._forget_solver()
        self.ksp = sound(self._create, self.operator, what)
        self.direct = self.ksp.getType() == "preonly" and self.ksp.getPC().getType() in (
            "lu",
            "cholesky",
        )
        self.tolerance = LINEAR.direct if self.direct else 10 * self.ksp.getTolerances()[0]

    def _create(self, percentage: int) -> PETSc.KSP:
        """A new solver, set up, with this percentage of additional workspace for factors."""
        ksp = self.ksp = new_ksp(self.operator)
        ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        ksp.setErrorIfNotConverged(False)
        options = self.plan.all_options(self.symmetric)
        if "mat_mumps_icntl_14" in options and percentage > WORKSPACE.percentages[0]:
            more = int(options["mat_mumps_icntl_14"] or 0)
            options = {**WORKSPACE.options(percentage), **options}
            options["mat_mumps_icntl_14"] = max(percentage, more)
        if options.get("ksp_type") in ("preonly", "minres", "symmlq"):
            ksp.setNormType(PETSc.KSP.NormType.DEFAULT)
        with reading(ksp, options) as prefix:
            self._prepare()
            ksp.setUp()
            ksp.setUpOnBlocks()
            warn_of_unread(self.plan.options, prefix, ksp)
        return ksp

    def _prepare(self) -> None:
        """Give the preset's preconditioner what it needs besides the matrix."""
        from cffem.engine.solve.preconditioners import AuxiliarySpaces, SaddlePoint

        rows = np.asarray(self.plan.held, dtype=np.int64)
        if self.plan.name == "ams":
            assert self.plan.equation is not None
            self._helper = self._helper or AuxiliarySpaces(self.plan.equation)
            self._helper.attach(self.ksp, self.matrix, rows)
            if self._helper.without_mass and self.plan.automatic:
                raise SolveError(
                    "the curl-curl matrix has no mass, so its solution is determined up to "
                    "gradients only"
                )
        elif self.plan.name == "stokes":
            first = self._helper is None
            self._helper = self._helper or SaddlePoint(self.plan)
            self._helper.null_space(self.operator)
            self._helper.measure(self.operator, rows, self.scaling)
            if first:
                self._helper.attach(self.ksp, self.operator)

    def _check_factors(self, what: str) -> None:
        """Refuse a matrix that is singular to working precision: by vanishing pivots, and by
        a measured condition.
        """
        singular = f"{what} has no unique solution: its matrix is singular"
        mumps = self.ksp.getPC().getFactorSolverType() == "mumps"
        vanishing = self.ksp.getPC().getFactorMatrix().getMumpsInfog(28) if mumps else 0
        if vanishing > 0:
            raise SolveError(
                f"{singular} ({vanishing} of {self.matrix.size[0]} pivots vanish)", cause="singular"
            )
        condition = self._condition()
        if not condition < LINEAR.singular:
            raise SolveError(
                f"{singular} to working precision (condition number {condition:.0e})",
                cause="singular",
            )

    @property
    def up_to_gradients(self) -> bool:
        """Whether the preset AMS was asked for where a curl-curl matrix has no mass."""
        return self.plan.name == "ams" and bool(getattr(self._helper, "without_mass", False))

    def check_regular(self, what: str = "the linear system") -> None:
        """Refuse a singular matrix, with which a Krylov solver finds one of many solutions where
        the right-hand side happens to be compatible.

        A right-hand side without structure is not. Where the solver does not converge soon for it,
        a factorisation decides; after one nothing is left to do.

        Raises:
            SolveError: the matrix is singular to working precision.
        """
        if self.direct:
            return
        relative = self._unstructured_residual()
        if relative <= LINEAR.share / np.sqrt(self.matrix.size[0]):
            return
        if self.plan.automatic:
            self._give_way(f"{what} may be singular")
            self._set_up(what)
            return
        matrix, held = self.matrix, self.plan.held
        if self.plan.floating is not None:
            matrix, copied = self.matrix.copy(), copy.copy(self.plan)
            copied.give_way(matrix)
            held = copied.held
        equation = self.plan.equation
        solver = LinearSolver(matrix, None if equation is None else factorised(equation, held))
        try:
            solver.refresh(what)
        finally:
            solver.destroy()
            if matrix is not self.matrix:
                matrix.destroy()

    def _unstructured_residual(self) -> float:
        """The relative residual that the solver leaves of a right-hand side without structure."""
        right = self._residual.duplicate()
        rows = 1.0 if self.scaling is None else self.scaling.rows
        right.array[:] = row_sizes(self.operator)[0] * self._signs() / rows
        self.plan.balance(right)
        right.array[:] *= rows
        tolerances = self.ksp.getTolerances()
        goal = 0.5 * LINEAR.share / np.sqrt(self.matrix.size[0])
        most = max(LINEAR.tries, 3 * self.ksp.getIterationNumber())
        self.ksp.setTolerances(rtol=goal, atol=0.0, max_it=most)
        try:
            with as_raised():
                self.ksp.solve(right, self._correction)
            self.record.iterations += self.ksp.getIterationNumber()
            self.operator.mult(self._correction, self._residual)
            self._residual.axpy(-1.0, right)
            size = float(right.norm())
            relative = float(self._residual.norm()) / size if size else np.inf
        except PETSc.Error:
            relative = np.inf
        finally:
            self.ksp.setTolerances(*tolerances)
            right.destroy()
        return relative if np.isfinite(relative) else np.inf

    def without_structure(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The largest entry of each row, signs without structure, whose product meets every null
        vector, and sizes of unknowns.

        Rows and unknowns of several fields are compared in the scale that these share.
        """
        largest = row_sizes(self.operator)[0]
        if self.scaling is None:
            return largest, self._signs(), np.ones(len(largest))
        return largest / self.scaling.rows, self._signs(), self.scaling.columns

    def _signs(self) -> np.ndarray:
        return np.cos(1.7 * np.arange(*self.matrix.getOwnershipRange()) ** 1.5)

    def _condition(self) -> float:
        """A lower bound of the condition number of the row-scaled matrix: one solve with a
        right-hand side without structure.
        """
        (scale, self._rows), signs = row_sizes(self.operator), self._signs()
        self._residual.array[:] = scale * signs
        self.ksp.solve(self._residual, self._correction)
        self._residual.array[:] = signs / scale
        columns = self.matrix.createVecRight()
        self.operator.multTranspose(self._residual, columns)
        most = float(np.abs(columns.array_r * self._correction.array_r).max(initial=0.0))
        columns.destroy()
        return self.matrix.comm.tompi4py().allreduce(
            most if np.isfinite(most) else np.inf, op=MPI.MAX
        )

    def _give_way(self, why: str) -> None:
        self.record.reasons.append(
            f"solver preset {self.plan.name!r} gave way to the direct solve: {why}"
        )
        self._forget()
        self.plan.give_way(self.matrix)
        self.record.solver = self.plan.name

    def _forget_solver(self) -> None:
        for thing in (self.ksp, self._helper):
            if thing is not None:
                thing.destroy()
        self.ksp, self._helper = None, None

    def _forget(self) -> None:
        """Free all that was made of the matrix."""
        self._forget_solver()
        if self._scaled is not None:
            self._scaled.destroy()
        self._scaled, self.scaling, self._current = None, None, False

    def _drop_transposed(self) -> None:
        if self._transposed is not None:
            self._transposed.matrix.destroy()
            self._transposed.destroy()
            self._transposed = None

    # Solving
    # ----------------------------------------------------------------------------------------------

    def solve(
        self,
        right: PETSc.Vec,
        solution: PETSc.Vec,
        what: str = "the linear system",
        enough: float = 0.0,
    ) -> float:
        """Solve and return the true relative residual.

        Args:
            right: the right-hand side.
            solution: where the solution goes.
            what: words for the error.
            enough: a relative residual that is not refined further; zero for what working precision
                allows.

        Raises:
            SolveError: the matrix is singular, or the tolerance was missed.
        """
        if not self._current:
            self.refresh(what)
        try:
            return self._refined(right, solution, what, enough=enough)
        except SolveError as error:
            if not self.plan.automatic:
                raise
            self._give_way(str(error))
            self._set_up(what)
            self._current = True
            return self._refined(right, solution, what, enough=enough)

    def solve_transpose(
        self, right: PETSc.Vec, solution: PETSc.Vec, what: str = "the adjoint system"
    ) -> float:
        """Solve with the transposed matrix and return the true relative residual.

        A direct solve uses its factors; a symmetric matrix needs no transpose; for any other one
        the transposed matrix is made.
        """
        if not self._current:
            self.refresh(what)
        if self.direct:
            return self._refined(right, solution, what, transposed=True)
        if self.symmetric:
            return self.solve(right, solution, what)
        if self._transposed is None:
            self._transposed = LinearSolver(
                self.matrix.transpose(PETSc.Mat()), self.plan, self.record
            )
        return self._transposed.solve(right, solution, what)

    @property
    def orientation(self) -> int:
        """The sign of the determinant of the matrix, zero where it is not known."""
        if not (
            self.direct and self._current and self.ksp.getPC().getFactorSolverType() == "mumps"
        ):
            return 0
        return int(np.sign(self.ksp.getPC().getFactorMatrix().getMumpsRinfog(12)))

    def apply(self, columns: np.ndarray) -> np.ndarray:
        """What the factors of a direct solve make of columns of owned values, without
        refinement; collective.
        """
        if not self._current:
            self.refresh()
        comm, sizes = self.matrix.comm, self.matrix.getSizes()[0]
        right, result = (
            PETSc.Mat().createDense((sizes, (None, columns.shape[1])), comm=comm) for _ in range(2)
        )
        right.getDenseArray()[:] = (
            columns if self.scaling is None else self.scaling.rows[:, None] * columns
        )
        for matrix in (right, result):
            matrix.assemble()
        try:
            self.ksp.getPC().getFactorMatrix().matSolve(right, result)
        except PETSc.Error as error:
            raise SolveError(
                f"several right-hand sides could not be solved for: {petsc_words(error)}"
            ) from None
        # A copy: the array belongs to the matrix.
        found = result.getDenseArray().copy()
        right.destroy()
        result.destroy()
        return found if self.scaling is None else self.scaling.columns[:, None] * found

    def solve_several(self, columns: np.ndarray, what: str = "the linear system") -> np.ndarray:
        """Solve for several right-hand sides, columns of owned values: together where there are
        factors, and once more by itself where that leaves a residual; collective.

        Raises:
            SolveError: as of `solve`.
        """
        if not self._current:
            self.refresh(what)
        together = self.direct and columns.shape[1] > 1 and self.plan.floating is None
        found = self.apply(columns) if together else np.zeros_like(columns)
        right, solution = self.matrix.createVecs()
        try:
            for k in range(columns.shape[1]):
                right.array[:] = columns[:, k]
                solution.array[:] = found[:, k]
                self.matrix.mult(solution, self._residual)
                self._residual.aypx(-1.0, right)
                if together and (
                    right.norm() == 0.0 or self._relative(right, False) <= LINEAR.together
                ):
                    self.record.solves += 1
                    continue
                self.solve(right, solution, what)
                found[:, k] = solution.array_r
        finally:
            right.destroy()
            solution.destroy()
        return found

    def _refined(
        self,
        right: PETSc.Vec,
        solution: PETSc.Vec,
        what: str,
        transposed: bool = False,
        enough: float = 0.0,
    ) -> float:
        tolerance = max(self.tolerance, enough)
        self.plan.balance(right)
        scale = right.norm()
        if not np.isfinite(scale):
            raise SolveError(f"{what} has a right-hand side that is not finite", cause="not finite")
        solution.set(0.0)
        if scale == 0.0:
            return 0.0
        history = []
        relative = np.inf
        multiply = self.matrix.multTranspose if transposed else self.matrix.mult
        # One or two steps of iterative refinement make a direct solve as good as working precision
        # allows.
        right.copy(self._residual)
        for _ in range(3 if self.direct else 1):
            self._correct(what, transposed)
            solution.axpy(1.0, self._correction)
            multiply(solution, self._residual)
            self._residual.aypx(-1.0, right)
            relative = self._relative(right, transposed)
            history.append(relative)
            if (
                not np.isfinite(relative)
                or relative <= max(enough, 1e-13)
                or (len(history) > 1 and relative > 0.5 * history[-2])
            ):
                break
            if not transposed and self._only_rounded(right, solution):
                break
        if not relative <= tolerance:
            raise SolveError(
                f"{what} was solved to a relative residual of {relative:.1e} only, not "
                f"{tolerance:.0e}",
                history,
            )
        self.plan.shift(solution)
        self.record.worst_residual = max(self.record.worst_residual, relative)
        return relative

    def _relative(self, right: PETSc.Vec, transposed: bool) -> float:
        """The size of the residual relative to the right-hand side, both in the scale that
        the fields share.
        """
        if self.scaling is None:
            return float(self._residual.norm() / right.norm())
        factors = self.scaling.columns if transposed else self.scaling.rows
        return self.scaling.relative(self._residual.array_r, right.array_r, factors)

    def _correct(self, what: str, transposed: bool) -> None:
        """Put what the solver makes of the residual into the correction."""
        before, after = (
            (None, None) if self.scaling is None else (self.scaling.rows, self.scaling.columns)
        )
        if transposed:
            before, after = after, before
        if before is not None:
            self._residual.array *= before
        self._ksp_solve(
            self._residual,
            self._correction,
            what,
            self.ksp.solveTranspose if transposed else self.ksp.solve,
        )
        if after is not None:
            self._correction.array *= after

    def _only_rounded(self, right: PETSc.Vec, solution: PETSc.Vec) -> bool:
        """Whether the residual of a direct solve is nowhere more than what rounding makes of exact
        sums.

        Fields of different size are told apart by refinement only.
        """
        if (
            self.plan.equation is None
            or self.scaling is not None
            or not self.direct
            or self._rows is None
        ):
            return False
        comm = self.matrix.comm.tompi4py()
        largest = comm.allreduce(float(np.abs(solution.array_r).max(initial=0.0)), op=MPI.MAX)
        here = bool(
            np.all(
                np.abs(self._residual.array_r)
                <= LINEAR.rounded * (self._rows * largest + np.abs(right.array_r))
            )
        )
        return bool(comm.allreduce(here, op=MPI.LAND))

    def _ksp_solve(
        self,
        right: PETSc.Vec,
        solution: PETSc.Vec,
        what: str,
        apply: Callable[[PETSc.Vec, PETSc.Vec], None],
    ) -> None:
        if not self.direct:
            self.ksp.setConvergenceHistory()
        try:
            with as_raised():
                apply(right, solution)
        except PETSc.Error as error:
            raise SolveError(f"{what} could not be solved: {petsc_words(error)}") from None
        self.record.solves += 1
        self.record.iterations += self.ksp.getIterationNumber()
        reason = self.ksp.getConvergedReason()
        if reason < 0:
            names = {v: k for k, v in vars(PETSc.KSP.ConvergedReason).items() if isinstance(v, int)}
            name = names.get(reason, str(reason)).lower()
            steps = self.ksp.getIterationNumber()
            raise SolveError(
                f"{what} could not be solved by {self.ksp.getType()} with "
                f"{self.ksp.getPC().getType()}: {name} after {steps} "
                "iterations",
                self.ksp.getConvergenceHistory(),
            )

    def destroy(self) -> None:
        """Free the solver; collective."""
        self._forget()
        self._drop_transposed()
        for thing in (self._residual, self._correction):
            thing.destroy()
