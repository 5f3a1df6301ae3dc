"""Meshes of the region where there are data, and measured fields as finite-element fields on
them.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y
from cffem.engine.mesh.msh_format import MeshError
from cffem.engine.mesh.region import grid_outline, region_mesh, sea_cells, signed_area, traced
from cffem.engine.observed import observed
from cffem.study.run.stations.fitting import from_data

u = cf.ScalarField("u")


def gridded(land=None, size=(21, 16), values=None, times=3):
    axes = {
        x: np.linspace(0, 4, size[0]),
        y: np.linspace(1, 4, size[1]),
        t: np.linspace(0, 1, times),
    }
    shape = (*size, times)
    mask = None if land is None else np.broadcast_to(land[..., None], shape)
    if values is None:
        values = lambda a, b, c: a + 2 * b + c  # noqa: E731
    X, Y, S = np.meshgrid(*axes.values(), indexing="ij")
    return cf.Dataset.from_arrays(
        axes, {u: np.where(False if mask is None else mask, np.nan, values(X, Y, S))}, mask=mask
    )


def continent_and_island(size=(21, 16)):
    """Land in the north-west with a diagonal coast, and an island."""
    i, j = np.meshgrid(np.arange(size[0]), np.arange(size[1]), indexing="ij")
    return (j - i > 6) | ((abs(i - 13) <= 1) & (abs(j - 6) <= 1))


def numbers(data):
    """Area and lengths of the named parts."""
    mesh = data.mesh
    area = mesh.comm.allreduce(fem.assemble_scalar(fem.form(fem.Constant(mesh, 1.0) * ufl.dx)))
    lengths = {}
    for name, (dimension, tag) in data.names.items():
        if dimension == 1:
            ds = ufl.Measure("ds", mesh, subdomain_data=data.facet_tags)(tag)
            lengths[name] = mesh.comm.allreduce(
                fem.assemble_scalar(fem.form(fem.Constant(mesh, 1.0) * ds))
            )
    return area, lengths


def test_a_window_without_land_is_meshed_whole():
    area, lengths = numbers(region_mesh(MPI.COMM_SELF, gridded(), 0.5))
    assert area == pytest.approx(12.0)
    assert lengths == {"open": pytest.approx(14.0)}


def test_coasts_are_cut_and_islands_are_holes():
    land = continent_and_island()
    data = gridded(land)
    loops, parts = grid_outline(data)
    assert [np.sign(signed_area(loop)) for loop in loops] == [1.0, -1.0]
    assert set(parts[1]) == {"coast"}  # the island
    assert signed_area(loops[1]) == pytest.approx(-(4 * 4) * 0.2**2)
    # The diagonal coast is one straight edge, not a staircase; where it meets the edges of the
    # window half a step is left.
    assert len(loops[0]) == 7
    meshed = region_mesh(MPI.COMM_SELF, data, 0.4)
    area, lengths = numbers(meshed)
    assert area == pytest.approx(sum(signed_area(loop) for loop in loops))
    assert set(lengths) == {"coast", "open"}
    field = fem.Function(fem.functionspace(meshed.mesh, ("Lagrange", 2)))
    from cffem.engine.inputs.field_data import interpolate

    interpolate(field, data, u, 0.5, "the data")  # raises where the mesh leaves the data
    exact = fem.Function(field.function_space)
    exact.interpolate(lambda p: p[0] + 2 * p[1] + 0.5)
    assert (
        np.abs(field.x.array - exact.x.array).max() < 1e-8
    )  # positions on the coast are known to round-off


def test_clouds_leave_the_sea_as_it_is():
    land = continent_and_island()
    clear = gridded(land, times=20)
    clouds = np.random.default_rng(1).random(clear.shape) < 0.2
    cloudy = cf.Dataset.from_arrays(clear.coordinates, clear.values, mask=clear.mask | clouds)
    assert np.array_equal(sea_cells(cloudy), sea_cells(clear))
    always = cf.Dataset.from_arrays(
        clear.coordinates, clear.values, mask=clear.mask | (np.arange(20) % 3 > 0)
    )
    with pytest.raises(MeshError, match="half of the times"):
        sea_cells(always)


def test_a_fitted_model_starts_from_bridged_gaps():
    land = np.kron(continent_and_island(), np.ones((2, 2), dtype=bool))[:41, :31]
    clear = gridded(
        land, (41, 31), times=12, values=lambda a, b, c: np.sin(a) * np.cos(b) * np.exp(-c)
    )
    clouds = np.random.default_rng(2).random(clear.shape) < 0.2
    cloudy = cf.Dataset.from_arrays(clear.coordinates, clear.values, mask=clear.mask | clouds)
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
    mesh = region_mesh(MPI.COMM_SELF, cloudy, 0.4)
    plain = cf.Experiment(mesh=mesh, elements={u: ("Lagrange", 1)}, time=cf.Window(0, 1, steps=2))
    begun = from_data(plain, cloudy, library)
    state = cf.Model(library, {"u": -1.0, "lap": 0.01}, begun).factual.function(k=0)
    exact = fem.Function(state.function_space)
    exact.interpolate(lambda p: np.sin(p[0]) * np.cos(p[1]))
    assert np.abs(state.x.array - exact.x.array).max() < 0.02


def test_the_largest_sea_is_taken_and_corners_that_touch_are_parted():
    land = np.zeros((12, 10), dtype=bool)
    land[5] = True  # a wall: the part with more cells stays
    cells = sea_cells(gridded(land, (12, 10)))
    assert not cells[:6].any()
    assert cells[6:].all()
    pinched = np.ones((4, 4), dtype=bool)
    pinched[0, 1] = pinched[0, 0] = pinched[1, 0] = False
    loops = traced(np.array([[True, True], [True, False]]))
    assert len(loops) == 1
    assert len(loops[0]) == 8
    checker = np.zeros((9, 9), dtype=bool)
    checker[3, 3] = checker[5, 5] = checker[4, 4] = True
    region_mesh(MPI.COMM_SELF, gridded(checker, (9, 9)), 0.5)


def test_sensors_are_meshed_to_their_hull():
    random = np.random.default_rng(0)
    points = np.vstack([random.uniform(0, 1, (60, 2)), [[0, 0], [1, 0], [0, 1], [1, 1]]])
    data = cf.Dataset.from_points(points, np.arange(3.0), {u: np.zeros((64, 3))})
    area, lengths = numbers(region_mesh(MPI.COMM_SELF, data, 0.3))
    assert area == pytest.approx(1.0)
    assert set(lengths) == {"open"}


def test_data_and_sizes_that_give_no_region_are_refused():
    lonely = np.ones((8, 8), dtype=bool)
    lonely[::2, ::2] = False
    with pytest.raises(cf.InputError, match="nowhere do four neighbouring grid points"):
        region_mesh(MPI.COMM_SELF, gridded(lonely, (8, 8)), 0.5)
    with pytest.raises(cf.InputError, match="positive number"):
        region_mesh(MPI.COMM_SELF, gridded(), -1.0)
    with pytest.raises(cf.InputError, match="more than"):
        region_mesh(MPI.COMM_SELF, gridded(), 1e-5)
    axes = {x: np.arange(5.0), y: np.arange(5.0), cf.z: np.arange(5.0), t: np.arange(3.0)}
    with pytest.raises(cf.InputError, match="3 dimensions"):
        region_mesh(MPI.COMM_SELF, cf.Dataset.from_arrays(axes, {u: np.zeros((5, 5, 5, 3))}), 0.5)
    with pytest.raises(cf.InputError, match=r"repeat themselves along x: .*cf\.Periodic"):
        region_mesh(MPI.COMM_SELF, gridded().repeating({x: 4.2}), 0.5)


def test_data_on_a_line_are_meshed_from_end_to_end_or_over_one_period():
    line = cf.Dataset.from_arrays(
        {x: np.arange(2.0, 7.0), t: np.arange(3.0)}, {u: np.zeros((5, 3))}
    )
    for data, end in ((line, 6.0), (line.repeating({x: 5.0}), 7.0)):
        mesh = region_mesh(MPI.COMM_SELF, data, 0.5)
        places = mesh.mesh.geometry.x[:, 0]
        assert (places.min(), places.max()) == (2.0, end)
        assert {"left", "right"} <= set(mesh.names)
    gone = cf.Dataset.from_arrays(
        {x: np.arange(5.0), t: np.arange(3.0)}, {u: np.array([[1.0] * 3] * 4 + [[np.nan] * 3])}
    )
    with pytest.raises(cf.InputError, match="no values at any time"):
        region_mesh(MPI.COMM_SELF, gone, 0.5)


def test_measured_values_repeat_along_periodic_axes():
    """The last point of the period is left out, and meshes reach beyond it."""
    place, time = np.arange(40) * 2 * np.pi / 40, np.linspace(0, 1, 5)
    data = cf.Dataset.from_arrays(
        {x: place, t: time}, {u: np.sin(place)[:, None] + 0 * time}, period={x: 2 * np.pi}
    )
    from cffem.symbols.problem.measured import MeasuredFields

    points = np.zeros((3, 50))
    points[0] = np.linspace(-3, 13, 50)
    assert MeasuredFields(data).at(u, points, 0.5, "test") == pytest.approx(
        np.sin(points[0]), abs=2e-4
    )


RATE, SPEED = 0.05, 0.4


def wave(a, b, c):
    """Solutions of u_t = RATE Δu − SPEED u_x."""
    total = 0.0
    for k, m in ((1.0, 0.5), (2.0, 1.5), (0.5, 2.5)):
        total = total + np.exp(-RATE * (k**2 + m**2) * c) * np.sin(
            k * (a - SPEED * c) + 0.3
        ) * np.cos(m * b + 0.2)
    return total


def region_numbers(comm, write=""):
    """Coefficients from the weak design of finite-element fields around an island."""
    data = gridded(continent_and_island((41, 31)), (41, 31), wave, 21)
    experiment = cf.Experiment(
        mesh=region_mesh(comm, data, 0.15),
        elements={u: ("Lagrange", 2)},
        initial={u: data},
        boundary=[cf.Dirichlet(u, data)],
        time=cf.Window(0, 1, steps=20),
    )
    library = cf.Library(
        anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "u_y": u.diff(y), "lap": cf.lap(u)}
    )
    model = cf.Model(library, {"lap": RATE, "u_x": -SPEED}, experiment)
    seen = observed(model, data)
    gram = cf.Design.from_fields(library, seen, kind="weak").grams.total()
    found = np.linalg.solve(gram[1:, 1:], gram[1:, 0])
    np.testing.assert_allclose(found, [0.0, -SPEED, 0.0, RATE], atol=2e-3)
    # The model that is solved with the data at its boundary follows the data.
    distance = model.solve().distance(seen) / seen.norm()
    assert distance < 2e-3
    if write and comm.rank == 0:
        print("numbers", *(f"{value:.15e}" for value in (*found, distance)))
    return [*found, distance]


def test_observed_fields_give_a_weak_design_around_islands():
    region_numbers(MPI.COMM_SELF)


@pytest.mark.mpi
def test_the_same_region_on_two_ranks(on_ranks):
    alone = region_numbers(MPI.COMM_SELF)
    together = [
        float(word) for word in on_ranks(2, region_numbers, "write").split("numbers")[1].split()[:5]
    ]
    np.testing.assert_allclose(together, alone, rtol=1e-7, atol=1e-9)


def test_inflow_and_outflow_follow_a_velocity():
    v = cf.VectorField("v", dim=2)
    grid = np.linspace(0, 1, 9)
    X, Y = np.meshgrid(grid, grid, indexing="ij")
    velocity = np.array([np.ones_like(X), 0.5 - Y])[..., None] * np.array(
        [1.0, 0.5, 2.0]
    )  # in from the left, out to the right
    data = cf.Dataset.from_arrays({x: grid, y: grid, t: np.arange(3.0)}, {v: velocity})
    found = region_mesh(MPI.COMM_SELF, data, 0.2, velocity=v)
    assert set(found.names) == {"inflow", "outflow", "sea"}
    loops, parts = grid_outline(data, velocity.mean(axis=-1))
    (loop,), (names,) = loops, parts
    middles = (loop + np.roll(loop, -1, axis=0)) / 2
    sides = {tuple(np.round(m, 3)): name for m, name in zip(middles, names, strict=True)}
    assert sides[0.0, 0.5] == "inflow"
    assert sides[1.0, 0.5] == "outflow"
    assert (
        sides[0.5, 0.0] == sides[0.5, 1.0] == "inflow"
    )  # towards the middle line from below and from above
    sensors = cf.Dataset.from_points(
        np.column_stack([X.ravel(), Y.ravel()]), np.arange(3.0), {v: velocity.reshape(2, -1, 3)}
    )
    assert set(region_mesh(MPI.COMM_SELF, sensors, 0.3, velocity=v).names) == {
        "inflow",
        "outflow",
        "sea",
    }
    with pytest.raises(MeshError, match="no plane velocity"):
        region_mesh(MPI.COMM_SELF, data, 0.2, velocity=cf.VectorField("w", dim=2))
