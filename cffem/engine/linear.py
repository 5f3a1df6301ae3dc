# SPDX-License-Identifier: MIT
"""Linear solves that tell the truth: the true residual is recomputed, and a solve that misses its tolerance is an error.

The default is a direct solve by MUMPS, whose symbolic analysis is kept as long as the matrix object is: overwriting its values
and solving again refactorises in place. A factorisation says whether the matrix is singular to working precision; a singular
one never yields a solution. Other solvers come from `presets`, and the user's PETSc options are merged over them.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc

from cffem.engine.presets import Plan, plan, symmetric

log = logging.getLogger("cffem.engine")
_WARNED: set[str] = set()  # options that were warned of already

_PREFIXES = itertools.count()

# What a direct solve with two steps of refinement reaches on any problem that is not singular to working precision.
DIRECT_TOLERANCE = 1e-9
ITERATIVE_TOLERANCE = 1e-10
# A residual so small in every row, relative to what its sums are made of, is what their rounding leaves: refinement gains nothing.
ROUNDED = 1e-15
# Beyond this condition number, measured after row scaling, fewer than three digits of a solution are left.
SINGULAR = 1e13
# MUMPS ran out of the memory it had planned for: the percentage to add, and the errors that say so.
MORE_MEMORY, OUT_OF_MEMORY = (200, 1000, 5000), (-8, -9, -19)
NO_MEMORY = -13  # an allocation failed


class SolveError(RuntimeError):
    """A linear or nonlinear solve that did not reach its tolerance.

    Attributes:
        history: residual norms, as far as they are known.
    """

    def __init__(self, message: str, history: Any = ()):
        super().__init__(message)
        self.history = [float(value) for value in history]


def petsc_words(error: PETSc.Error) -> str:
    """What PETSc says about an error last, which tells most."""
    lines = str(error).splitlines()
    said = re.sub(r"^\[\d+\] *", "", lines[-1]) if len(lines) > 1 else ""
    return f"PETSc error {error.ierr}: {said}" if said else f"PETSc error {error.ierr}"


@dataclass
class SolveRecord:
    """What the solves of one run cost and how well they did.

    Attributes:
        solves: linear solves, steps of refinement included.
        iterations: Krylov iterations of all solves.
        factorisations: how often the preconditioner or the factors were made anew.
        newton_steps: Newton steps of nonlinear problems.
        worst_residual: the largest true relative residual.
        solver: the preset that was used last, or "own" for the user's PETSc options.
        reasons: what was done otherwise than planned, in words.
    """

    solves: int = 0
    iterations: int = 0
    factorisations: int = 0
    newton_steps: int = 0
    worst_residual: float = 0.0
    solver: str = ""
    reasons: list[str] = field(default_factory=list)


def warn_of_unread(options: Mapping[str, Any], prefix: str, ksp: Any) -> None:
    """Say which of the user's options this solver has not read: they are misspelt or belong to another solver."""
    library = ctypes.CDLL(PETSc.__file__)
    for name in options:
        read = [ctypes.c_int(0), ctypes.c_int(0)]
        # Whether names are asked for with their dash differs between versions of PETSc.
        for dash, answer in zip(("", "-"), read, strict=True):
            library.PetscOptionsUsed(None, f"{dash}{prefix}{name}".encode(), ctypes.byref(answer))
        if not any(answer.value for answer in read) and name not in _WARNED:
            _WARNED.add(name)
            if ksp.comm.rank == 0:
                log.warning(
                    "the PETSc option %s has no effect: the solver %s with %s does not read it",
                    name,
                    ksp.getType(),
                    ksp.getPC().getType(),
                )


