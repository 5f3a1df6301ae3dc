"""Rewriting modulo a constraint proves what vanishes on the class, and nothing else."""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import constraint_models as models
import sympy as sp
from constraint_models import E, p, v

import cffem as cf
from cffem import cross, curl, div, dot, dt, grad, lap, outer, sym, vector, x, y, z
from cffem.constraints.modulo import Modulo, entries_vanish

SOLENOIDAL = Modulo(cf.DivergenceFree(E), 3)
PLANE = Modulo(cf.DivergenceFree(v), 2)

NULL = [
    grad(div(E)),
    div(E) * E,
    dt(grad(div(E))),
    x * div(E) * curl(E),
    curl(curl(E)) + lap(E),
    div(sym(grad(E))) - lap(E) / 2,
    div(outer(E, E)) - dot(grad(E), E),
    grad(div(x * E)) - grad(E[0]),
    curl(cross(E, vector(0, 0, 1))) - E.diff(z),
]
NOT_NULL = [
    E,
    lap(E),
    curl(curl(E)),
    grad(E[0]),
    cross(E, vector(0, 0, 1)),
    grad(div(E)) + sp.Float(1e-9) * E,
    dot(grad(E), E),
]


@pytest.mark.parametrize("term", NULL, ids=str)
def test_what_vanishes_on_the_class_is_proved(term):
    assert SOLENOIDAL.vanishes(term)


@pytest.mark.parametrize("term", NOT_NULL, ids=str)
def test_what_does_not_vanish_is_not_proved(term):
    assert not SOLENOIDAL.vanishes(term)


def test_proof_agrees_with_fields_that_obey_the_constraint():
    """With E = curl A for polynomial A the terms proved null are zero, the others are not."""
    potential = vector(x**2 * y * z**3 + y**3, x * y**2 * z + z**4 * x, x**3 * z * y**2 - y * z**2)
    member = sp.Tuple(*(cf.component(curl(potential), i) for i in range(3)))
    for term in NULL[:6] + NOT_NULL[:6]:
        value = term.subs(E, vector(*member)).doit()
        entries = (
            [sp.expand(cf.component(value, i)) for i in range(3)] if value != 0 else [sp.S.Zero] * 3
        )
        assert all(entry == 0 for entry in entries) == SOLENOIDAL.vanishes(term)


def test_gradients_are_told_from_other_fields_on_the_class():
    turned = vector(-v[1], v[0])
    gradients = [
        grad(p),
        grad(dot(v, v)),
        dot(grad(v), v) - curl(v) * turned,
        turned,
        vector(x, y),
        lap(v) + curl(curl(v)),
    ]
    for term in gradients:
        assert PLANE.is_gradient(term)
    for term in (v, lap(v), dot(grad(v), v), curl(v) * turned, x * turned, vector(-y, x)):
        assert not PLANE.is_gradient(term)
    assert SOLENOIDAL.is_gradient(dot(grad(E), E) - cross(curl(E), E))


def test_a_field_that_goes_round_a_hole_is_no_gradient():
    vortex = vector(-y, x) / (x**2 + y**2)
    assert entries_vanish(PLANE.tested_against_class(vortex))
    assert not PLANE.is_gradient(vortex)


def test_the_null_of_a_weighted_class_carries_its_weight():
    smooth = 1 + x**2
    modulo = Modulo(cf.DivergenceFree(E, weight=smooth), 3)
    assert modulo.vanishes(grad(div(smooth * E)))
    assert not modulo.vanishes(grad(div(E)))
    jumping = sp.Piecewise((4, x < sp.Rational(1, 2)), (1, True))
    modulo = Modulo(cf.DivergenceFree(E, weight=jumping), 3)
    assert modulo.vanishes(grad(div(jumping * E)))
    assert not modulo.vanishes(grad(div(E)))  # zero in each half, but not across the interface


def test_curl_free_and_other_constraints_have_their_own_nulls():
    modulo = Modulo(cf.CurlFree(E), 3)
    assert modulo.vanishes(curl(curl(E)))
    assert modulo.vanishes(lap(E) - grad(div(E)))
    assert modulo.vanishes(dot(grad(E), E) - grad(dot(E, E)) / 2)
    assert not modulo.vanishes(lap(E))
    tied = Modulo(cf.Constraint(v[0].diff(x) + 2 * v[1]), 2)
    assert tied.vanishes(v[0].diff(x, y) + 2 * v[1].diff(y))
    assert not tied.vanishes(v[0].diff(y, y))


def test_truth_tables_are_what_is_proved():
    assert {
        name for name, term in models.MAXWELL.items() if SOLENOIDAL.vanishes(term)
    } == models.MAXWELL_NULLS
    proved = {
        name
        for name, term in models.FLOW.items()
        if PLANE.vanishes(term) or PLANE.is_gradient(term)
    }
    assert proved == models.FLOW_NULLS
