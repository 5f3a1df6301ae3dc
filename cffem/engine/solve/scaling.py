# SPDX-License-Identifier: MIT
"""Rows and columns of coupled fields brought to one scale, so that units do not matter.

The blocks A_fg of a system of several fields have units of their own: with lengths in nanometres or
times in years one block is 10³⁰ times another, and neither pivots nor residuals can be compared.
Factors r_f for the rows and c_g for the columns of each field are chosen so that the largest
entries of all blocks are as close to one as they can be,

    Σ_fg (log max|A_fg| + log r_f + log c_g)² = min        (Curtis and Reid),

which scales with the units: the scaled matrix is the same in all of them. The factors are powers of
two, so that scaling rounds nothing. Fields that are not coupled at all are compared with themselves
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI
from petsc4py import PETSc
from scipy.sparse.csgraph import connected_components

from cffem.engine.collective import summed
from cffem.engine.store.exchange import RowExchange

if TYPE_CHECKING:
    from cffem.engine.assembly.spaces import Spaces


def row_sizes(matrix: PETSc.Mat) -> tuple[np.ndarray, np.ndarray]:
    """The largest absolute value in each row of this rank, one where a row is empty, and the
    sum of all of them.
    """
    starts, _, values = matrix.getValuesCSR()
    sizes, filled = np.abs(values), np.flatnonzero(np.diff(starts))
    largest, total = np.ones(len(starts) - 1), np.zeros(len(starts) - 1)
    if len(filled):
        largest[filled] = np.maximum.reduceat(sizes, starts[:-1][filled])
        total[filled] = np.add.reduceat(sizes, starts[:-1][filled])
    return largest, total


class FieldBlocks:
    """Which field each row and column of a system belongs to.

    Args:
        spaces: the spaces of the state.
    """

    def __init__(self, spaces: Spaces):
        self.comm, self.count = spaces.comm, len(spaces.fields)
        self.owned = np.zeros(spaces.owned, dtype=np.int64)
        for index, unknown in enumerate(spaces.fields):
            dofs = spaces.dofs(unknown)
            self.owned[dofs[dofs < spaces.owned]] = index
        # Where the rows of each rank begin, and the columns of other ranks that were asked for.
        ends = np.cumsum(self.comm.allgather(spaces.owned))
        self._ends, self._start = ends, int(ends[self.comm.rank]) - spaces.owned
        self._far, self._far_fields = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)

    def of_columns(self, columns: np.ndarray) -> np.ndarray:
        """The field of each of these columns, given by their global numbers; collective."""
        places = columns.astype(np.int64) - self._start
        here = (places >= 0) & (places < len(self.owned))
        if self.comm.size == 1:
            return self.owned[places]
        far = np.unique(columns[~here]).astype(np.int64)
        if self.comm.allreduce(not np.isin(far, self._far).all(), op=MPI.LOR):
            self._far = np.union1d(far, self._far)
            owners = np.searchsorted(self._ends, self._far, side="right")
            asked = RowExchange(self.comm, owners)
            self._far_fields = asked.back(self.owned[asked.send(self._far) - self._start])
        result = np.empty(len(columns), dtype=np.int64)
        result[here] = self.owned[places[here]]
        result[~here] = self._far_fields[np.searchsorted(self._far, columns[~here])]
        return result

    def sizes(self, matrix: PETSc.Mat, held: np.ndarray) -> np.ndarray:
        """The largest absolute values of all blocks, rows of the identity left out; collective.

        Args:
            matrix: the matrix.
            held: global numbers of this rank's rows that were replaced by those of the identity.
        """
        starts, columns, values = matrix.getValuesCSR()
        free = np.ones(len(self.owned), dtype=bool)
        free[np.asarray(held, dtype=np.int64) - matrix.getOwnershipRange()[0]] = False
        filled = np.repeat(free, np.diff(starts))
        blocks = np.repeat(self.owned, np.diff(starts))[filled] * self.count + self.of_columns(
            columns[filled]
        )
        result = np.zeros(self.count**2)
        np.maximum.at(result, blocks, np.abs(values[filled]))
        self.comm.Allreduce(MPI.IN_PLACE, result, op=MPI.MAX)
        return result.reshape(self.count, self.count)


def balancing_factors(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors for the rows and the columns of blocks with these sizes, and the group of coupled
    fields that each field is in.

    Example:
        >>> rows, columns, groups = balancing_factors(np.array([[2.0**40, 2.0**4], [2.0**4, 0.0]]))
        >>> (rows[:, None] * np.array([[2.0**40, 2.0**4], [2.0**4, 0.0]]) * columns).tolist()
        [[1.0, 1.0], [1.0, 0.0]]
    """
    count = len(sizes)
    i, j = np.nonzero((sizes > 0) & np.isfinite(sizes))
    system = np.zeros((len(i), 2 * count))
    system[np.arange(len(i)), i] = 1.0
    system[np.arange(len(i)), count + j] = 1.0
    logarithms = -np.log2(sizes[i, j])
    found = np.linalg.lstsq(system, logarithms, rcond=None)[0] if len(i) else np.zeros(2 * count)
    factors = np.exp2(np.round(found))
    groups = connected_components(sizes > 0, directed=False)[1]
    return factors[:count], factors[count:], groups


