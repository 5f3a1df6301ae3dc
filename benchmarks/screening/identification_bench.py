# SPDX-License-Identifier: MIT
"""What the screen identifies over many families of equations: every run against the truth, as
records for docs/identification.md.

A run is *exact* when the returned support is the true one and *believed* when `reliable_` says so.
A believed run says that its terms are needed, and that every other term lies within its limits. It
is *confidently wrong* when that is wrong: a returned term is false, or a true one that was not
found lies outside its limits. A believed run that says nothing wrong and is not exact is
*incomplete*.
Intervals are counted over runs whose every term is true, limits over all terms of believed runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter1d

from benchmarks.measuring import Board
from benchmarks.screening import screening_data as classics
from benchmarks.screening.identification_data import Equation, EquationFamily, families
from cffem.data import Dataset
from cffem.design import Design
from cffem.screening import Screening
from cffem.symbols.coordinates import t, x, y
from cffem.symbols.operators import dt, lap
from cffem.symbols.problem.library import Library

FIRST_SEED, MOST_SEEDS = 40, 5  # seeds below were looked at while the gates were made
NOISES = (0.0, 0.1, 0.5, 1.0)
LACKING_NOISES = (0.1, 0.5)
FLOW_NOISE, SENSORS, FRAMES = 0.2, 1000, 10


@dataclass(frozen=True)
class Record:
    """One fit against the truth.

    Attributes:
        section: which table it belongs to.
        tool: who made the fit.
        case: the family, or another name of the data.
        noise: standard deviation of the noise relative to the root mean square of each field.
        seed: of the noise.
        exact, believed: see the module.
        covered, intervals: how many intervals hold the true coefficient, of an exact support and of
            a believed one whose every term is true.
        within, limits: how many of the limits of a believed fit hold the true coefficient, zero
            included.
        error: largest relative error of a coefficient of an exact support.
        seconds: processor time of design and screen.
        names: the returned support.
        reasons: why it is not believed.
        true_as_said: whether all returned terms are true and every true term that was not
            returned lies within its limits.
        hidden: largest share of the anchor that one term outside the support could carry.
    """

    section: str
    tool: str
    case: str
    noise: float
    seed: int
    exact: bool
    believed: bool
    covered: int
    intervals: int
    within: int
    limits: int
    error: float | None
    seconds: float
    names: tuple[str, ...]
    reasons: tuple[str, ...]
    true_as_said: bool = False
    hidden: float = 0.0

    @property
    def wrong(self) -> bool:
        """Confidently wrong: believed, but something of what is said of terms is wrong."""
        return self.believed and not self.exact and not self.true_as_said

    def renamed(self, section: str) -> Record:
        """The same run in another table."""
        return replace(self, section=section)

    @property
    def incomplete(self) -> bool:
        """Believed and right in what it says, but a true term hides within its limits."""
        return self.believed and not self.exact and self.true_as_said


@dataclass
class Identification(Board):
    """A board that also keeps the records of all runs, and which families are wanted."""

    records: list[Record] = field(default_factory=list)
    chosen: tuple[str, ...] = ()

    def families(self) -> list[EquationFamily]:
        """The families that are wanted; all by default."""
        return [
            family for name, family in families().items() if not self.chosen or name in self.chosen
        ]

    def to_plain(self) -> list[dict[str, Any]]:
        """All records for JSON."""
        return [asdict(record) for record in self.records]


def fitted(
    section: str,
    case: str,
    library: Library,
    data: Dataset,
    truth: Any,
    noise: float,
    seed: int,
    kind: str = "weak",
) -> Record:
    """Fit the default screen and compare it with the truth; an empty truth is never exact
    unless nothing is returned.
    """
    start = time.process_time()
    screen = Screening().fit(Design.from_fields(library, data, kind=kind))
    seconds = time.process_time() - start
    names = list(screen.design_.names)
    values = np.array([truth.get(name, 0.0) for name in names])
    exact = set(screen.names_) == set(truth)
    limits = inside_of(screen.limits_, values) if screen.reliable_ else np.zeros(0, dtype=bool)
    chosen = screen.support_ & (values != 0)
    lacking = ~screen.support_ & (values != 0)
    no_false_term = bool((values[screen.support_] != 0).all())
    counts = exact or (screen.reliable_ and no_false_term and set(truth) <= set(names))
    inside = inside_of(screen.intervals_, values)[screen.support_ & counts]
    is_complete = set(truth) <= set(names) and inside_of(screen.limits_, values)[lacking].all()
    error = (
        float(np.abs(screen.coef_[chosen] / values[chosen] - 1).max())
        if exact and chosen.any()
        else None
    )
    return Record(
        section,
        "cffem",
        case,
        noise,
        seed,
        exact,
        bool(screen.reliable_),
        int(inside.sum()),
        len(inside),
        int(limits.sum()),
        len(limits),
        error,
        seconds,
        screen.names_,
        tuple(screen.reasons_),
        no_false_term and bool(is_complete),
        float(screen.hidden_share_),
    )


def inside_of(intervals: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Which intervals hold their values."""
    low, high = intervals.T
    return (low <= values) & (values <= high)


