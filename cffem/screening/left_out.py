# SPDX-License-Identifier: MIT
"""Terms that a support leaves out although they would differ from zero, could be large, would
improve the fit by more than chance, or act in fronts that the rows average out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from cffem.data.rows.conservation import orders_of
from cffem.design.design import Design
from cffem.design.design_parts import ProbedTerms
from cffem.design.gram import fold
from cffem.screening import resampling
from cffem.screening.detection import Detection
from cffem.screening.doubts import GATES, Doubt
from cffem.screening.selection import score_supports
from cffem.screening.subset import penalty
from cffem.symbols.algebra.components import to_components
from cffem.symbols.errors import InputError


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


def front_gate(
    design: Design, support: tuple[int, ...], found: dict[int, Detection], numbers: dict[str, Any]
) -> list[Doubt]:
    """Whether the data have fronts in which a left-out second derivative could act.

    Without a second derivative in the equation, fronts steepen until such a term stops them,
    however small its coefficient (a singular perturbation). Rows average over the width of their
    test functions and hardly see it. Fronts show as a second derivative that grows beside the
    anchor when test functions become narrower; how small it is in the rows then tells nothing.
    """
    left_out = second_derivatives(design, support)
    if not left_out:
        return []
    narrow = narrow_gram(design, left_out)
    if narrow is None:
        return []
    usual = design.grams.total("corrected")
    worst: tuple[float, int, float] = (0.0, -1, 0.0)
    for place, column in enumerate(left_out):
        before, after = beside_anchor(usual, column), beside_anchor(narrow, place)
        low, high = found[column].interval
        share = max(abs(low), abs(high)) * after
        if before > 0 and share > GATES.front_share:
            worst = max(worst, (after / before, column, share))
    growth, column, share = worst
    numbers["front_growth"] = growth
    if growth <= GATES.fronts:
        return []
    low, high = found[column].interval
    text = (
        f"the data have fronts that the test functions average out: {design.names[column]} was "
        f"left out, and under narrower ones it grows {growth:.1f} times beside the anchor and "
        f"could carry {share:.0%} of it (coefficient in [{low:.3g}, {high:.3g}]); however small, "
        "a second derivative decides how steep fronts become"
    )
    return [Doubt("undetected", text)]


def second_derivatives(design: Design, support: tuple[int, ...]) -> list[int]:
    """The left-out terms of second order in space, where those of the support have a lower one."""
    origin = design.origin
    if origin is None or origin.kind != "weak":
        return []
    dim = max((getattr(source, "dim", 0) for source in origin.sources), default=0)
    if dim == 0 or not all(has_narrow_rows(source) for source in origin.sources):
        return []
    terms = origin.library.terms
    kept = [terms[name] for name in (*(design.names[j] for j in support), *origin.known)]
    if max((space_order(term, dim) for term in kept), default=0) > 1:
        return []
    return [
        j
        for j, name in enumerate(design.names)
        if j not in support and space_order(terms[name], dim) == 2
    ]


def has_narrow_rows(source: Any) -> bool:
    """Whether rows of these data can be made with narrower test functions."""
    return hasattr(source, "narrow_rows") and source.points is None


def space_order(term: sp.Expr, dim: int) -> int:
    """The highest order of a derivative in space that a term contains.

    Example:
        >>> from cffem import ScalarField, dt, lap
        >>> u = ScalarField("u")
        >>> space_order(u * lap(u), 2), space_order(dt(u) + u**2, 2)
        (2, 0)
    """
    found = [d for entry in to_components(term, dim) for d in entry.atoms(sp.Derivative)]
    return max((sum(orders_of(d)[:3]) for d in found), default=0)


def narrow_gram(design: Design, columns: list[int]) -> np.ndarray | None:
    """The noise-corrected Gram of some terms with narrower test functions; None where the data are
    too small for these.
    """
    origin = design.origin
    assert origin is not None
    terms = {design.names[j]: origin.library.terms[design.names[j]] for j in columns}
    library = ProbedTerms(origin.library.anchor, {**terms, **{
        name: origin.library.terms[name] for name in origin.known}})  # fmt: skip
    known = {len(terms) + k: value for k, value in enumerate(origin.known.values())}
    total = np.zeros((len(terms) + 1, len(terms) + 1))
    try:
        for source in origin.sources:
            rows = source.narrow_rows(library, GATES.narrower)
            total += fold(rows).with_known(known).total("corrected")
    except InputError:
        return None
    return total


def beside_anchor(gram: np.ndarray, column: int) -> float:
    """Norm of a column relative to the anchor's."""
    return float(np.sqrt(max(gram[column + 1, column + 1], 0.0) / max(gram[0, 0], 1e-300)))


def tolerated(left_out: Detection) -> float:
    """The amplitude that a left-out term may still have; less where its interval excludes zero."""
    low, high = left_out.interval
    return GATES.undetected if low <= 0 <= high else GATES.suspected


def correlated(design: Design) -> bool:
    """Whether some source found its noise to be correlated."""
    return any(source.get("correlation_lengths") for source in design.sources)
