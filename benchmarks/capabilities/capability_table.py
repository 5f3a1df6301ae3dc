# SPDX-License-Identifier: MIT
"""docs/capabilities.md: every class of problems against every station, each cell tried.

    cffem bench capabilities --page docs/capabilities.md

With `--only CLASS …` these rows are tried again and the others of the page stay.

A cell is a check mark if the station did its work and its result passed a test, else the words
with which it was refused. Two ranks are tried by the same command under `mpirun`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

from benchmarks.capabilities.problem_classes import CLASSES
from cffem.bounds.certificate import NoCertificate
from cffem.bounds.entrance import certify_solution, certify_sweep
from cffem.design.design import Design
from cffem.engine.model import Model
from cffem.study.toml.study_file import read_study
from cffem.symbols.errors import InputError
from cffem.verdicts.certification import Certification

WORKS = "✓"
SAME = 1e-8  # relative difference of scores on other numbers of ranks
DERIVATIVE = 1e-6  # relative difference of tangent and adjoint derivatives
INTRODUCTION = """# What works for which problems

Made by `cffem bench capabilities --page docs/capabilities.md`, which tries every cell on a small
problem of its class, written as a TOML study. *solve*: the factual problem. *delete*: every term in
turn. *tangent, adjoint*: both give the same derivative of an observable, to 1e-6. *nulls*: the
terms that vanish on the constraint class are looked for (classes without a constraint have none).
*rows*: the solution gives the weak rows of a regression. *estimated*: deletions get error bars,
estimated or better. *guaranteed*: the solution has a guaranteed one. *ranks*: the scores on two
ranks agree with those on one to 1e-8. *TOML*: the study is read from a file. A number stands for
the words of a refusal below the table.
"""


class Tried:
    """One class, tried station by station."""

    def __init__(self, text: str, comm: MPI.Comm):
        self.comm = comm
        self.text = text
        self.found: dict[str, str] = {}
        self.model: Model | None = None
        self.scores: dict[str, float] = {}

    def attempt(self, column: str, work: Callable[[], object]) -> None:
        """Try one cell; what it returns, if that is text, is why it has no mark."""
        if column != "TOML" and self.model is None and column != "solve":
            self.found[column] = "–"
            return
        try:
            said = work()
        except Exception as error:  # every refusal is the content of the page
            said = (
                str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            )
        self.found[column] = said if isinstance(said, str) else WORKS

    def all(self) -> dict[str, str]:
        """All cells but that of ranks."""
        self.attempt("TOML", self._read)
        self.attempt("solve", self._solve)
        self.attempt("delete", self._delete)
        self.attempt("tangent, adjoint", self._derivatives)
        self.attempt("nulls", self._nulls)
        self.attempt("rows", self._rows)
        self.attempt("estimated", self._estimated)
        self.attempt("guaranteed", self._guaranteed)
        return self.found

    def _read(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(self.comm.bcast(str(Path(folder) / "study.toml")))
            if self.comm.rank == 0:
                path.write_text(self.text)
            self.comm.barrier()
            self.study = read_study(path, self.comm)
            self.comm.barrier()

    def _solve(self) -> None:
        experiment = next(iter(self.study.experiments.values()))
        model = Model(self.study.library, self.study.coefficients or {}, experiment)
        model.solve_factual()
        self.model = model

    def _delete(self) -> str | None:
        assert self.model is not None
        sweep = self.model.deletions(keep=True)
        self.sweep = sweep.deletions
        solved = {n for n, d in self.sweep.items() if d.score is not None and np.isfinite(d.score)}
        failed = {n: d for n, d in self.sweep.items() if n not in solved}
        self.scores = {n: float(self.sweep[n].score) for n in sorted(solved)}
        if not failed:
            return None
        name, deletion = next(iter(failed.items()))
        return f"{name}: {deletion.reason}"

    def _derivatives(self) -> str | None:
        model = self.model
        assert model is not None
        observable, _ = next(iter(self.study.observables.values()))
        adjoint = model.observable_scores(observable).signed
        responses, measurement = model.linearised(), model.measurement(observable)
        for name in model.active:
            direct = measurement.derivative(model.factual, responses[name].trajectory)
            scale = max(abs(direct), abs(adjoint[name]), 1e-12)
            if abs(abs(direct) - abs(adjoint[name])) > DERIVATIVE * scale + 1e-10:
                return f"{name}: the tangent gives {direct:.6g}, the adjoint {adjoint[name]:.6g}"
        return None

    def _nulls(self) -> str | None:
        assert self.model is not None
        if self.model.experiment.constraint is None:
            return "no constraint"
        self.model.constraint_nulls()
        return None

    def _rows(self) -> None:
        assert self.model is not None
        for equation in self.model.library.equations.values():
            Design.from_fields(equation, self.model.factual, kind="weak")

    def _estimated(self) -> str | None:
        assert self.model is not None
        asked = Certification(epsilon=1e-3, effort=20)
        bounds = certify_sweep(self.model, self.sweep, asked)
        kinds = {n: b for n, b in bounds.items() if not isinstance(b, NoCertificate)}
        if kinds:
            return None
        name, bound = next(iter(bounds.items()))
        return f"{name}: {getattr(bound, 'reason', bound)}"

    def _guaranteed(self) -> str | None:
        assert self.model is not None
        bound = certify_solution(self.model)
        if isinstance(bound, NoCertificate):
            return str(bound.reason)
        return None if bound.kind == "guaranteed" else f"{bound.kind} only"


def scores_on_two_ranks(name: str) -> dict[str, float] | str:
    """The scores of a class on two ranks, or why there are none."""
    command = ["mpirun", "-n", "2", sys.executable, "-m", __spec__.name, "--scores", name]
    made = subprocess.run(
        [command[0], "--allow-run-as-root", "--oversubscribe", *command[1:]],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    lines = [line for line in made.stdout.splitlines() if line.startswith("scores ")]
    if made.returncode or not lines:
        return (made.stderr.strip().splitlines() or ["no output"])[-1]
    return dict(json.loads(lines[0].removeprefix("scores ")))


def tried(name: str, ranks: bool = True) -> dict[str, str]:
    """All cells of one class."""
    row = Tried(CLASSES[name], MPI.COMM_SELF)
    found = row.all()
    found["ranks"] = "–" if row.model is None else "not tried"
    if ranks and row.model is not None:
        others = scores_on_two_ranks(name)
        if isinstance(others, str):
            found["ranks"] = others
        else:
            worst = max(
                (abs(others[n] - s) / max(abs(s), 1e-12) for n, s in row.scores.items()),
                default=0.0,
            )
            found["ranks"] = WORKS if worst <= SAME else f"scores differ by {worst:.1e}"
    return found


COLUMNS = (
    "solve", "delete", "tangent, adjoint", "nulls", "rows", "estimated", "guaranteed", "ranks",
    "TOML",
)  # fmt: skip


def page(rows: dict[str, dict[str, str]]) -> str:
    """The table with its footnotes."""
    words: list[str] = []
    lines = ["| class | " + " | ".join(COLUMNS) + " |", "| --- |" + " --- |" * len(COLUMNS)]
    for name, cells in rows.items():
        shown = []
        for column in COLUMNS:
            said = " ".join(cells[column].split())
            if said in (WORKS, "–", "no constraint"):
                shown.append({"no constraint": "–"}.get(said, said))
                continue
            if said not in words:
                words.append(said)
            shown.append(f"[{words.index(said) + 1}]")
        lines.append(f"| {name} | " + " | ".join(shown) + " |")
    notes = [f"{k}. {text}" for k, text in enumerate(words, 1)]
    return "\n".join([INTRODUCTION, *lines, "", *notes]).rstrip() + "\n"


def written(text: str) -> dict[str, dict[str, str]]:
    """The cells of a page, with the words of its refusals in their places."""
    lines = text.splitlines()
    words = {k: said for k, _, said in (line.partition(". ") for line in lines) if k.isdigit()}
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")][2:]
    return {
        name: {
            column: words.get(cell.strip("[]"), cell)
            for column, cell in zip(COLUMNS, cells, strict=True)
        }
        for name, *cells in rows
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Try everything, print the table and write the page."""
    parser = argparse.ArgumentParser(prog="cffem bench capabilities", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(CLASSES), metavar="CLASS")
    parser.add_argument("--no-ranks", action="store_true", help="leave out the runs on two ranks")
    parser.add_argument("--page", type=Path, help="write the table to this file")
    parser.add_argument("--scores", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.scores:
        row = Tried(CLASSES[options.scores], MPI.COMM_WORLD)
        row._read()
        row._solve()
        row._delete()
        if MPI.COMM_WORLD.rank == 0:
            print("scores " + json.dumps({n: float(np.real(s)) for n, s in row.scores.items()}))
        return 0
    there = options.page.is_file() if options.page else False
    rows: dict[str, Any] = written(options.page.read_text()) if options.only and there else {}
    text = ""
    for name in options.only or CLASSES:
        rows[name] = tried(name, not options.no_ranks)
        print(name, rows[name], flush=True)
        text = page({name: rows[name] for name in CLASSES if name in rows})
        if options.page:
            options.page.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
