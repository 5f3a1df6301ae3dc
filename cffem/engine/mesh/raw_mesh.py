# SPDX-License-Identifier: MIT
"""A whole mesh as plain arrays on one rank, chosen from a file's elements and checked before
DOLFINx distributes it.

The checks are geometric and independent of how cells are oriented: coordinates are finite, no cell
is degenerate or turned inside out (its Jacobian keeps one sign), a facet belongs to at most two
cells, and these lie on opposite sides of it (no fold).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import basix
import numpy as np

from cffem.engine.mesh.msh_format import DIMENSIONS, ELEMENT_TYPES, Elements, MeshError, MshFile

DEGENERATE = 1e-12
CHUNK = 50_000

FACETS = {
    "interval": "point",
    "triangle": "interval",
    "quadrilateral": "interval",
    "tetrahedron": "triangle",
    "hexahedron": "quadrilateral",
}
# Gmsh's element type of the facets of each kind of cell.
FACET_TYPES = {
    (cell, degree): kind
    for cell, facet in FACETS.items()
    for degree in (1, 2, 3)
    for kind, (name, its_degree, _) in ELEMENT_TYPES.items()
    if name == facet and (name == "point" or its_degree == degree)
}


@dataclass(frozen=True)
class RawMesh:
    """Arrays of a mesh; nodes of cells and facets are in gmsh's order.

    Attributes:
        cell: name of the cell, `triangle` for instance.
        degree: polynomial degree of the geometry.
        points: coordinates, with as many columns as the mesh needs (2 for a mesh in the plane).
        cells: points of each cell.
        cell_values: number of each cell's physical group, 0 for none.
        facets: points of each facet that belongs to a physical group.
        facet_values: number of that group.
        names: dimension and number of each physical group.
        within_curves: coordinates of the points that lie within a curve of the geometry, not at its
            ends, where the file of a plane mesh says so.
    """

    cell: str
    degree: int
    points: np.ndarray
    cells: np.ndarray
    cell_values: np.ndarray
    facets: np.ndarray
    facet_values: np.ndarray
    names: dict[str, tuple[int, int]]
    within_curves: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def dimension(self) -> int:
        return DIMENSIONS[self.cell]


def from_msh(file: MshFile) -> RawMesh:
    """Choose cells and facets from a file: the elements of highest dimension, and those of
    one dimension less.
    """
    present = [elements for elements in file.elements if len(elements.nodes) > 0]
    dimension = max((dimension_of(elements) for elements in present), default=0)
    if dimension == 0:
        raise MeshError("the mesh file has no cells; mesh the geometry before saving it")
    cells = grouped_only(single_type([e for e in present if dimension_of(e) == dimension], "cells"))
    facets = [e for e in present if dimension_of(e) == dimension - 1]
    cell, degree, _ = ELEMENT_TYPES[cells.type]
    boundary = named_facets(facets, cell, degree)
    used, points = used_points(file, cells.nodes)
    known = np.isin(boundary.nodes, used).all(axis=1)
    boundary = Elements(boundary.type, boundary.nodes[known], boundary.groups[known])
    return RawMesh(
        cell=cell,
        degree=degree,
        points=points,
        cells=np.searchsorted(used, cells.nodes),
        cell_values=cells.groups.astype(np.int32),
        facets=np.searchsorted(used, boundary.nodes),
        facet_values=boundary.groups.astype(np.int32),
        names=name_groups(file, {dimension: cells.groups, dimension - 1: boundary.groups}),
        within_curves=points[np.isin(used, file.within_curves)]
        if dimension == points.shape[1] == 2
        else np.empty((0, 2)),
    )


def dimension_of(elements: Elements) -> int:
    return DIMENSIONS[ELEMENT_TYPES[elements.type][0]]


def single_type(elements: list[Elements], what: str) -> Elements:
    if len(elements) > 1:
        kinds = ", ".join(
            f"{ELEMENT_TYPES[e.type][0]} of degree {ELEMENT_TYPES[e.type][1]}" for e in elements
        )
        raise MeshError(f"the mesh mixes {what} of several kinds ({kinds}); use one kind only")
    return elements[0]


def grouped_only(cells: Elements) -> Elements:
    """Cells outside all physical groups are construction aids, unless there are no groups at
    all.
    """
    if not np.any(cells.groups):
        return cells
    inside = cells.groups > 0
    return Elements(cells.type, cells.nodes[inside], cells.groups[inside])


def named_facets(facets: list[Elements], cell: str, degree: int) -> Elements:
    """Facets that belong to a physical group; in MSH 2 a facet in two groups is written twice."""
    wanted = FACET_TYPES[cell, degree]
    marked = [Elements(e.type, e.nodes[e.groups > 0], e.groups[e.groups > 0]) for e in facets]
    marked = [e for e in marked if len(e.nodes) > 0]
    if not marked:
        return Elements(
            wanted,
            np.empty((0, ELEMENT_TYPES[wanted][2]), dtype=np.int64),
            np.empty(0, dtype=np.int64),
        )
    found = single_type(marked, "facets")
    if found.type != wanted:
        raise MeshError(
            "the mesh has facets of another kind or degree than its cells; save it again with gmsh"
        )
    rows = np.sort(found.nodes, axis=1)
    if len(np.unique(as_keys(rows, int(rows.max()) + 1), axis=0)) < len(rows):
        raise MeshError(
            "a facet of the mesh belongs to two physical groups; give every facet to one group only"
        )
    return found


def used_points(file: MshFile, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tags and coordinates of the points that cells use, without coordinates that are zero
    throughout.
    """
    order = np.argsort(file.tags, kind="stable")
    tags = file.tags[order]
    if len(np.unique(tags)) < len(tags):
        raise MeshError("the mesh file numbers two nodes alike; it is damaged")
    used = np.unique(nodes)
    places = np.searchsorted(tags, used)
    if len(tags) == 0 or places[-1] >= len(tags) or np.any(tags[places] != used):
        raise MeshError(
            "the mesh file has cells with nodes that it does not contain; it is damaged"
        )
    points = file.points[order][places]
    if not np.isfinite(points).all():
        raise MeshError("the mesh has coordinates that are not finite (NaN or Inf)")
    extent = np.abs(points).max()
    columns = 3
    while columns > 1 and np.all(np.abs(points[:, columns - 1]) <= 1e-14 * extent):
        columns -= 1
    return used, np.ascontiguousarray(points[:, :columns])


