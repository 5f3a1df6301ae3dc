# SPDX-License-Identifier: MIT
"""Terms on states: T_j[w] as a functional, its L2-Riesz norm in the test space, and the operator
norm of linear terms.

Auxiliary fields (the weak divergence of a Nédélec field, say) are functions of the others; here
they are solved for first, so that T_j is an operator on the unknowns alone. A linear term is then a
matrix T with T* = M⁻¹Tᵀ, and SLEPc finds its largest singular value, with or without the
projection, as the square root of the largest eigenvalue of P T* T P.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from dolfinx import fem
from petsc4py import PETSc
from slepc4py import SLEPc

from cffem import _compat
from cffem.constraints.projections.base import Projection, global_rows
from cffem.constraints.projections.projection_solver import BlockSolver
from cffem.constraints.random_fields import random_field
from cffem.engine.assembly.ingredients import add
from cffem.engine.solve_errors import as_raised

if TYPE_CHECKING:
    from cffem.engine.model import Model


Map = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class SingularValueSettings:
    """Largest singular values by SLEPc.

    Args:
        tolerance: relative; a few digits are enough to compare two of them.
        steps: iterations at most.
    """

    tolerance: float = 1e-2
    steps: int = 30


SINGULAR_VALUES = SingularValueSettings()


class Evaluation:
    """Evaluates the terms of a model on states.

    Args:
        model: the model; its equation's compiled forms are shared.
    """

    def __init__(self, model: Model):
        self.model, self.spaces, self.equation, self.comm = (
            model,
            model.spaces,
            model.equation,
            model.comm,
        )
        d = model.discretisation
        self.unknowns = self.spaces.mask(d.unknowns)
        self.auxiliary = self.spaces.mask([a.field for a in d.auxiliaries])
        self.free = self.unknowns.copy()
        self.free[model.essential.owned] = 0.0
        self.inputs = 1.0 - self.auxiliary
        self.inputs[model.essential.owned] = 0.0
        self.mass = model.norm("L2").matrix
        self._a, self._b = self.mass.createVecs()
        self._riesz = self._block(self.mass, self.free)
        self.input_mass, self._input_riesz = self.mass, self._riesz
        if d.multiplier is not None:
            self.input_mass = _compat.assemble_matrix(_compat.form(self._all_fields(), self.comm))
            self._input_riesz = self._block(self.input_mass, self.inputs)
        self._definitions: Any = None
        self._auxiliaries: BlockSolver | None = None
        if d.auxiliaries:
            self._prepare_auxiliaries({str(a.field) for a in d.auxiliaries})

    def _all_fields(self) -> Any:
        """The L2 inner product of unknowns and multiplier: terms such as a pressure gradient
        act on the multiplier.
        """
        d, trial = (
            self.model.discretisation,
            self.spaces.parts(ufl.TrialFunction(self.spaces.space)),
        )
        fields = [f for f in self.spaces.fields if f not in {a.field for a in d.auxiliaries}]
        return sum(ufl.inner(trial[f], d.tests[f]) * ufl.dx for f in fields)

    def _block(self, matrix: PETSc.Mat, free: np.ndarray) -> BlockSolver:
        return BlockSolver(matrix, free, global_rows(self.spaces, np.flatnonzero(free)))

    def _prepare_auxiliaries(self, names: set[str]) -> None:
        """The equations of auxiliary fields, and a solver for them with everything else held."""
        parts = [part for _, part in self.equation.fixed if part.ingredient.name in names]
        self._defining = parts
        matrices = [part.matrix(0) for part in parts]
        self._definitions = matrices[0].copy()
        for matrix in matrices[1:]:
            add(self._definitions, 1.0, matrix)
        solvable = self.auxiliary.copy()
        solvable[self.model.essential.owned] = 0.0
        self._auxiliaries = self._block(self._definitions, solvable)

    # States
    # ----------------------------------------------------------------------------------------------

    def random_state(self, wavenumber: float, seed: int) -> np.ndarray:
        """Random fields and multipliers with zero essential values; auxiliary fields are left
        to `completed`.
        """
        state = np.zeros(self.spaces.owned)
        skipped = {a.field for a in self.model.discretisation.auxiliaries}
        for index, unknown in enumerate(f for f in self.spaces.fields if f not in skipped):
            own, _ = self.spaces.own(unknown)
            function = fem.Function(own)
            components = unknown.shape[0] if unknown.shape else 1
            function.interpolate(random_field(components, wavenumber, seed + 1000 * index))
            dofs = self.spaces.dofs(unknown)
            mine = dofs < self.spaces.owned
            state[dofs[mine]] = function.x.array[mine]
        state[self.model.essential.owned] = 0.0
        self.model.essential.complete(state)
        return state

    def completed(self, state: np.ndarray, time: float | None = None) -> np.ndarray:
        """The state with its auxiliary fields solved for.

        Args:
            state: fields and multipliers; what it has in the places of auxiliary fields does not
                count.
            time: that of the boundary data in their definitions (a moving wall, say); None for zero
                data.
        """
        if self._auxiliaries is None:
            return state
        self._a.array[:] = state * (1.0 - self.auxiliary)
        self._definitions.mult(self._a, self._b)
        right = self._b.array_r.copy()
        if time is not None:
            self.model.discretisation.time.value = time
            right += sum(
                part.constant() for part in self._defining if part.ingredient.constant is not None
            )
        return state * (1.0 - self.auxiliary) - self._auxiliaries.solve(
            right, "the auxiliary fields"
        )

    def is_complete(self, state: np.ndarray) -> bool:
        """Whether a state has its auxiliary fields already, as solutions do, boundary data
        included; collective.
        """
        return self.comm.allreduce(float(np.abs(state * self.auxiliary).sum())) > 0.0

    # Terms
    # ----------------------------------------------------------------------------------------------

    def orders(self, name: str) -> tuple[int, ...]:
        """Whether a term sees the state (0), its rate (1), its acceleration (2)."""
        return tuple(
            o
            for o, jacobian in enumerate(self.equation.terms[name].ingredient.jacobians)
            if jacobian is not None
        )

    def linear(self, name: str) -> bool:
        """Whether a term is linear in the state, without a constant part."""
        ingredient = self.equation.terms[name].ingredient
        return ingredient.by_matrix and ingredient.constant is None and bool(self.orders(name))

    def functional(
        self, name: str, states: tuple[np.ndarray | None, ...], time: float = 0.0
    ) -> np.ndarray:
        """⟨T_j[w], v_i⟩ for the free test functions, auxiliary fields solved for where the
        state has none.
        """
        vectors = []
        for order, values in enumerate(states):
            vector = None if values is None else self.equation.new_vector()
            if vector is not None:
                vector.array[:] = (
                    values if order == 0 and self.is_complete(values) else self.completed(values)
                )
            vectors.append(vector)
        out = self.equation.new_vector()
        first, second, third = vectors
        self.equation.term_vector(name, (first, second, third), time, out)
        result = out.array_r * self.free
        for vector in (out, *vectors):
            if vector is not None:
                vector.destroy()
        return result

    def representative(self, functional: np.ndarray) -> np.ndarray:
        """The L2-Riesz representative in the test space."""
        return self._riesz.solve(functional, "the Riesz representative")

    def dual_norm(self, functional: np.ndarray) -> float:
        """The norm of a functional, equal to that of its representative."""
        value = float(functional @ self.representative(functional))
        return math.sqrt(max(self.comm.allreduce(value), 0.0))

    def norm(self, state: np.ndarray) -> float:
        """The L2 norm of the unknown fields."""
        return self.model.norm("L2")(state)

    def input_norm(self, state: np.ndarray) -> float:
        """The L2 norm of everything that a term acts on: the unknown fields and the multiplier."""
        self._set(state * (1.0 - self.auxiliary))
        self.input_mass.mult(self._a, self._b)
        return math.sqrt(max(float(self._a.dot(self._b)), 0.0))

    # Operator norms
    # ----------------------------------------------------------------------------------------------

    def operator(self, name: str, order: int) -> tuple[Map, Map]:
        """A linear term as the map T* T needs: w ↦ M⁻¹ T w, and its adjoint."""
        matrix = self.equation.terms[name].matrix(order)

        def forward(state: np.ndarray) -> np.ndarray:
            self._set(self.completed(state))
            matrix.mult(self._a, self._b)
            return self.representative(self._b.array_r.copy())

        def adjoint(state: np.ndarray) -> np.ndarray:
            self._set(state * self.free)
            matrix.multTranspose(self._a, self._b)
            values = self._b.array_r.copy()
            if self._auxiliaries is not None:
                self._set(self._auxiliaries.solve(values, "the auxiliary fields"))
                self._definitions.multTranspose(self._a, self._b)
                values = values - self._b.array_r
            return self._input_riesz.solve(values * self.inputs, "the adjoint of a term")

        return forward, adjoint

    def _set(self, state: np.ndarray) -> None:
        self._a.array[:] = state

    def largest_singular_value(self, forward: Map, adjoint: Map, scale: float = 0.0) -> float:
        """The largest singular value in L2 of a map between states.

        Args:
            forward, adjoint: the map and its L2 adjoint.
            scale: the singular value below a millionth of which only its size counts.
        """
        shell = PETSc.Mat().createPython(
            self.mass.sizes, _Normal(forward, adjoint, self.inputs), comm=self.comm
        )
        shell.setUp()
        solver = SLEPc.EPS().create(self.comm)
        solver.setOperators(shell)
        solver.setProblemType(SLEPc.EPS.ProblemType.NHEP)
        solver.setWhichEigenpairs(SLEPc.EPS.Which.LARGEST_MAGNITUDE)
        solver.setDimensions(1, 12)
        if scale:
            solver.setConvergenceTest(SLEPc.EPS.Conv.ABS)
            solver.setTolerances((1e-6 * scale) ** 2, SINGULAR_VALUES.steps)
        else:
            solver.setTolerances(SINGULAR_VALUES.tolerance, SINGULAR_VALUES.steps)
        start = shell.createVecRight()
        start.array[:] = self.random_state(7.0, seed=5) * self.inputs
        solver.setInitialSpace([start])
        with as_raised():
            solver.solve()
        if solver.getConverged():
            solver.getEigenvector(0, start)
        # The map itself at the vector that SLEPc found: its size is known to round-off of the map,
        # not of its square.
        vector = start.array_r * self.inputs
        size = self.input_norm(vector)
        value = self.norm(forward(vector)) / size if size else 0.0
        for thing in (solver, shell, start):
            thing.destroy()
        return value

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        if self.input_mass is not self.mass:
            self._input_riesz.destroy()
            self.input_mass.destroy()
        self._riesz.destroy()
        if self._auxiliaries is not None:
            self._auxiliaries.destroy()
            self._definitions.destroy()
        self._a.destroy()
        self._b.destroy()


class _Normal:
    """The map w ↦ A* A w for PETSc."""

    def __init__(self, forward: Map, adjoint: Map, inputs: np.ndarray):
        self.forward, self.adjoint, self.inputs = forward, adjoint, inputs

    def mult(self, _matrix: PETSc.Mat, vector: PETSc.Vec, out: PETSc.Vec) -> None:
        out.array[:] = self.adjoint(self.forward(vector.array_r * self.inputs)) * self.inputs


def projected(
    forward: Map, adjoint: Map, projection: Projection, tested: bool = False
) -> tuple[Map, Map]:
    """A map after the projection and, where the equation is tested against the class only,
    also before it.
    """

    def after(state: np.ndarray) -> np.ndarray:
        image = forward(projection.project(state))
        return projection.project(image) if tested else image

    def before(state: np.ndarray) -> np.ndarray:
        return projection.project(adjoint(projection.project(state) if tested else state))

    return after, before
