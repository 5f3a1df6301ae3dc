# SPDX-License-Identifier: MIT
"""Projection onto any linear constraint class, by one saddle-point problem with a stated multiplier
space.

P w minimises ‖P w − w‖ subject to c(P w, μ) = 0 for all multipliers μ:

    (δ, v) + c(v, λ) = 0,   c(δ, μ) = −c(w, μ),   P w = w + δ.

For velocities this is the Leray projection: discretely divergence-free on Taylor–Hood pairs,
pointwise divergence-free on Raviart–Thomas or Brezzi–Douglas–Marini fields with discontinuous
multipliers. The correction δ vanishes where boundary values are given, so no-slip, slip and inflow
data are kept; at open boundaries λ vanishes weakly.

How the nearest member is found: from a stream function where there is one
(`cffem.constraints.projections.stream`), else with factors of the saddle-point matrix while they
are cheap, else by conjugate gradients on the class (`cffem.constraints.projections.kernel`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.constraints.projections.averaged import averaged_inverse, can_be_averaged
from cffem.constraints.projections.base import Projection, assembled, global_rows
from cffem.constraints.projections.kernel import KernelCorrections
from cffem.constraints.projections.projection_solver import (
    MASS,
    Solver,
    boomeramg,
    multigrid,
    without_zeros,
)
from cffem.constraints.projections.stream import StreamFunctions, has_stream_function
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.ingredients import add
from cffem.forms.elements import HDIV, carrier
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import OptionValue, PetscOptions


# Iterations instead of factors of the saddle-point matrix: for a stream function, or on the class.
KRYLOV_SADDLE: dict[str, Any] = {"preset": "krylov"}
# For multiplier spaces that are too large for factors of their own: the diagonal of the mass matrix
# is equivalent to it on any mesh, so its Schur complement is a Laplacian of the multiplier.
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
    **boomeramg(3, "fieldsplit_multiplier_"),
}


@dataclass(frozen=True)
class FactorSettings:
    """Unknowns up to which factors are kept, by the dimension of the mesh.

    Args:
        saddle: of the saddle-point matrix.
        normal: the same for normal-continuous fields: they couple through facets only, and in
            space their factors fill much less than those of Lagrange fields.
        multipliers: of the multiplier space.
    """

    saddle: Mapping[int, int] = field(default_factory=lambda: {1: 10**6, 2: 400_000, 3: 20_000})
    normal: Mapping[int, int] = field(default_factory=lambda: {1: 10**6, 2: 800_000, 3: 200_000})
    multipliers: Mapping[int, int] = field(
        default_factory=lambda: {1: 10**6, 2: 400_000, 3: 60_000}
    )


FACTORS = FactorSettings()


class SaddleProjection(Projection):
    """Onto {w : c(w, μ) = 0 for all μ in the multiplier space}.

    Args:
        discretisation: a state space whose experiment declares the constraint.
        essential: its essential conditions.
        options: `KRYLOV_SADDLE` for iterations instead of large factors, an empty mapping for
            factors of the saddle-point matrix, or PETSc options for it. None takes what is fastest
            for many fields: factors in the plane and for few unknowns.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        essential: EssentialConditions,
        options: PetscOptions | None = None,
    ):
        constraint = discretisation.experiment.constraint
        if constraint is None or discretisation.multiplier is None:
            raise InputError("the experiment declares no constraint to project onto")
        super().__init__(discretisation, essential, constraint.fields)
        self.multiplier = discretisation.multiplier[0]
        ingredient = discretisation.ingredient("constraint", discretisation._constraint_form())
        form = _compat.form(ingredient.jacobians[0], self.comm)
        self.coupling = self.own(_compat.assemble_matrix(form))
        self.constant = (
            None
            if ingredient.constant is None
            else assembled(_compat.form(ingredient.constant, self.comm), self.spaces)
        )
        self.periodicity = essential.periodicity
        self.on_multiplier = self.spaces.mask([self.multiplier])
        self._rows = self.on_multiplier.copy()
        self._rows[essential.owned] = 0.0
        if essential.floating is not None:
            # One value of a floating multiplier is held to make it unique; its row is part of the
            # constraint all the same.
            self._rows[essential.floating.pinned] = 1.0
            self._shares = self._constant_shares()
        matrix = self.own(self._saddle())
        self._change, self._defect = self.own_all(matrix.createVecs())
        self.corrections: KernelCorrections | None = None
        self._saddle_matrix = matrix
        self._member: tuple[np.ndarray, np.ndarray] | None = None
        self.solver = self.own(self._solver(options))
        self._masses: Solver | None = None

    def _solver(self, options: PetscOptions | None) -> Any:
        """What finds the nearest member of the class."""
        dimension = self.discretisation.mesh.topology.dim
        krylov = options is not None and options.get("preset") == "krylov"
        normal = all(carrier(self.spaces.elements[field]).space == HDIV for field in self.fields)
        small = (
            not krylov
            and self.spaces.size <= (FACTORS.normal if normal else FACTORS.saddle)[dimension]
        )
        if options is not None and not krylov:
            blocks = self._blocks() if options.get("pc_type") == "fieldsplit" else None
            if not options:
                self._cheap()
            return Solver(self._saddle_matrix, options, blocks)
        if has_stream_function(self.discretisation, self.essential):
            plan = {} if small else multigrid(dimension)
            return StreamFunctions(self.discretisation, plan)
        if small:
            self._cheap()
            return Solver(self._saddle_matrix, {})
        if self.comm.allreduce(int(self.on_multiplier.sum())) <= FACTORS.multipliers[dimension]:
            return self._on_the_class()
        return Solver(self._saddle_matrix, BLOCKS, self._blocks())

    def _field_positions(self) -> np.ndarray:
        """Positions of the constrained field's owned unknowns, in the order of its own space."""
        where = self.spaces.dofs(self._only_field())
        return where[where < self.spaces.owned]

    def _cheap(self) -> KernelCorrections:
        """Corrections onto the class that need factors of the multiplier space only; made
        when first asked for.
        """
        if self.corrections is None:
            self.corrections = self.own(
                KernelCorrections(self._saddle_matrix, *self._free(), self._first)
            )
        return self.corrections

    def _on_the_class(self) -> KernelCorrections:
        """The same with a better approximation of the inverse mass, for many iterations."""
        fields, multipliers = self._free()
        inverse = None
        if len(self.fields) == 1 and self.periodicity is None:
            field = self._only_field()
            space, element = self.spaces.own(field)[0], self.spaces.elements[field]
            if can_be_averaged(self.discretisation.mesh, element):
                imap = self.spaces.space.dofmap.index_map
                whole = averaged_inverse(
                    space, element, self.mass, imap.local_to_global(self.spaces.dofs(field))
                )
                chosen = PETSc.IS().createGeneral(global_rows(self.spaces, fields), comm=self.comm)
                inverse = without_zeros(whole.createSubMatrix(chosen, chosen))
                for thing in (whole, chosen):
                    thing.destroy()
        self.corrections = KernelCorrections(
            self._saddle_matrix, fields, multipliers, self._first, inverse
        )
        return self.corrections

    @property
    def _first(self) -> int:
        """The global number of this rank's first unknown."""
        return (
            self.spaces.space.dofmap.index_map.local_range[0]
            * self.spaces.space.dofmap.index_map_bs
        )

    def _free(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of the free unknowns of the constrained fields and of the multipliers."""
        free = np.ones(self.spaces.owned, dtype=bool)
        free[self.essential.owned] = False
        return np.flatnonzero(free & (self.mask != 0.0)), np.flatnonzero(
            free & (self.on_multiplier != 0.0)
        )

    def _constant_shares(self) -> np.ndarray:
        """∫ φ / |Ω| of the multiplier's basis functions, periodic ones identified: how a
        constant is spread over the rows.
        """
        form = self.discretisation.tests[self.multiplier] * ufl.dx(
            domain=self.discretisation.mesh.ufl_domain()
        )
        weights = assembled(_compat.form(form, self.comm), self.spaces)
        if self.periodicity is not None:
            weights = self.periodicity.gathered(weights)
        weights *= self._rows
        return weights / self.comm.allreduce(float(weights.sum()))

    def _saddle(self) -> PETSc.Mat:
        """Mass of the constrained fields plus coupling, the identity on everything else."""
        matrix = self.mass.copy()
        add(matrix, 1.0, self.coupling)
        matrix = self._identified(matrix)
        others = np.flatnonzero((self.mask + self.on_multiplier) == 0.0)
        held = np.unique(np.concatenate([others, self.essential.owned]))
        matrix.zeroRowsColumns(global_rows(self.spaces, held), diag=1.0)
        return matrix

    def _identified(self, matrix: PETSc.Mat) -> PETSc.Mat:
        """Zᵀ A Z with periodic unknowns identified; A itself where nothing is periodic."""
        if self.periodicity is None:
            return matrix
        product = matrix.PtAP(self.periodicity.matrix)
        matrix.destroy()
        return product

    def _blocks(self) -> dict[str, OptionValue]:
        """Which unknowns are multipliers, for an iterative solver; held ones are harmless in
        either block.
        """
        on = self.on_multiplier != 0.0
        return {
            name: PETSc.IS().createGeneral(
                global_rows(self.spaces, np.flatnonzero(which)), comm=self.comm
            )
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
            # What interpolated boundary values lack in balance no correction can mend; it is spread
            # over the domain.
            target -= self.comm.allreduce(float(target.sum())) * self._shares
        target[self.essential.owned] = 0.0
        return target

    def corrected(self, state: np.ndarray) -> np.ndarray:
        if isinstance(self.solver, StreamFunctions):
            return self._curl_nearest(state)
        target = self.target(state)
        if isinstance(self.solver, KernelCorrections):
            return self._changed(state, self.solver.nearest(target))
        return self._changed(state, self._solved(target))

    def refined(self, state: np.ndarray) -> np.ndarray:
        """What is left is so small that any correction of its size will do."""
        if isinstance(self.solver, StreamFunctions):
            return state
        target = self.target(state)
        if isinstance(self.solver, KernelCorrections):
            return self._changed(state, self.solver.nearest(target, again=True))
        if self.corrections is None:
            return self._changed(state, self._solved(target, loosely=True))
        return self._changed(state, self.corrections.cheap(target))

    def _solved(self, target: np.ndarray, loosely: bool = False) -> np.ndarray:
        """The change that the saddle-point problem gives."""
        self._defect.array[:] = target
        self.solver.solve(self._defect, self._change, "the projection onto the constraint", loosely)
        return self._change.array_r * self.mask

    def _changed(self, state: np.ndarray, change: np.ndarray) -> np.ndarray:
        self.essential.complete(change)
        return state + change

    def _curl_nearest(self, state: np.ndarray) -> np.ndarray:
        """A member with the state's boundary values, plus the curl nearest to the remainder."""
        where = self._field_positions()
        member = self._member_with_values_of(state)
        result = state.copy()
        result[where] = member[where] + self.solver.nearest(state[where] - member[where])
        return result

    def _member_with_values_of(self, state: np.ndarray) -> np.ndarray:
        """Any member of the class with the boundary values of a state; the last one is kept,
        as values seldom change.
        """
        values = (state * self.mask)[self.essential.owned]
        if self.comm.allreduce(float(np.abs(values).max(initial=0.0)), op=MPI.MAX) == 0.0:
            return np.zeros_like(state)
        same = self._member is not None and bool(np.array_equal(self._member[0], values))
        if not self.comm.allreduce(same, op=MPI.LAND) or self._member is None:
            member = np.zeros_like(state)
            member[self.essential.owned] = values
            for _ in range(2):
                member = self._changed(member, self._cheap().cheap(self.target(member)))
            self._member = values, member
        return self._member[1]

    def violation(self, state: np.ndarray) -> float:
        """The L2 norm of the Riesz representative of c(w, ·) in the multiplier space."""
        if self._masses is None:
            trial = self.spaces.parts(ufl.TrialFunction(self.spaces.space))[self.multiplier]
            form = ufl.inner(trial, self.discretisation.tests[self.multiplier]) * ufl.dx
            mass = self._identified(_compat.assemble_matrix(_compat.form(form, self.comm)))
            mass.zeroRowsColumns(
                global_rows(self.spaces, np.flatnonzero(self._rows == 0.0)), diag=1.0
            )
            self._masses = self.own(Solver(mass, MASS))
        self._defect.array[:] = self.defect(state)
        self._masses.solve(self._defect, self._change, "the constraint residual")
        return float(np.sqrt(max(self._defect.dot(self._change), 0.0)))
