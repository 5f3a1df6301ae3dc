"""A problem solved by hand: forms in plain UFL, conditions, Newton steps and time steps in dense algebra.

Nothing here comes from cffem. A time step of a Runge–Kutta scheme is solved for the stage's rate,
or acceleration; boundary values of a stage are those at its time, the mean of both ends for the
midpoint rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import default_scalar_type, fem
from net_meshes import SIDES
from net_terms import STRENGTH_VALUE
from ufl.algorithms import expand_derivatives

from cffem._compat import jit_folder

X, Y, Z, T = sp.symbols("x y z t", real=True)
GAMMA = 1 - np.sqrt(0.5)
SCHEMES = {
    "midpoint": (((0.5,),), (1.0,)),
    "sdirk2": (((GAMMA,), (1 - GAMMA, GAMMA)), (1 - GAMMA, GAMMA)),
    "backward-euler": (((1.0,),), (1.0,)),
}


def compiled(form: Any) -> Any:
    """A form, compiled without optimisation: the meshes are small and the compiler is the cost."""
    options = {
        "cache_dir": Path(jit_folder()) / "by-hand",
        "cffi_extra_compile_args": ["-O0", "-g0"],
    }
    return fem.form(form, jit_options=options)


def in_ufl(value: Any, h: Hand) -> Any:
    """Polynomial data as a UFL expression."""
    if isinstance(value, tuple):
        return ufl.as_vector([in_ufl(part, h) for part in value])
    coordinates = [*h.x, *[0.0] * (3 - h.dimension)]
    return sp.lambdify((X, Y, Z, T), sp.sympify(value), "math")(*coordinates, h.t)


def numeric(value: Any, size: int) -> Callable[[np.ndarray, float], np.ndarray]:
    """Data as a function of points and time, for interpolation."""
    parts = value if isinstance(value, tuple) else (value,) * (size or 1)
    functions = [sp.lambdify((X, Y, Z, T), sp.sympify(part), "numpy") for part in parts]

    def evaluate(points: np.ndarray, time: float) -> np.ndarray:
        rows = np.array([np.broadcast_to(f(*points, time), points.shape[1:]) for f in functions], dtype=float)
        return rows if size else rows[0]

    return evaluate


def rate_of(value: Any) -> Any:
    """The time derivative of data."""
    if isinstance(value, tuple):
        return tuple(rate_of(part) for part in value)
    return sp.diff(sp.sympify(value), T)


class Hand:
    """What a form by hand is written with.

    Attributes:
        u, rate, v: the unknown, its rate and the test function.
        x, n, t, dx: coordinates, normal, time and the measure of cells.
        strength: the value of the named parameter.
    """

    def __init__(self, problem: Any, domain: Any, u: Any, rate: Any, v: Any, time: Any, strength: Any):
        self.problem = problem
        self.dimension = domain.mesh.geometry.dim
        self.u, self.rate, self.v = u, rate, v
        self.x, self.n = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
        self.t, self.strength = time, strength
        self.dx = ufl.Measure("dx", domain=domain.mesh)
        self._ds = ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)
        self._tags = {name: tag for name, (_, tag) in domain.names.items()}

    def ds(self, sides: tuple[str, ...]) -> Any:
        """The measure of some sides."""
        return self._ds(tuple(self._tags[name] for name in sides))

    def natural(self, integrand: Callable[[Any], Any], rate: bool = False) -> Any:
        """∮ of a natural trace on the sides where a condition says what it is."""
        total = 0
        for c in self.problem.conditions:
            if c.kind == "essential":
                continue
            value = (0,) * self.dimension if c.value == 0 and self.u.ufl_shape else c.value
            trace = in_ufl(rate_of(value) if rate else value, self)
            if c.kind == "robin":
                trace = trace - in_ufl(c.coefficient, self) * (self.rate if rate else self.u)
            if self.u.ufl_shape or not isinstance(trace, int | float) or trace:
                total += integrand(trace) * self.ds(c.sides)
        return total

    def untouched(self, integrand: Any, factor: float = 1.0) -> Any:
        """∮ of a trace about which no condition can say anything, except in one dimension."""
        if self.dimension == 1:
            return self.natural(lambda g: factor * g * self.v)
        free = tuple(side for c in self.problem.conditions if c.kind != "essential" for side in c.sides)
        return integrand * self.ds(free) if free else 0


class Part:
    """One summand of the equation, F(w, ẇ, ẅ; v), with its derivatives.

    The derivatives of a linear one are differences of residuals, which need no compiler.
    """

    def __init__(self, form: Any, states: tuple[Any, Any, Any], factor: float, time: Any):
        self.factor, self.states = factor, states
        self.vector = compiled(form)
        jacobians = [expand_derivatives(ufl.derivative(form, state)) for state in states]
        self.present = [not jacobian.empty() for jacobian in jacobians]
        bent = any(s in jacobian.coefficients() for jacobian in jacobians for s in states)
        self._compiled = [compiled(j) if bent and not j.empty() else None for j in jacobians]
        self._steady = not bent and time not in form.constants()
        self._known: dict[int, np.ndarray] = {}

    def residual(self) -> np.ndarray:
        """F where the states are now."""
        return fem.assemble_vector(self.vector).array

    def matrix(self, order: int) -> np.ndarray:
        """∂F/∂(w, ẇ or ẅ)."""
        if self._compiled[order] is not None:
            return fem.assemble_matrix(self._compiled[order]).to_dense()
        if order not in self._known or not self._steady:
            self._known[order] = self._by_differences(self.states[order].x.array)
        return self._known[order]

    def _by_differences(self, values: np.ndarray) -> np.ndarray:
        before, base = values.copy(), self.residual()
        columns = []
        for k in range(len(values)):
            values[:] = before
            values[k] += 1.0
            columns.append(self.residual() - base)
        values[:] = before
        return np.array(columns).T


class Reference:
    """A problem by hand on a mesh.

    Args:
        problem: what was drawn.
        domain: the mesh with its names.
    """

    def __init__(self, problem: Any, domain: Any):
        self.problem, self.domain = problem, domain
        mesh, family = domain.mesh, problem.family
        shape = (family.dimension,) if family.kind == "vector" else None
        element = basix.ufl.element(*([family.element[0], family.cell, family.element[1]]), shape=shape)
        self.space = fem.functionspace(mesh, element)
        self.size = self.space.dofmap.index_map.size_local * self.space.dofmap.index_map_bs
        self.components = family.dimension if family.kind in ("vector", "curl", "div") else 0
        self.states = tuple(fem.Function(self.space) for _ in range(3))
        self.time = fem.Constant(mesh, default_scalar_type(0))
        strength = fem.Constant(mesh, default_scalar_type(STRENGTH_VALUE))
        self.test = ufl.TestFunction(self.space)
        self.hand = Hand(problem, domain, self.states[0], self.states[1], self.test, self.time, strength)
        self.force = fem.Function(self.space)
        self.force.x.array[:] = np.random.default_rng(problem.seed).normal(size=self.size)
        self.anchor = self._anchor()
        self.terms = {term.name: self._part(term.by_hand(self.hand), -c) for term, c in problem.terms}
        self.forcing = self._forcing()
        self.fixed, self._values = self._essential()
        self.without: str | None = None

    def _part(self, form: Any, factor: float) -> Part:
        return Part(form, self.states, factor, self.time)

    def _anchor(self) -> list[Part]:
        order = self.problem.order
        if not order:
            return []
        return [self._part(ufl.inner(self.states[order], self.test) * self.hand.dx, 1.0)]

    def _forcing(self) -> list[Part]:
        given = self.problem.forcing
        if given is None:
            return []
        value = self.force if given == "function" else in_ufl(given, self.hand)
        return [self._part(ufl.inner(value, self.test) * self.hand.dx, -1.0)]

    # Conditions -------------------------------------------------------------------------------

    def interpolated(self, value: Any, time: float = 0.0) -> np.ndarray:
        """The unknowns of data."""
        function = fem.Function(self.space)
        evaluate = numeric(0 if value is None else value, self.components)
        function.interpolate(lambda points: evaluate(points, time))
        return function.x.array.copy()

    def _essential(self) -> tuple[np.ndarray, list[tuple[np.ndarray, Any]]]:
        mesh, found = self.domain.mesh, []
        facets = self.domain.facet_tags
        mesh.topology.create_connectivity(mesh.topology.dim - 1, mesh.topology.dim)
        for c in self.problem.conditions:
            if c.kind == "essential":
                where = np.concatenate([facets.find(self.domain.names[name][1]) for name in c.sides])
                blocks = fem.locate_dofs_topological(self.space, mesh.topology.dim - 1, where)
                size = self.space.dofmap.index_map_bs
                found.append(((blocks[:, None] * size + np.arange(size)).ravel(), c.value))
        fixed = np.unique(np.concatenate([dofs for dofs, _ in found])) if found else np.array([], dtype=int)
        return fixed.astype(int), found

    def given(self, time: float, rate: bool = False) -> np.ndarray:
        """All unknowns, those with essential conditions having their values, or rates."""
        result = np.zeros(self.size)
        for dofs, value in self._values:
            result[dofs] = self.interpolated(rate_of(value) if rate else value, time)[dofs]
        return result

    @cached_property
    def admitted(self) -> np.ndarray:
        """The matrix that makes all unknowns of those that are not identified with others."""
        columns = np.arange(self.size)
        if self.problem.periodic:
            size = self.space.dofmap.index_map_bs
            points = self.space.tabulate_dof_coordinates()
            axis, right = SIDES["right"]
            for k in np.flatnonzero(np.isclose(points[:, axis], right)):
                partner = points[k].copy()
                partner[axis] = 0.0
                (found,) = np.flatnonzero(np.isclose(points, partner).all(axis=1))
                columns[k * size : (k + 1) * size] = found * size + np.arange(size)
        return (columns[:, None] == np.unique(columns)[None, :]).astype(float)

    @cached_property
    def folding(self) -> np.ndarray:
        """The columns of `admitted` that belong to unknowns without essential conditions."""
        return self.admitted[:, ~self.admitted[self.fixed].any(axis=0)]

    # Equation ---------------------------------------------------------------------------------

    def parts(self) -> list[Part]:
        """All summands but the deleted one."""
        return [
            *self.anchor,
            *self.forcing,
            *(p for n, p in self.terms.items() if n != self.without),
        ]

    def place(self, states: tuple[Any, Any, Any], time: float) -> None:
        """Take a state, rate and acceleration (None is zero) and a time."""
        self.time.value = time
        for function, values in zip(self.states, states, strict=True):
            function.x.array[:] = 0.0 if values is None else values

    def residual(self, states: tuple[Any, Any, Any], time: float) -> np.ndarray:
        """Σ c_k F_k."""
        self.place(states, time)
        return sum(
            (p.factor * p.residual() for p in self.parts()),
            np.zeros(self.size),
        )

    def jacobian(self, weights: tuple[float, ...], states: tuple[Any, Any, Any], time: float) -> np.ndarray:
        """Σ c_k weight · ∂F_k."""
        self.place(states, time)
        total = np.zeros((self.size, self.size))
        for p in self.parts():
            for order, weight in enumerate(weights):
                if p.present[order] and weight:
                    total += p.factor * weight * p.matrix(order)
        return total

    # Solving ----------------------------------------------------------------------------------

    def newton(self, guess: np.ndarray, states: Callable[[np.ndarray], Any], weights: Any, time: float) -> Any:
        """Solve F = 0 for the free unknowns, from a guess with the right boundary values."""
        found, fold = guess.copy(), self.folding
        for _ in range(40):
            right = fold.T @ self.residual(states(found), time)
            matrix = fold.T @ self.jacobian(weights, states(found), time) @ fold
            self.condition = max(self.condition, np.linalg.cond(matrix))
            step = fold @ np.linalg.solve(matrix, right)
            if not self.problem.nonlinear:
                return found - step
            share = 1.0
            while share > 1e-3 and not self._lower(found - share * step, states, time, right):
                share /= 2
            found -= share * step
            if np.linalg.norm(step) <= 1e-10 * max(np.linalg.norm(found), 1e-30):
                return found
        raise ArithmeticError("Newton's method by hand did not converge")

    def _lower(self, trial: np.ndarray, states: Any, time: float, right: np.ndarray) -> bool:
        """Whether the residual is lower than before, or as low as rounding lets it be."""
        size = np.linalg.norm(self.folding.T @ self.residual(states(trial), time))
        return size <= max(np.linalg.norm(right), 1e-12)

    def solve(self, without: str | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """States, and velocities of a problem of second order, at all levels."""
        self.without, self.condition = without, 1.0
        p = self.problem
        if p.order == 0:
            guess = self.given(0.0)
            return [self.newton(guess, lambda w: (w, None, None), (1.0, 0.0, 0.0), 0.0)], []
        state = self.start(p.start, self.given(0.0))
        speed = self.start(p.speed, self.given(0.0, rate=True)) if p.order == 2 else None
        states, speeds = [state], [] if speed is None else [speed]
        step = p.end / p.steps
        for level in range(p.steps):
            state, speed = self.step(state, speed, level * step, step)
            states.append(state)
            if speed is not None:
                speeds.append(speed)
        return states, speeds

    def start(self, value: Any, given: np.ndarray) -> np.ndarray:
        """Initial values with those of the boundary in their places, identified unknowns alike."""
        inside = self.folding @ (self.folding.T @ self.interpolated(value) / self.folding.sum(axis=0))
        if self.problem.periodic:
            inside = self.folding @ self._masters(self.interpolated(value))
        result = inside + 0.0
        result[self.fixed] = given[self.fixed]
        return result

    def _masters(self, values: np.ndarray) -> np.ndarray:
        """The values of the unknowns that others are identified with: those on the left."""
        first = [np.flatnonzero(column) for column in self.folding.T]
        points = np.repeat(self.space.tabulate_dof_coordinates()[:, 0], self.space.dofmap.index_map_bs)
        return np.array([values[rows[np.argmin(points[rows])]] for rows in first])

    def step(self, state: np.ndarray, speed: Any, start: float, step: float) -> tuple[np.ndarray, Any]:
        """One step of the scheme."""
        rows, ends = SCHEMES[self.problem.scheme or "midpoint"]
        second = speed is not None
        rates: list[np.ndarray] = []
        accelerations: list[np.ndarray] = []
        for i, row in enumerate(rows):
            gamma, time = row[-1] * step, start + sum(row) * step
            base = state + step * sum((a * k for a, k in zip(row, rates)), np.zeros(self.size))
            if second:
                low = speed + step * sum((a * k for a, k in zip(row, accelerations)), np.zeros(self.size))
                given = self.stage_values(start, step, time, rows, rate=True)
                guess = np.zeros(self.size)
                guess[self.fixed] = ((given - low) / gamma)[self.fixed]
                found = self.newton(
                    guess,
                    lambda a, b=base, s=low, g=gamma: (b + g * (s + g * a), s + g * a, a),
                    (gamma**2, gamma, 1.0),
                    time,
                )
                accelerations.append(found)
                rates.append(low + gamma * found)
            else:
                given = self.stage_values(start, step, time, rows)
                guess = np.zeros(self.size)
                guess[self.fixed] = ((given - base) / gamma)[self.fixed]
                found = self.newton(guess, lambda k, b=base, g=gamma: (b + g * k, k, None), (gamma, 1.0, 0.0), time)
                rates.append(found)
            del i
        new = state + step * sum(b * k for b, k in zip(ends, rates))
        new[self.fixed] = self.given(start + step)[self.fixed]
        if not second:
            return new, None
        fast = speed + step * sum(b * k for b, k in zip(ends, accelerations))
        fast[self.fixed] = self.given(start + step, rate=True)[self.fixed]
        return new, fast

    def stage_values(self, start: float, step: float, time: float, rows: Any, rate: bool = False) -> np.ndarray:
        """Boundary values, or rates, of a stage."""
        if rows == SCHEMES["midpoint"][0]:
            return (self.given(start, rate) + self.given(start + step, rate)) / 2
        return self.given(time, rate)

    def score(self, states: list[np.ndarray], others: list[np.ndarray]) -> float:
        """The L2 distance, in space or of the piecewise linear interpolants in space and time."""
        trial = ufl.TrialFunction(self.space)
        mass = fem.assemble_matrix(compiled(ufl.inner(trial, self.test) * self.hand.dx)).to_dense()
        gaps = [a - b for a, b in zip(states, others, strict=True)]
        if len(gaps) == 1:
            return float(np.sqrt(gaps[0] @ mass @ gaps[0]))
        step = self.problem.end / self.problem.steps
        total = sum(step / 3 * (a @ mass @ a + a @ mass @ b + b @ mass @ b) for a, b in itertools.pairwise(gaps))
        return float(np.sqrt(total))
