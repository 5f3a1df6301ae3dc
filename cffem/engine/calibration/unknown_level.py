# SPDX-License-Identifier: MIT
"""Readings of unknown noise level, where something is weighed against it: priors, or outliers.

Without these, least squares do not depend on the level, and residuals tell it afterwards. With a
prior, χ²/σ² + prior does; with a robust loss, what is an outlier does. The level and the fit are
then found in turns, σ² from the residuals of the last fit. The turns begin with a small σ, that is
at the readings, so that a narrow prior in the wrong place does not explain itself by large noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.calibration.robust_loss import typical_size

if TYPE_CHECKING:
    from cffem.engine.calibration.fit_problem import FitPoint, FitProblem


@dataclass(frozen=True)
class LevelSearch:
    """How the level is looked for.

    Attributes:
        first: the first level as a share of the root mean square of the readings.
        close: relative change of the level that ends the search.
        rounds: fits at most.
    """

    first: float = 1e-3
    close: float = 1e-3
    rounds: int = 20


SEARCH = LevelSearch()


def needs_level(problem: FitProblem) -> bool:
    """Whether the fit itself depends on a noise level that is unknown."""
    known = problem.cases[0].operator.noise.known
    return not known and (problem.has_prior or not problem.loss.squares)


def level_found(problem: FitProblem, start: np.ndarray) -> tuple[FitProblem, FitPoint]:
    """The fit from a start, with the noise level where that is part of it.

    Raises:
        SolveError: the start has no solution.
    """
    if not needs_level(problem):
        return problem, problem.fitted(start)
    data = np.concatenate([case.data for case in problem.cases])
    size = float(np.sqrt(np.mean(data**2))) or 1.0
    robust = not problem.loss.squares
    # Squares stand the first fit of outliers better than a loss with a level that is made up.
    first = 1.0 if robust and not problem.has_prior else SEARCH.first * size
    plain = replace(problem, loss_name="linear", level=first)
    best = plain.fitted(start)
    here = replace(plain, loss_name=problem.loss_name, _last=None)
    for _ in range(SEARCH.rounds):
        level = here.level * _size(here, best, robust)
        if not level > 0:
            return here, best  # readings that are met exactly have no noise
        change = abs(level / here.level - 1)
        here, best = here.levelled(level, best)
        best = here.fitted(best.alpha, near=best)
        if change <= SEARCH.close:
            break
    return here, best


def _size(problem: FitProblem, point: FitPoint, robust: bool) -> float:
    """The standard deviation of residuals in units of the present level."""
    count = problem.size
    matrix, residual = problem.matrix(point), point.residual[:count]
    # Coefficients that priors hold take no degree of freedom: the trace of the projection.
    whole = scaled(matrix)
    fitted = float(np.sum((whole @ np.linalg.pinv(whole, rcond=1e-10)).diagonal()[:count]))
    if robust:
        return typical_size(residual, round(fitted))
    return float(np.sqrt(residual @ residual / max(count - fitted, 1.0)))


def scaled(matrix: np.ndarray) -> np.ndarray:
    """Columns of length one; zero ones stay."""
    size = np.linalg.norm(matrix, axis=0)
    return matrix / np.where(size > 0, size, 1.0)
