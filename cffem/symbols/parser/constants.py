# SPDX-License-Identifier: MIT
"""Values of constants, found without SymPy's arbitrary precision.

Before the parser lets SymPy combine constants it knows their floating-point values, so that
`exp(exp(exp(10)))`, `2**(10**9)` and `1/0` are refused instead of computed, however the large
number was hidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy as sp

from cffem.symbols.errors import ParseError
from cffem.symbols.parser.words import FUNCTIONS

# Coefficient in the exponent of a number, which SymPy may write out.
MAX_EXPONENT = 10_000

BY_CLASS: dict[type, Callable[..., float]] = {
    sp.Add: lambda *terms: math.fsum(terms),
    sp.Mul: lambda *factors: math.prod(factors),
    sp.Pow: lambda base, exponent: base**exponent,
    sp.Max: max,
    sp.Min: min,
    sp.atan2: math.atan2,
    sp.Heaviside: lambda argument, at_zero: float(argument > 0) if argument else at_zero,
    **{
        function: value
        for function, value in FUNCTIONS.values()
        if isinstance(function, type) and function is not sp.Heaviside
    },
}


def finite(function: Callable[[], float], column: int) -> float:
    """Evaluate a plain number, refusing what is not real and finite."""
    try:
        number = function()
    except ZeroDivisionError:
        raise ParseError("division by zero", column) from None
    except (OverflowError, ValueError):
        number = math.nan
    if isinstance(number, complex) or not math.isfinite(number):
        raise ParseError("the value is not a finite real number", column)
    return number


def constant_value(expr: sp.Expr, column: int) -> float:
    """The value of an expression without unknowns, coordinates and parameters.

    Example:
        >>> import sympy as sp
        >>> constant_value(sp.sqrt(2) + sp.Rational(1, 2), column=1)
        1.9142135623730951
    """
    if isinstance(expr, sp.Number | sp.NumberSymbol):
        return finite(lambda: float(expr), column)
    evaluate = BY_CLASS.get(type(expr))
    if evaluate is None:
        raise ParseError("this constant cannot be evaluated; write it as a decimal", column)
    numbers = [constant_value(arg, column) for arg in expr.args]
    return finite(lambda: evaluate(*numbers), column)


def magnitude(expr: sp.Basic) -> float:
    """A bound for the numbers that multiplying an expression out can bring about: its value
    with every symbol and function 1.
    """
    if isinstance(expr, sp.Number):
        return abs(float(expr))
    parts = [magnitude(arg) for arg in expr.args]
    if isinstance(expr, sp.Add):
        return math.fsum(parts)
    if isinstance(expr, sp.Mul):
        return math.prod(parts)
    if isinstance(expr, sp.Pow) and isinstance(expr.exp, sp.Number):
        return max(1.0, parts[0]) ** abs(float(expr.exp))
    return 1.0


def check_exponent(base: sp.Expr, exponent: sp.Expr, column: int) -> None:
    """Refuse exponents that would make SymPy write out a number with very many digits:
    2**(10**9 + x), exp(10**9*log(2) + x).
    """
    writes_out = isinstance(base, sp.Rational) or (
        base == sp.E and any(not log.free_symbols for log in exponent.atoms(sp.log))
    )
    if writes_out and finite(lambda: magnitude(exponent), column) > MAX_EXPONENT:
        raise ParseError(f"exponents of numbers have coefficients up to {MAX_EXPONENT}", column)
