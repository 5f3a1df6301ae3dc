# SPDX-License-Identifier: MIT
"""Values between scattered points, of higher order than linear: polyharmonic splines through the
nearest points.

Around every target the spline s(x) = Σ_i λ_i |x − x_i|⁵ + p(x) with a cubic polynomial p passes
through the values at the nearest points. Its value is linear in theirs, Σ_i w_i u_i, with weights
that depend on the places alone and are exact for cubic polynomials. So a reconstruction is one
sparse matrix, for all fields, times and draws of noise. Through noisy values a spline does not
pass: two readings close together would bend it wildly. It then minimises its roughness plus the
squared misses divided by a smoothing λ, the noise-to-signal ratio of their energies.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree


@dataclass(frozen=True)
class ReconstructionSettings:
    """How values are reconstructed between points.

    Args:
        smoothing: times the noise-to-signal ratio of energies: as much as the noise of a
            stencil asks for.
        noise_decides: smoothing from which noise is larger than the error of a reconstruction.
        tiny: what keeps a system regular where its points leave a polynomial undetermined.
        most_smoothing: smoothing from which on a spline is a polynomial fit.
    """

    smoothing: float = 0.25
    noise_decides: float = 1e-4
    tiny: float = 1e-11
    most_smoothing: float = 0.1


RECONSTRUCTION = ReconstructionSettings()


@dataclass(frozen=True)
class Spline:
    """How values are reconstructed between points.

    Args:
        degree: of the polynomials that are reconstructed exactly, where there are points for it.
        crowd: points per stencil as a multiple of the number of these polynomials.
        power: odd exponent of the distance, three or five.
        smoothing: λ, in units of the size of a stencil; the least of it keeps two points at one
            place apart.
        chunk: stencils that are solved together, which bounds the memory.
    """

    degree: int = 3
    crowd: float = 2.4
    power: int = 5
    smoothing: float = 1e-9
    chunk: int = 4000

    def smoothed(self, noise_ratio: float) -> Spline:
        """The spline for data of a noise level, which is rounded so that similar data share
        their matrices.
        """
        smoothing = min(RECONSTRUCTION.most_smoothing, RECONSTRUCTION.smoothing * noise_ratio**2)
        return replace(self, smoothing=10.0 ** max(-9, round(math.log10(max(smoothing, 1e-9)))))

    def stencil(self, count: int, dim: int) -> tuple[int, int]:
        """Points per stencil and the degree they allow, for so many points in all."""
        degree = self.degree
        while degree > 0 and round(self.crowd * len(exponents(degree, dim))) > count:
            degree -= 1
        return min(count, max(dim + 1, round(self.crowd * len(exponents(degree, dim))))), degree

    def matrix(self, points: np.ndarray, targets: np.ndarray) -> sparse.csr_matrix:
        """The matrix that takes values at the points to values at targets.

        Args:
            points: n × dim places with values.
            targets: groups × members × dim places without; the members of a group share the points
                nearest to their middle.

        Example:
            >>> random = np.random.default_rng(0)
            >>> points, targets = random.random((60, 2)), random.random((5, 1, 2))
            >>> matrix = Spline().matrix(points, targets)
            >>> cubic = lambda p: p[..., 0] ** 3 - p[..., 0] * p[..., 1] ** 2
            >>> bool(np.allclose(matrix @ cubic(points), cubic(targets).ravel()))
            True
        """
        groups, members, dim = targets.shape
        size, degree = self.stencil(len(points), dim)
        _, near = cKDTree(points).query(targets.mean(axis=1), size)
        near = near.reshape(groups, size)
        parts = [
            self._weights(points[near[k : k + self.chunk]], targets[k : k + self.chunk], degree)
            for k in range(0, groups, self.chunk)
        ]
        entries = np.concatenate(parts) if parts else np.zeros((0, members, size))
        columns = np.broadcast_to(near[:, None, :], entries.shape).ravel()
        starts = size * np.arange(groups * members + 1)
        return sparse.csr_matrix(
            (entries.ravel(), columns, starts), shape=(groups * members, len(points))
        )

    def weights(self, nodes: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Weights of given nodes (groups × size × dim) for the members of every group: groups
        × members × size.
        """
        degree = min(self.degree, nodes.shape[1] - 1)
        parts = [
            self._weights(nodes[k : k + self.chunk], targets[k : k + self.chunk], degree)
            for k in range(0, len(nodes), self.chunk)
        ]
        return np.concatenate(parts)

    def _weights(self, nodes: np.ndarray, targets: np.ndarray, degree: int) -> np.ndarray:
        """Weights of the nodes (groups × size × dim) for the members of every group: groups ×
        members × size.
        """
        middle = nodes.mean(axis=1, keepdims=True)
        scale = np.abs(nodes - middle).max(axis=(1, 2), keepdims=True)
        nodes, targets = (nodes - middle) / scale, (targets - middle) / scale
        size, powers = nodes.shape[1], exponents(degree, nodes.shape[2])
        system = np.zeros((len(nodes), size + len(powers), size + len(powers)))
        # |x|³ is positive and |x|⁵ negative definite beside its polynomials.
        sign = 1.0 if self.power == 3 else -1.0
        system[:, :size, :size] = distances(
            nodes, nodes
        ) ** self.power + sign * self.smoothing * np.eye(size)
        system[:, :size, size:] = monomials(nodes, powers)
        system[:, size:, size:] = (
            -sign * RECONSTRUCTION.tiny * np.eye(len(powers))
        )  # a lattice may lack points for some polynomial
        system[:, size:, :size] = np.swapaxes(system[:, :size, size:], 1, 2)
        right = np.concatenate(
            [distances(targets, nodes) ** self.power, monomials(targets, powers)], axis=2
        )
        return np.swapaxes(np.linalg.solve(system, np.swapaxes(right, 1, 2)), 1, 2)[:, :, :size]


def exponents(degree: int, dim: int) -> list[tuple[int, ...]]:
    """Exponents of the monomials up to a degree."""
    return [e for e in itertools.product(range(degree + 1), repeat=dim) if sum(e) <= degree]


def monomials(places: np.ndarray, powers: list[tuple[int, ...]]) -> np.ndarray:
    """Monomials at some places, along a new last axis."""
    result = np.ones((*places.shape[:-1], len(powers)))
    for number, power in enumerate(powers):
        for axis, exponent in enumerate(power):
            for _ in range(exponent):
                result[..., number] *= places[..., axis]
    return result


def distances(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Distances between the places of two groups: groups × first × second."""
    square = (
        (first**2).sum(-1)[:, :, None]
        + (second**2).sum(-1)[:, None, :]
        - 2 * first @ np.swapaxes(second, 1, 2)
    )
    return np.sqrt(np.maximum(square, 0.0))
