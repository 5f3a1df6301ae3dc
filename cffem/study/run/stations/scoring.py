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
from cffem.study.run.facts import DeletionFacts, TermDeletion
from cffem.study.run.running import Run
from cffem.study.run.stations.deleting import ALONE, Deletions
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.symbols.problem.observables import Observable


Facts = dict[str, Any]


def linearised(run: Run) -> Facts:
    """‖L_u⁻¹ α_j T_j[u]‖ of the active terms of each experiment."""
    run.progress.begin("linearised", len(run.models))
    return {
        name: run.once(f"linearised/{name}", lambda m=model: responses(run, m), name)
        for name, model in run.models.items()
    }


def responses(run: Run, model: Model) -> Facts:
    """The linearised scores of one experiment, or why the linearised problem was not solved."""
    try:
        found = model.linearised(None, run.study.certification.norm)
    except SolveError as error:
        return {"reason": str(error), "scores": {}}
    return {"scores": {name: float(value) for name, value in found.items()}}


def residuals(run: Run) -> Facts:
    """C_j, RCI_j and the one-step score of all terms."""
    run.progress.begin("residuals", len(run.models))
    return {
        name: run.once(f"residuals/{name}", lambda m=model: contributions(m), name)
        for name, model in run.models.items()
    }


def contributions(model: Model) -> Facts:
    """The residual scores of one experiment."""
    return {
        name: {
            "contribution": float(s.contribution),
            "rci": float(s.rci),
            "one_step": float(s.one_step),
        }
        for name, s in model.residual_scores().items()
    }


def adjoints(run: Run) -> Facts:
    """O[u] and I_j of each observable in each experiment; one backward solve each."""
    return of_each_observable(run, "adjoint", "adjoint", adjoint)


def of_each_observable(
    run: Run, stage: str, key: str, find: Callable[[str, Model, Any], Facts]
) -> Facts:
    """What there is to find out about each observable in each experiment."""
    observables = run.study.observables
    if observables:
        run.progress.begin(stage, len(observables) * len(run.models))
    return {
        name: {
            label: run.once(
                f"{key}/{name}/{label}", lambda n=name, m=model, o=observable: find(n, m, o), label
            )
            for label, (observable, _) in observables.items()
        }
        for name, model in run.models.items()
    }


def adjoint(name: str, model: Model, observable: Observable) -> Facts:
    """One observable in one experiment."""
    try:
        scores = model.observable_scores(observable)
    except SolveError as error:
        return {
            "value": float(model.measurement(observable).value(model.factual)),
            "scores": {},
            "reason": str(error),
        }
    except NotImplementedError as error:
        raise InputError(
            f"the observable {type(observable).__name__} has no adjoint: {error}"
        ) from None
    return {
        "value": float(scores.value),
        "scores": {name: float(value) for name, value in scores.items()},
    }


def observable_bounds(run: Run, deletions: Deletions, facts: DeletionFacts) -> Facts:
    """Error bars of what each deletion does to each observable, in each experiment."""

    def bounds(name: str, model: Model, observable: Observable) -> Facts:
        return bounds_of(deletions, name, model, observable, facts[ALONE][name])

    return of_each_observable(run, "error bounds of observables", "observables", bounds)


def bounds_of(
    deletions: Deletions,
    name: str,
    model: Model,
    observable: Observable,
    facts: Mapping[str, TermDeletion],
) -> Facts:
    """Margins of one observable by term, or why there is none."""
    solutions = deletions.deleted_solutions(name, facts)
    names = [term for term in solutions if term not in deletions.nulls.get(name, {})]
    found: Mapping[str, Any] = certify_observable(
        model, observable, names, deletions.run.study.certification.largest, solutions
    )
    return {
        term: {
            "margin": float(bound.margin),
            "kind": bound.certificate.kind,
            "method": bound.certificate.method,
        }
        if bound
        else {"reason": bound.reason}
        for term, bound in found.items()
    }
