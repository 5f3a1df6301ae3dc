# SPDX-License-Identifier: MIT
"""Natural traces on each part of the boundary: kept, replaced by data, or refused where nobody says
what they are.

Integration by parts leaves traces such as ∂u/∂n or n × curl E. On a part with a Dirichlet condition
their test functions vanish; a Neumann or Robin condition replaces them by data. A trace that
contains derivatives of the unknown and meets no condition is an error: dropping it silently would
be a homogeneous Neumann condition that nobody declared. Where a Natural condition gives the trace
of the whole equation, the terms leave none, and `natural_integrand` is what stands for them.

Discontinuous elements have no unknowns on the boundary, so a Dirichlet condition replaces the field
itself in the traces, as the pressure in ∮ p v·n of a mixed form. A trace of another field that its
element does not have, such as this one, is never taken from inside: it is given, said to be zero by
`Neumann(v, 0)`, or asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any

import sympy as sp

from cffem.forms.elements import HCURL, HDIV, L2
from cffem.forms.natural_traces import WHOLE, given_components, given_trace
from cffem.forms.orders import derivatives, differentiated
from cffem.forms.parts import Trace
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.algebra.splitting import Recovered, as_written, is_stand_in
from cffem.symbols.coordinates import x
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field, VectorField
from cffem.symbols.operators import (
    Vec,
    as_expr,
    component,
    cross,
    curl,
    div,
    dot,
    grad,
    n,
    sym,
    transpose,
)
from cffem.symbols.problem.conditions import (
    BoundaryCondition,
    Dirichlet,
    Natural,
    Neumann,
    Robin,
    Tangential,
    is_zero,
)
from cffem.symbols.problem.measured import MeasuredFields


def replacements(unknown: Field, value: sp.Expr, dimension: int) -> dict[sp.Expr, sp.Expr]:
    """What the derivatives of a field in its natural traces become where the trace itself has a
    value.

    The trace is ∂u/∂n for `lap(u)`, sym(grad v)·n for `div(sym(grad(v)))`, that of the transpose
    likewise, (div v) n for `grad(div(v))` and n × curl E, in the plane curl E (n_y, −n_x), for
    `curl(curl(E))`, where only the tangential part of the value counts.
    """
    if dimension == 1:
        return {unknown.diff(x): value * n[0], dot(n, grad(unknown)): value}
    if not isinstance(unknown, VectorField):
        return {dot(n, grad(unknown)): value}
    value = vector_value(value, unknown)
    found = {
        dot(grad(unknown), n): value,
        dot(sym(grad(unknown)), n): value,
        dot(transpose(grad(unknown)), n): value,
        div(unknown): dot(value, n),
    }
    if dimension == 3:
        return {**found, cross(n, curl(unknown)): value - dot(value, n) * n}
    return {**found, curl(unknown): component(value, 0) * n[1] - component(value, 1) * n[0]}


def essential(conditions: Sequence[BoundaryCondition], unknown: Field, space: str) -> bool:
    """Whether all boundary unknowns of a field are given by these conditions.

    Args:
        conditions: the conditions declared on a part.
        unknown: the field.
        space: of its element. A discontinuous field has no boundary unknowns, and those of an
            H(div) field are normal components, which a tangential condition does not give.
    """
    if space == L2:
        return False
    kinds = (Dirichlet, Tangential) if space == HCURL else (Dirichlet,)
    mine = [c for c in conditions if isinstance(c, kinds) and c.unknown == unknown]
    if any(not isinstance(c.field, Component) for c in mine):
        return True
    return isinstance(unknown, VectorField) and {c.field.index for c in mine} == set(
        range(unknown.dim)
    )


def on_part(
    traces: Sequence[Trace],
    conditions: Sequence[BoundaryCondition],
    equation: Field,
    part: str,
    data: Mapping[Hashable, Field],
    dimension: int,
    spaces: Mapping[Field, str],
    multiplier: Field | None = None,
    weakly: Collection[Field] = (),
) -> list[Trace]:
    """The traces that remain on one part of the boundary.

    Args:
        traces: pairs (trace, weight) of the weak form.
        conditions: the conditions declared on this part.
        equation: the field whose test function the weights contain.
        part: the name of the part, for messages.
        data: symbols that stand for values that are DOLFINx functions.
        dimension: the dimension of space.
        spaces: the Sobolev space of every field's element.
        multiplier: that of a constraint; in terms of the library it stands for itself, traces
            included.
        weakly: discontinuous fields whose values the term takes in Nitsche's way; fluxes of them
            stay.
    """
    if essential(conditions, equation, spaces[equation]) or natural_of(conditions, equation):
        return []
    given = given_values(conditions, data, spaces)
    kept = []
    for trace, weight in with_tractions(traces, conditions, equation, data, dimension):
        if {*differentiated(trace)} & {*weakly}:
            kept.append((trace, weight))
            continue
        trace = trace.xreplace(given)
        for unknown in differentiated(trace):
            trace = imposed(trace, unknown, conditions, part, data, dimension, equation)
        for unknown in missing_values(trace, {equation, multiplier}, spaces):
            trace = said_to_vanish(trace, unknown, conditions, equation, part, spaces)
        if trace != 0:
            kept.append((trace, weight))
    return kept


def natural_of(conditions: Sequence[BoundaryCondition], unknown: Field) -> list[Natural]:
    """The conditions that give the natural trace of the equation of a field."""
    return [c for c in conditions if isinstance(c, Natural) and c.unknown == unknown]


def natural_integrand(
    conditions: Sequence[BoundaryCondition],
    test: Field,
    equation: Field,
    part: str,
    data: Mapping[Hashable, Field],
    direction: str,
) -> sp.Expr:
    """∮ g·v of the Natural conditions on one part of the boundary; zero without any.

    Args:
        conditions: the conditions declared on this part.
        test: the symbol of the test function.
        equation: the field of the equation.
        part: the name of the part, for messages.
        data: symbols that stand for values that are DOLFINx functions.
        direction: what the trace can be, see `cffem.forms.natural_traces`.

    Raises:
        InputError: the trace is given twice, or some of its components are not given.
    """
    mine = natural_of(conditions, equation)
    values = {c: data[c] if c in data else as_expr(c.value) for c in mine}
    indices = [c.field.index if isinstance(c.field, Component) else None for c in mine]
    if len({*indices}) < len(indices) or (None in indices and len(indices) > 1):
        raise InputError(f"two natural conditions for {equation} on the boundary part {part!r}")
    if not mine or None in indices:
        value = next(iter(values.values()), sp.S.Zero)
        return given_trace(vector_value(value, equation), test, direction) if value != 0 else value
    if direction != WHOLE:
        raise InputError(
            f"{mine[0]}: the natural trace of {equation} is {direction} here and has no components "
            f"of its own; give Natural({equation}, …) as a vector"
        )
    held = {
        c.field.index
        for c in conditions
        if isinstance(c, Dirichlet) and isinstance(c.field, Component) and c.unknown == equation
    }
    for index in sorted({*range(equation.dim or 0)} - held - {*indices}):
        raise InputError(
            f"nothing is said about {equation}[{index}] on the boundary part {part!r}: declare "
            f"Natural({equation}[{index}], …) or Dirichlet({equation}[{index}], …) there"
        )
    return given_components(
        {index: values[c] for c, index in zip(mine, indices, strict=True) if index is not None},
        test,
    )


def missing_values(
    trace: sp.Expr, apart: Collection[Field | None], spaces: Mapping[Field, str]
) -> list[Field]:
    """Other fields of the model whose own values a trace contains although their elements
    have none there.
    """
    found = []
    for unknown in sorted(trace.atoms(Field) & {*spaces} - {*apart}, key=str):
        there = (
            {HCURL: cross(n, unknown), HDIV: dot(n, unknown)}.get(spaces[unknown])
            if unknown.shape
            else None
        )
        rest = trace if there is None else trace.xreplace({there.as_coeff_Mul()[1]: sp.Dummy()})
        if spaces[unknown] in (L2, HCURL, HDIV) and unknown in rest.atoms(Field):
            found.append(unknown)
    return found


def said_to_vanish(
    trace: sp.Expr,
    unknown: Field,
    conditions: Sequence[BoundaryCondition],
    equation: Field,
    part: str,
    spaces: Mapping[Field, str],
) -> sp.Expr:
    """Zero, where a homogeneous Neumann condition on the field of the equation says so."""
    natural = [c for c in conditions if isinstance(c, Neumann | Robin) and c.unknown == equation]
    if natural and all(isinstance(c, Neumann) and is_zero(c.value) for c in natural):
        return sp.S.Zero
    value = f"Dirichlet({unknown}, …), " if spaces[unknown] == L2 else ""
    raise InputError(
        f"nothing is said about {unknown} on the boundary part {part!r}, where {trace} remains in "
        f"the equation of {equation}: "
        f"declare {value}Dirichlet({equation}, …), or Neumann({equation}, 0) where it is zero"
    )


def given_values(
    conditions: Sequence[BoundaryCondition],
    data: Mapping[Hashable, Field],
    spaces: Mapping[Field, str],
) -> dict[sp.Expr, sp.Expr]:
    """The boundary values of discontinuous fields, which traces contain in their place."""
    found = {}
    for condition in conditions:
        if isinstance(condition, Dirichlet) and spaces[condition.unknown] == L2:
            if isinstance(condition.field, Component):
                raise InputError(
                    f"{condition}: a discontinuous field is given as a whole, not by components"
                )
            by_points = isinstance(condition.value, MeasuredFields) or (
                callable(condition.value) and not isinstance(condition.value, sp.Basic)
            )
            if condition not in data and by_points:
                raise InputError(
                    f"{condition}: a discontinuous field needs an expression or a DOLFINx "
                    "function here"
                )
            value = data[condition] if condition in data else as_expr(condition.value)
            found[condition.field] = vector_value(value, condition.field)
    return found


def natural_kinds(traces: Sequence[Trace], unknown: Field, dimension: int) -> set[sp.Expr]:
    """The kinds of natural traces of a field that occur, such as sym(grad v)·n and div v."""
    return {
        p
        for p in replacements(unknown, unknown, dimension)
        if any(sp.sympify(trace).has(p) for trace, _ in traces)
    }


def with_tractions(
    traces: Sequence[Trace],
    conditions: Sequence[BoundaryCondition],
    equation: Field,
    data: Mapping[Hashable, Field],
    dimension: int,
) -> list[Trace]:
    """The traces of a term with those of several kinds replaced by the traction that a natural
    condition gives as a whole.

    div(2 μ sym(grad v) + λ div(v) I) leaves 2 μ sym(grad v)·n + λ div(v) n, which is σ·n; its parts
    have no values of their own.
    """
    natural = next(
        (c for c in conditions if isinstance(c, Neumann | Robin) and c.unknown == equation), None
    )
    several = (
        isinstance(equation, VectorField) and len(natural_kinds(traces, equation, dimension)) > 1
    )
    if natural is None or not several or (isinstance(natural, Neumann) and is_zero(natural.value)):
        return list(traces)
    moved = [
        pair
        for pair in traces
        if any(d.order > 0 and d.field == equation for d in derivatives(pair[0]))
    ]
    tests = {
        factor for _, weight in moved for factor in sp.Mul.make_args(weight) if shape_of(factor)
    }
    if len(tests) > 1 or any(not isinstance(test, VectorField) for test in tests):
        raise InputError(
            f"{natural}: the traction of {equation} is no single vector here; write the term as "
            "div of a tensor"
        )
    value = vector_value(data[natural] if natural in data else as_expr(natural.value), equation)
    if isinstance(natural, Robin):
        value = value - as_expr(natural.coefficient) * equation
    return [pair for pair in traces if pair not in moved] + [(value, tests.pop())]


def vector_value(value: sp.Expr, field: Any) -> sp.Expr:
    """A value of the field's shape: zero stands for the zero vector."""
    return Vec(*[sp.S.Zero] * field.dim) if value == 0 and isinstance(field, VectorField) else value


