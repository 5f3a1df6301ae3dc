# SPDX-License-Identifier: MIT
"""Generated libraries: all products of a few given terms that fit an equation, named as one
would write them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence

import sympy as sp

from cffem.symbols.algebra import analysis
from cffem.symbols.algebra.nodes import Grad, dimensions
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import LibraryError, ShapeError
from cffem.symbols.fields import Component, Field, ScalarField
from cffem.symbols.known import KnownEntry
from cffem.symbols.operators import Vec, as_expr, div, dot, inner, lap, trace, transpose
from cffem.symbols.parser.parse import parse
from cffem.symbols.parser.words import CALLABLE, CONSTANTS

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
    pieces = [as_expr(atom) for atom in atoms]
    for piece in pieces if invariant else ():
        check_invariant(piece)
    # In a scalar equation the vectors tell how many dimensions space has.
    dim = unknown.dim or max(set().union(*map(dimensions, pieces), set()), default=None)
    terms: dict[str, sp.Expr] = {}
    seen: set[sp.Expr] = set()
    for count in range(1, products + 1):
        for factors in itertools.combinations_with_replacement(pieces, count):
            if order is not None and sum(analysis.orders(f, dim)[0] for f in factors) > order:
                continue
            for product in contractions(factors) if invariant else joined(factors):
                alike = sp.expand(product).as_coeff_Mul()[1]
                if product == 0 or alike in seen or shape_of(product) != unknown.shape:
                    continue
                if any(analysis.ratio(t, product, dim) is not None for t in terms.values()):
                    continue
                seen.add(alike)
                name = readable(product)
                if name in terms:
                    raise LibraryError(
                        f"{sp.srepr(terms[name])} and {sp.srepr(product)} are both written as "
                        f"{name}; give the field another name"
                    )
                terms[name] = product
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
    parts = piece.atoms(Component, KnownEntry, Vec)
    if turned or parts or piece.atoms(sp.Symbol) & {*SPACE}:
        raise LibraryError(
            f"{piece} changes when space is turned; write it with grad, div, curl and lap, or "
            "leave invariant out"
        )


def contractions(factors: Sequence[sp.Expr]) -> list[sp.Expr]:
    """All scalars, vectors and tensors that contractions make of some factors; cross products,
    which a mirror turns round, are not among them.

    Example:
        >>> import cffem as cf
        >>> v = cf.VectorField("v", dim=2)
        >>> contractions([v, v, v])
        [v*dot(v, v)]
        >>> contractions([cf.grad(v), v])
        [v*div(v), dot(grad(v), v), dot(transpose(grad(v)), v)]
    """
    scalar = sp.Mul(*(f for f in factors if not shape_of(f)))
    others = [f for f in factors if shape_of(f)]
    found: dict[sp.Expr, None] = {}

    def contract(rest: list[sp.Expr], factor: sp.Expr) -> None:
        for i, matrix in enumerate(rest):
            if len(shape_of(matrix)) == 2:
                contract([*rest[:i], *rest[i + 1 :]], factor * traced(matrix))
        if len(rest) < 2:
            found[factor * rest[0] if rest else factor] = None
            return
        for i, j in itertools.combinations(range(len(rest)), 2):
            left = [f for k, f in enumerate(rest) if k not in (i, j)]
            for made in pair(rest[i], rest[j], more=len(rest) > 2):
                if shape_of(made):
                    contract([*left, made], factor)
                elif made != 0:
                    contract(left, factor * made)

    contract(others, scalar)
    return list(found)


def traced(matrix: sp.Expr) -> sp.Expr:
    """The trace: div of a gradient, lap of a second one."""
    if isinstance(matrix, Grad):
        (inside,) = matrix.args
        return lap(inside.args[0]) if isinstance(inside, Grad) else div(inside)
    return trace(matrix)


def pair(a: sp.Expr, b: sp.Expr, more: bool = False) -> list[sp.Expr]:
    """The contractions of two vectors or tensors; with more of them, the products of tensors too,
    which these contract further.
    """
    ranks = len(shape_of(a)), len(shape_of(b))
    if ranks == (1, 1):
        return [dot(a, b)]
    if ranks == (2, 2):
        turned = [dot(a, b), dot(a, transpose(b)), dot(transpose(a), b)] if more else []
        return [inner(a, b), inner(a, transpose(b)), *turned]
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
    text = re.sub(r"(?:dot|inner)\(([^,]+), \1\)\*\*(\d+)", _power_of_size, text)
    text = re.sub(r"(?:dot|inner)\(([^,]+), \1\)", r"|\1|^2", text)
    return text.replace("**", "^").replace("*", " ")


def _power_of_size(found: re.Match[str]) -> str:
    return f"|{found[1]}|^{2 * int(found[2])}"
