# SPDX-License-Identifier: MIT
"""Comparing solutions of different levels: states carried into a finer space, and inner products of
trajectories.

The inner product of two trajectories integrates their piecewise linear interpolants in time
exactly, as scores do: on a step of length τ with values a, b and a′, b′ it is τ/3 ((a, a′) + ((a,
b′) + (b, a′))/2 + (b, b′)). Every state meets the matrix of the norm once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Part = tuple[Sequence[np.ndarray], float]  # the states of a trajectory and its weight in a sum


def raised_states(
    states: Sequence[np.ndarray], source: Any, target: Any, maps: Mapping[Any, Any]
) -> list[np.ndarray]:
    """States of one space as states (owned values) of another that contains it, zero but for the
    mapped fields; collective.

    Args:
        states: owned values.
        source, target: the `Spaces` of the two models.
        maps: for each field the matrix from its local values to those in the target.
    """
    raised = []
    for state in states:
        whole, local = np.zeros(target.owned), source.with_ghosts(state)
        for unknown, matrix in maps.items():
            where = target.dofs(unknown)
            mine = where < target.owned
            whole[where[mine]] = (matrix @ local[source.dofs(unknown)])[mine]
        raised.append(whole)
    return raised


def gram_matrix(norm: Any, fields: Sequence[Sequence[Part]], length: float) -> np.ndarray:
    """The inner products of some fields, each a weighted sum of trajectories on equidistant levels
    of one window; collective.

    Args:
        norm: the norm in space, a `Norm` of the engine.
        fields: for each field its trajectories with their weights; the finest levels in time
            contain all others.
        length: of the window of time; steady fields have one level.
    """
    levels = max(len(states) for field in fields for states, _ in field)
    step, total = length / max(levels - 1, 1), np.zeros((len(fields), len(fields)))
    vector, image = norm.matrix.createVecRight(), norm.matrix.createVecLeft()
    before: tuple[np.ndarray, np.ndarray] | None = None
    for n in range(levels):
        values = np.stack(
            [
                np.sum([weight * _at(states, n, levels) for states, weight in field], axis=0)
                for field in fields
            ]
        )
        images = np.empty_like(values)
        for row, value in enumerate(values):
            vector.array[:] = value
            norm.matrix.mult(vector, image)
            images[row] = image.array_r
        own = values @ images.T
        if levels == 1:
            total = own
        elif before is None:
            total += step / 3 * own
        else:
            cross = before[0] @ images.T
            total += step / 3 * (own * (2 if n < levels - 1 else 1) + (cross + cross.T) / 2)
        before = values, images
    for thing in (vector, image):
        thing.destroy()
    return norm.comm.allreduce(total)


def _at(states: Sequence[np.ndarray], n: int, levels: int) -> np.ndarray:
    """The piecewise linear interpolant in time at the n-th of some equidistant levels that
    contain its own.
    """
    every = (levels - 1) // (len(states) - 1) if levels > 1 else 1
    k, rest = divmod(n, every)
    return states[k] if rest == 0 else states[k] + rest / every * (states[k + 1] - states[k])
