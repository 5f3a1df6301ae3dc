# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for −a Δu + b·∇u + c u = f with u given on the boundary, and for deletion
scores in this class.

With the residual measured by an equilibrated flux (`flux`) and the adjoint constants Z0, Z1, Z2
(`stability`), for e = u − u_h:

    ‖e‖ ≤ (Z2/a) (Σ C_K² t_K²)^{1/2} + Z0 ‖r‖ (Aubin–Nitsche with Kobayashi's C_K on convex plane
    domains, on others with the approximation constant of the mesh), ‖e‖ ≤ Z1 (Σ t_K²)^{1/2} + Z0
    ‖r‖ on every domain (Friedrichs: no power of h is gained),
    m ‖∇e‖ ≤ (Σ t_K²)^{1/2} + ‖r‖/√λ₁ on every domain, m = a min(1, 1 + c₀/(a λ₁)).

The difference d = u − u_j of the factual and a deleted solution solves L d = α_j T_j u_j, so its
error is bounded by the residual of d_h = u_h − u_jh for the right-hand side α_j T_j u_jh, plus a
multiple of the error of u_jh. This bound is proportional to α_j; the sum of the two errors is not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp
from dolfinx import fem

from cffem._compat import exterior_facets
from cffem.bounds.certificate import Certificate, DeletionBound, NotCovered, inequality_of_score
from cffem.bounds.elliptic.adjoint_stability import AdjointStability, stability
from cffem.bounds.flux.equilibrated import FluxEquilibration
from cffem.bounds.flux.state_flux import Residual, StateFlux
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.scalar_problem import (
    Operator,
    equation_operator,
    only_equation,
    term_operator,
)
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.known import Known
from cffem.symbols.operators import dt
from cffem.symbols.problem.conditions import Dirichlet, is_zero
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.fields import Field


# Boundary values that differ by no more than this share of them differ by rounding.
BOUNDARY = 1e-12
AUBIN_NITSCHE, FRIEDRICHS = (
    "Aubin–Nitsche with",
    "Friedrichs (valid on every domain, no power of h gained)",
)


@dataclass(frozen=True)
class ErrorBound:
    """Bounds of one error e in several norms.

    Attributes:
        value: ‖e‖.
        gradient: ‖∇e‖.
        energy: (a ‖∇e‖² + c₀ ‖e‖²)^{1/2} of its own operator.
        route: how the L2 bound was obtained.
        residual: the measured residual.
        constants: of its operator.
        flux: what the residual was measured with.
    """

    value: float
    gradient: float
    energy: float
    route: str
    residual: Residual
    constants: AdjointStability
    flux: StateFlux

    def __repr__(self) -> str:
        return f"ErrorBound(L2 {self.value:.4g}, gradient {self.gradient:.4g}, {self.route})"

    def norm(self, kind: str, diffusion: float | None = None, shifted: float = 0.0) -> float:
        """The bound in a norm of the engine; the energy norm may be that of another operator."""
        if kind == "energy":
            if diffusion is None:
                return self.energy
            return math.sqrt(diffusion * self.gradient**2 + max(shifted, 0.0) * self.value**2)
        return self.value if kind == "L2" else math.hypot(self.value, self.gradient)


