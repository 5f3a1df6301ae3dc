"""Weak = strong: for smooth fields and random test functions the weak form with its boundary terms
is the integral of the term.

All terms of one kind of cell are compiled into two functionals, each term behind a constant that
switches it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from forms_support import CELLS, parallelepiped, random_function, smooth_context
from random_terms import polynomial

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, norm2, x, y
from cffem._compat import form
from cffem.forms.lowering import Context, lower
from cffem.forms.weak import weak_form

pytestmark = pytest.mark.fem
NU = cf.Parameter("nu")


@dataclass(frozen=True)
class Problem:
    """The fields of one dimension and the terms made of them."""

    cell: str
    dim: int
    u: sp.Expr
    w: sp.Expr
    E: sp.Expr

    def element(self, family: str, degree: int, vector: bool = False):
        return basix.ufl.element(family, self.cell, degree, shape=(self.dim,) if vector else None)

    def scalar_terms(self) -> list[sp.Expr]:
        u, w = self.u, self.w
        b = cf.vector(*(1 + x, 2 - x * y, x + y)[: self.dim]) if self.dim > 1 else cf.vector(1 + x)
        terms = [
            NU * lap(u),
            (1 + x**2) * lap(u),
            u.diff(x),
            u.diff(x, 2),
            x * u.diff(x, 2) + u**2,
            div((1 + u**2) * grad(u)),
            div(u * b, evaluate=False),
            div(w * grad(u), evaluate=False),
            dot(b, grad(u)),
            u**3,
            u.diff(x) * u.diff(x, 2),
            w * u.diff(x) ** 2 * u.diff(x, 2),
            div(norm2(grad(u)) * grad(u)),
            u * lap(w),
            dt(u) * lap(u),
            dt(lap(u)),
            dot(grad(u), grad(w)) * u,
            dot(b, lap(self.E)),
            div(div(self.E) * b),
        ]
        if self.dim == 1:
            return terms
        terms += [
            u.diff(x, y),
            u * w.diff(x, y),
            lap(u) * w * x,
            curl(curl(self.E))[0],
            cf.inner(grad(grad(u)), cf.outer(self.E, b)),
        ]
        return (
            terms
            if self.dim == 3
            else [
                *terms,
                cf.cross(lap(self.E), self.E),
                cf.cross(b, lap(self.E)),
                cf.cross(grad(u.diff(x)), b),
            ]
        )

    def vector_terms(self) -> list[sp.Expr]:
        u, E = self.u, self.E
        terms = [
            NU * lap(E),
            u * lap(E),
            grad(div(E)),
            x * grad(div(E)),
            div(cf.sym(grad(E))),
            div((1 + u**2) * cf.sym(grad(E)), evaluate=False),
            dot(grad(E), E),
            div(cf.outer(E, E), evaluate=False),
            grad(norm2(E) / 2, evaluate=False),
            lap(u) * E,
            dot(grad(grad(u)), E),
            dot(E, cf.transpose(grad(grad(u)))),
            dot(cf.outer(lap(E), E), E),
            dot(cf.outer(E, lap(E)), E),
            dot(cf.sym(grad(grad(u))), E),
            cf.vector(*(lap(E[0]) for _ in range(self.dim))),
        ]
        if self.dim == 1:
            return terms
        curls = [curl(curl(E)), u * curl(curl(E)), curl((1 + u**2) * curl(E), evaluate=False)]
        if self.dim == 2:
            return [*terms, *curls, curl(curl(E), evaluate=False) * x]
        return [
            *terms,
            *curls,
            cf.cross(curl(E), E),
            cf.cross(E, lap(E)),
            cf.cross(curl(curl(E)), E),
        ]

    def cases(self) -> list[tuple[sp.Expr, sp.Expr, dict]]:
        """Triples of a term, the field of its equation and the elements of all fields."""
        scalar, vector = self.element("Lagrange", 2), self.element("Lagrange", 2, vector=True)
        lagrange = {self.u: scalar, self.w: scalar, self.E: vector}
        found = [(term, self.u, lagrange) for term in self.scalar_terms()]
        found += [(term, self.E, lagrange) for term in self.vector_terms()]
        if self.dim > 1:
            u, E = self.u, self.E
            rotations = [
                curl(curl(E)),
                u * curl(curl(E)),
                curl((1 + u**2) * curl(E), evaluate=False),
                cf.cross(E, E) + u * E,
            ]
            found += [(term, E, {**lagrange, E: self.element("N1curl", 1)}) for term in rotations]
            sources = [
                grad(div(E)),
                x * grad(div(E)),
                grad(u * div(E), evaluate=False),
                u * E,
                div(E) * E,
            ]
            found += [(term, E, {**lagrange, E: self.element("RT", 1)}) for term in sources]
        return found


def switched(
    cases: list, context: Context, domain, degree: int
) -> tuple[list[fem.Constant], ufl.Form, ufl.Form]:
    """Difference of the weak and the strong form, and the integral of |T v|, with each term
    behind a constant.
    """
    dx, ds, dS = (
        measure(metadata={"quadrature_degree": degree}) for measure in (ufl.dx, ufl.ds, ufl.dS)
    )
    switches, difference, scale, tests = [], ufl.Form([]), ufl.Form([]), {}
    for term, equation, elements in cases:
        weak = weak_form(term, equation, elements)
        assert not weak.auxiliaries, f"{term} needs no auxiliary field here"
        element = elements[equation]
        test = tests.setdefault(str(element), random_function(domain, element, len(tests)))
        switches.append(fem.Constant(domain, 0.0))
        integrand = ufl.inner(lower(term, context), test)
        strong = integrand * dx(domain=domain)
        difference += switches[-1] * (
            weak.forms(context.extended({weak.test: test}), dx, ds, dS).total - strong
        )
        scale += switches[-1] * ufl.sqrt(integrand**2 + 1e-30) * dx(domain=domain)
    return switches, difference, scale


@pytest.mark.parametrize("cell", CELLS)
def test_weak_form_is_the_integral_of_the_term(cell):
    dim = {"interval": 1, "triangle": 2, "quadrilateral": 2}.get(cell, 3)
    domain = parallelepiped(cell, *{1: (3,), 2: (2, 2), 3: (2, 1, 1)}[dim])
    u, w, E = (
        cf.ScalarField("u", dim=dim),
        cf.ScalarField("w", dim=dim),
        cf.VectorField("E", dim=dim),
    )
    rng = random.Random(dim)
    smooth = {f: polynomial(dim, 2 if dim == 3 else 3, rng) for f in (u, w, dt(u))} | {
        E: cf.vector(*(polynomial(dim, 2 if dim == 3 else 3, rng) for _ in range(dim)))
    }
    context = smooth_context(domain, smooth).extended({NU: fem.Constant(domain, 0.8)})
    cases = Problem(cell, dim, u, w, E).cases()
    switches, *functionals = switched(cases, context, domain, degree=8 if dim == 3 else 10)
    difference, scale = (form(functional, domain.comm) for functional in functionals)
    for switch, (term, *_) in zip(switches, cases):
        switch.value = 1.0
        size = fem.assemble_scalar(scale)
        error = abs(fem.assemble_scalar(difference)) / size
        switch.value = 0.0
        assert size > 1e-3, f"{term} is too small to test"
        assert error <= 1e-10, f"{term} on {cell}: relative difference {error:.1e}"
