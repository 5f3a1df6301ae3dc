"""Transport of discontinuous fields: upwind between cells, boundary values where the flow
enters, or a question.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from engine_support import assert_order, error, forcing, unit
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import div, dot, dt, grad, t, x, y

u, T = cf.ScalarField("u"), cf.ScalarField("T")
v, w = cf.VectorField("v", dim=2), cf.VectorField("w", dim=2)


def carried(degree, start, coefficient=1.0, term=None):
    """A profile on the unit interval that moves to the right."""
    experiment = cf.Experiment(
        mesh=unit("interval", 50),
        elements={u: ("DG", degree)},
        boundary=[cf.Dirichlet(u, 0, on="left")],
        initial={u: start},
        time=cf.Window(0, 0.4, steps=160),
    )
    library = cf.Library(anchor=dt(u), terms={"adv": -u.diff(x) if term is None else term})
    return cf.Model(library, {"adv": coefficient}, experiment)


@pytest.mark.parametrize(("degree", "beyond"), [(0, 1e-12), (1, 0.1), (2, 0.1)])
def test_a_step_keeps_its_bounds(degree, beyond):
    """The central flux made −0.41 … 1.26 of it."""
    model = carried(degree, sp.Piecewise((1, sp.And(x > 0.2, x < 0.4)), (0, True)))
    values = model.factual.function(u).x.array
    assert -beyond <= values.min() <= values.max() <= 1 + beyond
    energies = [model.measurement(cf.Energy(u, at=at)).value(model.factual) for at in (0.0, "end")]
    assert 0.3 < energies[1] / energies[0] < 1
    assert model.notes == ("adv: the flux between cells is upwind",)


def test_the_sign_may_be_in_the_term_or_in_the_coefficient():
    start = sp.exp(-200 * (x - 0.3) ** 2)
    one, other = carried(1, start), carried(1, start, -1.0, u.diff(x))
    assert np.abs(one.factual.function(u).x.array - other.factual.function(u).x.array).max() < 1e-13


W = (1 + y, sp.Rational(1, 2) - x)
EXACT = sp.sin(2 * x + y) + 2


def steady(n, degree=1, cell="triangle", terms=None, boundary=None, element=None):
    terms = {"adv": -dot(cf.vector(*W), grad(u)), "u": -u} if terms is None else terms
    library = cf.Library(terms=terms, unknown=u)
    coefficients = dict.fromkeys(terms, 1.0)
    experiment = cf.Experiment(
        mesh=unit(cell, n),
        elements={u: element or ("DG", degree)},
        boundary=[cf.Dirichlet(u, EXACT)] if boundary is None else boundary,
        forcing=forcing(library, coefficients, {u: EXACT}, 2),
    )
    return cf.Model(library, coefficients, experiment)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
@pytest.mark.parametrize("degree", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_steady_transport_converges(degree, cell):
    """At least with order k + 1/2; the data on all sides count where the flow enters."""
    assert_order(
        [error(steady(n, degree, cell).solve().function(), EXACT) for n in (8, 16)], degree + 0.5
    )


def test_terms_apart_converge_as_one():
    terms = {"along x": -(1 + y) * u.diff(x), "along y": -u.diff(y) / 2, "u": -u}
    assert_order([error(steady(n, 1, terms=terms).solve().function(), EXACT) for n in (8, 16)], 1.5)


def test_the_solution_is_that_of_upwind_fluxes_in_plain_dolfinx():
    library = cf.Library(
        terms={"adv": -dot(cf.vector(1, sp.Rational(1, 2)), grad(u)), "u": -u}, unknown=u
    )
    domain = unit("triangle", 5, skew=0.04)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("DG", 1)},
        boundary=[cf.Dirichlet(u, x * y + 1)],
        forcing={u: x - y},
    )
    found = cf.Model(library, {"adv": 0.8, "u": 1.0}, experiment).solve().function()
    a, b = ufl.TrialFunction(found.function_space), ufl.TestFunction(found.function_space)
    place, normal = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
    wind = ufl.as_vector((0.8, 0.4))
    leaving = (ufl.dot(wind, normal) + abs(ufl.dot(wind, normal))) / 2
    left = (-a * ufl.dot(wind, ufl.grad(b)) + a * b) * ufl.dx + leaving * a * b * ufl.ds
    left += (leaving("+") * a("+") - leaving("-") * a("-")) * ufl.jump(b) * ufl.dS
    entering = leaving - ufl.dot(wind, normal)
    right = (place[0] - place[1]) * b * ufl.dx + entering * (place[0] * place[1] + 1) * b * ufl.ds
    plain = solved_by_dolfinx(left, right)
    assert np.abs(found.x.array - plain.x.array).max() < 1e-11


def test_vector_fields_are_carried_as_well():
    exact = (sp.sin(x + 2 * y), sp.cos(x))
    library = cf.Library(terms={"adv": -dot(grad(v), cf.vector(*W)), "v": -v}, unknown=v)
    coefficients = {"adv": 1.0, "v": 1.0}

    def at(n):
        experiment = cf.Experiment(
            mesh=unit("triangle", n),
            elements={v: ("DG", 1)},
            boundary=[cf.Dirichlet(v, exact)],
            forcing=forcing(library, coefficients, {v: exact}, 2),
        )
        model = cf.Model(library, coefficients, experiment)
        assert model.notes == ("adv: the flux between cells is upwind",)
        return error(model.solve().function(), exact)

    assert_order([at(n) for n in (8, 16)], 1.5)


def heated(**kwargs):
    """A temperature that an unknown flow carries: the speed depends on another field."""
    system = cf.System(
        {
            w: cf.Library(anchor=dt(w), terms={"decay": -w}),
            T: cf.Library(anchor=dt(T), terms={"carry": -dot(w, grad(T)), "loss": -T}),
        }
    )
    given = {
        "mesh": unit("triangle", 3),
        "elements": {w: ("Lagrange", 1), T: ("DG", 1)},
        "initial": {w: (1 + y, x), T: sp.exp(-x)},
        "boundary": [cf.Dirichlet(T, 1)],
        "time": cf.Window(0, 0.3, steps=3),
    }
    experiment = cf.Experiment(**{**given, **kwargs})
    return cf.Model(system, {"w/decay": 0.5, "T/carry": 1.0, "T/loss": 0.3}, experiment)


def test_derivatives_of_upwind_fluxes_are_right():
    model = heated()
    for name in ("T/carry", "w/decay"):
        assert cf.taylor_linearised(model, name).passed()


# Questions and refusals
# --------------------------------------------------------------------------------------------------


def refused(message, make):
    with pytest.raises(cf.InputError, match=message):
        make()


def test_inflow_values_are_asked_for():
    refused(r"u enters through the boundary part 'bottom' \(adv\)", lambda: steady(2, boundary=[]))
    refused(
        "enters through the boundary part 'top'",
        lambda: steady(2, boundary=[cf.Dirichlet(u, 0, on=("left", "bottom"))]),
    )
    moving = {"adv": -sp.cos(t) * u.diff(x)}
    experiment = {
        "mesh": unit("triangle", 2),
        "elements": {u: ("DG", 1)},
        "initial": {u: 0},
        "time": cf.Window(0, 1, steps=2),
    }
    library = cf.Library(anchor=dt(u), terms=moving)
    refused(
        "changes with time", lambda: cf.Model(library, {"adv": 1.0}, cf.Experiment(**experiment))
    )
    refused("may enter anywhere", lambda: heated(boundary=[cf.Dirichlet(T, 1, on="left")]))


def test_terms_that_carry_against_each_other_through_a_side_are_refused():
    library = cf.Library(terms={"a": -u.diff(x), "b": -(x - 3) * u.diff(x), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("triangle", 2), elements={u: ("DG", 1)}, boundary=[cf.Dirichlet(u, 1)]
    )
    refused(
        "write it as one term",
        lambda: cf.Model(library, {"a": 1.0, "b": 1.0, "u": 1.0}, experiment),
    )


def test_a_change_of_direction_needs_another_model():
    model = carried(1, 1 - x)
    assert model.solve(cf.scale("adv", 0.5)).norm() > 0
    assert model.solve(cf.delete("adv")).norm() > 0
    refused("upwind for coefficients of one sign", lambda: model.solve(cf.scale("adv", -1.0)))


def test_what_is_no_flux_is_refused():
    library = cf.Library(terms={"adv": -dot(grad(v), v)}, unknown=v)
    experiment = cf.Experiment(
        mesh=unit("triangle", 2), elements={v: ("DG", 1)}, boundary=[cf.Dirichlet(v, (1, 0))]
    )
    refused("not the divergence of a flux", lambda: cf.Model(library, {"adv": 1.0}, experiment))


def test_an_acoustic_system_keeps_its_energy_and_says_that_its_flux_is_central():
    """dt p = −div v, dt v = −grad p in a closed box, both discontinuous: the mean of both
    sides conserves energy.
    """
    p = cf.ScalarField("p")
    system = cf.System(
        {
            p: cf.Library(anchor=dt(p), terms={"div": -div(v)}),
            v: cf.Library(anchor=dt(v), terms={"grad": -grad(p)}),
        }
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={p: ("DG", 1), v: ("DG", 1)},
        initial={p: sp.cos(sp.pi * x), v: (0, 0)},
        boundary=[cf.Dirichlet(v, 0)],
        time=cf.Window(0, 0.5, steps=20),
    )
    open_box = replace(experiment, boundary=[cf.Dirichlet(v, 0, on="left")])
    refused(
        "nothing is said on the boundary part",
        lambda: cf.Model(system, {"p/div": 1.0, "v/grad": 1.0}, open_box),
    )
    model = cf.Model(system, {"p/div": 1.0, "v/grad": 1.0}, experiment)
    assert model.notes == (
        "p/div, v/grad: the flux between cells is central, the mean of both sides",
    )
    start, end = (
        sum(model.measurement(cf.Energy(f, at=at)).value(model.factual) for f in (p, v))
        for at in (0.0, "end")
    )
    assert end == pytest.approx(start, rel=1e-10)
