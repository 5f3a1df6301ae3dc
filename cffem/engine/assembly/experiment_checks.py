# SPDX-License-Identifier: MIT
"""What a user says about an experiment, checked against the library and the mesh before anything is
assembled or solved.

Every refusal is an `InputError` of one sentence, raised on all ranks alike. What can be checked
without a mesh is checked where it is declared, in `cffem.symbols.problem.conditions` and
`cffem.symbols.problem.experiment`.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.engine.assembly.traces import essential, natural_kinds
from cffem.engine.inputs import field_data as data
from cffem.forms.elements import H1, HDIV, carrier
from cffem.forms.orders import derivatives
from cffem.symbols.algebra.nodes import Div
from cffem.symbols.algebra.splitting import as_written, is_stand_in
from cffem.symbols.coordinates import t
from cffem.symbols.errors import AS_TWO_FIELDS, InputError, nearest
from cffem.symbols.fields import Component, Field, ScalarField, VectorField
from cffem.symbols.operators import dt
from cffem.symbols.problem.conditions import (
    BoundaryCondition,
    Dirichlet,
    Natural,
    Neumann,
    Robin,
    is_zero,
)
from cffem.symbols.problem.experiment import Experiment

# Nodal values that miss more than this share of what is given on the boundary are refused.
MISSED = 0.5

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from dolfinx.mesh import Mesh

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.engine.mesh.boundary_parts import Boundary
    from cffem.engine.mesh.meshes import MeshData
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

# Below this share of n_i² a side counts as parallel to the axis; rounding of coordinates leaves
# 1e-30.
FLAT = 1e-20


def check_mesh(mesh: Mesh) -> None:
    """Refuse a mesh with coordinates that are not finite numbers, and curves and surfaces in
    a space of more dimensions.
    """
    cells, space = mesh.topology.dim, mesh.geometry.dim
    if cells != space:
        raise InputError(
            f"the mesh has cells of dimension {cells} in space of dimension {space}, and equations "
            "on curves and surfaces have no terms here; map it onto a flat mesh, with its metric "
            "as known fields, or, where it should have other cells: gmsh saves only what has a "
            f"physical name, so name its {'surface' if space == 2 else 'volume'} as well"
        )
    if mesh.comm.allreduce(int(not np.all(np.isfinite(mesh.geometry.x)))):
        raise InputError("the mesh has coordinates that are not finite numbers")


def check_fields(library: Library | System, experiment: Experiment) -> None:
    """Every field has an equation, an element and the initial values its equation asks for,
    and nothing else is given.
    """
    unknowns = library.unknowns
    multiplier = experiment.constraint.multiplier if experiment.constraint is not None else None
    known = {*unknowns, *([multiplier[0]] if multiplier else [])}
    for unknown in unknowns:
        if unknown not in experiment.elements:
            raise InputError(
                f"field {unknown} has no element; add {unknown}: ('Lagrange', 2) to elements"
            )
    for unknown in library.fields:
        if unknown not in known:
            raise InputError(
                f"field {unknown} occurs in a term but has no equation; write a System with a "
                "library for it"
            )
    for unknown in experiment.elements:
        if unknown not in known:
            raise InputError(f"field {unknown} has an element but occurs in no equation")
    for unknown, equation in library.equations.items():
        for order in range(equation.time_order):
            key = dt(unknown) if order else unknown
            if key not in experiment.initial:
                said = f"dt({unknown})" if order else f"{unknown}"
                raise InputError(
                    f"the initial value of {said} is missing: give it in `initial` of the "
                    "experiment"
                )
        if equation.time_order < 2 and dt(unknown) in experiment.initial:
            raise InputError(
                f"dt({unknown}) has an initial value, but the equation of {unknown} is not of "
                "second order in time"
            )


def check_data(discretisation: Discretisation) -> None:
    """Initial values, forcing and boundary values fit their fields and the mesh, and a steady
    problem has no time in them.
    """
    experiment, mesh = discretisation.experiment, discretisation.mesh
    if experiment.time is None:
        given = [*experiment.forcing.values(), *(c.value for c in discretisation.boundary.declared)]
        # A field counts every coordinate among its free symbols, hence terms are asked for t
        # itself.
        if any(map(data.depends_on_time, given)) or any(
            t in term.atoms(sp.Symbol) for term in discretisation.library.values()
        ):
            raise InputError(
                "the problem is steady, but a term or its data contain t; add a time window or "
                "leave t out"
            )
    for key, value in experiment.initial.items():
        data.check_on_mesh(
            value, key if isinstance(key, Field) else key.expr, mesh, f"the initial value of {key}"
        )
    for unknown, value in experiment.forcing.items():
        data.check_on_mesh(value, unknown, mesh, f"the forcing of {unknown}", callables=False)
    check_conditions(discretisation.boundary.declared, mesh)
    check_nodal_values(discretisation)


def check_nodal_values(discretisation: Discretisation) -> None:
    """Refuse given boundary values that lie between the nodes for the most part, as a narrow
    peak does.
    """
    sharp, boundary = discretisation.sharp_boundary, discretisation.boundary
    for condition in boundary.declared:
        value = data.as_data(condition.value)
        continuous = (
            discretisation.kinds[condition.unknown] == H1
            if condition.unknown in discretisation.kinds
            else False
        )
        if (
            not isinstance(condition, Dirichlet)
            or not continuous
            or not isinstance(value, sp.Basic | tuple)
        ):
            continue
        degree = discretisation.spaces.elements[condition.unknown].degree
        for part in data.components(
            value, condition.field.shape, discretisation.mesh.geometry.dim, str(condition)
        ):
            missed = [
                sharp.missed(at_time, degree, boundary.facets_of(condition.on))
                for at_time in (
                    sharp.at_times(part) if not part.is_Atom and sharp.unseen(part) else ()
                )
            ]
            if max(missed, default=0.0) > MISSED:
                raise InputError(
                    f"{condition}: {part} lies between the nodes of the mesh, whose values miss "
                    f"{max(missed):.0%} of it; refine "
                    "the mesh there, or name the part of the boundary where it acts"
                )


def check_conditions(conditions: Iterable[BoundaryCondition], mesh: Mesh) -> None:
    """Boundary values fit their field and the mesh."""
    for condition in conditions:
        natural = isinstance(condition, Natural | Neumann | Robin)
        if isinstance(condition, Natural) and condition.is_law:
            continue
        data.check_on_mesh(
            condition.value, condition.field, mesh, str(condition), callables=not natural
        )
        if isinstance(condition, Robin):
            what = f"the coefficient of {condition}"
            data.check_on_mesh(
                condition.coefficient, ScalarField("scalar"), mesh, what, callables=False
            )


def check_second_derivatives(boundary: Boundary, leaders: Mapping[Field, Field]) -> None:
    """Refuse conditions on second derivatives for which the equations have no use, and one too many
    on a part.

    Args:
        boundary: the parts of the boundary with their conditions.
        leaders: the fields whose second derivatives the auxiliary fields are.
    """
    for condition in boundary.declared:
        if is_stand_in(condition.unknown) and condition.unknown not in leaders:
            there = ", ".join(sorted(map(as_written, leaders))) or "none"
            raise InputError(
                f"{condition}: only second derivatives that terms of third or higher order are "
                "made of take conditions, "
                f"here: {there}"
            )
    for part, conditions in boundary.conditions.items():
        for stand_in, leader in leaders.items():
            natural = [
                c for c in conditions if isinstance(c, Neumann | Robin) and c.unknown == leader
            ]
            if (
                natural
                and essential(conditions, stand_in, H1)
                and essential(conditions, leader, H1)
            ):
                raise InputError(
                    f"{natural[0]}: {leader} and {as_written(stand_in)} are given on {part!r} as "
                    "well; two conditions are enough"
                )


def check_open_parts(discretisation: Discretisation) -> None:
    """Refuse a divergence constraint where nobody says whether the boundary is open.

    With the multiplier p the equation of v contains −∇p, whose trace p n stays where v·n is free:
    it is taken to be zero where a natural condition of v is declared, and nowhere else.
    """
    constraint = discretisation.experiment.constraint
    if constraint is None or not constraint.expr.has(Div) or discretisation.multiplier is None:
        return
    multiplier = discretisation.multiplier[0]
    for part, conditions in discretisation.boundary.conditions.items():
        for unknown in constraint.fields:
            natural = any(
                isinstance(c, Natural | Neumann | Robin) and c.unknown == unknown
                for c in conditions
            )
            if natural or essential(conditions, unknown, discretisation.kinds[unknown]):
                continue
            if unknown.shape and not _normal_given(discretisation, part, conditions, unknown):
                raise InputError(
                    f"nothing is said about {unknown} on the boundary part {part!r}, where the "
                    "trace of the multiplier "
                    f"{multiplier} remains: declare Dirichlet({unknown}, …), or "
                    f"Neumann({unknown}, 0) where the boundary is open"
                )


def _normal_given(
    discretisation: Discretisation,
    part: str,
    conditions: Iterable[BoundaryCondition],
    unknown: Field,
) -> bool:
    """Whether the components that are given contain the normal one, on every facet of a part."""
    by_components = [
        c for c in conditions if isinstance(c, Dirichlet) and isinstance(c.field, Component)
    ]
    given = {c.field.index for c in by_components if c.unknown == unknown}
    if not given:
        return False
    boundary, mesh = discretisation.boundary, discretisation.mesh
    normal, measure = ufl.FacetNormal(mesh.ufl_domain()), boundary.measure(boundary.tags[part])
    free = sum(normal[i] ** 2 for i in range(mesh.geometry.dim) if i not in given)
    area, across = (
        mesh.comm.allreduce(fem.assemble_scalar(_compat.form(value * measure, mesh.comm)))
        for value in (sum(normal[i] ** 2 for i in range(mesh.geometry.dim)), free)
    )
    return bool(across <= FLAT * area)


def check_effects(discretisation: Discretisation) -> None:
    """Refuse natural data that meet no term, or an essential condition: they would have no
    effect.
    """
    boundary = discretisation.boundary
    weak = [
        *discretisation.weak_terms.values(),
        *filter(None, discretisation.weak_anchors.values()),
    ]
    split = {a: leader for a, leader in discretisation.leaders.items() if is_stand_in(a.field)}
    weak += [auxiliary.definition for auxiliary in split]
    check_second_derivatives(boundary, {a.field: leader for a, leader in split.items()})
    traces = [sp.sympify(trace) for term in weak for trace, _ in term.traces]
    # Traces of weak curls are the business of `cffem.engine.assembly.auxiliary`; there the value
    # gives the normal part only.
    turning = {
        field for field in discretisation.leaders.values() if discretisation.kinds[field] == HDIV
    }
    felt = {d.field for trace in traces for d in derivatives(trace) if d.order > 0} | turning
    dimension = discretisation.mesh.geometry.dim
    for condition in boundary.declared:
        if not isinstance(condition, Neumann | Robin) or (
            isinstance(condition, Neumann) and is_zero(condition.value)
        ):
            continue
        unknown = condition.unknown
        if unknown not in felt:
            raise InputError(
                f"{condition}: no term has a natural trace of {unknown}, so it would have no effect"
            )
        by_term = [natural_kinds(term.traces, unknown, dimension) for term in weak]
        kinds = set().union(*by_term)
        # The traces of one term are one traction; those of several terms are not.
        if isinstance(unknown, VectorField) and len(kinds) > 1 and sum(map(bool, by_term)) > 1:
            names = ", ".join(sorted(map(str, kinds)))
            raise InputError(
                f"{condition}: {unknown} has several natural traces ({names}); write their terms "
                "as one term div(…), "
                "whose traction the condition then gives as a whole"
            )
        for part, conditions in boundary.conditions.items():
            given = (
                essential(conditions, unknown, discretisation.kinds[unknown])
                and unknown not in turning
            )
            # ∂u/∂n then stands in the definition of lap(u), whose test functions are free where its
            # values are.
            free = [a.field for a, leader in split.items() if leader == unknown]
            given = given and all(essential(conditions, f, H1) for f in free)
            if given and any(c is condition for c in conditions):
                raise InputError(
                    f"{condition}: the value of {unknown} is given on {part!r} as well; give one "
                    "of them"
                )


def checked_coefficients(
    library: Library | System, coefficients: Mapping[str, float]
) -> dict[str, float]:
    """All coefficients of a library, refused if one is unknown or not a finite number."""
    result = dict.fromkeys(library.names, 0.0)
    for name, value in coefficients.items():
        if name not in result:
            raise InputError(
                f"there is no term {name!r} for this coefficient; {nearest(name, library.names)}"
            )
        try:
            number = complex(value)
        except (TypeError, ValueError, OverflowError):
            number = complex(math.nan)
        if isinstance(value, bool | str) or not cmath.isfinite(number):
            raise InputError(f"the coefficient of {name!r} is not a finite number: {value!r}")
        if number.imag:
            raise InputError(
                f"the coefficient of {name!r} is complex, but coefficients are real; "
                f"{AS_TWO_FIELDS}"
            )
        result[name] = number.real
    return result


def is_subdomain(domain: MeshData, boundary: Boundary, part: str, what: str) -> bool:
    """Whether a named part consists of cells; a part of the boundary or a surface inside does not.

    Raises:
        InputError: the mesh has no such part, or it is periodic.
    """
    if any(part in (p.on, p.to) for p in boundary.periodic):
        raise InputError(f"{what} acts on {part!r}, a periodic side, which is no boundary")
    cells = {n for n, (d, _) in domain.names.items() if d == domain.mesh.topology.dim}
    if part in cells and domain.cell_tags is not None:
        return True
    if part in boundary.tags or part in boundary.surfaces:
        return False
    raise InputError(
        f"{what}: the mesh has no part {part!r}; "
        f"{nearest(part, [*cells, *boundary.tags, *boundary.surfaces])}"
    )


def check_has_effect(
    discretisation: Discretisation,
    part: str,
    equation: Field,
    elements: Mapping[Field, _ElementBase],
    what: str,
) -> None:
    """Refuse a term on a part of the boundary where the values of its field are given."""
    conditions = discretisation.boundary.conditions.get(part, [])
    if essential(conditions, equation, carrier(elements[equation]).space):
        raise InputError(
            f"{what} acts on {part!r}, where {equation} is given, and has no effect there"
        )


def check_time(library: Library | System, experiment: Experiment) -> None:
    """A time window where there are time derivatives, none where there are none."""
    order = max(equation.time_order for equation in library.equations.values())
    if order > 0 and experiment.time is None:
        raise InputError(
            "the library has a time derivative, but the experiment has no time: add "
            "time=Window(0, 1, steps=…)"
        )
    if order == 0 and experiment.time is not None:
        raise InputError(
            "the experiment has a time window, but no anchor is a time derivative: use time=None "
            "or anchor=dt(u)"
        )
