# SPDX-License-Identifier: MIT
"""Time schemes: diagonally implicit Runge–Kutta tableaux, checked when they are written.

All stages of a step share one matrix, so the diagonal entries of a tableau are equal, and a scheme
of more than one stage ends its step at its last stage (it is stiffly accurate), so that boundary
values, constraints and algebraic unknowns hold at every time level. The exception are compositions
of midpoint rules, a_ij = b_j and a_ii = b_i/2: these are symplectic, their parts may go back in
time, and a step passes through boundary values at the end of every part.
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
    """A diagonally implicit Runge–Kutta scheme, with equal diagonal entries or composed of midpoint
    rules.

    Args:
        name: how studies call it.
        a: the lower triangle of the tableau, row by row.
        b: the weights of the stages.
        order: the order of convergence, from 1 to 4; its conditions are checked.
        embedded: other weights of the same stages, one more than stages where the first is that of
            the rate at the start of the step; what both make of a step differs by about its error.
            Without any, adaptive steps compare one step with two.
        embedded_order: the power of the step by which that difference vanishes, less one.

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
    embedded: tuple[float, ...] | None = None
    embedded_order: int = 0

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
        if not self.composed:
            if diagonal <= 0 or any(row[-1] != diagonal for row in self.a):
                raise InputError(
                    f"the diagonal entries of {self.name!r} must be equal and positive, so that "
                    "all stages share one matrix, or half of the weights, with the weights below "
                    "them, for a composition of midpoint rules"
                )
            if not self.stiffly_accurate:
                raise InputError(
                    f"the weights of {self.name!r} must be its last row (stiffly accurate), so "
                    "that boundary values hold at the end of a step"
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
        self._check_embedded()

    def _check_embedded(self) -> None:
        """The weights of the embedded scheme are consistent, and its order is what is said."""
        if self.embedded is None:
            return
        if len(self.embedded) not in (len(self.b), len(self.b) + 1):
            raise InputError(
                f"the embedded weights of {self.name!r} are one for each stage, with one more in "
                "front where the rate at the start of a step counts"
            )
        if self.starts_embedded and not self.stiffly_accurate:
            raise InputError(
                f"the embedded weights of {self.name!r} use the rate at the start of a step, "
                "which only stiffly accurate schemes know"
            )
        own = (0.0,) * self.starts_embedded + self.b
        places = (0.0,) * self.starts_embedded + self.c
        if self.embedded_order not in (1, 2, 3, 4):
            raise InputError(
                f"the order of the embedded scheme of {self.name!r} is 1, 2, 3 or 4, not "
                f"{self.embedded_order!r}"
            )
        for power in range(self.embedded_order):
            gaps = zip(own, self.embedded, places, strict=True)
            gap = sum((mine - other) * place**power for mine, other, place in gaps)
            if abs(gap) > ROUNDING:
                raise InputError(
                    f"the embedded scheme of {self.name!r} is not of order {self.embedded_order}: "
                    f"Σ (b − b̂) c^{power} is {gap:.3g}, not 0"
                )

    @property
    def starts_embedded(self) -> bool:
        """Whether the embedded scheme takes the rate at the start of a step."""
        return self.embedded is not None and len(self.embedded) == len(self.b) + 1

    @property
    def composed(self) -> bool:
        """Whether a step is a sequence of midpoint rules."""
        return all(
            row[-1] == weight / 2 and row[:-1] == self.b[: len(row) - 1]
            for row, weight in zip(self.a, self.b, strict=True)
        )

    @property
    def backward(self) -> float:
        """The longest part of a step that goes back in time, as a share of the step."""
        return max(0.0, *(-row[-1] for row in self.a)) * 2

    def span(self, index: int) -> tuple[float, float]:
        """Where the part of a step that a stage stands for begins, and how long it is, as shares of
        the step: the whole step, or one of its midpoint rules.
        """
        if self.stiffly_accurate:
            return 0.0, 1.0
        return sum(self.b[:index]), self.b[index]

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
    """L-stable, two stages: Alexander (1977). With the rate at the start of a step the quadrature
    with three nodes has the right error in h³, up to a factor.
    """
    g = 1.0 - math.sqrt(0.5)
    second, third = 1 / (6 * g * (1 - g)), (1 / 3 - g / 2) / (1 - g)
    return Scheme(
        "sdirk2", ((g,), (1.0 - g, g)), (1.0 - g, g), 2, (1 - second - third, second, third), 2
    )


def _sdirk3() -> Scheme:
    """L-stable, three stages: Alexander, SIAM J. Numer. Anal. 14 (1977) 1006–1021."""
    g = 0.435866521508458999416019  # the root of x³ − 3x² + 3x/2 − 1/6 between 0 and 1/2
    b = (-1.5 * g * g + 4 * g - 0.25, 1.5 * g * g - 5 * g + 1.25, g)
    return Scheme(
        "sdirk3", ((g,), ((1 - g) / 2, g), b), b, 3, (g / (1 - g), (1 - 2 * g) / (1 - g), 0.0), 2
    )


def _sdirk4() -> Scheme:
    """L-stable, five stages, with its embedded scheme of order three: Hairer and Wanner, Solving
    ODEs II, table IV.6.5.
    """
    g = 0.25
    b = (25 / 24, -49 / 48, 125 / 16, -85 / 12, g)
    rows = (
        (g,),
        (1 / 2, g),
        (17 / 50, -1 / 25, g),
        (371 / 1360, -137 / 2720, 15 / 544, g),
        b,
    )
    return Scheme("sdirk4", rows, b, 4, (59 / 48, -17 / 96, 225 / 32, -85 / 12, 0.0), 3)


def composed(name: str, weights: tuple[float, ...], order: int) -> Scheme:
    """The scheme that takes midpoint rules one after another, as parts of a step.

    Args:
        name: how studies call it.
        weights: the lengths of the parts as shares of the step; some may be negative.
        order: the order of convergence, which is checked.

    Example:
        >>> composed("twice", (0.5, 0.5), 2).a
        ((0.25,), (0.5, 0.25))
    """
    rows = tuple((*weights[:i], weight / 2) for i, weight in enumerate(weights))
    return Scheme(name, rows, weights, order)


def _midpoint4() -> Scheme:
    """Five midpoint rules, the third one back in time: Suzuki, Phys. Lett. A 146 (1990) 319–323.
    Its error is about a hundredth of that of three.
    """
    outer = 1 / (4 - 4 ** (1 / 3))
    return composed("midpoint4", (outer, outer, 1 - 4 * outer, outer, outer), 4)


for _scheme in (
    Scheme("midpoint", ((0.5,),), (1.0,), 2),
    _sdirk2(),
    Scheme("backward-euler", ((1.0,),), (1.0,), 1),
    _sdirk3(),
    _sdirk4(),
    _midpoint4(),
):
    add_scheme(_scheme)
