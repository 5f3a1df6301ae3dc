# SPDX-License-Identifier: MIT
"""What three levels of one field say about the exact one: their gaps, how fast these shrink, and
what is left beyond the last.

With E_01 = ‖w_0 − w_1‖, E_12 = ‖w_1 − w_2‖ and the measured saturation σ = E_12/E_01, the gaps of
further levels are taken to shrink by s = max(σ, 1/4) at least (1/2 where elements are of first
order and cells are divided), so that what is left beyond the third level is at most

    ρ = κ E_12 s/(1 − s)

with a safety factor κ, twice as large from σ = 1/2 on, where less is known of what follows; only
gaps that do not shrink, σ ≥ 1, say nothing. Degrees are another matter: an error that falls
like a power p^−β of the degree p shrinks ever more slowly, so from the σ of three degrees the power
is found, and ρ is no less than what it leaves beyond the third,

    ρ ≥ κ′ E_12/(((k+2)/(k+1))^β − 1)   with   ((k+1)^−β − (k+2)^−β)/(k^−β − (k+1)^−β) = σ.

Data that jump or have a kink leave no higher order of convergence than they have (`roughness`), and
gaps that shrink faster do so by accident: with the ratio σ_q of gaps of the order q, 2^−q or that
of a power p^−q of the degree, what is left is found from s = max(σ, σ_q) and max(E_12, σ_q E_01).

A norm changes by less than its field does. With r = w − w* it is |‖w‖ − ‖w*‖| ≤ |(r, w*)|/‖w*‖ +
‖r‖²/(2‖w*‖). The share c_n = |‖w_{n+1}‖ − ‖w_n‖|/‖w_{n+1} − w_n‖ of a gap that the norm shows is
small where errors are nearly orthogonal to the field, as those of edge elements are, and falls from
level to level where the norm converges with a higher order than the field. The first part is taken
to be at most min(1, κ_c max(c_0, c_1)) ρ: two shares would have to be small by accident, and at
once, for this to be wrong. The second part keeps fields that are not resolved yet from being judged
by their norms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from cffem.bounds.levels.ladders import BOTH, DEGREE, MESH, TIME

# The saturation below which the gaps shrink as they do on fine meshes, and below which they say
# anything; a power of the degree is told from its gaps up to 0.58, which is near to nothing left.
FAST = 0.5
ACCEPTED = {MESH: 1.0, DEGREE: 0.5, TIME: 1.0, BOTH: 1.0}
# κ, and how much larger it is where gaps shrink slowly.
SAFETY = {MESH: 1.5, DEGREE: 2.0, TIME: 1.5, BOTH: 2.0}
SLOW = 2.0
MIXED = 2.0
# The saturation of schemes of second order; a smaller measured one is not relied on. Elements of
# first order have twice that, and what is measured of them lies about it.
SMALLEST, FIRST_ORDER, FAST_FIRST_ORDER = 0.25, 0.5, 0.6
# κ′ and κ_c.
POWER, SHARES = 1.25, 2.0
# The largest power of the degree that is told from an exponential.
STEEPEST = 60.0


def left_by_powers(saturation: float, degree: int) -> float:
    """What an error that is a power of the degree has left beyond three degrees, as a multiple of
    their last gap.

    Args:
        saturation: σ of the degrees k, k+1, k+2.
        degree: k.

    Example:
        >>> gaps = [1 / p**2 - 1 / (p + 1) ** 2 for p in (1, 2)]
        >>> round(left_by_powers(gaps[1] / gaps[0], 1) * gaps[1], 6)  # 1/3², by the gaps alone
        0.111111
    """
    k = float(degree)

    def excess(power: float) -> float:
        return (1 - (1 + 1 / (k + 1)) ** -power) / ((1 + 1 / k) ** power - 1) - saturation

    if saturation >= math.log(1 + 1 / (k + 1)) / math.log(1 + 1 / k):
        return math.inf
    if excess(STEEPEST) >= 0:
        return 0.0
    power = brentq(excess, 1e-9, STEEPEST)
    return 1.0 / ((1 + 1 / (k + 1)) ** power - 1.0)


@dataclass(frozen=True)
class Gaps:
    """The gaps between three levels of one field.

    Attributes:
        way: by what the levels go up.
        first, second, both: ‖w_0 − w_1‖, ‖w_1 − w_2‖ and ‖w_0 − w_2‖.
        floor: gaps up to here are rounding errors.
        degree: the lowest degree of the elements on the first level.
        first_order: whether dividing cells halves the gaps at best.
        shares: c_0 and c_1.
        order: the highest order of convergence that the data leave.

    Example:
        >>> gaps = Gaps("mesh", first=0.4, second=0.1, both=0.5)
        >>> gaps.saturation, round(gaps.rest, 3), gaps.accepted
        (0.25, 0.05, True)
        >>> gaps = Gaps("degree", first=0.4, second=0.1, both=0.5)
        >>> round(gaps.rest, 3)
        0.15
        >>> round(
        ...     Gaps("mesh", first=0.4, second=0.01, both=0.41, order=2.0).rest, 3
        ... )  # 0.1 is what the order leaves
        0.05
    """

    way: str
    first: float
    second: float
    both: float
    floor: float = 0.0
    degree: int = 1
    first_order: bool = False
    shares: tuple[float, float] = (1.0, 1.0)
    order: float = math.inf

    @property
    def saturation(self) -> float:
        """σ."""
        return self.second / self.first if self.first > 0 else math.inf

    @property
    def rounded(self) -> bool:
        """Whether there is nothing but rounding."""
        return max(self.first, self.second) <= self.floor

    @property
    def halved(self) -> bool:
        """Whether the gaps are halved at best."""
        return self.first_order and self.way in (MESH, BOTH)

    @property
    def limit(self) -> float:
        """The saturation below which the gaps say something."""
        return ACCEPTED[self.way]

    @property
    def fast(self) -> bool:
        """Whether the gaps shrink as they do on fine meshes."""
        return self.rounded or self.saturation < (FAST_FIRST_ORDER if self.halved else FAST)

    @property
    def safety(self) -> float:
        """κ."""
        return SAFETY[self.way] * (1.0 if self.fast else SLOW)

    @property
    def accepted(self) -> bool:
        """Whether saturation was observed."""
        return self.rounded or self.saturation < self.limit

    @property
    def rest(self) -> float:
        """ρ, what is left beyond the third level."""
        if self.rounded:
            return self.first + self.second
        s = max(self.slowest, FIRST_ORDER if self.halved else SMALLEST)
        if s >= 1:
            return math.inf
        left = self.safety * s / (1 - s)
        second = max(self.second, self.least * self.first)
        return second * (
            max(left, POWER * left_by_powers(self.slowest, self.degree))
            if self.way == DEGREE
            else left
        )

    @property
    def least(self) -> float:
        """σ_q, the ratio of gaps of the order that the data leave, zero where they are smooth."""
        if not math.isfinite(self.order):
            return 0.0
        if self.way != DEGREE:
            return float(2**-self.order)
        low, middle, high = ((self.degree + n) ** -max(self.order, 1e-3) for n in range(3))
        return (middle - high) / (low - middle)

    @property
    def slowest(self) -> float:
        """max(σ, σ_q)."""
        return max(self.saturation, self.least)

    @property
    def share(self) -> float:
        """How much of the field's error is taken to show in its norm."""
        return 1.0 if self.rounded else min(1.0, SHARES * max(self.shares))

    def __str__(self) -> str:
        return (
            f"rounding only ({self.way})" if self.rounded else f"{self.saturation:.3g} ({self.way})"
        )


