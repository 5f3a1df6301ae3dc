# SPDX-License-Identifier: MIT
"""Calibration: the coefficients that explain readings of few sensors, by solving the model again.

Regression on terms needs the whole field; a dozen sensors do not give it. Here the model is solved
for trial coefficients and compared with the readings where they were taken (`fit_problem`).
Intervals come from the sensitivity design at the solution, from profiles where the fit is
nonlinear, and say "not identified" where sensors cannot tell. Deleting a term and fitting the
others again gives Δχ²: whether the data need the term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from cffem.engine.calibration.calibration_settings import CalibrationSettings
from cffem.engine.calibration.coefficient_profile import (
    CoefficientProfile,
    PartlyHeld,
    held_fit,
    profile_of,
)
from cffem.engine.calibration.fit_problem import FitCase, FitMemory, FitPoint, FitProblem
from cffem.engine.calibration.residual_tests import ResidualTests, residual_tests
from cffem.engine.calibration.term_selection import TermSelection, select_terms
from cffem.engine.response.sensitivities import (
    INVARIANT,
    null_columns,
    sensitivity_design,
    unanchored,
)
from cffem.engine.solve_errors import SolveError
from cffem.engine.time.wellposed import backward_model
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.problem.observations import Observation

if TYPE_CHECKING:
    from cffem import Design
    from cffem.engine.model import Model
    from cffem.engine.observer import Observer
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

LEVEL = 0.95  # of all intervals
# Δχ² at a part of a deletion from which the readings need the term, whatever the whole would give.
PART_DECIDES = 10.0


@dataclass(frozen=True)
class DeletionFit:
    """A term deleted and the others fitted again.

    Attributes:
        name: the deleted term.
        coefficients: of the other terms.
        delta_chi2: by how much χ² grows; where the noise level is unknown, in units of its
            estimate with the term.
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

    @property
    def needed(self) -> bool:
        """Whether the data need the term, at the level of the intervals."""
        return self.p_value < 1 - LEVEL


class Calibration:
    """Fitted coefficients; made by `calibrate`.

    Attributes:
        coefficients: by term, those that were held included.
        chi2: Σ (residual/noise)²; with an unknown noise level in units of its estimate.
        readings: how many readings there are.
        noise_level: the estimated standard deviation where it is unknown, else 1.
        iterations: steps with a tangent sweep.
        best: the place of the fit.
    """

    def __init__(self, problem: FitProblem, best: FitPoint):
        self._problem, self.best = problem, best
        case = problem.cases[0]
        self.names = problem.names
        self.coefficients = {
            **case.fixed,
            **dict(zip(self.names, map(float, best.alpha), strict=True)),
        }
        self.readings = problem.size
        self.noise_known = case.operator.noise.known
        self.iterations = problem.iterations
        self.residuals = best.residual[: self.readings]
        freedom = self.readings - self.design.rank()
        square = float(self.residuals @ self.residuals)
        self.degrees = freedom
        if self.noise_known:
            self.noise_level = 1.0
        else:
            self.noise_level = float(np.sqrt(square / freedom)) if freedom > 0 else float("nan")
        self.chi2 = square / self.noise_level**2

    @cached_property
    def design(self) -> Design:
        """The sensitivity design at the fitted coefficients: rank, alias groups, deviations."""
        problem, best = self._problem, self.best
        case = problem.cases[0]
        matrix = problem.matrix(best)
        null: dict[str, str] = {}
        for number, solution in enumerate(problem.solutions(best)):
            here = null_columns(solution.model, solution, self.names)
            null = here if number == 0 else {n: w for n, w in null.items() if n in here}
        if problem.loss != "linear":
            matrix = matrix * np.sqrt(robust_weights(best.residual, problem.loss))[:, None]
        observed = {"observation": repr(case.observation), "noise known": self.noise_known}
        return sensitivity_design(
            matrix, self.names, self.coefficients, null, observed, unanchored(case.model)
        )

    @cached_property
    def deviations(self) -> dict[str, float]:
        """Standard deviations by term, from the design; infinite where not identified."""
        return {n: self.noise_level * d for n, d in self.design.deviations().items()}

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
        return self._problem.cases[0].model.with_coefficients(self.coefficients)

    @cached_property
    def tests(self) -> ResidualTests:
        """Whether the residuals are what noise leaves."""
        series, start = [], 0
        for case in self._problem.cases:
            series += [start + s for s in case.operator.series]
            start += len(case.data)
        return residual_tests(self.residuals, series, self.design.rank(), self.noise_known)

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
    def notes(self) -> tuple[str, ...]:
        """What one should know about the fit, in sentences."""
        said = [self.tests.misfit] if self.tests.misfit else []
        backward = self._backward(self.coefficients)
        said += [backward] if backward else []
        said += [str(group) for group in self.design.alias_groups()]
        if self.readings < len(self.names):
            said.append(f"{self.readings} readings cannot determine {len(self.names)} coefficients")
        blind = self._blind()
        if blind:
            said.append(f"{blind[0]} feels no coefficient" + _and_more(len(blind) - 1))
        low, high = self._problem.bounds
        for name, a, b, value in zip(self.names, low, high, self.best.alpha, strict=True):
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

    def without(self, name: str) -> DeletionFit:
        """Delete a term and fit the others again. The experiment stays as it is, essential
        conditions that the deleted equation could not carry included, so that the smaller model is
        one of the larger ones and Δχ² has its distribution.

        Args:
            name: the term.

        Raises:
            SolveError: the equation without it has no solution on the way there.
        """
        index = self._index(name)
        low, high = (side[index] for side in self._problem.bounds)
        if not low <= 0 <= high:
            raise InputError(f"the bounds of {name!r} leave out zero, so that it cannot be deleted")
        note = ""
        try:
            unit = self.noise_level**2
            point = held_fit(self.forward, self.best, {index: 0.0}, self.best.cost, unit)
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
        delta = max(point.cost - self.best.cost, 0.0) / self.noise_level**2
        if self.noise_known:
            p_value = float(stats.chi2.sf(delta, 1))
        else:
            p_value = float(stats.f.sf(delta, 1, max(self.degrees, 1)))
        rest = {
            other: float(value)
            for other, value in zip(self.names, point.alpha, strict=True)
            if other != name
        }
        held = {n: v for n, v in self.coefficients.items() if n not in self.names}
        found = {**held, **rest}
        warning = note or self._backward({**found, name: 0.0})
        return DeletionFit(name, found, float(delta), p_value, warning)

    @cached_property
    def forward(self) -> FitProblem:
        """The least squares for deletions and profiles: terms without which the fitted equation
        would run backward in time keep their sign.
        """
        low, high = (side.copy() for side in self._problem.bounds)
        if not self._backward(self.coefficients):
            for k, (name, value) in enumerate(zip(self.names, self.best.alpha, strict=True)):
                if self._backward({**self.coefficients, name: -value}):
                    side, pick = (low, max) if value > 0 else (high, min)
                    side[k] = pick(side[k], 0.0)
        return replace(self._problem, bounds=(low, high))

    def _backward(self, coefficients: Mapping[str, float]) -> str:
        """Why an equation with these coefficients runs backward in time; empty where it does not
        for certain.
        """
        case = self._problem.cases[0]
        words = backward_model(case.model, coefficients)
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
        unit = self.noise_level**2
        return profile_of(self.forward, self.best, index, spread, unit, self.quantile)

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


