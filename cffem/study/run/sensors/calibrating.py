# SPDX-License-Identifier: MIT
"""Station: coefficients from readings by solving the model again, and which terms they need.

Every place in the space of coefficients that a fit has solved is stored at once, so that a run that
was killed goes the same way again without solving, and ends in the same numbers. The result is one
fact: the fit of all candidates, the selection, and for the selected model intervals, profiles and
the refit without each term.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from cffem.design.design import Design
from cffem.engine.calibration.calibrating_readings import fitted
from cffem.engine.calibration.calibration import Calibration
from cffem.engine.calibration.calibration_settings import CalibrationSettings
from cffem.engine.calibration.fit_inputs import least_squares_of
from cffem.engine.calibration.fit_problem import FitPoint, FitProblem
from cffem.engine.calibration.term_selection import LEAST_PRICE, TermSelection
from cffem.engine.model import Model
from cffem.engine.response.sensitivities import INVARIANT, SCALE
from cffem.engine.solve_errors import SolveError
from cffem.engine.time.amplitudes import with_amplitudes
from cffem.study.run.auxiliary_fields import definitions
from cffem.study.run.identified_facts import ScreeningFact
from cffem.study.run.sensors.designs import plain_design
from cffem.study.run.sensors.fit_choice import BOTH
from cffem.study.run.stations.identifying import KIND, EffectiveEquation, with_own_bounds
from cffem.symbols.errors import InputError, LibraryError

if TYPE_CHECKING:
    from cffem.study.run.running import Run

Facts = dict[str, Any]
KEY = "calibration"
MOST_POINTS_SHOWN = 2000  # residuals that the page shows, of one experiment


class StoredPoints:
    """The places of a fit in the checkpoint of a run.

    Args:
        run: the run.
    """

    def __init__(self, run: Run):
        self.run, self.solves = run, 0

    def recall(self, key: str, alpha: np.ndarray) -> FitPoint | None:
        """What an earlier run found at a place."""
        name = f"{KEY}/{key}"
        if name not in self.run.checkpoint:
            return None
        stored = self.run.checkpoint[name]["value"]
        residual = np.array(stored["residual"])
        if stored["failure"] is not None:
            failure = SolveError(stored["failure"], cause=stored["cause"])
            return FitPoint(alpha.copy(), np.full(len(residual), np.inf), failure=failure)
        slope = f"{name}/derivative"
        there = slope in self.run.checkpoint
        matrix = np.array(self.run.checkpoint[slope]["value"]) if there else None
        return FitPoint(alpha.copy(), residual, matrix=matrix)

    def keep(self, key: str, point: FitPoint) -> None:
        """Store what is new about a place; collective."""
        name = f"{KEY}/{key}"
        if name not in self.run.checkpoint:
            self.solves += 1
            failure = point.failure
            fact = {
                "residual": [0.0] * len(point.residual) if failure else point.residual.tolist(),
                "failure": None if failure is None else str(failure),
                "cause": "" if failure is None else failure.cause,
            }
            words = "no solution" if failure else f"χ² = {point.cost:.4g}"
            self.run.store(name, fact, f"solve {self.solves}, {words}")
        slope = f"{name}/derivative"
        if point.matrix is not None and slope not in self.run.checkpoint:
            self.run.store(slope, point.matrix.tolist(), f"derivative {self.solves}")


def calibration(run: Run) -> Facts:
    """The fit of a study's readings."""
    run.progress.begin(KEY)
    return run.once(f"{KEY}/result", lambda: calibrated(run), "the result")


def regression_start(run: Run) -> Facts | None:
    """Where a calibration begins that follows a regression: the screen of each equation on the
    fields of a study; None without one.
    """
    if run.study.fit_choice.kind != BOTH:
        return None
    run.progress.begin("regression")
    return run.once(f"{KEY}/regression", lambda: regressed(run), "where the fit starts")


def regressed(run: Run) -> Facts:
    """Coefficients by regression on the fields of a study, and whether it believes itself."""
    study, sources = run.study, list(run.study.data.values())
    found: Facts = {"coefficients": {}, "reliable": True, "reasons": []}
    defined = definitions(study.library)
    for unknown, equation in study.library.equations.items():
        terms = {
            name: study.library[name].xreplace(defined).doit()
            for name in study.library.names
            if study.library.locate(name)[0] == unknown
        }
        try:
            own = EffectiveEquation(equation.anchor, terms, unknown)
            made = Design.from_fields(own, sources, KIND, comm=None)
            screen = with_own_bounds(clone(study.screening), study.library, made.names).fit(made)
        except (InputError, LibraryError) as error:
            return {"skipped": str(error), "coefficients": {}, "reliable": False, "reasons": []}
        values = zip(made.names, screen.coef_, screen.support_, strict=True)
        found["coefficients"].update({name: float(v) for name, v, kept in values if kept})
        found["reliable"] = found["reliable"] and bool(screen.reliable_)
        found["reasons"] += list(screen.reasons_)
    return found


