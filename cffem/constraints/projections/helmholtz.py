# SPDX-License-Identifier: MIT
"""The Helmholtz projection of Nédélec fields: discretely divergence-free, by one scalar Poisson
problem.

In the discrete de Rham complex gradients of the paired Lagrange space S_h are Nédélec fields, given
by a sparse matrix G, so that

    P w = w − G φ,   (ε ∇φ, ∇q) = (ε w, ∇q)  for all q in S_h,

is the (ε ·, ·)-orthogonal projection onto {w : (ε w, ∇q) = 0}. S_h vanishes where the tangential
part of the field is given (a conductor) and is free elsewhere, where the normal component then
vanishes weakly. Harmonic fields of domains with holes are orthogonal to all gradients and stay.
With them, the complement is the projection onto curl-free fields. The stiffness matrix is the
product of the constraint's matrix and G, so that the class is met to round-off for any weight;
orthogonality in (ε ·, ·) is then exact for a weight that is constant on every cell, and up to
quadrature for others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.fem import petsc
from petsc4py import PETSc

from cffem import _compat
from cffem.constraints.projections.base import Projection
from cffem.constraints.projections.harmonic import HarmonicFields
from cffem.constraints.projections.projection_solver import (
    MASS,
    ROUND_OFF,
    Solver,
    multigrid,
    without_zeros,
)
from cffem.engine.assembly.dirichlet import EssentialConditions, local_dofs
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.traces import essential as all_given
from cffem.forms.elements import HCURL, before
from cffem.symbols.fields import VectorField

if TYPE_CHECKING:
    from ufl.core.expr import Expr

    from cffem.engine.solve.stage_types import PetscOptions


class HelmholtzProjection(Projection):
    """Onto {w : (ε w, ∇q) = 0}, the discretely divergence-free Nédélec fields.

    Args:
        discretisation: the state space.
        essential: its essential conditions.
        field: the Nédélec field.
        weight: ε as a UFL expression (default one).
        options: PETSc options of the Poisson solver; an empty mapping solves directly.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        essential: EssentialConditions,
        field: VectorField,
        weight: Expr = None,
        options: PetscOptions | None = None,
    ):
        super().__init__(discretisation, essential, [field], weight)
        self.vectors, _ = self.spaces.own(field)
        self.scalars = fem.functionspace(discretisation.mesh, before(self.spaces.elements[field]))
        gradient = petsc.discrete_gradient(self.scalars, self.vectors)
        gradient.assemble()
        # Most stored entries are zeros of the reference cell; they would fill the stiffness matrix
        # and every level of multigrid.
        self.gradient = self.own(without_zeros(gradient, ROUND_OFF))
        boundary = discretisation.boundary
        parts = tuple(
            part
            for part, conditions in boundary.conditions.items()
            if all_given(conditions, field, HCURL)
        )
        dofs = local_dofs(self.scalars, boundary, parts)
        imap = self.scalars.dofmap.index_map
        self.grounded = dofs[dofs < imap.size_local]
        self._where = self.spaces.dofs(field)
        self._where = self._where[self._where < self.spaces.owned]
        factor = ufl.as_ufl(1) if weight is None else weight
        self._assemble(factor)
        dimension = discretisation.mesh.topology.dim
        self.solver = self.own(
            Solver(self.stiffness, multigrid(dimension) if options is None else options)
        )
        self._masses: Solver | None = None

    def _assemble(self, factor: Expr) -> None:
        """The constraint (ε u, ∇q) and, from it and the discrete gradient, the stiffness
        matrix that goes with it exactly.
        """
        u, q = ufl.TrialFunction(self.vectors), ufl.TestFunction(self.scalars)
        form = _compat.form(factor * ufl.inner(u, ufl.grad(q)) * ufl.dx, self.comm)
        self.constraint = self.own(_compat.assemble_matrix(form))
        self.stiffness = self.constraint.matMult(self.gradient)
        first = self.scalars.dofmap.index_map.local_range[0]
        self._pinned = self.grounded
        if self.comm.allreduce(len(self.grounded)) == 0:
            # Without a conductor constants are in the kernel; one value is fixed, which changes no
            # gradient.
            self._pinned = np.array([0] if self.comm.rank == 0 else [], dtype=np.int64)
        self.stiffness.zeroRowsColumns((self._pinned + first).astype(PETSc.IntType), diag=1.0)
        self._field, self._change = (self.own(self.gradient.createVecLeft()) for _ in range(2))
        self._potential, self._source = self.own_all(self.stiffness.createVecs())

    def source(self, state: np.ndarray) -> None:
        """(ε w, ∇q) for all q, into the work vector."""
        self._field.array[:] = state[self._where]
        self.constraint.mult(self._field, self._source)

    def potential(self, state: np.ndarray, loosely: bool = False) -> None:
        """The scalar φ of the gradient part, into the work vector."""
        self.source(state)
        self._source.array[self._pinned] = 0.0
        self.solver.solve(
            self._source, self._potential, "the Poisson problem of the projection", loosely
        )

    def corrected(self, state: np.ndarray) -> np.ndarray:
        return self._without_gradient(state)

    def refined(self, state: np.ndarray) -> np.ndarray:
        return self._without_gradient(state, loosely=True)

    def _without_gradient(self, state: np.ndarray, loosely: bool = False) -> np.ndarray:
        self.potential(state, loosely)
        self.gradient.mult(self._potential, self._change)
        result = state.copy()
        result[self._where] -= self._change.array_r
        return result

    def violation(self, state: np.ndarray) -> float:
        """‖div_h w‖: the L2 norm of s with (s, q) = −(ε w, ∇q)."""
        if self._masses is None:
            self._masses = self.own(Solver(self._scalar_mass(), MASS))
        self.source(state)
        self._source.array[self.grounded] = 0.0
        self._masses.solve(self._source, self._potential, "the weak divergence")
        return float(np.sqrt(max(self._source.dot(self._potential), 0.0)))

    def _scalar_mass(self) -> PETSc.Mat:
        p, q = ufl.TrialFunction(self.scalars), ufl.TestFunction(self.scalars)
        mass = _compat.assemble_matrix(_compat.form(ufl.inner(p, q) * ufl.dx, self.comm))
        mass.zeroRowsColumns(
            (self.grounded + self.scalars.dofmap.index_map.local_range[0]).astype(PETSc.IntType),
            diag=1.0,
        )
        return mass


class CurlFreeProjection(Projection):
    """Onto the curl-free Nédélec fields: gradients of the paired space and harmonic fields.

    P w = G φ + Σ h_i (h_i, w) with an orthonormal basis h_i of the harmonic fields, which are found
    once.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        essential: EssentialConditions,
        field: VectorField,
        options: PetscOptions | None = None,
    ):
        super().__init__(discretisation, essential, [field])
        self.helmholtz = self.own(
            HelmholtzProjection(discretisation, essential, field, options=options)
        )
        self.harmonic = HarmonicFields(discretisation, field)

    def corrected(self, state: np.ndarray) -> np.ndarray:
        given = np.zeros_like(state)
        given[self.essential.owned] = state[self.essential.owned]
        result = (
            state * (1.0 - self.mask)
            + given * self.mask
            + self.helmholtz.complement((state - given) * self.mask)
        )
        for field in self.harmonic.states:
            result += field * self.inner(field, state - given)
        return result

    def violation(self, state: np.ndarray) -> float:
        """‖curl w‖."""
        return self.harmonic.curl_norm(state)