def robust_weights(residual: np.ndarray, loss: str) -> np.ndarray:
    """ρ'(r²) of SciPy's losses: how much each reading counts at the solution."""
    square = residual**2
    if loss == "soft_l1":
        return 1 / np.sqrt(1 + square)
    if loss == "huber":
        return np.where(square <= 1, 1.0, 1 / np.sqrt(np.maximum(square, 1.0)))
    return 1 / (1 + square) if loss == "cauchy" else np.ones(len(residual))


def calibrate(
    library: Library | System,
    experiment: Experiment | Sequence[Experiment],
    readings: Any,
    start: Mapping[str, float] | None = None,
    *,
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    loss: str = "linear",
    petsc_options: PetscOptions | None = None,
) -> Calibration:
    """Fit the coefficients of a library to readings by solving the model again.

    Args:
        library: the candidate terms.
        experiment: the experiment, or several, whose readings are fitted together.
        readings: what `cf.Dataset.from_readings` gives; or a pair of an observation (`cf.Sensors`,
            `cf.Part`, `cf.Trace`, `cf.Series` or a sum) and its values; one for each experiment.
        start: where the fit starts, by term (others: zero). None: zero for all, which a steady
            problem cannot be solved with.
        fixed: coefficients that are known and stay.
        bounds: (low, high) by term.
        prior: (mean, standard deviation) by term, from elsewhere.
        loss: "linear" for Gaussian noise; "soft_l1", "huber" or "cauchy" against outliers.
        petsc_options: for the linear solver.

    Returns:
        The fit: `.coefficients`, `.intervals`, `.chi2`, `.identified`, `.design`, `.model`,
        `.tests`, `.profile(name)`, `.without(name)`.

    Example:
        >>> import cffem as cf, numpy as np, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 16), elements={u: ("Lagrange", 2)},
        ...     initial={u: sp.sin(sp.pi * cf.x) + sp.sin(2 * sp.pi * cf.x)},
        ...     boundary=[cf.Dirichlet(u, 0)], time=cf.Window(0, 0.5, steps=10))
        >>> truth = cf.Model(library, {"u": 0.5, "lap": 0.1}, experiment)
        >>> sensors = cf.Sensors([0.3, 0.6], [u], noise=0.01)
        >>> values = truth.observation(sensors).values(truth.factual)
        >>> fit = cf.calibrate(library, experiment, (sensors, values))
        >>> {name: round(value, 6) for name, value in fit.coefficients.items()}
        {'u': 0.5, 'lap': 0.1}
    """
    experiments = list(experiment) if isinstance(experiment, Sequence) else [experiment]
    given = list(readings) if isinstance(experiment, Sequence) else [readings]
    if len(given) != len(experiments) or not experiments:
        raise InputError(f"there are {len(experiments)} experiments, but readings of {len(given)}")
    settings = CalibrationSettings(start, fixed, bounds, prior, loss)
    return fitted(least_squares_of(library, experiments, given, settings, petsc_options), settings)


