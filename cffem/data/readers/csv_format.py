# SPDX-License-Identifier: MIT
"""Tables in text files: a line of column names, then one row of numbers for each reading.

The rows may stand in any order. They are a grid where they fill one, up to readings that are
missing, and else sensors that were all read at the same times, or each at times of its own; what is
none of these is refused.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.data.field_arrays import refuse_degrees
from cffem.data.noise.own_times import FEWEST
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    import sympy as sp


DELIMITERS = (";", "\t", ",")
MOST_CHARACTERS = 100_000  # in the line of column names
MOST_MISSING = (
    0.5  # of the readings of a grid; where more are missing the rows were never meant as one
)


def read_columns(path: str | Path) -> dict[str, np.ndarray]:
    """The columns of a table by name; an empty cell is NaN."""
    with open(path, encoding="utf-8-sig", newline="") as lines:
        try:
            first = lines.readline(MOST_CHARACTERS)
            delimiter = next((d for d in DELIMITERS if d in first), ",")
            names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
            if len(set(names)) != len(names) or len(names) < 2:
                raise InputError(
                    f"{path}: the first line must name the columns, each differently, x,t,u say"
                )
            # Eight bytes for each cell: rows of text would take twenty times the memory of the
            # file.
            cells = array("d")
            for row in csv.reader(lines, delimiter=delimiter):
                cells.extend(_row(row, names, path, len(cells) // len(names) + 2))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path} is not a table of text: {error}") from None
    return (
        dict(zip(names, np.frombuffer(cells).reshape(-1, len(names)).T.copy(), strict=True))
        if cells
        else {}
    )


def _row(row: list[str], names: list[str], path: str | Path, number: int) -> list[float]:
    if row and len(row) != len(names):
        raise InputError(
            f"{path}: row {number} has {len(row)} entries, but there are {len(names)} columns"
        )
    return [_number(cell, path, name) for cell, name in zip(row, names, strict=False)]


def _number(cell: str, path: str | Path, name: str) -> float:
    try:
        return float(cell) if cell.strip() else math.nan
    except ValueError:
        raise InputError(f"{path}: {cell[:80]!r} in the column {name} is no number") from None


def from_columns(
    columns: Mapping[str, np.ndarray],
    names: Mapping[Field, str | Sequence[str]],
    coordinates: Mapping[sp.Symbol, str] | None = None,
    projected: bool = False,
) -> Dataset:
    """The dataset that columns make: gridded where their rows fill a grid, else sensors read
    at common times.
    """

    def column(name: str) -> np.ndarray:
        if name not in columns:
            raise InputError(f"the data have no column {name!r}; {nearest(name, columns)}")
        return columns[name]

    symbols = [str(c) for c in COORDINATES]
    chosen = {
        str(c): name for c, name in (coordinates or {c: c for c in symbols if c in columns}).items()
    }
    for name in chosen.values():
        refuse_degrees(name)
    axes = {c: column(chosen[c]) for c in symbols if c in chosen}
    if "t" not in axes or len(axes) < 2:
        raise InputError(
            "the data need columns t and x (and y, z), or coordinates that say which columns "
            "these are"
        )
    if not all(np.isfinite(axis).all() for axis in axes.values()):
        raise InputError("a coordinate of the data is missing or not finite")
    values = {
        f: np.array([column(n) for n in ([given] if isinstance(given, str) else given)])
        for f, given in names.items()
    }
    return _arranged(
        axes, values, {f for f, given in names.items() if isinstance(given, str)}, projected
    )


def _arranged(
    axes: Mapping[str, np.ndarray],
    values: Mapping[Field, np.ndarray],
    scalars: set[Field],
    projected: bool,
) -> Dataset:
    rows = len(axes["t"])
    levels, places = zip(
        *(np.unique(axis, return_inverse=True) for axis in axes.values()), strict=True
    )
    shape = tuple(map(len, levels))
    grid = rows >= (1 - MOST_MISSING) * math.prod(shape)
    points = np.zeros((0, 0))
    if not grid:
        positions = np.column_stack([axis for name, axis in axes.items() if name != "t"])
        points, sensor = np.unique(positions, axis=0, return_inverse=True)
        shape, places = (len(points), len(levels[-1])), (sensor.ravel(), places[-1])
        if math.prod(shape) != rows:
            return _own_times(points, sensor.ravel(), axes["t"], values, scalars, projected)
    flat = np.ravel_multi_index(places, shape)
    if len(np.unique(flat)) != rows:
        raise InputError("the data have two rows for the same place and time")
    arrays = {}
    for field, parts in values.items():
        filled = np.full((len(parts), math.prod(shape)), np.nan)
        filled[:, flat] = parts
        filled = filled.reshape(len(parts), *shape)
        arrays[field] = filled[0] if field in scalars else filled
    if grid:
        return Dataset.from_arrays(
            dict(zip(axes, levels, strict=True)), arrays, projected=projected
        )
    return Dataset.from_points(points, levels[-1], arrays, projected=projected)


def _own_times(
    points: np.ndarray,
    sensor: np.ndarray,
    times: np.ndarray,
    values: Mapping[Field, np.ndarray],
    scalars: set[Field],
    projected: bool,
) -> Dataset:
    """Sensors that were each read at times of their own."""
    counts = np.bincount(sensor, minlength=len(points))
    if counts.min() < FEWEST:
        raise InputError(
            "the rows of the data are neither a grid nor sensors that were all read at the same "
            "times, and of sensors with times "
            f"of their own each needs {FEWEST} readings or more"
        )
    order = np.lexsort([times, sensor])
    number = np.arange(len(times)) - np.repeat(np.cumsum(counts) - counts, counts)
    own = np.full((len(points), counts.max()), np.nan)
    own[sensor[order], number] = times[order]
    arrays = {}
    for field, parts in values.items():
        filled = np.full((len(parts), *own.shape), np.nan)
        filled[:, sensor[order], number] = parts[:, order]
        arrays[field] = filled[0] if field in scalars else filled
    return Dataset.from_points(points, own, arrays, projected=projected)
