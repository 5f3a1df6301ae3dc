# SPDX-License-Identifier: MIT
"""`cffem validate`: the paper's benchmark contract on finite elements, with the paper's figure
beside ours.

Every theorem of the paper has a case that checks it; each figure with a criterion is a check, and
the exit code is one if any check fails. Under mpirun the cases are shared out among the ranks.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cffem.symbols.errors import InputError
from cffem.validation import validate_constraints, validate_decisions, validate_design
from cffem.validation.validate_board import (
    CHECK_HEADER,
    TERM_HEADER,
    Board,
    CaseSettings,
    check_rows,
    markdown,
    term_rows,
    write_tables,
)

CASES: dict[str, Callable[[CaseSettings], Board]] = {
    "gap": validate_design.gap,
    "reversal": validate_decisions.reversal,
    "aliasing": validate_design.aliasing,
    "trajectories": validate_design.trajectories,
    "advection": validate_design.advection,
    "maxwell": validate_constraints.maxwell,
    "leray": validate_constraints.leray,
    "pruning": validate_decisions.pruning,
    "observables": validate_decisions.observables,
}
QUICK_SEEDS, SEEDS = 3, 10


def validate(
    cases: Sequence[str] = (),
    seeds: int | None = None,
    quick: bool = False,
    out: str | Path = "out",
) -> int:
    """Run the checks and write tables, pictures and a page.

    Args:
        cases: which ones; all by default.
        seeds: how many seeds; ten, or three for a quick run.
        quick: coarser meshes.
        out: folder for `validation.md` and the folder `validation` with everything else.

    Returns:
        0 if every check is met, else 1.
    """
    from mpi4py import MPI

    chosen = list(dict.fromkeys(cases)) or list(CASES)
    unknown = [name for name in chosen if name not in CASES]
    if unknown:
        raise InputError(
            f"there is no validation case called {unknown[0]!r}; there are: {', '.join(CASES)}"
        )
    count = (QUICK_SEEDS if quick else SEEDS) if seeds is None else seeds
    if count < 1:
        raise InputError(f"the number of seeds must be positive, not {count}")
    comm = MPI.COMM_WORLD
    start = time.monotonic()
    settings = CaseSettings(tuple(range(count)), quick)
    mine = [
        run_case(name, settings, speak=comm.size == 1) for name in chosen[comm.rank :: comm.size]
    ]
    gathered = {board.case: board for part in comm.allgather(mine) for board in part}
    boards = [gathered[name] for name in chosen]
    if comm.rank == 0:
        for board in boards if comm.size > 1 else ():
            print_board(board)
        arguments = command(chosen if cases else [], seeds, quick, out)
        write_everything(boards, Path(out), arguments, time.monotonic() - start)
        summary(boards, time.monotonic() - start)
    return 1 if any(board.failed for board in boards) else 0


def run_case(name: str, settings: CaseSettings, speak: bool) -> Board:
    """One case, timed, and printed as soon as it is done where this rank is alone."""
    start = time.monotonic()
    board = CASES[name](settings)
    board.seconds = time.monotonic() - start
    if speak:
        print_board(board)
    return board


def command(cases: Sequence[str], seeds: int | None, quick: bool, out: str | Path) -> str:
    """The command line of this run."""
    parts = ["cffem validate", *(f"--case {name}" for name in cases)]
    parts += [f"--seeds {seeds}"] if seeds is not None else []
    parts += ["--quick"] if quick else []
    return " ".join([*parts, f"--out {out}"])


def print_board(board: Board) -> None:
    """The checks of a case as a table for a terminal."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{board.title} ({board.seconds:.0f} s)", title_justify="left")
    for column in ("", *CHECK_HEADER[1:5]):
        table.add_column(column, overflow="fold")
    for check, row in zip(board.checks, check_rows(board.checks), strict=True):
        style = "red" if check.passed is False else None
        table.add_row(row[5], *(cell.replace("[", r"\[") for cell in row[1:5]), style=style)
    Console().print(table)


def summary(boards: Sequence[Board], seconds: float) -> None:
    """The last lines: how many checks, and which fail."""
    checks = [c for board in boards for c in board.checks if c.passed is not None]
    failed = [c for board in boards for c in board.failed]
    print(f"{len(checks) - len(failed)} of {len(checks)} checks are met ({seconds:.0f} s)")
    for check in failed:
        print(f"FAILS {check.case}: {check.quantity} is {check.ours}, wanted {check.wanted}")


def write_everything(boards: Sequence[Board], out: Path, arguments: str, seconds: float) -> None:
    """Tables, pictures and the page."""
    from cffem.validation.validate_pictures import draw_pictures

    folder = out / "validation"
    write_tables(boards, folder)
    captions = draw_pictures(boards, folder)
    (out / "validation.md").write_text(page(boards, captions, arguments, seconds), encoding="utf-8")


def page(boards: Sequence[Board], captions: dict[str, str], arguments: str, seconds: float) -> str:
    """The page in Markdown."""
    import dolfinx

    import cffem

    checks = [c for board in boards for c in board.checks if c.passed is not None]
    met = sum(bool(c.passed) for c in checks)
    lines = [
        "# Validation",
        "",
        "The benchmark contract of R. Katende, *Counterfactual Operator Relevance for PDE "
        "Discovery: Screening, Pruning, and "
        "Identifiability*, on finite elements. The paper's deletion scores are one-step scores "
        "Δt·rms(α_j T_j[u]) on its samples, "
        "so they are compared with the same of ours; beside them stands δ_j, the distance of the "
        "factual and the deleted "
        'solution, both solved. Its "median restricted eigenvalue" is compared with λ_min of the '
        "normalised Gram of the true terms "
        "and with the median of λ_min over all supports of that size, which comes closer.",
        "",
        f"Made by `{arguments}` with cffem {cffem.__version__}, DOLFINx {dolfinx.__version__} and "
        "Python "
        f"{platform.python_version()} in {seconds:.0f} s. **{met} of {len(checks)} checks are "
        "met.**",
        "",
    ]
    for board in boards:
        lines += [
            f"## {board.title} (`{board.case}`)",
            "",
            "Settings:",
            "",
            *(f"- {text}" for text in board.settings),
            "",
        ]
        header, rows = CHECK_HEADER[1:], [row[1:] for row in check_rows(board.checks)]
        lines += [markdown(header, rows), ""]
        if board.terms:
            lines += [markdown(TERM_HEADER[1:], [row[1:] for row in term_rows(board.terms)]), ""]
    lines += ["## Pictures", ""]
    lines += [
        f"![{caption}](validation/{name})\n\n{caption}\n" for name, caption in captions.items()
    ]
    lines += [
        "The tables as CSV and LaTeX: `validation/checks.csv`, `terms.csv`, `checks.tex`, "
        "`terms.tex`."
    ]
    return "\n".join(lines) + "\n"


def main(options: Any) -> int:
    """The command line's entrance."""
    return validate(options.case or (), options.seeds, options.quick, options.out)
