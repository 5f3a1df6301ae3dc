"""`cffem doctor` really tries things, and says what to do about what fails."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

pytest.importorskip("dolfinx")


def doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cffem", "doctor"]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env={**os.environ, **environment})


def test_a_healthy_installation_has_no_failure_and_exit_code_0():
    done = doctor()
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    for what in ("DOLFINx:", "PETSc packages:", "BLAS:", "a form compiles: yes", "a solve on several ranks: yes, on 2 ranks"):
        assert what in done.stdout


def test_a_missing_compiler_is_found_and_explained(tmp_path):
    tools = tmp_path / "bin"
    tools.mkdir()
    compiler = sysconfig.get_config_var("CC").split()[0]
    for name in {"gcc", "cc", os.path.basename(compiler)}:
        (tools / name).write_text("#!/bin/sh\necho 'no compiler here' >&2\nexit 1\n")
        (tools / name).chmod(0o755)
    done = doctor(PATH=f"{tools}:{os.environ['PATH']}", CFFEM_CACHE=str(tmp_path / "empty"))
    assert done.returncode == 1
    assert "FAIL a form compiles: no" in done.stdout
    assert "libc6-dev" in done.stdout


@pytest.mark.mpi
def test_on_two_ranks_one_report_is_printed(mpirun):
    done = mpirun(2, sys.executable, "-m", "cffem", "doctor", timeout=200)
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.count("DOLFINx:") == 1
    assert "on 2 ranks" in done.stdout
