# SPDX-License-Identifier: MIT
"""The stepping core: how levels and stages of a diagonally implicit Runge–Kutta scheme depend on
each other, forwards and backwards.

With γ = a_ii Δt, stage i of a step from (w_n, v_n) starts from

    B = w_n + Δt Σ_{j<i} a_ij Ẇ_j,      V = v_n + Δt Σ_{j<i} a_ij Ẅ_j,

and its value W has the rates Ẇ = (W − B)/γ and Ẅ = (Ẇ − V)/γ. The step ends at w_{n+1} = w_n + Δt
Σ b_i Ẇ_i and v_{n+1} = v_n + Δt Σ b_i Ẅ_i; unknowns without a rate take their value from the last
stage. What determines W is another matter: the equation itself, its linearisation, or the equation
of a difference. All of them march on a `Track`; adjoints go back by `ReversedStep`, its transpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cffem.engine.solve.krylov import accumulate
from cffem.symbols.problem.schemes import Scheme
from cffem.symbols.problem.window import SAME_LEVEL, is_uniform

# The lengths of earlier steps that a step is compared with.
REMEMBERED = 64


def combined(weights: Iterable[float], vectors: list[np.ndarray]) -> np.ndarray:
    """Σ weight · vector, zero for no vectors."""
    return sum(
        (weight * vector for weight, vector in zip(weights, vectors, strict=False)), np.zeros(1)
    )


@dataclass(frozen=True)
class Stepping:
    """A scheme with its time steps.

    Attributes:
        scheme: the Runge–Kutta scheme.
        steps: Δt of each step.
        dynamic: over owned unknowns, 1 for those with a rate, 0 for algebraic ones; None where all
            have a rate.
        second_order: over owned unknowns, 1 for those with a second-order anchor; None if there are
            none.
    """

    scheme: Scheme
    steps: np.ndarray
    dynamic: np.ndarray | None = None
    second_order: np.ndarray | None = None

    def gamma(self, step: int, index: int) -> float:
        """γ = a_ii Δt of a stage of a step."""
        return self.scheme.a[index][index] * float(self.steps[step])

    @property
    def last(self) -> int:
        """The number of the last stage."""
        return len(self.scheme.b) - 1


def time_steps(times: np.ndarray) -> np.ndarray:
    """Δt between levels: one number for steps that are equal up to the rounding of times, because
    differences of rounded times would each ask for a factorisation of their own.

    Example:
        >>> len(set(time_steps(np.linspace(0, 1, 11)).tolist()))
        1
        >>> time_steps(np.array([0.0, 0.1, 0.2, 0.3, 1.3])).round(12).tolist()
        [0.1, 0.1, 0.1, 1.0]
    """
    if is_uniform(times):
        return np.full(len(times) - 1, float(times[-1] - times[0]) / (len(times) - 1))
    steps = np.diff(times)
    known: list[float] = []
    for n, step in enumerate(steps):
        same = next((other for other in known if abs(other - step) <= SAME_LEVEL * step), None)
        if same is None:
            known = [float(step), *known][:REMEMBERED]
        else:
            steps[n] = same
    return steps


class Track:
    """One trajectory under way: the level that is reached, and the rates of the stages since.

    Args:
        stepping: the scheme and its steps.
        state: the first level; where all unknowns have rates it is changed in place.
        velocity: the velocity there, for second-order anchors only.

    Attributes:
        state, velocity: the level that is reached.
        level: its number.

    Example:
        >>> from cffem.symbols.problem.schemes import SCHEMES
        >>> track = Track(Stepping(SCHEMES["backward-euler"], np.array([0.5])), np.ones(1))
        >>> base, speed = track.bases(0)
        >>> track.take(0, base / (1 + track.gamma(0)), base, speed)  # of the equation u̇ = −u
        True
        >>> track.state.round(3).tolist()
        [0.667]
    """

    def __init__(self, stepping: Stepping, state: np.ndarray, velocity: np.ndarray | None = None):
        self.stepping, self.state, self.velocity = stepping, state, velocity
        self.level = 0
        self._rates: list[np.ndarray] = []
        self._accelerations: list[np.ndarray] = []

    @property
    def step(self) -> float:
        """Δt of the step under way."""
        return float(self.stepping.steps[self.level])

    def gamma(self, index: int) -> float:
        """γ of a stage of the step under way."""
        return self.stepping.gamma(self.level, index)

    def bases(self, index: int) -> tuple[np.ndarray, np.ndarray | None]:
        """B and V of a stage; they may be the level itself and must not be changed."""
        if not self._rates:
            return self.state, self.velocity
        row, step = self.stepping.scheme.a[index][:-1], self.step
        base = self.state + step * combined(row, self._rates)
        if self.velocity is None:
            return base, None
        return base, self.velocity + step * combined(row, self._accelerations)

    def take(
        self, index: int, value: np.ndarray, base: np.ndarray, speed: np.ndarray | None
    ) -> bool:
        """Take the value of a stage with its B and V; whether that ends the step."""
        inverse = 1.0 / self.gamma(index)
        rate = value - base
        rate *= inverse
        acceleration = None
        if speed is not None:
            acceleration = rate - speed
            acceleration *= inverse
        return self.move(index, value, rate, acceleration)

    def move(
        self, index: int, value: np.ndarray, rate: np.ndarray, acceleration: np.ndarray | None
    ) -> bool:
        """Take the value of a stage with its rates; whether that ends the step."""
        s = self.stepping
        self._rates.append(rate if s.dynamic is None else rate * s.dynamic)
        if acceleration is not None:
            slowed = s.second_order is not None
            self._accelerations.append(acceleration * s.second_order if slowed else acceleration)
        if index < s.last:
            return False
        self.state = self._level(self.state, self._rates)
        if s.dynamic is not None:
            self.state = self.state * s.dynamic + value * (1.0 - s.dynamic)
        if self.velocity is not None:
            self.velocity = self._level(self.velocity, self._accelerations)
        self._rates, self._accelerations = [], []
        self.level += 1
        return True

    def _level(self, level: np.ndarray, slopes: list[np.ndarray]) -> np.ndarray:
        """The next level, in place of the last one where nobody else has it."""
        s = self.stepping
        if s.dynamic is not None:
            return level + self.step * combined(s.scheme.b, slopes)
        for weight, slope in zip(s.scheme.b, slopes, strict=True):
            accumulate(level, self.step * weight, slope)
        return level


class LinearisedStage(Protocol):
    """What a stage's linearised equation offers to an adjoint."""

    def solve_transposed(self, right: np.ndarray) -> np.ndarray:
        """λ with Jᵀ λ = right."""

    def partial(self, order: int, vector: np.ndarray, transposed: bool = False) -> np.ndarray:
        """∂F/∂ẇ (order 1) or ∂F/∂ẅ (order 2), or its transpose, of a vector."""


