# SPDX-License-Identifier: MIT
"""Adjoint sensitivities: what one observable feels of every term, from one backward solve (the
observable adjoint theorem).

The scheme of `cffem.engine.time.march` is reversed step by step. A bar denotes the derivative of
the observable O with respect to a quantity; with the notation of `cffem.engine.response.tangent`,
stage i passes on

    V̄ = −Ẅ̄/γ, Ẇ̄ += Ẅ̄/γ, B̄ = −Ẇ̄/γ, W̄ += Ẇ̄/γ, Jᵀ λ = W̄, B̄ += (F_ẇ/γ + F_ẅ/γ²)ᵀ λ, V̄ +=
    (F_ẅ/γ)ᵀ λ,

B̄ and V̄ go to the level before and to earlier stages, and ⟨φ, T_j[u]⟩ = Σ_stages λᵀ T_j = ∂O/∂α_j.
Deleting a fraction ρ of term j then changes O by −ρ ⟨φ, α_j T_j[u]⟩ + O(ρ²), and I_j = |⟨φ, α_j
T_j[u]⟩|.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.response.tangent import Linearisation
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.problem.interventions import delete

if TYPE_CHECKING:
    from cffem.engine.response.observable_values import Measurement
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.observables import Observable


class ObservableScores(Mapping[str, float]):
    """I_j = |⟨φ, α_j T_j[u]⟩| by term name.

    Attributes:
        observable: the observable O as it was declared.
        value: O[u].
        sensitivities: ∂O/∂α_j = ⟨φ, T_j[u]⟩ with its sign, also of terms with coefficient zero.
        signed: ⟨φ, α_j T_j[u]⟩ with its sign; deleting the fraction ρ of term j changes O by −ρ
            times that, to first order.
        backward_solves: how many backward solves were needed: one.
        record: statistics of the linear solves in it.
    """

    def __init__(
        self,
        observable: Observable,
        value: float,
        sensitivities: Mapping[str, float],
        coefficients: Mapping[str, float],
    ):
        self.observable = observable
        self.value = value
        self.sensitivities = dict(sensitivities)
        self.signed = {name: coefficients[name] * number for name, number in sensitivities.items()}
        self.backward_solves = 1
        self.record = SolveRecord()

    def __getitem__(self, name: str) -> float:
        return abs(self.signed[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.signed)

    def __len__(self) -> int:
        return len(self.signed)

    def __repr__(self) -> str:
        return f"ObservableScores({dict(self)}, value={self.value!r})"


def observable_scores(
    solution: Solution, measurement: Measurement, names: Iterable[str]
) -> ObservableScores:
    """The scores of all these terms for one observable of a solution.

    Args:
        solution: a solution with its stages, in memory or anything else that can be indexed.
        measurement: the observable on this model.
        names: the terms.
    """
    names = tuple(names)
    for name in names:
        delete(name).apply(
            solution.model.coefficients
        )  # an unknown name is an error before anything is solved
    record = SolveRecord()
    about = Linearisation(solution, record)
    totals = dict.fromkeys(names, 0.0)
    for weight in backward(about, measurement):
        for name in names:
            totals[name] += float(np.dot(weight, about.term(name)))
    about.destroy()
    sums = solution.model.comm.allreduce(np.array([totals[name] for name in names]))
    sensitivities = {name: float(total) for name, total in zip(names, sums, strict=True)}
    scores = ObservableScores(
        measurement.observable, measurement.value(solution), sensitivities, about.coefficients
    )
    scores.record = record
    return scores


def backward(about: Linearisation, measurement: Measurement) -> Iterator[np.ndarray]:
    """λ of each stage, from the last to the first; the equation is linearised at that stage
    while the caller has it.
    """
    states, velocities = measurement.gradient(about.solution)
    if about.gamma is None or about.step is None:
        ((_, _, values, time),) = about.stages
        about.at(values, time)
        yield about.solve_transposed(states[0])
        return
    zero = np.zeros(about.model.spaces.owned)
    state_bar, velocity_bar = zero, zero
    count = len(about.scheme.b)
    for step in range(len(about.stages) // count - 1, -1, -1):
        state_bar = state_bar + states.get(step + 1, zero)
        velocity_bar = velocity_bar + velocities.get(step + 1, zero)
        reversal = Reversal(about, state_bar, velocity_bar)
        for index in range(count - 1, -1, -1):
            _, _, values, time = about.stages[step * count + index]
            about.at(values, time)
            yield reversal.stage(index)
        state_bar, velocity_bar = reversal.before()
    with about.starting() as algebraic:
        if algebraic:
            yield about.solve_transposed(state_bar + states.get(0, zero))


class Reversal:
    """One time step backwards.

    Args:
        about: the linearised equation.
        state_bar, velocity_bar: the derivatives with respect to the level after the step.
    """

    def __init__(self, about: Linearisation, state_bar: np.ndarray, velocity_bar: np.ndarray):
        assert about.step is not None
        self.about = about
        self.step: float = about.step
        self.state_bar, self.velocity_bar = state_bar, velocity_bar
        count = len(about.scheme.b)
        self.bases: dict[int, Any] = {}
        self.speeds: dict[int, Any] = {}
        self.count = count

    def stage(self, index: int) -> np.ndarray:
        """λ of a stage; later stages must have been taken."""
        about, gamma = self.about, self.about.gamma
        assert gamma is not None
        later = [(about.scheme.a[k][index], k) for k in range(index + 1, self.count)]
        weight = about.scheme.b[index]
        rate_bar: Any = (
            self.step
            * about.dynamic
            * (weight * self.state_bar + sum(a * self.bases[k] for a, k in later))
        )
        value_bar = (
            (1 - about.dynamic) * self.state_bar
            if index == self.count - 1
            else np.zeros(len(self.state_bar))
        )
        speed_bar: Any = 0.0
        if about.second_order is not None:
            pushed = weight * self.velocity_bar + sum(a * self.speeds[k] for a, k in later)
            acceleration_bar = self.step * about.second_order * pushed
            rate_bar = rate_bar + acceleration_bar / gamma
            speed_bar = -acceleration_bar / gamma
        multiplier = about.solve_transposed(value_bar + rate_bar / gamma)
        base_bar: Any = -rate_bar / gamma + about.partial(1, multiplier, transposed=True) / gamma
        if about.second_order is not None:
            pulled = about.partial(2, multiplier, transposed=True) / gamma
            base_bar += pulled / gamma
            speed_bar = speed_bar + pulled
        self.bases[index], self.speeds[index] = base_bar, speed_bar
        return multiplier

    def before(self) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives with respect to the level before the step, after all stages."""
        state_bar = self.about.dynamic * self.state_bar + sum(self.bases.values())
        velocity_bar = self.velocity_bar
        if self.about.second_order is not None:
            velocity_bar = velocity_bar + sum(self.speeds.values())
        return state_bar, velocity_bar
