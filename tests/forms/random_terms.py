"""Random well-formed terms for property tests, and how well conditioned their evaluation is."""

from __future__ import annotations

import random

import mpmath
import numpy as np
import sympy as sp

import cffem as cf
from cffem.forms.orders import order_of
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import AmbiguousShape
from cffem.symbols.fields import fields_of

SMOOTH = [
    sp.sin,
    sp.cos,
    sp.tanh,
    sp.atan,
    sp.erf,
    sp.asinh,
    lambda s: sp.exp(-(s**2)),
    lambda s: sp.sqrt(1 + s**2),
    lambda s: 1 / (2 + s**2),
    lambda s: sp.log(2 + s**2),
    lambda s: sp.atan2(s, 2),
    lambda s: sp.cosh(s / 4),
    lambda s: (2 + s**2) ** sp.Rational(-3, 2),
]
KINKED = [
    sp.Abs,
    lambda s: sp.Max(s, sp.Rational(1, 5)),
    lambda s: sp.Min(s, sp.Rational(1, 5)),
    lambda s: sp.Piecewise((s**2, s > sp.Rational(1, 3)), (s - 1, True)),
    lambda s: sp.Piecewise(
        (s, sp.And(s > 0, cf.x < sp.Rational(1, 2))), (2, sp.Or(s < -1, cf.x > 3)), (-s, True)
    ),
    lambda s: s * sp.Heaviside(s - sp.Rational(1, 7)),
]


class TermGenerator:
    """Draws scalar and vector terms of bounded depth in a given dimension."""

    def __init__(self, dim: int, seed: int):
        self.dim, self.random = dim, random.Random(seed)
        self.u, self.w = cf.ScalarField("u", dim=dim), cf.ScalarField("w", dim=dim)
        self.E = cf.VectorField("E", dim=dim)
        self.nu = cf.Parameter("nu")

    def term(self, highest_order: int = 3) -> sp.Expr:
        """A term that contains a field and takes derivatives up to the given order."""
        while True:
            try:
                expr = self.random.choice([self.scalar, self.vector])(4, smooth=False)
            except (
                AmbiguousShape
            ):  # the held curl of the gradient of a constant, which tells no dimension
                continue
            if fields_of(expr) and expr.count_ops() < 60 and order_of(expr) <= highest_order:
                return expr

    def choose(self, rules: list, depth: int, smooth: bool) -> sp.Expr:
        return self.random.choice(rules)(depth - 1, smooth)

    def scalar(self, depth: int, smooth: bool) -> sp.Expr:
        if depth == 0 or self.random.random() < 0.15:
            number = sp.Rational(self.random.randint(1, 9), self.random.randint(2, 7))
            component = self.E[self.random.randrange(self.dim)]
            return self.random.choice(
                [self.u, self.w, self.u, component, number, self.nu, self.coordinate()]
            )
        s, v, a = self.scalar, self.vector, self.tensor
        rules = [
            lambda d, k: s(d, k) + s(d, k),
            lambda d, k: s(d, k) - s(d, k) / 3,
            lambda d, k: s(d, k) * s(d, k),
            lambda d, k: s(d, k) ** self.random.randint(2, 3),
            lambda d, k: self.random.choice(SMOOTH if k else SMOOTH + KINKED)(s(min(d, 1), k)),
            lambda d, k: s(d, True).diff(self.coordinate()),
            lambda d, k: cf.lap(s(d, True)),
            lambda d, k: cf.div(v(d, True)),
            lambda d, k: cf.div(v(d, True), evaluate=False),
            lambda d, k: cf.dot(v(d, k), v(d, k)),
            lambda d, k: cf.inner(a(d, k), a(d, k)),
            lambda d, k: cf.trace(a(d, k)),
            lambda d, k: cf.norm2(v(d, k)),
        ]
        if self.dim == 2:
            rules += [lambda d, k: cf.curl(v(d, True)), lambda d, k: cf.cross(v(d, k), v(d, k))]
        return self.choose(rules, depth, smooth)

    def vector(self, depth: int, smooth: bool) -> sp.Expr:
        if depth == 0 or self.random.random() < 0.1:
            return self.random.choice(
                [self.E, cf.vector(*(self.coordinate() for _ in range(self.dim)))]
            )
        s, v, a = self.scalar, self.vector, self.tensor
        rules = [
            lambda d, k: v(d, k) + 2 * v(d, k),
            lambda d, k: s(d, k) * v(d, k),
            lambda d, k: cf.grad(s(d, True)),
            lambda d, k: cf.grad(s(d, True), evaluate=False),
            lambda d, k: cf.lap(v(d, True)),
            lambda d, k: cf.dot(a(d, k), v(d, k)),
            lambda d, k: cf.dot(v(d, k), a(d, k)),
            lambda d, k: cf.div(a(d, True)),
            lambda d, k: cf.vector(*(s(d, k) for _ in range(self.dim))),
        ]
        if self.dim == 3:
            rules += [lambda d, k: cf.curl(v(d, True)), lambda d, k: cf.cross(v(d, k), v(d, k))]
        if self.dim == 2:
            rules += [lambda d, k: cf.curl(s(d, True))]
        return self.choose(rules, depth, smooth)

    def tensor(self, depth: int, smooth: bool) -> sp.Expr:
        if depth <= 0:
            return cf.outer(self.vector(0, smooth), self.vector(0, smooth))
        v, a = self.vector, self.tensor
        rules = [
            lambda d, k: cf.grad(v(d, True)),
            lambda d, k: cf.outer(v(d, k), v(d, k)),
            lambda d, k: cf.sym(a(d, k)),
            lambda d, k: cf.transpose(a(d, k)),
            lambda d, k: self.scalar(d, k) * a(d, k),
            lambda d, k: a(d, k) + a(d, k),
        ]
        return self.choose(rules, depth, smooth)

    def coordinate(self) -> sp.Symbol:
        return self.random.choice(SPACE[: self.dim])


