# SPDX-License-Identifier: MIT
"""Data as people have them: values missing at random, clouds, short axes, periods, time
alone; and refusals in one sentence.
"""

import numpy as np
import pytest
import sympy as sp

import cffem as cf
from benchmarks.screening import screening_data as cases
from cffem import dt, lap, t, x, y
from cffem.data.noise.grid_noise import noise_sd
from cffem.data.noise.missing_values import bridge
from cffem.data.noise.reconstruction import Spline

u, w = cf.ScalarField("u"), cf.ScalarField("w")


def screened(library, data, kind="weak"):
    return cf.Screening(method="subset").fit(cf.Design.from_fields(library, data, kind=kind))


def check(fitted, truth, tolerance):
    assert set(fitted.names_) == set(truth)
    assert fitted.reliable_, fitted.reasons_
    for name, value in truth.items():
        number = fitted.design_.names.index(name)
        low, high = fitted.intervals_[number]
        assert fitted.coef_[number] == pytest.approx(value, rel=tolerance)
        assert low <= value <= high


@pytest.fixture(scope="module")
def burgers():
    return cases.examples()[0]


@pytest.fixture(scope="module")
def heat():
    """u_t = 0.1 Δu in two dimensions: grid, times, values, library."""
    grid, times = np.linspace(0, 2 * np.pi, 41), np.linspace(0, 2, 40)
    P, Q = np.meshgrid(grid, grid, indexing="ij")
    modes = [(k, m) for k in (1, 2, 3) for m in (1, 2)]
    values = sum(
        np.exp(-0.1 * (k * k + m * m) * times) * (np.sin(k * P + m) * np.cos(m * Q))[..., None]
        for k, m in modes
    )
    library = cf.Library(
        anchor=dt(u), terms={"u": u, "lap": lap(u), "u_x": u.diff(x), "u_y": u.diff(y)}
    )
    return grid, times, values, library


# Gaps
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "noise", "tolerance"),
    [(0.05, 0.0, 1e-3), (0.2, 0.1, 0.03), (0.6, 0.0, 5e-3), (0.6, 0.1, 0.05)],
)
def test_values_missing_at_random_in_one_dimension(burgers, share, noise, tolerance):
    missing = np.random.default_rng(3).random(burgers.values.shape) < share
    values = np.where(missing, np.nan, cases.with_noise(burgers.values, noise, 0))
    data = cf.Dataset.from_arrays({x: burgers.x, t: burgers.t}, {cases.u: values})
    check(screened(burgers.small, data), burgers.small_truth, tolerance)


@pytest.mark.parametrize(
    ("share", "noise", "tolerance"), [(0.05, 0.05, 0.03), (0.2, 0.0, 2e-3), (0.6, 0.0, 5e-3)]
)
def test_values_missing_at_random_in_two_dimensions(heat, share, noise, tolerance):
    grid, times, clean, library = heat
    missing = np.random.default_rng(3).random(clean.shape) < share
    values = np.where(missing, np.nan, cases.with_noise(clean, noise, 0))
    check(
        screened(library, cf.Dataset.from_arrays({x: grid, y: grid, t: times}, {u: values})),
        {"lap": 0.1},
        tolerance,
    )


def test_clouds_and_a_lost_frame(heat):
    grid, times, clean, library = heat
    values, random = clean.copy(), np.random.default_rng(1)
    for _ in range(6):
        i, j, k = random.integers(0, 30, 3)
        values[i : i + 9, j : j + 9, k : k + 6] = np.nan
    values[..., 17] = np.nan
    check(
        screened(library, cf.Dataset.from_arrays({x: grid, y: grid, t: times}, {u: values})),
        {"lap": 0.1},
        2e-3,
    )


def test_wide_holes_stay_open_and_single_gaps_are_bridged():
    missing = np.zeros((30, 30), dtype=bool)
    missing[10:20, 10:20] = missing[3, 3] = True
    over = bridge(missing, Spline())
    assert not over.open[3, 3]
    assert over.open[15, 15]


def coast_with_clouds():
    """A block of land without any value, and a fifth of the sea's values under clouds."""
    land = np.zeros((20, 16, 1), dtype=bool)
    land[:6, :7] = True
    clouds = np.random.default_rng(0).random((20, 16, 12)) < 0.2
    axes = {x: np.arange(20.0), y: np.arange(16.0), t: np.arange(12.0)}
    X, Y, S = np.meshgrid(*axes.values(), indexing="ij")
    values = np.where(land | clouds, np.nan, np.sin(X / 5) * np.cos(Y / 4) * np.exp(-S / 9))
    return land, clouds, cf.Dataset.from_arrays(axes, {u: values})


def test_no_row_rests_on_land_that_was_filled_from_the_sea():
    land, clouds, data = coast_with_clouds()
    assert np.array_equal(data.never_measured, land)
    over = bridge(data.mask, Spline(degree=2), outside=data.never_measured)
    assert over.open[np.broadcast_to(land, clouds.shape)].all()
    assert not over.open[~land & clouds].any()


