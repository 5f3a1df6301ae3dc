# SPDX-License-Identifier: MIT
"""Errors of the compiler from SymPy to UFL; each names the offending part and the whole term
it was found in.
"""

from __future__ import annotations

import sympy as sp

from cffem.symbols.errors import InputError


class UnsupportedTerm(InputError):
    """A term, or a part of one, that has no translation.

    Attributes:
        reason: one sentence without the term.
        node: the part that cannot be translated, or None.
        term: the whole term, or None while it is not known yet.

    Example:
        >>> from cffem import x
        >>> raise UnsupportedTerm(
        ...     "it has no UFL counterpart", node=sp.gamma(x), term=sp.gamma(x) + 1
        ... )
        Traceback (most recent call last):
        ...
        cffem.forms.translation_errors.UnsupportedTerm: gamma(x) (gamma) in gamma(x) + 1: it has
            no UFL counterpart
    """

    def __init__(self, reason: str, node: sp.Basic | None = None, term: sp.Basic | None = None):
        self.reason, self.node, self.term = reason, node, term
        where = "" if node is None else f"{node} ({type(node).__name__})"
        if term is not None and term != node:
            where = f"{where} in {term}" if where else f"{term}"
        super().__init__(f"{where}: {reason}" if where else reason)

    def within(self, term: sp.Basic) -> UnsupportedTerm:
        """The same error, naming the whole term it was found in."""
        return type(self)(self.reason, self.node, self.term if self.term is not None else term)

    def named(self, name: str) -> UnsupportedTerm:
        """The same error, beginning with the name that the term has in its library."""
        error = type(self)(self.reason, self.node, self.term)
        error.args = (f"term {name!r}: {self}",)
        return error


class DimensionError(UnsupportedTerm):
    """A field, coordinate or vector that does not live in the dimension of the mesh."""


class NotRepresentable(UnsupportedTerm):
    """A derivative that the element of its field cannot represent."""
