# SPDX-License-Identifier: MIT
"""Attacks by where: observables on parts of the domain, meshes that overlap, sizes and
slender cells.
"""

from __future__ import annotations

import math
from typing import Any

import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.adversary_modes import (
    UNIT,
    Rectangle,
    around,
    decay,
    fine_times,
    heat_model,
    in_time,
    steady_model,
    u,
)
from benchmarks.certify.certify_adversary import Attack, Finding, judged
from cffem.bounds.entrance import certify_deletion, certify_sweep
from cffem.bounds.observable_bounds import certify_observable
from cffem.symbols import x, y

MODE, LOWEST = UNIT.mode(1, 1), UNIT.eigenvalue(1, 1)


# Observables
# --------------------------------------------------------------------------------------------------


def _watched(random: Any, at: str) -> tuple[Any, float, str]:
    """A random linear observable, its value for the first mode, and what it is."""
    kind = str(random.choice(["half", "strip", "box", "gauss", "point", "smooth", "disc"]))
    (a, b), width = random.uniform(0.2, 0.8, 2).tolist(), float(10 ** random.uniform(-2.5, -0.7))
    integral = lambda p, q: (math.cos(math.pi * p) - math.cos(math.pi * q)) / math.pi  # noqa: E731
    if kind == "half":
        return cf.Integral(u * sp.Heaviside(a - x), at=at), integral(0, a) * 2 / math.pi, f"x < {a}"
    if kind == "strip":
        weight = sp.Piecewise((1, sp.And(x > a, x < a + width)), (0, True))
        return (
            cf.Integral(u * weight, at=at),
            integral(a, min(a + width, 1)) * 2 / math.pi,
            f"strip {a}, {width}",
        )
    if kind == "box":
        weight = sp.Heaviside(x - a) * sp.Heaviside(b - y)
        return cf.Integral(u * weight, at=at), integral(a, 1) * integral(0, b), f"box {a}, {b}"
    if kind == "gauss":
        weight = sp.exp(-((x - a) ** 2 + (y - b) ** 2) / width**2) / (math.pi * width**2)
        return (
            cf.Integral(u * weight, at=at),
            _mean(a, width) * _mean(b, width),
            f"gauss {a}, {b}, {width}",
        )
    if kind == "point":
        radius = float(random.uniform(0.01, 0.15))
        return (
            cf.PointAverage(u, (a, b), radius, at=at),
            _average(a, b, radius),
            f"point {a}, {b}, {radius}",
        )
    if kind == "disc":
        radius = float(random.uniform(0.02, 0.15))
        weight = sp.Heaviside(radius**2 - (x - a) ** 2 - (y - b) ** 2)
        return (
            cf.Integral(u * weight, at=at),
            _over_disc(a, b, radius, lambda r: 1.0),
            f"disc {a}, {b}, {radius}",
        )
    return cf.Integral(u * sp.sin(sp.pi * x) * (1 + y), at=at), 0.5 * 3 / math.pi, "smooth"


def _mean(centre: float, width: float) -> float:
    """∫ sin(πx) exp(−(x − c)²/w²)/(√π w) dx over (0, 1)."""
    ends = np.unique(np.clip(np.concatenate([around(centre, width), [0.0, 1.0]]), 0, 1))
    points, weights = np.polynomial.legendre.leggauss(10)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    place = middle[:, None] + half[:, None] * points
    values = (
        np.sin(math.pi * place)
        * np.exp(-(((place - centre) / width) ** 2))
        / (math.sqrt(math.pi) * width)
    )
    return float((half[:, None] * weights * values).sum())


def _over_disc(a: float, b: float, radius: float, profile: Any) -> float:
    """∫ sin(πx) sin(πy) profile(r/radius) over a disc, which must lie in the square."""
    points, weights = np.polynomial.legendre.leggauss(40)
    r, w = (points + 1) / 2, weights / 2
    angle = np.linspace(0, 2 * math.pi, 65)[:-1]
    px, py = a + radius * np.outer(r, np.cos(angle)), b + radius * np.outer(r, np.sin(angle))
    inner = (np.sin(math.pi * px) * np.sin(math.pi * py)).mean(axis=1) * 2 * math.pi
    shape = np.array([profile(value) for value in r])
    return float(radius**2 * (w * r * shape * inner).sum())


def _average(a: float, b: float, radius: float) -> float:
    weight = math.pi * radius**2 / 3  # ∫ (1 − r²/radius²)² over the disc
    return _over_disc(a, b, radius, lambda r: (1 - r * r) ** 2) / weight


def observed(kind: str, at: str) -> Attack:
    """Observables of steady and transient problems, over the window or at its end."""
    name = f"observables on parts of the domain, {kind}" + ("" if kind == "steady" else f", {at}")

    def attack(random: Any) -> Finding:
        cells, degree, r = (
            int(random.integers(4, 11)),
            int(random.integers(1, 4)),
            -float(random.uniform(0.1, 5)),
        )
        observable, value, what = _watched(random, at)
        if kind == "steady":
            model = steady_model(MODE, {"lap": 1.0, "r": r}, cells, degree)
            effect = 1 / LOWEST - 1 / (LOWEST - r)
        else:
            a, end, steps = (
                10 ** random.uniform(-2, -0.5),
                float(random.uniform(0.3, 1.5)),
                int(random.integers(5, 21)),
            )
            model = heat_model(MODE, 0, {"lap": a, "r": r}, cells, degree, cf.Window(0, end, steps))
            rates = [a * LOWEST, a * LOWEST - r]
            ends = [math.exp(-k * end) for k in rates]
            effect = (
                ends[0] - ends[1]
                if at == "end"
                else (1 - ends[0]) / rates[0] - (1 - ends[1]) / rates[1]
            )
            if at == "window" and observable.normalised:
                effect /= end
        found = certify_observable(model, observable, ["r"], budget=2e5)["r"]
        model.destroy()
        return judged(name, f"n={cells} k={degree} r={r:.4g} {what}", found, abs(effect * value))

    return attack


