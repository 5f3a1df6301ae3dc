# SPDX-License-Identifier: MIT
"""The gap between a mesh of straight cells and the curve it was made from.

Theorems here speak of the meshed polygon. A shape such as `cf.mesh.disk` stands for a domain with a
curved boundary, which straight cells miss by O(h²/R). The same problem on the same cells with
curved sides (degree two) misses it by less; how far it moves a number is an estimate of the gap, of
which a multiple is added to the margin. The error bar is then `estimated`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx import fem

from cffem.bounds.certificate import (
    ESTIMATED,
    Certificate,
    DeletionBound,
    NoCertificate,
    without_size,
)
from cffem.bounds.refits import Change, change_on
from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import Intervention

if TYPE_CHECKING:
    from cffem.engine.solution import Solution
    from cffem.symbols.fields import Field


# What curved cells move a number by is counted so many times, for what they miss themselves.
SAFETY = 1.5
# Nodes of straight cells may lie outside of curved ones by so much of a cell, as far as the search
# for them goes.
PADDING = 1e-8


@dataclass(frozen=True)
class GeometryShift:
    """How far curved cells move something.

    Attributes:
        score: a deletion score.
        factual, counterfactual: the norms of both solutions.
    """

    score: float
    factual: float
    counterfactual: float


class CurvedTwin:
    """The same model on cells that follow the curve.

    Args:
        model: a model whose mesh knows the curved cells.
    """

    def __init__(self, model: Model):
        self.straight = model
        experiment = replace(model.experiment, mesh=model.discretisation.domain.curved())
        self.model = model.in_experiment(experiment, model.observer)
        self._solutions: dict[Intervention, Solution] = {Intervention(): self.model.factual}
        self._moved: dict[tuple[Change, str], GeometryShift] = {}

    def solution(self, change: Intervention) -> Solution:
        """The solution of an intervention on curved cells, solved once; collective."""
        if change not in self._solutions:
            self._solutions[change] = self.model.solve(change)
        return self._solutions[change]

    def moved(self, change: Change, score: float, deleted: Solution, norm: str) -> GeometryShift:
        """How far curved cells move a score and the norms of its solutions; collective."""
        key = change, norm
        if key not in self._moved:
            other = self.solution(change_on(change, self.model))
            curved = self.model.factual
            own = [
                abs(a.norm(norm) - b.norm(norm))
                for a, b in ((curved, self.straight.factual), (other, deleted))
            ]
            self._moved[key] = GeometryShift(
                abs(curved.distance(other, norm) - score), own[0], own[1]
            )
        return self._moved[key]

    def destroy(self) -> None:
        """Free the model on curved cells; collective."""
        self.model.destroy()


def has_curve(model: Model) -> bool:
    """Whether the straight cells of a model stand for a domain with a curved boundary."""
    return getattr(model.discretisation.domain, "curved", None) is not None


def twin_of(model: Model) -> CurvedTwin:
    """The model on curved cells, made once; collective."""
    return model.once("curved twin", lambda: CurvedTwin(model))


def with_curve(
    model: Model,
    bound: DeletionBound | NoCertificate,
    change: Change,
    deleted: Solution | None,
    norm: str,
) -> DeletionBound | NoCertificate:
    """A bound that also covers the gap to the curve, where there is one; collective.

    Args:
        model: the model on straight cells.
        bound: the bound for the meshed polygon.
        change: the deletion.
        deleted: its solution, where it is known already.
        norm: the norm of the score.
    """
    if isinstance(bound, NoCertificate) or not has_curve(model):
        return bound
    deleted = deleted or model.solve(change_on(change, model))
    score = model.factual.distance(deleted, norm)
    found = _tried(lambda: twin_of(model).moved(change, score, deleted, norm))
    if isinstance(found, NoCertificate):
        return found
    sizes = [max(s.norm(norm), 1e-300) for s in (model.factual, deleted)]
    # A score may stay where it is by accident, while both of its solutions move.
    gap = SAFETY * max(
        found.score, score * found.factual / sizes[0], score * found.counterfactual / sizes[1]
    )
    return replace(
        bound,
        eta_factual=bound.eta_factual + SAFETY * found.factual,
        eta_counterfactual=bound.eta_counterfactual + SAFETY * found.counterfactual,
        difference=bound.difference + gap,
        margin=bound.margin + gap,
        certificate=curved_certificate(bound.certificate, gap),
        best=None if bound.best is None else (bound.best[0], bound.best[1] + gap),
    )


def solution_with_curve(
    model: Model, found: Certificate | NoCertificate, solution: Solution, norm: str
) -> Certificate | NoCertificate:
    """The certificate of a solution that also covers the gap to the curve, where there is
    one; collective.
    """
    if isinstance(found, NoCertificate) or not has_curve(model):
        return found
    change = solution.intervention
    size = _tried(lambda: field_gap(twin_of(model).solution(change), solution, norm))
    return size if isinstance(size, NoCertificate) else curved_certificate(found, SAFETY * size)


def curved_certificate(certificate: Certificate, gap: float) -> Certificate:
    """A certificate with the gap to a curve added to its value."""
    how = (
        f"the same problem on curved cells; {SAFETY:g} times what they change, {gap:.2g}, is in "
        "the margin"
    )
    return replace(
        certificate,
        value=certificate.value + gap,
        kind=ESTIMATED,
        inequality=f"{certificate.inequality} + {gap:.2g} (curve)",
        hypotheses=(
            *certificate.hypotheses,
            ("Ω is bounded by the curves that the mesh was made from", how),
        ),
        constants={**without_size(certificate), "gap to the curve": gap},
        method=f"{certificate.method}, curved cells beside",
    )


def field_gap(curved: Solution, straight: Solution, norm: str) -> float:
    """How far a solution on curved cells is from one on straight cells, at the same places;
    collective.

    The norm of the curved one there is at most that of a difference away, so that norms of every
    kind are seen.
    """
    shift = abs(curved.norm(norm) - straight.norm(norm))
    unknowns = straight.model.discretisation.unknowns
    if norm != "L2" or len(unknowns) != 1:
        return shift
    return max(shift, _interpolated_distance(curved, straight, unknowns[0]))


def _interpolated_distance(curved: Solution, straight: Solution, unknown: Field) -> float:
    """‖u_c − u_h‖ on the straight cells, the curved solution interpolated at their nodes;
    collective.
    """
    spaces = straight.model.spaces
    target, source = (s.model.spaces.own(unknown)[0] for s in (straight, curved))
    index = target.mesh.topology.index_map(target.mesh.topology.dim)
    cells = np.arange(index.size_local + index.num_ghosts, dtype=np.int32)
    places = fem.create_interpolation_data(target, source, cells, padding=PADDING)
    function, where = fem.Function(target), spaces.dofs(unknown)
    mine = where < spaces.owned
    gaps = []
    for k in range(len(straight.times)):
        function.interpolate_nonmatching(curved.function(unknown, k), cells, places)
        function.x.scatter_forward()
        gap = np.zeros(spaces.owned)
        gap[where[mine]] = function.x.array[mine] - straight.states[k][where[mine]]
        gaps.append(gap)
    return float(straight.model.trajectory_norm(gaps, straight.times, "L2"))


def _tried(work: Callable[[], Any]) -> Any:
    try:
        found = work()
    except (SolveError, RuntimeError, ValueError) as reason:
        return NoCertificate(
            f"the gap to the curve that the mesh was made from could not be estimated: {reason}"
        )
    finite = math.isfinite(found) if isinstance(found, float) else math.isfinite(found.score)
    return (
        found
        if finite
        else NoCertificate("the gap to the curve that the mesh was made from is not finite")
    )
