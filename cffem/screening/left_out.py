# SPDX-License-Identifier: MIT
"""Terms that a support leaves out although they would differ from zero, could be large, or would
improve the fit by more than chance.
"""

from __future__ import annotations

from typing import Any

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.detection import Detection
from cffem.screening.doubts import GATES, Doubt
from cffem.screening.selection import score_supports
from cffem.screening.subset import penalty


def left_out_gates(
    design: Design, found: dict[int, Detection], numbers: dict[str, Any]
) -> list[Doubt]:
    """Terms that were left out although they would differ from zero, or could be large without
    being seen.

    Correlated noise leaves fewer independent rows than counted, so there the bar is lower.
    """
    threshold = resampling.t_threshold(len(design.grams.labels), len(design.names))
    level = min(threshold, GATES.cautious) if correlated(design) else threshold
    seen = [d for d in found.values() if d.effect > GATES.discretisation]
    suspect = max(seen, key=lambda d: d.statistic, default=None)
    largest = max(found.values(), key=lambda d: d.share / tolerated(d), default=None)
    numbers["left_out_statistic"] = suspect.statistic if suspect else 0.0
    numbers["undetected_share"] = largest.share if largest else 0.0
    reasons = []
    if suspect is not None and suspect.statistic > level:
        text = (
            f"{suspect.name} was left out but is {suspect.statistic:.1f} standard errors from "
            "zero when added"
        )
        reasons.append(Doubt("unstable", text))
    if (
        largest is not None
        and largest.share > tolerated(largest)
        and design.grams.noise is not None
    ):
        low, high = largest.interval
        range_ = f"coefficient in [{low:.3g}, {high:.3g}]"
        text = (
            f"{largest.name} was left out but could carry {largest.share:.0%} of the anchor "
            f"({range_})"
        )
        reasons.append(Doubt("undetected", text))
    return reasons


def open_gate(
    design: Design, support: tuple[int, ...], found: dict[int, Detection], numbers: dict[str, Any]
) -> list[Doubt]:
    """Whether a left-out term that matters would improve the fit by more than chance.

    EBIC and the deletion test ask for much before they take a term, so that no false one comes in.
    Akaike's criterion asks for what prediction gains from it. Where these two disagree about a term
    that carries a visible share of the anchor, the data neither show nor exclude it.
    """
    price = penalty(design.effective_rows, len(design.names))
    here = score_supports(design, [support])[0][0]
    gains = {
        j: here + price - score_supports(design, [tuple(sorted((*support, j)))])[0][0]
        for j, term in found.items()
        if term.effect > GATES.matters
    }
    column = max(gains, key=lambda j: gains[j], default=None)
    numbers["open_gain"] = 0.0 if column is None else gains[column]
    if column is None or gains[column] <= GATES.improves:
        return []
    low, high = found[column].interval
    text = (
        f"{found[column].name} was left out, but would carry {found[column].effect:.0%} of the "
        f"anchor and improve the fit by {gains[column]:.1f}, more than {GATES.improves:.0f} that "
        f"chance gives (coefficient in [{low:.3g}, {high:.3g}])"
    )
    return [Doubt("undetected", text)]


def tolerated(left_out: Detection) -> float:
    """The amplitude that a left-out term may still have; less where its interval excludes zero."""
    low, high = left_out.interval
    return GATES.undetected if low <= 0 <= high else GATES.suspected


def correlated(design: Design) -> bool:
    """Whether some source found its noise to be correlated."""
    return any(source.get("correlation_lengths") for source in design.sources)
