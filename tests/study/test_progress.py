"""What people see of a run: a line that changes in place on a terminal, lines of text
elsewhere, the log everywhere.
"""

from __future__ import annotations

import io
import logging

from rich.console import Console

from cffem.study.run.progress import LineProgress, LiveProgress, Progress, progress_for


def walked(progress: Progress) -> Progress:
    progress.begin("deletion", 4)
    progress.work("[red]lap[/red]", levels=10)
    progress.step(5, iterations=37)
    return progress


def test_a_terminal_shows_stage_term_step_iterations_and_time_left():
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    progress = walked(LiveProgress(console))
    progress._live.refresh()
    text = console.file.getvalue()
    for word in ("deletion", "[red]lap[/red]", "step 5/10", "37 iterations", "left"):
        assert word in text
    progress.finish()
    progress.close()


def test_a_pipe_gets_one_line_for_each_piece_of_work():
    stream = io.StringIO()
    progress = walked(LineProgress(stream))
    progress.finish()
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("deletion: 4 to do")
    assert "deletion: [red]lap[/red] (1/4)" in lines[1]
    assert "left" in lines[1]
    assert "\x1b" not in stream.getvalue()


def test_the_time_left_is_in_proportion():
    progress = walked(Progress())
    progress.started -= 10  # half of one piece of work of four took ten seconds
    assert progress.left is not None
    assert 69 <= progress.left <= 71


def test_only_rank_0_shows_anything_and_nothing_when_quiet():
    assert type(progress_for(1, quiet=False)) is type(progress_for(0, quiet=True)) is Progress
    assert isinstance(progress_for(0, quiet=False), LineProgress | LiveProgress)


def test_the_silent_one_still_logs(caplog):
    with caplog.at_level(logging.INFO, logger="cffem.study"):
        walked(Progress()).finish()
    assert "deletion: [red]lap[/red]" in caplog.messages
