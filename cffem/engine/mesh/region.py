# SPDX-License-Identifier: MIT
"""Unstructured meshes of the region where there are data: the sea between coasts and the edges of a
window.

The region is the union of the grid cells whose four corners have values at half of the times or
more (its largest connected part; clouds leave gaps in the sea, land has no values at all), or the
convex hull of scattered sensors. Its outline is traced, the steps of a coast are cut along the
corners that point to the sea's side, so that the mesh never leaves the data, and gmsh fills it with
triangles. Boundary parts are `coast` and `open`, the latter `inflow` and `outflow` where a velocity
tells them apart; cells are `sea`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.collective import collectively
from cffem.engine.mesh.mesh_shapes import gmsh_session, interval
from cffem.engine.mesh.meshes import MeshData, distribute, read_raw
from cffem.engine.mesh.msh_format import MAX_CELLS, MeshError
from cffem.symbols.coordinates import t, x, y
from cffem.symbols.fields import VectorField

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from mpi4py import MPI

    from cffem.symbols.problem.measured import MeasuredData


Loop = list[tuple[int, int]]
# Steps of a coast of up to this many grid cells are cut off.
STEP = 1.0
# Share of the times at which a grid point of the region has values.
MEASURED = 0.5


def region_mesh(
    comm: MPI.Comm, data: MeasuredData, h: float, velocity: VectorField | None = None
) -> MeshData:
    """A mesh of the region where a dataset has values: triangles in the plane, an interval on a
    line; collective.

    Args:
        comm: the MPI communicator.
        data: a `Dataset` on a line or on a plane grid, or of sensors in the plane.
        h: cell size, in the unit of the coordinates.
        velocity: a vector field of the data; the open boundary is then `inflow` where its mean over
            time points into the region, and `outflow` elsewhere.

    Raises:
        MeshError: the data are not plane, or no part of the region can hold a cell.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> land = np.zeros((6, 6, 3), dtype=bool)
        >>> land[:2, :2] = True
        >>> grid = {cf.x: np.arange(6.0), cf.y: np.arange(6.0), cf.t: np.arange(3.0)}
        >>> data = cf.Dataset.from_arrays(grid, {u: np.zeros((6, 6, 3))}, mask=land)
        >>> sorted(region_mesh(MPI.COMM_SELF, data, 1.0).names)
        ['coast', 'open', 'sea']
    """
    if data.dim == 1:
        return line_mesh(comm, data, h)
    if data.dim != 2:
        raise MeshError(
            f"a region is meshed on a line or in the plane, but the data have {data.dim} "
            "dimensions of space"
        )
    if data.period:
        axes = " and ".join(map(str, data.period))
        raise MeshError(
            f"the data repeat themselves along {axes}: give a mesh of one period and cf.Periodic "
            "on its sides"
        )
    if not 0 < h < float("inf"):
        raise MeshError(f"h must be a positive number, not {h!r}")

    def make() -> Mesh:
        flow = None if velocity is None else mean_velocity(data, velocity)
        loops, parts = (
            hull_outline(data.points, flow) if data.points is not None else grid_outline(data, flow)
        )
        area = abs(sum(signed_area(loop) for loop in loops))
        if 3 * area / h**2 > MAX_CELLS:
            raise MeshError(f"h = {h} asks for more than {MAX_CELLS} cells; choose a larger h")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "region.msh"
            write_region(path, loops, parts, h)
            return read_raw(path)

    return distribute(collectively(comm, make), comm)


def line_mesh(comm: MPI.Comm, data: MeasuredData, h: float) -> MeshData:
    """The interval between the first and the last point of data on a line, or of one period."""
    places = data.coordinates[x]
    if data.mask is not None and data.mask.reshape(len(places), -1).all(axis=1).any():
        raise MeshError(
            "some places on the line have no values at any time; leave them out, or give a mesh "
            "of the part to study"
        )
    length = data.period.get(x, float(places[-1] - places[0]))
    return interval(comm, h, length=length, origin=float(places[0]))


def mean_velocity(data: MeasuredData, velocity: VectorField) -> np.ndarray:
    """The mean over time of a velocity, 2 × places; zero where it was never measured."""
    if velocity.dim != 2 or any(velocity[i] not in data.values for i in range(2)):
        raise MeshError(
            f"the data have no plane velocity {velocity}; inflow and outflow follow a velocity "
            "that was measured"
        )
    places = len(data.shape) - (t in data.coordinates)
    means = []
    for i in range(2):
        values = data.values[velocity[i]]
        known = np.isfinite(values) if data.mask is None else ~data.mask & np.isfinite(values)
        axes = tuple(range(places, values.ndim))
        total = np.where(known, values, 0.0).sum(axis=axes)
        means.append(total / np.maximum(known.sum(axis=axes), 1))
    return np.array(means)


def open_part(flow: np.ndarray | None, start: np.ndarray, end: np.ndarray) -> str:
    """The name of an open edge from the velocity at its middle; the region lies on its left."""
    if flow is None:
        return "open"
    along = end - start
    return "inflow" if flow[0] * along[1] - flow[1] * along[0] < 0 else "outflow"


def write_region(path: Path, loops: list[np.ndarray], names: list[list[str]], h: float) -> None:
    """Mesh the inside of closed polygons, the first being the outer one; works on the calling
    rank alone.
    """
    with gmsh_session(**{"Mesh.Binary": 1}) as gmsh:
        curves: list[int] = []
        parts: dict[str, list[int]] = {}
        for loop, edges in zip(loops, names, strict=True):
            points = [gmsh.model.geo.addPoint(px, py, 0.0, h) for px, py in loop]
            lines = [
                gmsh.model.geo.addLine(a, b)
                for a, b in zip(points, [*points[1:], points[0]], strict=True)
            ]
            curves.append(gmsh.model.geo.addCurveLoop(lines))
            for line, name in zip(lines, edges, strict=True):
                parts.setdefault(name, []).append(line)
        surface = gmsh.model.geo.addPlaneSurface(curves)
        gmsh.model.geo.synchronize()
        for name, lines in sorted(parts.items()):
            gmsh.model.addPhysicalGroup(1, lines, name=name)
        gmsh.model.addPhysicalGroup(2, [surface], name="sea")
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))


def hull_outline(
    points: np.ndarray, flow: np.ndarray | None = None
) -> tuple[list[np.ndarray], list[list[str]]]:
    """The convex hull of sensors; all of it is open."""
    from scipy.spatial import ConvexHull

    hull = ConvexHull(points).vertices
    pairs = list(zip(hull, np.roll(hull, -1), strict=True))
    middle = [None if flow is None else (flow[:, a] + flow[:, b]) / 2 for a, b in pairs]
    return [points[hull]], [
        [open_part(m, points[a], points[b]) for m, (a, b) in zip(middle, pairs, strict=True)]
    ]


def grid_outline(
    data: MeasuredData, flow: np.ndarray | None = None
) -> tuple[list[np.ndarray], list[list[str]]]:
    """Outer and inner polygons of the region of a grid, and the part of the boundary that
    each edge belongs to.
    """
    cells = sea_cells(data)
    axes = data.coordinates[x], data.coordinates[y]
    loops, parts = [], []
    for loop in traced(cells):
        names = []
        for a, b in zip(loop, [*loop[1:], loop[0]], strict=True):
            middle = None if flow is None else (flow[:, a[0], a[1]] + flow[:, b[0], b[1]]) / 2
            ends = [np.array([axes[0][i], axes[1][j]]) for i, j in (a, b)]
            names.append(open_part(middle, *ends) if on_edge(a, b, cells.shape) else "coast")
        corners, names = without_steps(np.array(loop), names)
        loops.append(np.column_stack([axes[0][corners[:, 0]], axes[1][corners[:, 1]]]))
        parts.append(names)
    order = sorted(range(len(loops)), key=lambda k: -signed_area(loops[k]))
    return [loops[k] for k in order], [parts[k] for k in order]


def sea_cells(data: MeasuredData) -> np.ndarray:
    """Grid cells whose corners have values at enough times: the largest part that hangs together by
    edges.

    Where two cells touch at a corner only, one of them is left out: a region is no region in such a
        point.
    """
    from scipy.ndimage import label

    shape = data.shape[:2]
    valid = (
        np.ones(shape, dtype=bool)
        if data.mask is None
        else data.mask.reshape(*shape, -1).mean(axis=-1) <= 1 - MEASURED
    )
    cells = valid[:-1, :-1] & valid[1:, :-1] & valid[:-1, 1:] & valid[1:, 1:]
    while True:
        parts, count = label(cells)
        if not count:
            raise MeshError(
                "nowhere do four neighbouring grid points all have values at half of the times, "
                "so there is no region to mesh"
            )
        cells = parts == 1 + np.argmax(np.bincount(parts.ravel())[1:])
        a, b, c, d = cells[:-1, :-1], cells[1:, :-1], cells[:-1, 1:], cells[1:, 1:]
        pinched = np.argwhere((a & d & ~b & ~c) | (b & c & ~a & ~d))
        if not len(pinched):
            return cells
        i, j = pinched[0]
        cells[(i, j) if cells[i, j] else (i, j + 1)] = False


def traced(cells: np.ndarray) -> list[Loop]:
    """The outline of a set of grid cells as closed loops of grid points, the region on the left.

    Example:
        >>> traced(np.array([[True]]))
        [[(0, 0), (1, 0), (1, 1), (0, 1)]]
    """
    padded = np.pad(cells, 1)
    following: dict[tuple[int, int], tuple[int, int]] = {}
    for i, j in np.argwhere(cells):
        corners = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
        outside = [
            not padded[i + 1, j],
            not padded[i + 2, j + 1],
            not padded[i + 1, j + 2],
            not padded[i, j + 1],
        ]
        for k in range(4):
            if outside[k]:
                start, end = corners[k], corners[(k + 1) % 4]
                following[int(start[0]), int(start[1])] = int(end[0]), int(end[1])
    loops = []
    while following:
        start = min(following)
        loop, here = [start], following.pop(start)
        while here != start:
            loop.append(here)
            here = following.pop(here)
        loops.append(loop)
    return loops


def on_edge(a: tuple[int, int], b: tuple[int, int], shape: tuple[int, int]) -> bool:
    """Whether an edge of the outline is on the edge of the whole grid."""
    return any(a[k] == b[k] and a[k] in (0, shape[k]) for k in range(2))


def without_steps(corners: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """A polygon without points on straight lines, and with the steps of its coast cut off.

    A convex corner between two edges of the coast goes if it sticks out by no more than a step and
    nothing else of the outline is in the triangle that is cut; the new edge lies inside the region.
    """
    points: Loop = [(int(i), int(j)) for i, j in corners]
    names = list(names)
    changed = True
    while changed:
        changed = False
        k = 0
        while k < len(points) and len(points) > 4:
            before, here, after = points[k - 1], points[k], points[(k + 1) % len(points)]
            turn = (here[0] - before[0]) * (after[1] - here[1]) - (here[1] - before[1]) * (
                after[0] - here[0]
            )
            straight = turn == 0 and names[k - 1] == names[k]
            chord = float(np.hypot(after[0] - before[0], after[1] - before[1]))
            step = turn > 0 and names[k - 1] == names[k] == "coast" and turn <= STEP * chord
            if straight or (
                step
                and not any(
                    in_triangle(p, before, here, after)
                    for p in points
                    if p not in (before, here, after)
                )
            ):
                del points[k], names[k]
                changed = True
            else:
                k += 1
    return np.array(points), names


def in_triangle(
    p: tuple[int, int], a: tuple[int, int], b: tuple[int, int], c: tuple[int, int]
) -> bool:
    """Whether a point is in a triangle that is traversed counter-clockwise, its edges included."""
    return all(
        (q[0] - o[0]) * (p[1] - o[1]) - (q[1] - o[1]) * (p[0] - o[0]) >= 0
        for o, q in ((a, b), (b, c), (c, a))
    )


def signed_area(loop: np.ndarray) -> float:
    """The area of a polygon, negative if it is traversed clockwise."""
    after = np.roll(loop, -1, axis=0)
    return 0.5 * float(np.sum(loop[:, 0] * after[:, 1] - loop[:, 1] * after[:, 0]))
