# SPDX-License-Identifier: MIT
"""`cf.calibrate`: from readings to a fit. Where the descent begins, which way it goes, and what is
tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.calibration.adjoint_descent import SETTINGS as MANY
from cffem.engine.calibration.adjoint_descent import adjoint_descent
from cffem.engine.calibration.calibration import Calibration
from cffem.engine.calibration.calibration_settings import ADJOINT, AUTO, CalibrationSettings
from cffem.engine.calibration.fit_inputs import least_squares_of
from cffem.engine.calibration.fit_problem import FitPoint, FitProblem
from cffem.engine.calibration.fit_starts import best_of_starts
from cffem.engine.response.sensitivities import INVARIANT, unanchored
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


def calibrate(
    library: Library | System,
    experiment: Experiment | Sequence[Experiment],
    readings: Any,
    start: Mapping[str, float] | None = None,
    *,
    fixed: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    prior: Mapping[str, tuple[float, float]] | None = None,
    loss: str = "linear",
    method: str = "auto",
    petsc_options: PetscOptions | None = None,
) -> Calibration:
    """Fit the coefficients of a library to readings by solving the model again.

    Args:
        library: the candidate terms.
        experiment: the experiment, or several, whose readings are fitted together.
        readings: what `cf.Dataset.from_readings` gives; or a pair of an observation (`cf.Sensors`,
            `cf.Part`, `cf.Trace`, `cf.Series` or a sum) and its values; one for each experiment.
        start: where the fit starts, by term (others: zero). None: zero for all, which a steady
            problem cannot be solved with.
        fixed: coefficients that are known and stay.
        bounds: (low, high) by term.
        prior: (mean, standard deviation) by term, from elsewhere.
        loss: "linear" for Gaussian noise; "soft_l1", "huber" or "cauchy" against outliers.
        method: "tangent", "adjoint" (one backward solve for the gradient by all coefficients, with
            L-BFGS), or "auto", which takes the adjoint from 24 coefficients on.
        petsc_options: for the linear solver.

    Returns:
        The fit: `.coefficients`, `.intervals`, `.chi2`, `.identified`, `.design`, `.model`,
        `.tests`, `.profile(name)`, `.without(name)`.

    Example:
        >>> import cffem as cf, numpy as np, sympy as sp
        >>> from mpi4py import MPI
        >>> from dolfinx.mesh import create_unit_interval
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=create_unit_interval(MPI.COMM_SELF, 16), elements={u: ("Lagrange", 2)},
        ...     initial={u: sp.sin(sp.pi * cf.x) + sp.sin(2 * sp.pi * cf.x)},
        ...     boundary=[cf.Dirichlet(u, 0)], time=cf.Window(0, 0.5, steps=10))
        >>> truth = cf.Model(library, {"u": 0.5, "lap": 0.1}, experiment)
        >>> sensors = cf.Sensors([0.3, 0.6], [u], noise=0.01)
        >>> values = truth.observation(sensors).values(truth.factual)
        >>> fit = cf.calibrate(library, experiment, (sensors, values))
        >>> {name: round(value, 6) for name, value in fit.coefficients.items()}
        {'u': 0.5, 'lap': 0.1}
    """
    experiments = list(experiment) if isinstance(experiment, Sequence) else [experiment]
    given = list(readings) if isinstance(experiment, Sequence) else [readings]
    if len(given) != len(experiments) or not experiments:
        raise InputError(f"there are {len(experiments)} experiments, but readings of {len(given)}")
    settings = CalibrationSettings(start, fixed, bounds, prior, loss, method)
    return fitted(least_squares_of(library, experiments, given, settings, petsc_options), settings)


def fitted(problem: FitProblem, settings: CalibrationSettings) -> Calibration:
    """The fit of a least-squares problem."""
    first = np.zeros(len(problem.names))
    for k, name in enumerate(problem.terms):
        first[k] = float((settings.start or {}).get(name, 0.0))
    many = settings.method == AUTO and len(problem.names) >= MANY.many
    if settings.method == ADJOINT or many:
        if problem.amplitude_names and settings.method == ADJOINT:
            raise InputError("amplitudes of uncertain data are fitted with method='tangent'")
        if not problem.amplitude_names:
            first = adjoint_descent(problem, first)
    problem, best = best_of_starts(problem, first)
    return Calibration(problem, at_scale_of_start(problem, best, first)).completed()


def at_scale_of_start(problem: FitProblem, best: FitPoint, start: np.ndarray) -> FitPoint:
    """The fit with the scale of its start, where an equation fixes ratios of its coefficients only
    and the steps have moved along that direction.
    """
    matrix = problem.matrix(best)
    size, alpha = np.linalg.norm(matrix, axis=0), best.alpha.copy()
    if problem.amplitude_names:
        return best  # scaling coefficients alone leaves the data as they are
    for terms in unanchored(problem.cases[0].model).values():
        mine = np.array([name in terms for name in problem.names])
        length = np.linalg.norm(size * alpha * mine)
        if not length > 0 or np.linalg.norm(matrix @ (alpha * mine)) > INVARIANT * length:
            continue
        factor = float((size * mine * start) @ (size * alpha)) / length**2
        alpha = np.where(mine & (factor > 0), factor * alpha, alpha)
    if np.any(alpha < problem.bounds[0]) or np.any(alpha > problem.bounds[1]):
        return best
    moved = problem.point(alpha)
    return moved if moved.cost <= best.cost * (1 + INVARIANT) + INVARIANT else best
