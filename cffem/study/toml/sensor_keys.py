# SPDX-License-Identifier: MIT
"""Sensors, readings and calibration in a study file: data and nothing else.

Readings are a table of text in the study's folder, one row for each. Sensors without readings, for
studies with given coefficients, are written out: points, fields, times and noise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffem._files import require_file
from cffem.data.dataset import Dataset
from cffem.engine.calibration.calibration_settings import METHODS, CalibrationSettings
from cffem.engine.calibration.robust_loss import LOSSES
from cffem.engine.collective import collectively
from cffem.study.toml.allowed import inside
from cffem.study.toml.study_keys import StudyFileError, Table, is_number
from cffem.symbols.errors import nearest
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.problem.observations import Observation, Part, Sensors, Trace

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.data.readings import Readings

MOST_BYTES = 50_000_000  # of a table of readings
MOST_POINTS = 10_000
KINDS = ("points", "part", "trace")


def read_readings(
    parent: Table, key: str, folder: Path, anywhere: bool, comm: MPI.Comm
) -> Readings:
    """The readings of an experiment, a path or a table with `file` and `noise`; collective."""
    value = parent.get(key)
    table = Table(
        {"file": value} if isinstance(value, str) else value, parent.file, parent.key(key)
    )
    with table.naming("file"):
        path = inside(folder, table.text("file"), anywhere)
    noise = table.number("noise", None)
    table.done()

    def read() -> Any:
        if require_file(path).st_size > MOST_BYTES:
            raise ValueError(f"{path.name} is larger than {MOST_BYTES} bytes")
        if path.suffix.lower() not in (".csv", ".tsv", ".txt"):
            raise ValueError(f"readings are a table in a .csv file, not {path.name}")
        return Dataset.from_readings(path, noise=noise)

    with table.naming():
        return comm.bcast(collectively(comm, read))


def read_sensors(parent: Table, key: str, fields: Mapping[str, Field]) -> Observation:
    """The sensors of an experiment, one table or several, together."""
    value = parent.get(key)
    tables = parent.tables(key) if isinstance(value, list) else [parent.table(key)]
    if not tables:
        raise parent.refuse(key, "at least one table with points and fields")
    return reduce(add, [_sensors(table, fields) for table in tables])


def _sensors(table: Table, fields: Mapping[str, Field]) -> Observation:
    kind = table.choice("kind", KINDS, "points")
    times = _numbers(table, "times") if "times" in table else None
    noise = table.number("noise", None)
    if kind == "points":
        points = table.get("points")
        if not isinstance(points, list) or not 0 < len(points) <= MOST_POINTS:
            raise table.refuse("points", f"a list of at most {MOST_POINTS} points")
        radius = table.number("radius", None)
        channels = [_channel(name, fields, table) for name in _names(table)]
        table.done()
        with table.naming():
            return Sensors(points, channels, times=times, noise=noise, radius=radius)
    on = table.text("on")
    seen = [_channel(name, fields, table) for name in _names(table)] if "fields" in table else None
    table.done()
    with table.naming():
        return (Part if kind == "part" else Trace)(on, seen, times=times, noise=noise)


def _names(table: Table) -> list[str]:
    value = table.get("fields")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) for n in names):
        raise table.refuse("fields", 'a list of fields or components, ["u", "v[0]"] say')
    return names


def _channel(name: str, fields: Mapping[str, Field], table: Table) -> Any:
    found = re.fullmatch(r"\s*(\w+)\s*(?:\[(\d)\])?\s*", name)
    if found is None or found[1] not in fields:
        known = name if found is None else found[1]
        raise StudyFileError(
            f"{table.file}: {table.key('fields')}: there is no field {known[:60]!r}; "
            f"{nearest(known[:60], fields)}"
        )
    field = fields[found[1]]
    if found[2] is None:
        return field
    with table.naming("fields"):
        if not isinstance(field, VectorField):
            raise ValueError(f"{field} is a scalar and has no component {found[2]}")
        return field[int(found[2])]


def _numbers(table: Table, key: str) -> list[float]:
    value = table.get(key)
    if (
        not isinstance(value, list)
        or not 0 < len(value) <= MOST_POINTS
        or not all(map(is_number, value))
    ):
        raise table.refuse(key, f"a list of at most {MOST_POINTS} numbers")
    return value


def read_calibration(table: Table) -> CalibrationSettings:
    """How readings are fitted."""
    options: dict[str, Any] = {}
    for key in ("start", "fixed"):
        if key in table:
            entry = table.table(key)
            options[key] = {name: float(entry.number(name)) for name in entry.entries()}
    if "bounds" in table:
        entry = table.table("bounds")
        options["bounds"] = {
            name: _pair(entry.table(name), "low", "high") for name in entry.entries()
        }
    if "prior" in table:
        entry = table.table("prior")
        options["prior"] = {
            name: _pair(entry.table(name), "mean", "deviation", needed=True)
            for name in entry.entries()
        }
    if "loss" in table:
        options["loss"] = table.choice("loss", LOSSES)
    if "method" in table:
        options["method"] = table.choice("method", METHODS)
    for key in ("select", "profiles"):
        if key in table:
            options[key] = table.flag(key)
    if "visible" in table:
        options["visible"] = float(table.number("visible"))
    table.done()
    with table.naming():
        return CalibrationSettings(**options)


def _pair(table: Table, first: str, second: str, needed: bool = False) -> tuple[Any, Any]:
    pair = (
        (table.number(first), table.number(second))
        if needed
        else (table.number(first, None), table.number(second, None))
    )
    table.done()
    return pair
