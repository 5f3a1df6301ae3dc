# SPDX-License-Identifier: MIT
"""Where the levels of a trajectory are while a model works with them: in memory, or in a scratch
file where they do not fit.

Tangent and adjoint solves need every implicit stage of a solution, and a sweep may keep every
deleted trajectory. In a scratch file each rank holds the values it owns, bit by bit as they were;
the file has no name and goes with the process. What is to last, or to be read on another number of
ranks, is stored by `cffem.engine.store.storage`.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from cffem.engine.store.free_memory import free_memory
from cffem.symbols.errors import InputError

PLACES = ("auto", "memory", "disk")
# The share of free memory that one trajectory may take before it goes to disk.
SHARE = 0.25

StageValues = tuple[Any, ...]
StageEntry = tuple[int, int, StageValues, float]


class DiskLevels(Sequence[np.ndarray]):
    """Arrays of one length in a scratch file; they are read when they are asked for.

    Args:
        size: the length of the arrays.

    Example:
        >>> levels = DiskLevels(2)
        >>> levels.append(np.array([1.0, 2.0])); levels.append(np.array([3.0, 4.0]))
        >>> levels[-1], len(levels), [float(level.sum()) for level in levels[:1]]
        (array([3., 4.]), 2, [3.0])
    """

    def __init__(self, size: int):
        self.size = size
        self._count = 0
        # The file lives as long as the levels.
        self._file = tempfile.TemporaryFile(prefix="cffem-levels-")  # noqa: SIM115
        weakref.finalize(self, _close, self._file)

    def append(self, values: np.ndarray) -> None:
        """Add an array at the end."""
        if len(values) != self.size:
            raise ValueError(f"levels of {self.size} values take no array of {len(values)}")
        try:
            self._file.seek(0, os.SEEK_END)
            self._file.write(np.ascontiguousarray(values, dtype=float).tobytes())
            self._file.flush()  # what does not fit is told here, not when something else is read
        except OSError as error:
            where = (
                f"the scratch file of a trajectory in {tempfile.gettempdir()} (TMPDIR chooses "
                "another folder)"
            )
            raise OSError(error.errno, error.strerror, where) from None
        self._count += 1

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, index: slice) -> list[np.ndarray]: ...
    def __getitem__(self, index: int | slice) -> np.ndarray | list[np.ndarray]:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(self._count))]
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"there is no level {index} among {self._count}")
        self._file.seek(8 * self.size * number)
        return np.frombuffer(self._file.read(8 * self.size), dtype=float).copy()


def _close(file: Any) -> None:
    with contextlib.suppress(
        OSError
    ):  # of a full disk, to which the rest of the last level cannot be written
        file.close()


Levels = list[np.ndarray] | DiskLevels


class Stages:
    """The implicit stages of a march: (step, stage, (W, Ẇ, Ẅ), time) one after another, their
    values where the levels are.

    Args:
        values: an empty place for W, Ẇ and Ẅ each.
    """

    def __init__(self, values: Sequence[Levels]):
        self._values = values
        self._known: list[tuple[int, int, float]] = []
        self._present: tuple[bool, ...] = ()

    def append(self, entry: StageEntry) -> None:
        """Add the next stage."""
        step, index, values, time = entry
        self._present = tuple(value is not None for value in values)
        for place, value in zip(self._values, values, strict=True):
            if value is not None:
                place.append(value)
        self._known.append((step, index, time))

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> StageEntry:
        step, index, time = self._known[number]
        there = zip(self._values, self._present, strict=True)
        return (
            step,
            index,
            tuple(place[number] if present else None for place, present in there),
            time,
        )

    def __iter__(self) -> Iterator[StageEntry]:
        return (self[number] for number in range(len(self)))


def on_disk(place: str, arrays: int, size: int, ranks: int) -> bool:
    """Whether a trajectory goes to disk.

    Args:
        place: "memory", "disk", or "auto" for what its size asks for.
        arrays: how many arrays it has.
        size: their length.
        ranks: how many processes share the memory of this machine.
    """
    if place != "auto":
        return place == "disk"
    return 8 * arrays * size > SHARE * free_memory() / ranks


def checked_place(place: str) -> str:
    """One of `PLACES`."""
    if place not in PLACES:
        raise InputError(
            f"trajectories are kept in 'memory', on 'disk' or where they fit, 'auto', not {place!r}"
        )
    return place
