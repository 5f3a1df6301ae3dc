# SPDX-License-Identifier: MIT
"""Certificates for equations of second order in time: what scalar waves and Maxwell's equations
share.

The error of a trajectory is bounded by the first-order majorant (`wave_majorant`). The difference d
= u − u_j of the factual and a deleted solution obeys the factual equation with the deleted term,
acting on u_j, as its source:

    d_tt + L d = −L_j u_j,    d(0) = d_t(0) = 0,    L_j = −α_j T_j.

Its error is bounded by the residual of u_h − u_jh with the source −L_j u_jh, plus what L_j makes of
the error of u_jh. For a damping, mass or matrix term this is proportional to α_j. A stiffness term
makes derivatives of the error that are not bounded: then only the sum of the two errors is a
margin. A term that vanishes on the constraint class has u_j = u, so that d_h is all error.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem._compat import exterior_facets
from cffem.bounds.certificate import (
    ESTIMATED,
    GUARANTEED,
    Certificate,
    DeletionBound,
    NotCovered,
    inequality_of_score,
)
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.enclosed.trajectory_columns import Broken
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.scalar_problem import only_equation
from cffem.bounds.waves.wave_data import Source, projected
from cffem.bounds.waves.wave_growth import evolve
from cffem.bounds.waves.wave_majorant import Majorant, WaveResiduals
from cffem.bounds.waves.wave_paths import Trajectory
from cffem.bounds.waves.wave_problem import WaveOperator, term_operators
from cffem.bounds.waves.wave_rulers import Ruler, zero_operator
from cffem.symbols.operators import Vec, as_expr, component, dt
from cffem.symbols.problem.conditions import Dirichlet, Tangential, is_zero
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from basix.ufl import _ElementBase

    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


Terms = dict[str, WaveOperator]
# Differences smaller than this share of the solution are solved for anew.
CANCELLED = 1e-6


@dataclass(frozen=True)
class PathBound:
    """The error of a trajectory.

    Attributes:
        value: a bound of ‖u − I u_h‖ in L2(0, T; L2).
        steps: bounds of ‖u − ũ‖ in L2 of each step.
        plain: the same without the gradient part.
        start: a bound of the initial error.
        parts: what contributed, by name.
        slopes, reaction: ‖s_v‖ and c′ of an elliptic reconstruction.
        fields: what was solved for, to be shared by linearity.
        measured: what the first-order majorant measured, likewise.
    """

    value: float
    steps: np.ndarray
    plain: np.ndarray
    start: float
    parts: dict[str, float]
    slopes: np.ndarray = field(default_factory=lambda: np.zeros(0))
    reaction: float = 0.0
    fields: tuple[np.ndarray, ...] = ()
    measured: WaveResiduals | None = None


class SecondOrderCertifier(ABC):
    """Certificates for one model of second order in time; factorisations are made once for all its
    trajectories.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    method = "first-order system, residuals in L2"

    def __init__(self, model: Model):
        start = time.perf_counter()
        self.model, self.library = model, only_equation(model.library)
        self.unknown = self.library.unknown
        self.constrained = model.experiment.constraint is not None
        self._check()
        mesh = model.discretisation.mesh
        self.dim, self.components = (
            mesh.topology.dim,
            mesh.topology.dim if self.unknown.shape else 1,
        )
        self.terms = term_operators(self.library, model.coefficients, self.dim, self.constrained)
        self.domain = Domain(mesh)
        self.space = model.spaces.own(self.unknown)[0]
        self._check_walls()
        data = {
            "u": model.experiment.initial[self.unknown],
            "v": model.experiment.initial[dt(self.unknown)],
        }
        data["f"] = dict(model.experiment.forcing).get(self.unknown, 0)
        self.initial, self.velocity, self.forcing = (self._entries(data[key]) for key in "uvf")
        element = self.space.element.basix_element
        self.degree, order = self._dual_degree(element), element.embedded_superdegree
        # A matrix that varies raises the degree.
        self.ruler = Ruler(
            self.space, self.domain, order + any(term.slope.any() for term in self.terms.values())
        )
        self._start = [
            projected(self.ruler.broken, entries, float(model.times[0]))
            for entries in (self.initial, self.velocity)
        ]
        self._factual: tuple[Trajectory, PathBound] | None = None
        self._sources: dict[tuple[tuple[sp.Expr, ...], bool], Source] = {}
        self.paths = 0
        self.seconds = time.perf_counter() - start

    @cached_property
    def majorant(self) -> Majorant:
        """Where residuals of the first-order system are measured."""
        return Majorant(self.ruler, self.space, self.domain, self.constrained, self.degree)

    def _dual_degree(self, element: _ElementBase) -> int:
        """The degree of H̃: one more than that of u_h, its derivative has not."""
        return int(element.embedded_superdegree) + 1

    # Hypotheses
    # ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        experiment = self.model.experiment
        if experiment.time is None or self.library.anchor != dt(dt(self.unknown)):
            raise NotCovered(
                "the equation is not one of second order in time with the anchor dt(dt(u))"
            )
        for condition in experiment.boundary:
            if not isinstance(condition, Dirichlet | Tangential) or not is_zero(condition.value):
                raise NotCovered(f"{condition} is not a homogeneous essential condition")

    def _check_walls(self) -> None:
        """Whether exactly the unknowns of the field on the boundary are held; collective."""
        mesh, facet = self.model.discretisation.mesh, self.dim - 1
        mesh.topology.create_connectivity(facet, facet + 1)
        boundary = fem.locate_dofs_topological(self.space, facet, exterior_facets(mesh))
        self.owned = self.space.dofmap.index_map.size_local * self.space.dofmap.index_map_bs
        self.places = self.model.spaces.dofs(self.unknown)[: self.owned]
        self.walls = boundary[boundary < self.owned]
        held = np.intersect1d(self.model.essential.owned, self.places)
        if self.model.comm.allreduce(
            int(not np.array_equal(np.unique(self.places[self.walls]), held))
        ):
            raise NotCovered("the boundary conditions do not cover exactly the whole boundary")

    def _entries(self, value: object) -> tuple[sp.Expr, ...]:
        """The components of initial values or forcing."""
        if isinstance(value, list | tuple):
            value = Vec(*value)
        try:
            expr = as_expr(value)
        except (TypeError, ValueError):
            raise NotCovered(
                "the initial values or the forcing are no expressions in the coordinates"
            ) from None
        if self.components == 1:
            return (expr,)
        return tuple(sp.S.Zero if expr == 0 else component(expr, i) for i in range(self.components))

    # Errors
    # ----------------------------------------------------------------------------------------------

    def path(self, solution: Solution) -> Trajectory:
        """The values and rates of the unknown in a solution."""
        # Columns that lie one after another are handed to PETSc as they are.
        states, rates = (
            np.stack([state[self.places] for state in part], axis=0).T
            for part in (solution.states, solution.velocities or ())
        )
        if self.model.comm.allreduce(int(states[self.walls].any() or rates[self.walls].any())):
            raise NotCovered("a discrete solution does not vanish on the whole boundary")
        return Trajectory(states, rates, self.model.times)

    def _own(self, terms: Mapping[str, WaveOperator]) -> WaveOperator:
        own = sum(terms.values(), start=zero_operator(self.components, self.dim))
        if own.stiffness < 0:
            raise NotCovered("the stiffness is negative, so that the problem has no solution")
        return own

    def _source(self, entries: tuple[sp.Expr, ...], broken: Broken | None = None) -> Source:
        """Data, kept for the next trajectory: most have the same forcing."""
        key = entries, broken is None
        if key not in self._sources:
            self._sources[key] = Source(broken or self.ruler.broken, entries, self.model.times)
        return self._sources[key]

    def _state(self, terms: Terms, path: Trajectory) -> PathBound:
        """The error of a trajectory of the equation with these terms."""
        own = self._own(terms)
        entries = tuple(f + s for f, s in zip(self.forcing, own.source, strict=True))
        measured = self.majorant.measure(terms, path, self._source(entries))
        value, rate = (
            self.ruler.distance(given, computed[:, 0], self.majorant.gradients)
            for given, computed in zip(self._start, (path.states, path.rates), strict=True)
        )
        constant = rate + abs(own.damping) * value
        return self._bound(
            own,
            path,
            measured,
            value,
            constant * np.sqrt(path.steps),
        )

    def _difference(
        self, terms: Terms, name: str, gap: Trajectory, other: Trajectory, error: PathBound
    ) -> PathBound | None:
        """The error of a difference, where the deleted term makes something of the error of
        `other` that is bounded.
        """
        term, own = terms[name], self._own(terms)
        if term.stiffness:
            return None
        measured = self._measured_difference(terms, name, gap, other, error)
        root = np.sqrt(gap.steps)
        start, rate = (
            float(self.ruler.sizes(columns[:, :1])[0]) for columns in (gap.states, gap.rates)
        )
        sources = abs(term.damping) * (error.plain + root * error.start)
        sources = sources + root * abs(term.mass) * np.cumsum(root * error.plain)
        sources = sources + root * term.size(self.domain.hull) * np.cumsum(root * error.steps)
        return self._bound(
            own, gap, measured, start, sources + root * (rate + abs(own.damping) * start)
        )

    def _measured_difference(
        self, terms: Terms, name: str, gap: Trajectory, other: Trajectory, error: PathBound
    ) -> WaveResiduals:
        """The residual of a difference, by linearity unless too many digits cancel or too
        many numbers had to be kept.
        """
        source, ours, theirs = (
            self._source(terms[name].source),
            self.factual[1].measured,
            error.measured,
        )
        if ours and theirs and ours.parts and theirs.parts and not self._cancelled(gap):
            return self.majorant.difference(ours, theirs, gap, source, self._own(terms).stiffness)
        return self.majorant.measure(
            terms, gap, source, (name, terms[name], other), self._shared(gap, error)
        )

    def _cancelled(self, gap: Trajectory) -> bool:
        """Whether a difference is too small for what is known by linearity; collective."""
        small, large = (
            float(self.ruler.sizes(columns).max())
            for columns in (gap.states, self.factual[0].states)
        )
        return small < CANCELLED * large

    def _shared(self, gap: Trajectory, error: PathBound) -> tuple[np.ndarray, ...] | None:
        """What is solved for in a difference, by linearity, unless too many digits cancel."""
        if self._cancelled(gap):
            return None
        return tuple(
            ours - theirs for ours, theirs in zip(self.factual[1].fields, error.fields, strict=True)
        )

    def _bound(
        self,
        own: WaveOperator,
        path: Trajectory,
        measured: WaveResiduals,
        start: float,
        sources: np.ndarray,
    ) -> PathBound:
        """From residuals to errors; `sources` are further sources in L2 of each step."""
        root, skew = np.sqrt(path.steps), own.size(self.domain.hull)
        first, last = measured.gradient[:-1], measured.gradient[1:]
        linear = np.sqrt(path.steps * (first**2 + first * last + last**2) / 3)
        bump = np.sqrt(path.steps**5 / 120) * measured.slope
        gradient = linear + bump if self.constrained else np.zeros_like(linear)
        total = (
            measured.residual
            + sources
            + root * np.cumsum(root * (measured.missed + skew * gradient))
        )
        steps = self._smallest_steps(own, path.steps, start, total, measured.residual, skew)
        value = math.hypot(np.linalg.norm(steps) + np.linalg.norm(bump), np.linalg.norm(linear))
        parts = {
            "residual": float(np.linalg.norm(measured.residual)),
            "gradient part": float(np.linalg.norm(linear)),
            "initial error": start,
        }
        return PathBound(
            float(value),
            np.hypot(steps, gradient),
            steps,
            start,
            parts,
            fields=measured.fields,
            measured=measured,
        )

    def _smallest_steps(
        self,
        own: WaveOperator,
        lengths: np.ndarray,
        start: float,
        sources: np.ndarray,
        residual: np.ndarray,
        skew: float,
    ) -> np.ndarray:
        """Bounds of N on each step. A negative mass is a source −m∫e; for a scalar it is also
        controlled by the stiffness: αD∫e = −h − ∫r₂, so −m(∫e, e) ≤ −m (αλ₁)^{−1/2} (N²/2 +
        N∫‖r₂‖α^{−1/2})."""
        growth, negative, root = max(0.0, -own.damping), max(0.0, -own.mass), np.sqrt(lengths)
        _, steps = evolve(start, sources, lengths, growth, skew + negative)
        if negative and self.components == 1 and own.stiffness:
            share = negative / math.sqrt(own.stiffness * self.domain.eigenvalue)
            _, other = evolve(
                start,
                sources + root * share * np.cumsum(root * residual),
                lengths,
                growth + share / 2,
                skew,
            )
            steps = min(steps, other, key=np.linalg.norm)
        return steps

    # Certificates
    # ----------------------------------------------------------------------------------------------

    def _terms(self, coefficients: Mapping[str, float]) -> Terms:
        """The operators of the terms with other coefficients."""
        changed = {
            name: alpha
            for name, alpha in coefficients.items()
            if alpha != self.model.coefficients[name]
        }
        kept = {name: term for name, term in self.terms.items() if name not in changed}
        return {**kept, **term_operators(self.library, changed, self.dim, self.constrained)}

    def _certified(self, solution: Solution) -> tuple[Trajectory, PathBound]:
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the initial or boundary values, or the "
                "constraint"
            )
        path = self.path(solution)
        self.paths += 1
        return path, self._state(
            self._terms(change.apply(self.model.coefficients)) if change.changes else self.terms,
            path,
        )

    @property
    def factual(self) -> tuple[Trajectory, PathBound]:
        """The factual trajectory and its error."""
        if self._factual is None:
            self._factual = self._certified(self.model.factual)
        return self._factual

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with deleted terms."""
        self._check_norm(norm)
        start = time.perf_counter()
        _, bound = self._certified(solution)
        self.seconds += time.perf_counter() - start
        text, formula = (
            f"‖u − u_h‖ ≤ {bound.value:.4g}",
            rf"\|u-u_h\|_{{L^2(0,T;L^2)}} \leq {bound.value:.4g}",
        )
        return self._certificate(self._finite(bound.value), text, formula, bound.parts)

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        self._check_norm(norm)
        model = self.model
        factual, deleted = model.factual, deleted or model.solve(delete(name))
        start = time.perf_counter()
        path, bound = self.factual
        other, error = self._certified(deleted)
        gap = path - other
        size = self.ruler.norm(gap)
        direct = math.inf
        if name in self.terms and self._vanishes(self.terms[name]):
            direct = size
        elif name in self.terms:
            found = self._difference(self.terms, name, gap, other, error)
            direct = math.inf if found is None else found.value
        score = factual.distance(deleted)
        margin = self._finite(min(direct, bound.value + error.value) + abs(score - size))
        self.seconds += time.perf_counter() - start
        named = {"η_factual": bound.value, "η_counterfactual": error.value, "η_difference": direct}
        certificate = self._certificate(
            margin, *inequality_of_score(score, margin, abs(score - size)), named
        )
        return DeletionBound(name, score, bound.value, error.value, direct, margin, certificate)

    def _vanishes(self, term: WaveOperator) -> bool:
        plain = (term.stiffness, term.damping, term.mass, *term.source)
        return not any(value != 0 for value in plain) and not term.skewed

    def _check_norm(self, norm: str) -> None:
        if norm != "L2":
            raise NotCovered(
                f"there is no certificate for equations of second order in time in the norm {norm}"
            )

    def _finite(self, value: float) -> float:
        if not math.isfinite(value):
            raise NotCovered("the solution may grow too much for a finite bound")
        return value

    def _certificate(
        self, value: float, text: str, formula: str, named: Mapping[str, float]
    ) -> Certificate:
        own = self._own(self.terms)
        constants = {
            "α": own.stiffness,
            "σ": own.damping,
            "m": own.mass,
            "‖S‖": own.size(self.domain.hull),
        }
        return Certificate(
            value=value,
            kind=ESTIMATED
            if any(sources.blind for sources in self._data_sources())
            else GUARANTEED,
            norm="L2",
            inequality=text,
            formula=formula,
            hypotheses=(
                *self._hypotheses(),
                *dict.fromkeys(sources.evidence for sources in self._data_sources()),
            ),
            constants={**named, **constants},
            cost={"certified trajectories": self.paths, "seconds": self.seconds},
            method=self.method,
        )

    def _data_sources(self) -> list[Sources]:
        """Where data are looked at."""
        return [self.ruler.broken.sources]

    @abstractmethod
    def _hypotheses(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a statement and how it was checked."""

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.ruler.destroy()
        if "majorant" in self.__dict__:
            self.majorant.destroy()
