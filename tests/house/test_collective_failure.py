"""An error on any rank, or a rank that is killed, ends the whole run soon, with one message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.mpi

HANG = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == {failing}:
    raise RuntimeError("rank {failing} has had enough")
comm.Barrier()
"""
ALL_FAIL = "raise RuntimeError('all of us')"
BAD_INPUT = "import cffem; cffem.div(cffem.ScalarField('u'))"
SLEEP = (
    "import time; from mpi4py import MPI; print('ready', flush=True); MPI.COMM_WORLD.Barrier(); "
    "time.sleep(60)"
)


def cffem(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "cffem", *arguments)


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_one_failing_rank_ends_all_with_one_traceback(mpirun, tmp_path, failing):
    study = tmp_path / "study.py"
    study.write_text(HANG.format(failing=failing))
    start = time.monotonic()
    done = mpirun(3, *cffem("run", str(study)), timeout=60)
    assert (
        time.monotonic() - start < 20
    )  # ten seconds, and the start of three interpreters on a busy machine
    assert done.returncode != 0
    assert done.stdout.count("Traceback") == 1
    assert f"rank {failing} has had enough" in done.stdout


def test_all_ranks_failing_alike_print_one_traceback(mpirun, tmp_path):
    study = tmp_path / "study.py"
    study.write_text(ALL_FAIL)
    done = mpirun(3, *cffem("run", str(study)), timeout=60)
    assert done.returncode == 1
    assert done.stdout.count("Traceback") == 1
    assert "MPI_ABORT" not in done.stdout


def test_bad_input_on_all_ranks_is_one_sentence_and_code_2(mpirun, tmp_path):
    study = tmp_path / "study.py"
    study.write_text(BAD_INPUT)
    done = mpirun(2, *cffem("run", str(study)), timeout=60)
    assert done.returncode == 2
    assert done.stdout.count("cffem: div takes a vector") == 1
    assert "Traceback" not in done.stdout


def test_unknown_demo_is_one_sentence_on_the_command_line(mpirun):
    done = mpirun(2, *cffem("demo", "maxwel"), timeout=60)
    assert done.returncode == 2
    assert done.stdout.count("did you mean maxwell?") == 1


def test_a_killed_rank_ends_the_run(tmp_path):
    from processes import descendants, mpi_environment

    study = tmp_path / "study.py"
    study.write_text(SLEEP)
    run = subprocess.Popen(
        ["mpirun", "-n", "2", *cffem("run", str(study))],
        stdout=subprocess.PIPE,
        text=True,
        env=mpi_environment(),
        start_new_session=True,
    )
    try:
        assert "ready" in run.stdout.readline()
        victims = [
            pid
            for pid in descendants(run.pid)
            if str(study) in command_line(pid) and "mpirun" not in command_line(pid)
        ]
        assert len(victims) == 2
        os.kill(victims[1], signal.SIGKILL)
        start = time.monotonic()
        assert run.wait(timeout=30) != 0
        assert time.monotonic() - start < 10
        assert not any(
            os.path.exists(f"/proc/{pid}") and str(study) in command_line(pid) for pid in victims
        )
    finally:
        for pid in [run.pid, *descendants(run.pid)] if run.poll() is None else []:
            os.kill(pid, signal.SIGKILL)


def command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline") as handle:
            return handle.read().replace("\0", " ")
    except OSError:
        return ""
