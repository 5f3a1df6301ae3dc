# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for −div(A ∇u) + b·∇u + c u = f with A, b, c, f that depend on the place,
u given on a part of the boundary and A ∇u·n + κ u = g on the rest, and for deletion scores.

With the residual measured by an equilibrated flux (`variable_flux`) and the constants of the
operator (`variable_domain`), for e = u − u_h

    ‖e‖ ≤ min(Z2 C_h, Z1) (Σ t_K²)^{1/2} + Z0 ρ + Z1 σ,
    m ‖A^{1/2} ∇e‖² ≤ ((Σ t_K²)^{1/2} + σ) ‖A^{1/2} ∇e‖ + ρ ‖e‖,

ρ and σ the algebraic residual and what no rule has seen. The difference of the factual and a
deleted solution is bounded directly where the term has no diffusion, as in `steady_bounds`; where
it carries something through a free part of the boundary, by the energy of the error of u_j.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem._compat import cell_geometry, exterior_facets, straight_simplices
from cffem.bounds.certificate import (
    Certificate,
    DeletionBound,
    NotCovered,
    inequality_of_score,
)
from cffem.bounds.elliptic.steady_bounds import Prescribed, check_element
from cffem.bounds.geometry.mesh_constants import edge_lengths, exterior_corners, is_convex
from cffem.bounds.geometry.overlap import check_overlap
from cffem.bounds.scalar_problem import only_equation
from cffem.bounds.variable.natural_walls import marked, natural_parts
from cffem.bounds.variable.trace_gap import GapSizes, TraceGap, smooth_conditions
from cffem.bounds.variable.variable_domain import (
    VariableDomain,
    VariableStability,
    cell_tensors,
)
from cffem.bounds.variable.variable_flux import VariableFlux, VariableResidual, VariableState
from cffem.bounds.variable.variable_operator import (
    VariableOperator,
    check_place,
    given,
    read_term,
    variable_equation,
)
from cffem.symbols.known import Known
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.conditions import Dirichlet


@dataclass(frozen=True)
class VariableError:
    """Bounds of one error e.

    Attributes:
        value: ‖e‖.
        energy: ‖A^{1/2} ∇e‖, A of its own operator.
        gradient: ‖∇e‖.
        route: how the L2 bound was obtained.
        residual, state: what was measured.
        domain: the constants of its operator.
    """

    value: float
    energy: float
    gradient: float
    route: str
    residual: VariableResidual
    state: VariableState
    domain: VariableDomain

    def norm(self, kind: str) -> float:
        """The bound in a norm."""
        if kind == "energy":
            return math.sqrt(
                self.energy**2 + max(self.domain.constants.shifted, 0.0) * self.value**2
            )
        return self.value if kind == "L2" else math.hypot(self.value, self.gradient)


