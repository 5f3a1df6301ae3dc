# SPDX-License-Identifier: MIT
"""Equilibrated fluxes for −div(A ∇u) + b·∇u + c u = s with natural boundary conditions.

The residual of a state w is R(φ) = (s − b·∇w − c w, φ) − (A ∇w, ∇φ) + ⟨g − κ w, φ⟩ for functions φ
that vanish where values are given. With p_h, G and γ_F the projections of A ∇w, s − b·∇w − c w − r
and g − κ w onto polynomials of degree k on cells and facets, r ∈ V_h as in `flux`, and a flux q
with div q = G and q·n = −γ_F,

    R(φ) − (r, φ) = −(q + p_h, ∇φ) + oscillations of all three, ≤ Σ_K t_K ‖A^{1/2} ∇φ‖_K,

t_K = ‖q + p_h‖_{A⁻¹} + ‖A ∇w − p_h‖_{A⁻¹} + (h_K/(π a_K^{1/2})) ‖…‖_K + Σ_F (C_F/a_K^{1/2}) ‖…‖_F,
where on a facet with opposite corner x_F the divergence of (x − x_F) φ² gives

    ‖φ − mean‖²_F ≤ C_F² ‖∇φ‖²_K, C_F² = |F|/(d |K|) (d h²/π² + 2 h²/π).

q is made around vertices, as in `flux`, and minimises ‖q + p_h‖ with the tensor of each cell for a
weight. What rules do not see of A, b, c, g and κ is bounded apart (`place_functions`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp
import ufl
from dolfinx import fem, la
from petsc4py import PETSc

from cffem._compat import assemble_matrix, exterior_facets, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.flux.cells import FluxCells
from cffem.bounds.flux.equilibrated import MASS_OPTIONS
from cffem.bounds.flux.line_problems import LineProblems
from cffem.bounds.flux.patches import Multipliers
from cffem.bounds.geometry.reference_cell import (
    CELLS,
    FACETS,
    Stack,
    _fluxes,
    facet_members,
    lagrange,
    orthonormal,
    reference,
)
from cffem.bounds.variable.natural_walls import WallPart
from cffem.bounds.variable.place_functions import ORDER, PlaceFunctions
from cffem.bounds.variable.variable_operator import VariableOperator
from cffem.engine.solve.linear import LinearSolver
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from cffem.bounds.variable.variable_domain import CellTensors

# Above this share of the fluxes their jumps and the errors of their divergence are no rounding
# errors.
EQUILIBRATED = 1e-9


@dataclass(frozen=True)
class VariableState:
    """What was measured of a state, or of a difference of states; what is linear in the state is
    kept as it is, bounds of what is not seen add up.

    Attributes:
        misfit: q + p_h by the unknowns of RT_{k+1}, shape (unknowns, cells).
        uneven: A ∇w − p_h at the points of cells, shape (cells, points, dim).
        transported: b·∇w + c w less its projection, shape (cells, points).
        walls: g − κ w less its projection, shape (facets, points).
        functional, represented: R on the nodal functions, and r.
        source: s.
        unseen: bounds on each cell of what the rule misses of A ∇w and of b·∇w + c w, shape (2,
            cells).
        unseen_walls: the same of g − κ w on the facets.
        when: the time of s.
    """

    misfit: np.ndarray
    uneven: np.ndarray
    transported: np.ndarray
    walls: np.ndarray
    functional: np.ndarray
    represented: np.ndarray
    source: sp.Expr
    unseen: np.ndarray
    unseen_walls: np.ndarray
    when: float = 0.0

    def __sub__(self, other: VariableState) -> VariableState:
        return VariableState(
            self.misfit - other.misfit,
            self.uneven - other.uneven,
            self.transported - other.transported,
            self.walls - other.walls,
            self.functional - other.functional,
            self.represented - other.represented,
            self.source - other.source,
            self.unseen + other.unseen,
            self.unseen_walls + other.unseen_walls,
            self.when,
        )


@dataclass(frozen=True)
class VariableResidual:
    """A measured residual.

    Attributes:
        dual: (Σ t_K²)^{1/2}.
        rest: what acts on φ itself: ‖r‖ and what is not seen.
        slope: what is not seen and acts on A^{1/2} ∇φ.
        algebraic: ‖r‖.
    """

    dual: float
    rest: float
    slope: float
    algebraic: float


@lru_cache(maxsize=8)
def _tables(dim: int, degree: int) -> dict[str, Any]:
    """Values on the reference cell at the points of the rules."""
    points, weights = basix.make_quadrature(CELLS[dim], 2 * (degree + ORDER))
    fluxes = _fluxes(dim, degree, points)[0]
    polynomials = orthonormal(CELLS[dim], degree, points)
    flat = np.moveaxis(fluxes, 1, 2).reshape(-1, fluxes.shape[1])
    targets = np.einsum("lm,jq->qlmj", np.eye(dim), polynomials).reshape(len(flat), -1)
    raised = np.linalg.lstsq(flat, targets, rcond=None)[0]
    state = np.asarray(lagrange(dim, degree).tabulate(1, points))[..., 0]
    corners = reference(dim, degree).corners
    hats = np.column_stack([1 - points.sum(axis=1), points])
    # ∫ ψ ω_j q̂_n for the fluxes of each corner.
    pulled = [
        np.einsum("q,q,jq,qrn->nrj", weights, hats[:, i], polynomials, fluxes[:, corners[i].free])
        for i in range(dim + 1)
    ]
    pulled = [
        np.stack([corners[i].null.T @ part[n] for n in range(dim)]) for i, part in enumerate(pulled)
    ]
    rule, shares = (
        (np.zeros((1, 0)), np.ones(1))
        if dim == 1
        else basix.make_quadrature(FACETS[dim], 2 * (degree + ORDER))
    )
    vertices, topology = basix.geometry(CELLS[dim]), facet_members(dim)
    inner = np.column_stack([1 - rule.sum(axis=1), rule])
    sides = []
    for members in topology:
        on_cell = np.zeros((len(rule), dim + 1))
        on_cell[:, members] = inner
        values = lagrange(dim, degree).tabulate(0, on_cell @ vertices)[0][..., 0]
        sides.append((list(members), on_cell, values))
    return {
        "points": points,
        "weights": weights,
        "barycentric": hats,
        "polynomials": polynomials,
        "values": state[0],
        "slopes": state[1:],
        "raised": raised.reshape(-1, dim, len(polynomials)),
        "pulled": pulled,
        "shares": shares,
        "tests": orthonormal(FACETS[dim], degree, rule),
        "inner": inner,
        "sides": sides,
    }


class VariableFlux:
    """Measures residuals of states in one Lagrange space.

    Args:
        space: the DOLFINx space V.
        tensors: A as it is on the cells, which weighs the fluxes.
        natural: the parts of natural facets by their local numbers.
        known: fields that are constant on cells, by their values there.

    Attributes:
        size, solves: the number of unknowns of the flux problems, and how many were solved.
        walls: the parts of the boundary with natural conditions, on all ranks.
        shared: constants that operators have in common.
    """

    def __init__(
        self,
        space: fem.FunctionSpace,
        tensors: CellTensors,
        natural: Mapping[int, WallPart],
        known: Mapping[Known, np.ndarray] | None = None,
    ):
        self.known = dict(known or {})
        mesh, element = space.mesh, space.element.basix_element
        self.space, self.mesh, self.comm, self.dim = space, mesh, mesh.comm, mesh.topology.dim
        self.degree = element.degree
        if not np.allclose(element.points, lagrange(self.dim, self.degree).points):
            raise NotCovered("the nodes of the element are not the default ones")
        self.reference, self.tables = (
            reference(self.dim, self.degree),
            _tables(self.dim, self.degree),
        )
        self.cells = FluxCells(space, self.reference)
        self.cells.gamma = self.metric(tensors)
        self.blocks = list(self.cells.blocks())
        self.sources = Sources(self.comm, self.cells.corners, self.degree)
        self.places = PlaceFunctions(self.cells.corners, self.tables["barycentric"], self.known)
        self.owned = space.dofmap.index_map.size_local
        held = np.setdiff1d(exterior_facets(mesh), np.fromiter(natural, dtype=np.int32))
        self.boundary = fem.locate_dofs_topological(space, self.dim - 1, held.astype(np.int32))
        self._assembly = la.vector(space.dofmap.index_map, 1)
        self._lay_walls(natural)
        self._stack = Stack(self.reference)
        self._problems = (
            LineProblems(mesh, self.cells, self._stack, self._fixed)
            if self.dim == 1
            else Multipliers(self.comm, self.cells, self.blocks, self._stack, self._fixed)
        )
        self.walls = self._all_walls(natural)
        self.shared: dict[tuple[object, ...], float] = {}
        self.size = self.comm.allreduce(len(self.cells.corners)) * self.reference.mass.shape[1]
        self.solves = 0
        test, trial = ufl.TestFunction(space), ufl.TrialFunction(space)
        zero = [fem.dirichletbc(PETSc.ScalarType(0), self.boundary, space)]
        self._mass = LinearSolver(
            assemble_matrix(form(trial * test * ufl.dx, self.comm), zero), MASS_OPTIONS
        )

    def _all_walls(self, natural: Mapping[int, WallPart]) -> tuple[WallPart, ...]:
        """The parts of all ranks, in one order; collective."""
        mine = {(str(part.value), str(part.coefficient)): part for part in natural.values()}
        every = {key: part for found in self.comm.allgather(mine) for key, part in found.items()}
        return tuple(every[key] for key in sorted(every))

    def metric(self, tensors: CellTensors) -> np.ndarray:
        """γ with A⁻¹ for a weight: Jᵀ A⁻¹ J/|det J|."""
        jacobian = self.cells.jacobian
        found = np.swapaxes(jacobian, 1, 2) @ np.linalg.inv(tensors.middle) @ jacobian
        return np.ascontiguousarray(np.moveaxis(found, 0, -1) / self.cells.volume)

    def _lay_walls(self, natural: Mapping[int, WallPart]) -> None:
        """Natural facets: their cells, which facet of it they are, and their geometry."""
        local = self.mesh.topology.index_map(self.dim - 1)
        numbers = local.local_to_global(np.fromiter(natural, dtype=np.int32))
        by_number = dict(zip(numbers.tolist(), natural.values(), strict=True))
        self._fixed = np.isin(self.cells.facets, numbers)
        self.where, self.side = np.nonzero(self._fixed)
        self.parts = [by_number[int(f)] for f in self.cells.facets[self.where, self.side]]
        members = np.array([side[0] for side in self.tables["sides"]])
        corners = np.take_along_axis(
            self.cells.corners[self.where], members[self.side][:, :, None], axis=1
        )
        self.wall_places = PlaceFunctions(
            corners,
            self.tables["inner"],
            {field: values[self.where] for field, values in self.known.items()},
        )
        opposite = self.cells.corners[self.where, self.side]
        self.wall_normals, self.wall_areas, heights = _facet_geometry(corners, opposite)
        volumes = self.cells.volume[self.where] / math.factorial(self.dim)
        # |F|/(d |K|) is one over the height of the cell above the facet.
        assert np.allclose(self.wall_areas * heights, self.dim * volumes)
        self.wall_heights = heights

    # Functions of the space -----------------------------------------------------------------------

    def _assembled(self, local: np.ndarray) -> np.ndarray:
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

    def represented(self, functional: np.ndarray) -> np.ndarray:
        """The owned values of the function in V_h with these products; collective."""
        right, solution = self._mass.matrix.createVecLeft(), self._mass.matrix.createVecRight()
        right.array[:] = functional
        if self.comm.allreduce(float(functional @ functional)):
            self._mass.solve(right, solution, "the mass system of a residual")
        values = solution.array_r.copy()
        for vector in (right, solution):
            vector.destroy()
        return values

    def at_points(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w, shape (cells, points), and ∇w, shape (cells, points, dim)."""
        nodal = self.with_ghosts(state)[self.cells.nodes]
        values = (self.tables["values"] @ nodal).T
        inner = np.stack([(slope @ nodal).T for slope in self.tables["slopes"]], axis=2)
        return values, inner @ self.cells.inverse

    def sizes(self, state: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
        """‖w‖ and (Σ_K weight_K ‖∇w‖²_K)^{1/2}; collective."""
        values, slopes = self.at_points(state)
        squares = [
            self._squares(values).sum(),
            weights @ self._squares(np.linalg.norm(slopes, axis=2)),
        ]
        value, gradient = self.comm.allreduce(np.array(squares))
        return math.sqrt(value), math.sqrt(gradient)

    def _squares(self, values: np.ndarray) -> np.ndarray:
        """∫_K v² of values at the points."""
        return self.cells.volume * (values**2 @ self.tables["weights"])

    # Fluxes ---------------------------------------------------------------------------------------

    def state(
        self, operator: VariableOperator, state: np.ndarray, source: sp.Expr
    ) -> VariableState:
        """Measure a state; collective.

        Raises:
            NotCovered: data cannot be enclosed, or the flux is not equilibrated.
        """
        tables, cells = self.tables, self.cells
        values, slopes = self.at_points(state)
        sizes = [np.sqrt(self._squares(v)) for v in (values, np.linalg.norm(slopes, axis=2))]
        flow, missed = self._diffusive(operator, slopes, sizes[1])
        # |det J| J⁻¹ p in orthonormal polynomials, and back.
        pulled = cells.volume[:, None, None] * np.einsum("cmi,cqi->cqm", cells.inverse, flow)
        weighed = tables["weights"] * tables["polynomials"]
        carried = np.einsum("jq,cqm->mjc", weighed, pulled)
        back = np.einsum("jq,mjc->cqm", tables["polynomials"], carried)
        back = np.einsum("cim,cqm->cqi", cells.jacobian, back) / cells.volume[:, None, None]
        moved, moved_missed = self._transported(operator, values, slopes, sizes)
        density = weighed @ moved.T
        rest = moved - (tables["polynomials"].T @ density).T
        density = self.sources.at(source).moments - density
        flowing, wall_rest, wall_missed, wall_load = self._walls(operator, state)
        functional = self._functional(density, carried, wall_load)
        represented = self.represented(functional)
        minus = self.reference.values @ self.with_ghosts(represented)[cells.nodes]
        misfit = self._equilibrated(density - minus, carried, flowing)
        self.solves += 1
        return VariableState(
            misfit,
            flow - back,
            rest,
            wall_rest,
            functional,
            represented,
            source,
            np.stack([missed, moved_missed]),
            wall_missed,
        )

    def _diffusive(
        self, operator: VariableOperator, slopes: np.ndarray, size: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """A ∇w at the points, and a bound of what the rule does not see of it on each cell."""
        flow, squares = np.zeros(slopes.shape), np.zeros(len(slopes))
        for i, row in enumerate(operator.tensor):
            for j, entry in enumerate(row):
                if entry != 0:
                    flow[:, :, i] += self.places.values(entry) * slopes[:, :, j]
                    squares += self.places.radius(entry) ** 2
        return flow, np.sqrt(squares) * size

    def _transported(
        self,
        operator: VariableOperator,
        values: np.ndarray,
        slopes: np.ndarray,
        sizes: list[np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:
        """b·∇w + c w at the points, and a bound of what the rule does not see of it."""
        moved = self.places.values(operator.reaction) * values
        squares, missed = np.zeros(len(values)), self.places.radius(operator.reaction) * sizes[0]
        for axis, entry in enumerate(operator.advection):
            if entry != 0:
                moved = moved + self.places.values(entry) * slopes[:, :, axis]
                squares += self.places.radius(entry) ** 2
        return moved, missed + np.sqrt(squares) * sizes[1]

    def _walls(
        self, operator: VariableOperator, state: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Given normal moments around all corners, g − κ w less its projection and what is not seen
        of it on natural facets, and ⟨g − κ w, φ_v⟩ on the cells.
        """
        tables, rows = self.tables, self._rows
        corners, count = self.dim + 1, len(self.cells.corners)
        flowing = np.zeros((rows * self.dim, corners, count))
        load = np.zeros(self.cells.nodes.shape)
        # Ranks without such facets take part as well.
        everywhere = self.with_ghosts(state)
        if not len(self.where):
            return flowing, np.zeros((0, len(tables["shares"]))), np.zeros(0), load
        nodal = everywhere[self.cells.nodes][:, self.where].T
        traces = np.stack([side[2] for side in tables["sides"]])[self.side]
        values = np.einsum("fqv,fv->fq", traces, nodal)
        given, missed = np.zeros(values.shape), np.zeros(len(values))
        size = np.sqrt(self.wall_areas * (values**2 @ (tables["shares"] / tables["shares"].sum())))
        for part in dict.fromkeys(self.parts):
            mine = np.array([p is part for p in self.parts])
            g, kappa = self._wall_data(part, operator)
            given[mine] = (self.wall_places.values(g) - self.wall_places.values(kappa) * values)[
                mine
            ]
            both = self.wall_places.radius(g) * np.sqrt(self.wall_areas)
            missed[mine] = (both + self.wall_places.radius(kappa) * size)[mine]
        weighed = (tables["shares"] / tables["shares"].sum()) * self.wall_areas[:, None]
        np.add.at(load.T, self.where, np.einsum("fq,fqv->fv", weighed * given, traces))
        coefficients = np.einsum("jq,fq->fj", tables["shares"] * tables["tests"], given)
        rest = given - coefficients @ tables["tests"]
        self._prescribe(flowing, weighed * given)
        return flowing, rest, missed, load

    def _wall_data(self, part: WallPart, operator: VariableOperator) -> tuple[sp.Expr, sp.Expr]:
        """g and κ on a part of the boundary."""
        return part.flux(operator)

    @property
    def _rows(self) -> int:
        return self.reference.moments

    def _prescribe(self, flowing: np.ndarray, weighed: np.ndarray) -> None:
        """−∫_F ψ_a γ τ_j for the corners a of natural facets."""
        tables, rows = self.tables, self._rows
        for side, (members, on_cell, _) in enumerate(tables["sides"]):
            here = np.flatnonzero(self.side == side)
            for corner in members:
                moments = (weighed[here] * on_cell[:, corner]) @ tables["tests"].T
                place = self.reference.corners[corner].facets.index(side)
                flowing[place * rows : (place + 1) * rows, corner, self.where[here]] = -moments.T

    def _functional(
        self, density: np.ndarray, carried: np.ndarray, walls: np.ndarray
    ) -> np.ndarray:
        tensors = self.reference
        local = self.cells.volume * (tensors.values.T @ density) + walls
        for gradient, flow in zip(tensors.gradient, carried, strict=True):
            local -= gradient.T @ flow
        return self._assembled(local)

    def _equilibrated(
        self, density: np.ndarray, carried: np.ndarray, flowing: np.ndarray
    ) -> np.ndarray:
        """q + p_h by the unknowns of RT_{k+1}; collective."""
        tensors, stack, tables = self.reference, self._stack, self.tables
        count = density.shape[1]
        scaled = density * self.cells.volume
        around = (stack.hat @ scaled).reshape(len(stack.slope), -1, count)
        for n, flow in enumerate(carried):
            around -= stack.slope[..., n] * flow
        lowered = np.einsum("mnc,njc->mjc", self.cells.gamma, carried)
        force = np.stack(
            [-sum(part[m] @ lowered[m] for m in range(self.dim)) for part in tables["pulled"]]
        )
        for block in self.blocks:
            here = block.here
            for metric, coupled in zip(block.gammas, stack.coupled, strict=True):
                force[:, :, here] -= metric * (coupled @ around[:, :, here])
        divergence, pull = (
            np.ascontiguousarray(part.transpose(1, 0, 2)) for part in (around, force)
        )
        free, jumps, flowed = self._problems.solve(divergence, pull, flowing)
        total = stack.spread[0] @ divergence.reshape(-1, count)
        total += stack.spread[1] @ free.reshape(-1, count)
        wrong = float(((tensors.divergence @ total - scaled) ** 2).sum())
        sums = [wrong + jumps, float((scaled**2).sum()) + flowed + float((flowing**2).sum())]
        bad, size = self.comm.allreduce(np.array(sums))
        if bad > EQUILIBRATED**2 * size:
            raise NotCovered(
                f"the flux is not equilibrated: its divergence is off by {math.sqrt(bad):.1e}"
            )
        for m in range(self.dim):
            total += tables["raised"][:, m] @ carried[m]
        return total

    # Norms ----------------------------------------------------------------------------------------

    def residual(self, found: VariableState, tensors: CellTensors) -> VariableResidual:
        """Measure a residual in the energy of an operator; collective."""
        gamma, pairs = self.metric(tensors), self.reference.pairs
        squares = np.zeros(len(self.cells.corners))
        for (m, n), mass in zip(pairs, self.reference.mass, strict=True):
            squares += gamma[m, n] * np.einsum("ic,ic->c", found.misfit, mass @ found.misfit)
        inverse = np.linalg.inv(tensors.middle)
        uneven = ((found.uneven @ inverse) * found.uneven).sum(axis=2)
        first = np.sqrt(np.maximum(squares, 0.0))
        first += np.sqrt(self.cells.volume * np.maximum(uneven @ self.tables["weights"], 0.0))
        smallest = np.sqrt(tensors.smallest)
        sampled = self.sources.at(found.source, found.when)
        osc = sampled.oscillation + np.sqrt(self._squares(found.transported))
        osc += 2 * found.unseen[1]
        indicators = first / np.sqrt(tensors.ratio) + 2 * found.unseen[0] / smallest
        indicators += tensors.diameters / math.pi * osc / smallest
        rest, slope = found.unseen[1].copy() * 2, 2 * found.unseen[0] / smallest
        self._measure_walls(found, tensors, smallest, indicators, rest, slope)
        algebraic = self._algebraic(found)
        sums = self.comm.allreduce(np.array([(v**2).sum() for v in (indicators, rest, slope)]))
        dual, unseen, steep = np.sqrt(sums)
        size = math.sqrt(max(algebraic, 0.0))
        return VariableResidual(
            float(dual), size + sampled.unseen + float(unseen), float(steep), size
        )

    def _algebraic(self, found: VariableState) -> float:
        """‖r‖²; collective."""
        return self.comm.allreduce(float(found.functional @ found.represented))

    def _measure_walls(
        self,
        found: VariableState,
        tensors: CellTensors,
        smallest: np.ndarray,
        indicators: np.ndarray,
        rest: np.ndarray,
        slope: np.ndarray,
    ) -> None:
        if not len(self.where):
            return
        shares = self.tables["shares"] / self.tables["shares"].sum()
        size = np.sqrt(self.wall_areas * (found.walls**2 @ shares)) + 2 * found.unseen_walls
        long, d = tensors.diameters[self.where], self.dim
        constant = np.sqrt((d / math.pi**2 + 2 / math.pi) * long**2 / self.wall_heights)
        missed = 2 * found.unseen_walls / np.sqrt(self.wall_heights)
        # ‖φ‖²_F ≤ |F|/(d |K|) ((d + 1) ‖φ‖² + h² ‖∇φ‖²).
        np.add.at(indicators, self.where, constant * size / smallest[self.where])
        np.add.at(rest, self.where, math.sqrt(d + 1) * missed)
        np.add.at(slope, self.where, long * missed / smallest[self.where])

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        matrix = self._mass.matrix
        self._mass.destroy()
        matrix.destroy()


def _facet_geometry(
    corners: np.ndarray, opposite: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outward unit normals and areas of facets, and the heights of the opposite corners."""
    dim = corners.shape[2]
    if not len(corners):
        return np.zeros((0, dim)), np.zeros(0), np.zeros(0)
    spanned = corners[:, 1:] - corners[:, :1]
    if dim == 1:
        normal = np.ones((len(corners), 1))
    elif dim == 2:
        normal = np.column_stack([spanned[:, 0, 1], -spanned[:, 0, 0]])
    else:
        normal = np.cross(spanned[:, 0], spanned[:, 1])
    length = np.linalg.norm(normal, axis=1)
    away = np.einsum("fi,fi->f", normal, corners[:, 0] - opposite) / length
    area = length / math.factorial(dim - 1)
    return normal * (np.sign(away) / length)[:, None], area, np.abs(away)
