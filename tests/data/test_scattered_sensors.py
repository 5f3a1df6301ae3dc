# SPDX-License-Identifier: MIT
"""Scattered sensors: splines of higher order between them, widths by error, few times, and
points that lie close together.
"""

import numpy as np
import pytest

import cffem as cf
from benchmarks.screening import screening_data as cases
from cffem.data.noise.point_noise import MeshSmoothing, measure_point_noise
from cffem.data.noise.reconstruction import Spline
from cffem.data.rows.on_points import PointSampling
from cffem.data.rows.point_mesh import POINT_TESTS, PointMesh
from cffem.data.rows.widths import Width, WidthRule, best_width

SIZE = 64


@pytest.fixture(scope="module")
def flow():
    """Decaying vortices on a periodic square: times, and a function that evaluates the
    velocity anywhere.
    """
    _, _, times, velocity = cases.vortices(size=SIZE, steps=61, end=3.0)
    spectrum = np.fft.fft2(velocity, axes=(1, 2)) / SIZE**2
    waves = np.fft.fftfreq(SIZE, 1 / SIZE)

    def at(points):
        along, across = (np.exp(1j * np.outer(points[:, i], waves)) for i in range(2))
        return np.einsum("pa,pb,cabt->cpt", along, across, spectrum, optimize=True).real

    return times, at


def screened(flow, count, noise=0.0, seed=0, frames=slice(None)):
    times, at = flow
    points = 2 * np.pi * np.random.default_rng(seed + 5).random((count, 2))
    v, library = cases.vortex_library()
    values = cases.with_noise(at(points)[..., frames], noise, seed)
    data = cf.Dataset.from_points(points, times[frames], {v: values}, projected=True)
    return cf.Screening(method="subset").fit(cf.Design.from_fields(library, data))


def check(fitted, convection, viscosity):
    assert fitted.names_ == ("(v.grad)v", "lap v")
    assert fitted.reliable_, fitted.reasons_
    for name, value, tolerance in (("(v.grad)v", -1.0, convection), ("lap v", 0.02, viscosity)):
        number = fitted.design_.names.index(name)
        low, high = fitted.intervals_[number]
        assert fitted.coef_[number] == pytest.approx(value, rel=tolerance)
        assert low <= value <= high


@pytest.mark.parametrize("count", [484, 1000])
def test_convection_from_few_sensors(flow, count):
    check(screened(flow, count), 0.02, 0.02)


@pytest.mark.parametrize("seed", range(2))
def test_flow_from_noisy_sensors(flow, seed):
    check(screened(flow, 1000, 0.2, seed), 0.05, 0.2)


def test_flow_from_sensors_at_ten_times(flow):
    check(screened(flow, 1000, frames=slice(0, 20, 2)), 0.02, 0.05)


@pytest.mark.parametrize(("dim", "degree"), [(2, 3), (3, 2)])
def test_splines_reproduce_polynomials_whatever_their_smoothing(dim, degree):
    random = np.random.default_rng(0)
    points, targets = random.random((200, dim)), random.random((30, 2, dim))
    for smoothing in (1e-9, 1e-2):
        matrix = Spline(degree=degree, smoothing=smoothing).matrix(points, targets)
        for values in (lambda p: p[..., 0] ** degree, lambda p: p[..., 0] * p[..., 1] + p[..., -1]):
            np.testing.assert_allclose(matrix @ values(points), values(targets).ravel(), atol=1e-7)


def test_splines_are_of_higher_order_than_linear():
    random = np.random.default_rng(1)
    errors = []
    for count in (400, 1600):  # half the distance between points
        points, targets = random.random((count, 2)), 0.2 + 0.6 * random.random((300, 1, 2))
        wave = lambda p: np.sin(7 * p[..., 0] + 3 * p[..., 1])  # noqa: E731
        errors.append(
            np.sqrt(
                (
                    (Spline().matrix(points, targets) @ wave(points) - wave(targets).ravel()) ** 2
                ).mean()
            )
        )
    assert errors[1] < errors[0] / 6


def test_smoothing_keeps_the_noise_of_close_points_down():
    random = np.random.default_rng(2)
    points = random.random((200, 2))
    points = np.concatenate([points, points[:50] + 1e-5])
    targets = 0.2 + 0.6 * random.random((300, 1, 2))
    gains = [
        Spline(smoothing=s).matrix(points, targets).power(2).sum(axis=1).max() for s in (1e-9, 1e-2)
    ]
    assert gains[0] > 100
    assert gains[1] < 20


def test_two_sensors_at_almost_one_place_do_not_slow_heat_flow():
    points = np.random.default_rng(3).random((300, 2))
    points[1] = points[0] + 1e-9
    smoothing = PointMesh(points).smoothing
    neighbours = smoothing.laplacian.getnnz(axis=1).max() - 1
    assert smoothing.largest <= 2 * neighbours * POINT_TESTS.closest**2


def test_heat_flow_by_polynomials_is_that_by_steps():
    smoothing = PointMesh(np.random.default_rng(4).random((200, 2))).smoothing
    curvature = 40.0
    reach = curvature / (2 * smoothing.nyquist) * smoothing.largest
    steps = int(np.ceil(reach))
    expected = smoothing.probes
    for _ in range(steps):
        expected = expected - smoothing.laplacian @ expected * (reach / smoothing.largest / steps)
    expected = expected / np.sqrt((expected**2).mean())
    np.testing.assert_allclose(
        smoothing.correlate(smoothing.probes, curvature), expected, atol=1e-6
    )


@pytest.mark.parametrize("count", [3, 5, 10])
def test_noise_of_few_readings_is_measured_in_space(count):
    random = np.random.default_rng(5)
    points, times = random.random((1500, 2)), np.linspace(0, 1, count)
    clean = np.sin(4 * points[:, :1] + 20 * times) * np.cos(
        3 * points[:, 1:]
    )  # fast in time, smooth in space
    mesh = PointMesh(points)
    noisy = clean + 0.05 * random.standard_normal(clean.shape)
    assert measure_point_noise(noisy, mesh.smoothing, times, mesh.misses).sd == pytest.approx(
        0.05, rel=0.15
    )
    assert measure_point_noise(clean, mesh.smoothing, times, mesh.misses).sd < 2e-3


def test_readings_too_few_for_any_noise_are_told():
    with pytest.raises(cf.InputError, match="noise of scattered data needs"):
        measure_point_noise(
            np.zeros((4, 3)),
            MeshSmoothing(PointMesh(np.random.default_rng(0).random((9, 2))).laplacian, 2),
        )


def test_noise_asks_for_wider_test_functions_on_the_same_sensors(flow):
    times, at = flow
    points = 2 * np.pi * np.random.default_rng(5).random((1000, 2))
    v, _ = cases.vortex_library()
    areas = []
    for noise in (0.0, 0.2):
        data = cf.Dataset.from_points(
            points, times, {v: cases.with_noise(at(points), noise, 0)}, projected=True
        )
        sampling = PointSampling(data, (5, 5, 0, 1))
        areas.append(np.prod(sampling.radius) * sampling.time.half)
    assert areas[1] > 1.3 * areas[0]


def test_widths_leave_enough_rows():
    rule = WidthRule(fewest_rows=60.0)
    found = best_width(
        [Width(1.0, 5, 0.2, 200.0), Width(1.4, 5, 0.1, 100.0), Width(2.0, 5, 0.05, 20.0)], rule
    )
    assert found.factor == 1.4
    assert best_width([Width(1.0, 5, 0.2, 30.0), Width(1.4, 5, 0.1, 10.0)], rule).factor == 1.0
