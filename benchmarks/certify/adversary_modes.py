# SPDX-License-Identifier: MIT
"""Exact references for attacks on error bars: eigenmodes of rectangles, their amplitudes in time,
and sine series of rough data.

Nothing here uses the engine: amplitudes obey ordinary equations whose solutions are integrals
(Duhamel), computed on grids that are fine where data are narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from dolfinx import mesh
from mpi4py import MPI
from scipy.integrate import cumulative_simpson

import cffem as cf
from cffem.symbols import x, y

u = cf.ScalarField("u")


@dataclass(frozen=True)
class Rectangle:
    """(0, width) × (0, height) with its Dirichlet eigenmodes."""

    width: float = 1.0
    height: float = 1.0

    def mode(self, i: int, j: int) -> sp.Expr:
        """sin(iπx/width) sin(jπy/height)."""
        return sp.sin(i * sp.pi * x / self.width) * sp.sin(j * sp.pi * y / self.height)

    def eigenvalue(self, i: int, j: int) -> float:
        """Of −Δ."""
        return math.pi**2 * ((i / self.width) ** 2 + (j / self.height) ** 2)

    @property
    def square(self) -> float:
        """The squared L2 norm of every mode."""
        return self.width * self.height / 4

    def mesh(self, cells: int | tuple[int, int]) -> Any:
        """Triangles."""
        many = (cells, cells) if isinstance(cells, int) else cells
        return mesh.create_rectangle(
            MPI.COMM_SELF, [(0.0, 0.0), (self.width, self.height)], list(many)
        )


UNIT = Rectangle()


def decay(rate: float, start: float, source: np.ndarray, times: np.ndarray) -> np.ndarray:
    """y' + rate·y = source with y(0) = start, on a fine grid."""
    inner = cumulative_simpson(np.exp(rate * (times - times[0])) * source, x=times, initial=0.0)
    result: np.ndarray = np.exp(-rate * (times - times[0])) * (start + inner)
    return result


def oscillation(
    stiffness: float, damping: float, start: float, source: np.ndarray, times: np.ndarray
) -> np.ndarray:
    """y'' + damping·y' + stiffness·y = source with y(0) = start and y'(0) = 0, underdamped,
    on a fine grid.
    """
    since = times - times[0]
    root = complex(-damping / 2, math.sqrt(stiffness - damping**2 / 4))
    kernel = np.exp(root * since)
    free = start * (kernel * (1 + 1j * root.real / root.imag)).real
    inner = cumulative_simpson((np.exp(-root * since) * source).real, x=times, initial=0.0)
    other = cumulative_simpson((np.exp(-root * since) * source).imag, x=times, initial=0.0)
    result: np.ndarray = free + (kernel * (inner + 1j * other)).imag / root.imag
    return result


def fine_times(end: float, centres: Sequence[float] = (), width: float = 1.0) -> np.ndarray:
    """Times from 0 to the end, closer together around some centres."""
    parts = [np.linspace(0, end, 8001)]
    parts += [np.clip(c + width * np.linspace(-9, 9, 6001), 0, end) for c in centres]
    found = np.unique(np.concatenate(parts))
    # Times that almost coincide would spoil Simpson's rule for unequal intervals.
    least = 0.1 * min(end / 8000, 18 * width / 6000)
    return found[np.concatenate([[True], np.diff(found) > least])]


def in_time(values: np.ndarray, times: np.ndarray) -> float:
    """∫ values² dt."""
    return float(np.trapezoid(values**2, times))


def sine_coefficients(
    function: Callable[[np.ndarray], np.ndarray], count: int, breaks: Sequence[float] = ()
) -> np.ndarray:
    """2∫₀¹ f(x) sin(kπx) dx for k = 1…count, by Gauss points between breaks, close enough for
    narrow functions.

    Args:
        function: f, smooth between the breaks.
        count: how many.
        breaks: where f has kinks, jumps or narrow features.
    """
    ends = np.unique(np.clip(np.concatenate([[0.0, 1.0], breaks, np.linspace(0, 1, 401)]), 0, 1))
    points, weights = np.polynomial.legendre.leggauss(8)
    middle, half = (ends[1:] + ends[:-1]) / 2, np.diff(ends) / 2
    places = (middle[:, None] + half[:, None] * points).ravel()
    shares = (half[:, None] * weights).ravel() * function(places)
    k = np.arange(1, count + 1)
    return np.concatenate(
        [
            2 * np.sin(np.pi * np.outer(some, places)) @ shares
            for some in np.array_split(k, 1 + count // 200)
        ]
    )


def around(centre: float, width: float) -> np.ndarray:
    """Breaks that resolve a narrow feature."""
    return centre + width * np.linspace(-8, 8, 161)


def steady_model(
    forcing: Any, coefficients: dict[str, float], cells: Any, degree: int, domain: Rectangle = UNIT
) -> Any:
    """0 = lap·Δu + r·u + forcing with zero boundary values."""
    library = cf.Library(terms={"lap": cf.lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=domain.mesh(cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: forcing},
    )
    return cf.Model(library, coefficients, experiment)


def heat_model(
    initial: Any,
    forcing: Any,
    coefficients: dict[str, float],
    cells: Any,
    degree: int,
    window: Any,
    domain: Rectangle = UNIT,
) -> Any:
    """u_t = lap·Δu + r·u + forcing with zero boundary values."""
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "r": u})
    experiment = cf.Experiment(
        mesh=domain.mesh(cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: initial},
        forcing={u: forcing},
        time=window,
    )
    return cf.Model(library, coefficients, experiment)


def wave_model(
    initial: Any, forcing: Any, coefficients: dict[str, float], cells: Any, degree: int, window: Any
) -> Any:
    """u_tt = lap·Δu − damping·u_t + forcing with zero boundary values, at rest at the start."""
    library = cf.Library(anchor=cf.dt(cf.dt(u)), terms={"lap": cf.lap(u), "damping": -cf.dt(u)})
    experiment = cf.Experiment(
        mesh=UNIT.mesh(cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: initial, cf.dt(u): 0},
        forcing={u: forcing},
        time=window,
    )
    return cf.Model(library, coefficients, experiment)
