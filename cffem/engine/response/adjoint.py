# SPDX-License-Identifier: MIT
"""Adjoint sensitivities: what one observable feels of every term, from one backward solve (the
observable adjoint theorem).

The scheme of `cffem.engine.time.march` is reversed step by step (`cffem.engine.time.stepping`), and
with the λ of each stage ⟨φ, T_j[u]⟩ = Σ_stages λᵀ T_j = ∂O/∂α_j.
Deleting a fraction ρ of term j then changes O by −ρ ⟨φ, α_j T_j[u]⟩ + O(ρ²), and I_j = |⟨φ, α_j
T_j[u]⟩|.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.response.tangent import Linearisation
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.stepping import ReversedStep
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
    if about.stepping is None:
        ((step, index, values, time),) = about.stages
        about.at(step, index, values, time)
        yield about.solve_transposed(states[0])
        return
    zero = np.zeros(about.model.spaces.owned)
    state_bar, velocity_bar = zero, zero
    count = about.stepping.last + 1
    for step in range(len(about.stages) // count - 1, -1, -1):
        state_bar = state_bar + states.get(step + 1, zero)
        velocity_bar = velocity_bar + velocities.get(step + 1, zero)
        reversal = ReversedStep(about.stepping, step, about, state_bar, velocity_bar)
        for index in range(count - 1, -1, -1):
            _, _, values, time = about.stages[step * count + index]
            about.at(step, index, values, time)
            yield reversal.stage(index)
        state_bar, velocity_bar = reversal.before()
    with about.starting() as algebraic:
        if algebraic:
            yield about.solve_transposed(state_bar + states.get(0, zero))
