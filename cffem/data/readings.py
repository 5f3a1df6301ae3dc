# SPDX-License-Identifier: MIT
"""Tables of sensor readings: one row for each reading, with its place, time and field.

Sensors may have gaps and times of their own, and may move; nothing is interpolated. Readings are no
fields: no derivative can be taken of them. They are fitted by solving the model again
(`cf.calibrate`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cffem.data.dataset import Dataset
from cffem.data.field_arrays import refuse_degrees
from cffem.data.rows.row_blocks import RowBlock
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.fields import Component, ScalarField, VectorField
from cffem.symbols.problem.observations import (
    Channel,
    PlacedReadings,
    Placement,
    ReadingNoise,
    spoken_point,
)

COLUMNS = ("x", "y", "z", "t", "field", "component", "value", "noise", "sensor")
DELIMITERS = (";", "\t", ",")
MOST_READINGS = 10_000_000  # of a file, which must be a table and not anything


@dataclass(frozen=True, repr=False)
class Readings(Dataset):
    """Readings of sensors; made by `Dataset.from_readings`.

    Attributes:
        placement: place, time, channel and sensor of each reading.
        readings: the values.
        noise: the standard deviation of each, one for all, a covariance, or None.
    """

    placement: Placement = field(default=None)  # type: ignore[assignment]
    readings: np.ndarray = field(default=None)  # type: ignore[assignment]
    noise: object = None

    @property
    def observation(self) -> PlacedReadings:
        """What was observed, without the values."""
        return PlacedReadings(self.placement, self.noise)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The labels of the sensors."""
        return tuple(dict.fromkeys(self.placement.sensors))

    def rows(self, library: Any, kind: str) -> Iterator[RowBlock]:
        """Refused: a regression needs fields."""
        raise InputError(
            f"a regression needs fields, but these are {len(self.readings)} readings of "
            f"{len(self.sensors)} sensors; fit them with cf.calibrate"
        )

    def probes(self, library: Any) -> dict[str, object]:
        """Nothing: there are no rows."""
        return {}

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.values))
        return f"Readings({names}: {len(self.readings)} of {len(self.sensors)} sensors)"


def from_readings(table: object, noise: object = None) -> Readings:
    """The readings of a table, see `Dataset.from_readings`."""
    rows = table_rows(table)
    if not rows:
        raise InputError("there are no readings in the table")
    known = [c for c in COLUMNS if any(c in row for row in rows)]
    _check_columns(rows, known)
    kept = [
        (number, row)
        for number, row in enumerate(rows, 1)
        if not np.isnan(_number(row.get("value"), "value", number))
    ]
    if not kept:
        raise InputError("all readings of the table are missing")
    axes = [c for c in "xyz" if c in known]
    points = np.array([[_given(row, c, number) for c in axes] for number, row in kept])
    times = np.array([_number(row.get("t"), "t", number) for number, row in kept])
    if len(set(np.isnan(times))) > 1:
        raise InputError("some readings have a time t and others have none")
    channels = tuple(_channel(row, number) for number, row in kept)
    values = np.array([_number(row["value"], "value", number) for number, row in kept])
    placement = Placement(points, times, channels, _labels(kept, points, known))
    _check_repeated(placement)
    spread = _noise(kept, known, noise)
    ReadingNoise.of(spread, len(values))
    by_channel = {c: values[[k == c for k in channels]] for c in dict.fromkeys(channels)}
    moments = {} if np.isnan(times).any() else {COORDINATES[3]: np.unique(times)}
    return Readings(moments, by_channel, points, placement=placement, readings=values, noise=spread)


def table_rows(table: object) -> list[dict[str, object]]:
    """The rows of a file, of a data frame, of columns or of a list."""
    if isinstance(table, str | Path):
        return _file_rows(Path(table))
    if hasattr(table, "to_dict") and hasattr(table, "columns"):
        return _frame_rows(table)
    if isinstance(table, Mapping):
        lengths = {len(column) for column in table.values()}
        if len(lengths) != 1:
            raise InputError("the columns of a table of readings must be of one length")
        return [dict(zip(table, cells, strict=True)) for cells in zip(*table.values(), strict=True)]
    if isinstance(table, Iterable):
        rows = list(table)
        if all(isinstance(row, Mapping) for row in rows):
            return [{str(k): v for k, v in row.items()} for row in rows]
    raise InputError(
        "readings are a CSV file, a data frame, or a list of rows such as "
        '{"x": 0.1, "y": 0.2, "t": 0.5, "field": "u", "value": 3.2}'
    )


