"""Steps, kinks and peaks between the points of a rule: integrated to a stated accuracy,
whatever the mesh.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem
from engine_support import unit

import cffem as cf
from cffem import x, y, z
from cffem.engine.inputs.moments import ACCURACY, Cells, moments, orthonormal

u = cf.ScalarField("u")
BOX = sp.Piecewise((1, sp.And(sp.Abs(x - 0.5) < 0.1, sp.Abs(y - 0.5) < 0.1)), (0, True))
DISC = sp.Piecewise((1, (x - 0.5) ** 2 + (y - 0.45) ** 2 < 0.01), (0, True))
PLANE = {
    "box": (BOX, 0.04, 1e-12),
    "small box": (
        sp.Piecewise((1, sp.And(sp.Abs(x - 0.52) < 0.01, sp.Abs(y - 0.47) < 0.01)), (0, True)),
        4e-4,
        1e-12,
    ),
    "disc": (DISC, 0.01 * math.pi, 1e-5),
    "peak": (sp.exp(-((x - 0.503) ** 2 + (y - 0.481) ** 2) / 1e-8), 1e-8 * math.pi, 1e-6),
    "ridge": (1 / (1 + ((x - 0.3) / 1e-2) ** 2), 1e-2 * (math.atan(70) + math.atan(30)), 1e-6),
    "front": ((1 + sp.tanh((x - 0.37) / 1e-3)) / 2, 0.63, 1e-6),
    "kink": (sp.Abs(x - 0.3), 0.29, 1e-12),
    "slanted step": (sp.Heaviside(x + y - 0.77), 1 - 0.77**2 / 2, 1e-12),
    "product of steps": (
        x * sp.Heaviside(x - 0.1234) * sp.Heaviside(0.7 - y),
        0.35 * (1 - 0.1234**2),
        1e-12,
    ),
    "largest": (sp.Max(x, y), 2 / 3, 1e-12),
    "sign": (sp.sign(x - 0.21) * sp.exp(y), (math.e - 1) * 0.58, 1e-12),
    "branches": (sp.Piecewise((sp.sin(3 * x), x < y), (y**2, x < 0.9), (2, True)), None, 1e-9),
}


def integral(expr, domain, degree=1):
    """The integral of the function that stands for an expression."""
    cells = Cells(domain)
    space = fem.functionspace(domain, orthonormal(cells.name, degree))
    function = fem.Function(space)
    function.x.array[space.dofmap.list[: cells.count].ravel()] = moments(
        expr, cells, degree
    ).ravel()
    return domain.comm.allreduce(fem.assemble_scalar(fem.form(function * ufl.dx)))


def branches_by_hand():
    """∫ of the branches: below the diagonal left of 0.9, right of it, and above the diagonal."""
    a, b = sp.symbols("a b")
    upper = sp.integrate(sp.integrate(sp.sin(3 * a), (b, a, 1)), (a, 0, 1))
    below = sp.integrate(sp.integrate(b**2, (b, 0, a)), (a, 0, sp.Rational(9, 10)))
    last = sp.integrate(sp.integrate(2, (b, 0, a)), (a, sp.Rational(9, 10), 1))
    return float(upper + below + last)


@pytest.mark.parametrize("kind", PLANE)
@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_moments_in_the_plane_are_exact_to_the_stated_accuracy(kind, cell):
    expr, exact, accuracy = PLANE[kind]
    exact = branches_by_hand() if exact is None else exact
    skew = 0.05 if cell == "quadrilateral" else 0.0
    accuracy = max(accuracy, 1e-6) if skew else accuracy
    assert integral(expr, unit(cell, 3, skew=skew).mesh) == pytest.approx(exact, rel=accuracy)


@pytest.mark.parametrize("cell", ["tetrahedron", "hexahedron"])
def test_moments_in_space_are_exact_for_planes_and_close_for_spheres(cell):
    domain = unit(cell, 2).mesh
    corner = sp.Heaviside(x + y + z - 2.5) * sp.Heaviside(z - 0.2)
    assert integral(corner, domain, 0) == pytest.approx(0.5**3 / 6, rel=1e-12)
    ball = sp.Piecewise((1, (x - 0.5) ** 2 + (y - 0.45) ** 2 + (z - 0.4) ** 2 < 0.04), (0, True))
    assert integral(ball, domain, 0) == pytest.approx(0.032 * math.pi / 3, rel=3e-3)


def test_moments_on_an_interval():
    domain = unit("interval", 5).mesh
    assert integral(sp.Piecewise((1, sp.Abs(x - 0.5) < 0.04), (0, True)), domain) == pytest.approx(
        0.08, rel=1e-12
    )
    assert integral(sp.exp(-((x - 0.503) ** 2) / 1e-8), domain) == pytest.approx(
        1e-4 * math.sqrt(math.pi), rel=1e-9
    )


def test_polynomials_times_data_are_integrated_exactly():
    """Not only the mass: ∫ f p is right for every polynomial p of the degree."""
    domain, degree = unit("triangle", 2).mesh, 3
    space = fem.functionspace(domain, orthonormal("triangle", degree))
    function = fem.Function(space)
    function.x.array[space.dofmap.list.ravel()] = moments(
        sp.Heaviside(x - 0.3), Cells(domain), degree
    ).ravel()
    place = ufl.SpatialCoordinate(domain)
    found = fem.assemble_scalar(fem.form(function * place[0] ** 2 * place[1] * ufl.dx))
    assert found == pytest.approx((1 - 0.3**3) / 6, rel=1e-12)


def model(n=3, coefficients=None, library=None, **changes):
    given = {
        "mesh": unit("triangle", n),
        "elements": {u: ("Lagrange", 1)},
        "boundary": [cf.Neumann(u, 0)],
        **changes,
    }
    library = (
        cf.Library(terms={"lap": cf.lap(u), "u": -u}, unknown=u) if library is None else library
    )
    return cf.Model(
        library,
        {"lap": 1.0, "u": 1.0} if coefficients is None else coefficients,
        cf.Experiment(**given),
    )


def mass(problem, expr=u):
    return problem.measurement(cf.Integral(expr)).value(problem.factual)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_a_forcing_has_its_mass_on_every_mesh(n):
    assert mass(model(n, forcing={u: BOX})) == pytest.approx(0.04, rel=1e-10)


def test_coefficients_and_observables_see_steps_within_cells():
    """With 0 = lap u − c u + 1 in an insulated box ∫ c u = 1, whatever c is."""
    step = 1 + 3 * sp.Heaviside(x - 0.437)
    library = cf.Library(terms={"lap": cf.lap(u), "drag": -step * u}, unknown=u)
    problem = model(2, {"lap": 1.0, "drag": 1.0}, library, forcing={u: 1})
    assert mass(problem, step * u) == pytest.approx(1.0, rel=1e-10)
    branches = sp.Piecewise((u, x < 0.437), (4 * u, True))
    assert mass(problem, branches) == pytest.approx(1.0, rel=1e-10)


def test_diffusion_that_jumps_within_cells_has_the_mean_conductivity_of_each():
    """On degree 1 the matrix is that of the cell means, which by hand is a DG 0 coefficient."""
    step = sp.Piecewise((1, x + y < 0.77), (3, True))
    library = cf.Library(terms={"diffusion": cf.div(step * cf.grad(u))}, unknown=u)
    tagged, k = unit("triangle", 3), cf.ScalarField("k")
    problem = model(
        3, {"diffusion": 1.0}, library, mesh=tagged, forcing={u: 1}, boundary=[cf.Dirichlet(u, 0)]
    )
    domain = tagged.mesh
    means = fem.Function(fem.functionspace(domain, ("DG", 0)))
    sizes = fem.assemble_vector(fem.form(ufl.TestFunction(means.function_space) * ufl.dx)).array
    cells = Cells(domain)
    means.x.array[:] = moments(step, cells, 0)[:, 0] * np.sqrt(2)
    assert float(means.x.array @ sizes) == pytest.approx(3 - 2 * 0.77**2 / 2, rel=1e-12)
    system = cf.System(
        {
            u: cf.Library(terms={"T": cf.div(k * cf.grad(u))}, unknown=u),
            k: cf.Library(anchor=k, terms={}, unknown=k),
        }
    )
    given = {
        "mesh": tagged,
        "elements": {u: ("Lagrange", 1), k: ("DG", 0)},
        "boundary": [cf.Dirichlet(u, 0)],
    }
    same = model(3, {"u/T": 1.0}, system, forcing={u: 1, k: means}, initial={k: means}, **given)
    assert mass(problem) == pytest.approx(mass(same), rel=1e-10)


FRONT = 1 + sp.tanh((x - 0.31) / 1e-3)
ROOT = sp.sqrt(sp.Abs(x - 0.31))


@pytest.mark.parametrize(
    ("expr", "exact"),
    [(FRONT, 1.38), (ROOT, (0.31**1.5 + 0.69**1.5) * 2 / 3)],
    ids=["front", "root"],
)
@pytest.mark.parametrize("cell", ["triangle", pytest.param("tetrahedron", marks=pytest.mark.slow)])
def test_errors_of_many_parts_do_not_add_up(expr, exact, cell):
    """A plane passes through thousands of parts; the error on all of them together counts."""
    assert integral(expr, unit(cell, 3).mesh, 0) == pytest.approx(exact, rel=1e-3)


def test_data_that_vary_too_fast_are_refused_with_what_is_known():
    few = replace(ACCURACY, parts=2000)
    domain = unit("tetrahedron", 2).mesh
    with pytest.raises(cf.InputError, match=r"varies too fast for this mesh.*only; refine"):
        moments(1 + sp.cos(200 * x), Cells(domain), 0, few)
    assert np.isfinite(moments(1 + sp.cos(2 * x), Cells(domain), 0, few)).all()


@pytest.mark.parametrize("degree", [1, 2])
@pytest.mark.parametrize("cell", ["interval", "quadrilateral"])
def test_a_peak_that_nodes_only_touch_starts_with_its_mass(cell, degree):
    """The nodes see a third of it in 1D, or half, and more than there is elsewhere."""
    space = (x, y)[: 1 + (cell != "interval")]
    peak = sp.exp(-sum((s - 0.47) ** 2 for s in space) / 8e-4)
    experiment = cf.Experiment(
        mesh=unit(cell, 7),
        elements={u: ("Lagrange", degree)},
        initial={u: peak},
        boundary=[],
        time=cf.Window(0, 0.1, steps=1),
    )
    library = cf.Library(anchor=cf.dt(u), terms={"u": -u})
    exact = (8e-4 * math.pi) ** (len(space) / 2)
    assert mass(cf.Model(library, {"u": 0.0}, experiment)) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("start", "exact"),
    [(BOX, 0.04), (sp.exp(-((x - 0.503) ** 2 + (y - 0.48) ** 2) / 1e-6), 1e-6 * math.pi)],
)
def test_initial_values_have_their_mass(start, exact):
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    problem = model(3, {"lap": 1.0}, library, initial={u: start}, time=cf.Window(0, 0.1, steps=1))
    assert mass(problem) == pytest.approx(exact, rel=1e-6)


def test_data_that_move_are_integrated_at_every_time():
    """u_t = lap u + f with f one where x < t: the mass at the end is ∫ t = 1/8, by a rule
    that is exact for it.
    """
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    moving = sp.Piecewise((1, x < cf.t), (0, True))
    window = cf.Window(0, 0.5, steps=4)
    problem = model(3, {"lap": 1.0}, library, initial={u: 0}, forcing={u: moving}, time=window)
    assert mass(problem) == pytest.approx(0.125, rel=1e-9)


def test_a_source_outside_of_the_domain_is_refused():
    with pytest.raises(cf.InputError, match="zero everywhere on this mesh"):
        mass(model(2, forcing={u: sp.Piecewise((1, x > 3), (0, True))}))


def test_smooth_data_stay_as_they_are_written():
    problem = model(
        6, forcing={u: sp.sin(x) * sp.exp(y) + sp.sin(2 * sp.pi * x) * sp.sin(2 * sp.pi * y)}
    )
    assert mass(problem) > 0
    assert not problem.discretisation.sharp._functions


@pytest.mark.parametrize(
    "cell", ["triangle", "quadrilateral", pytest.param("hexahedron", marks=pytest.mark.slow)]
)
def test_natural_data_have_their_integral_on_facets(cell):
    """With ∂u/∂n = g and 0 = lap u − u in a box ∫ u = ∮ g."""
    step, around = sp.Heaviside(x - 0.437), 2 * 0.563 + 1 if cell != "hexahedron" else 4 * 0.563 + 1
    assert mass(model(mesh=unit(cell, 2), boundary=[cf.Neumann(u, step)])) == pytest.approx(
        around, rel=1e-10
    )
    if cell == "triangle":
        peak = sp.exp(-((x - 0.503) ** 2 + y**2) / 1e-8)
        assert mass(model(2, boundary=[cf.Neumann(u, peak)])) == pytest.approx(
            1e-4 * math.sqrt(math.pi), rel=1e-6
        )


def test_moving_boundary_data_and_observables_on_the_boundary():
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)})
    given = {
        "initial": {u: 0},
        "time": cf.Window(0, 0.5, steps=4),
        "boundary": [cf.Neumann(u, sp.Heaviside(cf.t - x))],
    }
    problem = model(2, {"lap": 1.0}, library, **given)
    assert mass(problem) == pytest.approx(0.75, rel=1e-9)
    half = problem.measurement(cf.Average(sp.Heaviside(x - 0.437) + 0 * u, on="bottom")).value(
        problem.factual
    )
    assert half == pytest.approx(0.563, rel=1e-10)


@pytest.mark.parametrize(
    "peak",
    [sp.exp(-((x - 0.503) ** 2) / 1e-4), sp.Piecewise((1, sp.Abs(x - 0.4) < 0.01), (0, True))],
)
def test_boundary_values_between_the_nodes_are_refused(peak):
    with pytest.raises(cf.InputError, match=r"lies between the nodes of the mesh.*refine"):
        model(
            2,
            boundary=[
                cf.Dirichlet(u, peak, on="bottom"),
                cf.Neumann(u, 0, on=("left", "right", "top")),
            ],
        )
    step = cf.Dirichlet(u, sp.Heaviside(x - 0.4), on="bottom")
    assert mass(model(3, boundary=[step, cf.Neumann(u, 0, on=("left", "right", "top"))])) > 0