def test_noise_is_measured_between_many_gaps():
    random = np.random.default_rng(0)
    X, T = np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 60), indexing="ij")
    missing = random.random(X.shape) < 0.6
    clean = np.sin(6 * X - T)
    noisy = np.where(missing, np.nan, clean + 0.1 * random.standard_normal(X.shape))
    assert noise_sd(noisy, missing) == pytest.approx(0.1, rel=0.25)
    assert noise_sd(np.where(missing, np.nan, clean), missing) < 1e-3


def test_almost_nothing_measured_is_told():
    values = np.full((30, 30), np.nan)
    values[::10, ::10] = 1.0
    data = cf.Dataset.from_arrays({x: np.arange(30.0), t: np.arange(30.0)}, {u: values})
    with pytest.raises(cf.InputError):
        cf.Design.from_fields(cf.Library(anchor=dt(u), terms={"u": u}), data)


# Axes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_small_grids_give_a_useful_number_of_rows(noise):
    grid, times = np.linspace(0, 2 * np.pi, 20), np.linspace(0, 4, 40)
    P, Q, T = np.meshgrid(grid, grid, times, indexing="ij")
    modes = [(k, m) for k in (1, 2) for m in (1, 2)]
    clean = sum(
        np.exp(-0.1 * (k * k + m * m) * T) * np.sin(k * P + m - 0.5 * k * T) * np.cos(m * Q)
        for k, m in modes
    )
    terms = {
        "u": u,
        "lap": lap(u),
        "u_x": u.diff(x),
        "u_y": u.diff(y),
        "u^2": u**2,
        "u u_x": u * u.diff(x),
    }
    data = cf.Dataset.from_arrays(
        {x: grid, y: grid, t: times}, {u: cases.with_noise(clean, noise, 0)}
    )
    fitted = screened(cf.Library(anchor=dt(u), terms=terms), data)
    assert fitted.design_.rows >= 100
    check(fitted, {"lap": 0.1, "u_x": -0.5}, 2e-3 if noise == 0 else 0.1)


def test_periodic_grids_use_every_point():
    xs, ys, times, velocity = cases.vortices(size=32, steps=31, end=1.5)
    v, library = cases.vortex_library()
    length = 2 * np.pi
    noisy = cases.with_noise(velocity, 0.05, 0)
    rows = []
    for period in (None, {x: length, y: length}):
        data = cf.Dataset.from_arrays(
            {x: xs, y: ys, t: times}, {v: noisy}, projected=True, period=period
        )
        fitted = screened(library, data)
        rows.append(fitted.design_.rows)
    check(fitted, {"(v.grad)v": -1.0, "lap v": 0.02}, 0.05)
    assert rows[1] > 2 * rows[0]


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_a_repeated_last_point_of_a_period_is_left_out(kind):
    xs, ts = np.linspace(0, 2 * np.pi, 65), np.linspace(0, 1, 40)
    X, T = np.meshgrid(xs, ts, indexing="ij")
    values = np.exp(-0.1 * T) * np.sin(X - T) + 0.5 * np.exp(-0.4 * T) * np.cos(2 * (X - T))
    data = cf.Dataset.from_arrays({x: xs, t: ts}, {u: values}, period={x: 2 * np.pi})
    assert data.shape == (64, 40)
    library = cf.Library(anchor=dt(u), terms={"u": u, "u_x": u.diff(x), "u_xx": u.diff(x, 2)})
    check(screened(library, data, kind), {"u_x": -1.0, "u_xx": 0.1}, 5e-3)


@pytest.mark.parametrize(
    ("period", "message"),
    [
        ({x: 3.0}, "does not fit points from 0 to 6"),
        ({y: 7.0}, "no such axis"),
        ({x: 60.0}, "does not fit"),
    ],
)
def test_periods_that_do_not_fit_are_told(period, message):
    with pytest.raises(cf.InputError, match=message):
        cf.Dataset.from_arrays(
            {x: np.linspace(0, 6, 30), t: np.arange(4.0)}, {u: np.zeros((30, 4))}, period=period
        )


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_an_oscillator_from_time_alone(kind):
    times = np.linspace(0, 10, 200)
    data = cf.Dataset.from_arrays({t: times}, {u: np.exp(-0.3 * times) * np.cos(2 * times)})
    library = cf.Library(anchor=dt(dt(u)), terms={"u": u, "u_t": dt(u), "u^3": u**3})
    check(screened(library, data, kind), {"u": -4.09, "u_t": -0.6}, 1e-3)


