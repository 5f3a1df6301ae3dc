"""Essential conditions as positions and values in the state's array.

A solve keeps them by starting from a state that has the right boundary values and correcting it by increments that vanish there,
so one eliminated matrix serves every right-hand side and every time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from dolfinx import fem
from petsc4py import PETSc

from cffem.engine import data
from cffem.engine.boundary import BoundaryCondition, Dirichlet, Tangential
from cffem.engine.discretisation import Boundary, Discretisation
from cffem.engine.traces import essential
from cffem.forms.elements import HCURL, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field
from cffem.symbols.operators import Vec


class EssentialConditions:
    """All Dirichlet and tangential conditions of an experiment, and zeros of paired multipliers.

    Attributes:
        owned: local positions of the constrained unknowns that this rank owns.
        rows: their global numbers, as PETSc index array.
        steady: whether no value depends on time.
    """

    def __init__(self, discretisation: Discretisation, conditions: Any = None):
        self.spaces = discretisation.spaces
        self.boundary = discretisation.boundary
        declared = self.boundary.declared if conditions is None else conditions
        self.entries = [self._entry(c) for c in declared if isinstance(c, Dirichlet | Tangential)]
        self.steady = not any(data.depends_on_time(entry.condition.value) for entry in self.entries)
        zeros = [self._zeros(discretisation, follower) for follower in discretisation.followers]
        where = (
            [entry.where for entry in self.entries] + zeros + [pinned_dof(discretisation, m) for m in floating(discretisation)]
        )
        everything = np.unique(np.concatenate(where)) if where else np.empty(0, dtype=np.int64)
        self.owned = everything[everything < self.spaces.owned]
        imap, block = self.spaces.space.dofmap.index_map, self.spaces.space.dofmap.index_map_bs
        self.rows = (self.owned + imap.local_range[0] * block).astype(PETSc.IntType)

    def _entry(self, condition: BoundaryCondition) -> Entry:
        if isinstance(condition, Tangential) and carrier(self.spaces.elements[condition.unknown]).space != HCURL:
            raise InputError(
                f"{condition}: tangential conditions need a Nédélec element; give the components with Dirichlet instead"
            )
        return Entry(self.spaces, self.boundary, condition)

    def _zeros(self, discretisation: Discretisation, follower: Field) -> np.ndarray:
        """Positions of a paired multiplier or auxiliary field on the parts where its Nédélec field is given."""
        boundary = self.boundary
        names = tuple(
            part for part, conditions in boundary.conditions.items() if follower in discretisation.pinned_with(conditions)
        )
        return positions(self.spaces, boundary, follower, names)

    def set_values(self, state: np.ndarray, time: float) -> None:
        """Put the boundary values at a time into a state (local array of owned values)."""
        state[self.owned] = 0.0
        for entry in self.entries:
            entry.set_values(state, self.spaces.owned, time)


class Entry:
    """One essential condition: where it holds and what it says."""

    def __init__(self, spaces: Any, boundary: Boundary, condition: BoundaryCondition):
        self.condition = condition
        unknown = condition.unknown
        own, _ = spaces.own(unknown)
        dofs = local_dofs(own, boundary, condition.on)
        if isinstance(condition.field, Component):
            if own.dofmap.index_map_bs == 1:
                raise InputError(f"{condition}: single components can be given on Lagrange elements only")
            dofs = dofs[dofs % own.dofmap.index_map_bs == condition.field.index]
        self.own_dofs = dofs
        self.where = spaces.dofs(unknown)[dofs].astype(np.int64)
        self.values = fem.Function(own)
        self.time: float | None = None
        self.timeless = not data.depends_on_time(condition.value)

    def set_values(self, state: np.ndarray, owned: int, time: float) -> None:
        """Write the values at a time."""
        if self.time is None or (self.time != time and not self.timeless):
            data.interpolate(self.values, self._value(), self.condition.unknown, time, str(self.condition))
            self.time = time
        mine = self.where < owned
        state[self.where[mine]] = self.values.x.array[self.own_dofs[mine]]

    def _value(self) -> Any:
        field = self.condition.field
        if not isinstance(field, Component):
            return self.condition.value
        parts: list[Any] = [0] * field.field.dim
        parts[field.index] = self.condition.value
        return Vec(*parts)


def local_dofs(space: Any, boundary: Boundary, names: tuple[str, ...]) -> np.ndarray:
    """Unrolled local dofs of a space on some boundary parts."""
    blocks = fem.locate_dofs_topological(space, boundary.facet_dimension, boundary.facets_of(names).astype(np.int32))
    size = space.dofmap.index_map_bs
    return (blocks[:, None] * size + np.arange(size)).ravel()


def positions(spaces: Any, boundary: Boundary, unknown: Field, names: tuple[str, ...]) -> np.ndarray:
    """Positions of a field's boundary unknowns in the state's array."""
    own, _ = spaces.own(unknown)
    return spaces.dofs(unknown)[local_dofs(own, boundary, names)].astype(np.int64)


def floating(discretisation: Discretisation) -> list[Field]:
    """Multipliers that are determined only up to a constant: the constrained field's flux is given on the whole boundary."""
    if discretisation.multiplier is None:
        return []
    multiplier = discretisation.multiplier[0]
    constraint = discretisation.experiment.constraint
    conditions = discretisation.boundary.conditions
    if not hasattr(constraint, "field") or multiplier.shape != ():
        return []
    leader = constraint.field
    if carrier(discretisation.spaces.elements[leader]).space == HCURL:
        held = any(multiplier in discretisation.pinned_with(c) for c in conditions.values())
        return [] if held else [multiplier]
    return [multiplier] if all(essential(c, leader) for c in conditions.values()) else []


def pinned_dof(discretisation: Discretisation, unknown: Field) -> np.ndarray:
    """The position of one unknown of a field, the same on any number of ranks: the first in the order of coordinates."""
    spaces, comm = discretisation.spaces, discretisation.mesh.comm
    own, _ = spaces.own(unknown)
    count = own.dofmap.index_map.size_local
    points = own.tabulate_dof_coordinates()[:count]
    best = tuple(points[order[0]]) if len(order := np.lexsort(points.T[::-1])) else (np.inf,) * 3
    chosen = min(range(comm.size), key=comm.allgather(tuple(float(c) for c in best)).__getitem__)
    mine = [order[0]] if comm.rank == chosen else []
    return spaces.dofs(unknown)[np.asarray(mine, dtype=np.int64)].astype(np.int64)
