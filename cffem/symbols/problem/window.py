# SPDX-License-Identifier: MIT
"""The time window of an experiment: its ends and its levels, equal steps or any others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp

from cffem.symbols.errors import InputError
from cffem.symbols.problem.schemes import SCHEMES

# How far a time may be from a level, relative to the steps beside it, to be that level.
SAME_LEVEL = 1e-8
AUTO = "auto"
OPTIONAL = {"optional": True}
# The largest tolerance of adaptive steps: above it they say nothing about a solution.
LARGEST_TOLERANCE = 0.5


@dataclass(frozen=True)
class Window:
    """The time window (start, end) and its levels.

    Args:
        start, end: its ends.
        steps: the number of time steps; equal ones, unless `levels` are given.
        scheme: "midpoint" (second order, conserves quadratic energies; equals Crank–Nicolson for
            linear problems), "midpoint4" (fourth order, conserves the energy of waves), "sdirk2",
            "sdirk3" and "sdirk4" (second, third and fourth order, L-stable, for stiff parabolic
            problems and constraints), "backward-euler", or one that was added
            (`cffem.extend.add_scheme`). None: midpoint, or sdirk2 where a constraint with
            multiplier is declared.
        levels: all time levels, start and end included, for steps that differ; see `through`.
        tolerance: where it is given, steps are halved as often as the factual solution asks for, so
            that the errors of all steps together are at most about this share of the solution;
            "auto" is a tenth of the ε of a study.

    Example:
        >>> import cffem as cf
        >>> cf.Window(0, 1, steps=4).times
        array([0.  , 0.25, 0.5 , 0.75, 1.  ])
        >>> cf.Window.through([0, 0.1, 0.4, 1.0]).steps
        3
    """

    start: float
    end: float
    steps: int
    scheme: str | None = None
    # Descriptions of studies leave these out where they are None, as before there were any.
    levels: tuple[float, ...] | None = field(default=None, metadata=OPTIONAL)
    tolerance: float | str | None = field(default=None, metadata=OPTIONAL)

    def __post_init__(self) -> None:
        if self.levels is not None:
            object.__setattr__(self, "levels", tuple(float(level) for level in self.levels))
        numbers = all(
            isinstance(end, int | float | np.number | sp.Number) for end in (self.start, self.end)
        )
        if not (
            numbers
            and math.isfinite(self.start)
            and math.isfinite(self.end)
            and self.end > self.start
        ):
            raise InputError(
                f"a time window needs finite start < end, not ({self.start}, {self.end})"
            )
        if (
            not isinstance(self.steps, int | np.integer)
            or isinstance(self.steps, bool)
            or self.steps < 1
        ):
            raise InputError(
                f"a time window needs a whole number of steps, at least 1, not {self.steps!r}"
            )
        if self.scheme is not None:
            SCHEMES[self.scheme]  # an unknown one is an error that names those there are
        self._check_levels()
        self._check_tolerance()

    def _check_levels(self) -> None:
        if self.levels is None:
            return
        levels = np.array(self.levels)
        if (levels[0], levels[-1], len(levels) - 1) != (self.start, self.end, self.steps):
            raise InputError(
                f"the levels of a window from {self.start:g} to {self.end:g} with {self.steps} "
                "steps begin and end there, one more than steps; Window.through([…]) takes them "
                "from the levels"
            )
        if not (np.all(np.isfinite(levels)) and np.all(np.diff(levels) > 0)):
            raise InputError("the levels of a time window are finite numbers that increase")

    def _check_tolerance(self) -> None:
        given = self.tolerance
        if given is None or given == AUTO:
            return
        number = isinstance(given, int | float | np.number) and not isinstance(given, bool)
        if not number or not 0 < float(given) <= LARGEST_TOLERANCE:
            raise InputError(
                "the tolerance of adaptive steps is a number above 0 and at most "
                f"{LARGEST_TOLERANCE:g}, the share of the solution that errors of steps may "
                f"have, or {AUTO!r}, not {given!r}"
            )

    @classmethod
    def through(
        cls,
        levels: Sequence[float] | np.ndarray,
        scheme: str | None = None,
        tolerance: float | str | None = None,
    ) -> Window:
        """The window whose steps end at given times.

        Args:
            levels: all time levels in order, start and end included.
            scheme, tolerance: see `Window`.

        Example:
            >>> Window.through([0, 0.01, 0.1, 1]).times
            array([0.  , 0.01, 0.1 , 1.  ])
        """
        try:
            given = tuple(float(level) for level in levels)
        except (TypeError, ValueError):
            raise InputError(f"the levels of a time window are numbers, not {levels!r}") from None
        if len(given) < 2:
            raise InputError("a time window needs at least two levels, its start and its end")
        return cls(given[0], given[-1], len(given) - 1, scheme, given, tolerance)

    @property
    def step(self) -> float:
        """The length of a time step, the mean one where they differ."""
        return (self.end - self.start) / self.steps

    @property
    def times(self) -> np.ndarray:
        """All time levels, start and end included."""
        if self.levels is not None:
            return np.array(self.levels)
        return np.linspace(self.start, self.end, self.steps + 1)

    @property
    def uniform(self) -> bool:
        """Whether all steps are equal, up to rounding."""
        return self.levels is None or is_uniform(np.array(self.levels))

    @property
    def adaptive(self) -> bool:
        """Whether steps are still to be chosen by a solve."""
        return self.tolerance is not None

    def divided(self, factor: int) -> Window:
        """Every step divided into equal parts.

        Example:
            >>> Window.through([0, 1, 3]).divided(2).times
            array([0. , 0.5, 1. , 2. , 3. ])
        """
        return self.resampled(self.steps * factor)

    def resampled(self, steps: int) -> Window:
        """The window with another number of steps, whose lengths vary as those of this one do: the
        levels are equidistant in the number of the level.

        Example:
            >>> Window.through([0, 1, 2, 4, 6]).resampled(2).times
            array([0., 2., 6.])
        """
        if self.levels is None:
            return replace(self, steps=steps)
        places = np.arange(steps + 1) * self.steps / steps
        found = np.interp(places, np.arange(self.steps + 1), self.times)
        return Window.through(found, self.scheme, self.tolerance)

    def level_at(self, time: float) -> int | None:
        """The number of the level at a time, up to rounding; None where there is none.

        Example:
            >>> Window(0, 1, steps=10).level_at(0.3), Window(0, 1, steps=10).level_at(0.35)
            (3, None)
        """
        times = self.times
        nearest = int(np.argmin(np.abs(times - time)))
        steps = np.diff(times)
        beside = steps[max(nearest - 1, 0) : nearest + 1].min()
        return nearest if abs(times[nearest] - time) <= SAME_LEVEL * beside else None

    def with_levels(self, more: Iterable[float]) -> Window:
        """The window with steps that also end at some times; itself where they do already.

        Times outside are left out.

        Example:
            >>> Window(0, 1, steps=2).with_levels([0.7, 2.0]).times
            array([0. , 0.5, 0.7, 1. ])
        """
        new = sorted(
            {
                float(time)
                for time in more
                if self.start < time < self.end and self.level_at(time) is None
            }
        )
        kept: list[float] = []
        for time in new:
            if not kept or time - kept[-1] > SAME_LEVEL * self.step:
                kept.append(time)
        if not kept:
            return self
        return Window.through(sorted([*self.times.tolist(), *kept]), self.scheme, self.tolerance)


def is_uniform(times: np.ndarray) -> bool:
    """Whether levels are equidistant, up to the rounding of times."""
    steps = np.diff(times)
    return bool(np.ptp(steps) <= SAME_LEVEL * steps.max())
