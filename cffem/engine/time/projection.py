# SPDX-License-Identifier: MIT
"""The L2 projection of a state onto the declared constraint class, for initial data.

With the constraint's form c(w, μ), the projection P w of w minimises ‖P w − w‖ subject to c(P w, μ)
= 0: one saddle-point solve with the mass matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import ufl

from cffem import _compat
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.ingredients import add
from cffem.engine.solve.linear import LinearSolver, SolveError
from cffem.engine.solve.presets import factorised
from cffem.engine.solve.scope import Scope
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.time.march import Stage


def project_onto_constraint(
    stage: Stage, state: np.ndarray, time: float, rate: bool = False
) -> np.ndarray:
    """The nearest state in the constraint class with the same essential boundary values.

    Args:
        stage: the stage solver whose boundary conditions hold.
        state: owned values.
        time: the time at which the constraint is taken.
        rate: whether the state is a velocity, which obeys the time derivative of the constraint.
    """
    equation, essential = stage.equation, stage.essential.constrained
    discretisation = equation.discretisation
    (constraint,) = (part for _, part in equation.fixed if part.ingredient.name == "constraint")
    if rate and not constraint.ingredient.steady_constant:
        raise InputError(
            "a constraint that changes in time cannot be declared on a field of second order in "
            "time"
        )
    scope, coupling = Scope(), constraint.matrix(0)
    mass = scope.own(
        _compat.assemble_matrix(_compat.form(mass_form(discretisation), equation.comm))
    )
    right, increment = (scope.own(equation.new_vector()) for _ in range(2))
    increment.array[:] = state
    coupling.mult(increment, right)
    if constraint.ingredient.constant is not None and not rate:
        discretisation.time.value = time
        right.array += constraint.constant()
    # Only the constraint rows have a defect: the mass rows of w − w vanish.
    unknowns = discretisation.spaces.mask(discretisation.unknowns)
    right.array[:] *= -(1.0 - unknowns)
    essential.restrict(right)
    add(mass, 1.0, coupling)
    matrix = scope.own(equation.eliminated(mass, essential.rows))
    solver = scope.own(LinearSolver(matrix, factorised(equation, essential.rows)))
    try:
        solver.solve(right, increment, "the projection onto the constraint")
    except SolveError as error:
        scope.destroy()
        declared = discretisation.experiment.constraint.multiplier
        if declared is None:
            raise
        hint = (
            f"the element of the multiplier {declared[0]} may not suit; without a multiplier a "
            "suitable one is taken"
        )
        raise SolveError(f"{error}; {hint}") from error
    essential.complete(increment.array)
    result = state + increment.array_r * unknowns
    scope.destroy()
    return result


def mass_form(discretisation: Discretisation) -> ufl.Form:
    """The mass form of the unknown fields, and of auxiliary fields so that the matrix is
    regular.
    """
    spaces, multiplier = discretisation.spaces, discretisation.multiplier
    assert multiplier is not None
    trial = spaces.parts(ufl.TrialFunction(spaces.space))
    tests = discretisation.tests
    return sum(ufl.inner(trial[f], tests[f]) * ufl.dx for f in spaces.fields if f != multiplier[0])
