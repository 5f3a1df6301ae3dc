# SPDX-License-Identifier: MIT
"""Error bars of what a deletion does to an observable, and values corrected by the adjoint.

For a linear observable J(u) = ∫ ψ u and −a Δu + b·∇u + c u = f with u = 0 on the boundary, the adjoint
−a Δz − b·∇z + (c − div b) z = ψ gives J(u) − J(u_h) = R(z), R the residual of u_h. With z_h computed in one degree more,

    |J(u) − (J(u_h) + R(z_h))| = |R(z − z_h)| ≤ η_R ‖∇(z − z_h)‖ + ‖r_h‖ ‖z − z_h‖,

a product of two guaranteed bounds that falls twice as fast as either. Elsewhere a linear observable over the window, or of a steady
field, is at most ‖ψ‖ times the error of the field away; and where no theorem applies, three levels give an estimate.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem._compat import form
from cffem.bounds.certificate import ESTIMATED, GUARANTEED, Certificate, NoCertificate, NotCovered
from cffem.bounds.deletions import certify_deletion, estimates_of
from cffem.bounds.levels import Gaps, Levels
from cffem.bounds.problem import Operator, equation_operator
from cffem.bounds.refined import TIME
from cffem.bounds.steady import SteadyCertifier
from cffem.bounds.surrogate import squared_integral
from cffem.engine.boundary import Dirichlet
from cffem.engine.linear import SolveError
from cffem.engine.model import Model
from cffem.forms.lowering import Lowering
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Field, ScalarField
from cffem.symbols.interventions import delete
from cffem.symbols.library import Library
from cffem.symbols.operators import lap

# Numbers may agree by accident where fields cannot: a second gap below this share of the first is not relied on.
ACCIDENT = 1 / 8


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
    model: Any, observable: Any, names: Iterable[str] | None = None, budget: float = 5e5, solutions: Mapping[str, Any] | None = None
) -> dict[str, ObservableMargin | NoCertificate]:
    """Error bars of the effect of deletions on an observable; collective.

    Args:
        model: the model.
        observable: the observable.
        names: the terms, by default all with a nonzero coefficient.
        budget: the largest number of unknowns times time steps that a three-level estimate may take.
        solutions: deleted solutions that are known already, by term.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
        >>> experiment = cf.Experiment(mesh=create_unit_square(MPI.COMM_SELF, 8, 8), elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
        >>> found = certify_observable(cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment), cf.Integral(u), ["u"])["u"]
        >>> found.certificate.kind, found.margin < 0.3 * found.score
        ('guaranteed', True)
    """
    wanted = model.active if names is None else tuple(names)
    route = _Observed(model, observable, budget)
    found: dict[str, ObservableMargin | NoCertificate] = {}
    for name in wanted:
        delete(name).apply(model.coefficients)
        try:
            deleted = (solutions or {}).get(name) or model.solve(delete(name))
            found[name] = route.margin(name, deleted)
        except (NotCovered, SolveError) as reason:
            found[name] = NoCertificate(f"without {name}: {reason}")
    route.destroy()
    return found


def density(observable: Any, unknown: Any, scale: float) -> sp.Expr:
    """ψ of a linear observable ∫ ψ u of one scalar.

    Raises:
        NotCovered: it is of another kind.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> density(cf.Integral(cf.x * u), u, 2.0)
        2.0*x
    """
    integrand = sp.expand(observable.weight * observable.integrand)
    if observable.on not in (None, "domain"):
        raise NotCovered("the observable does not live on the whole domain")
    weight = sp.diff(integrand, unknown)
    if weight.atoms(Field, sp.Derivative) or sp.expand(integrand - weight * unknown) != 0 or weight.free_symbols - {*SPACE}:
        raise NotCovered("the observable is not an integral of the field itself with a weight")
    return scale * weight


class _Observed:
    """The ways to a margin, tried from the best to the weakest."""

    def __init__(self, model: Any, observable: Any, budget: float):
        self.model, self.observable, self.budget = model, observable, budget
        self.measurement = model.measurement(observable)
        self.value = self.measurement.value(model.factual)
        self._dual: DualWeighted | NoCertificate | None = None

    @property
    def dual(self) -> DualWeighted | NoCertificate:
        if self._dual is None:
            try:
                self._dual = DualWeighted(self.model, self.observable, self.measurement.scale)
            except NotCovered as reason:
                self._dual = NoCertificate(str(reason))
        return self._dual

    def margin(self, name: str, deleted: Any) -> ObservableMargin:
        score = abs(self.value - self.measurement.value(deleted))
        reasons = []
        for way in (self._by_adjoint, self._by_field, self._by_levels):
            try:
                return way(name, deleted, score)
            except (NotCovered, SolveError) as reason:
                reasons.append(str(reason))
        raise NotCovered("; ".join(reasons))

    def _by_adjoint(self, name: str, deleted: Any, score: float) -> ObservableMargin:
        if isinstance(self.dual, NoCertificate):
            raise NotCovered(self.dual.reason)
        first, second = self.dual.corrected(self.model.factual), self.dual.corrected(deleted)
        corrected = abs(first.value - second.value)
        rest = first.bound + second.bound
        margin = abs(corrected - score) + rest
        return ObservableMargin(name, score, corrected, margin, self.dual.certificate(margin, score, corrected, rest))

    def _by_field(self, name: str, deleted: Any, score: float) -> ObservableMargin:
        """|J(d) − J(d_h)| ≤ ‖ψ‖ ‖d − d_h‖."""
        steady = self.model.experiment.time is None
        if len(self.model.discretisation.unknowns) != 1 or not (steady or self.observable.at == "window"):
            raise NotCovered("the error of a field over the window says nothing about an observable at one time")
        weight = density(self.observable, self.model.discretisation.unknowns[0], self.measurement.scale)
        bound = certify_deletion(self.model, name, "L2", deleted)
        if isinstance(bound, NoCertificate):
            raise NotCovered(bound.reason)
        length = 1.0 if steady else float(self.model.times[-1] - self.model.times[0])
        size = math.sqrt(squared_integral(self.model, [weight], None) * (1 / length if self.observable.normalised else length))
        error = min(bound.difference, bound.eta_factual + bound.eta_counterfactual)
        margin = size * error
        certificate = dataclasses.replace(
            bound.certificate,
            value=margin,
            norm="observable",
            inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≤ ‖ψ‖ ‖(u − u_j) − (u_h − u_jh)‖ ≤ {size:.4g} · {error:.4g}",
            formula=rf"\bigl|\,|O(u)-O(u_j)| - |O(u_h)-O(u_{{jh}})|\,\bigr| \leq \|\psi\|\,\eta_{{\mathrm d}} = {margin:.4g}",
            constants={"‖ψ‖": size, **bound.certificate.constants},
            method=f"Cauchy–Schwarz, {bound.certificate.method}",
        )
        return ObservableMargin(name, score, score, margin, certificate)

    def _by_levels(self, name: str, deleted: Any, score: float) -> ObservableMargin:
        """Three levels of the effect itself."""
        reasons = []
        for way, certifier in estimates_of(self.model, self.budget).certifiers():
            if isinstance(certifier, NoCertificate):
                reasons.append(certifier.reason)
                continue
            models = [self.model, *certifier.models]
            factual = [model.measurement(self.observable).value(model.factual) for model in models]
            solutions, _ = certifier.deleted_solutions(delete(name), deleted, accuracy=0.0)
            others = [m.measurement(self.observable).value(solution) for m, solution in zip(models, solutions, strict=True)]
            effects = [a - b for a, b in zip(factual, others, strict=True)]
            found = scalar_levels(effects, way, max(map(abs, factual)))
            if math.isfinite(found.shift):
                return ObservableMargin(name, score, found.combined, found.shift, _estimated(found, way, score))
            reasons.append(f"saturation was not observed: σ is {', '.join(map(str, found.gaps))}")
        raise NotCovered("; ".join(reasons))

    def destroy(self) -> None:
        if isinstance(self._dual, DualWeighted):
            self._dual.destroy()


def scalar_levels(effects: list[float], way: str, scale: float) -> Levels:
    """What the levels say about a number: the given one, two in space and, for transient problems, two in time.

    Example:
        >>> found = scalar_levels([1.0, 1.08, 1.1], "mesh", 1.0)
        >>> round(found.combined, 3), round(found.rest, 3)
        (1.1, 0.01)
    """
    triples = [(way, effects[:3])] + ([(TIME, [effects[0], *effects[3:]])] if len(effects) > 3 else [])
    gaps = []
    for kind, (low, middle, high) in triples:
        first, second = abs(low - middle), abs(middle - high)
        gaps.append(Gaps(kind, first, max(second, ACCIDENT * first), abs(low - high), 1e-10 * scale))
    combined = effects[2] + (effects[4] - effects[0] if len(effects) > 3 else 0.0)
    return Levels(tuple(gaps), abs(effects[0]), abs(combined))


def _estimated(found: Levels, way: str, score: float) -> Certificate:
    return Certificate(
        value=found.shift,
        kind=ESTIMATED,
        norm="observable",
        inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≲ |Δ* − Δ_h| + ρ = {found.shift:.4g}",
        formula=rf"\bigl|\,|O(u)-O(u_j)| - \Delta_h\,\bigr| \lesssim |\Delta^*-\Delta_h| + \rho = {found.shift:.4g}",
        hypotheses=(
            ("the gaps between further levels shrink at least as fast as those measured", "three levels: evidence, no proof"),
            ("saturation of the effect on the observable", f"measured: {', '.join(map(str, found.gaps))}"),
        ),
        constants={"ρ": found.rest, "Δ*": found.combined},
        method=f"three levels of the observable by the {way}",
    )


@dataclass(frozen=True)
class Corrected:
    """A corrected value of an observable and the bound of its error."""

    value: float
    bound: float


class DualWeighted:
    """Adjoint-corrected values of a linear observable in the steady class, with guaranteed bounds of their errors.

    Args:
        model: the model.
        observable: the observable.
        scale: what its integral is multiplied by.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Any, observable: Any, scale: float):
        if model.experiment.time is not None:
            raise NotCovered("the problem depends on time")
        self.model, self.primal = model, SteadyCertifier(model)
        self.weight = density(observable, self.primal.unknown, scale)
        self._known: dict[tuple[tuple[str, float], ...], Corrected] = {}
        self._adjoints: list[tuple[Any, Any]] = []

    def corrected(self, solution: Any) -> Corrected:
        """J(u_h) + R(z_h) and the bound of what is missing to J(u); collective."""
        coefficients = solution.intervention.apply(self.model.coefficients)
        key = tuple(sorted(coefficients.items()))
        if key not in self._known:
            self._known[key] = self._corrected(coefficients, solution.function())
        return self._known[key]

    def _corrected(self, coefficients: Mapping[str, float], function: Any) -> Corrected:
        operator = equation_operator(self.model.library, coefficients, self.primal.domain.dim)
        owned = function.x.array[: self.model.spaces.owned]
        error = self.primal.state(coefficients, owned)
        adjoint = self._adjoint(operator)
        dual = SteadyCertifier(adjoint)
        self._adjoints.append((adjoint, dual))
        z, distance = adjoint.factual.function(), dual.factual
        value, change = self._values(operator, function, z)
        rest = error.residual.algebraic + error.residual.unseen
        bound = error.residual.dual * distance.gradient + rest * distance.value
        bound += error.residual.unseen * dual.size([adjoint.factual.states[0]], "L2")
        bound += distance.residual.unseen * self.primal.size([owned], "L2")
        return Corrected(value + change, bound)

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
            forcing={z: self.weight},
        )
        return Model(Library(terms={"adjoint": terms}, unknown=z), {"adjoint": 1.0}, experiment, self.model.petsc_options)

    def _values(self, operator: Operator, u: Any, z: Any) -> tuple[float, float]:
        """J(u_h) and R(z_h), by the symbolic equation and not by the assembled one."""
        domain, low = self.model.discretisation.mesh, Lowering(self.model.discretisation.context)
        place = ufl.SpatialCoordinate(domain)
        advection = ufl.as_vector(operator.shift.tolist()) + ufl.dot(ufl.as_matrix(operator.slope.tolist()), place)
        source = low(sp.sympify(self.primal.forcing - operator.source))
        dx = ufl.dx(domain=domain, metadata={"quadrature_degree": self.primal.equilibration.quadrature})
        lower = source - ufl.dot(advection, ufl.grad(u)) - operator.reaction * u
        residual = lower * z * dx - operator.diffusion * ufl.inner(ufl.grad(u), ufl.grad(z)) * dx
        found = [fem.assemble_scalar(form(part, self.model.comm)) for part in (low(self.weight) * u * dx, residual)]
        value, change = self.model.comm.allreduce(np.array(found))
        return float(value), float(change)

    def certificate(self, margin: float, score: float, corrected: float, rest: float) -> Certificate:
        """What a margin states."""
        return Certificate(
            value=margin,
            kind=GUARANTEED,
            norm="observable",
            inequality=f"||O(u) − O(u_j)| − {score:.4g}| ≤ |{corrected:.4g} − {score:.4g}| + Σ η_R ‖∇(z − z_h)‖ = {margin:.4g}",
            formula=rf"\bigl|\,|O(u)-O(u_j)| - \Delta_h\,\bigr| \leq |\Delta^*-\Delta_h| "
            rf"+ \sum \eta_R \|\nabla(z-z_h)\| = {abs(corrected - score):.4g} + {rest:.4g}",
            hypotheses=(
                ("the observable is ∫ ψ u with ψ ∈ L2", "read off its expression"),
                *self.primal.solution(self.model.factual).hypotheses,
            ),
            constants={"corrected effect": corrected, "dual-weighted bound": rest},
            cost={"adjoint solves": float(len(self._adjoints))},
            method="dual-weighted residual, adjoint of one degree more, equilibrated fluxes",
        )

    def destroy(self) -> None:
        """Free all that was made here; collective."""
        for model, certifier in self._adjoints:
            certifier.destroy()
            model.destroy()
        self.primal.destroy()
