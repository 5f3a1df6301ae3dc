# SPDX-License-Identifier: MIT
"""Moments of data on cells to a stated accuracy, whatever lies between the points of a quadrature
rule.

On each cell the data f are replaced by the polynomial Πf of degree m with ∫ Πf p = ∫ f p for all
polynomials p of degree m on the reference cell. A form in which f is multiplied by polynomials of
at most that degree then has the same value with Πf as with f, and ordinary quadrature is exact for
it. The moments ∫ f p are found on simplices: cells are cut where f jumps or has a kink
(`cffem.engine.inputs.level_sets`), and divided until an enclosure says that f is close to a
polynomial which the rule integrates exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import basix
import basix.ufl
import numpy as np
import sympy as sp
from mpi4py import MPI

from cffem import _compat
from cffem.engine.inputs.enclosure import NotEnclosed, distances, divided, enclosed
from cffem.engine.inputs.level_sets import cut, is_affine, level_sets, resolved
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


@dataclass(frozen=True)
class Accuracy:
    """How exactly moments are found.

    Attributes:
        share: the largest error on all parts of one size together, as a share of ∫ |f|, by
            dimension.
        curved: the largest volume between a curved level set and the planes that stand for it, on
            one part of a cell, as a share of the cell or, where cells are small, of the `small`
            part of the domain, by dimension. A sphere has many more parts than a circle, hence is
            approximated less well.
        small: cells are small below this share of the domain.
        coarse: no part of a cell is approximated worse than to this share of the cell.
        degree: data are compared with polynomials of this degree.
        depth: how often a cell is divided at most; beyond it what is left counts as it is sampled.
        parts: how many parts of cells there are at most on a rank.
        sampled: the largest change by another rule, as a share of ∫ |f|, where parts run out;
            beyond it data are refused.
    """

    share: tuple[float, float, float] = (1e-9, 1e-6, 1e-3)
    curved: tuple[float, float, float] = (1e-12, 1e-8, 3e-7)
    small: float = 1 / 64
    coarse: float = 1e-3
    degree: int = 5
    depth: int = 40
    parts: int = 400_000
    sampled: float = 1e-3


ACCURACY = Accuracy()
CHUNK = 20_000

# Reference cells as simplices, by the numbers of their vertices.
SIMPLICES = {
    "interval": [[0, 1]],
    "triangle": [[0, 1, 2]],
    "tetrahedron": [[0, 1, 2, 3]],
    "quadrilateral": [[0, 1, 3], [0, 2, 3]],
    "hexahedron": [
        [0, 1, 3, 7],
        [0, 1, 5, 7],
        [0, 2, 3, 7],
        [0, 2, 6, 7],
        [0, 4, 5, 7],
        [0, 4, 6, 7],
    ],
    "prism": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]],
}


@dataclass(frozen=True)
class SubSimplices:
    """Simplices inside the reference cells of some cells.

    Attributes:
        cells: the number of the cell of each.
        corners: in the reference cell, shape (parts, dim + 1, dim).
    """

    cells: np.ndarray
    corners: np.ndarray

    def __len__(self) -> int:
        return len(self.cells)

    def of(self, chosen: np.ndarray) -> SubSimplices:
        """Some of the parts."""
        return SubSimplices(self.cells[chosen], self.corners[chosen])

    def divided(self) -> SubSimplices:
        """Every part divided into parts of half its size."""
        return SubSimplices(
            np.repeat(self.cells, 2 ** (self.corners.shape[1] - 1)), divided(self.corners)
        )

    @cached_property
    def volumes(self) -> np.ndarray:
        """Their volumes, areas or lengths."""
        edges = self.corners[:, 1:] - self.corners[:, :1]
        square = edges.shape[1] == edges.shape[2]
        gram = np.linalg.det(edges if square else np.matmul(edges, edges.swapaxes(1, 2)))
        return (np.abs(gram) if square else np.sqrt(np.maximum(gram, 0.0))) / math.factorial(
            edges.shape[1]
        )


class Cells:
    """The owned cells of a mesh as maps from the reference cell.

    `dim` is the dimension of the reference cell, `space` that of the mesh, `count` the number of
    cells.

    Args:
        mesh: the DOLFINx mesh.
    """

    def __init__(self, mesh: Mesh):
        self._describe(mesh)
        self._measure()

    def _describe(self, mesh: Mesh) -> None:
        self.comm, self.space = mesh.comm, mesh.geometry.dim
        self.dim = mesh.topology.dim
        self.name = _compat.cell_name(mesh.ufl_domain())
        self.count = mesh.topology.index_map(mesh.topology.dim).size_local
        self.nodes = mesh.geometry.x[_compat.cell_geometry(mesh)[0]][:, :, : self.space]
        self._map = mesh.ufl_domain().ufl_coordinate_element().sub_elements[0]
        self.affine = self.nodes.shape[1] == self.dim + 1

    def _measure(self) -> None:
        """The size of each cell, and of all cells on all ranks; collective."""
        whole = self.whole()
        self.measures = np.bincount(whole.cells, self.sizes(whole), minlength=self.count)
        self.total = self.comm.allreduce(float(self.measures.sum()))

    def places(self, cells: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Points of the reference cell, shape (cells, points, dim), as points of these cells."""
        return self._mapped(cells, points)

    def _mapped(self, cells: np.ndarray, points: np.ndarray) -> np.ndarray:
        if not points.size:
            return np.empty((*points.shape[:2], self.space))
        shape = self._map.tabulate(0, points.reshape(-1, points.shape[2]))[0].reshape(
            *points.shape[:2], -1
        )
        return np.matmul(shape, self.nodes[cells])

    def whole(self) -> SubSimplices:
        """All cells as simplices."""
        vertices = np.array(basix.geometry(basix.CellType[self.name]))
        simplices = vertices[np.array(SIMPLICES[self.name])]
        cells = np.repeat(np.arange(self.count), len(simplices))
        return SubSimplices(cells, np.tile(simplices, (self.count, 1, 1)))

    def boxes(self, parts: SubSimplices) -> dict[sp.Symbol, tuple[np.ndarray, np.ndarray]]:
        """The box around each part, by coordinate."""
        corners = parts.corners
        if not self.affine:
            # A map that is linear in each coordinate keeps a box within the hull of its corners.
            ends = np.stack([corners.min(axis=1), corners.max(axis=1)])
            picks = np.array(list(np.ndindex(*[2] * self.dim)))
            corners = np.stack([ends[picks[:, k], :, k] for k in range(self.dim)], axis=2).swapaxes(
                0, 1
            )
        places = self.places(parts.cells, corners)
        low, high = places.min(axis=1), places.max(axis=1)
        return {symbol: (low[:, k], high[:, k]) for k, symbol in enumerate(SPACE[: self.space])}

    def centres(self, parts: SubSimplices) -> dict[sp.Symbol, np.ndarray]:
        """The middle of each part, by coordinate."""
        middle = self.places(parts.cells, parts.corners.mean(axis=1, keepdims=True))[:, 0]
        return {symbol: middle[:, k] for k, symbol in enumerate(SPACE[: self.space])}

    def sizes(self, parts: SubSimplices) -> np.ndarray:
        """The volumes of the parts in the cells, exact where cells are simplices."""
        if not len(parts):
            return np.empty(0)
        return SubSimplices(parts.cells, self.places(parts.cells, parts.corners)).volumes

    def bend(self, expr: sp.Expr, parts: SubSimplices, heights: np.ndarray) -> np.ndarray:
        """How far an expression is from linear in the middles of edges, as seen on the
        reference cell.
        """
        if self.affine:
            return np.zeros(len(parts))
        i, j = np.triu_indices(parts.corners.shape[1], 1)
        middles = self.values(expr, parts.cells, (parts.corners[:, i] + parts.corners[:, j]) / 2)
        return np.abs(np.nan_to_num(middles) - (heights[:, i] + heights[:, j]) / 2).max(axis=1)

    def values(self, expr: sp.Expr, cells: np.ndarray, points: np.ndarray) -> np.ndarray:
        """An expression at points of the reference cell, shape (cells, points)."""
        places = self.places(cells, points)
        columns = [
            places[..., k] if k < self.space else np.zeros(places.shape[:2]) for k in range(3)
        ]
        with np.errstate(all="ignore"):
            return np.broadcast_to(
                np.asarray(numeric(expr, SPACE)(*columns), dtype=float), places.shape[:2]
            )


