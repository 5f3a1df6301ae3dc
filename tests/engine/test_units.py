"""Units do not matter: lengths, times and fields from 1e-9 to 1e9 give the same relative
scores and the same failures.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, x, y, z
from cffem.engine.solve.scaling import balancing_factors

u, v, p = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.ScalarField("p")
theta, E = cf.ScalarField("theta"), cf.VectorField("E", dim=3)
# Lengths, times and fields, in units of each other.
UNITS = [(1e-9, 1.0, 1.0), (1.0, 1e9, 1e-9), (1e9, 1e-9, 1e9), (1e-6, 1e-14, 1e3)]


def square(length, n=4):
    return mesh.create_rectangle(MPI.COMM_SELF, [[0, 0], [length, length]], [n, n])


def bump(length):
    return sp.sin(sp.pi * x / length) * sp.sin(sp.pi * y / length)


def reaction(length, time, size):
    """A nonlinear transient problem."""
    library = cf.Library(
        anchor=dt(u), terms={"adv": -u.diff(x), "lap": cf.lap(u), "u": -u, "sq": u**2}
    )
    experiment = cf.Experiment(
        mesh=square(length),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: size * bump(length)},
        time=cf.Window(0, time, steps=3),
    )
    coefficients = {
        "adv": 0.3 * length / time,
        "lap": 0.02 * length**2 / time,
        "u": 0.2 / time,
        "sq": 0.5 / (time * size),
    }
    return cf.Model(library, coefficients, experiment)


def steady_reaction(length, time, size):
    """A nonlinear steady problem, started from zero."""
    library = cf.Library(terms={"lap": cf.lap(u), "cube": -(u**3), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(length),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: size / time},
    )
    return cf.Model(
        library,
        {"lap": 0.1 * length**2 / time, "cube": 2 / (time * size**2), "u": 0.2 / time},
        experiment,
    )


def flow(length, time, size):
    """Navier–Stokes in a closed box: the pressure has units of its own and floats."""
    library = cf.Library(
        anchor=dt(v), terms={"visc": cf.lap(v), "conv": -cf.dot(cf.grad(v), v), "drag": -v}
    )
    experiment = cf.Experiment(
        mesh=square(length),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, 0)],
        initial={
            v: (
                size * bump(length) * sp.cos(sp.pi * y / length),
                -size * bump(length) * sp.cos(sp.pi * x / length),
            )
        },
        time=cf.Window(0, time, steps=2),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Model(
        library,
        {"visc": 0.05 * length**2 / time, "conv": 0.5 * length / (time * size), "drag": 0.3 / time},
        experiment,
    )


def cavity(length, time, size):
    """Maxwell's equations with their constraint, and a term that vanishes under it: two
    auxiliary fields.
    """
    library = cf.Library(
        anchor=dt(dt(E)),
        terms={"cc": -cf.curl(cf.curl(E)), "gd": cf.grad(cf.div(E)), "damp": -dt(E)},
    )
    experiment = cf.Experiment(
        mesh=mesh.create_box(MPI.COMM_SELF, [[0, 0, 0], [length] * 3], [2, 2, 2]),
        elements={E: ("N1curl", 1)},
        initial={
            E: (size * sp.sin(sp.pi * y / length) * sp.sin(sp.pi * z / length), 0, 0),
            dt(E): (0, 0, 0),
        },
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 0.5 * time, steps=3),
        constraint=cf.DivergenceFree(E),
    )
    return cf.Model(
        library,
        {"cc": (length / time) ** 2, "gd": 0.7 * (length / time) ** 2, "damp": 0.1 / time},
        experiment,
    )


def warm_plate(length, time, size):
    """Two coupled fields of different size, one equation nonlinear; the temperature has a
    unit of its own.
    """
    kelvin = 1e4 * size
    library = cf.System(
        {
            v: cf.Library(anchor=dt(v), terms={"el": cf.lap(v), "exp": -cf.grad(theta)}, unknown=v),
            theta: cf.Library(
                anchor=dt(theta),
                terms={"heat": cf.lap(theta), "work": -cf.div(v), "sq": -(theta**2)},
                unknown=theta,
            ),
        }
    )
    experiment = cf.Experiment(
        mesh=square(length, 3),
        elements={v: ("Lagrange", 2), theta: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(v, 0), cf.Dirichlet(theta, 0)],
        initial={v: (0, 0), theta: kelvin * bump(length)},
        time=cf.Window(0, time, steps=2),
    )
    diffusion = 0.1 * length**2 / time
    coupling = {
        "v/exp": length * size / (kelvin * time),
        "theta/work": 0.2 * kelvin * length / (size * time),
    }
    return cf.Model(
        library,
        {"v/el": diffusion, "theta/heat": diffusion, "theta/sq": 0.5 / (kelvin * time), **coupling},
        experiment,
    )


def scores(make, units, **asked):
    with make(*units) as model:
        whole = model.factual.norm()
        return {
            name: d.score / whole if d.status == "solved" else d.cause
            for name, d in model.deletions(**asked).items()
        }


@pytest.mark.parametrize("make", [reaction, steady_reaction, flow, cavity, warm_plate])
def test_scores_are_the_same_in_all_units(make):
    expected = scores(make, (1.0, 1.0, 1.0))
    assert all(isinstance(value, float) for value in expected.values())
    for units in UNITS:
        found = scores(make, units)
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-12), units


def test_scores_to_some_accuracy_are_the_same_in_all_units():
    expected = scores(reaction, (1.0, 1.0, 1.0))
    for units in UNITS:
        assert scores(reaction, units, accuracy=1e-4) == pytest.approx(expected, rel=1e-3), units


def drifting(length, options):
    """Steady, not symmetric without its Laplacian; rows of the identity say nothing about
    that, however small the others are.
    """
    library = cf.Library(terms={"lap": cf.lap(u), "adv": -u.diff(x), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(length),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1.0},
    )
    return cf.Model(
        library, {"lap": 0.1 * length**2, "adv": 3.0 * length, "u": 0.2}, experiment, options
    )


def closed_box(length, options):
    """Stokes in a closed box."""
    library = cf.Library(terms={"visc": cf.lap(v), "drag": -v}, unknown=v)
    experiment = cf.Experiment(
        mesh=square(length),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, 0)],
        forcing={v: (sp.sin(sp.pi * y / length), x / length)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Model(library, {"visc": 0.1 * length**2, "drag": 0.5}, experiment, options)


@pytest.mark.parametrize(
    ("make", "name", "preset"),
    [(drifting, "u", "amg"), (drifting, "adv", "ilu"), (closed_box, "drag", "stokes")],
)
def test_presets_solve_in_all_units(make, name, preset):
    found = []
    for length in (1.0, 1e-9, 1e9):
        with make(length, {"preset": preset}) as model:
            found.append(model.deletions([name])[name].score / model.factual.norm())
            assert model.factual.record.solver == preset
    assert found == pytest.approx([found[0]] * 3, rel=1e-6)


def ring(length):
    """A cavity with a hole, whose class of fields without divergence holds a harmonic one."""
    field = cf.VectorField("E", dim=2)
    domain = cf.mesh.annulus(MPI.COMM_SELF, 0.4 * length, inner=0.5 * length, outer=length)
    library = cf.Library(
        anchor=dt(dt(field)),
        terms={"cc": -cf.curl(cf.curl(field)), "gd": cf.grad(cf.div(field)), "damp": -dt(field)},
    )
    experiment = cf.Experiment(
        mesh=domain,
        elements={field: ("N1curl", 1)},
        initial={
            field: (y / length * sp.exp(-((x / length) ** 2)), -x / length),
            dt(field): (0, 0),
        },
        boundary=[cf.Tangential(field, 0)],
        time=cf.Window(0, 0.5 * length, steps=3),
        constraint=cf.DivergenceFree(field),
    )
    return cf.Model(library, {"cc": 1.0, "gd": 0.7, "damp": 0.3 / length}, experiment)


def test_a_constrained_ring_of_any_size_has_the_same_scores_nulls_and_bounds():
    found = []
    for length in (1.0, 1e3, 1e-3):
        with ring(length) as model:
            whole = model.factual.norm()
            deletions = model.deletions()
            found.append({name: d.score / whole for name, d in deletions.items()})
            found[-1]["margin"] = cf.certify_deletion(model, "damp").margin / whole
            assert [null.term for null in model.constraint_nulls()] == ["gd"]
    for other in found[1:]:
        assert other == pytest.approx(found[0], rel=1e-8, abs=1e-12)


def test_the_scale_of_blocks_follows_their_units():
    """Rows and columns in other units: the balanced blocks are the same, up to the powers of
    two that factors are.
    """
    blocks = np.array([[1.7e2, 0.2, 0.1], [0.2, 0.0, 0.0], [0.2, 0.0, 6e-3]])
    units = np.array([1e-20, 1e13, 1e4]), np.array([1e9, 1e-17, 1.0])
    balanced = []
    for sizes in (blocks, units[0][:, None] * blocks * units[1]):
        rows, columns, groups = balancing_factors(sizes)
        balanced.append(rows[:, None] * sizes * columns)
        assert groups.tolist() == [0, 0, 0]
    assert balanced[1] == pytest.approx(balanced[0], rel=3.0)
    assert balanced[0].max() <= 8.0
    assert balanced[0][balanced[0] > 0].min() >= 1 / 8


def test_fields_that_are_not_coupled_are_judged_each_by_itself():
    assert balancing_factors(np.diag([1e20, 1e-20]))[2].tolist() == [0, 1]


def test_a_residual_that_is_small_in_its_units_is_not_believed():
    """The start of a problem on a micrometre has a residual of 1e-14, which is all of it."""
    with reaction(1e-6, 1.0, 1.0) as model:
        solution = model.solve()
        moved = np.abs(solution.states[-1] - solution.states[0]).max()
    assert moved > 0.1
    assert solution.record.newton_steps >= 2 * 3
