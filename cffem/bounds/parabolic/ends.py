# SPDX-License-Identifier: MIT
"""Errors of parabolic problems at one time, by energy: ‖u(T) − u_h(T)‖ for u_t − a Δu + b·∇u + c u
= f.

With Z^n as in `marches`, the residual of the piecewise linear interpolant U is I G + (I Z − D_n) +
(f − I f) on the step that ends at level n, where G^n is orthogonal to V_h and at most g_n ‖∇v‖ on
functions v by its equilibrated flux. Testing with e = u − U and B(e, e) ≥ m ‖∇e‖² gives d/dt ‖e‖² ≤
ρ₁²/(2m) + 2 ρ₂ ‖e‖, hence

    ‖e(T)‖ ≤ (‖e(0)‖² + ∫ ρ₁²/(2m))^{1/2} + ∫ ρ₂

with ρ₁ = I g and ρ₂ = ‖I Z − D_n‖ + ‖f − I f‖. Schemes that do not damp stiff parts leave a rough I
Z − D_n, whose dual norm, by a discrete Poisson problem and its interpolation error, is smaller; it
may be in ρ₁ as well. Where c is negative, u = e^{μt} v has c + μ and the bound of v counts e^{μT}
times. No power of h is gained, other than by the duality of `parabolic`, which does not know single
times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.adjoint_stability import stability
from cffem.bounds.parabolic.marches import March, MarchDifference
from cffem.bounds.scalar_problem import Operator, term_operator
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
    from cffem.engine.solution import Solution


# Growth rates μ that are tried, as multiples of 1/T.
RATES = (0.0, 0.5, 2.0)


@dataclass(frozen=True)
class EndBound:
    """Bounds at one level of time.

    Attributes:
        factual, counterfactual, difference: of u − u_h, of u_j − u_jh and of their difference,
            obtained directly.
    """

    factual: float
    counterfactual: float
    difference: float

    @property
    def smallest(self) -> float:
        """The smaller of both bounds of the difference."""
        return min(self.difference, self.factual + self.counterfactual)


@dataclass(frozen=True)
class _Residuals:
    """What drives the error.

    Attributes:
        times: the levels.
        dual: ρ₁ at the beginning and at the end of each step, shape (steps, 2).
        rough: a bound of the dual norm of I Z − D_n there.
        plain: ‖I Z − D_n‖ there.
        sources: ∫ of the other parts of ρ₂ over each step.
    """

    times: np.ndarray
    dual: np.ndarray
    rough: np.ndarray
    plain: np.ndarray
    sources: np.ndarray

    def bound(
        self,
        operator: Operator,
        speed: float,
        eigenvalue: float,
        start: float,
        more: tuple[float, float],
    ) -> float:
        """The bound at the last level; `more` is added to ρ₁ in L2 of time, and to ρ₂ in L2
        of time.
        """
        length, step = float(self.times[-1] - self.times[0]), np.diff(self.times)
        lacking = max(
            operator.divergence / 2 - operator.reaction - operator.diffusion * eigenvalue, 0.0
        )
        found = [math.inf]
        for mu in {rate / length + shift for rate in RATES for shift in (0.0, lacking)}:
            try:
                constants = stability(
                    replace(operator, reaction=operator.reaction + mu), speed, eigenvalue
                )
            except NotCovered:
                continue
            if mu * length > 300 or not constants.coercivity > 0:
                continue
            weight = np.exp(-mu * (self.times[:-1] - self.times[0]))
            for ends, plain in (
                (self.dual, self.plain.mean(axis=1) * step),
                (self.dual + self.rough, 0.0 * step),
            ):
                first, last = ends.T
                dual = (
                    np.linalg.norm(weight * np.sqrt(step * (first**2 + first * last + last**2) / 3))
                    + more[0]
                )
                sources = (weight * (self.sources + plain)).sum() + math.sqrt(length) * more[1]
                total = math.sqrt(start**2 + float(dual) ** 2 / (2 * constants.coercivity)) + float(
                    sources
                )
                found.append(math.exp(mu * length) * total)
        return min(found)


def _residuals(
    certifier: ParabolicCertifier, march: March | MarchDifference, last: int
) -> _Residuals:
    """Measure a trajectory up to a level; collective."""
    times, equilibration = certifier.model.times[: last + 1], certifier.equilibration
    measured = [equilibration.residual(march.flux(n)) for n in range(last + 1)]
    dual = np.array([residual.dual for residual in measured])
    # What these residuals call algebraic is Z^n itself, which is part of I Z − D_n here.
    unseen = np.array([residual.unseen for residual in measured])
    step = np.diff(times)
    rough, plain = np.zeros((last, 2)), np.zeros((last, 2))
    for n in range(1, last + 1):
        slope = march.state({n: 1 / step[n - 1], n - 1: -1 / step[n - 1]})
        for side in (0, 1):
            rest = march.rate({n - 1 + side: 1.0}) - slope
            plain[n - 1, side] = equilibration.mass_norm(rest)
            rough[n - 1, side] = _dual_norm(certifier, rest, plain[n - 1, side])
    data = equilibration.sources.not_linear(march.source, times)
    sources = step / 2 * (unseen[1:] + unseen[:-1]) + np.sqrt(step) * data
    return _Residuals(times, np.stack([dual[:-1], dual[1:]], axis=1), rough, plain, sources)


def _dual_norm(certifier: ParabolicCertifier, values: np.ndarray, size: float) -> float:
    """A bound of sup (w, v)/‖∇v‖ for a function w of the space and its L2 norm; collective."""
    domain, workshop = certifier.domain, certifier.workshop
    plain, constant = size / math.sqrt(domain.eigenvalue), domain.largest_interpolation
    if constant is None or size == 0:
        return plain
    return min(plain, workshop.gradient_norm(workshop.lift(values)) + constant * size)


def deletion_at(certifier: ParabolicCertifier, name: str, deleted: Solution, last: int) -> EndBound:
    """Bounds of the errors at a level of the factual solution, of one without a term, and of their
    difference; collective.

    Args:
        certifier: the `ParabolicCertifier` of the model.
        name: the deleted term.
        deleted: its solution.
        last: the level.
    """
    model, domain = certifier.model, certifier.domain
    march = certifier.factual[0]
    without = certifier._march(delete(name).apply(model.coefficients), deleted.states)
    own, other = (
        _residuals(certifier, path, last).bound(
            path.operator,
            path.operator.speed(domain.hull),
            domain.eigenvalue,
            certifier._initial(path.states[0]),
            (0.0, 0.0),
        )
        for path in (march, without)
    )
    term = term_operator(certifier.library, name, model.coefficients[name], domain.dim)
    direct = math.inf
    if not term.diffusion:
        # What the term makes of the error of u_j, which is bounded over the whole window.
        error, speed = certifier.state(without)[0], term.speed(domain.hull)
        more = speed * error, abs(term.reaction - term.divergence) * error
        gap = MarchDifference(march, without, term)
        start = certifier.equilibration.mass_norm(gap.state({0: 1.0}))
        operator = march.operator
        direct = _residuals(certifier, gap, last).bound(
            operator, operator.speed(domain.hull), domain.eigenvalue, start, more
        )
    return EndBound(own, other, direct)
