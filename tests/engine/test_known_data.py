"""Known fields without a formula in initial and boundary values are what plain data are there."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x, y

u, v, k = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.Known("k")
w = cf.Known("w", dim=2)
SHAPE = 1 + x * (1 - y)


def halves(comm=MPI.COMM_SELF, n=4):
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(comm, n, n),
        cells={"left": lambda p: p[0] < 0.5 + 1e-9, "right": lambda p: p[0] > 0.5 - 1e-9},
        facets={"top": lambda p: p[1] > 1 - 1e-9, "top_left": lambda p: p[0] < 1e-9},
    )


def function_on(domain, value, degree=1, shape=None):
    element = ("Lagrange", degree) if shape is None else ("Lagrange", degree, shape)
    function = fem.Function(fem.functionspace(domain.mesh, element))
    function.interpolate(value)
    return function


def measured(field=k, times=(0.0, 0.05, 0.2)):
    axis, times = np.linspace(0, 1, 9), np.array(times)
    grid = np.meshgrid(axis, axis, times, indexing="ij")
    values = (1 + grid[0] * (1 - grid[1])) * (1 + 3 * grid[2])
    name = cf.ScalarField(field.name)
    return cf.Dataset.from_arrays({"x": axis, "y": axis, "t": times}, {name: values})


def states(domain, value, start, known, order=1, degree=1, element="Lagrange", **more):
    unknown = v if isinstance(value, tuple) or value is w else u
    rate = dt(unknown) if order == 1 else dt(dt(unknown))
    initial = {unknown: start} | ({} if order == 1 else {dt(unknown): more.pop("rate", 0)})
    experiment = cf.Experiment(
        mesh=domain,
        elements={unknown: (element, degree)},
        initial=initial,
        boundary=[cf.Dirichlet(unknown, value)],
        time=cf.Window(0, 0.1, steps=4),
        known=known,
        **more,
    )
    library = cf.Library(anchor=rate, terms={"lap": lap(unknown)})
    with cf.Model(library, {"lap": 0.3}, experiment) as model:
        return np.array(model.solve().states)


@pytest.mark.parametrize(("degree", "element"), [(1, "Lagrange"), (3, "Lagrange")])
def test_a_function_is_what_it_is_by_itself(degree, element):
    domain = halves()
    function = function_on(domain, lambda p: 1 + p[0] * (1 - p[1]), 2)
    found = states(domain, 2 * k + y, k**2, {k: function}, degree=degree)
    expected = states(domain, 2 * SHAPE + y, sp.expand(SHAPE**2), {}, degree=degree)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("way", ["measured", "called", "by subdomain"])
def test_values_that_move_bring_their_rates(order, way):
    """With second order in time the rates of boundary values enter as well."""
    domain = halves()
    moving = SHAPE * (1 + 3 * t)
    known = {
        "measured": measured(),
        "called": lambda p, s: (1 + p[0] * (1 - p[1])) * (1 + 3 * s),
        "by subdomain": {"left": moving, "right": moving + 0 * x},
    }[way]
    given = {"rate": sp.expand(3 * SHAPE)} if order == 2 else {}
    found = states(domain, k * (1 + t), SHAPE, {k: known}, order=order, **given)
    expected = states(domain, sp.expand(moving * (1 + t)), SHAPE, {}, order=order, **given)
    assert found == pytest.approx(expected, abs=1e-9)


def test_vectors_on_face_and_edge_elements():
    domain = halves()
    known = {w: function_on(domain, lambda p: np.array([p[1], -2 * p[0]]), 1, (2,))}
    for element in ("RT", "N1curl"):
        term = cf.grad(cf.div(v)) if element == "RT" else -cf.curl(cf.curl(v))
        found = []
        for value in (w, (y, -2 * x)):
            experiment = cf.Experiment(
                mesh=domain,
                elements={v: (element, 2)},
                initial={v: value},
                boundary=[cf.Dirichlet(v, value)],
                time=cf.Window(0, 0.1, steps=2),
                known=known,
            )
            with cf.Model(
                cf.Library(dt(v), {"term": term, "v": v}), {"term": 1.0, "v": -1.0}, experiment
            ) as model:
                found.append(np.array(model.solve().states))
        assert found[0] == pytest.approx(found[1], abs=1e-11), element


def test_a_jump_is_projected_at_the_start_and_halved_on_the_boundary():
    domain = halves()
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        initial={u: k},
        boundary=[cf.Dirichlet(u, k, on="top"), cf.Neumann(u, 0, on=("top_left", "untagged"))],
        time=cf.Window(0, 0.1, steps=2),
        known={k: {"left": 3, "right": 1}},
    )
    with cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.3}, experiment) as model:
        solution = model.solve()
        space = model.spaces.own(u)[0]
        points = space.tabulate_dof_coordinates()
        at_top = np.abs(points[:, 1] - 1) < 1e-9
        side = np.sign(0.5 - points[:, 0].round(9))
        for state in solution.states:
            assert state[at_top] == pytest.approx((2 + side)[at_top], abs=1e-12)
        free = cf.Experiment(**{**vars(experiment), "boundary": [cf.Neumann(u, 0)]})
    with cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.3}, free) as model:
        function = fem.Function(model.spaces.own(u)[0])
        function.x.array[:] = model.solve().states[0]
        mass = fem.assemble_scalar(fem.form(function * ufl.dx))
    assert mass == pytest.approx(2.0, abs=1e-12)


def test_a_part_takes_the_values_of_its_own_cells():
    """The left wall ends where the right half does not begin; the top belongs to both."""
    domain = cf.mesh.named(
        dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
        cells={"low": lambda p: p[1] < 0.5 + 1e-9, "high": lambda p: p[1] > 0.5 - 1e-9},
        facets={"low_wall": lambda p: (p[0] < 1e-9) & (p[1] < 0.5 + 1e-9)},
    )
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, k, on="low_wall"), cf.Neumann(u, 0, on="untagged")],
        forcing={u: 1},
        known={k: {"low": 3, "high": 100}},
    )
    with cf.Model(cf.Library(terms={"lap": lap(u)}, unknown=u), {"lap": 1.0}, experiment) as model:
        state = model.solve().states[0]
        points = model.spaces.own(u)[0].tabulate_dof_coordinates()
    wall = (points[:, 0] < 1e-9) & (points[:, 1] < 0.5 + 1e-9)
    assert state[wall] == pytest.approx(3.0, abs=1e-12)


def test_a_change_of_initial_and_boundary_values_may_contain_known_fields():
    domain = halves()
    known = {k: function_on(domain, lambda p: 1 + p[0] * (1 - p[1]), 2)}
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        initial={u: 0},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.1, steps=2),
        known=known,
    )
    with cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.3}, experiment) as model:
        found, plain = (
            model.solve(
                cf.start({u: value}) & cf.boundary(cf.Dirichlet(u, value)) & cf.force({u: value})
            ).states
            for value in (k, SHAPE)
        )
        with pytest.raises(cf.InputError, match="the known field q has no values"):
            model.solve(cf.start({u: cf.Known("q")}))
    assert np.array(found) == pytest.approx(np.array(plain), abs=1e-12)


def compared(comm):
    domain = halves(comm, 6)
    function = function_on(domain, lambda p: 1 + p[0] * (1 - p[1]), 2)
    for known in ({k: function}, {k: measured()}):
        norms = []
        for value, start in ((k, k), (SHAPE if k in known and known[k] is function else None,) * 2):
            if value is None:
                value, start = SHAPE * (1 + 3 * t), SHAPE
            experiment = cf.Experiment(
                mesh=domain,
                elements={u: ("Lagrange", 2)},
                initial={u: start},
                boundary=[cf.Dirichlet(u, value)],
                time=cf.Window(0, 0.1, steps=2),
                known=known,
            )
            with cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.3}, experiment) as model:
                norms.append(model.solve().norm())
        assert norms[0] == pytest.approx(norms[1], rel=1e-10)
    steps = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        initial={u: k},
        boundary=[cf.Dirichlet(u, k)],
        time=cf.Window(0, 0.1, steps=2),
        known={k: {"left": 3, "right": 1}},
    )
    with cf.Model(cf.Library(dt(u), {"lap": lap(u)}), {"lap": 0.3}, steps) as model:
        norm = model.solve().norm()
    if comm.rank == 0:
        print(f"norm {norm:.12e}")


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_known_data_on_ranks(on_ranks, ranks, capsys):
    compared(MPI.COMM_SELF)
    alone = float(capsys.readouterr().out.split("norm")[1])
    found = on_ranks(ranks, compared)
    text = found if isinstance(found, str) else found.stdout
    assert float(text.split("norm")[1].split()[0]) == pytest.approx(alone, rel=1e-10)


def held_at_one_end(comm):
    # Most ranks have no cell at that end.
    mesh = dolfinx_mesh.create_rectangle(comm, [(0, 0), (9, 1)], (18, 2))
    strip = cf.mesh.named(mesh, facets={"end": lambda p: p[0] < 1e-9})
    experiment = cf.Experiment(
        mesh=strip,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, k, on="end"), cf.Neumann(u, 0, on="untagged")],
        known={k: function_on(strip, lambda p: 1 + p[0] * (1 - p[1]), 2)},
    )
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    with cf.Model(library, {"lap": 1.0, "u": -1.0}, experiment) as model:
        assert model.solve().norm() > 0.1


@pytest.mark.mpi
def test_ranks_without_a_cell_at_a_boundary_do_not_wait_for_the_others(on_ranks):
    on_ranks(3, held_at_one_end)
