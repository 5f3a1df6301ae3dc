# SPDX-License-Identifier: MIT
"""Boundary data that a quadrature rule on facets cannot see, as functions with the same moments on
every facet.

As `cffem.engine.inputs.sharp_data` does it in cells: on each facet the data g become the polynomial
with the same moments. A cell may have several facets on the boundary with different polynomials, so
there is one function for the facets of each number in their cells; it is a polynomial of the same
degree in the cell, and the normal of the reference cell tells which one counts.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import basix
import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.inputs.moments import Facets, moments, orthonormal
from cffem.engine.inputs.sharp_data import SharpData

if TYPE_CHECKING:
    from ufl.core.expr import Expr


class SharpBoundary(SharpData):
    """The data on the boundary of one discretisation that quadrature on facets cannot see."""

    @cached_property
    def _cell(self) -> str:
        return _compat.cell_name(self.mesh.ufl_domain())

    @cached_property
    def cells(self) -> Facets:
        """Where the moments are: on the exterior facets."""
        topology, dim = self.mesh.topology, self.mesh.topology.dim
        topology.create_connectivity(dim - 1, dim)
        topology.create_connectivity(dim, dim - 1)
        exterior = _compat.exterior_facets(self.mesh)
        to_cells, to_facets = (
            topology.connectivity(dim - 1, dim),
            topology.connectivity(dim, dim - 1),
        )
        owners = np.array([to_cells.links(facet)[0] for facet in exterior], dtype=np.int64)
        numbers = [
            int(np.flatnonzero(to_facets.links(c) == f)[0])
            for c, f in zip(owners, exterior, strict=True)
        ]
        return Facets(self.mesh, exterior, owners, np.array(numbers, dtype=np.int64))

    def unseen(self, expr: sp.Expr) -> bool:
        """Whether rules on facets do not see a function; the ends of an interval see
        everything, and prisms are left alone.
        """
        return self._cell not in ("interval", "prism", "pyramid") and super().unseen(expr)

    def missed(self, expr: sp.Expr, degree: int, entities: np.ndarray) -> float:
        """The share of data that interpolation of a degree on some facets misses, by their
        integrals; collective.
        """
        facets, comm = self.cells, self.mesh.comm
        chosen = np.isin(facets.entities, entities)
        element = basix.ufl.element("P", facets.name, degree).basix_element
        points, weights = basix.make_quadrature(element.cell_type, degree)
        nodal = weights @ element.tabulate(0, points)[0, :, :, 0]
        sizes = facets.measures[chosen] / weights.sum()
        places = np.tile(element.points, (facets.count, 1, 1))
        found = facets.values(expr, np.arange(facets.count), places) @ nodal
        exact = moments(expr, facets, 0)[:, 0] * math.sqrt(weights.sum())
        gap, total = ((sizes * np.abs(part[chosen])).sum() for part in (found - exact, exact))
        gap, total = comm.allreduce(float(gap)), comm.allreduce(float(total))
        return gap / total if total > 0 else 0.0

    def _new(self, degree: int) -> Expr:
        space = fem.functionspace(self.mesh, ("DG", degree))
        return tuple(fem.Function(space) for _ in self.cells.origins)

    def _coefficients(self, made: Any) -> tuple[fem.Function, ...]:
        return tuple(made)

    def _standing(self, made: Any) -> Expr:
        """The function of the facet on which an integral is."""
        normal = ufl.classes.ReferenceNormal(self.mesh.ufl_domain())
        outward = basix.cell.facet_outward_normals(basix.CellType[self._cell])
        total = ufl.as_ufl(0.0)
        for function, direction in zip(made, outward, strict=True):
            gap = normal - ufl.as_vector(direction.tolist())
            total = total + ufl.conditional(ufl.lt(ufl.dot(gap, gap), 1e-6), function, 0.0)
        return total

    def fill(self, made: Any, values: np.ndarray) -> None:
        """Give the functions the values of the moments; facets are on the rank of their cell,
        so nothing is sent.
        """
        space, facets = made[0].function_space, self.cells
        element = space.ufl_element()
        for number, function in enumerate(made):
            chosen = facets.numbers == number
            if chosen.any():
                points = facets.seen_from(number, element.basix_element.points)
                basis = orthonormal(facets.name, element.degree).tabulate(0, points)[0]
                function.x.array[space.dofmap.list[facets.owners[chosen]].ravel()] = (
                    values[chosen] @ basis.T
                ).ravel()
