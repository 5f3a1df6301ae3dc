# SPDX-License-Identifier: MIT
"""Flux problems around the vertices of a mesh, all solved at once: small dense systems that are
inverted once for a mesh.

This works in the plane and in space; in the plane `streams` finds the same fluxes with fewer
unknowns.

Around each vertex a the fluxes of the cells that share it are made continuous by multipliers on the
facets that share it. A cell contributes S λ to the jumps of its fluxes, where S depends on the cell
alone, so the multipliers of a vertex solve

    Σ_K S_K λ = Σ_K t_K,    t_K the normal moments that cell K would have without multipliers.

Symmetric matrices are given by their lower triangles, row after row. Facets of the boundary carry
no multiplier: what flows through them is free where a state is held. Where it is given, a
multiplier sees to it. Around an inner vertex the
constant multiplier moves nothing, and the data are such that nothing needs it to. Cells belong to
ranks and so do vertices; what a cell has to say to the vertex of another rank is sent there, and
the multipliers are sent back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.bounds.flux.cells import CellBlock, FluxCells
from cffem.bounds.geometry.reference_cell import Stack

if TYPE_CHECKING:
    from mpi4py import MPI


# Pairs are treated so many at a time, and systems so many that their triangles have about so many
# numbers: they stay in the cache.
BLOCK, NUMBERS = 2048, 150_000
# Systems of this many unknowns and more are inverted one by one, smaller ones many at a time.
LARGE = 32


class Exchange:
    """Things sent to the ranks that own them, and answers sent back in the same order; the last
    axis counts the things.

    Args:
        comm: the communicator.
        owners: the rank each goes to.
    """

    def __init__(self, comm: MPI.Comm, owners: np.ndarray):
        self.comm = comm
        self.order = np.argsort(owners, kind="stable")
        self.sent = np.bincount(owners, minlength=comm.size)
        self.received = np.array(comm.alltoall(list(self.sent)), dtype=np.int64)

    def forward(self, things: np.ndarray) -> np.ndarray:
        """The things that this rank owns; collective."""
        return (
            things
            if self.comm.size == 1
            else self._move(things[..., self.order], self.sent, self.received)
        )

    def back(self, things: np.ndarray) -> np.ndarray:
        """Answers to the things that were sent; collective."""
        if self.comm.size == 1:
            return things
        answers = self._move(things, self.received, self.sent)
        result = np.empty_like(answers)
        result[..., self.order] = answers
        return result

    def _move(self, things: np.ndarray, sent: np.ndarray, received: np.ndarray) -> np.ndarray:
        rows = np.ascontiguousarray(np.moveaxis(things, -1, 0))
        result = np.empty((int(received.sum()), *rows.shape[1:]), dtype=rows.dtype)
        width = int(np.prod(rows.shape[1:], dtype=np.int64))
        kind = {"f": "d", "i": "q"}[rows.dtype.kind]
        self.comm.Alltoallv(
            [rows, (sent * width, None), kind], [result, (received * width, None), kind]
        )
        return np.ascontiguousarray(np.moveaxis(result, 0, -1))


class Patches:
    """The systems of all vertices that this rank owns; the last axis of arrays counts pairs of a
    cell and one of its corners.

    Args:
        comm: the communicator.
        vertices: the number of the corner of each pair in the mesh.
        owners: the rank that owns it.
        facets: the numbers in the mesh of the facets of the cell that share the corner, shape (dim,
            pairs).
        schur: the lower triangle of S of each pair, whose order is dim * moments; shape (entries,
            pairs).
        moments: how many multipliers a facet has.
        fixed: whether it is given what flows through a facet, of the shape of `facets`.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        vertices: np.ndarray,
        owners: np.ndarray,
        facets: np.ndarray,
        schur: np.ndarray,
        moments: int,
        fixed: np.ndarray | None = None,
    ):
        self.comm, self.exchange, self.moments = comm, Exchange(comm, owners), moments
        fixed = np.zeros(facets.shape, dtype=bool) if fixed is None else fixed
        about = self.exchange.forward(np.vstack([vertices, facets, fixed]).astype(np.int64))
        self.schur = self.exchange.forward(schur)
        self.groups: list[tuple[slice, list[np.ndarray]]] = []
        rows = len(facets)
        self._lay_out(*numbered(about[0], about[1 : 1 + rows], about[1 + rows :] > 0))

    def _lay_out(
        self, vertex: np.ndarray, slot: np.ndarray, sizes: np.ndarray, closed: np.ndarray
    ) -> None:
        """Put systems of equal size next to one another and invert them; `positions` says where the
        multipliers of a pair are.

        The unknowns of a group of systems are laid out like a matrix whose columns are the systems.
        """
        starts, strides, blocks, end = np.zeros_like(sizes), np.zeros_like(sizes), [], 0
        for size in np.unique(sizes[sizes > 0]):
            here, width = np.flatnonzero(sizes == size), int(size) * self.moments
            starts[here], strides[here] = end + np.arange(len(here)), len(here)
            blocks.append((slice(end, end + len(here) * width), here, width))
            end += len(here) * width
        self.size, inner, count = end, slot >= 0, np.arange(self.moments)[:, None]
        place = (slot * self.moments)[:, None] + count
        # Facets of the boundary share one place after the end, whose value is always zero.
        positions = np.where(inner[:, None], starts[vertex] + place * strides[vertex], end)
        self.positions = positions.reshape(-1, len(vertex))
        local = np.where(inner[:, None], place, sizes[vertex] * self.moments).reshape(
            -1, len(vertex)
        )
        order = np.flatnonzero(sizes[vertex] > 0)
        order = order[np.argsort(starts[vertex[order]], kind="stable")]
        local, firsts = local[:, order], starts[vertex[order]]
        for block, here, width in blocks:
            chunk, inverses = 1 + NUMBERS // entries(width), []
            for start in range(0, len(here), chunk):
                stop = min(start + chunk, len(here))
                some = slice(*np.searchsorted(firsts, (block.start + start, block.start + stop)))
                system = firsts[some] - block.start - start
                matrices = self._assembled(
                    order[some], local[:, some], system, width, closed[here[start:stop]]
                )
                inverses.append(symmetric_inverses(matrices, width))
            self.groups.append((block, inverses))

    def _assembled(
        self,
        pairs: np.ndarray,
        local: np.ndarray,
        system: np.ndarray,
        width: int,
        closed: np.ndarray,
    ) -> np.ndarray:
        """The lower triangles of some systems of one size, to which pairs contribute at their
        local positions.
        """
        count = len(closed)
        row, column = np.tril_indices(len(local))
        first, second = local[row], local[column]
        high = np.maximum(first, second)
        # What belongs to the boundary goes to a last row, which is dropped.
        flat = (entries(high) + np.minimum(first, second)) * count + system
        total = np.bincount(
            flat.ravel(), self.schur[:, pairs].ravel(), minlength=count * entries(width + 1)
        )
        result = total[: count * entries(width)].reshape(-1, count)
        # The constant multiplier, first of each facet, is fixed at a scale of the matrix.
        row, column = np.tril_indices(width)
        constant = (row % self.moments == 0) & (column % self.moments == 0)
        result[constant] += closed * result[row == column].mean(axis=0)
        return result

    def multipliers(self, moments: np.ndarray) -> tuple[np.ndarray, float]:
        """The multipliers of each pair, and Σ (jump)² that remains over this rank's vertices;
        collective.

        Args:
            moments: t of each pair, shape (dim * moments, pairs).
        """
        right = self._summed(self.exchange.forward(moments))
        solution = np.zeros(self.size + 1)
        for block, inverses in self.groups:
            given = right[block].reshape(-1, sum(inverse.shape[-1] for inverse in inverses))
            solution[block] = block_products(inverses, given).ravel()
        found, image = solution[self.positions], np.empty(self.positions.shape)
        for start in range(0, found.shape[1], BLOCK):
            part = slice(start, start + BLOCK)
            image[:, part] = symmetric_products(self.schur[:, part], found[:, part])
        jumps = (right - self._summed(image))[:-1]
        return self.exchange.back(found), float(np.dot(jumps, jumps))

    def _summed(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.positions.ravel(), values.ravel(), minlength=self.size + 1)


