# SPDX-License-Identifier: MIT
"""The sparse model that the data support: candidates, deletion test, EBIC, refit and error bars.

Candidates are searched on the plain (positive semidefinite) Grams of the raw and of the denoised
rows. A candidate survives when every one of its terms differs from zero by the block jackknife of
the noise-corrected estimate. Among the survivors the smallest EBIC, with the number of independent
rows, wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.exploring import Bounds, Explored, evidence_floor, explore, views
from cffem.screening.subset import Candidate, normalise, penalty, rescore, unexplained


@dataclass(frozen=True)
class SelectionSettings:
    """How supports compete and how coefficients are estimated.

    Args:
        ridge: what is added to the unit diagonal of an ill-conditioned Gram.
        ill_conditioned: condition number of a Gram from which a ridge is added.
        contenders: survivors of the search that compete in the bootstrap.
        relative_floor: discretisation error that no resampling sees, relative to a coefficient.
    """

    ridge: float = 1e-6
    ill_conditioned: float = 1e10
    contenders: int = 100
    relative_floor: float = 1e-3


SELECTION = SelectionSettings()


@dataclass(frozen=True)
class Refit:
    """Coefficients of a support on the original scale with standard errors, statistics and 95
    % intervals.
    """

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
        scored: all survivors with their EBIC, the chosen one first.
        doubts: why the search may have missed a better support, in words.
    """

    support: tuple[int, ...]
    gap: float
    rival: tuple[int, ...] | None
    win_rate: float
    inclusion: np.ndarray
    agree: bool
    scored: list[tuple[float, Candidate]]
    doubts: tuple[str, ...] = ()


def select(
    design: Design, largest: int | None, replicates: int, seed: int, bounds: Bounds | None = None
) -> Selection:
    """Choose the support with the best EBIC whose every term passes the deletion test."""
    return judged(design, explore(design, largest, bounds), replicates, seed)


def judged(
    design: Design,
    found: Explored,
    replicates: int,
    seed: int,
    support: tuple[int, ...] | None = None,
) -> Selection:
    """How clearly a support won against the survivors of a search; by default the best of them.

    Args:
        design: the design.
        found: what the search visited.
        replicates: bootstrap replicates.
        seed: of the bootstrap.
        support: another support that somebody chose.
    """
    blocks, columns, rows = views(design), len(design.names), design.effective_rows
    ranked = found.survivors
    if support is not None and support != found.best.support:
        here = score_supports(design, [support])[0]
        ranked = [here, *(pair for pair in ranked if pair[1].support != support)]
    (score, best), *rivals = ranked
    rival = min(rivals, key=lambda pair: pair[0], default=None)
    gap = rival[0] - score if rival else float("inf")
    contenders = [c.support for _, c in ranked[: SELECTION.contenders]]
    win_rate, inclusion = bootstrap(
        contenders, blocks, rows, columns, replicates, seed, best.support, evidence_floor(design)
    )
    visited = (
        found.visited if any(len(c.support) == len(best.support) for c in found.visited) else [best]
    )
    agree = all(
        single_view_winner(visited, v, len(best.support)) == best.support
        for v in range(len(blocks))
    )
    return Selection(
        best.support,
        gap,
        rival[1].support if rival else None,
        win_rate,
        inclusion,
        agree,
        ranked,
        found.doubts,
    )


def single_view_winner(found: list[Candidate], view: int, size: int) -> tuple[int, ...]:
    """The best support of one size when only one of the Grams is believed."""
    return min(
        (c for c in found if len(c.support) == size), key=lambda c: c.unexplained[view]
    ).support


