# SPDX-License-Identifier: MIT
"""The wider classes of guaranteed bounds: random cases with exact solutions, class by class.

Each problem is discretised a few times, on other meshes, with other elements, schemes and steps:
what takes long is its symbols, and their compilation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.certify.certify_bench import (
    CertifyOutcome,
    row_of,
    share_of,
    variable_outcome,
)
from benchmarks.certify.certify_evolving import evolving_outcome, evolving_problem
from benchmarks.certify.certify_flow import flow_outcome, flow_problem
from benchmarks.measuring import Board
from cffem.engine.solve_errors import SolveError
from cffem.symbols.errors import InputError

# Discretisations of each problem.
REPEATED = 6
# The share of each class.
CLASSES: dict[str, float] = {
    "Stokes, square": 0.1,
    "Stokes, rectangle": 0.1,
    "Stokes, L-shape": 0.1,
    "parabolic, variable, 1D": 0.15,
    "parabolic, variable, 2D": 0.3,
    "parabolic, variable, L-shape": 0.08,
    "parabolic, variable, 3D": 0.02,
    "steady, variable, 1D": 0.1,
    "steady, any given values, 2D": 0.05,
}


def _cases(name: str, random: Any) -> Iterator[Callable[[], CertifyOutcome | str | None]]:
    """Endless random cases of a class."""
    while True:
        if name.startswith("Stokes"):
            flow = flow_problem(random, name.split(", ")[1])
            for _ in range(REPEATED):
                yield lambda flow=flow: flow_outcome(name, flow, random)
        elif name.startswith("parabolic"):
            dim = {"1D": 1, "3D": 3}.get(name[-2:], 2)
            problem = evolving_problem(random, dim, name.endswith("shape"))
            for _ in range(REPEATED):
                yield lambda problem=problem: evolving_outcome(name, problem, random)
        else:
            dim = 1 if name.endswith("1D") else 2
            yield lambda dim=dim: variable_outcome(random, dim, dim == 2)


def wider_section(board: Board, count: int, seed: int, only: str = "") -> list[CertifyOutcome]:
    """Coverage and decisions; the column `energy` is the norm H1.

    Args:
        board: where figures go.
        count: how many cases there are altogether.
        seed: of the random numbers.
        only: the beginning of the names of the classes that are run, which then share all cases.
    """
    board.line(
        f"{'class':<30}{'n':>5}{'covered':>9}{'wrong':>7}{'unresolved':>12}"
        f"{'by sum':>8}{'eff':>7}{'enriched':>10}{'energy':>8}"
    )
    outcomes: list[CertifyOutcome] = []
    chosen_classes = {name: part for name, part in CLASSES.items() if name.startswith(only)}
    whole = sum(chosen_classes.values())
    for name, part in chosen_classes.items():
        random = np.random.default_rng([seed, *name.encode()])
        found: list[CertifyOutcome] = []
        reasons: dict[str, int] = {}
        for case in _cases(name, random):
            if len(found) >= math.ceil(part / whole * count):
                break
            try:
                outcome = case()
            except (InputError, SolveError) as refusal:
                outcome = f"not solved: {str(refusal)[-60:]}"
            if isinstance(outcome, CertifyOutcome):
                found.append(outcome)
                if not outcome.covered:
                    board.line(f"  not covered: {outcome.term}: {outcome}")
            else:
                words = "no certificate" if outcome is None else outcome.split(": ")[-1]
                reasons[words[:80]] = reasons.get(words[:80], 0) + 1
        board.line(row_of(name, found))
        for words, times in sorted(reasons.items(), key=lambda pair: -pair[1])[:6]:
            board.line(f"  {times} without: {words}")
        for degree in (1, 2):
            chosen = [o for o in found if o.degree == degree]
            if chosen:
                board.line(row_of(f"  of degree {degree}", chosen))
        outcomes += found
    covered = share_of(o.covered for o in outcomes)
    board.target("bounds of the wider classes that cover", covered, covered == 1, "1")
    wrong = sum(decision[0] for o in outcomes for decision in o.decisions())
    board.target("wrong decisions in the wider classes", wrong, wrong == 0, "0")
    guaranteed = share_of(o.kind == "guaranteed" for o in outcomes)
    board.target("guaranteed among them", guaranteed, guaranteed == 1, "1")
    return outcomes
