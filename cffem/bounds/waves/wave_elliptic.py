# SPDX-License-Identifier: MIT
"""A guaranteed bound for u_tt + σ u_t − a Δu + c u = f, u = 0 on the boundary of a convex plane
domain, with the full power of h.

Z^n ∈ V_h represents f^n − L u^n − σ v^n on V_h, where L = −aΔ + c, so u^n is the Galerkin solution
of a problem with the exact solution ω^n: L ω^n = f^n − Z^n − σ v^n. By an equilibrated flux q^n,
div q^n = Π f^n − Z^n − c u^n − σ v^n (`flux_basis`), and Kobayashi's interpolation constants C_K
(Aubin–Nitsche), ε^n = ω^n − u^n obeys

    ‖ε^n‖ ≤ (Z₂/a) (‖C_K (q^n + a∇u^n)‖ + ‖(h_K C_K/π) (f^n − Π f^n)‖), Z₂ = max(1, aλ₁/Λ), Λ = aλ₁
    + c,

and so do differences of levels. With I linear interpolation, s_u = (v^n − v^{n−1})/τ, s_v = (Z^n −
Z^{n−1})/τ, the defects d_u = (u^n − u^{n−1})/τ − mean v, d_v = (v^n − v^{n−1})/τ − mean Z, and β =
(t − t_{n−1})(t − t_n)/2, the distances ρ = u − Iω − β s_u and ϱ = u_t − Iv − β s_v obey

    ρ_t = ϱ + β s_v − d_u − (ε^n − ε^{n−1})/τ, ϱ_t = −Lρ − σϱ + (f − If) − β L s_u − σβ s_v − d_v,

so N² = ‖ρ‖² + ‖L^{−1/2} ϱ‖² grows at most by the norms of the sources, and ‖u − Iu_h‖ ≤ N + ‖Iε‖ +
‖β s_u‖. Where Λ ≤ 0, or where it is better, a part of c is taken for a source: L′ = L + (c′ − c)
and (c′ − c)(u − Iu_h) is bounded by N itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
import ufl

from cffem._compat import assemble_matrix, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.trajectory_columns import product
from cffem.bounds.flux.equilibrated import FluxEquilibration
from cffem.bounds.flux.flux_basis import Columns, FluxBasis
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.waves.wave_growth import evolve
from cffem.bounds.waves.wave_paths import Trajectory
from cffem.bounds.waves.wave_problem import WaveOperator

if TYPE_CHECKING:
    from dolfinx import fem


@dataclass(frozen=True)
class Elliptic:
    """What was measured on a trajectory, by levels or by steps.

    Attributes:
        spatial: ‖C_K (q + a∇u)‖ with oscillation, at the levels.
        rates: the same of the differences of levels over τ.
        defects: ‖d_u‖ and ‖d_v‖, shape (2, steps).
        slopes: ‖s_u‖ and ‖s_v‖.
        gradient: ‖∇s_u‖.
        missed: ‖f − If_h‖ in L2 of each step.
        levels: Z at the levels, which is linear in the trajectory and its source.
    """

    spatial: np.ndarray
    rates: np.ndarray
    defects: np.ndarray
    slopes: np.ndarray
    gradient: np.ndarray
    missed: np.ndarray
    levels: np.ndarray


@dataclass(frozen=True)
class Given:
    """What a source contributes to the measurement of any trajectory.

    Attributes:
        moments: coefficients of Π f at the levels, None where f is zero.
        loads: (f, v) for the nodal functions v.
        levels, rates: ‖(h_K C_K/π) (f − Π f)‖ at the levels, and of their differences over τ.
        missed: ‖f − If_h‖ in L2 of each step, what quadrature does not see included.
    """

    moments: np.ndarray | None
    loads: np.ndarray | None
    levels: np.ndarray
    rates: np.ndarray
    missed: np.ndarray


def _nothing(count: int) -> Given:
    return Given(None, None, np.zeros(count), np.zeros(count - 1), np.zeros(count - 1))


class EllipticReconstruction:
    """Measures trajectories in one Lagrange space on a convex plane domain.

    Args:
        space: the space.
        domain: the mesh.
        times: the time levels of all trajectories.
    """

    def __init__(self, space: fem.FunctionSpace, domain: Domain, times: np.ndarray):
        assert domain.interpolation is not None
        self.equilibration, self.times = FluxEquilibration(space, domain), times
        self.sources = self.equilibration.sources
        self.sources.kept = len(times) + 1
        self.basis = FluxBasis(self.equilibration)
        self._known: dict[sp.Expr, Given] = {}
        u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
        self._stiffness = assemble_matrix(
            form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, domain.mesh.comm)
        )

    # Measuring
    # ----------------------------------------------------------------------------------------------

    def measure(
        self,
        own: WaveOperator,
        path: Trajectory,
        source: sp.Expr,
        deleted: tuple[WaveOperator, Trajectory] | None = None,
        guess: np.ndarray | None = None,
    ) -> Elliptic:
        """Measure a trajectory; collective.

        Args:
            own: σ, a and c.
            path: the trajectory.
            source: f.
            deleted: a further term on the right-hand side and the trajectory it acts on.
            guess: Z where it is known by linearity, up to rounding errors.
        """
        given = own.mass * path.states + own.damping * path.rates
        if deleted is not None:
            given = (
                given + deleted[0].mass * deleted[1].states + deleted[0].damping * deleted[1].rates
            )
        data = self._given(source)
        slopes = self._slopes(own, path, given, data.loads, guess)
        levels, rates = self.basis.measured(
            Columns(own.stiffness * path.states, -slopes - given, data.moments), path.steps
        )
        change_u, change_v = (
            np.diff(path.rates, axis=1) / path.steps,
            np.diff(slopes, axis=1) / path.steps,
        )
        defect_u = (
            np.diff(path.states, axis=1) / path.steps - (path.rates[:, 1:] + path.rates[:, :-1]) / 2
        )
        defect_v = change_u - (slopes[:, 1:] + slopes[:, :-1]) / 2
        sizes = [
            self.equilibration.mass_norms(columns)
            for columns in (defect_u, defect_v, change_u, change_v)
        ]
        gradient = self.equilibration.norms_by(self._stiffness, change_u)
        return Elliptic(
            levels + data.levels,
            rates + data.rates,
            np.array(sizes[:2]),
            np.array(sizes[2:]),
            gradient,
            data.missed,
            slopes,
        )

    def _slopes(
        self,
        own: WaveOperator,
        path: Trajectory,
        given: np.ndarray,
        loads: np.ndarray | None,
        guess: np.ndarray | None,
    ) -> np.ndarray:
        """Z at the levels."""
        equilibration = self.equilibration
        right = -own.stiffness * product(
            self._stiffness, path.states
        ) - equilibration.mass_times_columns(given)
        if loads is not None:
            right += loads
        right[equilibration.held] = 0.0
        result, steps = np.zeros_like(right), path.steps
        for n in range(right.shape[1]):
            guesses = [] if guess is None else [guess[:, n]]
            # The trapezoidal rule has Z^n + Z^{n−1} = 2 (v^n − v^{n−1})/τ.
            if n:
                guesses.append(
                    2 * (path.rates[:, n] - path.rates[:, n - 1]) / steps[n - 1] - result[:, n - 1]
                )
            result[:, n] = equilibration.represented(right[:, n], guesses)
        return result

    def _given(self, source: sp.Expr) -> Given:
        """What a source contributes, kept because most trajectories have the same; collective."""
        if source not in self._known:
            self._known[source] = (
                self._sampled(source) if source != 0 else _nothing(len(self.times))
            )
        return self._known[source]

    def _sampled(self, source: sp.Expr) -> Given:
        when = [float(time) for time in self.times]
        samples = [self.sources.at(source, now) for now in when]
        unseen = np.array([sample.unseen for sample in samples])
        missed = self.sources.not_linear(source, self.times)
        missed = missed + np.sqrt(np.diff(when)) * np.maximum(unseen[1:], unseen[:-1])
        moments = np.stack([sample.moments for sample in samples], axis=2)
        loads = np.stack([self.equilibration.load(sample.moments) for sample in samples], axis=1)
        return Given(moments, loads, *self._oscillations(source, when), missed)

    def _oscillations(self, source: sp.Expr, when: list[float]) -> tuple[np.ndarray, np.ndarray]:
        """‖(h_K C_K/π) (f − Π f)‖ at the levels, and of the differences of levels over τ;
        collective.
        """
        domain = self.equilibration.domain
        assert domain.interpolation is not None
        weights = (domain.interpolation * domain.diameters / math.pi) ** 2
        wanted = [[(now, 1.0)] for now in when]
        for before, after in pairwise(when):
            rate = 1 / (after - before)
            wanted.append([(after, rate), (before, -rate)])
        squares = [
            float(weights @ self.sources.oscillation(source, pairs) ** 2) for pairs in wanted
        ]
        sizes = np.sqrt(domain.mesh.comm.allreduce(np.array(squares)))
        return sizes[: len(when)], sizes[len(when) :]

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self._stiffness.destroy()
        self.equilibration.destroy()


@dataclass(frozen=True)
class EllipticBound:
    """A bound from measured numbers.

    Attributes:
        value: of ‖u − Iu_h‖.
        steps: of ‖u − Iu_h‖ in L2 of each step.
        energy: of N in L2 of each step.
        reaction: c′.
    """

    value: float
    steps: np.ndarray
    energy: np.ndarray
    reaction: float


def elliptic_bound(
    own: WaveOperator,
    measured: Elliptic,
    lengths: np.ndarray,
    eigenvalue: float,
    start: tuple[float, float],
    reaction: float,
    extra: Any = None,
) -> EllipticBound | None:
    """The bound with c′ = `reaction`, None where it gives none.

    Args:
        own: σ, a and c.
        measured: the measured numbers.
        lengths: τ_n, those of the steps.
        eigenvalue: λ₁.
        start: the initial errors of u and u_t.
        reaction: c′ ≥ c.
        extra: given Λ′ and c′, further sources of ϱ in the norm of L′^{−1/2}, in L2 of each step.
    """
    diffusive, shift = own.stiffness * eigenvalue, reaction - own.mass
    margin = diffusive + reaction
    if not margin > 0:
        return None
    root, bump = np.sqrt(lengths), np.sqrt(lengths**5 / 120)
    factor = max(1.0, diffusive / margin) / own.stiffness
    spatial, rates = factor * measured.spatial, factor * measured.rates
    linear = np.sqrt(
        lengths * (spatial[:-1] ** 2 + spatial[:-1] * spatial[1:] + spatial[1:] ** 2) / 3
    )
    (defect_u, defect_v), (slope_u, slope_v) = measured.defects, measured.slopes
    first = root * (rates + defect_u) + bump * slope_v
    second = (
        measured.missed
        + root * defect_v
        + abs(own.damping) * bump * slope_v
        + shift * (linear + bump * slope_u)
    )
    second = second / math.sqrt(margin) + bump * np.sqrt(
        own.stiffness * measured.gradient**2 + max(reaction, 0.0) * slope_u**2
    )
    if extra is not None:
        second = second + extra(margin, reaction)
    # δ(ρ, L′⁻¹ϱ) ≤ δ Λ′^{−1/2} ‖ρ‖ ‖L′^{−1/2}ϱ‖ ≤ δ Λ′^{−1/2} N²/2: with δ = 2|Λ| the true rate
    # |Λ|^{1/2} of growth.
    growth = max(0.0, -own.damping) + shift / (2 * math.sqrt(margin))
    _, energy = evolve(
        math.hypot(start[0] + spatial[0], start[1] / math.sqrt(margin)),
        np.hypot(first, second),
        lengths,
        growth,
    )
    steps = energy + linear + bump * slope_u
    value = sum(float(np.linalg.norm(part)) for part in (energy, linear, bump * slope_u))
    return EllipticBound(value, steps, energy, reaction)


def smallest_bound(
    own: WaveOperator,
    measured: Elliptic,
    lengths: np.ndarray,
    eigenvalue: float,
    start: Any,
    extra: Any = None,
) -> EllipticBound:
    """The smallest bound over some c′."""
    diffusive = own.stiffness * eigenvalue
    margin = diffusive + own.mass
    wanted = [own.mass] + [
        value - diffusive for value in (abs(margin), diffusive / 4, diffusive) if value > margin
    ]
    found = [
        elliptic_bound(own, measured, lengths, eigenvalue, start, reaction, extra)
        for reaction in wanted
    ]
    finite = [bound for bound in found if bound is not None and math.isfinite(bound.value)]
    if not finite:
        raise NotCovered("the solution may grow too much for a finite bound")
    return min(finite, key=lambda bound: bound.value)
