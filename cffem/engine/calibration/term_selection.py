# SPDX-License-Identifier: MIT
"""Which terms readings of few sensors need: sparse selection in solution space.

The path goes backward from the fit of all candidates. At each step the term whose loss costs least
to first order is deleted, and the others are fitted again by solving the model. Of all supports on
the path the one with the smallest information criterion is taken,

    χ² + k max(log n, q),      n log(χ²/n) + k max(log n, q)  where the noise level is unknown.

Schwarz's k log n is cheap where there are few readings: with 24 of them, a term that is not there
lowers χ² by log 24 in one of thirteen fits. So a term costs no less than q, the quantile of χ² with
one degree of freedom that such a term passes in one of a hundred.

Stability: readings are drawn again with replacement, and the path is gone again in the linear model
of the fit. A selection is believed only where its terms are chosen nearly always, the others
seldom, where no alias group leaves the choice open, and where the residuals are what noise leaves;
else it says why not. A term that is not selected need not be absent: `limits` says how large it
could be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import stats

from cffem.engine.calibration.coefficient_profile import held_fit
from cffem.engine.calibration.fit_problem import UNFINISHED, FitPoint, FitProblem
from cffem.engine.response.sensitivities import SCALE
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from cffem.engine.calibration.calibration import Calibration


@dataclass(frozen=True)
class NeedSettings:
    """When a selection is believed.

    Attributes:
        replicates: bootstrap replicates.
        kept: share of replicates that must select each selected term.
        left_out: share of replicates that may select each of the others.
        clear: χ² that the cheapest deletion costs, to first order, beyond which the path ends.
        entangled: standard deviations by which a coefficient may move where a term that was left
            out is as large as the readings allow; beyond it, the selection decides the value and
            not the readings.
        quiet: standard deviations below which the coefficient of such a term is so small that a
            term that matters would hardly hide there.
        freedom: readings beyond coefficients that are needed at least.
        chance: how often a term that is not there may pass the criterion, at most.
    """

    replicates: int = 200
    kept: float = 0.9
    left_out: float = 0.5
    clear: float = 200.0
    entangled: float = 4.0
    quiet: float = 0.7
    freedom: int = 5
    chance: float = 0.01


SETTINGS = NeedSettings()
LEAST_PRICE = float(stats.chi2.isf(SETTINGS.chance, 1))  # of a term in the criterion


@dataclass(frozen=True)
class SelectionStep:
    """One support on the path.

    Attributes:
        support: its terms.
        chi2: of the fit of these.
        criterion: the information criterion.
        deleted: the term that went last; empty for all candidates.
    """

    support: tuple[str, ...]
    chi2: float
    criterion: float
    deleted: str = ""


@dataclass(frozen=True)
class TermSelection:
    """Which terms the readings need.

    Attributes:
        fit: the calibration of the selected terms alone.
        support: the selected terms.
        path: all supports that were fitted, from all candidates on.
        frequencies: in which share of the bootstrap replicates each term is selected.
        limits: 95 % intervals of all coefficients in the fit of all candidates.
        intervals: of the selected terms: both that of the fit of these alone and that of all
            candidates lie in it, so that it holds whether or not the others are there.
        reliable, reasons: whether the selection is believed, and what speaks against it.
    """

    fit: Calibration
    support: tuple[str, ...]
    path: tuple[SelectionStep, ...]
    frequencies: dict[str, float]
    limits: dict[str, tuple[float, float]]
    intervals: dict[str, tuple[float, float]]
    reliable: bool
    reasons: tuple[str, ...]


def information(chi2: float, terms: int, readings: int, known: bool) -> float:
    """Schwarz's criterion, in which a term costs no less than chance gives in one of a hundred.

    Example:
        >>> round(information(100.0, 2, 100, True), 3), round(information(0.0, 1, 10000, True), 3)
        (113.27, 9.21)
    """
    size = chi2 if known else readings * float(np.log(max(chi2, 1e-300) / readings))
    return size + terms * max(float(np.log(readings)), LEAST_PRICE)


def select_terms(fit: Calibration, seed: int = 0) -> TermSelection:
    """Select the terms that the readings need; collective.

    Args:
        fit: the calibration of all candidates.
        seed: of the bootstrap.
    """
    problem, best = fit.forward, fit.best
    null = set(fit.design.notes["null"])
    kept = [n for n in problem.terms if n not in null and _may_be_zero(problem, n)]
    path, places = _path(fit, problem, best, kept, null)
    chosen = min(range(len(path)), key=lambda k: path[k].criterion)
    support = tuple(n for n in path[chosen].support if n in problem.terms)
    from cffem.engine.calibration.calibration import Calibration

    smaller, place = problem.keeping(support, places[chosen])
    final = Calibration(smaller, smaller.fitted(place.alpha, near=place)).completed()
    shares = _frequencies(fit, support, kept, seed)
    reasons = _doubts(fit, final, support, shares)
    return TermSelection(
        final,
        support,
        tuple(path),
        shares,
        dict(fit.intervals),
        {name: _hull(fit.intervals[name], final.intervals[name]) for name in support},
        not reasons,
        tuple(reasons),
    )


def _hull(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """An interval that holds two; one without ends says nothing."""
    wide = one if np.isfinite(one).all() else other
    return min(wide[0], other[0]), max(wide[1], other[1])


def _may_be_zero(problem: FitProblem, name: str) -> bool:
    low, high = (side[problem.names.index(name)] for side in problem.bounds)
    return bool(low <= 0 <= high)


def _path(
    fit: Calibration,
    problem: FitProblem,
    best: FitPoint,
    droppable: Sequence[str],
    null: set[str],
) -> tuple[list[SelectionStep], list[FitPoint]]:
    """Supports from all candidates downward with the places of their fits."""
    count, known = fit.readings, fit.noise_known

    def step(support: tuple[str, ...], point: FitPoint, deleted: str) -> SelectionStep:
        chi2 = problem.loss.total(point.residual[:count])
        chi2 = chi2 / fit.unit if known else chi2
        return SelectionStep(support, chi2, information(chi2, len(support), count, known), deleted)

    here, held = best, {}
    if null:
        # Coefficients that no reading feels are zero from the beginning.
        held = {problem.names.index(name): 0.0 for name in null}
        here = held_fit(problem, best, held, best.cost, fit.unit)
    support = tuple(n for n in problem.names if n not in null)
    path, places = [step(support, here, "")], [here]
    while sum(n in problem.terms for n in support) > 1:
        losses = first_order_losses(problem.matrix(here), here.alpha, problem.names, support)
        free = {n: loss for n, loss in losses.items() if n in droppable}
        if not free:
            break
        name = min(free, key=lambda n: free[n])
        # What costs this much to first order, with all candidates there, is not tried.
        if free[name] > SETTINGS.clear * fit.unit:
            break
        less = {**held, problem.names.index(name): 0.0}
        try:
            here = held_fit(problem, here, less, here.cost, fit.unit)
        except SolveError:
            # A term without which nothing is solvable stays, and others may still go.
            droppable = [n for n in droppable if n != name]
            continue
        held = less
        support = tuple(n for n in support if n != name)
        path.append(step(support, here, name))
        places.append(here)
        if path[-1].criterion > min(s.criterion for s in path) + SETTINGS.clear:
            break
    return path, places


def first_order_losses(
    matrix: np.ndarray, alpha: np.ndarray, names: Sequence[str], support: Sequence[str]
) -> dict[str, float]:
    """By how much χ² grows to first order where each term of a support is deleted.

    Example:
        >>> first_order_losses(np.diag([2.0, 1.0]), np.array([3.0, 1.0]), ("a", "b"), ("a", "b"))
        {'a': 36.0, 'b': 1.0}
    """
    index = [names.index(name) for name in support]
    losses = {}
    for name, j in zip(support, index, strict=True):
        others = [k for k in index if k != j]
        column = matrix[:, j] * alpha[j]
        if others:
            part = matrix[:, others]
            scale = np.linalg.norm(part, axis=0)
            part = part / np.where(scale > 0, scale, 1.0)
            column = column - part @ np.linalg.lstsq(part, column, rcond=1e-10)[0]
        losses[name] = float(column @ column)
    return losses


def _frequencies(
    fit: Calibration, support: Sequence[str], droppable: Sequence[str], seed: int
) -> dict[str, float]:
    """How often each term is selected from readings that are drawn again, to first order."""
    problem, best, count = fit.forward, fit.best, fit.readings
    matrix = problem.matrix(best)
    weights = _drawn(count, len(matrix), seed) * problem.loss.weights(best.residual)
    target = matrix @ best.alpha - best.residual
    unit = fit.unit
    chosen = dict.fromkeys(problem.terms, 0)
    for weight in weights:
        rows = np.sqrt(weight)[:, None] * np.column_stack([matrix, target]) / np.sqrt(unit)
        for name in backward(rows, problem.names, droppable, count, fit.noise_known):
            if name in chosen:
                chosen[name] += 1
    return {name: number / len(weights) for name, number in chosen.items()}


def _drawn(count: int, rows: int, seed: int) -> np.ndarray:
    """How often each reading is drawn in each replicate; priors stay."""
    generator = np.random.default_rng(seed)
    weights = np.ones((SETTINGS.replicates, rows))
    weights[:, :count] = generator.multinomial(
        count, np.full(count, 1 / count), SETTINGS.replicates
    )
    return weights


def backward(
    rows: np.ndarray, names: Sequence[str], droppable: Sequence[str], count: int, known: bool
) -> tuple[str, ...]:
    """Backward elimination of a linear model by the information criterion.

    Args:
        rows: columns of all terms and the target, weighted.
        names: the terms.
        droppable: those that may go.
        count: how many readings there are.
        known: whether the noise level is known.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=(60, 3))
        >>> rows = np.column_stack([noise[:, 0], noise[:, 1], 5 * noise[:, 0] + noise[:, 2]])
        >>> backward(rows, ("a", "b"), ("a", "b"), 60, True)
        ('a',)
    """
    gram = rows.T @ rows
    scale = np.sqrt(np.diag(gram))
    gram = gram / np.outer(np.where(scale > 0, scale, 1.0), np.where(scale > 0, scale, 1.0))
    support = [k for k in range(len(names)) if scale[k] > 0]
    size = float(scale[-1] ** 2)
    best: tuple[float, tuple[int, ...]] = (np.inf, ())
    while True:
        inverse = np.linalg.pinv(gram[np.ix_(support, support)], rcond=1e-12, hermitian=True)
        alpha = inverse @ gram[support, -1]
        chi2 = size * max(float(1 - gram[support, -1] @ alpha), 0.0)
        criterion = information(chi2, len(support), count, known)
        if criterion < best[0]:
            best = (criterion, tuple(support))
        free = [k for k, j in enumerate(support) if names[j] in droppable]
        if not free or not support:
            return tuple(names[j] for j in best[1])
        spread = np.maximum(np.diag(inverse), 1e-300)
        support.pop(min(free, key=lambda k: alpha[k] ** 2 / spread[k]))


def _doubts(
    fit: Calibration, final: Calibration, support: Sequence[str], shares: Mapping[str, float]
) -> list[str]:
    """What speaks against a selection."""
    found = [final.tests.misfit] if final.tests.misfit else []
    null = fit.design.notes["null"]
    for group in fit.design.alias_groups():
        # What an equation without a scale needs does not depend on its scale.
        if not set(group.terms) <= set(null) and not group.name.startswith(SCALE):
            found.append(str(group))
    for name, share in shares.items():
        if name in support and share < SETTINGS.kept:
            found.append(f"{name} is selected in only {share:.0%} of the bootstrap replicates")
        elif name not in support and share > SETTINGS.left_out:
            found.append(
                f"{name} is not selected, but is in {share:.0%} of the bootstrap replicates"
            )
    found += _entangled(fit, final, support, null)
    if final.degrees < SETTINGS.freedom:
        found.append(
            f"{final.readings} readings leave {final.degrees} degrees of freedom beyond the "
            f"coefficients; {SETTINGS.freedom} are needed to test the residuals"
        )
    backward_in_time = [note for note in final.notes if "backward in time" in note]
    if fit.unfinished:
        found.append(UNFINISHED)
    return [*found, *backward_in_time, *(n for n in final.notes if "is at its bound" in n)]


def _entangled(
    fit: Calibration, final: Calibration, support: Sequence[str], null: Mapping[str, str]
) -> list[str]:
    """Terms that were left out and, if they were there, would move the others."""
    problem, found = fit.forward, []
    matrix = problem.matrix(fit.best)
    index = [problem.names.index(name) for name in (*support, *problem.amplitude_names)]
    for name in problem.terms:
        largest = max(map(abs, fit.intervals[name]))
        if name in support or name in null or not np.isfinite(largest):
            continue
        if abs(fit.coefficients[name]) < SETTINGS.quiet * fit.deviations[name]:
            continue
        push = matrix[:, problem.names.index(name)] * largest
        part = matrix[:, index]
        scale = np.maximum(np.linalg.norm(part, axis=0), 1e-300)
        moved = np.abs(np.linalg.lstsq(part / scale, push, rcond=1e-10)[0] / scale)
        moved = moved[: len(support)]
        spread = np.array([final.deviations[other] for other in support])
        worst = int(np.argmax(moved / spread))
        if moved[worst] > SETTINGS.entangled * spread[worst]:
            other = support[worst]
            found.append(
                f"{name} is not selected but could be as large as {largest:.2g}, and {other} would "
                f"then differ by {moved[worst] / spread[worst]:.1f} of its standard deviations"
            )
    return found
