"""Periodic sides of Nédélec, RT, BDM, serendipity and mixed spaces: waves, flows and induction on a
torus.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import fem
from engine_support import assert_order, error, unit
from mpi4py import MPI

import cffem as cf
from cffem import cross, curl, dot, dt, grad, lap, t, x, y, z

PLANE = [cf.Periodic("right", "left"), cf.Periodic("top", "bottom")]
SPACE = [*PLANE, cf.Periodic("back", "front")]
K = 2 * sp.pi
u = cf.ScalarField("u")
v, E = (cf.VectorField(name, dim=2) for name in "vE")
V, H = (cf.VectorField(name, dim=3) for name in "VH")


@pytest.mark.parametrize(
    ("cell", "family"),
    [
        *((cell, f) for cell in ("triangle", "tetrahedron") for f in ("N1curl", "RT")),
        ("triangle", "BDM"),
        ("tetrahedron", "N2curl"),
        ("quadrilateral", "RT"),
        ("hexahedron", "N1curl"),
    ],
)
def test_periodic_fields_are_left_as_they_are(cell, family):
    """The interpolant of a periodic field has equal traces on opposite sides, whatever the
    orientation of the facets; a field that is not periodic takes those of one side.
    """
    plane = cell in ("triangle", "quadrilateral")
    unknown, boundary = (v, PLANE) if plane else (V, SPACE)
    experiment = cf.Experiment(
        mesh=unit(cell, 3),
        elements={unknown: (family, 2)},
        boundary=boundary,
        initial={unknown: (0,) * unknown.dim},
        time=cf.Window(0, 1, steps=1),
    )
    model = cf.Model(cf.Library(dt(unknown), {"a": -unknown}), {"a": 1.0}, experiment)
    spaces, identified = model.discretisation.spaces, model.discretisation.periodicity
    function = fem.Function(spaces.own(unknown)[0])

    def waves(p):
        found = [np.sin(2 * np.pi * (p[(i + 1) % unknown.dim] + p[i])) for i in range(unknown.dim)]
        return np.array(found) + np.cos(2 * np.pi * p[0])

    function.interpolate(waves)
    before = function.x.array.copy()
    after = before.copy()
    identified.spread(after)
    assert len(identified.slaves) > 0
    assert np.abs(after - before).max() < 1e-12 * np.abs(before).max()
    function.interpolate(lambda p: waves(p) * (1 + p[0]))
    moved = function.x.array.copy()
    identified.spread(moved)
    assert np.abs(moved - function.x.array).max() > 1e-3
    again = moved.copy()
    identified.spread(again)
    assert np.abs(again - moved).max() < 1e-12


def maxwell_on_a_torus(n, steps, cell="triangle", comm=MPI.COMM_SELF):
    """E = (0, cos k(x − t)), H = cos k(x − t): a plane wave."""
    wave = sp.cos(K * (x - t))
    system = cf.System(
        {
            E: cf.Library(anchor=dt(E), terms={"curl": curl(u)}),
            u: cf.Library(anchor=dt(u), terms={"curl": -curl(E)}),
        }
    )
    experiment = cf.Experiment(
        mesh=unit(cell, n, comm),
        elements={E: ("N1curl", 2), u: ("DG", 1)},
        boundary=PLANE,
        initial={E: (0, wave.subs(t, 0)), u: wave.subs(t, 0)},
        time=cf.Window(0, 0.5, steps=steps, scheme="midpoint"),
    )
    model = cf.Model(system, {"E/curl": 1.0, "u/curl": 1.0}, experiment)
    return model, {E: (0, wave), u: wave}


@pytest.mark.parametrize("cell", ["triangle", "quadrilateral"])
def test_a_plane_wave_of_maxwell_travels_around(cell):
    errors = []
    for n in (6, 12):
        model, exact = maxwell_on_a_torus(n, 5 * n, cell)
        found = model.solve()
        errors.append(error(found.function(u), exact[u], 0.5))
        assert error(found.function(E), exact[E], 0.5) < errors[-1]
    assert_order(errors, 2)


def taylor_green(n, element, terms, comm=MPI.COMM_SELF):
    """The vortices decay by themselves: their convection is a gradient."""
    nu, end = 0.02, 0.1
    decay = sp.exp(-2 * nu * K**2 * t)
    flow = (sp.sin(K * x) * sp.cos(K * y) * decay, -sp.cos(K * x) * sp.sin(K * y) * decay)
    experiment = cf.Experiment(
        mesh=unit("triangle", n, comm),
        elements={v: element},
        boundary=PLANE,
        initial={v: tuple(c.subs(t, 0) for c in flow)},
        constraint=cf.Constraint(cf.div(v)),
        time=cf.Window(0, end, steps=n),
    )
    library = cf.Library(anchor=dt(v), terms=terms)
    coefficients = {"viscosity": nu, "convection": 1.0}
    model = cf.Model(library, {name: coefficients[name] for name in terms}, experiment)
    return model, flow, end


VISCOSITY = {"viscosity": lap(v)}
CONVECTION = {"convection": -dot(grad(v), v)}


@pytest.mark.parametrize(
    ("element", "terms", "order"),
    [
        (("Lagrange", 2), VISCOSITY | CONVECTION, 2),
        (("RT", 2), VISCOSITY, 2),
        (("BDM", 1), VISCOSITY, 2),
    ],
)
def test_taylor_green_vortices_decay(element, terms, order):
    errors = []
    for n in (6, 12):
        model, flow, end = taylor_green(n, element, terms)
        errors.append(error(model.solve().function(v), flow, end))
    assert_order(errors, order)


def test_fluxes_between_cells_are_still_refused():
    with pytest.raises(cf.InputError, match="not carried across periodic sides"):
        taylor_green(3, ("RT", 1), VISCOSITY | CONVECTION)


ABC = (
    sp.sin(K * z) + 0.5 * sp.cos(K * y),
    0.8 * sp.sin(K * x) + sp.cos(K * z),
    0.5 * sp.sin(K * y) + 0.8 * sp.cos(K * x),
)


def beltrami(n, unknown, element, term, rate, constraint=None, comm=MPI.COMM_SELF):
    """A field with curl F = k F, which decays with a rate of its own."""
    experiment = cf.Experiment(
        mesh=unit("tetrahedron", n, comm),
        elements={unknown: element},
        boundary=SPACE,
        initial={unknown: ABC},
        constraint=constraint,
        time=cf.Window(0, 0.5 / rate, steps=6),
    )
    model = cf.Model(cf.Library(anchor=dt(unknown), terms={"a": term}), {"a": 1.0}, experiment)
    return error(model.solve().function(unknown), tuple(np.exp(-0.5) * c for c in ABC)), model


def test_the_flow_of_arnold_beltrami_and_childress_decays():
    """Viscosity, curl curl on RT, under a divergence constraint in a periodic cube."""
    rate = float((2 * sp.pi) ** 2)
    found = [beltrami(n, V, ("RT", 1), lap(V), rate, cf.Constraint(cf.div(V)))[0] for n in (3, 6)]
    assert found[1] < 0.62 * found[0]


def test_induction_in_a_periodic_cube():
    """dt B = curl(v × B) − curl curl B with v = B's own ABC flow, whose v × B vanishes."""
    wind = cf.vector(*ABC)
    rate = float((2 * sp.pi) ** 2)
    found = [
        beltrami(n, H, ("N1curl", 1), curl(cross(wind, H)) - curl(curl(H)), rate)[0] for n in (3, 6)
    ]
    assert found[1] < 0.62 * found[0]


def scores_on(comm):
    """Deletion scores of both problems, printed by rank 0."""
    model, _ = maxwell_on_a_torus(4, 4, comm=comm)
    scores = [d.score for d in model.deletions(conditions="kept").deletions.values()]
    model, *_ = taylor_green(4, ("RT", 2), VISCOSITY, comm)
    scores += [d.score for d in model.deletions().deletions.values()]
    if comm.rank == 0:
        print("scores", *scores)
    return scores


def test_ranks_agree(on_ranks):
    alone = scores_on(MPI.COMM_SELF)
    for ranks in (2, 3):
        text = on_ranks(ranks, scores_on).split("scores ")[1].split()[: len(alone)]
        assert np.allclose(np.array(text, dtype=float), alone, rtol=1e-9)
