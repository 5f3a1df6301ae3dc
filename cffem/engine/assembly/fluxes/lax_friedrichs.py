# SPDX-License-Identifier: MIT
"""Nonlinear conservation laws of discontinuous fields on a mesh: the Lax–Friedrichs flux between
cells and through the boundary.

A term of a single field brings its own dissipation ½ λ [u][v], λ being the largest speed of both
sides, which a deletion takes away with it. Fields that such terms couple (depth and discharge of
shallow water) have common speeds, the eigenvalues of Σ_j α_j ∂T_j/∂(∂w)·n; their dissipation is an
ingredient of its own, with the factual coefficients α and the present state. A deletion keeps it,
so that the equation stays linear in α. On the boundary the other side has the given values g; where
only some of the coupled fields are given, at a wall say, these are mirrored, 2g − w, and the others
continue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sympy as sp
import ufl

from cffem.engine.assembly.traces import given_values
from cffem.forms.conservation_laws import components, largest_speed, spectral_bounds, speed_matrix
from cffem.forms.elements import L2
from cffem.forms.lowering import Context, Lowering
from cffem.forms.orders import derivatives
from cffem.forms.quadrature import with_fixed_quadrature
from cffem.forms.weakterm import WeakTerm
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import component
from cffem.symbols.problem.conditions import Dirichlet

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.symbols.problem.conditions import BoundaryCondition

Bounds = list[tuple[sp.Expr, sp.Expr]]


@dataclass(frozen=True)
class Coupled:
    """Discontinuous fields with common speeds.

    Attributes:
        fields: the fields.
        bounds: of the speeds, see `cffem.forms.conservation_laws.spectral_bounds`.
        names: the terms that couple them.
        coefficients: theirs.
    """

    fields: tuple[Field, ...]
    bounds: Bounds
    names: tuple[str, ...]
    coefficients: tuple[float, ...]


def coupled_fields(
    discretisation: Discretisation, coefficients: Mapping[str, float]
) -> list[Coupled]:
    """The groups of discontinuous fields that nonlinear conservation laws couple."""
    library, kinds = discretisation.library, discretisation.kinds
    neighbours: dict[Field, set[Field]] = {}
    nonlinear: set[Field] = set()
    terms: dict[Field, list[tuple[str, float]]] = {}
    for name, weak in discretisation.weak_terms.items():
        own, factor = library.locate(name)[0], coefficients.get(name, 0.0)
        if not factor or kinds[own] != L2 or isinstance(weak.term, FormTerm):
            continue
        others = {
            d.field
            for d in derivatives(weak.term)
            if d.order == 1 and isinstance(d.field, Field) and kinds.get(d.field) == L2
        }
        if others and not weak.penalties:
            terms.setdefault(own, []).append((name, float(factor)))
            for field in others:
                neighbours.setdefault(own, set()).add(field)
                neighbours.setdefault(field, set()).add(own)
        nonlinear |= {own} if weak.conserved is not None else set()
    found, seen = [], set()
    for start in sorted(nonlinear, key=str):
        group, waiting = set(), {start}
        while waiting:
            field = waiting.pop()
            group.add(field)
            waiting |= neighbours.get(field, set()) - group
        if len(group) < 2 or start in seen:
            continue
        seen |= group
        fields = tuple(f for f in discretisation.unknowns if f in group)
        listed = [pair for f in fields for pair in terms.get(f, [])]
        matrix = speed_matrix(
            {f: [(c, library[name]) for name, c in terms.get(f, [])] for f in fields},
            discretisation.mesh.geometry.dim,
        )
        names, factors = zip(*listed, strict=True)
        found.append(Coupled(fields, spectral_bounds(matrix), names, factors))
    return found


def own_bounds(discretisation: Discretisation, weak: WeakTerm, own: Field) -> Bounds:
    """Bounds of the speeds of a term in the equation of a field by itself."""
    assert weak.conserved is not None
    dimension = discretisation.mesh.geometry.dim
    return spectral_bounds(weak.conserved.jacobian([own], dimension))


def flux_form(
    discretisation: Discretisation, weak: WeakTerm, own: Field, sign: int, context: Context
) -> ufl.Form:
    """The fluxes of a term between cells and through the boundary."""
    assert weak.conserved is not None
    group = next((g for g in discretisation.coupled if own in g.fields), None)
    bounds = [] if group is not None else own_bounds(discretisation, weak, own)
    low, test = Lowering(context), context.values[weak.test]
    normal = [low(f) for f in weak.conserved.normal()]
    steps = [ufl.jump(part) for part in parts(test)]
    integrand = sum(0.5 * (f("+") - f("-")) * v for f, v in zip(normal, steps, strict=True))
    if bounds:
        integrand -= sign * between(low, bounds, context.values[own], test)
    form = integrand * ufl.dS(domain=context.domain)
    for part, conditions in discretisation.boundary.conditions.items():
        if not any(
            isinstance(c, Dirichlet) and c.unknown in weak.conserved.fields for c in conditions
        ):
            fields = " or ".join(f"Dirichlet({f}, …)" for f in weak.conserved.fields)
            raise InputError(
                f"the flux of {weak.term} through the boundary part {part!r} needs values of the "
                f"other side: declare {fields} there, which is used where it enters"
            )
        beyond = other_side(discretisation, conditions, group.fields if group else (own,))
        along = sp.Add(
            *(
                (f + f.xreplace(beyond)) / 2 * v
                for f, v in zip(weak.conserved.normal(), tests(weak.test, normal), strict=True)
            )
        )
        here = discretisation.boundary.measure(discretisation.boundary.tags[part])
        form += discretisation.on_boundary(along, context) * here
        if bounds:
            form -= sign * at_boundary(discretisation, bounds, beyond, [own], context) * here
    return with_fixed_quadrature(form)


def dissipation_form(discretisation: Discretisation, group: Coupled) -> ufl.Form:
    """Σ ½ Λ [w][v] of the fields of a group, on the left of their equations."""
    context = discretisation.context
    low = Lowering(context)
    total = sum(
        between(low, group.bounds, context.values[f], discretisation.tests[f]) for f in group.fields
    )
    form = total * ufl.dS(domain=context.domain)
    for part, conditions in discretisation.boundary.conditions.items():
        beyond = other_side(discretisation, conditions, group.fields)
        here = discretisation.boundary.measure(discretisation.boundary.tags[part])
        if beyond:
            form += at_boundary(discretisation, group.bounds, beyond, group.fields, context) * here
    return with_fixed_quadrature(form)


def between(low: Callable[[sp.Expr], Expr], bounds: Bounds, value: Expr, test: Expr) -> Expr:
    """½ λ [u][v] with the largest speed of both sides."""
    speed = largest_speed(bounds, low)
    return 0.5 * ufl.max_value(speed("+"), speed("-")) * ufl.inner(ufl.jump(value), ufl.jump(test))


def at_boundary(
    discretisation: Discretisation,
    bounds: Bounds,
    beyond: Mapping[sp.Expr, sp.Expr],
    fields: Sequence[Field],
    context: Context,
) -> Expr:
    """½ λ (u − u_beyond) v."""

    def low(expr: sp.Expr) -> Expr:
        return discretisation.on_boundary(expr, context)

    outside = [(a.xreplace(beyond), b.xreplace(beyond)) for a, b in bounds]
    speed = ufl.max_value(largest_speed(bounds, low), largest_speed(outside, low))
    total = ufl.as_ufl(0.0)
    for field in fields:
        dimension = discretisation.mesh.geometry.dim
        for c, v in zip(
            components(field, dimension), parts(discretisation.tests[field]), strict=True
        ):
            if c in beyond:
                total += 0.5 * speed * low(c - beyond[c]) * v
    return total


def other_side(
    discretisation: Discretisation,
    conditions: Sequence[BoundaryCondition],
    fields: Sequence[Field],
) -> dict[sp.Expr, sp.Expr]:
    """What stands for the components of some fields beyond a part of the boundary."""
    given = given_values(conditions, discretisation.boundary.data_symbols, discretisation.kinds)
    whole, dimension = all(f in given for f in fields), discretisation.mesh.geometry.dim
    found = {}
    for field in fields:
        if field in given:
            for i, c in enumerate(components(field, dimension)):
                value = component(given[field], i) if field.shape else given[field]
                found[c] = value if whole else 2 * value - c
    return found


def parts(value: Expr) -> list[Expr]:
    """The components of a UFL expression."""
    return [value[i] for i in range(value.ufl_shape[0])] if value.ufl_shape else [value]


def tests(test: Field, like: Sequence[Expr]) -> list[sp.Expr]:
    """The components of a test function."""
    return [test[i] for i in range(len(like))] if test.shape else [test]
