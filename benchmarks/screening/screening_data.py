# SPDX-License-Identifier: MIT
"""Data with known truth for the screening benchmark: spectral solutions, exact solutions,
libraries, noise.

Burgers, Korteweg–de Vries and Kuramoto–Sivashinsky are solved by Fourier collocation with
exponential time differencing (ETDRK4), on the grids that are customary for these three examples.
Transport with diffusion and the heat equation have exact solutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from scipy.ndimage import gaussian_filter, gaussian_filter1d
from scipy.spatial import cKDTree

from cffem.symbols.coordinates import x, y, z
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import dot, dt, grad, lap
from cffem.symbols.problem.library import Library

Gridded = tuple[np.ndarray, np.ndarray, np.ndarray]  # x, t and the values on their grid

u = ScalarField("u")


@dataclass(frozen=True)
class Example:
    """Clean gridded data in one dimension with the true coefficients in a small and in a
    large library.
    """

    name: str
    x: np.ndarray
    t: np.ndarray
    values: np.ndarray
    small: Library
    small_truth: dict[str, float]
    large: Library
    large_truth: dict[str, float]


def exponential_runge_kutta(
    initial: np.ndarray,
    linear: np.ndarray,
    nonlinear: Callable[[np.ndarray], np.ndarray],
    times: np.ndarray,
    substeps: int,
) -> np.ndarray:
    """ETDRK4 for v' = linear·v + nonlinear(v) in Fourier space; returns the solution at the
    times (columns).
    """
    step = (times[1] - times[0]) / substeps
    roots = np.exp(2j * np.pi * (np.arange(1, 65) - 0.5) / 64)
    contour = step * linear[:, None] + roots[None, :]
    half, full = np.exp(step * linear / 2), np.exp(step * linear)
    q = step * ((np.exp(contour / 2) - 1) / contour).mean(axis=1)
    f1 = step * (
        (-4 - contour + np.exp(contour) * (4 - 3 * contour + contour**2)) / contour**3
    ).mean(axis=1)
    f2 = step * ((2 + contour + np.exp(contour) * (contour - 2)) / contour**3).mean(axis=1)
    f3 = step * (
        (-4 - 3 * contour - contour**2 + np.exp(contour) * (4 - contour)) / contour**3
    ).mean(axis=1)
    if not np.iscomplexobj(linear):
        q, f1, f2, f3 = (np.real(c) for c in (q, f1, f2, f3))
    v, columns = np.fft.rfft(initial), [initial]
    for _ in times[1:]:
        for _ in range(substeps):
            n0 = nonlinear(v)
            a = half * v + q * n0
            na = nonlinear(a)
            b = half * v + q * na
            nb = nonlinear(b)
            c = half * a + q * (2 * nb - n0)
            v = full * v + f1 * n0 + 2 * f2 * (na + nb) + f3 * nonlinear(c)
        columns.append(np.fft.irfft(v, len(initial)))
    return np.array(columns).T


def periodic_solution(
    grid: np.ndarray,
    initial: np.ndarray,
    times: np.ndarray,
    symbol: Callable,
    quadratic: float,
    substeps: int,
) -> np.ndarray:
    """Solve u_t = quadratic·(u²)_x + symbol(ik) u on a periodic grid, dealiased by the
    two-thirds rule.
    """
    length = (grid[1] - grid[0]) * len(grid)
    k = 2 * np.pi * np.fft.rfftfreq(len(grid), length / len(grid))
    kept = np.arange(len(k)) <= len(grid) // 3

    def nonlinear(v: np.ndarray) -> np.ndarray:
        return quadratic * 1j * k * np.fft.rfft(np.fft.irfft(v, len(grid)) ** 2) * kept

    return exponential_runge_kutta(initial, symbol(1j * k), nonlinear, times, substeps)


def soliton(grid: np.ndarray, speed: float, centre: float) -> np.ndarray:
    """A solitary wave of u_t = −6 u u_x − u_xxx."""
    return speed / 2 / np.cosh(np.sqrt(speed) / 2 * (grid - centre)) ** 2


def burgers(two_pulses: bool = False) -> Gridded:
    """u_t = −u u_x + 0.1 u_xx: a Gaussian steepens into a viscous shock, or two pulses of
    opposite sign meet.
    """
    grid, times = -8 + 16 * np.arange(256) / 256, np.linspace(0, 10, 101)
    initial = np.exp(-((grid + 2) ** 2))
    if two_pulses:
        initial = 0.7 * np.exp(-((grid + 3) ** 2) / 2) - 0.6 * np.exp(-((grid - 2) ** 2))
    return (
        grid,
        times,
        periodic_solution(grid, initial, times, lambda ik: (0.1 * ik**2).real, -0.5, 20),
    )


def korteweg_de_vries(
    speeds: tuple[float, float] = (1.0, 0.5), centres: tuple[float, float] = (-20.0, 5.0)
) -> Gridded:
    """u_t = −6 u u_x − u_xxx: two solitary waves of different speed."""
    grid, times = -30 + 60 * np.arange(512) / 512, np.linspace(0, 20, 201)
    initial = sum(soliton(grid, c, a) for c, a in zip(speeds, centres, strict=True))
    return grid, times, periodic_solution(grid, initial, times, lambda ik: -(ik**3), -3.0, 20)


def kuramoto_sivashinsky() -> Gridded:
    """u_t = −u u_x − u_xx − u_xxxx: spatio-temporal chaos."""
    grid, times = 32 * np.pi * np.arange(1, 1025) / 1024, np.linspace(0, 100, 251)
    initial = np.cos(grid / 16) * (1 + np.sin(grid / 16))
    return (
        grid,
        times,
        periodic_solution(grid, initial, times, lambda ik: (-(ik**2) - ik**4).real, -0.5, 4),
    )


def small_library(orders: int) -> Library:
    """u, u², and u^a ∂^d u for a ≤ 2 and d ≤ orders: 8, 11 or 14 terms."""
    terms: dict[str, sp.Expr] = {"u": u, "u^2": u**2}
    for d in range(1, orders + 1):
        for a in range(3):
            terms[f"{['', 'u ', 'u^2 '][a]}u_{'x' * d}"] = u**a * u.diff(x, d)
    return Library(anchor=dt(u), terms=terms)


def large_library() -> Library:
    """1 and ∂^d u^a for a = 1, …, 6 and d = 0, …, 6: 43 terms."""
    terms: dict[str, sp.Expr] = {"1": sp.Integer(1)}
    for a in range(1, 7):
        for d in range(7):
            terms[f"(u^{a})_{'x' * d}" if d else f"u^{a}"] = (u**a).diff(x, d) if d else u**a
    return Library(anchor=dt(u), terms=terms)


def examples() -> list[Example]:
    """The three one-dimensional examples."""
    large = large_library()
    return [
        Example(
            "Burgers",
            *burgers(),
            small_library(2),
            {"u u_x": -1.0, "u_xx": 0.1},
            large,
            {"(u^2)_x": -0.5, "(u^1)_xx": 0.1},
        ),
        Example(
            "KdV",
            *korteweg_de_vries(),
            small_library(3),
            {"u u_x": -6.0, "u_xxx": -1.0},
            large,
            {"(u^2)_x": -3.0, "(u^1)_xxx": -1.0},
        ),
        Example(
            "KS",
            *kuramoto_sivashinsky(),
            small_library(4),
            {"u u_x": -1.0, "u_xx": -1.0, "u_xxxx": -1.0},
            large,
            {"(u^2)_x": -0.5, "(u^1)_xx": -1.0, "(u^1)_xxxx": -1.0},
        ),
    ]


def with_noise(values: np.ndarray, ratio: float, seed: int, correlation: float = 0.0) -> np.ndarray:
    """Values plus Gaussian noise of standard deviation ratio·rms(values), optionally
    correlated over some grid points.
    """
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    if correlation:
        noise = gaussian_filter(noise, correlation, mode="wrap")
        noise /= noise.std()
    return values + ratio * np.sqrt((values**2).mean()) * noise


def with_point_noise(
    points: np.ndarray,
    values: np.ndarray,
    ratio: float,
    seed: int,
    along: float = 0.0,
    time: float = 0.0,
) -> np.ndarray:
    """Values at scattered points plus Gaussian noise, correlated over some point distances
    and over some reading times.
    """
    noise = np.random.default_rng(seed).standard_normal(values.shape)
    if along:
        length = along * float(np.prod(np.ptp(points, axis=0)) / len(points)) ** (
            1 / points.shape[1]
        )
        tree = cKDTree(points)
        kernel = tree.sparse_distance_matrix(tree, 4 * length, output_type="coo_matrix").tocsr()
        kernel.data = np.exp(-(kernel.data**2) / (2 * length**2))
        noise = kernel @ noise
    if time:
        noise = gaussian_filter1d(noise, time, axis=1, mode="wrap")
    return values + ratio * np.sqrt((values**2).mean()) * noise / noise.std()


def jittered_points(per_axis: int, dim: int, seed: int = 0) -> np.ndarray:
    """Points of the unit cube: a lattice whose inner points are moved at random."""
    axis = np.linspace(0, 1, per_axis)
    points = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    inner = ((points > 0) & (points < 1)).all(axis=1)
    points[inner] += (
        np.random.default_rng(seed).uniform(-0.3, 0.3, (int(inner.sum()), dim)) / per_axis
    )
    return points


def moving_gaussians(
    points: np.ndarray,
    times: np.ndarray,
    velocity: Any,
    diffusivity: float,
    widths: tuple[float, float],
    count: int = 7,
    seed: int = 42,
) -> np.ndarray:
    """Exact solution of u_t = −v·∇u + D Δu: Gaussians that move and spread."""
    random = np.random.default_rng(seed)
    dim, total = points.shape[1], 0.0
    for _ in range(count):
        centre, width = random.uniform(0.15, 0.6, dim), random.uniform(*widths) ** 2
        amplitude = random.uniform(0.5, 1.5) * random.choice([-1, 1])
        spread = width + 2 * diffusivity * times[None, :]
        distance = sum(
            (points[:, i : i + 1] - centre[i] - velocity[i] * times) ** 2 for i in range(dim)
        )
        total = total + amplitude * (width / spread) ** (dim / 2) * np.exp(-distance / (2 * spread))
    return total


def transport_library(dim: int) -> Library:
    """Reaction, transport and diffusion candidates in two (13 terms) or three dimensions (12
    terms).
    """
    axes = (x, y, z)[:dim]
    terms: dict[str, sp.Expr] = {"u": u, "u^2": u**2, "u^3": u**3}
    for power in (1, 2, 3) if dim == 2 else (1, 2):
        terms |= {f"(u^{power})_{a}": (u**power).diff(a) for a in axes}
    terms["lap u"], terms["lap u^2"] = lap(u), lap(u**2)
    if dim == 2:
        terms |= {"u_xx - u_yy": u.diff(x, 2) - u.diff(y, 2), "u_xy": u.diff(x, y)}
    else:
        terms["u_xy"] = u.diff(x, y)
    return Library(anchor=dt(u), terms=terms)


def vortex_library() -> tuple[VectorField, Library]:
    """Candidates for the velocity equation of incompressible flow in two dimensions, pressure
    left out.
    """
    v = VectorField("v", dim=2)
    terms = {
        "(v.grad)v": dot(grad(v), v),
        "lap v": lap(v),
        "v": v,
        "|v|^2 v": dot(v, v) * v,
        "v_x": v.diff(x),
        "v_y": v.diff(y),
        "lap lap v": lap(lap(v)),
    }
    return v, Library(anchor=dt(v), terms=terms)


def vortices(
    viscosity: float = 0.02, size: int = 64, steps: int = 121, end: float = 6.0
) -> tuple[np.ndarray, ...]:
    """Decaying two-dimensional incompressible flow on a periodic square: x, y, t and the
    velocity (2 × nx × ny × nt).
    """
    grid = 2 * np.pi * np.arange(size) / size
    times = np.linspace(0, end, steps)
    k = np.fft.fftfreq(size, 1 / size)
    kx, ky = np.meshgrid(k, k, indexing="ij")
    square = kx**2 + ky**2
    inverse = np.where(square > 0, 1 / np.where(square > 0, square, 1), 0)
    kept = (np.abs(kx) < size / 3) & (np.abs(ky) < size / 3)
    random = np.random.default_rng(7)
    shape = np.where((square > 0) & (square <= 20), 1.0, 0.0)
    vorticity = np.fft.fft2(
        np.fft.ifft2(shape * np.exp(2j * np.pi * random.random(square.shape))).real
    )
    vorticity *= 3.0 / np.fft.ifft2(vorticity).real.std()

    def velocity(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.fft.ifft2(1j * ky * w * inverse).real, np.fft.ifft2(-1j * kx * w * inverse).real

    def advection(w: np.ndarray) -> np.ndarray:
        a, b = velocity(w)
        physical = np.fft.ifft2(w).real
        return -(1j * kx * np.fft.fft2(a * physical) + 1j * ky * np.fft.fft2(b * physical)) * kept

    step = (times[1] - times[0]) / 10
    decay, half = np.exp(-viscosity * square * step), np.exp(-viscosity * square * step / 2)
    frames = []
    for number in range(steps):
        frames.append(velocity(vorticity))
        for _ in range(10 if number < steps - 1 else 0):
            k1 = advection(vorticity)
            k2 = advection(half * (vorticity + step / 2 * k1))
            k3 = advection(half * vorticity + step / 2 * k2)
            k4 = advection(decay * vorticity + step * half * k3)
            vorticity = decay * vorticity + step / 6 * (decay * k1 + 2 * half * (k2 + k3) + k4)
    return grid, grid, times, np.moveaxis(np.array(frames), 0, -1)


def heat_modes(
    modes: dict[int, float], kappa: float, diffusivity: float, size: int = 120, steps: int = 80
) -> Gridded:
    """u_t = κ u + D u_xx on (0, π) with given sine modes: x, t, values."""
    grid, times = np.linspace(0, np.pi, size), np.linspace(0, 2, steps)
    values = sum(
        a * np.outer(np.sin(k * grid), np.exp((kappa - diffusivity * k**2) * times))
        for k, a in modes.items()
    )
    return grid, times, values


def heat_library() -> Library:
    """u and Δu: aliased on a single mode."""
    return Library(anchor=dt(u), terms={"u": u, "lap": u.diff(x, 2)})
