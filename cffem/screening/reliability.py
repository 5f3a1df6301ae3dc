# SPDX-License-Identifier: MIT
"""When not to believe a selected model: aliasing, misfit, instability, an ended search, correlated
noise, each with its number.

A screen that returns a confident wrong model is worse than one that abstains. Every gate below is a
sentence with a measured number; a model is reliable only if none of them speaks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cffem.design.aliasing import AliasGroup
from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.detection import detected, detections
from cffem.screening.doubts import GATES, PROBE, Doubt, Reliability
from cffem.screening.exploring import named
from cffem.screening.fewer_readings import fewer_readings_gate
from cffem.screening.left_out import (
    correlated,
    front_gate,
    left_out_gates,
    open_gate,
    tolerated,
)
from cffem.screening.selection import Refit, Selection, score_supports, select
from cffem.screening.subset import penalty
from cffem.symbols.fields import VectorField


def assess(design: Design, chosen: Selection, fitted: Refit) -> Reliability:
    """Run all gates on a selected model."""
    numbers: dict[str, Any] = {
        "win_rate": chosen.win_rate,
        "gap": chosen.gap,
        "agree": chosen.agree,
    }
    if not chosen.support:
        return Reliability((Doubt("unstable", "no term differs from zero"),), numbers)
    reasons = alias_gate(design, chosen)
    reasons += [Doubt("search", doubt) for doubt in chosen.doubts]
    reasons += stability_gates(design, chosen, aliased=bool(reasons))
    reasons += zero_gate(design, fitted, numbers)
    if design.grams.noise is not None:
        reasons += noise_gates(design, chosen.support, numbers)
        reasons += readings_gate(design, numbers) or fewer_readings_gate(design, fitted, numbers)
    left_out = detections(design, chosen.support)
    reasons += left_out_gates(design, left_out, numbers)
    reasons += open_gate(design, chosen.support, left_out, numbers)
    if design.wider is not None:
        reasons += missing_gate(design, design.wider, chosen, numbers)
    if not reasons:  # it makes rows again, which only a support that is believed is worth
        reasons += front_gate(design, chosen.support, left_out, numbers)
    if reasons and correlated(design):
        lengths = [
            length
            for source in design.sources
            for length in source.get("correlation_lengths", {}).values()
        ]
        text = ", ".join(" × ".join(f"{v:.1f}" for v in length) for length in lengths)
        reasons.append(
            Doubt(
                "correlated noise",
                f"noise is correlated over {text} grid points, so there are few independent rows",
            )
        )
    return Reliability(tuple(with_hint(design, reasons)), numbers)


def stability_gates(design: Design, chosen: Selection, *, aliased: bool) -> list[Doubt]:
    """Whether another support would do as well, or does better on resampled or on denoised rows."""
    reasons = []
    if chosen.win_rate < GATES.win_rate:
        reasons.append(
            Doubt(
                "unstable",
                f"the support wins only {chosen.win_rate:.0%} of the bootstrap replicates",
            )
        )
    if chosen.gap < GATES.gap and not aliased and not idle_addition(design, chosen):
        how = "fits better" if chosen.gap < 0 else "fits almost as well"
        reasons.append(
            Doubt(
                "unstable", f"{named(design, chosen.rival or ())} {how} (EBIC gap {chosen.gap:.1f})"
            )
        )
    if not chosen.agree:
        reasons.append(Doubt("unstable", "raw and denoised rows choose different supports"))
    return reasons


def idle_addition(design: Design, chosen: Selection) -> bool:
    """Whether the best rival only adds terms, and these improve the fit by no more than chance.

    Few independent rows make the penalty of a term smaller than the gap that is asked for, however
    well the support fits; what an added term improves tells then, and its own statistic.
    """
    if chosen.rival is None or not set(chosen.support) < set(chosen.rival):
        return False
    added = len(chosen.rival) - len(chosen.support)
    gain = added * penalty(design.effective_rows, len(design.names)) - chosen.gap
    return gain < GATES.idle * added


def zero_gate(design: Design, fitted: Refit, numbers: dict[str, Any]) -> list[Doubt]:
    """Whether every coefficient differs from zero, whichever of its errors is taken."""
    threshold = resampling.t_threshold(len(design.grams.labels), len(design.names))
    numbers["least_statistic"] = float(fitted.statistics.min())
    if numbers["least_statistic"] >= threshold:
        return []
    weakest = design.names[fitted.support[int(fitted.statistics.argmin())]]
    return [
        Doubt(
            "unstable",
            f"{weakest} is only {numbers['least_statistic']:.1f} standard errors from zero",
        )
    ]


def with_hint(design: Design, reasons: list[Doubt]) -> list[Doubt]:
    """Tell a flow library that misfits without a pressure where its pressure may have gone."""
    anchor = None if design.library is None else design.library.anchor
    vectors = {f for f in getattr(anchor, "atoms", lambda *_: set())(VectorField) if f.dim > 1}
    if (
        not vectors
        or design.notes.get("projected", False)
        or not any(r.kind == "misfit" for r in reasons)
    ):
        return reasons
    name = min(map(str, vectors))
    hint = (
        f"; if {name} is incompressible, the gradient of its pressure is missing from the "
        "library: make the dataset with "
        "projected=True, which tests with divergence-free functions"
    )
    number = next(k for k, r in enumerate(reasons) if r.kind == "misfit")
    return [Doubt(r.kind, r.text + hint) if k == number else r for k, r in enumerate(reasons)]


def missing_gate(
    design: Design, wider: Design, chosen: Selection, numbers: dict[str, Any]
) -> list[Doubt]:
    """Whether common terms outside the library give a better model than the library does."""
    rival = select(wider, max(len(chosen.support) + 1, 3), 20, 0)
    inside = tuple(sorted(wider.names.index(design.names[j]) for j in chosen.support))
    scores = {c.support: score for score, c in rival.scored}
    here = scores.get(inside)
    if here is None:
        here = score_supports(wider, [inside])[0][0]
    outside = [
        (score, s)
        for s, score in scores.items()
        if any(wider.names[j].startswith(PROBE) for j in s)
    ]
    best, support = min(outside, default=(np.inf, ()))
    numbers["missing_gap"] = float(best - here)
    if best - here < GATES.missing_gap:
        names = ", ".join(wider.names[j].removeprefix(PROBE) for j in support)
        return [
            Doubt(
                "misfit",
                f"{{{names}}}, not all in the library, fits better (EBIC {best - here:+.1f})",
            )
        ]
    return missing_alone(wider, inside, numbers)


def missing_alone(wider: Design, inside: tuple[int, ...], numbers: dict[str, Any]) -> list[Doubt]:
    """Whether a common term outside the library would differ from zero in the support."""
    probes = [j for j, name in enumerate(wider.names) if name.startswith(PROBE)]
    found = [
        d for d in (detected(wider, inside, j) for j in probes) if d.effect > GATES.discretisation
    ]
    suspects = [d for d in found if d.share > tolerated(d) and d.interval[0] * d.interval[1] > 0]
    threshold = resampling.t_threshold(len(wider.grams.labels), len(wider.names))
    suspects += [d for d in found if d.statistic > threshold]
    numbers["probe_statistic"] = max((d.statistic for d in found), default=0.0)
    if not suspects:
        return []
    clearest = max(suspects, key=lambda d: d.statistic)
    name = clearest.name.removeprefix(PROBE)
    return [
        Doubt(
            "misfit",
            f"{name}, not in the library, is {clearest.statistic:.1f} standard errors from zero "
            "when added",
        )
    ]


def alias_gate(design: Design, chosen: Selection) -> list[Doubt]:
    """Selected terms inside an alias group of the design, and terms outside that the selected
    columns reproduce.

    Noise makes aliased columns look different, so this looks at the noise-corrected Gram, not at
    residuals.
    """
    selected = {design.names[j] for j in chosen.support}
    for group in design.alias_groups():
        inside = selected & set(group.terms)
        if inside:
            return [Doubt("aliased", alias_text(group, sorted(inside)))]
    return reproduced_gate(design, chosen)


def alias_text(group: AliasGroup, inside: list[str]) -> str:
    """An alias group in one sentence; of a large one only which selected terms it ties."""
    if len(group.terms) <= GATES.written_out:
        return str(group)
    free = len(group.terms) - group.null.shape[1]
    return (
        f"only {free} combinations of the {len(group.terms)} coefficients of "
        f"{{{', '.join(group.terms)}}} are identifiable, "
        + (f"so {', '.join(inside)} cannot be told from the others")
    )


def reproduced_gate(design: Design, chosen: Selection) -> list[Doubt]:
    """Terms outside the support that the noise-free columns of the support reproduce: a swap
    would fit the data as well.
    """
    support = np.asarray(chosen.support)
    scale = np.outer(design.scale, design.scale) * design.grams.weight.sum()
    signal = design.grams.total("corrected")[1:, 1:] / scale
    inner = signal[np.ix_(support, support)]
    for k in (k for k in range(len(design.names)) if k not in set(chosen.support)):
        direction = np.zeros(len(signal))
        direction[support] = -np.linalg.lstsq(inner, signal[support, k], rcond=1e-10)[0]
        direction[k] = 1.0
        tolerance = design.noise_energy(np.column_stack([direction, np.eye(len(signal))[k]]))
        left = float(direction @ signal @ direction)
        if (
            signal[k, k] > tolerance[1]
            and left <= tolerance[0]
            and left <= GATES.alias_share * signal[k, k]
        ):
            names = [
                name
                for name, weight in zip(design.names, direction, strict=True)
                if abs(weight) > 1e-3
            ]
            groups = design.select(names).alias_groups()
            others = ", ".join(name for name in names if name != design.names[k])
            text = str(groups[0]) if groups else f"{design.names[k]} cannot be told from {others}"
            return [Doubt("aliased", text)]
    return []


def noise_gates(design: Design, support: tuple[int, ...], numbers: dict[str, Any]) -> list[Doubt]:
    """Gates that need to know what the noise does: energy left unexplained, and noise in the
    weakest direction.
    """
    reasons = []
    blocks = design.grams.corrected
    total = blocks.sum(axis=0)
    misfit = corrected_misfit(total, support)
    left_out = np.array([corrected_misfit(total - block, support) for block in blocks])
    count = len(blocks)
    error = float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))
    numbers.update(misfit=misfit, misfit_error=error)
    if misfit + 2 * error > GATES.misfit:
        reasons.append(
            Doubt(
                "misfit", f"up to {misfit + 2 * error:.0%} of the anchor's energy stays unexplained"
            )
        )
    elif misfit > 3 * error and misfit > GATES.seen_misfit:
        reasons.append(
            Doubt(
                "misfit",
                f"{misfit:.2%} of the anchor's energy stays unexplained, three times its error bar",
            )
        )
    if misfit < -max(GATES.overcorrected * error, GATES.seen_overcorrection):
        text = (
            f"noise of the size that was measured would leave {-misfit:.0%} more of the anchor's "
            "energy than is there"
        )
        reasons.append(Doubt("misfit", text))
    drift = heterogeneity(design, support)
    numbers["heterogeneity"] = drift
    if drift > GATES.heterogeneity:
        reasons.append(
            Doubt(
                "misfit",
                f"coefficients drift from block to block {drift:.0f} times more than noise "
                "explains, which "
                f"would have to be less than {GATES.heterogeneity:.0f}: an error of the data that "
                "is not independent from place to "
                "place, or a term that is missing",
            )
        )
    share = noise_share(design, support)
    numbers["noise_share"] = share
    if share > GATES.noise_share:
        reasons.append(
            Doubt(
                "unstable",
                f"noise exceeds the signal {share:.1f} times in the weakest direction of the "
                "support",
            )
        )
    return reasons


def readings_gate(design: Design, numbers: dict[str, Any]) -> list[Doubt]:
    """Whether the readings are too far apart for the data: what sums over them fail by is
    then itself not known.
    """
    defect = max((float(source.get("defect", 0.0)) for source in design.sources), default=0.0)
    numbers["defect"] = defect
    assert design.grams.noise is not None
    noise = float(
        design.grams.noise[:, 0, 0].sum() / max(design.grams.plain[:, 0, 0].sum(), 1e-300)
    )
    if defect <= GATES.defect or defect < noise / 2:
        return []
    text = (
        f"sums over these readings are off by about {np.sqrt(defect):.2%} of the anchor, which "
        "would have to be less than "
        f"{np.sqrt(GATES.defect):.2%}: the data change too fast for the times or places at which "
        "they were read"
    )
    return [Doubt("misfit", text)]


def heterogeneity(design: Design, support: tuple[int, ...]) -> float:
    """How much more the normal equations fail block by block than the noise draws make them fail
    (median over the blocks).

    A model that only mimics a missing term needs other coefficients in every part of the data.
    """
    grams = design.grams
    if grams.replicates is None:
        return 0.0
    index = np.asarray(support) + 1
    weights = np.r_[1.0, -resampling.solve_support(grams.total("corrected"), support)]

    def scores(matrices: np.ndarray) -> np.ndarray:
        return matrices[..., index[:, None], np.r_[0, index][None, :]] @ weights

    expected = scores(grams.replicates).var(axis=1, ddof=1)
    energy = np.abs(np.einsum("bjj->bj", grams.plain)[:, index] * grams.plain[:, :1, 0])
    floor = (
        GATES.discretisation**2 * energy
    )  # interpolation and quadrature fail the equations a little without any noise
    return float(
        np.median(scores(grams.corrected) ** 2 / np.maximum(expected + floor, 1e-300), axis=0).max()
    )


def corrected_misfit(gram: np.ndarray, support: tuple[int, ...]) -> float:
    """Unexplained share of the noise-free anchor energy."""
    beta = resampling.solve_support(gram, support)
    return float(1 - gram[0, np.asarray(support) + 1] @ beta / gram[0, 0])


def noise_share(design: Design, support: tuple[int, ...]) -> float:
    """Largest ratio of noise to signal energy over the directions of the selected columns."""
    index = np.ix_(np.asarray(support) + 1, np.asarray(support) + 1)
    signal = design.grams.total("corrected")[index]
    noise = (
        np.zeros_like(signal)
        if design.grams.noise is None
        else design.grams.noise.sum(axis=0)[index]
    )
    values, vectors = np.linalg.eigh(
        signal / np.sqrt(np.outer(np.diag(signal), np.diag(signal)).clip(1e-300))
    )
    if values[0] <= 0:
        return float("inf")
    scale = np.sqrt(np.diag(signal))
    half = vectors / np.sqrt(values)
    return float(np.linalg.eigvalsh(half.T @ (noise / np.outer(scale, scale)) @ half)[-1])
