# SPDX-License-Identifier: MIT
"""The deletion study as an experienced DOLFINx user writes it: the other side of `cffem bench
sweep`.

One compiled form with a coefficient for each term; for each of the nine problems the matrix is
assembled once with the deleted coefficient set to zero, its solver set up once, and the time steps
taken. The linear solver is MUMPS LU or GMRES with ILU, whichever is faster for the factual problem.
Trajectories are kept for the norm of the difference, which is exact for piecewise linear functions
of time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.fem import petsc
from petsc4py import PETSc

from benchmarks.sweep.sweep_problems import Problem
from cffem import _compat
from cffem.symbols.coordinates import SPACE

LU: dict[str, Any] = {"ksp_type": "preonly", "pc_type": "lu", "pc_factor_mat_solver_type": "mumps"}
ILU: dict[str, Any] = {
    "ksp_type": "gmres",
    "ksp_pc_side": "right",
    "ksp_rtol": 1e-8,
    "pc_type": "ilu",
}
SOLVERS = {"LU": LU, "GMRES+ILU": ILU}


class Study:
    """Factual and deleted solutions of a problem, by hand.

    Args:
        problem: the problem.
        n: cells per side.
        steps: time steps.
        comm: the communicator, of one process.
    """

    def __init__(self, problem: Problem, n: int, steps: int, comm: Any):
        self.problem, self.steps = problem, steps
        self.domain = problem.mesh(n, comm)
        self.space = fem.functionspace(self.domain, problem.element)
        self.domain.topology.create_connectivity(problem.dimension - 1, problem.dimension)
        from dolfinx.mesh import exterior_facet_indices

        edge = fem.locate_dofs_topological(
            self.space, problem.dimension - 1, exterior_facet_indices(self.domain.topology)
        )
        self.held = edge
        self.bc = fem.dirichletbc(fem.Function(self.space), edge)
        self.alpha = {
            name: fem.Constant(self.domain, PETSc.ScalarType(value))
            for name, value in problem.coefficients.items()
        }
        self.unknown, self.old = fem.Function(self.space), fem.Function(self.space)
        self.start = fem.Function(self.space)
        self.start.interpolate(problem.start)
        self.start.x.array[edge] = 0.0
        self.dt = problem.end / steps if steps else 0.0
        trial, test, place = (
            ufl.TrialFunction(self.space),
            ufl.TestFunction(self.space),
            ufl.SpatialCoordinate(self.domain),
        )
        self.mass_form = _compat.form(ufl.inner(trial, test) * ufl.dx, comm)
        if problem.nonlinear:
            middle = 0.5 * (self.unknown + self.old)
            right = sum(
                self.alpha[name] * weak(middle, test, place) for name, weak in problem.weak.items()
            )
            residual = (ufl.inner(self.unknown - self.old, test) - self.dt * right) * ufl.dx
            self.residual_form = _compat.form(residual, comm)
            self.form = _compat.form(ufl.derivative(residual, self.unknown, trial), comm)
        else:
            operator = -sum(
                self.alpha[name] * weak(trial, test, place) for name, weak in problem.weak.items()
            )
            factor = (2.0 / self.dt) ** problem.order if steps else 0.0
            self.form = _compat.form(
                (operator + (factor * ufl.inner(trial, test) if factor else 0)) * ufl.dx, comm
            )
            if not steps:
                given = sp.lambdify(
                    SPACE[:2], problem.start_symbols, [{"sin": ufl.sin, "pi": math.pi}]
                )
                self.source_form = _compat.form(given(place[0], place[1]) * test * ufl.dx, comm)
        self.mass: Any = None

    @property
    def unknowns(self) -> int:
        """The number of unknowns."""
        return self.space.dofmap.index_map.size_global * self.space.dofmap.index_map_bs

    def scores(self, solver: str) -> tuple[list[np.ndarray], dict[str, float]]:
        """The factual trajectory and all deletion scores."""
        factual, scores = self.solve(solver), {}
        for name, constant in self.alpha.items():
            kept, constant.value = float(constant.value), 0.0
            scores[name] = self.norm(
                [a - b for a, b in zip(factual, self.solve(solver), strict=True)]
            )
            constant.value = kept
        return factual, scores

    def solve(self, solver: str) -> list[np.ndarray]:
        """One solution: assembly of its operator, set-up of the solver, and the time steps."""
        if self.mass is None and self.problem.order:
            self.mass = petsc.assemble_matrix(self.mass_form)
            self.mass.assemble()
        if self.problem.nonlinear:
            return self._newton(solver)
        matrix = petsc.assemble_matrix(self.form, bcs=[self.bc])
        matrix.assemble()
        ksp = _solver(matrix, SOLVERS[solver])
        right, solution = matrix.createVecLeft(), matrix.createVecRight()
        if self.problem.order == 0:
            vector = fem.assemble_vector(self.source_form)
            right.array[:] = vector.array
            right.array[self.held] = 0.0
            ksp.solve(right, solution)
            states = [solution.array_r.copy()]
        else:
            states = self._march(ksp, right, solution)
        for thing in (ksp, matrix, right, solution):
            thing.destroy()
        return states

    def _march(self, ksp: Any, right: Any, solution: Any) -> list[np.ndarray]:
        """Crank–Nicolson, or Newmark's average acceleration: a solve for the middle of each
        step.
        """
        state, speed = self.start.x.array.copy(), np.zeros(len(self.start.x.array))
        states, work, gamma = [state], solution.duplicate(), self.dt / 2
        for _ in range(self.steps):
            work.array[:] = (
                state / gamma if self.problem.order == 1 else (state / gamma + speed) / gamma
            )
            self.mass.mult(work, right)
            right.array[self.held] = 0.0
            ksp.solve(right, solution)
            middle = solution.array_r
            if self.problem.order == 2:
                speed = 2 * (middle - state) / gamma - speed
            state = 2 * middle - state
            states.append(state)
        work.destroy()
        return states

    def _newton(self, solver: str) -> list[np.ndarray]:
        """Newton's method in every step, the solver's symbolic work kept."""
        self.unknown.x.array[:] = self.start.x.array
        matrix = petsc.create_matrix(self.form)
        ksp, right, change = (
            _solver(matrix, SOLVERS[solver]),
            matrix.createVecLeft(),
            matrix.createVecRight(),
        )
        states = [self.start.x.array.copy()]
        for _ in range(self.steps):
            self.old.x.array[:] = self.unknown.x.array
            first = None
            for _ in range(12):
                vector = fem.assemble_vector(self.residual_form)
                right.array[:] = vector.array
                right.array[self.held] = 0.0
                size = right.norm()
                first = size if first is None else first
                if size <= 1e-9 * first or size < 1e-14:
                    break
                matrix.zeroEntries()
                petsc.assemble_matrix(matrix, self.form, bcs=[self.bc])
                matrix.assemble()
                ksp.setOperators(matrix)
                ksp.solve(right, change)
                self.unknown.x.array[:] -= change.array_r
            states.append(self.unknown.x.array.copy())
        for thing in (ksp, matrix, right, change):
            thing.destroy()
        return states

    def norm(self, states: list[np.ndarray]) -> float:
        """The norm in L2 of space and time, exact for piecewise linear functions of time."""
        if self.mass is None:
            self.mass = petsc.assemble_matrix(self.mass_form)
            self.mass.assemble()
        vector, image = self.mass.createVecRight(), self.mass.createVecLeft()
        images = []
        for state in states:
            vector.array[:] = state
            self.mass.mult(vector, image)
            images.append(image.array_r.copy())
        for thing in (vector, image):
            thing.destroy()
        squares = [float(a @ b) for a, b in zip(states, images, strict=True)]
        if len(states) == 1:
            return math.sqrt(squares[0])
        mixed = [float(states[k] @ images[k + 1]) for k in range(len(states) - 1)]
        total = sum(squares[k] + mixed[k] + squares[k + 1] for k in range(len(mixed)))
        return math.sqrt(self.dt / 3 * total)


def _solver(matrix: Any, options: dict[str, Any]) -> Any:
    ksp = PETSc.KSP().create(matrix.comm)
    ksp.setOptionsPrefix("by_hand_")
    database = PETSc.Options()
    for key, value in options.items():
        database[f"by_hand_{key}"] = value
    ksp.setFromOptions()
    for key in options:
        database.delValue(f"by_hand_{key}")
    ksp.setNormType(
        PETSc.KSP.NormType.UNPRECONDITIONED
        if options["ksp_type"] == "gmres"
        else PETSc.KSP.NormType.DEFAULT
    )
    ksp.setOperators(matrix)
    return ksp
