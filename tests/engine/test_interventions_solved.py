"""Interventions: a changed problem equals the same problem written down from the start, and a
sweep equals separate solves.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import fem
from engine_support import unit

import cffem as cf
from cffem import t, x, y

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
LIBRARY = cf.Library(
    anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "cubic": u**3, "lap": cf.lap(u)}
)
COEFFICIENTS = {"u": 0.6, "u_x": -1.0, "cubic": -0.5, "lap": 0.2}
START = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
SIDES = ("left", "right", "bottom", "top")


def experiment(**changes):
    """The factual experiment, with some entries replaced."""
    given = {
        "mesh": DOMAIN,
        "elements": {u: ("Lagrange", 1)},
        "initial": {u: START},
        "boundary": [
            cf.Dirichlet(u, 0, on=("left", "right")),
            cf.Neumann(u, y, on=("bottom", "top")),
        ],
        "forcing": {u: 1 + x * t},
        "time": cf.Window(0, 0.5, steps=5),
    }
    return cf.Experiment(**{**given, **changes})


DOMAIN = unit("triangle", 5)


@pytest.fixture(scope="module")
def model():
    return cf.Model(LIBRARY, COEFFICIENTS, experiment())


def assert_same(solution, coefficients=None, **changes):
    """A solution of a changed problem and of one that was written down so are equal to
    round-off.
    """
    other = cf.Model(LIBRARY, coefficients or COEFFICIENTS, experiment(**changes))
    direct = other.solve()
    for a, b in zip(solution.states, direct.states, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(b).max())
    other.destroy()


def test_changed_coefficients_give_the_model_with_those_coefficients(model):
    assert_same(model.solve(cf.delete("u_x")), {**COEFFICIENTS, "u_x": 0.0})
    assert_same(model.solve(cf.delete("cubic")), {**COEFFICIENTS, "cubic": 0.0})
    assert_same(
        model.solve(cf.delete("u", "lap", conditions="kept")),
        {**COEFFICIENTS, "u": 0.0, "lap": 0.0},
    )
    assert_same(model.solve(cf.scale("lap", 0.25)), {**COEFFICIENTS, "lap": 0.05})
    assert_same(
        model.solve([cf.set("u", -2.0), cf.scale("cubic", 0.5)]),
        {**COEFFICIENTS, "u": -2.0, "cubic": -0.25},
    )
    assert_same(model.solve(), COEFFICIENTS)


def test_deleting_the_only_nonlinear_term_needs_no_newton(model):
    assert model.solve(cf.delete("cubic")).record.newton_steps == 0
    record = model.solve().record
    assert record.solves >= record.newton_steps > 0, "every Newton step solves a linear system"


def test_scaling_runs_from_the_factual_to_the_deleted_problem(model):
    factual, deleted = model.solve(), model.solve(cf.delete("lap", conditions="kept"))
    assert factual.distance(model.solve(cf.scale("lap", 1.0))) < 1e-13
    assert deleted.distance(model.solve(cf.scale("lap", 0.0))) < 1e-13
    distances = [
        factual.distance(model.solve(cf.scale("lap", 1 - rho))) for rho in (0.25, 0.5, 0.75, 1.0)
    ]
    assert distances == sorted(distances)
    assert distances[0] > 0


def test_a_changed_force_gives_the_model_with_that_force(model):
    assert_same(model.solve(cf.force({u: sp.cos(x) * t})), forcing={u: sp.cos(x) * t})
    assert_same(model.solve(cf.force({u: 0})), forcing={})


def test_a_changed_start_gives_the_model_with_that_start(model):
    assert_same(model.solve(cf.start({u: x * (1 - x)})), initial={u: x * (1 - x)})


@pytest.mark.parametrize(
    ("change", "boundary"),
    [
        # other values on one of the parts that a condition names; the other part keeps its own
        (
            [cf.Dirichlet(u, t, on="left")],
            [
                cf.Dirichlet(u, t, on="left"),
                cf.Dirichlet(u, 0, on="right"),
                cf.Neumann(u, y, on=("bottom", "top")),
            ],
        ),
        # another kind of condition
        (
            [cf.Dirichlet(u, x, on="top")],
            [
                cf.Dirichlet(u, 0, on=("left", "right")),
                cf.Neumann(u, y, on="bottom"),
                cf.Dirichlet(u, x, on="top"),
            ],
        ),
        # other natural data, and natural in the place of essential ones
        (
            [cf.Neumann(u, x * t, on="top")],
            [
                cf.Dirichlet(u, 0, on=("left", "right")),
                cf.Neumann(u, y, on="bottom"),
                cf.Neumann(u, x * t, on="top"),
            ],
        ),
        (
            [cf.Robin(u, 1, on="right", coefficient=2)],
            [
                cf.Dirichlet(u, 0, on="left"),
                cf.Neumann(u, y, on=("bottom", "top")),
                cf.Robin(u, 1, on="right", coefficient=2),
            ],
        ),
        ([cf.Neumann(u, 0)], [cf.Neumann(u, 0)]),
    ],
)
def test_changed_boundary_data_give_the_model_with_those_data(model, change, boundary):
    assert_same(model.solve(cf.boundary(*change)), boundary=boundary)
    assert_same(model.solve())


def test_joint_changes_give_the_model_with_all_of_them(model):
    changed = (
        cf.delete("u_x")
        & cf.scale("lap", 2.0)
        & cf.force({u: y})
        & cf.start({u: x})
        & cf.boundary(cf.Dirichlet(u, y, on="left"))
    )
    assert_same(
        model.solve(changed),
        {**COEFFICIENTS, "u_x": 0.0, "lap": 0.4},
        forcing={u: y},
        initial={u: x},
        boundary=[
            cf.Dirichlet(u, 0, on="right"),
            cf.Dirichlet(u, y, on="left"),
            cf.Neumann(u, y, on=("bottom", "top")),
        ],
    )


def test_a_sweep_equals_separate_solves(model):
    sweep = model.deletions()
    assert set(sweep) == set(COEFFICIENTS)
    for norm in ("L2", "H1"):
        sweep = model.deletions(norm=norm)
        for name, found in sweep.items():
            assert found.status == "solved"
            assert found.record.worst_residual < 1e-9
            separate = model.solve().distance(model.solve(cf.delete(name)), norm)
            alone = cf.Model(LIBRARY, {**COEFFICIENTS, name: 0.0}, experiment()).solve()
            differences = [a - b for a, b in zip(model.solve().states, alone.states, strict=True)]
            fresh = model.trajectory_norm(differences, model.times, norm)
            assert found.score == pytest.approx(separate, rel=1e-11)
            if name == "lap":  # whose deletion releases values, which the model by itself keeps
                separate = model.solve().distance(
                    model.solve(cf.delete(name, conditions="kept")), norm
                )
            assert separate == pytest.approx(fresh, rel=1e-10)


def test_a_linear_sweep_assembles_and_compiles_nothing_new(monkeypatch):
    from cffem import _compat

    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u)})
    model = cf.Model(library, {"u": 0.6, "u_x": -1.0, "lap": 0.2}, experiment())
    assert model.factual.norm() > 0
    calls = []
    for name in ("form", "assemble_matrix"):
        original = getattr(_compat, name)
        monkeypatch.setattr(
            _compat, name, lambda *a, _f=original, _n=name, **k: (calls.append(_n), _f(*a, **k))[1]
        )
    model.deletions()
    assert calls == []


def test_systems_are_deleted_from_by_full_name():
    system = cf.System(
        {
            "u": cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "w": w}),
            "w": cf.Library(anchor=cf.dt(w), terms={"lap": cf.lap(w), "u": u}),
        }
    )
    coefficients = {"u/lap": 0.2, "u/w": 0.3, "w/lap": 0.1, "w/u": -0.5}
    given = experiment(
        elements={u: ("Lagrange", 1), w: ("Lagrange", 1)},
        initial={u: START, w: x * START},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(w, 0)],
        forcing={},
    )
    model = cf.Model(system, coefficients, given)
    other = cf.Model(system, {**coefficients, "w/u": 0.0}, given)
    assert np.abs(model.solve(cf.delete("w/u")).states[-1] - other.solve().states[-1]).max() < 1e-14
    alone = model.solve(cf.delete("u/w"))
    # Without w in its equation u is a plain heat problem.
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    heat = cf.Model(
        library, {"lap": 0.2}, experiment(boundary=[cf.Dirichlet(u, 0)], forcing={})
    ).solve()
    assert np.abs(alone.function(u).x.array - heat.function().x.array).max() < 1e-13


def flow(constraint):
    """A decaying flow in a box, with a forcing that has a divergence."""
    library = cf.Library(anchor=cf.dt(v), terms={"lap": cf.lap(v)})
    given = cf.Experiment(
        mesh=DOMAIN,
        elements={v: ("Lagrange", 2)},
        initial={
            v: (
                x**2 * (1 - x) ** 2 * sp.diff(y**2 * (1 - y) ** 2, y),
                -sp.diff(x**2 * (1 - x) ** 2, x) * y**2 * (1 - y) ** 2,
            )
        },
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (x, 0)},
        constraint=constraint,
        time=cf.Window(0, 0.2, steps=4, scheme="sdirk2"),
    )
    return cf.Model(library, {"lap": 0.1}, given)


def test_releasing_the_constraint_keeps_the_initial_data_and_nothing_else_of_it():
    model = flow(cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}))
    constrained, released = model.solve(), model.solve(cf.release())
    np.testing.assert_array_equal(constrained.states[0], released.states[0])
    assert np.abs(released.multiplier().x.array).max() == 0.0
    # f = (x, 0) is a gradient: the constrained flow does not feel it, the released one is driven by
    # it.
    assert constrained.distance(model.solve(cf.force({v: 0}))) < 1e-3 * constrained.norm()
    assert constrained.distance(released) > 0.1 * constrained.norm()
    free = flow(None).solve(cf.start({v: constrained.function(v, 0)}))
    for k in range(len(free.states)):
        found, same_space = (
            released.function(v, k),
            fem.Function(released.function(v, k).function_space),
        )
        same_space.interpolate(free.function(v, k))
        np.testing.assert_allclose(found.x.array, same_space.x.array, atol=1e-13)
    with pytest.raises(cf.InputError, match="no constraint"):
        flow(None).solve(cf.release())
