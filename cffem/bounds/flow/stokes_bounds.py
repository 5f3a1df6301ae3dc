# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for −ν Δv − γ ∇ div v + (b·∇) v + C v + ∇p = f, div v = 0 in the plane,
with v given on the boundary, and for deletion scores in this class.

Let e = v − v_h = e₀ + e₁ with e₀ free of divergence and e₁ orthogonal to such fields in (∇·, ∇·).
With the residual R of `stokes_residual`, which dual fields without divergence see without any
pressure, the constant β of `divergence_constant`, and g = ‖div v_h‖/β,

    ‖∇e₁‖ ≤ g,
    m ‖∇e₀‖ ≤ (Σ t_K²)^{1/2} + ρ/λ₁^{1/2} + (|b| + |C − div b|/λ₁^{1/2}) g/λ₁^{1/2},

and ‖∇e‖² = ‖∇e₀‖² + ‖∇e₁‖². The adjoint problem −ν Δz + ∇π = e + (b·∇) z + (div b) z − Cᵀ z,
div z = 0 has a right-hand side of at most Z2 ‖e‖, and ‖e‖² = R(z) + (div v_h, π). What remains of
both when P2 velocities and P1 pressures are taken away is bounded by C(D, E, G) of
`stokes_approximation`:

    ‖e‖ ≤ Z2 C((Σ t_K²)^{1/2}/ν, ‖tr M/2‖/ν, g + ‖δ‖/β) + Z0 ρ + Z2 ‖δ‖/(β λ₁^{1/2}),
    ‖e‖ ≤ Z1 (Σ t_K²)^{1/2} + Z0 ρ + Z2 g/λ₁^{1/2}      (no power of h gained),

ρ the algebraic residual and what no rule has seen. With c₀ the least eigenvalue of the symmetric
part of C − div b/2 and Λ = ν λ₁ + c₀ > 0, Z0 and Z1 are those of `adjoint_stability`; Z2 = 1 for
b = 0 and C = c ≥ 0, since the adjoint operator is self-adjoint then among fields without divergence
and gradients only change π. The difference of the factual and a deleted flow is bounded by its own
residual and the error of the deleted flow, as in `steady_bounds`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp

from cffem.bounds.certificate import (
    Certificate,
    DeletionBound,
    NotCovered,
    inequality_of_score,
)
from cffem.bounds.elliptic.steady_bounds import BOUNDARY
from cffem.bounds.flow.divergence_constant import divergence_constant
from cffem.bounds.flow.stokes_approximation import StokesApproximation, stokes_approximation
from cffem.bounds.flow.stokes_equation import (
    StokesOperator,
    stokes_equation,
    stokes_library_term,
    vector_source,
)
from cffem.bounds.flow.stokes_residual import FlowFlux, FlowResidual, FlowState
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.scalar_problem import only_equation
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Component, VectorField
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.constraint_classes import DivergenceFree
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# The constants of a mesh cost so many studies of two deletions, times the root of the number of
# cells: 0.33, 1.25 and 7.0 s against 0.32, 0.42 and 1.54 s on 512, 2,048 and 8,192 cells.
CONSTANTS = 0.05


@dataclass(frozen=True)
class FlowStability:
    """Constants of the adjoint problem.

    Attributes:
        z0, z1, z2: bounds of ‖z‖, ‖∇z‖ and of the right-hand side of −ν Δz + ∇π by ‖e‖.
        coercivity: m.
        margin: Λ.
    """

    z0: float
    z1: float
    z2: float
    coercivity: float
    margin: float


def flow_stability(problem: StokesOperator, speed: float, eigenvalue: float) -> FlowStability:
    """The constants of an operator whose b is at most `speed`, where λ₁ ≥ `eigenvalue`.

    Raises:
        NotCovered: coercivity is not proved.
    """
    diffusive, shifted = problem.viscosity * eigenvalue, problem.lowest
    margin = diffusive + shifted
    if not margin > 0:
        raise NotCovered(
            f"coercivity is not proved: ν λ₁ + C − div b/2 = {margin:.3g} is not positive"
        )
    z0 = 1 / margin
    square = diffusive / margin**2 if shifted < diffusive else 1 / (4 * shifted)
    z1 = math.sqrt(square / problem.viscosity)
    z2 = 1 + speed * z1 + problem.adjoint * z0
    if problem.drag is not None:
        z2 = min(z2, max(1.0, diffusive / (diffusive + problem.drag)))
    coercivity = problem.viscosity * min(1.0, 1 + shifted / diffusive)
    return FlowStability(z0, z1, z2, coercivity, margin)


