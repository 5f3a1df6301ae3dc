# SPDX-License-Identifier: MIT
"""Essential conditions as positions and values in the state's array.

A solve keeps them by starting from a state that has the right boundary values and correcting it by
increments that vanish there, so one eliminated matrix serves every right-hand side and every time.
Besides Dirichlet and tangential data these are the zeros of multipliers paired with a Nédélec
field, the unknowns identified by periodicity, and one unknown of a multiplier that is determined up
to a constant only.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp
from dolfinx import fem

from cffem.engine.assembly.carried import Release
from cffem.engine.assembly.discretisation import Discretisation
from cffem.engine.assembly.floating import FloatingConstant, floating_constant
from cffem.engine.assembly.periodic.elimination import Periodicity
from cffem.engine.assembly.trace_values import trace_values
from cffem.engine.inputs import field_data as data
from cffem.engine.inputs.known_data import KnownData, has_known
from cffem.engine.mesh.boundary_parts import Boundary
from cffem.forms.elements import HDIV, L2, carrier
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field
from cffem.symbols.operators import Vec
from cffem.symbols.problem.conditions import BoundaryCondition, Dirichlet, Tangential
from cffem.symbols.problem.measured import MeasuredFields

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.assembly.spaces import Spaces
    from cffem.engine.inputs.known_fields import KnownFields
    from cffem.symbols.problem.conditions import Periodic


# Functions whose derivatives miss something where they jump or bend.
KINKED = (sp.Piecewise, sp.Heaviside, sp.sign, sp.Abs, sp.Max, sp.Min, sp.floor, sp.ceiling, sp.Mod)


@dataclass(frozen=True)
class Clock:
    """Where a Runge–Kutta stage stands: in the step from `start` of length `step`, at the fraction
    c, with γ = a_ii · step.

    Boundary data enter a stage so that the rates they imply are as exact as the scheme: a stiffly
    accurate scheme takes g at the stage's time, the midpoint rule the mean of g at both ends, which
    is what Crank–Nicolson does. A scheme of third or higher order takes the rate ġ at the stage's
    time instead, as it does for unknowns with an equation: its stages are of first order, and rates
    that follow from values at the stages would be, too.
    """

    start: float
    step: float
    fraction: float
    gamma: float
    stiffly_accurate: bool
    high: bool = False

    @property
    def samples(self) -> tuple[tuple[float, float], ...]:
        """Pairs (weight, time) whose weighted sum is the value that data take in this stage."""
        if self.stiffly_accurate:
            return ((1.0, self.time),)
        return ((1.0 - self.fraction, self.start), (self.fraction, self.start + self.step))

    @property
    def time(self) -> float:
        """The stage's time."""
        return self.start + self.fraction * self.step


