"""Boundary conditions: each one, declared on a part by its name, leads to the exact solution
it belongs to.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem
from engine_support import assert_order, error, forcing, unit, values_at
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import t, x, y, z

u = cf.ScalarField("u")
v, s = cf.VectorField("v", dim=2), cf.VectorField("s", dim=2)
POISSON = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
EXACT = (
    x**2 * y + y**2 - x + 1
)  # its flux through every side of the unit square is a polynomial that quadrature integrates
REST = ("right", "bottom", "top")


def poisson(boundary, exact=EXACT, n=4, degree=3, cell="triangle", coefficients=None):
    """The error of a steady problem whose solution the space contains."""
    coefficients = coefficients or {"lap": 2.0, "u": -1.0}
    experiment = cf.Experiment(
        mesh=unit(cell, n),
        elements={u: ("Lagrange", degree)},
        boundary=boundary,
        forcing=forcing(POISSON, coefficients, {u: exact}, 2),
    )
    return error(cf.Model(POISSON, coefficients, experiment).solve().function(), exact)


def test_neumann_gives_the_normal_derivative_whatever_the_coefficient():
    flux = -sp.diff(EXACT, x)  # on the left side n = (−1, 0)
    assert poisson([cf.Dirichlet(u, EXACT, on=REST), cf.Neumann(u, flux, on="left")]) < 1e-11


def test_neumann_on_all_sides_with_a_reaction():
    on = {
        "left": -sp.diff(EXACT, x),
        "right": sp.diff(EXACT, x),
        "bottom": -sp.diff(EXACT, y),
        "top": sp.diff(EXACT, y),
    }
    assert poisson([cf.Neumann(u, flux, on=side) for side, flux in on.items()]) < 1e-11


def test_a_robin_condition_with_variable_coefficient_gives_the_exact_solution():
    value = -sp.diff(EXACT, x) + 3 * (1 + y) * EXACT
    assert (
        poisson(
            [
                cf.Dirichlet(u, EXACT, on=REST),
                cf.Robin(u, value, on="left", coefficient=3 * (1 + y)),
            ]
        )
        < 1e-11
    )


def test_dolfinx_functions_as_data_give_the_exact_solution():
    domain = unit("triangle", 4)
    space = fem.functionspace(domain.mesh, ("Lagrange", 3))
    given, flux = fem.Function(space), fem.Function(space)
    given.interpolate(lambda p: p[0] ** 2 * p[1] + p[1] ** 2 - p[0] + 1)
    flux.interpolate(lambda p: -(2 * p[0] * p[1] - 1))
    coefficients = {"lap": 1.0}
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 3)},
        boundary=[cf.Dirichlet(u, given, on=REST), cf.Neumann(u, flux, on="left")],
        forcing=forcing(POISSON, coefficients, {u: EXACT}, 2),
    )
    assert error(cf.Model(POISSON, coefficients, experiment).solve().function(), EXACT) < 1e-11


def test_neumann_and_robin_that_change_in_time_keep_second_order():
    exact = sp.exp(-t) * sp.cos(x)
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})

    def at_end(steps):
        experiment = cf.Experiment(
            mesh=unit("interval", 12),
            elements={u: ("Lagrange", 4)},
            initial={u: exact.subs(t, 0)},
            boundary=[
                cf.Neumann(u, -sp.diff(exact, x).subs(x, 0), on="left"),
                cf.Robin(u, sp.diff(exact, x) + 2 * exact, on="right", coefficient=2),
            ],
            forcing=forcing(library, {"lap": 1.0}, {u: exact}, 1),
            time=cf.Window(0, 1, steps=steps),
        )
        return error(cf.Model(library, {"lap": 1.0}, experiment).solve().function(), exact, 1.0)

    assert_order([at_end(steps) for steps in (4, 8, 16)], 2)


def test_neumann_of_a_vector_field_and_traction_of_a_strain():
    """div(2 sym grad v) has the traction 2 sym(grad v)·n as its natural trace."""
    exact = (x**2 * y, x * y - y**2)
    a, b = exact
    left = (-sp.diff(a, x), -sp.diff(b, x))
    strain = tuple(-(sp.diff(a, i) + sp.diff(c, x)) / 2 for i, c in ((x, a), (y, b)))
    for term, trace in ((cf.lap(v), left), (cf.div(cf.sym(cf.grad(v))), strain)):
        library = cf.Library(terms={"second": term}, unknown=v)
        experiment = cf.Experiment(
            mesh=unit("triangle", 3),
            elements={v: ("Lagrange", 3)},
            boundary=[cf.Dirichlet(v, exact, on=REST), cf.Neumann(v, trace, on="left")],
            forcing=forcing(library, {"second": 1.0}, {v: exact}, 2),
        )
        assert (
            error(cf.Model(library, {"second": 1.0}, experiment).solve().function(), exact) < 1e-11
        )


def test_components_given_one_by_one_leave_the_others_natural():
    """Slip on the left: v·n is given, and the tangential part of ∂v/∂n."""
    exact = (x**2 * y, x * y - y**2)
    library = cf.Library(terms={"lap": cf.lap(v)}, unknown=v)
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={v: ("Lagrange", 3)},
        boundary=[
            cf.Dirichlet(v, exact, on=REST),
            cf.Dirichlet(v[0], exact[0], on="left"),
            cf.Neumann(v, (0, -sp.diff(exact[1], x)), on="left"),
        ],
        forcing=forcing(library, {"lap": 1.0}, {v: exact}, 2),
    )
    assert error(cf.Model(library, {"lap": 1.0}, experiment).solve().function(), exact) < 1e-11


@pytest.mark.parametrize("dim", [2, 3])
def test_tangential_traces_of_the_curl(dim):
    """n × curl E given on the left, an impedance condition on the right: E = a + b × x is in
    the lowest Nédélec space.
    """
    E = cf.VectorField("E", dim=dim)
    b = sp.Matrix([1, 2, 3]) if dim == 3 else sp.Matrix([0, 0, 2])
    place = sp.Matrix([x, y, z if dim == 3 else 0])
    exact = tuple(sp.Matrix([1, -1, 2]) + b.cross(place))[:dim]
    trace = {
        side: tuple(sp.Matrix([sign, 0, 0]).cross(2 * b))[:dim]
        for side, sign in (("left", -1), ("right", 1))
    }
    impedance = tuple(a + 3 * c for a, c in zip(trace["right"], exact, strict=True))
    library = cf.Library(terms={"curl": -cf.curl(cf.curl(E)), "mass": -E}, unknown=E)
    coefficients = {"curl": 2.0, "mass": 1.0}
    walls = ("bottom", "top", "back", "front")[: 2 * dim - 2]
    experiment = cf.Experiment(
        mesh=unit("triangle" if dim == 2 else "tetrahedron", 2),
        elements={E: ("N1curl", 1)},
        boundary=[
            cf.Tangential(E, exact, on=walls),
            cf.Neumann(E, trace["left"], on="left"),
            cf.Robin(E, impedance, on="right", coefficient=3),
        ],
        forcing=forcing(library, coefficients, {E: exact}, dim),
    )
    assert error(cf.Model(library, coefficients, experiment).solve().function(), exact) < 1e-11


def test_natural_traces_of_second_derivatives_in_one_dimension_and_of_grad_div():
    exact = x**3 - x
    library = cf.Library(terms={"u_xx": u.diff(x, 2), "u": u}, unknown=u)
    coefficients = {"u_xx": 2.0, "u": -1.0}
    experiment = cf.Experiment(
        mesh=unit("interval", 3),
        elements={u: ("Lagrange", 3)},
        boundary=[cf.Neumann(u, 1, on="left"), cf.Robin(u, 2, on="right", coefficient=5)],
        forcing=forcing(library, coefficients, {u: exact}, 1),
    )
    assert error(cf.Model(library, coefficients, experiment).solve().function(), exact) < 1e-11
    exact = (x**2 * y, x * y - y**2)
    library = cf.Library(terms={"grad_div": cf.grad(cf.div(v)), "v": v}, unknown=v)
    coefficients = {"grad_div": 1.0, "v": -1.0}
    divergence = sp.diff(exact[0], x) + sp.diff(exact[1], y)
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={v: ("Lagrange", 3)},
        boundary=[cf.Dirichlet(v, exact, on=REST), cf.Neumann(v, (-divergence, 0), on="left")],
        forcing=forcing(library, coefficients, {v: exact}, 2),
    )
    assert error(cf.Model(library, coefficients, experiment).solve().function(), exact) < 1e-11


@pytest.mark.parametrize("element", [("RT", 2), ("BDM", 1)])
def test_mixed_form_takes_the_scalar_as_natural_data(element):
    """σ = grad u with σ in H(div), u discontinuous: Dirichlet data of u enter the form, the
    flux on the left is essential.
    """
    system = cf.System(
        {
            "s": cf.Library(anchor=s, terms={"grad": cf.grad(u)}),
            "u": cf.Library(terms={"div": cf.div(s)}, unknown=u),
        }
    )
    coefficients = {"s/grad": 1.0, "u/div": 1.0}
    exact = {
        u: sp.sin(2 * x) * sp.cos(y),
        s: (2 * sp.cos(2 * x) * sp.cos(y), -sp.sin(2 * x) * sp.sin(y)),
    }

    def errors(n):
        experiment = cf.Experiment(
            mesh=unit("triangle", n),
            elements={s: element, u: ("DG", element[1] - 1 if element[0] == "RT" else 0)},
            boundary=[cf.Dirichlet(u, exact[u], on=REST), cf.Dirichlet(s, exact[s], on="left")],
            forcing=forcing(system, coefficients, exact, 2),
        )
        solution = cf.Model(system, coefficients, experiment).solve()
        return error(solution.function(s), exact[s]), error(solution.function(u), exact[u])

    levels = [errors(n) for n in (4, 8)]
    assert_order([e[0] for e in levels], 2)
    assert_order([e[1] for e in levels], 2 if element[0] == "RT" else 1)


def test_discontinuous_advection_takes_its_inflow_values():
    exact = sp.sin(x - t) + 2
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": u.diff(x), "u": u})

    def at_end(n):
        experiment = cf.Experiment(
            mesh=unit("interval", n),
            elements={u: ("DG", 2)},
            initial={u: exact.subs(t, 0)},
            boundary=[cf.Dirichlet(u, exact, on="left")],
            time=cf.Window(0, 1, steps=4 * n),
        )
        return error(cf.Model(library, {"u_x": -1.0}, experiment).solve().function(), exact, 1.0)

    assert_order([at_end(n) for n in (8, 16)], 2)


PERIODIC = [cf.Periodic(on="right", to="left"), cf.Periodic(on="top", to="bottom")]


@pytest.mark.parametrize(("on", "to", "value"), [("right", "left", 0.0), ("left", "right", 1.0)])
def test_initial_values_that_do_not_match_come_from_the_part_that_the_other_is_identified_with(
    on, to, value
):
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    experiment = cf.Experiment(
        mesh=unit("triangle", 3),
        elements={u: ("Lagrange", 1)},
        initial={u: x},
        boundary=[cf.Periodic(on=on, to=to), cf.Neumann(u, 0, on=("bottom", "top"))],
        time=cf.Window(0, 0.1, steps=1),
    )
    start = cf.Model(library, {"lap": 1.0}, experiment).solve().function(u, 0)
    points = [(0.0, y) for y in (0.1, 0.5, 0.9)] + [(1.0, y) for y in (0.1, 0.5, 0.9)]
    assert np.allclose(values_at(start, points), value)


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_periodic_in_both_directions(cell):
    """Advection and diffusion on the torus: a wave without values at the boundary, corners
    included.
    """
    exact = sp.exp(-t) * sp.sin(2 * sp.pi * (x - t)) * sp.cos(2 * sp.pi * y + 1)
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": u.diff(x), "lap": cf.lap(u)})
    coefficients = {"u_x": -1.0, "lap": 0.1}

    def at_end(n):
        experiment = cf.Experiment(
            mesh=unit(cell, n),
            elements={u: ("Lagrange", 2)},
            initial={u: exact.subs(t, 0)},
            boundary=PERIODIC,
            forcing=forcing(library, coefficients, {u: exact}, 2),
            time=cf.Window(0, 0.25, steps=n**2 // 4),
        )
        solution = cf.Model(library, coefficients, experiment).solve()
        values = solution.function()
        points = values.function_space.tabulate_dof_coordinates()
        corners = [
            values.x.array[np.linalg.norm(points - np.array([i, j, 0]), axis=1) < 1e-9]
            for i in (0, 1)
            for j in (0, 1)
        ]
        assert np.ptp(np.concatenate(corners)) == 0.0
        return error(values, exact, 0.25)

    assert_order([at_end(n) for n in (8, 16)], 3)


def test_periodic_interval_and_mixed_with_dirichlet():
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "cubic": u**3}, unknown=u)
    coefficients = {"lap": 1.0, "u": -1.0, "cubic": -1.0}
    for cell, boundary, exact, dim in (
        ("interval", PERIODIC[:1], sp.sin(2 * sp.pi * x), 1),
        (
            "triangle",
            [PERIODIC[0], cf.Dirichlet(u, y, on=("top", "bottom"))],
            y + sp.sin(sp.pi * y) * sp.sin(2 * sp.pi * x),
            2,
        ),
    ):

        def at(n, cell=cell, boundary=boundary, exact=exact, dim=dim):
            experiment = cf.Experiment(
                mesh=unit(cell, n),
                elements={u: ("Lagrange", 2)},
                boundary=boundary,
                forcing=forcing(library, coefficients, {u: exact}, dim),
            )
            return error(cf.Model(library, coefficients, experiment).solve().function(), exact)

        assert_order([at(n) for n in (8, 16)], 3)


def test_periodic_flow_has_a_pressure_of_mean_zero():
    """The Taylor–Green vortex decays at its own rate with nothing given at the boundary."""
    p = cf.ScalarField("p")
    k = 2 * sp.pi
    exact = tuple(
        sp.exp(-2 * k**2 * t / 100) * c
        for c in (sp.sin(k * x) * sp.cos(k * y), -sp.cos(k * x) * sp.sin(k * y))
    )
    pressure = sp.exp(-4 * k**2 * t / 100) * (sp.cos(2 * k * x) + sp.cos(2 * k * y)) / 4
    library = cf.Library(anchor=cf.dt(v), terms={"adv": -cf.dot(cf.grad(v), v), "lap": cf.lap(v)})

    def at_end(n):
        experiment = cf.Experiment(
            mesh=unit("quadrilateral", n),
            elements={v: ("Lagrange", 2)},
            initial={v: tuple(c.subs(t, 0) for c in exact)},
            boundary=PERIODIC,
            constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
            time=cf.Window(0, 0.25, steps=n),
        )
        solution = cf.Model(library, {"adv": 1.0, "lap": 0.01}, experiment).solve()
        return error(solution.function(), exact, 0.25), error(solution.multiplier(), pressure, 0.25)

    levels = [at_end(n) for n in (8, 16)]
    assert_order([e[0] for e in levels], 3)
    assert_order([e[1] for e in levels], 2)


def test_the_traction_of_one_divergence_is_given_as_a_whole():
    """div(2 sym(grad v) + 1.5 div(v) I) with σ·n = (0, −1) on one side, against plain DOLFINx."""
    domain, v = unit("triangle", 3), cf.VectorField("v", dim=2)
    sides = [
        cf.Dirichlet(v, 0, on="left"),
        cf.Neumann(v, (0, -1), on="right"),
        cf.Neumann(v, 0, on=("top", "bottom")),
    ]
    stress = 2 * cf.sym(cf.grad(v)) + 1.5 * cf.div(v) * cf.grad((cf.x, cf.y))
    experiment = cf.Experiment(mesh=domain, elements={v: ("Lagrange", 1)}, boundary=sides)
    found = cf.Model(
        cf.Library(terms={"stress": cf.div(stress)}, unknown=v), {"stress": 1.0}, experiment
    ).factual.function(v)
    space = found.function_space
    a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
    right = domain.names["right"][1]
    ds = ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)
    left = fem.locate_dofs_topological(space, 1, domain.facet_tags.find(domain.names["left"][1]))
    energy = 2 * ufl.inner(ufl.sym(ufl.grad(a)), ufl.sym(ufl.grad(b))) + 1.5 * ufl.div(a) * ufl.div(
        b
    )
    fixed = [fem.dirichletbc(fem.Function(space), left)]
    expected = solved_by_dolfinx(energy * ufl.dx, -b[1] * ds(right), fixed)
    assert np.abs(found.x.array - expected.x.array).max() <= 1e-11 * np.abs(expected.x.array).max()
    parts = cf.Library(
        terms={"mu": 2 * cf.div(cf.sym(cf.grad(v))), "la": cf.grad(cf.div(v))}, unknown=v
    )
    with pytest.raises(cf.InputError, match=r"several natural traces.*as one term div"):
        cf.Model(parts, {"mu": 1.0, "la": 1.5}, experiment)
