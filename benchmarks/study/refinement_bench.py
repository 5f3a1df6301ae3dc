# SPDX-License-Identifier: MIT
"""`cffem bench refinement`: verdicts that need finer levels, on cells that are divided where the
difference needs it and on cells that are all divided.

Every problem has one deletion and a tolerance near its score. Both kinds of refinement go up until
their error bars, both from the levels below, decide, with the same time steps on the same level.
Scores are compared with those of a reference: elements of one degree more, on cells that are
adapted further.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

from mpi4py import MPI

import cffem as cf
from benchmarks.measuring import bench_parser, machine

# The share of the unknowns that adapted levels may need, from the goal of the benchmark.
SHARE = 0.2
# Levels above the given one, at most.
LEVELS = 9

u = cf.ScalarField("u")


@dataclass(frozen=True)
class Refined:
    """A problem with one deletion.

    Attributes:
        title: what it is, in words.
        model: makes it on cells of a size, with elements of a degree.
        term: the term that is deleted.
        h: the size of the cells at the beginning.
        margin: the error bar that decides, relative to the score.
        beyond: levels of the reference.
        uniform: levels on which all cells are divided, at most.
    """

    title: str
    model: Callable[[float, int], cf.Model]
    term: str
    h: float
    margin: float
    beyond: int = 7
    uniform: int = 4


def corner(h: float, degree: int) -> cf.Model:
    """An L-shape, with a corner singularity."""
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.l_shape(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    return cf.Model(library, {"lap": 1.0, "u": -1.0, "cube": 50.0}, experiment)


def layer(h: float, degree: int) -> cf.Model:
    """Wind towards a wall, with a layer of width 0.02 beside it."""
    wind = -cf.dot(cf.grad(cf.x), cf.grad(u))
    terms = {"lap": cf.lap(u), "wind": wind, "u": u, "cube": -(u**3)}
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0, on=["left", "right"]), cf.Neumann(u, 0, on=["top", "bottom"])],
        forcing={u: 1},
    )
    coefficients = {"lap": 0.02, "wind": 1.0, "u": -0.1, "cube": 0.5}
    return cf.Model(cf.Library(terms=terms, unknown=u), coefficients, experiment)


PROBLEMS = {
    "corner": Refined("L-shape with a singular corner", corner, "u", 0.25, 1e-3),
    "layer": Refined("wind towards a wall, with a layer", layer, "cube", 0.25, 1e-3),
}


def climbed(problem: Refined, adapt: bool, tolerance: float) -> dict[str, Any]:
    """Levels until the error bar is below a tolerance: unknowns, score and margin of each."""
    from cffem.bounds.certificate import NotCovered
    from cffem.bounds.levels.adapted import AdaptedLevels
    from cffem.bounds.levels.around import BELOW, LevelsAround
    from cffem.bounds.levels.ladders import BOTH, Ladder

    start, rows = process_time(), []
    with problem.model(problem.h, 2) as model:
        ladder: Any = (
            AdaptedLevels(model, {problem.term: cf.delete(problem.term)}, "L2")
            if adapt
            else Ladder(model, BOTH)
        )
        for level in range(1 + (LEVELS if adapt else problem.uniform)):
            row: dict[str, Any] = {"level": level, "score": None, "margin": None}
            try:
                here = ladder.model(level)
                row["unknowns"] = here.spaces.size
                around = LevelsAround(here, BELOW)
                bound = around.deletion(problem.term)
                around.destroy()
                row |= {"score": bound.score, "margin": bound.margin}
            except (NotCovered, cf.SolveError) as reason:
                row["reason"] = str(reason)
            if "unknowns" not in row:
                break
            rows.append(row)
            if row["margin"] is not None and row["margin"] <= tolerance:
                break
        ladder.destroy()
    return {"rows": rows, "seconds": process_time() - start}


def reference(problem: Refined) -> float:
    """The score with elements of one degree more on cells that are adapted further."""
    from cffem.bounds.levels.adapted import AdaptedLevels

    with problem.model(problem.h / 2, 3) as model:
        levels = AdaptedLevels(model, {problem.term: cf.delete(problem.term)}, "L2")
        finest = levels.model(problem.beyond)
        score = finest.factual.distance(finest.solve(cf.delete(problem.term)))
        levels.destroy()
    return float(score)


def row(name: str) -> dict[str, Any]:
    """One problem: both ways up to the same margin."""
    problem = PROBLEMS[name]
    exact = reference(problem)
    found: dict[str, Any] = {"name": name, "title": problem.title, "exact": exact}
    for key, adapt in (("adapted", True), ("uniform", False)):
        found[key] = climbed(problem, adapt, problem.margin * exact)
        missed = [
            each
            for each in found[key]["rows"]
            if each["margin"] is not None and abs(each["score"] - exact) > each["margin"]
        ]
        found[key]["missed"] = len(missed)
    last = [found[key]["rows"][-1] for key in ("adapted", "uniform")]
    decided = [
        each["margin"] is not None and each["margin"] <= problem.margin * exact for each in last
    ]
    found["decided"] = decided
    found["share"] = last[0]["unknowns"] / last[1]["unknowns"]
    return found


def page(found: Mapping[str, Any]) -> str:
    """The result as a page of text."""
    lines = ["# Cells divided where a verdict needs it", ""]
    lines += [*textwrap.wrap(" ".join(str(__doc__).split("\n\n", 1)[1].split()), 120), ""]
    lines += ["Written by `cffem bench refinement`.", ""]
    columns = "problem", "unknowns, adapted", "all cells", "share", "margins", "bars missed", "time"
    lines += ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for each in found["rows"]:
        ends = [each[key]["rows"][-1] for key in ("adapted", "uniform")]
        marks = ["" if done else " (open)" for done in each["decided"]]
        margins = ["–" if end["margin"] is None else f"{end['margin']:.2g}" for end in ends]
        cells = [
            each["title"],
            f"{ends[0]['unknowns']}{marks[0]}",
            f"{ends[1]['unknowns']}{marks[1]}",
            f"{each['share']:.2f}",
            ", ".join(margins),
            f"{each['adapted']['missed']}, {each['uniform']['missed']}",
            f"{each['adapted']['seconds']:.1f} s, {each['uniform']['seconds']:.1f} s",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Levels", ""]
    for each in found["rows"]:
        lines += [f"{each['title']}, reference {each['exact']:.8g}:", ""]
        for key in ("adapted", "uniform"):
            lines.append(f"| {key}: unknowns | score | its error | margin |")
            lines.append("|---|---|---|---|")
            for level in each[key]["rows"]:
                if level["margin"] is None:
                    lines.append(f"| {level['unknowns']} | – | – | {level['reason']} |")
                    continue
                error = abs(level["score"] - each["exact"])
                lines.append(
                    f"| {level['unknowns']} | {level['score']:.8g} | {error:.2g} | "
                    f"{level['margin']:.2g} |"
                )
            lines.append("")
    lines += ["## Machine", ""]
    lines += [f"- {key}: {value}" for key, value in found["machine"].items()]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] = ()) -> int:
    """Run the benchmark; 0 if the goal is met and 3 if not."""
    parser = bench_parser("refinement", __doc__, "case", PROBLEMS)
    options = parser.parse_args(list(arguments))
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in options.cases:
        rows.append(row(name))
        last = rows[-1]
        print(f"{name:<10} share {last['share']:.3f}, decided {last['decided']}", flush=True)
        found = {"machine": machine(), "rows": rows}
        (options.out / "bench_refinement.json").write_text(json.dumps(found, indent=1) + "\n")
        (options.out / "bench_refinement.md").write_text(page(found))
    met = all(
        each["decided"][0] and each["share"] <= SHARE and each["adapted"]["missed"] == 0
        for each in rows
    )
    return 0 if met else 3
