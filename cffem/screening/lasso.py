# SPDX-License-Identifier: MIT
"""The Lasso from a Gram matrix: its path, the penalty that the noise asks for, adaptive weights,
many replicates at once.

Columns are scaled to ‖A_j‖²/n = 1 and the objective is (1/2n)‖Aβ − y‖² + λ‖β‖₁, so λ is on the
paper's scale.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path_gram

# Probability δ with which noise may exceed its bound.
CONFIDENCE = 0.05


@dataclass(frozen=True)
class LassoPath:
    """Knots of the Lasso path: decreasing penalties, and a column of coefficients for each."""

    alphas: np.ndarray
    coefficients: np.ndarray

    def at(self, alpha: float) -> np.ndarray:
        """Coefficients at any penalty; the path is linear between knots."""
        if alpha >= self.alphas[0]:
            return np.zeros(len(self.coefficients))
        if alpha <= self.alphas[-1]:
            return self.coefficients[:, -1]
        right = int(np.argmax(self.alphas <= alpha))
        left = right - 1
        share = (self.alphas[left] - alpha) / (self.alphas[left] - self.alphas[right])
        return (1 - share) * self.coefficients[:, left] + share * self.coefficients[:, right]

    def supports(self) -> list[tuple[int, ...]]:
        """The distinct supports met along the path."""
        found = dict.fromkeys(tuple(int(j) for j in np.flatnonzero(c)) for c in self.coefficients.T)
        return list(found)


def lasso_path(
    sigma: np.ndarray, right: np.ndarray, weights: np.ndarray | None = None
) -> LassoPath:
    """The Lasso path of a normalised Gram.

    Args:
        sigma: AᵀA/n with unit diagonal.
        right: Aᵀy/n.
        weights: penalty of each column relative to λ (adaptive Lasso); ones by default.

    Example:
        >>> path = lasso_path(np.eye(2), np.array([1.0, 0.25]))
        >>> path.at(0.5)
        array([0.5, 0. ])
    """
    factor = np.ones(len(right)) if weights is None else 1 / weights
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # a rank-deficient design ends its path early, which is all we need
        alphas, _, coefficients = lars_path_gram(
            right * factor,
            sigma * np.outer(factor, factor),
            n_samples=1,
            method="lasso",
            copy_X=True,
            copy_Gram=True,
        )
    return LassoPath(np.asarray(alphas), np.asarray(coefficients) * factor[:, None])


def noise_quantile(residual_variance: float, columns: int, rows: float) -> float:
    """Bound of ‖Aᵀη/n‖_∞ that holds with 95 % probability for rows·noise of this variance: σ
    √(2 log(2m/δ)/n).
    """
    return math.sqrt(
        2 * max(residual_variance, 0.0) * math.log(2 * columns / CONFIDENCE) / max(rows, 1.0)
    )


def batch_lasso(
    sigmas: np.ndarray, rights: np.ndarray, alpha: float, sweeps: int = 200
) -> np.ndarray:
    """Lasso coefficients of many replicates at one penalty, by coordinate descent on all
    replicates at once.
    """
    replicates, columns = rights.shape
    beta = np.zeros((replicates, columns))
    diagonal = np.einsum("rii->ri", sigmas)
    diagonal = np.where(diagonal > 0, diagonal, 1.0)
    for _ in range(sweeps):
        change = 0.0
        for j in range(columns):
            gradient = (
                rights[:, j]
                - np.einsum("rk,rk->r", sigmas[:, j], beta)
                + diagonal[:, j] * beta[:, j]
            )
            new = np.sign(gradient) * np.maximum(np.abs(gradient) - alpha, 0.0) / diagonal[:, j]
            change = max(change, float(np.abs(new - beta[:, j]).max()))
            beta[:, j] = new
        if change <= 1e-4 * (np.abs(beta).max() + 1e-300):
            break
    return beta
