# SPDX-License-Identifier: MIT
"""Equilibrated fluxes of whole trajectories from those of a few directions.

A column (w, g) is a state w ∈ V_h with a density g for which it is the Galerkin solution: (∇w, ∇v)
= (g, v) for v ∈ V_h. Its flux is linear in it. The columns of a trajectory that its time steps
resolve hardly leave a space of few dimensions, so they are split,

    (w, g) = Σ_r c_r (w_r, g_r) + (w′, g′),

with directions that are chosen as the principal ones of what the known directions miss (proper
orthogonal decomposition, in the norm of g), at the levels and in the differences of levels. Only
directions have fluxes. Because a remainder is a Galerkin solution too, its part of R(z − I z) is at
most C² ‖g′‖ ‖Δz‖ on convex plane domains, C the largest of Kobayashi's constants: no flux is
needed. What remains is measured and added, so the bound holds however many directions were taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cffem.bounds.flux.equilibrated import FluxEquilibration

# Directions are added until what is left is at most this share of all columns, and of all their
# differences.
SHARE = 5e-3
# Rounding errors of products of misfits, relative to the sizes of their factors.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Columns:
    """Pairs (w, g), g = g_h + Π s.

    Attributes:
        states: owned values of w, one column each.
        densities: owned values of g_h ∈ V_h, which vanishes on the boundary.
        data: coefficients of Π s, shape (polynomials, cells, columns), or None where there are no
            data.
    """

    states: np.ndarray
    densities: np.ndarray
    data: np.ndarray | None = None

    def times(self, matrix: np.ndarray) -> Columns:
        """Combinations of the columns."""
        return Columns(
            self.states @ matrix,
            self.densities @ matrix,
            None if self.data is None else self.data @ matrix,
        )

    def minus(self, other: Columns) -> Columns:
        """The difference of columns; one without data has none."""
        data = (
            self.data
            if other.data is None
            else -other.data
            if self.data is None
            else self.data - other.data
        )
        return Columns(self.states - other.states, self.densities - other.densities, data)

    def joined(self, other: Columns) -> Columns:
        """These columns and others."""
        data = None
        if self.data is not None or other.data is not None:
            data = np.concatenate([_filled(self, other), _filled(other, self)], axis=2)
        states = np.concatenate([self.states, other.states], axis=1)
        return Columns(states, np.concatenate([self.densities, other.densities], axis=1), data)


def _filled(columns: Columns, like: Columns) -> np.ndarray:
    """The data of columns, zeros of the shape of another's where there are none."""
    if columns.data is not None:
        return columns.data
    assert like.data is not None
    return np.zeros((*like.data.shape[:2], columns.states.shape[1]))


class FluxBasis:
    """Directions with fluxes, which all trajectories of a model share and enlarge.

    Args:
        equilibration: measures residuals; the domain is plane and convex.

    Attributes:
        size: how many directions there are.
    """

    def __init__(self, equilibration: FluxEquilibration):
        constants = equilibration.domain.interpolation
        largest = equilibration.domain.largest_interpolation
        assert constants is not None
        assert largest is not None
        self.equilibration, self._weights, self._regularity = (
            equilibration,
            constants**2,
            largest**2,
        )
        self._directions: Columns | None = None
        self._misfits: list[np.ndarray] = []
        self._gram = np.zeros((0, 0))

    @property
    def size(self) -> int:
        """How many directions there are."""
        return len(self._misfits)

    def measured(self, columns: Columns, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of sup R(z − I z)/‖Δz‖ of columns, and of their differences over the steps;
        collective.
        """
        inside, rest = self._split(columns)
        whole, change = self._products(columns, columns), _differences(columns.states.shape[1])
        sizes = [_root(np.trace(whole)), _root(np.trace(change.T @ whole @ change))]
        inner = self._products(rest, rest)
        if _left(inner, change, sizes) > SHARE:
            self._enlarge(rest, inner, change, sizes)
            inside, rest = self._split(columns)
            inner = self._products(rest, rest)
        found = []
        for matrix in (np.eye(len(change)), change / steps):
            beyond = np.sqrt(np.maximum(np.einsum("ij,ik,kj->j", matrix, inner, matrix), 0.0))
            found.append(self._sizes(inside @ matrix) + self._regularity * beyond)
        return found[0], found[1]

    def _split(self, columns: Columns) -> tuple[np.ndarray, Columns]:
        """c_r, and what is left."""
        if self._directions is None:
            return np.zeros((0, columns.states.shape[1])), columns
        inside = self._products(self._directions, columns)
        return inside, columns.minus(self._directions.times(inside))

    def _products(self, first: Columns, second: Columns) -> np.ndarray:
        """Inner products (g_h, g_h) + (Π s, Π s) of columns; collective."""
        equilibration = self.equilibration
        result = first.densities.T @ equilibration.mass_times_columns(second.densities)
        if first.data is not None and second.data is not None:
            weighted = equilibration.cells.volume[:, None] * second.data
            result += np.tensordot(first.data, weighted, axes=((0, 1), (0, 1)))
        return equilibration.comm.allreduce(result)

    def _enlarge(
        self, rest: Columns, inner: np.ndarray, change: np.ndarray, sizes: list[float]
    ) -> None:
        """Add the principal directions of what is left, at the levels and in their
        differences; collective.
        """
        parts = [np.eye(len(inner)), change]
        weighted = np.concatenate(
            [part / size for part, size in zip(parts, sizes, strict=True) if size > 0], axis=1
        )
        values, vectors = np.linalg.eigh(weighted.T @ inner @ weighted)
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        tails = np.append(np.cumsum(values[::-1])[::-1], 0.0)
        count = int(np.argmax(tails <= SHARE**2 / 2))
        new = rest.times(weighted @ (vectors[:, :count] / np.sqrt(values[:count])))
        for n in range(count):
            data = None if new.data is None else np.ascontiguousarray(new.data[..., n])
            misfit, new.densities[:, n] = self.equilibration.galerkin(
                new.states[:, n], new.densities[:, n], data
            )
            self._add(misfit)
        self._directions = new if self._directions is None else self._directions.joined(new)

    def _add(self, misfit: np.ndarray) -> None:
        self._misfits.append(misfit)
        products = self.equilibration.products(misfit, self._misfits, self._weights)
        gram = np.empty((self.size, self.size))
        gram[:-1, :-1], gram[-1], gram[:, -1] = self._gram, products, products
        self._gram = gram

    def _sizes(self, inside: np.ndarray) -> np.ndarray:
        """(Σ C_K² ‖Σ_r c_r (q_r + ∇w_r)‖²)^{1/2} for columns of coefficients."""
        squares = np.einsum("ij,ik,kj->j", inside, self._gram, inside)
        rounding = np.sqrt(np.diagonal(self._gram)) @ np.abs(inside)
        return np.sqrt(np.maximum(squares, 0.0) + ROUNDING * rounding**2)


def _root(value: float) -> float:
    return float(np.sqrt(max(float(value), 0.0)))


def _left(inner: np.ndarray, change: np.ndarray, sizes: list[float]) -> float:
    """The larger share that is left, of the levels and of their differences."""
    parts = [_root(np.trace(inner)), _root(np.trace(change.T @ inner @ change))]
    return max(
        (part / size for part, size in zip(parts, sizes, strict=True) if size > 0), default=0.0
    )


def _differences(count: int) -> np.ndarray:
    """The matrix that takes differences of neighbouring columns."""
    result = np.zeros((count, count - 1))
    result[np.arange(count - 1), np.arange(count - 1)] = -1.0
    result[np.arange(1, count), np.arange(count - 1)] = 1.0
    return result
