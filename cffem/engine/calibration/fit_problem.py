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

from cffem.engine.assembly.fluxes.transport import check_transport
from cffem.engine.calibration.descent import Descent, FitAccuracy, inside, least_change
from cffem.engine.calibration.robust_loss import LINEAR, ReadingLoss
from cffem.engine.model import Model
from cffem.engine.response.observation_operator import ObservationOperator
from cffem.engine.response.sensitivities import (
    nuisance_matrix,
    null_columns,
    sensitivity_matrix,
)
from cffem.engine.solve_errors import SolveError
from cffem.engine.steady.steady_solve import BranchStart
from cffem.engine.time.amplitudes import modes_of
from cffem.engine.time.wellposed import backward_model
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
        negligible: decrease of χ² by which neither of two successive steps must have gone down; the
            fit ends there where its linear model promises less than ten times as much, with the
            coefficients within a fifth of their standard deviations.
        gradient: as `change`, for the cosine between residual and columns.
        oldest: steps for which a derivative is used with Broyden's corrections.
        nonlinearity: share of the residual by which a step may differ from what the derivative has
            said, beyond which the derivative is taken anew.
        steps: steps at most until the trust region is begun anew.
        restarts: how often that may be.
        shortenings: how often a first step is halved until its solve succeeds.
        largest: residuals beyond this, in units of the noise, count as a solve that failed.
        regularity: singular values of scaled columns below this are null.
    """

    change: float = 1e-8
    decrease: float = 1e-6
    negligible: float = 4e-3
    oldest: int = 2
    nonlinearity: float = 0.2
    gradient: float = 1e-8
    steps: int = 25
    restarts: int = 8
    shortenings: int = 12
    largest: float = 1e12
    regularity: float = 1e-7


SETTINGS = FitSettings()
LATEST = 4  # solutions that are kept to follow a branch of a steady problem from
OPEN_VALLEY = (
    "the readings leave a valley open along which χ² hardly falls while coefficients go on; the "
    "fit ends in it, and profiles tell how far they may go"
)
UNFINISHED = "the fit did not come to an end within its steps; give it a start that is nearer"


def apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How far two sets of coefficients are from each other, in shares of themselves.

    Example:
        >>> apart({"u": 1.0, "lap": 0.0}, {"u": 2.0, "lap": 0.0})
        0.25
    """
    pairs = [(value, other[name]) for name, value in one.items()]
    return sum(((a - b) / max(abs(a), abs(b))) ** 2 for a, b in pairs if a != b)


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
        self.solves = self.tangents = self.adjoints = 0
        self.model = Model(library, coefficients, experiment, options, observer=observer)
        self.operator: ObservationOperator = self.model.observation(observation)
        self.modes = modes_of(self.model) if experiment.uncertain else None
        self._others: dict[tuple[str, ...], Model] = {}
        self._branch: list[BranchStart] = []  # the latest solutions of a nonlinear steady problem

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

    @property
    def amplitudes(self) -> int:
        """How many amplitudes of uncertain data there are."""
        return 0 if self.modes is None else len(self.modes)

    def solve(
        self, coefficients: Mapping[str, float], amplitudes: Sequence[float] = ()
    ) -> Solution:
        """The solution at other coefficients and amplitudes, with its stages."""
        self.solves += 1
        wanted = {**self.fixed, **coefficients}
        change = Intervention(
            tuple((n, "set", float(v)) for n, v in wanted.items()),
            amplitudes=tuple(map(float, amplitudes)),
        )
        model = self.model_for(wanted)
        if model.experiment.time is not None or model.equation.affine or self.amplitudes:
            return model.solve(change, stages=True)
        # The nearest of the latest solutions is nearer than the one at the start of the fit.
        near = min(self._branch, key=lambda one: apart(one.coefficients, wanted), default=None)
        model.follow_from = near
        try:
            found = model.solve(change, stages=True)
        finally:
            model.follow_from = None
        self._branch = [*self._branch, BranchStart(wanted, found.states[0])][-LATEST:]
        return found

    def residual(self, solution: Solution) -> np.ndarray:
        """Readings minus data in units of the noise."""
        operator = solution.model.observation(self.observation)
        return operator.noise.whitened(operator.values(solution) - self.data)

    def columns(self, solution: Solution) -> np.ndarray:
        """The derivative of the residual, terms before amplitudes; columns that are zero in exact
        arithmetic are zero.
        """
        self.tangents += 1
        operator = solution.model.observation(self.observation)
        matrix = sensitivity_matrix(solution, operator, self.names)
        null = null_columns(solution.model, solution, self.names, thorough=False)
        matrix = matrix * np.array([name not in null for name in self.names])
        return np.column_stack([matrix, nuisance_matrix(solution, operator)])

    def backward(self, coefficients: Mapping[str, float]) -> str:
        """Why an equation with these coefficients runs backward in time; empty where it does not
        for certain.
        """
        return backward_model(self.model, coefficients)

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
        loss: what is summed over the residuals; None for squares.
        promised: by how much the linear model of the residual would still lower χ².
    """

    alpha: np.ndarray
    residual: np.ndarray
    solutions: list[Solution] | None = None
    matrix: np.ndarray | None = None
    failure: SolveError | None = None
    loss: ReadingLoss | None = None
    promised: float = 0.0

    @property
    def cost(self) -> float:
        """χ², or the sum of the loss, with priors; infinite where there is no solution."""
        if self.failure is not None:
            return np.inf
        if self.loss is None:
            return float(self.residual @ self.residual)
        return self.loss.total(self.residual)


class FitMemory(Protocol):
    """Remembers places from an earlier run of the same fit, so that it goes on where it was."""

    def recall(self, key: str, alpha: np.ndarray) -> FitPoint | None:
        """What is known of a place."""

    def keep(self, key: str, point: FitPoint) -> None:
        """A place was solved, or its derivative was taken; collective."""


@dataclass
class FitProblem:
    """Least squares over one or several experiments.

    Attributes:
        cases: the experiments with their readings.
        terms: the terms that are fitted.
        bounds: lower and upper ends for each coefficient and then each amplitude.
        prior: mean and standard deviation for each; infinite where nothing is known.
        loss_name: SciPy's name of the loss.
        memory: of an earlier run.
        level: what residuals of readings are divided by besides their noise: the standard deviation
            of readings whose noise is unknown, where priors or outliers are weighed against it.
    """

    cases: list[FitCase]
    terms: tuple[str, ...]
    bounds: tuple[np.ndarray, np.ndarray]
    prior: tuple[np.ndarray, np.ndarray]
    loss_name: str = LINEAR
    settings: FitSettings = SETTINGS
    memory: FitMemory | None = None
    level: float = 1.0
    iterations: int = 0
    unfinished: bool = False  # whether the steps of a fit were used up before its end
    in_valley: bool = False  # whether a fit ended where χ² hardly falls any more
    _last: FitPoint | None = field(default=None, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The terms, and then the amplitudes of uncertain data of each experiment."""
        return (*self.terms, *self.amplitude_names)

    @property
    def amplitude_names(self) -> tuple[str, ...]:
        """The amplitudes; where there are several experiments, with the number of theirs."""
        several = len(self.cases) > 1
        return tuple(
            f"{label} (experiment {k + 1})" if several else label
            for k, case in enumerate(self.cases)
            if case.modes is not None
            for label in case.modes.labels
        )

    @property
    def size(self) -> int:
        """The number of readings."""
        return sum(len(case.data) for case in self.cases)

    @property
    def loss(self) -> ReadingLoss:
        """What is summed over the residuals."""
        return ReadingLoss(self.loss_name, self.size)

    @property
    def solves(self) -> int:
        """How many problems were solved."""
        return sum(case.solves for case in self.cases)

    @property
    def tangents(self) -> int:
        """How many tangent sweeps were made."""
        return sum(case.tangents for case in self.cases)

    @property
    def adjoints(self) -> int:
        """How many adjoint solves were made."""
        return sum(case.adjoints for case in self.cases)

    def unit(self, cost: float) -> float:
        """What χ² is divided by to be one of noise: one, or the variance that residuals show."""
        noise_known = self.cases[0].operator.noise.known or self.level != 1.0
        return 1.0 if noise_known else cost / max(self.size - len(self.names), 1)

    @property
    def has_prior(self) -> bool:
        """Whether something is known of a coefficient or an amplitude beforehand."""
        return bool(np.isfinite(self.prior[1]).any())

    def point(self, alpha: np.ndarray) -> FitPoint:
        """Solve at some coefficients; the last place is kept."""
        if self._last is not None and np.array_equal(self._last.alpha, alpha):
            return self._last
        found = self.memory.recall(self._key(alpha), alpha) if self.memory else None
        if found is None:
            found = self._solved(alpha)
            if self.memory:
                self.memory.keep(self._key(alpha), found)
        found.loss = self.loss
        self._last = found
        return found

    def _key(self, alpha: np.ndarray) -> str:
        """What a place is called in the memory: a hash of all that determines it."""
        own = dict(zip(self.names, alpha, strict=True))
        values = {**self.cases[0].fixed, **own}
        text = " ".join(f"{name}={float(values[name]).hex()}" for name in sorted(values))
        unit = "" if self.level == 1.0 else f" / {self.level.hex()}"
        return hashlib.sha256(f"{' '.join(self.names)}: {text}{unit}".encode()).hexdigest()[:16]

    def _solved(self, alpha: np.ndarray) -> FitPoint:
        mean, spread = self.prior
        pull = ((alpha - mean) / spread)[np.isfinite(spread)]
        try:
            solutions = self._solutions(alpha)
            pairs = zip(self.cases, solutions, strict=True)
            parts = [case.residual(solution) / self.level for case, solution in pairs]
            residual = np.concatenate([*parts, pull])
            if not np.all(np.abs(residual) < self.settings.largest):
                raise SolveError("the readings grow beyond all bounds", cause="blow-up")
            return FitPoint(alpha.copy(), residual, solutions)
        except SolveError as error:
            nothing = np.full(self.size + len(pull), np.inf)
            return FitPoint(alpha.copy(), nothing, failure=error)

    def amplitudes_of(self, alpha: np.ndarray) -> list[np.ndarray]:
        """The amplitudes of each experiment at a place."""
        ends = np.cumsum([case.amplitudes for case in self.cases])
        return np.split(alpha[len(self.terms) :], ends[:-1])

    def _solutions(self, alpha: np.ndarray) -> list[Solution]:
        coefficients = {n: float(a) for n, a in zip(self.terms, alpha, strict=False)}
        return [
            case.solve(coefficients, amplitudes)
            for case, amplitudes in zip(self.cases, self.amplitudes_of(alpha), strict=True)
        ]

    def solutions(self, point: FitPoint) -> list[Solution]:
        """The solutions at a place, solved again where only its readings are remembered."""
        if point.solutions is None:
            point.solutions = self._solutions(point.alpha)
        return point.solutions

    def matrix(self, point: FitPoint) -> np.ndarray:
        """The derivative of the residual at a place; one tangent sweep for each experiment."""
        if point.matrix is None:
            pairs = zip(self.cases, self.solutions(point), strict=True)
            blocks = [case.columns(solution) / self.level for case, solution in pairs]
            count = len(self.terms)
            rows = np.zeros((self.size, len(self.names)))
            rows[:, :count] = np.concatenate([block[:, :count] for block in blocks])
            first, column = 0, count
            for block in blocks:
                # Amplitudes of one experiment are not seen by another.
                own = block[:, count:]
                rows[first : first + len(own), column : column + own.shape[1]] = own
                first, column = first + len(own), column + own.shape[1]
            spread = self.prior[1]
            held = np.isfinite(spread)
            point.matrix = np.concatenate([rows, np.diag(1 / spread)[held]])
            if self.memory:
                self.memory.keep(self._key(point.alpha), point)
        return point.matrix

    def levelled(self, level: float, point: FitPoint) -> tuple[FitProblem, FitPoint]:
        """The same least squares with readings of another noise level, and the same place of it."""
        other = replace(self, level=level, _last=None)
        count, factor = self.size, self.level / level
        residual = point.residual.copy()
        residual[:count] *= factor
        matrix = None if point.matrix is None else point.matrix.copy()
        if matrix is not None:
            matrix[:count] *= factor
        moved = FitPoint(point.alpha, residual, point.solutions, matrix, loss=other.loss)
        other._last = moved
        return other, moved

    def keeping(self, names: Sequence[str], point: FitPoint) -> tuple[FitProblem, FitPoint]:
        """The same least squares with fewer terms, and a place of it at which the others are zero.

        Args:
            names: the terms that are kept; amplitudes all are.
            point: the place here.
        """
        names = tuple(n for n in self.terms if n in names)
        kept = (*names, *self.amplitude_names)
        index = [self.names.index(name) for name in kept]
        cases = [case.keeping(names) for case in self.cases]
        (low, high), (mean, spread) = self.bounds, self.prior
        smaller = replace(
            self,
            cases=cases,
            terms=names,
            bounds=(low[index], high[index]),
            prior=(mean[index], spread[index]),
            in_valley=False,
            _last=None,
        )
        held = np.flatnonzero(np.isfinite(spread))
        rows = [*range(self.size), *(self.size + k for k, j in enumerate(held) if j in index)]
        matrix = None if point.matrix is None else point.matrix[np.ix_(rows, index)]
        place = FitPoint(
            point.alpha[index], point.residual[rows], point.solutions, matrix, loss=point.loss
        )
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
        sized = bool(np.any(full) or held)
        if not sized:
            point = self.first_step(point)
        wanted = accuracy or FitAccuracy(self.settings.decrease, self.settings.change)
        for _ in free:
            descent = Descent(self, point, free, wanted, near, sized)
            point = descent.end()
            unfelt = np.setdiff1d(free, descent.free)
            if not len(unfelt) or not self.felt(point)[unfelt].any():
                break
            near = point  # what was not felt at the start is felt now
        return point

    def felt(self, point: FitPoint) -> np.ndarray:
        """Which coefficients move some reading at a place."""
        return np.linalg.norm(self.matrix(point), axis=0) > 0
