"""Deletion sweeps: every deleted problem against the factual solution, sharing matrices, patterns and symbolic factorisations.

A deleted problem that is singular, blows up or does not converge is a result, `unsolvable` with its reason, and the sweep goes
on. The space–time norm of the difference is accumulated level by level, so that a trajectory is stored only where one asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.linear import SolveError, SolveRecord, collect_garbage
from cffem.engine.norms import TrajectoryNorm
from cffem.engine.refit import Refit, deleting
from cffem.engine.solution import Solution
from cffem.symbols.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model


@dataclass(frozen=True)
class Deletion:
    """The outcome of one deletion.

    Attributes:
        term: the deleted term.
        score: δ_j = ‖u − u_j‖, nan where the deleted problem is unsolvable.
        status: "solved" or "unsolvable".
        reason: why it is unsolvable.
        record: solver statistics.
        history: residual norms of the failing solve.
        solution: the deleted solution, where the sweep keeps them and it exists.
        intervention: the deletion, with what it sets the other coefficients to where they are refitted.
    """

    term: str
    score: float
    status: str = "solved"
    reason: str = ""
    record: SolveRecord = field(default_factory=SolveRecord)
    history: tuple[float, ...] = ()
    solution: Solution | None = None
    intervention: Intervention = field(default_factory=Intervention)


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


def run_sweep(
    model: Model,
    names: tuple[str, ...],
    norm: str,
    keep: bool = False,
    finished: Callable[[Deletion], object] | None = None,
    refit: Refit = "none",
) -> Sweep:
    """Solve all deleted problems and measure how far each is from the factual solution.

    Args:
        model: the model.
        names: the terms to delete, one at a time.
        norm: the norm of the scores.
        keep: whether each deletion keeps its solution.
        finished: called with each deletion when it is done.
        refit: what happens to the other coefficients, see `cffem.engine.refit`.
    """
    model.norm(norm)
    changes = deleting(model, names, refit)
    factual, deletions = model.factual, {}
    for name, change in changes.items():
        deletions[name] = deletion(model, factual.states, change, name, norm, keep)
        if finished is not None:
            finished(deletions[name])
    return Sweep(deletions, norm)


def deletion(
    model: Model, factual: Sequence[np.ndarray], change: Intervention, name: str, norm: str, kept: bool = False
) -> Deletion:
    """One deleted problem against the factual states."""
    record = SolveRecord()
    measured = model.norm(norm)
    distance = TrajectoryNorm(measured)
    steps = np.diff(model.times, prepend=model.times[0])
    solution = Solution(model, change, model.times, record) if kept else None
    last: list[Any] = [None]

    def keep(level: int, state: np.ndarray, velocity: np.ndarray | None) -> None:
        last[0] = factual[level] - state
        if len(steps) > 1:
            distance.add(last[0], steps[level])
        if solution is not None:
            solution.keep(level, state, velocity)

    try:
        model.run(change, record, keep)
        score = distance.value if len(steps) > 1 else measured(last[0])
        if not np.isfinite(score):
            raise SolveError("the score is not finite")
    except SolveError as error:
        collect_garbage(model.comm)  # vectors of the march that was broken off
        return Deletion(name, float("nan"), "unsolvable", str(error), record, tuple(error.history), None, change)
    return Deletion(name, score, record=record, solution=solution, intervention=change)