def least_squares_of(
    library: Library | System,
    experiments: Sequence[Experiment],
    readings: Sequence[object],
    settings: CalibrationSettings,
    petsc_options: PetscOptions | None = None,
    observer: Observer | None = None,
    memory: FitMemory | None = None,
) -> FitProblem:
    """The least squares of a calibration, before anything is solved.

    Args:
        library, experiments, readings, petsc_options: see `calibrate`.
        settings: where it starts and what is known.
        observer: of the solves.
        memory: of an earlier run of the same fit.
    """
    known = {k: float(v) for k, v in (settings.fixed or {}).items()}
    names = tuple(n for n in library.names if n not in known)
    for what in (settings.start, known, settings.bounds, settings.prior):
        _check_names(what or {}, library.names)
    if not names:
        raise InputError("all coefficients are fixed, so that nothing is left to fit")
    begin = {n: float((settings.start or {}).get(n, 0.0)) for n in names}
    if settings.start is None and any(e.time is None for e in experiments):
        raise InputError(
            "a steady problem has no solution with all coefficients zero: give start={term: number}"
        )
    low, high = _bounds(settings.bounds or {}, names)
    prior = _prior(settings.prior or {}, names)
    cases = []
    for one, values in zip(experiments, readings, strict=True):
        observation, data = observed_values(values)
        first = {**begin, **known}
        case = FitCase(library, one, observation, data, first, names, petsc_options, observer)
        if len(data) != len(case.operator):
            raise InputError(
                f"the observation has {len(case.operator)} readings, but {len(data)} values are "
                "given"
            )
        cases.append(case)
    if len({case.operator.noise.known for case in cases}) > 1:
        raise InputError("either all experiments have the noise of their readings or none has")
    return FitProblem(cases, names, (low, high), prior, settings.loss, memory=memory)


def fitted(problem: FitProblem, settings: CalibrationSettings) -> Calibration:
    """The fit of a least-squares problem."""
    first = np.array([float((settings.start or {}).get(n, 0.0)) for n in problem.names])
    return Calibration(problem, at_scale_of_start(problem, problem.fitted(first), first))


def at_scale_of_start(problem: FitProblem, best: FitPoint, start: np.ndarray) -> FitPoint:
    """The fit with the scale of its start, where an equation fixes ratios of its coefficients only
    and the steps have moved along that direction.
    """
    matrix = problem.matrix(best)
    size, alpha = np.linalg.norm(matrix, axis=0), best.alpha.copy()
    for terms in unanchored(problem.cases[0].model).values():
        mine = np.array([name in terms for name in problem.names])
        length = np.linalg.norm(size * alpha * mine)
        if not length > 0 or np.linalg.norm(matrix @ (alpha * mine)) > INVARIANT * length:
            continue
        factor = float((size * mine * start) @ (size * alpha)) / length**2
        alpha = np.where(mine & (factor > 0), factor * alpha, alpha)
    if np.any(alpha < problem.bounds[0]) or np.any(alpha > problem.bounds[1]):
        return best
    moved = problem.point(alpha)
    return moved if moved.cost <= best.cost * (1 + INVARIANT) + INVARIANT else best


def observed_values(readings: Any) -> tuple[Observation, np.ndarray]:
    """The observation and the values of readings."""
    if isinstance(readings, tuple) and len(readings) == 2 and isinstance(readings[0], Observation):
        observation, values = readings
    elif hasattr(readings, "observation") and hasattr(readings, "readings"):
        observation, values = readings.observation, readings.readings
    else:
        raise InputError(
            "readings are what cf.Dataset.from_readings(table) gives, or a pair of an observation "
            f"and its values, not {type(readings).__name__}; fields are fitted with cf.Screening"
        )
    try:
        array = np.asarray(values, dtype=float).ravel()
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if not np.isfinite(array).all():
        raise InputError("the values of readings must be finite numbers; leave out gaps")
    return observation, array


def _check_names(given: Mapping[str, object], names: Sequence[str]) -> None:
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise InputError(f"the library has no term {unknown!r}; {nearest(str(unknown), names)}")


def _bounds(
    bounds: Mapping[str, tuple[float | None, float | None]], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    given = [bounds.get(name, (None, None)) for name in names]
    pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in given]
    for name, (low, high) in zip(names, pairs, strict=True):
        if not low < high:
            raise InputError(f"the bounds of {name!r} need low < high, not ({low}, {high})")
    low, high = np.array(pairs, dtype=float).T
    return low, high


def _prior(
    prior: Mapping[str, tuple[float, float]], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    pairs = [prior.get(name, (0.0, np.inf)) for name in names]
    for name, (_, spread) in zip(names, pairs, strict=True):
        if not spread > 0:
            raise InputError(f"the prior of {name!r} needs a positive deviation, not {spread}")
    mean, spread = np.array(pairs, dtype=float).T
    return mean, spread
