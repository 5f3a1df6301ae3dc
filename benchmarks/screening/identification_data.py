# SPDX-License-Identifier: MIT
"""Families of partial differential equations with known truth, for `cffem bench screening` and
docs/identification.md.

Each family makes its own clean data (spectral or exact solutions) and says which terms of which
library are true. A family of several fields has one equation per field; all of them are screened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from benchmarks.screening import screening_data as classics
from benchmarks.screening.spectral import Box, march
from cffem.data import Dataset
from cffem.symbols.coordinates import t, x, y
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import dt, lap
from cffem.symbols.problem.library import Library

Field = ScalarField | VectorField
u, v, w = ScalarField("u"), ScalarField("v"), ScalarField("w")
LETTERS = {"x": x, "y": y}
Clean = tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]  # coordinates and values of each field


@dataclass(frozen=True)
class Equation:
    """A library with the coefficients of its true terms."""

    library: Library
    truth: Mapping[str, float]

    def lacking(self, dropped: str) -> Library:
        """The library without one of its terms."""
        terms = {name: term for name, term in self.library.terms.items() if name != dropped}
        return Library(anchor=self.library.anchor, terms=terms)


@dataclass(frozen=True)
class Peer:
    """What PySINDy's weak form needs to find the same equations: its library and its names of the
    true terms.

    Args:
        degree: of the polynomials.
        order: highest derivative in space.
        truths: the true feature names of each field's equation.
        bias: whether a constant is among the candidates.
        products: whether products of polynomials and derivatives are among the candidates.
    """

    degree: int
    order: int
    truths: tuple[frozenset[str], ...]
    bias: bool = False
    products: bool = False


@dataclass(frozen=True)
class EquationFamily:
    """One kind of equation: how to make its clean data, and what is true of them.

    Args:
        name: for tables.
        clean: makes coordinates and values.
        equations: one per field.
        peer: what PySINDy needs, where it can do it.
        projected: whether the equation holds up to a gradient.
        limit_of_detection: whether a true term is too small to be seen in noise; such a family
            shows `limits_` and abstentions, not supports.
        memory: the clean data once they are made.
    """

    name: str
    clean: Callable[[], Clean]
    equations: tuple[Equation, ...]
    peer: Peer | None = None
    projected: bool = False
    limit_of_detection: bool = False
    memory: dict[str, Clean] = field(default_factory=dict, compare=False, repr=False)

    def made(self) -> Clean:
        """Clean coordinates and values, solved once."""
        if "clean" not in self.memory:
            self.memory["clean"] = self.clean()
        return self.memory["clean"]

    def noisy(self, ratio: float, seed: int) -> Clean:
        """The data with white noise of standard deviation ratio · rms of each field."""
        coordinates, values = self.made()
        return coordinates, {
            f: classics.with_noise(a, ratio, 1000 * seed + k)
            for k, (f, a) in enumerate(values.items())
        }

    def dataset(self, ratio: float, seed: int) -> Dataset:
        """The noisy data as a dataset."""
        return Dataset.from_arrays(*self.noisy(ratio, seed), projected=self.projected)


# Libraries
# --------------------------------------------------------------------------------------------------


def powers(fields: tuple[ScalarField, ...], degree: int) -> dict[str, sp.Expr]:
    """All monomials of the fields from degree one to `degree`, by name."""
    terms: dict[str, sp.Expr] = {}
    for term in sorted(
        sp.itermonomials(fields, degree), key=lambda m: (sp.Poly(m, *fields).total_degree(), str(m))
    ):
        if term != 1:
            terms[str(term).replace("**", "^").replace("*", " ")] = term
    return terms


def derivatives(
    fields: tuple[ScalarField, ...], axes: tuple[sp.Symbol, ...], order: int
) -> dict[str, sp.Expr]:
    """Pure and mixed derivatives of the fields in space up to an order, by name."""
    words = [""]
    found: dict[str, sp.Expr] = {}
    for _ in range(order):
        words = sorted({"".join(sorted(word + str(axis))) for word in words for axis in axes})
        for name in fields:
            found |= {
                f"{name}_{word}": name.diff(
                    *(sp.Symbol(c) if c not in "xyz" else by_name(c) for c in word)
                )
                for word in words
            }
    return found


def by_name(letter: str) -> sp.Symbol:
    """The coordinate of a letter."""
    return {"x": x, "y": y}[letter]


def conserved(degree: int, order: int) -> dict[str, sp.Expr]:
    """∂^d u^a for a = 1, …, degree and d = 0, …, order."""
    return {
        f"(u^{a})_{'x' * d}" if d else f"u^{a}": (u**a).diff(x, d) if d else u**a
        for a in range(1, degree + 1)
        for d in range(order + 1)
    }


# Families of one field
# --------------------------------------------------------------------------------------------------


def in_one_dimension(solution: Callable[[], classics.Gridded]) -> Callable[[], Clean]:
    """Clean data of u(x, t) from a function that returns grid, times and values."""

    def clean() -> Clean:
        grid, times, values = solution()
        return {x: grid, t: times}, {u: values}

    return clean


def fisher() -> classics.Gridded:
    """u_t = 0.5 u_xx + u − u²: three seeds invade the rest."""
    box, times = Box((60.0,), (256,)), np.linspace(0, 10, 101)
    grid = box.axes[0]
    initial = sum(
        a * np.exp(-(((grid - c) / s) ** 2))
        for a, c, s in ((0.6, 12, 2.0), (0.3, 30, 3.0), (0.9, 48, 1.5))
    )
    return (
        grid,
        times,
        march(box, [initial], [1 - 0.5 * box.square], lambda f: [-(f[0] ** 2)], times, 10)[0],
    )


def allen_cahn(diffusivity: float) -> classics.Gridded:
    """u_t = D u_xx + 5u − 5u³ from x² cos πx: fronts; with D = 1e-4 they are so thin that
    diffusion hardly shows.
    """
    box, times = Box((2.0,), (512,)), np.linspace(0, 1, 201)
    grid, linear = box.axes[0] - 1, 5 - diffusivity * box.square
    return (
        grid,
        times,
        march(
            box, [grid**2 * np.cos(np.pi * grid)], [linear], lambda f: [-5 * f[0] ** 3], times, 4
        )[0],
    )


def cahn_hilliard() -> classics.Gridded:
    """u_t = (u³ − u)_xx − u_xxxx: a mixture separates."""
    box, times = Box((60.0,), (256,)), np.linspace(0, 20, 161)
    linear, squared = box.square - box.square**2, box.square

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        return [box.back(-squared * box.kept * box.transform(f[0] ** 3)).real]

    return (
        box.axes[0],
        times,
        march(box, [0.6 * box.smooth_random(5, 8)], [linear], nonlinear, times, 40)[0],
    )


def klein_gordon() -> classics.Gridded:
    """u_tt = u_xx − u: eight waves, each exact."""
    grid, times, random = (
        20 * np.arange(256) / 256,
        np.linspace(0, 10, 129),
        np.random.default_rng(3),
    )
    values = 0.0
    for mode in range(1, 9):
        k, phases = 2 * np.pi * mode / 20, random.uniform(0, 2 * np.pi, 2)
        for sign, phase in zip((1, -1), phases, strict=True):
            values = values + random.uniform(0.3, 1) * np.cos(
                k * grid[:, None] + sign * np.sqrt(1 + k * k) * times + phase
            )
    return grid, times, values


def heat() -> Clean:
    """u_t = 0.1 Δu: nine exact modes in a square."""
    grid, times = 2 * np.pi * np.arange(48) / 48, np.linspace(0, 2, 41)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    modes = [(k, m) for k in (1, 2, 3) for m in (1, 2, 3)]
    values = sum(
        np.exp(-0.1 * (k * k + m * m) * times) * (np.sin(k * a + m) * np.cos(m * b))[..., None]
        for k, m in modes
    )
    return {x: grid, y: grid, t: times}, {u: values}


def transport() -> Clean:
    """u_t = −0.13 u_x − 0.09 u_y + 0.001 Δu: Gaussians that move and spread, exact."""
    grid, times = np.linspace(0, 1, 64), np.linspace(0, 3, 61)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    values = classics.moving_gaussians(points, times, (0.13, 0.09), 1e-3, (0.03, 0.06))
    return {x: grid, y: grid, t: times}, {u: values.reshape(64, 64, -1)}


# Families of several fields
# --------------------------------------------------------------------------------------------------


def schroedinger() -> Clean:
    """i q_t + ½ q_xx + |q|² q = 0 with q = u + iv: a bound state of solitons."""
    box, times = Box((10.0,), (256,)), np.linspace(0, np.pi / 2, 201)
    grid = box.axes[0] - 5
    start = 2 / np.cosh(grid) + 0.3j * np.exp(-((grid - 1.5) ** 2))
    q = march(
        box, [start], [-0.5j * box.square], lambda f: [1j * np.abs(f[0]) ** 2 * f[0]], times, 10
    )[0]
    return {x: grid, t: times}, {u: q.real, v: q.imag}


def lambda_omega() -> Clean:
    """u_t = 0.1 Δu + (1 − A²)u + A² v, v_t = 0.1 Δv − A² u + (1 − A²)v with A² = u² + v²: a
    spiral wave.
    """
    box, times = Box((20.0, 20.0), (64, 64)), np.linspace(0, 10, 81)
    a, b = (c - 10 for c in box.grid)
    radius, angle = np.hypot(a, b), np.arctan2(b, a)
    start = [np.tanh(radius) * np.cos(angle - radius), np.tanh(radius) * np.sin(angle - radius)]

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        square = f[0] ** 2 + f[1] ** 2
        return [-square * f[0] + square * f[1], -square * f[0] - square * f[1]]

    frames = march(box, start, [1 - 0.1 * box.square] * 2, nonlinear, times, 5)
    return {x: box.axes[0], y: box.axes[1], t: times}, {u: frames[0], v: frames[1]}


def gray_scott() -> Clean:
    """u_t = 0.16 Δu − uv² + 0.04 (1 − u), v_t = 0.08 Δv + uv² − 0.1 v: spots that divide."""
    box, times = Box((64.0, 64.0), (64, 64)), np.linspace(0, 600, 81)
    a, b = box.grid
    random = np.random.default_rng(11)
    seeds = sum(
        np.exp(-((a - p) ** 2 + (b - q) ** 2) / 12) for p, q in random.uniform(12, 52, (7, 2))
    )
    seeds = np.minimum(seeds, 1)

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        reaction = f[0] * f[1] ** 2
        return [0.04 - reaction, reaction]

    frames = march(
        box,
        [1 - 0.5 * seeds, 0.3 * seeds],
        [-0.04 - 0.16 * box.square, -0.1 - 0.08 * box.square],
        nonlinear,
        times,
        8,
    )
    return {x: box.axes[0], y: box.axes[1], t: times}, {u: frames[0], v: frames[1]}


def maxwell() -> Clean:
    """w_t = u_y − v_x, u_t = w_y, v_t = −w_x (E = (u, v), H = w): plane waves in all
    directions, exact.
    """
    grid, times, random = (
        2 * np.pi * np.arange(64) / 64,
        np.linspace(0, 4, 81),
        np.random.default_rng(9),
    )
    a, b = (c[..., None] for c in np.meshgrid(grid, grid, indexing="ij"))
    fields = {u: 0.0, v: 0.0, w: 0.0}
    for k, m in ((1, 2), (2, -1), (3, 1), (-1, 3), (2, 2), (-3, 2), (1, -3), (0, 2), (3, 0)):
        frequency = np.hypot(k, m)
        wave = random.uniform(0.4, 1) * np.cos(
            k * a + m * b - frequency * times + random.uniform(0, 2 * np.pi)
        )
        fields = {
            u: fields[u] - m / frequency * wave,
            v: fields[v] + k / frequency * wave,
            w: fields[w] + wave,
        }
    return {x: grid, y: grid, t: times}, fields


def vortices() -> Clean:
    """v_t = −(v·∇)v + 0.02 Δv − ∇p with div v = 0: decaying two-dimensional turbulence,
    pressure left out.
    """
    xs, ys, times, velocity = classics.vortices()
    return {x: xs, y: ys, t: times}, {classics.vortex_library()[0]: velocity}


# The list
# --------------------------------------------------------------------------------------------------


def screened(
    terms: Mapping[str, sp.Expr], truth: Mapping[str, float], anchor: sp.Expr | None = None
) -> Equation:
    """An equation for u_t, or another anchor, with its truth."""
    missing = set(truth) - set(terms)
    if missing:
        raise KeyError(f"true terms {sorted(missing)} are not in the library {sorted(terms)}")
    return Equation(
        Library(anchor=dt(u) if anchor is None else anchor, terms=dict(terms)), dict(truth)
    )


def classic(number: int) -> tuple[Equation, ...]:
    """Burgers, KdV or Kuramoto–Sivashinsky with its library of u^a ∂^d u."""
    library = classics.small_library(2 + number)
    truth = (
        {"u u_x": -1.0, "u_xx": 0.1},
        {"u u_x": -6.0, "u_xxx": -1.0},
        {"u u_x": -1.0, "u_xx": -1.0, "u_xxxx": -1.0},
    )
    return (Equation(library, truth[number]),)


def one_field() -> list[EquationFamily]:
    """Families of one unknown."""
    reactive = powers((u,), 3) | {
        "u_x": u.diff(x),
        "u u_x": u * u.diff(x),
        "u_xx": u.diff(x, 2),
        "u u_xx": u * u.diff(x, 2),
        "u_x^2": u.diff(x) ** 2,
        "u_xxx": u.diff(x, 3),
    }
    waves = powers((u,), 3) | {
        "u_t": dt(u),
        "u_x": u.diff(x),
        "u u_x": u * u.diff(x),
        "u_xx": u.diff(x, 2),
        "u_xxx": u.diff(x, 3),
        "u_xxxx": u.diff(x, 4),
    }
    flat = classics.transport_library(2).terms

    def peer(degree: int, order: int, *names: str) -> Peer:
        return Peer(degree, order, (frozenset(names),), products="x0x0_1" in names)

    return [
        EquationFamily(
            "Burgers", in_one_dimension(classics.burgers), classic(0), peer(2, 2, "x0x0_1", "x0_11")
        ),
        EquationFamily(
            "KdV",
            in_one_dimension(classics.korteweg_de_vries),
            classic(1),
            peer(2, 3, "x0x0_1", "x0_111"),
        ),
        EquationFamily(
            "Kuramoto–Sivashinsky",
            in_one_dimension(classics.kuramoto_sivashinsky),
            classic(2),
            peer(2, 4, "x0x0_1", "x0_11", "x0_1111"),
        ),
        EquationFamily(
            "heat", heat, (screened(flat, {"lap u": 0.1}),), peer(2, 2, "x0_11", "x0_22")
        ),
        EquationFamily(
            "advection–diffusion",
            transport,
            (screened(flat, {"(u^1)_x": -0.13, "(u^1)_y": -0.09, "lap u": 1e-3}),),
            peer(2, 2, "x0_1", "x0_2", "x0_11", "x0_22"),
        ),
        EquationFamily(
            "Fisher",
            in_one_dimension(fisher),
            (screened(reactive, {"u": 1.0, "u^2": -1.0, "u_xx": 0.5}),),
            peer(3, 2, "x0", "x0^2", "x0_11"),
        ),
        EquationFamily(
            "Allen–Cahn",
            in_one_dimension(lambda: allen_cahn(3e-3)),
            (screened(reactive, {"u": 5.0, "u^3": -5.0, "u_xx": 3e-3}),),
            peer(3, 2, "x0", "x0^3", "x0_11"),
        ),
        EquationFamily(
            "Allen–Cahn, wide fronts",
            in_one_dimension(lambda: allen_cahn(1e-2)),
            (screened(reactive, {"u": 5.0, "u^3": -5.0, "u_xx": 1e-2}),),
            peer(3, 2, "x0", "x0^3", "x0_11"),
        ),
        EquationFamily(
            "Allen–Cahn, thin fronts",
            in_one_dimension(lambda: allen_cahn(1e-4)),
            (screened(reactive, {"u": 5.0, "u^3": -5.0, "u_xx": 1e-4}),),
            peer(3, 2, "x0", "x0^3", "x0_11"),
            limit_of_detection=True,
        ),
        EquationFamily(
            "Cahn–Hilliard",
            in_one_dimension(cahn_hilliard),
            (screened(conserved(3, 4), {"(u^3)_xx": 1.0, "(u^1)_xx": -1.0, "(u^1)_xxxx": -1.0}),),
        ),
        EquationFamily(
            "Klein–Gordon",
            in_one_dimension(klein_gordon),
            (screened(waves, {"u_xx": 1.0, "u": -1.0}, dt(dt(u))),),
        ),
    ]


def several_fields() -> list[EquationFamily]:
    """Families of several unknowns."""
    cubic = powers((u, v), 3)
    dispersive = cubic | derivatives((u, v), (x,), 3)
    plane = cubic | derivatives((u, v), (x, y), 2)
    plane = {name: term for name, term in plane.items() if not name.endswith("_xy")}
    chemical = (
        {"1": sp.Integer(1)}
        | cubic
        | {
            "u_x": u.diff(x),
            "u_y": u.diff(y),
            "lap u": lap(u),
            "v_x": v.diff(x),
            "v_y": v.diff(y),
            "lap v": lap(v),
        }
    )
    electric = (
        powers((u, v, w), 1)
        | derivatives((u, v, w), (x, y), 1)
        | {"lap u": lap(u), "lap v": lap(v), "lap w": lap(w)}
    )
    spiral = {
        "u_xx": 0.1,
        "u_yy": 0.1,
        "u": 1.0,
        "u^3": -1.0,
        "u v^2": -1.0,
        "u^2 v": 1.0,
        "v^3": 1.0,
    }
    turned = {
        "v_xx": 0.1,
        "v_yy": 0.1,
        "v": 1.0,
        "v^3": -1.0,
        "u^2 v": -1.0,
        "u v^2": -1.0,
        "u^3": -1.0,
    }
    _, flow = classics.vortex_library()
    names_u = frozenset({"x0_11", "x0_22", "x0", "x0^3", "x0x1^2", "x0^2x1", "x1^3"})
    names_v = frozenset({"x1_11", "x1_22", "x1", "x1^3", "x0^2x1", "x0x1^2", "x0^3"})
    return [
        EquationFamily(
            "nonlinear Schrödinger",
            schroedinger,
            (
                screened(dispersive, {"v_xx": -0.5, "u^2 v": -1.0, "v^3": -1.0}),
                screened(dispersive, {"u_xx": 0.5, "u v^2": 1.0, "u^3": 1.0}, dt(v)),
            ),
            Peer(
                3,
                2,
                (frozenset({"x1_11", "x0^2x1", "x1^3"}), frozenset({"x0_11", "x0x1^2", "x0^3"})),
            ),
        ),
        EquationFamily(
            "λ–ω",
            lambda_omega,
            (screened(plane, spiral), screened(plane, turned, dt(v))),
            Peer(3, 2, (names_u, names_v)),
        ),
        EquationFamily(
            "Gray–Scott",
            gray_scott,
            (
                screened(chemical, {"1": 0.04, "u": -0.04, "u v^2": -1.0, "lap u": 0.16}),
                screened(chemical, {"v": -0.1, "u v^2": 1.0, "lap v": 0.08}, dt(v)),
            ),
            Peer(
                3,
                2,
                (
                    frozenset({"1", "x0", "x0x1^2", "x0_11", "x0_22"}),
                    frozenset({"x1", "x0x1^2", "x1_11", "x1_22"}),
                ),
                True,
            ),
        ),
        EquationFamily(
            "Navier–Stokes, projected",
            vortices,
            (Equation(flow, {"(v.grad)v": -1.0, "lap v": 0.02}),),
            projected=True,
        ),
        EquationFamily(
            "Maxwell",
            maxwell,
            (
                screened(electric, {"w_y": 1.0}),
                screened(electric, {"w_x": -1.0}, dt(v)),
                screened(electric, {"u_y": 1.0, "v_x": -1.0}, dt(w)),
            ),
            Peer(1, 2, (frozenset({"x2_2"}), frozenset({"x2_1"}), frozenset({"x0_2", "x1_1"}))),
        ),
    ]


@lru_cache(maxsize=1)
def families() -> dict[str, EquationFamily]:
    """All families by name."""
    return {family.name: family for family in (*one_field(), *several_fields())}
