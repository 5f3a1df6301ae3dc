# SPDX-License-Identifier: MIT
"""Integrals over the reference simplex from which cells build their flux problems; made once for a
dimension and a degree.

A cell is the image of the reference simplex under x = x₀ + J X, its corners sorted by their numbers
in the mesh, so that two cells see a common facet in the same way. Fluxes q = J q̂/|det J| ∈
RT_{k+1} have as unknowns the moments of their outward normal component with orthonormal polynomials
on each facet, then interior ones. Both these moments and (div q, ω) do not depend on J, and

    (q, q)_K = Σ γ_mn ∫ q̂_m q̂_n, γ = JᵀJ/|det J|, |det J| J⁻¹∇w = κ ∇̂ŵ, κ = |det J| (JᵀJ)⁻¹.

Around the corner i the fluxes have no normal component on the facet opposite to it. Those with
given (div q, ω) = d are q = P_i d + N_i z, with arbitrary z. In the plane N_i z is the curl of a
polynomial that vanishes on that facet, and P_i d leaves through the means of the two other facets
in equal shares, so that neighbours join by values of the polynomial (`streams`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement, permutations

import basix
import numpy as np

CELLS = {
    1: basix.CellType.interval,
    2: basix.CellType.triangle,
    3: basix.CellType.tetrahedron,
}
FACETS = {1: basix.CellType.point, 2: basix.CellType.interval, 3: basix.CellType.triangle}
# Of the reference triangle.
AREA = 0.5


@dataclass(frozen=True)
class Corner:
    """The flux problem around one corner of the reference cell.

    Attributes:
        free: the unknowns that are not on the opposite facet; those on the other facets come first.
        facets: the other facets.
        particular, null: P and N.
        hat: ∫ ψ ω_j ω_l with the hat function ψ of the corner.
        slope: the gradient of ψ.
        pull: ∫ ψ ∇φ_v·q̂_r for the free unknowns r and the nodal functions φ_v of the state.
    """

    free: np.ndarray
    facets: tuple[int, ...]
    particular: np.ndarray
    null: np.ndarray
    hat: np.ndarray
    slope: np.ndarray
    pull: np.ndarray


@dataclass(frozen=True)
class Reference:
    """Tensors of the reference cell; pairs (m, n) with m ≤ n are listed in `pairs`, off-diagonal
    ones counted twice.

    Attributes:
        dim, degree: the dimension and k.
        mass: ∫ q̂_m q̂_n.
        divergence: ∫ div q̂ ω_j.
        corners: one flux problem for each corner.
        gradient: ∫ ∂_n φ_v ω_j, one matrix for each n.
        values: ∫ φ_v ω_j.
        raised: the unknowns of the flux e_m ∂_n φ_v.
        linear: ∫ X_n ω_j ω_l, one matrix for each n.
        moments: how many unknowns a facet has.
    """

    dim: int
    degree: int
    mass: np.ndarray
    divergence: np.ndarray
    corners: tuple[Corner, ...]
    gradient: np.ndarray
    values: np.ndarray
    raised: np.ndarray
    linear: np.ndarray
    moments: int

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """(m, n) with m ≤ n."""
        return list(combinations_with_replacement(range(self.dim), 2))


def orthonormal(cell: basix.CellType, degree: int, points: np.ndarray) -> np.ndarray:
    """Orthonormal polynomials at points, shape (polynomials, points)."""
    if cell == basix.CellType.point:
        return np.ones((1, len(points)))
    return np.asarray(
        basix.tabulate_polynomials(basix.PolynomialType.legendre, cell, degree, points)
    )


@lru_cache(maxsize=16)
def reference(dim: int, degree: int) -> Reference:
    """The tensors for states of a degree.

    Example:
        >>> plane = reference(2, 1)
        >>> plane.mass.shape, plane.corners[0].null.shape
        ((3, 8, 8), (6, 3))
    """
    cell = CELLS[dim]
    points, weights = basix.make_quadrature(cell, 2 * degree + 2)
    fluxes, divergence, interior = _fluxes(dim, degree, points)
    polynomials = orthonormal(cell, degree, points)
    state = lagrange(dim, degree).tabulate(1, points)[..., 0]
    values, slopes = state[0], state[1:]
    pairs = list(combinations_with_replacement(range(dim), 2))
    products = np.einsum("q,qrm,qsn->mnrs", weights, fluxes, fluxes)
    gradient = np.einsum("q,nqv,jq->njv", weights, slopes, polynomials)
    div = np.einsum("q,qr,jq->jr", weights, divergence, polynomials)
    # The unknowns of e_m ∂_n φ_v, by least squares that have no misfit.
    flat = np.moveaxis(fluxes, 1, 2).reshape(-1, fluxes.shape[1])
    targets = np.einsum("lm,nqv->qlmnv", np.eye(dim), slopes).reshape(len(flat), -1)
    raised = np.linalg.lstsq(flat, targets, rcond=None)[0].reshape(-1, dim, dim, values.shape[1])
    corners = tuple(
        _corner(i, dim, interior, div, points, weights, fluxes, polynomials, slopes)
        for i in range(dim + 1)
    )
    return Reference(
        dim,
        degree,
        np.array([products[m, n] + (products[n, m] if m != n else 0) for m, n in pairs]),
        div,
        corners,
        gradient,
        np.einsum("q,qv,jq->jv", weights, values, polynomials),
        np.array([raised[:, m, n] + (raised[:, n, m] if m != n else 0) for m, n in pairs]),
        np.einsum("q,qn,jq,lq->njl", weights, points, polynomials, polynomials),
        interior // (dim + 1),
    )


def lagrange(dim: int, degree: int) -> basix.finite_element.FiniteElement:
    """The nodal element of states, with the points that DOLFINx takes."""
    return basix.create_element(
        basix.ElementFamily.P, CELLS[dim], degree, basix.LagrangeVariant.gll_warped
    )


def _fluxes(dim: int, degree: int, points: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """The basis at points, its divergence, and the number of the first interior function."""
    if dim == 1:
        return _line_fluxes(degree, points[:, 0])
    element = basix.create_element(
        basix.ElementFamily.RT, CELLS[dim], degree + 1, basix.LagrangeVariant.legendre
    )
    rule, weights = basix.make_quadrature(FACETS[dim], 2 * degree + 2)
    tests = orthonormal(FACETS[dim], degree, rule)
    corners, topology = basix.geometry(CELLS[dim]), basix.topology(CELLS[dim])[dim - 1]
    change = np.eye(element.dim)
    for facet, members in enumerate(topology):
        spanned = corners[members[1:]] - corners[members[0]]
        places = corners[members[0]] + rule @ spanned
        # The normal times the ratio of the areas of the facet and of the reference facet.
        normal = (
            np.array([spanned[0][1], -spanned[0][0]])
            if dim == 2
            else np.cross(spanned[0], spanned[1])
        )
        normal = normal * np.sign(normal @ (corners[members[0]] - corners[facet]))
        dofs = element.entity_dofs[dim - 1][facet]
        traces = element.tabulate(0, places)[0][:, dofs] @ normal
        change[np.ix_(dofs, dofs)] = np.linalg.inv(np.einsum("q,jq,qr->jr", weights, tests, traces))
    table = element.tabulate(1, points)
    divergence = sum(table[1 + n][..., n] for n in range(dim))
    basis = np.einsum("qrm,rs->qsm", table[0], change)
    return basis, divergence @ change, sum(len(dofs) for dofs in element.entity_dofs[dim - 1])


def _line_fluxes(degree: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """On the unit interval: what flows out at the end opposite to each corner, then bubbles."""
    end = np.polynomial.Polynomial([0.0, 1.0])
    basis = [end, end - 1]
    for order in range(degree):
        shape = np.polynomial.Legendre.basis(order, [0, 1]).convert(
            kind=np.polynomial.Polynomial, domain=[-1, 1]
        )
        basis.append(end * (1 - end) * shape)
    values = np.column_stack([function(places) for function in basis])
    slopes = np.column_stack([function.deriv()(places) for function in basis])
    return values[:, :, None], slopes, 2


def facet_members(dim: int) -> list[list[int]]:
    """The corners of the facet opposite to each corner of the reference cell."""
    return [[1], [0]] if dim == 1 else [list(f) for f in basix.topology(CELLS[dim])[dim - 1]]


def _corner(
    i: int,
    dim: int,
    interior: int,
    divergence: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    fluxes: np.ndarray,
    polynomials: np.ndarray,
    slopes: np.ndarray,
) -> Corner:
    """The flux problem around corner i, from values at quadrature points."""
    on_facet = np.arange(interior).reshape(dim + 1, -1)
    facets = tuple(f for f in range(dim + 1) if f != i)
    free = np.concatenate([on_facet[list(facets)].ravel(), np.arange(interior, fluxes.shape[1])])
    split = _plane_split if dim == 2 else _split
    particular, null = split(i, divergence[:, free], fluxes[:, free], points)
    slope = np.full(dim, -1.0) if i == 0 else np.eye(dim)[i - 1]
    hat = (1.0 if i == 0 else 0.0) + points @ slope
    return Corner(
        free,
        facets,
        particular,
        null,
        np.einsum("q,q,jq,lq->jl", weights, hat, polynomials, polynomials),
        slope,
        np.einsum("q,q,nqv,qrn->rv", weights, hat, slopes, fluxes[:, free]),
    )


def _split(
    i: int, divergence: np.ndarray, fluxes: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P and N by singular values."""
    left, singular, right = np.linalg.svd(divergence)
    return right[: len(singular)].T @ (left / singular).T, right[len(singular) :].T.copy()


