# SPDX-License-Identifier: MIT
"""A way down for many coefficients: L-BFGS with the gradient by adjoint solves.

One backward solve gives the derivative of χ² by all coefficients,

    ∂χ²/∂α_j = 2 ⟨φ, T_j[u]⟩,      φ = L_u⁻* 𝒪* C^(−½) ρ'(r²) r,

where a tangent sweep needs a solve for each. L-BFGS needs variables of one size: the lengths of the
sensitivity columns, by the mean square of a few adjoint solves with random weights, E (Sᵀz)_j² =
‖S_j‖². Its end is where the trust-region method with one tangent sweep begins, which also gives the
intervals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from cffem.engine.calibration.descent import inside
from cffem.engine.response.adjoint import observable_scores

if TYPE_CHECKING:
    from cffem.engine.calibration.fit_problem import FitPoint, FitProblem


@dataclass(frozen=True)
class AdjointSettings:
    """How the descent goes.

    Attributes:
        probes: adjoint solves with random weights, for the size of each column; the estimate of a
            length is off by a factor 1/√(2 probes), which a scaling can bear.
        steps: steps at most.
        change: relative decrease of χ² that ends it.
        gradient: of χ² by scaled variables, that is in standard deviations, that ends it.
        many: coefficients from which this way is taken without being asked.
    """

    probes: int = 4
    steps: int = 300
    change: float = 1e-7
    gradient: float = 1e-2
    many: int = 24


SETTINGS = AdjointSettings()


def weighted_columns(problem: FitProblem, point: FitPoint, weights: np.ndarray) -> np.ndarray:
    """Sᵀ w over the terms by one adjoint solve for each experiment, without S; collective.

    Args:
        problem: the least squares.
        point: where S is taken.
        weights: one for each reading.
    """
    total, first = np.zeros(len(problem.terms)), 0
    for case, solution in zip(problem.cases, problem.solutions(point), strict=True):
        operator = solution.model.observation(case.observation)
        part = weights[first : first + len(case.data)]
        first += len(case.data)
        plain = operator.noise.whitened_back(part) / problem.level
        functional = operator.weighted(plain)
        scores = observable_scores(solution, functional, problem.terms)  # type: ignore[arg-type]
        total += np.array([scores.sensitivities[name] for name in problem.terms])
        case.adjoints += 1
    return total


def cost_gradient(problem: FitProblem, point: FitPoint) -> np.ndarray:
    """The derivative of χ², or of the sum of a robust loss, with priors, by all coefficients;
    collective.
    """
    count, (mean, spread) = problem.size, problem.prior
    counted = (problem.loss.weights(point.residual) * point.residual)[:count]
    pull = np.where(np.isfinite(spread), (point.alpha - mean) / spread**2, 0.0)
    return 2 * (weighted_columns(problem, point, counted) + pull)


def adjoint_descent(
    problem: FitProblem, start: np.ndarray, settings: AdjointSettings = SETTINGS
) -> np.ndarray:
    """Coefficients near the least squares; collective.

    Args:
        problem: the least squares, without uncertain data.
        start: the coefficients it begins with.
        settings: how it goes.

    Raises:
        SolveError: the start has no solution.
    """
    first = inside(start, *problem.bounds)
    best = problem.point(first)
    if best.failure is not None:
        raise best.failure
    generator = np.random.default_rng(0)
    probes = generator.normal(size=(settings.probes, problem.size))
    squares = [weighted_columns(problem, best, probe) ** 2 for probe in probes]
    prior = np.where(np.isfinite(problem.prior[1]), problem.prior[1] ** -2.0, 0.0)
    size = np.sqrt(np.mean(squares, axis=0) + prior)
    scale = 1 / np.where(size > 0, size, 1.0)
    worst = best.cost

    def value(scaled: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, worst
        point = problem.point(np.clip(scaled * scale, *problem.bounds))
        if point.failure is not None:
            # A wall that the line search turns away from.
            return 10 * worst + 1, np.zeros(len(scaled))
        worst = max(worst, point.cost)
        if point.cost < best.cost:
            best = point
        return point.cost, cost_gradient(problem, point) * scale

    bounds = list(zip(*(side / scale for side in problem.bounds), strict=True))
    minimize(
        value,
        first / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={
            "maxiter": settings.steps,
            "ftol": settings.change,
            "gtol": settings.gradient,
            "maxcor": 20,
        },
    )
    return best.alpha
