# SPDX-License-Identifier: MIT
"""When not to believe a selected model: aliasing, misfit, instability and correlated noise, each with the number that says so.

A screen that returns a confident wrong model is worse than one that abstains. Every gate below is a sentence with a measured
number; a model is reliable only if none of them speaks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.selection import Refit, Selection, score_supports, select

LEAST_WIN_RATE = 0.8
LEAST_GAP = 5.0
LARGEST_MISFIT = 0.1
SEEN_MISFIT = 1e-3
LARGEST_NOISE_SHARE = 1.0
ALIAS_SHARE = 0.02  # of a column's energy outside the span of others below which it may be an alias
LARGEST_HETEROGENEITY = 5.0
LEAST_MISSING_GAP = 0.0
CAUTIOUS = 2.9
DISCRETISATION = 3e-3  # share of the anchor that interpolation and quadrature may get wrong without any noise


@dataclass(frozen=True)
class Reason:
    """Why a model is not believed: `kind` is aliased, misfit, unstable or correlated noise."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


@dataclass(frozen=True)
class Reliability:
    """The verdict on a selected model with the numbers behind it."""

    reasons: tuple[Reason, ...]
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def reliable(self) -> bool:
        return not self.reasons


def assess(design: Design, chosen: Selection, fitted: Refit) -> Reliability:
    """Run all gates on a selected model."""
    numbers: dict[str, Any] = {"win_rate": chosen.win_rate, "gap": chosen.gap, "agree": chosen.agree}
    reasons: list[Reason] = []
    if not chosen.support:
        return Reliability((Reason("unstable", "no term differs from zero"),), numbers)
    reasons += alias_gate(design, chosen)
    if chosen.win_rate < LEAST_WIN_RATE:
        reasons.append(Reason("unstable", f"the support wins only {chosen.win_rate:.0%} of the bootstrap replicates"))
    if chosen.gap < LEAST_GAP and not any(r.kind == "aliased" for r in reasons):
        rival = ", ".join(design.names[j] for j in chosen.rival or ())
        reasons.append(Reason("unstable", f"{{{rival}}} fits almost as well (EBIC gap {chosen.gap:.1f})"))
    if not chosen.agree:
        reasons.append(Reason("unstable", "raw and denoised rows choose different supports"))
    threshold = resampling.t_threshold(len(design.grams.labels), len(design.names))
    numbers["least_statistic"] = float(fitted.statistics.min())
    if numbers["least_statistic"] < threshold:
        weakest = design.names[fitted.support[int(fitted.statistics.argmin())]]
        text = f"{weakest} is only {numbers['least_statistic']:.1f} standard errors from zero"
        reasons.append(Reason("unstable", text))
    if design.grams.noise is not None:
        reasons += noise_gates(design, chosen.support, numbers)
    reasons += left_out_gate(design, chosen.support, threshold, numbers)
    if design.wider is not None:
        reasons += missing_gate(design, design.wider, chosen, numbers)
    if reasons and correlated(design):
        lengths = [length for source in design.sources for length in source.get("correlation_lengths", {}).values()]
        text = ", ".join(" × ".join(f"{v:.1f}" for v in length) for length in lengths)
        reasons.append(
            Reason("correlated noise", f"noise is correlated over {text} grid points, so there are few independent rows")
        )
    return Reliability(tuple(reasons), numbers)


def left_out_gate(design: Design, support: tuple[int, ...], threshold: float, numbers: dict[str, Any]) -> list[Reason]:
    """A term that was left out although it would differ from zero: the price of one more term may have hidden it.

    Correlated noise leaves fewer independent rows than counted, so there the bar is lower.
    """
    level = min(threshold, CAUTIOUS) if correlated(design) else threshold
    largest, suspect, total = 0.0, "", design.grams.total()
    for j in (j for j in range(len(design.names)) if j not in support):
        wider = tuple(sorted((*support, j)))
        estimate, error = resampling.jackknife(design.grams.corrected, wider)
        value = abs(estimate[wider.index(j)])
        statistic = float(value / max(error[wider.index(j)], 1e-300))
        effect = value * np.sqrt(max(total[j + 1, j + 1], 0.0) / total[0, 0])
        if statistic > largest and effect > DISCRETISATION:
            largest, suspect = statistic, design.names[j]
    numbers["left_out_statistic"] = largest
    if largest > level:
        return [Reason("unstable", f"{suspect} was left out but is {largest:.1f} standard errors from zero when added")]
    return []


def correlated(design: Design) -> bool:
    """Whether some source found its noise to be correlated."""
    return any(source.get("correlation_lengths") for source in design.sources)


