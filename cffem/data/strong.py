"""Strong rows of measured data: every term evaluated at the data points with finite differences.

Differences amplify noise, so strong designs are for clean data and for comparison; noisy data want the weak design.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy as sp

from cffem.data.conservation import orders_of
from cffem.data.dataset import Dataset
from cffem.data.grid import BLOCKS, derivative
from cffem.data.integrands import check_integrand, compiled
from cffem.data.rows import RowBlock
from cffem.symbols.components import to_components
from cffem.symbols.coordinates import COORDINATES

STENCIL = 2  # points on either side of a first difference


def strong_rows(data: Dataset, library: Any) -> Iterator[RowBlock]:
    """Rows of the strong design of a library on gridded data, one space–time block after the other."""
    if data.points is not None:
        raise ValueError("a strong design needs gridded data: scattered data have no finite differences, use kind='weak'")
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
    """An expression on the grid, with finite differences for its derivatives."""
    function, names = compiled(expr)
    symbols = list(data.coordinates)
    inputs = []
    for name in names:
        if isinstance(name, sp.Derivative):
            if name not in derivatives:
                values = data.values[name.expr]
                for symbol, count in zip(COORDINATES, orders_of(name), strict=True):
                    for _ in range(count):
                        values = derivative(values, data.coordinates[symbol], symbols.index(symbol))
                derivatives[name] = values
            inputs.append(derivatives[name])
        elif name in COORDINATES:
            shape = [1] * len(symbols)
            shape[symbols.index(name)] = -1
            inputs.append(data.coordinates[name].reshape(shape))
        else:
            inputs.append(data.values[name])
    return np.broadcast_to(np.asarray(function(*inputs), dtype=float), data.shape)


def interior(data: Dataset, entries: list[tuple[sp.Expr, ...]]) -> np.ndarray:
    """Points where all central differences stay inside the grid and touch no missing value."""
    found = [d for entry in entries for scalar in entry for d in scalar.atoms(sp.Derivative)]
    inside = np.ones(data.shape, dtype=bool) if data.mask is None else ~data.mask
    for axis, symbol in enumerate(data.coordinates):
        reach = STENCIL * max((orders_of(d)[COORDINATES.index(symbol)] for d in found), default=0)
        kept = np.zeros(data.shape[axis], dtype=bool)
        kept[reach : data.shape[axis] - reach] = True
        shape = [1] * len(data.shape)
        shape[axis] = -1
        inside = inside & kept.reshape(shape)
        for shift in range(-reach, reach + 1) if data.mask is not None else ():
            inside = inside & ~np.roll(data.mask, shift, axis)
    if not inside.any():
        raise ValueError("the grid is too small for the derivatives of the library: no point is left inside")
    return inside


def block_labels(data: Dataset) -> np.ndarray:
    """Resampling block of every grid point."""
    label = np.zeros(data.shape, dtype=int)
    for axis, (length, parts) in enumerate(zip(data.shape, BLOCKS[max(1, data.dim)], strict=False)):
        shape = [1] * len(data.shape)
        shape[axis] = -1
        label = label * parts + (np.arange(length) * parts // length).reshape(shape)
    return label
