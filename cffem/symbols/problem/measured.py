# SPDX-License-Identifier: MIT
"""Measurements as data of an experiment: a dataset's values at the points of a mesh and at the
times of a march.

On a grid the values are interpolated along each axis, time included, by the polynomial through the
four nearest grid points (two where values are missing), which is of fourth order for smooth data.
Scattered sensors are fitted: at each point the quadratic polynomial that is nearest to the closest
sensors, near ones counting most, and the same interpolation in time. A value depends on its point
and time only, so it is the same on any number of ranks; nothing is extrapolated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Protocol

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field


@dataclass(frozen=True)
class InterpolationSettings:
    """Interpolation between measured values.

    Args:
        sensors: closest sensors for a local quadratic fit, by dimension: about twice the number
            of its coefficients.
        chunk: points that are fitted at a time.
        outside: distance outside, relative to the extent of the data, that is round-off only.
    """

    sensors: Mapping[int, int] = field(default_factory=lambda: {2: 12, 3: 20})
    chunk: int = 4096
    outside: float = 1e-9


INTERPOLATION = InterpolationSettings()


class MeasuredData(Protocol):
    """What is asked of measured fields: the attributes of a `Dataset`."""

    @property
    def coordinates(self) -> Mapping[sp.Symbol, np.ndarray]:
        """The axes of a grid, or the times of scattered points."""

    @property
    def values(self) -> Mapping[sp.Expr, np.ndarray]:
        """The values of each field or component."""

    @property
    def points(self) -> np.ndarray | None:
        """The places of scattered points; None on a grid."""

    @property
    def mask(self) -> np.ndarray | None:
        """Where values are there; None where none is missing."""

    @property
    def dim(self) -> int:
        """The dimension of space."""

    @property
    def period(self) -> Mapping[sp.Symbol, float]:
        """The length after which the data repeat themselves, by coordinate."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values there are along each axis."""


