# SPDX-License-Identifier: MIT
"""Comparing solutions of different levels: states carried into a finer space, and inner products of
trajectories.

The inner product of two trajectories integrates their piecewise linear interpolants in time
exactly, as scores do: on a step of length τ with values a, b and a′, b′ it is τ/3 ((a, a′) + ((a,
b′) + (b, a′))/2 + (b, b′)). Every state meets the matrix of the norm once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.bounds.certificate import NotCovered
from cffem.engine.norms import parsed

if TYPE_CHECKING:
    from scipy import sparse

    from cffem.engine.assembly.spaces import Spaces
    from cffem.engine.model import Model
    from cffem.engine.norms import StateNorm
    from cffem.symbols.fields import Field


# Times nearer than this share of the window are the same, up to rounding.
SAME_TIME = 1e-11
Part = tuple[Sequence[np.ndarray], float]  # the states of a trajectory and its weight in a sum


def compared_fields(model: Model) -> list[Any]:
    """The fields that levels compare: the unknowns, and the pressure where there is one."""
    multiplier = model.discretisation.multiplier
    pressure = [] if multiplier is None or multiplier[0].shape else [multiplier[0]]
    return [*model.discretisation.unknowns, *pressure]


def check_compared(model: Model, kind: str) -> None:
    """Raise `NotCovered` where a norm counts a field that levels do not compare."""
    fields = compared_fields(model)
    for _, weights in parsed(kind, model.discretisation):
        for field in weights:
            if field not in fields:
                raise NotCovered(f"levels do not compare the auxiliary field {field}")


def raised_states(
    states: Sequence[np.ndarray],
    source: Spaces,
    target: Spaces,
    maps: Mapping[Field, sparse.csr_matrix],
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


def grids(models: Iterable[Model]) -> dict[int, np.ndarray]:
    """The time levels of some models of one window, by their number.

    Raises:
        NotCovered: two of them have as many levels at other times.
    """
    found: dict[int, np.ndarray] = {}
    for model in models:
        times = np.asarray(model.times, dtype=float)
        other = found.setdefault(len(times), times)
        if np.abs(other - times).max() > SAME_TIME * float(np.ptp(times)):
            raise NotCovered("two levels have as many time steps, but not at the same times")
    return found


def gram_matrix(
    norm: StateNorm,
    fields: Sequence[Sequence[Part]],
    levels: Mapping[int, np.ndarray],
    until: float = math.inf,
) -> np.ndarray:
    """The inner products of some fields, each a weighted sum of trajectories on levels of one
    window; collective.

    Args:
        norm: the norm in space, a `StateNorm`.
        fields: for each field its trajectories with their weights.
        levels: the time levels of trajectories by their number, see `grids`.
        until: the level to which the window is looked at, from its beginning.
    """
    counts = {len(states) for field in fields for states, _ in field}
    # All levels in time of all trajectories together.
    every = np.unique(np.concatenate([levels[count] for count in sorted(counts)]))
    same = SAME_TIME * float(np.ptp(every))
    times = every[np.append(True, np.diff(every) > same)]
    times = times[times <= until + same]
    total = np.zeros((len(fields), len(fields)))
    vector, image = norm.matrix.createVecRight(), norm.matrix.createVecLeft()
    before: tuple[np.ndarray, np.ndarray] | None = None
    for n, time in enumerate(times):
        values = np.stack(
            [
                np.sum(
                    [
                        weight * _at(states, levels[len(states)], time, same)
                        for states, weight in field
                    ],
                    axis=0,
                )
                for field in fields
            ]
        )
        images = np.empty_like(values)
        for row, value in enumerate(values):
            vector.array[:] = value
            norm.matrix.mult(vector, image)
            images[row] = image.array_r
        own = values @ images.T
        if len(times) == 1:
            total = own
        elif before is not None:
            cross = before[0] @ images.T
            step = float(time - times[n - 1])
            total += step / 3 * (before[1] + own + (cross + cross.T) / 2)
        before = values, own
    for thing in (vector, image):
        thing.destroy()
    return norm.comm.allreduce(total)


def _at(states: Sequence[np.ndarray], levels: np.ndarray, time: float, same: float) -> np.ndarray:
    """The piecewise linear interpolant of levels at a time."""
    k = int(np.searchsorted(levels, time + same, side="right")) - 1
    if abs(time - levels[k]) <= same:
        return states[k]
    share = float((time - levels[k]) / (levels[k + 1] - levels[k]))
    return states[k] + share * (states[k + 1] - states[k])
