# SPDX-License-Identifier: MIT
"""Ending a run when somebody asks: Ctrl-C, SIGTERM and SIGUSR1 (what Slurm sends before time is
up).

A lone process stops where it is. Of several ranks each only remembers the request, and all stop
together at the next time level or piece of work, because a rank that left alone would leave the
others waiting. If no such point comes in time the process leaves for good, in the midst of whatever
a library does (`leaving`). Whatever was finished is on the disk by then; the exit code 75 says that
the run can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from cffem.study.run.leaving import end_with_launcher, leave_in_time, leave_no_more

if TYPE_CHECKING:
    from types import FrameType

    from mpi4py import MPI


RESUMABLE = 75
PATIENCE = 3  # seconds that a request waits for a point where all ranks can stop together
LEFT = "cffem: stopped in the midst of a solve; what is finished is kept, go on with --resume\n"
WATCHED = ("SIGINT", "SIGTERM", "SIGUSR1")


class Interrupted(BaseException):
    """Somebody asked the run to end; no `Exception`, so that nothing on the way takes it for
    a failed solve.
    """


class _Watch:
    """The request that came, and whether signals are watched at all."""

    def __init__(self) -> None:
        self.active, self.alone, self.request = False, True, ""
        self.compiled = False  # whether handlers that need no Python are in place

    def install(self) -> None:
        for name in WATCHED:
            signal.signal(getattr(signal, name), self.take)

    def take(self, number: int, frame: FrameType | None) -> None:
        """What happens when a signal arrives."""
        if self.request:
            os._exit(RESUMABLE)
        self.request = signal.Signals(number).name
        if self.alone:
            raise Interrupted(self.request)
        if not self.compiled:
            timer = threading.Timer(PATIENCE, lambda: os._exit(RESUMABLE))
            timer.daemon = True
            timer.start()


_watch = _Watch()


@contextlib.contextmanager
def watching(alone: bool) -> Iterator[None]:
    """Take the signals over while a command runs.

    Args:
        alone: whether this is the only rank, which may stop anywhere.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    end_with_launcher()
    before = {name: signal.getsignal(getattr(signal, name)) for name in WATCHED}
    _watch.active, _watch.alone, _watch.request, _watch.compiled = True, alone, "", False
    _watch.install()
    try:
        yield
    finally:
        _watch.active = False
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler or signal.SIG_DFL)
        if _watch.compiled:
            leave_no_more()


def keep_watching(speaks: bool = True) -> None:
    """Take the signals over again, where they are watched: PETSc puts handlers of its own in place
    when it starts. From here on they are heard during long calls of libraries as well.

    Args:
        speaks: whether this rank says that it leaves.
    """
    if _watch.active:
        _watch.install()
        words = LEFT if speaks else ""
        _watch.compiled = leave_in_time(WATCHED, PATIENCE, RESUMABLE, words)


def stop_if_asked(comm: MPI.Comm) -> None:
    """Stop on all ranks if one of them was asked to; collective where signals are watched.

    Raises:
        Interrupted: somebody asked.
    """
    if not _watch.active:
        return
    asked = np.array([bool(_watch.request)], dtype=np.int8)
    if comm.size > 1:
        from mpi4py import MPI

        comm.Allreduce(MPI.IN_PLACE, asked, op=MPI.MAX)
    if asked[0]:
        raise Interrupted(_watch.request or "a signal to another rank")
