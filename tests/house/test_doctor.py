"""`cffem doctor` really tries things, and says what to do about what fails."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

import pytest

pytest.importorskip("dolfinx")

import dolfinx

from cffem import doctor as examination


def doctor(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cffem", "doctor"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=240, env={**os.environ, **environment}
    )


def test_a_healthy_installation_has_no_failure_and_exit_code_0():
    done = doctor()
    assert done.returncode == 0, done.stdout
    assert "FAIL" not in done.stdout
    for what in (
        "DOLFINx:",
        "PETSc packages:",
        "BLAS:",
        "a form compiles: yes",
        "a solve on several ranks: yes, on 2 ranks",
    ):
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


def test_a_library_that_is_missing_or_too_old_is_found(monkeypatch):
    missing = examination.version_of("Nothing", "no_such_module", False, "pip install nothing")
    assert (missing.good, missing.required, missing.advice) == (False, False, "pip install nothing")
    assert "does not import" in missing.text
    monkeypatch.setattr(dolfinx, "__version__", "0.8.0")
    old = examination.version_of("DOLFINx", "dolfinx", True, "build a newer one")
    assert not old.good
    assert old.advice == "cffem needs DOLFINx 0.9 or later; build a newer one"
    monkeypatch.setattr(dolfinx, "__version__", "0.10.0.post2")
    assert examination.version_of("DOLFINx", "dolfinx", True, "").good


def finds(name):
    return lambda command, *_: name if command == "mpirun" else None


@pytest.mark.parametrize(
    ("launcher", "text", "advice"),
    [
        (None, "no mpirun here", "openmpi-bin"),
        ("false", "mpirun -n 2 failed", "same MPI"),
        ("echo", "mpirun -n 2 failed", "same MPI"),  # ends well, but nothing was solved
    ],
)
def test_an_mpirun_that_does_not_work_is_found(launcher, text, advice, monkeypatch):
    monkeypatch.setattr(examination.shutil, "which", finds(launcher))
    finding = examination.parallel_solve()
    assert not finding.good
    assert text in finding.text
    assert advice in finding.advice


def test_an_mpirun_that_hangs_is_found(monkeypatch):
    def hangs(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(examination.shutil, "which", finds("mpirun"))
    monkeypatch.setattr(examination.subprocess, "run", hangs)
    assert examination.parallel_solve().text == "mpirun -n 2 hangs"


def test_a_form_that_compiles_to_a_wrong_number_is_found(monkeypatch):
    monkeypatch.setattr(examination, "poisson_energy", lambda: 1.0)
    finding = examination.compiled_form()
    assert not finding.good
    assert "wrong number" in finding.advice


def test_what_is_needed_fails_and_what_is_not_is_noted(monkeypatch, capsys):
    # Without DOLFINx nothing that needs it is tried.
    monkeypatch.setattr(
        examination,
        "LIBRARIES",
        [("DOLFINx", "no_such_module", True, "get it"), ("PyVista", "gone", False, "or not")],
    )
    assert examination.examine() == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == [
        "ok   Python",
        "FAIL DOLFINx",
        "     -> get it",
        "note PyVista",
        "     -> or not",
    ]


@pytest.mark.mpi
def test_on_two_ranks_one_report_is_printed(mpirun):
    done = mpirun(2, sys.executable, "-m", "cffem", "doctor", timeout=200)
    assert done.returncode == 0, done.stdout[-2000:]
    assert done.stdout.count("DOLFINx:") == 1
    assert "on 2 ranks" in done.stdout
