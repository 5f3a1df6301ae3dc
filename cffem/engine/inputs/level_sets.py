# SPDX-License-Identifier: MIT
"""Where an expression jumps or has a kink, and simplices cut there, so that it is smooth on every
part.

`Piecewise`, `Heaviside`, `sign`, `Abs`, `Max` and `Min` change their branch where some expression g
is zero. A simplex is cut at the zeros of g along its edges, which is exact for a plane; near a
curved set it is divided before, until the plane between those zeros is as good. On each part every
g has one sign, with which the expression is resolved into a smooth one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
import sympy as sp
from sympy.core.relational import Relational

from cffem.symbols.coordinates import SPACE

# Zeros along an edge are found to this share of the values at its ends, and nearer vertices count
# as zeros.
ROUNDING = 1e-12
BISECTIONS = 50
BRANCHING = (sp.Piecewise, sp.Heaviside, sp.sign, sp.Abs, sp.Max, sp.Min)
Signs = Mapping[sp.Expr, int]


@lru_cache(maxsize=512)
def level_sets(expr: sp.Basic) -> tuple[sp.Expr, ...]:
    """The expressions whose zeros separate the branches, inner ones first.

    Example:
        >>> from cffem import x
        >>> level_sets(sp.Piecewise((1, sp.Abs(x - 1) < 2), (0, True)))
        (x - 1, Abs(x - 1) - 2)
    """
    found = [g for arg in expr.args for g in level_sets(arg)]
    if isinstance(expr, sp.Heaviside | sp.sign | sp.Abs):
        found.append(expr.args[0])
    elif isinstance(expr, sp.Max | sp.Min):
        found += [a - b for i, a in enumerate(expr.args) for b in expr.args[i + 1 :]]
    elif isinstance(expr, Relational) and not isinstance(expr, sp.Eq | sp.Ne):
        found.append(expr.lhs - expr.rhs)
    return tuple(dict.fromkeys(g for g in found if g.free_symbols & {*SPACE}))


def resolved(expr: sp.Basic, signs: Signs) -> sp.Basic:
    """The branch of an expression where the level sets have these signs.

    Example:
        >>> from cffem import x
        >>> resolved(sp.Abs(x - 1) * sp.Heaviside(x), {x - 1: -1, x: 1})
        1 - x
    """
    if not expr.args or not expr.has(*BRANCHING, Relational):
        return expr
    if isinstance(expr, sp.Piecewise):
        for value, condition in expr.args:
            if resolved(condition, signs) == sp.true:
                return resolved(value, signs)
        return sp.nan
    if isinstance(expr, Relational):
        return _truth(expr, signs)
    if isinstance(expr, sp.Max | sp.Min):
        return _extreme(expr, signs)
    inner = [resolved(arg, signs) for arg in expr.args]
    sign = signs.get(expr.args[0]) if isinstance(expr, sp.Heaviside | sp.sign | sp.Abs) else None
    if sign is None:
        return expr.func(*inner)
    return {sp.Abs: sign * inner[0], sp.sign: sp.Integer(sign), sp.Heaviside: sp.Integer(sign > 0)}[
        type(expr)
    ]


def _truth(relation: Relational, signs: Signs) -> sp.Basic:
    """Whether a relation holds; equations hold on a set without volume."""
    if isinstance(relation, sp.Eq | sp.Ne):
        return sp.true if isinstance(relation, sp.Ne) else sp.false
    sign = signs.get(relation.lhs - relation.rhs)
    if sign is None:
        return relation.func(resolved(relation.lhs, signs), resolved(relation.rhs, signs))
    below = isinstance(relation, sp.StrictLessThan | sp.LessThan)
    return sp.true if (sign < 0) == below else sp.false


def _extreme(expr: sp.Expr, signs: Signs) -> sp.Expr:
    """The largest or smallest argument."""
    best = expr.args[0]
    for other in expr.args[1:]:
        difference = best - other
        sign = signs.get(difference, -signs.get(-difference, 0))
        if not sign:
            return expr.func(*(resolved(arg, signs) for arg in expr.args))
        best = other if (sign < 0) == isinstance(expr, sp.Max) else best
    return resolved(best, signs)


def is_affine(expr: sp.Expr) -> bool:
    """Whether an expression is a polynomial of degree one in the coordinates."""
    return expr.is_polynomial(*SPACE) and sp.Poly(expr, *SPACE).total_degree() <= 1


def cut(
    corners: np.ndarray, values: np.ndarray, along: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simplices cut at the zeros of a function along their edges.

    Args:
        corners: corners of simplices, shape (simplices, dim + 1, dim).
        values: of the function there, shape (simplices, dim + 1).
        along: gives its values at points of shape (n, dim), each in the simplex of that number.

    Returns:
        The corners of the parts, the number of the simplex that each is part of, and the sign of
        the function on each.

    Example:
        >>> corners = np.array([[[0.0], [1.0]]])
        >>> parts, origin, signs = cut(
        ...     corners, np.array([[-1.0, 3.0]]), lambda points, numbers: 4 * points[:, 0] - 1
        ... )
        >>> parts[:, :, 0].round(6).tolist(), origin.tolist(), signs.tolist()
        ([[0.0, 0.25], [0.25, 1.0]], [0, 0], [-1, 1])
    """
    origin = np.arange(len(corners))
    if not len(corners):
        return corners, origin, np.empty(0, dtype=int)
    limit = ROUNDING * np.abs(values).max(axis=1, initial=0.0)
    values = np.where(np.abs(values) <= limit[:, None], 0.0, values)
    done: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    while len(corners):
        crossed = (values > 0).any(axis=1) & (values < 0).any(axis=1)
        done.append((corners[~crossed], origin[~crossed], values[~crossed]))
        corners, origin, values = corners[crossed], origin[crossed], values[crossed]
        if not len(corners):
            break
        rows = np.arange(len(corners))
        high, low = values.argmax(axis=1), values.argmin(axis=1)
        middle = _zeros(
            corners[rows, low],
            corners[rows, high],
            values[rows, low],
            values[rows, high],
            origin,
            along,
        )
        parts, heights = [], []
        for replaced in (high, low):
            part, height = corners.copy(), values.copy()
            part[rows, replaced], height[rows, replaced] = middle, 0.0
            parts.append(part)
            heights.append(height)
        corners, values, origin = (
            np.concatenate(parts),
            np.concatenate(heights),
            np.concatenate([origin, origin]),
        )
    corners, origin, values = (np.concatenate(arrays) for arrays in zip(*done, strict=True))
    largest = values[np.arange(len(values)), np.abs(values).argmax(axis=1)]
    return corners, origin, np.where(largest < 0, -1, 1)


def _zeros(
    low: np.ndarray,
    high: np.ndarray,
    below: np.ndarray,
    above: np.ndarray,
    numbers: np.ndarray,
    along: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Zeros of a function between points where it is negative and points where it is positive."""
    start, end = np.zeros(len(low)), np.ones(len(low))
    place = below / (below - above)
    for _ in range(BISECTIONS):
        values = along(low + place[:, None] * (high - low), numbers)
        start, end = np.where(values < 0, place, start), np.where(values < 0, end, place)
        if np.all(np.abs(values) <= ROUNDING * (above - below)):
            break
        place = (start + end) / 2
    return low + place[:, None] * (high - low)
