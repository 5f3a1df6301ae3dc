"""One sign of the pressure on all elements, and measured boundary velocities whose net flux
is removed by the smallest change.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import fem
from engine_support import error, unit

import cffem as cf
from cffem import lap, x, y

v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
PARTS = ("left", "right", "bottom", "top")


@pytest.mark.parametrize(
    ("element", "size"),
    [(("Lagrange", 2), 8), (("RT", 2), 8), (("BDM", 1), 16), (("N1curl", 2), 8)],
    ids=str,
)
def test_the_multiplier_is_a_pressure_on_every_element(element, size):
    """v = f − ∇p with f = ∇φ + curl ψ: p is φ, whatever the element."""
    potential, stream = sp.cos(sp.pi * x) * sp.cos(sp.pi * y), sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    force = (potential.diff(x) + stream.diff(y), potential.diff(y) - stream.diff(x))
    closed = [cf.Dirichlet(v[0], 0, on=PARTS[:2]), cf.Dirichlet(v[1], 0, on=PARTS[2:])]
    walls = {"Lagrange": closed, "N1curl": [cf.Neumann(v, 0)]}.get(element[0], [cf.Dirichlet(v, 0)])
    experiment = cf.Experiment(
        mesh=unit("triangle", size),
        elements={v: element},
        boundary=walls,
        forcing={v: force},
        constraint=cf.DivergenceFree(v),
    )
    solution = cf.Model(cf.Library(terms={"v": -v}, unknown=v), {"v": 1.0}, experiment).solve()
    assert error(solution.multiplier(), potential) < 0.05  # its norm is 1/2
    assert error(solution.function(), (stream.diff(y), -stream.diff(x))) < 0.15  # its norm is 2.2


@pytest.mark.parametrize("element", [("Lagrange", 2), ("RT", 2), ("BDM", 2)], ids=str)
def test_the_pressure_of_poiseuille_falls_downstream(element):
    """ν lap v = ∇p with v = y(1 − y): p = 2ν(1 − x) from the outlet."""
    flow, walls = (y * (1 - y), 0), ("left", "top", "bottom")
    given = [cf.Dirichlet(v, flow, on=walls)]
    if element[0] != "Lagrange":
        given += [cf.Tangential(v, flow)]
    experiment = cf.Experiment(
        mesh=unit("triangle", 6),
        elements={v: element},
        boundary=[*given, cf.Neumann(v, 0, on="right")],
        constraint=cf.DivergenceFree(v),
    )
    solution = cf.Model(
        cf.Library(terms={"lap": lap(v)}, unknown=v), {"lap": 0.7}, experiment
    ).solve()
    assert error(solution.multiplier(), sp.Rational(14, 10) * (1 - x)) < (
        1e-9 if element[0] == "Lagrange" else 0.1
    )


# Net flux
# --------------------------------------------------------------------------------------------------


def measured_flow(noise=0.05, drift=0.0, seed=0, n=17):
    """A rotating flow, and a drift along x, as a table on a grid with noise that carries a
    net flux.
    """
    axis = np.linspace(0, 1, n)
    a, b = np.meshgrid(axis, axis, indexing="ij")
    rng = np.random.default_rng(seed)
    values = np.stack([b - 0.5 + 0.03 * a + drift, 0.5 - a]) + noise * rng.standard_normal(
        (2, n, n)
    )
    return cf.Dataset.from_arrays({x: axis, y: axis}, {v: values})


def stokes(*boundary, element=("Lagrange", 2), n=6):
    experiment = cf.Experiment(
        mesh=unit("triangle", n),
        elements={v: element},
        boundary=boundary,
        constraint=cf.DivergenceFree(v),
    )
    return cf.Model(cf.Library(terms={"drag": -v}, unknown=v), {"drag": 1.0}, experiment)


def boundary_flux(model, function, parts=PARTS):
    return sum(model.measurement(cf.Flux(v, on=part)).value(function) for part in parts)


@pytest.mark.parametrize("element", [("Lagrange", 2), ("RT", 1), ("BDM", 1)], ids=str)
def test_the_net_flux_of_measured_values_is_removed_and_told(element, caplog):
    model = stokes(cf.Dirichlet(v, measured_flow()), element=element)
    with caplog.at_level(logging.WARNING):
        solution = model.solve()
    assert abs(boundary_flux(model, solution)) < 1e-12
    found = model.flux_correction
    assert abs(found.flux) > 1e-3
    assert found.parts == tuple(sorted(PARTS))
    assert 0 < found.relative < 0.2
    assert "carry a net flux" in caplog.text
    assert any("carry a net flux" in note for note in model.notes)


def test_the_change_is_the_smallest_there_is():
    """Without corners it is −F n/|Γ|; with them it cannot be much larger, and no admissible
    change is smaller.
    """
    model = stokes(cf.Dirichlet(v, measured_flow()))
    model.solve()
    found = model.flux_correction
    balance = model.essential.floating.measured
    assert found.correction == pytest.approx(
        abs(found.flux) / 2, rel=0.1
    )  # |Γ| = 4, so ‖F n/|Γ|‖ = |F|/2
    rng = np.random.default_rng(1)
    for _ in range(5):
        other = rng.standard_normal(len(balance.direction))
        other *= 1 / (balance.flux[balance.places] @ other)  # a change by one unit of flux
        balance._values.array[:] = other
        balance.mass.mult(balance._values, balance._image)
        assert balance._values.dot(balance._image) ** 0.5 > found.correction / abs(found.flux)


def test_exact_walls_stay_as_they_are():
    """Only what is measured changes: here the left and the right side; v·n of the walls is
    zero to the last digit.
    """
    walls = cf.Dirichlet(v, 0, on=("bottom", "top"))
    model = stokes(
        cf.Dirichlet(v, measured_flow(noise=0.02, drift=1.0), on=("left", "right")), walls
    )
    solution = model.solve()
    assert model.flux_correction.parts == ("left", "right")
    assert boundary_flux(model, solution, ("bottom", "top")) == 0.0
    assert abs(boundary_flux(model, solution)) < 1e-12


def test_without_balance_the_message_names_the_flux():
    for given in (cf.Dirichlet(v, measured_flow(), balance=False), cf.Dirichlet(v, (x, y))):
        with pytest.raises(cf.InputError, match=r"carry a net flux of -?[0-9.]+ .* balance=True"):
            stokes(given).solve()


def test_formulas_can_be_balanced_on_request():
    given = (y - sp.Rational(1, 2) + x / 50, sp.Rational(1, 2) - x)
    model = stokes(cf.Dirichlet(v, given, balance=True))
    assert abs(boundary_flux(model, model.solve())) < 1e-12
    assert model.flux_correction.flux == pytest.approx(0.02, rel=1e-10)


def test_what_is_no_noise_is_refused_with_its_flux():
    with pytest.raises(cf.InputError, match=r"net flux of 2 .* more than noise"):
        stokes(cf.Dirichlet(v, (x, y), balance=True)).solve()


def test_functions_count_as_measured_and_a_march_keeps_the_balance():
    mesh = unit("triangle", 6)
    given = fem.Function(fem.functionspace(mesh.mesh, ("Lagrange", 2, (2,))))
    given.interpolate(lambda q: np.stack([q[1] - 0.5 + 0.05 * q[0], 0.5 - q[0]]))
    experiment = cf.Experiment(
        mesh=mesh,
        elements={v: ("Lagrange", 2)},
        initial={v: (y - sp.Rational(1, 2), sp.Rational(1, 2) - x)},
        boundary=[cf.Dirichlet(v, given)],
        time=cf.Window(0, 0.2, steps=4),
        constraint=cf.DivergenceFree(v),
    )
    model = cf.Model(cf.Library(anchor=cf.dt(v), terms={"lap": lap(v)}), {"lap": 0.1}, experiment)
    solution = model.solve()
    assert model.flux_correction.flux == pytest.approx(0.05, rel=1e-10)
    measured = model.essential.floating.measured
    for state in solution.states:
        assert abs(measured.flux @ np.asarray(state)[: len(measured.flux)]) < 1e-12


def test_a_study_reports_what_was_taken_from_measured_values():
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, measured_flow())],
        constraint=cf.DivergenceFree(v),
    )
    library = cf.Library(terms={"lap": lap(v), "drag": -v}, unknown=v)
    report = cf.Study(library, experiment, coefficients={"lap": 0.1, "drag": 1.0}).run()
    scope = report.sections["scope"]
    assert "carry a net flux" in scope["experiment"]["notes"][0]
    assert "carry a net flux" in scope["sentence"]
