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
from scipy import sparse
from scipy.optimize import linear_sum_assignment

from cffem._compat import cell_geometry, cell_name
from cffem.engine.collective import collectively
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx import fem
    from dolfinx.mesh import Mesh


class Numbering:
    """Moves values between a function's local array and one array on rank 0 in the geometric
    numbering; all calls are collective.

    Args:
        space: a DOLFINx function space that is not mixed.

    Attributes:
        count: the number of blocks of unknowns in all.
        cells: the hash of every cell in order, on rank 0.
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
        parts = self.comm.gather((keys, np.take_along_axis(numbers, places, axis=1)))
        self.cells: np.ndarray | None = None
        first = collectively(self.comm, lambda: self._number(*zip(*parts, strict=True)))
        self.count = self.comm.bcast(None if first is None else len(self._where))
        mine = self.comm.scatter(first)
        self._first = np.zeros(self.dofs.shape, dtype=bool)
        np.put_along_axis(self._first, places, mine, axis=1)
        self._taken = self._rows(np.flatnonzero(mine))

    def _number(
        self, keys: tuple[np.ndarray, ...], numbers: tuple[np.ndarray, ...]
    ) -> list[np.ndarray]:
        """Sort all cells, and mark for each rank the places where an unknown occurs first; on
        rank 0.
        """
        self._sizes = [len(part) for part in keys]
        everything = np.concatenate(keys)
        self._order = np.argsort(everything)
        self.cells = everything[self._order]
        if np.any(self.cells[1:] == self.cells[:-1]):
            raise InputError(
                "two cells of the mesh have the same vertices, so fields on it cannot be stored"
            )
        dofs = np.concatenate(numbers)[self._order]
        self._where = np.sort(np.unique(dofs.ravel(), return_index=True)[1])
        # Ranks send what first occurs in their cells, in the order of these.
        cells, places = np.divmod(self._where, dofs.shape[1])
        self._arrival = np.argsort(self._order[cells] * dofs.shape[1] + places)
        marks = np.zeros(dofs.size, dtype=bool)
        marks[self._where] = True
        return self._split(marks.reshape(dofs.shape))

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

    def gather(self, values: np.ndarray) -> np.ndarray | None:
        """Values of all unknowns, (count, block), on rank 0; `values` is a local array with
        ghosts.
        """
        own = self._taken @ values.reshape(-1, self.block)
        parts = [own] if self.comm.size == 1 else self.comm.gather(own)
        if parts is None:
            return None
        everything = np.empty((self.count, self.block))
        everything[self._arrival] = np.concatenate(parts)
        return everything

    def scatter(self, stored: np.ndarray | None) -> np.ndarray:
        """The local array with ghosts of values that rank 0 has."""
        parts = None
        if self.comm.rank == 0:
            assert stored is not None
            everything = np.zeros((len(self._order) * self.dofs.shape[1], self.block))
            everything[self._where] = stored
            parts = self._split(everything.reshape(len(self._order), -1, self.block))
        # Transformations mix the unknowns of one edge, face or interior only, and these first occur
        # in one cell together.
        blocks = self._transformed(self.comm.scatter(parts), self._from)
        imap = self.space.dofmap.index_map
        result = la.vector(imap, self.block)
        result.array[:] = 0.0
        result.array.reshape(-1, self.block)[self.dofs[self._first]] = blocks[self._first]
        result.scatter_reverse(la.InsertMode.add)
        result.scatter_forward()
        return result.array.copy()

    def _split(self, everything: np.ndarray) -> list[np.ndarray]:
        """Cells in geometric order back into the parts of the ranks."""
        unsorted = np.empty_like(everything)
        unsorted[self._order] = everything
        return np.split(unsorted, np.cumsum(self._sizes)[:-1])

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
