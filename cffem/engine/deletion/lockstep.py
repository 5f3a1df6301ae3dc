# SPDX-License-Identifier: MIT
"""Deletions of nonlinear transient problems, all of them marched together along the factual stages.

With d = u_j − u the stage equation of a deleted problem is G(D) = F(W + D, …) + Δ_j T_j(W + D, …) =
0 for the difference D of the stage's values; F is the factual equation, and Δ_j = α_j deletes the
term j. The factual equation linearised at the factual stage, together with the matrix of the
deleted term where that is linear, gives D ← D − J⁻¹ G(D), accelerated by Anderson's mixing of the
last few iterates. J is solved with as far as the next residual needs it, by conjugate residuals
with incomplete factors that serve all deletions, or by a factorisation where those do not suffice.
As in `cffem.engine.deletion.difference` the residual is the true one, needs no more digits than the
score does, is made up for by the next stage, and its effect on the score is estimated with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.engine.collective import summed
from cffem.engine.deletion.difference import (
    check_finite,
    difference_track,
    inherited,
    score_effect,
)
from cffem.engine.deletion.difference_systems import incomplete
from cffem.engine.response.tangent import Linearisation
from cffem.engine.solve.krylov import Directions
from cffem.engine.solve.linear import SolveError
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.stepping import combined
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from mpi4py import MPI
    from petsc4py import PETSc

    from cffem.engine.model import Model
    from cffem.engine.solve.stage_types import StageValues


@dataclass(frozen=True)
class LockstepSettings:
    """How deletions that are marched together are iterated.

    Attributes:
        mixed: iterates that Anderson's mixing combines.
        failed: iterations after which a stage has failed.
        stale: iterations on average from which the factual equation is linearised anew.
        inner: what a linear solve reduces the residual by, as a share of what is wanted.
        least: the strongest reduction that a linear solve is asked for.
        most: the weakest one.
        directions: steps of a linear solve beyond which incomplete factors are given up.
    """

    mixed: int = 5
    failed: int = 20
    stale: float = 1.5
    inner: float = 0.3
    least: float = 5e-3
    most: float = 0.1
    directions: int = 30


LOCKSTEPS = LockstepSettings()
# A slope from the last ones, the latest first: polynomials in time.
EXTRAPOLATED = ((), (1.0,), (2.0, -1.0), (3.0, -3.0, 1.0))


class Lockstep(Scope):
    """What the deletions of one model share: the factual equation, linearised where its stage is.

    Args:
        model: the model.
    """

    def __init__(self, model: Model):
        self.model, self.equation = model, model.equation
        self.record = SolveRecord()
        self.about = self.own(Linearisation(model.factual, self.record))
        self.essential = self.about.stage.essential
        self.second_order = model.marching.second_order is not None
        self.length = float(model.times[-1] - model.times[0])
        self.vectors = [self.own(self.equation.new_vector()) for _ in range(5)]
        self.directions = self.own(Directions(LOCKSTEPS.directions, model.spaces.owned, model.comm))
        self.matrix: PETSc.Mat = None
        self.factors: PETSc.PC = None
        self.exact = False
        self.weighted = model.norm("L2").dual
        self._iterations, self._solves = 0, 0

    def linearise(self, step: int, index: int, values: StageValues, time: float) -> None:
        """Linearise at a factual stage, unless an earlier linearisation still serves."""
        gamma = self.about.gamma_of(step, index)
        serves = (
            self._solves
            and self._iterations <= LOCKSTEPS.stale * self._solves
            and gamma == self.about.gamma
        )
        self._iterations = self._solves = 0
        if serves:
            return
        if self.exact:
            self.about.at(step, index, values, time)
            return
        self.about.gamma = gamma
        for vector, value in zip(self.vectors[:3], values, strict=True):
            vector.array[:] = 0.0 if value is None else value
        stage, (first, second, third) = self.about.stage, self.vectors[:3]
        places = (first, second, None if values[2] is None else third)
        weights = stage.weights(self.about.gamma, self.second_order)
        self.matrix = self.equation.jacobian(weights, places, time, stage.plan.rows(self.essential))
        self.record.factorisations += 1
        if self.factors is not None:
            self.release(self.factors)
        dimension = self.model.discretisation.mesh.topology.dim
        self.factors = self.own(incomplete(self.matrix, dimension))

    def count(self, iterations: int) -> None:
        """Take note of how many iterations a stage took."""
        self._iterations += iterations
        self._solves += 1

    def precondition(
        self, residual: np.ndarray, changes: Mapping[str, float], reduction: float
    ) -> np.ndarray:
        """J⁻¹ of a residual, up to a share of it.

        Args:
            residual: the residual.
            changes: what is added to the factors of some terms; those that have matrices are part
                of J.
            reduction: how much smaller the residual shall be.
        """
        right, out = self.vectors[3], self.vectors[4]
        if self.exact:
            right.array[:] = residual
            solver = self.about.stage.solver
            assert solver is not None
            if solver.direct:
                return solver.apply(residual[:, None])[:, 0]
            solver.solve(right, out)
            return out.array_r.copy()
        left, value = residual.copy(), np.zeros(len(residual))
        goal = min(max(reduction, LOCKSTEPS.least), LOCKSTEPS.most) * self.weighted(left)

        def advance(residual: np.ndarray, direction: PETSc.Vec, image: PETSc.Vec) -> None:
            right.array[:] = residual
            self.factors.apply(right, direction)
            self.matrix.mult(direction, image)
            self._add_changes(changes, direction, image)

        _, size = self.directions.reduce(
            left, value, advance, self.weighted, goal, LOCKSTEPS.directions
        )
        if size > goal:
            raise Unsuitable
        return value

    def _add_changes(
        self, changes: Mapping[str, float], vector: PETSc.Vec, image: PETSc.Vec
    ) -> None:
        """Add what linear terms that are changed add to J."""
        weights = self.about.stage.weights(self.about.gamma, self.second_order)
        for name, amount in changes.items():
            part = self.equation.terms[name]
            if part.ingredient.by_matrix:
                for order, weight in enumerate(weights):
                    if weight and part.ingredient.jacobians[order] is not None:
                        part.matrix(order).mult(vector, self.vectors[3])
                        self.essential.restrict(self.vectors[3])
                        image.axpy(amount * weight, self.vectors[3])

    def factorise(self, step: int, index: int, values: StageValues, time: float) -> None:
        """Give up incomplete factors, here and for the stages to come."""
        self.exact, self._solves = True, 0
        self.linearise(step, index, values, time)

    def destroy(self) -> None:
        """Free the factors and the vectors; collective. The matrix belongs to the model."""
        self.equation.holds = None
        super().destroy()


class Unsuitable(Exception):
    """Incomplete factors do not solve the linearised equation."""


class Deleted:
    """One deleted problem under way.

    Args:
        shared: what all of them share.
        change: the intervention.
        record: takes the statistics of its solves.

    Attributes:
        bound: about how much the residuals can have changed the score so far.
    """

    def __init__(self, shared: Lockstep, change: Intervention, record: SolveRecord):
        self.shared, self.record = shared, record
        model = shared.model
        self.changes = change.taken(model.coefficients)
        self.track = difference_track(model)
        self.bound = 0.0
        self.left = np.zeros(model.spaces.owned)
        # The last three slopes of each stage of the scheme, the latest first.
        self._slopes: dict[int, list[np.ndarray]] = {}

    def residual(
        self,
        index: int,
        value: np.ndarray,
        base: np.ndarray,
        speed: np.ndarray | None,
        factual: StageValues,
        time: float,
    ) -> np.ndarray:
        """G(D), zero in essential rows."""
        s, gamma = self.shared, self.track.gamma(index)
        rate = (value - base) / gamma
        s.vectors[0].array[:] = factual[0] + value
        s.vectors[1].array[:] = factual[1] + rate
        if speed is not None:
            s.vectors[2].array[:] = factual[2] + (rate - speed) / gamma
        places = (s.vectors[0], s.vectors[1], None if speed is None else s.vectors[2])
        s.equation.residual(places, time, s.vectors[3], self.changes)
        s.essential.restrict(s.vectors[3])
        return s.vectors[3].array_r.copy()

    def source(self, index: int, factual: StageValues, time: float) -> float:
        """The size of what moves the difference at a factual stage, in D⁻¹."""
        zero = np.zeros(len(self.track.state))
        return self.shared.weighted(
            self.residual(index, zero, zero, None if factual[2] is None else zero, factual, time)
        )

    def stage(
        self, index: int, factual: StageValues, time: float, allowed: float, what: str
    ) -> bool:
        """Solve a stage to ‖G‖ ≤ `allowed` in D⁻¹; whether that ends the step.

        Raises:
            SolveError: the iteration does not get there.
        """
        s, gamma, length = self.shared, self.track.gamma(index), self.track.step
        base, speed = self.track.bases(index)
        slopes = self._slopes.setdefault(index, [])
        value = base + gamma * combined(EXTRAPOLATED[len(slopes)], slopes)
        s.essential.complete(value)
        self.left *= inherited(self.track, index)
        mixing = Anderson(LOCKSTEPS.mixed, s.model.comm)
        for iteration in range(LOCKSTEPS.failed):
            # What the stage before left over is made up for now.
            residual = self.residual(index, value, base, speed, factual, time) + self.left
            size = s.weighted(residual)
            if iteration == 0:
                first = size
            if size <= allowed:
                break
            if not size < 1e6 * max(first, allowed):
                raise SolveError(f"{what}: the deleted problem diverges")
            try:
                step = s.precondition(residual, self.changes, LOCKSTEPS.inner * allowed / size)
            except Unsuitable:
                s.factorise(self.track.level, index, factual, time)
                step = s.precondition(residual, self.changes, LOCKSTEPS.inner * allowed / size)
            value = mixing.next(value, step)
            s.essential.complete(value)
            self.record.solves += 1
        else:
            raise SolveError(
                f"{what}: the deleted problem did not converge in {LOCKSTEPS.failed} iterations"
            )
        s.count(iteration)
        self.record.newton_steps += iteration
        self.record.worst_residual = max(
            self.record.worst_residual, size / first if first > 0 else 0.0
        )
        change = size if s.second_order else s.weighted(residual - self.left)
        self.bound += score_effect(change, s.length, length, s.second_order)
        self.left = residual
        self._slopes[index] = [(value - base) / gamma, *slopes][:3]
        ended = self.track.take(index, value, base, speed)
        if ended:
            check_finite(s.model.comm, self.track)
        return ended


class Anderson:
    """Anderson's mixing for x = x − f(x): the combination of the last few iterates with the least
    f, and a step from there.

    Args:
        most: how many differences are combined.
        comm: the communicator.

    Example:
        >>> from mpi4py import MPI
        >>> mixing, x = Anderson(2, MPI.COMM_SELF), np.zeros(2)
        >>> for _ in range(4):
        ...     x = mixing.next(
        ...         x, np.array([3.0 * x[0] - 1.5, 0.2 * x[1] - 0.4])
        ...     )  # diverges without mixing
        >>> [round(float(value), 10) for value in x]
        [0.5, 2.0]
    """

    def __init__(self, most: int, comm: MPI.Comm):
        self.most, self.comm = most, comm
        self._last: tuple[np.ndarray, np.ndarray] | None = None
        self._moves: list[np.ndarray] = []
        self._changes: list[np.ndarray] = []

    def next(self, value: np.ndarray, step: np.ndarray) -> np.ndarray:
        """The next iterate, from the present one and f there."""
        if self._last is not None:
            self._moves = [*self._moves, value - self._last[0]][-self.most :]
            self._changes = [*self._changes, step - self._last[1]][-self.most :]
        self._last = (value, step)
        if not self._changes:
            return value - step
        changes = np.array(self._changes)
        sums = summed(self.comm, np.column_stack([changes @ changes.T, changes @ step]))
        factors = np.linalg.lstsq(sums[:, :-1], sums[:, -1], rcond=1e-14)[0]
        return value - step - factors @ (np.array(self._moves) - changes)
