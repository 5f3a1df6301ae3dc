"""Coefficient fields that jump between cells: the weak form takes no derivative of them, or
the term is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import cross, curl, div, dot, grad, lap, sym
from cffem.forms.translation_errors import UnsupportedTerm
from cffem.forms.weak import weak_form

CELLS = {
    "interval": lambda: mesh.create_interval(MPI.COMM_WORLD, 6, (0, 1)),
    "triangle": lambda: mesh.create_unit_square(MPI.COMM_WORLD, 3, 3),
    "quadrilateral": lambda: mesh.create_unit_square(
        MPI.COMM_WORLD, 3, 3, mesh.CellType.quadrilateral
    ),
    "tetrahedron": lambda: mesh.create_unit_cube(MPI.COMM_WORLD, 2, 2, 2),
    "hexahedron": lambda: mesh.create_unit_cube(MPI.COMM_WORLD, 2, 2, 2, mesh.CellType.hexahedron),
}
k = cf.ScalarField("k")


def jumping(points: np.ndarray) -> np.ndarray:
    """Values that differ from cell to cell by factors."""
    return 1.5 + np.sin(40 * points[0]) + 0.4 * np.cos(31 * (points[1] + points[2]))


def by_hand(domain, element, form, source):
    """The solution of form(a, b) = (source, b) that vanishes on the boundary, by plain DOLFINx."""
    space = fem.functionspace(domain, element)
    a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
    edge = domain.topology.dim - 1
    domain.topology.create_connectivity(edge, edge + 1)
    dofs = fem.locate_dofs_topological(space, edge, mesh.exterior_facet_indices(domain.topology))
    fixed = fem.dirichletbc(fem.Function(space), dofs)
    right = ufl.inner(
        ufl.as_vector(source) if len(source) > 1 else ufl.as_ufl(source[0]), b
    ) * ufl.dx(domain=domain)
    return solved_by_dolfinx(form(a, b) * ufl.dx, right, [fixed])


def solved(domain, term, unknown, element, coefficient, of):
    """The same solution by cffem, with the coefficient as a field of a system."""
    system = cf.System(
        {
            unknown: cf.Library(terms={"T": term}, unknown=unknown),
            k: cf.Library(anchor=k, terms={}, unknown=k),
        }
    )
    source = tuple(float(i + 1) for i in range(unknown.dim)) if unknown.shape else 1.0
    experiment = cf.Experiment(
        mesh=domain,
        elements={unknown: element, k: of},
        boundary=[cf.Dirichlet(unknown, 0)],
        forcing={unknown: source, k: coefficient},
        initial={k: coefficient},
    )
    return cf.Model(system, {f"{unknown}/T": 1.0}, experiment).factual.function(unknown)


def compare(cell, of, unknown, element, term, form):
    domain = CELLS[cell]()
    coefficient = fem.Function(fem.functionspace(domain, of))
    coefficient.interpolate(jumping)
    source = [float(i + 1) for i in range(domain.geometry.dim)] if unknown.shape else [1.0]
    shape = (domain.geometry.dim,) if unknown.shape and element[0] == "Lagrange" else ()
    expected = by_hand(
        domain,
        (*element, shape) if shape else element,
        lambda a, b: form(coefficient, a, b),
        source,
    )
    found = solved(domain, term, unknown, element, coefficient, of)
    difference = fem.assemble_scalar(
        fem.form(ufl.inner(found - expected, found - expected) * ufl.dx)
    )
    size = fem.assemble_scalar(fem.form(ufl.inner(expected, expected) * ufl.dx))
    assert size > 1e-6
    assert np.sqrt(difference) <= 1e-10 * np.sqrt(size)


@pytest.mark.parametrize(
    ("cell", "of", "degree"),
    [
        ("interval", ("DG", 0), 2),
        ("triangle", ("DG", 1), 1),
        pytest.param("interval", ("DG", 1), 1, marks=pytest.mark.slow),
        pytest.param("triangle", ("DG", 0), 2, marks=pytest.mark.slow),
        pytest.param("quadrilateral", ("DG", 1), 2, marks=pytest.mark.slow),
        pytest.param("tetrahedron", ("DG", 0), 2, marks=pytest.mark.slow),
        pytest.param("hexahedron", ("DG", 1), 1, marks=pytest.mark.slow),
    ],
)
def test_diffusion_with_a_coefficient_that_jumps_is_that_of_plain_dolfinx(cell, of, degree):
    u = cf.ScalarField("u")
    compare(
        cell,
        of,
        u,
        ("Lagrange", degree),
        div(k * grad(u)),
        lambda c, a, b: c * ufl.inner(ufl.grad(a), ufl.grad(b)),
    )


def elastic(c, a, b):
    return 2 * c * ufl.inner(ufl.sym(ufl.grad(a)), ufl.sym(ufl.grad(b))) + c * ufl.div(a) * ufl.div(
        b
    )


@pytest.mark.parametrize(
    "cell",
    [
        "triangle",
        pytest.param("tetrahedron", marks=pytest.mark.slow),
        pytest.param("hexahedron", marks=pytest.mark.slow),
    ],
)
def test_elasticity_with_moduli_that_jump_is_that_of_plain_dolfinx(cell):
    v = cf.VectorField("v", dim=2 if cell == "triangle" else 3)
    compare(
        cell, ("DG", 0), v, ("Lagrange", 1), 2 * div(k * sym(grad(v))) + grad(k * div(v)), elastic
    )


@pytest.mark.parametrize("cell", ["tetrahedron", pytest.param("triangle", marks=pytest.mark.slow)])
def test_curl_curl_with_a_coefficient_that_jumps_is_that_of_plain_dolfinx(cell):
    electric = cf.VectorField("E", dim=2 if cell == "triangle" else 3)
    term = -curl(k * curl(electric)) - k**2 * electric
    rotation = ufl.rot if cell == "triangle" else ufl.curl
    compare(
        cell,
        ("DG", 0),
        electric,
        ("N1curl", 1),
        term,
        lambda c, a, b: c * ufl.inner(rotation(a), rotation(b)) + c**2 * ufl.inner(a, b),
    )


WEAK = [
    (div(k**2 * grad(cf.ScalarField("u"))), "k**2*dot(grad(u), grad(u_test))"),
    (div(sp.exp(k) * cf.x * grad(cf.ScalarField("u"))), "x*exp(k)*dot(grad(u), grad(u_test))"),
]


@pytest.mark.parametrize(("term", "left"), WEAK)
def test_functions_of_a_jumping_coefficient_are_never_differentiated(term, left):
    u = cf.ScalarField("u")
    elements = {
        u: basix.ufl.element("Lagrange", "triangle", 2),
        k: basix.ufl.element("DG", "triangle", 1),
    }
    weak = weak_form(term, u, elements)
    assert str(weak.volume) == f"-{left}"
    assert not weak.jumps


u, v, E = cf.ScalarField("u"), cf.VectorField("v", dim=3), cf.VectorField("E", dim=3)


@pytest.mark.parametrize(
    ("term", "equation"),
    [
        (k * lap(u), u),
        (dot(grad(k), grad(u)), u),
        (2 * k * lap(u) + dot(grad(k), grad(u)), u),
        (lap(k * u), u),
        (k * curl(curl(E)), E),
        (cross(grad(k), curl(E)), E),
        (k * grad(div(v)), v),
        (div(v) * grad(k), v),
    ],
)
def test_a_derivative_of_a_coefficient_that_jumps_is_refused(term, equation):
    elements = {
        u: basix.ufl.element("Lagrange", "tetrahedron", 2),
        v: basix.ufl.element("Lagrange", "tetrahedron", 2, shape=(3,)),
        E: basix.ufl.element("N1curl", "tetrahedron", 2),
        k: basix.ufl.element("DG", "tetrahedron", 1),
    }
    with pytest.raises(UnsupportedTerm, match="which its degree 1 L2 element P does not have"):
        weak_form(term, equation, elements)


def test_quadrature_points_carry_a_forcing_but_no_field():
    domain = CELLS["triangle"]()
    element = basix.ufl.quadrature_element("triangle", degree=3)
    values = fem.Function(fem.functionspace(domain, element))
    values.x.array[:] = 1.0 + np.arange(len(values.x.array)) % 5
    library = cf.Library(terms={"lap": lap(u), "u": -u}, unknown=u)
    given = {"mesh": domain, "boundary": [cf.Dirichlet(u, 0)]}
    experiment = cf.Experiment(**given, elements={u: ("Lagrange", 1)}, forcing={u: values})
    found = cf.Model(library, {"lap": 1.0, "u": 1.0}, experiment).factual.function(u)
    space = found.function_space
    a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
    dofs = fem.locate_dofs_topological(space, 1, mesh.exterior_facet_indices(domain.topology))
    right = values * b * ufl.dx(metadata={"quadrature_degree": 3})
    left = (ufl.inner(ufl.grad(a), ufl.grad(b)) + a * b) * ufl.dx
    expected = solved_by_dolfinx(left, right, [fem.dirichletbc(0.0, dofs, space)])
    assert np.abs(found.x.array - expected.x.array).max() <= 1e-12 * np.abs(expected.x.array).max()
    with pytest.raises(cf.InputError, match=r"cannot live on quadrature points.*'DG', 1"):
        cf.Model(library, {"lap": 1.0}, cf.Experiment(**given, elements={u: element}))
    with pytest.raises(cf.InputError, match="known at quadrature points only"):
        cf.Model(
            library,
            {"lap": 1.0},
            cf.Experiment(**given, elements={u: ("Lagrange", 1)}, initial={u: values}),
        )
