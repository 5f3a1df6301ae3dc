# SPDX-License-Identifier: MIT
"""Estimated error bounds by three levels, for every problem that can be solved: nonlinear, variable
coefficients, systems, flows.

A field w is computed on three levels in space, at the given time step, and on three time steps, in
the given space. From the gaps of such a triple and how fast they shrink it is estimated what is
left beyond the third, ρ, see `cffem.bounds.levels.level_gaps`. The finest levels in space and in
time are combined, w* = w_{2,0} + w_{0,2} − w_0, and ‖w − w*‖ ≲ ρ = ρ_space + ρ_time + 2 E_space
E_time/‖w*‖, the product for what each changes in the other. For a score this is applied to the
difference w = u − u_j itself, whose saturation is not that of u: |δ − δ_0| ≲ |δ* − δ_0| + ρ_δ,
where of each part of ρ only the share counts that the norm shows. The gap between two levels alone
is no bound, and σ is evidence, not proof: these certificates are `estimated`.

Raising the degree converges algebraically where the solution is rough, with a σ that grows from
level to level. Where it is below 0.15 that does not matter; above, ρ is as large as a power of the
degree would leave it, and the other way up is tried first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.bounds.certificate import (
    ESTIMATED,
    Certificate,
    DeletionBound,
    NotCovered,
    NotSaturated,
)
from cffem.bounds.levels.compared import check_compared, gram_matrix, grids, raised_states
from cffem.bounds.levels.ladders import DEGREE, MESH, TIME, Ladder, first_order
from cffem.bounds.levels.level_gaps import Gaps, Levels
from cffem.bounds.levels.roughness import Orders
from cffem.bounds.levels.unseen import DataLevels, Unseen
from cffem.bounds.refits import Change, change_on
from cffem.engine.deletion.outcomes import Deletion, Demand
from cffem.engine.deletion.sweep import run_changes
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import Intervention, delete

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# The accuracy that is asked of scores on levels, beyond which residuals do not matter beside the
# gaps; and the unknowns times time steps of the finest level up to which working precision costs
# hardly more. Residuals depend on how cells are shared out among ranks, what is solved to working
# precision does not.
ACCURACY = 1e-5
SMALL = 2e4
# The names of δ* and of what is left about it among the constants of a certificate.
COMBINED, COMBINED_REST = "combined score δ*", "ρ_δ"
# Gaps below this share of the solution's norm are rounding errors, which do not shrink.
ROUNDING = 1e-10
# Degrees whose gaps shrink this fast leave no doubt that the solution is smooth.
FIRM = 0.15
# How many numbers of solutions on levels are kept at a time.
KEPT = 5e7


@dataclass(frozen=True)
class Trajectories:
    """The states of one field on all levels.

    Attributes:
        space: on three levels in space, as states of the finest space.
        time: at the given and at two smaller time steps, as states of the given space; of a steady
            problem the first only.
    """

    space: tuple[Sequence[np.ndarray], ...]
    time: tuple[Sequence[np.ndarray], ...]

    def minus(self, other: Trajectories) -> Trajectories:
        """The difference of two fields, level by level."""

        def gap(one: Sequence[np.ndarray], two: Sequence[np.ndarray]) -> list[np.ndarray]:
            return [a - b for a, b in zip(one, two, strict=True)]

        return Trajectories(
            tuple(gap(a, b) for a, b in zip(self.space, other.space, strict=True)),
            tuple(gap(a, b) for a, b in zip(self.time, other.time, strict=True)),
        )


class LevelCertifier:
    """Three-level estimates for the deletions of one model.

    Args:
        model: the model.
        way: "mesh" or "degree", by which the levels in space go up.
    """

    def __init__(self, model: Model, way: str):
        start = time.perf_counter()
        self.model, self.way = model, way
        space = Ladder(model, way)
        self.ladders = [space] + ([] if model.experiment.time is None else [Ladder(model, TIME)])
        self.models = [ladder.model(k) for ladder in self.ladders for k in (1, 2)]
        self.finest = self.models[1]
        # Each gap in space is measured in the finest space, each gap in time in the given one.
        self._up = {k: space.embeddings(k, 2) for k in (0, 1)}
        self.solutions = 0
        # Discontinuous elements of degree 0 are of first order, too.
        degrees = [max(1, degree) for _, degree in map(tuple, model.experiment.elements.values())]
        self.degree = min(degrees, default=1) if way == DEGREE else 1
        self.first_order = first_order(model)
        self.data = DataLevels(
            [model, *self.models[:2]], [self._up[k] for k in (0, 1)], way, self.degree
        )
        self._orders = self.data.orders()
        self.factual = self._trajectories(
            [model.factual, *(finer.factual for finer in self.models)]
        )
        self._known: dict[str, Levels] = {"L2": self._levels("L2", self.factual)}
        if way == DEGREE and not all(gaps.accepted for gaps in self._known["L2"].gaps):
            # Rough differences of a rough solution would only be found out one by one.
            shown = ", ".join(map(str, self._known["L2"].gaps))
            self.destroy()
            raise NotSaturated(f"degrees do not resolve the solution itself: σ is {shown}")
        self._last: tuple[Any, list[Any], float] | None = None
        self._ready: list[tuple[Change, list[Deletion]]] = []
        self.seconds = time.perf_counter() - start

    # Comparing
    # ----------------------------------------------------------------------------------------------

    def _trajectories(self, solutions: Sequence[Solution]) -> Trajectories:
        """Take the states of the solutions of all models, the user's first."""
        self.solutions += len(solutions)
        states = [solution.states for solution in solutions]
        raised = [
            raised_states(states[k], solutions[k].model.spaces, self.finest.spaces, self._up[k])
            for k in (0, 1)
        ]
        return Trajectories((raised[0], raised[1], states[2]), (states[0], *states[3:]))

    def _levels(
        self,
        kind: str,
        field: Trajectories,
        scale: float = 0.0,
        residuals: float = 0.0,
        combined: bool = False,
        unseen: float = 0.0,
        orders: Orders | None = None,
    ) -> Levels:
        """The gaps of one field on all levels.

        Args:
            kind: the norm.
            field: the field.
            scale: the size of a field that rounding errors are relative to if it is the larger.
            residuals: about how far residuals can have moved the field, in L2.
            combined: whether ‖w*‖ is wanted, and what of the gaps the norm shows.
            unseen: about how far data that no level has seen can have moved the field, in L2.
            orders: those that data leave, by default those of the factual problem.
        """
        check_compared(self.model, kind)
        limits = orders or self._orders
        levels = grids([self.model, *self.models])
        ways = [(self.way, self.finest.norm(kind), field.space)]
        ways += [(TIME, self.model.norm(kind), field.time)] if len(field.time) > 1 else []
        gaps = []
        for way, norm, (low, middle, high) in ways:
            fields = [
                [(low, 1.0), (middle, -1.0)],
                [(middle, 1.0), (high, -1.0)],
                *([[(high, 1.0)]] if combined else []),
            ]
            gram = gram_matrix(norm, fields, levels)
            first, second, both = (
                math.sqrt(max(value, 0.0)) for value in (gram[0, 0], gram[1, 1], gram[:2, :2].sum())
            )
            shares = norm_shares(gram) if combined else (1.0, 1.0)
            order = limits.time if way == TIME else limits.space
            gaps.append(
                Gaps(way, first, second, both, 0.0, self.degree, self.first_order, shares, order)
            )
        reported = math.sqrt(
            max(gram_matrix(self.model.norm(kind), [[(field.time[0], 1.0)]], levels)[0, 0], 0.0)
        )
        gaps = [
            replace(each, floor=max(ROUNDING * max(scale, reported), residuals)) for each in gaps
        ]
        return Levels(
            tuple(gaps),
            reported,
            self._combined(kind, field, levels) if combined else reported,
            residuals,
            unseen,
        )

    def _combined(self, kind: str, field: Trajectories, levels: Mapping[int, np.ndarray]) -> float:
        """‖w*‖ in the finest space and on the finest time levels."""
        parts = [(field.space[2], 1.0)]
        if len(field.time) > 1:
            raised = raised_states(
                field.time[2], self.model.spaces, self.finest.spaces, self._up[0]
            )
            parts += [(raised, 1.0), (field.space[0], -1.0)]
        return math.sqrt(max(gram_matrix(self.finest.norm(kind), [parts], levels)[0, 0], 0.0))

    @property
    def accuracy(self) -> float:
        """What is asked of scores on the finer levels, zero for working precision."""
        largest = max(model.spaces.size * len(model.times) for model in self.models)
        return 0.0 if largest <= SMALL else ACCURACY

    @property
    def transient(self) -> bool:
        """Whether there are levels in time."""
        return len(self.ladders) > 1

    def deleted_solutions(
        self, change: Change, deleted: Solution | None = None, accuracy: float | None = None
    ) -> tuple[list[Any], float]:
        """The solutions of a deleted problem on all levels, the user's first, and about how far
        residuals can have moved them.

        Args:
            change: the deletion; the solutions of the last one are remembered.
            deleted: its solution on the user's level, where it is known already.
            accuracy: what is asked of the score on the other levels, zero for working precision;
                by default `accuracy`.

        Raises:
            SolveError: the deleted problem could not be solved on a level.
        """
        accuracy = self.accuracy if accuracy is None else accuracy
        key = (change, accuracy)
        if self._last is None or self._last[0] != key:
            found = self._prepared(change) if accuracy == self.accuracy else None
            demand = Demand(keep=True, accuracy=accuracy)
            found = found or [
                run_changes(model, {"": change_on(change, model)}, demand)[""]
                for model in self.models
            ]
            for deletion in found:
                if deletion.solution is None:
                    raise SolveError(deletion.reason, deletion.history, deletion.cause)
            given = deleted or self.model.solve(change_on(change, self.model))
            solutions = [given, *(deletion.solution for deletion in found)]
            self._last = (key, solutions, sum(deletion.error for deletion in found))
        return self._last[1:]

    def _prepared(self, change: Change) -> list[Deletion] | None:
        """What `prepare` found for a deletion, once."""
        places = [place for place, (known, _) in enumerate(self._ready) if known == change]
        return self._ready.pop(places[0])[1] if places else None

    def prepare(self, changes: Mapping[str, Change]) -> None:
        """Solve some deleted problems on all levels but the user's at once, which costs less than
        one by one; collective.

        Args:
            changes: the deletions, by term; as many as can be kept are solved.
        """
        start = time.perf_counter()
        one = sum(model.spaces.size * len(model.times) for model in self.models)
        some = dict(list(changes.items())[: int(KEPT / one)])
        demand = Demand(keep=True, accuracy=self.accuracy)
        found = [
            run_changes(
                model, {name: change_on(change, model) for name, change in some.items()}, demand
            )
            for model in (self.models if some else [])
        ]
        self._ready = [(change, [level[name] for level in found]) for name, change in some.items()]
        self.seconds += time.perf_counter() - start

    @property
    def firm(self) -> bool:
        """Whether the factual solution itself leaves no doubt that its gaps go on shrinking."""
        return all(map(_firm, self._known["L2"].gaps))

    def field_gaps(
        self, solutions: Sequence[Solution], change: Intervention | None = None
    ) -> tuple[Gaps, ...]:
        """The gaps that shrink slowest among those of the factual field and of its difference to a
        deleted one; collective.

        Numbers taken from fields that are not resolved may agree on three levels by accident.

        Args:
            solutions: those of the deleted problem on all levels.
            change: what was changed, which may be data.

        Raises:
            NotCovered: saturation of a field was not observed, or no level sees all of the data.
        """
        if any(part.total or part.missed for part in map(self.data.unseen, (None, change))):
            raise NotCovered(
                "no level sees all of the data, and what that changes in an observable is not known"
            )
        factual = self._known["L2"]
        if self.data.walls() > factual.rest:
            raise NotCovered(
                "prescribed values have kinks between nodes, which move the field by more than its "
                "levels tell; put a mesh line there"
            )
        difference = self._levels(
            "L2", self.factual.minus(self._trajectories(solutions)), factual.reported
        )
        found = []
        for pair in zip(factual.gaps, difference.gaps, strict=True):
            worst = max(pair, key=lambda gaps: 0.0 if gaps.rounded else gaps.slowest)
            if not worst.fast:
                raise NotSaturated(f"the field behind the observable is not resolved: σ is {worst}")
            found.append(worst)
        return tuple(found)

    # Certificates
    # ----------------------------------------------------------------------------------------------

    def deletion(
        self,
        name: str,
        norm: str = "L2",
        deleted: Solution | None = None,
        change: Change | None = None,
        firm: bool = False,
    ) -> DeletionBound:
        """The estimated bound for the score of one deletion; collective.

        Args:
            name: the term.
            norm: the norm of the score.
            deleted: the solution of the deleted problem, where it is known already.
            change: the deletion, where it sets other coefficients as well.
            firm: whether degrees count only where their gaps shrink so fast that the solution must
                be smooth.

        Raises:
            NotCovered: saturation was not observed.
            SolveError: a finer problem could not be solved.
        """
        start = time.perf_counter()
        solutions, residuals = self.deleted_solutions(change or delete(name), deleted)
        others = self._trajectories(solutions)
        if norm not in self._known:
            self._known[norm] = self._levels(norm, self.factual)
        factual, missing = self._known[norm], self._unseen(change, norm)
        orders = self._orders.joined(
            self.data.orders(change if isinstance(change, Intervention) else None)
        )
        walls = self.data.walls(norm=norm)
        apart = self.data.walls(change or delete(name), norm)
        both = missing[0].total + missing[1].total + apart
        deleted_unseen = missing[1].total + walls + apart
        found = {
            "u": replace(factual, unseen=missing[0].total + walls),
            "u_j": self._levels(
                norm, others, factual.reported, residuals, unseen=deleted_unseen, orders=orders
            ),
            "u − u_j": self._levels(
                norm, self.factual.minus(others), factual.reported, residuals, True, both, orders
            ),
        }
        self.seconds += time.perf_counter() - start
        difference = found["u − u_j"]
        margin = min(difference.shift, found["u"].error + found["u_j"].error)
        if not math.isfinite(margin) or (firm and not all(map(_firm, difference.gaps))):
            shown = ", ".join(map(str, difference.gaps))
            limits = ", ".join(
                f"{FIRM if firm and gaps.way == DEGREE else gaps.limit:g} ({gaps.way})"
                for gaps in difference.gaps
            )
            raise NotSaturated(
                f"saturation was not observed on three levels: σ is {shown}, and less than "
                f"{limits} is needed"
            )
        certificate = self._certificate(margin, norm, found, missing)
        first, second, third = (levels.error for levels in found.values())
        best = (
            (difference.combined, difference.norm_rest) if difference.norm_rest < margin else None
        )
        return DeletionBound(
            name, difference.reported, first, second, third, margin, certificate, best
        )

    def _unseen(self, change: Change | None, norm: str) -> tuple[Unseen, Unseen]:
        """What data may have been missed by all levels, of the factual problem and of a
        changed one; collective.
        """
        plain = change if isinstance(change, Intervention) else None
        return self.data.seen(norm), self.data.seen(norm, plain)

    def _certificate(
        self, margin: float, norm: str, found: dict[str, Levels], missing: tuple[Unseen, Unseen]
    ) -> Certificate:
        score, ladder = found["u − u_j"].reported, self.finest.discretisation.mesh.topology
        measured = "; ".join(
            f"{key}: {', '.join(map(str, levels.gaps))}" for key, levels in found.items()
        )
        limits = ", ".join(f"{gaps.limit:g} ({gaps.way})" for gaps in found["u"].gaps)
        shares = ", ".join(f"{gaps.share:.2g} ({gaps.way})" for gaps in found["u − u_j"].gaps)
        right = "min(|δ* − δ_h| + ρ_δ(u − u_j), η_factual + η_counterfactual)"
        formula = (
            r"\min\{|\delta^*-\delta_h| + \rho_\delta(u-u_j),\; "
            r"\eta_{\mathrm f}+\eta_{\mathrm{cf}}\}"
        )
        return Certificate(
            value=margin,
            kind=ESTIMATED,
            norm=norm,
            inequality=f"|‖u − u_j‖ − {score:.4g}| ≲ {right} = {margin:.4g}",
            formula=(
                r"\bigl|\,\|u-u_j\| - \|u_h-u_{jh}\|\,\bigr| \lesssim "
                rf"{formula} = {margin:.4g}"
            ),
            hypotheses=(
                (
                    "the gaps between further levels shrink at least as fast as those measured",
                    "three levels: evidence, no proof",
                ),
                (f"saturation σ < {limits}", f"measured, {measured}"),
                (
                    "of further gaps the score shows no larger share than twice that of those "
                    "measured",
                    f"counted: {shares}",
                ),
                *dict.fromkeys(part.statement() for part in missing),
                ("Ω is the meshed domain", _ways(self.way, self.transient)),
                (
                    "the assembled forms are those of the equation",
                    "not examined by this certificate",
                ),
            ),
            constants={
                **{f"κ ({gaps.way})": gaps.safety for gaps in found["u − u_j"].gaps},
                **{
                    f"ρ of {key}": levels.rest
                    for key, levels in found.items()
                    if math.isfinite(levels.rest)
                },
                COMBINED_REST: found["u − u_j"].norm_rest,
                COMBINED: found["u − u_j"].combined,
            },
            cost={
                "unknowns of the finest space": float(self.finest.spaces.size),
                "cells of the finest mesh": float(ladder.index_map(ladder.dim).size_global),
                "finest number of time steps": float(len(self.models[-1].times) - 1),
                "solutions": float(self.solutions),
                "seconds": self.seconds,
            },
            method=(
                "three levels by the "
                f"{self.way}{', three by the time step' if self.transient else ''}, saturation "
                "seen"
            ),
        )

    def destroy(self) -> None:
        """Free the finer models; collective."""
        for ladder in self.ladders:
            ladder.destroy()


