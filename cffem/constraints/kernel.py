"""Corrections onto a constraint class with the mass replaced by its diagonal, and from there to the nearest one.

With the mass M of the constrained fields, its diagonal D, the constraint's matrix B and S = B D⁻¹ Bᵀ, which is sparse and as
large as the multiplier space only,

    C g = D⁻¹ Bᵀ S⁻¹ g                      is a field with B C g = g, nearest to zero in the norm of D,
    Π r = D⁻¹ (r − Bᵀ S⁻¹ B D⁻¹ r)          is a field with B Π r = 0.

S is factorised once. Π preconditions M on the kernel of B, so conjugate gradients that start at C g stay on the class and find the
correction that is nearest in the norm of M. How many iterations they take depends on how far D is from M: a number of the element
(condition number 5.2 for quadratic triangles, 17 for quadratic tetrahedra), not of the mesh size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from petsc4py import PETSc

from cffem.constraints.solver import DIRECT, Solver
from cffem.engine.linear import SolveError

# What is left of the distance to the nearest correction, relative to the correction.
NEAREST = 1e-13
MOST_ITERATIONS = 1000


class KernelCorrections:
    """Cheap and nearest corrections with a given constraint residual.

    Args:
        saddle: the matrix of mass and coupling on the state space, held unknowns eliminated.
        fields: positions of the free unknowns of the constrained fields, on this rank.
        multipliers: positions of the free multipliers.
        first: the global number of this rank's first unknown.

    Attributes:
        iterations: of all nearest corrections so far.
    """

    def __init__(self, saddle: Any, fields: np.ndarray, multipliers: np.ndarray, first: int):
        self.fields, self.multipliers = fields, multipliers
        self.iterations = 0
        chosen = [PETSc.IS().createGeneral((where + first).astype(PETSc.IntType), saddle.comm) for where in (fields, multipliers)]
        self.mass = without_zeros(saddle.createSubMatrix(chosen[0], chosen[0]))
        self.constraint = without_zeros(saddle.createSubMatrix(chosen[1], chosen[0]))
        self.transpose = self.constraint.transpose(PETSc.Mat())
        for index in chosen:
            index.destroy()
        self._diagonal = self.mass.getDiagonal()
        self._diagonal.reciprocal()
        scaled = self.transpose.copy()
        scaled.diagonalScale(L=self._diagonal)
        schur = self.constraint.matMult(scaled)
        scaled.destroy()
        self.solver = Solver(schur, DIRECT)
        self._multiplier, self._target = schur.createVecs()
        self._change, self._residual = self.mass.createVecs()
        self._work, self._step, self._direction, self._image = (self._change.duplicate() for _ in range(4))

    def cheap(self, target: np.ndarray) -> np.ndarray:
        """C g for a state whose multiplier part is g."""
        self._target.array[:] = target[self.multipliers]
        self._feasible()
        return self._as_state(target)

    def nearest(self, target: np.ndarray) -> np.ndarray:
        """The smallest field δ with B δ = g, for a state whose multiplier part is g.

        Raises:
            SolveError: conjugate gradients did not converge.
        """
        self._target.array[:] = target[self.multipliers]
        self._feasible()
        change, residual, direction, image = self._change, self._residual, self._direction, self._image
        self.mass.mult(change, residual)
        enough = NEAREST**2 * change.dot(residual)
        self._project()
        self._step.copy(direction)
        size = residual.dot(self._step)
        for _ in range(MOST_ITERATIONS):
            if size <= enough:
                return self._as_state(target)
            self.mass.mult(direction, image)
            length = size / direction.dot(image)
            change.axpy(-length, direction)
            residual.axpy(-length, image)
            self._project()
            before, size = size, residual.dot(self._step)
            direction.aypx(size / before, self._step)
            self.iterations += 1
        raise SolveError(f"the nearest member of the class was not found in {MOST_ITERATIONS} iterations")

    def _feasible(self) -> None:
        self.solver.solve(self._target, self._multiplier, "the constraint")
        self.transpose.mult(self._multiplier, self._change)
        self._change.pointwiseMult(self._change, self._diagonal)

    def _project(self) -> None:
        """Π r into the step; r itself loses what the multiplier takes up, so that its size does not hide what is left."""
        self._step.pointwiseMult(self._residual, self._diagonal)
        self.constraint.mult(self._step, self._target)
        self.solver.solve(self._target, self._multiplier, "the constraint")
        self.transpose.mult(self._multiplier, self._work)
        self._residual.axpy(-1.0, self._work)
        self._step.pointwiseMult(self._residual, self._diagonal)

    def _as_state(self, like: np.ndarray) -> np.ndarray:
        state = np.zeros_like(like)
        state[self.fields] = self._change.array_r
        if not math.isfinite(self._change.norm()):
            raise SolveError("the correction onto the constraint class is not finite")
        return state

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        self.solver.destroy()
        for thing in (self.mass, self.constraint, self.transpose, self._diagonal, self._multiplier, self._target):
            thing.destroy()
        for vector in (self._change, self._residual, self._work, self._step, self._direction, self._image):
            vector.destroy()


def without_zeros(matrix: Any) -> Any:
    """The matrix without stored zeros, in its place: components of a field share a pattern in which they are not coupled."""
    starts, columns, values = matrix.getValuesCSR()
    kept = values != 0.0
    counted = np.concatenate([[0], np.cumsum(kept)])
    csr = counted[starts].astype(PETSc.IntType), columns[kept], values[kept]
    result = PETSc.Mat().createAIJ(matrix.getSizes(), csr=csr, comm=matrix.comm)
    result.assemble()
    matrix.destroy()
    return result
