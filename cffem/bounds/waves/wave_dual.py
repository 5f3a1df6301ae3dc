# SPDX-License-Identifier: MIT
"""The auxiliary field H̃ of the majorant of waves, found by least squares: ‖G − D*H̃‖² + ω ‖H̃ −
H_h‖² is as small as possible.

In space H̃ is a Nédélec field of degree k. A factor of its normal equations is most of what a
certificate costs, and more than half of that is for fields that D* does not see: the gradients of
edge bubbles, of which every field has a part that is fixed by the moments of higher degree along
the edges. Therefore these moments are set to zero in the factor (a gauge), which leaves all curls,
and H̃ gets the gradients that bring it near to H_h afterwards, from a system of edges whose
condition does not depend on the mesh: a few steps of Chebyshev's method do. Any H̃ is good for a
bound. All of it is linear in the data, so that H̃ of a small difference is as good, relative to it,
as those of its two parts.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import ufl
from dolfinx import fem
from dolfinx.fem import petsc as fem_petsc
from petsc4py import PETSc

from cffem._compat import assemble_matrix, form
from cffem.bounds.enclosed.trajectory_columns import Broken, Factor, product

if TYPE_CHECKING:
    from ufl.core.expr import Expr


# Weight of ‖H̃ − H_h‖² against ‖G − D*H̃‖², relative to (π/diameter)²; the bound hardly depends on
# it.
REGULARISATION = 1e-2
# Steps of Chebyshev's method, and the ratio of the eigenvalues that they are made for.
STEPS, RATIO = 8, 20.0


class Dual:
    """The space of H̃ and the operators between it, the unknown and broken polynomials.

    Args:
        broken: where r₁ is measured.
        space: the space of the unknown.
        components: of the unknown.
        degree: of H̃.

    Attributes:
        adjoint: D* of fields, as broken polynomials.
        backward: its transpose.
        identity: the fields themselves.
        derivative: D of the unknown, as broken polynomials of a lower degree.
        derivatives: where their coefficients are among those of fields.
        weight: ω.
        owned: how many unknowns of H̃ this rank owns.
    """

    def __init__(self, broken: Broken, space: fem.FunctionSpace, components: int, degree: int):
        domain, self.dim, self.components = broken.domain, broken.domain.dim, components
        mesh = domain.mesh
        family = "RT" if components == 1 else {2: "Lagrange", 3: "N1curl"}[self.dim]
        dual = fem.functionspace(mesh, (family, degree))
        second = Broken(domain, degree, 1 if components > 1 and self.dim == 2 else self.dim)
        self.adjoint, self.identity = (
            broken.moments(dual, self._backward),
            second.moments(dual, lambda w: w),
        )
        constant = Broken(
            domain, space.element.basix_element.embedded_superdegree - 1, second.components
        )
        self.derivative, self.derivatives = (
            constant.moments(space, self._forward),
            second.places(constant),
        )
        self.backward, self._lower = self.adjoint.transpose(PETSc.Mat()), self._transposed()
        w, v = ufl.TrialFunction(dual), ufl.TestFunction(dual)
        box = np.ptp(domain.hull, axis=0)
        self.weight = REGULARISATION * math.pi**2 / float(box @ box)
        normal = ufl.inner(self._backward(w), self._backward(v)) + fem.Constant(
            mesh, self.weight
        ) * ufl.inner(w, v)
        # Exact for D*w, and for the fields with D*w = 0, whose degree is one less; no more is
        # needed, because any H̃ will do.
        dx = ufl.dx(metadata={"quadrature_degree": 2 * (degree - 1)})
        self._normal = assemble_matrix(form(normal * dx, mesh.comm))
        self.owned = self._normal.getLocalSize()[0]
        self._lifts = (
            EdgeGradients(dual, self._normal, self.weight)
            if family == "N1curl" and degree > 1
            else None
        )
        self._factor = Factor(
            self._lifts.without(self._normal) if self._lifts else self._normal, self.dim
        )

    def _forward(self, u: Expr) -> ufl.Form:
        """D u."""
        return ufl.grad(u) if self.components == 1 else ufl.curl(u) if self.dim == 3 else ufl.rot(u)

    def _backward(self, w: Expr) -> ufl.Form:
        """D* w."""
        if self.components == 1:
            return -ufl.div(w)
        return ufl.curl(w) if self.dim == 3 else ufl.as_vector((w.dx(1), -w.dx(0)))

    def _transposed(self) -> ufl.Form:
        """The transpose of the rows of `identity` where derivatives of the unknown are;
        collective.
        """
        (start, _), (first, last) = (
            self.identity.getOwnershipRange(),
            self.identity.getOwnershipRangeColumn(),
        )
        places = (start + self.derivatives, np.arange(first, last))
        rows, columns = (
            PETSc.IS().createGeneral(p.astype(PETSc.IntType), comm=self.identity.comm)
            for p in places
        )
        part = self.identity.createSubMatrix(rows, columns)
        result = part.transpose(PETSc.Mat())
        for thing in (rows, columns, part):
            thing.destroy()
        return result

    def coupled(self, columns: np.ndarray) -> np.ndarray:
        """(D u, w) for functions u of the unknown's space, one column each, and the fields w;
        collective.
        """
        return product(self._lower, product(self.derivative, columns))

    def gauged(self, right: np.ndarray) -> np.ndarray:
        """A field whose D* is the one that the normal equations ask for; collective."""
        if self._lifts is None:
            return self._factor.solve(right)
        result = np.zeros(right.shape, order="F")
        result[self._lifts.kept] = self._factor.solve(right[self._lifts.kept])
        return result

    def solve(self, right: np.ndarray) -> np.ndarray:
        """A field that nearly solves the normal equations; collective."""
        result = self.gauged(right)
        if self._lifts is not None:
            result += self._lifts.solve(right - product(self._normal, result))
        return result

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        for matrix in (self.adjoint, self.identity, self.derivative, self._lower, self.backward):
            matrix.destroy()
        self._factor.destroy()
        if self._lifts is not None:
            self._lifts.destroy()
            self._normal.destroy()


class EdgeGradients:
    """Gradients of the bubbles of edges in a Nédélec space.

    Args:
        space: the space, of degree two or more.
        normal: the matrix of the normal equations.
        weight: the factor of (w, w) in them.

    Attributes:
        kept: the owned unknowns of the space without moments of higher degree along edges.
    """

    def __init__(self, space: fem.FunctionSpace, normal: Any, weight: float):
        degree, owned = space.element.basix_element.degree, space.dofmap.index_map.size_local
        higher = np.zeros(owned, dtype=bool)
        higher[_on_edges(space, 1)] = True
        self.kept = np.flatnonzero(~higher)
        scalars = fem.functionspace(space.mesh, ("Lagrange", degree))
        gradient = fem_petsc.discrete_gradient(scalars, space)
        gradient.assemble()
        everything, bubbles = (
            _numbers(V, rows)
            for V, rows in ((space, np.arange(owned)), (scalars, _on_edges(scalars, 0)))
        )
        self._gradient = gradient.createSubMatrix(everything, bubbles)
        self._transposed = self._gradient.transpose(PETSc.Mat())
        u, v = ufl.TrialFunction(scalars), ufl.TestFunction(scalars)
        whole = assemble_matrix(form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, space.mesh.comm))
        self._matrix = whole.createSubMatrix(bubbles, bubbles)
        self._matrix.scale(weight)
        for thing in (whole, gradient, everything, bubbles):
            thing.destroy()
        diagonal = self._matrix.getDiagonal()
        self._diagonal = diagonal.array_r.copy()[:, None]
        diagonal.destroy()
        # Relative to its diagonal, a sum of n functions on each cell has at most n times their
        # energies.
        self._largest = 6.0 * (degree - 1)
        self._space = space

    def without(self, matrix: PETSc.Mat) -> np.ndarray:
        """The part of a matrix of the space that belongs to the kept unknowns; collective."""
        kept = _numbers(self._space, self.kept)
        result = matrix.createSubMatrix(kept, kept)
        kept.destroy()
        return result

    def solve(self, defect: np.ndarray) -> np.ndarray:
        """Gradients that take away most of what they can of a defect of the normal equations;
        collective.

        Chebyshev's method with a fixed number of steps, so that the result is linear in the defect.
        """
        low, high = self._largest / RATIO, self._largest
        middle, radius = (high + low) / 2, (high - low) / 2
        rest, share = product(self._transposed, defect), radius / middle
        change = rest / self._diagonal / middle
        found = change.copy()
        for _ in range(STEPS - 1):
            rest -= product(self._matrix, change)
            before, share = share, 1 / (2 * middle / radius - share)
            change = before * share * change + 2 * share / radius * (rest / self._diagonal)
            found += change
        return product(self._gradient, found)

    def destroy(self) -> None:
        """Free matrices; collective."""
        for matrix in (self._gradient, self._transposed, self._matrix):
            matrix.destroy()


def _on_edges(space: fem.FunctionSpace, first: int) -> np.ndarray:
    """The owned unknowns of the edges of tetrahedra, from a certain one of each edge on."""
    edges, owned = space.element.basix_element.entity_dofs[1], space.dofmap.index_map.size_local
    places = np.concatenate([edge[first:] for edge in edges])
    found = np.unique(space.dofmap.list[:, places])
    return found[found < owned]


def _numbers(space: fem.FunctionSpace, owned: np.ndarray) -> np.ndarray:
    """The numbers of owned unknowns among those of all ranks."""
    start = space.dofmap.index_map.local_range[0]
    return PETSc.IS().createGeneral((start + owned).astype(PETSc.IntType), comm=space.mesh.comm)
