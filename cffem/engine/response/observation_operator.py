# SPDX-License-Identifier: MIT
"""Observations on a model: their values on a trajectory, derivatives along others, and adjoint.

Readings of fields are linear: reading k is (1 − s) R_k u^n + s R_k u^{n+1} with a row R_k over the
unknowns (see `point_rows`), the level n and the fraction s of the step in which its time lies, on
the piecewise linear interpolant that all norms and observables here use. Observables bring their
own derivative. A multiplier has no initial value; in the first step it has the value of its end.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Iterable, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from dolfinx import la
from scipy.sparse import csr_array

from cffem.engine.response.observable_values import Measurement, time_nodes
from cffem.engine.response.part_points import part_points
from cffem.engine.response.point_rows import PointCells, ball_rule, rows_at
from cffem.engine.response.tangent import unset_at_start
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, VectorField
from cffem.symbols.problem.observations import (
    Channel,
    Observation,
    Observations,
    Part,
    PartObservation,
    PlacedReadings,
    Placement,
    ReadingNoise,
    Sensors,
    Series,
    channels_of,
    replace_time,
)

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

Gradient = tuple[dict[int, np.ndarray], dict[int, np.ndarray]]
# Times that are off the window by less than this share of it are at its ends.
ROUNDING = 1e-9


class ReadingBlock(Protocol):
    """Some readings of one model."""

    noise: ReadingNoise
    labels: tuple[str, ...]
    series: list[np.ndarray]  # the readings of each sensor in the order of time

    def values(self, solution: Solution) -> np.ndarray:
        """𝒪[u] on all ranks."""

    def derivatives(self, solution: Solution, directions: Sequence[Solution]) -> np.ndarray:
        """D𝒪(u) in the direction of trajectories, one column for each."""

    def gradient(self, solution: Solution, weights: np.ndarray) -> Gradient:
        """Σ_k weight_k D𝒪_k(u) as vectors by time level, for states and for velocities."""


class LinearReadings:
    """Readings that are rows over the unknowns at times.

    Args:
        model: the model.
        rows: functionals × local unknowns, ghosts included; this rank's part.
        index: the functional of each reading.
        times: of each reading; NaN in a steady problem.
        noise: of the readings.
        labels: what each reading is, for people.
        owners: the sensor of each reading.
        points: the place of each reading, one row each.
    """

    def __init__(
        self,
        model: Model,
        rows: csr_array,
        index: np.ndarray,
        times: np.ndarray,
        noise: ReadingNoise,
        labels: Sequence[str],
        owners: Sequence[Hashable],
        points: np.ndarray | None = None,
    ):
        self.model, self.rows, self.index = model, rows, index
        self.times, self.points = np.asarray(times, dtype=float), points
        self.series = in_time(owners, times)
        self.noise, self.labels = noise, tuple(labels)
        self.levels, self.fractions = time_places(times, model.times, self.labels)
        self._unset = unset_at_start(model)
        self._transposed = rows.T.tocsr()
        space = model.spaces.space.dofmap
        self._work = la.vector(space.index_map, space.index_map_bs)

    @property
    def _needed(self) -> list[int]:
        after = self.levels[self.fractions > 0] + 1
        return sorted({*map(int, self.levels), *map(int, after)})

    def _state(self, states: Any, level: int) -> np.ndarray:
        state = states[level]
        if level == 0 and len(states) > 1:
            state = state * (1 - self._unset) + states[1] * self._unset
        return state

    def values(self, solution: Solution) -> np.ndarray:
        """𝒪[u] on all ranks; collective."""
        spaces, needed = self.model.spaces, self._needed
        seen = np.zeros((len(needed), self.rows.shape[0]))
        for k, level in enumerate(needed):
            seen[k] = self.rows @ spaces.with_ghosts(self._state(solution.states, level))
        seen = self.model.comm.allreduce(seen)
        before = np.searchsorted(needed, self.levels)
        after = np.searchsorted(needed, self.levels + (self.fractions > 0))
        return (1 - self.fractions) * seen[before, self.index] + self.fractions * seen[
            after, self.index
        ]

    def derivatives(self, solution: Solution, directions: Sequence[Solution]) -> np.ndarray:
        """D𝒪 in the direction of trajectories, one column for each; collective."""
        return np.column_stack([self.values(direction) for direction in directions])

    def gradient(self, solution: Solution, weights: np.ndarray) -> Gradient:
        """Σ_k weight_k D𝒪_k as vectors by time level; collective."""
        found: dict[int, np.ndarray] = {}
        steady = len(self.model.times) == 1
        for level in self._needed:
            load = np.zeros(self.rows.shape[0])
            here, before = self.levels == level, self.levels + 1 == level
            np.add.at(load, self.index[here], ((1 - self.fractions) * weights)[here])
            np.add.at(load, self.index[before], (self.fractions * weights)[before])
            self._work.array[:] = self._transposed @ load
            self._work.scatter_reverse(la.InsertMode.add)
            vector = self._work.array[: self.model.spaces.owned].copy()
            if level == 0 and not steady:
                found[1] = found.get(1, 0.0) + vector * self._unset
                vector = vector * (1 - self._unset)
            found[level] = found.get(level, 0.0) + vector
        return found, {}


class ObservableReadings:
    """Readings that are observables.

    Args:
        model: the model.
        series: the observables with their times.
    """

    def __init__(self, model: Model, series: Series):
        self.model = model
        self.measurements: list[Measurement] = []
        self.labels = tuple(f"{type(o).__name__} at {o.at}" for o in series.readings)
        for observable in series.observables:
            compiled = model.measurement(observable)
            for time in (None,) if series.times is None else series.times:
                placed = copy.copy(compiled)
                if time is not None:
                    moved = replace_time(observable, float(time))
                    placed.nodes = time_nodes(moved, model.times, compiled.linear)
                self.measurements.append(placed)
        self.noise = series.noise_of(len(self.measurements))
        each = len(self.measurements) // len(series.observables)
        self.series = np.split(np.arange(len(self.measurements)), len(series.observables))
        if each > 1:
            self.series = [s[np.argsort(np.asarray(series.times))] for s in self.series]

    def values(self, solution: Solution) -> np.ndarray:
        """𝒪[u] on all ranks; collective."""
        return np.array([m.value(solution) for m in self.measurements])

    def derivatives(self, solution: Solution, directions: Sequence[Solution]) -> np.ndarray:
        """D𝒪(u) in the direction of trajectories, one column for each; collective."""
        result = np.zeros((len(self.measurements), len(directions)))
        for k, measurement in enumerate(self.measurements):
            gradients = measurement.gradient(solution)
            for j, direction in enumerate(directions):
                pairs = zip(gradients, (direction.states, direction.velocities), strict=True)
                result[k, j] = sum(
                    float(np.dot(vector, states[level]))
                    for vectors, states in pairs
                    if states is not None
                    for level, vector in vectors.items()
                )
        return np.asarray(self.model.comm.allreduce(result))

    def gradient(self, solution: Solution, weights: np.ndarray) -> Gradient:
        """Σ_k weight_k D𝒪_k(u) as vectors by time level; collective."""
        found: Gradient = ({}, {})
        for weight, measurement in zip(weights, self.measurements, strict=True):
            _add(found, measurement.gradient(solution), float(weight))
        return found


class ObservationOperator:
    """An observation on one model: values, derivatives and adjoint, plain or whitened by the noise.

    Args:
        model: the model.
        observation: what is observed.

    Attributes:
        noise: of all readings.
        labels: what each reading is, for people.
        series: the readings of each sensor in the order of time.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "one": sp.Integer(1)}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 4),
        ...     elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "one": 2.0}, experiment)
        >>> operator = ObservationOperator(model, cf.Sensors([0.25, 0.5], [u], noise=0.01))
        >>> np.round(operator.values(model.factual), 10)
        array([0.1875, 0.25  ])
    """

    def __init__(self, model: Model, observation: Observation):
        if not isinstance(observation, Observation):
            raise InputError(
                f"{observation!r} is no observation; write cf.Sensors(points, fields=[u]), "
                "cf.Part(name), cf.Trace(name) or cf.Series(observables)"
            )
        self.model, self.observation = model, observation
        parts = observation.parts if isinstance(observation, Observations) else (observation,)
        self.blocks = [reading_block(part, model) for part in parts]
        self.noise = ReadingNoise.joined([block.noise for block in self.blocks])
        self.labels = tuple(label for block in self.blocks for label in block.labels)
        self._ends = np.cumsum([len(block.labels) for block in self.blocks])
        starts = [0, *self._ends[:-1]]
        self.series = [
            start + one
            for start, block in zip(starts, self.blocks, strict=True)
            for one in block.series
        ]

    def __len__(self) -> int:
        return len(self.labels)

    def values(self, solution: Solution) -> np.ndarray:
        """𝒪[u], the same on all ranks; collective. Sensor by sensor, of each time by time, and at
        each time component by component, as `labels` say.
        """
        return np.concatenate([block.values(solution) for block in self.blocks])

    def derivatives(self, solution: Solution, directions: Iterable[Solution]) -> np.ndarray:
        """D𝒪(u) in the direction of trajectories, readings × directions; collective."""
        along = list(directions)
        return np.concatenate([block.derivatives(solution, along) for block in self.blocks])

    def places(self, step: int = 1) -> dict[str, list[Any]]:
        """Where and when readings were taken, for pictures; None where a reading has no place.

        Args:
            step: every how many readings.
        """
        points: list[Any] = []
        times: list[Any] = []
        for block in self.blocks:
            count = len(block.labels)
            own = getattr(block, "points", None)
            points += [None] * count if own is None else own.tolist()
            when = getattr(block, "times", np.full(count, np.nan))
            times += [None if np.isnan(time) else float(time) for time in when]
        return {"points": points[::step], "times": times[::step]}

    def gradient(self, solution: Solution, weights: np.ndarray) -> Gradient:
        """Σ_k weight_k D𝒪_k(u) as vectors by time level, for states and for velocities."""
        found: Gradient = ({}, {})
        for block, part in zip(self.blocks, np.split(weights, self._ends[:-1]), strict=True):
            _add(found, block.gradient(solution, part), 1.0)
        return found

    def weighted(self, weights: np.ndarray) -> WeightedReadings:
        """Σ_k weight_k 𝒪_k as one functional, for an adjoint solve."""
        return WeightedReadings(self, np.asarray(weights, dtype=float))


class WeightedReadings:
    """Σ_k weight_k 𝒪_k, with the value and the gradient that an adjoint solve asks for."""

    def __init__(self, operator: ObservationOperator, weights: np.ndarray):
        self.observable, self.operator, self.weights = operator.observation, operator, weights

    def value(self, solution: Solution) -> float:
        """The value."""
        return float(self.weights @ self.operator.values(solution))

    def gradient(self, solution: Solution) -> Gradient:
        """Its derivative as vectors by time level."""
        return self.operator.gradient(solution, self.weights)


def _add(found: Gradient, more: Gradient, weight: float) -> None:
    for levels, parts in zip(found, more, strict=True):
        for level, vector in parts.items():
            levels[level] = levels.get(level, 0.0) + weight * vector


# Which block an observation becomes
# --------------------------------------------------------------------------------------------------


@singledispatch
def reading_block(observation: Observation, model: Model) -> ReadingBlock:
    """The readings of an observation on a model; register a function for an observation of one's
    own.
    """
    raise InputError(f"{type(observation).__name__} cannot be evaluated on a mesh")


@reading_block.register(Series)
def _(observation: Series, model: Model) -> ReadingBlock:
    return ObservableReadings(model, observation)


@reading_block.register(Sensors)
@reading_block.register(PlacedReadings)
def _(observation: Any, model: Model) -> ReadingBlock:
    levels = None if model.experiment.time is None else model.times
    placed = observation.placement(levels)
    channels = checked_channels(placed.channels, model)
    distinct, places = np.unique(placed.points, axis=0, return_inverse=True)
    places = places.ravel()
    first = np.unique(places, return_index=True)[1]
    names = [placed.sensors[k] for k in first]
    blocks, index = [], np.zeros(len(placed), dtype=int)
    offset = 0
    for channel in dict.fromkeys(channels):
        blocks.append(_rows_around(model, channel, distinct, observation.radius, names))
        mine = np.array([c == channel for c in channels])
        index[mine] = places[mine] + offset
        offset += len(distinct)
    from scipy.sparse import vstack

    labels = [
        f"{channel} of {sensor}" + ("" if np.isnan(time) else f" at t = {time:g}")
        for channel, sensor, time in zip(channels, placed.sensors, placed.times, strict=True)
    ]
    noise = observation.noise_of(len(placed))
    owners = [(str(c), s) for c, s in zip(channels, placed.sensors, strict=True)]
    return LinearReadings(
        model,
        csr_array(vstack(blocks)),
        index,
        placed.times,
        noise,
        labels,
        owners,
        placed.points,
    )


def _rows_around(
    model: Model, channel: Channel, points: np.ndarray, radius: float | None, names: Sequence[str]
) -> csr_array:
    """Rows of the values at points or of means around them, which stay within the mesh."""
    mesh = model.discretisation.mesh
    centres = PointCells(mesh, points)
    centres.refuse_outside(names)
    offsets, weights = (
        (np.zeros((1, points.shape[1])), np.ones(1))
        if radius is None
        else ball_rule(points.shape[1])
    )
    around = (points[:, None] + (radius or 0.0) * offsets).reshape(-1, points.shape[1])
    found = centres if radius is None else PointCells(mesh, around)
    inside = np.tile(weights, len(points)) * (found.share > 0)
    total = inside.reshape(len(points), -1).sum(axis=1)
    inside = inside * found.share / np.repeat(total, len(weights))
    numbers, cells = found.cells
    return rows_at(
        model.spaces,
        channel,
        found.points[numbers],
        cells,
        numbers // len(weights),
        inside[numbers],
        len(points),
    )


@reading_block.register(PartObservation)
def _(observation: PartObservation, model: Model) -> ReadingBlock:
    levels = None if model.experiment.time is None else model.times
    if levels is None and observation.times is not None:
        raise InputError(f"{type(observation).__name__} has times, but the problem is steady")
    fields = observation.fields or channels_of(model.discretisation.unknowns)
    channels = checked_channels(fields, model)
    degree = 2 * max(_degree(model, channel) for channel in channels)
    on_boundary = not isinstance(observation, Part)
    part = part_points(model.discretisation, observation.on, on_boundary, degree)
    everywhere = np.sort(np.concatenate(model.comm.allgather(part.order)))
    numbers = np.searchsorted(everywhere, part.order)
    count = len(everywhere)
    weights = np.zeros(count)
    weights[numbers] = part.weights
    weights = model.comm.allreduce(weights)
    rows = [
        rows_at(model.spaces, c, part.points, part.cells, numbers, np.ones(len(part.cells)), count)
        for c in channels
    ]
    from scipy.sparse import vstack

    dimension = model.discretisation.mesh.geometry.dim
    where = np.zeros((count, dimension))
    where[numbers] = part.points[:, :dimension]
    where = np.tile(model.comm.allreduce(where), (len(channels), 1))
    times = np.array([np.nan]) if levels is None else levels
    times = times if observation.times is None else observation.times
    size = count * len(channels)
    deviation = np.tile(np.sqrt(weights.sum() / weights), len(channels) * len(times))
    level = 1.0 if observation.noise is None else float(observation.noise)
    noise = ReadingNoise(level * deviation, None, observation.noise is not None)
    what = f"{type(observation).__name__}({observation.on!r})"
    labels = [f"{c} on {what}" for c in channels for _ in range(count)] * len(times)
    index = np.tile(np.arange(size), len(times))
    return LinearReadings(
        model,
        csr_array(vstack(rows)),
        index,
        np.repeat(times, size),
        noise,
        labels,
        index,
        np.tile(where, (len(times), 1)),
    )


def at_fixed_places(observation: Observation, model: Model) -> Observation:
    """The same readings at places and times that do not depend on the mesh or the time steps of a
    model, so that models on other levels can be read alike.

    Args:
        observation: what is observed.
        model: whose quadrature points and time levels are meant where none are given.
    """
    if isinstance(observation, Observations):
        return Observations(tuple(at_fixed_places(part, model) for part in observation.parts))
    if isinstance(observation, Sensors):
        levels = None if model.experiment.time is None else model.times
        return PlacedReadings(observation.placement(levels), observation.noise, observation.radius)
    if not isinstance(observation, PartObservation):
        return observation
    block = reading_block(observation, model)
    assert isinstance(block, LinearReadings)
    assert block.points is not None
    channels = checked_channels(
        observation.fields or channels_of(model.discretisation.unknowns), model
    )
    count = len(set(block.index.tolist())) // len(channels)
    placed = Placement(
        block.points,
        block.times,
        tuple(channels[k // count] for k in block.index),
        tuple(f"point {k % count + 1}" for k in block.index),
    )
    return PlacedReadings(placed, block.noise.deviation if block.noise.known else None)


def _degree(model: Model, channel: Channel) -> int:
    unknown = channel.field if isinstance(channel, Component) else channel
    return max(1, int(model.spaces.elements[unknown].embedded_superdegree))


def checked_channels(channels: Iterable[Channel], model: Model) -> tuple[Channel, ...]:
    """Channels that the model has; readings name fields by a stand-in of the same name."""
    by_name = {str(f): f for f in model.spaces.fields}
    found: list[Channel] = []
    for channel in channels:
        unknown = channel.field if isinstance(channel, Component) else channel
        own = by_name.get(str(unknown))
        if own is None:
            raise InputError(
                f"{unknown} is observed, but the model has {', '.join(sorted(by_name))}"
            )
        size = own.dim if isinstance(own, VectorField) else None
        if isinstance(channel, Component):
            if size is None or channel.index >= size:
                raise InputError(
                    f"there is no component {channel.index} of {own}, which "
                    + (f"has {size} components" if size else "is a scalar")
                )
            found.append(own[channel.index])
        elif size is not None:
            raise InputError(f"{own} is a vector; say which component was read")
        else:
            found.append(own)
    return tuple(found)


def in_time(owners: Sequence[Hashable], times: np.ndarray) -> list[np.ndarray]:
    """The readings of each owner in the order of time.

    Example:
        >>> in_time(["a", "b", "a"], np.array([1.0, 0.0, 0.0]))
        [array([2, 0]), array([1])]
    """
    found: dict[Hashable, list[int]] = {}
    for k, owner in enumerate(owners):
        found.setdefault(owner, []).append(k)
    return [np.array(ks)[np.argsort(times[ks], kind="stable")] for ks in found.values()]


def time_places(
    times: np.ndarray, levels: np.ndarray, labels: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """The level before each time and the fraction of the step after it.

    Example:
        >>> time_places(np.array([0.25, 1.0]), np.array([0.0, 0.5, 1.0]), ["a", "b"])
        (array([0, 2]), array([0.5, 0. ]))
    """
    steady = len(levels) == 1
    if steady:
        given = np.flatnonzero(np.isfinite(times))
        if len(given):
            raise InputError(f"{labels[given[0]]} has a time, but the problem is steady")
        return np.zeros(len(times), dtype=int), np.zeros(len(times))
    missing = np.flatnonzero(~np.isfinite(times))
    if len(missing):
        raise InputError(f"{labels[missing[0]]} has no time, but the problem depends on time")
    slack = ROUNDING * (levels[-1] - levels[0])
    for wrong, where in (
        (times < levels[0] - slack, "before"),
        (times > levels[-1] + slack, "after"),
    ):
        if wrong.any():
            end = levels[0] if where == "before" else levels[-1]
            raise InputError(
                f"{labels[int(np.argmax(wrong))]} was read {where} the window, which "
                f"{'begins' if where == 'before' else 'ends'} at {end:g}"
            )
    times = np.clip(times, levels[0], levels[-1])
    place = np.clip(np.searchsorted(levels, times, side="right") - 1, 0, len(levels) - 2)
    fraction = (times - levels[place]) / (levels[place + 1] - levels[place])
    # A time that is a level up to rounding is that level.
    place = np.where(fraction > 1 - ROUNDING, place + 1, place)
    fraction = np.where((fraction < ROUNDING) | (fraction > 1 - ROUNDING), 0.0, fraction)
    return place, fraction
