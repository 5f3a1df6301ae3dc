# SPDX-License-Identifier: MIT
"""Steps that the factual solution asks for: chosen by one march, shared by everything after it.

The steps of the window are divided into halves, quarters, … . A step is accepted where the error it
makes, as its embedded scheme or a comparison of one step with two tells, is at most its share of
the tolerance,

    ‖e‖ ≤ tolerance · Δt/D · max ‖u‖   for every field,

and where the straight line between levels, of which scores and norms are made, is no farther than
the tolerance from the solution. D is how long an error lasts: the window T, or the time in which
the rate u̇ decays, since u̇ solves the linearised equation as errors do; waves do not forget. So
the errors that are there at one time are together at most about tolerance · max ‖u‖, unless the
problem makes them grow. The next step is that of a
proportional–integral controller (Söderlind, ACM Trans. Math. Softw. 29 (2003) 1–26), rounded down
to a part of the window's step, so that few lengths, and few factorisations, occur.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.norms import counted
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.solve_errors import SolveError
from cffem.engine.time.growth import Growth
from cffem.engine.time.march import StepSolver, twin
from cffem.engine.time.reversible import check_reversible
from cffem.engine.time.stepping import Stepping, Track
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.window import AUTO, Window

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.engine.solve.stage_types import StageVectors
    from cffem.engine.time.trajectories import StageEntry


@dataclass(frozen=True)
class AdaptiveSettings:
    """How steps are chosen.

    Attributes:
        share: the part of ε that errors of steps may have, where a study chooses the tolerance.
        safety: what the controller aims at below the tolerance.
        integral, proportional: powers of the present and the last error, over their order.
        longest: by how much at most the next step is longer.
        shortest: by how much at most a step is shortened at a time.
        deepest: how often a step of the window is halved at most; a millionth of it.
        failures: solves in a row that may fail before the march has.
    """

    share: float = 0.1
    safety: float = 0.9
    integral: float = 0.7
    proportional: float = 0.4
    longest: float = 8.0
    shortest: float = 0.125
    deepest: int = 20
    failures: int = 6


ADAPTIVE = AdaptiveSettings()
# ‖(s² − s)/2‖ on [0, 1]: what a straight line misses of a parabola with second derivative one.
BEND = 1 / math.sqrt(120)


@dataclass
class Trial:
    """One step that was tried, or two halves of it.

    Attributes:
        ends: the times at which it ends levels, with state and velocity there.
        stages: the stages of each.
        error, speed_error: what it errs by.
        bend: the second derivative in time.
        decay: the time in which the rate decays.
        order: the power of the step that the error over the step's length goes with.
    """

    ends: list[tuple[float, np.ndarray, np.ndarray | None]] = field(default_factory=list)
    stages: list[list[StageEntry]] = field(default_factory=list)
    error: np.ndarray = field(default_factory=lambda: np.zeros(0))
    speed_error: np.ndarray | None = None
    bend: np.ndarray = field(default_factory=lambda: np.zeros(0))
    decay: float = math.inf
    order: int = 1


def choose_levels(model: Model, solution: Solution) -> None:
    """Solve the factual problem with steps of its own choice; the model has the window of these
    steps from then on; collective.

    Args:
        model: the model.
        solution: an empty one, which takes the levels and stages.

    Raises:
        InputError: the window leaves the tolerance to a study.
        SolveError: no step is short enough.
    """
    window = model.experiment.time
    assert window is not None
    if window.tolerance == AUTO:
        raise InputError(
            "tolerance='auto' is a share of the ε of a study; give a model a number, 1e-3 say"
        )
    with Scope() as scope:
        scope.own(_Chooser(model, float(window.tolerance or 0.0))).run(window, solution)


class _Chooser(Scope):
    """The march that chooses its steps."""

    def __init__(self, model: Model, tolerance: float):
        self.model, self.tolerance = model, tolerance
        self.record = SolveRecord()
        self.marching, self.scheme = model.marching, model.marching.scheme
        self.stage = model.prepared(Intervention(), self.record)
        waves = self.marching.second_order is not None
        self.steps = self.own(StepSolver(self.stage, self.scheme, waves))
        self._doubled: StepSolver | None = None
        fields = counted(model.discretisation)
        kinds = ["L2"] if len(fields) == 1 else [f"L2[{each}]" for each in fields]
        self.norms = [model.norm(kind) for kind in kinds]
        self.sizes = np.zeros(len(kinds))
        self.speeds = np.zeros(len(kinds))
        self.length = 1.0

    # One step
    # ----------------------------------------------------------------------------------------------

    @property
    def doubled(self) -> StepSolver:
        """Takes the long steps that two short ones are compared with."""
        if self._doubled is None:
            stage = self.own(twin(self.stage)) if self.stage.equation.linear else self.stage
            waves = self.marching.second_order is not None
            self._doubled = self.own(StepSolver(stage, self.scheme, waves))
        return self._doubled

    def _taken(
        self,
        steps: StepSolver,
        start: tuple[np.ndarray, np.ndarray | None],
        begin: float,
        end: float,
        length: float,
    ) -> tuple[Track, list[StageEntry]]:
        """A step from a state, with its stages."""
        marching, stages = self.marching, []  # type: ignore[var-annotated]
        stepping = Stepping(
            self.scheme, np.array([length]), marching.dynamic, marching.second_order
        )
        velocity = None if start[1] is None else start[1].copy()

        def keep(number: int, index: int, states: StageVectors, time: float) -> None:
            kept = tuple(None if vector is None else vector.array_r.copy() for vector in states)
            stages.append((number, index, kept, time))

        track = Track(stepping, start[0].copy(), velocity)
        steps.take(track, begin, end, f"the step from t = {begin:.6g}", keep)
        return track, stages

    def single(self, start: _Place, begin: float, end: float, sides: _Sides) -> Trial:
        """A step whose error the embedded scheme tells."""
        scheme, length = self.scheme, end - begin
        track, stages = self._taken(self.steps, start.values, sides.begin, sides.end, length)
        assert scheme.embedded is not None
        weights = np.array(scheme.embedded)
        first = int(scheme.starts_embedded)
        gaps = np.array(scheme.b) - weights[first:]
        trial = Trial(stages=[stages], order=scheme.embedded_order)

        def summed(order: int, before: np.ndarray | None) -> np.ndarray:
            total = sum(
                gap * values[order] for gap, (_, _, values, _) in zip(gaps, stages, strict=True)
            )
            if first and before is not None:
                total = total - weights[0] * before
            return length * np.asarray(total)

        trial.error = summed(1, start.rate)
        if track.velocity is not None:
            trial.speed_error = summed(2, start.acceleration)
        self._bent(trial, start, begin)
        trial.ends = [self._ended(track, end, sides.beyond)]
        return trial

    def pair(self, start: _Place, begin: float, end: float, sides: _Sides) -> Trial:
        """Two halves of a step, whose error the whole step tells."""
        middle, length = (begin + end) / 2, end - begin
        whole, _ = self._taken(self.doubled, start.values, sides.begin, sides.end, length)
        first, stages = self._taken(self.steps, start.values, sides.begin, middle, length / 2)
        ended = self._ended(first, middle, middle)
        second, more = self._taken(self.steps, ended[1:], middle, sides.end, length / 2)
        trial = Trial(stages=[stages, more], order=self.scheme.order)
        factor = 1 / (2**self.scheme.order - 1)
        trial.error = factor * (second.state - whole.state)
        if second.velocity is not None and whole.velocity is not None:
            trial.speed_error = factor * (second.velocity - whole.velocity)
        self._bent(trial, start, begin)
        trial.ends = [ended, self._ended(second, end, sides.beyond)]
        return trial

    def _ended(
        self, track: Track, time: float, side: float
    ) -> tuple[float, np.ndarray, np.ndarray | None]:
        self.steps.finish(track, side)
        return time, track.state, track.velocity

    def _bent(self, trial: Trial, start: _Place, begin: float) -> None:
        """The second derivative, from the rates at the ends of what is known of them."""
        entries = [entry for stages in trial.stages for entry in stages]
        moments = [(time, values[1]) for _, _, values, time in entries]
        if start.rate is not None:
            moments.append((begin, start.rate))
        early, late = (chosen(moments, key=lambda each: each[0]) for chosen in (min, max))
        apart = late[0] - early[0]
        trial.bend = (late[1] - early[1]) / apart if apart > 0 else np.zeros(len(late[1]))
        if self.marching.second_order is None and apart > 0:
            scales = np.where(self.sizes > 0, self.sizes, 1.0)
            slow, fast = (float(np.linalg.norm(self._sizes(r) / scales)) for _, r in (late, early))
            trial.decay = apart / math.log(fast / slow) if fast > slow > 0 else math.inf

    # Judging
    # ----------------------------------------------------------------------------------------------

    def judged(self, trial: Trial, begin: float) -> tuple[float, float]:
        """The error of a trial and what straight lines miss, each as a share of what is allowed.

        Raises:
            SolveError: it is not finite.
        """
        end, state, velocity = trial.ends[-1]
        sizes = self._sizes(state)
        if not np.all(np.isfinite(sizes)):
            raise SolveError("the solution is not finite", cause="blow-up")
        largest = np.maximum(self.sizes, sizes)
        short = max(b - a for a, b in pairwise([begin, *(each[0] for each in trial.ends)]))
        lasting = min(self.length, max(end - begin, trial.decay))
        allowed = self.tolerance * (end - begin) / lasting
        errors = [_relative(self._sizes(trial.error), largest)]
        if trial.speed_error is not None and velocity is not None:
            fastest = np.maximum(self.speeds, self._sizes(velocity))
            errors.append(_relative(self._sizes(trial.speed_error), fastest))
        bent = _relative(self._sizes(trial.bend), largest) * BEND * short**2
        return max(errors) / allowed, bent / self.tolerance

    def _sizes(self, values: np.ndarray) -> np.ndarray:
        """The norms of all fields, where values are not given."""
        free = values * self.marching.dynamic
        free[self.stage.essential.owned] = 0.0
        return np.array([norm(free) for norm in self.norms])

    def accept(self, trial: Trial) -> None:
        """Take note of the sizes of an accepted step."""
        _, state, velocity = trial.ends[-1]
        self.sizes = np.maximum(self.sizes, self._sizes(state))
        if velocity is not None:
            self.speeds = np.maximum(self.speeds, self._sizes(velocity))

    # All steps
    # ----------------------------------------------------------------------------------------------

    def run(self, window: Window, solution: Solution) -> None:
        """March through a window."""
        model, base = self.model, window.times
        self.length = float(base[-1] - base[0])
        before, after = self.marching.sides(base)
        state, velocity = model.initial(Intervention(), self.stage)
        place = _Place((state, velocity))
        solution.record = self.record
        stages = solution.stages = model.new_stages()
        levels = [float(base[0])]
        model.observer.solve((), len(base) - 1)
        solution.keep(0, state.copy(), velocity)
        self.sizes = self._sizes(state)
        if velocity is not None:
            self.speeds = self._sizes(velocity)
        check_reversible(self.stage, self._stepping(base), state, velocity, float(base[0]))
        growth = Growth(self.stage, self._stepping(base), base, state, velocity)
        steps = _Steps(base)
        while not steps.done:
            begin, end = steps.ends
            sides = _Sides(
                float(after[steps.segment]) if steps.first else begin,
                float(before[steps.segment + 1]) if steps.last else end,
                float(after[steps.segment + 1]) if steps.last else end,
            )
            trial = self._tried(steps, place, begin, end, sides)
            if trial is None:
                continue
            for (time, values, rates), entries in zip(trial.ends, trial.stages, strict=True):
                for _, index, kept, when in entries:
                    stages.append((len(levels) - 1, index, kept, when))
                levels.append(time)
                solution.keep(len(levels) - 1, values.copy(), rates)
                growth.times, growth.stepping = np.array(levels), self._stepping(np.array(levels))
                growth.check(len(levels) - 1, values)
                model.reached(len(levels) - 1, self.record)
            self.accept(trial)
            place = self._place(trial)
            if steps.first and before[steps.segment] != after[steps.segment]:
                place = replace(place, rate=None, acceleration=None)
        solution.times = np.array(levels)
        chosen = Window.through(levels, window.scheme)
        model.use_levels(chosen, self._note(window, levels))

    def _tried(
        self, steps: _Steps, place: _Place, begin: float, end: float, sides: _Sides
    ) -> Trial | None:
        """A step that is accepted, or None where a shorter one is next."""
        known = self.scheme.embedded is not None and (
            place.rate is not None or not self.scheme.starts_embedded
        )
        way: Callable[..., Trial] = self.single if known else self.pair
        try:
            trial = way(place, begin, end, sides)
            error, bent = self.judged(trial, begin)
        except SolveError as failure:
            steps.fail(failure)
            return None
        if max(error, bent) > 1:
            steps.reject(error, bent, trial.order)
            return None
        steps.accept(error, bent, trial.order)
        return trial

    def _place(self, trial: Trial) -> _Place:
        _, state, velocity = trial.ends[-1]
        place = _Place((state, velocity))
        if self.scheme.stiffly_accurate:
            values = trial.stages[-1][-1][2]
            place = replace(place, rate=values[1], acceleration=values[2])
        return place

    def _stepping(self, times: np.ndarray) -> Stepping:
        marching = self.marching
        return Stepping(self.scheme, np.diff(times), marching.dynamic, marching.second_order)

    def _note(self, window: Window, levels: list[float]) -> str:
        steps = np.diff(levels)
        return (
            f"the {len(steps)} time steps, from {steps.min():.3g} to {steps.max():.3g}, were "
            f"chosen for the factual solution with the tolerance {self.tolerance:.3g}, as parts of "
            f"{window.steps} steps ({self.scheme.name}); deletions share them"
        )


@dataclass(frozen=True)
class _Place:
    """Where the march is: state and velocity, and their rates where the last stage tells them."""

    values: tuple[np.ndarray, np.ndarray | None]
    rate: np.ndarray | None = None
    acceleration: np.ndarray | None = None


@dataclass(frozen=True)
class _Sides:
    """The ends of a step as data are seen from within, and its end as the next step sees them."""

    begin: float
    end: float
    beyond: float


class _Steps:
    """Which part of which step of the window is next: part `number` of 2^`depth`."""

    def __init__(self, base: np.ndarray):
        self.base = base
        self.segment = self.depth = self.number = self.failures = 0
        self._last, self._again = 1.0, False

    @property
    def done(self) -> bool:
        """Whether the window has ended."""
        return self.segment == len(self.base) - 1

    @property
    def first(self) -> bool:
        """Whether the part begins where a step of the window does."""
        return self.number == 0

    @property
    def last(self) -> bool:
        """Whether the part ends where a step of the window does."""
        return self.number + 1 == 2**self.depth

    @property
    def whole(self) -> float:
        """The length of the window's step."""
        return float(self.base[self.segment + 1] - self.base[self.segment])

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the part."""
        start, part = float(self.base[self.segment]), self.whole / 2**self.depth
        end = float(self.base[self.segment + 1]) if self.last else start + (self.number + 1) * part
        return start + self.number * part, end

    def _deeper(self, times: int) -> None:
        self.depth, self.number = self.depth + times, self.number << times
        if self.depth > ADAPTIVE.deepest:
            raise SolveError(
                f"no step from t = {self.ends[0]:.6g} is short enough for the tolerance; data "
                "that do not fit together there, an initial value and a boundary value say, or a "
                "tolerance that is too small are the usual reasons"
            )

    def fail(self, error: SolveError) -> None:
        """A solve has failed: a shorter step may do."""
        self.failures += 1
        if self.failures > ADAPTIVE.failures:
            raise error
        self._deeper(1)
        self._again = True

    def reject(self, error: float, bent: float, order: int) -> None:
        """The error is too large."""
        factor = max(ADAPTIVE.shortest, min(_aimed(error, order), _aimed(bent, 2)))
        self._deeper(max(1, math.ceil(-math.log2(factor) - 1e-9)))
        self._again = True

    def accept(self, error: float, bent: float, order: int) -> None:
        """Go on, with the step that the controller asks for."""
        s, small = ADAPTIVE, 1e-6
        error, bent = max(error, small), max(bent, small)
        factor = s.safety * error ** (-s.integral / order) * self._last ** (s.proportional / order)
        factor = min(factor, _aimed(bent, 2), s.longest)
        if self._again:
            factor = min(factor, 1.0)
        self._last, self._again, self.failures = error, False, 0
        aimed = factor * self.whole / 2**self.depth
        self.number += 1
        if self.number == 2**self.depth:
            self.segment, self.number = self.segment + 1, 0
            if not self.done:
                self.depth = max(0, math.ceil(math.log2(self.whole / aimed) - 1e-9))
            return
        while self.depth and self.number % 2 == 0 and 2 * self.whole / 2**self.depth <= aimed:
            self.depth, self.number = self.depth - 1, self.number // 2
        while self.whole / 2**self.depth > 2 * aimed:
            self._deeper(1)


def _aimed(error: float, order: int) -> float:
    """By how much a step may be longer that errs by a share of what is allowed."""
    return ADAPTIVE.safety * max(error, 1e-12) ** (-1 / order)


def _relative(values: np.ndarray, scales: np.ndarray) -> float:
    """The largest share; a field that is zero has no error."""
    pairs = zip(values, scales, strict=True)
    return float(max(v / s if s > 0 else (0.0 if v == 0 else 1e6) for v, s in pairs))
