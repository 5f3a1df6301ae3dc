# SPDX-License-Identifier: MIT
"""How the studies of this program are run, where the command line says so: progress, resume, or
only the plan.

A study that is run from a script of its own knows nothing of a command line: it shows where it is
on a terminal, and nothing elsewhere.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.study.run.progress import Progress

if TYPE_CHECKING:
    from cffem.study.study import Study


@dataclass(frozen=True)
class Settings:
    """What the command line asks of every study that is run.

    Args:
        progress: what shows where a run is; None for what suits a script.
        resume: go on where an earlier run ended.
        dry_run: stop at the first study, before anything is solved.
    """

    progress: Progress | None = None
    resume: bool = False
    dry_run: bool = False


class PlanOnly(BaseException):
    """A study was reached, but only its plan is wanted."""

    def __init__(self, study: Study):
        super().__init__("only the plan is wanted")
        self.study = study


_current: contextvars.ContextVar[Settings | None] = contextvars.ContextVar(
    "cffem_settings", default=None
)


def current() -> Settings:
    """The settings that hold here."""
    return _current.get() or Settings()


@contextlib.contextmanager
def using(settings: Settings) -> Iterator[None]:
    """Run studies with these settings."""
    token = _current.set(settings)
    try:
        yield
    finally:
        _current.reset(token)
