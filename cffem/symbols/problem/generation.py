# SPDX-License-Identifier: MIT
"""Generated libraries: all products of a few given terms that fit an equation, named as one
would write them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra import analysis
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.errors import LibraryError, ShapeError
from cffem.symbols.fields import Component, Field, ScalarField
from cffem.symbols.operators import dot, inner
from cffem.symbols.parser.parse import parse
from cffem.symbols.parser.words import CALLABLE, CONSTANTS

if TYPE_CHECKING:
    pass


# Terms of a generated library; a larger one is a mistake rather than a wish.
MOST_TERMS = 500
RESERVED = {"and", "or", "not", "x", "y", "z", "t", "n"}


def written_terms(text: str, fields: Iterable[Field] = ()) -> tuple[list[sp.Expr], list[Field]]:
    """The terms of a text separated by commas, and its fields; names that nobody declared are
    scalar fields.

    Example:
        >>> written_terms("1, u^2, lap(u)")
        ([1, u**2, lap(u)], [u])
    """
    declared = list(fields)
    known = {f.name for f in declared} | set(CALLABLE) | set(CONSTANTS) | RESERVED
    new = [name for name in dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text)) if name not in known]
    declared += [ScalarField(name) for name in new]
    parts = [part.strip() for part in split_outside(text)]
    if not all(parts):
        raise LibraryError(
            f"the terms {text!r} contain an empty one; write them as '1, u, u^2, lap(u)'"
        )
    return [parse(part.replace("^", "**"), fields=declared) for part in parts], declared


def split_outside(text: str) -> list[str]:
    """Parts between the commas that stand outside of parentheses."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def generated_terms(
    atoms: Sequence[sp.Expr], unknown: Field, products: int, order: int | None
) -> dict[str, sp.Expr]:
    """All products of up to so many of the given terms that have the shape of the unknown, by
    readable names.

    Args:
        atoms: scalar, vector and matrix expressions; two vectors are multiplied to their dot
            product, a matrix and a vector to their product, two matrices to their inner product.
        unknown: the field of the equation.
        products: largest number of factors.
        order: largest number of space derivatives in all factors together, or None.
    """
    if isinstance(products, bool) or not isinstance(products, int) or products < 1:
        raise LibraryError(
            f"products is how many terms are multiplied at most, 1 or more, not {products!r}"
        )
    pieces = [sp.sympify(atom) for atom in atoms]
    terms: dict[str, sp.Expr] = {}
    seen: set[sp.Expr] = set()
    for count in range(1, products + 1):
        for factors in itertools.combinations_with_replacement(pieces, count):
            if (
                order is not None
                and sum(analysis.orders(f, unknown.dim)[0] for f in factors) > order
            ):
                continue
            for product in joined(factors):
                alike = sp.expand(product).as_coeff_Mul()[1]
                if product == 0 or alike in seen or shape_of(product) != unknown.shape:
                    continue
                seen.add(alike)
                terms[readable(product)] = product
                if len(terms) > MOST_TERMS:
                    raise LibraryError(
                        f"these products are more than {MOST_TERMS} terms; give fewer, a lower "
                        "order or less products"
                    )
    if not terms:
        raise LibraryError(f"no product of the given terms has the shape of {unknown}")
    return terms


def joined(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """The product of some factors, where they can be multiplied; none where they cannot."""
    scalar = sp.Mul(*(f for f in factors if not shape_of(f)))
    others = sorted((f for f in factors if shape_of(f)), key=lambda f: -len(shape_of(f)))
    if len(others) > 2:
        return []
    try:
        if len(others) < 2:
            return [scalar * f for f in others] or [scalar]
        ranks = [len(shape_of(f)) for f in others]
        return [scalar * (inner(*others) if ranks == [2, 2] else dot(*others))]
    except (ShapeError, TypeError, ValueError):
        return []


def readable(expr: sp.Expr) -> str:
    """A term's name: as one writes it, with u_xx for derivatives, u^2 for powers and a blank
    for products.
    """
    short = {
        d: sp.Symbol(f"{d.expr}_" + "".join(str(c) * int(n) for c, n in d.variable_count))
        for d in expr.atoms(sp.Derivative)
        if isinstance(d.expr, Field | Component)
    }
    text = str(expr.xreplace(short))
    text = re.sub(r"dot\((.+), \1\)", r"|\1|^2", text)
    return text.replace("**", "^").replace("*", " ")
