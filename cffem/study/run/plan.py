# SPDX-License-Identifier: MIT
"""The plan of a study before it is run: its stations, how many problems are solved, and about how
long that takes.

On the real mesh one model is set up and one time step solved twice: the first time factors are
made, the second one is a step. Error bars are counted as the levels that they are expected to need
(`cffem.bounds.levels.estimates`), each with its set-up, and at most as what the certification
allows; rows, pages and what else does not grow with the problem as `Overheads` says.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.around import BELOW
from cffem.bounds.levels.beside import LARGER, SAME, beside_size
from cffem.bounds.levels.coarser import cells_of
from cffem.bounds.levels.ladders import first_order
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
    total, bars, most, rest = 0.0, 0.0, 0.0, OVERHEADS.page(terms)
    for name, experiment in study.experiments.items():
        size, price = measured(study, experiment)
        steps = experiment.time.steps if experiment.time else 1
        lines.append(
            f"{name}: {size} unknowns, {'at least ' if experiment.time.adaptive else ''}{steps} "
            "time steps"
            if experiment.time
            else f"{name}: {size} unknowns, steady"
        )
        changed = classes * terms + more_problems(study, terms)
        total += price.sweep(steps, changed) + price.others(steps, terms, len(study.observables))
        rest += price.rows(steps, terms)
        bars += price.bars(steps, changed)
        most += study.certification.effort * price.sweep(steps, changed)
    lines += stations(study, terms, up_to, classes)
    lines.append(priced(total, bars, most, rest))
    return "\n".join(lines)


def more_problems(study: Study, terms: int) -> int:
    """How many changed problems there are besides single deletions: named ones and pairs."""
    return len(study.interventions) + (terms * (terms - 1) // 2 if study.pairs else 0)


class Stopwatch:
    """Seconds since it was made, without those in which the machine did other work."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """By the clock or by the processor, whichever is less: several threads use more of the
        latter, and a busy machine more of the former.
        """
        return min(time.perf_counter() - self._start[0], time.process_time() - self._start[1])


@dataclass(frozen=True)
class Overheads:
    """What a study takes besides its solves, as measured on studies of `cffem bench study`.

    Attributes:
        drawn: seconds of a page without pictures.
        picture: seconds of the pictures of one term.
        level: seconds of two models on other levels, whose forms are compiled.
        rows: regression rows and residual scores, relative to the solves for all terms.
        compared: what comparing levels takes, relative to the solves; steady fields have one level.
        raised: what elements of the next degree take, relative to their unknowns times time steps,
            with the look at data on their cells.
        changed: what a deletion takes of a nonlinear solve, whose factors all deletions share.
        linearised: what a linearised response takes of one, which has no Newton steps.
    """

    drawn: float = 0.4
    picture: float = 0.05
    level: float = 0.3
    rows: float = 1.0
    compared: float = 0.4
    compared_steady: float = 0.05
    raised: float = 4.0
    changed: float = 0.35
    linearised: float = 0.12

    def page(self, terms: int) -> float:
        """Seconds of the page of a study with so many terms."""
        return self.drawn + self.picture * terms


OVERHEADS = Overheads()
# A time step is timed so many times, unless that takes longer than this, in seconds.
REPEATED, BRIEFLY = 5, 0.2
# Where the coarsest level below the user's has fewer cells of first order than this along the
# domain, elements of the next degree are expected to be needed: on larger cells for all terms, on
# the same for one.
ALONG = 3.0


@dataclass(frozen=True)
class Price:
    """What the parts of a study take on the real mesh, in seconds.

    Attributes:
        set_up: making a model.
        step: one time step, or one steady solve.
        ratio: unknowns times time steps of the levels of an error bar, relative to the user's.
        meshes: the same without the time steps, which their set-up goes with.
        begin: what the first time step takes longer than others, which factors its matrix.
        compared: what comparing the levels of an error bar takes, relative to the solves.
        linear: whether the problem is.
        shared: whether deletions share factors and march together; else each is solved by itself.
        raised: the relative size of elements of the next degree on larger cells and on the same,
            where they are expected to be needed.
    """

    set_up: float
    step: float
    ratio: float
    meshes: float
    begin: float = 0.0
    compared: float = 0.0
    linear: bool = True
    shared: bool = True
    raised: tuple[float, float] | None = None

    def sweep(self, steps: int, deletions: int) -> float:
        """The factual solve with its deletions.

        Example:
            >>> Price(1.0, 0.1, 0.25, 0.5).sweep(10, 2), Price(1.0, 0.1, 0.25, 0.5).bars(10, 2)
            (4.0, 1.25)
        """
        alone = self.linear or not self.shared
        changed = deletions * (1.0 if alone else OVERHEADS.changed)
        return self.set_up + self.begin + self.step * steps * (1 + changed)

    def others(self, steps: int, terms: int, adjoints: int) -> float:
        """Linearised responses and adjoint solves."""
        share = 1.0 if self.linear else OVERHEADS.linearised
        return self.step * steps * share * (terms + adjoints)

    def rows(self, steps: int, terms: int) -> float:
        """Regression rows and residual scores."""
        share = OVERHEADS.rows if self.linear else OVERHEADS.linearised
        return share * self.step * steps * terms

    def bars(self, steps: int, deletions: int) -> float:
        """The levels of the error bars that are expected to decide."""
        solves = self.sweep(steps, deletions) - self.set_up - self.begin
        levels = self.meshes * (self.set_up + self.begin) + self.ratio * solves
        if self.raised is not None:
            larger, same = self.raised
            one = self.step * steps
            levels += OVERHEADS.raised * one * (larger * (1 + deletions) + 2 * same)
        return levels + (self.compared * solves + OVERHEADS.level if self.compared else 0.0)

    @classmethod
    def of(cls, model: Model, set_up: float, step: float, begin: float = 0.0) -> Price:
        """With the levels that a model has: below the user's if they exist, else two above."""
        dimension = model.discretisation.mesh.topology.dim
        below = model.discretisation.domain.remade is not None
        levels = (-1, -2) if below else (1, 2)
        meshes = sum(2.0 ** (dimension * level) for level in levels)
        raised = raised_sizes(model) if below else None
        steady, linear = model.experiment.time is None, model.equation.linear
        kind = OVERHEADS.compared if linear and not steady else OVERHEADS.compared_steady
        shared = not steady and model.discretisation.multiplier is None
        if steady:
            return cls(set_up, step, meshes, meshes, begin, kind, linear, shared, raised)
        times = 2.0 + 4.0
        ratio = (
            sum(2.0 ** ((dimension + 1) * level) for level in levels) if below else meshes + times
        )
        return cls(set_up, step, ratio, meshes, begin, kind, linear, shared, raised)


