"""Ending a run when somebody asks: Ctrl-C, SIGTERM and SIGUSR1 (what Slurm sends before time is up).

A lone process stops where it is. Of several ranks each only remembers the request, and all stop together at the next time level
or piece of work, because a rank that left alone would leave the others waiting. If no such point comes in time the process
leaves for good. Whatever was finished is on the disk by then; the exit code 75 says that the run can be resumed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

RESUMABLE = 75
PATIENCE = 20.0  # seconds that a request waits for a point where all ranks can stop together
WATCHED = ("SIGINT", "SIGTERM", "SIGUSR1")


class Interrupted(BaseException):
    """Somebody asked the run to end; no `Exception`, so that nothing on the way takes it for a failed solve."""


_request: list[str] = []
_watching: list[bool] = [False]


@contextlib.contextmanager
def watching(alone: bool) -> Iterator[None]:
    """Take the signals over while a command runs.

    Args:
        alone: whether this is the only rank, which may stop anywhere.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with contextlib.suppress(ImportError):
        from petsc4py import PETSc  # noqa: F401  its own handlers are installed first, or they would replace these

    def take(number: int, frame: Any) -> None:
        name = signal.Signals(number).name
        if _request:
            os._exit(RESUMABLE)
        _request.append(name)
        if alone:
            raise Interrupted(name)
        timer = threading.Timer(PATIENCE, lambda: os._exit(RESUMABLE))
        timer.daemon = True
        timer.start()

    before = {name: signal.signal(getattr(signal, name), take) for name in WATCHED}
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
        _request.clear()
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler or signal.SIG_DFL)


def stop_if_asked(comm: Any) -> None:
    """Stop on all ranks if one of them was asked to; collective where signals are watched.

    Raises:
        Interrupted: somebody asked.
    """
    if not _watching[0]:
        return
    asked = bool(_request) if comm.size == 1 else any(comm.allgather(bool(_request)))
    if asked:
        raise Interrupted(_request[0] if _request else "another rank was asked to stop")
