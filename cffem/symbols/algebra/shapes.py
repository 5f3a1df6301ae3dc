# SPDX-License-Identifier: MIT
"""Shapes of expressions: `()` scalars, `(d,)` vectors, `(d, d)` tensors.

An entry is None where the dimension of space is not known yet (`grad(u)` of a scalar field). Every
SymPy node has one small rule; combinations without meaning raise `ShapeError`.
"""

from __future__ import annotations

from functools import lru_cache, singledispatch

import sympy as sp
from sympy.logic.boolalg import Boolean

from cffem.symbols.errors import ShapeError

Shape = tuple[int | None, ...]


@lru_cache(maxsize=65536)
def shape_of(expr: sp.Basic) -> Shape:
    """Return the shape of an expression, or raise `ShapeError`.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.shapes import shape_of
        >>> shape_of(2 * cf.VectorField("E", dim=3)), shape_of(cf.grad(cf.ScalarField("u")))
        ((3,), (None,))
    """
    return _rule(expr)


@singledispatch
def _rule(expr: sp.Basic) -> Shape:
    shape = getattr(expr, "shape", None)
    if isinstance(shape, tuple):
        return shape
    for arg in expr.args:
        if isinstance(arg, sp.Expr) and shape_of(arg) != ():
            raise ShapeError(
                f"{type(expr).__name__} takes scalars, but {arg} has rank {len(shape_of(arg))} in "
                f"{expr}"
            )
    return ()


@_rule.register
def _(expr: sp.Add) -> Shape:
    shape = shape_of(expr.args[0])
    for arg in expr.args[1:]:
        shape = unify(shape, shape_of(arg), expr)
    return shape


@_rule.register
def _(expr: sp.Mul) -> Shape:
    ranked = [shape for shape in map(shape_of, expr.args) if shape != ()]
    if len(ranked) > 1:
        raise ShapeError(
            f"{expr} multiplies two vectors or tensors; write dot, inner, cross or outer"
        )
    return ranked[0] if ranked else ()


@_rule.register
def _(expr: sp.Derivative) -> Shape:
    return shape_of(expr.expr)


@_rule.register
def _(expr: sp.Pow) -> Shape:
    if any(shape_of(arg) != () for arg in expr.args):
        raise ShapeError(f"{expr} is a power of a vector or tensor; write norm2, dot or inner")
    return ()


@_rule.register
def _(expr: sp.Piecewise) -> Shape:
    shape: Shape | None = None
    for value, condition in expr.args:
        _check_condition(condition)
        if value == 0:  # zero has every shape
            continue
        shape = shape_of(value) if shape is None else unify(shape, shape_of(value), expr)
    return shape if shape is not None else ()


def _check_condition(condition: sp.Basic) -> None:
    for arg in condition.args:
        if isinstance(arg, Boolean):
            _check_condition(arg)
        elif shape_of(arg) != ():
            raise ShapeError(f"the condition {condition} compares a vector or tensor")


def unify(a: Shape, b: Shape, where: object) -> Shape:
    """The common shape of two summands; None entries take the other's value."""
    if len(a) != len(b):
        raise ShapeError(f"{where} combines a {rank_name(a)} with a {rank_name(b)}")
    for m, k in zip(a, b, strict=True):
        if m is not None and k is not None and m != k:
            raise ShapeError(f"{where} combines dimensions {m} and {k}")
    return tuple(m if m is not None else k for m, k in zip(a, b, strict=True))


def rank_name(shape: Shape) -> str:
    """The word for a shape: scalar, vector or tensor."""
    return ("scalar", "vector", "tensor")[len(shape)]
