# SPDX-License-Identifier: MIT
"""Orthogonal projections onto a discrete constraint class M_h = {w : c(w, q) = 0 for all
multipliers q}.

Every projection is one object with a Krylov (or direct) solver that is built once. It acts on
states (owned values of the whole state space, as trajectories are stored) and on DOLFINx functions
of a constrained field, changes the constrained fields only, and keeps their essential boundary
values: with w = P w + (I − P) w,

    P² = P,   (P w, (I − P) w) = 0,   c(P w, q) = 0,

the second for fields with homogeneous boundary values, in the inner product of the class (L2,
weighted where the constraint is). A solve is followed by a second one, or by a cheaper correction,
for the constraint residual that is left, so that the class is met to round-off and not only to the
tolerance of one solve.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem import _compat
from cffem.constraints.projections.projection_solver import MASS, Solver
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.solve.scope import Scope
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from ufl.core.expr import Expr

    from cffem.engine.assembly.spaces import Spaces


class Projection(Scope, ABC):
    """The orthogonal projection onto one constraint class.

    Args:
        discretisation: the state space, its boundary conditions and forms.
        essential: its essential conditions.
        fields: the constrained fields.
        weight: the UFL weight of the inner product (default one).

    Attributes:
        tolerance: the level to which the constraint is met, relative to the constraint residual
            before.
    """

    tolerance = 1e-14

    def __init__(
        self,
        discretisation: Discretisation,
        essential: EssentialConditions,
        fields: Sequence[Field],
        weight: Expr = None,
    ):
        self.discretisation = discretisation
        self.essential = essential
        self.spaces = discretisation.spaces
        self.comm = discretisation.mesh.comm
        self.fields = tuple(fields)
        self.mask = self.spaces.mask(self.fields)
        form = _compat.form(self.mass_form(weight), self.comm)
        self.mass = self.own(_compat.assemble_matrix(form))
        self._left, self._right = self.own_all(self.mass.createVecs())

    def mass_form(self, weight: Expr) -> ufl.Form:
        """The inner product of the constrained fields as a form on the state space."""
        trial = self.spaces.parts(ufl.TrialFunction(self.spaces.space))
        factor = ufl.as_ufl(1) if weight is None else weight
        return sum(
            factor * ufl.inner(trial[f], self.discretisation.tests[f]) * ufl.dx for f in self.fields
        )

    # What users call
    # ----------------------------------------------------------------------------------------------

    def project(self, w: np.ndarray | fem.Function) -> np.ndarray | fem.Function:
        """P w, of the same kind as w."""
        return self.like(w, self.refined(self.corrected(self.state_of(w))))

    def complement(self, w: np.ndarray | fem.Function) -> np.ndarray | fem.Function:
        """(I − P) w, of the same kind as w."""
        state = self.state_of(w)
        return self.like(w, (state - self.project(state)) * self.mask)

    def residual(self, w: np.ndarray | fem.Function) -> float:
        """‖c(w, ·)‖ in the multiplier space: the L2 norm of what the constraint says is zero,
        ‖div_h w‖ for instance.
        """
        return self.violation(self.state_of(w))

    def distance(self, w: np.ndarray | fem.Function) -> float:
        """‖w − P w‖ / ‖w‖, the part of w outside the class; zero for the zero field."""
        state = self.state_of(w)
        size = self.norm(state)
        return self.norm(self.complement(state)) / size if size else 0.0

    def inner(self, a: np.ndarray | fem.Function, b: np.ndarray | fem.Function) -> float:
        """The inner product in which the projection is orthogonal."""
        left, right = self.state_of(a), self.state_of(b)
        self._right.array[:] = right
        self.mass.mult(self._right, self._left)
        self._right.array[:] = left
        return float(self._left.dot(self._right))

    def norm(self, w: np.ndarray | fem.Function) -> float:
        """The norm of the constrained fields."""
        return math.sqrt(max(self.inner(w, w), 0.0))

    # What each projection is
    # ----------------------------------------------------------------------------------------------

    @abstractmethod
    def corrected(self, state: np.ndarray) -> np.ndarray:
        """One solve: the state minus its component outside the class."""

    def refined(self, state: np.ndarray) -> np.ndarray:
        """A corrected state with the constraint residual that one solve left taken away."""
        return self.corrected(state)

    @abstractmethod
    def violation(self, state: np.ndarray) -> float:
        """The norm of the constraint functional of a state."""

    # States and functions
    # ----------------------------------------------------------------------------------------------

    def state_of(self, w: np.ndarray | fem.Function) -> np.ndarray:
        """The owned values of a state, from an array or a function of the one constrained field."""
        if isinstance(w, np.ndarray):
            if w.shape != (self.spaces.owned,):
                raise InputError(
                    f"a state here has {self.spaces.owned} values on this rank, not {w.shape}"
                )
            return w.copy()
        own, _ = self.spaces.own(self._only_field())
        if w.function_space.element != own.element or w.function_space.mesh != own.mesh:
            raise InputError(f"the function does not live in the space of {self.fields[0]}")
        dofs = self.spaces.dofs(self.fields[0])
        mine = dofs < self.spaces.owned
        state = np.zeros(self.spaces.owned)
        state[dofs[mine]] = w.x.array[mine]
        return state

    def like(self, w: np.ndarray | fem.Function, state: np.ndarray) -> np.ndarray | fem.Function:
        """A state as what it came from: an array or a function."""
        return (
            state if isinstance(w, np.ndarray) else self.spaces.function(self._only_field(), state)
        )

    def function(self) -> fem.Function:
        """A new function of the one constrained field, to interpolate into."""
        own, _ = self.spaces.own(self._only_field())
        return fem.Function(own, name=self.fields[0].name)

    def _only_field(self) -> Field:
        if len(self.fields) != 1:
            raise InputError(
                "this class constrains several fields: project states, not single functions"
            )
        return self.fields[0]


class MeanProjection(Projection):
    """∫ w = 0, component by component: w minus the Riesz representatives of the means.

    With b_i(w) = ∫ w_i and M z_i = b_i, P w = w − Σ z_i (B⁻¹ b(w))_i where B_ij = b_i(z_j).
    """

    def __init__(
        self, discretisation: Discretisation, essential: EssentialConditions, field: Field
    ):
        super().__init__(discretisation, essential, [field])
        test = discretisation.tests[field]
        parts = [test[i] for i in range(test.ufl_shape[0])] if test.ufl_shape else [test]
        free = self.mask.copy()
        free[essential.owned] = 0.0
        eliminated = identity_outside(self.mass, free, self.spaces)
        solver = Solver(eliminated, MASS)
        domain = discretisation.mesh.ufl_domain()
        self.volume = integral(ufl.as_ufl(1) * ufl.dx(domain=domain), discretisation.mesh)
        self.functionals, self.directions = [], []
        for part in parts:
            functional = assembled(
                _compat.form(part * ufl.dx(domain=domain), self.comm), self.spaces
            )
            self._left.array[:] = functional * free
            solver.solve(self._left, self._right, "the mean")
            self.functionals.append(functional)
            self.directions.append(self._right.array_r.copy())
        gram = [[self._sum(b, z) for z in self.directions] for b in self.functionals]
        self._inverse = np.linalg.inv(np.array(gram))
        solver.destroy()

    def _sum(self, a: np.ndarray, b: np.ndarray) -> float:
        return self.comm.allreduce(float(a @ b))

    def means(self, state: np.ndarray) -> np.ndarray:
        """∫ w_i for every component."""
        return np.array([self._sum(b, state) for b in self.functionals])

    def corrected(self, state: np.ndarray) -> np.ndarray:
        amounts = self._inverse @ self.means(state)
        return state - sum(a * z for a, z in zip(amounts, self.directions, strict=True))

    def violation(self, state: np.ndarray) -> float:
        return float(np.linalg.norm(self.means(state)) / math.sqrt(self.volume))


def assembled(form: ufl.Form, spaces: Spaces) -> np.ndarray:
    """The owned values of an assembled linear form on the state space."""
    from dolfinx import la

    work = la.vector(spaces.space.dofmap.index_map, spaces.space.dofmap.index_map_bs)
    fem.assemble_vector(work.array, form)
    work.scatter_reverse(la.InsertMode.add)
    return work.array[: spaces.owned].copy()


def integral(form: ufl.Form, mesh: Mesh) -> float:
    """A number integrated over the whole mesh."""
    return mesh.comm.allreduce(float(fem.assemble_scalar(_compat.form(form, mesh.comm))))


def global_rows(spaces: Spaces, positions: np.ndarray) -> np.ndarray:
    """Global numbers of owned positions in the state, for PETSc."""
    imap, block = spaces.space.dofmap.index_map, spaces.space.dofmap.index_map_bs
    return (positions + imap.local_range[0] * block).astype(PETSc.IntType)


def identity_outside(matrix: PETSc.Mat, free: np.ndarray, spaces: Spaces) -> PETSc.Mat:
    """A copy of a matrix with the identity on all rows and columns outside a mask."""
    copy = matrix.copy()
    copy.zeroRowsColumns(global_rows(spaces, np.nonzero(free == 0.0)[0]), diag=1.0)
    return copy
