# SPDX-License-Identifier: MIT
"""The section observables: what each deletion does to each observable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cffem.study.run.description import observable_text
from cffem.study.run.identified_facts import (
    ObservableBoundFact,
)
from cffem.study.run.sections.findings import Facts
from cffem.study.run.sections.judgements import Judgements
from cffem.study.run.stations.coefficient_intervals import total_spread
from cffem.study.run.stations.deciding import (
    UNSOLVABLE,
    observable_verdict,
)
from cffem.study.run.stations.deleting import ALONE
from cffem.study.run.stations.intervening import NAMED

if TYPE_CHECKING:
    from cffem.symbols.problem.observables import Observable


class ObservableSection:
    """What each deletion does to each observable.

    Args:
        judged: the verdicts.
    """

    def __init__(self, judged: Judgements):
        self.judged, self.run, self.study = judged, judged.run, judged.study
        self.found, self.names = judged.found, judged.names

    def section(self) -> Facts:
        """What the section holds."""
        if not self.study.observables:
            return {"skipped": "no observable is given"}
        return {
            label: self._observable(label, *pair) for label, pair in self.study.observables.items()
        }

    def _observable(self, label: str, observable: Observable, epsilon: float) -> Facts:
        values = {name: found[label].value for name, found in self.found.adjoints.items()}
        terms = {}
        for term in self.names:
            terms[term] = {
                **self._effect(ALONE, term, label, epsilon),
                "adjoint": max(
                    (f[label].scores.get(term, 0.0) for f in self.found.adjoints.values()),
                    default=None,
                ),
            }
        named = {
            name: self._effect(NAMED, name, label, epsilon) for name in self.study.interventions
        }
        return {
            **({"interventions": named} if named else {}),
            "observable": observable_text(observable),
            "epsilon": float(epsilon),
            "value": next(iter(values.values()), None),
            "values": values,
            "terms": terms,
        }

    def _effect(self, kind: str, term: str, label: str, epsilon: float) -> Facts:
        """What an intervention does to an observable, where it does most, with the decision."""
        each = [self._change(name, term, label, kind) for name in self.found.adjoints]
        nothing = {
            "deletion": None,
            "margin": None,
            "certificate": None,
            "method": None,
            "why": "",
        }
        chosen = max(
            each,
            key=lambda change: -1.0 if change["deletion"] is None else change["deletion"],
            default=nothing,
        )
        unsolved = self._unsolved(term, kind)
        decision = observable_verdict(
            [(c["deletion"], c["margin"]) for c in each], epsilon, unsolved is not None
        )
        return {
            **chosen,
            "decision": "constraint_null" if term in self.judged.nulls else decision,
            "reason": unsolved
            if decision == UNSOLVABLE
            else self._observable_reason(term, chosen, decision),
        }

    def _unsolved(self, term: str, kind: str) -> str | None:
        """Why the deleted problem of some experiment could not be solved; None where all could."""
        found = (facts.get(term) for facts in self.found.deletions[kind].values())
        return next(
            (each.fact.reason for each in found if each is not None and not each.fact.solved),
            None,
        )

    def _observable_reason(self, term: str, chosen: Facts, decision: str) -> str:
        if term in self.judged.nulls:
            return "vanishes on the constraint class"
        if chosen["deletion"] is None:
            lost = next((f.unsolved for f in self.found.factual.values() if f.unsolved), None)
            return "not deleted: its coefficient is zero" if lost is None else lost.text
        if chosen["margin"] is None:
            return f"no error bar: {chosen['why']}"
        return "the error bar reaches ε" if decision == "unresolved" else ""

    def _change(self, experiment: str, term: str, label: str, asked: str) -> Facts:
        """|O(u) − O(u_j)| of an intervention class with its error bar in one experiment."""
        found = self.judged.deletion(asked, experiment, term)
        if found is None or label not in found.fact.observables:
            return {
                "deletion": None,
                "margin": None,
                "certificate": None,
                "method": None,
                "why": "",
            }
        change = abs(self.found.adjoints[experiment][label].value - found.fact.observables[label])
        bound = self.found.observable_bounds[experiment][label].get(
            term, ObservableBoundFact(reason="none was computed")
        )
        spread = total_spread(self.found.spreads, experiment, term, label)
        margin, kind = bound.margin, bound.kind
        if margin is not None and spread is not None:
            margin, kind = margin + spread, "estimated"
        return {
            "deletion": change,
            "margin": margin,
            "certificate": kind,
            "method": bound.method,
            "why": bound.reason,
        }
