"""Nonlinear problems solved by plain DOLFINx, for comparison."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx.fem.petsc import assemble_matrix, assemble_vector
from dolfinx.mesh import locate_entities_boundary
from engine_support import SIDES
from petsc4py import PETSc


def tagged(domain):
    return ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)


def tag(domain, side):
    return domain.names[side][1]


def plain(domain, element, residual, held, within=None):
    """Newton's method by hand; `residual` of (u, v, place, ds), zero on the held sides.

    `within` is the number of the sub-space that is held, for mixed elements.
    """
    space = fem.functionspace(domain.mesh, element)
    found, test = fem.Function(space), ufl.TestFunction(space)
    form = residual(found, test, ufl.SpatialCoordinate(domain.mesh), tagged(domain))
    dim = domain.mesh.topology.dim
    facets = [
        locate_entities_boundary(
            domain.mesh,
            dim - 1,
            lambda X, side=side: np.isclose(X[SIDES[side][0]], SIDES[side][1]),
        )
        for side in held
    ]
    held_space = space if within is None else space.sub(within)
    if within is None:
        bcs = [
            fem.dirichletbc(fem.Function(space), fem.locate_dofs_topological(space, dim - 1, f))
            for f in facets
        ]
    else:
        zero = fem.Function(space.sub(within).collapse()[0])
        pairs = [
            fem.locate_dofs_topological((held_space, zero.function_space), dim - 1, f)
            for f in facets
        ]
        bcs = [fem.dirichletbc(zero, d, held_space) for d in pairs]
    jacobian, right = fem.form(ufl.derivative(form, found)), fem.form(form)
    for _ in range(12):
        matrix = assemble_matrix(jacobian, bcs=bcs)
        matrix.assemble()
        vector = assemble_vector(right)
        for bc in bcs:
            vector.array[bc.dof_indices()[0]] = 0.0
        solver = PETSc.KSP().create(domain.mesh.comm)
        solver.setOperators(matrix)
        solver.setType("preonly")
        solver.getPC().setType("lu")
        change = matrix.createVecRight()
        solver.solve(vector, change)
        found.x.array[:] -= change.array
        if change.norm() < 1e-13:
            break
    return found


def distance(a, b):
    """The relative L2 distance of two functions."""
    gap, size = (
        fem.assemble_scalar(fem.form(ufl.inner(f, f) * ufl.dx)) for f in (a - b, ufl.as_ufl(b))
    )
    return np.sqrt(gap / size)
