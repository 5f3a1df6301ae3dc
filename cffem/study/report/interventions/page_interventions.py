# SPDX-License-Identifier: MIT
"""The part of the page about named interventions and pairs of terms: scores with error bars,
tables, and one picture of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cffem.study.report.canvas import formula, label, picture
from cffem.study.report.interventions.intervention_report import (
    COMPENSATION,
    REDUNDANT,
    SYNERGY,
    InterventionReport,
)
from cffem.study.report.markup import (
    Raw,
    details,
    figure,
    number,
    paragraph,
    skipped,
    table,
    text,
    verdict,
)
from cffem.study.report.summary import by_field, plain
from cffem.study.report.verdict_pictures import score_bars

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cffem.study.report.report import Report

# The letters of relations in the picture of all pairs.
LETTERS = {REDUNDANT: "R", SYNERGY: "S", COMPENSATION: "C"}
MOST_NAMES = 30  # terms of which all pairs are drawn


def page_interventions(report: Report) -> str:
    """Named interventions first, then pairs."""
    if (empty := skipped(report.sections["interventions"])) is not None:
        return empty
    found = list(report.interventions.values())
    named, pairs = [e for e in found if not e.pair], [e for e in found if e.pair]
    parts: list[str] = []
    if named:
        caption = "The distance of each changed solution from the factual one, against ε (dashed)."
        parts += [
            figure(score_bars(named, "score δ with error bar"), caption),
            _table("Named interventions", named),
            *(_proof(each) for each in named),
        ]
    if pairs:
        parts += _pairs(report, pairs)
    return "".join(parts)


def _table(title: str, found: Sequence[InterventionReport]) -> Raw:
    rows = [
        (
            each.name,
            Raw(formula(each.latex, each.intervention)),
            each.score,
            each.margin,
            each.epsilon,
            each.certificate or "none",
            verdict(each.decision),
            "; ".join(filter(None, [by_field(each).strip(" ()"), each.reason, each.conditions])),
        )
        for each in found
    ]
    head = ("name", "intervention", "score δ", "margin ±", "ε", "error bar", "verdict", "why")
    return table(title, head, rows)


def _proof(each: InterventionReport) -> Raw:
    proof = each.proof or {}
    if each.certificate is None:
        why = proof.get("reason") or each.reason or "none was computed"
        return details(f"{plain(each.name)}: no error bar", paragraph(why))
    hypotheses = [(pair[0], pair[1]) for pair in proof.get("hypotheses", ()) if len(pair) == 2]
    stated = proof.get("inequality")
    return details(
        f"{plain(each.name)}: {each.certificate}, margin {number(each.margin)}",
        paragraph(f"Method: {each.method or 'not stated'}"),
        *([paragraph(Raw(f"Inequality: <code>{text(stated)}</code>"))] if stated else []),
        *(
            [table("Hypotheses", ("hypothesis", "how it was checked"), hypotheses)]
            if hypotheses
            else []
        ),
    )


# Pairs
# --------------------------------------------------------------------------------------------------


def _pairs(report: Report, pairs: Sequence[InterventionReport]) -> list[str]:
    acting = [each for each in pairs if each.relations]
    rows = [
        (
            each.name,
            ", ".join(each.relations),
            each.score,
            each.margin,
            verdict(each.decision),
            each.interaction,
            each.interaction_margin,
            each.sentence,
        )
        for each in acting
    ]
    head = (
        "pair",
        "relation",
        "δ of both",
        "margin ±",
        "verdict",
        "δ of both − sum",
        "margin ±",
        "in words",
    )
    told = (
        table("Pairs that act together", head, rows)
        if rows
        else paragraph("No pair of terms is redundant, cancels, or acts together beyond its bars.")
    )
    caption = (
        "Scores of all pairs deleted together, relative to ε; on the diagonal single deletions. "
        "Black frames: relevant. R: redundant, S: synergy, C: compensation."
    )
    return [
        figure(pairs_picture(report, pairs), caption),
        told,
        details("All pairs", _table("Pairs of terms", pairs)),
    ]


def pairs_picture(report: Report, pairs: Sequence[InterventionReport]) -> str:
    """The scores of all pairs relative to ε as a triangle of colours."""
    names = [name for name in report.terms if any(name in each.terms for each in pairs)]
    if not 2 <= len(names) <= MOST_NAMES:
        return '<p class="skipped">No picture: too many pairs.</p>'
    alt = "Scores of pairs relative to the tolerance. " + " ".join(
        f"{plain(each.name)}: {number(each.score)}, {each.decision}."
        + (f" {plain(each.sentence)}." if each.sentence else "")
        for each in pairs
    )
    side = 1.8 + 0.55 * len(names)
    return picture(lambda fig: _draw(fig, report, names, pairs), alt, (side + 1.4, side))


def _draw(
    fig: Figure, report: Report, names: Sequence[str], pairs: Sequence[InterventionReport]
) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.patches import Rectangle

    count, place = len(names), {name: k for k, name in enumerate(names)}
    values = np.full((count, count), np.nan)
    marks: dict[tuple[int, int], tuple[str, bool]] = {}
    for name, k in place.items():
        term = report.terms[name]
        values[k, k] = _ratio(term.deletion, term.epsilon)
        marks[k, k] = ("", term.decision == "relevant")
    for each in pairs:
        column, row = sorted(place[name] for name in each.terms)
        values[row, column] = _ratio(each.score, each.epsilon)
        letters = "".join(LETTERS.get(relation, "") for relation in each.relations)
        marks[row, column] = (letters, each.decision == "relevant")
    axes = fig.add_subplot()
    known = values[np.isfinite(values) & (values > 0)]
    if not known.size:
        return
    top = max(float(known.max()), 10.0)
    low = max(min(float(known.min()), 0.1), 1e-4)
    image = axes.imshow(
        np.clip(values, low, top), cmap="viridis", norm=LogNorm(low, top), aspect="equal"
    )
    for (row, column), (letters, relevant) in marks.items():
        if relevant:
            corner = (column - 0.46, row - 0.46)
            axes.add_patch(Rectangle(corner, 0.92, 0.92, fill=False, color="black", linewidth=1.8))
        bright = np.isfinite(values[row, column]) and values[row, column] > np.sqrt(low * top)
        axes.text(
            column,
            row,
            letters,
            ha="center",
            va="center",
            color="black" if bright else "white",
            fontweight="bold",
        )
    shown = [label(name) for name in names]
    axes.set_xticks(range(count), shown, rotation=45, ha="right")
    axes.set_yticks(range(count), shown)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    colours = fig.colorbar(image, ax=axes, label="δ / ε", shrink=0.8)
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(top)) + 1)
    # Matplotlib would write them as mathematics, which pictures do not read.
    colours.set_ticks([10.0**k for k in powers], labels=[f"{10.0**k:g}" for k in powers])
    colours.minorticks_off()


def _ratio(score: float | None, epsilon: float | None) -> float:
    return score / epsilon if score is not None and epsilon else float("nan")
