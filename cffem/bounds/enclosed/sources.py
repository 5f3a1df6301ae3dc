# SPDX-License-Identifier: MIT
"""Sources of an equation cell by cell: their polynomial part, what is left of it, and what is not
seen.

All integrals come with a bound of what lies between the points of their rules (`resolved`), in
space and in time. A source is taken apart into Σ_i T_i(t) S_i(x) where it can be, so that a march
evaluates functions of the place once and not at every time level, and functions of time on steps
that are divided at no cost. The part that no polynomial of degree k on the cell carries is the data
oscillation of a flux.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp
from mpi4py import MPI

from cffem.bounds.certificate import ESTIMATED, GUARANTEED, NotCovered
from cffem.bounds.enclosed.pieces import Prisms
from cffem.bounds.enclosed.resolved import Found, Resolution, Resolver
from cffem.bounds.geometry.mesh_constants import edge_lengths, volumes
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import SPACE, t

# How many functions of the place a source may have before it is evaluated anew at every time.
LARGEST_SUM = 6
# Steps of time are divided at little cost, so narrow pulses are followed as far as numbers reach.
IN_SPACE, IN_TIME = Resolution(), Resolution(depth=40, parts=20_000)
# Levels of an error estimate ask whether they see their data at all, see `Looking`: what is not
# seen is to be small beside the data, and not beside what a projection of smooth data misses.
ROUGHLY = Resolution(rounding=1e-3)
# Cells times steps are many; what is not seen of moving sources is found out less closely.
IN_BOTH = Resolution(share=0.1, depth=6, parts=10_000)
# Functions that have no derivatives everywhere.
ROUGH = (
    sp.Piecewise,
    sp.Heaviside,
    sp.sign,
    sp.Abs,
    sp.Max,
    sp.Min,
    sp.atan2,
    sp.acot,
    sp.floor,
    sp.ceiling,
)
START, END = sp.Dummy("start", real=True), sp.Dummy("end", real=True)


@dataclass(frozen=True)
class Sampled:
    """A source at one time.

    Attributes:
        moments: coefficients of p, which is nearly Π s, in orthonormal polynomials of the reference
            cell, shape (polynomials, cells).
        oscillation: a bound of ‖s − p‖ on each cell.
        unseen: a bound of ‖Π s − p‖.
    """

    moments: np.ndarray
    oscillation: np.ndarray
    unseen: float


class Sources:
    """Evaluates sources on the cells of a mesh.

    Args:
        comm: the communicator.
        corners: corners of this rank's own cells.
        degree: the degree k of the projection.
        resolution: how closely functions of the place are looked at.

    Attributes:
        kept: how many samples of a source are kept.
        quadrature: the degree up to which polynomials are integrated exactly.
        blind: what of the data could not be enclosed, and why; then bounds are estimates.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        corners: np.ndarray,
        degree: int,
        resolution: Resolution = IN_SPACE,
    ):
        self.comm, self.corners, self.dim = comm, corners, corners.shape[2]
        self.resolution = resolution
        self.degree, self.quadrature = degree, 2 * (degree + IN_SPACE.beyond)
        self.area = volumes(corners)
        self.volume = self.area * math.factorial(self.dim)
        self.widths = edge_lengths(corners).max(axis=1, initial=0.0) / extent(comm, corners)
        self.kept = 3
        self.blind: dict[str, str] = {}
        self._parts: dict[sp.Expr, SeparatedSource | None] = {}
        self._kept: dict[tuple[sp.Expr, float], Sampled] = {}

    def at(self, source: sp.Expr, when: float = 0.0) -> Sampled:
        """The source at a time; collective.

        Raises:
            NotCovered: it is not finite.
        """
        key = (source, when if source.has(t) else 0.0)
        if key not in self._kept:
            while len(self._kept) >= self.kept:
                del self._kept[next(iter(self._kept))]
            parts = self.separated(source)
            if not source.free_symbols & {*SPACE}:
                self._kept[key] = self._constant(source, when)
            elif parts is not None:
                self._kept[key] = parts.at(when)
            else:
                self._kept[key] = SeparatedSource(
                    self, [sp.S.One], self.resolved([source], when)
                ).at(0.0)
        return self._kept[key]

    def _constant(self, source: sp.Expr, when: float) -> Sampled:
        """A source that is the same everywhere, which any rule integrates."""
        value = float(numeric(source, (t,))(when))
        if not math.isfinite(value):
            raise NotCovered("the forcing is not finite everywhere")
        count, polynomials = len(self.corners), math.comb(self.degree + self.dim, self.dim)
        moments = np.zeros((polynomials, count))
        # The first polynomial is constant, with the integral of its square over the reference cell
        # one.
        moments[0] = value / math.sqrt(math.factorial(self.dim))
        return Sampled(moments, np.zeros(count), 0.0)

    def resolved(self, functions: list[sp.Expr], when: float = 0.0) -> Found:
        """Functions of the place on all cells; collective.

        Raises:
            NotCovered: one is not finite.
        """
        grid = Prisms(self.corners, SPACE[: self.dim], fixed={t: when})
        resolver = Resolver(self.comm, grid, functions, self.degree, self.resolution, self.widths)
        found = resolver.resolve()
        self._note(resolver, functions)
        return found

    @property
    def kind(self) -> str:
        """Of the bounds that rest on these sources."""
        return ESTIMATED if self.blind else GUARANTEED

    @property
    def evidence(self) -> tuple[str, str]:
        """How it is known what integrals of data are."""
        if not self.blind:
            return (
                "integrals of data over cells and time steps are those of the quadrature, up to "
                "what is in the bound",
                "interval arithmetic on cells and steps that are divided where data are narrow",
            )
        shown = "; ".join(f"{data}: {reason}" for data, reason in self.blind.items())
        return (
            "data have no features that are narrower than the points at which they were sampled, "
            f"about {2**IN_SPACE.blind * self.degree + 4} along a cell and {2**IN_TIME.blind * 4} "
            "in a time step",
            f"not enclosed: {shown}",
        )

    def _note(self, resolver: Resolver, functions: list[sp.Expr]) -> None:
        if resolver.blind:
            self.blind[", ".join(map(str, functions))[:60]] = resolver.blind

    def distance(self, source: sp.Expr, coefficients: np.ndarray) -> float:
        """‖s − w‖ for a function w of degree k given by its coefficients on each cell;
        collective.
        """
        found = self.resolved([source])
        gap = ((found.moments[0] - coefficients.T) ** 2).sum(axis=0) @ self.volume
        near, far = self.comm.allreduce(
            np.array([gap + found.rests.sum(), (found.distance**2).sum()])
        )
        return math.sqrt(near) + 2 * math.sqrt(far)

    def separated(self, source: sp.Expr) -> SeparatedSource | None:
        """The source as Σ T_i(t) S_i(x); None where it is no short sum of that kind; collective."""
        if source not in self._parts:
            found = taken_apart(source) if source.has(t) else None
            self._parts[source] = None
            if found is not None:
                self._parts[source] = SeparatedSource(
                    self, list(found.values()), self.resolved(list(found))
                )
        return self._parts[source]

    def size(self, source: sp.Expr, weights: list[tuple[float, float]]) -> float:
        """A bound of ‖Σ ω s(t)‖ for pairs of a time and a weight ω; collective."""
        parts = self.separated(source)
        if parts is not None:
            return parts.size(sum(w * parts.factors(when) for when, w in weights))
        if not source.has(t):
            weights = [(0.0, sum(w for _, w in weights))]
        if source == 0 or all(w == 0 for _, w in weights):
            return 0.0
        samples = [(self.at(source, when), w) for when, w in weights]
        moments = sum(w * s.moments for s, w in samples)
        rest = sum(abs(w) * s.oscillation for s, w in samples)
        squares = [(moments**2).sum(axis=0) @ self.volume, (rest**2).sum()]
        return float(np.sqrt(self.comm.allreduce(np.array(squares))).sum())

    def oscillation(self, source: sp.Expr, weights: list[tuple[float, float]]) -> np.ndarray:
        """A bound of ‖Σ ω (s(t) − p(t))‖ on each cell for pairs of a time and a weight ω;
        collective.
        """
        parts = self.separated(source)
        if parts is not None:
            return parts.oscillation(sum(w * parts.factors(when) for when, w in weights))
        if not source.has(t):
            return abs(sum(w for _, w in weights)) * self.at(source).oscillation
        return sum(abs(w) * self.at(source, when).oscillation for when, w in weights)

    # Time -----------------------------------------------------------------------------------------

    def not_linear(self, source: sp.Expr, times: np.ndarray) -> np.ndarray:
        """A bound of ‖f − I f‖ on each step, I linear interpolation in time; collective."""
        if not source.has(t):
            return np.zeros(len(times) - 1)
        parts = self.separated(source)
        if parts is None:
            return self.moving(source, times, 1)
        factors = self.in_time(parts.functions, times, 1)
        count = len(parts.functions)
        gaps = factors.products[:, count:, count:]
        found = np.sqrt(np.maximum(np.einsum("sij,ij->s", gaps, parts.gram), 0.0))
        # What is not seen in space of each part, and what is not seen in time.
        seen = np.sqrt(np.einsum("sii->is", gaps))
        more = 2 * seen.T @ parts.distance
        result: np.ndarray = found + more + 2 * factors.distance[count:].T @ parts.sizes
        return result

    def in_time(self, functions: list[sp.Expr], times: np.ndarray, degree: int) -> Found:
        """Functions of time on all steps, then how far each is from its interpolant; collective.

        Args:
            functions: the functions.
            times: the ends of the steps.
            degree: that of the interpolant, which is linear or quadratic.

        Raises:
            NotCovered: one is not finite.
        """
        grid = Prisms(
            np.stack([times[:-1], times[1:]], axis=1)[:, :, None],
            (t,),
            fixed={START: times[:-1], END: times[1:]},
        )
        gaps = [off_interpolant(function, degree) for function in functions]
        # Every rank knows the whole of time.
        resolver = Resolver(MPI.COMM_SELF, grid, [*functions, *gaps], None, IN_TIME)
        found = resolver.resolve()
        self._note(resolver, functions)
        return found

    def moving(self, source: sp.Expr, times: np.ndarray, degree: int) -> np.ndarray:
        """A bound of ‖f − I f‖ on each step for a source that is no short sum of products;
        collective.

        Where f is smooth it is c τⁿ ‖∂ⁿf/∂tⁿ‖ with n = `degree` + 1: for linear interpolation c =
        1/π²; for a quadratic one c = 1/(2√3 π³), since e = f − I f vanishes at both ends of each
        half of a step, so that ‖e‖ ≤ (τ/2π)² ‖f'' − (I f)''‖, and (I f)'' is the mean of f'' with a
        hat function of mean square 4/3 for a weight.
        """
        smooth = not source.has(*ROUGH)
        function = source.diff(t, degree + 1) if smooth else off_interpolant(source, degree)
        factor = {1: 1 / math.pi**2, 2: 1 / (2 * math.sqrt(3) * math.pi**3)}[degree]
        result = np.zeros(len(times) - 1)
        for n, step in enumerate(np.diff(times)):
            ends = np.broadcast_to(times[n : n + 2], (len(self.corners), 2))
            fixed = {} if smooth else {START: float(times[n]), END: float(times[n + 1])}
            grid = Prisms(self.corners, SPACE[: self.dim], ends, fixed)
            resolver = Resolver(self.comm, grid, [function], None, IN_BOTH)
            found = resolver.resolve()
            self._note(resolver, [source])
            squares = [found.products.sum(), (found.distance**2).sum()]
            seen, far = np.sqrt(self.comm.allreduce(np.array(squares)))
            result[n] = (factor * step ** (degree + 1) if smooth else 1.0) * (seen + 2 * far)
        return result


