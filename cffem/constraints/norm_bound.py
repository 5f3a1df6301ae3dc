# SPDX-License-Identifier: MIT
"""Upper bounds of operator norms from random vectors, for maps that are suspected to be zero.

An eigenvalue solver finds a large singular value, it does not prove that there is no larger one.
For independent standard normal vectors g₁ … g_r and any matrix B (Halko, Martinsson and Tropp, SIAM
Review 53, 2011, Lemma 4.1)

    ‖B‖ ≤ 10 √(2/π) max ‖B g_i‖    with probability at least 1 − 10⁻ʳ,

whatever B is. For a map A between fields, with the mass matrix M and its diagonal D, B = M^{1/2} A
D^{-1/2} gives the L2 operator norm ‖A‖ ≤ ‖B‖ / √λ, where λ is the smallest eigenvalue of D⁻¹M,
which SLEPc finds; it does not depend on the mesh size. Vectors belong to unknowns here, not to
coordinates: the bound is a statement about round-off, whose numbers no two partitions share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from petsc4py import PETSc
from slepc4py import SLEPc

from cffem.constraints.evaluation import Evaluation, Map
from cffem.engine.solve_errors import as_raised


@dataclass(frozen=True)
class NormBoundSettings:
    """Bounds of operator norms.

    Args:
        vectors: random vectors r; the bound fails with probability 10⁻ʳ at most.
        eigenvalue_tolerance: relative error of λ, which the bound is divided by.
    """

    vectors: int = 6
    eigenvalue_tolerance: float = 1e-2


NORM_BOUND = NormBoundSettings()


FACTOR = 10 * math.sqrt(2 / math.pi)


class NormBound:
    """Bounds of the L2 operator norms of maps on the states of a model.

    Args:
        evaluation: the mass matrix and the unknowns that a map acts on.
    """

    def __init__(self, evaluation: Evaluation):
        self.evaluation = evaluation
        diagonal = evaluation.input_mass.getDiagonal()
        values = diagonal.array_r * evaluation.inputs
        diagonal.destroy()
        self._roots = np.divide(1.0, np.sqrt(values), out=np.zeros_like(values), where=values > 0)
        self._smallest = self._smallest_eigenvalue()

    def _smallest_eigenvalue(self) -> float:
        """λ_min(D⁻¹M) on the unknowns, lowered by the tolerance."""
        e = self.evaluation
        shell = PETSc.Mat().createPython(
            e.input_mass.sizes, _Scaled(e.input_mass, self._roots), comm=e.comm
        )
        shell.setUp()
        solver = SLEPc.EPS().create(e.comm)
        solver.setOperators(shell)
        solver.setProblemType(SLEPc.EPS.ProblemType.HEP)
        solver.setWhichEigenpairs(SLEPc.EPS.Which.SMALLEST_REAL)
        solver.setDimensions(1, 24)
        solver.setTolerances(NORM_BOUND.eigenvalue_tolerance, 100)
        with as_raised():
            solver.solve()
        # Without convergence nothing is known, and nothing is claimed.
        value = solver.getEigenvalue(0).real if solver.getConverged() else 0.0
        solver.destroy()
        shell.destroy()
        return max(value * (1 - NORM_BOUND.eigenvalue_tolerance), 0.0)

    def __call__(self, forward: Map) -> float:
        """A number that the operator norm of a linear map exceeds with probability at most
        10⁻ʳ, r = `NORM_BOUND.vectors`.
        """
        e = self.evaluation
        if self._smallest == 0.0:
            return math.inf
        largest = 0.0
        for k in range(NORM_BOUND.vectors):
            random = np.random.default_rng([k, e.comm.rank])
            largest = max(
                largest, e.norm(forward(random.standard_normal(len(self._roots)) * self._roots))
            )
        return FACTOR * largest / math.sqrt(self._smallest)


class _Scaled:
    """D^{-1/2} M D^{-1/2} on the unknowns and the identity on the rest, for PETSc."""

    def __init__(self, mass: PETSc.Mat, roots: np.ndarray):
        self.mass, self.roots = mass, roots

    def mult(self, _matrix: PETSc.Mat, vector: PETSc.Vec, out: PETSc.Vec) -> None:
        work = vector.duplicate()
        work.array[:] = vector.array_r * self.roots
        self.mass.mult(work, out)
        out.array[:] = np.where(self.roots > 0, out.array_r * self.roots, vector.array_r)
        work.destroy()
