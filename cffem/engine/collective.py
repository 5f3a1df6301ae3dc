# SPDX-License-Identifier: MIT
"""What ranks do together: sums, and work for one of them whose failure is raised on every
rank, so that nobody waits for ever.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from mpi4py import MPI

Result = TypeVar("Result")


def summed(comm: MPI.Comm, values: np.ndarray | float) -> np.ndarray:
    """The sum of a number or an array over all ranks; collective.

    Example:
        >>> from mpi4py import MPI
        >>> float(summed(MPI.COMM_SELF, 2.0))
        2.0
    """
    own = np.ascontiguousarray(values, dtype=float).reshape(np.shape(values))
    if comm.size == 1:
        return own
    total = np.empty_like(own)
    comm.Allreduce(own, total)
    return total


def collectively(comm: MPI.Comm, function: Callable[[], Result]) -> Result | None:
    """Run `function` on rank 0; what it raises there is raised on all ranks.

    Args:
        comm: the MPI communicator; the call is collective.
        function: what to do on rank 0. It must not communicate.

    Returns:
        Its result on rank 0, None elsewhere: results may be large, and who needs them everywhere
            broadcasts them.

    Example:
        >>> from mpi4py import MPI
        >>> collectively(MPI.COMM_SELF, lambda: 6 * 7)
        42
    """
    result: Result | None = None
    error: Exception | None = None
    if comm.rank == 0:
        try:
            result = function()
        except Exception as caught:
            error = caught
    message = comm.bcast(None if error is None else portable(error), root=0)
    if error is not None:
        raise error
    if message is not None:
        raise message
    return result


def everywhere(comm: MPI.Comm, function: Callable[[], Result]) -> Result:
    """Run `function` on every rank; what one of them raises is raised on all, that of the lowest
    rank where several do.

    Args:
        comm: the MPI communicator; the call is collective.
        function: what to do. It must not communicate.

    Example:
        >>> from mpi4py import MPI
        >>> everywhere(MPI.COMM_SELF, lambda: 6 * 7)
        42
    """
    result: Result | None = None
    error: Exception | None = None
    try:
        result = function()
    except Exception as caught:
        error = caught
    lowest = comm.allreduce(comm.size if error is None else comm.rank, op=MPI.MIN)
    if lowest < comm.size:
        message = comm.bcast(None if error is None else portable(error), root=lowest)
        raise error if comm.rank == lowest and error is not None else message
    return cast("Result", result)


def portable(error: BaseException) -> BaseException:
    """The same error if it survives being sent, otherwise its text."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
