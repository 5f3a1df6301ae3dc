"""Fits that begin far away: a pulse that arrives at the wrong time says nothing about how wrong."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x

pytest.importorskip("dolfinx")
from dolfinx.mesh import create_unit_interval

pytestmark = pytest.mark.fem
NOISE = 0.01


def pulse_on_a_string(speed: float) -> tuple[cf.Library, cf.Experiment, tuple[cf.Sensors, object]]:
    """A narrow pulse, two sensors, and their readings for a wave speed and a loss."""
    u = cf.ScalarField("u")
    library = cf.Library(anchor=dt(dt(u)), terms={"loss": -dt(u), "lap": lap(u), "mass": -u})
    pulse = sp.exp(-(((x - sp.Rational(1, 5)) / sp.Rational(1, 20)) ** 2))
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_WORLD, 40),
        elements={u: ("Lagrange", 2)},
        initial={u: pulse, dt(u): 0},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=40),
    )
    world = cf.Model(library, {"lap": speed**2, "loss": 0.3}, experiment)
    sensors = cf.Sensors([0.5, 0.8], [u], noise=NOISE)
    values = world.observation(sensors).values(world.factual)
    return library, experiment, (sensors, values + NOISE * np.random.default_rng(1).normal(size=82))


@pytest.mark.parametrize(
    ("square", "start"),
    [
        (0.3, None),
        (3.0, {"lap": 0.05}),
        pytest.param(0.3, {"lap": 10.0}, marks=pytest.mark.slow),
        pytest.param(3.0, None, marks=pytest.mark.slow),
        pytest.param(3.0, {"lap": 10.0}, marks=pytest.mark.slow),
    ],
)
def test_a_wave_speed_is_found_from_any_start(square, start):
    # From two thirds of these places least squares end where no pulse arrives at all.
    library, experiment, readings = pulse_on_a_string(square**0.5)
    fit = cf.calibrate(library, experiment, readings, start=start)
    assert fit.chi2 < 1.3 * fit.degrees
    assert np.isclose(fit.coefficients["lap"], square, rtol=0.01)
    low, high = fit.intervals["loss"]
    assert low <= 0.3 <= high


@pytest.mark.slow
def test_the_end_does_not_depend_on_the_start():
    library, experiment, readings = pulse_on_a_string(1.0)
    ends = [
        cf.calibrate(library, experiment, readings, start=start).chi2
        for start in (None, {"lap": 0.9, "loss": 0.2})
    ]
    assert np.isclose(*ends, rtol=1e-6)


def test_a_term_whose_sign_is_chance_does_not_make_the_equation_run_backward():
    # A tenth of the fits of a term that is not there would otherwise end without a solution.
    u = cf.ScalarField("u")
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "bilaplacian": -lap(lap(u)), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_WORLD, 16),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(lap(u), 0)],
        time=cf.Window(0, 0.5, steps=10),
    )
    world = cf.Model(library, {"lap": 0.05, "u": 0.3}, experiment)
    sensors = cf.Sensors([0.2, 0.4, 0.7], [u], noise=NOISE)
    clean = world.observation(sensors).values(world.factual)
    for seed in range(4):
        values = clean + NOISE * np.random.default_rng(seed).normal(size=len(clean))
        fit = cf.calibrate(library, experiment, (sensors, values))
        assert fit.coefficients["bilaplacian"] >= 0
        assert fit.chi2 < 2 * fit.degrees


@pytest.mark.slow
def test_a_model_that_does_not_fit_keeps_its_misfit():
    library, experiment, (sensors, values) = pulse_on_a_string(1.0)
    wrong = np.sin(np.arange(len(values)))
    fit = cf.calibrate(library, experiment, (sensors, wrong))
    assert fit.chi2 > 10 * fit.degrees