class Multipliers:
    """The flux problems of all cells with the multipliers that make their fluxes continuous.

    Args:
        comm: the communicator.
        cells: this rank's cells.
        blocks: the same, some at a time.
        stack: their flux problems.
        fixed: whether it is given what flows through the facets opposite to the corners, shape
            (cells, corners).
    """

    def __init__(
        self,
        comm: MPI.Comm,
        cells: FluxCells,
        blocks: Sequence[CellBlock],
        stack: Stack,
        fixed: np.ndarray | None = None,
    ):
        self._blocks, self._stack, self._inverses = blocks, stack, []
        corners, size = stack.null.shape[0], stack.null.shape[2]
        row, column = np.tril_indices(size)
        schur = np.empty((stack.schur.shape[1], corners, len(cells.corners)))
        for block in blocks:
            energies = (stack.energy @ np.stack(block.gammas)).reshape(corners, size, size, -1)
            inverses = np.moveaxis(inverted(np.moveaxis(energies, 0, 2)), 2, 0)
            self._inverses.append(inverses)
            schur[:, :, block.here] = (stack.schur @ inverses[:, row, column]).transpose(1, 0, 2)
        self.patches = Patches(
            comm,
            cells.vertices.T.ravel(),
            cells.owners.T.ravel(),
            np.concatenate(
                [cells.facets.T[list(corner.facets)] for corner in cells.tensors.corners], axis=1
            ),
            schur.reshape(len(schur), -1),
            cells.tensors.moments,
            None
            if fixed is None
            else np.concatenate(
                [fixed.T[list(corner.facets)] for corner in cells.tensors.corners], axis=1
            ),
        )

    def solve(
        self, divergence: np.ndarray, force: np.ndarray, given_flow: np.ndarray | None = None
    ) -> tuple[np.ndarray, float, float]:
        """z of all cells around their corners; collective.

        Args:
            divergence: d, shape (polynomials, corners, cells).
            force: Nᵀ of what z should be near to, shape (unknowns, corners, cells).
            given_flow: the normal moments that are given, zero elsewhere, shape (moments of the
                facets of a corner, corners, cells).

        Returns:
            z, the part of this rank's vertices in the sum of squares of what is not continuous, and
            that of what flows.
        """
        stack, found = self._stack, np.empty_like(force)
        flowing = np.empty((stack.null.shape[1], *force.shape[1:]))
        for block, inverses in zip(self._blocks, self._inverses, strict=True):
            given, pull = (
                values[:, :, block.here].transpose(1, 0, 2) for values in (divergence, force)
            )
            free = contracted(inverses, pull)
            flowing[:, :, block.here] = (stack.particular @ given + stack.null @ free).transpose(
                1, 0, 2
            )
            found[:, :, block.here] = free.transpose(1, 0, 2)
        short = flowing if given_flow is None else flowing - given_flow
        multipliers, jumps = self.patches.multipliers(short.reshape(len(flowing), -1))
        multipliers = multipliers.reshape(flowing.shape)
        for block, inverses in zip(self._blocks, self._inverses, strict=True):
            pull = stack.null.transpose(0, 2, 1) @ multipliers[:, :, block.here].transpose(1, 0, 2)
            found[:, :, block.here] -= contracted(inverses, pull).transpose(1, 0, 2)
        return found, jumps, float(np.vdot(flowing, flowing))


