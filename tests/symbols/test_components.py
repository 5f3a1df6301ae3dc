"""Writing expressions out in components and evaluating them on functions."""

import pytest
import sympy as sp

import cffem.symbols as cf
from cffem.symbols import t, x, y, z
from cffem.symbols.algebra.analysis import dependence, is_zero, orders, ratio

u, v = cf.ScalarField("u"), cf.ScalarField("v")
E = cf.VectorField("E", dim=3)
w = cf.VectorField("w", dim=2)
a = cf.Parameter("a")


def test_only_partial_derivatives_of_fields_remain():
    entries = cf.to_components(cf.curl(cf.curl(E)) + u * cf.grad(cf.div(E)), 3)
    assert len(entries) == 3
    for entry in entries:
        for derivative in entry.atoms(sp.Derivative):
            assert derivative.expr.is_Atom or isinstance(derivative.expr, cf.operators.Component)
        assert not entry.atoms(cf.operators.Grad, cf.operators.Curl, cf.operators.Div)


def test_convection_has_the_components_of_its_definition():
    expected = tuple(w[0] * w[i].diff(x) + w[1] * w[i].diff(y) for i in range(2))
    assert cf.to_components(cf.dot(cf.grad(w), w), 2) == expected


def test_tensor_entries_come_row_by_row():
    assert cf.to_components(cf.grad(w), 2) == (
        w[0].diff(x),
        w[0].diff(y),
        w[1].diff(x),
        w[1].diff(y),
    )


def test_a_vector_in_pieces_has_its_components_in_pieces():
    jump = sp.Piecewise((w, x < 0), (0, True))
    assert cf.to_components(jump, 2) == tuple(
        sp.Piecewise((w[i], x < 0), (0, True)) for i in range(2)
    )


def test_the_normal_has_components():
    assert cf.to_components(cf.dot(cf.n, cf.grad(u)), 2) == (
        cf.n[0] * u.diff(x) + cf.n[1] * u.diff(y),
    )


def test_time_derivatives_are_evaluated_on_a_given_function():
    (value,) = cf.evaluate_on(cf.dt(u) - a * cf.lap(u), {u: sp.exp(-t) * sp.sin(x), a: 2}, 1)
    assert sp.simplify(value - (2 - 1) * sp.exp(-t) * sp.sin(x)) == 0


def test_swapped_values_do_not_mix():
    assert cf.evaluate_on(u - 2 * v, {u: x, v: y}, 2) == (x - 2 * y,)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: cf.to_components(u, 4), ValueError, "1, 2 or 3"),
        (lambda: cf.to_components(E, 2), cf.ShapeError, "E has 3 components"),
        (lambda: cf.to_components(u.diff(z), 2), cf.ShapeError, "coordinate z"),
        (lambda: cf.to_components(cf.ScalarField("s", dim=2), 3), cf.ShapeError, "declared in 2D"),
        (lambda: cf.to_components(cf.vector(x, y), 3), cf.ShapeError, "2 components"),
        (lambda: cf.to_components(cf.curl(u), 3), cf.ShapeError, "curl of a scalar"),
        (lambda: cf.evaluate_on(u + v, {u: x}, 1), cf.SymbolError, "the field v"),
        (lambda: cf.evaluate_on(w, {w: x}, 2), cf.ShapeError, "w has 2 components"),
        (lambda: cf.evaluate_on(u, {cf.lap(u): x}, 2), cf.SymbolError, "not for lap"),
    ],
)
def test_what_has_no_components_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (u, (0, 0)),
        (cf.lap(cf.lap(u)), (4, 0)),
        (cf.dt(cf.dt(u)), (0, 2)),
        (u * cf.grad(cf.div(E))[0] + cf.dt(u.diff(x)), (2, 1)),
        (cf.div(x * E, evaluate=False), (1, 0)),
        (sp.sin(x) * y, (0, 0)),
    ],
)
def test_orders_in_space_and_time_are_counted(expr, expected):
    assert orders(expr) == expected


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (x * cf.t, "constant"),
        (sp.sin(x) * cf.lap(u), "linear"),
        (u - x, "affine"),
        (u**2, "nonlinear"),
        ((u + 1) ** 2 - u**2, "affine"),
        (u * v, "nonlinear"),
        (cf.dot(cf.grad(E), E), "nonlinear"),
        (sp.Abs(u), "nonlinear"),
        (sp.Piecewise((u, x < 0), (2 * u, True)), "linear"),
        (sp.cos(v) ** 2 * u + sp.sin(v) ** 2 * u, "linear"),
    ],
)
def test_dependence_on_fields_is_told(expr, expected):
    assert dependence(expr, [u, v, E]) == expected


def test_dependence_on_one_of_two_fields():
    assert dependence(u * v, [u]) == "linear"
    assert dependence(u * v + v, [u]) == "affine"
    assert dependence(v, [u]) == "constant"


def test_ratio_finds_multiples_in_disguise():
    assert ratio(cf.lap(u), cf.div(a * cf.grad(u))) == a
    assert ratio(sp.sin(u) * sp.cos(u), sp.sin(2 * u)) == 2
    assert ratio(cf.curl(cf.curl(E)), cf.grad(cf.div(E)) - cf.lap(E), 3) == 1
    assert ratio(u, sp.Abs(u)) is None
    assert ratio(u, x * u) is None
    assert ratio(u.diff(x, 2), cf.lap(u)) is None
    assert ratio(u.diff(x, 2), cf.lap(u), 1) == 1
    assert ratio(sp.Piecewise((u, x < 0), (0, True)), sp.Piecewise((u, x < 5), (0, True))) is None


def test_is_zero_believes_only_proofs():
    assert is_zero(sp.sin(u) ** 2 + sp.cos(u) ** 2 - 1)
    assert is_zero(cf.curl(cf.curl(E)) - cf.grad(cf.div(E)) + cf.lap(E), 3)
    # Zero wherever the random numbers are, but not everywhere.
    assert not is_zero(sp.Piecewise((u, x > 100), (0, True)))
    assert not is_zero(u - sp.Abs(u))
