# SPDX-License-Identifier: MIT
"""The deletion branch ρ ↦ u_j(ρ), on which term j has the coefficient (1 − ρ) α_j, and its
curvature M_j = sup ‖u_j''(ρ)‖.

u_j is computed on a uniform grid of ρ. Second differences on every other point give ‖u_j''‖ inside,
the linearised response gives it near ρ = 0, and a linear extrapolation of the norms gives both
ends; M_j is the largest of these, an estimate and no bound. The points in between are not used for
M_j, so that an inequality with M_j can be tested there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import scale

if TYPE_CHECKING:
    from cffem.engine.model import Model

Size = Callable[[Solution], float]


def combination(*parts: tuple[float, Solution]) -> Solution:
    """Σ factor · trajectory, for solutions of one model on the same time levels."""
    first = parts[0][1]
    result = Solution(first.model, first.intervention, first.times, SolveRecord())
    result.states = [sum(f * s.states[k] for f, s in parts) for k in range(len(first.states))]
    if first.velocities is not None:
        velocities = [(f, s.velocities) for f, s in parts if s.velocities is not None]
        result.velocities = [sum(f * v[k] for f, v in velocities) for k in range(len(first.states))]
    return result


@dataclass
class DeletionBranch:
    """Samples of a deletion branch.

    Attributes:
        rho: the sampled ρ, without zero.
        response: u_j'(0).
        curvature: the estimate of M_j.
    """

    model: Model
    term: str
    rho: tuple[float, ...]
    response: Solution
    curvature: float = 0.0


def follow(
    model: Model, name: str, points: int, size: Size, visit: Callable[[float, Solution], None]
) -> DeletionBranch:
    """Go along the branch, hand each sample to `visit`, and estimate the curvature in a norm.

    Args:
        model: the model.
        name: the term.
        points: how many samples of ρ after zero; even and at least four.
        size: the norm of a trajectory.
        visit: called with (ρ, u_j(ρ)).

    Raises:
        SolveError: the problem at some ρ cannot be solved.
    """
    if points < 4 or points % 2:
        raise InputError(f"a branch needs an even number of points, at least 4, not {points}")
    factual = model.factual
    response = model.linearised(name).trajectory
    branch = DeletionBranch(model, name, tuple(k / points for k in range(1, points + 1)), response)
    spacing = 2.0 / points
    window = [factual]
    curvatures: list[float] = []
    for k, rho in enumerate(branch.rho, start=1):
        solution = model.solve(scale(name, 1.0 - rho))
        visit(rho, solution)
        if k % 2:
            continue
        window.append(solution)
        if len(window) == 2:
            second = combination((2.0, solution), (-2.0, factual), (-2.0 * spacing, response))
        else:
            second = combination((1.0, window[-3]), (-2.0, window[-2]), (1.0, window[-1]))
        curvatures.append(size(second) / spacing**2)
        window = window[-2:]
    branch.curvature = largest(curvatures)
    return branch


def largest(curvatures: Sequence[float]) -> float:
    """The largest of ‖u''‖ at ρ = h/3, h, 2h, …, 1 − h, extrapolated to both ends.

    Example:
        >>> largest([1.0, 3.0, 5.0])
        7.0
    """
    first, second = curvatures[0], curvatures[1]
    at_zero = first + (first - second) / 2
    gap = 1.0 if len(curvatures) > 2 else 1.5
    at_one = curvatures[-1] + (curvatures[-1] - curvatures[-2]) * gap
    return max(*curvatures, at_zero, at_one)
