# SPDX-License-Identifier: MIT
"""The readings of one experiment and the model that is solved for them. One model serves all places
of a fit: spaces, forms and matrices of terms are made once, and other coefficients are other
numbers. Nonlinear steady solutions are followed from one place to the next.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.assembly.fluxes.transport import check_transport
from cffem.engine.model import Model
from cffem.engine.response.observation_operator import ObservationOperator
from cffem.engine.response.sensitivities import (
    nuisance_matrix,
    null_columns,
    sensitivity_matrix,
)
from cffem.engine.steady.steady_solve import BranchStart
from cffem.engine.time.amplitudes import modes_of
from cffem.engine.time.wellposed import backward_model
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.observer import Observer
    from cffem.engine.solution import Solution
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.observations import Observation
    from cffem.symbols.problem.system import System


class FitCase:
    """The readings of one experiment and the model that is solved for them.

    Args:
        library, experiment: the model.
        observation: what was read.
        data: the values.
        coefficients: where the fit starts, all terms.
        names: the terms that are fitted.
        options: PETSc options.
        observer: of the solves.
    """

    def __init__(
        self,
        library: Library | System,
        experiment: Experiment,
        observation: Observation,
        data: np.ndarray,
        coefficients: Mapping[str, float],
        names: Sequence[str],
        options: PetscOptions | None = None,
        observer: Observer | None = None,
    ):
        self.library, self.experiment, self.observation = library, experiment, observation
        self.data, self.names, self.options = data, tuple(names), options
        self.fixed = dict(coefficients)
        self.solves = self.tangents = self.adjoints = 0
        self.model = Model(library, coefficients, experiment, options, observer=observer)
        self.operator: ObservationOperator = self.model.observation(observation)
        self.modes = modes_of(self.model) if experiment.uncertain else None
        self._others: dict[tuple[str, ...], Model] = {}

    def keeping(self, names: Sequence[str]) -> FitCase:
        """The same readings and model with fewer terms fitted, the others zero."""
        smaller = copy.copy(self)
        smaller.names = tuple(names)
        smaller.fixed = {n: v if n not in self.names else 0.0 for n, v in self.fixed.items()}
        return smaller

    def model_for(self, coefficients: Mapping[str, float]) -> Model:
        """The model, or another one where signs of coefficients have changed what is upstream for
        fluxes between cells.
        """
        discretisation = self.model.discretisation
        if not discretisation.turned(coefficients):
            if discretisation.upwind_terms:
                check_transport(discretisation, coefficients)
            return self.model
        key = tuple(n for n in discretisation.upwind_terms if coefficients[n] < 0)
        if key not in self._others:
            self._others[key] = Model(self.library, coefficients, self.experiment, self.options)
        return self._others[key]

    @property
    def amplitudes(self) -> int:
        """How many amplitudes of uncertain data there are."""
        return 0 if self.modes is None else len(self.modes)

    def solve(
        self,
        coefficients: Mapping[str, float],
        amplitudes: Sequence[float] = (),
        near: Solution | None = None,
    ) -> Solution:
        """The solution at other coefficients and amplitudes, with its stages.

        Args:
            coefficients: of the fitted terms.
            amplitudes: of uncertain data.
            near: a solution to follow a nonlinear steady one from, in place of that of the start.
        """
        self.solves += 1
        wanted = {**self.fixed, **coefficients}
        change = Intervention(
            tuple((n, "set", float(v)) for n, v in wanted.items()),
            amplitudes=tuple(map(float, amplitudes)),
        )
        model = self.model_for(wanted)
        if near is not None and self.follows and near.model is model:
            at = near.intervention.apply(model.coefficients)
            model.follow_from = BranchStart(at, near.states[0])
        try:
            return model.solve(change, stages=True)
        finally:
            model.follow_from = None

    @property
    def follows(self) -> bool:
        """Whether a solution is followed from another one: where several may exist."""
        return self.experiment.time is None and not self.model.equation.affine and not self.modes

    def residual(self, solution: Solution) -> np.ndarray:
        """Readings minus data in units of the noise."""
        operator = solution.model.observation(self.observation)
        return operator.noise.whitened(operator.values(solution) - self.data)

    def columns(self, solution: Solution) -> np.ndarray:
        """The derivative of the residual, terms before amplitudes; columns that are zero in exact
        arithmetic are zero.
        """
        self.tangents += 1
        operator = solution.model.observation(self.observation)
        matrix = sensitivity_matrix(solution, operator, self.names)
        null = null_columns(solution.model, solution, self.names, thorough=False)
        matrix = matrix * np.array([name not in null for name in self.names])
        return np.column_stack([matrix, nuisance_matrix(solution, operator)])

    def backward(self, coefficients: Mapping[str, float]) -> str:
        """Why an equation with these coefficients runs backward in time; empty where it does not
        for certain.
        """
        return backward_model(self.model, coefficients)

    def destroy(self) -> None:
        """Free PETSc objects; collective."""
        for model in (*self._others.values(), self.model):
            model.destroy()