def polynomial(dim: int, degree: int, generator: random.Random) -> sp.Expr:
    """A random polynomial with coefficients of order one."""
    monomials = sp.itermonomials(SPACE[:dim], degree)
    return sp.Add(
        *(sp.Rational(generator.randint(-9, 9), 10) * m for m in sorted(monomials, key=str))
    )


def majorant(
    expr: sp.Basic, points: dict[sp.Symbol, np.ndarray], known: dict | None = None
) -> np.ndarray:
    """The sum of the absolute summands, through products, powers and (to first order)
    functions: the scale of round-off.
    """
    known = {symbol: np.abs(value) for symbol, value in points.items()} if known is None else known
    if expr not in known:
        parts = [majorant(arg, points, known) for arg in expr.args if isinstance(arg, sp.Expr)]
        if expr.is_Number or expr.is_NumberSymbol:
            known[expr] = np.full(len(next(iter(points.values()))), abs(float(expr)))
        elif isinstance(expr, sp.Mul):
            known[expr] = np.prod(parts, axis=0)
        elif isinstance(expr, sp.Pow) and expr.exp.is_Integer and expr.exp > 0:
            known[expr] = parts[0] ** int(expr.exp)
        elif isinstance(expr, sp.Add | sp.Max | sp.Min | sp.Abs):
            known[expr] = sum(parts)
        elif isinstance(expr, sp.Piecewise):
            known[expr] = sum(majorant(value, points, known) for value, _ in expr.args)
        else:
            known[expr] = np.abs(value_of(expr, points)) + sensitivity(expr, parts, points)
    return known[expr]


def sensitivity(
    function: sp.Expr, majorants: list[np.ndarray], points: dict[sp.Symbol, np.ndarray]
) -> np.ndarray:
    """Σ |∂f/∂a| times the majorant of each argument a of a function."""
    dummies = [sp.Dummy(real=True) for _ in function.args]
    plain = function.func(*dummies)
    total = np.zeros(len(next(iter(points.values()))))
    for dummy, size, arg in zip(dummies, majorants, function.args):
        slope = plain.diff(dummy) if arg.free_symbols else sp.S.Zero
        if not slope.has(sp.DiracDelta):
            total += (
                np.abs(value_of(slope.xreplace(dict(zip(dummies, function.args))), points)) * size
            )
    return total


def value_of(expr: sp.Basic, points: dict[sp.Symbol, np.ndarray], digits: int = 15) -> np.ndarray:
    """SymPy's own evaluation at points, one by one."""
    function = sp.lambdify(list(points), expr, modules="mpmath", cse=True)
    with mpmath.workdps(digits):
        return np.array(
            [float(function(*map(mpmath.mpf, point))) for point in zip(*points.values())]
        )
