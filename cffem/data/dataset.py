# SPDX-License-Identifier: MIT
"""Measured fields: gridded arrays, xarray datasets, tables, or sensors scattered in space and read
at common times.

A `Dataset` holds arrays and coordinates and nothing else; turning them into rows of a design (test
functions, noise, finite differences) is the business of the modules beside it. Arrays are stored
component by component with the time axis last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.data.field_arrays import (
    Coordinates,
    as_numbers,
    combined_mask,
    component_arrays,
    named_axes,
    refuse_degrees,
)
from cffem.data.rows.row_blocks import RowBlock
from cffem.symbols.coordinates import COORDINATES, SPACE
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.fields import Field
from cffem.symbols.known import Known
from cffem.symbols.problem.library import CandidateTerms
from cffem.symbols.restricted import On

if TYPE_CHECKING:
    import xarray
    from numpy.typing import ArrayLike

    from cffem.data.noise.own_times import Gathered
    from cffem.data.readings import Readings


@dataclass(frozen=True)
class Dataset:
    """Values of fields at known places and times; build one with `from_arrays`, `from_xarray`,
    `from_csv` or `from_points`.

    Args:
        coordinates: the coordinate symbols of the array axes and their values, time last; for
            scattered data only time.
        values: array of every scalar field and vector component.
        points: n × dim positions of scattered sensors, or None on a grid.
        mask: True where a value is missing, or None.
        projected: the equation holds up to a gradient (a pressure), so vector equations are tested
            with divergence-free functions.
        period: length after which the data repeat themselves, by coordinate.
        gathered: how values of sensors came from readings at other times, or None.
        notes: filled while rows are made: noise level, test-function widths and other findings.

    Example:
        >>> import numpy as np, cffem as cf
        >>> u = cf.ScalarField("u")
        >>> data = Dataset.from_arrays(
        ...     {cf.x: np.linspace(0, 1, 5), cf.t: np.arange(3.0)}, {u: np.zeros((5, 3))}
        ... )
        >>> data.dim, data.shape
        (1, (5, 3))
    """

    coordinates: dict[sp.Symbol, np.ndarray]
    values: dict[sp.Expr, np.ndarray]
    points: np.ndarray | None = None
    mask: np.ndarray | None = None
    projected: bool = False
    notes: dict[str, object] = field(default_factory=dict, compare=False)
    period: dict[sp.Symbol, float] = field(default_factory=dict)
    gathered: Gathered | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_arrays(
        cls,
        coords: Coordinates,
        values: Mapping[Field, ArrayLike],
        mask: np.ndarray | None = None,
        *,
        projected: bool = False,
        period: Mapping[sp.Symbol, float] | None = None,
    ) -> Dataset:
        """Data on a tensor grid.

        Args:
            coords: {x: array, …, t: array} in the order of the array axes, or a sequence of arrays
                for x, (y, z,) t.
            values: an array per scalar field; per vector field an array with the components along
                the first axis. Complex values of a field psi become two real fields, psi.real_part
                (psi_re) and psi.imaginary_part (psi_im).
            mask: True where data are missing; NaN counts as missing too.
            projected: test vector equations with divergence-free functions (the pressure drops
                out).
            period: the length of periodic axes, as in {x: 2π}; the last point may be left out, or
                repeat the first.
        """
        axes = named_axes(coords)
        shape = tuple(len(a) for a in axes.values())
        arrays = component_arrays(values, shape)
        mask = combined_mask(arrays, mask, shape)
        order = [list(axes).index(c) for c in COORDINATES if c in axes]
        axes = {c: axes[c] for c in COORDINATES if c in axes}
        arrays = {name: np.transpose(a, order) for name, a in arrays.items()}
        mask = None if mask is None else np.transpose(mask, order)
        return cls(axes, arrays, None, mask, projected).repeating(period or {})

    @classmethod
    def from_xarray(
        cls,
        ds: xarray.Dataset,
        names: Mapping[Field, str | Sequence[str]],
        *,
        projected: bool = False,
    ) -> Dataset:
        """Data of an xarray dataset whose dimensions are called x, y, z, t (or depth, time);
        degrees need `cf.sphere_dataset`.

        Args:
            ds: the xarray dataset.
            names: the variable of each scalar field, the list of variables of each vector field.
            projected: see `from_arrays`.
        """
        aliases = {"x": "x", "y": "y", "z": "z", "depth": "z", "level": "z", "t": "t", "time": "t"}
        wanted = {
            unknown: [given] if isinstance(given, str) else list(given)
            for unknown, given in names.items()
        }
        for variable in (v for variables in wanted.values() for v in variables):
            if variable not in ds.data_vars:
                raise InputError(
                    f"the data have no variable {variable!r}; {nearest(variable, ds.data_vars)}"
                )
        dims = ds[next(iter(wanted.values()))[0]].dims
        for d in dims:
            unit = str(ds[d].attrs.get("units", "")) if d in ds.coords else ""
            refuse_degrees(str(d), unit)
        strange = [d for d in dims if str(d).lower() not in aliases]
        if strange:
            raise InputError(
                f"rename the dimensions {strange} to x, y, z or t before making a Dataset"
            )
        coords = {aliases[str(d).lower()]: as_numbers(ds[d].values) for d in dims}
        values = {}
        for unknown, variables in wanted.items():
            stacked = np.array([ds[v].transpose(*dims).values for v in variables])
            values[unknown] = stacked[0] if isinstance(names[unknown], str) else stacked
        return cls.from_arrays(coords, values, projected=projected)

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        names: Mapping[Field, str | Sequence[str]],
        coordinates: Mapping[sp.Symbol, str] | None = None,
        *,
        projected: bool = False,
    ) -> Dataset:
        """Data of a table in a text file: a line of column names, then one row of numbers per
        reading, in any order.

        Args:
            path: the file; columns are separated by commas, semicolons or tabs, an empty cell is a
                missing value.
            names: the column of each scalar field, the list of columns of each vector field.
            coordinates: the columns of x, y, z and t, where they are not called so.
            projected: see `from_arrays`.

        Example:
            >>> import tempfile, cffem as cf
            >>> u = cf.ScalarField("u")
            >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as table:
            ...     _ = table.write("x,t,T\\n0,0,1\\n1,0,2\\n0,1,3\\n1,1,4")
            ...     table.flush()
            ...     Dataset.from_csv(table.name, {u: "T"}).values[u]
            array([[1., 3.],
                   [2., 4.]])
        """
        from cffem.data.readers.csv_format import from_columns, read_columns

        return from_columns(read_columns(path), names, coordinates, projected)

    @classmethod
    def from_points(
        cls,
        points: ArrayLike,
        times: ArrayLike,
        values: Mapping[Field, ArrayLike],
        *,
        projected: bool = False,
    ) -> Dataset:
        """Sensors scattered in space (or the nodes of an unstructured mesh).

        Args:
            points: n × dim positions.
            times: the reading times of all sensors, increasing; or n × m, the times of each
                sensor's own readings.
            values: n × times per scalar field; dim × n × times per vector field; NaN where a
                reading is missing. Missing readings and those at other times are brought to common
                times by splines.
            projected: see `from_arrays`.
        """
        points = np.asarray(points, dtype=float)
        if points.ndim != 2 or points.shape[1] not in (1, 2, 3):
            raise InputError(
                f"points must be an n × dim array with dim 1, 2 or 3, not of shape {points.shape}"
            )
        own = np.asarray(times)
        if own.ndim == 2:
            return cls._brought_to_common_times(points, own.astype(float), values, projected)
        if points.shape[1] == 1:
            order = np.argsort(points[:, 0])
            arrays = component_arrays(values, (len(points), len(own)))
            return cls.from_arrays(
                {"x": points[order, 0], "t": times}, {k: a[order] for k, a in arrays.items()}
            )
        axes = named_axes({"t": times})
        arrays = component_arrays(values, (len(points), len(axes[COORDINATES[3]])))
        if combined_mask(arrays, None, (len(points), len(axes[COORDINATES[3]]))) is not None:
            return cls._brought_to_common_times(points, axes[COORDINATES[3]], values, projected)
        return cls(axes, arrays, points, None, projected)

    @classmethod
    def from_readings(cls, table: object, noise: object = None) -> Readings:
        """Readings of sensors, each with its own place, time and field; gaps and moving sensors are
        allowed. They are fitted with `cf.calibrate`.

        Args:
            table: a CSV file, a data frame, columns by name, or a list of dictionaries. Its columns
                are x[, y, z], t (none where the problem is steady), field, component (of vectors:
                0, 1, 2 or x, y, z; or "v[0]" as the field), value, noise, sensor (default: one for
                each place). An empty value is a gap.
            noise: the standard deviation of all readings, where there is no such column; None:
                unknown.

        Example:
            >>> import cffem as cf
            >>> cf.Dataset.from_readings(
            ...     [{"x": 0.2, "t": 0.5, "field": "u", "value": 3.1},
            ...      {"x": 0.7, "t": 0.4, "field": "u", "value": 2.6}], noise=0.1)
            Readings(u: 2 of 2 sensors)
        """
        from cffem.data.readings import from_readings

        return from_readings(table, noise)

    @classmethod
    def _brought_to_common_times(
        cls,
        points: np.ndarray,
        times: np.ndarray,
        values: Mapping[Field, ArrayLike],
        projected: bool,
    ) -> Dataset:
        """Sensors with missing readings or times of their own, brought to common times."""
        from cffem.data.noise.own_times import gathered

        if times.ndim == 2 and len(times) != len(points):
            raise InputError(
                f"each of the {len(points)} sensors needs its row of times, but there are "
                f"{len(times)}"
            )
        if points.shape[1] == 1:
            raise InputError(
                "sensors on a line with times of their own are no grid; interpolate them to "
                "common times first"
            )
        arrays = component_arrays(values, (len(points), times.shape[-1]))
        common, filled, how = gathered(points, times, arrays)
        return cls({COORDINATES[3]: common}, filled, points, None, projected, gathered=how)

    def repeating(self, period: Mapping[sp.Symbol, float]) -> Dataset:
        """The same data on periodic axes; a last point that repeats the first is left out."""
        data, lengths = self, {}
        for name, length in period.items():
            symbol = {str(c): c for c in COORDINATES}.get(str(name))
            if symbol not in self.coordinates:
                raise InputError(f"the period of {name} is given, but the data have no such axis")
            axis, points = list(self.coordinates).index(symbol), data.coordinates[symbol]
            span, step = points[-1] - points[0], np.diff(points).max()
            if not (
                np.isfinite(length) and length >= span * (1 - 1e-9) and length - span <= 2 * step
            ):
                raise InputError(
                    f"a period of {length:g} along {name} does not fit points from {points[0]:g} "
                    f"to {points[-1]:g}; it is their "
                    f"extent plus the step to the first point again, {span + step:g} say"
                )
            if length <= span * (1 + 1e-9):
                data = data.taken(axis, range(len(points) - 1))
            lengths[symbol] = float(length)
        return replace(data, period=lengths) if lengths else self

    def taken(self, axis: int, kept: Sequence[int]) -> Dataset:
        """Some values along an axis, by their numbers."""
        symbol = list(self.coordinates)[axis]
        return replace(
            self,
            coordinates={**self.coordinates, symbol: np.take(self.coordinates[symbol], kept)},
            values={name: np.take(v, kept, axis) for name, v in self.values.items()},
            mask=None if self.mask is None else np.take(self.mask, kept, axis),
            notes={},
        )

    @property
    def dim(self) -> int:
        """Dimension of space."""
        return (
            self.points.shape[1]
            if self.points is not None
            else sum(c in self.coordinates for c in SPACE)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value arrays."""
        return next(iter(self.values.values())).shape

    @property
    def never_measured(self) -> np.ndarray | None:
        """Where gridded data have no value at any of several times, land say; None where there is
        no such place. Of the shape of the values, up to the axis of time.
        """
        if self.mask is None or self.points is not None or COORDINATES[3] not in self.coordinates:
            return None
        never = self.mask.all(axis=-1, keepdims=True)
        return never if self.shape[-1] > 1 and never.any() else None

    def __repr__(self) -> str:
        names = ", ".join(map(str, self.values))
        axes = ", ".join(map(str, self.coordinates))
        sizes = " × ".join(map(str, self.shape))
        where = f"a grid of {axes}" if self.points is None else f"points of {self.dim}D and {axes}"
        gaps = "" if self.mask is None else f", {self.mask.mean():.1%} missing"
        return f"Dataset({names} on {where}: {sizes}{gaps})"

    def probes(self, library: CandidateTerms) -> dict[str, sp.Expr]:
        """Common terms the library lacks, to be evaluated along with it so that a missing
        true term is noticed.
        """
        from cffem.data.rows.probes import probe_terms

        check_anchor(library)
        count = 0 if self.points is None else len(self.points)
        lengths = [
            len(self.coordinates[c]) if c in self.coordinates else count for c in COORDINATES
        ]
        return probe_terms(
            library, self.dim, tuple(max(0, 2 * ((n - 1) // 2) - 1) for n in lengths)
        )

    def narrow_rows(self, library: CandidateTerms, share: float) -> Iterator[RowBlock]:
        """Rows of the weak design with test functions of a share of their width along space; data
        on a grid have them.
        """
        from cffem.data.rows.weak_blocks import weak_rows

        yield from weak_rows(replace(self, notes={}), library, share)

    def rows(self, library: CandidateTerms, kind: str) -> Iterator[RowBlock]:
        """Yield the rows of a weak or strong design of a library on these data."""
        from cffem.data.rows.strong_blocks import strong_rows
        from cffem.data.rows.weak_blocks import weak_rows

        check_anchor(library)
        yield from (weak_rows if kind == "weak" else strong_rows)(self, library)


def check_anchor(library: CandidateTerms) -> None:
    """Refuse a library without anchor: there is nothing to explain, and a regression would
    find only zeros.
    """
    if library.anchor is None or library.anchor == 0:
        raise InputError(
            "a design needs an anchor such as dt(u): without one the regression has only the "
            "trivial solution"
        )
    for expr in (library.anchor, *library.terms.values()):
        if expr.has(On):
            raise InputError(
                f"{expr} acts in a part of a mesh, which measured fields do not know; calibrate it "
                "with readings"
            )
        if expr.has(Known):
            raise InputError(
                f"{expr} contains a known field, and rows from measured fields take formulas; "
                "write its formula into the term"
            )
