"""Sharper bounds by enrichment: the same problem solved with one degree more, and that solution certified.

For any U* in the richer space ‖u − u_h‖ ≤ ‖U* − u_h‖ + η(U*), and for a score |δ − δ_h| ≤ |δ* − δ_h| + η(δ*). The first parts are
computed numbers, usually close to the true errors; only the second, which is of higher order, is overestimated. The computed
parts alone would be no bounds.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from dolfinx import fem

from cffem.bounds.certificate import Certificate
from cffem.bounds.steady import DeletionBound, SteadyCertifier, check_essential, check_experiment
from cffem.engine.boundary import Dirichlet
from cffem.engine.model import Model
from cffem.symbols.interventions import delete


class EnrichedCertifier:
    """Certificates for one model by means of the same model with one degree more.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Any):
        check_experiment(model)
        check_essential(model)
        self.model = model
        unknown = model.library.unknown
        degree = model.spaces.elements[unknown].degree
        # In this class the value zero is prescribed on the whole boundary, so names of its parts are not needed.
        experiment = dataclasses.replace(
            model.experiment,
            mesh=model.discretisation.mesh,
            elements={unknown: ("Lagrange", degree + 1)},
            boundary=[Dirichlet(unknown, 0)],
        )
        self.richer = Model(model.library, model.coefficients, experiment, model.petsc_options)
        self.certifier = SteadyCertifier(self.richer)

    def _raised(self, solution: Any) -> Any:
        """A solution of the model as the same function in the richer space."""
        function = fem.Function(self.richer.spaces.space)
        function.interpolate(solution.function())
        return function

    def _distance(self, richer: Any, solution: Any) -> Any:
        """U* − u_h as a function."""
        function = richer.function()
        function.x.array[:] -= self._raised(solution).x.array
        return function

    def solution(self, solution: Any, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other coefficients."""
        plain = solution.intervention
        richer = self.richer.factual if not plain.changes else self.richer.solve(plain)
        fine = self.certifier.solution(richer, norm)
        distance = self.certifier.size(self._distance(richer, solution), norm)
        value = distance + fine.value
        return dataclasses.replace(
            fine,
            value=value,
            inequality=f"‖u − u_h‖ ≤ ‖U* − u_h‖ + η(U*) = {distance:.4g} + {fine.value:.4g}",
            formula=rf"\|u-u_h\| \leq \|U^*-u_h\| + \eta(U^*) = {distance:.4g} + {fine.value:.4g}",
            constants={"distance to U*": distance, **fine.constants},
            method=f"enriched by one degree, {fine.method}",
        )

    def deletion(self, name: str, norm: str = "L2", deleted: Any = None) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        change = delete(name)
        factual, deleted = self.model.factual, deleted or self.model.solve(change)
        richer_deleted = self.richer.solve(change)
        fine = self.certifier.deletion(name, norm, richer_deleted)
        first, second = self._distance(self.richer.factual, factual), self._distance(richer_deleted, deleted)
        size = self.certifier.size
        eta_factual = fine.eta_factual + size(first, norm)
        eta_counterfactual = fine.eta_counterfactual + size(second, norm)
        first.x.array[:] -= second.x.array
        score = self.model.norm(norm)(factual.states[0] - deleted.states[0])
        shift = abs(fine.score - score)
        margin = shift + fine.margin
        certificate = dataclasses.replace(
            fine.certificate,
            value=margin,
            inequality=f"|‖u − u_j‖ − {score:.4g}| ≤ |{fine.score:.4g} − {score:.4g}| + η* = {margin:.4g}",
            formula=rf"\bigl|\,\|u-u_j\| - \|u_h-u_{{jh}}\|\,\bigr| \leq |\delta^*-\delta_h| + \eta^* "
            rf"= {shift:.4g} + {fine.margin:.4g}",
            constants={"enriched score": fine.score, **fine.certificate.constants},
            method=f"enriched by one degree, {fine.certificate.method}",
        )
        difference = fine.difference + size(first, norm)
        return DeletionBound(name, score, eta_factual, eta_counterfactual, difference, margin, certificate)

    def destroy(self) -> None:
        """Free the richer model, its matrices and factors; collective."""
        self.certifier.destroy()
        self.richer.destroy()
