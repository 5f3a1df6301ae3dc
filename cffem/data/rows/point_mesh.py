# SPDX-License-Identifier: MIT
"""The Delaunay mesh of scattered points: a quadrature rule, derivatives and supports on it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.spatial import Delaunay, cKDTree
from scipy.special import roots_jacobi

from cffem.data.noise.point_noise import MeshSmoothing
from cffem.data.noise.reconstruction import Spline, exponents, monomials

Support = tuple[
    np.ndarray, np.ndarray, np.ndarray
]  # test function, quadrature point, scaled offset of each pair


@dataclass(frozen=True)
class PointTestSettings:
    """Test functions on scattered points.

    Args:
        few_half: readings in time per half width that are accurate where they are few.
        largest_share: half width of a test function, as a share of the extent of the domain.
        fewest_points: point distances per half width that resolve a test function.
        long_edge: how many times longer than usual edges are that bridge a hole or a concave
            boundary.
        closest: how many times nearer than usual two points may be; nearer ones would make heat
            flow slow everywhere else.
        covered: share of a test function's support that simplices must cover.
        largest_space_power: largest power of a bump in space that is chosen freely.
        neighbours: points of a local fit, by dimension of space.
        many: points from which triangles are small beside a test function.
        gauss_points: quadrature points along each edge of a simplex, by dimension of space.
        degrees: degrees of polynomials that are reconstructed exactly between the points, by
            dimension of space.
        dense: point distances per half width from which reconstructions of any order agree.
    """

    few_half: int = 4
    largest_share: float = 1 / 8
    fewest_points: float = 4.0
    long_edge: float = 4.0
    closest: float = 3.0
    covered: float = 0.999
    largest_space_power: int = 8
    neighbours: Mapping[int, int] = field(default_factory=lambda: {2: 20, 3: 40})
    many: int = 5000
    gauss_points: Mapping[int, int] = field(default_factory=lambda: {2: 3, 3: 2})
    degrees: Mapping[int, int] = field(default_factory=lambda: {2: 3, 3: 2})
    dense: float = 12.0


POINT_TESTS = PointTestSettings()


class PointMesh:
    """Delaunay mesh of scattered points with a quadrature rule; built once per set of points."""

    _last: PointMesh | None = None

    @classmethod
    def cached(cls, points: np.ndarray) -> PointMesh:
        """The mesh of these points, reused when the same points come again (noise draws,
        several fields).
        """
        if (
            cls._last is None
            or cls._last.points.shape != points.shape
            or not np.array_equal(cls._last.points, points)
        ):
            cls._last = cls(points)
        return cls._last

    def __init__(self, points: np.ndarray) -> None:
        self.points, self.dim = points, points.shape[1]
        self.matrices: dict = {}
        self.tests: dict = {}
        self._interpolations: dict[Spline, sparse.csr_matrix] = {}
        self._tree: tuple[np.ndarray, cKDTree] | None = None
        self.gauss_points = POINT_TESTS.gauss_points[self.dim] - (
            self.dim == 2 and len(points) >= POINT_TESTS.many
        )
        simplices = Delaunay(points).simplices
        corners = points[simplices]
        longest = np.max(
            [
                np.linalg.norm(corners[:, i] - corners[:, j], axis=1)
                for i in range(self.dim + 1)
                for j in range(i)
            ],
            axis=0,
        )
        keep = longest <= POINT_TESTS.long_edge * np.median(longest)
        self.simplices, corners = simplices[keep], corners[keep]
        self.volumes = np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])) / math.factorial(
            self.dim
        )

    @cached_property
    def quadrature(self) -> tuple[np.ndarray, np.ndarray]:
        """Points and weights of a conical Gauss rule on every simplex."""
        barycentric, weights = conical_rule(self.dim, self.gauss_points)
        nodes = np.einsum("qk,skd->sqd", barycentric, self.points[self.simplices])
        return nodes.reshape(-1, self.dim), (self.volumes[:, None] * weights).ravel()

    def interpolation(self, spline: Spline) -> sparse.csr_matrix:
        """Values at the quadrature points from nodal values."""
        if spline not in self._interpolations:
            nodes, _ = self.quadrature
            self._interpolations[spline] = spline.matrix(
                self.points, nodes.reshape(len(self.simplices), -1, self.dim)
            )
        return self._interpolations[spline]

    def supports(self, radius: np.ndarray, centres: np.ndarray) -> Support:
        """Test function, quadrature point and scaled offset for all quadrature points in the
        box around each centre.
        """
        shape = radius / radius[0]
        if self._tree is None or not np.allclose(self._tree[0], shape, rtol=1e-12):
            self._tree = (shape, cKDTree(self.quadrature[0] / shape))
        near = self._tree[1].query_ball_point(
            centres / shape, radius[0], p=np.inf, return_sorted=False
        )
        rows = np.repeat(np.arange(len(near)), [len(n) for n in near])
        columns = np.concatenate([np.asarray(n, dtype=int) for n in near])
        return rows, columns, np.clip((self.quadrature[0][columns] - centres[rows]) / radius, -1, 1)

    @cached_property
    def laplacian(self) -> sparse.csr_matrix:
        """Graph Laplacian of the mesh in units of the mean point distance; it smooths values."""
        pairs = np.concatenate(
            [self.simplices[:, [i, j]] for i in range(self.dim + 1) for j in range(i)]
        )
        pairs = np.unique(np.sort(pairs, axis=1), axis=0)
        lengths = np.linalg.norm(self.points[pairs[:, 0]] - self.points[pairs[:, 1]], axis=1)
        weight = np.minimum(np.median(lengths) / lengths, POINT_TESTS.closest) ** 2
        matrix = sparse.coo_matrix(
            (weight, (pairs[:, 0], pairs[:, 1])), shape=(len(self.points),) * 2
        )
        matrix = (matrix + matrix.T).tocsr()
        return (sparse.diags(np.asarray(matrix.sum(axis=1)).ravel()) - matrix).tocsr()

    @cached_property
    def smoothing(self) -> MeshSmoothing:
        """Heat flow along the mesh."""
        return MeshSmoothing(self.laplacian, self.dim)

    @cached_property
    def misses(self) -> sparse.csr_matrix:
        """How far the value at each point is from a polynomial fit to its nearest neighbours,
        with rows of unit norm.
        """
        powers = exponents(POINT_TESTS.degrees[self.dim], self.dim)
        count = min(POINT_TESTS.neighbours[self.dim] + 4, len(self.points) - 1)
        _, near = cKDTree(self.points).query(self.points, count + 1)
        offset = self.points[near[:, 1:]] - self.points[:, None, :]
        fitted = np.linalg.pinv(
            monomials(offset / np.abs(offset).max(axis=(1, 2), keepdims=True), powers)
        )[:, 0]
        entries = np.column_stack([np.ones(len(near)), -fitted])
        entries /= np.linalg.norm(entries, axis=1, keepdims=True)
        starts = (count + 1) * np.arange(len(near) + 1)
        return sparse.csr_matrix((entries.ravel(), near.ravel(), starts), shape=(len(near),) * 2)

    @cached_property
    def first_derivatives(self) -> list[sparse.csr_matrix]:
        """∂/∂x_i at the nodes from quadratic least-squares fits to the nearest neighbours."""
        count = min(POINT_TESTS.neighbours[self.dim], len(self.points))
        _, near = cKDTree(self.points).query(self.points, count)
        offset = self.points[near] - self.points[:, None, :]
        size = np.abs(offset).max(axis=(1, 2))[:, None, None]
        local = offset / size
        quadratic = [local[..., i] * local[..., j] for i in range(self.dim) for j in range(i + 1)]
        features = np.stack(
            [np.ones(local.shape[:2]), *np.moveaxis(local, -1, 0), *quadratic], axis=-1
        )
        solved = np.linalg.pinv(features)  # points × features × neighbours
        rows = np.repeat(np.arange(len(self.points)), count)
        return [
            sparse.csr_matrix(
                ((solved[:, 1 + i] / size[:, 0]).ravel(), (rows, near.ravel())),
                shape=(len(self.points),) * 2,
            )
            for i in range(self.dim)
        ]


def conical_rule(dim: int, points: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Barycentric points and weights (summing to one) of a conical product Gauss rule, exact to
    degree 2·points − 1.

    Example:
        >>> barycentric, weights = conical_rule(2)
        >>> float(
        ...     round(weights @ barycentric[:, 1] ** 2, 12)
        ... )  # ∫ x² over the unit triangle divided by its area
        0.166666666667
    """
    lower = np.zeros((1, 0))
    weights = np.ones(1)
    for k in range(1, dim + 1):
        nodes, jacobi = roots_jacobi(points, k - 1, 0)
        nodes, jacobi = (nodes + 1) / 2, jacobi / jacobi.sum()
        lower = np.concatenate(
            [np.column_stack([np.full(len(lower), r), (1 - r) * lower]) for r in nodes]
        )
        weights = np.concatenate([w * weights for w in jacobi])
    return np.column_stack([1 - lower.sum(axis=1), lower]), weights
