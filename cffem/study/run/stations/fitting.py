# SPDX-License-Identifier: MIT
"""Station: the experiment of a fitted model: initial and boundary values that it does not
state come from the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.study.run.auxiliary_fields import plain_equation, second_derivatives, with_auxiliaries
from cffem.study.run.measured_fields import measures
from cffem.study.run.starting import start_with_rate
from cffem.symbols.operators import dt
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.experiment import Experiment

if TYPE_CHECKING:
    import sympy as sp

    from cffem.data.rows.weak_blocks import WeakRowPlan
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


def from_data(experiment: Experiment, data: Dataset, library: Library | System) -> Experiment:
    """The experiment with the initial values that it does not state, and all boundary values
    if it states none, from the data.
    """
    smooth, noise = denoised(data, library)
    measured = [u for u in library.unknowns if measures(smooth, u)]
    initial = dict(experiment.initial)
    for unknown in measured:
        order = library.equations[unknown].time_order
        if order == 1:
            initial.setdefault(unknown, smooth)
        elif (
            order == 2 and experiment.time is not None and not {unknown, dt(unknown)} <= {*initial}
        ):
            started = start_with_rate(
                dataclasses.replace(data, values=filled(data, smooth)),
                noise,
                float(experiment.time.start),
            )
            initial.setdefault(unknown, started)
            initial.setdefault(dt(unknown), started)
    derived = [field for field in second_derivatives(library) if measures(smooth, field)]
    boundary = list(experiment.boundary) or [
        Dirichlet(unknown, smooth, on="all") for unknown in [*measured, *derived]
    ]
    return dataclasses.replace(experiment, initial=initial, boundary=boundary)


def denoised(data: Dataset, library: Library | System) -> tuple[Dataset, Mapping[sp.Expr, float]]:
    """The data without their noise, as far as it can be removed, and its size; as they are
    where that is not possible.
    """
    from cffem.data.rows.weak_blocks import WeakRowPlan

    try:
        plan = WeakRowPlan(data, plain_equation(library))
        values = with_auxiliaries(plan, library)
        return dataclasses.replace(data, values=values, mask=still_missing(plan)), {
            name: model.sd for name, model in plan.noise.items()
        }
    except ValueError:
        return data, {}


def still_missing(plan: WeakRowPlan) -> np.ndarray | None:
    """Where the values of a plan are missing: where its data are, but for gaps that are bridged."""
    over = getattr(plan.sampling, "bridge", None)
    if over is None:
        return plan.data.mask
    return over.open if over.open.any() else None


def filled(data: Dataset, smooth: Dataset) -> dict[sp.Expr, np.ndarray]:
    """The measured values, with the smooth ones where a value is missing."""
    if data.mask is None:
        return dict(data.values)
    return {
        part: np.where(data.mask, smooth.values[part], array) for part, array in data.values.items()
    }
