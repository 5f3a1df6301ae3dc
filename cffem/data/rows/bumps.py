# SPDX-License-Identifier: MIT
"""The bump (1 − s²)^p with its derivatives: the profile of every test function, on grids and
between scattered points.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial


def bump_derivatives(s: np.ndarray, power: int, orders: int) -> np.ndarray:
    """(1 − s²)^p and its derivatives up to `orders`, zero outside [−1, 1].

    The d-th derivative is (1 − s²)^(p−d) q_d with q_{d+1} = (1 − s²) q_d' − 2 (p − d) s q_d: no
    cancellation at the ends.

    Example:
        >>> bump_derivatives(np.array([0.0, 1.0]), 3, 1)
        array([[ 1.,  0.],
               [ 0., -0.]])
    """
    return np.array([bump_derivative(s, power, order) for order in range(orders + 1)])


def bump_derivative(s: np.ndarray, power: int, order: int) -> np.ndarray:
    """The derivative of (1 − s²)^p of one order, zero outside [−1, 1]."""
    if order >= power:
        raise ValueError(
            f"a bump of power {power} has only {power - 1} continuous derivatives, but {order} "
            "are needed"
        )
    return np.clip(1 - s**2, 0, None) ** (power - order) * np.polynomial.polynomial.polyval(
        s, bump_factor(power, order)
    )


@lru_cache(maxsize=256)
def bump_factor(power: int, order: int) -> tuple[float, ...]:
    """Coefficients of q_d, lowest first."""
    if order == 0:
        return (1.0,)
    lower, base = Polynomial(bump_factor(power, order - 1)), Polynomial([1.0, 0.0, -1.0])
    factor = base * lower.deriv() - 2 * (power - order + 1) * Polynomial([0.0, 1.0]) * lower
    return tuple(factor.coef)
