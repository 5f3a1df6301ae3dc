# SPDX-License-Identifier: MIT
"""The derivative of a solution with respect to amplitudes of uncertain initial or boundary values.

The scheme is differentiated as in `tangent`: a stage moves by J W' = (F_ẇ/γ + F_ẅ/γ²) B' + (F_ẅ/γ)
V', now with W' given where values are essential, and with a start that moves. With W' = E + D, E
the essential part, D vanishes there and J D = … − J E.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.assembly.dirichlet import BoundaryMode, Clock
from cffem.engine.response.tangent import Linearisation
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.amplitudes import modes_of
from cffem.engine.time.march import clock_of
from cffem.engine.time.projection import project_onto_constraint
from cffem.engine.time.stepping import Track
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.model import Model


def amplitude_responses(solution: Solution) -> list[Solution]:
    """∂u/∂a_k as trajectories, one for each amplitude that the experiment declares.

    Args:
        solution: a solution with its stages; the derivative is taken there.
    """
    model = solution.model
    modes = modes_of(model)
    if not len(modes):
        return []
    record = SolveRecord()
    about = Linearisation(solution, record)
    starts = [(np.zeros(0), None)] * len(modes)
    if about.stepping is not None:
        starts = [start_moved(about, k) for k in range(len(modes))]
        starts = _with_algebraic(about, starts)
    paths = [
        AmplitudePath(about, mode, *start)
        for mode, start in zip(modes.boundary, starts, strict=True)
    ]
    for step, index, values, time in about.stages:
        about.at(step, index, values, time)
        for path in paths:
            path.stage(about, step, index)
    about.destroy()
    found = []
    for path in paths:
        trajectory = Solution(model, solution.intervention, solution.times, record)
        trajectory.states, trajectory.velocities = path.states, path.velocities
        found.append(trajectory)
    return found


def start_moved(about: Linearisation, number: int) -> tuple[np.ndarray, np.ndarray | None]:
    """What a unit of an amplitude does to the initial state and velocity, algebraic fields aside;
    collective.
    """
    model, stage = about.model, about.stage
    modes, essential = modes_of(model), stage.essential
    mode, start = modes.boundary[number], float(model.times[0])
    own, rate = modes.states[number], modes.velocities[number]
    state = np.zeros(model.spaces.owned) if own is None else own.copy()
    velocity = None
    if model.marching.second_order is not None:
        velocity = np.zeros(model.spaces.owned) if rate is None else rate.copy()
    _put(model, state, velocity, mode, start)
    if model.discretisation.multiplier is not None:
        zero = np.zeros(model.spaces.owned)
        # The projection is affine: its difference is its derivative.
        state = project_onto_constraint(stage, state, start) - project_onto_constraint(
            stage, zero, start
        )
        if velocity is not None:
            velocity = project_onto_constraint(
                stage, velocity, start, rate=True
            ) - project_onto_constraint(stage, zero, start, rate=True)
    essential.complete(state)
    return state, velocity


def _put(
    model: Model,
    state: np.ndarray,
    velocity: np.ndarray | None,
    mode: BoundaryMode | None,
    time: float,
) -> None:
    """Put the derivative of essential values into a level."""
    essential = model.essential
    for entry in essential.entries:
        state[entry.mine] = 0.0
        if velocity is not None and entry.order == 2:
            velocity[entry.mine] = 0.0
    if mode is not None:
        state[mode.mine] = mode.values_at(time)
        if velocity is not None and mode.order == 2:
            velocity[mode.mine] = mode.values_at(time, 1)
    essential.complete(state)
    if velocity is not None:
        essential.complete(velocity)


def _with_algebraic(
    about: Linearisation, starts: Sequence[tuple[np.ndarray, np.ndarray | None]]
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Starts with what they do to fields without a rate."""
    found = list(starts)
    with about.starting() as algebraic:
        if not algebraic:
            return found
        if about.equation.rates_in_algebraic():
            raise InputError(
                "uncertain data are not estimated where an equation without an anchor contains "
                "rates"
            )
        for k, (state, velocity) in enumerate(starts):
            pull = about.partial(0, state)
            found[k] = state + about.solve(-pull), velocity
    return found


class AmplitudePath:
    """One derivative under way.

    Args:
        about: the linearised equation.
        mode: what moves on the boundary, or None.
        state, velocity: the derivative of the start.
    """

    def __init__(
        self,
        about: Linearisation,
        mode: BoundaryMode | None,
        state: np.ndarray,
        velocity: np.ndarray | None,
    ):
        count = len(about.solution.times)
        self.mode = mode
        self.states = about.model.new_levels(count)
        self.velocities = None
        self.track: Track | None = None
        if about.stepping is None:
            return
        self.states.append(state.copy())
        if velocity is not None:
            self.velocities = about.model.new_levels(count)
            self.velocities.append(velocity.copy())
        self.track = Track(about.stepping, state.copy(), velocity)

    def _essential(
        self, about: Linearisation, clock: Clock, base: np.ndarray, speed: np.ndarray | None
    ) -> np.ndarray:
        """W' where values are essential, zero elsewhere."""
        moved = np.zeros(about.model.spaces.owned)
        for entry in about.stage.essential.entries:
            by_rates = entry.order and entry.by_rates(clock)
            if entry.order == 2 or by_rates:
                moved[entry.mine] = base[entry.mine]
            if entry.order == 2 and by_rates and speed is not None:
                moved[entry.mine] += clock.gamma * speed[entry.mine]
        if self.mode is not None:
            moved[self.mode.mine] += self.mode.stage_values(clock)
        about.stage.essential.complete(moved)
        return moved

    def stage(self, about: Linearisation, step: int, index: int) -> None:
        """Take a stage; the last one ends the step."""
        track, gamma = self.track, about.gamma
        if track is None or gamma is None:
            assert self.mode is not None
            moved = np.zeros(about.model.spaces.owned)
            moved[self.mode.mine] = self.mode.values_at(0.0)
            about.stage.essential.complete(moved)
            self.states.append(moved + about.solve(-about.partial(0, moved)))
            return
        marching = about.model.marching
        before, after = marching.sides(about.solution.times)
        begin, end = float(after[step]), float(before[step + 1])
        clock = clock_of(marching.scheme, index, begin, end, gamma)
        base, velocity = track.bases(index)
        base, velocity = base.copy(), None if velocity is None else velocity.copy()
        moved = self._essential(about, clock, base, velocity)
        pull = about.partial(1, (base - moved) / gamma) - about.partial(0, moved)
        if velocity is not None:
            pull += about.partial(2, ((base - moved) / gamma + velocity) / gamma)
        value = about.solve(pull) + moved
        if track.take(index, value, base, velocity):
            _put_level(about, track, self.mode, float(after[step + 1]))
            self.states.append(track.state.copy())
            if self.velocities is not None and track.velocity is not None:
                self.velocities.append(track.velocity.copy())


def _put_level(about: Linearisation, track: Track, mode: BoundaryMode | None, time: float) -> None:
    """The end of a step has the boundary values of its time."""
    if mode is not None or about.stepping is None:
        _put(about.model, track.state, track.velocity, mode, time)
