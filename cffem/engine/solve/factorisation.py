# SPDX-License-Identifier: MIT
"""Factorisations that are checked: every factorisation of the package is made here.

MUMPS tells by a number, INFOG(1), what went wrong. PETSc goes on with factors that are none unless
somebody looks, and a second factorisation with the same object returns at once. So each attempt has
a solver of its own, which is freed where it fails:

    workspace the analysis foresaw too little of it; tried again with more, ICNTL(14), on a fresh
    analysis singular there is no unique solution: by a zero pivot, or because some equations cannot
    determine their unknowns memory the machine has no more

A failure ends in a `SolveError` whose `cause` is one of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from petsc4py import PETSc
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import structural_rank

from cffem.engine.solve.petsc_options import new_ksp, reading
from cffem.engine.solve_errors import SolveError, petsc_words

if TYPE_CHECKING:
    from slepc4py import SLEPc

    from cffem.engine.solve.stage_types import PetscOptions


@dataclass(frozen=True)
class Workspace:
    """How a factorisation gets the workspace that it needs.

    Attributes:
        percentages: what is added to the workspace that the analysis foresees, attempt by attempt.
        threshold: CNTL(1) in the last attempt, 0.01 in the others: pivots smaller than this part of
            their row are put off, and what is put off needs the workspace. On several ranks a large
            front looks for pivots in the rows of one of them only, so that nearly singular saddle
            points put off more there. A loss of accuracy is seen, and mended, by the residual.
        looked_at: entries of a matrix up to which its structure is looked at after a failure.
    """

    percentages: tuple[int, ...] = (60, 200, 1000)
    threshold: float = 1e-6
    looked_at: int = 20_000_000

    def options(self, percentage: int) -> dict[str, int | float]:
        """The options of MUMPS for one attempt."""
        found: dict[str, int | float] = {"mat_mumps_icntl_14": percentage}
        if percentage == self.percentages[-1]:
            found["mat_mumps_cntl_1"] = self.threshold
        return found


WORKSPACE = Workspace()
# INFOG(1) of MUMPS: too little workspace or too small buffers, no memory to be had, and a matrix
# that is singular.
TOO_SMALL = (-8, -9, -11, -12, -14, -15, -17, -18, -20)
NO_MEMORY = (-5, -7, -13, -19)
SINGULAR = (-6, -10)


def sound(create: Callable[[int], PETSc.KSP], matrix: PETSc.Mat, what: str) -> PETSc.KSP:
    """A solver with factors that are sound; collective.

    Args:
        create: makes the solver, set up, with this percentage of additional workspace.
        matrix: what is factorised.
        what: words for the error.

    Raises:
        SolveError: there are no such factors; its cause says why.
    """
    code: int | None = None
    for percentage in WORKSPACE.percentages:
        solver = create(percentage)
        code = failure(solver.getPC())
        if code is None:
            return solver
        solver.destroy()
        if code not in TOO_SMALL or without_rank(matrix):
            break
    raise broken(code, matrix, what)


def failure(preconditioner: PETSc.PC) -> int | None:
    """What is wrong with the factors of a preconditioner: MUMPS's error, zero for another
    package's; None where nothing is.
    """
    if preconditioner.getType() not in (PETSc.PC.Type.LU, PETSc.PC.Type.CHOLESKY):
        return None
    if preconditioner.getFactorSolverType() == "mumps":
        code = preconditioner.getFactorMatrix().getMumpsInfog(1)
        return int(code) if code < 0 else None
    return 0 if preconditioner.getFailedReason() else None


def broken(code: int | None, matrix: PETSc.Mat, what: str) -> SolveError:
    """The error that a failed factorisation ends in."""
    lost = without_rank(matrix) if code in (*TOO_SMALL, *SINGULAR) else 0
    singular = f"{what} has no unique solution: its matrix is singular"
    if lost:
        text = (
            f"{lost} of {matrix.size[0]} unknowns appear in no equation that could determine them"
        )
        return SolveError(f"{singular} ({text})", cause="singular")
    if code in SINGULAR:
        return SolveError(f"{singular} (a pivot vanishes, MUMPS error {code})", cause="singular")
    if code in NO_MEMORY:
        text = (
            f"{what} cannot be solved here: its factors need more memory than there is (MUMPS "
            f"error {code})"
        )
        return SolveError(
            f"{text}; take a coarser mesh, more memory, or a solver that iterates", cause="memory"
        )
    if code in TOO_SMALL:
        most = WORKSPACE.percentages[-1]
        text = (
            f"{what} was not factorised: MUMPS asks for more than {most} % of workspace in "
            f"addition (error {code})"
        )
        return SolveError(
            f"{text}, as it does where a matrix is all but singular", cause="workspace"
        )
    said = f" (MUMPS error {code})" if code else ""
    return SolveError(f"{singular}, its factorisation broke down{said}", cause="singular")


def without_rank(matrix: PETSc.Mat) -> int:
    """How many unknowns no choice of entries could determine: the size of the matrix less its
    structural rank; collective.
    """
    comm = matrix.comm.tompi4py()
    if comm.allreduce(matrix.getInfo()["nz_used"]) > WORKSPACE.looked_at:
        return 0
    starts, columns, values = matrix.getValuesCSR()
    filled = values != 0
    rows = (
        np.repeat(np.arange(len(starts) - 1), np.diff(starts))[filled]
        + matrix.getOwnershipRange()[0]
    )
    parts = comm.gather((rows, columns[filled]), root=0)
    lost = 0
    if parts is not None:
        places = tuple(np.concatenate([part[k] for part in parts]) for k in (0, 1))
        pattern = csr_matrix((np.ones(len(places[0])), places), shape=matrix.size)
        lost = matrix.size[0] - int(structural_rank(pattern))
    return int(comm.bcast(lost, root=0))


class Factors:
    """The factors of one matrix by MUMPS, checked; they solve for one or many right-hand sides.

    Args:
        matrix: the matrix; it stays the caller's.
        kind: "lu", or "cholesky" for a symmetric matrix, which need not be definite.
        options: more options of MUMPS, such as `{"mat_mumps_icntl_7": 2}`.
        what: words for errors.

    Raises:
        SolveError: the factorisation failed.

    Example:
        >>> matrix = (
        ...     PETSc.Mat()
        ...     .createDense((2, 2), array=[[2.0, 1.0], [1.0, 2.0]], comm=PETSc.COMM_SELF)
        ...     .convert("aij")
        ... )
        >>> factors = Factors(matrix, "cholesky")
        >>> factors.solve_many(np.array([[3.0], [3.0]])).ravel().round(12).tolist()
        [1.0, 1.0]
    """

    def __init__(
        self,
        matrix: PETSc.Mat,
        kind: str = "lu",
        options: PetscOptions | None = None,
        what: str = "the linear system",
    ):
        self.matrix, self.kind, self.options, self.what = matrix, kind, dict(options or {}), what
        if kind == "cholesky":
            matrix.setOption(PETSc.Mat.Option.SYMMETRIC, True)
        self.ksp = sound(self._create, matrix, what)

    def _create(self, percentage: int) -> PETSc.KSP:
        ksp = new_ksp(self.matrix)
        with configured(ksp, self.kind, {**WORKSPACE.options(percentage), **self.options}):
            ksp.setUp()
        return ksp

    def solve(self, right: PETSc.Vec, solution: PETSc.Vec) -> None:
        """One solve, without refinement; collective."""
        self.ksp.solve(right, solution)
        if self.ksp.getConvergedReason() < 0:
            raise SolveError(
                f"{self.what} was not solved: PETSc's reason is {self.ksp.getConvergedReason()}"
            )

    def solve_many(self, columns: np.ndarray) -> np.ndarray:
        """Solutions for columns of owned values; collective."""
        result = np.zeros(columns.shape, order="F")
        right, left = (self._dense(values) for values in (columns, result))
        try:
            self.ksp.matSolve(right, left)
        except PETSc.Error as error:
            raise SolveError(f"{self.what} was not solved: {petsc_words(error)}") from None
        right.destroy()
        left.destroy()
        return result

    def _dense(self, columns: np.ndarray) -> PETSc.Mat:
        """A dense matrix that shares its numbers with Fortran-ordered columns."""
        shape = (self.matrix.getSizes()[0], (None, columns.shape[1]))
        matrix = PETSc.Mat().createDense(
            shape, array=np.asfortranarray(columns), comm=self.matrix.comm
        )
        matrix.assemble()
        return matrix

    def inertia(self) -> tuple[int, int, int]:
        """How many eigenvalues of a symmetric matrix are negative, zero and positive.

        The options must let MUMPS look for vanishing pivots, also in the last front: ICNTL(24) =
            ICNTL(13) = 1.
        """
        negative, zero, positive = self.ksp.getPC().getFactorMatrix().getInertia()
        return int(negative), int(zero), int(positive)

    def destroy(self) -> None:
        """Free the factors; collective."""
        self.ksp.destroy()


@contextmanager
def configured(ksp: PETSc.KSP, kind: str, options: PetscOptions) -> Iterator[None]:
    """Make a solver a factorisation by MUMPS; set it up meanwhile, and check it as `sound` does."""
    factors = {"ksp_type": "preonly", "pc_type": kind, "pc_factor_mat_solver_type": "mumps"}
    with reading(ksp, {**factors, **options}, "factors"):
        yield


@dataclass(frozen=True)
class Pencil:
    """A symmetric generalised eigenproblem A x = λ M x, solved by shift and invert.

    Attributes:
        stiffness, mass: A and M; M may be singular.
        target: eigenvalues near this number are found; A − target M must be regular.
        count: how many.
        tolerance: relative, of the eigenvalues.
    """

    stiffness: PETSc.Mat
    mass: PETSc.Mat
    target: float
    count: int = 1
    tolerance: float = 1e-10

    @contextmanager
    def solved(self, what: str) -> Iterator[SLEPc.EPS]:
        """The SLEPc solver after its solve, with checked factors; it is freed afterwards;
        collective.

        Raises:
            SolveError: the shifted matrix could not be factorised.
        """
        attempts: list[SLEPc.EPS] = []

        def create(percentage: int) -> PETSc.KSP:
            attempts.append(self._create(percentage))
            # SLEPc frees its own solver; the one that is handed out is another reference to it.
            return attempts[-1].getST().getKSP()

        try:
            sound(create, self.stiffness, what)
            attempts[-1].solve()
            yield attempts[-1]
        finally:
            for solver in attempts:
                solver.destroy()

    def _create(self, percentage: int) -> PETSc.KSP:
        from slepc4py import SLEPc

        solver = SLEPc.EPS().create(self.stiffness.comm)
        solver.setOperators(self.stiffness, self.mass)
        solver.setProblemType(SLEPc.EPS.ProblemType.GHEP)
        solver.setWhichEigenpairs(SLEPc.EPS.Which.TARGET_MAGNITUDE)
        solver.setTarget(self.target)
        solver.setDimensions(self.count, PETSc.DECIDE)
        solver.setTolerances(self.tolerance, 500)
        solver.getST().setType(SLEPc.ST.Type.SINVERT)
        with configured(solver.getST().getKSP(), "lu", WORKSPACE.options(percentage)):
            solver.setUp()
        return solver
