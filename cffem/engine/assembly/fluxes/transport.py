# SPDX-License-Identifier: MIT
"""Transport of discontinuous fields: upwind fluxes between cells, and boundary values where the
flow enters.

A term that is linear in the first derivatives of a discontinuous field u leaves jumps a [u]{v}
between cells, a(n) being the speed along the normal: a = −w·n for −w·∇u. With the mean {v} alone
the flux is central and nothing damps ripples. In an equation dt(u) = α T[u] + … the field flows
into a cell where α a > 0, and

    F(u; v) = F_central(u; v) − sign(α) ½ ∫ |a| [u][v] dS + ∮ max(sign(α) a, 0) (g − u) v ds

takes the value from upstream, on the boundary the given one g. Where a itself jumps, as at the edge
of a subdomain, each side takes its own: −½ ∫ [u][|a| v] dS. The equation stays linear in α,
whose sign does not change within a model. Derivatives of other fields (the pressure in an acoustic
system), and of fields on H(div) and H(curl) elements, keep the central flux, which conserves
energy; `model.notes` says which is which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem

from cffem import _compat
from cffem.forms.elements import L2
from cffem.forms.lowering import Lowering
from cffem.forms.parts import contraction
from cffem.forms.translation_errors import UnsupportedTerm
from cffem.forms.weakterm import WeakTerm
from cffem.symbols.algebra.analysis import canonical
from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import has_jump
from cffem.symbols.problem.conditions import Dirichlet

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation

# Inflow through a part counts from this share of all flow through the boundary; rounding of normals
# leaves 1e-16.
LEAST_INFLOW = 1e-10


def normal_speed(weak: WeakTerm, unknown: Field, dimension: int) -> sp.Expr | None:
    """a(n), where the jumps of a field in its own equation are a u·v; None where they are not such
    a multiple.

    Raises:
        UnsupportedTerm: the jumps are not linear in the field.

    Example:
        >>> import basix.ufl, cffem as cf
        >>> from cffem.forms.weak import weak_form
        >>> u = cf.ScalarField("u")
        >>> weak = weak_form(-2 * u.diff(cf.x), u, {u: basix.ufl.element("DG", "triangle", 1)})
        >>> normal_speed(weak, u, 2)
        -2*n[0]
    """
    pairs = tuple((trace, weight) for trace, weight in weak.jumps if unknown in trace.atoms(Field))
    if not pairs:
        return None
    (whole,) = canonical(contraction(pairs), dimension)
    values, tests = (
        [field[i] for i in range(dimension)] if field.shape else [field]
        for field in (unknown, weak.test)
    )
    names = {symbol: sp.Dummy() for symbol in (*values, *tests)}
    whole = whole.xreplace(names)
    speeds = [[sp.expand(whole.diff(names[u]).diff(names[v])) for u in values] for v in tests]
    linear = sum(
        a * names[u] * names[v]
        for row, v in zip(speeds, tests, strict=True)
        for a, u in zip(row, values, strict=True)
    )
    if sp.expand(whole - linear) != 0 or any(
        a.atoms(sp.Dummy) & {*names.values()} for row in speeds for a in row
    ):
        raise UnsupportedTerm(
            "it is not linear, so it has no upwind value between discontinuous cells; take a "
            "Lagrange element"
        )
    diagonal = {row[i] for i, row in enumerate(speeds)}
    others = {a for i, row in enumerate(speeds) for j, a in enumerate(row) if i != j}
    return diagonal.pop() if len(diagonal) == 1 and others <= {sp.S.Zero} else None


@dataclass(frozen=True)
class Upwind:
    """How one term carries a discontinuous field.

    Attributes:
        speed: a(n), a SymPy expression.
        sign: that of the term's coefficient.
    """

    speed: sp.Expr
    sign: int

    def between_cells(self, low: Lowering, value: Expr, test: Expr) -> Expr:
        """What makes the central flux an upwind one."""
        speed = abs(low(self.speed))
        charged = (
            ufl.jump(speed * test) if has_jump(self.speed) else ufl.avg(speed) * ufl.jump(test)
        )
        facets = ufl.dS(domain=low.context.domain)
        return -self.sign * 0.5 * ufl.inner(ufl.jump(value), charged) * facets

    def entering(self, low: Lowering) -> Expr:
        """One where the field flows in through the boundary, else zero."""
        return ufl.conditional(ufl.gt(self.sign * low(self.speed), 0.0), 1.0, 0.0)


def upwind(
    weak: WeakTerm, unknown: Field, spaces: Mapping[Field, str], dimension: int, sign: int
) -> Upwind | None:
    """The upwind flux of a term in the equation of a field; None where it has none."""
    if not weak.jumps or spaces[unknown] != L2:
        return None
    speed = normal_speed(weak, unknown, dimension)
    return None if speed is None or speed == 0 else Upwind(speed, sign)


# Checks
# --------------------------------------------------------------------------------------------------


def check_transport(discretisation: Discretisation, coefficients: Mapping[str, float]) -> None:
    """Refuse transport whose inflow values nobody gives, and fluxes of other than discontinuous
    fields across periodic sides.

    Raises:
        InputError: the message names the term and the part of the boundary.
    """
    jumping = [name for name, weak in discretisation.weak_terms.items() if weak.jumps]
    if jumping and discretisation.boundary.periodic:
        raise InputError(
            f"{jumping[0]} has fluxes between cells on its elements, which are not carried across "
            "periodic sides; take a Lagrange or a discontinuous element, or give boundary values"
        )
    _check_coupling(
        discretisation,
        [
            name
            for name in jumping
            if coefficients.get(name) and name not in discretisation.upwind_terms
        ],
    )
    for unknown in discretisation.unknowns:
        speeds = {
            name: float(coefficients.get(name, 0.0)) * found.speed
            for name, found in discretisation.upwind_terms.items()
            if discretisation.library.locate(name)[0] == unknown and coefficients.get(name)
        }
        if speeds and discretisation.boundary.conditions:
            _check_inflow(discretisation, unknown, speeds)


def _check_coupling(discretisation: Discretisation, names: list[str]) -> None:
    """Refuse jumps of discontinuous fields in each other's equations where the boundary gives
    none of these fields.
    """
    traces = [trace for name in names for trace, _ in discretisation.weak_terms[name].jumps]
    fields = {
        field
        for trace in traces
        for field in trace.atoms(Field)
        if discretisation.kinds.get(field) == L2
    }
    for part, conditions in discretisation.boundary.conditions.items() if fields else ():
        if not any(isinstance(c, Dirichlet) and c.unknown in fields for c in conditions):
            one = " or ".join(sorted(f"Dirichlet({field}, …)" for field in fields))
            raise InputError(
                f"nothing is said on the boundary part {part!r} about what {', '.join(names)} "
                f"need there: declare {one}"
            )


def _check_inflow(
    discretisation: Discretisation, unknown: Field, speeds: Mapping[str, sp.Expr]
) -> None:
    boundary, names = discretisation.boundary, ", ".join(speeds)
    changing = any(speed.atoms(Field) or t in speed.atoms(sp.Symbol) for speed in speeds.values())
    low, measure = Lowering(discretisation.context), boundary.measure
    flows = {name: low(speed) for name, speed in speeds.items()}
    total = sum(flows.values())
    everywhere = measure(tuple(boundary.tags.values()))
    through = (
        0.0 if changing else _integral(discretisation, sum(map(abs, flows.values())) * everywhere)
    )
    for part, conditions in boundary.conditions.items():
        here, given = (
            measure(boundary.tags[part]),
            any(isinstance(c, Dirichlet) and c.unknown == unknown for c in conditions),
        )
        if not given and changing:
            raise InputError(
                f"the speed of {names} changes with time or with other fields, so {unknown} may "
                "enter anywhere: declare "
                f"Dirichlet({unknown}, …, on={part!r}), which is used where it does"
            )
        if (
            not given
            and _integral(discretisation, ufl.max_value(total, 0.0) * here) > LEAST_INFLOW * through
        ):
            raise InputError(
                f"{unknown} enters through the boundary part {part!r} ({names}) and nobody gives "
                "its values: declare "
                f"Dirichlet({unknown}, …, on={part!r})"
            )
        for name, flow in flows.items() if given and not changing and len(flows) > 1 else ():
            against = ufl.conditional(ufl.lt(total, 0.0), ufl.max_value(flow, 0.0), 0.0)
            if _integral(discretisation, against * here) > LEAST_INFLOW * through:
                raise InputError(
                    f"{name} carries {unknown} in through {part!r}, where all transport together "
                    f"({names}) carries it out; "
                    "write it as one term"
                )


def _integral(discretisation: Discretisation, form: ufl.Form) -> float:
    comm = discretisation.mesh.comm
    return float(np.real(comm.allreduce(fem.assemble_scalar(_compat.form(form, comm)))))
