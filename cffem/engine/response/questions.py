# SPDX-License-Identifier: MIT
"""What one asks of a model about its factual solution: responses, observables, scores.

These functions are methods of `Model`; what they return lives in the modules of this room.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from cffem import Design
    from cffem.engine.model import Model
    from cffem.engine.response.adjoint import ObservableScores
    from cffem.engine.response.gap import GapCheck, ObservableBound, ObservableDeletion
    from cffem.engine.response.observable_values import Measurement
    from cffem.engine.response.observation_operator import ObservationOperator
    from cffem.engine.response.observation_scores import ObservationDeletion
    from cffem.engine.response.residual_scores import RankingConstants, ResidualScore
    from cffem.engine.response.tangent import Response, Responses
    from cffem.symbols.problem.observables import Observable
    from cffem.symbols.problem.observations import Observation


def chosen(model: Model, names: str | Iterable[str] | None) -> tuple[str, ...]:
    """One term, several, or all with a nonzero coefficient."""
    return model.active if names is None else (names,) if isinstance(names, str) else tuple(names)


@overload
def linearised(model: Model, names: str, norm: str = "L2") -> Response: ...  # type: ignore[overload-overlap]


@overload
def linearised(model: Model, names: Iterable[str] | None = None, norm: str = "L2") -> Responses: ...


def linearised(
    model: Model, names: str | Iterable[str] | None = None, norm: str = "L2"
) -> Response | Responses:
    """‖L_u⁻¹ α_j T_j[u]‖ of one term as a number that knows its trajectory, or of several
    (default: all) by name.
    """
    from cffem.engine.response.tangent import linearised as found

    wanted = chosen(model, names)
    responses = found(model.factual, wanted, norm)
    model.counts["linearised"] += len(wanted)
    return responses[names] if isinstance(names, str) else responses


def measurement(model: Model, observable: Observable) -> Measurement:
    """An observable on this model, compiled once: its `value`, `gradient` and
    `derivative` along a solution.
    """
    from cffem.engine.response.observable_values import Measurement

    if observable not in model._measurements:
        model._measurements[observable] = Measurement(model, observable)
    return model._measurements[observable]


def observation(model: Model, observation: Observation) -> ObservationOperator:
    """An observation on this model, made once: its `values` on a solution, `derivatives`
    along others, and adjoint.
    """
    from cffem.engine.response.observation_operator import ObservationOperator

    return model.once(("observation", observation), lambda: ObservationOperator(model, observation))


def sensitivities(
    model: Model, observation: Observation, names: Iterable[str] | None = None
) -> Design:
    """𝒪 ∂u/∂α_j in units of the noise, as a `Design`: what these sensors can tell of the
    coefficients, before any reading exists.

    Args:
        observation: the sensors.
        names: the terms; default: all of the library, those with coefficient zero included.
    """
    from cffem.engine.response.sensitivities import sensitivities as found

    return found(model, observation, names)


def observation_deletions(
    model: Model,
    observation: Observation,
    names: str | Iterable[str] | None = None,
    norm: str = "L2",
) -> dict[str, ObservationDeletion]:
    """δ_j^𝒪: how many standard deviations of what is measured each deletion changes (default:
    of all terms with a nonzero coefficient), by solving every deleted problem.

    Args:
        observation: the sensors, with known noise.
        names: the terms.
        norm: of the score of the whole field that stands beside it.
    """
    from cffem.engine.response.observation_scores import observation_deletions as found

    return found(model, observation, chosen(model, names), norm)


def observable_scores(
    model: Model, observable: Observable, names: str | Iterable[str] | None = None
) -> ObservableScores:
    """I_j = |⟨φ, α_j T_j[u]⟩| of all terms, and the signed sensitivities ∂O/∂α_j, from
    one backward solve.
    """
    from cffem.engine.response.adjoint import observable_scores as found

    wanted = model.library.names if names is None else chosen(model, names)
    scores = found(model.factual, model.measurement(observable), wanted)
    model.counts["adjoint"] += scores.backward_solves
    return scores


def observable_deletions(
    model: Model, observable: Observable, names: str | Iterable[str] | None = None
) -> dict[str, ObservableDeletion]:
    """Δ_j = |O(u) − O(u_j)| by solving every deleted problem (default: of all terms with
    a nonzero coefficient).
    """
    from cffem.engine.response.gap import observable_deletions as found

    return found(model, observable, chosen(model, names))


def observable_bound(
    model: Model, observable: Observable, name: str, norm: str = "L2", points: int = 8
) -> ObservableBound:
    """The remainder bound of the adjoint approximation of one deletion, with estimated
    constants.
    """
    from cffem.engine.response.gap import observable_bound as found

    return found(model, observable, name, norm, points)


def residual_scores(model: Model) -> dict[str, ResidualScore]:
    """C_j, RCI_j and the one-step score of all terms on the factual solution."""
    from cffem.engine.response.residual_scores import residual_scores as found

    return found(model)


def ranking_constants(model: Model, norm: str = "L2") -> RankingConstants:
    """c₋ and c₊ on span{α_j T_j[u]}: whether residual ranking is valid here."""
    from cffem.engine.response.residual_scores import ranking_constants as found

    return found(model, norm)


def gap_check(model: Model, name: str, norm: str = "L2", points: int = 8) -> GapCheck:
    """The residual–counterfactual gap of one term along ρ, with M_j estimated."""
    from cffem.engine.response.gap import gap_check as found

    return found(model, name, norm, points)
