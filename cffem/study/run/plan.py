# SPDX-License-Identifier: MIT
"""The plan of a study before it is run: its stations, how many problems are solved, and about how
long that takes.

On the real mesh one model is set up and one time step solved twice: the second time, without
compilation, both are the measure. Error bars are counted as the levels that they are expected to
need (`cffem.bounds.levels.estimates`), each with its set-up, and at most as what the certification
allows.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.study.run.progress import duration
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.window import Window

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
    total = bars = most = 0.0
    for name, experiment in study.experiments.items():
        size, price = measured(study, experiment)
        steps = experiment.time.steps if experiment.time else 1
        lines.append(
            f"{name}: {size} unknowns, {'at least ' if experiment.time.adaptive else ''}{steps} "
            "time steps"
            if experiment.time
            else f"{name}: {size} unknowns, steady"
        )
        others = terms + len(study.observables)
        changed = classes * terms + more_problems(study, terms)
        total += price.set_up + price.step * steps * (1 + changed + others)
        bars += price.bars(steps, changed)
        most += study.certification.effort * price.sweep(steps, changed)
    lines += stations(study, terms, up_to, classes)
    lines.append(priced(total, bars, most))
    return "\n".join(lines)


def more_problems(study: Study, terms: int) -> int:
    """How many changed problems there are besides single deletions: named ones and pairs."""
    return len(study.interventions) + (terms * (terms - 1) // 2 if study.pairs else 0)


@dataclass(frozen=True)
class Price:
    """What the parts of a study take on the real mesh, in seconds.

    Attributes:
        set_up: making a model.
        step: one time step, or one steady solve.
        ratio: unknowns times time steps of the levels of an error bar, relative to the user's.
        meshes: the same without the time steps, which their set-up goes with.
    """

    set_up: float
    step: float
    ratio: float
    meshes: float

    def sweep(self, steps: int, deletions: int) -> float:
        """The factual solve with its deletions.

        Example:
            >>> Price(1.0, 0.1, 0.25, 0.5).sweep(10, 2), Price(1.0, 0.1, 0.25, 0.5).bars(10, 2)
            (4.0, 1.25)
        """
        return self.set_up + self.step * steps * (1 + deletions)

    def bars(self, steps: int, deletions: int) -> float:
        """The levels of the error bars that are expected to decide."""
        return self.meshes * self.set_up + self.ratio * self.step * steps * (1 + deletions)

    @classmethod
    def of(cls, model: Model, set_up: float, step: float) -> Price:
        """With the levels that a model has: below the user's if they exist, else two above."""
        dimension = model.discretisation.mesh.topology.dim
        below = model.discretisation.domain.remade is not None
        levels = (-1, -2) if below else (1, 2)
        meshes = sum(2.0 ** (dimension * level) for level in levels)
        if model.experiment.time is None:
            return cls(set_up, step, meshes, meshes)
        if below:
            return cls(
                set_up, step, sum(2.0 ** ((dimension + 1) * level) for level in levels), meshes
            )
        return cls(set_up, step, meshes + 2.0 + 4.0, meshes)


def priced(solves: float, bars: float, most: float) -> str:
    """What a study costs, in one sentence.

    Example:
        >>> priced(10.0, 2.0, 40.0)
        'about 10 s for the solves and 2 s for error bars, 40 s at most where these do not decide'
    """
    return (
        f"about {duration(solves)} for the solves and {duration(bars)} for error bars, "
        f"{duration(max(most, bars))} at most where these do not decide"
    )


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
        *(
            [f"  interventions and pairs: {up_to}{count * more_problems(study, terms)} solves"]
            if more_problems(study, terms)
            else []
        ),
        f"  linearised: {up_to}{count * terms} solves",
        f"  observables: {count * len(study.observables)} backward solves"
        if study.observables
        else "  observables: skipped, none",
        f"  verdicts: ε = {asked.epsilon:g}{' · ‖u‖' if asked.relative else ''}, norm {asked.norm}",
    ]


def measured(study: Study, experiment: Experiment) -> tuple[int, Price]:
    """Unknowns of an experiment, and what its model and one time step take."""
    window: Window | None = experiment.time
    short = (
        experiment
        if window is None
        else replace(
            experiment, time=Window(window.start, window.start + window.step, 1, window.scheme)
        )
    )
    coefficients = study.coefficients or dict.fromkeys(study.library.names, 0.0)
    with Model(study.library, coefficients, short, study.petsc_options):
        pass  # the first one compiles
    start = time.perf_counter()
    with Model(study.library, coefficients, short, study.petsc_options) as model:
        set_up, seconds = time.perf_counter() - start, 0.0
        try:
            for _ in range(2):
                start = time.perf_counter()
                model.solve()
                seconds = time.perf_counter() - start
        except SolveError:
            seconds = 0.0
        return model.spaces.size, Price.of(model, set_up, seconds)
