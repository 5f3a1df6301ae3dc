# SPDX-License-Identifier: MIT
"""Tables of elementary functions and comparisons: each SymPy function and the UFL expression
that evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import sympy as sp
import ufl

if TYPE_CHECKING:
    from ufl.core.expr import Expr


FUNCTIONS: dict[type[sp.Basic], Callable[..., Expr]] = {
    sp.exp: ufl.exp,
    sp.log: ufl.ln,
    sp.sin: ufl.sin,
    sp.cos: ufl.cos,
    sp.tan: ufl.tan,
    sp.cot: lambda f: ufl.cos(f) / ufl.sin(f),
    sp.sec: lambda f: 1 / ufl.cos(f),
    sp.csc: lambda f: 1 / ufl.sin(f),
    sp.asin: ufl.asin,
    sp.acos: ufl.acos,
    sp.atan: ufl.atan,
    sp.acot: lambda f: ufl.atan(1 / f),
    sp.atan2: ufl.atan2,
    sp.sinh: ufl.sinh,
    sp.cosh: ufl.cosh,
    sp.tanh: ufl.tanh,
    sp.coth: lambda f: 1 / ufl.tanh(f),
    sp.sech: lambda f: 1 / ufl.cosh(f),
    sp.csch: lambda f: 1 / ufl.sinh(f),
    # UFL has no inverse hyperbolic functions; |f| in asinh avoids the cancellation for large
    # negative arguments.
    sp.asinh: lambda f: ufl.sign(f) * ufl.ln(abs(f) + ufl.sqrt(f**2 + 1)),
    sp.acosh: lambda f: ufl.ln(f + ufl.sqrt(f**2 - 1)),
    sp.atanh: lambda f: ufl.ln((1 + f) / (1 - f)) / 2,
    sp.erf: ufl.erf,
    sp.erfc: lambda f: 1 - ufl.erf(f),
    sp.Abs: abs,
    sp.sign: ufl.sign,
    sp.Heaviside: lambda f, at_zero: ufl.conditional(
        ufl.gt(f, 0), 1.0, ufl.conditional(ufl.lt(f, 0), 0.0, at_zero)
    ),
}

COMPARISONS: dict[type[sp.Basic], Callable[..., Expr]] = {
    sp.StrictLessThan: ufl.lt,
    sp.LessThan: ufl.le,
    sp.StrictGreaterThan: ufl.gt,
    sp.GreaterThan: ufl.ge,
    sp.Equality: ufl.eq,
    sp.Unequality: ufl.ne,
}
