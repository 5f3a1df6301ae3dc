# SPDX-License-Identifier: MIT
"""Sensors whose readings are missing here and there, or that were each read at times of their
own.
"""

import numpy as np
import pytest

import cffem as cf
from benchmarks.screening import screening_data as cases
from cffem.data.noise.own_times import gathered

TRUTH = {"(u^1)_x": -0.13, "(u^1)_y": -0.09, "lap u": 1e-3}
POINTS = np.random.default_rng(0).random((900, 2))
TIMES = np.linspace(0, 3, 51)


def values_at(times):
    """Gaussians that move and spread, at n × m times."""
    rows = [
        cases.moving_gaussians(p[None], row, (0.13, 0.09), 1e-3, (0.1, 0.14))[0]
        for p, row in zip(POINTS, times, strict=True)
    ]
    return np.array(rows)


@pytest.fixture(scope="module")
def clean():
    return values_at(np.broadcast_to(TIMES, (len(POINTS), len(TIMES))))


def check(data, tolerance):
    fitted = cf.Screening(method="subset").fit(
        cf.Design.from_fields(cases.transport_library(2), data)
    )
    assert set(fitted.names_) == set(TRUTH)
    assert fitted.reliable_, fitted.reasons_
    for name, value in TRUTH.items():
        number = fitted.design_.names.index(name)
        low, high = fitted.intervals_[number]
        assert fitted.coef_[number] == pytest.approx(value, rel=tolerance)
        assert low <= value <= high


@pytest.mark.parametrize(
    ("share", "noise", "tolerance"), [(0.05, 0.0, 5e-3), (0.4, 0.0, 5e-3), (0.2, 0.1, 0.1)]
)
def test_readings_missing_at_random(clean, share, noise, tolerance):
    missing = np.random.default_rng(2).random(clean.shape) < share
    data = cf.Dataset.from_points(
        POINTS, TIMES, {cases.u: np.where(missing, np.nan, cases.with_noise(clean, noise, 0))}
    )
    check(data, tolerance)


@pytest.mark.parametrize(("noise", "tolerance"), [(0.0, 5e-3), (0.1, 0.1)])
def test_each_sensor_at_its_own_times(noise, tolerance):
    own = np.sort(np.random.default_rng(1).uniform(0, 3, (len(POINTS), len(TIMES))), axis=1)
    check(
        cf.Dataset.from_points(POINTS, own, {cases.u: cases.with_noise(values_at(own), noise, 0)}),
        tolerance,
    )


def test_sensors_that_were_silent_for_long_are_filled_from_their_neighbours(clean):
    values = clean.copy()
    values[::10, 20:35] = np.nan
    _, filled, how = gathered(POINTS, TIMES, {cases.u: values})
    assert how.noise[cases.u] < 1e-3 * clean.std()
    inner = ((POINTS > 0.1) & (POINTS < 0.9)).all(axis=1)
    assert np.abs(filled[cases.u] - clean)[inner].max() < 0.02 * np.abs(clean).max()


def test_noise_is_spread_as_the_readings_are(clean):
    missing = np.random.default_rng(2).random(clean.shape) < 0.3
    _, _, how = gathered(POINTS, TIMES, {cases.u: np.where(missing, np.nan, clean + 0.05)})
    ones = np.ones(clean.shape)
    np.testing.assert_allclose(how.spread(ones), ones, atol=1e-6)


def test_tables_with_times_of_each_sensor(tmp_path):
    rows = ["x,y,t,T"]
    random = np.random.default_rng(3)
    for p in POINTS[:60]:
        rows += [
            f"{p[0]},{p[1]},{s},{p[0] + 2 * s}"
            for s in np.sort(random.uniform(0, 1, random.integers(8, 12)))
        ]
    (tmp_path / "own.csv").write_text("\n".join(rows))
    data = cf.Dataset.from_csv(tmp_path / "own.csv", {cases.u: "T"})
    assert data.points.shape == (60, 2)
    expected = data.points[:, :1] + 2 * data.coordinates[cf.t]
    np.testing.assert_allclose(data.values[cases.u], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.tile([0.0, 1.0, 1.0, 2.0, 3.0], (9, 1)), "two readings at the same time"),
        (np.arange(45.0).reshape(9, 5), "were not read during a common time"),
        (np.full((9, 5), np.nan), "less than 4 readings"),
        (np.tile(np.arange(5.0), (8, 1)), "each of the 9 sensors needs its row of times"),
    ],
)
def test_readings_that_cannot_be_joined_are_told(times, message):
    with pytest.raises(cf.InputError, match=message):
        cf.Dataset.from_points(POINTS[:9], times, {cases.u: np.ones((9, 5))})
