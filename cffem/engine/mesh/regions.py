# SPDX-License-Identifier: MIT
"""The lines that divide a plane mesh of several regions: its boundary and what lies between two
regions, cut where it turns, branches or has another name, and which of them go around each region.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from cffem.engine.mesh.msh_format import MeshError

# A line turns by more than this at a corner, in radians; polygons with fewer than 16 sides are
# taken for what they are.
CORNER = math.radians(22)
# A closed curve without corners is cut into so many parts.
PARTS = 4
OUTSIDE = -1
Mark = tuple[int, int, int]  # the part that a line belongs to, and what lies on both sides of it
Loop = list[tuple[int, int]]  # numbers of runs, each with 1 or −1 for its direction


@dataclass(frozen=True)
class LineRun:
    """A line between two corners.

    Attributes:
        points: the numbers of its points in order.
        part: its name by number, zero for none.
        sides: the connected sets of cells on both sides.
    """

    points: np.ndarray
    part: int
    sides: tuple[int, int]


@dataclass(frozen=True)
class DividedDomain:
    """A domain as lines and what they go around.

    Attributes:
        points: coordinates.
        runs: the lines between corners.
        surfaces: each connected set of cells: its region and its loops, the outer one first.
    """

    points: np.ndarray
    runs: list[LineRun]
    surfaces: list[tuple[int, list[Loop]]]


def divided(
    cells: np.ndarray,
    tags: np.ndarray,
    named: np.ndarray,
    parts: np.ndarray,
    smooth: frozenset[tuple[float, float]] = frozenset(),
) -> DividedDomain:
    """The lines of a mesh and what they go around.

    Args:
        cells: corners of all triangles (cells, 3, 2).
        tags: the region of each.
        named: ends of all facets that have a name (facets, 2, 2).
        parts: their parts.
        smooth: points that are known to lie within curves.

    Raises:
        MeshError: a named line within a region, or a region that touches itself in a point.

    Example:
        >>> left = np.array([[[0, 0], [1, 0], [0, 1]], [[1, 0], [1, 1], [0, 1]]], dtype=float)
        >>> both = np.concatenate([left, left + [1, 0]])
        >>> found = divided(both, np.array([1, 1, 2, 2]), np.empty((0, 2, 2)), np.empty(0, int))
        >>> [(region, [len(loop) for loop in loops]) for region, loops in found.surfaces]
        [(1, [4]), (2, [4])]
    """
    points, number = np.unique(
        np.concatenate([cells.reshape(-1, 2), named.reshape(-1, 2)]), axis=0, return_inverse=True
    )
    number = np.asarray(number).ravel()
    corners = number[: 3 * len(cells)].reshape(-1, 3)
    sides = np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [0, 2]]]))
    edges, which = np.unique(sides, axis=0, return_inverse=True)
    which, owner = np.asarray(which).ravel(), np.tile(np.arange(len(cells)), 3)
    both = np.full((len(edges), 2), OUTSIDE)
    order = np.lexsort((owner, which))
    first = np.searchsorted(which[order], np.arange(len(edges)))
    both[:, 0] = owner[order][first]
    twice = np.bincount(which, minlength=len(edges)) == 2
    both[twice, 1] = owner[order][first[twice] + 1]
    within = twice & (tags[both[:, 0]] == tags[both[:, 1]])
    joined = coo_matrix(
        (np.ones(int(within.sum())), both[within].T), shape=(len(cells), len(cells))
    )
    count, piece = connected_components(joined, directed=False)
    around = np.where(both == OUTSIDE, OUTSIDE, piece[both])
    names = dict(
        zip(
            map(tuple, np.sort(number[3 * len(cells) :].reshape(-1, 2)).tolist()),
            parts.tolist(),
            strict=True,
        )
    )
    lines = ~within
    kept = edges[lines]
    found = [names.pop(edge, 0) for edge in map(tuple, kept.tolist())]
    if names:
        raise MeshError("the mesh has named lines in the interior of its regions")
    marks = [
        (part, *sorted(pair)) for part, pair in zip(found, around[lines].tolist(), strict=True)
    ]
    runs = cut(points, kept, marks, smooth)
    regions = {int(each): int(tag) for each, tag in zip(piece, tags, strict=True)}
    return DividedDomain(
        points, runs, [(regions[each], loops_around(points, runs, each)) for each in range(count)]
    )


def cut(
    points: np.ndarray,
    edges: np.ndarray,
    marks: list[Mark],
    smooth: frozenset[tuple[float, float]] = frozenset(),
) -> list[LineRun]:
    """Edges as runs between corners: where lines branch, turn, or have other marks."""
    at: dict[int, list[int]] = {}
    for edge, ends in enumerate(edges.tolist()):
        for end in ends:
            at.setdefault(end, []).append(edge)

    def other(edge: int, end: int) -> int:
        a, b = edges[edge].tolist()
        return b if end == a else a

    def is_corner(point: int) -> bool:
        if len(at[point]) != 2 or marks[at[point][0]] != marks[at[point][1]]:
            return True
        if tuple(points[point].tolist()) in smooth:
            return False
        before, ahead = (points[other(edge, point)] - points[point] for edge in at[point])
        cross = before[0] * ahead[1] - before[1] * ahead[0]
        return abs(math.pi - abs(math.atan2(cross, float(before @ ahead)))) > CORNER

    corners = {point for point in at if is_corner(point)}
    left, found = set(range(len(edges))), []

    def walk(start: int, edge: int) -> list[int]:
        chain = [start]
        while True:
            left.discard(edge)
            chain.append(other(edge, chain[-1]))
            if chain[-1] in corners or chain[-1] == start:
                return chain
            edge = next(e for e in at[chain[-1]] if e != edge)

    for start in (*sorted(corners), None):
        if start is None:  # what is left has no corners at all
            begun = [(int(edges[edge, 0]), edge) for edge in sorted(left)]
        else:
            begun = [(start, edge) for edge in at[start]]
        for point, edge in begun:
            if edge not in left:
                continue
            chain, mark = walk(point, edge), marks[edge]
            ends = [0, len(chain) - 1]
            if chain[0] == chain[-1]:
                ends = sorted({k * (len(chain) - 1) // PARTS for k in range(PARTS + 1)})
            for a, b in pairwise(ends):
                found.append(LineRun(np.array(chain[a : b + 1]), mark[0], mark[1:]))
    return found


def loops_around(points: np.ndarray, runs: list[LineRun], piece: int) -> list[Loop]:
    """The closed loops of runs around a connected set of cells, the outer one first."""
    mine = {number for number, run in enumerate(runs) if piece in run.sides}
    at: dict[int, list[int]] = {}
    for number in sorted(mine):
        for end in (int(runs[number].points[0]), int(runs[number].points[-1])):
            at.setdefault(end, []).append(number)
    if any(len(touching) != 2 for touching in at.values()):
        raise MeshError("a region of the mesh touches itself in a point")
    loops: list[Loop] = []
    while mine:
        number = min(mine)
        here, loop = int(runs[number].points[0]), []
        while number in mine:
            mine.remove(number)
            ends = int(runs[number].points[0]), int(runs[number].points[-1])
            loop.append((number, 1 if here == ends[0] else -1))
            here = ends[1] if here == ends[0] else ends[0]
            number = next((k for k in at[here] if k in mine), number)
        loops.append(loop)

    def extent(loop: Loop) -> float:
        places = np.concatenate([points[runs[number].points] for number, _ in loop])
        return float(np.hypot(*(places.max(axis=0) - places.min(axis=0))))

    return sorted(loops, key=lambda loop: -extent(loop))