@dataclass(frozen=True)
class Levels:
    """What all levels of one field say.

    Attributes:
        gaps: those in space and, for transient problems, those in time.
        reported: ‖w‖ on the user's level.
        combined: ‖w*‖.
        residuals: about how far the residuals of the solves can have moved w.
        unseen: about how far data that no level has seen can have moved w.
        given: which of the three levels is the user's, whose error is asked for.
    """

    gaps: tuple[Gaps, ...]
    reported: float
    combined: float
    residuals: float = 0.0
    unseen: float = 0.0
    given: int = 0

    @property
    def rest(self) -> float:
        """ρ, an estimate of ‖w − w*‖, infinite where saturation was not observed."""
        return self._left([1.0] * len(self.gaps))

    @property
    def norm_rest(self) -> float:
        """The estimate of |‖w‖ − ‖w*‖|."""
        rest, size = self.rest, max(self.reported, self.combined)
        if not math.isfinite(rest) or size == 0:
            return rest
        return min(rest, self._left([gaps.share for gaps in self.gaps]) + rest**2 / (2 * size))

    def _left(self, shares: list[float]) -> float:
        if not all(gaps.accepted for gaps in self.gaps):
            return math.inf
        size, both = (
            max(self.reported, self.combined),
            [c * gaps.both for c, gaps in zip(shares, self.gaps, strict=True)],
        )
        mixed = MIXED * math.prod(both) / size if len(both) > 1 and size > 0 else 0.0
        return (
            sum(c * gaps.rest for c, gaps in zip(shares, self.gaps, strict=True))
            + mixed
            + self.residuals
            + self.unseen
        )

    @property
    def error(self) -> float:
        """The estimate of ‖w − w_h‖."""
        away = {0: lambda gaps: gaps.both, 1: lambda gaps: gaps.second, 2: lambda _: 0.0}
        return sum(map(away[self.given], self.gaps)) + self.rest

    @property
    def shift(self) -> float:
        """The estimate of |‖w‖ − ‖w_h‖|."""
        return abs(self.combined - self.reported) + self.norm_rest
