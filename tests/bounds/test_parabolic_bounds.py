"""Error bounds of transient problems hold for every time stepping and for growth, and widen
with a fault or a coarse time step.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import (
    LIBRARY,
    REFERENCE,
    SOURCE,
    Outcome,
    check_on_two_ranks,
    heat_model,
    heat_outcome,
    l_shape,
    perturbed,
    random_advection,
    u,
)
from dolfinx import fem

import cffem as cf
from cffem.bounds import certify_deletion, certify_solution

SCHEMES = ("backward-euler", "midpoint", "sdirk2")
ADVECTIVE_HEAT = cf.Library(anchor=cf.dt(u), terms=dict(LIBRARY.terms))
FINER = 8


def heat_outcomes(count, seed, enriched=False, uneven=False):
    """Random heat equations with decay, growth below the first eigenvalue, and exponential
    growth beyond it.
    """
    random = np.random.default_rng(seed)
    outcomes = []
    for case in range(count):
        a = float(10 ** random.uniform(-2, 0))
        reaction = (
            float(random.uniform(-3.0, -1.3) if case % 4 == 3 else random.uniform(-0.8, 1.6))
            * a
            * 19.7
        )
        coefficients = {"lap": a, "mixing": float(random.uniform(0.02, 0.4)) * a, "u": -reaction}
        domain = perturbed(
            2, int(random.integers(4, 7)), random.uniform(0, 0.25), random.uniform(0, 6)
        )
        end = float(random.uniform(0.02, 0.12)) / a
        problem = heat_model(
            domain, coefficients, 1 + case % 2, end, int(random.integers(4, 9)), SCHEMES[case % 3]
        )
        if uneven:
            inner = np.sort(random.uniform(0, end, int(random.integers(3, 9))))
            levels = np.concatenate([[0.0], inner, [end]])
            problem = problem.at(cf.Window.through(levels, SCHEMES[case % 3]))
        outcomes.append(heat_outcome(problem, ("mixing", "u")[case // 2 % 2], enriched))
        problem.destroy()
    return outcomes


def advective_outcome(random, case):
    """A transient problem with advection against degree 4 and eight times as many steps."""
    domain = perturbed(2, int(random.integers(4, 6)), random.uniform(0, 0.25), random.uniform(0, 6))
    coefficients, term = random_advection(random), ("u_x", "drift", "mixing", "u")[case % 4]
    end, steps = 0.1 / coefficients["lap"], 5
    coarse, fine = (
        cf.Model(
            ADVECTIVE_HEAT,
            coefficients,
            cf.Experiment(
                mesh=domain,
                elements={u: ("Lagrange", degree)},
                boundary=[cf.Dirichlet(u, 0)],
                initial={u: SOURCE},
                forcing={u: SOURCE},
                time=cf.Window(0, end, steps=count, scheme=scheme),
            ),
        )
        for degree, count, scheme in (
            (1 + case % 2, steps, SCHEMES[case % 3]),
            (REFERENCE, FINER * steps, "sdirk2"),
        )
    )
    bound = certify_deletion(coarse, term)
    assert bound, bound.reason

    def spread(solution):
        """The piecewise linear coarse trajectory on the fine levels, in the fine space."""
        raised = []
        for k in range(steps + 1):
            function = fem.Function(fine.spaces.space)
            function.interpolate(solution.function(k=k))
            raised.append(function.x.array[: fine.spaces.owned].copy())
        parts = [divmod(k, FINER) for k in range(FINER * steps)]
        return [raised[n] + k / FINER * (raised[n + 1] - raised[n]) for n, k in parts] + [
            raised[-1]
        ]

    def size(states):
        return fine.trajectory_norm(states, fine.times)

    exact = [fine.factual.states, fine.solve(cf.delete(term)).states]
    found = [spread(coarse.factual), spread(coarse.solve(cf.delete(term)))]
    errors = [
        [e - f for e, f in zip(*pair, strict=True)] for pair in zip(exact, found, strict=True)
    ]
    gap = [a - b for a, b in zip(*errors, strict=True)]
    true = size([a - b for a, b in zip(*exact, strict=True)])
    return Outcome(
        1 + case % 2,
        term,
        coefficients,
        (size(errors[0]), bound.eta_factual),
        (size(errors[1]), bound.eta_counterfactual),
        (size(gap), bound.difference),
        true,
        bound.score,
        bound.margin,
    )


def check(outcomes):
    assert [o for o in outcomes if not o.covered] == []
    decisions = [d for o in outcomes for d in o.decisions()]
    assert all(
        margin in (truth, "unresolved") and both in (truth, "unresolved")
        for truth, margin, both in decisions
    )
    return decisions


@pytest.fixture(scope="module")
def heat():
    return heat_outcomes(8, 30)


def test_every_bound_covers_and_no_decision_is_wrong(heat):
    check(heat)


def test_bounds_have_the_right_order_of_magnitude(heat):
    effectivities = [o.factual[1] / o.factual[0] for i, o in enumerate(heat) if i % 4 != 3]
    assert np.median(effectivities) <= 8.0


def test_bounds_with_advection_cover():
    random = np.random.default_rng(31)
    check([advective_outcome(random, case) for case in range(4)])


def test_enriched_bounds_cover_and_are_sharp():
    outcomes = heat_outcomes(6, 34, enriched=True)
    check(outcomes)
    assert np.median([o.factual[1] / o.factual[0] for o in outcomes]) <= 2.5


def test_bounds_hold_for_random_steps_that_differ():
    check(heat_outcomes(3, 31, uneven=True))
    check(heat_outcomes(1, 32, enriched=True, uneven=True))


@pytest.mark.slow
def test_bounds_hold_for_many_random_steps_that_differ():
    check(heat_outcomes(48, 33, uneven=True))
    check(heat_outcomes(12, 34, enriched=True, uneven=True))


@pytest.mark.slow
def test_many_random_cases_are_covered():
    check(heat_outcomes(100, 32))
    random = np.random.default_rng(33)
    check([advective_outcome(random, case) for case in range(40)])
    enriched = heat_outcomes(60, 35, enriched=True)
    check(enriched)
    assert np.median([o.factual[1] / o.factual[0] for o in enriched]) <= 2.5


def test_bounds_hold_in_space():
    domain = perturbed(3, 2, 0.1, 1.0)
    check(
        [
            heat_outcome(
                heat_model(domain, {"lap": 0.5, "mixing": 0.1, "u": -2.0}, 1, 0.2, 4, "sdirk2"), "u"
            )
        ]
    )


# Convergence, faults, ranks
# -----------------------------------------------------------------------------------------------

COEFFICIENTS = {"lap": 1.0, "mixing": 0.2, "u": -12.0}


def test_a_coarse_time_step_widens_the_bound():
    domain = perturbed(2, 6, 0.2, 1.0)
    outcomes = [
        heat_outcome(heat_model(domain, COEFFICIENTS, 2, 0.2, n, "backward-euler"), "u")
        for n in (3, 12)
    ]
    check(outcomes)
    assert outcomes[0].factual[1] > 2 * outcomes[1].factual[1]


def test_bounds_converge_with_the_solution():
    outcomes = [
        heat_outcome(heat_model(perturbed(2, n, 0.2, 1.0), COEFFICIENTS, 1, 0.2, n, "sdirk2"), "u")
        for n in (4, 8)
    ]
    for part in ("factual", "counterfactual", "difference"):
        assert getattr(outcomes[0], part)[1] > 2.5 * getattr(outcomes[1], part)[1]


@pytest.mark.parametrize("broken", ["u", "mixing"])
def test_a_wrong_sign_in_one_term_widens_the_bound(broken):
    outcomes = []
    for fault in (False, True):
        problem = heat_model(perturbed(2, 5, 0.2, 1.0), COEFFICIENTS, 2, 0.2, 6, "sdirk2")
        if fault:
            problem.equation.terms[broken].matrix(0).scale(-1.0)
        outcomes.append(heat_outcome(problem, "u"))
    check(outcomes)
    assert outcomes[1].margin > 1.5 * outcomes[0].margin


def print_margins(comm):
    problem = heat_model(perturbed(2, 4, 0.2, 1.0, comm), COEFFICIENTS, 1, 0.2, 2, "sdirk2")
    margins = [certify_deletion(problem, name).margin for name in ("mixing", "u")]
    if comm.rank == 0:
        print("margins", *map(repr, map(float, margins)))


@pytest.mark.mpi
def test_margins_are_the_same_on_two_ranks(on_ranks, capsys):
    check_on_two_ranks(print_margins, on_ranks, capsys)


# Scope
# --------------------------------------------------------------------------------------------------


def test_what_is_not_covered_says_why():
    problem = heat_model(perturbed(2, 3, 0.0, 0.0), COEFFICIENTS, 1, 0.1, 2, "midpoint")
    assert "in the norm H1" in certify_deletion(problem, "u", "H1").reason
    certificate = certify_solution(problem)
    assert certificate.kind == "guaranteed"
    assert "backward dual problem" in str(certificate)


def test_a_domain_that_is_not_convex_gets_the_constant_of_its_mesh():
    experiment = cf.Experiment(
        mesh=l_shape(),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.S.Zero},
        forcing={u: 1},
        time=cf.Window(0, 0.1, steps=2, scheme="sdirk2"),
    )
    bound = certify_deletion(
        cf.Model(ADVECTIVE_HEAT, {**COEFFICIENTS, "u_x": -1.0}, experiment), "u"
    )
    assert bound.margin < bound.eta_factual + bound.eta_counterfactual
    assert "the approximation constant of the mesh" in bound.certificate.method
    assert "np." not in repr(bound)
