# SPDX-License-Identifier: MIT
"""Station: the constraint class of each experiment, and the effective library that is left for
identification.

A term that vanishes on the class of one experiment may be seen in another one, so a term is
`constraint_null` for the study only if it is so in every experiment.
"""

from __future__ import annotations

import math

from cffem.study.run.identified_facts import ClassFact, ConstraintFact, ConstraintFacts, NullFact
from cffem.study.run.running import Run


def constraints(run: Run) -> ConstraintFacts:
    """For each experiment with a constraint its null terms and equivalence classes."""
    found: dict[str, ConstraintFact] = {}
    constrained = [
        name for name, experiment in run.experiments.items() if experiment.constraint is not None
    ]
    if not constrained:
        return found
    run.progress.begin("constraint", len(constrained))
    for name in constrained:
        found[name] = run.fact(
            ConstraintFact, f"constraint/{name}", lambda name=name: analysed(run, name), name
        )
    return found


def analysed(run: Run, name: str) -> ConstraintFact:
    """Null terms with their evidence, classes with what they identify, and the names that are
    left.
    """
    from cffem.constraints.effective import effective_library

    model = run.models.get(name) or run.model(name, run.study.coefficients or {})
    effective = effective_library(model, trajectory=name in run.models)
    if name not in run.models:
        model.destroy()
    nulls = tuple(
        NullFact(
            null.term,
            str(null.evidence),
            float(null.ratio),
            # A nonlinear term has no operator norm, so nothing bounds it.
            None if math.isnan(null.bound) else float(null.bound),
            float(null.trajectory),
            null.label,
            null.reason,
        )
        for null in effective.removed
    )
    classes = tuple(
        ClassFact(
            tuple(group.terms),
            tuple(group.representatives),
            tuple(str(combination) for combination in group.identified.values()),
            group.evidence,
            float(group.ratio),
            group.label,
        )
        for group in effective.classes
    )
    constraint = f"{run.experiments[name].constraint.expr} = 0"
    return ConstraintFact(constraint, nulls, classes, tuple(effective.library.names))


def nulls_of(facts: ConstraintFacts, name: str) -> dict[str, NullFact]:
    """The null terms of one experiment."""
    return {null.term: null for null in facts[name].null_terms} if name in facts else {}


def nulls_everywhere(facts: ConstraintFacts, run: Run) -> dict[str, NullFact]:
    """The terms that are null in every experiment, with the evidence of the first."""
    each = [nulls_of(facts, name) for name in run.experiments]
    return {term: null for term, null in each[0].items() if all(term in others for others in each)}


def effective_names(facts: ConstraintFacts, run: Run) -> list[str]:
    """The terms of the library that some experiment can identify."""
    kept: set[str] = set()
    for name in run.experiments:
        kept |= set(facts[name].effective_library if name in facts else run.study.library.names)
    return [term for term in run.study.library.names if term in kept]
