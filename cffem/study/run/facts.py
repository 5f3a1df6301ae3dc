# SPDX-License-Identifier: MIT
"""Facts: what stations find out about solutions, deletions and error bounds, and hand on.

A fact never changes. `to_plain` gives it as JSON's own types, for the checkpoint and the report,
and `from_plain` gives it back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from cffem.bounds.certificate import DeletionBound, NoCertificate
from cffem.bounds.levels.three_levels import COMBINED, COMBINED_REST
from cffem.engine.solve.solve_record import SolveRecord
from cffem.study.run.plain_facts import PlainFact
from cffem.symbols.reasons import SIZE_ERROR, Code, Reason
from cffem.verdicts.certification import Certification
from cffem.verdicts.decisions import UNRESOLVED, decide

SOLVED = "solved"
# The field of a verdict that is about all of them together.
WHOLE = ""


@dataclass(frozen=True)
class FactualFact(PlainFact):
    """A factual solution.

    Attributes:
        unknowns, cells, cell, steps: the size of the problem.
        norm: of the solution; None where there is none.
        norms: the same for each field that is judged by itself.
        record: statistics of the solves.
        notes: what was changed or chosen that nobody said.
        unsolved: why a fitted model has no solution.
    """

    unknowns: int
    cells: int
    cell: str
    steps: int
    norm: float | None = None
    norms: Mapping[str, float] = field(default_factory=dict)
    record: SolveRecord | None = None
    notes: tuple[str, ...] = ()
    unsolved: Reason | None = None

    @property
    def sizes(self) -> Mapping[str, float | None]:
        """The norm for each field that is judged by itself, or of the whole."""
        return self.norms or {WHOLE: self.norm}


@dataclass(frozen=True)
class BoundFact:
    """The error bound of a score, or why there is none.

    Attributes:
        margin: how far the score can be from the true one; None without a bound.
        size: the norm that a relative tolerance is relative to.
        eta_factual, eta_counterfactual: error bounds of both solutions.
        kind, method, inequality, formula, hypotheses, constants, cost: of the certificate.
        missing: why there is none.

    Example:
        >>> BoundFact.from_plain({"reason": "too large", "code": "over-budget"}).missing.text
        'too large'
    """

    margin: float | None = None
    size: float | None = None
    eta_factual: float | None = None
    eta_counterfactual: float | None = None
    kind: str | None = None
    method: str | None = None
    inequality: str = ""
    formula: str = ""
    hypotheses: tuple[tuple[str, str], ...] = ()
    constants: Mapping[str, float | None] = field(default_factory=dict)
    cost: Mapping[str, float | None] = field(default_factory=dict)
    missing: Reason | None = None

    @property
    def size_error(self) -> float | None:
        """How far ‖u_h‖ can be from the norm that a relative tolerance is relative to."""
        known = [self.eta_factual, self.constants.get(SIZE_ERROR)]
        return min((value for value in known if value is not None), default=None)

    @classmethod
    def of(cls, bound: DeletionBound | NoCertificate) -> BoundFact:
        """What is kept of a bound."""
        if isinstance(bound, NoCertificate):
            return cls(missing=Reason(bound.code, bound.reason))
        certificate = bound.certificate
        return cls(
            float(bound.margin),
            None if math.isnan(bound.size) else float(bound.size),
            _number(bound.eta_factual),
            _number(bound.eta_counterfactual),
            certificate.kind,
            certificate.method,
            certificate.inequality,
            certificate.formula,
            tuple(certificate.hypotheses),
            {str(name): _number(value) for name, value in certificate.constants.items()},
            {str(name): _number(value) for name, value in certificate.cost.items()},
        )

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        if self.missing is not None:
            return {"reason": self.missing.text, "code": str(self.missing.code)}
        plain = asdict(self)
        del plain["missing"]
        return {**plain, "hypotheses": [list(pair) for pair in self.hypotheses]}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> BoundFact:
        """The fact that `to_plain` wrote."""
        if "reason" in plain:
            return cls(missing=Reason(Code(plain["code"]), plain["reason"]))
        hypotheses = tuple((statement, how) for statement, how in plain["hypotheses"])
        return cls(**{**plain, "hypotheses": hypotheses})


NO_BOUND = BoundFact(missing=Reason(Code.NO_THEOREM, "none was computed"))


@dataclass(frozen=True)
class KnownBound:
    """A bound as refinement asks for it."""

    score: float
    margin: float
    size: float | None
    size_error: float | None


@dataclass(frozen=True)
class DeletionFact(PlainFact):
    """A deletion from one experiment, as the sweep found it.

    Attributes:
        status, reason, cause, conditions, strategy, error: as of `Deletion`.
        score: None where it is unsolvable.
        scores: the same for each field that is judged by itself.
        record: statistics of the solves.
        coefficients: of all terms in the deleted problem.
        observables: values on the deleted solution.
        misfit: how far the deleted solution is from the data, relative to them.
        readings: what sensors see of it: δ^𝒪, the largest change of a reading, and which.
    """

    status: str
    score: float | None
    scores: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    cause: str = ""
    conditions: str = ""
    record: SolveRecord = field(default_factory=SolveRecord)
    strategy: str = ""
    error: float = 0.0
    coefficients: Mapping[str, float] = field(default_factory=dict)
    observables: Mapping[str, float] = field(default_factory=dict)
    misfit: float | None = None
    readings: Mapping[str, Any] | None = None

    @property
    def solved(self) -> bool:
        """Whether there is a deleted solution."""
        return self.status == SOLVED


@dataclass(frozen=True)
class PartialFact(PlainFact):
    """What is known of a deletion that has no solution as a whole.

    Attributes:
        profile: ρ ↦ δ(ρ) as far as there are solutions, see `cffem.engine.deletion.profile`.
        share: the part of the coefficient that is taken away; None where no part can be.
        score, bound: of that partial deletion.
    """

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {"bound": "certificate"}

    profile: Mapping[str, Any]
    share: float | None = None
    score: float | None = None
    bound: BoundFact | None = None


@dataclass(frozen=True)
class LevelFact(PlainFact):
    """Score and margin on one level of refinement, 0 being the user's discretisation."""

    level: int
    score: float
    margin: float


