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
from typing import TYPE_CHECKING, Any, Protocol

from cffem.study.report.canvas import decades, label, mark, picture
from cffem.study.report.markup import number
from cffem.study.report.scores.score_order import RANKS_DIFFER, equation_of
from cffem.study.report.summary import plain, term_epsilon

if TYPE_CHECKING:
    from cffem.study.report.report import Report, TermReport

DECADES = 4.0  # how far below ε the axis goes; what is smaller is named at its edge


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
    return picture(
        lambda figure: _draw_bars(figure, terms, quantity), alt, (8.6, 1.3 + 0.42 * len(terms))
    )


def _told(term: Scored) -> str:
    if term.deletion is None:
        return f"{plain(term.name)}: no score, {mark(term.decision).word}."
    bar = f"plus or minus {term.margin:.2g}" if term.margin is not None else "without error bar"
    return (
        f"{plain(term.name)}: {term.deletion:.3g} {bar}, ε {_number(term.epsilon)}, "
        f"{mark(term.decision).word}."
    )


def _draw_bars(figure: Any, terms: Sequence[Scored], quantity: str) -> None:
    axes = figure.add_subplot()
    epsilons = [term.epsilon for term in terms]
    low, high = _range(terms, [e for e in epsilons if e is not None and _positive(e)])
    shared = len(set(epsilons)) == 1
    if shared and _positive(epsilons[0]):
        axes.axvline(epsilons[0], color="black", linestyle="--", linewidth=1.2, zorder=1)
        axes.annotate(
            f"ε = {epsilons[0]:.3g}",
            (epsilons[0], 1.0),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="bottom",
        )
    for row, (term, epsilon) in enumerate(zip(terms, epsilons, strict=True)):
        if not shared and _positive(epsilon):
            axes.plot(
                [epsilon, epsilon],
                [row - 0.38, row + 0.38],
                color="black",
                linestyle="--",
                linewidth=1.2,
            )
        _draw_bar(axes, row, term, low)
        axes.text(
            1.02,
            row,
            _beside(term),
            transform=axes.get_yaxis_transform(),
            va="center",
            color=mark(term.decision).colour,
        )
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    decades(axes.xaxis)
    axes.set_ylim(len(terms) - 0.4, -0.6)
    axes.set_yticks(range(len(terms)), [label(term.name) for term in terms])
    axes.set_xlabel(quantity)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


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


def _draw_bar(axes: Any, row: int, term: Scored, low: float) -> None:
    look = mark(term.decision)
    if not _positive(term.deletion):
        return
    assert term.deletion is not None
    if term.margin is not None:
        start, end = max(term.deletion - term.margin, low), term.deletion + term.margin
        if end > low:
            axes.plot(
                [start, end],
                [row, row],
                color=look.colour,
                linewidth=2.2,
                solid_capstyle="butt",
                zorder=2,
            )
            for x in [end, *([start] if start > low else [])]:
                axes.plot(
                    [x, x], [row - 0.14, row + 0.14], color=look.colour, linewidth=1.6, zorder=2
                )
    face = "white" if term.decision == "unresolved" else look.colour
    where = max(term.deletion, low * 1.02)
    shape = look.marker if term.deletion > low else "<"
    axes.plot(
        where,
        row,
        marker=shape,
        color=look.colour,
        markerfacecolor=face,
        markersize=8,
        zorder=3,
        clip_on=False,
    )


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
    return picture(
        lambda figure: _draw_scatter(figure, terms, ringed),
        alt + (f" Disagreement: {listed}." if listed else ""),
        (7.2, 4.6),
    )


def _draw_scatter(figure: Any, terms: Sequence[TermReport], ringed: set[str]) -> None:
    axes = figure.add_subplot()
    for term in sorted(terms, key=lambda t: t.deletion or 0.0):
        look, point = mark(term.decision), (term.residual_contribution, term.deletion)
        face = "white" if term.decision == "unresolved" else look.colour
        axes.plot(
            *point,
            marker=look.marker,
            color=look.colour,
            markerfacecolor=face,
            markersize=8,
            linestyle="none",
            zorder=3,
        )
        if term.name in ringed:
            axes.plot(
                *point,
                marker="o",
                color="black",
                markerfacecolor="none",
                markersize=16,
                linestyle="none",
                zorder=2,
            )
        axes.annotate(
            label(term.name), point, xytext=(11, 3), textcoords="offset points", fontsize=9.5
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.28, y=0.16)
    for axis in (axes.xaxis, axes.yaxis):
        decades(axis)
    axes.set_xlabel("residual contribution C (norm of α T[u])")
    axes.set_ylabel("deletion score δ")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if ringed:
        axes.plot(
            [],
            [],
            marker="o",
            color="black",
            markerfacecolor="none",
            markersize=11,
            linestyle="none",
            label="ranks disagree",
        )
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))


def _positive(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0


def _number(value: float | None) -> str:
    return "not stated" if value is None else f"{value:.3g}"
