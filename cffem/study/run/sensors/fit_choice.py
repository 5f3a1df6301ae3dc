# SPDX-License-Identifier: MIT
"""Which way the coefficients of a study are found: given, by regression on fields, or by
calibration on readings; and why.

A regression needs derivatives, hence fields. Readings of a few sensors have none, so the model is
solved for trial coefficients and compared with them where they were taken. Fields can be fitted
that way, too: every value is then a reading. Where both are possible and neither is enough alone,
regression on the fields says where the calibration on everything starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cffem.data.dataset import Dataset
from cffem.data.readings import Readings
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.observations import Observation, PlacedReadings, Placement

AUTO, REGRESSION, CALIBRATION, BOTH = "auto", "regression", "calibration", "both"
FITS = (AUTO, REGRESSION, CALIBRATION, BOTH)
GIVEN = "given"
# Points in space below which no derivative of a field is taken, on a line and elsewhere: local
# quadratic polynomials need about this many to overlap, and nothing is left to smooth.
FEWEST_POINTS = {1: 8, 2: 40, 3: 40}
# Scattered points below which derivatives can be taken but are poor, so that a calibration follows.
SPARSE_POINTS = 200
MOST_READINGS = 20_000  # beyond it a fit by solving again spends its time on comparing

Reading = tuple[Observation, np.ndarray]


@dataclass(frozen=True)
class FitChoice:
    """How coefficients are found.

    Attributes:
        kind: "given", "regression", "calibration", or "both", the one after the other.
        why: in words, for the report.
    """

    kind: str
    why: str


@dataclass(frozen=True)
class StudyData:
    """Measurements of a study by experiment.

    Attributes:
        fields: datasets of which rows of a regression can be made.
        readings: observations with their values.
    """

    fields: Mapping[str, Dataset]
    readings: Mapping[str, Reading]


def is_reading(data: Any) -> bool:
    """Whether these are an observation and its values."""
    return isinstance(data, tuple | list) and len(data) == 2 and isinstance(data[0], Observation)


def named_measurements(data: Any, experiments: Mapping[str, Experiment]) -> StudyData:
    """Data by the name of their experiment.

    Raises:
        InputError: something is no data, or belongs to no experiment.
    """
    if data is None:
        return StudyData({}, {})
    single = isinstance(data, Dataset) or is_reading(data) or isinstance(data, np.ndarray)
    given = [data] if single else data
    if not isinstance(given, Mapping) and len(given) > len(experiments):
        raise InputError(
            f"there are {len(given)} datasets but {len(experiments)} experiments; give an "
            "experiment for each"
        )
    named = (
        dict(given) if isinstance(given, Mapping) else dict(zip(experiments, given, strict=False))
    )
    fields: dict[str, Dataset] = {}
    readings: dict[str, Reading] = {}
    for name, measured in named.items():
        if name not in experiments:
            raise InputError(
                f"there are data for an experiment {name!r}, but the experiments are "
                f"{', '.join(experiments)}"
            )
        if isinstance(measured, Dataset) and not isinstance(measured, Readings):
            fields[name] = measured
        else:
            readings[name] = _reading(name, measured, experiments[name])
    return StudyData(fields, readings)


def _reading(name: str, measured: Any, experiment: Experiment) -> Reading:
    """An observation with its values, the observation perhaps that of the experiment."""
    if isinstance(measured, Readings):
        return measured.observation, measured.readings
    if is_reading(measured):
        return measured[0], _values(name, measured[1])
    if isinstance(measured, np.ndarray | list) and experiment.observation is not None:
        return experiment.observation, _values(name, measured)
    hint = (
        "; numbers alone need Experiment(…, observation=sensors)"
        if isinstance(measured, np.ndarray | list)
        else ""
    )
    raise InputError(
        f"the data of {name!r} are neither a Dataset nor readings but a "
        f"{type(measured).__name__}{hint}"
    )


def _values(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=float).ravel()
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if not np.isfinite(array).all():
        raise InputError(f"the readings of {name!r} must be finite numbers; leave out gaps")
    return array


def chosen_fit(asked: str, known: bool, data: StudyData) -> FitChoice:
    """How the coefficients of a study are found.

    Args:
        asked: "auto", "regression", "calibration" or "both".
        known: whether the coefficients are given.
        data: the measurements.

    Raises:
        InputError: what is asked for is not possible with these data.
    """
    if asked not in FITS:
        raise InputError(f"fit is one of {', '.join(FITS)}, not {asked!r}")
    if known:
        if asked != AUTO:
            raise InputError(
                f"the coefficients are given, so that there is no {asked}: leave out one of them"
            )
        return FitChoice(GIVEN, "the coefficients are given")
    if not data.fields and not data.readings:
        raise InputError("a study needs known coefficients, or data to identify them from")
    sensors = sum(len(values) for _, values in data.readings.values())
    if asked == REGRESSION and data.readings:
        raise InputError(
            f"a regression needs fields, but {', '.join(data.readings)} has {sensors} readings of "
            'sensors, of which no derivative can be taken; use fit="calibration"'
        )
    few = {n: c for n, d in data.fields.items() if (c := points_of(d)) < FEWEST_POINTS[d.dim]}
    rich = [name for name in data.fields if name not in few]
    if asked == BOTH and not rich:
        raise InputError(
            'a regression needs fields, and there is none with enough points; use fit="calibration"'
        )
    if asked != AUTO:
        words = "regression, then calibration was" if asked == BOTH else f"{asked} was"
        return FitChoice(asked, f"{words} asked for")
    if data.readings and rich:
        return FitChoice(
            BOTH,
            f"{rich[0]} has a field, of which a regression gives where the calibration on it and "
            f"on {sensors} readings of sensors starts",
        )
    if data.readings:
        return FitChoice(
            CALIBRATION,
            f"the data are {sensors} readings of sensors, of which no derivative can be taken",
        )
    if few:
        name, count = next(iter(few.items()))
        return FitChoice(
            CALIBRATION,
            f"{name} was measured at {count} points, too few for derivatives of a field",
        )
    scattered = {n: scattered_points(data.fields[n]) for n in rich}
    sparse = {n: number for n, number in scattered.items() if number is not None}
    if sparse and max(sparse.values()) < SPARSE_POINTS and size_of(data) <= MOST_READINGS:
        name, count = next(iter(sparse.items()))
        return FitChoice(
            BOTH,
            f"{name} was measured at {count} scattered points, of which derivatives can be taken "
            "but are poor: regression gives where the calibration starts",
        )
    return FitChoice(REGRESSION, "the data are fields, of which derivatives can be taken")


def scattered_points(data: Dataset) -> int | None:
    """How many points a dataset has where they are scattered; None on a grid."""
    return None if data.points is None else len(data.points)


def size_of(data: StudyData) -> int:
    """How many values all fields have."""
    return sum(array.size for each in data.fields.values() for array in each.values.values())


def points_of(data: Dataset) -> int:
    """How many points in space a dataset has."""
    if data.points is not None:
        return len(data.points)
    return int(np.prod([len(data.coordinates[c]) for c in SPACE if c in data.coordinates]))


def readings_of_fields(name: str, data: Dataset) -> Reading:
    """Every measured value of a dataset as a reading whose noise is unknown.

    Raises:
        InputError: there are too many.
    """
    size = sum(array.size for array in data.values.values())
    if size > MOST_READINGS:
        raise InputError(
            f"the data of {name!r} have {size} values; a calibration takes {MOST_READINGS} at "
            'most: thin them out, or use fit="regression"'
        )
    if data.points is not None:
        space = np.asarray(data.points, dtype=float)
    else:
        axes = [data.coordinates[c] for c in SPACE if c in data.coordinates]
        space = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    times = data.coordinates.get(t, np.array([np.nan]))
    points, when, channels, labels, values = [], [], [], [], []
    for channel, array in data.values.items():
        flat = np.asarray(array, dtype=float).reshape(len(space), len(times))
        there = np.isfinite(flat)
        if data.mask is not None:
            there &= ~np.asarray(data.mask).reshape(there.shape)
        where, at = np.nonzero(there)
        points.append(space[where])
        when.append(times[at])
        channels += [channel] * len(where)
        labels += [f"point {k + 1}" for k in where]
        values.append(flat[there])
    placed = Placement(np.concatenate(points), np.concatenate(when), tuple(channels), tuple(labels))
    return PlacedReadings(placed), np.concatenate(values)
