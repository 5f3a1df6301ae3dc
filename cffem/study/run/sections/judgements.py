# SPDX-License-Identifier: MIT
"""The verdicts of a report: on terms, on named interventions and on pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import sympy as sp

from cffem.study.report.interventions.intervention_report import InterventionReport
from cffem.study.report.report import TermReport
from cffem.study.run.facts import TermDeletion
from cffem.study.run.identified_facts import (
    LinearisedFact,
)
from cffem.study.run.running import Run
from cffem.study.run.sections.findings import Facts, Findings
from cffem.study.run.sensors.sensor_reporting import SensorReporting
from cffem.study.run.stations.coefficient_intervals import total_spread
from cffem.study.run.stations.constraining import nulls_everywhere, nulls_of
from cffem.study.run.stations.deciding import (
    Verdict,
    at_limit,
    combined,
    vanishing,
    verdict,
    with_identification,
    without_model,
)
from cffem.study.run.stations.deleting import ALONE, REFITTED
from cffem.study.run.stations.detecting import ALLOWANCE
from cffem.study.run.stations.interacting import Interaction, interaction
from cffem.study.run.stations.intervening import NAMED, PAIRS, pairs_among
from cffem.symbols.problem.interventions import Intervention, delete
from cffem.symbols.reasons import Code, Reason
from cffem.verdicts.pruning import FAILS, HOLDS, UNKNOWN, PruningContract, pruning_contract

if TYPE_CHECKING:
    pass


class Judgements:
    """The verdicts on what a run deleted and changed.

    Args:
        run: the run.
        found: what its stations found.
    """

    def __init__(self, run: Run, found: Findings):
        self.run, self.study, self.found = run, run.study, found
        self.names = run.study.library.names
        self.pairs = pairs_among(self.names) if run.study.pairs else {}
        self.nulls = nulls_everywhere(found.constraint, run)
        self.sensors = SensorReporting(run, found)
        self.groups = (
            self.sensors.groups() if found.calibration is not None else found.design.alias_groups
        )
        self.estimated = run.study.coefficients is None
        self.single = {kind: self._verdicts(kind) for kind in found.deletions}
        self.headline = REFITTED if run.study.refit == "remaining" else ALONE

    def threshold(self, experiment: str, field: str = "") -> float | None:
        """The absolute tolerance in one experiment; None where it is relative to a solution
        that does not exist.
        """
        certification, fact = self.study.certification, self.found.factual[experiment]
        size = fact.norms[field] if field and fact.norm is not None else fact.norm
        if size is None and certification.relative:
            return None
        return certification.threshold(size or 0.0)

    def _verdicts(self, kind: str) -> dict[str, list[Verdict]]:
        """Verdicts of one intervention class by term, one for each experiment."""
        result: dict[str, list[Verdict]] = {}
        for name in self._asked(kind):
            result[name] = [
                self._verdict(kind, name, experiment, field)
                for experiment in self.run.experiments
                for field in self.study.fields or ("",)
            ]
        return result

    def _asked(self, kind: str) -> Sequence[str]:
        """What is asked in an intervention class: all terms, or interventions by name."""
        if kind == NAMED:
            return tuple(self.study.interventions)
        if kind == PAIRS:
            found = self.found.deletions[PAIRS].values()
            return tuple(dict.fromkeys(name for each in found for name in each))
        return self.names

    def _verdict(self, kind: str, name: str, experiment: str, field: str) -> Verdict:
        """The verdict on one term in one experiment, for one field where fields are judged by
        themselves.
        """
        found = self._whole_verdict(kind, name, experiment, field)
        return replace(found, field=field)

    def _whole_verdict(self, kind: str, name: str, experiment: str, field: str) -> Verdict:
        null = nulls_of(self.found.constraint, experiment).get(name)
        epsilon, reason = (
            self.threshold(experiment, field),
            self.found.factual[experiment].unsolved,
        )
        if epsilon is None or (reason is not None and null is None):
            return without_model(
                name, experiment, kind, epsilon, reason or Reason(Code.MODEL_UNSOLVED)
            )
        deletion = self.deletion(kind, experiment, name)
        fact = None if deletion is None else deletion.judged[field]
        if epsilon == 0:
            return vanishing(name, experiment, kind, fact)
        spread, certification = (
            total_spread(self.found.spreads, experiment, name),
            self.study.certification,
        )
        if deletion is not None and fact is not None:
            known = not self.estimated or spread is not None
            fact = fact.at_share(deletion.parts.get(field), known)
        relative = certification.epsilon if certification.relative else None
        return verdict(name, experiment, kind, epsilon, fact, null, spread, relative)

    def term(self, name: str) -> TermReport:
        """All that a report says about a term."""
        chosen = combined(self.single[self.headline][name])
        decision, reason = with_identification(
            chosen, self.groups, self.found.coefficients if self.estimated else None
        )
        if self.estimated and reason.code == Code.ZERO_COEFFICIENT:
            decision, reason = self._unselected(name)
            chosen = self._at_limit(name, chosen)
            if decision != "irrelevant" and chosen.score is not None:
                decision, reason = chosen.decision, Reason(Code(chosen.code), chosen.reason)
        residual = self.found.residuals.get(chosen.experiment, {}).get(name)
        linearised = self.found.linearised.get(chosen.experiment, LinearisedFact())
        return TermReport(
            name=name,
            latex=sp.latex(self.study.library[name]),
            coefficient=float(self.found.coefficients.get(name, 0.0)),
            selected=bool(self.found.coefficients.get(name)) if self.estimated else None,
            residual_contribution=None if residual is None else residual.contribution,
            rci=None if residual is None else residual.rci,
            one_step=None if residual is None else residual.one_step,
            linearised=linearised.scores.get(name),
            deletion=chosen.score,
            misfit=self._misfit(name, chosen),
            eta_factual=chosen.eta_factual,
            eta_counterfactual=chosen.eta_counterfactual,
            margin=chosen.margin,
            epsilon=chosen.epsilon,
            experiment=chosen.experiment,
            field=chosen.field,
            fields=self._by_field(name),
            certificate=chosen.kind,
            method=chosen.method,
            decision=decision,
            reason=reason.text,
            code=str(reason.code),
            conditions=self._conditions(name, chosen),
            proof=self._proof(name, chosen),
            share=chosen.share,
            profile=self._profile(name, chosen),
        )

    def interventions(self) -> Facts:
        """Named interventions and pairs of terms."""
        kinds = [kind for kind in (NAMED, PAIRS) if kind in self.single]
        if not kinds:
            return {"skipped": "no intervention is named, and pairs are not asked for"}
        return {
            name: self._intervention(kind, name).to_plain()
            for kind in kinds
            for name in self.single[kind]
        }

    def _intervention(self, kind: str, name: str) -> InterventionReport:
        chosen = combined(self.single[kind][name])
        change = self._change_of(kind, name)
        fact = self.deletion(kind, chosen.experiment, name)
        bound = None if fact is None else fact.judged[chosen.field].bound
        together = self._interaction(name) if kind == PAIRS else Interaction()
        return InterventionReport(
            name=name,
            intervention=str(change),
            latex=change._latex(),
            terms=change.names,
            pair=kind == PAIRS,
            score=chosen.score,
            eta_factual=chosen.eta_factual,
            eta_counterfactual=chosen.eta_counterfactual,
            margin=chosen.margin,
            epsilon=chosen.epsilon,
            experiment=chosen.experiment,
            certificate=chosen.kind,
            method=chosen.method,
            decision=chosen.decision,
            reason=chosen.reason,
            code=chosen.code,
            conditions="" if fact is None else fact.fact.conditions,
            misfit=None if fact is None else fact.fact.misfit,
            field=chosen.field,
            fields=self._by_field(name, kind),
            relations=together.relations,
            interaction=together.value,
            interaction_margin=together.margin,
            sentence=together.sentence,
            proof=None if bound is None else bound.to_plain(),
        )

    def _change_of(self, kind: str, name: str) -> Intervention:
        if kind == NAMED:
            return self.study.interventions[name]
        return delete(*self.pairs[name], conditions=self.study.certification.conditions)

    def _interaction(self, name: str) -> Interaction:
        first, second = self.pairs[name]
        both = self.single[PAIRS][name]
        of = [self.single[ALONE][term] for term in (first, second)]
        decided = [combined(each).decision for each in (*of, both)]
        return interaction(
            (first, second),
            (decided[0], decided[1], decided[2]),
            list(zip(*of, both, strict=True)),
        )

    def _by_field(self, name: str, kind: str = "") -> dict[str, str]:
        """What the verdicts on a term are for each field that is judged by itself."""
        singles = self.single[kind or self.headline][name]
        return {
            field: combined([v for v in singles if v.field == field]).decision
            for field in self.study.fields
        }

    def deletion(self, kind: str, experiment: str, name: str) -> TermDeletion | None:
        """What is known of the deletion of a term; None where it was not deleted."""
        return self.found.deletions[kind].get(experiment, {}).get(name)

    def _misfit(self, name: str, chosen: Verdict) -> float | None:
        """How far the deleted solution is from the data."""
        found = self.deletion(ALONE, chosen.experiment, name)
        return None if found is None else found.fact.misfit

    def _conditions(self, name: str, chosen: Verdict) -> str:
        """Which essential conditions were released; a part of a deletion keeps all."""
        found = self.deletion(self.headline, chosen.experiment, name)
        return "" if found is None or chosen.share is not None else found.fact.conditions

    def _profile(self, name: str, chosen: Verdict) -> Facts | None:
        """How far the solution moves while a term is taken away that cannot go as a whole."""
        found = self.deletion(self.headline, chosen.experiment, name)
        part = None if found is None else found.parts.get(chosen.field)
        return None if part is None else dict(part.profile)

    def _proof(self, name: str, chosen: Verdict) -> Facts | None:
        found = self.deletion(self.headline, chosen.experiment, name)
        if found is None:
            return None
        whole = found.parts if chosen.share is not None else found.judged
        bound = whole[chosen.field].bound
        return None if bound is None else bound.to_plain()

    def _unselected(self, name: str) -> tuple[str, Reason]:
        """Irrelevant where the screen provably kept every active term; else nobody deleted
        the term.
        """
        if self.found.calibration is not None and name not in self.nulls:
            return "unresolved", Reason(Code.UNSELECTED, self.sensors.selected_words(name))
        for screen in self.found.screening.values():
            if name in screen.frequencies:
                decision, why = PruningContract(
                    screen.contract, HOLDS, estimated=screen.contract_estimated
                ).unscreened()
                often = f"selected in {screen.frequencies[name]:.0%} of the bootstrap replicates"
                return decision, Reason(Code.UNSELECTED, f"{why} ({often})")
        return "unresolved", Reason(
            Code.UNSELECTED, "not screened: it cannot be identified on the constraint class"
        )

    def _at_limit(self, name: str, chosen: Verdict) -> Verdict:
        """The verdict on an unselected term at the largest coefficient that it could have; as
        it was where none is known.
        """
        found = []
        for experiment, facts in self.found.limits.items():
            limit = facts.get(name)
            for which, effect in (limit.effects or {} if limit else {}).items():
                epsilon = self.threshold(experiment, which)
                if epsilon and limit:
                    made = at_limit(
                        name,
                        experiment,
                        self.headline,
                        epsilon,
                        effect,
                        limit.limit,
                        ALLOWANCE,
                    )
                    found.append(replace(made, field=which))
        return combined(found) if found else chosen

    def pruning(self, terms: Mapping[str, TermReport]) -> Facts:
        """The screening-to-pruning contract: whether the relevant terms found are exactly the
        relevant ones.
        """
        fit = [name for name in self.names if self.found.coefficients.get(name)]
        screens = list(self.found.screening.values()) if self.estimated else []
        # A selection from readings that is believed has found the terms, as far as is known.
        believed = self.found.calibration is not None and self.found.calibration["reliable"]
        recalls = {screen.contract for screen in screens} or {
            HOLDS if not self.estimated or believed else UNKNOWN
        }
        recall = next(known for known in (FAILS, UNKNOWN, HOLDS) if known in recalls)
        kinds = {name: term.certificate for name, term in terms.items() if term.certificate}
        contract = pruning_contract(
            {name: terms[name].decision for name in fit}, recall=recall, kinds=kinds
        )
        estimated = (
            contract.estimated
            or self.found.calibration is not None
            or any(screen.contract_estimated for screen in screens)
        )
        contract = replace(contract, estimated=estimated)
        return {
            **asdict(contract),
            "breaking": list(contract.breaking),
            "verdict": contract.verdict,
            "sentence": str(contract),
        }
