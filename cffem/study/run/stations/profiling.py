# SPDX-License-Identifier: MIT
"""Station: what can be said about a deletion without a solution.

Its profile ρ ↦ δ(ρ) is followed as far as there are solutions. The smallest sampled ρ at which the
score is clear of ε, or else the one with the largest score, is a partial deletion with an error bar
of its own: a term that is relevant when a part of its coefficient is taken away is relevant. Only
where no part of it can be taken away is the deletion `unsolvable`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cffem.bounds.entrance import certify_deletions
from cffem.engine.deletion.outcomes import Deletion
from cffem.engine.deletion.profile import Profile, profile
from cffem.engine.solve.linear import SolveError
from cffem.study.run.counted import norm_of
from cffem.symbols.problem.interventions import scale

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.study.run.running import Run

Facts = dict[str, Any]
# A score that exceeds ε by this factor is likely to be clear of it with its error bar.
CLEAR = 2.0


def profiles(run: Run, model: Model, term: str, fact: Facts, sizes: Mapping[str, float]) -> Facts:
    """By field, or for all together: the profile of an unsolvable deletion and its partial one.

    Args:
        run: the run.
        model: the model of the experiment.
        term: the term.
        fact: the deletion that could not be solved.
        sizes: the norm of the factual solution by field, "" where fields are not judged apart.
    """
    deletion = Deletion(term, float("nan"), "unsolvable", fact["reason"], cause=fact["cause"])
    found = {}
    for field, size in sizes.items():
        asked = run.study.certification
        asked = replace(asked, norm=norm_of(asked.norm, field)) if field else asked
        sampled = profile(model, term, asked.norm, conditions=asked.conditions, deletion=deletion)
        found[field] = {
            "profile": sampled.to_plain(),
            **partial(model, term, sampled, asked, asked.threshold(size)),
        }
    return found


def partial(model: Model, term: str, sampled: Profile, asked: Any, epsilon: float) -> Facts:
    """The partial deletion that tells most, with its error bar where it may be relevant."""
    from cffem.study.run.stations.deleting import plain_bound

    if not sampled.rho:
        return {"share": None, "score": None, "certificate": None}
    largest = sampled.rho[sampled.scores.index(max(sampled.scores))]
    share = sampled.relevant_from(CLEAR * epsilon) or sampled.relevant_from(epsilon) or largest
    score = sampled.scores[sampled.rho.index(share)]
    if score <= epsilon:
        return {"share": share, "score": score, "certificate": None}
    change = scale(term, 1.0 - share)
    try:
        solution = model.solve(change)
        found = certify_deletions(model, {term: change}, {"": asked}, {term: solution})
        certificate = plain_bound(found[term][""])
    except SolveError as error:
        certificate = {"reason": str(error), "code": "no-error-bar"}
    return {"share": share, "score": score, "certificate": certificate}


def at_share(fact: Facts, field: str, certified: bool) -> Facts:
    """An unsolvable deletion as its partial one: score and error bar at the share ρ.

    Args:
        fact: the deletion.
        field: the field that is judged, "" for all together.
        certified: whether the error bar may be used; that of fitted coefficients is not known for a
            part of a deletion.
    """
    found = (fact.get("partial") or {}).get(field)
    if fact["status"] == "solved" or found is None or found["share"] is None:
        return fact
    certificate = found["certificate"]
    if not certified and certificate is not None:
        why = "the intervals of fitted coefficients are not known for a part of a deletion"
        certificate = {"reason": why, "code": "no-error-bar"}
    kept = {key: found[key] for key in ("share", "score", "profile")}
    return {**fact, **kept, "certificate": certificate}
