# SPDX-License-Identifier: MIT
"""SymPy expressions as functions of arrays, whatever functions of the language they contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import sympy as sp
from sympy.printing.codeprinter import PrintMethodNotImplementedError
from sympy.printing.numpy import SciPyPrinter

from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import numpy as np


class _Printer(SciPyPrinter):  # type: ignore[misc]
    """Writes extrema of numbers and arrays of different shapes, which NumPy's own do not take."""

    def _extreme(self, name: str, expr: sp.Expr) -> str:
        function = self._module_format(f"numpy.{name}")
        return reduce(lambda a, b: f"{function}({a}, {b})", map(self._print, expr.args))

    def _print_Max(self, expr: sp.Expr) -> str:
        return self._extreme("maximum", expr)

    def _print_Min(self, expr: sp.Expr) -> str:
        return self._extreme("minimum", expr)


def numeric(expr: sp.Expr, symbols: Sequence[sp.Symbol]) -> Callable[..., np.ndarray]:
    """An expression as a function of numbers or arrays, one for each symbol; a constant gives one
    number.

    Example:
        >>> import numpy as np
        >>> x = sp.Symbol("x")
        >>> numeric(sp.Max(x, 0) + sp.erf(0 * x), [x])(np.array([-1.0, 2.0])).tolist()
        [0.0, 2.0]

    Raises:
        InputError: it contains a function that has no values, such as `DiracDelta`.
    """
    return _compiled(sp.sympify(expr), tuple(symbols))


@lru_cache(maxsize=512)
def _compiled(expr: sp.Expr, symbols: tuple[sp.Symbol, ...]) -> Callable[..., np.ndarray]:
    settings = {"fully_qualified_modules": False, "inline": True, "allow_unknown_functions": False}
    try:
        return sp.lambdify(symbols, expr, "scipy", printer=_Printer(settings), cse=True)
    except PrintMethodNotImplementedError:
        unknown = sorted({str(node.func) for node in expr.atoms(sp.Function)})
        raise InputError(
            f"{expr} has no values as numbers: one of its functions, {', '.join(unknown)}, cannot "
            "be evaluated"
        ) from None