def _plane_split(
    i: int, divergence: np.ndarray, fluxes: np.ndarray, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """P and N in the plane: see `stream_functions`."""
    degree = round(math.sqrt(2 * len(divergence) + 0.25) - 1.5)
    finer = lagrange(2, degree + 1)
    slopes = (
        np.asarray(finer.tabulate(1, points))[1:, :, :, 0]
        @ stream_functions(i, degree, np.asarray(finer.points)).T
    )
    curls = np.stack([slopes[1], -slopes[0]], axis=1)
    null = np.linalg.lstsq(
        np.moveaxis(fluxes, 1, 2).reshape(-1, fluxes.shape[1]),
        curls.reshape(-1, curls.shape[2]),
        rcond=None,
    )[0]
    on_facets = 2 * (degree + 1)
    particular = np.zeros((fluxes.shape[1], len(divergence)))
    particular[[0, degree + 1], 0] = math.sqrt(AREA) / 2
    rest = np.eye(len(divergence)) - divergence[:, :on_facets] @ particular[:on_facets]
    particular[on_facets:] = np.linalg.pinv(divergence[:, on_facets:]) @ rest
    return particular, null


def stream_functions(i: int, degree: int, points: np.ndarray) -> np.ndarray:
    """Polynomials of one degree more than k that vanish on the edge opposite to corner i, shape
    (functions, points).

    First the hat function of the corner, then k bubbles of each of the two other edges, in the
    order of their opposite corners and as functions of the way from the corner, so that two
    triangles see those of a common edge in the same way; then bubbles of the triangle.
    """
    hats = np.column_stack([1 - points.sum(axis=1), points]).T
    found = [hats[i]]
    for facet in (f for f in range(3) if f != i):
        end = hats[3 - i - facet]
        found += [
            hats[i] * end * np.polynomial.legendre.Legendre.basis(m)(hats[i] - end)
            for m in range(degree)
        ]
    if degree > 1:
        found += list(hats.prod(axis=0) * orthonormal(CELLS[2], degree - 2, points))
    return np.array(found)


class Stack:
    """The flux problems around all corners, so that one product serves them all.

    Args:
        tensors: the reference cell.

    Attributes:
        hat: from the moments of Π g to those of ψ Π g around each corner.
        slope: ∇ψ of each corner, shape (corners, 1, 1, dim).
        pull: from the nodal values to −Nᵀ ∫ ψ ∇ŵ·q̂.
        energy: from the pairs (m, n) of the metric to Nᵀ M N of all corners.
        coupled: Nᵀ M P, for each pair (m, n) of the metric.
        schur: from the lower triangle of (Nᵀ M N)⁻¹ to that of S, with the rows of N on the facets
            of each corner.
        particular, null: the rows of P and N on the facets of each corner.
        spread: from d and z to the unknowns of a cell, those of all corners next to each other.
    """

    def __init__(self, tensors: Reference):
        corners, rows = tensors.corners, tensors.moments * tensors.dim
        self.hat = np.concatenate([corner.hat.T for corner in corners])
        self.slope = np.array([corner.slope for corner in corners])[:, None, None]
        self.pull = np.concatenate([-corner.null.T @ corner.pull for corner in corners])
        masses = [tensors.mass[:, corner.free[:, None], corner.free] for corner in corners]
        energy, self.coupled = (
            np.stack(
                [
                    np.einsum("ri,srt,tj->sij", c.null, mass, getattr(c, right))
                    for c, mass in zip(corners, masses, strict=True)
                ]
            )
            for right in ("null", "particular")
        )
        self.energy = np.ascontiguousarray(np.moveaxis(energy, 1, -1)).reshape(
            -1, len(tensors.mass)
        )
        self.coupled = np.ascontiguousarray(np.moveaxis(self.coupled, 1, 0))
        self.particular = np.stack([corner.particular[:rows] for corner in corners])
        self.null = np.stack([corner.null[:rows] for corner in corners])
        self.schur = np.stack([self._schur(corner.null[:rows]) for corner in corners])
        self.spread = [
            self._spread(tensors, [getattr(c, name) for c in corners])
            for name in ("particular", "null")
        ]

    @staticmethod
    def _schur(null: np.ndarray) -> np.ndarray:
        """From the lower triangle of a symmetric A to that of N A Nᵀ."""
        (i, j), (k, m) = (np.tril_indices(size) for size in null.shape)
        left, right = (
            null[i[:, None], k] * null[j[:, None], m],
            null[i[:, None], m] * null[j[:, None], k],
        )
        return left + np.where(k == m, 0.0, right)

    @staticmethod
    def _spread(tensors: Reference, parts: list[np.ndarray]) -> np.ndarray:
        result = np.zeros((tensors.mass.shape[1], len(parts), parts[0].shape[1]))
        for i, (corner, part) in enumerate(zip(tensors.corners, parts, strict=True)):
            result[corner.free, i] = part
        return result.transpose(0, 2, 1).reshape(len(result), -1)


@lru_cache(maxsize=16)
def permuted_nodes(dim: int, degree: int) -> dict[tuple[int, ...], np.ndarray]:
    """For each order of the corners: which node of the element lies at each node of the cell with
    its corners in this order.

    Example:
        >>> permuted_nodes(2, 1)[(1, 0, 2)].tolist()
        [1, 0, 2]
    """
    nodes = np.asarray(lagrange(dim, degree).points)
    corners = basix.geometry(CELLS[dim])
    result = {}
    for order in permutations(range(dim + 1)):
        moved = corners[order[0]] + nodes @ (corners[list(order[1:])] - corners[order[0]])
        distance = np.linalg.norm(moved[:, None] - nodes[None], axis=2)
        result[order] = distance.argmin(axis=1)
        assert distance.min(axis=1).max() < 1e-10
    return result
