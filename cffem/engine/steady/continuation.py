# SPDX-License-Identifier: MIT
"""Changed steady solutions on the branch that begins at the factual one.

A nonlinear steady problem may have several solutions; a deletion means the one that the factual
solution turns into while the term is taken away, u_j(ρ) with F(u; ρ) = (1 − ρ) F₀(u) + ρ F₁(u) = 0,
as the gap theorem assumes. From u(ρ) the tangent leads to

    u(ρ + h) ≈ u(ρ) − h/(1 − ρ) J(ρ)⁻¹ F₁(u(ρ)),

and Newton's method from there must show that it stays on the branch: full steps that contract, and
a correction that is smaller than the prediction (Deuflhard's rule for steps of continuation).
Mostly one step with h = 1 does; where it does not, h is halved. A branch that admits no further
step, however short, turns back there: a fold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.solve.newton import NEWTON
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from cffem.engine.time.march import Stage

# Causes that say something about the changed problem itself and not about the way to it.
FINAL = ("singular", "memory", "workspace", "not finite")


@dataclass(frozen=True)
class ContinuationSettings:
    """When a step along a branch is believed.

    Attributes:
        contraction: the largest ratio of the second step of Newton's method to the first.
        correction: the largest correction by Newton's method, relative to the predicted move.
        shortest: the shortest step in ρ, relative to 1 − ρ: where the leading term goes, solutions
            change with log(1 − ρ). A branch that cannot be followed that far has turned back.
        first: the same for the first step, at ρ = 0: a branch that cannot be left there does not
            exist.
        last: the smallest 1 − ρ: a branch that comes so close to its end without reaching it has
            none.
        most: the largest number of steps.
        turning: by how much ‖du/dρ‖ has grown where a branch turns back.
        same: the distance relative to their size from which two solutions are not the same.
        grid: no step goes across a multiple of this ρ, where a branch is sampled.
        end: where the branch is followed to.
    """

    contraction: float = 0.5
    correction: float = 0.5
    shortest: float = 1 / 256
    first: float = 1e-4
    last: float = 1e-6
    most: int = 100
    turning: float = 5.0
    same: float = 1e-6
    grid: float = 1.0
    end: float = 1.0


SETTINGS = ContinuationSettings()
# From one place of a fit to the next: a step of the fit that asks for more is shortened itself.
BETWEEN_PLACES = replace(SETTINGS, most=6, shortest=1 / 16, first=1 / 32)
# On a branch a step is taken whole or not at all.
WHOLE = replace(NEWTON, shortest=1.0, most=10)


class SolutionBranch:
    """The branch of one changed steady problem.

    Args:
        stage: the stage solver.
        before, after: factual and changed coefficients.
        use: takes coefficients into use.
        settings: when a step is believed.
        visit: called with every ρ that was reached and the values of the solution there.

    Attributes:
        steps: how many were taken.
        other: a solution of the changed problem that is not on the branch, where one was met.
        crossed: between which ρ other branches cross it.
    """

    def __init__(
        self,
        stage: Stage,
        before: Mapping[str, float],
        after: Mapping[str, float],
        use: Callable[[Mapping[str, float]], None],
        settings: ContinuationSettings = SETTINGS,
        visit: Callable[[float, np.ndarray], None] | None = None,
    ):
        self.stage, self.before, self.after, self._use, self.settings = (
            stage,
            before,
            after,
            use,
            settings,
        )
        self._visit = visit
        self.steps = 0
        self.other: np.ndarray | None = None
        self.crossed: list[tuple[float, float]] = []
        self._signs: list[tuple[float, int]] = []
        self._history: list[float] = []
        self._state = stage.equation.new_vector()

    def at(self, rho: float) -> None:
        """Take the coefficients at ρ into use."""
        self._use(
            {
                name: (1.0 - rho) * value + rho * self.after[name]
                for name, value in self.before.items()
            }
        )

    def follow(self, start: np.ndarray) -> np.ndarray:
        """The changed solution on the branch; owned values.

        Args:
            start: the factual solution, with the essential values.

        Raises:
            SolveError: the changed problem is singular, or the branch turns back before its end.
        """
        try:
            return self._followed(start)
        finally:
            self.at(self.settings.end)
            self._state.destroy()

    def _followed(self, start: np.ndarray) -> np.ndarray:
        settings, end = self.settings, self.settings.end
        rho, length, value = 0.0, 1.0, start.copy()
        speeds: list[float] = []  # ‖du/dρ‖, which grows without bound where a branch turns back
        while rho < end:
            direction = self._direction(value, rho)
            self._cross(rho)
            speeds.append(self.stage.size(direction) / (1.0 - rho))
            found = None
            while found is None:
                shortest = settings.shortest * (1.0 - rho) if rho else settings.first
                goal = self._goal(rho, length, shortest)
                found = self._corrected(value, (goal - rho) / (1.0 - rho) * direction, goal)
                if found is None:
                    length = (goal - rho) / 2
                if length < shortest or self.steps > settings.most:
                    raise self._ends(rho, start, speeds[-1] > settings.turning * min(speeds))
            rho, length, value = goal, 2.0 * max(length, goal - rho), found
            self.steps += 1
            if self._visit is not None:
                self._visit(rho, value)
            if 0.0 < 1.0 - rho < settings.last:
                raise self._ends(rho, start, True)
        self._cross(end)
        return value

    def _goal(self, rho: float, length: float, shortest: float) -> float:
        """Where a step of this length leads: to the next point of the grid at most, and never
        to shortly before the end.
        """
        grid, end = self.settings.grid, self.settings.end
        point = grid * (math.floor(rho / grid + 1e-9) + 1)
        goal = min(rho + length, point)
        return end if goal > end - shortest else goal

    def _cross(self, rho: float) -> None:
        """Note where the determinant of the Jacobian changes its sign: another branch crosses
        there.
        """
        solver = self.stage.solver
        sign = 0 if solver is None else solver.orientation
        if self._signs and sign * self._signs[-1][1] < 0:
            self.crossed.append((self._signs[-1][0], rho))
        self._signs.append((rho, sign))

    def _direction(self, value: np.ndarray, rho: float) -> np.ndarray:
        """The tangent at a point of the branch, as long as the rest of the way."""
        stage = self.stage
        self._state.array[:] = value
        self.at(1.0)
        stage.residual(self._state, None, None, None, 0.0)
        right = stage.right.array_r.copy()
        self.at(rho)
        matrix = stage.matrix((self._state, None, None), None, 0.0)
        stage.right.array[:] = right
        try:
            stage.step(matrix, "the tangent of the branch", NEWTON.linear)
        except SolveError as error:
            raise SolveError(
                f"the branch of solutions cannot be left at ρ = {rho:.3g}: {error}", cause="fold"
            ) from error
        return stage.increment.array_r.copy()

    def _corrected(self, value: np.ndarray, move: np.ndarray, goal: float) -> np.ndarray | None:
        """The point of the branch near a predicted one; None where it is not certain to be on
        the branch.
        """
        stage, settings = self.stage, self.settings
        self.at(goal)
        self._state.array[:] = value + move
        stage.essential.complete(self._state.array)
        newton = stage.newton(None, None, None, 0.0, "the steady problem", WHOLE)
        self._history = newton.history
        try:
            newton.solve(self._state)
        except SolveError as error:
            if goal == 1.0 and error.cause in FINAL:
                raise
            return None
        if goal == self.settings.end:
            # A start without a residual is a solution, but perhaps not the only one.
            if not newton.moves:
                stage.refresh(self._state, None, None, None, 0.0)
            stage.see_regular("the steady problem")
        found = self._state.array_r.copy()
        moves = newton.moves
        contracts = len(moves) < 2 or moves[1] <= settings.contraction * moves[0]
        corrected, predicted = stage.size(found - value - move), stage.size(move)
        near = corrected <= settings.correction * predicted or self._same(found, value + move)
        if contracts and near:
            return found
        if goal == 1.0 and self.other is None:
            self.other = found
        return None

    def _same(self, first: np.ndarray, second: np.ndarray) -> bool:
        return self.stage.size(first - second) <= self.settings.same * max(
            self.stage.size(first), self.stage.size(second)
        )

    def _ends(self, rho: float, start: np.ndarray, turning: bool) -> SolveError:
        if self.steps > self.settings.most:
            where = f"beyond ρ = {rho:.3g} of this change in {self.settings.most} steps"
        elif 1.0 - rho < self.settings.last:
            where = (
                "to the end of this change: the solution grows without bound on the way, or jumps "
                "there"
            )
        elif turning and self.stage.equation.affine:
            where = (
                f"beyond ρ = {rho:.3g} of this change: the solution grows without bound there (a "
                "resonance)"
            )
        elif turning:
            where = f"beyond ρ = {rho:.3g} of this change: it turns back there (a fold)"
        else:
            where = (
                f"beyond ρ = {rho:.3g} of this change: Newton's method leaves it there, however "
                "short the step"
            )
        text = f"the branch of solutions that begins at the factual one cannot be followed {where}"
        if self.other is not None:
            share = self.stage.size(self.other - start) / max(
                self.stage.size(start), self.stage.size(self.other)
            )
            text += (
                f"; the changed problem has a solution that is not on it, {share:.2g} of its size "
                "away from the factual one"
            )
        return SolveError(
            text, self._history, "blow-up" if turning and self.stage.equation.affine else "fold"
        )

    def told(self, found: np.ndarray) -> str:
        """What is to be said about a solution that was found on the branch; nothing where it
        is the only one that was met.
        """
        parts = [
            f"between ρ = {a:.3g} and {b:.3g} another branch crosses it" for a, b in self.crossed
        ]
        if self.other is not None and not self._same(self.other, found):
            share = self.stage.size(self.other - found) / max(
                self.stage.size(found), self.stage.size(self.other)
            )
            parts.append(f"another solution of the changed problem is {share:.2g} of its size away")
        if not parts:
            return ""
        text = (
            "there are several solutions; the one on the branch that begins at the factual "
            "solution was taken"
        )
        return f"{text} ({self.steps} steps): {', and '.join(parts)}"
