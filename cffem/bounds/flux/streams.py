# SPDX-License-Identifier: MIT
"""Flux problems around the vertices of a plane mesh, all solved at once by stream functions.

Around a vertex a the cells are numbered counter-clockwise. With the splitting of `reference`, cell
K has the flux P d + N z, where N z is the curl of a polynomial. Fluxes of neighbours are continuous
if

    z = s (φ + c_K ψ),   c_{K+1} = c_K + (D_K + D_{K+1})/2,

with one continuous φ on all cells, the hat function ψ, the integral D_K of the divergence, and s =
±1 for the orientation of the cell. Around an inner vertex the last c meets the first, because the
data have Σ D_K = 0. So continuity needs no multipliers: the best φ solves Σ_K A_K φ = Σ_K (s f_K −
c_K A_K ψ) with the energies A_K and forces f_K of the cells, and its unknowns are its value at the
vertex and its bubbles on the edges, about half as many as there would be multipliers. Bubbles of
cells are eliminated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.bounds.flux.cells import CellBlock, FluxCells
from cffem.bounds.flux.patches import (
    NUMBERS,
    Exchange,
    block_products,
    contracted,
    entries,
    inverted,
    numbered,
    symmetric_inverses,
)
from cffem.bounds.geometry.reference_cell import AREA, Stack

if TYPE_CHECKING:
    from mpi4py import MPI


# Whether the first of the two edges of a corner leads to the next corner counter-clockwise.
FIRST_IS_NEXT = np.array([False, True, False])


@dataclass
class _Ring:
    """Vertices with equally many cells; arrays of cells have the shape (…, cells of a vertex,
    vertices).

    Attributes:
        here: the place of the cells in the common order.
        cells: how many a vertex has.
        closed: whether the vertices are inner ones.
        bubbles: how many an edge has.
        inverses: those of the systems, some vertices at a time.
        hat: A ψ of each cell.
    """

    here: slice
    cells: int
    closed: bool
    bubbles: int
    inverses: list[np.ndarray]
    hat: np.ndarray

    @property
    def edges(self) -> int:
        """How many a vertex has."""
        return self.cells if self.closed else self.cells + 1

    def unknown(self, row: int, cell: int) -> int:
        """Which unknown of the vertex is the one of a cell in this row: its corner, its first
        edge, its second.
        """
        if row == 0:
            return 0
        side, bubble = divmod(row - 1, self.bubbles)
        return 1 + bubble * self.edges + (cell + side) % self.edges

    def assembled(self, energy: np.ndarray) -> np.ndarray:
        """The lower triangles of the systems from those of cells."""
        result = np.zeros((entries(1 + self.bubbles * self.edges), energy.shape[2]))
        for entry, (row, column) in enumerate(
            zip(*np.tril_indices(1 + 2 * self.bubbles), strict=True)
        ):
            for cell in range(self.cells):
                first, second = self.unknown(row, cell), self.unknown(column, cell)
                result[entries(max(first, second)) + min(first, second)] += energy[entry, cell]
        return result

    def gathered(self, values: np.ndarray) -> np.ndarray:
        """Sums over cells, for each unknown of a vertex."""
        k, count = self.bubbles, values.shape[2]
        result = np.empty((1 + k * self.edges, count))
        np.sum(values[0], axis=0, out=result[0])
        edges = result[1:].reshape(k, self.edges, count)
        edges[:, : self.cells], edges[:, self.cells :] = values[1 : k + 1], 0.0
        edges[:, 1:] += values[k + 1 :, : self.edges - 1]
        if self.closed:
            edges[:, 0] += values[k + 1 :, -1]
        return result

    def scattered(self, solution: np.ndarray, result: np.ndarray) -> None:
        """The unknowns of a vertex, for each of its cells."""
        k = self.bubbles
        edges = solution[1:].reshape(k, self.edges, -1)
        result[0], result[1 : k + 1] = solution[0], edges[:, : self.cells]
        result[k + 1 :, : self.edges - 1] = edges[:, 1:]
        if self.closed:
            result[k + 1 :, -1] = edges[:, 0]

    def solve(self, force: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, float]:
        """φ + c ψ of all cells from their forces, which are overwritten, and Σ (gap)² that
        inner vertices leave.
        """
        steps = total[1:] + total[:-1]
        steps *= 0.5
        around = np.zeros_like(total)
        np.cumsum(steps, axis=0, out=around[1:])
        force -= around * self.hat
        self.scattered(block_products(self.inverses, self.gathered(force)), force)
        force[0] += around
        return force, float((total.sum(axis=0) ** 2).sum()) if self.closed else 0.0


class Streams:
    """The systems of all vertices that this rank owns.

    Args:
        comm: the communicator.
        cells: this rank's cells.
        blocks: the same, some at a time.
        stack: their flux problems.
    """

    def __init__(self, comm: MPI.Comm, cells: FluxCells, blocks: Sequence[CellBlock], stack: Stack):
        self._stack, self._blocks = stack, blocks
        self._bubbles, self._rows = cells.tensors.degree, 1 + 2 * cells.tensors.degree
        self._inner = stack.null.shape[2] - self._rows
        self._locals: list[tuple[np.ndarray, np.ndarray]] = []
        self.exchange = Exchange(comm, cells.owners.T.ravel())
        facets = [cells.facets.T[list(corner.facets)] for corner in cells.tensors.corners]
        about = np.vstack([cells.vertices.T.ravel(), np.concatenate(facets, axis=1)]).astype(
            np.int64
        )
        signs = np.where(cells.oriented, 1.0, -1.0)
        turned = (FIRST_IS_NEXT[:, None] != cells.oriented).astype(float)
        more = np.stack([self._angles(cells), np.tile(signs, 3), turned.ravel()])
        energy = self._energies(len(cells.corners))
        about, more, energy = (self.exchange.forward(values) for values in (about, more, energy))
        self._lay_out(about, more[0], more[2] > 0, energy)
        self._signs = more[1][self._pairs]

    @staticmethod
    def _angles(cells: FluxCells) -> np.ndarray:
        """The direction from each corner to the middle of its cell."""
        ways = cells.corners.sum(axis=1)[None] - 3 * np.moveaxis(cells.corners, 1, 0)
        return np.arctan2(ways[..., 1], ways[..., 0]).ravel()

    def _energies(self, count: int) -> np.ndarray:
        """The lower triangle of A of each pair of a cell and a corner, from which bubbles of
        cells are eliminated.
        """
        stack, size, edge = self._stack, self._stack.null.shape[2], self._rows
        row, column = np.tril_indices(edge)
        result = np.empty((entries(edge), 3, count))
        for block in self._blocks:
            energy = (stack.energy @ np.stack(block.gammas)).reshape(3, size, size, -1)
            if self._inner:
                inverse = np.moveaxis(inverted(np.moveaxis(energy[:, edge:, edge:], 0, 2)), 2, 0)
                moved = sum(
                    inverse[:, :, n, None] * energy[:, edge + n, None, :edge]
                    for n in range(self._inner)
                )
                self._locals.append((inverse, moved))
                energy = energy[:, :edge, :edge] - sum(
                    energy[:, :edge, edge + n, None] * moved[:, n, None] for n in range(self._inner)
                )
            result[:, :, block.here] = energy[:, row, column].transpose(1, 0, 2)
        return result.reshape(len(result), -1)

    # Vertices
    # ----------------------------------------------------------------------------------------------

    def _lay_out(
        self, about: np.ndarray, angles: np.ndarray, turned: np.ndarray, energy: np.ndarray
    ) -> None:
        """Put vertices with equally many cells next to one another, and the cells around each
        in their order.
        """
        vertex, slot, _, closed = numbered(about[0], about[1:])
        first = np.where(turned, slot[1], slot[0]) < 0
        offset = np.zeros(len(closed))
        # Around a vertex of the boundary the first cell is the one whose first edge is on it.
        offset[vertex[first]] = angles[first]
        order = np.argsort(8.0 * vertex + (angles - offset[vertex]) % (2 * math.pi))
        counts = np.bincount(vertex, minlength=len(closed))
        starts = np.cumsum(counts) - counts
        kinds, pairs, end = 2 * counts + closed, [], 0
        self._rings, groups = [], []
        for kind in np.unique(kinds):
            here, many = np.flatnonzero(kinds == kind), int(kind) // 2
            pairs.append(order[starts[here] + np.arange(many)[:, None]].ravel())
            groups.append((slice(end, end + many * len(here)), many, bool(kind % 2)))
            end += many * len(here)
        self._pairs = np.concatenate([*pairs, np.zeros(0, dtype=np.int64)])
        turned = turned[self._pairs]
        self._index = (
            np.where(turned, self._swapped()[:, None], np.arange(self._rows)[:, None]) * end
            + self._pairs
        )
        for here, many, inner in groups:
            self._rings.append(self._ring(here, many, inner, energy, turned[here]))

    def _swapped(self) -> np.ndarray:
        """The rows of a cell whose first edge comes after its second one."""
        k = self._bubbles
        return np.concatenate([[0], np.arange(k + 1, 2 * k + 1), np.arange(1, k + 1)])

    def _ring(
        self, here: slice, cells: int, closed: bool, energy: np.ndarray, turned: np.ndarray
    ) -> _Ring:
        row, column = np.tril_indices(self._rows)
        rows = self._swapped()
        first, second = rows[row], rows[column]
        swapped = entries(np.maximum(first, second)) + np.minimum(first, second)
        index = (
            np.where(turned, swapped[:, None], np.arange(len(row))[:, None]) * energy.shape[1]
            + self._pairs[here]
        )
        energy = np.take(energy, index).reshape(len(row), cells, -1)
        ring = _Ring(here, cells, closed, self._bubbles, [], energy[column == 0])
        width = 1 + self._bubbles * ring.edges
        chunk = 1 + NUMBERS // entries(width)
        for start in range(0, energy.shape[2], chunk):
            ring.inverses.append(
                symmetric_inverses(ring.assembled(energy[:, :, start : start + chunk]), width)
            )
        return ring

    # Solving
    # ----------------------------------------------------------------------------------------------

    def solve(self, divergence: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, float, float]:
        """z of all cells around their corners; collective.

        Args:
            divergence: d, shape (polynomials, corners, cells).
            force: Nᵀ of what z should be near to, shape (unknowns, corners, cells).

        Returns:
            z, the part of this rank's vertices in the sum of squares of what is not continuous, and
            that of what flows.
        """
        edge = self._rows
        reduced = force[:edge]
        for block, (_, moved) in zip(self._blocks, self._locals, strict=False):
            inner = force[edge:, :, block.here].transpose(1, 0, 2)
            for n in range(self._inner):
                reduced[:, :, block.here] -= (moved[:, n] * inner[:, n, None]).transpose(1, 0, 2)
        total = self.exchange.forward(math.sqrt(AREA) * divergence[:1].reshape(1, -1))[0]
        found, gaps = self._around(self.exchange.forward(reduced.reshape(edge, -1)), total)
        result = self.exchange.back(found).reshape(reduced.shape)
        if self._inner:
            result = np.concatenate([result, self._inside(force, result)])
        return result, gaps, float(np.dot(total, total))

    def _around(self, force: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, float]:
        values, total, gaps = np.take(force, self._index), total[self._pairs], 0.0
        values *= self._signs
        for ring, part, flow in self._parts(values, total):
            part[:], gap = ring.solve(part, flow)
            gaps += gap
        values *= self._signs
        found = np.empty(force.shape)
        np.put(found, self._index, values)
        return found, gaps

    def _parts(
        self, values: np.ndarray, total: np.ndarray
    ) -> Iterator[tuple[_Ring, np.ndarray, np.ndarray]]:
        for ring in self._rings:
            yield (
                ring,
                values[:, ring.here].reshape(self._rows, ring.cells, -1),
                total[ring.here].reshape(ring.cells, -1),
            )

    def _inside(self, force: np.ndarray, found: np.ndarray) -> np.ndarray:
        """The bubbles of cells."""
        result = np.empty((self._inner, *force.shape[1:]))
        for block, (inverse, moved) in zip(self._blocks, self._locals, strict=True):
            own = contracted(inverse, force[self._rows :, :, block.here].transpose(1, 0, 2))
            own -= contracted(moved, found[:, :, block.here].transpose(1, 0, 2))
            result[:, :, block.here] = own.transpose(1, 0, 2)
        return result
