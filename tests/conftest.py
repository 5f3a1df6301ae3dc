"""Running a piece of a test on several ranks.

`on_ranks(3, body)` runs the module-level function `body(comm)` under `mpirun -n 3`; any rank that
fails, or a run that hangs, fails the test with what was printed.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from processes import descendants, mpi_environment

HERE = Path(__file__).parent
RUNNER = "import sys; from mpi_runner import main; raise SystemExit(main(*sys.argv[1:]))"


def run_group(command: Sequence[str], timeout: float, **kwargs) -> subprocess.CompletedProcess[str]:
    """Run a command; when time is up it and all processes below it are killed and the test
    fails.
    """
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **kwargs,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        for pid in [process.pid, *descendants(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        output, _ = process.communicate()
        pytest.fail(
            f"{' '.join(map(str, command[:6]))} … was still running after {timeout} "
            f"s:\n{output[-3000:]}"
        )
    return subprocess.CompletedProcess(command, process.returncode, output)


@pytest.fixture(scope="session")
def mpirun() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command on n ranks: `mpirun(2, "cffem", "doctor")`."""
    launcher = shutil.which("mpirun")
    if launcher is None:
        pytest.skip("no mpirun here")

    def run(
        ranks: int, *command: str, timeout: float = 120, **kwargs
    ) -> subprocess.CompletedProcess[str]:
        return run_group(
            [launcher, "-n", str(ranks), *map(str, command)],
            timeout,
            env=mpi_environment(),
            **kwargs,
        )

    return run


@pytest.fixture(scope="session")
def on_ranks(mpirun) -> Callable[..., str]:
    """Run a module-level function of a test file, `body(comm, *arguments)`, on n ranks and
    return what it printed.
    """

    def run(ranks: int, body: Callable, *arguments: str, timeout: float = 120) -> str:
        done = mpirun(
            ranks,
            sys.executable,
            "-c",
            RUNNER,
            inspect.getfile(body),
            body.__name__,
            *arguments,
            timeout=timeout,
        )
        assert done.returncode == 0, (
            f"{body.__name__} on {ranks} ranks ended with {done.returncode}:\n{done.stdout[-4000:]}"
        )
        return done.stdout

    return run