class Facets(Cells):
    """Facets of cells as maps from their own reference cell.

    Args:
        mesh: the DOLFINx mesh, whose cells have facets of one kind.
        entities: the numbers of the facets in the mesh.
        owners: the cell of each facet.
        numbers: the number of each facet in its cell.
    """

    def __init__(self, mesh: Mesh, entities: np.ndarray, owners: np.ndarray, numbers: np.ndarray):
        self._describe(mesh)
        self.entities, self.owners, self.numbers = entities, owners, numbers
        cell = basix.CellType[self.name]
        corners, self.dim = np.array(basix.geometry(cell)), self.dim - 1
        sides = [corners[side] for side in basix.topology(cell)[self.dim]]
        self.name = {1: "interval", 2: "triangle" if len(sides[0]) == 3 else "quadrilateral"}[
            self.dim
        ]
        self.origins = np.array([side[0] for side in sides])
        self.edges = np.array([side[1 : self.dim + 1] - side[0] for side in sides])
        self.count = len(owners)
        self._measure()

    def places(self, cells: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Points of the reference facet as points of these facets."""
        number = self.numbers[cells]
        inside = self.origins[number][:, None] + np.matmul(points, self.edges[number])
        return self._mapped(self.owners[cells], inside)

    def seen_from(self, number: int, points: np.ndarray) -> np.ndarray:
        """Points of the reference cell as points of the plane of its facet of this number."""
        return (points - self.origins[number]) @ np.linalg.pinv(self.edges[number])


# Smooth pieces ------------------------------------------------------------------------------------


def smooth_pieces(
    expr: sp.Expr, cells: Cells, accuracy: Accuracy = ACCURACY
) -> list[tuple[sp.Expr, SubSimplices]]:
    """The branches of an expression that occur, each with the parts of cells where it holds."""
    groups: list[tuple[dict[sp.Expr, int], SubSimplices]] = (
        [({}, cells.whole())] if cells.count else []
    )
    for level in level_sets(expr):
        found = []
        for signs, parts in groups:
            for sign, side in _sides(resolved(level, signs), parts, cells, accuracy):
                found.append(({**signs, level: sign}, side))
        groups = found
    by_branch: dict[sp.Expr, list[SubSimplices]] = {}
    for signs, parts in groups:
        by_branch.setdefault(resolved(expr, signs), []).append(parts)
    return [(branch, joined(parts)) for branch, parts in by_branch.items()]


def joined(several: list[SubSimplices]) -> SubSimplices:
    """The parts of several lists in one."""
    return SubSimplices(
        np.concatenate([p.cells for p in several]), np.concatenate([p.corners for p in several])
    )


def _sides(
    level: sp.Expr, parts: SubSimplices, cells: Cells, accuracy: Accuracy
) -> Iterator[tuple[int, SubSimplices]]:
    """The parts where an expression is positive and where it is negative, cut where it is zero."""
    if not level.free_symbols & {*SPACE}:
        yield (1 if level.is_number and level > 0 else -1), parts
        return
    straight = cells.affine and is_affine(level)
    ready = parts if straight else _near(level, parts, cells, accuracy)
    heights = np.nan_to_num(cells.values(level, ready.cells, ready.corners))

    def along(points: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.nan_to_num(cells.values(level, ready.cells[numbers], points[:, None])[:, 0])

    corners, origin, signs = cut(ready.corners, heights, along)
    for sign in (1, -1):
        chosen = signs == sign
        if chosen.any():
            yield sign, SubSimplices(ready.cells[origin[chosen]], corners[chosen])


def _near(level: sp.Expr, parts: SubSimplices, cells: Cells, accuracy: Accuracy) -> SubSimplices:
    """Parts that are divided where a level set passes, until a plane between its zeros on
    edges is as good.
    """
    done: list[SubSimplices] = []
    smallest = accuracy.curved[cells.dim - 1]
    limits = np.clip(
        smallest * accuracy.small * cells.total / cells.measures,
        smallest,
        max(smallest, accuracy.coarse),
    )
    for depth in range(accuracy.depth):
        boxes = cells.boxes(parts)
        try:
            low, high = enclosed(level, boxes)
            bend = distances(level, boxes, cells.centres(parts), 1)
        except NotEnclosed:
            low, high = np.full(len(parts), -np.inf), np.full(len(parts), np.inf)
            bend = np.full(len(parts), np.inf if depth < 4 else 0.0)
        heights = np.nan_to_num(cells.values(level, parts.cells, parts.corners))
        bend = np.maximum(bend, cells.bend(level, parts, heights))
        flat = bend * parts.volumes <= limits[parts.cells] * np.ptp(heights, axis=1)
        finished = (low > 0) | (high < 0) | flat
        done.append(parts.of(finished))
        parts = parts.of(~finished)
        if not len(parts) or len(parts) + sum(map(len, done)) > accuracy.parts:
            break
        parts = parts.divided()
    return joined([*done, parts])


# Moments ------------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def orthonormal(cell: str, degree: int) -> Any:
    """The discontinuous element whose basis functions are orthonormal polynomials on the
    reference cell.
    """
    return basix.ufl.element(
        "P", cell, degree, lagrange_variant=basix.LagrangeVariant.legendre, discontinuous=True
    )


def moments(expr: sp.Expr, cells: Cells, degree: int, accuracy: Accuracy = ACCURACY) -> np.ndarray:
    """Moments of an expression of x, y, z with the orthonormal polynomials of a degree, one
    row for each owned cell; collective.
    """
    basis = orthonormal(cells.name, degree)
    total = np.zeros((cells.count, basis.dim))
    size = change = 0.0
    for branch, parts in _in_order(smooth_pieces(expr, cells, accuracy), cells):
        own = 0 if branch.is_number else accuracy.degree
        whole = degree if len(SIMPLICES[cells.name]) == 1 else degree * cells.dim
        for ready, close in refined(branch, parts, cells, accuracy) if branch != 0 else ():
            found = _add(total, branch, ready, cells, basis, own + whole, expr)
            size += float(np.abs(found).sum())
            if not close:
                scratch, finer = np.zeros_like(total), own + whole + 2
                other = _add(scratch, branch, ready, cells, basis, finer, expr)
                change += float(np.abs(other - found).sum())
    change, size = cells.comm.allreduce(np.array([change, size]))
    _check_sampled(expr, change, size, accuracy)
    return total


def _check_sampled(expr: sp.Expr, change: float, size: float, accuracy: Accuracy) -> None:
    """Refuse data that vary too fast for as many parts as there may be."""
    if np.isfinite(change) and change > accuracy.sampled * size:
        raise InputError(
            f"{expr} varies too fast for this mesh: its integral is known to about "
            f"{change / size:.1%} only; refine the mesh there, or widen what varies"
        )


def by_rule(expr: sp.Expr, cells: Cells, degree: int, rule: int) -> np.ndarray:
    """The same moments by an ordinary rule of some degree."""
    basis = orthonormal(cells.name, degree)
    total = np.zeros((cells.count, basis.dim))
    _add(total, expr, cells.whole(), cells, basis, rule)
    return total


def _in_order(
    pieces: list[tuple[sp.Expr, SubSimplices]], cells: Cells
) -> list[tuple[sp.Expr, SubSimplices]]:
    """The branches that occur on any rank, in one order for all."""
    mine = dict(pieces)
    names = sorted(
        {branch for found in cells.comm.allgather(list(mine)) for branch in found}, key=str
    )
    dim = cells.dim
    none = SubSimplices(np.empty(0, dtype=int), np.empty((0, dim + 1, dim)))
    return [(branch, mine.get(branch, none)) for branch in names]


def refined(
    expr: sp.Expr, parts: SubSimplices, cells: Cells, accuracy: Accuracy = ACCURACY
) -> Iterator[tuple[SubSimplices, bool]]:
    """Parts on which a smooth expression is close to a polynomial, in portions, and at last those
    on which it is not, because there would be too many; collective.
    """
    if (
        expr.is_polynomial(*SPACE)
        and sp.Poly(expr, *SPACE).total_degree() <= accuracy.degree
        and cells.affine
    ):
        yield parts, True
        return
    seen = 0.0
    for depth in range(accuracy.depth):
        sizes = cells.sizes(parts)
        far = _distances(expr, parts, cells, accuracy.degree, depth) * sizes
        middle = (
            cells.values(expr, parts.cells, parts.corners.mean(axis=1, keepdims=True))[:, 0]
            if len(parts)
            else far
        )
        sampled = float(np.nansum(np.abs(middle) * sizes))
        largest = float(far[np.isfinite(far)].max(initial=0.0))
        everything = seen + cells.comm.allreduce(sampled)
        limit = accuracy.share[cells.dim - 1] * max(
            everything, 1e-2 * cells.comm.allreduce(largest, op=MPI.MAX)
        )
        close = far * cells.comm.allreduce(len(parts)) <= limit
        ready, parts = parts.of(close), parts.of(~close)
        yield ready, True
        seen += cells.comm.allreduce(float(np.nansum(np.abs(middle[close]) * sizes[close])))
        left, most = cells.comm.allreduce(len(parts)), cells.comm.allreduce(len(parts), op=MPI.MAX)
        if not left:
            return
        if most * 2**cells.dim > accuracy.parts:
            break
        parts = parts.divided()
    yield parts, False


def _distances(
    expr: sp.Expr, parts: SubSimplices, cells: Cells, degree: int, depth: int
) -> np.ndarray:
    """How far an expression is from a polynomial on each part."""
    if not len(parts):
        return np.empty(0)
    try:
        return distances(expr, cells.boxes(parts), cells.centres(parts), degree)
    except NotEnclosed:
        return np.full(len(parts), np.inf if depth < 3 else 0.0)


def _add(
    total: np.ndarray,
    expr: sp.Expr,
    parts: SubSimplices,
    cells: Cells,
    basis: Any,
    degree: int,
    uncut: sp.Expr | None = None,
) -> np.ndarray:
    """Add the moments on some parts, and return the integral over each.

    `uncut` is the expression of which `expr` is a branch.
    """
    simplex = (basix.CellType.interval, basix.CellType.triangle, basix.CellType.tetrahedron)[
        cells.dim - 1
    ]
    points, weights = basix.make_quadrature(simplex, degree)
    inside = np.column_stack([1.0 - points.sum(axis=1), points])
    means = np.empty(len(parts))
    for first in range(0, len(parts), CHUNK):
        some = parts.of(np.arange(first, min(first + CHUNK, len(parts))))
        places = np.matmul(inside, some.corners)
        values = cells.values(expr, some.cells, places)
        if uncut is not None and not np.isfinite(values).all():
            # By rounding a point lies beyond the cut, where sqrt(x) of sqrt(|x|) has no value.
            there = cells.values(uncut, some.cells, places)
            values = np.where(np.isfinite(values), values, there)
        means[first : first + len(some)] = values @ weights / weights.sum()
        scaled = values * weights * (some.volumes * math.factorial(cells.dim))[:, None]
        shape = basis.tabulate(0, places.reshape(-1, cells.dim))[0].reshape(*places.shape[:2], -1)
        np.add.at(total, some.cells, np.matmul(scaled[:, None], shape)[:, 0])
    return means * cells.sizes(parts)
