# SPDX-License-Identifier: MIT
"""What every rank of `cffem bench scale` runs: one problem of one size; rank 0 prints a line of
JSON.

Usage: scale_worker.py WHAT PROBLEM UNKNOWNS FOLDER, WHAT being cffem, resume or hand.
"""

from __future__ import annotations

import ctypes
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from mpi4py import MPI

COMM = MPI.COMM_WORLD


def memory() -> float:
    """The largest resident memory of this rank so far, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def counted() -> dict[str, list[float]]:
    """Calls and bytes of MPI on this rank so far, by kind; nothing without the counting library."""
    try:
        count = ctypes.CDLL(None).cffem_count
    except AttributeError:
        return {}
    count.restype = ctypes.c_double
    kinds = ("point to point", "reductions", "gathers", "exchanges", "broadcasts")
    return {kind: [count(k, 0), count(k, 1)] for k, kind in enumerate(kinds)}


class Laps:
    """Processor seconds and calls of MPI of the pieces of a run, the most of all ranks."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, dict[str, list[float]]] = {}
        self._since, self._before = time.process_time(), counted()

    def lap(self, name: str) -> None:
        now, count = time.process_time(), counted()
        self.seconds[name] = COMM.allreduce(now - self._since, op=MPI.MAX)
        self.calls[name] = {
            kind: [
                COMM.allreduce(after - before, op=MPI.MAX)
                for after, before in zip(count[kind], self._before[kind], strict=True)
            ]
            for kind in count
        }
        COMM.Barrier()
        self._since, self._before = time.process_time(), counted()


def run(problem: str, unknowns: int, folder: Path, resume: bool) -> dict[str, Any]:
    """Factual solution, four deletions, store and read again."""
    import numpy as np

    from benchmarks.scale.scale_problems import EPSILON, PROBLEMS

    laps, start = Laps(), memory()
    model = PROBLEMS[problem](COMM, unknowns)
    path = folder / f"{problem}-{unknowns}.npz"
    laps.lap("set up")
    if resume:
        model.take_factual_from(lambda: model.restore(path))
    factual = model.factual
    laps.lap("read" if resume else "factual")
    deletions = model.deletions()
    scores = {name: float(d.score) for name, d in deletions.items()}
    laps.lap("deletions")
    size = factual.norm()
    if not resume:
        factual.store(path)
        laps.lap("store")
        again = model.restore(path)
        worst = max(
            float(np.abs(a - b).max(initial=0.0))
            for a, b in zip(again.states, factual.states, strict=True)
        )
        assert COMM.allreduce(worst, op=MPI.MAX) == 0.0
        laps.lap("read")
    record = factual.record
    most = COMM.allgather(memory())
    return {
        "unknowns": model.spaces.size,
        "ranks": COMM.size,
        "scores": {name: score / size for name, score in scores.items()},
        "relevant": sorted(name for name, score in scores.items() if score > EPSILON * size),
        "status": {name: d.status for name, d in deletions.items()},
        "solvers": {name: d.record.solver for name, d in deletions.items()},
        "iterations": record.iterations / max(record.solves, 1),
        "iterations of deletions": {
            name: d.record.iterations / max(d.record.solves, 1) for name, d in deletions.items()
        },
        "seconds": laps.seconds,
        "calls": laps.calls,
        "megabytes": max(most),
        "megabytes at the start": start,
        "bytes per unknown and rank": (max(most) - start) * 2**20 / (model.spaces.size / COMM.size),
        "file": path.stat().st_size if COMM.rank == 0 else 0,
    }


def by_hand(problem: str, unknowns: int) -> dict[str, Any]:
    """The loop in DOLFINx."""
    from benchmarks.scale.scale_by_hand import BY_HAND

    start, since = memory(), time.process_time()
    size = BY_HAND[problem](COMM, unknowns)
    return {
        "unknowns": size,
        "ranks": COMM.size,
        "seconds": {"all": COMM.allreduce(time.process_time() - since, op=MPI.MAX)},
        "megabytes": COMM.allreduce(memory(), op=MPI.MAX),
        "megabytes at the start": start,
    }


def main(what: str, problem: str, unknowns: str, folder: str) -> None:
    if what == "hand":
        found = by_hand(problem, int(unknowns))
    else:
        found = run(problem, int(unknowns), Path(folder), resume=what == "resume")
    if COMM.rank == 0:
        print(json.dumps({"what": what, "problem": problem, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
