"""Dense algebra for problems by hand: assembled forms, Newton steps and time steps.

Nothing here comes from cffem. A time step of a Runge–Kutta scheme is solved for the stage's rate,
or acceleration; boundary values of a stage are those at its time, the mean of both ends for the
midpoint rule. Algebraic unknowns have no rate: theirs stands for the stage's value, divided by the
step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
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


def numeric(value: Any, size: int) -> Callable[[np.ndarray, float], np.ndarray]:
    """Data as a function of points and time, for interpolation."""
    parts = value if isinstance(value, tuple) else (value,) * (size or 1)
    functions = [sp.lambdify((X, Y, Z, T), sp.sympify(part), "numpy") for part in parts]

    def evaluate(points: np.ndarray, time: float) -> np.ndarray:
        rows = np.array(
            [np.broadcast_to(f(*points, time), points.shape[1:]) for f in functions], dtype=float
        )
        return rows if size else rows[0]

    return evaluate


def rate_of(value: Any) -> Any:
    """The time derivative of data."""
    if isinstance(value, tuple):
        return tuple(rate_of(part) for part in value)
    return sp.diff(sp.sympify(value), T)


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


class Dense:
    """A problem with few unknowns.

    A subclass sets these and offers `parts`, `given` and `start`.

    Attributes:
        problem: order, nonlinear, scheme, steps and end are asked of it.
        states: DOLFINx functions of state, rate and acceleration.
        time: the constant that stands for it in forms.
        size: the number of unknowns.
        fixed: those with essential conditions.
        folding: the matrix from free unknowns to all.
        algebraic: those without a rate.
        mass: the matrix of the L2 norm.
    """

    problem: Any
    states: tuple[Any, Any, Any]
    time: Any
    size: int
    fixed: np.ndarray
    folding: np.ndarray
    mass: np.ndarray
    algebraic: np.ndarray | None = None
    condition: float = 1.0
    without: str | None = None

    def parts(self) -> list[Part]:
        """All summands but the deleted one."""
        raise NotImplementedError

    def given(self, time: float, rate: bool = False) -> np.ndarray:
        """All unknowns, those with essential conditions having their values, or rates."""
        raise NotImplementedError

    def start(self, rate: bool = False) -> np.ndarray:
        """Initial values, or rates."""
        raise NotImplementedError

    # Equation ---------------------------------------------------------------------------------

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

    def jacobian(
        self, weights: tuple[Any, ...], states: tuple[Any, Any, Any], time: float
    ) -> np.ndarray:
        """Σ c_k ∂F_k · weight, a number for all columns or one for each."""
        self.place(states, time)
        total = np.zeros((self.size, self.size))
        for p in self.parts():
            for order, weight in enumerate(weights):
                if p.present[order] and np.any(weight):
                    total += p.factor * weight * p.matrix(order)
        return total

    # Solving ----------------------------------------------------------------------------------

    def newton(
        self, guess: np.ndarray, states: Callable[[np.ndarray], Any], weights: Any, time: float
    ) -> Any:
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
        state = self.start()
        speed = self.start(rate=True) if p.order == 2 else None
        states, speeds = [state], [] if speed is None else [speed]
        step = p.end / p.steps
        for level in range(p.steps):
            state, speed = self.step(state, speed, level * step, step)
            states.append(state)
            if speed is not None:
                speeds.append(speed)
        return states, speeds

    def step(
        self, state: np.ndarray, speed: Any, start: float, step: float
    ) -> tuple[np.ndarray, Any]:
        """One step of the scheme, each stage solved for rates, or accelerations where the
        order in time is two.
        """
        rows, ends = SCHEMES[self.problem.scheme or "midpoint"]
        second = self.second_order if speed is not None else np.zeros(self.size, dtype=bool)
        fast = np.zeros(self.size) if speed is None else speed
        rates: list[np.ndarray] = []
        accelerations: list[np.ndarray] = []
        for row in rows:
            gamma, time = row[-1] * step, start + sum(row) * step
            base = state + step * sum((a * k for a, k in zip(row, rates)), np.zeros(self.size))
            low = fast + step * sum(
                (a * k for a, k in zip(row, accelerations)), np.zeros(self.size)
            )
            if self.algebraic is not None:
                base[self.algebraic] = 0.0
            values, slopes = (
                self.stage_values(start, step, time, rows, rate) for rate in (False, True)
            )
            if self.algebraic is not None:
                values[self.algebraic] = self.given(time)[self.algebraic]
            guess = np.zeros(self.size)
            guess[self.fixed] = np.where(second, (slopes - low) / gamma, (values - base) / gamma)[
                self.fixed
            ]

            def states(found, base=base, low=low, gamma=gamma):
                rate = np.where(second, low + gamma * found, found)
                return base + gamma * rate, rate, np.where(second, found, 0.0)

            weights = (
                np.where(second, gamma**2, gamma),
                np.where(second, gamma, 1.0),
                np.where(second, 1.0, 0.0),
            )
            found = self.newton(guess, states, weights, time)
            rates.append(states(found)[1])
            accelerations.append(states(found)[2])
        new = state + step * sum(b * k for b, k in zip(ends, rates))
        if self.algebraic is not None:
            new[self.algebraic] = rows[-1][-1] * step * rates[-1][self.algebraic]
        new[self.fixed] = self.given(start + step)[self.fixed]
        if speed is None:
            return new, None
        fast = np.where(second, fast + step * sum(b * k for b, k in zip(ends, accelerations)), 0.0)
        held = self.fixed[second[self.fixed]]
        fast[held] = self.given(start + step, rate=True)[held]
        return new, fast

    @property
    def second_order(self) -> np.ndarray:
        """Over all unknowns, whether they are of second order in time."""
        return np.ones(self.size, dtype=bool)

    def stage_values(
        self, start: float, step: float, time: float, rows: Any, rate: bool = False
    ) -> np.ndarray:
        """Boundary values, or rates, of a stage."""
        if rows == SCHEMES["midpoint"][0]:
            return (self.given(start, rate) + self.given(start + step, rate)) / 2
        return self.given(time, rate)

    def score(self, states: list[np.ndarray], others: list[np.ndarray]) -> float:
        """The L2 distance, in space or of the piecewise linear interpolants in space and time."""
        gaps = [a - b for a, b in zip(states, others, strict=True)]
        if len(gaps) == 1:
            return float(np.sqrt(gaps[0] @ self.mass @ gaps[0]))
        step = self.problem.end / self.problem.steps
        total = sum(
            step / 3 * (a @ self.mass @ (a + b) + b @ self.mass @ b)
            for a, b in itertools.pairwise(gaps)
        )
        return float(np.sqrt(total))