def bootstrap(
    supports: list[tuple[int, ...]],
    blocks: list[np.ndarray],
    rows: float,
    columns: int,
    replicates: int,
    seed: int,
    best: tuple[int, ...],
    floor: float,
) -> tuple[float, np.ndarray]:
    """Reweight the blocks, rescore the candidates: how often the best support wins, and how
    often each term is in the winner.
    """
    weights = resampling.bayesian_weights(len(blocks[0]), replicates, seed)
    scores = np.zeros((replicates, len(supports)))
    for view in blocks:
        grams = resampling.reweighted(view, weights)
        for number, support in enumerate(supports):
            share = batch_unexplained(grams, support)
            scores[:, number] += rows * np.log(share + floor) / len(blocks)
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


def refit(design: Design, support: Sequence[int], bounds: Bounds | None = None) -> Refit:
    """Noise-corrected coefficients on the original scale; ridge when the selected Gram is
    ill-conditioned.

    Bounds cut the intervals; an estimate outside them moves to the nearest bound.
    """
    support = tuple(int(j) for j in support)
    if not support:
        return Refit((), np.empty(0), np.empty(0), np.empty((0, 2)), 0.0)
    estimate, error = estimate_with_error(design, support)
    ridge = ridge_needed(design, support)
    if ridge:
        estimate = resampling.solve_support(
            trusted_blocks(design, support).sum(axis=0), support, ridge
        )
    half = resampling.interval_factor(
        len(design.grams.labels)
    ) * error + SELECTION.relative_floor * np.abs(estimate)
    low, high = (
        np.array([(bounds or {}).get(j, (-np.inf, np.inf))[k] for j in support]) for k in (0, 1)
    )
    estimate, ends = np.clip(estimate, low, high), np.array([estimate - half, estimate + half])
    return Refit(support, estimate, error, np.clip(ends, low, high).T, ridge)


def estimate_with_error(design: Design, support: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Noise-corrected coefficients, and the larger of their jackknife and fresh-noise errors."""
    grams = design.grams
    estimate, error = resampling.jackknife(trusted_blocks(design, support), support)
    if grams.replicates is not None and grams.noise is not None:
        spread = resampling.solve_support(
            grams.replicates.sum(axis=0) - grams.noise.sum(axis=0), support
        ).std(axis=0, ddof=1)
        error = np.maximum(error, spread)
    return estimate, error


def normalised_eigenvalues(design: Design, support: tuple[int, ...]) -> np.ndarray:
    """Eigenvalues of the noise-corrected Gram of a support with unit diagonal, smallest first."""
    index = np.array(support) + 1
    return np.linalg.eigvalsh(normalise(design.grams.total("corrected"))[np.ix_(index, index)])


def trusted_blocks(design: Design, support: tuple[int, ...]) -> np.ndarray:
    """The corrected block Grams; the plain ones where the correction left no signal in some
    direction of the support.

    The fit is then attenuated, but its errors are honest.
    """
    grams = design.grams
    hopeless = grams.noise is not None and normalised_eigenvalues(design, support)[0] <= 0
    return grams.plain if hopeless else grams.corrected


def ridge_needed(design: Design, support: tuple[int, ...]) -> float:
    """A small ridge where the columns of a support are nearly dependent, else zero."""
    values = normalised_eigenvalues(design, support)
    if values[0] <= 0 and design.grams.noise is not None:
        values = np.abs(values)
    return SELECTION.ridge if values[-1] > SELECTION.ill_conditioned * max(values[0], 0.0) else 0.0


def score_supports(
    design: Design, supports: list[tuple[int, ...]]
) -> list[tuple[float, Candidate]]:
    """EBIC of given supports, best first."""
    found, floor = rescore(supports, [b.sum(axis=0) for b in views(design)]), evidence_floor(design)
    return sorted(
        ((c.score(design.effective_rows, len(design.names), floor), c) for c in found),
        key=lambda pair: pair[0],
    )


def residual_share(design: Design, support: Sequence[int]) -> float:
    """Unexplained share of the anchor's energy on the raw rows."""
    total = normalise(design.grams.total())
    return float(
        unexplained(total, np.array([list(support)], dtype=int).reshape(1, len(support)))[0]
    )
