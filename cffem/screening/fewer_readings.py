# SPDX-License-Identifier: MIT
"""Whether few frames suffice: the coefficients without one of them.

Sums over few readings keep integration by parts for polynomials in time. What they fail by on other
data is estimated from the polynomials that the readings show (`Tail`), which data that change
within a step can deceive. A reading less shows it: the sums lose two degrees, and coefficients that
are right stay where they are, at least without that reading which is missed least. The smallest
number of readings that a derivative needs has no such check; there the estimate must be smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cffem.design.design import Design
from cffem.design.design_parts import ProbedTerms
from cffem.design.gram import fold
from cffem.screening.doubts import Doubt
from cffem.screening.selection import Refit
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError


@dataclass(frozen=True)
class FewerReadingSettings:
    """When a reading is left out, and what may follow from it.

    Args:
        few: readings in time up to which one is left out.
        moved: share of a coefficient by which it may move, or its interval if that is wider.
        unchecked: largest energy by which sums may fail, as estimated, where no reading can be left
            out. Coefficients from five frames of drawn waves were up to 70 times further off than
            it says, so that it must be that much smaller than where it can be checked.
    """

    few: int = 12
    moved: float = 0.005
    unchecked: float = 1e-8


FEWER = FewerReadingSettings()


def fewer_readings_gate(design: Design, fitted: Refit, numbers: dict[str, Any]) -> list[Doubt]:
    """Whether the coefficients depend on one frame among few."""
    origin = design.origin
    if origin is None or origin.kind != "weak" or not all(map(has_few_frames, origin.sources)):
        return []
    frames = min(len(source.coordinates[t]) for source in origin.sources)
    found = [coefficients_without(design, fitted, k) for k in {1, frames // 2, frames - 2}]
    others = [values for values in found if values is not None]
    if not others:
        return unchecked_gate(design, frames, numbers)
    half = np.abs(fitted.intervals - fitted.coefficients[:, None]).max(axis=1)
    allowed = np.maximum(FEWER.moved * np.abs(fitted.coefficients), half)
    moves = [np.abs(values - fitted.coefficients) for values in others]
    least = min(moves, key=lambda move: float((move / allowed).max()))
    worst = int((least / allowed).argmax())
    share = float(least[worst] / max(abs(fitted.coefficients[worst]), np.finfo(float).tiny))
    numbers["moved_without_a_frame"] = share
    if least[worst] <= allowed[worst]:
        return []
    return [
        Doubt(
            "misfit",
            f"without one of the {frames} frames {design.names[fitted.support[worst]]} changes by "
            f"{share:.2%}, whichever is left out, which would have to be less than "
            f"{max(FEWER.moved, half[worst] / abs(fitted.coefficients[worst])):.2%}: the data "
            "change too fast for the times at which they were read",
        )
    ]


def has_few_frames(source: Any) -> bool:
    """Whether these are data on a grid with few readings in time."""
    return (
        hasattr(source, "taken")
        and source.points is None
        and t in source.coordinates
        and len(source.coordinates[t]) <= FEWER.few
    )


def coefficients_without(design: Design, fitted: Refit, number: int) -> np.ndarray | None:
    """The coefficients of the support without one frame; None where too few are left."""
    origin = design.origin
    assert origin is not None
    names = [design.names[column] for column in fitted.support]
    terms = {name: origin.library.terms[name] for name in (*names, *origin.known)}
    library = ProbedTerms(origin.library.anchor, terms)
    grams = []
    for source in origin.sources:
        axis, frames = list(source.coordinates).index(t), len(source.coordinates[t])
        kept = [k for k in range(frames) if k != min(number, frames - 2)]
        try:
            grams.append(fold(source.taken(axis, kept).rows(library, "weak")))
        except InputError:
            return None
    known = {len(names) + k: value for k, value in enumerate(origin.known.values())}
    total = sum(gram.with_known(known).total("corrected") for gram in grams)
    return np.linalg.lstsq(total[1:, 1:], total[1:, 0], rcond=None)[0]


def unchecked_gate(design: Design, frames: int, numbers: dict[str, Any]) -> list[Doubt]:
    """Whether the fewest frames that the equation needs show data that change slowly."""
    if any("defect" not in source for source in design.sources):
        return [
            Doubt(
                "misfit",
                f"values are missing and {frames} frames are the fewest that this equation needs, "
                "so that nothing tells how far sums over them are off; one more frame would do",
            )
        ]
    if numbers["defect"] <= FEWER.unchecked:
        return []
    return [
        Doubt(
            "misfit",
            f"sums over {frames} frames, the fewest that this equation needs, are off by about "
            f"{np.sqrt(numbers['defect']):.3%} of the anchor, which would have to be less than "
            f"{np.sqrt(FEWER.unchecked):.3%} as no frame can be left out to see whether the "
            "coefficients hold; one more frame would do",
        )
    ]
