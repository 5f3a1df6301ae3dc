# SPDX-License-Identifier: MIT
"""Ending a run when somebody asks: Ctrl-C, SIGTERM and SIGUSR1 (what Slurm sends before time is
up).

A lone process stops where it is. Of several ranks each only remembers the request, and all stop
together at the next time level or piece of work, because a rank that left alone would leave the
others waiting. If no such point comes in time the process leaves for good. Whatever was finished is
on the disk by then; the exit code 75 says that the run can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

    from mpi4py import MPI


RESUMABLE = 75
PATIENCE = 20.0  # seconds that a request waits for a point where all ranks can stop together
WATCHED = ("SIGINT", "SIGTERM", "SIGUSR1")


class Interrupted(BaseException):
    """Somebody asked the run to end; no `Exception`, so that nothing on the way takes it for
    a failed solve.
    """


class _Watch:
    """The request that came, and whether signals are watched at all."""

    def __init__(self) -> None:
        self.active, self.alone, self.request = False, True, ""

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
    before = {name: signal.getsignal(getattr(signal, name)) for name in WATCHED}
    _watch.active, _watch.alone, _watch.request = True, alone, ""
    _watch.install()
    try:
        yield
    finally:
        _watch.active = False
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler or signal.SIG_DFL)


def keep_watching() -> None:
    """Take the signals over again, where they are watched: PETSc puts handlers of its own in
    place when it starts.
    """
    if _watch.active:
        _watch.install()


def stop_if_asked(comm: MPI.Comm) -> None:
    """Stop on all ranks if one of them was asked to; collective where signals are watched.

    Raises:
        Interrupted: somebody asked.
    """
    if not _watch.active:
        return
    asked = bool(_watch.request) if comm.size == 1 else any(comm.allgather(bool(_watch.request)))
    if asked:
        raise Interrupted(_watch.request or "a signal to another rank")
