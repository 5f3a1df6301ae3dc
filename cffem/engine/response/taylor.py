# SPDX-License-Identifier: MIT
"""Taylor tests of derivatives: the remainder of a correct first derivative is of second order in
the step.

    r(ρ) = ‖f(ρ) − f(0) − ρ f'(0)‖ = O(ρ²),     order = log(r(ρ)/r(ρ/2))/log 2 → 2.

The functions here are public, so that anybody can ask whether the linearised or adjoint numbers of
a model are right: along the deletion branch of a term, f(ρ) is the solution or an observable of it,
and f'(0) what the linearised or adjoint solve says. Where f is linear in ρ the remainder is
round-off, and `exact` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.symbols.problem.interventions import scale

if TYPE_CHECKING:
    import numpy as np

    from cffem.engine.model import Model
    from cffem.symbols.problem.observables import Observable

STEPS = (0.01, 0.005, 0.0025)
# Remainders below this, relative to the size of f(0), are round-off of a function that is linear in
# the step.
ROUND_OFF = 1e-12


@dataclass(frozen=True)
class TaylorTest:
    """The outcome of a Taylor test.

    Attributes:
        steps: the steps ρ.
        remainders: r(ρ) for each.
        size: ‖f(0)‖, or the size of the change where f(0) vanishes.
    """

    steps: tuple[float, ...]
    remainders: tuple[float, ...]
    size: float

    @property
    def orders(self) -> tuple[float, ...]:
        """Observed orders, one for each pair of neighbouring steps."""
        pairs = zip(self.remainders, self.remainders[1:], self.steps, self.steps[1:], strict=False)
        return tuple(
            math.log(a / b) / math.log(s / t) if a > 0 and b > 0 else math.inf
            for a, b, s, t in pairs
        )

    @property
    def order(self) -> float:
        """The smallest observed order."""
        return min(self.orders)

    @property
    def exact(self) -> bool:
        """Whether all remainders are round-off."""
        return max(self.remainders) <= ROUND_OFF * self.size

    def passed(self, least: float = 1.99) -> bool:
        """Whether the derivative is right: order above `least`, or an exact linear function."""
        return self.exact or self.order > least


def taylor_test(
    value: Callable[[float], np.ndarray],
    derivative: np.ndarray,
    steps: Sequence[float] = STEPS,
    size: Callable[[np.ndarray], float] = abs,
) -> TaylorTest:
    """The Taylor test of any function of one number with values that can be added and scaled.

    Args:
        value: f.
        derivative: f'(0).
        steps: decreasing steps.
        size: the norm of a value.

    Example:
        >>> import math
        >>> taylor_test(math.exp, 1.0).passed()
        True
        >>> taylor_test(math.exp, 1.1).order < 1.1
        True
    """
    start = value(0.0)
    values = [value(step) for step in steps]
    remainders = tuple(
        float(size(v - start - step * derivative)) for step, v in zip(steps, values, strict=True)
    )
    largest = float(size(start)) or max(float(size(v - start)) for v in values)
    return TaylorTest(tuple(steps), remainders, largest)


def taylor_order(
    value: Callable[[float], np.ndarray],
    derivative: np.ndarray,
    steps: Sequence[float] = STEPS,
    size: Callable[[np.ndarray], float] = abs,
) -> float:
    """The smallest observed order of a Taylor test; inf where the function is linear up to
    round-off.

    Example:
        >>> round(taylor_order(lambda step: (1 + step) ** 2, 2.0), 6)
        2.0
    """
    test = taylor_test(value, derivative, steps, size)
    return math.inf if test.exact else test.order


def taylor_linearised(
    model: Model, name: str, steps: Sequence[float] = STEPS, norm: str = "L2"
) -> TaylorTest:
    """The Taylor test of `model.linearised(name)` along its deletion branch, in a norm of the
    trajectory.
    """
    response, factual = model.linearised(name, norm).trajectory, model.factual
    remainders = []
    for step in steps:
        solution = model.solve(scale(name, 1.0 - step))
        triples = zip(solution.states, factual.states, response.states, strict=True)
        remainders.append(
            model.trajectory_norm([a - b - step * c for a, b, c in triples], model.times, norm)
        )
    return TaylorTest(tuple(steps), tuple(remainders), factual.norm(norm))


def taylor_observable(
    model: Model, observable: Observable, name: str, steps: Sequence[float] = STEPS
) -> TaylorTest:
    """The Taylor test of `model.observable_scores(observable)` along the deletion branch of a
    term.
    """
    measurement = model.measurement(observable)
    slope = -model.observable_scores(observable, [name]).signed[name]

    def value(step: float) -> float:
        return measurement.value(model.solve(scale(name, 1.0 - step)) if step else model.factual)

    return taylor_test(value, slope, steps)
