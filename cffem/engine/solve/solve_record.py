# SPDX-License-Identifier: MIT
"""What solves cost and how well they did, and when PETSc frees what Python let go of."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field

from mpi4py import MPI
from petsc4py import PETSc


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
        notices: what one must know about the solution, in words: that it is unstable, or not the
            only one.
    """

    solves: int = 0
    iterations: int = 0
    factorisations: int = 0
    newton_steps: int = 0
    worst_residual: float = 0.0
    solver: str = ""
    reasons: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def collect_garbage(comm: MPI.Comm) -> None:
    """Free PETSc objects that Python has let go of but that wait for a collective call; collective.

    A single process frees them at once, or in its own time where they are part of a cycle.
    """
    if comm.size > 1:
        gc.collect()
        PETSc.garbage_cleanup(comm)
