# SPDX-License-Identifier: MIT
"""How the cost grows: with the unknowns, for iterative solvers and sweeps, and with the number of
terms, for decisions.

A method whose work is proportional to the unknowns takes twice as long for twice as many. Each case
is measured on meshes of about 20,000 to 300,000 unknowns; what is stated is the factor for one
doubling, from the first to the last of them and the worst between neighbours. Assembly and the
set-up of the preconditioner are part of the time. For the terms, every term of the plane problem is
cut into two, T[u] = x T[u] + (1 − x) T[u]: twice the deletions, and the factual solution stays the
same.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import Any

from benchmarks.sweep.sweep_problems import Problem, maxwell, transient, transient_3d
from cffem.symbols.coordinates import x
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import div, grad

ACCURACY = 1e-4
GOAL, GOAL_TERMS = 2.4, 2.0
# Time steps of the sweeps, as long as those of the benchmark: enough for their marches to outweigh
# the assembly.
STEPS = 12
# Seconds beyond which nothing is measured twice.
LONG = 10.0
ITERATIVE = {"preset": "ilu", "ksp_rtol": 1e-8}

u, v, E = ScalarField("u"), VectorField("v", dim=2), VectorField("E", dim=3)


@dataclass(frozen=True)
class GrowthCase:
    """One thing whose cost grows with the mesh.

    Attributes:
        title: what it is.
        work: does it on a mesh with this many cells per side; the unknowns, processor seconds and
            what it says about itself.
        cells: cells per side, from about 20,000 to 300,000 unknowns.
        tiny: cells per side that only show that everything runs.
    """

    title: str
    work: Callable[[int, Any], tuple[int, float, str]]
    cells: tuple[int, ...]
    tiny: tuple[int, ...] = (3, 4)


def poisson(n: int, comm: Any) -> tuple[int, float, str]:
    """The Poisson problem in space, conjugate gradients with algebraic multigrid."""
    import sympy as sp
    from dolfinx.mesh import create_unit_cube

    from cffem.engine.model import Model
    from cffem.symbols.coordinates import y, z
    from cffem.symbols.operators import lap
    from cffem.symbols.problem.conditions import Dirichlet
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library

    source = sp.sin(3 * x) * sp.cos(2 * y) + z
    experiment = Experiment(
        mesh=create_unit_cube(comm, n, n, n),
        elements={u: ("Lagrange", 1)},
        forcing={u: source},
        boundary=[Dirichlet(u, 0)],
    )
    start = process_time()
    with Model(
        Library(terms={"lap": lap(u)}, unknown=u), {"lap": 1.0}, experiment, {"preset": "amg"}
    ) as model:
        record = model.solve().record
        return model.spaces.size, process_time() - start, f"{record.iterations} iterations"


def curl_curl(n: int, comm: Any) -> tuple[int, float, str]:
    """A curl–curl problem on edge elements, with hypre's auxiliary-space preconditioner."""
    from dolfinx.mesh import create_unit_cube

    from cffem.engine.model import Model
    from cffem.symbols.coordinates import y, z
    from cffem.symbols.operators import curl
    from cffem.symbols.problem.conditions import Tangential
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.library import Library

    experiment = Experiment(
        mesh=create_unit_cube(comm, n, n, n),
        elements={E: ("N1curl", 1)},
        forcing={E: (y, z, x)},
        boundary=[Tangential(E, 0)],
    )
    library = Library(terms={"curlcurl": curl(curl(E)), "E": E}, unknown=E)
    start = process_time()
    with Model(library, {"curlcurl": -1.0, "E": -1.0}, experiment, {"preset": "ams"}) as model:
        record = model.solve().record
        return model.spaces.size, process_time() - start, f"{record.iterations} iterations"


def helmholtz(n: int, comm: Any) -> tuple[int, float, str]:
    """The projection of an edge field onto the discretely divergence-free ones."""
    from dolfinx.mesh import create_unit_cube

    from cffem.constraints.projections.choose import projection
    from cffem.symbols.problem.conditions import Tangential
    from cffem.symbols.problem.constraint_classes import DivergenceFree

    mesh = create_unit_cube(comm, n, n, n)
    start = process_time()
    return _projected(
        projection(DivergenceFree(E), mesh, {E: ("N1curl", 1)}, [Tangential(E, 0)]), start
    )


def leray(n: int, comm: Any) -> tuple[int, float, str]:
    """The Leray projection of a velocity on Taylor–Hood elements, iteratively."""
    from dolfinx.mesh import create_unit_square

    from cffem.constraints.projections.choose import projection
    from cffem.constraints.projections.saddle import KRYLOV_SADDLE
    from cffem.symbols.problem.conditions import Dirichlet
    from cffem.symbols.problem.constraint_classes import DivergenceFree

    mesh = create_unit_square(comm, n, n)
    start = process_time()
    return _projected(
        projection(
            DivergenceFree(v), mesh, {v: ("Lagrange", 2)}, [Dirichlet(v, (0, 0))], KRYLOV_SADDLE
        ),
        start,
    )


