# SPDX-License-Identifier: MIT
"""The net flux that measured boundary values carry, and the smallest change of them that removes
it.

Where all of v·n is given, div v = 0 needs ∮ v·n = 0. Measured values g have noise and miss this by
F = ∮ g·n. Among all changes δ of the measured values with ∮ δ·n = −F the smallest in L2(Γ), Γ being
the part that is measured, solves

    ∮_Γ δ·w = λ ∮_Γ w·n   for all w,

in the continuous case δ = −F n/|Γ|. Values given by formulas are exact and stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import ufl
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.scope import Scope
from cffem.forms.elements import HDIV
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.assembly.dirichlet import Entry
    from cffem.engine.assembly.discretisation import Discretisation

log = logging.getLogger(__name__)

# A change of more than this share of the values is no noise: the data do not belong to a closed
# boundary.
MOST_CHANGE = 0.5


@dataclass(frozen=True)
class FluxCorrection:
    """What was done to measured boundary values so that they have no net flux.

    Attributes:
        flux: ∮ g·n of the values as they were given.
        correction: ‖δ‖ in L2 of the measured part of the boundary.
        relative: the same relative to ‖g‖ there.
        time: when; of all times the one with the largest relative change.
        parts: the names of the measured parts.
    """

    flux: float
    correction: float
    relative: float
    time: float
    parts: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the measured values on {', '.join(self.parts)} carry a net flux of {self.flux:.3g} "
            f"(t = {self.time:g}), which a "
            f"change of {self.correction:.2g} in L2, {100 * self.relative:.2g} % of them, removes"
        )


class FluxBalance(Scope):
    """Removes the net flux of measured boundary values.

    Args:
        flux: c(v_i, 1) for all owned unknowns of the state.
        places: local positions of the owned unknowns that are measured.
        mass: the mass matrix of these unknowns on the measured part.
        parts: the names of the measured parts.

    Attributes:
        largest: the largest correction so far, or None.
    """

    def __init__(
        self,
        flux: np.ndarray,
        places: np.ndarray,
        mass: PETSc.Mat,
        parts: tuple[str, ...],
        comm: MPI.Comm,
    ):
        self.flux, self.places, self.mass, self.parts, self.comm = flux, places, mass, parts, comm
        self.largest: FluxCorrection | None = None
        self.own(mass)
        self._values, self._image = self.own_all(mass.createVecs())
        self._image.array[:] = flux[places]
        with Scope() as scope:
            solver = scope.own(LinearSolver(mass))
            solver.solve(self._image, self._values, "the smallest change of boundary values")
        strength = self._image.dot(self._values)
        self.direction, self._size = self._values.array_r / strength, strength**-0.5

    def remove(self, state: np.ndarray, time: float) -> None:
        """Change the measured values in a state so that nothing flows in or out on balance.

        Raises:
            InputError: the change would be more than noise.
        """
        flux = self.comm.allreduce(float(self.flux @ state[: len(self.flux)]))
        self._values.array[:] = state[self.places]
        self.mass.mult(self._values, self._image)
        size, correction = max(self._values.dot(self._image), 0.0) ** 0.5, abs(flux) * self._size
        if correction <= np.finfo(float).eps * size:
            return
        found = FluxCorrection(
            flux, correction, correction / size if size else np.inf, time, self.parts
        )
        if found.relative > MOST_CHANGE:
            raise InputError(
                f"{found}, which is more than noise; give values without net flux, or leave a "
                "part free with Neumann"
            )
        state[self.places] -= flux * self.direction
        if self.largest is None and self.comm.rank == 0:
            log.warning("%s", found)
        if self.largest is None or found.relative > self.largest.relative:
            self.largest = found


def flux_balance(
    discretisation: Discretisation, entries: Sequence[Entry], flux: np.ndarray
) -> FluxBalance | None:
    """What removes the net flux of measured boundary values; None where nothing measured
    carries any. Collective.
    """
    constraint, comm = discretisation.experiment.constraint, discretisation.mesh.comm
    measured = [
        e for e in entries if e.condition.unknown in constraint.fields and e.condition.is_balanced
    ]
    if not measured or not constraint.homogeneous:
        return None
    mask = np.zeros(len(flux), dtype=bool)
    for entry in measured:
        mask[entry.mine] = True
    for entry in entries:
        if entry not in measured:
            mask[entry.mine] = False
    if comm.allreduce(float(np.abs(flux[mask]).sum())) == 0.0:
        return None
    boundary, spaces = discretisation.boundary, discretisation.spaces
    parts = tuple(
        part
        for part, given in boundary.conditions.items()
        if any(e.condition in given for e in measured)
    )
    measure = boundary.measure(tuple(boundary.tags[part] for part in parts))
    trial, normal = (
        spaces.parts(ufl.TrialFunction(spaces.space)),
        ufl.FacetNormal(discretisation.mesh.ufl_domain()),
    )
    form = 0
    for field in {e.condition.unknown for e in measured}:
        u, w = trial[field], discretisation.tests[field]
        by_normal = discretisation.kinds[field] == HDIV
        form += (
            ufl.dot(u, normal) * ufl.dot(w, normal) if by_normal else ufl.inner(u, w)
        ) * measure
    matrix = _compat.assemble_matrix(_compat.form(form, comm))
    places = np.flatnonzero(mask)
    rows = PETSc.IS().createGeneral(spaces.global_rows(places), comm=comm)
    mass = matrix.createSubMatrix(rows, rows)
    for thing in (matrix, rows):
        thing.destroy()
    return FluxBalance(flux, places, mass, parts, comm)
