# SPDX-License-Identifier: MIT
"""What is asked of a sweep, and what comes of it: demands, deletions and their scores."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cffem.engine.deletion.difference_systems import DIFFERENCES
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention

OWN, DIFFERENCE, LOCKSTEP = "own solve", "difference", "lock-step"
# Solutions are handed on with their deletion and then forgotten.
HANDED = "handed"


@dataclass(frozen=True)
class Leniency:
    """How exact the solves of a sweep are; all numbers are relative and have no unit.

    Attributes:
        clear: a score above ε by this share, residuals taken off, is decided; certificates need no
            more than their margin.
        residuals: by strategy, how far the estimated effect of all residuals may exceed the
            accuracy that is asked of a score. Their effects cancel: measured errors of scores are
            smaller than the estimate by a factor of 1000 and more after Krylov methods, and by 10
            to 1000 after Newton's, whose residuals are smooth.
        most: the most that effect may be relative to the score.
        finest: the finest accuracy that estimates of residuals reach for certain; for less,
            deleted problems are solved to working precision.
        first: before anything is known of the difference, the residual is this much smaller than
            the accuracy times the source.
        share: for a verdict, the share of ε that all residuals together may cost.
        coarse: for a verdict, the residual relative to the source that is enough.
    """

    clear: float = 0.05
    residuals: Mapping[str, float] = field(
        default_factory=lambda: {DIFFERENCE: 60.0, LOCKSTEP: 5.0}
    )
    most: float = 1e-2
    finest: float = 1e-7
    first: float = 0.1
    share: float = 0.02
    coarse: float = 2e-3


LENIENCY = Leniency()


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
        # `cffem.engine.deletion.difference.score_effect`.
        whole = DIFFERENCES.mass * length**1.5 * (step if waves else 1.0)
        if self.epsilon is not None:
            return (
                max(LENIENCY.share * self.epsilon, LENIENCY.most * expected) / whole
                if expected > 0
                else max(LENIENCY.share * self.epsilon / whole, LENIENCY.coarse * source)
            )
        return (
            min(LENIENCY.residuals[strategy] * self.accuracy, LENIENCY.most) * expected / whole
            if expected > 0
            else LENIENCY.first * self.accuracy * source
        )

    def bearable(self, score: float) -> float:
        """The error that a score of a steady problem may have."""
        return (
            self.accuracy * score
            if self.epsilon is None
            else max(LENIENCY.share * self.epsilon, LENIENCY.most * score)
        )

    def decided(self, lower: float) -> bool:
        """Whether a lower bound of the score settles the verdict."""
        return self.epsilon is not None and lower > (1.0 + LENIENCY.clear) * self.epsilon


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
