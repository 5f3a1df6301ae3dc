# SPDX-License-Identifier: MIT
"""Where a run is: a live display on a terminal, plain log lines elsewhere, nothing where nobody
asked.

A `Progress` is told by the stations which stage, term and time step a run is at, on every rank;
only rank 0 of its communicator shows anything. Library use logs through `logging` (logger
`cffem.study`) and never prints.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TextIO


log = logging.getLogger("cffem.study")


class Progress:
    """The silent one: keeps the state and logs stages and terms; the base of those that show
    something.

    Attributes:
        stage, term: what is being done.
        level, levels: the time level that is reached, of how many.
        iterations: Krylov and Newton iterations of the running solve.
        done, total: finished and known pieces of work of the stage.
    """

    def __init__(self) -> None:
        self.stage, self.term = "", ""
        self.level, self.levels, self.iterations = 0, 0, 0
        self.done, self.total = 0, 0
        self.started = time.monotonic()

    def begin(self, stage: str, total: int = 1) -> None:
        """A stage begins with so many pieces of work."""
        self.stage, self.term, self.done, self.total = stage, "", 0, total
        self.level = self.levels = self.iterations = 0
        self.started = time.monotonic()
        log.info("%s", stage)
        self.show()

    def work(self, term: str, levels: int = 0) -> None:
        """A piece of work of the stage begins."""
        self.term, self.level, self.levels, self.iterations = term, 0, levels, 0
        log.info("%s: %s", self.stage, term)
        self.show()

    def solve(self, levels: int) -> None:
        """A solve of the piece of work begins."""
        self.level, self.levels, self.iterations = 0, levels, 0
        self.show()

    def step(self, level: int, iterations: int) -> None:
        """A time level is reached."""
        self.level, self.iterations = level, iterations
        self.show()

    def finish(self, note: str = "") -> None:
        """The piece of work is done."""
        self.done += 1
        log.info(
            "%s: %s done (%d of %d)%s",
            self.stage,
            self.term or self.stage,
            self.done,
            self.total,
            f", {note}" if note else "",
        )
        self.show()

    def finish_piece(self, term: str) -> None:
        """A piece of work by this name is done, whatever it was that began."""
        self.term = term
        self.finish()

    def skip(self, term: str) -> None:
        """A piece of work was done by an earlier run."""
        self.term, self.level, self.levels = term, 0, 0
        self.finish("kept from an earlier run")

    @property
    def left(self) -> float | None:
        """Seconds left of the stage, guessed from what is done; None before anything is."""
        share = self.done + (self.level / self.levels if self.levels else 0.0)
        if share <= 0 or not self.total:
            return None
        return (time.monotonic() - self.started) * max(self.total - share, 0.0) / share

    def note(self, text: str) -> None:
        """Say a sentence about the run."""
        log.info("%s", text)

    def show(self) -> None:
        """Show the state; nothing here."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class LineProgress(Progress):
    """One line for each piece of work, for logs and pipes, flushed at once."""

    def __init__(self, stream: TextIO | None = None):
        super().__init__()
        self.stream = stream or sys.stderr
        self.begun = time.monotonic()

    def begin(self, stage: str, total: int = 1) -> None:
        super().begin(stage, total)
        self._line(stage if total <= 1 else f"{stage}: {total} to do")

    def finish(self, note: str = "") -> None:
        super().finish(note)
        if self.term:
            left = self.left
            rest = f", {duration(left)} left" if left and self.done < self.total else ""
            self._line(
                f"{self.stage}: {self.term} "
                f"({self.done}/{self.total}){', ' + note if note else ''}{rest}"
            )

    def note(self, text: str) -> None:
        super().note(text)
        self._line(text)

    def _line(self, text: str) -> None:
        print(f"[{duration(time.monotonic() - self.begun)}] {text}", file=self.stream, flush=True)


class LiveProgress(Progress):
    """A line that changes in place: stage, term, step, iterations and time left."""

    def __init__(self, console: Any = None):
        super().__init__()
        from rich.console import Console
        from rich.live import Live

        self.console = console or Console(stderr=True)
        # What a script prints is its own and goes where it goes.
        self._live = Live(
            console=self.console,
            refresh_per_second=8,
            transient=True,
            get_renderable=self._picture,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, stage: str, total: int = 1) -> None:
        if not self._live.is_started:
            self._live.start()
        super().begin(stage, total)

    def _picture(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        share = self.done + (self.level / self.levels if self.levels else 0.0)
        step = f"step {self.level}/{self.levels}" if self.levels else ""
        iterations = f"{self.iterations} iterations" if self.iterations else ""
        left = "" if self.left is None else f"{duration(self.left)} left"
        row = Table.grid(padding=(0, 2))
        row.add_row(
            Text(self.stage, style="bold"),
            ProgressBar(max(self.total, 1), min(share, self.total or 1), width=24),
            Text(self.term),
            Text(step),
            Text(iterations),
            Text(left),
        )
        return row

    def finish(self, note: str = "") -> None:
        from rich.text import Text

        super().finish(note)
        if self.term:
            self.console.print(
                Text(f"  {self.stage}: {self.term}{', ' + note if note else ''}"), highlight=False
            )

    def note(self, text: str) -> None:
        from rich.text import Text

        super().note(text)
        self.console.print(Text(f"  {text}"), highlight=False)

    def close(self) -> None:
        self._live.stop()


def progress_for(rank: int, quiet: bool) -> Progress:
    """What a run on the command line shows on this rank."""
    if quiet or rank != 0:
        return Progress()
    return LiveProgress() if sys.stderr.isatty() else LineProgress()


def progress_of_script(rank: int, quiet: bool) -> Progress:
    """What a study that is run from a script shows on this rank: the same on a terminal, nothing in
    a file or a pipe, which are the script's own.
    """
    return progress_for(rank, quiet or not sys.stderr.isatty())


def duration(seconds: float) -> str:
    """Seconds as people say them.

    Example:
        >>> duration(3.2), duration(75), duration(3720)
        ('3 s', '1 min 15 s', '1 h 02 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
