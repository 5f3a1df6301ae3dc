"""Steady solves and time integration of the assembled equation.

Time integration is by diagonally implicit Runge–Kutta schemes on F(w, ẇ, ẅ, t) = 0. With γ = a_ii Δt, stage i has the unknown W
and the rates

    Ẇ = (W − w_n − Δt Σ_{j<i} a_ij Ẇ_j)/γ,     Ẅ = (Ẇ − v_n − Δt Σ_{j<i} a_ij Ẅ_j)/γ   (fields with a second-order anchor),

and the step ends with w_{n+1} = w_n + Δt Σ b_i Ẇ_i, v_{n+1} = v_n + Δt Σ b_i Ẅ_i; algebraic unknowns (multipliers, auxiliary
fields, steady equations) take their value from the last stage. The midpoint rule conserves quadratic energies and is Newmark's
average acceleration scheme for waves; sdirk2 is L-stable and stiffly accurate. All stages share one matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from petsc4py import PETSc

from cffem.engine.dirichlet import EssentialConditions
from cffem.engine.equation import Equation
from cffem.engine.linear import LinearSolver, SolveError, SolveRecord


@dataclass(frozen=True)
class Scheme:
    """A diagonally implicit Runge–Kutta scheme with equal diagonal entries."""

    name: str
    a: tuple[tuple[float, ...], ...]
    b: tuple[float, ...]
    order: int

    @property
    def c(self) -> tuple[float, ...]:
        """Stage times."""
        return tuple(sum(row) for row in self.a)


_G = 1.0 - np.sqrt(0.5)
MIDPOINT = Scheme("midpoint", ((0.5,),), (1.0,), 2)
SDIRK2 = Scheme("sdirk2", ((_G,), (1.0 - _G, _G)), (1.0 - _G, _G), 2)
BACKWARD_EULER = Scheme("backward-euler", ((1.0,),), (1.0,), 1)
SCHEMES = {scheme.name: scheme for scheme in (MIDPOINT, SDIRK2, BACKWARD_EULER)}


class Stage:
    """One implicit solve F(W, (W−W⁰)/γ, ((W−W⁰)/γ−V⁰)/γ, t) = 0 for W; γ = None is a steady solve.

    Args:
        equation: the assembled equation with its current coefficients.
        essential: the essential conditions.
        options: PETSc options.
    """

    def __init__(self, equation: Equation, essential: EssentialConditions, options: Any, record: SolveRecord):
        self.equation = equation
        self.essential = essential
        self.record = record
        self.options = dict(options or {})
        self.solver: LinearSolver | None = None
        self._built: Any = None
        new = equation.new_vector
        self.rate, self.acceleration, self.right, self.increment = new(), new(), new(), new()

    def rates(self, state: Any, base: Any, velocity: Any, gamma: float | None) -> tuple[Any, Any, Any]:
        """(W, Ẇ, Ẅ) for a stage value."""
        if gamma is None:
            return (state, None, None)
        self.rate.waxpy(-1.0, base, state)
        self.rate.scale(1.0 / gamma)
        if velocity is None:
            return (state, self.rate, None)
        self.acceleration.waxpy(-1.0, velocity, self.rate)
        self.acceleration.scale(1.0 / gamma)
        return (state, self.rate, self.acceleration)

    def weights(self, gamma: float | None, second_order: bool) -> tuple[float, float, float]:
        """Factors of the Jacobians with respect to W."""
        if gamma is None:
            return (1.0, 0.0, 0.0)
        return (1.0, 1.0 / gamma, 1.0 / gamma**2 if second_order else 0.0)

    def residual(self, state: Any, base: Any, velocity: Any, gamma: float | None, time: float) -> float:
        """Put −F at a stage value into `right`, zero in essential rows, and return its norm."""
        self.equation.residual(self.rates(state, base, velocity, gamma), time, self.right)
        self.right.scale(-1.0)
        self.right.array[self.essential.owned] = 0.0
        return self.right.norm()

    def refresh(self, state: Any, base: Any, velocity: Any, gamma: float | None, time: float) -> None:
        """Bring the matrix and its factorisation up to date, where that is needed."""
        key = (self.equation._current, gamma)
        if self.equation.linear and self._built == key:
            return
        states = self.rates(state, base, velocity, gamma)
        weights = self.weights(gamma, velocity is not None)
        matrix = self.equation.jacobian(weights, states, time, self.essential.rows)
        if self.solver is None:
            self.solver = LinearSolver(matrix, self.options, self.record)
        self.solver.refresh()
        self._built = key

    def solve(self, state: Any, base: Any, velocity: Any, gamma: float | None, time: float, what: str) -> tuple[Any, Any, Any]:
        """Solve for the stage value, starting from `state`, which is overwritten; returns (W, Ẇ, Ẅ)."""
        self.essential.set_values(state.array, time)
        if self.equation.affine:
            self._solve_linear(state, base, velocity, gamma, time, what)
        else:
            self._solve_newton(state, base, velocity, gamma, time, what)
        return self.rates(state, base, velocity, gamma)

    def _solve_linear(self, state: Any, base: Any, velocity: Any, gamma: float | None, time: float, what: str) -> None:
        self.residual(state, base, velocity, gamma, time)
        self.refresh(state, base, velocity, gamma, time)
        assert self.solver is not None
        self.solver.solve(self.right, self.increment, what)
        state.axpy(1.0, self.increment)

    def _solve_newton(self, state: Any, base: Any, velocity: Any, gamma: float | None, time: float, what: str) -> None:
        """PETSc's SNES with line search; the history of residual norms goes into the error of a failing one."""
        history: list[float] = []

        def function(snes: Any, x: Any, f: Any) -> None:
            self.residual(x, base, velocity, gamma, time)
            self.right.copy(f)
            f.scale(-1.0)

        def jacobian(snes: Any, x: Any, matrix: Any, preconditioner: Any) -> None:
            self.refresh(x, base, velocity, gamma, time)
            self.record.newton_steps += 1

        self.refresh(state, base, velocity, gamma, time)
        assert self.solver is not None
        snes = PETSc.SNES().create(self.equation.comm)
        snes.setFunction(function, self.increment)
        snes.setJacobian(jacobian, self.solver.matrix)
        snes.setKSP(self.solver.ksp)
        snes.setType("newtonls")
        snes.setOptionsPrefix(self.solver.prefix)
        database = PETSc.Options()
        database[self.solver.prefix + "snes_linesearch_type"] = "bt"
        snes.setFromOptions()
        database.delValue(self.solver.prefix + "snes_linesearch_type")
        snes.setTolerances(rtol=1e-11, atol=self._absolute_tolerance(state), stol=1e-14, max_it=30)
        snes.setMonitor(lambda snes, iteration, norm: history.append(norm))
        snes.setErrorIfNotConverged(False)
        try:
            snes.solve(None, state)
            reason = snes.getConvergedReason()
        except PETSc.Error as error:
            raise SolveError(f"{what}: Newton's method broke down (PETSc error {error.ierr})", history) from None
        finally:
            snes.destroy()
        if reason <= 0 or not np.isfinite(history[-1]):
            raise SolveError(f"{what}: Newton's method did not converge (reason {reason}), residuals {_shown(history)}", history)
        self.record.worst_residual = max(self.record.worst_residual, history[-1] / max(history[0], 1e-300) if history[0] else 0.0)

    def _absolute_tolerance(self, state: Any) -> float:
        """A residual that round-off alone produces, so that a start from the solution counts as converged."""
        matrix = self.solver.matrix if self.solver is not None else None
        size = matrix.norm(PETSc.NormType.NORM_INFINITY) if matrix is not None else 1.0
        return 1e-14 * max(size * state.norm(), 1e-300)

    def destroy(self) -> None:
        """Free the solver; collective. The matrix belongs to the equation."""
        if self.solver is not None:
            self.solver.destroy()
        for vector in (self.rate, self.acceleration, self.right, self.increment):
            vector.destroy()


