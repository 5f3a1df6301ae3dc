# SPDX-License-Identifier: MIT
"""Weighted least squares on readings by solving again: residuals, their derivative, and the driver.

    χ²(α) = ‖C^(−½) (𝒪[u(α)] − d)‖²,      ∂/∂α_j = C^(−½) 𝒪 L_u⁻¹ T_j.

SciPy's trust-region method takes the steps; ours is the derivative. One model serves all
iterations: spaces, forms, matrices of terms and the symbolic factorisation are made once, and other
coefficients are other numbers. A solve that fails has no residual, and the step is shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import least_squares

from cffem.engine.assembly.transport import check_transport
from cffem.engine.model import Model
from cffem.engine.response.observation_operator import ObservationOperator
from cffem.engine.response.sensitivities import null_columns, sensitivity_matrix
from cffem.engine.solve_errors import SolveError
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.solution import Solution


@dataclass(frozen=True)
class FitSettings:
    """When a fit ends.

    Attributes:
        change: relative change of χ² or of the coefficients below which it has converged.
        gradient: the same for the cosine between residual and columns.
        steps: steps at most.
        shortenings: how often a first step is halved until its solve succeeds.
        largest: residuals beyond this, in units of the noise, count as a solve that failed.
        regularity: singular values of scaled columns below this are null.
    """

    change: float = 1e-8
    gradient: float = 1e-8
    steps: int = 60
    shortenings: int = 12
    largest: float = 1e12
    regularity: float = 1e-7


SETTINGS = FitSettings()


class FitCase:
    """The readings of one experiment and the model that is solved for them.

    Args:
        library, experiment: the model.
        observation: what was read.
        data: the values.
        coefficients: where the fit starts, all terms.
        names: the terms that are fitted.
        options: PETSc options.
    """

    def __init__(
        self,
        library: Any,
        experiment: Any,
        observation: Any,
        data: np.ndarray,
        coefficients: Mapping[str, float],
        names: Sequence[str],
        options: Mapping[str, Any] | None = None,
    ):
        self.library, self.experiment, self.observation = library, experiment, observation
        self.data, self.names, self.options = data, tuple(names), options
        self.fixed = dict(coefficients)
        self.solves = self.tangents = 0
        self.model = Model(library, coefficients, experiment, options)
        self.operator: ObservationOperator = self.model.observation(observation)
        self._others: dict[tuple[str, ...], Model] = {}

    def model_for(self, coefficients: Mapping[str, float]) -> Model:
        """The model, or another one where signs of coefficients have changed what is upstream for
        fluxes between cells.
        """
        discretisation = self.model.discretisation
        if not discretisation.turned(coefficients):
            if discretisation.upwind_terms:
                check_transport(discretisation, coefficients)
            return self.model
        key = tuple(n for n in discretisation.upwind_terms if coefficients[n] < 0)
        if key not in self._others:
            self._others[key] = Model(self.library, coefficients, self.experiment, self.options)
        return self._others[key]

    def solve(self, coefficients: Mapping[str, float]) -> Solution:
        """The solution at other coefficients, with its stages."""
        self.solves += 1
        wanted = {**self.fixed, **coefficients}
        change = Intervention(tuple((n, "set", float(wanted[n])) for n in self.names))
        return self.model_for(wanted).solve(change, stages=True)

    def residual(self, solution: Solution) -> np.ndarray:
        """Readings minus data in units of the noise."""
        operator = solution.model.observation(self.observation)
        return operator.noise.whitened(operator.values(solution) - self.data)

    def columns(self, solution: Solution) -> np.ndarray:
        """The derivative of the residual; columns that are zero in exact arithmetic are zero."""
        self.tangents += 1
        operator = solution.model.observation(self.observation)
        matrix = sensitivity_matrix(solution, operator, self.names)
        null = null_columns(solution.model, solution, self.names, thorough=False)
        return matrix * np.array([name not in null for name in self.names])

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        for model in (*self._others.values(), self.model):
            model.destroy()


@dataclass
class FitPoint:
    """A place in the space of coefficients with what is known there.

    Attributes:
        alpha: the fitted coefficients.
        solutions: one for each experiment, None where a solve failed.
        residual: in units of the noise, priors included.
        matrix: the derivative of the residual, once it was asked for.
        failure: why there is no solution.
    """

    alpha: np.ndarray
    solutions: list[Solution] | None
    residual: np.ndarray
    matrix: np.ndarray | None = None
    failure: SolveError | None = None

    @property
    def cost(self) -> float:
        """χ² with priors; infinite where there is no solution."""
        return float(self.residual @ self.residual) if self.solutions is not None else np.inf


@dataclass
class FitProblem:
    """Least squares over one or several experiments.

    Attributes:
        cases: the experiments with their readings.
        names: the terms that are fitted.
        bounds: lower and upper ends for each of them.
        prior: mean and standard deviation for each of them; infinite where nothing is known.
        loss: SciPy's name of the loss.
    """

    cases: list[FitCase]
    names: tuple[str, ...]
    bounds: tuple[np.ndarray, np.ndarray]
    prior: tuple[np.ndarray, np.ndarray]
    loss: str = "linear"
    settings: FitSettings = SETTINGS
    iterations: int = 0
    _last: FitPoint | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The number of readings."""
        return sum(len(case.data) for case in self.cases)

    @property
    def solves(self) -> int:
        """How many problems were solved."""
        return sum(case.solves for case in self.cases)

    @property
    def tangents(self) -> int:
        """How many tangent sweeps were made."""
        return sum(case.tangents for case in self.cases)

    def point(self, alpha: np.ndarray) -> FitPoint:
        """Solve at some coefficients; the last place is kept."""
        if self._last is not None and np.array_equal(self._last.alpha, alpha):
            return self._last
        mean, spread = self.prior
        pull = ((alpha - mean) / spread)[np.isfinite(spread)]
        coefficients = dict(zip(self.names, map(float, alpha), strict=True))
        try:
            solutions = [case.solve(coefficients) for case in self.cases]
            parts = [c.residual(s) for c, s in zip(self.cases, solutions, strict=True)]
            residual = np.concatenate([*parts, pull])
            if not np.all(np.abs(residual) < self.settings.largest):
                raise SolveError("the readings grow beyond all bounds", cause="blow-up")
            found = FitPoint(alpha.copy(), solutions, residual)
        except SolveError as error:
            nothing = np.full(self.size + len(pull), np.inf)
            found = FitPoint(alpha.copy(), None, nothing, failure=error)
        self._last = found
        return found

    def matrix(self, point: FitPoint) -> np.ndarray:
        """The derivative of the residual at a place; one tangent sweep for each experiment."""
        if point.matrix is None:
            assert point.solutions is not None
            pairs = zip(self.cases, point.solutions, strict=True)
            rows = [case.columns(solution) for case, solution in pairs]
            spread = self.prior[1]
            held = np.isfinite(spread)
            point.matrix = np.concatenate([*rows, np.diag(1 / spread)[held]])
        return point.matrix

    def first_step(self, point: FitPoint) -> FitPoint:
        """A Gauss–Newton step from coefficients that are all zero, where a trust region has no size
        of its own; it is halved until it has a solution with a smaller χ².
        """
        step = least_change(self.matrix(point), point.residual, self.settings.regularity)
        for k in range(self.settings.shortenings):
            trial = np.clip(point.alpha - step / 2**k, *self.bounds)
            found = self.point(trial)
            if found.cost < point.cost:
                return found
        return point

    def fitted(
        self,
        start: np.ndarray,
        held: Mapping[int, float] | None = None,
        change: float | None = None,
    ) -> FitPoint:
        """The least squares from a start, some coefficients held.

        Args:
            start: all fitted coefficients.
            held: values of those that stay, by position.
            change: relative change of χ² below which the fit has converged.

        Raises:
            SolveError: the start has no solution, or no step did.
        """
        held = dict(held or {})
        free = np.array([j for j in range(len(self.names)) if j not in held], dtype=int)
        full = np.clip(np.asarray(start, dtype=float), *self.bounds)
        for j, value in held.items():
            full[j] = value
        point = self.point(full)
        if point.failure is not None:
            raise point.failure
        if not len(free):
            return point
        if not np.any(full) and not held:
            point = self.first_step(point)
        return self._driven(point, free, change or self.settings.change)

    def _driven(self, point: FitPoint, free: np.ndarray, change: float) -> FitPoint:
        best = [point]

        def placed(values: np.ndarray) -> np.ndarray:
            alpha = point.alpha.copy()
            alpha[free] = values
            return alpha

        def residual(values: np.ndarray) -> np.ndarray:
            found = self.point(placed(values))
            if found.cost < best[0].cost:
                best[0] = found
            return found.residual

        def jacobian(values: np.ndarray) -> np.ndarray:
            here = best[0] if np.array_equal(best[0].alpha, placed(values)) else None
            return self.matrix(here or self.point(placed(values)))[:, free]

        low, high = (side[free] for side in self.bounds)
        with np.errstate(over="ignore", invalid="ignore"):
            result = least_squares(
                residual,
                inside(point.alpha[free], low, high),
                jacobian,
                bounds=(low, high),
                x_scale="jac",
                ftol=change,
                xtol=max(self.settings.change, 0.1 * change),
                gtol=self.settings.gradient,
                loss=self.loss,
                max_nfev=self.settings.steps,
            )
        self.iterations += int(result.njev)
        end = placed(result.x)
        return best[0] if np.array_equal(best[0].alpha, end) else self.point(end)


def inside(values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Values strictly between bounds, as SciPy wants them."""
    width = np.where(np.isfinite(high - low), high - low, 1.0)
    return np.clip(values, low + 1e-10 * width, high - 1e-10 * width)


def least_change(matrix: np.ndarray, residual: np.ndarray, regularity: float) -> np.ndarray:
    """The Gauss–Newton step that is smallest with columns scaled to length one.

    Example:
        >>> least_change(np.array([[2.0, 2.0]]), np.array([4.0]), 1e-7)
        array([1., 1.])
    """
    scale = np.linalg.norm(matrix, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return np.linalg.lstsq(matrix / scale, residual, rcond=regularity)[0] / scale
