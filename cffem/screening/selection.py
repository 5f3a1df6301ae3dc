# SPDX-License-Identifier: MIT
"""The sparse model that the data support: candidates, deletion test, EBIC, refit and error bars.

Candidates are searched on the plain (positive semidefinite) Grams of the raw and of the denoised rows. A candidate survives when
every one of its terms differs from zero by the block jackknife of the noise-corrected estimate. Among the survivors the smallest
EBIC, with the number of independent rows, wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.subset import Candidate, candidates, normalise, penalty, rescore, unexplained

RIDGE = 1e-6
ILL_CONDITIONED = 1e10
RELATIVE_FLOOR = 1e-3  # discretisation error that no resampling sees, relative to a coefficient


@dataclass(frozen=True)
class Refit:
    """Coefficients of a support on the original scale with standard errors, statistics and 95 % intervals."""

    support: tuple[int, ...]
    coefficients: np.ndarray
    errors: np.ndarray
    intervals: np.ndarray
    ridge: float

    @property
    def statistics(self) -> np.ndarray:
        """|coefficient| in units of its standard error."""
        return np.abs(self.coefficients) / np.maximum(self.errors, 1e-300)


@dataclass(frozen=True)
class Selection:
    """The chosen support, its rivals and how clearly it won.

    Args:
        support: sorted column numbers.
        gap: EBIC distance to the best rival that passed the deletion test.
        rival: that rival, or None.
        win_rate: share of bootstrap replicates in which the support wins.
        inclusion: share of bootstrap replicates whose winner contains each term.
        agree: whether raw and denoised rows alone choose the same support.
        scored: all candidates with their EBIC, best first.
    """

    support: tuple[int, ...]
    gap: float
    rival: tuple[int, ...] | None
    win_rate: float
    inclusion: np.ndarray
    agree: bool
    scored: list[tuple[float, Candidate]]


def views(design: Design) -> list[np.ndarray]:
    """Block Grams on which supports are searched: raw rows and, where known, denoised rows."""
    grams = design.grams
    return [grams.plain] if grams.denoised is None else [grams.plain, grams.denoised]


def select(design: Design, largest: int, replicates: int, seed: int) -> Selection:
    """Choose the support with the best EBIC among those whose every term passes the deletion test."""
    blocks, columns, rows = views(design), len(design.names), design.effective_rows
    largest = max(1, min(largest, columns, int(rows) - 1))
    everything = candidates([b.sum(axis=0) for b in blocks], largest)
    survivors = [c for c in everything if passes_deletion(design, c.support)]
    ranked = sorted(((c.score(rows, columns), c) for c in survivors), key=lambda pair: pair[0])
    best = ranked[0][1]
    rivals = [(score, c) for score, c in ranked[1:]]
    gap = rivals[0][0] - ranked[0][0] if rivals else float("inf")
    win_rate, inclusion = bootstrap([c.support for c in survivors], blocks, rows, columns, replicates, seed, best.support)
    agree = all(single_view_winner(everything, v, len(best.support)) == best.support for v in range(len(blocks)))
    rival = rivals[0][1].support if rivals else None
    return Selection(best.support, gap, rival, win_rate, inclusion, agree, ranked)


def passes_deletion(design: Design, support: tuple[int, ...]) -> bool:
    """Whether every term of a support differs from zero in the corrected and in the denoised estimate; the empty support does."""
    if not support:
        return True
    grams = design.grams
    threshold = resampling.t_threshold(len(grams.labels), len(design.names))
    for blocks in [grams.corrected] + ([] if grams.denoised is None else [grams.denoised]):
        estimate, error = resampling.jackknife(blocks, support)
        if not (np.abs(estimate) >= threshold * error).all():
            return False
    return True


def single_view_winner(found: list[Candidate], view: int, size: int) -> tuple[int, ...]:
    """The best support of one size when only one of the Grams is believed."""
    return min((c for c in found if len(c.support) == size), key=lambda c: c.unexplained[view]).support


def bootstrap(
    supports: list[tuple[int, ...]],
    blocks: list[np.ndarray],
    rows: float,
    columns: int,
    replicates: int,
    seed: int,
    best: tuple[int, ...],
) -> tuple[float, np.ndarray]:
    """Reweight the blocks, rescore the candidates: how often the best support wins, and how often each term is in the winner."""
    weights = resampling.bayesian_weights(len(blocks[0]), replicates, seed)
    scores = np.zeros((replicates, len(supports)))
    for view in blocks:
        grams = resampling.reweighted(view, weights)
        for number, support in enumerate(supports):
            share = batch_unexplained(grams, support)
            scores[:, number] += rows * np.log(share + 1e-5) / len(blocks)
    scores += np.array([len(s) for s in supports]) * penalty(rows, columns)
    winners = scores.argmin(axis=1)
    inclusion = np.zeros(columns)
    for number, count in zip(*np.unique(winners, return_counts=True), strict=True):
        inclusion[list(supports[number])] += count / replicates
    return float(np.mean([supports[w] == best for w in winners])), inclusion


def batch_unexplained(grams: np.ndarray, support: tuple[int, ...]) -> np.ndarray:
    """Residual share of one support on many Grams."""
    if not support:
        return np.ones(len(grams))
    beta = resampling.solve_support(grams, support, ridge=1e-13)
    index = np.asarray(support) + 1
    return np.clip(1 - np.einsum("rk,rk->r", grams[:, 0, index], beta) / grams[:, 0, 0], 0, None)


def refit(design: Design, support: Sequence[int]) -> Refit:
    """Noise-corrected coefficients on the original scale; ridge when the selected Gram is ill-conditioned."""
    support = tuple(int(j) for j in support)
    grams = design.grams
    if not support:
        return Refit((), np.empty(0), np.empty(0), np.empty((0, 2)), 0.0)
    blocks = grams.corrected
    sub = normalise(blocks.sum(axis=0))[np.ix_(np.array(support) + 1, np.array(support) + 1)]
    values = np.linalg.eigvalsh(sub)
    if values[0] <= 0 and grams.noise is not None:
        blocks = grams.plain  # the correction left no signal in some direction: report the attenuated fit with its honest errors
        values = np.abs(values)
    ridge = RIDGE if values[-1] > ILL_CONDITIONED * max(values[0], 0.0) else 0.0
    estimate, error = resampling.jackknife(blocks, support)
    if ridge:
        estimate = resampling.solve_support(blocks.sum(axis=0), support, ridge)
    if grams.replicates is not None and grams.noise is not None:
        spread = resampling.solve_support(grams.replicates.sum(axis=0) - grams.noise.sum(axis=0), support).std(axis=0, ddof=1)
        error = np.maximum(error, spread)
    half = resampling.interval_factor(len(grams.labels)) * error + RELATIVE_FLOOR * np.abs(estimate)
    return Refit(support, estimate, error, np.column_stack([estimate - half, estimate + half]), ridge)


def score_supports(design: Design, supports: list[tuple[int, ...]]) -> list[tuple[float, Candidate]]:
    """EBIC of given supports, best first."""
    found = rescore(supports, [b.sum(axis=0) for b in views(design)])
    return sorted(((c.score(design.effective_rows, len(design.names)), c) for c in found), key=lambda pair: pair[0])


def residual_share(design: Design, support: Sequence[int]) -> float:
    """Unexplained share of the anchor's energy on the raw rows."""
    total = normalise(design.grams.total())
    return float(unexplained(total, np.array([list(support)], dtype=int).reshape(1, len(support)))[0])
