# SPDX-License-Identifier: MIT
"""Newton's method with backtracking, in which no unit matters.

A residual F(w) is judged against what it is made of: against the residual of the start, against Σ_k
|c_k F_k|, the sizes of the terms whose sum it is, and against the rounding errors of that sum,
which are those of |J| |w|. Fields of a coupled system are compared in the scale of
`cffem.engine.solve.scaling`, and the equation of each of them must also be solved by the measure of
its own terms, however large the others are. An equation with one term only, exp(u) = 0 or div(v) =
0, is its own measure: it is solved where its residual is rounding, or where its field has come to
rest, as one that vanishes does. Whatever is raised while a residual or a Jacobian is made arrives
as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from mpi4py import MPI

from cffem.engine.collective import summed
from cffem.engine.solve.scaling import FieldBlocks, MatrixEquilibration
from cffem.engine.solve_errors import SolveError
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from petsc4py import PETSc

    from cffem.engine.time.march import Stage


@dataclass(frozen=True)
class NewtonSettings:
    """When Newton's method ends.

    Attributes:
        reduction: the residual relative to the start's and to the terms that make it up.
        exact: relative to |J| |w|, a residual that is nothing but rounding.
        rounded: relative to |J| |w|, a residual that may be rounding where no step makes it
            smaller.
        most: the largest number of steps.
        decrease: the share of the decrease that a step promises which it must keep.
        shortest: the shortest step that is tried.
        linear: the relative residual that a linear solve must reach to be worth a step.
    """

    reduction: float = 1e-11
    exact: float = 2e-15
    rounded: float = 1e-13
    most: int = 30
    decrease: float = 1e-4
    shortest: float = 1e-8
    linear: float = 1e-6


NEWTON = NewtonSettings()
LINE_SEARCHES = ("bt", "basic")


def newton_settings(options: Mapping[str, Any] | None) -> NewtonSettings:
    """The settings of Newton's method that PETSc's options for SNES ask for.

    Args:
        options: PETSc options; those of other solvers are left alone.

    Raises:
        InputError: an option of SNES that this Newton's method does not know.

    Example:
        >>> newton_settings({"snes_max_it": 50, "ksp_type": "cg"}).most
        50
    """
    known = ("snes_rtol", "snes_max_it", "snes_linesearch_type")
    given = {key: value for key, value in (options or {}).items() if key.startswith("snes_")}
    for key in given:
        if key not in known:
            raise InputError(f"Newton's method here reads {', '.join(known)}, not {key}")
    search = given.get("snes_linesearch_type", "bt")
    if search not in LINE_SEARCHES:
        raise InputError(f"snes_linesearch_type is {' or '.join(LINE_SEARCHES)}, not {search!r}")
    return replace(
        NEWTON,
        reduction=float(given.get("snes_rtol", NEWTON.reduction)),
        most=int(given.get("snes_max_it", NEWTON.most)),
        # Full steps, whatever the residual does.
        decrease=NEWTON.decrease if search == "bt" else -math.inf,
    )


class ResidualScale:
    """Sizes of residuals, without units where fields are coupled.

    Args:
        blocks: which field each row belongs to; None for a single field.
        held: positions of the rows that are essential.
        comm: the communicator.
    """

    def __init__(self, blocks: FieldBlocks | None, held: np.ndarray, comm: MPI.Comm):
        self.blocks, self.held, self.comm = blocks, held, comm
        self._weights: np.ndarray | float = 1.0
        self._fixed = blocks is None

    def bounds(self, matrix: PETSc.Mat, state: np.ndarray) -> np.ndarray:
        """|J| |w| row by row, with the largest value of each field in the place of all its
        values; collective.
        """
        starts, columns, values = matrix.getValuesCSR()
        largest = self.largest(state)
        sizes = np.abs(values) * (
            largest[0] if self.blocks is None else largest[self.blocks.of_columns(columns)]
        )
        result, filled = np.zeros(len(starts) - 1), np.flatnonzero(np.diff(starts))
        if len(filled):
            result[filled] = np.add.reduceat(sizes, starts[:-1][filled])
        result[self.held] = 0.0
        return result

    def fix(self, matrix: PETSc.Mat, rows: np.ndarray, sizes: np.ndarray) -> None:
        """Choose the weights of rows of coupled fields once: all groups of fields count alike.

        Args:
            matrix: the matrix.
            rows: global numbers of its rows that are rows of the identity.
            sizes: of what the residual is made of, row by row.
        """
        if self._fixed or self.blocks is None:
            return
        self._weights, self._fixed = (
            MatrixEquilibration(self.blocks, matrix, rows).weights(sizes),
            True,
        )

    def fields(self, values: np.ndarray) -> np.ndarray:
        """The size of a residual in the equation of each field; collective."""
        if self.blocks is None:
            return np.array([self(values)])
        # Relative to the largest value, whose square may be no number of this precision.
        most = self.largest(values)
        units = np.where(most > 0, most, 1.0)
        with np.errstate(invalid="ignore"):
            shares = values / units[self.blocks.owned]
        squares = np.bincount(self.blocks.owned, shares**2, minlength=len(most))
        return units * np.sqrt(summed(self.comm, squares))

    def largest(self, values: np.ndarray) -> np.ndarray:
        """The largest absolute value of each field; collective."""
        fields = np.zeros(len(values), dtype=np.int64) if self.blocks is None else self.blocks.owned
        result = np.zeros(1 if self.blocks is None else self.blocks.count)
        np.maximum.at(result, fields, np.abs(values))
        self.comm.Allreduce(MPI.IN_PLACE, result, op=MPI.MAX)
        return result

    def __call__(self, values: np.ndarray) -> float:
        """The size of a residual; collective."""
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = self._weights * values
            return math.sqrt(float(summed(self.comm, weighted @ weighted)))


class Newton:
    """One nonlinear solve F(w) = 0.

    Args:
        stage: assembles the matrix and owns the linear solver.
        residual: puts −F at a state into `stage.right`.
        assemble: makes the matrix at a state and returns it.
        sizes: Σ_k |c_k F_k| at a state, for problems whose start says nothing; None where it does.
        what: how to call the solve in a message.
        settings: when it ends.

    Attributes:
        history: the sizes of all residuals.
        moves: the sizes of all steps as they were solved for, fields in one scale.
    """

    def __init__(
        self,
        stage: Stage,
        residual: Callable[[PETSc.Vec], None],
        assemble: Callable[[PETSc.Vec], PETSc.Mat],
        sizes: Callable[[PETSc.Vec], np.ndarray] | None,
        what: str,
        settings: NewtonSettings = NEWTON,
    ):
        self.stage, self.what, self.settings = stage, what, settings
        self._residual, self._assemble, self._sizes = residual, assemble, sizes
        equation = stage.equation
        blocks = equation.blocks if len(equation.spaces.fields) > 1 else None
        self.scale = ResidualScale(blocks, stage.essential.owned, equation.comm)
        self.history: list[float] = []
        self.moves: list[float] = []
        # By field: its first residual and the present one, |J| |w| + |F|, its largest values at the
        # last two iterates, and whether the last step is nothing beside these.
        self._first = self._now = self._floors = self._before = self._largest = np.zeros(0)
        self._still = np.zeros(0, dtype=bool)

    def solve(self, state: PETSc.Vec) -> None:
        """Solve from a state, which is overwritten.

        Raises:
            SolveError: Newton's method does not converge from there.
        """
        stage, settings = self.stage, self.settings
        trial = stage.equation.new_vector()
        try:
            self._residual(state)
            for iteration in range(settings.most + 1):
                matrix = self._assemble(state)
                size, floor = self._measured(matrix, state)
                if self._converged(size, floor, state):
                    break
                if iteration == settings.most:
                    raise self._failed("the most iterations that are allowed")
                stage.step(matrix, self.what, settings.linear)
                stage.record.newton_steps += 1
                self.moves.append(stage.size(stage.increment.array_r))
                move = self.scale.largest(stage.increment.array_r)
                self._still = move <= settings.reduction * np.maximum(self._before, self._largest)
                if not self._advance(state, trial, size):
                    rounded = size <= settings.rounded * floor or self._still.all()
                    if rounded and self._rounded(settings.rounded):
                        break
                    raise self._failed("no step lowers the residual")
        finally:
            trial.destroy()
        first, last = self.history[0], self.history[-1]
        stage.record.worst_residual = max(
            stage.record.worst_residual, last / first if first > 0 else 0.0
        )

    def _measured(self, matrix: PETSc.Mat, state: PETSc.Vec) -> tuple[float, float]:
        """The sizes of the residual and of |J| |w| + |F|."""
        residual = self.stage.right.array_r
        sums = self.scale.bounds(matrix, state.array_r) + np.abs(residual)
        self.scale.fix(matrix, self.stage.plan.held, sums)
        size = self.scale(residual)
        if not math.isfinite(size):
            raise self._failed("the residual is not finite", "not finite")
        self.history.append(size)
        self._now, self._floors = self.scale.fields(residual), self.scale.fields(sums)
        self._before, self._largest = self._largest, self.scale.largest(state.array_r)
        if len(self.history) == 1:
            self._first, self._before = self._now, self._largest
            self._still = np.zeros(len(self._now), dtype=bool)
        return size, self.scale(sums)

    def _converged(self, size: float, floor: float, state: PETSc.Vec) -> bool:
        settings = self.settings
        if size <= settings.exact * floor and self._rounded(settings.exact):
            return True
        if len(self.history) == 1 or size > settings.reduction * self.history[0]:
            return False
        if self._sizes is None:
            return self._solved(self._first)
        # A start far away has a residual that says nothing about the solution.
        sizes = self._sizes(state)
        enough = size <= settings.reduction * self.scale(sizes) or bool(self._still.all())
        return enough and self._solved(self.scale.fields(sizes))

    def _rounded(self, share: float) -> bool:
        """Whether the equation of every field leaves this share of |J| |w| only, or its field
        does not move any more.
        """
        return bool(np.all((self._now <= share * self._floors) | self._still))

    def _solved(self, sizes: np.ndarray) -> bool:
        """Whether the equation of every field is solved by the measure of its own terms.

        Args:
            sizes: those of the terms, by field; where the residual is all that there is of them,
                it must be rounding.
        """
        settings = self.settings
        measured = self._now <= settings.reduction * sizes
        alone = (sizes <= 2 * self._now) & (self._now <= settings.rounded * self._floors)
        return bool(np.all(measured | alone | self._still))

    def _advance(self, state: PETSc.Vec, trial: PETSc.Vec, size: float) -> bool:
        """Go along the step as far as the residual becomes smaller; whether it does."""
        stage, settings = self.stage, self.settings
        increment = stage.increment.array_r.copy()
        length = 1.0
        while length >= settings.shortest:
            trial.array[:] = state.array_r + length * increment
            stage.essential.complete(trial.array)
            self._residual(trial)
            reached = self.scale(stage.right.array_r)
            share = 1.0 - settings.decrease * length
            if reached <= share * size or self._lowers_each(share):
                trial.copy(state)
                return True
            # The minimum of the parabola through both sizes and the slope, within limits.
            best = (
                0.5 * length**2 * size / max(reached - size + length * size, 1e-300)
                if math.isfinite(reached)
                else 0.0
            )
            length = min(max(best, 0.1 * length), 0.5 * length)
        self._residual(state)
        return False

    def _lowers_each(self, share: float) -> bool:
        """Whether a step lowers the residual in every equation of a system whose residual is
        more than rounding: next to the rounding of a large one a small one is not seen.
        """
        if self.scale.blocks is None or self._rounded(self.settings.rounded):
            return False
        reached = self.scale.fields(self.stage.right.array_r)
        return bool(
            np.all(
                (reached <= share * self._now) | (reached <= self.settings.rounded * self._floors)
            )
        )

    def _failed(self, why: str, cause: str = "start") -> SolveError:
        text = (
            f"{self.what}: Newton's method did not converge ({why}), residuals "
            f"{shown(self.history)}"
        )
        if self._sizes is not None and cause == "start":
            text += "; there may be no solution, or a start near one helps: initial={…}"
        return SolveError(text, self.history, cause)


def shown(history: Sequence[float]) -> str:
    """The first residuals and the last one."""
    return ", ".join(f"{value:.1e}" for value in history[:3]) + (
        f", …, {history[-1]:.1e}" if len(history) > 3 else ""
    )
