# SPDX-License-Identifier: MIT
"""The table of normal forms: for each kind of node the function that simplifies it, looked up when
a node is built.

The nodes say what an operator is and the calculus says what is known about it; the two need each
other, and this table, which the calculus fills when it is imported, is how they meet without
importing each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sympy as sp


NORMAL_FORMS: dict[type, Callable[..., sp.Basic]] = {}


def normal_form(*kinds: type) -> Callable[[Callable[..., sp.Basic]], Callable[..., sp.Basic]]:
    """Register a function of a node's arguments as the normal form of these kinds of nodes."""

    def register(function: Callable[..., sp.Basic]) -> Callable[..., sp.Basic]:
        for kind in kinds:
            NORMAL_FORMS[kind] = function
        return function

    return register
