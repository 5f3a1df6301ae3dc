"""A study: from a library with known coefficients and an experiment to a report.

Stations: factual solution → terms that vanish on the constraint class → deletion sweep → linearised and residual scores → error
bounds → verdicts → report. A verdict needs an error bar; where no certificate exists for a problem the verdict is `unresolved`,
however large the score is.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sympy as sp

import cffem
from cffem.bounds.deletions import certify_deletion
from cffem.certify.certification import Certification
from cffem.certify.decisions import decide
from cffem.engine.experiment import Experiment
from cffem.engine.model import Model
from cffem.study.report import Report, TermReport
from cffem.symbols.errors import InputError


class Study:
    """A library with known coefficients in an experiment.

    Args:
        library: a `Library` or `System`.
        experiments: the experiment, or a list with one.
        coefficients: α_j by term name.
        certification: tolerance and norm of the verdicts.
        petsc_options: options of the linear solver.
    """

    def __init__(
        self,
        library: Any,
        experiments: Experiment | Sequence[Experiment],
        *,
        coefficients: Mapping[str, float],
        certification: Certification | None = None,
        petsc_options: Mapping[str, Any] | None = None,
    ):
        given = [experiments] if isinstance(experiments, Experiment) else list(experiments)
        if len(given) != 1 or not isinstance(given[0], Experiment):
            raise InputError("a study with known coefficients takes one experiment")
        self.library = library
        self.experiment = given[0]
        self.coefficients = dict(coefficients)
        self.certification = certification or Certification()
        self.petsc_options = dict(petsc_options or {})

    def run(self, out: str | Path | None = None) -> Report:
        """Go through all stations; with `out`, rank 0 writes `report.json` and `terms.csv` there."""
        seconds: dict[str, float] = {}
        clock = _Clock(seconds)
        import cffem.constraints  # noqa: F401  gives the model its constraint_nulls

        with clock("set-up"):
            model = Model(self.library, self.coefficients, self.experiment, self.petsc_options)
        with clock("factual solve"):
            size = model.factual.norm(self.certification.norm)
        with clock("constraint"):
            nulls = {null.term: null for null in model.constraint_nulls()} if self.experiment.constraint is not None else {}
        with clock("deletions"):
            sweep = model.deletions(norm=self.certification.norm)
        with clock("linearised"):
            linearised = model.linearised(None, self.certification.norm)
        with clock("residuals"):
            residuals = model.residual_scores()
        with clock("certificates"):
            bounds = {
                name: certify_deletion(model, name, self.certification.norm)
                for name, deletion in sweep.items()
                if deletion.status == "solved" and name not in nulls
            }
        threshold = self.certification.threshold(size)
        terms = {
            name: self._term(name, sweep.get(name), linearised.get(name), residuals, nulls.get(name), bounds.get(name), threshold)
            for name in self.library.names
        }
        report = Report(terms, self._sections(model, terms, nulls, threshold, size, sweep, seconds))
        if out is not None and model.comm.rank == 0:
            report.write(out)
        model.destroy()
        return report

    def _term(
        self, name: str, deletion: Any, linearised: Any, residuals: Any, null: Any, bound: Any, threshold: float
    ) -> TermReport:
        score = None if deletion is None or deletion.status != "solved" else deletion.score
        decision, reason = verdict(deletion, null, bound, threshold)
        return TermReport(
            name=name,
            latex=sp.latex(self.library[name]),
            coefficient=self.coefficients.get(name, 0.0),
            residual_contribution=residuals[name].contribution,
            rci=residuals[name].rci,
            one_step=residuals[name].one_step,
            linearised=None if linearised is None else float(linearised),
            deletion=score,
            eta_factual=bound.eta_factual if bound else None,
            eta_counterfactual=bound.eta_counterfactual if bound else None,
            margin=bound.margin if bound else None,
            certificate=bound.certificate.kind if bound else None,
            method=bound.certificate.method if bound else None,
            decision=decision,
            reason=reason,
        )

    def _sections(
        self, model: Model, terms: Mapping[str, TermReport], nulls: Any, threshold: float, size: float, sweep: Any, seconds: Any
    ) -> dict[str, dict[str, Any]]:
        known = {"skipped": "the coefficients are known, so nothing is screened"}
        sets = {key: [n for n, term in terms.items() if term.decision == key] for key in ("relevant", "irrelevant", "unresolved")}
        sets["constraint_null"] = sorted(nulls)
        sets["unsolvable"] = [name for name, deletion in sweep.items() if deletion.status != "solved"]
        constraint = self.experiment.constraint
        return {
            "scope": self._scope(model, threshold, size),
            "constraint": {"skipped": "no constraint is declared"}
            if constraint is None
            else {
                "class": f"{constraint.expr} = 0",
                "null_terms": [{"term": n.term, "evidence": str(n.evidence), "ratio": n.ratio} for n in nulls.values()],
            },
            "design": known,
            "screening": known,
            "observables": {"skipped": "no observable is given"},
            "sets": {"fit": [n for n, c in self.coefficients.items() if c], "aliased": [], **sets},
            "cost": {
                "factual": 1,
                "deleted": len(sweep),
                "linearised": model.counts["linearised"],
                "seconds": dict(seconds),
                "ranks": model.comm.size,
            },
            "environment": {
                "cffem": cffem.__version__,
                "python": platform.python_version(),
                "unknowns": model.spaces.size,
                "cells": model.discretisation.mesh.topology.index_map(model.discretisation.mesh.topology.dim).size_global,
            },
        }

    def _scope(self, model: Model, threshold: float, size: float) -> dict[str, Any]:
        window = self.experiment.time
        when = "steady" if window is None else f"on the time window ({window.start:g}, {window.end:g})"
        fields = ", ".join(map(str, model.discretisation.unknowns))
        sentence = (
            f"Each verdict holds for the library {{{', '.join(self.library.names)}}}, this experiment {when}, full observation of "
            f"{fields}, the norm {self.certification.norm} and ε = {threshold:.3g}; deletion without refitting the other "
            "coefficients."
        )
        return {
            "library": {name: str(self.library[name]) for name in self.library.names},
            "experiment": {
                "window": None if window is None else [window.start, window.end, window.steps],
                "boundary": [str(condition) for condition in self.experiment.boundary],
                "initial": {str(key): str(value) for key, value in self.experiment.initial.items()},
            },
            "observation": fields,
            "norm": self.certification.norm,
            "epsilon": threshold,
            "factual_norm": size,
            "intervention": "deletion",
            "refit": "none",
            "sentence": sentence,
        }


def verdict(deletion: Any, null: Any, bound: Any, threshold: float) -> tuple[str, str]:
    """The decision on one term and its reason."""
    if null is not None:
        return "constraint_null", f"vanishes on the constraint class, ratio {null.ratio:.1e}"
    if deletion is None:
        return "unresolved", "not deleted: its coefficient is zero"
    if deletion.status != "solved":
        return "unsolvable", deletion.reason
    if not bound:
        return decide(deletion.score, threshold), f"no error bar: {bound.reason}"
    decision = decide(deletion.score, threshold, margin=bound.margin)
    return decision, "the error bar reaches ε" if decision == "unresolved" else ""


class _Clock:
    """Seconds of each stage."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds

    def __call__(self, name: str) -> _Clock:
        self.name = name
        return self

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: Any) -> None:
        self.seconds[self.name] = round(time.perf_counter() - self.start, 3)
