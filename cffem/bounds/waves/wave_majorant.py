# SPDX-License-Identifier: MIT
"""A guaranteed bound for u_tt + σ u_t + α D*D u + m u + S u = f by the first-order system behind
it; no constant of the domain.

With H = −α ∫₀ᵗ Du the equation says u_t + σu + m∫u + ∫Su − D*H = v₀ + σu₀ + ∫f and H_t + αDu = 0,
integrals from 0 to t. For any ũ with the boundary values of u and any H̃ with D*H̃ in L2, both
continuous in time, let

    r₁ = ũ_t + σũ + m∫ũ + ∫Sũ − D*H̃ − v₀ − σu₀ − ∫f,     r₂ = H̃_t + α Dũ.

The errors e = u − ũ, h = H − H̃ and N² = ‖e‖² + ‖h‖²/α + m‖∫e‖² obey, since (D*h, e) = (h, De),

    N N' = −σ‖e‖² − (∫Se, e) − (r₁, e) − (r₂, h)/α, so N' ≤ (‖r₁‖² + ‖r₂‖²/α)^{1/2} + σ⁻N + ‖S‖ ∫N.

This is a bound of ‖e‖ itself. D is the curl or the gradient; the boundary condition of u (E × n =
0, or u = 0) is essential, so H̃ has none. For Nédélec elements it has the order of the error; for
Lagrange elements it loses one power of h.

Under the constraint div u = 0 a multiplier ∇π, π = 0 on the boundary, joins the equation. With the
L2 projection P onto divergence-free fields and ũ₀ = Pũ, the same holds for u − ũ₀ with ‖r₁ + ∇π̃‖
for any π̃, because Dũ₀ = Dũ and gradients are orthogonal to divergence-free fields; S(I − P)ũ joins
the sources. The rest of the error is (I − P)ũ, orthogonal to it and at most ‖ũ − D*A‖ for any A,
because D*A is divergence-free.

Here ũ is quadratic on each step with ũ_t linear between the velocities, H̃ and π̃ are found by
least squares at the levels, and all of them are polynomials in time whose norms are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from dolfinx import fem
from mpi4py import MPI

from cffem.bounds.enclosed.trajectory_columns import KEPT_NUMBERS, product
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.waves.wave_data import Source
from cffem.bounds.waves.wave_dual import Dual
from cffem.bounds.waves.wave_paths import (
    Trajectory,
    added,
    differences,
    differentiated,
    integrated,
    interpolated,
    windows,
)
from cffem.bounds.waves.wave_problem import WaveOperator
from cffem.bounds.waves.wave_rulers import Gradients, Ruler, imaged, zero_operator

if TYPE_CHECKING:
    from ufl.core.expr import Expr


# About how many numbers r₁ and r₂ have on a step for one coefficient of a broken polynomial.
RESIDUALS = 8


@dataclass(frozen=True)
class WaveResiduals:
    """What was measured on a trajectory.

    Attributes:
        residual: (‖r₁‖² + ‖r₂‖²/α)^{1/2} in L2 of each step.
        missed: bounds of ‖f − f_h‖ in L2 of each step.
        gradient: bounds of ‖(I − P)u_h‖ at the levels, zero without a constraint.
        slope: ‖s‖ on each step.
        fields: H̃, π̃ and A at the levels, which are linear in the trajectory and its source.
        parts: the coefficients of r₁ and r₂ by windows of steps, as polynomials of time; none where
            they are too many to keep.
    """

    residual: np.ndarray
    missed: np.ndarray
    gradient: np.ndarray
    slope: np.ndarray
    fields: tuple[np.ndarray, ...]
    parts: list[tuple[list[np.ndarray], list[np.ndarray]]]


class Majorant:
    """Measures residuals of trajectories in one conforming space with zero boundary values.

    Args:
        ruler: norms of the unknown, exact for one degree more than that of its space.
        space: the space of the unknown: Nédélec for a vector, Lagrange for a scalar.
        domain: the mesh.
        constrained: whether the unknown is divergence-free.
        degree: the degree of H̃, and of π̃.
    """

    def __init__(
        self, ruler: Ruler, space: fem.FunctionSpace, domain: Domain, constrained: bool, degree: int
    ):
        self.ruler, self.space, self.domain, self.comm = ruler, space, domain, domain.mesh.comm
        self.components = domain.dim if space.element.basix_element.value_shape else 1
        self.degree, self.first = degree, ruler.broken
        self._skew: dict[str, tuple[WaveOperator, Any]] = {}
        self.gradients = Gradients(self.first, degree) if constrained else None

    @cached_property
    def dual(self) -> Dual:
        """What the second field needs, made where there is a stiffness or a constraint."""
        return Dual(self.first, self.space, self.components, self.degree)

    # Operators
    # ----------------------------------------------------------------------------------------------

    def _apply(self, term: WaveOperator, u: Expr) -> ufl.Form:
        mesh = self.domain.mesh

        def times(matrix: np.ndarray) -> np.ndarray:
            return (
                fem.Constant(mesh, matrix[0, 0]) * u
                if self.components == 1
                else ufl.dot(fem.Constant(mesh, matrix), u)
            )

        slopes = zip(ufl.SpatialCoordinate(mesh), term.slope, strict=True)
        return sum(
            (coordinate * times(slope) for coordinate, slope in slopes if slope.any()),
            times(term.matrix),
        )

    def skew(self, name: str, term: WaveOperator, columns: np.ndarray) -> np.ndarray:
        """The coefficients of S u for the matrix of a term, assembled once for all its
        coefficients.
        """
        if name not in self._skew:
            self._skew[name] = term, self.first.moments(self.space, lambda u: self._apply(term, u))
        base, matrix = self._skew[name]
        return term.relative(base) * product(matrix, columns)

    # Measuring
    # ----------------------------------------------------------------------------------------------

    def measure(
        self,
        terms: dict[str, WaveOperator],
        path: Trajectory,
        source: Source,
        deleted: tuple[str, WaveOperator, Trajectory] | None = None,
        fields: tuple[np.ndarray, ...] | None = None,
    ) -> WaveResiduals:
        """The residual of a trajectory; collective.

        Args:
            terms: the operators of the equation.
            path: the trajectory.
            source: f.
            deleted: a further term on the right-hand side, with its name and the trajectory it acts
                on.
            fields: H̃, π̃ and A where they are known by linearity; the bound holds for any.
        """
        own, lengths = (
            sum(terms.values(), start=zero_operator(self.components, self.domain.dim)),
            path.steps,
        )
        steps = len(lengths)
        system = _System(self, own, terms, path, deleted)
        running, levels = np.zeros((self.first.owned, 1)), [np.zeros((self.first.owned, 1))]
        missed = np.zeros(steps)
        for n in range(steps if not source.vanishes else 0):
            missed[n] = source.gap(n)
            running = running + lengths[n] * source.polynomial(n)[0][:, None]
            levels.append(running)
        fields = fields or self._fields(system, own, source, levels)
        flux, potential, vectors = fields
        residual = np.zeros(steps)
        kept, keep = (
            [],
            deleted is None
            and self.comm.allreduce(RESIDUALS * steps * self.first.owned, op=MPI.MAX)
            <= KEPT_NUMBERS,
        )
        for window in windows(steps):
            first = self._first(system, window, flux, potential, source, levels)
            parts = first, self._second(system, window, flux) if own.stiffness else []
            residual[window] = self._sizes(*parts, own.stiffness, lengths[window])
            kept += [parts] if keep else []
        return WaveResiduals(
            residual,
            missed,
            self._divergent(path.states, vectors),
            self.ruler.sizes(path.bump),
            fields,
            kept,
        )

    def difference(
        self,
        ours: WaveResiduals,
        theirs: WaveResiduals,
        gap: Trajectory,
        source: Source,
        stiffness: float,
    ) -> WaveResiduals:
        """The residual of u_h − u_jh with the source −L_j u_jh: the difference of both residuals,
        because Lu − (L − L_j)u_j is L(u − u_j) + L_j u_j; collective.

        Args:
            ours, theirs: what was measured on u_h and u_jh, with parts.
            gap: u_h − u_jh.
            source: what the forcing differs by.
            stiffness: α, of both.
        """
        lengths = gap.steps
        pairs = zip(ours.parts, theirs.parts, strict=True)
        both = ((differences(a, c), differences(b, d)) for (a, b), (c, d) in pairs)
        residual = np.concatenate(
            [
                self._sizes(first, second, stiffness, lengths[window])
                for window, (first, second) in zip(windows(len(lengths)), both, strict=True)
            ]
        )
        missed = np.array([0.0 if source.vanishes else source.gap(n) for n in range(len(residual))])
        fields = tuple(a - b for a, b in zip(ours.fields, theirs.fields, strict=True))
        return WaveResiduals(
            residual,
            missed,
            self._divergent(gap.states, fields[2]),
            self.ruler.sizes(gap.bump),
            fields,
            [],
        )

    def _sizes(
        self,
        first: Iterable[np.ndarray],
        second: Iterable[np.ndarray],
        stiffness: float,
        lengths: np.ndarray,
    ) -> np.ndarray:
        """(‖r₁‖² + ‖r₂‖²/α)^{1/2} in L2 of each step; without α there is no r₂."""
        squares = sum(self.ruler.squares(part) / (2 * n + 1) for n, part in enumerate(first))
        for n, part in enumerate(second):
            squares += self.ruler.squares(part) / (2 * n + 1) / stiffness
        result: np.ndarray = np.sqrt(lengths * squares)
        return result

    def _fields(
        self, system: _System, own: WaveOperator, source: Source, levels: list[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """H̃, π̃ and A at the levels, by least squares."""
        count = len(system.path.times)
        rows = self.dual.owned if own.stiffness or self.gradients else 0
        flux, vectors = (np.zeros((rows, count), order="F") for _ in range(2))
        potential = np.zeros((self.gradients.owned if self.gradients else 0, count), order="F")
        for window in windows(count):
            target = system.target(window)
            if not source.vanishes:
                target -= np.concatenate(levels[window], axis=1)
            if self.gradients:
                potential[:, window] = self.gradients.solve(target)
                states = product(
                    self.dual.backward, product(self.ruler.matrix, system.path.states[:, window])
                )
                vectors[:, window] = self.dual.gauged(states)
            if own.stiffness:
                right = product(self.dual.backward, target)
                right -= (
                    self.dual.weight * own.stiffness * self.dual.coupled(system.integral[:, window])
                )
                flux[:, window] = self.dual.solve(right)
        return flux, potential, vectors

    def _first(
        self,
        system: _System,
        window: slice,
        flux: np.ndarray,
        potential: np.ndarray,
        source: Source,
        levels: Any,
    ) -> list[np.ndarray]:
        """The coefficients of r₁ on each step, as a polynomial of time."""
        steps, parts = system.path.steps, system.residual(window)
        if system.own.stiffness:
            for part, other in zip(
                parts,
                interpolated(*imaged(self.dual.adjoint, flux, window, steps), steps[window]),
                strict=False,
            ):
                part -= other
        if self.gradients:
            parts = added(
                parts,
                interpolated(
                    *imaged(self.gradients.matrix, potential, window, steps), steps[window]
                ),
            )
        if not source.vanishes:
            given = [source.polynomial(n) for n in range(window.start, window.stop)]
            columns = [np.stack([g[k] for g in given], axis=1) for k in range(3)]
            parts = added(
                parts,
                [
                    -p
                    for p in integrated(
                        np.concatenate(levels[window], axis=1), columns, steps[window]
                    )
                ],
            )
        return parts

    def _second(self, system: _System, window: slice, flux: np.ndarray) -> list[np.ndarray]:
        """The coefficients of r₂ on each step, as a polynomial of time."""
        steps = system.path.steps
        parts = differentiated(*imaged(self.dual.identity, flux, window, steps), steps[window])
        states = [
            product(self.dual.derivative, system.own.stiffness * p) for p in system.state(window)
        ]
        for part, state in zip(parts, states, strict=False):
            part[self.dual.derivatives] += state
        return parts + states[len(parts) :]

    def _divergent(self, states: np.ndarray, vectors: np.ndarray) -> np.ndarray:
        """Bounds of the gradient part of states, zero without a constraint."""
        if not self.gradients:
            return np.zeros(states.shape[1])
        parts = [
            product(self.ruler.matrix, states[:, window])
            - product(self.dual.adjoint, vectors[:, window])
            for window in windows(states.shape[1])
        ]
        return np.sqrt(np.concatenate([self.ruler.squares(part) for part in parts]))

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        for _, matrix in self._skew.values():
            matrix.destroy()
        if "dual" in self.__dict__:
            self.dual.destroy()
        if self.gradients:
            self.gradients.destroy()


class _System:
    """The parts of r₁ that come from the trajectory, and from the one that a deleted term
    acts on.
    """

    def __init__(
        self,
        majorant: Majorant,
        own: WaveOperator,
        terms: dict[str, WaveOperator],
        path: Trajectory,
        deleted: tuple[str, WaveOperator, Trajectory] | None,
    ):
        self.majorant, self.own, self.path = majorant, own, path
        self.integral, self.bump = path.integral, path.bump
        self.skewed = {name: term for name, term in terms.items() if term.skewed}
        self.deleted = deleted
        if deleted is not None:
            self.other_integral, self.other_bump = deleted[2].integral, deleted[2].bump

    def target(self, window: slice) -> np.ndarray:
        """The coefficients of r₁ without H̃, π̃ and f at the levels."""
        path, own = self.path, self.own
        plain = (
            path.rates[:, window]
            - path.rates[:, :1]
            + own.damping * (path.states[:, window] - path.states[:, :1])
        )
        plain = plain + own.mass * self.integral[:, window]
        if self.deleted is not None:
            _, term, other = self.deleted
            plain = (
                plain
                + term.damping * (other.states[:, window] - other.states[:, :1])
                + term.mass * self.other_integral[:, window]
            )
        result = product(self.majorant.ruler.matrix, plain)
        for name, term, integral in self._skew_integrals():
            result += self.majorant.skew(name, term, integral[:, window])
        return result

    def _skew_integrals(self) -> Iterator[tuple[str, WaveOperator, np.ndarray]]:
        yield from ((name, term, self.integral) for name, term in self.skewed.items())
        if self.deleted is not None and self.deleted[1].skewed:
            yield self.deleted[0], self.deleted[1], self.other_integral

    def state(self, window: slice) -> list[np.ndarray]:
        """ũ on each step, as a polynomial of time."""
        return interpolated(
            self.path.states[:, window.start : window.stop + 1],
            self.bump[:, window],
            self.path.steps[window],
        )

    def residual(self, window: slice) -> list[np.ndarray]:
        """The coefficients of r₁ without H̃, π̃ and f on each step, as a polynomial of time."""
        path, own, steps = self.path, self.own, self.path.steps[window]
        after = slice(window.start, window.stop + 1)
        state = self.state(window)
        integral = integrated(self.integral[:, window], state, steps)
        rate = differentiated(path.states[:, after], self.bump[:, window], steps)
        rate[0] = rate[0] - path.rates[:, :1] - own.damping * path.states[:, :1]
        plain = added(rate, [own.damping * p for p in state], [own.mass * p for p in integral])
        skewed = [(name, term, integral) for name, term in self.skewed.items()]
        if self.deleted is not None:
            name, term, other = self.deleted
            theirs = interpolated(other.states[:, after], self.other_bump[:, window], steps)
            their_integral = integrated(self.other_integral[:, window], theirs, steps)
            theirs[0] = theirs[0] - other.states[:, :1]
            plain = added(
                plain, [term.damping * p for p in theirs], [term.mass * p for p in their_integral]
            )
            if term.skewed:
                skewed.append((name, term, their_integral))
        parts = [product(self.majorant.ruler.matrix, p) for p in plain]
        for name, term, polynomial in skewed:
            parts = added(parts, [self.majorant.skew(name, term, p) for p in polynomial])
        return parts
