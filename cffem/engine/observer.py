# SPDX-License-Identifier: MIT
"""The observer of a model: told what is solved, and asked whether to go on.

Every way to solve, factually or with something deleted, tells the one observer of its model which
solve begins, which time level is reached and which deletion is done, and asks it at every level
whether to stop. Progress, checkpoints, stop requests and counts hang on it, and a model need not be
subclassed to be watched. All ranks of the model's communicator tell the same at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.deletion.outcomes import Deletion
    from cffem.engine.solve.solve_record import SolveRecord


class Observer:
    """One that does nothing; derive from it what shall be told.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> class Counting(Observer):
        ...     levels = 0
        ...     def level(self, level, record):
        ...         self.levels += 1
        >>> u, count = cf.ScalarField("u"), Counting()
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1), elements={u: ("Lagrange", 1)},
        ...     initial={u: cf.x * (1 - cf.x)}, boundary=[cf.Dirichlet(u, 0)],
        ...     time=cf.Window(0, 0.1, steps=4))
        >>> model = cf.Model(library, {"u": 1.0, "lap": 0.5}, experiment, observer=count)
        >>> sweep = model.deletions()
        >>> count.levels  # of the factual solution and of two deletions, the initial level included
        15
    """

    def solve(self, names: Sequence[str], levels: int) -> None:
        """A solve begins.

        Args:
            names: the terms that are deleted, one at a time; several where they are marched
                together, none for the factual problem.
            levels: how many time steps it takes; zero for a steady problem.
        """

    def level(self, level: int, record: SolveRecord) -> None:
        """A time level is reached; of deletions that are marched together it is told once."""

    def deletion(self, deletion: Deletion) -> None:
        """A deletion is done."""

    def stop(self, comm: MPI.Comm) -> None:
        """Whether to go on is asked, on all ranks of a communicator; an exception ends the work."""


class GroupObserver(Observer):
    """The observer of a copy of the model on some of the ranks: a deletion is told on all ranks
    when all of them know it.

    Args:
        whole: the observer of the model on all ranks.
    """

    def __init__(self, whole: Observer):
        self.whole = whole

    def solve(self, names: Sequence[str], levels: int) -> None:
        self.whole.solve(names, levels)

    def level(self, level: int, record: SolveRecord) -> None:
        self.whole.level(level, record)

    def stop(self, comm: MPI.Comm) -> None:
        self.whole.stop(comm)
