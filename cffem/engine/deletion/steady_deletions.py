# SPDX-License-Identifier: MIT
"""Deletions of linear steady problems through the factors of the factual matrix.

With the factual equation A u + c = 0 and coefficients that change by Δ_k, the difference d = u_j −
u solves

    (A + Σ_k Δ_k T_k) d = −Σ_k Δ_k T_k[u].

It is found by generalised conjugate residuals with A⁻¹ as preconditioner: the factors are there
from the factual solve, and of a direction A⁻¹r the image is r + Σ_k Δ_k T_k A⁻¹r, so that no other
matrix is made. Several right-hand sides at once pass through the factors in a fraction of the time
that they take one by one, so deletions go in blocks. A⁻¹r itself says how far the difference is
from its limit; that is compared with the accuracy asked for.

A factorisation would tell whether the deleted matrix is singular, and a right-hand side that
happens to be compatible must not hide that. So each deletion has a second right-hand side, without
structure: a null vector of the transposed matrix leaves its share of that in every residual. Where
either of the two does not converge soon, the deleted problem is left to a factorisation of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.collective import summed
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.assembly.dirichlet import EssentialConditions
    from cffem.engine.model import Model
    from cffem.engine.solve.linear import LinearSolver


@dataclass(frozen=True)
class SteadyDeletionSettings:
    """How steady deletions are solved with the factual factors.

    Attributes:
        together: deletions of a block, two right-hand sides each.
        most: steps after which a deletion is left to a factorisation of its own: at 148,000
            unknowns in the plane that costs as much as 20 steps.
        share: a right-hand side without structure has about 1/√n of its size along a null vector;
            this share of that must go away.
        large: a solution so many times larger than the factual matrix makes it comes from a matrix
            that is all but singular.
        cautious: how much more a residual may do to the difference than A⁻¹ and what is known of
            the deleted matrix let expect.
        rounding: residuals that the rounding errors of the factors leave, relative to the right-
            hand side.
    """

    together: int = 4
    most: int = 15
    share: float = 1e-3
    large: float = 1e6
    cautious: float = 3.0
    rounding: float = 1e-10


STEADY = SteadyDeletionSettings()


def is_linear_steady(model: Model, change: Intervention) -> bool:
    """Whether a change is one of coefficients of matrices of a linear steady problem that is
    solved by a factorisation.
    """
    if model.experiment.time is not None or model.discretisation.multiplier is not None:
        return False
    terms = model.equation.terms
    if not (
        model.changes_coefficients_only(change)
        and model.equation.linear
        and all(terms[name].ingredient.by_matrix for name in change.names)
    ):
        return False
    solver = model.prepared(Intervention(), SolveRecord()).solver
    return solver is not None and solver.direct


class SteadyDeletions:
    """What the deletions of one steady model share: the factual matrix and its factors.

    Args:
        model: the model, for which `is_linear_steady` holds.
    """

    solver: LinearSolver
    essential: EssentialConditions

    def __init__(self, model: Model):
        self.model, self.equation = model, model.equation
        self.vectors = [self.equation.new_vector() for _ in range(2)]
        self.factual = self.equation.new_vector()
        self.factual.array[:] = model.factual.states[0]
        self.refresh()
        self.scale, signs, self.unknowns = self.solver.without_structure()
        self.vectors[0].array[:] = self.scale * signs
        self.essential.restrict(self.vectors[0])
        self.probe = self.vectors[0].array_r / self.scale
        self.share = STEADY.share * math.sqrt(
            self.dot(self.probe, self.probe) / max(model.spaces.size, 1)
        )

    def refresh(self) -> None:
        """See that the factors are those of the factual matrix, whatever was solved meanwhile."""
        stage = self.model.prepared(Intervention(), SolveRecord())
        stage.linearise((self.factual, None, None), None, 0.0)
        assert stage.solver is not None
        self.solver, self.essential = stage.solver, stage.essential
        self.matrix = stage.solver.matrix

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """The product of two vectors over all ranks."""
        return float(summed(self.model.comm, float(a @ b)))

    def size(self, value: np.ndarray) -> float:
        """The size of an increment, its fields in one scale."""
        return math.sqrt(self.dot(value / self.unknowns, value / self.unknowns))

    def changed(self, changes: Mapping[str, float], value: np.ndarray) -> np.ndarray:
        """Σ Δ_k T_k of an increment, as a residual of increments, its rows scaled."""
        place, image = self.vectors
        place.array[:] = value
        self.essential.complete(place.array)
        total = np.zeros(len(value))
        for name, amount in changes.items():
            part = self.equation.terms[name]
            if part.ingredient.jacobians[0] is not None:
                part.matrix(0).mult(place, image)
                total += amount * image.array_r
        image.array[:] = total
        self.essential.restrict(image)
        return image.array_r / self.scale

    def source(self, changes: Mapping[str, float]) -> np.ndarray:
        """−Σ Δ_k T_k[u], its rows scaled."""
        total, image = np.zeros(self.model.spaces.owned), self.vectors[1]
        for name, amount in changes.items():
            self.equation.term_vector(name, (self.factual, None, None), 0.0, image)
            total -= amount * image.array_r
        image.array[:] = total
        self.essential.restrict(image)
        return image.array_r / self.scale

    def solved(self, residuals: Sequence[np.ndarray]) -> list[np.ndarray]:
        """A⁻¹ of some residuals, all at once."""
        columns = np.stack(residuals, axis=1) * self.scale[:, None]
        return list(self.solver.apply(columns).T)

    def destroy(self) -> None:
        """Free the vectors; collective."""
        for vector in (self.factual, *self.vectors):
            vector.destroy()


class SteadyDeletion:
    """The difference of one deleted steady problem, and what a right-hand side without structure
    does to its matrix.

    Args:
        shared: what all of them share.
        change: the changed coefficients.
        record: takes the statistics of the solves.
        allowed: from a score to the error that it may have.
    """

    def __init__(
        self,
        shared: SteadyDeletions,
        change: Intervention,
        record: SolveRecord,
        allowed: Callable[[float], float],
    ):
        self.shared, self.record, self.allowed = shared, record, allowed
        self.changes = change.taken(shared.model.coefficients)
        self.right = shared.source(self.changes)
        self.residuals = [self.right.copy(), shared.probe.copy()]
        self.values = [np.zeros(len(self.right)) for _ in range(2)]
        self.first = [0.0, 0.0]
        self.open = [True, True]
        self.failed = False
        self.steps, self.error, self.score = 0, math.inf, 0.0
        self._directions: list[tuple[np.ndarray, np.ndarray, float]] = []

    @property
    def waiting(self) -> list[np.ndarray]:
        """The residuals that are not small enough yet."""
        return (
            []
            if self.failed
            else [
                residual
                for residual, is_open in zip(self.residuals, self.open, strict=True)
                if is_open
            ]
        )

    def take(self, corrections: Sequence[np.ndarray]) -> None:
        """Go along what the factual matrix makes of the waiting residuals; ends with `failed`
        where that leads nowhere.
        """
        shared, norm = self.shared, self.shared.model.norm("L2")
        columns = [k for k in (0, 1) if self.open[k]]
        # The residuals change with every direction, but these are the ones that the corrections
        # belong to.
        images = [
            self.residuals[k] + shared.changed(self.changes, z)
            for k, z in zip(columns, corrections, strict=True)
        ]
        sizes = {
            k: norm(z) if k == 0 else shared.size(z)
            for k, z in zip(columns, corrections, strict=True)
        }
        for correction, image in zip(corrections, images, strict=True):
            self._advance(correction, image)
        self.steps += 1
        self.record.iterations += len(columns)
        if self.steps == 1:
            self.first = [sizes[0], sizes[1]]
        left, size = (
            math.sqrt(shared.dot(self.residuals[1], self.residuals[1])),
            shared.size(self.values[1]),
        )
        self.open[1] = self.open[1] and not left <= shared.share
        growth = [size / self.first[1], 1.0]
        if self.open[0]:
            self.score = norm(self.values[0])
            growth.append(self.score / self.first[0] if self.first[0] > 0 else 0.0)
            # What the deleted matrix makes of this residual is to A⁻¹r about as both solutions are
            # to their first approximations.
            self.error = STEADY.cautious * max(growth) * sizes[0]
            self.open[0] = not self.error <= self.allowed(self.score)
        self.failed |= not max(growth) <= STEADY.large
        self.failed |= self.steps == STEADY.most and any(self.open)

    def _advance(self, direction: np.ndarray, image: np.ndarray) -> None:
        """One direction for both residuals, its image made orthogonal to those before."""
        shared = self.shared
        before = size = shared.dot(image, image)
        # Once is not enough where the new image is almost one of the others.
        for _ in range(2):
            for value, other, square in self._directions:
                part = shared.dot(image, other) / square
                image, direction = image - part * other, direction - part * value
            after = shared.dot(image, image)
            size, enough = after, after > 0.01 * size
            if enough:
                break
        if not size > 1e-28 * before:
            # Along a residual that is zero there is nowhere to go; but any other direction should
            # have an image of its own.
            self.failed |= before != 0.0 or shared.dot(direction, direction) > 0.0
            return
        for residual, value in zip(self.residuals, self.values, strict=True):
            factor = shared.dot(image, residual) / size
            residual -= factor * image
            value += factor * direction
        self._directions.append((direction, image, size))

    def finish(self) -> bool:
        """Measure the true residual and complete the difference; whether it is what the
        method says.
        """
        shared = self.shared
        self._directions.clear()
        place, image = shared.vectors
        place.array[:] = self.values[0]
        shared.matrix.mult(place, image)
        product = image.array_r / shared.scale
        true = self.right - product - shared.changed(self.changes, self.values[0])
        size, recorded, scale = (
            math.sqrt(shared.dot(v, v)) for v in (true, self.residuals[0], self.right)
        )
        self.record.solves += 1
        self.record.solver = shared.solver.plan.name
        self.record.worst_residual = size / scale if scale else 0.0
        shared.essential.complete(self.values[0])
        return size <= 2.0 * recorded + STEADY.rounding * scale


def steady_differences(
    model: Model,
    deletions: Mapping[Any, tuple[Intervention, SolveRecord, Callable[[float], float]]],
) -> Iterator[Any]:
    """Pairs of a key and its `SteadyDeletion`, for all deletions that converge; collective.

    Args:
        model: the model, for which `is_linear_steady` holds.
        deletions: by key the changed coefficients, the record of its solves, and the error that a
            score may have.
    """
    shared = SteadyDeletions(model)
    try:
        keys = list(deletions)
        for first in range(0, len(keys), STEADY.together):
            shared.refresh()
            rests_of = {
                key: SteadyDeletion(shared, *deletions[key])
                for key in keys[first : first + STEADY.together]
            }
            while waiting := {key: rest.waiting for key, rest in rests_of.items() if rest.waiting}:
                found = iter(
                    shared.solved(
                        [residual for residuals in waiting.values() for residual in residuals]
                    )
                )
                for key, residuals in waiting.items():
                    rests_of[key].take([next(found) for _ in residuals])
            yield from (
                (key, rest) for key, rest in rests_of.items() if not rest.failed and rest.finish()
            )
    finally:
        shared.destroy()
