"""Equilibrated fluxes: the residual of a discrete state as something that can be measured cell by cell.

The residual of a state w for the operator L, with a second state v on the right-hand side of it, is

    R(φ) = (s + n_b·∇v + n_c v − b·∇w − c w, φ) − (p, ∇φ),   p = a ∇w − n_a ∇v.

r ∈ V_h represents it on V_h (zero for an exact Galerkin solution, so it is the algebraic error and any other fault of the solve).
With g = s + n_b·∇v + n_c v − b·∇w − c w − r, the flux q ∈ RT_{k+1} minimises ‖q + p‖ under (div q, ω) = (g, ω) for ω ∈ DG_k. Then

    R(φ) − (r, φ) = (g − div q, φ) − (q + p, ∇φ) ≤ Σ_K t_K ‖∇φ‖_K,   t_K = ‖q + p‖_K + (h_K/π) ‖g − div q‖_K.

The matrix of the minimisation depends on the mesh only: it is factorised once for all operators, states and deletions.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import basix
import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx.mesh import exterior_facet_indices
from petsc4py import PETSc

from cffem._compat import assemble_matrix, cell_name, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry import Domain, volumes
from cffem.bounds.problem import Operator
from cffem.engine.linear import LinearSolver
from cffem.symbols.coordinates import SPACE, t

# Above this share of h ‖g‖ + ‖p‖ the cell means of h (g − div q) are no rounding errors.
EQUILIBRATED = 1e-8
# Two quadrature rules that agree to this relative accuracy differ by rounding.
ROUNDING = 1e-12
KEPT_SOURCES = 3


@dataclass(frozen=True)
class Residual:
    """The measured residual of a state.

    Attributes:
        indicators: t_K of this rank's own cells.
        dual: (Σ t_K²)^{1/2} over all cells.
        weighted: (Σ C_K² t_K²)^{1/2} with Kobayashi's constants, or None where they do not apply.
        algebraic: ‖r‖.
        unseen: L2 size of the part of the source that two quadrature rules disagree about.
    """

    indicators: np.ndarray
    dual: float
    weighted: float | None
    algebraic: float
    unseen: float


class Equilibration:
    """Measures residuals of states in one Lagrange space with zero boundary values.

    Args:
        space: the DOLFINx space V.
        domain: the mesh with its constants.

    Attributes:
        size: the number of unknowns of the flux problem.
        solves: how many fluxes were computed.
        seconds: the time they took, factorisation included.
    """

    def __init__(self, space: Any, domain: Domain):
        start = time.perf_counter()
        self.space, self.domain, self.comm = space, domain, domain.mesh.comm
        mesh, cell = domain.mesh, cell_name(domain.mesh.ufl_domain())
        degree = space.element.basix_element.degree
        self.quadrature = 2 * degree + 8
        self.dx = ufl.dx(domain=mesh, metadata={"quadrature_degree": self.quadrature})
        mixed = basix.ufl.mixed_element([basix.ufl.element("RT", cell, degree + 1), basix.ufl.element("DG", cell, degree)])
        self.first, self.second, self.algebraic = (fem.Function(space) for _ in range(3))
        self.source = fem.Function(fem.functionspace(mesh, basix.ufl.quadrature_element(cell, degree=self.quadrature)))
        self.flux = fem.Function(fem.functionspace(mesh, mixed))
        self._constants = [_Constants(mesh), _Constants(mesh)]
        self._sources: dict[Any, tuple[np.ndarray, float]] = {}
        self._compile()
        self.size = self.flux.function_space.dofmap.index_map.size_global
        self.solves = 0
        self.seconds = time.perf_counter() - start

    def _compile(self) -> None:
        mesh, space, dx = self.domain.mesh, self.space, self.dx
        ours, theirs = (constants.of(f) for constants, f in zip(self._constants, (self.first, self.second), strict=True))
        gradient = ours[0] - theirs[0]
        density = self.source - ours[1] + theirs[1]
        test, trial = ufl.TestFunction(space), ufl.TrialFunction(space)
        self._residual = form(density * test * dx - ufl.inner(gradient, ufl.grad(test)) * dx, self.comm)
        facets = exterior_facet_indices(mesh.topology)
        self.boundary = fem.locate_dofs_topological(space, self.domain.dim - 1, facets)
        zero = [fem.dirichletbc(PETSc.ScalarType(0), self.boundary, space)]
        self._mass = LinearSolver(assemble_matrix(form(trial * test * dx, self.comm), zero))

        (q, multiplier), (p, w) = ufl.TrialFunctions(self.flux.function_space), ufl.TestFunctions(self.flux.function_space)
        saddle = (ufl.inner(q, p) + multiplier * ufl.div(p) + ufl.div(q) * w) * dx
        self._saddle = LinearSolver(assemble_matrix(form(saddle, self.comm)))
        density = density - self.algebraic
        self._right = form((density * w - ufl.inner(gradient, p)) * dx, self.comm)
        q, _ = ufl.split(self.flux)
        cells = fem.functionspace(mesh, basix.ufl.element("DG", cell_name(mesh.ufl_domain()), 0, shape=(7,)))
        misfit, rest, state = q + gradient, density - ufl.div(q), self.first
        squares = [ufl.inner(misfit, misfit), rest**2, rest, density**2, state**2, ufl.inner(ufl.grad(state), ufl.grad(state))]
        squares.append(ufl.inner(gradient, gradient))
        parts = ufl.as_vector(squares)
        self._parts = form(ufl.inner(parts, ufl.TestFunction(cells)) * dx, self.comm)

    def measure(
        self, ours: Operator, first: Any, source: sp.Expr, theirs: Operator | None = None, second: Any = None, when: float = 0.0
    ) -> Residual:
        """The residual of the state `first` for the operator `ours`, collective.

        Args:
            ours: L, with a, b, c.
            first: w.
            source: s, an expression in the coordinates.
            theirs: n_a, n_b, n_c; nothing if None.
            second: v.
            when: the time at which the source is taken.

        Raises:
            NotCovered: a state does not vanish on the boundary, or the source is not finite.
        """
        start = time.perf_counter()
        self._constants[0].set(ours)
        self._constants[1].set(theirs)
        for function, state in ((self.first, first), (self.second, second)):
            function.x.array[:] = 0.0 if state is None else state.x.array
            if self.comm.allreduce(int(np.any(function.x.array[self.boundary]))):
                raise NotCovered("a discrete solution does not vanish on the whole boundary")
        unseen = self._set_source(source, when)
        algebraic = self._represent()
        self._equilibrate()
        result = self._indicators(algebraic, unseen)
        self.solves += 1
        self.seconds += time.perf_counter() - start
        return result

    def _set_source(self, source: sp.Expr, when: float) -> float:
        """Put s into the quadrature points; the L2 size of what a finer rule sees and this one does not."""
        key = (source, when if source.has(t) else 0.0)
        if key in self._sources:
            self.source.x.array[:], unseen = self._sources[key]
            return unseen
        values, weights = at_quadrature_points(source, self.domain.corners, self.quadrature, when)
        finer, finer_weights = at_quadrature_points(source, self.domain.corners, self.quadrature + 6, when)
        if self.comm.allreduce(int(not (np.all(np.isfinite(values)) and np.all(np.isfinite(finer))))):
            raise NotCovered("the forcing is not finite everywhere")
        # Cells come first and own consecutive points, in the order of the rule.
        self.source.x.array[:] = 0.0
        self.source.x.array[self.source.function_space.dofmap.list[: len(values)]] = values
        self.source.x.scatter_forward()
        area = volumes(self.domain.corners)
        coarse, fine = area * (values**2 @ weights), area * (finer**2 @ finer_weights)
        excess = np.maximum(np.abs(coarse - fine) - ROUNDING * np.maximum(coarse, fine), 0.0)
        unseen = math.sqrt(self.comm.allreduce(float(excess.sum())))
        # A march goes back and forth between its forcing and zero; sources of earlier times are not met again.
        if len(self._sources) == KEPT_SOURCES:
            del self._sources[next(iter(self._sources))]
        self._sources[key] = self.source.x.array.copy(), unseen
        return unseen

    def _represent(self) -> float:
        """r and its norm."""
        right = self._mass.matrix.createVecLeft()
        right.array[:] = _assembled(self._residual, len(right.array_r))
        right.array[self.boundary[self.boundary < len(right.array_r)]] = 0.0
        solution = self._mass.matrix.createVecRight()
        self._mass.solve(right, solution, "the mass system of a residual")
        _put(self.algebraic, solution)
        self.algebraic.x.array[self.boundary] = 0.0
        squared = right.dot(solution)
        for vector in (right, solution):
            vector.destroy()
        return math.sqrt(max(squared, 0.0))

    def mass_times(self, values: np.ndarray) -> Any:
        """The mass matrix times the owned values of a function that vanishes on the boundary; the caller owns the vector."""
        vector, result = self._mass.matrix.createVecRight(), self._mass.matrix.createVecLeft()
        vector.array[:] = values
        self._mass.matrix.mult(vector, result)
        vector.destroy()
        return result

    def mass_norm(self, values: np.ndarray) -> float:
        """‖w‖ of a function that vanishes on the boundary, given by its owned values; collective."""
        image = self.mass_times(values)
        squared = self.comm.allreduce(float(np.dot(image.array_r, values)))
        image.destroy()
        return math.sqrt(max(squared, 0.0))

    def _equilibrate(self) -> None:
        right, solution = self._saddle.matrix.createVecLeft(), self._saddle.matrix.createVecRight()
        right.array[:] = _assembled(self._right, len(right.array_r))
        self._saddle.solve(right, solution, "the flux problem")
        _put(self.flux, solution)
        for vector in (right, solution):
            vector.destroy()

    def _indicators(self, algebraic: float, unseen: float) -> Residual:
        parts = self._cell_parts()
        h = self.domain.diameters
        means = h**2 * parts[:, 2] ** 2 / volumes(self.domain.corners)
        totals = self.comm.allreduce(np.array([means.sum(), (h**2 * parts[:, 3] + parts[:, 6]).sum()]))
        if totals[0] > EQUILIBRATED**2 * totals[1]:
            raise NotCovered(f"the flux is not equilibrated: cell means of its divergence are off by {math.sqrt(totals[0]):.1e}")
        indicators = np.sqrt(np.maximum(parts[:, 0], 0)) + h / math.pi * np.sqrt(np.maximum(parts[:, 1], 0))
        dual = math.sqrt(self.comm.allreduce(float((indicators**2).sum())))
        constants = self.domain.interpolation
        weighted = None if constants is None else math.sqrt(self.comm.allreduce(float(((constants * indicators) ** 2).sum())))
        return Residual(indicators, dual, weighted, algebraic, unseen)

    def _cell_parts(self) -> np.ndarray:
        mine = len(self.domain.corners)
        return _assembled(self._parts, 7 * mine).reshape(mine, 7)

    def size_of(self, function: Any) -> tuple[float, float]:
        """‖w‖ and ‖∇w‖ of a function of the space; collective."""
        self.first.x.array[:] = function.x.array
        squares = self.comm.allreduce(self._cell_parts()[:, 4:6].sum(axis=0))
        return math.sqrt(squares[0]), math.sqrt(squares[1])

    def distance(self, function: Any, value: sp.Expr) -> float:
        """‖s − w‖ of an expression s and a function w of the space, what quadrature does not see of s included; collective."""
        zero = np.zeros(self.domain.dim)
        self._constants[0].set(Operator(0.0, zero, np.zeros((len(zero), len(zero))), 1.0, sp.S.Zero))
        self._constants[1].set(None)
        self.first.x.array[:], self.algebraic.x.array[:] = function.x.array, 0.0
        unseen = self._set_source(value, 0.0)
        return math.sqrt(self.comm.allreduce(float(self._cell_parts()[:, 3].sum()))) + unseen

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        for solver in (self._mass, self._saddle):
            matrix = solver.matrix
            solver.destroy()
            matrix.destroy()


class _Constants:
    """The coefficients of an operator as constants of the forms, so that another operator compiles nothing."""

    def __init__(self, mesh: Any):
        dim = mesh.topology.dim
        self.mesh = mesh
        self.diffusion, self.reaction = (fem.Constant(mesh, PETSc.ScalarType(0)) for _ in range(2))
        self.shift = fem.Constant(mesh, np.zeros(dim, dtype=PETSc.ScalarType))
        self.slope = fem.Constant(mesh, np.zeros((dim, dim), dtype=PETSc.ScalarType))

    def of(self, function: Any) -> tuple[Any, Any]:
        """a ∇f and b·∇f + c f."""
        gradient = ufl.grad(function)
        advection = self.shift + ufl.dot(self.slope, ufl.SpatialCoordinate(self.mesh))
        return self.diffusion * gradient, ufl.dot(advection, gradient) + self.reaction * function

    def set(self, operator: Operator | None) -> None:
        """Take the coefficients of an operator, or zeros."""
        for name in ("diffusion", "shift", "slope", "reaction"):
            getattr(self, name).value[...] = 0.0 if operator is None else getattr(operator, name)


def at_quadrature_points(expr: sp.Expr, corners: np.ndarray, degree: int, when: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Values of an expression at the points of a rule in each cell, and the weights relative to the volume."""
    dim = corners.shape[2]
    kind = {2: basix.CellType.triangle, 3: basix.CellType.tetrahedron}[dim]
    points, weights = basix.make_quadrature(kind, degree)
    places = corners[:, None, 0] + np.einsum("qi,cij->cqj", points, corners[:, 1:] - corners[:, :1])
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(_callable(expr, dim)(*np.moveaxis(places, -1, 0), when), dtype=float), places.shape[:2])
    return values, weights / weights.sum()


@lru_cache(maxsize=64)
def _callable(expr: sp.Expr, dim: int) -> Callable[..., Any]:
    return sp.lambdify((*SPACE[:dim], t), expr, "numpy")


def _assembled(compiled: Any, owned: int) -> np.ndarray:
    from dolfinx import la

    vector = fem.assemble_vector(compiled)
    vector.scatter_reverse(la.InsertMode.add)
    return vector.array[:owned]


def _put(function: Any, vector: Any) -> None:
    function.x.array[: vector.getLocalSize()] = vector.array_r
    function.x.scatter_forward()
