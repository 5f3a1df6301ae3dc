# SPDX-License-Identifier: MIT
"""The two theorems on what a deletion does, checked on a model.

With g_j = α_j T_j[u], the residual–counterfactual gap theorem says |‖u_j(ρ) − u‖ − ρ ‖L_u⁻¹ g_j‖| ≤
ρ² M_j/2, and the theorem on the observable's adjoint O(u_j(ρ)) − O(u) = −ρ ⟨φ, g_j⟩ + R, |R| ≤ ρ²/2
‖DO(u)‖ M_j + H_O/2 (ρ ‖L_u⁻¹ g_j‖ + ρ² M_j/2)².

M_j is estimated along the branch, and so is H_O, as the largest |D²O[d, d]|/‖d‖² at and towards the
samples; the results say `estimated`. The norm in the second theorem is that of what the observable
sees: the state at its time, or over the window, so that the terminal value is bounded although the
space–time norm does not control it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.engine.response.deletion_branch import combination, follow
from cffem.engine.response.observable_values import Measurement
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError
from cffem.engine.solve.riesz import Riesz
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.observables import Observable

# Round-off of two solves, relative to the solution.
ROUND_OFF = 1e-11


@dataclass(frozen=True)
class GapCheck:
    """The residual–counterfactual gap along the deletion branch of one term.

    Attributes:
        term, norm: the term and the norm.
        linearised: ‖L_u⁻¹ g_j‖.
        curvature: M_j, estimated along the branch.
        rho: the sampled ρ.
        distances: ‖u_j(ρ) − u‖.
        gaps: |‖u_j(ρ) − u‖ − ρ ‖L_u⁻¹ g_j‖|.
        bounds: ρ² M_j/2.
        holds: whether every gap is within its bound, up to round-off.
        status, reason: "estimated", or "unsolvable" with the reason where the branch ends before ρ
            = 1.
    """

    term: str
    norm: str
    linearised: float
    curvature: float
    rho: tuple[float, ...]
    distances: tuple[float, ...]
    holds: bool
    status: str = "estimated"
    reason: str = ""

    @property
    def gaps(self) -> tuple[float, ...]:
        return tuple(
            abs(d - rho * self.linearised) for rho, d in zip(self.rho, self.distances, strict=True)
        )

    @property
    def bounds(self) -> tuple[float, ...]:
        return tuple(rho**2 * self.curvature / 2 for rho in self.rho)


def gap_check(model: Model, name: str, norm: str = "L2", points: int = 8) -> GapCheck:
    """Check the gap theorem for one term at ρ = 1/points, …, 1; as many solves."""
    factual = model.factual
    rho: list[float] = []
    distances: list[float] = []

    def visit(at: float, solution: Solution) -> None:
        rho.append(at)
        distances.append(solution.distance(factual, norm))

    try:
        branch = follow(model, name, points, lambda trajectory: trajectory.norm(norm), visit)
    except SolveError as error:
        linearised = float(model.linearised(name, norm))
        found = tuple(rho), tuple(distances)
        return GapCheck(
            name,
            norm,
            linearised,
            math.nan,
            *found,
            holds=False,
            status="unsolvable",
            reason=str(error),
        )
    linearised = branch.response.norm(norm)
    check = GapCheck(
        name, norm, linearised, branch.curvature, tuple(rho), tuple(distances), holds=True
    )
    slack = ROUND_OFF * factual.norm(norm)
    holds = all(gap <= bound + slack for gap, bound in zip(check.gaps, check.bounds, strict=True))
    return GapCheck(name, norm, linearised, branch.curvature, check.rho, check.distances, holds)


@dataclass(frozen=True)
class ObservableDeletion:
    """What deleting one term does to an observable.

    Attributes:
        term: the term.
        value: O(u_j) of the deleted problem, nan where it is unsolvable.
        score: Δ_j = |O(u) − O(u_j)|.
        status, reason: "solved", or "unsolvable" with the reason.
    """

    term: str
    value: float
    score: float
    status: str = "solved"
    reason: str = ""


def observable_deletions(
    model: Model, observable: Observable, names: Iterable[str]
) -> dict[str, ObservableDeletion]:
    """Δ_j of an observable by solving every deleted problem; one that cannot be solved is a
    result.
    """
    names = tuple(names)
    for name in names:
        delete(name).apply(
            model.coefficients
        )  # an unknown name is an error before anything is solved
    measurement = model.measurement(observable)
    factual = measurement.value(model.factual)
    found = {}
    for name in names:
        try:
            value = measurement.value(model.solve(delete(name)))
        except SolveError as error:
            found[name] = ObservableDeletion(name, math.nan, math.nan, "unsolvable", str(error))
        else:
            found[name] = ObservableDeletion(name, value, abs(factual - value))
    return found


@dataclass(frozen=True)
class ObservableBound:
    """The observable adjoint theorem for one term at ρ = 1.

    Attributes:
        term: the term.
        change: O(u_j) − O(u) of the deleted problem.
        first_order: −⟨φ, g_j⟩, from the adjoint.
        bound: what |change − first_order| is at most, by the theorem with the constants below.
        derivative_norm, response, curvature, hessian: ‖DO(u)‖, ‖L_u⁻¹ g_j‖, M_j and H_O in the norm
            of what the observable sees.
        holds: whether the remainder is within the bound, up to round-off.
        certificate: "estimated": M_j and H_O are estimated along the branch.
    """

    term: str
    change: float
    first_order: float
    bound: float
    derivative_norm: float
    response: float
    curvature: float
    hessian: float
    holds: bool
    certificate: str = "estimated"

    @property
    def remainder(self) -> float:
        """The part of the change that the adjoint does not see."""
        return self.change - self.first_order


def observable_bound(
    model: Model, observable: Observable, name: str, norm: str = "L2", points: int = 8
) -> ObservableBound:
    """The remainder bound of the adjoint approximation of one deletion, with constants estimated on
    the branch.

    Args:
        model: the model.
        observable: the observable.
        name: the term.
        norm: a norm in which the observable is bounded: L2 for integrals of the field, H1 for its
            gradients and boundary values.
        points: how many problems are solved along the branch.

    Raises:
        SolveError: a problem on the branch, the deleted one included, cannot be solved.
    """
    measurement = model.measurement(observable)
    if not set(observable.fields) <= set(model.discretisation.unknowns):
        raise InputError(
            "the bound needs an observable of the unknown fields; a multiplier has no norm here"
        )
    factual = model.factual

    def size(trajectory: Solution) -> float:
        return seen_norm(measurement, trajectory, norm)

    hessians = [0.0]
    values = [measurement.value(factual)]

    def visit(rho: float, solution: Solution) -> None:
        away = combination((1.0, solution), (-1.0, factual))
        square = size(away) ** 2
        if square > 0:
            directions = [
                measurement.seen(away, level, fraction) for _, level, fraction in measurement.nodes
            ]
            hessians.extend(
                abs(measurement.curvature(at, directions)) / square for at in (factual, solution)
            )
        values.append(measurement.value(solution))

    branch = follow(model, name, points, size, visit)
    derivative, response, hessian = (
        dual_norm(measurement, norm),
        size(branch.response),
        max(hessians),
    )
    bound = derivative * branch.curvature / 2 + hessian / 2 * (response + branch.curvature / 2) ** 2
    change, first = (
        values[-1] - values[0],
        -model.observable_scores(observable, [name]).signed[name],
    )
    holds = abs(change - first) <= bound + ROUND_OFF * max(
        abs(values[0]), derivative * size(factual)
    )
    return ObservableBound(
        name, change, first, bound, derivative, response, branch.curvature, hessian, holds
    )


def seen_norm(measurement: Measurement, trajectory: Solution, kind: str) -> float:
    """(Σ_q |ω_q| ‖u(t_q)‖²)^½ over the nodes of an observable, velocities included where it
    depends on them.
    """
    norm = measurement.model.norm(kind)
    total = 0.0
    for weight, level, fraction in measurement.nodes:
        total += abs(weight) * sum(
            norm.inner(v, v) for v in measurement.seen(trajectory, level, fraction)
        )
    return math.sqrt(max(total, 0.0))


def dual_norm(measurement: Measurement, kind: str) -> float:
    """‖DO(u)‖ at the factual solution, dual to `seen_norm` on directions that vanish where
    values are essential.
    """
    model = measurement.model
    riesz = Riesz(model, kind)
    total = 0.0
    for weight, level, fraction in measurement.nodes:
        gradients = measurement.gradient_at(model.factual, level, fraction)
        total += abs(weight) * sum(riesz.dual_norm(gradient) ** 2 for gradient in gradients)
    riesz.destroy()
    return abs(measurement.scale) * math.sqrt(total)
