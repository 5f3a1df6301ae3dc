# SPDX-License-Identifier: MIT
"""The parts of the page about what stands behind the verdicts: constraint class, design,
screening, cost and environment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cffem.study.report.design_pictures import coherence_map, frequencies, regularisation_path
from cffem.study.report.markup import (
    Raw,
    anything,
    bullets,
    details,
    facts,
    figure,
    number,
    paragraph,
    skipped,
    table,
    text,
)
from cffem.study.report.summary import plain, up_to_one

if TYPE_CHECKING:
    from cffem.study.report.report import Report

Section = Mapping[str, Any]
# The condition number of a Gram beyond which noise of one part in a hundred can be as large as a
# coefficient.
BADLY_CONDITIONED = 1e4


def constraint(report: Report) -> str:
    """The class, the terms that vanish on it with their evidence, and what is left."""
    part = report.sections["constraint"]
    if (empty := skipped(part)) is not None:
        return empty
    nulls = [
        (n.get("term"), n.get("evidence"), n.get("label", ""), n.get("ratio"), n.get("reason", ""))
        for n in part.get("null_terms", ())
    ]
    classes = [
        (", ".join(map(plain, c.get("terms", ()))), ", ".join(map(plain, c.get("identified", ()))))
        for c in part.get("equivalence_classes", ())
    ]
    left = ", ".join(map(plain, part.get("effective_library", ())))
    return "".join(
        [
            paragraph(f"Constraint class: {plain(str(part.get('class', 'not stated')))}."),
            table(
                "Terms that vanish on the class",
                ("term", "evidence", "kind", "ratio on random members", "reason"),
                nulls,
            )
            if nulls
            else paragraph("No term vanishes on the class."),
            *(
                [
                    table(
                        "Terms that are equal on the class",
                        ("terms", "what is identified"),
                        classes,
                    )
                ]
                if classes
                else []
            ),
            *([paragraph(f"Effective library: {left}.")] if left else []),
        ]
    )


# Design
# --------------------------------------------------------------------------------------------------


def design(report: Report) -> str:
    """Diagnostics, heat map, alias groups and the next experiment, for each equation."""
    part = report.sections["design"]
    if (empty := skipped(part)) is not None:
        return empty
    equations = part.get("equations") or {"": part}
    parts = [_one_design(label, found) for label, found in equations.items()]
    proposal = part.get("next")
    return "".join([*parts, *([_proposal(proposal)] if isinstance(proposal, Mapping) else [])])


def _one_design(label: str, found: Section) -> str:
    bracket, selected = found.get("restricted_eigenvalue") or {}, found.get("selected") or {}
    coherence = found.get("coherence")
    pairs = [
        ("rows", found.get("rows")),
        ("independent rows", found.get("effective_rows")),
        ("columns", found.get("columns")),
        ("coherence μ", None if coherence is None else up_to_one(coherence, number(coherence))),
        ("rank", found.get("rank")),
        (
            f"restricted eigenvalue, s = {bracket.get('s', '?')}",
            f"between {number(bracket.get('lower'))} and {number(bracket.get('upper'))}",
        ),
        ("smallest eigenvalue of the selected Gram", selected.get("minimum_eigenvalue")),
        ("condition of the selected Gram", selected.get("condition")),
    ]
    groups = found.get("alias_groups") or []
    aliases = (
        bullets(
            Raw(
                f"<strong>{text(', '.join(group.get('terms', ())))}</strong>: "
                f"{text(group.get('sentence', ''))}"
            )
            for group in groups
        )
        if groups
        else paragraph(
            f"No alias groups: every coefficient is identified up to noise{_amplified(selected)}."
        )
    )
    title = f"Design of the equation of {plain(label)}" if label else "Design"
    return "".join(
        [
            facts(title, pairs),
            figure(
                coherence_map(found),
                "Coherence |⟨Aⱼ, Aₖ⟩| of the normalised columns; alias groups are framed.",
            ),
            Raw("<h3>Alias groups</h3>"),
            aliases,
        ]
    )


def _amplified(selected: Section) -> str:
    """What a large condition number means for the coefficients; nothing where it is small."""
    condition = selected.get("condition")
    if condition is None or condition < BADLY_CONDITIONED:
        return ""
    # The condition number of the columns themselves is the root of that of their Gram.
    return f", but relative noise can be amplified up to {number(math.sqrt(condition))} times"


def _proposal(proposal: Section) -> str:
    rows = [
        (
            c.get("name"),
            c.get("rank"),
            c.get("minimum_eigenvalue"),
            "; ".join(", ".join(g) for g in c.get("separated", ())) or "nothing",
        )
        for c in proposal.get("candidates", ())
    ]
    tried = details(
        "Experiments that were tried",
        table("Candidates", ("experiment", "rank", "smallest eigenvalue", "tells apart"), rows),
    )
    return "".join(
        [
            Raw("<h3>What to measure next</h3>"),
            paragraph(proposal.get("sentence", "")),
            *([tried] if rows else []),
        ]
    )


# Screening
# --------------------------------------------------------------------------------------------------


def screening(report: Report) -> str:
    """The rule, its contract, the coefficients with intervals, path and bootstrap, for each
    equation; then the misfit.
    """
    part = report.sections["screening"]
    misfits = part.get("misfit")
    told = [
        paragraph(f"{f.get('sentence') or f.get('skipped')}{_skills(f)}")
        for f in (misfits or {}).values()
        if isinstance(f, Mapping)
    ]
    if (empty := skipped(part)) is not None:
        return "".join([empty, *told])
    equations = part.get("equations") or {"": part}
    return "".join([*(_one_screening(label, found) for label, found in equations.items()), *told])


def _skills(found: Section) -> str:
    """How much better the solution is than two predictions without a model."""
    named = (
        ("the mean of the data", "skill_mean"),
        ("persistence of the first reading", "skill_persistence"),
    )
    shown = [
        f"{number(found[key])} against {name}" for name, key in named if found.get(key) is not None
    ]
    return f" Skill: {', '.join(shown)}." if shown else ""


def _one_screening(label: str, found: Section) -> str:
    pairs = [
        ("anchor", found.get("anchor")),
        ("normalisation", found.get("normalisation")),
        ("method", found.get("method")),
        ("penalty λ", found.get("lambda")),
        ("threshold τ", found.get("tau")),
        ("coefficients refitted by", found.get("debiasing")),
        ("error bound B_s", "infinite" if found.get("bound") is None else found.get("bound")),
        ("irrepresentability", found.get("irrepresentability")),
        ("recall contract", found.get("contract")),
        ("no false term", found.get("no_false_positive")),
        ("signs recovered", found.get("sign_recovery")),
        (
            "skill against the mean predictor, on left-out rows",
            (found.get("skill") or {}).get("skill"),
        ),
        ("reliable", found.get("reliable")),
        ("what speaks against it", found.get("reasons") or "nothing"),
        ("a term left out could carry of the anchor", _percent(found.get("hidden_share"), 1)),
    ]
    intervals, chosen = found.get("intervals") or {}, found.get("coefficients") or {}
    limits = found.get("limits") or {}
    # A term that was not selected has no coefficient, but an interval that the data leave to it.
    rows = [
        (
            name,
            chosen.get(name) or "not found",
            *((intervals if chosen.get(name) else limits).get(name) or (None, None)),
            _percent((found.get("frequencies") or {}).get(name)),
        )
        for name in intervals
    ]
    return "".join(
        [
            facts(f"Screening of the equation of {plain(label)}" if label else "Screening", pairs),
            table("Coefficients", ("term", "coefficient", "95 % from", "to", "selected in"), rows)
            if rows
            else "",
            figure(
                regularisation_path(found),
                "Regularisation path: which terms enter as the penalty falls; dashed: the penalty "
                "used.",
            ),
            figure(
                frequencies(found),
                "Stability: how often each term is selected; hatched: not in the support.",
            ),
        ]
    )


def _percent(share: float | None, digits: int = 0) -> str:
    return "–" if share is None else f"{share:.{digits}%}"


# Cost and environment
# --------------------------------------------------------------------------------------------------

COSTS = {
    "factual": "factual solves",
    "deleted": "deleted problems solved",
    "linearised": "linearised solves",
    "adjoint": "adjoint solves",
    "linear_solves": "linear systems solved",
    "iterations": "iterations of the linear solver",
    "factorisations": "factorisations",
    "newton_steps": "Newton steps",
    "worst_residual": "worst relative residual of a linear solve",
    "price": "seconds that were named before",
    "reused": "used again",
    "ranks": "ranks",
    "peak_memory": "peak memory of all ranks in MB",
}


def cost(report: Report) -> str:
    """Solves, iterations, seconds of each stage, and the levels of refinement where there are
    any.
    """
    part = report.sections["cost"]
    if (empty := skipped(part)) is not None:
        return empty
    known = [(title, part[key]) for key, title in COSTS.items() if key in part]
    seconds = [
        (str(stage), float(value) if value is not None else None)
        for stage, value in (part.get("seconds") or {}).items()
    ]
    ways = [(str(way), int(count)) for way, count in (part.get("strategies") or {}).items()]
    others = {
        key: value for key, value in part.items() if key not in (*COSTS, "seconds", "strategies")
    }
    return "".join(
        [
            facts("Solves", known),
            table("How deleted problems were solved", ("way", "problems"), ways) if ways else "",
            table("Seconds of each stage", ("stage", "seconds"), seconds) if seconds else "",
            *(_levels(key, value) for key, value in others.items()),
        ]
    )


def _levels(key: str, value: object) -> str:
    """A list of entries with the same keys is a table (levels of refinement); anything else
    is listed.
    """
    title = plain(key).replace("_", " ").capitalize()
    if (
        isinstance(value, list)
        and value
        and all(isinstance(entry, Mapping) and entry for entry in value)
    ):
        head = list(dict.fromkeys(name for entry in value for name in entry))
        return table(
            title,
            [name.replace("_", " ") for name in head],
            [[anything(entry.get(name)) for name in head] for entry in value],
        )
    return facts(title, [(title, value)]) if value not in (None, [], {}) else ""


def environment(report: Report) -> str:
    """Versions, sizes and seeds."""
    part = report.sections["environment"]
    return skipped(part) or details(
        "Versions, sizes and seeds",
        facts("Environment", [(k.replace("_", " "), v) for k, v in part.items()]),
    )
