"""Windows whose steps differ: solutions as a plain loop makes them, and everything that integrates
over time on the same levels.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.mesh import create_unit_interval
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x
from cffem.bounds.levels.coarser import coarser_window
from cffem.symbols.problem.schemes import SCHEMES

u = cf.ScalarField("u")
LEVELS = [0.0, 0.01, 0.03, 0.1, 0.15, 0.35, 0.4]
FIRST = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u})
NAMES = ("backward-euler", "midpoint", "sdirk2", "sdirk3", "sdirk4")


def heat(window: cf.Window, **more) -> cf.Model:
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: x * (1 - x)},
        time=window,
        **more,
    )
    return cf.Model(FIRST, {"lap": 0.4, "u": 0.7}, experiment)


def plain_heat(model: cf.Model, name: str, coefficients) -> np.ndarray:
    """All levels by a loop over dense matrices of DOLFINx."""
    space = model.spaces.space
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    grad = ufl.inner(ufl.grad(trial), ufl.grad(test)) * ufl.dx
    made = [fem.assemble_matrix(fem.form(f)) for f in (trial * test * ufl.dx, grad)]
    mass, stiffness = (matrix.to_dense() for matrix in made)
    operator = coefficients["lap"] * stiffness - coefficients["u"] * mass
    nodes = space.tabulate_dof_coordinates()[:, 0]
    inside = np.flatnonzero((nodes > 1e-9) & (nodes < 1 - 1e-9))
    mass, operator = mass[np.ix_(inside, inside)], operator[np.ix_(inside, inside)]
    scheme, state = SCHEMES[name], (nodes * (1 - nodes))[inside]
    result = np.zeros((len(LEVELS), len(nodes)))
    result[0, inside] = state
    for n, step in enumerate(np.diff(LEVELS), start=1):
        rates: list[np.ndarray] = []
        for row in scheme.a:
            base = state + step * sum((a * r for a, r in zip(row, rates, strict=False)), 0 * state)
            rates.append(np.linalg.solve(mass + step * row[-1] * operator, -operator @ base))
        state = state + step * sum(b * r for b, r in zip(scheme.b, rates, strict=True))
        result[n, inside] = state
    return result


@pytest.mark.parametrize("name", NAMES)
def test_steps_that_differ_are_those_of_a_plain_loop(name):
    model = heat(cf.Window.through(LEVELS, name))
    plain = plain_heat(model, name, {"lap": 0.4, "u": 0.7})
    assert np.array(model.factual.states) == pytest.approx(plain, abs=1e-12)
    without = plain_heat(model, name, {"lap": 0.4, "u": 0.0})
    gaps = plain - without
    squares = [model.norm().inner(a, b) for a, b in zip(gaps, gaps, strict=True)]
    crossed = [model.norm().inner(a, b) for a, b in zip(gaps[1:], gaps[:-1], strict=True)]
    total = sum(
        step / 3 * (squares[n] + crossed[n] + squares[n + 1])
        for n, step in enumerate(np.diff(LEVELS))
    )
    exact = float(np.sqrt(total))
    assert model.deletions(["u"])["u"].score == pytest.approx(exact, rel=1e-10)
    cheap = model.deletions(["u"], accuracy=1e-6)["u"]
    assert cheap.strategy == "difference"
    assert cheap.score == pytest.approx(exact, rel=1e-5)


def nonlinear(scheme: str) -> cf.Model:
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "cubic": -(u**3), "u_x": u.diff(x)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, t * x)],
        initial={u: 3 * x * (1 - x)},
        time=cf.Window.through(LEVELS, scheme),
    )
    return cf.Model(library, {"lap": 0.3, "cubic": 1.0, "u_x": 0.4}, experiment)


@pytest.mark.parametrize("scheme", ["midpoint", "sdirk3"])
def test_derivatives_and_lock_step_follow_steps_that_differ(scheme):
    model = nonlinear(scheme)
    assert cf.taylor_linearised(model, "cubic").order == pytest.approx(2, abs=0.1)
    for observable in (cf.Integral(u, at="window"), cf.Integral(u, at=0.2)):
        assert cf.taylor_observable(model, observable, "lap").order == pytest.approx(2, abs=0.1)
    exact, cheap = model.deletions(), model.deletions(accuracy=1e-5)
    assert cheap["cubic"].strategy == "lock-step"
    for name, deletion in exact.items():
        assert cheap[name].score == pytest.approx(deletion.score, rel=1e-4)


def test_waves_with_steps_that_differ():
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "drag": -dt(u)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 3)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x), dt(u): 0},
        time=cf.Window.through(np.linspace(0, 1, 41) ** 1.5),
    )
    model = cf.Model(library, {"lap": 1.0, "drag": 0.1}, experiment)
    exact, cheap = model.deletions(["drag"]), model.deletions(["drag"], accuracy=1e-6)
    assert cheap["drag"].score == pytest.approx(exact["drag"].score, rel=1e-5)
    end = model.solve(cf.delete("drag")).function(u)
    nodes = end.function_space.tabulate_dof_coordinates()[:, 0]
    assert np.abs(end.x.array + np.sin(np.pi * nodes)).max() < 2e-3


def test_windows_are_divided_and_coarsened_as_their_steps_vary():
    window = cf.Window.through([0, 1, 2, 4, 6, 10, 14])
    assert window.divided(2).times.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 14]
    assert coarser_window(window, 2).times.tolist() == [0, 2, 6, 14]
    assert not window.uniform
    assert cf.Window.through(np.linspace(0, 1, 8)).uniform


@pytest.mark.parametrize("levels", [[0], [0, 0], [0, 1, 0.5], [0, np.inf], "ab", [0, None]])
def test_levels_that_do_not_increase_are_refused(levels):
    with pytest.raises(cf.InputError):
        cf.Window.through(levels)


def test_a_number_of_steps_does_not_silently_replace_levels():
    with pytest.raises(cf.InputError, match="one more than steps"):
        cf.Window(0, 1, steps=4, levels=(0, 0.5, 1))


@pytest.mark.parametrize(("scheme", "order"), [("midpoint", 2), ("sdirk2", 2), ("sdirk4", 4)])
def test_a_jump_in_time_is_hit_and_costs_no_order(scheme, order):
    # u = a(t) sin πx with a' = λa + H(t − 0.37) cos t.
    start, rate = 0.37, -0.1 * np.pi**2
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u)})
    forcing = sp.Piecewise((sp.cos(t), t >= start), (0, True)) * sp.sin(sp.pi * x)

    def particular(s: float) -> float:
        return (np.sin(s) - rate * np.cos(s)) / (1 + rate**2)

    exact = np.exp(rate * start) - particular(start)
    exact = exact * np.exp(rate * (1 - start)) + particular(1.0)
    errors = []
    for steps in (8, 16):
        experiment = cf.Experiment(
            mesh=create_unit_interval(MPI.COMM_SELF, 12),
            elements={u: ("Lagrange", 5)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(sp.pi * x)},
            forcing={u: forcing},
            time=cf.Window(0, 1, steps, scheme),
        )
        model = cf.Model(library, {"lap": 0.1}, experiment)
        assert start in model.times
        assert "t = 0.37" in model.notes[0]
        errors.append(abs(model.solve().states[-1].max() - exact))
    assert np.log2(errors[0] / errors[1]) > order - 0.2


def test_boundary_values_that_jump_are_seen_from_both_sides():
    jump = sp.Heaviside(t - sp.Rational(1, 3))
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, jump)],
        initial={u: 0},
        time=cf.Window(0, 1, steps=4, scheme="sdirk2"),
    )
    model = cf.Model(cf.Library(anchor=dt(u), terms={"lap": lap(u)}), {"lap": 1.0}, experiment)
    sizes = [np.abs(state).max() for state in model.factual.states]
    hit = model.experiment.time.level_at(1 / 3)
    assert sizes[:hit] == [0.0] * hit
    # At the jump itself the boundary has its value after it, and the inside has not moved.
    assert sorted(model.factual.states[hit].tolist()) == pytest.approx([0, 0, 0, 1, 1], abs=1e-12)


@pytest.mark.parametrize(
    ("expr", "times"),
    [
        (sp.Heaviside(t - sp.Rational(1, 4)), [0.25]),
        (sp.Piecewise((x, sp.And(t > 0.2, t < 0.6)), (0, True)), [0.2, 0.6]),
        (sp.Abs(sp.sin(2 * sp.pi * t)), [0.5]),
        (sp.Max(t, 1 - t), [0.5]),
        (sp.floor(3 * t), [1 / 3, 2 / 3]),
        (sp.Heaviside(x - t), []),
        (sp.Heaviside(t - 5), []),
    ],
)
def test_where_data_jump(expr, times):
    model = heat(cf.Window(0, 1, steps=7), forcing={u: expr})
    assert model.jumps == pytest.approx(times, abs=1e-12)
    assert all(model.experiment.time.level_at(time) is not None for time in times)
