# SPDX-License-Identifier: MIT
"""Trajectories as the theorems see them: rates, residuals in time and spatial errors of given
values at the time levels.

Z^n ∈ V_h represents s(t_n) − L u^n on V_h, where it is L_h u^n = P s(t_n) − Z^n with the L2
projection P. So u^n is the Galerkin solution of a Poisson problem with right-hand side g^n = s(t_n)
− Z^n − b·∇u^n − c u^n, and all of this is linear: a difference of trajectories, or a combination of
levels, has the combination of the Z^n, and of the fluxes, which are not computed again.

A combination w = Σ ω_n u^n of levels that is small needs no flux: its spatial error is at most
(P/a) ‖Σ ω_n g^n‖, where P is C² with the constant of the domain, or 1/λ₁ where that is less or
there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, form
from cffem.bounds.flux.equilibrated import FluxEquilibration
from cffem.bounds.flux.state_flux import StateFlux
from cffem.bounds.scalar_problem import Operator
from cffem.engine.solve.linear import LinearSolver
from cffem.symbols.coordinates import t

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh
    from ufl.core.expr import Expr


Weights = Mapping[int, float]


class SharedAssembly:
    """What all trajectories of a model share: matrices, loads of sources, and the flux problems.

    Args:
        equilibration: measures residuals in space.
        times: the time levels.
    """

    def __init__(self, equilibration: FluxEquilibration, times: np.ndarray):
        self.equilibration, self.times = equilibration, times
        self.domain, self.comm = equilibration.domain, equilibration.comm
        self.sources = equilibration.sources
        self.sources.kept = len(times) + 1
        space = equilibration.space
        u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
        self.zero = [fem.dirichletbc(PETSc.ScalarType(0), equilibration.boundary, space)]
        self.stiffness = LinearSolver(
            assemble_matrix(
                form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, self.comm), self.zero
            )
        )
        self._constants = _Constants(space.mesh)
        self._form = form(self._constants.form(u, v), self.comm)
        self._loads: dict[tuple[sp.Expr, float], tuple[np.ndarray, np.ndarray]] = {}

    def matrix(self, operator: Operator) -> PETSc.Mat:
        """The matrix of (L u, v), with nothing eliminated; the caller owns it."""
        self._constants.set(operator)
        return assemble_matrix(self._form)

    def load(self, source: sp.Expr, n: int) -> tuple[np.ndarray, np.ndarray]:
        """(s(t_n), v) for the nodal functions v, zero on the boundary, and P s(t_n); collective."""
        when = float(self.times[n]) if source.has(t) else 0.0
        if (source, when) not in self._loads:
            parts = self.sources.separated(source)
            if parts is None:
                self._loads[source, when] = self._represented(self.sources.at(source, when).moments)
            else:
                if (source, math.nan) not in self._loads:
                    pieces = [self._represented(moments) for moments in parts.moments]
                    self._loads[source, math.nan] = tuple(
                        np.stack(p) for p in zip(*pieces, strict=True)
                    )
                first, second = self._loads[source, math.nan]
                factors = parts.factors(when)
                return factors @ first, factors @ second
        return self._loads[source, when]

    def _represented(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        functional = self.equilibration.load(moments)
        return functional, self.equilibration.represented(functional)

    def gradient_norm(self, values: np.ndarray) -> float:
        """‖∇w‖ of a function that vanishes on the boundary; collective."""
        return self.equilibration.norm_by(self.stiffness.matrix, values)

    def lift(self, values: np.ndarray) -> np.ndarray:
        """(−Δ_h)^{-1} w for w in the space; collective."""
        right, solution = (
            self.stiffness.matrix.createVecLeft(),
            self.stiffness.matrix.createVecRight(),
        )
        right.array[:] = self.equilibration.mass_times(values)
        if right.norm():
            self.stiffness.solve(right, solution, "the Poisson problem of a temporal residual")
        found = solution.array_r.copy()
        for vector in (right, solution):
            vector.destroy()
        return found

    @property
    def regularity(self) -> float:
        """P: a ‖ε‖ ≤ P ‖g‖ for the error ε of a Poisson problem −a Δω = g; collective."""
        constant = self.domain.largest_interpolation
        return (
            1 / self.domain.eigenvalue
            if constant is None
            else min(constant**2, 1 / self.domain.eigenvalue)
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        matrix = self.stiffness.matrix
        self.stiffness.destroy()
        matrix.destroy()


class _Constants:
    """The coefficients of an operator as constants of one form, so that another operator
    compiles nothing.
    """

    def __init__(self, mesh: Mesh):
        dim = mesh.topology.dim
        self.mesh = mesh
        self.diffusion, self.reaction = fem.Constant(mesh, 0.0), fem.Constant(mesh, 0.0)
        self.shift, self.slope = (
            fem.Constant(mesh, np.zeros(dim)),
            fem.Constant(mesh, np.zeros((dim, dim))),
        )

    def form(self, u: Expr, v: Expr) -> ufl.Form:
        """(a ∇u, ∇v) + (b·∇u + c u, v)."""
        advection = self.shift + ufl.dot(self.slope, ufl.SpatialCoordinate(self.mesh))
        lower = ufl.dot(advection, ufl.grad(u)) + self.reaction * u
        return (self.diffusion * ufl.inner(ufl.grad(u), ufl.grad(v)) + lower * v) * ufl.dx

    def set(self, operator: Operator) -> None:
        """Take the coefficients of an operator."""
        for name in ("diffusion", "shift", "slope", "reaction"):
            getattr(self, name).value[...] = getattr(operator, name)


class March:
    """Given values u^n at all levels, as an approximate solution of u_t + L u = s; collective.

    Args:
        workshop: what is shared.
        operator: L.
        states: owned values at each level.
        source: s.
    """

    def __init__(
        self,
        workshop: SharedAssembly,
        operator: Operator,
        states: Sequence[np.ndarray],
        source: sp.Expr,
    ):
        self.workshop, self.operator, self.source = workshop, operator, source
        self.states = states
        self.speed = operator.speed(workshop.domain.hull)
        self._fluxes: dict[int, StateFlux] = {}
        self.lifts: dict[int, np.ndarray] = {}
        self._rates = self._represented()

    def _represented(self) -> list[np.ndarray]:
        """Z^n at all levels."""
        workshop, states = self.workshop, self.states
        rates: list[np.ndarray] = []
        matrix = workshop.matrix(self.operator)
        vector, image = matrix.createVecRight(), matrix.createVecLeft()
        for n, state in enumerate(states):
            vector.array[:] = state
            matrix.mult(vector, image)
            functional = workshop.load(self.source, n)[0] - image.array_r
            functional[workshop.equilibration.held] = 0.0
            # Backward Euler has Z^n = D_n and Crank–Nicolson Z^n + Z^{n−1} = 2 D_n, where the
            # source does not change.
            slope = (
                (state - states[n - 1]) / (workshop.times[n] - workshop.times[n - 1]) if n else None
            )
            guesses = [] if slope is None else [slope, 2 * slope - rates[-1]]
            rates.append(workshop.equilibration.represented(functional, guesses))
        for thing in (vector, image, matrix):
            thing.destroy()
        return rates

    def state(self, weights: Weights) -> np.ndarray:
        """Σ ω_n u^n."""
        return sum(w * self.states[n] for n, w in weights.items())

    def rate(self, weights: Weights) -> np.ndarray:
        """Σ ω_n Z^n."""
        return sum(w * self._rates[n] for n, w in weights.items())

    def density(self, weights: Weights) -> float:
        """A bound of ‖Σ ω_n g^n‖ for weights that add up to zero; collective."""
        state, workshop = self.state(weights), self.workshop
        rest = self.rate(weights) + self.operator.reaction * state
        moved = self.speed * workshop.gradient_norm(state) if self.speed else 0.0
        return (
            workshop.sources.size(self.source, self._when(weights))
            + workshop.equilibration.mass_norm(rest)
            + moved
        )

    def _when(self, weights: Weights) -> list[tuple[float, float]]:
        return [(float(self.workshop.times[n]), w) for n, w in weights.items()]

    def applied(self, weights: Weights) -> np.ndarray:
        """L_h Σ ω_n u^n = Σ ω_n (P s(t_n) − Z^n)."""
        given = (
            sum(w * self.workshop.load(self.source, n)[1] for n, w in weights.items())
            if self.source.has(t)
            else 0.0
        )
        return given - self.rate(weights)

    def flux(self, n: int) -> StateFlux:
        """The flux of level n, computed once; collective."""
        if n not in self._fluxes:
            when = float(self.workshop.times[n])
            self._fluxes[n] = self.workshop.equilibration.flux(
                self.operator, self.states[n], self.source, when, self._rates[n]
            )
        return self._fluxes[n]

    def lift(self, n: int, mean: np.ndarray) -> np.ndarray:
        """(−Δ_h)^{-1} F̄ on step n, computed once; collective."""
        if n not in self.lifts:
            self.lifts[n] = self.workshop.lift(mean)
        return self.lifts[n]


class MarchDifference:
    """The difference of a factual march and one without a term; it looks like a march of the
    factual operator.
    """

    def __init__(self, first: March, second: March, term: Operator):
        self.workshop, self.operator, self.first, self.second = (
            first.workshop,
            first.operator,
            first,
            second,
        )
        self.source = first.source - second.source
        self.term, self.speed = term.speed(first.workshop.domain.hull), first.speed

    def state(self, weights: Weights) -> np.ndarray:
        """See `March.state`."""
        return self.first.state(weights) - self.second.state(weights)

    def rate(self, weights: Weights) -> np.ndarray:
        """See `March.rate`."""
        return self.first.rate(weights) - self.second.rate(weights)

    def density(self, weights: Weights) -> float:
        """See `March.density`: −Δ(a ω − a_j ω_j) = g − g_j, and a u^n − a_j u_j^n is the
        Galerkin solution of it; collective.
        """
        first, second, workshop = self.first, self.second, self.workshop
        ours, theirs = first.state(weights), second.state(weights)
        rest = (
            self.rate(weights) + first.operator.reaction * ours - second.operator.reaction * theirs
        )
        moved = self.speed * workshop.gradient_norm(ours - theirs) if self.speed else 0.0
        moved += self.term * workshop.gradient_norm(theirs) if self.term else 0.0
        return (
            workshop.sources.size(self.source, first._when(weights))
            + workshop.equilibration.mass_norm(rest)
            + moved
        )

    def applied(self, weights: Weights) -> np.ndarray:
        """What takes the place of L_h d in the temporal residual: L_h u − L_{j,h} u_j."""
        return self.first.applied(weights) - self.second.applied(weights)

    def flux(self, n: int) -> StateFlux:
        """See `March.flux`."""
        return self.first.flux(n) - self.second.flux(n)

    def lift(self, n: int, mean: np.ndarray) -> np.ndarray:
        """See `March.lift`."""
        if n in self.first.lifts and n in self.second.lifts:
            return self.first.lifts[n] - self.second.lifts[n]
        return self.workshop.lift(mean)