class ReversedStep:
    """One step backwards: the transpose of a step of a `Track`.

    A bar denotes the derivative of a functional with respect to a quantity. Stage i passes on

        V̄ = −Ẅ̄/γ, Ẇ̄ += Ẅ̄/γ, B̄ = −Ẇ̄/γ, W̄ += Ẇ̄/γ, Jᵀ λ = W̄, B̄ += (F_ẇ/γ + F_ẅ/γ²)ᵀ λ,
        V̄ += (F_ẅ/γ)ᵀ λ,

    and B̄ and V̄ go to the level before and to earlier stages.

    Args:
        stepping: the scheme and its steps, with `dynamic`.
        step: the number of the step.
        about: the linearised equation, which its owner brings to each stage.
        state_bar, velocity_bar: the derivatives with respect to the level after the step.
    """

    def __init__(
        self,
        stepping: Stepping,
        step: int,
        about: LinearisedStage,
        state_bar: np.ndarray,
        velocity_bar: np.ndarray,
    ):
        self.stepping, self.step, self.about = stepping, step, about
        self.state_bar, self.velocity_bar = state_bar, velocity_bar
        self._bases: dict[int, np.ndarray] = {}
        self._speeds: dict[int, np.ndarray] = {}

    def stage(self, index: int) -> np.ndarray:
        """λ of a stage; later stages must have been taken."""
        s, about = self.stepping, self.about
        gamma, length = s.gamma(self.step, index), float(s.steps[self.step])
        assert s.dynamic is not None
        zero = np.zeros(len(self.state_bar))
        later = [(s.scheme.a[k][index], k) for k in range(index + 1, s.last + 1)]
        weight = s.scheme.b[index]
        pushed = weight * self.state_bar + sum(a * self._bases[k] for a, k in later)
        rate_bar = length * s.dynamic * pushed
        value_bar = (1 - s.dynamic) * self.state_bar if index == s.last else zero
        speed_bar = zero
        if s.second_order is not None:
            pushed = weight * self.velocity_bar + sum(a * self._speeds[k] for a, k in later)
            acceleration_bar = length * s.second_order * pushed
            rate_bar = rate_bar + acceleration_bar / gamma
            speed_bar = -acceleration_bar / gamma
        multiplier = about.solve_transposed(value_bar + rate_bar / gamma)
        base_bar = -rate_bar / gamma + about.partial(1, multiplier, transposed=True) / gamma
        if s.second_order is not None:
            pulled = about.partial(2, multiplier, transposed=True) / gamma
            base_bar += pulled / gamma
            speed_bar = speed_bar + pulled
        self._bases[index], self._speeds[index] = base_bar, speed_bar
        return multiplier

    def before(self) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives with respect to the level before the step, after all stages."""
        dynamic = self.stepping.dynamic
        state_bar = dynamic * self.state_bar + sum(self._bases.values())
        velocity_bar = self.velocity_bar
        if self.stepping.second_order is not None:
            velocity_bar = velocity_bar + sum(self._speeds.values())
        return state_bar, velocity_bar