def imposed(
    trace: sp.Expr,
    unknown: Field,
    conditions: Sequence[BoundaryCondition],
    part: str,
    data: Mapping[Hashable, Field],
    dimension: int,
    equation: Field | None = None,
) -> sp.Expr:
    """A trace with the derivatives of a field replaced by what a Neumann or Robin condition
    says.
    """
    if isinstance(equation, Recovered):
        return trace  # a second derivative is recovered with the trace that the field itself has
    natural = [c for c in conditions if isinstance(c, Neumann | Robin) and c.unknown == unknown]
    if not natural:
        said = as_written(unknown)
        tested = (
            as_written(equation)
            if equation is not None and (is_stand_in(equation) or is_stand_in(unknown))
            else said
        )
        raise InputError(
            f"nothing is said about {said} on the boundary part {part!r}, where {trace} remains: "
            f"declare Dirichlet({tested}, …), Neumann({said}, 0), Robin or Natural there"
        )
    if len(natural) > 1:
        raise InputError(f"two natural conditions for {unknown} on the boundary part {part!r}")
    (condition,) = natural
    value = data[condition] if condition in data else as_expr(condition.value)
    if isinstance(condition, Robin):
        value = value - as_expr(condition.coefficient) * unknown
    for pattern, replacement in replacements(unknown, value, dimension).items():
        factor, node = pattern.as_coeff_Mul()
        trace = trace.xreplace({node: replacement / factor})
    if any(d.order > 0 and d.field == unknown for d in derivatives(trace)):
        raise InputError(
            f"the natural trace {trace} of {unknown} cannot be given by {condition}; write the "
            "term with lap, div or curl"
        )
    return trace