@dataclass(frozen=True)
class RefinementFact(PlainFact):
    """What refinement found about a deletion that an error bar left open.

    Attributes:
        tried: all levels.
        level: the one that decided; 0 where none did.
        score, bound: on that level, where one did.
        reason: why none did.
    """

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {"tried": "levels", "bound": "certificate"}

    tried: tuple[LevelFact, ...]
    level: int = 0
    score: float | None = None
    bound: BoundFact | None = None
    reason: str = ""


@dataclass(frozen=True)
class JudgedDeletion:
    """A deletion as a verdict sees it: in the norm of the study, or in that of one field.

    Attributes:
        fact: the deletion.
        score: in this norm.
        bound: its error bound; None where none was asked for.
        tried: the levels of refinement.
        unrefined: why refinement did not decide.
        share: the part of the coefficient that was taken away, where the whole has no solution.
        reach: the largest part that has one.
    """

    fact: DeletionFact
    score: float | None
    bound: BoundFact | None = None
    tried: tuple[LevelFact, ...] = ()
    unrefined: str = ""
    share: float | None = None
    reach: float | None = None

    def undecided(self, epsilon: float, asked: Certification) -> bool:
        """Whether there is an error bar to refine: none could be had, or it reaches the tolerance
        as far as that is known.
        """
        if self.bound is None or self.score is None:
            return False
        margin, error = self.bound.margin, self.bound.size_error
        if margin is None:
            return True
        moved = asked.uncertainty(math.inf if error is None else error)
        return decide(self.score, epsilon, margin=margin + moved) == UNRESOLVED

    def known_bound(self) -> KnownBound | NoCertificate:
        """The bound on the user's own discretisation, as refinement asks for it: about δ* where
        there are levels.
        """
        bound, score = self.bound or NO_BOUND, self.score
        if bound.margin is None or score is None:
            missing = bound.missing or NO_BOUND.missing
            return NoCertificate(str(missing))
        combined, rest = (bound.constants.get(name) for name in (COMBINED, COMBINED_REST))
        if combined is not None and rest is not None and rest + self.fact.error < bound.margin:
            margin = rest + self.fact.error
            return KnownBound(combined, margin, bound.size, bound.size_error)
        return KnownBound(score, bound.margin, bound.size, bound.size_error)

    def refined(self, found: RefinementFact) -> JudgedDeletion:
        """The same with what refinement found."""
        if found.bound is None:
            return replace(self, tried=found.tried, unrefined=found.reason)
        return replace(self, tried=found.tried, score=found.score, bound=found.bound)

    def at_share(self, part: PartialFact | None, certified: bool) -> JudgedDeletion:
        """An unsolvable deletion as its partial one: score and error bar at the share ρ.

        Args:
            part: the partial deletion, where there is one.
            certified: whether the error bar may be used; that of fitted coefficients is not known
                for a part of a deletion.
        """
        if self.fact.solved or part is None or part.share is None:
            return self
        bound = part.bound
        if bound is not None and not certified:
            why = "the intervals of fitted coefficients are not known for a part of a deletion"
            bound = BoundFact(missing=Reason(Code.NO_THEOREM, why))
        reach = part.profile["reach"]
        return replace(self, score=part.score, bound=bound, share=part.share, reach=reach)


@dataclass(frozen=True)
class TermDeletion:
    """All that is known of the deletion of one term from one experiment.

    Attributes:
        fact: the deletion.
        judged: with its error bound, by field where fields are judged by themselves.
        parts: what is known of parts of it, by field, where it is unsolvable.
    """

    fact: DeletionFact
    judged: Mapping[str, JudgedDeletion] = field(default_factory=dict)
    parts: Mapping[str, PartialFact] = field(default_factory=dict)

    @classmethod
    def of(
        cls, fact: DeletionFact, names: Sequence[str], bounds: Mapping[str, BoundFact] | None
    ) -> TermDeletion:
        """A deletion with its error bounds.

        Args:
            fact: the deletion.
            names: the fields that are judged by themselves; none for the whole.
            bounds: by field; None where there are none.
        """
        scores = {name: fact.scores.get(name, fact.score) for name in names} or {WHOLE: fact.score}
        judged = {
            name: JudgedDeletion(fact, score, (bounds or {}).get(name))
            for name, score in scores.items()
        }
        return cls(fact, judged)


# By intervention class, experiment and term.
DeletionFacts = Mapping[str, Mapping[str, Mapping[str, TermDeletion]]]


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
