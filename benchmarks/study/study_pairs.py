# SPDX-License-Identifier: MIT
"""What all pairs of eight terms cost beside all single deletions, and a group beside one term."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import sympy as sp
from mpi4py import MPI

import cffem as cf
from benchmarks.measuring import timed
from cffem import dt, lap, x, y

# All pairs of eight terms may cost this many times all single deletions; there are 3.5 times as
# many.
MOST = 6.0
COEFFICIENTS = {
    "lap": 0.05,
    "u_x": 0.3,
    "u_y": -0.2,
    "u": -0.5,
    "x u": 0.3,
    "y u_x": 0.2,
    "x u_y": -0.1,
    "eighth": -0.5,
}


def model(nonlinear: bool, h: float, steps: int) -> cf.Model:
    """Transport, diffusion and reactions on a square, eight terms."""
    u = cf.ScalarField("u")
    terms = {
        "lap": lap(u),
        "u_x": u.diff(x),
        "u_y": u.diff(y),
        "u": u,
        "x u": x * u,
        "y u_x": y * u.diff(x),
        "x u_y": x * u.diff(y),
        "eighth": u**3 if nonlinear else x * y * u,
    }
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=steps),
    )
    return cf.Model(cf.Library(dt(u), terms), COEFFICIENTS, experiment)


def pair_goals(tiny: bool) -> list[dict[str, Any]]:
    """The goals of pairs, for linear and nonlinear problems, with scores to all digits and to
    1e-5.
    """
    return [
        goal
        for nonlinear in (False, True)
        for accuracy in (0.0, 1e-5)
        for goal in [pair_goal(nonlinear, accuracy, tiny)]
    ]


def pair_goal(nonlinear: bool, accuracy: float, tiny: bool) -> dict[str, Any]:
    """The goal of pairs in one problem, at one accuracy of scores."""
    names = list(COEFFICIENTS)
    singles = {f"without {name}": cf.delete(name) for name in names}
    pairs = {f"{a} & {b}": cf.delete(a, b) for a, b in combinations(names, 2)}
    with model(nonlinear, 0.1 if tiny else 0.02, 4 if tiny else 20) as made:
        made.interventions({"warm": cf.delete("u")}, accuracy=accuracy)
        one = timed(lambda: made.interventions(singles, accuracy=accuracy))[1]
        two = timed(lambda: made.interventions(pairs, accuracy=accuracy))[1]
    kind = "nonlinear" if nonlinear else "linear"
    return {
        "goal": f"all pairs of 8 terms, {kind}, accuracy {accuracy:g}, in units of all single "
        "deletions",
        "value": two / one,
        "wanted": f"≤ {MOST:g}",
        "passed": two <= MOST * one,
    }