def contracted(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Σ_j A_ij x_j for many small matrices at once, shapes (…, i, j, n) and (…, j, n).

    Example:
        >>> contracted(
        ...     np.array([[[1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0], [3.0, 2.0]]]), np.ones((2, 2))
        ... ).tolist()
        [[1.0, 3.0], [3.0, 3.0]]
    """
    result = matrices[..., 0, :] * vectors[..., None, 0, :]
    product = np.empty_like(result)
    for j in range(1, vectors.shape[-2]):
        result += np.multiply(matrices[..., j, :], vectors[..., None, j, :], out=product)
    return result


def inverted(matrices: np.ndarray) -> np.ndarray:
    """Inverses of many small positive definite matrices at once, the axes after the first two
    counting them.

    Example:
        >>> inverted(np.array([[[2.0], [1.0]], [[1.0], [1.0]]]))[..., 0].round(12).tolist()
        [[1.0, -1.0], [-1.0, 2.0]]
    """
    result = matrices.copy()
    for p in range(len(result)):
        pivot, column = 1 / result[p, p], result[:, p].copy()
        row = result[p] * pivot
        for i in range(len(result)):
            result[i] -= column[i] * row
        result[p], result[:, p] = row, -column * pivot
        result[p, p] = pivot
    return result


def entries(size: Any) -> np.ndarray:
    """How many entries the lower triangle of a matrix has, which is also where the row after
    it starts.
    """
    return size * (size + 1) // 2


def symmetric_inverses(matrices: np.ndarray, size: int) -> np.ndarray:
    """Inverses of many positive definite matrices of one size at once, the last axis counting them.

    Args:
        matrices: their lower triangles, which are overwritten.
        size: the number of their rows.

    Returns:
        The lower triangles of the inverses, or from a certain size on whole matrices, shape (size,
        size, count).

    Example:
        >>> symmetric_inverses(np.array([[2.0], [1.0], [1.0]]), 2)[:, 0].round(12).tolist()
        [1.0, -1.0, 2.0]
    """
    row, column = np.tril_indices(size)
    if size >= LARGE:
        whole = np.empty((size, size, matrices.shape[1]))
        whole[row, column] = whole[column, row] = matrices
        return np.ascontiguousarray(np.moveaxis(np.linalg.inv(np.moveaxis(whole, 2, 0)), 0, 2))
    for p in range(size):
        # The sweep of one pivot: with all of them the matrix has become minus its inverse.
        places = np.flatnonzero((row == p) | (column == p))
        pivots = matrices[places]
        inverse = 1 / pivots[p]
        scaled = pivots * inverse
        for i in range(size):
            if i != p:
                start = entries(i)
                matrices[start : start + i + 1] -= pivots[i] * scaled[: i + 1]
        scaled[p] = -inverse
        matrices[places] = scaled
    return np.negative(matrices, out=matrices)


def symmetric_products(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """A x for many symmetric matrices at once, given as `symmetric_inverses` gives them; the last
    axis counts them.

    Example:
        >>> symmetric_products(np.array([[2.0], [1.0], [3.0]]), np.array([[1.0], [2.0]]))[
        ...     :, 0
        ... ].tolist()
        [4.0, 7.0]
    """
    if matrices.ndim == 3:
        return np.matmul(np.moveaxis(matrices, 2, 0), vectors.T[:, :, None])[..., 0].T
    result = np.zeros(vectors.shape)
    for i in range(len(vectors)):
        start = entries(i)
        part = matrices[start : start + i]
        result[:i] += part * vectors[i]
        result[i] += matrices[start + i] * vectors[i]
        for k in range(i):
            result[i] += part[k] * vectors[k]
    return result


def block_products(matrices: Sequence[np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """The same for matrices in several blocks, whose vectors stand next to one another."""
    ends = np.cumsum([block.shape[-1] for block in matrices])[:-1]
    parts = zip(matrices, np.split(vectors, ends, axis=1), strict=True)
    return np.concatenate([symmetric_products(*part) for part in parts], axis=1)


def numbered(
    vertices: np.ndarray, facets: np.ndarray, fixed: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Number the facets that two cells share around each vertex, or whose flow is given.

    Returns:
        For each pair its vertex and the numbers of its facets, −1 on the boundary; for each vertex
        how many there are, and whether none of its facets is on the boundary.
    """
    found, vertex, _ = _distinct(vertices)
    count, many = len(found), int(facets.max(initial=-1)) + 1
    keys, place, copies = _distinct((vertex * many + facets).ravel())
    owner, shared = keys // max(many, 1), copies == 2
    if fixed is not None:
        shared[place[fixed.ravel()]] = True
    sizes = np.bincount(owner[shared], minlength=count)
    closed = np.bincount(owner[~shared], minlength=count) == 0
    before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    number = np.where(shared, np.cumsum(shared) - 1 - before[owner] if count else 0, -1)
    return vertex, number[place].reshape(facets.shape), sizes, closed


def _distinct(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The different keys in order, which of them each one is, and how often each occurs.

    Keys along a mesh are nearly sorted, which a stable sort makes use of and that of NumPy's
    `unique` does not.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)])
    copies = np.diff(np.append(first, len(keys)))
    place = np.empty(len(keys), dtype=np.int64)
    place[order] = np.repeat(np.arange(len(first)), copies)
    return ordered[first], place, copies