def _projected(onto: Any, start: float) -> tuple[int, float, str]:
    """Project a smooth field that is in no class; the set-up of the projection counts."""
    import numpy as np

    function = onto.function()
    dimension = onto.spaces.mesh.geometry.dim
    function.interpolate(
        lambda p: np.stack(
            [np.sin((k + 2) * p[0] + p[1] + k * p[dimension - 1]) for k in range(dimension)]
        )
    )
    onto.project(function)
    seconds, size, iterations = process_time() - start, onto.spaces.size, onto.solver.iterations
    onto.destroy()
    return size, seconds, f"{iterations} iterations"


def sweep_of(problem: Problem, n: int, comm: Any) -> tuple[int, float, str]:
    """All scores of a problem to an accuracy, iteratively: from the model to the last of them."""
    short = replace(problem, end=problem.end * STEPS / problem.sizes[0][1])
    start = process_time()
    with short.model(n, STEPS, comm, petsc_options=ITERATIVE) as model:
        sweep = model.deletions(accuracy=ACCURACY)
        seconds = process_time() - start
        iterations = sum(found.record.iterations for found in sweep.values())
        strategies = ", ".join(sorted({found.strategy for found in sweep.values()}))
        return model.spaces.size, seconds, f"{strategies}, {iterations} iterations"


CASES = {
    "Poisson": GrowthCase("Poisson in 3D, P1, CG + AMG", poisson, (26, 33, 42, 53, 66)),
    "curl-curl": GrowthCase("curl–curl, N1curl 1, CG + AMS", curl_curl, (14, 17, 22, 28, 35)),
    "Helmholtz": GrowthCase("Helmholtz projection, N1curl 1", helmholtz, (14, 17, 22, 28, 35)),
    "Leray": GrowthCase("Leray projection, Taylor–Hood in 2D", leray, (47, 66, 94, 133, 182)),
    "sweep-2d": GrowthCase(
        "sweep, 2D transient, P2", lambda n, comm: sweep_of(transient(), n, comm), (70, 141, 273)
    ),
    "sweep-3d": GrowthCase(
        "sweep, 3D transient, P2", lambda n, comm: sweep_of(transient_3d(), n, comm), (13, 21, 33)
    ),
    "sweep-maxwell": GrowthCase(
        "sweep, Maxwell, N1curl 1", lambda n, comm: sweep_of(maxwell(), n, comm), (14, 22, 35)
    ),
}


