# SPDX-License-Identifier: MIT
"""Stability of the backward problem of ρ u_t − div(A ∇u) + b·∇u + c u = f on one mesh.

Let S = −div(A ∇·) with A ∇z·n + (κ + b·n) z = 0 on free parts of the boundary, which is symmetric,
and −ρ z_t + S z − b·∇z + (c − div b) z = φ, z(T) = 0. With u = e^{μt} v the reaction is c + μ ρ.
Write c₀ = min(c − div b/2 + μ ρ) and Λ = λ₁ + c₀ > 0. In L2(0, T; L2):

* Testing with z: ‖A^{1/2} ∇z‖² + c₀ ‖z‖² + ‖ρ^{1/2} z(0)‖²/2 ≤ (φ, z), hence ‖z‖ ≤ Z0 ‖φ‖ and
  ‖A^{1/2} ∇z‖ ≤ Z1 ‖φ‖ as for the steady problem, and ‖ρ^{1/2} z(0)‖² ≤ 2 s − 2 Λ s² ≤ 1/(2 Λ).
* With ψ = φ + b·∇z − (c − div b + μ ρ) z, whose norm is at most Ψ = 1 + |A^{-1/2} b| Z1 + |c −
  div b + μ ρ| Z0, the equation is −ρ^{1/2} z_t + ρ^{-1/2} S z = ρ^{-1/2} ψ. The integral of the
  product of both terms on the left is S(z(0), z(0))/2 ≥ 0, so that each of them has norm at most
  ‖ρ^{-1/2} ψ‖: ‖ρ^{1/2} z_t‖ ≤ Ψ/ρ_min^{1/2} and ‖S z‖ ≤ Z2 = (ρ_max/ρ_min)^{1/2} Ψ.
* Where ρ and q = c − div b + μ ρ are constant, the same with S + q ≥ λ₁ + q > 0 in the place of S
  has 1 + |A^{-1/2} b| Z1 for Ψ, and ‖S z‖ ≤ max(1, λ₁/(λ₁ + q)) ‖(S + q) z‖.

P1 functions approximate z by ‖A^{1/2} ∇(z − v)‖ ≤ C1 ‖S z‖ + C2 ‖A^{1/2} ∇z‖, with C2 = 0 and C1
the constant of `variable_domain` where it has one. On a boundary that is free everywhere, where λ₁
= 0, let z̃ solve the problem with Ã, constant on cells, for the same right-hand side. It has
‖Ã^{1/2} ∇(z − z̃)‖ ≤ ε ‖A^{1/2} ∇z‖, so that with A ≤ (1 + δ) Ã and C̃ the constant of Ã

    C1 = (1 + δ)^{1/2} C̃,    C2 = (1 + δ)^{1/2} ε.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import sympy as sp

from cffem.bounds.evolving.level_flux import LevelFlux
from cffem.bounds.geometry.approximation import largest_quotient
from cffem.bounds.variable.variable_domain import CellTensors, VariableDomain, VariableStability
from cffem.bounds.variable.variable_operator import VariableOperator


@dataclass(frozen=True)
class EvolvingStability:
    """Bounds by ‖φ‖ in L2(0, T; L2).

    Attributes:
        z0, z1, z2: of ‖z‖, ‖A^{1/2} ∇z‖ and ‖S z‖.
        rate: of ‖ρ^{1/2} z_t‖.
        start: of ‖ρ^{1/2} z(0)‖.
        coercivity: m with B(v, v) ≥ m ‖A^{1/2} ∇v‖².
    """

    z0: float
    z1: float
    z2: float
    rate: float
    start: float
    coercivity: float


class EvolvingDomain(VariableDomain):
    """One operator with a weighted time derivative on one mesh; collective.

    Args:
        operator, tensors: see `VariableDomain`.
        flux: the cells, and ρ.
    """

    def __init__(self, operator: VariableOperator, flux: LevelFlux, tensors: CellTensors):
        self.weights = flux.places.bounds(flux.weight)
        self.weight_range = flux.weight_range
        super().__init__(operator, flux, tensors)

    def _fluid(self) -> None:
        super()._fluid()
        operator, places = self.operator, self.flux.places
        divergence = sp.simplify(operator.divergence)
        self._energy = places.bounds(sp.expand(operator.reaction - divergence / 2))[0]
        self._dual = places.bounds(sp.expand(operator.reaction - divergence))

    def _stability(self) -> VariableStability:
        """Those of the steady problem are of no use: every growth is allowed here."""
        return VariableStability(math.inf, math.inf, math.inf, 0.0, self.shifted, 0.0)

    @cached_property
    def growth(self) -> float:
        """The smallest μ with Λ ≥ 0; collective."""
        lacking = np.maximum(-(self._energy + self.eigenvalue), 0.0) / self.weights[0]
        return max(self.comm.allgather(float(np.max(lacking, initial=0.0))))

    def stability(self, mu: float) -> EvolvingStability | None:
        """The constants for u = e^{μt} v, None where Λ ≤ 0; collective."""
        first = self.eigenvalue
        low, high = self._dual[0] + mu * self.weights[0], self._dual[1] + mu * self.weights[1]
        ends = [
            float(np.max(-(self._energy + mu * self.weights[0]), initial=-math.inf)),
            float(np.max(-low, initial=-math.inf)),
            float(np.max(high, initial=-math.inf)),
        ]
        shifted, least, most = np.max(self.comm.allgather(ends), axis=0)
        shifted, least = -float(shifted), -float(least)
        margin = first + shifted
        if not margin > 0:
            return None
        z0 = 1 / margin
        z1 = math.sqrt(first / margin**2 if shifted < first else 1 / (4 * shifted))
        pushed = 1 + self.speed * z1 + max(abs(least), abs(float(most))) * z0
        small, large = self.weight_range
        z2, rate = math.sqrt(large / small) * pushed, pushed / math.sqrt(small)
        if small == large and least == most and first + least > 0 and not self.flows_through:
            plain = 1 + self.speed * z1
            rate = min(rate, plain / math.sqrt(small))
            z2 = min(z2, plain * max(1.0, first / (first + least)))
        coercivity = 1.0 if shifted >= 0 else 1 + shifted / first
        return EvolvingStability(z0, z1, z2, rate, math.sqrt(z0 / 2), coercivity)

    @cached_property
    def approximations(self) -> tuple[float, float]:
        """C1 and C2, infinite where they are not known; collective."""
        found = self.approximation
        if found is not None:
            return found, 0.0
        low, high = self.dual_transfer
        touched = float(np.max(np.abs([low, high]), initial=0.0))
        if self.eigenvalue > 0 or self.comm.allreduce(touched) > 0:
            return math.inf, 0.0
        first = self._once("first", lambda: self._free()[0])
        return first, self._once("second", lambda: self._free()[1])

    def _free(self) -> tuple[float, float]:
        """C1 and C2 of a boundary that is free everywhere."""
        square = largest_quotient(
            self.mesh, self.tensors.middle, self._walls(self.dual_transfer[0])
        )
        if square is None:
            return math.inf, 0.0
        middle = np.linalg.eigvalsh(self.tensors.middle)[:, 0]
        ends = np.array(
            [
                np.max(self.tensors.diameters**2 / middle, initial=0.0),
                np.max(1 - self.tensors.ratio, initial=0.0),
                np.max(self.tensors.spread, initial=0.0),
            ]
        )
        local, uneven, spread = np.max(self.comm.allgather(ends), axis=0)
        more = math.sqrt(1 + uneven)
        plain = math.hypot(math.sqrt(square), math.sqrt(local) / math.pi)
        return more * plain, more * float(spread)

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a statement and how it was checked; collective."""
        low, high = self.weight_range
        found = [
            (
                f"λ₁ ≥ {self.eigenvalue:.6g} for −div(A ∇·) with the conditions of the boundary",
                "Crouzeix–Raviart eigenvalue with enclosures of A and κ, inertia counted by MUMPS",
            ),
            (f"the weight of u_t is between {low:.4g} and {high:.4g}", "enclosures on cells"),
        ]
        first, second = self.approximations
        if math.isfinite(first):
            more = f" + {second:.4g} ‖A^1/2 ∇z‖" if second else ""
            found.append(
                (
                    "P1 functions approximate every z with the conditions of the adjoint problem "
                    f"up to ‖A^1/2 ∇(z − v)‖ ≤ {first:.4g} ‖div(A ∇z)‖{more}",
                    "hypercircle on the mesh (Liu and Oishi), inertia counted by MUMPS",
                )
            )
        return tuple(found)
