"""Time steps that the factual solution chooses: their errors, what they cost, and that everything
after them shares them.
"""

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
HEAT = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u, "u_x": u.diff(x)})
FAST, COEFFICIENTS = 12, {"lap": 0.1, "u": 0.5}


def starting(window: cf.Window, comm=MPI.COMM_SELF, coefficients=None, **more) -> cf.Model:
    """Heat with a ripple that is gone after a hundredth of the window."""
    experiment = cf.Experiment(
        mesh=create_unit_interval(comm, 24),
        elements={u: ("Lagrange", 4)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x) + sp.sin(FAST * sp.pi * x)},
        time=window,
        **more,
    )
    return cf.Model(HEAT, coefficients or COEFFICIENTS, experiment)


def error(model: cf.Model) -> float:
    """The relative error in L2(0, T; L2) of the straight lines between levels."""
    modes, values = (1, FAST), np.array(model.factual.states)
    nodes = model.spaces.space.tabulate_dof_coordinates()[:, 0]
    shapes = [np.sin(k * np.pi * nodes) for k in modes]
    rates = [0.5 - 0.1 * (k * np.pi) ** 2 for k in modes]
    places, weights = np.polynomial.legendre.leggauss(8)
    squares = size = 0.0
    for n, (start, end) in enumerate(zip(model.times[:-1], model.times[1:], strict=True)):
        for place, weight in zip((places + 1) / 2, (end - start) / 2 * weights, strict=True):
            now = start + place * (end - start)
            exact = sum(np.exp(r * now) * s for r, s in zip(rates, shapes, strict=True))
            found = (1 - place) * values[n] + place * values[n + 1]
            squares += weight * model.norm()(found - exact) ** 2
            size += weight * model.norm()(exact) ** 2
    return float(np.sqrt(squares / size))


@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    [
        ("sdirk2", 1e-2),
        ("sdirk2", 1e-3),
        ("sdirk3", 1e-3),
        ("sdirk4", 1e-3),
        ("midpoint", 1e-3),
        ("backward-euler", 1e-2),
    ],
)
def test_the_error_is_within_the_tolerance(scheme, tolerance):
    model = starting(cf.Window(0, 1, 8, scheme, tolerance=tolerance))
    assert error(model) <= tolerance
    steps = np.diff(model.times)
    assert steps.max() / steps.min() >= 16
    assert "deletions share them" in model.notes[0]


def test_a_fast_start_takes_a_third_of_the_solves_of_equal_steps():
    model = starting(cf.Window(0, 1, 8, "sdirk2", tolerance=1e-3))
    solves, found = model.factual.record.solves, error(model)
    # Three times as many solves in equal steps err by more.
    equal = starting(cf.Window(0, 1, 3 * solves // 2, "sdirk2"))
    assert equal.factual.record.solves >= 3 * solves - 1
    assert error(equal) > found
    mine, theirs = model.deletions(["lap", "u"]), equal.deletions(["lap", "u"])
    epsilon = 0.05 * model.factual.norm()
    for name in ("lap", "u"):
        assert (mine[name].score > epsilon) == (theirs[name].score > epsilon)
        assert mine[name].score == pytest.approx(theirs[name].score, rel=5e-3)


def test_what_follows_shares_the_chosen_steps():
    model = starting(
        cf.Window(0, 0.2, 4, "sdirk2", tolerance=1e-2), coefficients={**COEFFICIENTS, "u_x": 0.3}
    )
    assert (
        model.factual.times.tolist() == model.times.tolist() == list(model.experiment.time.levels)
    )
    again = model.solve()
    assert np.array(again.states) == pytest.approx(np.array(model.factual.states), abs=1e-10)
    assert model.deletions(["u"], accuracy=1e-6)["u"].score == pytest.approx(
        model.deletions(["u"])["u"].score, rel=1e-5
    )
    assert cf.taylor_linearised(model, "u").order == pytest.approx(2, abs=0.1)
    assert cf.taylor_observable(model, cf.Integral(u, at="end"), "u_x").order == pytest.approx(
        2, abs=0.1
    )
    assert model.with_coefficients(COEFFICIENTS).times.tolist() == model.times.tolist()
    # A model of its own for the same levels has the same stages.
    own = starting(model.experiment.time, coefficients={**COEFFICIENTS, "u_x": 0.3})
    pairs = zip(own.factual.stages, model.factual.stages, strict=True)
    for (n, i, values, time), (m, j, others, moment) in pairs:
        assert (n, i, time) == (m, j, pytest.approx(moment))
        assert values[1] == pytest.approx(others[1], abs=1e-6)


def test_jumps_are_hit_by_chosen_steps():
    forcing = sp.Heaviside(t - sp.Rational(3, 10)) * 20 * sp.sin(3 * sp.pi * x)
    for scheme in ("sdirk2", "midpoint"):
        window = cf.Window(0, 1, 4, scheme, tolerance=1e-2)
        model = starting(window, forcing={u: forcing})
        level = model.experiment.time.level_at(0.3)
        assert level is not None
        # The new forcing makes a start of its own, with shorter steps than those long after it.
        steps = np.diff(model.times)
        assert steps[level] < steps.max()


def test_waves_choose_steps():
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u)})
    errors = []
    for tolerance in (3e-2, 3e-3):
        experiment = cf.Experiment(
            mesh=create_unit_interval(MPI.COMM_SELF, 6),
            elements={u: ("Lagrange", 4)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(sp.pi * x), dt(u): 0},
            time=cf.Window(0, 2, 4, tolerance=tolerance),
        )
        end = cf.Model(library, {"lap": 1.0}, experiment).factual.function(u)
        nodes = end.function_space.tabulate_dof_coordinates()[:, 0]
        errors.append(np.abs(end.x.array - np.sin(np.pi * nodes)).max())
        assert errors[-1] <= tolerance
    assert errors[1] < errors[0] / 5


def test_newton_that_fails_makes_the_step_shorter():
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "growth": sp.exp(u)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: 4 * x * (1 - x)},
        time=cf.Window(0, 0.1, 1, "sdirk2", tolerance=1e-2),
    )
    model = cf.Model(library, {"lap": 1.0, "growth": 3.0}, experiment)
    assert len(model.times) > 2
    assert np.isfinite(model.factual.norm())


def body_of_ranks(comm):
    window = cf.Window(0, 1, 8, "sdirk2", tolerance=1e-3)
    mine, alone = (starting(window, each) for each in (comm, MPI.COMM_SELF))
    assert mine.times.tolist() == alone.times.tolist()
    scores = [model.deletions(["u"], accuracy=1e-6)["u"].score for model in (mine, alone)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-6)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_chosen_steps_are_the_same_on_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_ranks)


@pytest.mark.parametrize("tolerance", [0, -1e-3, 2.0, True, "small"])
def test_tolerances_that_say_nothing_are_refused(tolerance):
    with pytest.raises(cf.InputError, match="tolerance"):
        cf.Window(0, 1, 4, tolerance=tolerance)


def test_a_model_alone_has_no_epsilon():
    with pytest.raises(cf.InputError, match="give a model a number"):
        starting(cf.Window(0, 1, 4, tolerance="auto"))


def test_initial_values_that_do_not_fit_are_said():
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 64),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: 1},
        time=cf.Window(0, 1, 1, "backward-euler", tolerance=1e-7),
    )
    with pytest.raises(cf.SolveError, match="short enough for the tolerance"):
        cf.Model(HEAT, {"lap": 1.0}, experiment)
