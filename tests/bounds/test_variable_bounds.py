"""Guaranteed bounds with variable coefficients, Neumann, Robin and mixed boundaries."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_bench import variable_outcome
from benchmarks.certify.certify_variable import distance, named_box, u, variable_case
from cffem.bounds import certify_deletion, certify_solution
from cffem.bounds.certificate import NotCovered
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier
from cffem.bounds.variable.place_functions import PlaceFunctions
from cffem.bounds.variable.variable_bounds import VariableSteadyCertifier
from cffem.bounds.variable.variable_operator import read_term, variable_equation
from cffem.symbols import x, y

MIXED = [
    cf.Dirichlet(u, 1 + x, on="left"),
    cf.Neumann(u, sp.cos(x), on="top"),
    cf.Robin(u, 2, on="right", coefficient=1 + y),
    cf.Neumann(u, 0, on="bottom"),
]
TERMS = {"diffusion": cf.div(sp.exp(x) * cf.grad(u)), "drift": -x * u.diff(x), "u": -(1 + y) * u}


def posed(n, degree=1, terms=TERMS, boundary=MIXED, forcing=1 + x, **known):
    experiment = cf.Experiment(
        mesh=named_box(2, n, 0.0, 0.0),
        elements={u: ("Lagrange", degree)},
        boundary=boundary,
        forcing={u: forcing},
        **known,
    )
    return cf.Model(cf.Library(terms=terms, unknown=u), dict.fromkeys(terms, 1.0), experiment)


@pytest.mark.parametrize(("seed", "dim"), [(3, 2), (4, 2), (8, 2), (9, 2)])
def test_random_cases_are_covered(seed, dim):
    random = np.random.default_rng(seed)
    outcome = None
    while outcome is None:
        outcome = variable_outcome(random, dim)
    assert outcome.kind == "guaranteed"
    assert outcome.covered, outcome
    assert not any(wrong for wrong, _, _ in outcome.decisions())


@pytest.mark.slow
def test_many_random_cases_are_covered():
    random = np.random.default_rng(77)
    found = [variable_outcome(random, 2 + (k % 10 == 0)) for k in range(60)]
    assert all(outcome.covered for outcome in found if outcome is not None)
    assert sum(outcome is not None for outcome in found) > 45


def test_constant_coefficients_give_the_flux_of_the_sharper_class():
    problem = posed(4, 2, {"lap": cf.lap(u), "u": -3 * u}, [cf.Dirichlet(u, 0)], sp.sin(3 * x + y))
    general, plain = VariableSteadyCertifier(problem), SteadyCertifier(problem)
    ours, theirs = general.factual, plain.factual
    # The energy bound differs by the way of minimising only, L2 by the constant of the mesh.
    assert ours.residual.dual == pytest.approx(theirs.residual.dual, rel=0.05)
    assert theirs.value < ours.value < 2 * theirs.value


def test_bounds_fall_with_the_power_of_h_and_stay_above_errors_by_a_reference():
    reference = posed(8, 4)
    exact = reference.deletions(["drift", "u"])
    # Where given values meet a flux that does not fit them, the solution is like r log r.
    for degree, least in ((1, 1.7), (2, 2.0)):
        margins = []
        for n in (4, 8):
            problem = posed(n, degree)
            for name in ("drift", "u"):
                bound = certify_deletion(problem, name)
                assert bound.certificate.kind == "guaranteed"
                assert abs(bound.score - exact[name].score) <= bound.margin
            margins.append(certify_solution(problem).value)
        assert math.log2(margins[0] / margins[1]) > least


def test_known_fields_are_coefficients_and_other_values_are_refused():
    k = cf.Known("k")
    terms = {"diffusion": cf.div(k * cf.grad(u)), "u": -u}
    by_name = certify_solution(posed(3, terms=terms, known={k: 2 + x}))
    plain = certify_solution(posed(3, terms={**terms, "diffusion": cf.div((2 + x) * cf.grad(u))}))
    assert by_name.value == pytest.approx(plain.value, rel=1e-10)


def test_materials_by_subdomain_are_those_of_the_formula():
    """A field that jumps between named cells, and the Piecewise that says the same."""
    k, half = cf.Known("k"), sp.Rational(1, 2)
    square = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
    parts = {
        "glass": lambda p: p[0] < 0.5 + 1e-9,
        "air": lambda p: p[0] > 0.5 - 1e-9,
    }
    domain = cf.mesh.named(square, cells=parts)
    bounds = []
    for known, value in (({k: {"glass": 2.25, "air": 1.0}}, k), ({}, None)):
        value = sp.Piecewise((2.25, x < half), (1, True)) if value is None else value
        terms = {"diffusion": cf.div(value * cf.grad(u)), "u": -2 * u}
        experiment = cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", 2)},
            boundary=[cf.Robin(u, 1, coefficient=0.5)],
            forcing={u: x},
            known=known,
        )
        problem = cf.Model(
            cf.Library(terms=terms, unknown=u), {"diffusion": 1.0, "u": 1.0}, experiment
        )
        bounds.append(certify_deletion(problem, "u"))
    assert [bound.certificate.kind for bound in bounds] == ["guaranteed"] * 2
    assert bounds[0].margin == pytest.approx(bounds[1].margin, rel=1e-6)
    fine = cf.Model(
        problem.library,
        problem.coefficients,
        dataclasses.replace(experiment, elements={u: ("Lagrange", 5)}),
    )
    assert abs(fine.deletions(["u"])["u"].score - bounds[0].score) <= bounds[0].margin


@pytest.mark.parametrize(
    ("terms", "boundary", "message"),
    [
        ({"d": cf.div(x * cf.grad(u))}, [cf.Dirichlet(u, 0)], "bounded away from zero"),
        ({"d": cf.lap(u), "u": -u, "b": 3 * u.diff(x)}, [cf.Neumann(u, 0)], "the flow enters"),
        ({"d": cf.lap(u), "u": 30 * u}, [cf.Dirichlet(u, 0)], "coercivity is not proved"),
        ({"d": cf.lap(u), "u": -(u**3)}, MIXED, "not linear"),
        (
            {"d": cf.lap(u)},
            [
                cf.Dirichlet(u, 0, on="left"),
                cf.Robin(u, 0, on="right", coefficient=-1),
                cf.Neumann(u, 0, on=("top", "bottom")),
            ],
            "negative",
        ),
    ],
)
def test_what_is_not_covered_says_why(terms, boundary, message):
    with pytest.raises(NotCovered, match=message):
        VariableSteadyCertifier(posed(2, 1, terms, boundary))


def test_a_jump_that_is_no_divergence_is_refused():
    jump = sp.Piecewise((2, x < sp.Rational(1, 2)), (1, True))
    assert read_term(-cf.div(jump * cf.grad(u)), u, 2).scalar == jump
    with pytest.raises(NotCovered, match="may jump"):
        read_term(-jump * cf.lap(u), u, 2)


def test_a_field_that_jumps_is_not_differentiated():
    k = cf.Known("k")
    library = cf.Library(terms={"plain": k * cf.lap(u), "div": cf.div(k * cf.grad(u))}, unknown=u)
    assert variable_equation(library, {"div": 1.0}, 2, {}, [k]).advection == (0, 0)
    with pytest.raises(NotCovered, match="no expression in the coordinates"):
        variable_equation(library, {"plain": 1.0}, 2, {}, [k])


def test_cells_that_touch_a_jump_do_not_see_it():
    corners = np.array([[[0.0, 0.0], [0.5, 0.0], [0.0, 1.0]], [[0.5, 0.0], [1.0, 0.0], [1.0, 1.0]]])
    places = PlaceFunctions(corners, np.full((1, 3), 1 / 3))
    jump = sp.Piecewise((2, x < sp.Rational(1, 2)), (1, True))
    low, high = places.bounds(jump)
    assert low.tolist() == high.tolist() == [2.0, 1.0]
    assert places.radius(jump).tolist() == [0.0, 0.0]
    across = PlaceFunctions(corners + np.array([0.1, 0.0]), np.full((1, 3), 1 / 3))
    assert across.radius(jump)[0] == 0.5


def test_a_wrong_solution_has_a_wide_bound():
    case = variable_case(np.random.default_rng(3), 2)
    with case.model as problem:
        right = certify_solution(problem).value
        problem.factual.states[0][:] += 0.01 * np.where(problem.factual.states[0] == 2, 0, 1)
        problem.factual.states[0][problem.essential.owned] = 2.0
        wide = VariableSteadyCertifier(problem).state(
            problem.coefficients, problem.factual.states[0]
        )
        assert wide.value > right
        assert wide.value >= distance(case, [(1, problem.factual)], case.factual)


def print_bounds(comm):
    square = mesh.create_unit_square(comm, 4, 4)
    experiment = cf.Experiment(
        mesh=square,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Robin(u, x, coefficient=2)],
        forcing={u: 1},
    )
    problem = cf.Model(cf.Library(terms=TERMS, unknown=u), dict.fromkeys(TERMS, 1.0), experiment)
    found = certify_deletion(problem, "u")
    if comm.rank == 0:
        print("bounds", json.dumps([found.score, found.margin, found.eta_factual]), flush=True)


@pytest.mark.mpi
def test_bounds_are_the_same_on_two_ranks(on_ranks, capsys):
    print_bounds(MPI.COMM_SELF)
    alone = json.loads(capsys.readouterr().out.split("bounds")[1])
    output = on_ranks(2, print_bounds)
    assert json.loads(output.split("bounds")[1].splitlines()[0]) == pytest.approx(alone, rel=1e-7)
