# SPDX-License-Identifier: MIT
"""DOLFINx and UFL objects inside SymPy expressions, which are refused where they are written.

SymPy would try to make a number of them, which never ends for a function and silently freezes a
constant.
"""

from __future__ import annotations

from typing import NoReturn

from cffem.symbols.errors import SymbolError

PACKAGES = frozenset({"ufl", "dolfinx"})


def is_foreign(value: object) -> bool:
    """Whether a value is an object of DOLFINx or UFL."""
    return any((kind.__module__ or "").split(".")[0] in PACKAGES for kind in type(value).__mro__)


def refuse(value: object) -> NoReturn:
    """Raise the error that says how to write what is meant."""
    kind = type(value).__name__
    if kind == "Constant":
        raise SymbolError(
            "a DOLFINx constant cannot be part of a SymPy expression; write a number or a "
            "cf.Parameter instead"
        )
    what = "a DOLFINx function" if kind == "Function" else f"a UFL expression ({kind})"
    first = "" if kind == "Function" else "interpolate it into a DOLFINx function; "
    raise SymbolError(
        f"{what} cannot be part of a SymPy expression: {first}give it as it is in forcing, "
        "initial or a condition, and inside a "
        "term write a field k for it, whose equation in the System is Library(anchor=k, terms={}, "
        "unknown=k), with the function as "
        "forcing and initial value of k"
    )


def refuse_foreign(value: object) -> None:
    """Refuse a value if it is an object of DOLFINx or UFL."""
    if is_foreign(value):
        refuse(value)
