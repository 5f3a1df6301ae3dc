# SPDX-License-Identifier: MIT
"""Given boundary values that elements do not take on: any function of the place and of time.

Let u = g on a part Γ of the boundary, and U what was computed. A function G with the trace g − U on
Γ and zero on other parts where u is given carries the difference: u − U − G vanishes there, and
what G adds to a bound is measured by ‖G‖, ‖A^{1/2} ∇G‖ and ‖b·∇G + c G‖. Here G = χ (g − w), where
w ∈ V_h has the values of U at nodes on Γ and those of g at all others, and χ is P1 with one at the
vertices of Γ and zero at the others, so that G is of the size of an interpolation error on one
layer of cells.

In the plane Γ may meet a part with other values at a corner x_c, where both must agree. On the
triangle with corners x_c, x_p ∈ Γ and x_q there χ = λ_p/(λ_p + λ_q), which is one along Γ, zero on
the side towards the other part and λ_p on the third side, where it joins P1. With E = g − w, E(x_c)
= 0, L = max |∇E| and the longest side h at x_c, |E| ≤ L h (λ_p + λ_q), so that |G| ≤ L h and |∇G| ≤
L (1 + h max(|∇λ_p|, |∇λ_q|)).

In time U and w are linear on each step, and g is not: |g − I g| ≤ τ²/8 max |g_tt|, or its range
where it has no second derivative; the same for its gradient. All maxima are enclosures on cells and
steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
import sympy as sp
from dolfinx import fem, la

from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.steady_bounds import check_polynomial
from cffem.bounds.geometry.mesh_constants import edge_lengths
from cffem.bounds.geometry.reference_cell import CELLS, lagrange
from cffem.bounds.variable.place_functions import PlaceFunctions, off_line
from cffem.engine.inputs.numeric import numeric
from cffem.engine.mesh.boundary_parts import Boundary
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import Field
from cffem.symbols.known import Known
from cffem.symbols.problem.conditions import Dirichlet

if TYPE_CHECKING:
    from cffem.bounds.variable.variable_domain import CellTensors
    from cffem.bounds.variable.variable_flux import VariableFlux
    from cffem.bounds.variable.variable_operator import VariableOperator

# Values that meet at a corner agree up to this share of the data.
AGREE = 1e-9


@dataclass(frozen=True)
class GapSizes:
    """G on each step, or once for a steady problem.

    Attributes:
        plain, steep, acting: bounds of ‖G‖, ‖A^{1/2} ∇G‖ and ‖b·∇G + c G‖ in L2 of the steps.
        level: of ‖G‖ at the levels.
        moves: whether g depends on time.
    """

    plain: np.ndarray
    steep: np.ndarray
    acting: np.ndarray
    level: np.ndarray
    moves: bool = False

    @classmethod
    def nothing(cls, steps: int = 1) -> GapSizes:
        """Where elements take on all given values."""
        zero = np.zeros(steps)
        return cls(zero, zero, zero, np.zeros(steps + 1))


def smooth_conditions(model: Any, unknown: Field, degree: int, moving: bool) -> list[Dirichlet]:
    """The conditions whose values elements do not take on.

    Raises:
        NotCovered: they are of another kind.
    """
    found = []
    for condition in model.experiment.boundary:
        if not isinstance(condition, Dirichlet):
            continue
        try:
            check_polynomial(condition, degree)
        except NotCovered:
            value = condition.value
            allowed = {*SPACE, t} if moving else {*SPACE}
            if (
                not isinstance(value, int | float | sp.Expr)
                or sp.sympify(value).atoms(Known, Field, sp.Derivative, sp.DiracDelta)
                or sp.sympify(value).free_symbols - allowed
            ):
                raise
            found.append(condition)
    return found


class TraceGap:
    """Measures G for the solutions of one model.

    Args:
        model: the model.
        flux: its cells and natural facets.
        conditions: those whose values elements do not take on.

    Raises:
        NotCovered: G cannot be made.
    """

    def __init__(self, model: Any, flux: VariableFlux, conditions: Sequence[Dirichlet]):
        self.flux, self.dim, self.comm = flux, flux.dim, flux.comm
        values = {sp.sympify(condition.value) for condition in conditions}
        if len(values) > 1:
            raise NotCovered(
                "two different functions are given on the boundary that elements do not take on"
            )
        self.value = values.pop()
        self.moves = self.value.has(t)
        self._locate(model, conditions)
        self._layer()

    def _locate(self, model: Any, conditions: Sequence[Dirichlet]) -> None:
        """Facets, vertices and unknowns of Γ, and vertices of other parts with given values."""
        mesh, space, dim = self.flux.mesh, self.flux.space, self.dim
        boundary = Boundary(model.discretisation.domain, model.experiment.boundary)
        mesh.topology.create_connectivity(dim - 1, 0)
        touching, none = mesh.topology.connectivity(dim - 1, 0), np.zeros(0, dtype=np.int32)
        facets = [[none], [none]]
        for part, found in boundary.conditions.items():
            if {type(c) for c in found} == {Dirichlet}:
                other = int(not any(c in conditions for c in found))
                facets[other].append(boundary.facets[part].astype(np.int32))
        ours, theirs = (np.unique(np.concatenate(some)) for some in facets)

        def everywhere(entities: np.ndarray, dimension: int) -> np.ndarray:
            numbers = mesh.topology.index_map(dimension).local_to_global(entities)
            return np.unique(np.concatenate(self.comm.allgather(numbers)))

        self._facets = everywhere(ours, dim - 1)
        self._on, self._other = (
            everywhere(np.concatenate([none, *(touching.links(f) for f in some)]), 0)
            for some in (ours, theirs)
        )
        flags = la.vector(space.dofmap.index_map, 1)
        flags.array[:] = 0.0
        flags.array[fem.locate_dofs_topological(space, dim - 1, ours)] = 1.0
        flags.scatter_reverse(la.InsertMode.add)
        flags.scatter_forward()
        self._given = flags.array > 0
        self._nodes = space.tabulate_dof_coordinates()[: len(self._given), :dim]

    def _layer(self) -> None:
        """The cells around Γ with χ and its gradient."""
        cells, dim, tables = self.flux.cells, self.dim, self.flux.tables
        self._corners = np.intersect1d(self._on, self._other)
        if len(self._corners) and (dim != 2 or self.flux.degree > 2):
            raise NotCovered(
                "given values that elements do not take on meet others, in space or with elements "
                "of degree three or more"
            )
        inner = np.isin(cells.vertices, np.setdiff1d(self._on, self._corners))
        meets = np.isin(cells.vertices, self._corners)
        ours = np.isin(cells.facets, self._facets)
        odd, wrong = np.zeros(len(inner), dtype=bool), np.zeros(len(inner), dtype=bool)
        for i in range(dim + 1):
            others = [k for k in range(dim + 1) if k != i]
            odd |= ours[:, i] & meets[:, others].any(axis=1)
            wrong |= ours[:, i] & ~inner[:, others].any(axis=1)
        # A cell with a side of Γ that ends in a corner has one vertex there, one on Γ alone and
        # one more.
        wrong |= odd & ((inner.sum(axis=1) != 1) | (meets.sum(axis=1) != 1))
        if self.comm.allreduce(int(wrong.any())):
            raise NotCovered("a cell is too large for the given values at its corners")
        self._check_corners()
        here = self.active = np.flatnonzero(inner.any(axis=1))
        inner, meets, self._odd = inner[here], meets[here], odd[here]
        slopes = np.concatenate(
            [-cells.inverse[here].sum(axis=1, keepdims=True), cells.inverse[here]], axis=1
        )
        self._hat = inner @ tables["barycentric"].T
        self._hat_slope = np.einsum("ci,cid->cd", inner.astype(float), slopes)
        self._steep = np.linalg.norm(self._hat_slope, axis=1)
        lengths = np.where(meets, 0.0, np.linalg.norm(slopes, axis=2))
        self._corner_steep = np.max(lengths, axis=1, initial=0.0)
        self.places = PlaceFunctions(cells.corners[here], tables["barycentric"])
        self.volume = cells.volume[here] / math.factorial(dim)
        self.long = edge_lengths(cells.corners[here]).max(axis=1, initial=0.0)

    def _check_corners(self) -> None:
        """Where Γ meets other parts given values must not move."""
        if not len(self._corners) or not self.moves:
            return
        cells, rate = self.flux.cells, self.value.diff(t)
        points = np.unique(cells.corners[np.isin(cells.vertices, self._corners)], axis=0)
        moves = any(
            sp.simplify(
                rate.subs(dict(zip(SPACE[: self.dim], map(sp.nsimplify, point), strict=True)))
            )
            != 0
            for point in points
        )
        if self.comm.allreduce(int(moves)):
            raise NotCovered("given values move where they meet others")

    # Sizes ----------------------------------------------------------------------------------------

    def _interpolant(self, state: np.ndarray, value: sp.Expr) -> np.ndarray:
        """w on the cells of the layer by its nodal values."""
        nodal = self.flux.with_ghosts(state)
        symbols = SPACE[: self.dim]
        given = np.broadcast_to(
            np.asarray(numeric(value, symbols)(*self._nodes.T), dtype=float), len(self._nodes)
        )
        found = np.where(self._given, nodal, given)[self.flux.cells.nodes[:, self.active]]
        if self.comm.allreduce(int(not np.isfinite(found).all())):
            raise NotCovered("given values are not finite next to the boundary")
        if len(self._corners):
            self._check_values(nodal, given)
        return found

    def _check_values(self, nodal: np.ndarray, given: np.ndarray) -> None:
        """At corners with other values the state must have the given ones; collective."""
        cells = self.flux.cells
        # The first nodes of an element are its vertices.
        nodes = cells.nodes[: self.dim + 1].T[np.isin(cells.vertices, self._corners)]
        size = float(np.max(np.abs(given[self._given]), initial=0.0))
        away = np.abs(nodal[nodes] - given[nodes])
        if self.comm.allreduce(int(np.any(away > AGREE * size))):
            raise NotCovered("given values do not agree where two parts of the boundary meet")

    def _level(self, state: np.ndarray, when: float | None) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of ‖G‖ and ‖∇G‖ on the cells of the layer."""
        value = self.value if when is None else self.value.xreplace({t: sp.Float(when)})
        tables, dim = self.flux.tables, self.dim
        nodal = self._interpolant(state, value)
        if not len(self.active):
            return np.zeros(0), np.zeros(0)
        inner = np.einsum("mqv,vc->cqm", tables["slopes"], nodal)
        steep = np.einsum("cqm,cmi->cqi", inner, self.flux.cells.inverse[self.active])
        gap = self.places.values(value) - (tables["values"] @ nodal).T
        radius = self.places.radius(value)
        weights = tables["weights"]
        root = np.sqrt(self.volume)
        scale = self.volume * math.factorial(dim)
        plain = np.sqrt(scale * ((self._hat * gap) ** 2 @ weights)) + 2 * radius * root
        total, unseen, largest = np.zeros(gap.shape), np.zeros(len(root)), np.zeros(len(root))
        for axis, symbol in enumerate(SPACE[:dim]):
            change = value.diff(symbol)
            apart = self.places.values(change) - steep[:, :, axis]
            part = self._hat * apart + gap * self._hat_slope[:, axis][:, None]
            total += part**2
            unseen += (
                self.places.radius(change) + np.abs(self._hat_slope[:, axis]) * radius
            ) ** 2
            if self._odd.any():
                largest += self._largest(change, nodal, axis) ** 2
        slope = np.sqrt(scale * (total @ weights)) + 2 * np.sqrt(unseen) * root
        largest = np.sqrt(largest)
        plain = np.where(self._odd, largest * self.long * root, plain)
        slope = np.where(
            self._odd, largest * (1 + self.long * self._corner_steep) * root, slope
        )
        return plain, slope

    def _largest(self, change: sp.Expr, nodal: np.ndarray, axis: int) -> np.ndarray:
        """max |∂(g − w)| on each cell by the ranges of both; ∂w of elements of degree one and two
        has its extreme values at vertices.
        """
        low, high = self.places.bounds(change)
        vertices = basix.geometry(CELLS[self.dim])
        slopes = lagrange(self.dim, self.flux.degree).tabulate(1, vertices)[1:, :, :, 0]
        inner = np.einsum("mqv,vc->cqm", slopes, nodal)
        steep = np.einsum("cqm,cm->cq", inner, self.flux.cells.inverse[self.active][:, :, axis])
        return np.maximum(np.abs(high - steep.min(axis=1)), np.abs(low - steep.max(axis=1)))

    def steady(
        self, state: np.ndarray, operator: VariableOperator, tensors: CellTensors
    ) -> GapSizes:
        """G of a steady state; collective."""
        plain, slope = self._level(state, None)
        found = self._joined(plain[:, None], slope[:, None], operator, tensors)
        return GapSizes(*found, np.repeat(found[0], 2))

    def march(
        self,
        states: Sequence[np.ndarray],
        times: np.ndarray,
        operator: VariableOperator,
        tensors: CellTensors,
    ) -> GapSizes:
        """G of a trajectory; collective."""
        steps = np.diff(times)
        if not self.moves:
            found = self.steady(states[0], operator, tensors)
            parts = [np.sqrt(steps) * getattr(found, n)[0] for n in ("plain", "steep", "acting")]
            return GapSizes(*parts, np.repeat(found.plain, len(times)))
        levels = [
            self._level(state, float(when)) for state, when in zip(states, times, strict=True)
        ]
        plain, slope = (np.stack(part, axis=1) for part in zip(*levels, strict=True))
        root, wide = np.sqrt(self.volume)[:, None], np.sqrt(steps)

        def linear(ends: np.ndarray) -> np.ndarray:
            first, last = ends[:, :-1], ends[:, 1:]
            return wide * np.sqrt((first**2 + first * last + last**2) / 3)

        moved, bent = self._between(times)
        corner = self._odd[:, None]
        size = np.where(corner, bent * self.long[:, None], moved)
        tilt = np.where(
            corner,
            bent * (1 + self.long * self._corner_steep)[:, None],
            bent + self._steep[:, None] * moved,
        )
        found = self._joined(
            linear(plain) + root * wide * size,
            linear(slope) + root * wide * tilt,
            operator,
            tensors,
        )
        level = np.sqrt(self.comm.allreduce((plain**2).sum(axis=0)))
        return GapSizes(*found, level, True)

    def _between(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of |g − I g| and of its gradient on cells and steps."""
        if not len(self.active):
            return np.zeros((0, len(times) - 1)), np.zeros((0, len(times) - 1))
        moved = off_line(self.places, self.value, times)
        squares = sum(
            off_line(self.places, self.value.diff(symbol), times) ** 2
            for symbol in SPACE[: self.dim]
        )
        return moved, np.sqrt(squares)

    def _joined(
        self,
        plain: np.ndarray,
        slope: np.ndarray,
        operator: VariableOperator,
        tensors: CellTensors,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Norms over the layer, with the coefficients of an operator on its cells."""
        here, places = self.active, self.flux.places
        largest = np.linalg.eigvalsh(tensors.middle[here])[:, -1] if len(here) else np.zeros(0)
        largest = largest * (2 - tensors.ratio[here])

        def most(expr: sp.Expr) -> np.ndarray:
            low, high = places.bounds(expr)
            return np.maximum(np.abs(low), np.abs(high))[here]

        speed = np.sqrt(sum((most(b) ** 2 for b in operator.advection), np.zeros(len(here))))
        acting = speed[:, None] * slope + most(operator.reaction)[:, None] * plain
        parts = (plain, np.sqrt(largest)[:, None] * slope, acting)
        self._check_walls(operator)
        return tuple(np.sqrt(self.comm.allreduce((part**2).sum(axis=0))) for part in parts)

    def _check_walls(self, operator: VariableOperator) -> None:
        """Robin conditions next to Γ would see G."""
        flux = self.flux
        near = np.isin(flux.where, self.active)
        found = any(
            part.flux(operator)[1] != 0 for part, n in zip(flux.parts, near, strict=True) if n
        )
        if self.comm.allreduce(int(found)):
            raise NotCovered(
                "given values that elements do not take on lie next to a Robin condition"
            )
