# SPDX-License-Identifier: MIT
"""Weighted least squares on readings by solving again: residuals, their derivative, and the driver.

    χ²(α) = ‖C^(−½) (𝒪[u(α)] − d)‖²,      ∂/∂α_j = C^(−½) 𝒪 L_u⁻¹ T_j.

SciPy's trust-region method takes the steps; ours is the derivative. One model serves all
iterations: spaces, forms, matrices of terms and the symbolic factorisation are made once, and other
coefficients are other numbers. A solve that fails has no residual, and the step is shortened.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from scipy.optimize import least_squares, lsq_linear

from cffem.engine.assembly.transport import check_transport
from cffem.engine.model import Model
from cffem.engine.response.observation_operator import ObservationOperator
from cffem.engine.response.sensitivities import null_columns, sensitivity_matrix
from cffem.engine.solve_errors import SolveError
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.observer import Observer
    from cffem.engine.solution import Solution
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.observations import Observation
    from cffem.symbols.problem.system import System


@dataclass(frozen=True)
class FitSettings:
    """When a fit ends.

    Attributes:
        change: relative change of χ² or of the coefficients below which it has converged.
        decrease: of χ² that the linear model may still promise at the end; coefficients are then
            within its root of their best values, in standard deviations.
        gradient: as `change`, for the cosine between residual and columns.
        oldest: steps for which a derivative is used with Broyden's corrections.
        nonlinearity: share of the residual by which a step may differ from what the derivative has
            said, beyond which the derivative is taken anew.
        steps: steps at most.
        shortenings: how often a first step is halved until its solve succeeds.
        largest: residuals beyond this, in units of the noise, count as a solve that failed.
        regularity: singular values of scaled columns below this are null.
    """

    change: float = 1e-8
    decrease: float = 1e-6
    oldest: int = 2
    nonlinearity: float = 0.2
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
        observer: of the solves.
    """

    def __init__(
        self,
        library: Library | System,
        experiment: Experiment,
        observation: Observation,
        data: np.ndarray,
        coefficients: Mapping[str, float],
        names: Sequence[str],
        options: PetscOptions | None = None,
        observer: Observer | None = None,
    ):
        self.library, self.experiment, self.observation = library, experiment, observation
        self.data, self.names, self.options = data, tuple(names), options
        self.fixed = dict(coefficients)
        self.solves = self.tangents = 0
        self.model = Model(library, coefficients, experiment, options, observer=observer)
        self.operator: ObservationOperator = self.model.observation(observation)
        self._others: dict[tuple[str, ...], Model] = {}

    def keeping(self, names: Sequence[str]) -> FitCase:
        """The same readings and model with fewer terms fitted, the others zero."""
        smaller = copy.copy(self)
        smaller.names = tuple(names)
        smaller.fixed = {n: v if n not in self.names else 0.0 for n, v in self.fixed.items()}
        return smaller

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
        change = Intervention(tuple((n, "set", float(v)) for n, v in wanted.items()))
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
        residual: in units of the noise, priors included; infinite where a solve failed.
        solutions: one for each experiment; None where a solve failed, or where the place is
            remembered from an earlier run.
        matrix: the derivative of the residual, once it was asked for.
        failure: why there is no solution.
    """

    alpha: np.ndarray
    residual: np.ndarray
    solutions: list[Solution] | None = None
    matrix: np.ndarray | None = None
    failure: SolveError | None = None

    @property
    def cost(self) -> float:
        """χ² with priors; infinite where there is no solution."""
        return float(self.residual @ self.residual) if self.failure is None else np.inf


class FitMemory(Protocol):
    """Remembers places from an earlier run of the same fit, so that it goes on where it was."""

    def recall(self, key: str, alpha: np.ndarray) -> FitPoint | None:
        """What is known of a place."""

    def keep(self, key: str, point: FitPoint) -> None:
        """A place was solved, or its derivative was taken; collective."""


class Converged(Exception):
    """The linear model of the residual promises no more than what is asked for."""


class Outdated(Exception):
    """A step failed that was found with the derivative of another place."""


@dataclass(frozen=True)
class FitAccuracy:
    """When a fit is close enough to its end, by the decrease of χ² that its linear model promises.

    Attributes:
        decrease: of χ², absolute.
        relative: the same relative to χ² − base.
        base: χ² that the fit is compared with.
        remembered: whether the derivative of an earlier place is good enough to start from; it is
            then corrected by what each solve shows (Broyden's update).
    """

    decrease: float
    relative: float
    base: float = 0.0
    remembered: bool = False

    def reached(self, promised: float, cost: float) -> bool:
        """Whether the promised decrease is small enough."""
        above = max(cost - self.base, 0.0)
        if self.base:
            return promised <= max(self.decrease, self.relative * above)
        return promised <= min(self.decrease, self.relative * above)


@dataclass
class FitProblem:
    """Least squares over one or several experiments.

    Attributes:
        cases: the experiments with their readings.
        names: the terms that are fitted.
        bounds: lower and upper ends for each of them.
        prior: mean and standard deviation for each of them; infinite where nothing is known.
        loss: SciPy's name of the loss.
        memory: of an earlier run.
    """

    cases: list[FitCase]
    names: tuple[str, ...]
    bounds: tuple[np.ndarray, np.ndarray]
    prior: tuple[np.ndarray, np.ndarray]
    loss: str = "linear"
    settings: FitSettings = SETTINGS
    memory: FitMemory | None = None
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
        found = self.memory.recall(self._key(alpha), alpha) if self.memory else None
        if found is None:
            found = self._solved(alpha)
            if self.memory:
                self.memory.keep(self._key(alpha), found)
        self._last = found
        return found

    def _key(self, alpha: np.ndarray) -> str:
        """What a place is called in the memory: a hash of all coefficients there."""
        own = dict(zip(self.names, alpha, strict=True))
        values = {**self.cases[0].fixed, **own}
        text = " ".join(f"{name}={float(values[name]).hex()}" for name in sorted(values))
        return hashlib.sha256(f"{' '.join(self.names)}: {text}".encode()).hexdigest()[:16]

    def _solved(self, alpha: np.ndarray) -> FitPoint:
        mean, spread = self.prior
        pull = ((alpha - mean) / spread)[np.isfinite(spread)]
        try:
            solutions = self._solutions(alpha)
            parts = [c.residual(s) for c, s in zip(self.cases, solutions, strict=True)]
            residual = np.concatenate([*parts, pull])
            if not np.all(np.abs(residual) < self.settings.largest):
                raise SolveError("the readings grow beyond all bounds", cause="blow-up")
            return FitPoint(alpha.copy(), residual, solutions)
        except SolveError as error:
            nothing = np.full(self.size + len(pull), np.inf)
            return FitPoint(alpha.copy(), nothing, failure=error)

    def _solutions(self, alpha: np.ndarray) -> list[Solution]:
        coefficients = dict(zip(self.names, map(float, alpha), strict=True))
        return [case.solve(coefficients) for case in self.cases]

    def solutions(self, point: FitPoint) -> list[Solution]:
        """The solutions at a place, solved again where only its readings are remembered."""
        if point.solutions is None:
            point.solutions = self._solutions(point.alpha)
        return point.solutions

    def matrix(self, point: FitPoint) -> np.ndarray:
        """The derivative of the residual at a place; one tangent sweep for each experiment."""
        if point.matrix is None:
            pairs = zip(self.cases, self.solutions(point), strict=True)
            rows = [case.columns(solution) for case, solution in pairs]
            spread = self.prior[1]
            held = np.isfinite(spread)
            point.matrix = np.concatenate([*rows, np.diag(1 / spread)[held]])
            if self.memory:
                self.memory.keep(self._key(point.alpha), point)
        return point.matrix

    def keeping(self, names: Sequence[str], point: FitPoint) -> tuple[FitProblem, FitPoint]:
        """The same least squares with fewer terms, and a place of it at which the others are zero.

        Args:
            names: the terms that are kept.
            point: the place here.
        """
        index = [self.names.index(name) for name in names]
        cases = [case.keeping(names) for case in self.cases]
        (low, high), (mean, spread) = self.bounds, self.prior
        smaller = replace(
            self,
            cases=cases,
            names=tuple(names),
            bounds=(low[index], high[index]),
            prior=(mean[index], spread[index]),
            _last=None,
        )
        held = np.flatnonzero(np.isfinite(spread))
        rows = [*range(self.size), *(self.size + k for k, j in enumerate(held) if j in index)]
        matrix = None if point.matrix is None else point.matrix[np.ix_(rows, index)]
        place = FitPoint(point.alpha[index], point.residual[rows], point.solutions, matrix)
        return smaller, place

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
        accuracy: FitAccuracy | None = None,
        near: FitPoint | None = None,
    ) -> FitPoint:
        """The least squares from a start, some coefficients held.

        Args:
            start: all fitted coefficients.
            held: values of those that stay, by position.
            accuracy: when the fit is close enough to its end.
            near: a place whose derivative the fit may begin with.

        Raises:
            SolveError: the start has no solution, or no step did.
        """
        held = dict(held or {})
        free = np.array([j for j in range(len(self.names)) if j not in held], dtype=int)
        full = inside(np.asarray(start, dtype=float), *self.bounds)
        for j, value in held.items():
            full[j] = value
        point = self.point(full)
        if point.failure is not None:
            raise point.failure
        if not len(free):
            return point
        if not np.any(full) and not held:
            point = self.first_step(point)
        wanted = accuracy or FitAccuracy(self.settings.decrease, self.settings.change)
        for _ in free:
            descent = Descent(self, point, free, wanted, near)
            point = descent.end()
            unfelt = np.setdiff1d(free, descent.free)
            if not len(unfelt) or not self.felt(point)[unfelt].any():
                break
            near = point  # what was not felt at the start is felt now
        return point

    def felt(self, point: FitPoint) -> np.ndarray:
        """Which coefficients move some reading at a place."""
        return np.linalg.norm(self.matrix(point), axis=0) > 0


class Descent:
    """One way down to the least squares, driven by SciPy's trust-region method.

    Args:
        problem: the least squares.
        start: where it begins.
        free: the positions of the coefficients that move.
        accuracy: when it ends.
        near: a place with its derivative to begin with; None takes one at the start.
    """

    def __init__(
        self,
        problem: FitProblem,
        start: FitPoint,
        free: np.ndarray,
        accuracy: FitAccuracy,
        near: FitPoint | None,
    ):
        self.problem, self.best, self.accuracy = problem, start, accuracy
        self.frame = start.alpha.copy()
        if near is None:
            near = start
        # Coefficients that no reading feels stay where they are: a trust region would be filled
        # with them.
        self.free = free[problem.felt(near)[free]]
        self.slope: np.ndarray | None = None
        self.age = 0  # places since the derivative was taken
        self.trusted = True  # whether the last step was as the derivative had said
        self.base = start  # the place at which the derivative holds
        if near is not start:
            self.slope, self.base = problem.matrix(near), near
            self._learn(start)
            self.base = start

    def _placed(self, values: np.ndarray) -> np.ndarray:
        alpha = self.frame.copy()
        alpha[self.free] = values
        return alpha

    def _residual(self, values: np.ndarray) -> np.ndarray:
        found = self.problem.point(self._placed(values))
        if self.slope is not None and found is not self.base:
            if self.age and not found.cost < self.best.cost:
                raise Outdated
            if found.failure is None:
                self._learn(found)
        if found.cost < self.best.cost:
            self.best = found
        return found.residual

    def _learn(self, found: FitPoint) -> None:
        """Broyden's update: the derivative that explains what a step has shown, and changes
        least.
        """
        assert self.slope is not None
        step = found.alpha - self.base.alpha
        scale = np.linalg.norm(self.slope, axis=0) ** 2
        weighted = scale * step
        length = float(step @ weighted)
        if length > 0:
            missing = found.residual - self.base.residual - self.slope @ step
            close = self.problem.settings.nonlinearity * np.linalg.norm(found.residual)
            # Once it was wrong, it is taken at every place.
            self.trusted = self.trusted and bool(np.linalg.norm(missing) <= close)
            self.slope = self.slope + np.outer(missing, weighted / length)
        if found.cost < self.base.cost:
            self.base = found
            self.age += 1

    def _jacobian(self, values: np.ndarray) -> np.ndarray:
        alpha = self._placed(values)
        here = self.best if np.array_equal(self.best.alpha, alpha) else self.problem.point(alpha)
        old = self.slope is None or self.age > self.problem.settings.oldest
        if not self.accuracy.remembered or old or not self.trusted or here.matrix is not None:
            self._take(here)
        if self.accuracy.reached(self._promised(here), here.cost):
            raise Converged
        assert self.slope is not None
        return self.slope[:, self.free]

    def _take(self, here: FitPoint) -> None:
        """Take the derivative anew."""
        self.slope, self.base, self.age = self.problem.matrix(here), here, 0
        self.problem.iterations += 1

    def _promised(self, here: FitPoint) -> float:
        """By how much the linear model lowers χ² within the bounds."""
        assert self.slope is not None
        if self.problem.loss != "linear":
            return np.inf
        part = self.slope[:, self.free]
        step = -least_change(part, here.residual, self.problem.settings.regularity)
        low, high = (side[self.free] - here.alpha[self.free] for side in self.problem.bounds)
        if np.any(step < low) or np.any(step > high):
            scale = np.maximum(np.linalg.norm(part, axis=0), np.finfo(float).tiny)
            ends = (np.minimum(low * scale, -1e-300), np.maximum(high * scale, 1e-300))
            step = lsq_linear(part / scale, -here.residual, ends).x / scale
        left = here.residual + part @ step
        return max(here.cost - float(left @ left), 0.0)

    def end(self) -> FitPoint:
        """The place where χ² is least."""
        if not len(self.free):
            return self.best
        while True:
            try:
                return self._driven()
            except Converged:
                return self.best
            except Outdated:
                self.trusted = False

    def _driven(self) -> FitPoint:
        problem, settings = self.problem, self.problem.settings
        low, high = (side[self.free] for side in problem.bounds)
        with np.errstate(over="ignore", invalid="ignore"):
            result = least_squares(
                self._residual,
                inside(self.best.alpha[self.free], low, high),
                self._jacobian,
                bounds=(low, high),
                x_scale="jac",
                ftol=settings.change,
                xtol=settings.change,
                gtol=settings.gradient,
                loss=problem.loss,
                max_nfev=settings.steps,
            )
        end = self._placed(result.x)
        return self.best if np.array_equal(self.best.alpha, end) else problem.point(end)


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
