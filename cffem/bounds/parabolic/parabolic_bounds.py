# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for u_t − a Δu + b·∇u + c u = f with u given on the boundary, in L2(0, T;
L2(Ω)), for any time stepping.

Only the values u^n at the time levels matter. Z^n ∈ V_h represents the residual f^n − L u^n on V_h,
so u^n is the Galerkin solution of a Poisson problem whose error is bounded by E_n (`marches`). With
s_n = (Z^n − Z^{n−1})/τ, D_n = (u^n − u^{n−1})/τ and a second divided difference d_n of the values
around the step, on each step either

    U = I u            with residual F = I Z − D_n, or
    U = I u + β d_n with residual F = (Z^n + Z^{n−1})/2 − D_n + (t − t_{n−1/2}) (s_n − d_n) − β L_h
    d_n,

where I is linear interpolation in time and β = (t − t_{n−1})(t − t_n)/2. The backward dual problem
(`stability`) gives, with F̄ the mean of F over a step,

    ‖u − U‖ ≤ Z2 (‖ε‖ + ‖F̄‖_*) + Z0 ‖f − I f‖ + Zt (τ/π) ‖F − F̄‖ + (Z0/2)^{1/2} ‖u(0) − u^0‖,

ε the errors of the Poisson problems and ‖·‖_* a bound of ‖(−aΔ)^{-1} ·‖. No Gronwall factor occurs
where a λ₁ + c − div b/2 > 0; otherwise, or where it is better, u = e^{μt} v is bounded instead,
which multiplies the bound by e^{μT}.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.bounds.certificate import Certificate, DeletionBound, NotCovered, inequality_of_score
from cffem.bounds.elliptic.adjoint_stability import stability
from cffem.bounds.elliptic.steady_bounds import (
    HYPOTHESES,
    Prescribed,
    check_essential,
    check_experiment,
)
from cffem.bounds.flux.equilibrated import FluxEquilibration
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.parabolic.marches import March, MarchDifference, SharedAssembly, Weights
from cffem.bounds.parabolic.spatial import spatial_errors
from cffem.bounds.scalar_problem import (
    Operator,
    equation_operator,
    only_equation,
    term_operator,
)
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# Growth rates μ of the substitution u = e^{μt} v that are tried, as multiples of 1/T.
RATES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
# Residuals in time whose plain bound is this share of the other parts need no sharper one.
NEGLIGIBLE = 0.01
# e^{μT} beyond this exponent is as good as infinite.
LARGEST_EXPONENT = 300.0


@dataclass(frozen=True)
class Steps:
    """What was measured on a trajectory: one number per step, where `spatial` and `unseen` have one
    per level.

    Attributes:
        times: the time levels.
        spatial: E_n.
        bump: the spatial error bound of β d_n.
        means: ‖F̄‖.
        lifted: ‖F̄‖_*.
        rest: ‖F − F̄‖ in L2 of the step.
        extra: ‖β d_n‖ in L2 of the step.
        data: ‖f − I f‖ in L2 of the step.
        unseen: a bound of ‖Π f − p‖ for the projections p of f that were computed.
        initial: ‖u(0) − u^0‖.
    """

    times: np.ndarray
    spatial: np.ndarray
    bump: np.ndarray
    means: np.ndarray
    lifted: np.ndarray
    rest: np.ndarray
    extra: np.ndarray
    data: np.ndarray
    unseen: np.ndarray
    initial: float

    def bound(
        self,
        problem: Operator,
        speed: float,
        eigenvalue: float,
        mu: float,
        error: float = 0.0,
        term: Any = None,
    ) -> float:
        """The bound with the substitution u = e^{μt} v, or infinity where it gives none or none of
        use.

        Args:
            problem, speed, eigenvalue: the operator, max |b| and λ₁.
            mu: μ ≥ 0.
            error: a bound of the error of what a deleted term acts on.
            term: max |n_b| and the operator of that term.
        """
        if mu * (self.times[-1] - self.times[0]) > LARGEST_EXPONENT:
            return math.inf
        try:
            z = stability(replace(problem, reaction=problem.reaction + mu), speed, eigenvalue)
        except NotCovered:
            return math.inf
        step, weight = np.diff(self.times), np.exp(-mu * (self.times[:-1] - self.times[0]))
        first, second = self.spatial[:-1], self.spatial[1:]
        rough = np.sqrt(step * (first**2 + first * second + second**2) / 3) + self.bump
        rest = (z.rate + mu * z.z0) * step / math.pi * self.rest
        data = self.data + np.sqrt(step) * np.maximum(self.unseen[:-1], self.unseen[1:])
        mean = [np.sqrt(step) * part for part in (self.lifted, self.means)]
        spatial, lifted, means, oscillating, given = (
            float(np.linalg.norm(weight * part)) for part in (rough, *mean, rest, data)
        )
        total = z.z2 * spatial + min(z.z2 * lifted, z.z0 * means) + oscillating + z.z0 * given
        total += math.sqrt(z.z0 / 2) * self.initial
        if term is not None:
            fastest, deleted = term
            reaction = abs(deleted.reaction - deleted.divergence)
            total += (
                abs(deleted.diffusion) * z.z2 / problem.diffusion + fastest * z.z1 + reaction * z.z0
            ) * error
        return math.exp(mu * (self.times[-1] - self.times[0])) * total + float(
            np.linalg.norm(self.extra)
        )


