# SPDX-License-Identifier: MIT
"""Auxiliary fields of a system, such as w with 0 = w − lap(u), in studies with data of the other
fields only.

Terms of third and fourth order are made with a field for a derivative, because elements have no
such derivatives; a user may write it, and else the engine makes it
(`cffem.symbols.algebra.splitting`). Data do not measure it, and need not: weak rows take
derivatives of any order, so the design is made with the definition in the field's place. Where the
boundary asks for values of the auxiliary field they are those of its definition on polynomials
fitted to the data around each point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.data.noise.local_polynomials import local_derivative
from cffem.data.rows.conservation import orders_of
from cffem.forms.orders import order_of
from cffem.symbols.algebra.analysis import canonical, jet
from cffem.symbols.algebra.splitting import split, stand_in
from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.fields import Field, ScalarField

if TYPE_CHECKING:
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


def definitions(library: Library | System) -> dict[Field, sp.Expr]:
    """The auxiliary fields of a system with the expressions that define them, none of which
    contains another one.

    Example:
        >>> import cffem as cf
        >>> u, w = cf.ScalarField("u"), cf.ScalarField("w")
        >>> library = cf.System(
        ...     {
        ...         u: cf.Library(cf.dt(u), {"w_x": w.diff(cf.x)}),
        ...         w: cf.Library(w - cf.lap(u), {}, unknown=w),
        ...     }
        ... )
        >>> definitions(library)
        {w: lap(u)}
    """
    found: dict[Field, sp.Expr] = {}
    for unknown, equation in library.equations.items():
        if (
            equation.terms
            or equation.anchor is None
            or equation.time_order
            or not isinstance(unknown, ScalarField)
        ):
            continue
        anchor = sp.expand(equation.anchor)
        own = [part for part in sp.Add.make_args(anchor) if part.has(unknown)]
        if len(own) == 1 and (factor := own[0] / unknown).is_number:
            found[unknown] = sp.expand((own[0] - anchor) / factor)
    for _ in found:
        found = {unknown: expr.xreplace(found) for unknown, expr in found.items()}
    return {unknown: expr for unknown, expr in found.items() if not expr.has(*found)}


@dataclass(frozen=True)
class PlainEquation:
    """An equation without auxiliary fields: the least that a plan of rows asks of a library."""

    anchor: sp.Expr | None
    terms: Mapping[str, sp.Expr]


def plain_equation(library: Library | System) -> PlainEquation:
    """The first equation with terms, the definitions of auxiliary fields in their place."""
    equation = next(equation for equation in library.equations.values() if equation.terms)
    defined = definitions(library)
    return PlainEquation(
        equation.anchor,
        {name: term.xreplace(defined).doit() for name, term in equation.terms.items()},
    )


def second_derivatives(library: Library | System) -> dict[Field, sp.Expr]:
    """The auxiliary fields that the engine makes of terms of third and higher order, with the
    derivatives they stand for.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> second_derivatives(
        ...     cf.Library(cf.dt(u), {"uxxx": u.diff(cf.x, 3), "uxx": u.diff(cf.x, 2)})
        ... )
        {u_xx: Derivative(u, (x, 2))}
    """
    found: dict[Field, sp.Expr] = {}

    def replaced(node: sp.Expr) -> Field:
        field = stand_in(node)
        found[field] = node.xreplace(found).doit()
        return field

    for name in library.names:
        for part in sp.Add.make_args(sp.expand_mul(library[name])):
            while order_of(part) > 2 and (lower := split(part, replaced)) != part:
                part = lower
    return found


def derivative_of(plan: Any, wanted: sp.Derivative) -> np.ndarray:
    """A derivative of a measured field at the data: on grids by local polynomials, which serve the
    ends of the grid as well, where boundary values are taken; elsewhere as in the rows.
    """
    sampling, data, orders = plan.sampling, plan.data, orders_of(wanted)
    if data.points is not None:
        return sampling.differentiate(plan.denoised[wanted.expr], orders)
    return local_derivative(
        sampling.filled(data.values[wanted.expr]),
        sampling.points,
        [orders[COORDINATES.index(c)] for c in sampling.symbols],
        plan.noise[wanted.expr].sd,
        [data.period.get(c) for c in sampling.symbols],
    )


def with_auxiliaries(plan: Any, library: Library | System) -> dict[sp.Expr, np.ndarray]:
    """The denoised values of a plan, with those of auxiliary fields for which everything that
    defines them is measured.
    """
    values, data = dict(plan.denoised), plan.data
    for unknown, definition in {**definitions(library), **second_derivatives(library)}.items():
        if unknown.shape:
            continue
        (expr,) = canonical(definition, data.dim)
        jets = jet([expr])
        if unknown in values or not all(
            (j.expr if isinstance(j, sp.Derivative) else j) in values for j in jets
        ):
            continue
        arrays = [
            derivative_of(plan, j) if isinstance(j, sp.Derivative) else values[j] for j in jets
        ]
        dummies = [sp.Dummy() for _ in jets]
        plain = expr.xreplace(dict(zip(jets, dummies, strict=True)))
        names = [c for c in COORDINATES if c in plain.free_symbols]
        function = sp.lambdify([*dummies, *names], plain, "numpy")
        values[unknown] = np.broadcast_to(
            function(*arrays, *(plan.sampling.coordinate(c) for c in names)), data.shape
        )
    return values
