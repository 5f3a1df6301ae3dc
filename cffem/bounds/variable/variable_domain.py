# SPDX-License-Identifier: MIT
"""The constants of one operator −div(A ∇·) + b·∇ + c on one mesh with its boundary: enclosures of
its coefficients on cells, its first eigenvalue, its approximation constant, and the stability of
its adjoint.

With Ã constant on each cell and A ≥ θ Ã, |A^{-1/2} (Ã − A) Ã^{-1/2}| ≤ ε, and the same of κ on
facets, the approximation constant of Ã (`approximation`) gives

    min_v ‖A^{1/2} ∇(z − v)‖ ≤ C_h ‖div(A ∇z)‖,
    C_h² = (k/θ^{1/2} + ε/λ₁^{1/2})² + max_K h_K²/(π² a_K), a_K the smallest eigenvalue of A on K.

The adjoint problem has the condition A ∇z·n + (κ + b·n) z = 0, and its energy contains κ + b·n/2;
both must not be negative, which is checked. With m = 1, c₀ = min(c − div b/2) and Λ = λ₁ + c₀ > 0
its solution for φ has ‖z‖ ≤ Z0 ‖φ‖, ‖A^{1/2} ∇z‖ ≤ Z1 ‖φ‖ and ‖div(A ∇z)‖ ≤ Z2 ‖φ‖ as in
`adjoint_stability`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from mpi4py import MPI

from cffem._compat import exterior_facets
from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry.approximation import first_eigenvalue, largest_quotient
from cffem.bounds.geometry.lowest_order import Walls
from cffem.bounds.variable.place_functions import PlaceFunctions
from cffem.bounds.variable.variable_operator import VariableOperator
from cffem.symbols.known import Known

if TYPE_CHECKING:
    from cffem.bounds.variable.variable_flux import VariableFlux


@dataclass(frozen=True)
class CellTensors:
    """A on the cells of a rank.

    Attributes:
        middle: Ã, shape (cells, dim, dim).
        ratio: θ on each cell.
        spread: ε on each cell.
        smallest: a_K.
        diameters: h_K.
    """

    middle: np.ndarray
    ratio: np.ndarray
    spread: np.ndarray
    smallest: np.ndarray
    diameters: np.ndarray


def cell_tensors(
    operator: VariableOperator,
    corners: np.ndarray,
    diameters: np.ndarray,
    comm: MPI.Comm,
    known: Mapping[Known, np.ndarray] | None = None,
) -> CellTensors:
    """Enclose A; collective.

    Raises:
        NotCovered: A is not bounded away from zero on every cell.
    """
    dim = operator.dim
    places = PlaceFunctions(corners, np.full((1, dim + 1), 1 / (dim + 1)), known)
    middle, half = (np.zeros((len(corners), dim, dim)) for _ in range(2))
    for i, row in enumerate(operator.tensor):
        for j, entry in enumerate(row):
            low, high = places.bounds(entry)
            middle[:, i, j], half[:, i, j] = (low + high) / 2, (high - low) / 2
    least = np.linalg.eigvalsh(middle)[:, 0] if len(middle) else np.zeros(0)
    # For a multiple of the identity the largest entry, else Frobenius' norm.
    scalar = operator.scalar is not None
    away = half[:, 0, 0] if scalar else np.linalg.norm(half, axis=(1, 2))
    bad = not np.all(least - away > 0)
    if comm.allreduce(int(bad)):
        raise NotCovered("the diffusion is not bounded away from zero on every cell")
    ratio = 1 - away / least
    return CellTensors(middle, ratio, away / (least * np.sqrt(ratio)), least * ratio, diameters)


@dataclass(frozen=True)
class VariableStability:
    """Constants of the adjoint problem; see `AdjointStability`."""

    z0: float
    z1: float
    z2: float
    coercivity: float
    shifted: float
    margin: float


class VariableDomain:
    """One operator on one mesh with its boundary; collective.

    Args:
        operator: the operator.
        flux: the cells, and the natural facets.
        diameters: h_K.

    Raises:
        NotCovered: coercivity is not proved.
    """

    def __init__(self, operator: VariableOperator, flux: VariableFlux, tensors: CellTensors):
        self.operator, self.flux, self.tensors = operator, flux, tensors
        self.comm, self.mesh = flux.comm, flux.mesh
        self._fluid()
        self._at_walls()
        # Operators that differ in other parts only have these constants in common.
        free = self.comm.allreduce(len(flux.where)) > 0
        walls = tuple(part.flux(operator)[1] for part in flux.walls)
        self._key = operator.tensor, walls, operator.advection if free else ()
        self.eigenvalue = self._once("eigenvalue", self._bound_eigenvalue)
        self.constants = self._stability()

    def _once(self, what: str, make: Callable[[], float]) -> float:
        """A constant, computed once for all operators that have it in common."""
        shared, key = self.flux.shared, (what, *self._key)
        if key not in shared:
            shared[key] = make()
        return shared[key]

    def _bound_eigenvalue(self) -> float:
        tensors = self.tensors
        lower = tensors.ratio[:, None, None] * tensors.middle
        found = first_eigenvalue(
            self.mesh, tensors.diameters, lower, self._walls(self.energy_transfer)
        )
        if found is None:
            raise NotCovered("the mesh is too large for its first eigenvalue to be bounded")
        return found

    def _extreme(self, low: np.ndarray, high: np.ndarray) -> tuple[float, float]:
        both = [float(np.min(low, initial=math.inf)), float(-np.max(high, initial=-math.inf))]
        least = np.min(self.comm.allgather(both), axis=0)
        return float(least[0]), float(-least[1])

    def _fluid(self) -> None:
        """Enclose b and c."""
        places, operator = self.flux.places, self.operator
        squares = np.zeros(places.count)
        for entry in operator.advection:
            low, high = places.bounds(entry)
            squares += np.maximum(np.abs(low), np.abs(high)) ** 2
        speeds = np.sqrt(squares / self.tensors.smallest)
        self.speed = max(self.comm.allgather(float(np.max(speeds, initial=0.0))))
        divergence = sp.simplify(operator.divergence)
        energy, adjoint = (
            sp.expand(operator.reaction - divergence / 2),
            sp.expand(operator.reaction - divergence),
        )
        self.shifted = self._extreme(*places.bounds(energy))[0]
        self.adjoint = self._extreme(*places.bounds(adjoint))

    def _at_walls(self) -> None:
        """Enclose κ + b·n and κ + b·n/2 on natural facets."""
        flux, operator = self.flux, self.operator
        count = len(flux.where)
        kappa = np.zeros((2, count))
        for part in dict.fromkeys(flux.parts):
            mine = np.array([p is part for p in flux.parts])
            low, high = flux.wall_places.bounds(part.flux(operator)[1])
            kappa[0][mine], kappa[1][mine] = low[mine], high[mine]
        across = np.zeros((2, count))
        for axis, entry in enumerate(operator.advection):
            low, high = flux.wall_places.bounds(entry)
            both = np.stack([low, high]) * flux.wall_normals[:, axis]
            across += np.sort(both, axis=0)
        self.flows_through = bool(self.comm.allreduce(float(np.abs(across).sum())) > 0)
        self.dual_transfer, energy = kappa + across, kappa + across / 2
        scale = float(np.max(np.abs(kappa), initial=0.0) + np.max(np.abs(across), initial=0.0))
        worst = min(
            float(np.min(self.dual_transfer[0], initial=0.0)),
            float(np.min(energy[0], initial=0.0)),
            float(np.min(kappa[0], initial=0.0)),
        )
        if self.comm.allreduce(int(worst < -1e-12 * scale)):
            raise NotCovered(
                "on a part of the boundary without given values the flow enters, or a Robin "
                "coefficient is negative"
            )
        self.energy_transfer = np.maximum(energy[0], 0.0)

    def _walls(self, transfer: np.ndarray) -> Walls:
        """Conditions on the facets of the boundary in the order of DOLFINx."""
        flux = self.flux
        outer = exterior_facets(self.mesh)
        numbers = self.mesh.topology.index_map(flux.dim - 1).local_to_global(outer.astype(np.int32))
        found = dict(zip(flux.cells.facets[flux.where, flux.side].tolist(), transfer, strict=True))
        natural = np.array([int(n) in found for n in numbers], dtype=bool)
        return Walls(natural, np.array([found.get(int(n), 0.0) for n in numbers]))

    def _stability(self) -> VariableStability:
        first, shifted = self.eigenvalue, self.shifted
        margin = first + shifted
        if not margin > 0:
            raise NotCovered(
                f"coercivity is not proved: λ₁ + c − div b/2 = {margin:.3g} is not positive"
            )
        z0 = 1 / margin
        z1 = math.sqrt(first / margin**2 if shifted < first else 1 / (4 * shifted))
        if shifted == 0 and first == 0:
            z1 = math.inf
        low, high = self.adjoint
        z2 = 1 + self.speed * z1 + max(abs(low), abs(high)) * z0
        # −div(A ∇·) + c with a constant c is self-adjoint: the spectral theorem. With a flow
        # through free parts of the boundary it is not.
        if low == high and first + low > 0 and not self.flows_through:
            z2 = min(z2, (1 + self.speed * z1) * max(1.0, first / (first + low)))
        coercivity = min(1.0, 1 + shifted / first) if shifted < 0 else 1.0
        return VariableStability(z0, z1, z2, coercivity, shifted, margin)

    @cached_property
    def approximation(self) -> float | None:
        """C_h, None where it is not known; collective."""
        found = self._once("approximation", self._bound_approximation)
        return found if math.isfinite(found) else None

    def _bound_approximation(self) -> float:
        low, high = self.dual_transfer
        middle = (np.maximum(low, 0.0) + high) / 2
        some = middle > 0
        lower = np.maximum(low[some], 0.0)
        with np.errstate(divide="ignore"):
            spread = (high[some] - lower) / 2 / np.sqrt(lower * middle[some])
        ratios = np.concatenate([self.tensors.ratio, lower / middle[some]])
        spreads = np.concatenate([self.tensors.spread, spread])
        ends = np.array(
            [
                -np.min(ratios, initial=1.0),
                np.max(spreads, initial=0.0),
                np.max(self.tensors.diameters**2 / self.tensors.smallest, initial=0.0),
            ]
        )
        ratio, spread_most, local = np.max(self.comm.allgather(ends), axis=0)
        ratio = -ratio
        if not ratio > 0 or not math.isfinite(spread_most):
            return math.inf
        if spread_most > 0 and not self.eigenvalue > 0:
            return math.inf
        if self.flux.dim == 1 and spread_most == 0:
            return math.sqrt(local) / math.pi
        square = largest_quotient(self.mesh, self.tensors.middle, self._walls(middle))
        if square is None:
            return math.inf
        uneven = spread_most / math.sqrt(self.eigenvalue) if spread_most > 0 else 0.0
        return math.hypot(math.sqrt(square / ratio) + uneven, math.sqrt(local) / math.pi)

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a statement and how it was checked; collective."""
        found = [
            (
                f"λ₁ ≥ {self.eigenvalue:.6g} for −div(A ∇·) with the conditions of the boundary",
                "Crouzeix–Raviart eigenvalue with enclosures of A and κ, inertia counted by MUMPS",
            ),
            (f"λ₁ + c − div b/2 ≥ {self.constants.margin:.4g} > 0", "enclosures on cells"),
        ]
        if self.approximation is not None:
            found.append(
                (
                    "P1 functions approximate every z with the conditions of the adjoint problem "
                    f"up to ‖A^1/2 ∇(z − v)‖ ≤ {self.approximation:.4g} ‖div(A ∇z)‖",
                    "hypercircle on the mesh (Liu and Oishi), inertia counted by MUMPS",
                )
            )
        return tuple(found)