@dataclass(frozen=True, eq=False)
class MeasuredFields:
    """The fields of a dataset as functions of place and time.

    Args:
        dataset: anything with the attributes `coordinates`, `values`, `points`, `mask` and `dim` of
            a `Dataset`.
        rate: whether the time derivative is meant.
        component: the only component that is asked for; the others are then zero.
    """

    dataset: MeasuredData
    rate: bool = False
    component: int | None = None

    @property
    def timeless(self) -> bool:
        """Whether the data have no time axis."""
        return t not in self.dataset.coordinates

    @property
    def fields(self) -> list[Field]:
        """The fields that have values, vectors as wholes."""
        return list(
            dict.fromkeys(
                key.field if isinstance(key, Component) else key for key in self.dataset.values
            )
        )

    def derivative(self) -> MeasuredFields:
        """The time derivative of the data."""
        return replace(self, rate=True)

    def only(self, component: int) -> MeasuredFields:
        """One component of a vector, the others zero."""
        return replace(self, component=component)

    def __str__(self) -> str:
        return "measured data"

    def check(self, unknown: Field, dimension: int, what: str) -> None:
        """Refuse a dataset of another dimension or without the field."""
        if self.dataset.dim != dimension:
            raise InputError(
                f"{what}: the data have {self.dataset.dim} dimensions of space, the mesh has "
                f"{dimension}"
            )
        if not self._arrays(unknown):
            there = ", ".join(map(str, self.dataset.values))
            raise InputError(f"{what}: the data have no values of {unknown}, but of {there}")

    def _arrays(self, unknown: Field) -> list[np.ndarray | None]:
        """The arrays of a field's components; empty where one is missing."""
        values = self.dataset.values
        if unknown in values or unknown.shape == ():
            return [values[unknown]] if unknown in values else []
        wanted = range(unknown.dim) if self.component is None else [self.component]
        if any(unknown[i] not in values for i in wanted):
            return []
        return [values[unknown[i]] if i in wanted else None for i in range(unknown.dim)]

    def at(self, unknown: Field, points: np.ndarray, time: float, what: str) -> np.ndarray:
        """Values of shape (components, points), or (points,) for a scalar; nan where the data have
        none.

        Args:
            unknown: the field.
            points: coordinates, three rows, one column for each point.
            time: the time.
            what: how to call the data in an error message.

        Raises:
            InputError: the time is outside the data.
        """
        places = np.ascontiguousarray(points[: self.dataset.dim].T)
        sampler = self._scattered if self.dataset.points is not None else self._grid
        places = self._within_period(places)
        rows = [
            np.zeros(len(places))
            if array is None
            else sampler.at(self._repeated(self._snapshot(array, time, what)), places)
            for array in self._arrays(unknown)
        ]
        return np.array(rows) if unknown.shape else rows[0]

    @property
    def _period(self) -> dict[sp.Symbol, float]:
        return dict(getattr(self.dataset, "period", {}))

    def _within_period(self, places: np.ndarray) -> np.ndarray:
        """Points moved by whole periods to where the data are."""
        for axis, symbol in enumerate(SPACE[: self.dataset.dim]):
            if symbol in self._period:
                start, length = self.dataset.coordinates[symbol][0], self._period[symbol]
                places[:, axis] = start + np.mod(places[:, axis] - start, length)
        return places

    def _repeated(self, values: np.ndarray) -> np.ndarray:
        """Values at a time, continued along the axes that repeat themselves as far as
        interpolation needs them.
        """
        if not self._period:
            return values
        return np.pad(
            values,
            [(self._width,) * 2 if c in self._period else (0, 0) for c in self._space],
            mode="wrap",
        )

    @property
    def _space(self) -> list[sp.Symbol]:
        return [c for c in SPACE if c in self.dataset.coordinates]

    def _snapshot(self, array: np.ndarray, time: float, what: str) -> np.ndarray:
        """The values at a time, or their rates there."""
        if self.timeless:
            return np.zeros_like(array) if self.rate else array
        times = self.dataset.coordinates[t]
        if not inside(times, np.array([time])).all():
            raise InputError(
                f"{what}: the data are from the times {times[0]:g} to {times[-1]:g}, but t = "
                f"{time:g} is asked for"
            )
        index, weights = stencil(times, np.array([time]), self._width, rate=self.rate)
        missing = self.dataset.mask
        levels = [
            weight
            * (
                array[..., k]
                if missing is None
                else np.where(missing[..., k], np.nan, array[..., k])
            )
            for k, weight in zip(index[0], weights[0], strict=True)
            if weight != 0.0
        ]
        return np.sum(levels, axis=0) if levels else np.zeros(array.shape[:-1])

    @property
    def _width(self) -> int:
        return 4 if self.dataset.mask is None else 2

    @cached_property
    def _grid(self) -> TensorGrid:
        axes = []
        for symbol in self._space:
            axis, length = self.dataset.coordinates[symbol], self._period.get(symbol)
            if length is not None:
                whole = (axis + length * np.arange(-self._width, self._width + 1)[:, None]).ravel()
                # As many points come before the first one as interpolation takes.
                first = self._width * (len(axis) - 1)
                axis = whole[first : first + len(axis) + 2 * self._width]
            axes.append(axis)
        return TensorGrid(axes, self._width)

    @cached_property
    def _scattered(self) -> ScatteredFit:
        return ScatteredFit(self.dataset.points)


class NamedFunction(Protocol):
    """What is asked of a DOLFINx function."""

    @property
    def name(self) -> str:
        """How it is called."""

    @property
    def ufl_shape(self) -> tuple[int, ...]:
        """The shape of its values."""


@dataclass(frozen=True, eq=False)
class Interpolated:
    """A DOLFINx function on another mesh, to be interpolated onto that of the experiment.

    Args:
        function: the function; its mesh must cover that of the experiment.

    Example:
        >>> import cffem as cf, numpy as np
        >>> from dolfinx import fem, mesh
        >>> from mpi4py import MPI
        >>> other = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
        >>> cf.Interpolated(fem.Function(fem.functionspace(other, ("Lagrange", 1)))).function.name
        'f'
    """

    function: NamedFunction

    def __post_init__(self) -> None:
        if not hasattr(self.function, "function_space"):
            raise InputError(
                f"Interpolated takes a DOLFINx function, not {type(self.function).__name__}"
            )

    def __str__(self) -> str:
        return f"{self.function.name}, interpolated"


def as_data(value: Any) -> Any:
    """A dataset as measured data; anything else as it is."""
    if all(
        hasattr(value, name) for name in ("coordinates", "values", "points", "mask", "from_points")
    ):
        return MeasuredFields(value)
    return value


def rate_of(value: Any) -> Any:
    """The data for the rate of a field: a dataset's own time derivative; anything else is the
    rate already.
    """
    data = as_data(value)
    return data.derivative() if isinstance(data, MeasuredFields) else value


