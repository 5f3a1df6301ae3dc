# SPDX-License-Identifier: MIT
"""Streamline upwinding (SUPG) of transport on Lagrange elements.

With b and κ the transport and diffusion of the factual equation anchor[u] = Σ α_j T_j[u] + f, its
residual is tested with

    v + τ b·∇v,  τ = ((2|b|/h)² + 9 (4κ/h²)²)^(−1/2),  h = 2d |K| / (k |∂K|)

(Brooks and Hughes 1982; Shakib, Hughes and Johan 1991), k being the degree and h the side of a
square or cube of degree one. Every term, the anchor and the forcing bring their own share, second
derivatives taken cell by cell, so that the exact solution satisfies the equation, that of a
deletion satisfies the one without the term, and the equation stays linear in α. A deletion keeps
τ b of the factual equation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sympy as sp
import ufl

from cffem.engine.assembly.carried import NotJudged, Symbol, symbol_of
from cffem.forms.elements import H1
from cffem.forms.lowering import Lowering
from cffem.forms.orders import order_of
from cffem.forms.strong import strong_form
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.restricted import On

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.assembly.discretisation import Discretisation

# Of the diffusive limit in τ, as Shakib chose it for linear elements.
DIFFUSIVE = 9.0


def check_streamline(
    discretisation: Discretisation, coefficients: Mapping[str, float]
) -> dict[Field, Symbol]:
    """Transport and diffusion of the equations that are stabilised.

    Raises:
        InputError: streamline upwinding is not defined there; the message says why.
    """
    library, found = discretisation.library, {}
    for unknown in discretisation.experiment.stabilisation:
        said = f"SUPG for {unknown}"
        if unknown not in library.equations:
            raise InputError(f"{said}: {unknown} has no equation")
        if discretisation.kinds[unknown] != H1:
            raise InputError(
                f"{said}: it is defined for Lagrange elements; discontinuous ones are upwind as "
                "they are"
            )
        constraint = discretisation.experiment.constraint
        if constraint is not None and unknown in constraint.fields:
            raise InputError(
                f"{said}: the force of the constraint on {unknown} would be missing in the "
                "residual; leave SUPG out, or take BDM elements"
            )
        equation = library.equations[unknown]
        if equation.time_order > 1:
            raise InputError(f"{said}: its equation is of second order in time")
        mine = [n for n in library.names if library.locate(n)[0] == unknown]
        for name in mine:
            term = library[name]
            if term.has(FormTerm) or term.has(On) or order_of(term) > 2:
                raise InputError(
                    f"{said}: {name} is given as a form, acts in a part or is of third or higher "
                    "order, so its residual has no values inside cells"
                )
        try:
            symbol = symbol_of(discretisation, unknown, coefficients)
        except NotJudged as reason:
            why = str(reason) or "the transport of its equation is not known"
            raise InputError(f"{said}: {why}") from None
        if all(entry == 0 for entry in symbol.transport):
            raise InputError(f"{said}: nothing transports {unknown}, so there is no streamline")
        found[unknown] = symbol
    return found


def weight(discretisation: Discretisation, unknown: Field, symbol: Symbol) -> Expr:
    """τ b·∇v."""
    low, dimension = Lowering(discretisation.context), discretisation.mesh.geometry.dim
    wind = ufl.as_vector([low(entry) for entry in symbol.transport])
    diffusion = sp.Add(*(symbol.diffusion[i, i] for i in range(dimension))) / dimension
    degree = discretisation.spaces.elements[unknown].degree
    size = 2.0 * dimension / (degree * discretisation.surface_share)
    square = ufl.dot(wind, wind)
    inverse = 4 * square / size**2 + DIFFUSIVE * (4 * low(diffusion) / size**2) ** 2
    test = discretisation.tests[unknown]
    along = ufl.dot(ufl.grad(test), wind)
    return ufl.conditional(ufl.gt(square, 0.0), 1 / ufl.sqrt(inverse), 0.0) * along


def share(
    discretisation: Discretisation, unknown: Field, expr: Any, value: Expr = None
) -> ufl.Form:
    """What a term, the anchor or the forcing adds: ∫ τ b·∇v · T[u] dx, cell by cell.

    Args:
        discretisation: spaces and forms.
        unknown: the field of the equation.
        expr: the term as written.
        value: its UFL expression, where it is known.
    """
    symbol = discretisation.streamlines.get(unknown)
    if symbol is None or (value is None and expr in (None, 0)):
        return ufl.Form([])
    if value is None:
        elements = discretisation.spaces.elements
        value = strong_form(expr, discretisation.context, elements, broken=True)
    tested = ufl.inner(value, weight(discretisation, unknown, symbol))
    return tested * ufl.dx(domain=discretisation.mesh.ufl_domain())
