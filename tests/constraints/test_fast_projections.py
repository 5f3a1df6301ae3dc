"""The ways to the nearest member of a class agree: factors, iterations on the class or by
blocks, stream functions.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import constraint_support as support
import ufl
from dolfinx import fem
from dolfinx.mesh import create_unit_cube, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import _compat
from cffem.constraints.projections.averaged import averaged_inverse
from cffem.constraints.projections.choose import projection
from cffem.constraints.projections.kernel import KernelCorrections
from cffem.constraints.projections.projection_solver import Solver
from cffem.constraints.projections.saddle import BLOCKS, KRYLOV_SADDLE
from cffem.constraints.projections.stream import StreamFunctions, curl_matrix
from cffem.forms.elements import before

v, q, B = cf.VectorField("v", dim=2), cf.ScalarField("q"), cf.VectorField("B", dim=3)
NO_SLIP = [cf.Dirichlet(v, 0)]
HEIGHT = 0.41
SIDES = ("left", "right", "bottom", "top")


def identities(P, w):
    """P² = P, orthogonality and the class, relative to the field; the last relative to the
    residual before.
    """
    inside = P.project(w)
    size = P.norm(w)
    again, angle = (
        P.norm(P.project(inside) - inside) / size,
        abs(P.inner(inside, w - inside)) / size**2,
    )
    return inside, (again, angle, P.residual(inside) / P.residual(w))


def same(P, Q, w):
    """Both projections fulfil the identities and give the same field."""
    first, numbers = identities(P, w)
    second, others = identities(Q, w)
    assert max(*numbers, *others) <= 1e-12
    assert 0.01 * P.norm(w) < P.norm(first - w)
    assert P.norm(first - second) <= 1e-12 * P.norm(w)


@pytest.mark.parametrize("options", [KRYLOV_SADDLE, BLOCKS], ids=["on the class", "blocks"])
@pytest.mark.parametrize("element", [("Lagrange", 2), ("RT", 1), ("BDM", 1)], ids=str)
def test_iterations_agree_with_factors_in_space(element, options):
    conditions = [cf.Dirichlet(B, 0)]
    P = projection(cf.DivergenceFree(B), support.box(), {B: element}, conditions, {})
    Q = projection(cf.DivergenceFree(B), support.box(), {B: element}, conditions, options)
    assert isinstance(P.solver, Solver)
    assert isinstance(Q.solver, KernelCorrections) == (options is KRYLOV_SADDLE)
    same(P, Q, support.free_state(P, support.waves))


CONDITIONS = {
    "slip": [
        cf.Dirichlet(v[0], 0, on=("left", "right")),
        cf.Dirichlet(v[1], 0, on=("bottom", "top")),
    ],
    "periodic": [cf.Periodic("right", "left"), cf.Dirichlet(v, 0, on=("bottom", "top"))],
    "open": [cf.Dirichlet(v, 0, on="left")],
}


@pytest.mark.parametrize("conditions", CONDITIONS.values(), ids=CONDITIONS)
def test_iterations_agree_with_factors_under_all_conditions(conditions):
    """Components that are held in different places, unknowns that are identified, and a
    multiplier that does not float.
    """
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 5))
    P, Q = (
        projection(cf.DivergenceFree(v), mesh, {v: ("Lagrange", 2)}, conditions, o)
        for o in ({}, KRYLOV_SADDLE)
    )
    assert isinstance(Q.solver, KernelCorrections)
    w = support.free_state(
        P, lambda x: np.stack([np.sin(2 * np.pi * x[0]) + x[1], np.cos(2 * np.pi * x[0]) * x[1]])
    )
    P.essential.complete(w)
    same(P, Q, w)


def test_iterations_agree_with_factors_for_any_linear_constraint():
    constraint = cf.Constraint(v[0].diff(cf.x) + 2 * v[1], multiplier={q: ("Lagrange", 1)})
    P, Q = (
        projection(constraint, support.square(), {v: ("Lagrange", 2)}, NO_SLIP, o)
        for o in ({}, KRYLOV_SADDLE)
    )
    same(P, Q, support.free_state(P, support.plane_waves))


def test_a_cheap_correction_is_on_the_class_but_not_the_nearest():
    P = projection(
        cf.DivergenceFree(v), support.square(), {v: ("Lagrange", 2)}, NO_SLIP, KRYLOV_SADDLE
    )
    w = support.free_state(P, support.plane_waves)
    cheap = w + P.solver.cheap(P.target(w))
    assert P.residual(cheap) <= 1e-11 * P.residual(w)
    assert P.norm(cheap - w) > (1 + 1e-5) * P.norm(P.project(w) - w)


@pytest.mark.parametrize("element", [("RT", 1), ("RT", 3), ("BDM", 1), ("BDM", 2)], ids=str)
def test_the_matrix_of_the_curl_gives_the_very_curl_of_a_stream_function(element):
    """The matrix gives the very field whose curl it is, on an unstructured mesh with edges of
    all orientations.
    """
    P = projection(cf.DivergenceFree(v), support.square(), {v: element}, [])
    vectors, _ = P.spaces.own(v)
    scalars = fem.functionspace(P.discretisation.mesh, before(P.spaces.elements[v]))
    stream, field = fem.Function(scalars), fem.Function(vectors)
    stream.x.array[:] = np.cos(7.0 * np.arange(len(stream.x.array)))
    matrix = curl_matrix(scalars, vectors)
    into, out = matrix.createVecs()
    into.array[:] = stream.x.array
    matrix.mult(into, out)
    field.x.array[:] = out.array_r
    rotated = ufl.as_vector([stream.dx(1), -stream.dx(0)])
    error, size = (
        fem.assemble_scalar(fem.form(ufl.inner(part, part) * ufl.dx)) ** 0.5
        for part in (field - rotated, rotated)
    )
    assert error <= 1e-13 * size


@pytest.mark.parametrize(("field", "most"), [(v, 1.9), (B, 3.1)], ids=["triangles", "tetrahedra"])
def test_averaged_inverses_of_cells_are_close_to_the_inverse_mass(field, most):
    """No eigenvalue of W M is below one, and none above what the element says; a wrong weight
    or cell would show.
    """
    mesh = support.square() if field is v else support.box()
    element = basix.ufl.element(
        "Lagrange", _compat.cell_name(mesh.ufl_domain()), 2, shape=(field.dim,)
    )
    space = fem.functionspace(mesh, element)
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    mass = _compat.assemble_matrix(_compat.form(ufl.inner(trial, test) * ufl.dx, mesh.comm))
    root = np.linalg.cholesky(mass[:, :])
    eigenvalues = np.linalg.eigvalsh(root.T @ averaged_inverse(space, element, mass)[:, :] @ root)
    assert 1 - 1e-12 <= eigenvalues[0] <= 1 + 1e-12
    assert 1.5 <= eigenvalues[-1] <= most


def walls(*names):
    return [cf.Dirichlet(v, 0, on=names)] if names else []


@pytest.mark.parametrize("options", [None, KRYLOV_SADDLE], ids=["factors", "multigrid"])
@pytest.mark.parametrize(
    "closed", [SIDES, ("left",), ("left", "right"), ("left", "top"), ()], ids=str
)
@pytest.mark.parametrize("element", [("RT", 2), ("BDM", 1)], ids=str)
def test_stream_functions_agree_with_factors(element, closed, options):
    """Closed, partly open and open boxes: two separate walls have a flux between them, one
    unknown constant.
    """
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 5, 4))
    P = projection(cf.DivergenceFree(v), mesh, {v: element}, walls(*closed), options)
    assert isinstance(P.solver, StreamFunctions)
    same(
        P,
        projection(cf.DivergenceFree(v), mesh, {v: element}, walls(*closed), {}),
        support.free_state(P, support.plane_waves),
    )


@pytest.mark.parametrize("domain", ["annulus", "three_holes"])
def test_circulation_around_closed_holes_is_kept(domain):
    """Every hole adds one field that circulates around it; its stream function has another
    constant on the hole.
    """
    mesh = support.DOMAINS[domain]()
    P = projection(cf.DivergenceFree(v), mesh, {v: ("BDM", 1)}, NO_SLIP)
    assert isinstance(P.solver, StreamFunctions)
    w = support.free_state(P, lambda x: np.stack([-x[1] + np.sin(x[0]), x[0]]))
    same(P, projection(cf.DivergenceFree(v), mesh, {v: ("BDM", 1)}, NO_SLIP, {}), w)


def test_a_flux_from_one_open_curve_to_another_has_no_stream_function():
    """x/|x|² flows out of an open hole: divergence-free, but no curl, so the class is not
    that of stream functions.
    """
    P = projection(cf.DivergenceFree(v), support.annulus(), {v: ("RT", 1)}, [])
    assert not isinstance(P.solver, StreamFunctions)
    w = support.free_state(P, lambda x: np.stack([x[0], x[1]]) / (x[0] ** 2 + x[1] ** 2))
    assert P.norm(P.project(w) - w) <= 0.05 * P.norm(w)
    _, numbers = identities(P, w)
    assert max(numbers) <= 1e-12


@pytest.mark.parametrize("element", [("RT", 1), ("BDM", 1)], ids=str)
def test_inflow_values_are_kept_by_stream_functions(element):
    mesh = support.with_sides(create_unit_square(MPI.COMM_SELF, 6, 5))
    channel = [
        cf.Dirichlet(v, (cf.y * (1 - cf.y), 0), on="left"),
        cf.Dirichlet(v, 0, on=("bottom", "top")),
    ]
    P = projection(cf.DivergenceFree(v), mesh, {v: element}, channel)
    Q = projection(cf.DivergenceFree(v), mesh, {v: element}, channel, {})
    assert isinstance(P.solver, StreamFunctions)
    for time in (0.0, 0.0, 1.0):
        w = support.free_state(P, lambda x, t=time: support.plane_waves(x) + t)
        P.essential.set_values(w, 0.0)
        w[P.essential.owned] *= 1.0 + time
        inside = P.project(w)
        assert (
            np.abs(inside - w)[P.essential.owned].max()
            <= 1e-15
            < 1e-2
            < np.abs(inside[P.essential.owned]).max()
        )
        assert P.norm(inside - Q.project(w)) <= 1e-12 * P.norm(w)
        assert P.residual(inside) <= 1e-12 * P.residual(w)


ITERATIONS = [
    (v, ("Lagrange", 2), (10, 20, 40)),
    (v, ("RT", 1), (12, 24, 48)),
    (v, ("BDM", 1), (12, 24, 48)),
    (B, ("Lagrange", 2), (6, 8, 11)),
    (B, ("RT", 1), (4, 6, 9)),
]


@pytest.mark.parametrize(("field", "element", "cells"), ITERATIONS, ids=lambda value: str(value))
def test_iterations_stay_flat_on_finer_meshes(field, element, cells):
    counted = []
    for n in cells:
        mesh = (
            create_unit_square(MPI.COMM_SELF, n, n)
            if field is v
            else create_unit_cube(MPI.COMM_SELF, n, n, n)
        )
        P = projection(
            cf.DivergenceFree(field),
            mesh,
            {field: element},
            [cf.Dirichlet(field, 0)],
            KRYLOV_SADDLE,
        )
        P.project(support.free_state(P, support.plane_waves if field is v else support.waves))
        counted.append(P.solver.iterations)
        P.destroy()
    assert 5 <= max(counted) <= 1.3 * min(counted)


def leray_numbers(comm, write=""):
    """Sizes of projected fields, by all ways, in a channel with an obstacle; the ways agree."""
    from cffem.engine.mesh.mesh_shapes import channel

    shape = channel(comm, 0.1)
    inflow = [
        cf.Dirichlet(v, (cf.y * (HEIGHT - cf.y), 0), on="inlet"),
        cf.Dirichlet(v, 0, on=("walls", "cylinder")),
    ]
    numbers = []
    for element in (("Lagrange", 2), ("BDM", 1)):
        found = []
        for options in (None, {}, KRYLOV_SADDLE):
            P = projection(cf.DivergenceFree(v), shape, {v: element}, inflow, options)
            w = support.free_state(P, support.plane_waves)
            P.essential.set_values(w, 0.0)
            inside = P.project(w)
            assert P.residual(inside) <= 1e-12 * P.residual(w)
            assert P.norm(P.project(inside) - inside) <= 1e-12 * P.norm(w)
            found.append((P.norm(w), P.norm(inside), P.inner(inside, w)))
            P.destroy()
        np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-11)
        numbers += found[0]
    if write and comm.rank == 0:
        print("numbers", *(f"{number:.15e}" for number in numbers))
    return numbers


@pytest.mark.mpi
def test_same_leray_projections_on_two_ranks(on_ranks):
    alone = leray_numbers(MPI.COMM_SELF)
    printed = on_ranks(2, leray_numbers, "write")
    together = [float(word) for word in printed.split("numbers")[1].split()[: len(alone)]]
    np.testing.assert_allclose(together, alone, rtol=1e-11)
