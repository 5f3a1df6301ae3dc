# SPDX-License-Identifier: MIT
"""What a second rank gains for a sweep, fairly: against two single-rank jobs of the same sweep that
share the machine.

A sweep on one rank alone on a machine has its memory and caches for itself; compared with that, two
ranks would be blamed for what any two programs do to each other. So both sides run on two processes
that start together: first each process sweeps alone, all deletions on its own communicator, then
both sweep together, deletions split over groups of ranks. The gain is the mean wall time of the
first over that of the second, start-up, compilation and the factual solve left out; the repeats
alternate, so that other work on the machine meets both alike. Groups have copies of the model,
which are made once: by the factual solve, where each rank solves it for itself, or else by the
first sweep. So the first sweep after the factual solve and the next one are shown apart, and beside
them the factual solve of both sides, from the mesh on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.sweep.sweep_problems import PROBLEMS
from cffem.doctor import environment_of_ranks

ACCURACY = 1e-4
# Scores of direct solves are equal on any number of ranks up to this, relative to the score and to
# the solution.
EQUAL, ROUNDING = 1e-10, 1e-12
# What is asked of the sweep: scores to working precision by direct solves, to an accuracy, or
# verdicts.
DEMANDS = ("exact", "accuracy", "decide")
SIZES = {
    "transient": (96, 48),
    "transient-3d": (11, 24),
    "maxwell": (10, 30),
    "nonlinear": (40, 16),
    "steady": (192, 0),
}
TINY = {
    "transient": (8, 4),
    "transient-3d": (3, 3),
    "maxwell": (3, 4),
    "nonlinear": (6, 3),
    "steady": (8, 0),
}


def asked(demand: str, scores: Mapping[str, float] | None) -> dict[str, Any]:
    """The arguments of `Model.deletions` for a demand; a verdict's threshold lies in the
    widest gap between known scores.
    """
    from benchmarks.sweep.sweep_bench import thresholds

    if demand == "decide":
        return {"scores": "decide", "epsilon": thresholds(scores or {})["far"]}
    return {"accuracy": ACCURACY if demand == "accuracy" else 0.0}


def seconds_of(
    comm: Any, model: Any, demand: Mapping[str, Any], groups: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Wall and processor seconds of a sweep on all ranks, from a common start to the end of
    each, and its deletions.
    """
    comm.Barrier()
    start = np.array([perf_counter(), process_time()])
    sweep = model.deletions(**demand, groups=groups)
    return np.array(comm.allgather(np.array([perf_counter(), process_time()]) - start)), dict(sweep)


def solved(comm: Any, make: Callable[[Any], Any], where: Any) -> tuple[Any, np.ndarray]:
    """A model with its factual solution, and what it took all ranks from a common start, mesh
    and forms included.
    """
    comm.Barrier()
    start = np.array([perf_counter(), process_time()])
    model = make(where)
    _ = model.factual
    return model, np.array(comm.allgather(np.array([perf_counter(), process_time()]) - start))


def measure(name: str, n: int, steps: int, comm: Any, repeats: int) -> list[dict[str, Any]]:
    """The sweeps of one problem, separately and together; collective."""
    from mpi4py import MPI

    problem = PROBLEMS[name]()
    about = {"problem": name, "title": problem.title, "steps": steps, "ranks": comm.size}
    rows = []
    with problem.model(n, steps, MPI.COMM_SELF) as alone:
        size, unknowns = alone.factual.norm(), alone.spaces.size
        exact = {term: found.score for term, found in alone.deletions(groups=1).items()}
    for demand in DEMANDS:
        wanted = asked(demand, comm.bcast(exact))
        times, one, both = _timed(
            comm, lambda where: problem.model(n, steps, where), wanted, repeats, size
        )
        least = {which: np.min(found, axis=0) for which, found in times.items()}
        rows.append(
            {
                **about,
                "demand": demand,
                "unknowns": unknowns,
                "wall and processor seconds": times,
                "gain": (least["separately"] / least["together"]).tolist(),
                "gain, first": (least["separately"] / least["first"]).tolist(),
                "strategies": sorted({found.strategy for found in both.values()}),
                **_compared(one, both, exact, size, wanted.get("epsilon")),
            }
        )
    return rows


def _timed(
    comm: Any, make: Callable[[Any], Any], wanted: Mapping[str, Any], repeats: int, size: float
) -> tuple[dict[str, list[list[float]]], dict[str, Any], dict[str, Any]]:
    """Wall and processor seconds of all repeats, each from the mesh on, and the deletions of
    both sides.
    """
    from mpi4py import MPI

    times: dict[str, list[list[float]]] = {}
    for _ in range(repeats):
        for where, names in ((MPI.COMM_SELF, ("separately",)), (comm, ("first", "together"))):
            model, spent = solved(comm, make, where)
            side = "together" if where is comm else "separately"
            times.setdefault(f"factual, {side}", []).append(spent.max(axis=0).tolist())
            for which in names:
                spent, sweep = seconds_of(comm, model, wanted, where.size)
                times.setdefault(which, []).append(
                    (spent.max(axis=0) if where is comm else spent.mean(axis=0)).tolist()
                )
            assert abs(model.factual.norm() - size) <= 1e-8 * size
            model.destroy()
            if where is comm:
                both = sweep
            else:
                one = sweep
    return times, one, both


