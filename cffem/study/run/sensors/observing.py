# SPDX-License-Identifier: MIT
"""Station: what sensors see of each deletion, δ_j^𝒪 in standard deviations of what is measured,
with its error bar; and what sensors can tell of the coefficients.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.bounds.observation_bounds import ObservationMargin, certify_observation
from cffem.engine.solve_errors import SolveError
from cffem.study.run.sensors.designs import plain_design
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.study.run.facts import TermDeletion
    from cffem.study.run.running import Run
    from cffem.study.run.stations.deleting import Deletions
    from cffem.symbols.problem.observations import Observation

Facts = dict[str, Any]


@dataclass(frozen=True)
class SensorView:
    """The sensors of one experiment on its model.

    Attributes:
        model: the model.
        observation: what is measured.
        unit: σ where the noise is known up to its level only; None where nothing is known of it.
    """

    model: Model
    observation: Observation
    unit: float | None

    def change(self, solution: Solution | None) -> Facts | None:
        """What a deletion changes of the readings; None where it has no solution or the noise is
        not known.
        """
        if solution is None or self.unit is None:
            return None
        operator = self.model.observation(self.observation)
        factual = self.model.once("factual readings", lambda: operator.values(self.model.factual))
        moved = operator.values(solution) - factual
        single = np.abs(moved) / (operator.noise.deviation * self.unit)
        worst = int(np.argmax(single))
        return {
            "score": float(np.linalg.norm(operator.noise.whitened(moved))) / self.unit,
            "largest": float(single[worst]),
            "reading": operator.labels[worst],
        }


def view(run: Run, name: str) -> SensorView | None:
    """The sensors of an experiment; None where the whole field is observed."""
    observation = run.study.observations.get(name)
    if observation is None or name not in run.models:
        return None
    known = run.models[name].observation(observation).noise.known
    return SensorView(run.models[name], observation, 1.0 if known else run.noise_level)


def sensitivities(run: Run) -> Facts:
    """For each experiment with sensors what these can tell of the coefficients."""
    names = [name for name in run.models if run.study.observations.get(name) is not None]
    if not names:
        return {}
    run.progress.begin("sensitivities", len(names))
    return {
        name: run.once(f"sensitivities/{name}", lambda n=name: design(run, n), name)
        for name in names
    }


def design(run: Run, name: str) -> Facts:
    """The sensitivity design of one experiment at its coefficients."""
    observation = run.study.observations[name]
    assert observation is not None
    try:
        found = run.models[name].sensitivities(observation)
    except (SolveError, InputError) as error:
        return {"skipped": str(error)}
    return plain_design(found, run.noise_level or 1.0)


def bars(
    run: Run, deletions: Deletions, facts: Mapping[str, Mapping[str, TermDeletion]], kind: str
) -> Facts:
    """Error bars of δ^𝒪 by experiment and term."""
    views = {name: seen for name in run.models if (seen := view(run, name)) is not None}
    if views:
        run.progress.begin("error bounds of readings", len(views))
    return {
        name: run.once(
            f"readings/{name}",
            lambda n=name, v=seen: bars_of(run, deletions, n, v, facts[n], kind),
            name,
        )
        for name, seen in views.items()
    }


def bars_of(
    run: Run,
    deletions: Deletions,
    name: str,
    seen: SensorView,
    facts: Mapping[str, TermDeletion],
    kind: str,
) -> Facts:
    """Error bars of one experiment."""
    if seen.unit is None:
        return {}
    nulls = deletions.nulls.get(name, {})
    wanted = {
        term: each.fact
        for term, each in facts.items()
        if each.fact.solved and term not in nulls and each.fact.readings is not None
    }
    found = certify_observation(
        seen.model,
        seen.observation,
        {term: deletions.change(kind, name, term, fact) for term, fact in wanted.items()},
        deletions.deleted_solutions(name, facts),
        run.study.calibration.visible,
        run.study.certification.effort,
        seen.unit,
    )
    return {
        term: {"margin": bar.margin, "kind": bar.kind, "method": bar.method}
        if isinstance(bar, ObservationMargin)
        else {"reason": bar.reason}
        for term, bar in found.items()
    }
