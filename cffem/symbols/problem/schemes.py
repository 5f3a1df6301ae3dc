# SPDX-License-Identifier: MIT
"""Time schemes: diagonally implicit Runge–Kutta tableaux, checked when they are written.

All stages of a step share one matrix, so the diagonal entries of a tableau are equal. A scheme of
more than one stage ends its step at its last stage (it is stiffly accurate), so that boundary
values, constraints and algebraic unknowns hold at every time level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cffem.symbols.errors import InputError
from cffem.symbols.registry import Registry

# Coefficients are given in double precision; order conditions hold up to the rounding of a few
# products.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Scheme:
    """A diagonally implicit Runge–Kutta scheme with equal diagonal entries.

    Args:
        name: how studies call it.
        a: the lower triangle of the tableau, row by row.
        b: the weights of the stages.
        order: the order of convergence, from 1 to 4; its conditions are checked.

    Example:
        >>> Scheme("crank", ((0.5,),), (1.0,), 2).c
        (0.5,)
        >>> Scheme("wrong", ((1.0,),), (1.0,), 2)
        Traceback (most recent call last):
        ...
        cffem.symbols.errors.InputError: the scheme 'wrong' is not of order 2: Σ b c is 1, not 1/2
    """

    name: str
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    order: int

    def __post_init__(self) -> None:
        rows = len(self.a)
        if (
            not rows
            or len(self.b) != rows
            or any(len(row) != i + 1 for i, row in enumerate(self.a))
        ):
            raise InputError(
                f"the tableau of {self.name!r} has rows of 1, 2, … entries and one weight for each"
            )
        if not all(math.isfinite(entry) for row in (*self.a, self.b) for entry in row):
            raise InputError(f"the tableau of {self.name!r} has entries that are not finite")
        diagonal = self.a[0][0]
        if diagonal <= 0 or any(row[-1] != diagonal for row in self.a):
            raise InputError(
                f"the diagonal entries of {self.name!r} must be equal and positive, so that all "
                "stages share one matrix"
            )
        if rows > 1 and not self.stiffly_accurate:
            raise InputError(
                f"the weights of {self.name!r} must be its last row (stiffly accurate), so that "
                "boundary values hold at the end of a step"
            )
        if 0.0 in self.b:
            raise InputError(f"a weight of {self.name!r} is zero; leave that stage out")
        if self.order not in (1, 2, 3, 4):
            raise InputError(f"the order of {self.name!r} is 1, 2, 3 or 4, not {self.order!r}")
        for words, value, exact in self._conditions():
            if abs(value - 1.0 / exact) > ROUNDING:
                raise InputError(
                    f"the scheme {self.name!r} is not of order {self.order}: {words} is "
                    f"{value:.12g}, not 1{'' if exact == 1 else f'/{exact}'}"
                )

    def _conditions(self) -> list[tuple[str, float, int]]:
        """The order conditions up to the stated order: (words, value, 1 / what it must be)."""
        c = self.c
        once = [sum(e * c[j] for j, e in enumerate(row)) for row in self.a]
        twice = [sum(e * once[j] for j, e in enumerate(row)) for row in self.a]
        squares = [sum(e * c[j] ** 2 for j, e in enumerate(row)) for row in self.a]

        def weighted(values: list[float]) -> float:
            return sum(b * value for b, value in zip(self.b, values, strict=True))

        powers = [[ci**k for ci in c] for k in range(4)]
        found = [
            (1, "Σ b", weighted(powers[0]), 1),
            (2, "Σ b c", weighted(powers[1]), 2),
            (3, "Σ b c²", weighted(powers[2]), 3),
            (3, "Σ b a c", weighted(once), 6),
            (4, "Σ b c³", weighted(powers[3]), 4),
            (4, "Σ b c a c", weighted([x * y for x, y in zip(c, once, strict=True)]), 8),
            (4, "Σ b a c²", weighted(squares), 12),
            (4, "Σ b a a c", weighted(twice), 24),
        ]
        return [
            (words, value, exact) for order, words, value, exact in found if order <= self.order
        ]

    @property
    def c(self) -> tuple[float, ...]:
        """Stage times."""
        return tuple(sum(row) for row in self.a)

    @property
    def stiffly_accurate(self) -> bool:
        """Whether the last stage is the end of the step."""
        return self.a[-1] == self.b


SCHEMES: Registry[Scheme] = Registry("scheme")


def add_scheme(scheme: Scheme) -> Scheme:
    """Make a scheme known to `Window` and to studies by its name."""
    return SCHEMES.add(scheme.name, scheme)


def _sdirk2() -> Scheme:
    g = 1.0 - math.sqrt(0.5)
    return Scheme("sdirk2", ((g,), (1.0 - g, g)), (1.0 - g, g), 2)


def _sdirk3() -> Scheme:
    """L-stable, three stages: Alexander, SIAM J. Numer. Anal. 14 (1977) 1006–1021."""
    g = 0.435866521508458999416019  # the root of x³ − 3x² + 3x/2 − 1/6 between 0 and 1/2
    b = (-1.5 * g * g + 4 * g - 0.25, 1.5 * g * g - 5 * g + 1.25, g)
    return Scheme("sdirk3", ((g,), ((1 - g) / 2, g), b), b, 3)


def _sdirk4() -> Scheme:
    """L-stable, five stages: Hairer and Wanner, Solving ODEs II, table IV.6.5."""
    g = 0.25
    b = (25 / 24, -49 / 48, 125 / 16, -85 / 12, g)
    rows = (
        (g,),
        (1 / 2, g),
        (17 / 50, -1 / 25, g),
        (371 / 1360, -137 / 2720, 15 / 544, g),
        b,
    )
    return Scheme("sdirk4", rows, b, 4)


for _scheme in (
    Scheme("midpoint", ((0.5,),), (1.0,), 2),
    _sdirk2(),
    Scheme("backward-euler", ((1.0,),), (1.0,), 1),
    _sdirk3(),
    _sdirk4(),
):
    add_scheme(_scheme)
