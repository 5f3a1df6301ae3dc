# SPDX-License-Identifier: MIT
"""The words users write: `grad`, `div`, `curl`, `lap`, `dt`, products, and vectors from components.

What each word means is in `nodes`, what is simplified at once in `calculus`. `evaluate=False` keeps
an operator as written, for instance to integrate `div(u*b)` by parts as a divergence.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from cffem.symbols.algebra.tensor_nodes import Det, Inverse, Tensor, tensor_from
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import ShapeError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Component, Normal, n

__all__ = [
    "Component",
    "Cross",
    "Curl",
    "Det",
    "Div",
    "Dot",
    "Grad",
    "Inner",
    "Inverse",
    "Lap",
    "LinearOperator",
    "Node",
    "Normal",
    "Outer",
    "Sym",
    "Tensor",
    "TensorMap",
    "TensorTrace",
    "Transpose",
    "Vec",
    "as_expr",
    "component",
    "cross",
    "curl",
    "depends_on_space",
    "det",
    "dimension_of",
    "div",
    "dot",
    "dt",
    "grad",
    "has_jump",
    "identity",
    "inner",
    "inv",
    "lap",
    "n",
    "norm2",
    "outer",
    "split_constant",
    "split_scalar",
    "sym",
    "tensor",
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


def det(a: ExpressionLike) -> sp.Expr:
    """Determinant of a tensor: `det(identity(2) + grad(u))` is the change of volume J."""
    return Det(a)


def inv(a: ExpressionLike) -> sp.Expr:
    """Inverse of a tensor."""
    return Inverse(a)


def identity(dim: int) -> sp.Expr:
    """The identity tensor in a space of this dimension.

    Example:
        >>> import cffem as cf
        >>> u = cf.VectorField("u", dim=2)
        >>> cf.trace(cf.identity(2) + cf.grad(u))
        div(u) + 2
    """
    if isinstance(dim, bool) or dim not in (1, 2, 3):
        raise ShapeError(f"the identity has dimension 1, 2 or 3, not {dim!r}")
    return Grad(Vec(*SPACE[:dim]))


def tensor(*rows: Sequence[ExpressionLike]) -> sp.Expr:
    """A tensor from its rows, for instance a conductivity that depends on the direction.

    Example:
        >>> import cffem as cf
        >>> u, K = cf.ScalarField("u"), cf.tensor((2, 1), (1, 3))
        >>> cf.div(cf.dot(K, cf.grad(u)))
        div(dot(tensor((2, 1), (1, 3)), grad(u)))
    """
    return tensor_from(rows)


def vector(*components: ExpressionLike) -> sp.Expr:
    """A vector from scalar components: `vector(-y, x)`."""
    return Vec(*components)