class SteadyCertifier:
    """Certificates for one model; the flux problems are prepared once, and each solution needs one
    flux.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        self.model, self.library = model, only_equation(model.library)
        check_experiment(model)
        self.domain = Domain(model.discretisation.mesh)
        self.unknown = self.library.unknown
        self.forcing = sp.sympify(dict(model.experiment.forcing).get(self.unknown, 0))
        self._operators: dict[tuple[tuple[str, float], ...], tuple[Operator, AdjointStability]] = {}
        self.operator, self.constants = self._operator(model.coefficients)
        self.equilibration = FluxEquilibration(model.spaces.space, self.domain)
        check_essential(model)
        self.prescribed = Prescribed(model)
        self._factual: ErrorBound | None = None

    def _operator(self, coefficients: Mapping[str, float]) -> tuple[Operator, AdjointStability]:
        key = tuple(sorted(coefficients.items()))
        if key not in self._operators:
            found = equation_operator(self.library, coefficients, self.domain.dim)
            speed = found.speed(self.domain.hull)
            try:
                constants = stability(found, speed, self.domain.eigenvalue)
            except NotCovered:
                # Growth may be close to the first eigenvalue.
                if not self.domain.sharpen():
                    raise
                constants = stability(found, speed, self.domain.eigenvalue)
            self._operators[key] = found, constants
        return self._operators[key]

    # Errors
    # ----------------------------------------------------------------------------------------------

    def _bound(
        self,
        operator: Operator,
        constants: AdjointStability,
        flux: StateFlux,
        value: float = 0.0,
        slope: float = 0.0,
    ) -> ErrorBound:
        """Bounds from a flux; `value` and `slope` are what else is added to ‖e‖ and to the
        dual norm.
        """
        residual = self.equilibration.residual(flux)
        rest = residual.algebraic + residual.unseen
        dual = residual.dual + rest / math.sqrt(self.domain.eigenvalue) + slope
        routes = [(constants.z1 * residual.dual, FRIEDRICHS)]
        if residual.weighted is not None:
            routes.append(
                (
                    constants.z2 * residual.weighted / operator.diffusion,
                    f"{AUBIN_NITSCHE} {self.domain.route}",
                )
            )
        best, route = min(routes)
        total = best + constants.z0 * rest + value
        energy = dual / math.sqrt(constants.coercivity)
        return ErrorBound(
            total, dual / constants.coercivity, energy, route, residual, constants, flux
        )

    def state(self, coefficients: Mapping[str, float], state: np.ndarray) -> ErrorBound:
        """Bounds of u − u_h, where u solves the problem with these coefficients and u_h is
        given by its owned values.
        """
        operator, constants = self._operator(coefficients)
        self.prescribed.check(state)
        return self._bound(
            operator,
            constants,
            self.equilibration.flux(operator, state, self.forcing - operator.source),
        )

    @property
    def factual(self) -> ErrorBound:
        """Bounds of the error of the factual solution."""
        if self._factual is None:
            self._factual = self.state(self.model.coefficients, self.model.factual.states[0])
        return self._factual

    def _difference(self, name: str, error: ErrorBound) -> ErrorBound:
        """Bounds of (u − u_j) − (u_h − u_jh) by the residual of the difference, `error` being
        that of u_jh.
        """
        term = term_operator(self.library, name, self.model.coefficients[name], self.domain.dim)
        z, root = self.constants, math.sqrt(self.domain.eigenvalue)
        speed, reaction = term.speed(self.domain.hull), abs(term.reaction - term.divergence)
        diffusion = abs(term.diffusion)
        value = (
            diffusion * z.z2 / self.operator.diffusion + speed * z.z1 + reaction * z.z0
        ) * error.value
        slope = diffusion * error.gradient + (speed + reaction / root) * error.value
        # f − L u_h − (f − L_j u_jh) = α_j T_j u_jh − L (u_h − u_jh), which is the residual of the
        # difference.
        return self._bound(
            self.operator, self.constants, self.factual.flux - error.flux, value, slope
        )

    def size(self, states: Sequence[np.ndarray], norm: str) -> float:
        """The norm of the only state, not by the engine's matrices; the energy norm is that
        of the factual operator.
        """
        value, gradient = self.equilibration.size_of(states[0])
        weights = {
            "L2": (1.0, 0.0),
            "H1": (1.0, 1.0),
            "energy": (self.constants.shifted, self.operator.diffusion),
        }[norm]
        return math.sqrt(max(weights[0] * value**2 + weights[1] * gradient**2, 0.0))

    # Certificates
    # ----------------------------------------------------------------------------------------------

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other coefficients.

        The energy norm is that of the factual operator.
        """
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the boundary values or the constraint"
            )
        coefficients = change.apply(self.model.coefficients)
        bound = self.state(coefficients, solution.states[0])
        value = bound.norm(
            norm, self.operator.diffusion if change.changes else None, self.constants.shifted
        )
        return self._certificate(
            value, norm, f"‖u − u_h‖ ≤ {value:.4g}", rf"\|u-u_h\| \leq {value:.4g}", bound, {}
        )

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion.

        Args:
            name: the term.
            norm: "L2", "H1" or "energy".
            deleted: its solution, where it is known already.
        """
        factual, deleted = self.model.factual, deleted or self.model.solve(delete(name))
        counterfactual = self.state(delete(name).apply(self.model.coefficients), deleted.states[0])
        gap = factual.states[0] - deleted.states[0]
        direct = self._difference(name, counterfactual)
        etas = (
            self.factual.norm(norm),
            counterfactual.norm(norm, self.operator.diffusion, self.constants.shifted),
            direct.norm(norm),
        )
        score = self.model.norm(norm)(gap)
        # The score comes from the engine's matrix of the norm; what its value lacks of the norm
        # computed here is in the margin.
        own = self.size([gap], norm)
        margin = min(etas[2], etas[0] + etas[1]) + abs(score - own)
        named = dict(zip(("η_factual", "η_counterfactual", "η_difference"), etas, strict=True))
        certificate = self._certificate(
            margin,
            norm,
            *inequality_of_score(score, margin, abs(score - own)),
            direct if etas[2] <= etas[0] + etas[1] else counterfactual,
            named,
        )
        return DeletionBound(name, score, *etas, margin, certificate)

    def _certificate(
        self,
        value: float,
        norm: str,
        text: str,
        formula: str,
        bound: ErrorBound,
        named: dict[str, float],
    ) -> Certificate:
        route = bound.route if norm != "energy" else "energy norm"
        z, flux = bound.constants, self.equilibration
        constants = {
            "λ₁": self.domain.eigenvalue,
            "Z0": z.z0,
            "Z1": z.z1,
            "Z2": z.z2,
            "coercivity": z.coercivity,
        }
        return Certificate(
            value=value,
            kind=flux.sources.kind,
            norm=norm,
            inequality=text,
            formula=formula,
            hypotheses=(
                *HYPOTHESES,
                flux.sources.evidence,
                *self.domain.evidence,
                (f"a λ₁ + c − div b/2 = {z.margin:.4g} > 0", "computed"),
            ),
            constants={
                **named,
                **constants,
                "algebraic residual": bound.residual.algebraic,
                "unseen source": bound.residual.unseen,
            },
            cost={"flux unknowns": flux.size, "flux solves": flux.solves, "seconds": flux.seconds},
            method=f"equilibrated flux, {route}",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.equilibration.destroy()


HYPOTHESES = (
    (
        "the equation is −a Δu + b·∇u + c u = f with constants a > 0, c and affine b",
        "read off the symbolic terms",
    ),
    (
        "Ω is the meshed domain and u is given on all of its boundary by polynomials that u_h "
        "takes on exactly",
        "declared conditions, held unknowns and values of the solution",
    ),
    (
        "u_h is continuous, piecewise polynomial and otherwise arbitrary",
        "element of the model; its residual is computed anew",
    ),
    ("rounding errors are negligible", "not enclosed"),
)


def check_element(model: Model, unknown: Field) -> None:
    """One scalar field on a continuous Lagrange element, and terms of second order at most."""
    if model.discretisation.auxiliaries:
        raise NotCovered("a term is of third or higher order")
    element = model.spaces.elements[unknown]
    family = getattr(element, "element_family", None)
    if (
        model.spaces.mixed
        or family != basix.ElementFamily.P
        or element.discontinuous
        or element.reference_value_shape
    ):
        raise NotCovered("the element is not a continuous Lagrange element for a scalar")


def check_experiment(model: Model, transient: bool = False) -> None:
    """What must be true of an experiment before anything is computed."""
    experiment, library = model.experiment, only_equation(model.library)
    unknown = library.unknown
    if (experiment.time is not None) != transient:
        raise NotCovered("the problem is steady" if transient else "the problem depends on time")
    if transient and library.anchor != dt(unknown):
        raise NotCovered("certificates exist for steady problems and for the anchor dt(u) only")
    if experiment.constraint is not None:
        raise NotCovered("a constraint is declared")
    for condition in experiment.boundary:
        if not isinstance(condition, Dirichlet):
            raise NotCovered(f"{condition} is not a Dirichlet condition")
    check_element(model, unknown)
    element = model.spaces.elements[unknown]
    forcing = dict(experiment.forcing).get(unknown, 0)
    if not isinstance(forcing, int | float | sp.Expr) or (
        sp.sympify(forcing).has(t) and not transient
    ):
        raise NotCovered("the forcing is not an expression in the coordinates")

    for condition in experiment.boundary:
        check_polynomial(condition, element.degree)


def check_polynomial(condition: Any, degree: int) -> None:
    """Whether a prescribed value is a polynomial that the element takes on along straight
    boundaries, and does not move.
    """
    value = condition.value
    if is_zero(value):
        return
    value = sp.sympify(value) if isinstance(value, int | float | sp.Expr) else None
    if (
        value is None
        or value.free_symbols - {*SPACE}
        or value.atoms(Known)
        or not value.is_polynomial(*SPACE)
    ):
        raise NotCovered(f"{condition} does not prescribe a polynomial in the coordinates")
    if sp.Poly(value, *SPACE).total_degree() > degree:
        raise NotCovered(
            f"{condition} prescribes a polynomial of higher degree than the element has"
        )


class Prescribed:
    """The values that a model prescribes on its boundary, evaluated from their expressions.

    Args:
        model: the model.
        apart: conditions that are judged elsewhere.
    """

    def __init__(self, model: Model, apart: Sequence[Dirichlet] = ()):
        self.comm, dim = model.comm, model.discretisation.mesh.topology.dim
        places = model.spaces.space.tabulate_dof_coordinates()
        self.parts = []
        self._beside = [e.mine for e in model.essential.entries if e.condition in apart]
        for entry in model.essential.entries:
            if entry.condition in apart:
                continue
            value = 0 if is_zero(entry.condition.value) else sp.sympify(entry.condition.value)
            values = sp.lambdify(SPACE[:dim], value, "numpy")(*places[entry.mine, :dim].T)
            self.parts.append((entry.mine, np.broadcast_to(values, len(entry.mine))))

    def check(self, state: np.ndarray) -> None:
        """Whether a state has these values, also where two parts of the boundary meet;
        collective.
        """
        # Where two parts meet, rounding errors are those of the larger values.
        beside = max(
            (float(np.max(np.abs(state[w]), initial=0.0)) for w in self._beside), default=0
        )
        gaps = (
            (np.abs(state[where] - values), max(np.max(np.abs(values), initial=0.0), beside))
            for where, values in self.parts
        )
        if self.comm.allreduce(int(any(np.any(gap > BOUNDARY * size) for gap, size in gaps))):
            raise NotCovered(
                "a discrete solution does not have the prescribed values on the boundary, or "
                "these contradict"
            )


def check_essential(model: Model) -> None:
    """Whether exactly the unknowns on the boundary are held; collective."""
    mesh, space = model.discretisation.mesh, model.spaces.space
    facet = mesh.topology.dim - 1
    mesh.topology.create_connectivity(facet, facet + 1)
    boundary = fem.locate_dofs_topological(space, facet, exterior_facets(mesh))
    mine = boundary[boundary < model.spaces.owned]
    if model.comm.allreduce(
        int(not np.array_equal(np.unique(mine), np.unique(model.essential.owned)))
    ):
        raise NotCovered("the Dirichlet conditions do not cover exactly the whole boundary")
