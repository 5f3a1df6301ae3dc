# SPDX-License-Identifier: MIT
"""Profile likelihood of one coefficient: hold it, fit the others again, and follow Δχ².

The signed root z(a) = ±√Δχ²(a) is a straight line where the fit is linear, so that a secant finds
the ends of the interval, z = ±z_95, in a few fits. Where Δχ² stays below that however far one goes,
the readings do not bound the coefficient on that side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.calibration.descent import FitAccuracy, least_change
from cffem.engine.calibration.fit_problem import FitPoint, FitProblem
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class ProfileSearch:
    """How the ends of a profile are looked for.

    Attributes:
        closeness: accuracy of z at an end.
        fits: fits on each side at most.
        failures: solves that may fail on the way of a coefficient that is brought there in parts.
        profile_failures: the same on the way to one place of a profile.
        gap: where there is no solution beyond, how closely that place is looked for, relative to
            its distance.
        growth: factor by which a step may grow at most.
        far: local standard deviations beyond which a side counts as unbounded.
        coarse: relative accuracy of Δχ².
        fine: absolute accuracy of Δχ² that is enough.
        decisive: Δχ² from which it is clear that the readings do not allow a value, ten standard
            deviations; the 95 % quantile is 3.84, so that a forecast may be wrong by a factor 26.
    """

    closeness: float = 0.02
    fits: int = 10
    failures: int = 3
    profile_failures: int = 1
    gap: float = 0.1
    growth: float = 3.0
    far: float = 100.0
    coarse: float = 0.02
    fine: float = 1e-3
    decisive: float = 100.0


SEARCH = ProfileSearch()


@dataclass(frozen=True)
class CoefficientProfile:
    """The profile of one coefficient.

    Attributes:
        name: the term.
        values: the coefficients at which the others were fitted again, increasing.
        delta_chi2: Δχ² at each.
        interval: where Δχ² is below its 95 % quantile; infinite ends are not bounded by the
            readings.
        reason: why an end is not bounded, in words; empty where both are.
    """

    name: str
    values: tuple[float, ...]
    delta_chi2: tuple[float, ...]
    interval: tuple[float, float]
    reason: str = ""

    @property
    def bounded(self) -> bool:
        """Whether the readings bound the coefficient on both sides."""
        return bool(np.isfinite(self.interval).all())


Held = Mapping[int, float]  # values of coefficients that stay, by their position


def shifted(problem: FitProblem, point: FitPoint, held: Held) -> np.ndarray:
    """The coefficients that least squares would give to first order with some of them held."""
    matrix = problem.matrix(point)
    others = [j for j in range(len(problem.names)) if j not in held]
    alpha = _moved(point, held)
    push = matrix @ (alpha - point.alpha)
    if others:
        alpha[others] -= least_change(matrix[:, others], push, problem.settings.regularity)
    return np.clip(alpha, *problem.bounds)


def held_fit(
    problem: FitProblem,
    near: FitPoint,
    held: Held,
    base: float,
    unit: float,
    closely: bool = True,
    failures: int = SEARCH.failures,
) -> FitPoint:
    """The others fitted with some coefficients held, as closely as Δχ² asks for.

    Args:
        problem: the least squares.
        near: a fit to start from.
        held: the coefficients that stay.
        base: the least χ².
        unit: σ², by which χ² is divided where the noise level is estimated.
        closely: whether the fit goes on where its Δχ² is decisive.
        failures: solves that may fail on the way there.

    Raises:
        SolveError: no way there has solutions.
    """
    decisive = np.inf if closely else SEARCH.decisive * unit
    wanted = FitAccuracy(SEARCH.fine * unit, SEARCH.coarse, base, True, decisive)
    return brought(problem, near, held, wanted, failures)


def brought(
    problem: FitProblem,
    near: FitPoint,
    held: Held,
    wanted: FitAccuracy,
    most: int = SEARCH.failures,
) -> FitPoint:
    """The others fitted with some coefficients held, brought there in parts where a solve fails.

    Raises:
        SolveError: no way there has solutions.
    """
    for start in (shifted(problem, near, held), _moved(near, held)):
        try:
            return problem.fitted(start, held, wanted, near)
        except SolveError as error:
            failure = error
    here, done, step, failures = near, 0.0, 0.5, 0
    while done < 1.0:
        share = done + step * (1.0 - done)
        target = {j: near.alpha[j] + share * (value - near.alpha[j]) for j, value in held.items()}
        try:
            here = problem.fitted(shifted(problem, here, target), target, wanted, here)
            done, step = share, min(1.0, 2 * step)
        except SolveError:
            step, failures = step / 2, failures + 1
            clear = here.cost - here.promised - wanted.base >= wanted.decisive
            if clear or failures >= most:
                raise PartlyHeld(failure, here, done) from None
    return here


class PartlyHeld(SolveError):
    """Coefficients cannot be brought to where they are to be held; a part of the way has solutions.

    Args:
        failure: why not all of it.
        point: the fit at the end of that part.
        share: how far it goes, between 0 and 1.
    """

    def __init__(self, failure: SolveError, point: FitPoint, share: float):
        super().__init__(str(failure), cause=failure.cause)
        self.point, self.share = point, share


def _moved(point: FitPoint, held: Held) -> np.ndarray:
    alpha = point.alpha.copy()
    for j, value in held.items():
        alpha[j] = value
    return alpha


def profile_of(
    problem: FitProblem, best: FitPoint, index: int, deviation: float, unit: float, quantile: float
) -> CoefficientProfile:
    """The profile of one coefficient.

    Args:
        problem: the least squares.
        best: its solution.
        index: the coefficient.
        deviation: its local standard deviation.
        unit: σ², by which χ² is divided where the noise level is estimated.
        quantile: of z at the ends.
    """
    centre = float(best.alpha[index])
    found: list[tuple[float, float]] = [(centre, 0.0)]
    ends, reasons = [], []
    for side in (-1.0, 1.0):
        end, more, reason = _end(problem, best, index, side, deviation, unit, quantile)
        ends.append(end)
        found += more
        reasons += [reason] if reason else []
    found.sort()
    values, deltas = zip(*found, strict=True)
    return CoefficientProfile(
        problem.names[index], values, deltas, (ends[0], ends[1]), "; ".join(reasons)
    )


def _between(inner: tuple[float, float], outer: tuple[float, float], quantile: float) -> float:
    """Where z is its quantile between two distances with their z; halfway where one has none."""
    if np.isinf(outer[1]):
        return (inner[0] + outer[0]) / 2
    share = (quantile - inner[1]) / (outer[1] - inner[1])
    return inner[0] + float(np.clip(share, 0.05, 0.95)) * (outer[0] - inner[0])


def _end(
    problem: FitProblem,
    best: FitPoint,
    index: int,
    side: float,
    deviation: float,
    unit: float,
    quantile: float,
) -> tuple[float, Sequence[tuple[float, float]], str]:
    """One end of a profile, the places tried, and why there is none."""
    centre, limit = float(best.alpha[index]), problem.bounds[0 if side < 0 else 1][index]
    where = "below" if side < 0 else "above"
    tried: list[tuple[float, float]] = []
    inner, outer = (0.0, 0.0), None  # (distance, z) on either side of the end
    distance, near, reach = quantile * deviation, best, abs(limit - centre)
    if problem.in_valley and centre:
        distance = min(distance, abs(centre))  # deviations there say nothing
    if np.isfinite(reach) and reach <= 1e-9 * max(abs(limit), deviation):
        return float(limit), tried, ""
    for _ in range(SEARCH.fits):
        # At a bound of the fit the readings are asked, too.
        distance = min(distance, reach)
        value = centre + side * distance if distance < reach else float(limit)
        try:
            point = held_fit(
                problem,
                near,
                {index: value},
                best.cost,
                unit,
                failures=SEARCH.profile_failures,
            )
        except SolveError as error:
            # There is no solution there: the end is there, or where the last one was or before it.
            outer = (distance, np.inf)
            if isinstance(error, PartlyHeld) and error.share > 0:
                reached = abs(float(error.point.alpha[index]) - centre)
                z = float(np.sqrt(max(error.point.cost - best.cost, 0.0) / unit))
                tried.append((centre + side * reached, z**2))
                if z < quantile:
                    inner, near = (reached, z), error.point
                else:
                    outer = (reached, z)
            if outer[0] - inner[0] <= SEARCH.gap * outer[0]:
                return centre + side * outer[0], tried, ""
            distance = _between(inner, outer, quantile)
            continue
        delta = max(point.cost - best.cost, 0.0) / unit
        tried.append((value, delta))
        z = float(np.sqrt(delta))
        if abs(z - quantile) <= SEARCH.closeness:
            return value, tried, ""
        if z < quantile and distance >= reach:
            return float(limit), tried, ""
        if z < quantile:
            inner, near = (distance, z), point
        else:
            outer = (distance, z)
        if outer is None:
            if distance > SEARCH.far * deviation:
                return side * np.inf, tried, f"the readings do not bound it {where}"
            factor = quantile / z if z > 0 else SEARCH.growth
            distance *= min(max(factor, 1.05), SEARCH.growth)
        else:
            distance = _between(inner, outer, quantile)
    if outer is None:
        return side * np.inf, tried, f"the readings do not bound it {where}"
    return centre + side * distance, tried, ""
