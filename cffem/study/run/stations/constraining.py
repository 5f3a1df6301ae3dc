# SPDX-License-Identifier: MIT
"""Station: the constraint class of each experiment, and the effective library that is left for
identification.

A term that vanishes on the class of one experiment may be seen in another one, so a term is
`constraint_null` for the study only if it is so in every experiment.
"""

from __future__ import annotations

import math
from typing import Any

from cffem.study.run.running import Run

Facts = dict[str, Any]


def constraints(run: Run) -> Facts:
    """For each experiment with a constraint its null terms and equivalence classes."""
    found: Facts = {}
    constrained = [
        name for name, experiment in run.experiments.items() if experiment.constraint is not None
    ]
    if not constrained:
        return found
    run.progress.begin("constraint", len(constrained))
    for name in constrained:
        found[name] = run.once(f"constraint/{name}", lambda name=name: analysed(run, name), name)
    return found


def analysed(run: Run, name: str) -> Facts:
    """Null terms with their evidence, classes with what they identify, and the names that are
    left.
    """
    from cffem.constraints.effective import effective_library

    model = run.models.get(name) or run.model(name, run.study.coefficients or {})
    effective = effective_library(model, trajectory=name in run.models)
    if name not in run.models:
        model.destroy()
    return {
        "class": f"{run.experiments[name].constraint.expr} = 0",
        "null_terms": [
            {
                "term": null.term,
                "evidence": str(null.evidence),
                "ratio": float(null.ratio),
                # A nonlinear term has no operator norm, so nothing bounds it.
                "bound": None if math.isnan(null.bound) else float(null.bound),
                "trajectory": float(null.trajectory),
                "label": null.label,
                "reason": null.reason,
            }
            for null in effective.removed
        ],
        "equivalence_classes": [
            {
                "terms": list(group.terms),
                "representatives": list(group.representatives),
                "identified": [str(combination) for combination in group.identified.values()],
                "evidence": group.evidence,
                "ratio": float(group.ratio),
                "label": group.label,
            }
            for group in effective.classes
        ],
        "effective_library": list(effective.library.names),
    }


def nulls_of(facts: Facts, name: str) -> dict[str, Facts]:
    """The null terms of one experiment."""
    return {null["term"]: null for null in facts.get(name, {}).get("null_terms", ())}


def nulls_everywhere(facts: Facts, run: Run) -> dict[str, Facts]:
    """The terms that are null in every experiment, with the evidence of the first."""
    each = [nulls_of(facts, name) for name in run.experiments]
    return {term: null for term, null in each[0].items() if all(term in others for others in each)}


def effective_names(facts: Facts, run: Run) -> list[str]:
    """The terms of the library that some experiment can identify."""
    kept: set[str] = set()
    for name in run.experiments:
        kept |= set(facts[name]["effective_library"] if name in facts else run.study.library.names)
    return [term for term in run.study.library.names if term in kept]
