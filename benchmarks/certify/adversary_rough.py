# SPDX-License-Identifier: MIT
"""Attacks by data that jump or have a kink within cells, where gaps between levels shrink by
accident.

Values on one side of the square are sums of sines, whose solutions are Σ g_k sin(kπx) sinh(κ_k(1 −
y))/sinh κ_k; with a coefficient that jumps at x = c and natural conditions above and below, the
solution is one of x alone on either side.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.adversary_modes import u
from benchmarks.certify.certify_adversary import Attack, Finding, judged
from cffem.bounds.levels.estimates import Estimates
from cffem.symbols import x

TERMS, BUDGET = 3000, 1e5


def _estimated(name: str, case: str, model: Any, truth: float) -> Finding:
    estimates = Estimates(model, BUDGET)
    bound = estimates.deletion("r")
    estimates.destroy()
    model.destroy()
    return judged(name, case, bound, truth)


def wall(random: Any) -> tuple[str, sp.Expr, np.ndarray]:
    """Values on one side, what they are called, and the coefficients of their sine series."""
    low = float(random.uniform(0.05, 0.6))
    high = float(random.uniform(low + 0.1, 0.97))
    middle, half, k = (low + high) / 2, (high - low) / 2, np.pi * np.arange(1, TERMS + 1)
    kind = str(random.choice(["slab", "hat", "roof"]))
    if kind == "slab":
        return (
            f"slab {low:.4g} {high:.4g}",
            sp.Heaviside(x - low) - sp.Heaviside(x - high),
            2 * (np.cos(k * low) - np.cos(k * high)) / k,
        )
    if kind == "hat":
        value = sp.Max(0, 1 - sp.Abs(x - middle) / half)
        return (
            f"hat {low:.4g} {high:.4g}",
            value,
            4 * np.sin(k * middle) * (1 - np.cos(k * half)) / (half * k**2),
        )
    value = sp.Min(x / low, (1 - x) / (1 - low))
    return f"roof {low:.4g}", value, 2 * np.sin(k * low) / (k**2 * low * (1 - low))


def wall_score(coefficients: np.ndarray, r: float) -> float:
    """The exact score of deleting r u from −Δu + r u = 0 with a sine series on one side and
    zero on the others.
    """
    ends = np.concatenate([[0.0], np.geomspace(1e-6, 1, 150)])
    points, weights = np.polynomial.legendre.leggauss(6)
    half = np.diff(ends)[:, None] / 2
    places, shares = (
        ((ends[1:] + ends[:-1])[:, None] / 2 + half * points).ravel(),
        (half * weights).ravel(),
    )

    def decay(rate: np.ndarray) -> np.ndarray:
        q = rate[:, None]
        found: np.ndarray = (np.exp(-q * places) - np.exp(-q * (2 - places))) / (1 - np.exp(-2 * q))
        return found

    k = np.pi * np.arange(1, len(coefficients) + 1)
    gaps = (decay(np.sqrt(k**2 + r)) - decay(k)) ** 2 @ shares
    return math.sqrt(float((coefficients**2 / 2) @ gaps))


def rough_walls() -> Attack:
    """Boundary values with jumps and kinks anywhere between the nodes."""
    name = "rough boundary values, by levels"

    def attack(random: Any) -> Finding:
        cells, degree, r = (
            int(random.integers(3, 9)),
            int(random.integers(1, 3)),
            float(random.uniform(1, 20)),
        )
        kind, value, coefficients = wall(random)
        conditions = [
            cf.Dirichlet(u, value, on="bottom"),
            cf.Dirichlet(u, 0, on=("left", "right", "top")),
        ]
        experiment = cf.Experiment(
            mesh=cf.mesh.square(MPI.COMM_SELF, 1 / cells),
            elements={u: ("Lagrange", degree)},
            boundary=conditions,
        )
        model = cf.Model(
            cf.Library(terms={"lap": cf.lap(u), "r": -u}, unknown=u),
            {"lap": 1.0, "r": r},
            experiment,
        )
        return _estimated(
            name, f"n={cells} k={degree} r={r:.4g} {kind}", model, wall_score(coefficients, r)
        )

    return attack


def two_layers(place: float, jump: float, r: float, points: np.ndarray) -> np.ndarray:
    """u with −(a u′)′ + r u = 1, u(0) = u(1) = 0, a = 1 on the left of a place and `jump` on
    its right.
    """
    left, right = points, 1 - points
    if r == 0:
        matrix = np.array([[place, place - 1], [1.0, jump]])
        rise, fall = np.linalg.solve(matrix, [place**2 / 2 - (1 - place) ** 2 / (2 * jump), 1.0])
        return np.where(
            points < place, rise * left - left**2 / 2, fall * right - right**2 / (2 * jump)
        )
    p, q, rest = math.sqrt(r), math.sqrt(r / jump), 1 - place
    matrix = np.array(
        [
            [math.sinh(p * place), -math.sinh(q * rest)],
            [p * math.cosh(p * place), jump * q * math.cosh(q * rest)],
        ]
    )
    given = [
        math.cosh(p * place) - math.cosh(q * rest),
        p * math.sinh(p * place) + jump * q * math.sinh(q * rest),
    ]
    one, two = np.linalg.solve(matrix, given)
    inside = (
        1 - np.cosh(p * left) + one * np.sinh(p * left),
        1 - np.cosh(q * right) + two * np.sinh(q * right),
    )
    return np.where(points < place, *inside) / r


def rough_coefficients() -> Attack:
    """Diffusion that jumps within cells, by a factor of up to a hundred."""
    name = "rough coefficients, by levels"

    def attack(random: Any) -> Finding:
        cells, degree, r = (
            int(random.integers(3, 9)),
            int(random.integers(1, 3)),
            float(random.uniform(1, 20)),
        )
        place, jump = float(random.uniform(0.05, 0.95)), float(10 ** random.uniform(-2, 2))
        spread = sp.Piecewise((1, x < place), (jump, True))
        walls = [cf.Dirichlet(u, 0, on=("left", "right")), cf.Neumann(u, 0, on=("bottom", "top"))]
        experiment = cf.Experiment(
            mesh=cf.mesh.square(MPI.COMM_SELF, 1 / cells),
            elements={u: ("Lagrange", degree)},
            boundary=walls,
            forcing={u: 1},
        )
        library = cf.Library(terms={"flow": cf.div(spread * cf.grad(u)), "r": -u}, unknown=u)
        model = cf.Model(library, {"flow": 1.0, "r": r}, experiment)
        points, weights = np.polynomial.legendre.leggauss(300)
        square = 0.0
        for low, high in ((0.0, place), (place, 1.0)):
            places = (low + high) / 2 + (high - low) / 2 * points
            gap = two_layers(place, jump, r, places) - two_layers(place, jump, 0.0, places)
            square += float(gap**2 @ weights) * (high - low) / 2
        return _estimated(
            name,
            f"n={cells} k={degree} r={r:.4g} {jump:.4g} from {place:.4g}",
            model,
            math.sqrt(square),
        )

    return attack


ATTACKS: dict[str, Attack] = {
    "rough boundary values, by levels": rough_walls(),
    "rough coefficients, by levels": rough_coefficients(),
}
