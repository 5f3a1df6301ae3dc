# SPDX-License-Identifier: MIT
"""Skill: how much better the selected terms predict the anchor on rows that were left out than its mean does.

Each block of rows is predicted with coefficients from all other blocks; block Grams of [y, A] are enough for that. The mean
predictor is the constant term alone, fitted on the same rows; without a constant among the terms it is zero. As in the paper,
skill = 1 − RMSE / RMSE of the mean predictor: one for a perfect prediction, zero or less for a useless one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from cffem.design.design import Design
from cffem.screening.resampling import solve_support


@dataclass(frozen=True)
class Skill:
    """How well held-out rows are predicted.

    Attributes:
        rmse: root mean square error of the selected terms, relative to the root mean square of the anchor.
        baseline: that of the mean predictor.
        blocks: number of blocks, each predicted from the others.
    """

    rmse: float
    baseline: float
    blocks: int

    @property
    def value(self) -> float:
        """1 − RMSE / RMSE of the mean predictor."""
        return 1.0 - self.rmse / self.baseline if self.baseline else 0.0


def held_out_skill(design: Design, support: Sequence[str]) -> Skill:
    """Skill of a support on rows that its coefficients have not seen.

    Args:
        design: the design.
        support: names of the selected terms; with none the mean is all there is, and the skill is zero.

    Example:
        >>> random = np.random.default_rng(0)
        >>> A = np.column_stack([np.ones(400), random.standard_normal((400, 2))])
        >>> design = Design.from_matrix(A, A @ [1.0, 2.0, 0.0] + 0.1 * random.standard_normal(400), ["1", "a", "b"])
        >>> skill = held_out_skill(design, ["1", "a"])
        >>> 0.9 < skill.value < 1.0, abs(held_out_skill(design, ["1", "b"]).value) < 0.1
        (True, True)
    """
    blocks = design.grams.plain
    constant = constant_column(design)
    mean = [] if constant is None else [constant]
    chosen = [design.names.index(name) for name in support] or mean
    energy = float(blocks[:, 0, 0].sum())
    if not energy:
        return Skill(0.0, 0.0, len(blocks))
    errors = [np.sqrt(max(held_out_error(blocks, columns), 0.0) / energy) for columns in (chosen, mean)]
    return Skill(float(errors[0]), float(errors[1]), len(blocks))


def held_out_error(blocks: np.ndarray, columns: Sequence[int]) -> float:
    """Sum of squared errors over all blocks, each predicted with coefficients from the others."""
    if not len(columns):
        return float(blocks[:, 0, 0].sum())
    coefficients = solve_support(blocks.sum(axis=0) - blocks, columns) if len(blocks) > 1 else solve_support(blocks, columns)
    vectors = np.zeros((len(blocks), blocks.shape[1]))
    vectors[:, 0] = 1.0
    vectors[:, np.asarray(columns) + 1] = -coefficients
    return float(np.einsum("bi,bij,bj->", vectors, blocks, vectors))


def constant_column(design: Design) -> int | None:
    """The column of the term that is a number, by the library or by its name."""
    terms: Any = getattr(design.library, "terms", {}) or {}
    for index, name in enumerate(design.names):
        term = terms.get(name)
        if (term is not None and sp.sympify(term).is_number) or (term is None and name in ("1", "one", "constant")):
            return index
    return None
