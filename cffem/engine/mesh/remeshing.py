# SPDX-License-Identifier: MIT
"""Coarser meshes of a domain that is known by its mesh only, one that was read from a file say.

The boundary of a plane mesh is a set of closed polygons. Their corners, where the boundary turns or
another part of it begins, are kept; what lies between two corners is a straight line or a smooth
curve, and is divided anew. Cells are larger than those of the given mesh by a factor, everywhere.
Regions within the domain are kept as well (`regions`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cffem import _compat
from cffem.engine.collective import collectively
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.mesh.raw_mesh import RawMesh
from cffem.engine.mesh.regions import CORNER, PARTS, DividedDomain, divided

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from mpi4py import MPI

    from cffem.engine.mesh.meshes import MeshData

# Share of a curve's length by which it may leave its chord and still be a straight line.
STRAIGHT = 1e-9
Run = tuple[np.ndarray, int]


def remeshed(domain: MeshData, factor: float, comm: MPI.Comm) -> MeshData:
    """A mesh of the same plane domain with cells that are larger by a factor.

    Args:
        domain: straight triangles in the plane; collective over their communicator.
        factor: at least one.
        comm: the communicator of the new mesh; every process of it makes the same.

    Raises:
        MeshError: there is none; the message says why.
    """
    from cffem.engine.mesh.meshes import distribute

    def still_larger(times: float, on: MPI.Comm) -> MeshData:
        return remeshed(domain, times * factor, on)

    cells, tags = gathered_cells(domain)
    if len(set(tags.tolist())) > 1:
        return replace(with_regions(domain, cells, tags, factor, comm), remade=still_larger)
    facets, values = gathered_boundary(domain)
    loops = closed_loops(facets, values, smooth_points(domain))
    raw = collectively(comm, lambda: meshed(loops, cells, factor, domain, tags))
    return replace(distribute(raw, comm), remade=still_larger)


def with_regions(
    domain: MeshData, cells: np.ndarray, tags: np.ndarray, factor: float, comm: MPI.Comm
) -> MeshData:
    """The same for a domain of several regions."""
    from cffem.engine.mesh.meshes import distribute

    regions = divided(cells, tags, *gathered_lines(domain), smooth_points(domain))
    raw = collectively(
        comm,
        lambda: drawn_anew(lambda gmsh: drawn_regions(gmsh, regions), cells, factor, domain),
    )
    return distribute(raw, comm)


def can_be_remeshed(domain: MeshData) -> bool:
    """Whether a mesh consists of straight triangles in the plane."""
    mesh = domain.mesh
    return (
        mesh.topology.cell_name() == "triangle"
        and mesh.geometry.dim == 2
        and _compat.straight_simplices(mesh)
    )


# What is known of the domain
# --------------------------------------------------------------------------------------------------


def gathered_cells(domain: MeshData) -> tuple[np.ndarray, np.ndarray]:
    """Corners of all cells (cells, 3, 2) and the regions they belong to, on every rank."""
    mesh = domain.mesh
    owned = mesh.topology.index_map(2).size_local
    corners = mesh.geometry.x[_compat.cell_geometry(mesh)[0][:owned]][:, :, :2]
    tags = np.zeros(owned, dtype=np.int32)
    if domain.cell_tags is not None:
        mine = domain.cell_tags.indices < owned
        tags[domain.cell_tags.indices[mine]] = domain.cell_tags.values[mine]
    return in_order(mesh.comm.allgather((corners, tags)))


def gathered_boundary(domain: MeshData) -> tuple[np.ndarray, np.ndarray]:
    """Ends of all boundary facets (facets, 2, 2) and the parts they belong to, on every rank."""
    from dolfinx.mesh import entities_to_geometry

    mesh = domain.mesh
    mesh.topology.create_connectivity(1, 2)
    mesh.topology.create_connectivity(1, 0)
    facets = _compat.exterior_facets(mesh)
    facets = facets[facets < mesh.topology.index_map(1).size_local]
    values = np.zeros(len(facets), dtype=np.int32)
    within = 0
    if domain.facet_tags is not None:
        found = dict(zip(domain.facet_tags.indices, domain.facet_tags.values, strict=True))
        values = np.array([found.get(facet, 0) for facet in facets], dtype=np.int32)
        owned = domain.facet_tags.indices < mesh.topology.index_map(1).size_local
        within = int(owned.sum()) - int(np.isin(facets, domain.facet_tags.indices).sum())
    if mesh.comm.allreduce(within):
        raise MeshError("the mesh has named lines in its interior")
    nodes = entities_to_geometry(mesh, 1, facets) if len(facets) else np.empty((0, 2), np.int32)
    return in_order(mesh.comm.allgather((mesh.geometry.x[nodes][:, :, :2], values)))


def gathered_lines(domain: MeshData) -> tuple[np.ndarray, np.ndarray]:
    """Ends of all facets with a name (facets, 2, 2) and their parts, on every rank."""
    from dolfinx.mesh import entities_to_geometry

    mesh, tags = domain.mesh, domain.facet_tags
    mesh.topology.create_connectivity(1, 2)
    mesh.topology.create_connectivity(1, 0)
    facets = np.empty(0, dtype=np.int32) if tags is None else tags.indices
    values = np.empty(0, dtype=np.int32) if tags is None else tags.values
    owned = facets < mesh.topology.index_map(1).size_local
    facets, values = facets[owned], values[owned]
    nodes = entities_to_geometry(mesh, 1, facets) if len(facets) else np.empty((0, 2), np.int32)
    return in_order(mesh.comm.allgather((mesh.geometry.x[nodes][:, :, :2], values)))


def in_order(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Corners of cells or facets and their tags, in an order that does not depend on ranks."""
    corners = np.concatenate([each for each, _ in parts])
    tags = np.concatenate([each for _, each in parts])
    inner = np.lexsort((corners[:, :, 1], corners[:, :, 0]), axis=1)
    corners = np.take_along_axis(corners, inner[:, :, None], axis=1)
    order = np.lexsort(corners.reshape(len(corners), -1).T)
    return corners[order], tags[order]


