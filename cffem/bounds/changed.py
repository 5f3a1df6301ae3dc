# SPDX-License-Identifier: MIT
"""The problem that an intervention makes of a model, as certificates see it: its forcing, initial
and boundary values.

Certificates read the data of a problem off its experiment and take coefficients from the
intervention of a solution. Where an intervention changes data as well, the experiment of the
changed problem is put in the place of the model's own.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from cffem.bounds.certificate import NotCovered
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.variants import with_changes
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.experiment import Experiment


class ChangedProblem:
    """A model whose experiment has the data of an intervention; spaces and matrices are the
    model's.

    Args:
        model: the model.
        solution: a solution of the changed problem, whose intervention says what was changed.

    Attributes:
        factual: the solution, with what was changed about coefficients only.

    Raises:
        NotCovered: the intervention releases the constraint.
    """

    def __init__(self, model: Model, solution: Solution):
        change = solution.intervention
        if change.released:
            raise NotCovered(
                "the intervention releases the constraint, of which no theorem here speaks"
            )
        if change.places or change.spells:
            raise NotCovered("the intervention is one in a part of the domain or the window")
        self._model, self.times = model, model.times
        self.experiment = changed_experiment(model, change)
        self.essential = model.prepared(change, SolveRecord()).essential
        self.factual = copy.copy(solution)
        self.factual.intervention = Intervention(change.changes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


def changed_experiment(model: Model, change: Intervention) -> Experiment:
    """The experiment of a model with the forcing, the initial and the boundary values of an
    intervention.
    """
    experiment, boundary = model.experiment, model.discretisation.boundary
    return dataclasses.replace(
        experiment,
        mesh=model.discretisation.given,
        forcing={**dict(experiment.forcing), **dict(change.forcing)},
        initial={**dict(experiment.initial), **dict(change.initial)},
        boundary=[*with_changes(boundary, change.conditions), *boundary.periodic]
        if change.conditions
        else experiment.boundary,
    )
