# SPDX-License-Identifier: MIT
"""Which levels estimate the error of a score: the cheapest that decide, within what may be spent.

First come the levels below the user's, then elements of the next degree on larger cells and on the
same, then one level above, then two levels above by the mesh or the degree. What a way costs is
counted in units of the study, one unit being the factual solve with all of its deletions on the
user's level: unknowns times time steps of the other levels, relative to those of the user's, times
the share of problems that are solved there.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cffem.bounds.certificate import DeletionBound, NoCertificate, NotCovered, OverBudget
from cffem.bounds.levels.around import ABOUT, BELOW, LevelsAround, relative_size
from cffem.bounds.levels.beside import LARGER, SAME, LevelsBeside, beside_size
from cffem.bounds.levels.coarser import check_coarser
from cffem.bounds.levels.ladders import DEGREE, MESH, Ladder, first_order
from cffem.bounds.levels.three_levels import LevelCertifier
from cffem.bounds.refits import Change
from cffem.engine.solve.linear import SolveError
from cffem.symbols.problem.interventions import delete
from cffem.symbols.reasons import NEXT_LEVEL

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.engine.solution import Solution


# Unknowns times time steps of one solution that cost next to nothing, whatever they are beside.
SMALL = 5e4
# The same where there are no levels below the user's, so that nothing is cheaper.
FALLBACK = 5e5
# What a certification allows by default.
EFFORT = 4.0
# One finer level makes margins smaller by factors of up to about ten, and by more where rounding
# errors spoil them, as of fields beside much larger ones.
WORTH = 100.0
# Prices that add up to what is left fit into it, up to rounding errors.
ROUNDING = 1e-9
Found = DeletionBound | NoCertificate
# The ways in the order in which they are tried: levels about the user's, elements of the next
# degree on larger cells and on the same, and levels above by their numbers.
GIVEN, FACTORS, WAYS = {0: BELOW, 3: ABOUT}, {1: LARGER, 2: SAME}, 5


@dataclass
class Tried:
    """One deletion whose bound is looked for, see `Estimates.deletion`, with what was found.

    Attributes:
        lacks: by what factor the margin of a bound is too large for a verdict.
    """

    name: str
    norm: str
    change: Change | None
    firm: bool = True
    decides: Callable[[Found], bool] = bool
    exceeds: Callable[[float, float], bool] | None = None
    lacks: Callable[[DeletionBound], float] = lambda bound: 1.0
    bounds: list[DeletionBound] = field(default_factory=list)
    reasons: list[NoCertificate] = field(default_factory=list)

    @property
    def lacking(self) -> float:
        """By what factor the sharpest margin so far is too large; infinite where there is none."""
        return min(map(self.lacks, self.bounds), default=math.inf)

    def left_out(self, way: int) -> bool:
        """Whether a finer level is not expected to decide: the margin is far too large, or the
        score itself is off by more than its distance to ε.
        """
        finer = way > max(FACTORS)
        return finer and bool(self.bounds) and self.firm and self.lacking > WORTH


class Estimates:
    """Three-level estimates of a model by the first levels that exist, fit the budget, show
    saturation and decide.

    Args:
        model: the model.
        budget: the largest allowed number of unknowns times time steps of one solution; None: what
            `effort` allows.
        effort: what all estimates together may cost, in units of the study.
        small: unknowns times time steps of one solution that cost next to nothing.

    Example:
        >>> import cffem as cf
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(terms={"lap": cf.lap(u), "cube": -u**3}, unknown=u)
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.square(MPI.COMM_SELF, 0.1),
        ...     elements={u: ("Lagrange", 1)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     forcing={u: 10},
        ... )
        >>> model = cf.Model(library, {"lap": 1.0, "cube": 1.0}, experiment)
        >>> bound = Estimates(model).deletion("cube")
        >>> bound.certificate.method, 0 < bound.margin < bound.score
        ('three levels, the given one the finest, saturation seen', True)
    """

    def __init__(
        self,
        model: Model,
        budget: float | None = None,
        effort: float = EFFORT,
        small: float = SMALL,
    ):
        self.model, self.budget, self.effort, self.small = model, budget, effort, small
        self.spent = 0.0
        self._certifiers: dict[str, LevelCertifier | NoCertificate] = {}
        self._around: dict[int, LevelsAround | NoCertificate] = {}
        self._beside: dict[float, LevelsBeside | NoCertificate] = {}
        self._ratios: dict[int, float] = {}

    # What may be spent
    # ----------------------------------------------------------------------------------------------

    @property
    def size(self) -> float:
        """Unknowns times time steps of the user's level."""
        window = self.model.experiment.time
        return float(self.model.spaces.size * (1 if window is None else window.steps))

    def _price(self, ratio: float, problems: int) -> float:
        """What some problems cost on levels of this relative size, in units of the study."""
        return ratio * problems / (1 + len(self.model.active))

    def _check(self, what: str, largest: float, ratio: float) -> None:
        """Raise `OverBudget` where a way costs too much.

        Args:
            what: the levels, in words.
            largest: unknowns times time steps of one solution on the finest of them.
            ratio: those of all other levels together, relative to the user's.
        """
        if self.budget is not None:
            if largest > self.budget:
                raise OverBudget(
                    f"{what} have {largest:.3g} unknowns times steps, more than the budget of "
                    f"{self.budget:.3g}"
                )
            return
        price = self._price(ratio, 2)
        if largest > self.small and self.spent + price > self.effort:
            raise OverBudget(
                f"{what} cost {price:.2g} times the factual solve with its deletions for one term, "
                f"and {max(self.effort - self.spent, 0.0):.2g} are left of the effort of "
                f"{self.effort:.2g}"
            )

    def _ratio(self, way: int) -> float:
        """Unknowns times time steps of the levels of a way together, relative to the user's."""
        if way not in self._ratios:
            self._ratios[way] = (
                relative_size(self.model, GIVEN[way])
                if way in GIVEN
                else beside_size(self.model, FACTORS[way])
            )
        return self._ratios[way]

    def _affordable(self, way: int) -> float:
        """How many more problems may be solved on the levels of a way."""
        ratio = self._ratio(way)
        small = self.size * max(ratio, 1.0) <= SMALL
        if self.budget is not None or small:
            return math.inf
        return math.floor((self.effort - self.spent) / self._price(ratio, 1) + ROUNDING)

    # Levels about the user's
    # ----------------------------------------------------------------------------------------------

    def around(self, given: int) -> LevelsAround | NoCertificate:
        """The estimates by levels about the user's, or why there are none; collective."""
        if given not in self._around:
            try:
                ratio = relative_size(self.model, given)
                largest = self.size * (ratio if given == ABOUT else 1.0)
                what = (
                    "levels below the given one"
                    if given == BELOW
                    else "a coarser and a finer level"
                )
                check_coarser(self.model)
                self._check(what, largest, ratio)
                self._around[given] = LevelsAround(self.model, given)
                self.spent += self._price(ratio, 1)
            except (NotCovered, SolveError) as reason:
                found = NoCertificate.because(reason)
                if isinstance(reason, OverBudget) and self.budget is None:
                    return found  # there may be less to do another time
                self._around[given] = found
        return self._around[given]

    def beside(self, factor: float) -> LevelsBeside | NoCertificate:
        """The estimates by elements of the next degree on cells larger by a factor, or why there
        are none; collective.
        """
        if factor not in self._beside:
            try:
                check_coarser(self.model)
                ratio = self._ratio(next(way for way, each in FACTORS.items() if each == factor))
                self._check("elements of the next degree", self.size * ratio, ratio)
                self._beside[factor] = LevelsBeside(self.model, factor)
                self.spent += self._price(ratio, 1)
            except (NotCovered, SolveError) as reason:
                found = NoCertificate.because(reason)
                if isinstance(reason, OverBudget) and self.budget is None:
                    return found
                self._beside[factor] = found
        return self._beside[factor]

    @property
    def _remade(self) -> bool:
        """Whether there are levels below the user's at all."""
        try:
            check_coarser(self.model)
        except NotCovered:
            return False
        return True

    # Levels above the user's
    # ----------------------------------------------------------------------------------------------

    def _certifier(self, way: str) -> LevelCertifier | NoCertificate:
        if way not in self._certifiers:
            try:
                self._check_ladder(way)
                self._certifiers[way] = LevelCertifier(self.model, way)
            except (NotCovered, SolveError) as reason:
                self._certifiers[way] = NoCertificate.because(reason)
        return self._certifiers[way]

    def _check_ladder(self, way: str) -> None:
        ladder, what = Ladder(self.model, way), f"three levels by the {way}"
        largest = ladder.size(2)
        if self.budget is None and not self._remade:
            # There is no cheaper way.
            if largest > max(FALLBACK, self.effort * self.size):
                raise OverBudget(
                    f"{what} have {largest:.3g} unknowns times steps, more than the budget of "
                    f"{FALLBACK:.3g}"
                )
            return
        levels = [ladder.size(1), largest]
        if self.model.experiment.time is not None:
            levels += [2 * self.size, 4 * self.size]
        self._check(what, largest, sum(levels) / self.size)

    def certifiers(self, firm: bool = True) -> Iterator[tuple[str, LevelCertifier | NoCertificate]]:
        """The ways up, each with its certifier or the reason why there is none, made when asked
        for; collective.

        Args:
            firm: whether sharp bounds are wanted first, else cheap ones.
        """
        # A tetrahedron becomes 64, in a way that depends on how cells are numbered; and elements of
        # first order halve the gaps at best where cells are divided, which is cheap, though.
        rough, solid = first_order(self.model), self.model.discretisation.mesh.topology.dim == 3
        for way in (DEGREE, MESH) if (rough and firm) or (solid and not rough) else (MESH, DEGREE):
            yield way, self._certifier(way)

    # Deletions
    # ----------------------------------------------------------------------------------------------

    def prepare(self, changes: Mapping[str, Change], firm: bool = True, way: int = 0) -> None:
        """Solve deleted problems of which a way will be asked, together on its levels; collective.

        Args:
            changes: the deletions, by term.
            firm: as `deletion` will be asked.
            way: the number of the way.
        """
        with contextlib.suppress(NotCovered, SolveError):  # each is told why when it is asked for
            self._prepared(changes, firm, way)

    def _prepared(self, changes: Mapping[str, Change], firm: bool, way: int) -> None:
        if way in GIVEN or way in FACTORS:
            levels = self._levels(way)
            many = min(self._affordable(way), len(changes))
            if not isinstance(levels, NoCertificate) and many > 0:
                self.spent += self._price(self._ratio(way), int(many))
                levels.prepare(dict(list(changes.items())[: int(many)]))
            return
        for _, certifier in self.certifiers(firm):
            if isinstance(certifier, LevelCertifier) and (certifier.firm or not firm):
                return certifier.prepare(changes)

    def deletion(
        self,
        name: str,
        norm: str = "L2",
        deleted: Solution | None = None,
        change: Change | None = None,
        firm: bool = True,
        decides: Callable[[Found], bool] = bool,
        exceeds: Callable[[float, float], bool] | None = None,
    ) -> Found:
        """The estimated bound of one deletion, or the reasons why there is none; collective.

        Args:
            name, norm, deleted, change: see `LevelCertifier.deletion`.
            firm: whether the other way up is tried before degrees that leave doubt are taken for
                what they are.
            decides: whether a bound is sharp enough.
            exceeds: whether a lower bound of the score is above ε, given the error of the factual
                solution; a part of the window may tell that before finer levels are tried.

        Returns:
            The first bound that decides, else the sharpest.
        """
        tried = Tried(name, norm, change, firm, decides, exceeds)
        for way in range(WAYS):
            found = self.attempt(way, tried, deleted)
            if found is not None:
                return found
        return self.sharpest(tried)

    def attempt(self, way: int, tried: Tried, deleted: Solution | None) -> DeletionBound | None:
        """The bound of a deletion by one way, if it decides; else what was found is remembered;
        collective.

        Args:
            way: the number of the way, from cheap to dear.
            tried: the deletion, and what other ways have found.
            deleted: its solution, where it is known already.
        """
        asked = tried.name, tried.norm, deleted, tried.change
        if tried.left_out(way):
            return None
        if way in GIVEN or way in FACTORS:
            found = self._by_levels(way, *asked)
        else:
            found = self._by_levels_above(*asked, tried.firm)
        if not isinstance(found, NoCertificate) and tried.decides(found):
            return found
        part = self._by_parts(*asked, tried.exceeds)
        if part is not None:
            return part
        if isinstance(found, NoCertificate):
            tried.reasons.append(found)
        else:
            tried.bounds.append(found)
        return None

    def sharpest(self, tried: Tried) -> Found:
        """The sharpest bound that was found where none decides, or why there is none."""
        if tried.bounds:
            return self._with_price(min(tried.bounds, key=lambda bound: bound.margin))
        return NoCertificate.joined(tried.reasons)

    def _with_price(self, bound: DeletionBound) -> DeletionBound:
        """A bound that does not decide, with what the next finer level would cost for it."""
        price = self._price(relative_size(self.model, ABOUT), 2)
        cost = {**bound.certificate.cost, NEXT_LEVEL: price}
        return replace(bound, certificate=replace(bound.certificate, cost=cost))

    def _levels(self, way: int) -> LevelsAround | LevelsBeside | NoCertificate:
        return self.around(GIVEN[way]) if way in GIVEN else self.beside(FACTORS[way])

    def _by_levels(
        self, way: int, name: str, norm: str, deleted: Solution | None, change: Change | None
    ) -> Found:
        """The bound by levels about the user's or beside them."""
        levels = self._levels(way)
        if isinstance(levels, NoCertificate):
            return levels
        try:
            if not levels.ready(name, change):
                if self._affordable(way) < 1:
                    price, left = self._price(self._ratio(way), 1), self.effort - self.spent
                    raise OverBudget(
                        f"one more solution on finer levels costs {price:.2g} times the factual "
                        f"solve with its deletions, and {max(left, 0.0):.2g} are left of the "
                        f"effort of {self.effort:.2g}"
                    )
                self.spent += self._price(self._ratio(way), 1)
            return levels.deletion(name, norm, deleted, change)
        except (NotCovered, SolveError) as reason:
            return NoCertificate.because(reason)

    def _by_parts(
        self,
        name: str,
        norm: str,
        deleted: Solution | None,
        change: Change | None,
        exceeds: Callable[[float, float], bool] | None,
    ) -> DeletionBound | None:
        """What a part of the window tells on levels that are solved already."""
        if exceeds is None or self.model.experiment.time is None:
            return None
        change = change or delete(name)
        for levels in self._around.values():
            if isinstance(levels, LevelsAround) and levels.ready(name, change):
                try:
                    found = levels.on_part(name, norm, deleted, change, exceeds)
                except (NotCovered, SolveError):
                    continue
                if found is not None:
                    return found
        return None

    def _by_levels_above(
        self, name: str, norm: str, deleted: Solution | None, change: Change | None, firm: bool
    ) -> Found:
        reasons: dict[str, NoCertificate] = {}
        for sure in (True, False) if firm else (False,):
            for way, certifier in self.certifiers(firm):
                if isinstance(certifier, NoCertificate):
                    reasons[way] = certifier
                    continue
                # Only degrees say more where less is asked of them.
                if (sure and not certifier.firm) or (way in reasons and way != DEGREE):
                    continue
                try:
                    return certifier.deletion(name, norm, deleted, change, sure)
                except (NotCovered, SolveError) as reason:
                    reasons[way] = NoCertificate.because(reason)
        return NoCertificate.joined(reasons.values())

    def destroy(self) -> None:
        """Free the models of all other levels; collective."""
        kept = (*self._certifiers.values(), *self._around.values(), *self._beside.values())
        for certifier in kept:
            if not isinstance(certifier, NoCertificate):
                certifier.destroy()
