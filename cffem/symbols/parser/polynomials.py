# SPDX-License-Identifier: MIT
"""Polynomials of low degree in a text, and how much work it is to find their signs."""

from __future__ import annotations

import sympy as sp
from sympy.logic.boolalg import Boolean


def sign_work(expr: sp.Expr) -> int:
    """Work of finding the sign of a polynomial in a parameter: SymPy isolates its roots."""
    powers = [
        power
        for power in expr.atoms(sp.Pow)
        if power.base.is_Symbol and power.base.is_extended_nonnegative is not None
    ]
    return 50 * max((int(abs(power.exp)) for power in powers if power.exp.is_Number), default=0)


def is_quadratic(expr: sp.Expr, variable: sp.Symbol) -> bool:
    """Whether an expression is a polynomial of degree at most 2, without expanding it."""
    if not expr.has(variable):
        return True
    if expr == variable:
        return True
    if isinstance(expr, sp.Add):
        return all(is_quadratic(arg, variable) for arg in expr.args)
    if isinstance(expr, sp.Mul):
        degrees = [arg for arg in expr.args if arg.has(variable)]
        return len(degrees) == 1 and is_quadratic(degrees[0], variable)
    return (
        isinstance(expr, sp.Pow)
        and expr.exp == 2
        and expr.base.is_Add | expr.base.is_Symbol
        and is_linear(expr.base, variable)
    )


def is_linear(expr: sp.Expr, variable: sp.Symbol) -> bool:
    """Whether an expression is a sum of constants and multiples of the variable."""
    parts = [arg.as_coeff_Mul()[1] for arg in sp.Add.make_args(expr) if arg.has(variable)]
    return all(part == variable for part in parts)


def is_condition(expr: object) -> bool:
    """Whether this is a truth value; SymPy's symbols could be either, ours are numbers."""
    return isinstance(expr, Boolean) and not isinstance(expr, sp.Expr)
