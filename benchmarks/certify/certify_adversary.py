# SPDX-License-Identifier: MIT
"""`cffem bench certify --adversary`: error bars attacked on purpose, with random members of every
attack that once succeeded.

An attack makes problems whose exact answers are known by other means (sums of eigenmodes, series,
formulas) and that are made so that something is easy to overlook: data between the points of a
rule, fields that are wrong where nobody looks, interventions that a certificate forgets, meshes
that are no domains. What counts is that no guaranteed bar is violated and that no verdict is wrong;
how often the answer is `unresolved`, or there is no bar at all, is told for each attack.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Board
from cffem.engine.solve.linear import SolveError
from cffem.symbols.errors import InputError
from cffem.verdicts import decide

Attack = Callable[[np.random.Generator], "Finding"]
# Thresholds at which a score is decided: its true value times 10^±1.5, closer together near the
# true value.
THRESHOLDS = 10.0 ** np.array(
    [-1.5, -0.7, -0.3, -0.1, -0.03, -0.01, -0.003, 0.003, 0.01, 0.03, 0.1, 0.3, 0.7, 1.5]
)
# How many of 600 cases, and how many of a sample of 60 in the tests, are of an attack whose cases
# are cheap.
CASES, SAMPLE = 600, 60
START, END = "<!-- adversary: begin -->", "<!-- adversary: end -->"


@dataclass(frozen=True)
class Finding:
    """What an attack came to.

    Attributes:
        attack: its name.
        case: the member of the attack, for who wants to repeat it.
        kind: "guaranteed", "estimated", "none" where there is no error bar, or "raised" where there
            was an exception.
        error, margin: the true error and its bar.
        truth: the true value that decisions are about.
        asked, wrong, unresolved: how many decisions were asked for, and came out so.
    """

    attack: str
    case: str
    kind: str
    error: float
    margin: float
    truth: float
    asked: int = 0
    wrong: int = 0
    unresolved: int = 0

    @property
    def covered(self) -> bool:
        """Whether the bar is at least the error; the slack is that of the reference values."""
        if self.kind in ("none", "raised"):
            return self.kind == "none"
        return self.margin >= self.error * (1 - 1e-6) - 1e-8 * abs(self.truth)


def judged(attack: str, case: str, bound: Any, truth: float) -> Finding:
    """A bound of a score or of an effect against its true value.

    Args:
        attack, case: what it was.
        bound: a `DeletionBound`, an `ObservableMargin`, or a `NoCertificate`.
        truth: the true score.
    """
    if not bound:
        return Finding(
            attack, case, "none", np.nan, np.inf, truth, len(THRESHOLDS), 0, len(THRESHOLDS)
        )
    found = [decide(bound.score, truth * factor, margin=bound.margin) for factor in THRESHOLDS]
    right = ["relevant" if factor < 1 else "irrelevant" for factor in THRESHOLDS]
    wrong = sum(
        verdict not in ("unresolved", other) for verdict, other in zip(found, right, strict=True)
    )
    error = abs(float(bound.score) - truth)
    asked, open_ = len(THRESHOLDS), found.count("unresolved")
    return Finding(
        attack, case, bound.certificate.kind, error, float(bound.margin), truth, asked, wrong, open_
    )


def judged_error(attack: str, case: str, certificate: Any, error: float, truth: float) -> Finding:
    """A certificate of a solution against a lower bound of its error, such as the error of
    its norm.
    """
    if not certificate:
        return Finding(attack, case, "none", np.nan, np.inf, truth)
    return Finding(attack, case, certificate.kind, error, float(certificate.value), truth)


def attacks() -> dict[str, Attack]:
    """All attacks by name."""
    from benchmarks.certify import (
        adversary_data,
        adversary_domains,
        adversary_fields,
        adversary_rough,
    )

    modules = (adversary_data, adversary_rough, adversary_fields, adversary_domains)
    return {name: attack for module in modules for name, attack in module.ATTACKS.items()}


def attacked(
    count: int, seed: int, names: Sequence[str] = (), tell: Callable[[str], None] = print
) -> list[Finding]:
    """Cases of all attacks, or of those named, about equally many of each; the same seed makes the
    same cases.

    Args:
        count: how many altogether.
        seed: of the random numbers.
        names: the attacks, by default all.
        tell: gets one line for each case that is not as it should be, and one for each attack.
    """
    chosen = {name: attack for name, attack in attacks().items() if not names or name in names}
    shares = np.diff(np.linspace(0, count, len(chosen) + 1).astype(int))
    found: list[Finding] = []
    for (name, attack), share in zip(chosen.items(), shares, strict=True):
        random = np.random.default_rng([seed, *name.encode()])
        mine = [_tried(name, attack, random) for _ in range(share)]
        for finding in mine:
            if not finding.covered or finding.wrong:
                tell(
                    f"  {name}: {finding.case}: {finding.kind}, error {finding.error:.4g}, bar "
                    f"{finding.margin:.4g}"
                )
        if mine:
            tell(_row(name, mine))
        found += mine
    return found


def _tried(name: str, attack: Attack, random: np.random.Generator) -> Finding:
    """One case; what is refused in words has no error bar, and any other exception is a
    finding: a study would end with it.
    """
    try:
        return attack(random)
    except (InputError, SolveError) as refusal:
        return Finding(
            name,
            str(refusal)[:200],
            "none",
            np.nan,
            np.inf,
            np.nan,
            len(THRESHOLDS),
            0,
            len(THRESHOLDS),
        )
    except Exception as error:
        return Finding(
            name, f"{type(error).__name__}: {error}"[:200], "raised", np.nan, np.nan, np.nan
        )


def adversary_section(
    board: Board, count: int, seed: int, names: Sequence[str] = ()
) -> list[Finding]:
    """All attacks against their requirements."""
    board.line(HEAD)
    found = attacked(count, seed, names, board.line)
    guaranteed, estimated = (
        [f for f in found if f.kind == kind] for kind in ("guaranteed", "estimated")
    )
    violated, wrong = sum(not f.covered for f in guaranteed), sum(f.wrong for f in found)
    raised = sum(f.kind == "raised" for f in found)
    board.target("exceptions", raised, raised == 0, "0")
    board.target(f"violated guaranteed bars of {len(guaranteed)}", violated, violated == 0, "0")
    board.target(f"wrong verdicts of {sum(f.asked for f in found)}", wrong, wrong == 0, "0")
    if estimated:
        share = float(np.mean([f.covered for f in estimated]))
        board.target(
            f"estimated bars that cover, of {len(estimated)}", share, share >= 0.99, ">= 0.99"
        )
    return found


# Tables
# --------------------------------------------------------------------------------------------------

HEAD = (
    f"{'attack':<50}{'n':>5}{'guar.':>7}{'est.':>6}{'none':>6}{'missed':>8}{'wrong':>7}"
    f"{'unresolved':>12}{'bar/error':>11}"
)


@dataclass(frozen=True)
class Figures:
    """What the table says about one attack."""

    cases: int
    guaranteed: int
    estimated: int
    none: int
    missed: int
    wrong: int
    unresolved: str
    ratio: str

    @classmethod
    def of(cls, found: Sequence[Finding]) -> Figures:
        """The figures of some findings."""
        kinds = [sum(f.kind == kind for f in found) for kind in ("guaranteed", "estimated", "none")]
        missed, wrong = sum(not f.covered for f in found), sum(f.wrong for f in found)
        asked = sum(f.asked for f in found)
        ratios = [
            f.margin / max(f.error, 1e-300) for f in found if f.kind in ("guaranteed", "estimated")
        ]
        share = f"{100 * sum(f.unresolved for f in found) / asked:.0f} %" if asked else "–"
        ratio = f"{np.median(ratios):.3g}" if ratios else "–"
        return cls(len(found), kinds[0], kinds[1], kinds[2], missed, wrong, share, ratio)


def _row(name: str, found: Sequence[Finding]) -> str:
    f = Figures.of(found)
    counts = f"{f.cases:>5}{f.guaranteed:>7}{f.estimated:>6}{f.none:>6}{f.missed:>8}{f.wrong:>7}"
    return f"{name:<50}{counts}{f.unresolved:>12}{f.ratio:>11}"


def page_section(found: Iterable[Finding], command: str, version: str) -> str:
    """The section of `docs/bench_certify.md` as Markdown.

    Args:
        found: all findings.
        command: how they were made.
        version: with what.
    """
    findings = list(found)
    names = list(dict.fromkeys(f.attack for f in findings))
    rows = []
    for name in names:
        mine = [f for f in findings if f.attack == name]
        rows.append(f"| {name} | " + " | ".join(map(str, astuple(Figures.of(mine)))) + " |")
    bars = [f for f in findings if f.kind == "estimated"]
    covered = f"{100 * np.mean([f.covered for f in bars]):.1f} %" if bars else "none"
    violated = sum(not f.covered for f in findings if f.kind == "guaranteed")
    wrong = sum(f.wrong for f in findings)
    head = [
        f"Made by `{command}` with {version}. Random members of every attack that once broke an "
        "error bar, against exact values.",
        "*Guaranteed*, *estimated*, *none*: cases by the kind of their error bar. *Missed*: bars "
        "that are smaller than the error.",
        f"*Wrong*: wrong verdicts at {len(THRESHOLDS)} thresholds for each case, most of them "
        "within a factor of two.",
        "*Unresolved*: share of these thresholds. *Bar/error*: median.",
    ]
    counted = f"{violated} violated guaranteed bars, {wrong} wrong verdicts"
    whole = f"{len(findings)} cases: {counted}; {covered} of {len(bars)} estimated bars cover."
    table = [
        "| attack | cases | guaranteed | estimated | none | missed | wrong | unresolved | "
        "bar/error |",
        "|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
    return "\n".join([START, "## Attacked on purpose", "", *head, "", whole, "", *table, END])


def write_section(path: Path, section: str) -> None:
    """Put the section into a page, in the place of the one that is there, or at its end."""
    text = path.read_text() if path.exists() else ""
    pattern = re.compile(re.escape(START) + ".*" + re.escape(END), re.DOTALL)
    path.write_text(
        pattern.sub(lambda _: section, text)
        if pattern.search(text)
        else f"{text.rstrip()}\n\n{section}\n"
    )