@dataclass(frozen=True)
class TensorGrid:
    """Interpolation on a tensor grid by polynomials through `width` points along each axis."""

    axes: list[np.ndarray]
    width: int

    def at(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Values at points (rows of `places`); nan outside the grid and where one is missing."""
        within = np.all([inside(axis, places[:, i]) for i, axis in enumerate(self.axes)], axis=0)
        clipped = [np.clip(places[:, i], axis[0], axis[-1]) for i, axis in enumerate(self.axes)]
        stencils = [
            stencil(axis, where, self.width) for axis, where in zip(self.axes, clipped, strict=True)
        ]
        total = np.zeros(len(places))
        for choice in product(*(range(index.shape[1]) for index, _ in stencils)):
            chosen = list(zip(stencils, choice, strict=True))
            weight = np.prod([weights[:, k] for (_, weights), k in chosen], axis=0)
            value = values[tuple(index[:, k] for (index, _), k in chosen)]
            # A grid point that does not count, up to round-off in the position, may be missing.
            total += np.where(
                np.isnan(value) & (np.abs(weight) <= INTERPOLATION.outside), 0.0, weight * value
            )
        return np.where(within, total, np.nan)


class ScatteredFit:
    """Local quadratic fits to scattered values.

    Args:
        points: the positions of the sensors, one row each.
    """

    def __init__(self, points: np.ndarray):
        from scipy.spatial import Delaunay, cKDTree

        self.points, self.dim = points, points.shape[1]
        self._tree, self._hull = cKDTree(points), Delaunay(points)
        self._size = float(np.ptp(points, axis=0).max())
        self._count = min(INTERPOLATION.sensors[self.dim], len(points))

    def at(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Values at points (rows of `places`); nan outside the convex hull of the sensors."""
        result = np.full(len(places), np.nan)
        within = np.flatnonzero(self._hull.find_simplex(places, tol=INTERPOLATION.outside) >= 0)
        for first in range(0, len(within), INTERPOLATION.chunk):
            chosen = within[first : first + INTERPOLATION.chunk]
            result[chosen] = self._fit(values, places[chosen])
        return result

    def _fit(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        distance, near = self._tree.query(places, self._count)
        radius = np.maximum(distance[:, -1:], 1e-12 * self._size)
        offset = (self.points[near] - places[:, None, :]) / radius[:, :, None]
        squares = [offset[..., i] * offset[..., j] for i in range(self.dim) for j in range(i + 1)]
        features = np.stack(
            [np.ones_like(distance), *np.moveaxis(offset, -1, 0), *squares], axis=-1
        )
        weight = np.exp(-4.0 * (distance / radius) ** 2)
        solved = np.linalg.pinv(weight[..., None] * features, rcond=1e-10)
        return np.einsum("nk,nk->n", solved[:, 0, :], weight * values[near])


def inside(axis: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Whether positions lie on an axis, up to round-off."""
    slack = INTERPOLATION.outside * (axis[-1] - axis[0])
    return (where >= axis[0] - slack) & (where <= axis[-1] + slack)


def stencil(
    axis: np.ndarray, where: np.ndarray, width: int, rate: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of the nearest grid points of each position and their weights in the interpolating
    polynomial.

    Args:
        axis: increasing grid points.
        where: the positions.
        width: how many grid points, fewer where there are not so many.
        rate: whether the derivative of the polynomial is wanted.

    Example:
        >>> index, weights = stencil(np.arange(6.0), np.array([2.5]), 4)
        >>> index[0].tolist(), weights[0].tolist()
        ([1, 2, 3, 4], [-0.0625, 0.5625, 0.5625, -0.0625])
    """
    width = min(width, len(axis))
    cell = np.clip(np.searchsorted(axis, where, side="right") - 1, 0, len(axis) - 2)
    first = np.clip(cell - (width - 2) // 2, 0, len(axis) - width)
    index = first[:, None] + np.arange(width)
    nodes = axis[index]
    weights = np.zeros(nodes.shape)
    for k in range(width):
        others = [m for m in range(width) if m != k]
        scale = np.prod([nodes[:, k] - nodes[:, m] for m in others], axis=0)
        left_out = [[]] if not rate else [[m] for m in others]
        for skipped in left_out:
            weights[:, k] += np.prod(
                [where - nodes[:, m] for m in others if m not in skipped] or [np.ones(len(where))],
                axis=0,
            )
        weights[:, k] /= scale
    return index, weights
