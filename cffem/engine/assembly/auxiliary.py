# SPDX-License-Identifier: MIT
"""Boundary conditions of auxiliary fields: the weak divergence of an H(curl) field and the weak
curl of an H(div) field.

Those that stand for second derivatives of Lagrange fields have conditions of their own
(`cffem.symbols.algebra.splitting`).

They are defined by

    (s, q) = −(E, ∇q) + ∮ (E·n) q        and        (ω, τ) = (B, curl τ) + ∮ (n × B)·τ,

and the elements of E and B have no such traces. On each part of the boundary either the trace is
given, or the auxiliary field is, so that its test functions vanish there. For ω = curl B:

    Tangential(B, g) n × B = n × g (with B·n = 0 and g = 0: no slip) Neumann(B, g) n × curl B = g, ω
    is held at it (with B·n = 0 and g = 0: free slip) Robin(B, g, c) n × curl B + c B_t = g, so n ×
    B = n × (g − n × ω)/c (Navier's slip)

s = div E is held at zero where the tangential part of E is given, as on a perfect conductor, and
where Neumann(E, 0) says so; under a declared divergence constraint E·n = 0 is part of the
constraint. Holding ω is the essential, giving n × B the natural condition of the Hodge Laplacian.
Free slip (ω = 0, B·n = 0) converges with the order of the element. No slip mixes both, and
converges in L2 with the order of the element on RT, while ω loses up to half an order (Arnold,
Falk, Gopalakrishnan 2012).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import sympy as sp

from cffem.engine.assembly.traces import essential, vector_value
from cffem.forms.elements import HCURL, HDIV
from cffem.forms.parts import Trace
from cffem.forms.weakterm import Auxiliary
from cffem.symbols.algebra.nodes import Curl, Div
from cffem.symbols.algebra.splitting import base_of, is_stand_in
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field, VectorField
from cffem.symbols.operators import Grad, Sym, as_expr, cross, dt, n, vector
from cffem.symbols.problem.conditions import (
    BoundaryCondition,
    Natural,
    Neumann,
    Robin,
    Tangential,
    is_zero,
)
from cffem.symbols.problem.measured import MeasuredFields

if TYPE_CHECKING:
    from cffem.engine.assembly.discretisation import Discretisation


def leader_of(auxiliary: Auxiliary, kinds: Mapping[Field, str]) -> Field:
    """The field whose divergence, curl or second derivative an auxiliary field is."""
    if is_stand_in(auxiliary.field):
        return base_of(auxiliary.definition.term.args[0])
    vectors = [f for f in auxiliary.definition.term.atoms(Field) if kinds[f] in (HCURL, HDIV)]
    return min(vectors, key=str)


def is_held(
    leader: Field, space: str, conditions: Sequence[BoundaryCondition], closed: bool
) -> bool:
    """Whether the auxiliary field of a leader is held where these conditions are declared, at zero
    or at natural data.

    Args:
        leader: the field whose divergence or curl it is.
        space: of the leader's element, "H(curl)" or "H(div)".
        conditions: those declared on a part.
        closed: whether a constraint makes the normal component vanish in weak form.
    """
    if space not in (HCURL, HDIV):
        return False  # second derivatives have conditions of their own
    mine = [c for c in conditions if c.unknown == leader]
    natural = any(isinstance(c, Natural | Neumann) for c in mine)
    if space == HCURL:
        return essential(conditions, leader, space) or (natural and not closed)
    return natural and not any(isinstance(c, Tangential) for c in mine)


def auxiliary_traces(
    auxiliary: Auxiliary,
    leader: Field,
    space: str,
    conditions: Sequence[BoundaryCondition],
    part: str,
    data: Mapping[Hashable, Field],
) -> list[Trace]:
    """The traces that remain in the definition of an auxiliary field on a part where it is not
    held.

    Args:
        auxiliary: the auxiliary field.
        leader: the field whose divergence or curl it is.
        space: of the leader's element.
        conditions: those declared on this part.
        part: its name, for messages.
        data: symbols that stand for values that are DOLFINx functions.

    Raises:
        InputError: nobody says what the trace is.
    """
    mine = [c for c in conditions if c.unknown == leader]
    given = [c for c in mine if isinstance(c, Tangential | Robin)]
    if space == HCURL:
        raise InputError(
            f"nothing is said about the divergence of {leader} on the boundary part {part!r}, "
            "where its gradient needs it: "
            f"declare Tangential({leader}, …), or Neumann({leader}, 0) for a divergence and a "
            "tangential curl of zero"
        )
    if not given:
        raise InputError(
            f"nothing is said about the tangential part of {leader} on the boundary part "
            f"{part!r}; on H(div) elements Dirichlet "
            f"gives the normal part only: declare Tangential({leader}, 0) for no slip, or "
            f"Neumann({leader}, 0) for free slip "
            "(n × curl = 0), there"
        )
    if len(given) > 1:
        raise InputError(
            f"two conditions for the tangential part of {leader} on the boundary part {part!r}"
        )
    value = tangential_value(given[0], auxiliary, leader, data)
    rate = value.diff(t)
    rule = {leader: value, dt(leader): vector_value(rate, leader)}
    replaced = [(trace.xreplace(rule), weight) for trace, weight in auxiliary.definition.traces]
    return [(trace, weight) for trace, weight in replaced if trace != 0]


def tangential_value(
    condition: BoundaryCondition,
    auxiliary: Auxiliary,
    leader: Field,
    data: Mapping[Hashable, Field],
) -> sp.Expr:
    """A vector whose tangential part is that of an H(div) field where a condition holds."""
    by_points = callable(condition.value) and not isinstance(condition.value, sp.Basic)
    if condition not in data and (isinstance(condition.value, MeasuredFields) or by_points):
        raise InputError(
            f"{condition}: the tangential part of an H(div) field needs an expression or a "
            "DOLFINx function here"
        )
    value = vector_value(data[condition] if condition in data else as_expr(condition.value), leader)
    if not isinstance(condition, Robin):
        return value
    factor = as_expr(condition.coefficient)
    if factor == 0 or auxiliary.definition.term != Curl(leader):
        raise InputError(
            f"{condition}: on H(div) elements Robin needs a coefficient that is not zero, and "
            f"curl(curl({leader}))"
        )
    rotation = auxiliary.field
    turned = (
        cross(n, rotation) if isinstance(rotation, VectorField) else rotation * vector(n[1], -n[0])
    )
    return (value - turned) / factor


# Checks
# --------------------------------------------------------------------------------------------------


def check_tangential(discretisation: Discretisation) -> None:
    """Refuse conditions on H(curl) and H(div) fields that would have no effect, or not the
    one their words say.
    """
    kinds = discretisation.kinds
    turning = {leader for a, leader in discretisation.leaders.items() if kinds[leader] == HDIV}
    for condition in discretisation.boundary.declared:
        unknown = condition.unknown
        space = kinds.get(unknown)
        if isinstance(condition, Tangential) and space not in (HCURL, HDIV):
            raise InputError(
                f"{condition}: tangential conditions need a Nédélec, RT or BDM element; give the "
                "components with Dirichlet instead"
            )
        if isinstance(condition, Tangential) and space == HDIV and unknown not in turning:
            raise InputError(
                f"{condition}: no term takes second derivatives of {unknown}, so its tangential "
                "part on the boundary has no "
                "effect; on H(div) elements Dirichlet gives the normal part"
            )
    leaders = {field for field in discretisation.leaders.values() if kinds[field] in (HCURL, HDIV)}
    for part, conditions in discretisation.boundary.conditions.items():
        for field in sorted(leaders, key=str):
            _check_part(discretisation, part, conditions, field)


def _check_part(
    discretisation: Discretisation, part: str, conditions: Sequence[BoundaryCondition], field: Field
) -> None:
    space = discretisation.kinds[field]
    mine = [c for c in conditions if c.unknown == field]
    natural = [c for c in mine if isinstance(c, Natural | Neumann | Robin)]
    tangential = any(isinstance(c, Tangential) for c in mine)
    closed = essential(conditions, field, space) and (space == HCURL or tangential)
    if len(natural) > 1:
        raise InputError(f"two natural conditions for {field} on the boundary part {part!r}")
    for condition in natural:
        if takes_strain(discretisation, field) and not closed:
            raise InputError(
                f"{condition}: on H(curl) and H(div) elements div(sym(grad({field}))) is made of "
                "grad(div) and curl(curl), whose "
                "traces are not the traction; write lap, or take a Lagrange element"
            )
        if not closed and not tangential and field not in discretisation.closed_fields:
            _check_trace(discretisation, part, condition, space)


def _check_trace(
    discretisation: Discretisation, part: str, condition: BoundaryCondition, space: str
) -> None:
    """Whether a natural condition is about the traces of the auxiliary fields of its field,
    and can hold.
    """
    field = condition.unknown
    mine = [a for a, leader in discretisation.leaders.items() if leader == field]
    zero = isinstance(condition, Natural | Neumann) and is_zero(condition.value)
    weighted = [
        str(a.definition.term)
        for a in mine
        if not (_is_plain(a, field) if zero else a.definition.term.args[0] == field)
    ]
    if weighted:
        raise InputError(
            f"{condition}: the trace is that of {weighted[0]}, which a condition on {field} "
            "itself does not give"
        )
    if not zero and space == HCURL:
        names = ", ".join(f"{a.field} = {a.definition.term}" for a in mine)
        raise InputError(
            f"{condition}: the trace of the auxiliary field {names} on {part!r} can be zero only"
        )


def _is_plain(auxiliary: Auxiliary, leader: Field) -> bool:
    """Whether an auxiliary field is the divergence or curl of the field itself, or of its rate."""
    return auxiliary.definition.term.args[0] in (leader, dt(leader), dt(dt(leader)))


def takes_strain(discretisation: Discretisation, field: Field) -> bool:
    """Whether a term contains div(sym(grad(field))), which stands for grad(div) −
    curl(curl)/2 on H(curl) and H(div).
    """
    strains = [
        node
        for term in discretisation.library.values()
        for node in term.atoms(Div)
        if isinstance(node.args[0], Sym)
    ]
    return any(
        field in node.args[0].args[0].atoms(Field)
        for node in strains
        if isinstance(node.args[0].args[0], Grad)
    )
