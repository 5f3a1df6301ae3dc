# SPDX-License-Identifier: MIT
"""Integrals of many expressions against many bumps, each expression being evaluated once.

An integrand that is linear in a test function ψ is Σ_α g_α ∂^αψ at each point p, with |α| ≤ r and
factors g_α that know nothing of ψ. Its values F[m_β] for the monomials m_β(s) = s^β/β! are
evaluated instead of its values for each bump, and

    F[ψ] = Σ_β F[m_β] w_β(ψ),    w_β(ψ) = Σ_{α ≥ β, |α| ≤ r} (−s_p)^{α−β}/(α−β)! ∂^αψ(s_p),

which follows from the binomial theorem. Bumps overlap many times, so this is cheaper by about the
number of bumps over a cell divided by that of monomials.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import reduce

import numpy as np
from numpy.polynomial import Polynomial

# Cells whose values are brought together with the bumps at a time: few enough to meet few bumps,
# enough for matrix products to be fast.
CELLS = 128


def exponents(dimension: int, order: int) -> list[tuple[int, ...]]:
    """All exponents of monomials up to an order, the constant first.

    Example:
        >>> exponents(2, 1)
        [(0, 0), (0, 1), (1, 0)]
    """
    every = itertools.product(range(order + 1), repeat=dimension)
    return sorted((e for e in every if sum(e) <= order), key=lambda e: (sum(e), e))


class BumpMoments:
    """The bumps Π_i (1 − s_i²)^p with s = (x − centre)/width, and the weights of monomials.

    Args:
        centres: of the bumps, in units of the width.
        power: p.
        order: r, the order of the derivatives that integrands take of a test function.
    """

    def __init__(self, centres: np.ndarray, power: int, order: int):
        self.centres, self.order = centres, order
        self.exponents = exponents(centres.shape[1], order)
        bump = Polynomial([1.0, 0.0, -1.0]) ** power
        self.derivatives = [bump.deriv(k) if k else bump for k in range(order + 1)]
        axes = [np.unique(column, return_inverse=True) for column in centres.T]
        self._axes = [(values, np.asarray(places).ravel()) for values, places in axes]

    def weights(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The bumps that meet some points, and w_β of each there.

        Args:
            points: in units of the width, one row each.

        Returns:
            Numbers of bumps, and an array (bumps, monomials, points).
        """
        low, high = points.min(axis=0) - 1.0, points.max(axis=0) + 1.0
        near = np.flatnonzero(np.all((self.centres > low) & (self.centres < high), axis=1))
        factors = [self._along(axis, near, points[:, axis]) for axis in range(points.shape[1])]
        derived = {
            alpha: reduce(np.multiply, [f[k] for f, k in zip(factors, alpha, strict=True)])
            for alpha in self.exponents
        }
        result = np.zeros((len(near), len(self.exponents), len(points)))
        for number, beta in enumerate(self.exponents):
            for alpha in self.exponents:
                rest = [a - b for a, b in zip(alpha, beta, strict=True)]
                if not any(rest):
                    result[:, number] += derived[alpha]
                elif min(rest) >= 0:
                    scale = math.prod(math.factorial(k) for k in rest)
                    result[:, number] += np.prod((-points) ** rest, axis=1) / scale * derived[alpha]
        return near, result

    def _along(self, axis: int, near: np.ndarray, place: np.ndarray) -> Sequence[np.ndarray]:
        """Derivatives along one axis of the bumps `near`, (bumps, points) each."""
        values, places = self._axes[axis]
        used, rows = np.unique(places[near], return_inverse=True)
        s = place - values[used][:, None]
        inside = np.abs(s) < 1.0
        return [np.where(inside, d(s), 0.0)[rows] for d in self.derivatives]

    def integrals(
        self, points: np.ndarray, shares: np.ndarray, values: np.ndarray, total: np.ndarray
    ) -> None:
        """Add the integrals over some cells.

        Args:
            points: quadrature points in units of the width, (cells, points, dimension); cells that
                follow each other should be neighbours.
            shares: the weights of the quadrature, (cells, points).
            values: F[m_β], (several, cells, points, columns, monomials).
            total: what is added to, (several, bumps, columns).
        """
        several, cells, _, columns, _ = values.shape
        for first in range(0, cells, CELLS):
            part = slice(first, first + CELLS)
            near, weights = self.weights(points[part].reshape(-1, points.shape[2]))
            if len(near):
                weights *= shares[part].ravel()
                found = values[:, part].transpose(4, 1, 2, 0, 3).reshape(-1, several * columns)
                sums = weights.reshape(len(near), -1) @ found
                total[:, near] += sums.reshape(len(near), several, columns).transpose(1, 0, 2)
