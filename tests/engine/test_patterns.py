"""Matrices that are assembled into shared rows are those that DOLFINx assembles into PETSc's
own.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc

from cffem import _compat
from cffem.engine.assembly.patterns import Pattern

ELEMENTS = {
    "P2": lambda cell: basix.ufl.element("Lagrange", cell, 2),
    "N1curl 2": lambda cell: basix.ufl.element("N1curl", cell, 2),
    "vectors, by blocks": lambda cell: basix.ufl.element("Lagrange", cell, 1, shape=(2,)),
    "mixed": lambda cell: basix.ufl.mixed_element(
        [basix.ufl.element("Lagrange", cell, 2, shape=(2,)), basix.ufl.element("Lagrange", cell, 1)]
    ),
}


def distance(one, other) -> float:
    gap = one.copy()
    gap.axpy(-1.0, other)
    return gap.norm(PETSc.NormType.FROBENIUS) / other.norm(PETSc.NormType.FROBENIUS)


@pytest.mark.parametrize("element", ELEMENTS)
def test_shared_rows_give_the_matrices_of_cells_and_of_the_boundary(element):
    domain = mesh.create_unit_square(MPI.COMM_SELF, 3, 4)
    space = fem.functionspace(domain, ELEMENTS[element]("triangle"))
    u, v, weight = ufl.TrialFunction(space), ufl.TestFunction(space), fem.Constant(domain, 2.0)
    cells = _compat.form(
        weight * ufl.inner(u, v) * ufl.dx + ufl.inner(ufl.grad(u), ufl.grad(v)) * ufl.dx,
        domain.comm,
    )
    boundary = _compat.form(
        ufl.inner(u, v) * ufl.dx + weight * ufl.inner(u, v) * ufl.ds, domain.comm
    )
    pattern = Pattern(cells, space)
    for form in (cells, boundary):
        assert Pattern.fits(form)
        matrix = pattern.new()
        for weight.value in (2.0, 5.0):  # the second time into the same matrix
            pattern.assemble(form, matrix)
            assert distance(matrix, _compat.assemble_matrix(form)) < 1e-15
    assert not Pattern.fits(_compat.form(ufl.inner(ufl.jump(u), ufl.jump(v)) * ufl.dS, domain.comm))


def test_a_solver_notices_that_a_matrix_was_assembled_again():
    domain = mesh.create_unit_interval(MPI.COMM_SELF, 8)
    space = fem.functionspace(domain, ("Lagrange", 1))
    weight = fem.Constant(domain, 1.0)
    form = _compat.form(
        weight * ufl.TrialFunction(space) * ufl.TestFunction(space) * ufl.dx, domain.comm
    )
    pattern = Pattern(form, space)
    matrix = pattern.new()
    pattern.assemble(form, matrix)
    solver = PETSc.KSP().create(domain.comm)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    solver.setOperators(matrix)
    right, solution = matrix.createVecs()
    right.set(1.0)
    sums = []
    for weight.value in (1.0, 4.0):
        pattern.assemble(form, matrix)
        solver.solve(right, solution)
        sums.append(solution.sum())
    assert sums[0] == pytest.approx(4.0 * sums[1])
