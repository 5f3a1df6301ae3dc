"""Guaranteed bounds for parabolic problems with variable coefficients, weights and any boundary, on
intervals, and with given values that elements do not take on."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_bench import variable_outcome
from benchmarks.certify.certify_evolving import evolving_outcome, evolving_problem
from benchmarks.certify.certify_variable import distance, named_box, u
from cffem.bounds import NoCertificate, certify_deletion, certify_solution
from cffem.bounds.entrance import certify_sweep
from cffem.bounds.evolving.evolving_bounds import VariableParabolicCertifier
from cffem.bounds.later_bars import LaterBars
from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
from cffem.symbols import t, x, y

HEAT = {"diffusion": cf.div(sp.exp(x) * cf.grad(u)), "drift": -u.diff(x), "u": -(1 + y) * u}
MIXED = [
    cf.Dirichlet(u, 0, on="left"),
    cf.Neumann(u, sp.cos(x) * sp.sin(3 * t), on="top"),
    cf.Robin(u, 2, on="right", coefficient=1 + y),
    cf.Neumann(u, 0, on="bottom"),
]


def posed(
    n, degree=1, terms=HEAT, boundary=MIXED, forcing=1 + x, weight=1 + x, steps=6, scheme="sdirk2"
):
    experiment = cf.Experiment(
        mesh=named_box(2, n, 0.0, 0.0),
        elements={u: ("Lagrange", degree)},
        boundary=boundary,
        forcing={u: forcing},
        initial={u: 0},
        time=cf.Window(0, 0.3, steps, scheme=scheme),
    )
    library = cf.Library(anchor=weight * cf.dt(u), terms=terms)
    return cf.Model(library, dict.fromkeys(terms, 1.0), experiment)


@pytest.mark.parametrize(("seed", "dim"), [(1, 1), (5, 1), (22, 2)])
def test_random_cases_are_covered(seed, dim):
    random = np.random.default_rng(seed)
    problem = evolving_problem(random, dim)
    for _ in range(2):
        outcome = evolving_outcome("parabolic", problem, random)
        assert not isinstance(outcome, str), outcome
        assert outcome.kind == "guaranteed"
        assert outcome.covered, outcome
        assert not any(wrong for wrong, _, _ in outcome.decisions())


@pytest.mark.slow
@pytest.mark.parametrize(("dim", "corner"), [(1, False), (2, False), (2, True), (3, False)])
def test_many_random_cases_are_covered(dim, corner):
    random, found = np.random.default_rng([4, dim, corner]), []
    for _ in range(8):
        problem = evolving_problem(random, dim, corner)
        try:
            found += [evolving_outcome("parabolic", problem, random) for _ in range(3)]
        except cf.InputError:
            continue
    certified = [outcome for outcome in found if not isinstance(outcome, str)]
    assert len(certified) > 5
    assert all(outcome.covered for outcome in certified)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_steady_problems_on_intervals_are_covered(seed):
    random, outcome = np.random.default_rng(seed), None
    while outcome is None:
        outcome = variable_outcome(random, 1)
    assert outcome.kind == "guaranteed"
    assert outcome.covered, outcome


def test_constant_coefficients_give_nearly_the_bounds_of_their_own_class():
    terms = {"lap": cf.lap(u), "u": -3 * u}
    zero = [cf.Dirichlet(u, 0)]
    problem = posed(5, 2, terms, zero, sp.sin(3 * x + y) * sp.cos(t), sp.S.One)
    general, plain = VariableParabolicCertifier(problem), ParabolicCertifier(problem)
    ours, theirs = general.deletion("u"), plain.deletion("u")
    for name in ("eta_factual", "eta_counterfactual", "difference"):
        assert 1 < getattr(ours, name) / getattr(theirs, name) < 2


def test_deletions_of_drift_and_diffusion_are_covered_by_a_reference():
    """What leaves through a free boundary, and a part of the diffusion, by the energy of the
    error."""
    terms = {**HEAT, "more": cf.div(y * cf.grad(u))}
    walls = [
        cf.Dirichlet(u, 0, on="left"),
        cf.Neumann(u, sp.cos(x), on="top"),
        cf.Neumann(u, 0, on=("bottom", "right")),
    ]
    problem = posed(6, 1, terms, walls)
    fine = posed(8, 3, terms, walls, steps=24)
    exact = fine.deletions(["drift", "more", "u"])
    for name in ("drift", "more", "u"):
        for norm in ("L2", "H1"):
            bound = certify_deletion(problem, name, norm)
            assert bound.certificate.kind == "guaranteed"
            true = fine.factual.distance(fine.solve(cf.delete(name)), norm)
            assert abs(bound.score - true) <= bound.margin
            assert math.isfinite(bound.difference)
        assert abs(problem.deletions([name])[name].score - exact[name].score) <= bound.margin


def test_bars_beyond_the_effort_come_after_estimates_for_terms_that_are_left_open(monkeypatch):
    """Whichever comes first, bars cover the score of a finer discretisation and agree."""
    monkeypatch.setattr("cffem.bounds.later_bars.SMALL", 0.0)  # a large study in little
    terms = {
        "diffusion": cf.div((1 + x) * cf.grad(u)),
        "drift": -0.2 * u.diff(x),
        "u": -(1 + y) * u,
    }
    library = cf.Library(anchor=cf.dt(u), terms=terms)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.1),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        time=cf.Window(0, 0.2, 8),
    )
    problem = cf.Model(library, dict.fromkeys(terms, 1.0), experiment)
    names = ["u"]
    sweep = problem.deletions(names)
    kinds = {}
    for effort in (4.0, 100.0):
        asked = cf.Certification(1e-4, effort=effort)
        found = certify_sweep(problem, sweep, asked)
        kinds[effort] = {found[name].certificate.kind for name in names}
        kinds[effort, "scores"] = [found[name].score for name in names]
        margins = [found[name].margin for name in names]
        assert all(m < abs(s - 1e-4) for m, s in zip(margins, kinds[effort, "scores"], strict=True))
    assert kinds[4.0] == {"estimated"}
    assert kinds[100.0] == {"guaranteed"}
    assert kinds[4.0, "scores"] == pytest.approx(kinds[100.0, "scores"], rel=1e-12)
    # An ε that no estimate is clear of: the guaranteed bar is tried, as far as the effort goes.
    near = cf.Certification(float(sweep["u"].score) * (1 + 1e-9))
    later = LaterBars(problem, near)
    assert later.postponed
    assert later.price > near.effort
    assert later.affordable()
    assert not isinstance(certify_sweep(problem, sweep, near)["u"], NoCertificate)


def test_errors_at_the_end_are_bounded():
    """|∫ x (d − d_h)| ≤ ‖x‖ ‖d − d_h‖ at the end."""
    observable = cf.Integral(u * x, at="end")
    coarse, fine = posed(6, 2, steps=8), posed(8, 3, steps=32)
    bound = cf.certify_observable(coarse, observable, ["u"])["u"]
    exact = fine.observable_deletions(observable, ["u"])["u"].score
    assert abs(bound.score - exact) <= bound.margin
    found = VariableParabolicCertifier(coarse)
    end = found.deletion_at("u", coarse.solve(cf.delete("u")), 8)
    assert abs(bound.score - exact) <= math.sqrt(1 / 3) * end < 1


def test_given_values_of_any_kind_keep_the_power_of_h():
    exact = sp.sin(2 * x + y) + sp.exp(-y)
    walls = [
        cf.Dirichlet(u, exact, on=("left", "bottom")),
        cf.Robin(u, (exact.diff(x) + exact).subs(x, 1), on="right", coefficient=1),
        cf.Neumann(u, exact.diff(y).subs(y, 1), on="top"),
    ]
    for degree, least in ((1, 1.6), (2, 2.6)):
        margins = []
        for n in (4, 8):
            experiment = cf.Experiment(
                mesh=named_box(2, n, 0.0, 0.0),
                elements={u: ("Lagrange", degree)},
                boundary=walls,
                forcing={u: exact - exact.diff(x, 2) - exact.diff(y, 2)},
            )
            terms = {"lap": cf.lap(u), "u": -u}
            problem = cf.Model(
                cf.Library(terms=terms, unknown=u), dict.fromkeys(terms, 1.0), experiment
            )
            found = certify_solution(problem)
            case = dataclasses.make_dataclass("Case", ["model"])(problem)
            assert found.kind == "guaranteed"
            assert distance(case, [(1, problem.factual)], exact) <= found.value
            margins.append(found.value)
        assert math.log2(margins[0] / margins[1]) > least


def test_a_lid_that_meets_walls_at_rest_is_covered():
    """sin(πx) on one side and zero on the others; u = sin(πx) sinh(πy)/sinh(π)."""
    exact = sp.sin(sp.pi * x) * sp.sinh(sp.pi * y) / sp.sinh(sp.pi)
    for degree in (1, 2):
        experiment = cf.Experiment(
            mesh=named_box(2, 6, 0.0, 0.0),
            elements={u: ("Lagrange", degree)},
            boundary=[
                cf.Dirichlet(u, sp.sin(sp.pi * x), on="top"),
                cf.Dirichlet(u, 0, on=("left", "right", "bottom")),
            ],
        )
        problem = cf.Model(
            cf.Library(terms={"lap": cf.lap(u)}, unknown=u), {"lap": 1.0}, experiment
        )
        found = certify_solution(problem)
        assert found.kind == "guaranteed"
        case = dataclasses.make_dataclass("Case", ["model"])(problem)
        error = distance(case, [(1, problem.factual)], exact)
        assert error <= found.value < 60 * error


def test_materials_by_subdomain_are_those_of_the_formula():
    """Weight and diffusion that jump between named cells, and the Piecewise that says the same."""
    k, half = cf.Known("k"), sp.Rational(1, 2)
    square = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
    parts = {"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9}
    domain = cf.mesh.named(square, cells=parts)
    bounds = []
    for known, value in (
        ({k: {"glass": 2.25, "air": 1.0}}, k),
        ({}, sp.Piecewise((2.25, x < half), (1, True))),
    ):
        experiment = cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", 1)},
            boundary=[cf.Robin(u, 1, coefficient=0.5)],
            forcing={u: x},
            initial={u: 0},
            known=known,
            time=cf.Window(0, 0.2, 4),
        )
        terms = {"diffusion": cf.div(value * cf.grad(u)), "u": -2 * u}
        library = cf.Library(anchor=value * cf.dt(u), terms=terms)
        problem = cf.Model(library, dict.fromkeys(terms, 1.0), experiment)
        bounds.append(certify_deletion(problem, "u"))
    assert [bound.certificate.kind for bound in bounds] == ["guaranteed"] * 2
    assert bounds[0].margin == pytest.approx(bounds[1].margin, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"terms": {"d": cf.div((2 + sp.sin(t)) * cf.grad(u))}}, "depends on time"),
        ({"weight": x}, "not bounded away from zero"),
        ({"terms": {"d": cf.lap(u), "u": -(u**3)}}, "not linear"),
        ({"boundary": [cf.Dirichlet(u, sp.sin(x), on="left"), *MIXED[1:]]}, None),
    ],
)
def test_what_is_not_covered_is_said(change, message):
    problem = posed(3, **{"boundary": [cf.Dirichlet(u, 0)], **change})
    found = certify_solution(problem)
    if message is None:
        assert found.kind == "guaranteed"
    else:
        assert message in found.reason