# Meshes
# --------------------------------------------------------------------------------------------------


def _made(points: np.ndarray, cells: np.ndarray) -> Any:
    element = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
    return mesh.create_mesh(MPI.COMM_SELF, cells.astype(np.int64), x=points, e=element)


def _strip(nx: int, ny: int) -> tuple[np.ndarray, np.ndarray]:
    """A grid of (0, 2) × (0, 1)."""
    across, up = np.meshgrid(np.linspace(0, 2, nx + 1), np.linspace(0, 1, ny + 1))
    first = (np.arange(ny)[:, None] * (nx + 1) + np.arange(nx)).ravel()
    lower = np.stack([first, first + 1, first + nx + 2], axis=1)
    upper = np.stack([first, first + nx + 2, first + nx + 1], axis=1)
    return np.column_stack([across.ravel(), up.ravel()]), np.concatenate([lower, upper])


def overlapping(random: Any) -> Finding:
    """The strip (0, 2) × (0, 1) folded, bent or laid twice; its own exact score is known
    where no length is changed.
    """
    nx, ny = 2 * int(random.integers(3, 7)), int(random.integers(3, 7))
    points, cells = _strip(nx, ny)
    how = str(random.choice(["folded", "turned", "twice"]))
    reaction = float(random.uniform(2.0, 12.3))
    if how == "twice":
        cells = np.concatenate([cells, cells + len(points)])
        points = np.concatenate([points, points])
    else:
        across = points[:, 0]
        points = np.column_stack([np.minimum(across, 2 - across), points[:, 1]])
        if how == "turned":
            angle = float(random.uniform(0, 2 * math.pi))
            points = points @ np.array(
                [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
            )
    library = cf.Library(terms={"lap": cf.lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=_made(points, cells),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    model = cf.Model(library, {"lap": 1.0, "r": reaction}, experiment)
    k = np.arange(1, 400)
    ones = 2 * (1 - (-1.0) ** k) / (k * math.pi)
    eigen = math.pi**2 * ((k[:, None] / 2) ** 2 + k[None] ** 2)
    gap = np.outer(ones, ones) * (1 / (eigen - reaction) - 1 / eigen)
    truth = math.sqrt((2 if how == "twice" else 1) / 2 * float((gap**2).sum()))
    bound = certify_sweep(
        model, model.deletions(["r"], keep=True), cf.Certification(epsilon=truth, budget=2e4)
    )["r"]
    model.destroy()
    return judged("overlapping meshes", f"{how} {nx}×{ny} r={reaction:.4g}", bound, truth)


def scaled(random: Any) -> Finding:
    """Rectangles from 1e-3 to 1e3 with cells as slender as 1:100, steady and in time."""
    width = float(10 ** random.uniform(-3, 3))
    domain = Rectangle(width, width * float(10 ** random.uniform(-2, 2)))
    slender = float(10 ** random.uniform(-2, 2))
    many = np.clip(np.round(np.sqrt(np.array([slender, 1 / slender]) * 30)), 2, 40).astype(int)
    degree, size = int(random.integers(1, 3)), float(10 ** random.uniform(-3, 3))
    k = domain.eigenvalue(1, 1)
    a = float(10 ** random.uniform(-3, 3))
    c = -a * k * float(10 ** random.uniform(-2, 0.5))
    case = (
        f"{width:.3g}×{domain.height:.3g} cells {many.tolist()} k={degree} a={a:.3g} c={c:.3g} "
        f"size={size:.3g}"
    )
    if random.integers(2):
        model = steady_model(
            size * a * k * domain.mode(1, 1),
            {"lap": a, "r": c},
            tuple(many.tolist()),
            degree,
            domain,
        )
        truth = size * math.sqrt(domain.square) * a * k * (1 / (a * k) - 1 / (a * k - c))
        case = f"steady {case}"
    else:
        end = 1 / (a * k)
        window = cf.Window(0, end, int(random.integers(4, 13)))
        model = heat_model(
            size * domain.mode(1, 1),
            0,
            {"lap": a, "r": c},
            tuple(many.tolist()),
            degree,
            window,
            domain,
        )
        times = fine_times(end)
        paths = [decay(rate, size, 0 * times, times) for rate in (a * k - c, a * k)]
        truth = math.sqrt(domain.square * in_time(paths[0] - paths[1], times))
    bound = certify_deletion(model, "r")
    model.destroy()
    return judged("sizes and slender cells", case, bound, truth)


ATTACKS: dict[str, Attack] = {
    "observables on parts of the domain, steady": observed("steady", "end"),
    "observables on parts of the domain, heat, window": observed("heat", "window"),
    "observables on parts of the domain, heat, end": observed("heat", "end"),
    "overlapping meshes": overlapping,
    "sizes and slender cells": scaled,
}