def seeds_of(noise: float, seeds: int) -> Iterable[int]:
    """Noise-free data are the same for every seed."""
    return range(FIRST_SEED, FIRST_SEED + (min(seeds, MOST_SEEDS) if noise else 1))


def runs_of(family: EquationFamily, seeds: int, noises: Sequence[float] = NOISES) -> list[Record]:
    """All runs of a family."""
    found = []
    for noise in noises:
        for seed in seeds_of(noise, seeds):
            data = family.dataset(noise, seed)
            found += [
                fitted("families", family.name, e.library, data, e.truth, noise, seed)
                for e in family.equations
            ]
    return found


def identify_families(board: Identification, seeds: int) -> None:
    """Every family at every noise level."""
    everything: list[Record] = []
    for family in board.families():
        runs = runs_of(family, seeds)
        board.records += runs
        report_family(board, family.name, runs)
        wrong = share(r.wrong for r in runs)
        board.target(f"{family.name}: confidently wrong", wrong, wrong <= 0.05, "<= 0.05")
        everything += runs
        strict = share(r.wrong or r.incomplete for r in runs)
        name = f"{family.name}: believed without being exact"
        board.target(name, strict, strict <= 0.05, "<= 0.05")
    if everything:
        wrong = share(r.wrong for r in everything)
        strict = share(r.believed and not r.exact for r in everything)
        name = f"all families, {len(everything)} runs: believed without being exact"
        board.target(name, strict, strict <= 0.01, "<= 0.01")
        board.line(f"  believed and incomplete: {sum(r.incomplete for r in everything)} runs")
        board.target(
            f"all families, {len(everything)} runs: confidently wrong",
            wrong,
            wrong <= 0.01,
            "<= 0.01",
        )
        covered, intervals = (
            sum(r.covered for r in everything),
            sum(r.intervals for r in everything),
        )
        board.target(
            "coverage of 95 % intervals",
            covered / max(intervals, 1),
            covered >= 0.93 * intervals,
            ">= 0.93",
        )


def report_family(board: Board, name: str, runs: list[Record]) -> None:
    """One line per noise level."""
    for noise in sorted({r.noise for r in runs}):
        part = [r for r in runs if r.noise == noise]
        board.line(
            f"{name}, {noise:.0%}: exact {sum(r.exact for r in part)}/{len(part)}, believed "
            f"{sum(r.believed for r in part)}, "
            f"confidently wrong {sum(r.wrong for r in part)}, "
            f"{np.median([r.seconds for r in part]):.2f} s"
        )


def share(flags: Iterable[bool]) -> float:
    """Share of true flags; zero of none."""
    found = list(flags)
    return sum(found) / len(found) if found else 0.0


