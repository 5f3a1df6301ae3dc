# SPDX-License-Identifier: MIT
"""Station: the three-way verdicts, per experiment and intervention class, and how experiments are
put together.

A term is relevant for a study if it is relevant in one of its experiments, and irrelevant only if
it is irrelevant in all of them. Whatever cannot be decided says why: no error bar, an error bar
that reaches ε, a coefficient that the data do not identify.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cffem.study.run.facts import NO_BOUND, BoundFact, JudgedDeletion
from cffem.study.run.identified_facts import AliasFact, NullFact
from cffem.symbols.reasons import NEXT_LEVEL, Code, Reason
from cffem.verdicts.decisions import IRRELEVANT, RELEVANT, UNRESOLVED, decide

Facts = dict[str, Any]
NULL, UNSOLVABLE = "constraint_null", "unsolvable"


@dataclass(frozen=True)
class Verdict:
    """The decision on one term in one experiment under one class of interventions.

    Attributes:
        term, experiment, intervention: what it is about.
        epsilon: the absolute tolerance.
        score, margin: the deletion score and its error bar; None where there is none.
        spread: the part of the margin that comes from the intervals of estimated coefficients.
        kind, method: of the certificate.
        decision, reason, code: the verdict, why it is none, and the same as a `Code`.
        field: the field that it is about, where each is judged by itself.
        share: the part of the coefficient that was taken away, where the whole has no solution.
    """

    term: str
    experiment: str
    intervention: str
    epsilon: float | None
    score: float | None
    margin: float | None
    spread: float | None
    eta_factual: float | None
    eta_counterfactual: float | None
    kind: str | None
    method: str | None
    decision: str
    reason: str
    code: str = ""
    field: str = ""
    share: float | None = None

    @property
    def gap(self) -> float:
        """By how much the score with its error bar is clear of ε; negative where it is not."""
        if self.score is None or self.margin is None or self.epsilon is None:
            return -math.inf
        return abs(self.score - self.epsilon) - self.margin

    def to_plain(self) -> Facts:
        """For the report."""
        return asdict(self)


def verdict(
    term: str,
    experiment: str,
    intervention: str,
    epsilon: float,
    fact: JudgedDeletion | None,
    null: NullFact | None,
    spread: float | None,
    relative: float | None = None,
) -> Verdict:
    """Decide one deletion.

    Args:
        term, experiment, intervention: what it is about.
        epsilon: the absolute tolerance.
        fact: the deletion with its certificate; None where the term was not deleted.
        null: the evidence that the term vanishes on the constraint class, if it does.
        spread: how much the score may change within the intervals of estimated coefficients; None
            for known ones.
        relative: what the norm of the factual solution is multiplied by, where the tolerance is
            relative.
    """
    bound = bound_of(fact)
    margin, uncertainty = bound.margin, 0.0
    if margin is not None and spread is not None:
        margin += spread
    if margin is not None and relative is not None:
        epsilon, uncertainty = relative_tolerance(relative, bound, epsilon)
    decision, reason = decided(fact, null, bound, margin, epsilon, uncertainty, spread or 0.0)
    kind, method = bound.kind, bound.method
    if margin is not None and not math.isfinite(margin):
        margin, kind, method = None, None, None
    if kind is not None and spread is not None:
        kind, method = "estimated", f"{method}; intervals of the coefficients"
    return Verdict(
        term,
        experiment,
        intervention,
        epsilon,
        None if fact is None else fact.score,
        margin,
        spread,
        bound.eta_factual,
        bound.eta_counterfactual,
        kind,
        method,
        decision,
        reason.text,
        str(reason.code),
        share=None if fact is None else fact.share,
    )


def bound_of(fact: JudgedDeletion | None) -> BoundFact:
    """The error bound of a deletion, or that there is none."""
    return NO_BOUND if fact is None or fact.bound is None else fact.bound


def relative_tolerance(relative: float, bound: BoundFact, epsilon: float) -> tuple[float, float]:
    """The tolerance ε‖u_h‖ of the level that a bound is about, and how far ε‖u‖ may be from it.

    Example:
        >>> relative_tolerance(0.5, BoundFact(size=2.0, eta_factual=0.1), 1.1)
        (1.0, 0.05)
    """
    size, error = bound.size, bound.size_error
    return (
        epsilon if size is None else relative * size,
        math.inf if error is None else relative * error,
    )


def without_model(
    term: str, experiment: str, intervention: str, epsilon: float | None, reason: Reason
) -> Verdict:
    """The verdict where the factual model itself was not solved: there is nothing to delete
    from.
    """
    return Verdict(
        term,
        experiment,
        intervention,
        epsilon,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        UNRESOLVED,
        reason.text,
        str(reason.code),
    )


def at_limit(
    term: str,
    experiment: str,
    intervention: str,
    epsilon: float,
    effect: float,
    limit: float,
    allowance: float,
) -> Verdict:
    """The verdict on a term that was not selected, from what it does at the largest coefficient
    that the data allow.

    Args:
        term, experiment, intervention, epsilon: as of `verdict`.
        effect: how far the solution moves with the term.
        limit: its coefficient there.
        allowance: the error of the effect, relative to it.

    Example:
        >>> at_limit("u_x", "e", "deletion", 0.1, 0.01, 2e-3, 0.25).decision
        'irrelevant'
        >>> at_limit("u_x", "e", "deletion", 0.1, 0.5, 2e-3, 0.25).reason
        'not selected, but it could be as large as 0.002, which changes the solution by 0.5'
    """
    margin = allowance * effect
    below = effect + margin < epsilon
    could = f"it could be as large as {limit:.2g}, which changes the solution by {effect:.2g}"
    reason = f"not selected; {could}" if below else f"not selected, but {could}"
    code = Code.NONE if below else Code.DETECTION_LIMIT
    return Verdict(
        term,
        experiment,
        intervention,
        epsilon,
        effect,
        margin,
        None,
        None,
        None,
        "estimated",
        "at the largest coefficient that the data allow",
        IRRELEVANT if below else UNRESOLVED,
        reason,
        str(code),
    )


def vanishing(
    term: str, experiment: str, intervention: str, fact: JudgedDeletion | None
) -> Verdict:
    """The verdict for a field that vanishes in the factual solution, so that a relative
    tolerance is zero.
    """
    bound = bound_of(fact)
    score, margin = None if fact is None else fact.score, bound.margin
    if score is not None and margin is not None and score > margin:
        decision, reason = RELEVANT, Reason(Code.NONE)
    else:
        why = (
            "the field vanishes in the factual solution, so that nothing is small relative to it; "
            "give an absolute ε"
        )
        decision, reason = (
            UNRESOLVED,
            Reason(Code.ZERO_COEFFICIENT if fact is None else Code.FIELD_VANISHES, why),
        )
    return Verdict(
        term,
        experiment,
        intervention,
        0.0,
        score,
        margin,
        None,
        bound.eta_factual,
        bound.eta_counterfactual,
        bound.kind,
        bound.method,
        decision,
        reason.text,
        str(reason.code),
    )


def decided(
    fact: JudgedDeletion | None,
    null: NullFact | None,
    bound: BoundFact,
    margin: float | None,
    epsilon: float,
    uncertainty: float = 0.0,
    spread: float = 0.0,
) -> tuple[str, Reason]:
    """The decision and its reason; `uncertainty` is how far the tolerance may be from ε,
    `spread` a part of the margin.
    """
    if null is not None:
        if null.label == "exact":
            return NULL, Reason(
                Code.NULL, f"vanishes on the constraint class, ratio {null.ratio:.1e}"
            )
        # Proved for the exact class; on this mesh the ratio is a discretisation error, and says
        # nothing about the term.
        return NULL, Reason(
            Code.NULL,
            "vanishes on the constraint class, proved; on meshes in the limit of fine cells only",
        )
    if fact is None:
        return UNRESOLVED, Reason(Code.ZERO_COEFFICIENT, "not deleted: its coefficient is zero")
    if not fact.fact.solved or fact.score is None:
        if fact.share is None:
            return UNSOLVABLE, Reason(Code.UNSOLVABLE, fact.fact.reason)
        return in_part(fact, bound, margin, epsilon, uncertainty)
    if not math.isfinite(spread):
        return UNRESOLVED, Reason(
            Code.MARGIN_COEFFICIENTS,
            "within the intervals of the fitted coefficients the model has no solution",
        )
    if margin is None:
        missing = bound.missing or Reason(Code.NO_THEOREM)
        return decide(fact.score, epsilon), Reason(missing.code, f"no error bar: {missing}")
    decision = decide(fact.score, epsilon, margin=margin + uncertainty)
    if decision != UNRESOLVED:
        return decision, Reason(Code.NONE)
    if decide(fact.score, epsilon, margin=margin) != UNRESOLVED:
        moved = (
            f"the error bar of ‖u_h‖, which ε is relative to, moves ε by {uncertainty:.2g} and so "
            "across the score"
        )
        return decision, Reason(Code.MARGIN_DISCRETISATION, moved)
    return decision, reaching(margin, spread, fact)


def in_part(
    fact: JudgedDeletion,
    bound: BoundFact,
    margin: float | None,
    epsilon: float,
    uncertainty: float,
) -> tuple[str, Reason]:
    """The decision on a deletion without a solution, from what a part of it does.

    Example:
        >>> from cffem.study.run.facts import DeletionFact
        >>> without = DeletionFact("unsolvable", None)
        >>> fact = JudgedDeletion(without, 3.0, share=0.4, reach=0.5)
        >>> decision, reason = in_part(fact, NO_BOUND, 0.5, 1.0, 0.0)
        >>> print(f"{decision}: {reason}")
        relevant: already without 40 % of its coefficient; beyond 50 % no solution was found
    """
    share, score = percent(fact.share or 0.0), fact.score or 0.0
    reach = percent(fact.reach or 0.0)
    none = f"beyond {reach} no solution was found"
    if score <= epsilon:
        text = (
            f"without {reach} of its coefficient the solution changes by {score:.2g} at most; "
            f"{none}"
        )
    elif margin is None:
        why = bound.missing or ""
        change = f"without {share} of its coefficient the solution changes by {score:.2g}"
        text = f"{change}, for which there is no error bar: {why}; {none}"
    elif decide(score, epsilon, margin=margin + uncertainty) == RELEVANT:
        return RELEVANT, Reason(Code.PARTIAL, f"already without {share} of its coefficient; {none}")
    else:
        text = f"the error bar reaches ε where {share} of its coefficient are taken away; {none}"
    return UNRESOLVED, Reason(Code.PARTIAL, text)


def percent(share: float) -> str:
    """A share as people write it.

    Example:
        >>> percent(0.4), percent(0.4407), percent(1e-4)
        ('40 %', '44.1 %', '0.01 %')
    """
    return f"{100 * share:.3g} %"


def reaching(margin: float, spread: float, fact: JudgedDeletion) -> Reason:
    """Why an error bar reaches ε: the larger of its two parts, discretisation and
    coefficients, is what can be mended.
    """
    if spread > margin - spread:
        return Reason(
            Code.MARGIN_COEFFICIENTS,
            "the error bar reaches ε; most of it comes from the intervals of the coefficients",
        )
    price = None if fact.bound is None else fact.bound.cost.get(NEXT_LEVEL)
    more = (
        ""
        if price is None
        else f"; cells and time steps half as large cost about {price:.2g} times the factual solve "
        "with its deletions for this term (refine, or a larger effort)"
    )
    return Reason(Code.MARGIN_DISCRETISATION, fact.unrefined or f"the error bar reaches ε{more}")


def combined(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict of a study from those of its experiments on one term.

    Example:
        >>> from cffem.study.run.facts import DeletionFact
        >>> def single(experiment, score):
        ...     certificate = BoundFact(margin=0.1, kind="guaranteed", method="")
        ...     fact = JudgedDeletion(DeletionFact("solved", score), score, certificate)
        ...     return verdict("lap", experiment, "deletion", 1.0, fact, None, None)
        >>> combined([single("a", 0.5), single("b", 2.0)]).decision
        'relevant'
        >>> combined([single("a", 0.5), single("b", 1.0)]).decision
        'unresolved'
    """
    for decision in (RELEVANT, UNSOLVABLE, UNRESOLVED):
        found = [v for v in verdicts if v.decision == decision]
        if found:
            return max(found, key=lambda v: (v.gap, v.score or 0.0))
    irrelevant = [v for v in verdicts if v.decision == IRRELEVANT]
    return min(irrelevant, key=lambda v: v.gap) if irrelevant else verdicts[0]


