# SPDX-License-Identifier: MIT
"""The parts of the page about sensors: what they see of each deletion, the calibration with its
intervals, profiles and residuals, and what sensors can identify.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cffem.study.report.design_pictures import coherence_map
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
)
from cffem.study.report.sensors.sensor_pictures import profiles, residuals, sensor_map
from cffem.study.report.summary import plain

if TYPE_CHECKING:
    from cffem.study.report.report import Report

Section = Mapping[str, Any]
RULE = (
    "δ^𝒪 is how far all readings together move where the term is deleted and nothing else changes, "
    "in standard deviations of what is measured. Needed: the readings cannot be explained without "
    "the term, however the others are fitted again; a refit ends where two forecasts of its Δχ² "
    "agree that it is above 100, and the smaller one is given. Visible but not needed: they can. "
    "Not visible: deleting it changes nothing that these sensors see."
)


def sensor_table(report: Report) -> str:
    """Both verdicts of each term side by side; empty where there are no sensors."""
    rows = []
    for term in report.terms.values():
        seen = term.sensors or {}
        if seen.get("visibility") is None and seen.get("need") is None:
            continue
        low, high = seen.get("interval") or (None, None)
        rows.append(
            (
                term.name,
                term.decision.replace("_", " "),
                seen.get("score"),
                seen.get("margin"),
                seen.get("kind") or "none",
                seen.get("need") or seen.get("visibility"),
                seen.get("delta_chi2"),
                _p(seen.get("p_value")),
                f"{number(low)} to {number(high)}" if low is not None or high is not None else "–",
                seen.get("why") or "",
            )
        )
    if not rows:
        return ""
    head = (
        "term",
        "for the field",
        "δ^𝒪",
        "margin ±",
        "error bar",
        "for the sensors",
        "Δχ²",
        "p",
        "95 % interval",
        "why",
    )
    return table("What sensors see", head, rows, "sensor-table") + paragraph(RULE, "small")


def _p(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}" if value > 1e-12 else "<\u00a01e\u201112"


def calibration(report: Report, drawing: Any = None) -> str:
    """How the coefficients were fitted to readings."""
    part = report.sections["calibration"]
    seen = sensor_table(report)
    if (empty := skipped(part)) is not None:
        return "".join([seen, empty])
    tests = part.get("tests") or {}
    pairs = [
        ("why this fit", part.get("why")),
        ("readings", part.get("readings")),
        ("χ²", part.get("chi2")),
        ("degrees of freedom", part.get("degrees")),
        (
            "noise level",
            "given" if part.get("noise_known") else f"estimated, {number(part.get('noise_level'))}",
        ),
        ("probability of a χ² as large", _p(tests.get("chi2"))),
        ("probability of residuals as similar", _p(tests.get("white"))),
        ("loss", part.get("loss")),
        ("solves", part.get("solves")),
        ("tangent sweeps", part.get("tangents")),
        *_started(part.get("start")),
        ("believed", part.get("reliable")),
        ("what speaks against it", part.get("reasons") or "nothing"),
    ]
    return "".join(
        [
            seen,
            figure(
                sensor_map(part, drawing),
                "Sensors on the domain; colour: root mean square of the residuals of each, in "
                "standard deviations (about 1 where noise explains them).",
            ),
            facts("Fit", pairs),
            figure(
                residuals(part),
                "Residuals in standard deviations, reading by reading; grey: 95 % of noise.",
            ),
            _selection(part),
            figure(
                profiles(part),
                "Profiles: Δχ² where a coefficient is held and the others are fitted again; "
                "dashed: its 95 % quantile.",
            )
            if part.get("profiles")
            else "",
            _amplitudes(part),
            bullets(map(plain, part["notes"])) if part.get("notes") else "",
            _next(part.get("next")),
        ]
    )


def _started(found: Any) -> list[tuple[str, Any]]:
    """Where a fit that followed a regression began."""
    if not isinstance(found, Mapping):
        return []
    if found.get("skipped"):
        return [("regression before it", f"not possible: {found['skipped']}")]
    values = found.get("coefficients") or {}
    words = ", ".join(f"{name} = {number(value)}" for name, value in values.items()) or "nothing"
    believed = "believed" if found.get("reliable") else "not believed by itself"
    return [("regression before it", f"{words} ({believed})")]


def _amplitudes(part: Section) -> str:
    rows = [
        (name, each.get("value"), each.get("deviation"))
        for name, each in (part.get("amplitudes") or {}).items()
    ]
    if not rows:
        return ""
    head = ("amplitude", "estimate", "standard deviation")
    return table("Uncertain data, estimated beside the coefficients", head, rows)


def _selection(part: Section) -> str:
    found = part.get("selection")
    if not isinstance(found, Mapping):
        return ""
    steps = [
        (
            step.get("deleted") or "none",
            len(step.get("support", ())),
            step.get("chi2"),
            step.get("criterion"),
        )
        for step in found.get("path", ())
    ]
    shares, limits = found.get("frequencies") or {}, found.get("limits") or {}
    rows = [
        (
            name,
            "yes" if name in found.get("support", ()) else "no",
            f"{share:.0%}",
            *(limits.get(name) or (None, None)),
        )
        for name, share in shares.items()
    ]
    return table(
        "Selection",
        ("term", "selected", "in bootstrap replicates", "95 % from", "to (all candidates)"),
        rows,
    ) + details(
        "The path of deletions",
        table("Path", ("deleted last", "terms left", "χ²", "criterion"), steps),
        paragraph(plain(str(found.get("criterion", "")))),
    )


def _next(found: Any) -> str:
    if not isinstance(found, Mapping) or not found.get("sentence"):
        return ""
    gains = [(name, share) for name, share in (found.get("gains") or {}).items()]
    return "".join(
        [
            Raw("<h3>The next sensor</h3>"),
            paragraph(f"{plain(str(found['sentence']))}."),
            details(
                "What it does to each interval",
                table("Gains", ("term", "width after / before"), gains),
            ),
        ]
    )


def identifiability(report: Report) -> str:
    """What sensors can tell of the coefficients."""
    part = report.sections["identifiability"]
    if (empty := skipped(part)) is not None:
        return empty
    found = part.get("sensitivity") or {}
    if (empty := skipped(found)) is not None:
        return empty
    designs = found.get("experiments") or {"": found}
    return "".join(_one(label, design) for label, design in designs.items())


def _one(label: str, found: Section) -> str:
    pairs = [
        ("observation", found.get("observation")),
        ("readings", found.get("rows")),
        ("coefficients", len(found.get("names", ()))),
        ("rank", found.get("rank")),
        ("smallest eigenvalue of the identified part", found.get("minimum_eigenvalue")),
        ("condition of its Gram", found.get("condition")),
        ("projected out", found.get("projected_out") or "nothing"),
    ]
    rows = [
        (name, "not identified" if spread is None else f"± {number(spread)}")
        for name, spread in (found.get("deviations") or {}).items()
    ]
    groups = [plain(str(group.get("sentence", ""))) for group in found.get("alias_groups", ())]
    return "".join(
        [
            facts(f"Sensitivities in {plain(label)}" if label else "Sensitivities", pairs),
            table("What the noise allows", ("term", "standard deviation"), rows),
            Raw("<h3>What sensors cannot tell apart</h3>"),
            bullets(groups) if groups else paragraph("Every coefficient is identified."),
            details(
                "Coherence of the sensitivities",
                figure(coherence_map(found), "Coherence of the columns 𝒪 ∂u/∂αⱼ."),
            ),
        ]
    )
