"""The variational derivative is d/dε at ε = 0, on random expressions."""

import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from symbol_recipes import SPACE, assert_same, build, fields, polynomials, recipes, reference

import cffem.symbols as cf
from cffem.symbols import x, y

EPSILON = sp.Symbol("epsilon", real=True)
u, v, w = (cf.ScalarField(name) for name in "uvw")
E, F = cf.VectorField("E", dim=3), cf.VectorField("F", dim=3)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("name", ["u", "E"])
def test_variation_is_the_derivative_in_epsilon(dim, name):
    field = fields(dim)[name]
    direction = type(field)("W", dim=dim)
    base = polynomials(dim)
    along = tuple(
        s**2 - 3 * k * SPACE[0] + 1 for k, s in zip(range(len(base[name])), SPACE, strict=False)
    )
    values = {fields(dim)[k]: value if k in ("E", "B") else value[0] for k, value in base.items()}
    values[direction] = along if name == "E" else along[0]
    moved = {**base, name: tuple(p + EPSILON * q for p, q in zip(base[name], along, strict=True))}

    @settings(max_examples=30, deadline=None, derandomize=True)
    @given(recipe=st.one_of(recipes(dim, 0, 3), recipes(dim, 1, 2)))
    def run(recipe):
        expr = cf.variation(build(recipe, dim), field, direction)
        expected = [
            sp.diff(entry, EPSILON).subs(EPSILON, 0) for entry in reference(recipe, dim, moved)
        ]
        found = [0] * len(expected) if expr == 0 else cf.evaluate_on(expr, values, dim)
        assert_same(found, expected)

    run()


def test_variations_are_those_found_by_hand():
    assert cf.variation(u * cf.lap(u), u, w) == w * cf.lap(u) + u * cf.lap(w)
    assert cf.variation(sp.exp(u * v), v, w) == u * w * sp.exp(u * v)
    assert cf.variation(cf.dot(cf.grad(E), E), E, F) == cf.dot(cf.grad(F), E) + cf.dot(
        cf.grad(E), F
    )
    assert cf.variation(E[1] ** 2, E, (x, y, 0)) == 2 * y * E[1]
    assert cf.variation(cf.norm2(cf.curl(E)), E, F) == 2 * cf.dot(cf.curl(E), cf.curl(F))
    assert cf.variation(x * v, u, w) == 0
    assert cf.variation(cf.dt(u) ** 2, u, w) == 2 * cf.dt(u) * cf.dt(w)


def test_variation_inside_jumps_and_held_operators():
    jump = sp.Piecewise((1, x < 0), (u**2, True))
    assert cf.variation(cf.div(jump * cf.grad(u)), u, w) == cf.div(jump * cf.grad(w)) + cf.div(
        sp.Piecewise((0, x < 0), (2 * u * w, True)) * cf.grad(u)
    )
    held = cf.div(u**2 * E, evaluate=False)
    assert cf.variation(held, u, w) == cf.div(2 * u * w * E, evaluate=False)


def test_variation_is_linear_in_the_direction():
    term = sp.sin(u) * cf.norm2(cf.grad(u)) + cf.lap(u**3)
    parts = cf.variation(term, u, v) + 2 * cf.variation(term, u, w)
    assert sp.expand(cf.variation(term, u, v + 2 * w) - parts) == 0


def test_directions_of_another_shape_are_refused():
    with pytest.raises(cf.ShapeError, match="direction x is a scalar, but E is a vector"):
        cf.variation(cf.div(E), E, x)
    with pytest.raises(cf.SymbolError, match="with respect to a field"):
        cf.variation(u, x, w)
