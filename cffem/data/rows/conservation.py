# SPDX-License-Identifier: MIT
"""Terms in conservation form: every term as Σ ∂^d g, so that a weak design can put the derivatives
on the test function.

A term such as u u_xx is rewritten as (u²)_xx/2 − u_x². What stands under the outer derivatives is,
wherever possible, a function of the fields alone, because noisy data can be multiplied and averaged
but not differentiated. The rewriting is exact: peeling ∂_i g off an expression subtracts the full
expansion of ∂_i g.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.fields import Component, ScalarField

Order = tuple[int, ...]  # derivatives in x, y, z and t
NONE: Order = (0, 0, 0, 0)


@dataclass(frozen=True)
class Piece:
    """One ∂^order of an integrand; `order` counts the derivatives in x, y, z and t."""

    order: Order
    integrand: sp.Expr


@lru_cache(maxsize=4096)
def conservative(expr: sp.Expr) -> tuple[Piece, ...]:
    """Pieces of a scalar expression whose only operators are partial derivatives.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> conservative(u * u.diff(cf.x, 2))
        (Piece(order=(2, 0, 0, 0), integrand=u**2/2), Piece(order=(0, 0, 0, 0),
        integrand=-Derivative(u, x)**2))
    """
    found: dict[Order, sp.Expr] = defaultdict(lambda: sp.S.Zero)
    reduce_into(sp.expand(expr), NONE, found)
    return tuple(Piece(order, integrand) for order, integrand in found.items() if integrand != 0)


def reduce_into(expr: sp.Expr, outer: Order, found: dict[Order, sp.Expr]) -> None:
    """Add the pieces of ∂^outer expr to `found`, peeling off one derivative after another."""
    stuck = sp.S.Zero
    while expr != 0:
        monomial, order = leading_monomial(expr)
        if order == 0:
            found[outer] += expr
            break
        peeled = whole_derivative(monomial) or one_derivative(monomial, order, expr)
        if peeled is None:
            stuck += monomial
            expr -= monomial
            continue
        inner, primitive = peeled
        expr = sp.expand(expr - expanded_derivative(primitive, inner))
        total = tuple(a + b for a, b in zip(outer, inner, strict=True))
        if derivative_order(primitive) == 0:
            found[total] += primitive
        else:
            reduce_into(sp.expand(primitive), total, found)
    found[outer] += stuck


def leading_monomial(expr: sp.Expr) -> tuple[sp.Expr, int]:
    """A monomial with the highest derivative, those with a single differentiated factor first."""
    monomials = sp.Add.make_args(expr)
    ranked = [
        (derivative_order(m), -len(differentiated_factors(m)), -k) for k, m in enumerate(monomials)
    ]
    order, _, position = max(ranked)
    return monomials[-position], order


def derivative_order(expr: sp.Expr) -> int:
    """Highest order of a derivative that occurs."""
    return max((int(d.derivative_count) for d in expr.atoms(sp.Derivative)), default=0)


def differentiated_factors(monomial: sp.Expr) -> list[tuple[sp.Derivative, sp.Expr]]:
    """The factors that contain derivatives, as base and exponent; functions of derivatives
    have exponent zero.
    """
    factors = []
    for factor in sp.Mul.make_args(monomial):
        base, exponent = factor.as_base_exp()
        if isinstance(base, sp.Derivative):
            factors.append((base, exponent))
        elif factor.atoms(sp.Derivative):
            factors.append((factor, sp.S.Zero))
    return factors


def orders_of(derivative: sp.Derivative) -> Order:
    """How often a derivative differentiates in each coordinate."""
    counts = dict(derivative.variable_count)
    return tuple(int(counts.get(c, 0)) for c in COORDINATES)


def whole_derivative(monomial: sp.Expr) -> tuple[Order, sp.Expr] | None:
    """c f(u) ∂^d u with a constant c is the leading part of ∂^d ∫ c f(u) du."""
    factors = differentiated_factors(monomial)
    if len(factors) != 1 or factors[0][1] != 1:
        return None
    derivative = factors[0][0]
    rest = sp.cancel(monomial / derivative) if monomial.is_Mul else sp.S.One
    others = rest.atoms(Component, ScalarField) - {derivative.expr}
    if others or rest.atoms(sp.Symbol) & set(COORDINATES):
        return None
    primitive = integrate(rest, derivative.expr)
    return None if primitive is None else (orders_of(derivative), primitive)


def one_derivative(monomial: sp.Expr, order: int, expr: sp.Expr) -> tuple[Order, sp.Expr] | None:
    """r f(v) ∂_i v is the leading part of ∂_i (r ∫ f dv); taken only where it brings the
    expression nearer to conservation.
    """
    factors = differentiated_factors(monomial)
    top = [d for d, exponent in factors if exponent == 1 and derivative_order(d) == order]
    if len(top) != 1 or any(e not in (0, 1) and derivative_order(d) == order for d, e in factors):
        return None
    derivative = top[0]
    rest = sp.Mul(*(f for f in sp.Mul.make_args(monomial) if f != derivative))
    for axis, count in enumerate(orders_of(derivative)):
        if count == 0:
            continue
        lower = lowered(derivative, axis)
        primitive = integrate(rest, lower)
        if primitive is None:
            continue
        inner = tuple(int(k == axis) for k in range(4))
        if lowers_order(rest, lower, order) or shortens(
            expr, expanded_derivative(primitive, inner), order
        ):
            return inner, primitive
    return None


def lowered(derivative: sp.Derivative, axis: int) -> sp.Expr:
    """The derivative with one differentiation less."""
    counts = [(c, n - (c == COORDINATES[axis])) for c, n in derivative.variable_count]
    return (
        sp.Derivative(derivative.expr, *((c, n) for c, n in counts if n > 0))
        if any(n for _, n in counts)
        else derivative.expr
    )


def lowers_order(rest: sp.Expr, lower: sp.Expr, order: int) -> bool:
    """Whether the remainder left after peeling has no derivative of the same order: other
    factors are two orders lower.
    """
    others = (rest.atoms(sp.Derivative) | rest.atoms(Component, ScalarField)) - {lower}
    return all(derivative_order(o) <= order - 2 for o in others)


def shortens(expr: sp.Expr, expansion: sp.Expr, order: int) -> bool:
    """Whether subtracting an expansion leaves fewer monomials with derivatives of this order."""

    def count(e: sp.Expr) -> int:
        return sum(derivative_order(m) >= order for m in sp.Add.make_args(e) if m != 0)

    return count(sp.expand(expr - expansion)) < count(expr)


def integrate(rest: sp.Expr, variable: sp.Expr) -> sp.Expr | None:
    """∫ rest d(variable) with all else constant; None when SymPy finds no closed form."""
    dummy = sp.Dummy(real=True)
    held = {d: sp.Dummy(real=True) for d in rest.atoms(sp.Derivative) if d != variable}
    plain = rest.xreplace(held).xreplace({variable: dummy}) if rest != variable else dummy
    power, exponent = plain.as_independent(dummy)[1].as_base_exp()
    if not plain.has(dummy):
        primitive = plain * dummy
    elif power == dummy and exponent.is_number and exponent != -1:
        primitive = plain * dummy / (exponent + 1)
    else:
        primitive = sp.integrate(plain, dummy)
        if primitive.has(sp.Integral):
            return None
    return primitive.xreplace({dummy: variable}).xreplace({b: a for a, b in held.items()})


@lru_cache(maxsize=4096)
def expanded_derivative(expr: sp.Expr, order: Order) -> sp.Expr:
    """∂^order expr by the product rule, expanded."""
    for coordinate, count in zip(COORDINATES, order, strict=True):
        for _ in range(count):
            expr = sp.expand(expr.diff(coordinate))
    return expr
