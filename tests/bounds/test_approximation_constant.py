"""The approximation constant of a mesh: proved, near the truth, for any shape, tensor and condition
on the boundary; and with it the power of h on domains that are not convex and in space."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from bounds_support import l_shape, model, perturbed, u
from dolfinx import fem, mesh
from mpi4py import MPI
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem._compat import cell_geometry, exterior_facets, refined
from cffem.bounds import certify_deletion, certify_solution
from cffem.bounds.geometry import approximation
from cffem.bounds.geometry.approximation import approximation_constant, first_eigenvalue
from cffem.bounds.geometry.lowest_order import Walls, gathered
from cffem.bounds.geometry.mesh_constants import Domain, edge_lengths
from cffem.symbols import x, y

LIBRARY = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)


def diameters(domain):
    dim = domain.topology.dim
    count = domain.topology.index_map(dim).size_local
    return edge_lengths(domain.geometry.x[cell_geometry(domain)[0][:count], :dim]).max(axis=1)


def walls(domain, natural, transfer=0.0):
    """Free where a function of the middle of a facet says so."""
    outer = exterior_facets(domain)
    free = natural(mesh.compute_midpoints(domain, domain.topology.dim - 1, outer))
    return Walls(free, np.where(free, transfer, 0.0))


def tensors(domain):
    """A jump along x = 1/2, and a tensor that is no multiple of the identity."""
    dim = domain.topology.dim
    count = domain.topology.index_map(dim).size_local
    middle = mesh.compute_midpoints(domain, dim, np.arange(count, dtype=np.int32))
    tensor = np.eye(dim) + 0.4 * np.ones((dim, dim))
    return np.where(middle[:, 0, None, None] < 0.5, 1.0, 5.0) * tensor


CASES = {
    "Dirichlet": (None, None, 0.0),
    "Neumann": (lambda p: p[:, 0] > -9, None, 0.0),
    "mixed": (lambda p: p[:, 0] > 1e-9, None, 0.0),
    "Robin": (lambda p: p[:, 0] > -9, None, 2.0),
    "tensor": (lambda p: p[:, 1] > 0.5, tensors, 0.5),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", ["square", "L", "cube"])
def test_no_solution_is_approximated_worse_and_some_nearly_as_badly(name, shape):
    """P1 against solutions of degree three on a finer mesh for random right-hand sides."""
    natural, tensor, transfer = CASES[name]
    domain = {
        "square": lambda: perturbed(2, 4, 0.5, 0.3),
        "L": l_shape,
        "cube": lambda: perturbed(3, 2, 0.3, 0.1),
    }[shape]()
    weights = None if tensor is None else tensor(domain)
    given = None if natural is None else walls(domain, natural, transfer)
    constant = approximation_constant(domain, diameters(domain), weights, given)
    worst = max(_quotient(domain, weights, given, transfer, seed) for seed in range(3))
    assert worst <= constant
    assert worst > 0.1 * constant


def _quotient(domain, weights, given, transfer, seed):
    """min_v ‖A^{1/2} ∇(z − v)‖ / ‖div(A ∇z)‖ for a random right-hand side without a mean."""
    degree = 4 if domain.topology.dim == 2 else 3
    fine, coarse = (fem.functionspace(domain, ("Lagrange", k)) for k in (degree, 1))
    constants = fem.functionspace(domain, ("DG", 0))
    right = fem.Function(constants)
    right.x.array[:] = np.random.default_rng(seed).normal(size=len(right.x.array))
    one = fem.Constant(domain, 1.0)
    volume, mean = (fem.assemble_scalar(fem.form(value * ufl.dx(domain))) for value in (one, right))
    right.x.array[:] -= mean / volume
    dim = domain.topology.dim
    field = fem.Function(fem.functionspace(domain, ("DG", 0, (dim, dim))))
    count = domain.topology.index_map(dim).size_local
    field.x.array[:] = (
        np.broadcast_to(np.eye(dim), (count, dim, dim)) if weights is None else weights
    ).ravel()
    outer = exterior_facets(domain)
    free = outer[given.natural] if given is not None else outer[:0]
    tags = mesh.meshtags(domain, dim - 1, np.sort(free), np.ones(len(free), dtype=np.int32))
    ds = ufl.Measure("ds", domain=domain, subdomain_data=tags)(1)
    held, kappa = np.setdiff1d(outer, free).astype(np.int32), fem.Constant(domain, transfer)

    def bilinear(a, b):
        return ufl.inner(field * ufl.grad(a), ufl.grad(b)) * ufl.dx + kappa * a * b * ds

    def solved(space, linear, shift):
        a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
        dofs = fem.locate_dofs_topological(space, dim - 1, held)
        zero = [fem.dirichletbc(0.0, dofs, space)]
        left = bilinear(a, b) + fem.Constant(domain, shift) * a * b * ufl.dx
        return solved_by_dolfinx(left, linear(b), zero)

    # Where nothing holds constants a shift does, too small to matter.
    shift = 1e-9 if not len(held) and not transfer else 0.0
    exact = solved(fine, lambda b: right * b * ufl.dx, shift)
    near = solved(coarse, lambda b: bilinear(exact, b), shift)
    gap = ufl.grad(exact) - ufl.grad(near)
    error = fem.assemble_scalar(fem.form(ufl.inner(field * gap, gap) * ufl.dx))
    size = fem.assemble_scalar(fem.form(right**2 * ufl.dx))
    return math.sqrt(error / size)


def test_less_than_the_constant_is_not_proved(monkeypatch):
    domain = l_shape()
    seen = []
    proved = approximation._proved

    def noted(whole, value, *rest):
        seen.append(proved(whole, value / 1.02, *rest))
        return proved(whole, value, *rest)

    monkeypatch.setattr(approximation, "_proved", noted)
    assert approximation_constant(domain, diameters(domain)) is not None
    assert seen == [False]


def test_the_constant_is_that_of_a_dense_eigenproblem():
    domain = perturbed(2, 3, 0.5, 0.0)
    whole = gathered(domain)
    inside = np.flatnonzero(~whole.held)
    stiffness = whole.stiffness()[inside][:, inside].toarray()
    loads, divergence = whole.loads()[inside].toarray(), whole.divergence().toarray()
    schur = divergence @ np.linalg.solve(whole.fluxes().toarray(), divergence.T)
    volume = np.diag(whole.volume)
    quotient = volume @ np.linalg.solve(schur, volume)
    quotient -= loads.T @ np.linalg.solve(stiffness, loads)
    root = np.diag(1 / np.sqrt(whole.volume))
    largest = np.linalg.eigvalsh(root @ quotient @ root)[-1]
    found = approximation_constant(domain, diameters(domain))
    exact = math.sqrt(largest + (diameters(domain).max() / math.pi) ** 2)
    assert exact <= found < 1.02 * exact


@pytest.mark.parametrize(
    ("dim", "natural", "transfer", "exact"),
    [
        (1, None, 0.0, math.pi**2),
        (1, lambda p: p[:, 0] > 0.5, 0.0, math.pi**2 / 4),
        (2, None, 0.0, 2 * math.pi**2),
        (2, lambda p: p[:, 0] > 1e-9, 0.0, math.pi**2 / 4),
        # √λ tan(√λ/2) = κ in each direction.
        (2, lambda p: p[:, 0] > -9, 2.0, 2 * 1.7206673**2),
        (3, None, 0.0, 3 * math.pi**2),
        (3, lambda p: p[:, 0] > 1e-9, 0.0, math.pi**2 / 4),
    ],
)
def test_first_eigenvalues_are_bounded_from_below(dim, natural, transfer, exact):
    bounds = []
    for n in (4, 8):
        domain = {
            1: lambda n=n: mesh.create_unit_interval(MPI.COMM_SELF, n),
            2: lambda n=n: mesh.create_unit_square(MPI.COMM_SELF, n, n),
            3: lambda n=n: mesh.create_unit_cube(MPI.COMM_SELF, n, n, n),
        }[dim]()
        given = None if natural is None else walls(domain, natural, transfer)
        bounds.append(first_eigenvalue(domain, diameters(domain), None, given))
    assert bounds[0] < bounds[1] < exact
    assert exact - bounds[1] < 0.5 * (exact - bounds[0])


def test_margins_on_an_l_shape_fall_with_the_power_of_h():
    """Orders 2 and 3 for a smooth solution; with the corner's singularity 4/3."""
    mode = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    exact = math.sqrt(0.75) * (1 - 2 * math.pi**2 / (2 * math.pi**2 + 2))
    for degree, forcing, least in ((1, 2 * sp.pi**2 * mode, 1.6), (2, 1, 1.25)):
        margins, domain = [], l_shape()
        for _ in range(2):
            domain = refined(domain)[0]
            problem = model(domain, LIBRARY, {"lap": 1.0, "u": -2.0}, degree, forcing)
            bound = certify_deletion(problem, "u")
            assert bound.certificate.kind == "guaranteed"
            assert "approximation constant of the mesh" in bound.certificate.method
            if forcing != 1:
                assert abs(bound.score - exact) <= bound.margin
            margins.append(bound.margin)
        assert math.log2(margins[0] / margins[1]) > least


def test_bounds_in_space_gain_a_power_of_h():
    problem = model(perturbed(3, 6, 0.0, 0.0), LIBRARY, {"lap": 1.0, "u": -2.0}, 1, 1)
    certificate = certify_solution(problem)
    assert "Aubin–Nitsche" in certificate.method
    assert "Liu and Oishi" in str(certificate)


def print_constants(comm):
    square = perturbed(2, 6, 0.4, 0.2, comm)
    cube = mesh.create_unit_cube(comm, 2, 2, 2)
    given = walls(square, lambda p: p[:, 0] > 1e-9, 1.0)
    constants = [
        approximation_constant(square, diameters(square), tensors(square), given),
        first_eigenvalue(square, diameters(square), tensors(square), given),
        Domain(cube).largest_interpolation,
    ]
    if comm.rank == 0:
        print(json.dumps(constants))


@pytest.mark.mpi
def test_constants_are_the_same_on_two_ranks(on_ranks, capsys):
    print_constants(MPI.COMM_SELF)
    alone = json.loads(capsys.readouterr().out)
    assert json.loads(on_ranks(2, print_constants)) == pytest.approx(alone, rel=1e-7)
