# SPDX-License-Identifier: MIT
"""Errors of the symbolic layer, each naming what is wrong with an equation when it is
written, not when it is solved.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# The nearest way to a complex field, for every refusal of one.
AS_TWO_FIELDS = "write a complex field as two real ones, its real and its imaginary part"


class InputError(ValueError):
    """What the user gave cannot be used; the message is one sentence that says what is wrong
    and what to do.
    """


class SymbolError(InputError):
    """An expression that cannot mean anything: shapes that do not fit, an operator applied to
    the wrong thing.
    """


class ShapeError(SymbolError):
    """Scalars, vectors and tensors combined in a way that has no meaning."""


class AmbiguousShape(ShapeError):
    """A curl or cross product that is a scalar in 2D and a vector in 3D, of fields whose
    dimension is not known.
    """


class LibraryError(SymbolError):
    """A library or system that is not a well-formed set of candidate terms."""


class TermShapeError(LibraryError, ShapeError):
    """A term whose shape is not that of its library's anchor, or that has no shape at all."""


class ParseError(SymbolError):
    """A string that is not an expression of the term language.

    Attributes:
        column: position of the offending text, counted from 1, or None when it concerns the whole
            string.
    """

    def __init__(self, message: str, column: int | None = None):
        self.column = column
        super().__init__(message if column is None else f"column {column}: {message}")


def nearest(name: object, known: Iterable[object]) -> str:
    """The end of an error message: the known name most like this one, else the list of them."""
    names = [str(k) for k in known]
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"the known names are {', '.join(names)}" if names else "there are none"
