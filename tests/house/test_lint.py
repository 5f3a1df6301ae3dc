"""The code is formatted, free of lint, and its types fit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


@pytest.mark.skipif(shutil.which("ruff") is None, reason="ruff is not installed")
def test_lint():
    run("ruff", "check", ".")


@pytest.mark.skipif(shutil.which("ruff") is None, reason="ruff is not installed")
def test_format():
    run("ruff", "format", "--check", ".")


def test_types():
    pytest.importorskip("mypy")
    run(sys.executable, "-m", "mypy")
