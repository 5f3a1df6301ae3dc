# SPDX-License-Identifier: MIT
"""Station: the report, made of the facts of the other stations and of nothing else."""

from __future__ import annotations

import platform
import resource
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

import sympy as sp

import cffem
from cffem.study.report.interventions.intervention_report import InterventionReport
from cffem.study.report.maps.effect_map import EffectMap
from cffem.study.report.report import Report, TermReport
from cffem.study.report.scores.profile_report import ProfileReport
from cffem.study.report.scores.score_order import ranking
from cffem.study.run.description import observable_text
from cffem.study.run.facts import (
    WHOLE,
    DeletionFacts,
    FactualFact,
    TermDeletion,
)
from cffem.study.run.identified_facts import (
    AdjointFacts,
    ConstraintFacts,
    DesignFacts,
    LimitFact,
    LinearisedFact,
    ObservableBoundFact,
    ResidualFact,
    ScreeningFacts,
    SpreadFacts,
)
from cffem.study.run.measured_fields import measures
from cffem.study.run.plain_facts import as_plain
from cffem.study.run.running import Run
from cffem.study.run.sensors.sensor_reporting import SensorReporting
from cffem.study.run.stations.coefficient_intervals import total_spread
from cffem.study.run.stations.constraining import nulls_everywhere, nulls_of
from cffem.study.run.stations.deciding import (
    UNSOLVABLE,
    Verdict,
    at_limit,
    combined,
    observable_verdict,
    vanishing,
    verdict,
    with_identification,
    without_model,
)
from cffem.study.run.stations.deleting import ALONE, REFITTED
from cffem.study.run.stations.detecting import ALLOWANCE
from cffem.study.run.stations.interacting import Interaction, interaction
from cffem.study.run.stations.intervening import NAMED, PAIRS, pairs_among
from cffem.symbols.problem.interventions import KEPT, Intervention, delete
from cffem.symbols.problem.known_values import known_text
from cffem.symbols.reasons import Code, Reason
from cffem.verdicts.pruning import FAILS, HOLDS, UNKNOWN, PruningContract, pruning_contract

if TYPE_CHECKING:
    from basix.ufl import _ElementBase

    from cffem.engine.mesh.meshes import MeshData
    from cffem.symbols.problem.observables import Observable


Facts = dict[str, Any]
KNOWN = "the coefficients are known, so nothing is screened"
CALIBRATED = (
    "the coefficients are calibrated on readings; the section calibration has the selection"
)
RULE = "relevant if relevant in one experiment, irrelevant only if irrelevant in all"


@dataclass
class Findings:
    """The facts of all stations."""

    coefficients: Mapping[str, float]
    constraint: ConstraintFacts = field(default_factory=dict)
    design: DesignFacts = field(default_factory=DesignFacts)
    screening: ScreeningFacts = field(default_factory=dict)
    factual: Mapping[str, FactualFact] = field(default_factory=dict)
    deletions: DeletionFacts = field(default_factory=dict)
    linearised: Mapping[str, LinearisedFact] = field(default_factory=dict)
    residuals: Mapping[str, Mapping[str, ResidualFact]] = field(default_factory=dict)
    profiles: Mapping[str, list[ProfileReport]] = field(default_factory=dict)
    adjoints: AdjointFacts = field(default_factory=dict)
    observable_bounds: Mapping[str, Mapping[str, Mapping[str, ObservableBoundFact]]] = field(
        default_factory=dict
    )
    spreads: SpreadFacts = field(default_factory=dict)
    misfits: Facts = field(default_factory=dict)
    limits: Mapping[str, Mapping[str, LimitFact]] = field(default_factory=dict)
    proposal: Facts | None = None
    calibration: Facts | None = None
    sensitivities: Facts = field(default_factory=dict)
    reading_bars: Facts = field(default_factory=dict)
    next_sensor: Facts | None = None


def domain_text(domain: MeshData) -> str:
    """What kind of set a mesh, given with its names, stands for.

    Example:
        >>> from mpi4py import MPI
        >>> import cffem as cf
        >>> domain_text(cf.mesh.square(MPI.COMM_SELF, 0.5))
        'the meshed polygon'
    """
    from cffem._compat import cell_geometry

    mesh = domain.mesh
    kinds = {1: "interval", 2: "polygon", 3: "polyhedron"}
    if mesh.geometry.dim != mesh.topology.dim:
        return "the meshed curve or surface"
    if cell_geometry(mesh)[1] > 1:
        return "what the curved cells of the mesh fill"
    if domain.curved is not None:
        kind = kinds[mesh.topology.dim]
        return (
            "bounded by the curves that the mesh was made from, and error bars contain its gap "
            f"to the meshed {kind}"
        )
    return f"the meshed {kinds[mesh.topology.dim]}"


