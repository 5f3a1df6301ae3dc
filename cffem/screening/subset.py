# SPDX-License-Identifier: MIT
"""Best-subset search on Gram matrices: exhaustive for small supports, a wide beam with a floating
backward pass beyond.

The search must be nearly exhaustive: where two true terms almost cancel (u_xx and u_xxxx of
Kuramoto–Sivashinsky) neither helps alone, and a greedy path never meets the pair. All residuals
come from Schur complements of (1+m)×(1+m) Grams, thousands at a time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SubsetSettings:
    """How subsets of the columns are searched.

    Args:
        beam: supports of each size that are followed.
        keep: supports of each size that are handed on.
        exhaustive: parents up to which every extension is visited.
        ridge: added to normalised Grams, so that copies of a column can be solved for.
        floor: share of the anchor's energy below which a smaller residual is no evidence.
    """

    beam: int = 200
    keep: int = 12
    exhaustive: int = 1500
    ridge: float = 1e-13
    floor: float = 1e-5


SUBSET = SubsetSettings()


@dataclass(frozen=True)
class Candidate:
    """A support (sorted column numbers) and its share of unexplained energy in each Gram it
    was scored on.
    """

    support: tuple[int, ...]
    unexplained: tuple[float, ...]

    def score(self, rows: float, columns: int, floor: float = SUBSET.floor) -> float:
        """EBIC with the number of independent rows, averaged over the Grams; smaller is better.

        Args:
            rows: independent rows.
            columns: of the library.
            floor: share of the anchor's energy below which a smaller residual is no evidence.
        """
        fit = sum(rows * math.log(max(u, 0.0) + floor) for u in self.unexplained) / len(
            self.unexplained
        )
        return fit + len(self.support) * penalty(rows, columns)


def penalty(rows: float, columns: int) -> float:
    """EBIC price of one term: log n + 2 log m."""
    return math.log(max(rows, 2.0)) + 2 * math.log(max(columns, 2))


def normalise(gram: np.ndarray) -> np.ndarray:
    """Scale a Gram of [y, A] to unit diagonal; vanishing columns stay zero."""
    norms = np.sqrt(np.clip(np.diag(gram), 0, None))
    norms = np.where(norms > 0, norms, 1.0)
    return gram / np.outer(norms, norms)


def unexplained(gram: np.ndarray, supports: np.ndarray) -> np.ndarray:
    """Residual share 1 − R² of many supports of equal size (rows of column numbers)."""
    if supports.shape[1] == 0:
        return np.ones(len(supports))
    index = supports + 1
    inner = gram[index[:, :, None], index[:, None, :]] + SUBSET.ridge * np.eye(supports.shape[1])
    right = gram[0, index]
    solved = np.linalg.solve(inner, right[..., None])[..., 0]
    if gram[0, 0] <= 0:  # an anchor that vanishes leaves nothing to explain
        return np.ones(len(supports))
    return np.clip(1 - np.einsum("ij,ij->i", right, solved) / gram[0, 0], 0, None)


def extensions(gram: np.ndarray, parents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every parent with one more column, and residual shares, by one Schur complement each."""
    count, size = parents.shape
    columns = len(gram) - 1
    if size == 0:
        remaining, variance = gram[0, 1:][None, :], np.diag(gram)[1:][None, :]
        base = np.ones(1)
    else:
        index = parents + 1
        inner = gram[index[:, :, None], index[:, None, :]] + SUBSET.ridge * np.eye(size)
        rows = gram[index]
        solved = np.linalg.solve(inner, rows)
        schur_y = gram[0][None, :] - np.einsum("ik,ikj->ij", gram[0, index], solved)
        base, remaining = schur_y[:, 0], schur_y[:, 1:]
        variance = np.diag(gram)[None, 1:] - np.einsum("ikj,ikj->ij", rows, solved)[:, 1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.where(variance > 1e-11, remaining**2 / np.maximum(variance, 1e-300), -np.inf)
    if size:
        np.put_along_axis(gain, parents, -np.inf, axis=1)
    children = (
        np.concatenate(
            [np.repeat(parents, columns, axis=0), np.tile(np.arange(columns), count)[:, None]],
            axis=1,
        )
        if size
        else np.arange(columns)[:, None]
    )
    residual = (base[:, None] - gain).ravel() / gram[0, 0]
    valid = np.isfinite(residual)
    return unique_supports(np.sort(children[valid], axis=1), np.clip(residual[valid], 0, None))


def unique_supports(supports: np.ndarray, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop repeated supports and sort by residual."""
    base = int(supports.max(initial=0)) + 1
    codes = supports @ (base ** np.arange(supports.shape[1], dtype=float))
    _, first = np.unique(codes, return_index=True)
    supports, residual = supports[first], residual[first]
    order = np.argsort(residual, kind="stable")
    return supports[order], residual[order]


def search(gram: np.ndarray, largest: int) -> list[np.ndarray]:
    """The best supports of each size 1, …, largest on one Gram, each as an array with a
    support per row, best first.
    """
    gram = normalise(gram)
    largest = min(largest, len(gram) - 1)
    levels = [np.empty((1, 0), dtype=int)]
    parents = levels[0]
    for _ in range(largest):
        children, _ = extensions(gram, parents)
        if not len(children):
            break
        levels.append(children[: SUBSET.beam])
        parents = children if len(children) <= SUBSET.exhaustive else children[: SUBSET.beam]
    for size in range(len(levels) - 1, 1, -1):
        best = levels[size][: 4 * SUBSET.keep]
        smaller = np.concatenate([np.delete(best, k, axis=1) for k in range(size)])
        pool = np.concatenate([smaller, levels[size - 1]])
        levels[size - 1] = unique_supports(pool, unexplained(gram, pool))[0][: SUBSET.beam]
    return levels[1:]


def candidates(grams: list[np.ndarray], largest: int) -> list[Candidate]:
    """The union of the best supports on several Grams, scored on all of them; the empty
    support is always among them.
    """
    return visited_supports(grams, largest)[0]


def visited_supports(
    grams: list[np.ndarray], largest: int
) -> tuple[list[Candidate], list[Candidate]]:
    """The best few supports of each size on several Grams with the empty one, and the others
    that the search kept.
    """
    best: dict[tuple[int, ...], None] = {(): None}
    others: dict[tuple[int, ...], None] = {}
    for gram in grams:
        for level in search(gram, largest):
            best.update({as_support(row): None for row in level[: SUBSET.keep]})
            others.update({as_support(row): None for row in level[SUBSET.keep :]})
    return rescore(list(best), grams), rescore([s for s in others if s not in best], grams)


def as_support(row: np.ndarray) -> tuple[int, ...]:
    """A row of column numbers as a tuple."""
    return tuple(int(j) for j in row)


def neighbours(support: tuple[int, ...], columns: int) -> list[tuple[int, ...]]:
    """All supports in which one term is exchanged, added or left out.

    Example:
        >>> neighbours((0,), 2)
        [(), (0, 1), (1,)]
    """
    inside, outside = set(support), [j for j in range(columns) if j not in support]
    fewer = [inside - {k} for k in support]
    found = [
        *fewer,
        *(inside | {j} for j in outside),
        *(rest | {j} for rest in fewer for j in outside),
    ]
    return sorted({tuple(sorted(one)) for one in found})


def rescore(supports: list[tuple[int, ...]], grams: list[np.ndarray]) -> list[Candidate]:
    """Score given supports on several Grams."""
    shares: dict[tuple[int, ...], list[float]] = {s: [] for s in supports}
    for gram in map(normalise, grams):
        for size in {len(s) for s in supports}:
            group = [s for s in supports if len(s) == size]
            values = unexplained(gram, np.array(group, dtype=int).reshape(len(group), size))
            for support, value in zip(group, values, strict=True):
                shares[support].append(float(value))
    return [Candidate(s, tuple(v)) for s, v in shares.items()]