def raised_sizes(model: Model) -> tuple[float, float] | None:
    """The relative sizes of elements of the next degree on larger cells and on the same, where the
    levels below the user's have too few cells for elements of first order; collective.
    """
    dimension = model.discretisation.mesh.topology.dim
    along = (cells_of(model) / math.factorial(dimension)) ** (1 / dimension)
    if along >= ALONG * 2**BELOW or not first_order(model):
        return None
    try:
        return beside_size(model, LARGER), beside_size(model, SAME)
    except NotCovered:
        return None


def priced(solves: float, bars: float, most: float, rest: float) -> str:
    """What a study costs, in one sentence.

    Args:
        solves, bars: seconds of the solves, and of the error bars that are expected to decide.
        most: seconds that error bars may take.
        rest: seconds of rows, scores and the report.

    Example:
        >>> priced(10.0, 2.0, 40.0, 1.0)
        'about 13 s: 10 s for the solves and 2 s for error bars (40 s at most where these do not \
decide), 1 s for rows and the report'
    """
    return (
        f"about {duration(solves + bars + rest)}: {duration(solves)} for the solves and "
        f"{duration(bars)} for error bars ({duration(max(most, bars))} at most where these do not "
        f"decide), {duration(rest)} for rows and the report"
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
    watch = Stopwatch()
    with Model(study.library, coefficients, short, study.petsc_options) as model:
        set_up = watch.seconds
        return model.spaces.size, timed(model, set_up)


def timed(model: Model, set_up: float) -> Price:
    """The price of a model of one time step, or of a steady one, which is solved twice;
    collective.
    """
    seconds: list[float] = []
    most = 1 if model.experiment.time is None else REPEATED
    try:
        # Other work on the machine only makes a step longer, so the shortest one counts.
        while len(seconds) < 2 or (len(seconds) < most and sum(seconds) < BRIEFLY):
            watch = Stopwatch()
            model.solve()
            seconds.append(model.comm.bcast(watch.seconds))
            if most == 1:
                break
    except SolveError:
        return Price.of(model, set_up, 0.0)
    step = min(seconds)
    return Price.of(model, set_up, step, max(seconds[0] - step, 0.0))
