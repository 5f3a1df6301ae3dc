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
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp
from dolfinx import fem, la

from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.steady_bounds import check_polynomial
from cffem.bounds.enclosed.sources import ROUGH
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
    from cffem.engine.model import Model

# Sides of cells at corners are divided so many times where gradients are sampled.
DIVIDED = 8
# Values that meet at a corner agree up to this share of the data.
AGREE = 1e-9


@dataclass(frozen=True)
class GapSizes:
    """G on each step, or once for a steady problem.

    Attributes:
        plain, steep, acting: bounds of ‖G‖, ‖A^{1/2} ∇G‖ and ‖b·∇G + c G‖ in L2 of the steps; the
            latter two contain what a Robin condition next to Γ sees of G.
        level: of ‖G‖ at the levels.
        rate: of ‖G_t‖ in L2 of the steps.
    """

    plain: np.ndarray
    steep: np.ndarray
    acting: np.ndarray
    level: np.ndarray
    rate: np.ndarray

    @classmethod
    def nothing(cls, steps: int = 1) -> GapSizes:
        """Where elements take on all given values."""
        zero = np.zeros(steps)
        return cls(zero, zero, zero, np.zeros(steps + 1), zero)

    def until(self, steps: int) -> GapSizes:
        """On the first steps only."""
        parts = (self.plain, self.steep, self.acting)
        plain, steep, acting = (part[:steps] for part in parts)
        return GapSizes(plain, steep, acting, self.level[: steps + 1], self.rate[:steps])


