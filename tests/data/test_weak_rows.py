"""Weak and strong rows satisfy the equation whose exact solution they are made of."""

import numpy as np
import pytest
import sympy as sp

import cffem as cf
from benchmarks.screening.screening_data import (
    jittered_points,
    moving_gaussians,
    transport_library,
    vortex_library,
    vortices,
)
from cffem import dot, dt, grad, lap, t, x, y
from cffem.data import Dataset
from cffem.data.rows.probes import probe_terms
from cffem.data.rows.weak_blocks import WeakRowPlan
from cffem.design import Design
from cffem.symbols.problem.library import Library

u = cf.ScalarField("u")


def residual(design, truth):
    """Share of the anchor's energy that the true coefficients leave."""
    beta = np.r_[1.0, [-truth.get(n, 0.0) for n in design.names]]
    total = design.grams.total()
    return float(beta @ total @ beta / total[0, 0])


def gaussian(X, T, v, D):
    width = 0.3 + 2 * D * T
    return np.sqrt(0.3 / width) * np.exp(-((X - 2 - v * T) ** 2) / (2 * width))


@pytest.mark.parametrize(("kind", "tolerance"), [("weak", 1e-9), ("strong", 1e-5)])
def test_transport_with_diffusion_in_one_dimension(kind, tolerance):
    xs, ts = np.linspace(0, 6, 200), np.linspace(0, 2, 120)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    library = Library(
        anchor=dt(u),
        terms={"u": u, "u_x": u.diff(x), "u_xx": u.diff(x, 2), "u u_xx": u * u.diff(x, 2)},
    )
    data = Dataset.from_arrays({x: xs, t: ts}, {u: gaussian(X, T, 0.8, 0.05)})
    assert (
        residual(Design.from_fields(library, data, kind=kind), {"u_x": -0.8, "u_xx": 0.05})
        < tolerance
    )


def test_rows_are_never_worth_more_than_they_are():
    values = np.ones((5, 3))
    library = Library(anchor=dt(u), terms={"u": u, "u_xx": u.diff(x, 2)})
    design = Design.from_fields(
        library,
        Dataset.from_arrays({x: np.linspace(0, 1, 5), t: np.linspace(0, 1, 3)}, {u: values}),
    )
    assert 0 < design.effective_rows <= design.rows


def test_variable_coefficients_go_onto_the_test_function():
    xs, ts = np.linspace(0, 3, 200), np.linspace(0, 1, 100)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    values = np.sin(X * np.exp(T))  # solves u_t = x u_x
    library = Library(anchor=dt(u), terms={"x u_x": x * u.diff(x), "u": u, "sin(u)": sp.sin(u)})
    design = Design.from_fields(library, Dataset.from_arrays({x: xs, t: ts}, {u: values}))
    assert residual(design, {"x u_x": 1.0}) < 1e-8


def test_strong_rows_know_the_coordinates():
    xs, ts = np.linspace(0, 3, 80), np.linspace(0, 1, 60)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    library = Library(anchor=dt(u), terms={"x u": x * u, "t u": t * u, "u": u})
    values = np.exp(X * T - T**2)  # solves u_t = x u − 2 t u
    design = Design.from_fields(
        library, Dataset.from_arrays({x: xs, t: ts}, {u: values}), kind="strong"
    )
    assert residual(design, {"x u": 1.0, "t u": -2.0}) < 1e-8


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_scattered_points_know_coordinates_and_squares_of_derivatives(kind):
    points, ts = jittered_points(24, 2), np.linspace(0, 1, 41)
    X, Y, T = points[:, :1], points[:, 1:], ts[None, :]
    library = Library(
        anchor=dt(u),
        terms={"x u": x * u, "t u": t * u, "|grad u|^2": u.diff(x) ** 2 + u.diff(y) ** 2},
    )
    growing = Dataset.from_points(points, ts, {u: np.exp(X * T - T**2) * (1 + Y)})
    assert (
        residual(Design.from_fields(library, growing, kind=kind), {"x u": 1.0, "t u": -2.0}) < 1e-4
    )
    steepening = Dataset.from_points(
        points, ts, {u: (X**2 + Y**2) / (4 * (3 - T))}
    )  # solves u_t = |∇u|²
    assert residual(Design.from_fields(library, steepening, kind=kind), {"|grad u|^2": 1.0}) < 1e-3


