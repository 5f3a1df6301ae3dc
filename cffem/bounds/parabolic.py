"""Guaranteed error bounds for u_t − a Δu + b·∇u + c u = f with u = 0 on the boundary, in L2(0, T; L2(Ω)), for any time stepping.

Only the values u^n at the time levels matter. Z^n ∈ V_h represents the residual f^n − L u^n on V_h, so u^n is the Galerkin solution
of a Poisson problem whose error is bounded by E_n (`flux`). With s_n = (Z^n − Z^{n−1})/τ and D_n = (u^n − u^{n−1})/τ, on each step
either

    U = I u            with residual F = I Z − D_n, or
    U = I u + β s_n    with residual F = (Z^n + Z^{n−1})/2 − D_n − β L_h s_n,    β = (t − t_{n−1})(t − t_n)/2,

where I is linear interpolation in time. The backward dual problem (`stability`) gives, with F̄ the mean of F over a step,

    ‖u − U‖ ≤ Z2 (‖ε‖ + ‖F̄‖_*) + Z0 ‖f − I f‖ + Zt (τ/π) ‖F − F̄‖ + (Z0/2)^{1/2} ‖u(0) − u^0‖,

ε the errors of the Poisson problems and ‖·‖_* a bound of ‖(−aΔ)^{-1} ·‖. No Gronwall factor occurs where a λ₁ + c − div b/2 > 0;
otherwise, or where it is better, u = e^{μt} v is bounded instead, which multiplies the bound by e^{μT}.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, form
from cffem.bounds.certificate import GUARANTEED, Certificate, NotCovered
from cffem.bounds.flux import ROUNDING, Equilibration, at_quadrature_points
from cffem.bounds.geometry import Domain, volumes
from cffem.bounds.problem import Operator, equation_operator, term_operator
from cffem.bounds.stability import stability
from cffem.bounds.steady import HYPOTHESES, DeletionBound, check_essential, check_experiment
from cffem.engine.linear import LinearSolver
from cffem.symbols.coordinates import t
from cffem.symbols.interventions import delete

# Growth rates μ of the substitution u = e^{μt} v that are tried, as multiples of 1/T.
RATES = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 5.0)
# Gauss points in time of the data that are not linear on a step; what the two rules disagree about is added.
GAUSS = (5, 8)
# e^{μT} beyond this exponent is as good as infinite.
LARGEST_EXPONENT = 300.0


@dataclass(frozen=True)
class Steps:
    """What was measured on a trajectory: one number per step, where `spatial` has one per level.

    Attributes:
        times: the time levels.
        spatial: E_n.
        slope: ‖s_n‖.
        applied: ‖L_h s_n‖.
        bump: the spatial error bound of s_n.
        means: ‖F̄‖ for both reconstructions, shape (2, steps).
        lifted: ‖F̄‖_* for both.
        data: ‖f − I f‖ on the step.
        unseen: what quadrature does not see of f, at each level.
        initial: ‖u(0) − u^0‖.
    """

    times: np.ndarray
    spatial: np.ndarray
    slope: np.ndarray
    applied: np.ndarray
    bump: np.ndarray
    means: np.ndarray
    lifted: np.ndarray
    data: np.ndarray
    unseen: np.ndarray
    initial: float

    def bound(self, problem: Operator, speed: float, eigenvalue: float, mu: float, error: float = 0.0, term: Any = None) -> float:
        """The bound with the substitution u = e^{μt} v, or infinity where it gives none or none of use.

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
        linear = np.sqrt(step * (first**2 + first * second + second**2) / 3)
        rough = np.stack([linear, linear + np.sqrt(step**5 / 120) * self.bump])
        mean = np.sqrt(step) * np.stack([self.lifted, self.means])
        rest = np.stack([np.sqrt(step**3 / 12) * self.slope, np.sqrt(step**5 * (1 / 120 - 1 / 144)) * self.applied])
        rest = (z.rate + mu * z.z0) * step / math.pi * rest
        extra = np.stack([np.zeros_like(step), np.sqrt(step**5 / 120) * self.slope])
        # The reconstruction may be chosen step by step, since β vanishes at the levels.
        best = np.argmin(z.z2 * (rough + mean[0]) + rest + extra, axis=0)
        chosen = [np.take_along_axis(part, best[None], axis=0)[0] for part in (rough, *mean, rest, extra)]
        data = self.data + np.sqrt(step) * np.maximum(self.unseen[:-1], self.unseen[1:])
        spatial, lifted, means, oscillating, given = (float(np.linalg.norm(weight * part)) for part in (*chosen[:4], data))
        total = z.z2 * spatial + min(z.z2 * lifted, z.z0 * means) + oscillating + z.z0 * given
        total += math.sqrt(z.z0 / 2) * self.initial
        if term is not None:
            fastest, deleted = term
            reaction = abs(deleted.reaction - deleted.divergence)
            total += (abs(deleted.diffusion) * z.z2 / problem.diffusion + fastest * z.z1 + reaction * z.z0) * error
        return math.exp(mu * (self.times[-1] - self.times[0])) * total + float(np.linalg.norm(chosen[4]))


