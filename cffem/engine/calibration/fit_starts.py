# SPDX-License-Identifier: MIT
"""Where a fit begins, and where it begins anew.

Least squares on readings have many minima where a coefficient moves a signal in time: a pulse that
arrives too late by more than its width says nothing about how late it is. A fit that ends with
more than the noise explains is therefore begun again. The coefficients of highest derivatives,
which say how fast things travel and spread, are tried over orders of magnitude around L^p/T^q (L
the size of the domain, T the length of the window, p and q the orders in space and time); at each
of these places the other coefficients are fitted linearly, and the best places are starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from cffem.engine.calibration.descent import FitAccuracy, inside, least_change
from cffem.engine.calibration.fit_problem import FitPoint, FitProblem
from cffem.engine.calibration.unknown_level import level_found
from cffem.engine.solve.preconditioners import extent
from cffem.engine.solve_errors import SolveError
from cffem.symbols.algebra.analysis import orders
from cffem.symbols.form_terms import FormTerm


@dataclass(frozen=True)
class RestartSettings:
    """When a fit is begun again, and where.

    Attributes:
        chance: probability of χ² under the noise below which a fit is doubted.
        misfit: χ² per degree of freedom from which it is; a slight misfit is the model's.
        explained: share of the square of the readings that a fit explains which is not doubted,
            where their noise is unknown.
        ratio_of_waves: from one coefficient that is tried to the next, second order in time:
            arrival times then differ by a factor of its root.
        ratio: the same, first order in time, where the fit itself finds far.
        waves, spreads: exponents of these ratios, second and first order in time.
        terms: how many terms are tried, one after the other.
        fits: how many of the places are starts.
        decrease: of χ² that a fit from such a start may still promise at its end.
        relative: the same relative to what is left over the noise.
        level: probability of the growth of χ² that forward equations may cost.
        near: χ² per degree of freedom below which a single term is looked at first.
        far: growth of χ² beyond which the fit without a term is not looked at.
    """

    chance: float = 1e-4
    misfit: float = 1.3
    explained: float = 0.9
    ratio_of_waves: float = 2.0
    ratio: float = 4.0
    waves: tuple[int, int] = (-6, 4)
    spreads: tuple[int, int] = (-6, 1)
    terms: int = 3
    fits: int = 3
    decrease: float = 1.0
    relative: float = 0.03
    level: float = 0.95
    near: float = 10.0
    far: float = 100.0


SETTINGS = RestartSettings()


def best_of_starts(problem: FitProblem, first: np.ndarray) -> tuple[FitProblem, FitPoint]:
    """The fit from a start and, where it is doubted, from others; the least χ² counts.

    Raises:
        SolveError: no start has a solution.
    """
    try:
        here, best = level_found(problem, first)
    except SolveError:
        begin = nearby(problem, first, None)
        if begin is None:
            raise
        here, best = level_found(problem, begin.alpha)
    else:
        better = nearby(here, first, best) if doubted(here, best) else best
        if better is not None and better is not best:
            here, best = level_found(problem, better.alpha)
    return here, forward_in_time(here, best, first)


def nearby(problem: FitProblem, first: np.ndarray, best: FitPoint | None) -> FitPoint | None:
    """The best end of short fits from other starts; the fit so far where that is better."""
    freedom = max(problem.size - len(problem.names), 1)
    short = FitAccuracy(SETTINGS.decrease, SETTINGS.relative, base=freedom)
    if best is not None and best.cost < SETTINGS.near * freedom:
        best = without_one(problem, best, short)
        if not doubted(problem, best):
            return best
    for start in other_starts(problem, first):
        try:
            end = problem.fitted(start, accuracy=short)
        except SolveError:
            continue
        if best is None or end.cost < best.cost:
            best = end
        if not doubted(problem, best):
            return best
    return best if best is None else without_one(problem, best, short)


def without_one(problem: FitProblem, best: FitPoint, short: FitAccuracy) -> FitPoint:
    """The fit with each of the terms that travel and spread left out and then let in again, where
    that is better: a term that is not there finds a minimum of its own.
    """
    low, high = problem.bounds
    for k, _ in scales(problem):
        if not low[k] <= 0.0 <= high[k]:
            continue  # a term that is known to be there
        start = best.alpha.copy()
        start[k] = 0.0
        if not problem.point(start).cost < SETTINGS.far * best.cost:
            continue  # a term that matters
        try:
            smaller = problem.fitted(start, {k: 0.0}, short)
            end = problem.fitted(smaller.alpha, accuracy=short)
        except SolveError:
            continue
        best = min(best, smaller, end, key=lambda point: point.cost)
        if not doubted(problem, best):
            break
    return best


def doubted(problem: FitProblem, point: FitPoint) -> bool:
    """Whether a fit leaves more than the noise explains."""
    freedom = max(problem.size - len(problem.names), 1)
    if problem.cases[0].operator.noise.known:
        unlikely = stats.chi2.sf(point.cost, freedom) < SETTINGS.chance
        return bool(unlikely and point.cost > SETTINGS.misfit * freedom)
    own = point.residual[: problem.size] * problem.level
    data = np.concatenate([case.operator.noise.whitened(case.data) for case in problem.cases])
    return bool(own @ own > (1 - SETTINGS.explained) * (data @ data))


# Places
# --------------------------------------------------------------------------------------------------


def other_starts(problem: FitProblem, first: np.ndarray) -> Iterator[np.ndarray]:
    """Other coefficients to begin with, the most promising first; each is looked for when it is
    asked for.
    """
    base = with_sources(problem, first)
    places: list[tuple[float, np.ndarray]] = []
    for k, values in scales(problem):
        places = []
        for value in dict.fromkeys((base[k], *values)):
            trial = base.copy()
            trial[k] = value
            trial = inside(trial, *problem.bounds)
            left = promised(problem, trial, k)
            if np.isfinite(left):
                places.append((left, trial))
        if places:
            base = min(places, key=lambda place: place[0])[1]
    for _, trial in sorted(places, key=lambda place: place[0])[: SETTINGS.fits]:
        yield trial


def with_sources(problem: FitProblem, first: np.ndarray) -> np.ndarray:
    """A start in which terms without an unknown have the coefficient one where they had none: a
    field that nothing drives says nothing about the other terms.
    """
    library, start = problem.cases[0].library, first.copy()
    for k, name in enumerate(problem.terms):
        term = library[name]
        if not (start[k] or isinstance(term, FormTerm) or term.has(*library.unknowns)):
            start[k] = 1.0
    return start


def scales(problem: FitProblem) -> Iterator[tuple[int, list[float]]]:
    """The terms with the highest derivatives of their equations, by position, and coefficients of
    all sizes with the sign that runs forward in time.
    """
    case = problem.cases[0]
    if case.experiment.time is None:
        return
    mesh = case.model.discretisation.mesh
    length, duration = extent(mesh), case.experiment.time.end - case.experiment.time.start
    order = {}
    for k, name in enumerate(problem.terms):
        if not isinstance(case.library[name], FormTerm):
            order[k] = orders(case.library[name], mesh.geometry.dim)[0]
    highest: dict[object, int] = {}
    for k, p in order.items():
        equation = case.library.locate(problem.terms[k])[0]
        highest[equation] = max(highest.get(equation, 0), p)
    count = 0
    for k, p in order.items():
        name = problem.terms[k]
        equation = case.library.locate(name)[0]
        q = case.library.equations[equation].time_order
        if not p or p < highest[equation] or not q or count == SETTINGS.terms:
            continue
        count += 1
        ratio, ends = (
            (SETTINGS.ratio_of_waves, SETTINGS.waves)
            if q == 2
            else (SETTINGS.ratio, SETTINGS.spreads)
        )
        alone = dict.fromkeys(case.library.names, 0.0)
        sign = -1.0 if case.backward({**alone, name: 1.0}) else 1.0
        unit = sign * length**p / duration**q
        yield k, [unit * ratio**e for e in range(ends[0], ends[1] + 1)]


def promised(problem: FitProblem, start: np.ndarray, held: int) -> float:
    """χ² with the other coefficients fitted linearly; infinite without a solution."""
    point = problem.point(start)
    if point.failure is not None:
        return np.inf
    try:
        matrix = problem.matrix(point)
    except SolveError:
        return np.inf
    others = np.array([k for k in range(matrix.shape[1]) if k != held], dtype=int)
    part = matrix[:, others]
    step = least_change(part, point.residual, problem.settings.regularity)
    left = point.residual - part @ step
    return float(left @ left)


# Signs
# --------------------------------------------------------------------------------------------------


def forward_in_time(problem: FitProblem, best: FitPoint, first: np.ndarray) -> FitPoint:
    """The fit, looked for once more where it runs backward in time: with the coefficients that are
    to blame kept on the other side of zero. It counts if the readings do not tell the two apart,
    that is, if χ² is smaller or larger by no more than chance.
    """
    case = problem.cases[0]
    values = {**case.fixed, **dict(zip(problem.terms, map(float, best.alpha), strict=False))}
    if case.experiment.time is None or not case.backward(values):
        return best
    low, high = (side.copy() for side in problem.bounds)
    for k, name in enumerate(problem.terms):
        value = values[name]
        if value and not case.backward({**values, name: -value}):
            (high if value > 0 else low)[k] = -0.0 if value > 0 else 0.0
            side = -1.0 if value > 0 else 1.0
            first = first.copy()
            first[k] = side * max(abs(first[k]), abs(value))
    if np.any(low >= high):
        return best
    bounded = replace(problem, bounds=(low, high), _last=None)
    chance = stats.chi2.ppf(SETTINGS.level, 1)
    freedom = max(problem.size - len(problem.names), 1)
    noise = 1.0 if case.operator.noise.known else best.cost / freedom
    other = best
    for start in (np.clip(best.alpha, low, high), first):
        try:
            found = bounded.fitted(start)
        except SolveError:
            continue
        if other is best or found.cost < other.cost:
            other = found
    return other if other.cost <= best.cost + chance * noise else best
