"""The L2 projection of a state onto the declared constraint class, for initial data.

With the constraint's form c(w, μ), the projection P w of w minimises ‖P w − w‖ subject to c(P w, μ) = 0: one saddle-point solve
with the mass matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import ufl

from cffem import _compat
from cffem.engine.equation import add
from cffem.engine.linear import LinearSolver

if TYPE_CHECKING:
    from cffem.engine.model import Model


def project_onto_constraint(model: Model, state: np.ndarray) -> np.ndarray:
    """The nearest state in the constraint class with the same essential boundary values."""
    equation, essential = model.equation, model.essential
    (constraint,) = (part for _, part in equation.fixed if part.ingredient.name == "constraint")
    mass = _compat.assemble_matrix(_compat.form(mass_form(model), model.comm))
    coupling = constraint.matrix(0)
    right, increment, whole = equation.new_vector(), equation.new_vector(), equation.new_vector()
    whole.array[:] = state
    coupling.mult(whole, right)
    if constraint.ingredient.constant is not None:
        right.array += constraint.constant()
    # Only the constraint rows have a defect: the mass rows of w − w vanish.
    right.array[:] *= -(1.0 - model.spaces.mask(model.discretisation.unknowns))
    right.array[essential.owned] = 0.0
    add(mass, 1.0, coupling)
    mass.zeroRowsColumns(essential.rows, diag=1.0)
    solver = LinearSolver(mass)
    solver.solve(right, increment, "the projection onto the constraint")
    result = state + increment.array_r * model.spaces.mask(model.discretisation.unknowns)
    solver.destroy()
    for thing in (mass, right, increment, whole):
        thing.destroy()
    return result


def mass_form(model: Model) -> Any:
    """The mass form of the unknown fields, and of auxiliary fields so that the matrix is regular."""
    spaces = model.spaces
    multiplier = model.discretisation.multiplier
    assert multiplier is not None
    trial = spaces.parts(ufl.TrialFunction(spaces.space))
    tests = model.discretisation.tests
    return sum(ufl.inner(trial[f], tests[f]) * ufl.dx for f in spaces.fields if f != multiplier[0])
