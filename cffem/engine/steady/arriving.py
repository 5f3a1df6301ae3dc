# SPDX-License-Identifier: MIT
"""Steady problems at which Newton's method does not arrive from where it starts, by ways on which
it does.

    homotopy the nonlinear terms are switched on along the branch that begins at the linear problem,
                    Σ over nonlinear j of s α_j T_j[u], s from 0 to 1, with steps as
                    `cffem.engine.steady.continuation` controls them: the Stokes problem becomes the
                    Navier–Stokes problem
    pseudo-time backward Euler in the time of dt(u) = Σ_j α_j T_j[u] + f, one step of Newton's
                    method each, with steps that grow as it slows down (switched evolution
                    relaxation, Mulder and van Leer 1985, Kelley and Keyes 1998)

They are tried in this order after Newton's method with its line search has failed. Which one led to
the solution is kept with the record of its solves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mpi4py import MPI

from cffem.engine.solve.solve_record import SolveRecord, collect_garbage
from cffem.engine.solve_errors import SolveError
from cffem.engine.steady.continuation import SolutionBranch
from cffem.engine.steady.steady_stability import towards_rest
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.model import Model
    from cffem.engine.time.march import Stage

WHAT = "the steady problem"
# Failures that say something about the start and not about the machine.
CURABLE = ("start", "singular", "not finite", "tolerance")


@dataclass(frozen=True)
class PseudoTimeSettings:
    """How a march in pseudo-time goes.

    Attributes:
        first: the first step, relative to the time in which the roughest fields change.
        least, most: limits of the factor between two steps.
        steps: the largest number of them.
        near: the speed relative to the first one from which Newton's method takes over.
        nearer: the factor by which it has to fall further where that was too early.
    """

    first: float = 0.1
    least: float = 0.5
    most: float = 2.0
    steps: int = 150
    near: float = 1e-4
    nearer: float = 0.1


PSEUDO_TIME = PseudoTimeSettings()


def arrive(model: Model, change: Intervention, stage: Stage, state: PETSc.Vec) -> None:
    """Solve a steady problem from a start, in place; collective.

    Args:
        model: the model.
        change: the intervention that the stage is prepared for.
        stage: the stage solver.
        state: the start with the essential values; then the solution.

    Raises:
        SolveError: no way leads to a solution; the message says what each of them met.
    """
    start, record = state.array_r.copy(), stage.record
    try:
        stage.solve(state, None, None, None, 0.0, WHAT)
        return
    except SolveError as error:
        if stage.equation.affine or error.cause not in CURABLE:
            raise
        first = error
    met = []
    for name, way in (
        ("homotopy in the nonlinear terms", homotopy),
        ("a march in pseudo-time", pseudo_time),
    ):
        collect_garbage(model.comm)  # vectors of the solve that was broken off
        state.array[:] = start
        try:
            told = way(model, change, stage, state)
        except SolveError as error:
            met.append(f"{name}: {error}")
            continue
        finally:
            model.prepared(change, record)
        record.notices.append(
            f"Newton's method did not arrive at the solution from its start, {told} did"
        )
        return
    raise SolveError(f"{first}; {'; '.join(met)}", first.history, first.cause)


def homotopy(model: Model, change: Intervention, stage: Stage, state: PETSc.Vec) -> str:
    """Switch the nonlinear terms on along the branch that begins at the linear problem."""
    after = change.apply(model.coefficients)
    nonlinear = [
        name
        for name, value in after.items()
        if value and not stage.equation.terms[name].ingredient.linear
    ]
    before = {**after, **dict.fromkeys(nonlinear, 0.0)}
    use = user(model, change, stage)
    use(before)
    if not stage.equation.affine:
        raise SolveError("what is left without the nonlinear terms is not linear", cause="start")
    stage.solve(state, None, None, None, 0.0, "the problem without its nonlinear terms")
    branch = SolutionBranch(stage, before, after, use)
    state.array[:] = branch.follow(state.array_r)
    stage.essential.centre(state.array)
    return f"homotopy in the coefficients of {', '.join(nonlinear)} ({branch.steps} steps)"


def user(model: Model, change: Intervention, stage: Stage) -> Callable[[Mapping[str, float]], None]:
    """What takes coefficients into use with the forcing of an intervention."""
    forcing = {**dict(model.experiment.forcing), **dict(change.forcing)}

    def use(coefficients: Mapping[str, float]) -> None:
        stage.equation.use(coefficients, forcing, constrained=not change.released)

    return use


def pseudo_time(
    model: Model,
    change: Intervention,
    stage: Stage,
    state: PETSc.Vec,
    settings: PseudoTimeSettings = PSEUDO_TIME,
) -> str:
    """March to rest with steps that grow as it slows down, and end with Newton's method."""
    speeds: list[float] = []
    record, near = stage.record, settings.near
    step: float | None = None
    signs = None
    for count in range(settings.steps):
        # The start tells the direction of time; convection hides it on the way.
        found = towards_rest(model, state, record, step, change, signs, settings.first)
        signs, step = found.signs, found.step
        if not model.comm.allreduce(int(signs.any()), MPI.MAX):
            raise SolveError(
                "the equations have no direction in time at the start", speeds, "start"
            )
        step *= (
            1.0
            if not speeds
            else min(max(speeds[-1] / max(found.speed, 1e-300), settings.least), settings.most)
        )
        speeds.append(found.speed)
        if found.speed <= near * speeds[0]:
            if ends(model, change, record, state):
                return f"a march in pseudo-time ({count} steps)"
            near *= settings.nearer
        state.array[:] += found.move
        stage.essential.complete(state.array)
    raise SolveError(f"it came to no rest in {settings.steps} steps", speeds, "start")


def ends(model: Model, change: Intervention, record: SolveRecord, state: PETSc.Vec) -> bool:
    """Whether Newton's method takes a state to the solution, in place; where it does not, the
    state is left as it is.
    """
    kept, stage = state.array_r.copy(), model.prepared(change, record)
    try:
        stage.solve(state, None, None, None, 0.0, WHAT)
    except SolveError:
        state.array[:] = kept
        return False
    return True
