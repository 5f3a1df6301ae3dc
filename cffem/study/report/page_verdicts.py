# SPDX-License-Identifier: MIT
"""The parts of the page about verdicts: tables and pictures of scores, scope, observables,
fields and certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from cffem.study.report.canvas import formula
from cffem.study.report.field_pictures import field_pictures, left_out
from cffem.study.report.markup import (
    Raw,
    bullets,
    details,
    facts,
    figure,
    number,
    paragraph,
    skipped,
    table,
    text,
    verdict,
)
from cffem.study.report.report import TermReport
from cffem.study.report.solids.solid_pictures import solid_pictures
from cffem.study.report.summary import by_field, plain, term_epsilon
from cffem.study.report.verdict_pictures import (
    comparable,
    disagreements,
    error_bars,
    scatter,
    score_bars,
)

if TYPE_CHECKING:
    from cffem.study.report.drawn_fields import Fields
    from cffem.study.report.report import Report

NAMES = {
    "epsilon": "ε",
    "factual_norm": "norm of the factual solution",
    "relative": "ε relative to the solution",
    "interventions": "all interventions studied",
    "window": "time window",
    "anchor": "left-hand side",
}
RULE = (
    "A term is relevant if its score lies above ε by more than its error bar, irrelevant if it "
    "lies below ε by more than its error "
    "bar, and unresolved otherwise."
)


def verdicts(report: Report) -> str:
    """The picture, the table, the other scores, and the single verdicts where there are several."""
    marks = (
        "● relevant, ■ irrelevant, ◇ unresolved, ▼ constraint null, ✕ unsolvable, ◁ a score left "
        "of the axis"
    )
    caption = f"Each score with its error bar against the tolerance ε (dashed). {marks}."
    several, bars = _single_verdicts(report), error_bars(report)
    return "".join(
        [
            figure(bars, caption) if bars.startswith("<img") else bars,
            verdict_table(report),
            paragraph(RULE, "small"),
            details("All scores of each term", _scores(report)),
            *(_profile(term) for term in report.terms.values() if term.profile),
            *(
                [details("Verdicts by experiment and class of interventions", several)]
                if several
                else []
            ),
        ]
    )


def verdict_table(report: Report) -> Raw:
    """One row for each term."""
    library = report.sections["scope"].get("library", {})
    units = (report.sections["scope"].get("units") or {}).get("coefficients", {})
    rows = [
        (
            term.name,
            verdict(term.decision),
            term.deletion,
            term.margin,
            term_epsilon(report, term),
            term.certificate or "none",
            f"{number(term.coefficient)} {units[term.name]}"
            if term.name in units
            else term.coefficient,
            Raw(formula(term.latex, str(library.get(term.name, term.latex)))),
            "; ".join(filter(None, [by_field(term).strip(" ()"), term.reason, term.conditions])),
        )
        for term in report.terms.values()
    ]
    # The verdict stands first: however wide the rest becomes, it is on the screen.
    head = (
        "term",
        "verdict",
        "score δ",
        "margin ±",
        "ε",
        "error bar",
        "coefficient α",
        "T[u]",
        "why",
    )
    return table("Verdicts", head, rows, "verdict-table")


def _scores(report: Report) -> Raw:
    rows = [
        (
            t.name,
            t.residual_contribution,
            t.rci,
            t.one_step,
            t.linearised,
            t.deletion,
            t.misfit,
            t.eta_factual,
            t.eta_counterfactual,
            t.margin,
        )
        for t in report.terms.values()
    ]
    head = (
        "term",
        "residual C",
        "RCI",
        "one step",
        "linearised",
        "deletion δ",
        "misfit",
        "η factual",
        "η deleted",
        "margin",
    )
    return table("All scores", head, rows)


def _profile(term: TermReport) -> Raw:
    """What taking away a part of a term does, where the whole deletion has no solution."""
    found = term.profile or {}
    slope, bounds = found.get("slope"), [*found.get("bounds", ())]
    rows = [
        (f"{rho:.4g}", score, None if slope is None else rho * slope, bound)
        for rho, score, bound in zip_longest(found.get("rho", ()), found.get("scores", ()), bounds)
    ]
    end = (
        f"Up to ρ = {number(found.get('reach'))} there are solutions; they end before ρ = "
        f"{number(found.get('beyond'))}: "
    )
    head = ("ρ", "score δ(ρ)", "linearised ρ·slope", "bound of their difference (estimated)")
    return details(
        f"Profile of {plain(term.name)}: its coefficient times 1 − ρ",
        paragraph(end + plain(str(found.get("reason", "")))),
        table("Profile", head, rows),
    )


def _single_verdicts(report: Report) -> Raw | None:
    found = report.sections["sets"].get("verdicts") or []
    if len({(v.get("experiment"), v.get("intervention")) for v in found}) < 2:
        return None
    rows = [
        (
            v.get("term"),
            v.get("experiment"),
            v.get("intervention"),
            v.get("score"),
            v.get("margin"),
            v.get("epsilon"),
            verdict(str(v.get("decision"))),
            v.get("reason"),
        )
        for v in found
    ]
    return table(
        "Single verdicts",
        ("term", "experiment", "intervention", "score", "margin", "ε", "verdict", "why"),
        rows,
    )


def scope(report: Report) -> str:
    """The scope sentence, and the tuple that it summarises."""
    part = report.sections["scope"]
    if (empty := skipped(part)) is not None:
        return empty
    known: tuple[str, ...] = (
        "anchor",
        "observation",
        "norm",
        "epsilon",
        "relative",
        "factual_norm",
        "intervention",
        "interventions",
        "refit",
        "coefficients",
    )
    part = {**part, "units": (part.get("units") or {}).get("given")}
    known += ("units",) if part["units"] else ()
    if part.get("interventions") == [part.get("intervention")]:
        part = {key: value for key, value in part.items() if key != "interventions"}
    if len(anchor := part.get("anchor") or {}) == 1:
        part = {**part, "anchor": _rates(next(iter(anchor.values())))}
    experiments = part.get("experiments") or {"this experiment": part.get("experiment", {})}
    return "".join(
        [
            Raw(f"<blockquote>{paragraph(part.get('sentence', ''))}</blockquote>"),
            facts(
                "Scope",
                [
                    (NAMES.get(key, key.replace("_", " ")), part[key])
                    for key in known
                    if key in part
                ],
            ),
            details(
                "Library", facts("All candidate terms", _formulas(report, part.get("library", {})))
            ),
            *(
                details(f"Experiment: {plain(name)}", facts("Experiment", _given(given)))
                for name, given in experiments.items()
            ),
        ]
    )


def _formulas(report: Report, library: Mapping[str, Any]) -> list[tuple[str, object]]:
    """The candidate terms, set as formulas where the report has them."""
    latex = {name: term.latex for name, term in report.terms.items()}
    return [
        (name, Raw(formula(latex[name], str(term))) if latex.get(name) else term)
        for name, term in library.items()
    ]


def _rates(text: object) -> str:
    """Derivatives in time as people write them.

    Example:
        >>> _rates("Derivative(E, (t, 2))"), _rates("Derivative(u, t)")
        ('∂²E/∂t²', '∂u/∂t')
    """
    return re.sub(
        r"Derivative\((\w+), \(t, 2\)\)",
        r"∂²\1/∂t²",
        re.sub(r"Derivative\((\w+), t\)", r"∂\1/∂t", str(text)),
    )


def _given(experiment: Mapping[str, Any]) -> list[tuple[str, object]]:
    """What an experiment is made of, in words."""
    found = []
    for key, value in experiment.items():
        if key == "window" and value is None:
            value = "none: steady"
        elif key == "window" and isinstance(value, list) and len(value) == 3:
            value = f"{number(value[0])} to {number(value[1])}, {value[2]} steps"
        elif key == "initial" and isinstance(value, Mapping):
            value = {_rates(name): given for name, given in value.items()}
        found.append((NAMES.get(key, key.replace("_", " ")), value))
    return found


def observables(report: Report) -> str:
    """A table for each observable."""
    part = report.sections["observables"]
    if (empty := skipped(part)) is not None:
        return empty
    parts = []
    for name, found in part.items():
        changes = {**found.get("terms", {}), **found.get("interventions", {})}
        rows = [
            (
                term,
                f.get("deletion"),
                f.get("adjoint"),
                f.get("margin"),
                f.get("certificate") or "none",
                verdict(str(f.get("decision"))),
                f.get("reason") or f.get("why") or "",
            )
            for term, f in changes.items()
        ]
        drawn = [
            TermReport(
                term,
                "",
                0.0,
                deletion=f.get("deletion"),
                margin=f.get("margin"),
                epsilon=found.get("epsilon"),
                decision=str(f.get("decision")),
            )
            for term, f in changes.items()
        ]
        picture = score_bars(drawn, f"change of {plain(name, 40)} by deletion")
        numbers = f"value {number(found.get('value'))}, ε = {number(found.get('epsilon'))}"
        title = f"{plain(name)}: {plain(str(found.get('observable', '')))}, {numbers}"
        parts.append(
            figure(
                picture,
                f"{plain(name)}: its change by each deletion with error bar, against its own ε "
                "(dashed).",
            )
        )
        parts.append(
            table(
                title,
                (
                    "term",
                    "change by deletion",
                    "adjoint score",
                    "margin ±",
                    "error bar",
                    "verdict",
                    "why",
                ),
                rows,
            )
        )
    note = "The adjoint score is the first-order change; it costs one backward solve for all terms."
    return "".join([*parts, paragraph(note, "small")])


def gap(report: Report) -> str:
    """The scatter picture and where the two rankings disagree."""
    pairs = disagreements(comparable(report))
    sentence = "The two rankings agree."
    if pairs:
        sentence = (
            "The two rankings disagree beyond the error bars: a large share of the residual does "
            "not make a term matter."
        )
    listed = [
        f"{a.name} contributes more to the residual than {b.name} but changes the solution less."
        for a, b in pairs[:20]
    ]
    caption = "Residual contribution against deletion score; the shapes are those of the verdicts."
    order = (report.sections["sets"].get("ranking") or {}).get("sentence", "")
    return "".join(
        [
            *([paragraph(f"By deletion, relative to ε: {plain(order)}.")] if order else []),
            paragraph(sentence),
            *([bullets(listed)] if listed else []),
            figure(scatter(report), caption),
        ]
    )


def fields(report: Report, drawing: Fields | None) -> str:
    """Pictures of factual, deleted and difference."""
    if drawing is None:
        return paragraph("No pictures: there is no fields.npz beside this report.", "skipped")
    order = sorted(report.terms.values(), key=lambda term: -(term.deletion or 0.0))
    names = [term.name for term in order]
    found = [*solid_pictures(drawing, names), *field_pictures(drawing, names)]
    if not found:
        return paragraph("No pictures: no deleted problem has a solution.", "skipped")
    missing = left_out(drawing, names)
    note = (
        [
            paragraph(
                f"{missing} more pictures are left out; the terms with the largest scores are "
                "shown.",
                "small",
            )
        ]
        if missing
        else []
    )
    return "".join([*(figure(image, caption) for caption, image in found), *note])


def certificates(report: Report) -> str:
    """For each term the inequality, its hypotheses with how they were checked, the constants
    and the cost.
    """
    return "".join(_certificate(term) for term in report.terms.values())


def _certificate(term: TermReport) -> Raw:
    proof: Mapping[str, Any] = term.proof or {}
    if term.certificate is None:
        why = proof.get("reason") or term.reason or "none was computed"
        return details(f"{plain(term.name)}: no error bar", paragraph(why))
    hypotheses = [(pair[0], pair[1]) for pair in proof.get("hypotheses", ()) if len(pair) == 2]
    inequality = proof.get("inequality")
    return details(
        f"{plain(term.name)}: {term.certificate}, margin {number(term.margin)}",
        paragraph(f"Method: {term.method or 'not stated'}"),
        *([paragraph(Raw(f"Inequality: <code>{text(inequality)}</code>"))] if inequality else []),
        *(
            [table("Hypotheses", ("hypothesis", "how it was checked"), hypotheses)]
            if hypotheses
            else []
        ),
        *([facts("Constants", proof["constants"].items())] if proof.get("constants") else []),
        *([facts("Cost", proof["cost"].items())] if proof.get("cost") else []),
        *([] if proof else [paragraph("The report holds no further details.", "skipped")]),
    )
