# SPDX-License-Identifier: MIT
"""Steady solves and time integration of the assembled equation.

Time integration is by diagonally implicit Runge–Kutta schemes on F(w, ẇ, ẅ, t) = 0: stage by stage
F(W, Ẇ, Ẅ, t) = 0 is solved for W, with the rates of `cffem.engine.time.stepping`. The midpoint rule
conserves quadratic energies and is Newmark's average acceleration scheme for waves; sdirk2 is
L-stable and stiffly accurate. Steps of one length share one matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.assembly.dirichlet import Clock, EssentialConditions
from cffem.engine.assembly.equation import Equation
from cffem.engine.collective import summed
from cffem.engine.solve.linear import LinearSolver
from cffem.engine.solve.newton import Newton, NewtonSettings, newton_settings
from cffem.engine.solve.presets import plan
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.consistent import rates_and_values
from cffem.engine.time.growth import Growth
from cffem.engine.time.reversible import check_reversible
from cffem.engine.time.stepping import Stepping, Track, time_steps
from cffem.symbols.problem.schemes import Scheme
from cffem.symbols.problem.window import SAME_LEVEL

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.solve.stage_types import PetscOptions, StageVectors

# How far from a jump data are looked at on either side, relative to the largest time: a few units
# of its last place, which is as well as the place of a jump is known.
ASIDE = 64 * float(np.finfo(float).eps)


class Stage(Scope):
    """One implicit solve F(W, (W−W⁰)/γ, ((W−W⁰)/γ−V⁰)/γ, t) = 0 for W; γ = None is a steady solve.

    Args:
        equation: the assembled equation with its current coefficients.
        essential: the essential conditions.
        options: PETSc options.
    """

    def __init__(
        self,
        equation: Equation,
        essential: EssentialConditions,
        options: PetscOptions | None,
        record: SolveRecord,
    ):
        self.equation = equation
        self.essential = essential
        self.record = record
        self.options = options
        self.plan = plan(options, equation, essential)
        self.settings = newton_settings(options)
        self.solver: LinearSolver | None = None
        self._regular = False  # whether a matrix of the present problem was seen to be so
        self._factual = False
        self.rate, self.acceleration, self.right, self.increment = (
            self.own(equation.new_vector()) for _ in range(4)
        )

    def rates(
        self, state: PETSc.Vec, base: PETSc.Vec, velocity: PETSc.Vec, gamma: float | None
    ) -> StageVectors:
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

    def residual(
        self,
        state: PETSc.Vec,
        base: PETSc.Vec,
        velocity: PETSc.Vec,
        gamma: float | None,
        time: float,
    ) -> float:
        """Put −F at a stage value into `right`, zero in essential rows, and return its norm."""
        self.equation.residual(self.rates(state, base, velocity, gamma), time, self.right)
        self.right.scale(-1.0)
        self.essential.restrict(self.right, state.array_r)
        return self.right.norm()

    def refresh(
        self,
        state: PETSc.Vec,
        base: PETSc.Vec,
        velocity: PETSc.Vec,
        gamma: float | None,
        time: float,
    ) -> None:
        """Bring the matrix and its factorisation up to date, where that is needed."""
        self.linearise(self.rates(state, base, velocity, gamma), gamma, time)

    def linearise(self, states: StageVectors, gamma: float | None, time: float) -> None:
        """Make `solver` the solver of the equation linearised at (W, Ẇ, Ẅ), where it is not
        already.
        """
        key = (self.equation._current, gamma, self.essential)
        if self.equation.linear and self.equation.holds == key and self.solver is not None:
            return
        self.solver_of(self.matrix(states, gamma, time)).refresh()
        self.equation.holds = key

    def matrix(self, states: StageVectors, gamma: float | None, time: float) -> PETSc.Mat:
        """The matrix of the equation linearised at (W, Ẇ, Ẅ), for increments."""
        weights = self.weights(gamma, states[2] is not None)
        return self.equation.jacobian(weights, states, time, self.plan.rows(self.essential))

    def solver_of(self, matrix: PETSc.Mat) -> LinearSolver:
        """The solver of the equation's matrix."""
        if self.solver is not None and self.solver.matrix is not matrix:
            self.solver.destroy()
            self.solver = None
        if self.solver is None:
            self.solver = LinearSolver(matrix, self.plan, self.record)
        return self.solver

    def step(self, matrix: PETSc.Mat, what: str, enough: float) -> None:
        """Put the step that Newton's method makes of `right` into `increment`."""
        solver = self.solver_of(matrix)
        solver.refresh()
        solver.solve(self.right, self.increment, what, enough)
        self.essential.complete(self.increment.array)

    def size(self, values: np.ndarray) -> float:
        """The size of a state, its fields in the scale of the solver; collective."""
        scaling = None if self.solver is None else self.solver.scaling
        scaled = values if scaling is None else values / scaling.columns
        return math.sqrt(float(summed(self.equation.comm, scaled @ scaled)))

    def begin(self, record: SolveRecord, factual: bool = False) -> None:
        """Begin a problem: its solves are counted in a record, and a preset that gave way in
        another one has its chance again.
        """
        self.record, self._regular, self._factual = record, False, factual
        if self.plan.restore() and self.solver is not None:
            self.solver.destroy()
            self.solver, self.equation.holds = None, None
        if self.solver is not None:
            self.solver.record = record

    def solve(
        self,
        state: PETSc.Vec,
        base: PETSc.Vec,
        velocity: PETSc.Vec,
        gamma: float | None,
        time: float,
        what: str,
    ) -> StageVectors:
        """Solve for the stage value; returns (W, Ẇ, Ẅ).

        Args:
            state: the start, with the right essential values; it is overwritten.
            base, velocity: W⁰ and V⁰.
            gamma: γ, None for a steady solve.
            time: the stage's time.
            what: how to call the solve in a message.
        """
        if self.equation.affine:
            self._solve_linear(state, base, velocity, gamma, time, what)
            self.see_regular(what)
        else:
            newton = self.newton(base, velocity, gamma, time, what)
            newton.solve(state)
            if not newton.moves and not self._regular:
                self.refresh(state, base, velocity, gamma, time)
            self.see_regular(what)
        self.essential.centre(state.array)
        return self.rates(state, base, velocity, gamma)

    def see_regular(self, what: str) -> None:
        """See once in each problem that the matrix is regular: a solve that had nothing to do, or
        whose right-hand side was compatible with a singular one, does not tell.

        Raises:
            SolveError: the matrix is singular to working precision.
        """
        if not self._regular and self.solver is not None:
            # A factual problem that is solved up to gradients is the user's own choice.
            if not (self._factual and self.solver.up_to_gradients):
                self.solver.check_regular(what)
            self._regular = True

    def _solve_linear(
        self,
        state: PETSc.Vec,
        base: PETSc.Vec,
        velocity: PETSc.Vec,
        gamma: float | None,
        time: float,
        what: str,
    ) -> None:
        self.residual(state, base, velocity, gamma, time)
        self.refresh(state, base, velocity, gamma, time)
        assert self.solver is not None
        self.solver.solve(self.right, self.increment, what)
        self.essential.complete(self.increment.array)
        state.axpy(1.0, self.increment)

    def newton(
        self,
        base: PETSc.Vec,
        velocity: PETSc.Vec,
        gamma: float | None,
        time: float,
        what: str,
        settings: NewtonSettings | None = None,
    ) -> Newton:
        """Newton's method for a stage of a nonlinear equation."""

        def residual(state: PETSc.Vec) -> None:
            self.residual(state, base, velocity, gamma, time)

        def assemble(state: PETSc.Vec) -> PETSc.Mat:
            return self.matrix(self.rates(state, base, velocity, gamma), gamma, time)

        def sizes(state: PETSc.Vec) -> np.ndarray:
            return self.equation.sizes(self.rates(state, base, velocity, gamma), time)

        return Newton(
            self,
            residual,
            assemble,
            sizes if gamma is None else None,
            what,
            settings or self.settings,
        )

    def destroy(self) -> None:
        """Free the solver; collective. The matrix belongs to the equation."""
        if self.solver is not None:
            self.solver.destroy()
        super().destroy()


