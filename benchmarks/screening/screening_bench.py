# SPDX-License-Identifier: MIT
"""`cffem bench screening`: what the screen identifies, how fast, and what it refuses, each figure
against its target.

Every section prints its measurements and one line per target; the exit code is one if a target was
missed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measuring import Board
from benchmarks.screening import screening_data as cases
from benchmarks.screening.further_bench import (
    few_frames,
    identify_strangers,
    many_sensors,
    other_frames,
)
from benchmarks.screening.identification_bench import (
    Identification,
    Record,
    flows,
    identify_families,
    lacking_terms,
    null_fields,
)
from benchmarks.screening.identification_data import families
from benchmarks.screening.identification_page import page
from benchmarks.screening.identification_peer import peers
from cffem.data import Dataset
from cffem.design import Design
from cffem.screening import Screening
from cffem.screening.selection import refit
from cffem.symbols.coordinates import t, x, y
from cffem.symbols.problem.library import Library


@dataclass(frozen=True)
class ScreenOutcome:
    """One screen against the truth."""

    exact: bool
    reliable: bool
    error: float
    covered: float
    seconds: float
    names: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def confidently_wrong(self) -> bool:
        return self.reliable and not self.exact


def screen(library: Library, sources: list[Dataset], truth: dict[str, float]) -> ScreenOutcome:
    """Fit the sparse model and compare it with the truth; the time is that of the whole fit
    on one core.
    """
    start = time.process_time()
    fitted = Screening(method="subset").fit(Design.from_fields(library, sources))
    seconds = time.process_time() - start
    exact = set(fitted.names_) == set(truth)
    error = covered = float("nan")
    if exact:
        names = list(fitted.design_.names)
        index = [names.index(n) for n in truth]
        values = np.array(list(truth.values()))
        error = float(np.abs(fitted.coef_[index] / values - 1).max())
        low, high = fitted.intervals_[index].T
        covered = float(((low <= values) & (values <= high)).mean())
    return ScreenOutcome(
        exact, fitted.reliable_, error, covered, seconds, fitted.names_, tuple(fitted.reasons_)
    )


def gridded(example: cases.Example, ratio: float, seed: int, correlation: float = 0.0) -> Dataset:
    """Noisy data of one example."""
    noisy = cases.with_noise(example.values, ratio, seed, correlation)
    return Dataset.from_arrays({x: example.x, t: example.t}, {cases.u: noisy})


def identification(board: Board, seeds: int) -> None:
    """Burgers, KdV and Kuramoto–Sivashinsky at 50 % and 100 % noise with small and large
    libraries.
    """
    outcomes: list[ScreenOutcome] = []
    for example in cases.examples():
        for label, library, truth in (
            ("small", example.small, example.small_truth),
            ("43", example.large, example.large_truth),
        ):
            screen(
                library, [gridded(example, 0.5, 999)], truth
            )  # fills the caches of the symbolic part
            for ratio in (0.5, 1.0):
                runs = [
                    screen(library, [gridded(example, ratio, seed)], truth) for seed in range(seeds)
                ]
                outcomes += runs
                name = f"{example.name}/{label}/{ratio:.0%}"
                exact = sum(r.exact for r in runs)
                error = float(np.nanmean([r.error for r in runs]))
                seconds = float(np.median([r.seconds for r in runs]))
                board.line(
                    f"{name}: exact {exact}/{seeds}, believed {sum(r.reliable for r in runs)}, "
                    f"mean largest error {error:.3f}, "
                    f"coverage {np.nanmean([r.covered for r in runs]):.2f}, {seconds:.2f} s"
                )
                board.target(f"{name} exact share", exact / seeds, exact >= 0.9 * seeds, ">= 0.9")
                board.target(f"{name} coefficient error", error, error <= 0.08, "<= 0.08")
                board.target(f"{name} seconds per fit", seconds, seconds <= 0.5, "<= 0.5")
                for run in runs:
                    if not run.exact:
                        board.line(f"    {run.names} {run.reasons}")
    wrong = sum(r.confidently_wrong for r in outcomes)
    board.target("confidently wrong", wrong, wrong == 0, "0")
    coverage = float(np.nanmean([r.covered for r in outcomes]))
    board.target("coverage of 95 % intervals", coverage, coverage >= 0.9, ">= 0.9")


def meshes(board: Board, seeds: int) -> None:
    """Transport and diffusion on unstructured points in 2D and 3D, and incompressible flow
    with divergence-free test functions.
    """
    seeds = min(seeds, 5)
    points, times = cases.jittered_points(64, 2), np.linspace(0, 3, 61)
    clean = cases.moving_gaussians(points, times, (0.13, 0.09), 3e-4, (0.03, 0.06))
    truth = {"(u^1)_x": -0.13, "(u^1)_y": -0.09, "lap u": 3e-4}
    runs, diffusivities = [], []
    for seed in range(seeds):
        data = Dataset.from_points(points, times, {cases.u: cases.with_noise(clean, 0.5, seed)})
        library = cases.transport_library(2)
        runs.append(screen(library, [data], truth))
        design = Design.from_fields(library, data)
        fitted = refit(design, [design.names.index(n) for n in truth])
        diffusivities.append(fitted.coefficients[2] / 3e-4)
    report_runs(board, "2D unstructured, 50 % noise", runs, seeds)
    strong = 0
    for seed in range(seeds):
        data = Dataset.from_points(points, times, {cases.u: cases.with_noise(clean, 0.5, seed)})
        fitted = Screening(method="subset").fit(
            Design.from_fields(cases.transport_library(2), data, kind="strong")
        )
        strong += set(fitted.names_) == set(truth)
    board.line(f"2D unstructured, 50 % noise, strong form from local fits: exact {strong}/{seeds}")
    error = abs(float(np.mean(diffusivities)) - 1)
    board.target("2D unstructured: mean error of D", error, error <= 0.05, "<= 0.05")
    points, times = cases.jittered_points(20, 3), np.linspace(0, 2, 41)
    clean = cases.moving_gaussians(points, times, (0.15, 0.1, -0.05), 2e-3, (0.1, 0.16))
    truth = {"(u^1)_x": -0.15, "(u^1)_y": -0.1, "(u^1)_z": 0.05, "lap u": 2e-3}
    runs = [
        screen(
            cases.transport_library(3),
            [Dataset.from_points(points, times, {cases.u: cases.with_noise(clean, 0.2, s)})],
            truth,
        )
        for s in range(seeds)
    ]
    report_runs(board, "3D unstructured, 20 % noise", runs, seeds)
    xs, ys, times, velocity = cases.vortices()
    field_v, library = cases.vortex_library()
    truth = {"(v.grad)v": -1.0, "lap v": 0.02}
    runs = [
        screen(
            library,
            [
                Dataset.from_arrays(
                    {x: xs, y: ys, t: times},
                    {field_v: cases.with_noise(velocity, 0.2, s)},
                    projected=True,
                )
            ],
            truth,
        )
        for s in range(seeds)
    ]
    report_runs(board, "2D incompressible flow, pressure unknown, 20 % noise", runs, seeds)


def report_runs(board: Board, name: str, runs: list[ScreenOutcome], seeds: int) -> None:
    """Exact supports must come in every run and no believed model may be wrong."""
    exact = sum(r.exact for r in runs)
    board.line(
        f"{name}: exact {exact}/{seeds}, believed {sum(r.reliable for r in runs)}, "
        f"error {np.nanmean([r.error for r in runs]):.3f}, "
        f"{np.median([r.seconds for r in runs]):.2f} s"
    )
    board.target(f"{name}: exact", exact, exact == seeds, f"{seeds} of {seeds}")
    wrong = sum(r.confidently_wrong for r in runs)
    board.target(f"{name}: confidently wrong", wrong, wrong == 0, "0")


def heat(board: Board, seeds: int) -> None:
    """Single-mode heat data identify only κ − λ_k D; two modes identify both."""
    library = cases.heat_library()
    for kind in ("weak", "strong"):
        grid, times, values = cases.heat_modes({2: 1.0}, 0.3, 0.2)
        single = Design.from_fields(
            library, Dataset.from_arrays({x: grid, t: times}, {cases.u: values}), kind=kind
        )
        groups = single.alias_groups()
        fitted = Screening(method="subset").fit(single)
        board.line(f"single mode, {kind}: {[str(g) for g in groups]}; screen: {fitted.reasons_}")
        split = float(fitted.reliable_ or len(groups) != 1 or set(groups[0].terms) != {"u", "lap"})
        board.target(f"single mode split ({kind})", split, split == 0, "0")
        grid, times, values = cases.heat_modes({1: 1.0, 3: 0.7}, 0.3, 0.2)
        both = Design.from_fields(
            library, Dataset.from_arrays({x: grid, t: times}, {cases.u: values}), kind=kind
        )
        fitted = Screening(method="subset").fit(both)
        error = float(np.abs(fitted.coef_ / [0.3, 0.2] - 1).max())
        board.target(
            f"two modes: error of kappa and D ({kind})",
            error,
            error <= 1e-2 and not both.alias_groups(),
            "<= 0.01",
        )


def coherent(board: Board, seeds: int) -> None:
    """A design with coherence 0.989 and condition number 355 that is identifiable must not be
    refused.
    """
    random = np.random.default_rng(0)
    basis, _ = np.linalg.qr(random.standard_normal((4000, 4)))
    a, b, c, e = basis.T
    pair = 0.989 * a + np.sqrt(1 - 0.989**2) * b
    third = pair - a
    third = third / np.linalg.norm(third) + 0.0385 * c
    A = np.column_stack([a, pair, third / np.linalg.norm(third), e]) * np.sqrt(4000)
    condition = np.linalg.cond(A)
    beta = np.array([1.0, -2.0, 1.5, 0.0])
    y = A @ beta + 1e-3 * random.standard_normal(4000)
    fitted = Screening(method="subset").fit(Design.from_matrix(A, y, ["a", "b", "c", "d"]))
    board.line(
        f"coherence {fitted.design_.coherence():.3f}, condition {condition:.0f}: {fitted.names_}, "
        f"{fitted.reasons_}"
    )
    board.target(
        "coherent but identifiable: believed",
        float(fitted.reliable_),
        fitted.reliable_ and fitted.names_ == ("a", "b", "c"),
        "1",
    )


def correlated(board: Board, seeds: int) -> None:
    """48 runs with noise that is correlated over one or three grid points."""
    per_cell = max(1, round(0.4 * seeds))
    runs = []
    for example in cases.examples():
        for length in (1.0, 3.0):
            for ratio in (0.2, 0.5):
                cell = [
                    screen(
                        example.small,
                        [gridded(example, ratio, 800 + s, length)],
                        example.small_truth,
                    )
                    for s in range(per_cell)
                ]
                runs += cell
                exact, believed = sum(r.exact for r in cell), sum(r.reliable for r in cell)
                board.line(
                    f"{example.name}, correlation {length:.0f}, {ratio:.0%}: exact "
                    f"{exact}/{per_cell}, believed {believed}"
                )
    share = float(np.mean([not r.confidently_wrong for r in runs]))
    board.target(
        f"correlated noise, {len(runs)} runs: not confidently wrong",
        share,
        share >= 0.95,
        ">= 0.95",
    )


def correlated_points(board: Board, seeds: int) -> None:
    """48 runs on scattered points with noise that is correlated along the mesh, in time, or
    both.
    """
    points, times = cases.jittered_points(64, 2), np.linspace(0, 3, 61)
    clean = cases.moving_gaussians(points, times, (0.13, 0.09), 3e-4, (0.03, 0.06))
    truth = {"(u^1)_x": -0.13, "(u^1)_y": -0.09, "lap u": 3e-4}
    per_cell = max(1, round(0.4 * seeds))
    runs, noticed, short = [], 0, 0
    for along, time_length in (
        (1.0, 0.0),
        (0.0, 1.0),
        (1.0, 1.0),
        (3.0, 0.0),
        (0.0, 3.0),
        (3.0, 3.0),
    ):
        for ratio in (0.2, 0.5):
            cell = []
            for seed in range(900, 900 + per_cell):
                noisy = cases.with_point_noise(points, clean, ratio, seed, along, time_length)
                data = Dataset.from_points(points, times, {cases.u: noisy})
                cell.append(screen(cases.transport_library(2), [data], truth))
                if max(along, time_length) <= 1:
                    noticed, short = noticed + bool(data.notes["correlation_lengths"]), short + 1
            runs += cell
            exact, believed = sum(r.exact for r in cell), sum(r.reliable for r in cell)
            board.line(
                f"points, correlation {along:.0f} × {time_length:.0f}, {ratio:.0%}: exact "
                f"{exact}/{per_cell}, believed {believed}"
            )
    share = float(np.mean([not r.confidently_wrong for r in runs]))
    board.target(
        f"correlated noise at points, {len(runs)} runs: not confidently wrong",
        share,
        share >= 0.95,
        ">= 0.95",
    )
    board.target(
        "correlation over one point or reading noticed", noticed / short, noticed == short, "1"
    )


def quiet(board: Board, seeds: int) -> None:
    """Weak noise: the time of a fit, and the truth still found."""
    seeds = max(1, seeds // 3)
    for example in cases.examples():
        for label, library, truth in (
            ("small", example.small, example.small_truth),
            ("43", example.large, example.large_truth),
        ):
            for ratio in (0.0, 0.01, 0.05):
                screen(
                    library, [gridded(example, ratio, 999)], truth
                )  # fills the caches of the symbolic part
                runs = [
                    screen(library, [gridded(example, ratio, seed)], truth) for seed in range(seeds)
                ]
                seconds, exact = (
                    float(np.median([r.seconds for r in runs])),
                    sum(r.exact for r in runs),
                )
                name = f"{example.name}/{label}/{ratio:.0%}"
                board.line(
                    f"{name}: believed {sum(r.reliable for r in runs)}/{seeds}, error "
                    f"{max(r.error for r in runs):.5f}"
                )
                board.target(f"{name} exact share", exact / seeds, exact == seeds, "1")
                board.target(f"{name} seconds per fit", seconds, seconds <= 0.5, "<= 0.5")


def missing(board: Board, seeds: int) -> None:
    """48 runs whose library lacks a true term."""
    per_cell = max(1, round(0.4 * seeds))
    runs = []
    for example in cases.examples():
        for dropped in list(example.small_truth)[:2]:
            library = Library(
                anchor=example.small.anchor,
                terms={n: e for n, e in example.small.terms.items() if n != dropped},
            )
            for ratio in (0.2, 1.0):
                cell = [
                    screen(library, [gridded(example, ratio, 700 + s)], example.small_truth)
                    for s in range(per_cell)
                ]
                runs += cell
                board.line(
                    f"{example.name} without {dropped}, {ratio:.0%}: believed "
                    f"{sum(r.reliable for r in cell)}/{per_cell}"
                )
    share = float(np.mean([not r.reliable for r in runs]))
    board.target(
        f"missing term, {len(runs)} runs: not confidently wrong", share, share >= 0.95, ">= 0.95"
    )


def trajectories(board: Board, seeds: int) -> None:
    """A missing term without probes for it: what one trajectory hides, a second one with
    other initial data shows.
    """
    per_cell = max(1, round(0.4 * seeds))
    pairs = [
        (
            "Burgers",
            cases.burgers(),
            cases.burgers(two_pulses=True),
            cases.small_library(2),
            ("u u_x", "u_xx"),
        ),
        (
            "KdV",
            cases.korteweg_de_vries(),
            cases.korteweg_de_vries((1.8, 0.3), (-22.0, -5.0)),
            cases.small_library(3),
            ("u u_x", "u_xxx"),
        ),
    ]
    believed = {"one": 0, "two": 0}
    count = 0
    for _name, first, second, full, drops in pairs:
        for dropped in drops:
            library = Library(
                anchor=full.anchor, terms={n: e for n, e in full.terms.items() if n != dropped}
            )
            for ratio, seed in ((r, s) for r in (0.2, 1.0) for s in range(700, 700 + per_cell)):
                data = [
                    Dataset.from_arrays(
                        {x: g, t: times}, {cases.u: cases.with_noise(v, ratio, seed + 50 * k)}
                    )
                    for k, (g, times, v) in enumerate((first, second))
                ]
                for label, sources in (("one", data[:1]), ("two", data)):
                    design = Design.from_fields(library, sources)
                    blind = design.select(design.names)  # forgets the probes
                    believed[label] += Screening(method="subset").fit(blind).reliable_
                count += 1
    board.line(
        f"missing term, no probes, {count} runs: believed {believed['one']} with one trajectory, "
        f"{believed['two']} with two"
    )
    share = 1 - believed["two"] / count
    board.target(
        "missing term, two trajectories, no probes: not confidently wrong",
        share,
        share >= 0.95,
        ">= 0.95",
    )


def brackets(board: Board, seeds: int) -> None:
    """Restricted-eigenvalue brackets of random and real designs."""
    from cffem.design.cone import restricted_eigenvalue

    random = np.random.default_rng(0)
    ratios, slowest = [], 0.0
    grams = []
    for _ in range(12):
        m = int(random.integers(5, 13))
        A = random.standard_normal((int(random.integers(m + 2, 5 * m)), m))
        grams.append(A / np.sqrt((A**2).mean(axis=0)))
    sigmas = [A.T @ A / len(A) for A in grams]
    for example in cases.examples():
        design = Design.from_fields(example.small, gridded(example, 0.2, 0))
        sigmas.append(design.select(design.names[:12]).normalised_gram())
    for sigma in sigmas:
        for s in (1, 2, 3):
            start = time.monotonic()
            ratios.append(restricted_eigenvalue(sigma, s).ratio)
            slowest = max(slowest, time.monotonic() - start)
    board.target(
        "restricted eigenvalue: median upper/lower",
        float(np.median(ratios)),
        np.median(ratios) <= 1.5,
        "<= 1.5",
    )
    board.target("restricted eigenvalue: slowest in seconds", slowest, slowest <= 10, "<= 10")


class Expressions:
    """A source of rows that evaluates twelve expressions of random fields, for the cost of
    streaming.
    """

    def __init__(self, blocks: int, rows: int) -> None:
        self.blocks, self.size = blocks, rows

    def evaluate(self, block: int) -> np.ndarray:
        s = np.linspace(block, block + 1, self.size)
        u, v = np.sin(7 * s), np.cos(3 * s) * s
        return np.column_stack(
            [
                u,
                v,
                u * v,
                u**2,
                v**2,
                u**3,
                np.exp(-u),
                np.sin(v),
                u * v**2,
                u**2 * v,
                np.sqrt(1 + u**2),
                v**3,
            ]
        )

    def rows(self, library: Any, kind: str) -> Any:
        from cffem.design import RowBlock

        for block in range(self.blocks):
            A = self.evaluate(block)
            yield RowBlock(A, A[:, 0] - A[:, 3], block=block % 12)


def streaming(board: Board, seeds: int) -> None:
    """10⁷ rows × 12 columns: memory and the price of streaming."""
    import resource
    from types import SimpleNamespace

    source = Expressions(200, 50_000)
    library = SimpleNamespace(anchor=None, terms={f"t{k}": None for k in range(12)})
    in_memory = source.evaluate(0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    design = Design.from_fields(library, source)
    streamed = time.process_time() - start
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    start = time.process_time()
    for block in range(source.blocks):
        source.evaluate(block)
    evaluated = time.process_time() - start
    start = time.process_time()
    for _ in range(source.blocks):
        in_memory.T @ in_memory
    folded = time.process_time() - start
    board.line(
        f"{design.rows} rows: streamed in {streamed:.2f} s, evaluation {evaluated:.2f} s, Gram in "
        f"memory {folded:.2f} s"
    )
    board.target(
        "streaming: time ratio",
        streamed / (evaluated + folded),
        streamed <= 1.5 * (evaluated + folded),
        "<= 1.5",
    )
    board.target("streaming: memory growth in MB", growth, growth < 200, "< 200")


SECTIONS: dict[str, Callable[[Any, int], None]] = {
    "families": identify_families,
    "lacking": lacking_terms,
    "null": null_fields,
    "flow": flows,
    "frames": few_frames,
    "drawn": other_frames,
    "strangers": identify_strangers,
    "sensors": many_sensors,
    "peer": peers,
    "streaming": streaming,
    "identification": identification,
    "meshes": meshes,
    "heat": heat,
    "coherent": coherent,
    "correlated": correlated,
    "points": correlated_points,
    "quiet": quiet,
    "missing": missing,
    "trajectories": trajectories,
    "brackets": brackets,
}


def code_state() -> str:
    """A digest of the sources of the package and of the benchmarks: the same on the same code."""
    top = Path(__file__).parents[2]
    files = sorted(f for part in ("cffem", "benchmarks") for f in (top / part).rglob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.relative_to(top).as_posix().encode() + file.read_bytes())
    return f"sources {digest.hexdigest()[:12]}"


def command_of(arguments: Sequence[str]) -> str:
    """The command without the files that it writes.

    Example:
        >>> command_of(["--only", "heat", "--json", "figures.json"])
        'cffem bench screening --only heat'
    """
    files = {k + 1 for k, word in enumerate(arguments) if word in ("--json", "--page")}
    kept = [w for k, w in enumerate(arguments) if k not in files and k + 1 not in files]
    return " ".join(["cffem bench screening", *kept])


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="cffem bench screening",
        description="Identification from noisy data against known truth.",
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=10,
        help="noise draws per case (default 10; families take at most 5)",
    )
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), help="run only these sections")
    parser.add_argument(
        "--families",
        nargs="+",
        choices=list(families()),
        help="of the first sections only these families",
    )
    parser.add_argument(
        "--json", type=Path, help="write the figures and the records of all runs to this file"
    )
    parser.add_argument(
        "--join", nargs="+", type=Path, default=[], help="take the records of such files, too"
    )
    parser.add_argument(
        "--page", type=Path, help="write the records as a page, docs/identification.md say"
    )
    options = parser.parse_args(list(arguments))
    board = Identification(chosen=tuple(options.families or ()))
    for name in options.only or ([] if options.join else SECTIONS):
        board.line(f"== {name}")
        SECTIONS[name](board, options.seeds)
    board.line(
        f"{len(board.figures)} figures, {len(board.missed)} missed"
        + (": " + "; ".join(board.missed) if board.missed else "")
    )
    if options.json:
        written = {"figures": board.figures, "missed": board.missed, "records": board.to_plain()}
        written["command"] = command_of(arguments)
        written["state"] = code_state()
        options.json.write_text(json.dumps(written, indent=1))
    if options.page:
        parts = [json.loads(file.read_text()) for file in options.join]
        joined = [Record(**r) for part in parts for r in part["records"]]
        figures = {name: figure for part in parts for name, figure in part["figures"].items()}
        runs = [(part.get("command", "not recorded"), part.get("state", "")) for part in parts]
        if not parts or options.only:
            runs.append((command_of(arguments), code_state()))
        options.page.write_text(page([*joined, *board.records], {**figures, **board.figures}, runs))
    return 1 if board.missed else 0
