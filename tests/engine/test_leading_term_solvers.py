"""Deleting the leading term leaves mass and transport: the presets then take another
preconditioner, with the scores of a direct solve and few iterations at any size.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
import cffem.engine.solve.presets as presets
from cffem import dt, lap, x, y


def heat(n, preset):
    u = cf.ScalarField("u")
    return cf.Model(
        cf.Library(anchor=dt(u), terms={"lap": lap(u), "u_x": u.diff(x)}),
        {"lap": 0.1, "u_x": -0.2},
        cf.Experiment(
            mesh=mesh.create_unit_square(MPI.COMM_WORLD, n, n),
            elements={u: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
            time=cf.Window(0, 0.1, steps=2),
        ),
        {"preset": preset},
    )


def flow(n, options, steady=False):
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    terms = {"lap": lap(v), "drag": v, "v_x": v.diff(x)}
    start = (
        sp.sin(sp.pi * x) ** 2 * sp.sin(2 * sp.pi * y),
        -sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y) ** 2,
    )
    given = (
        {"forcing": {v: (sp.sin(sp.pi * y), sp.sin(2 * sp.pi * x))}}
        if steady
        else {"initial": {v: start}, "time": cf.Window(0, 0.5, steps=3)}
    )
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_WORLD, n, n),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (0, 0))],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        **given,
    )
    library = (
        cf.Library(terms=terms, unknown=v) if steady else cf.Library(anchor=dt(v), terms=terms)
    )
    return cf.Model(library, {"lap": 0.05, "drag": -0.3, "v_x": 0.2}, experiment, options)


def test_what_is_left_is_known_by_its_terms():
    with heat(4, "amg") as model:
        model.equation.use(model.coefficients, {})
        assert model.equation.elliptic
        model.equation.use({"u_x": -0.2}, {})
        assert not model.equation.elliptic


def test_heat_without_diffusion():
    with heat(12, "direct") as direct, heat(12, "amg") as iterative, heat(48, "amg") as finer:
        wanted = direct.factual.distance(direct.solve(cf.delete("lap")))
        found = iterative.solve(cf.delete("lap"))
        assert iterative.factual.distance(found) == pytest.approx(wanted, rel=1e-8)
        more = finer.solve(cf.delete("lap"))
        assert found.record.solver == more.record.solver == "amg"
        assert more.record.iterations / more.record.solves < 12


def test_flow_without_viscosity():
    alone = cf.delete("lap", "v_x")
    with flow(8, {"preset": "direct"}, True) as direct, flow(8, {"preset": "stokes"}, True) as few:
        wanted = direct.factual.distance(direct.solve(alone))
        first = few.solve(alone)
        assert few.factual.distance(first) == pytest.approx(wanted, rel=1e-8)
    with flow(32, {"preset": "stokes"}, True) as many:
        last = many.solve(alone)
        assert last.record.iterations <= first.record.iterations + 3 <= 20


def test_scores_do_not_depend_on_what_was_deleted_before(monkeypatch):
    monkeypatch.setitem(presets.DIRECT_LIMIT, 2, 100)
    with flow(8, {"preset": "direct"}) as direct:
        wanted = {n: direct.factual.distance(direct.solve(cf.delete(n))) for n in direct.active}
    with flow(8, {}) as model:
        for name in ("drag", "v_x", "lap", "drag", "lap", "v_x"):
            changed = model.solve(cf.delete(name))
            assert changed.record.solver == "stokes"
            assert model.factual.distance(changed) == pytest.approx(wanted[name], rel=1e-8)
