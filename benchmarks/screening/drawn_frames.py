# SPDX-License-Identifier: MIT
"""Few frames of equations on which no rule was made, with coefficients, data and times drawn at
random. All solutions are exact: sums of waves by their dispersion relation, and Burgers' equation
by the formula of Cole and Hopf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import sympy as sp

from benchmarks.screening.further_data import FRAMES, FewFrames
from benchmarks.screening.identification_data import derivatives, powers, u
from cffem.symbols.coordinates import x, y
from cffem.symbols.operators import dt, lap

LENGTH = 2 * np.pi
LINE = powers((u,), 2) | derivatives((u,), (x,), 4) | {"u u_x": u * u.diff(x)}
PLANE: dict[str, sp.Expr] = powers((u,), 2) | {
    "u_x": u.diff(x),
    "u_y": u.diff(y),
    "lap u": lap(u),
    "u u_x": u * u.diff(x),
}
RATE = {"u_t": dt(u)}
Dispersion = Callable[[np.ndarray], complex]  # the rate of growth of exp(iκ·x)


def drawn_frames(seed: int) -> Iterator[tuple[FewFrames, int, str, np.ndarray]]:
    """Every problem with its number of frames, the kind of its times and these times; each draw
    has its own coefficients and data.
    """
    for number, make in enumerate(PROBLEMS):
        for count in FRAMES:
            for draw, kind in enumerate(("equal", "growing", "random", "random")):
                random = np.random.default_rng([seed, number, count, draw])
                problem = make(random)
                yield problem, count, kind, drawn_times(kind, count, problem.end, random)


def drawn_times(kind: str, count: int, end: float, random: np.random.Generator) -> np.ndarray:
    """Times from zero to the end."""
    if kind == "equal":
        return np.linspace(0, end, count)
    if kind == "growing":
        return (
            end
            * np.r_[0.0, np.cumsum(1.25 ** np.arange(count - 1))]
            / np.sum(1.25 ** np.arange(count - 1))
        )
    return end * np.sort(np.r_[0.0, random.uniform(0, 1, count - 2), 1.0])


def waves(
    random: np.random.Generator, rates: Sequence[Dispersion], points: int, dims: int
) -> Callable[[np.ndarray], np.ndarray]:
    """A real sum of waves with up to three periods per axis, which grow and turn at their rates."""
    axis = np.linspace(0, LENGTH, points)
    grids = np.meshgrid(*([axis] * dims), indexing="ij")
    numbers = [(k,) if dims == 1 else (k, m)
               for k in range(4) for m in (range(-2, 3) if dims == 2 else (0,))
               if (k, m) != (0, 0)]  # fmt: skip
    parts = [
        (np.array(number, dtype=float), rate, random.normal(), random.uniform(0, 2 * np.pi))
        for number in numbers
        for rate in rates
    ]

    def values(times: np.ndarray) -> np.ndarray:
        total = np.zeros((*grids[0].shape, len(times)))
        for number, rate, size, phase in parts:
            place = sum(k * g for k, g in zip(number, grids, strict=True))[..., None]
            wave = np.exp(1j * (place + phase) + rate(number) * times)
            total += size / (number @ number) * wave.real
        return total

    return values


def on_line(points: int) -> dict[sp.Symbol, np.ndarray]:
    """The coordinates of one dimension."""
    return {x: np.linspace(0, LENGTH, points)}


def on_square(points: int) -> dict[sp.Symbol, np.ndarray]:
    """The coordinates of two dimensions."""
    axis = np.linspace(0, LENGTH, points)
    return {x: axis, y: axis}


def dispersive(random: np.random.Generator) -> FewFrames:
    """u_t = −c u_x − d u_xxx."""
    c, d = random.uniform(0.5, 1.5), random.uniform(0.05, 0.2)
    values = waves(random, [lambda k: -1j * c * k[0] + 1j * d * k[0] ** 3], 101, 1)
    return FewFrames("dispersive, 1D", dt(u), LINE, {"u_x": -c, "u_xxx": -d}, 0.8, values,
                     on_line(101))  # fmt: skip


def reacting(random: np.random.Generator) -> FewFrames:
    """u_t = D u_xx + r u."""
    d, r = random.uniform(0.05, 0.3), random.choice([-1, 1]) * random.uniform(0.3, 1)
    values = waves(random, [lambda k: complex(r - d * k[0] ** 2)], 91, 1)
    return FewFrames("reaction–diffusion, 1D", dt(u), LINE, {"u_xx": d, "u": r}, 0.5, values,
                     on_line(91))  # fmt: skip


def massive(random: np.random.Generator) -> FewFrames:
    """u_tt = c² u_xx − m² u."""
    c, m = random.uniform(0.5, 2), random.uniform(0.5, 3)
    rates = [lambda k, s=s: 1j * s * np.sqrt(c * k[0] ** 2 + m) for s in (1, -1)]
    return FewFrames("Klein–Gordon, 1D", dt(dt(u)), LINE | RATE, {"u_xx": c, "u": -m}, 1.0,
                     waves(random, rates, 81, 1), on_line(81))  # fmt: skip


def damped(random: np.random.Generator) -> FewFrames:
    """u_tt = c² Δu − k u_t."""
    c, k = random.uniform(0.5, 1.5), random.uniform(0.4, 1.2)
    rates = [lambda q, s=s: -k / 2 + 1j * s * np.sqrt(c * (q @ q) - k**2 / 4) for s in (1, -1)]
    return FewFrames("damped waves, 2D", dt(dt(u)), PLANE | RATE, {"lap u": c, "u_t": -k}, 1.0,
                     waves(random, rates, 41, 2), on_square(41))  # fmt: skip


def drifting(random: np.random.Generator) -> FewFrames:
    """u_t = −a u_x − b u_y + D Δu."""
    (a, b), d = random.uniform(-0.8, 0.8, 2), random.uniform(0.02, 0.1)
    values = waves(random, [lambda q: -1j * (a * q[0] + b * q[1]) - d * (q @ q)], 45, 2)
    return FewFrames("transport, drawn, 2D", dt(u), PLANE, {"u_x": -a, "u_y": -b, "lap u": d},
                     1.0, values, on_square(45))  # fmt: skip


def burgers(random: np.random.Generator) -> FewFrames:
    """u_t = −u u_x + ν u_xx, from a solution of the heat equation."""
    viscosity, sizes = random.uniform(0.1, 0.3), random.uniform(-0.3, 0.3, 3)
    phases, line = random.uniform(0, 2 * np.pi, 3), np.linspace(0, LENGTH, 121)[:, None]

    def values(times: np.ndarray) -> np.ndarray:
        parts = [(k, a * np.exp(-viscosity * k * k * times), k * line + p)
                 for k, (a, p) in enumerate(zip(sizes, phases, strict=True), 1)]  # fmt: skip
        heat = 1.5 + sum(size * np.cos(phase) for _, size, phase in parts)
        slope = -sum(k * size * np.sin(phase) for k, size, phase in parts)
        return -2 * viscosity * slope / heat

    return FewFrames("Burgers, 1D", dt(u), LINE, {"u u_x": -1.0, "u_xx": viscosity}, 0.6, values,
                     on_line(121))  # fmt: skip


PROBLEMS = (dispersive, reacting, massive, damped, drifting, burgers)