def observable_verdict(
    facts: Sequence[tuple[float | None, float | None]], epsilon: float, unsolvable: bool = False
) -> str:
    """Decide an observable from its changes and error bars in all experiments.

    Args:
        facts: change and error bar in each experiment, None where there is none.
        epsilon: the tolerance of the observable.
        unsolvable: whether the deleted problem of some experiment could not be solved, so that
            nothing is irrelevant in all.
    """
    found = [
        decide(change, epsilon, margin=margin) for change, margin in facts if change is not None
    ]
    if RELEVANT in found:
        return RELEVANT
    if unsolvable:
        return UNSOLVABLE
    return IRRELEVANT if found and all(decision == IRRELEVANT for decision in found) else UNRESOLVED


def with_identification(
    verdict: Verdict, groups: Sequence[AliasFact], fitted: Mapping[str, float] | None
) -> tuple[str, Reason]:
    """The decision and reason, given which combinations of coefficients the experiments identify.

    Args:
        verdict: the verdict on the deletion itself.
        groups: the alias groups.
        fitted: the coefficients, where they come from data; then a term of a group has no
            coefficient of its own to delete. None for known ones.
    """
    mine = next((group for group in groups if verdict.term in group.terms), None)
    code = Code(verdict.code)
    if mine is None or verdict.decision == NULL:
        return verdict.decision, Reason(code, verdict.reason)
    if fitted is not None:
        carriers = [term for term in mine.terms if fitted.get(term)]
        # Where one term carries all that the group does, deleting it deletes what is identified.
        whole = verdict.decision in (RELEVANT, IRRELEVANT) and carriers == [verdict.term]
        more = f"; deleting that combination is {verdict.decision}" if whole else ""
        return UNRESOLVED, Reason(Code.ALIASED, mine.sentence + more)
    return verdict.decision, Reason(code, "; ".join(filter(None, [verdict.reason, mine.sentence])))
