# SPDX-License-Identifier: MIT
"""Periodic fields by Fourier collocation: v' = Lv + N(v) with an integrating factor and the
classical Runge–Kutta step.

The linear part is exact in Fourier space, so diffusion of any order sets no limit on the step; the
nonlinear part is dealiased by the two-thirds rule. Several fields on a box of any dimension are
marched together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Box:
    """A periodic box: the lengths of its sides and the number of points along each.

    Example:
        >>> Box((1.0,), (4,)).axes[0]
        array([0.  , 0.25, 0.5 , 0.75])
    """

    lengths: tuple[float, ...]
    points: tuple[int, ...]

    @property
    def axes(self) -> list[np.ndarray]:
        """Grid points along each side, the last one left out as it is the first again."""
        return [
            length * np.arange(n) / n for length, n in zip(self.lengths, self.points, strict=True)
        ]

    @cached_property
    def grid(self) -> list[np.ndarray]:
        """Coordinates of all points, one array per axis."""
        return list(np.meshgrid(*self.axes, indexing="ij"))

    @cached_property
    def wave_numbers(self) -> list[np.ndarray]:
        """Wave numbers along each axis, in the order of the transform."""
        steps = zip(self.lengths, self.points, strict=True)
        return list(
            np.meshgrid(
                *(2 * np.pi * np.fft.fftfreq(n, length / n) for length, n in steps), indexing="ij"
            )
        )

    @cached_property
    def square(self) -> np.ndarray:
        """|k|²: minus the symbol of the Laplacian."""
        return sum(k**2 for k in self.wave_numbers)

    @cached_property
    def kept(self) -> np.ndarray:
        """Modes below two thirds of the highest wave number along every axis."""
        return np.all([np.abs(k) < 2 / 3 * np.abs(k).max() for k in self.wave_numbers], axis=0)

    def transform(self, values: np.ndarray) -> np.ndarray:
        """Fourier transform of fields over the axes of the box."""
        return np.fft.fftn(values, axes=tuple(range(-len(self.points), 0)))

    def back(self, modes: np.ndarray) -> np.ndarray:
        """Inverse of `transform`."""
        return np.fft.ifftn(modes, axes=tuple(range(-len(self.points), 0)))

    def smooth_random(self, seed: int, modes: int) -> np.ndarray:
        """A random field of mean zero and variance one whose wave numbers along each axis
        stay below a number of waves.
        """
        random = np.random.default_rng(seed)
        numbers = [
            k * length / (2 * np.pi)
            for k, length in zip(self.wave_numbers, self.lengths, strict=True)
        ]
        low = np.all([np.abs(n) <= modes for n in numbers], axis=0) & (self.square > 0)
        values = self.back(low * self.transform(random.standard_normal(self.points))).real
        return values / values.std()


def march(
    box: Box,
    initial: Sequence[np.ndarray],
    linear: Sequence[np.ndarray | float | complex],
    nonlinear: Callable[[np.ndarray], Sequence[np.ndarray]],
    times: np.ndarray,
    substeps: int,
) -> np.ndarray:
    """Fields × points × times of u' = Lu + N(u), each field with its own L.

    Args:
        box: the periodic box.
        initial: one array per field; complex fields are allowed.
        linear: symbol of L in Fourier space, one per field.
        nonlinear: N at the points of the grid, from the array of all fields.
        times: equidistant times of the frames.
        substeps: Runge–Kutta steps between two frames.

    Example:
        >>> box = Box((2 * np.pi,), (16,))
        >>> frames = march(
        ...     box,
        ...     [np.sin(box.axes[0])],
        ...     [-box.square],
        ...     lambda u: [0 * u[0]],
        ...     np.array([0.0, 1.0]),
        ...     1,
        ... )
        >>> bool(np.allclose(frames[0, :, 1], np.exp(-1) * np.sin(box.axes[0])))
        True
    """
    step = (times[1] - times[0]) / substeps
    symbols = np.array([np.broadcast_to(symbol, box.points) for symbol in linear])
    half, full = np.exp(step * symbols / 2), np.exp(step * symbols)
    is_complex = any(np.iscomplexobj(part) for part in initial)

    def values(modes: np.ndarray) -> np.ndarray:
        found = box.back(modes)
        return found if is_complex else found.real

    def slope(modes: np.ndarray) -> np.ndarray:
        return box.transform(np.array(nonlinear(values(modes)))) * box.kept

    modes, frames = box.transform(np.array(initial)), [np.array(initial)]
    for _ in times[1:]:
        for _ in range(substeps):
            k1 = slope(modes)
            k2 = slope(half * (modes + step / 2 * k1))
            k3 = slope(half * modes + step / 2 * k2)
            k4 = slope(full * modes + step * half * k3)
            modes = full * modes + step / 6 * (full * k1 + 2 * half * (k2 + k3) + k4)
        frames.append(values(modes))
    return np.moveaxis(np.array(frames), 0, -1)
