# SPDX-License-Identifier: MIT
"""Spatial errors of all levels of a march from fluxes at some of them.

Between two levels with fluxes, the fluxes of four levels give those of the cubic interpolant p of
the values in time. In Newton's form p is linear interpolation plus multiples of a second and a
third divided difference, whose misfits are differences of known ones. The distance of u^n to p is
so small that its spatial error needs no flux (`marches`). Fluxes are computed at more and more
levels, until all that is not linear interpolation is a small part.
"""

from __future__ import annotations

import math

import numpy as np

from cffem.bounds.parabolic.marches import March, MarchDifference

# Fluxes are added until what linear interpolation in time misses is at most this part of the
# spatial error.
SHARE = 0.1
# Gaps between levels with fluxes at the start.
START = 2


def spatial_errors(march: March | MarchDifference, stride: int, others: float = 0.0) -> np.ndarray:
    """Bounds E_n of the errors of the Poisson problems of all levels; collective.

    Args:
        march: the trajectory.
        stride: 2 where odd and even levels are to be told apart.
        others: the size of other errors, in the unit of (Σ E_n²)^{1/2}; nothing need be much more
            accurate.
    """
    count = len(march.workshop.times)
    errors, missed = np.zeros(count), np.zeros(count)
    classes = [
        _Levels(march, range(start, count, stride), errors, missed)
        for start in range(min(stride, count))
    ]
    while True:
        worst = max(classes, key=lambda levels: levels.largest)
        if (
            math.sqrt(float((missed**2).sum())) <= SHARE * (float(np.linalg.norm(errors)) + others)
            or worst.largest == 0.0
        ):
            return errors + missed
        worst.split()


class _Levels:
    """Levels of one kind, some of which have fluxes."""

    def __init__(
        self, march: March | MarchDifference, levels: range, errors: np.ndarray, missed: np.ndarray
    ):
        self.march, self.levels, self.errors, self.missed = march, levels, errors, missed
        self.times, self.workshop = march.workshop.times, march.workshop
        last = len(levels) - 1
        self.known = sorted({round(share * last / START) for share in range(START + 1)})
        for k in self.known:
            self._put(k)
        self.gaps: dict[int, float] = {}
        self._fill(range(len(self.known) - 1))

    @property
    def largest(self) -> float:
        """The largest sum of squares of what is missed between two levels with fluxes."""
        return max(self.gaps.values(), default=0.0)

    def split(self) -> None:
        """Compute one flux more, in the middle of the worst gap."""
        place = self.known.index(max(self.gaps, key=lambda start: self.gaps[start]))
        middle = (self.known[place] + self.known[place + 1]) // 2
        self.known.insert(place + 1, middle)
        self._put(middle)
        self._fill(range(max(place - 1, 0), min(place + 3, len(self.known) - 1)))

    def _put(self, k: int) -> None:
        """E of a level with a flux."""
        n = self.levels[k]
        residual = self.workshop.equilibration.residual(self.march.flux(n))
        self.errors[n], self.missed[n] = self._error(residual.dual, residual.weighted), 0.0

    def _error(self, dual: float, weighted: float | None) -> float:
        a = self.march.operator.diffusion
        energy = dual / (a * math.sqrt(self.workshop.domain.eigenvalue))
        return energy if weighted is None else min(energy, weighted / a)

    def _fill(self, places: range) -> None:
        """Bounds between levels with fluxes."""
        for place in places:
            first, last = self.known[place], self.known[place + 1]
            self.gaps[first] = 0.0
            if last - first < 2:
                continue
            near = [k for k in (place, place + 1, place - 1, place + 2) if 0 <= k < len(self.known)]
            nodes = [self.levels[self.known[k]] for k in near]
            sizes = [self._curvature(nodes[: order + 1]) for order in range(2, len(nodes))]
            for k in range(first + 1, last):
                self._between(self.levels[k], nodes, sizes)
            self.gaps[first] = float(
                sum(self.missed[self.levels[k]] ** 2 for k in range(first + 1, last))
            )

    def _curvature(self, nodes: list[int]) -> float:
        """E of the divided difference over some levels."""
        weights = {
            n: 1 / math.prod(float(self.times[n] - self.times[m]) for m in nodes if m != n)
            for n in nodes
        }
        equilibration, sources = self.workshop.equilibration, self.workshop.sources
        misfit = sum(w * self.march.flux(n).misfit for n, w in weights.items())
        rest = sources.oscillation(
            self.march.source, [(float(self.times[n]), w) for n, w in weights.items()]
        )
        return self._error(*equilibration.sizes(equilibration.indicators(misfit, rest)))

    def _between(self, n: int, nodes: list[int], sizes: list[float]) -> None:
        """Bounds for one level between the first two nodes."""
        times, scale = self.times, self.workshop.regularity / self.march.operator.diffusion
        share = float((times[n] - times[nodes[0]]) / (times[nodes[1]] - times[nodes[0]]))
        self.errors[n] = (1 - share) * self.errors[nodes[0]] + share * self.errors[nodes[1]]
        products = [
            math.prod(abs(float(times[n] - times[m])) for m in nodes[:order])
            for order in range(2, len(nodes))
        ]
        lagrange = {
            m: -math.prod(
                float((times[n] - times[k]) / (times[m] - times[k])) for k in nodes if k != m
            )
            for m in nodes
        }
        rest = scale * self.march.density({n: 1.0, **lagrange})
        self.missed[n] = rest + sum(
            product * size for product, size in zip(products, sizes, strict=True)
        )
