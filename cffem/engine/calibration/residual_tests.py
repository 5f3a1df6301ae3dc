# SPDX-License-Identifier: MIT
"""Are the residuals of a fit what noise leaves? Two tests, said in words.

χ² has n − p degrees of freedom if the model and the noise level are right. If the residuals of each
sensor are white in time, Σ r_k r_{k+1} over its N neighbouring readings has mean zero and the
variance N; a model that misses a term leaves residuals that go on from one reading to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

UNLIKELY = 1e-3  # a misfit is said below this probability
FEWEST_PAIRS = 8  # neighbouring readings for a test of whiteness


@dataclass(frozen=True)
class ResidualTests:
    """Probabilities under a right model.

    Attributes:
        chi2: of a χ² that is as large; None where the noise level is unknown, which is then
            estimated from it.
        white: of neighbouring residuals that are as similar or opposite; None with too few.
        correlation: of neighbouring residuals.
        misfit: what is wrong, in words; empty where nothing is.
    """

    chi2: float | None
    white: float | None
    correlation: float
    misfit: str


def residual_tests(
    residual: np.ndarray, series: Sequence[np.ndarray], fitted: int, known: bool
) -> ResidualTests:
    """Test residuals in units of their noise.

    Args:
        residual: readings minus data.
        series: the readings of each sensor in the order of time.
        fitted: how many coefficients were fitted to them.
        known: whether the noise level is known.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=200)
        >>> residual_tests(noise, [np.arange(200)], 3, True).misfit
        ''
        >>> residual_tests(3 * noise, [np.arange(200)], 3, True).misfit
        'the residuals are 2.9 times what the noise explains: the model or the noise level is wrong'
    """
    freedom = len(residual) - fitted
    total = float(residual @ residual)
    size = total / freedom if freedom > 0 else np.nan
    chi2 = float(stats.chi2.sf(total, freedom)) if known and freedom > 0 else None
    variance = total / len(residual)
    pairs = [(residual[s[:-1]], residual[s[1:]]) for s in series if len(s) > 1]
    count = sum(len(a) for a, _ in pairs)
    white, correlation = None, 0.0
    if count >= FEWEST_PAIRS and variance > 0:
        correlation = sum(float(a @ b) for a, b in pairs) / (count * variance)
        white = float(2 * stats.norm.sf(abs(correlation) * np.sqrt(count)))
    said = []
    if chi2 is not None and chi2 < UNLIKELY:
        said.append(
            f"the residuals are {np.sqrt(size):.1f} times what the noise explains: the model or "
            "the noise level is wrong"
        )
    if white is not None and white < UNLIKELY:
        said.append(
            f"neighbouring residuals of a sensor go together (correlation {correlation:.2f}): the "
            "model misses something, or the noise is not white"
        )
    return ResidualTests(chi2, white, correlation, "; ".join(said))