def _shown(history: Sequence[float]) -> str:
    return ", ".join(f"{value:.1e}" for value in history[:3]) + (f", …, {history[-1]:.1e}" if len(history) > 3 else "")


@dataclass
class Marching:
    """What a march needs to know besides the equation.

    Attributes:
        scheme: the Runge–Kutta scheme.
        dynamic: over owned unknowns, 1 for those with a rate, 0 for algebraic ones.
        second_order: over owned unknowns, 1 for those with a second-order anchor; None if there are none.
    """

    scheme: Scheme
    dynamic: np.ndarray
    second_order: np.ndarray | None


def march(
    stage: Stage,
    marching: Marching,
    times: np.ndarray,
    start: np.ndarray,
    velocity: np.ndarray | None,
    keep: Callable[[int, np.ndarray, np.ndarray | None], bool | None],
    keep_stage: Callable[[int, int, tuple[Any, Any, Any], float], None] | None = None,
) -> None:
    """Integrate from the first to the last time.

    Args:
        stage: the implicit stage solver.
        marching: scheme and kinds of unknowns.
        times: all time levels.
        start, velocity: owned values at the first time; velocity only for second-order anchors.
        keep: called with (level, state, velocity) at every level; a true result ends the march.
        keep_stage: called with (step, stage, (W, Ẇ, Ẅ), time) after every stage solve.
    """
    equation, scheme = stage.equation, marching.scheme
    w, base, v0 = equation.new_vector(), equation.new_vector(), None
    w.array[:] = start
    v = None if velocity is None else np.array(velocity)
    if v is not None:
        v0 = equation.new_vector()
    keep(0, w.array_r.copy(), v)
    guess = equation.new_vector()
    # One number for all steps: differences of rounded times would each ask for a factorisation of their own.
    step = float(times[-1] - times[0]) / (len(times) - 1)
    for level in range(1, len(times)):
        w_rates: list[np.ndarray] = []
        v_rates: list[np.ndarray] = []
        for i, row in enumerate(scheme.a):
            time = times[level - 1] + scheme.c[i] * step
            base.array[:] = w.array_r + step * sum((a * r for a, r in zip(row[:-1], w_rates, strict=False)), np.zeros(1))
            if v0 is not None and v is not None:
                v0.array[:] = v + step * sum((a * r for a, r in zip(row[:-1], v_rates, strict=False)), np.zeros(1))
            # A second-order unknown goes on with its velocity: the better start for Newton, and irrelevant for a linear solve.
            guess.array[:] = base.array_r if v is None else base.array_r + row[-1] * step * v
            states = stage.solve(guess, base, v0, row[-1] * step, time, f"step {level} of {len(times) - 1}")
            w_rates.append(states[1].array_r * marching.dynamic)
            if v0 is not None:
                v_rates.append(states[2].array_r * marching.second_order)
            if keep_stage is not None:
                keep_stage(level - 1, i, states, time)
        algebraic = guess.array_r * (1.0 - marching.dynamic)
        w.array[:] = (
            w.array_r + step * sum(b * r for b, r in zip(scheme.b, w_rates, strict=True))
        ) * marching.dynamic + algebraic
        stage.essential.set_values(w.array, times[level])
        if v is not None:
            v = v + step * sum(b * r for b, r in zip(scheme.b, v_rates, strict=True))
        if not np.isfinite(w.norm()):
            raise SolveError(f"the solution is not finite after step {level}")
        if keep(level, w.array_r.copy(), v):
            break
    for vector in (w, base, guess, v0):
        if vector is not None:
            vector.destroy()