class SeparatedSource:
    """Σ_i T_i(t) S_i(x), sampled.

    Attributes:
        functions: T_i.
        moments: coefficients of the projections of S_i.
        rests: inner products of what these miss, on each cell.
        gram: (S_i, S_j) as the rule has it; norms may be larger by twice those of `distance`.
        distance: bounds of the distance of S_i to what the rule integrates exactly.
        sizes: bounds of ‖S_i‖.
    """

    def __init__(self, sources: Sources, functions: list[sp.Expr], found: Found):
        self.functions, self._comm = functions, sources.comm
        self._factors = [numeric(function, (t,)) for function in functions]
        self.moments, self.rests, self._local = found.moments, found.rests, found.distance
        self.gram = sources.comm.allreduce(found.products.sum(axis=0))
        squares = sources.comm.allreduce(
            np.array([(found.distance**2).sum(axis=1), (found.unseen**2).sum(axis=1)])
        )
        self.distance, self._unseen = np.sqrt(squares)
        self.sizes = np.sqrt(np.diag(self.gram)) + 2 * self.distance

    def factors(self, when: float) -> np.ndarray:
        """T_i at a time.

        Raises:
            NotCovered: one is not finite.
        """
        with np.errstate(all="ignore"):
            found = np.array([float(factor(when)) for factor in self._factors])
        if not np.isfinite(found).all():
            raise NotCovered("the data are not finite everywhere")
        return found

    def size(self, factors: np.ndarray) -> float:
        """A bound of ‖s‖ for s = Σ_i factor_i S_i."""
        seen = math.sqrt(max(float(factors @ self.gram @ factors), 0.0))
        return seen + 2 * float(np.abs(factors) @ self.distance)

    def oscillation(self, factors: np.ndarray) -> np.ndarray:
        """A bound of ‖s − p‖ on each cell for s = Σ_i factor_i S_i."""
        seen = np.maximum(np.einsum("i,cij,j->c", factors, self.rests, factors), 0.0)
        result: np.ndarray = np.sqrt(seen) + 2 * np.abs(factors) @ self._local
        return result

    def at(self, when: float) -> Sampled:
        """The source at a time."""
        factors = self.factors(when)
        moments = np.tensordot(factors, self.moments, axes=1)
        return Sampled(moments, self.oscillation(factors), float(np.abs(factors) @ self._unseen))


