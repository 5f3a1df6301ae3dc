# SPDX-License-Identifier: MIT
"""Sources of an equation cell by cell: their polynomial part, what is left of it, and what quadrature does not see.

What two rules disagree about is not seen by one of them. What lies between the points of both, such as a narrow spike, is looked
for by enclosures (`enclosure`); functions that have none are sampled at more points.

A source is taken apart into Σ_i T_i(t) S_i(x) where it can be, so that a march evaluates functions of the place once and not at
every time level. The part that no polynomial of degree k on the cell carries is the data oscillation of a flux.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import basix
import numpy as np
import sympy as sp
from mpi4py import MPI

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosure import hidden
from cffem.bounds.geometry import edge_lengths, volumes
from cffem.bounds.reference import CELLS, orthonormal
from cffem.engine.enclosure import NotEnclosed, enclosed
from cffem.symbols.coordinates import SPACE, t

# Two quadrature rules that agree to this relative accuracy differ by rounding.
ROUNDING = 1e-12
# How many functions of the place a source may have before it is evaluated anew at every time.
LARGEST_SUM = 6
# Gauss points in time; what the two rules disagree about is added to the result.
GAUSS = (4, 6)
# Degrees of the two quadrature rules in space, beyond twice the degree of the elements; the quick ones are enough where what they
# do not see is at most this share of (h/π) times the oscillation.
QUICK, RULES = (2, 3), (4, 8)
UNSEEN = 0.01
# The same for functions that cannot be enclosed.
BLIND = (8, 14)
# Cells are evaluated so many at a time, so that their values stay in the cache.
BLOCK = 2048


@dataclass(frozen=True)
class Sampled:
    """A source at one time.

    Attributes:
        moments: coefficients of Π s in orthonormal polynomials of the reference cell, shape (polynomials, cells).
        oscillation: a bound of ‖s − Π s‖ on each cell, two quadrature rules considered.
        unseen: the L2 size of the difference of Π s by two quadrature rules, and of what may lie between their points.
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

    Attributes:
        kept: how many samples of a source are kept.
    """

    def __init__(self, comm: Any, corners: np.ndarray, degree: int):
        self.comm, self.corners, self.dim = comm, corners, corners.shape[2]
        self.degree = degree
        self.quick, self.rules = (self._pair(more) for more in (QUICK, RULES))
        self.area = volumes(corners)
        self.volume = self.area * math.factorial(self.dim)
        self.widths = edge_lengths(corners).max(axis=1, initial=0.0) / math.pi
        self.kept = 3
        self._parts: dict[sp.Expr, Parts | None] = {}
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
            else:
                self._kept[key] = self._sampled(source, when) if parts is None else parts.at(when)
        return self._kept[key]

    def _constant(self, source: sp.Expr, when: float) -> Sampled:
        """A source that is the same everywhere, which any rule integrates."""
        value = float(_callable(source, 0)(when))
        self._check_finite(math.isfinite(value))
        moments = value * self.rules[0].projection.sum(axis=0)
        count = len(self.corners)
        return Sampled(np.broadcast_to(moments[:, None], (len(moments), count)), np.zeros(count), 0.0)

    def _pair(self, more: tuple[int, int]) -> list[Rule]:
        return [Rule(self.dim, self.degree, 2 * self.degree + degree) for degree in more]

    def _sampled(self, source: sp.Expr, when: float) -> Sampled:
        """By rules of low degree if they do not disagree about anything that matters."""
        found = self._projected(source, when, self.quick)
        if not math.isfinite(found.unseen):
            return self._projected(source, when, self._pair(BLIND), blind=True)
        size = math.sqrt(self.comm.allreduce(float(((self.widths * found.oscillation) ** 2).sum())))
        return found if found.unseen <= UNSEEN * size else self._projected(source, when, self.rules)

    def _projected(self, source: sp.Expr, when: float, rules: list[Rule], blind: bool = False) -> Sampled:
        """The source by two rules, a block of cells at a time, and by enclosures unless there are none; collective."""
        count = len(self.corners)
        moments, squares, ranges = np.empty((len(rules[0].basis), count)), np.empty((2, count)), np.empty((2, count))
        unseen, finite = 0.0, True
        for start in range(0, count, BLOCK):
            here = slice(start, start + BLOCK)
            # Points come first, so that sums over them are sums of long rows.
            values = [self._evaluated(source, rule, when, here).T for rule in rules]
            finite = finite and all(bool(np.isfinite(v).all()) for v in values)
            ranges[:, here] = sampled_range([v.T for v in values])
            projected = rules[0].projection.T @ values[0]
            rests = [v - rule.basis.T @ projected for v, rule in zip(values, rules, strict=True)]
            moments[:, here] = projected
            squares[:, here] = [self.area[here] * (rule.weights @ r**2) for r, rule in zip(rests, rules, strict=True)]
            unseen += float(((rules[1].projection.T @ rests[1]) ** 2).sum(axis=0) @ self.volume[here])
        self._check_finite(finite)
        oscillation = np.sqrt(squares.max(axis=0) + excess(*squares))
        between = 0.0 if blind else self.hidden(source, when, ranges)
        return Sampled(moments, oscillation, math.sqrt(self.comm.allreduce(unseen)) + between)

    def hidden(self, source: sp.Expr, when: float, ranges: np.ndarray) -> float:
        """The L2 size of what may lie between the points where the source has been sampled, infinite if unknown; collective.

        Args:
            source: the source.
            when: the time.
            ranges: the smallest and the largest sampled value on each cell.
        """
        # A rule that is exact for the product with the projection's polynomials has seen all of a polynomial.
        if _degree(source) <= self.degree + QUICK[0]:
            return 0.0
        if not encloses(source):
            return math.inf
        size = self.comm.allreduce(float(np.abs(ranges).max(initial=0.0)), op=MPI.MAX)
        found = hidden(source.subs(t, when), SPACE[: self.dim], self.corners, (ranges[0], ranges[1]), size)
        return math.sqrt(self.comm.allreduce(found**2))

    def _check_finite(self, finite: bool) -> None:
        if self.comm.allreduce(int(not finite)):
            raise NotCovered("the forcing is not finite everywhere")

    def _values(self, source: sp.Expr, when: float) -> list[np.ndarray]:
        """Values at the points of both rules; collective."""
        values = [self._evaluated(source, rule, when) for rule in self.rules]
        self._check_finite(all(bool(np.isfinite(v).all()) for v in values))
        return values

    def _evaluated(self, source: sp.Expr, rule: Rule, when: float, here: slice = slice(None)) -> np.ndarray:
        """Values at the points of a rule, shape (cells, points)."""
        return at_quadrature_points(source, self.corners[here], rule.degree, when)[0]

    def distance(self, source: sp.Expr, coefficients: np.ndarray) -> float:
        """‖s − w‖ for a function w of degree k given by its coefficients on each cell, by the less favourable rule; collective."""
        values = self._values(source, 0.0)
        squares = [
            self.area * ((sampled - coefficients @ rule.basis) ** 2 @ rule.weights)
            for sampled, rule in zip(values, self.rules, strict=True)
        ]
        first, second = self.comm.allreduce(np.array([s.sum() for s in squares]))
        return math.sqrt(max(first, second) + excess(first, second)) + finite(self.hidden(source, 0.0, sampled_range(values)))

    def separated(self, source: sp.Expr) -> Parts | None:
        """The source as a sum of products of functions of time and of the place; None where it is no short one."""
        if source not in self._parts:
            found = taken_apart(source) if source.has(t) else None
            shapes = None if found is None else [self._values(shape, 0.0) for shape in found]
            self._parts[source] = None
            if found is not None and shapes is not None:
                unseen = [finite(self.hidden(shape, 0.0, sampled_range(v))) for shape, v in zip(found, shapes, strict=True)]
                self._parts[source] = Parts(self, list(found.values()), shapes, np.array(unseen))
        return self._parts[source]

    def size(self, source: sp.Expr, weights: list[tuple[float, float]]) -> float:
        """‖Σ ω s(t)‖ for pairs of a time and a weight ω; collective."""
        parts = self.separated(source)
        if parts is not None:
            factors = sum(w * parts.factors(when) for when, w in weights)
            return math.sqrt(max(float(factors @ parts.gram @ factors), 0.0))
        if not source.has(t):
            weights = [(0.0, sum(w for _, w in weights))]
        if source == 0 or all(w == 0 for _, w in weights):
            return 0.0
        samples = [(self.at(source, when), w) for when, w in weights]
        moments, rest = sum(w * s.moments for s, w in samples), sum(abs(w) * s.oscillation for s, w in samples)
        squares = self.comm.allreduce(np.array([(moments**2).sum(axis=0) @ self.volume, (rest**2).sum()]))
        return float(np.sqrt(squares).sum())

    def oscillation(self, source: sp.Expr, weights: list[tuple[float, float]]) -> np.ndarray:
        """A bound of ‖Σ ω (s(t) − Π s(t))‖ on each cell for pairs of a time and a weight ω; collective."""
        parts = self.separated(source)
        if parts is not None:
            return parts.oscillation(sum(w * parts.factors(when) for when, w in weights))
        if not source.has(t):
            return abs(sum(w for _, w in weights)) * self.at(source).oscillation
        return sum(abs(w) * self.at(source, when).oscillation for when, w in weights)

    # Time -------------------------------------------------------------------------------------------------------------------

    def not_linear(self, source: sp.Expr, times: np.ndarray) -> np.ndarray:
        """‖f − I f‖ on each step, I linear interpolation in time, by Gauss quadrature; collective."""
        if not source.has(t):
            return np.zeros(len(times) - 1)
        squares = np.zeros((len(GAUSS), len(times) - 1))
        for n, (start, end) in enumerate(pairwise(times)):
            ends = [self._combination(source, float(s)) for s in (start, end)]
            for rule, count in enumerate(GAUSS):
                points, weights = np.polynomial.legendre.leggauss(count)
                for place, weight in zip((points + 1) / 2, weights / 2, strict=True):
                    now = self._combination(source, float(start + place * (end - start)))
                    gap = now - (1 - place) * ends[0] - place * ends[1]
                    squares[rule, n] += weight * (end - start) * self._squared(source, gap)
        if self.separated(source) is None:
            squares = self.comm.allreduce(squares)
        return np.sqrt(squares.max(axis=0) + excess(*squares))

    def _combination(self, source: sp.Expr, when: float) -> np.ndarray:
        parts = self.separated(source)
        return self._evaluated(source, self.rules[0], when) if parts is None else parts.factors(when)

    def _squared(self, source: sp.Expr, values: np.ndarray) -> float:
        parts = self.separated(source)
        if parts is None:
            return float(self.area @ (values**2 @ self.rules[0].weights))
        return float(values @ parts.gram @ values)


class Rule:
    """A quadrature rule with weights that add up to one, and the orthonormal polynomials at its points."""

    def __init__(self, dim: int, degree: int, exact: int):
        points, weights = basix.make_quadrature(CELLS[dim], exact)
        self.degree, self.weights = exact, weights / weights.sum()
        self.basis = orthonormal(CELLS[dim], degree, points)
        self.projection = (weights * self.basis).T


def excess(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """By how much two numbers differ beyond rounding."""
    return np.maximum(np.abs(first - second) - ROUNDING * np.maximum(first, second), 0.0)


class Parts:
    """Σ_i T_i(t) S_i(x), sampled.

    Attributes:
        moments: coefficients of Π S_i.
        gram: (S_i, S_j).
    """

    def __init__(self, sources: Sources, factors: list[sp.Expr], shapes: list[list[np.ndarray]], between: np.ndarray):
        self._factors, self._between = [_callable(factor, 0) for factor in factors], between
        rules, area = sources.rules, sources.area
        moments = np.stack([values[0] @ rules[0].projection for values in shapes])
        self.moments = np.ascontiguousarray(np.moveaxis(moments, 1, 2))
        rests = [np.stack([v[n] for v in shapes]) - moments @ rule.basis for n, rule in enumerate(rules)]
        self._squares = [np.einsum("c,icq,jcq,q->cij", area, r, r, rule.weights) for r, rule in zip(rests, rules, strict=True)]
        unseen = rests[1] @ rules[1].projection
        self._unseen = sources.comm.allreduce(np.einsum("c,ick,jck->ij", sources.volume, unseen, unseen))
        first = np.stack([v[0] for v in shapes])
        self.gram = sources.comm.allreduce(np.einsum("c,icq,jcq,q->ij", area, first, first, rules[0].weights))

    def factors(self, when: float) -> np.ndarray:
        """T_i at a time."""
        return np.array([float(factor(when)) for factor in self._factors])

    def oscillation(self, factors: np.ndarray) -> np.ndarray:
        """A bound of ‖s − Π s‖ on each cell for s = Σ_i factor_i S_i."""
        first, second = (np.maximum(np.einsum("i,cij,j->c", factors, s, factors), 0.0) for s in self._squares)
        return np.sqrt(np.maximum(first, second) + excess(first, second))

    def at(self, when: float) -> Sampled:
        """The source at a time."""
        factors = self.factors(when)
        return Sampled(
            np.tensordot(factors, self.moments, axes=1),
            self.oscillation(factors),
            math.sqrt(max(float(factors @ self._unseen @ factors), 0.0)) + float(np.abs(factors) @ self._between),
        )


def sampled_range(values: list[np.ndarray]) -> np.ndarray:
    """The smallest and the largest of the values at all points of each cell."""
    return np.array([np.minimum.reduce([v.min(axis=1) for v in values]), np.maximum.reduce([v.max(axis=1) for v in values])])


def finite(between: float) -> float:
    """What may lie between points, nothing where that is not known: then two rules are all there is."""
    return between if math.isfinite(between) else 0.0


@lru_cache(maxsize=64)
def encloses(source: sp.Expr) -> bool:
    """Whether there is an interval rule for every function in an expression."""
    try:
        enclosed(source, {symbol: (np.zeros(1), np.ones(1)) for symbol in (*SPACE, t)})
    except NotEnclosed:
        return False
    return True


@lru_cache(maxsize=64)
def _degree(source: sp.Expr) -> float:
    """The degree of a polynomial in the coordinates, infinite for other functions."""
    return float(sp.Poly(source, *SPACE).total_degree()) if source.is_polynomial(*SPACE) else math.inf


def taken_apart(source: sp.Expr) -> dict[sp.Expr, sp.Expr] | None:
    """S_i(x) with its T_i(t), or None where an expression is no short sum of such products.

    Example:
        >>> from cffem.symbols import x, y
        >>> taken_apart(sp.cos(t) * (x + sp.sin(y)) + 2 * t) == {x + sp.sin(y): sp.cos(t), sp.Integer(2): t}
        True
        >>> taken_apart(sp.cos(x - t)) is None
        True
    """
    shapes: dict[sp.Expr, list[sp.Expr]] = {}
    # Nothing inside of functions is expanded: a narrow spike exp(−(x − a)²/w) would become a product of huge and tiny factors.
    terms = [term for part in sp.Add.make_args(source) for term in sp.Add.make_args(sp.expand_mul(part, deep=False))]
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


def at_quadrature_points(expr: sp.Expr, corners: np.ndarray, degree: int, when: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Values of an expression at the points of a rule in each cell, and the weights relative to the volume."""
    dim = corners.shape[2]
    points, weights = basix.make_quadrature(CELLS[dim], degree)
    barycentric = np.column_stack([1 - points.sum(axis=1), points])
    places = [barycentric @ np.ascontiguousarray(corners[:, :, axis].T) for axis in range(dim)]
    with np.errstate(all="ignore"):
        values = np.broadcast_to(np.asarray(_callable(expr, dim)(*places, when), dtype=float), places[0].shape)
    return values.T, weights / weights.sum()


@lru_cache(maxsize=64)
def _callable(expr: sp.Expr, dim: int) -> Callable[..., Any]:
    return sp.lambdify((*SPACE[:dim], t), expr, "numpy", cse=True)
