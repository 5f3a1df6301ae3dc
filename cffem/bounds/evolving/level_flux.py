# SPDX-License-Identifier: MIT
"""Equilibrated fluxes of the time levels of ρ u_t − div(A ∇u) + b·∇u + c u = f.

At a level the residual of the operator alone, r(φ) = (f − b·∇w − c w, φ) − (A ∇w, ∇φ) + ⟨g − κ w,
φ⟩, is represented on V_h by a rate W ∈ V_h with (ρ W, v) = r(v) for all v that vanish where values
are given. What is left, r − (ρ W, ·), vanishes on V_h and has a flux (`variable_flux`) whose data
are f − b·∇w − c w − ρ W. With a weight that jumps W is as smooth as the solution is, which a
representation without ρ would not be.

The product with ρ is the one of the rule of the cells. What iterations leave of the equations for W
is a functional f on V_h, and fᵀ M⁻¹ f ≤ fᵀ D⁻¹ f/c bounds the function it stands for, where D is
the diagonal of the mass matrix M and c the smallest eigenvalue of D^{-1/2} M D^{-1/2} on the
reference cell, which is the same on every straight cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.variable.natural_walls import WallPart
from cffem.bounds.variable.place_functions import PlaceFunctions, off_line
from cffem.bounds.variable.variable_flux import VariableFlux, VariableState
from cffem.bounds.variable.variable_operator import VariableOperator
from cffem.engine.solve.linear import LinearSolver
from cffem.symbols.coordinates import t
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from dolfinx import la

    from cffem.bounds.variable.variable_domain import CellTensors

# So many functions are kept by their values at points; those of moving walls come and go.
KEPT = 48


class KeptPlaces(PlaceFunctions):
    """Functions of the place that levels of time ask for again and again."""

    def __init__(
        self, corners: np.ndarray, barycentric: np.ndarray, known: Mapping[Known, np.ndarray]
    ):
        super().__init__(corners, barycentric, known)
        # What lives as long as the cells do; walls that move come and go.
        self.values, self.radius, self.bounds = (  # type: ignore[method-assign]
            lru_cache(maxsize=KEPT)(function)
            for function in (super().values, super().radius, super().bounds)
        )


class LevelFlux(VariableFlux):
    """Measures levels of time in one Lagrange space.

    Args:
        space, tensors, natural, known: see `VariableFlux`; wall values may depend on time.
        weight: ρ.
    """

    def __init__(
        self,
        space: fem.FunctionSpace,
        tensors: CellTensors,
        natural: Mapping[int, WallPart],
        known: Mapping[Known, np.ndarray],
        weight: sp.Expr,
    ):
        super().__init__(space, tensors, natural, known)
        self.weight, self._when = weight, 0.0
        self.places = KeptPlaces(self.cells.corners, self.tables["barycentric"], self.known)
        low, high = self.places.bounds(weight)
        ends = [float(-np.min(low, initial=math.inf)), float(np.max(high, initial=0.0))]
        least, most = np.max(self.comm.allgather(ends), axis=0)
        self.weight_range = -float(least), float(most)
        if not self.weight_range[0] > 0:
            raise NotCovered("the weight of the time derivative is not bounded away from zero")
        self._lay_masses(low)

    def _lay_masses(self, low: np.ndarray) -> None:
        """The mass matrices with ρ, without and with held unknowns, and c."""
        space = self.space
        test, trial = ufl.TestFunction(space), ufl.TrialFunction(space)
        plain = form(trial * test * ufl.dx, self.comm)
        values = self.tables["values"]
        weights = self.cells.volume * (self.tables["weights"] * self.places.values(self.weight)).T
        local = np.einsum("qc,qi,qj->cij", weights, values, values)
        self.product, held = assemble_matrix(plain), assemble_matrix(plain)
        nodes = np.ascontiguousarray(self.cells.nodes.T)
        for matrix in (self.product, held):
            matrix.zeroEntries()
            _add(matrix, nodes, local, space.dofmap.index_map)
        held.zeroRowsColumnsLocal(self.boundary.astype(PETSc.IntType), 1.0)
        self.plain_product = assemble_matrix(plain)
        self._weighted = LinearSolver(held)
        diagonal = self.plain_product.getDiagonal()
        self._diagonal = diagonal.array_r.copy()
        diagonal.destroy()
        reference = np.einsum("q,qi,qj->ij", self.tables["weights"], values, values)
        root = np.sqrt(np.diag(reference))
        self._smallest = float(np.linalg.eigvalsh(reference / np.outer(root, root))[0])
        unseen = self.places.radius(self.weight) / low
        more = max(self.comm.allgather(float(np.max(unseen, initial=0.0))))
        self._uneven_weight = math.sqrt(1 + more)

    # Functions of the space -----------------------------------------------------------------------

    def weighted_norm(self, values: np.ndarray) -> float:
        """‖ρ^{1/2} w‖ of owned values; collective."""
        return self._norm(self.product, values) * self._uneven_weight

    def plain_norm(self, values: np.ndarray) -> float:
        """‖w‖ of owned values; collective."""
        return self._norm(self.plain_product, values)

    def _norm(self, matrix: PETSc.Mat, values: np.ndarray) -> float:
        image = self._image(matrix, values)
        return math.sqrt(max(self.comm.allreduce(float(values @ image)), 0.0))

    @staticmethod
    def _image(matrix: PETSc.Mat, values: np.ndarray) -> np.ndarray:
        vector, result = matrix.createVecRight(), matrix.createVecLeft()
        vector.array[:] = values
        matrix.mult(vector, result)
        image = result.array_r.copy()
        for thing in (vector, result):
            thing.destroy()
        return image

    def distance(self, state: np.ndarray, value: sp.Expr) -> float:
        """‖ρ^{1/2} (s − w)‖ of an expression and a function of the space; collective."""
        nodal = self.with_ghosts(state)[self.cells.nodes]
        plain = self.sources.distance(value, (self.reference.values @ nodal).T)
        return math.sqrt(self.weight_range[1]) * plain

    # Levels ---------------------------------------------------------------------------------------

    def level(
        self,
        operator: VariableOperator,
        state: np.ndarray,
        source: sp.Expr,
        when: float,
        moving: np.ndarray,
    ) -> tuple[VariableState, np.ndarray]:
        """Measure a level, and its rate W; collective.

        Args:
            operator, source: of the equation.
            state: w.
            when: the time.
            moving: values of W that are given, zero at unknowns that are not held.

        Raises:
            NotCovered: data cannot be enclosed, or the flux is not equilibrated.
        """
        tables, cells = self.tables, self.cells
        self._when = when
        values, slopes = self.at_points(state)
        sizes = [np.sqrt(self._squares(v)) for v in (values, np.linalg.norm(slopes, axis=2))]
        flow, missed = self._diffusive(operator, slopes, sizes[1])
        pulled = cells.volume[:, None, None] * (flow @ np.swapaxes(cells.inverse, 1, 2))
        weighed = tables["weights"] * tables["polynomials"]
        projected = weighed @ pulled
        carried = np.ascontiguousarray(projected.transpose(2, 1, 0))
        back = tables["polynomials"].T @ projected
        back = back @ np.swapaxes(cells.jacobian, 1, 2) / cells.volume[:, None, None]
        moved, moved_missed = self._transported(operator, values, slopes, sizes)
        density = self.sources.at(source, when).moments - weighed @ moved.T
        flowing, wall_rest, wall_missed, wall_load = self._walls(operator, state)
        rate = self._rate(self._functional(density, carried, wall_load), moving)
        rates = (tables["values"] @ self.with_ghosts(rate)[cells.nodes]).T
        pushed = self.places.values(self.weight) * rates
        moved = moved + pushed
        moved_missed = moved_missed + self.places.radius(self.weight) * np.sqrt(
            self._squares(rates)
        )
        density = density - weighed @ pushed.T
        rest = moved - (tables["polynomials"].T @ (weighed @ moved.T)).T
        functional = self._functional(density, carried, wall_load)
        misfit = self._equilibrated(density, carried, flowing)
        self.solves += 1
        state_found = VariableState(
            misfit,
            flow - back,
            rest,
            wall_rest,
            functional,
            np.zeros(0),
            source,
            np.stack([missed, moved_missed]),
            wall_missed,
            when,
        )
        return state_found, rate

    def _rate(self, functional: np.ndarray, moving: np.ndarray) -> np.ndarray:
        """W with (ρ W, v) given for v in V_h and the values of `moving` where it is held."""
        matrix = self._weighted.matrix
        if self.comm.allreduce(float(np.abs(moving).sum())):
            functional = functional - self._image(self.product, moving)
        held = self.boundary[self.boundary < self.owned]
        functional[held] = 0.0
        right, solution = matrix.createVecLeft(), matrix.createVecRight()
        right.array[:] = functional
        if self.comm.allreduce(float(functional @ functional)):
            self._weighted.solve(right, solution, "the weighted mass system of a level")
        found: np.ndarray = solution.array_r + moving
        for vector in (right, solution):
            vector.destroy()
        return found

    def _wall_data(self, part: WallPart, operator: VariableOperator) -> tuple[sp.Expr, sp.Expr]:
        value, coefficient = part.flux(operator)
        return value.xreplace({t: sp.Float(self._when)}), coefficient

    def _algebraic(self, found: VariableState) -> float:
        square = float((found.functional**2 / self._diagonal).sum()) / self._smallest
        return self.comm.allreduce(square)

    def walls_not_linear(
        self, operator: VariableOperator, times: np.ndarray, tensors: CellTensors
    ) -> tuple[np.ndarray, np.ndarray]:
        """What ⟨g − I g, φ⟩ can be on each step, as multiples of ‖φ‖ and of ‖A^{1/2} ∇φ‖ in L2 of
        the step, I linear interpolation in time; collective.

        Raises:
            NotCovered: wall values are not enclosed.
        """
        steps = np.diff(times)
        most = np.zeros((len(self.where), len(steps)))
        for part in dict.fromkeys(self.parts):
            g = part.flux(operator)[0]
            if g.has(t):
                mine = np.array([p is part for p in self.parts])
                most[mine] = off_line(self.wall_places, g, times)[mine]
        size = most * np.sqrt(self.wall_areas / self.wall_heights)[:, None] * np.sqrt(steps)
        smallest = np.sqrt(tensors.smallest)[self.where]
        found = []
        for factor in (np.full(len(smallest), math.sqrt(self.dim + 1)), None):
            if factor is None:
                factor = tensors.diameters[self.where] / smallest
            on_cells = np.zeros((len(self.cells.corners), len(steps)))
            np.add.at(on_cells, self.where, factor[:, None] * size)
            found.append(np.sqrt(self.comm.allreduce((on_cells**2).sum(axis=0))))
        return found[0], found[1]

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        matrix = self._weighted.matrix
        self._weighted.destroy()
        for held in (matrix, self.product, self.plain_product):
            held.destroy()
        super().destroy()


def _add(matrix: PETSc.Mat, nodes: np.ndarray, local: np.ndarray, index: la.IndexMap) -> None:
    """Add small matrices of cells at their local unknowns; collective."""
    cells, count = nodes.shape
    rows = nodes.ravel().astype(PETSc.IntType)
    starts = np.arange(cells * count + 1, dtype=PETSc.IntType) * count
    columns = np.repeat(nodes, count, axis=0).ravel().astype(PETSc.IntType)
    matrix.setValuesLocalIJV(
        starts, columns, local.ravel(), addv=PETSc.InsertMode.ADD_VALUES, rowmap=rows
    )
    matrix.assemble()