def name_groups(file: MshFile, groups: dict[int, np.ndarray]) -> dict[str, tuple[int, int]]:
    """Names of the physical groups that occur; a group without a name is called by its number."""
    names: dict[str, tuple[int, int]] = {}
    for dimension, numbers in groups.items():
        for number in np.unique(numbers[numbers > 0]).tolist():
            name = file.names.get((dimension, number), str(number))
            if name in names:
                raise MeshError(
                    f"two physical groups of the mesh are called {name!r}; rename one of them"
                )
            names[name] = (dimension, number)
    return names


# --------------------------------------------------------------------------------------------------
# Checks


def check(mesh: RawMesh, cells: np.ndarray) -> None:
    """Raise `MeshError` if the geometry is impossible.

    Args:
        mesh: the mesh.
        cells: its cells with nodes in DOLFINx's order.
    """
    if mesh.points.shape[1] < mesh.dimension:
        raise MeshError(
            f"the {mesh.cell}s of the mesh lie in a space of dimension {mesh.points.shape[1]}; "
            "they are degenerate"
        )
    check_jacobians(mesh.cell, mesh.degree, mesh.points, cells)
    check_facets(mesh, cells)


def check_jacobians(cell: str, degree: int, points: np.ndarray, cells: np.ndarray) -> None:
    """Every cell has a Jacobian determinant of one sign, not small compared with its diameter."""
    kind, dimension = basix.CellType[cell], DIMENSIONS[cell]
    element = basix.create_element(
        basix.ElementFamily.P, kind, degree, basix.LagrangeVariant.equispaced
    )
    inside, _ = basix.make_quadrature(kind, 2 * degree)
    where = np.vstack([basix.geometry(kind), inside])
    if degree == 1 and len(basix.geometry(kind)) == dimension + 1:
        where = inside[:1]  # the Jacobian of a straight simplex is the same everywhere
    gradients = element.tabulate(1, where)[1:, :, :, 0]
    square = points.shape[1] == dimension
    for start in range(0, len(cells), CHUNK):
        corners = points[cells[start : start + CHUNK]]
        jacobians = np.einsum("dqn,cng->cqgd", gradients, corners, optimize=True)
        volumes = np.linalg.det(
            jacobians if square else np.einsum("cqgd,cqge->cqde", jacobians, jacobians)
        )
        volumes = volumes if square else np.sqrt(np.abs(volumes))
        scale = DEGENERATE * np.ptp(corners, axis=1).max(axis=1) ** dimension
        bad = (np.abs(volumes).min(axis=1) <= scale) | (
            np.sign(volumes).max(axis=1) != np.sign(volumes).min(axis=1)
        )
        if bad.any():
            middle = corners[np.argmax(bad)].mean(axis=0).tolist()
            raise MeshError(
                f"{int(bad.sum())} of the mesh's cells are degenerate or inverted, one near "
                f"{tuple(round(v, 6) for v in middle)}"
            )


