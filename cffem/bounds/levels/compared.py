# SPDX-License-Identifier: MIT
"""Comparing solutions of different levels: states carried into a finer space, and inner products of
trajectories.

The inner product of two trajectories integrates their piecewise linear interpolants in time
exactly, as scores do: on a step of length τ with values a, b and a′, b′ it is τ/3 ((a, a′) + ((a,
b′) + (b, a′))/2 + (b, b′)). Every state meets the matrix of the norm once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
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


WHOLE = Fraction(1)
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


def gram_matrix(
    norm: StateNorm, fields: Sequence[Sequence[Part]], length: float, until: Fraction = WHOLE
) -> np.ndarray:
    """The inner products of some fields, each a weighted sum of trajectories on equidistant levels
    of one window; collective.

    Args:
        norm: the norm in space, a `StateNorm`.
        fields: for each field its trajectories with their weights.
        length: of the window of time; steady fields have one level.
        until: the share of the window that is looked at, from its beginning.
    """
    counts = {len(states) for field in fields for states, _ in field}
    # All levels in time of all trajectories together, as shares of the window.
    every = {Fraction(k, max(n - 1, 1)) for n in counts for k in range(n)}
    times = sorted({time for time in every if time < until} | ({until} & every))
    total = np.zeros((len(fields), len(fields)))
    vector, image = norm.matrix.createVecRight(), norm.matrix.createVecLeft()
    before: tuple[np.ndarray, np.ndarray] | None = None
    for n, time in enumerate(times):
        values = np.stack(
            [
                np.sum([weight * _at(states, time) for states, weight in field], axis=0)
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
            step = length * float(time - times[n - 1])
            total += step / 3 * (before[1] + own + (cross + cross.T) / 2)
        before = values, own
    for thing in (vector, image):
        thing.destroy()
    return norm.comm.allreduce(total)


def _at(states: Sequence[np.ndarray], time: Fraction) -> np.ndarray:
    """The piecewise linear interpolant of equidistant levels at a share of the window."""
    place = time * (len(states) - 1)
    k = int(place)
    rest = float(place - k)
    return states[k] if rest == 0 else states[k] + rest * (states[k + 1] - states[k])
