"""Random problems with stresses and with terms that are given as UFL forms, each written twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ufl
from net_materials import COMMON, GLASS, SCALAR, K, MaterialFamily, glass_of, k_of
from net_terms import Term, diffusion_by_hand

import cffem as cf
from cffem import div, dot, grad, identity, sym, trace, transpose

SHEAR, BULK = 1.5, 0.75


def hooke(v: Any, d: int, shear: Any = SHEAR) -> Any:
    """Hooke's law, with a shear modulus that may be a known field."""
    strain = sym(grad(v))
    return 2 * shear * strain + BULK * trace(strain) * identity(d)


def saint_venant(v: Any, d: int) -> Any:
    """St. Venant–Kirchhoff, a nonlinear stress."""
    F = identity(d) + grad(v)
    strain = (dot(transpose(F), F) - identity(d)) / 2
    return dot(F, BULK * trace(strain) * identity(d) + 2 * SHEAR * strain)


def hooke_by_hand(v: Any, d: int, shear: Any = SHEAR) -> Any:
    strain = ufl.sym(ufl.grad(v))
    return 2 * shear * strain + BULK * ufl.tr(strain) * ufl.Identity(d)


def saint_venant_by_hand(v: Any, d: int) -> Any:
    F = ufl.Identity(d) + ufl.grad(v)
    strain = (F.T * F - ufl.Identity(d)) / 2
    return F * (BULK * ufl.tr(strain) * ufl.Identity(d) + 2 * SHEAR * strain)


def stressed(h: Any, stress: Any, rate: bool = False) -> Any:
    """−(σ, ∇v) + ∮ g·v with the traction that the conditions say."""
    volume = -ufl.inner(stress, ufl.grad(h.v)) * h.dx
    return volume + h.natural(lambda g: ufl.inner(g, h.v), rate)


STRESSES = [
    Term(
        "hooke",
        lambda v, d: div(hooke(v, d)),
        lambda h: stressed(h, hooke_by_hand(h.u, h.dimension)),
        leading=True,
    ),
    Term(
        "hooke of glass",
        lambda v, d: div(hooke(v, d, K)),
        lambda h: stressed(h, hooke_by_hand(h.u, h.dimension, k_of(h))),
        leading=True,
    ),
    Term(
        "saint venant",
        lambda v, d: div(saint_venant(v, d)),
        lambda h: stressed(h, saint_venant_by_hand(h.u, h.dimension)),
        leading=True,
        nonlinear=True,
    ),
    Term(
        "kelvin voigt",
        lambda v, d: div(hooke(cf.dt(v), d)),
        lambda h: stressed(h, hooke_by_hand(h.rate, h.dimension), rate=True),
        needs=2,
    ),
]

FORMS = [
    Term(
        "form",
        lambda u, d: cf.Form(lambda u, v, dx: -ufl.inner(u, v) * dx, linear=True),
        lambda h: -ufl.inner(h.u, h.v) * h.dx,
    ),
    Term(
        "form of slopes",
        lambda u, d: cf.Form(lambda u, v, dx: -0.2 * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx),
        lambda h: -0.2 * ufl.inner(ufl.grad(h.u), ufl.grad(h.v)) * h.dx,
    ),
    Term(
        "form on cells",
        lambda u, d: cf.Form(lambda u, v, dx: -GLASS * ufl.inner(u, v) * dx(1)),
        lambda h: -GLASS * ufl.inner(h.u, h.v) * glass_of(h),
    ),
    Term(
        "form of a power",
        lambda u, d: cf.Form(lambda u, v, dx: -ufl.inner(u, u) * ufl.inner(u, v) * dx),
        lambda h: -ufl.inner(h.u, h.u) * ufl.inner(h.u, h.v) * h.dx,
        nonlinear=True,
    ),
]
PLAIN = [
    *[term for term in SCALAR if term.name in ("reaction", "k u", "drift", "k square", "in glass")],
    Term("lap", lambda u, d: cf.lap(u), lambda h: diffusion_by_hand(h, 1.0), leading=True),
]


@dataclass(frozen=True)
class StressFamily(MaterialFamily):
    """Vector problems with stresses, and with forms among their terms."""

    @property
    def pool(self) -> list[Term]:
        """The terms that make sense on this element."""
        return [*COMMON, *STRESSES, *FORMS]

    def __str__(self) -> str:
        return f"stresses, {super().__str__()}"


@dataclass(frozen=True)
class FormFamily(MaterialFamily):
    """Scalar problems with forms among their terms."""

    @property
    def pool(self) -> list[Term]:
        """The terms that make sense on this element."""
        return [*PLAIN, *FORMS]

    def __str__(self) -> str:
        return f"forms, {super().__str__()}"
