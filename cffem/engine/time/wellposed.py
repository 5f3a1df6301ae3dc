# SPDX-License-Identifier: MIT
"""Whether an equation runs backward in time: dt(u) = −0.1 lap(u) makes the finest ripples grow
fastest.

The second derivatives of Σ_j α_j T_j make up its principal symbol σ(ξ) = Σ_kl A_kl ξ_k ξ_l. Where
σ(ξ) is negative for some direction ξ, solutions of dt(u) = Σ_j α_j T_j do not depend continuously
on their data (Hadamard), and the same holds for dt(dt(u)). Only what is certain is told: second
derivatives are the highest, their coefficients are numbers, and in a vector equation every
polarisation grows, so that no constraint can forbid it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.symbols.algebra.analysis import canonical, jet, orders
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.fields import VectorField
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import Inverse

if TYPE_CHECKING:
    from cffem.symbols.fields import Field
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


ROUNDING = 1e-12


def check_direction_of_time(
    library: Library | System, coefficients: Mapping[str, float], dim: int
) -> None:
    """Refuse a library whose coefficients make it the heat or wave equation with the wrong sign.

    Args:
        library: a `Library`; a `System` is not looked at, since its equations can stabilise each
            other.
        coefficients: α_j by term name.
        dim: the dimension of space.

    Raises:
        InputError: the equation runs backward in time; the message names the terms.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u": u})
        >>> check_direction_of_time(library, {"lap": -0.1, "u": 1.0}, 2)
        Traceback (most recent call last):
        ...
        cffem.symbols.errors.InputError: the coefficients make the second derivatives of u negative
            (-0.1 lap): ...
    """
    words = why_backward(library, coefficients, dim)
    if words:
        raise InputError(f"{words}; change the sign")


def why_backward(library: Library | System, coefficients: Mapping[str, float], dim: int) -> str:
    """Why a library with these coefficients runs backward in time; empty where it is not certain to
    do so.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(
        ...     anchor=cf.dt(u), terms={"lap": cf.lap(u), "steep": -u.diff(cf.x, 2)}
        ... )
        >>> why_backward(library, {"lap": 1.0, "steep": 0.1}, 2)
        ''
        >>> why_backward(library, {"lap": 0.0, "steep": 0.1}, 2)[:72]
        'the coefficients make the second derivatives of u negative (0.1 steep): '
    """
    if len(library.equations) != 1 or not library.time_order:
        return ""
    (equation,) = library.equations.values()
    rate = equation.unknown.diff(t, equation.time_order)
    if equation.anchor is None or equation.anchor.as_coeff_Mul()[1] != rate:
        return ""  # with a tensor or a function as weight the symbol is another one
    (unknown,) = library.unknowns
    size = dim if isinstance(unknown, VectorField) else 1
    parameters = {
        symbol: value for symbol, value in library.parameters.items() if value is not None
    }
    active = {name: float(value) for name, value in coefficients.items() if value}
    symbols = {
        name: principal_symbol(library[name].xreplace(parameters), unknown, dim, size)
        for name in active
    }
    if not symbols or any(symbol is None for symbol in symbols.values()):
        return ""
    scale = max(abs(value) * float(np.abs(symbols[name]).max()) for name, value in active.items())
    for direction in product((-1, 0, 1), repeat=dim):
        parts = {
            name: value * np.einsum("ijkl,k,l", symbols[name], direction, direction)
            for name, value in active.items()
        }
        whole = sum(parts.values())
        if np.linalg.eigvalsh((whole + whole.T) / 2).max() < -ROUNDING * scale:
            guilty = ", ".join(
                f"{active[name]:g} {name}" for name, part in parts.items() if np.trace(part) < 0
            )
            return (
                f"the coefficients make the second derivatives of {unknown} negative ({guilty}): "
                "such an equation runs backward in "
                "time, and its finest ripples grow without bound"
            )
    return ""


@lru_cache(maxsize=1024)
def principal_symbol(expr: sp.Expr, unknown: Field, dim: int, size: int) -> np.ndarray | None:
    """A_ijkl, the coefficient of ∂_k ∂_l u_j in the i-th component; None where it is not
    constant or not the highest order.
    """
    if expr.has(Inverse, FormTerm):
        return None
    entries = canonical(expr, dim)
    if orders(expr, dim)[0] > 2 or len(entries) != size:
        return None
    parts = (
        [unknown]
        if size == 1 and not isinstance(unknown, VectorField)
        else [unknown[j] for j in range(size)]
    )
    symbol = np.zeros((size, size, dim, dim))
    dummies = {value: sp.Dummy() for value in jet(entries)}
    for i, entry in enumerate(entries):
        plain = entry.xreplace(dummies)
        for value, dummy in dummies.items():
            variables = getattr(value, "variables", ())
            if len(variables) != 2 or not {*variables} <= {*SPACE}:
                continue
            slope = sp.expand(plain.diff(dummy))
            if slope != 0 and (not slope.is_number or value.expr not in parts):
                return None
            if slope != 0:
                first, second = (SPACE.index(v) for v in variables)
                symbol[i, parts.index(value.expr), first, second] += float(slope) / 2
                symbol[i, parts.index(value.expr), second, first] += float(slope) / 2
    return symbol
