"""A small study that every test of running, killing and resuming uses: heat on an interval, a
second of work.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOML = """
title = "Heat on an interval"

[fields]
u = "scalar"

[library]
anchor = "dt(u)"
[library.terms]
u = "u"
u_x = "diff(u, x)"
lap = "lap(u)"
cubic = "u**3"

[coefficients]
u = 0.6
u_x = 0.3
lap = 0.05

[[experiments]]
mesh = { shape = "interval", h = 0.1 }
elements = { u = ["Lagrange", 2] }
initial = { u = "sin(pi*x) + sin(2*pi*x)/2" }
boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }]
time = { end = 0.5, steps = 8 }

[certification]
epsilon = 1e-2
budget = 1

[observables.mass]
type = "Integral"
expr = "u"
epsilon = 1e-3
"""

# What a clock or the machine says may differ between two runs of one study, and so may what
# certificates cost: the finer solutions that they share are computed once in each run.
MEASURED = {"seconds", "price", "peak_memory", "ranks", "solutions"}


def written(folder: Path, text: str = TOML, name: str = "study.toml") -> Path:
    """A study file in a folder."""
    path = folder / name
    path.write_text(text)
    return path


def command(*arguments: Any) -> list[str]:
    """The command line of cffem."""
    return [sys.executable, "-m", "cffem", *map(str, arguments)]


def run(*arguments: Any, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run cffem in a process of its own."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=timeout)


def result(folder: Path) -> Any:
    """The report in a folder without what clocks say."""
    return timeless(json.loads((folder / "report.json").read_text()))


def timeless(value: Any) -> Any:
    """The same without keys whose values are times, memory or numbers of ranks."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in MEASURED}
    return [timeless(item) for item in value] if isinstance(value, list) else value


class Halt(BaseException):
    """Ends a run in the middle."""


def resumed(build: Callable[[], Any], folder: Path, monkeypatch: Any, deletions: int = 2) -> Any:
    """The report of a study whose run ends where it would store one of its deletions, and goes on
    there.
    """
    from cffem.study.run import running  # needs DOLFINx, which not every test of studies does

    stored, count = running.Run.store, 0

    def halting(self: Any, key: str, value: Any, label: str) -> Any:
        nonlocal count
        count += key.startswith("deletion")
        if count == deletions:
            raise Halt
        return stored(self, key, value, label)

    with monkeypatch.context() as patch:
        patch.setattr(running.Run, "store", halting)
        with pytest.raises(Halt):
            build().run(out=folder, quiet=True)
    return build().run(out=folder, resume=True, quiet=True)
