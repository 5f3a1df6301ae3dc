# SPDX-License-Identifier: MIT
"""Attacks by data: pulses between time levels, strips between quadrature points, functions of every
kind, aliased initial values.

References are Duhamel integrals in time and sine series in space, on grids that are fine where the
data are narrow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.adversary_modes import (
    UNIT,
    around,
    decay,
    fine_times,
    heat_model,
    in_time,
    oscillation,
    sine_coefficients,
    steady_model,
    u,
    wave_model,
)
from benchmarks.certify.certify_adversary import Attack, Finding, judged
from cffem.bounds.entrance import certify_deletion, certify_sweep
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.observable_bounds import certify_observable
from cffem.symbols import t, x, y

MODE, LOWEST = UNIT.mode(1, 1), UNIT.eigenvalue(1, 1)
TERMS = 1200


# Functions
# --------------------------------------------------------------------------------------------------


def narrow(random: Any, s: sp.Symbol, centre: float, width: float) -> sp.Expr:
    """A narrow function of one variable, of any kind of the language; its height is one."""
    z = (s - centre) / width
    kinds = [
        sp.exp(-(z**2)),
        1 / sp.cosh(z) ** 2,
        2 ** (-(z**2)),
        (1 + z**2) ** sp.Rational(-27, 10),
        1 - sp.tanh(z) ** 2,
        sp.erf(z + 1) / 2 - sp.erf(z - 1) / 2,
        sp.Heaviside(s - centre + width) - sp.Heaviside(s - centre - width),
        (sp.sign(s - centre + width) - sp.sign(s - centre - width)) / 2,
        sp.Max(0, 1 - sp.Abs(z)),
        1 - sp.Min(1, sp.Abs(z)),
        sp.Piecewise((1 - z**2, sp.Abs(z) < 1), (0, True)),
        1 / (1 + sp.sinh(z) ** 2),
    ]
    return kinds[int(random.integers(len(kinds)))]


def sampled(function: sp.Expr, s: sp.Symbol) -> Any:
    """The function for arrays."""
    # NumPy takes the largest of numbers and arrays two at a time.
    plain = function.replace(sp.Max, lambda a, b: (a + b + sp.Abs(a - b)) / 2)
    plain = plain.replace(sp.Min, lambda a, b: (a + b - sp.Abs(a - b)) / 2)
    raw = sp.lambdify(s, plain, ["scipy", "numpy"])

    def evaluated(values: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.broadcast_to(
                np.nan_to_num(np.asarray(raw(values), dtype=float)), values.shape
            )

    return evaluated


def breaks(centre: float, width: float) -> np.ndarray:
    """Where a narrow function has kinks and jumps, and points that resolve it."""
    return np.concatenate(
        [around(centre, width), [centre - width, centre, centre + width], around(centre, 5 * width)]
    )


# In time
# --------------------------------------------------------------------------------------------------


def pulse(kind: str) -> Attack:
    """Pulses of width 0.002τ to τ somewhere in a step."""
    name = f"pulses in time, {kind}"

    def attack(random: Any) -> Finding:
        cells, steps, end = (
            int(random.integers(3, 7)),
            int(random.integers(4, 13)),
            float(random.uniform(0.5, 1.5)),
        )
        tau = end / steps
        width = tau * float(10 ** random.uniform(math.log10(0.002), 0))
        centre = float(random.uniform(0.15, 0.9)) * end
        shape = narrow(random, t, centre, width)
        size = float(10 ** random.uniform(-1, 1)) / width
        times = fine_times(end, [centre], width)
        source = size * sampled(shape, t)(times)
        window = cf.Window(0, end, steps)
        if kind == "heat":
            a, r = float(10 ** random.uniform(-2, -0.7)), -float(random.uniform(0.1, 2))
            model = heat_model(MODE, size * shape * MODE, {"lap": a, "r": r}, cells, 2, window)
            paths = [decay(a * LOWEST - c, 1.0, source, times) for c in (r, 0.0)]
            term = "r"
        else:
            a, r = 1.0, float(random.uniform(0.1, 1))
            model = wave_model(
                MODE, size * shape * MODE, {"lap": a, "damping": r}, cells, 2, window
            )
            paths = [oscillation(LOWEST, c, 1.0, source, times) for c in (r, 0.0)]
            term = "damping"
        truth = math.sqrt(UNIT.square * in_time(paths[0] - paths[1], times))
        bound = certify_deletion(model, term)
        model.destroy()
        return judged(
            name,
            f"n={cells} steps={steps} T={end:.4g} w/τ={width / tau:.3g} r={r:.3g} "
            f"{size:.4g}·{shape}",
            bound,
            truth,
        )

    return attack


# In space
# --------------------------------------------------------------------------------------------------


def _steady_score(coefficients: np.ndarray, a: float, r: float) -> float:
    """The exact score of deleting r u from −a Δu = r u + F(x) sin πy by the sine series of F."""
    eigen = a * math.pi**2 * (np.arange(1, len(coefficients) + 1) ** 2 + 1)
    return math.sqrt(
        UNIT.square * float(((coefficients * (1 / (eigen - r) - 1 / eigen)) ** 2).sum())
    )


def strip(name: str, widths: tuple[float, float], estimated: bool = False) -> Attack:
    """Sources that are narrow in x, of any kind of function, on coarse meshes; by theorems,
    or by levels alone.
    """

    def attack(random: Any) -> Finding:
        cells, degree = int(random.integers(3, 9)), int(random.integers(1, 3))
        width = float(10 ** random.uniform(*np.log10(widths))) / cells
        centre = float(random.uniform(0.1, 0.9))
        shape, low = narrow(random, x, centre, width), float(random.choice([0.0, 1.0, 10.0]))
        size, a, r = float(10 ** random.uniform(0, 3)), 1.0, -float(random.uniform(0.5, 20))
        forcing = (low * sp.sin(sp.pi * x) + size * shape) * sp.sin(sp.pi * y)
        model = steady_model(forcing, {"lap": a, "r": r}, cells, degree)
        coefficients = size * sine_coefficients(sampled(shape, x), TERMS, breaks(centre, width))
        coefficients[0] += low
        truth = _steady_score(coefficients, a, r)
        if estimated:
            estimates = Estimates(model, 2e4)
            bound = estimates.deletion("r")
            estimates.destroy()
        else:
            bound = certify_sweep(
                model,
                model.deletions(["r"], keep=True),
                cf.Certification(epsilon=truth, budget=2e4),
            )["r"]
        model.destroy()
        return judged(
            name,
            f"n={cells} k={degree} h·{width * cells:.3g} r={r:.3g} {low}, {size:.4g}·{shape}",
            bound,
            truth,
        )

    return attack


def aliased(estimated: bool) -> Attack:
    """Initial values with a part that vanishes at the nodes of the mesh, or of all levels."""
    name = "aliased initial values" + (", by levels" if estimated else "")

    def attack(random: Any) -> Finding:
        cells, degree, steps = (
            int(random.integers(3, 6)),
            int(random.integers(1, 3)),
            int(random.integers(3, 7)),
        )
        level = int(random.choice([1, 2, 4, 8]))
        high, size = cells * degree * level, float(10 ** random.uniform(-1, 0.5))
        low = float(random.choice([0.0, 0.1, 1.0]))
        k = np.array([LOWEST, UNIT.eigenvalue(high, high)])
        a, r, end = 0.2 / k[1], -float(random.uniform(0.2, 1.0)), 1.0
        initial = low * MODE + size * UNIT.mode(high, high)
        model = heat_model(initial, 0, {"lap": a, "r": r}, cells, degree, cf.Window(0, end, steps))
        times = fine_times(end)
        gaps = [
            decay(a * e - r, b, 0 * times, times) - decay(a * e, b, 0 * times, times)
            for e, b in zip(k, (low, size), strict=True)
        ]
        truth = math.sqrt(UNIT.square * sum(in_time(gap, times) for gap in gaps))
        if estimated:
            estimates = Estimates(model, 1e5)
            bound = estimates.deletion("r")
            estimates.destroy()
        else:
            bound = certify_deletion(model, "r")
        model.destroy()
        return judged(
            name,
            f"n={cells} k={degree} steps={steps} high={high} {low}, {size:.4g} r={r:.4g}",
            bound,
            truth,
        )

    return attack


def layered(estimated: bool) -> Attack:
    """Observables downstream of a layer that the mesh may not resolve, by theorems or by
    levels alone.
    """
    name = "observables behind layers" + (", by levels" if estimated else "")

    def attack(random: Any) -> Finding:
        cells, degree = int(random.integers(4, 11)), int(random.integers(1, 3))
        a, speed, c = (
            float(10 ** random.uniform(-2.5, -0.5)),
            float(random.uniform(0.5, 2)),
            float(random.uniform(0.1, 2)),
        )
        library = cf.Library(terms={"lap": cf.lap(u), "drift": -u.diff(x), "r": -u}, unknown=u)
        given: dict[str, Any] = {
            "elements": {u: ("Lagrange", degree)},
            "boundary": [cf.Dirichlet(u, 0)],
        }
        given |= {"mesh": UNIT.mesh(cells), "forcing": {u: sp.sin(sp.pi * y)}}
        if estimated:
            # No theorem here speaks of natural conditions; the solution is one of x alone.
            walls = [
                cf.Dirichlet(u, 0, on=("left", "right")),
                cf.Neumann(u, 0, on=("bottom", "top")),
            ]
            given |= {
                "mesh": cf.mesh.square(MPI.COMM_SELF, 1 / cells),
                "boundary": walls,
                "forcing": {u: 1},
            }
        model = cf.Model(library, {"lap": a, "drift": speed, "r": c}, cf.Experiment(**given))
        begin = float(random.choice([0.0, random.uniform(0.0, 0.9)]))
        observable = cf.Integral(u * sp.Heaviside(x - begin)) if begin else cf.Integral(u)
        across, mean = (0.0, 1.0) if estimated else (a * math.pi**2, 2 / math.pi)
        effect = mean * (_layer(a, speed, across + c, begin) - _layer(a, speed, across, begin))
        bound = certify_observable(model, observable, ["r"], budget=1e5)["r"]
        model.destroy()
        return judged(
            name,
            f"n={cells} k={degree} a={a:.4g} b={speed:.4g} c={c:.4g} from {begin:.4g}",
            bound,
            abs(effect),
        )

    return attack


def _layer(a: float, b: float, c: float, begin: float) -> float:
    """∫ X over (begin, 1) for −a X″ + b X′ + c X = 1 with X(0) = X(1) = 0, written so that
    nothing overflows.
    """
    if c == 0:
        # X = (x − (e^{b(x−1)/a} − e^{−b/a})/(1 − e^{−b/a}))/b
        low = math.exp(-b / a)
        rise = a / b * (1 - math.exp(b * (begin - 1) / a)) - low * (1 - begin)
        return ((1 - begin**2) / 2 - rise / (1 - low)) / b
    root = math.sqrt(b * b + 4 * a * c)
    plus, minus = (b + root) / (2 * a), -2 * c / (b + root)
    matrix = np.array([[math.exp(-plus), 1.0], [1.0, math.exp(minus)]])
    first, second = np.linalg.solve(matrix, [-1 / c, -1 / c])
    left = (1 - math.exp(plus * (begin - 1))) / plus
    right = math.exp(minus * begin) * math.expm1(minus * (1 - begin)) / minus
    return float((1 - begin) / c + first * left + second * right)


ATTACKS: dict[str, Attack] = {
    "pulses in time, heat": pulse("heat"),
    "pulses in time, wave": pulse("wave"),
    "strips between quadrature points": strip("strips between quadrature points", (0.002, 0.2)),
    "functions of every kind": strip("functions of every kind", (0.2, 5.0)),
    "narrow forcings, by levels": strip("narrow forcings, by levels", (0.01, 1.0), estimated=True),
    "aliased initial values": aliased(False),
    "aliased initial values, by levels": aliased(True),
    "observables behind layers": layered(False),
    "observables behind layers, by levels": layered(True),
}
