# SPDX-License-Identifier: MIT
"""Station: the report, made of the facts of the other stations and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cffem.study.report.maps.effect_map import EffectMap
from cffem.study.report.report import Report, TermReport
from cffem.study.report.scores.score_order import ranking
from cffem.study.run.plain_facts import as_plain
from cffem.study.run.running import Run
from cffem.study.run.sections.cost_section import CostSection
from cffem.study.run.sections.findings import Facts, Findings
from cffem.study.run.sections.judgements import Judgements
from cffem.study.run.sections.observable_section import ObservableSection
from cffem.study.run.sections.scope_section import ScopeSection
from cffem.study.run.stations.deleting import ALONE

if TYPE_CHECKING:
    pass

KNOWN = "the coefficients are known, so nothing is screened"
CALIBRATED = (
    "the coefficients are calibrated on readings; the section calibration has the selection"
)


class Reporting:
    """Turns the findings of a run into its report.

    Args:
        run: the run.
        found: what its stations found.
    """

    def __init__(self, run: Run, found: Findings):
        self.study, self.found = run.study, found
        self.judged = Judgements(run, found)
        self.names = self.judged.names

    def report(self, mapped: Callable[[Mapping[str, str]], Mapping[str, EffectMap]]) -> Report:
        """The whole report.

        Args:
            mapped: gives the maps, from the verdicts by term or name.
        """
        terms = {name: self.judged.term(name) for name in self.names}
        interventions = self.judged.interventions()
        decisions = {name: term.decision for name, term in terms.items()}
        decisions |= {
            name: found["decision"] for name, found in interventions.items() if name != "skipped"
        }
        effects = mapped(decisions)
        seen = {name: self.judged.sensors.term(name, ALONE) for name in self.names}
        if self.judged.sensors.present:
            terms = {n: replace(term, sensors=seen[n].to_plain()) for n, term in terms.items()}
        design, cost = self._design(), CostSection(self.judged)
        sections = {
            "scope": ScopeSection(self.judged).section(),
            "constraint": self._constraint(),
            "design": design,
            "identifiability": self.judged.sensors.identifiability(design),
            "calibration": self.judged.sensors.calibration(seen),
            "screening": self._screening(),
            "interventions": interventions,
            "maps": self._maps(effects),
            "profiles": self._profiles(),
            "observables": ObservableSection(self.judged).section(),
            "sets": {**self._sets(terms), **self.judged.sensors.columns(seen)},
            "cost": cost.section(),
            "environment": cost.environment(),
        }
        return Report(terms, sections, effects)

    def _profiles(self) -> Facts:
        if not self.found.profiles:
            return {"skipped": "no profile is asked for"}
        return {
            term: [each.to_plain() for each in found] for term, found in self.found.profiles.items()
        }

    @staticmethod
    def _maps(effects: Mapping[str, EffectMap]) -> Facts:
        if not effects:
            return {"skipped": "no changed problem has a solution"}
        return {name: each.to_plain() for name, each in effects.items()}

    def _constraint(self) -> Facts:
        found = self.found.constraint
        if not found:
            return {"skipped": "no constraint is declared"}
        first = next(iter(found.values()))
        return {
            **first.to_plain(),
            "null_terms": as_plain(list(self.judged.nulls.values())),
            **({"experiments": as_plain(found)} if len(found) > 1 else {}),
        }

    def _design(self) -> Facts:
        found = self.found.design
        if found.skipped:
            return found.to_plain()
        first = next(iter(found.equations.values())).to_plain()
        if self.study.regressed:
            first["selected"] = as_plain(next(iter(self.found.screening.values())).selected)
        result = {
            **first,
            "alias_groups": as_plain(self.judged.groups),
            "next": as_plain(self.found.proposal),
        }
        return {**result, "equations": found.to_plain()} if len(found.equations) > 1 else result

    def _screening(self) -> Facts:
        found = self.found.screening
        if not found:
            return {
                "skipped": KNOWN if not self.study.calibrated else CALIBRATED,
                **({"misfit": as_plain(self.found.misfits)} if self.found.misfits else {}),
            }
        first = next(iter(found.values())).to_plain()
        more = {"equations": as_plain(found)} if len(found) > 1 else {}
        return {**first, "misfit": as_plain(self.found.misfits), **more}

    def _sets(self, terms: Mapping[str, TermReport]) -> Facts:
        sets: Facts = {"fit": [name for name in self.names if self.found.coefficients.get(name)]}
        for key in ("relevant", "irrelevant", "unresolved", "constraint_null", "unsolvable"):
            sets[key] = [name for name, term in terms.items() if term.decision == key]
        sets["aliased"] = sorted({term for group in self.judged.groups for term in group.terms})
        sets["pruning"] = self.judged.pruning(terms)
        sets["ranking"] = ranking(terms)
        sets["verdicts"] = [
            single.to_plain()
            for kind in self.judged.single
            for each in self.judged.single[kind].values()
            for single in each
        ]
        return sets
