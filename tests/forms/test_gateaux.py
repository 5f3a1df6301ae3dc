"""The derivative of nonlinear terms by UFL is SymPy's own variational derivative, for strong
expressions and weak forms.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem
from forms_support import parallelepiped, random_function, scalar, smooth_context
from random_terms import TermGenerator, majorant, polynomial, value_of

import cffem as cf
from cffem import div, dot, grad, lap, norm2, x
from cffem._compat import expression, form
from cffem.forms.derivative import gateaux
from cffem.forms.lowering import Context, Lowering, lower
from cffem.forms.orders import order_of
from cffem.forms.weak import weak_form
from cffem.symbols.algebra.components import evaluate_on
from cffem.symbols.coordinates import SPACE

pytestmark = pytest.mark.fem
CELL = {1: "interval", 2: "triangle", 3: "tetrahedron"}


def variation(
    term: sp.Expr, exact: dict, field: sp.Expr, direction, dim: int
) -> tuple[sp.Expr, ...]:
    """SymPy's d/dε T[u + ε w] at ε = 0, in components."""
    epsilon = sp.Symbol("epsilon", real=True)
    shifted = exact[field] + epsilon * direction
    return tuple(
        sp.diff(entry, epsilon).subs(epsilon, 0)
        for entry in evaluate_on(term, {**exact, field: shifted}, dim)
    )


@pytest.mark.parametrize(("dim", "count"), [(1, 25), (2, 25), (3, 12)])
def test_random_terms_have_the_derivative_of_sympy(dim, count):
    domain, generator, rng = (
        parallelepiped(CELL[dim], *[1] * dim),
        TermGenerator(dim, seed=70 + dim),
        random.Random(dim),
    )
    u, E = generator.u, generator.E
    exact = {f: polynomial(dim, 2, rng) for f in (u, generator.w)} | {
        E: cf.vector(*(polynomial(dim, 2, rng) for _ in range(dim)))
    }
    exact[generator.nu] = sp.Rational(7, 10)
    direction = polynomial(dim, 2, rng)
    space = fem.functionspace(domain, basix.ufl.element("Lagrange", CELL[dim], 2))
    function, w = fem.Function(space), fem.Function(space)
    smooth = smooth_context(domain, exact)
    points = np.random.default_rng(1).dirichlet(np.ones(dim + 1), 2)[:, 1:]
    for holder, value in ((function, exact[u]), (w, direction)):
        holder.interpolate(lambda p, value=value: value_of(value, dict(zip(SPACE[:dim], p))))
    low, terms = Lowering(smooth.extended({u: function})), {}
    while len(terms) < count:
        term = generator.term(highest_order=2)
        if (
            term.has(u)
            and any(entries := variation(term, exact, u, direction, dim))
            and not any(e.has(sp.DiracDelta) for e in entries)
        ):
            terms[term] = entries
    derivatives = [gateaux(low(term), function, w) for term in terms]
    flat = [
        *ufl.SpatialCoordinate(domain),
        *(f[i] if f.ufl_shape else f for f in derivatives for i in range(max(sum(f.ufl_shape), 1))),
    ]
    cells = np.arange(domain.topology.index_map(dim).size_local, dtype=np.int32)
    computed = (
        expression(ufl.as_vector(flat), points, domain.comm)
        .eval(domain, cells)
        .reshape(-1, len(flat))
        .T
    )
    where, column = dict(zip(SPACE[:dim], computed[:dim])), dim
    for term, entries in terms.items():
        error = np.abs(
            computed[column : column + len(entries)]
            - [value_of(entry, where, digits=30) for entry in entries]
        )
        scale = sum(majorant(entry, where) for entry in entries)
        assert order_of(term) <= 2
        assert np.all(error <= 1e-11 * scale), f"{term}: {(error / scale).max():.1e}"
        column += len(entries)


def test_weak_forms_have_the_derivative_of_sympy():
    """⟨T'[u] w, v⟩ by UFL is the weak form of SymPy's variational derivative of the term."""
    domain, element = parallelepiped("triangle", 2, 2), basix.ufl.element("Lagrange", "triangle", 2)
    u, w = cf.ScalarField("u"), cf.ScalarField("w")
    function, direction, test = (random_function(domain, element, seed) for seed in range(3))
    terms = [
        u**3,
        u * u.diff(x),
        div((1 + u**2) * grad(u)),
        div(norm2(grad(u)) * grad(u)),
        sp.exp(-u) * lap(u),
        u * dot(grad(u), grad(u)),
    ]
    epsilon, (dx, ds) = (
        sp.Symbol("epsilon"),
        (measure(metadata={"quadrature_degree": 8}) for measure in (ufl.dx, ufl.ds)),
    )
    for term in terms:
        weak = weak_form(term, u, {u: element})
        context = Context(domain.ufl_domain(), {u: function, w: direction, weak.test: test})
        by_ufl = gateaux(weak.forms(context, dx, ds).total, function, direction)
        varied = sp.diff(weak.volume.subs(u, u + epsilon * w), epsilon).subs(epsilon, 0)
        around = sp.diff(weak.boundary.subs(u, u + epsilon * w), epsilon).subs(epsilon, 0)
        by_sympy = lower(varied, context) * dx + (
            lower(around, context) * ds if around != 0 else ufl.Form([])
        )
        expected = scalar(by_sympy)
        assert abs(scalar(by_ufl) - expected) <= 1e-11 * abs(expected), term


def test_taylor_remainder_of_a_weak_form_is_of_second_order():
    domain, element = parallelepiped("triangle", 2, 2), basix.ufl.element("Lagrange", "triangle", 2)
    u = cf.ScalarField("u")
    function, direction, test = (random_function(domain, element, seed) for seed in range(3))
    weak = weak_form(sp.exp(-u) * lap(u) + u * u.diff(x), u, {u: element})
    total = weak.forms(Context(domain.ufl_domain(), {u: function, weak.test: test})).total
    value, slope = form(total, domain.comm), scalar(gateaux(total, function, direction))
    start, base, remainders = function.x.array.copy(), fem.assemble_scalar(value), []
    for step in (1e-3, 5e-4, 2.5e-4):
        function.x.array[:] = start + step * direction.x.array
        remainders.append(abs(fem.assemble_scalar(value) - base - step * slope))
    assert np.log2(remainders[1] / remainders[2]) > 1.99