def _compared(
    one: Mapping[str, Any],
    both: Mapping[str, Any],
    exact: Mapping[str, float],
    size: float,
    epsilon: float | None,
) -> dict[str, Any]:
    """How far the scores are apart, and whether that is within what was promised; of sweeps
    that only decide, the verdicts.
    """
    if epsilon is not None:
        same = all(
            (one[term].score > epsilon) == (both[term].score > epsilon) == (exact[term] > epsilon)
            for term in exact
        )
        return {"difference": None, "equal": same}
    differences = {term: abs(one[term].score - both[term].score) for term in exact}
    allowed = {
        term: max(EQUAL, one[term].error and 2 * ACCURACY) * exact[term] + ROUNDING * size
        for term in exact
    }
    worst = max(differences[term] / exact[term] for term in exact)
    return {"difference": worst, "equal": all(differences[term] <= allowed[term] for term in exact)}


def run(
    tiny: bool = False,
    problems: Sequence[str] = ("transient", "maxwell", "nonlinear"),
    ranks: int = 2,
) -> dict[str, Any]:
    """Measure under `mpirun`, one run for each problem."""
    rows: list[dict[str, Any]] = []
    for name in problems:
        n, steps = TINY[name] if tiny else SIZES[name]
        command = [
            "mpirun",
            "-n",
            str(ranks),
            sys.executable,
            "-m",
            "benchmarks.sweep.sweep_ranks",
            name,
            str(n),
            str(steps),
        ]
        command += ["--repeats", "1" if tiny else "3"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment_of_ranks(), check=False
        )
        if done.returncode:
            return {
                "skipped": f"mpirun ended with {done.returncode}: {done.stderr.strip()[-500:]}",
                "rows": rows,
            }
        rows += json.loads(done.stdout.strip().splitlines()[-1])
    return {"ranks": ranks, "rows": rows}


INTRODUCTION = f"""Wall seconds of a sweep after the factual solve: two single-rank jobs that run
it at the same time (each all deletions), and one job on two ranks (deletions split over groups
of ranks); the least of the repeats. The gain is their quotient, in brackets that of processor
seconds, of which waiting ranks use some. *First*: the first sweep after the factual solve; where
that was solved on all ranks together, the groups get their copies of mesh, matrices and factual
solution then, and keep them for the next sweep. *Factual*: the factual solve itself, from the
mesh on, of each of the two jobs and on two ranks. *Exact*: scores to working precision;
*accuracy*: to {ACCURACY:g}; *decide*: verdicts only."""
HEAD = (
    "problem",
    "unknowns × steps",
    "asked",
    "strategy",
    "two jobs, each",
    "two ranks",
    "two ranks, first",
    "gain",
    "gain, first",
    "factual, two jobs",
    "factual, two ranks",
    "same result",
)


def section(result: Mapping[str, Any]) -> str:
    """The result as a section of the page."""
    lines = ["## Two ranks", ""]
    if "skipped" in result:
        return "\n".join([*lines, result["skipped"] + ".", ""])
    lines += [
        *textwrap.wrap(INTRODUCTION, 120),
        "",
        "| " + " | ".join(HEAD) + " |",
        "|---" * len(HEAD) + "|",
    ]
    for row in result["rows"]:
        cells = [
            row["title"],
            f"{row['unknowns']} × {row['steps'] or 1}",
            row["demand"],
            ", ".join(row["strategies"]),
        ]
        times = row["wall and processor seconds"]
        cells += [
            f"{min(wall for wall, _ in times[which]):.2f} s"
            for which in ("separately", "together", "first")
        ]
        cells += [
            f"{wall:.2f}× ({processor:.2f}×)"
            for wall, processor in (row["gain"], row["gain, first"])
        ]
        cells += [
            f"{min(wall for wall, _ in times[f'factual, {side}']):.2f} s"
            for side in ("separately", "together")
        ]
        cells += ["yes" if row["equal"] else "NO"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """One measurement on the ranks that `mpirun` started; rank 0 prints it as JSON."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep.sweep_ranks", description=str(__doc__).split("\n", 1)[0]
    )
    parser.add_argument("problem", choices=list(SIZES))
    parser.add_argument("cells", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    comm = MPI.COMM_WORLD
    size = (options.cells, options.steps)
    if size != TINY[options.problem]:
        measure(
            options.problem, *TINY[options.problem], comm, 1
        )  # so that everything is compiled and loaded
    rows = measure(options.problem, *size, comm, options.repeats)
    if comm.rank == 0:
        print(json.dumps(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
