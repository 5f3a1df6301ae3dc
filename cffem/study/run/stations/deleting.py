# SPDX-License-Identifier: MIT
"""Station: every deleted problem, its observables, its error bound and its picture.

Each experiment has one sweep, of all deletions that no earlier run has finished, and its error
bounds are asked for together. A deletion, its field and its certificate are stored as soon as they
are there, and its trajectory then leaves the memory. With
`refit="remaining"` two intervention classes are studied: deletion alone, and deletion with the
other coefficients refitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cffem.bounds import NoCertificate
from cffem.bounds.certificate import GUARANTEED
from cffem.bounds.entrance import certify_deletions
from cffem.bounds.levels.refining import Refinement, statements
from cffem.bounds.levels.three_levels import COMBINED, COMBINED_REST
from cffem.engine.deletion.outcomes import HANDED, Deletion
from cffem.engine.deletion.refit import Refit, deleting
from cffem.engine.model import Model
from cffem.engine.solution import Solution
from cffem.study.run.counted import norm_of
from cffem.study.run.running import Run
from cffem.study.run.stations.misfit import Comparison
from cffem.study.run.stations.profiling import profiles
from cffem.symbols.problem.interventions import Intervention
from cffem.verdicts.certification import Certification
from cffem.verdicts.decisions import UNRESOLVED, decide
from cffem.verdicts.until_decided import decide_by_refinement

if TYPE_CHECKING:
    from cffem.study.report.camera import Camera

Facts = dict[str, Any]
ALONE, REFITTED = "deletion", "deletion with refit"
# What is known of a deletion for each field that is judged by itself.
FIELD_FACTS = ("score", "certificate", "level", "levels", "unrefined")


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
        factual: Facts,
        nulls: Mapping[str, Mapping[str, Any]],
        refits: Callable[[str], Mapping[str, float]] | None,
    ):
        self.run, self.factual, self.nulls, self.refits = run, factual, nulls, refits
        self.cameras: dict[str, Camera] = {}
        self.pictures: dict[str, Any] = {}
        self.comparisons: dict[str, Comparison] = {}

    @property
    def classes(self) -> tuple[str, ...]:
        """The intervention classes of this study."""
        return (ALONE, REFITTED) if self.run.study.refit == "remaining" else (ALONE,)

    def all(self) -> Facts:
        """The facts of all deletions by class, experiment and term."""
        found: Facts = {}
        for kind in self.classes:
            models = self.run.models
            # Two pieces of work for each term: the deletion and its error bound.
            self.run.progress.begin(kind, 2 * sum(len(model.active) for model in models.values()))
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

    def sweep(self, kind: str, name: str) -> Facts:
        """All deletions from one experiment: those of an earlier run, and all others in one
        sweep, each of which is stored as soon as it is there.
        """
        run, model = self.run, self.run.models[name]
        keys = {term: f"{kind}/{name}/{term}" for term in model.active}
        pending = [term for term in keys if keys[term] not in run.checkpoint]
        for term in keys:
            if term not in pending:
                run.progress.skip(self.label(name, [term]))
        if pending:
            run.begin(self.label(name, pending), len(model.times) - 1)
            run.watch.label = lambda terms: self.label(name, terms)
            try:
                model.deletions(
                    pending,
                    run.study.certification.norm,
                    keep=HANDED,
                    finished=lambda deletion: self.take(kind, name, deletion),
                    refit=self.refit(kind, pending),
                    accuracy=self.accuracy(model),
                    conditions=run.study.certification.conditions,
                )
            finally:
                run.watch.label = None
        return {term: run.checkpoint[key]["value"] for term, key in keys.items()}

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
        return 0.0 if study.observables else study.certification.accuracy(size)

    def take(self, kind: str, name: str, deletion: Deletion) -> None:
        """Take all that is wanted of a deletion, and store it."""
        key, model = f"{kind}/{name}/{deletion.term}", self.run.models[name]
        if deletion.solution is not None:
            self.run.keep_field(key, deletion.solution)
            if kind == ALONE:
                self.photograph(name, deletion.term, deletion.solution)
        fact = {
            "score": deletion.score if deletion.status == "solved" else None,
            "scores": self.scores(model, deletion.solution),
            "status": deletion.status,
            "reason": deletion.reason,
            "cause": deletion.cause,
            "conditions": deletion.conditions,
            "record": asdict(deletion.record),
            "strategy": deletion.strategy,
            "error": deletion.error,
            "coefficients": deletion.intervention.apply(model.coefficients),
            "observables": self.observed(model, deletion.solution) if kind == ALONE else {},
            "misfit": self.misfit(name, deletion.solution) if kind == ALONE else None,
        }
        self.run.store(key, fact, self.label(name, [deletion.term]))

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
            else {f: float(solution.distance(model.factual, norm_of(norm, f))) for f in fields}
        )

    def misfit(self, name: str, solution: Solution | None) -> float | None:
        """How far a deleted solution is from the data of its experiment, relative to them."""
        data = self.run.study.data.get(name)
        if solution is None or data is None:
            return None
        if name not in self.comparisons:
            self.comparisons[name] = Comparison(self.run.models[name], data)
        return self.comparisons[name].sums(solution).relative

    def change(self, kind: str, name: str, term: str, fact: Facts) -> Intervention:
        """The intervention of a deletion that is known."""
        refit: Refit = "none" if kind == ALONE else {term: fact["coefficients"]}
        conditions = self.run.study.certification.conditions
        return deleting(self.run.models[name], (term,), refit, conditions)[term]

    def solution(self, kind: str, name: str, term: str, fact: Facts) -> Any:
        """A deleted solution that was stored, or solved once more."""
        change = self.change(kind, name, term, fact)
        return self.run.solved(f"{kind}/{name}/{term}", self.run.models[name], change)

    # Error bounds
    # ----------------------------------------------------------------------------------------------

    def certified(self, kind: str, name: str, facts: Facts) -> Facts:
        """The deletions from one experiment with their error bounds; those that are not known yet
        are asked for all together.
        """
        run, nulls = self.run, self.nulls.get(name, {})
        keys = {
            term: f"certificates/{kind}/{name}/{term}"
            for term, fact in facts.items()
            if fact["status"] == "solved" and term not in nulls
        }
        parts = {term: self.part(kind, name, term, fact) for term, fact in facts.items()}
        run.progress.done += (
            len(facts) - len(keys) - sum(part is not None for part in parts.values())
        )
        pending = {term: facts[term] for term in keys if keys[term] not in run.checkpoint}
        for term in keys:
            if term not in pending:
                run.progress.skip(f"error bound of {self.label(name, [term])}")
        if pending:
            run.begin(f"error bounds of {self.label(name, list(pending))}")
            self.certify(kind, name, pending, keys)
        bounds = {term: run.checkpoint[key]["value"] for term, key in keys.items()}
        found = {term: self.with_bounds(fact, bounds.get(term)) for term, fact in facts.items()}
        return {
            term: fact if parts[term] is None else {**fact, "partial": parts[term]}
            for term, fact in found.items()
        }

    def part(self, kind: str, name: str, term: str, fact: Facts) -> Facts | None:
        """The profile of a deletion that has no solution; None of any other."""
        run = self.run
        if fact["status"] == "solved" or kind != ALONE or term in self.nulls.get(name, {}):
            return None
        size = self.factual[name]
        sizes = size["norms"] if run.study.fields else {"": size["norm"]}
        return run.once(
            f"profiles/{kind}/{name}/{term}",
            lambda: profiles(run, run.models[name], term, fact, sizes),
            f"profile of {self.label(name, [term])}",
        )

    def certify(self, kind: str, name: str, pending: Facts, keys: Mapping[str, str]) -> None:
        """Find error bounds of deletions, and store each as soon as it is there."""
        run, wanted = self.run, self.run.study.certification
        asked = {
            field: replace(wanted, norm=norm_of(wanted.norm, field)) for field in run.study.fields
        } or {"": wanted}

        def take(term: str, bounds: Mapping[str, Any]) -> None:
            found = {
                field: plain_bound(with_residuals(bound, pending[term]["error"]))
                for field, bound in bounds.items()
            }
            label = f"error bound of {self.label(name, [term])}"
            run.store(keys[term], found if run.study.fields else found[""], label)
            if kind != ALONE or not run.study.observables:
                run.checkpoint.release_field(f"{kind}/{name}/{term}")

        changes = {term: self.change(kind, name, term, fact) for term, fact in pending.items()}
        solutions = StoredSolutions(self, kind, name, pending)
        certify_deletions(run.models[name], changes, asked, solutions, take)

    def with_bounds(self, fact: Facts, bounds: Facts | None) -> Facts:
        """A deletion with its error bound, or with one for each field that is judged by itself."""
        if bounds is None or not self.run.study.fields:
            return {**fact, "certificate": bounds, "fields": {}}
        fields = {
            field: {"score": fact["scores"][field], "certificate": bounds[field]}
            for field in self.run.study.fields
        }
        return {**fact, "certificate": None, "fields": fields}

    # Refinement
    # ----------------------------------------------------------------------------------------------

    def refined(self, kind: str, name: str, facts: Facts) -> Facts:
        """The deletions of an experiment; those that an error bar left open are decided on
        finer levels, if the budget allows.
        """
        asked, factual = self.run.study.certification, self.factual[name]
        if not self.run.study.fields:
            return self.refined_in(kind, name, facts, asked, factual["norm"], "")
        result = {term: {**fact, "fields": dict(fact["fields"])} for term, fact in facts.items()}
        for field, size in factual["norms"].items():
            mine = {term: in_field(fact, field) for term, fact in facts.items() if fact["fields"]}
            own = replace(asked, norm=norm_of(asked.norm, field))
            for term, fact in self.refined_in(kind, name, mine, own, size, f"/{field}").items():
                result[term]["fields"][field] = {k: fact[k] for k in FIELD_FACTS if k in fact}
        return result

    def refined_in(
        self,
        kind: str,
        name: str,
        facts: Facts,
        asked: Certification,
        size: float,
        suffix: str,
    ) -> Facts:
        """The same in one norm, in which the factual solution has this size."""
        epsilon = asked.threshold(size)
        left = [
            term
            for term, fact in facts.items()
            if fact["certificate"] is not None and undecided(fact, epsilon, asked)
        ]
        if not left:
            return facts
        self.run.progress.begin(f"refinement ({kind})", len(left))
        changes = {term: self.change(kind, name, term, facts[term]) for term in left}
        first = {term: known_bound(facts[term]) for term in left}
        levels = Refinement(self.run.models[name], asked, first, changes)
        result = dict(facts)
        for term in left:
            key = f"refinement/{kind}/{name}/{term}{suffix}"
            finer = self.run.once(
                key, lambda term=term: on_levels(term, asked, levels, facts[term]), term
            )
            if "score" in finer:
                result[term] = {**facts[term], **finer}
            else:
                result[term] = {
                    **facts[term],
                    "unrefined": finer["reason"],
                    "levels": finer["levels"],
                }
        levels.destroy()
        return result

    def deleted_solutions(self, name: str, facts: Facts) -> Mapping[str, Any]:
        """The deleted solutions of an experiment by term, taken from the checkpoint when they
        are asked for.
        """
        solved = {term: fact for term, fact in facts.items() if fact["status"] == "solved"}
        return StoredSolutions(self, ALONE, name, solved)

    # Pictures
    # ----------------------------------------------------------------------------------------------

    def photograph(self, name: str, term: str, solution: Solution) -> None:
        """Take the picture of a deleted solution; pictures are of the first experiment."""
        if self.run.checkpoint.folder is None or name != next(iter(self.run.models)):
            return
        self.pictures[term] = self.camera(name).take(solution)

    def camera(self, name: str) -> Camera:
        """The camera of an experiment, made once."""
        from cffem.study.report.camera import Camera

        if name not in self.cameras:
            self.cameras[name] = Camera(self.run.models[name].factual)
        return self.cameras[name]

    def drawing(self, facts: Facts) -> Any:
        """All pictures of the first experiment as `Fields`, on rank 0; those of an earlier
        run are taken from its fields.
        """
        if not self.run.models:
            return None
        name, model = next(iter(self.run.models.items()))
        camera = self.camera(name)
        drawing = camera.drawing(camera.take(model.factual))
        solutions = self.deleted_solutions(name, facts[ALONE][name])
        for term in solutions:
            if term not in self.pictures:
                self.pictures[term] = camera.take(solutions[term])
            if drawing is not None:
                drawing = drawing.with_deleted(term, self.pictures[term])
        return drawing


class StoredSolutions(Mapping[str, Any]):
    """Deleted solutions by term, each read when it is asked for; the last one is remembered.

    Args:
        deletions: the deletions of the run.
        kind, name: the intervention class and the experiment.
        facts: the deletions that have solutions.
    """

    def __init__(self, deletions: Deletions, kind: str, name: str, facts: Facts):
        self.deletions, self.kind, self.name, self.facts = deletions, kind, name, facts
        self._last: tuple[str, Any] = ("", None)

    def __getitem__(self, term: str) -> Any:
        if term != self._last[0]:
            self._last = ("", None)  # before the next one comes into memory
            found = self.deletions.solution(self.kind, self.name, term, self.facts[term])
            self._last = (term, found)
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)


def undecided(fact: Facts, epsilon: float, asked: Certification) -> bool:
    """Whether a deletion has no error bar, or one that reaches the tolerance as far as that
    is known.
    """
    certificate = fact["certificate"] or {}
    margin = certificate.get("margin")
    if margin is None:
        return True
    return (
        decide(
            fact["score"], epsilon, margin=margin + asked.uncertainty(certificate["eta_factual"])
        )
        == UNRESOLVED
    )


def known_bound(fact: Facts) -> Any:
    """The bound of a deletion on the user's own discretisation, as refinement asks for it:
    about δ* where there are levels.
    """
    certificate = fact["certificate"]
    if "margin" not in certificate:
        return NoCertificate(certificate["reason"])
    score, rest = (certificate["constants"].get(name) for name in (COMBINED, COMBINED_REST))
    known = {"size": certificate["size"], "eta_factual": certificate["eta_factual"]}
    if score is not None and rest is not None and rest + fact["error"] < certificate["margin"]:
        return SimpleNamespace(score=score, margin=rest + fact["error"], **known)
    return SimpleNamespace(score=fact["score"], margin=certificate["margin"], **known)


def on_levels(term: str, asked: Certification, levels: Refinement, fact: Facts) -> Facts:
    """Refine until one term is decided; its score and certificate on the level where that was."""
    found = decide_by_refinement([term], asked.epsilon, levels, relative=bool(asked.relative))[term]
    if found.decision == UNRESOLVED:
        return {"level": 0, "reason": found.reason, "levels": levels_tried(found)}
    if found.level:
        certificate = plain_bound(found.bound)
        certificate["method"] += f", {levels.words} {found.level} times"
    else:
        inequality, formula = statements(found.score, found.margin)
        certificate = {
            **fact["certificate"],
            "margin": found.margin,
            "inequality": inequality,
            "formula": formula,
        }
        certificate["method"] += ", for the combination of all levels"
    return {
        "level": found.level,
        "score": found.score,
        "certificate": certificate,
        "levels": levels_tried(found),
    }


def levels_tried(found: Any) -> list[Facts]:
    """Score and margin on every level, from the user's discretisation to the finest."""
    return [
        {"level": level, "score": score, "margin": margin} for level, score, margin in found.tried
    ]


