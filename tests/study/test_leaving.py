"""Signals end a run in time although a library is busy, and no rank outlives its launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("dolfinx")

from processes import descendants, mpi_environment

# A lock that is taken twice: a call of C that never ends, keeps Python's lock, and goes on after
# signals, as a factorisation does for some minutes.
BUSY = """
import ctypes, sys
from cffem.study.run.signals import keep_watching, watching
alone = len(sys.argv) < 2
if not alone:
    from mpi4py import MPI
with watching(alone):
    keep_watching(speaks=alone or MPI.COMM_WORLD.rank == 0)
    lock, library = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
    library.pthread_mutex_lock(lock)
    print("ready", flush=True)
    library.pthread_mutex_lock(lock)
"""
IN_TIME = 5.0


def started(tmp_path, *before: str) -> subprocess.Popen[str]:
    """A busy process, or a launcher with busy ranks."""
    program = tmp_path / "busy.py"
    program.write_text(BUSY)
    run = subprocess.Popen(
        [*before, sys.executable, str(program), *before[:1]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=mpi_environment(),
        start_new_session=True,
    )
    found = ""
    while found.count("ready") < (2 if before else 1):
        line = run.stdout.readline()
        assert line, f"{found}{run.communicate()[1]}"
        found += line
    time.sleep(0.5)  # from the word to the call that never ends
    return run


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_a_busy_library_does_not_keep_a_run_from_ending(name, tmp_path):
    run = started(tmp_path)
    start = time.monotonic()
    run.send_signal(getattr(signal, name))
    said = run.communicate(timeout=30)[1]
    assert run.returncode == 75
    assert time.monotonic() - start < IN_TIME
    assert "stopped in the midst of a solve" in said


def test_a_second_signal_ends_it_at_once(tmp_path):
    run = started(tmp_path)
    start = time.monotonic()
    run.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    run.send_signal(signal.SIGTERM)
    assert run.wait(timeout=30) == 75
    assert time.monotonic() - start < 2.0
    run.communicate()


def alive(pids: list[int], patience: float) -> list[int]:
    """Which of some processes are left after a while."""
    end = time.monotonic() + patience
    left = pids
    while left and time.monotonic() < end:
        left = [pid for pid in left if state(pid) not in ("", "Z")]
        time.sleep(0.05)
    return left


def state(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as handle:
            return handle.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.mpi
@pytest.mark.parametrize(("name", "code"), [("SIGUSR1", 75), ("SIGTERM", None), ("SIGKILL", -9)])
def test_no_rank_outlives_its_launcher(name, code, tmp_path):
    run = started(tmp_path, "mpirun", "-n", "2")
    ranks = [pid for pid in descendants(run.pid) if pid != run.pid]
    assert len(ranks) >= 2
    start = time.monotonic()
    os.killpg(run.pid, getattr(signal, name))
    try:
        found = run.wait(timeout=30)
        assert code is None or found == code
        assert time.monotonic() - start < 2 * IN_TIME
        assert not alive(ranks, 5.0)
    finally:
        for pid in alive(ranks, 0.1):
            os.kill(pid, signal.SIGKILL)
        run.communicate()
