# SPDX-License-Identifier: MIT
"""Few, irregular and random reading times: weights that are exact for polynomials, and
intervals that cover.
"""

import numpy as np
import pytest
from numpy.polynomial import Polynomial

import cffem as cf
from benchmarks.screening import screening_data as cases
from benchmarks.screening.drawn_frames import PLANE, damped, drawn_times, drifting, massive
from cffem import dt, lap, t, x, y
from cffem.data.noise.grid_noise import noise_sd
from cffem.data.rows.summation import MomentRule
from cffem.data.testfunctions import Axis, power_for

u = cf.ScalarField("u")
X = np.linspace(0, 2 * np.pi, 41)
A, B = np.meshgrid(X, X, indexing="ij")
MODES = [(k, m) for k in (1, 2, 3) for m in (1, 2)]


def reading_times(kind, count, end, seed=0):
    if kind == "equal":
        return np.linspace(0, end, count)
    if kind == "growing":
        return end * (np.geomspace(1, 10, count) - 1) / 9
    return np.sort(np.r_[0, end, np.random.default_rng(seed).uniform(0, end, count - 2)])


def heat(times):
    """u_t = 0.1 Δu, exactly."""
    return sum(
        np.exp(-0.1 * (k * k + m * m) * times) * (np.sin(k * A + m) * np.cos(m * B))[..., None]
        for k, m in MODES
    )


def wave(times):
    """u_tt = Δu, exactly."""
    return sum(
        np.cos(np.hypot(k, m) * times + k * m) * (np.sin(k * A + m) * np.cos(m * B))[..., None]
        for k, m in MODES
    )


def screened(anchor, terms, values, times):
    data = cf.Dataset.from_arrays({x: X, y: X, t: times}, {u: values})
    return cf.Screening(method="subset").fit(
        cf.Design.from_fields(cf.Library(anchor=anchor, terms=terms), data)
    )


def heat_screen(times, noise=0.0):
    values = heat(times)
    values = values + noise * values.std() * np.random.default_rng(1).standard_normal(values.shape)
    return screened(
        dt(u),
        {"u": u, "lap": lap(u), "1": cf.parse("1", fields=[u]), "u_x": u.diff(x)},
        values,
        times,
    )


def wave_screen(times):
    return screened(
        dt(dt(u)), {"u": u, "lap": lap(u), "damping": -dt(u), "u_x": u.diff(x)}, wave(times), times
    )


def check(fitted, truth, tolerance=5e-3):
    assert fitted.names_ == tuple(truth)
    assert fitted.reliable_, fitted.reasons_
    for name, value in truth.items():
        number = fitted.design_.names.index(name)
        low, high = fitted.intervals_[number]
        assert fitted.coef_[number] == pytest.approx(value, rel=tolerance)
        assert low <= value <= high


@pytest.mark.parametrize("half", range(1, 9))
@pytest.mark.parametrize("orders", [1, 2, 4])
@pytest.mark.parametrize("kind", ["equal", "growing", "random"])
def test_weights_keep_integration_by_parts(half, orders, kind):
    readings = 2 * half + 1
    if readings < orders + 2:
        pytest.skip("too few readings for the derivative")
    points = reading_times(kind, readings + 4, 3.0)
    rule = MomentRule(largest_sum=np.inf)
    axis = Axis(points, half, power_for(half, orders), 1, orders, rule)
    window = np.flatnonzero(axis.matrices[0, 0])
    middle, radius = points[window[[0, -1]]].mean(), np.ptp(points[window]) / 2
    local = (points - middle) / radius
    for order in range(1, orders + 1):
        for degree in range(min(order + 3, readings)):
            polynomial = Polynomial.basis(degree)
            moved = (-1) ** order * polynomial.deriv(order)(local) / radius**order
            found = axis.matrices[order, 0] @ polynomial(local)
            size = np.abs(axis.matrices[order, 0]).sum() + np.abs(axis.matrices[0, 0] * moved).sum()
            assert found == pytest.approx(axis.matrices[0, 0] @ moved, abs=1e-8 * size)


