# SPDX-License-Identifier: MIT
"""Equilibrated fluxes: the residual of a discrete state as something that can be measured cell by
cell.

The residual of a state w for the operator L is R(φ) = (s − b·∇w − c w, φ) − (p, ∇φ) with p = a ∇w.
A polynomial r on each cell represents it on V_h: (r, v) = R(v). R vanishes there for an exact
Galerkin solution, so r is the algebraic error and any other fault of the solve. It is a function in
V_h or, where R is so small that any will do, a combination of functions that are dual to the nodal
ones, which needs no mass system. With g = s − b·∇w − c w − r, a flux q ∈ RT_{k+1} with div q = Π g,
Π the projection onto polynomials of degree k on each cell, gives

    R(φ) − (r, φ) = (g − Π g, φ) − (q + p, ∇φ) ≤ Σ_K t_K ‖∇φ‖_K, t_K = ‖q + p‖_K + (h_K/π) ‖s − Π
    s‖_K,

since b is affine, so that s is all of g that is no polynomial. q is the sum over the vertices a of
the fluxes q_a around a that minimise ‖q_a + ψ_a p‖ under div q_a = Π(ψ_a Π g − ∇ψ_a·p), where ψ_a
is the hat function (Braess and Schöberl).

All of it is linear in the state and the source: the residual of a difference of two states, each
with an operator of its own, is measured by the difference of their fluxes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem, la
from petsc4py import PETSc

from cffem._compat import assemble_matrix, exterior_facets, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.enclosed.trajectory_columns import product
from cffem.bounds.flux.cells import FluxCells
from cffem.bounds.flux.patches import Multipliers
from cffem.bounds.flux.state_flux import Local, Residual, StateFlux
from cffem.bounds.flux.streams import Streams
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.geometry.reference_cell import Stack, lagrange, reference
from cffem.bounds.scalar_problem import Operator
from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.stage_types import PetscOptions

# Above this share of the fluxes their jumps and the errors of their divergence are no rounding
# errors.
EQUILIBRATED = 1e-9
# A guess that represents a functional up to this share of it is taken.
GUESSED = 1e-10
# Residuals below this share of the source are represented by dual functions.
LUMPED = 1e-9
# −Δ.
LAPLACE = {
    dim: Operator(1.0, np.zeros(dim), np.zeros((dim, dim)), 0.0, sp.S.Zero) for dim in (2, 3)
}
# The mass matrix is well conditioned whatever the mesh.
MASS_OPTIONS: PetscOptions = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 1e-13}


class FluxEquilibration:
    """Measures residuals of states in one Lagrange space with given boundary values.

    Args:
        space: the DOLFINx space V.
        domain: the mesh with its constants.
        direct: whether mass systems are solved by factors, which pays where there are many.

    Attributes:
        quadrature: the degree up to which sources are integrated exactly.
        boundary, held: local and owned unknowns on the boundary.
        size: the number of unknowns of the flux problems.
        solves: how many fluxes were computed.
        seconds: the time they took, the preparation included.

    Raises:
        NotCovered: the nodes of the element are not the usual ones.
    """

    def __init__(self, space: fem.FunctionSpace, domain: Domain, direct: bool = False):
        start = time.perf_counter()
        self.space, self.domain, self.comm = space, domain, domain.mesh.comm
        element = space.element.basix_element
        self.degree = element.degree
        if not np.allclose(element.points, lagrange(domain.dim, self.degree).points):
            raise NotCovered("the nodes of the element are not the default ones")
        self.reference = reference(domain.dim, self.degree)
        self.cells = FluxCells(space, self.reference)
        self.blocks = list(self.cells.blocks())
        self.sources = Sources(self.comm, self.cells.corners, self.degree)
        self.quadrature = self.sources.quadrature
        self.owned = space.dofmap.index_map.size_local
        facets = exterior_facets(domain.mesh)
        self.boundary = fem.locate_dofs_topological(space, domain.dim - 1, facets)
        self.held = self.boundary[self.boundary < self.owned]
        self._assembly = la.vector(space.dofmap.index_map, 1)
        self._direct = direct
        self._stack = Stack(self.reference)
        kind = Streams if domain.dim == 2 else Multipliers
        self._problems = kind(self.comm, self.cells, self.blocks, self._stack)
        self.size = self.comm.allreduce(len(self.cells.corners)) * self.reference.mass.shape[1]
        self.solves, self.seconds = 0, time.perf_counter() - start

    @cached_property
    def _mass(self) -> LinearSolver:
        """The mass matrix with its solver, made where it is needed."""
        test, trial = ufl.TestFunction(self.space), ufl.TrialFunction(self.space)
        zero = [fem.dirichletbc(PETSc.ScalarType(0), self.boundary, self.space)]
        return LinearSolver(
            assemble_matrix(form(trial * test * ufl.dx, self.comm), zero),
            None if self._direct else MASS_OPTIONS,
        )

    @cached_property
    def _diagonal(self) -> np.ndarray:
        """The diagonal of the mass matrix."""
        diagonal = self._mass.matrix.getDiagonal()
        values = diagonal.array_r.copy()
        diagonal.destroy()
        return values

    @cached_property
    def _weights(self) -> np.ndarray:
        """Σ |det J|/n over the cells of each owned node, n the number of nodes of a cell;
        collective.
        """
        volumes = np.broadcast_to(self.cells.volume / len(self.cells.nodes), self.cells.nodes.shape)
        weights = self._assembled(volumes)
        weights[self.held] = 1.0
        return weights

    # Functions of the space
    # ----------------------------------------------------------------------------------------------

    def _assembled(self, local: np.ndarray) -> np.ndarray:
        """The sum of cell contributions at the owned nodes, zero on the boundary; collective."""
        vector = self._assembly
        vector.array[:] = np.bincount(
            self.cells.nodes.ravel(), local.ravel(), minlength=len(vector.array)
        )
        vector.scatter_reverse(la.InsertMode.add)
        vector.array[self.boundary] = 0.0
        return vector.array[: self.owned].copy()

    def with_ghosts(self, owned: np.ndarray) -> np.ndarray:
        """Owned values followed by those of other ranks; collective."""
        vector = self._assembly
        vector.array[: self.owned] = owned
        vector.scatter_forward()
        return vector.array.copy()

    # Fluxes
    # ----------------------------------------------------------------------------------------------

    def flux(
        self,
        operator: Operator,
        state: np.ndarray,
        source: sp.Expr,
        when: float = 0.0,
        represented: np.ndarray | None = None,
    ) -> StateFlux:
        """The flux of a state; collective.

        Args:
            operator: L, with a, b, c.
            state: w, by its owned values.
            source: s, an expression in the coordinates.
            when: the time at which the source is taken.
            represented: the owned values of r, where they are known.

        Raises:
            NotCovered: the source is not finite, or the flux is not equilibrated.
        """
        start = time.perf_counter()
        moments, nothing = self.sources.at(source, when).moments, np.zeros(self.owned)
        local = self._local(operator, self.with_ghosts(state), moments)
        functional, lumped = nothing, nothing
        if represented is not None:
            functional = self.mass_times(represented)
        else:
            given = self._functional(operator, local)
            if self._lumped_norm(given) <= LUMPED * self._scale(operator, state, moments):
                lumped, represented = given, nothing
            else:
                functional, represented = given, self.represented(given)
        minus = self.reference.values, self.with_ghosts(represented)
        if lumped is not nothing:
            minus = self._dual, self.with_ghosts(lumped / self._weights)
        misfit = self._equilibrated(operator, local, minus)
        self.solves += 1
        self.seconds += time.perf_counter() - start
        return StateFlux(misfit, functional, represented, lumped, source, when)

    @cached_property
    def _dual(self) -> np.ndarray:
        """Coefficients of the polynomials ψ on the reference cell with ∫ ψ φ_v = 1/n for one
        nodal function and 0 for others.
        """
        values = self.reference.values
        return np.linalg.inv(values).T / len(values)

    def _lumped_norm(self, functional: np.ndarray) -> float:
        """A bound of the norm of the combination of dual functions that represents a functional;
        collective.

        On a cell its square is |det J| ρᵀ W M⁻¹ W ρ for the coefficients ρ, the mass matrix M of
        the reference cell and W = I/n.
        """
        largest = float(np.linalg.norm(self._dual, 2) ** 2) * len(self.reference.values)
        square = self.comm.allreduce(float(functional @ (functional / self._weights)))
        return math.sqrt(largest * square)

    def _scale(self, operator: Operator, state: np.ndarray, moments: np.ndarray) -> float:
        """The size of the source or, where there is none, one that belongs to the diffusive
        flux of the state; collective.
        """
        size = math.sqrt(self.comm.allreduce(float((moments**2).sum(axis=0) @ self.cells.volume)))
        return (
            size or operator.diffusion * math.sqrt(self.domain.eigenvalue) * self.size_of(state)[1]
        )

    def galerkin(
        self, state: np.ndarray, density: np.ndarray, moments: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Make w the Galerkin solution of −Δω = g and find its flux: q + ∇w by the unknowns of
        RT_{k+1}; collective.

        Args:
            state: w, by its owned values.
            density: the part of g in the space, by its owned values, nearly right.
            moments: coefficients of another part of g, where there is one.

        Returns:
            q + ∇w, and the part of g in the space for which it is.
        """
        start = time.perf_counter()
        if moments is None:
            moments = np.zeros((len(self.reference.values), len(self.cells.corners)))
        laplace = LAPLACE[self.domain.dim]
        local = self._local(laplace, self.with_ghosts(state), moments)
        density = density - self.represented(
            self._functional(laplace, local) + self.mass_times(density)
        )
        found = self._equilibrated(
            laplace, local, (self.reference.values, -self.with_ghosts(density))
        )
        self.solves += 1
        self.seconds += time.perf_counter() - start
        return found, density

    def _local(self, operator: Operator, full: np.ndarray, moments: np.ndarray) -> list[Local]:
        """A state and a source on all cells, the state by its values with ghosts and the
        source by the coefficients of Π s.
        """
        result = []
        for block in self.blocks:
            nodal = full[block.nodes]
            slopes = block.slopes(nodal)
            density = moments[:, block.here] - block.transported(operator, nodal, slopes)
            result.append(Local(block, nodal, block.carried(slopes), density))
        return result

    def _functional(self, operator: Operator, local: Sequence[Local]) -> np.ndarray:
        """R of the nodal functions; collective."""
        tensors, result = self.reference, np.empty(self.cells.nodes.shape)
        for part in local:
            values = part.block.volume * (tensors.values.T @ part.density)
            for gradient, flow in zip(tensors.gradient, part.carried, strict=True):
                values -= (operator.diffusion * gradient.T) @ flow
            result[:, part.block.here] = values
        return self._assembled(result)

    def load(self, moments: np.ndarray) -> np.ndarray:
        """(s, v) for the nodal functions v that this rank owns, from the coefficients of Π s;
        zero on the boundary; collective.
        """
        return self._assembled(self.cells.volume * (self.reference.values.T @ moments))

    def represented(self, functional: np.ndarray, guesses: Sequence[np.ndarray] = ()) -> np.ndarray:
        """The owned values of the function in V_h with these products with the nodal functions;
        collective.

        Args:
            functional: the products.
            guesses: owned values that may be right already.
        """
        size = self._length(functional)
        for guess in guesses:
            defect = functional - self.mass_times(guess)
            if self._length(defect) <= GUESSED * size:
                return guess + defect / self._diagonal
        right, solution = self._mass.matrix.createVecLeft(), self._mass.matrix.createVecRight()
        right.array[:] = functional
        if size:
            self._mass.solve(right, solution, "the mass system of a residual")
        values = solution.array_r.copy()
        for vector in (right, solution):
            vector.destroy()
        return values

    def _length(self, values: np.ndarray) -> float:
        return math.sqrt(self.comm.allreduce(float(np.dot(values, values))))

    def _equilibrated(
        self, operator: Operator, local: Sequence[Local], minus: tuple[np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """q + p for a state and a source on all cells.

        Args:
            operator: L.
            local: the state and the source, whose densities are overwritten.
            minus: a function that is taken away from the source: the coefficients of some functions
                on the reference cell, one for each node, and their factors.
        """
        tensors, stack, a = self.reference, self._stack, operator.diffusion
        shape = (len(stack.null), len(self.cells.corners))
        divergence, force = (
            np.empty((len(tensors.values), *shape)),
            np.empty((stack.null.shape[2], *shape)),
        )
        for part in local:
            here = part.block.here
            part.density[:] -= minus[0] @ minus[1][part.block.nodes]
            part.density[:] *= part.block.volume
            given, pull = self._around(part, a)
            divergence[:, :, here], force[:, :, here] = (
                given.transpose(1, 0, 2),
                pull.transpose(1, 0, 2),
            )
        free, jumps, flowing = self._problems.solve(divergence, force)
        misfit, defect = np.empty((tensors.mass.shape[1], shape[1])), np.zeros(2)
        for part in local:
            here, nodal, count = part.block.here, part.nodal, part.nodal.shape[1]
            total = stack.spread[0] @ divergence[:, :, here].reshape(-1, count)
            total += stack.spread[1] @ free[:, :, here].reshape(-1, count)
            defect += (
                ((tensors.divergence @ total - part.density) ** 2).sum(),
                (part.density**2).sum(),
            )
            for metric, raised in zip(part.block.kappas, tensors.raised, strict=True):
                total += metric * ((a * raised) @ nodal)
            misfit[:, here] = total
        self._check(float(defect[0]), float(defect[1]), jumps, flowing)
        return misfit

    def _around(self, part: Local, a: float) -> tuple[np.ndarray, np.ndarray]:
        """d around all corners, and Nᵀ of what z should be near to."""
        stack, count = self._stack, part.nodal.shape[1]
        divergence = (stack.hat @ part.density).reshape(len(stack.slope), -1, count)
        for n, flow in enumerate(part.carried):
            divergence -= a * stack.slope[..., n] * flow
        force = ((a * stack.pull) @ part.nodal).reshape(len(stack.slope), -1, count)
        for metric, coupled in zip(part.block.gammas, stack.coupled, strict=True):
            force -= metric * (coupled @ divergence)
        return divergence, force

    def _check(self, wrong: float, given: float, broken: float, flowing: float) -> None:
        """Whether the flux is continuous and has the divergence it should have, from sums of
        squares; collective.
        """
        wrong, given, broken, flowing = self.comm.allreduce(
            np.array([wrong, given, broken, flowing])
        )
        if wrong + broken > EQUILIBRATED**2 * (given + flowing):
            raise NotCovered(
                "the flux is not equilibrated: its divergence is off by "
                f"{math.sqrt(wrong + broken):.1e}"
            )

    # Norms
    # ----------------------------------------------------------------------------------------------

    def residual(self, flux: StateFlux) -> Residual:
        """Measure a flux; collective."""
        start = time.perf_counter()
        sampled = self.sources.at(flux.source, flux.when)
        indicators = self.indicators(flux.misfit, sampled.oscillation)
        square = self.comm.allreduce(float(np.dot(flux.functional, flux.represented)))
        algebraic = math.sqrt(max(square, 0.0)) + self._lumped_norm(flux.lumped)
        self.seconds += time.perf_counter() - start
        return Residual(indicators, *self.sizes(indicators), algebraic, sampled.unseen)

    def indicators(self, misfit: np.ndarray, oscillation: np.ndarray) -> np.ndarray:
        """t_K from q + p and ‖s − Π s‖_K."""
        return self.misfits(misfit) + self.domain.diameters / math.pi * oscillation

    def sizes(self, indicators: np.ndarray) -> tuple[float, float | None]:
        """(Σ t_K²)^{1/2} and, where the domain has constants C_K, (Σ C_K² t_K²)^{1/2};
        collective.
        """
        squares, constants = indicators**2, self.domain.interpolation
        weighted = 0.0 if constants is None else float(constants**2 @ squares)
        dual, weighted = np.sqrt(self.comm.allreduce(np.array([squares.sum(), weighted])))
        return float(dual), None if constants is None else float(weighted)

    def misfits(self, misfit: np.ndarray) -> np.ndarray:
        """‖q + p‖ on each cell."""
        squares = np.zeros(misfit.shape[1])
        for block in self.blocks:
            part = misfit[:, block.here]
            for metric, mass in zip(block.gammas, self.reference.mass, strict=True):
                squares[block.here] += metric * np.einsum("ic,ic->c", part, mass @ part)
        return np.sqrt(np.maximum(squares, 0.0))

    def products(
        self, misfit: np.ndarray, others: Sequence[np.ndarray], weights: np.ndarray
    ) -> np.ndarray:
        """Σ_K ω_K (m, m′)_K of one misfit and others, given by the unknowns of RT_{k+1};
        collective.
        """
        result = np.zeros(len(others))
        for block in self.blocks:
            part = misfit[:, block.here]
            image = sum(
                metric * (mass @ part)
                for metric, mass in zip(block.gammas, self.reference.mass, strict=True)
            )
            image = weights[block.here] * image
            result += [float(np.vdot(other[:, block.here], image)) for other in others]
        return self.comm.allreduce(result)

    def size_of(self, state: np.ndarray) -> tuple[float, float]:
        """‖w‖ and ‖∇w‖ of a function of the space, given by its owned values; collective."""
        squares, full = np.zeros(2), self.with_ghosts(state)
        for block in self.blocks:
            nodal = full[block.nodes]
            slopes = block.slopes(nodal)
            squares[0] += ((self.reference.values @ nodal) ** 2).sum(axis=0) @ block.volume
            squares[1] += sum(
                float(np.vdot(s, c)) for s, c in zip(slopes, block.carried(slopes), strict=True)
            )
        value, gradient = self.comm.allreduce(squares)
        return math.sqrt(value), math.sqrt(max(gradient, 0.0))

    def distance(self, state: np.ndarray, value: sp.Expr) -> float:
        """‖s − w‖ of an expression s and a function w of the space, what quadrature does not
        see of s included; collective.
        """
        nodal = self.with_ghosts(state)[self.cells.nodes]
        return self.sources.distance(value, (self.reference.values @ nodal).T)

    def _image(self, matrix: PETSc.Mat, values: np.ndarray) -> np.ndarray:
        vector, result = matrix.createVecRight(), matrix.createVecLeft()
        vector.array[:] = values
        matrix.mult(vector, result)
        image = result.array_r.copy()
        for thing in (vector, result):
            thing.destroy()
        return image

    def mass_times(self, values: np.ndarray) -> np.ndarray:
        """The mass matrix times the owned values of a function that vanishes on the boundary;
        collective.
        """
        return self._image(self._mass.matrix, values)

    def mass_times_columns(self, columns: np.ndarray) -> np.ndarray:
        """The same for many functions, one column each; collective."""
        return product(self._mass.matrix, columns)

    def norm_by(self, matrix: PETSc.Mat, values: np.ndarray) -> float:
        """(wᵀ A w)^{1/2} for owned values w; collective."""
        squared = self.comm.allreduce(float(np.dot(self._image(matrix, values), values)))
        return math.sqrt(max(squared, 0.0))

    def norms_by(self, matrix: PETSc.Mat, columns: np.ndarray) -> np.ndarray:
        """(wᵀ A w)^{1/2} for columns of owned values; collective."""
        squares = self.comm.allreduce(np.einsum("ij,ij->j", columns, product(matrix, columns)))
        return np.sqrt(np.maximum(squares, 0.0))

    def mass_norms(self, columns: np.ndarray) -> np.ndarray:
        """‖w‖ of functions that vanish on the boundary, one column each; collective."""
        return self.norms_by(self._mass.matrix, columns)

    def mass_norm(self, values: np.ndarray) -> float:
        """‖w‖ of a function that vanishes on the boundary, given by its owned values;
        collective.
        """
        return self.norm_by(self._mass.matrix, values)

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        if "_mass" in self.__dict__:
            matrix = self._mass.matrix
            self._mass.destroy()
            matrix.destroy()
