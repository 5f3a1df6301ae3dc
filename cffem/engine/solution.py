"""The solution of one factual or intervened problem: its states at all time levels, and how it was obtained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.linear import SolveRecord
from cffem.engine.norms import TrajectoryNorm
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model


class Solution:
    """States of a solve, one for each time level (a steady problem has one).

    Attributes:
        model: the model it belongs to.
        intervention: what was changed about the factual problem.
        times: the time levels; `[0.0]` for a steady problem.
        states: owned values of the whole state at each level.
        velocities: owned values of the rates at each level, for second-order anchors.
        record: solver statistics and the worst true residual.
    """

    def __init__(self, model: Model, intervention: Intervention, times: np.ndarray, record: SolveRecord):
        self.model = model
        self.intervention = intervention
        self.times = times
        self.states: list[np.ndarray] = []
        self.velocities: list[np.ndarray] | None = None
        self.record = record
        self.stages: list[tuple[int, int, tuple[Any, ...], float]] | None = None

    def keep(self, level: int, state: np.ndarray, velocity: np.ndarray | None) -> None:
        """Take the next level."""
        self.states.append(state)
        if velocity is not None:
            self.velocities = self.velocities or []
            self.velocities.append(velocity)

    def start_stages(self) -> Any:
        """Keep the implicit stages from now on; the result is what a march calls."""
        stages: list[tuple[int, int, tuple[Any, ...], float]] = []
        self.stages = stages

        def keep_stage(step: int, index: int, states: tuple[Any, Any, Any], time: float) -> None:
            kept = tuple(None if vector is None else vector.array_r.copy() for vector in states)
            stages.append((step, index, kept, time))

        return keep_stage

    @property
    def steady(self) -> bool:
        """Whether there is no time."""
        return len(self.times) == 1

    def function(self, field: Field | None = None, k: int = -1) -> Any:
        """The field at level k as a DOLFINx function of its own space.

        Args:
            field: which one; not needed where there is one only.
            k: the time level.
        """
        return self.model.spaces.function(self._field(field), self.states[k])

    def velocity(self, field: Field | None = None, k: int = -1) -> Any:
        """The rate of a field with a second-order anchor at level k."""
        if self.velocities is None:
            raise InputError("only equations of second order in time have a velocity")
        return self.model.spaces.function(self._field(field), self.velocities[k])

    def multiplier(self, k: int = -1) -> Any:
        """The multiplier of the constraint at level k."""
        if self.model.discretisation.multiplier is None:
            raise InputError("this experiment has no constraint, so there is no multiplier")
        return self.model.spaces.function(self.model.discretisation.multiplier[0], self.states[k])

    def _field(self, field: Field | None) -> Field:
        unknowns = self.model.discretisation.unknowns
        if field is None:
            if len(unknowns) > 1:
                raise InputError(f"say which field: {', '.join(map(str, unknowns))}")
            return unknowns[0]
        if field not in self.model.spaces.fields:
            raise InputError(f"{field} is not a field of this model; it has {', '.join(map(str, unknowns))}")
        return field

    def norm(self, kind: str = "L2") -> float:
        """The norm in space, or in space and time for a transient solution."""
        return self.model.trajectory_norm(self.states, self.times, kind)

    def distance(self, other: Solution, kind: str = "L2") -> float:
        """The norm of the difference of two solutions of one model."""
        if other.model is not self.model or len(other.states) != len(self.states):
            raise InputError("only two solutions of one model on the same time levels can be compared")
        norm = TrajectoryNorm(self.model.norm(kind))
        if self.steady:
            return norm.norm(self.states[0] - other.states[0])
        for k, (a, b) in enumerate(zip(self.states, other.states, strict=True)):
            norm.add(a - b, self.times[k] - self.times[k - 1] if k else 0.0)
        return norm.value

    def __repr__(self) -> str:
        what = "steady" if self.steady else f"{len(self.times)} time levels"
        return f"Solution({self.intervention}, {what}, {self.model.spaces.size} unknowns)"
