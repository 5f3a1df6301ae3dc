# SPDX-License-Identifier: MIT
"""Rows of arrays that move between ranks, so that no rank ever holds all of them.

What is sorted is sorted by ranges: rank r takes the keys of the r-th part of all possible ones.
Hashes are spread evenly, so every rank gets about as many. Counts are those of rows, whatever a row
holds, and stay below what MPI counts to.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

if TYPE_CHECKING:
    from collections.abc import Iterator

# Entries that rank 0 takes from another rank at a time, where it needs all one after another.
PIECE = 1 << 14


class RowExchange:
    """Sends each row of an array to a rank, and rows of answers back.

    Args:
        comm: the communicator; making one is collective, and so is every call.
        targets: for each row the rank that it goes to.

    Example:
        >>> there = RowExchange(MPI.COMM_SELF, np.array([0, 0, 0]))
        >>> there.back(there.send(np.array([3, 1, 2])) + 1)
        array([4, 2, 3])
    """

    def __init__(self, comm: MPI.Comm, targets: np.ndarray):
        self.comm = comm
        self._order = np.argsort(targets, kind="stable")
        self._sent = np.bincount(targets, minlength=comm.size).astype(np.int32)
        self._received = np.empty_like(self._sent)
        comm.Alltoall(self._sent, self._received)

    @property
    def received(self) -> int:
        """How many rows come to this rank."""
        return int(self._received.sum())

    def send(self, rows: np.ndarray) -> np.ndarray:
        """The rows that the others send to this rank, those of rank 0 first."""
        ordered = np.ascontiguousarray(rows[self._order])
        return self._moved(ordered, self._sent, self._received)

    def back(self, rows: np.ndarray) -> np.ndarray:
        """Answers to the rows that came, each to where its row came from."""
        answers = self._moved(np.ascontiguousarray(rows), self._received, self._sent)
        result = np.empty_like(answers)
        result[self._order] = answers
        return result

    def _moved(self, rows: np.ndarray, sent: np.ndarray, received: np.ndarray) -> np.ndarray:
        result = np.empty((int(received.sum()), *rows.shape[1:]), dtype=rows.dtype)
        width = rows.dtype.itemsize * int(np.prod(rows.shape[1:], dtype=np.int64))
        row = MPI.BYTE.Create_contiguous(width).Commit()
        try:
            self.comm.Alltoallv([rows, (sent, _starts(sent)), row],
                                [result, (received, _starts(received)), row])  # fmt: skip
        finally:
            row.Free()
        return result


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)


def by_hash(hashes: np.ndarray, ranks: int) -> np.ndarray:
    """The rank that a 64-bit hash belongs to; in order of the hashes.

    Example:
        >>> by_hash(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64), 2)
        array([0, 1, 1])
    """
    high = hashes >> np.uint64(32)
    return ((high * np.uint64(ranks)) >> np.uint64(32)).astype(np.int64)


def by_number(numbers: np.ndarray, count: int, ranks: int) -> np.ndarray:
    """The rank that a number below `count` belongs to, in equal parts."""
    return numbers // max(-(-count // ranks), 1)


def before(comm: MPI.Comm, count: int) -> int:
    """The sum of the counts of all lower ranks; collective."""
    found = comm.exscan(count)
    return 0 if comm.rank == 0 or found is None else int(found)


def sorted_by_hash(comm: MPI.Comm, hashes: np.ndarray) -> np.ndarray:
    """All hashes in order, each rank with its part of them; collective."""
    return np.sort(RowExchange(comm, by_hash(hashes, comm.size)).send(hashes))


def _pieces(part: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(part), PIECE):
        yield np.ascontiguousarray(part[start : start + PIECE])


def digest(comm: MPI.Comm, part: np.ndarray) -> str:
    """SHA-256 of an array whose parts the ranks have one after another, on all ranks; collective.

    Example:
        >>> digest(MPI.COMM_SELF, np.arange(3, dtype="<u8"))[:8]
        'ab25350e'
    """
    total = hashlib.sha256()
    counts = comm.gather(len(part))
    if comm.rank > 0:
        for piece in _pieces(part):
            comm.Send(piece, dest=0)
    else:
        assert counts is not None
        for piece in _pieces(part):
            total.update(piece.tobytes())
        buffer = np.empty(PIECE, dtype=part.dtype)
        for source in range(1, comm.size):
            for start in range(0, counts[source], PIECE):
                piece = buffer[: min(PIECE, counts[source] - start)]
                comm.Recv(piece, source=source)
                total.update(piece.tobytes())
    return str(comm.bcast(total.hexdigest()))
