"""The way of a fit: narrow and open valleys, branches of steady problems, what was tried before."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y

u = cf.ScalarField("u")


def readings(library, experiment, sensors, truth):
    model = cf.Model(library, truth, experiment)
    values = model.observation(sensors).values(model.factual)
    return values + sensors.noise * np.random.default_rng(0).normal(size=len(values))


def test_a_narrow_curved_valley_is_followed_in_few_solves():
    """A reaction of two species of which one is seen, begun a quarter beside the truth."""
    a, b = cf.ScalarField("a"), cf.ScalarField("b")
    eaten = {"lap": cf.lap(a), "react": -a * b**2, "feed": 1 - a}
    grown = {"lap": cf.lap(b), "react": a * b**2, "kill": -b}
    library = cf.System(
        {
            a: cf.Library(anchor=cf.dt(a), terms=eaten, unknown=a),
            b: cf.Library(anchor=cf.dt(b), terms=grown, unknown=b),
        }
    )
    spot = sp.exp(-30 * (x - 0.45) ** 2)
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 12),
        elements={a: ("Lagrange", 2), b: ("Lagrange", 2)},
        initial={a: 1 - spot / 2, b: 0.1 + spot},
        boundary=[cf.Neumann(a, 0), cf.Neumann(b, 0)],
        time=cf.Window(0, 4, steps=12),
    )
    truth = dict(zip(library.names, (0.05, 4.0, 0.5, 0.02, 4.0, 1.0), strict=True))
    start = dict(zip(library.names, (0.04, 3.5, 0.4, 0.03, 3.5, 0.9), strict=True))
    sensors = cf.Sensors(np.linspace(0.1, 0.9, 9), [b], noise=0.005)
    fit = cf.calibrate(
        library, experiment, (sensors, readings(library, experiment, sensors, truth)), start
    )
    assert 0.6 < fit.chi2 / fit.degrees < 1.4
    assert all(low <= truth[name] <= high for name, (low, high) in fit.intervals.items())
    assert fit.solves <= 14
    needed = {name for name in library.names if fit.without(name).needed}
    assert needed == set(library.names)
    assert fit.solves <= 40


def steady_fit():
    """Δu + 2 u_x − 1.5 u³ + f = 0 with a candidate −u, from fourteen sensors."""
    terms = {"lap": cf.lap(u), "u_x": u.diff(x), "cubic": -(u**3), "u": -u}
    library = cf.Library(terms=terms, unknown=u)
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 6, 6),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, x * y)],
        forcing={u: 20 * sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y) + 10 * x},
    )
    points = np.random.default_rng(0).uniform(0.1, 0.9, (14, 2))
    sensors = cf.Sensors(points, [u], noise=0.01)
    data = readings(library, experiment, sensors, {"lap": 1.0, "u_x": 2.0, "cubic": 1.5})
    start = {"lap": 0.8, "u_x": 1.5, "cubic": 1.0, "u": 0.1}
    return cf.calibrate(library, experiment, (sensors, data), start)


def test_a_deletion_does_not_depend_on_what_was_deleted_before():
    """Without the leading term solutions are far away, and nothing is followed from there."""
    first, second = steady_fit(), steady_fit()
    alone = first.without("u_x")
    assert second.without("lap").needed
    after = second.without("u_x")
    assert after.needed
    assert after.delta_chi2 == pytest.approx(alone.delta_chi2, rel=1e-6)
    assert after.coefficients == pytest.approx(alone.coefficients, rel=1e-6)


def test_a_steady_solution_is_followed_from_the_nearest_place(monkeypatch):
    """The same coefficients come out where every solution is followed from that of the start."""
    from cffem.engine.calibration import fit_problem

    fit = steady_fit()
    nothing = property(lambda _: [], lambda *_: None)
    monkeypatch.setattr(fit_problem.FitProblem, "_known", nothing, raising=False)
    other = steady_fit()
    assert fit.coefficients == pytest.approx(other.coefficients, rel=1e-8)
    assert fit.chi2 == pytest.approx(other.chi2, rel=1e-9)
    assert fit.solves == other.solves


def test_a_fit_ends_in_a_valley_that_readings_leave_open_and_says_so():
    """Diffusion and decay that are so strong that a known transport is not felt: only their ratio
    is identified, the larger both are the less, and χ² falls forever.
    """
    terms = {"lap": cf.lap(u), "decay": -u, "u_x": u.diff(x)}
    library = cf.Library(terms=terms, unknown=u)
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 1 + x)],
    )
    sensors = cf.Sensors(np.linspace(0.1, 0.9, 9), [u], noise=0.02)
    data = readings(library, experiment, sensors, {"lap": 200.0, "decay": 400.0, "u_x": -60.0})
    start = {"lap": 2.0, "decay": 4.0}
    fit = cf.calibrate(library, experiment, (sensors, data), start, fixed={"u_x": 1.0})
    assert fit.in_valley
    assert any("valley" in note for note in fit.notes)
    assert fit.solves <= 20
    assert fit.coefficients["decay"] / fit.coefficients["lap"] == pytest.approx(2, rel=0.2)
    assert not fit.profile("lap").bounded
