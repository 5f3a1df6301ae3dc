# SPDX-License-Identifier: MIT
"""Matrices and incomplete factors for the differences of deletions: one set for each length of a
time step, of which the last few are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from petsc4py import PETSc

from cffem.engine.assembly.ingredients import add
from cffem.engine.solve.krylov import Memory
from cffem.engine.solve.petsc_options import reading
from cffem.engine.solve.presets import incomplete_factors
from cffem.engine.solve.scope import Scope

if TYPE_CHECKING:
    from cffem.engine.deletion.difference import Differences


@dataclass(frozen=True)
class DifferenceSettings:
    """How the systems of differences are solved.

    Attributes:
        memory: earlier solutions that a start is combined of.
        mass: 1/√λ_min(D⁻¹M), which is between 1.4 (P1) and 2.0 (P2 on tetrahedra).
        slow: Krylov steps on average from which it is asked whether the factual factors suit the
            deleted matrix.
        worse: times as many steps as for the factual matrix, and it gets factors of its own.
        most: Krylov steps of one solve beyond which it has failed.
        ahead: stages whose sources are computed at once: the matrix is read from memory once for
            all.
        directions: directions of one solve that are kept orthogonal.
        lengths: lengths of steps whose matrices and factors are kept; a window with more of them
            makes these again.
    """

    memory: int = 6
    mass: float = 2.0
    slow: float = 4.0
    worse: float = 1.5
    most: int = 200
    ahead: int = 8
    directions: int = 30
    lengths: int = 3


DIFFERENCES = DifferenceSettings()


def incomplete(matrix: PETSc.Mat, dimension: int) -> PETSc.PC:
    """Incomplete factors of a matrix, on each rank; the caller owns them."""
    factors = PETSc.PC().create(matrix.comm)
    factors.setOperators(matrix)
    options = incomplete_factors(dimension, matrix.size[0])
    with reading(factors, {"pc_type": "bjacobi", "sub_pc_type": "ilu", **options}, "difference"):
        factors.setUp()
        factors.setUpOnBlocks()
    return factors


class FactualSystem(Scope):
    """The factual matrices for stages with one γ, and incomplete factors.

    Args:
        shared: what all differences share.
        gamma: γ.
    """

    def __init__(self, shared: Differences, gamma: float):
        equation = shared.equation
        self.gamma = gamma
        self.weights = shared.stage.weights(gamma, shared.second_order)
        zero = shared.vectors[0]
        # The system matrix is the equation's own and will be overwritten.
        equation.use(shared.model.coefficients, shared.model.experiment.forcing)
        system = equation.jacobian(self.weights, (zero, zero, zero), 0.0)
        self.system = self.own(system.copy())
        self.factual = self.own(equation.eliminated(self.system.copy(), shared.essential.rows))
        self.factors = self.own(incomplete(self.factual, shared.dimension))


Kind = TypeVar("Kind", bound=Scope)


def kept_last(owner: Scope, known: dict[float, Kind], key: float, make: Callable[[], Kind]) -> Kind:
    """One of a few things that are kept, made where it is not there; the oldest is freed."""
    if key in known:
        return known[key]
    if len(known) >= DIFFERENCES.lengths:
        owner.release(known.pop(next(iter(known))))
    known[key] = owner.own(make())
    return known[key]


class DeletedSystem(Scope):
    """The matrix of one changed problem for stages with one γ, and earlier solutions with it.

    Args:
        shared: what all of them share.
        factual: the factual matrices with the same γ.
        changes: what is added to the factors of some terms.
    """

    def __init__(self, shared: Differences, factual: FactualSystem, changes: Mapping[str, float]):
        equation, model = shared.equation, shared.model
        matrix = factual.system.copy()
        for name, amount in changes.items():
            part = equation.terms[name]
            for order, weight in enumerate(factual.weights):
                if weight and part.ingredient.jacobians[order] is not None:
                    add(matrix, amount * weight, part.matrix(order))
        self.matrix = self.own(equation.eliminated(matrix, shared.essential.rows))
        if self.matrix is not matrix:
            matrix.destroy()
        self.own_factors: PETSc.PC | None = None
        self.patience = DIFFERENCES.slow
        self.memory = Memory(DIFFERENCES.memory, model.spaces.owned, model.comm)
        self.solves = self.iterations = 0
