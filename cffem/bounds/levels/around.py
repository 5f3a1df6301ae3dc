# SPDX-License-Identifier: MIT
"""Estimated error bounds by three levels about the user's discretisation, the cheapest there are.

The user's level, which is solved anyway, is the finest of three, cells and time steps of the others
being two and four times as large (`BELOW`), or the middle one (`ABOUT`), with one coarser and one
finer level. Cells and steps change together. For a field w with the gaps E_01 = ‖w_0 − w_1‖ and
E_12 = ‖w_1 − w_2‖, measured in the finest space, what is left beyond the finest level is estimated
by ρ = κ E_12 s/(1 − s), see `cffem.bounds.levels.level_gaps`. For a score that is applied to the
difference u − u_j itself.

Levels may be too coarse to say anything: where the first gap is not small beside the field, its
shrinking is no sign of convergence, and there is no estimate. For a difference u − u_j whose second
gap is small all the same, the first one is added to what is left: a wide error bar, which is enough
far from ε.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from cffem.bounds.certificate import (
    ESTIMATED,
    Certificate,
    DeletionBound,
    NotCovered,
    NotSaturated,
)
from cffem.bounds.levels.coarser import (
    check_coarser,
    coarser_model,
    finer_model,
    interpolated,
)
from cffem.bounds.levels.compared import check_compared, gram_matrix, grids, raised_states
from cffem.bounds.levels.ladders import BOTH, MESH, first_order
from cffem.bounds.levels.level_gaps import Gaps, Levels
from cffem.bounds.levels.roughness import Orders
from cffem.bounds.levels.three_levels import (
    ACCURACY,
    COMBINED,
    COMBINED_REST,
    ROUNDING,
    norm_shares,
)
from cffem.bounds.levels.unseen import DataLevels, Unseen
from cffem.bounds.refits import Change, change_on
from cffem.engine.deletion.sweep import Deletion, Demand, run_changes
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import Intervention, delete
from cffem.symbols.reasons import SIZE_ERROR

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# Where the user's level is among the three.
BELOW, ABOUT = 2, 1
# The largest first gap, relative to the field, from which anything is concluded.
RESOLVED = 0.5
# A part of the window has at least so many steps of the coarsest level.
FEWEST_LEVELS = 2
Trajectory = list[np.ndarray]


def relative_size(model: Model, given: int) -> float:
    """Unknowns times time steps of the other two levels together, relative to the user's.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.square(MPI.COMM_SELF, 0.25), elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)], forcing={u: 1})
        >>> library = cf.Library(terms={"lap": cf.lap(u)}, unknown=u)
        >>> model = cf.Model(library, {"lap": 1.0}, experiment)
        >>> relative_size(model, BELOW), relative_size(model, ABOUT)
        (0.3125, 4.25)
    """
    dimension = model.discretisation.mesh.topology.dim
    power = dimension if model.experiment.time is None else dimension + 1
    levels = (1, 2) if given == BELOW else (1, -1)
    return float(sum(2.0 ** (-power * level) for level in levels))


class LevelsAround:
    """Estimates for the deletions of one model from levels about its own.

    Args:
        model: the model.
        given: where its level is among the three, `BELOW` or `ABOUT`.

    Raises:
        NotCovered: there are no such levels, or they say nothing about the factual solution.
    """

    def __init__(self, model: Model, given: int):
        start = time.perf_counter()
        check_coarser(model)
        self.model, self.given = model, given
        self.models: list[Model] = []
        try:
            self._make()
            self.way = MESH if model.experiment.time is None else BOTH
            self.first_order = first_order(model) or _first_order_in_time(model)
            solutions = [level.factual for level in self.models]
            self.factual = [self._raised(k, solution) for k, solution in enumerate(solutions)]
            self._known: dict[str, Levels] = {}
            # Whatever data leave, gaps that say nothing say nothing with them.
            plain = self._checked("the solution", self.levels("L2", self.factual, Orders()))
            self.data = DataLevels(self.models, self._up[:2], MESH, 1, given)
            self._orders = self.data.orders()
            if self._orders != Orders():
                slowest = min(self._orders.space, self._orders.time)
                gaps = tuple(replace(each, order=slowest) for each in plain.gaps)
                self._checked("the solution", replace(plain, gaps=gaps))
        except (NotCovered, SolveError):
            self.destroy()
            raise
        self._ready: dict[str, tuple[Change, dict[int, Deletion]]] = {}
        self.solutions = 2
        self.seconds = time.perf_counter() - start

    def _make(self) -> None:
        """The three models from coarse to fine, and the matrices into the finest."""
        if self.given == BELOW:
            self.models = [coarser_model(self.model, 4)]
            self.models += [coarser_model(self.model, 2), self.model]
            self._up = [interpolated(level, self.model) for level in self.models[:2]] + [{}]
            return
        self.models = [coarser_model(self.model, 2)]
        finer, maps = finer_model(self.model)
        self.models += [self.model, finer]
        lower = interpolated(self.models[0], self.model)
        self._up = [{u: maps[u] @ matrix for u, matrix in lower.items()}, maps, {}]

    @property
    def finest(self) -> Model:
        """The finest model."""
        return self.models[-1]

    @property
    def others(self) -> dict[int, Model]:
        """The models but the user's, by their place."""
        return {k: level for k, level in enumerate(self.models) if k != self.given}

    def _raised(self, place: int, solution: Solution | None) -> Trajectory:
        """A solution of one level as states of the finest."""
        assert solution is not None, "levels without a solution are left out before"
        if not self._up[place]:
            return list(solution.states)
        source = self.models[place].spaces
        return raised_states(solution.states, source, self.finest.spaces, self._up[place])

    # Gaps
    # ----------------------------------------------------------------------------------------------

    def levels(
        self,
        kind: str,
        field: list[Trajectory],
        orders: Orders,
        scale: float = 0.0,
        residuals: float = 0.0,
        unseen: float = 0.0,
        until: float = math.inf,
    ) -> Levels:
        """What the levels say of one field.

        Args:
            kind: the norm.
            field: its trajectories, from coarse to fine.
            orders: of convergence, as the data leave them.
            scale: the size of a field that rounding errors are relative to if it is the larger.
            residuals: about how far residuals can have moved the field.
            unseen: about how far data that no level has seen can have moved it.
            until: the level to which the window is looked at, from its beginning.
        """
        check_compared(self.model, kind)
        low, middle, high = field
        parts = [[(low, 1.0), (middle, -1.0)], [(middle, 1.0), (high, -1.0)], [(high, 1.0)]]
        gram = gram_matrix(self.finest.norm(kind), parts, grids(self.models), until)
        root = [math.sqrt(max(value, 0.0)) for value in np.diag(gram)]
        combined = root[2]
        given = combined
        if self.given == ABOUT:
            given = math.sqrt(max(gram[1, 1] + 2 * gram[1, 2] + gram[2, 2], 0.0))
        gaps = Gaps(
            self.way,
            root[0],
            root[1],
            math.sqrt(max(float(gram[:2, :2].sum()), 0.0)),
            max(ROUNDING * max(scale, combined), residuals),
            1,
            self.first_order,
            norm_shares(gram),
            min(orders.space, orders.time),
        )
        return Levels((gaps,), given, combined, residuals, unseen, self.given)

    def _checked(self, what: str, found: Levels, wide: bool = False) -> Levels:
        """The levels of a field that are fine enough to say anything.

        Args:
            what: the field, in words.
            found: its levels.
            wide: whether a first gap that is too large is added to what is left, as long as the
                second one is small beside the field, instead of being refused.
        """
        (gaps,) = found.gaps
        size = max(found.combined, found.reported)
        if not gaps.rounded and gaps.first > RESOLVED * size:
            if wide and gaps.accepted and gaps.second <= RESOLVED * size:
                return replace(found, unseen=found.unseen + gaps.first)
            raise NotSaturated(
                f"the coarsest level does not resolve {what}: it is {gaps.first:.2g} away from the "
                f"next, of {found.combined:.2g}"
            )
        if not math.isfinite(found.rest):
            raise NotSaturated(f"the gaps between levels of {what} do not shrink: σ is {gaps}")
        return found

    # Deletions
    # ----------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Change]) -> None:
        """Solve deleted problems on the other levels together; collective."""
        start = time.perf_counter()
        demand = Demand(keep=True, accuracy=ACCURACY)
        found = {
            place: run_changes(
                level, {name: change_on(change, level) for name, change in changes.items()}, demand
            )
            for place, level in self.others.items()
        }
        self._ready |= {
            name: (change, {place: sweep[name] for place, sweep in found.items()})
            for name, change in changes.items()
        }
        self.solutions += 2 * len(changes)
        self.seconds += time.perf_counter() - start

    def ready(self, name: str, change: Change | None) -> bool:
        """Whether a deletion has been solved on the other levels."""
        return self._ready.get(name, (None,))[0] == (change or delete(name))

    def deleted(self, name: str, change: Change) -> dict[int, Deletion]:
        """The deletion on the other levels."""
        if not self.ready(name, change):
            self.prepare({name: change})
        found = self._ready[name][1]
        for deletion in found.values():
            if deletion.solution is None:
                raise SolveError(deletion.reason, deletion.history, deletion.cause)
        return found

    def deletion(
        self,
        name: str,
        norm: str = "L2",
        deleted: Solution | None = None,
        change: Change | None = None,
    ) -> DeletionBound:
        """The estimated bound for the score of one deletion; collective.

        Args:
            name: the term.
            norm: the norm of the score.
            deleted: the solution of the deleted problem, where it is known already.
            change: the deletion, where it sets other coefficients as well.

        Raises:
            NotCovered: the levels say nothing about it.
            SolveError: it could not be solved on a level.
        """
        change = change or delete(name)
        return self.bounds(name, [norm], deleted, change)[norm]

    def bounds(
        self, name: str, norms: list[str], deleted: Solution | None, change: Change
    ) -> dict[str, DeletionBound]:
        """The same in several norms, see `deletion`."""
        self.deleted(name, change)
        start = time.perf_counter()
        difference, residuals = self._difference(name, deleted, change)
        result = {norm: self._bound(name, norm, difference, change, residuals) for norm in norms}
        self.seconds += time.perf_counter() - start
        return result

    def _difference(
        self, name: str, deleted: Solution | None, change: Change
    ) -> tuple[list[Trajectory], float]:
        """u − u_j on all levels, and how far residuals can have moved it."""
        found = self.deleted(name, change)
        given = deleted or self.model.solve(change_on(change, self.model))
        solutions = {place: deletion.solution for place, deletion in found.items()}
        solutions[self.given] = given
        difference = []
        for place in range(3):
            raised = self._raised(place, solutions[place])
            difference.append([a - b for a, b in zip(self.factual[place], raised, strict=True)])
        return difference, sum(deletion.error for deletion in found.values())

    def last_levels(self, name: str, change: Change) -> tuple[Trajectory, Trajectory]:
        """u − u_j on the middle and on the finest level, in the space of the finest; collective.

        Raises:
            SolveError: it could not be solved on a level.
        """
        (_, low, high), _ = self._difference(name, None, change)
        return low, high

    def on_part(
        self,
        name: str,
        norm: str,
        deleted: Solution | None,
        change: Change,
        exceeds: Callable[[float, float], bool],
    ) -> DeletionBound | None:
        """A lower bound of a score that is above ε already on the first part of the window, where
        the levels resolve it: norms over a window never decrease with its length.

        Args:
            name, norm, deleted, change: as of `deletion`.
            exceeds: whether a value is above ε, given the error of the factual solution.

        Returns:
            A bound whose score less its margin is the lower bound; None where no part tells.
        """
        times = self.models[0].times
        steps = len(times) - 1
        known = self._known.get(norm)
        if known is None or not math.isfinite(known.error):
            return None
        difference, residuals = self._difference(name, deleted, change)
        plain = change if isinstance(change, Intervention) else None
        missing = self.data.seen(norm), self.data.seen(norm, plain)
        apart = self.data.walls(change, norm)
        both = missing[0].total + missing[1].total + apart
        orders = self._orders.joined(self.data.orders(plain))
        whole = self.levels(norm, difference, orders).reported
        count = steps // 2
        while count >= FEWEST_LEVELS:
            until = float(times[count])
            share = (until - float(times[0])) / float(times[-1] - times[0])
            found = self.levels(norm, difference, orders, known.combined, residuals, both, until)
            count //= 2
            try:
                found = self._checked("the difference", found, wide=True)
            except NotSaturated:
                continue
            least = found.reported - found.shift
            if exceeds(least, known.error):
                margin = whole - least
                certificate = self._certificate(margin, norm, known, found, missing)
                certificate = replace(
                    certificate,
                    inequality=f"‖u − u_j‖ ≥ ‖u − u_j‖ on {share:.3g} of the window "
                    f"≳ {found.reported:.4g} − {found.shift:.4g} = {least:.4g}",
                    formula=rf"\|u-u_j\| \gtrsim {least:.4g}",
                    method=f"{certificate.method}; on the first {share:.0%} of the window",
                )
                eta = known.error
                return DeletionBound(name, whole, eta, eta + margin, margin, margin, certificate)
        return None

    def _bound(
        self, name: str, norm: str, difference: list[Trajectory], change: Change, residuals: float
    ) -> DeletionBound:
        plain = change if isinstance(change, Intervention) else None
        missing = self.data.seen(norm), self.data.seen(norm, plain)
        orders = self._orders.joined(self.data.orders(plain))
        if norm not in self._known:
            self._known[norm] = self.levels(
                norm,
                self.factual,
                self._orders,
                unseen=missing[0].total + self.data.walls(norm=norm),
            )
        factual = self._checked("the solution", self._known[norm])
        apart = self.data.walls(change, norm)
        both = missing[0].total + missing[1].total + apart
        found = self.levels(norm, difference, orders, factual.combined, residuals, both)
        found = self._checked("the difference", found, wide=True)
        eta, margin = factual.error, found.shift
        best = (found.combined, found.norm_rest) if self.given == ABOUT else None
        if best is not None and best[1] >= margin:
            best = None
        certificate = self._certificate(margin, norm, factual, found, missing)
        # ‖u_j − u_jh‖ is no larger than the errors of u and of the difference together.
        return DeletionBound(
            name, found.reported, eta, eta + found.error, found.error, margin, certificate, best
        )

    def _certificate(
        self,
        margin: float,
        norm: str,
        factual: Levels,
        found: Levels,
        missing: tuple[Unseen, Unseen],
    ) -> Certificate:
        (gaps,), finest = found.gaps, self.finest
        words = (
            "the given mesh and time step are the finest, those of the others two and four times "
            "as large"
            if self.given == BELOW
            else "the given mesh and time step are the middle ones of three, each twice as large "
            "as the next"
        )
        return Certificate(
            value=margin,
            kind=ESTIMATED,
            norm=norm,
            inequality=(
                f"|‖u − u_j‖ − {found.reported:.4g}| ≲ |δ* − δ_h| + ρ_δ(u − u_j) = {margin:.4g}"
            ),
            formula=(
                r"\bigl|\,\|u-u_j\| - \|u_h-u_{jh}\|\,\bigr| \lesssim "
                rf"|\delta^*-\delta_h| + \rho_\delta(u-u_j) = {margin:.4g}"
            ),
            hypotheses=(
                (
                    "the gaps between further levels shrink at least as fast as those measured",
                    "three levels: evidence, no proof",
                ),
                (
                    f"saturation σ < {gaps.limit:g}",
                    f"measured, u: {factual.gaps[0]}; u − u_j: {gaps}",
                ),
                (
                    f"the coarsest level resolves both, first gaps below {RESOLVED:.0%}; else that "
                    "of u − u_j is added to the margin",
                    f"measured, u: {_share(factual)}; u − u_j: {_share(found)}",
                ),
                (
                    "of further gaps the score shows no larger share than twice that of those "
                    "measured",
                    f"counted: {gaps.share:.2g}",
                ),
                *dict.fromkeys(part.statement() for part in missing),
                ("Ω is the meshed domain", words),
                (
                    "the assembled forms are those of the equation",
                    "not examined by this certificate",
                ),
            ),
            constants={
                f"κ ({gaps.way})": gaps.safety,
                "ρ of u": factual.rest,
                "ρ of u − u_j": found.rest,
                COMBINED_REST: found.norm_rest,
                COMBINED: found.combined,
                SIZE_ERROR: factual.shift,
            },
            cost={
                "unknowns of the finest space": float(finest.spaces.size),
                "finest number of time steps": float(len(finest.times) - 1),
                "solutions": float(self.solutions),
                "seconds": self.seconds,
            },
            method=(
                "three levels, the given one the "
                f"{'finest' if self.given == BELOW else 'middle'}, saturation seen"
            ),
        )

    def destroy(self) -> None:
        """Free the other models; collective."""
        for place, level in enumerate(self.models):
            if place != self.given:
                level.destroy()


def _share(found: Levels) -> str:
    size = max(found.combined, found.reported)
    return f"{found.gaps[0].first / size:.1%}" if size > 0 else "zero"


def _first_order_in_time(model: Model) -> bool:
    window = model.experiment.time
    return window is not None and window.scheme == "backward-euler"
