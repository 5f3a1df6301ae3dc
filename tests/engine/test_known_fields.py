"""Known fields in terms, anchors, forcing and conditions are what plain DOLFINx makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import div, dot, dt, grad, t, x, y

u, k, w, K = cf.ScalarField("u"), cf.Known("k"), cf.Known("w", dim=2), cf.Known("K", dim=(2, 2))
GLASS, AIR = 2.25, 1.0


def halves(n: int = 4, comm=MPI.COMM_SELF):
    """The unit square with glass on the left and air on the right."""
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(comm, n, n),
        cells={"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9},
        facets={"left": lambda p: p[0] < 1e-9},
    )


def model_of(terms, known, domain=None, degree=1, forcing=1, boundary=None, **more):
    """A steady model with coefficients one."""
    experiment = cf.Experiment(
        mesh=halves() if domain is None else domain,
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)] if boundary is None else boundary,
        forcing={u: forcing},
        known=known,
        **more,
    )
    return cf.Model(cf.Library(terms=terms, unknown=u), dict.fromkeys(terms, 1.0), experiment)


def values_of(model):
    return model.solve().states[-1]


def by_hand(model, form):
    """The solution of a linear form F(u, v) = 0 with u = 0 on the whole boundary."""
    space = model.spaces.space
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    left, right = ufl.system(form(trial, test))
    matrix = fem.assemble_matrix(fem.form(left)).to_dense()
    vector = fem.assemble_vector(fem.form(right)).array
    mesh = space.mesh
    mesh.topology.create_connectivity(1, 2)
    given = fem.locate_dofs_topological(
        space, 1, dolfinx_mesh.exterior_facet_indices(mesh.topology)
    )
    free = np.setdiff1d(np.arange(len(vector)), given)
    result = np.zeros(len(vector))
    result[free] = np.linalg.solve(matrix[np.ix_(free, free)], vector[free])
    return result


def jumping(mesh):
    """Glass and air as a function that is constant on cells."""
    function = fem.Function(fem.functionspace(mesh, ("DG", 0)))
    count = mesh.topology.index_map(2).size_local
    middles = dolfinx_mesh.compute_midpoints(mesh, 2, np.arange(count, dtype=np.int32))
    function.x.array[:count] = np.where(middles[:, 0] < 0.5, GLASS, AIR)
    function.x.scatter_forward()
    return function


TERMS = {"diffusion": div(k * grad(u)), "reaction": -k * u}


def test_values_by_subdomain_jump_along_cells_as_in_plain_dolfinx():
    model = model_of(TERMS, {k: {"glass": GLASS, "air": AIR}}, forcing=k * x, degree=2)
    mesh = model.discretisation.mesh
    c, X = jumping(mesh), ufl.SpatialCoordinate(mesh)
    expected = by_hand(
        model,
        lambda a, v: (c * ufl.inner(ufl.grad(a), ufl.grad(v)) + c * a * v - c * X[0] * v) * ufl.dx,
    )
    assert np.abs(values_of(model) - expected).max() < 1e-12


def test_all_ways_to_give_a_jump_are_the_same():
    domain = halves()
    expected = values_of(model_of(TERMS, {k: {"glass": GLASS, "air": AIR}}, domain))
    function = jumping(domain.mesh)
    numbers = {name: domain.names[name][1] for name in ("glass", "air")}
    tags = (domain.cell_tags, {numbers["glass"]: GLASS, numbers["air"]: AIR})
    other = fem.Function(fem.functionspace(halves(8).mesh, ("DG", 0)))
    other.x.array[:] = jumping(other.function_space.mesh).x.array
    ways = {
        "function": function,
        "tags": tags,
        "formulas": {"glass": sp.Float(GLASS) + 0 * x, "air": AIR + x - x},
        "called": lambda p: np.where(p[0] < 0.5, GLASS, AIR),
        "another mesh": cf.Interpolated(other),
        "expression": sp.Piecewise((GLASS, x < 0.5), (AIR, True)),
    }
    for name, way in ways.items():
        assert values_of(model_of(TERMS, {k: way}, domain)) == pytest.approx(expected, abs=1e-12), (
            name
        )


def test_formulas_by_subdomain():
    model = model_of(TERMS, {k: {"glass": 2 + y, "air": 1 + x * y}}, degree=2)
    mesh = model.discretisation.mesh
    X = ufl.SpatialCoordinate(mesh)
    inside = ufl.gt(jumping(mesh), 2.0)
    c = ufl.conditional(inside, 2 + X[1], 1 + X[0] * X[1])
    expected = by_hand(
        model,
        lambda a, v: (
            (c * ufl.inner(ufl.grad(a), ufl.grad(v)) + c * a * v - v)
            * ufl.dx(metadata={"quadrature_degree": 6})
        ),
    )
    assert np.abs(values_of(model) - expected).max() < 1e-12


def test_vectors_and_tensors():
    terms = {"diffusion": div(dot(K, grad(u))), "drift": -dot(w, grad(u)), "entry": -K[0, 1] * u}
    tensors = {"glass": ((2, 0.5), (0.5, 1)), "air": ((1, 0), (0, 3))}
    model = model_of(terms, {K: tensors, w: {"glass": (1, 0), "air": (0, 2)}})
    inside = ufl.gt(jumping(model.discretisation.mesh), 2.0)
    C = ufl.conditional(
        inside, ufl.as_matrix([[2.0, 0.5], [0.5, 1.0]]), ufl.as_matrix([[1.0, 0.0], [0.0, 3.0]])
    )
    flow = ufl.conditional(inside, ufl.as_vector([1.0, 0.0]), ufl.as_vector([0.0, 2.0]))
    expected = by_hand(
        model,
        lambda a, v: (
            (
                ufl.inner(ufl.dot(C, ufl.grad(a)), ufl.grad(v))
                + ufl.dot(flow, ufl.grad(a)) * v
                + C[0, 1] * a * v
                - v
            )
            * ufl.dx
        ),
    )
    assert np.abs(values_of(model) - expected).max() < 1e-12


def test_a_conserved_drift_by_a_velocity_on_cells():
    domain = halves()
    flow = fem.Function(fem.functionspace(domain.mesh, ("RT", 1)))
    flow.interpolate(lambda p: np.array([1 + p[1], 2 - p[0]]))
    terms = {"diffusion": cf.lap(u), "drift": -div(w * u)}
    model = model_of(terms, {w: flow}, domain)
    expected = by_hand(
        model,
        lambda a, v: (
            (ufl.inner(ufl.grad(a), ufl.grad(v)) - a * ufl.dot(flow, ufl.grad(v)) - v) * ufl.dx
        ),
    )
    assert np.abs(values_of(model) - expected).max() < 1e-12


def test_a_continuous_potential_has_a_gradient():
    domain, phi = halves(), cf.Known("phi")
    potential = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 2)))
    potential.interpolate(lambda p: np.sin(p[0]) * p[1])
    terms = {"diffusion": cf.lap(u), "drift": div(u * grad(phi)), "curved": -u * cf.lap(phi)}
    model = model_of(terms, {phi: potential}, domain, degree=2)
    expected = by_hand(
        model,
        lambda a, v: (
            (
                ufl.inner(ufl.grad(a), ufl.grad(v))
                + a * ufl.inner(ufl.grad(potential), ufl.grad(v))
                - ufl.inner(ufl.grad(potential), ufl.grad(a * v))
                - v
            )
            * ufl.dx
        ),
    )
    assert np.abs(values_of(model) - expected).max() < 1e-12


def test_the_gradient_of_a_jump_is_refused():
    with pytest.raises(cf.InputError, match="jumps"):
        model_of({"lap": cf.lap(u), "drift": dot(grad(k), grad(u))}, {k: {"glass": 1, "air": 2}})
    with pytest.raises(cf.InputError, match=r"write it inside, as in div\(a\*grad\(u\)\)"):
        model_of({"lap": k * cf.lap(u)}, {k: {"glass": 1, "air": 2}})


def test_a_known_number_is_a_coefficient():
    for term in (div(k * grad(u)), k * cf.lap(u)):
        known = model_of({"lap": term, "u": -u}, {k: 2})
        plain = model_of({"lap": cf.lap(u), "u": -u}, {})
        changed = plain.with_coefficients({"lap": 2.0, "u": 1.0})
        assert np.abs(values_of(known) - values_of(changed)).max() < 1e-14
        ours, theirs = known.deletions(["u"])["u"], changed.deletions(["u"])["u"]
        assert ours.score == pytest.approx(theirs.score, rel=1e-12)


def test_measured_coefficients_are_interpolated_and_never_extrapolated():
    grid = np.linspace(0, 1, 9)
    fields = {u: np.add.outer(1 + grid, grid**2)}
    data = cf.Dataset.from_arrays({x: grid, y: grid}, fields)
    model = model_of(TERMS, {k: data}, degree=2)
    exact = model_of(TERMS, {k: 1 + x + y**2}, degree=2)
    assert np.abs(values_of(model) - values_of(exact)).max() < 1e-12
    short = cf.Dataset.from_arrays({x: grid / 2, y: grid}, fields)
    with pytest.raises(cf.InputError, match="there are no data at the point"):
        model_of(TERMS, {k: short})


def transient(known, end=0.4, **more):
    """A heat equation with a weight and a conductivity."""
    experiment = cf.Experiment(
        mesh=halves(),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, end, steps=4, **more),
        known=known,
    )
    rho = cf.Known("rho")
    library = cf.Library(anchor=rho * dt(u), terms={"lap": div(k * grad(u)), "u": u})
    return cf.Model(library, {"lap": 0.1, "u": 1.0}, experiment)


RHO = cf.Known("rho")


def test_known_fields_that_change_in_time():
    grid, times = np.linspace(0, 1, 9), np.linspace(0, 1, 9)
    varying = np.multiply.outer(1 + np.add.outer(grid, 0 * grid), 1 + times**2)
    data = cf.Dataset.from_arrays({x: grid, y: grid, t: times}, {u: varying})
    formula = transient({k: (1 + x) * (1 + t**2), RHO: 2}).solve().states[-1]
    for way in (data, lambda p, s: (1 + p[0]) * (1 + s**2)):
        model = transient({k: way, RHO: 2})
        assert np.abs(model.solve().states[-1] - formula).max() < 1e-12
        expected = transient({k: (1 + x) * (1 + t**2), RHO: 2}).deletions(["u"])["u"].score
        assert model.deletions(["u"])["u"].score == pytest.approx(expected, rel=1e-9)
    with pytest.raises(cf.InputError, match="from the times 0 to 1"):
        transient({k: data, RHO: 2}, end=1.5).solve()
    with pytest.raises(cf.InputError, match="changes in time, but the problem is steady"):
        model_of(TERMS, {k: data})


@pytest.mark.parametrize("scheme", ["midpoint", "sdirk2"])
def test_a_weight_by_subdomain_is_that_of_plain_dolfinx(scheme):
    model = transient({k: {"glass": 1, "air": 3}, RHO: {"glass": GLASS, "air": AIR}}, scheme=scheme)
    space = model.spaces.space
    a, v = ufl.TrialFunction(space), ufl.TestFunction(space)
    inside = ufl.gt(jumping(space.mesh), 2.0)
    rho, c = ufl.conditional(inside, GLASS, AIR), ufl.conditional(inside, 1.0, 3.0)
    M = fem.assemble_matrix(fem.form(rho * a * v * ufl.dx)).to_dense()
    stiffness = -0.1 * c * ufl.inner(ufl.grad(a), ufl.grad(v)) + a * v
    A = fem.assemble_matrix(fem.form(stiffness * ufl.dx)).to_dense()
    free = np.flatnonzero(np.abs(model.solve().states[1]) > 0)
    M, A = M[np.ix_(free, free)], A[np.ix_(free, free)]
    value, step = model.solve().states[0][free], 0.1
    gamma = 0.5 if scheme == "midpoint" else 1 - 1 / np.sqrt(2)
    for _ in range(4):
        first = np.linalg.solve(M - gamma * step * A, A @ value)
        if scheme == "midpoint":
            value = value + step * first
        else:
            start = value + (1 - gamma) * step * first
            second = np.linalg.solve(M - gamma * step * A, A @ start)
            value = value + step * ((1 - gamma) * first + gamma * second)
    assert np.abs(model.solve().states[-1][free] - value).max() < 1e-13


def test_derivatives_with_known_fields_have_second_order_remainders():
    model = transient({k: {"glass": 1, "air": 3}, RHO: {"glass": GLASS, "air": AIR}})
    for name in ("u", "lap"):
        assert cf.taylor_linearised(model, name).order > 1.9
    observable = cf.Integral(k * u, at="end")
    assert cf.taylor_observable(model, observable, "u").order > 1.9


def test_weights_that_cannot_be():
    with pytest.raises(cf.LibraryError, match=r"weight of the anchor .* is negative"):
        cf.Library(anchor=-2 * dt(u), terms={"u": u})
    with pytest.raises(cf.LibraryError, match="weight without fields"):
        cf.Library(anchor=u * dt(u), terms={"u": u})
    with pytest.raises(cf.LibraryError, match="weight without fields"):
        cf.Library(anchor=dt(u) + u.diff(x, t), terms={"u": u})
    with pytest.raises(cf.InputError, match="negative somewhere"):
        transient({k: 1, RHO: {"glass": -1, "air": 1}})
    with pytest.raises(cf.InputError, match="vanishes in a part of the domain"):
        transient({k: 1, RHO: {"glass": 0, "air": 1}})
    assert np.isfinite(
        transient({k: 1, RHO: {"glass": 0, "air": 1}}, scheme="sdirk2").solve().norm()
    )


def test_what_is_wrong_with_known_fields_is_said_in_one_sentence():
    domain = halves()
    quadratic = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 1, (2,))))
    elsewhere = fem.Function(fem.functionspace(halves().mesh, ("DG", 0)))
    small = dolfinx_mesh.create_rectangle(MPI.COMM_SELF, [(0, 0), (0.5, 1)], (2, 2))
    outside = fem.Function(fem.functionspace(small, ("Lagrange", 1)))
    wrong = {
        "no values: give them in Experiment": {},
        "no subdomain 'gas'; .*glass": {"glass": 1, "gas": 2},
        "'left' is a part of the boundary": {"glass": 1, "left": 2},
        "no values on 16 cells": {"glass": 1},
        r"values of shape \(2,\), not \(\)": quadratic,
        "function on another mesh; give cf.Interpolated": elsewhere,
        "outside of the mesh of the function": cf.Interpolated(outside),
        "takes a number or a SymPy expression": (1, 2),
        "is not finite": float("nan"),
        "no cell has the tag 7": (domain.cell_tags, {7: 1.0}),
        "not finite everywhere": lambda p: np.inf + 0 * p[0],
        r"values of shape \(3,": lambda p: p,
        "coordinate z": 1 + cf.z,
    }
    for words, value in wrong.items():
        with pytest.raises(cf.InputError, match=words):
            model_of(TERMS, {k: value} if value != {} else {}, domain)
    plain = dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 2, 2)
    with pytest.raises(cf.InputError, match="the mesh has none with names"):
        model_of(TERMS, {k: {"glass": 1}}, plain)
    with pytest.raises(cf.InputError, match="and u is not one"):
        model_of(TERMS, {u: 1})
    with pytest.raises(cf.InputError, match="is a known field and has no element"):
        cf.Experiment(mesh=domain, elements={k: ("Lagrange", 1)})
    with pytest.raises(cf.InputError, match="known field"):
        cf.Library(terms=TERMS, unknown=k)
    with pytest.raises(cf.InputError, match=r"vector with 2 components"):
        model_of({"drift": dot(w, grad(u))}, {w: (1, 2, 3)})
    with pytest.raises(cf.InputError, match=r"tensor of shape \(2, 2\)"):
        model_of({"d": div(dot(K, grad(u)))}, {K: (1, 2)})
    with pytest.raises(cf.SymbolError, match="square tensor"):
        cf.Known("k", dim=(2, 3))
    with pytest.raises(cf.InputError, match="shares cells"):
        cf.mesh.named(domain.mesh, cells={"a": lambda p: p[0] < 2, "b": lambda p: p[0] < 0.6})
    with pytest.raises(cf.InputError, match="needs a term called 'k'"):
        model_of(TERMS, {k: 1}).deletions(["k"])


def test_tags_of_another_mesh_are_refused():
    domain, other = halves(), halves()
    numbers = {other.names["glass"][1]: GLASS, other.names["air"][1]: AIR}
    with pytest.raises(cf.InputError, match="tags of another mesh"):
        model_of(TERMS, {k: (other.cell_tags, numbers)}, domain)


def test_a_derivative_of_a_known_field_is_no_boundary_value():
    boundary = [cf.Dirichlet(u, k.diff(x))]
    with pytest.raises(cf.InputError, match="a derivative of a known field"):
        model_of(TERMS, {k: lambda p: 1 + p[0]}, boundary=boundary)
