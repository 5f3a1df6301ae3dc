# SPDX-License-Identifier: MIT
"""Station: what the covariance of calibrated coefficients does to scores.

Coefficients from readings are correlated, so that moving each to the ends of its own interval would
say far too much. With the covariance Σ = L Lᵀ and the tangents ∂u/∂α, ∂u_j/∂α of the factual and of
each deleted solution, every score is moved along each column of z L, and the changes are added in
squares. One tangent sweep for each deletion is all that it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.response.tangent import responses
from cffem.engine.solve_errors import SolveError
from cffem.study.run.identified_facts import SpreadFact
from cffem.study.run.sensors.observing import SensorView, view
from cffem.study.run.stations.coefficient_intervals import Changed, solved_changes
from cffem.symbols.errors import InputError
from cffem.symbols.problem.observations import Series

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.study.run.facts import DeletionFacts
    from cffem.study.run.identified_facts import SpreadFacts
    from cffem.study.run.running import Run
    from cffem.study.run.stations.deleting import Deletions
    from cffem.symbols.problem.interventions import Intervention

Facts = dict[str, Any]
QUANTILE = 1.96  # standard deviations of a 95 % interval
ALL = "all coefficients"


def covariance_spreads(
    run: Run, fit: Mapping[str, Any], deletions: Deletions, facts: DeletionFacts
) -> SpreadFacts:
    """For each experiment how much scores, observables, readings and the solution itself may change
    within the confidence region of the coefficients.
    """
    if not run.models:
        return {}
    names = [n for n in fit["names"] if fit["coefficients"][n]]
    index = [fit["names"].index(n) for n in names]
    axes = directions(np.array(fit["covariance"])[np.ix_(index, index)])
    run.progress.begin("coefficient intervals", len(run.models))
    found = {}
    for name, model in run.models.items():
        about = Tangents(run, model, names, axes, view(run, name))
        changed = solved_changes(deletions, name, facts)
        found[name] = {
            ALL: run.fact(
                SpreadFact, f"intervals/{name}", lambda t=about, c=changed: spread(t, c), name
            )
        }
    return found


def directions(covariance: np.ndarray) -> np.ndarray:
    """z L, the axes of the confidence region as columns; axes without extent are left out.

    Example:
        >>> directions(np.diag([4.0, 0.0]))
        array([[3.92],
               [0.  ]])
    """
    values, vectors = np.linalg.eigh(covariance)
    kept = values > 1e-14 * max(float(values.max(initial=0.0)), 1e-300)
    axes = QUANTILE * vectors[:, kept] * np.sqrt(values[kept])
    # The sign of an eigenvector means nothing; one is chosen, the same everywhere.
    largest = axes[np.argmax(np.abs(axes), axis=0), np.arange(axes.shape[1])]
    return axes * np.sign(largest)


def spread(about: Tangents, changed: Mapping[str, Changed]) -> SpreadFact:
    """The changes in one experiment."""
    observables = about.run.study.observables
    scores: dict[str, float] = {}
    readings: dict[str, float] = {}
    effects: dict[str, dict[str, float]] = {label: {} for label in observables}
    try:
        base = about.of(about.model.factual)
    except SolveError:
        nothing = dict.fromkeys(changed, math.inf)
        return SpreadFact(nothing, dict.fromkeys(observables, nothing), math.inf, nothing)
    for name, (change, _) in changed.items():
        try:
            solution = about.model.solve(change, stages=True)
            other = about.of(solution, change)
        except (SolveError, InputError):
            scores[name] = readings[name] = math.inf
            for each in effects.values():
                each[name] = math.inf
            continue
        scores[name] = about.moved(about.model.factual, solution, base, other)
        readings[name] = about.seen(base, other)
        for label, each in effects.items():
            gap = base["observables"][label] - other["observables"][label]
            each[name] = float(np.linalg.norm(gap))
    return SpreadFact(scores, effects, about.length(base["states"]), readings)


def shares(
    coefficients: Mapping[str, float], names: Sequence[str], change: Intervention | None
) -> dict[str, float]:
    """How much of each coefficient an intervention leaves.

    Example:
        >>> import cffem as cf
        >>> shares({"u": 2.0, "lap": 0.1}, ["u", "lap"], cf.scale("u", 0.5) & cf.delete("lap"))
        {'u': 0.5, 'lap': 0.0}
    """
    if change is None:
        return dict.fromkeys(names, 1.0)
    before = change.apply(coefficients)
    after = change.apply({n: 2.0 * value for n, value in coefficients.items()})
    return {n: (after[n] - before[n]) / coefficients[n] for n in names}


class Tangents:
    """How solutions and what is measured of them move along the axes of the confidence region.

    Args:
        run: the run.
        model: the model.
        names: the coefficients that are uncertain.
        axes: the axes as columns over these.
        seen: the sensors, where there are any.
    """

    def __init__(
        self,
        run: Run,
        model: Model,
        names: Sequence[str],
        axes: np.ndarray,
        seen: SensorView | None,
    ):
        self.run, self.model, self.names, self.axes, self.sensors = run, model, names, axes, seen

    def of(self, solution: Solution, change: Intervention | None = None) -> Facts:
        """The changes of one solution. A deleted term has no coefficient to be uncertain of, and
        half a term has half of its uncertainty. Where an intervention acts in a part of the domain
        or of the window only, its terms count in full.
        """
        share = shares(self.model.coefficients, self.names, change)
        names = [n for n in self.names if share[n]]
        paths, _ = responses(solution, {n: share[n] for n in names}) if names else ({}, None)
        axes = self.axes[[self.names.index(n) for n in names]]
        along = [paths[n] for n in names]
        found: Facts = {"observables": {}, "states": self._combined(solution, along, axes)}
        for label, (observable, _) in self.run.study.observables.items():
            operator = self.model.observation(Series([observable]))
            slopes = operator.derivatives(solution, along)[0] if names else np.zeros(0)
            found["observables"][label] = slopes @ axes
        if self.sensors is not None and self.sensors.unit is not None:
            operator, unit = self.model.observation(self.sensors.observation), self.sensors.unit
            slopes = (
                operator.derivatives(solution, along) if names else np.zeros((len(operator), 0))
            )
            found["readings"] = operator.noise.whitened(slopes) @ axes / unit
            found["values"] = operator.noise.whitened(operator.values(solution)) / unit
        return found

    def _combined(
        self, solution: Solution, along: Sequence[Solution], axes: np.ndarray
    ) -> list[list[np.ndarray]]:
        """The change of all states along each axis."""
        return [
            [
                sum((w * path.states[k] for w, path in zip(axis, along, strict=True)), 0.0 * state)
                for k, state in enumerate(solution.states)
            ]
            for axis in axes.T
        ]

    def length(self, states: Sequence[Sequence[np.ndarray]]) -> float:
        """The change of a solution, added in squares over the axes."""
        return math.sqrt(sum(self._norm(path) ** 2 for path in states))

    def _norm(self, path: Sequence[np.ndarray]) -> float:
        kind = self.run.study.certification.norm
        return float(self.model.trajectory_norm(path, self.model.times, kind))

    def moved(self, factual: Solution, deleted: Solution, base: Facts, other: Facts) -> float:
        """The change of a score."""
        gap = [a - b for a, b in zip(factual.states, deleted.states, strict=True)]
        score, total = self._norm(gap), 0.0
        for one, two in zip(base["states"], other["states"], strict=True):
            ends = [
                self._norm([g + sign * (a - b) for g, a, b in zip(gap, one, two, strict=True)])
                for sign in (1.0, -1.0)
            ]
            total += max(abs(end - score) for end in ends) ** 2
        return math.sqrt(total)

    def seen(self, base: Facts, other: Facts) -> float:
        """The change of δ^𝒪."""
        if "readings" not in base:
            return 0.0
        gap, axes = base["values"] - other["values"], base["readings"] - other["readings"]
        score = np.linalg.norm(gap)
        ends = [
            max(abs(np.linalg.norm(gap + s * axis) - score) for s in (1.0, -1.0)) for axis in axes.T
        ]
        return float(np.linalg.norm(ends))
