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
from typing import TYPE_CHECKING

from cffem.bounds.entrance import certify_deletions
from cffem.engine.deletion.outcomes import Deletion
from cffem.engine.deletion.profile import Profile, profile
from cffem.engine.solve.linear import SolveError
from cffem.study.run.facts import BoundFact, DeletionFact, PartialFact
from cffem.symbols.problem.interventions import scale
from cffem.symbols.problem.norm_names import of_field
from cffem.symbols.reasons import Code, Reason
from cffem.verdicts.certification import Certification

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.study.run.running import Run

# A score that exceeds ε by this factor is likely to be clear of it with its error bar.
CLEAR = 2.0


def profiles(
    run: Run,
    model: Model,
    term: str,
    fact: DeletionFact,
    sizes: Mapping[str, float | None],
) -> dict[str, PartialFact]:
    """By field, or for all together: the profile of an unsolvable deletion and its partial one.

    Args:
        run: the run.
        model: the model of the experiment.
        term: the term.
        fact: the deletion that could not be solved.
        sizes: the norm of the factual solution by field, "" where fields are not judged apart.
    """
    deletion = Deletion(term, float("nan"), "unsolvable", fact.reason, cause=fact.cause)
    found = {}
    for field, size in sizes.items():
        asked = run.study.certification
        asked = replace(asked, norm=of_field(asked.norm, field)) if field else asked
        sampled = profile(model, term, asked.norm, conditions=asked.conditions, deletion=deletion)
        found[field] = partial(model, term, sampled, asked, asked.threshold(size or 0.0))
    return found


def partial(
    model: Model, term: str, sampled: Profile, asked: Certification, epsilon: float
) -> PartialFact:
    """The partial deletion that tells most, with its error bar where it may be relevant."""
    profile = sampled.to_plain()
    if not sampled.rho:
        return PartialFact(profile)
    largest = sampled.rho[sampled.scores.index(max(sampled.scores))]
    share = sampled.relevant_from(CLEAR * epsilon) or sampled.relevant_from(epsilon) or largest
    score = sampled.scores[sampled.rho.index(share)]
    if score <= epsilon:
        return PartialFact(profile, share, score)
    change = scale(term, 1.0 - share)
    try:
        solution = model.solve(change)
        found = certify_deletions(model, {term: change}, {"": asked}, {term: solution})
        bound = BoundFact.of(found[term][""])
    except SolveError as error:
        bound = BoundFact(missing=Reason(Code.NO_THEOREM, str(error)))
    return PartialFact(profile, share, score, bound)
