"""Observations on meshes: values against DOLFINx and closed forms, derivatives by Taylor tests and
adjoints on every kind of element, the same numbers on two and three ranks, refusals in words.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import PROBLEMS, E, problem, u, v
from dolfinx.mesh import create_unit_cube, create_unit_interval, create_unit_square
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.response.adjoint import observable_scores

POINTS = {
    1: [[0.0], [0.31], [0.5], [0.93]],
    2: [[0.21, 0.37], [0.5, 0.5], [0.77, 0.9], [0.1, 0.85]],
    3: [[0.21, 0.37, 0.6], [0.5, 0.45, 0.4], [0.7, 0.9, 0.2]],
}


def field_of(model):
    return model.discretisation.unknowns[0]


def kinds(model):
    """One observation of every kind that fits a model."""
    unknown, dimension = field_of(model), model.discretisation.mesh.geometry.dim
    points, steady = np.array(POINTS[dimension]), model.experiment.time is None
    one = unknown[0] if unknown.shape else unknown
    end = model.times[-1]
    own = None if steady else [0.0, 0.37 * end, 0.5 * end, end]
    found = {
        "points": cf.Sensors(points, [unknown], own, 0.1),
        "component": cf.Sensors(points[1:], [one], noise=0.1),
        "means": cf.Sensors(points, [one], own, noise=0.2, radius=0.15),
        "part": cf.Part("domain", noise=0.3),
        "trace": cf.Trace("boundary", [one], own, noise=0.3),
        "series": cf.Series([cf.Energy(unknown), cf.Average(one * x)], own, noise=0.1),
    }
    if not steady:
        path = np.linspace(points, points[::-1], 5, axis=1)
        times = np.tile(np.linspace(0.1, 0.9, 5) * end, (len(points), 1))
        times[0, 2] = np.nan
        found["moving"] = cf.Sensors(path, [unknown], times, 0.1)
    found["all"] = found["points"] + found["series"]
    return found


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_have_second_order_remainders_and_agree_with_the_adjoint(name):
    model, _ = problem(name)
    term = model.active[0]
    response = model.linearised(term).trajectory
    steps = (0.02, 0.01)
    moved = {0.0: model.factual, **{s: model.solve(cf.scale(term, 1 - s)) for s in steps}}
    for kind, observation in kinds(model).items():
        operator = model.observation(observation)
        slope = operator.derivatives(model.factual, [response])[:, 0]
        assert len(slope) == len(operator) == len(operator.labels)
        test = cf.taylor_test(
            lambda s, o=operator: o.values(moved[s]), slope, steps, np.linalg.norm
        )
        assert test.passed(1.9), (name, kind, test)
        weights = np.cos(np.arange(len(operator)) ** 2.0)
        scores = observable_scores(model.factual, operator.weighted(weights), [term])
        assert -scores.signed[term] == pytest.approx(
            weights @ slope, rel=1e-7, abs=1e-9 * np.linalg.norm(slope)
        ), (name, kind)


ELEMENTS = {
    "P1 interval": (create_unit_interval, (7,), u, ("Lagrange", 1)),
    "P3": (create_unit_square, (3, 4), u, ("Lagrange", 3)),
    "DG": (create_unit_square, (3, 4), u, ("DG", 2)),
    "vector": (create_unit_square, (3, 4), v, ("Lagrange", 2)),
    "RT": (create_unit_square, (3, 4), v, ("RT", 2)),
    "N1curl": (create_unit_cube, (2, 2, 2), E, ("N1curl", 2)),
}


@pytest.mark.parametrize("name", ELEMENTS)
def test_rows_give_what_dolfinx_evaluates_on_any_element(name):
    from dolfinx import fem

    from cffem.engine.assembly.spaces import Spaces, basix_element
    from cffem.engine.response.point_rows import PointCells, rows_at

    make, numbers, unknown, element = ELEMENTS[name]
    mesh = make(MPI.COMM_SELF, *numbers)
    spaces = Spaces(mesh, {unknown: basix_element(mesh, unknown, element)})
    function = fem.Function(spaces.space)
    function.x.array[:] = np.sin(1.0 + np.arange(len(function.x.array)) ** 1.3)
    points = np.random.default_rng(1).random((9, mesh.geometry.dim))
    found = PointCells(mesh, points)
    assert np.all(found.share == 1)
    numbers, cells = found.cells
    expected = function.eval(found.points[numbers], cells).reshape(9, -1)
    for index in range(expected.shape[1]):
        channel = unknown[index] if unknown.shape else unknown
        rows = rows_at(spaces, channel, found.points[numbers], cells, numbers, np.ones(9), 9)
        assert rows @ function.x.array == pytest.approx(expected[np.argsort(numbers), index])


def steady_quadratic(comm=MPI.COMM_SELF, mesh=None, element=("Lagrange", 2)):
    """u = x² + xy, which the elements hold."""
    library = cf.Library(terms={"lap": cf.lap(u), "one": sp.Integer(1)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh or unit("triangle", 4, comm),
        elements={u: element},
        boundary=[cf.Dirichlet(u, x**2 + x * y)],
    )
    return cf.Model(library, {"lap": 1.0, "one": -2.0}, experiment)


def test_points_means_parts_and_traces_of_a_polynomial_are_exact():
    model = steady_quadratic()
    # On a vertex, on a facet, on the boundary, within a cell.
    points = np.array([[0.5, 0.5], [0.5, 0.3], [1.0, 0.4], [0.31, 0.57]])
    exact = points[:, 0] ** 2 + points[:, 0] * points[:, 1]
    values = model.observation(cf.Sensors(points, [u])).values(model.factual)
    assert values == pytest.approx(exact, abs=1e-12)
    inner = points[[0, 3]]
    means = model.observation(cf.Sensors(inner, [u], radius=0.2)).values(model.factual)
    # The weight (1 − r²/R²)² has ⟨(x − x₀)²⟩ = R²/8 in the plane.
    assert means == pytest.approx(exact[[0, 3]] + 0.2**2 / 8, abs=1e-12)
    part = model.observation(cf.Part("domain", noise=0.5))
    whitened = part.noise.whitened(part.values(model.factual))
    square = float(sp.integrate((x**2 + x * y) ** 2, (x, 0, 1), (y, 0, 1)))
    assert np.sum(whitened**2) == pytest.approx(square / 0.25, rel=1e-12)
    trace = model.observation(cf.Trace("right", noise=0.5))
    whitened = trace.noise.whitened(trace.values(model.factual))
    square = float(sp.integrate((1 + y) ** 2, (y, 0, 1)))
    assert np.sum(whitened**2) == pytest.approx(square / 0.25, rel=1e-12)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral", "tetrahedron", "hexahedron"])
def test_traces_on_all_cells_have_the_size_of_the_wall(cell):
    model = steady_quadratic(mesh=unit(cell, 2))
    trace = model.observation(cf.Trace("boundary", noise=1.0))
    three = cell in ("tetrahedron", "hexahedron")
    space = [cf.x, cf.y, cf.z][: 3 if three else 2]
    total, area = 0, 2 * len(space)
    for axis in space:
        for end in (0, 1):
            face = ((x**2 + x * y) ** 2).subs(axis, end)
            rest = [(s, 0, 1) for s in space if s != axis]
            total += sp.integrate(face, *rest)
    whitened = trace.noise.whitened(trace.values(model.factual))
    assert np.sum(whitened**2) == pytest.approx(float(total) / area, rel=1e-10)


def test_a_jump_is_seen_from_both_sides():
    library = cf.Library(anchor=cf.dt(u), terms={"u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 2),
        elements={u: ("DG", 0)},
        initial={u: sp.Piecewise((1, x < 0.5), (3, True))},
        time=cf.Window(0, 1, steps=2),
    )
    model = cf.Model(library, {"u": 0.0}, experiment)
    values = model.observation(cf.Sensors([0.5, 0.2], [u], times=[0.0])).values(model.factual)
    assert values == pytest.approx([2.0, 1.0])


def test_noise_whitens_by_number_reading_and_covariance():
    model = steady_quadratic()
    points = [[0.2, 0.2], [0.4, 0.6]]
    plain = model.observation(cf.Sensors(points, [u])).values(model.factual)
    covariance = np.array([[0.04, 0.01], [0.01, 0.09]])
    for noise, inverse in (
        (0.2, np.eye(2) / 0.04),
        ([0.2, 0.3], np.diag([1 / 0.04, 1 / 0.09])),
        (covariance, np.linalg.inv(covariance)),
    ):
        operator = model.observation(cf.Sensors(points, [u], noise=noise))
        white = operator.noise.whitened(plain)
        assert white @ white == pytest.approx(plain @ inverse @ plain)
        assert operator.noise.whitened_back(white) == pytest.approx(inverse @ plain)
    assert not model.observation(cf.Sensors(points, [u])).noise.known


def seen_on(comm):
    """Values, a derivative and an adjoint on some ranks."""
    found = {}
    for name in ("advection_diffusion", "navier_stokes"):
        model, _ = PROBLEMS[name](comm)
        term = model.active[0]
        response = model.linearised(term).trajectory
        for kind, observation in kinds(model).items():
            operator = model.observation(observation)
            weights = np.cos(np.arange(len(operator)) ** 2.0)
            scores = observable_scores(model.factual, operator.weighted(weights), [term])
            found[f"{name} {kind}"] = [
                operator.values(model.factual).tolist(),
                operator.derivatives(model.factual, [response])[:, 0].tolist(),
                scores.signed[term],
            ]
    return found


def body(comm, path):
    found = seen_on(comm)
    if comm.rank == 0:
        with open(path, "w") as file:
            json.dump(found, file)


def test_two_and_three_ranks_see_what_one_sees(on_ranks, tmp_path):
    alone = seen_on(MPI.COMM_SELF)
    for ranks in (2, 3):
        path = tmp_path / f"{ranks}.json"
        on_ranks(ranks, body, str(path))
        other = json.loads(path.read_text())
        for key, (values, slopes, score) in alone.items():
            size = np.abs(values).max()
            assert other[key][0] == pytest.approx(values, rel=1e-9, abs=1e-9 * size), key
            size = np.abs(slopes).max()
            assert other[key][1] == pytest.approx(slopes, rel=1e-8, abs=1e-8 * size), key
            assert other[key][2] == pytest.approx(score, rel=1e-7, abs=1e-8 * size), key


REFUSED = {
    "outside the mesh, by 0.5": lambda: cf.Sensors([[0.5, 0.5], [1.5, 0.5]], [u]),
    "has dimension 2": lambda: cf.Sensors([[0.5]], [u]),
    "the model has u": lambda: cf.Sensors([[0.5, 0.5]], [cf.ScalarField("c")]),
    "problem is steady": lambda: cf.Sensors([[0.5, 0.5]], [u], times=[0.0]),
    "sensors 1 and 3 are at one place": lambda: cf.Sensors([[0, 1], [0.5, 0], [0, 1]], [u]),
    "noise must be positive": lambda: cf.Sensors([[0.5, 0.5]], [u], noise=0.0),
    "the noise is given for 3": lambda: cf.Sensors([[0.5, 0.5]], [u], noise=[1, 1, 1]),
    "symmetric, positive definite": lambda: cf.Sensors(
        [[0.1, 0.5], [0.5, 0.5]], [u], noise=[[1, 2], [2, 1]]
    ),
    "finite numbers": lambda: cf.Sensors([[np.inf, 0.5]], [u]),
    "radius of sensors must be positive": lambda: cf.Sensors([[0.5, 0.5]], [u], radius=-1),
    "no part of this mesh": lambda: cf.Part("wake"),
    "no part of the boundary": lambda: cf.Trace("wall"),
    "takes the name of a part": lambda: cf.Part(3),
    "takes observables": lambda: cf.Series([u]),
    "read fields or components": lambda: cf.Sensors([[0.5, 0.5]], [u**2]),
    "at least one field": lambda: cf.Sensors([[0.5, 0.5]], []),
    "need the times": lambda: cf.Sensors([[[0.5, 0.5]], [[0.1, 0.5]]], [u]),
    "either all have their noise": lambda: (
        cf.Sensors([[0.5, 0.5]], [u]) + cf.Part("domain", noise=1)
    ),
    "is no observation": lambda: u,
}


@pytest.mark.parametrize("words", REFUSED)
def test_bad_observations_are_refused_in_one_sentence(words):
    model = steady_quadratic()
    with pytest.raises(cf.InputError, match=words) as caught:
        model.observation(REFUSED[words]())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("time", "words"), [(-0.1, "before the window, which begins at 0"), (0.7, "after the window")]
)
def test_readings_outside_the_window_are_refused(time, words):
    model, _ = problem("heat")
    with pytest.raises(cf.InputError, match=words):
        model.observation(cf.Sensors([0.5], [u], times=[time]))


def test_sensors_on_the_boundary_up_to_rounding_are_on_it():
    model = steady_quadratic()
    values = model.observation(cf.Sensors([[1 + 1e-12, 0.4]], [u])).values(model.factual)
    assert values == pytest.approx([1.4])
