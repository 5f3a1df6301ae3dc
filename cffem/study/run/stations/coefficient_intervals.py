# SPDX-License-Identifier: MIT
"""Station: what the uncertainty of fitted coefficients does to the scores.

Each coefficient is moved to both ends of its interval and the scores are computed again: δ_j may
differ from the computed one by the sum over the coefficients of the larger change, to first order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.engine.time.wellposed import check_model_direction
from cffem.study.run.facts import DeletionFact, DeletionFacts
from cffem.study.run.identified_facts import AdjointFact, SpreadFact, SpreadFacts
from cffem.study.run.running import Run
from cffem.study.run.stations.deleting import ALONE, Deletions
from cffem.study.run.stations.intervening import NAMED, PAIRS
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention, delete
from cffem.symbols.problem.interventions import set as set_coefficient

if TYPE_CHECKING:
    from cffem.study.run.sections.findings import Findings

Changed = tuple[Intervention, DeletionFact]


def spreads(
    run: Run,
    intervals: Mapping[str, Sequence[float]],
    deletions: Deletions,
    findings: Findings,
) -> SpreadFacts:
    """For each experiment and coefficient, how much scores, observables and the solution
    itself change within its interval.
    """
    found: dict[str, dict[str, SpreadFact]] = {}
    if not intervals:
        return found
    run.progress.begin("coefficient intervals", len(run.models) * len(intervals))
    for name, model in run.models.items():
        changed = solved_changes(deletions, name, findings.deletions)
        found[name] = {
            term: run.fact(
                SpreadFact,
                f"intervals/{name}/{term}",
                lambda m=model, n=term, e=ends, name=name, changed=changed: spread(
                    run, m, n, e, changed, findings.adjoints[name]
                ),
                term,
            )
            for term, ends in intervals.items()
        }
    return found


def solved_changes(deletions: Deletions, name: str, facts: DeletionFacts) -> dict[str, Changed]:
    """All changed problems of one experiment that have solutions, by term or name."""
    found: dict[str, Changed] = {}
    for kind in (kind for kind in (ALONE, NAMED, PAIRS) if kind in facts):
        solved = {term: each.fact for term, each in facts[kind][name].items() if each.fact.solved}
        changes = deletions.changes(kind, name, list(solved))
        found |= {term: (changes[term], fact) for term, fact in solved.items()}
    return found


def spread(
    run: Run,
    model: Model,
    term: str,
    ends: Sequence[float],
    solved: Mapping[str, Changed],
    adjoints: Mapping[str, AdjointFact],
) -> SpreadFact:
    """Move one coefficient to both ends of its interval; the largest change of each score and
    of each effect on an observable.
    """
    asked, observables = run.study.certification, run.study.observables
    norm = asked.norm
    scores, moved = dict.fromkeys(solved, 0.0), 0.0
    effects = {
        label: {name: 0.0 for name, (_, fact) in solved.items() if label in fact.observables}
        for label in observables
    }
    for end in ends:
        at_end = set_coefficient(term, end) if end else delete(term, conditions=asked.conditions)
        try:
            # Growth without bound need not overflow within the window.
            check_model_direction(model, at_end.apply(model.coefficients))
            there = model.solve(at_end)
            moved = max(moved, there.distance(model.factual, norm))
            for name, (change, fact) in solved.items():
                without = model.solve(change.at(term, end))
                scores[name] = max(
                    scores[name], abs(there.distance(without, norm) - (fact.score or 0.0))
                )
                for label, (observable, _) in observables.items():
                    if label not in fact.observables:
                        continue
                    value = model.measurement(observable).value
                    before = abs(adjoints[label].value - fact.observables[label])
                    effects[label][name] = max(
                        effects[label][name], abs(abs(value(there) - value(without)) - before)
                    )
        except (SolveError, InputError):
            nothing = dict.fromkeys(solved, math.inf)
            return SpreadFact(nothing, dict.fromkeys(observables, nothing), math.inf)
    return SpreadFact(scores, effects, moved)


def total_spread(
    facts: SpreadFacts, experiment: str, term: str, observable: str | None = None
) -> float | None:
    """How much a score, or the effect on an observable, may change within all intervals; None
    for known coefficients.
    """
    if experiment not in facts:
        return None
    found = [
        entry.scores if observable is None else entry.observables[observable]
        for entry in facts[experiment].values()
    ]
    return float(sum(changes.get(term, 0.0) for changes in found))


def relative_spread(facts: SpreadFacts, sizes: Mapping[str, float]) -> dict[str, float]:
    """For each experiment the share of the solution that the intervals leave open."""
    return {
        name: sum(entry.solution for entry in found.values()) / sizes[name] if sizes[name] else 0.0
        for name, found in facts.items()
    }
