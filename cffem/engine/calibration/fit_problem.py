# SPDX-License-Identifier: MIT
"""Weighted least squares on readings by solving again: residuals, their derivative, and the driver.

    χ²(α) = ‖C^(−½) (𝒪[u(α)] − d)‖²,      ∂/∂α_j = C^(−½) 𝒪 L_u⁻¹ T_j.

SciPy's trust-region method takes the steps; ours is the derivative. One model serves all
iterations: spaces, forms, matrices of terms and the symbolic factorisation are made once, and other
coefficients are other numbers. A solve that fails has no residual, and the step is shortened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from cffem.engine.calibration.descent import Descent, FitAccuracy, inside, least_change
from cffem.engine.calibration.fit_case import FitCase
from cffem.engine.calibration.robust_loss import LINEAR, ReadingLoss
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from cffem.engine.solution import Solution


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
LATEST = 4  # places of a fit from which the branch of a steady problem is followed
OPEN_VALLEY = (
    "the readings leave a valley open along which χ² hardly falls while coefficients go on; the "
    "fit ends in it, and profiles tell how far they may go"
)
UNFINISHED = "the fit did not come to an end within its steps; give it a start that is nearer"


def apart(one: np.ndarray, other: np.ndarray) -> float:
    """How far two places are from each other, in shares of their coefficients.

    Example:
        >>> apart(np.array([1.0, 0.0]), np.array([2.0, 0.0]))
        0.25
    """
    size = np.maximum(np.abs(one), np.abs(other))
    return float(np.sum(((one - other) / np.where(size > 0, size, 1.0)) ** 2))


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
    _known: list[FitPoint] = field(default_factory=list, repr=False)  # of this fit, the latest

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
        if found.failure is None and self.cases[0].follows:
            self._known = [*self._known, found][-LATEST:]
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
            solutions = self._solutions(alpha, self._known)
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

    def _solutions(self, alpha: np.ndarray, known: Sequence[FitPoint]) -> list[Solution]:
        """The solutions at a place, of nonlinear steady problems those on the branch from the
        nearest place that is known.
        """
        near: Sequence[Solution | None] = [None] * len(self.cases)
        if known:
            near = self.solutions(min(known, key=lambda point: apart(point.alpha, alpha)))
        coefficients = {n: float(a) for n, a in zip(self.terms, alpha, strict=False)}
        parts = zip(self.cases, self.amplitudes_of(alpha), near, strict=True)
        return [case.solve(coefficients, amplitudes, one) for case, amplitudes, one in parts]

    def solutions(self, point: FitPoint) -> list[Solution]:
        """The solutions at a place, solved again where only its readings are remembered."""
        if point.solutions is None:
            point.solutions = self._solutions(point.alpha, ())
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
        # What earlier fits have tried decides nothing here.
        self._known = [] if near is None or not self.cases[0].follows else [near]
        point = self.point(full)
        if point.failure is not None:
            raise point.failure
        if not len(free):
            return point
        sized = bool(np.any(start) or held)
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