@dataclass
class Marching:
    """What a march needs to know besides the equation.

    Attributes:
        scheme: the Runge–Kutta scheme.
        dynamic: over owned unknowns, 1 for those with a rate, 0 for algebraic ones.
        second_order: over owned unknowns, 1 for those with a second-order anchor; None if there are
            none.
        jumps: times at which data jump or have a kink.
    """

    scheme: Scheme
    dynamic: np.ndarray
    second_order: np.ndarray | None
    jumps: tuple[float, ...] = ()

    def stepping(self, times: np.ndarray) -> Stepping:
        """The scheme with the steps between these levels."""
        return Stepping(self.scheme, time_steps(times), self.dynamic, self.second_order)

    def sides(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The levels as the steps before and after them see data: at a jump from its own side."""
        before, after = times.copy(), times.copy()
        if self.jumps:
            jumps = np.array(self.jumps)
            aside = ASIDE * float(np.abs(times).max())
            gaps = np.abs(times[:, None] - jumps[None, :]).min(axis=1)
            hit = gaps <= SAME_LEVEL * np.diff(times).min()
            before[hit] -= aside
            after[hit] += aside
        return before, after


def consistent_start(
    stage: Stage,
    marching: Marching,
    held: np.ndarray,
    state: np.ndarray,
    velocity: np.ndarray | None,
    time: float,
) -> None:
    """Solve for the algebraic unknowns of an initial state, in place; those that have rates are
    held.

    Args:
        stage: the stage solver with its equation and boundary conditions.
        marching: which unknowns have rates.
        held: over owned unknowns, not zero for those to hold.
        state, velocity: owned values.
        time: the initial time.
    """
    if stage.equation.rates_in_algebraic():
        rates_and_values(stage, marching, state, velocity, time)
        return
    with Scope() as scope:
        essential = stage.essential.holding(held)
        solver = scope.own(Stage(stage.equation, essential, None, stage.record))
        whole = scope.own(stage.equation.new_vector())
        whole.array[:] = state
        solver.solve(whole, None, None, None, time, "the initial value of the algebraic unknowns")
        state[:] = whole.array_r


def march(
    stage: Stage,
    marching: Marching,
    times: np.ndarray,
    start: np.ndarray,
    velocity: np.ndarray | None,
    keep: Callable[[int, np.ndarray, np.ndarray | None], bool | None],
    keep_stage: Callable[[int, int, StageVectors, float], None] | None = None,
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
    stepping, (before, after) = marching.stepping(times), marching.sides(times)
    track = Track(stepping, np.array(start), None if velocity is None else np.array(velocity))
    keep(0, track.state.copy(), track.velocity)
    check_reversible(stage, stepping, start, velocity, float(times[0]))
    growth = Growth(stage, stepping, times, start, velocity)
    with Scope() as scope:
        steps = scope.own(StepSolver(stage, marching.scheme, velocity is not None))
        for level in range(1, len(times)):
            what = f"step {level} of {len(times) - 1}"
            steps.take(track, float(after[level - 1]), float(before[level]), what, keep_stage)
            steps.finish(track, float(after[level]))
            growth.check(level, track.state)
            if keep(level, track.state.copy(), track.velocity):
                break


class StepSolver(Scope):
    """Takes steps of a track by solving their stages.

    Args:
        stage: the implicit stage solver.
        scheme: the Runge–Kutta scheme.
        waves: whether there are velocities.
    """

    def __init__(self, stage: Stage, scheme: Scheme, waves: bool):
        self.stage, self.scheme = stage, scheme
        self._guess, self._base = (self.own(stage.equation.new_vector()) for _ in range(2))
        self._speed = self.own(stage.equation.new_vector()) if waves else None
        # Parts of a step of other lengths have matrices of their own, which are kept beside the
        # first where one matrix serves all steps.
        self._twins: dict[float, Stage] = {scheme.a[0][0]: stage}

    def take(
        self,
        track: Track,
        begin: float,
        end: float,
        what: str,
        keep_stage: Callable[[int, int, StageVectors, float], None] | None = None,
    ) -> None:
        """Take one step.

        Args:
            track: the trajectory, which is moved.
            begin, end: the ends of the step, as data are seen from within.
            what: how to call the step in a message.
            keep_stage: called with (step, stage, (W, Ẇ, Ẅ), time) after every stage solve.
        """
        guess, base, number = self._guess, self._base, track.level
        for i in range(len(self.scheme.b)):
            clock = clock_of(self.scheme, i, begin, end, track.gamma(i))
            base.array[:], slow = track.bases(i)
            # A second-order unknown goes on with its velocity: the better start for Newton, and
            # irrelevant for a linear solve.
            guess.array[:] = base.array_r
            if self._speed is not None and track.velocity is not None:
                self._speed.array[:] = slow
                guess.array[:] += clock.gamma * track.velocity
            self.stage.essential.set_stage(guess.array, base.array_r, clock, slow)
            states = self._stage(i).solve(guess, base, self._speed, clock.gamma, clock.time, what)
            _, rate, acceleration = (None if x is None else x.array_r for x in states)
            track.move(i, guess.array_r, rate, acceleration)
            if keep_stage is not None:
                keep_stage(number, i, states, clock.time)

    def finish(self, track: Track, time: float) -> None:
        """Give the level that is reached its boundary values."""
        self.stage.essential.set_values(track.state, time)
        if track.velocity is not None:
            self.stage.essential.set_velocities(track.velocity, time)

    def _stage(self, index: int) -> Stage:
        diagonal = self.scheme.a[index][index]
        if diagonal not in self._twins:
            linear = self.stage.equation.linear
            self._twins[diagonal] = self.own(twin(self.stage)) if linear else self.stage
        return self._twins[diagonal]


class Twin(Stage):
    """A stage solver with a matrix of its own, which it frees."""

    def destroy(self) -> None:
        """Free the solver and its matrix; collective."""
        super().destroy()
        self.equation.destroy()


def twin(stage: Stage) -> Twin:
    """A stage solver of the same equation with a matrix and factors of its own."""
    equation = stage.equation.twin()
    result = Twin(equation, stage.essential, stage.options, stage.record)
    return result


def clock_of(scheme: Scheme, index: int, begin: float, end: float, gamma: float) -> Clock:
    """Where a stage stands: in its step, or in its part of a step that is made of several midpoint
    rules.
    """
    first, share = scheme.span(index)
    length = end - begin
    fraction = scheme.c[index] if scheme.stiffly_accurate else 0.5
    exact = scheme.stiffly_accurate
    return Clock(
        begin + first * length, share * length, fraction, gamma, exact, exact and scheme.order > 2
    )
