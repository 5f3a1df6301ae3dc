# SPDX-License-Identifier: MIT
"""Small pictures of fields as data: the factual solution and each deleted one on the points of one
drawing, in `fields.npz`.

A report is drawn again from `report.json` and this file alone, without a mesh or a solver.
`cffem.study.report.camera` takes the values from solutions; what is kept here is capped in size, so
that a study on millions of cells still leaves a file that can be mailed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from cffem._files import read_arrays
from cffem.study.report.plots.raster import Raster
from cffem.study.report.solids.solid import Solid
from cffem.symbols.errors import InputError

FORMAT = "cffem-fields/1"
FILE = "fields.npz"


@dataclass(frozen=True)
class Fields:
    """Values of solutions on the points of a drawing at the end of the window.

    Args:
        points: n × 1 for a line or n × 2 for an area: coordinates in the drawing.
        cells: m × 2 intervals or m × 3 triangles of the points.
        axes: names of the drawing's coordinates, ("x", "y") say.
        factual: by field, n × components; nan outside the domain.
        deleted: by term, then by field, the same for the problem without that term.
        where: what is drawn where that is not the whole domain, "slice z = 0.5" say.
        time: the time of the pictures; None for a steady problem.
        maps: by term the density of |factual − deleted|² over the whole window, n values.
        solid: of a volume, its surface with a corner cut away. Values that are given to
            `with_deleted` then go on with those at its points.

    Example:
        >>> line = Fields(
        ...     np.array([[0.0], [1.0]]), np.array([[0, 1]]), ("x",), {"u": np.ones((2, 1))}
        ... )
        >>> line.with_deleted("lap", {"u": np.zeros((2, 1))}).difference("lap", "u").max()
        np.float64(1.0)
    """

    points: np.ndarray
    cells: np.ndarray
    axes: tuple[str, ...]
    factual: Mapping[str, np.ndarray]
    deleted: Mapping[str, Mapping[str, np.ndarray]] = field(default_factory=dict)
    where: str = ""
    time: float | None = None
    maps: Mapping[str, np.ndarray] = field(default_factory=dict)
    solid: Solid | None = None

    def __post_init__(self) -> None:
        count = len(self.points)
        if self.points.shape[1:] != (len(self.axes),) or self.cells.shape[1:] != (
            len(self.axes) + 1,
        ):
            raise ValueError("a drawing has one coordinate for each axis and simplices as cells")
        if self.cells.size and not 0 <= self.cells.min() <= self.cells.max() < count:
            raise ValueError("a cell of the drawing names a point that is not there")
        for values in (self.factual, *self.deleted.values()):
            if set(values) != set(self.factual) or any(
                array.shape[:1] != (count,) or array.ndim != 2 for array in values.values()
            ):
                raise ValueError(
                    "each field of a drawing needs values at each point, also without a term"
                )
        if any(values.shape != (count,) for values in self.maps.values()):
            raise ValueError("a map has a value at each point of the drawing")

    @cached_property
    def raster(self) -> Raster:
        """The pixels of an area, which all of its pictures share."""
        return Raster(self.points, self.cells)

    def difference(self, term: str, name: str) -> np.ndarray:
        """Factual minus deleted."""
        return self.factual[name] - self.deleted[term][name]

    def with_deleted(self, term: str, values: Mapping[str, np.ndarray]) -> Fields:
        """The same drawing with one more deleted problem."""
        solid, count = self.solid, len(self.points)
        if solid is not None:
            rest = {name: array[count:] for name, array in values.items()}
            solid = solid.with_deleted(term, rest)
            values = {name: array[:count] for name, array in values.items()}
        return replace(self, deleted={**self.deleted, term: values}, solid=solid)

    def with_map(self, term: str, values: np.ndarray) -> Fields:
        """The same drawing with the map of one more deleted problem."""
        return replace(self, maps={**self.maps, term: values})

    def write(self, folder: str | Path) -> Path:
        """Write `fields.npz` into a folder, whole or not at all."""
        path = Path(folder) / FILE
        names, terms = list(self.factual), list(self.deleted)
        about = {
            "format": FORMAT,
            "fields": names,
            "terms": terms,
            "axes": self.axes,
            "where": self.where,
            "time": self.time,
            "maps": list(self.maps),
        }
        arrays = {
            "about": np.array(json.dumps(about)),
            "points": self.points,
            "cells": self.cells.astype(np.int32),
        }
        for i, name in enumerate(names):
            arrays[f"factual_{i}"] = self.factual[name].astype(np.float32)
            for j, term in enumerate(terms):
                # The difference is kept, not the deleted field: it may be far smaller than single
                # precision of either.
                arrays[f"difference_{i}_{j}"] = self.difference(term, name).astype(np.float32)
        for j, values in enumerate(self.maps.values()):
            arrays[f"map_{j}"] = values.astype(np.float32)
        if self.solid is not None:
            arrays |= _solid_arrays(self.solid, names, terms)
        part = path.with_name(f".{FILE}.part")
        part.unlink(missing_ok=True)  # a link that somebody left there would be followed
        with open(part, "xb") as file:
            np.savez_compressed(file, **arrays)
        part.replace(path)
        return path

    @classmethod
    def read(cls, folder: str | Path) -> Fields | None:
        """The drawing of a folder; None where there is none.

        Raises:
            InputError: the file is there but is not such a drawing.
        """
        path = Path(folder) / FILE
        if not path.is_file():
            return None
        try:
            return cls._from_arrays(read_arrays(path, kinds="biufU"))
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise InputError(
                f"{path} cannot be read as pictures of fields ({error}); delete it and run the "
                "study again"
            ) from None

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Fields:
        about = json.loads(str(arrays["about"]))
        if about["format"] != FORMAT:
            raise ValueError(f"its format is {about['format']!r}, not {FORMAT!r}")
        factual = {
            str(name): arrays[f"factual_{i}"].astype(float)
            for i, name in enumerate(about["fields"])
        }
        deleted = {
            str(term): {
                name: factual[name] - arrays[f"difference_{i}_{j}"]
                for i, name in enumerate(factual)
            }
            for j, term in enumerate(about["terms"])
        }
        time = None if about["time"] is None else float(about["time"])
        axes = tuple(map(str, about["axes"]))
        maps = {
            str(term): arrays[f"map_{j}"].astype(float)
            for j, term in enumerate(about.get("maps", ()))
        }
        return cls(
            arrays["points"],
            arrays["cells"],
            axes,
            factual,
            deleted,
            str(about["where"]),
            time,
            maps,
            _solid_of(arrays, list(factual), list(deleted)),
        )


def _solid_arrays(solid: Solid, names: list[str], terms: list[str]) -> dict[str, np.ndarray]:
    """A body for a file; differences are kept as in `Fields.write`."""
    arrays = {
        "solid_points": solid.points.astype(np.float32),
        "solid_cells": solid.cells.astype(np.int32),
        "solid_corner": solid.corner,
    }
    for i, name in enumerate(names):
        arrays[f"solid_factual_{i}"] = solid.factual[name].astype(np.float32)
        for j, term in enumerate(terms):
            difference = solid.difference(term, name)
            arrays[f"solid_difference_{i}_{j}"] = difference.astype(np.float32)
    return arrays


def _solid_of(arrays: Mapping[str, np.ndarray], names: list[str], terms: list[str]) -> Solid | None:
    """The body of a file; None where there is none."""
    if "solid_points" not in arrays:
        return None
    factual = {name: arrays[f"solid_factual_{i}"].astype(float) for i, name in enumerate(names)}
    deleted = {
        term: {
            name: factual[name] - arrays[f"solid_difference_{i}_{j}"]
            for i, name in enumerate(names)
        }
        for j, term in enumerate(terms)
    }
    points, corner = (arrays[key].astype(float) for key in ("solid_points", "solid_corner"))
    return Solid(points, arrays["solid_cells"], corner, factual, deleted)