Smooth = frozenset[tuple[float, float]]


def smooth_points(domain: MeshData) -> Smooth:
    """The points of a mesh that its file says to lie within curves."""
    within = domain.within_curves
    return frozenset() if within is None else frozenset(map(tuple, within.tolist()))


def closed_loops(
    facets: np.ndarray, values: np.ndarray, smooth: Smooth = frozenset()
) -> list[list[Run]]:
    """The boundary as closed chains of runs, each between two corners: points and part.

    Args:
        facets: ends of all boundary facets.
        values: the part of each.
        smooth: points that are known to lie within curves.

    Example:
        >>> corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=float)
        >>> sides = np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)
        >>> [[len(points) for points, _ in loop] for loop in closed_loops(sides, np.zeros(4, int))]
        [[2, 2, 2, 2]]
    """
    points, ends = np.unique(facets.reshape(-1, 2), axis=0, return_inverse=True)
    ends = np.asarray(ends).reshape(-1, 2)
    around: dict[int, list[int]] = {}
    for number, pair in enumerate(ends.tolist()):
        for end in pair:
            around.setdefault(end, []).append(number)
    if any(len(touching) != 2 for touching in around.values()):
        raise MeshError("the boundary of the mesh touches itself in a point")
    left, loops = set(range(len(ends))), []
    while left:
        edge = min(left)
        here, chain = int(ends[edge, 0]), []
        while edge in left:
            left.remove(edge)
            a, b = ends[edge].tolist()
            chain.append((here, int(values[edge])))
            here = b if here == a else a
            edge = next((e for e in around[here] if e in left), edge)
        loops.append(runs([(points[p], part) for p, part in chain], smooth))
    return loops