class EssentialConditions:
    """All essential conditions of an experiment.

    Args:
        discretisation: spaces and boundary parts.
        conditions: the boundary conditions; the experiment's own if None.
        released: whether the declared constraint is not enforced, so that its multiplier has
            nothing to do.
        release: the declared conditions that a deleted equation does not carry, if there are any.

    Attributes:
        owned: local positions of the unknowns that no increment changes, on this rank.
        rows: their global numbers, as PETSc index array.
        steady: whether no value depends on time.
        periodicity: the identification of periodic unknowns, or None.
        floating: what makes a multiplier that is determined up to a constant unique, or None.
    """

    def __init__(
        self,
        discretisation: Discretisation,
        conditions: Sequence[BoundaryCondition | Periodic] | None = None,
        released: bool = False,
        release: Release | None = None,
    ):
        self.spaces = discretisation.spaces
        self.boundary = discretisation.boundary
        self._known = discretisation.known
        self.periodicity: Periodicity | None = discretisation.periodicity
        declared = self.boundary.declared if conditions is None else conditions
        orders = {
            f: equation.time_order for f, equation in discretisation.library.equations.items()
        }
        given = [
            (i, c)
            for i, c in enumerate(declared)
            if isinstance(c, Dirichlet | Tangential) and not self._weakly(c)
        ]
        self.entries = [
            entry
            for i, c in given
            for entry in self._entries(i, c, orders.get(c.unknown, 0), release)
        ]
        self.steady = all(entry.timeless for entry in self.entries)
        followers = [*discretisation.followers, *(a.field for a in discretisation.auxiliaries)]
        zeros = [self._zeros(discretisation, follower) for follower in followers]
        if released and discretisation.multiplier is not None:
            zeros.append(self.spaces.dofs(discretisation.multiplier[0]).astype(np.int64))
        self._zero_positions = self._mine(zeros)
        self._traces = trace_values(
            discretisation,
            lambda field, names: self._mine([positions(self.spaces, self.boundary, field, names)]),
        )
        self.steady = self.steady and all(trace.timeless for trace in self._traces)
        held = self._mine([entry.where for entry in self.entries] + zeros)
        if self.periodicity is not None:
            self.periodicity.check(held)
            held = self._mine([held, self.periodicity.slaves])
        self.floating: FloatingConstant | None = None
        # Amplitudes of uncertain boundary values with the functions that they multiply.
        self.shifts: Sequence[tuple[float, BoundaryMode]] = ()
        self._hold(held)
        # The conditions with the constraint enforced, as initial data always have it.
        self.constrained = (
            EssentialConditions(discretisation, conditions, release=release) if released else self
        )
        if not released:
            self.floating = floating_constant(discretisation, self)
        if self.floating is not None:
            self._hold(self._mine([held, self.floating.pinned]))

    def _hold(self, positions: np.ndarray) -> None:
        self.owned = positions
        self.rows = self.spaces.global_rows(positions)

    def _mine(self, positions: list[np.ndarray]) -> np.ndarray:
        everything = (
            np.unique(np.concatenate(positions)) if positions else np.empty(0, dtype=np.int64)
        )
        return everything[everything < self.spaces.owned]

    def holding(self, mask: np.ndarray) -> EssentialConditions:
        """The same conditions, with the unknowns where a mask is not zero held as they are too."""
        result = copy.copy(self)
        result._hold(self._mine([self.owned, np.flatnonzero(mask)]))
        return result

    def _weakly(self, condition: BoundaryCondition) -> bool:
        """Whether a condition is part of the forms: on a discontinuous field, or on the
        tangential part of an H(div) field.
        """
        space = carrier(self.spaces.elements[condition.unknown]).space
        return space == L2 or (space == HDIV and isinstance(condition, Tangential))

    def _entries(
        self, index: int, condition: BoundaryCondition, order: int, release: Release | None
    ) -> list[Entry]:
        """A condition where it is kept: everywhere, or piece by piece where an equation does
        not carry all of it.
        """
        if release is None or index not in release.kept:
            return [Entry(self.spaces, self.boundary, condition, order, self._known)]
        return [
            Entry(self.spaces, self.boundary, condition, order, self._known, facets, part)
            for part, facets in release.kept[index]
        ]

    def _zeros(self, discretisation: Discretisation, follower: Field) -> np.ndarray:
        """Positions of a paired multiplier or auxiliary field on the parts where it is held
        at zero.
        """
        boundary = self.boundary
        names = tuple(
            part
            for part, conditions in boundary.conditions.items()
            if follower in discretisation.pinned_with(conditions)
        )
        return positions(self.spaces, boundary, follower, names)

    # Values
    # ----------------------------------------------------------------------------------------------

    def set_values(self, state: np.ndarray, time: float) -> None:
        """Put the boundary values at a time into a state (local array of owned values)."""
        state[self._zero_positions] = 0.0
        for trace in self._traces:
            trace.put(state, time)
        for entry in self.entries:
            entry.put(state, entry.values_at(time))
        for amplitude, mode in self.shifts:
            state[mode.mine] += amplitude * mode.values_at(time)
        self.complete(state)
        if self.floating is not None:
            self.floating.admit(state, time)

    def set_velocities(self, velocity: np.ndarray, time: float) -> None:
        """Put the time derivatives of the boundary values into the velocity of fields of
        second order in time.
        """
        for entry in self.entries:
            if entry.order == 2:
                entry.put(velocity, entry.values_at(time, 1))
        for amplitude, mode in self.shifts:
            if mode.order == 2:
                velocity[mode.mine] += amplitude * mode.values_at(time, 1)
        self.complete(velocity)
        if (
            self.floating is not None
            and self.floating.measured is not None
            and any(e.order == 2 for e in self.entries)
        ):
            self.floating.measured.remove(velocity, time)

    def set_rates(self, rate: np.ndarray, time: float, mask: np.ndarray) -> None:
        """Put the time derivatives of boundary values into rates, where a mask over owned
        unknowns is not zero.
        """
        given = np.zeros_like(rate)
        for entry in self.entries:
            if entry.order:
                entry.put(given, entry.values_at(time, 1))
        for amplitude, mode in self.shifts:
            if mode.order:
                given[mode.mine] += amplitude * mode.values_at(time, 1)
        rate[self.owned] = np.where(mask[self.owned] != 0, given[self.owned], rate[self.owned])
        self.complete(rate)

    def set_stage(
        self,
        state: np.ndarray,
        base: np.ndarray,
        clock: Clock,
        speed: np.ndarray | None = None,
    ) -> None:
        """Put boundary values into a stage value W, so that (W − base)/γ and its like are
        accurate rates of the data.

        Args:
            state: W.
            base: where the stage starts.
            clock: where it stands.
            speed: the velocity there, of fields of second order in time.
        """
        state[self._zero_positions] = 0.0
        for trace in self._traces:
            trace.put(state, clock.time)
        for entry in self.entries:
            if entry.order == 0:
                entry.put(state, entry.values_at(clock.time))
                continue
            if entry.by_rates(clock):
                slope = entry.values_at(clock.time, entry.order)
                if entry.order == 2:
                    assert speed is not None
                    slope = speed[entry.mine] + clock.gamma * slope
                entry.put(state, base[entry.mine] + clock.gamma * slope)
                continue
            rate = int(entry.order == 2)
            value = np.zeros(len(entry.mine))
            for weight, time in clock.samples:
                value += weight * entry.values_at(time, rate)
            entry.put(state, base[entry.mine] + clock.gamma * value if rate else value)
        for amplitude, mode in self.shifts:
            state[mode.mine] += amplitude * mode.stage_values(clock)
        self.complete(state)
        if self.floating is not None:
            self.floating.admit(state, clock.time)

    def complete(self, state: np.ndarray) -> None:
        """Give identified unknowns the values of those they are identified with."""
        if self.periodicity is not None:
            self.periodicity.spread(state)

    def restrict(self, residual: PETSc.Vec, state: np.ndarray | None = None) -> None:
        """Make a residual (PETSc vector), of a state where that is given, one for increments
        that keep the conditions.
        """
        if self.periodicity is not None:
            self.periodicity.gather(residual)
        if self.floating is not None:
            if state is not None:
                self.floating.allow(state)
            self.floating.balance(residual)
        residual.array[self.owned] = 0.0

    def centre(self, state: np.ndarray) -> None:
        """Give a multiplier that is determined up to a constant the mean zero."""
        if self.floating is not None:
            self.floating.centre(state)


