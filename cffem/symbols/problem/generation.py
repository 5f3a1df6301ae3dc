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
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import LibraryError, ShapeError
from cffem.symbols.fields import Component, Field, ScalarField
from cffem.symbols.operators import Vec, dot, inner, transpose
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
    atoms: Sequence[sp.Expr],
    unknown: Field,
    products: int,
    order: int | None,
    invariant: bool = False,
) -> dict[str, sp.Expr]:
    """All products of up to so many of the given terms that have the shape of the unknown, by
    readable names.

    Args:
        atoms: scalar, vector and matrix expressions; two vectors are multiplied to their dot
            product, a matrix and a vector to their product, two matrices to their inner product.
        unknown: the field of the equation.
        products: largest number of factors.
        order: largest number of space derivatives in all factors together, or None.
        invariant: whether all contractions of vectors and tensors are taken, and only terms that
            do not change when space is turned.
    """
    if isinstance(products, bool) or not isinstance(products, int) or products < 1:
        raise LibraryError(
            f"products is how many terms are multiplied at most, 1 or more, not {products!r}"
        )
    pieces = [sp.sympify(atom) for atom in atoms]
    for piece in pieces if invariant else ():
        check_invariant(piece)
    terms: dict[str, sp.Expr] = {}
    seen: set[sp.Expr] = set()
    for count in range(1, products + 1):
        for factors in itertools.combinations_with_replacement(pieces, count):
            if (
                order is not None
                and sum(analysis.orders(f, unknown.dim)[0] for f in factors) > order
            ):
                continue
            for product in contractions(factors) if invariant else joined(factors):
                alike = sp.expand(product).as_coeff_Mul()[1]
                if product == 0 or alike in seen or shape_of(product) != unknown.shape:
                    continue
                if any(analysis.ratio(t, product, unknown.dim) is not None for t in terms.values()):
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


def check_invariant(piece: sp.Expr) -> None:
    """Refuse a factor that singles out a direction or a place."""
    turned = [d for d in piece.atoms(sp.Derivative) if {*d.variables} & {*SPACE}]
    if turned or piece.atoms(Component) or piece.atoms(sp.Symbol) & {*SPACE} or piece.atoms(Vec):
        raise LibraryError(
            f"{piece} changes when space is turned; write it with grad, div, curl and lap, or "
            "leave invariant out"
        )


def contractions(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """All scalars, vectors and tensors that contractions make of some factors.

    Example:
        >>> import cffem as cf
        >>> v = cf.VectorField("v", dim=2)
        >>> contractions([v, v, v])
        [v*dot(v, v)]
    """
    scalar = sp.Mul(*(f for f in factors if not shape_of(f)))
    others = [f for f in factors if shape_of(f)]
    found: dict[sp.Expr, None] = {}

    def contract(rest: list[sp.Expr], factor: sp.Expr) -> None:
        if len(rest) < 2:
            found[factor * rest[0] if rest else factor] = None
            return
        for i, j in itertools.combinations(range(len(rest)), 2):
            left = [f for k, f in enumerate(rest) if k not in (i, j)]
            for made in pair(rest[i], rest[j]):
                if shape_of(made):
                    contract([*left, made], factor)
                elif made != 0:
                    contract(left, factor * made)

    contract(others, scalar)
    return list(found)


def pair(a: sp.Expr, b: sp.Expr) -> list[sp.Expr]:
    """The contractions of two vectors or tensors."""
    ranks = len(shape_of(a)), len(shape_of(b))
    if ranks == (1, 1):
        return [dot(a, b)]
    if ranks == (2, 2):
        return [inner(a, b), inner(a, transpose(b))]
    matrix, along = (a, b) if ranks == (2, 1) else (b, a)
    return [dot(matrix, along), dot(transpose(matrix), along)]


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
