"""Every demo runs from the command line, alone and on two ranks; its own assertions are the test."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("dolfinx")

from cffem.cases.scripts import demos

NAMES = list(demos())


def test_there_is_a_maxwell_demo_and_every_demo_has_a_title():
    assert "maxwell" in NAMES
    assert all(title and not title.startswith("demo_") for title in demos().values())


@pytest.mark.parametrize("name", NAMES)
def test_demo_runs(name, tmp_path):
    command = [sys.executable, "-m", "cffem", "demo", name, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.strip()


@pytest.mark.mpi
@pytest.mark.parametrize("name", NAMES)
def test_demo_runs_on_two_ranks(name, tmp_path, mpirun):
    done = mpirun(2, sys.executable, "-m", "cffem", "demo", name, "--out", str(tmp_path), timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
