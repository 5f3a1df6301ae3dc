"""Flux problems around the vertices of a mesh, all solved at once: small dense systems that are inverted once for a mesh.

Around each vertex a the fluxes of the cells that share it are made continuous by multipliers on the facets that share it. A cell
contributes S λ to the jumps of its fluxes, where S depends on the cell alone, so the multipliers of a vertex solve

    Σ_K S_K λ = Σ_K t_K,    t_K the normal moments that cell K would have without multipliers.

Facets of the boundary carry no multiplier: what flows through them is free where a state is held. Around an inner vertex the
constant multiplier moves nothing, and the data are such that nothing needs it to. Cells belong to ranks and so do vertices;
what a cell has to say to the vertex of another rank is sent there, and the multipliers are sent back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Pairs and systems are treated so many at a time, so that their arrays stay in the cache.
BLOCK, SYSTEMS = 2048, 256


class Exchange:
    """Things sent to the ranks that own them, and answers sent back in the same order; the last axis counts the things.

    Args:
        comm: the communicator.
        owners: the rank each goes to.
    """

    def __init__(self, comm: Any, owners: np.ndarray):
        self.comm = comm
        self.order = np.argsort(owners, kind="stable")
        self.sent = np.bincount(owners, minlength=comm.size)
        self.received = np.array(comm.alltoall(list(self.sent)), dtype=np.int64)

    def forward(self, things: np.ndarray) -> np.ndarray:
        """The things that this rank owns; collective."""
        return things if self.comm.size == 1 else self._move(things[..., self.order], self.sent, self.received)

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
        self.comm.Alltoallv([rows, (sent * width, None), kind], [result, (received * width, None), kind])
        return np.ascontiguousarray(np.moveaxis(result, 0, -1))


class Patches:
    """The systems of all vertices that this rank owns; the last axis of arrays counts pairs of a cell and one of its corners.

    Args:
        comm: the communicator.
        vertices: the number of the corner of each pair in the mesh.
        owners: the rank that owns it.
        facets: the numbers in the mesh of the facets of the cell that share the corner, shape (dim, pairs).
        schur: S of each pair, shape (dim * moments, dim * moments, pairs).
        moments: how many multipliers a facet has.
    """

    def __init__(self, comm: Any, vertices: np.ndarray, owners: np.ndarray, facets: np.ndarray, schur: np.ndarray, moments: int):
        self.comm, self.exchange, self.moments = comm, Exchange(comm, owners), moments
        about = self.exchange.forward(np.vstack([vertices, facets]).astype(np.int64))
        self.schur = self.exchange.forward(schur)
        self.groups: list[tuple[slice, np.ndarray]] = []
        self._lay_out(*_numbered(about[0], about[1:]))

    def _lay_out(self, vertex: np.ndarray, slot: np.ndarray, sizes: np.ndarray, closed: np.ndarray) -> None:
        """Put systems of equal size next to one another and invert them; `positions` says where the multipliers of a pair are."""
        found, members = np.unique(sizes[sizes > 0]), np.zeros(len(sizes), dtype=np.int64)
        starts, blocks, end = np.zeros(len(sizes), dtype=np.int64), [], 0
        for size in found:
            here, width = np.flatnonzero(sizes == size), int(size) * self.moments
            members[here] = np.arange(len(here))
            starts[here] = end + np.arange(len(here)) * width
            blocks.append((slice(end, end + len(here) * width), here, width))
            end += len(here) * width
        self.size, inner, count = end, slot >= 0, np.arange(self.moments)[:, None]
        # Facets of the boundary share one place after the end, whose value is always zero.
        first = np.where(inner, starts[vertex] + slot * self.moments, end)
        self.positions = (first[:, None] + inner[:, None] * count).reshape(-1, len(vertex))
        local = np.where(inner, slot * self.moments, sizes[vertex] * self.moments)
        local = (local[:, None] + inner[:, None] * count).reshape(-1, len(vertex))
        order = np.flatnonzero(sizes[vertex] > 0)
        order = order[np.argsort(starts[vertex[order]], kind="stable")]
        local, systems, firsts = local[:, order], members[vertex[order]], starts[vertex[order]]
        for block, here, width in blocks:
            mine = slice(*np.searchsorted(firsts, (block.start, block.stop)))
            pairs, inverse = order[mine], np.empty((len(here), width, width))
            ends = np.searchsorted(systems[mine], np.arange(0, len(here) + SYSTEMS, SYSTEMS))
            for first, last, start in zip(ends[:-1], ends[1:], range(0, len(here), SYSTEMS), strict=True):
                some, part = slice(mine.start + first, mine.start + last), slice(start, start + SYSTEMS)
                rows = self.schur[:, :, pairs[first:last]]
                inverse[part] = self._inverted(rows, local[:, some], systems[some] - start, width, closed[here[part]])
            self.groups.append((block, inverse))

    def _inverted(self, rows: np.ndarray, local: np.ndarray, system: np.ndarray, width: int, closed: np.ndarray) -> np.ndarray:
        """The inverses of some systems of one size, to which pairs contribute `rows` at their local positions."""
        wide = width + 1
        # What belongs to the boundary goes to a last row and column, which are dropped.
        flat = (system * wide**2 + local * wide)[:, None] + local
        total = np.bincount(flat.ravel(), np.ascontiguousarray(rows).ravel(), minlength=len(closed) * wide**2)
        matrix = total.reshape(-1, wide, wide)[:, :width, :width]
        # The constant multiplier, first of each facet, is fixed at a scale of the matrix.
        scale = closed * np.einsum("pii->p", matrix) / width
        matrix[:, :: self.moments, :: self.moments] += scale[:, None, None]
        return np.linalg.inv(matrix)

    def multipliers(self, moments: np.ndarray) -> tuple[np.ndarray, float]:
        """The multipliers of each pair, and Σ (jump)² that remains over this rank's vertices; collective.

        Args:
            moments: t of each pair, shape (dim * moments, pairs).
        """
        right = self._summed(self.exchange.forward(moments))
        solution = np.zeros(self.size + 1)
        for block, inverse in self.groups:
            solution[block] = np.matmul(inverse, right[block].reshape(len(inverse), -1, 1)).ravel()
        found, image = solution[self.positions], np.empty(self.positions.shape)
        for start in range(0, found.shape[1], BLOCK):
            part = slice(start, start + BLOCK)
            image[:, part] = contracted(self.schur[:, :, part], found[:, part])
        jumps = (right - self._summed(image))[:-1]
        return self.exchange.back(found), float(np.dot(jumps, jumps))

    def _summed(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.positions.ravel(), values.ravel(), minlength=self.size + 1)


def contracted(matrices: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Σ_j A_ij x_j for many small matrices at once, shapes (…, i, j, n) and (…, j, n).

    Example:
        >>> contracted(np.array([[[1.0, 2.0], [0.0, 1.0]], [[0.0, 1.0], [3.0, 2.0]]]), np.ones((2, 2))).tolist()
        [[1.0, 3.0], [3.0, 3.0]]
    """
    result = matrices[..., 0, :] * vectors[..., None, 0, :]
    for j in range(1, vectors.shape[-2]):
        result += matrices[..., j, :] * vectors[..., None, j, :]
    return result


def inverted(matrices: np.ndarray) -> np.ndarray:
    """Inverses of many small positive definite matrices at once, the last axis counting them.

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


def _numbered(vertices: np.ndarray, facets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Number the facets that two cells share around each vertex.

    Returns:
        For each pair its vertex and the numbers of its facets, −1 on the boundary; for each vertex how many there are, and
        whether none of its facets is on the boundary.
    """
    _, vertex = np.unique(vertices, return_inverse=True)
    count, many = int(vertex.max(initial=-1)) + 1, int(facets.max(initial=-1)) + 1
    keys, place, copies = np.unique(vertex * many + facets, return_inverse=True, return_counts=True)
    owner, shared = keys // max(many, 1), copies == 2
    sizes = np.bincount(owner[shared], minlength=count)
    closed = np.bincount(owner[~shared], minlength=count) == 0
    before = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    number = np.where(shared, np.cumsum(shared) - 1 - before[owner] if count else 0, -1)
    return vertex, number[place].reshape(facets.shape), sizes, closed
