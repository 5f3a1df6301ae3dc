# SPDX-License-Identifier: MIT
"""Checks of candidate terms, each raising an error that names the term and says what to do.

They run when a library is built, so that a misspelt parameter or a term that is another one in
disguise is found before anything is solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from cffem.symbols.algebra.analysis import is_zero, ratio
from cffem.symbols.algebra.nodes import as_expr, dimensions
from cffem.symbols.algebra.shapes import Shape, rank_name, shape_of, unify
from cffem.symbols.coordinates import COORDINATES, Parameter
from cffem.symbols.errors import (
    AS_TWO_FIELDS,
    LibraryError,
    ShapeError,
    SymbolError,
    TermShapeError,
    nearest,
)
from cffem.symbols.fields import Field, Normal
from cffem.symbols.form_terms import Form, FormTerm
from cffem.symbols.known import Known
from cffem.symbols.restricted import split_parts

# The nearest way to a term that takes values at other places or times.
AS_LOCAL_FIELD = (
    "make it a field w of its own with a local equation in a System, dt(w) = u - w for a memory or "
    "w - lap(w) = u for a smooth kernel say"
)
MEANINGLESS = (sp.nan, sp.zoo, sp.oo, -sp.oo, sp.I)


def checked_name(name: object, what: str = "term") -> str:
    """A term's name: a printable string; a System puts its field and '/' before it, and
    fields have no '/' in theirs.
    """
    if not isinstance(name, str):
        raise LibraryError(f"a {what}'s name must be a string, not {name!r}")
    if not name or name != name.strip() or not name.isprintable():
        raise LibraryError(
            f"{name!r} is not a name: use printable characters and no blanks at the ends"
        )
    return name


def checked_terms(terms: Any) -> dict[str, sp.Expr | Form]:
    """Named expressions from a mapping or from pairs, with every name occurring once."""
    if not isinstance(terms, Iterable):
        raise LibraryError(f"terms give each expression its name, {{'u': u}} say, not {terms!r}")
    result: dict[str, sp.Expr | Form] = {}
    for pair in terms.items() if isinstance(terms, Mapping) else terms:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise LibraryError(
                f"terms are pairs of a name and an expression, {{'u': u}} say, not {pair!r}"
            )
        name = checked_name(pair[0])
        if name in result:
            raise LibraryError(f"two terms are called {name!r}; give each its own name")
        form = isinstance(pair[1], Form)
        result[name] = pair[1] if form else named_expression(f"term {name!r}", pair[1])
    return result


def named_expression(label: str, value: object) -> sp.Expr:
    """An expression from a user's value; if its shape makes no sense, the error names it."""
    try:
        expr = as_expr(value)
        shape_of(expr)
    except ShapeError as error:
        raise TermShapeError(f"{label}: {error}") from None
    except sp.SympifyError:
        whole = (
            f"an observable is a number of the whole solution and no term; {AS_LOCAL_FIELD}"
            if hasattr(value, "integrand")
            else "it is not an expression"
        )
        raise LibraryError(f"{label} is {value!r}; {whole}") from None
    except (TypeError, ValueError) as error:
        raise LibraryError(f"{label}: {error}") from None
    return expr


