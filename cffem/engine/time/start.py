# SPDX-License-Identifier: MIT
"""Where a march begins: its scheme, which unknowns have rates, and the initial state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.inputs import field_data as data
from cffem.engine.inputs import initial
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.amplitudes import modes_of
from cffem.engine.time.march import Marching, Stage, consistent_start
from cffem.engine.time.projection import project_onto_constraint
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.operators import dt
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.measured import rate_of
from cffem.symbols.problem.schemes import SCHEMES

if TYPE_CHECKING:
    from cffem.engine.model import Model


def marching_of(model: Model) -> Marching:
    """Scheme and kinds of unknowns."""
    orders = {f: equation.time_order for f, equation in model.library.equations.items()}
    dynamic = [f for f, order in orders.items() if order >= 1]
    second = [f for f, order in orders.items() if order == 2]
    window = model.experiment.time
    # Algebraic unknowns take their value from the last stage, which the midpoint rule has in
    # the middle of the step.
    algebraic = len(dynamic) < len(orders) or (
        model.discretisation.multiplier is not None and not second
    )
    name = (window.scheme if window else None) or ("sdirk2" if algebraic else "midpoint")
    scheme = SCHEMES[name]
    if scheme.composed and len(scheme.b) > 1 and len(dynamic) < len(model.spaces.fields):
        raise InputError(
            f"the scheme {name!r} is for fields that all have time derivatives, since the stages "
            "of a step are at other times than its end; take 'sdirk4', or 'midpoint'"
        )
    return Marching(
        scheme,
        model.spaces.mask(dynamic),
        model.spaces.mask(second) if second else None,
        model.jumps,
    )


def starts_as_factual(model: Model, change: Intervention) -> bool:
    """Whether an intervention leaves the initial state as it is in the factual problem."""
    if (
        change.initial
        or change.amplitudes
        or change.conditions
        or change.released
        or not model.changes_coefficients_only(change)
    ):
        return False
    # Algebraic fields follow the coefficients, and a function of the user's may have changed
    # since.
    algebraic = any(equation.time_order == 0 for equation in model.library.equations.values())
    return not algebraic and not any(
        hasattr(value, "function_space") for value in model.experiment.initial.values()
    )


def initial_state(
    model: Model, change: Intervention, stage: Stage | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Initial state and velocity (owned values) of an intervention, on the constraint class."""
    stage = stage or model.prepared(change, SolveRecord())
    values = {**dict(model.experiment.initial), **dict(change.initial)}
    state = np.zeros(model.spaces.owned)
    velocity = None if model.marching.second_order is None else np.zeros(model.spaces.owned)
    for unknown, equation in model.library.equations.items():
        if equation.time_order >= 1:
            put(model, state, unknown, values[unknown])
        if equation.time_order == 2 and velocity is not None:
            put(model, velocity, unknown, rate_of(values[dt(unknown)]))
    if change.amplitudes:
        modes_of(model).add_to_start(change, state, velocity)
    essential, start = stage.essential, float(model.times[0])
    essential.set_values(state, start)
    if velocity is not None:
        essential.set_velocities(velocity, start)
    if model.discretisation.multiplier is not None:
        state = project_onto_constraint(stage, state, start)
        velocity = (
            None if velocity is None else project_onto_constraint(stage, velocity, start, rate=True)
        )
    if any(equation.time_order == 0 for equation in model.library.equations.values()):
        consistent_start(stage, model.marching, held_at_start(model), state, velocity, start)
    return state, velocity


def held_at_start(model: Model) -> np.ndarray:
    """Unknowns that initial data give: fields with a rate, and the multiplier of a
    constraint on such fields.
    """
    held = [f for f, equation in model.library.equations.items() if equation.time_order]
    multiplier = model.discretisation.multiplier
    if multiplier is not None and {*model.experiment.constraint.fields} <= {*held}:
        held.append(multiplier[0])
    return model.spaces.mask(held)


def put(model: Model, state: np.ndarray, unknown: Field, value: object) -> None:
    """Interpolate a value at the initial time into the place of a field in a state (owned
    values).
    """
    from dolfinx import fem

    data.check_on_mesh(value, unknown, model.discretisation.mesh, f"the initial value of {unknown}")
    own, _ = model.spaces.own(unknown)
    function = fem.Function(own)
    what = f"the initial value of {unknown}"
    discretisation = model.discretisation
    start = float(model.times[0])
    given = (discretisation.sharp, discretisation.known)
    initial.put(function, value, unknown, start, what, *given)
    dofs = model.spaces.dofs(unknown)
    mine = dofs < model.spaces.owned
    state[dofs[mine]] = function.x.array[mine]
