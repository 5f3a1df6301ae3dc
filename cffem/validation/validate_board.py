# SPDX-License-Identifier: MIT
"""What `cffem validate` collects: checks with the paper's figure beside ours, one row per term, and
their tables.

The tables go to CSV for programs, to LaTeX for papers and to Markdown for the page.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from cffem.symbols.latex_text import document_text


@dataclass(frozen=True)
class CaseSettings:
    """How a case is run.

    Args:
        seeds: the seeds of the noise draws or of the random problems.
        quick: coarser meshes and fewer steps, for a run of two minutes.
    """

    seeds: tuple[int, ...] = tuple(range(10))
    quick: bool = False


@dataclass(frozen=True)
class Check:
    """One figure: what the paper has, what we have, what is wanted.

    Args:
        case: the case it belongs to.
        quantity: what is measured.
        paper: the paper's figure, or None where it has none.
        ours: our figure.
        wanted: the criterion in words; empty for a figure that is only reported.
        passed: whether it is met; None where nothing is wanted.
    """

    case: str
    quantity: str
    paper: float | str | None
    ours: float | str
    wanted: str = ""
    passed: bool | None = None


@dataclass(frozen=True)
class TermRow:
    """What is known of one term in one case; the paper's figures where it has them, ours as means
    over the seeds.

    Args:
        case, term: what it is about.
        true: the true coefficient, zero for a distractor.
        paper_selected, selected: how often the screen selects it.
        paper_coefficient, coefficient: the fitted coefficient.
        paper_rci, rci: C_j / ‖Σ α_k T_k[u]‖.
        contribution: C_j in L2(Ω×(0,T)).
        paper_one_step, one_step: Δt·rms(α_j T_j[u]) over the paper's samples.
        deletion: δ_j of the really solved deletion.
        linearised: ‖L_u⁻¹ α_j T_j[u]‖.
        verdict: the three-way decision at the case's ε.
    """

    case: str
    term: str
    true: float
    paper_selected: float | None = None
    selected: float | None = None
    paper_coefficient: float | None = None
    coefficient: float | None = None
    paper_rci: float | None = None
    rci: float | None = None
    contribution: float | None = None
    paper_one_step: float | None = None
    one_step: float | None = None
    deletion: float | None = None
    linearised: float | None = None
    verdict: str = ""


@dataclass
class Board:
    """The outcome of one case."""

    case: str
    title: str = ""
    settings: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    terms: list[TermRow] = field(default_factory=list)
    pictures: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    def figure(self, quantity: str, ours: float | str, paper: float | str | None = None) -> None:
        """A figure that is reported without a criterion."""
        self.checks.append(Check(self.case, quantity, paper, ours))

    def check(
        self,
        quantity: str,
        ours: float | str,
        passed: bool,
        wanted: str,
        paper: float | str | None = None,
    ) -> None:
        """A figure with a criterion."""
        self.checks.append(Check(self.case, quantity, paper, ours, wanted, bool(passed)))

    def near(self, quantity: str, ours: float, paper: float, tolerance: float) -> None:
        """A figure that must agree with the paper's to a relative tolerance."""
        self.check(
            quantity,
            ours,
            abs(ours - paper) <= tolerance * abs(paper),
            f"within {tolerance:.1%} of the paper",
            paper,
        )

    def near_value(self, quantity: str, ours: float, exact: float, tolerance: float) -> None:
        """A figure that must agree with an exact value to a relative tolerance."""
        self.check(
            f"{quantity} (exact: {exact:.6g})",
            ours,
            abs(ours - exact) <= tolerance * abs(exact),
            f"error ≤ {tolerance:.1%}",
        )

    def everywhere(
        self, quantity: str, count: int, total: int, paper: float | str | None = None
    ) -> None:
        """Something that must happen for every seed."""
        self.check(quantity, f"{count} of {total}", count == total, f"{total} of {total}", paper)

    @property
    def failed(self) -> list[Check]:
        """Checks that are not met."""
        return [c for c in self.checks if c.passed is False]


def shown(value: float | str | bool | None) -> str:
    """A value as people read it.

    Example:
        >>> shown(0.0063097), shown(None), shown(1.0), shown(3e-15), shown(math.nan)
        ('0.00631', '–', '1', '3e-15', 'n/a')
    """
    if value is None:
        return "–"
    if isinstance(value, str | int):
        return str(value)
    if isinstance(value, float) and math.isnan(value):
        return "n/a"
    return f"{value:.4g}"


def state(check: Check) -> str:
    """The word for a check's outcome."""
    return "" if check.passed is None else "ok" if check.passed else "FAILS"


CHECK_HEADER = ("case", "quantity", "paper", "ours", "wanted", "")
TERM_HEADER = (
    "case",
    "term",
    "true",
    "selected (paper)",
    "selected",
    "coefficient (paper)",
    "coefficient",
    "RCI (paper)",
    "RCI",
    "C_j",
    "one step (paper)",
    "one step",
    "δ_j",
    "linearised",
    "verdict",
)


def check_rows(checks: Sequence[Check]) -> list[tuple[str, ...]]:
    """The checks as rows of text."""
    return [(c.case, c.quantity, shown(c.paper), shown(c.ours), c.wanted, state(c)) for c in checks]


def term_rows(terms: Sequence[TermRow]) -> list[tuple[str, ...]]:
    """The terms as rows of text."""
    return [
        (
            r.case,
            r.term,
            shown(r.true),
            shown(r.paper_selected),
            shown(r.selected),
            shown(r.paper_coefficient),
            shown(r.coefficient),
            shown(r.paper_rci),
            shown(r.rci),
            shown(r.contribution),
            shown(r.paper_one_step),
            shown(r.one_step),
            shown(r.deletion),
            shown(r.linearised),
            r.verdict,
        )
        for r in terms
    ]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Example:
        >>> print(markdown(("a", "b"), [("1", "x|y")]))
        | a | b |
        |---|---|
        | 1 | x\\|y |
    """
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def latex(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A LaTeX table in the booktabs style, with every character that LaTeX would read as a
    command escaped.
    """

    def line(cells: Sequence[str]) -> str:
        return " & ".join(document_text(c) for c in cells) + r" \\"

    body = "\n".join(line(row) for row in rows)
    columns = "l" * len(header)
    return (
        f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{line(header)}\n\\midrule\n"
        f"{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def write_tables(boards: Sequence[Board], folder: Path) -> None:
    """checks.csv, terms.csv with full precision, and both as LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    checks, terms = [c for b in boards for c in b.checks], [r for b in boards for r in b.terms]
    for name, kind, records in (("checks", Check, checks), ("terms", TermRow, terms)):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            columns = [f.name for f in fields(kind)]
            writer.writerow(columns)
            writer.writerows([getattr(record, column) for column in columns] for record in records)
    (folder / "checks.tex").write_text(latex(CHECK_HEADER, check_rows(checks)), encoding="utf-8")
    (folder / "terms.tex").write_text(latex(TERM_HEADER, term_rows(terms)), encoding="utf-8")
