"""Changed steady solutions lie on the branch that begins at the factual one; folds and
unstable solutions are said.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from dolfinx import fem
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import x, y
from cffem.engine.steady.steady_stability import stability

COMM = MPI.COMM_SELF
u, v, p = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.ScalarField("p")


def bistable(mesh=0.12, sign=1, start=None, unit=1.0):
    """0.01 Δu + u − u³ + 0.02: Newton's method from zero lands on a sign-changing solution."""
    terms = {
        "lap": sign * cf.lap(u),
        "bistable": sign * (u - u**3 / unit**2),
        "tilt": sp.Float(sign * unit),
    }
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, mesh) if isinstance(mesh, float) else mesh,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={} if start is None else {u: start},
    )
    return cf.Model(
        cf.Library(terms=terms, unknown=u), {"lap": 0.01, "bistable": 1.0, "tilt": 0.02}, experiment
    )


def by_hand(model, name, count=4):
    """The distance from the factual solution after a few steps of ρ, each started from the
    one before.
    """
    factual = model.factual
    before = factual.function(u)
    for k in range(1, count + 1):
        experiment = cf.Experiment(
            mesh=model.experiment.mesh,
            elements={u: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: before},
        )
        coefficients = {**model.coefficients, name: (1 - k / count) * model.coefficients[name]}
        before = cf.Model(model.library, coefficients, experiment).solve().function(u)
    difference = factual.function(u).x.array - before.x.array
    return model.norm()(difference)


def test_a_deleted_solution_lies_on_the_branch_of_the_factual_one():
    """From zero Newton's method finds the zero solution, at a distance of 0.148."""
    with bistable(0.08) as model:
        found = model.deletions(["tilt"])["tilt"]
        assert found.score == pytest.approx(0.0799734, rel=1e-4)
        assert found.score == pytest.approx(by_hand(model, "tilt"), rel=1e-8)
        assert "another branch crosses it" in found.record.notices[0]
        assert model.factual.norm() == pytest.approx(0.1476, rel=1e-3)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_branch_is_the_same_in_all_units(unit):
    with bistable() as model, bistable(unit=unit) as other:
        expected, found = (m.deletions(["tilt", "bistable"]) for m in (model, other))
        for name in expected:
            assert found[name].score == pytest.approx(unit * expected[name].score, rel=1e-8)


def test_an_unstable_factual_solution_is_said_and_a_stable_one_is_offered(caplog):
    with caplog.at_level(logging.WARNING), bistable() as model:
        told = model.factual.record.notices
        assert len(told) == 1
        assert "the factual solution is unstable: a perturbation of it grows" in told[0]
        assert "model.settled()" in caplog.text
        settled = model.settled()
    values = settled.function(u).x.array
    assert np.abs(values).max() > 0.9
    assert min(values.max(), -values.min()) == pytest.approx(0.0, abs=1e-9)  # of one sign
    with bistable(model.experiment.mesh, start=settled.function(u)) as model:
        assert model.factual.record.notices == []
        assert model.factual.norm() == pytest.approx(settled.norm(), rel=1e-9)
        assert model.settled().norm() == pytest.approx(settled.norm(), rel=1e-9)


def test_a_report_says_what_one_must_know_about_its_solutions():
    with bistable(0.2) as model:
        study = cf.Study(
            model.library,
            model.experiment,
            coefficients=model.coefficients,
            certification=cf.Certification(epsilon=0.1, relative=True, budget=1.0),
        )
        text = str(study.run())
    assert "Note: the factual solution is unstable" in text.replace("\n", " ")


def test_the_growth_rate_does_not_depend_on_the_sign_of_the_equation():
    rates = []
    for sign in (1, -1):
        with bistable(sign=sign) as model:
            rates.append(stability(model, model.factual.states[0]).rate)
    assert rates[0] == pytest.approx(rates[1], rel=1e-2)
    assert rates[0] > 0


def test_a_rate_is_that_of_the_linear_problem():
    """At u = 0 the equation is Δu + 30 u: its one growing mode is sin πx sin πy with the rate
    30 − 2π².
    """
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.1), elements={u: ("Lagrange", 2)}, boundary=[cf.Dirichlet(u, 0)]
    )
    with cf.Model(library, {"lap": 1.0, "u": 30.0, "cube": 1.0}, experiment) as model:
        found = stability(model, np.zeros(model.spaces.owned))
    assert found.rate == pytest.approx(30 - 2 * np.pi**2, rel=2e-2)
    with cf.Model(library, {"lap": 1.0, "u": 15.0, "cube": 1.0}, experiment) as model:
        assert stability(model, np.zeros(model.spaces.owned)).stable


