# SPDX-License-Identifier: MIT
"""Diffusion of discontinuous fields on a mesh: the penalty of `cffem.forms.interior_penalty`, and
boundary values in Nitsche's way.

The values that a Dirichlet condition gives belong to the terms of second order themselves. Where
such a term is deleted they go with it, and what transport is left takes them where the flow enters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import sympy as sp
import ufl
from dolfinx import fem, la

from cffem import _compat
from cffem.engine.assembly.traces import given_values
from cffem.forms.elements import L2
from cffem.forms.interior_penalty import trace_constant
from cffem.forms.lowering import Context, Lowering
from cffem.forms.quadrature import with_fixed_quadrature
from cffem.forms.weakterm import WeakTerm
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import component
from cffem.symbols.problem.conditions import Dirichlet, Natural, Neumann, Robin

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.symbols.problem.conditions import BoundaryCondition


def surface_share(mesh: Mesh) -> fem.Function:
    """|∂K|/|K| of every cell; collective."""
    space = fem.functionspace(mesh, ("DG", 0))
    test, domain = ufl.TestFunction(space), mesh.ufl_domain()
    surface = ufl.avg(test) * 2 * ufl.dS(domain=domain) + test * ufl.ds(domain=domain)
    found = []
    for form in (test * ufl.dx(domain=domain), surface):
        vector = fem.assemble_vector(_compat.form(form, mesh.comm))
        vector.scatter_reverse(la.InsertMode.add)
        vector.scatter_forward()
        found.append(vector.array.copy())
    result = fem.Function(space, name="surface_share")
    result.x.array[:] = found[1] / found[0]
    return result


def penalties(discretisation: Discretisation, weak: WeakTerm) -> dict[Field, Expr]:
    """τ for each discontinuous field that a term differentiates twice."""
    elements, dimension = discretisation.spaces.elements, discretisation.mesh.geometry.dim
    fields = {field for penalty in weak.penalties for field in penalty.matrix}
    constants = {f: trace_constant(elements[f], dimension) for f in fields}
    return {f: c * discretisation.surface_share for f, c in constants.items()}


def between_cells(discretisation: Discretisation, weak: WeakTerm, context: Context) -> ufl.Form:
    """The integrals over facets between cells."""
    form, share = ufl.Form([]), penalties(discretisation, weak)
    low = Lowering(context)
    for penalty in weak.penalties:
        integrand = penalty.between_cells(low, context.values, share)
        form += integrand * ufl.dS(domain=context.domain)
    return with_fixed_quadrature(form)


def through_boundary(
    discretisation: Discretisation,
    weak: WeakTerm,
    conditions: Sequence[BoundaryCondition],
    context: Context,
    measure: ufl.Measure,
) -> ufl.Form:
    """What given values add on a part of the boundary, beside the flux itself."""
    form, share = ufl.Form([]), penalties(discretisation, weak)
    given = given_values(conditions, discretisation.boundary.data_symbols, discretisation.kinds)
    for penalty in weak.penalties:
        for field in penalty.matrix:
            if field not in given:
                continue
            gaps = differences(field, given[field], discretisation.mesh.geometry.dim)
            adjoint, penalised = penalty.given(field, gaps)
            form += discretisation.on_boundary(adjoint, context) * measure
            form += share[field] * discretisation.on_boundary(penalised, context) * measure
    return form


def differences(field: Field, value: sp.Expr, dimension: int) -> list[sp.Expr]:
    """The components of u − g."""
    if not field.shape:
        return [field - value]
    return [field[i] - component(value, i) for i in range(dimension)]


def weakly_given(
    weak: WeakTerm, conditions: Sequence[BoundaryCondition], spaces: Mapping[Field, str]
) -> set[Field]:
    """The fields whose values a term of second order takes on a part of the boundary; their fluxes
    stay as they are there.
    """
    fields = {field for penalty in weak.penalties for field in penalty.matrix}
    return {
        c.unknown
        for c in conditions
        if isinstance(c, Dirichlet) and c.unknown in fields and spaces[c.unknown] == L2
    }


def check_weakly_given(discretisation: Discretisation) -> None:
    """Refuse values and natural conditions for one discontinuous field on the same part, where both
    would enter the same flux.
    """
    fields = {
        field
        for weak in discretisation.weak_terms.values()
        for penalty in weak.penalties
        for field in penalty.matrix
    }
    for part, conditions in discretisation.boundary.conditions.items():
        for field in sorted(fields, key=str):
            mine = [c for c in conditions if c.unknown == field]
            natural = [c for c in mine if isinstance(c, Natural | Neumann | Robin)]
            if natural and any(isinstance(c, Dirichlet) for c in mine):
                raise InputError(
                    f"{natural[0]}: the value of {field} is given on {part!r} as well; give one "
                    "of them"
                )
