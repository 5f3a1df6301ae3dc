# SPDX-License-Identifier: MIT
"""Station: the fitted model against the data, and what the uncertainty of its coefficients does to the scores.

The factual field of a study with data is the solution of the fitted model from the data's initial and boundary values. Its misfit
is compared with the noise; a misfit that neither noise nor the intervals of the coefficients explain says that terms are missing.
Each coefficient is moved to both ends of its interval and the scores are computed again: δ_j may differ from the computed one by
the sum over the coefficients of the larger change, to first order.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from cffem.data.dataset import Dataset
from cffem.engine.boundary import Dirichlet
from cffem.engine.experiment import Experiment
from cffem.engine.linear import SolveError
from cffem.study.running import Run, WatchedModel
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.fields import VectorField
from cffem.symbols.interventions import delete
from cffem.symbols.interventions import set as set_coefficient

Facts = dict[str, Any]
POINTS, TIMES = 2000, 20
# Share of the signal that interpolation of the data and the discretisation may get wrong.
ALLOWANCE = 0.02
# Intervals that leave more than this share of the solution open explain no misfit: with them any model would fit.
LARGEST_SPREAD = 0.1


def from_data(experiment: Experiment, data: Dataset, library: Any) -> Experiment:
    """The experiment with the initial values that it does not state, and all boundary values if it states none, from the data."""
    smooth = denoised(data, library)
    measured = [u for u in library.unknowns if measures(data, u)]
    initial = dict(experiment.initial)
    for unknown in measured:
        if library.equations[unknown].time_order == 1:
            initial.setdefault(unknown, smooth)
    boundary = list(experiment.boundary) or [Dirichlet(unknown, smooth, on="all") for unknown in measured]
    return dataclasses.replace(experiment, initial=initial, boundary=boundary)


def measures(data: Dataset, unknown: Any) -> bool:
    """Whether all components of a field are in the data."""
    parts = [unknown[i] for i in range(unknown.dim)] if isinstance(unknown, VectorField) else [unknown]
    return all(part in data.values for part in parts)


def denoised(data: Dataset, library: Any) -> Dataset:
    """The data without their noise, as far as it can be removed; as they are where that is not possible."""
    from cffem.data.weak import Plan

    equation = next(iter(library.equations.values()))
    try:
        values = Plan(data, equation).denoised
    except ValueError:
        return data
    return dataclasses.replace(data, values=values)


# Misfit -------------------------------------------------------------------------------------------------------------------------


def misfits(run: Run, design: Facts, relative_spread: Mapping[str, float]) -> Facts:
    """How far the solution of the fitted model is from the data of each experiment.

    Args:
        run: the run.
        design: facts of the design, whose sources know the noise.
        relative_spread: for each experiment the share of the solution that the intervals of the coefficients leave open.
    """
    if not run.study.data:
        return {}
    run.progress.begin("misfit", len(run.study.data))
    found = {}
    for number, (name, data) in enumerate(run.study.data.items()):
        noise = noise_of(design, number)
        compute = lambda name=name, data=data, noise=noise: misfit(run.models[name], data, noise, relative_spread.get(name, 0.0))  # noqa: E731
        found[name] = run.once(f"misfit/{name}", compute, name)
    return found


def noise_of(design: Facts, number: int) -> dict[str, float]:
    """The standard deviation of the noise of each measured quantity, as the design found it."""
    for equation in design.values():
        if isinstance(equation, dict) and number < len(equation.get("sources", ())):
            return dict(equation["sources"][number].get("noise_sd", {}))
    return {}


def misfit(model: WatchedModel, data: Dataset, noise: Mapping[str, float], spread: float) -> Facts:
    """Root mean square of solution minus data over sampled points and times, and whether anything is missing."""
    points, times, values = sampled(data, model.times)
    total = signal = noisy = 0.0
    count = 0
    locate = Locator(model, points)
    for k, time in enumerate(times):
        for unknown in model.discretisation.unknowns:
            if not measures(data, unknown):
                continue
            here = locate.values(unknown, float(time))
            parts = [unknown[i] for i in range(unknown.dim)] if isinstance(unknown, VectorField) else [unknown]
            for i, part in enumerate(parts):
                there = values[part][:, k]
                good = np.isfinite(here[:, i]) & np.isfinite(there)
                total += float(np.sum((here[good, i] - there[good]) ** 2))
                signal += float(np.sum(there[good] ** 2))
                noisy += int(good.sum()) * noise.get(str(part), 0.0) ** 2
                count += int(good.sum())
    if not count or not signal:
        return {"skipped": "no data lie within the mesh and the time window"}
    size = math.sqrt(signal)
    # The initial values carry noise of their own, hence twice.
    explained = math.sqrt(2 * noisy + ((min(spread, LARGEST_SPREAD) + ALLOWANCE) * size) ** 2)
    missing = math.sqrt(total) > explained
    return {
        "misfit": math.sqrt(total) / size,
        "noise": math.sqrt(noisy) / size,
        "explained": explained / size,
        "coefficients": spread,
        "samples": count,
        "missing_terms": missing,
        "sentence": misfit_sentence(math.sqrt(total) / size, explained / size),
    }


def misfit_sentence(share: float, explained: float) -> str:
    """The misfit in words.

    Example:
        >>> misfit_sentence(0.01, 0.05)
        'The solution of the fitted model is 1.0% from the data, as noise and intervals explain (5.0%).'
    """
    start = f"The solution of the fitted model is {share:.1%} from the data"
    if share > explained:
        return f"{start}, more than noise and intervals explain ({explained:.1%}): terms may be missing."
    return f"{start}, as noise and intervals explain ({explained:.1%})."


def sampled(data: Dataset, window: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[Any, np.ndarray]]:
    """A few points and times of the data within a window, with the values there (points × times)."""
    times = data.coordinates[t]
    inside = np.flatnonzero((times >= window[0] - 1e-12) & (times <= window[-1] + 1e-12))
    chosen = inside[:: max(1, len(inside) // TIMES)]
    if data.points is not None:
        points = data.points
    else:
        axes = [data.coordinates[c] for c in SPACE if c in data.coordinates]
        points = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    stride = max(1, len(points) // POINTS)
    missing = None if data.mask is None else data.mask.reshape(len(points), -1)
    values = {}
    for name, array in data.values.items():
        flat = np.array(array, dtype=float).reshape(len(points), -1)
        if missing is not None:
            flat[missing] = np.nan
        values[name] = flat[::stride][:, chosen]
    return points[::stride], times[chosen], values


class Locator:
    """Values of the factual solution at points, on all ranks; nan outside the mesh."""

    def __init__(self, model: WatchedModel, points: np.ndarray):
        from dolfinx import geometry

        self.model = model
        mesh = model.discretisation.mesh
        whole = np.zeros((len(points), 3))
        whole[:, : points.shape[1]] = points
        tree = geometry.bb_tree(mesh, mesh.topology.dim)
        found = geometry.compute_colliding_cells(mesh, geometry.compute_collisions_points(tree, whole), whole)
        self.mine = np.flatnonzero(np.diff(found.offsets) > 0)
        self.cells = found.array[found.offsets[:-1][self.mine]].astype(np.int32) if len(self.mine) else np.empty(0, np.int32)
        self.points, self.count = whole[self.mine], len(points)

    def values(self, unknown: Any, time: float) -> np.ndarray:
        """Values at one time, linear between the levels."""
        solution = self.model.factual
        level = int(np.clip(np.searchsorted(solution.times, time) - 1, 0, len(solution.times) - 2))
        share = (time - solution.times[level]) / (solution.times[level + 1] - solution.times[level])
        total = None
        for k, weight in ((level, 1 - share), (level + 1, share)):
            function = solution.function(unknown, k)
            size = function.function_space.value_size
            local = np.full((self.count, size), np.nan)
            if len(self.mine):
                local[self.mine] = np.asarray(function.eval(self.points, self.cells)).real.reshape(len(self.mine), size)
            parts = np.array(self.model.comm.allgather(local))
            known = np.isfinite(parts)
            # Points between ranks have one value each; the lowest rank's is as good as any.
            chosen = np.take_along_axis(parts, known.argmax(axis=0)[None], axis=0)[0]
            total = weight * chosen if total is None else total + weight * chosen
        assert total is not None
        return total


# Intervals ----------------------------------------------------------------------------------------------------------------------


def spreads(run: Run, intervals: Mapping[str, list[float]], deletions: Facts, adjoints: Facts) -> Facts:
    """For each experiment and coefficient, how much scores, observables and the solution itself change within its interval."""
    found: Facts = {}
    if not intervals:
        return found
    run.progress.begin("coefficient intervals", len(run.models) * len(intervals))
    for name, model in run.models.items():
        found[name] = {
            term: run.once(
                f"intervals/{name}/{term}",
                lambda m=model, n=term, e=ends: spread(run, m, n, e, deletions[m.name], adjoints[m.name]),
                term,
            )
            for term, ends in intervals.items()
        }
    return found


def spread(run: Run, model: WatchedModel, term: str, ends: list[float], facts: Facts, adjoints: Facts) -> Facts:
    """Move one coefficient to both ends of its interval; the largest change of each score and of each effect on an observable."""
    norm, observables = run.study.certification.norm, run.study.observables
    solved = [name for name, fact in facts.items() if fact["status"] == "solved"]
    scores, moved = dict.fromkeys(solved, 0.0), 0.0
    effects = {label: dict.fromkeys(solved, 0.0) for label in observables}
    for end in ends:
        at_end = set_coefficient(term, end) if end else delete(term)
        try:
            there = model.solve(at_end)
            moved = max(moved, there.distance(model.factual, norm))
            for name in solved:
                without = model.solve(delete(name) if name == term else delete(name) & at_end)
                scores[name] = max(scores[name], abs(there.distance(without, norm) - facts[name]["score"]))
                for label, (observable, _) in observables.items():
                    value = model.measurement(observable).value
                    before = abs(adjoints[label]["value"] - facts[name]["observables"][label])
                    effects[label][name] = max(effects[label][name], abs(abs(value(there) - value(without)) - before))
        except SolveError:
            nothing = dict.fromkeys(solved, math.inf)
            return {"scores": nothing, "observables": dict.fromkeys(observables, nothing), "solution": math.inf}
    return {"scores": scores, "observables": effects, "solution": moved}


def total_spread(facts: Facts, experiment: str, term: str, observable: str | None = None) -> float | None:
    """How much a score, or the effect on an observable, may change within all intervals; None for known coefficients."""
    if experiment not in facts:
        return None
    found = [entry["scores"] if observable is None else entry["observables"][observable] for entry in facts[experiment].values()]
    return float(sum(changes.get(term, 0.0) for changes in found))


def relative_spread(facts: Facts, sizes: Mapping[str, float]) -> dict[str, float]:
    """For each experiment the share of the solution that the intervals leave open."""
    return {
        name: sum(entry["solution"] for entry in found.values()) / sizes[name] if sizes[name] else 0.0
        for name, found in facts.items()
    }
