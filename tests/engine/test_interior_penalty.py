"""Diffusion of discontinuous fields by the symmetric interior penalty method: orders, plain
DOLFINx, conditions, deletions, and what is refused.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from engine_support import assert_order, error, forcing, unit
from mpi4py import MPI
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, on, sym, x, y

u, w, v, k = cf.ScalarField("u"), cf.ScalarField("w"), cf.VectorField("v", dim=2), cf.Known("k")
EXACT = sp.sin(2 * x + y) + 2
MOVING = (sp.sin(2 * x + y), sp.cos(x - y))


def steady(n, terms, degree=1, cell="triangle", boundary=None, field=u, exact=EXACT, **kwargs):
    """A steady problem whose exact solution is known."""
    dim = 1 if cell == "interval" else 2
    exact = exact.subs(y, 0) if dim == 1 else exact
    library = cf.Library(terms=terms, unknown=field)
    coefficients = dict.fromkeys(terms, 1.0)
    experiment = cf.Experiment(
        mesh=unit(cell, n),
        elements={field: ("DG", degree)},
        boundary=[cf.Dirichlet(field, exact)] if boundary is None else boundary,
        forcing=forcing(library, coefficients, {field: exact}, dim),
        **kwargs,
    )
    return cf.Model(library, coefficients, experiment)


def error_of(*args, exact=EXACT, cell="triangle", **kwargs):
    model = steady(*args, exact=exact, cell=cell, **kwargs)
    return error(model.solve().function(), exact.subs(y, 0) if cell == "interval" else exact)


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("cell", "degree"),
    [
        ("interval", 1),
        ("interval", 2),
        ("triangle", 1),
        pytest.param("triangle", 2, marks=slow),
        pytest.param("triangle", 3, marks=slow),
        ("quadrilateral", 1),
        pytest.param("quadrilateral", 2, marks=slow),
    ],
)
def test_diffusion_converges_with_order_k_plus_one(cell, degree):
    terms = {"lap": lap(u), "u": -u}
    assert_order([error_of(n, terms, degree, cell=cell) for n in (8, 16)], degree + 0.9)


SCALARS = {
    "with transport": {"d": lap(u) / 10, "adv": -u.diff(x), "u": -u},
    "nonlinear": {"d": div((1 + u**2) * grad(u)), "u": -u},
    "inside": {"d": lap(u**2), "u": -u},
    "not as a divergence": {"d": (1 + x) * lap(u), "u": -u},
    "tensor": {"d": div(dot(cf.tensor((2, 1), (1, 3 + x)), grad(u)))},
    "in one term": {"d": lap(u) - u.diff(x) - u},
}


@pytest.mark.parametrize(
    "name", ["with transport", *(pytest.param(n, marks=slow) for n in [*SCALARS][1:])]
)
def test_scalar_terms_converge(name):
    # Nothing diffuses where u is zero and its square does; Newton's method starts elsewhere.
    start = {"initial": {u: 2}} if name == "inside" else {}
    assert_order([error_of(n, SCALARS[name], **start) for n in (8, 16)], 1.9)


VECTORS = {
    "lap": {"d": lap(v)},
    "elastic": {"shear": div(sym(grad(v))), "bulk": grad(div(v))},
    "complex": {"curl": -curl(curl(v)), "div": grad(div(v))},
    "curl": {"curl": -curl(curl(v)), "v": -v},
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=slow) for name in VECTORS])
def test_vector_terms_converge(name):
    """The penalty sees the jumps that the term sees, tangential ones for curl curl."""
    errors = [error_of(n, VECTORS[name], field=v, exact=sp.Tuple(*MOVING)) for n in (8, 16)]
    assert_order(errors, 1.9)


def by_hand(found, wind, slope, reaction, given, source, constant=3.0):
    """Upwind and interior penalty forms in plain UFL, on affine triangles."""
    space = found.function_space
    a, b = ufl.TrialFunction(space), ufl.TestFunction(space)
    mesh = space.mesh
    n, size = ufl.FacetNormal(mesh), ufl.CellVolume(mesh)
    # Σ_F |F| of a triangle by its edges in reference coordinates.
    J = ufl.Jacobian(mesh)
    edges = [J * ufl.as_vector(e) for e in ((1.0, 0.0), (0.0, 1.0), (-1.0, 1.0))]
    tau = constant * sum(ufl.sqrt(ufl.dot(e, e)) for e in edges) / size
    slope = fem.Constant(mesh, slope)  # zero would leave an integral without a mesh
    left = slope * ufl.dot(ufl.grad(a), ufl.grad(b)) * ufl.dx + reaction * a * b * ufl.dx
    left -= slope * ufl.dot(ufl.avg(ufl.grad(a)), ufl.jump(b, n)) * ufl.dS
    left -= slope * ufl.dot(ufl.avg(ufl.grad(b)), ufl.jump(a, n)) * ufl.dS
    left += slope * ufl.avg(tau) * ufl.jump(a) * ufl.jump(b) * ufl.dS
    left += slope * (-ufl.dot(ufl.grad(a), n) * b - ufl.dot(ufl.grad(b), n) * a) * ufl.ds
    left += 2 * slope * tau * a * b * ufl.ds
    right = source * b * ufl.dx
    right += slope * (-ufl.dot(ufl.grad(b), n) * given + 2 * tau * given * b) * ufl.ds
    leaving = (ufl.dot(wind, n) + abs(ufl.dot(wind, n))) / 2
    left += -a * ufl.dot(wind, ufl.grad(b)) * ufl.dx + leaving * a * b * ufl.ds
    left += (leaving("+") * a("+") - leaving("-") * a("-")) * ufl.jump(b) * ufl.dS
    right += (leaving - ufl.dot(wind, n)) * given * b * ufl.ds
    return solved_by_dolfinx(left, right)


def test_the_solution_and_its_deletions_are_those_of_plain_dolfinx():
    """Without diffusion the values that are given count where the flow enters."""
    terms = {"d": lap(u), "adv": -dot(cf.vector(1, sp.Rational(1, 2)), grad(u)), "u": -u}
    library, domain = cf.Library(terms=terms, unknown=u), unit("triangle", 4, skew=0.04)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("DG", 1)},
        boundary=[cf.Dirichlet(u, x * y + 1)],
        forcing={u: x - y},
    )
    model = cf.Model(library, {"d": 0.3, "adv": 0.8, "u": 1.0}, experiment)
    place = ufl.SpatialCoordinate(domain.mesh)
    data = (place[0] * place[1] + 1, place[0] - place[1])
    for change, wind, slope in [
        ((), (0.8, 0.4), 0.3),
        (cf.delete("d"), (0.8, 0.4), 0.0),
        (cf.delete("adv"), (0.0, 0.0), 0.3),
    ]:
        found = model.solve(change).function()
        plain = by_hand(found, fem.Constant(domain.mesh, wind), slope, 1.0, *data)
        assert np.abs(found.x.array - plain.x.array).max() < 1e-10
    assert model.notes == (
        "adv: the flux between cells is upwind",
        "d: the flux between cells is that of the symmetric interior penalty method with the "
        "penalty 3·|∂K|/|K|, and boundary values are given in Nitsche's way",
    )


def test_natural_conditions_are_natural():
    slope = EXACT.diff(x), EXACT.diff(y)
    boundary = [
        cf.Neumann(u, slope[0], on="right"),
        cf.Robin(u, 2 * EXACT - slope[0], coefficient=2, on="left"),
        cf.Natural(u, slope[1], on="top"),
        cf.Dirichlet(u, EXACT, on="bottom"),
    ]
    terms = {"lap": lap(u), "u": -u}
    assert_order([error_of(n, terms, boundary=boundary) for n in (8, 16)], 1.9)


@pytest.mark.parametrize("ratio", [10, 10**4])
def test_a_jump_of_the_coefficient_along_cells_is_exact(ratio):
    """A linear solution on either side is in the space."""
    flow = 1 / (sp.Rational(1, 2) + sp.Rational(1, 2) / ratio)
    exact = sp.Piecewise((flow * x, x < 0.5), (1 - flow / ratio * (1 - x), True))
    experiment = cf.Experiment(
        mesh=unit("interval", 10),
        elements={u: ("DG", 1)},
        boundary=[cf.Dirichlet(u, 0, on="left"), cf.Dirichlet(u, 1, on="right")],
        known={k: sp.Piecewise((1, x < 0.5), (ratio, True))},
    )
    library = cf.Library(terms={"d": div(k * grad(u))}, unknown=u)
    assert error(cf.Model(library, {"d": 1.0}, experiment).solve().function(), exact) < 1e-13


@pytest.mark.parametrize("ratio", [1, 10**4])
@pytest.mark.parametrize("degree", [1, pytest.param(2, marks=slow)])
def test_a_large_jump_of_the_coefficient_costs_no_accuracy(degree, ratio):
    """k jumps from 1 to 10⁴ across x = ½, values and flux k u_x are continuous, and along the
    jump there are gradients, too: order k + 1, and errors that hardly depend on the ratio.
    """
    side, along = x - sp.Rational(1, 2), sp.cos(sp.pi * y)

    def both(expression):
        return sp.Piecewise((expression(1), x < 0.5), (expression(ratio), True))

    def exact(value):
        return side * sp.cos(side) * sp.sin(sp.pi * y) / value + (1 + side**2) * along

    def error_on(n):
        library = cf.Library(terms={"d": div(k * grad(u))}, unknown=u)
        experiment = cf.Experiment(
            mesh=halves(n),
            elements={u: ("DG", degree)},
            boundary=[cf.Dirichlet(u, both(exact))],
            forcing={u: both(lambda a: -a * (exact(a).diff(x, 2) + exact(a).diff(y, 2)))},
            known={k: {"west": 1, "east": ratio}},
        )
        found = cf.Model(library, {"d": 1.0}, experiment).solve().function()
        return error(found, both(exact))

    errors = [error_on(n) for n in (8, 16)]
    assert_order(errors, degree + 0.9)
    assert errors[1] < {1: 2e-3, 2: 3e-5}[degree]


def halves(n=4, comm=MPI.COMM_SELF):
    return cf.mesh.named(
        dolfinx_mesh.create_unit_square(comm, n, n),
        cells={"west": lambda p: p[0] < 0.5 + 1e-9, "east": lambda p: p[0] > 0.5 - 1e-9},
        facets={"left": lambda p: p[0] < 1e-9, "right": lambda p: p[0] > 1 - 1e-9},
    )


@pytest.mark.parametrize("term", [lap(u), -u.diff(x)])
def test_terms_in_parts_are_terms_with_jumping_coefficients(term):
    """T on both halves is T, deleting T in one leaves the other, and diffusion in a part is
    diffusion with a coefficient that jumps.
    """

    def model(terms, **values):
        experiment = cf.Experiment(
            mesh=halves(),
            elements={u: ("DG", 1)},
            boundary=[cf.Dirichlet(u, y, on="left"), cf.Dirichlet(u, 1, on="right")]
            + [cf.Neumann(u, 0, on="untagged")] * (term == lap(u)),
            forcing={u: 1 + x},
            **values,
        )
        library = cf.Library(terms={**terms, "u": -u}, unknown=u)
        return cf.Model(library, dict.fromkeys(library.names, 1.0), experiment)

    both, whole = model({"a": on("west", term), "b": on("east", term)}), model({"T": term})
    pairs = [
        (both.solve(), whole.solve()),
        (both.solve(cf.delete("b")), whole.solve(cf.delete("T", on="east"))),
    ]
    if term == lap(u):
        known = model({"T": div(k * grad(u))}, known={k: {"west": 1, "east": 0}})
        pairs.append((known.solve(), pairs[1][0]))
    for one, other in pairs:
        assert np.abs(one.function().x.array - other.function().x.array).max() < 1e-11


def marching(comm=MPI.COMM_SELF):
    """Two discontinuous fields that diffuse, react and are carried."""
    system = cf.System(
        {
            u: cf.Library(anchor=dt(u), terms={"d": lap(u), "adv": -u.diff(x), "uw": -u * w}),
            w: cf.Library(anchor=dt(w), terms={"d": div((1 + w**2) * grad(w)), "uw": u * w}),
        }
    )
    experiment = cf.Experiment(
        mesh=dolfinx_mesh.create_unit_square(comm, 4, 4),
        elements={u: ("DG", 1), w: ("DG", 1)},
        initial={u: 1 + x * y, w: sp.cos(x)},
        boundary=[cf.Dirichlet(u, 1), cf.Neumann(w, 0)],
        time=cf.Window(0, 0.2, steps=4),
    )
    given = {"u/d": 0.1, "u/adv": 1.0, "u/uw": 1.0, "w/d": 0.05, "w/uw": 0.5}
    return cf.Model(system, given, experiment)


def test_derivatives_are_right_and_tangent_and_adjoint_agree():
    model = marching()
    for name in ("u/d", "w/d"):
        assert cf.taylor_linearised(model, name).passed()
    observable = cf.Integral(u * w, at="end")
    adjoint, responses = model.observable_scores(observable).signed, model.linearised()
    for name in model.active:
        direct = model.measurement(observable).derivative(model.factual, responses[name].trajectory)
        assert abs(direct) == pytest.approx(abs(adjoint[name]), rel=1e-8)


def test_solutions_give_the_rows_of_their_own_equation():
    """Derivatives go to the bumps, so that fluxes between cells are in the rows as well."""
    library = cf.Library(anchor=dt(u), terms={"adv": -u.diff(x), "d": lap(u)})
    experiment = cf.Experiment(
        mesh=unit("interval", 40),
        elements={u: ("DG", 2)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=40),
    )
    model = cf.Model(library, {"adv": 0.5, "d": 0.1}, experiment)
    design = cf.Design.from_fields(library, [model.factual], kind="weak")
    screen = cf.Screening(method="subset").fit(design)
    assert screen.coef_ == pytest.approx([0.5, 0.1], rel=1e-3)


def scores(comm):
    found = {name: d.score for name, d in marching(comm).deletions().deletions.items()}
    if comm.rank == 0:
        print("scores", json.dumps(found))
    return found


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=slow), pytest.param(3, marks=slow)])
def test_scores_do_not_depend_on_ranks(ranks, on_ranks):
    here = scores(MPI.COMM_SELF)
    assert json.loads(on_ranks(ranks, scores).split("scores ")[1]) == pytest.approx(here, rel=1e-8)


# Refusals
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "degree", "message"),
    [
        ({"d": lap(u)}, 0, "constant on cells and has no gradient there; take DG of degree 1"),
        ({"d": u * lap(u)}, 1, "linear in the gradient"),
        ({"d": div(cf.norm2(grad(u)) * grad(u))}, 1, "several derivatives of second order"),
        ({"d": -lap(lap(u))}, 2, "third and higher order need a Lagrange element"),
    ],
)
def test_what_has_no_flux_is_refused(terms, degree, message):
    library = cf.Library(terms=terms, unknown=u)
    experiment = cf.Experiment(
        mesh=unit("triangle", 2), elements={u: ("DG", degree)}, boundary=[cf.Dirichlet(u, 0)]
    )
    with pytest.raises(cf.InputError, match=message):
        cf.Model(library, {"d": 1.0}, experiment)


def test_values_and_fluxes_are_not_given_together_and_sides_are_asked_for():
    terms = {"lap": lap(u), "u": -u}
    both = [cf.Dirichlet(u, 1), cf.Neumann(u, 0, on="left")]
    with pytest.raises(cf.InputError, match="is given on 'left' as well"):
        steady(2, terms, boundary=both)
    with pytest.raises(cf.InputError, match="nothing is said about u on the boundary part"):
        cf.Model(
            cf.Library(terms=terms, unknown=u),
            {"lap": 1.0, "u": 1.0},
            cf.Experiment(
                mesh=unit("triangle", 2),
                elements={u: ("DG", 1)},
                boundary=[cf.Dirichlet(u, 1, on="left")],
            ),
        )
