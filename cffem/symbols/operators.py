# SPDX-License-Identifier: MIT
"""The words users write: `grad`, `div`, `curl`, `lap`, `dt`, products, and vectors from components.

What each word means is in `nodes`, what is simplified at once in `calculus`. `evaluate=False` keeps
an operator as written, for instance to integrate `div(u*b)` by parts as a divergence.
"""

from __future__ import annotations

import sympy as sp

from cffem.symbols.algebra.calculus import depends_on_space, has_jump, split_constant, split_scalar
from cffem.symbols.algebra.components import component
from cffem.symbols.algebra.nodes import (
    Cross,
    Curl,
    Div,
    Dot,
    Grad,
    Inner,
    Lap,
    LinearOperator,
    Node,
    Outer,
    Sym,
    TensorMap,
    TensorTrace,
    Transpose,
    Vec,
    as_expr,
    dimension_of,
)
from cffem.symbols.coordinates import t
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Component, Normal, n

__all__ = [
    "Component",
    "Cross",
    "Curl",
    "Div",
    "Dot",
    "Grad",
    "Inner",
    "Lap",
    "LinearOperator",
    "Node",
    "Normal",
    "Outer",
    "Sym",
    "TensorMap",
    "TensorTrace",
    "Transpose",
    "Vec",
    "as_expr",
    "component",
    "cross",
    "curl",
    "depends_on_space",
    "dimension_of",
    "div",
    "dot",
    "dt",
    "grad",
    "has_jump",
    "inner",
    "lap",
    "n",
    "norm2",
    "outer",
    "split_constant",
    "split_scalar",
    "sym",
    "trace",
    "transpose",
    "vector",
]


def grad(expr: ExpressionLike, evaluate: bool = True) -> sp.Expr:
    """Gradient of a scalar (a vector) or of a vector (a tensor, grad(v)[i, j] = ∂v_i/∂x_j)."""
    return Grad(expr, evaluate=evaluate)


def div(expr: ExpressionLike, evaluate: bool = True) -> sp.Expr:
    """Divergence of a vector, or row by row of a tensor."""
    return Div(expr, evaluate=evaluate)


def curl(expr: ExpressionLike, evaluate: bool = True) -> sp.Expr:
    """Curl of a 3D vector, of a 2D vector (a scalar) or of a 2D scalar (a vector)."""
    return Curl(expr, evaluate=evaluate)


def lap(expr: ExpressionLike, evaluate: bool = True) -> sp.Expr:
    """Laplacian of a scalar or, componentwise, of a vector."""
    return Lap(expr, evaluate=evaluate)


def dt(expr: ExpressionLike) -> sp.Expr:
    """Time derivative; `dt(dt(u))` is the second one."""
    return as_expr(expr).diff(t)


def dot(a: ExpressionLike, b: ExpressionLike) -> sp.Expr:
    """Scalar product of two vectors; with a tensor the usual matrix–vector product."""
    return Dot(a, b)


def inner(a: ExpressionLike, b: ExpressionLike) -> sp.Expr:
    """Full contraction of two expressions of the same shape."""
    return Inner(a, b)


def cross(a: ExpressionLike, b: ExpressionLike) -> sp.Expr:
    """Cross product of two 3D vectors (a vector) or two 2D vectors (a scalar)."""
    return Cross(a, b)


def outer(a: ExpressionLike, b: ExpressionLike) -> sp.Expr:
    """Outer product of two vectors."""
    return Outer(a, b)


def sym(a: ExpressionLike) -> sp.Expr:
    """Symmetric part of a tensor."""
    return Sym(a)


def transpose(a: ExpressionLike) -> sp.Expr:
    """Transpose of a tensor."""
    return Transpose(a)


def trace(a: ExpressionLike) -> sp.Expr:
    """Trace of a tensor."""
    return TensorTrace(a)


def norm2(a: ExpressionLike) -> sp.Expr:
    """Squared Euclidean norm: `norm2(grad(u))` is |∇u|²."""
    a = as_expr(a)
    return inner(a, a)


def vector(*components: ExpressionLike) -> sp.Expr:
    """A vector from scalar components: `vector(-y, x)`."""
    return Vec(*components)
