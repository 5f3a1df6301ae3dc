# SPDX-License-Identifier: MIT
"""Error bars of what a deletion does to an observable, and values corrected by the adjoint.

For a linear observable J(u) = ∫ ψ u and −a Δu + b·∇u + c u = f with u = 0 on the boundary, the
adjoint −a Δz − b·∇z + (c − div b) z = ψ gives J(u) − J(u_h) = R(z), R the residual of u_h. With z_h
computed in one degree more,

    |J(u) − (J(u_h) + R(z_h))| = |R(z − z_h)| ≤ η_R ‖∇(z − z_h)‖ + ‖r_h‖ ‖z − z_h‖,

a product of two guaranteed bounds that falls twice as fast as either. Elsewhere a linear observable
is at most ‖ψ‖ times the error of the field away, over the window or at one time; and where no
theorem applies, three levels give an estimate. The integrals themselves, whose weights may jump or
be narrow, come with bounds of their quadrature errors (`weights`), in every margin.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.bounds.certificate import ESTIMATED, Certificate, NoCertificate, NotCovered
from cffem.bounds.curves import SAFETY, curved_certificate, has_curve, twin_of
from cffem.bounds.dual_weighted import DualWeighted, evidence
from cffem.bounds.enclosed.weights import (
    Enclosed,
    LinearObservable,
)
from cffem.bounds.entrance import certifier, certify_deletion, estimates_of
from cffem.bounds.evolving.evolving_bounds import VariableParabolicCertifier
from cffem.bounds.levels.ladders import TIME
from cffem.bounds.levels.three_levels import Gaps, Levels
from cffem.bounds.parabolic.ends import deletion_at
from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
from cffem.bounds.refits import deleted_term
from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import Intervention, delete

if TYPE_CHECKING:
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.observables import Observable


# Numbers may agree by accident where fields cannot: a second gap below this share of the first is
# not relied on.
ACCIDENT = 1 / 8
# A guaranteed margin at one time that is no larger than this share of the effect is preferred to an
# estimate.
ENOUGH = 0.5


@dataclass(frozen=True)
class ObservableMargin:
    """How far the computed effect of a deletion on an observable can be from the true one.

    Attributes:
        term: the deleted term.
        score: |O(u_h) − O(u_jh)|.
        corrected: the same with the values corrected by the adjoint or by finer levels.
        margin: bound of the distance of `score` from |O(u) − O(u_j)|.
        certificate: what the margin states and why.
    """

    term: str
    score: float
    corrected: float
    margin: float
    certificate: Certificate


def certify_observable(
    model: Model,
    observable: Observable,
    names: Iterable[str] | None = None,
    budget: float = 5e5,
    solutions: Mapping[str, Solution] | None = None,
) -> dict[str, ObservableMargin | NoCertificate]:
    """Error bars of the effect of deletions on an observable; collective.

    Args:
        model: the model.
        observable: the observable.
        names: the terms, by default all with a nonzero coefficient; or names of other
            interventions, whose solutions are given.
        budget: the largest number of unknowns times time steps that a three-level estimate may
            take.
        solutions: deleted solutions that are known already, by term.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 8, 8),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 1},
        ... )
        >>> found = certify_observable(
        ...     cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment), cf.Integral(u), ["u"]
        ... )["u"]
        >>> found.certificate.kind, found.margin < 0.3 * found.score
        ('guaranteed', True)
    """
    wanted = model.active if names is None else tuple(names)
    route = _Observed(model, observable, budget)
    found: dict[str, ObservableMargin | NoCertificate] = {}
    for name in wanted:
        if name not in (solutions or {}):
            delete(name).apply(model.coefficients)
        try:
            deleted = (solutions or {}).get(name) or model.solve(delete(name))
            found[name] = _with_curve(
                model, observable, route.margin(name, deleted), deleted.intervention
            )
        except (NotCovered, SolveError) as reason:
            found[name] = NoCertificate(f"without {name}: {reason}")
    route.destroy()
    return found


def _with_curve(
    model: Model, observable: Observable, found: ObservableMargin, change: Intervention
) -> ObservableMargin:
    """A margin that also covers the gap between straight cells and the curve that they stand
    for.
    """
    if not has_curve(model):
        return found
    twin = twin_of(model)
    measurement = twin.model.measurement(observable)
    values = [measurement.value(twin.solution(solved)) for solved in (Intervention(), change)]
    gap = SAFETY * abs(abs(values[0] - values[1]) - found.score)
    return dataclasses.replace(
        found, margin=found.margin + gap, certificate=curved_certificate(found.certificate, gap)
    )


class _Observed:
    """The ways to a margin, tried from the best to the weakest."""

    def __init__(self, model: Model, observable: Observable, budget: float):
        self.model, self.observable, self.budget = model, observable, budget
        self.measurement = model.measurement(observable)
        self.value = self.measurement.value(model.factual)
        self._dual: DualWeighted | NoCertificate | None = None
        self._integrals: dict[Hashable, LinearObservable | None] = {}

    @property
    def dual(self) -> DualWeighted | NoCertificate:
        if self._dual is None:
            try:
                self._dual = DualWeighted(self.model, self.linear())
            except NotCovered as reason:
                self._dual = NoCertificate(str(reason))
        return self._dual

    def linear(self) -> LinearObservable:
        """The observable as an integral with a bound of its error.

        Raises:
            NotCovered: it is not linear, or not of the only scalar unknown.
        """
        if self.model not in self._integrals:
            self._integrals[self.model] = LinearObservable(
                self.model, self.observable, self.measurement.nodes
            )
        found = self._integrals[self.model]
        if found is None:
            raise NotCovered("the observable is not linear, or not of the only scalar unknown")
        return found

    def margin(self, name: str, deleted: Solution) -> ObservableMargin:
        score = abs(self.value - self.measurement.value(deleted))
        reasons: list[str] = []
        wide: ObservableMargin | None = None
        # Theorems here are about the deletion of one term; levels are about any two solutions.
        ways = (self._by_adjoint, self._by_field, self._at_a_time, self._by_levels)
        for way in ways if deleted_term(deleted.intervention) == name else (self._by_levels,):
            try:
                found = way(name, deleted, score)
            except (NotCovered, SolveError) as reason:
                reasons.append(str(reason))
                continue
            if found.margin <= self._enough(way, score):
                return found
            if wide is None or found.margin < wide.margin:
                wide = found
        if wide is not None:
            return wide
        raise NotCovered("; ".join(reasons))

    def _enough(self, way: Callable[..., ObservableMargin], score: float) -> float:
        """The margin up to which no further way is tried.

        A bound at one time gains no power of h; where it says little, levels say more. So they do
        where the error of the field allows more than the observable itself.
        """
        if way == self._at_a_time:
            return ENOUGH * score
        return max(abs(self.value), score) if way == self._by_field else math.inf

    def _by_adjoint(self, name: str, deleted: Solution, score: float) -> ObservableMargin:
        if isinstance(self.dual, NoCertificate):
            raise NotCovered(self.dual.reason)
        first, second = self.dual.corrected(self.model.factual), self.dual.corrected(deleted)
        effect = self.linear().scaled(
            Enclosed(first.value - second.value, first.radius + second.radius)
        )
        corrected, rest = abs(effect.value), effect.radius
        margin = abs(corrected - score) + rest
        return ObservableMargin(
            name, score, corrected, margin, self.dual.certificate(margin, score, corrected, rest)
        )

    def _by_field(self, name: str, deleted: Solution, score: float) -> ObservableMargin:
        """|J(d) − J(d_h)| ≤ ‖ψ‖ ‖d − d_h‖."""
        steady = self.model.experiment.time is None
        if not (steady or self.observable.at == "window"):
            raise NotCovered(
                "the error of a field over the window says nothing about an observable at one time"
            )
        linear = self.linear()
        bound = certify_deletion(self.model, name, "L2", deleted)
        if isinstance(bound, NoCertificate):
            raise NotCovered(bound.reason)
        length = 1.0 if steady else float(self.model.times[-1] - self.model.times[0])
        size = linear.size * math.sqrt(1 / length if self.observable.normalised else length)
        error = min(bound.difference, bound.eta_factual + bound.eta_counterfactual)
        return self._bounded(name, deleted, score, (size, error), bound.certificate)

    def _at_a_time(self, name: str, deleted: Solution, score: float) -> ObservableMargin:
        """The same with the error of the field at a time."""
        linear, certified = self.linear(), certifier(self.model)
        if isinstance(certified, NoCertificate):
            raise NotCovered(certified.reason)
        if not isinstance(certified, ParabolicCertifier | VariableParabolicCertifier):
            raise NotCovered("errors at one time are bounded for parabolic problems only")
        (share, level, fraction), *others = self.measurement.nodes
        if others or share != 1:
            raise NotCovered("the observable is not one at a single time")
        last = level + (fraction > 0)
        found = (
            deletion_at(certified, name, deleted, last).smallest
            if isinstance(certified, ParabolicCertifier)
            else certified.deletion_at(name, deleted, last)
        )
        if not math.isfinite(found):
            raise NotCovered("the solution may grow too much for a finite bound")
        kept = certified.solution(self.model.factual)
        certificate = dataclasses.replace(
            kept, method="energy estimate at one time, equilibrated fluxes"
        )
        return self._bounded(name, deleted, score, (linear.size, found), certificate)

    def _bounded(
        self,
        name: str,
        deleted: Solution,
        score: float,
        parts: tuple[float, float],
        certificate: Certificate,
    ) -> ObservableMargin:
        """The margin from ‖ψ‖ and the error of the field, with what quadrature makes of the
        observable itself.
        """
        linear, (size, error) = self.linear(), parts
        effect = linear.effect(self.model.factual, deleted)
        own = abs(abs(effect.value) - score) + effect.radius
        margin = size * error + own
        certificate = dataclasses.replace(
            certificate,
            value=margin,
            kind=ESTIMATED if linear.blind else certificate.kind,
            norm="observable",
            inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≤ ‖ψ‖ ‖(u − u_j) − (u_h − u_jh)‖ + q "
            f"≤ {size:.4g} · {error:.4g} + {own:.2g}",
            formula=(
                rf"\bigl|\,|O(u)-O(u_j)| - \Delta_h\,\bigr| \leq \|\psi\|\,\eta_{{\mathrm d}} + q "
                rf"= {margin:.4g}"
            ),
            hypotheses=(*certificate.hypotheses, evidence(linear)),
            constants={"‖ψ‖": size, "quadrature of the observable": own, **certificate.constants},
            method=f"Cauchy–Schwarz, {certificate.method}",
        )
        return ObservableMargin(name, score, abs(effect.value), margin, certificate)

    def _by_levels(self, name: str, deleted: Solution, score: float) -> ObservableMargin:
        """Three levels of the effect itself."""
        if any(hasattr(value, "function_space") for value in deleted.intervention.data):
            raise NotCovered("data of the intervention are functions on the mesh")
        reasons = []
        for way, levels in estimates_of(self.model, self.budget).certifiers():
            if isinstance(levels, NoCertificate):
                reasons.append(levels.reason)
                continue
            models = [self.model, *levels.models]
            factual = [model.measurement(self.observable).value(model.factual) for model in models]
            solutions, _ = levels.deleted_solutions(deleted.intervention, deleted, accuracy=0.0)
            pairs = [
                self._effect(m, m.factual, solution)
                for m, solution in zip(models, solutions, strict=True)
            ]
            try:
                fields = levels.field_gaps(solutions, deleted.intervention)
            except NotCovered as reason:
                reasons.append(str(reason))
                continue
            shrinking = [0.0 if gaps.rounded else gaps.saturation for gaps in fields]
            orders = [gaps.order for gaps in fields]
            found = scalar_levels(
                [pair.value for pair in pairs], way, max(map(abs, factual)), shrinking, orders
            )
            # What the integrals on levels may be off by, and the computed effect from that of exact
            # integrals.
            own = abs(abs(pairs[0].value) - score) + sum(pair.radius for pair in pairs)
            if math.isfinite(found.shift):
                return ObservableMargin(
                    name,
                    score,
                    found.combined,
                    found.shift + own,
                    _estimated(found, way, score, own),
                )
            reasons.append(f"saturation was not observed: σ is {', '.join(map(str, found.gaps))}")
        raise NotCovered("; ".join(reasons))

    def _effect(self, model: Model, first: Solution, second: Solution) -> Enclosed:
        """The effect on a level, with a bound of its quadrature error where the observable is
        linear.
        """
        if model not in self._integrals:
            try:
                nodes = model.measurement(self.observable).nodes
                self._integrals[model] = LinearObservable(model, self.observable, nodes)
            except NotCovered:
                self._integrals[model] = None
        linear = self._integrals[model]
        if linear is not None:
            return linear.effect(first, second)
        measurement = model.measurement(self.observable)
        return Enclosed(measurement.value(first) - measurement.value(second), 0.0)

    def destroy(self) -> None:
        if isinstance(self._dual, DualWeighted):
            self._dual.destroy()


def scalar_levels(
    effects: list[float],
    way: str,
    scale: float,
    shrinking: Sequence[float] = (),
    orders: Sequence[float] = (),
) -> Levels:
    """What the levels say about a number: the given one, two in space and, for transient problems,
    two in time.

    Args:
        effects: the number on all levels.
        way: by what the levels in space go up.
        scale: what rounding errors are relative to.
        shrinking: σ of the fields behind the number, by ways; it is not taken to converge faster
            than they do.
        orders: those that the data leave, by ways.

    Example:
        >>> found = scalar_levels([1.0, 1.08, 1.1], "mesh", 1.0)
        >>> round(found.combined, 3), round(found.rest, 3)
        (1.1, 0.01)
    """
    triples = [(way, effects[:3])] + (
        [(TIME, [effects[0], *effects[3:]])] if len(effects) > 3 else []
    )
    gaps = []
    for place, (kind, (low, middle, high)) in enumerate(triples):
        first, second = abs(low - middle), abs(middle - high)
        least = max([ACCIDENT, *shrinking[place : place + 1]])
        order = min([math.inf, *orders[place : place + 1]])
        gaps.append(
            Gaps(
                kind, first, max(second, least * first), abs(low - high), 1e-10 * scale, order=order
            )
        )
    combined = effects[2] + (effects[4] - effects[0] if len(effects) > 3 else 0.0)
    return Levels(tuple(gaps), abs(effects[0]), abs(combined))


def _estimated(found: Levels, way: str, score: float, own: float) -> Certificate:
    margin = found.shift + own
    return Certificate(
        value=margin,
        kind=ESTIMATED,
        norm="observable",
        inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≲ |Δ* − Δ_h| + ρ + q = {margin:.4g}",
        formula=(
            r"\bigl|\,|O(u)-O(u_j)| - \Delta_h\,\bigr| \lesssim |\Delta^*-\Delta_h| + \rho + q = "
            rf"{margin:.4g}"
        ),
        hypotheses=(
            (
                "the gaps between further levels shrink at least as fast as those measured",
                "three levels: evidence, no proof",
            ),
            (
                "saturation of the effect on the observable, no faster than that of the fields",
                f"measured: {', '.join(map(str, found.gaps))}",
            ),
        ),
        constants={"ρ": found.rest, "Δ*": found.combined, "quadrature of the observable": own},
        method=f"three levels of the observable by the {way}",
    )