def test_rows_that_touch_a_gap_are_dropped():
    xs, ts = np.linspace(0, 6, 160), np.linspace(0, 2, 100)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    values = gaussian(X, T, 0.8, 0.05)
    library = Library(anchor=dt(u), terms={"u_x": u.diff(x), "u_xx": u.diff(x, 2)})
    full = Design.from_fields(library, Dataset.from_arrays({x: xs, t: ts}, {u: values}))
    broken = values.copy()
    broken[70:75, 40:45] = np.nan
    gap = Design.from_fields(library, Dataset.from_arrays({x: xs, t: ts}, {u: broken}))
    assert gap.rows < full.rows or gap.effective_rows < full.effective_rows
    assert residual(gap, {"u_x": -0.8, "u_xx": 0.05}) < 1e-7


@pytest.mark.parametrize(("dim", "per_axis"), [(2, 40), (3, 12)])
def test_rows_of_scattered_points_obey_the_true_equation(dim, per_axis):
    points, times = jittered_points(per_axis, dim), np.linspace(0, 2, 31)
    velocity = (0.15, 0.1, -0.05)[:dim]
    values = moving_gaussians(points, times, velocity, 2e-3, (0.16, 0.22), count=3)
    truth = {f"(u^1)_{a}": -c for a, c in zip("xyz", velocity, strict=False)} | {"lap u": 2e-3}
    design = Design.from_fields(
        transport_library(dim), Dataset.from_points(points, times, {u: values})
    )
    assert residual(design, truth) < (1e-4 if dim == 2 else 1e-2)


def test_strong_rows_of_scattered_points():
    points, times = jittered_points(40, 2), np.linspace(0, 1, 31)
    values = moving_gaussians(points, times, (0.15, 0.1), 2e-3, (0.16, 0.22), count=3)
    truth = {"(u^1)_x": -0.15, "(u^1)_y": -0.1, "lap u": 2e-3}
    design = Design.from_fields(
        transport_library(2), Dataset.from_points(points, times, {u: values}), kind="strong"
    )
    assert residual(design, truth) < 1e-2
    assert len(design.grams.labels) == 18


def test_holes_are_not_bridged():
    points = jittered_points(40, 2)
    points = points[np.linalg.norm(points - 0.5, axis=1) > 0.2]
    values = np.zeros((len(points), 20))
    plan = WeakRowPlan(
        Dataset.from_points(points, np.linspace(0, 1, 20), {u: values}),
        Library(anchor=dt(u), terms={"u": u}),
    )
    centres = plan.sampling.centres
    assert np.linalg.norm(centres - 0.5, axis=1).min() > 0.2


def test_divergence_free_tests_do_not_see_a_gradient():
    v, library = vortex_library()
    xs = ys = np.linspace(0, 2, 40)
    ts = np.linspace(0, 1, 40)
    X, Y, T = np.meshgrid(xs, ys, ts, indexing="ij")
    pressure_gradient = np.array([Y * np.cos(X * Y + T), X * np.cos(X * Y + T)])
    data = Dataset.from_arrays({x: xs, y: ys, t: ts}, {v: pressure_gradient}, projected=True)
    plain = Dataset.from_arrays({x: xs, y: ys, t: ts}, {v: pressure_gradient})
    small = Library(anchor=dt(v), terms={"v": v})
    projected, tested = (Design.from_fields(small, d).grams.total() for d in (data, plain))
    assert np.abs(projected).max() < 1e-8 * np.abs(tested).max()
    assert "(v.grad)v" in library.terms


