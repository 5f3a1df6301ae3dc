# SPDX-License-Identifier: MIT
"""The variational (Gateaux) derivative d/dε F[u + ε w] at ε = 0 of any expression, in SymPy.

It is the symbol of the linearised operator L_u, and the reference for the derivatives that UFL
takes.
"""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra.calculus import partial_derivatives, scalar_atoms
from cffem.symbols.algebra.components import component
from cffem.symbols.algebra.nodes import ByEntries, Node, as_expr
from cffem.symbols.algebra.shapes import rank_name, shape_of, unify
from cffem.symbols.algebra.tensor_nodes import TensorFunction
from cffem.symbols.errors import ShapeError, SymbolError
from cffem.symbols.fields import Component, Field, Normal

if TYPE_CHECKING:
    pass


def variation(expr: object, field: Field, direction: sp.Expr) -> sp.Expr:
    """The derivative of an expression with respect to a field in a direction.

    Args:
        expr: any expression.
        field: the field that varies.
        direction: a field or expression of the field's shape; a tuple is a vector.

    Returns:
        The Gateaux derivative, linear in the direction. Jumps of the expression itself in the field
        (`Piecewise`, `sign`) have the derivative they have where they do not jump.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.variation import variation
        >>> u, w = cf.ScalarField("u"), cf.ScalarField("w")
        >>> variation(u**3 + cf.norm2(cf.grad(u)), u, w)
        3*u**2*w + 2*dot(grad(u), grad(w))
    """
    if not isinstance(field, Field):
        raise SymbolError(f"a variation is taken with respect to a field, not {field!r}")
    expr, along = as_expr(expr), as_expr(direction)
    shape_of(expr)
    if along != 0:
        try:
            unify(field.shape, shape_of(along), f"the direction {along} of {field}")
        except ShapeError:
            names = rank_name(shape_of(along)), rank_name(field.shape)
            raise ShapeError(
                f"the direction {along} is a {names[0]}, but {field} is a {names[1]}"
            ) from None
    return _vary(expr, field, along)


@singledispatch
def _vary(expr: sp.Expr, field: Field, along: sp.Expr) -> sp.Expr:
    """A scalar function: Σ ∂f/∂a δa over the values a of fields and their derivatives in it."""
    if not expr.has(Field):
        return sp.S.Zero
    atoms = [a for a in scalar_atoms(expr) if a.has(Field)]
    partials = partial_derivatives(expr, atoms)
    return sp.Add(*(f_a * _vary(a, field, along) for a, f_a in zip(atoms, partials, strict=True)))


@_vary.register
def _(expr: Field, field: Field, along: sp.Expr) -> sp.Expr:
    return along if expr == field else sp.S.Zero


@_vary.register
def _(expr: Normal, field: Field, along: sp.Expr) -> sp.Expr:
    return sp.S.Zero


@_vary.register
def _(expr: Component, field: Field, along: sp.Expr) -> sp.Expr:
    return component(along, expr.index) if expr.field == field else sp.S.Zero


@_vary.register
def _(expr: sp.Add, field: Field, along: sp.Expr) -> sp.Expr:
    return sp.Add(*(_vary(arg, field, along) for arg in expr.args))


@_vary.register
def _(expr: sp.Mul, field: Field, along: sp.Expr) -> sp.Expr:
    args = expr.args
    return sp.Add(
        *(sp.Mul(*args[:i], _vary(arg, field, along), *args[i + 1 :]) for i, arg in enumerate(args))
    )


@_vary.register
def _(expr: sp.Derivative, field: Field, along: sp.Expr) -> sp.Expr:
    return _vary(expr.expr, field, along).diff(*expr.variable_count)


@_vary.register
def _(expr: sp.Piecewise, field: Field, along: sp.Expr) -> sp.Expr:
    return sp.Piecewise(
        *((_vary(value, field, along), condition) for value, condition in expr.args)
    )


@_vary.register
def _(expr: Node, field: Field, along: sp.Expr) -> sp.Expr:
    # Every operator is linear in each of its arguments.
    args = expr.args
    return sp.Add(
        *(
            expr.func(*args[:i], _vary(arg, field, along), *args[i + 1 :])
            for i, arg in enumerate(args)
        )
    )


@_vary.register
def _(expr: TensorFunction, field: Field, along: sp.Expr) -> sp.Expr:
    change = _vary(expr.args[0], field, along)
    return expr.along(change) if change != 0 else sp.S.Zero


@_vary.register
def _(expr: ByEntries, field: Field, along: sp.Expr) -> sp.Expr:
    return type(expr)(*(_vary(part, field, along) for part in expr.args))