@dataclass(frozen=True)
class FlowError:
    """Bounds of the error of one flow.

    Attributes:
        value, gradient: ‖e‖ and ‖∇e‖.
        route: how the L2 bound was obtained.
        residual, state: what was measured.
        constants: of its operator.
    """

    value: float
    gradient: float
    route: str
    residual: FlowResidual
    state: FlowState
    constants: FlowStability

    def norm(self, kind: str) -> float:
        """The bound in a norm."""
        return self.value if kind == "L2" else math.hypot(self.value, self.gradient)


class StokesCertifier:
    """Certificates for one steady flow; the constants of the mesh are computed once, and each
    solution needs one stress.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        start = time.perf_counter()
        self.model, self.library = model, only_equation(model.library)
        self.unknown, self.pressure = check_flow(model)
        self.domain = Domain(model.discretisation.mesh)
        if self.domain.dim != 2:
            raise NotCovered("lower bounds of the inf–sup constant are known in the plane only")
        self.forcing = vector_source(dict(model.experiment.forcing).get(self.unknown, 0), 2)
        degree = model.spaces.own(self.unknown)[0].ufl_element().degree
        for condition in model.experiment.boundary:
            check_values(condition, degree)
        self._operators: dict[Any, tuple[StokesOperator, FlowStability]] = {}
        self.operator, self.constants = self._operator(model.coefficients)
        self.divergence = divergence_constant(self.domain.boundary)
        self.flux = FlowFlux(model, self.domain, self.unknown, self.pressure)
        self._check_held()
        self.approximation: StokesApproximation | None = stokes_approximation(
            self.domain.mesh,
            max(model.comm.allgather(float(self.domain.diameters.max(initial=0.0)))),
            self.divergence.value,
        )
        self._factual: FlowError | None = None
        self.seconds = time.perf_counter() - start

    def _operator(self, coefficients: Mapping[str, float]) -> tuple[StokesOperator, FlowStability]:
        key = tuple(sorted(coefficients.items()))
        if key not in self._operators:
            found = stokes_equation(self.library, coefficients, 2)
            speed = found.speed(self.domain.hull)
            try:
                constants = flow_stability(found, speed, self.domain.eigenvalue)
            except NotCovered:
                # Growth may be close to the first eigenvalue.
                if not self.domain.sharpen():
                    raise
                constants = flow_stability(found, speed, self.domain.eigenvalue)
            self._operators[key] = found, constants
        return self._operators[key]

    def _check_held(self) -> None:
        """Whether all of the velocity is held on the boundary, and nothing else but one unknown of
        the pressure; collective.
        """
        owned, held = self.model.spaces.owned, np.unique(self.model.essential.owned)
        where = np.concatenate([part[self.flux.boundary] for part in self.flux.positions])
        velocity = self.model.spaces.dofs(self.unknown)
        wrong = not np.array_equal(np.intersect1d(held, velocity), np.unique(where[where < owned]))
        others = self.model.comm.allreduce(len(np.setdiff1d(held, velocity)))
        if self.model.comm.allreduce(int(wrong)) or others > 1:
            raise NotCovered(
                "the Dirichlet conditions do not hold all of the velocity on the boundary alone"
            )

    def _check_values(self, state: np.ndarray) -> None:
        """Whether a state has the given values on the boundary, which have no net flux by that;
        collective.
        """
        places = self.flux.space.tabulate_dof_coordinates()[:, :2]
        wrong, size = 0.0, 0.0
        for entry in self.model.essential.entries:
            condition = entry.condition
            assert isinstance(condition, Dirichlet)
            values = given_values(condition)
            for axis, where in enumerate(self.flux.positions):
                mine = np.flatnonzero(np.isin(where, entry.mine))
                if values[axis] is None or not len(mine):
                    continue
                exact = sp.lambdify(SPACE[:2], values[axis], "numpy")(*places[mine].T)
                wrong = max(wrong, float(np.abs(state[where[mine]] - exact).max()))
                size = max(size, float(np.abs(exact).max()))
        wrong, size = np.max(self.model.comm.allgather((wrong, size)), axis=0)
        if wrong > BOUNDARY * size:
            raise NotCovered(
                "a discrete solution does not have the prescribed values on the boundary, or "
                "these contradict"
            )

    # Errors ---------------------------------------------------------------------------------------

    def _bound(
        self,
        operator: StokesOperator,
        z: FlowStability,
        state: FlowState,
        value: float = 0.0,
        slope: float = 0.0,
    ) -> FlowError:
        """Bounds from what was measured; `value` and `slope` are what else is added to ‖e‖ and to
        the dual norm.
        """
        residual, beta = self.flux.measured(state), self.divergence.value
        root = math.sqrt(self.domain.eigenvalue)
        leak = residual.divergence / beta
        routes = [(z.z1 * residual.dual + z.z2 * leak / root, "Friedrichs (no power of h gained)")]
        if self.approximation is not None:
            lacking = residual.defect / beta
            both = self.approximation.bound(
                residual.dual / operator.viscosity,
                residual.trace / operator.viscosity,
                leak + lacking,
            )
            routes.append(
                (
                    z.z2 * (both + lacking / root),
                    "Aubin–Nitsche with the approximation constant of the mesh",
                )
            )
        best, route = min(routes)
        moved = (operator.speed(self.domain.hull) + operator.adjoint / root) * leak / root
        solenoidal = (residual.dual + residual.rest / root + moved + slope) / z.coercivity
        total = best + z.z0 * residual.rest + value
        return FlowError(total, math.hypot(solenoidal, leak), route, residual, state, z)

    def state(self, coefficients: Mapping[str, float], state: np.ndarray) -> FlowError:
        """Bounds of v − v_h for the problem with these coefficients."""
        operator, constants = self._operator(coefficients)
        self._check_values(state)
        source = tuple(f - s for f, s in zip(self.forcing, operator.source, strict=True))
        return self._bound(operator, constants, self.flux.flow(operator, state, source))

    @property
    def factual(self) -> FlowError:
        """Bounds of the error of the factual flow."""
        if self._factual is None:
            self._factual = self.state(self.model.coefficients, self.model.factual.states[0])
        return self._factual

    def _difference(self, name: str, error: FlowError) -> FlowError:
        """Bounds of (v − v_j) − (v_h − v_jh): L d + ∇(p − p_j) = α_j T_j v_j, and the term acts
        on the error of v_jh as well; ∇ div does not, where z has no divergence.
        """
        term = stokes_library_term(self.library, name, self.model.coefficients[name], 2)
        z, root = self.constants, math.sqrt(self.domain.eigenvalue)
        speed, plain = term.speed(self.domain.hull), term.adjoint
        viscous = abs(term.viscosity) * error.gradient
        value = viscous * z.z1 + (speed * z.z1 + plain * z.z0) * error.value
        slope = viscous + (speed + plain / root) * error.value
        return self._bound(
            self.operator, self.constants, self.factual.state - error.state, value, slope
        )

    def size(self, states: Sequence[np.ndarray], norm: str) -> float:
        """The norm of the velocity, not by the engine's matrices."""
        value, gradient = self.flux.norms(states[0])
        return value if norm == "L2" else math.hypot(value, gradient)

    # Certificates ---------------------------------------------------------------------------------

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other coefficients;
        it speaks of the velocity.
        """
        _check_norm(norm)
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the boundary values or the constraint"
            )
        bound = self.state(change.apply(self.model.coefficients), solution.states[0])
        value = bound.norm(norm)
        return self._certificate(
            value, norm, f"‖v − v_h‖ ≤ {value:.4g}", rf"\|v-v_h\| \leq {value:.4g}", bound, {}
        )

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        _check_norm(norm)
        factual, deleted = self.model.factual, deleted or self.model.solve(delete(name))
        counterfactual = self.state(delete(name).apply(self.model.coefficients), deleted.states[0])
        gap = factual.states[0] - deleted.states[0]
        direct = self._difference(name, counterfactual)
        etas = (self.factual.norm(norm), counterfactual.norm(norm), direct.norm(norm))
        score = self.model.norm(norm)(gap)
        away = abs(score - self.size([gap], norm))
        margin = min(etas[2], etas[0] + etas[1]) + away
        named = dict(zip(("η_factual", "η_counterfactual", "η_difference"), etas, strict=True))
        used = direct if etas[2] <= etas[0] + etas[1] else counterfactual
        certificate = self._certificate(
            margin, norm, *inequality_of_score(score, margin, away), used, named
        )
        return DeletionBound(name, score, *etas, margin, certificate)

    def _certificate(
        self,
        value: float,
        norm: str,
        text: str,
        formula: str,
        bound: FlowError,
        named: dict[str, float],
    ) -> Certificate:
        z, found = bound.constants, self.approximation
        constants = {
            "λ₁": self.domain.eigenvalue,
            "β": self.divergence.value,
            "Z0": z.z0,
            "Z1": z.z1,
            "Z2": z.z2,
            "coercivity": z.coercivity,
            "algebraic residual": bound.residual.algebraic,
            "divergence": bound.residual.divergence,
        }
        constants |= {} if found is None else {"k": math.sqrt(found.square)}
        return Certificate(
            value=value,
            kind=self.flux.sources.kind,
            norm=norm,
            inequality=text,
            formula=formula,
            hypotheses=(
                *HYPOTHESES,
                self.flux.sources.evidence,
                *self.domain.evidence,
                self.divergence.evidence,
                (f"ν λ₁ + C − div b/2 ≥ {z.margin:.4g} > 0", "computed"),
            ),
            constants={**named, **constants},
            cost={"flux unknowns": 2 * self.flux.size, "seconds": self.seconds},
            method=f"equilibrated stress, {bound.route if norm == 'L2' else 'energy'}",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.flux.destroy()


HYPOTHESES = (
    (
        "the equation is −ν Δv − γ ∇ div v + (b·∇) v + C v + ∇p = f, div v = 0, with constants ν > "
        "0, γ, a constant matrix C and affine b",
        "read off the symbolic terms and the constraint",
    ),
    (
        "Ω is the meshed domain and v is given on all of its boundary by polynomials that v_h "
        "takes on exactly",
        "declared conditions, held unknowns and values of the solution",
    ),
    (
        "v_h and p_h are continuous, piecewise polynomial and otherwise arbitrary",
        "elements of the model; the residual and the divergence are computed anew",
    ),
    ("rounding errors are negligible", "not enclosed"),
)


def _check_norm(norm: str) -> None:
    if norm == "energy":
        raise NotCovered("bounds of flows are those of the norms L2 and H1")


def flow_price(model: Model) -> float:
    """What these bars cost for all deletions of a model, relative to solving for them; by counts of
    cells, so that verdicts do not depend on the machine. Stresses cost about as much as solves, and
    the constants of the mesh twice a factorisation of a larger matrix.
    """
    cells: int = model.discretisation.mesh.topology.index_map(2).size_global
    return 1.0 + CONSTANTS * math.sqrt(cells)


def is_flow(model: Model) -> bool:
    """Whether the unknown is one vector field without divergence."""
    unknown = only_equation(model.library).unknown
    constraint = model.experiment.constraint
    return isinstance(unknown, VectorField) and isinstance(constraint, DivergenceFree)


def check_flow(model: Model) -> tuple[VectorField, Any]:
    """Velocity and pressure of a steady flow on continuous Lagrange elements.

    Raises:
        NotCovered: it is none.
    """
    experiment, unknown = model.experiment, only_equation(model.library).unknown
    constraint = experiment.constraint
    if experiment.time is not None:
        raise NotCovered("the problem depends on time")
    if not isinstance(constraint, DivergenceFree) or not isinstance(unknown, VectorField):
        raise NotCovered("the unknown is no vector field with the constraint DivergenceFree")
    if constraint.field != unknown or constraint.weight != 1:
        raise NotCovered("the constraint is not div v = 0")
    if model.discretisation.auxiliaries or len(model.spaces.fields) != 2:
        raise NotCovered("there are other unknowns than velocity and pressure")
    multiplier = model.discretisation.multiplier
    assert multiplier is not None
    pressure = multiplier[0]
    velocity = model.spaces.elements[unknown]
    scalar = velocity.sub_elements[0] if velocity.sub_elements else velocity
    for element in (scalar, model.spaces.elements[pressure]):
        if (
            getattr(element, "element_family", None) != basix.ElementFamily.P
            or element.discontinuous
            or element.reference_value_shape
        ):
            raise NotCovered("velocity or pressure are not on continuous Lagrange elements")
    if velocity.block_size != unknown.dim or scalar.degree < 2:
        raise NotCovered("the velocity is not on Lagrange elements of degree two or more")
    if model.spaces.elements[pressure].degree > scalar.degree:
        raise NotCovered("the pressure has a higher degree than the velocity")
    return unknown, pressure


def given_values(condition: Dirichlet) -> list[sp.Expr | None]:
    """The value of each component, None where it is not given by this condition.

    Raises:
        NotCovered: it is no expression in the coordinates.
    """
    if isinstance(condition.field, Component):
        value = condition.value
        found = vector_source((value, 0), 2)[0] if not isinstance(value, tuple) else None
        return [found if axis == condition.field.index else None for axis in range(2)]
    return list(vector_source(condition.value, 2))


def check_values(condition: Any, degree: int) -> None:
    """Whether a condition gives polynomials that the element takes on along straight sides.

    Raises:
        NotCovered: it does not.
    """
    if not isinstance(condition, Dirichlet):
        raise NotCovered(f"{condition} is not a Dirichlet condition")
    for value in given_values(condition):
        if value is None:
            continue
        if not value.is_polynomial(*SPACE):
            raise NotCovered(f"{condition} does not prescribe polynomials in the coordinates")
        if sp.Poly(value, *SPACE).total_degree() > degree:
            raise NotCovered(
                f"{condition} prescribes a polynomial of higher degree than the element has"
            )
