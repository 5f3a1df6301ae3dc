# SPDX-License-Identifier: MIT
"""The profile of a term: ρ ↦ δ(ρ) = ‖u − u_j(ρ)‖ while its coefficient goes from α_j to (1 − ρ)
α_j, as far as there are solutions.

A steady profile is sampled along the branch that begins at the factual solution
(`cffem.engine.steady.continuation`), a transient one by marches with the reduced coefficient. Where
solutions end, the last ρ that has one is found by ever shorter steps, to a stated resolution.
Beside the scores stand what theory says of them: the slope ‖L_u⁻¹ α_j T_j[u]‖ at ρ = 0 and, by the
gap theorem,

    |δ(ρ) − ρ ‖L_u⁻¹ α_j T_j[u]‖| ≤ ρ² M_j(ρ)/2,      M_j(ρ) = sup over [0, ρ] of ‖u_j''‖,

with M_j estimated by second differences of the sampled solutions. The last point, ρ = 1, is the
deletion itself with the essential conditions that it carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from cffem.engine.deletion.outcomes import Deletion, Demand
from cffem.engine.deletion.sweep import run_changes
from cffem.engine.response.deletion_branch import combination
from cffem.engine.solution import Solution
from cffem.engine.solve.solve_record import SolveRecord
from cffem.engine.solve_errors import SolveError
from cffem.engine.steady.continuation import SETTINGS, SolutionBranch
from cffem.symbols.errors import InputError
from cffem.symbols.problem.interventions import Intervention, delete, scale

if TYPE_CHECKING:
    from cffem.engine.model import Model
    from cffem.symbols.problem.observables import Observable


# Steps towards a pole of ρ ↦ u(ρ) are a third of the way to it at most, and a step is given up at
# twice the shortest: this share of the resolution as the shortest step therefore finds the end of a
# branch to the resolution.
SHORTEST = 1 / 6


@dataclass(frozen=True)
class ProfileSettings:
    """How a profile is sampled.

    Attributes:
        points: the number of equal parts of [0, 1] at whose ends it is sampled at least.
        resolution: how closely in ρ the end of the solutions, and the place where δ exceeds ε, are
            found.
        smallest: the smallest ρ that is tried before solutions are said to end at ρ = 0.
        accuracy: the relative accuracy of transient scores; zero for working precision.
    """

    points: int = 8
    resolution: float = 1e-2
    smallest: float = SETTINGS.first
    accuracy: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 1:
            raise InputError(f"a profile has a positive number of points, not {self.points!r}")
        if not 1e-6 <= self.resolution <= 0.5:
            raise InputError(
                f"the resolution of a profile is a ρ from 1e-6 to 0.5, not {self.resolution!r}"
            )


@dataclass(frozen=True)
class Profile:
    """ρ ↦ δ(ρ) of one term; made by `Model.profile`.

    Attributes:
        term, norm: the term and the norm of its scores, or the observable.
        rho: the sampled ρ in (0, 1], increasing.
        scores: δ(ρ) at these.
        slope: dδ/dρ at ρ = 0 from the linearised problem; nan where that cannot be solved.
        bounds: by the gap theorem, how far δ(ρ) is from ρ·slope at most, with M_j estimated; for
            the first samples, as far as conditions and a linearised problem let it exist.
        reach: the largest ρ up to which there are solutions all the way from ρ = 0; 1 where the
            deletion itself is the last one.
        beyond: a ρ before which solutions end, nearer to `reach` than the resolution; None where
            they do not end.
        resolution: how closely `reach` was looked for.
        reason, cause: why solutions end there, in words and as one of
            `cffem.engine.solve_errors.CAUSES`; empty where they do not.

    Example:
        >>> profile = Profile(
        ...     "lap", "L2", (0.25, 0.5), (0.1, 0.3), 0.3, (), 0.5, 0.51, 0.01, "a fold", "fold"
        ... )
        >>> profile
        Profile('lap': δ = 0.3 at ρ = 0.5, solutions end before ρ = 0.51, fold; 2 samples)
        >>> (
        ...     profile.relevant_from(0.05),
        ...     profile.relevant_from(0.05, margins=0.06),
        ...     profile.relevant_from(1.0),
        ... )
        (0.25, 0.5, None)
    """

    term: str
    norm: str
    rho: tuple[float, ...]
    scores: tuple[float, ...]
    slope: float
    bounds: tuple[float, ...]
    reach: float
    beyond: float | None
    resolution: float
    reason: str = ""
    cause: str = ""

    @property
    def complete(self) -> bool:
        """Whether there are solutions all the way to the deletion."""
        return self.reach == 1.0

    def relevant_from(self, epsilon: float, margins: float | Sequence[float] = 0.0) -> float | None:
        """The smallest sampled ρ whose score is above ε by more than its margin; None where none
        is.

        Args:
            epsilon: the tolerance; `Model.profile(epsilon=…)` takes samples where δ exceeds it.
            margins: the error bar of all scores, or of each.
        """
        each = [float(margins)] * len(self.rho) if isinstance(margins, int | float) else [*margins]
        if len(each) != len(self.rho):
            raise InputError(
                f"there are {len(each)} margins for {len(self.rho)} samples of the profile"
            )
        found = zip(self.rho, self.scores, each, strict=True)
        return next((rho for rho, score, margin in found if score - margin > epsilon), None)

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        plain = {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in asdict(self).items()
        }
        return {**plain, "slope": self.slope if math.isfinite(self.slope) else None}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Profile:
        """The profile that `to_plain` wrote."""
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in plain.items()
        }
        values["slope"] = math.nan if plain["slope"] is None else plain["slope"]
        return cls(**values)

    def __repr__(self) -> str:
        where = (
            f"δ = {self.scores[-1]:.3g} at ρ = {self.rho[-1]:.3g}" if self.rho else "nothing solved"
        )
        ends = "" if self.beyond is None else f", solutions end before ρ = {self.beyond:.3g}"
        return (
            f"Profile({self.term!r}: {where}{ends}{', ' + self.cause if self.cause else ''}; "
            f"{len(self.rho)} samples)"
        )


class Samples:
    """Scores, and the second differences of solutions that bound them, in the order of ρ.

    Args:
        model: the model.
        name: the term.
        norm: the norm.
        measure: the observable's value of a solution; None for scores in the norm.
    """

    def __init__(
        self, model: Model, name: str, norm: str, measure: Callable[[Solution], float] | None
    ):
        self.model, self.norm, self.measure = model, norm, measure
        self.scores: dict[float, float] = {}
        self.curvatures: list[tuple[float, float]] = []  # ρ, and M_j up to there
        self._window: list[tuple[float, Solution]] = [(0.0, model.factual)]
        self._reference = 0.0 if measure is None else measure(model.factual)
        self._response: Solution | None = None
        if measure is None:
            with suppress(SolveError):
                self._response = model.linearised(name, norm).trajectory

    @property
    def slope(self) -> float:
        """The norm of the linearised response."""
        return math.nan if self._response is None else self._response.norm(self.norm)

    def score(self, solution: Solution) -> float:
        """δ of a solution, or the change of the observable."""
        if self.measure is not None:
            return abs(self.measure(solution) - self._reference)
        return solution.distance(self.model.factual, self.norm)

    def add(self, rho: float, solution: Solution) -> None:
        """Take the next solution of the branch."""
        self.scores[rho] = self.score(solution)
        if self._response is None:
            return
        self._window.append((rho, solution))
        if len(self._window) == 2:
            second = combination(
                (2.0, solution), (-2.0, self.model.factual), (-2.0 * rho, self._response)
            )
            self.curvatures.append((rho, second.norm(self.norm) / rho**2))
            return
        (a, first), (b, middle), (c, last) = self._window
        parts = (
            (2.0 / ((a - b) * (a - c)), first),
            (2.0 / ((b - a) * (b - c)), middle),
            (2.0 / ((c - a) * (c - b)), last),
        )
        self.curvatures.append(
            (rho, max(combination(*parts).norm(self.norm), self.curvatures[-1][1]))
        )
        self._window = self._window[-2:]

    def bounds(self, rho: Sequence[float]) -> tuple[float, ...]:
        """ρ² M_j(ρ)/2 at the first of these ρ, as far as it is known."""
        last = self.curvatures[-1][0] if self.curvatures else 0.0
        return tuple(
            r**2 / 2 * next(value for at, value in self.curvatures if at >= r)
            for r in rho
            if r <= last
        )


@dataclass
class End:
    """Where solutions end."""

    reach: float = 0.0
    beyond: float | None = None
    reason: str = ""
    cause: str = ""


def profile(
    model: Model,
    name: str,
    norm: str = "L2",
    epsilon: float | None = None,
    observable: Observable | None = None,
    settings: ProfileSettings = ProfileSettings(),
    conditions: str = "carried",
    deletion: Deletion | None = None,
) -> Profile:
    """The profile of one term; collective. See `Model.profile`.

    Args:
        model, name, norm, epsilon, observable, conditions: as there.
        settings: how it is sampled.
        deletion: the outcome of the deletion itself, where it is known.
    """
    check(model, name, epsilon)
    measure = None if observable is None else model.measurement(observable).value
    samples = Samples(model, name, norm, measure)
    steady = model.experiment.time is None
    end = (
        along_branch(model, name, samples, settings)
        if steady
        else by_marches(model, name, samples, settings)
    )
    if end.beyond is None:
        end = with_deletion(model, name, norm, samples, end, conditions, deletion)
    if epsilon is not None:
        locate(model, name, samples, epsilon, settings.resolution)
    rho = tuple(sorted(samples.scores))
    slope, what = samples.slope, norm
    if observable is not None:
        slope, what = abs(model.observable_scores(observable, [name]).signed[name]), str(observable)
    return Profile(
        name,
        what,
        rho,
        tuple(samples.scores[r] for r in rho),
        slope,
        samples.bounds(rho),
        end.reach,
        end.beyond,
        settings.resolution,
        end.reason,
        end.cause,
    )


def check(model: Model, name: str, epsilon: float | None) -> None:
    """Refuse what has no profile, before anything is solved."""
    delete(name).apply(model.coefficients)
    if not model.coefficients[name]:
        raise InputError(f"the coefficient of {name!r} is zero, so there is nothing to take away")
    if epsilon is not None and not (math.isfinite(epsilon) and epsilon > 0):
        raise InputError(
            f"the tolerance epsilon of a profile is a positive number, not {epsilon!r}"
        )


def along_branch(model: Model, name: str, samples: Samples, settings: ProfileSettings) -> End:
    """Sample a steady branch up to the last ρ before the deletion."""
    end, record = End(), SolveRecord()
    stage = model.prepared(Intervention(), record)

    def visit(rho: float, values: np.ndarray) -> None:
        solution = Solution(model, scale(name, 1.0 - rho), model.times, record)
        state = values.copy()
        stage.essential.centre(state)
        solution.keep(0, state, None)
        samples.add(rho, solution)
        end.reach = rho
        branch.at(rho)

    after = delete(name).apply(model.coefficients)
    steps = replace(
        SETTINGS,
        grid=1.0 / settings.points,
        end=1.0 - settings.resolution,
        shortest=SHORTEST * settings.resolution,
        first=settings.smallest,
    )
    branch = SolutionBranch(
        stage,
        model.coefficients,
        after,
        lambda c: stage.equation.use(c, model.experiment.forcing),
        steps,
        visit,
    )
    try:
        branch.follow(model.factual.states[0])
    except SolveError as error:
        return End(end.reach, min(end.reach + settings.resolution, 1.0), str(error), error.cause)
    return end


def by_marches(model: Model, name: str, samples: Samples, settings: ProfileSettings) -> End:
    """Sample a transient profile, and halve the step where a march fails."""
    end = End()
    goals = [k / settings.points for k in range(1, settings.points)]
    for rho in [
        *(goal for goal in goals if goal < 1.0 - settings.resolution),
        1.0 - settings.resolution,
    ]:
        failed = march_to(model, name, rho, samples, settings.accuracy)
        if failed is None:
            end.reach = rho
            continue
        return last_march(
            model, name, samples, settings, End(end.reach, rho, failed.reason, failed.cause)
        )
    return end


def last_march(
    model: Model, name: str, samples: Samples, settings: ProfileSettings, end: End
) -> End:
    """The last ρ that has a solution, by halving the interval behind it."""
    low, high = end.reach, end.beyond or 1.0
    while high - low > (settings.resolution if low else settings.smallest):
        middle = 0.5 * (low + high)
        failed = march_to(model, name, middle, samples, settings.accuracy)
        if failed is None:
            low = middle
        else:
            high, end = middle, End(low, middle, failed.reason, failed.cause)
    return replace(end, reach=low, beyond=high)


def march_to(
    model: Model, name: str, rho: float, samples: Samples, accuracy: float = 0.0
) -> Deletion | None:
    """Solve at one ρ and sample it; what was found where there is no solution."""
    demand = Demand(samples.norm, keep=True, accuracy=accuracy)
    found = run_changes(model, {name: scale(name, 1.0 - rho)}, demand)[name]
    if found.solution is None:
        return found
    samples.add(rho, found.solution)
    return None


def with_deletion(
    model: Model,
    name: str,
    norm: str,
    samples: Samples,
    end: End,
    conditions: str,
    deletion: Deletion | None,
) -> End:
    """The profile with its last point, the deletion itself; or with why there is none."""
    known = deletion is not None and (deletion.status != "solved" or deletion.solution is not None)
    if not known:
        deletion = model.deletions([name], norm, keep=True, groups=1, conditions=conditions)[name]
    assert deletion is not None
    if deletion.solution is None:
        return End(end.reach, 1.0, deletion.reason, deletion.cause)
    if model.release(deletion.intervention) is None:
        samples.add(1.0, deletion.solution)
    else:
        samples.scores[1.0] = samples.score(deletion.solution)
    return End(1.0)


def locate(model: Model, name: str, samples: Samples, epsilon: float, resolution: float) -> None:
    """Sample δ where it first exceeds ε, by halving the interval between the samples on both
    sides.
    """
    known = [(0.0, 0.0), *sorted(samples.scores.items())]
    found = next(((a, b) for (a, _), (b, score) in pairwise(known) if score > epsilon), None)
    if found is None:
        return
    low, high = found
    while high - low > resolution:
        middle = 0.5 * (low + high)
        try:
            score = samples.score(model.solve(scale(name, 1.0 - middle)))
        except SolveError:
            return  # the branch has a sample on both sides; one between them is of no use then
        samples.scores[middle] = score
        low, high = (low, middle) if score > epsilon else (middle, high)
