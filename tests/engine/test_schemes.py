"""Time schemes of third and fourth order: their order, their derivatives, and their sweeps."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import create_unit_interval
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x

u = cf.ScalarField("u")
HIGH = [("sdirk3", 3), ("sdirk4", 4)]


def wave(scheme: str, steps: int) -> cf.Model:
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 12),
        elements={u: ("Lagrange", 5)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x), dt(u): 0},
        time=cf.Window(0, 1.3, steps, scheme),
    )
    return cf.Model(cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u)}), {"lap": 1.0}, experiment)


def reacting(scheme: str, steps: int = 6) -> cf.Model:
    exact = sp.sin(sp.pi * x) * sp.cos(3 * t)
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "cubic": -(u**3), "u_x": u.diff(x)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 10),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: exact.subs(t, 0)},
        forcing={u: exact.diff(t)},
        time=cf.Window(0, 0.5, steps, scheme),
    )
    return cf.Model(library, {"lap": 0.3, "cubic": 1.0, "u_x": 0.4}, experiment)


def error_at_the_end(scheme: str, steps: int) -> float:
    function = wave(scheme, steps).solve().function(u)
    nodes = function.function_space.tabulate_dof_coordinates()[:, 0]
    exact = np.sin(np.pi * nodes) * np.cos(np.pi * 1.3)
    return float(np.abs(function.x.array - exact).max())


@pytest.mark.parametrize(("scheme", "order"), HIGH)
def test_waves_converge_with_the_order_of_the_scheme(scheme, order):
    coarse, fine = (error_at_the_end(scheme, steps) for steps in (24, 48))
    assert np.log2(coarse / fine) > order - 0.2


@pytest.mark.parametrize("scheme", [name for name, _ in HIGH])
def test_derivatives_of_higher_schemes_are_exact(scheme):
    model = reacting(scheme)
    assert cf.taylor_linearised(model, "cubic").order == pytest.approx(2, abs=0.1)
    assert cf.taylor_observable(model, cf.Integral(u, at="end"), "lap").order == pytest.approx(
        2, abs=0.1
    )


@pytest.mark.parametrize("scheme", [name for name, _ in HIGH])
def test_cheap_strategies_agree_with_solves(scheme):
    model = reacting(scheme)
    exact, cheap = model.deletions(), model.deletions(accuracy=1e-5)
    assert {cheap[name].strategy for name in ("cubic", "u_x")} == {"lock-step"}
    for name, deletion in exact.items():
        assert cheap[name].score == pytest.approx(deletion.score, rel=1e-4)
    linear = wave(scheme, 8)
    assert linear.deletions(accuracy=1e-5)["lap"].score == pytest.approx(
        linear.deletions()["lap"].score, rel=1e-4
    )


def moving(scheme: str, steps: int) -> float:
    """The error of a heat equation whose boundary values move."""
    exact = sp.sin(2 * x + 1) * sp.exp(-t) * sp.cos(3 * t + x)
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 5)},
        boundary=[cf.Dirichlet(u, exact)],
        initial={u: exact.subs(t, 0)},
        forcing={u: exact.diff(t) - 0.3 * exact.diff(x, 2)},
        time=cf.Window(0, 1, steps, scheme),
    )
    model = cf.Model(cf.Library(anchor=dt(u), terms={"lap": lap(u)}), {"lap": 0.3}, experiment)
    function = model.solve().function(u)
    nodes = function.function_space.tabulate_dof_coordinates()[:, 0]
    return float(np.abs(function.x.array - sp.lambdify(x, exact.subs(t, 1))(nodes)).max())


@pytest.mark.parametrize("scheme", [name for name, _ in HIGH])
def test_moving_boundary_values_keep_the_third_order(scheme):
    coarse, fine = (moving(scheme, steps) for steps in (16, 32))
    assert np.log2(coarse / fine) > 2.9
    assert fine < moving("sdirk2", 32) / 5
