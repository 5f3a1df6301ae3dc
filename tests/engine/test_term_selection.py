"""Which terms readings need: exact sets, honest abstentions, null columns, ratios only."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.calibration.term_selection import backward, first_order_losses

u = cf.ScalarField("u")


def problem(**terms):
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "cubic": u**3, **terms})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 16),
        elements={u: ("Lagrange", 2)},
        initial={u: 1.5 * sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=10),
    )
    return library, experiment


def fitted(library, experiment, truth, noise=0.02, seed=0, **options):
    sensors = cf.Sensors([0.17, 0.33, 0.58, 0.81], [u], noise=noise)
    model = cf.Model(library, truth, experiment)
    clean = model.observation(sensors).values(model.factual)
    data = clean + noise * np.random.default_rng(seed).normal(size=len(clean))
    return cf.calibrate(library, experiment, (sensors, data), **options)


def test_terms_that_are_not_there_are_left_out_and_the_others_keep_their_intervals():
    truth = {"lap": 0.05, "cubic": -0.8}
    library, experiment = problem(u_x=u.diff(x))
    fit = fitted(library, experiment, truth, seed=3)
    found = fit.selected()
    assert set(found.support) == set(truth)
    assert found.path[0].support == library.names
    assert found.frequencies["lap"] == 1.0
    assert set(found.fit.coefficients) == set(library.names)
    assert found.fit.coefficients["u_x"] == 0.0
    for name, value in truth.items():
        low, high = found.intervals[name]
        assert low <= value <= high
        # Whether or not the others are there.
        assert low <= fit.intervals[name][0]
        assert fit.intervals[name][1] <= high
    # The fit of the selected terms is that of the smaller library.
    small, _ = problem()
    again = fitted(small, experiment, truth, seed=3)
    assert found.fit.chi2 == pytest.approx(again.chi2, rel=1e-6)
    assert found.fit.coefficients["lap"] == pytest.approx(again.coefficients["lap"], rel=1e-3)


def test_a_term_at_the_edge_of_the_noise_is_not_believed_either_way():
    """With noise of a third of the field, nothing is certain, and that is said."""
    library, experiment = problem(u_x=u.diff(x), u=u)
    wrong = 0
    for seed in range(6):
        found = fitted(library, experiment, {"lap": 0.05, "cubic": -0.8}, 0.3, seed).selected()
        wrong += found.reliable and set(found.support) != {"lap", "cubic"}
        assert found.reliable or found.reasons
    assert wrong == 0


def test_a_library_that_lacks_a_term_is_not_believed():
    library, experiment = problem()
    small = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u_x": u.diff(x)})
    sensors = cf.Sensors([0.17, 0.33, 0.58, 0.81], [u], noise=0.02)
    model = cf.Model(library, {"lap": 0.05, "cubic": -0.8}, experiment)
    data = model.observation(sensors).values(model.factual)
    data = data + 0.02 * np.random.default_rng(0).normal(size=len(data))
    found = cf.calibrate(small, experiment, (sensors, data)).selected()
    assert not found.reliable
    assert any("residuals" in reason for reason in found.reasons)


def test_what_no_sensor_feels_stays_where_it_was_and_is_not_selected():
    """Plane Coriolis is a gradient on closed flows: the fit does not move it."""
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    terms = {"viscosity": cf.lap(v), "friction": -v, "Coriolis": cf.vector(v[1], -v[0])}
    library = cf.Library(terms=terms, unknown=v)
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={v: ("Lagrange", 2), p: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(v, (0, 0))],
        forcing={v: (sp.sin(sp.pi * y) * (1 + x), -sp.cos(sp.pi * x) * y)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    sensors = cf.Sensors(np.random.default_rng(0).uniform(0.1, 0.9, (10, 2)), [v], noise=1e-3)
    model = cf.Model(library, {"viscosity": 0.05, "friction": 0.5}, experiment)
    data = model.observation(sensors).values(model.factual)
    data = data + 1e-3 * np.random.default_rng(1).normal(size=len(data))
    start = {"viscosity": 0.1, "friction": 0.1, "Coriolis": 0.25}
    fit = cf.calibrate(library, experiment, (sensors, data), start=start)
    assert fit.coefficients["Coriolis"] == 0.25
    assert "Coriolis" not in fit.identified
    found = fit.selected()
    assert set(found.support) == {"viscosity", "friction"}
    assert found.reliable, found.reasons
    assert found.fit.coefficients["Coriolis"] == 0.0


def test_losses_to_first_order_are_those_of_linear_least_squares():
    generator = np.random.default_rng(2)
    matrix, alpha = generator.normal(size=(40, 3)), np.array([1.0, -2.0, 0.1])
    losses = first_order_losses(matrix, alpha, ("a", "b", "c"), ("a", "b", "c"))
    target = matrix @ alpha
    for j, name in enumerate(("a", "b", "c")):
        others = np.delete(matrix, j, axis=1)
        left = target - others @ np.linalg.lstsq(others, target, rcond=None)[0]
        assert losses[name] == pytest.approx(left @ left, rel=1e-9)


def test_elimination_keeps_what_must_stay():
    generator = np.random.default_rng(4)
    columns = generator.normal(size=(80, 3))
    rows = np.column_stack([columns, 3 * columns[:, 0] + generator.normal(size=80)])
    assert backward(rows, ("a", "b", "c"), ("a", "b", "c"), 80, True) == ("a",)
    assert backward(rows, ("a", "b", "c"), ("a", "c"), 80, True) == ("a", "b")
