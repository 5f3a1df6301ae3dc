# SPDX-License-Identifier: MIT
"""Algebraic unknowns at the start of a march: initial data give fields with rates, the equations
give the others.

With w = (dynamic fields, algebraic fields a), the start solves F(w, ẇ, ẅ, t₀) = 0. Where no
equation of an algebraic field contains a rate, its rows alone determine a. Where one does, the
rates that initial data leave open, ẇ of fields of first and ẅ of fields of second order in time,
are solved for together with a.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.presets import factorised
from cffem.engine.solve.scope import Scope
from cffem.engine.solve_errors import SolveError
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.assembly.equation import Equation
    from cffem.engine.solve.stage_types import StageVectors
    from cffem.engine.time.march import Marching, Stage

# Newton's method starts at zero rates; its last step is at most this part of the rates and values.
MOST_STEPS, LAST_STEP = 30, 1e-11


def rates_and_values(
    stage: Stage, marching: Marching, state: np.ndarray, velocity: np.ndarray | None, time: float
) -> None:
    """Solve for open rates and algebraic values together; the values are put into the state, in
    place.

    Args:
        stage: the stage solver with its equation and boundary conditions.
        marching: which unknowns have rates.
        state, velocity: owned values.
        time: the initial time.

    Raises:
        InputError: a constraint is declared, whose multiplier would have to be found from the
            constraint's time derivative.
    """
    equation, essential = stage.equation, stage.essential
    if equation.discretisation.multiplier is not None:
        raise InputError(
            "an equation without a time derivative of its own contains the rate of another field, "
            "which a constraint leaves open "
            "at the start; give that equation an anchor dt(…), or leave the rate out"
        )
    second = np.zeros_like(state) if marching.second_order is None else marching.second_order
    kinds = (1.0 - marching.dynamic, marching.dynamic - second, second)
    whole = Scope()
    *places, right, increment = (whole.own(equation.new_vector()) for _ in range(5))
    places[0].array[:] = state
    places[1].array[:] = 0.0 if velocity is None else velocity
    essential.set_rates(places[1].array, time, marching.dynamic - second)
    for _ in range(MOST_STEPS):
        equation.residual(tuple(places), time, right)
        right.scale(-1.0)
        essential.restrict(right)
        with Scope() as scope:
            matrix = scope.own(columns_of(equation, kinds, tuple(places), time))
            reduced = scope.own(equation.eliminated(matrix, essential.rows))
            plan = factorised(equation, essential.rows)
            solver = scope.own(LinearSolver(reduced, plan, stage.record))
            solver.solve(right, increment, "the initial value of the algebraic unknowns")
        essential.complete(increment.array)
        for place, kind in zip(places, kinds, strict=True):
            place.array[:] += increment.array_r * kind
        size = sum(place.norm() for place in places)
        if equation.affine or increment.norm() <= LAST_STEP * size:
            break
    else:
        raise SolveError(
            "the initial value of the algebraic unknowns: Newton's method did not converge"
        )
    state[:] = places[0].array_r
    whole.destroy()


def columns_of(
    equation: Equation, kinds: tuple[np.ndarray, ...], places: StageVectors, time: float
) -> PETSc.Mat:
    """The matrix whose columns are derivatives with respect to the value, rate or
    acceleration, as each unknown is of a kind.
    """
    total: PETSc.Mat = None
    mask = equation.new_vector()
    for order, kind in enumerate(kinds):
        weights = (float(order == 0), float(order == 1), float(order == 2))
        part = equation.jacobian(weights, places, time).copy()
        mask.array[:] = kind
        part.diagonalScale(None, mask)
        if total is None:
            total = part
        else:
            total.axpy(1.0, part)
            part.destroy()
    mask.destroy()
    return total
