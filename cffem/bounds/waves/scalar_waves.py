# SPDX-License-Identifier: MIT
"""Guaranteed error bounds for scalar waves u_tt = a Δu − c u − σ u_t + f with u = 0 on the
boundary, in L2(0, T; L2(Ω)).

On convex plane domains there are two bounds: one with the full power of h (`wave_elliptic`), and
that of the first-order system (`wave_majorant`), which loses one power of h and is smaller where h
is not small against the length of the waves: the ratio of the two is about C_K ω a^{−1/2}, with ω
measured on the factual solution, and that decides which one is computed. Elsewhere, and where the
Laplacian is deleted, the second is taken, which holds on every domain.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.steady_bounds import check_element
from cffem.bounds.enclosed.sources import Sources
from cffem.bounds.waves.wave_certifier import PathBound, SecondOrderCertifier, Terms
from cffem.bounds.waves.wave_elliptic import (
    Elliptic,
    EllipticBound,
    EllipticReconstruction,
    smallest_bound,
)
from cffem.bounds.waves.wave_paths import Trajectory
from cffem.bounds.waves.wave_problem import WaveOperator
from cffem.symbols.fields import ScalarField

# Measured: with cells this short, C_K ω a^{−1/2} k < 1/2 for degree k, fluxes give the smaller
# bound.
SHORT = 0.5


class WaveCertifier(SecondOrderCertifier):
    """Certificates for one model of a scalar wave.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_square
        >>> from cffem import dt, lap, x, y
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "damping": -dt(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_square(MPI.COMM_SELF, 8, 8),
        ...     elements={u: ("Lagrange", 1)},
        ...     initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y), dt(u): 0},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     time=cf.Window(0, 1, steps=20),
        ... )
        >>> bound = WaveCertifier(
        ...     cf.Model(library, {"lap": 1.0, "damping": 0.01}, experiment)
        ... ).deletion("damping")
        >>> (
        ...     bound.certificate.kind,
        ...     bound.margin < 0.1 * (bound.eta_factual + bound.eta_counterfactual),
        ... )
        ('guaranteed', True)
    """

    def _check(self) -> None:
        super()._check()
        if not isinstance(self.unknown, ScalarField):
            raise NotCovered("the unknown is not a single scalar field")
        if self.constrained:
            raise NotCovered("a constraint is declared")
        check_element(self.model, self.unknown)

    @property
    def method(self) -> str:  # type: ignore[override]
        """How bounds are obtained."""
        if not self.by_fluxes:
            return (
                "first-order system, residuals in L2 (valid on every domain, one power of h lost)"
            )
        return (
            "elliptic reconstruction by equilibrated fluxes, Aubin–Nitsche with Kobayashi's "
            "constants, weak energy norm"
        )

    @cached_property
    def reconstruction(self) -> EllipticReconstruction:
        """Where trajectories are measured on convex plane domains."""
        return EllipticReconstruction(self.space, self.domain, self.model.times)

    @cached_property
    def by_fluxes(self) -> bool:
        """Whether bounds by equilibrated fluxes are expected to be the smaller ones; collective."""
        own = self._own(self.terms)
        if self.domain.dim != 2 or not self.domain.convex:
            return False
        longest = self.domain.largest_interpolation
        if longest is None or own.stiffness == 0 or own.skewed:
            return False
        path = self.path(self.model.factual)
        state, rate = (
            float(np.linalg.norm(self.ruler.sizes(columns)))
            for columns in (path.states, path.rates)
        )
        degree = self.space.element.basix_element.degree
        return longest * rate * degree < SHORT * math.sqrt(own.stiffness) * state

    def _elliptic(self, own: WaveOperator) -> bool:
        return self.by_fluxes and own.stiffness > 0

    def _state(self, terms: Terms, path: Trajectory) -> PathBound:
        own = self._own(terms)
        return (
            self._by_reconstruction(own, path)
            if self._elliptic(own)
            else super()._state(terms, path)
        )

    def _by_reconstruction(self, own: WaveOperator, path: Trajectory) -> PathBound:
        measured = self.reconstruction.measure(own, path, self.forcing[0] + own.source[0])
        start = tuple(
            self.ruler.distance(given, columns[:, 0])
            for given, columns in zip(self._start, (path.states, path.rates), strict=True)
        )
        return _as_path(
            smallest_bound(own, measured, path.steps, self.domain.eigenvalue, start),
            start[0],
            measured,
        )

    def _difference(
        self, terms: Terms, name: str, gap: Trajectory, other: Trajectory, error: PathBound
    ) -> PathBound | None:
        own, term = self._own(terms), terms[name]
        if term.stiffness or not self._elliptic(own):
            return super()._difference(terms, name, gap, other, error)
        shared = self._shared(gap, error)
        measured = self.reconstruction.measure(
            own, gap, term.source[0], (term, other), shared[0] if shared else None
        )
        diffusive = own.stiffness * self.domain.eigenvalue
        bump = np.sqrt(gap.steps**5 / 120) * error.slopes

        def extra(margin: float, reaction: float) -> np.ndarray:
            """What the term makes of the error of u_j, whose rate is bounded in the norm of
            its own operator.
            """
            ratio = math.sqrt(max(1.0, (diffusive + error.reaction) / margin))
            rates = ratio * error.plain + bump / math.sqrt(margin)
            return abs(term.damping) * rates + abs(term.mass) * error.steps / math.sqrt(margin)

        start = tuple(
            float(self.ruler.sizes(columns[:, :1])[0]) for columns in (gap.states, gap.rates)
        )
        found = smallest_bound(own, measured, gap.steps, self.domain.eigenvalue, start, extra)
        return _as_path(found, start[0], measured)

    def _data_sources(self) -> list[Sources]:
        found = super()._data_sources()
        return [*found, self.reconstruction.sources] if "reconstruction" in self.__dict__ else found

    def _hypotheses(self) -> tuple[tuple[str, str], ...]:
        return (
            (
                "the equation is u_tt + σ u_t − a Δu + c u = f with constants a ≥ 0 and σ, and "
                "affine c",
                "read off the symbolic terms",
            ),
            (
                "Ω is the meshed domain and u = 0 on all of its boundary",
                "declared conditions, held unknowns and values of the solution",
            ),
            (
                "u_h is continuous, piecewise polynomial and otherwise arbitrary",
                "element of the model; its residual is computed anew",
            ),
            ("rounding errors are negligible", "not enclosed"),
            *self.domain.evidence,
        )

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        super().destroy()
        if "reconstruction" in self.__dict__:
            self.reconstruction.destroy()


def _as_path(bound: EllipticBound, start: float, measured: Elliptic) -> PathBound:
    parts = {
        "energy": float(np.linalg.norm(bound.energy)),
        "initial error": start,
        "c′": bound.reaction,
    }
    return PathBound(
        bound.value,
        bound.steps,
        bound.energy,
        start,
        parts,
        measured.slopes[1],
        bound.reaction,
        (measured.levels,),
    )
