# SPDX-License-Identifier: MIT
"""Station: the fitted model, and every deleted one, against the data.

The factual field of a study with data is the solution of the fitted model from the data's initial
and boundary values. Its misfit is compared with the noise, the intervals of the coefficients and
the discretisation error; what none of them explains says that terms are missing. Skill compares it
with two predictions that need no model: the mean of the data, and their first reading.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cffem.bounds.certificate import NotCovered
from cffem.bounds.levels.ladders import RAISED, Ladder
from cffem.data.dataset import Dataset
from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.study.run.facts import WHOLE, TermDeletion
from cffem.study.run.identified_facts import (
    DesignFacts,
    MisfitFact,
    MisfitFacts,
    ScreeningFacts,
)
from cffem.study.run.measured_fields import measures, parts
from cffem.study.run.running import Run
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    import sympy as sp

    from cffem.engine.solution import Solution
    from cffem.symbols.fields import Field


@dataclass(frozen=True)
class MisfitSettings:
    """What a misfit is judged by.

    Attributes:
        points, times: how many of the data are looked at, at most.
        allowance: share of the signal that interpolation of the data may get wrong.
        largest_spread: intervals that leave more than this share of the solution open explain no
            misfit: any model would fit.
        safety: by how much an error exceeds the difference to one finer solution, at most.
        round_off: share of the window by which a reading may lie outside it.
    """

    points: int = 2000
    times: int = 20
    allowance: float = 0.02
    largest_spread: float = 0.1
    safety: float = 2.0
    round_off: float = 1e-9


SETTINGS = MisfitSettings()
# The kind of a screen's doubt.
MISFIT = "misfit"


def misfits(
    run: Run,
    design: DesignFacts,
    relative_spread: Mapping[str, float],
    errors: Mapping[str, float | None],
) -> MisfitFacts:
    """How far the solution of the fitted model is from the data of each experiment.

    Args:
        run: the run.
        design: facts of the design, whose sources know the noise.
        relative_spread: for each experiment the share of the solution that the intervals of the
            coefficients leave open.
        errors: for each experiment the relative discretisation error of its factual solution; None
            where it is not known.
    """
    if not run.study.data or run.study.calibrated:
        return {}
    run.progress.begin("misfit", len(run.study.data))
    found = {}
    for number, (name, data) in enumerate(run.study.data.items()):
        if name not in run.models:
            found[name] = MisfitFact(skipped="the fitted model was not solved")
            continue
        noise = noise_of(design, number)

        def compute(
            name: str = name, data: Dataset = data, noise: Mapping[str, float] = noise
        ) -> MisfitFact:
            comparison = Comparison(run.models[name], data)
            sums = comparison.sums(comparison.model.factual, noise)
            spread = relative_spread.get(name, 0.0)
            found = judged(sums, spread, errors.get(name))
            if found.missing_terms is None:
                # Before anybody is told to look for more terms, one finer solution says what the
                # discretisation does.
                found = judged(sums, spread, comparison.error(sums))
            return found

        found[name] = run.fact(MisfitFact, f"misfit/{name}", compute, name)
    return found


def seen_by_screen(screening: ScreeningFacts) -> bool:
    """Whether a screen of the data says itself that its terms do not fit them."""
    return any(MISFIT in fact.doubts for fact in screening.values())


def discretisation_errors(
    deletions: Mapping[str, Mapping[str, TermDeletion]], sizes: Mapping[str, float]
) -> dict[str, float | None]:
    """The relative error of each factual solution, as far as the error bars of its deletions
    know it.
    """
    found: dict[str, float | None] = {}
    for name, facts in deletions.items():
        bounds = [each.judged[WHOLE].bound for each in facts.values() if WHOLE in each.judged]
        errors = [bound.eta_factual for bound in bounds if bound is not None]
        known = [error for error in errors if error is not None and math.isfinite(error)]
        found[name] = min(known) / sizes[name] if known and sizes[name] else None
    return found


def noise_of(design: DesignFacts, number: int) -> dict[str, float]:
    """The standard deviation of the noise of each measured quantity, as the design found it."""
    for equation in design.equations.values():
        if number < len(equation.sources):
            return dict(equation.sources[number].get("noise_sd", {}))
    return {}


@dataclass
class Sums:
    """Sums of squares over the data that were looked at.

    Attributes:
        misfit: of solution minus data.
        signal: of the data.
        noise: of the noise in them.
        mean, persistence: of the errors of two predictions without a model: the mean, and the first
            reading.
        begun: as `misfit`, where there is a first reading.
        count: how many values.
    """

    misfit: float = 0.0
    signal: float = 0.0
    noise: float = 0.0
    mean: float = 0.0
    persistence: float = 0.0
    begun: float = 0.0
    count: int = 0

    @property
    def relative(self) -> float | None:
        """The misfit relative to the signal."""
        return math.sqrt(self.misfit / self.signal) if self.signal else None


class Comparison:
    """Solutions of one model against its data, at sampled points and times."""

    def __init__(self, model: Model, data: Dataset):
        self.model = model
        self.points, self.times, self.values = sampled(data, np.asarray(model.times, dtype=float))
        self.unknowns = [
            unknown for unknown in model.discretisation.unknowns if measures(data, unknown)
        ]
        self.locate = Locator(model, self.points)

    def sums(self, solution: Solution, noise: Mapping[str, float] | None = None) -> Sums:
        """Compare one solution with the data; collective."""
        total = Sums()
        means = {
            part: np.nanmean(array) if np.isfinite(array).any() else 0.0
            for part, array in self.values.items()
        }
        for k, time in enumerate(self.times):
            for unknown in self.unknowns:
                here = self.locate.values(solution, unknown, float(time))
                for i, part in enumerate(parts(unknown)):
                    there, first = self.values[part][:, k], self.values[part][:, 0]
                    good = np.isfinite(here[:, i]) & np.isfinite(there)
                    begun = good & np.isfinite(
                        first
                    )  # persistence predicts nothing where the first reading is missing
                    total.begun += float(np.sum((here[begun, i] - there[begun]) ** 2))
                    total.misfit += float(np.sum((here[good, i] - there[good]) ** 2))
                    total.signal += float(np.sum(there[good] ** 2))
                    total.mean += float(np.sum((there[good] - means[part]) ** 2))
                    total.persistence += float(np.sum((there[begun] - first[begun]) ** 2))
                    total.noise += int(good.sum()) * (noise or {}).get(str(part), 0.0) ** 2
                    total.count += int(good.sum())
        return total

    def error(self, sums: Sums) -> float | None:
        """The relative discretisation error, from a solution of one degree more with half the
        time steps; None without one.
        """
        ladder = None
        try:
            ladder = Ladder(self.model, RAISED)
            finer = ladder.model(1)
            there, total = Locator(finer, self.points), 0.0
            for time in map(float, self.times):
                for unknown in self.unknowns:
                    values = there.values(finer.factual, unknown, time) - self.locate.values(
                        self.model.factual, unknown, time
                    )
                    total += float(np.nansum(values**2))
        except (NotCovered, SolveError, InputError):
            return None
        finally:
            if ladder is not None:
                ladder.destroy()
        return SETTINGS.safety * math.sqrt(total / sums.signal)


def judged(sums: Sums, spread: float, error: float | None) -> MisfitFact:
    """The misfit, what explains it, and whether anything is missing; None where the
    discretisation error is not known.
    """
    if sums.relative is None:
        return MisfitFact(skipped="no data lie within the mesh and the time window")
    # The initial values carry noise of their own, hence twice.
    known = min(spread, SETTINGS.largest_spread) + SETTINGS.allowance + (error or 0.0)
    explained = math.sqrt(2 * sums.noise / sums.signal + known**2)
    beyond = sums.relative > explained
    return MisfitFact(
        misfit=sums.relative,
        noise=math.sqrt(sums.noise / sums.signal),
        discretisation=error,
        explained=explained,
        coefficients=spread,
        samples=sums.count,
        missing_terms=None if beyond and error is None else beyond,
        skill_mean=skill(sums.misfit, sums.mean),
        skill_persistence=skill(sums.begun, sums.persistence),
        sentence=misfit_sentence(sums.relative, explained, error is not None),
    )


def skill(misfit: float, baseline: float) -> float | None:
    """1 − RMSE / RMSE of a prediction without a model; None where that one is perfect."""
    return 1.0 - math.sqrt(misfit / baseline) if baseline else None


def misfit_sentence(share: float, explained: float, error_known: bool = True) -> str:
    """The misfit in words.

    Example:
        >>> misfit_sentence(0.01, 0.05)
        'The solution of the fitted model is 1.0% from the data, as noise, intervals and
        discretisation explain (5.0%).'
        >>> misfit_sentence(0.1, 0.05, error_known=False)
        'The solution of the fitted model is 10.0% from the data; how much of it is discretisation
        error is not known.'
    """
    start = f"The solution of the fitted model is {share:.1%} from the data"
    if share <= explained:
        return f"{start}, as noise, intervals and discretisation explain ({explained:.1%})."
    if not error_known:
        return f"{start}; how much of it is discretisation error is not known."
    return (
        f"{start}, more than noise, intervals and discretisation explain ({explained:.1%}): terms "
        "may be missing."
    )


def sampled(
    data: Dataset, window: np.ndarray
) -> tuple[np.ndarray, np.ndarray, dict[sp.Expr, np.ndarray]]:
    """A few points and times of the data within a window, with the values there (points ×
    times).
    """
    if data.points is not None:
        points = data.points
    else:
        axes = [data.coordinates[c] for c in SPACE if c in data.coordinates]
        points = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    times = np.asarray(data.coordinates[t], dtype=float) if t in data.coordinates else window[:1]
    slack = SETTINGS.round_off * (window[-1] - window[0])
    inside = np.flatnonzero((times >= window[0] - slack) & (times <= window[-1] + slack))
    chosen = inside[:: max(1, len(inside) // SETTINGS.times)]
    stride = max(1, len(points) // SETTINGS.points)
    missing = None if data.mask is None else data.mask.reshape(len(points), -1)
    values = {}
    for name, array in data.values.items():
        flat = np.array(array, dtype=float).reshape(len(points), -1)
        if missing is not None:
            flat[missing] = np.nan
        values[name] = flat[::stride][:, chosen]
    return points[::stride], times[chosen], values


class Locator:
    """Values of solutions at points, on all ranks; nan outside the mesh."""

    def __init__(self, model: Model, points: np.ndarray):
        from dolfinx import geometry

        self.model = model
        mesh = model.discretisation.mesh
        whole = np.zeros((len(points), 3))
        whole[:, : points.shape[1]] = points
        tree = geometry.bb_tree(mesh, mesh.topology.dim)
        found = geometry.compute_colliding_cells(
            mesh, geometry.compute_collisions_points(tree, whole), whole
        )
        self.mine = np.flatnonzero(np.diff(found.offsets) > 0)
        self.cells = (
            found.array[found.offsets[:-1][self.mine]].astype(np.int32)
            if len(self.mine)
            else np.empty(0, np.int32)
        )
        self.points, self.count = whole[self.mine], len(points)

    def values(self, solution: Solution, unknown: Field, time: float) -> np.ndarray:
        """Values at one time, linear between the levels."""
        levels = [(0, 1.0)]
        if len(solution.times) > 1:
            level = int(
                np.clip(np.searchsorted(solution.times, time) - 1, 0, len(solution.times) - 2)
            )
            share = (time - solution.times[level]) / (
                solution.times[level + 1] - solution.times[level]
            )
            levels = [(level, 1 - share), (level + 1, share)]
        total = None
        for k, weight in levels:
            function = solution.function(unknown, k)
            size = function.function_space.value_size
            local = np.full((self.count, size), np.nan)
            if len(self.mine):
                local[self.mine] = np.asarray(function.eval(self.points, self.cells)).real.reshape(
                    len(self.mine), size
                )
            parts = np.array(self.model.comm.allgather(local))
            known = np.isfinite(parts)
            # Points between ranks have one value each; the lowest rank's is as good as any.
            chosen = np.take_along_axis(parts, known.argmax(axis=0)[None], axis=0)[0]
            total = weight * chosen if total is None else total + weight * chosen
        assert total is not None
        return total
