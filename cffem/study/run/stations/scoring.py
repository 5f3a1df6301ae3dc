# SPDX-License-Identifier: MIT
"""Station: what the factual solutions tell without solving again: linearised responses,
residual scores, adjoint scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cffem.bounds.observable_bounds import certify_observable
from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.study.run.facts import DeletionFacts
from cffem.study.run.identified_facts import (
    AdjointFact,
    AdjointFacts,
    LinearisedFact,
    ObservableBoundFact,
    ResidualFact,
)
from cffem.study.run.plain_facts import as_plain
from cffem.study.run.running import Run
from cffem.study.run.stations.deleting import ALONE, Deletions
from cffem.study.run.stations.intervening import NAMED
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.observables import Observable


Found = AdjointFact | dict[str, ObservableBoundFact]


def linearised(run: Run) -> dict[str, LinearisedFact]:
    """‖L_u⁻¹ α_j T_j[u]‖ of the active terms of each experiment."""
    run.progress.begin("linearised", len(run.models))
    return {
        name: run.fact(
            LinearisedFact, f"linearised/{name}", lambda m=model: responses(run, m), name
        )
        for name, model in run.models.items()
    }


def responses(run: Run, model: Model) -> LinearisedFact:
    """The linearised scores of one experiment, or why the linearised problem was not solved."""
    try:
        found = model.linearised(None, run.study.certification.norm)
    except SolveError as error:
        return LinearisedFact(reason=str(error))
    return LinearisedFact({name: float(value) for name, value in found.items()})


def residuals(run: Run) -> dict[str, dict[str, ResidualFact]]:
    """C_j, RCI_j and the one-step score of all terms."""
    run.progress.begin("residuals", len(run.models))
    return {
        name: {
            term: ResidualFact.from_plain(plain)
            for term, plain in run.once(
                f"residuals/{name}", lambda m=model: as_plain(contributions(m)), name
            ).items()
        }
        for name, model in run.models.items()
    }


def contributions(model: Model) -> dict[str, ResidualFact]:
    """The residual scores of one experiment."""
    return {
        name: ResidualFact(float(s.contribution), float(s.rci), float(s.one_step))
        for name, s in model.residual_scores().items()
    }


def adjoints(run: Run) -> AdjointFacts:
    """O[u] and I_j of each observable in each experiment; one backward solve each."""
    found = of_each_observable(run, "adjoint", "adjoint", adjoint)
    return {
        name: {label: AdjointFact.from_plain(plain) for label, plain in each.items()}
        for name, each in found.items()
    }


def of_each_observable(
    run: Run, stage: str, key: str, find: Callable[[str, Model, Observable], Found]
) -> dict[str, dict[str, Any]]:
    """What there is to find out about each observable in each experiment, as plain facts."""
    observables = run.study.observables
    if observables:
        run.progress.begin(stage, len(observables) * len(run.models))
    return {
        name: {
            label: run.once(
                f"{key}/{name}/{label}",
                lambda n=name, m=model, o=observable: as_plain(find(n, m, o)),
                label,
            )
            for label, (observable, _) in observables.items()
        }
        for name, model in run.models.items()
    }


def adjoint(name: str, model: Model, observable: Observable) -> AdjointFact:
    """One observable in one experiment."""
    try:
        scores = model.observable_scores(observable)
    except SolveError as error:
        value = float(model.measurement(observable).value(model.factual))
        return AdjointFact(value, reason=str(error))
    except NotImplementedError as error:
        raise InputError(
            f"the observable {type(observable).__name__} has no adjoint: {error}"
        ) from None
    return AdjointFact(float(scores.value), {name: float(value) for name, value in scores.items()})


def observable_bounds(
    run: Run, deletions: Deletions, facts: DeletionFacts
) -> dict[str, dict[str, dict[str, ObservableBoundFact]]]:
    """Error bars of what each deletion does to each observable, in each experiment."""

    def bounds(name: str, model: Model, observable: Observable) -> Found:
        found: dict[str, ObservableBoundFact] = {}
        for kind in (kind for kind in (ALONE, NAMED) if kind in facts):
            solutions = deletions.deleted_solutions(name, facts[kind][name], kind)
            found |= bounds_of(deletions, name, model, observable, solutions)
        return found

    found = of_each_observable(run, "error bounds of observables", "observables", bounds)
    return {
        name: {
            label: {term: ObservableBoundFact.from_plain(plain) for term, plain in terms.items()}
            for label, terms in each.items()
        }
        for name, each in found.items()
    }


def bounds_of(
    deletions: Deletions,
    name: str,
    model: Model,
    observable: Observable,
    solutions: Mapping[str, Solution],
) -> dict[str, ObservableBoundFact]:
    """Margins of one observable by term, or why there is none."""
    names = [term for term in solutions if term not in deletions.nulls.get(name, {})]
    found: Mapping[str, Any] = certify_observable(
        model, observable, names, deletions.run.study.certification.largest, solutions
    )
    return {
        term: ObservableBoundFact(
            float(bound.margin), bound.certificate.kind, bound.certificate.method
        )
        if bound
        else ObservableBoundFact(reason=bound.reason)
        for term, bound in found.items()
    }
