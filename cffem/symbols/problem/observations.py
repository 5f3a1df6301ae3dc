# SPDX-License-Identifier: MIT
"""Observations 𝒪: what an experiment sees of a solution, declared here and evaluated by the engine.

The claims of a study hold relative to (Γ, 𝓔, 𝒪, ‖·‖, ε). Sensors read fields at points, or average
them around points; `Part` and `Trace` see a field on a part of the domain or of its boundary;
`Series` are observables; `+` joins observations. Each has its noise: a standard deviation, one for
each reading, a covariance matrix, or None where it is unknown.

Readings are numbered sensor by sensor, in each by time, and at each time by component.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field, VectorField
from cffem.symbols.problem.observables import Observable
from cffem.symbols.real_values import real_values

Channel = Field | Component  # a scalar field or one component of a vector field


@dataclass(frozen=True, eq=False)
class Placement:
    """Where and when each reading was taken.

    Attributes:
        points: one row for each reading.
        times: one for each reading; NaN in a steady problem.
        channels: what each reading is of.
        sensors: the label of the sensor of each reading.
    """

    points: np.ndarray
    times: np.ndarray
    channels: tuple[Channel, ...]
    sensors: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.times)


class Observation:
    """Base of all observations; `a + b` is both together."""

    noise: np.ndarray | None = None

    def __add__(self, other: object) -> Observations:
        if not isinstance(other, Observation):
            return NotImplemented
        return Observations((*_parts(self), *_parts(other)))

    def noise_of(self, size: int) -> ReadingNoise:
        """The noise of that many readings."""
        return ReadingNoise.of(self.noise, size)


@dataclass(frozen=True, eq=False)
class Observations(Observation):
    """Several observations together, their readings one after another."""

    parts: tuple[Observation, ...]


def _parts(observation: Observation) -> tuple[Observation, ...]:
    return observation.parts if isinstance(observation, Observations) else (observation,)


@dataclass(frozen=True, eq=False)
class Sensors(Observation):
    """Sensors at points, fixed or moving, that read fields or single components.

    Args:
        points: one row for each sensor; of moving sensors sensors × times × dimension.
        fields: what they read: fields, or components such as v[0].
        times: None for all time levels; the times of all sensors; or sensors × times with NaN where
            a sensor was not read.
        noise: the standard deviation of a reading, one for each reading, a covariance matrix of all
            readings, or None where it is unknown.
        radius: None for the value at the point; else the mean around it, weighted by
            (1 − r²/radius²)².

    Example:
        >>> import cffem as cf
        >>> v = cf.VectorField("v", dim=2)
        >>> sensors = cf.Sensors([(0.2, 0.3), (0.7, 0.5)], [v, v[0]], times=[0, 1], noise=0.02)
        >>> sensors
        Sensors(2 points, v[0], v[1], v[0], 2 times, noise 0.02)
    """

    points: np.ndarray
    fields: Sequence[Channel]
    times: np.ndarray | None = None
    noise: np.ndarray | None = None
    radius: float | None = None

    def __post_init__(self) -> None:
        points = numbers(self.points, "the points of sensors")
        points = points[:, None] if points.ndim == 1 else points
        if points.ndim not in (2, 3) or not points.size or points.shape[-1] not in (1, 2, 3):
            raise InputError(
                "sensors need one row of 1, 2 or 3 coordinates for each, or sensors × times × "
                f"dimension where they move, not an array of shape {points.shape}"
            )
        times = None if self.times is None else numbers(self.times, "the times of sensors", True)
        times = None if times is None else np.atleast_1d(times)
        object.__setattr__(self, "points", points)
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "fields", channels_of(self.fields, points.shape[-1]))
        self._check_times()
        self._check_repeated()
        if self.radius is not None and not (np.isfinite(self.radius) and self.radius > 0):
            raise InputError(f"the radius of sensors must be positive, not {self.radius!r}")
        ReadingNoise.check(self.noise)

    def _check_times(self) -> None:
        count, times, moving = len(self.points), self.times, self.points.ndim == 3
        if moving and times is None:
            raise InputError("sensors that move need the times at which they are where they are")
        if times is None:
            return
        if times.ndim > 2 or (times.ndim == 2 and len(times) != count):
            raise InputError(
                f"each of the {count} sensors needs its row of times, but the times have the shape "
                f"{times.shape}"
            )
        if moving and self.points.shape[1] != times.shape[-1]:
            raise InputError(
                f"sensors that move need one point for each time, but there are "
                f"{self.points.shape[1]} points and {times.shape[-1]} times"
            )
        if not np.isfinite(times).any() or (times.ndim == 1 and np.isnan(times).any()):
            raise InputError("the times of sensors must be numbers; NaN marks gaps of one sensor")

    def _check_repeated(self) -> None:
        if self.points.ndim == 3:
            return
        _, first, inverse = np.unique(self.points, axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[inverse.ravel()] != np.arange(len(self.points)))
        if len(twice):
            other = first[inverse.ravel()[twice[0]]]
            raise InputError(
                f"sensors {other + 1} and {twice[0] + 1} are at one place, "
                f"{spoken_point(self.points[other])}; leave one out, or give the mean of both and "
                "its noise"
            )

    def placement(self, levels: np.ndarray | None) -> Placement:
        """Every reading with its place and time.

        Args:
            levels: the time levels of the model, which stand for times that are not given; None
                for a steady problem.
        """
        count, width = len(self.points), len(self.fields)
        if levels is None and self.times is not None:
            raise InputError("the sensors have times, but the problem is steady")
        times = np.array([np.nan]) if levels is None else levels
        times = times if self.times is None else self.times
        times = np.broadcast_to(times, (count, times.shape[-1]))
        points = self.points[:, None] if self.points.ndim == 2 else self.points
        points = np.broadcast_to(points, (*times.shape, points.shape[-1]))
        index = np.broadcast_to(np.arange(count)[:, None], times.shape)
        kept = np.isfinite(times) | (levels is None)
        rows = np.repeat(points[kept], width, axis=0)
        return Placement(
            rows,
            np.repeat(times[kept], width),
            tuple(self.fields) * int(kept.sum()),
            tuple(f"sensor {i + 1}" for i in np.repeat(index[kept], width)),
        )

    def chosen(self, index: Iterable[int]) -> Sensors:
        """Some of these sensors."""
        index = np.asarray(list(index), dtype=int)
        own = self.times if self.times is None or self.times.ndim == 1 else self.times[index]
        if np.ndim(self.noise):
            raise InputError("only sensors whose noise is one number can be chosen from")
        return replace(self, points=self.points[index], times=own)

    def __repr__(self) -> str:
        when = "all times" if self.times is None else f"{self.times.shape[-1]} times"
        around = "" if self.radius is None else f", means over radius {self.radius:g}"
        return (
            f"Sensors({len(self.points)} points, {', '.join(map(str, self.fields))}, {when}{around}"
            f", noise {spoken_noise(self.noise)})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlacedReadings(Observation):
    """Readings that each have a place and a time of their own, as a table of readings has."""

    placed: Placement
    noise: np.ndarray | None = None
    radius: float | None = None

    def placement(self, levels: np.ndarray | None) -> Placement:
        """Every reading with its place and time."""
        return self.placed

    def __repr__(self) -> str:
        count = len(set(self.placed.sensors))
        return f"PlacedReadings({len(self.placed)} readings of {count} sensors)"


@dataclass(frozen=True, eq=False)
class PartObservation(Observation):
    """A field seen everywhere on a named part of the mesh, through white noise.

    Args:
        on: the physical name of the part.
        fields: what is seen; None for all unknowns.
        times: None for all time levels.
        noise: the standard deviation of the mean over the part. The noise is white in space, so
            that Σ (difference/noise)² is the square of the root mean square over the part divided
            by the square of this number, on every mesh.
    """

    on: str
    fields: Sequence[Channel] | None = None
    times: np.ndarray | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.on, str) or not self.on:
            raise InputError(f"{type(self).__name__} takes the name of a part, not {self.on!r}")
        if self.fields is not None:
            object.__setattr__(self, "fields", channels_of(self.fields))
        if self.times is not None:
            times = np.atleast_1d(numbers(self.times, f"the times of {type(self).__name__}"))
            object.__setattr__(self, "times", times)
        ReadingNoise.check(self.noise, scalar=True)


class Part(PartObservation):
    """A field on a named part of the domain ("domain" for all of it).

    Example:
        >>> import cffem as cf
        >>> cf.Part("wake", noise=0.01).on
        'wake'
    """


class Trace(PartObservation):
    """A field on a named part of the boundary ("boundary" for all of it).

    Example:
        >>> import cffem as cf
        >>> cf.Trace("wall", noise=0.01).on
        'wall'
    """


@dataclass(frozen=True, eq=False)
class Series(Observation):
    """A series of observables: any functional that SymPy can say, linear or not, at its time, or at
    each of several times.

    Args:
        observables: one or several.
        times: None: each at its own time `at`; else each at all of these times.
        noise: as for `Sensors`; the readings are numbered observable by observable.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> drag = cf.Series([cf.Flux(cf.grad(u), on="wall")], times=[0.5, 1.0], noise=1e-3)
        >>> [reading.at for reading in drag.readings]
        [0.5, 1.0]
    """

    observables: Sequence[Observable]
    times: np.ndarray | None = None
    noise: np.ndarray | None = None

    def __post_init__(self) -> None:
        given = self.observables
        if isinstance(given, Observable):
            given = (given,)
        given = tuple(given.values() if isinstance(given, Mapping) else given)
        wrong = next((o for o in given if not isinstance(o, Observable)), None)
        if not given or wrong is not None:
            raise InputError(
                f"Series takes observables such as cf.Integral(u), not {wrong if given else given}"
            )
        object.__setattr__(self, "observables", given)
        if self.times is not None:
            times = np.atleast_1d(numbers(self.times, "the times of Series"))
            object.__setattr__(self, "times", times)
        ReadingNoise.check(self.noise)

    @property
    def readings(self) -> tuple[Observable, ...]:
        """One observable for each reading."""
        if self.times is None:
            return tuple(self.observables)
        return tuple(replace_time(o, float(time)) for o in self.observables for time in self.times)


def replace_time(observable: Observable, time: float) -> Observable:
    """The same observable at a time."""
    moved = copy.copy(observable)
    object.__setattr__(moved, "at", time)
    return moved


@dataclass(frozen=True, eq=False)
class ReadingNoise:
    """The noise of readings, and how they are whitened by it.

    Attributes:
        deviation: the standard deviation of each reading; ones where the noise is unknown.
        factor: the Cholesky factor of the covariance, or None where readings are independent.
        known: whether the level is known.
    """

    deviation: np.ndarray
    factor: np.ndarray | None
    known: bool

    @classmethod
    def check(cls, noise: np.ndarray | None, scalar: bool = False) -> None:
        """Refuse what is no noise."""
        if noise is None:
            return
        array = numbers(noise, "the noise")
        if array.ndim > (0 if scalar else 2):
            raise InputError(
                "noise is a number" + ("" if scalar else ", one for each reading, or a covariance")
            )
        deviations = np.diag(array) if array.ndim == 2 else array
        if np.any(deviations <= 0):
            raise InputError(
                "noise must be positive: a reading without noise would outweigh all others; give "
                "the resolution of the instrument, or None where it is unknown"
            )

    @classmethod
    def of(cls, noise: np.ndarray | None, size: int) -> ReadingNoise:
        """The noise of that many readings.

        Example:
            >>> ReadingNoise.of(0.5, 2).whitened(np.array([1.0, 2.0]))
            array([2., 4.])
        """
        cls.check(noise)
        if noise is None:
            return cls(np.ones(size), None, False)
        array = np.asarray(noise, dtype=float)
        if array.ndim and array.shape[0] != size:
            raise InputError(
                f"there are {size} readings, but the noise is given for {array.shape[0]}"
            )
        if array.ndim < 2:
            return cls(np.broadcast_to(array, (size,)).copy(), None, True)
        try:
            symmetric = np.allclose(array, array.T, rtol=1e-10)
            factor = np.linalg.cholesky(array)
        except (np.linalg.LinAlgError, ValueError):
            symmetric = False
        if not symmetric:
            raise InputError("a covariance must be a symmetric, positive definite matrix")
        return cls(np.sqrt(np.diag(array)), factor, True)

    def whitened(self, values: np.ndarray) -> np.ndarray:
        """Readings, or columns of readings, in units of their noise and uncorrelated."""
        if self.factor is not None:
            from scipy.linalg import solve_triangular

            return solve_triangular(self.factor, values, lower=True)
        return (values.T / self.deviation).T

    def whitened_back(self, values: np.ndarray) -> np.ndarray:
        """The transpose of `whitened`."""
        if self.factor is not None:
            from scipy.linalg import solve_triangular

            return solve_triangular(self.factor, values, lower=True, trans="T")
        return (values.T / self.deviation).T

    @classmethod
    def joined(cls, noises: Sequence[ReadingNoise]) -> ReadingNoise:
        """The noise of independent observations together; known and unknown levels do not mix."""
        if len({noise.known for noise in noises}) > 1:
            raise InputError(
                "of observations that are joined either all have their noise or none has"
            )
        from scipy.linalg import block_diag

        correlated = any(noise.factor is not None for noise in noises)
        factors = [np.diag(n.deviation) if n.factor is None else n.factor for n in noises]
        return cls(
            np.concatenate([noise.deviation for noise in noises]),
            block_diag(*factors) if correlated else None,
            noises[0].known,
        )


def channels_of(
    fields: Iterable[Field | Component] | Field | Component, dimension: int | None = None
) -> tuple[Channel, ...]:
    """The scalar channels of fields and components."""
    given = (fields,) if isinstance(fields, Field | Component) else tuple(fields)
    if not given:
        raise InputError("sensors need at least one field to read, fields=[u] say")
    found: list[Channel] = []
    for field in given:
        if isinstance(field, VectorField):
            found += [field[i] for i in range(field.dim or dimension or 0)]
        elif isinstance(field, Field) or (
            isinstance(field, Component) and isinstance(field.field, Field)
        ):
            found.append(field)
        else:
            raise InputError(
                f"sensors read fields or components such as v[0], not {field!r}; write "
                "cf.Series([cf.PointAverage(…)]) for other expressions"
            )
    return tuple(found)


def numbers(values: object, what: str, gaps: bool = False) -> np.ndarray:
    """Finite numbers, NaN allowed where there may be gaps."""
    try:
        array = real_values(values, what)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, not {values!r}") from None
    if not np.all(np.isfinite(array) | (gaps & np.isnan(array))):
        raise InputError(f"{what} must be finite numbers")
    return array


def spoken_point(point: np.ndarray) -> str:
    """A point for people."""
    return f"({', '.join(f'{c:g}' for c in np.atleast_1d(point))})"


def spoken_noise(noise: object) -> str:
    """A noise for people."""
    if noise is None:
        return "unknown"
    array = np.asarray(noise)
    return f"{array:g}" if not array.ndim else ("by reading", "with covariance")[array.ndim - 1]