class ParabolicCertifier:
    """Certificates for one transient model; the factorisation of the flux problem is made once.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Any):
        self.model, self.library, self.unknown = model, model.library, model.library.unknown
        check_experiment(model, transient=True)
        check_essential(model)
        self.initial = model.experiment.initial[self.unknown]
        if not isinstance(self.initial, int | float | sp.Expr):
            raise NotCovered("the initial value is not an expression in the coordinates")
        self.forcing = sp.sympify(dict(model.experiment.forcing).get(self.unknown, 0))
        self.domain = Domain(model.discretisation.mesh)
        equation_operator(self.library, model.coefficients, self.domain.dim)
        self.equilibration = Equilibration(model.spaces.space, self.domain)
        self._stiffness = LinearSolver(self._stiffness_matrix())
        self._factual: float | None = None
        self._data: dict[sp.Expr, np.ndarray] = {}

    def _stiffness_matrix(self) -> Any:
        space = self.model.spaces.space
        u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
        zero = [fem.dirichletbc(PETSc.ScalarType(0), self.equilibration.boundary, space)]
        return assemble_matrix(form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, self.model.comm), zero)

    # Measuring --------------------------------------------------------------------------------------------------------------

    def _spatial(self, operator: Operator, residual: Any) -> float:
        """E: the bound of the error of a Poisson problem in L2."""
        energy = residual.dual / (operator.diffusion * math.sqrt(self.domain.eigenvalue))
        return energy if residual.weighted is None else min(energy, residual.weighted / operator.diffusion)

    def _function(self, values: np.ndarray) -> Any:
        return self.model.spaces.function(self.unknown, values)

    def _norm(self, values: np.ndarray) -> float:
        return self.equilibration.mass_norm(values)

    def _lifted(self, operator: Operator, values: np.ndarray, size: float) -> float:
        """A bound of ‖(−aΔ)^{-1} w‖ for w in the space with these values."""
        plain = size / (operator.diffusion * self.domain.eigenvalue)
        if self.domain.interpolation is None or size == 0.0:
            return plain
        right = self.equilibration.mass_times(values)
        solution = self._stiffness.matrix.createVecRight()
        self._stiffness.solve(right, solution, "the Poisson problem of a temporal residual")
        discrete = self._norm(solution.array_r) / operator.diffusion
        for vector in (right, solution):
            vector.destroy()
        return min(plain, discrete + self.domain.largest_interpolation**2 / operator.diffusion * size)

    def _measure(self, operator: Operator, states: Any, source: sp.Expr, term: Operator | None = None, others: Any = None) -> Steps:
        """Measure a trajectory; `others` is the trajectory that a deleted term acts on."""
        times, owned, steps = self.model.times, self.model.spaces.owned, len(self.model.times) - 1
        spatial, unseen = np.zeros(steps + 1), np.zeros(steps + 1)
        slope, applied, bump = np.zeros(steps), np.zeros(steps), np.zeros(steps)
        means, lifted = np.zeros((2, steps)), np.zeros((2, steps))
        previous = np.zeros(owned)
        for n, state in enumerate(states):
            other = None if others is None else self._function(others[n])
            residual = self.equilibration.measure(operator, self._function(state), source, term, other, float(times[n]))
            spatial[n], unseen[n] = self._spatial(operator, residual), residual.unseen
            current = self.equilibration.algebraic.x.array[:owned].copy()
            if n:
                k, step = n - 1, times[n] - times[n - 1]
                change = (current - previous) / step
                residual = self.equilibration.measure(operator, self._function(change), sp.S.Zero)
                image = -self.equilibration.algebraic.x.array[:owned]
                bump[k], slope[k], applied[k] = self._spatial(operator, residual), self._norm(change), self._norm(image)
                mean = (current + previous) / 2 - (state - states[n - 1]) / step
                for kind, values in enumerate((mean, mean + step**2 / 12 * image)):
                    means[kind, k] = self._norm(values)
                    lifted[kind, k] = self._lifted(operator, values, means[kind, k])
            previous = current
        data = self._not_linear(source)
        initial = 0.0 if term is not None else self.equilibration.distance(self._function(states[0]), sp.sympify(self.initial))
        return Steps(times, spatial, slope, applied, bump, means, lifted, data, unseen, initial)

    def _not_linear(self, source: sp.Expr) -> np.ndarray:
        """‖f − I f‖ on each step, by Gauss quadrature in time."""
        times = self.model.times
        if not source.has(t):
            return np.zeros(len(times) - 1)
        if source in self._data:
            return self._data[source]
        corners, degree, area = self.domain.corners, self.equilibration.quadrature, volumes(self.domain.corners)
        squares = np.zeros((len(GAUSS), len(times) - 1))
        for n, (start, end) in enumerate(pairwise(times)):
            ends = [at_quadrature_points(source, corners, degree, float(s))[0] for s in (start, end)]
            for rule, count in enumerate(GAUSS):
                points, weights = np.polynomial.legendre.leggauss(count)
                for place, weight in zip((points + 1) / 2, weights / 2, strict=True):
                    values, relative = at_quadrature_points(source, corners, degree, float(start + place * (end - start)))
                    gap = values - (1 - place) * ends[0] - place * ends[1]
                    squares[rule, n] += weight * (end - start) * float(area @ (gap**2 @ relative))
        squares = self.model.comm.allreduce(squares)
        excess = np.maximum(np.abs(squares[0] - squares[1]) - ROUNDING * squares.max(axis=0), 0.0)
        self._data[source] = np.sqrt(squares[1]) + np.sqrt(excess)
        return self._data[source]

    # Bounds -----------------------------------------------------------------------------------------------------------------

    def _smallest(self, steps: Steps, operator: Operator, error: float = 0.0, term: Operator | None = None) -> tuple[float, float]:
        """The smallest bound over the tried μ, and that μ."""
        length = self.model.times[-1] - self.model.times[0]
        # Where a λ₁ + c − div b/2 ≤ 0 some μ above its negative is needed, whatever T is.
        deficit = operator.divergence / 2 - operator.reaction - operator.diffusion * self.domain.eigenvalue
        rates = [rate / length for rate in RATES] + [max(deficit, 0.0) + rate / length for rate in RATES[1:]]
        speed = operator.speed(self.domain.hull)
        acting = None if term is None else (term.speed(self.domain.hull), term)
        return min((steps.bound(operator, speed, self.domain.eigenvalue, mu, error, acting), mu) for mu in rates)

    def state(self, coefficients: Any, states: Any) -> tuple[float, float]:
        """A bound of ‖u − I u_h‖ for any states, and the μ it was obtained with."""
        operator = equation_operator(self.library, coefficients, self.domain.dim)
        steps = self._measure(operator, states, self.forcing - operator.source)
        return self._smallest(steps, operator)

    def solution(self, solution: Any, norm: str = "L2") -> Certificate:
        """The certificate of a solution of the factual problem or of one with other coefficients."""
        self._check_norm(norm)
        change = solution.intervention
        if change.forcing or change.conditions or change.initial:
            raise NotCovered("an intervention changes the forcing, the initial or the boundary values")
        value, mu = self.state(change.apply(self.model.coefficients), solution.states)
        if not math.isfinite(value):
            raise NotCovered("the solution may grow too much for a finite bound")
        text, formula = f"‖u − u_h‖ ≤ {value:.4g}", rf"\|u-u_h\|_{{L^2(0,T;L^2)}} \leq {value:.4g}"
        return self._certificate(value, text, formula, {"μ": mu})

    def deletion(self, name: str, norm: str = "L2", deleted: Any = None) -> DeletionBound:
        """The bound for the score of one deletion; see `SteadyCertifier.deletion`."""
        self._check_norm(norm)
        model = self.model
        factual, deleted = model.factual, deleted or model.solve(delete(name))
        if self._factual is None:
            self._factual = self.state(model.coefficients, factual.states)[0]
        other, _ = self.state(delete(name).apply(model.coefficients), deleted.states)
        operator = equation_operator(self.library, model.coefficients, self.domain.dim)
        term = term_operator(self.library, name, model.coefficients[name], self.domain.dim)
        gap = [first - second for first, second in zip(factual.states, deleted.states, strict=True)]
        steps = self._measure(operator, gap, term.source, term, deleted.states)
        direct, mu = self._smallest(steps, operator, other, term)
        score = factual.distance(deleted)
        margin = min(direct, self._factual + other) + abs(score - self._trajectory_norm(gap))
        if not math.isfinite(margin):
            raise NotCovered("the solution may grow too much for a finite bound")
        etas = {"η_factual": self._factual, "η_counterfactual": other, "η_difference": direct}
        text = f"|‖u − u_j‖ − {score:.4g}| ≤ min(η_difference, η_factual + η_counterfactual) = {margin:.4g}"
        formula = (
            rf"\bigl|\,\|u-u_j\| - \|u_h-u_{{jh}}\|\,\bigr| \leq "
            rf"\min\{{\eta_{{\mathrm d}}, \eta_{{\mathrm f}}+\eta_{{\mathrm{{cf}}}}\}} = {margin:.4g}"
        )
        certificate = self._certificate(margin, text, formula, {**etas, "μ": mu})
        return DeletionBound(name, score, self._factual, other, direct, margin, certificate)

    def _trajectory_norm(self, states: Any) -> float:
        """The space–time norm of the piecewise linear interpolant, not by the engine's matrices."""
        total = 0.0
        for first, second, step in zip(states[:-1], states[1:], np.diff(self.model.times), strict=True):
            ends = self._norm(first) ** 2 + self._norm(second) ** 2
            # (a, b) = (‖a + b‖² − ‖a‖² − ‖b‖²) / 2
            total += step / 3 * (ends + (self._norm(first + second) ** 2 - ends) / 2)
        return math.sqrt(total)

    def _check_norm(self, norm: str) -> None:
        if norm != "L2":
            raise NotCovered(f"there is no certificate for transient problems in the norm {norm}")

    def _certificate(self, value: float, text: str, formula: str, named: dict[str, float]) -> Certificate:
        flux = self.equilibration
        plane = "Aubin–Nitsche in space" if self.domain.interpolation is not None else "Friedrichs in space"
        return Certificate(
            value=value,
            kind=GUARANTEED,
            norm="L2",
            inequality=text,
            formula=formula,
            hypotheses=(("the anchor is u_t", "read off the library"), *HYPOTHESES, *self.domain.evidence),
            constants={**named, "λ₁": self.domain.eigenvalue},
            cost={"flux unknowns": flux.size, "flux solves": flux.solves, "seconds": flux.seconds},
            method=f"equilibrated fluxes at all levels, backward dual problem, {plane}",
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        matrix = self._stiffness.matrix
        self._stiffness.destroy()
        matrix.destroy()
        self.equilibration.destroy()