class Entry:
    """One essential condition: where it holds and what it says.

    Attributes:
        where: positions in the state's local array, ghosts included.
        mine: those that this rank owns.
        order: the order in time of the field's equation.
    """

    def __init__(
        self,
        spaces: Spaces,
        boundary: Boundary,
        condition: BoundaryCondition,
        order: int,
        known: KnownFields,
        facets: np.ndarray | None = None,
        component: int | None = None,
    ):
        self.condition = condition
        self.order = order
        unknown = condition.unknown
        self.own, _ = spaces.own(unknown)
        dofs = (
            local_dofs(self.own, boundary, condition.on)
            if facets is None
            else dofs_of(self.own, boundary, facets)
        )
        if component is not None:
            dofs = dofs[dofs % self.own.dofmap.index_map_bs == component]
        if isinstance(condition.field, Component):
            if self.own.dofmap.index_map_bs == 1:
                raise InputError(
                    f"{condition}: single components can be given on Lagrange elements only"
                )
            dofs = dofs[dofs % self.own.dofmap.index_map_bs == condition.field.index]
        self.where = spaces.dofs(unknown)[dofs].astype(np.int64)
        self.mine = self.where[self.where < spaces.owned]
        self._dofs = dofs[self.where < spaces.owned]
        self._function = fem.Function(self.own)
        self._found: dict[tuple[float, int], np.ndarray] = {}
        self._smooth: dict[int, bool] = {}
        self._facets = boundary.facets_of(condition.on) if facets is None else facets
        self._given = (
            KnownData(self._value(), condition.unknown, known, str(condition))
            if has_known(condition.value)
            else None
        )
        self.timeless = (
            not data.depends_on_time(condition.value)
            if self._given is None
            else self._given.timeless
        )

    def put(self, state: np.ndarray, values: np.ndarray) -> None:
        """Write values at the positions this rank owns."""
        state[self.mine] = values

    def smooth(self, times: int) -> bool:
        """Whether the data are a formula with so many time derivatives, without kinks that may
        move.
        """
        if times not in self._smooth:
            value = self._value()
            parts = value if isinstance(value, tuple | list) else (value,)
            formula = all(
                isinstance(part, int | float | sp.Basic) and not sp.sympify(part).has(*KINKED)
                for part in parts
            )
            # Known fields that move have one derivative, as measurements have.
            formula = formula and (self._given is None or self.timeless)
            try:
                for _ in range(times if formula else 0):
                    value = data.time_derivative(value, str(self.condition))
            except InputError:
                formula = False
            self._smooth[times] = formula
        return self._smooth[times]

    def by_rates(self, clock: Clock) -> bool:
        """Whether a stage takes the rates of the data instead of their values."""
        return clock.high and not self.timeless and self.smooth(self.order)

    def values_at(self, time: float, rate: int = 0) -> np.ndarray:
        """The values at a time, or their first or second time derivatives."""
        if rate and self.timeless:
            return np.zeros(len(self.mine))
        key = (0.0 if self.timeless else float(time), rate)
        if key not in self._found:
            # A step asks for its two ends and its stages again and again, and for nothing else.
            while len(self._found) >= 6:
                self._found.pop(next(iter(self._found)))
            self._fill(time, rate)
            values = self._function.x.array[self._dofs].copy()
            comm = self.own.mesh.comm
            missing, many = (
                comm.allreduce(int(count)) for count in (np.sum(~np.isfinite(values)), len(values))
            )
            if missing:
                raise InputError(
                    f"{self.condition}: at t = {time:g} there are no data for {missing} of {many} "
                    "values on the boundary; give "
                    "data that cover it, without missing values there"
                )
            self._found[key] = values
        return self._found[key]

    def _fill(self, time: float, rate: int) -> None:
        """Put the values at a time, or their rates, into the function; collective."""
        if self._given is not None:
            self._given.put(self._function, time, rate, self._facets)
            return
        value, what = self._value(), str(self.condition)
        for _ in range(rate):
            value = data.time_derivative(value, what)
        data.interpolate(self._function, value, self.condition.unknown, time, what, gaps=True)

    def _value(self) -> object:
        field = self.condition.field
        if not isinstance(field, Component):
            return self.condition.value
        if isinstance(self.condition.value, MeasuredFields):
            return self.condition.value.only(field.index)
        parts: list[object] = [0] * field.field.dim
        parts[field.index] = self.condition.value
        return Vec(*parts)


