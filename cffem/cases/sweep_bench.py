"""`cffem bench sweep`: what all deletions cost, in units of one efficient factual solve, measured in one run.

The unit is the assembly of the factual operator and its march by the faster of MUMPS LU and GMRES with ILU, written by hand in
DOLFINx (`cffem.cases.sweep_by_hand`); beside it stands the whole study by hand. Times are of the processor, in one process.
Every number of cffem includes all that it needs beyond the factual solve: matrices, factors, coarse levels. The scores of the two
sides are compared, and so are the verdicts with the scores.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import process_time
from typing import Any

from cffem.cases.sweep_problems import PROBLEMS, Problem

ACCURACY = 1e-4
# Unknowns in space of three dimensions up to which LU is tried: beyond, its memory grows out of hand.
MOST_LU = 40_000
# A threshold between scores, and one that is this much above a score.
NEAR = 1.03


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of some work and the processor seconds it took."""
    start = process_time()
    result = work()
    return result, process_time() - start


def thresholds(scores: Mapping[str, float]) -> dict[str, float]:
    """A threshold far from all scores, in the widest gap between them, and one close to a score in the middle.

    Example:
        >>> found = thresholds({"a": 1.0, "b": 2.0, "c": 50.0})
        >>> round(found["far"], 6), round(found["near"], 6)
        (10.0, 2.06)
    """
    ordered = sorted(value for value in scores.values() if math.isfinite(value))
    gaps = [(high / low, math.sqrt(low * high)) for low, high in itertools.pairwise(ordered)]
    return {"far": max(gaps)[1], "near": NEAR * ordered[len(ordered) // 2]}


def by_hand(problem: Problem, n: int, steps: int, comm: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """Seconds of the study by hand, and its scores."""
    from cffem.cases.sweep_by_hand import SOLVERS, Study

    study, setup = timed(lambda: Study(problem, n, steps, comm))
    many = problem.dimension == 3 and study.unknowns > MOST_LU
    factual = {name: timed(lambda name=name: study.solve(name))[1] for name in SOLVERS if not (many and name == "LU")}
    best = min(factual, key=lambda name: factual[name])
    (_, scores), whole = timed(lambda: study.scores(best))
    seconds = {"set-up": setup, "factual": factual, "solver": best, "unit": factual[best], "whole study": setup + whole}
    return seconds, scores


def by_cffem(problem: Problem, n: int, steps: int, comm: Any, solver: str) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Seconds of cffem's sweeps, the full sweep, and the sweeps that only decide."""
    options = {} if solver == "LU" or problem.nonlinear else {"preset": "ilu", "ksp_rtol": 1e-8}
    model, setup = timed(lambda: problem.model(n, steps, comm, petsc_options=options))
    factual, solve = timed(lambda: model.factual)
    sweep, full = timed(lambda: model.deletions(accuracy=ACCURACY if steps else 0.0))
    seconds: dict[str, Any] = {"unknowns": model.spaces.size, "set-up": setup, "factual": solve, "all scores": full}
    decided = {}
    for where, epsilon in thresholds({name: deletion.score for name, deletion in sweep.items()}).items():
        decided[where], seconds[f"decide, {where}"] = timed(lambda e=epsilon: model.deletions(scores="decide", epsilon=e))
    seconds["norm"] = factual.norm()
    model.destroy()
    return seconds, sweep, decided


def by_levels(problem: Problem, n: int, steps: int, comm: Any, epsilon: float) -> dict[str, str]:
    """Verdicts with estimated three-level margins, from coarse levels up; only what is undecided goes on to a finer one."""
    from cffem.bounds.certificate import NotCovered
    from cffem.bounds.levels import LevelCertifier
    from cffem.certify.decisions import decide
    from cffem.engine.linear import SolveError

    least = 10 if problem.dimension == 2 else 5
    factor = 2 ** max(2, int(math.log2(n / least)))
    verdicts = dict.fromkeys(problem.coefficients, "unresolved")
    while factor >= 4 and "unresolved" in verdicts.values():
        model = problem.model(max(n // factor, 2), max(steps // factor, 3) if steps else 0, comm)
        certifier = LevelCertifier(model, "mesh")
        for name in [name for name, verdict in verdicts.items() if verdict == "unresolved"]:
            try:
                bound = certifier.deletion(name)
                verdicts[name] = decide(bound.score, epsilon, margin=bound.margin)
            except (NotCovered, SolveError):
                continue
        certifier.destroy()
        model.destroy()
        factor //= 2
    return verdicts


def measure(name: str, n: int, steps: int, comm: Any) -> dict[str, Any]:
    """One problem of one size."""
    problem = PROBLEMS[name]()
    hand, exact = by_hand(problem, n, steps, comm)
    ours, sweep, decided = by_cffem(problem, n, steps, comm, hand["solver"])
    unit = hand["unit"]
    row: dict[str, Any] = {
        "problem": name,
        "title": problem.title,
        "terms": len(problem.terms),
        "cells per side": n,
        "steps": steps,
        "seconds by hand": hand,
        "seconds of cffem": ours,
        "strategies": sorted({deletion.strategy for deletion in sweep.values()}),
        "error": max(abs(sweep[term].score / exact[term] - 1.0) for term in exact if sweep[term].status == "solved"),
        "ratios": {
            "study by hand": hand["whole study"] / unit,
            "all scores": ours["all scores"] / unit,
            "decide, far": ours["decide, far"] / unit,
            "decide, near": ours["decide, near"] / unit,
        },
        "gain, all scores": hand["whole study"] / (ours["set-up"] + ours["factual"] + ours["all scores"]),
        "levels": {},
    }
    for where, epsilon in thresholds(exact).items():
        verdicts, seconds = timed(lambda e=epsilon: by_levels(problem, n, steps, comm, e))
        truth = {term: "relevant" if score > epsilon else "irrelevant" for term, score in exact.items()}
        row["ratios"][f"estimated margins, {where}"] = seconds / unit
        row["levels"][where] = {
            "seconds": seconds,
            "resolved": sum(verdict != "unresolved" for verdict in verdicts.values()),
            "wrong": sum(verdicts[term] not in ("unresolved", truth[term]) for term in exact),
            "gain": hand["whole study"] / seconds,
        }
        ours_say = {t: "relevant" if d.score > epsilon else "irrelevant" for t, d in decided[where].items()}
        row["levels"][where]["early exits wrong"] = sum(ours_say[term] != truth[term] for term in exact)
    return row


def warm_up(name: str, comm: Any) -> None:
    """Compile, or load, every form that will be needed."""
    problem = PROBLEMS[name]()
    n, steps = 4, 4 if problem.sizes[0][1] else 0
    hand, scores = by_hand(problem, n, steps, comm)
    by_cffem(problem, n, steps, comm, hand["solver"])
    by_levels(problem, n, steps, comm, 1.5 * max(scores.values()))


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    import dolfinx
    from petsc4py import PETSc

    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "DOLFINx": dolfinx.__version__,
        "PETSc": ".".join(map(str, PETSc.Sys.getVersion())),
        "Python": platform.python_version(),
    }


COLUMNS = ("study by hand", "all scores", "decide, far", "decide, near", "estimated margins, far", "estimated margins, near")


INTRODUCTION = f"""Written by `cffem bench sweep`. The unit of every ratio is one efficient factual solve: assembly of its operator
and its march, by the faster of MUMPS LU and GMRES with ILU (in space beyond {MOST_LU} unknowns by the latter), written by hand in
DOLFINx and measured in the same run (processor time, one process). *Study by hand*: the factual and all deleted problems,
matrices assembled once per problem, by the same solver. *All scores*: cffem's scores of all terms, asked for to {ACCURACY:g}
(steady: to working precision), beyond the factual solve. *Decide*: early exit on the fine mesh, for a threshold in the widest gap
between the scores, and for one 3 % above a score; without a certificate. *Estimated margins*: verdicts with three-level margins
(estimated, not guaranteed) from coarse levels up, all set-up of all levels included; the fine mesh is the finest of the levels at
most."""


def page(result: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    lines = [
        "# What all deletions cost",
        "",
        *textwrap.wrap(INTRODUCTION, 120),
        "",
        "| problem | unknowns × steps | unit | " + " | ".join(COLUMNS) + " | error of scores | strategy |",
        "|---|---|---|" + "---|" * (len(COLUMNS) + 2),
    ]
    for row in result["rows"]:
        hand, ours = row["seconds by hand"], row["seconds of cffem"]
        cells = [row["title"], f"{ours['unknowns']} × {row['steps'] or 1}", f"{hand['unit']:.2f} s, {hand['solver']}"]
        for column in COLUMNS:
            resolved = row["levels"].get(column.rsplit(", ", 1)[-1]) if column.startswith("estimated") else None
            shown = "" if resolved is None else f" ({resolved['resolved']}/{row['terms']})"
            cells.append(f"{row['ratios'][column]:.2f}{shown}")
        cells += [f"{row['error']:.0e}", ", ".join(row["strategies"])]
        lines.append("| " + " | ".join(cells) + " |")
    wrong = sum(level["wrong"] + level["early exits wrong"] for row in result["rows"] for level in row["levels"].values())
    lines += ["", f"In brackets: how many of the terms were resolved. Wrong verdicts in all columns together: {wrong}.", ""]
    lines += ["Against the study by hand, end to end with forms loaded from the cache:", ""]
    lines += ["| problem | unknowns | all scores | decisions, far | decisions, near |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        gains = [row["gain, all scores"], *(row["levels"][where]["gain"] for where in ("far", "near"))]
        lines.append(f"| {row['title']} | {row['seconds of cffem']['unknowns']} | " + " | ".join(f"{g:.1f}×" for g in gains) + " |")
    lines += ["", "Measured on: " + ", ".join(f"{key} {value}" for key, value in result["machine"].items()) + ".", ""]
    return "\n".join(lines)


def picture(result: Mapping[str, Any], path: Path) -> None:
    """Bars of the ratios, one group for each problem and size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, width = result["rows"], 0.8 / len(COLUMNS)
    figure, axes = pyplot.subplots(figsize=(1.6 + 1.5 * len(rows), 4), layout="constrained")
    for k, column in enumerate(COLUMNS):
        axes.bar([i + width * k for i in range(len(rows))], [row["ratios"][column] for row in rows], width, label=column)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("factual solves")
    labels = [f"{row['title']}\n{row['seconds of cffem']['unknowns']}" for row in rows]
    axes.set_xticks([i + 0.4 for i in range(len(rows))], labels, fontsize=7)
    axes.legend(fontsize=7, ncols=3)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write `sweep.json`, `sweep.png` and `sweep.md`."""
    parser = argparse.ArgumentParser(prog="cffem bench sweep", description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("--problems", default=",".join(PROBLEMS), help="names, separated by commas (default: all)")
    parser.add_argument("--small", action="store_true", help="the smaller of the two sizes only")
    parser.add_argument("--tiny", action="store_true", help="a size that only shows that everything runs")
    parser.add_argument("--out", default="bench-sweep", help="folder for the results")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.problems.split(",") if name not in PROBLEMS]
    if unknown:
        parser.error(f"there is no problem {unknown[0]!r}; there are {', '.join(PROBLEMS)}")
    from mpi4py import MPI

    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"machine": machine(), "rows": []}
    for name in options.problems.split(","):
        warm_up(name, MPI.COMM_SELF)
        sizes = PROBLEMS[name]().sizes[: 1 if options.small or options.tiny else None]
        for n, steps in [(4, 4 if sizes[0][1] else 0)] if options.tiny else sizes:
            row = measure(name, n, steps, MPI.COMM_SELF)
            result["rows"].append(row)
            ratios = ", ".join(f"{column} {row['ratios'][column]:.2f}" for column in COLUMNS)
            print(f"{row['title']}, {row['seconds of cffem']['unknowns']} unknowns: {ratios}", flush=True)
            (out / "sweep.json").write_text(json.dumps(result, indent=1))
    (out / "sweep.md").write_text(page(result))
    picture(result, out / "sweep.png")
    return 0
