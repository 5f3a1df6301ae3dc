# SPDX-License-Identifier: MIT
"""Whether the cells of a mesh overlap, so that the mesh is no domain of the plane or of space.

Let all cells be turned so that their volume is positive. Where two cells that share a facet lie on
opposite sides of it, the facet gets opposite orientations from them; where they lie on the same
side, the mesh is folded there. A mesh without folds covers a point as often as its boundary winds
around it, and the region that is covered most often touches the boundary from inside. So no point
is covered twice if the boundary does not cross itself and its winding number is one just inside of
every facet. For a boundary that lies on that of its convex hull the volumes say the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from dolfinx import la
from scipy.spatial import ConvexHull

from cffem._compat import cell_geometry, exterior_facets
from cffem.bounds.certificate import NotCovered

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


@dataclass(frozen=True)
class Tolerances:
    """How exactly overlaps are told from touching.

    Attributes:
        volume: volumes that differ by no more than this share are equal, up to rounding.
        inside: how far inside of a facet the winding number is taken, as a share of the size of the
            facet.
        crossing: facets that reach less than this share of their size beyond one another only
            touch.
        pairs: how many pairs of facets are compared at a time.
    """

    volume: float = 1e-9
    inside: float = 1e-5
    crossing: float = 1e-9
    pairs: int = 2**21


TOLERANCES = Tolerances()


def check_overlap(mesh: Mesh, convex: bool) -> None:
    """Refuse meshes of simplices whose cells overlap; collective.

    Args:
        mesh: a mesh of straight triangles in the plane or tetrahedra in space.
        convex: whether the boundary lies on that of its convex hull.

    Raises:
        NotCovered: cells overlap; the message says how that shows.
    """
    dim, comm = mesh.topology.dim, mesh.comm
    corners, signs = _cells(mesh)
    if comm.allreduce(int(_folded(mesh, corners, signs))):
        raise NotCovered(
            "the mesh is folded: two cells lie on the same side of a facet that they share, so "
            "that they overlap"
        )
    facets = np.concatenate(comm.allgather(_outward(mesh, corners, signs)))
    if convex:
        whole = comm.allreduce(
            float(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum())
        ) / math.factorial(dim)
        hull = float(ConvexHull(facets.reshape(-1, dim)).volume)
        wrong = abs(whole - hull) > TOLERANCES.volume * hull
    else:
        mine = np.arange(comm.rank, len(facets), comm.size)
        wrong = bool(comm.allreduce(int(crossing(facets, mine) or not _winds_once(facets, mine))))
    if wrong:
        raise NotCovered(
            "the cells of the mesh overlap, so that it is no domain: its boundary crosses itself "
            "or is wound twice"
        )


def _cells(mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Corners of this rank's own cells in the order of their vertices, and the signs of their
    determinants.
    """
    dim = mesh.topology.dim
    mine = mesh.topology.index_map(dim).size_local
    corners = mesh.geometry.x[cell_geometry(mesh)[0][:mine], :dim]
    return corners, np.sign(np.linalg.det(corners[:, 1:] - corners[:, :1])).astype(int)


def _folded(mesh: Mesh, corners: np.ndarray, signs: np.ndarray) -> bool:
    """Whether a facet of this rank gets the same orientation from both of its cells, or has
    more than two; collective.
    """
    dim, topology = mesh.topology.dim, mesh.topology
    topology.create_connectivity(dim, dim - 1)
    mine, index = len(corners), topology.index_map(0)
    vertices = topology.connectivity(dim, 0).array.reshape(-1, dim + 1)[:mine]
    facets = topology.connectivity(dim, dim - 1).array.reshape(-1, dim + 1)[:mine]
    numbers = index.local_to_global(vertices.ravel().astype(np.int32)).reshape(vertices.shape)
    total = la.vector(topology.index_map(dim - 1))
    count = la.vector(topology.index_map(dim - 1))
    for i in range(dim + 1):
        others = [numbers[:, k] for k in range(dim + 1) if k != i]
        swaps = sum(
            (others[a] > others[b]).astype(int) for a in range(dim) for b in range(a + 1, dim)
        )
        np.add.at(total.array, facets[:, i], signs * (-1) ** (i + swaps))
        np.add.at(count.array, facets[:, i], 1.0)
    for vector in (total, count):
        vector.scatter_reverse(la.InsertMode.add)
    owned = topology.index_map(dim - 1).size_local
    inner = count.array[:owned] > 1.5
    return bool((np.abs(total.array[:owned][inner]) > 0.5).any() or (signs == 0).any())