def extent(comm: MPI.Comm, corners: np.ndarray) -> float:
    """The longest side of the box around all cells; collective."""
    points = corners.reshape(-1, corners.shape[2])
    ends = comm.allgather((points.min(axis=0), points.max(axis=0)) if len(points) else None)
    low, high = zip(*filter(None, ends), strict=True)
    return float(np.max(np.max(high, axis=0) - np.min(low, axis=0)))


@lru_cache(maxsize=64)
def off_interpolant(function: sp.Expr, degree: int) -> sp.Expr:
    """How far a function is from its interpolant of degree one or two on the step between START and
    END.

    Example:
        >>> off_interpolant(t, 1).subs({START: 0, END: 2, t: sp.Rational(1, 3)})
        0
        >>> off_interpolant(t**2, 1).subs({START: 0, END: 1, t: sp.Rational(1, 2)})
        -1/4
    """
    first, last = (function.xreplace({t: end}) for end in (START, END))
    share = (t - START) / (END - START)
    if degree == 1:
        return function - (1 - share) * first - share * last
    middle = function.xreplace({t: (START + END) / 2})
    outer = (1 - share) * (1 - 2 * share) * first - share * (1 - 2 * share) * last
    return function - outer - 4 * share * (1 - share) * middle


def taken_apart(source: sp.Expr) -> dict[sp.Expr, sp.Expr] | None:
    """S_i(x) with its T_i(t), or None where an expression is no short sum of such products.

    Example:
        >>> from cffem.symbols import x, y
        >>> taken_apart(sp.cos(t) * (x + sp.sin(y)) + 2 * t) == {
        ...     x + sp.sin(y): sp.cos(t),
        ...     sp.Integer(2): t,
        ... }
        True
        >>> taken_apart(sp.cos(x - t)) is None
        True
    """
    shapes: dict[sp.Expr, list[sp.Expr]] = {}
    # Nothing inside of functions is expanded: a narrow spike exp(−(x − a)²/w) would become a
    # product of huge and tiny factors.
    summands = sp.Add.make_args(source)
    terms = [
        term for part in summands for term in sp.Add.make_args(sp.expand_mul(part, deep=False))
    ]
    for product in terms:
        shape, factor = product.as_independent(t)
        if factor.free_symbols & {*SPACE}:
            return None
        shapes.setdefault(factor, []).append(shape)
    if len(shapes) > LARGEST_SUM:
        return None
    found: dict[sp.Expr, sp.Expr] = {}
    for factor, parts in shapes.items():
        shape = sp.Add(*parts)
        found[shape] = found.get(shape, sp.S.Zero) + factor
    return found
