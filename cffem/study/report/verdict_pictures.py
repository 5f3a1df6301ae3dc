# SPDX-License-Identifier: MIT
"""The two pictures of scores: each score with its error bar against ε, and residual contribution
against deletion score.

The first is the paper's three-way rule as one sees it: a bar right of ε is relevant, left of it
irrelevant, across it unresolved. The second shows the residual–counterfactual gap: a term may
explain much of the residual and yet hardly change the solution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Protocol

from cffem.study.report.canvas import label, mark, sheet_picture
from cffem.study.report.markup import number
from cffem.study.report.plots.sheet import TEXT, Panel, Sheet, width_of
from cffem.study.report.scores.score_order import RANKS_DIFFER, equation_of
from cffem.study.report.summary import plain, term_epsilon

if TYPE_CHECKING:
    from cffem.study.report.report import Report, TermReport

DECADES = 4.0  # how far below ε the axis goes; what is smaller is named at its edge
ROW = 40.0  # pixels of a term


class Scored(Protocol):
    """What has a score, an error bar and a verdict: a term, or another intervention."""

    @property
    def name(self) -> str: ...

    @property
    def deletion(self) -> float | None: ...

    @property
    def margin(self) -> float | None: ...

    @property
    def epsilon(self) -> float | None: ...

    @property
    def decision(self) -> str: ...


def error_bars(report: Report) -> str:
    """Score ± margin of every term against ε on a logarithmic axis."""
    terms = [replace(term, epsilon=term_epsilon(report, term)) for term in report.terms.values()]
    norm = plain(str(report.sections["scope"].get("norm", "")), 20)
    return score_bars(terms, f"deletion score δ with error bar, norm {norm}")


def score_bars(terms: Sequence[Scored], quantity: str) -> str:
    """Scores with error bars, each term with its own ε.

    Args:
        terms: deletion, margin, epsilon and decision of these are drawn.
        quantity: what the axis shows.
    """
    if not any(_positive(term.deletion) for term in terms):
        return '<p class="skipped">No picture: no deletion has a score.</p>'
    alt = f"{quantity}, against the tolerance. " + " ".join(map(_told, terms))
    size = (826.0, 74 + ROW * len(terms))
    return sheet_picture(lambda sheet: _draw_bars(sheet, terms, quantity), alt, size)


def _told(term: Scored) -> str:
    if term.deletion is None:
        return f"{plain(term.name)}: no score, {mark(term.decision).word}."
    bar = f"plus or minus {term.margin:.2g}" if term.margin is not None else "without error bar"
    return (
        f"{plain(term.name)}: {term.deletion:.3g} {bar}, ε {_number(term.epsilon)}, "
        f"{mark(term.decision).word}."
    )


def _draw_bars(sheet: Sheet, terms: Sequence[Scored], quantity: str) -> None:
    epsilons = [term.epsilon for term in terms]
    names, beside = [label(term.name) for term in terms], [_beside(term) for term in terms]
    left = 16 + max(map(width_of, names))
    right = 18 + max(map(width_of, beside))
    panel = Panel(
        sheet, left, 26, max(sheet.width - left - right, 160.0), ROW * len(terms),
        _range(terms, [e for e in epsilons if e is not None and _positive(e)]),
        (len(terms) - 0.5, -0.5), (True, False),
    )  # fmt: skip
    panel.ticks_across(grid=True, words=quantity)
    panel.ticks_up(list(enumerate(names)), size=TEXT)
    panel.frame()
    shared = len(set(epsilons)) == 1
    if shared and epsilons[0] is not None and _positive(epsilons[0]):
        panel.line([epsilons[0]] * 2, panel.y, "black", width=1.4, dash="6 4")
        sheet.text(panel.across(epsilons[0]), 18, f"ε = {epsilons[0]:.3g}", anchor="middle")
    for row, (term, epsilon) in enumerate(zip(terms, epsilons, strict=True)):
        if not shared and epsilon is not None and _positive(epsilon):
            panel.line([epsilon] * 2, [row - 0.38, row + 0.38], "black", width=1.4, dash="6 4")
        _draw_bar(panel, row, term)
        sheet.text(panel.right + 14, panel.up(row) + 4.5, beside[row],
                   colour=mark(term.decision).colour)  # fmt: skip


def _range(terms: Sequence[Scored], epsilons: Sequence[float]) -> tuple[float, float]:
    """Ends of the axis: all bars, but at most `DECADES` below ε."""
    bars = [
        (t.deletion, t.margin or 0.0)
        for t in terms
        if t.deletion is not None and _positive(t.deletion)
    ]
    floor = min(epsilons, default=min(score for score, _ in bars)) * 10**-DECADES
    lows = [value for score, margin in bars for value in (score, score - margin) if value >= floor]
    return min([*lows, *epsilons]) / 3, max(
        [*(score + margin for score, margin in bars), *epsilons]
    ) * 2.5


def _draw_bar(panel: Panel, row: int, term: Scored) -> None:
    look, low = mark(term.decision), panel.x[0]
    if not _positive(term.deletion):
        return
    assert term.deletion is not None
    if term.margin is not None:
        start, end = max(term.deletion - term.margin, low), term.deletion + term.margin
        if end > low:
            panel.line([start, end], [row, row], look.colour, width=2.6)
            for x in [end, *([start] if start > low else [])]:
                panel.line([x, x], [row - 0.14, row + 0.14], look.colour, width=1.8)
    face = "white" if term.decision == "unresolved" else look.colour
    where = max(term.deletion, low * 1.02)
    shape = look.marker if term.deletion > low else "<"
    panel.marker(where, row, shape, look.colour, face=face)


def _beside(term: Scored) -> str:
    word = mark(term.decision).word
    if term.deletion is None:
        return f"{word} (no score)"
    bar = f" ± {number(term.margin)}" if term.margin is not None else ", no error bar"
    return f"{word}: {number(term.deletion)}{bar}"


# Two rankings
# --------------------------------------------------------------------------------------------------


def disagreements(terms: Sequence[TermReport]) -> list[tuple[TermReport, TermReport]]:
    """Pairs (a, b) where a contributes more to the residual than b but changes the solution less.

    Example:
        >>> from cffem.study.report.report import TermReport
        >>> small = TermReport("b", "", 1.0, residual_contribution=1.0, deletion=5.0)
        >>> large = TermReport("a", "", 1.0, residual_contribution=2.0, deletion=1.0)
        >>> [(x.name, y.name) for x, y in disagreements([small, large])]
        [('a', 'b')]
    """
    both = [
        term for term in terms if _positive(term.residual_contribution) and _positive(term.deletion)
    ]
    found = []
    for pair in combinations(both, 2):
        b, a = sorted(pair, key=lambda term: term.residual_contribution or 0.0)
        more = (a.residual_contribution or 0.0) > RANKS_DIFFER * (b.residual_contribution or 0.0)
        if more and equation_of(a) == equation_of(b) and _clearly_less(a, b):
            found.append((a, b))
    return found


def _clearly_less(a: TermReport, b: TermReport) -> bool:
    """Whether a score is below another by more than both error bars; without bars, by a factor."""
    first, second = a.deletion or 0.0, b.deletion or 0.0
    if a.margin is None or b.margin is None:
        return RANKS_DIFFER * first < second
    return first + a.margin < second - b.margin


def comparable(report: Report) -> list[TermReport]:
    """The terms with both scores; of a term that vanishes on the constraint class both are
    rounding errors.
    """
    given = [term for term in report.terms.values() if term.decision != "constraint_null"]
    return [
        term for term in given if _positive(term.residual_contribution) and _positive(term.deletion)
    ]


def scatter(report: Report) -> str:
    """Residual contribution against deletion score, the terms whose ranks differ ringed."""
    terms = comparable(report)
    if len(terms) < 2:
        return (
            '<p class="skipped">No picture: fewer than two terms have both a residual '
            "contribution and a deletion score.</p>"
        )
    pairs = disagreements(terms)
    listed = "; ".join(
        f"{plain(a.name)} contributes more than {plain(b.name)} but matters less" for a, b in pairs
    )
    alt = "Residual contribution against deletion score, both logarithmic. " + " ".join(
        f"{plain(t.name)}: {t.residual_contribution:.2g} and {t.deletion:.2g}." for t in terms
    )
    ringed = {term.name for pair in pairs for term in pair}
    return sheet_picture(
        lambda sheet: _draw_scatter(sheet, terms, ringed),
        alt + (f" Disagreement: {listed}." if listed else ""),
        (690.0, 440.0),
    )


def _draw_scatter(sheet: Sheet, terms: Sequence[TermReport], ringed: set[str]) -> None:
    across = [term.residual_contribution or 0.0 for term in terms]
    up = [term.deletion or 0.0 for term in terms]
    panel = Panel(
        sheet, 92, 30, 580, 362, _widened(across, 0.28), _widened(up, 0.16), (True, True)
    )  # fmt: skip
    panel.ticks_across(grid=True, words="residual contribution C (norm of α T[u])")
    panel.ticks_up(grid=True, words="deletion score δ")
    panel.frame()
    for term, x, y in sorted(zip(terms, across, up, strict=True), key=lambda each: each[2]):
        look = mark(term.decision)
        face = "white" if term.decision == "unresolved" else look.colour
        if term.name in ringed:
            panel.marker(x, y, "o", "black", size=10.5, face="none")
        panel.marker(x, y, look.marker, look.colour, face=face)
        sheet.text(panel.across(x) + 14, panel.up(y) - 3, label(term.name), size=12.5)
    if ringed:
        sheet.add("circle", cx=320, cy=15, r=7, fill="none", stroke="black", stroke_width=1.3)
        sheet.text(334, 20, "ranks disagree")


def _widened(values: Sequence[float], share: float) -> tuple[float, float]:
    """Ends of a logarithmic axis that is longer than the values by a share on both sides."""
    low, high = min(values), max(values)
    factor = (high / low) ** share if high > low else 3.0
    return low / factor, high * factor


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _number(value: float | None) -> str:
    return "not stated" if value is None else f"{value:.3g}"