def norm_shares(gram: np.ndarray) -> tuple[float, float]:
    """How much of each gap the norm shows, from the inner products of w_0 − w_1, w_1 − w_2
    and w_2.
    """
    (first, between, low), (_, second, middle), (_, _, high) = gram.tolist()
    # Of squares, so that nothing cancels.
    middle_change, low_change = 2 * middle + second, 2 * (low + between) + first
    norms = [
        math.sqrt(max(value, 0.0))
        for value in (high, high + middle_change, high + middle_change + low_change)
    ]
    sums = (
        (norms[1] + norms[2]) * math.sqrt(max(first, 0.0)),
        (norms[0] + norms[1]) * math.sqrt(max(second, 0.0)),
    )
    shown = [
        abs(change) / total if total > 0 else 1.0
        for change, total in zip((low_change, middle_change), sums, strict=True)
    ]
    return min(shown[0], 1.0), min(shown[1], 1.0)


def _firm(gaps: Gaps) -> bool:
    return gaps.rounded or gaps.way != DEGREE or gaps.saturation < FIRM


def _ways(way: str, transient: bool) -> str:
    space = (
        "the given mesh is the coarsest, its cells are divided twice"
        if way == MESH
        else "the given mesh, degrees raised twice"
    )
    return space + (", the time step is divided by 2 and 4" if transient else "")
