# SPDX-License-Identifier: MIT
"""The problem under other boundary conditions or without its constraint: what an intervention on
the data needs besides numbers.

Changed essential data only change boundary values, so that all matrices are shared. Changed natural
data are part of the forms, which are made again for them. A constraint that is released leaves its
multiplier without work: it is held at zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.assembly.carried import Judge, Release, released
from cffem.engine.assembly.dirichlet import EssentialConditions
from cffem.engine.assembly.equation import Equation
from cffem.engine.assembly.experiment_checks import check_conditions, check_open_parts
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.march import Stage
from cffem.forms.elements import HDIV, L2, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field
from cffem.symbols.problem.conditions import BoundaryCondition, Dirichlet, Tangential
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    import sympy as sp

    from cffem.engine.mesh.boundary_parts import Boundary
    from cffem.engine.solve.stage_types import PetscOptions


class Variants:
    """Stage solvers for the boundary conditions of interventions, each made once.

    Args:
        equation: the factual equation.
        essential: the factual essential conditions.
        options: PETSc options.
    """

    def __init__(self, equation: Equation, essential: EssentialConditions, options: PetscOptions):
        self.equation, self.options = equation, options
        self.discretisation = equation.discretisation
        self._stages: dict[Hashable, Stage] = {
            ((), False, None): Stage(equation, essential, options, SolveRecord())
        }
        self._releases: dict[Hashable, Release | None] = {}
        self._judges: dict[Hashable, dict[Field, Judge | None]] = {}

    def release(
        self, change: Intervention, factual: Mapping[str, float], times: np.ndarray
    ) -> Release | None:
        """The essential conditions that the changed equation no longer carries; None where
        all are kept.
        """
        if not (change.carried and change.deleted):
            return None
        coefficients = change.apply(factual)
        key = (change.conditions, tuple(sorted(coefficients.items())))
        if key not in self._releases:
            discretisation = self.discretisation
            if change.conditions:
                discretisation = discretisation.with_conditions(
                    with_changes(discretisation.boundary, change.conditions)
                )
            before = (change.conditions, tuple(sorted(factual.items())))
            judges = self._judges.setdefault(before, {})
            self._releases[key] = released(discretisation, coefficients, factual, times, judges)
        return self._releases[key]

    def stage(self, change: Intervention, release: Release | None = None) -> Stage:
        """The stage solver for the boundary conditions and the constraint that an
        intervention leaves.
        """
        key = (
            change.conditions,
            change.released,
            id(release) if release is not None and release.changes else None,
        )
        if key not in self._stages:
            if change.released and self.discretisation.multiplier is None:
                raise InputError("this experiment has no constraint that could be released")
            self._stages[key] = self._new(change, release)
        return self._stages[key]

    def _new(self, change: Intervention, release: Release | None) -> Stage:
        discretisation, equation = self.discretisation, self.equation
        for condition in change.conditions:
            if not isinstance(condition, BoundaryCondition):
                raise InputError(
                    "boundary(…) takes Dirichlet, Tangential, Natural, Neumann or Robin "
                    f"conditions, not {condition}"
                )
            if condition.unknown not in discretisation.unknowns:
                raise InputError(f"{condition}: {condition.unknown} is no field of this model")
        discretisation.boundary.check_names(change.conditions)
        check_conditions(change.conditions, discretisation.mesh)
        conditions = with_changes(discretisation.boundary, change.conditions)
        if change.conditions:
            changed = discretisation.with_conditions(conditions)
            if not change.released:
                check_open_parts(changed)
            if not all(
                isinstance(c, Dirichlet | Tangential) and not self._weak(c)
                for c in change.conditions
            ):
                equation = Equation(changed)
            discretisation = changed
        if release is not None and release.natural:
            equation = equation.without(release.natural)
        essential = EssentialConditions(discretisation, released=change.released, release=release)
        return Stage(equation, essential, self.options, SolveRecord())

    def _weak(self, condition: BoundaryCondition) -> bool:
        space = carrier(self.discretisation.spaces.elements[condition.unknown]).space
        return space == L2 or (
            space == HDIV and condition.unknown in self.discretisation.leaders.values()
        )

    def destroy(self) -> None:
        """Free the solvers and the equations of variants; collective."""
        for stage in self._stages.values():
            stage.destroy()
            if stage.equation is not self.equation:
                stage.equation.destroy()
        self._stages.clear()


def with_changes(
    boundary: Boundary, changes: Sequence[BoundaryCondition]
) -> list[BoundaryCondition]:
    """The declared conditions part by part, with changes in the place of those on the same field
    there.

    Of two changes on one field and part the later counts, unless they are of different kinds and
    give different parts of a vector.
    """
    kept = [
        replace(c, on=(part,))
        for c in boundary.declared
        for part in boundary.conditions
        if any(mine is c for mine in boundary.conditions[part])
    ]
    new: list[BoundaryCondition] = []
    for change in changes:
        parts = {part for part in boundary.conditions if part in change.on or "all" in change.on}
        kept = [c for c in kept if not (c.on[0] in parts and _overlap(c.field, change.field))]
        new = [
            c
            for c in new
            if not (c.on[0] in parts and _overlap(c.field, change.field) and _same_part(c, change))
        ]
        new += [replace(change, on=(part,)) for part in boundary.conditions if part in parts]
    return kept + new


def _same_part(a: BoundaryCondition, b: BoundaryCondition) -> bool:
    """Whether two conditions on a field cannot hold together."""
    return a.unknown.shape == () or type(a) is type(b)


def _overlap(a: sp.Expr, b: sp.Expr) -> bool:
    """Whether two conditions are on the same field or component."""
    if isinstance(a, Component) and isinstance(b, Component):
        return a == b
    return (a.field if isinstance(a, Component) else a) == (
        b.field if isinstance(b, Component) else b
    )
