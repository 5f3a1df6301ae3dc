# SPDX-License-Identifier: MIT
"""Adjoint-corrected values of a linear observable in the steady class, with guaranteed bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import sympy as sp
import ufl
from dolfinx import fem

from cffem._compat import form
from cffem.bounds.certificate import ESTIMATED, GUARANTEED, Certificate, NotCovered
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier
from cffem.bounds.enclosed.weights import (
    Enclosed,
    LinearObservable,
    Weight,
    orthonormal_coefficients,
)
from cffem.bounds.scalar_problem import Operator, equation_operator
from cffem.engine.model import Model
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import ScalarField
from cffem.symbols.operators import lap
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.library import Library

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.solution import Solution


class DualWeighted:
    """Adjoint-corrected values of a linear observable in the steady class, with guaranteed bounds
    of their errors.

    Args:
        model: the model.
        linear: the observable; its scale is left aside.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model, linear: LinearObservable):
        if model.experiment.time is not None:
            raise NotCovered("the problem depends on time")
        if linear.part:
            raise NotCovered(
                "the observable lives on a part of the domain, of which the adjoint has no "
                "expression"
            )
        self.model, self.linear, self.primal = model, linear, SteadyCertifier(model)
        self.kind = ESTIMATED if linear.blind else GUARANTEED
        self._known: dict[tuple[tuple[str, float], ...], Enclosed] = {}
        self._adjoints: list[tuple[Model, SteadyCertifier]] = []

    def corrected(self, solution: Solution) -> Enclosed:
        """J(u_h) + R(z_h) and the bound of what is missing to J(u); collective."""
        coefficients = solution.intervention.apply(self.model.coefficients)
        key = tuple(sorted(coefficients.items()))
        if key not in self._known:
            self._known[key] = self._corrected(coefficients, solution)
        return self._known[key]

    def _corrected(self, coefficients: Mapping[str, float], solution: Solution) -> Enclosed:
        operator = equation_operator(self.model.library, coefficients, self.primal.domain.dim)
        error = self.primal.state(coefficients, solution.states[0])
        adjoint = self._adjoint(operator)
        dual = SteadyCertifier(adjoint)
        self._adjoints.append((adjoint, dual))
        distance = dual.factual
        own, source = self.linear.integral(solution.states[0]), self._source(operator, adjoint)
        change = source.value - self._applied(
            operator, solution.function(), adjoint.factual.function()
        )
        rest = error.residual.algebraic + error.residual.unseen
        bound = error.residual.dual * distance.gradient + rest * distance.value
        if ESTIMATED in (self.primal.equilibration.sources.kind, dual.equilibration.sources.kind):
            self.kind = ESTIMATED
        return Enclosed(own.value + change, bound + own.radius + source.radius)

    def _adjoint(self, operator: Operator) -> Model:
        """The adjoint problem, one degree higher."""
        z, space = ScalarField("adjoint"), SPACE[: self.primal.domain.dim]
        advection = [
            sp.Float(shift) + sum(sp.Float(s) * place for s, place in zip(row, space, strict=True))
            for shift, row in zip(operator.shift, operator.slope, strict=True)
        ]
        terms = operator.diffusion * lap(z) - (operator.reaction - operator.divergence) * z
        terms += sp.Add(*(b * z.diff(place) for b, place in zip(advection, space, strict=True)))
        degree = self.model.spaces.elements[self.primal.unknown].degree
        experiment = dataclasses.replace(
            self.model.experiment,
            mesh=self.model.discretisation.mesh,
            elements={z: ("Lagrange", degree + 1)},
            boundary=[Dirichlet(z, 0)],
            forcing={z: self.linear.weight},
        )
        return Model(
            Library(terms={"adjoint": terms}, unknown=z),
            {"adjoint": 1.0},
            experiment,
            self.model.petsc_options,
            observer=self.model.observer,
        )

    def _source(self, operator: Operator, adjoint: Model) -> Enclosed:
        """∫ f z_h."""
        source = sp.sympify(self.primal.forcing - operator.source)
        degree = adjoint.spaces.space.element.basix_element.degree
        weight = Weight(self.model.comm, self.primal.domain.corners, source, degree)
        if weight.blind:
            self.kind = ESTIMATED
        return weight.integral(orthonormal_coefficients(adjoint.factual.function()))

    def _applied(self, operator: Operator, u: Expr, z: Expr) -> float:
        """(L u_h, z_h), by the symbolic equation and not by the assembled one; all of it are
        polynomials.
        """
        domain = self.model.discretisation.mesh
        place = ufl.SpatialCoordinate(domain)
        advection = ufl.as_vector(operator.shift.tolist()) + ufl.dot(
            ufl.as_matrix(operator.slope.tolist()), place
        )
        lower = ufl.dot(advection, ufl.grad(u)) + operator.reaction * u
        whole = (lower * z + operator.diffusion * ufl.inner(ufl.grad(u), ufl.grad(z))) * ufl.dx(
            domain=domain
        )
        return float(self.model.comm.allreduce(fem.assemble_scalar(form(whole, self.model.comm))))

    def certificate(
        self, margin: float, score: float, corrected: float, rest: float
    ) -> Certificate:
        """What a margin states."""
        return Certificate(
            value=margin,
            kind=self.kind,
            norm="observable",
            inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≤ |{corrected:.4g} − {score:.4g}| + Σ "
            f"η_R ‖∇(z − z_h)‖ = {margin:.4g}",
            formula=rf"\bigl|\,|O(u)-O(u_j)| - \Delta_h\,\bigr| \leq |\Delta^*-\Delta_h| "
            rf"+ \sum \eta_R \|\nabla(z-z_h)\| = {abs(corrected - score):.4g} + {rest:.4g}",
            hypotheses=(
                evidence(self.linear),
                *self.primal.solution(self.model.factual).hypotheses,
            ),
            constants={"corrected effect": corrected, "dual-weighted bound": rest},
            cost={"adjoint solves": float(len(self._adjoints))},
            method="dual-weighted residual, adjoint of one degree more, equilibrated fluxes",
        )

    def destroy(self) -> None:
        """Free all that was made here; collective."""
        for model, own in self._adjoints:
            own.destroy()
            model.destroy()
        self.primal.destroy()


def evidence(linear: LinearObservable) -> tuple[str, str]:
    """How it is known what the integral of an observable is."""
    statement = "the observable is ∫ ψ u with ψ ∈ L2; what quadrature makes of it is in the margin"
    if linear.blind:
        return statement, f"sampled, not enclosed: {linear.blind}"
    return statement, "interval arithmetic on cells that are divided where ψ jumps or is narrow"
