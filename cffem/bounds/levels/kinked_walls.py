# SPDX-License-Identifier: MIT
"""Prescribed values with kinks between the nodes, where gaps between levels may all be small by
accident.

The nodes of a level miss g − I g of prescribed values g. With the solution z of a dual problem,
what that does to a number is ∫ (g − I g) ∂z/∂n along the boundary, and beside a kink the sign of
g − I g depends on where the kink lies between the nodes. Several kinks may cancel on the coarser
levels and not on the finest. So the values are put on the finest level once more in another way: on
each facet by their projection in L2, whose error is orthogonal to polynomials and hardly moves
anything, averaged at nodes that facets share. How far that moves the solution, or its difference to
a deleted one, is what the nodes miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp
from dolfinx import fem, la

from cffem._compat import cell_geometry
from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.data_parts import simplices
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.enclosure import divided
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.interventions import Intervention, boundary

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution

# How often a facet is halved before it is integrated over: a kink then lies in a part whose share
# of the integral of |g − I g| is a thousandth at most.
HALVINGS = {1: 0, 2: 6, 3: 4}
# The degree up to which parts are integrated exactly.
EXACT = 6


class KinkedWalls:
    """The prescribed values of one level with kinks between its nodes, put there in another way.

    Args:
        model: that of the level.
        conditions: those of its conditions whose values have kinks between nodes.

    Raises:
        NotCovered: the cells are no straight simplices, the values change with time, or the element
            has no nodes.
    """

    def __init__(self, model: Model, conditions: Sequence[Dirichlet]):
        self.model = model
        simplices(model.discretisation.mesh)  # facets are divided as simplices
        for condition in conditions:
            self._check(condition)
        self._change = boundary(*(self._projected(condition) for condition in conditions))
        self._moved: Solution | None = None

    def _check(self, condition: Dirichlet) -> None:
        element = self.model.spaces.own(condition.unknown)[0].element.basix_element
        if data.depends_on_time(condition.value):
            raise NotCovered(
                f"{condition} has kinks between nodes and changes with time, and what the nodes "
                "miss is not known; put a mesh line there"
            )
        if element.family != basix.ElementFamily.P or not isinstance(condition.field, Field):
            raise NotCovered(f"{condition} has kinks between nodes, and its element no values")

    def moved(self, change: Intervention | None, norm: str = "L2") -> float:
        """How far the factual solution, or its difference to a changed one, moves; collective.

        Args:
            change: the deletion, None for the factual solution.
            norm: in which norm.

        Raises:
            SolveError: the deleted problem could not be solved.
        """
        factual, moved = self.model.factual, self._solution()
        if change is None:
            return factual.distance(moved, norm)
        deleted, both = self.model.solve(change), self.model.solve(change & self._change)
        pairs = zip(factual.states, moved.states, deleted.states, both.states, strict=True)
        return self.model.trajectory_norm(
            [a - b - (c - d) for a, b, c, d in pairs], factual.times, norm
        )

    def _solution(self) -> Solution:
        if self._moved is None:
            self._moved = self.model.solve(self._change)
        return self._moved

    def _projected(self, condition: Dirichlet) -> Dirichlet:
        """The condition with values that are projected facet by facet."""
        space = self.model.spaces.own(condition.unknown)[0]
        parts, mesh = self.model.discretisation.boundary, space.mesh
        fdim = mesh.topology.dim - 1
        facets = parts.facets_of(condition.on)
        function = fem.Function(space)
        data.interpolate(function, condition.value, condition.unknown, 0.0, str(condition))
        size, index = function.x.block_size, space.dofmap.index_map
        total, count = la.vector(index, size), la.vector(index, 1)
        for facet in facets[facets < mesh.topology.index_map(fdim).size_local]:
            nodes, values = self._on_facet(space, int(facet), condition.value)
            total.array.reshape(-1, size)[nodes] += values
            count.array[nodes] += 1
        for vector in (total, count):
            vector.scatter_reverse(la.InsertMode.add)
            vector.scatter_forward()
        # What other parts share keeps its value: they have conditions of their own.
        others = np.setdiff1d(parts.exterior, facets)
        shared = la.vector(index, 1)
        shared.array[fem.locate_dofs_topological(space, fdim, others)] = 1
        shared.scatter_reverse(la.InsertMode.add)
        shared.scatter_forward()
        taken = (count.array > 0) & (shared.array == 0)
        found = function.x.array.reshape(-1, size)
        found[taken] = total.array.reshape(-1, size)[taken] / count.array[taken, None]
        return Dirichlet(condition.field, function, on=condition.on)

    def _on_facet(
        self, space: fem.FunctionSpace, facet: int, value: object
    ) -> tuple[np.ndarray, np.ndarray]:
        """The nodes of a facet and the projection's values there, shape (nodes, components)."""
        mesh, element = space.mesh, space.element.basix_element
        fdim = mesh.topology.dim - 1
        cell = int(mesh.topology.connectivity(fdim, fdim + 1).links(facet)[0])
        beside = mesh.topology.connectivity(fdim + 1, fdim).links(cell)
        local = int(np.flatnonzero(beside == facet)[0])
        closure = np.asarray(element.entity_closure_dofs[fdim][local])
        corners = np.asarray(basix.cell.topology(element.cell_type)[fdim][local], dtype=np.int64)
        places = mesh.geometry.x[cell_geometry(mesh)[0][cell][corners]]
        reference = basix.geometry(element.cell_type)[corners]
        points, weights = _rule(fdim)
        inside = points @ reference
        basis = element.tabulate(0, inside)[0, :, closure, 0]
        gram = (basis * weights) @ basis.T
        given = _values(value, points @ places, space.dofmap.index_map_bs)
        return space.dofmap.cell_dofs(cell)[closure], np.linalg.solve(
            gram, (basis * weights) @ given
        )


def _rule(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Points on a simplex that is divided often, as barycentric coordinates, and weights."""
    if dim == 0:
        return np.ones((1, 1)), np.ones(1)
    kind = {1: basix.CellType.interval, 2: basix.CellType.triangle}[dim]
    parts = np.eye(dim + 1)[None]
    for _ in range(HALVINGS[dim + 1]):
        parts = divided(parts)
    points, weights = basix.make_quadrature(kind, EXACT)
    inner = np.column_stack([1 - points.sum(axis=1), points])
    places = np.einsum("qv,pvb->pqb", inner, parts).reshape(-1, dim + 1)
    return places, np.tile(weights / weights.sum() / len(parts), len(parts))


def _values(value: object, places: np.ndarray, size: int) -> np.ndarray:
    """Given values at some places, shape (places, components)."""
    entries = list(value) if isinstance(value, tuple | list | sp.MatrixBase) else [value]
    if len(entries) != size:
        raise NotCovered("prescribed values with kinks between nodes are given in another form")
    columns = [numeric(sp.sympify(entry), (*SPACE, t))(*places.T, 0.0) for entry in entries]
    return np.stack([np.broadcast_to(column, len(places)) for column in columns], axis=1)
