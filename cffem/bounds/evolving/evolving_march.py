# SPDX-License-Identifier: MIT
"""Trajectories of ρ u_t − div(A ∇u) + b·∇u + c u = f as the theorem sees them.

U is the piecewise linear interpolant of the values u^n, and W^n their rates (`level_flux`). On the
step that ends at level n its residual is

    R(φ) = I ρ^n(φ) + (ρ (I W − D_n), φ) + (f − I f, φ) + ⟨g − I g, φ⟩,    D_n = (u^n − u^{n−1})/τ,

where ρ^n vanishes on V_h and is at most t_n ‖A^{1/2} ∇φ‖ by its flux, so that ρ^n(z) ≤ t_n min(Z1,
C1 Z2 + C2 Z1) for the solution z of the backward problem (`evolving_domain`). I W − D_n has the
mean Ḡ = (W^n + W^{n−1})/2 − D_n, and the rest (t − t_{n−1/2}) s_n, s_n = (W^n − W^{n−1})/τ, meets
z less its mean over the step:

    ‖u − U‖ ≤ min(Z1, C1 Z2 + C2 Z1) ‖I t‖ + Z0 ‖ρ Ḡ‖ + Zt (τ/π) (τ³/12)^{1/2} ‖ρ^{1/2} s_n‖
              + Z0 ‖f − I f‖ + walls + (Z0/2)^{1/2} ‖ρ^{1/2} (u(0) − u^0)‖.

Testing with e itself gives the energy, m ‖A^{1/2} ∇e‖² + ‖ρ^{1/2} e(T)‖²/2 ≤ R(e) + ‖ρ^{1/2}
e(0)‖²/2. With u = e^{μt} v every part of the step that starts at t_{n−1} has the weight
e^{−μ t_{n−1}}, and the whole e^{μT}; the derivative of e^{−μt} z adds μ ‖ρ^{1/2} z‖ to Zt.

Where given values of u are not those of U, G is a function with the trace of u − U on that part of
the boundary (`trace_gap`). Then e − G vanishes there, and the bound of e grows by

    Z1 ‖A^{1/2} ∇G‖ + Z0 ‖b·∇G + c G‖ + Zt ‖ρ^{1/2} G‖ + ‖G‖,

for ∫ (ρ G_t, z) = −∫ (ρ G, z_t) − (ρ G(0), z(0)), and (ρ (e − G)(0), z(0)) meets the last one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from cffem.bounds.evolving.evolving_domain import EvolvingDomain
from cffem.bounds.evolving.level_flux import LevelFlux
from cffem.bounds.variable.trace_gap import GapSizes
from cffem.bounds.variable.variable_flux import VariableState

# e^{μT} beyond this exponent is as good as infinite.
LARGEST_EXPONENT = 300.0
# Levels are kept while their numbers are fewer than this.
KEPT_NUMBERS = 40_000_000

Weights = Mapping[int, float]


class EvolvingMarch:
    """Given values at all levels as an approximate solution; collective.

    Args:
        flux: measures levels.
        domain: the operator with its constants.
        states: owned values at each level.
        source: f.
        times: the levels.
    """

    def __init__(
        self,
        flux: LevelFlux,
        domain: EvolvingDomain,
        states: Sequence[np.ndarray],
        source: sp.Expr,
        times: np.ndarray,
    ):
        self.flux, self.domain, self.states = flux, domain, states
        self.source, self.times = source, times
        self._levels: dict[int, VariableState] = {}
        self._rates: dict[int, np.ndarray] = {}
        self._keeps = True
        held = flux.boundary[flux.boundary < flux.owned]
        self._held = held

    def _moving(self, n: int) -> np.ndarray:
        """How fast held values move at a level."""
        result = np.zeros(len(self.states[n]))
        first, last = max(n - 1, 0), min(n + 1, len(self.states) - 1)
        change = (self.states[last] - self.states[first])[self._held]
        result[self._held] = change / (self.times[last] - self.times[first])
        return result

    def level(self, n: int) -> VariableState:
        """What was measured of level n; collective."""
        if n in self._levels:
            return self._levels[n]
        found, self._rates[n] = self.flux.level(
            self.domain.operator,
            self.states[n],
            self.source,
            float(self.times[n]),
            self._moving(n),
        )
        numbers = found.misfit.size + found.uneven.size + found.transported.size
        if self.flux.comm.allreduce(numbers) * len(self.times) <= KEPT_NUMBERS:
            self._levels[n] = found
        return found

    def state(self, weights: Weights) -> np.ndarray:
        """Σ ω_n u^n."""
        return sum(w * self.states[n] for n, w in weights.items())

    def rate(self, weights: Weights) -> np.ndarray:
        """Σ ω_n W^n of levels that were measured."""
        return sum(w * self._rates[n] for n, w in weights.items())


class EvolvingDifference:
    """The difference of a factual march and one without a term; it looks like a march of the
    factual operator."""

    def __init__(self, first: EvolvingMarch, second: EvolvingMarch):
        self.first, self.second = first, second
        self.flux, self.domain, self.times = first.flux, first.domain, first.times
        self.source = first.source - second.source

    def level(self, n: int) -> VariableState:
        """See `EvolvingMarch.level`."""
        return self.first.level(n) - self.second.level(n)

    def state(self, weights: Weights) -> np.ndarray:
        """See `EvolvingMarch.state`."""
        return self.first.state(weights) - self.second.state(weights)

    def rate(self, weights: Weights) -> np.ndarray:
        """See `EvolvingMarch.rate`."""
        return self.first.rate(weights) - self.second.rate(weights)


@dataclass(frozen=True)
class ActingTerm:
    """What a deleted term makes of the error of the solution without it: at most `plain` ‖z‖ and
    `steep` ‖A^{1/2} ∇z‖, in L2 of time."""

    plain: float = 0.0
    steep: float = 0.0


@dataclass(frozen=True)
class EvolvingError:
    """Bounds of one error in L2(0, T).

    Attributes:
        value: ‖e‖.
        energy: ‖A^{1/2} ∇e‖.
        end: ‖ρ^{1/2} e(T)‖.
        growth: the μ of the first one.
    """

    value: float
    energy: float
    end: float
    growth: float


@dataclass(frozen=True)
class EvolvingSteps:
    """What was measured on a trajectory, by levels or by steps.

    Attributes:
        times: the levels.
        dual, rest, slope: of each level: t_n, and what is not seen and acts on φ and A^{1/2} ∇φ.
        means: ‖ρ^{1/2} Ḡ‖ of each step.
        slopes: ‖ρ^{1/2} s_n‖.
        ends: ‖ρ^{1/2} (W − D)‖ at both ends of each step, shape (steps, 2).
        data: ‖f − I f‖ in L2 of each step.
        walls: the same of wall values, as multiples of ‖φ‖ and of ‖A^{1/2} ∇φ‖.
        initial: ‖ρ^{1/2} (u(0) − u^0)‖.
        gap: G.
    """

    times: np.ndarray
    dual: np.ndarray
    rest: np.ndarray
    slope: np.ndarray
    means: np.ndarray
    slopes: np.ndarray
    ends: np.ndarray
    data: np.ndarray
    walls: tuple[np.ndarray, np.ndarray]
    initial: float
    gap: GapSizes

    def until(self, last: int) -> EvolvingSteps:
        """Up to a level."""
        return EvolvingSteps(
            self.times[: last + 1],
            self.dual[: last + 1],
            self.rest[: last + 1],
            self.slope[: last + 1],
            self.means[:last],
            self.slopes[:last],
            self.ends[:last],
            self.data[:last],
            (self.walls[0][:last], self.walls[1][:last]),
            self.initial,
            self.gap.until(last),
        )

    def bound(
        self, domain: EvolvingDomain, mu: float, acting: ActingTerm | None = None
    ) -> EvolvingError:
        """The bounds with u = e^{μt} v, infinite where that gives none; collective."""
        length = float(self.times[-1] - self.times[0])
        nothing = EvolvingError(math.inf, math.inf, math.inf, mu)
        if mu * length > LARGEST_EXPONENT:
            return nothing
        z = domain.stability(mu)
        if z is None:
            return nothing
        acting = acting or ActingTerm()
        step, weight = np.diff(self.times), np.exp(-mu * (self.times[:-1] - self.times[0]))

        def total(parts: np.ndarray) -> float:
            return float(np.linalg.norm(weight * parts))

        def linear(ends: np.ndarray, other: np.ndarray) -> np.ndarray:
            return np.sqrt(step * (ends**2 + ends * other + other**2) / 3)

        heavy = math.sqrt(domain.weight_range[1])
        dual = total(linear(self.dual[:-1], self.dual[1:]))
        slope = total(np.sqrt(step) * np.maximum(self.slope[:-1], self.slope[1:]))
        slope += total(self.walls[1]) + acting.steep
        unseen = np.sqrt(step) * np.maximum(self.rest[:-1], self.rest[1:])
        rest = total(self.data + unseen) + total(self.walls[0]) + acting.plain
        first, second = domain.approximations
        reach = min(z.z1, first * z.z2 + second * z.z1)
        gap = self.gap
        value = reach * dual + z.z1 * slope + z.z0 * rest + z.start * self.initial
        value += z.z0 * heavy * total(np.sqrt(step) * self.means)
        swing = step / math.pi * np.sqrt(step**3 / 12) * self.slopes
        value += (z.rate + mu * heavy * z.z0) * total(swing)
        plain, steep, moved = (total(part) for part in (gap.plain, gap.steep, gap.acting))
        if plain or steep or moved:
            value += z.z1 * steep + z.z0 * (moved + mu * heavy**2 * plain)
            value += z.rate * heavy * plain
        grown = math.exp(mu * length)
        value = grown * value + float(np.linalg.norm(gap.plain))
        # By energy, of e − G.
        pushed = heavy * total(linear(self.ends[:, 0], self.ends[:, 1]))
        pulled = dual + slope + steep
        driven = rest + pushed + moved + heavy**2 * total(gap.rate)
        start = self.initial + heavy * float(gap.level[0])
        size = value + float(np.linalg.norm(gap.plain))
        m, spent = z.coercivity, driven * size + start**2 / 2
        energy = (pulled + math.sqrt(pulled**2 + 4 * m * spent)) / (2 * m)
        end = math.sqrt(pulled**2 / (2 * m) + 2 * spent)
        end += heavy * float(gap.level[-1])
        energy = grown * energy + float(np.linalg.norm(gap.steep))
        return EvolvingError(value, energy, grown * end, mu)


def measured(
    march: EvolvingMarch | EvolvingDifference,
    initial: float,
    data: np.ndarray,
    walls: tuple[np.ndarray, np.ndarray],
    gap: GapSizes,
) -> EvolvingSteps:
    """Measure a trajectory; collective."""
    flux, times, count = march.flux, march.times, len(march.times)
    found = [flux.residual(march.level(n), march.domain.tensors) for n in range(count)]
    steps = np.diff(times)
    means, slopes, ends = np.zeros(count - 1), np.zeros(count - 1), np.zeros((count - 1, 2))
    for n in range(1, count):
        step = float(steps[n - 1])
        change = march.state({n: 1 / step, n - 1: -1 / step})
        norm = flux.weighted_norm
        means[n - 1] = norm(march.rate({n: 0.5, n - 1: 0.5}) - change)
        slopes[n - 1] = norm(march.rate({n: 1 / step, n - 1: -1 / step}))
        ends[n - 1] = [norm(march.rate({n - 1 + side: 1.0}) - change) for side in (0, 1)]
    return EvolvingSteps(
        times,
        np.array([r.dual for r in found]),
        np.array([r.rest for r in found]),
        np.array([r.slope for r in found]),
        means,
        slopes,
        ends,
        data,
        walls,
        initial,
        gap,
    )