class ParabolicCertifier:
    """Certificates for one transient model; the factorisation of the flux problem is made once.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        self.model, self.library = model, only_equation(model.library)
        self.unknown = self.library.unknown
        self.check(model)
        self.prescribed = Prescribed(model)
        self.initial = model.experiment.initial[self.unknown]
        if not isinstance(self.initial, int | float | sp.Expr):
            raise NotCovered("the initial value is not an expression in the coordinates")
        self.forcing = sp.sympify(dict(model.experiment.forcing).get(self.unknown, 0))
        self.domain = Domain(model.discretisation.mesh)
        self.equilibration = FluxEquilibration(model.spaces.space, self.domain, direct=True)
        self.workshop = SharedAssembly(self.equilibration, model.times)
        # A scheme that does not damp stiff parts leaves them alternating from level to level.
        self._stride = 1 if model.marching.scheme.stiffly_accurate else 2
        self._curved: np.ndarray | None = None
        self._factual: tuple[March, float] | None = None
        self._start: tuple[np.ndarray, float] | None = None
        self._data: dict[sp.Expr, np.ndarray] = {}

    @staticmethod
    def check(model: Model) -> None:
        """Whether conditions and equation are of this class; collective.

        Raises:
            NotCovered: they are not; the message says why.
        """
        check_experiment(model, transient=True)
        check_essential(model)
        equation_operator(model.library, model.coefficients, model.discretisation.mesh.topology.dim)

    # Measuring
    # ----------------------------------------------------------------------------------------------

    def _lifted(
        self, march: March | MarchDifference, n: int, mean: np.ndarray, size: float
    ) -> float:
        """A bound of ‖(−aΔ)^{-1} F̄‖."""
        a, constant = march.operator.diffusion, self.domain.largest_interpolation
        plain = size / (a * self.domain.eigenvalue)
        if constant is None:
            return plain
        return min(
            plain, (self.equilibration.mass_norm(march.lift(n, mean)) + constant**2 * size) / a
        )

    def _bend(self, n: int) -> Weights:
        """The weights of d_n for the step that ends at level n; none where there is one step
        only.
        """
        times = self.model.times
        triples = [(m - 1, m, m + 1) for m in (n - 1, n) if 0 < m < len(times) - 1]
        weights: dict[int, float] = {}
        for triple in triples:
            for k in triple:
                gaps = math.prod(float(times[k] - times[m]) for m in triple if m != k)
                weights[k] = weights.get(k, 0.0) + 2 / (gaps * len(triples))
        return weights

    def _temporal(
        self, march: March | MarchDifference, n: int, curved: bool
    ) -> tuple[np.ndarray, float, float, float]:
        """F̄ on a step, and ‖F − F̄‖, ‖β d_n‖ and the spatial error bound of β d_n in L2 of
        the step.
        """
        step = float(self.model.times[n] - self.model.times[n - 1])
        norm, slope = self.equilibration.mass_norm, march.rate({n: 1 / step, n - 1: -1 / step})
        mean = march.rate({n: 0.5, n - 1: 0.5}) - march.state({n: 1 / step, n - 1: -1 / step})
        if not curved:
            return mean, math.sqrt(step**3 / 12) * norm(slope), 0.0, 0.0
        bend = self._bend(n)
        shape, applied, scale = march.state(bend), march.applied(bend), math.sqrt(step**5 / 120)
        odd, even = (
            math.sqrt(step**3 / 12) * norm(slope - shape),
            math.sqrt(step**5 * (1 / 120 - 1 / 144)) * norm(applied),
        )
        spatial = scale * self.workshop.regularity / march.operator.diffusion * march.density(bend)
        return mean + step**2 / 12 * applied, math.hypot(odd, even), scale * norm(shape), spatial

    def _shapes(self, march: March | MarchDifference) -> np.ndarray:
        """Which steps get a curved reconstruction: those where the factual solution has the
        smaller temporal residual then.
        """
        steps = np.diff(self.model.times)
        if len(steps) == 1:
            return np.zeros(1, dtype=bool)
        scale, result = (
            march.operator.diffusion * self.domain.eigenvalue,
            np.zeros(len(steps), dtype=bool),
        )
        for k, step in enumerate(steps):
            sizes = []
            for curved in (False, True):
                mean, rest, extra, bump = self._temporal(march, k + 1, curved)
                sizes.append(
                    math.sqrt(step) * self.equilibration.mass_norm(mean) / scale
                    + step / math.pi * rest
                    + extra
                    + bump
                )
            result[k] = sizes[1] < sizes[0]
        return result

    def _measure(self, march: March | MarchDifference, initial: float) -> Steps:
        """Measure a trajectory."""
        times, steps = self.model.times, len(self.model.times) - 1
        if self._curved is None:
            self._curved = self._shapes(march)
        residuals, rest, extra, bump = zip(
            *(self._temporal(march, k + 1, bool(self._curved[k])) for k in range(steps)),
            strict=True,
        )
        means = np.array([self.equilibration.mass_norm(mean) for mean in residuals])
        lifted, step = means / (march.operator.diffusion * self.domain.eigenvalue), np.diff(times)
        # Sizes as if spread over the steps like spatial errors are.
        others = float(
            np.linalg.norm(
                np.sqrt(step) / math.pi * np.array(rest) + np.array(extra) / np.sqrt(step)
            )
        )
        spatial = spatial_errors(march, self._stride, others)
        others += float(np.linalg.norm(spatial[1:]))
        if self.domain.interpolation is not None and np.linalg.norm(lifted) > NEGLIGIBLE * others:
            lifted = np.array(
                [self._lifted(march, k + 1, residuals[k], means[k]) for k in range(steps)]
            )
        unseen = np.array(
            [self.equilibration.sources.at(march.source, float(time)).unseen for time in times]
        )
        parts = (np.array(bump), means, lifted, np.array(rest), np.array(extra))
        return Steps(times, spatial, *parts, self._not_linear(march.source), unseen, initial)

    def _not_linear(self, source: sp.Expr) -> np.ndarray:
        if source not in self._data:
            self._data[source] = self.equilibration.sources.not_linear(source, self.model.times)
        return self._data[source]

    def _march(self, coefficients: Mapping[str, float], states: Sequence[np.ndarray]) -> March:
        operator = equation_operator(self.library, coefficients, self.domain.dim)
        for state in states:
            self.prescribed.check(state)
        return March(self.workshop, operator, states, self.forcing - operator.source)

    # Bounds
    # ----------------------------------------------------------------------------------------------

    def _smallest(
        self, steps: Steps, operator: Operator, error: float = 0.0, term: Operator | None = None
    ) -> tuple[float, float]:
        """The smallest bound over the tried μ, and that μ."""
        length = float(self.model.times[-1] - self.model.times[0])
        # Where a λ₁ + c − div b/2 ≤ 0 some μ above its negative is needed, whatever T is.
        deficit = (
            operator.divergence / 2
            - operator.reaction
            - operator.diffusion * self.domain.eigenvalue
        )
        rates = [rate / length for rate in RATES] + [
            max(deficit, 0.0) + rate / length for rate in RATES[1:]
        ]
        speed = operator.speed(self.domain.hull)
        acting = None if term is None else (term.speed(self.domain.hull), term)
        return min(
            (steps.bound(operator, speed, self.domain.eigenvalue, mu, error, acting), mu)
            for mu in rates
        )

    def state(self, march: March) -> tuple[float, float]:
        """A bound of ‖u − I u_h‖ for any values at the levels, and the μ it was obtained with."""
        return self._smallest(self._measure(march, self._initial(march.states[0])), march.operator)

    def _initial(self, state: np.ndarray) -> float:
        """‖u(0) − u^0‖, which most marches of a model have in common."""
        if self._start is None or self.model.comm.allreduce(
            int(not np.array_equal(self._start[0], state))
        ):
            self._start = state, self.equilibration.distance(state, sp.sympify(self.initial))
        return self._start[1]

    @property
    def factual(self) -> tuple[March, float]:
        """The factual trajectory and its bound."""
        if self._factual is None:
            march = self._march(self.model.coefficients, self.model.factual.states)
            self._factual = march, self.state(march)[0]
        return self._factual

    def solution(self, solution: Solution, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other
        coefficients.
        """
        self._check_norm(norm)
        change = solution.intervention
        if not change.only_coefficients:
            raise NotCovered(
                "an intervention changes the forcing, the initial or the boundary values"
            )
        value, mu = self.state(self._march(change.apply(self.model.coefficients), solution.states))
        if not math.isfinite(value):
            raise NotCovered("the solution may grow too much for a finite bound")
        text, formula = f"‖u − u_h‖ ≤ {value:.4g}", rf"\|u-u_h\|_{{L^2(0,T;L^2)}} \leq {value:.4g}"
        return self._certificate(value, text, formula, {"μ": mu})

    def deletion(
        self, name: str, norm: str = "L2", deleted: Solution | None = None
    ) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        self._check_norm(norm)
        model = self.model
        factual, deleted = model.factual, deleted or model.solve(delete(name))
        march, own = self.factual
        without = self._march(delete(name).apply(model.coefficients), deleted.states)
        other, _ = self.state(without)
        term = term_operator(self.library, name, model.coefficients[name], self.domain.dim)
        difference = MarchDifference(march, without, term)
        # Both exact solutions start alike; fields that were not solved for here may not.
        start = self.equilibration.mass_norm(difference.state({0: 1.0}))
        direct, mu = self._smallest(self._measure(difference, start), march.operator, other, term)
        score = factual.distance(deleted)
        away = abs(score - self.size([difference.state({n: 1.0}) for n in range(len(model.times))]))
        margin = min(direct, own + other) + away
        if not math.isfinite(margin):
            raise NotCovered("the solution may grow too much for a finite bound")
        etas = {"η_factual": own, "η_counterfactual": other, "η_difference": direct}
        certificate = self._certificate(
            margin, *inequality_of_score(score, margin, away), {**etas, "μ": mu}
        )
        return DeletionBound(name, score, own, other, direct, margin, certificate)

    def size(self, states: Sequence[np.ndarray], norm: str = "L2") -> float:
        """The space–time norm of the piecewise linear interpolant of values that vanish on the
        boundary, not by the engine's matrices."""
        self._check_norm(norm)
        image, total = self.equilibration.mass_times(states[0]), 0.0
        before = float(np.dot(image, states[0]))
        for state, step in zip(states[1:], np.diff(self.model.times), strict=True):
            both, image = float(np.dot(image, state)), self.equilibration.mass_times(state)
            after = float(np.dot(image, state))
            total += step / 3 * (before + both + after)
            before = after
        return math.sqrt(max(self.model.comm.allreduce(float(total)), 0.0))

    def _check_norm(self, norm: str) -> None:
        if norm != "L2":
            raise NotCovered(f"there is no certificate for transient problems in the norm {norm}")

    def _certificate(
        self, value: float, text: str, formula: str, named: dict[str, float]
    ) -> Certificate:
        flux = self.equilibration
        plane = (
            f"Aubin–Nitsche in space with {self.domain.route}"
            if self.domain.interpolation is not None
            else "Friedrichs in space"
        )
        return Certificate(
            value=value,
            kind=flux.sources.kind,
            norm="L2",
            inequality=text,
            formula=formula,
            hypotheses=(
                ("the anchor is u_t", "read off the library"),
                *HYPOTHESES,
                flux.sources.evidence,
                *self.domain.evidence,
            ),
            constants={**named, "λ₁": self.domain.eigenvalue},
            cost={"flux unknowns": flux.size, "flux solves": flux.solves, "seconds": flux.seconds},
            method=f"equilibrated fluxes, backward dual problem, {plane}",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.workshop.destroy()
        self.equilibration.destroy()
