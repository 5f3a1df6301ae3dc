# SPDX-License-Identifier: MIT
"""Steady problems: where Newton's method starts, and which of several solutions is meant.

The factual problem starts from `initial`, or from zero, and has other ways where Newton's method
does not arrive from there (`cffem.engine.steady.arriving`). A changed nonlinear problem starts at
the factual solution and stays on the branch that begins there, see
`cffem.engine.steady.continuation`, unless conditions change with it, which happens at once. What is
to be said about either is kept with the record of its solves: several solutions that were met, or a
factual solution that no march in time would stay at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solve.petsc_options import log
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.solve_errors import SolveError
from cffem.engine.steady.arriving import arrive
from cffem.engine.steady.continuation import BETWEEN_PLACES, SETTINGS, SolutionBranch
from cffem.engine.steady.steady_stability import is_looked_for, stability
from cffem.engine.time.start import put
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.model import Model
    from cffem.engine.time.march import Stage


@dataclass(frozen=True)
class BranchStart:
    """A solution from which changed ones are followed, in place of the factual one.

    Attributes:
        coefficients: at which it solves the problem.
        state: its values.
    """

    coefficients: Mapping[str, float]
    state: np.ndarray


def solve_steady(model: Model, change: Intervention, stage: Stage) -> PETSc.Vec:
    """The steady solution as a vector, which the caller frees; collective.

    Args:
        model: the model.
        change: the intervention.
        stage: the stage solver prepared for it.

    Raises:
        SolveError: there is no such solution, or it was not found.
    """
    factual = None if stage.equation.affine or change.initial else beginning(model, change)
    if factual is None:
        state = started(model, change, stage)
        arrive(model, change, stage, state)
        if change == Intervention() and is_looked_for(model, stage):
            tell_of_instability(model, state.array_r.copy(), stage.record)
        return state
    model.prepared(
        change, stage.record
    )  # again: the factual problem may have been solved meanwhile
    state = stage.equation.new_vector()
    state.array[:] = factual
    stage.essential.set_values(state.array, 0.0)
    if model.changes_coefficients_only(change):
        along_branch(model, change, stage, state)
    elif not change.deleted:
        arrive(model, change, stage, state)
    else:
        stage.solve(state, None, None, None, 0.0, "the steady problem")
    return state


def tell_of_instability(model: Model, state: np.ndarray, record: SolveRecord) -> None:
    """Note with the record of the solves where a factual solution is unstable, and warn."""
    found = stability(model, state)
    model.prepared(Intervention(), record)
    if not found.stable:
        record.notices.append(str(found))
        if model.comm.rank == 0:
            log.warning("%s", found)


def started(model: Model, change: Intervention, stage: Stage) -> PETSc.Vec:
    """Newton's start of a problem that has nothing else: zero, or what `initial` or a coarser
    level says.
    """
    state = stage.equation.new_vector()
    if model.start_at is not None and not change.initial and not stage.equation.affine:
        state.array[:] = model.start_at()
        stage.essential.set_values(state.array, 0.0)
        return state
    values = {**dict(model.experiment.initial), **dict(change.initial)}
    for unknown in model.library.equations:
        if unknown in values:
            put(model, state.array, unknown, values[unknown])
    stage.essential.set_values(state.array, 0.0)
    return state


def beginning(model: Model, change: Intervention) -> np.ndarray | None:
    """The factual solution, for a changed problem to start from; None for the factual problem
    itself.
    """
    if change.only_coefficients and change.apply(model.coefficients) == model.coefficients:
        return None
    if model.follow_from is not None and model.changes_coefficients_only(change):
        return model.follow_from.state
    try:
        return model.factual.states[0]
    except SolveError:
        return None  # what cannot be solved factually can still be solved without a term


def along_branch(model: Model, change: Intervention, stage: Stage, state: PETSc.Vec) -> None:
    """Follow the branch from the factual solution, in place."""

    def use(coefficients: Mapping[str, float]) -> None:
        stage.equation.use(coefficients, model.experiment.forcing)

    known = model.follow_from
    before = model.coefficients if known is None else known.coefficients
    settings = SETTINGS if known is None else BETWEEN_PLACES
    branch = SolutionBranch(stage, before, change.apply(model.coefficients), use, settings)
    state.array[:] = branch.follow(state.array_r)
    told = branch.told(state.array_r)
    if told:
        stage.record.notices.append(told)
    stage.essential.centre(state.array)
