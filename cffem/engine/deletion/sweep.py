# SPDX-License-Identifier: MIT
"""Deletion sweeps: every deleted problem against the factual solution, sharing all that can be
shared.

How a deletion is computed is chosen by the class of the problem and by what is asked of the scores,
and is reported with it:

    "own solve" the deleted problem itself, with shared matrices and the symbolic factorisation of
    the factual one; exact "difference" linear problems whose scores are asked for to some accuracy:
    `cffem.engine.deletion.difference` for transient ones,
                    `cffem.engine.deletion.steady_deletions` for steady ones
    "lock-step" the same for nonlinear ones, all deletions together:
    `cffem.engine.deletion.lockstep`

A deleted problem that is singular, blows up or does not converge is a result, `unsolvable` with its
reason, and the sweep goes on. The space–time norm of the difference is accumulated level by level,
so that a trajectory is stored only where one asks for it; it never decreases, so a deletion is
decided as soon as it exceeds the tolerance ε, where nothing but the verdict is asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.deletion.difference import MASS, Difference, Differences, applies, marches
from cffem.engine.deletion.lockstep import Deleted, Lockstep
from cffem.engine.deletion.rank_groups import expected_efforts, group_of, number_of_groups
from cffem.engine.deletion.refit import Refit, deleting
from cffem.engine.deletion.steady_deletions import at_rest, rests
from cffem.engine.norms import TrajectoryNorm
from cffem.engine.solution import Solution
from cffem.engine.solve.linear import SolveError, SolveRecord, collect_garbage
from cffem.engine.time.growth import LARGEST_GROWTH
from cffem.engine.time.wellposed import why_backward
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import CARRIED, Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model


OWN, DIFFERENCE, LOCKSTEP = "own solve", "difference", "lock-step"
# Solutions are handed on with their deletion and then forgotten.
HANDED = "handed"
# A score above ε by this share, residuals taken off, is decided; certificates need no more than
# their margin.
CLEAR = 0.05
# How far the estimated effect of all residuals may exceed the accuracy that is asked of a score:
# their effects cancel, and measured errors of scores are smaller than the estimate by a factor of
# 1000 and more (after Krylov methods) or 10 to 1000 (after Newton's, whose residuals are smooth).
# And the most it may be relative to the score.
LENIENT, MOST = {DIFFERENCE: 60.0, LOCKSTEP: 5.0}, 1e-2
# The finest accuracy that estimates of residuals reach for certain; for less, deleted problems are
# solved to working precision.
FINEST = 1e-7
# Before anything is known of the difference, the residual is this much smaller than the accuracy
# times the source.
FIRST = 0.1
# For a verdict: the share of ε that all residuals together may cost, and the residual relative to
# the source that is enough.
SHARE, COARSE = 0.02, 2e-3


@dataclass(frozen=True)
class Demand:
    """What is asked of a sweep.

    Attributes:
        norm: the norm of the scores.
        keep: whether deletions keep their solutions, or `HANDED`: each is handed on with its
            solution when it is done, and the sweep forgets that.
        accuracy: the relative accuracy of scores; zero for working precision.
        epsilon: the tolerance, where scores are followed only as far as the verdict needs.
    """

    norm: str = "L2"
    keep: bool | str = False
    accuracy: float = 0.0
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.keep not in (False, True, HANDED):
            raise InputError(f"solutions are kept, not kept, or {HANDED!r}, not {self.keep!r}")
        if not 0.0 <= self.accuracy < 1.0:
            raise InputError(
                "the accuracy of scores is a number from 0 (working precision) to 1, not "
                f"{self.accuracy!r}"
            )
        if self.epsilon is not None and not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise InputError(
                f"scores='decide' needs a positive tolerance epsilon, not {self.epsilon!r}"
            )
        if self.epsilon is not None and self.keep:
            raise InputError(
                "a sweep that only decides has no whole solutions to keep; use scores='full'"
            )

    def allowed(
        self, strategy: str, source: float, expected: float, length: float, step: float, waves: bool
    ) -> float:
        """The residual in D⁻¹ that a stage of a difference may have.

        Args:
            strategy: how the deletion is computed.
            source: the size of the stage's source in D⁻¹.
            expected: the score as far as it can be foreseen; zero at the start.
            length: the length of the time window.
            step: the time step.
            waves: whether the problem is of second order in time.
        """
        # The residual whose effect, taken from every stage, is one, see
        # `cffem.engine.deletion.difference.felt`.
        whole = MASS * length**1.5 * (step if waves else 1.0)
        if self.epsilon is not None:
            return (
                max(SHARE * self.epsilon, MOST * expected) / whole
                if expected > 0
                else max(SHARE * self.epsilon / whole, COARSE * source)
            )
        return (
            min(LENIENT[strategy] * self.accuracy, MOST) * expected / whole
            if expected > 0
            else FIRST * self.accuracy * source
        )

    def bearable(self, score: float) -> float:
        """The error that a score of a steady problem may have."""
        return (
            self.accuracy * score
            if self.epsilon is None
            else max(SHARE * self.epsilon, MOST * score)
        )

    def decided(self, lower: float) -> bool:
        """Whether a lower bound of the score settles the verdict."""
        return self.epsilon is not None and lower > (1.0 + CLEAR) * self.epsilon


@dataclass(frozen=True)
class Deletion:
    """The outcome of one deletion.

    Attributes:
        term: the deleted term.
        score: δ_j = ‖u − u_j‖, nan where the deleted problem is unsolvable.
        status: "solved", "unsolvable", or "decided": the score is above ε for certain and was not
            followed to the end of the window, so that it is a lower bound. That holds whatever
            comes later, also where the deleted solution ends before the window does, which a full
            score would call "unsolvable".
        reason: why it is unsolvable.
        record: solver statistics.
        history: residual norms of the failing solve.
        solution: the deleted solution, where the sweep keeps them and it exists.
        intervention: the deletion, with what it sets the other coefficients to where they are
            refitted.
        strategy: how it was computed.
        error: about how much the residuals of the solves can have changed the score; zero for
            solves to working precision.
        cause: what made it unsolvable, one of `cffem.engine.solve_errors.CAUSES`; nothing where it
            was solved.
        conditions: which essential conditions the deleted equation cannot carry and were released,
            in words; empty for none.
    """

    term: str
    score: float
    status: str = "solved"
    reason: str = ""
    record: SolveRecord = field(default_factory=SolveRecord)
    history: tuple[float, ...] = ()
    solution: Solution | None = None
    intervention: Intervention = field(default_factory=Intervention)
    strategy: str = OWN
    error: float = 0.0
    cause: str = ""
    conditions: str = ""

    def __str__(self) -> str:
        return (
            f"{self.term} {self.score:.4g}"
            if self.status == "solved"
            else f"{self.term} {self.status}"
        )

    def __repr__(self) -> str:
        return f"Deletion({self})"


@dataclass(frozen=True)
class Sweep(Mapping[str, Deletion]):
    """The deletions of a sweep by term name."""

    deletions: Mapping[str, Deletion]
    norm: str

    def __getitem__(self, name: str) -> Deletion:
        return self.deletions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.deletions)

    def __len__(self) -> int:
        return len(self.deletions)

    def __repr__(self) -> str:
        return f"Sweep({self.norm}: {', '.join(map(str, self.values()))})"


def run_sweep(
    model: Model,
    names: tuple[str, ...],
    demand: Demand,
    finished: Callable[[Deletion], object] | None = None,
    refit: Refit = "none",
    groups: int | None = None,
    conditions: str = CARRIED,
) -> Sweep:
    """Solve all deleted problems and measure how far each is from the factual solution.

    Args:
        model: the model.
        names: the terms to delete, one at a time.
        demand: what is asked of the scores.
        finished: called with each deletion when it is done, on all ranks.
        refit: what happens to the other coefficients, see `cffem.engine.deletion.refit`.
        groups: how many groups of ranks share the deletions; None for what suits.
        conditions: what becomes of essential conditions that a deleted equation cannot carry, see
            `cffem.delete`.
    """
    count = number_of_groups(model, len(names), groups, demand.keep)
    if count == 1:
        model.norm(demand.norm)  # an unknown one is an error before anything is solved
    changes = deleting(model, names, refit, conditions)
    deletions: dict[str, Deletion] = {}
    for found in _in_groups(model, changes, demand, count):
        model.observer.deletion(found)
        if finished is not None:
            finished(found)
        deletions[found.term] = replace(found, solution=None) if demand.keep == HANDED else found
        del found  # its solution leaves the memory before the next one comes
    return Sweep({name: deletions[name] for name in names}, demand.norm)


def run_changes(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> dict[str, Deletion]:
    """Some changed problems on all ranks, each by the cheapest way to what is asked of it."""
    return {found.term: found for found in _one_by_one(model, changes, demand)}


def _one_by_one(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """Those that nobody should solve first, then the cheap ones, then those that must be
    solved themselves.
    """
    done = set()
    backward = partial(why_backward, model.library, dim=model.spaces.mesh.geometry.dim)
    for name, change in changes.items():
        words = backward(change.apply(model.coefficients))
        if words and not backward(
            model.coefficients
        ):  # a factual problem that does so is the user's own choice
            done.add(name)
            yield Score(model, change, name, demand, OWN).unsolvable(
                SolveError(words, cause="backward")
            )
    changes = {name: change for name, change in changes.items() if name not in done}
    plain = {
        name: change for name, change in changes.items() if model.changes_coefficients_only(change)
    }
    for found in _cheaply(model, plain, demand):
        done.add(found.term)
        yield found
    for name, change in changes.items():
        if name not in done:
            found, release = by_own_solve(model, change, name, demand), model.release(change)
            yield found if release is None else replace(found, conditions=release.sentence)


def _in_groups(
    model: Model, changes: Mapping[str, Intervention], demand: Demand, count: int
) -> Iterator[Deletion]:
    """The deletions of all groups of ranks, on all ranks: each round brings the next one of every
    group.
    """
    group = None if count == 1 else group_of(model, count)
    if group is None or (demand.keep and not group.returns):
        yield from _one_by_one(model, changes, demand)
        return
    share = group.share(expected_efforts(group.model, changes, demand.epsilon))
    mine = _one_by_one(group.model, {name: changes[name] for name in share}, demand)
    if demand.keep:
        while found := group.next(mine):
            for owner, deletion in found:
                solution = group.returned(model, owner, deletion.intervention)
                yield replace(deletion, solution=solution)
    else:
        # Nothing but numbers comes of it, so no group waits for another before the end.
        everything = {found.term: found for found in group.all(mine)}
        yield from (everything[name] for name in changes)


def _cheaply(
    model: Model, changes: Mapping[str, Intervention], demand: Demand
) -> Iterator[Deletion]:
    """The deletions that need not be solved to working precision and can be had for less; the
    others are left out.
    """
    # The estimate of what residuals do to a score is one in L2.
    if demand.norm != "L2" or (demand.accuracy < FINEST and demand.epsilon is None) or not changes:
        return
    assert model.factual.stages is not None
    # Of each by itself, so that a score does not depend on what else is deleted.
    linear = {name: change for name, change in changes.items() if applies(model, [change])}
    others = {name: change for name, change in changes.items() if name not in linear}
    if linear:
        yield from by_differences(model, linear, demand)
    if others and marches(model, list(others.values())):
        yield from in_lockstep(model, others, demand)
        return
    steady = {name: change for name, change in others.items() if rests(model, [change])}
    if steady:
        yield from by_factual_factors(model, steady, demand)


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
        return self.demand.allowed(
            self.strategy, size, expected, self.length, float(self.steps[-1]), waves
        )

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
    for name, rest in at_rest(
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
        shared.linearise(values, time)
        for name, deleted in list(live.items()):
            score = scores[name]
            try:
                allowed = score.allowed(partial(deleted.source, values, time))
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