def runs(chain: list[tuple[np.ndarray, int]], smooth: Smooth = frozenset()) -> list[Run]:
    """One closed chain of points, each with the part of the edge that follows, cut at corners."""
    places = np.array([point for point, _ in chain])
    parts = [part for _, part in chain]
    ahead = np.roll(places, -1, axis=0) - places
    behind = np.roll(ahead, 1, axis=0)
    turn = np.abs(
        np.arctan2(
            behind[:, 0] * ahead[:, 1] - behind[:, 1] * ahead[:, 0], np.sum(behind * ahead, axis=1)
        )
    )
    count = len(chain)
    sharp = [
        t > CORNER and tuple(p.tolist()) not in smooth for t, p in zip(turn, places, strict=True)
    ]
    corners = [k for k in range(count) if sharp[k] or parts[k] != parts[k - 1]]
    if len(corners) < 2:
        first = corners[0] if corners else 0
        corners = sorted({(first + k * count // PARTS) % count for k in range(PARTS)})
    found = []
    for a, b in pairwise([*corners, corners[0] + count]):
        found.append((places[np.arange(a, b + 1) % count], parts[a]))
    return found


def is_straight(points: np.ndarray) -> bool:
    """Whether points lie on the line between the first and the last."""
    chord = points[-1] - points[0]
    length = float(np.hypot(*chord))
    off = points - points[0]
    across = np.abs(off[:, 0] * chord[1] - off[:, 1] * chord[0]) / max(length, 1e-300)
    return bool(across.max() <= STRAIGHT * length)


# The new mesh
# --------------------------------------------------------------------------------------------------


def meshed(
    loops: list[list[Run]], cells: np.ndarray, factor: float, domain: MeshData, tags: np.ndarray
) -> RawMesh:
    """Mesh the inside of the loops; works on the calling rank alone."""

    def draw(gmsh: ModuleType) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        curves = [drawn(gmsh, loop) for loop in loops]
        order = sorted(range(len(loops)), key=lambda k: -extent(loops[k]))
        surface = gmsh.model.geo.addPlaneSurface([curves[k][0] for k in order])
        lines = [pair for _, pairs in curves for pair in pairs]
        return [(surface, int(tags[0]) if len(tags) else 0)], lines

    return drawn_anew(draw, cells, factor, domain)


Drawn = tuple[list[tuple[int, int]], list[tuple[int, int]]]


def drawn_anew(
    draw: Callable[[ModuleType], Drawn], cells: np.ndarray, factor: float, domain: MeshData
) -> RawMesh:
    """Mesh what is drawn: surfaces with their regions and lines with their parts."""
    from cffem.engine.mesh.mesh_shapes import gmsh_session

    sized = {"Mesh.MeshSizeExtendFromBoundary": 0, "Mesh.MeshSizeFromPoints": 0}
    with gmsh_session(**sized) as gmsh:
        try:
            surfaces, lines = draw(gmsh)
            gmsh.model.geo.synchronize()
            background(gmsh, cells, factor)
            gmsh.model.mesh.generate(2)
            return taken(gmsh, surfaces, lines, domain)
        except MeshError:
            raise
        except Exception as error:  # gmsh raises nothing more special
            said = " ".join(str(error).split())[:200]
            raise MeshError(f"gmsh cannot mesh the domain more coarsely: {said}") from None


def extent(loop: list[Run]) -> float:
    """The length of the diagonal of the bounding box of a loop."""
    points = np.concatenate([points for points, _ in loop])
    return float(np.hypot(*(points.max(axis=0) - points.min(axis=0))))


def drawn(gmsh: ModuleType, loop: list[Run]) -> tuple[int, list[tuple[int, int]]]:
    """A loop as a curve of gmsh, and the parts of its lines."""
    geo = gmsh.model.geo
    starts = [geo.addPoint(*points[0], 0.0) for points, _ in loop]
    pairs = []
    for (points, part), start, end in zip(loop, starts, [*starts[1:], starts[0]], strict=True):
        pairs.append((curve(gmsh, points, start, end), part))
    return geo.addCurveLoop([line for line, _ in pairs]), pairs


def curve(gmsh: ModuleType, points: np.ndarray, start: int, end: int) -> int:
    """A straight line or a smooth curve through points, whose ends gmsh knows."""
    geo = gmsh.model.geo
    if len(points) == 2 or is_straight(points):
        return int(geo.addLine(start, end))
    between = [geo.addPoint(*point, 0.0) for point in points[1:-1]]
    return int(geo.addSpline([start, *between, end]))


def drawn_regions(gmsh: ModuleType, regions: DividedDomain) -> Drawn:
    """All regions as surfaces of gmsh, with their lines."""
    geo, points = gmsh.model.geo, regions.points
    ends = sorted({int(p) for run in regions.runs for p in (run.points[0], run.points[-1])})
    corners = {p: geo.addPoint(*points[p], 0.0) for p in ends}
    lines = [
        curve(gmsh, points[run.points], corners[int(run.points[0])], corners[int(run.points[-1])])
        for run in regions.runs
    ]
    surfaces = []
    for region, loops in regions.surfaces:
        made = [geo.addCurveLoop([sign * lines[number] for number, sign in loop]) for loop in loops]
        surfaces.append((geo.addPlaneSurface(made), region))
    return surfaces, [(line, run.part) for line, run in zip(lines, regions.runs, strict=True)]


def background(gmsh: ModuleType, cells: np.ndarray, factor: float) -> None:
    """Let cells be larger by a factor than those that are given."""
    sides = np.linalg.norm(cells - np.roll(cells, 1, axis=1), axis=2)
    _, number = np.unique(cells.reshape(-1, 2), axis=0, return_inverse=True)
    number = np.asarray(number).ravel()
    each = np.repeat(sides.mean(axis=1), 3)
    size = np.bincount(number, each) / np.bincount(number)
    values = factor * size[number].reshape(-1, 3)
    x, y = cells[:, :, 0], cells[:, :, 1]
    view = gmsh.view.add("cffem size")
    gmsh.view.addListData(
        view, "ST", len(cells), np.hstack([x, y, np.zeros_like(x), values]).ravel()
    )
    field = gmsh.model.mesh.field.add("PostView")
    gmsh.model.mesh.field.setNumber(field, "ViewTag", view)
    gmsh.model.mesh.field.setAsBackgroundMesh(field)


def taken(
    gmsh: ModuleType,
    surfaces: list[tuple[int, int]],
    lines: list[tuple[int, int]],
    domain: MeshData,
) -> RawMesh:
    """The arrays of gmsh's mesh, with the names of the given one."""
    numbers, coordinates, _ = gmsh.model.mesh.getNodes()
    place = np.zeros(int(numbers.max()) + 1, dtype=np.int64)
    place[numbers.astype(np.int64)] = np.arange(len(numbers))
    found = [gmsh.model.mesh.getElementsByType(2, surface)[1] for surface, _ in surfaces]
    cells = place[np.concatenate(found).astype(np.int64)].reshape(-1, 3)
    regions = [np.full(len(n) // 3, r) for n, (_, r) in zip(found, surfaces, strict=True)]
    facets, values = [np.empty((0, 2), dtype=np.int64)], [np.empty(0, dtype=np.int32)]
    for line, part in lines:
        if part:
            _, ends = gmsh.model.mesh.getElementsByType(1, line)
            facets.append(place[ends.astype(np.int64)].reshape(-1, 2))
            values.append(np.full(len(facets[-1]), part, dtype=np.int32))
    used, cells_of_used = np.unique(cells, return_inverse=True)
    back = np.zeros(len(numbers), dtype=np.int64)
    back[used] = np.arange(len(used))
    return RawMesh(
        "triangle",
        1,
        np.ascontiguousarray(coordinates.reshape(-1, 3)[used, :2]),
        np.asarray(cells_of_used).reshape(-1, 3).astype(np.int64),
        np.concatenate(regions).astype(np.int32),
        back[np.concatenate(facets)],
        np.concatenate(values),
        dict(domain.names),
    )
