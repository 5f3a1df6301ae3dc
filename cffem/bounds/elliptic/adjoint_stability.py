# SPDX-License-Identifier: MIT
"""Stability of the adjoint problem −a Δz − b·∇z + (c − div b) z = φ with z = 0 on the boundary.

With λ₁ a lower bound of the first Dirichlet eigenvalue, c₀ = c − div b / 2 and Λ = a λ₁ + c₀ > 0,
testing with z gives ‖z‖ ≤ Z0 ‖φ‖ and ‖∇z‖ ≤ Z1 ‖φ‖; the spectral theorem for −a Δ + (c − div b), or
the triangle inequality, gives a ‖Δz‖ ≤ Z2 ‖φ‖. None of this asks for convexity: Δz is a function
because the equation says so.

The same constants bound, in L2(0, T; L2), the solution of the backward problem −z_t − a Δz − b·∇z +
(c − div b) z = φ, z(T) = 0; besides ‖z_t‖ ≤ Zt ‖φ‖ and ‖z(0)‖ ≤ (Z0/2)^{1/2} ‖φ‖.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cffem.bounds.certificate import NotCovered
from cffem.bounds.scalar_problem import Operator


@dataclass(frozen=True)
class AdjointStability:
    """The constants of one operator.

    Attributes:
        z0, z1, z2: bounds of ‖z‖, ‖∇z‖ and a ‖Δz‖ by ‖φ‖.
        coercivity: m with B(v, v) ≥ m ‖∇v‖².
        shifted: c₀ = c − div b / 2, the zeroth-order part of the energy B(v, v) = a ‖∇v‖² + c₀
            ‖v‖².
        margin: Λ = a λ₁ + c₀.
        rate: Zt, the bound of ‖z_t‖ by ‖φ‖ for the backward problem.
    """

    z0: float
    z1: float
    z2: float
    coercivity: float
    shifted: float
    margin: float
    rate: float


def stability(problem: Operator, speed: float, eigenvalue: float) -> AdjointStability:
    """The constants for an operator whose advection is at most `speed`, on a domain with λ₁ ≥
    `eigenvalue`.

    Raises:
        NotCovered: Λ ≤ 0, so that coercivity is not proved.

    Example:
        >>> import numpy as np, sympy as sp
        >>> poisson = Operator(1.0, np.zeros(2), np.zeros((2, 2)), 0.0, sp.S.Zero)
        >>> constants = stability(poisson, 0.0, 16.0)
        >>> constants.z0, constants.z1, constants.z2
        (0.0625, 0.25, 1.0)
    """
    a, diffusive = problem.diffusion, problem.diffusion * eigenvalue
    shifted = problem.reaction - problem.divergence / 2
    adjoint = problem.reaction - problem.divergence
    margin = diffusive + shifted
    if not margin > 0:
        raise NotCovered(
            f"coercivity is not proved: a λ₁ + c − div b/2 = {margin:.3g} is not positive"
        )
    z0 = 1 / margin
    # a‖∇z‖² ≤ s − c₀s² with s = ‖z‖ ∈ [0, 1/Λ]: its largest value is at the end, or before it where
    # c₀ is large.
    z1 = math.sqrt((diffusive / margin**2 if shifted < diffusive else 1 / (4 * shifted)) / a)
    z2 = rate = 1 + speed * z1 + abs(adjoint) * z0
    if diffusive + adjoint > 0:
        rate = 1 + speed * z1
        z2 = min(z2, rate * max(1.0, diffusive / (diffusive + adjoint)))
    return AdjointStability(
        z0, z1, z2, a * min(1.0, 1 + shifted / diffusive), shifted, margin, rate
    )