def lacking_terms(board: Identification, seeds: int) -> None:
    """Libraries that lack a true term: none may be believed."""
    runs = []
    for family in (f for f in board.families() if not f.limit_of_detection):
        for noise in LACKING_NOISES:
            for seed in seeds_of(noise, max(1, seeds // 2)):
                data = family.dataset(noise, seed)
                runs += [
                    without(family, equation, name, data, noise, seed)
                    for equation in family.equations
                    for name in list(equation.truth)[:3]
                    if len(equation.truth) > 1
                ]
    board.records += runs
    believed = sum(r.believed for r in runs)
    for run in runs:
        if run.believed:
            board.line(f"    {run.case}, {run.noise:.0%}, seed {run.seed}: {run.names}")
    board.target(
        f"a true term is missing, {len(runs)} runs: believed", believed, believed == 0, "0"
    )


def without(
    family: EquationFamily, equation: Equation, name: str, data: Dataset, noise: float, seed: int
) -> Record:
    """A run whose library lacks one term."""
    return fitted(
        "lacking",
        f"{family.name} without {name}",
        equation.lacking(name),
        data,
        equation.truth,
        noise,
        seed,
    )


def random_field(seed: int, size: int = 33, frames: int = 200) -> tuple[Library, Dataset]:
    """Smooth random fields that follow no equation, with 2 % noise."""
    u = classics.u
    random = np.random.default_rng(seed)
    grid, times = np.linspace(0, 1, size), np.arange(float(frames))
    a, b = np.meshgrid(grid, grid, indexing="ij")
    values = np.zeros((size, size, frames))
    for k in range(5):
        for m in range(5):
            amplitude = gaussian_filter1d(random.standard_normal(frames), 3.0) / (1 + k * k + m * m)
            phases = 2 * np.pi * random.uniform(size=2)
            values += (np.cos(np.pi * k * a + phases[0]) * np.cos(np.pi * m * b + phases[1]))[
                ..., None
            ] * amplitude
    values += 0.02 * values.std() * random.standard_normal(values.shape)
    terms = {
        "1": x * 0 + 1,
        "u": u,
        "u^2": u**2,
        "u_x": u.diff(x),
        "u_y": u.diff(y),
        "lap u": lap(u),
        "|grad u|^2": u.diff(x) ** 2 + u.diff(y) ** 2,
    }
    return Library(anchor=dt(u), terms=terms), Dataset.from_arrays(
        {x: grid, y: grid, t: times}, {u: values}
    )


def null_fields(board: Identification, seeds: int) -> None:
    """Twenty random fields, weak and strong: at most one may be believed."""
    for kind in ("weak", "strong"):
        runs = []
        for seed in range(4 * min(seeds, MOST_SEEDS)):
            library, data = random_field(seed)
            runs.append(
                fitted("null", f"random fields, {kind} rows", library, data, {}, 0.02, seed, kind)
            )
        board.records += runs
        believed = sum(r.believed for r in runs)
        board.target(
            f"random fields, {kind} rows, {len(runs)} runs: believed",
            believed,
            believed <= len(runs) / 20,
            "<= 1 of 20",
        )


def flows(board: Identification, seeds: int) -> None:
    """Incompressible flow from its velocity alone: on a grid, at scattered sensors, and with
    few frames.
    """
    field_v, library = classics.vortex_library()
    truth = {"(v.grad)v": -1.0, "lap v": 0.02}
    xs, ys, times, velocity = classics.vortices()
    points = np.random.default_rng(1).uniform(0, 2 * np.pi, (SENSORS, 2))
    sensed = periodic_values(velocity, points)
    few = slice(0, 2 * FRAMES, 2)
    for seed in range(4 * min(seeds, MOST_SEEDS)):
        noisy = classics.with_noise(velocity, FLOW_NOISE, seed)
        scattered = classics.with_noise(sensed, FLOW_NOISE, seed)
        sources = {
            "on a grid of 64 × 64": Dataset.from_arrays(
                {x: xs, y: ys, t: times}, {field_v: noisy}, projected=True
            ),
            f"at {SENSORS} sensors": Dataset.from_points(
                points, times, {field_v: scattered}, projected=True
            ),
            f"in {FRAMES} frames": Dataset.from_arrays(
                {x: xs, y: ys, t: times[few]}, {field_v: noisy[..., few]}, projected=True
            ),
        }
        board.records += [
            fitted("flow", case, library, data, truth, FLOW_NOISE, seed)
            for case, data in sources.items()
        ]
    for case in sources:
        runs = [r for r in board.records if r.section == "flow" and r.case == case]
        exact = sum(r.exact for r in runs)
        board.target(
            f"flow {case}, 20 % noise: exact",
            exact,
            exact == len(runs),
            f"{len(runs)} of {len(runs)}",
        )


def periodic_values(fields: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Fields (components × n × n × times, on a square of length 2π) at scattered points, by their
    Fourier series.

    Example:
        >>> grid = 2 * np.pi * np.arange(8) / 8
        >>> wave = np.sin(grid)[None, :, None, None] * np.ones((1, 8, 8, 1))
        >>> bool(abs(periodic_values(wave, np.array([[1.0, 2.0]]))[0, 0, 0] - np.sin(1.0)) < 1e-12)
        True
    """
    size = fields.shape[1]
    numbers = np.fft.fftfreq(size, 1 / size)
    modes = np.fft.fft2(fields, axes=(1, 2)) / size**2
    along_x, along_y = (np.exp(1j * np.outer(points[:, k], numbers)) for k in (0, 1))
    return np.einsum("pk,pl,cklt->cpt", along_x, along_y, modes, optimize=True).real
