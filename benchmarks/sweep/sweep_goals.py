# SPDX-License-Identifier: MIT
"""What `cffem bench sweep` asks of itself at the larger size of each problem, and what a run misses
of it.

Costs are in units of one efficient factual solve; gains are over the study by hand, end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

SCORES, FAR, NEAR = "all scores", "estimated margins, far", "estimated margins, near"
COSTS: dict[str, dict[str, float]] = {
    "transient": {SCORES: 4.5, FAR: 0.5, NEAR: 2.5},
    "constant": {SCORES: 4.5, "guaranteed margins, far": 1.5, "guaranteed margins, near": 2.5},
    "transient-3d": {SCORES: 3.4, FAR: 0.7, NEAR: 2.5},
    "maxwell": {SCORES: 5.0, FAR: 0.7, NEAR: 2.5},
    "nonlinear": {SCORES: 3.5, FAR: 1.0, NEAR: 2.5},
    "steady": {SCORES: 2.5},
}
GAIN_OF_SCORES, GAIN_OF_DECISIONS = 2.0, 10.0


def missed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The goals that some rows miss, in words; only the largest size of each problem counts.

    Example:
        >>> row = {
        ...     "problem": "steady",
        ...     "title": "2D steady",
        ...     "cells per side": 192,
        ...     "gain, all scores": 1.5,
        ...     "verdicts": {},
        ... }
        >>> missed([{**row, "ratios": {"all scores": 2.6}}])
        ['2D steady: all scores cost 2.60 (goal 2.5)', '2D steady: all scores gain 1.50 (goal 2)']
    """
    largest = {row["problem"]: row for row in sorted(rows, key=lambda row: row["cells per side"])}
    found = []
    for problem, row in largest.items():
        for column, limit in COSTS[problem].items():
            cost = row["ratios"][column]
            if cost > limit:
                found.append(f"{row['title']}: {column} cost {cost:.2f} (goal {limit:g})")
            verdicts = row["verdicts"].get(column)
            if verdicts and verdicts["resolved"] < row["terms"]:
                found.append(
                    f"{row['title']}: {column} resolve {verdicts['resolved']} of {row['terms']} "
                    "terms"
                )
            if verdicts and column.endswith("far") and verdicts["gain"] < GAIN_OF_DECISIONS:
                found.append(
                    f"{row['title']}: {column} gain {verdicts['gain']:.1f} (goal "
                    f"{GAIN_OF_DECISIONS:g})"
                )
        if row["gain, all scores"] < GAIN_OF_SCORES:
            found.append(
                f"{row['title']}: all scores gain {row['gain, all scores']:.2f} (goal "
                f"{GAIN_OF_SCORES:g})"
            )
    return found
