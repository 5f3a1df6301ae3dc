# SPDX-License-Identifier: MIT
"""Constants of the mesh and the domain: interpolation on triangles, convexity, and the first
Dirichlet eigenvalue from below.

* Payne and Weinberger: ‖v − mean‖_K ≤ (h_K/π) ‖∇v‖_K on a convex cell of diameter h_K.
* Kobayashi: ‖∇(v − Iv)‖_K ≤ C_K |v|_{H²(K)} for linear interpolation I on a triangle with edges A,
  B, C and area S, C_K² = A²B²C²/(16S²) − (A²+B²+C²)/30 − (S²/5)(1/A²+1/B²+1/C²).
* Liu and Oishi: the constant of P1 approximation computed on the mesh itself (`approximation`), on
  domains that are not convex and in space.
* Domain monotonicity: λ₁(Ω) ≥ π² Σ L_i⁻² for the sides L_i of the bounding box; a domain that fills
  its box has this eigenvalue.
* Faber and Krahn: no domain of the same volume has a smaller λ₁ than the ball, whose first
  eigenvalue is (j/R)², where j is the first zero of J₀ in the plane and π in space.
* Crouzeix–Raviart elements in space (`approximation`).
* Carstensen and Gedicke, in the plane: λ₁ ≥ λ_CR / (1 + κ² h² λ_CR) with the first Crouzeix–Raviart
  eigenvalue λ_CR, the longest edge h and κ² = 1/48 + 1/j², j the first positive zero of the Bessel
  function J₁.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.mesh import entities_to_geometry
from mpi4py import MPI
from petsc4py import PETSc

from cffem._compat import (
    assemble_matrix,
    cell_geometry,
    cell_name,
    exterior_facets,
    form,
    refined,
)
from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry.approximation import approximation_constant, first_eigenvalue
from cffem.bounds.geometry.overlap import check_overlap, facet_normals
from cffem.engine.solve.factorisation import Factors, Pencil

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


FIRST_ZERO_OF_J0 = 2.404825557695773
FIRST_ZERO_OF_J1 = 3.8317059702075125
KAPPA_SQUARED = 1 / 48 + 1 / FIRST_ZERO_OF_J1**2
# Vertices that lie outside a supporting line by less than this fraction of the diameter are on it,
# up to rounding.
FLAT = 1e-12
# A domain that leaves no more than this share of its bounding box is the box, up to rounding.
FULL = 1e-9
# How far below the computed eigenvalue inertia is counted; far above rounding, far below the digits
# that matter.
BELOW = 1e-7
# Meshes are refined for a sharper eigenvalue while they have no more cells than this.
REFINED = 20_000


def edge_lengths(corners: np.ndarray) -> np.ndarray:
    """Lengths of all edges of simplices given by their corners, shape (cells, dim + 1, dim)."""
    pairs, axes = (
        [(i, j) for i in range(corners.shape[1]) for j in range(i)],
        range(corners.shape[2]),
    )
    return np.stack(
        [np.sqrt(sum((corners[:, i, n] - corners[:, j, n]) ** 2 for n in axes)) for i, j in pairs],
        axis=1,
    )


def determinants(matrices: np.ndarray) -> np.ndarray:
    """Determinants of many matrices of up to three rows, by the rule of Sarrus; the first axis
    counts them.

    Example:
        >>> determinants(np.array([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
        [-2.0]
    """
    if matrices.shape[1] == 1:
        return matrices[:, 0, 0]
    if matrices.shape[1] == 2:
        return matrices[:, 0, 0] * matrices[:, 1, 1] - matrices[:, 0, 1] * matrices[:, 1, 0]
    return np.einsum("ci,ci->c", matrices[:, 0], np.cross(matrices[:, 1], matrices[:, 2]))


def inverses(matrices: np.ndarray, determinant: np.ndarray) -> np.ndarray:
    """Inverses of many matrices of up to three rows with these determinants, by their
    adjugates; the first axis counts them.
    """
    result = np.ones_like(matrices)
    if matrices.shape[1] == 1:
        return result / determinant[:, None, None]
    if matrices.shape[1] == 2:
        result[:, 0, 0], result[:, 1, 1] = matrices[:, 1, 1], matrices[:, 0, 0]
        result[:, 0, 1], result[:, 1, 0] = -matrices[:, 0, 1], -matrices[:, 1, 0]
    else:
        for i in range(3):
            result[:, :, i] = np.cross(matrices[:, (i + 1) % 3], matrices[:, (i + 2) % 3])
    return result / determinant[:, None, None]


def volumes(corners: np.ndarray) -> np.ndarray:
    """Areas or volumes of simplices."""
    return np.abs(determinants(corners[:, 1:] - corners[:, :1])) / math.factorial(corners.shape[2])


def kobayashi(corners: np.ndarray) -> np.ndarray:
    """C_K of triangles.

    Example:
        >>> float(kobayashi(np.array([[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]])).round(4)[0])
        0.4916
    """
    squares: np.ndarray = edge_lengths(corners) ** 2
    area = volumes(corners)
    value = (
        squares.prod(axis=1) / (16 * area**2)
        - squares.sum(axis=1) / 30
        - area**2 / 5 * (1 / squares).sum(axis=1)
    )
    return np.sqrt(value)


class Domain:
    """What the theorems ask about a mesh of straight triangles or tetrahedra.

    Args:
        mesh: the DOLFINx mesh.

    Attributes:
        corners: corners of this rank's own cells, shape (cells, dim + 1, dim).
        diameters: their longest edges.
        eigenvalue: a lower bound of the first Dirichlet eigenvalue.

    Raises:
        NotCovered: the cells are of another kind, or overlap.
    """

    def __init__(self, mesh: Mesh):
        self.mesh, self.dim = mesh, mesh.topology.dim
        nodes, degree = cell_geometry(mesh)
        if (
            cell_name(mesh.ufl_domain()) not in ("triangle", "tetrahedron")
            or degree != 1
            or mesh.geometry.dim != self.dim
        ):
            raise NotCovered(
                "the cells are not straight triangles in the plane or tetrahedra in space"
            )
        mine = mesh.topology.index_map(self.dim).size_local
        self.corners = mesh.geometry.x[nodes[:mine], : self.dim]
        self.diameters = edge_lengths(self.corners).max(axis=1, initial=0.0)
        self.boundary = exterior_corners(mesh)
        self.convex = is_convex(mesh.comm, self.boundary)
        check_overlap(mesh, self.convex)
        self.eigenvalue, self._how = self._first_eigenvalue()
        self._sharp = False

    @cached_property
    def interpolation(self) -> np.ndarray | None:
        """C_K with R(z) ≤ (Σ C_K² t_K²)^{1/2} ‖Δz‖ for residuals that vanish on the space:
        Kobayashi's constants on convex plane domains, else the one constant of the mesh, None where
        it is not known; collective.
        """
        if self.dim == 2 and self.convex:
            return kobayashi(self.corners)
        found = approximation_constant(self.mesh, self.diameters)
        return None if found is None else np.full(len(self.corners), found)

    @property
    def route(self) -> str:
        """Whose constants `interpolation` has."""
        if self.dim == 2 and self.convex:
            return "Kobayashi's constants"
        return "the approximation constant of the mesh"

    @property
    def evidence(self) -> tuple[tuple[str, str], ...]:
        """Pairs of a statement and how it was checked; collective."""
        constant: tuple[tuple[str, str], ...] = ()
        if self.interpolation is not None and not (self.dim == 2 and self.convex):
            constant = (
                (
                    "P1 functions approximate every z with z = 0 on the boundary up to "
                    f"‖∇(z − v)‖ ≤ {self.largest_interpolation:.4g} ‖Δz‖",
                    "hypercircle on the mesh (Liu and Oishi), inertia counted by MUMPS",
                ),
            )
        return (
            ("the cells are straight simplices", "cell type and degree of the geometry"),
            (
                "no two cells overlap, so that Ω is the meshed polygon"
                if self.dim == 2
                else "no two cells overlap, so that Ω is the meshed polyhedron",
                "sides of cells at facets, and the winding number of the boundary or its volume",
            ),
            (f"λ₁ ≥ {self.eigenvalue:.6g} for the first Dirichlet eigenvalue of Ω", self._how),
            (
                "Ω is convex" if self.convex else "Ω is not convex, or not known to be",
                "each boundary facet against all corners",
            ),
            *constant,
        )

    @property
    def largest_interpolation(self) -> float | None:
        """The largest of these constants, where there are any; collective."""
        if self.interpolation is None:
            return None
        return self.mesh.comm.allreduce(float(self.interpolation.max(initial=0.0)), op=MPI.MAX)

    @property
    def hull(self) -> np.ndarray:
        """All corners of the boundary; their convex hull contains the domain."""
        return self.boundary.reshape(-1, self.dim)

    def _first_eigenvalue(self) -> tuple[float, str]:
        sides = np.ptp(self.hull, axis=0)
        volume = self.mesh.comm.allreduce(float(volumes(self.corners).sum()))
        found = [(math.pi**2 * float((1 / sides**2).sum()), "bounding box and domain monotonicity")]
        found.append(
            (faber_krahn(self.dim, volume), "Faber–Krahn inequality with the volume of the mesh")
        )
        if self.dim == 2 and volume < (1 - FULL) * sides.prod():
            longest = self.mesh.comm.allreduce(float(self.diameters.max(initial=0.0)), op=MPI.MAX)
            discrete = crouzeix_raviart(self.mesh)
            how = (
                f"Crouzeix–Raviart eigenvalue {discrete:.6g} with κ² = 1/48 + 1/j², inertia "
                "counted by MUMPS"
            )
            found.append((discrete / (1 + KAPPA_SQUARED * longest**2 * discrete), how))
        if self.dim == 3 and volume < (1 - FULL) * sides.prod():
            lower = first_eigenvalue(self.mesh, self.diameters)
            if lower is not None:
                how = "Crouzeix–Raviart eigenvalue with κ² = 1/120 + 1/π², inertia counted by MUMPS"
                found.append((lower, how))
        return max(found)

    def sharpen(self) -> bool:
        """Bound the first eigenvalue on refined cells of the same domain, where that gives more;
        whether it did; collective.

        Crouzeix–Raviart elements lose κ² h² λ₁ of it, a quarter as much on each finer mesh.
        """
        sides = np.ptp(self.hull, axis=0)
        volume = self.mesh.comm.allreduce(float(volumes(self.corners).sum()))
        if self.dim != 2 or self._sharp or volume >= (1 - FULL) * sides.prod():
            return False
        self._sharp, finer, times = True, self.mesh, 0
        while finer.topology.index_map(2).size_global * 4 <= REFINED:
            finer, times = refined(finer)[0], times + 1
        if not times:
            return False
        mine = finer.topology.index_map(2).size_local
        edges = edge_lengths(finer.geometry.x[cell_geometry(finer)[0][:mine], :2])
        longest = self.mesh.comm.allreduce(float(edges.max(initial=0.0)), op=MPI.MAX)
        discrete = crouzeix_raviart(finer)
        lower = discrete / (1 + KAPPA_SQUARED * longest**2 * discrete)
        if not lower > self.eigenvalue:
            return False
        self.eigenvalue, self._how = (
            lower,
            f"Crouzeix–Raviart eigenvalue {discrete:.6g} on cells divided {times} times, with κ² = "
            "1/48 + 1/j², inertia counted by MUMPS",
        )
        return True


def faber_krahn(dim: int, volume: float) -> float:
    """The first Dirichlet eigenvalue of a ball of given volume, the smallest among all domains of
    this volume.

    Example:
        >>> round(faber_krahn(2, math.pi), 4), round(faber_krahn(3, 4 * math.pi / 3), 4)
        (5.7832, 9.8696)
    """
    if dim == 2:
        return math.pi * FIRST_ZERO_OF_J0**2 / volume
    return math.pi**2 * (4 * math.pi / (3 * volume)) ** (2 / 3)


def exterior_corners(mesh: Mesh) -> np.ndarray:
    """Corners of all boundary facets on every rank, shape (facets, dim, dim); collective."""
    dim = mesh.topology.dim
    mesh.topology.create_connectivity(dim - 1, dim)
    mesh.topology.create_connectivity(dim - 1, 0)
    mesh.topology.create_connectivity(dim, dim - 1)
    facets = exterior_facets(mesh)
    nodes = np.asarray(entities_to_geometry(mesh, dim - 1, facets)).reshape(-1, dim)
    return np.concatenate(mesh.comm.allgather(mesh.geometry.x[nodes, :dim]))


def is_convex(comm: MPI.Comm, facets: np.ndarray) -> bool:
    """Whether the line or plane of every boundary facet has the whole domain on one side.

    Then the boundary lies in the boundary of the convex hull, and a mesh whose cells do not overlap
    fills the hull. Cracks and holes fail, because the domain is on both sides of their facets.
    """
    dim = facets.shape[2]
    points = np.unique(facets.reshape(-1, dim), axis=0)
    size = float(np.ptp(points, axis=0).max())
    mine = facets[comm.rank :: comm.size]
    bad = False
    for block in np.array_split(mine, 1 + len(mine) * len(points) // 2**22):
        normals = facet_normals(block)
        distance = normals @ points.T - np.einsum("fi,fi->f", normals, block[:, 0])[:, None]
        outside = np.minimum(distance.max(axis=1), -distance.min(axis=1))
        bad = bad or bool((outside > FLAT * size).any())
    return not comm.allreduce(int(bad))


def crouzeix_raviart(mesh: Mesh) -> float:
    """A number below the first Crouzeix–Raviart eigenvalue of the Dirichlet Laplacian, by less than
    one part in a million.

    SLEPc finds the eigenvalue; that none lies below is Sylvester's law of inertia on K − σM.

    Raises:
        NotCovered: an eigenvalue below the one that was found.
    """
    mesh.topology.create_connectivity(mesh.topology.dim - 1, mesh.topology.dim)
    space = fem.functionspace(mesh, ("CR", 1))
    u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    dofs = fem.locate_dofs_topological(space, mesh.topology.dim - 1, exterior_facets(mesh))
    zero = [fem.dirichletbc(PETSc.ScalarType(0), dofs, space)]
    stiffness = assemble_matrix(form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, mesh.comm), zero)
    # With no mass the rows of the boundary have an infinite eigenvalue, out of the way.
    mass = assemble_matrix(form(u * v * ufl.dx, mesh.comm), zero, diagonal=0.0)
    found = _smallest_eigenvalue(stiffness, mass) * (1 - BELOW)
    stiffness.axpy(-found, mass)
    below = _pivots_not_positive(stiffness)
    for matrix in (stiffness, mass):
        matrix.destroy()
    if below:
        raise NotCovered(
            f"{below} Crouzeix–Raviart eigenvalues lie below the one that was found, {found:.6g}"
        )
    return found


def _smallest_eigenvalue(stiffness: PETSc.Mat, mass: PETSc.Mat) -> float:
    with Pencil(stiffness, mass, target=0.0).solved("the Crouzeix–Raviart eigenproblem") as solver:
        if solver.getConverged() < 1:
            raise NotCovered("the Crouzeix–Raviart eigenvalue did not converge")
        return float(np.real(solver.getEigenvalue(0)))


def _pivots_not_positive(matrix: PETSc.Mat) -> int:
    """How many eigenvalues of a symmetric matrix are not positive."""
    # Vanishing pivots are found, and the last block is not handed to ScaLAPACK, which does not
    # count signs.
    looking = {"mat_mumps_icntl_24": 1, "mat_mumps_icntl_13": 1}
    factors = Factors(matrix, "cholesky", looking, "the count of Crouzeix–Raviart eigenvalues")
    negative, zero, _ = factors.inertia()
    factors.destroy()
    return negative + zero
