"""After a deletion an equation keeps the essential conditions that it can carry; then deleted
problems converge.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from dolfinx.mesh import (
    CellType,
    create_interval,
    create_unit_cube,
    create_unit_interval,
    create_unit_square,
)
from mpi4py import MPI

import cffem as cf
from cffem import dot, dt, grad, lap, t, x, y
from cffem.symbols.errors import LibraryError

u = cf.ScalarField("u")


def model(domain, terms, coefficients, start, end=0.5, steps=40, degree=1, value=0):
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, value)],
        initial={u: start},
        time=cf.Window(0, end, steps=steps),
    )
    return cf.Model(cf.Library(anchor=dt(u), terms=terms), coefficients, experiment)


def error(solution, exact):
    """The L2 distance of the last level to a UFL expression of the coordinates."""
    function = solution.function(k=-1)
    place = ufl.SpatialCoordinate(function.function_space.mesh)
    form = fem.form((function - exact(place)) ** 2 * ufl.dx(degree=8))
    return np.sqrt(function.function_space.mesh.comm.allreduce(fem.assemble_scalar(form)))


def rates(errors):
    return [float(np.log2(a / b)) for a, b in itertools.pairwise(errors)]


def test_transport_keeps_its_inflow_and_converges_in_the_line():
    """u_t = 0.3 u − 0.5 u_x from a smooth hump that leaves on the right."""
    terms, coefficients = (
        {"r": u, "ux": u.diff(x), "lap": lap(u)},
        {"r": 0.3, "ux": -0.5, "lap": 0.02},
    )
    start = sp.exp(-60 * (x - sp.Rational(7, 10)) ** 2)
    errors, kept = [], []
    for n in (25, 50, 100):
        own = model(
            create_unit_interval(MPI.COMM_SELF, n),
            terms,
            coefficients,
            start,
            steps=4 * n,
            degree=1,
        )
        sweep = own.deletions(["lap"], keep=True)
        exact = lambda p: ufl.exp(0.3 * 0.5) * ufl.exp(-60 * (p[0] - 0.25 - 0.7) ** 2)  # noqa: E731
        errors.append(error(sweep["lap"].solution, exact))
        kept.append(error(own.solve(cf.delete("lap", conditions="kept")), exact))
        assert "released on" in sweep["lap"].conditions
    assert min(rates(errors)) > 1.5
    assert errors[-1] < 5e-3
    assert min(kept) > 0.1, "with all values kept the wave is reflected on every mesh"


@pytest.mark.parametrize("cell", [CellType.triangle, CellType.quadrilateral])
def test_transport_in_the_plane_meets_the_exact_solution(cell):
    """u_t = 0.5 u − 0.3 u_x without 0.02 Δu; the start vanishes with its normal derivative at
    the inflow.
    """
    terms, coefficients = (
        {"r": u, "ux": u.diff(x), "lap": lap(u)},
        {"r": 0.5, "ux": -0.3, "lap": 0.02},
    )
    start = sp.sin(sp.pi * x) ** 2 * sp.cos(y)
    shift = 0.3 * 0.5

    def exact(p):
        wave = ufl.exp(0.25) * ufl.sin(ufl.pi * (p[0] - shift)) ** 2 * ufl.cos(p[1])
        return ufl.conditional(ufl.gt(p[0], shift), wave, 0.0)

    errors = []
    for n in (8, 16, 32):
        own = model(
            create_unit_square(MPI.COMM_SELF, n, n, cell), terms, coefficients, start, degree=1
        )
        errors.append(error(own.solve(cf.delete("lap")), exact))
    assert min(rates(errors)) > 1.5


def test_transport_in_space():
    terms = {"ux": u.diff(x), "uz": u.diff(cf.z), "lap": lap(u)}
    start = sp.sin(sp.pi * x) ** 2 * sp.sin(sp.pi * cf.z) ** 2

    def exact(p):
        inside = ufl.And(ufl.gt(p[0], 0.1), ufl.lt(p[2], 0.9))
        return ufl.conditional(
            inside, ufl.sin(ufl.pi * (p[0] - 0.1)) ** 2 * ufl.sin(ufl.pi * (p[2] + 0.1)) ** 2, 0.0
        )

    errors = []
    for n in (4, 8):
        own = model(
            create_unit_cube(MPI.COMM_SELF, n, n, n),
            terms,
            {"ux": -0.5, "uz": 0.5, "lap": 0.05},
            start,
            0.2,
            10,
            degree=2,
        )
        errors.append(error(own.solve(cf.delete("lap")), exact))
    assert rates(errors)[0] > 1.5


def test_a_reaction_keeps_no_values():
    """u_t = −2 u at each point, whatever the boundary said."""
    terms, coefficients = {"r": u, "lap": lap(u)}, {"r": -2.0, "lap": 0.1}
    own = model(
        create_unit_square(MPI.COMM_SELF, 6, 6),
        terms,
        coefficients,
        1 + x * y,
        steps=60,
        degree=2,
        value=1,
    )
    assert error(own.solve(cf.delete("lap")), lambda p: np.exp(-1.0) * (1 + p[0] * p[1])) < 1e-4


def test_diffusion_in_one_direction_keeps_the_walls_that_it_meets():
    terms = {"xx": u.diff(x, 2), "yy": u.diff(y, 2)}
    own = model(
        create_unit_square(MPI.COMM_SELF, 8, 8),
        terms,
        {"xx": 0.1, "yy": 0.1},
        (1 + x) * sp.sin(sp.pi * y),
        steps=40,
        degree=2,
    )
    found = own.deletions(["xx"], keep=True)["xx"]
    assert (
        error(
            found.solution,
            lambda p: np.exp(-0.1 * np.pi**2 * 0.5) * (1 + p[0]) * ufl.sin(ufl.pi * p[1]),
        )
        < 2e-3
    )
    assert own.deletions(["yy"])["yy"].status == "solved"


def test_where_the_coefficient_of_diffusion_vanishes_transport_decides():
    """div(x(1 − x) u_x) is degenerate at both ends, where −0.3 u_x leaves one inflow."""
    terms = {"degenerate": cf.div(x * (1 - x) * grad(u)), "ux": u.diff(x), "lap": lap(u)}
    own = model(
        create_unit_interval(MPI.COMM_SELF, 10),
        terms,
        {"degenerate": 0.1, "ux": -0.3, "lap": 0.1},
        sp.sin(sp.pi * x),
    )
    released = own.release(cf.delete("lap"))
    kept = {
        float(own.discretisation.mesh.geometry.x[f, 0])
        for _, facets in released.kept[0]
        for f in facets
    }
    assert kept == {0.0}


def test_transport_by_the_solution_itself_is_judged_at_the_prescribed_values():
    terms, coefficients = {"burgers": -u * u.diff(x), "lap": lap(u)}, {"burgers": 1.0, "lap": 0.05}
    own = model(
        create_unit_interval(MPI.COMM_SELF, 20),
        terms,
        coefficients,
        1 + x * (1 - x),
        end=0.1,
        steps=10,
        value=1,
    )
    released = own.release(cf.delete("lap"))
    ((_, facets),) = released.kept[0]
    assert len(facets) == 1, "u = 1 enters on the left and leaves on the right"


def test_a_field_that_another_one_transports():
    v, T = cf.VectorField("v", dim=2), cf.ScalarField("T")
    library = cf.System(
        {
            v: cf.Library(anchor=dt(v), terms={"drag": -v, "viscosity": lap(v)}),
            T: cf.Library(
                anchor=dt(T), terms={"convection": -dot(v, grad(T)), "conduction": lap(T)}
            ),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={v: ("Lagrange", 2), T: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (y * (1 - y), 0)), cf.Dirichlet(T, 0)],
        initial={v: (y * (1 - y), 0), T: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        time=cf.Window(0, 0.1, steps=4),
    )
    own = cf.Model(
        library,
        {"v/drag": 1.0, "v/viscosity": 0.1, "T/convection": 1.0, "T/conduction": 0.1},
        experiment,
    )
    released = own.release(cf.delete("T/conduction"))
    assert [*released.kept] == [1]
    assert "left" not in released.sentence
    assert "right" in released.sentence
    assert own.release(cf.delete("v/drag")) is None
    assert own.deletions(["T/conduction", "v/viscosity"])["T/conduction"].status == "solved"


def vortex_without_viscosity(h):
    """A steady Euler vortex that drag slows down: flows through and along the walls, and the
    distance to the exact one.
    """
    v = cf.VectorField("v", dim=2)
    library = cf.Library(
        anchor=dt(v), terms={"viscosity": lap(v), "convection": -dot(grad(v), v), "drag": -v}
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, h),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (0, 0))],
        initial={
            v: (sp.sin(sp.pi * x) * sp.cos(sp.pi * y), -sp.cos(sp.pi * x) * sp.sin(sp.pi * y))
        },
        constraint=cf.DivergenceFree(v),
        time=cf.Window(0, 0.1, steps=4),
    )
    own = cf.Model(library, {"viscosity": 0.01, "convection": 1.0, "drag": 0.5}, experiment)
    found = own.deletions(["viscosity"], keep=True)["viscosity"]
    assert "tangential" in found.conditions
    final = found.solution.function(k=-1)
    px, py = ufl.SpatialCoordinate(final.function_space.mesh)
    n = ufl.FacetNormal(final.function_space.mesh)
    decay, pi = float(np.exp(-0.05)), ufl.pi
    off = final - decay * ufl.as_vector(
        (ufl.sin(pi * px) * ufl.cos(pi * py), -ufl.cos(pi * px) * ufl.sin(pi * py))
    )
    forms = (
        ufl.dot(final, n) ** 2 * ufl.ds,
        ufl.dot(final, ufl.perp(n)) ** 2 * ufl.ds,
        ufl.inner(off, off) * ufl.dx,
    )
    through, along, squared = (fem.assemble_scalar(fem.form(form)) for form in forms)
    return through, along, float(np.sqrt(squared))


def test_flow_without_viscosity_keeps_the_normal_component():
    (_, _, coarse), (through, along, fine) = (
        vortex_without_viscosity(0.25),
        vortex_without_viscosity(0.1),
    )
    assert through < 1e-20
    assert along == pytest.approx(4 * 0.5 * np.exp(-0.1), rel=2e-2)
    assert np.log(coarse / fine) / np.log(0.25 / 0.1) > 1.5


def test_waves_keep_their_values():
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x), dt(u): 0},
        time=cf.Window(0, 0.2, steps=4),
    )
    own = cf.Model(library, {"lap": 1.0, "u": -1.0}, experiment)
    assert own.release(cf.delete("lap")) is None


def test_factual_problems_and_scaled_terms_keep_what_was_declared():
    own = model(
        create_unit_interval(MPI.COMM_SELF, 8),
        {"lap": lap(u), "ux": u.diff(x)},
        {"ux": -1.0},
        sp.sin(sp.pi * x),
    )
    assert own.release(cf.delete("lap", conditions="kept")) is None
    assert own.release(cf.scale("lap", 0.0)) is None
    with pytest.raises(LibraryError, match="'carried' or 'kept'"):
        cf.delete("lap", conditions="some")


def test_transport_that_turns_in_time_keeps_both_ends():
    terms = {"ux": sp.cos(2 * sp.pi * t) * u.diff(x), "lap": lap(u)}
    own = model(
        create_unit_interval(MPI.COMM_SELF, 8),
        terms,
        {"ux": -1.0, "lap": 0.1},
        sp.sin(sp.pi * x),
        end=1.0,
    )
    assert own.release(cf.delete("lap")) is None


def test_units_of_length_do_not_matter():
    scores = []
    for size in (1e-6, 1.0, 1e6):
        terms = {"r": u, "ux": u.diff(x), "lap": lap(u)}
        own = model(
            create_interval(MPI.COMM_SELF, 20, [0.0, size]),
            terms,
            {"r": 0.5, "ux": -0.3 * size, "lap": 0.02 * size**2},
            sp.sin(sp.pi * x / size),
        )
        scores.append(own.deletions(["lap"])["lap"].score / np.sqrt(size))
    assert scores == pytest.approx([scores[1]] * 3, rel=1e-8)


def score_on(comm):
    """The score without diffusion, printed by rank 0."""
    own = model(
        create_unit_square(comm, 10, 10),
        {"r": u, "ux": u.diff(x), "lap": lap(u)},
        {"r": 0.5, "ux": -0.3, "lap": 0.02},
        sp.sin(sp.pi * x) * sp.sin(sp.pi * y),
        steps=10,
    )
    score = own.deletions(["lap"], groups=1)["lap"].score
    if comm.rank == 0:
        print(f"score {score:.16e}")


@pytest.mark.mpi
def test_the_same_conditions_are_released_on_any_number_of_ranks(on_ranks):
    found = [float(on_ranks(ranks, score_on).split("score ")[1].split()[0]) for ranks in (1, 2, 3)]
    assert found == pytest.approx([found[0]] * 3, rel=1e-10)
