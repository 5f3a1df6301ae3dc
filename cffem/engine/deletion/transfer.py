# SPDX-License-Identifier: MIT
"""States of a model on all ranks, brought to its copy on a group of them: the same function, on
another partition of its mesh.

The copy knows for each of its cells which one it was, and keeps the order of its vertices. A state
is taken apart into the coefficients on every reference cell and put together again in the copy. For
most elements that comes to nothing but another order of the unknowns, and other signs where edges
or faces are oriented otherwise. So it is asked once where every unknown goes; if a state without
structure arrives bit by bit the same that way, every further one is a gather and a permutation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

from cffem._compat import cell_geometry
from cffem.engine.assembly.spaces import Spaces

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh


# Bytes of all ranks' values that travel together.
AT_ONCE = 32_000_000


class Transfer:
    """Moves states from one set of spaces to their copies on some of the same ranks; all calls are
    collective over the first.

    Args:
        source: the spaces on all ranks.
        target: the same spaces on this rank's copy of the mesh, whose first rank got the cells of
            all ranks one after another.

    Attributes:
        plain: whether states are only reordered, and signs changed.
        invertible: whether that can be undone without communication, because every rank has a copy
            for itself.
    """

    def __init__(self, source: Spaces, target: Spaces):
        self.source, self.target, self.world = source, target, source.comm
        self.counts = self.world.allgather(source.owned)
        self._cells = np.asarray(target.mesh.topology.original_cell_index)
        corners = np.concatenate(
            self.world.allgather(_corners(source.mesh)[: _owned_cells(source.mesh)])
        )
        if not self._agreed(np.array_equal(corners[self._cells], _corners(target.mesh))):
            raise RuntimeError("a copy of the mesh has other cells than the mesh")
        first = sum(self.counts[: self.world.rank])
        numbers = np.arange(first, first + source.owned) + 1.0
        marks = self._by_cells(numbers)
        whole = np.abs(np.round(marks)).astype(np.int64)
        self.plain = self._agreed(
            bool(
                np.all(np.abs(marks) == whole)
                and np.all((whole >= 1) & (whole <= sum(self.counts)))
            )
        )
        self._where, self._sign = whole - 1, np.sign(marks)
        if self.plain:
            probe = np.cos(1.7 * numbers**1.5)
            self.plain = self._agreed(
                np.array_equal(self._by_order([probe])[0], self._by_cells(probe))
            )
        single = target.comm.size == 1 and np.array_equal(
            np.sort(self._where), np.arange(sum(self.counts))
        )
        self.invertible = self._agreed(bool(self.plain and single))

    def __call__(self, states: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The owned values of states in the group, one after another."""
        if not self.plain:
            yield from map(self._by_cells, states)
            return
        # A rank that waits for its turn on a busy processor delays every call, so many states
        # travel in one.
        many = max(1, AT_ONCE // (8 * sum(self.counts)))
        waiting = iter(states)
        while chunk := list(itertools.islice(waiting, many)):
            yield from self._by_order(chunk)

    def back(self, states: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """The owned values on all ranks of states that every rank has in its copy; only where
        that is `invertible`.
        """
        first = sum(self.counts[: self.world.rank])
        positions = np.empty(len(self._where), dtype=np.int64)
        positions[self._where] = np.arange(len(self._where))
        mine = positions[first : first + self.source.owned]
        sign = self._sign[mine]
        for state in states:
            yield state[mine] * sign

    def from_one(self, owner: int, state: np.ndarray | None) -> np.ndarray:
        """The owned values on all ranks of a state that one rank has in its copy; only where that
        is `invertible`.
        """
        mine = np.empty(self.source.owned)
        whole = None
        if self.world.rank == owner:
            assert state is not None
            whole = np.empty(sum(self.counts))
            whole[self._where] = state[: len(self._where)] * self._sign
        self.world.Scatterv([whole, self.counts] if whole is not None else None, mine, root=owner)
        return mine

    def _agreed(self, here: bool) -> bool:
        """Whether something holds on all ranks."""
        return bool(self.world.allreduce(here, MPI.LAND))

    def _by_order(self, states: Sequence[np.ndarray]) -> list[np.ndarray]:
        mine = np.stack([state[: self.source.owned] for state in states], axis=1)
        everything = np.empty((sum(self.counts), len(states)))
        self.world.Allgatherv(mine, [everything, [count * len(states) for count in self.counts]])
        return list(np.ascontiguousarray((everything[self._where] * self._sign[:, None]).T))

    def _by_cells(self, state: np.ndarray) -> np.ndarray:
        whole, result = (
            self.source.with_ghosts(state),
            self.target.with_ghosts(np.zeros(self.target.owned)),
        )
        for there, here in zip(self.source.fields, self.target.fields, strict=True):
            space, copy = self.source.own(there)[0], self.target.own(here)[0]
            block = space.dofmap.index_map_bs
            mine = whole[self.source.dofs(there)].reshape(-1, block)[
                np.asarray(space.dofmap.list)[: _owned_cells(space.mesh)]
            ]
            blocks = np.concatenate(self.world.allgather(_oriented(space, mine, "Tt_apply")))[
                self._cells
            ]
            values = np.zeros((len(self.target.dofs(here)) // block, block))
            values[np.asarray(copy.dofmap.list)] = _oriented(copy, blocks, "Tt_inv_apply")
            result[self.target.dofs(here)] = values.ravel()
        return result[: self.target.owned].copy()


def _owned_cells(mesh: Mesh) -> int:
    return mesh.topology.index_map(mesh.topology.dim).size_local


def _corners(mesh: Mesh) -> np.ndarray:
    """The coordinates of the vertices of all cells of this rank."""
    return mesh.geometry.x[np.asarray(cell_geometry(mesh)[0])]


def _oriented(space: fem.FunctionSpace, blocks: np.ndarray, way: str) -> np.ndarray:
    """Coefficients on cells turned to, or from, the orientation of the reference cell."""
    if not space.element.needs_dof_transformations:
        return blocks
    space.mesh.topology.create_entity_permutations()
    information = np.asarray(space.mesh.topology.get_cell_permutation_info())[: len(blocks)]
    flat = np.ascontiguousarray(blocks).ravel()
    getattr(space.element, way)(flat, information, blocks.shape[2])
    return flat.reshape(blocks.shape)