def check_symbols(
    label: str, expr: sp.Expr, known: Iterable[object], on_boundary: bool = False
) -> None:
    """Refuse symbols and functions nobody declared, the normal inside the domain, and numbers
    that are not real.
    """
    for whole in sorted(expr.atoms(sp.Integral, sp.Sum, sp.Product, sp.Limit), key=str):
        raise LibraryError(
            f"{label} contains {whole}; integrals, sums and limits over places or times have no "
            f"term here; {AS_LOCAL_FIELD}"
        )
    for symbol in sorted(expr.atoms(sp.Symbol) - {*COORDINATES}, key=str):
        if symbol.name in {"x", "y", "z", "t"}:
            raise LibraryError(
                f"{label} uses a symbol {symbol} that is not the coordinate; write `from cffem "
                f"import {symbol}`"
            )
        if not isinstance(symbol, Parameter):
            hint = f"a constant is cf.Parameter({symbol.name!r})"
            raise LibraryError(
                f"{label} uses the undeclared symbol {symbol}; {nearest(symbol, known)} ({hint})"
            )
    for function in sorted(expr.atoms(AppliedUndef), key=str):
        raise LibraryError(
            f"{label} uses the undeclared function {function}; {nearest(function.func, known)}"
        )
    for shifted in sorted(expr.atoms(sp.Subs), key=str):
        raise LibraryError(
            f"{label} contains {shifted}, a derivative at another place or time; delays have no "
            f"term here; {AS_LOCAL_FIELD}"
        )
    check_restricted(label, expr)
    if _without_parts(expr).has(Normal) and not on_boundary:
        raise LibraryError(
            f"{label} uses the boundary normal n, which has no value inside the domain"
        )
    for number in MEANINGLESS:
        if expr.has(number):
            cure = f"; {AS_TWO_FIELDS}" if number == sp.I else ""
            raise LibraryError(f"{label} contains {number}, but terms are real and finite{cure}")


def check_restricted(label: str, expr: sp.Expr) -> None:
    """Refuse terms in a part that stand inside an operator."""
    try:
        split_parts(expr)
    except SymbolError as error:
        raise LibraryError(f"{label}: {error}") from None


def _without_parts(expr: sp.Expr) -> sp.Expr:
    """What of a term acts in the whole domain; on a boundary the normal has a value."""
    return split_parts(expr)[0]


def check_fields(labelled: Iterable[tuple[str, sp.Expr]]) -> int | None:
    """Refuse two things of one name and fields of different dimensions; return the dimension
    of space if some part tells.
    """
    named: dict[str, sp.Basic] = {}
    told: dict[int, str] = {}
    for label, expr in labelled:
        for symbol in sorted(expr.atoms(Field, Parameter, Known), key=str):
            other = named.setdefault(symbol.name, symbol)
            if other != symbol:
                raise LibraryError(
                    f"{label} uses {sp.srepr(symbol)}, but {sp.srepr(other)} has the same name; "
                    "declare it once"
                )
        for dim in dimensions(expr):
            told.setdefault(dim, label)
    if len(told) > 1:
        (a, first), (b, second), *_ = sorted(told.items())
        raise TermShapeError(
            f"{first} lives in {a}D but {second} in {b}D; all fields share one space"
        )
    return next(iter(told), None)


def check_shape(label: str, expr: sp.Expr, shape: Shape, owner: str) -> None:
    """Refuse a term that is a scalar where the equation is a vector, or of another length."""
    try:
        unify(shape, shape_of(expr), f"{label} with {owner}")
    except ShapeError as error:
        if len(shape) != len(shape_of(expr)):
            raise TermShapeError(
                f"{label} is a {rank_name(shape_of(expr))}, but {owner} is a {rank_name(shape)}"
            ) from None
        raise TermShapeError(str(error)) from None


def check_distinct(terms: Mapping[str, sp.Expr], anchor: sp.Expr | None, dim: int | None) -> None:
    """Refuse terms that vanish, and terms that are a constant times another or times the anchor."""
    terms = {name: expr for name, expr in terms.items() if not expr.has(FormTerm)}
    for name, expr in terms.items():
        if is_zero(expr, dim):
            raise LibraryError(f"term {name!r} is identically zero: {expr}")
    listed = [("the anchor", anchor)] if anchor is not None else []
    for name, expr in terms.items():
        for label, other in listed:
            factor = ratio(other, expr, dim)
            if factor is not None:
                relation = (
                    ("equals" if factor == 1 else f"is {factor} times")
                    + f" {label}"
                    + (f" in {dim}D" if dim else "")
                )
                raise LibraryError(
                    f"term {name!r} {relation}: {expr} and {other}; keep one of them"
                )
        listed.append((f"term {name!r}", expr))
