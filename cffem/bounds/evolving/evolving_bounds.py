# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for ρ u_t − div(A ∇u) + b·∇u + c u = f with ρ, A, b and c that depend on
the place, given values, Neumann and Robin conditions, in L2(0, T; L2(Ω)) and L2(0, T; H1(Ω)), for
any time stepping, on intervals, polygons and polyhedra.

What is measured of a trajectory and the theorem are in `evolving_march`, the constants in
`evolving_domain`. The error of a deletion score is bounded directly: (u − u_j) − (U − U_j) has the
difference of both residuals for its own, less T (u_j − U_j) for the deleted term T, which is known
by the error of U_j. For T w = −div(A_T ∇w) + b_T·∇w + c_T w

    (T e_j, z) ≤ (|A^{-1/2} b_T| Z1 + |c_T − div b_T| Z0) ‖e_j‖    where A_T = 0 and nothing leaves
                                                                   through a free boundary, else
    (T e_j, z) ≤ |A^{-1/2} A_T A_j^{-1/2}| ‖A_j^{1/2} ∇e_j‖ Z1
                 + (|A_j^{-1/2} b_T| ‖A_j^{1/2} ∇e_j‖ + |c_T| ‖e_j‖) Z0,

the latter where no Robin condition scales with the diffusion that was deleted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem._compat import cell_geometry, exterior_facets, straight_simplices
from cffem.bounds.certificate import (
    Certificate,
    DeletionBound,
    NotCovered,
    inequality_of_score,
)
from cffem.bounds.elliptic.steady_bounds import Prescribed, check_element
from cffem.bounds.evolving.evolving_domain import EvolvingDomain
from cffem.bounds.evolving.evolving_march import (
    ActingTerm,
    EvolvingDifference,
    EvolvingError,
    EvolvingMarch,
    EvolvingSteps,
    measured,
)
from cffem.bounds.evolving.level_flux import LevelFlux
from cffem.bounds.geometry.mesh_constants import edge_lengths
from cffem.bounds.scalar_problem import only_equation
from cffem.bounds.variable.natural_walls import marked, natural_parts
from cffem.bounds.variable.trace_gap import GapSizes, TraceGap, smooth_conditions
from cffem.bounds.variable.variable_bounds import (
    HYPOTHESES,
    TRACE,
    check_domain,
    check_held,
    constant_on_cells,
)
from cffem.bounds.variable.variable_domain import CellTensors, cell_tensors
from cffem.bounds.variable.variable_operator import (
    VariableOperator,
    check_place,
    given,
    read_term,
    variable_equation,
)
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.operators import dt
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

# Growth rates μ that are tried, as multiples of 1/T.
RATES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
NORMS = ("L2", "H1")
# Every level has a flux of its own, about 10 µs a cell; where a trajectory has more cells times
# levels than this, fluxes would take far longer than the solves do.
LARGEST = 3_000_000
# What the flux of a cell at one level takes beside one unknown in one step of a sweep of deletions:
# 7.3 µs beside 0.48 µs for P2 on 5,800 triangles and 40 steps.
FLUX = 15.0


def flux_price(model: Model) -> float:
    """What these bars cost for all deletions of a model, relative to solving for them; by counts
    of cells, so that verdicts do not depend on the machine.
    """
    mesh = model.discretisation.mesh
    cells = mesh.topology.index_map(mesh.topology.dim).size_global
    steps = len(model.times) - 1
    return FLUX * cells * (steps + 1) / (model.spaces.size * steps)