class Reporting:
    """Turns the findings of a run into its report.

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

    def report(self, mapped: Callable[[Mapping[str, str]], Mapping[str, EffectMap]]) -> Report:
        """The whole report.

        Args:
            mapped: gives the maps, from the verdicts by term or name.
        """
        terms = {name: self._term(name) for name in self.names}
        interventions = self._interventions()
        decisions = {name: term.decision for name, term in terms.items()}
        decisions |= {
            name: found["decision"] for name, found in interventions.items() if name != "skipped"
        }
        effects = mapped(decisions)
        seen = {name: self.sensors.term(name, ALONE) for name in self.names}
        if self.sensors.present:
            terms = {n: replace(term, sensors=seen[n].to_plain()) for n, term in terms.items()}
        design = self._design()
        sections = {
            "scope": self._scope(),
            "constraint": self._constraint(),
            "design": design,
            "identifiability": self.sensors.identifiability(design),
            "calibration": self.sensors.calibration(seen),
            "screening": self._screening(),
            "interventions": interventions,
            "maps": self._maps(effects),
            "profiles": self._profiles(),
            "observables": self._observables(),
            "sets": {**self._sets(terms), **self.sensors.columns(seen)},
            "cost": self._cost(),
            "environment": self._environment(),
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

    # Verdicts
    # ----------------------------------------------------------------------------------------------

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
        deletion = self._deletion(kind, experiment, name)
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

    def _term(self, name: str) -> TermReport:
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

    def _interventions(self) -> Facts:
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
        fact = self._deletion(kind, chosen.experiment, name)
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

    def _deletion(self, kind: str, experiment: str, name: str) -> TermDeletion | None:
        """What is known of the deletion of a term; None where it was not deleted."""
        return self.found.deletions[kind].get(experiment, {}).get(name)

    def _misfit(self, name: str, chosen: Verdict) -> float | None:
        """How far the deleted solution is from the data."""
        found = self._deletion(ALONE, chosen.experiment, name)
        return None if found is None else found.fact.misfit

    def _conditions(self, name: str, chosen: Verdict) -> str:
        """Which essential conditions were released; a part of a deletion keeps all."""
        found = self._deletion(self.headline, chosen.experiment, name)
        return "" if found is None or chosen.share is not None else found.fact.conditions

    def _profile(self, name: str, chosen: Verdict) -> Facts | None:
        """How far the solution moves while a term is taken away that cannot go as a whole."""
        found = self._deletion(self.headline, chosen.experiment, name)
        part = None if found is None else found.parts.get(chosen.field)
        return None if part is None else dict(part.profile)

    def _proof(self, name: str, chosen: Verdict) -> Facts | None:
        found = self._deletion(self.headline, chosen.experiment, name)
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

    def _pruning(self, terms: Mapping[str, TermReport]) -> Facts:
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

    # Sections
    # ----------------------------------------------------------------------------------------------

    def _scope(self) -> Facts:
        certification = self.study.certification
        experiments = {name: self._experiment(name) for name in self.run.experiments}
        first = next(iter(experiments))
        unknowns = self.study.library.unknowns
        measured = [
            u for u in unknowns if any(measures(data, u) for data in self.study.data.values())
        ]
        fields = ", ".join(map(str, measured or unknowns))
        observation = self.sensors.observation_text() or (
            f"measured values of {fields}" if self.study.data else f"full observation of {fields}"
        )
        relative = (
            f"{certification.epsilon:.3g}·‖u_h‖"
            if certification.relative
            else f"{certification.epsilon:.3g}"
        )
        absolute = self.threshold(first)
        epsilon = f"{absolute:.3g}" if len(experiments) == 1 and absolute is not None else relative
        if self.study.fields:
            each = "each field's own norm" if certification.relative else "each field"
            epsilon = (
                f"{certification.epsilon:.3g} of {each}"
                if certification.relative
                else f"{relative} for {each}"
            )
        which = (
            f"this experiment {self._when(first)}"
            if len(experiments) == 1
            else f"these {len(experiments)} experiments ({RULE})"
        )
        refit = (
            "with the other coefficients refitted"
            if self.headline == REFITTED
            else "without refitting the other coefficients"
        )
        if certification.conditions == KEPT:
            refit += (
                ", and with all essential conditions kept, also those that a deleted equation "
                "cannot carry"
            )
        return {
            "library": {name: str(self.study.library[name]) for name in self.names},
            "anchor": {
                str(u): str(0 if equation.anchor is None else equation.anchor)
                for u, equation in self.study.library.equations.items()
            },
            "experiment": experiments[first],
            "experiments": experiments,
            "combination": RULE,
            "observation": observation,
            "norm": certification.norm,
            "epsilon": self.threshold(first),
            "relative": certification.relative,
            "factual_norm": self.found.factual[first].norm,
            "intervention": "deletion",
            "interventions": list(self.found.deletions),
            "refit": self.study.refit,
            "coefficients": "estimated from data" if self.estimated else "given",
            "fit": {"kind": self.study.fit_choice.kind, "why": self.study.fit_choice.why},
            "sentence": (
                f"Each verdict holds for the library {{{', '.join(self.names)}}}, {which}, "
                f"{observation}, the norm "
                f"{certification.norm} and ε = {epsilon}; deletion {refit}. "
                f"{self._domain()}{self._notes()}"
            ),
        }

    def _domain(self) -> str:
        """What the domain of the verdicts is; a curve that the mesh was made from may be
        another one.
        """
        domains = {domain_text(model.discretisation.domain) for model in self.run.models.values()}
        return f"The domain Ω is {' or '.join(sorted(domains))}." if domains else ""

    def _notes(self) -> str:
        """What was changed or chosen in the models, as sentences."""
        notes = dict.fromkeys(note for fact in self.found.factual.values() for note in fact.notes)
        return "".join(f" Note: {note}." for note in notes)

    def _when(self, name: str) -> str:
        window = self.run.experiments[name].time
        return (
            "steady" if window is None else f"on the time window ({window.start:g}, {window.end:g})"
        )

    def _experiment(self, name: str) -> Facts:
        experiment = self.run.experiments[name]
        window = experiment.time
        return {
            "window": None
            if window is None
            else [float(window.start), float(window.end), int(window.steps)],
            "boundary": [str(condition) for condition in experiment.boundary],
            "initial": {str(key): str(value) for key, value in experiment.initial.items()},
            "forcing": {str(key): str(value) for key, value in experiment.forcing.items()},
            "known": {str(key): known_text(value) for key, value in experiment.known.items()},
            "elements": {
                str(key): element_text(value) for key, value in experiment.elements.items()
            },
            "factual_norm": self.found.factual[name].norm,
            "epsilon": self.threshold(name),
            "notes": list(self.found.factual[name].notes),
        }

    def _constraint(self) -> Facts:
        found = self.found.constraint
        if not found:
            return {"skipped": "no constraint is declared"}
        first = next(iter(found.values()))
        return {
            **first.to_plain(),
            "null_terms": as_plain(list(self.nulls.values())),
            **({"experiments": as_plain(found)} if len(found) > 1 else {}),
        }

    def _design(self) -> Facts:
        found = self.found.design
        if found.skipped:
            return found.to_plain()
        first = next(iter(found.equations.values())).to_plain()
        if self.study.regressed:
            first["selected"] = as_plain(next(iter(self.found.screening.values())).selected)
        result = {**first, "alias_groups": as_plain(self.groups), "next": self.found.proposal}
        return {**result, "equations": found.to_plain()} if len(found.equations) > 1 else result

    def _screening(self) -> Facts:
        found = self.found.screening
        if not found:
            return {
                "skipped": KNOWN if not self.study.calibrated else CALIBRATED,
                **({"misfit": self.found.misfits} if self.found.misfits else {}),
            }
        first = next(iter(found.values())).to_plain()
        more = {"equations": as_plain(found)} if len(found) > 1 else {}
        return {**first, "misfit": self.found.misfits, **more}

    def _observables(self) -> Facts:
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
            "decision": "constraint_null" if term in self.nulls else decision,
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
        if term in self.nulls:
            return "vanishes on the constraint class"
        if chosen["deletion"] is None:
            lost = next((f.unsolved for f in self.found.factual.values() if f.unsolved), None)
            return "not deleted: its coefficient is zero" if lost is None else lost.text
        if chosen["margin"] is None:
            return f"no error bar: {chosen['why']}"
        return "the error bar reaches ε" if decision == "unresolved" else ""

    def _change(self, experiment: str, term: str, label: str, asked: str) -> Facts:
        """|O(u) − O(u_j)| of an intervention class with its error bar in one experiment."""
        found = self._deletion(asked, experiment, term)
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

    def _sets(self, terms: Mapping[str, TermReport]) -> Facts:
        sets: Facts = {"fit": [name for name in self.names if self.found.coefficients.get(name)]}
        for key in ("relevant", "irrelevant", "unresolved", "constraint_null", "unsolvable"):
            sets[key] = [name for name, term in terms.items() if term.decision == key]
        sets["aliased"] = sorted({term for group in self.groups for term in group.terms})
        sets["pruning"] = self._pruning(terms)
        sets["ranking"] = ranking(terms)
        sets["verdicts"] = [
            single.to_plain()
            for kind in self.single
            for each in self.single[kind].values()
            for single in each
        ]
        return sets

    def _cost(self) -> Facts:
        found, comm = self.found, self.run.comm
        everything = [
            each.fact
            for kinds in found.deletions.values()
            for terms in kinds.values()
            for each in terms.values()
        ]
        solves = [fact.record for fact in found.factual.values()]
        records = [
            record
            for record in (*solves, *(fact.record for fact in everything))
            if record is not None
        ]
        memory = comm.allgather(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        return {
            "factual": len(found.factual),
            "deleted": len(everything),
            "strategies": dict(Counter(fact.strategy for fact in everything)),
            "linearised": sum(len(each.scores) for each in found.linearised.values()),
            "adjoint": sum(len(each) for each in found.adjoints.values()),
            "linear_solves": sum(record.solves for record in records),
            "iterations": sum(record.iterations for record in records),
            "factorisations": sum(record.factorisations for record in records),
            "newton_steps": sum(record.newton_steps for record in records),
            "worst_residual": max((record.worst_residual for record in records), default=None),
            "seconds": self.run.seconds(),
            "ranks": comm.size,
            "peak_memory": round(sum(memory), 1),
            "notices": self._notices(),
            "refinement": [
                {"term": term, "experiment": name, "intervention": kind, **level.to_plain()}
                for kind, names in found.deletions.items()
                for name, terms in names.items()
                for term, each in terms.items()
                if WHOLE in each.judged
                for level in each.judged[WHOLE].tried
            ],
        }

    def _notices(self) -> list[str]:
        """What one must know about factual and deleted solutions: that they are unstable, or
        not the only ones.
        """
        found = [("", fact.record) for fact in self.found.factual.values()]
        for kind, kinds in self.found.deletions.items():
            word = "under" if kind == NAMED else "without"
            found += [
                (f"{word} {term}, ", each.fact.record)
                for terms in kinds.values()
                for term, each in terms.items()
            ]
        told = [
            f"{where}{text}"
            for where, record in found
            if record is not None
            for text in record.notices
        ]
        return list(dict.fromkeys(told))

    def _environment(self) -> Facts:
        first = next(iter(self.found.factual.values()))
        return {
            "cffem": cffem.__version__,
            "python": platform.python_version(),
            "versions": versions(
                (
                    "fenics-dolfinx",
                    "petsc4py",
                    "slepc4py",
                    "mpi4py",
                    "numpy",
                    "scipy",
                    "sympy",
                    "scikit-learn",
                )
            ),
            "unknowns": first.unknowns,
            "cells": first.cells,
            "meshes": {
                name: {
                    "unknowns": found.unknowns,
                    "cells": found.cells,
                    "cell": found.cell,
                    "steps": found.steps,
                }
                for name, found in self.found.factual.items()
            },
            "seed": self.study.seed,
            "seeds": {"study": self.study.seed, "screening": self.study.screening.random_state},
        }


def versions(names: Sequence[str]) -> dict[str, str]:
    """The installed versions of packages, of those that are there."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def element_text(element: _ElementBase) -> str:
    """An element as people write it.

    Example:
        >>> element_text(("Lagrange", 2))
        'Lagrange, degree 2'
    """
    return (
        f"{element[0]}, degree {element[1]}"
        if isinstance(element, tuple) and len(element) == 2
        else str(element)
    )
