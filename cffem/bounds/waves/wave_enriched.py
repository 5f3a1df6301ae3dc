# SPDX-License-Identifier: MIT
"""Sharper bounds for equations of second order in time: the same problem with one degree more and
half the time step, certified.

For the richer solution U* ‖u − u_h‖ ≤ ‖U* − u_h‖ + η(U*), and for a score |δ − δ_h| ≤ |δ* − δ_h| +
η(δ*). The first parts are computed numbers, usually close to the true errors; only the second,
which is of higher order, is overestimated.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import basix
import numpy as np
from dolfinx import fem

from cffem.bounds.certificate import NotCovered
from cffem.bounds.parabolic.enriched import Enriched
from cffem.bounds.scalar_problem import only_unknown
from cffem.bounds.waves.maxwell import MaxwellCertifier
from cffem.bounds.waves.scalar_waves import WaveCertifier
from cffem.bounds.waves.wave_certifier import SecondOrderCertifier
from cffem.bounds.waves.wave_paths import Trajectory
from cffem.engine.model import Model
from cffem.symbols.problem.conditions import Dirichlet, Tangential
from cffem.symbols.problem.constraint_classes import DivergenceFree

if TYPE_CHECKING:
    from cffem.engine.solution import Solution


FAMILIES = {
    basix.ElementFamily.P: "Lagrange",
    basix.ElementFamily.N1E: "N1curl",
    basix.ElementFamily.N2E: "N2curl",
}
# Steps of the enriched trajectory for one of the model.
FINER = 2


class EnrichedSecondOrderCertifier(Enriched):
    """Certificates for one model by means of the same model with one degree more and twice as many
    steps.

    Args:
        model: the model.

    Raises:
        NotCovered: a hypothesis fails; the message says which.
    """

    def __init__(self, model: Model):
        unknown = only_unknown(model.library)
        kind: type[SecondOrderCertifier] = MaxwellCertifier if unknown.shape else WaveCertifier
        # What the theorem asks of the model itself is asked before anything is solved.
        kind(model).destroy()
        self.model, self.unknown, self.how = model, unknown, "one degree and half the step"
        element, experiment = model.spaces.elements[unknown], model.experiment
        window = experiment.time
        if window is None:
            raise NotCovered("the problem is steady")
        if element.element_family not in FAMILIES:
            raise NotCovered("there is no element of one degree more")
        # In this class zero is prescribed on the whole boundary, so names of its parts are not
        # needed.
        wall = Tangential(unknown, 0) if unknown.shape else Dirichlet(unknown, 0)
        richer = dataclasses.replace(
            experiment,
            mesh=model.discretisation.mesh,
            elements={unknown: (FAMILIES[element.element_family], element.degree + 1)},
            boundary=[wall],
            time=window.divided(FINER),
            constraint=None if experiment.constraint is None else DivergenceFree(unknown),
        )
        self.richer = model.in_experiment(richer, model.observer)
        self.certifier = kind(self.richer)

    def _raised(self, solution: Solution) -> np.ndarray:
        """The states of a solution of the model in the richer space, at the finer levels."""
        function, columns = fem.Function(self.certifier.space), []
        for k in range(len(self.model.times)):
            function.interpolate(solution.function(self.unknown, k))
            columns.append(function.x.array[: self.certifier.owned].copy())
        levels = np.stack(columns, axis=1)
        result = np.repeat(levels, 2, axis=1)[:, :-1]
        result[:, 1::2] = (levels[:, 1:] + levels[:, :-1]) / 2
        return result

    def _distance(self, richer: Any, solution: Solution) -> Trajectory:
        """U* − u_h, whose rates are not needed."""
        states = self.certifier.path(richer).states - self._raised(solution)
        return Trajectory(states, np.zeros_like(states), self.richer.times)

    def _size(self, distance: Trajectory, norm: str) -> float:
        # The certifier has refused every norm but L2 by now.
        return self.certifier.ruler.norm(distance)
