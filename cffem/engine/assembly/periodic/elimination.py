# SPDX-License-Identifier: MIT
"""Periodic conditions as an elimination u = Z û: unknowns on one part of the boundary take the
values of those on the other.

Z has the size of the state: the row of an identified unknown has a one in the column of its
representative, every other row is that of the identity. The system Zᵀ A Z û = Zᵀ r with a unit
diagonal for identified unknowns then has the layout of the state, so that essential conditions,
factorisations and adjoints need not know about it. Corners, where several directions meet, are
classes of more than two unknowns with one representative. Elements without nodal values are
identified through their traces (`periodic_traces`), with signs or small matrices in Z; unknowns
inside cells, as all of a discontinuous element, are not identified.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import fem
from petsc4py import PETSc
from scipy.sparse import coo_array, lil_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from cffem.engine.assembly.periodic.periodic_traces import PeriodicRelation, identified_traces
from cffem.engine.assembly.spaces import Spaces
from cffem.engine.solve.scope import Scope
from cffem.forms.elements import H1, L2, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.problem.conditions import Periodic

if TYPE_CHECKING:
    from cffem.engine.mesh.boundary_parts import Boundary


class Periodicity(Scope):
    """The identification of unknowns by the periodic conditions of an experiment.

    Args:
        spaces: the spaces of the state.
        boundary: the parts of the boundary with the periodic conditions.

    Attributes:
        slaves: local positions of the identified unknowns that this rank owns.
        matrix: Z.

    Raises:
        InputError: the nodes or facets of the two parts do not match.
    """

    def __init__(self, spaces: Spaces, boundary: Boundary):
        self.spaces = spaces
        self.comm = spaces.comm
        rows = [self._nodal(boundary), *self._by_traces(boundary)]
        slaves = np.concatenate([r.slaves for r in rows])
        order = np.argsort(slaves, kind="stable")
        self._first = (
            spaces.space.dofmap.index_map.local_range[0] * spaces.space.dofmap.index_map_bs
        )
        mine = (slaves[order] >= self._first) & (slaves[order] < self._first + spaces.owned)
        self._rows = slaves[order][mine] - self._first
        self._masters = np.concatenate([r.masters for r in rows])[order][mine]
        self._weights = np.concatenate([r.weights for r in rows])[order][mine]
        self.slaves = np.unique(self._rows)
        self.matrix = self.own(self._elimination(self._weights))
        self._full = self.own(self.matrix.createVecRight())
        self._reduced = self.own(self.matrix.createVecLeft())

    def _nodal(self, boundary: Boundary) -> PeriodicRelation:
        """Identified unknowns of Lagrange elements."""
        pairs = [
            self._pairs(boundary, p, unknown)
            for p in boundary.periodic
            for unknown in self.spaces.fields
            if self._is_nodal(unknown)
        ]
        if not pairs:
            return PeriodicRelation(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        members, representatives = classes(np.concatenate(pairs))
        return PeriodicRelation(members, representatives, np.ones(len(members)))

    def _by_traces(self, boundary: Boundary) -> list[PeriodicRelation]:
        """Identified unknowns of elements whose traces must be compared."""
        found = []
        for unknown in self.spaces.fields:
            element = self.spaces.elements[unknown]
            kind = carrier(element)
            if self._is_nodal(unknown) or kind.space == L2:
                continue
            if kind.space == H1 and unknown.shape:
                raise InputError(
                    f"periodic conditions need Lagrange, Nédélec, RT or BDM elements, but "
                    f"{unknown} has a {kind.description}; use another element or another condition"
                )
            found.append(
                composed(
                    [
                        identified_traces(self.spaces, boundary, p, unknown)
                        for p in boundary.periodic
                    ]
                )
            )
        return found

    def _is_nodal(self, unknown: Field) -> bool:
        """Whether the unknowns of a field are its values at nodes."""
        kind = carrier(self.spaces.elements[unknown]).space
        return kind == H1 and self.spaces.own(unknown)[0].element.interpolation_ident

    def _pairs(self, boundary: Boundary, condition: Periodic, unknown: Field) -> np.ndarray:
        """Global numbers (unknown on one part, unknown on the other) for one field, the same
        on all ranks.
        """
        points, numbers = self._nodes(boundary, condition.on, unknown)
        others, targets = self._nodes(boundary, condition.to, unknown)
        if len(points) != len(others):
            raise InputError(
                f"{condition}: the parts have {len(points)} and {len(others)} nodes of {unknown}, "
                "so they do not match; "
                "use a mesh with equal nodes on both parts"
            )
        shift = others.mean(axis=0) - points.mean(axis=0)
        distance, index = cKDTree(others).query(points + shift)
        size = np.ptp(np.concatenate([points, others]), axis=0).max()
        if distance.max() > 1e-8 * size or len(np.unique(index)) != len(index):
            worst = points[np.argmax(distance)]
            raise InputError(
                f"{condition}: the node at {tuple(float(c) for c in worst.round(6))} has no "
                "partner; use a mesh with equal nodes "
                "on both parts"
            )
        return np.column_stack([numbers.ravel(), targets[index].ravel()])

    def _nodes(
        self, boundary: Boundary, part: str, unknown: Field
    ) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of a field's nodes on a part and the global numbers of the unknowns
        there, gathered on every rank.
        """
        own, _ = self.spaces.own(unknown)
        facets = boundary.facets[part].astype(np.int32)
        blocks = fem.locate_dofs_topological(own, boundary.facet_dimension, facets)
        size = own.dofmap.index_map_bs
        where = (
            self.spaces.dofs(unknown)[blocks[:, None] * size + np.arange(size)]
            .astype(np.int64)
            .reshape(-1, size)
        )
        mine = where[:, 0] < self.spaces.owned
        first = (
            self.spaces.space.dofmap.index_map.local_range[0]
            * self.spaces.space.dofmap.index_map_bs
        )
        points = self.comm.allgather(own.tabulate_dof_coordinates()[blocks[mine]])
        numbers = self.comm.allgather(where[mine] + first)
        return np.concatenate(points), np.concatenate(numbers)

    def _elimination(self, weights: np.ndarray) -> PETSc.Mat:
        owned, first = self.spaces.owned, self._first
        count = np.bincount(self._rows, minlength=owned)
        starts = np.concatenate([[0], np.cumsum(1 + count)]).astype(PETSc.IntType)
        columns = np.empty(starts[-1], dtype=PETSc.IntType)
        values = np.ones(starts[-1])
        columns[starts[:-1]] = np.arange(first, first + owned)
        # The explicit zero keeps a place for the unit diagonal in the product Zᵀ A Z.
        values[starts[self.slaves]] = 0.0
        before = np.arange(len(self._rows)) - np.concatenate([[0], np.cumsum(count)])[self._rows]
        columns[starts[self._rows] + 1 + before] = self._masters
        values[starts[self._rows] + 1 + before] = weights
        layout = ((owned, self.spaces.size), (owned, self.spaces.size))
        return PETSc.Mat().createAIJ(layout, csr=(starts, columns, values), comm=self.comm)

    def check(self, held: np.ndarray) -> None:
        """Refuse essential conditions that hold some unknowns of a class and leave others free.

        Args:
            held: local positions of held unknowns.
        """
        mark = np.zeros(self.spaces.owned)
        mark[held] = 1.0
        sums = np.bincount(self._rows, np.abs(self._weights), self.spaces.owned)
        shares = np.abs(self._weights) / np.maximum(sums[self._rows], 1e-300)
        means = self._elimination(shares)
        self._full.array[:] = mark
        means.mult(self._full, self._reduced)
        spread = self._reduced.array_r.copy()
        means.destroy()
        if self.comm.allreduce(int(np.any(np.abs(spread - mark) > 1e-9))):
            raise InputError(
                "a boundary value is given at a point of a periodic part but not at its partner; "
                "give both or neither"
            )

    def spread(self, state: np.ndarray) -> None:
        """Apply Z to a state (owned values), in place."""
        self._full.array[:] = state
        self.matrix.mult(self._full, self._reduced)
        state[:] = self._reduced.array_r

    def gather(self, vector: PETSc.Vec) -> None:
        """Apply Zᵀ to a PETSc vector, in place."""
        self.matrix.multTranspose(vector, self._reduced)
        self._reduced.copy(vector)

    def gathered(self, values: np.ndarray) -> np.ndarray:
        """Zᵀ applied to owned values."""
        self._full.array[:] = values
        self.gather(self._full)
        return self._full.array_r.copy()

    def reduced(self, matrix: PETSc.Mat, into: PETSc.Mat = None) -> PETSc.Mat:
        """Zᵀ A Z, in a new matrix or in one of an earlier call with the same pattern; the
        unit diagonal is the caller's.
        """
        product = matrix.PtAP(self.matrix)
        if into is None:
            product.setOption(PETSc.Mat.Option.KEEP_NONZERO_PATTERN, True)
            return product
        product.copy(into, structure=PETSc.Mat.Structure.SAME_NONZERO_PATTERN)
        product.destroy()
        return into