def test_a_flow_at_rest_in_time_is_not_called_unstable():
    library = cf.Library(terms={"lap": cf.lap(v), "adv": -cf.dot(cf.grad(v), v)}, unknown=v)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.25),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, 0, on=("left", "right", "bottom")),
            cf.Dirichlet(v, (x * (1 - x), 0), on="top"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    with cf.Model(library, {"lap": 0.05, "adv": 1.0}, experiment) as model:
        assert model.factual.record.notices == []
        assert model.deletions(["adv"])["adv"].status == "solved"


@pytest.mark.parametrize(
    ("cell", "viscosity"), [("triangle", 0.79), ("triangle", 0.73), ("quadrilateral", 0.79)]
)
def test_a_slow_flow_with_a_free_outlet_is_not_called_unstable(cell, viscosity):
    """At a Reynolds number near one every perturbation decays; the pressure's zero
    eigenvalues must not count.
    """
    inflow = (
        0.58 * x**2 + 2.05 * x * y - 0.7 * x + 0.55 * y - 0.4,
        -0.23 * x**2 - 1.16 * x * y + 1.73 * x - 1.03 * y**2 + 0.7 * y + 1,
    )
    experiment = cf.Experiment(
        mesh=unit(cell, 2),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, inflow, on=("left", "bottom", "top")),
            cf.Neumann(v, (1 + x, y), on="right"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    library = cf.Library(
        terms={"viscosity": cf.lap(v), "drag": -v, "convection": -cf.dot(cf.grad(v), v)}, unknown=v
    )
    with cf.Model(
        library, {"viscosity": viscosity, "drag": 0.5, "convection": 0.18}, experiment
    ) as model:
        assert stability(model, model.solve().states[0]).stable


def test_a_fold_is_found_where_it_is():
    """u'' + λ eᵘ = 0 on (0, 1) has solutions up to λ = 3.5138."""
    library = cf.Library(terms={"lap": cf.lap(u), "heat": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 0.05),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    with cf.Model(library, {"lap": 1.0, "heat": 3.0}, experiment) as model:
        with pytest.raises(cf.SolveError, match="turns back there") as caught:
            model.solve(cf.set("heat", 3.6))
        assert caught.value.cause == "fold"
        reached = float(str(caught.value).split("ρ = ")[1].split()[0])
        assert 3.0 + 0.6 * reached == pytest.approx(3.5138, abs=5e-3)
        assert model.solve(cf.set("heat", 3.5)).norm() > model.factual.norm()


def test_other_changes_of_a_nonlinear_problem_start_at_the_factual_solution():
    with bistable(start=sp.sin(sp.pi * x) * sp.sin(sp.pi * y)) as model:
        assert model.factual.function(u).x.array.min() > -1e-9
        forced = model.solve(cf.force({u: 0.01})).function(u).x.array
    assert forced.min() > -1e-9
    assert forced.max() > 0.9


def test_a_failed_search_for_growing_modes_leaves_the_solution_as_it_is():
    """Fields that only follow others have equal eigenvalues, which LAPACK may fail to find."""
    v, q = cf.VectorField("v", dim=2), cf.VectorField("q", dim=2)
    system = cf.System(
        {
            v: cf.Library(anchor=v, terms={}, unknown=v),
            q: cf.Library(terms={"q": -q, "T": -cf.dot(cf.grad(v), v)}, unknown=q),
        }
    )
    flow = (sp.sin(2 * x + y), sp.cos(x - 3 * y))
    experiment = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={v: ("Lagrange", 1), q: ("Lagrange", 1)},
        boundary=[],
        forcing={v: flow},
        initial={v: flow},
    )
    model = cf.Model(system, {"q/q": 1.0, "q/T": 1.0}, experiment)
    w = model.factual.function(v)
    exact = fem.assemble_scalar(fem.form(-ufl.dot(ufl.grad(w[1]), w) * ufl.dx))
    found = model.measurement(cf.Integral(q[1])).value(model.factual)
    assert found == pytest.approx(exact, rel=1e-10)
    assert stability(model, model.factual.states[0]).stable
