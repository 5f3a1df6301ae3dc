# SPDX-License-Identifier: MIT
"""The plan of a study before it is run: its stations, how many problems are solved, and about how
long that takes.

One time step of the first experiment is solved twice; the second one, without compilation and
set-up, is the measure.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.study.run.progress import duration
from cffem.symbols.problem.experiment import Experiment, Window

if TYPE_CHECKING:
    from cffem.study.study import Study


def plan(study: Study) -> str:
    """What running the study would do, in lines of text; collective, because it solves one step."""
    known = study.coefficients is not None
    active = [name for name, value in (study.coefficients or {}).items() if value]
    terms = len(active) if known else len(study.library.names)
    up_to = "" if known else "up to "
    classes = 2 if study.refit == "remaining" else 1
    lines = [f"library: {', '.join(study.library.names)}"]
    total = 0.0
    for name, experiment in study.experiments.items():
        size, seconds = measured(study, experiment)
        steps = experiment.time.steps if experiment.time else 1
        lines.append(
            f"{name}: {size} unknowns, {steps} time steps"
            if experiment.time
            else f"{name}: {size} unknowns, steady"
        )
        total += seconds * steps * (1 + classes * terms + terms + len(study.observables))
    lines += stations(study, terms, up_to, classes)
    lines.append(f"about {duration(total)} for these solves; error bounds come on top")
    return "\n".join(lines)


def stations(study: Study, terms: int, up_to: str, classes: int) -> list[str]:
    """One line for each station."""
    count = len(study.experiments)
    constrained = [
        name for name, experiment in study.experiments.items() if experiment.constraint is not None
    ]
    known, asked = study.coefficients is not None, study.certification
    return [
        f"  factual: {count} solve{'s' * (count > 1)}{'' if known else ' of the fitted model'}",
        f"  constraint: {', '.join(constrained)}"
        if constrained
        else "  constraint: skipped, none is declared",
        f"  design: rows from {'the factual solutions' if known else 'the data'}",
        "  screening: skipped, the coefficients are known"
        if known
        else f"  screening: {study.screening.method}, then refit",
        f"  deletions: {up_to}{count * classes * terms} solves"
        + (" (with and without refit)" if classes > 1 else ""),
        f"  linearised: {up_to}{count * terms} solves",
        f"  observables: {count * len(study.observables)} backward solves"
        if study.observables
        else "  observables: skipped, none",
        f"  verdicts: ε = {asked.epsilon:g}{' · ‖u‖' if asked.relative else ''}, norm {asked.norm}",
    ]


def measured(study: Study, experiment: Experiment) -> tuple[int, float]:
    """Unknowns of an experiment and seconds of one time step."""
    window: Any = experiment.time
    short = (
        experiment
        if window is None
        else replace(
            experiment, time=Window(window.start, window.start + window.step, 1, window.scheme)
        )
    )
    coefficients = study.coefficients or dict.fromkeys(study.library.names, 0.0)
    with Model(study.library, coefficients, short, study.petsc_options) as model:
        seconds = 0.0
        try:
            for _ in range(2):
                start = time.perf_counter()
                model.solve()
                seconds = time.perf_counter() - start
        except SolveError:
            seconds = 0.0
        return model.spaces.size, seconds
