# SPDX-License-Identifier: MIT
"""`cffem bench sweep`: what all deletions cost, in units of one efficient factual solve, measured
in one run.

The unit is the assembly of the factual operator and its march by the faster of MUMPS LU and GMRES
with ILU, written by hand in DOLFINx (`benchmarks.sweep.sweep_by_hand`); beside it stands the whole
study by hand. Times are of the processor, in one process. Every number of cffem includes all that
it needs beyond the factual solve: matrices, factors, coarse levels. The scores of the two sides are
compared, and so are the verdicts with the scores.
"""

from __future__ import annotations

import itertools
import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.measuring import bench_parser, machine, timed
from benchmarks.sweep.sweep_extras import measured, sections
from benchmarks.sweep.sweep_goals import missed
from benchmarks.sweep.sweep_problems import PROBLEMS, Problem

ACCURACY = 1e-4
# Unknowns in space of three dimensions up to which LU is tried: beyond, its memory grows out of
# hand.
MOST_LU = 40_000
# A threshold between scores, and one that is this much above a score.
NEAR = 1.03


def thresholds(scores: Mapping[str, float]) -> dict[str, float]:
    """A threshold far from all scores, in the widest gap between them, and one close to a score in
    the middle.

    Example:
        >>> found = thresholds({"a": 1.0, "b": 2.0, "c": 50.0})
        >>> round(found["far"], 6), round(found["near"], 6)
        (10.0, 2.06)
    """
    ordered = sorted(value for value in scores.values() if math.isfinite(value))
    gaps = [(high / low, math.sqrt(low * high)) for low, high in itertools.pairwise(ordered)]
    return {"far": max(gaps)[1], "near": NEAR * ordered[len(ordered) // 2]}


def by_hand(
    problem: Problem, n: int, steps: int, comm: Any
) -> tuple[dict[str, Any], dict[str, float]]:
    """Seconds of the study by hand, and its scores."""
    from benchmarks.sweep.sweep_by_hand import SOLVERS, Study

    study, setup = timed(lambda: Study(problem, n, steps, comm))
    many = problem.dimension == 3 and study.unknowns > MOST_LU
    factual = {
        name: timed(lambda name=name: study.solve(name))[1]
        for name in SOLVERS
        if not (many and name == "LU")
    }
    best = min(factual, key=lambda name: factual[name])
    (_, scores), whole = timed(lambda: study.scores(best))
    seconds = {
        "set-up": setup,
        "factual": factual,
        "solver": best,
        "unit": factual[best],
        "whole study": setup + whole,
    }
    return seconds, scores


def by_cffem(
    problem: Problem, n: int, steps: int, comm: Any
) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """Seconds of cffem's sweeps, the full sweep, and the sweeps that only decide."""
    options = {"preset": "ilu", "ksp_rtol": 1e-8} if steps else {}
    model, setup = timed(lambda: problem.model(n, steps, comm, petsc_options=options))
    factual, solve = timed(lambda: model.factual)
    sweep, full = timed(lambda: model.deletions(accuracy=ACCURACY))
    seconds: dict[str, Any] = {
        "unknowns": model.spaces.size,
        "set-up": setup,
        "factual": solve,
        "all scores": full,
    }
    decided = {}
    for where, epsilon in thresholds(
        {name: deletion.score for name, deletion in sweep.items()}
    ).items():
        decided[where], seconds[f"decide, {where}"] = timed(
            lambda e=epsilon: model.deletions(scores="decide", epsilon=e)
        )
    seconds["norm"] = factual.norm()
    model.destroy()
    return seconds, sweep, decided


def by_refinement(
    problem: Problem, size: float, comm: Any, epsilon: float, guaranteed: bool = False
) -> dict[str, Any]:
    """Verdicts from a coarse level up, everything included; only what is undecided goes on to a
    finer one.

    Args:
        problem: the problem.
        size: unknowns times time steps of the fine problem, beyond which nothing is solved.
        comm: the communicator.
        epsilon: the threshold.
        guaranteed: whether only guaranteed margins count, otherwise three-level ones are used as
            well.
    """
    from cffem.bounds.refining import Refinement
    from cffem.verdicts.certification import Certification
    from cffem.verdicts.until_decided import decide_by_refinement

    with problem.model(*problem.coarse, comm) as model:
        levels = Refinement(model, Certification(epsilon=epsilon, refine=True, budget=size))
        certify = (
            (lambda names, level: guarantees(levels, names, level, epsilon))
            if guaranteed
            else levels
        )
        verdicts = decide_by_refinement(list(problem.coefficients), epsilon, certify)
        levels.destroy()
    return verdicts


def guarantees(
    levels: Any, names: Sequence[str], level: int, epsilon: float
) -> dict[str, Any] | None:
    """Guaranteed bounds on a level of refinement, enriched ones where the plain ones do not
    decide.
    """
    from cffem.bounds.entrance import certify_deletion, worth_enriching

    model = levels.model(level)
    if model is None:
        return None
    found: dict[str, Any] = {name: certify_deletion(model, name) for name in names}
    for name, bound in found.items():
        if bound and abs(bound.score - epsilon) <= bound.margin and worth_enriching(bound, epsilon):
            found[name] = min(
                bound, certify_deletion(model, name, enriched=True) or bound, key=lambda b: b.margin
            )
    return found


def judged(
    verdicts: Mapping[str, Any], exact: Mapping[str, float], epsilon: float
) -> dict[str, Any]:
    """How many of some verdicts resolve their term, how many are wrong, and the levels they
    were made on.
    """
    truth = {term: "relevant" if score > epsilon else "irrelevant" for term, score in exact.items()}
    return {
        "resolved": sum(verdict.decision != "unresolved" for verdict in verdicts.values()),
        "wrong": sum(verdicts[term].decision not in ("unresolved", truth[term]) for term in exact),
        "levels": sorted({verdict.level for verdict in verdicts.values()}),
        "kinds": sorted(
            {
                getattr(getattr(v.bound, "certificate", None), "kind", "none")
                for v in verdicts.values()
            }
        ),
    }


def measure(name: str, n: int, steps: int, comm: Any) -> dict[str, Any]:
    """One problem of one size."""
    problem = PROBLEMS[name]()
    hand, exact = by_hand(problem, n, steps, comm)
    ours, sweep, decided = by_cffem(problem, n, steps, comm)
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
        "error": max(
            abs(sweep[term].score / exact[term] - 1.0)
            for term in exact
            if sweep[term].status == "solved"
        ),
        "ratios": {
            "study by hand": hand["whole study"] / unit,
            "all scores": ours["all scores"] / unit,
        },
        "gain, all scores": hand["whole study"]
        / (ours["set-up"] + ours["factual"] + ours["all scores"]),
        "verdicts": {},
    }
    size = float(ours["unknowns"] * max(steps, 1))
    for where, epsilon in thresholds(exact).items():
        row["ratios"][f"decide, {where}"] = ours[f"decide, {where}"] / unit
        wrong = sum(
            (decided[where][term].score > epsilon) != (score > epsilon)
            for term, score in exact.items()
        )
        row["verdicts"][f"decide, {where}"] = {"resolved": len(exact), "wrong": wrong}
        for kind in ("estimated", "guaranteed") if problem.guaranteed else ("estimated",):
            column = f"{kind} margins, {where}"
            only = kind == "guaranteed"
            verdicts, seconds = timed(
                lambda e=epsilon, g=only: by_refinement(problem, size, comm, e, g)
            )
            row["ratios"][column] = seconds / unit
            row["verdicts"][column] = {
                **judged(verdicts, exact, epsilon),
                "gain": hand["whole study"] / seconds,
            }
    return row


def warm_up(name: str, comm: Any) -> None:
    """Compile, or load, every form that will be needed."""
    problem = PROBLEMS[name]()
    n, steps = 4, 4 if problem.sizes[0][1] else 0
    _, scores = by_hand(problem, n, steps, comm)
    by_cffem(problem, n, steps, comm)
    for guaranteed in (False, True) if problem.guaranteed else (False,):
        by_refinement(problem, 1e5, comm, 1.5 * max(scores.values()), guaranteed)


MARGINS = tuple(
    f"{kind} margins, {where}" for kind in ("estimated", "guaranteed") for where in ("far", "near")
)
COLUMNS = ("study by hand", "all scores", "decide, far", "decide, near", *MARGINS)


INTRODUCTION = f"""Written by `cffem bench sweep`. The unit of every ratio is one efficient
factual solve: assembly of its operator and its march, by the faster of MUMPS LU and GMRES with
ILU (in space beyond {MOST_LU} unknowns by the latter), written by hand in DOLFINx and measured
in the same run (processor time, one process). *Study by hand*: the factual and all deleted
problems, matrices assembled once per problem, by the same solver. *All scores*: cffem's scores
of all terms, asked for to {ACCURACY:g}, beyond the factual solve. *Decide*: early exit on the
fine mesh, for a threshold in the widest gap between the scores, and for one 3 % above a score;
without a certificate. *Estimated margins*: verdicts by refinement from a coarse mesh and few
time steps up, with margins from three levels (estimated, not guaranteed), everything included:
the fine mesh is not needed at all, and nothing larger than it is solved. *Guaranteed margins*:
the same with guaranteed margins only, where they exist."""


def page(result: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    lines = [
        "# What all deletions cost",
        "",
        *textwrap.wrap(INTRODUCTION, 120),
        "",
        "| problem | unknowns × steps | unit | "
        + " | ".join(COLUMNS)
        + " | error of scores | strategy |",
        "|---|---|---|" + "---|" * (len(COLUMNS) + 2),
    ]
    for row in result["rows"]:
        hand, ours = row["seconds by hand"], row["seconds of cffem"]
        cells = [
            row["title"],
            f"{ours['unknowns']} × {row['steps'] or 1}",
            f"{hand['unit']:.2f} s, {hand['solver']}",
        ]
        for column in COLUMNS:
            verdicts = row["verdicts"].get(column, {}) if column in MARGINS else {}
            shown = f" ({verdicts['resolved']}/{row['terms']})" if verdicts else ""
            cells.append(f"{row['ratios'][column]:.2f}{shown}" if column in row["ratios"] else "–")
        cells += [f"{row['error']:.0e}", ", ".join(row["strategies"])]
        lines.append("| " + " | ".join(cells) + " |")
    wrong = sum(
        verdicts["wrong"] for row in result["rows"] for verdicts in row["verdicts"].values()
    )
    lines += [
        "",
        "In brackets: how many of the terms were resolved. Wrong verdicts in all columns "
        f"together: {wrong}.",
        "",
    ]
    lines += ["Against the study by hand, end to end with forms loaded from the cache:", ""]
    lines += [
        "| problem | unknowns | all scores | " + " | ".join(MARGINS) + " |",
        "|---|---|---|" + "---|" * len(MARGINS),
    ]
    for row in result["rows"]:
        gains = [
            row["gain, all scores"],
            *(row["verdicts"].get(column, {}).get("gain") for column in MARGINS),
        ]
        texts = [f"{gain:.1f}×" if gain else "–" for gain in gains]
        lines.append(
            f"| {row['title']} | {row['seconds of cffem']['unknowns']} | "
            + " | ".join(texts)
            + " |"
        )
    if result["goals"]:
        left = missed(result["rows"])
        lines += [
            "",
            "Goals at the larger sizes: " + ("all met." if not left else "missed are"),
            "",
        ]
        lines += [f"- {text}" for text in left]
    if "further" in result:
        lines += ["", sections(result["further"])]
    lines += [
        "",
        "Measured on: "
        + ", ".join(f"{key} {value}" for key, value in result["machine"].items())
        + ".",
        "",
    ]
    return "\n".join(lines)


def picture(result: Mapping[str, Any], path: Path) -> None:
    """Bars of the ratios, one group for each problem and size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows, width = result["rows"], 0.8 / len(COLUMNS)
    figure, axes = pyplot.subplots(
        figsize=(max(8.0, 1.6 + 1.5 * len(rows)), 4), layout="constrained"
    )
    for k, column in enumerate(COLUMNS):
        axes.bar(
            [i + width * (k + 0.5) for i in range(len(rows))],
            [row["ratios"].get(column, 0) for row in rows],
            width,
            label=column,
        )
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("processor time in factual solves")
    titles = [row["title"].replace(", ", "\n").replace(" with", "\nwith") for row in rows]
    labels = [
        f"{title}\n{row['seconds of cffem']['unknowns']} unknowns"
        for title, row in zip(titles, rows, strict=True)
    ]
    axes.set_xticks([i + 0.4 for i in range(len(rows))], labels, fontsize=7)
    figure.legend(loc="outside upper center", fontsize=7, ncols=4, frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write `sweep.json`, `sweep.png` and `sweep.md`."""
    parser = bench_parser("sweep", __doc__, "problem", PROBLEMS)
    parser.add_argument("--small", action="store_true", help="the smaller of the two sizes only")
    parser.add_argument(
        "--further",
        action="store_true",
        help="also NGSolve, growth with size and terms, and a second rank",
    )
    options = parser.parse_args(arguments)
    from mpi4py import MPI

    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    whole = not (options.small or options.tiny)
    result: dict[str, Any] = {"machine": machine(), "goals": whole, "rows": []}
    for name in options.problems:
        warm_up(name, MPI.COMM_SELF)
        sizes = PROBLEMS[name]().sizes[: 1 if options.small or options.tiny else None]
        for n, steps in [(4, 4 if sizes[0][1] else 0)] if options.tiny else sizes:
            row = measure(name, n, steps, MPI.COMM_SELF)
            result["rows"].append(row)
            ratios = ", ".join(f"{column} {ratio:.2f}" for column, ratio in row["ratios"].items())
            print(
                f"{row['title']}, {row['seconds of cffem']['unknowns']} unknowns: {ratios}",
                flush=True,
            )
            (out / "sweep.json").write_text(json.dumps(result, indent=1))
    if options.further:
        result["further"] = measured(MPI.COMM_SELF, options.tiny, large=not options.small)
        (out / "sweep.json").write_text(json.dumps(result, indent=1))
    (out / "sweep.md").write_text(page(result))
    picture(result, out / "sweep.png")
    left = missed(result["rows"]) if whole else []
    print("\n".join(f"missed: {text}" for text in left))
    return 1 if left else 0
