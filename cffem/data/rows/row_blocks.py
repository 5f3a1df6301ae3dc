# SPDX-License-Identifier: MIT
"""Blocks of regression rows: the one thing that passes from fields and measurements to the design.

A row is one scalar equation y_i = Σ_j A_ij β_j + η_i of the anchored regression. Rows come in
blocks that are folded into Gram matrices and forgotten, so that no design matrix is ever stored.
Everything with a method `rows(library, kind)` that yields such blocks can feed a design; the
attributes below are all that is asked of a block, not this class.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cffem.symbols.problem.library import CandidateTerms


@dataclass(frozen=True)
class RowBlock:
    """Rows of the anchored regression that belong together.

    Args:
        A: the n × m matrix of term evaluations.
        y: the n anchor evaluations.
        weights: one nonnegative weight per row (quadrature weights, say), or None for ones.
        block: label of the resampling block these rows belong to; rows with equal labels are
            resampled together.
        denoised: the n × (1 + m) rows [y, A] of the denoised data, where the source knows its
            noise.
        noise: R × n × (1 + m) independent draws of the error in [y, A], where the source knows its
            noise.
        effective: how many independent rows these rows are worth (overlapping test functions: fewer
            than n); None means n.

    Example:
        >>> RowBlock(np.ones((3, 2)), np.zeros(3)).effective_rows
        3.0
    """

    A: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None = None
    block: Hashable = 0
    denoised: np.ndarray | None = None
    noise: np.ndarray | None = None
    effective: float | None = None

    def __post_init__(self) -> None:
        rows = len(self.y)
        if self.A.ndim != 2 or self.A.shape[0] != rows:
            raise ValueError(
                f"a row block needs A with one row per entry of y, but A has shape {self.A.shape} "
                f"and y has {rows}"
            )
        if self.weights is not None and self.weights.shape != (rows,):
            raise ValueError(
                "a row block needs one weight per row, but weights have shape "
                f"{self.weights.shape} for {rows} rows"
            )
        width = self.A.shape[1] + 1
        if self.denoised is not None and self.denoised.shape != (rows, width):
            raise ValueError(
                f"denoised rows must have shape {(rows, width)}, not {self.denoised.shape}"
            )
        if self.noise is not None and (
            self.noise.ndim != 3 or self.noise.shape[1:] != (rows, width)
        ):
            raise ValueError(
                f"noise draws must have shape (draws, {rows}, {width}), not {self.noise.shape}"
            )

    @property
    def effective_rows(self) -> float:
        """The number of independent rows these rows are worth."""
        return float(len(self.y)) if self.effective is None else float(self.effective)


class RowSource(Protocol):
    """Anything that can evaluate a library on a field and hand out the rows block by block."""

    def rows(self, library: CandidateTerms, kind: str) -> Iterator[RowBlock]:
        """Yield the rows of a `weak` or `strong` design."""
        ...
