# SPDX-License-Identifier: MIT
"""Station: what parts of a deletion do, where a study asks for profiles, and where a deletion has
no solution.

Of the latter the profile ρ ↦ δ(ρ) is followed as far as there are solutions. The smallest sampled
ρ at which the score is clear of ε, or else the one with the largest score, is a partial deletion
with an error bar of its own: a term that is relevant when a part of its coefficient is taken away
is relevant. Only where no part of it can be taken away is the deletion `unsolvable`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cffem.bounds.certificate import NoCertificate
from cffem.bounds.entrance import certify_deletions
from cffem.bounds.observable_bounds import certify_observable
from cffem.engine.deletion.outcomes import Deletion
from cffem.engine.deletion.profile import Profile, ProfileSettings, profile
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError
from cffem.study.report.scores.profile_report import ProfileReport
from cffem.study.run.facts import BoundFact, DeletionFact, FactualFact, PartialFact
from cffem.symbols.problem.interventions import Intervention, delete, scale
from cffem.symbols.problem.norm_names import of_field
from cffem.symbols.reasons import Code, Reason
from cffem.verdicts.certification import Certification

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.study.run.running import Run

# A study asks whether a part of a term is relevant, not where exactly solutions end; each further
# sample costs a solve, and its score is compared with ε and with twice ε. `Model.profile` samples
# more closely.
SAMPLED = ProfileSettings(points=4, resolution=0.05, accuracy=1e-4)
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
        sampled = profile(
            model,
            term,
            asked.norm,
            settings=SAMPLED,
            conditions=asked.conditions,
            deletion=deletion,
        )
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


# Profiles that were asked for
# --------------------------------------------------------------------------------------------------


def asked_profiles(run: Run, factual: Mapping[str, FactualFact]) -> dict[str, list[ProfileReport]]:
    """The profiles of the terms that a study names, in every experiment, for every field that is
    judged by itself and for every observable.
    """
    wanted = [
        (name, term)
        for name, model in run.models.items()
        for term in run.study.profiles
        if term in model.active
    ]
    found: dict[str, list[ProfileReport]] = {}
    if wanted:
        run.progress.begin("profiles", len(wanted))
    for name, term in wanted:
        plain = run.once(
            f"profiled/{name}/{term}",
            lambda name=name, term=term: [
                each.to_plain() for each in of_term(run, name, term, factual[name].sizes)
            ],
            term,
        )
        found.setdefault(term, []).extend(map(ProfileReport.from_plain, plain))
    return found


def of_term(
    run: Run, name: str, term: str, sizes: Mapping[str, float | None]
) -> list[ProfileReport]:
    """The profiles of one term in one experiment."""
    model, study = run.models[name], run.study
    found = []
    for field, size in sizes.items():
        asked = study.certification
        asked = replace(asked, norm=of_field(asked.norm, field)) if field else asked
        epsilon = asked.threshold(size or 0.0)
        sampled = profile(model, term, asked.norm, epsilon or None, conditions=asked.conditions)
        changes = partial_changes(term, sampled.rho, asked.conditions)
        solutions = SolvedPart(model, changes)
        bounds = certify_deletions(model, changes, {"": asked}, solutions)
        bars = [BoundFact.of(bounds[label][""]) for label in changes]
        found.append(
            reported(name, sampled, epsilon, [(b.margin, b.kind) for b in bars], field=field)
        )
    for label, (observable, epsilon) in study.observables.items():
        sampled = profile(
            model,
            term,
            epsilon=epsilon,
            observable=observable,
            conditions=study.certification.conditions,
        )
        changes = partial_changes(term, sampled.rho, study.certification.conditions)
        margins = certify_observable(
            model,
            observable,
            list(changes),
            study.certification.largest,
            SolvedPart(model, changes),
        )
        known = [
            (None, None)
            if isinstance(found_bar, NoCertificate)
            else (float(found_bar.margin), found_bar.certificate.kind)
            for found_bar in margins.values()
        ]
        found.append(reported(name, sampled, epsilon, known, observable=label))
    return found


class SolvedPart(Mapping[str, Solution]):
    """Solutions of partial deletions, each solved when it is asked for; the last one is kept.

    Args:
        model: the model.
        changes: by label.
    """

    def __init__(self, model: Model, changes: Mapping[str, Intervention]):
        self.model, self.changes = model, changes
        self._last: tuple[str, Solution] | None = None

    def __getitem__(self, label: str) -> Solution:
        if self._last is None or self._last[0] != label:
            self._last = None
            self._last = (label, self.model.solve(self.changes[label]))
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)


def partial_changes(term: str, rho: Sequence[float], conditions: str) -> dict[str, Intervention]:
    """The interventions of a profile, by labels that are no terms."""
    return {
        f"{term} × {1.0 - part:.12g}": scale(term, 1.0 - part)
        if part < 1.0
        else delete(term, conditions=conditions)
        for part in rho
    }


def reported(
    name: str,
    sampled: Profile,
    epsilon: float,
    bars: Sequence[tuple[float | None, str | None]],
    field: str = "",
    observable: str = "",
) -> ProfileReport:
    """A profile with its error bars, as a report holds it."""
    margins = [math.inf if margin is None else margin for margin, _ in bars]
    return ProfileReport(
        term=sampled.term,
        experiment=name,
        rho=sampled.rho,
        scores=sampled.scores,
        margins=tuple(margin for margin, _ in bars),
        certificates=tuple(kind for _, kind in bars),
        slope=sampled.slope if math.isfinite(sampled.slope) else None,
        bounds=sampled.bounds,
        epsilon=epsilon,
        relevant_from=sampled.relevant_from(epsilon, margins),
        reach=sampled.reach,
        beyond=sampled.beyond,
        reason=sampled.reason,
        field=field,
        observable=observable,
    )
