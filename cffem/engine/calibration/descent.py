# SPDX-License-Identifier: MIT
"""One way down to the least squares: SciPy's trust-region method with the derivative of the model.

A derivative is used for a few steps, corrected by what each solve shows (Broyden's update), and
taken anew where it was wrong. The region of trust is measured in shares of the coefficients: where
readings leave a narrow curved valley, steps as large as the readings alone allow leave it, and the
way back takes many solves. The descent ends when the linear model of the residual promises no more
than what is asked for, or when what is asked is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import least_squares, lsq_linear

if TYPE_CHECKING:
    from cffem.engine.calibration.fit_problem import FitPoint, FitProblem


@dataclass(frozen=True)
class TrustLengths:
    """What the region of trust is measured in.

    Attributes:
        small: the least effect on the readings that a coefficient may have at first, as a share of
            the typical one, however near it is to zero.
        agreement: ratio of two successive forecasts of the least χ² above its base, from which they
            agree.
    """

    small: float = 0.03
    agreement: float = 0.5


LENGTHS = TrustLengths()


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
        decisive: χ² above `base` from which no more need be known; a fit ends where two successive
            forecasts of its end, χ² less what the linear model promises, are above it and agree.
    """

    decrease: float
    relative: float
    base: float = 0.0
    remembered: bool = False
    decisive: float = np.inf

    def reached(self, promised: float, cost: float) -> bool:
        """Whether the promised decrease is small enough."""
        above = max(cost - self.base, 0.0)
        if self.base:
            return promised <= max(self.decrease, self.relative * above)
        return promised <= min(self.decrease, self.relative * above)


class Descent:
    """One way down to the least squares, driven by SciPy's trust-region method.

    Args:
        problem: the least squares.
        start: where it begins.
        free: the positions of the coefficients that move.
        accuracy: when it ends.
        near: a place with its derivative to begin with; None takes one at the start.
        sized: whether the start tells how large the coefficients are.
    """

    def __init__(
        self,
        problem: FitProblem,
        start: FitPoint,
        free: np.ndarray,
        accuracy: FitAccuracy,
        near: FitPoint | None,
        sized: bool = True,
    ):
        self.problem, self.best, self.accuracy = problem, start, accuracy
        self.sized = sized
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
        self.costs: list[float] = []  # at each place where it is asked whether to go on
        self.forecast = 0.0  # of the least χ² above the base of the accuracy
        if near is not start:
            self.slope, self.base = problem.matrix(near), near
            self._learn(start)
            # It is not that of the start, however good the start is.
            self.base, self.age = start, max(self.age, 1)

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
        return found.residual.copy()  # SciPy scales what it gets in place where a loss is robust

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
        here.promised = self._promised(here)
        if self.accuracy.reached(here.promised, here.cost) or self._decided(here):
            raise Converged
        if self._crawls(here):
            self.problem.in_valley = True
            raise Converged
        assert self.slope is not None
        return self.slope[:, self.free]

    def _take(self, here: FitPoint) -> None:
        """Take the derivative anew."""
        self.slope, self.base, self.age = self.problem.matrix(here), here, 0
        self.problem.iterations += 1

    def _decided(self, here: FitPoint) -> bool:
        """Whether this forecast of the end and the one before it are decisive and agree."""
        before = self.forecast
        self.forecast = here.cost - here.promised - self.accuracy.base
        small, large = sorted((before, self.forecast))
        return small >= max(self.accuracy.decisive, LENGTHS.agreement * large)

    def _crawls(self, here: FitPoint) -> bool:
        """Whether χ² has hardly fallen in two steps, by less than was promised, which is little."""
        self.costs.append(here.cost)
        if len(self.costs) < 3:
            return False
        least = self.problem.settings.negligible * self.problem.unit(here.cost)
        before = self.costs[-3:]
        gains = before[0] - before[1], before[1] - before[2]
        return max(gains) < least and gains[1] < here.promised < 10 * least

    def _promised(self, here: FitPoint) -> float:
        """By how much the linear model lowers χ² within the bounds."""
        assert self.slope is not None
        if not self.problem.loss.squares:
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
                # The derivative is taken anew at the best place, which need not be solved again.
                self.trusted, self.slope, self.age = False, None, 0
                self.base = self.problem._last = self.best

    def _driven(self) -> FitPoint:
        """SciPy's method, begun again with a new trust region where its steps are used up."""
        for k in range(self.problem.settings.restarts):
            before = self.best.cost
            end, finished = self._round(self.sized or k > 0)
            if finished:
                return end
            gain = before - self.best.cost
            if not gain > self.problem.settings.decrease:
                break
        self.problem.unfinished = True
        return self.best

    def _lengths(self) -> np.ndarray:
        """How far each coefficient may go at first: as far as it is from zero; where it is zero, as
        far as changes the readings as much as the others do.
        """
        slope = self.problem.matrix(self.best) if self.slope is None else self.slope
        columns = np.linalg.norm(slope[:, self.free], axis=0)
        columns = np.where(columns > 0, columns, 1.0)
        values = np.abs(self.best.alpha[self.free])
        effects = values * columns
        # No less than a share of what the readings are off: a step that is too short ends nothing.
        least = LENGTHS.small * float(np.linalg.norm(self.best.residual))
        size = float(np.linalg.norm(effects)) / np.sqrt(max(np.count_nonzero(effects), 1))
        typical = max(size, least, np.finfo(float).tiny) / columns
        return np.where(effects > 0, np.maximum(values, LENGTHS.small * typical), typical)

    def _round(self, sized: bool) -> tuple[FitPoint, bool]:
        problem, settings = self.problem, self.problem.settings
        low, high = (side[self.free] for side in problem.bounds)
        with np.errstate(over="ignore", invalid="ignore"):
            result = least_squares(
                self._residual,
                inside(self.best.alpha[self.free], low, high),
                self._jacobian,
                bounds=(low, high),
                x_scale=self._lengths() if sized else "jac",
                ftol=settings.change,
                xtol=settings.change,
                gtol=settings.gradient,
                loss="linear" if problem.loss.squares else problem.loss,
                max_nfev=settings.steps,
            )
        end = self._placed(result.x)
        here = self.best if np.array_equal(self.best.alpha, end) else problem.point(end)
        return here, result.status != 0


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
