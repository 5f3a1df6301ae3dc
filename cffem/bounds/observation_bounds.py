# SPDX-License-Identifier: MIT
"""Error bars of what a deletion does to readings: δ_j^𝒪 = ‖C^(−½) (𝒪[u] − 𝒪[u_j])‖.

The changes of all readings, in units of their noise, are one vector v. It is taken on three levels,
at the same places and times, and what its gaps leave is estimated as for fields (`level_gaps`):
|‖v‖ − ‖v_h‖| ≲ |‖v*‖ − ‖v_h‖| + ρ. A few numbers may agree by accident where fields cannot, so a
second gap counts as no less than an eighth of the first.

Where a steady scalar field is seen on a part P of the domain with the noise σ of its mean, δ^𝒪 is
‖u − u_j‖_P/(σ |P|^½), so that a guaranteed bound of the field is one of δ^𝒪.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.bounds.certificate import ESTIMATED, NoCertificate, NotCovered, NotSaturated
from cffem.bounds.entrance import certify_deletion, estimates_of
from cffem.bounds.levels.around import ABOUT, BELOW, RESOLVED, LevelsAround
from cffem.bounds.levels.data_parts import LOOKING
from cffem.bounds.levels.estimates import EFFORT
from cffem.bounds.levels.ladders import TIME
from cffem.bounds.levels.level_gaps import Gaps, Levels
from cffem.bounds.levels.three_levels import LevelCertifier
from cffem.engine.response.observation_operator import at_fixed_places
from cffem.engine.response.part_points import part_points
from cffem.engine.solve.linear import SolveError
from cffem.symbols.errors import InputError
from cffem.symbols.problem.observations import Part

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution
    from cffem.symbols.problem.interventions import Intervention
    from cffem.symbols.problem.observations import Observation

# A second gap below this share of the first is not relied on.
ACCIDENT = 1 / 8
# Gaps below this, in standard deviations of a reading, are rounding errors.
ROUNDING = 1e-8


@dataclass(frozen=True)
class ObservationMargin:
    """How far a computed δ^𝒪 can be from the true one.

    Attributes:
        term: the deleted term.
        score: ‖v_h‖.
        corrected: ‖v*‖.
        margin: of the score.
        kind, method: of the error bar.
    """

    term: str
    score: float
    corrected: float
    margin: float
    kind: str
    method: str


Found = ObservationMargin | NoCertificate


def certify_observation(
    model: Model,
    observation: Observation,
    changes: Mapping[str, Intervention],
    solutions: Mapping[str, Solution],
    threshold: float,
    effort: float = EFFORT,
    noise_level: float = 1.0,
) -> dict[str, Found]:
    """Error bars of δ^𝒪 of deletions; collective.

    Args:
        model: the model.
        observation: what is measured.
        changes: the deletions, by term.
        solutions: the deleted solutions, by term.
        threshold: from which δ^𝒪 counts as seen; bars that do not reach it are sharp enough.
        effort: see `Estimates`.
        noise_level: σ, where the observation is in units of an unknown one.
    """
    estimates = estimates_of(model, None, effort)
    bars = _Bars(model, observation, noise_level)
    found: dict[str, Found] = {}
    for name, change in changes.items():
        ways = (
            lambda name=name: bars.guaranteed(name, solutions[name]),
            lambda name=name, change=change: bars.around(
                estimates.around(BELOW), name, change, solutions[name]
            ),
            lambda name=name, change=change: bars.around(
                estimates.around(ABOUT), name, change, solutions[name]
            ),
            lambda name=name, change=change: bars.above(estimates, name, change, solutions[name]),
        )
        reasons: list[NoCertificate] = []
        best: ObservationMargin | None = None
        for way in ways:
            try:
                bar = way()
            except (NotCovered, SolveError, InputError) as reason:
                reasons.append(NoCertificate.because(reason))
                continue
            best = bar if best is None or bar.margin < best.margin else best
            if abs(best.score - threshold) > best.margin:
                break
        found[name] = best or NoCertificate.joined(reasons)
    return found


class _Bars:
    """The ways to an error bar of one observation on one model."""

    def __init__(self, model: Model, observation: Observation, noise_level: float):
        self.model, self.observation, self.unit = model, observation, noise_level
        self.fixed = at_fixed_places(observation, model)
        self._factual: dict[int, np.ndarray] = {}

    def change(self, model: Any, deleted: Any) -> np.ndarray:
        """The changes of all readings on a level, in units of their noise."""
        operator = model.observation(self.fixed)
        if id(model) not in self._factual:
            self._factual[id(model)] = operator.values(model.factual)
        moved = operator.values(deleted) - self._factual[id(model)]
        return operator.noise.whitened(moved) / self.unit

    def guaranteed(self, name: str, deleted: Solution) -> ObservationMargin:
        """By a bound of the field, where a part of the domain is seen."""
        seen, model = self.observation, self.model
        unknowns = model.discretisation.unknowns
        if not isinstance(seen, Part) or model.experiment.time is not None or not seen.noise:
            raise NotCovered("readings are not bounded by the norm of a field")
        if len(unknowns) > 1 or unknowns[0].shape:
            raise NotCovered("only a single scalar field is bounded on a part of the domain")
        bound = certify_deletion(model, name, "L2", deleted)
        if isinstance(bound, NoCertificate):
            raise NotCovered(bound.reason)
        points = part_points(model.discretisation, seen.on, False, 1)
        area = model.comm.allreduce(float(points.weights.sum()))
        error = min(bound.difference, bound.eta_factual + bound.eta_counterfactual)
        margin = error / (float(seen.noise) * math.sqrt(area))
        score = float(np.linalg.norm(self.change(model, deleted)))
        method = f"norm of the field on the part, {bound.certificate.method}"
        return ObservationMargin(name, score, score, margin, bound.certificate.kind, method)

    def around(
        self, levels: LevelsAround | NoCertificate, name: str, change: Any, deleted: Solution
    ) -> ObservationMargin:
        """By levels about the user's."""
        if isinstance(levels, NoCertificate):
            raise NotCovered(levels.reason)
        self._check_seen(levels)
        others = levels.deleted(name, change)
        solutions = {place: found.solution for place, found in others.items()}
        solutions[levels.given] = deleted
        vectors = [self.change(model, solutions[k]) for k, model in enumerate(levels.models)]
        gaps = _gaps(levels.way, vectors, levels.first_order, self._order(levels, change))
        given, finest = (float(np.linalg.norm(vectors[k])) for k in (levels.given, 2))
        if not gaps.rounded and gaps.first > RESOLVED * max(given, finest):
            raise NotSaturated(
                f"the coarsest level does not resolve the readings: they differ by {gaps.first:.2g}"
                f" from the next, of {finest:.2g}"
            )
        found = Levels((gaps,), given, finest, given=levels.given)
        return _margin(name, found, f"three levels of the readings, by {levels.way}")

    def above(self, estimates: Any, name: str, change: Any, deleted: Solution) -> ObservationMargin:
        """By levels above the user's."""
        reasons = []
        for way, levels in estimates.certifiers():
            if isinstance(levels, NoCertificate):
                reasons.append(levels.reason)
                continue
            self._check_seen(levels)
            solutions, _ = levels.deleted_solutions(change, deleted)
            models = [self.model, *levels.models]
            vectors = [self.change(m, s) for m, s in zip(models, solutions, strict=True)]
            order = self._order(levels, change)
            gaps = [_gaps(way, vectors[:3], levels.first_order, order, levels.degree)]
            best = vectors[2]
            if len(vectors) > 3:
                later = [vectors[0], *vectors[3:]]
                gaps.append(_gaps(TIME, later, False, order))
                best = vectors[2] + vectors[4] - vectors[0]
            given, finest = float(np.linalg.norm(vectors[0])), float(np.linalg.norm(best))
            found = Levels(tuple(gaps), given, finest)
            if math.isfinite(found.shift):
                return _margin(name, found, f"three levels of the readings, by {way}")
            reasons.append(f"saturation was not observed: σ is {', '.join(map(str, gaps))}")
        raise NotSaturated("; ".join(reasons))

    def _check_seen(self, levels: Any) -> None:
        unseen = levels.data.unseen()
        if unseen.total or unseen.missed:
            raise NotCovered(
                "no level sees all of the data, and what that changes in readings is not known"
            )
        if levels.data.walls() > LOOKING.negligible * levels.finest.factual.norm():
            raise NotCovered(
                "prescribed values have kinks between nodes, and what nodes miss of them in "
                "readings is not known; put a mesh line there"
            )

    def _order(self, levels: LevelsAround | LevelCertifier, change: Any) -> float:
        """The order of convergence that rough data leave."""
        orders = levels.data.orders().joined(levels.data.orders(change))
        return min(orders.space, orders.time)


def _gaps(
    way: str, vectors: list[np.ndarray], first_order: bool, order: float, degree: int = 1
) -> Gaps:
    low, middle, high = vectors
    first, second, both = (
        float(np.linalg.norm(gap)) for gap in (low - middle, middle - high, low - high)
    )
    floor = ROUNDING * max(1.0, float(np.linalg.norm(high)))
    if first > floor:
        second = max(second, ACCIDENT * first)
    return Gaps(way, first, second, both, floor, degree, first_order, order=order)


def _margin(name: str, found: Levels, method: str) -> ObservationMargin:
    if not math.isfinite(found.shift):
        raise NotSaturated(
            f"the gaps of the readings do not shrink: σ is {', '.join(map(str, found.gaps))}"
        )
    return ObservationMargin(name, found.reported, found.combined, found.shift, ESTIMATED, method)
