# SPDX-License-Identifier: MIT
"""What of the data no level has seen, for estimates by three levels.

Levels that agree say nothing about data that all of them miss: initial values that vanish at all
nodes, forcings between the points of their quadrature or between their time levels. Data are known,
so their own levels are looked at. With e the distance of the data from what the finest level makes
of them, enclosed by interval arithmetic (`resolved`), and ρ what the gaps between the levels of the
data leave to be expected beyond the finest (`gaps`), data that the levels resolve have e ≤ ρ, and
the gaps of the solution tell the rest; of other data

    (e − ρ)₊

is taken to be unseen. In a problem that does not amplify them, initial values then move the
solution by no more than √T times that in L2(0, T; L2), forcings by √T times its integral over time,
and equations of second order in time by T times as much. Forcings of steady problems are solved for
once more, integrated well. A forcing that is finer than the finest cells, to which all levels are
blind although they integrate it well, does at most what a second derivative leaves of it
(`fineness`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp
from dolfinx import fem
from ufl.algorithms.estimate_degrees import estimate_total_polynomial_degree

from cffem.bounds.certificate import NotCovered
from cffem.bounds.enclosed.sources import IN_SPACE, ROUGHLY, Sources
from cffem.bounds.enclosed.trajectory_columns import Broken
from cffem.bounds.levels.data_parts import (
    LOOKING,
    beyond_expected,
    boundary_cells,
    elements_of,
    expected_beyond,
    given_functions,
    projection_misses,
    simplices,
)
from cffem.bounds.levels.fineness import Fineness
from cffem.bounds.levels.kinked_walls import KinkedWalls
from cffem.bounds.levels.ladders import MESH, TIME
from cffem.bounds.levels.roughness import JUMP, Orders, Rough, order_of, within_steps
from cffem.bounds.refits import Change, change_on
from cffem.bounds.scalar_problem import smallest_diffusion
from cffem.bounds.waves.wave_data import projected
from cffem.engine.inputs import field_data as data
from cffem.engine.solve.linear import SolveError
from cffem.forms.lowering import Lowering
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError
from cffem.symbols.operators import Vec, as_expr, component, dt
from cffem.symbols.problem.conditions import Dirichlet
from cffem.symbols.problem.interventions import Intervention, force

if TYPE_CHECKING:
    from scipy import sparse

    from cffem.engine.model import Model
    from cffem.symbols.fields import Field


@dataclass(frozen=True)
class Unseen:
    """How far unseen data may have moved the solution, in L2 over the window, and what was not
    looked at.

    Attributes:
        effects: estimates, by what the data are.
        blind: data of which nothing is known but what the levels say.
        missed: coefficients and boundary values that no level sees, of which no effect is known.
    """

    effects: Mapping[str, float]
    blind: tuple[str, ...] = ()
    missed: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """All effects together."""
        return sum(self.effects.values())

    def statement(self) -> tuple[str, str]:
        """The hypothesis about data, and how it was looked at."""
        shown = [f"{what}: {effect:.2g}" for what, effect in self.effects.items() if effect]
        how = "their own levels against enclosures; in the estimate: " + (
            ", ".join(shown) or "nothing"
        )
        if self.blind:
            how += "; not looked at: " + ", ".join(self.blind)
        return "the levels see all of the data but what is in the estimate", how


class DataLevels:
    """The data of a model on three levels in space and in time.

    Args:
        models: those of the three levels in space, from coarse to fine; each may be on ranks of its
            own.
        embeddings: from the values of the first two into the third, by field.
        way: by what the levels in space go up.
        degree: the lowest degree of the elements on the first level.
        given: which of the models is the user's.
    """

    def __init__(
        self,
        models: Sequence[Model],
        embeddings: Sequence[Mapping[Field, sparse.csr_matrix]],
        way: str,
        degree: int,
        given: int = 0,
    ):
        self.models, self.embeddings, self.way, self._degree = models, embeddings, way, degree
        self.model, self.finest, self.given = models[0], models[-1], models[given]
        self._known: dict[Hashable, Unseen] = {}
        self._orders: dict[Hashable, Orders] = {}
        self._rough = Rough(models)

    def unseen(self, change: Intervention | None = None) -> Unseen:
        """What may be missing from the solution of the factual problem, or of a changed one;
        collective.
        """
        key = _data_of(change)
        if key not in self._known:
            self._known[key] = self._looked(change if key else None)
        return self._known[key]

    def seen(self, norm: str, change: Intervention | None = None) -> Unseen:
        """What may be missing from a solution, where its effect in a norm is known; collective.

        Raises:
            NotCovered: no level sees all of the data, and nobody knows what that changes.
        """
        part = self.unseen(change)
        if part.missed:
            raise NotCovered(
                f"no level sees all of {part.missed[0]}; refine the mesh or the time step where it "
                "is narrow"
            )
        if norm != "L2" and part.total:
            raise NotCovered(
                f"no level sees all of the data, and what that changes in the norm {norm} is not "
                "known"
            )
        return part

    @cached_property
    def _walls(self) -> KinkedWalls | None:
        """Prescribed values with kinks between the nodes of the finest level; collective."""
        rough = Rough([self.finest])
        kinked = [
            condition
            for condition, parts in self._conditions(None)
            if isinstance(condition, Dirichlet)
            and rough.condition(condition, parts).space < math.inf
        ]
        return KinkedWalls(self.finest, kinked) if kinked else None

    def walls(self, change: Change | None = None, norm: str = "L2") -> float:
        """How far the factual solution, or its difference to a changed one, moves on the finest
        level where prescribed values with kinks are put there in another way; collective.

        Args:
            change: the deletion.
            norm: in which norm.

        Raises:
            NotCovered: the values change with time, or the element has no nodes.
            SolveError: the deleted problem could not be solved.
        """
        if self._walls is None:
            return 0.0
        return self._walls.moved(None if change is None else change_on(change, self.finest), norm)

    def orders(self, change: Intervention | None = None) -> Orders:
        """The orders of convergence that the data of the factual problem leave, or those of a
        changed one; collective.
        """
        key = _data_of(change)
        if key not in self._orders:
            self._orders[key] = self._orders_left(change if key else None)
        return self._orders[key]

    def _orders_left(self, change: Intervention | None) -> Orders:
        experiment, found = self.model.experiment, [Orders()]
        given: dict[str, dict[Any, Any]] = {
            "initial": dict(experiment.initial),
            "forcing": dict(experiment.forcing),
        }
        if change is not None:
            given = {
                "initial": given["initial"] | dict(change.initial),
                "forcing": given["forcing"] | dict(change.forcing),
            }
        for what, values in given.items():
            for key, value in values.items():
                unknown = next(f for f in self.model.library.equations if key in (f, dt(f)))
                try:
                    entries = self._entries(value, unknown)
                except NotCovered:
                    continue
                start = what == "initial"
                found.append(
                    self._rough.initial(entries, self._order(unknown))
                    if start
                    else self._rough.forcing(entries)
                )
        for condition, parts in self._conditions(change):
            found.append(self._rough.condition(condition, parts))
        try:
            levels = self.models[1:] if self.way == MESH else []
            cells = [(model.comm, simplices(model.discretisation.mesh).corners) for model in levels]
            degrees = [
                min(e.basix_element.embedded_superdegree for e in elements_of(model)) - 1
                for model in levels
            ]
        except NotCovered:
            cells, degrees = [], []
        found += [
            self._rough.coefficient(expr, cells, [max(degree, 0) for degree in degrees])
            for expr in self._given()
        ]
        return Orders().joined(*found)

    def _looked(self, change: Intervention | None) -> Unseen:
        effects: dict[str, float] = {}
        blind: list[str] = []
        experiment = self.model.experiment
        initial, forcing = dict(experiment.initial), dict(experiment.forcing)
        if change is not None:
            initial, forcing = (
                {**initial, **dict(change.initial)},
                {**forcing, **dict(change.forcing)},
            )
        for what, given, look in (
            ("initial values", initial if experiment.time is not None else {}, self._initial),
            ("forcing in time", forcing if experiment.time is not None else {}, self._in_time),
            ("forcing in space", forcing, self._in_space),
            ("forcing finer than cells", forcing, self._finer),
        ):
            for key, value in given.items():
                try:
                    found = look(key, value)
                except (NotCovered, InputError, SolveError) as reason:
                    blind.append(f"the {what} of {key} ({reason})")
                    continue
                effects[what] = effects.get(what, 0.0) + found
        return Unseen(effects, tuple(blind), tuple(self._coefficients() + self._boundary(change)))

    # Coefficients and boundary values -------------------------------------------------------------

    def _given(self) -> list[sp.Expr]:
        """Functions of place and time in the equations."""
        experiment, library = self.model.experiment, self.model.library
        found: list[sp.Expr] = []
        for equation in library.equations.values():
            terms = [term for name, term in equation.terms.items() if name in self.model.active]
            for expr in [*terms, *([] if equation.anchor is None else [equation.anchor])]:
                found += given_functions(expr)
        for value in getattr(experiment, "known", {}).values():
            found += [sp.sympify(value)] if isinstance(value, sp.Expr) else []
        return list(dict.fromkeys(found))

    def _coefficients(self) -> list[str]:
        """Those of them that no level sees."""
        return [f"the coefficient {expr}"[:80] for expr in self._given() if self._overlooked(expr)]

    def _conditions(self, change: Intervention | None) -> list[tuple[Any, list[sp.Expr]]]:
        """Conditions, each with the parts of its values that are functions of place and time."""
        conditions = [
            *self.model.experiment.boundary,
            *(change.conditions if change is not None else ()),
        ]
        found = []
        for condition in conditions:
            values = getattr(condition, "value", 0)
            entries = values if isinstance(values, list | tuple) else [values]
            exprs = [sp.sympify(entry) for entry in entries if isinstance(entry, sp.Expr)]
            found.append((condition, [part for expr in exprs for part in given_functions(expr)]))
        return found

    def _boundary(self, change: Intervention | None) -> list[str]:
        """Boundary values that no level sees, looked at on the cells of the boundary."""
        found: list[str] = []
        for condition, parts in self._conditions(change):
            said = f"{condition}"[:80]
            if any(self._rough.jumps(condition, part) for part in parts):
                # No function of finite energy has such values, and whether a level has them
                # right depends on where its nodes are: gaps say nothing.
                found.append(f"{said}, which jumps between nodes or time levels")
            elif any(self._overlooked(part, boundary=True) for part in parts):
                found.append(said)
        return found

    def _overlooked(self, expr: sp.Expr, boundary: bool = False) -> bool:
        """Whether the levels have no chance to see a function; collective."""
        levels = []
        try:
            for model in self.models[1:]:
                cells = simplices(model.discretisation.mesh)
                corners = boundary_cells(cells) if boundary else cells.corners
                degree = min(e.basix_element.embedded_superdegree for e in elements_of(model))
                rule = degree + estimate_total_polynomial_degree(
                    Lowering(model.discretisation.context)(expr)
                )
                levels.append(
                    projection_misses(
                        Sources(model.comm, corners, degree, ROUGHLY), expr, rule, self._moments
                    )
                )
            missed = 0.0
            if self.model.experiment.time is not None and expr.has(t):
                cells = simplices(self.model.discretisation.mesh)
                missed = self._missed_in_time(Sources(self.model.comm, cells.corners, 0), expr)
        except (NotCovered, InputError):
            return False
        (first, _), (second, size) = levels
        grows = second > LOOKING.growing * first and second > LOOKING.visible**2 * size
        return grows or second + missed > LOOKING.visible * size

    def _entries(self, value: object, unknown: Field) -> list[sp.Expr]:
        """The components of data.

        Raises:
            NotCovered: they are no expressions.
        """
        if hasattr(value, "function_space") or (
            callable(value) and not isinstance(value, sp.Basic)
        ):
            raise NotCovered("no expression")
        try:
            expr = as_expr(Vec(*value) if isinstance(value, list | tuple) else value)
        except (TypeError, ValueError, sp.SympifyError):
            raise NotCovered("no expression") from None
        dim = self.model.discretisation.mesh.geometry.dim
        if not unknown.shape:
            return [expr]
        return [sp.S.Zero if expr == 0 else component(expr, i) for i in range(dim)]

    @property
    def _length(self) -> float:
        return float(self.model.times[-1] - self.model.times[0])

    def _order(self, unknown: Field) -> int:
        return int(self.model.library.equations[unknown].time_order)

    # Initial values -------------------------------------------------------------------------------

    def _initial(self, key: sp.Expr, value: object) -> float:
        """√T ‖u₀ − I u₀‖ as far as the levels do not see it."""
        rate = isinstance(key, sp.Derivative) or key not in self.model.library.equations
        unknown = (
            next(f for f in self.model.library.equations if key in (f, dt(f))) if rate else key
        )
        if self._order(unknown) == 0:
            return 0.0
        entries = self._entries(value, unknown)
        if all(entry == 0 for entry in entries):
            return 0.0
        space = self.finest.spaces.own(unknown)[0]
        cells = simplices(self.finest.discretisation.mesh)
        degree = space.element.basix_element.embedded_superdegree
        broken = Broken(cells, degree, cells.dim if unknown.shape else 1)
        matrix = broken.moments(space, lambda u: u)
        columns = []
        for level, model in enumerate(self.models):
            function = fem.Function(model.spaces.own(unknown)[0])
            when = float(self.model.times[0])
            data.interpolate(function, value, unknown, when, f"the initial value of {unknown}")
            local = function.x.array
            raised = self.embeddings[level][unknown] @ local if level < 2 else local
            owned = matrix.createVecRight()
            owned.array[:] = raised[: owned.getLocalSize()]
            image = matrix.createVecLeft()
            matrix.mult(owned, image)
            columns.append(image.array_r.copy())
            for vector in (owned, image):
                vector.destroy()
        matrix.destroy()
        gaps = [self._size(low - high) for low, high in pairwise(columns)]
        expected, missed = expected_beyond(self.way, gaps, self._degree), 0.0
        # A rough look is an upper bound as well, and enough where it finds nothing.
        for closely in (ROUGHLY, IN_SPACE):
            sources = Sources(broken.comm, cells.corners, degree, closely)
            given = projected(broken, entries, float(self.model.times[0]), sources)
            away = self._size(given.coefficients - columns[2]) + given.unseen
            whole = math.hypot(self._size(given.coefficients), given.rest)
            missed = beyond_expected(math.hypot(away, given.rest), expected, whole)
            if not missed:
                break
        return LOOKING.growth * math.sqrt(self._length) * missed * (self._length if rate else 1.0)

    def _size(self, coefficients: np.ndarray) -> float:
        """The norm of broken polynomials on the finest level; collective."""
        return math.sqrt(self.finest.comm.allreduce(float(coefficients @ coefficients)))

    # Time -----------------------------------------------------------------------------------------

    def _in_time(self, unknown: Field, value: object) -> float:
        """√T ∫ ‖f − I f‖ dt as far as levels in time do not see it."""
        total = 0.0
        for entry in self._entries(value, unknown):
            if entry.has(t):
                cells = simplices(self.model.discretisation.mesh)
                total += self._missed_in_time(Sources(self.model.comm, cells.corners, 0), entry)
        return self._weight(unknown) * total

    def _weight(self, unknown: Field) -> float:
        """What the solution is moved by where a forcing is wrong by one for a time of one."""
        anchor = self.model.library.equations[unknown].anchor
        rate = dt(unknown) if self._order(unknown) < 2 else dt(dt(unknown))
        factor = sp.simplify(anchor / rate) if anchor is not None else sp.S.One
        density = abs(float(factor)) if factor.is_number and factor != 0 else 1.0
        power = 1.5 if self._order(unknown) == 2 else 0.5
        return LOOKING.growth * self._length**power / density

    def _missed_in_time(self, sources: Sources, entry: sp.Expr) -> float:
        times = np.asarray(self.model.times, dtype=float)
        halves = np.sort(np.concatenate([times, (times[:-1] + times[1:]) / 2]))
        quarters = np.sort(np.concatenate([halves, (halves[:-1] + halves[1:]) / 2]))
        parts = sources.separated(entry)
        distance = float(np.sqrt(np.diff(quarters)) @ sources.not_linear(entry, quarters))
        gaps, whole = [], 0.0
        for levels in (times, halves):
            gap = 0.0
            for start, end in pairwise(levels.tolist()):
                weights = [((start + end) / 2, 1.0), (start, -0.5), (end, -0.5)]
                gap += (end - start) / 2 * sources.size(entry, weights)
            gaps.append(gap)
        if parts is not None:
            sizes = [float(np.abs(parts.factors(float(when))) @ parts.sizes) for when in times]
            whole = self._length * float(np.mean(sizes))
        # How much of a jump a level has depends on where it lies in its step, whatever gaps say.
        jumps = order_of(entry, [t]) == JUMP and within_steps(entry, times.tolist())
        return beyond_expected(distance, 0.0 if jumps else expected_beyond(TIME, gaps), whole)

    # Space ----------------------------------------------------------------------------------------

    def _in_space(self, unknown: Field, value: object) -> float:
        """What the quadrature of the two finest levels misses of a forcing, and what that does."""
        entries = self._entries(value, unknown)
        if not any(entry.free_symbols & {*SPACE} for entry in entries):
            return 0.0
        missed = sum(self._missed_in_space(unknown, entry) for entry in entries)
        if not missed:
            return 0.0
        if self.model.experiment.time is not None and self._order(unknown) > 0:
            return self._weight(unknown) * missed
        return self._solved_again(unknown, entries)

    def _finer(self, unknown: Field, value: object) -> float:
        """What a forcing does that the finest cells do not carry, where diffusion is constant."""
        order = self._order(unknown)
        entries = [e for e in self._entries(value, unknown) if not e.is_polynomial(*SPACE)]
        if order > 1 or not entries or unknown.shape:
            return 0.0
        dim = self.finest.discretisation.mesh.geometry.dim
        try:
            diffusion = smallest_diffusion(
                self.model.library.equations[unknown], self.model.coefficients, dim
            )
        except NotCovered:
            return 0.0
        level = Fineness(self.finest, unknown)
        total = sum(level.effect(entry, self._moments) for entry in entries)
        window = 1.0 if self.model.experiment.time is None else math.sqrt(self._length)
        return total * window / diffusion

    def _missed_in_space(self, unknown: Field, entry: sp.Expr) -> float:
        """(e − ρ)₊ of the projections onto cells, times the integral of |T| over the window."""
        if entry.is_polynomial(*SPACE):
            return 0.0  # which the engine integrates exactly
        levels = []
        for model in self.models[1:]:
            cells = simplices(model.discretisation.mesh)
            degree = model.spaces.own(unknown)[0].element.basix_element.embedded_superdegree
            lowered = Lowering(model.discretisation.context)(entry)
            exact = degree + estimate_total_polynomial_degree(lowered)
            levels.append(
                projection_misses(
                    Sources(model.comm, cells.corners, degree), entry, exact, self._moments
                )
            )
        (first, _), (second, size) = levels
        # A rule on the level before may have met a spike by accident, so what is gained says
        # nothing of large errors.
        if second > LOOKING.visible * size:
            return second
        return beyond_expected(second, LOOKING.gained * max(first - second, 0.0), size)

    @property
    def _moments(self) -> np.ndarray:
        return np.linspace(float(self.model.times[0]), float(self.model.times[-1]), LOOKING.moments)

    def _solved_again(self, unknown: Field, entries: list[sp.Expr]) -> float:
        """How far the solution on the user's level moves where the forcing is integrated well."""
        cells = simplices(self.given.discretisation.mesh)
        degree = self.given.spaces.own(unknown)[0].element.basix_element.embedded_superdegree
        broken = Broken(cells, degree, cells.dim if unknown.shape else 1)
        function = fem.Function(broken.space)
        positions = broken.positions()
        for place, entry in enumerate(entries):
            if entry != 0:
                moments = broken.sources.at(entry).moments
                function.x.array[positions[:, :, place]] = moments.T
        function.x.scatter_forward()
        moved = self.given.solve(force({unknown: function}))
        return LOOKING.growth * float(self.given.factual.distance(moved))


def _data_of(change: Intervention | None) -> tuple[str, ...]:
    """What tells the data of a changed problem from those of the factual one, empty where it
    has the same.
    """
    if change is None or not (change.initial or change.forcing or change.conditions):
        return ()
    return str(change.initial), str(change.forcing), str(change.conditions)