def missing_gate(design: Design, wider: Design, chosen: Selection, numbers: dict[str, Any]) -> list[Reason]:
    """Whether common terms outside the library give a better model than the library does."""
    rival = select(wider, max(len(chosen.support) + 1, 3), 20, 0)
    inside = tuple(sorted(wider.names.index(design.names[j]) for j in chosen.support))
    scores = {c.support: score for score, c in rival.scored}
    here = scores.get(inside)
    if here is None:
        here = score_supports(wider, [inside])[0][0]
    outside = [(score, s) for s, score in scores.items() if any(wider.names[j].startswith("probe ") for j in s)]
    best, support = min(outside, default=(np.inf, ()))
    numbers["missing_gap"] = float(best - here)
    if best - here < LEAST_MISSING_GAP:
        names = ", ".join(wider.names[j].removeprefix("probe ") for j in support)
        return [Reason("misfit", f"{{{names}}}, not all in the library, fits better (EBIC {best - here:+.1f})")]
    return []


def alias_gate(design: Design, chosen: Selection) -> list[Reason]:
    """Terms outside the support that the noise-free columns of the support reproduce: a swap would fit the data as well.

    Noise makes aliased columns look different, so this looks at the noise-corrected Gram, not at residuals.
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
        if signal[k, k] > tolerance[1] and left <= tolerance[0] and left <= ALIAS_SHARE * signal[k, k]:
            names = [name for name, weight in zip(design.names, direction, strict=True) if abs(weight) > 1e-3]
            groups = design.select(names).alias_groups()
            others = ", ".join(name for name in names if name != design.names[k])
            text = str(groups[0]) if groups else f"{design.names[k]} cannot be told from {others}"
            return [Reason("aliased", text)]
    return []


def noise_gates(design: Design, support: tuple[int, ...], numbers: dict[str, Any]) -> list[Reason]:
    """Gates that need to know what the noise does: energy left unexplained, and noise in the weakest direction."""
    reasons = []
    blocks = design.grams.corrected
    total = blocks.sum(axis=0)
    misfit = corrected_misfit(total, support)
    left_out = np.array([corrected_misfit(total - block, support) for block in blocks])
    count = len(blocks)
    error = float(np.sqrt((count - 1) / count * ((left_out - left_out.mean()) ** 2).sum()))
    numbers.update(misfit=misfit, misfit_error=error)
    if misfit + 2 * error > LARGEST_MISFIT:
        reasons.append(Reason("misfit", f"up to {misfit + 2 * error:.0%} of the anchor's energy stays unexplained"))
    elif misfit > 3 * error and misfit > SEEN_MISFIT:
        reasons.append(Reason("misfit", f"{misfit:.2%} of the anchor's energy stays unexplained, three times its error bar"))
    drift = heterogeneity(design, support)
    numbers["heterogeneity"] = drift
    if drift > LARGEST_HETEROGENEITY:
        reasons.append(Reason("misfit", f"coefficients drift from block to block {drift:.0f} times more than noise explains"))
    share = noise_share(design, support)
    numbers["noise_share"] = share
    if share > LARGEST_NOISE_SHARE:
        reasons.append(Reason("unstable", f"noise exceeds the signal {share:.1f} times in the weakest direction of the support"))
    return reasons


def heterogeneity(design: Design, support: tuple[int, ...]) -> float:
    """How much more the normal equations fail block by block than the noise draws make them fail (median over the blocks).

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
    floor = DISCRETISATION**2 * energy  # interpolation and quadrature fail the equations a little without any noise
    return float(np.median(scores(grams.corrected) ** 2 / np.maximum(expected + floor, 1e-300), axis=0).max())


def corrected_misfit(gram: np.ndarray, support: tuple[int, ...]) -> float:
    """Unexplained share of the noise-free anchor energy."""
    beta = resampling.solve_support(gram, support)
    return float(1 - gram[0, np.asarray(support) + 1] @ beta / gram[0, 0])


def noise_share(design: Design, support: tuple[int, ...]) -> float:
    """Largest ratio of noise to signal energy over the directions of the selected columns."""
    index = np.ix_(np.asarray(support) + 1, np.asarray(support) + 1)
    signal = design.grams.total("corrected")[index]
    noise = np.zeros_like(signal) if design.grams.noise is None else design.grams.noise.sum(axis=0)[index]
    values, vectors = np.linalg.eigh(signal / np.sqrt(np.outer(np.diag(signal), np.diag(signal)).clip(1e-300)))
    if values[0] <= 0:
        return float("inf")
    scale = np.sqrt(np.diag(signal))
    half = vectors / np.sqrt(values)
    return float(np.linalg.eigvalsh(half.T @ (noise / np.outer(scale, scale)) @ half)[-1])