def in_field(fact: Facts, field: str) -> Facts:
    """A deletion as one field sees it; as a whole where fields are not judged by themselves,
    or there is no error bar.
    """
    return {
        **fact,
        **fact["fields"].get(field, {"score": fact["scores"].get(field, fact["score"])}),
    }


def with_residuals(bound: Any, error: float) -> Any:
    """An error bound of a deletion that was not solved to all digits; guaranteed bounds see
    the residuals themselves.
    """
    if not bound or not error or bound.certificate.kind == GUARANTEED:
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


def plain_bound(bound: Any) -> Facts:
    """An error bound as plain data."""
    if not bound:
        return {"reason": bound.reason, "code": str(bound.code)}
    certificate = bound.certificate
    return {
        "margin": float(bound.margin),
        "size": None if math.isnan(bound.size) else float(bound.size),
        "eta_factual": _number(bound.eta_factual),
        "eta_counterfactual": _number(bound.eta_counterfactual),
        "kind": certificate.kind,
        "method": certificate.method,
        "inequality": certificate.inequality,
        "formula": certificate.formula,
        "hypotheses": [list(pair) for pair in certificate.hypotheses],
        "constants": {str(k): _number(v) for k, v in certificate.constants.items()},
        "cost": {str(k): _number(v) for k, v in certificate.cost.items()},
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