def test_divergence_free_tests_in_space_do_not_see_a_gradient():
    v = cf.VectorField("v", dim=3)
    axis, ts = np.linspace(0, 1, 20), np.linspace(0, 1, 20)
    X, Y, Z, T = np.meshgrid(axis, axis, axis, ts, indexing="ij")
    phase = np.cos(X * Y + Z + T)
    gradient, swirl = np.array([Y * phase, X * phase, phase]), np.array([-Y, X, 0 * Z]) * np.exp(-T)
    small = Library(anchor=dt(v), terms={"v": v})

    def largest(values, flag):
        data = Dataset.from_arrays(
            {x: axis, y: axis, cf.z: axis, t: ts}, {v: values}, projected=flag
        )
        return np.abs(Design.from_fields(small, data).grams.total()).max()

    assert largest(gradient, True) < 1e-6 * largest(gradient, False)
    assert largest(swirl, True) > 1e-6 * largest(swirl, False)


def test_divergence_free_tests_on_scattered_points_do_not_see_a_gradient():
    v, _ = vortex_library()
    points, ts = jittered_points(40, 2), np.linspace(0, 1, 30)
    X, Y, T = points[:, :1], points[:, 1:], ts[None, :]
    gradient = np.array([Y * np.cos(X * Y + T), X * np.cos(X * Y + T)])
    small = Library(anchor=dt(v), terms={"v": v})
    projected, tested = (
        Design.from_fields(
            small, Dataset.from_points(points, ts, {v: gradient}, projected=flag)
        ).grams.total()
        for flag in (True, False)
    )
    assert np.abs(projected).max() < 1e-5 * np.abs(tested).max()


def test_incompressible_flow_without_its_pressure():
    xs, ys, ts, velocity = vortices(size=32, steps=61, end=3.0)
    v, _ = vortex_library()
    library = Library(anchor=dt(v), terms={"advection": dot(grad(v), v), "lap": lap(v), "v": v})
    data = Dataset.from_arrays({x: xs, y: ys, t: ts}, {v: velocity}, projected=True)
    assert residual(Design.from_fields(library, data), {"advection": -1.0, "lap": 0.02}) < 1e-4
    unprojected = Dataset.from_arrays({x: xs, y: ys, t: ts}, {v: velocity})
    assert (
        residual(Design.from_fields(library, unprojected), {"advection": -1.0, "lap": 0.02}) > 1e-2
    )  # the pressure is missing


def test_the_gram_of_two_datasets_is_the_sum_of_theirs():
    xs, ts = np.linspace(0, 6, 120), np.linspace(0, 2, 80)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    library = Library(anchor=dt(u), terms={"u_x": u.diff(x), "u_xx": u.diff(x, 2)})
    data = [Dataset.from_arrays({x: xs, t: ts}, {u: gaussian(X, T, 0.8, D)}) for D in (0.05, 0.05)]
    both = Design.from_fields(library, data)
    single = [Design.from_fields(library, d) for d in data]
    np.testing.assert_allclose(
        both.grams.total(), (single[0] + single[1]).grams.total(), rtol=1e-10
    )
    assert len(both.sources) == 2


def test_probes_leave_out_what_the_library_spans():
    library = Library(anchor=dt(u), terms={"u u_x": u * u.diff(x), "u": u})
    names = probe_terms(library, 1)
    assert "probe (u^2)_x" not in names
    assert "probe u" not in names
    assert "probe u_xx" in names


def test_unusable_libraries_are_named():
    xs, ts = np.linspace(0, 1, 40), np.linspace(0, 1, 40)
    data = Dataset.from_arrays({x: xs, t: ts}, {u: np.outer(np.sin(xs), ts)})
    w = cf.ScalarField("w")
    with pytest.raises(ValueError, match="no values of w"):
        Design.from_fields(Library(anchor=dt(u), terms={"w": w}), data)
    with pytest.raises(ValueError, match="parameter"):
        Design.from_fields(Library(anchor=dt(u), terms={"p": cf.Parameter("nu") * u}), data)