def _frame_rows(frame: Any) -> list[dict[str, object]]:
    """The rows of a data frame; levels of its index that have a name are columns too."""
    if any(name is not None for name in frame.index.names):
        levels = [k for k, name in enumerate(frame.index.names) if name is not None]
        frame = frame.reset_index(level=levels, allow_duplicates=True)
    names = [str(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the table of readings has two columns {name!r}; leave one out")
    frame = frame.astype(object)
    cells = frame.where(frame.notna(), None).to_numpy()
    return [dict(zip(names, row, strict=True)) for row in cells]


def _file_rows(path: Path) -> list[dict[str, object]]:
    try:
        with open(path, encoding="utf-8-sig", newline="") as lines:
            first = lines.readline(10_000)
            delimiter = next((d for d in DELIMITERS if d in first), ",")
            lines.seek(0)
            found: list[dict[str, object]] = []
            for row in csv.DictReader(lines, delimiter=delimiter, restkey="", strict=True):
                if "" in row or None in row.values():
                    raise InputError(f"{path}: row {len(found) + 1} does not fit its columns")
                found.append({name.strip(): cell.strip() for name, cell in row.items()})
                if len(found) > MOST_READINGS:
                    raise InputError(f"{path} has more than {MOST_READINGS} readings")
            return found
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a table of text: {error}") from None


def _check_columns(rows: Sequence[Mapping[str, object]], known: Sequence[str]) -> None:
    for name in rows[0]:
        refuse_degrees(str(name))
    unknown = sorted({str(name) for row in rows for name in row} - set(COLUMNS))
    if unknown:
        raise InputError(f"readings have no column {unknown[0]!r}; {nearest(unknown[0], COLUMNS)}")
    missing = [name for name in ("x", "field", "value") if name not in known]
    if missing:
        raise InputError(f"readings need a column {missing[0]!r}, but have {', '.join(known)}")
    if "z" in known and "y" not in known:
        raise InputError("readings with a column z need a column y")


def _number(cell: Any, name: str, row: int) -> float:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        return float("nan")
    try:
        number = float(cell)
    except (TypeError, ValueError):
        if hasattr(cell, "utcoffset") or hasattr(cell, "total_seconds"):
            raise InputError(
                f"{str(cell)[:80]!r} in row {row}, column {name}, is no number; give the time "
                "since the start of the window in its unit, for example "
                "(frame.t - start).dt.total_seconds() / 3600 for hours"
            ) from None
        raise InputError(f"{str(cell)[:80]!r} in row {row}, column {name}, is no number") from None
    if np.isinf(number):
        raise InputError(f"row {row}, column {name}, is infinite")
    return number


def _given(row: Mapping[str, object], name: str, number: int) -> float:
    value = _number(row.get(name), name, number)
    if np.isnan(value):
        raise InputError(f"row {number} has no {name}")
    return value


def _channel(row: Mapping[str, object], number: int) -> Channel:
    """The scalar field or component of a reading, as a stand-in that has the name of the field."""
    given, part = row.get("field"), row.get("component")
    if isinstance(given, Component) or (isinstance(given, ScalarField) and not _said(part)):
        return given
    found = re.fullmatch(r"\s*([^\W\d]\w*)\s*(?:\[(\d)\])?\s*", str(given))
    if found is None:
        raise InputError(f"row {number}: {str(given)[:80]!r} is no field")
    name, index = found.groups()
    if _said(part):
        text = str(part).strip().removesuffix(".0")
        index = str("xyz".index(text)) if text in ("x", "y", "z") else text
    if index is None:
        if isinstance(given, VectorField):
            raise InputError(f"row {number}: {name} is a vector; say which component was read")
        return ScalarField(name)
    if index not in ("0", "1", "2"):
        raise InputError(f"row {number}: components are 0, 1, 2 or x, y, z, not {str(part)[:20]!r}")
    return VectorField(name, dim=3)[int(index)]


def _said(cell: object) -> bool:
    return not (
        cell is None or (isinstance(cell, float) and np.isnan(cell)) or not str(cell).strip()
    )


def _labels(kept: Sequence[Any], points: np.ndarray, known: Sequence[str]) -> tuple[str, ...]:
    """The sensors of readings: as named, else one for each place."""
    if "sensor" in known:
        for number, row in kept:
            if not _said(row.get("sensor")):
                raise InputError(f"row {number} names no sensor, but other rows do")
        return tuple(str(row["sensor"]) for _, row in kept)
    places = dict.fromkeys(map(tuple, points))
    numbers = {place: f"sensor {k}" for k, place in enumerate(places, 1)}
    return tuple(numbers[tuple(point)] for point in points)


def _check_repeated(placement: Placement) -> None:
    seen: dict[Hashable, int] = {}
    for k in range(len(placement)):
        time = placement.times[k]
        key = (
            placement.sensors[k],
            tuple(placement.points[k]),
            None if np.isnan(time) else float(time),
            placement.channels[k],
        )
        if key in seen:
            when = "" if np.isnan(time) else f" at t = {time:g}"
            raise InputError(
                f"{placement.channels[k]} of {placement.sensors[k]} at "
                f"{spoken_point(placement.points[k])}{when} was read twice; leave one out, give "
                "their mean, or name two sensors"
            )
        seen[key] = k


def _noise(kept: Sequence[Any], known: Sequence[str], noise: object) -> Any:
    if "noise" not in known:
        return noise
    if noise is not None:
        raise InputError("the readings have a column noise; do not give another")
    column = np.array([_number(row.get("noise"), "noise", number) for number, row in kept])
    if np.isnan(column).all():
        return None
    if np.isnan(column).any():
        raise InputError(f"row {kept[int(np.isnan(column).argmax())][0]} has no noise")
    return column
