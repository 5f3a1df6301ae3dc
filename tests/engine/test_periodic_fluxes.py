"""Discontinuous fields across periodic sides, in one, two and three dimensions."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from engine_support import assert_order, error, unit
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x, y, z
from cffem.engine.mesh.wrapped import wrapped

u, w = cf.ScalarField("u"), cf.ScalarField("w")
slow = pytest.mark.slow
SIDES = [
    cf.Periodic(on="right", to="left"),
    cf.Periodic(on="top", to="bottom"),
    cf.Periodic(on="front", to="back"),
]
DIMENSION = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}


def travelling(cell, n, degree, steps=20, comm=MPI.COMM_SELF):
    """A wave that is carried along all axes and decays, and how far it is from the exact one."""
    dim = DIMENSION[cell]
    axes = (x, y, z)[:dim]
    exact = sp.exp(-dim * 4 * sp.pi**2 * t / 50)
    for s in axes:
        exact *= sp.sin(2 * sp.pi * (s - t))
    library = cf.Library(
        anchor=dt(u), terms={"adv": -sp.Add(*(u.diff(s) for s in axes)), "d": lap(u)}
    )
    experiment = cf.Experiment(
        mesh=unit(cell, n, comm),
        elements={u: ("DG", degree)},
        initial={u: exact.subs(t, 0)},
        boundary=SIDES[:dim],
        time=cf.Window(0, 0.1, steps=steps),
    )
    model = cf.Model(library, {"adv": 1.0, "d": 0.02}, experiment)
    return model, lambda: error(model.factual.function(u), exact.subs(t, sp.Rational(1, 10)))


@pytest.mark.parametrize(
    ("cell", "sizes"),
    [
        ("interval", (16, 32)),
        ("triangle", (8, 16)),
        pytest.param("quadrilateral", (8, 16), marks=slow),
        pytest.param("tetrahedron", (6, 10), marks=slow),
        pytest.param("hexahedron", (4, 8), marks=slow),
    ],
)
def test_a_wave_goes_round(cell, sizes):
    """With order two on linear elements, against the exact solution. The initial values of both
    meshes are projected, or both are interpolated: a change from the one to the other in between
    hides the order.
    """
    assert_order([travelling(cell, n, 1)[1]() for n in sizes], 1.7, sizes[1] / sizes[0])


def test_a_step_goes_round_and_keeps_its_bounds_and_its_mean():
    experiment = cf.Experiment(
        mesh=unit("interval", 40),
        elements={u: ("DG", 0)},
        initial={u: sp.Piecewise((1, sp.And(x > 0.2, x < 0.5)), (0, True))},
        boundary=SIDES[:1],
        time=cf.Window(0, 1, steps=80, scheme="backward-euler"),
    )
    model = cf.Model(cf.Library(anchor=dt(u), terms={"adv": -u.diff(x)}), {"adv": 1.0}, experiment)
    values = model.factual.function().x.array
    assert -1e-12 <= values.min() <= values.max() <= 1 + 1e-12
    assert values.mean() == pytest.approx(0.3, abs=1e-12)


def test_continuous_fields_beside_are_periodic_as_well():
    """A Lagrange field in the same state agrees with one that is identified by elimination."""

    def solved(elements):
        equations = {w: cf.Library(anchor=dt(w), terms={"d": lap(w), "adv": -w.diff(x)})}
        equations |= (
            {u: cf.Library(anchor=dt(u), terms={"adv": -u.diff(x)})} if u in elements else {}
        )
        experiment = cf.Experiment(
            mesh=unit("triangle", 4),
            elements=elements,
            initial={f: sp.sin(2 * sp.pi * x) + sp.cos(2 * sp.pi * y) for f in elements},
            boundary=SIDES[:2],
            time=cf.Window(0, 0.1, steps=2),
        )
        system = cf.System(equations)
        model = cf.Model(system, dict.fromkeys(system.names, 0.5), experiment)
        return model.measurement(cf.Energy(w, at="end")).value(model.factual)

    beside = solved({w: ("Lagrange", 2), u: ("DG", 1)})
    assert beside == pytest.approx(solved({w: ("Lagrange", 2)}), rel=1e-12)


def test_other_sides_keep_their_names_and_conditions():
    domain = unit("triangle", 4)
    joined = wrapped(domain, SIDES[:1])
    assert "left" not in joined.names
    assert len(joined.facet_tags.find(joined.names["top"][1])) == 4
    assert joined.mesh.topology.index_map(1).size_global == 4 * 4 * 3 + 8 - 4


def test_few_cells_are_refused():
    with pytest.raises(cf.InputError, match="at least three cells from side to side"):
        travelling("triangle", 2, 1)


def scores(comm):
    model, _ = travelling("triangle", 4, 1, 4, comm)
    found = {name: d.score for name, d in model.deletions().deletions.items()}
    if comm.rank == 0:
        print("scores", json.dumps(found))
    return found


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=slow)])
def test_scores_do_not_depend_on_ranks(ranks, on_ranks):
    here = scores(MPI.COMM_SELF)
    assert json.loads(on_ranks(ranks, scores).split("scores ")[1]) == pytest.approx(here, rel=1e-8)


def test_tangents_are_right():
    model, _ = travelling("interval", 8, 1, 4)
    assert cf.taylor_linearised(model, "adv").passed()
    assert np.isfinite(model.observable_scores(cf.Integral(u**2, at="end")).signed["d"])
