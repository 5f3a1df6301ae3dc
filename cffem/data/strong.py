# SPDX-License-Identifier: MIT
"""Strong rows of measured data: every term evaluated at the data points with finite differences (on grids) or local
quadratic fits (scattered points).

Differences amplify noise, so strong designs are for clean data and for comparison; noisy data want the weak design.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy as sp

from cffem.data.conservation import Order, orders_of
from cffem.data.dataset import Dataset
from cffem.data.grid import BLOCKS, derivative
from cffem.data.integrands import check_integrand, compiled
from cffem.data.noise import reshaped
from cffem.data.points import PointMesh
from cffem.data.rows import RowBlock
from cffem.symbols.components import to_components
from cffem.symbols.coordinates import COORDINATES, SPACE
from cffem.symbols.errors import InputError

STENCIL = 2  # points on either side of a first difference


def strong_rows(data: Dataset, library: Any) -> Iterator[RowBlock]:
    """Rows of the strong design of a library, one space–time block after the other."""
    entries = [to_components(term, data.dim) for term in (library.anchor, *library.terms.values())]
    for entry in entries:
        for scalar in entry:
            check_integrand(scalar, data)
    derivatives: dict[sp.Expr, np.ndarray] = {}
    inner, labels = interior(data, entries), block_labels(data)
    for component in range(len(entries[0])):
        columns = [evaluate(entry[component], data, derivatives) for entry in entries]
        for label in np.unique(labels[inner]):
            rows = inner & (labels == label)
            Z = np.column_stack([c[rows] for c in columns])
            yield RowBlock(Z[:, 1:], Z[:, 0], block=int(label))


def evaluate(expr: sp.Expr, data: Dataset, derivatives: dict[sp.Expr, np.ndarray]) -> np.ndarray:
    """An expression at the data points, with numerical derivatives."""
    function, names = compiled(expr)
    inputs = []
    for name in names:
        if isinstance(name, sp.Derivative):
            if name not in derivatives:
                derivatives[name] = differentiated(data, data.values[name.expr], orders_of(name))
            inputs.append(derivatives[name])
        else:
            inputs.append(coordinate(data, name) if name in COORDINATES else data.values[name])
    return np.broadcast_to(np.asarray(function(*inputs), dtype=float), data.shape)


def differentiated(data: Dataset, values: np.ndarray, order: Order) -> np.ndarray:
    """A mixed derivative, one differentiation after the other."""
    for number, (symbol, count) in enumerate(zip(COORDINATES, order, strict=True)):
        for _ in range(count):
            if data.points is None or symbol == COORDINATES[3]:
                values = derivative(values, data.coordinates[symbol], list(axes_of(data)).index(symbol))
            else:
                values = PointMesh.cached(data.points).first_derivatives[number] @ values
    return values


def axes_of(data: Dataset) -> list[Any]:
    """What the axes of the value arrays stand for: coordinates on a grid, points and time for scattered data."""
    return list(data.coordinates) if data.points is None else [None, COORDINATES[3]]


def coordinate(data: Dataset, symbol: sp.Symbol) -> np.ndarray:
    """Values of a coordinate, shaped to broadcast against the data."""
    if data.points is not None and symbol in SPACE:
        return data.points[:, SPACE.index(symbol)][:, None]
    return reshaped(data.coordinates[symbol], axes_of(data).index(symbol), len(data.shape))


def interior(data: Dataset, entries: list[tuple[sp.Expr, ...]]) -> np.ndarray:
    """Points where all central differences stay inside the grid and touch no missing value."""
    found = [d for entry in entries for scalar in entry for d in scalar.atoms(sp.Derivative)]
    inside = np.ones(data.shape, dtype=bool) if data.mask is None else ~data.mask
    for axis, symbol in enumerate(axes_of(data)):
        if symbol is None:
            continue
        reach = STENCIL * max((orders_of(d)[COORDINATES.index(symbol)] for d in found), default=0)
        kept = np.zeros(data.shape[axis], dtype=bool)
        kept[reach : data.shape[axis] - reach] = True
        inside = inside & reshaped(kept, axis, len(data.shape))
        for shift in range(-reach, reach + 1) if data.mask is not None else ():
            inside = inside & ~np.roll(data.mask, shift, axis)
    if not inside.any():
        raise InputError("the grid is too small for the derivatives of the library: no point is left inside")
    return inside


def block_labels(data: Dataset) -> np.ndarray:
    """Resampling block of every data point."""
    *space, slabs = BLOCKS[max(1, data.dim)]
    label = np.zeros(data.shape, dtype=int)
    if data.points is None:
        for axis, (length, parts) in enumerate(zip(data.shape, (*space, slabs), strict=False)):
            label = label * parts + reshaped(np.arange(length) * parts // length, axis, len(data.shape))
        return label
    for column, parts in zip(data.points.T, space, strict=True):
        rank = np.argsort(np.argsort(column, kind="stable"), kind="stable")
        label = label * parts + (rank * parts // len(column))[:, None]
    times = data.shape[1]
    return label * slabs + (np.arange(times) * slabs // times)[None, :]