def begin_with(asked: CalibrationSettings, begin: Facts | None) -> CalibrationSettings:
    """Settings of a fit that starts where a regression ended; what is asked for goes before."""
    if begin is None or not begin["coefficients"]:
        return asked
    kept = {**begin["coefficients"], **(asked.start or {})}
    held = asked.fixed or {}
    return replace(asked, start={n: v for n, v in kept.items() if n not in held})


def take_amplitudes(run: Run, facts: Facts) -> None:
    """Let the experiments of a run have the data that the fit has estimated; collective."""
    for name, amplitudes in facts["amplitudes_by_experiment"].items():
        model = Model(
            run.study.library, facts["coefficients"], run.experiments[name], run.study.petsc_options
        )
        run.experiments[name] = with_amplitudes(model, amplitudes)
        model.destroy()


def problem_of(run: Run, settings: CalibrationSettings) -> FitProblem:
    """The least squares over all experiments with readings."""
    study = run.study
    silent = [name for name in run.experiments if name not in study.readings]
    if silent:
        raise InputError(f"the experiment {silent[0]!r} has no readings; give each its own")
    return least_squares_of(
        study.library,
        list(run.experiments.values()),
        [study.readings[name] for name in run.experiments],
        settings,
        study.petsc_options,
        run.watch,
        StoredPoints(run),
    )


def calibrated(run: Run) -> Facts:
    """Fit, select, delete and profile."""
    begin = regression_start(run)
    asked = begin_with(run.study.calibration, begin)
    problem = problem_of(run, asked)
    try:
        every = fitted(problem, asked)
    except SolveError as error:
        raise InputError(
            f"the fit has no solution where it starts: {error}; give it another start"
        ) from error
    selection = every.selected(run.study.seed) if asked.select else None
    final = every if selection is None else selection.fit
    run.fit = final
    deletions = {name: without(every, name) for name in every.names}
    profiles = {name: profile(final, name) for name in final.names} if asked.profiles else {}
    own = every.forward.matrix(every.best)[: every.readings, : len(every.names)]
    columns = np.linalg.norm(own, axis=0)
    return {
        "coefficients": final.coefficients,
        "names": list(final.names),
        "intervals": with_profiles(
            plain_intervals(final if selection is None else selection), profiles
        ),
        "deviations": final.deviations,
        "covariance": covariance(final).tolist(),
        "chi2": final.chi2,
        "degrees": final.degrees,
        "readings": final.readings,
        "noise_level": final.noise_level,
        "noise_known": final.noise_known,
        "loss": asked.loss,
        "method": asked.method,
        "start": begin,
        "amplitudes": {
            name: {"value": value, "deviation": finite(final.amplitude_deviations[name])}
            for name, value in final.amplitudes.items()
        },
        "amplitudes_by_experiment": amplitudes_by_experiment(run, final),
        "tests": vars(final.tests),
        "notes": list(final.notes),
        "all_candidates": {
            "coefficients": every.coefficients,
            "intervals": plain_intervals(every),
            "chi2": every.chi2,
        },
        "selection": None if selection is None else plain_selection(selection),
        "reliable": not doubts(final, selection),
        "reasons": doubts(final, selection),
        "deletions": deletions,
        "refits": {name: without(final, name, closely=True) for name in final.names}
        if run.study.refit == "remaining"
        else {},
        "columns": dict(zip(every.names, (columns / every.spread).tolist(), strict=True)),
        "profiles": profiles,
        "sensitivity": plain_design(every.design, every.spread),
        "iterations": problem.iterations,
        "solves": problem.solves,
        "tangents": problem.tangents,
        "residuals": residuals(run, final),
    }


def doubts(final: Calibration, selection: TermSelection | None) -> list[str]:
    """What speaks against a fit."""
    if selection is not None:
        return list(selection.reasons)
    found = [final.tests.misfit] if final.tests.misfit else []
    null = final.design.notes["null"]
    return found + [
        str(group)
        for group in final.design.alias_groups()
        if not set(group.terms) <= set(null) and not group.name.startswith(SCALE)
    ]


def plain_intervals(found: Calibration | TermSelection) -> dict[str, list[float]]:
    """Intervals as lists."""
    return {name: [float(end) for end in pair] for name, pair in found.intervals.items()}


