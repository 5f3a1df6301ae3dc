"""Measurements as initial and boundary data: the right values at the right order, and one
clear error where there are none.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y
from cffem.engine.inputs.field_data import require_values
from cffem.symbols.problem.measured import MeasuredFields, ScatteredFit, TensorGrid, stencil

u, E = cf.ScalarField("u"), cf.VectorField("E", dim=2)
FIELD = sp.sin(2 * x + 1) * sp.exp(-y) * (1 + t)


def gridded(expression=FIELD, n=17, end=1.0, low=0.0, high=1.0, mask=None):
    axis, times = np.linspace(low, high, n), np.linspace(0, end, 9)
    values = sp.lambdify((x, y, t), expression)(
        axis[:, None, None], axis[None, :, None], times[None, None, :]
    )
    return cf.Dataset.from_arrays({x: axis, y: axis, t: times}, {u: values}, mask=mask)


def heat(initial, boundary, n=6, comm=MPI.COMM_SELF):
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(comm, n, n),
        elements={u: ("Lagrange", 2)},
        initial={u: initial},
        boundary=[cf.Dirichlet(u, boundary)],
        time=cf.Window(0, 1, steps=4),
    )
    return cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)}),
        {"u": 0.5, "lap": 0.1},
        experiment,
    )


def test_interpolation_is_of_fourth_order_and_its_rate_of_third():
    errors = []
    for n in (10, 20, 40):
        axis, where = np.linspace(0, 1, n + 1), np.random.default_rng(1).uniform(0, 1, 200)
        (index, weights), (_, rates) = stencil(axis, where, 4), stencil(axis, where, 4, rate=True)
        value, rate = (np.sum(w * np.sin(3 * axis[index]), axis=1) for w in (weights, rates))
        errors.append(
            [np.abs(value - np.sin(3 * where)).max(), np.abs(rate - 3 * np.cos(3 * where)).max()]
        )
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert orders[:, 0].min() > 3.8
    assert orders[:, 1].min() > 2.8


def test_scattered_fits_are_exact_for_quadratics_and_of_third_order():
    errors, where = [], np.random.default_rng(5).uniform(0.1, 0.9, (100, 2))
    for n in (20, 40, 80):
        places = np.random.default_rng(2).uniform(0, 1, (n * n, 2))
        places[:4] = [[0, 0], [0, 1], [1, 0], [1, 1]]
        sensors = ScatteredFit(places)
        quadratic = 1 + places[:, 0] - 2 * places[:, 1] * places[:, 0] + places[:, 1] ** 2
        np.testing.assert_allclose(
            sensors.at(quadratic, where),
            1 + where[:, 0] - 2 * where[:, 1] * where[:, 0] + where[:, 1] ** 2,
            atol=1e-9,
        )
        wave = sensors.at(np.sin(3 * places[:, 0]) * np.cos(2 * places[:, 1]), where)
        errors.append(
            np.sqrt(np.mean((wave - np.sin(3 * where[:, 0]) * np.cos(2 * where[:, 1])) ** 2))
        )
    assert np.log2(errors[0] / errors[-1]) / 2 > 2.6


def test_gridded_initial_and_boundary_values_give_the_solution_of_the_exact_ones():
    with (
        heat(FIELD, FIELD) as exact,
        heat(gridded(), gridded()) as measured,
        heat(gridded(n=33), gridded(n=33)) as finer,
    ):
        size = exact.factual.norm()
        errors = [
            exact.trajectory_norm(
                [a - b for a, b in zip(exact.factual.states, m.factual.states, strict=True)],
                exact.times,
            )
            for m in (measured, finer)
        ]
        assert errors[0] < 1e-4 * size
        assert errors[1] < errors[0] / 8


def test_scattered_values_give_nearly_the_solution_of_the_exact_ones():
    side = np.linspace(0, 1, 25)
    points = np.stack(np.meshgrid(side, side, indexing="ij"), axis=-1).reshape(-1, 2)
    points += np.where(
        (points > 0) & (points < 1), np.random.default_rng(3).uniform(-0.01, 0.01, points.shape), 0
    )
    times = np.linspace(0, 1, 6)
    values = sp.lambdify((x, y, t), FIELD)(points[:, :1], points[:, 1:], times[None, :])
    data = cf.Dataset.from_points(points, times, {u: values})
    with heat(FIELD, FIELD) as exact, heat(data, data) as measured:
        difference = [
            a - b for a, b in zip(exact.factual.states, measured.factual.states, strict=True)
        ]
        assert exact.trajectory_norm(difference, exact.times) < 1e-3 * exact.factual.norm()


def test_a_wave_takes_its_velocity_and_its_moving_boundary_from_the_data():
    axis, times = np.linspace(0, 1, 21), np.linspace(0, 1, 41)
    expression = sp.cos(2 * t) * sp.sin(x + 1)
    values = sp.lambdify((x, t), expression)(axis[:, None], times[None, :])
    data = cf.Dataset.from_arrays({x: axis, t: times}, {u: values})

    def wave(value, rate):
        experiment = cf.Experiment(
            mesh=mesh.create_unit_interval(MPI.COMM_SELF, 12),
            elements={u: ("Lagrange", 2)},
            initial={u: value, cf.dt(u): rate},
            boundary=[cf.Dirichlet(u, value)],
            time=cf.Window(0, 1, steps=16),
        )
        return cf.Model(
            cf.Library(anchor=cf.dt(cf.dt(u)), terms={"lap": cf.lap(u)}), {"lap": 4.0}, experiment
        )

    with wave(expression, expression.diff(t)) as exact, wave(data, data) as measured:
        np.testing.assert_allclose(
            measured.factual.velocities[-1], exact.factual.velocities[-1], atol=2e-3
        )
        np.testing.assert_allclose(measured.factual.states[-1], exact.factual.states[-1], atol=2e-4)


def test_vectors_and_single_components():
    axis, times = np.linspace(0, 1, 9), np.array([0.0, 1.0])
    shape = (9, 9, 2)
    values = np.array(
        [
            np.broadcast_to(axis[None, :, None] ** 2, shape),
            np.broadcast_to(axis[:, None, None], shape),
        ]
    )
    data = cf.Dataset.from_arrays({x: axis, y: axis, t: times}, {E: values})
    for element, conditions in {
        ("N1curl", 2): [cf.Tangential(E, data)],
        ("Lagrange", 2): [cf.Dirichlet(E[0], data), cf.Dirichlet(E[1], data)],
    }.items():
        experiment = cf.Experiment(
            mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
            elements={E: element},
            initial={E: data},
            boundary=conditions,
            time=cf.Window(0, 0.1, steps=1),
        )
        with cf.Model(cf.Library(anchor=cf.dt(E), terms={"E": E}), {"E": 0.0}, experiment) as model:
            exact = cf.Model(
                model.library,
                {},
                cf.Experiment(**{**vars(experiment), "initial": {E: (y**2, x)}, "boundary": []}),
            )
            np.testing.assert_allclose(
                model.factual.states[-1],
                exact.initial(cf.Intervention())[0],
                atol=1e-10,
            )
            exact.destroy()


def test_missing_values_matter_only_where_they_are_needed():
    hole = np.zeros((17, 17, 9), dtype=bool)
    hole[8, 8] = True
    holed = gridded(mask=hole)
    assert np.isnan(MeasuredFields(holed).at(u, np.array([[0.49], [0.51], [0.0]]), 0.3, "it"))
    assert np.isfinite(MeasuredFields(holed).at(u, np.array([[0.2], [0.7], [0.0]]), 0.3, "it"))
    with heat(0, holed) as model:
        model.solve()
    with (
        pytest.raises(
            cf.InputError, match=r"the initial value of u: there are no data at the point"
        ),
        heat(holed, 0) as model,
    ):
        model.solve()


@pytest.mark.parametrize(
    ("initial", "boundary", "message"),
    [
        (gridded(high=0.8), 0, "the initial value of u: there are no data at the point"),
        (
            0,
            gridded(low=0.1),
            r"at t = 0.* there are no data for \d+ of \d+ values on the boundary",
        ),
        (0, gridded(end=0.5), "from the times 0 to 0.5, but t = "),
        (
            cf.Dataset.from_arrays({x: np.arange(3.0), t: np.arange(3.0)}, {u: np.zeros((3, 3))}),
            0,
            "1 dimensions of space",
        ),
        (
            cf.Dataset.from_arrays(
                {x: np.arange(3.0), y: np.arange(3.0)}, {cf.ScalarField("w"): np.zeros((3, 3))}
            ),
            0,
            "no values of u",
        ),
    ],
)
def test_data_that_do_not_fit_are_one_clear_error(initial, boundary, message):
    with pytest.raises(cf.InputError, match=message), heat(initial, boundary) as model:
        model.solve()


def test_natural_data_and_forcing_say_what_they_need_instead():
    data = gridded()
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    for more in (
        {"boundary": [cf.Neumann(u, data)]},
        {"forcing": {u: data}, "boundary": [cf.Dirichlet(u, 0)]},
    ):
        with pytest.raises(cf.InputError, match="not measured data"):
            cf.Model(
                library,
                {"lap": 1.0},
                cf.Experiment(
                    mesh=mesh.create_unit_square(MPI.COMM_SELF, 2, 2),
                    elements={u: ("Lagrange", 1)},
                    initial={u: 0},
                    time=cf.Window(0, 1, steps=1),
                    **more,
                ),
            )


def test_linear_interpolation_on_few_points():
    assert TensorGrid([np.array([0.0, 2.0])], 4).at(
        np.array([1.0, 5.0]), np.array([[0.5]])
    ) == pytest.approx(2.0)


def measured_on(comm, initial, boundary):
    """The norm of a solution with measured data on a communicator."""
    with heat(initial, boundary, 5, comm) as model:
        return model.factual.norm()


def body_of_ranks(comm):
    side, points = np.linspace(0, 1, 9), np.random.default_rng(0).uniform(-0.5, 1.5, (400, 2))
    grid = np.sin(side)[:, None, None] * np.cos(side)[None, :, None] * np.array([1.0, 2.0])
    boundary = cf.Dataset.from_arrays({x: side, y: side, t: [0.0, 1.0]}, {u: grid})
    initial = cf.Dataset.from_points(
        points, [0.0, 1.0], {u: np.outer(points.prod(axis=1), [1.0, 2.0])}
    )
    together, alone = (measured_on(comm, initial, boundary) for comm in (comm, MPI.COMM_SELF))
    assert abs(together - alone) < 1e-12 * alone
    with pytest.raises(
        cf.InputError, match="no data at the point"
    ):  # on every rank, also where there are data
        measured_on(comm, cf.Dataset.from_points(points / 3, [0.0, 1.0], {u: np.ones((400, 2))}), 0)


@pytest.mark.mpi
def test_measured_data_are_the_same_on_several_ranks(on_ranks):
    on_ranks(3, body_of_ranks)


@pytest.mark.parametrize("components", [(), (2,)])
def test_a_rank_without_points_lacks_no_values(components):
    require_values(np.empty((*components, 0)), np.empty((3, 0)), "the initial value of u")
    lost = np.zeros((*components, 4))
    lost[..., 2] = np.nan
    with pytest.raises(cf.InputError, match=r"no data at the point \(2, 2, 2\)"):
        require_values(lost, np.tile(np.arange(4.0), (3, 1)), "the initial value of u")