def test_predators_and_prey_under_noise():
    from scipy.integrate import solve_ivp

    times = np.linspace(0, 30, 400)
    orbit = solve_ivp(
        lambda _, z: [1.1 * z[0] - 0.4 * z[0] * z[1], 0.1 * z[0] * z[1] - 0.4 * z[1]],
        (0, 30),
        [10, 5],
        t_eval=times,
        rtol=1e-9,
    ).y
    noisy = orbit + 0.05 * orbit.std(axis=1, keepdims=True) * np.random.default_rng(
        0
    ).standard_normal(orbit.shape)
    data = cf.Dataset.from_arrays({t: times}, {u: noisy[0], w: noisy[1]})
    library = cf.Library(
        anchor=dt(u), terms={"u": u, "w": w, "uw": u * w, "u^2": u**2, "w^2": w**2}
    )
    check(screened(library, data), {"u": 1.1, "uw": -0.4}, 0.03)


AXES = {x: np.linspace(0, 6, 30), t: np.linspace(0, 1, 20)}


def schroedinger(count=121, points=256, length=16.0):
    """i ψ_t + ψ_xx/2 + |ψ|² ψ = 0 by Strang's splitting and Fourier series, on a periodic
    grid without its last point.
    """
    place, times = np.arange(points) * length / points - length / 2, np.linspace(0, 1.5, count)
    k = 2 * np.pi * np.fft.fftfreq(points, length / points)
    step = times[1] / 40
    psi = 2 / np.cosh(place) + 0.3 * np.exp(-((place - 3) ** 2) + 1j * place)
    frames = [psi]
    for _ in times[1:]:
        for _ in range(40):
            psi = psi * np.exp(0.5j * step * np.abs(psi) ** 2)
            psi = np.fft.ifft(np.exp(-0.5j * step * k**2) * np.fft.fft(psi))
            psi = psi * np.exp(0.5j * step * np.abs(psi) ** 2)
        frames.append(psi)
    return {x: place, t: times}, np.array(frames).T, {x: length}


def test_a_complex_field_is_two_real_ones():
    axes, values, period = schroedinger()
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(values.shape) + 1j * rng.standard_normal(values.shape)
    psi = cf.ScalarField("psi")
    data = cf.Dataset.from_arrays(axes, {psi: values + 0.05 * values.std() * noise}, period=period)
    a, b = psi.real_part, psi.imaginary_part
    assert [str(name) for name in data.values] == ["psi_re", "psi_im"]
    cubic = (a**2 + b**2) * b
    library = cf.Library(
        anchor=dt(a),
        terms={"b_xx": b.diff(x, 2), "cubic": cubic, "a": a, "b": b, "a_xx": a.diff(x, 2)},
    )
    check(screened(library, data), {"b_xx": -0.5, "cubic": -1.0}, 0.03)
    with pytest.raises(cf.InputError, match="no values of psi, but of psi_re, psi_im"):
        cf.Design.from_fields(cf.Library(anchor=dt(psi), terms={"psi": psi}), data)


def test_complex_numbers_without_imaginary_parts_are_real():
    data = cf.Dataset.from_arrays(AXES, {u: np.ones((30, 20)) + 0j})
    assert data.values[u].dtype == float
    with pytest.raises(cf.InputError, match="u_re is the name of a part"):
        cf.Dataset.from_arrays(AXES, {u: np.ones((30, 20)) * 1j, u.real_part: np.ones((30, 20))})


def test_complex_variables_of_xarray_keep_their_imaginary_part():
    xarray = pytest.importorskip("xarray")
    values = np.exp(1j * np.linspace(0, 1, 600)).reshape(30, 20)
    file = xarray.Dataset({"E": (("x", "t"), values)}, {"x": AXES[x], "t": AXES[t]})
    data = cf.Dataset.from_xarray(file, {u: "E"})
    assert np.array_equal(data.values[u.imaginary_part], values.imag)


# Refusals
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.where(np.eye(30, 20) > 0, np.inf, 1.0), "contain infinity; write NaN"),
        (np.full((30, 20), "a"), "must be numbers"),
    ],
)
def test_values_that_are_no_real_numbers_are_told(values, message):
    with pytest.raises(cf.InputError, match=message):
        cf.Dataset.from_arrays(AXES, {u: values})


def test_a_system_needs_a_design_for_each_equation():
    system = cf.System(
        {u: cf.Library(anchor=dt(u), terms={"w": w}), w: cf.Library(anchor=dt(w), terms={"u": u})}
    )
    data = cf.Dataset.from_arrays(AXES, {u: np.ones((30, 20)), w: np.ones((30, 20))})
    with pytest.raises(cf.InputError, match="a design is of one equation"):
        cf.Design.from_fields(system, data)


@pytest.mark.parametrize("kind", ["weak", "strong"])
@pytest.mark.parametrize(
    ("term", "message"), [(u.diff(x), "derivatives along x"), (x * u, "the coordinate x")]
)
def test_axes_that_were_not_measured_are_told(kind, term, message):
    data = cf.Dataset.from_arrays({t: np.linspace(0, 1, 50)}, {u: np.linspace(0, 1, 50)})
    with pytest.raises(cf.InputError, match=message):
        cf.Design.from_fields(
            cf.Library(anchor=dt(u), terms={"term": sp.sympify(term)}), data, kind=kind
        )
