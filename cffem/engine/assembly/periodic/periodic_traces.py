# SPDX-License-Identifier: MIT
"""Periodic sides of elements without nodal values: Nédélec, Raviart–Thomas, BDM, serendipity.

The unknowns of such an element on a facet depend on how the facet lies in its cell, so those of two
opposite facets differ by signs, and for higher degrees by small matrices. Both sides are therefore
compared through what they stand for: the trace τ(φ) of a function, its tangential part in H(curl),
its normal part in H(div), its value in H1. With the moments

    T_ij = ∫_f τ(φ_j) · m_i((x − x_f)/h) ds

of the functions φ_j of the closure of a facet f, over all polynomials m_i around its midpoint x_f
that the traces can hold, equal traces on opposite facets mean T_s u_s = T_m u_m, and u_s = C u_m
with C = T_s⁺ T_m. The moments do not depend on how either facet is numbered, and each rank makes
them for its own facets.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import basix
import numpy as np
import ufl
from scipy.spatial import cKDTree

from cffem import _compat
from cffem.forms.elements import H1, HCURL, HDIV, carrier
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx import fem
    from dolfinx.mesh import Mesh
    from ufl.core.expr import Expr

    from cffem.engine.assembly.spaces import Spaces
    from cffem.engine.mesh.boundary_parts import Boundary
    from cffem.symbols.fields import Field
    from cffem.symbols.problem.conditions import Periodic


@dataclass(frozen=True)
class TraceTolerances:
    """Relative tolerances of the comparison.

    Attributes:
        places: distance of midpoints that counts as none, relative to the size of the parts.
        moments: by which moments of opposite sides may differ; rounding leaves 1e-13.
        zero: entries of C below it are zero.
    """

    places: float = 1e-8
    moments: float = 1e-8
    zero: float = 1e-10


TRACE_TOLERANCES = TraceTolerances()


@dataclass(frozen=True)
class FacetTrace:
    """What one facet carries.

    Attributes:
        midpoint: its midpoint.
        numbers: global numbers of the unknowns of its closure in the state.
        moments: T.
    """

    midpoint: np.ndarray
    numbers: np.ndarray
    moments: np.ndarray


@dataclass(frozen=True)
class PeriodicRelation:
    """Unknowns that are combinations of others: row by row a slave, its masters, their weights."""

    slaves: np.ndarray
    masters: np.ndarray
    weights: np.ndarray


def identified_traces(
    spaces: Spaces, boundary: Boundary, condition: Periodic, unknown: Field
) -> PeriodicRelation:
    """The unknowns of a field on one part of the boundary in terms of those on the other, the
    same on all ranks; collective.

    Raises:
        InputError: the facets of the parts do not match.
    """
    here, there = (
        facet_traces(spaces, boundary.facets[part], unknown)
        for part in (condition.on, condition.to)
    )
    if len(here) != len(there):
        raise InputError(
            f"{condition}: the parts have {len(here)} and {len(there)} facets, so they do not "
            "match; use a mesh with equal facets on both parts"
        )
    places, others = (np.array([f.midpoint for f in facets]) for facets in (here, there))
    shift = others.mean(axis=0) - places.mean(axis=0)
    size = np.ptp(np.concatenate([places, others]), axis=0).max()
    distance, index = cKDTree(others).query(places + shift)
    if distance.max() > TRACE_TOLERANCES.places * size or len(np.unique(index)) != len(index):
        worst = tuple(float(c) for c in places[np.argmax(distance)].round(6))
        raise InputError(
            f"{condition}: the facet at {worst} has no partner; use a mesh with equal facets on "
            "both parts"
        )
    rows: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for facet, partner in zip(here, index, strict=True):
        other = there[partner]
        relation = np.linalg.pinv(facet.moments, rcond=1e-10) @ other.moments
        gap = np.abs(facet.moments @ relation - other.moments).max()
        if gap > TRACE_TOLERANCES.moments * np.abs(other.moments).max():
            raise InputError(
                f"{condition}: the facet at {tuple(float(c) for c in facet.midpoint.round(6))} and "
                "its partner do not have the same shape; use a mesh with equal facets on both parts"
            )
        for number, weights in zip(facet.numbers, relation, strict=True):
            kept = np.abs(weights) > TRACE_TOLERANCES.zero
            rows.setdefault(int(number), (other.numbers[kept], weights[kept]))
    slaves = [number for number, (masters, _) in rows.items() for _ in masters]
    return PeriodicRelation(
        np.array(slaves, dtype=np.int64),
        np.concatenate([m for m, _ in rows.values()] or [np.empty(0, np.int64)]),
        np.concatenate([w for _, w in rows.values()] or [np.empty(0)]),
    )


def facet_traces(spaces: Spaces, facets: np.ndarray, unknown: Field) -> list[FacetTrace]:
    """The traces of a field on some facets of all ranks; collective."""
    space, _ = spaces.own(unknown)
    mesh = spaces.mesh
    topology, dim = mesh.topology, mesh.topology.dim
    topology.create_connectivity(dim - 1, dim)
    topology.create_connectivity(dim, dim - 1)
    to_cells, to_facets = topology.connectivity(dim - 1, dim), topology.connectivity(dim, dim - 1)
    mine = facets[facets < topology.index_map(dim - 1).size_local]
    cells = np.array([to_cells.links(f)[0] for f in mine], dtype=np.int32)
    local = [
        int(np.flatnonzero(to_facets.links(c) == f)[0]) for c, f in zip(cells, mine, strict=True)
    ]
    tabulated = Tabulated(space, mesh, spaces.elements[unknown], cells)
    found = []
    for row, (cell, number) in enumerate(zip(cells, local, strict=True)):
        closure = np.array(space.dofmap.dof_layout.entity_closure_dofs(dim - 1, number))
        positions = spaces.dofs(unknown)[space.dofmap.cell_dofs(int(cell))[closure]]
        midpoint, moments = tabulated.moments(row, number, closure)
        found.append(FacetTrace(midpoint, global_numbers(spaces, positions), moments))
    return [facet for part in spaces.comm.allgather(found) for facet in part]


def global_numbers(spaces: Spaces, positions: np.ndarray) -> np.ndarray:
    """Global numbers of local positions in the state, those of ghosts included."""
    imap, block = spaces.space.dofmap.index_map, spaces.space.dofmap.index_map_bs
    blocks = imap.local_to_global((positions // block).astype(np.int32))
    return np.asarray(blocks, dtype=np.int64) * block + positions % block


class Tabulated:
    """The functions of an element, their places and the surface elements at quadrature points of
    all facets of some cells.
    """

    def __init__(
        self, space: fem.FunctionSpace, mesh: Mesh, element: _ElementBase, cells: np.ndarray
    ):
        self.kind = carrier(element).space
        self.dim = mesh.geometry.dim
        degree = max(element.embedded_superdegree, 1)
        cell = element.cell_type
        kinds = basix.cell.subentity_types(cell)[self.dim - 1]
        vertices = [np.array(c) for c in basix.topology(cell)[self.dim - 1]]
        corners = basix.geometry(cell)
        points, self.weights, self.tangents = [], [], []
        for facet_kind, index in zip(kinds, vertices, strict=True):
            x, w = basix.make_quadrature(facet_kind, 2 * degree + 2)
            spanned = np.array([corners[v] - corners[index[0]] for v in index[1 : self.dim]])
            points.append(corners[index[0]] + x.reshape(len(w), -1) @ spanned)
            self.weights.append(w)
            self.tangents.append(spanned)
        self.starts = np.concatenate([[0], np.cumsum([len(w) for w in self.weights])])
        everywhere = np.concatenate(points)
        comm = mesh.comm

        def at_points(value: Expr, size: int) -> np.ndarray:
            made = _compat.expression(value, everywhere, comm)
            return np.asarray(made.eval(mesh, cells)).reshape(len(cells), len(everywhere), size)

        self.places = at_points(ufl.SpatialCoordinate(mesh), self.dim)
        self.jacobians = at_points(ufl.Jacobian(mesh), self.dim**2).reshape(
            len(cells), len(everywhere), self.dim, self.dim
        )
        self.basis = self._functions(space, mesh, everywhere, cells)
        simplex = cell in (basix.CellType.triangle, basix.CellType.tetrahedron)
        self.exponents = [
            e
            for e in product(range(degree + 1), repeat=self.dim)
            if not simplex or sum(e) <= degree
        ]

    def _functions(
        self, space: fem.FunctionSpace, mesh: Mesh, points: np.ndarray, cells: np.ndarray
    ) -> np.ndarray:
        """cells × points × components × functions, oriented as the mesh says and pushed forward."""
        reference = space.element.basix_element.tabulate(0, points)[0]
        count, size = reference.shape[1], len(points) * reference.shape[2]
        mesh.topology.create_entity_permutations()
        turns = mesh.topology.get_cell_permutation_info()
        found = np.empty((len(cells), len(points), reference.shape[2], count))
        for row, cell in enumerate(cells):
            turned = np.ascontiguousarray(reference.transpose(1, 0, 2)).reshape(-1)
            space.element.T_apply(turned, turns[[cell]], size)
            values = turned.reshape(count, len(points), -1)
            if self.kind != H1:
                jacobian = self.jacobians[row]
                piola = (
                    np.linalg.inv(jacobian).transpose(0, 2, 1)
                    if self.kind == HCURL
                    else jacobian / np.linalg.det(jacobian)[:, None, None]
                )
                values = np.einsum("pij,npj->npi", piola, values)
            found[row] = values.transpose(1, 2, 0)
        return found

    def moments(self, row: int, facet: int, closure: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The midpoint of a facet, and the moments of the functions of its closure."""
        part = slice(self.starts[facet], self.starts[facet + 1])
        tangents = np.einsum("qij,kj->qki", self.jacobians[row, part], self.tangents[facet])
        if self.dim == 2:
            normals = np.column_stack([tangents[:, 0, 1], -tangents[:, 0, 0]])
        else:
            normals = np.cross(tangents[:, 0], tangents[:, 1])
        area = np.linalg.norm(normals, axis=1)
        normals /= area[:, None]
        measure = self.weights[facet] * area
        places = self.places[row, part]
        midpoint = measure @ places / measure.sum()
        values = self.basis[row, part][:, :, closure]
        across = np.einsum("qi,qij->qj", normals, values) if self.kind != H1 else None
        if across is not None:
            normal_part = np.einsum("qi,qj->qij", normals, across)
            values = {HDIV: normal_part, HCURL: values - normal_part}[self.kind]
        size = measure.sum() ** (1 / (self.dim - 1))
        around = (places - midpoint) / size
        monomials = np.array([np.prod(around ** np.array(e), axis=1) for e in self.exponents])
        found = np.einsum("mq,q,qij->mij", monomials, measure, values)
        return midpoint, found.reshape(-1, len(closure))
