# SPDX-License-Identifier: MIT
"""A numbering of a space's unknowns that depends on the geometry alone, not on how the mesh is
spread over ranks.

A cell is known by the coordinates of its vertices. Cells are sorted by a hash of them, the vertices
of each cell by their coordinates, and unknowns are numbered in the order in which they first occur
in this traversal. Values are those of the reference cell with its vertices in that order: the
orientation that DOLFINx gives to edges and faces from its vertex numbers, which change with the
partition, is undone cell by cell.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
from dolfinx import la
from mpi4py import MPI
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from cffem._compat import cell_geometry, cell_name
from cffem.engine.store.exchange import RowExchange, before, by_hash, by_number
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh


class Numbering:
    """Moves values between a function's local array and an array in the geometric numbering, of
    which every rank has a part, those of rank 0 first; all calls are collective.

    A cell belongs to the rank that the range of its hash says, and an unknown to the first of its
    cells. So the parts are about equal, and no rank has more.

    Args:
        space: a DOLFINx function space that is not mixed.

    Attributes:
        count: the number of blocks of unknowns in all.
        start: the number of the first one of this rank's part.
        size: how many are in it.
        cells: the hashes of the cells of this rank's part, in order.
    """

    def __init__(self, space: fem.FunctionSpace):
        self.space, self.comm = space, space.mesh.comm
        mesh, imap = space.mesh, space.dofmap.index_map
        owned = mesh.topology.index_map(mesh.topology.dim).size_local
        self.dofs = np.asarray(space.dofmap.list)[:owned]
        self.block = space.dofmap.index_map_bs
        keys, symmetry = cell_keys(mesh, owned)
        self._group, self._to, self._from = transformations(space, symmetry, owned)
        numbers = imap.local_to_global(self.dofs.ravel().astype(np.int32)).reshape(self.dofs.shape)
        # Coefficient i of the sorted cell belongs to the same vertex, edge, … as the local one at
        # place [i].
        matched = [linear_sum_assignment(-np.abs(matrix))[1] for matrix in self._to]
        places = np.array(matched, dtype=np.int64).reshape(-1, self.dofs.shape[1])
        places = places[self._group]
        homes = by_hash(keys, self.comm.size)
        cells_sent = RowExchange(self.comm, homes)
        hashes = cells_sent.send(keys)
        self._order = np.argsort(hashes)
        self.cells = hashes[self._order]
        double = bool(np.any(self.cells[1:] == self.cells[:-1]))
        if self.comm.allreduce(double, op=MPI.LOR):
            raise InputError(
                "two cells of the mesh have the same vertices, so fields on it cannot be stored"
            )
        sorted_numbers = np.take_along_axis(numbers, places, axis=1).astype(np.int64)
        dofs = cells_sent.send(sorted_numbers)[self._order]
        self._where = self._first_places(dofs.ravel(), imap.size_global)
        self.size, self.start = len(self._where), before(self.comm, len(self._where))
        self.count = self.comm.allreduce(self.size)
        marks = np.zeros(dofs.size, dtype=bool)
        marks[self._where] = True
        came = self._unsorted(marks.reshape(dofs.shape))
        mine = cells_sent.back(came)
        self._first = np.zeros(self.dofs.shape, dtype=bool)
        np.put_along_axis(self._first, places, mine, axis=1)
        # Only unknowns travel that first occur in a cell, in the order of the cells that were sent.
        self._places = np.flatnonzero(mine)
        self._taken = self._rows(self._places)
        self._exchange = RowExchange(self.comm, homes[self._places // self.dofs.shape[1]])
        cells, inside = np.divmod(np.flatnonzero(came), dofs.shape[1])
        sorted_place = np.empty(len(self._order), dtype=np.int64)
        sorted_place[self._order] = np.arange(len(self._order))
        arrived = sorted_place[cells] * dofs.shape[1] + inside
        self._arrival = np.searchsorted(self._where, arrived)

    def _first_places(self, dofs: np.ndarray, count: int) -> np.ndarray:
        """Places of this rank's cells in order where an unknown occurs for the first time on all
        ranks.
        """
        unknowns, places = np.unique(dofs, return_index=True)
        asked = RowExchange(self.comm, by_number(unknowns, count, self.comm.size))
        # Parts of lower ranks come first, so the lowest rank that has an unknown has it first.
        numbers = asked.send(unknowns)
        ranks = asked.send(np.full(len(unknowns), self.comm.rank))
        low = int(numbers.min(initial=count))
        least = np.full(int(numbers.max(initial=low - 1)) - low + 1, self.comm.size)
        np.minimum.at(least, numbers - low, ranks)
        mine = asked.back(least[numbers - low]) == self.comm.rank
        return np.sort(places[mine])

    def _rows(self, places: np.ndarray) -> sparse.csr_matrix:
        """The matrix from a local array with ghosts to the coefficients of the sorted cells at some
        places, which are numbered cell by cell.
        """
        cells, rows = np.divmod(places, self.dofs.shape[1])
        pointers, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        entries = [np.zeros(0)]
        groups = self._group[cells]
        for number, matrix in enumerate(self._to):
            chosen = np.flatnonzero(groups == number)
            numbers, inside = np.nonzero(matrix[rows[chosen]])
            pointers.append(chosen[numbers])
            columns.append(self.dofs[cells[chosen[numbers]], inside])
            entries.append(matrix[rows[chosen[numbers]], inside])
        imap = self.space.dofmap.index_map
        shape = (len(places), imap.size_local + imap.num_ghosts)
        where = (np.concatenate(pointers), np.concatenate(columns))
        return sparse.csr_matrix((np.concatenate(entries), where), shape=shape)

    def gather(self, values: np.ndarray) -> np.ndarray:
        """This rank's part of the values of all unknowns, (size, block); `values` is a local array
        with ghosts.
        """
        result = np.empty((self.size, self.block))
        own = np.ascontiguousarray(self._taken @ values.reshape(-1, self.block))
        result[self._arrival] = self._exchange.send(own)
        return result

    def scatter(self, stored: np.ndarray) -> np.ndarray:
        """The local array with ghosts of values of which every rank has its part."""
        cells = np.zeros((*self.dofs.shape, self.block))
        cells.reshape(-1, self.block)[self._places] = self._exchange.back(stored[self._arrival])
        # Transformations mix the unknowns of one edge, face or interior only, and these first occur
        # in one cell together.
        blocks = self._transformed(cells, self._from)
        imap = self.space.dofmap.index_map
        result = la.vector(imap, self.block)
        result.array[:] = 0.0
        result.array.reshape(-1, self.block)[self.dofs[self._first]] = blocks[self._first]
        result.scatter_reverse(la.InsertMode.add)
        result.scatter_forward()
        return result.array.copy()

    def _unsorted(self, everything: np.ndarray) -> np.ndarray:
        """Cells in geometric order back into the order in which they came."""
        result = np.empty_like(everything)
        result[self._order] = everything
        return result

    def _transformed(self, blocks: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
        result = blocks.copy()
        for number, matrix in enumerate(matrices):
            if not np.array_equal(matrix, np.eye(len(matrix))):
                chosen = self._group == number
                result[chosen] = np.einsum("ij,cjb->cib", matrix, blocks[chosen])
        return result


def cell_keys(mesh: Mesh, owned: int) -> tuple[np.ndarray, np.ndarray]:
    """A hash of the vertex coordinates of each cell, and which symmetry of the reference cell
    sorts them.
    """
    vertices = len(basix.topology(cell_type(mesh))[0])
    points = (
        mesh.geometry.x[np.asarray(cell_geometry(mesh)[0])[:owned, :vertices]] + 0.0
    )  # −0.0 becomes 0.0
    rank = vertex_ranks(points)
    options = np.array(symmetries(cell_type(mesh)))
    powers = vertices ** np.arange(vertices)[::-1]
    symmetry = (
        np.argmin([rank[:, option] @ powers for option in options], axis=0)
        if owned
        else np.empty(0, dtype=int)
    )
    ordered = points[np.arange(owned)[:, None], np.argsort(rank, axis=1)]
    return hashed(ordered.reshape(owned, 3 * vertices)), symmetry


def vertex_ranks(points: np.ndarray) -> np.ndarray:
    """For each cell the place of each vertex in the order of coordinates."""
    cells, vertices = points.shape[:2]
    flat = points.reshape(-1, 3)
    order = np.lexsort((flat[:, 2], flat[:, 1], flat[:, 0], np.repeat(np.arange(cells), vertices)))
    ranks = np.empty(cells * vertices, dtype=np.int64)
    ranks[order] = np.tile(np.arange(vertices), cells)
    return ranks.reshape(cells, vertices)


def hashed(rows: np.ndarray) -> np.ndarray:
    """A 64-bit hash of each row of numbers, by their bits."""
    bits = np.ascontiguousarray(rows).view(np.uint64)
    result = np.full(len(rows), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in bits.T:
            result = (result ^ column) * np.uint64(0xBF58476D1CE4E5B9)
            result ^= result >> np.uint64(29)
            result = result * np.uint64(0x94D049BB133111EB) + np.uint64(1)
            result ^= result >> np.uint64(32)
    return result


def cell_type(mesh: Mesh) -> basix.CellType:
    """Basix's name of the mesh's cells."""
    return basix.CellType[cell_name(mesh.ufl_domain())]


def symmetries(cell: basix.CellType) -> list[tuple[int, ...]]:
    """Permutations of the vertices that an affine map of the reference cell onto itself makes; the
    identity first.

    Example:
        >>> [
        ...     len(symmetries(basix.CellType[name]))
        ...     for name in ("interval", "triangle", "quadrilateral", "hexahedron")
        ... ]
        [2, 6, 8, 48]
    """
    geometry = basix.geometry(cell)
    dimension, vertices = geometry.shape[1], len(geometry)
    if vertices == dimension + 1:
        return list(itertools.permutations(range(vertices)))
    found = []
    for axes in itertools.permutations(range(dimension)):
        for flips in itertools.product((0.0, 1.0), repeat=dimension):
            image = np.abs(geometry[:, axes] - np.array(flips))
            found.append(
                tuple(int(np.argmin(np.abs(geometry - point).sum(axis=1))) for point in image)
            )
    return sorted(found)


def transformations(
    space: fem.FunctionSpace, symmetry: np.ndarray, owned: int
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """For each cell a group, and for each group the matrices to and from the reference cell
    with sorted vertices.
    """
    topology, element = space.mesh.topology, space.element
    size = space.dofmap.list.shape[1]
    information = np.zeros(owned, dtype=np.uint32)
    if element.needs_dof_transformations:
        topology.create_entity_permutations()
        information = np.asarray(topology.get_cell_permutation_info())[:owned]
    pairs, group = np.unique(
        np.column_stack([information.astype(np.int64), symmetry]), axis=0, return_inverse=True
    )
    options = symmetries(cell_type(space.mesh))
    reference = space.ufl_element()
    reference = (reference.sub_elements[0] if reference.block_size > 1 else reference).basix_element
    permuted: dict[int, np.ndarray] = {}
    forward, backward = [], []
    for bits, number in pairs:
        if number not in permuted:
            permuted[number] = permutation_matrix(reference, options[number])
        oriented, back = np.eye(size).ravel(), np.eye(size).ravel()
        if element.needs_dof_transformations:
            element.Tt_apply(oriented, np.array([bits], dtype=np.uint32), size)
            element.Tt_inv_apply(back, np.array([bits], dtype=np.uint32), size)
        forward.append(permuted[number] @ oriented.reshape(size, size))
        backward.append(back.reshape(size, size) @ cleaned(np.linalg.inv(permuted[number])))
    return group.ravel(), forward, backward


def permutation_matrix(reference: Any, permutation: tuple[int, ...]) -> np.ndarray:
    """How coefficients change when the vertices of the reference cell are permuted.

    With the affine map A that takes vertex k to vertex permutation[k], the function û becomes its
    pull-back under A.
    """
    geometry = basix.geometry(reference.cell_type)
    dimension = geometry.shape[1]
    homogeneous = np.column_stack([geometry, np.ones(len(geometry))])
    affine = np.linalg.lstsq(homogeneous, geometry[list(permutation)], rcond=None)[0].T
    jacobian, shift = np.round(affine[:, :dimension]), np.round(affine[:, dimension])
    points = reference.points
    values = reference.tabulate(0, points @ jacobian.T + shift)[
        0
    ]  # points × functions × components
    if reference.map_type == basix.MapType.covariantPiola:
        values = values @ jacobian
    elif reference.map_type == basix.MapType.contravariantPiola:
        values = np.linalg.det(jacobian) * values @ np.linalg.inv(jacobian).T
    elif reference.map_type not in (basix.MapType.identity, basix.MapType.L2Piola):
        raise InputError(
            f"fields on elements with the map {reference.map_type.name} cannot be stored"
        )
    stacked = values.transpose(2, 0, 1).reshape(-1, values.shape[1])
    return cleaned(reference.interpolation_matrix @ stacked)


def cleaned(matrix: np.ndarray) -> np.ndarray:
    """Entries that are whole numbers up to rounding made exact, so that permutations move
    values bit by bit.
    """
    whole = np.round(matrix)
    return np.where(np.abs(matrix - whole) < 1e-12, whole, matrix)
