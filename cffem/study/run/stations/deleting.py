# SPDX-License-Identifier: MIT
"""Station: every deleted or otherwise changed problem, its observables, its error bound and its
picture.

Each experiment has one sweep, of all deletions that no earlier run has finished, and its error
bounds are asked for together. A deletion, its field and its certificate are stored as soon as they
are there, and its trajectory then leaves the memory. With
`refit="remaining"` two intervention classes are studied: deletion alone, and deletion with the
other coefficients refitted; named interventions and pairs of terms are classes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cffem.bounds import DeletionBound, NoCertificate
from cffem.bounds.certificate import GUARANTEED
from cffem.bounds.entrance import certify_deletions
from cffem.bounds.refining import Refinement, statements
from cffem.engine.deletion.outcomes import HANDED, Deletion
from cffem.engine.deletion.refit import Refit, deleting
from cffem.engine.model import Model
from cffem.engine.solution import Solution, StoredAs
from cffem.study.report.maps.effect_map import EffectMap
from cffem.study.report.maps.mapping import Mapper
from cffem.study.run.facts import (
    NO_BOUND,
    SOLVED,
    WHOLE,
    BoundFact,
    DeletionFact,
    DeletionFacts,
    FactualFact,
    JudgedDeletion,
    LevelFact,
    PartialFact,
    RefinementFact,
    TermDeletion,
)
from cffem.study.run.running import Run
from cffem.study.run.sensors.observing import view
from cffem.study.run.stations.intervening import NAMED, PAIRS, asked_changes
from cffem.study.run.stations.misfit import Comparison
from cffem.study.run.stations.profiling import profiles
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.norm_names import of_field
from cffem.verdicts.certification import Certification
from cffem.verdicts.decisions import UNRESOLVED
from cffem.verdicts.until_decided import decide_by_refinement

if TYPE_CHECKING:
    from cffem.engine.deletion.change_density import ChangeDensity
    from cffem.study.report.camera import Camera

Fact = TypeVar("Fact")
ALONE, REFITTED = "deletion", "deletion with refit"


class Deletions:
    """The deletions of a run.

    Args:
        run: the run.
        factual: facts of the factual solution of each experiment.
        nulls: for each experiment the terms that vanish on its constraint class, which get no
            certificate.
        refits: the refitted coefficients of the others for a deleted term, from data; None where
            they come from the solution.

    Attributes:
        pictures: values of solutions for the pictures of the report, as far as they were taken in
            this run, on rank 0.
    """

    def __init__(
        self,
        run: Run,
        factual: Mapping[str, FactualFact],
        nulls: Mapping[str, Mapping[str, object]],
        refits: Callable[[str], Mapping[str, float]] | None,
    ):
        self.run, self.factual, self.nulls, self.refits = run, factual, nulls, refits
        self.cameras: dict[str, Camera] = {}
        self.pictures: dict[str, Any] = {}
        self.mapper: Mapper | None = None
        self.maps: dict[str, tuple[EffectMap, ChangeDensity]] = {}
        self.comparisons: dict[str, Comparison] = {}

    @property
    def classes(self) -> tuple[str, ...]:
        """The intervention classes of this study."""
        study = self.run.study
        return (
            ALONE,
            *([REFITTED] if study.refit == "remaining" else []),
            *([NAMED] if study.interventions else []),
            *([PAIRS] if study.pairs else []),
        )

    def names(self, kind: str, name: str) -> tuple[str, ...]:
        """The interventions of a class in one experiment: by default one for each term."""
        model = self.run.models[name]
        if kind in (NAMED, PAIRS):
            return tuple(asked_changes(self.run, kind, model))
        return model.active

    def all(self) -> DeletionFacts:
        """The facts of all deletions by class, experiment and term."""
        found: dict[str, dict[str, dict[str, TermDeletion]]] = {}
        for kind in self.classes:
            models = self.run.models
            # Two pieces of work for each term: the deletion and its error bound.
            self.run.progress.begin(kind, 2 * sum(len(self.names(kind, name)) for name in models))
            found[kind] = {
                name: self.certified(kind, name, self.sweep(kind, name)) for name in models
            }
        if self.run.study.certification.refine:
            found = {
                kind: {name: self.refined(kind, name, facts) for name, facts in each.items()}
                for kind, each in found.items()
            }
        return found

    # Deletions
    # ----------------------------------------------------------------------------------------------

    def sweep(self, kind: str, name: str) -> dict[str, DeletionFact]:
        """All deletions from one experiment: those of an earlier run, and all others in one
        sweep, each of which is stored as soon as it is there.
        """
        run, model = self.run, self.run.models[name]
        keys = {term: f"{kind}/{name}/{term}" for term in self.names(kind, name)}
        pending = [
            term
            for term in keys
            if keys[term] not in run.checkpoint and not self.taken_up(kind, name, term)
        ]
        for term in keys:
            if term not in pending:
                run.progress.skip(self.label(name, [term]))
        if pending:
            run.begin(self.label(name, pending), len(model.times) - 1)
            run.watch.label = lambda terms: self.label(name, terms)
            try:
                model.interventions(
                    self.changes(kind, name, pending),
                    run.study.certification.norm,
                    keep=HANDED,
                    finished=lambda deletion: self.take(kind, name, deletion),
                    accuracy=self.accuracy(model),
                )
            finally:
                run.watch.label = None
        return {
            term: DeletionFact.from_plain(run.checkpoint[key]["value"])
            for term, key in keys.items()
        }

    def taken_up(self, kind: str, name: str, term: str) -> bool:
        """Whether a solution of an earlier run serves the study as it was edited since; what is
        wanted of it is stored anew.
        """
        run, model, key = self.run, self.run.models[name], f"{kind}/{name}/{term}"
        if kind == ALONE and run.checkpoint.edit is not None and run.checkpoint.edit.added == term:
            return self.taken_from_factual(name, term)
        if key not in run.checkpoint.former:
            return False
        fact = DeletionFact.from_plain(run.checkpoint.former[key]["value"])
        edit = run.checkpoint.edit
        # A score that was only found as far as the verdict needed says nothing of another norm.
        if fact.error and (self.accuracy(model) == 0.0 or (edit is not None and edit.norm)):
            return False
        solution = None
        if fact.solved:
            change = self.change(kind, name, term, fact)
            solution = run.checkpoint.restore_field(key, model, change)
            if solution is None:
                return False
            fact = replace(
                fact,
                score=float(solution.distance(model.factual, run.study.certification.norm)),
                scores=self.scores(model, solution),
            )
        if kind in (ALONE, NAMED):
            fact = replace(fact, observables=self.observed(model, solution))
            if solution is not None:
                self.photograph(name, term, solution)
                self.map(name, term, solution)
        run.store(key, fact.to_plain(), self.label(name, [term]))
        run.checkpoint.reused.add(key)
        return True

    def taken_from_factual(self, name: str, term: str) -> bool:
        """Whether the factual solution of an earlier run, in which a term was not there yet, is the
        solution without it.
        """
        run, model = self.run, self.run.models[name]
        change = self.changes(ALONE, name, [term])[term]
        parts, own = model.discretisation, model.experiment
        # A deletion keeps what is stabilised, and releases conditions that it cannot carry.
        alike = not (own.stabilisation or parts.upwind_terms or parts.conserved_terms)
        if not alike or model.release(change.everything()) is not None:
            return False
        before = {**model.coefficients, term: 0.0}
        stored = StoredAs(before, Intervention())
        solution = run.checkpoint.restore_former(f"factual/{name}", model, change, stored)
        if solution is None:
            return False
        norm = run.study.certification.norm
        score = float(solution.distance(model.factual, norm))
        record = solution.record
        found = Deletion(term, score, record=record, solution=solution, intervention=change)
        self.take(ALONE, name, found)
        run.checkpoint.reused.add(f"{ALONE}/{name}/{term}")
        return True

    def changes(
        self,
        kind: str,
        name: str,
        terms: Sequence[str],
        facts: Mapping[str, DeletionFact] | None = None,
    ) -> dict[str, Intervention]:
        """Some interventions of a class in one experiment.

        Args:
            kind, name: the class and the experiment.
            terms: the terms that are deleted, or the names of other interventions.
            facts: the deletions, where they are known with their refitted coefficients.
        """
        model = self.run.models[name]
        if kind in (NAMED, PAIRS):
            asked = asked_changes(self.run, kind, model)
            return {term: asked[term] for term in terms}
        refit: Refit = self.refit(kind, terms)
        if facts is not None and kind == REFITTED:
            refit = {term: facts[term].coefficients for term in terms}
        return deleting(model, tuple(terms), refit, self.run.study.certification.conditions)

    def label(self, name: str, terms: Sequence[str]) -> str:
        """What the progress display calls the deletion of some terms."""
        what = terms[0] if len(terms) == 1 else f"{len(terms)} terms together"
        return what if len(self.run.models) == 1 else f"{what} ({name})"

    def refit(self, kind: str, terms: Sequence[str]) -> Refit:
        """What becomes of the other coefficients."""
        if kind == ALONE:
            return "none"
        return "remaining" if self.refits is None else {term: self.refits(term) for term in terms}

    def accuracy(self, model: Model) -> float:
        """What is asked of the scores."""
        study = self.run.study
        # Observables are measured on the deleted solution itself, so that one has to have all its
        # digits.
        size = float(model.spaces.size * max(len(model.times) - 1, 1))
        exact = study.observables or self.observed_by_sensors(model)
        return 0.0 if exact else study.certification.accuracy(size)

    def observed_by_sensors(self, model: Model) -> bool:
        """Whether a model's experiment has sensors."""
        return any(
            self.run.study.observations.get(name) is not None
            for name, own in self.run.models.items()
            if own is model
        )

    def seen(self, name: str, solution: Solution | None) -> dict[str, object] | None:
        """What the sensors of an experiment see of a deletion."""
        sensors = view(self.run, name)
        return None if sensors is None else sensors.change(solution)

    def take(self, kind: str, name: str, deletion: Deletion) -> None:
        """Take all that is wanted of a deletion, and store it."""
        key, model = f"{kind}/{name}/{deletion.term}", self.run.models[name]
        if deletion.solution is not None:
            self.run.keep_field(key, deletion.solution)
            if kind in (ALONE, NAMED):
                self.photograph(name, deletion.term, deletion.solution)
                self.map(name, deletion.term, deletion.solution)
        fact = DeletionFact(
            deletion.status,
            deletion.score if deletion.status == SOLVED else None,
            self.scores(model, deletion.solution),
            deletion.reason,
            deletion.cause,
            deletion.conditions,
            deletion.record,
            deletion.strategy,
            deletion.error,
            deletion.intervention.apply(model.coefficients),
            self.observed(model, deletion.solution) if kind in (ALONE, NAMED) else {},
            self.misfit(name, deletion.solution) if kind in (ALONE, NAMED) else None,
            self.seen(name, deletion.solution) if kind in (ALONE, NAMED) else None,
        )
        self.run.store(key, fact.to_plain(), self.label(name, [deletion.term]))

    def observed(self, model: Model, solution: Solution | None) -> dict[str, float]:
        """The observables of a deleted solution."""
        return {
            label: float(model.measurement(what).value(solution))
            for label, (what, _) in self.run.study.observables.items()
            if solution is not None
        }

    def scores(self, model: Model, solution: Solution | None) -> dict[str, float]:
        """The score of each field that is judged by itself."""
        norm, fields = self.run.study.certification.norm, self.run.study.fields
        return (
            {}
            if solution is None
            else {f: float(solution.distance(model.factual, of_field(norm, f))) for f in fields}
        )

    def misfit(self, name: str, solution: Solution | None) -> float | None:
        """How far a deleted solution is from the data of its experiment, relative to them."""
        data = self.run.study.data.get(name)
        if solution is None or data is None:
            return None
        if name not in self.comparisons:
            self.comparisons[name] = Comparison(self.run.models[name], data)
        return self.comparisons[name].sums(solution).relative

    def change(self, kind: str, name: str, term: str, fact: DeletionFact) -> Intervention:
        """The intervention of a deletion that is known."""
        return self.changes(kind, name, [term], {term: fact})[term]

    def solution(self, kind: str, name: str, term: str, fact: DeletionFact) -> Solution:
        """A deleted solution that was stored, or solved once more."""
        change = self.change(kind, name, term, fact)
        return self.run.solved(f"{kind}/{name}/{term}", self.run.models[name], change)

    # Error bounds
    # ----------------------------------------------------------------------------------------------

    def certified(
        self, kind: str, name: str, facts: Mapping[str, DeletionFact]
    ) -> dict[str, TermDeletion]:
        """The deletions from one experiment with their error bounds; those that are not known yet
        are asked for all together.
        """
        run, nulls, fields = self.run, self.nulls.get(name, {}), self.run.study.fields
        keys = {
            term: f"certificates/{kind}/{name}/{term}"
            for term, fact in facts.items()
            if fact.solved and term not in nulls
        }
        parts = {term: self.parts(kind, name, term, fact) for term, fact in facts.items()}
        run.progress.done += len(facts) - len(keys) - sum(map(bool, parts.values()))
        pending = {
            term: facts[term]
            for term, key in keys.items()
            if key not in run.checkpoint or not self.still_decided(name, key, facts[term])
        }
        for term in keys:
            if term not in pending:
                run.progress.skip(f"error bound of {self.label(name, [term])}")
        if pending:
            run.begin(f"error bounds of {self.label(name, list(pending))}")
            self.certify(kind, name, pending, keys)
        bounds = {
            term: by_field(BoundFact.from_plain, run.checkpoint[key]["value"])
            for term, key in keys.items()
        }
        return {
            term: replace(TermDeletion.of(fact, fields, bounds.get(term)), parts=parts[term])
            for term, fact in facts.items()
        }

    def still_decided(self, name: str, key: str, fact: DeletionFact) -> bool:
        """Whether error bars of an earlier run need not be sharper for the study as it was edited
        since.
        """
        run, wanted = self.run, self.run.study.certification
        if key not in run.checkpoint.doubtful:
            return True
        bounds = by_field(BoundFact.from_plain, run.checkpoint[key]["value"])
        each = TermDeletion.of(fact, run.study.fields, bounds)
        return not any(
            each.judged[field].undecided(wanted.threshold(size or 0.0), wanted)
            for field, size in self.factual[name].sizes.items()
        )

    def parts(
        self, kind: str, name: str, term: str, fact: DeletionFact
    ) -> Mapping[str, PartialFact]:
        """What is known by field of parts of a deletion that has no solution; nothing of others."""
        run = self.run
        if fact.solved or kind != ALONE or term in self.nulls.get(name, {}):
            return {}

        def compute() -> dict[str, object]:
            found = profiles(run, run.models[name], term, fact, self.factual[name].sizes)
            return {field: part.to_plain() for field, part in found.items()}

        label = f"profile of {self.label(name, [term])}"
        return by_field(
            PartialFact.from_plain, run.once(f"profiles/{kind}/{name}/{term}", compute, label)
        )

    def certify(
        self, kind: str, name: str, pending: Mapping[str, DeletionFact], keys: Mapping[str, str]
    ) -> None:
        """Find error bounds of deletions, and store each as soon as it is there."""
        run, wanted = self.run, self.run.study.certification
        asked = {
            field: replace(wanted, norm=of_field(wanted.norm, field)) for field in run.study.fields
        } or {WHOLE: wanted}

        def take(term: str, bounds: Mapping[str, DeletionBound | NoCertificate]) -> None:
            found = {
                field: BoundFact.of(with_residuals(bound, pending[term].error)).to_plain()
                for field, bound in bounds.items()
            }
            run.store(keys[term], found, f"error bound of {self.label(name, [term])}")
            sensors = run.study.observations.get(name) is not None
            if kind not in (ALONE, NAMED) or not (run.study.observables or sensors):
                run.checkpoint.release_field(f"{kind}/{name}/{term}")

        changes = {term: self.change(kind, name, term, fact) for term, fact in pending.items()}
        solutions = StoredSolutions(self, kind, name, pending)
        certify_deletions(run.models[name], changes, asked, solutions, take)

    # Refinement
    # ----------------------------------------------------------------------------------------------

    def refined(
        self, kind: str, name: str, found: Mapping[str, TermDeletion]
    ) -> dict[str, TermDeletion]:
        """The deletions of an experiment; those that an error bar left open are decided on
        finer levels, if the budget allows.
        """
        wanted, result = self.run.study.certification, dict(found)
        for field, size in self.factual[name].sizes.items():
            asked = replace(wanted, norm=of_field(wanted.norm, field)) if field else wanted
            judged = {term: each.judged[field] for term, each in found.items()}
            for term, finer in self.refined_in(kind, name, judged, asked, size or 0.0, field):
                each = result[term]
                result[term] = replace(each, judged={**each.judged, field: finer})
        return result

    def refined_in(
        self,
        kind: str,
        name: str,
        judged: Mapping[str, JudgedDeletion],
        asked: Certification,
        size: float,
        field: str,
    ) -> Iterator[tuple[str, JudgedDeletion]]:
        """The terms that were open in one norm, in which the factual solution has this size, with
        what finer levels say.
        """
        epsilon = asked.threshold(size)
        left = {term: each for term, each in judged.items() if each.undecided(epsilon, asked)}
        if not left:
            return
        self.run.progress.begin(f"refinement ({kind})", len(left))
        changes = {term: self.change(kind, name, term, each.fact) for term, each in left.items()}
        first = {term: each.known_bound() for term, each in left.items()}
        levels = Refinement(self.run.models[name], asked, first, changes)
        for term, each in left.items():
            key = f"refinement/{kind}/{name}/{term}" + (f"/{field}" if field else "")
            found = self.run.once(
                key,
                lambda term=term, each=each: on_levels(term, asked, levels, each).to_plain(),
                term,
            )
            yield term, each.refined(RefinementFact.from_plain(found))
        levels.destroy()

    def deleted_solutions(
        self, name: str, found: Mapping[str, TermDeletion], kind: str = ALONE
    ) -> Mapping[str, Solution]:
        """The deleted solutions of an experiment by term, taken from the checkpoint when they
        are asked for.
        """
        solved = {term: each.fact for term, each in found.items() if each.fact.solved}
        return StoredSolutions(self, kind, name, solved)

    # Pictures
    # ----------------------------------------------------------------------------------------------

    def photograph(self, name: str, term: str, solution: Solution) -> None:
        """Take the picture of a deleted solution; pictures are of the first experiment."""
        if self.run.checkpoint.folder is None or name != next(iter(self.run.models)):
            return
        self.pictures[term] = self.camera(name).take(solution)

    def map(self, name: str, term: str, solution: Solution) -> None:
        """Find out where and when a changed solution differs; maps are of the first experiment."""
        if name != next(iter(self.run.models)):
            return
        if self.mapper is None:
            self.mapper = Mapper(self.run.models[name], name)
        self.maps[term] = self.mapper.of(solution)

    def mapped(self, facts: DeletionFacts, decisions: Mapping[str, str]) -> dict[str, EffectMap]:
        """All maps, those of an earlier run from its fields, with what they say in words.

        Args:
            facts: the deletions.
            decisions: the verdicts by term or name.
        """
        if not self.run.models:
            return {}
        name, result = next(iter(self.run.models)), {}
        for kind in (kind for kind in (ALONE, NAMED) if kind in facts):
            solutions = self.deleted_solutions(name, facts[kind][name], kind)
            for term in solutions:
                if term not in self.maps:
                    self.map(name, term, solutions[term])
                made = self.maps[term][0]
                assert self.mapper is not None
                words = self.mapper.sentence(made, decisions.get(term, ""))
                result[term] = replace(made, sentence=words)
        return result

    def write_maps(self, folder: Path) -> None:
        """Write all maps for ParaView; collective."""
        if self.mapper is not None:
            self.mapper.write(folder, {term: found for term, (_, found) in self.maps.items()})

    def camera(self, name: str) -> Camera:
        """The camera of an experiment, made once."""
        from cffem.study.report.camera import Camera

        if name not in self.cameras:
            self.cameras[name] = Camera(self.run.models[name].factual)
        return self.cameras[name]

    def drawing(self, facts: DeletionFacts) -> Any:
        """All pictures of the first experiment as `Fields`, on rank 0; those of an earlier
        run are taken from its fields.
        """
        if not self.run.models:
            return None
        name, model = next(iter(self.run.models.items()))
        camera = self.camera(name)
        drawing = camera.drawing(camera.take(model.factual))
        for kind in (kind for kind in (ALONE, NAMED) if kind in facts):
            solutions = self.deleted_solutions(name, facts[kind][name], kind)
            for term in solutions:
                if term not in self.pictures:
                    self.pictures[term] = camera.take(solutions[term])
                if drawing is not None:
                    drawing = drawing.with_deleted(term, self.pictures[term])
        for term, (_, found) in self.maps.items():
            assert self.mapper is not None
            density = found.total / self.mapper.local_volumes
            values = camera.cell_values(self.mapper.function(term, density))
            if drawing is not None and values is not None:
                drawing = drawing.with_map(term, values)
        return drawing


