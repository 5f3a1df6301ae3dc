# SPDX-License-Identifier: MIT
"""Calibration: the coefficients that explain readings of few sensors, by solving the model again.

Regression on terms needs the whole field; a dozen sensors do not give it. Here the model is solved
for trial coefficients and compared with the readings where they were taken (`fit_problem`).
Intervals come from the sensitivity design at the solution, from profiles where the fit is
nonlinear, and say "not identified" where sensors cannot tell. Deleting a term and fitting the
others again gives Δχ²: whether the data need the term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from cffem.engine.calibration.coefficient_profile import (
    SEARCH,
    CoefficientProfile,
    PartlyHeld,
    held_fit,
    profile_of,
)
from cffem.engine.calibration.fit_case import FitCase
from cffem.engine.calibration.fit_problem import (
    OPEN_VALLEY,
    UNFINISHED,
    FitPoint,
    FitProblem,
)
from cffem.engine.calibration.residual_tests import ResidualTests, residual_tests
from cffem.engine.calibration.term_selection import TermSelection, select_terms
from cffem.engine.calibration.unknown_level import needs_level, scaled
from cffem.engine.model import Model
from cffem.engine.response.sensitivities import (
    null_columns,
    sensitivity_design,
    unanchored,
    without_nuisance,
)
from cffem.engine.solve_errors import SolveError
from cffem.engine.time.amplitudes import with_amplitudes
from cffem.symbols.errors import InputError, nearest

if TYPE_CHECKING:
    from cffem import Design
    from cffem.symbols.problem.experiment import Experiment

LEVEL = 0.95  # of all intervals
OUTLIER = 3.0  # standard deviations beyond which a reading is clipped in tests of a robust fit
# Δχ² at a part of a deletion from which the readings need the term, whatever the whole would give.
PART_DECIDES = 10.0
UNDECIDED = (
    "the refit without it did not come to its end, where Δχ² could be as small as {:.3g}, so that "
    "it does not decide"
)


@dataclass(frozen=True)
class DeletionFit:
    """A term deleted and the others fitted again.

    Attributes:
        name: the deleted term.
        coefficients: of the other terms.
        delta_chi2: by how much χ² grows; where the noise level is unknown, in units of its
            estimate with the term. Where this is decisive the refit ends early, and this is the
            smaller of two forecasts of its end that agree.
        at_most: by how much it grows with the coefficients here; close to `delta_chi2` where the
            refit was followed to its end.
        p_value: the probability of a Δχ² that large if the term is not there (χ² with one degree of
            freedom; the F distribution where the noise level is estimated).
        warning: that only a part of the term could be taken away, for which Δχ² and the
            coefficients are, or that the equation with these coefficients runs backward in time, so
            that its solution, and Δχ², depend on the mesh; empty where neither is so.
    """

    name: str
    coefficients: dict[str, float]
    delta_chi2: float
    p_value: float
    warning: str = ""
    at_most: float = float("nan")

    @property
    def needed(self) -> bool:
        """Whether the data need the term, at the level of the intervals."""
        return self.p_value < 1 - LEVEL


class Calibration:
    """Fitted coefficients; made by `calibrate`.

    Attributes:
        coefficients: by term, those that were held included.
        amplitudes: of uncertain initial and boundary values, by their names.
        chi2: Σ (residual/noise)², or the sum of a robust loss; with an unknown noise level in units
            of its estimate.
        readings: how many readings there are.
        noise_level: the estimated standard deviation where it is unknown, else 1.
        spread: the standard deviation of residuals in the units of `best`, 1 where these are those
            of the noise.
        unit: what the growth of the cost is divided by to be a Δχ².
        iterations: steps with a tangent sweep.
        unfinished: whether its steps were used up before its end.
        in_valley: whether it ended where χ² hardly falls while coefficients go on.
        best: the place of the fit.
    """

    def __init__(self, problem: FitProblem, best: FitPoint):
        self._problem, self.best = problem, best
        case = problem.cases[0]
        self.names = problem.terms
        count = len(self.names)
        self.coefficients = {
            **case.fixed,
            **dict(zip(self.names, map(float, best.alpha[:count]), strict=True)),
        }
        self.amplitudes = dict(
            zip(problem.amplitude_names, map(float, best.alpha[count:]), strict=True)
        )
        self.readings = problem.size
        self.noise_known = case.operator.noise.known
        self.iterations, self.unfinished = problem.iterations, problem.unfinished
        self.in_valley = problem.in_valley
        self.residuals = best.residual[: self.readings]
        values = np.linalg.svd(scaled(problem.matrix(best)[: self.readings]), compute_uv=False)
        rank = int(np.sum(values > problem.settings.regularity * values.max(initial=0.0)))
        freedom = self.readings - rank
        total = problem.loss.total(self.residuals)
        self.degrees, self.spread = freedom, 1.0
        if not self.noise_known and not needs_level(problem):
            self.spread = float(np.sqrt(total / freedom)) if freedom > 0 else float("nan")
        self.noise_level = 1.0 if self.noise_known else problem.level * self.spread
        self._variance, unit = problem.loss.factors(best.residual, rank)
        self.unit = self.spread**2 * unit
        self.chi2 = total / self.unit

    def completed(self) -> Calibration:
        """The fit with its design, so that one rank can read deviations and intervals by itself;
        collective.
        """
        self.design  # noqa: B018 - kept from here on
        self.amplitude_deviations  # noqa: B018
        return self

    @cached_property
    def matrix(self) -> np.ndarray:
        """The derivative of the residual with respect to the coefficients, after amplitudes of
        uncertain data have taken their part; rows of priors last.
        """
        whole = self._problem.matrix(self.best).copy()
        whole[: self.readings] /= np.sqrt(self._variance)
        count = len(self.names)
        return without_nuisance(whole[:, :count], whole[:, count:])

    @cached_property
    def design(self) -> Design:
        """The sensitivity design at the fitted coefficients: rank, alias groups, deviations."""
        problem, best = self._problem, self.best
        case = problem.cases[0]
        null: dict[str, str] = {}
        for number, solution in enumerate(problem.solutions(best)):
            here = null_columns(solution.model, solution, self.names)
            null = here if number == 0 else {n: w for n, w in null.items() if n in here}
        about: dict[str, object] = {
            "observation": repr(case.observation),
            "noise known": self.noise_known,
        }
        if self.amplitudes:
            about["projected out"] = tuple(self.amplitudes)
        return sensitivity_design(
            self.matrix, self.names, self.coefficients, null, about, unanchored(case.model)
        )

    @cached_property
    def deviations(self) -> dict[str, float]:
        """Standard deviations by term, from the design; infinite where not identified."""
        return {n: self.spread * d for n, d in self.design.deviations().items()}

    @cached_property
    def amplitude_deviations(self) -> dict[str, float]:
        """Standard deviations of amplitudes of uncertain data; infinite where the readings and
        priors leave them open.
        """
        whole = self._problem.matrix(self.best).copy()
        whole[: self.readings] /= np.sqrt(self._variance)
        count, found = len(self.names), {}
        felt = [j for j in range(count) if np.any(self.matrix[:, j])]
        for k, name in enumerate(self.amplitudes):
            others = [*felt, *(j for j in range(count, whole.shape[1]) if j != count + k)]
            column = without_nuisance(whole[:, [count + k]], whole[:, others])
            size = float(np.linalg.norm(column))
            found[name] = self.spread / size if size > 0 else np.inf
        return found

    @cached_property
    def experiments(self) -> list[Experiment]:
        """The experiments with the estimated amplitudes in their data."""
        parts = self._problem.amplitudes_of(self.best.alpha)
        return [
            with_amplitudes(case.model, amplitudes) if case.amplitudes else case.experiment
            for case, amplitudes in zip(self._problem.cases, parts, strict=True)
        ]

    @property
    def quantile(self) -> float:
        """Deviations on each side of an interval: of Student's distribution where the noise level
        is estimated.
        """
        if self.noise_known:
            return float(stats.norm.ppf((1 + LEVEL) / 2))
        return float(stats.t.ppf((1 + LEVEL) / 2, max(self.degrees, 1)))

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """95 % intervals by term, to first order about the fit; infinite where not identified."""
        return {
            name: (
                self.coefficients[name] - self.quantile * spread,
                self.coefficients[name] + self.quantile * spread,
            )
            for name, spread in self.deviations.items()
        }

    @property
    def identified(self) -> tuple[str, ...]:
        """The terms whose coefficients the readings determine."""
        return tuple(name for name, spread in self.deviations.items() if np.isfinite(spread))

    @cached_property
    def model(self) -> Model:
        """The model with the fitted coefficients, in the first experiment; it shares spaces and
        matrices with the fit.
        """
        case = self._problem.cases[0]
        if case.amplitudes:
            return Model(case.library, self.coefficients, self.experiments[0], case.options)
        return case.model.with_coefficients(self.coefficients)

    @cached_property
    def tests(self) -> ResidualTests:
        """Whether the residuals are what noise leaves."""
        series, start = [], 0
        for case in self._problem.cases:
            series += [start + s for s in case.operator.series]
            start += len(case.data)
        fitted, squares = self.readings - self.degrees, self._problem.loss.squares
        # Outliers are expected where the loss is robust: they neither count in χ² nor in the
        # correlation.
        limit = np.inf if squares else OUTLIER * self.spread
        residuals = np.clip(self.residuals, -limit, limit)
        return residual_tests(residuals, series, fitted, self.noise_known and squares)

    @property
    def cases(self) -> list[FitCase]:
        """The experiments with their readings and models."""
        return self._problem.cases

    @property
    def solves(self) -> int:
        """Problems solved so far, those of deletions and profiles included."""
        return self._problem.solves

    @property
    def tangents(self) -> int:
        """Tangent sweeps so far."""
        return self._problem.tangents

    @property
    def adjoints(self) -> int:
        """Adjoint solves so far."""
        return self._problem.adjoints

    @property
    def notes(self) -> tuple[str, ...]:
        """What one should know about the fit, in sentences."""
        said = [self.tests.misfit] if self.tests.misfit else []
        said += [UNFINISHED] if self.unfinished else []
        said += [OPEN_VALLEY] if self.in_valley else []
        backward = self._backward(self.coefficients)
        said += [backward] if backward else []
        said += [str(group) for group in self.design.alias_groups()]
        if self.readings < len(self.names):
            said.append(f"{self.readings} readings cannot determine {len(self.names)} coefficients")
        blind = self._blind()
        if blind:
            said.append(f"{blind[0]} feels no coefficient" + _and_more(len(blind) - 1))
        low, high = self._problem.bounds
        if self.amplitudes:
            said.append(
                f"{len(self.amplitudes)} amplitudes of uncertain data are estimated beside the "
                "coefficients and projected out of what these are told by"
            )
        for name, a, b, value in zip(self._problem.names, low, high, self.best.alpha, strict=True):
            if min(value - a, b - value) <= 1e-6 * max(abs(value), 1e-12):
                said.append(f"{name} is at its bound, {value:g}; its interval does not know of it")
        return tuple(said)

    def _blind(self) -> list[str]:
        """Readings that no coefficient moves, as on a boundary with prescribed values."""
        matrix = np.abs(self._problem.matrix(self.best)[: self.readings])
        size = matrix.max(axis=0, initial=0.0)
        share = (matrix / np.where(size > 0, size, 1.0)).max(axis=1, initial=0.0)
        labels = [label for case in self._problem.cases for label in case.operator.labels]
        # What is known at the start is read there by every sensor; only sensors that are blind at
        # all times are worth a sentence.
        sensors: dict[str, list[bool]] = {}
        for label, value in zip(labels, share, strict=True):
            sensors.setdefault(label.split(" at t = ")[0], []).append(bool(value < 1e-12))
        return [sensor for sensor, all_blind in sensors.items() if all(all_blind)]

    # What the data decide
    # ----------------------------------------------------------------------------------------------

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise InputError(f"{name!r} was not fitted; {nearest(name, self.names)}")
        return self.names.index(name)

    def without(self, name: str, closely: bool = False) -> DeletionFit:
        """Delete a term and fit the others again. The experiment stays as it is, essential
        conditions that the deleted equation could not carry included, so that the smaller model is
        one of the larger ones and Δχ² has its distribution.

        Args:
            name: the term.
            closely: whether the others are fitted to the end where it is clear long before, at ten
                standard deviations, that the readings need the term.

        Raises:
            SolveError: the equation without it has no solution on the way there.
        """
        index = self._index(name)
        low, high = (side[index] for side in self._problem.bounds)
        if not low <= 0 <= high:
            raise InputError(f"the bounds of {name!r} leave out zero, so that it cannot be deleted")
        note = ""
        try:
            unit = self.unit
            point = held_fit(self.forward, self.best, {index: 0.0}, self.best.cost, unit, closely)
        except SolveError as error:
            part = error if isinstance(error, PartlyHeld) and error.share > 0 else None
            if part is None or part.point.cost - self.best.cost < PART_DECIDES * unit:
                raise SolveError(
                    f"without {name!r} no coefficients of the others were found that have a "
                    f"solution: {error}",
                    cause=error.cause,
                ) from None
            point = part.point
            note = (
                f"already without {100 * part.share:.3g} % of its coefficient; no solution was "
                "found beyond"
            )
        reached = max(point.cost - self.best.cost, 0.0) / self.unit
        promised = point.promised / self.unit
        decided = not closely and reached - promised >= SEARCH.decisive
        delta = reached - promised if decided else reached
        p_value = self._chance(delta)
        forecast = max(reached - promised, 0.0) if np.isfinite(promised) else delta
        if p_value < 1 - LEVEL <= self._chance(forecast):
            note = note or UNDECIDED.format(forecast)
        rest = {
            other: float(value)
            for other, value in zip(self.names, point.alpha, strict=False)
            if other != name
        }
        held = {n: v for n, v in self.coefficients.items() if n not in self.names}
        found = {**held, **rest}
        warning = note or self._backward({**found, name: 0.0})
        return DeletionFit(name, found, float(delta), p_value, warning, float(reached))

    def _chance(self, delta: float) -> float:
        """The probability of a Δχ² that large if the term is not there."""
        if self.noise_known:
            return float(stats.chi2.sf(delta, 1))
        return float(stats.f.sf(delta, 1, max(self.degrees, 1)))

    @cached_property
    def forward(self) -> FitProblem:
        """The least squares for deletions and profiles: terms without which the fitted equation
        would run backward in time keep their sign.
        """
        low, high = (side.copy() for side in self._problem.bounds)
        if not self._backward(self.coefficients):
            for k, (name, value) in enumerate(zip(self.names, self.best.alpha, strict=False)):
                if self._backward({**self.coefficients, name: -value}):
                    side, pick = (low, max) if value > 0 else (high, min)
                    side[k] = pick(side[k], 0.0)
        return replace(self._problem, bounds=(low, high))

    def _backward(self, coefficients: Mapping[str, float]) -> str:
        """Why an equation with these coefficients runs backward in time; empty where it does not
        for certain.
        """
        case = self._problem.cases[0]
        words = case.backward(coefficients)
        return f"{words}; give the fit bounds that keep their sign" if words else ""

    def profile(self, name: str) -> CoefficientProfile:
        """The profile likelihood of a coefficient, with an interval that does not take the fit to
        be linear; where it is unbounded, the combination that is identified is named.

        Args:
            name: the term.
        """
        index = self._index(name)
        spread = self.deviations[name]
        if not np.isfinite(spread):
            groups = [str(g) for g in self.design.alias_groups() if name in g.terms]
            value = self.coefficients[name]
            return CoefficientProfile(name, (value,), (0.0,), (-np.inf, np.inf), "; ".join(groups))
        return profile_of(self.forward, self.best, index, spread, self.unit, self.quantile)

    def growth(self, name: str, value: float) -> float:
        """Δχ² where a coefficient is held at a value and the others are fitted again: the profile
        likelihood there. The profile interval holds a value where this is at most the square of
        `quantile`.

        Args:
            name: the term.
            value: its coefficient.

        Raises:
            SolveError: no fit with that coefficient has a solution.
        """
        held = {self._index(name): float(value)}
        point = held_fit(self.forward, self.best, held, self.best.cost, self.unit)
        return max(point.cost - self.best.cost, 0.0) / self.unit

    def selected(self, seed: int = 0) -> TermSelection:
        """Which terms the readings need: a path of deletions with refits, an information criterion,
        and a bootstrap of the readings; collective.

        Args:
            seed: of the bootstrap.

        Returns:
            `.support`, `.fit` (the calibration of these terms alone), `.frequencies`, `.limits`,
            `.path`, and whether it is to be believed: `.reliable` with `.reasons`.
        """
        return select_terms(self, seed)

    def destroy(self) -> None:
        """Free PETSc objects; collective. The numbers stay; `model` and what solves again do not
        work any more.
        """
        if "model" in vars(self):
            self.model.destroy()
        for case in self._problem.cases:
            case.destroy()

    def __repr__(self) -> str:
        parts = [
            f"{name} = {self.coefficients[name]:.4g} ± {spread:.2g}"
            if np.isfinite(spread)
            else f"{name} not identified"
            for name, spread in self.deviations.items()
        ]
        return f"Calibration({', '.join(parts)}; χ² = {self.chi2:.4g} of {self.readings} readings)"


def _and_more(count: int) -> str:
    return f", nor {'does' if count == 1 else 'do'} {count} more" if count > 0 else ""
