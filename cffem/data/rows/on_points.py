# SPDX-License-Identifier: MIT
"""Weak rows on scattered sensors or the nodes of an unstructured mesh, in two and three dimensions.

Between the points the data are polyharmonic splines, integrated over a Delaunay mesh against smooth
boxes of bumps; every spatial integral ∫ f(u) ∂^d φ_k is then one sparse matrix applied to the nodal
values. Time is handled as on grids.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.interpolate import NearestNDInterpolator

from cffem.data.dataset import Dataset
from cffem.data.noise.grid_noise import GRID_NOISE, noise_ratio
from cffem.data.noise.point_noise import PointNoise, measure_point_noise
from cffem.data.noise.reconstruction import RECONSTRUCTION, Spline
from cffem.data.rows.bumps import bump_derivative
from cffem.data.rows.conservation import Order
from cffem.data.rows.on_grids import BLOCKS, GRID_TESTS, QUIETER, block_counts, fewest_half
from cffem.data.rows.point_mesh import POINT_TESTS, PointMesh, Support
from cffem.data.rows.widths import Width, WidthRule, best_width, expected_error, unbiased_energy
from cffem.data.testfunctions import Axis, half_width, power_for, spectral_corner
from cffem.symbols.coordinates import COORDINATES, SPACE
from cffem.symbols.errors import InputError

WIDTHS = WidthRule()


class PointSampling:
    """Integrals of scattered data against test functions, as `GridSampling` has them."""

    def __init__(self, data: Dataset, orders: Order) -> None:
        if data.points is None:
            raise InputError(
                "these data lie on a grid; scattered data come from Dataset.from_points"
            )
        self.data, self.orders, self.points = data, orders, data.points
        self.mesh = PointMesh.cached(self.points)
        times = data.coordinates[COORDINATES[3]]
        misses = self.mesh.misses if len(times) <= 2 * GRID_NOISE.differences else None
        if data.gathered is None:
            self.noises = {
                n: measure_point_noise(v, self.mesh.smoothing, times, misses)
                for n, v in data.values.items()
            }
        else:
            self.noises = {
                n: PointNoise(sd, self.mesh.smoothing) for n, sd in data.gathered.noise.items()
            }
        self.power = max(
            max(orders[:3]) + 2, 4, min(POINT_TESTS.largest_space_power, max(orders[:3]) + 4)
        )
        ratio = noise_ratio(self.noises, data.values)
        self.spline = Spline(degree=POINT_TESTS.degrees[data.dim]).smoothed(ratio)
        self.radius, self.time = self._radius(), self._time_axis()
        if ratio > WIDTHS.noisy:
            best = best_width(list(self._candidates()), WIDTHS)
            self.radius, self.time = self.radius * best.factor, self._axis_of(best.half)

    def _radius(self) -> np.ndarray:
        """Half width of the test functions along each axis, from the spectrum of the data on
        a background grid.
        """
        points, dim = self.points, self.data.dim
        low, extent = points.min(axis=0), np.ptp(points, axis=0)
        count = max(8, round(len(points) ** (1 / dim)))
        axes = [np.linspace(low[i], low[i] + extent[i], count) for i in range(dim)]
        where = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dim)
        nearest = NearestNDInterpolator(points, np.arange(len(points)))(where).astype(int)
        shape = (*(count,) * dim, len(self.data.coordinates[COORDINATES[3]]))
        widths = np.zeros(dim)
        for name, values in self.data.values.items():
            gridded = self.noises[name].whitened(values)[nearest].reshape(shape)
            for axis in range(dim):
                half = half_width(count, spectral_corner(gridded, axis))
                widths[axis] = max(widths[axis], half / (count - 1) * extent[axis])
        resolved = np.minimum(POINT_TESTS.fewest_points * extent / (count - 1), extent / 4)
        return np.clip(widths, resolved, np.maximum(resolved, extent * POINT_TESTS.largest_share))

    def _time_axis(self) -> Axis:
        times, orders = self.data.coordinates[COORDINATES[3]], self.orders[3]
        white = [self.noises[name].whitened(v) for name, v in self.data.values.items()]
        wanted = max(half_width(len(times), spectral_corner(v, 1)) for v in white)
        fewest = fewest_half(len(times), orders, COORDINATES[3])
        largest = max(
            len(times) // GRID_TESTS.time_share, min(POINT_TESTS.few_half, (len(times) - 1) // 2)
        )
        return self._axis_of(max(min(wanted, largest), fewest))

    def _axis_of(self, half: int) -> Axis:
        """Bumps of one half width in time."""
        times, orders = self.data.coordinates[COORDINATES[3]], self.orders[3]
        return Axis(
            times,
            half,
            power_for(half, orders),
            max(1, half // GRID_TESTS.overlap),
            orders,
            QUIETER[0],
        )

    def _candidates(self) -> Iterator[Width]:
        """Wider test functions than the spectrum asks for, and how much noise they would keep."""
        count, extent = len(self.data.coordinates[COORDINATES[3]]), np.ptp(self.points, axis=0)
        halves = sorted(
            {self.time.half}
            | {h for share in WIDTHS.shares if (h := round(share * count)) >= self.time.half}
        )
        for factor in WIDTHS.factors:
            if factor > 1 and (self.radius * factor > WIDTHS.largest_share * extent).any():
                continue
            radius = self.radius * factor
            step = self._some_matrices(radius)
            fields = {
                name: [matrix @ values for matrix in step]
                for name, values in self.data.values.items()
            }
            for half in halves:
                axis = self._axis_of(half)
                rows = float(np.prod(np.maximum(1.0, extent / radius - 1))) * axis.independent
                errors = [
                    self._error_of(axis, step, fields[name], name, rows)
                    for name in self.data.values
                ]
                yield Width(factor, half, max(errors), rows)

    def _some_matrices(self, radius: np.ndarray) -> list[sparse.csr_matrix]:
        """∫ φ_k, and ∫ ∂_i^d φ_k with the highest derivative along each axis, for some test
        functions inside the domain.
        """
        low, high = self.points.min(axis=0) + radius, self.points.max(axis=0) - radius
        centres = np.random.default_rng(0).uniform(
            low, np.maximum(high, low), (WIDTHS.samples, self.data.dim)
        )
        support = self.mesh.supports(radius, centres)
        highest = [
            tuple(self.orders[i] * (i == axis) for i in range(self.data.dim))
            for axis in range(self.data.dim)
        ]
        first = tuple(int(self.data.projected and i == 0) for i in range(self.data.dim))
        return [self._matrix(radius, len(centres), support, order) for order in (first, *highest)]

    def _error_of(
        self, axis: Axis, steps: list, fields: list[np.ndarray], name: object, rows: float
    ) -> float:
        """Expected error of the anchor's rows and of those with the highest derivatives."""
        signals, noises = [], []
        for number, (matrix, values) in enumerate(zip(steps, fields, strict=True)):
            weights = axis.matrices[axis.orders if number == 0 else 0]
            noise = self.noises[name].sd ** 2 * float(
                matrix.power(2).sum(axis=1).mean() * (weights**2).sum(axis=1).mean()
            )
            signals.append(unbiased_energy(values @ weights.T, noise))
            noises.append(noise)
        return expected_error(signals, noises, rows, WIDTHS.lack)

    @cached_property
    def failing(self) -> PointSampling | None:
        """The same integrals with what few reading times fail by and a reconstruction of
        lower order, where that can matter.
        """
        spacing = (np.prod(np.ptp(self.points, axis=0)) / len(self.points)) ** (1 / self.data.dim)
        dense = (
            bool((self.radius > POINT_TESTS.dense * spacing).all())
            or self.spline.smoothing > RECONSTRUCTION.noise_decides
        )
        if self.time.resolved and dense:
            return None
        other = copy.copy(self)
        if not self.time.resolved:
            other.time = self.time.failing(
                (v.T, self.noises[n].sd) for n, v in self.data.values.items()
            )
        other.spline = (
            self.spline if dense else replace(self.spline, degree=self.spline.degree - 1, power=3)
        )
        return other

    def averaged(self, noise_ratio: float) -> Dataset:
        """Scattered data are not averaged beforehand."""
        return self.data

    def filled(self, values: np.ndarray) -> np.ndarray:
        return values

    def spread(self, noise: np.ndarray) -> np.ndarray:
        """What fresh noise at the readings becomes at the common times."""
        return noise if self.data.gathered is None else self.data.gathered.spread(noise)

    def coordinate(self, symbol: object) -> np.ndarray:
        """Values of a coordinate, shaped to broadcast against the data."""
        if symbol == COORDINATES[3]:
            return self.data.coordinates[symbol][None, :]
        return self.points[:, SPACE.index(symbol)][:, None]

    def differentiate(self, values: np.ndarray, order: Order) -> np.ndarray:
        """Derivatives of smooth data from local quadratic fits in space and differences in time."""
        for axis in range(self.data.dim):
            for _ in range(order[axis]):
                values = self.mesh.first_derivatives[axis] @ values
        for _ in range(order[3]):
            values = np.gradient(values, self.data.coordinates[COORDINATES[3]], axis=1)
        return values

    @cached_property
    def centres(self) -> np.ndarray:
        """Centres of the spatial test functions whose whole support is covered by the mesh."""
        return self._tests[0]

    @cached_property
    def _tests(self) -> tuple[np.ndarray, Support]:
        """Centres of the spatial test functions, and the quadrature points under each; kept
        with the mesh for the next data.
        """
        key = (*self.radius, self.power)
        if key not in self.mesh.tests:
            self.mesh.tests = {key: self._covered_tests()}
        return self.mesh.tests[key]

    def _covered_tests(self) -> tuple[np.ndarray, Support]:
        points = self.points
        low, high = points.min(axis=0) + self.radius, points.max(axis=0) - self.radius
        if (high < low).any():
            raise InputError(
                "the points are too few or too clustered for a weak design: no test function fits "
                "into the domain"
            )
        step = self.radius / GRID_TESTS.overlap * (1.5 if self.data.dim == 2 else 2.5)
        axes = [
            np.linspace(a, b, max(2, math.ceil((b - a) / h) + 1))
            for a, b, h in zip(low, high, step, strict=True)
        ]
        centres = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.data.dim)
        _, weights = self.mesh.quadrature
        volume = np.prod(2 * self.radius)
        rows, columns, offsets = self.mesh.supports(self.radius, centres)
        covered = np.bincount(rows, weights[columns], len(centres))
        # Quadrature points near the edge of a box are in or out, so coverage is only known to about
        # one layer of cells.
        layer = len(weights) ** (-1 / self.data.dim)
        kept = covered >= (POINT_TESTS.covered - 2 * layer) * volume
        if not kept.any():
            raise InputError(
                "the points are too few or too clustered for a weak design: no test function is "
                "covered by them"
            )
        inside = kept[rows]
        return centres[kept], (
            (np.cumsum(kept) - 1)[rows[inside]],
            columns[inside],
            offsets[inside],
        )

    def space_matrix(self, order: tuple[int, ...]) -> sparse.csr_matrix:
        """∫ (nodal interpolant) ∂^order φ_k for all spatial test functions; kept with the
        mesh for the next data on it.
        """
        key = (tuple(self.radius), self.power, order, self.spline)
        if key not in self.mesh.matrices:
            self.mesh.matrices[key] = self._matrix(
                self.radius, len(self.centres), self._tests[1], order
            )
        return self.mesh.matrices[key]

    def _matrix(
        self, radius: np.ndarray, count: int, support: Support, order: tuple[int, ...]
    ) -> sparse.csr_matrix:
        """∫ (nodal interpolant) ∂^order φ_k for test functions with given quadrature points."""
        rows, columns, offsets = support
        _, weights = self.mesh.quadrature
        entries = weights[columns] / np.prod(radius)
        for i in range(self.data.dim):
            entries *= bump_derivative(offsets[:, i], self.power, order[i])
            entries /= radius[i] ** order[i]
        starts = np.searchsorted(rows, np.arange(count + 1))
        tests = sparse.csr_matrix((entries, columns, starts), shape=(count, len(weights)))
        return (tests @ self.mesh.interpolation(self.spline)).tocsr()

    def integrate(
        self, values: np.ndarray, order: Order, memory: dict, key: Hashable
    ) -> np.ndarray:
        """∫ values ∂^order φ_k for all test functions; orders share work through `memory`."""
        label = (key, order[3])
        if label not in memory:
            memory[label] = values @ self.time.matrices[order[3]].T
        return (self.space_matrix(tuple(order[: self.data.dim])) @ memory[label]).ravel()

    @cached_property
    def complete(self) -> np.ndarray:
        return np.ones(len(self.centres) * len(self.time.centres), dtype=bool)

    @cached_property
    def blocks(self) -> np.ndarray:
        """Resampling block of every test function."""
        counts = [len(np.unique(column)) for column in self.centres.T]
        *space, slabs = block_counts(BLOCKS[self.data.dim], [*counts, len(self.time.centres)])
        label = np.zeros(len(self.centres), dtype=int)
        for axis, parts in enumerate(space):
            # Ties on a lattice of centres must not be split at random, so cut between distinct
            # positions.
            levels, index = np.unique(self.centres[:, axis], return_inverse=True)
            label = label * parts + np.minimum(index * parts // len(levels), parts - 1)
        times = np.minimum(
            np.arange(len(self.time.centres)) * slabs // len(self.time.centres), slabs - 1
        )
        return (label[:, None] * slabs + times[None, :]).ravel()

    @property
    def effective(self) -> float:
        """Number of independent test functions."""
        extent = np.ptp(self.points, axis=0)
        return float(np.prod(np.maximum(1.0, extent / self.radius - 1))) * self.time.independent

    @property
    def notes(self) -> dict:
        return {
            "radius": self.radius.tolist(),
            "half_widths": [self.time.half],
            "powers": [self.power, self.time.power],
        }
