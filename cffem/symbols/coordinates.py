# SPDX-License-Identifier: MIT
"""Coordinates, parameters and the boundary normal: the symbols that are not unknowns.

`x`, `y`, `z` and `t` are ordinary real SymPy symbols. A `Parameter` is a real symbol whose value is
given later; a change of its value compiles nothing.
"""

from __future__ import annotations

import sympy as sp

from cffem.symbols.errors import SymbolError

x, y, z, t = sp.symbols("x y z t", real=True)

SPACE: tuple[sp.Symbol, ...] = (x, y, z)
COORDINATES: tuple[sp.Symbol, ...] = (x, y, z, t)


class Parameter(sp.Symbol):
    """A named real constant whose value may change without recompiling anything.

    Example:
        >>> import cffem as cf
        >>> nu = cf.Parameter("nu")
        >>> nu * cf.lap(cf.ScalarField("u"))
        nu*lap(u)
    """

    __slots__ = ()

    def __new__(cls, name: str, **assumptions: bool) -> Parameter:
        if not isinstance(name, str) or not name.isidentifier():
            raise SymbolError(f"a parameter's name must be an identifier, not {name!r}")
        if name in {"x", "y", "z", "t"}:
            raise SymbolError(f"a parameter cannot be called {name!r}: that is a coordinate")
        assumptions.setdefault("real", True)
        return sp.Symbol.__xnew__(cls, name, **assumptions)