def per_doubling(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The factor of time for one doubling of the size, from the first to the last.

    Example:
        >>> per_doubling([100, 200, 400], [1.0, 2.5, 4.0])
        2.0
    """
    return (seconds[-1] / seconds[0]) ** (1.0 / math.log2(sizes[-1] / sizes[0]))


def grown(case: GrowthCase, comm: Any, tiny: bool = False, repeats: int = 2) -> dict[str, Any]:
    """Measure one case on all its meshes, the least of some repeats each."""
    cells = case.tiny if tiny else case.cells
    case.work(case.tiny[0], comm)  # so that everything is compiled and loaded
    found = []
    for n in cells:
        runs = [case.work(n, comm)]
        runs += [case.work(n, comm) for _ in range(repeats - 1) if runs[0][1] < LONG]
        found.append(min(runs, key=lambda run: run[1]))
    sizes, seconds = [run[0] for run in found], [run[1] for run in found]
    between = [per_doubling(sizes[k : k + 2], seconds[k : k + 2]) for k in range(len(sizes) - 1)]
    return {
        "title": case.title,
        "unknowns": sizes,
        "seconds": seconds,
        "notes": [run[2] for run in found],
        "factor": per_doubling(sizes, seconds),
        "worst": max(between),
    }


# The number of terms
# --------------------------------------------------------------------------------------------------


def doubled(problem: Problem) -> Problem:
    """The plane problem with every term cut into two, x T and (1 − x) T, inside the
    divergence where there is one.
    """
    terms: dict[str, tuple[Any, float]] = {}
    weak: dict[str, Callable[[Any, Any, Any], Any]] = {}
    fluxes = {"lap": 1, "graded": 1 + x}
    for name, (term, value) in problem.terms.items():
        for part, weight in (("left", 1 - x), ("right", x)):
            cut = (
                div(weight * fluxes[name] * grad(problem.unknown))
                if name in fluxes
                else weight * term
            )
            terms[f"{name}, {part}"] = (cut, value)
            weak[f"{name}, {part}"] = _cut(problem.weak[name], part)
    return replace(problem, terms=terms, weak=weak, title=f"{problem.title}, {len(terms)} terms")


def _cut(weak: Callable[[Any, Any, Any], Any], part: str) -> Callable[[Any, Any, Any], Any]:
    return lambda u, v, place: (place[0] if part == "right" else 1 - place[0]) * weak(u, v, place)


def early_exit(
    problem: Problem, n: int, steps: int, comm: Any, epsilon: float
) -> tuple[float, dict[str, str]]:
    """Decisions by early exit on the mesh itself: processor seconds beyond the factual solve,
    and the verdicts.
    """
    with problem.model(n, steps, comm) as model:
        _ = model.factual
        start = process_time()
        sweep = model.deletions(scores="decide", epsilon=epsilon)
        seconds = process_time() - start
        return seconds, {
            name: "relevant" if found.score > epsilon else "irrelevant"
            for name, found in sweep.items()
        }


Decider = Callable[[Problem, int, int, Any, float], tuple[float, dict[str, str]]]


def more_terms(
    comm: Any, n: int, steps: int, deciders: Mapping[str, Decider], repeats: int = 2
) -> list[dict[str, Any]]:
    """Decision times for 8 and 16 terms, the threshold in the widest gap between the scores
    of each.
    """
    from benchmarks.sweep.sweep_bench import thresholds

    rows = []
    problems = {8: transient(), 16: doubled(transient())}
    scores = {}
    for count, problem in problems.items():
        with problem.model(n, steps, comm) as model:
            scores[count] = {
                name: found.score for name, found in model.deletions(accuracy=1e-3).items()
            }
    for title, decider in deciders.items():
        seconds, wrong = {}, 0
        for count, problem in problems.items():
            epsilon = thresholds(scores[count])["far"]
            truth = {
                name: "relevant" if score > epsilon else "irrelevant"
                for name, score in scores[count].items()
            }
            runs = [decider(problem, n, steps, comm, epsilon) for _ in range(repeats)]
            seconds[count] = min(run[0] for run in runs)
            wrong += sum(
                verdict not in ("unresolved", truth[name]) for name, verdict in runs[0][1].items()
            )
        row = {
            "title": title,
            "cells": n,
            "steps": steps,
            "seconds": [seconds[8], seconds[16]],
            "wrong": wrong,
        }
        rows.append({**row, "factor": seconds[16] / seconds[8]})
    return rows


def run(
    comm: Any,
    tiny: bool = False,
    cases: Sequence[str] = tuple(CASES),
    deciders: Mapping[str, Decider] | None = None,
) -> dict[str, Any]:
    """Measure all cases and the decisions.

    Args:
        comm: the communicator, of one process.
        tiny: sizes that only show that everything runs.
        cases: which of `CASES`.
        deciders: ways to decide, by name; early exit on the mesh itself if there are none.
    """
    ways = deciders or {"early exit, 2D transient, P2": early_exit}
    n, steps = (6, 4) if tiny else (96, 48)
    rows = [grown(CASES[name], comm, tiny, 1 if tiny else 2) for name in cases]
    return {"unknowns": rows, "terms": more_terms(comm, n, steps, ways, 1 if tiny else 2)}


INTRODUCTION = f"""Processor seconds with iterative solvers, from the mesh to the result, and the
factor for one doubling of the unknowns: from the first to the last size, and the worst between
neighbours (goal: {GOAL:g}). Sweeps are of eight deletions to {ACCURACY:g} in {STEPS} time steps
of the length they have above, model and factual solve included, with ILU: with longer steps its
iterations grow faster with the mesh."""
OF_TERMS = f"""Decisions for all terms, every term cut into two, seconds beyond the factual solve
(goal: a factor of {GOAL_TERMS:g})."""


def section(result: Mapping[str, Any]) -> str:
    """The result as a section of the page."""
    lines = ["## Growth", "", *textwrap.wrap(INTRODUCTION, 120), ""]
    lines += ["| | unknowns | seconds | factor | worst | |", "|---|---|---|---|---|---|"]
    for row in result["unknowns"]:
        sizes, seconds = (
            ", ".join(map(show, row[key]))
            for key, show in (("unknowns", str), ("seconds", "{:.2f}".format))
        )
        notes = "; ".join(dict.fromkeys(row["notes"][:: max(1, len(row["notes"]) - 1)]))
        lines.append(
            f"| {row['title']} | {sizes} | {seconds} | {row['factor']:.2f} | {row['worst']:.2f} | "
            f"{notes} |"
        )
    lines += [
        "",
        *textwrap.wrap(OF_TERMS, 120),
        "",
        "| | cells × steps | 8 terms | 16 terms | factor | wrong |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["terms"]:
        few, many = row["seconds"]
        size = f"{row['cells']}² × {row['steps']}"
        lines.append(
            f"| {row['title']} | {size} | {few:.2f} s | {many:.2f} s | {row['factor']:.2f} | "
            f"{row['wrong']} |"
        )
    return "\n".join([*lines, ""])
