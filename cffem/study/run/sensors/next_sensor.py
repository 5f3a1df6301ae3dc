# SPDX-License-Identifier: MIT
"""Station: where one more sensor would help most.

Candidates are points of a regular grid in the domain that read what the present sensors read, at
their times and with their noise; the one after which the worst combination of coefficients is known
best is proposed, with what it does to the intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.calibration.best_sensors import best_sensors
from cffem.engine.response.observation_operator import at_fixed_places
from cffem.engine.response.point_rows import PointCells
from cffem.engine.solve_errors import SolveError
from cffem.symbols.errors import InputError
from cffem.symbols.problem.observations import Observations, PlacedReadings, Sensors, spoken_point

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.study.run.running import Run

Facts = dict[str, Any]


@dataclass(frozen=True)
class CandidateGrid:
    """Where a further sensor is looked for.

    Attributes:
        points: along each axis, by dimension.
        inset: share of the extent that is left out at each end: on boundaries with given values
            nothing is felt.
        apart: share of the extent by which a candidate is away from present sensors.
        worthwhile: factor by which some interval must shrink for a proposal.
    """

    points: tuple[int, int, int] = (25, 7, 4)
    inset: float = 0.06
    apart: float = 0.02
    worthwhile: float = 0.95


GRID = CandidateGrid()


def next_sensor(run: Run) -> Facts | None:
    """A proposal for the first experiment whose sensors are points; None where there is none."""
    for name in run.models:
        observation = run.study.observations.get(name)
        if observation is not None and placed(observation, run.models[name]) is not None:
            run.progress.begin("next sensor")
            return run.once(f"next/{name}", lambda name=name: proposed(run, name), name)
    return None


def placed(observation: Any, model: Model) -> PlacedReadings | None:
    """The readings at points among all."""
    parts = observation.parts if isinstance(observation, Observations) else (observation,)
    points = [p for p in parts if isinstance(p, Sensors | PlacedReadings)]
    found = at_fixed_places(points[0], model) if points else None
    return found if isinstance(found, PlacedReadings) else None


def proposed(run: Run, name: str) -> Facts | None:
    """The best candidate and what it brings."""
    model, observation = run.models[name], run.study.observations[name]
    present = placed(observation, model)
    assert present is not None
    assert observation is not None
    channels = list(dict.fromkeys(present.placed.channels))
    times = np.unique(present.placed.times)
    deviation = present.noise_of(len(present.placed)).deviation
    points = grid(model, present.placed.points)
    known = run.study.calibration.fixed or {}
    names = [name for name in model.active if name not in known]
    if not len(points) or not names:
        return None
    candidates = Sensors(
        points,
        channels,
        times=None if np.isnan(times).any() else times,
        noise=float(np.median(deviation)),
        radius=present.radius,
    )
    try:
        before = model.sensitivities(observation, names).deviations()
        choice = best_sensors(model, candidates, 1, present=observation, names=names)
    except (SolveError, InputError):
        return None
    after = choice.design.deviations()
    share = {n: gain(before[n], after[n]) for n in names}
    best = min(share, key=lambda n: share[n])
    if not share[best] < GRID.worthwhile:
        return None
    where = [float(c) for c in choice.observation.points[0]]  # type: ignore[attr-defined]
    return {
        "experiment": name,
        "point": where,
        "channels": [str(c) for c in channels],
        "criterion": "E",
        "gains": {n: s if math.isfinite(s) else None for n, s in share.items()},
        "sentence": sentence(where, channels, best, share[best]),
    }


def gain(before: float, after: float) -> float:
    """By which factor an interval shrinks; zero where it was infinite and is not any more."""
    if not math.isfinite(before):
        return 0.0 if math.isfinite(after) else 1.0
    return after / before if before > 0 else 1.0


def sentence(where: list[float], channels: list[Any], term: str, share: float) -> str:
    """The proposal in words.

    Example:
        >>> sentence([0.5, 0.2], ["u"], "lap", 0.8)
        'add a sensor of u at (0.5, 0.2): the interval of lap would be 0.8 times as wide'
    """
    what = ", ".join(map(str, channels))
    told = (
        f"the interval of {term} would be {share:.2g} times as wide"
        if share > 0
        else f"{term} would be identified"
    )
    return f"add a sensor of {what} at {spoken_point([round(c, 4) for c in where])}: {told}"


def grid(model: Model, taken: np.ndarray) -> np.ndarray:
    """Points of a regular grid inside the domain and away from present sensors; collective."""
    mesh = model.discretisation.mesh
    own, dimension = mesh.geometry.x[:, : mesh.geometry.dim], mesh.geometry.dim
    ends = model.comm.allgather(
        (own.min(axis=0), own.max(axis=0)) if len(own) else (np.full(dimension, np.inf),) * 2
    )
    low = np.min([pair[0] for pair in ends], axis=0)
    high = np.max([np.where(np.isfinite(pair[1]), pair[1], -np.inf) for pair in ends], axis=0)
    extent = high - low
    axes = [
        np.linspace(a + GRID.inset * e, b - GRID.inset * e, GRID.points[dimension - 1])
        for a, b, e in zip(low, high, extent, strict=True)
    ]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, dimension)
    gaps = np.abs(points[:, None] - np.unique(taken, axis=0)[None]) / extent
    points = points[gaps.max(axis=2).min(axis=1) > GRID.apart]
    return points[PointCells(mesh, points).share > 0] if len(points) else points