def smooth_conditions(model: Model, unknown: Field, degree: int, moving: bool) -> list[Dirichlet]:
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

    def __init__(self, model: Model, flux: VariableFlux, conditions: Sequence[Dirichlet]):
        self.flux, self.dim, self.comm = flux, flux.dim, flux.comm
        values = {sp.sympify(condition.value) for condition in conditions}
        if len(values) > 1:
            raise NotCovered(
                "two different functions are given on the boundary that elements do not take on"
            )
        self.value = values.pop()
        self.moves = self.value.has(t)
        self._robin: list[tuple[int, int, float]] = []
        self._met = 0.0, 0.0
        self._locate(model, conditions)
        self._layer()

    def _locate(self, model: Model, conditions: Sequence[Dirichlet]) -> None:
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
        self._inner = inner.astype(float)
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
            self._compare(nodal, given)
        return found

    def _compare(self, nodal: np.ndarray, given: np.ndarray) -> None:
        """Note how far the state is from given values at corners with other ones."""
        cells = self.flux.cells
        # The first nodes of an element are its vertices.
        nodes = cells.nodes[: self.dim + 1].T[np.isin(cells.vertices, self._corners)]
        size = float(np.max(np.abs(given[self._given]), initial=0.0))
        away = float(np.max(np.abs(nodal[nodes] - given[nodes]), initial=0.0))
        self._met = max(self._met[0], away), max(self._met[1], size)

    def _agree(self) -> None:
        """At corners with other values states must have the given ones; collective."""
        away, size = np.max(self.comm.allgather(self._met), axis=0)
        self._met = 0.0, 0.0
        if away > AGREE * size:
            raise NotCovered("given values do not agree where two parts of the boundary meet")

    def _level(self, state: np.ndarray, when: float | None) -> _Layer:
        """G at one time on the cells of the layer."""
        value = self.value if when is None else self.value.xreplace({t: sp.Float(when)})
        tables, dim = self.flux.tables, self.dim
        nodal = self._interpolant(state, value)
        if not len(self.active):
            none = np.zeros(0)
            return _Layer(none, none, none, np.zeros((0, 1)), none)
        inner = np.einsum("mqv,vc->cqm", tables["slopes"], nodal)
        steep = np.einsum("cqm,cmi->cqi", inner, self.flux.cells.inverse[self.active])
        gap = self.places.values(value) - (tables["values"] @ nodal).T
        radius = self.places.radius(value)
        root, scale = np.sqrt(self.volume), self.volume * math.factorial(dim)
        weights = tables["weights"]
        total, unseen = np.zeros(gap.shape), np.zeros(len(root))
        for axis, symbol in enumerate(SPACE[:dim]):
            change = value.diff(symbol)
            apart = self.places.values(change) - steep[:, :, axis]
            total += (self._hat * apart + gap * self._hat_slope[:, axis][:, None]) ** 2
            unseen += (self.places.radius(change) + np.abs(self._hat_slope[:, axis]) * radius) ** 2
        bent = self._hat * gap
        plain = np.sqrt(scale * (bent**2 @ weights)) + 2 * radius * root
        slope = np.sqrt(scale * (total @ weights)) + 2 * np.sqrt(unseen) * root
        largest = self._largest(value, nodal) if self._odd.any() else np.zeros(len(root))
        plain = np.where(self._odd, largest * self.long * root, plain)
        slope = np.where(self._odd, largest * (1 + self.long * self._corner_steep) * root, slope)
        return _Layer(plain, slope, self._seen(value, nodal), bent, radius)

    def _seen(self, value: sp.Expr, nodal: np.ndarray) -> np.ndarray:
        """Bounds of ‖G‖_F on facets with a Robin condition next to Γ."""
        flux, found = self.flux, np.zeros(len(self._robin))
        if not len(found):
            return found
        exact, radius = flux.wall_places.values(value), flux.wall_places.radius(value)
        shares = flux.tables["shares"] / flux.tables["shares"].sum()
        for k, (place, facet, _) in enumerate(self._robin):
            _, on_cell, traces = flux.tables["sides"][flux.side[facet]]
            gap = exact[facet] - traces @ nodal[:, place]
            if not self._odd[place]:
                gap = gap * (on_cell @ self._inner[place])
            square = flux.wall_areas[facet] * float(gap**2 @ shares)
            found[k] = math.sqrt(square) + 2 * radius[facet] * math.sqrt(flux.wall_areas[facet])
        return found

    def _largest(self, value: sp.Expr, nodal: np.ndarray) -> np.ndarray:
        """max |∇(g − w)| on each cell, by the ranges of both or by values on a lattice and the
        ranges of second derivatives; for elements of degree one and two ∂w is linear.
        """
        symbols, cell = SPACE[: self.dim], CELLS[self.dim]
        lattice = basix.create_lattice(cell, DIVIDED, basix.LatticeType.equispaced, True)
        table = np.asarray(lagrange(self.dim, self.flux.degree).tabulate(2, lattice))[..., 0]
        inverse, corners = self.flux.cells.inverse[self.active], self.places.corners
        hats = np.column_stack([1 - lattice.sum(axis=1), lattice])
        places = np.einsum("qv,cvi->icq", hats, corners)
        inner = np.einsum("mqv,vc->cqm", table[1 : 1 + self.dim], nodal)
        steep = np.einsum("cqm,cmi->cqi", inner, inverse)
        curved = np.zeros((len(self.active), self.dim, self.dim))
        for m in range(self.dim):
            for n in range(self.dim):
                order = [int(k in (m, n)) + int(k == m == n) for k in range(self.dim)]
                bend = table[basix.index(*order), 0] @ nodal
                curved += bend[:, None, None] * np.einsum(
                    "ci,cj->cij", inverse[:, m], inverse[:, n]
                )
        squares = np.zeros(len(self.active))
        for i, one in enumerate(symbols):
            change = value.diff(one)
            low, high = self.places.bounds(change)
            plain = np.maximum(
                np.abs(high - steep[:, :, i].min(axis=1)), np.abs(low - steep[:, :, i].max(axis=1))
            )
            exact = np.broadcast_to(
                np.asarray(numeric(change, symbols)(*places), dtype=float), places.shape[1:]
            )
            bent = np.zeros(len(self.active))
            for j, other in enumerate(symbols):
                ends = self.places.bounds(change.diff(other))
                bent += np.max([np.abs(end - curved[:, i, j]) for end in ends], axis=0) ** 2
            near = np.abs(exact - steep[:, :, i]).max(axis=1)
            near += self.long / DIVIDED * np.sqrt(bent)
            squares += np.fmin(plain, near) ** 2
        return np.sqrt(squares)

    def steady(
        self, state: np.ndarray, operator: VariableOperator, tensors: CellTensors
    ) -> GapSizes:
        """G of a steady state; collective."""
        self._watch(operator)
        at = self._level(state, None)
        self._agree()
        found = self._joined(
            at.plain[:, None], at.slope[:, None], at.seen[:, None], operator, tensors
        )
        return GapSizes(*found, np.repeat(found[0], 2), np.zeros(1))

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
            plain, steep, acting = (
                np.sqrt(steps) * part[0] for part in (found.plain, found.steep, found.acting)
            )
            level = np.repeat(found.plain[:1], len(times))
            return GapSizes(plain, steep, acting, level, np.zeros(len(steps)))
        self._watch(operator)
        levels = [
            self._level(state, float(when)) for state, when in zip(states, times, strict=True)
        ]
        self._agree()
        plain, slope, seen = (
            np.stack([getattr(at, name) for at in levels], axis=1)
            for name in ("plain", "slope", "seen")
        )
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
        joined = self._joined(
            linear(plain) + root * wide * size,
            linear(slope) + root * wide * tilt,
            linear(seen)
            + np.array(
                [wide * size[k] * math.sqrt(self.flux.wall_areas[f]) for k, f, _ in self._robin]
            ).reshape(len(self._robin), len(steps)),
            operator,
            tensors,
        )
        level = np.sqrt(self.comm.allreduce((plain**2).sum(axis=0)))
        return GapSizes(*joined, level, self._rates(levels, times))

    def _rates(self, levels: list[_Layer], times: np.ndarray) -> np.ndarray:
        """Bounds of ‖G_t‖ on each step: that of its interpolant, and |g_t − D g| ≤ τ/2 max |g_tt|;
        collective."""
        steps = np.diff(times)
        if self.value.has(*ROUGH) or self.comm.allreduce(int(self._odd.any())):
            return np.full(len(steps), math.inf)
        squares = np.zeros(len(steps))
        if len(self.active):
            # |g − I g| ≤ τ²/8 max |g_tt|.
            bent = 8 / steps**2 * off_line(self.places, self.value, times, by_range=False)
            scale = self.volume * math.factorial(self.dim)
            for n, step in enumerate(steps):
                first, last = levels[n], levels[n + 1]
                change = (last.bent - first.bent) / step
                found = np.sqrt(scale * (change**2 @ self.flux.tables["weights"]))
                found += 2 * (first.radius + last.radius) / step * np.sqrt(self.volume)
                found += step / 2 * bent[:, n] * np.sqrt(self.volume)
                squares[n] = step * float((found**2).sum())
        return np.sqrt(self.comm.allreduce(squares))

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
        seen: np.ndarray,
        operator: VariableOperator,
        tensors: CellTensors,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Norms over the layer, with the coefficients of an operator on its cells; collective."""
        here, places, flux = self.active, self.flux.places, self.flux
        largest = np.linalg.eigvalsh(tensors.middle[here])[:, -1] if len(here) else np.zeros(0)
        largest = largest * (2 - tensors.ratio[here])

        def most(expr: sp.Expr) -> np.ndarray:
            low, high = places.bounds(expr)
            return np.maximum(np.abs(low), np.abs(high))[here]

        speed = np.sqrt(sum((most(b) ** 2 for b in operator.advection), np.zeros(len(here))))
        acting = speed[:, None] * slope + most(operator.reaction)[:, None] * plain
        steep = np.sqrt(largest)[:, None] * slope
        for (place, facet, kappa), size in zip(self._robin, seen, strict=True):
            # ‖φ‖²_F ≤ ((d + 1) ‖φ‖² + h² ‖∇φ‖²)/height.
            size = kappa * size / math.sqrt(flux.wall_heights[facet])
            acting[place] += math.sqrt(self.dim + 1) * size
            cell = here[place]
            steep[place] += tensors.diameters[cell] / math.sqrt(tensors.smallest[cell]) * size
        sizes = [
            np.sqrt(self.comm.allreduce((part**2).sum(axis=0))) for part in (plain, steep, acting)
        ]
        return sizes[0], sizes[1], sizes[2]

    def _watch(self, operator: VariableOperator) -> None:
        """Find natural facets next to Γ with a Robin condition, which sees G."""
        flux, self._robin = self.flux, []
        for facet, (cell, part) in enumerate(zip(flux.where, flux.parts, strict=True)):
            place = np.flatnonzero(self.active == cell)
            kappa = part.flux(operator)[1]
            if len(place) and kappa != 0:
                high = float(np.max(np.abs([b[facet] for b in flux.wall_places.bounds(kappa)])))
                self._robin.append((int(place[0]), facet, high))


@dataclass(frozen=True)
class _Layer:
    """G at one time on the cells of the layer.

    Attributes:
        plain, slope: bounds of ‖G‖ and ‖∇G‖.
        seen: bounds of ‖G‖ on facets with a Robin condition.
        bent: G at the points of the cells.
        radius: what lies between them.
    """

    plain: np.ndarray
    slope: np.ndarray
    seen: np.ndarray
    bent: np.ndarray
    radius: np.ndarray
