# SPDX-License-Identifier: MIT
"""Three problems at growing sizes and on growing numbers of ranks: iterations, time, memory,
messages.

Each run is a process of its own under `mpirun`, so that memory is that of one size. On two ranks
sizes double; beside the largest stands the loop by hand in DOLFINx. On 2 to 16 ranks, which share
the cores of this machine, one small size is solved for the verdicts and for counting calls of MPI.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import Board, bench_parser, machine

SIZES = {
    "heat": (125_000, 250_000, 500_000, 1_000_000),
    "maxwell": (35_000, 70_000, 140_000, 280_000),
    "stokes": (40_000, 80_000, 160_000, 320_000),
}
TINY = {"heat": (500, 1_000), "maxwell": (400, 800), "stokes": (500, 1_000)}
RANKS, SMALL = (2, 4, 8, 16), 20_000
WORKER = Path(__file__).with_name("scale_worker.py")
COUNTER = Path(__file__).with_name("count_mpi.c")


def counter(folder: Path) -> str:
    """The library that counts calls of MPI; empty where it cannot be compiled."""
    target = folder / "count_mpi.so"
    command = ["mpicc", "-shared", "-fPIC", "-O1", str(COUNTER), "-o", str(target)]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError):
        return ""
    return str(target)


def launched(ranks: int, what: str, problem: str, unknowns: int, folder: Path) -> dict[str, Any]:
    """The figures of one run under mpirun."""
    from cffem.doctor import environment_of_ranks

    environment = environment_of_ranks()
    root = str(WORKER.parents[2])
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    environment.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")
    library = folder / "count_mpi.so"
    counting = ["env", f"LD_PRELOAD={library}"] if library.exists() else []
    command = ["mpirun", "-n", str(ranks), *counting, sys.executable, str(WORKER), what, problem,
               str(unknowns), str(folder)]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3000)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(
            f"{what} {problem} with {unknowns} unknowns on {ranks} ranks ended with "
            f"{done.returncode}: {done.stderr[-2000:]}"
        )
    return json.loads(lines[-1])


def doublings(board: Board, problem: str, sizes: Sequence[int], folder: Path) -> dict[str, Any]:
    """One problem on two ranks at growing sizes, and by hand at the largest."""
    rows = []
    for unknowns in sizes:
        row = launched(2, "cffem", problem, unknowns, folder)
        board.line(
            f"{problem} {row['unknowns']} unknowns: {row['iterations']:.1f} iterations, "
            f"{sum(row['seconds'].values()):.1f} s, {row['megabytes']:.0f} MB a rank"
        )
        rows.append(row)
    first, last = rows[0], rows[-1]
    times = {
        row["unknowns"]: row["seconds"]["factual"] + row["seconds"]["deletions"] for row in rows
    }
    steps = math.log2(last["unknowns"] / first["unknowns"])
    per = (times[last["unknowns"]] / times[first["unknowns"]]) ** (1 / steps)
    board.target(f"{problem}: time for twice the unknowns", per, per <= 2.2, "at most 2.2")
    growth = last["iterations"] / first["iterations"]
    board.target(f"{problem}: growth of iterations", growth, growth <= 1.3, "at most 1.3")
    again = launched(2, "resume", problem, sizes[-1], folder)
    apart = max(abs(again["scores"][k] / score - 1) for k, score in last["scores"].items())
    board.target(f"{problem}: resumed scores differ by", apart, apart <= 1e-7, "at most 1e-7")
    return {"rows": rows, "resumed": again}


def beside_hand(board: Board, row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Memory beside the loop by hand."""
    hand = launched(2, "hand", row["problem"], row["unknowns"], folder)
    ratio = row["megabytes"] / hand["megabytes"]
    board.target(f"{row['problem']}: memory by hand", ratio, ratio <= 2.0, "at most 2")
    return hand


def many_ranks(
    board: Board, problem: str, ranks: Sequence[int], unknowns: int, folder: Path
) -> list[dict[str, Any]]:
    """One size on more ranks than there are cores: verdicts, scores, and calls of MPI."""
    rows = [launched(count, "cffem", problem, unknowns, folder) for count in ranks]
    first = rows[0]
    same = all(row["relevant"] == first["relevant"] for row in rows)
    board.target(f"{problem}: same verdicts on {ranks} ranks", float(same), same, "1")
    worst = max(
        abs(row["scores"][name] / score - 1)
        for row in rows
        for name, score in first["scores"].items()
    )
    board.target(f"{problem}: scores differ by", worst, worst <= 1e-6, "at most 1e-6")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is asked for and write `scale.json` into the folder for the results."""
    parser = bench_parser("scale", __doc__, "problem", SIZES)
    parser.add_argument("--largest", type=float, default=math.inf, help="unknowns at most")
    parser.add_argument(
        "--presets", help="only iterations of the presets at these sizes, separated by commas"
    )
    options = parser.parse_args(arguments)
    board = Board()
    if options.presets:
        from benchmarks.scale.scale_presets import iterations

        counts = iterations([int(float(size)) for size in options.presets.split(",")], board.line)
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "presets.json").write_text(json.dumps(counts, indent=1))
        return 0
    found: dict[str, Any] = {"machine": machine()}
    sizes = TINY if options.tiny else SIZES
    ranks, small = ((1, 2), 500) if options.tiny else (RANKS, SMALL)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        found["counted"] = bool(counter(folder))
        for problem in options.problems:
            chosen = [size for size in sizes[problem] if size <= options.largest]
            part = doublings(board, problem, chosen, folder)
            if problem == "heat":
                part["by hand"] = beside_hand(board, part["rows"][-1], folder)
            part["ranks"] = many_ranks(board, problem, ranks, small, folder)
            found[problem] = part
    options.out.mkdir(parents=True, exist_ok=True)
    found |= {"figures": board.figures, "missed": board.missed}
    (options.out / "scale.json").write_text(json.dumps(found, indent=1))
    board.line(f"missed: {', '.join(board.missed) or 'nothing'}")
    return int(bool(board.missed) and not options.tiny)