class StoredSolutions(Mapping[str, Solution]):
    """Deleted solutions by term, each read when it is asked for; the last one is remembered.

    Args:
        deletions: the deletions of the run.
        kind, name: the intervention class and the experiment.
        facts: the deletions that have solutions.
    """

    def __init__(
        self, deletions: Deletions, kind: str, name: str, facts: Mapping[str, DeletionFact]
    ):
        self.deletions, self.kind, self.name, self.facts = deletions, kind, name, facts
        self._last: dict[str, Solution] = {}

    def __getitem__(self, term: str) -> Solution:
        if term not in self._last:
            self._last.clear()  # before the next one comes into memory
            found = self.deletions.solution(self.kind, self.name, term, self.facts[term])
            self._last[term] = found
        return self._last[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)


def by_field(read: Callable[[Any], Fact], plain: Mapping[str, Any]) -> dict[str, Fact]:
    """Facts by field, or one for the whole, from the checkpoint."""
    return {field: read(each) for field, each in plain.items()}


def on_levels(
    term: str, asked: Certification, levels: Refinement, judged: JudgedDeletion
) -> RefinementFact:
    """Refine until one term is decided; its score and certificate on the level where that was."""
    found = decide_by_refinement([term], asked.epsilon, levels, relative=bool(asked.relative))[term]
    tried = tuple(LevelFact(*level) for level in found.tried)
    if found.decision == UNRESOLVED:
        return RefinementFact(tried, reason=found.reason)
    if found.level:
        bound = BoundFact.of(found.bound)
        how = f"{levels.words} {found.level} times"
    else:
        inequality, formula = statements(found.score, found.margin)
        known = judged.bound or NO_BOUND
        bound = replace(known, margin=found.margin, inequality=inequality, formula=formula)
        how = "for the combination of all levels"
    bound = replace(bound, method=f"{bound.method}, {how}")
    return RefinementFact(tried, found.level, found.score, bound)


def with_residuals(
    bound: DeletionBound | NoCertificate, error: float
) -> DeletionBound | NoCertificate:
    """An error bound of a deletion that was not solved to all digits; guaranteed bounds see
    the residuals themselves.
    """
    if isinstance(bound, NoCertificate) or not error or bound.certificate.kind == GUARANTEED:
        return bound
    kept = bound.certificate
    hypothesis = (
        "residuals of the deleted solve change the score by little",
        f"estimated, {error:.2g} added to the margin",
    )
    margin = bound.margin + error
    return replace(
        bound,
        margin=margin,
        certificate=replace(kept, value=margin, hypotheses=(*kept.hypotheses, hypothesis)),
    )