def check_facets(mesh: RawMesh, cells: np.ndarray) -> None:
    """A facet belongs to one or two cells, and two cells lie on opposite sides of it."""
    kind = basix.CellType[mesh.cell]
    local = basix.topology(kind)[mesh.dimension - 1]
    corners = cells[:, : len(basix.geometry(kind))]
    facets = np.sort(np.concatenate([corners[:, vertices] for vertices in local]), axis=1)
    owners = np.tile(np.arange(len(cells)), len(local))
    keys = as_keys(facets, len(mesh.points))
    order = np.argsort(keys) if keys.ndim == 1 else np.lexsort(keys.T)
    alike = keys[order[1:]] == keys[order[:-1]]
    alike = alike if keys.ndim == 1 else alike.all(axis=1)
    if np.any(alike[1:] & alike[:-1]):
        raise MeshError(
            "a facet of the mesh belongs to more than two cells; the mesh has cells twice or "
            "branches"
        )
    if facets.shape[1] > 3 or mesh.points.shape[1] != mesh.dimension:
        return  # the facets of hexahedra are not flat, and surfaces in space have no sides
    pairs = (order[:-1][alike], order[1:][alike])
    sides = [side_of_facet(mesh, facets[pair], cells[owners[pair]]) for pair in pairs]
    if np.any(sides[0] * sides[1] >= 0):
        raise MeshError(
            "the mesh folds over itself: two cells lie on the same side of a facet that they share"
        )


def as_keys(rows: np.ndarray, count: int) -> np.ndarray:
    """Rows of numbers below a count as single numbers, which are sorted many times faster,
    where they fit into 64 bits.
    """
    if rows.shape[1] * max(count, 2).bit_length() > 63:
        return rows
    keys = rows[:, 0].astype(np.int64)
    for column in rows.T[1:]:
        keys = keys * count + column
    return keys


def side_of_facet(mesh: RawMesh, facets: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Sign of the side of each facet on which the middle of the cell lies."""
    origin = mesh.points[facets[:, 0]]
    edges = [mesh.points[facets[:, i]] - origin for i in range(1, facets.shape[1])]
    edges.append(mesh.points[cells].mean(axis=1) - origin)
    return np.sign(np.linalg.det(np.stack(edges, axis=1)))
