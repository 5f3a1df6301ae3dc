# SPDX-License-Identifier: MIT
"""Station: coefficients from readings by solving the model again, and which terms they need.

Every place in the space of coefficients that a fit has solved is stored at once, so that a run that
was killed goes the same way again without solving, and ends in the same numbers. The result is one
fact: the fit of all candidates, the selection, and for the selected model intervals, profiles and
the refit without each term.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.calibration.calibration import Calibration, fitted, least_squares_of
from cffem.engine.calibration.fit_problem import FitPoint, FitProblem
from cffem.engine.calibration.term_selection import TermSelection
from cffem.engine.response.sensitivities import INVARIANT, SCALE
from cffem.engine.solve_errors import SolveError
from cffem.study.run.identified_facts import ScreeningFact
from cffem.study.run.sensors.designs import plain_design
from cffem.symbols.errors import InputError

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


def problem_of(run: Run) -> FitProblem:
    """The least squares over all experiments with readings."""
    study = run.study
    silent = [name for name in run.experiments if name not in study.readings]
    if silent:
        raise InputError(f"the experiment {silent[0]!r} has no readings; give each its own")
    return least_squares_of(
        study.library,
        list(run.experiments.values()),
        [study.readings[name] for name in run.experiments],
        study.calibration,
        study.petsc_options,
        run.watch,
        StoredPoints(run),
    )


def calibrated(run: Run) -> Facts:
    """Fit, select, delete and profile."""
    problem, asked = problem_of(run), run.study.calibration
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
    columns = np.linalg.norm(every.forward.matrix(every.best)[: every.readings], axis=0)
    return {
        "coefficients": final.coefficients,
        "names": list(final.names),
        "intervals": plain_intervals(final if selection is None else selection),
        "deviations": final.deviations,
        "covariance": covariance(final).tolist(),
        "chi2": final.chi2,
        "degrees": final.degrees,
        "readings": final.readings,
        "noise_level": final.noise_level,
        "noise_known": final.noise_known,
        "loss": asked.loss,
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
        "refits": {name: without(final, name) for name in final.names}
        if run.study.refit == "remaining"
        else {},
        "columns": dict(zip(every.names, (columns / every.noise_level).tolist(), strict=True)),
        "profiles": {name: profile(final, name) for name in final.names} if asked.profiles else {},
        "sensitivity": plain_design(every.design, every.noise_level),
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


def covariance(fit: Calibration) -> np.ndarray:
    """The covariance of the identified coefficients, zero for the others. Where an equation fixes
    ratios only, it is that at a given scale.
    """
    matrix = fit.forward.matrix(fit.best)
    scaled = {
        t for g in fit.design.alias_groups() if g.name.startswith(SCALE) for t in g.terms
    } - set(fit.design.notes["null"])
    free = [k for k, n in enumerate(fit.names) if np.isfinite(fit.deviations[n]) or n in scaled]
    result = np.zeros((len(fit.names), len(fit.names)))
    if free:
        part = matrix[:, free]
        scale = np.linalg.norm(part, axis=0)
        inverse = np.linalg.pinv(part / scale, rcond=INVARIANT)
        result[np.ix_(free, free)] = (
            fit.noise_level**2 * (inverse @ inverse.T) / np.outer(scale, scale)
        )
    return result


def plain_selection(found: TermSelection) -> Facts:
    """A selection as plain data."""
    return {
        "support": list(found.support),
        "frequencies": found.frequencies,
        "limits": {name: [float(v) for v in pair] for name, pair in found.limits.items()},
        "reliable": found.reliable,
        "reasons": list(found.reasons),
        "criterion": "χ² + k log n, the noise level known"
        if found.fit.noise_known
        else "n log(χ²/n) + k log n, the noise level unknown",
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


def without(fit: Calibration, name: str) -> Facts:
    """A term deleted and the others fitted again, or why that has no solution."""
    try:
        found = fit.without(name)
    except (SolveError, InputError) as error:
        return {"failure": str(error), "delta_chi2": None, "p_value": None, "needed": None}
    return {
        "delta_chi2": found.delta_chi2,
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
        own = fit.residuals[start : start + size][::step] / fit.noise_level
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
