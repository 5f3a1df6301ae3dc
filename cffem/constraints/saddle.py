"""Projection onto any linear constraint class, by one saddle-point problem with a stated multiplier space.

P w minimises ‖P w − w‖ subject to c(P w, μ) = 0 for all multipliers μ:

    (δ, v) + c(v, λ) = 0,   c(δ, μ) = −c(w, μ),   P w = w + δ.

For velocities this is the Leray projection: discretely divergence-free on Taylor–Hood pairs, pointwise divergence-free on
Raviart–Thomas or Brezzi–Douglas–Marini fields with discontinuous multipliers. The correction δ vanishes where boundary values are
given, so no-slip, slip and inflow data are kept; at open boundaries λ vanishes weakly.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import ufl
from petsc4py import PETSc

from cffem import _compat
from cffem.constraints.base import Projection, assembled, global_rows
from cffem.constraints.kernel import KernelCorrections
from cffem.constraints.solver import MASS, Solver
from cffem.engine.dirichlet import EssentialConditions
from cffem.engine.discretisation import Discretisation
from cffem.engine.equation import add
from cffem.symbols.errors import InputError

# Conjugate gradients on the class (`cffem.constraints.kernel`) instead of factors of the whole saddle-point matrix.
KRYLOV_SADDLE: dict[str, Any] = {"preset": "kernel"}
# For multiplier spaces that are too large for factors of their own: the diagonal of the mass matrix is equivalent to it on any
# mesh, so its Schur complement is a Laplacian of the multiplier.
BLOCKS: dict[str, Any] = {
    "ksp_type": "fgmres",
    "ksp_rtol": 1e-13,
    "ksp_gmres_restart": 60,
    "pc_type": "fieldsplit",
    "pc_fieldsplit_type": "schur",
    "pc_fieldsplit_schur_fact_type": "full",
    "pc_fieldsplit_schur_precondition": "selfp",
    "fieldsplit_field_ksp_type": "preonly",
    "fieldsplit_field_pc_type": "jacobi",
    "fieldsplit_multiplier_ksp_type": "preonly",
    "fieldsplit_multiplier_pc_type": "hypre",
}
# Unknowns up to which factors of the saddle-point matrix, and of the multiplier space, are kept, by the dimension of the mesh.
MOST_FACTORISED = {1: 10**6, 2: 400_000, 3: 20_000}
MOST_FACTORISED_MULTIPLIERS = {1: 10**6, 2: 400_000, 3: 60_000}


class SaddleProjection(Projection):
    """Onto {w : c(w, μ) = 0 for all μ in the multiplier space}.

    Args:
        discretisation: a state space whose experiment declares the constraint.
        essential: its essential conditions.
        options: `KRYLOV_SADDLE` for conjugate gradients on the class, an empty mapping for factors of the saddle-point matrix, else
            PETSc options for it. None takes what is faster for many fields: factors in the plane and for few unknowns.
    """

    def __init__(self, discretisation: Discretisation, essential: EssentialConditions, options: Mapping[str, Any] | None = None):
        constraint = discretisation.experiment.constraint
        if constraint is None or discretisation.multiplier is None:
            raise InputError("the experiment declares no constraint to project onto")
        super().__init__(discretisation, essential, constraint.fields)
        self.multiplier = discretisation.multiplier[0]
        ingredient = discretisation.ingredient("constraint", discretisation._constraint_form())
        self.coupling = _compat.assemble_matrix(_compat.form(ingredient.jacobians[0], self.comm))
        self.constant = (
            None if ingredient.constant is None else assembled(_compat.form(ingredient.constant, self.comm), self.spaces)
        )
        self.periodicity = essential.periodicity
        self.on_multiplier = self.spaces.mask([self.multiplier])
        self._rows = self.on_multiplier.copy()
        self._rows[essential.owned] = 0.0
        if essential.floating is not None:
            # One value of a floating multiplier is held to make it unique; its row is part of the constraint all the same.
            self._rows[essential.floating.pinned] = 1.0
            self._shares = self._constant_shares()
        matrix = self._saddle()
        self._change, self._defect = matrix.createVecs()
        self.corrections: KernelCorrections | None = None
        self.solver = self._solver(matrix, self._chosen() if options is None else options)
        self._masses: Solver | None = None

    def _chosen(self) -> Mapping[str, Any]:
        """Factors of the saddle-point matrix where they are cheap, else those of the multiplier space, else none."""
        dimension = self.discretisation.mesh.topology.dim
        if self.spaces.size <= MOST_FACTORISED[dimension]:
            return {}
        multipliers = self.comm.allreduce(int(self.on_multiplier.sum()))
        return KRYLOV_SADDLE if multipliers <= MOST_FACTORISED_MULTIPLIERS[dimension] else BLOCKS

    def _solver(self, matrix: Any, options: Mapping[str, Any]) -> Any:
        """What solves the saddle-point problem."""
        if options and options.get("preset") != "kernel":
            return Solver(matrix, options, self._blocks() if options.get("pc_type") == "fieldsplit" else None)
        free = np.ones(self.spaces.owned, dtype=bool)
        free[self.essential.owned] = False
        fields, multipliers = (np.flatnonzero(free & (mask != 0.0)) for mask in (self.mask, self.on_multiplier))
        first = self.spaces.space.dofmap.index_map.local_range[0] * self.spaces.space.dofmap.index_map_bs
        self.corrections = KernelCorrections(matrix, fields, multipliers, first)
        if not options:
            return Solver(matrix, options)
        matrix.destroy()
        return self.corrections

    def _constant_shares(self) -> np.ndarray:
        """∫ φ / |Ω| of the multiplier's basis functions, periodic ones identified: how a constant is spread over the rows."""
        form = self.discretisation.tests[self.multiplier] * ufl.dx(domain=self.discretisation.mesh.ufl_domain())
        weights = assembled(_compat.form(form, self.comm), self.spaces)
        if self.periodicity is not None:
            weights = self.periodicity.gathered(weights)
        weights *= self._rows
        return weights / self.comm.allreduce(float(weights.sum()))

    def _saddle(self) -> Any:
        """Mass of the constrained fields plus coupling, the identity on everything else."""
        matrix = self.mass.copy()
        add(matrix, 1.0, self.coupling)
        matrix = self._identified(matrix)
        others = np.flatnonzero((self.mask + self.on_multiplier) == 0.0)
        held = np.unique(np.concatenate([others, self.essential.owned]))
        matrix.zeroRowsColumns(global_rows(self.spaces, held), diag=1.0)
        return matrix

    def _identified(self, matrix: Any) -> Any:
        """Zᵀ A Z with periodic unknowns identified, in place of A; A itself where nothing is periodic."""
        if self.periodicity is None:
            return matrix
        product = matrix.PtAP(self.periodicity.matrix)
        matrix.destroy()
        return product

    def _blocks(self) -> dict[str, Any]:
        """Which unknowns are multipliers, for an iterative solver; held ones are harmless in either block."""
        on = self.on_multiplier != 0.0
        return {
            name: PETSc.IS().createGeneral(global_rows(self.spaces, np.flatnonzero(which)), comm=self.comm)
            for name, which in (("field", ~on), ("multiplier", on))
        }

    def defect(self, state: np.ndarray) -> np.ndarray:
        """c(w, μ) for all multipliers."""
        whole = self._change
        whole.array[:] = state * self.mask
        self.coupling.mult(whole, self._defect)
        if self.constant is not None:
            self._defect.array[:] += self.constant
        if self.periodicity is not None:
            self.periodicity.gather(self._defect)
        return self._defect.array_r * self._rows

    def target(self, state: np.ndarray) -> np.ndarray:
        """The constraint residual that a correction of a state is to have."""
        target = -self.defect(state)
        if self.essential.floating is not None:
            # What interpolated boundary values lack in balance no correction can mend; it is spread over the domain.
            target -= self.comm.allreduce(float(target.sum())) * self._shares
        target[self.essential.owned] = 0.0
        return target

    def corrected(self, state: np.ndarray) -> np.ndarray:
        target = self.target(state)
        if isinstance(self.solver, KernelCorrections):
            return self._changed(state, self.solver.nearest(target))
        self._defect.array[:] = target
        self.solver.solve(self._defect, self._change, "the projection onto the constraint")
        return self._changed(state, self._change.array_r * self.mask)

    def refined(self, state: np.ndarray) -> np.ndarray:
        """What is left is so small that any correction of its size will do, not only the nearest."""
        if self.corrections is None:
            return self.corrected(state)
        return self._changed(state, self.corrections.cheap(self.target(state)))

    def _changed(self, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        self.essential.complete(change)
        return state + change

    def violation(self, state: np.ndarray) -> float:
        """The L2 norm of the Riesz representative of c(w, ·) in the multiplier space."""
        if self._masses is None:
            trial = self.spaces.parts(ufl.TrialFunction(self.spaces.space))[self.multiplier]
            form = ufl.inner(trial, self.discretisation.tests[self.multiplier]) * ufl.dx
            mass = self._identified(_compat.assemble_matrix(_compat.form(form, self.comm)))
            mass.zeroRowsColumns(global_rows(self.spaces, np.flatnonzero(self._rows == 0.0)), diag=1.0)
            self._masses = Solver(mass, MASS)
        self._defect.array[:] = self.defect(state)
        self._masses.solve(self._defect, self._change, "the constraint residual")
        return float(np.sqrt(max(self._defect.dot(self._change), 0.0)))

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        super().destroy()
        self.solver.destroy()
        if self.corrections is not None and self.corrections is not self.solver:
            self.corrections.destroy()
        if self._masses is not None:
            self._masses.destroy()
        for thing in (self.coupling, self._change, self._defect):
            thing.destroy()
