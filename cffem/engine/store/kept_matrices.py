# SPDX-License-Identifier: MIT
"""Which matrices of terms stay in memory: as many as fit, and the last ones that were used.

A library may have hundreds of linear terms, and one matrix for each may be more than a machine has.
The first ones stay. Of the others the last few are there, and a matrix that is gone is assembled
again when it is asked for. Terms are asked for one after another, round and round; to replace the
oldest would then miss every time.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpi4py import MPI
from petsc4py import PETSc

from cffem.engine.store.free_memory import free_per_rank

if TYPE_CHECKING:
    from cffem.engine.assembly.ingredients import Assembled


@dataclass(frozen=True)
class KeptSettings:
    """How much memory matrices of terms take.

    Attributes:
        share: of the free memory of a rank; sums, systems, factors and states need the rest.
        entry: bytes of one entry with its column.
        passing: how many matrices beyond that are there at a time; a term has up to three.
    """

    share: float = 0.3
    entry: int = 12
    passing: int = 3


KEPT = KeptSettings()


class KeptMatrices:
    """The matrices of one equation.

    Args:
        comm: the communicator.
        settings: see `KeptSettings`.

    Attributes:
        again: how many matrices were given up so far.
    """

    def __init__(self, comm: MPI.Comm, settings: KeptSettings | None = None):
        self.comm, self.settings = comm, settings or KEPT
        self.again = 0
        self._left: int | None = None
        self._passing: deque[tuple[Assembled, int]] = deque()

    def add(self, part: Assembled, order: int, matrix: PETSc.Mat) -> None:
        """Take note of a new matrix, and give others up where there is no room; collective."""
        if self._left is None:
            self._left = int(self.settings.share * free_per_rank(self.comm))
        entries = matrix.getInfo(PETSc.Mat.InfoType.LOCAL)["nz_used"]
        size = self.settings.entry * int(self.comm.allreduce(entries, op=MPI.MAX))
        if size <= self._left:
            self._left -= size
            return
        self._passing.append((part, order))
        while len(self._passing) > self.settings.passing:
            oldest, its_order = self._passing.popleft()
            oldest.forget(its_order)
            self.again += 1
            if self.comm.size > 1:
                PETSc.garbage_cleanup(self.comm)

    def clear(self) -> None:
        """All matrices are gone; memory is looked at afresh when the next one is made."""
        self._left = None
        self._passing.clear()
