"""Derivatives of noisy fields by local polynomials, up to the ends of the grid."""

import numpy as np
import pytest

from cffem.data.noise.local_polynomials import local_derivative, widest_half
from cffem.data.rows.on_grids import derivative

POINTS, TIMES = np.linspace(0, 8, 161), np.linspace(0, 1, 31)
CLEAN = np.sin(1.3 * POINTS[:, None] - TIMES) + 0.5 * np.cos(0.7 * POINTS[:, None] + 2 * TIMES)
BEND = -1.69 * np.sin(1.3 * POINTS[:, None] - TIMES) - 0.245 * np.cos(
    0.7 * POINTS[:, None] + 2 * TIMES
)


def error(noise, rows):
    noisy = CLEAN + noise * np.random.default_rng(3).standard_normal(CLEAN.shape)
    found = local_derivative(noisy, [POINTS, TIMES], (2, 0), noise)
    return np.sqrt(((found - BEND)[rows] ** 2).mean() / (BEND**2).mean())


def test_without_noise_the_derivative_is_that_of_the_field():
    assert error(0.0, slice(None)) < 1e-3


@pytest.mark.parametrize(("noise", "inside"), [(0.01, 0.05), (0.05, 0.1)])
def test_noise_is_amplified_far_less_than_by_differences(noise, inside):
    noisy = CLEAN + noise * np.random.default_rng(3).standard_normal(CLEAN.shape)
    differences = derivative(derivative(noisy, POINTS, 0), POINTS, 0)
    ends = np.sqrt(((differences - BEND)[[0, -1]] ** 2).mean() / (BEND**2).mean())
    assert error(noise, slice(20, -20)) < inside
    assert error(noise, [0, -1]) < ends / 15


def test_more_noise_asks_for_wider_windows():
    random = np.random.default_rng(1).standard_normal(CLEAN.shape)
    halves = [widest_half(CLEAN + sd * random, POINTS, 0, 4, sd) for sd in (0.0, 0.001, 0.01, 0.1)]
    assert halves == sorted(halves)
    assert halves[0] == 2
    assert halves[-1] > 10


def test_a_periodic_axis_has_no_ends():
    points = 2 * np.pi * np.arange(64) / 64
    values = np.sin(points)[:, None] * np.ones(5)
    found = local_derivative(values, [points, np.arange(5.0)], (1, 0), 0.0, [2 * np.pi, None])
    assert np.abs(found - np.cos(points)[:, None]).max() < 1e-4


def test_irregular_readings_are_served():
    points = np.sort(np.random.default_rng(2).uniform(0, 1, 60))
    values = (points**4)[:, None] * np.ones(5)
    found = local_derivative(values, [points, np.arange(5.0)], (2, 0), 0.0)
    np.testing.assert_allclose(found[:, 2], 12 * points**2, atol=1e-8)
