# SPDX-License-Identifier: MIT
"""Deletions of linear transient problems through the equation of the difference d = u_j − u.

With the factual equation A₀ u + A₁ u̇ + A₂ ü + c(t) = 0 and coefficients that change by Δ_k (a
deletion: Δ_j = α_j), the difference starts from zero, vanishes where values are given, and solves

    (A + Σ_k Δ_k T_k) d = −Σ_k Δ_k T_k[u],

stage by stage as in `cffem.engine.time.march`. It is as small as the effect of the deletion, so its
systems need no more digits than the score does: the residual r of each is kept below what the
accuracy of the score, or a tolerance ε, allows. Each solve starts from the combination of the last
few differences whose residual is least, and is preconditioned by incomplete factors of the factual
matrix (of its own one, where the deleted term dominates that). The residual that a stage leaves is
added to the right-hand side of the next one, so that what is left over does not pile up. With the
diagonal D of the mass matrix and c² ≥ 1/λ_min(D⁻¹M), the residuals change the score of a
dissipative problem by no more than about

    √T Σ_n Δt c ‖r_n − r_{n−1}‖_{D⁻¹},

which is reported with it. Waves answer less: M ë + K e = r_n − r_{n−1} is the derivative of M ë + K
e = Δt r_n, and the speed ė of that one is no larger in M than the sum of what drives it, so that
the score changes by no more than about

    √T Δt Σ_n Δt c ‖r_n‖_{D⁻¹}.

Growth in time is not in these estimates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from petsc4py import PETSc

from cffem.engine.collective import summed
from cffem.engine.deletion.difference_systems import (
    DIFFERENCES,
    DeletedSystem,
    FactualSystem,
    incomplete,
    kept_last,
)
from cffem.engine.solve.krylov import Advance, Directions, accumulate
from cffem.engine.solve.linear import SolveError
from cffem.engine.solve.scope import Scope
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.time.stepping import Stepping, Track, time_steps
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.engine.assembly.dirichlet import EssentialConditions
    from cffem.engine.assembly.equation import Equation
    from cffem.engine.model import Model
    from cffem.engine.solve.stage_types import StageValues
    from cffem.engine.time.march import Stage
    from cffem.engine.time.trajectories import Stages


Kept = Callable[[int, np.ndarray, np.ndarray | None, np.ndarray | None], bool | None]


def is_linear_transient(model: Model, change: Intervention) -> bool:
    """Whether a change is one of coefficients of matrices of a linear, plain transient problem."""
    terms = model.equation.terms
    return (
        is_plain_transient(model, change)
        and model.equation.linear
        and all(terms[name].ingredient.by_matrix for name in change.names)
    )


def is_plain_transient(model: Model, change: Intervention) -> bool:
    """Whether a change is one of coefficients only of a transient problem that has neither
    multiplier nor algebraic unknowns; collective.
    """
    if model.experiment.time is None or model.discretisation.multiplier is not None:
        return False
    if model.comm.allreduce(int(not np.all(model.marching.dynamic == 1))):
        return False
    return model.changes_coefficients_only(change)


def score_effect(size: float, length: float, step: float, waves: bool) -> float:
    """About what the residual of a stage does to the score, if the stage before it is corrected
    for its own.

    Args:
        size: its norm in D⁻¹, or for problems of first order in time that of its difference from
            the one before.
        length: the length of the time window.
        step: the time step.
        waves: whether the problem is of second order in time.
    """
    return math.sqrt(length) * step * DIFFERENCES.mass * size * (step if waves else 1.0)


class Differences(Scope):
    """What the differences of one model share: factual matrices, incomplete factors, stages.

    Args:
        model: the model, for which `is_linear_transient` holds.
    """

    equation: Equation
    stage: Stage
    essential: EssentialConditions
    second_order: bool
    vectors: list[PETSc.Vec]
    dimension: int

    def __init__(self, model: Model):
        self.model = model
        self.equation = model.equation
        self.stage = model.prepared(Intervention(), SolveRecord())
        self.essential = self.stage.essential
        self.second_order = model.marching.second_order is not None
        self.length = float(model.times[-1] - model.times[0])
        self.stepping = model.marching.stepping(model.times)
        self.vectors = [self.own(self.equation.new_vector()) for _ in range(4)]
        self.dimension = model.discretisation.mesh.topology.dim
        self._systems: dict[float, FactualSystem] = {}
        self.directions = self.own(
            Directions(DIFFERENCES.directions, model.spaces.owned, model.comm)
        )
        self.mass = model.norm("L2").matrix
        self.weighted = model.norm("L2").dual
        # Images under the mass matrix serve the norm and the next stage, where the anchor alone has
        # its order in time.
        order, _ = self.equation.mass() or (None, None)
        alone = order is not None and not any(
            factor and part.ingredient.jacobians[order] is not None
            for factor, part in self.equation._active[1:]
        )
        self.mass_order = order if alone else None

    def image(self, matrix: PETSc.Mat, value: np.ndarray) -> np.ndarray:
        """A matrix times owned values; the result is overwritten by the next one."""
        self.vectors[0].array[:] = value
        matrix.mult(self.vectors[0], self.vectors[1])
        return self.vectors[1].array_r

    def system(self, gamma: float) -> FactualSystem:
        """The factual matrices for stages with a γ, kept for the lengths of the last steps."""
        return kept_last(self, self._systems, gamma, lambda: FactualSystem(self, gamma))

    def usual_steps(self, system: FactualSystem, residual: np.ndarray, allowed: float) -> int:
        """How many steps the factual matrix with its own factors needs for a residual."""
        return self.directions.reduce(
            residual.copy(),
            None,
            self.preconditioned(system.factors, system.factual),
            self.weighted,
            allowed,
            DIFFERENCES.most,
        )[0]

    def preconditioned(self, factors: PETSc.PC, matrix: PETSc.Mat) -> Advance:
        """What makes a direction and its image of a residual: factors and a matrix."""

        def advance(residual: np.ndarray, direction: PETSc.Vec, image: PETSc.Vec) -> None:
            self.vectors[3].array[:] = residual
            factors.apply(self.vectors[3], direction)
            matrix.mult(direction, image)

        return advance

    def destroy(self) -> None:
        """Free matrices, factors and vectors; collective."""
        self.equation.holds = None
        super().destroy()


class Difference(Scope):
    """The difference of one changed problem from the factual one, marched along the factual stages.

    Args:
        shared: what all of them share.
        change: the changed coefficients.
        record: takes the statistics of the solves.

    Attributes:
        bound: about how much the residuals can have changed the score so far.
    """

    def __init__(self, shared: Differences, change: Intervention, record: SolveRecord):
        self.shared, self.record = shared, record
        model = shared.model
        self.changes = change.taken(model.coefficients)
        self._systems: dict[float, DeletedSystem] = {}
        self.left = np.zeros(model.spaces.owned)
        self.bound = 0.0

    # One stage
    # ----------------------------------------------------------------------------------------------

    def source(self, values: StageValues, time: float) -> np.ndarray:
        """−Σ Δ_k T_k[u] at a factual stage."""
        s = self.shared
        places: list[PETSc.Vec] = [
            None if value is None else vector
            for vector, value in zip(s.vectors, values, strict=False)
        ]
        for order in {order for name in self.changes for order in self._orders(name)}:
            if values[order] is not None:
                places[order].array[:] = values[order]
        total = np.zeros(len(self.left))
        for name, amount in self.changes.items():
            s.equation.term_vector(name, (places[0], places[1], places[2]), time, s.vectors[3])
            accumulate(total, -amount, s.vectors[3].array_r)
        return total

    def sources(self, stages: Stages) -> Iterator[tuple[int, int, np.ndarray]]:
        """Step, stage and source of all factual stages; of several at once where it is one
        matrix that gives them.
        """
        name, equation = next(iter(self.changes), ""), self.shared.equation
        orders = self._orders(name) if len(self.changes) == 1 and equation.comm.size == 1 else []
        together = len(orders) == 1 and equation.terms[name].ingredient.constant is None
        if not together:
            yield from (
                (step, index, self.source(values, time)) for step, index, values, time in stages
            )
            return
        needed = ((step, index, values[orders[0]]) for step, index, values, _ in stages)
        while group := list(islice(needed, DIFFERENCES.ahead)):
            found = products(
                equation.terms[name].matrix(orders[0]), np.array([values for _, _, values in group])
            )
            found *= -self.changes[name]
            group = [(step, index) for step, index, _ in group]
            for (step, index), source in zip(group, found, strict=True):
                yield step, index, source
            del found, source  # before the next ones are made

    def _orders(self, name: str) -> list[int]:
        """The orders of time derivatives that a term contains."""
        jacobians = self.shared.equation.terms[name].ingredient.jacobians
        return [order for order in range(3) if jacobians[order] is not None]

    def pulled(self, gamma: float, base: np.ndarray, velocity: np.ndarray | None) -> np.ndarray:
        """What the level before does to a stage: A₁ B/γ + A₂ (B/γ + V)/γ with the changed matrices.

        Args:
            gamma: γ.
            base, velocity: B and V, and in the last row their images under the mass matrix where
                these are followed.
        """
        s = self.shared
        total = np.zeros(len(self.left))

        def start(order: int, row: int) -> np.ndarray:
            result = base[row] * gamma**-order
            if order == 2 and velocity is not None:
                accumulate(result, 1.0 / gamma, velocity[row])
            return result

        for order in (1,) if velocity is None else (1, 2):
            parts = (
                [(1.0, s.equation._sums[order])]
                if order in s.equation._sums and order != s.mass_order
                else []
            )
            parts += [
                (amount, s.equation.terms[n].matrix(order))
                for n, amount in self.changes.items()
                if order in self._orders(n)
            ]
            if order == s.mass_order:
                total += start(order, -1)
            vector = start(order, 0) if parts else None
            for factor, matrix in parts:
                accumulate(total, factor, s.image(matrix, vector))
        return total

    def solve(
        self, right: np.ndarray, allowed: float, what: str, gamma: float, step: float
    ) -> np.ndarray:
        """Solve one stage to ‖r‖ ≤ `allowed` in D⁻¹ by generalised conjugate residuals.

        Solutions are built together with their images under the matrix, so that the residual is the
        true one at every step and the next stages can start from both.

        Raises:
            SolveError: the method does not get there.
        """
        s, factual = self.shared, self.shared.system(gamma)
        mine = kept_last(
            self, self._systems, gamma, lambda: DeletedSystem(s, factual, self.changes)
        )
        vector = s.vectors[3]
        vector.array[:] = right
        s.essential.restrict(vector)
        # What the stage before left over is made up for now, so that the residuals of all stages do
        # not add up.
        right = vector.array_r + self.left
        value, product = mine.memory.start(right)
        residual = right - product
        first = residual.copy()
        steps, size = s.directions.reduce(
            residual,
            value,
            s.preconditioned(mine.own_factors or factual.factors, mine.matrix),
            s.weighted,
            allowed,
            DIFFERENCES.most,
        )
        if not size <= allowed:
            raise SolveError(
                f"{what}: the difference was solved to a residual of {size:.1e} only, not "
                f"{allowed:.1e}"
            )
        self._count(steps)
        self._suit(mine, factual, steps, first, allowed)
        scale = s.weighted(right)
        self.record.worst_residual = max(self.record.worst_residual, size / scale if scale else 0.0)
        mine.memory.keep(value, right - residual)
        s.essential.complete(value)
        self.bound += score_effect(
            size if s.second_order else s.weighted(residual - self.left),
            s.length,
            step,
            s.second_order,
        )
        self.left = residual
        return value

    def _count(self, steps: int) -> None:
        self.record.solves += 1
        self.record.iterations += steps

    def _suit(
        self,
        mine: DeletedSystem,
        factual: FactualSystem,
        steps: int,
        first: np.ndarray,
        allowed: float,
    ) -> None:
        """Make factors of the deleted matrix where it is that, and not the mesh, which makes the
        factual ones slow.

        Args:
            mine, factual: the matrices.
            steps: of the last solve.
            first: the residual that it started from.
            allowed: the residual that it went to.
        """
        mine.solves, mine.iterations = mine.solves + 1, mine.iterations + steps
        if mine.own_factors is not None or mine.iterations <= mine.patience * (mine.solves + 2):
            return
        if steps <= DIFFERENCES.worse * self.shared.usual_steps(factual, first, allowed) + 1:
            mine.patience *= 2.0
            return
        # The deleted term dominates the factual matrix, so its factors say little about the deleted
        # one.
        mine.own_factors = mine.own(incomplete(mine.matrix, self.shared.dimension))
        self.record.factorisations += 1

    # All of them
    # ----------------------------------------------------------------------------------------------

    def march(
        self, stages: Stages, keep: Kept, allowed: Callable[[Callable[[], float]], float]
    ) -> None:
        """Go along the factual stages.

        Args:
            stages: the stages of the factual solution.
            keep: called with (level, d, ḋ, M d or None) at every level; a true result ends the
                march.
            allowed: from what tells the size of a stage's source in D⁻¹ to the residual that the
                stage may have.
        """
        s = self.shared
        track = difference_track(s.model, 1 if s.mass_order is None else 2)
        self._keep(0, track, keep)
        for step, index, source in self.sources(stages):
            base, speed = track.bases(index)
            gamma, enough = track.gamma(index), allowed(partial(s.weighted, source))
            right = self.pulled(gamma, base, speed)
            right += source
            self.left *= inherited(track, index)
            value = self.solve(right, enough, f"step {step + 1}", gamma, track.step)
            rows = [value] if s.mass_order is None else [value, s.image(s.mass, value)]
            if track.take(index, np.array(rows), base, speed):
                check_finite(s.model.comm, track)
                if self._keep(step + 1, track, keep):
                    return

    def _keep(self, level: int, track: Track, keep: Kept) -> bool | None:
        image = None if self.shared.mass_order is None else track.state[1]
        return keep(
            level, track.state[0], None if track.velocity is None else track.velocity[0], image
        )


def products(matrix: PETSc.Mat, rows: np.ndarray) -> np.ndarray:
    """The products of a matrix with several vectors, given and returned as rows; on one rank."""
    given = PETSc.Mat().createDense(
        (rows.shape[1], len(rows)), array=rows.reshape(-1), comm=matrix.comm
    )
    given.assemble()
    images = matrix.matMult(given)
    result = images.getDenseArray().T.copy()
    given.destroy()
    images.destroy()
    return result


def difference_track(model: Model, *rows: int) -> Track:
    """Where the difference of two marches begins: at zero, with a rate for every unknown.

    Args:
        model: the model; nothing in it is algebraic.
        rows: how many linear functions of the difference are followed side by side, as rows; none
            for the difference alone.
    """
    marching, shape = model.marching, (*rows, model.spaces.owned)
    velocity = None if marching.second_order is None else np.zeros(shape)
    return Track(Stepping(marching.scheme, time_steps(model.times)), np.zeros(shape), velocity)


def inherited(track: Track, index: int) -> float:
    """How much what one stage left over weighs in the next: the ratio of what both do to the
    level.
    """
    weights, steps = track.stepping.scheme.b, track.stepping.steps
    longer = steps[track.level - 1] / steps[track.level] if index == 0 and track.level else 1.0
    return weights[index - 1] / weights[index] * float(longer)


def check_finite(comm: MPI.Comm, track: Track) -> None:
    """Refuse a level that is not finite; collective.

    Raises:
        SolveError: it is not.
    """
    if not math.isfinite(summed(comm, track.state.sum())):
        raise SolveError("the solution is not finite", cause="blow-up")
