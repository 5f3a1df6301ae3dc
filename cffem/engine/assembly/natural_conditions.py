# SPDX-License-Identifier: MIT
"""Natural conditions: forms of the traces that are given for whole equations, what carries them,
and what is refused.

The theory is in `cffem.forms.natural_traces`. A given trace is an ingredient of its own in the
discrete equation, with the factor one, so that Newton's method, tangents and adjoints differentiate
laws like any term, and no deletion touches it. Where all that leaves a trace is deleted, nothing is
left that could carry the condition (`cffem.engine.assembly.carried`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import sympy as sp

from cffem.engine.assembly.traces import essential, natural_integrand
from cffem.forms.elements import H1, HCURL, carrier
from cffem.forms.natural_traces import NORMAL, WHOLE, common_direction, directions
from cffem.forms.orders import derivatives
from cffem.forms.weak import fresh
from cffem.symbols.algebra.nodes import Div
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field, ScalarField, VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.problem.conditions import Natural, Neumann, Robin, is_zero

if TYPE_CHECKING:
    from cffem.engine.assembly.discretisation import Discretisation
    from cffem.engine.assembly.ingredients import Ingredient
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

# What leaves traces in an equation besides its terms, in the place of their names.
ANCHOR, CONSTRAINT = "(anchor)", "(constraint)"


@dataclass(frozen=True)
class NaturalIngredient:
    """The given natural trace of an equation on one part of the boundary.

    Attributes:
        unknown: the field of the equation.
        part: the name of the part.
        ingredient: the form ∮ g·v.
    """

    unknown: Field
    part: str
    ingredient: Ingredient


def natural_ingredients(discretisation: Discretisation) -> list[NaturalIngredient]:
    """The natural traces that conditions give for whole equations, part by part."""
    found = []
    boundary, kinds = discretisation.boundary, discretisation.kinds
    for unknown in discretisation.unknowns:
        kind = VectorField if unknown.shape else ScalarField
        name = fresh(f"{unknown.name}_test", discretisation.spaces.elements)
        test = kind(name, dim=discretisation.mesh.geometry.dim)
        context = discretisation.context.extended({test: discretisation.tests[unknown]})
        leaves = leaving(discretisation, unknown)
        direction = common_direction(chain(*leaves.values()), kinds[unknown])
        for part, conditions in boundary.conditions.items():
            given = (conditions, test, unknown, part, boundary.data_symbols, direction)
            expr = natural_integrand(*given)
            if expr == 0 or essential(conditions, unknown, kinds[unknown]):
                continue
            integrand = discretisation.on_boundary(expr, context)
            form = integrand * boundary.measure(boundary.tags[part])
            ingredient = discretisation.ingredient(
                f"natural condition of {unknown} on {part}", form
            )
            found.append(NaturalIngredient(unknown, part, ingredient))
    return found


def leaving(discretisation: Discretisation, unknown: Field) -> dict[str, list[str]]:
    """What leaves natural traces in the equation of a field, with their directions: terms by
    their names, the anchor and the force of a constraint.
    """
    library, anchor = discretisation.library, discretisation.weak_anchors[unknown]
    weak = {
        name: weak
        for name, weak in discretisation.weak_terms.items()
        if library.locate(name)[0] == unknown
    }
    weak |= {} if anchor is None else {ANCHOR: anchor}
    found = {name: directions(term.traces, term.test) for name, term in weak.items() if term.traces}
    # A form was integrated by parts by whoever wrote it.
    found |= {name: [WHOLE] for name, term in weak.items() if isinstance(term.term, FormTerm)}
    constraint = discretisation.experiment.constraint
    acts = constraint is not None and unknown in constraint.fields
    if acts and discretisation.kinds[unknown] != HCURL:
        found[CONSTRAINT] = [NORMAL if constraint.expr.has(Div) else WHOLE]
    return found


def carried_by(
    discretisation: Discretisation, unknown: Field, coefficients: Mapping[str, float]
) -> list[str]:
    """What carries a natural trace of an equation with these coefficients."""
    return [name for name in leaving(discretisation, unknown) if coefficients.get(name, 1.0)]


def no_longer_carried(
    discretisation: Discretisation,
    coefficients: Mapping[str, float],
    factual: Mapping[str, float],
) -> dict[Field, list[str]]:
    """The fields, each with its parts, whose given natural traces nothing carries any more."""
    found: dict[Field, list[str]] = {}
    for part, conditions in discretisation.boundary.conditions.items():
        for condition in conditions:
            unknown = condition.unknown
            if not isinstance(condition, Natural) or is_zero(condition.value):
                continue
            now, before = (
                carried_by(discretisation, unknown, model) for model in (coefficients, factual)
            )
            if before and not now and part not in found.get(unknown, []):
                found.setdefault(unknown, []).append(part)
    return found


# Checks
# --------------------------------------------------------------------------------------------------


def check_natural(discretisation: Discretisation) -> None:
    """Refuse conditions on the natural trace of an equation that has none, whose trace is no
    single vector, or that meet another condition on the same field.
    """
    boundary, library = discretisation.boundary, discretisation.library
    kinds, leaders = discretisation.kinds, discretisation.leaders.values()
    for condition in boundary.declared:
        if not isinstance(condition, Natural):
            continue
        unknown = condition.unknown
        if unknown not in library.unknowns:
            raise InputError(f"{condition}: {unknown} has no equation, so it leaves no trace")
        _check_rates(condition, library)
        _check_derivatives(condition, discretisation)
        split = unknown in leaders and kinds[unknown] == H1
        for part, conditions in boundary.conditions.items():
            if not any(c is condition for c in conditions):
                continue
            mine = [c for c in conditions if c.unknown == unknown]
            if any(isinstance(c, Neumann | Robin) for c in mine) and not split:
                raise InputError(
                    f"two natural conditions for {unknown} on the boundary part {part!r}: "
                    f"{', '.join(str(c) for c in mine if isinstance(c, Natural | Neumann | Robin))}"
                )
            if not is_zero(condition.value) and essential(conditions, unknown, kinds[unknown]):
                raise InputError(
                    f"{condition}: the value of {unknown} is given on {part!r} as well; give one "
                    "of them"
                )
        if is_zero(condition.value):
            continue
        if unknown in leaders and not split:
            raise InputError(
                f"{condition}: on Nédélec, RT and BDM elements the traces of grad(div) and "
                "curl(curl) stand in two equations, so that Natural can be zero only; give "
                f"Neumann({unknown}, 0) and the law as a term on that part, cf.on(name, law), or "
                "Tangential, or take a Lagrange element"
            )
        if not leaving(discretisation, unknown):
            raise InputError(
                f"{condition}: no term in the equation of {unknown} is integrated by parts, so it "
                "leaves no natural trace that could be given"
            )


def _check_rates(condition: Natural, library: Library | System) -> None:
    """Refuse a law in time derivatives that its fields do not have."""
    if not condition.is_law:
        return
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    found = {d for v in values for d in sp.sympify(v).atoms(sp.Derivative) if t in d.variables}
    for derivative in sorted(found, key=str):
        base = derivative.expr.field if isinstance(derivative.expr, Component) else derivative.expr
        order = sum(int(count) for variable, count in derivative.variable_count if variable == t)
        most = library.equations[base].time_order if base in library.equations else 0
        if order > most:
            raise InputError(
                f"{condition} contains {derivative}, but the equation of {base} is of order {most} "
                "in time"
            )


def _check_derivatives(condition: Natural, discretisation: Discretisation) -> None:
    """Refuse a law in derivatives that its fields do not have on a boundary: second ones of
    piecewise linear functions, say, are zero.
    """
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    elements = discretisation.spaces.elements
    for derived in (d for v in values if condition.is_law for d in derivatives(sp.sympify(v))):
        if derived.field in elements and not carrier(elements[derived.field]).conforming(
            derived.operator, derived.order
        ):
            raise InputError(
                f"{condition}: on a part of the boundary a law has values and first derivatives "
                f"only, of fields that have them there, but {derived.field} is taken to the order "
                f"{derived.order}"
            )


def check_carried(discretisation: Discretisation, coefficients: Mapping[str, float]) -> None:
    """Refuse coefficients with which nothing is left that could carry a given natural trace."""
    for condition in discretisation.boundary.declared:
        if not isinstance(condition, Natural) or is_zero(condition.value):
            continue
        if not carried_by(discretisation, condition.unknown, coefficients):
            carriers = ", ".join(leaving(discretisation, condition.unknown))
            raise InputError(
                f"{condition}: {carriers} would carry it, but the coefficients of all of them are "
                "zero"
            )
