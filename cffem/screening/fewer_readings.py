# SPDX-License-Identifier: MIT
"""Whether few readings along an axis suffice: the coefficients without one of them.

Sums over few readings keep integration by parts for polynomials along their axis. What they fail by
on other data is estimated from the polynomials that the readings show (`Tail`), which data that
change within a step can deceive; so can differences of two orders, which strong rows compare. A
reading less shows it: sums lose two degrees, and coefficients that are right stay where they are,
at least without that reading which is missed least. The smallest number of readings that a
derivative needs has no such check; there the estimate must be smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from cffem.design.design import Design
from cffem.design.design_parts import ProbedTerms
from cffem.design.gram import fold
from cffem.screening.doubts import Doubt
from cffem.screening.selection import Refit
from cffem.symbols.coordinates import COORDINATES, t
from cffem.symbols.errors import InputError


@dataclass(frozen=True)
class FewerReadingSettings:
    """When a reading is left out, and what may follow from it.

    Args:
        few: readings along an axis up to which one is left out.
        moved: share of a coefficient by which it may move along time, or its interval if that is
            wider.
        moved_in_space: the same along an axis of space, where intervals see what sums fail by. It
            is a false term that moves there, by many times its coefficient; those of true supports
            moved by up to 3 % in most cases.
        unchecked: largest energy by which sums may fail, as estimated, where no reading can be left
            out. Coefficients from five frames of drawn waves were up to 70 times further off than
            it says, so that it must be that much smaller than where it can be checked.
    """

    few: int = 12
    moved: float = 0.005
    moved_in_space: float = 0.1
    unchecked: float = 1e-8


FEWER = FewerReadingSettings()


def fewer_readings_gate(design: Design, fitted: Refit, numbers: dict[str, Any]) -> list[Doubt]:
    """Whether the coefficients depend on one reading among few, along time or an axis of space."""
    origin = design.origin
    if origin is None:
        return []
    for symbol in reversed(COORDINATES):
        if all(has_few(source, symbol) for source in origin.sources):
            reasons = fewer_along(design, fitted, symbol, numbers)
            if reasons:
                return reasons
    return []


def fewer_along(
    design: Design, fitted: Refit, symbol: sp.Symbol, numbers: dict[str, Any]
) -> list[Doubt]:
    """Whether the coefficients hold without one reading along an axis."""
    origin = design.origin
    assert origin is not None
    count = min(len(source.coordinates[symbol]) for source in origin.sources)
    tried = {1, count // 2, count - 2}
    found = [coefficients_without(design, fitted, symbol, number) for number in tried]
    others = [values for values in found if values is not None]
    if not others:
        return unchecked_gate(design, symbol, count, numbers)
    half = np.abs(fitted.intervals - fitted.coefficients[:, None]).max(axis=1)
    moved = FEWER.moved if symbol == t else FEWER.moved_in_space
    allowed = np.maximum(moved * np.abs(fitted.coefficients), half)
    moves = [np.abs(values - fitted.coefficients) for values in others]
    least = min(moves, key=lambda move: float((move / allowed).max()))
    worst = int((least / allowed).argmax())
    share = float(least[worst] / max(abs(fitted.coefficients[worst]), np.finfo(float).tiny))
    numbers[f"moved_without_a_reading_of_{symbol}"] = share
    if least[worst] <= allowed[worst]:
        return []
    return [
        Doubt(
            "misfit",
            f"without one of the {readings_of(symbol, count)} "
            f"{design.names[fitted.support[worst]]} changes by "
            f"{share:.2%}, whichever is left out, which would have to be less than "
            f"{max(moved, half[worst] / abs(fitted.coefficients[worst])):.2%}: the data "
            f"change too fast for the {'times' if symbol == t else 'places'} at which they were "
            "read",
        )
    ]


def readings_of(symbol: sp.Symbol, count: int) -> str:
    """Readings along an axis in words.

    Example:
        >>> readings_of(t, 6), readings_of(COORDINATES[0], 6)
        ('6 frames', '6 readings along x')
    """
    return f"{count} frames" if symbol == t else f"{count} readings along {symbol}"


def has_few(source: Any, symbol: sp.Symbol) -> bool:
    """Whether these are data on a grid with few readings along an axis."""
    return (
        hasattr(source, "taken")
        and source.points is None
        and symbol in source.coordinates
        and len(source.coordinates[symbol]) <= FEWER.few
    )


def coefficients_without(
    design: Design, fitted: Refit, symbol: sp.Symbol, number: int
) -> np.ndarray | None:
    """The coefficients of the support without one reading; None where too few are left."""
    origin = design.origin
    assert origin is not None
    names = [design.names[column] for column in fitted.support]
    terms = {name: origin.library.terms[name] for name in (*names, *origin.known)}
    library = ProbedTerms(origin.library.anchor, terms)
    grams = []
    for source in origin.sources:
        axis, count = list(source.coordinates).index(symbol), len(source.coordinates[symbol])
        kept = [k for k in range(count) if k != min(number, count - 2)]
        try:
            grams.append(fold(source.taken(axis, kept).rows(library, origin.kind)))
        except InputError:
            return None
    known = {len(names) + k: value for k, value in enumerate(origin.known.values())}
    total = sum(gram.with_known(known).total("corrected") for gram in grams)
    return np.linalg.lstsq(total[1:, 1:], total[1:, 0], rcond=None)[0]


def unchecked_gate(
    design: Design, symbol: sp.Symbol, count: int, numbers: dict[str, Any]
) -> list[Doubt]:
    """Whether the fewest readings that the equation needs show data that change slowly."""
    readings = readings_of(symbol, count)
    if any("defect" not in source for source in design.sources):
        why = "values are missing" if design.notes.get("kind") == "weak" else "rows are differences"
        return [
            Doubt(
                "misfit",
                f"{why} and {readings} are the fewest that this equation needs, so that nothing "
                "tells how far they are off; one more would do",
            )
        ]
    if numbers["defect"] <= FEWER.unchecked:
        return []
    return [
        Doubt(
            "misfit",
            f"sums over {readings}, the fewest that this equation needs, are off by about "
            f"{np.sqrt(numbers['defect']):.3%} of the anchor, which would have to be less than "
            f"{np.sqrt(FEWER.unchecked):.3%} as no reading can be left out to see whether the "
            "coefficients hold; one more would do",
        )
    ]
