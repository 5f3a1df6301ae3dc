# SPDX-License-Identifier: MIT
"""The residual of a flow, measured by an equilibrated stress.

For a velocity w and a pressure p of a discrete solution, and φ = 0 on the boundary,

    R(φ) = (s − (b·∇) w − C w, φ) − (ν ∇w + (γ div w − p) I, ∇φ).

Row by row that is the residual of a scalar problem with a polynomial flux, for which a row of the
stress is made around vertices as in `variable_flux`. With the sum M of both, the trace of which
acts on div φ alone, and r ∈ V_h,

    R(φ) − (r, φ) ≤ Σ_K t_K ‖∇φ‖_K + ‖tr M/2‖ ‖div φ‖,  t_K = ‖dev M‖_K + (h_K/π) ‖…‖_K,

the last part being what is left of the source and of what is moved when polynomials are taken away.

What div w lacks of being orthogonal to continuous P1 functions is δ: with d_a = (div w, λ_a) the
polynomials Σ_a (d_a/|ω_a|) 3 (4 λ_a − 1) on the cells have the same products, ω_a the cells
around a, and ‖δ‖² ≤ 12 Σ_a d_a²/|ω_a|.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem.bounds.flow.stokes_equation import StokesOperator
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.geometry.reference_cell import _fluxes
from cffem.bounds.variable.variable_domain import CellTensors
from cffem.bounds.variable.variable_flux import VariableFlux, VariableState

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.fields import Field


@dataclass(frozen=True)
class FlowState:
    """What was measured of a flow, or of a difference of flows; all of it is linear in the flow.

    Attributes:
        rows: of each component.
        divergence: div w at the points of the cells, shape (cells, points).
        tested: (div w, λ_a) of all vertices of the mesh.
    """

    rows: tuple[VariableState, ...]
    divergence: np.ndarray
    tested: np.ndarray

    def __sub__(self, other: FlowState) -> FlowState:
        return FlowState(
            tuple(a - b for a, b in zip(self.rows, other.rows, strict=True)),
            self.divergence - other.divergence,
            self.tested - other.tested,
        )


@dataclass(frozen=True)
class FlowResidual:
    """A measured residual.

    Attributes:
        dual: (Σ t_K²)^{1/2}.
        trace: ‖tr M/2‖.
        rest: what acts on φ itself: ‖r‖ and what is not seen of s.
        algebraic: ‖r‖.
        divergence: ‖div w‖.
        defect: ‖δ‖.
    """

    dual: float
    trace: float
    rest: float
    algebraic: float
    divergence: float
    defect: float


class FlowFlux(VariableFlux):
    """Measures flows of one model.

    Args:
        model: the model, whose velocity is on a Lagrange element.
        domain: its mesh.
        unknown, pressure: its fields.
    """

    def __init__(self, model: Model, domain: Domain, unknown: Field, pressure: Field):
        self.spaces, self.unknown, self.pressure = model.spaces, unknown, pressure
        own, _ = model.spaces.own(unknown)
        scalar = own.ufl_element().sub_elements[0]
        space = fem.functionspace(domain.mesh, scalar)
        count, dim = len(domain.corners), domain.dim
        ones = np.ones(count)
        identity = np.broadcast_to(np.eye(dim), (count, dim, dim))
        self.tensors = CellTensors(identity, ones, 0 * ones, ones, domain.diameters)
        super().__init__(space, self.tensors, {})
        # Both list the unknowns of a cell in the order of the reference cell.
        nodes = np.zeros(int(space.dofmap.list.max(initial=-1)) + 1, dtype=np.int64)
        nodes[space.dofmap.list] = own.dofmap.list
        places = model.spaces.dofs(unknown)
        self.positions = [places[nodes * dim + axis] for axis in range(dim)]
        self._interpolated = fem.Function(space)
        self._raised = _fluxes(dim, self.degree, self.tables["points"])[0]
        vertices = domain.mesh.topology.index_map(0).size_global
        patches = self._at_vertices(np.ones((count, len(self.tables["weights"]))), vertices)
        # (1, λ_a) is a third of |ω_a|.
        self.patches = (dim + 1) * patches

    def components(self, state: np.ndarray) -> list[np.ndarray]:
        """Owned values of the components of the velocity; collective."""
        every = self.spaces.with_ghosts(state)
        return [every[where][: self.owned] for where in self.positions]

    def _pressed(self, state: np.ndarray) -> np.ndarray:
        """The pressure at the points; collective."""
        self._interpolated.interpolate(self.spaces.function(self.pressure, state))
        return self.at_points(self._interpolated.x.array[: self.owned])[0]

    def _at_vertices(self, values: np.ndarray, count: int) -> np.ndarray:
        """(s, λ_a) of all vertices; collective."""
        weighed = self.cells.volume[:, None] * values * self.tables["weights"]
        local = weighed @ self.tables["barycentric"]
        total = np.bincount(self.cells.vertices.ravel(), local.ravel(), minlength=count)
        result: np.ndarray = self.comm.allreduce(total)
        return result

    def flow(
        self, operator: StokesOperator, state: np.ndarray, source: tuple[sp.Expr, ...]
    ) -> FlowState:
        """Measure a state; collective."""
        sampled = [self.at_points(part) for part in self.components(state)]
        values, slopes = (np.stack(part, axis=-1) for part in zip(*sampled, strict=True))
        # values: (cells, points, component), slopes: (cells, points, axis, component).
        divergence = np.einsum("cqii->cq", slopes)
        isotropic = operator.bulk * divergence - self._pressed(state)
        wind = self._wind(operator)
        rows = []
        for i, entry in enumerate(source):
            stress = operator.viscosity * slopes[..., i]
            stress[..., i] += isotropic
            moved = values @ operator.matrix[i]
            if wind is not None:
                moved = moved + np.einsum("cqj,cqj->cq", wind, slopes[..., i])
            rows.append(self._row(stress, moved, entry))
        return FlowState(tuple(rows), divergence, self._at_vertices(divergence, len(self.patches)))

    def _wind(self, operator: StokesOperator) -> np.ndarray | None:
        """b at the points, None where it vanishes."""
        if not operator.shift.any() and not operator.slope.any():
            return None
        places = np.stack(self.places.places, axis=-1)
        result: np.ndarray = operator.shift + places @ operator.slope.T
        return result

    def _row(self, stress: np.ndarray, moved: np.ndarray, source: sp.Expr) -> VariableState:
        """One component: its stress and what is moved, at the points, and its source."""
        tables, cells = self.tables, self.cells
        pulled = cells.volume[:, None, None] * np.einsum("cmi,cqi->cqm", cells.inverse, stress)
        weighed = tables["weights"] * tables["polynomials"]
        carried = np.einsum("jq,cqm->mjc", weighed, pulled)
        density = weighed @ moved.T
        rest = moved - (tables["polynomials"].T @ density).T
        density = self.sources.at(source).moments - density
        functional = self._functional(density, carried, np.zeros(cells.nodes.shape))
        represented = self.represented(functional)
        minus = self.reference.values @ self.with_ghosts(represented)[cells.nodes]
        corners, count = self.dim + 1, len(cells.corners)
        flowing = np.zeros((self._rows * self.dim, corners, count))
        misfit = self._equilibrated(density - minus, carried, flowing)
        self.solves += 1
        nothing = np.zeros((2, count))
        # The stress is a polynomial of the degree of the velocity, so that nothing is left of it.
        return VariableState(
            misfit,
            np.zeros_like(stress),
            rest,
            np.zeros((0, len(tables["shares"]))),
            functional,
            represented,
            source,
            nothing,
            np.zeros(0),
        )

    def measured(self, found: FlowState) -> FlowResidual:
        """Measure a residual; collective."""
        gamma = self.metric(self.tensors)
        count = len(self.cells.corners)
        squares, oscillations, trace = np.zeros(count), np.zeros(count), 0.0
        rest = algebraic = 0.0
        for axis, row in enumerate(found.rows):
            for (m, n), mass in zip(self.reference.pairs, self.reference.mass, strict=True):
                squares += gamma[m, n] * np.einsum("ic,ic->c", row.misfit, mass @ row.misfit)
            trace = trace + self._entry(row.misfit, axis)
            sampled = self.sources.at(row.source)
            left = sampled.oscillation + np.sqrt(self._squares(row.transported))
            oscillations += left**2
            size = math.sqrt(max(self._algebraic(row), 0.0))
            algebraic += size**2
            rest += (size + sampled.unseen) ** 2
        traces = self._squares(trace)
        steep = np.sqrt(np.maximum(squares - traces / 2, 0.0))
        indicators = steep + self.tensors.diameters / math.pi * np.sqrt(oscillations)
        sums = [(indicators**2).sum(), traces.sum() / 4, self._squares(found.divergence).sum()]
        dual, trace, divergence = np.sqrt(self.comm.allreduce(np.array(sums)))
        return FlowResidual(
            float(dual),
            float(trace),
            math.sqrt(rest),
            math.sqrt(algebraic),
            float(divergence),
            math.sqrt(12 * float((found.tested**2 / self.patches).sum())),
        )

    def _entry(self, misfit: np.ndarray, axis: int) -> np.ndarray:
        """A component of a function given by its unknowns of RT_{k+1}, at the points."""
        carried = np.einsum("qnm,nc->cqm", self._raised, misfit)
        result: np.ndarray = np.einsum("cm,cqm->cq", self.cells.jacobian[:, axis], carried)
        return result / self.cells.volume[:, None]

    def norms(self, state: np.ndarray) -> tuple[float, float]:
        """‖w‖ and ‖∇w‖; collective."""
        ones = np.ones(len(self.cells.corners))
        found = [self.sizes(part, ones) for part in self.components(state)]
        return math.hypot(*(a for a, _ in found)), math.hypot(*(b for _, b in found))