@pytest.mark.parametrize("kind", ["equal", "growing", "random"])
@pytest.mark.parametrize("count", [5, 6, 7])
def test_few_readings_keep_it_to_twice_their_degree(count, kind):
    s = 2 * reading_times(kind, count, 1.0) - 1
    value, slope = MomentRule(largest_sum=np.inf).weights(s, power_for((count - 1) // 2, 1), 1)
    for degree in range(2 * count - 1):
        polynomial = Polynomial.basis(degree)
        assert slope @ polynomial(s) == pytest.approx(-value @ polynomial.deriv()(s), abs=1e-8)


def test_readings_that_are_too_far_apart_are_told():
    fitted = wave_screen(np.linspace(0, 8.0, 8))
    assert not fitted.reliable_
    assert any("these readings are off by about" in r for r in fitted.reasons_)


@pytest.mark.parametrize("half", range(1, 9))
def test_integration_by_parts_holds_for_narrow_bumps(half):
    axis = Axis(np.arange(20.0), half, power_for(half, 1), 1, 1)
    middle = len(axis.centres) // 2
    assert -axis.matrices[1, middle] @ axis.coordinates == pytest.approx(
        axis.matrices[0, middle].sum(), rel=1e-12
    )


@pytest.mark.parametrize("count", [5, 6, 7, 8, 9, 10, 12, 14])
def test_diffusion_from_few_frames(count):
    check(heat_screen(reading_times("equal", count, 0.5)), {"lap": 0.1})


@pytest.mark.parametrize("count", [5, 6, 7, 8, 10, 12])
def test_speed_of_waves_from_few_frames(count):
    check(wave_screen(reading_times("equal", count, 1.0)), {"lap": 1.0})


@pytest.mark.parametrize("kind", ["growing", "random"])
@pytest.mark.parametrize("count", [7, 8, 10])
def test_waves_from_irregular_frames(kind, count):
    check(wave_screen(reading_times(kind, count, 1.0)), {"lap": 1.0})


@pytest.mark.parametrize("kind", ["growing", "random"])
@pytest.mark.parametrize("count", [5, 6, 7, 9, 12])
def test_diffusion_from_irregular_frames(kind, count):
    check(heat_screen(reading_times(kind, count, 0.5)), {"lap": 0.1})


@pytest.mark.parametrize(
    ("kind", "count", "seed"),
    [("growing", 5, 0), ("growing", 6, 0), *(("random", 6, s) for s in range(3))],
)
def test_waves_too_fast_for_their_readings_are_not_believed_wrongly(kind, count, seed):
    fitted = wave_screen(reading_times(kind, count, 1.0, seed))
    assert not fitted.reliable_ or fitted.names_ == ("lap",)
    low, high = fitted.intervals_[fitted.design_.names.index("lap")]
    assert low <= 1.0 <= high


@pytest.mark.parametrize(("make", "seed"), [(damped, 0), (damped, 1), (massive, 0), (massive, 1)])
@pytest.mark.parametrize("count", [5, 6, 8])
def test_long_windows_of_drawn_waves_are_right_or_not_believed(make, seed, count):
    random = np.random.default_rng([seed, count])
    problem = make(random)
    times = drawn_times(("equal", "random")[seed], count, 2.5 * problem.end, random)
    data = cf.Dataset.from_arrays({**problem.grid, t: times}, {u: problem.values(times)})
    fitted = cf.Screening().fit(
        cf.Design.from_fields(cf.Library(anchor=problem.anchor, terms=problem.terms), data)
    )
    if not fitted.reliable_:
        return
    assert set(fitted.names_) == set(problem.truth)
    for name, value in problem.truth.items():
        column = fitted.design_.names.index(name)
        low, high = fitted.intervals_[column]
        assert low <= value <= high
        assert fitted.coef_[column] == pytest.approx(value, rel=0.005)


@pytest.mark.parametrize(("end", "believed"), [(1.0, True), (2.5, False)])
def test_a_frame_left_out_tells_whether_frames_are_too_far_apart(end, believed):
    random = np.random.default_rng([39, 7])
    problem = damped(random)
    times = drawn_times("random", 7, end * problem.end, random)
    data = cf.Dataset.from_arrays({**problem.grid, t: times}, {u: problem.values(times)})
    library = cf.Library(anchor=problem.anchor, terms=problem.terms)
    fitted = cf.Screening().fit(cf.Design.from_fields(library, data))
    assert fitted.reliable_ == believed
    assert (fitted.reliability_.numbers["moved_without_a_reading_of_t"] < 0.005) == believed
    assert believed or "without one of the 7 frames" in fitted.reasons_[0]


@pytest.mark.parametrize("seed", [1, 5])
def test_the_fewest_frames_with_missing_values_are_not_believed(seed):
    # Both have a wrong support and would be believed otherwise.
    problem, times = damped(np.random.default_rng([seed, 5])), np.linspace(0, 2.5, 5)
    values = problem.values(times)
    values[np.random.default_rng(seed).random(values.shape) < 0.05] = np.nan
    data = cf.Dataset.from_arrays({**problem.grid, t: times}, {u: values})
    library = cf.Library(anchor=problem.anchor, terms=problem.terms)
    fitted = cf.Screening().fit(cf.Design.from_fields(library, data))
    assert not fitted.reliable_
    assert any("values are missing and 5 frames" in reason for reason in fitted.reasons_)


@pytest.mark.parametrize(("count", "step"), [(5, 1), (8, 2), (10, 2), (12, 2)])
def test_incompressible_flow_from_few_frames(count, step):
    xs, ys, times, velocity = cases.vortices(
        size=64, steps=count * step, end=0.1 * (count * step - 1)
    )
    v, library = cases.vortex_library()
    kept = slice(0, None, step)
    data = cf.Dataset.from_arrays(
        {x: xs, y: ys, t: times[kept]}, {v: velocity[..., kept]}, projected=True
    )
    check(
        cf.Screening(method="subset").fit(cf.Design.from_fields(library, data)),
        {"(v.grad)v": -1.0, "lap v": 0.02},
    )


@pytest.mark.parametrize("count", [6, 10])
def test_noise_of_few_frames_is_in_the_interval(count):
    fitted = heat_screen(np.linspace(0, 2.0, count), noise=0.02)
    low, high = fitted.intervals_[fitted.design_.names.index("lap")]
    assert low <= 0.1 <= high
    assert high - low > 4e-4  # far more than the floor of a noise-free fit


def test_noise_is_measured_at_irregular_times():
    random = np.random.default_rng(0)
    times = np.sort(random.uniform(0, 1, 2000))
    values = np.sin(8 * times) + 0.05 * random.standard_normal(2000)
    assert noise_sd(values, points=[times]) == pytest.approx(0.05, rel=0.2)
    assert noise_sd(np.sin(8 * times), points=[times]) < 1e-4


@pytest.mark.parametrize(("anchor", "count"), [(dt(u), 2), (dt(dt(u)), 4)])
def test_too_few_times_are_told(anchor, count):
    data = cf.Dataset.from_arrays(
        {x: np.linspace(0, 1, 30), t: np.arange(float(count))}, {u: np.ones((30, count))}
    )
    with pytest.raises(
        cf.InputError, match=rf"along t need at least \d readings there, but the data have {count}"
    ):
        cf.Design.from_fields(cf.Library(anchor=anchor, terms={"u": u}), data)


def test_steady_anchors_are_believed_under_noise():
    xs = np.linspace(0, 6, 400)
    for noise in (0.0, 0.01):
        values = (
            np.sin(2 * xs) + 3 + noise * np.random.default_rng(0).standard_normal(400)
        )  # u_xx = −4 u + 12
        for anchor in (u.diff(x, 2), lap(u)):
            library = cf.Library(
                anchor=anchor, terms={"u": u, "1": cf.parse("1", fields=[u]), "u_x": u.diff(x)}
            )
            data = cf.Dataset.from_arrays({x: xs}, {u: values})
            check(
                cf.Screening(method="subset").fit(cf.Design.from_fields(library, data)),
                {"u": -4.0, "1": 12.0},
                1e-2,
            )
    s = np.linspace(0, 6, 80)
    P, Q = np.meshgrid(s, s, indexing="ij")
    clean = np.sin(P) * np.cos(2 * Q) + 0.5 * np.sin(2 * P + Q)  # Δu = −5 u
    library = cf.Library(
        anchor=lap(u), terms={"u": u, "u2": u**2, "u_x": u.diff(x), "u_y": u.diff(y)}
    )
    for noise in (0.0, 0.05):
        noisy = clean + noise * np.random.default_rng(0).standard_normal(clean.shape)
        data = cf.Dataset.from_arrays({x: s, y: s}, {u: noisy})
        check(
            cf.Screening(method="subset").fit(cf.Design.from_fields(library, data)),
            {"u": -5.0},
            1e-2,
        )


@pytest.mark.parametrize(("kind", "count"), [("growing", 7), ("random", 7), ("equal", 5)])
def test_differences_of_few_frames_know_their_error(kind, count):
    line, times = np.linspace(0, 2 * np.pi, 65), reading_times(kind, count, 0.5)
    values = sum(np.exp(-0.1 * k * k * times) * np.sin(k * line + k)[:, None] for k in (1, 2, 3, 4))
    data = cf.Dataset.from_arrays({x: line, t: times}, {u: values})
    terms = {"u": u, "lap": u.diff(x, 2), "1": cf.parse("1", fields=[u]), "u_x": u.diff(x)}
    library = cf.Library(anchor=dt(u), terms=terms)
    fitted = cf.Screening().fit(cf.Design.from_fields(library, data, kind="strong"))
    assert fitted.names_ == ("lap",)
    low, high = fitted.intervals_[1]
    assert low <= 0.1 <= high
    assert fitted.coef_[1] == pytest.approx(0.1, rel=5e-3)


def drifting_waves(points, random):
    """Data of u_t = −a u_x − b u_y + D Δu with up to three waves a period, and its coefficients."""
    a, b = random.uniform(-0.8, 0.8, 2)
    diffusion = random.uniform(0.02, 0.1)
    across, times = np.linspace(0, 2 * np.pi, 24), np.linspace(0, 2, 60)
    along_x, along_y = np.meshgrid(points, across, indexing="ij")
    values = np.zeros((len(points), len(across), len(times)))
    for k, m in ((k, m) for k in range(4) for m in range(-2, 3) if (k, m) != (0, 0)):
        size, phase, square = random.normal(), random.uniform(0, 2 * np.pi), k * k + m * m
        place = (k * along_x + m * along_y + phase)[..., None] - (a * k + b * m) * times
        values += size / square * np.exp(-diffusion * square * times) * np.cos(place)
    data = cf.Dataset.from_arrays({x: points, y: across, t: times}, {u: values})
    return data, {"u_x": -a, "u_y": -b, "lap u": diffusion}


@pytest.mark.parametrize(("count", "believed"), [(6, False), (12, True)])
def test_few_readings_along_space_with_a_false_term_are_not_believed(count, believed):
    data, truth = drifting_waves(
        np.linspace(0, 4, count), np.random.default_rng([1, 5, 6, 1, 40, 0])
    )
    library = cf.Library(anchor=dt(u), terms=PLANE)
    fitted = cf.Screening().fit(cf.Design.from_fields(library, data))
    assert (set(fitted.names_) == set(truth)) == believed
    assert fitted.reliable_ == believed
    # Nothing else speaks against the two false terms of six readings.
    assert believed or ["6 readings along x" in reason for reason in fitted.reasons_] == [True]


@pytest.mark.parametrize("count", [6, 12])
def test_strong_rows_of_few_frames_hold_without_one(count):
    random = np.random.default_rng([2, count])
    problem = drifting(random)
    times = np.linspace(0, problem.end, count)
    data = cf.Dataset.from_arrays({**problem.grid, t: times}, {u: problem.values(times)})
    library = cf.Library(anchor=problem.anchor, terms=problem.terms)
    fitted = cf.Screening().fit(cf.Design.from_fields(library, data, kind="strong"))
    assert set(fitted.names_) == set(problem.truth)
    assert fitted.reliable_, fitted.reasons_
    assert "moved_without_a_reading_of_t" in fitted.reliability_.numbers
