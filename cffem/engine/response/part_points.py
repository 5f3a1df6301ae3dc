# SPDX-License-Identifier: MIT
"""Quadrature points of a named part of the domain or of its boundary, with their cells and weights.

A facet is reached through a cell that has it: reference points of the facet are placed in the
reference cell and mapped with it, so that curved cells and all cell types are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import basix
import numpy as np

from cffem import _compat
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.assembly.discretisation import Discretisation


@dataclass(frozen=True)
class PartPoints:
    """Quadrature points on this rank.

    Attributes:
        points: one row of three coordinates for each.
        cells: the cell of each.
        weights: of the rule, the Jacobian included.
        order: numbers that sort the points of all ranks in an order that does not depend on them.
    """

    points: np.ndarray
    cells: np.ndarray
    weights: np.ndarray
    order: np.ndarray


def part_points(
    discretisation: Discretisation, name: str, boundary: bool, degree: int
) -> PartPoints:
    """The points of a part.

    Args:
        discretisation: the mesh with its parts.
        name: a physical name, "domain" or "boundary".
        boundary: whether it is a part of the boundary.
        degree: of the polynomials that are integrated exactly on affine cells.
    """
    mesh = discretisation.mesh
    kind = basix.CellType[_compat.cell_name(mesh.ufl_domain())]
    if not boundary:
        cells = _cells(discretisation, name)
        points, weights = basix.make_quadrature(kind, degree)
        return _mapped(mesh, cells, points, weights, np.eye(points.shape[1]), 0)
    pairs = _facets(discretisation, name)
    found = []
    topology, corners = basix.topology(kind), basix.geometry(kind)
    facet_kinds = basix.cell.subentity_types(kind)[mesh.topology.dim - 1]
    for local, vertices in enumerate(topology[mesh.topology.dim - 1]):
        cells = np.array([cell for cell, facet in pairs if facet == local], dtype=np.int32)
        if mesh.topology.dim == 1:
            points, weights = corners[vertices], np.ones(1)
            tangents = np.zeros((1, 0))
        else:
            # The first vertex and its neighbours span a facet, a triangle or a quadrilateral.
            rule, weights = basix.make_quadrature(facet_kinds[local], degree)
            span = rule.shape[1]
            tangents = (corners[vertices[1 : 1 + span]] - corners[vertices[0]]).T
            points = corners[vertices[0]] + rule @ tangents.T
        found.append(_mapped(mesh, cells, points, weights, tangents, local))
    return PartPoints(
        *(
            np.concatenate([getattr(part, key) for part in found])
            for key in ("points", "cells", "weights", "order")
        )
    )


def _mapped(
    mesh: Mesh,
    cells: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    tangents: np.ndarray,
    local: int,
) -> PartPoints:
    """Reference points in each of these cells, with weights times the size of the image."""
    element = mesh.ufl_domain().ufl_coordinate_element()
    element = getattr(element, "_sub_element", element)
    table = element.tabulate(1, points)
    nodes = mesh.geometry.x[mesh.geometry.dofmap[cells]]
    places = np.einsum("pn,cnk->cpk", table[0], nodes)
    slopes = np.einsum("dpn,cnk->cpkd", table[1:], nodes) @ tangents
    sizes = np.sqrt(np.linalg.det(np.swapaxes(slopes, -1, -2) @ slopes))
    count = len(points)
    original = np.asarray(mesh.topology.original_cell_index)[cells]
    order = (original[:, None] * 16 + local) * count + np.arange(count)
    return PartPoints(
        places.reshape(-1, 3),
        np.repeat(cells, count).astype(np.int32),
        (sizes * weights).ravel(),
        order.ravel(),
    )


def _cells(discretisation: Discretisation, name: str) -> np.ndarray:
    mesh, marked = discretisation.mesh, discretisation.domain
    owned = mesh.topology.index_map(mesh.topology.dim).size_local
    if name == "domain":
        return np.arange(owned, dtype=np.int32)
    dimension, tag = marked.names.get(name, (-1, -1))
    if dimension != mesh.topology.dim or marked.cell_tags is None:
        there = sorted(n for n, (d, _) in marked.names.items() if d == mesh.topology.dim)
        raise InputError(
            f"Part({name!r}) is no part of this mesh; there are: {', '.join(['domain', *there])}"
        )
    cells = marked.cell_tags.find(tag)
    return cells[cells < owned]


def _facets(discretisation: Discretisation, name: str) -> list[tuple[int, int]]:
    """Pairs (cell, number of the facet in it); a facet belongs to one rank, its cell may be a
    ghost there.
    """
    mesh, boundary = discretisation.mesh, discretisation.boundary
    dimension = mesh.topology.dim
    mesh.topology.create_connectivity(dimension - 1, dimension)
    mesh.topology.create_connectivity(dimension, dimension - 1)
    if name == "boundary":
        facets = boundary.exterior
    elif name in boundary.tags:
        facets = boundary.facets[name]
    else:
        there = ", ".join(["boundary", *sorted(boundary.tags)])
        raise InputError(f"Trace({name!r}) is no part of the boundary; there are: {there}")
    to_cells = mesh.topology.connectivity(dimension - 1, dimension)
    to_facets = mesh.topology.connectivity(dimension, dimension - 1)
    pairs = []
    for facet in facets:
        cell = to_cells.links(facet)[0]
        pairs.append((int(cell), int(np.flatnonzero(to_facets.links(cell) == facet)[0])))
    return pairs
