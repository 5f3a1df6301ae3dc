"""The terms of the random problems, each written twice: in SymPy for cffem, and in UFL by hand.

The form by hand is ⟨T[u], v⟩ after integration by parts, natural traces included; nothing of it
comes from cffem. Numbers inside terms are few and fixed, so that many problems share their forms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp
import ufl

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, t, x, y, z

SPACE = (x, y, z)
HALF = sp.Rational(1, 2)
STRENGTH = cf.Parameter("strength")  # a coefficient inside a term that has a name
STRENGTH_VALUE = 1.7


@dataclass(frozen=True)
class Term:
    """A candidate term.

    Attributes:
        name: how it is called in the library.
        symbols: the SymPy expression, from the fields and the dimension.
        by_hand: the UFL form, from what `reference.Hand` offers.
        leading: whether it makes a problem elliptic, or gives a wave its speed.
        nonlinear: whether it is.
        needs: the lowest order in time of a problem in which it makes sense.
        fits: whether it needs a mesh whose cells end at x = 1/2.
    """

    name: str
    symbols: Callable[[Any, int], Any]
    by_hand: Callable[[Any], Any]
    leading: bool = False
    nonlinear: bool = False
    needs: int = 0
    fits: bool = False


def field_of_drift(dimension: int) -> tuple[Any, ...]:
    """A velocity that varies in space."""
    return (
        (1 + x, 2 - x, 1 - y)[:dimension] if dimension == 1 else (1 + y, x - 2, 1 - y)[:dimension]
    )


def drift_by_hand(h: Any) -> Any:
    """The same in UFL."""
    X = h.x
    if h.dimension == 1:
        return ufl.as_vector([1 + X[0]])
    return ufl.as_vector([1 + X[1], X[0] - 2, 1 - X[1]][: h.dimension])


def anisotropic(u: Any, dimension: int) -> Any:
    """K grad u with a full matrix K, written by components."""
    parts = []
    for i in range(dimension):
        parts.append(sum(((2 if i == j else HALF) * u.diff(SPACE[j]) for j in range(dimension)), 0))
    return div(cf.vector(*parts))


def anisotropic_by_hand(h: Any) -> Any:
    """−(K ∇u, ∇v); there is no condition for its trace."""
    d = h.dimension
    K = ufl.as_matrix([[2.0 if i == j else 0.5 for j in range(d)] for i in range(d)])
    flux = ufl.dot(K, ufl.grad(h.u))
    return -ufl.inner(flux, ufl.grad(h.v)) * h.dx + h.untouched(ufl.dot(flux, h.n) * h.v, 2.0)


def jump() -> sp.Expr:
    """A conductivity that jumps at x = 1/2."""
    return sp.Piecewise((1, x < HALF), (3, True))


def diffusion_by_hand(h: Any, k: Any, rate: bool = False) -> Any:
    """−(k ∇u, ∇v) + ∮ k (∂u/∂n) v with what the conditions say about ∂u/∂n."""
    u = h.rate if rate else h.u
    volume = -k * ufl.inner(ufl.grad(u), ufl.grad(h.v)) * h.dx
    return volume + h.natural(lambda g: k * ufl.inner(g, h.v), rate)


SCALAR = [
    Term("reaction", lambda u, d: u, lambda h: h.u * h.v * h.dx),
    Term("weighted", lambda u, d: x * u, lambda h: h.x[0] * h.u * h.v * h.dx),
    Term("u_x", lambda u, d: u.diff(x), lambda h: h.u.dx(0) * h.v * h.dx),
    Term(
        "drift",
        lambda u, d: dot(field_of_drift(d), grad(u)) if d > 1 else field_of_drift(1)[0] * u.diff(x),
        lambda h: ufl.dot(drift_by_hand(h), ufl.grad(h.u)) * h.v * h.dx,
    ),
    Term(
        "conserved",
        lambda u, d: (
            div(x * cf.vector(*field_of_drift(d)) * u) if d > 1 else (x * (1 + x) * u).diff(x)
        ),
        lambda h: ufl.div(h.x[0] * drift_by_hand(h) * h.u) * h.v * h.dx,
    ),
    Term(
        "named",
        lambda u, d: STRENGTH * x**2 * u,
        lambda h: h.strength * h.x[0] ** 2 * h.u * h.v * h.dx,
    ),
    Term("source", lambda u, d: 1 + x**2, lambda h: (1 + h.x[0] ** 2) * h.v * h.dx),
    Term("growing", lambda u, d: (1 + t) * u, lambda h: (1 + h.t) * h.u * h.v * h.dx, needs=1),
    Term(
        "swinging",
        lambda u, d: sp.cos(t) * u.diff(x),
        lambda h: ufl.cos(h.t) * h.u.dx(0) * h.v * h.dx,
        needs=1,
    ),
    Term("lap", lambda u, d: lap(u), lambda h: diffusion_by_hand(h, 1), leading=True),
    Term(
        "named lap",
        lambda u, d: STRENGTH * lap(u),
        lambda h: diffusion_by_hand(h, h.strength),
        leading=True,
    ),
    Term(
        "varying",
        lambda u, d: div((1 + x**2) * grad(u)),
        lambda h: diffusion_by_hand(h, 1 + h.x[0] ** 2),
        leading=True,
    ),
    Term(
        "jumping",
        lambda u, d: div(jump() * grad(u)),
        lambda h: diffusion_by_hand(h, ufl.conditional(ufl.lt(h.x[0], 0.5), 1.0, 3.0)),
        leading=True,
        fits=True,
    ),
    Term("full matrix", lambda u, d: anisotropic(u, d), anisotropic_by_hand, leading=True),
    Term(
        "u_xx",
        lambda u, d: u.diff(x, 2),
        lambda h: -h.u.dx(0) * h.v.dx(0) * h.dx + h.untouched(h.u.dx(0) * h.n[0] * h.v),
    ),
    Term("square", lambda u, d: u**2, lambda h: h.u**2 * h.v * h.dx, nonlinear=True),
    Term("cubic", lambda u, d: -(u**3), lambda h: -(h.u**3) * h.v * h.dx, nonlinear=True),
    Term(
        "burgers",
        lambda u, d: u * u.diff(x),
        lambda h: h.u * h.u.dx(0) * h.v * h.dx,
        nonlinear=True,
    ),
    Term(
        "slope",
        lambda u, d: cf.norm2(grad(u)) if d > 1 else u.diff(x) ** 2,
        lambda h: ufl.inner(ufl.grad(h.u), ufl.grad(h.u)) * h.v * h.dx,
        nonlinear=True,
    ),
    Term(
        "porous",
        lambda u, d: div((1 + u**2) * grad(u)),
        lambda h: diffusion_by_hand(h, 1 + h.u**2),
        leading=True,
        nonlinear=True,
    ),
    Term("damping", lambda u, d: -dt(u), lambda h: -h.rate * h.v * h.dx, needs=2),
    Term("viscous", lambda u, d: lap(dt(u)), lambda h: diffusion_by_hand(h, 1, rate=True), needs=1),
]


def turned(v: Any) -> Any:
    """A vector of the plane turned by a right angle."""
    return cf.vector(-v[1], v[0])


def symmetric_by_hand(h: Any) -> Any:
    strain = ufl.sym(ufl.grad(h.u))
    return -ufl.inner(strain, ufl.grad(h.v)) * h.dx + h.natural(lambda g: ufl.inner(g, h.v))


def gradient_of_divergence_by_hand(h: Any) -> Any:
    """−(div u, div v) + ∮ (g·n)(v·n), where the condition gives g = (div u) n."""
    return -ufl.div(h.u) * ufl.div(h.v) * h.dx + h.natural(
        lambda g: ufl.dot(g, h.n) * ufl.dot(h.v, h.n)
    )


def turning_by_hand(h: Any, k: Any = 1) -> Any:
    """−(k curl u, curl v) − ∮ k g·v_t for −curl(k curl u), where g = n × curl u is given."""
    tangential = h.v - ufl.dot(h.v, h.n) * h.n
    volume = -k * ufl.inner(ufl.curl(h.u), ufl.curl(h.v)) * h.dx
    return volume + h.natural(lambda g: -k * ufl.inner(g, tangential))


COMMON = [
    Term("reaction", lambda v, d: v, lambda h: ufl.inner(h.u, h.v) * h.dx),
    Term("weighted", lambda v, d: x * v, lambda h: h.x[0] * ufl.inner(h.u, h.v) * h.dx),
    Term(
        "named",
        lambda v, d: STRENGTH * x**2 * v,
        lambda h: h.strength * h.x[0] ** 2 * ufl.inner(h.u, h.v) * h.dx,
    ),
    Term(
        "turned",
        lambda v, d: turned(v) if d == 2 else cf.cross((1, 2, 0), v),
        lambda h: (
            ufl.inner(
                ufl.as_vector([-h.u[1], h.u[0]])
                if h.dimension == 2
                else ufl.cross(ufl.as_vector([1.0, 2.0, 0.0]), h.u),
                h.v,
            )
            * h.dx
        ),
    ),
    Term(
        "growing",
        lambda v, d: (1 + t) * v,
        lambda h: (1 + h.t) * ufl.inner(h.u, h.v) * h.dx,
        needs=1,
    ),
    Term(
        "friction",
        lambda v, d: -cf.norm2(v) * v,
        lambda h: -ufl.inner(h.u, h.u) * ufl.inner(h.u, h.v) * h.dx,
        nonlinear=True,
    ),
    Term("damping", lambda v, d: -dt(v), lambda h: -ufl.inner(h.rate, h.v) * h.dx, needs=2),
]

VECTOR = [
    *COMMON,
    Term(
        "drift",
        lambda v, d: dot(grad(v), field_of_drift(d)),
        lambda h: ufl.inner(ufl.dot(ufl.grad(h.u), drift_by_hand(h)), h.v) * h.dx,
    ),
    Term(
        "convection",
        lambda v, d: -dot(grad(v), v),
        lambda h: -ufl.inner(ufl.dot(ufl.grad(h.u), h.u), h.v) * h.dx,
        nonlinear=True,
    ),
    Term(
        "momentum",
        lambda v, d: -div(cf.outer(v, v)),
        lambda h: -ufl.inner(ufl.div(ufl.outer(h.u, h.u)), h.v) * h.dx,
        nonlinear=True,
    ),
    Term(
        "lap",
        lambda v, d: lap(v),
        lambda h: (
            -ufl.inner(ufl.grad(h.u), ufl.grad(h.v)) * h.dx + h.natural(lambda g: ufl.inner(g, h.v))
        ),
        leading=True,
    ),
    Term("strain", lambda v, d: div(cf.sym(grad(v))), symmetric_by_hand, leading=True),
    Term("grad div", lambda v, d: grad(div(v)), gradient_of_divergence_by_hand),
    Term("curl curl", lambda v, d: -curl(curl(v)), turning_by_hand),
]

CURL_CONFORMING = [
    *COMMON,
    Term("curl curl", lambda v, d: -curl(curl(v)), turning_by_hand, leading=True),
    Term(
        "varying",
        lambda v, d: -curl((1 + x) * curl(v)),
        lambda h: turning_by_hand(h, 1 + h.x[0]),
        leading=True,
    ),
    Term(
        "jumping",
        lambda v, d: -curl(jump() * curl(v)),
        lambda h: turning_by_hand(h, ufl.conditional(ufl.lt(h.x[0], 0.5), 1.0, 3.0)),
        leading=True,
        fits=True,
    ),
]

DIV_CONFORMING = [
    *COMMON,
    Term("grad div", lambda v, d: grad(div(v)), gradient_of_divergence_by_hand, leading=True),
]

DISCONTINUOUS = [
    term
    for term in SCALAR
    if term.name
    in ("reaction", "weighted", "named", "source", "growing", "square", "cubic", "damping")
]
