# SPDX-License-Identifier: MIT
"""How well P2 velocities and P1 pressures approximate solutions of −Δz + ∇π = g, div z = 0, z = 0
on the boundary, by one eigenvalue of the mesh: no convexity, no regularity.

Let f be the means of g on the cells, β the constant of `divergence_constant`, and σ a stress of
Brezzi, Douglas and Marini, row by row, with div σ = −f. For every v ∈ P2 with v = 0 on the boundary
and every continuous P1 function q let e = z − v = e₀ + e₁, e₀ without divergence and e₁ orthogonal
to such fields in (∇·, ∇·), A = dev σ − ∇z, which is orthogonal to ∇e₀, and

    x = ‖A + dev ∇e₁‖,  y = ‖div v‖/β,  s = ‖tr σ/2 + q‖.

Then ‖∇e₀‖² + x² = ‖dev(σ − ∇v)‖², ‖∇e₁‖ ≤ y, and for every w orthogonal to fields without
divergence (π − q, div w) = −(A, ∇w) − (tr σ/2 + q, div w), so that

    ‖∇e‖² ≤ ‖∇e₀‖² + y²,  β ‖π − q‖ ≤ x + y + s,

since ‖dev ∇e₁‖ ≤ ‖∇e₁‖. The least value of ‖dev(σ − ∇v)‖² + μ y² + ω s² over σ, v and q is a
quadratic form in f, and k² its largest quotient by ‖f‖². What f leaves of g moves z by z̃ and π by
π̃ with ‖∇z̃‖² + β² ‖π̃‖² ≤ (h/π)² ‖g − f‖². Hence for all D, G ≥ 0

    D ‖∇(z − v)‖ + E ‖div v‖ + β G ‖π − q‖ ≤ C(D, E, G) ‖g‖ for some v and q,
    C² = k² (D² + (G + β E)²/(μ − 1) + G² (1 + 1/ω)) + (h/π)² (D² + G²),

the largest value of D (‖∇e₀‖² + y²)^{1/2} + (G + β E) y + G (x + s) for ‖∇e₀‖² + x² + μ y² + ω s² ≤
k² with μ > 1: with the angle τ between (‖∇e₀‖, y) and the first axis it is at most k times the root
of D² cos² τ + (D sin τ + G + β E)²/μ + G² + G²/ω, which is largest where sin τ = (G + β E)/((μ − 1)
D). That k² is no larger is proved by Sylvester's law of inertia, as in `approximation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from cffem.bounds.geometry.approximation import COUNTING, SEARCH, factored, petsc_matrix
from cffem.bounds.geometry.lowest_order import WholeMesh, gathered
from cffem.engine.solve.factorisation import Factors
from cffem.engine.solve_errors import SolveError

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh


@dataclass(frozen=True)
class StokesWeights:
    """What is weighed in the quadratic form, and how its largest quotient is found.

    Attributes:
        divergence: μ, with which C(1, 0, 1) and C(1, 0, 1/2) are near their least on uniform meshes
            of a square.
        trace: ω, likewise.
        cells: meshes with more cells are left alone, for the factors would cost more than solves.
        tolerance: relative, of the eigenvalue that Lanczos' method finds.
        above: where the proof starts, relative to it.
        grid: k² is a power of this, so that it is the same on any number of ranks.
    """

    divergence: float = 2.0
    trace: float = 2.0
    cells: int = 20_000
    tolerance: float = 5e-2
    above: float = 1.02
    grid: float = 1.04


WEIGHTS = StokesWeights()


@dataclass(frozen=True)
class StokesApproximation:
    """The constants of a mesh.

    Attributes:
        square: k².
        longest: h.
        divergence: β.
    """

    square: float
    longest: float
    divergence: float

    def bound(self, velocity: float, trace: float, pressure: float) -> float:
        """C(D, E, G)."""
        both = velocity**2 + (1 + 1 / WEIGHTS.trace) * pressure**2
        both += (pressure + self.divergence * trace) ** 2 / (WEIGHTS.divergence - 1)
        local = (self.longest / math.pi) ** 2 * (velocity**2 + pressure**2)
        return math.sqrt(self.square * both + local)


def stokes_approximation(
    mesh: Mesh, longest: float, divergence: float
) -> StokesApproximation | None:
    """The constants of a plane mesh of triangles, None where it is too large or no proof was found;
    collective.

    Args:
        mesh: the mesh.
        longest: the longest edge of all cells.
        divergence: β.
    """
    if mesh.topology.index_map(2).size_global > WEIGHTS.cells:
        return None
    whole = gathered(mesh)
    found: float | None = None
    if whole is not None:
        try:
            found = StokesHypercircle(whole, divergence).largest()
        except (SolveError, ArpackError):
            found = None
    found = mesh.comm.bcast(found)
    return None if found is None else StokesApproximation(found, longest, divergence)


class StokesHypercircle:
    """The quadratic form of a whole mesh; unknowns are the two rows of σ, the two components of v
    and q, which is zero at one vertex: constants may be moved between σ and q.

    Args:
        mesh: the mesh.
        divergence: β.
    """

    def __init__(self, mesh: WholeMesh, divergence: float):
        self.mesh = mesh
        self.form = _quadratic(
            mesh,
            self._stresses(),
            self._slopes(),
            self._pressures(),
            WEIGHTS.divergence / divergence**2,
            WEIGHTS.trace,
        )
        unknowns, cells = 2 * len(mesh.boundary), len(mesh.cells)
        rest = self.form.shape[0] - 2 * unknowns
        # Half of what flows through a side belongs to each of its ends.
        plain = sparse.kron(mesh.divergence(), np.full((1, 2), 0.5))
        self.balance = sparse.hstack(
            [sparse.block_diag([plain, plain]), sparse.csr_matrix((2 * cells, rest))], format="csr"
        )
        self.volume = np.tile(mesh.volume, 2)

    def _sides(self) -> list[tuple[int, int, int]]:
        """(a, b, k): the ends of the side opposite to corner k."""
        return [(1, 2, 0), (2, 0, 1), (0, 1, 2)]

    def _sparse(self, rows: list, columns: list, values: list, count: int) -> sparse.csr_matrix:
        """Values at the corners of the cells, corner by corner, of so many functions."""
        flat = [
            np.concatenate([np.ravel(part) for part in parts]) for parts in (values, rows, columns)
        ]
        shape = (3 * len(self.mesh.cells), count)
        return sparse.csr_matrix((flat[0], (flat[1], flat[2])), shape)

    def _stresses(self) -> list[sparse.csr_matrix]:
        """The components of one row of σ at the corners of the cells.

        The function of a side (a, b) and its end a is λ_a ∇⊥λ_b, scaled so that λ_a is what flows
        out of the cell; its number is twice that of the side, and one more for the larger end.
        """
        mesh = self.mesh
        turned = np.stack([-mesh.slopes[..., 1], mesh.slopes[..., 0]], axis=2)
        first = 3 * np.arange(len(mesh.cells))
        rows, columns, values = [], [], []
        for one, other, k in self._sides():
            for a, b in ((one, other), (other, one)):
                out = -2 * mesh.volume * (turned[:, b] * mesh.slopes[:, k]).sum(axis=1)
                later = mesh.cells[:, a] > mesh.cells[:, b]
                rows.append(first + a)
                columns.append(2 * mesh.facets[:, k] + later)
                values.append(turned[:, b] * (mesh.signs[:, k] / out)[:, None])
        return [
            self._sparse(rows, columns, [v[:, i] for v in values], 2 * len(mesh.boundary))
            for i in (0, 1)
        ]

    def _slopes(self) -> list[sparse.csr_matrix]:
        """Partial derivatives of P2 at the corners of the cells, of the functions of vertices and
        sides that vanish on the boundary.
        """
        mesh = self.mesh
        first, points = 3 * np.arange(len(mesh.cells)), len(mesh.points)
        rows, columns, values = [], [], []
        for corner in range(3):
            for i in range(3):
                rows.append(first + corner)
                columns.append(mesh.cells[:, i])
                values.append((3.0 if i == corner else -1.0) * mesh.slopes[:, i])
        for one, other, k in self._sides():
            for a, b in ((one, other), (other, one)):
                rows.append(first + a)
                columns.append(points + mesh.facets[:, k])
                values.append(4.0 * mesh.slopes[:, b])
        free = np.flatnonzero(~np.concatenate([mesh.held, mesh.boundary]))
        count = points + len(mesh.boundary)
        return [
            self._sparse(rows, columns, [v[:, i] for v in values], count)[:, free] for i in (0, 1)
        ]

    def _pressures(self) -> sparse.csr_matrix:
        """q at the corners of the cells, but for the first vertex."""
        flat = self.mesh.cells.ravel()
        places = (np.arange(len(flat)), flat)
        shape = (len(flat), len(self.mesh.points))
        return sparse.csr_matrix((np.ones(len(flat)), places), shape)[:, 1:]

    def largest(self) -> float | None:
        """k², proved, or None; collective where the mesh is."""
        power = math.ceil(math.log(self._lanczos() * WEIGHTS.above, WEIGHTS.grid))
        for tried in range(SEARCH.tries):
            value = WEIGHTS.grid ** (power + tried)
            if self._proved(value):
                return value
        return None

    def _lanczos(self) -> float:
        """The largest quotient, nearly."""
        size, count = self.form.shape[0], len(self.volume)
        saddle = sparse.bmat([[self.form, self.balance.T], [self.balance, None]], format="csr")
        solve, free = factored(saddle, "the hypercircle of a Stokes problem")
        root = np.sqrt(self.volume)

        def image(scaled: np.ndarray) -> np.ndarray:
            right = np.zeros(size + count)
            right[size:] = -root * scaled
            return root * solve(right)[size:]

        try:
            operator = LinearOperator((count, count), image, dtype=float)
            # A start of its own, the same on every machine.
            start = np.cos(np.arange(count) ** 2.0)
            return float(eigsh(operator, 1, which="LA", v0=start, tol=WEIGHTS.tolerance)[0][0])
        finally:
            free()

    def _proved(self, value: float) -> bool:
        """Whether k² is at most a value: without f, the matrix for the unknowns and the multiplier
        of div σ = −f must have as many negative eigenvalues as there are unknowns.
        """
        # k² ‖f‖² − 2 (λ, f) is least for f = λ/k².
        last = -sparse.diags(self.volume / value)
        matrix = petsc_matrix(
            sparse.bmat([[-self.form, -self.balance.T], [-self.balance, last]], format="csr")
        )
        factors = Factors(matrix, "cholesky", COUNTING, "the proof of a Stokes constant")
        negative, zero, _ = factors.inertia()
        factors.destroy()
        matrix.destroy()
        return zero == 0 and negative == self.form.shape[0]


def _quadratic(
    mesh: WholeMesh,
    stress: list[sparse.csr_matrix],
    slopes: list[sparse.csr_matrix],
    values: sparse.csr_matrix,
    weight: float,
    trace: float,
) -> sparse.csr_matrix:
    """‖dev(σ − ∇v)‖² + weight ‖div v‖² + trace ‖tr σ/2 + q‖², all of them linear on cells."""
    count = len(mesh.cells)
    # (∫ λ_i λ_j) = |K|/12 (1 + δ_ij).
    blocks = (mesh.volume / 12)[:, None, None] * (np.ones((3, 3)) + np.eye(3))
    places = np.arange(3 * count).reshape(count, 3)
    rows, columns = np.repeat(places, 3, axis=1).ravel(), np.tile(places, (1, 3)).ravel()
    mass = sparse.csr_matrix((blocks.ravel(), (rows, columns)), (3 * count, 3 * count))
    nothing_s, nothing_v = 0 * stress[0], 0 * slopes[0]
    nothing_q = 0 * values

    def difference(row: int, column: int) -> sparse.csr_matrix:
        """(σ − ∇v) of one row and column."""
        parts = [nothing_s, nothing_s, nothing_v, nothing_v, nothing_q]
        parts[row], parts[2 + row] = stress[column], -slopes[column]
        return sparse.hstack(parts, format="csr")

    half = (difference(0, 0) - difference(1, 1)) / 2
    flowing = sparse.hstack([nothing_s, nothing_s, slopes[0], slopes[1], nothing_q], format="csr")
    pressed = sparse.hstack(
        [stress[0] / 2, stress[1] / 2, nothing_v, nothing_v, values], format="csr"
    )
    parts = [
        (2.0, half),
        (1.0, difference(0, 1)),
        (1.0, difference(1, 0)),
        (weight, flowing),
        (trace, pressed),
    ]
    return sum(factor * (part.T @ mass @ part) for factor, part in parts).tocsr()
