# SPDX-License-Identifier: MIT
"""Random fields as functions of the coordinates: the same on any mesh partition, smooth or rough as
one asks.

A field is a sum of plane waves with random directions, phases and amplitudes, its wave number the
scale. Nothing depends on the numbering of unknowns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from mpi4py import MPI

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


# Plane waves that a random field is the sum of, per component.
WAVES = 8


def random_field(
    components: int, wavenumber: float, seed: int
) -> Callable[[np.ndarray], np.ndarray]:
    """A random vector field (components, points) of the points.

    Example:
        >>> random_field(2, 3.0, seed=1)(np.zeros((3, 4))).shape
        (2, 4)
    """
    random = np.random.default_rng(seed)
    directions = random.normal(size=(components, WAVES, 3))
    directions *= (
        wavenumber
        * random.uniform(0.5, 1.0, size=(components, WAVES))
        / np.linalg.norm(directions, axis=2)
    )[..., None]
    phases = random.uniform(0, 2 * math.pi, size=(components, WAVES))
    amplitudes = random.normal(size=(components, WAVES)) / math.sqrt(WAVES)

    def evaluate(points: np.ndarray) -> np.ndarray:
        angles = np.einsum("cwd,dp->cwp", directions, points) + phases[..., None]
        return np.einsum("cw,cwp->cp", amplitudes, np.sin(angles))

    return evaluate


def scales(mesh: Mesh) -> tuple[float, ...]:
    """Wave numbers from one wave across the domain to a few cells per wave."""
    dimension = mesh.topology.dim
    points = mesh.geometry.x
    low = np.array([mesh.comm.allreduce(float(v), op=MPI.MIN) for v in points.min(axis=0)])
    high = np.array([mesh.comm.allreduce(float(v), op=MPI.MAX) for v in points.max(axis=0)])
    size = float(np.linalg.norm(high - low))
    cells = mesh.topology.index_map(dimension).size_global
    cell = size / cells ** (1 / dimension)
    coarse, fine = 2 * math.pi / size, math.pi / (2 * cell)
    return coarse, math.sqrt(coarse * max(fine, coarse)), max(fine, coarse)
