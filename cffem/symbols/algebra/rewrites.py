# SPDX-License-Identifier: MIT
"""Identities of vector calculus that are not always wanted, as named rewrites.

What is simplified without asking is in `calculus`; here are the identities that trade one form for
another, such as curl curl = grad div − lap. Every one is tested against both sides written out in
components.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import sympy as sp

from cffem.symbols.algebra.nodes import (
    Cross,
    Curl,
    Div,
    Dot,
    Grad,
    Inner,
    Lap,
    Node,
    Sym,
    Transpose,
    Vec,
    as_expr,
)
from cffem.symbols.algebra.shapes import Shape, shape_of
from cffem.symbols.errors import SymbolError, nearest
from cffem.symbols.fields import Component

Rule = Callable[[sp.Expr], "sp.Expr | None"]
_RULES: dict[str, Rule] = {}


def rewrite(expr: object, name: str) -> sp.Expr:
    """Apply a named identity wherever it fits, once, from the inside out.

    Args:
        expr: any expression.
        name: one of `REWRITES`, whose docstrings state the identities.

    Raises:
        SymbolError: no rewrite has this name.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.rewrites import rewrite
        >>> E = cf.VectorField("E", dim=3)
        >>> rewrite(cf.curl(cf.curl(E)), "curl-curl")
        grad(div(E)) - lap(E)
        >>> rewrite(cf.lap(E), "vector-laplacian")
        -curl(curl(E)) + grad(div(E))
    """
    if name not in _RULES:
        raise SymbolError(f"no rewrite is called {name!r}; {nearest(name, _RULES)}")
    return _apply(_RULES[name], as_expr(expr))


def _apply(rule: Rule, expr: sp.Basic) -> sp.Basic:
    if not expr.args or isinstance(expr, Component):
        return expr
    args = [_apply(rule, arg) for arg in expr.args]
    rebuilt = expr if args == list(expr.args) else expr.func(*args)
    result = rule(rebuilt)
    return rebuilt if result is None else result


def named(name: str) -> Callable[[Rule], Rule]:
    """Register a rule under a name."""

    def register(rule: Rule) -> Rule:
        _RULES[name] = rule
        return rule

    return register


def _shape(expr: sp.Expr) -> Shape:
    return shape_of(expr.args[0])


@named("curl-curl")
def _curl_curl(expr: sp.Expr) -> sp.Expr | None:
    """curl(curl(v)) = grad(div(v)) − lap(v), in 2D and 3D."""
    if isinstance(expr, Curl) and isinstance(expr.args[0], Curl) and len(_shape(expr.args[0])) == 1:
        v = expr.args[0].args[0]
        return Grad(Div(v)) - Lap(v)
    return None


@named("vector-laplacian")
def _vector_laplacian(expr: sp.Expr) -> sp.Expr | None:
    """lap(v) = grad(div(v)) − curl(curl(v)), in 2D and 3D."""
    if isinstance(expr, Lap) and _shape(expr) in ((2,), (3,)):
        (v,) = expr.args
        return Grad(Div(v)) - Curl(Curl(v))
    return None


@named("grad-div")
def _grad_div(expr: sp.Expr) -> sp.Expr | None:
    """grad(div(v)) = lap(v) + curl(curl(v)), in 2D and 3D."""
    if (
        isinstance(expr, Grad)
        and isinstance(expr.args[0], Div)
        and _shape(expr.args[0]) in ((2,), (3,))
    ):
        v = expr.args[0].args[0]
        return Lap(v) + Curl(Curl(v))
    return None


@named("convection")
def _convection(expr: sp.Expr) -> sp.Expr | None:
    """(v·∇)v = ∇(|v|²/2) + (∇×v)×v; in 2D with the scalar vorticity ω, ω(−v_y, v_x)."""
    if (
        isinstance(expr, Dot)
        and isinstance(expr.args[0], Grad)
        and expr.args[0].args[0] == expr.args[1]
    ):
        v = expr.args[1]
        if shape_of(v) == (3,):
            return Grad(Dot(v, v)) / 2 + Cross(Curl(v), v)
        if shape_of(v) == (2,):
            return Grad(Dot(v, v)) / 2 + Curl(v) * Vec(-Component(v, 1), Component(v, 0))
    return None


@named("lamb-vector")
def _lamb_vector(expr: sp.Expr) -> sp.Expr | None:
    """(∇×v)×v = (v·∇)v − ∇(|v|²/2), the convection read backwards, in 3D."""
    if not isinstance(expr, Cross) or shape_of(expr) != (3,):
        return None
    for v, other, sign in ((expr.args[1], expr.args[0], 1), (expr.args[0], expr.args[1], -1)):
        if isinstance(other, Curl) and other.args[0] == v:
            return sign * (Dot(Grad(v), v) - Grad(Dot(v, v)) / 2)
    return None


@named("grad-dot")
def _grad_dot(expr: sp.Expr) -> sp.Expr | None:
    """∇(a·b)_j = a_i ∂_j b_i + b_i ∂_j a_i, in every dimension."""
    if isinstance(expr, Grad) and isinstance(expr.args[0], Dot) and len(_shape(expr.args[0])) == 1:
        a, b = expr.args[0].args
        return Dot(a, Grad(b)) + Dot(b, Grad(a))
    return None


@named("lap-dot")
def _lap_dot(expr: sp.Expr) -> sp.Expr | None:
    """lap(a·b) = lap(a)·b + a·lap(b) + 2 ∇a : ∇b."""
    if isinstance(expr, Lap) and isinstance(expr.args[0], Dot) and len(_shape(expr.args[0])) == 1:
        a, b = expr.args[0].args
        return Dot(Lap(a), b) + Dot(a, Lap(b)) + 2 * Inner(Grad(a), Grad(b))
    return None


@named("curl-cross")
def _curl_cross(expr: sp.Expr) -> sp.Expr | None:
    """∇×(a×b) = a div(b) − b div(a) + (b·∇)a − (a·∇)b, in 3D."""
    if (
        isinstance(expr, Curl)
        and isinstance(expr.args[0], Cross)
        and shape_of(expr.args[0]) == (3,)
    ):
        a, b = expr.args[0].args
        return Div(b) * a - Div(a) * b + Dot(Grad(a), b) - Dot(Grad(b), a)
    return None


@named("cross-cross")
def _cross_cross(expr: sp.Expr) -> sp.Expr | None:
    """a×(b×c) = b(a·c) − c(a·b), in 3D."""
    if not isinstance(expr, Cross) or shape_of(expr) != (3,):
        return None
    for a, other, sign in ((expr.args[0], expr.args[1], 1), (expr.args[1], expr.args[0], -1)):
        if isinstance(other, Cross):
            b, c = other.args
            return sign * (Dot(a, c) * b - Dot(a, b) * c)
    return None


@named("div-sym-grad")
def _div_sym_grad(expr: sp.Expr) -> sp.Expr | None:
    """div(sym(grad(v))) = (lap(v) + grad(div(v)))/2."""
    if (
        isinstance(expr, Div)
        and isinstance(expr.args[0], Sym)
        and isinstance(expr.args[0].args[0], Grad)
    ):
        v = expr.args[0].args[0].args[0]
        return (Lap(v) + Grad(Div(v))) / 2
    return None


@named("div-transposed-grad")
def _div_transposed_grad(expr: sp.Expr) -> sp.Expr | None:
    """div(transpose(grad(v))) = grad(div(v))."""
    if (
        isinstance(expr, Div)
        and isinstance(expr.args[0], Transpose)
        and isinstance(expr.args[0].args[0], Grad)
    ):
        return Grad(Div(expr.args[0].args[0].args[0]))
    return None


@named("symmetric-part")
def _symmetric_part(expr: sp.Expr) -> sp.Expr | None:
    """sym(A) = (A + Aᵀ)/2."""
    return (expr.args[0] + Transpose(expr.args[0])) / 2 if isinstance(expr, Sym) else None


@named("conservative")
def _conservative(expr: sp.Expr) -> sp.Expr | None:
    """a·∇s = div(s a) − s div(a), with the divergence held as written."""
    if isinstance(expr, Dot) and shape_of(expr) == ():
        for a, other in (expr.args, expr.args[::-1]):
            if isinstance(other, Grad):
                (s,) = other.args
                return Div(s * a, evaluate=False) - s * Div(a)
    return None


@named("expand")
def _expand(expr: sp.Expr) -> sp.Expr | None:
    """A held operator in its normal form: products differentiate, sums come apart."""
    return type(expr)(*expr.args) if isinstance(expr, Node) and expr.held else None


REWRITES: Mapping[str, str] = MappingProxyType(
    {name: str(rule.__doc__) for name, rule in _RULES.items()}
)
