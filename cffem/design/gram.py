# SPDX-License-Identifier: MIT
"""Streamed Gram matrices: rows are folded into one (1+m)×(1+m) matrix per resampling block and
forgotten.

With Z = [y, A] the matrix Zᵀ W Z holds everything that least squares, the Lasso, the diagnostics
and the block bootstrap need, so a design of 10⁸ rows costs a few kilobytes. Experiments stack by
adding Grams, and ranks of a parallel run by summing them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from cffem.data.rows.row_blocks import RowBlock
from cffem.symbols.errors import InputError

T = TypeVar("T")


class Communicator(Protocol):
    """What is asked of an MPI communicator, so that designs need no MPI."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def allgather(self, value: T) -> list[T]: ...


@dataclass(frozen=True)
class FoldSettings:
    """How rows are folded into Grams.

    Args:
        sample: rows that are kept as a sample, for diagnostics that need rows.
        chunk: rows that are multiplied at a time, so that copies of them take little memory.
    """

    sample: int = 2048
    chunk: int = 1 << 16


FOLD = FoldSettings()


@dataclass(frozen=True)
class BlockGrams:
    """Gram matrices of [y, A], one per resampling block.

    Args:
        labels: the names of the B blocks.
        plain: B × (1+m) × (1+m) Grams of the rows as they came.
        denoised: the same of the denoised rows, or None.
        noise: expected contribution of the measurement noise to `plain`, or None.
        weight: total weight of the rows of each block (the row count if rows carry no weights).
        rows: number of rows of each block.
        effective: number of independent rows of each block.
        replicates: B × R × (1+m) × (1+m) Grams of the denoised rows with each noise draw added, or
            None.
        sample: a uniform sample of at most a few thousand rows [y, A], for diagnostics that need
            rows.

    Example:
        >>> grams = fold([RowBlock(np.eye(2), np.ones(2))])
        >>> grams.total()
        array([[2., 1., 1.],
               [1., 1., 0.],
               [1., 0., 1.]])
    """

    labels: tuple[Hashable, ...]
    plain: np.ndarray
    denoised: np.ndarray | None
    noise: np.ndarray | None
    weight: np.ndarray
    rows: np.ndarray
    effective: np.ndarray
    sample: np.ndarray
    replicates: np.ndarray | None = None

    @property
    def columns(self) -> int:
        return self.plain.shape[1] - 1

    @property
    def corrected(self) -> np.ndarray:
        """Block Grams with the expected noise contribution removed: what the rows of
        noise-free data would give on average.
        """
        return self.plain if self.noise is None else self.plain - self.noise

    def total(self, view: str = "plain") -> np.ndarray:
        """Sum of the block Grams of one view (`plain`, `denoised` or `corrected`)."""
        grams = getattr(self, view)
        return (self.plain if grams is None else grams).sum(axis=0)

    def select(self, columns: Iterable[int]) -> BlockGrams:
        """Keep only some columns of A."""
        index = np.r_[0, np.asarray(list(columns), dtype=int) + 1]

        def cut(grams: np.ndarray | None) -> np.ndarray | None:
            return None if grams is None else grams[..., index[:, None], index[None, :]]

        return replace(
            self,
            plain=cut(self.plain),
            denoised=cut(self.denoised),
            noise=cut(self.noise),
            replicates=cut(self.replicates),
            sample=self.sample[:, index],
        )

    def with_known(self, known: Mapping[int, float]) -> BlockGrams:
        """The Grams of y − Σ c_j A_j and of the other columns, for columns j whose
        coefficients c_j are known.
        """
        free = [j for j in range(self.columns) if j not in known]
        change = np.zeros((self.columns + 1, len(free) + 1))
        change[0, 0] = 1.0
        for j, value in known.items():
            change[j + 1, 0] = -value
        change[np.asarray(free, dtype=int) + 1, np.arange(len(free)) + 1] = 1.0

        def moved(grams: np.ndarray | None) -> np.ndarray | None:
            return None if grams is None else change.T @ grams @ change

        return replace(
            self,
            plain=moved(self.plain),
            denoised=moved(self.denoised),
            noise=moved(self.noise),
            replicates=moved(self.replicates),
            sample=self.sample @ change,
        )


