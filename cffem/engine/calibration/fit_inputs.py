# SPDX-License-Identifier: MIT
"""What a fit is given: readings, bounds, priors and known coefficients, checked before anything is
solved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.calibration.calibration_settings import CalibrationSettings
from cffem.engine.calibration.fit_case import FitCase
from cffem.engine.calibration.fit_problem import FitMemory, FitProblem
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.problem.observations import Observation
from cffem.symbols.real_values import real_values

if TYPE_CHECKING:
    from cffem.engine.observer import Observer
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


def least_squares_of(
    library: Library | System,
    experiments: Sequence[Experiment],
    readings: Sequence[object],
    settings: CalibrationSettings,
    petsc_options: PetscOptions | None = None,
    observer: Observer | None = None,
    memory: FitMemory | None = None,
) -> FitProblem:
    """The least squares of a calibration, before anything is solved.

    Args:
        library, experiments, readings, petsc_options: see `calibrate`.
        settings: where it starts and what is known.
        observer: of the solves.
        memory: of an earlier run of the same fit.
    """
    known = {k: float(v) for k, v in (settings.fixed or {}).items()}
    names = tuple(n for n in library.names if n not in known)
    for what in (settings.start, known, settings.bounds, settings.prior):
        _check_names(what or {}, library.names)
    if not names:
        raise InputError("all coefficients are fixed, so that nothing is left to fit")
    begin = {n: float((settings.start or {}).get(n, 0.0)) for n in names}
    if settings.start is None and any(e.time is None for e in experiments):
        raise InputError(
            "a steady problem has no solution with all coefficients zero: give start={term: number}"
        )
    low, high = _bounds(settings.bounds or {}, names)
    prior = _prior(settings.prior or {}, names)
    cases = []
    for one, values in zip(experiments, readings, strict=True):
        observation, data = observed_values(values)
        first = {**begin, **known}
        case = FitCase(library, one, observation, data, first, names, petsc_options, observer)
        if len(data) != len(case.operator):
            raise InputError(
                f"the observation has {len(case.operator)} readings, but {len(data)} values are "
                "given"
            )
        cases.append(case)
    if len({case.operator.noise.known for case in cases}) > 1:
        raise InputError("either all experiments have the noise of their readings or none has")
    spreads = [d for case in cases if case.modes is not None for d in case.modes.deviations]
    free = np.full(len(spreads), np.inf)
    bounds = np.concatenate([low, -free]), np.concatenate([high, free])
    mean, spread = prior
    whole = np.concatenate([mean, np.zeros(len(spreads))])
    return FitProblem(
        cases,
        names,
        bounds,
        (whole, np.concatenate([spread, np.array(spreads)])),
        settings.loss,
        memory=memory,
    )


def observed_values(readings: Any) -> tuple[Observation, np.ndarray]:
    """The observation and the values of readings."""
    if isinstance(readings, tuple) and len(readings) == 2 and isinstance(readings[0], Observation):
        observation, values = readings
    elif hasattr(readings, "observation") and hasattr(readings, "readings"):
        observation, values = readings.observation, readings.readings
    else:
        raise InputError(
            "readings are what cf.Dataset.from_readings(table) gives, or a pair of an observation "
            f"and its values, not {type(readings).__name__}; fields are fitted with cf.Screening"
        )
    try:
        array = real_values(values, "the array of readings").ravel()
    except InputError:
        raise
    except (TypeError, ValueError):
        array = np.array([np.nan])
    if not np.isfinite(array).all():
        raise InputError("the values of readings must be finite numbers; leave out gaps")
    return observation, array


def _check_names(given: Mapping[str, object], names: Sequence[str]) -> None:
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise InputError(f"the library has no term {unknown!r}; {nearest(str(unknown), names)}")


def _bounds(
    bounds: Mapping[str, tuple[float | None, float | None]], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    given = [bounds.get(name, (None, None)) for name in names]
    pairs = [(-np.inf if a is None else a, np.inf if b is None else b) for a, b in given]
    for name, (low, high) in zip(names, pairs, strict=True):
        if not low < high:
            raise InputError(f"the bounds of {name!r} need low < high, not ({low}, {high})")
    low, high = np.array(pairs, dtype=float).T
    return low, high


def _prior(
    prior: Mapping[str, tuple[float, float]], names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    pairs = [prior.get(name, (0.0, np.inf)) for name in names]
    for name, (_, spread) in zip(names, pairs, strict=True):
        if not spread > 0:
            raise InputError(f"the prior of {name!r} needs a positive deviation, not {spread}")
    mean, spread = np.array(pairs, dtype=float).T
    return mean, spread
