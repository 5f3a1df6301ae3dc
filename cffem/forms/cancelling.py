# SPDX-License-Identifier: MIT
"""Summands that have no weak form one by one, but have one together.

The normal form of div(k ∇u) is k lap u + ∇k·∇u. Where k jumps between cells neither summand is a
function, but integration by parts of the first leaves −v ∇k·∇u, which is what the second
contributes with the other sign: what remains, −k ∇u·∇v, takes no derivative of k. Likewise |∇u|²
lap u and ∇|∇u|²·∇u are no divergences, but their sum is. Each summand has several exact ways to be
written; a choice is right if everything that the elements cannot carry cancels, which is decided in
components. The result holds for discontinuous k, too: both sides are continuous in k without any
derivative of it, and smooth functions are dense.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Sequence

import sympy as sp

from cffem.forms.parts import WeakIntegrand
from cffem.symbols.algebra.components import to_components

# Up to this many summands all choices are tried, beyond it only the first of each.
MOST_OPEN = 8


def cancelling(
    summands: Sequence[tuple[WeakIntegrand, ...]],
    conforming: Callable[[sp.Expr], bool],
    divisible: Callable[[sp.Expr], bool],
    dimension: int,
) -> WeakIntegrand | None:
    """The sum of one way for each summand such that nothing is left that the elements cannot carry;
    None if there is none.

    Args:
        summands: for each summand the ways it can be written.
        conforming: tells whether the elements carry every derivative in an expression.
        divisible: tells whether an expression may be differentiated by the rules, which one with a
            jump under an operator may not.
        dimension: of space.
    """
    lost = [
        [_lost(way.volume, conforming, divisible, dimension) for way in ways] for ways in summands
    ]
    first = (0,) * len(summands)
    choices = (
        itertools.product(*(range(len(ways)) for ways in summands))
        if len(summands) <= MOST_OPEN
        else [first]
    )
    for choice in choices:
        if not _total([parts[i] for parts, i in zip(lost, choice, strict=True)]):
            total = sum(
                (ways[i] for ways, i in zip(summands, choice, strict=True)), WeakIntegrand()
            )
            kept = [
                part for part in sp.Add.make_args(sp.expand_mul(total.volume)) if conforming(part)
            ]
            return WeakIntegrand(sp.Add(*kept), total.traces)
    return None


def _lost(
    volume: sp.Expr,
    conforming: Callable[[sp.Expr], bool],
    divisible: Callable[[sp.Expr], bool],
    dimension: int,
) -> Counter[sp.Expr]:
    """What the elements cannot carry in an integrand: monomials in components, with factors."""
    found: Counter[sp.Expr] = Counter()
    for part in sp.Add.make_args(sp.expand_mul(volume)):
        if not conforming(part):
            plain = to_components(part, dimension)[0] if divisible(part) else part
            found.update(dict(sp.expand(plain).as_coefficients_dict()))
    return found


def _total(parts: Sequence[Counter[sp.Expr]]) -> dict[sp.Expr, sp.Expr]:
    """The sum of what is lost, without what has cancelled."""
    total: Counter[sp.Expr] = Counter()
    for part in parts:
        total.update(part)
    return {monomial: factor for monomial, factor in total.items() if factor != 0}
