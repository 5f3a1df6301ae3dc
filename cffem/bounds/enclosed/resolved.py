# SPDX-License-Identifier: MIT
"""Data on cells, steps of time, or both, integrated with a bound of what no quadrature rule has
seen.

On a part of a cell let T be a polynomial of degree m with |s − T| ≤ ρ; interval arithmetic gives ρ
(`cffem.engine.inputs.enclosure`). A rule with positive weights that is exact for the degree 2m
integrates T and its products with polynomials of degree k ≤ m, so that for data s, their projection
p by the rule onto such polynomials, the exact projection Π s, and R = s − T,

    ‖s‖ ≤ ‖s‖_rule + 2‖R‖, ‖s − p‖ ≤ ‖s − p‖_rule + 2‖R‖, ‖Π s − p‖ ≤ 2 min(‖R‖, C ‖R‖₁/|K|^{1/2}),

with the L2 norm of R at most that of ρ, and C the largest value of polynomials of degree k whose
mean square is one. Parts with a large ρ are divided until ρ hardly counts, or has nothing left to
gain: nothing is too narrow and nothing too small to be in the bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import basix
import numpy as np
import sympy as sp

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.pieces import CELLS, Pieces, Prisms, rule_of
from cffem.engine.inputs.enclosure import NotEnclosed, distances
from cffem.engine.inputs.numeric import numeric
from cffem.symbols.coordinates import t

if TYPE_CHECKING:
    from mpi4py import MPI


# Where there is no room for all parts that should be divided, more is asked of them in steps of
# this factor.
STRICTER = 1.5
# Cells are evaluated so many at a time.
BLOCK = 2048


@dataclass(frozen=True)
class Resolution:
    """How closely data are looked at.

    Attributes:
        beyond: the polynomials that data are compared with have so many degrees more than the
            projection.
        share: what is not seen shall be at most this part of what a projection misses anyway.
        vague: what a projection misses shall be known up to this part of it.
        rounding: what is smaller than this part of the data is a rounding error.
        parts: how many parts divided cells may have altogether, on all ranks.
        depth: how often a part may be divided.
        blind: how often cells are divided at least for functions that cannot be enclosed.
    """

    beyond: int = 3
    share: float = 0.02
    vague: float = 0.1
    rounding: float = 1e-13
    parts: int = 40_000
    depth: int = 24
    blind: int = 2


@dataclass(frozen=True)
class Found:
    """What is known of n functions on each cell.

    Attributes:
        moments: coefficients of their projections in orthonormal polynomials of the reference cell,
            shape (n, polynomials, cells); empty where none were asked for.
        rests: inner products of what the projections miss, or of the functions, shape (cells, n,
            n).
        products: inner products of the functions.
        distance: bounds of ‖R‖, shape (n, cells).
        unseen: bounds of ‖Π s − p‖, shape (n, cells).
    """

    moments: np.ndarray
    rests: np.ndarray
    products: np.ndarray
    distance: np.ndarray
    unseen: np.ndarray


class Resolver:
    """Looks at functions on a grid; collective.

    Args:
        comm: the communicator.
        grid: where the functions live.
        functions: the functions.
        degree: of the polynomials that they are projected to; None for no projection.
        resolution: how closely they are looked at.
        weights: what the functions are multiplied by on each cell where what a projection misses is
            compared with what is not seen.

    Attributes:
        blind: why a function could not be enclosed, empty where all could.
        finite: whether all values were.

    Raises:
        NotCovered: data are not finite, or cannot be evaluated.
    """

    def __init__(
        self,
        comm: MPI.Comm,
        grid: Prisms,
        functions: Sequence[sp.Expr],
        degree: int | None,
        resolution: Resolution,
        weights: np.ndarray | None = None,
    ):
        self.comm, self.grid, self.degree, self.resolution = comm, grid, degree, resolution
        self.functions = [sp.sympify(function) for function in functions]
        self.order = (degree or 0) + resolution.beyond
        self.sizes = grid.sizes()
        self.weights = np.ones(len(self.sizes)) if weights is None else weights
        self.rule = rule_of(grid.dim, 2 * self.order, grid.spans is not None)
        self.blind, self.finite = "", True
        self._compiled = [numeric(function, grid.arguments) for function in self.functions]

    # Places ---------------------------------------------------------------------------------------

    def _corners(self, pieces: Pieces) -> np.ndarray:
        return np.einsum("pvb,pbd->pvd", pieces.shape, self.grid.corners[pieces.cell])

    def _ordered(self, whole: Pieces) -> Pieces:
        """Undivided cells with their corners in the order of their coordinates: how a tetrahedron
        is divided depends on that order, and must not depend on the numbers that a rank gives.
        """
        corners = self.grid.corners[whole.cell]
        order = np.lexsort(tuple(np.moveaxis(corners, 2, 0)[::-1]), axis=1)
        return replace(whole, shape=np.take_along_axis(whole.shape, order[:, :, None], axis=1))

    def _times(self, pieces: Pieces) -> np.ndarray:
        assert self.grid.spans is not None
        ends = self.grid.spans[pieces.cell]
        return ends[:, :1] + pieces.span * np.diff(ends, axis=1)

    def _fixed(self, pieces: Pieces) -> dict[sp.Symbol, np.ndarray]:
        return {
            symbol: value[pieces.cell] if np.ndim(value) else value
            for symbol, value in self.grid.fixed.items()
        }

    def values(self, pieces: Pieces) -> list[np.ndarray]:
        """The functions at the points of the rule, shape (parts, points)."""
        corners, rule = self._corners(pieces), self.rule
        places = [corners[:, :, axis] @ rule.points.T for axis in range(self.grid.dim)]
        if self.grid.spans is not None:
            ends = self._times(pieces)
            places.append(ends[:, :1] + rule.moments * np.diff(ends, axis=1))
        for value in self._fixed(pieces).values():
            places.append(value[:, None] if np.ndim(value) else value)
        shape = (len(pieces), len(rule.weights))
        try:
            with np.errstate(all="ignore"):
                raw = [np.asarray(function(*places), dtype=float) for function in self._compiled]
        except (NameError, TypeError, AttributeError) as reason:
            raise NotCovered(f"data cannot be evaluated: {reason}") from None
        self.finite = self.finite and all(bool(np.isfinite(value).all()) for value in raw)
        return [np.broadcast_to(value, shape) for value in raw]

    def radii(self, pieces: Pieces, values: list[np.ndarray]) -> np.ndarray:
        """ρ of each function on each part, shape (n, parts); infinite where there is no bound."""
        corners = self._corners(pieces)
        where: dict[sp.Symbol, np.ndarray] = {}
        centre: dict[sp.Symbol, np.ndarray] = {}
        for axis, symbol in enumerate(self.grid.symbols):
            column = corners[:, :, axis]
            where[symbol] = column.min(axis=1), column.max(axis=1)
            centre[symbol] = column.mean(axis=1)
        if self.grid.spans is not None:
            ends = self._times(pieces)
            where[t], centre[t] = (ends[:, 0], ends[:, 1]), ends.mean(axis=1)
        for symbol, value in self._fixed(pieces).items():
            where[symbol] = (np.broadcast_to(np.asarray(value, dtype=float), len(pieces)),) * 2
        found = []
        for function, sampled in zip(self.functions, values, strict=True):
            try:
                found.append(distances(function, where, centre, self.order))
            except NotEnclosed as reason:
                self.blind = str(reason)
                found.append(self._guessed(sampled))
        return np.array(found).reshape(len(self.functions), len(pieces))

    def _guessed(self, values: np.ndarray) -> np.ndarray:
        """ρ as far as samples show it: the distance of the values to polynomials of a lower
        degree.
        """
        rule, low = self.rule, max(self.order - 2, 0)
        basis = basix.tabulate_polynomials(
            basix.PolynomialType.legendre, CELLS[self.grid.dim], low, rule.points[:, 1:]
        )
        if self.grid.spans is not None:
            powers = rule.moments ** np.arange(low + 1)[:, None]
            basis = (basis[:, None] * powers[None]).reshape(-1, len(rule.weights))
        inside = np.linalg.pinv(basis.T) @ values.T
        return np.abs(values - (basis.T @ inside).T).max(axis=1)

    # Cells ----------------------------------------------------------------------------------------

    def measured(self, pieces: Pieces, values: list[np.ndarray], radii: np.ndarray) -> Found:
        """What some parts say about the cells that they fill, in the order of these."""
        dim, count = self.grid.dim, len(self.functions)
        first = np.flatnonzero(np.diff(pieces.cell, prepend=-1))
        cells = pieces.cell[first]
        halvings = dim + (self.grid.spans is not None)
        share = 0.5 ** (halvings * pieces.depth)

        def summed(parts: np.ndarray) -> np.ndarray:
            return parts if len(first) == len(pieces) else np.add.reduceat(parts, first, axis=0)

        def inner(one: np.ndarray, other: np.ndarray) -> np.ndarray:
            return self.sizes[cells] * summed(share * ((one * other) @ self.rule.weights))

        moments, rests = np.zeros((count, 0, len(cells))), values
        if self.degree is not None:
            moments, rests = self._projected(pieces, values, share, summed, first)
        grams = []
        for parts in (rests, values) if rests is not values else (values,):
            gram = np.empty((len(cells), count, count))
            for i in range(count):
                for j in range(i, count):
                    gram[:, i, j] = gram[:, j, i] = inner(parts[i], parts[j])
            grams.append(gram)
        return Found(moments, grams[0], grams[-1], *self._bounded(pieces, radii))

    def _bounded(self, pieces: Pieces, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of ‖R‖ and of ‖Π s − p‖ on the cells that some parts fill, in the order of
        these.
        """
        first = np.flatnonzero(np.diff(pieces.cell, prepend=-1))
        size = self.sizes[pieces.cell[first]]
        share = 0.5 ** ((self.grid.dim + (self.grid.spans is not None)) * pieces.depth)
        with np.errstate(invalid="ignore", over="ignore"):
            mean = np.add.reduceat(share * radii, first, axis=1) if len(first) else radii
            square = np.add.reduceat(share * radii**2, first, axis=1) if len(first) else radii
            distance = np.sqrt(size * square)
            return distance, 2 * np.fmin(distance, self._largest * mean * np.sqrt(size))

    @property
    def _largest(self) -> float:
        """C: the largest value of polynomials whose mean square is one, which a corner has."""
        if self.degree is None:
            return math.inf
        dim = self.grid.dim
        corners = np.vstack([np.zeros(dim), np.eye(dim)])
        basis = basix.tabulate_polynomials(
            basix.PolynomialType.legendre, CELLS[dim], self.degree, corners
        )
        return math.sqrt(float((basis**2).sum(axis=0).max()) / math.factorial(dim))

    def _projected(
        self,
        pieces: Pieces,
        values: list[np.ndarray],
        share: np.ndarray,
        summed: np.ndarray,
        first: np.ndarray,
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Coefficients of the projections, and the functions less their projections at the
        points.
        """
        assert self.degree is not None
        dim, rule = self.grid.dim, self.rule
        weights = rule.weights / math.factorial(dim)
        legendre = basix.PolynomialType.legendre
        if len(first) == len(pieces) and not pieces.depth.any():
            basis = basix.tabulate_polynomials(
                legendre, CELLS[dim], self.degree, rule.points[:, 1:]
            )
            moments = np.stack([(value @ (weights * basis).T).T for value in values])
            rests = [v - (basis.T @ m).T for v, m in zip(values, moments, strict=True)]
            return moments, rests
        places = np.einsum("qb,pbv->pqv", rule.points, pieces.shape)[:, :, 1:]
        basis = basix.tabulate_polynomials(
            legendre, CELLS[dim], self.degree, places.reshape(-1, dim)
        )
        # Small matrices one after another are multiplied faster than sums over three indices.
        basis = np.ascontiguousarray(basis.reshape(len(basis), len(pieces), -1).transpose(1, 0, 2))
        owner = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(pieces))))
        parts = [
            summed(share[:, None] * (basis @ (v * weights)[:, :, None])[:, :, 0]) for v in values
        ]
        rests = [
            v - (part[owner][:, None] @ basis)[:, 0] for v, part in zip(values, parts, strict=True)
        ]
        return np.stack([part.T for part in parts]), rests

    # Dividing -------------------------------------------------------------------------------------

    def resolve(self) -> Found:
        """Divide cells until what is not seen hardly counts, or nothing more is to be gained."""
        count = len(self.sizes)
        every = Pieces.whole(np.arange(count), self.grid.corners.shape[1])
        found, radii = self._undivided(every)
        pieces, kept = every[:0], radii[:, :0]
        whole = np.ones(count, dtype=bool)
        for depth in range(self.resolution.depth):
            wanted = self._wanted(found, count + len(pieces), depth)
            ours = self._chosen(wanted, every, whole, radii, pieces, kept)
            if not self.comm.allreduce(int(len(ours[0]) + len(ours[1]) > 0)):
                break
            fresh = Pieces.joined(self._ordered(every[ours[0]]), pieces[ours[1]]).split(
                self.grid.spans is not None
            )
            whole[ours[0]] = False
            stay = np.ones(len(pieces), dtype=bool)
            stay[ours[1]] = False
            sampled = self.values(fresh)
            rest, kept = pieces[stay], kept[:, stay]
            order = np.argsort(np.concatenate([rest.cell, fresh.cell]), kind="stable")
            kept = np.concatenate([kept, self.radii(fresh, sampled)], axis=1)[:, order]
            pieces = Pieces.joined(rest, fresh)
            # Bounds follow from radii alone; what projections miss is looked at now and then.
            found = (
                self._replaced(found, pieces, kept)
                if depth % 3 == 0
                else self._narrowed(found, pieces, kept)
            )
        found = self._replaced(found, pieces, kept)
        return self._without_infinities(found, every, whole, radii, pieces, kept)

    def _undivided(self, every: Pieces) -> tuple[Found, np.ndarray]:
        """All cells as they are, some at a time, so that their values stay in the cache."""
        blocks = []
        for start in range(0, max(len(every), 1), BLOCK):
            some = every[start : start + BLOCK]
            values = self.values(some)
            radii = self.radii(some, values)
            blocks.append((self.measured(some, values, radii), radii))
        parts = [found for found, _ in blocks]
        found = Found(
            np.concatenate([part.moments for part in parts], axis=2),
            np.concatenate([part.rests for part in parts]),
            np.concatenate([part.products for part in parts]),
            np.concatenate([part.distance for part in parts], axis=1),
            np.concatenate([part.unseen for part in parts], axis=1),
        )
        return found, np.concatenate([radii for _, radii in blocks], axis=1)

    def _replaced(self, found: Found, pieces: Pieces, radii: np.ndarray) -> Found:
        """The cells that were divided, measured anew."""
        if not len(pieces):
            return found
        cells = np.unique(pieces.cell)
        new = self.measured(pieces, self.values(pieces), radii)
        old = replace(found, **{name: np.array(value) for name, value in vars(found).items()})
        old.moments[:, :, cells], old.rests[cells] = new.moments, new.rests
        old.products[cells], old.distance[:, cells] = new.products, new.distance
        old.unseen[:, cells] = new.unseen
        return old

    def _narrowed(self, found: Found, pieces: Pieces, radii: np.ndarray) -> Found:
        """The same with the bounds of the cells that were divided."""
        if not len(pieces):
            return found
        cells, distance, unseen = (
            np.unique(pieces.cell),
            np.array(found.distance),
            np.array(found.unseen),
        )
        distance[:, cells], unseen[:, cells] = self._bounded(pieces, radii)
        return replace(found, distance=distance, unseen=unseen)

    def _wanted(self, found: Found, count: int, depth: int) -> np.ndarray:
        """For each function the largest ρ² |K| that a part may have; infinite where it is
        known well.
        """
        weight = self.weights**2
        diagonal = np.einsum("cii->ic", found.rests)
        size = np.einsum("cii->i", found.products)
        with np.errstate(invalid="ignore", over="ignore"):
            lost = (found.unseen**2).sum(axis=1)
            doubtful = 4 * found.distance**2 @ weight
        numbers = (lost, doubtful, diagonal @ weight, size, float(count))
        lost, doubtful, missed, size, parts = (self.comm.allreduce(number) for number in numbers)
        settings = self.resolution
        allowed, noise = settings.share**2 * missed, settings.rounding**2 * size
        enough = (lost <= allowed + noise) & (doubtful <= settings.vague**2 * missed + noise)
        if self.blind and depth < settings.blind:
            enough = np.zeros_like(enough)
        return np.where(enough, np.inf, (allowed + noise) / (8 * max(parts, 1.0)))

    def _chosen(
        self,
        wanted: np.ndarray,
        every: Pieces,
        whole: np.ndarray,
        radii: np.ndarray,
        pieces: Pieces,
        kept: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Which cells and which parts of cells are divided next: the worst ones, as far as there is
        room.

        All ranks share the room, so that the choice does not depend on how many there are.
        """
        many = 2 ** (self.grid.dim + (self.grid.spans is not None))
        room = (self.resolution.parts - self.comm.allreduce(len(pieces))) // many
        nothing = np.zeros(0, dtype=int)
        if room <= 0 or not np.isfinite(wanted).any():
            return nothing, nothing
        with np.errstate(all="ignore"):
            size = np.concatenate([self.sizes, self._piece_sizes(pieces)])
            excess = np.concatenate([radii, kept], axis=1) ** 2 * size / wanted[:, None]
        excess = np.nan_to_num(excess, nan=0.0, posinf=1e300).max(axis=0, initial=0.0)
        excess[: len(every)][~whole] = 0.0
        least = 1.0
        while self.comm.allreduce(int((excess > least).sum())) > room:
            least *= STRICTER
        places = np.flatnonzero(excess > least)
        return places[places < len(every)], places[places >= len(every)] - len(every)

    def _piece_sizes(self, pieces: Pieces) -> np.ndarray:
        halvings = self.grid.dim + (self.grid.spans is not None)
        return self.sizes[pieces.cell] * 0.5 ** (halvings * pieces.depth)

    def _without_infinities(
        self,
        found: Found,
        every: Pieces,
        whole: np.ndarray,
        radii: np.ndarray,
        pieces: Pieces,
        kept: np.ndarray,
    ) -> Found:
        """Guesses in the place of what has no bound, which makes the result blind."""
        if self.comm.allreduce(int(np.isinf(radii[:, whole]).any() or np.isinf(kept).any())):
            self.blind = self.blind or "a function may have no bound, or jumps without one"
            everything = Pieces.joined(every[whole], pieces)
            order = np.argsort(np.concatenate([every.cell[whole], pieces.cell]), kind="stable")
            both = np.concatenate([radii[:, whole], kept], axis=1)[:, order]
            values = self.values(everything)
            guesses = np.array([self._guessed(value) for value in values])
            found = self.measured(everything, values, np.where(np.isinf(both), guesses, both))
        blind = self.comm.allgather(self.blind)
        self.blind = next(filter(None, blind), "")
        if self.comm.allreduce(int(not self.finite)):
            raise NotCovered("the data are not finite everywhere")
        return found
