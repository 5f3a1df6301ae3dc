# SPDX-License-Identifier: MIT
"""Error bars and stability from block Grams: jackknife, Bayesian block bootstrap and stability
selection.

Leaving out or reweighting a block is a subtraction or a weighted sum of small matrices, so a
thousand replicates cost milliseconds. Neighbouring rows are correlated; blocks are the smallest
pieces that are resampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.stats import t as student


def solve_support(grams: np.ndarray, support: Sequence[int], ridge: float = 0.0) -> np.ndarray:
    """Least-squares coefficients of a support from one or many Grams of [y, A]."""
    index = np.asarray(support, dtype=int) + 1
    inner = grams[..., index[:, None], index[None, :]]
    right = grams[..., index, 0]
    scale = np.sqrt(np.abs(np.einsum("...ii->...i", inner)))
    scale = np.where(scale > 0, scale, 1.0)
    scaled = inner / (scale[..., :, None] * scale[..., None, :]) + ridge * np.eye(len(index))
    try:
        solved = np.linalg.solve(scaled, (right / scale)[..., None])[..., 0]
    except np.linalg.LinAlgError:
        solved = (np.linalg.pinv(scaled) @ (right / scale)[..., None])[..., 0]
    return solved / scale


def jackknife(blocks: np.ndarray, support: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of a support and their block-jackknife standard errors."""
    count, total = len(blocks), blocks.sum(axis=0)
    estimate = solve_support(total, support)
    if count < 3:
        return estimate, np.full(len(support), np.inf)
    left_out = solve_support(total - blocks, support)
    spread = ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0)
    return estimate, np.sqrt((count - 1) / count * spread)


@lru_cache(maxsize=256)
def t_threshold(blocks: int, tests: int, level: float = 0.05) -> float:
    """Two-sided Student quantile with Bonferroni correction over the library."""
    return float(student.ppf(1 - level / (2 * max(tests, 1)), max(blocks - 1, 1)))


def interval_factor(blocks: int, level: float = 0.95) -> float:
    """Student factor of a confidence interval from `blocks` blocks."""
    return float(student.ppf((1 + level) / 2, max(blocks - 1, 1)))


def bayesian_weights(blocks: int, replicates: int, seed: int = 0) -> np.ndarray:
    """Dirichlet weights of the Bayesian bootstrap, with mean one."""
    random = np.random.default_rng(seed)
    return random.dirichlet(np.ones(blocks), replicates) * blocks


def reweighted(blocks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Gram of every bootstrap replicate."""
    flat = blocks.reshape(len(blocks), -1)
    return (weights @ flat).reshape(len(weights), *blocks.shape[1:])
