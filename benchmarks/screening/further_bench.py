# SPDX-License-Identifier: MIT
"""Few frames, families on which no gate was developed, and the cost of many scattered sensors."""

from __future__ import annotations

import numpy as np

from benchmarks.measuring import timed
from benchmarks.screening import screening_data as classics
from benchmarks.screening.drawn_frames import drawn_frames
from benchmarks.screening.further_data import (
    FRAMES,
    few_frame_problems,
    frame_times,
    strangers,
)
from benchmarks.screening.further_data import many_sensors as sensors_and_grid
from benchmarks.screening.identification_bench import (
    Identification,
    Record,
    fitted,
    runs_of,
    share,
)
from cffem.data import Dataset
from cffem.design import Design
from cffem.screening import Screening
from cffem.symbols.coordinates import t, x, y

ACCURACY = 5e-3
SENSORS, READINGS, LARGEST_RATIO = 20_000, 50, 20.0
FLOW_END, FLOW_STEPS = 1.0, 100
DRAWN_SEED = 9100  # draws of 7001 to 7003 were looked at


def few_frames(board: Identification, seeds: int) -> None:
    """Noise-free data in 5 to 12 frames at equal, growing and random times."""
    runs = [
        fitted("frames", f"{problem.name}, {kind}", problem.library, problem.dataset(times),
               problem.truth, 0.0, count)
        for problem in few_frame_problems()
        for count in FRAMES
        for kind, times in frame_times(count, problem.end)
    ]  # fmt: skip
    runs += flow_frames()
    board.records += runs
    right = [r for r in runs if is_right(r)]
    for run in runs:
        if not is_right(run):
            board.line(f"    {run.case}, {run.seed} frames: {run.names} {run.error} {run.reasons}")
    wrong = sum(r.believed and not r.exact for r in runs)
    board.target(f"few frames, {len(runs)} runs: believed and inexact", wrong, wrong == 0, "0")
    board.target(
        "few frames: exact, believed, within 0.5 % and covered",
        len(right) / len(runs),
        len(right) == len(runs),
        "1",
    )


def other_frames(board: Identification, seeds: int) -> None:
    """The same for other equations, whose coefficients, data and times are drawn."""
    runs = [
        fitted("drawn", f"{problem.name}, {kind}", problem.library, problem.dataset(times),
               problem.truth, 0.0, count)
        for problem, count, kind, times in drawn_frames(DRAWN_SEED)
    ]  # fmt: skip
    board.records += runs
    for run in runs:
        if not is_right(run):
            board.line(f"    {run.case}, {run.seed} frames: {run.names} {run.error} {run.reasons}")
    wrong, right = sum(r.believed and not r.exact for r in runs), sum(map(is_right, runs))
    board.target(f"drawn frames, {len(runs)} runs: believed and inexact", wrong, wrong == 0, "0")
    board.target(
        "drawn frames: exact, believed, within 0.5 % and covered",
        right / len(runs),
        right == len(runs),
        "1",
    )


def is_right(run: Record) -> bool:
    """Whether a run is believed, and all coefficients are accurate and in their intervals."""
    accurate = run.error is not None and run.error <= ACCURACY
    return run.exact and run.believed and accurate and run.covered == run.intervals


def flow_frames() -> list[Record]:
    """Incompressible flow in few frames, whose pressure is not known."""
    velocity_field, library = classics.vortex_library()
    xs, ys, times, velocity = classics.vortices(steps=FLOW_STEPS + 1, end=FLOW_END)
    found = []
    for count in FRAMES:
        for kind, when in frame_times(count, FLOW_END):
            kept = np.unique(np.round(FLOW_STEPS * when / FLOW_END).astype(int))
            if len(kept) < count:
                continue
            values = {velocity_field: velocity[..., kept]}
            data = Dataset.from_arrays({x: xs, y: ys, t: times[kept]}, values, projected=True)
            truth = {"(v.grad)v": -1.0, "lap v": 0.02}
            found.append(fitted("frames", f"flow, 2D, {kind}", library, data, truth, 0.0, count))
    return found


def identify_strangers(board: Identification, seeds: int) -> None:
    """Families on which no gate was developed, at all noise levels."""
    runs = []
    for family in strangers():
        part = [r.renamed("strangers") for r in runs_of(family, seeds)]
        board.line(
            f"{family.name}: exact {sum(r.exact for r in part)}/{len(part)}, believed "
            f"{sum(r.believed for r in part)}, confidently wrong {sum(r.wrong for r in part)}"
        )
        runs += part
    board.records += runs
    for name, wrong in (
        ("confidently wrong", share(r.wrong for r in runs)),
        ("believed without being exact", share(r.believed and not r.exact for r in runs)),
    ):
        board.target(f"strangers, {len(runs)} runs: {name}", wrong, wrong <= 0.01, "<= 0.01")


def many_sensors(board: Identification, seeds: int) -> None:
    """The time of many random sensors beside that of a grid of the same size."""
    library, scattered, gridded = sensors_and_grid(SENSORS, READINGS)
    seconds = []
    for data in (gridded, scattered):
        screen, spent = timed(lambda d=data: Screening().fit(Design.from_fields(library, d)))
        seconds.append(spent)
        board.line(f"  {spent:.2f} s of processor time: {screen.names_}")
    ratio = seconds[1] / seconds[0]
    name = f"{SENSORS} sensors x {READINGS} times: time relative to a grid"
    board.target(name, ratio, ratio <= LARGEST_RATIO, f"<= {LARGEST_RATIO:.0f}")
