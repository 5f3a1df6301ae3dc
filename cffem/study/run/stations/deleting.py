# SPDX-License-Identifier: MIT
"""Station: every deleted problem, its observables, its error bound and its picture, one term after
the other.

Each experiment is deleted from on its own. A deletion, its certificate and its field are stored as
soon as they are there, and a deleted trajectory leaves the memory before the next is solved. With
`refit="remaining"` two intervention classes are studied: deletion alone, and deletion with the
other coefficients refitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from cffem.bounds import NoCertificate, certify_sweep
from cffem.bounds.certificate import GUARANTEED
from cffem.bounds.levels.refining import Refinement, statements
from cffem.bounds.levels.three_levels import COMBINED, COMBINED_REST
from cffem.engine.deletion.refit import deleting
from cffem.engine.deletion.sweep import Deletion
from cffem.study.run.counted import norm_of
from cffem.study.run.running import Run, WatchedModel
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
                name: {term: self.one(kind, model, term) for term in model.active}
                for name, model in models.items()
            }
        if self.run.study.certification.refine:
            found = {
                kind: {
                    name: self.refined(kind, models[name], facts) for name, facts in each.items()
                }
                for kind, each in found.items()
            }
        return found

    def one(self, kind: str, model: WatchedModel, term: str) -> Facts:
        """One deletion with its certificate."""
        run, key = self.run, f"{kind}/{model.name}/{term}"
        held: list[Deletion] = []
        levels = len(model.times) - 1
        label = term if len(run.models) == 1 else f"{term} ({model.name})"
        fact = run.once(key, lambda: self.solve(kind, key, model, term, held), label, levels)
        null = term in self.nulls.get(model.name, {})
        if fact["status"] != "solved" and kind == ALONE and not null:
            size = self.factual[model.name]
            sizes = size["norms"] if run.study.fields else {"": size["norm"]}
            part = run.once(
                f"profiles/{key}",
                lambda: profiles(run, model, term, fact, sizes),
                f"profile of {label}",
            )
            return {**fact, "certificate": None, "fields": {}, "partial": part}
        if fact["status"] != "solved" or null:
            run.progress.done += 1
            return {**fact, "certificate": None, "fields": {}}

        def certificates() -> Facts:
            deletion = held[0] if held else self.again(kind, key, model, fact)
            if kind == ALONE:
                self.photograph(model, deletion)
            asked = run.study.certification
            if not run.study.fields:
                return certified(model, deletion, asked)
            norms = {
                field: replace(asked, norm=norm_of(asked.norm, field)) for field in run.study.fields
            }
            return {field: certified(model, deletion, own) for field, own in norms.items()}

        found = run.once(f"certificates/{key}", certificates, f"error bound of {label}")
        if not run.study.fields:
            return {**fact, "certificate": found, "fields": {}}
        fields = {
            field: {"score": fact["scores"][field], "certificate": found[field]}
            for field in run.study.fields
        }
        return {**fact, "certificate": None, "fields": fields}

    def solve(
        self, kind: str, key: str, model: WatchedModel, term: str, held: list[Deletion]
    ) -> Facts:
        """Solve one deleted problem."""
        study = self.run.study
        refit: Any = "none"
        if kind == REFITTED:
            refit = "remaining" if self.refits is None else {term: self.refits(term)}
        # Observables are measured on the deleted solution itself, so that one has to have all its
        # digits.
        size = float(model.spaces.size * max(len(model.times) - 1, 1))
        accuracy = 0.0 if study.observables else study.certification.accuracy(size)
        asked = study.certification
        deletion = model.deletions(
            [term],
            asked.norm,
            keep=True,
            refit=refit,
            accuracy=accuracy,
            conditions=asked.conditions,
        )[term]
        held.append(deletion)
        if deletion.solution is not None:
            self.run.keep_field(key, deletion.solution)
        observed = {}
        if deletion.solution is not None and kind == ALONE:
            observed = {
                o: float(model.measurement(what).value(deletion.solution))
                for o, (what, _) in study.observables.items()
            }
        return {
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
            "observables": observed,
            "misfit": self.misfit(model, deletion.solution) if kind == ALONE else None,
        }

    def scores(self, model: WatchedModel, solution: Any) -> dict[str, float]:
        """The score of each field that is judged by itself."""
        norm, fields = self.run.study.certification.norm, self.run.study.fields
        return (
            {}
            if solution is None
            else {f: float(solution.distance(model.factual, norm_of(norm, f))) for f in fields}
        )

    def misfit(self, model: WatchedModel, solution: Any) -> float | None:
        """How far a deleted solution is from the data of its experiment, relative to them."""
        data = self.run.study.data.get(model.name)
        if solution is None or data is None:
            return None
        if model.name not in self.comparisons:
            self.comparisons[model.name] = Comparison(model, data)
        return self.comparisons[model.name].sums(solution).relative

    def again(self, kind: str, key: str, model: WatchedModel, fact: Facts) -> Deletion:
        """A deletion that an earlier run finished, with its solution from the checkpoint or
        solved once more.
        """
        term = key.split("/", 2)[2]
        change = self.change(kind, model, term, fact)
        solution = self.run.solved(key, model, change)
        return replace(
            Deletion(term, fact["score"]),
            solution=solution,
            intervention=change,
            error=fact["error"],
        )

    def change(self, kind: str, model: WatchedModel, term: str, fact: Facts) -> Intervention:
        """The intervention of a deletion whose coefficients are known."""
        refit: Any = "none" if kind == ALONE else {term: fact["coefficients"]}
        return deleting(model, (term,), refit, self.run.study.certification.conditions)[term]

    # Refinement
    # ----------------------------------------------------------------------------------------------

    def refined(self, kind: str, model: WatchedModel, facts: Facts) -> Facts:
        """The deletions of an experiment; those that an error bar left open are decided on
        finer levels, if the budget allows.
        """
        asked, factual = self.run.study.certification, self.factual[model.name]
        if not self.run.study.fields:
            return self.refined_in(kind, model, facts, asked, factual["norm"], "")
        result = {term: {**fact, "fields": dict(fact["fields"])} for term, fact in facts.items()}
        for field, size in factual["norms"].items():
            mine = {term: in_field(fact, field) for term, fact in facts.items() if fact["fields"]}
            own = replace(asked, norm=norm_of(asked.norm, field))
            for term, fact in self.refined_in(kind, model, mine, own, size, f"/{field}").items():
                result[term]["fields"][field] = {k: fact[k] for k in FIELD_FACTS if k in fact}
        return result

    def refined_in(
        self,
        kind: str,
        model: WatchedModel,
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
        changes = {term: self.change(kind, model, term, facts[term]) for term in left}
        first = {term: known_bound(facts[term]) for term in left}
        levels = Refinement(model, asked, first, changes)
        result = dict(facts)
        for term in left:
            key = f"refinement/{kind}/{model.name}/{term}{suffix}"
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

    def deleted_solutions(self, model: WatchedModel, facts: Facts) -> Mapping[str, Any]:
        """The deleted solutions of an experiment by term, taken from the checkpoint when they
        are asked for.
        """
        return StoredSolutions(
            self, model, {t: f for t, f in facts.items() if f["status"] == "solved"}
        )

    # Pictures
    # ----------------------------------------------------------------------------------------------

    def photograph(self, model: WatchedModel, deletion: Deletion) -> None:
        """Take the picture of a deleted solution; pictures are of the first experiment."""
        if (
            self.run.checkpoint.folder is None
            or model.name != next(iter(self.run.models))
            or deletion.solution is None
        ):
            return
        self.pictures[deletion.term] = self.camera(model).take(deletion.solution)

    def camera(self, model: WatchedModel) -> Camera:
        """The camera of an experiment, made once."""
        from cffem.study.report.camera import Camera

        if model.name not in self.cameras:
            self.cameras[model.name] = Camera(model.factual)
        return self.cameras[model.name]

    def drawing(self, facts: Facts) -> Any:
        """All pictures of the first experiment as `Fields`, on rank 0; those of an earlier
        run are taken from its fields.
        """
        model = next(iter(self.run.models.values()), None)
        if model is None:
            return None
        camera = self.camera(model)
        drawing = camera.drawing(camera.take(model.factual))
        for term, fact in facts[ALONE][model.name].items():
            if fact["status"] != "solved":
                continue
            if term not in self.pictures:
                self.photograph(
                    model, self.again(ALONE, f"{ALONE}/{model.name}/{term}", model, fact)
                )
            if drawing is not None:
                drawing = drawing.with_deleted(term, self.pictures[term])
        return drawing


class StoredSolutions(Mapping[str, Any]):
    """Deleted solutions by term, each read when it is asked for."""

    def __init__(self, deletions: Deletions, model: WatchedModel, facts: Facts):
        self.deletions, self.model, self.facts = deletions, model, facts

    def __getitem__(self, term: str) -> Any:
        return self.deletions.again(
            ALONE, f"{ALONE}/{self.model.name}/{term}", self.model, self.facts[term]
        ).solution

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


def certified(model: WatchedModel, deletion: Deletion, asked: Certification) -> Facts:
    """The error bound of a score as plain data, or the reason why there is none."""
    bound = certify_sweep(model, {deletion.term: deletion}, asked)[deletion.term]
    return plain_bound(with_residuals(bound, deletion.error))


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
