# SPDX-License-Identifier: MIT
"""Sharper bounds by enrichment: the same problem solved with one degree more and smaller steps, and
that solution certified.

For any U* in the richer space ‖u − u_h‖ ≤ ‖U* − u_h‖ + η(U*), and for a score |δ − δ_h| ≤ |δ* −
δ_h| + η(δ*). The first parts are computed numbers, usually close to the true errors; only the
second, which is of higher order, is overestimated. The computed parts alone would be no bounds.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx import fem

from cffem.bounds.certificate import Certificate, DeletionBound, NotCovered
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier, check_essential, check_experiment
from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
from cffem.bounds.scalar_problem import only_unknown
from cffem.engine.model import Model
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.solution import Solution


# Steps of the enriched march for one of the model: by the scheme of second order that damps stiff
# parts.
FINER, SCHEME = 4, "sdirk2"


class Enriched:
    """Certificates from a richer model, which both enriched certifiers share.

    A subclass sets `model`, `richer`, the `certifier` of the richer model and `how` it is richer,
    and measures distances.
    """

    model: Model
    richer: Any
    certifier: Any
    how: str

    def _distance(self, richer: Any, solution: Solution) -> np.ndarray:
        """U* − u_h at all levels of U*; distances can be subtracted."""
        raise NotImplementedError

    def _size(self, distance: np.ndarray, norm: str) -> float:
        """The norm of a distance, not by the engine's matrices."""
        raise NotImplementedError

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other
        coefficients.
        """
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the initial or boundary values, or the "
                "constraint"
            )
        richer = self.richer.factual if not change.changes else self.richer.solve(change)
        fine = self.certifier.solution(richer, norm)
        return of_solution(fine, self._size(self._distance(richer, solution), norm), self.how)

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        factual, deleted = self.model.factual, deleted or self.model.solve(delete(name))
        richer_deleted = self.richer.solve(deleted.intervention)
        fine = self.certifier.deletion(name, norm, richer_deleted)
        first, second = (
            self._distance(self.richer.factual, factual),
            self._distance(richer_deleted, deleted),
        )
        eta_factual = fine.eta_factual + self._size(first, norm)
        eta_counterfactual = fine.eta_counterfactual + self._size(second, norm)
        difference = fine.difference + self._size(first - second, norm)
        score = factual.distance(deleted, norm)
        certificate = of_score(fine, score, self.how)
        return DeletionBound(
            name, score, eta_factual, eta_counterfactual, difference, certificate.value, certificate
        )

    def destroy(self) -> None:
        """Free the richer model, its matrices and factors; collective."""
        self.certifier.destroy()
        self.richer.destroy()


class EnrichedCertifier(Enriched):
    """Certificates for one model by means of the same model with one degree more, and in time with
    smaller steps.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        window = model.experiment.time
        check_experiment(model, transient=window is not None)
        check_essential(model)
        self.model = model
        self.how = "one degree" if window is None else f"one degree and {FINER} times the steps"
        unknown = only_unknown(model.library)
        degree = model.spaces.elements[unknown].degree
        experiment = dataclasses.replace(
            model.experiment,
            mesh=model.discretisation.given,
            elements={unknown: ("Lagrange", degree + 1)},
            time=None
            if window is None
            else dataclasses.replace(window.divided(FINER), scheme=SCHEME),
        )
        self.richer = model.in_experiment(experiment, model.observer)
        self.certifier: SteadyCertifier | ParabolicCertifier = (
            SteadyCertifier if window is None else ParabolicCertifier
        )(self.richer)

    def _distance(self, richer: Any, solution: Solution) -> np.ndarray:
        """U* − u_h by its owned values in the richer space, at all levels of U*."""
        raised, function = [], fem.Function(self.richer.spaces.space)
        for k in range(len(solution.times)):
            function.interpolate(solution.function(k=k))
            raised.append(function.x.array[: self.richer.spaces.owned].copy())
        if len(raised) == 1:
            return np.array([richer.states[0] - raised[0]])
        result = []
        for n, state in enumerate(richer.states):
            k, part = divmod(n, FINER)
            share = part / FINER
            result.append(
                state - (1 - share) * raised[k] - (share * raised[k + 1] if part else 0.0)
            )
        return np.array(result)

    def _size(self, distance: np.ndarray, norm: str) -> float:
        return self.certifier.size(distance, norm)


def of_solution(fine: Certificate, distance: float, how: str) -> Certificate:
    """The certificate of u_h from the one of the enriched solution U* and their distance."""
    return dataclasses.replace(
        fine,
        value=distance + fine.value,
        inequality=f"‖u − u_h‖ ≤ ‖U* − u_h‖ + η(U*) = {distance:.4g} + {fine.value:.4g}",
        formula=rf"\|u-u_h\| \leq \|U^*-u_h\| + \eta(U^*) = {distance:.4g} + {fine.value:.4g}",
        constants={"distance to U*": distance, **fine.constants},
        method=f"enriched by {how}, {fine.method}",
    )


def of_score(fine: DeletionBound, score: float, how: str) -> Certificate:
    """The certificate of a score from the bound of the enriched one."""
    shift = abs(fine.score - score)
    margin = shift + fine.margin
    return dataclasses.replace(
        fine.certificate,
        value=margin,
        inequality=f"|‖u − u_j‖ − {score:.4g}| ≤ |{fine.score:.4g} − {score:.4g}| + η* = "
        f"{margin:.4g}",
        formula=rf"\bigl|\,\|u-u_j\| - \|u_h-u_{{jh}}\|\,\bigr| \leq |\delta^*-\delta_h| + \eta^* "
        rf"= {shift:.4g} + {fine.margin:.4g}",
        constants={"enriched score": fine.score, **fine.certificate.constants},
        method=f"enriched by {how}, {fine.certificate.method}",
    )
