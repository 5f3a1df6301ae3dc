# SPDX-License-Identifier: MIT
"""Data of equations of second order in time: broken polynomials in space, quadratic on each step,
and what they miss.

With f = Σ T_i(t) S_i(x), the projections p_i of S_i and the quadratic interpolants I T_i on a step,

    f − f_h = Σ T_i (S_i − p_i) + Σ (T_i − I T_i) p_i,

whose parts are orthogonal. A source that is no short sum of products is compared with its own
interpolant on cells times steps, and its projections at the three times of a step are added.
Nothing of this is by samples alone (`resolved`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from cffem.bounds.enclosed.sources import SeparatedSource, Sources
from cffem.bounds.enclosed.trajectory_columns import KEPT_NUMBERS, Broken
from cffem.symbols.coordinates import t

# 30 times the integrals of products of the quadratic functions of interpolation on [0, 1], without
# signs.
PRODUCTS = np.array([[4.0, 2.0, 1.0], [2.0, 16.0, 2.0], [1.0, 2.0, 4.0]])


@dataclass(frozen=True)
class Projected:
    """Data at one time.

    Attributes:
        coefficients: of p, which is nearly the L2 projection Π s.
        rest: a bound of ‖s − Π s‖.
        unseen: a bound of ‖Π s − p‖.
    """

    coefficients: np.ndarray
    rest: float
    unseen: float


def projected(
    broken: Broken, entries: Sequence[sp.Expr], when: float, sources: Sources | None = None
) -> Projected:
    """The components of given data at a time; collective.

    Args:
        broken: the polynomials.
        entries: the components.
        when: the time.
        sources: how closely data are looked at, as `broken` does by default.

    Raises:
        NotCovered: the data are not finite.
    """
    coefficients, squares = np.zeros(broken.owned), np.zeros(2)
    positions, sources = broken.positions(), sources or broken.sources
    for place, entry in enumerate(entries):
        if entry == 0:
            continue
        found = sources.at(entry, when)
        coefficients[positions[:, :, place]] = (found.moments / broken.scale).T
        squares += broken.comm.allreduce(float((found.oscillation**2).sum())), found.unseen**2
    rest, unseen = np.sqrt(squares)
    return Projected(coefficients, float(rest), float(unseen))


class Source:
    """Given data f as polynomials of degree two in time on each step, with the size of what they
    miss.

    Args:
        broken: where f is projected to.
        entries: the components of f.
        times: the time levels.
    """

    def __init__(self, broken: Broken, entries: Sequence[sp.Expr], times: np.ndarray):
        self.broken, self.entries, self.times = broken, tuple(entries), times
        self.steady = not any(entry.has(t) for entry in self.entries)
        self._known: dict[float, Projected] = {}
        self._keep = max(3, KEPT_NUMBERS // max(1, broken.owned))
        self._gaps: np.ndarray | None = None

    @property
    def vanishes(self) -> bool:
        """Whether f is zero."""
        return all(entry == 0 for entry in self.entries)

    def _at(self, when: float) -> Projected:
        key = 0.0 if self.steady else when
        if key not in self._known:
            while len(self._known) >= self._keep:
                del self._known[next(iter(self._known))]
            self._known[key] = projected(self.broken, self.entries, when)
        return self._known[key]

    def polynomial(self, step: int) -> np.ndarray:
        """Legendre coefficients of f_h in time on a step, shape (3, owned); collective."""
        start, end = self.times[step], self.times[step + 1]
        first, middle, last = (
            self._at(float(when)).coefficients for when in (start, (start + end) / 2, end)
        )
        mean = (first + 4 * middle + last) / 6
        return np.array([mean, (last - first) / 2, (first + last - 2 * middle) / 3])

    def gap(self, step: int) -> float:
        """A bound of ‖f − f_h‖ in L2 of a step; collective."""
        if self._gaps is None:
            components = [self._missed(entry) for entry in self.entries if entry != 0]
            squares = (
                sum(part**2 for part in components) if components else np.zeros(len(self.times) - 1)
            )
            self._gaps = np.sqrt(squares)
        return float(self._gaps[step])

    def _missed(self, entry: sp.Expr) -> np.ndarray:
        """‖f − f_h‖ of one component on all steps; collective."""
        sources = self.broken.sources
        parts = sources.separated(entry)
        if not entry.has(t):
            parts = SeparatedSource(sources, [sp.S.One], sources.resolved([entry]))
        return self._moving(entry) if parts is None else self._separated(parts)

    def _separated(self, parts: SeparatedSource) -> np.ndarray:
        sources, count, comm = self.broken.sources, len(parts.functions), self.broken.comm
        found = sources.in_time(parts.functions, self.times, 2)
        gaps, factors = found.products[:, count:, count:], found.products[:, :count, :count]
        inside = np.einsum("c,ikc,jkc->ij", sources.volume, parts.moments, parts.moments)
        inside, outside = comm.allreduce(np.array([inside, parts.rests.sum(axis=0)]))
        seen = np.einsum("sij,ij->s", factors, outside) + np.einsum("sij,ij->s", gaps, inside)
        lengths = np.sqrt(np.einsum("sii->si", factors))
        lost = found.distance[:count].T @ parts.sizes
        lost += (lengths + found.distance[:count].T) @ parts.distance
        result: np.ndarray = np.sqrt(np.maximum(seen, 0.0)) + 2 * lost
        return result

    def _moving(self, entry: sp.Expr) -> np.ndarray:
        sources, comm = self.broken.sources, self.broken.comm
        result = sources.moving(entry, self.times, 2)
        for n, (start, end) in enumerate(zip(self.times[:-1], self.times[1:], strict=True)):
            samples = [sources.at(entry, float(when)) for when in (start, (start + end) / 2, end)]
            squares = np.array([(sample.oscillation**2).sum() for sample in samples])
            rests = np.sqrt(comm.allreduce(squares))
            result[n] += math.sqrt(float((end - start) / 30 * rests @ PRODUCTS @ rests))
        return result
