# SPDX-License-Identifier: MIT
"""Values of a weak curl on the boundary, where a Neumann condition gives n × curl B of an H(div)
field: a wall with a given stress.

The weak curl ω lives in Lagrange (in space: Nédélec) elements, whose boundary unknowns are
essential there. They are the projection of the data onto the traces of that space in L2 of the
parts concerned,

    ∮ (n × ω)·(n × τ) = ∮ g·(n × τ)   for all τ,     in the plane   ∮ ω τ = ∮ (g_x n_y − g_y n_x) τ,

so that corners need no normal of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import ufl
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.traces import vector_value
from cffem.engine.inputs import field_data as data
from cffem.engine.solve.linear import LinearSolver
from cffem.forms.elements import HDIV
from cffem.forms.lowering import Lowering
from cffem.symbols.fields import Field
from cffem.symbols.operators import as_expr
from cffem.symbols.problem.conditions import BoundaryCondition, Natural, Neumann, is_zero

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation


class TraceValues:
    """The boundary values of one weak curl.

    Args:
        discretisation: spaces, boundary parts and data.
        auxiliary: the weak curl.
        given: the condition on each part where n × curl of its field is given.
        places: local positions of its unknowns there, owned by this rank.

    Attributes:
        timeless: whether the data do not depend on time.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        auxiliary: Field,
        given: Mapping[str, BoundaryCondition],
        places: np.ndarray,
    ):
        self.discretisation, self.places = discretisation, places
        self.timeless = not any(
            data.depends_on_time(condition.value) for condition in given.values()
        )
        spaces, comm = discretisation.spaces, discretisation.mesh.comm
        trial, test = (
            spaces.parts(ufl.TrialFunction(spaces.space))[auxiliary],
            discretisation.tests[auxiliary],
        )
        normal, boundary = (
            ufl.FacetNormal(discretisation.mesh.ufl_domain()),
            discretisation.boundary,
        )
        everywhere = boundary.measure(tuple(boundary.tags[part] for part in given))

        def turned(value: Expr) -> Expr:
            return (
                ufl.cross(normal, value)
                if auxiliary.shape
                else value * ufl.as_vector((normal[1], -normal[0]))
            )

        matrix = _compat.assemble_matrix(
            _compat.form(ufl.inner(turned(trial), turned(test)) * everywhere, comm)
        )
        rows = PETSc.IS().createGeneral(spaces.global_rows(places), comm=comm)
        self.solver = LinearSolver(matrix.createSubMatrix(rows, rows))
        for thing in (matrix, rows):
            thing.destroy()
        form: ufl.Form = 0
        for part, condition in given.items():
            if not is_zero(condition.value):
                form += ufl.inner(self._value(condition), turned(test)) * boundary.measure(
                    boundary.tags[part]
                )
        self.form = _compat.form(form, comm)
        self.values, self.right = self.solver.matrix.createVecs()
        self._at: float | None = None

    def _value(self, condition: BoundaryCondition) -> Expr:
        symbols = self.discretisation.boundary.data_symbols
        value = symbols[condition] if condition in symbols else as_expr(condition.value)
        return Lowering(self.discretisation.context)(vector_value(value, condition.unknown))

    def put(self, state: np.ndarray, time: float) -> None:
        """Write the values at a time into a state; collective."""
        if self._at is None or (not self.timeless and time != self._at):
            self.discretisation.time.value = time
            self.right.array[:] = self.discretisation.spaces.assembled(self.form)[self.places]
            self.solver.solve(self.right, self.values, "the boundary values of a weak curl")
            self._at = time
        state[self.places] = self.values.array_r


def trace_values(discretisation: Discretisation, places: np.ndarray) -> list[TraceValues]:
    """All weak curls whose boundary values are given and not zero.

    Args:
        discretisation: spaces and boundary parts.
        places: gives the local positions of a field's unknowns on named parts, owned by this rank.
    """
    found = []
    for auxiliary, leader in discretisation.leaders.items():
        if discretisation.kinds[leader] != HDIV:
            continue
        given = {
            part: next(
                c for c in conditions if isinstance(c, Natural | Neumann) and c.unknown == leader
            )
            for part, conditions in discretisation.boundary.conditions.items()
            if auxiliary.field in discretisation.pinned_with(conditions)
        }
        if any(not is_zero(condition.value) for condition in given.values()):
            found.append(
                TraceValues(
                    discretisation, auxiliary.field, given, places(auxiliary.field, tuple(given))
                )
            )
    return found
