# SPDX-License-Identifier: MIT
"""Which supports a search visits, which of them survive the deletion test, and what the search may
have missed.

The search knows its limits. It goes one size further than the winner; it looks past the best few of
every size as long as they score better than the winner; and it exchanges single terms of the
winner. What is still open then is a doubt in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.subset import SUBSET, Candidate, neighbours, rescore, visited_supports

Bounds = Mapping[int, tuple[float, float]]


@dataclass(frozen=True)
class SearchSettings:
    """How far a search goes.

    Attributes:
        first: terms up to which every search goes.
        most: terms at which a search without a given limit ends.
        tested: supports beyond the best few of each size that are tested for deletion.
        exchanges: rounds in which single terms of the winner are exchanged.
    """

    first: int = 8
    most: int = 12
    tested: int = 200
    exchanges: int = 6


SETTINGS = SearchSettings()


@dataclass(frozen=True)
class Explored:
    """What a search found.

    Attributes:
        visited: all supports that were scored.
        survivors: those whose every term passes the deletion test, with their scores, best first.
        doubts: why a better support may exist, in words.
    """

    visited: list[Candidate]
    survivors: list[tuple[float, Candidate]]
    doubts: tuple[str, ...]

    @property
    def best(self) -> Candidate:
        """The survivor with the smallest score."""
        return self.survivors[0][1]


def views(design: Design) -> list[np.ndarray]:
    """Block Grams on which supports are searched: raw rows and, where known, denoised rows."""
    grams = design.grams
    return [grams.plain] if grams.denoised is None else [grams.plain, grams.denoised]


def evidence_floor(design: Design) -> float:
    """Share of the anchor's energy below which a smaller residual is no evidence: few
    readings fail integration by parts.
    """
    return max([SUBSET.floor, *(float(source.get("defect", 0.0)) for source in design.sources)])


def explore(design: Design, largest: int | None, bounds: Bounds | None = None) -> Explored:
    """Visit supports until none of the next size scores better, or the limit is reached.

    Args:
        design: the design.
        largest: terms of the largest support that may be chosen; None for the default of the
            settings.
        bounds: smallest and largest coefficient of some columns.
    """
    columns, rows = len(design.names), design.effective_rows
    room = max(1, min(columns, int(rows) - 1))
    limit = min(SETTINGS.most if largest is None else largest, room)
    size = min(limit, SETTINGS.first)
    while True:
        found = visit(design, size, min(size + 1, room), bounds)
        if len(found.best.support) <= size:
            return found
        if size == limit:
            return within(found, limit, design)
        size = min(size + 2, limit)


def within(found: Explored, limit: int, design: Design) -> Explored:
    """The search restricted to its limit, with the doubt that a larger support scores better."""
    larger = named(design, found.best.support)
    gain = (
        next(score for score, c in found.survivors if len(c.support) <= limit)
        - found.survivors[0][0]
    )
    doubt = (
        f"a support of {limit + 1} terms, {larger}, scores better by {gain:.1f}: the search ended "
        f"at {limit} terms (`largest`)"
    )
    kept = [(score, c) for score, c in found.survivors if len(c.support) <= limit]
    return Explored(
        [c for c in found.visited if len(c.support) <= limit], kept, (*found.doubts, doubt)
    )


def visit(design: Design, size: int, further: int, bounds: Bounds | None) -> Explored:
    """All supports up to a size and one size further, tested and improved by exchanges."""
    totals = [b.sum(axis=0) for b in views(design)]
    columns, rows, floor = len(design.names), design.effective_rows, evidence_floor(design)

    def scored(found: list[Candidate]) -> list[tuple[float, Candidate]]:
        return sorted(((c.score(rows, columns, floor), c) for c in found), key=lambda pair: pair[0])

    visited, others = visited_supports(totals, further)
    survivors = [
        pair for pair in scored(visited) if passes_deletion(design, pair[1].support, bounds)
    ]
    open_ones = [
        pair
        for pair in scored(others)
        if pair[0] < survivors[0][0] and len(pair[1].support) <= size
    ]
    tested = open_ones[: SETTINGS.tested]
    better = next(
        (pair for pair in tested if passes_deletion(design, pair[1].support, bounds)), None
    )
    doubts: tuple[str, ...] = ()
    if better is not None:
        survivors, visited = [better, *survivors], [*visited, better[1]]
    elif len(open_ones) > len(tested):
        count = len(open_ones) - len(tested)
        doubts = (
            f"{count} supports that score better than the one chosen were not tested: terms in "
            "them alias each other",
        )
    for _ in range(SETTINGS.exchanges):
        known = {c.support for c in visited}
        fresh = [
            s
            for s in neighbours(survivors[0][1].support, columns)
            if s not in known and len(s) <= further
        ]
        gains = (
            [p for p in scored(rescore(fresh, totals)) if p[0] < survivors[0][0]] if fresh else []
        )
        won = next(
            (pair for pair in gains if passes_deletion(design, pair[1].support, bounds)), None
        )
        if won is None:
            break
        survivors, visited = [won, *survivors], [*visited, won[1]]
    return Explored(visited, survivors, doubts)


def passes_deletion(design: Design, support: tuple[int, ...], bounds: Bounds | None = None) -> bool:
    """Whether every term of a support differs from zero in the corrected and in the denoised
    estimate; the empty support does.

    Coefficients outside their bounds do not pass either.
    """
    if not support:
        return True
    grams = design.grams
    threshold = resampling.t_threshold(len(grams.labels), len(design.names))
    for blocks in [grams.corrected] + ([] if grams.denoised is None else [grams.denoised]):
        estimate, error = resampling.jackknife(blocks, support)
        if not (np.abs(estimate) >= threshold * error).all():
            return False
        if any(
            not low <= value <= high for value, (low, high) in bounded(estimate, support, bounds)
        ):
            return False
    return True


def bounded(
    estimate: np.ndarray, support: tuple[int, ...], bounds: Bounds | None
) -> list[tuple[float, tuple[float, float]]]:
    """The estimates that have bounds, with them."""
    return (
        [(float(v), bounds[j]) for v, j in zip(estimate, support, strict=True) if j in bounds]
        if bounds
        else []
    )


def named(design: Design, support: tuple[int, ...]) -> str:
    """A support for people."""
    return "{" + ", ".join(design.names[j] for j in support) + "}"
