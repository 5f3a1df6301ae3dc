# SPDX-License-Identifier: MIT
"""Strong rows of measured data: every term evaluated at the data points with finite differences (on
grids) or local quadratic fits (scattered points).

Differences amplify noise, so strong designs are for clean data and for comparison; noisy data want
the weak design. What noise does to the rows is drawn here, too, and neighbouring points count as
one row, so that a screen of strong rows knows when not to be believed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import sympy as sp

from cffem.data.dataset import Dataset
from cffem.data.noise.grid_noise import reshaped
from cffem.data.rows.conservation import Order, orders_of
from cffem.data.rows.integrands import check_axes, check_integrand, compiled
from cffem.data.rows.on_grids import BLOCKS, USUAL_WIDTH, derivative
from cffem.data.rows.point_mesh import PointMesh
from cffem.data.rows.row_blocks import RowBlock
from cffem.data.rows.weak_blocks import common_draws, noise_notes, sampling_of
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import COORDINATES, SPACE
from cffem.symbols.errors import InputError
from cffem.symbols.problem.library import CandidateTerms


@dataclass(frozen=True)
class StrongRowSettings:
    """Rows from differences of the data.

    Args:
        stencil: points on either side of a first difference.
        draws: draws of noise that tell how much of it differences carry into the rows.
        seed: of these draws, so that rows are the same each time.
    """

    stencil: int = 2
    draws: int = 3
    seed: int = 20240229


STRONG_ROWS = StrongRowSettings()
OTHER = 2  # place of the view whose differences are of another order


def strong_rows(data: Dataset, library: CandidateTerms) -> Iterator[RowBlock]:
    """Rows of the strong design of a library, one space–time block after the other."""
    entries = [
        to_components(term, max(1, data.dim)) for term in (library.anchor, *library.terms.values())
    ]
    for entry in entries:
        for scalar in entry:
            for found in scalar.atoms(sp.Derivative):
                check_axes(orders_of(found), data)
            check_integrand(scalar, data)
    inner, labels = interior(data, entries), block_labels(data)
    sampling = sampling_of(data, highest_orders(entries), noisy=False)
    smooth = {
        name: sampling.noises[name].remove(sampling.filled(v)) for name, v in data.values.items()
    }
    random = np.random.default_rng(STRONG_ROWS.seed)
    drawn = [
        {n: v + sampling.noises[n].draw(random, v.shape) for n, v in smooth.items()}
        for _ in range(STRONG_ROWS.draws)
    ]
    share = min(1.0, sampling.effective / max(1, int(inner.sum())))
    data.notes.update(
        noise_notes(sampling, {name: sampling.filled(v) for name, v in data.values.items()})
    )
    views = [data, *(replace(data, values=values) for values in (smooth, smooth, *drawn))]
    derivatives: list[dict[sp.Expr, np.ndarray]] = [{} for _ in views]
    found = np.unique(labels[inner])
    for component in range(len(entries[0])):
        columns = [
            [evaluate(entry[component], view, memory, other=number == OTHER) for entry in entries]
            for number, (view, memory) in enumerate(zip(views, derivatives, strict=True))
        ]
        for label in found:
            rows = inner & (labels == label)
            raw, denoised, other, *noisy = (
                np.column_stack([c[rows] for c in parts]) for parts in columns
            )
            noise = np.array(noisy)
            noise = (noise - noise.mean(axis=0)) * np.sqrt(
                STRONG_ROWS.draws / (STRONG_ROWS.draws - 1)
            )
            # Differences of another order tell the error of these, which is common to all rows.
            noise = noise + common_draws(STRONG_ROWS.draws) * (other - denoised)
            yield RowBlock(
                raw[:, 1:], raw[:, 0], None, int(label), denoised, noise, share * rows.sum()
            )


def highest_orders(entries: list[tuple[sp.Expr, ...]]) -> Order:
    """The highest derivative along each coordinate."""
    found = [
        orders_of(d) for entry in entries for scalar in entry for d in scalar.atoms(sp.Derivative)
    ]
    return tuple(max((o[k] for o in found), default=0) for k in range(4))


def evaluate(
    expr: sp.Expr, data: Dataset, derivatives: dict[sp.Expr, np.ndarray], other: bool = False
) -> np.ndarray:
    """An expression at the data points, with numerical derivatives.

    Args:
        expr: the expression.
        data: the data.
        derivatives: those that were made before, and those that are made now.
        other: whether the differences are of another order than usual.
    """
    function, names = compiled(expr)
    inputs = []
    for name in names:
        if isinstance(name, sp.Derivative):
            if name not in derivatives:
                derivatives[name] = differentiated(
                    data, data.values[name.expr], orders_of(name), other
                )
            inputs.append(derivatives[name])
        else:
            inputs.append(coordinate(data, name) if name in COORDINATES else data.values[name])
    return np.broadcast_to(np.asarray(function(*inputs), dtype=float), data.shape)


def differentiated(
    data: Dataset, values: np.ndarray, order: Order, other: bool = False
) -> np.ndarray:
    """A mixed derivative, one differentiation after the other."""
    for number, (symbol, count) in enumerate(zip(COORDINATES, order, strict=True)):
        for _ in range(count):
            if data.points is None or symbol == COORDINATES[3]:
                points = data.coordinates[symbol]
                axis = list(axes_of(data)).index(symbol)
                width = other_width(len(points)) if other else USUAL_WIDTH
                values = derivative(values, points, axis, data.period.get(symbol), width)
            else:
                values = PointMesh.cached(data.points).first_derivatives[number] @ values
    return values


def other_width(count: int) -> int:
    """Points of differences that tell the error of the usual ones: more, or fewer of few."""
    return USUAL_WIDTH + 2 if count >= USUAL_WIDTH + 2 else USUAL_WIDTH - 2


def axes_of(data: Dataset) -> list[sp.Symbol]:
    """What the axes of the value arrays stand for: coordinates on a grid, points and time for
    scattered data.
    """
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
        reach = STRONG_ROWS.stencil * max(
            (orders_of(d)[COORDINATES.index(symbol)] for d in found), default=0
        )
        kept = np.full(data.shape[axis], symbol in data.period)
        kept[reach : data.shape[axis] - reach] = True
        inside = inside & reshaped(kept, axis, len(data.shape))
        for shift in range(-reach, reach + 1) if data.mask is not None else ():
            inside = inside & ~np.roll(data.mask, shift, axis)
    if not inside.any():
        raise InputError(
            "the grid is too small for the derivatives of the library: no point is left inside"
        )
    return inside


def block_labels(data: Dataset) -> np.ndarray:
    """Resampling block of every data point."""
    *space, slabs = BLOCKS[data.dim]
    label = np.zeros(data.shape, dtype=int)
    if data.points is None:
        for axis, (length, parts) in enumerate(zip(data.shape, (*space, slabs), strict=False)):
            label = label * parts + reshaped(
                np.arange(length) * parts // length, axis, len(data.shape)
            )
        return label
    for column, parts in zip(data.points.T, space, strict=True):
        rank = np.argsort(np.argsort(column, kind="stable"), kind="stable")
        label = label * parts + (rank * parts // len(column))[:, None]
    times = data.shape[1]
    return label * slabs + (np.arange(times) * slabs // times)[None, :]
