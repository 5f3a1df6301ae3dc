# SPDX-License-Identifier: MIT
"""Riesz representatives: the function r with (r, v) = ⟨g, v⟩ for all test functions v, in a norm of
the state.

Where an element cannot represent T_j[u] itself (the Laplacian of degree 1), its L2 representative
in the test space stands for it. The dual norm of g is ‖r‖.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.presets import factorised
from cffem.engine.solve.scope import Scope

if TYPE_CHECKING:
    from cffem.engine.model import Model


class Riesz(Scope):
    """Solves with the matrix of a norm on the test functions, which vanish where values are
    essential.

    Args:
        model: the model.
        kind: the norm.
    """

    def __init__(self, model: Model, kind: str = "L2"):
        self.model = model
        # Multipliers and auxiliary fields have no part in the norm.
        self.essential = model.essential.holding(1 - model.spaces.mask(model.norm(kind).fields))
        norm = self.own(model.norm(kind).matrix.copy())
        self.matrix = self.own(model.equation.eliminated(norm, self.essential.rows))
        plan = factorised(model.equation, self.essential.rows)
        self.solver = self.own(LinearSolver(self.matrix, plan))
        self._right, self._solution = (self.own(model.equation.new_vector()) for _ in range(2))

    def __call__(self, vector: np.ndarray) -> np.ndarray:
        """The representative of a functional given by its values on the basis (owned values)."""
        self._right.array[:] = vector
        self.essential.restrict(self._right)
        self.solver.solve(self._right, self._solution, "the mass system of a Riesz representative")
        values = self._solution.array_r.copy()
        self.essential.complete(values)
        return values

    def dual_norm(self, vector: np.ndarray) -> float:
        """The norm of a functional, dual to the norm of the test functions."""
        local = float(np.dot(self(vector), vector))
        return math.sqrt(max(self.model.comm.allreduce(local), 0.0))
