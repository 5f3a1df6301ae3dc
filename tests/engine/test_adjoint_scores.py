"""Adjoint scores: the paper's terminal mass with its exact value, counted backward solves,
the same numbers on two ranks.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import PROBLEMS, problem
from dolfinx.mesh import create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x

u = cf.ScalarField("u")


def reacting_heat(steps=10, kappa=0.8):
    """∂_t u = κ u + D Δu on the square without flux through its boundary: the mass obeys
    dm/dt = κ m.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "u_x": u.diff(x)})
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 4, 4),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + x**2},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )
    return cf.Model(library, {"u": kappa, "lap": 0.1}, experiment)


def test_terminal_mass_of_the_papers_worked_example():
    steps, kappa = 10, 0.8
    model = reacting_heat(steps, kappa)
    mass = cf.Integral(u, at="end")
    scores = model.observable_scores(mass)
    # The midpoint rule multiplies the mass by (1 + z/2)/(1 − z/2), z = κ Δt, in each step.
    z = kappa / steps
    end = 4 / 3 * ((1 + z / 2) / (1 - z / 2)) ** steps
    assert scores.value == pytest.approx(end, rel=1e-12)
    assert scores["u"] == pytest.approx(steps * z * end / (1 - z**2 / 4), rel=1e-11)
    assert scores["u"] == pytest.approx(kappa * 4 / 3 * np.exp(kappa), rel=5e-3)
    assert scores["lap"] <= 1e-12
    assert scores.sensitivities["u"] == pytest.approx(scores["u"] / kappa, rel=1e-13)
    deleted = model.observable_deletions(mass)
    assert deleted["u"].score == pytest.approx(end - 4 / 3, rel=1e-11)
    assert deleted["lap"].score <= 1e-12


def test_terms_with_coefficient_zero_have_a_sensitivity_and_no_score():
    model = reacting_heat()
    mass = cf.Integral(u, at="end")
    scores = model.observable_scores(mass)
    assert scores["u_x"] == 0.0
    step = 1e-4
    measurement = model.measurement(mass)
    up, down = (measurement.value(model.solve(cf.set("u_x", value))) for value in (step, -step))
    assert scores.sensitivities["u_x"] == pytest.approx((up - down) / (2 * step), rel=1e-6)


@pytest.mark.parametrize("name", ["heat", "navier_stokes", "maxwell"])
def test_all_terms_cost_one_backward_solve(name):
    model, observable = problem(name)
    before = model.counts["adjoint"]
    every = model.observable_scores(observable)
    assert model.counts["adjoint"] == before + 1
    assert every.backward_solves == 1
    assert set(every) == set(model.library.names)
    one = model.observable_scores(observable, [model.active[0]])
    assert every.record.solves == one.record.solves
    # A direct solve is refined at most twice.
    assert every.record.solves <= 3 * len(model.factual.stages)
    assert every[model.active[0]] == one[model.active[0]]


def test_a_linear_equation_is_factorised_once_for_all_responses():
    model, _ = problem("maxwell")
    assert model.linearised().record.factorisations <= 1


def test_the_linearised_response_is_a_number_with_a_trajectory():
    model, _ = problem("heat")
    response = model.linearised("lap", norm="H1")
    assert response == response.trajectory.norm("H1") == pytest.approx(response.norm("H1"))
    assert response.norm("L2") < response
    assert len(response.trajectory.states) == len(model.times)
    assert not np.any(response.trajectory.states[0])
    assert response.trajectory.function(k=-1).x.array == pytest.approx(
        response.trajectory.states[-1]
    )


def test_the_response_of_a_decaying_mode_is_known():
    """u = e^{−D λ t} sin(πx): a fraction of the diffusion moves it by D λ t u, here with the
    discrete λ and scheme.
    """
    number, steps, diffusion = 8, 4, 0.05
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, number),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)}), {"lap": diffusion}, experiment
    )
    h = 1 / number
    z = diffusion / steps * 6 / h**2 * (1 - np.cos(np.pi * h)) / (2 + np.cos(np.pi * h))
    response = model.linearised("lap").trajectory
    for level in range(steps + 1):
        expected = level * z / (1 - z**2 / 4) * model.factual.states[level]
        assert response.states[level] == pytest.approx(expected, abs=1e-13)


def test_unknown_terms_and_observables_are_refused():
    model, _ = problem("heat")
    with pytest.raises(cf.LibraryError, match="needs a term called 'lpa'"):
        model.linearised("lpa")
    with pytest.raises(cf.LibraryError, match="needs a term called 'lpa'"):
        model.observable_scores(cf.Integral(u), ["lpa"])
    with pytest.raises(cf.InputError, match="is not an observable"):
        model.observable_scores("mass")


def print_scores(comm, name):
    model, observable = PROBLEMS[name](comm)
    scores = model.observable_scores(observable)
    numbers = {
        "signed": scores.signed,
        "responses": {k: float(r) for k, r in model.linearised().items()},
    }
    if comm.rank == 0:
        print("RESULT" + json.dumps(numbers))


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["heat", "navier_stokes"])
def test_two_ranks_give_the_same_scores(on_ranks, name):
    printed = on_ranks(2, print_scores, name)
    line = next(line for line in printed.splitlines() if line.startswith("RESULT"))
    numbers = json.loads(line.removeprefix("RESULT"))
    model, observable = problem(name)
    assert numbers["signed"] == pytest.approx(model.observable_scores(observable).signed, rel=1e-10)
    assert numbers["responses"] == pytest.approx(
        {k: float(r) for k, r in model.linearised().items()}, rel=1e-10
    )
