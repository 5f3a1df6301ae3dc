# SPDX-License-Identifier: MIT
"""Refinement until decided: finer discretisations only for the terms whose error bars still reach
the tolerance.

The loop knows nothing about meshes. It asks a callback for the bounds of some terms on a level, 0
being the discretisation at hand, decides what it can by the robust relevance decision, and goes on
with the rest, from coarse to fine, until nothing is left or the callback says that a level is
beyond the budget. A level decides by its own score and its own error bar; the gap between the
scores of two levels decides nothing, because it bounds no error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cffem.verdicts.decisions import UNRESOLVED, decide

# Levels of refinement at most, the given one included.
LEVELS = 12


@dataclass(frozen=True)
class LevelVerdict:
    """The decision on one term and the level it was made on.

    Attributes:
        term: the term.
        decision: "relevant", "irrelevant" or "unresolved".
        score: of the level.
        margin: of the level, infinite where there is no bound.
        level: 0 for the discretisation at hand.
        bound: what the callback gave for the term on that level.
        reason: why it is unresolved, empty where it is not.
        tried: level, score and margin of every level that had a bound, from coarse to fine.
    """

    term: str
    decision: str
    score: float
    margin: float
    level: int
    bound: Any
    reason: str = ""
    tried: tuple[tuple[int, float, float], ...] = ()


def decide_by_refinement(
    names: Iterable[str],
    epsilon: float,
    certify: Callable[[tuple[str, ...], int], Mapping[str, Any] | None],
    levels: int = LEVELS,
    relative: bool = False,
) -> dict[str, LevelVerdict]:
    """Decide terms on ever finer levels.

    Args:
        names: the terms.
        epsilon: the tolerance.
        certify: gives for some terms and a level an object with `score` and `margin` for each term,
            or one that is false and has a `reason`; None for the whole level where it is beyond the
            budget.
        levels: no more than so many levels.
        relative: whether ε is multiplied by the norm of the factual solution, which each bound then
            knows as its `size`, up to its `size_error`.

    Returns:
        The verdicts by term, in the order of `names`.

    Example:
        >>> from collections import namedtuple
        >>> Bound = namedtuple("Bound", "score margin")
        >>> def certify(names, level):
        ...     return (
        ...         {name: Bound(score=0.5, margin=1.0 / 4**level) for name in names}
        ...         if level < 5
        ...         else None
        ...     )
        >>> verdict = decide_by_refinement(["u"], 0.4, certify)["u"]
        >>> verdict.decision, verdict.level
        ('relevant', 2)
    """
    wanted = tuple(names)
    verdicts: dict[str, LevelVerdict] = {}
    tried: dict[str, list[tuple[int, float, float]]] = {name: [] for name in wanted}
    left, reason = wanted, "the error bar reaches ε and no further level is allowed"
    for level in range(levels):
        bounds = certify(left, level) if left else None
        if bounds is None:
            reason = "the error bar reaches ε and the next level is beyond the budget"
            break
        for name in left:
            verdict = _verdict(name, epsilon, level, bounds[name], relative)
            if math.isfinite(verdict.margin):
                tried[name].append((level, verdict.score, verdict.margin))
            # A level without a bound does not take away what a coarser one had.
            if (
                name not in verdicts
                or math.isfinite(verdict.margin)
                or not math.isfinite(verdicts[name].margin)
            ):
                verdicts[name] = verdict
        left = tuple(name for name in left if verdicts[name].decision == UNRESOLVED)
    return {
        name: replace(_ended(verdicts.get(name), name, reason), tried=tuple(tried[name]))
        for name in wanted
    }


def _verdict(name: str, epsilon: float, level: int, bound: Any, relative: bool) -> LevelVerdict:
    margin = float(bound.margin)
    if not math.isfinite(margin):
        return LevelVerdict(
            name,
            UNRESOLVED,
            math.nan,
            math.inf,
            level,
            bound,
            f"no error bar: {getattr(bound, 'reason', '')}",
        )
    tolerance, uncertainty = (
        (epsilon * bound.size, epsilon * bound.size_error) if relative else (epsilon, 0.0)
    )
    return LevelVerdict(
        name,
        decide(bound.score, tolerance, margin=margin + uncertainty),
        float(bound.score),
        margin,
        level,
        bound,
    )


def _ended(verdict: LevelVerdict | None, name: str, reason: str) -> LevelVerdict:
    """An unresolved verdict with the reason why it was not refined further."""
    if verdict is None:
        return LevelVerdict(name, UNRESOLVED, math.nan, math.inf, 0, None, reason)
    if verdict.decision != UNRESOLVED or verdict.reason:
        return verdict
    return replace(verdict, reason=reason)
