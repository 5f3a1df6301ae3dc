"""Every named identity holds in components, and changes what it should."""

import pytest
import sympy as sp

import cffem.symbols as cf
from cffem.symbols.algebra.rewrites import REWRITES

u = cf.ScalarField("u")
E, B, C = (cf.VectorField(name, dim=3) for name in "EBC")
w, r = cf.VectorField("w", dim=2), cf.VectorField("r", dim=2)
p, q = cf.VectorField("p", dim=1), cf.VectorField("q", dim=1)

CASES = [
    ("curl-curl", cf.curl(cf.curl(E)), 3),
    ("curl-curl", cf.curl(cf.curl(w)), 2),
    ("curl-curl", 2 * u * cf.curl(cf.curl(E)) + E, 3),
    ("vector-laplacian", cf.lap(E), 3),
    ("vector-laplacian", cf.lap(w), 2),
    ("grad-div", cf.grad(cf.div(E)), 3),
    ("grad-div", cf.grad(cf.div(w)), 2),
    ("convection", cf.dot(cf.grad(E), E), 3),
    ("convection", cf.dot(cf.grad(w), w), 2),
    ("lamb-vector", cf.cross(cf.curl(E), E), 3),
    ("lamb-vector", cf.cross(E, cf.curl(E)), 3),
    ("grad-dot", cf.grad(cf.dot(E, B)), 3),
    ("grad-dot", cf.grad(cf.norm2(w)), 2),
    ("grad-dot", cf.grad(cf.dot(p, q)), 1),
    ("lap-dot", cf.lap(cf.dot(E, B)), 3),
    ("lap-dot", cf.lap(cf.dot(w, r)), 2),
    ("curl-cross", cf.curl(cf.cross(E, B)), 3),
    ("cross-cross", cf.cross(E, cf.cross(B, C)), 3),
    ("cross-cross", cf.cross(cf.cross(B, C), E), 3),
    ("div-sym-grad", cf.div(cf.sym(cf.grad(E))), 3),
    ("div-sym-grad", cf.div(cf.sym(cf.grad(w))), 2),
    ("div-transposed-grad", cf.div(cf.transpose(cf.grad(E))), 3),
    ("div-transposed-grad", cf.div(cf.transpose(cf.grad(w))), 2),
    ("symmetric-part", cf.sym(cf.grad(w)), 2),
    ("conservative", cf.dot(E, cf.grad(u)), 3),
    ("conservative", cf.dot(w, cf.grad(u)), 2),
    ("expand", cf.div(u * E, evaluate=False), 3),
    ("expand", cf.lap(u * cf.norm2(E), evaluate=False), 3),
    ("expand", cf.curl(u * w, evaluate=False), 2),
]


@pytest.mark.parametrize(("name", "expr", "dim"), CASES)
def test_both_sides_agree_in_components(name, expr, dim):
    other = cf.rewrite(expr, name)
    assert other != expr
    for left, right in zip(cf.to_components(expr, dim), cf.to_components(other, dim), strict=True):
        assert sp.expand(left - right) == 0


def test_every_rewrite_is_tested_and_stated():
    assert {name for name, _, _ in CASES} == set(REWRITES)
    assert all(statement and statement != "None" for statement in REWRITES.values())


@pytest.mark.parametrize("name", REWRITES)
def test_what_does_not_fit_stays(name):
    assert cf.rewrite(sp.sin(u) + cf.lap(u), name) == sp.sin(u) + cf.lap(u)


def test_a_rewrite_and_its_reverse_give_the_term_back():
    term = cf.curl(cf.curl(E))
    assert sp.expand(cf.rewrite(cf.rewrite(term, "curl-curl"), "vector-laplacian")) == term
    convection = cf.dot(cf.grad(E), E)
    assert sp.expand(cf.rewrite(cf.rewrite(convection, "convection"), "lamb-vector")) == convection
    advection = cf.dot(E, cf.grad(u))
    assert sp.expand(cf.rewrite(cf.rewrite(advection, "conservative"), "expand")) == advection


def test_rewrites_reach_inside_other_operators():
    assert cf.rewrite(cf.dt(cf.curl(cf.curl(E))), "curl-curl") == cf.dt(
        cf.grad(cf.div(E)) - cf.lap(E)
    )


def test_misspelt_names_are_helped():
    with pytest.raises(cf.SymbolError, match="did you mean 'curl-curl'"):
        cf.rewrite(u, "curl_curl")
