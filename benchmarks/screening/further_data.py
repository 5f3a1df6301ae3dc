# SPDX-License-Identifier: MIT
"""Further data for `cffem bench screening`: families on which no gate was developed, few frames at
irregular times, and many scattered sensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from benchmarks.screening import screening_data as classics
from benchmarks.screening.identification_data import (
    Clean,
    EquationFamily,
    conserved,
    derivatives,
    powers,
    screened,
    u,
    v,
)
from benchmarks.screening.spectral import Box, march
from cffem.data import Dataset
from cffem.symbols.coordinates import t, x, y
from cffem.symbols.operators import dt, lap
from cffem.symbols.problem.library import Library

FRAMES = (5, 6, 7, 8, 10, 12)
RANDOM_TIMES = 4
MODES = [(k, m) for k in (1, 2, 3) for m in (1, 2)]


# Families of which none was looked at while gates were made --------------------------------------


def swift_hohenberg() -> Clean:
    """u_t = 0.3u − (1 + ∂²)²u − u³ = −0.7u − 2u_xx − u_xxxx − u³: rolls grow."""
    box, times = Box((80.0,), (256,)), np.linspace(0, 12, 121)
    linear = -0.7 + 2 * box.square - box.square**2
    start = 0.4 * box.smooth_random(21, 20)
    frames = march(box, [start], [linear], lambda f: [-(f[0] ** 3)], times, 10)
    return {x: box.axes[0], t: times}, {u: frames[0]}


def porous_medium() -> Clean:
    """u_t = ½(u²)_xx: waves on a wet ground."""
    box, times = Box((20.0,), (192,)), np.linspace(0, 2, 121)
    start = 1.5 + 0.35 * box.smooth_random(22, 6)

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        return [box.back(-0.5 * box.square * box.kept * box.transform(f[0] ** 2)).real]

    frames = march(box, [start], [0 * box.square], nonlinear, times, 40)
    return {x: box.axes[0], t: times}, {u: frames[0]}


def excitable() -> Clean:
    """u_t = u_xx + u − u³/3 − v, v_t = 0.2u − 0.1v + 0.1: FitzHugh–Nagumo."""
    box, times = Box((60.0,), (192,)), np.linspace(0, 30, 151)

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        return [-(f[0] ** 3) / 3 - f[1], 0.2 * f[0] + 0.1]

    start = [1.2 * box.smooth_random(23, 5), 0.5 * box.smooth_random(24, 5)]
    frames = march(box, start, [1 - box.square, 0 * box.square - 0.1], nonlinear, times, 12)
    return {x: box.axes[0], t: times}, {u: frames[0], v: frames[1]}


def cubic_waves() -> Clean:
    """u_tt = u_xx − u − u³: the cubic Klein–Gordon equation."""
    return second_order(lambda a: -(a**3), lambda box: -box.square - 1, 25)


def boussinesq() -> Clean:
    """u_tt = u_xx − u_xxxx − (u²)_xx: waves on shallow water."""
    return second_order(None, lambda box: -box.square - box.square**2, 26)


def second_order(
    source: Callable[[np.ndarray], np.ndarray] | None, linear: Callable[[Box], Any], seed: int
) -> Clean:
    """u_tt = Lu + N(u) as two fields; without a source N(u) = −(u²)_xx."""
    box, times = Box((40.0,), (192,)), np.linspace(0, 10, 161)

    def nonlinear(f: np.ndarray) -> list[np.ndarray]:
        forced = box.back(linear(box) * box.transform(f[0])).real
        if source is not None:
            return [f[1], forced + source(f[0])]
        return [f[1], forced + box.back(box.square * box.kept * box.transform(f[0] ** 2)).real]

    start = [0.4 * box.smooth_random(seed, 8), 0.2 * box.smooth_random(seed + 50, 8)]
    frames = march(box, start, [0 * box.square] * 2, nonlinear, times, 60)
    return {x: box.axes[0], t: times}, {u: frames[0]}


def fisher_in_a_plane() -> Clean:
    """u_t = 0.3 Δu + u − u²."""
    box, times = Box((30.0, 30.0), (56, 56)), np.linspace(0, 6, 61)
    start = 0.25 + 0.12 * box.smooth_random(27, 4)
    frames = march(box, [start], [1 - 0.3 * box.square], lambda f: [-(f[0] ** 2)], times, 8)
    return {x: box.axes[0], y: box.axes[1], t: times}, {u: frames[0]}


def strangers() -> list[EquationFamily]:
    """The families."""
    one = powers((u,), 3) | {
        "u_x": u.diff(x), "u u_x": u * u.diff(x), "u_xx": u.diff(x, 2), "u_xxx": u.diff(x, 3),
        "u_xxxx": u.diff(x, 4), "(u^2)_xx": (u**2).diff(x, 2),
    }  # fmt: skip
    waves = one | {"u_t": dt(u)}
    two = {"1": sp.Integer(1)} | powers((u, v), 3) | derivatives((u, v), (x,), 2)
    plane = powers((u,), 3) | {"u_x": u.diff(x), "u_y": u.diff(y), "lap u": lap(u),
                               "lap u^2": lap(u**2)}  # fmt: skip
    swift = {"u": -0.7, "u_xx": -2.0, "u_xxxx": -1.0, "u^3": -1.0}
    firing = {"u_xx": 1.0, "u": 1.0, "u^3": -1 / 3, "v": -1.0}
    recovery = {"1": 0.1, "u": 0.2, "v": -0.1}
    return [
        EquationFamily("Swift–Hohenberg", swift_hohenberg, (screened(one, swift),)),
        EquationFamily(
            "porous medium", porous_medium, (screened(conserved(3, 3), {"(u^2)_xx": 0.5}),)
        ),
        EquationFamily(
            "FitzHugh–Nagumo", excitable, (screened(two, firing), screened(two, recovery, dt(v)))
        ),
        EquationFamily(
            "cubic Klein–Gordon",
            cubic_waves,
            (screened(waves, {"u_xx": 1.0, "u": -1.0, "u^3": -1.0}, dt(dt(u))),),
        ),
        EquationFamily(
            "Boussinesq",
            boussinesq,
            (screened(waves, {"u_xx": 1.0, "u_xxxx": -1.0, "(u^2)_xx": -1.0}, dt(dt(u))),),
        ),
        EquationFamily(
            "Fisher in a plane",
            fisher_in_a_plane,
            (screened(plane, {"u": 1.0, "u^2": -1.0, "lap u": 0.3}),),
        ),
    ]


# Few frames --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FewFrames:
    """Noise-free data of a known equation at any times.

    Args:
        name: for tables.
        anchor, terms: of the library.
        truth: the true coefficients.
        end: of the time in which the frames lie.
        values: the exact solution at some times.
        grid: the coordinates.
    """

    name: str
    anchor: sp.Expr
    terms: Mapping[str, sp.Expr]
    truth: Mapping[str, float]
    end: float
    values: Callable[[np.ndarray], np.ndarray]
    grid: Mapping[Any, np.ndarray]

    @property
    def library(self) -> Library:
        """The library."""
        return Library(anchor=self.anchor, terms=dict(self.terms))

    def dataset(self, times: np.ndarray) -> Dataset:
        """The data at some times."""
        return Dataset.from_arrays({**self.grid, t: times}, {u: self.values(times)})


def frame_times(count: int, end: float) -> list[tuple[str, np.ndarray]]:
    """Equal, growing and random reading times, each with its kind."""
    found = [
        ("equal", np.linspace(0, end, count)),
        ("growing", end * (np.geomspace(1, 10, count) - 1) / 9),
    ]
    for seed in range(RANDOM_TIMES):
        inner = np.random.default_rng(700 + seed).uniform(0, end, count - 2)
        found.append(("random", np.sort(np.r_[0, end, inner])))
    return found


def few_frame_problems() -> list[FewFrames]:
    """Heat, waves and transport with diffusion, in one and two dimensions, exact."""
    line, square = np.linspace(0, 2 * np.pi, 65), np.linspace(0, 2 * np.pi, 41)
    a, b = (c[..., None] for c in np.meshgrid(square, square, indexing="ij"))
    s = line[:, None]

    def modes(term: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda times: sum(term(k, m, times) for k, m in MODES)

    heat = modes(lambda k, m, w: np.exp(-0.1 * (k * k + m * m) * w) * np.sin(k * a + m)
                 * np.cos(m * b))  # fmt: skip
    wave = modes(lambda k, m, w: np.cos(np.hypot(k, m) * w + k * m) * np.sin(k * a + m)
                 * np.cos(m * b))  # fmt: skip
    moving = modes(lambda k, m, w: np.exp(-0.05 * (k * k + m * m) * w)
                   * np.sin(k * (a - 0.7 * w) + m) * np.cos(m * (b + 0.4 * w)))  # fmt: skip

    def along(term: Callable[..., np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda times: sum(term(k, times) for k in (1, 2, 3))

    flat, lined = {x: square, y: square}, {x: line}
    first = {"1": sp.Integer(1), "u": u, "u_x": u.diff(x), "u^2": u**2}
    second = {"u": u, "u_x": u.diff(x), "damping": -dt(u)}
    in_plane, on_line = {"lap u": lap(u)}, {"lap u": u.diff(x, 2)}
    drift = {"lap u": 0.05, "u_x": -0.7, "u_y": 0.4}
    return [
        FewFrames("heat, 2D", dt(u), first | in_plane, {"lap u": 0.1}, 0.5, heat, flat),
        FewFrames("waves, 2D", dt(dt(u)), second | in_plane, {"lap u": 1.0}, 1.0, wave, flat),
        FewFrames("transport, 2D", dt(u), first | in_plane | {"u_y": u.diff(y)}, drift, 1.0,
                  moving, flat),
        FewFrames("heat, 1D", dt(u), first | on_line, {"lap u": 0.1}, 0.5,
                  along(lambda k, w: np.exp(-0.1 * k * k * w) * np.sin(k * s + k)), lined),
        FewFrames("waves, 1D", dt(dt(u)), second | on_line, {"lap u": 1.0}, 1.0,
                  along(lambda k, w: np.cos(k * w + k) * np.sin(k * s + k * k)), lined),
        FewFrames("transport, 1D", dt(u), first | on_line, {"lap u": 0.05, "u_x": -0.7}, 1.0,
                  along(lambda k, w: np.exp(-0.05 * k * k * w) * np.sin(k * (s - 0.7 * w) + k)),
                  lined),
    ]  # fmt: skip


# Many sensors ------------------------------------------------------------------------------------


def many_sensors(count: int, frames: int) -> tuple[Library, Dataset, Dataset]:
    """Moving Gaussians at random sensors, and on a grid of as many points."""
    times = np.linspace(0, 3, frames)
    side = round(count**0.5)
    points = np.random.default_rng(1).random((count, 2))
    axis = np.linspace(0, 1, side)
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    made = [
        classics.with_noise(
            classics.moving_gaussians(p, times, (0.13, 0.09), 1e-3, (0.03, 0.06)), 0.1, 0
        )
        for p in (points, nodes)
    ]
    grid = {x: axis, y: axis, t: times}
    return (
        classics.transport_library(2),
        Dataset.from_points(points, times, {u: made[0]}),
        Dataset.from_arrays(grid, {u: made[1].reshape(side, side, frames)}),
    )