class VariableParabolicCertifier:
    """Certificates for one transient model; each operator has its constants, each level one flux.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        start = time.perf_counter()
        self.model, self.library = model, only_equation(model.library)
        self.unknown, self.mesh = self.library.unknown, model.discretisation.mesh
        self.dim, self.times = self.mesh.topology.dim, np.asarray(model.times)
        apart = self._check(model)
        natural = marked(natural_parts(model, moving=True), exterior_facets(self.mesh))
        count = self.mesh.topology.index_map(self.dim).size_local
        corners = self.mesh.geometry.x[cell_geometry(self.mesh)[0][:count], : self.dim]
        self._corners, self._diameters = corners, edge_lengths(corners).max(axis=1, initial=0.0)
        self._cellwise = constant_on_cells(model, count)
        self.forcing, self.initial, weight = self._data()
        self.operator = self._operator(model.coefficients)
        tensors = self._tensors(self.operator)
        self.flux = LevelFlux(model.spaces.space, tensors, natural, self._cellwise, weight)
        check_held(model, self.flux)
        self.prescribed = Prescribed(model, apart)
        self._gap = TraceGap(model, self.flux, apart) if apart else None
        self._domains = {self.operator: EvolvingDomain(self.operator, self.flux, tensors)}
        self._factual: tuple[EvolvingMarch, EvolvingSteps, EvolvingError] | None = None
        self._linear: dict[sp.Expr, np.ndarray] = {}
        self.seconds = time.perf_counter() - start

    # Hypotheses -----------------------------------------------------------------------------------

    def _check(self, model: Model) -> list[Dirichlet]:
        experiment = model.experiment
        if experiment.time is None:
            raise NotCovered("the problem is steady")
        if self.library.time_order != 1:
            raise NotCovered("the time derivative is not of first order")
        if experiment.constraint is not None:
            raise NotCovered("a constraint is declared")
        check_element(model, self.unknown)
        if not straight_simplices(self.mesh) or self.mesh.geometry.dim != self.dim:
            raise NotCovered("the cells are no straight simplices that fill their space")
        cells = self.mesh.topology.index_map(self.dim).size_global
        if cells * len(self.times) > LARGEST:
            raise NotCovered(
                f"{cells} cells at {len(self.times)} levels are too many for a flux at each level"
            )
        check_domain(self.mesh)
        degree = model.spaces.elements[self.unknown].degree
        return list(smooth_conditions(model, self.unknown, degree, moving=True))

    def _data(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """Forcing, initial value and the weight ρ."""
        experiment, found = self.model.experiment, []
        for what, value in (
            ("the forcing", dict(experiment.forcing).get(self.unknown, 0)),
            ("the initial value", experiment.initial[self.unknown]),
        ):
            if not isinstance(value, int | float | sp.Expr):
                raise NotCovered(f"{what} is not an expression in the coordinates")
            expr = given(self.library, value, experiment.known)
            check_place(expr.xreplace({t: SPACE[0]}), self.dim, what)
            found.append(expr)
        anchor = given(self.library, self.library.anchor, experiment.known, self._cellwise)
        rate = dt(self.unknown)
        weight = sp.expand(anchor).coeff(rate)
        if sp.simplify(anchor - weight * rate) != 0:
            raise NotCovered(f"the anchor {anchor} is no multiple of the time derivative")
        check_place(weight, self.dim, "the weight of the time derivative", self._cellwise)
        return found[0], found[1], weight

    # Errors ---------------------------------------------------------------------------------------

    def _operator(self, coefficients: Mapping[str, float]) -> VariableOperator:
        known = self.model.experiment.known
        operator = variable_equation(
            self.library, coefficients, self.dim, known, self._cellwise, moving=True
        )
        return operator

    def _tensors(self, operator: VariableOperator) -> CellTensors:
        return cell_tensors(
            operator, self._corners, self._diameters, self.model.comm, self._cellwise
        )

    def _domain(self, operator: VariableOperator) -> EvolvingDomain:
        if operator not in self._domains:
            same = operator.tensor == self.operator.tensor
            tensors = self._domains[self.operator].tensors if same else self._tensors(operator)
            self._domains[operator] = EvolvingDomain(operator, self.flux, tensors)
        return self._domains[operator]

    def _smallest(
        self, steps: EvolvingSteps, domain: EvolvingDomain, acting: ActingTerm | None = None
    ) -> EvolvingError:
        """The smallest bounds over the tried μ; collective."""
        length = float(steps.times[-1] - steps.times[0])
        rates = {rate / length + least for rate in RATES for least in (0.0, domain.growth)}
        found = [steps.bound(domain, mu, acting) for mu in sorted(rates)]
        best = min(found, key=lambda error: error.value)
        return EvolvingError(
            best.value,
            min(error.energy for error in found),
            min(error.end for error in found),
            best.growth,
        )

    def _not_linear(self, source: sp.Expr) -> np.ndarray:
        if source not in self._linear:
            self._linear[source] = self.flux.sources.not_linear(source, self.times)
        return self._linear[source]

    def state(
        self, coefficients: Mapping[str, float], states: Sequence[np.ndarray]
    ) -> tuple[EvolvingMarch, EvolvingSteps, EvolvingError]:
        """Bounds of u − U for the problem with these coefficients; collective."""
        operator = self._operator(coefficients)
        domain = self._domain(operator)
        for values in states:
            self.prescribed.check(values)
        source = self.forcing - operator.source
        march = EvolvingMarch(self.flux, domain, states, source, self.times)
        initial = self.flux.distance(states[0], self.initial)
        gap = (
            GapSizes.nothing(len(self.times) - 1)
            if self._gap is None
            else self._gap.march(states, self.times, operator, domain.tensors)
        )
        walls = self.flux.walls_not_linear(operator, self.times, domain.tensors)
        steps = measured(march, initial, self._not_linear(source), walls, gap)
        return march, steps, self._smallest(steps, domain)

    @property
    def factual(self) -> tuple[EvolvingMarch, EvolvingSteps, EvolvingError]:
        """The factual trajectory and its bounds."""
        if self._factual is None:
            self._factual = self.state(self.model.coefficients, self.model.factual.states)
        return self._factual

    def _acting(self, name: str, other: EvolvingDomain, error: EvolvingError) -> ActingTerm | None:
        """What a term makes of the error of the solution without it; None where that is not
        known."""
        known, alpha = self.model.experiment.known, self.model.coefficients[name]
        term = read_term(
            given(self.library, self.library[name], known, self._cellwise), self.unknown, self.dim
        ).scaled(alpha)
        places, comm = self.flux.places, self.model.comm
        domain = self._domains[self.operator]

        def largest(expr: sp.Expr) -> np.ndarray:
            low, high = places.bounds(expr)
            return np.maximum(np.abs(low), np.abs(high))

        speeds = sum((largest(b) ** 2 for b in term.advection), np.zeros(places.count))
        tensors = sum(
            (largest(entry) ** 2 for row in term.tensor for entry in row), np.zeros(places.count)
        )
        ours, theirs = domain.tensors.smallest, other.tensors.smallest
        tops = [
            np.sqrt(speeds / ours),
            np.sqrt(speeds / theirs),
            np.sqrt(tensors / (ours * theirs)),
            largest(term.reaction),
            largest(sp.expand(term.reaction - term.divergence)),
        ]
        speed, steep, diffusive, plain, adjoint = (
            float(v)
            for v in np.max(
                comm.allgather([float(np.max(top, initial=0.0)) for top in tops]), axis=0
            )
        )
        free = comm.allreduce(len(self.flux.where)) > 0
        if not diffusive and not (free and speed):
            return ActingTerm(adjoint * error.value, speed * error.value)
        if diffusive and any(part.coefficient != 0 for part in self.flux.parts):
            return None
        if comm.allreduce(int(not math.isfinite(error.energy))):
            return None
        return ActingTerm(steep * error.energy + plain * error.value, diffusive * error.energy)

    # Certificates ---------------------------------------------------------------------------------

    def _norm(self, error: EvolvingError, domain: EvolvingDomain, norm: str) -> float:
        if norm == "L2":
            return error.value
        smallest = float(np.min(domain.tensors.smallest, initial=math.inf))
        least = min(self.model.comm.allgather(smallest))
        return math.hypot(error.value, error.energy / math.sqrt(least))

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other
        coefficients; collective.
        """
        _check_norm(norm)
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the initial or the boundary values"
            )
        march, _, error = (
            self.factual
            if solution is self.model.factual
            else self.state(change.apply(self.model.coefficients), solution.states)
        )
        value = self._norm(error, march.domain, norm)
        _check_finite(value)
        formula = rf"\|u-u_h\|_{{L^2(0,T;{'L^2' if norm == 'L2' else 'H^1'})}} \leq {value:.4g}"
        text = f"‖u − u_h‖ ≤ {value:.4g}"
        return self._certificate(value, norm, text, formula, march.domain, {"μ": error.growth})

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`; collective."""
        _check_norm(norm)
        model = self.model
        factual, deleted = model.factual, deleted or model.solve(delete(name))
        march, _, own = self.factual
        without, _, other = self.state(delete(name).apply(model.coefficients), deleted.states)
        acting = self._acting(name, without.domain, other)
        direct = math.inf
        difference = EvolvingDifference(march, without)
        if acting is not None:
            steps = self._direct(difference)
            direct = self._norm(self._smallest(steps, march.domain, acting), march.domain, norm)
        etas = (
            self._norm(own, march.domain, norm),
            self._norm(other, without.domain, norm),
            direct,
        )
        score = factual.distance(deleted, norm)
        states = [difference.state({n: 1.0}) for n in range(len(self.times))]
        away = abs(score - self.size(states, norm))
        margin = min(direct, etas[0] + etas[1]) + away
        _check_finite(margin)
        named = dict(zip(("η_factual", "η_counterfactual", "η_difference"), etas, strict=True))
        certificate = self._certificate(
            margin, norm, *inequality_of_score(score, margin, away), march.domain, named
        )
        return DeletionBound(name, score, *etas, margin, certificate)

    def deletion_at(self, name: str, deleted: Solution, last: int) -> float:
        """A bound of ‖(u − u_j) − (U − U_j)‖ on the step that ends at a level; collective.

        Args:
            name: the deleted term.
            deleted: its solution.
            last: the level.
        """
        march, own, _ = self.factual
        without, steps, other = self.state(
            delete(name).apply(self.model.coefficients), deleted.states
        )
        ends = [
            self._smallest(measured_steps.until(last), path.domain).end
            for path, measured_steps in ((march, own), (without, steps))
        ]
        found = sum(ends)
        acting = self._acting(name, without.domain, other)
        if acting is not None:
            direct = self._direct(EvolvingDifference(march, without)).until(last)
            found = min(found, self._smallest(direct, march.domain, acting).end)
        return found / math.sqrt(self.flux.weight_range[0])

    def _direct(self, difference: EvolvingDifference) -> EvolvingSteps:
        """What was measured of U − U_j; collective."""
        flux, domain = self.flux, difference.domain
        initial = flux.weighted_norm(difference.state({0: 1.0}))
        walls = [
            flux.walls_not_linear(m.domain.operator, self.times, domain.tensors)
            for m in (difference.first, difference.second)
        ]
        same = difference.first.domain.operator.tensor == difference.second.domain.operator.tensor
        # Wall values scale with the diffusion, and are equal otherwise.
        left = (
            (np.zeros(len(self.times) - 1),) * 2
            if same
            else (walls[0][0] + walls[1][0], walls[0][1] + walls[1][1])
        )
        nothing = GapSizes.nothing(len(self.times) - 1)
        data = self._not_linear(difference.source)
        return measured(difference, initial, data, left, nothing)

    def size(self, states: Sequence[np.ndarray], norm: str = "L2") -> float:
        """The space–time norm of a piecewise linear interpolant, not by the engine's matrices;
        collective."""
        _check_norm(norm)
        ones = np.ones(len(self._corners))

        def square(values: np.ndarray) -> float:
            if norm == "L2":
                return self.flux.plain_norm(values) ** 2
            return float(sum(part**2 for part in self.flux.sizes(values, ones)))

        total, before = 0.0, square(states[0])
        for first, last, step in zip(states[:-1], states[1:], np.diff(self.times), strict=True):
            after, both = square(last), square(first + last)
            total += float(step) / 6 * (before + after + both)
            before = after
        return math.sqrt(max(total, 0.0))

    def _certificate(
        self,
        value: float,
        norm: str,
        text: str,
        formula: str,
        domain: EvolvingDomain,
        named: dict[str, float],
    ) -> Certificate:
        constants = {"λ₁": domain.eigenvalue, "C_h": domain.approximations[0], **named}
        return Certificate(
            value=value,
            kind=self.flux.sources.kind,
            norm=norm,
            inequality=text,
            formula=formula,
            hypotheses=(
                (
                    "the equation is ρ u_t − div(A ∇u) + b·∇u + c u = f with ρ, A, b and c that "
                    "depend on the place",
                    "read off the symbolic terms, enclosed on every cell",
                ),
                HYPOTHESES[1] if self._gap is None else TRACE,
                *HYPOTHESES[2:],
                self.flux.sources.evidence,
                *domain.evidence,
            ),
            constants={k: v for k, v in constants.items() if math.isfinite(v)},
            cost={
                "flux unknowns": self.flux.size,
                "flux solves": 2 * len(self.times),
                "seconds": self.seconds,
            },
            method="equilibrated fluxes, variable coefficients, backward dual problem",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.flux.destroy()


def _check_norm(norm: str) -> None:
    if norm not in NORMS:
        raise NotCovered(f"there is no certificate for transient problems in the norm {norm}")


def _check_finite(value: float) -> None:
    if not math.isfinite(value):
        raise NotCovered("the solution may grow too much for a finite bound")
