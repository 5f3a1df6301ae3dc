"""Manufactured solutions of parabolic problems: observed orders in space and time are those
of the theory.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from engine_support import assert_order, error, forcing, unit

import cffem as cf
from cffem import t, x, y, z

DIMENSION = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}
u, w = cf.ScalarField("u"), cf.ScalarField("w")


def smooth(dim: int) -> sp.Expr:
    """A solution without symmetry that is zero nowhere on the boundary and changes in time
    there.
    """
    return sp.exp(-t) * sp.Mul(*(sp.cos(s + sp.Rational(1, 3)) for s in (x, y, z)[:dim])) + t * x**2


def solve(
    library,
    coefficients,
    exact,
    cell,
    n,
    degree,
    steps=None,
    end=0.5,
    scheme=None,
    boundary=None,
    skew=0.05,
):
    """Solve with forcing, initial and boundary values of an exact solution; the errors at the
    end by field.
    """
    dim = DIMENSION[cell]
    fields = list(library.unknowns)
    experiment = cf.Experiment(
        mesh=unit(cell, n, skew=skew),
        elements=dict.fromkeys(fields, ("Lagrange", degree)),
        initial={f: exact[f].subs(t, 0) for f in fields},
        boundary=[cf.Dirichlet(f, exact[f]) for f in fields] if boundary is None else boundary,
        forcing=forcing(library, coefficients, exact, dim),
        time=None if steps is None else cf.Window(0, end, steps=steps, scheme=scheme),
    )
    model = cf.Model(library, coefficients, experiment)
    solution = model.solve()
    assert solution.record.worst_residual < 1e-9
    errors = {f: error(solution.function(f), exact[f], end) for f in fields}
    model.destroy()
    return errors


HEAT = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})


@pytest.mark.parametrize(
    ("cell", "degree", "levels"),
    [
        ("interval", 1, (4, 8, 16)),
        ("interval", 2, (4, 8, 16)),
        ("triangle", 1, (4, 8, 16)),
        ("triangle", 2, (4, 8)),
        ("quadrilateral", 1, (4, 8, 16)),
        ("quadrilateral", 2, (4, 8)),
        ("tetrahedron", 1, (4, 8)),
        ("hexahedron", 1, (4, 8)),
        pytest.param("tetrahedron", 2, (3, 6), marks=pytest.mark.slow),
        pytest.param("hexahedron", 2, (3, 6), marks=pytest.mark.slow),
    ],
)
def test_heat_converges_in_space(cell, degree, levels):
    exact = {u: smooth(DIMENSION[cell])}
    errors = [
        solve(
            HEAT,
            {"u": 0.5, "lap": 1.0},
            exact,
            cell,
            n,
            degree,
            steps=n * (degree if degree == 1 else 4),
        )
        for n in levels
    ]
    assert_order([e[u] for e in errors], degree + 1 if degree == 1 else 3)


@pytest.mark.parametrize(
    ("scheme", "order"), [("midpoint", 2), ("sdirk2", 2), ("backward-euler", 1)]
)
def test_heat_converges_in_time_with_boundary_values_that_change(scheme, order):
    exact = {u: smooth(1)}
    errors = [
        solve(HEAT, {"u": 0.5, "lap": 1.0}, exact, "interval", 12, 4, steps, scheme=scheme)[u]
        for steps in (8, 16, 32)
    ]
    assert_order(errors, order)


def test_sdirk2_damps_what_the_midpoint_rule_leaves():
    """Stiff decay: an L-stable scheme forgets an incompatible start, the midpoint rule does not."""
    left = {}
    for scheme in ("midpoint", "sdirk2"):
        experiment = cf.Experiment(
            mesh=unit("interval", 64),
            elements={u: ("Lagrange", 1)},
            initial={u: 1},
            boundary=[cf.Dirichlet(u, 0)],
            time=cf.Window(0, 1, steps=10, scheme=scheme),
        )
        solution = cf.Model(HEAT, {"lap": 1.0}, experiment).solve()
        left[scheme] = abs(solution.states[-1]).max()
    assert left["sdirk2"] < 1e-3 < 1e-1 < left["midpoint"]


@pytest.mark.parametrize(("cell", "dim"), [("triangle", 2), ("quadrilateral", 2)])
def test_advection_diffusion_converges(cell, dim):
    library = cf.Library(
        anchor=cf.dt(u),
        terms={"u_x": u.diff(x), "turn": cf.dot((-y, x), cf.grad(u)), "lap": cf.lap(u)},
    )
    coefficients = {"u_x": -2.0, "turn": 1.0, "lap": 0.1}
    errors = [
        solve(library, coefficients, {u: smooth(dim)}, cell, n, 2, steps=4 * n)[u] for n in (4, 8)
    ]
    assert_order(errors, 3)


def test_nonlinear_reaction_diffusion_converges():
    library = cf.Library(
        anchor=cf.dt(u),
        terms={"u": u, "cubic": u**3, "lap": cf.lap(u), "diffusion": cf.div(u**2 * cf.grad(u))},
    )
    coefficients = {"u": 1.0, "cubic": -1.0, "lap": 0.2, "diffusion": 0.1}
    errors = [
        solve(library, coefficients, {u: smooth(2)}, "triangle", n, 2, steps=4 * n)[u]
        for n in (4, 8)
    ]
    assert_order(errors, 3)
    errors = [
        solve(library, coefficients, {u: smooth(1)}, "interval", 12, 4, steps)[u]
        for steps in (4, 8)
    ]
    assert_order(errors, 2)


def test_steady_nonlinear_problem_converges():
    library = cf.Library(anchor=cf.div((1 + u**2) * cf.grad(u)), terms={"u": u, "sin": sp.sin(u)})
    errors = [
        solve(
            library,
            {"u": 1.0, "sin": 0.5},
            {u: smooth(2).subs(t, sp.Rational(1, 2))},
            "quadrilateral",
            n,
            2,
        )[u]
        for n in (4, 8)
    ]
    assert_order(errors, 3)


def test_coupled_fields_converge():
    system = cf.System(
        {
            "u": cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "react": u * w, "w": w}),
            "w": cf.Library(anchor=cf.dt(w), terms={"lap": cf.lap(w), "u2": u**2}),
        }
    )
    coefficients = {"u/lap": 0.5, "u/react": -1.0, "u/w": 0.3, "w/lap": 0.1, "w/u2": 0.7}
    exact = {u: smooth(2), w: sp.sin(x + 2 * y) * sp.cos(t)}
    errors = [solve(system, coefficients, exact, "triangle", n, 2, steps=4 * n) for n in (4, 8)]
    for field in (u, w):
        assert_order([e[field] for e in errors], 3)


def test_steady_equation_beside_a_transient_one_converges_from_a_consistent_start():
    """−lap w = u at every time, the initial one included: nobody gives w an initial value."""
    system = cf.System(
        {
            "u": cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "w": w}),
            "w": cf.Library(anchor=cf.lap(w), terms={"u": u}),
        }
    )
    coefficients = {"u/lap": 1.0, "u/w": 1.0, "w/u": -1.0}
    exact = {u: smooth(1), w: sp.sin(x) * sp.cos(t)}

    def errors(steps):
        experiment = cf.Experiment(
            mesh=unit("interval", 12),
            elements={u: ("Lagrange", 4), w: ("Lagrange", 4)},
            initial={u: exact[u].subs(t, 0)},
            boundary=[cf.Dirichlet(u, exact[u]), cf.Dirichlet(w, exact[w])],
            forcing=forcing(system, coefficients, exact, 1),
            time=cf.Window(0, 0.5, steps=steps),
        )
        solution = cf.Model(system, coefficients, experiment).solve()
        assert error(solution.function(w, 0), exact[w], 0.0) < 1e-7
        return error(solution.function(u), exact[u], 0.5), error(
            solution.function(w), exact[w], 0.5
        )

    levels = [errors(steps) for steps in (4, 8, 16)]
    assert_order([e[0] for e in levels], 2)
    assert_order([e[1] for e in levels], 2)


@pytest.mark.parametrize("order", [1, 2])
def test_a_field_that_is_the_rate_of_another_has_it_at_the_start_as_well(order):
    """w = dt(u): of first order in time the rate follows from the equation of u, of second
    order it is an initial value.
    """
    pi = sp.pi
    anchor = cf.dt(u) if order == 1 else cf.dt(cf.dt(u))
    system = cf.System(
        {
            "u": cf.Library(anchor=anchor, terms={"lap": cf.lap(u)}),
            "w": cf.Library(anchor=w, terms={"rate": cf.dt(u), "cubic": w**3}),
        }
    )
    wave = sp.sin(pi * x)
    experiment = cf.Experiment(
        mesh=unit("interval", 16),
        elements={u: ("Lagrange", 3), w: ("Lagrange", 3)},
        initial={u: wave} if order == 1 else {u: 0, cf.dt(u): wave},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.1, steps=2),
    )
    with cf.Model(system, {"u/lap": 0.1, "w/rate": 1.0}, experiment) as model:
        rate = -(pi**2) * wave / 10 if order == 1 else wave
        assert error(model.solve().function(w, 0), rate) < 2e-3
    with cf.Model(system, {"u/lap": 0.1, "w/rate": 1.0, "w/cubic": -0.1}, experiment) as model:
        start = model.solve().function(w, 0)
        bent = error(start, rate)
        assert bent > 1e-2