def with_profiles(
    intervals: dict[str, list[float]], profiles: Mapping[str, Facts]
) -> dict[str, list[float]]:
    """Intervals that hold those of first order and those that follow the profiles.

    Example:
        >>> with_profiles({"u": [0.0, 2.0]}, {"u": {"interval": [0.5, 3.0], "values": [1, 3]}})
        {'u': [0.0, 3.0]}
    """
    found = dict(intervals)
    for name, each in profiles.items():
        low, high = each["interval"]
        # One place alone is a coefficient that is not identified at all.
        if name in found and len(each["values"]) > 1:
            found[name] = [min(found[name][0], low), max(found[name][1], high)]
    return found


def amplitudes_by_experiment(run: Run, fit: Calibration) -> dict[str, list[float]]:
    """The amplitudes of each experiment with uncertain data."""
    first, found = 0, {}
    values = list(fit.amplitudes.values())
    for name, case in zip(run.experiments, fit.cases, strict=True):
        if case.amplitudes:
            found[name] = values[first : first + case.amplitudes]
        first += case.amplitudes
    return found


def finite(value: float) -> float | None:
    """A number, None where it is infinite."""
    return float(value) if np.isfinite(value) else None


def covariance(fit: Calibration) -> np.ndarray:
    """The covariance of the identified coefficients, zero for the others. Where an equation fixes
    ratios only, it is that at a given scale.
    """
    matrix = fit.matrix
    scaled = {
        t for g in fit.design.alias_groups() if g.name.startswith(SCALE) for t in g.terms
    } - set(fit.design.notes["null"])
    free = [k for k, n in enumerate(fit.names) if np.isfinite(fit.deviations[n]) or n in scaled]
    result = np.zeros((len(fit.names), len(fit.names)))
    if free:
        part = matrix[:, free]
        scale = np.linalg.norm(part, axis=0)
        inverse = np.linalg.pinv(part / scale, rcond=INVARIANT)
        result[np.ix_(free, free)] = fit.spread**2 * (inverse @ inverse.T) / np.outer(scale, scale)
    return result


def plain_selection(found: TermSelection) -> Facts:
    """A selection as plain data."""
    price = f"k max(log n, {LEAST_PRICE:.3g})"
    return {
        "support": list(found.support),
        "frequencies": found.frequencies,
        "limits": {name: [float(v) for v in pair] for name, pair in found.limits.items()},
        "reliable": found.reliable,
        "reasons": list(found.reasons),
        "criterion": f"χ² + {price}, the noise level known"
        if found.fit.noise_known
        else f"n log(χ²/n) + {price}, the noise level unknown",
        "path": [
            {
                "support": list(step.support),
                "deleted": step.deleted,
                "chi2": step.chi2,
                "criterion": step.criterion,
            }
            for step in found.path
        ],
    }


def without(fit: Calibration, name: str, closely: bool = False) -> Facts:
    """A term deleted and the others fitted again, or why that has no solution."""
    try:
        found = fit.without(name, closely)
    except (SolveError, InputError) as error:
        return {"failure": str(error), "delta_chi2": None, "p_value": None, "needed": None}
    return {
        "delta_chi2": found.delta_chi2,
        "at_most": found.at_most,
        "p_value": found.p_value,
        "needed": found.needed,
        "coefficients": found.coefficients,
        "warning": found.warning,
        "failure": "",
    }


def profile(fit: Calibration, name: str) -> Facts:
    """The profile of one coefficient."""
    found = fit.profile(name)
    return {
        "values": list(found.values),
        "delta_chi2": list(found.delta_chi2),
        "interval": list(found.interval),
        "reason": found.reason,
    }


def residuals(run: Run, fit: Calibration) -> Facts:
    """For each experiment where and when each reading was taken, and its residual in standard
    deviations; of many readings every few.
    """
    found, start = {}, 0
    for name, case in zip(run.experiments, fit.cases, strict=True):
        size = len(case.data)
        step = max(1, size // MOST_POINTS_SHOWN)
        own = fit.residuals[start : start + size][::step] / fit.spread
        found[name] = {
            "labels": list(case.operator.labels[::step]),
            "residuals": own.tolist(),
            "values": case.data[::step].tolist(),
            **case.operator.places(step),
        }
        start += size
    return found


def limits_of(facts: Mapping[str, Any]) -> dict[str, ScreeningFact]:
    """What the station for detection limits asks for: the selection as if it were a screen."""
    selection = facts.get("selection")
    if selection is None:
        return {}
    limits = {
        name: tuple(end if np.isfinite(end) else None for end in ends)
        for name, ends in selection["limits"].items()
    }
    words = (KEY, "", selection["criterion"], "")
    return {
        KEY: ScreeningFact(
            *words,
            penalty=None,
            threshold=None,
            support=tuple(selection["support"]),
            limits=limits,
            reliable=selection["reliable"],
        )
    }