class VariableSteadyCertifier:
    """Certificates for one steady model; each operator has its constants, each solution one flux.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        start = time.perf_counter()
        self.model, self.library = model, only_equation(model.library)
        self.unknown, self.mesh = self.library.unknown, model.discretisation.mesh
        self.dim = self.mesh.topology.dim
        self._check(model)
        natural = marked(natural_parts(model), exterior_facets(self.mesh))
        self.forcing = sp.sympify(dict(model.experiment.forcing).get(self.unknown, 0))
        self._check_data()
        count = self.mesh.topology.index_map(self.dim).size_local
        corners = self.mesh.geometry.x[cell_geometry(self.mesh)[0][:count], : self.dim]
        self._corners, self._diameters = corners, edge_lengths(corners).max(axis=1, initial=0.0)
        self._cellwise = constant_on_cells(model, count)
        self.operator = self._operator(model.coefficients)
        tensors = cell_tensors(self.operator, corners, self._diameters, model.comm, self._cellwise)
        self.flux = VariableFlux(model.spaces.space, tensors, natural, self._cellwise)
        check_held(model, self.flux)
        self.prescribed = Prescribed(model, self._apart)
        self._gap = TraceGap(model, self.flux, self._apart) if self._apart else None
        self._domains: dict[VariableOperator, VariableDomain] = {
            self.operator: VariableDomain(self.operator, self.flux, tensors)
        }
        self._factual: VariableError | None = None
        self.seconds = time.perf_counter() - start

    # Hypotheses -----------------------------------------------------------------------------------

    def _check(self, model: Model) -> None:
        experiment = model.experiment
        if experiment.time is not None:
            raise NotCovered("the problem depends on time")
        if experiment.constraint is not None:
            raise NotCovered("a constraint is declared")
        check_element(model, self.unknown)
        if not straight_simplices(self.mesh) or self.mesh.geometry.dim != self.dim:
            raise NotCovered("the cells are no straight simplices that fill their space")
        check_domain(self.mesh)
        degree = model.spaces.elements[self.unknown].degree
        self._apart: list[Dirichlet] = smooth_conditions(model, self.unknown, degree, moving=False)

    def _check_data(self) -> None:
        forcing = dict(self.model.experiment.forcing).get(self.unknown, 0)
        if not isinstance(forcing, int | float | sp.Expr):
            raise NotCovered("the forcing is not an expression in the coordinates")
        self.forcing = given(self.library, forcing, self.model.experiment.known)
        check_place(self.forcing, self.dim, "the forcing")

    # Errors ---------------------------------------------------------------------------------------

    def _operator(self, coefficients: Any) -> VariableOperator:
        known = self.model.experiment.known
        return variable_equation(self.library, coefficients, self.dim, known, self._cellwise)

    def _domain(self, operator: VariableOperator) -> VariableDomain:
        if operator not in self._domains:
            factual = self._domains[self.operator]
            same = operator.tensor == self.operator.tensor
            tensors = (
                factual.tensors
                if same
                else cell_tensors(
                    operator, self._corners, self._diameters, self.model.comm, self._cellwise
                )
            )
            self._domains[operator] = VariableDomain(operator, self.flux, tensors)
        return self._domains[operator]

    def _bound(
        self,
        domain: VariableDomain,
        state: VariableState,
        more: tuple[float, float] = (0.0, 0.0),
        gap: GapSizes | None = None,
    ) -> VariableError:
        """Bounds from a state; `more` is what else acts on φ, and what is added to ‖e‖ itself, and
        `gap` what given values differ by from those of the state."""
        residual, z = self.flux.residual(state, domain.tensors), domain.constants
        routes = [(z.z1 * residual.dual, "Friedrichs (no power of h gained)")]
        if domain.approximation is not None:
            found = z.z2 * domain.approximation * residual.dual
            routes.append((found, "Aubin–Nitsche with the approximation constant of the mesh"))
        best, route = min(routes)
        rest = residual.rest + more[0]
        value = best + z.z0 * rest + (z.z1 * residual.slope if residual.slope else 0.0) + more[1]
        dual, m = residual.dual + residual.slope, z.coercivity
        plain = steep = 0.0
        if gap is not None:
            # e − G vanishes where values are given, and has the residual less that of G.
            plain, steep, acting = (float(p[0]) for p in (gap.plain, gap.steep, gap.acting))
            value += z.z1 * steep + z.z0 * acting + plain
            dual, rest = dual + steep, rest + acting
        size = value + plain
        energy = (dual + math.sqrt(dual**2 + 4 * m * rest * size)) / (2 * m) + steep
        smallest = min(
            self.model.comm.allgather(float(np.min(domain.tensors.smallest, initial=math.inf)))
        )
        return VariableError(
            value, energy, energy / math.sqrt(smallest), route, residual, state, domain
        )

    def state(self, coefficients: Any, state: np.ndarray) -> VariableError:
        """Bounds of u − u_h for the problem with these coefficients."""
        operator = self._operator(coefficients)
        domain = self._domain(operator)
        self.prescribed.check(state)
        source = self.forcing - operator.source
        gap = None if self._gap is None else self._gap.steady(state, operator, domain.tensors)
        return self._bound(domain, self.flux.state(operator, state, source), gap=gap)

    @property
    def factual(self) -> VariableError:
        """Bounds of the error of the factual solution."""
        if self._factual is None:
            self._factual = self.state(self.model.coefficients, self.model.factual.states[0])
        return self._factual

    def _difference(self, name: str, error: VariableError) -> VariableError | None:
        """Bounds of (u − u_j) − (u_h − u_jh), None where the term has diffusion."""
        known, alpha = self.model.experiment.known, self.model.coefficients[name]
        term = read_term(
            given(self.library, self.library[name], known, self._cellwise), self.unknown, self.dim
        ).scaled(alpha)
        if any(entry != 0 for row in term.tensor for entry in row):
            return None
        domain, places = self._domains[self.operator], self.flux.places
        z, comm = domain.constants, self.model.comm

        def largest(expr: sp.Expr) -> np.ndarray:
            low, high = places.bounds(expr)
            return np.maximum(np.abs(low), np.abs(high))

        squares = sum((largest(b) ** 2 for b in term.advection), np.zeros(places.count))
        plain, adjoint = largest(term.reaction), largest(sp.expand(term.reaction - term.divergence))
        tops = [
            np.sqrt(squares / domain.tensors.smallest),
            np.sqrt(squares / error.domain.tensors.smallest),
            plain,
            adjoint,
        ]
        speed, steep, plain_most, adjoint_most = np.max(
            comm.allgather([float(np.max(top, initial=0.0)) for top in tops]), axis=0
        )
        free = self.flux.where
        if comm.allreduce(int(len(free) > 0)) and speed > 0:
            # (b·∇e, z) without integration by parts, which would leave ⟨b·n e, z⟩.
            acting = float(steep * error.energy + plain_most * error.value)
            return self._bound(domain, self.factual.state - error.state, (acting, 0.0))
        moved = float(speed * z.z1 + adjoint_most * z.z0) * error.value
        found = self._bound(domain, self.factual.state - error.state, (0.0, moved))
        # In the energy the term acts on e_j as it stands.
        acting = float(speed + adjoint_most / math.sqrt(domain.eigenvalue or 1.0)) * error.value
        dual, m = found.residual.dual + found.residual.slope + acting, z.coercivity
        if not domain.eigenvalue > 0 and adjoint_most > 0:
            return found if speed == 0 and not acting else self._plain(found, error, plain_most)
        energy = (dual + math.sqrt(dual**2 + 4 * m * found.residual.rest * found.value)) / (2 * m)
        ratio = energy / found.energy if found.energy else 1.0
        return VariableError(
            found.value,
            energy,
            found.gradient * ratio if found.energy else 0.0,
            found.route,
            found.residual,
            found.state,
            domain,
        )

    def _plain(self, found: VariableError, error: VariableError, reaction: float) -> VariableError:
        """With the term acting on φ itself, where constants are in the space."""
        return self._bound(found.domain, found.state, (reaction * error.value, 0.0))

    def size(self, states: Sequence[np.ndarray], norm: str) -> float:
        """The norm of the only state, not by the engine's matrices."""
        domain = self._domains[self.operator]
        if norm == "energy":
            flow, _ = self.flux._diffusive(self.operator, *self._steepness(states[0]))
            slopes = self.flux.at_points(states[0])[1]
            weights = self.flux.tables["weights"]
            energy = float(
                self.flux.cells.volume @ (np.einsum("cqi,cqi->cq", flow, slopes) @ weights)
            )
            value = self.flux.sizes(states[0], np.ones(len(self._corners)))[0]
            total = self.model.comm.allreduce(energy) + domain.constants.shifted * value**2
            return math.sqrt(max(total, 0.0))
        value, gradient = self.flux.sizes(states[0], np.ones(len(self._corners)))
        return value if norm == "L2" else math.hypot(value, gradient)

    def _steepness(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slopes = self.flux.at_points(state)[1]
        return slopes, np.zeros(len(slopes))

    # Certificates ---------------------------------------------------------------------------------

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other
        coefficients.
        """
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the boundary values or the constraint"
            )
        if norm == "energy" and change.changes:
            raise NotCovered("the energy norm is that of the factual operator")
        bound = self.state(change.apply(self.model.coefficients), solution.states[0])
        value = bound.norm(norm)
        return self._certificate(
            value, norm, f"‖u − u_h‖ ≤ {value:.4g}", rf"\|u-u_h\| \leq {value:.4g}", bound, {}
        )

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        if norm == "energy":
            raise NotCovered("scores in the energy norm need constant coefficients")
        factual, deleted = self.model.factual, deleted or self.model.solve(delete(name))
        counterfactual = self.state(delete(name).apply(self.model.coefficients), deleted.states[0])
        gap = factual.states[0] - deleted.states[0]
        direct = self._difference(name, counterfactual)
        etas = (
            self.factual.norm(norm),
            counterfactual.norm(norm),
            math.inf if direct is None else direct.norm(norm),
        )
        score = self.model.norm(norm)(gap)
        away = abs(score - self.size([gap], norm))
        margin = min(etas[2], etas[0] + etas[1]) + away
        named = dict(zip(("η_factual", "η_counterfactual", "η_difference"), etas, strict=True))
        used = counterfactual if direct is None or etas[2] > etas[0] + etas[1] else direct
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
        bound: VariableError,
        named: dict[str, float],
    ) -> Certificate:
        z: VariableStability = bound.domain.constants
        constants = {
            "λ₁": bound.domain.eigenvalue,
            "C_h": bound.domain.approximation or math.inf,
            "Z0": z.z0,
            "Z1": z.z1,
            "Z2": z.z2,
            "coercivity": z.coercivity,
            "algebraic residual": bound.residual.algebraic,
        }
        route = bound.route if norm == "L2" else "energy"
        return Certificate(
            value=value,
            kind=self.flux.sources.kind,
            norm=norm,
            inequality=text,
            formula=formula,
            hypotheses=(
                *(HYPOTHESES if self._gap is None else (HYPOTHESES[0], TRACE, *HYPOTHESES[2:])),
                self.flux.sources.evidence,
                *bound.domain.evidence,
            ),
            constants={**named, **{k: v for k, v in constants.items() if math.isfinite(v)}},
            # Fluxes serve several certificates, and a resumed run solves for others first.
            cost={"flux unknowns": self.flux.size, "seconds": self.seconds},
            method=f"equilibrated flux, variable coefficients, {route}",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.flux.destroy()


def check_domain(mesh: Mesh) -> None:
    """Refuse meshes whose cells overlap; collective.

    Raises:
        NotCovered: they do.
    """
    if mesh.topology.dim > 1:
        check_overlap(mesh, is_convex(mesh.comm, exterior_corners(mesh)))
        return
    count = mesh.topology.index_map(1).size_local
    places = mesh.geometry.x[cell_geometry(mesh)[0][:count], 0]
    ends = np.sort(np.concatenate(mesh.comm.allgather(places)), axis=1)
    ends = ends[np.argsort(ends[:, 0])]
    if np.any(ends[1:, 0] < ends[:-1, 1] - 1e-10 * (ends[:-1, 1] - ends[:-1, 0])):
        raise NotCovered("the cells of the interval overlap")


def check_held(model: Model, flux: VariableFlux) -> None:
    """Whether exactly the unknowns on parts with given values are held; collective.

    Raises:
        NotCovered: others are, or not all of them.
    """
    held = flux.boundary[flux.boundary < flux.owned]
    wrong = not np.array_equal(np.unique(held), np.unique(model.essential.owned))
    if model.comm.allreduce(int(wrong)):
        raise NotCovered("the Dirichlet conditions do not hold exactly the unknowns they should")


def constant_on_cells(model: Model, count: int) -> dict[Known, np.ndarray]:
    """Known scalars that are constant on cells, such as values by subdomain, on own cells."""
    found = {}
    for field, value in model.discretisation.known.values.items():
        if isinstance(field, Known) and not field.shape and isinstance(value, fem.Function):
            space = value.function_space
            element = space.element.basix_element
            if (
                element.degree == 0
                and element.discontinuous
                and space.mesh is model.discretisation.mesh
            ):
                found[field] = value.x.array[space.dofmap.list[:count, 0]].copy()
    return found


TRACE = (
    "Ω is the meshed domain; given values that u_h does not take on differ from it by what is in "
    "the bound; elsewhere A ∇u·n + κ u = g",
    "declared conditions and held unknowns, enclosures on the cells next to given values",
)
HYPOTHESES = (
    (
        "the equation is −div(A ∇u) + b·∇u + c u = f with A, b, c, f that depend on the place",
        "read off the symbolic terms, enclosed on every cell",
    ),
    (
        "Ω is the meshed domain; where u is given, it is by polynomials that u_h takes on exactly, "
        "elsewhere A ∇u·n + κ u = g",
        "declared conditions, held unknowns and values of the solution",
    ),
    (
        "no two cells overlap",
        "sides of cells at facets, and the winding number of the boundary or its volume",
    ),
    (
        "u_h is continuous, piecewise polynomial and otherwise arbitrary",
        "element of the model; its residual is computed anew",
    ),
    ("rounding errors are negligible", "not enclosed"),
)
