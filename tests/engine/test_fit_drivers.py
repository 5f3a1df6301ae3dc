"""Ways down to a fit and losses: the gradient by adjoints, robust losses with their statistics."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from test_calibration import POINTS, reaction, readings, u

import cffem as cf
from cffem.engine.calibration.adjoint_descent import cost_gradient
from cffem.engine.calibration.calibration_settings import CalibrationSettings
from cffem.engine.calibration.fit_inputs import least_squares_of


@pytest.mark.parametrize("loss", ["linear", "cauchy"])
def test_the_gradient_by_adjoints_has_second_order_remainders(loss):
    library, experiment = reaction(spurious=True)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = readings(library, experiment, sensors)
    settings = CalibrationSettings(prior={"lap": (0.0, 0.02)}, loss=loss)
    problem = least_squares_of(library, [experiment], [(sensors, data)], settings)
    place = np.array([0.5, 0.06, -0.7, 0.1])
    toward = np.array([1.0, -0.05, 0.7, 0.4])
    slope = float(cost_gradient(problem, problem.point(place)) @ toward)
    test = cf.taylor_test(lambda s: problem.point(place + s * toward).cost, slope, (0.02, 0.01))
    assert test.passed(1.9), test
    matrix = problem.matrix(problem.point(place))
    weights = problem.loss.weights(problem.point(place).residual) * problem.point(place).residual
    expected = 2 * matrix.T @ weights
    assert cost_gradient(problem, problem.point(place)) == pytest.approx(expected, rel=1e-7)


def test_adjoints_end_where_tangents_end():
    library, experiment = reaction(spurious=True)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = readings(library, experiment, sensors)
    plain = cf.calibrate(library, experiment, (sensors, data))
    other = cf.calibrate(library, experiment, (sensors, data), method="adjoint")
    assert other.adjoints > 0
    assert other.tangents <= 3 < plain.tangents
    assert other.chi2 == pytest.approx(plain.chi2, abs=1e-4)
    for name, spread in plain.deviations.items():
        assert abs(other.coefficients[name] - plain.coefficients[name]) < 0.02 * spread
        assert other.deviations[name] == pytest.approx(spread, rel=0.02)


def test_a_robust_fit_counts_outliers_where_terms_are_deleted():
    """Intervals and Δχ² of the loss, also where the noise level is unknown."""
    library, experiment = reaction(spurious=True)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    clean = readings(library, experiment, sensors, seed=4)
    plain = cf.calibrate(library, experiment, (sensors, clean))
    data = clean.copy()
    data[[7, 20, 31]] += 1.0
    for noise in (0.02, None):
        observed = cf.Sensors(POINTS, [u], noise=noise)
        fit = cf.calibrate(library, experiment, (observed, data), loss="huber")
        assert fit.chi2 < 3 * 100 / 0.5  # three outliers of fifty deviations, and noise
        if noise is None:
            assert fit.noise_level == pytest.approx(0.02, rel=0.4)
        for name, spread in fit.deviations.items():
            assert spread < 2 * plain.deviations[name]
            assert abs(fit.coefficients[name] - plain.coefficients[name]) < 3 * spread
        assert fit.without("lap").needed
        assert not fit.without("u_x").needed
        assert not fit.tests.misfit
