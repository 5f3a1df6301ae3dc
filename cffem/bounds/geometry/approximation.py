# SPDX-License-Identifier: MIT
"""How well P1 functions approximate solutions on a mesh, by one eigenvalue of the mesh itself: no
convexity, no regularity, any polygon or polyhedron (Liu and Oishi).

Let −div(A ∇z) = g with A constant on each cell, z = 0 on a part of the boundary and A ∇z·n + κ z =
0 on the rest, and f the means of g on the cells. With z_h the P1 solution for f, and the flux p of
Raviart and Thomas with −div p = f, the hypercircle of Prager and Synge says

    ‖A^{1/2} ∇(z_f − z_h)‖² ≤ ‖A^{-1/2} (p − A ∇z_h)‖² + ‖κ^{-1/2} (p·n + κ z_h)‖² = (λ − z_h, f)

with the multiplier λ of the mixed problem. The largest quotient of this and ‖f‖² is k². What f
leaves of g moves z by at most max_K h_K/(π a_K^{1/2}) ‖g − f‖, a_K the smallest eigenvalue of A, so
that

    min_v ‖A^{1/2} ∇(z − v)‖ ≤ C_h ‖div(A ∇z)‖,    C_h² = k² + max_K h_K²/(π² a_K).

That k² is no larger is proved by Sylvester's law of inertia: eliminating p, λ and z_h from a
sparse symmetric matrix leaves k² ‖f‖² − (λ − z_h, f), so that its negative eigenvalues can be
counted.

The first eigenvalue of the same operator is bounded from below by that of Crouzeix–Raviart
elements, λ ≥ λ_CR/(1 + max_K κ² h_K²/a_K λ_CR), where κ² = 1/π² + 1/(2 d (d + 1) (d + 2)) in d
dimensions: a function v without means on the facets of a simplex has |∫ v| ≤ ‖x − x_M‖ ‖∇v‖/d
with its centre x_M, and Payne and Weinberger's inequality bounds the rest. In the plane κ² = 1/48 +
1/j² is smaller (Carstensen and Gedicke), on an interval, whose facets are its ends, it is 1/π².
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from petsc4py import PETSc
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry.lowest_order import Walls, WholeMesh, gathered
from cffem.engine.solve.factorisation import Factors, Pencil
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


FIRST_ZERO_OF_J1 = 3.8317059702075125
KAPPA_SQUARED = {
    1: 1 / math.pi**2,
    2: 1 / 48 + 1 / FIRST_ZERO_OF_J1**2,
    3: 1 / math.pi**2 + 1 / 120,
}
# Signs of pivots are counted, vanishing ones are found, and the last block is not handed to
# ScaLAPACK, which does not count signs.
COUNTING = {"mat_mumps_icntl_24": 1, "mat_mumps_icntl_13": 1}


@dataclass(frozen=True)
class Search:
    """How the constants of a mesh are found.

    Attributes:
        cells: meshes with more cells in so many dimensions are left alone, for their factors would
            cost more than solves do.
        tolerance: relative, of the eigenvalue that Lanczos' method finds: its start depends on the
            numbers of the cells, and bounds are to be the same on any number of ranks.
        above: how far above it the proof starts, as a share, and by which factor it goes on where
            it fails.
        tries: how often it goes on.
        below: how far below a computed first eigenvalue inertia is counted; far above rounding.
    """

    cells: tuple[int, int, int] = (1_000_000, 60_000, 20_000)
    tolerance: float = 1e-9
    above: float = 1.01
    tries: int = 12
    below: float = 1e-7


SEARCH = Search()


def largest_quotient(
    mesh: Mesh, tensors: np.ndarray | None = None, walls: Walls | None = None
) -> float | None:
    """k² of a mesh, proved; None where the mesh is too large or no proof was found; collective.

    Args:
        mesh, tensors, walls: see `approximation_constant`.
    """
    comm, dim = mesh.comm, mesh.topology.dim
    if mesh.topology.index_map(dim).size_global > SEARCH.cells[dim - 1]:
        return None
    whole = gathered(mesh, tensors, walls)
    found: float | None = None
    if whole is not None:
        try:
            found = _largest_quotient(whole)
        except (SolveError, ArpackError):
            found = None
    return comm.bcast(found)


def approximation_constant(
    mesh: Mesh,
    diameters: np.ndarray,
    tensors: np.ndarray | None = None,
    walls: Walls | None = None,
) -> float | None:
    """C_h of a mesh, None where the mesh is too large or no proof was found; collective.

    Args:
        mesh: a mesh of straight simplices.
        diameters: h_K of this rank's own cells.
        tensors: A of this rank's own cells; the identity where there is none.
        walls: conditions on the boundary; functions vanish where there is none.

    Example:
        >>> from dolfinx.mesh import create_unit_square
        >>> from mpi4py import MPI
        >>> square = create_unit_square(MPI.COMM_SELF, 8, 8)
        >>> round(approximation_constant(square, np.full(128, math.sqrt(2) / 8)), 3)
        0.08
    """
    comm = mesh.comm
    found = largest_quotient(mesh, tensors, walls)
    if found is None:
        return None
    smallest = np.ones(len(diameters)) if tensors is None else np.linalg.eigvalsh(tensors)[:, 0]
    local = float(np.max(diameters**2 / smallest, initial=0.0))
    return math.sqrt(found + max(comm.allgather(local)) / math.pi**2)


def _largest_quotient(mesh: WholeMesh) -> float | None:
    """k², proved, or None."""
    cells, floats = len(mesh.cells), mesh.floats
    inside = np.flatnonzero(~mesh.held)
    # Constants are in nobody's way where f has no mean.
    inside = inside[1:] if floats else inside
    through = np.flatnonzero(~mesh.natural | (mesh.transfer > 0))
    kept = np.arange(1 if floats else 0, cells)
    stiffness = mesh.stiffness()[inside][:, inside].tocsr()
    loads = mesh.loads()[inside].tocsr()
    divergence = mesh.divergence()[kept][:, through].tocsr()
    fluxes = mesh.fluxes()[through][:, through].tocsr()
    largest = _lanczos(mesh, stiffness, loads, divergence, fluxes, kept)
    value = largest * SEARCH.above
    for _ in range(SEARCH.tries):
        if _proved(mesh, value, stiffness, loads, divergence, fluxes, kept):
            return value
        value *= SEARCH.above
    return None


def _lanczos(
    mesh: WholeMesh,
    stiffness: sparse.csr_matrix,
    loads: sparse.csr_matrix,
    divergence: sparse.csr_matrix,
    fluxes: sparse.csr_matrix,
    kept: np.ndarray,
) -> float:
    """The largest eigenvalue of f ↦ λ − z_h, nearly."""
    mixed = sparse.bmat([[fluxes, divergence.T], [divergence, None]], format="csr")
    solve_mixed, free_mixed = factored(mixed, "the mixed problem of an approximation constant")
    solve_plain: Callable[[np.ndarray], np.ndarray] | None = None
    free_plain: Callable[[], None] | None = None
    if stiffness.shape[0]:
        solve_plain, free_plain = factored(stiffness, "the P1 problem of an approximation constant")
    root, floats = np.sqrt(mesh.volume), mesh.floats
    unit = root / np.linalg.norm(root)

    def image(scaled: np.ndarray) -> np.ndarray:
        if floats:
            scaled = scaled - unit * (unit @ scaled)
        f = scaled / root
        right = np.zeros(mixed.shape[0])
        right[fluxes.shape[0] :] = -(mesh.volume * f)[kept]
        result = np.zeros(len(f))
        result[kept] = mesh.volume[kept] * solve_mixed(right)[fluxes.shape[0] :]
        if solve_plain is not None:
            result -= loads.T @ solve_plain(loads @ f)
        result /= root
        return result - unit * (unit @ result) if floats else result

    try:
        if len(root) < 3:
            matrix = np.column_stack([image(column) for column in np.eye(len(root))])
            return float(np.linalg.eigvalsh((matrix + matrix.T) / 2)[-1])
        operator = LinearOperator((len(root), len(root)), image, dtype=float)
        # A start of its own, the same on every machine.
        start = np.cos(np.arange(len(root)) ** 2.0)
        values = eigsh(operator, 1, which="LA", v0=start, tol=SEARCH.tolerance)[0]
        return float(values[0])
    finally:
        free_mixed()
        if free_plain is not None:
            free_plain()


def _proved(
    mesh: WholeMesh,
    value: float,
    stiffness: sparse.csr_matrix,
    loads: sparse.csr_matrix,
    divergence: sparse.csr_matrix,
    fluxes: sparse.csr_matrix,
    kept: np.ndarray,
) -> bool:
    """Whether k² is at most a value: with f eliminated, the matrix for (λ, p, z_h) and, where f has
    no mean, its multiplier must have as many negative eigenvalues as p, z_h and it have entries.
    """
    volume = sparse.diags(mesh.volume)
    selected = volume.tocsr()[kept]
    inverse = sparse.diags(1 / (value * mesh.volume))
    # Columns by which each unknown meets f: λ, then z_h, then the multiplier of the mean of f.
    columns = [selected.T, None, loads.T]
    diagonal = [None, -fluxes, -stiffness]
    expected = fluxes.shape[0] + stiffness.shape[0]
    if mesh.floats:
        columns.append(sparse.csr_matrix(mesh.volume[:, None]))
        diagonal.append(None)
        expected += 1
    blocks: list[list[sparse.spmatrix | None]] = []
    for i, first in enumerate(columns):
        row: list[sparse.spmatrix | None] = []
        for j, second in enumerate(columns):
            block = diagonal[i] if i == j else None
            if first is not None and second is not None:
                met = first.T @ inverse @ second
                block = -met if block is None else block - met
            if (i, j) == (0, 1):
                block = divergence
            if (i, j) == (1, 0):
                block = divergence.T
            row.append(block)
        blocks.append(row)
    matrix = petsc_matrix(sparse.bmat(blocks, format="csr"))
    factors = Factors(matrix, "cholesky", COUNTING, "the proof of an approximation constant")
    negative, zero, _ = factors.inertia()
    factors.destroy()
    matrix.destroy()
    return zero == 0 and negative == expected


def first_eigenvalue(
    mesh: Mesh,
    diameters: np.ndarray,
    tensors: np.ndarray | None = None,
    walls: Walls | None = None,
) -> float | None:
    """A lower bound of the first eigenvalue of −div(A ∇·) with these conditions, None where the
    mesh is too large; collective.

    Args:
        mesh, diameters, tensors, walls: see `approximation_constant`.

    Raises:
        NotCovered: an eigenvalue below the one that was found.

    Example:
        >>> from dolfinx.mesh import create_unit_square
        >>> from mpi4py import MPI
        >>> square = create_unit_square(MPI.COMM_SELF, 16, 16)
        >>> 19 < first_eigenvalue(square, np.full(512, math.sqrt(2) / 16)) < 2 * math.pi**2
        True
    """
    # SLEPc begins and ends on all ranks together, although one of them solves.
    importlib.import_module("slepc4py.SLEPc")
    comm = mesh.comm
    if comm.allreduce(len(diameters)) > SEARCH.cells[mesh.topology.dim - 1]:
        return None
    whole = gathered(mesh, tensors, walls)
    found: float | None = None
    if whole is not None:
        try:
            found = 0.0 if whole.floats else _first(whole)
        except SolveError:
            found = None
    found = comm.bcast(found)
    if found is None:
        raise NotCovered("an eigenvalue lies below the first one that was found")
    smallest = np.ones(len(diameters)) if tensors is None else np.linalg.eigvalsh(tensors)[:, 0]
    local = float(np.max(diameters**2 / smallest, initial=0.0))
    longest = max(comm.allgather(local))
    return found / (1 + KAPPA_SQUARED[mesh.topology.dim] * longest * found)


def _first(mesh: WholeMesh) -> float | None:
    """The first eigenvalue of Crouzeix–Raviart elements, a little less; None where one lies
    below.
    """
    free = np.flatnonzero(~mesh.boundary | mesh.natural)
    if not len(free):
        return math.inf
    stiffness, mass = (petsc_matrix(matrix[free][:, free].tocsr()) for matrix in mesh.means())
    with Pencil(stiffness, mass, target=0.0).solved("the Crouzeix–Raviart eigenproblem") as solver:
        if solver.getConverged() < 1:
            return None
        found = float(np.real(solver.getEigenvalue(0))) * (1 - SEARCH.below)
    stiffness.axpy(-found, mass)
    factors = Factors(stiffness, "cholesky", COUNTING, "the count of Crouzeix–Raviart eigenvalues")
    negative, zero, _ = factors.inertia()
    factors.destroy()
    for matrix in (stiffness, mass):
        matrix.destroy()
    return None if negative + zero else found


def petsc_matrix(matrix: sparse.spmatrix) -> PETSc.Mat:
    matrix = matrix.tocsr()
    matrix.sort_indices()
    return PETSc.Mat().createAIJ(
        matrix.shape,
        csr=(
            matrix.indptr.astype(PETSc.IntType),
            matrix.indices.astype(PETSc.IntType),
            matrix.data,
        ),
        comm=PETSc.COMM_SELF,
    )


def factored(
    matrix: sparse.spmatrix, what: str
) -> tuple[Callable[[np.ndarray], np.ndarray], Callable[[], None]]:
    """Solves with a symmetric matrix, and what frees its factors."""
    held = petsc_matrix(matrix)
    factors = Factors(held, "cholesky", None, what)
    right, left = held.createVecs()

    def solve(values: np.ndarray) -> np.ndarray:
        right.array[:] = values
        factors.solve(right, left)
        return left.array_r.copy()

    def free() -> None:
        factors.destroy()
        for thing in (right, left, held):
            thing.destroy()

    return solve, free