def classes(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Members of identification classes other than their representative, and the representative of
    each.

    The representative is the unknown that is identified with no other one, so that values which do
    not match come from the part `to` of a condition on every mesh and on any number of ranks.

    Args:
        pairs: rows of two global numbers, of which the first is identified with the second.

    Example:
        >>> classes(np.array([[2, 4], [7, 2], [5, 4]]))
        (array([2, 5, 7]), array([4, 4, 4]))
    """
    numbers, index = np.unique(pairs, return_inverse=True)
    index = index.reshape(pairs.shape)
    graph = coo_array((np.ones(len(pairs)), (index[:, 0], index[:, 1])), shape=(len(numbers),) * 2)
    count, labels = connected_components(graph, directed=False)
    # Where all of a class are identified with others, as by conditions in a circle, the first of
    # them stands for it.
    order = np.lexsort((numbers, np.isin(numbers, pairs[:, 0])))[::-1]
    first = np.empty(count, dtype=numbers.dtype)
    first[labels[order]] = numbers[order]
    representative = first[labels]
    others = representative != numbers
    return numbers[others], representative[others]


def composed(found: Sequence[PeriodicRelation]) -> PeriodicRelation:
    """Identifications in several directions as one whose masters are free.

    An unknown that several of them identify follows the first; its master may follow another one.

    Raises:
        InputError: they identify in a circle.
    """
    numbers = np.unique(np.concatenate([part for f in found for part in (f.slaves, f.masters)]))
    size = len(numbers)
    step, seen = lil_array((size, size)), np.zeros(size, dtype=bool)
    for one in found:
        rows, columns = np.searchsorted(numbers, one.slaves), np.searchsorted(numbers, one.masters)
        for row, column, weight in zip(rows, columns, one.weights, strict=True):
            if not seen[row]:
                step[row, column] = weight
        seen[rows] = True
    step.setdiag(np.where(seen, step.diagonal(), 1.0))
    whole = step = step.tocsr()
    for _ in found:
        whole = whole @ step
    chosen = whole[seen].tocoo()
    if np.any(seen[chosen.col] & (np.abs(chosen.data) > 1e-9)):
        raise InputError("the periodic conditions identify boundary parts in a circle")
    kept = np.abs(chosen.data) > 1e-9
    slaves = numbers[seen]
    return PeriodicRelation(slaves[chosen.row[kept]], numbers[chosen.col[kept]], chosen.data[kept])
