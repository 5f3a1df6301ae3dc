# SPDX-License-Identifier: MIT
"""Weights with which sums over few readings keep integration by parts, and how far from it they
still are.

A sum over few readings is no integral: on seven readings −Σ tφ′ is 14 % short of Σ φ, and a
coefficient is 14 % short with it. What a row needs is not the integrals themselves but that they
belong to one test function: for every order d of a derivative

    Σ_i w_{d,i} P(t_i) = (−1)^d Σ_i w_{0,i} P^(d)(t_i)   for all polynomials P up to a degree,

wherever the readings are. The weights of all orders are changed together, as little as possible,
until this holds. As w_0 is free to give way, n readings keep it up to degree 2n − 2 for a first
derivative, where weights that integrate against the bump itself stop at n − 1. Interpolation that
uses values and slopes gains the same way (Hermite).

Beyond that degree the rows of smooth data fail by what the polynomials of higher degree in the data
contribute. Their size is extrapolated from those that the readings show, as the Legendre
coefficients of exp(λt) fall.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import legendre

from cffem.data.rows.bumps import bump_derivatives

GAUSS_POINTS = 40  # integrate a bump of the largest power exactly
SEEN = 8  # degree up to which Legendre coefficients are read off the data
LAST = 20  # degree up to which they are extrapolated
ROUNDING = 1e-9  # of an identity that counts as exact


@dataclass(frozen=True)
class MomentRule:
    """How weights are made to keep integration by parts.

    Args:
        degree: of the polynomials for which it holds, where there are readings for it.
        edge: share of the correction that the ends of a bump may carry, relative to its middle.
        largest_sum: of |w| relative to ∫ |φ^(d)|; readings whose weights exceed it get a lower
            degree.
    """

    degree: int = 12
    edge: float = 1e-3
    largest_sum: float = 3000.0

    def weights(self, s: np.ndarray, power: int, orders: int) -> np.ndarray:
        """(1 + orders) × readings: the weights of each derivative of the bump for readings at
        s ∈ [−1, 1].
        """
        spacing = np.gradient(s)
        spacing[0], spacing[-1] = (s[1] - s[0]) / 2, (s[-1] - s[-2]) / 2
        plain = bump_derivatives(s, power, orders) * spacing
        nodes, gauss = legendre.leggauss(GAUSS_POINTS)
        exact = bump_derivatives(nodes, power, orders) * gauss
        size = np.abs(exact).sum(axis=1)
        freedom = np.sqrt(((1 - s**2) ** 2 + self.edge) * spacing) * size[:, None]
        for degree, lower in self.degrees(len(s), orders):
            rows = np.concatenate(
                [total_of(len(s), orders)[None], identities(s, orders, degree, lower)]
            )
            wanted = np.r_[exact[0].sum(), np.zeros(len(rows) - 1)]
            scaled = rows * freedom.ravel()
            norms = np.linalg.norm(scaled, axis=1)
            scaled, lacking = scaled / norms[:, None], (wanted - rows @ plain.ravel()) / norms
            change = np.linalg.lstsq(scaled, lacking, rcond=1e-12)[0]
            found = plain + freedom * change.reshape(plain.shape)
            holds = np.abs(scaled @ change - lacking).max() <= ROUNDING * exact[0].sum()
            if holds and (np.abs(found).sum(axis=1) <= self.largest_sum * size).all():
                return found
        return found

    def degrees(self, count: int, orders: int) -> Iterator[tuple[int, int]]:
        """The degrees to try, best first: of the highest derivative, and of those below it.

        The highest derivative belongs to the anchor where readings are few. It has all the freedom
        of its own weights and of w_0; those in between get what is left.
        """
        for degree in range(min(self.degree, 2 * count - 2), -1, -1):
            if orders > 1:
                joint = (count * (orders + 1) - 2 - degree) // (orders - 1) - 1
                yield degree, min(degree, max(joint, 0))
            else:
                yield degree, degree


def total_of(count: int, orders: int) -> np.ndarray:
    """The row that adds up the weights of order zero."""
    row = np.zeros((orders + 1, count))
    row[0] = 1.0
    return row.ravel()


def identities(s: np.ndarray, orders: int, degree: int, lower: int | None = None) -> np.ndarray:
    """Rows that take all weights to Σ w_d P_k − (−1)^d Σ w_0 P_k^(d) for the Legendre
    polynomials up to a degree; up to a lower one for all but the highest derivative.
    """
    rows = np.zeros((orders, degree + 1, orders + 1, len(s)))
    values = legendre.legvander(s, degree)
    for order in range(1, orders + 1):
        rows[order - 1, :, order] = values.T
        rows[order - 1, :, 0] = -((-1) ** order) * (values @ differentiation(degree, order)).T
    kept = np.ones((orders, degree + 1), dtype=bool)
    if lower is not None:
        kept[: orders - 1, lower + 1 :] = False
    return rows[kept].reshape(-1, (orders + 1) * len(s))


@lru_cache(maxsize=128)
def differentiation(degree: int, order: int) -> np.ndarray:
    """The matrix that takes Legendre coefficients to those of a derivative."""
    matrix = np.zeros((degree + 1, degree + 1))
    for number in range(order, degree + 1):
        unit = np.zeros(number + 1)
        unit[number] = 1.0
        matrix[: number + 1 - order, number] = legendre.legder(unit, order)
    return matrix


@dataclass(frozen=True)
class Tail:
    """How the Legendre coefficients of data under a bump go on beyond those that the readings show.

    Args:
        ratio: of a coefficient to that two degrees lower, for the highest ones that are seen.
        signal: share of the highest ones that is not noise.
    """

    ratio: float
    signal: float

    @classmethod
    def of(cls, energy: np.ndarray, noise: np.ndarray) -> Tail:
        """The tail of data whose coefficients have these mean squares, noise included."""
        known = np.clip(energy - noise, 0, None)
        last = len(energy) - 1
        upper, lower = known[-2:].sum(), known[last - 3 : last - 1].sum() if last >= 4 else 0.0
        ratio = float(np.sqrt(upper / lower)) if lower > 0 else float(upper > 0)
        return cls(
            min(1.0, ratio), float(np.sqrt(upper / max(energy[-2:].sum(), np.finfo(float).tiny)))
        )

    def defects(self, s: np.ndarray, weights: np.ndarray, seen: int) -> np.ndarray:
        """(1 + orders) × readings: weights that estimate by how much the sums with the given
        weights fail.

        Args:
            s: the readings, from −1 to 1.
            weights: of every order of the derivative.
            seen: degree up to which the coefficients are read off the data.
        """
        fit = coefficients(s, seen)
        result = np.zeros_like(weights)
        degrees = np.arange(LAST + 1)
        beyond = np.maximum(degrees - seen, 0)
        decay = np.where(beyond > 0, self.signal, 1.0) * np.exp(
            falls(self.ratio, seen)[(beyond + 1) // 2]
        )
        place = np.where(beyond % 2 == 1, seen - 1, np.minimum(degrees, seen))
        for order in range(1, len(weights)):
            failing = np.abs(identities(s, order, LAST)[-LAST - 1 :] @ weights[: order + 1].ravel())
            sizes = np.bincount(place, failing * decay, seen + 1)
            result[order] = sizes @ fit
        return result


def falls(ratio: float, seen: int) -> np.ndarray:
    """Logarithms of the sizes of the coefficients seen + 2k relative to the last ones that are
    seen.

    Solutions of smooth evolutions are sums of exp(λt), whose coefficients fall by |λ|²/((2p + 1)(2p
    + 3)) from degree p to p + 2; the first of these factors is the ratio that is seen.
    """
    p = seen + 2.0 * np.arange((LAST - seen + 1) // 2 + 1)
    first = (2 * seen - 3) * (2 * seen - 1)
    steps = math.log(max(ratio, np.finfo(float).tiny)) + np.log(first / ((2 * p + 1) * (2 * p + 3)))
    return np.r_[0.0, np.cumsum(np.minimum(steps, 0.0))]


def coefficients(s: np.ndarray, degree: int) -> np.ndarray:
    """The matrix that takes values at readings to the Legendre coefficients of a polynomial fit."""
    return np.linalg.pinv(legendre.legvander(s, degree))
