# SPDX-License-Identifier: MIT
"""Eigenvalues of pieces of the Gram matrix: sparse eigenvalues, irrepresentability, and how κ̂
grows with the rows.

All functions take the normalised Gram Σ = AᵀA/n with unit diagonal, the scale on which the paper
states its conditions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np

from cffem.design.cone import Bracket, restricted_eigenvalue
from cffem.symbols.errors import InputError

# Supports up to which all of one size are visited.
ENUMERATION_LIMIT = 200_000


@dataclass(frozen=True)
class SparseEigenvalues:
    """Extreme eigenvalues over all supports of one size; `exact`: all were visited."""

    size: int
    lower: float
    upper: float
    worst_condition: float
    worst_support: tuple[int, ...]
    exact: bool


@dataclass(frozen=True)
class SelectedGram:
    """Spectrum of the Gram of a selected support: `minimum` and `maximum` eigenvalue and its
    condition number.

    Example:
        >>> SelectedGram(0.5, 1.5).condition
        3.0
    """

    minimum: float
    maximum: float

    @property
    def condition(self) -> float:
        """Condition number of the Gram, the square of that of the normalised columns."""
        return self.maximum / self.minimum if self.minimum > 0 else math.inf


def sparse_eigenvalues(sigma: np.ndarray, size: int) -> SparseEigenvalues:
    """Smallest and largest eigenvalue of Σ_SS over supports of the given size.

    When there are too many supports the eigenvalue interval of the full matrix (Cauchy interlacing)
    bounds both from outside.

    Example:
        >>> sparse_eigenvalues(np.array([[1.0, 0.5], [0.5, 1.0]]), 2).lower
        0.5
    """
    columns = len(sigma)
    if not 1 <= size <= columns:
        raise InputError(f"a support must have between 1 and {columns} terms, not {size}")
    if math.comb(columns, size) > ENUMERATION_LIMIT:
        values = np.linalg.eigvalsh(sigma)
        ratio = math.sqrt(values[-1] / values[0]) if values[0] > 0 else math.inf
        return SparseEigenvalues(size, float(values[0]), float(values[-1]), ratio, (), exact=False)
    supports = np.array(list(itertools.combinations(range(columns), size)))
    lowest, highest, condition = math.inf, -math.inf, 0.0
    worst: tuple[int, ...] = ()
    for part in np.array_split(supports, max(1, len(supports) // 20_000)):
        values = np.linalg.eigvalsh(sigma[part[:, :, None], part[:, None, :]])
        lowest, highest = min(lowest, values[:, 0].min()), max(highest, values[:, -1].max())
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(
                values[:, 0] > 0,
                np.sqrt(values[:, -1] / np.maximum(values[:, 0], 1e-300)),
                math.inf,
            )
        if ratios.max() > condition:
            condition, worst = float(ratios.max()), tuple(int(i) for i in part[ratios.argmax()])
    return SparseEigenvalues(size, float(lowest), float(highest), condition, worst, exact=True)


def irrepresentability(
    sigma: np.ndarray, support: np.ndarray, signs: np.ndarray | None = None
) -> float:
    """‖Σ_{S^c S} Σ_SS⁻¹ sign(β_S)‖_∞; below one the Lasso can recover the signed support.

    Without signs the worst sign pattern is taken, which is the largest row sum of |Σ_{S^c S}
    Σ_SS⁻¹|.

    Example:
        >>> irrepresentability(np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([True, False]))
        0.5
    """
    support = np.asarray(support, dtype=bool)
    if not support.any() or support.all():
        return 0.0
    inner = sigma[np.ix_(support, support)]
    if np.linalg.cond(inner) > 1e12:
        return math.inf
    weights = np.linalg.solve(inner, sigma[np.ix_(support, ~support)])
    if signs is None:
        return float(np.abs(weights).sum(axis=0).max())
    return float(np.abs(np.asarray(signs) @ weights).max())


def selected_gram(sigma: np.ndarray, support: np.ndarray) -> SelectedGram:
    """Spectrum of Σ_SS."""
    support = np.asarray(support, dtype=bool)
    if not support.any():
        raise InputError(
            "the spectrum of an empty support is not defined; select at least one term"
        )
    values = np.linalg.eigvalsh(sigma[np.ix_(support, support)])
    return SelectedGram(float(values[0]), float(values[-1]))


def restricted_eigenvalue_by_rows(
    rows: np.ndarray, s: int, counts: list[int], repeats: int = 3, seed: int = 0
) -> dict[int, list[Bracket]]:
    """κ̂ of random subsets of rows, to see how many randomly sampled rows the empirical-RE lemma
    needs in practice.

    Args:
        rows: sampled rows of A.
        s: sparsity of the cone.
        counts: numbers of rows to draw.
        repeats: draws per count.
        seed: of the random generator.
    """
    random = np.random.default_rng(seed)
    result: dict[int, list[Bracket]] = {}
    for count in counts:
        if not 1 <= count <= len(rows):
            raise InputError(f"can draw between 1 and {len(rows)} rows, not {count}")
        result[count] = []
        for _ in range(repeats):
            part = rows[random.choice(len(rows), count, replace=False)]
            norms = np.sqrt((part**2).mean(axis=0))
            part = part / np.where(norms > 0, norms, 1.0)
            result[count].append(restricted_eigenvalue(part.T @ part / count, s, seconds=2.0))
    return result