@contextmanager
def options_for(prefix: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Options in PETSc's database while a solver reads them, inner solvers at their set-up; afterwards nothing of ours stays."""
    database = PETSc.Options()
    for key, value in options.items():
        database[prefix + key] = value
    try:
        yield
    finally:
        for key in options:
            database.delValue(prefix + key)


def collect_garbage(comm: Any) -> None:
    """Free PETSc objects that Python has let go of but that wait for a collective call; collective.

    A single process frees them at once, or in its own time where they are part of a cycle.
    """
    if comm.size > 1:
        gc.collect()
        PETSc.garbage_cleanup(comm)


def row_sizes(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """The largest absolute value in each row of this rank, one where a row is empty, and the sum of all of them."""
    starts, _, values = matrix.getValuesCSR()
    sizes, filled = np.abs(values), np.flatnonzero(np.diff(starts))
    largest, total = np.ones(len(starts) - 1), np.zeros(len(starts) - 1)
    if len(filled):
        largest[filled] = np.maximum.reduceat(sizes, starts[:-1][filled])
        total[filled] = np.add.reduceat(sizes, starts[:-1][filled])
    return largest, total


class LinearSolver:
    """A Krylov or direct solver bound to one matrix object whose values may be overwritten.

    Args:
        matrix: the matrix, with essential rows and columns eliminated.
        options: a plan from `presets`, or PETSc options without prefix; nothing means the direct solve.
        record: where the costs are counted.

    Example:
        >>> from petsc4py import PETSc
        >>> matrix = PETSc.Mat().createDense((2, 2), array=[[2.0, 0.0], [0.0, 0.0]], comm=PETSc.COMM_SELF).convert("aij")
        >>> LinearSolver(matrix).solve(matrix.createVecLeft() + 1.0, matrix.createVecRight())
        Traceback (most recent call last):
        ...
        cffem.engine.linear.SolveError: the linear system has no unique solution: its matrix is singular (...)
    """

    def __init__(self, matrix: Any, options: Plan | Mapping[str, Any] | None = None, record: SolveRecord | None = None):
        self.matrix = matrix
        self.record = record if record is not None else SolveRecord()
        self.plan = options if isinstance(options, Plan) else plan(options)
        self.prefix = f"cffem_{next(_PREFIXES)}_"
        self.ksp: Any = None
        self.direct = False
        self.symmetric = True
        self._current = False
        self._helper: Any = None
        self._transposed: LinearSolver | None = None
        self._residual, self._correction = matrix.createVecLeft(), matrix.createVecRight()
        self._rows: np.ndarray | None = None  # the sums of absolute values in each row, for direct solves

    # Setting up -----------------------------------------------------------------------------------------------------------

    def refresh(self, what: str = "the linear system") -> None:
        """Take over changed values of the matrix.

        Raises:
            SolveError: the matrix is singular to working precision, or holds numbers that are not finite.
        """
        self.record.factorisations += 1
        self._current = False
        self._drop_transposed()
        # The Frobenius norm is a sum, in which a NaN stays a NaN.
        if not np.isfinite(self.matrix.norm(PETSc.NormType.FROBENIUS)):
            raise SolveError(f"{what} has a matrix with entries that are not finite")
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
        # Newton's method keeps one Krylov solver through all its steps, so that one must take any matrix.
        steady = self.plan.equation is None or self.plan.equation.affine
        is_symmetric = self.plan.name == "direct" or (steady and symmetric(self.matrix))
        if self.ksp is not None and is_symmetric != self.symmetric:
            self._forget()
        self.symmetric = is_symmetric
        try:
            if self.ksp is None:
                self._create()
            else:
                self.ksp.setOperators(self.matrix)
                self._prepare()
                self.ksp.setUp()
        except PETSc.Error as error:
            self._forget()
            solver = "the solver of the given options" if self.plan.name == "own" else f"the solver {self.plan.name!r}"
            raise SolveError(f"{what} could not be prepared by {solver} ({petsc_words(error)})") from None
        if self.direct:
            self._check_factors(what)

    def _create(self) -> None:
        self.ksp = PETSc.KSP().create(self.matrix.comm)
        self.ksp.setOptionsPrefix(self.prefix)
        self.ksp.setNormType(PETSc.KSP.NormType.UNPRECONDITIONED)
        self.ksp.setTolerances(rtol=ITERATIVE_TOLERANCE, atol=1e-50, max_it=1000)
        self.ksp.setErrorIfNotConverged(False)
        self.ksp.setOperators(self.matrix)
        options = self.plan.all_options(self.symmetric)
        if options.get("ksp_type") in ("preonly", "minres", "symmlq"):
            self.ksp.setNormType(PETSc.KSP.NormType.DEFAULT)
        with options_for(self.prefix, options):
            self.ksp.setFromOptions()
            self._prepare()
            self.ksp.setUp()
            self.ksp.setUpOnBlocks()
            warn_of_unread(self.plan.options, self.prefix, self.ksp)
        self.direct = self.ksp.getType() == "preonly" and self.ksp.getPC().getType() in ("lu", "cholesky")
        self.tolerance = DIRECT_TOLERANCE if self.direct else 10 * self.ksp.getTolerances()[0]

    def _prepare(self) -> None:
        """Give the preset's preconditioner what it needs besides the matrix."""
        from cffem.engine.preconditioners import AuxiliarySpaces, SaddlePoint

        rows = np.asarray(self.plan.held, dtype=np.int64)
        if self.plan.name == "ams":
            self._helper = self._helper or AuxiliarySpaces(self.plan.equation)
            self._helper.attach(self.ksp, self.matrix, rows)
            if self._helper.without_mass and self.plan.automatic:
                raise SolveError("the curl-curl matrix has no mass, so its solution is determined up to gradients only")
        elif self.plan.name == "stokes":
            first = self._helper is None
            self._helper = self._helper or SaddlePoint(self.plan)
            self._helper.null_space(self.matrix)
            self._helper.measure(self.matrix, rows)
            if first:
                self._helper.attach(self.ksp, self.matrix)

    def _check_factors(self, what: str) -> None:
        """Refuse a matrix that is singular to working precision: by failing or vanishing pivots, and by a measured condition."""
        mumps = self.ksp.getPC().getFactorSolverType() == "mumps"
        for percentage in MORE_MEMORY:
            if mumps and self.ksp.getPC().getFactorMatrix().getMumpsInfog(1) in OUT_OF_MEMORY:
                self.ksp.getPC().getFactorMatrix().setMumpsIcntl(14, percentage)
                self.matrix.stateIncrease()
                self.ksp.setOperators(self.matrix)
                self.ksp.setUp()
        singular = f"{what} has no unique solution: its matrix is singular"
        if self.ksp.getPC().getFailedReason():
            code = self.ksp.getPC().getFactorMatrix().getMumpsInfog(1) if mumps else 0
            if code in (*OUT_OF_MEMORY, NO_MEMORY):
                raise SolveError(
                    f"{what} cannot be solved: its factors need more memory than there is (MUMPS error {code}), because it is too "
                    "large for a direct solver here or its matrix is singular"
                )
            raise SolveError(f"{singular}, its factorisation broke down" + (f" (MUMPS error {code})" if mumps else ""))
        vanishing = self.ksp.getPC().getFactorMatrix().getMumpsInfog(28) if mumps else 0
        if vanishing > 0:
            raise SolveError(f"{singular} ({vanishing} of {self.matrix.size[0]} pivots vanish)")
        condition = self._condition()
        if not condition < SINGULAR:
            raise SolveError(f"{singular} to working precision (condition number {condition:.0e})")

    def without_structure(self) -> tuple[np.ndarray, np.ndarray]:
        """The largest entry of each row, and signs without structure: their product meets every null vector."""
        largest, self._rows = row_sizes(self.matrix)
        first = self.matrix.getOwnershipRange()[0]
        return largest, np.cos(1.7 * np.arange(first, first + len(largest)) ** 1.5)

    def _condition(self) -> float:
        """A lower bound of the condition number of the row-scaled matrix: one solve with a right-hand side without structure."""
        scale, signs = self.without_structure()
        self._residual.array[:] = scale * signs
        self.ksp.solve(self._residual, self._correction)
        self._residual.array[:] = signs / scale
        columns = self.matrix.createVecRight()
        self.matrix.multTranspose(self._residual, columns)
        most = float(np.abs(columns.array_r * self._correction.array_r).max(initial=0.0))
        columns.destroy()
        return self.matrix.comm.tompi4py().allreduce(most if np.isfinite(most) else np.inf, op=MPI.MAX)

    def _give_way(self, why: str) -> None:
        self.record.reasons.append(f"solver preset {self.plan.name!r} gave way to the direct solve: {why}")
        self._forget()
        self.plan.give_way(self.matrix)
        self.record.solver = self.plan.name

    def _forget(self) -> None:
        for thing in (self.ksp, self._helper):
            if thing is not None:
                thing.destroy()
        self.ksp, self._helper = None, None

    def _drop_transposed(self) -> None:
        if self._transposed is not None:
            self._transposed.matrix.destroy()
            self._transposed.destroy()
            self._transposed = None

    # Solving --------------------------------------------------------------------------------------------------------------

    def solve(self, right: Any, solution: Any, what: str = "the linear system") -> float:
        """Solve and return the true relative residual.

        Raises:
            SolveError: the matrix is singular, or the tolerance was missed.
        """
        if not self._current:
            self.refresh(what)
        try:
            return self._refined(right, solution, what, self.matrix.mult, self.ksp.solve)
        except SolveError as error:
            if not self.plan.automatic:
                raise
            self._give_way(str(error))
            self._set_up(what)
            return self._refined(right, solution, what, self.matrix.mult, self.ksp.solve)

    def solve_transpose(self, right: Any, solution: Any, what: str = "the adjoint system") -> float:
        """Solve with the transposed matrix and return the true relative residual.

        A direct solve uses its factors; a symmetric matrix needs no transpose; for any other one the transposed matrix is made.
        """
        if not self._current:
            self.refresh(what)
        if self.direct:
            return self._refined(right, solution, what, self.matrix.multTranspose, self.ksp.solveTranspose)
        if self.symmetric:
            return self.solve(right, solution, what)
        if self._transposed is None:
            self._transposed = LinearSolver(self.matrix.transpose(PETSc.Mat()), self.plan, self.record)
        return self._transposed.solve(right, solution, what)

    def _refined(self, right: Any, solution: Any, what: str, multiply: Any, apply: Any) -> float:
        self.plan.balance(right)
        scale = right.norm()
        if not np.isfinite(scale):
            raise SolveError(f"{what} has a right-hand side that is not finite")
        solution.set(0.0)
        if scale == 0.0:
            return 0.0
        history = []
        relative = np.inf
        # One or two steps of iterative refinement make a direct solve as good as working precision allows.
        right.copy(self._residual)
        for _ in range(3 if self.direct else 1):
            self._ksp_solve(self._residual, self._correction, what, apply)
            solution.axpy(1.0, self._correction)
            multiply(solution, self._residual)
            self._residual.aypx(-1.0, right)
            relative = self._residual.norm() / scale
            history.append(relative)
            if not np.isfinite(relative) or relative <= 1e-13 or (len(history) > 1 and relative > 0.5 * history[-2]):
                break
            if self._only_rounded(right, solution, multiply):
                break
        if not relative <= self.tolerance:
            raise SolveError(f"{what} was solved to a relative residual of {relative:.1e} only, not {self.tolerance:.0e}", history)
        self.plan.shift(solution)
        self.record.worst_residual = max(self.record.worst_residual, relative)
        return relative

    def _only_rounded(self, right: Any, solution: Any, multiply: Any) -> bool:
        """Whether the residual of a direct solve is nowhere more than what rounding makes of exact sums.

        Fields of different size are told apart by refinement only.
        """
        equation = self.plan.equation
        if equation is None or len(equation.spaces.fields) > 1:
            return False
        if not self.direct or self._rows is None or multiply != self.matrix.mult:
            return False
        comm = self.matrix.comm.tompi4py()
        largest = comm.allreduce(float(np.abs(solution.array_r).max(initial=0.0)), op=MPI.MAX)
        here = bool(np.all(np.abs(self._residual.array_r) <= ROUNDED * (self._rows * largest + np.abs(right.array_r))))
        return bool(comm.allreduce(here, op=MPI.LAND))

    def _ksp_solve(self, right: Any, solution: Any, what: str, apply: Any) -> None:
        if not self.direct:
            self.ksp.setConvergenceHistory()
        try:
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
                f"{what} could not be solved by {self.ksp.getType()} with {self.ksp.getPC().getType()}: {name} after {steps} "
                "iterations",
                self.ksp.getConvergenceHistory(),
            )

    def destroy(self) -> None:
        """Free the solver; collective."""
        self._forget()
        self._drop_transposed()
        for thing in (self._residual, self._correction):
            thing.destroy()