class Accumulator:
    """Folds row blocks one after another; memory does not grow with the number of rows."""

    def __init__(self, seed: int = 0) -> None:
        self._totals: dict[Hashable, dict[str, Any]] = {}
        self._random = np.random.default_rng(seed)
        self._keys = np.empty(0)
        self._sample: np.ndarray | None = None

    def add(self, block: RowBlock) -> None:
        """Fold one block of rows."""
        width = block.A.shape[1] + 1
        if self._sample is not None and self._sample.shape[1] != width:
            raise InputError(
                f"all row blocks of a design must have {self._sample.shape[1] - 1} columns, but "
                f"one has {width - 1}"
            )
        entry = self._totals.setdefault(
            block.block, {"plain": 0.0, "weight": 0.0, "rows": 0, "effective": 0.0}
        )
        root = None if block.weights is None else np.sqrt(block.weights)
        entry["plain"] += gram(block.y, block.A, root)
        entry["weight"] += float(len(block.y) if block.weights is None else block.weights.sum())
        entry["rows"] += len(block.y)
        effective = getattr(block, "effective", None)
        entry["effective"] += float(len(block.y)) if effective is None else float(effective)
        denoised, noise = getattr(block, "denoised", None), getattr(block, "noise", None)
        if denoised is not None:
            entry["denoised"] = entry.get("denoised", 0.0) + gram(
                denoised[:, 0], denoised[:, 1:], root
            )
        if noise is not None:
            draws = sum(gram(draw[:, 0], draw[:, 1:], root) for draw in noise)
            entry["noise"] = entry.get("noise", 0.0) + draws / len(noise)
        if denoised is not None and noise is not None:
            again = np.array([gram(z[:, 0], z[:, 1:], root) for z in denoised[None] + noise])
            entry["replicates"] = entry.get("replicates", 0.0) + again
        self._keep_some(block, root)

    def _keep_some(self, block: RowBlock, root: np.ndarray | None) -> None:
        """Reservoir sampling: every row gets a random key; those with the largest keys stay."""
        if self._sample is None:
            self._sample = np.empty((0, block.A.shape[1] + 1))
        keys = self._random.random(len(block.y))
        threshold = self._keys.min() if len(self._keys) >= FOLD.sample else -1.0
        chosen = np.flatnonzero(keys > threshold)
        if not len(chosen):
            return
        rows = np.column_stack([np.asarray(block.y)[chosen], np.asarray(block.A)[chosen]])
        if root is not None:
            rows = rows * root[chosen, None]
        keys, rows = np.r_[self._keys, keys[chosen]], np.concatenate([self._sample, rows])
        best = np.argsort(-keys)[: FOLD.sample]
        self._keys, self._sample = keys[best], rows[best]

    def finish(self, comm: Communicator | None = None) -> BlockGrams:
        """The Grams of everything added, summed over the ranks of `comm` if one is given."""
        totals, sample = self._totals, self._sample
        if comm is not None and comm.size > 1:
            totals = merge(comm.allgather(totals))
            samples = [s for s in comm.allgather(sample) if s is not None]
            sample = np.concatenate(samples)[:: len(samples)] if samples else None
        if not totals or sample is None:
            raise InputError(
                "a design needs at least one row, but the sources gave none: no test function "
                "fits into the data, which are too "
                "short, too coarse, or have missing values (NaN) everywhere"
            )
        labels = tuple(totals)
        for kind in ("denoised", "noise"):
            if len({kind in totals[label] for label in labels}) > 1:
                raise InputError(
                    f"either all row blocks of a design carry {kind} rows or none does"
                )

        def stack(key: str) -> np.ndarray | None:
            return (
                np.array([totals[label][key] for label in labels])
                if key in totals[labels[0]]
                else None
            )

        return BlockGrams(
            labels,
            stack("plain"),
            stack("denoised"),
            stack("noise"),
            stack("weight"),
            stack("rows"),
            stack("effective"),
            sample,
            stack("replicates"),
        )


def merge(parts: list[dict[Hashable, dict[str, Any]]]) -> dict[Hashable, dict[str, object]]:
    """Add up the totals of all ranks, in rank order, so that all get the same numbers."""
    merged: dict[Hashable, dict[str, Any]] = {}
    for part in parts:
        for label, entry in part.items():
            target = merged.setdefault(label, {})
            for key, value in entry.items():
                target[key] = target.get(key, 0.0) + value
    return merged


def gram(y: np.ndarray, A: np.ndarray, root: np.ndarray | None = None) -> np.ndarray:
    """ZᵀWZ for Z = [y, A], without building Z; `root` holds the square roots of the weights.

    Example:
        >>> gram(np.array([1.0, 2.0]), np.array([[1.0], [1.0]]))
        array([[5., 3.],
               [3., 2.]])
    """
    width = A.shape[1] + 1
    result = np.zeros((width, width))
    for start in range(0, len(y), FOLD.chunk):
        part = slice(start, start + FOLD.chunk)
        rows, right = A[part], y[part]
        if root is not None:
            rows, right = rows * root[part, None], right * root[part]
        result[1:, 1:] += rows.T @ rows
        result[0, 1:] += right @ rows
        result[0, 0] += right @ right
    result[1:, 0] = result[0, 1:]
    return result


def fold(blocks: Iterable[RowBlock], comm: Communicator | None = None) -> BlockGrams:
    """Fold an iterable of row blocks into block Grams."""
    accumulator = Accumulator()
    for block in blocks:
        accumulator.add(block)
    return accumulator.finish(comm)
