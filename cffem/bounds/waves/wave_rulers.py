# SPDX-License-Identifier: MIT
"""What a majorant measures with: norms of states, and projections onto gradients."""

from __future__ import annotations

import math

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, exterior_facets, form
from cffem.bounds.enclosed.trajectory_columns import Broken, Factor, product
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.bounds.waves.wave_data import Projected
from cffem.bounds.waves.wave_paths import (
    Trajectory,
    interpolated,
    second_differences,
    windows,
)
from cffem.bounds.waves.wave_problem import WaveOperator


class Ruler:
    """Norms of states and distances to data, not by the engine's matrices.

    Args:
        space: the space of the unknown.
        domain: the mesh.
        degree: the degree of the polynomials that are measured exactly, at least that of the space.
    """

    def __init__(self, space: fem.FunctionSpace, domain: Domain, degree: int):
        self.comm = domain.mesh.comm
        self.broken = Broken(
            domain, degree, domain.dim if space.element.basix_element.value_shape else 1
        )
        self.matrix = self.broken.moments(space, lambda u: u)

    def squares(self, columns: np.ndarray) -> np.ndarray:
        """Squared norms of columns of coefficients; collective."""
        return self.comm.allreduce(np.einsum("ij,ij->j", columns, columns))

    def sizes(self, states: np.ndarray) -> np.ndarray:
        """‖w_h‖ of columns of values; collective."""
        return np.sqrt(self.squares(product(self.matrix, states)))

    def norm(self, path: Trajectory) -> float:
        """The space–time norm of the piecewise linear interpolant of a trajectory; collective."""
        total, steps = 0.0, path.steps
        for window in windows(len(path.times) - 1):
            parts = interpolated(
                path.states[:, window.start : window.stop + 1], None, steps[window]
            )
            total += sum(
                float((steps[window] * self.sizes(p) ** 2).sum()) / (2 * n + 1)
                for n, p in enumerate(parts)
            )
        return math.sqrt(total)

    def distance(
        self, given: Projected, state: np.ndarray, gradients: Gradients | None = None
    ) -> float:
        """‖w − w_h‖ of projected data and discrete values, up to gradients where these do not
        count; collective.
        """
        gap = given.coefficients[:, None] - product(self.matrix, state[:, None])
        if gradients is not None:
            gap = gap + product(gradients.matrix, gradients.solve(gap))
        return math.hypot(math.sqrt(float(self.squares(gap)[0])) + given.unseen, given.rest)

    def destroy(self) -> None:
        """Free the matrix; collective."""
        self.matrix.destroy()


class Gradients:
    """Gradients of functions that vanish on the boundary, and the projection onto them.

    Args:
        broken: where gradients are measured.
        degree: the degree of the functions.
    """

    def __init__(self, broken: Broken, degree: int):
        mesh = broken.domain.mesh
        space = fem.functionspace(mesh, ("Lagrange", degree))
        self.matrix = broken.moments(space, ufl.grad)
        self._transposed = self.matrix.transpose(PETSc.Mat())
        self.owned = space.dofmap.index_map.size_local
        mesh.topology.create_connectivity(mesh.topology.dim - 1, mesh.topology.dim)
        held = fem.locate_dofs_topological(space, mesh.topology.dim - 1, exterior_facets(mesh))
        self._held = held[held < self.owned]
        u, v = ufl.TrialFunction(space), ufl.TestFunction(space)
        stiffness = form(ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx, broken.comm)
        self._factor = Factor(
            assemble_matrix(stiffness, [fem.dirichletbc(PETSc.ScalarType(0), held, space)]),
            broken.domain.dim,
        )

    def solve(self, target: np.ndarray) -> np.ndarray:
        """π with ‖target + ∇π‖ as small as possible."""
        right = -product(self._transposed, target)
        right[self._held] = 0.0
        result = self._factor.solve(right)
        result[self._held] = 0.0
        return result

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        self.matrix.destroy()
        self._transposed.destroy()
        self._factor.destroy()


def imaged(
    matrix: PETSc.Mat, levels: np.ndarray, window: slice, steps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A matrix times a field at the ends of some steps, and times its second derivatives on them;
    collective.

    The second derivatives are combinations of levels, so that each level is multiplied once.
    """
    weights = second_differences(np.eye(levels.shape[1]), steps)[:, window]
    used = np.append(np.flatnonzero(weights.any(axis=1)), (window.start, window.stop))
    start, stop = used.min(), used.max() + 1
    images = product(matrix, levels[:, start:stop])
    # Columns stay one after another in memory.
    return images[:, window.start - start : window.stop + 1 - start], (
        weights[start:stop].T @ images.T
    ).T


def zero_operator(components: int, dim: int) -> WaveOperator:
    """The operator without any term."""
    zero = np.zeros((components, components))
    return WaveOperator(
        0.0, 0.0, 0.0, zero, np.zeros((dim, *zero.shape)), (sp.S.Zero,) * components
    )
