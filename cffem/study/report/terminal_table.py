# SPDX-License-Identifier: MIT
"""The table of a report as a person reads it on a terminal."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cffem.study.report.summary import (
    by_field,
    interventions_sentence,
    notice,
    places_sentence,
    plain,
    screen_sentence,
    sensor_sentence,
    sentences,
)

if TYPE_CHECKING:
    from cffem.study.report.report import Report

LONGEST_NAME = 32


def as_text(report: Report, width: int = 110) -> str:
    """Whether the fit can be believed, the verdicts with their numbers, three sentences about
    them, then the scope in one.
    """
    table = Table(title=None, header_style="", box=None, pad_edge=False)
    measured = any(term.misfit is not None for term in report.terms.values())
    sensed = any((term.sensors or {}).get("visibility") for term in report.terms.values())
    for name, right in (
        ("term", False),
        ("coefficient", True),
        ("deletion δ", True),
        *([("misfit", True)] if measured else []),
        *([("sensors δ", True), ("Δχ²", True), ("need", False)] if sensed else []),
        *([] if sensed else [("linearised", True)]),
        ("margin", True),
        ("error bar", False),
        ("verdict", False),
    ):
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "verdict")
    for term in report.terms.values():
        verdict = f"{term.decision}{by_field(term)}" + (
            f": {plain(term.reason)}" if term.reason else ""
        )
        misfit = ["–" if term.misfit is None else f"{term.misfit:.1%}"] if measured else []
        seen = term.sensors or {}
        by_sensors = [
            shown(seen.get("score")),
            shown(seen.get("delta_chi2")),
            seen.get("need") or seen.get("visibility") or "–",
        ]
        numbers = [
            f"{term.coefficient:g}",
            shown(term.deletion),
            *misfit,
            *(by_sensors if sensed else []),
            *([] if sensed else [shown(term.linearised)]),
            shown(term.margin),
        ]
        # Names are the user's: shown as they are, never read as markup.
        table.add_row(
            Text(plain(term.name, LONGEST_NAME)),
            *numbers,
            Text(term.certificate or "none"),
            Text(verdict),
        )
    out = io.StringIO()
    # In a notebook a console would show what it is to write down.
    console = Console(
        file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False
    )
    if first := screen_sentence(report):
        console.print(Text(first + "\n"), soft_wrap=False)
    console.print(table)
    if report.interventions:
        console.print(Text("\ninterventions:"))
        console.print(_interventions(report))
    for sentence in (
        notice(report),
        *sentences(report)[:2],
        sensor_sentence(report),
        sentences(report)[2],
        interventions_sentence(report),
        places_sentence(report),
        plain(str(report.sections["scope"].get("sentence", ""))),
    ):
        if sentence:
            console.print(Text("\n" + sentence), soft_wrap=False)
    return out.getvalue().rstrip()


def _interventions(report: Report) -> Table:
    """Scores and verdicts of named interventions, and of pairs that interact."""
    table = Table(title=None, header_style="", box=None, pad_edge=False)
    for name, right in (
        ("intervention", False),
        ("score δ", True),
        ("margin", True),
        ("error bar", False),
        ("verdict", False),
    ):
        table.add_column(name, justify="right" if right else "left", no_wrap=name != "verdict")
    for each in report.interventions.values():
        if each.pair and not each.relations:
            continue
        told = "; ".join(filter(None, [plain(each.reason), plain(each.sentence)]))
        table.add_row(
            Text(plain(each.name, LONGEST_NAME)),
            shown(each.score),
            shown(each.margin),
            Text(each.certificate or "none"),
            Text(f"{each.decision}{by_field(each)}" + (f": {told}" if told else "")),
        )
    return table


def shown(value: float | None) -> str:
    """A number with three digits, or a dash where there is none."""
    return "–" if value is None else f"{value:.3g}"
