"""Conservation form: exact, and free of products of derivatives wherever that is possible."""

import pytest
import sympy as sp

import cffem as cf
from cffem import t, x, y
from cffem.data.rows.conservation import conservative, derivative_order, expanded_derivative
from cffem.symbols.algebra.components import to_components

u = cf.ScalarField("u")
v = cf.VectorField("v", dim=2)

TERMS = [
    u,
    sp.Integer(1),
    u * u.diff(x),
    u**2 * u.diff(x),
    u * u.diff(x, 2),
    u * u.diff(x, 3),
    (u**3).diff(x, 4),
    (u**2).diff(x).diff(y),
    sp.sin(x) * u.diff(x, 2),
    sp.exp(-t) * u * u.diff(x),
    sp.sin(u) * u.diff(x),
    u.diff(x) ** 2,
    u.diff(x) * u.diff(x, 2),
    u**2 * u.diff(x) * u.diff(x, 3),
    u.diff(x) * u.diff(y, 2),
    cf.lap(u**2),
    cf.dt(u),
]


@pytest.mark.parametrize("term", TERMS, ids=str)
def test_pieces_add_up_to_the_term(term):
    pieces = conservative(to_components(term, 2)[0])
    total = sum(expanded_derivative(sp.expand(p.integrand), p.order) for p in pieces)
    assert sp.simplify(sp.expand(total - to_components(term, 2)[0])) == 0


@pytest.mark.parametrize(
    "term",
    [(u**a).diff(x, d) for a in (1, 2, 3) for d in (1, 2, 3)] + [u * u.diff(x), cf.lap(u**2)],
    ids=str,
)
def test_derivatives_of_powers_need_no_derivative_of_the_data(term):
    assert all(derivative_order(p.integrand) == 0 for p in conservative(to_components(term, 2)[0]))


def test_momentum_flux_is_conservative():
    for entry in to_components(cf.div(cf.outer(v, v)), 2):
        assert all(derivative_order(p.integrand) == 0 for p in conservative(entry))


def test_advection_alone_keeps_a_derivative():
    pieces = conservative(to_components(cf.dot(cf.grad(v), v), 2)[0])
    assert any(derivative_order(p.integrand) == 1 for p in pieces)
