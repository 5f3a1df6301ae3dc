"""What people see of a run: a line that changes in place on a terminal, lines of text
elsewhere, the log everywhere.
"""

from __future__ import annotations

import io
import logging
import subprocess
import sys

import pytest
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


SCRIPT = """
import sys
from mpi4py import MPI
import cffem as cf
u = cf.ScalarField("u")
library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
mesh = cf.mesh.interval(MPI.COMM_SELF, 0.25)
experiment = cf.Experiment(mesh=mesh, elements={u: ("Lagrange", 1)},
                           boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
cf.Study(library, experiment, coefficients={"lap": 1.0, "u": -1.0}).run(quiet="quiet" in sys.argv)
print("done")
"""


def on_terminal(command):
    """What a command writes to a terminal."""
    import os
    import pty

    master, terminal = pty.openpty()
    process = subprocess.Popen(command, stdout=terminal, stderr=terminal, close_fds=True)
    os.close(terminal)
    text = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        text += chunk
    os.close(master)
    assert process.wait() == 0, text
    return text.decode()


def test_a_script_shows_progress_on_a_terminal_and_nothing_in_a_pipe_or_when_asked(tmp_path):
    pytest.importorskip("dolfinx")
    path = tmp_path / "study.py"
    path.write_text(SCRIPT)
    shown = on_terminal([sys.executable, str(path)])
    assert "deletion: lap" in shown
    assert "error bound of u" in shown
    assert on_terminal([sys.executable, str(path), "quiet"]).strip() == "done"
    piped = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=120
    )
    assert (piped.stdout.strip(), piped.stderr) == ("done", "")
