# SPDX-License-Identifier: MIT
"""The sensitivity design of a study as plain data for its report."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.study.run.stations.identifying import combinations

if TYPE_CHECKING:
    from cffem.design.design import Design

Facts = dict[str, Any]


def plain_design(design: Design, noise_level: float = 1.0) -> Facts:
    """Rank, condition, alias groups and what the noise allows, of one sensitivity design.

    Args:
        design: columns 𝒪 ∂u/∂α_j in units of the noise.
        noise_level: σ, where the columns are in units of an unknown one.
    """
    groups = design.alias_groups()
    null = dict(design.notes.get("null", {}))
    tied = {term for group in groups for term in group.terms}
    free = [name for name in design.names if name not in tied]
    selected = design.selected_gram(free) if free else None
    return {
        "kind": "sensitivity",
        "observation": str(design.notes.get("observation", "")),
        "names": list(design.names),
        "rows": int(design.rows),
        "rank": design.rank(),
        "coherence": design.coherence() if len(free) > 1 else 0.0,
        "gram": design.normalised_gram().tolist(),
        "deviations": {
            name: noise_level * value if math.isfinite(value) else None
            for name, value in design.deviations().items()
        },
        "null": null,
        "projected_out": list(design.notes.get("projected out", ())),
        "minimum_eigenvalue": None if selected is None else float(selected.minimum),
        "condition": None if selected is None else float(selected.condition),
        "alias_groups": [
            {
                "terms": list(group.terms),
                "name": group.name,
                "identified": [str(c) for c in combinations(group.identified)],
                "latex": [sp.latex(c) for c in combinations(group.identified)],
                "estimates": [float(v) for v in np.atleast_1d(group.estimates)],
                "sentence": group_sentence(group, null),
            }
            for group in groups
        ],
    }


def group_sentence(group: Any, null: dict[str, str]) -> str:
    """What is not identified, with the reason where it is known."""
    reasons = {null[term] for term in group.terms if term in null}
    if reasons and set(group.terms) <= set(null):
        return f"{', '.join(group.terms)}: {'; '.join(sorted(reasons))}, so that no sensor feels it"
    return str(group)
