# SPDX-License-Identifier: MIT
"""Gateaux derivatives of strong expressions and weak forms, by UFL: L_u w = d/dε T[u + ε w] at ε =
0.

The linearised problem and the adjoint of an observable are built from these. UFL differentiates the
form exactly, products, functions and `Piecewise` included; at a kink (|u| at 0) it takes the value
of the branch that UFL's `sign` and `conditional` give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ufl

if TYPE_CHECKING:
    from ufl.core.expr import Expr


def gateaux(form: ufl.Form, function: Expr, direction: Expr = None) -> Expr:
    """The derivative of a UFL form or expression at a function in a direction.

    Args:
        form: a UFL form or expression that depends on the function.
        function: a UFL coefficient; for coupled fields the mixed function whose components the
            fields are.
        direction: a UFL coefficient or argument; a trial function if None.

    Example:
        >>> import basix.ufl, ufl, cffem as cf
        >>> from cffem.forms.lowering import Context, lower
        >>> domain = ufl.Mesh(basix.ufl.element("Lagrange", "interval", 1, shape=(1,)))
        >>> space = ufl.FunctionSpace(domain, basix.ufl.element("Lagrange", "interval", 2))
        >>> u, value, w = (
        ...     cf.ScalarField("u"),
        ...     ufl.Coefficient(space, count=0),
        ...     ufl.Coefficient(space, count=1),
        ... )
        >>> print(gateaux(lower(u**2, Context(domain, {u: value})), value, w))
        w_0 * w_1 + w_0 * w_1
    """
    derivative = (
        ufl.derivative(form, function)
        if direction is None
        else ufl.derivative(form, function, direction)
    )
    return ufl.algorithms.expand_derivatives(derivative)
