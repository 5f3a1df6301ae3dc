# SPDX-License-Identifier: MIT
"""Generalised conjugate residuals on arrays of owned values, and starts from the solutions of
earlier systems.

Solutions are built together with their images under the matrix, so that the residual is the true
one at every step, whatever the preconditioner, and later systems with the same matrix can start
from both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from petsc4py import PETSc
from scipy.linalg.blas import daxpy

from cffem.engine.collective import summed
from cffem.engine.solve.scope import Scope

if TYPE_CHECKING:
    from mpi4py import MPI


def accumulate(target: np.ndarray, factor: float, values: np.ndarray) -> None:
    """target += factor · values in one pass, without a temporary array; both are contiguous.

    Example:
        >>> target = np.ones((2, 2))
        >>> accumulate(target, 2.0, np.eye(2))
        >>> target.tolist()
        [[3.0, 1.0], [1.0, 3.0]]
    """
    if values.size:  # a rank may have nothing
        daxpy(values.reshape(-1), target.reshape(-1), a=factor)


# Makes a direction and its image under the matrix of a residual.
Advance = Callable[[np.ndarray, PETSc.Vec, PETSc.Vec], None]


class Directions(Scope):
    """The directions of one solve by generalised conjugate residuals, with orthogonal images;
    beyond `most` it starts anew.

    Args:
        most: how many are kept.
        size: their length on this rank.
        comm: the communicator.
    """

    def __init__(self, most: int, size: int, comm: MPI.Comm):
        self.most, self.comm = most, comm
        self.values, self.images = np.zeros((most, size)), np.zeros((most, size))
        self.squares, self.factors = np.ones(most), np.zeros(most)
        self.count = 0
        self._vectors: list[tuple[PETSc.Vec, PETSc.Vec]] = []

    @property
    def next(self) -> tuple[PETSc.Vec, PETSc.Vec]:
        """The vectors that take the next direction and its image; collective."""
        if self.count == len(self._vectors):
            rows = self.values[self.count], self.images[self.count]
            value, image = (PETSc.Vec().createWithArray(row, comm=self.comm) for row in rows)
            self._vectors.append((self.own(value), self.own(image)))
        return self._vectors[self.count]

    def advance(self, residual: np.ndarray) -> None:
        """Go along the direction that was put into `next` to the least residual, which is
        changed in place.
        """
        k = self.count
        value, own, others = self.values[k], self.images[k], self.images[:k]
        # Once is not enough where the new image is almost one of the others.
        for _ in range(2 if k else 0):
            sums = summed(self.comm, np.append(others @ own, own @ own))
            parts = sums[:-1] / self.squares[:k]
            value -= parts @ self.values[:k]
            own -= parts @ others
            if sums[-1] - float(parts @ sums[:-1]) > 0.01 * sums[-1]:
                break
        self.squares[k], along = summed(self.comm, np.array([own @ own, own @ residual]))
        self.factors[k] = along / self.squares[k] if self.squares[k] > 0 else math.nan
        accumulate(residual, -self.factors[k], own)
        self.count += 1

    def reduce(
        self,
        residual: np.ndarray,
        value: np.ndarray | None,
        advance: Advance,
        size: Callable[[np.ndarray], float],
        allowed: float,
        most: int,
    ) -> tuple[int, float]:
        """Generalised conjugate residuals until a residual is small; it is changed in place.

        Args:
            residual: the residual.
            value: takes what the directions amount to; None where only the number of steps counts.
            advance: the preconditioner and the matrix.
            size: the size of a residual.
            allowed: the size that is small enough.
            most: how many steps are tried.

        Returns:
            The number of steps, and the size that was reached.
        """
        steps, reached = 0, size(residual)
        while not reached <= allowed and steps < most and math.isfinite(reached):
            if self.count == self.most:
                self.take(value)
            advance(residual, *self.next)
            self.advance(residual)
            steps, reached = steps + 1, size(residual)
        self.take(value)
        return steps, reached

    def take(self, value: np.ndarray | None) -> None:
        """Add what all directions so far amount to, and forget them."""
        if self.count and value is not None:
            value += self.factors[: self.count] @ self.values[: self.count]
        self.count = 0


class Memory:
    """The last few solutions of one matrix with their images; a start for the next is their
    combination of least residual.

    Args:
        most: how many are kept.
        size: their length on this rank.
        comm: the communicator.

    Example:
        >>> from mpi4py import MPI
        >>> memory = Memory(2, 3, MPI.COMM_SELF)
        >>> memory.keep(np.array([1.0, 0, 0]), np.array([2.0, 0, 0]))
        >>> memory.start(np.array([6.0, 0, 1]))[0]
        array([3., 0., 0.])
    """

    def __init__(self, most: int, size: int, comm: MPI.Comm):
        self.most, self.comm = most, comm
        self.values, self.images = np.zeros((most, size)), np.zeros((most, size))
        self.gram = np.zeros((most, most))
        self.count = 0

    def start(self, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best combination for a right-hand side, and its image."""
        k = min(self.count, self.most)
        if k == 0:
            return np.zeros(len(right)), np.zeros(len(right))
        projected = summed(self.comm, self.images[:k] @ right)
        factors = np.linalg.lstsq(self.gram[:k, :k], projected, rcond=1e-13)[0]
        return factors @ self.values[:k], factors @ self.images[:k]

    def keep(self, value: np.ndarray, image: np.ndarray) -> None:
        """Remember a solution in the place of the oldest."""
        place = self.count % self.most
        self.values[place], self.images[place] = value, image
        row = summed(self.comm, self.images @ image)
        self.gram[place], self.gram[:, place] = row, row
        self.count += 1
