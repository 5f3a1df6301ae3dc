# SPDX-License-Identifier: MIT
"""`cffem bench sensors`: what few sensors tell of thirteen kinds of equations.

For every family and seed sensors are placed at random, read with noise, and calibrated. Counted are
how many 95 % intervals hold the truth, how often the selected terms are exactly those that are
there, how often a wrong selection is believed, whether terms that no sensor feels are named, and
what a fit with all deletions fitted again costs in units of the factual solve. Alias groups are
constructed and must be found. Weak regression and PySINDy get the same sensors.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import cffem as cf
from benchmarks.measuring import Board, bench_parser, machine
from benchmarks.sensors.sensor_families import FAMILIES, SensorFamily
from benchmarks.sensors.sensor_page import write_page

SEEDS, TINY_SEEDS, PEER_SEEDS = 10, 1, 2
# The first; 0 to 11, 2600 to 2609, 50000 to 50059, 70000, 80000 to 80011 and 91000 to 91009 were
# looked at while the rules were made.
SEED = 130000
COVERAGE = (0.90, 0.99)
FILE = "bench_sensors.json"
MOST_SOLVES, MOST_ITERATION = 25, 1.3
MEASURED = 2  # iterations that are timed by themselves


@dataclass(frozen=True)
class SensorRun:
    """One fit.

    Attributes:
        family, seed: which.
        covered, intervals: how many 95 % intervals of first order hold the truth, and there are.
        profiled: how many profile intervals hold the truth, which they do where Δχ² there is below
            its quantile.
        exact: whether the selected terms are those that are there.
        believed: whether the selection is.
        null: whether exactly the terms that no sensor can feel are named as such.
        needed: solves of the fit with its selection.
        solves, tangents: of the fit with all deletions fitted again.
        seconds, unit: what that took, and a factual solve.
        iteration: seconds of an iteration over those of a factual solve and a tangent sweep; zero
            where it was not timed.
        chi2: per degree of freedom.
        support, reasons: of the selection.
    """

    family: str
    seed: int
    covered: int
    profiled: int
    intervals: int
    exact: bool
    believed: bool
    null: bool
    solves: int
    tangents: int
    terms: int
    seconds: float
    unit: float
    iteration: float
    chi2: float
    support: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def confidently_wrong(self) -> bool:
        """Whether a wrong selection was believed."""
        return self.believed and not self.exact


@dataclass
class SensorBoard(Board):
    """All that was measured."""

    runs: list[SensorRun] = field(default_factory=list)
    peers: list[Any] = field(default_factory=list)
    aliases: list[Any] = field(default_factory=list)


def readings(family: SensorFamily, world: Any, library: Any, seed: int) -> tuple[Any, np.ndarray]:
    """Sensors and what they read."""
    generator = np.random.default_rng(seed)
    points, fields = family.points(generator), family.fields(library)
    clean = world.observation(cf.Sensors(points, fields)).values(world.factual)
    noise = family.noise * float(np.sqrt(np.mean(clean**2)))
    sensors = cf.Sensors(points, fields, noise=noise)
    return sensors, clean + noise * generator.normal(size=len(clean))


def measured(work: Any) -> tuple[Any, float]:
    """A result and the processor seconds of the second time, the first having compiled."""
    work()
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def factual_solve(world: Any, family: SensorFamily) -> float:
    """Seconds of a solve at coefficients that nobody has solved for, factors included."""
    first = next(iter(family.truth))
    seconds = []
    for k in range(1, 4):
        change = cf.set(first, family.truth[first] * (1 + 1e-3 * k))
        start = time.process_time()
        world.solve(change, stages=True)
        seconds.append(time.process_time() - start)
    return min(seconds)


def deleted(fit: Any, name: str) -> Any:
    """The fit without a term; None where the equation without it has no solution."""
    try:
        return fit.without(name)
    except cf.SolveError:
        return None


def in_profile(fit: Any, name: str, value: float) -> bool:
    """Whether the profile interval of a coefficient holds a value."""
    try:
        return bool(fit.growth(name, value) <= fit.quantile**2)
    except cf.SolveError:
        return False


def iteration_cost(fit: Any) -> float:
    """Seconds of one iteration: the residual and its derivative at a new place."""
    seconds = []
    for k in range(1, MEASURED + 1):
        start = time.process_time()
        place = fit.forward.point(fit.best.alpha * (1 + 1e-4 * k))
        fit.forward.matrix(place)
        seconds.append(time.process_time() - start)
    return min(seconds)


def run(family: SensorFamily, library: Any, experiment: Any, world: Any, seed: int) -> SensorRun:
    """One fit with everything that a study asks of it."""
    sensors, data = readings(family, world, library, seed)
    unit = factual_solve(world, family)
    names = [n for n in library.names if n not in family.fixed]
    _, sweep = measured(lambda: world.sensitivities(sensors, names))
    start = time.process_time()
    fit = cf.calibrate(library, experiment, (sensors, data), start=family.start, fixed=family.fixed)
    fitting = time.process_time() - start
    iteration = iteration_cost(fit) / (unit + sweep)
    intervals = fit.intervals
    again = time.process_time()
    tests = [deleted(fit, name) for name in fit.names if name not in family.null]
    seconds, solves, sweeps = fitting + time.process_time() - again, fit.solves, fit.tangents
    solves, sweeps = solves - MEASURED, sweeps - MEASURED
    selection = fit.selected()
    wanted = set(family.truth) - set(family.fixed)
    known = [n for n, pair in intervals.items() if np.isfinite(pair).all()]
    held = [n for n in known if intervals[n][0] <= family.truth.get(n, 0.0) <= intervals[n][1]]
    profiled = [n for n in known if in_profile(fit, n, family.truth.get(n, 0.0))]
    found = SensorRun(
        family.name,
        seed,
        len(held),
        len(profiled),
        len(known),
        set(selection.support) == wanted,
        selection.reliable,
        set(fit.design.notes["null"]) == set(family.null),
        solves,
        sweeps,
        len(tests),
        seconds,
        unit,
        iteration,
        fit.chi2 / max(fit.degrees, 1),
        selection.support,
        selection.reasons,
    )
    fit.destroy()
    return found


def families(
    board: SensorBoard, seeds: int, chosen: Sequence[str], finished: Callable[[], None]
) -> None:
    """All families; what is known is written after each."""
    for family in (f for f in FAMILIES if f.key in chosen):
        library, experiment = family.make()
        world = cf.Model(library, family.truth, experiment)
        mine = []
        for number in range(seeds):
            mine.append(run(family, library, experiment, world, SEED + number))
        board.runs += mine
        world.destroy()
        held, known = sum(r.profiled for r in mine), sum(r.intervals for r in mine)
        board.line(
            f"{family.name}: {held}/{known} profile intervals hold the truth (first order "
            f"{sum(r.covered for r in mine)}), exact "
            f"{sum(r.exact for r in mine)}/{len(mine)}, believed {sum(r.believed for r in mine)}, "
            f"confidently wrong {sum(r.confidently_wrong for r in mine)}, "
            f"{np.median([r.solves for r in mine]):.0f} solves, "
            f"{np.median([r.seconds / r.unit for r in mine]):.0f} factual solves of time"
        )
        finished()


def goals(board: SensorBoard) -> None:
    """What the issue of few sensors asks for."""
    runs = board.runs
    known = sum(r.intervals for r in runs)
    low, high = COVERAGE
    for what, held in (
        ("share of 95 % profile intervals that hold the truth", sum(r.profiled for r in runs)),
        ("share of 95 % intervals of first order that do", sum(r.covered for r in runs)),
    ):
        share = held / max(known, 1)
        board.target(what, share, low <= share <= high, f"{low} to {high}")
    wrong = sum(r.confidently_wrong for r in runs)
    board.target("confidently wrong selections", wrong, wrong == 0, "0")
    for name in dict.fromkeys(r.family for r in runs):
        mine = [r for r in runs if r.family == name]
        share = sum(r.exact for r in mine) / len(mine)
        board.target(f"exact sets, {name}", share, share >= 0.9, "at least 0.9")
    nulls = sum(r.null for r in runs)
    board.target(
        "runs that name exactly the terms no sensor feels",
        nulls,
        nulls == len(runs),
        f"{len(runs)}",
    )
    five = [r.solves for r in runs if r.terms >= 5] or [0]
    board.target(
        "solves of a fit with all deletions, five terms and more (median)",
        float(np.median(five)),
        np.median(five) <= MOST_SOLVES,
        f"at most {MOST_SOLVES}",
    )
    timed = [r.iteration for r in runs if r.iteration > 0]
    cost = float(np.median(timed)) if timed else 0.0
    board.target(
        "cost of an iteration over factual solve and tangent sweep (median)",
        cost,
        cost <= MOST_ITERATION,
        f"at most {MOST_ITERATION}",
    )
    if board.aliases:
        right = sum(one["right"] for one in board.aliases)
        board.target(
            "constructed alias groups that are found",
            right,
            right == len(board.aliases),
            f"{len(board.aliases)}",
        )


def add_stored(board: SensorBoard, stored: Any, chosen: Sequence[str]) -> float:
    """Take what earlier runs of other families found; the minutes that they took."""
    again = {family.name for family in FAMILIES if family.key in chosen}
    for one in stored["runs"]:
        if one["family"] not in again:
            words = {key: tuple(one[key]) for key in ("support", "reasons")}
            board.runs.append(SensorRun(**{**one, **words}))
    board.aliases, board.peers = stored["aliases"], stored["peers"]
    return float(stored["minutes"])


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; the exit code is 1 where a goal is missed."""
    known = [family.key for family in FAMILIES]
    parser = bench_parser("sensors", __doc__, "case", known)
    parser.add_argument("--seeds", type=int, default=SEEDS, help="seeds of each family")
    parser.add_argument(
        "--add", action="store_true", help="keep what the folder holds of other families"
    )
    options = parser.parse_args(list(arguments))
    seeds = TINY_SEEDS if options.tiny else options.seeds
    board = SensorBoard()
    start, folder = time.time(), Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    before = 0.0
    if options.add and (folder / FILE).exists():
        before = add_stored(board, json.loads((folder / FILE).read_text()), options.cases)

    def write() -> None:
        record = {
            "machine": machine(),
            "minutes": before + (time.time() - start) / 60,
            "seeds": seeds,
            "figures": board.figures,
            "missed": board.missed,
            "runs": [asdict(r) for r in board.runs],
            "aliases": board.aliases,
            "peers": board.peers,
        }
        (folder / FILE).write_text(json.dumps(record, indent=1))
        write_page(record, folder)

    from benchmarks.sensors.sensor_aliases import aliases
    from benchmarks.sensors.sensor_peers import peers

    if not board.aliases:
        aliases(board)
    if not board.peers:
        peers(board, min(seeds, PEER_SEEDS))
    families(board, seeds, options.cases, write)
    goals(board)
    write()
    return 1 if board.missed else 0
