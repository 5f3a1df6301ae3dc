# SPDX-License-Identifier: MIT
"""How deletions are computed: strategies, of which a sweep asks each whether it applies.

    "own solve"   the deleted problem itself, with shared matrices and the symbolic factorisation
                  of the factual one; exact
    "difference"  linear problems whose scores are asked for to some accuracy:
                  `cffem.engine.deletion.difference` for transient ones,
                  `cffem.engine.deletion.steady_deletions` for steady ones
    "lock-step"   the same for nonlinear ones, all deletions together:
                  `cffem.engine.deletion.lockstep`

The space–time norm of the difference is accumulated level by level, so that a trajectory is stored
only where one asks for it; it never decreases, so a deletion is decided as soon as it exceeds the
tolerance ε, where nothing but the verdict is asked for. Others are added with
`cffem.extend.add_strategy`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.deletion.difference import (
    Difference,
    Differences,
    is_linear_transient,
    is_plain_transient,
)
from cffem.engine.deletion.lockstep import Deleted, Lockstep
from cffem.engine.deletion.outcomes import DIFFERENCE, LENIENCY, LOCKSTEP, OWN, Deletion, Demand
from cffem.engine.deletion.steady_deletions import is_linear_steady, steady_differences
from cffem.engine.norms import TrajectoryNorm
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError
from cffem.engine.solve.solve_record import SolveRecord, collect_garbage
from cffem.engine.time.growth import LARGEST_GROWTH
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.registry import Registry

if TYPE_CHECKING:
    from cffem.engine.model import Model

Changes = Mapping[str, Intervention]


@dataclass(frozen=True)
class Strategy:
    """A way to deletions that is cheaper than solving the deleted problems.

    Attributes:
        applies: whether it is for a change of a model's coefficients at what is demanded; it
            changes nothing.
        run: the deletions it can give; those that it leaves out are solved by themselves.
    """

    applies: Callable[[Model, Intervention, Demand], bool]
    run: Callable[[Model, Changes, Demand], Iterator[Deletion]]


STRATEGIES: Registry[Strategy] = Registry("strategy")


def add_strategy(
    name: str,
    applies: Callable[[Model, Intervention, Demand], bool],
    run: Callable[[Model, Changes, Demand], Iterator[Deletion]],
) -> Strategy:
    """Make a strategy known to sweeps; it is asked before those that are there."""
    return STRATEGIES.add(name, Strategy(applies, run))


def cheaper(model: Model, changes: Changes, demand: Demand) -> Iterator[Deletion]:
    """The deletions that some strategy gives; the others are left out.

    Each change is judged by itself, so that a score does not depend on what else is deleted.
    """
    left = dict(changes)
    if left:
        assert model.factual.stages is not None
    for strategy in STRATEGIES.latest_first() if left else ():
        # What is asked of the equation is asked of the factual one.
        model.equation.use(model.coefficients, model.experiment.forcing)
        fitting = {
            name: change for name, change in left.items() if strategy.applies(model, change, demand)
        }
        if fitting:
            yield from strategy.run(model, fitting, demand)
        left = {name: change for name, change in left.items() if name not in fitting}


class Score:
    """The space–time norm of a difference from the factual solution, level by level, and the
    deletion it ends in.
    """

    def __init__(
        self, model: Model, change: Intervention, name: str, demand: Demand, strategy: str
    ):
        self.model, self.change, self.name, self.demand, self.strategy = (
            model,
            change,
            name,
            demand,
            strategy,
        )
        self.record = SolveRecord()
        times = model.times
        self.steps, self.length = np.diff(times, prepend=times[0]), float(times[-1] - times[0])
        self.distance = TrajectoryNorm(model.norm(demand.norm))
        self.solution = Solution(model, change, model.times, self.record) if demand.keep else None
        self.reached, self.early, self.level = 0.0, False, 0

    def add(
        self,
        level: int,
        difference: np.ndarray,
        error: float = 0.0,
        image: np.ndarray | None = None,
    ) -> bool:
        """Take the difference at a level, with its image under the norm's matrix if known;
        whether that settles the verdict.
        """
        self.level = level
        if len(self.steps) == 1:
            self.reached = self.distance.norm(difference)
        else:
            self.distance.add(difference, self.steps[level], image)
            self.reached = self.distance.value
        self.early = self.demand.decided(self.reached - error) and level < len(self.steps) - 1
        return self.early

    def keep(self, level: int, difference: np.ndarray, speed: np.ndarray | None) -> None:
        """Keep the deleted solution at a level, made of the factual one and the difference,
        where solutions are asked for.
        """
        if self.solution is not None:
            state, rates = (
                self.model.factual.states[level] + difference,
                self.model.factual.velocities,
            )
            self.solution.keep(level, state, None if rates is None else rates[level] + speed)

    def allowed(self, source: Callable[[], float]) -> float:
        """The residual in D⁻¹ that a stage may have; the size of its source is asked for only
        where nothing else is known.
        """
        waves, expected = self.model.marching.second_order is not None, self.expected
        size = 0.0 if expected > 0 else source()
        step = float(self.steps[min(self.level + 1, len(self.steps) - 1)])
        return self.demand.allowed(self.strategy, size, expected, self.length, step, waves)

    @property
    def expected(self) -> float:
        """The score that the differences so far let expect: linear growth goes on, up to a
        factor of ten.
        """
        time, length = float(np.sum(self.steps[: self.level + 1])), float(np.sum(self.steps))
        growth = min(length / time, 10.0) if time > 0 else 1.0
        return max(self.reached, math.sqrt(length / 3.0) * self.distance.last * growth)

    def done(self, error: float = 0.0) -> Deletion:
        """The deletion, after the last level."""
        if not np.isfinite(self.reached):
            raise SolveError("the score is not finite", cause="not finite")
        if self.reached > LARGEST_GROWTH * self._factual() > 0:
            raise SolveError(
                f"the solution blows up: its distance from the factual one is {self.reached:.1e}",
                cause="blow-up",
            )
        status = "decided" if self.early else "solved"
        return Deletion(
            self.name,
            self.reached,
            status,
            "",
            self.record,
            (),
            self.solution,
            self.change,
            self.strategy,
            error,
        )

    def done_or_left(self, error: float) -> list[Deletion]:
        """The deletion, or nothing where a solve of its own has to tell what is wrong with it."""
        try:
            return [self.done(error)]
        except SolveError:
            return []

    def _factual(self) -> float:
        """About the norm of the factual solution, from its ends and its middle."""
        states, norm = self.model.factual.states, self.model.norm(self.demand.norm)
        largest = max(norm(states[k]) for k in {0, len(states) // 2, len(states) - 1})
        return largest * (math.sqrt(self.length) if len(self.steps) > 1 else 1.0)

    def unsolvable(self, error: SolveError) -> Deletion:
        """The deletion whose problem could not be solved."""
        return Deletion(
            self.name,
            float("nan"),
            "unsolvable",
            str(error),
            self.record,
            tuple(error.history),
            None,
            self.change,
            self.strategy,
            cause=error.cause,
        )


def by_own_solve(model: Model, change: Intervention, name: str, demand: Demand) -> Deletion:
    """One deleted problem, solved like the factual one."""
    score, factual = Score(model, change, name, demand, OWN), model.factual.states

    def keep(level: int, state: np.ndarray, velocity: np.ndarray | None) -> bool:
        if score.solution is not None:
            score.solution.keep(level, state, velocity)
        return score.add(level, factual[level] - state)

    try:
        model.observer.solve((name,), len(model.times) - 1)
        model.run(change, score.record, keep)
        return score.done()
    except SolveError as error:
        collect_garbage(model.comm)  # vectors of the march that was broken off
        return score.unsolvable(error)


def by_differences(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """Transient deleted problems through their differences, which share matrices and factors."""
    shared = Differences(model)
    try:
        for name, change in changes.items():
            found = by_difference(shared, change, name, demand)
            if found is not None:
                yield found
                del found  # whoever takes it decides what is kept of it
    finally:
        shared.destroy()


def by_difference(
    shared: Differences, change: Intervention, name: str, demand: Demand
) -> Deletion | None:
    """One deleted problem through its difference; None where the Krylov method fails, so that
    the problem itself is solved.
    """
    model, score = shared.model, Score(shared.model, change, name, demand, DIFFERENCE)
    difference = Difference(shared, change, score.record)

    def keep(
        level: int, state: np.ndarray, velocity: np.ndarray | None, image: np.ndarray | None
    ) -> bool:
        score.keep(level, state, velocity)
        decided = score.add(level, state, difference.bound, image)
        model.reached(level, score.record)
        return decided

    try:
        model.observer.solve((name,), len(model.times) - 1)
        assert model.factual.stages is not None, "factual solutions have their stages"
        difference.march(model.factual.stages, keep, score.allowed)
        return score.done(difference.bound)
    except SolveError:
        return None
    finally:
        difference.destroy()


def by_factual_factors(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """Steady deleted problems through their differences; those for which the factual factors
    are no help are left out.
    """
    scores = {
        name: Score(model, change, name, demand, DIFFERENCE) for name, change in changes.items()
    }
    model.observer.solve(tuple(changes), 0)
    for name, rest in steady_differences(
        model,
        {name: (changes[name], score.record, demand.bearable) for name, score in scores.items()},
    ):
        scores[name].keep(0, rest.values[0], None)
        scores[name].add(0, rest.values[0])
        model.reached(0, scores[name].record)
        yield from scores[name].done_or_left(rest.error)


def in_lockstep(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """All deleted problems along the factual stages; those that do not converge are left out."""
    shared = Lockstep(model)
    try:
        yield from _marched_together(shared, changes, demand)
    finally:
        shared.destroy()


def _marched_together(
    shared: Lockstep, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    scores = {
        name: Score(shared.model, change, name, demand, LOCKSTEP)
        for name, change in changes.items()
    }
    shared.model.observer.solve(tuple(changes), len(shared.model.times) - 1)
    live = {name: Deleted(shared, changes[name], score.record) for name, score in scores.items()}
    for name, deleted in live.items():
        scores[name].keep(0, deleted.track.state, deleted.track.velocity)
        scores[name].add(0, deleted.track.state)
    for step, index, values, time in shared.about.stages:
        shared.linearise(step, index, values, time)
        for name, deleted in list(live.items()):
            score = scores[name]
            try:
                allowed = score.allowed(partial(deleted.source, index, values, time))
                if not deleted.stage(index, values, time, allowed, f"step {step + 1}"):
                    continue
                score.keep(step + 1, deleted.track.state, deleted.track.velocity)
                decided = score.add(step + 1, deleted.track.state, deleted.bound)
            except SolveError:
                del live[name]
                continue
            if decided:
                yield from scores.pop(name).done_or_left(live.pop(name).bound)
        if index == len(shared.model.marching.scheme.b) - 1:
            shared.model.reached(step + 1, shared.record)
        if not live:
            break
    for name in list(live):
        yield from scores.pop(name).done_or_left(live.pop(name).bound)


def _lenient(demand: Demand) -> bool:
    """Whether scores need not be exact; the estimate of what residuals do is one in L2."""
    return demand.norm == "L2" and (
        demand.accuracy >= LENIENCY.finest or demand.epsilon is not None
    )


add_strategy(
    "steady difference",
    lambda model, change, demand: _lenient(demand) and is_linear_steady(model, change),
    by_factual_factors,
)
add_strategy(
    LOCKSTEP,
    lambda model, change, demand: _lenient(demand) and is_plain_transient(model, change),
    in_lockstep,
)
add_strategy(
    DIFFERENCE,
    lambda model, change, demand: _lenient(demand) and is_linear_transient(model, change),
    by_differences,
)