class MatrixEquilibration:
    """Factors for the rows and columns of one matrix of several fields.

    Args:
        blocks: which field each row belongs to.
        matrix: the matrix.
        held: global numbers of this rank's rows that are rows of the identity; they stay as they
            are.

    Attributes:
        rows, columns: the factors of this rank's rows and columns.
    """

    def __init__(self, blocks: FieldBlocks, matrix: PETSc.Mat, held: np.ndarray):
        self.comm = blocks.comm
        rows, columns, groups = balancing_factors(blocks.sizes(matrix, held))
        self.rows, self.columns = rows[blocks.owned], columns[blocks.owned]
        own = np.asarray(held, dtype=np.int64) - matrix.getOwnershipRange()[0]
        self.rows[own] = self.columns[own] = 1.0
        self._groups, self._count = groups[blocks.owned], int(groups.max(initial=0)) + 1

    def scaled(self, matrix: PETSc.Mat, into: PETSc.Mat = None) -> PETSc.Mat:
        """The scaled matrix, in the place of an earlier one of the same pattern where that is
        given; collective.
        """
        kind = PETSc.Mat.InfoType.GLOBAL_SUM
        if into is not None and into.getInfo(kind)["nz_used"] != matrix.getInfo(kind)["nz_used"]:
            into.destroy()
            into = None
        if into is None:
            into = matrix.copy()
        else:
            matrix.copy(into, PETSc.Mat.Structure.SAME_NONZERO_PATTERN)
        left, right = matrix.createVecLeft(), matrix.createVecRight()
        left.array[:], right.array[:] = self.rows, self.columns
        into.diagonalScale(left, right)
        left.destroy()
        right.destroy()
        return into

    def weights(self, sizes: np.ndarray) -> np.ndarray:
        """Weights for rows that make vectors of these sizes one in every group of coupled
        fields; collective.
        """
        squares = summed(
            self.comm, np.bincount(self._groups, (self.rows * sizes) ** 2, minlength=self._count)
        )
        largest = np.sqrt(np.where(squares > 0, squares, 1.0))
        return self.rows / largest[self._groups]

    def relative(self, part: np.ndarray, whole: np.ndarray, factors: np.ndarray) -> float:
        """The size of one vector relative to another, the largest over all groups of coupled
        fields; collective.
        """
        sums = [
            np.bincount(self._groups, (factors * v) ** 2, minlength=self._count)
            for v in (part, whole)
        ]
        parts, wholes = summed(self.comm, np.array(sums))
        ratios = np.divide(parts, wholes, out=np.where(parts > 0, np.inf, 0.0), where=wholes > 0)
        return float(np.sqrt(ratios.max(initial=0.0)))