def _outward(mesh: Mesh, corners: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Corners of the boundary facets of this rank's cells, turned so that the domain is on
    their left, or below them.
    """
    dim, topology = mesh.topology.dim, mesh.topology
    topology.create_connectivity(dim - 1, dim)
    boundary = np.zeros(
        topology.index_map(dim - 1).size_local + topology.index_map(dim - 1).num_ghosts, dtype=bool
    )
    boundary[exterior_facets(mesh)] = True
    facets = topology.connectivity(dim, dim - 1).array.reshape(-1, dim + 1)[: len(corners)]
    found = []
    for i in range(dim + 1):
        here = np.flatnonzero(boundary[facets[:, i]])
        part = corners[here][:, [k for k in range(dim + 1) if k != i]]
        turned = signs[here] * (-1) ** i < 0
        part[turned] = part[turned][:, [1, 0, *range(2, dim)]]
        found.append(part)
    return np.concatenate(found)


def _winds_once(facets: np.ndarray, mine: np.ndarray) -> bool:
    """Whether the winding number of the whole boundary is one just inside of the facets of
    this rank.
    """
    dim = facets.shape[2]
    shares = np.vstack([np.full(dim, 1 / dim), 0.9 * np.eye(dim) + 0.1 / dim])
    normals = facet_normals(facets[mine])
    sizes = np.linalg.norm(facets[mine, 1] - facets[mine, 0], axis=1)
    for share in shares:
        points = (
            np.einsum("v,fvi->fi", share, facets[mine])
            - TOLERANCES.inside * sizes[:, None] * normals
        )
        for some in np.array_split(points, 1 + len(points) * len(facets) // TOLERANCES.pairs):
            if (np.abs(winding(facets, some) - 1) > 0.25).any():
                return False
    return True


def facet_normals(facets: np.ndarray) -> np.ndarray:
    """Unit normals of facets given by their corners, on the right of them, or above them."""
    edges = facets[:, 1:] - facets[:, :1]
    flat = facets.shape[2] == 2
    normals = (
        np.stack([edges[:, 0, 1], -edges[:, 0, 0]], axis=1)
        if flat
        else np.cross(edges[:, 0], edges[:, 1])
    )
    return normals / np.linalg.norm(normals, axis=1, keepdims=True)


def winding(facets: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How often a closed, oriented boundary winds around points: angles, or solid angles by van
    Oosterom and Strackee.

    Example:
        >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
        >>> sides = np.stack([square, np.roll(square, -1, axis=0)], axis=1)
        >>> winding(sides, np.array([[0.5, 0.4], [1.5, 0.5]])).round(6).tolist()
        [1.0, 0.0]
    """
    arms = facets[None] - points[:, None, None]
    if facets.shape[2] == 2:
        first, second = arms[:, :, 0], arms[:, :, 1]
        cross = first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]
        result: np.ndarray = np.arctan2(cross, (first * second).sum(axis=2)).sum(axis=1) / (
            2 * math.pi
        )
        return result + 0.0
    a, b, c = (arms[:, :, k] for k in range(3))
    lengths = np.linalg.norm(arms, axis=3)
    over = np.einsum("pfi,pfi->pf", a, np.cross(b, c))
    under = lengths.prod(axis=2)
    for k, (one, two) in enumerate(((b, c), (a, c), (a, b))):
        under = under + (one * two).sum(axis=2) * lengths[:, :, k]
    angles: np.ndarray = 2 * np.arctan2(over, under).sum(axis=1) / (4 * math.pi)
    return angles + 0.0


def crossing(facets: np.ndarray, mine: np.ndarray) -> bool:
    """Whether one of some facets crosses another one: an edge of the one passes through the inside
    of the other.

    Example:
        >>> cross = np.array([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
        >>> (
        ...     crossing(cross, np.arange(2)),
        ...     crossing(cross + np.array([0.0, 2.0])[:, None, None], np.arange(2)),
        ... )
        (True, False)
    """
    low, high = facets.min(axis=1), facets.max(axis=1)
    for some in np.array_split(mine, 1 + len(mine) * len(facets) // TOLERANCES.pairs):
        near = ((low[some][:, None] <= high[None]) & (high[some][:, None] >= low[None])).all(axis=2)
        one, two = np.nonzero(near)
        one = some[one]
        chosen = one != two
        if _pierced(facets[one[chosen]], facets[two[chosen]]).any():
            return True
    return False


def _pierced(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Whether an edge of the first facet of each pair passes through the inside of the second
    one, and not through its rim.
    """
    if not len(ones):
        return np.zeros(0, dtype=bool)
    normals = facet_normals(others)
    scale = np.maximum(*(np.linalg.norm(f[:, 1] - f[:, 0], axis=1) for f in (ones, others)))
    least = TOLERANCES.crossing * scale
    heights = np.einsum("pvi,pi->pv", ones - others[:, :1], normals)
    found = np.zeros(len(ones), dtype=bool)
    for i, j in combinations(range(ones.shape[1]), 2):
        through = (np.minimum(heights[:, i], heights[:, j]) < -least) & (
            np.maximum(heights[:, i], heights[:, j]) > least
        )
        share = heights[:, i] / np.where(through, heights[:, i] - heights[:, j], np.inf)
        place = ones[:, i] + share[:, None] * (ones[:, j] - ones[:, i])
        found |= through & (_inside(others, place) > TOLERANCES.crossing)
    return found


def _inside(facets: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The smallest barycentric coordinate of places in the lines or planes of facets."""
    edges = np.moveaxis(facets[:, 1:] - facets[:, :1], 1, 2)
    local = np.einsum("pij,pj->pi", np.linalg.pinv(edges), places - facets[:, 0])
    return np.minimum(1 - local.sum(axis=1), local.min(axis=1))