class BoundaryMode:
    """A function that a boundary value may be changed by, on the unknowns where that value counts.

    Args:
        spaces, boundary: of the state.
        condition: the function as a condition of the same kind and place.
        owner: the declared condition.
        kept: the owned positions at which that has the last word.
        known: known fields that the function may contain.

    Attributes:
        mine: the positions that this rank owns.
    """

    def __init__(
        self,
        spaces: Spaces,
        boundary: Boundary,
        condition: BoundaryCondition,
        owner: Entry,
        kept: np.ndarray,
        known: KnownFields,
    ):
        self.owner, self.order = owner, owner.order
        self._entry = Entry(spaces, boundary, condition, owner.order, known)
        self._chosen = np.isin(self._entry.mine, kept)
        self.mine = self._entry.mine[self._chosen]

    def values_at(self, time: float, rate: int = 0) -> np.ndarray:
        """The values at a time, or their first or second time derivatives."""
        return self._entry.values_at(time, rate)[self._chosen]

    def stage_values(self, clock: Clock) -> np.ndarray:
        """What a stage value takes of the function besides what its owner takes, see
        `EssentialConditions.set_stage`.
        """
        if self.order == 0:
            return self.values_at(clock.time)
        if self.owner.by_rates(clock):
            return clock.gamma**self.order * self.values_at(clock.time, self.order)
        rate = int(self.order == 2)
        value = sum(weight * self.values_at(time, rate) for weight, time in clock.samples)
        return np.asarray(clock.gamma * value if rate else value)


def local_dofs(space: fem.FunctionSpace, boundary: Boundary, names: tuple[str, ...]) -> np.ndarray:
    """Unrolled local dofs of a space on some boundary parts."""
    return dofs_of(space, boundary, boundary.facets_of(names))


def dofs_of(space: fem.FunctionSpace, boundary: Boundary, facets: np.ndarray) -> np.ndarray:
    """Unrolled local dofs of a space on some facets of the boundary."""
    blocks = fem.locate_dofs_topological(
        space, boundary.facet_dimension, np.asarray(facets).astype(np.int32)
    )
    size = space.dofmap.index_map_bs
    return (blocks[:, None] * size + np.arange(size)).ravel()


def positions(
    spaces: Spaces, boundary: Boundary, unknown: Field, names: tuple[str, ...]
) -> np.ndarray:
    """Positions of a field's boundary unknowns in the state's array."""
    own, _ = spaces.own(unknown)
    return spaces.dofs(unknown)[local_dofs(own, boundary, names)].astype(np.int64)
