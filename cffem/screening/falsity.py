# SPDX-License-Identifier: MIT
"""The expected share of false terms in a returned support.

Two estimates, of which the larger is reported. The first is a parametric bootstrap: anchors are
drawn from the fitted model with noise of the size of its residuals and the number of independent
rows, the same search runs on each, and terms that it returns beyond those of the model are false.
The second is the false discovery rate at the weakest term that was accepted: m tests, each of which
a false term passes with the probability that Student's distribution gives to its statistic
(Benjamini and Hochberg 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import t as student

from cffem.design.design import Design
from cffem.design.gram import BlockGrams
from cffem.screening.exploring import Bounds, explore
from cffem.screening.selection import Refit


@dataclass(frozen=True)
class FalsitySettings:
    """How the share is estimated.

    Attributes:
        draws: anchors drawn from the fitted model.
        larger: terms beyond the size of the model that the search on drawn anchors may choose.
    """

    draws: int = 12
    larger: int = 2


SETTINGS = FalsitySettings()


def false_share(
    design: Design, fitted: Refit, bounds: Bounds | None = None, seed: int = 0
) -> float:
    """Estimate of the expected share of false terms in the support of a fit; zero for the empty
    one.

    Example:
        >>> from cffem.screening.selection import refit
        >>> random = np.random.default_rng(0)
        >>> A = random.standard_normal((300, 6))
        >>> design = Design.from_matrix(
        ...     A, A[:, 0] + 0.5 * random.standard_normal(300), list("abcdef")
        ... )
        >>> false_share(design, refit(design, [0])) < 0.1 < false_share(
        ...     design, refit(design, [0, 3])
        ... )
        True
    """
    if not fitted.support:
        return 0.0
    chance = 2 * student.sf(float(fitted.statistics.min()), max(len(design.grams.labels) - 1, 1))
    discoveries = len(design.names) * chance / len(fitted.support)
    random = np.random.default_rng(seed)
    largest = min(len(fitted.support) + SETTINGS.larger, len(design.names))
    shares = []
    for _ in range(SETTINGS.draws):
        drawn = Design(
            design.names,
            drawn_grams(design.grams, fitted.support, fitted.coefficients, random),
            None,
            design.notes,
        )
        found = explore(drawn, largest, bounds).best.support
        shares.append(len(set(found) - set(fitted.support)) / len(found) if found else 0.0)
    return float(min(1.0, max(discoveries, np.mean(shares))))


def drawn_grams(
    grams: BlockGrams, support: Sequence[int], coefficients: np.ndarray, random: np.random.Generator
) -> BlockGrams:
    """Block Grams of an anchor that is the model plus noise of the size of the residuals."""
    model = np.zeros(grams.columns)
    model[list(support)] = coefficients
    vector = np.r_[1.0, -model]
    energy = max(float(np.einsum("i,bij,j->", vector, grams.plain, vector)), 0.0)
    variance = energy / max(float(grams.rows.sum()), 1.0)
    plain = grams.plain.copy()
    for number, block in enumerate(grams.plain):
        inner, rows = block[1:, 1:], float(grams.rows[number])
        values, vectors = np.linalg.eigh(inner)
        overlap = rows / max(
            float(grams.effective[number]), 1e-12
        )  # rows that overlap share their noise
        noise = vectors @ (
            np.sqrt(variance * overlap * np.clip(values, 0, None))
            * random.standard_normal(len(values))
        )
        plain[number, 0, 1:] = plain[number, 1:, 0] = inner @ model + noise
        plain[number, 0, 0] = max(model @ inner @ model + 2 * model @ noise + variance * rows, 0.0)
    return replace(grams, plain=plain, denoised=None, noise=None, replicates=None)
