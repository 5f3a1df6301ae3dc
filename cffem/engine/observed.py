# SPDX-License-Identifier: MIT
"""Measured fields as finite-element fields: a trajectory of a model's space that was observed, not
computed.

The values of a dataset are interpolated onto the mesh at the time levels of the model. The result
is a `Solution` like any other: designs take their weak rows from it, in which derivatives are on
test functions, it can be compared with solved trajectories, and written to files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.inputs.field_data import interpolate
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.measured import rate_of

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.measured import MeasuredData


def observed(model: Model, data: MeasuredData) -> Solution:
    """The fields of a dataset on the mesh and at the times of a model; collective.

    Args:
        model: the model; all its unknown fields must be in the data.
        data: a `Dataset` that covers the mesh and the model's time window.

    Raises:
        InputError: the data do not reach a point of the mesh or a time level.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> grid = np.linspace(0, 1, 9)
        >>> values = grid[:, None, None] + 2 * grid[None, :, None] + np.array([0.0, 1.0])
        >>> data = cf.Dataset.from_arrays({cf.x: grid, cf.y: grid, cf.t: [0.0, 1.0]}, {u: values})
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.square(MPI.COMM_SELF, 0.5),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, data)],
        ...     initial={u: data},
        ...     time=cf.Window(0, 1, steps=2),
        ... )
        >>> model = cf.Model(
        ...     cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)}), {"lap": 1.0}, experiment
        ... )
        >>> float(observed(model, data).function(k=1).x.array.max())
        3.5
    """
    solution = Solution(model, Intervention(), model.times, SolveRecord())
    second_order = (
        model.marching.second_order is not None if model.experiment.time is not None else False
    )
    for level, time in enumerate(model.times):
        state = _state(model, data, float(time), "the observed fields")
        velocity = (
            _state(model, rate_of(data), float(time), "the observed rates")
            if second_order
            else None
        )
        solution.keep(level, state, velocity)
    return solution


def _state(model: Model, data: MeasuredData, time: float, what: str) -> np.ndarray:
    """All unknown fields at a time, as owned values of the state."""
    spaces = model.spaces
    state = np.zeros(spaces.owned)
    for unknown in model.discretisation.unknowns:
        function = spaces.function(unknown, state)
        interpolate(function, data, unknown, time, what)
        dofs = spaces.dofs(unknown)
        mine = dofs < spaces.owned
        state[dofs[mine]] = function.x.array[mine]
    return state
