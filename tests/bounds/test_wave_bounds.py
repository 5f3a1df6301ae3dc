"""Error bounds of scalar waves hold for decay and growth, on every domain, and widen with a
fault or a coarse time step.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import l_shape, perturbed, u
from wave_support import WAVE, Cavity, check, outcomes

import cffem as cf
from cffem import dt, lap
from cffem.bounds.certificate import NotCovered
from cffem.bounds.waves.scalar_waves import WaveCertifier
from cffem.bounds.waves.wave_enriched import EnrichedSecondOrderCertifier
from cffem.bounds.waves.wave_growth import evolve
from cffem.bounds.waves.wave_problem import term_operators

COEFFICIENTS = {"stiffness": 1.0, "mass": 4.0, "damping": 0.3}


def cavity(n=6, degree=1, steps=12, force=0.0, **changes):
    return Cavity(
        False,
        perturbed(2, n, 0.2, 1.0),
        {**COEFFICIENTS, **changes},
        degree,
        0.8,
        steps,
        force=force,
    )


@pytest.fixture(scope="module")
def sound():
    return cavity().outcome("damping")


def test_every_bound_covers_and_no_decision_is_wrong():
    found = outcomes(4, 40, vector=False, largest=6)
    check(found)
    assert np.median([o.factual[1] / o.factual[0] for o in found]) <= 14.0


@pytest.mark.parametrize("vector", [False, True])
def test_steps_that_differ_are_covered_as_sharply_as_equal_ones(vector):
    equal, uneven = (outcomes(3, 7, vector, largest=6, uneven=growth) for growth in (0.0, 0.5))
    check(uneven)
    sharpness = [
        np.median([o.factual[1] / o.factual[0] for o in found]) for found in (equal, uneven)
    ]
    assert sharpness[1] < 1.25 * sharpness[0]


def test_enrichment_is_sharper_and_covers():
    problem = cavity(8, steps=16)
    found = [problem.outcome("damping", enriched) for enriched in (False, True)]
    check(found)
    assert found[1].factual[1] <= 2.5 * found[1].factual[0]
    assert found[1].margin < 0.5 * found[0].margin


def test_the_conserving_scheme_is_covered():
    problem = Cavity(False, perturbed(2, 6, 0.2, 1.0), COEFFICIENTS, 1, 0.8, 8, scheme="midpoint4")
    check([problem.outcome("damping")])


@pytest.mark.slow
def test_many_random_waves_are_covered():
    plain, enriched = outcomes(120, 42, vector=False), outcomes(40, 43, vector=False, enriched=True)
    check(plain)
    check(enriched)
    for vector in (False, True):
        check(outcomes(40, 44, vector, uneven=0.7))
        check(outcomes(12, 45, vector, enriched=True, uneven=0.7))
    for degree, largest in ((1, 2.5), (2, 4.5)):
        assert (
            np.median([o.factual[1] / o.factual[0] for o in enriched if o.degree == degree])
            <= largest
        )


@pytest.mark.slow
def test_bounds_hold_in_space():
    domain = perturbed(3, 2, 0.1, 1.0)
    check([Cavity(False, domain, COEFFICIENTS, 1, 0.4, 5, force=0.0).outcome("damping")])


@pytest.mark.parametrize("n", [4, 16])
def test_both_routes_are_bounds_and_about_the_smaller_one_is_taken(n):
    problem, values = cavity(n, steps=12), []
    true = problem.error(problem.model.factual.states, problem.exact)
    for by_fluxes in (None, True, False):
        certifier = WaveCertifier(problem.model)
        if by_fluxes is not None:
            certifier.by_fluxes = by_fluxes
        values.append(certifier.factual[1].value)
    assert min(values) > true
    assert values[0] < 1.2 * min(values)


def test_the_route_by_fluxes_has_the_order_of_the_error():
    bounds = []
    for n in (8, 16):
        certifier = WaveCertifier(cavity(n, steps=2 * n).model)
        certifier.by_fluxes = True
        bounds.append(certifier.factual[1].value)
    assert bounds[0] > 3.4 * bounds[1]


@pytest.mark.parametrize("force", [0.0, 0.5])
def test_deletions_by_the_route_of_fluxes_are_covered(force):
    problem = cavity(14, steps=12, force=force)
    assert problem.certifier().by_fluxes
    found = [problem.outcome(name) for name in ("damping", "mass")]
    check(found)
    assert all(o.difference[1] < 0.5 * (o.factual[1] + o.counterfactual[1]) for o in found)


def test_the_difference_margin_is_proportional_to_the_deleted_coefficient(sound):
    small = cavity(damping=0.003).outcome("damping")
    assert small.difference[1] == pytest.approx(sound.difference[1] / 100, rel=0.2)
    assert small.margin < 0.02 * (small.factual[1] + small.counterfactual[1])


# Faults
# --------------------------------------------------------------------------------------------------


def test_a_coarse_time_step_widens_the_bound():
    coarse, fine = (cavity(4, 2, steps).outcome("damping") for steps in (4, 16))
    check([coarse, fine])
    assert coarse.factual[1] > 1.5 * fine.factual[1]
    assert coarse.margin > 1.5 * fine.margin


def with_fault(broken=None, order=0):
    problem = cavity(4, 2, 8, mass=9.0, damping=1.5)
    if broken is not None:
        problem.model.equation.terms[broken].matrix(order).scale(-1.0)
    return problem.outcome("mass")


@pytest.fixture(scope="module")
def honest():
    return with_fault()


@pytest.mark.parametrize(("broken", "order"), [("u", 0), ("damping", 1)])
def test_a_wrong_sign_in_one_term_widens_the_bound(broken, order, honest):
    outcome = with_fault(broken, order)
    check([honest, outcome])
    assert outcome.margin > 1.3 * honest.margin


def test_a_loosened_solver_widens_the_bound():
    problem, found = cavity(4, 2), []
    for options in ({}, {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 0.3}):
        problem.model = cf.Model(
            WAVE, problem.model.coefficients, problem.model.experiment, options
        )
        problem._measure()
        found.append(problem.outcome("damping"))
    check(found)
    assert found[1].margin > 1.3 * found[0].margin


# Parts
# --------------------------------------------------------------------------------------------------


def test_growth_is_that_of_the_differential_equation():
    count, rate, memory = 400, 0.5, 2.0
    levels, steps = evolve(1.0, np.zeros(count), np.full(count, 1 / count), rate, memory)
    kappa = (rate + np.sqrt(rate**2 + 4 * memory)) / 2, (rate - np.sqrt(rate**2 + 4 * memory)) / 2
    exact = (kappa[0] * np.exp(kappa[0]) - kappa[1] * np.exp(kappa[1])) / (kappa[0] - kappa[1])
    assert levels[-1] == pytest.approx(exact, rel=1e-10)
    levels, steps = evolve(0.0, np.full(count, np.sqrt(1 / count)), np.full(count, 1 / count))
    assert levels[-1] == pytest.approx(1.0)
    assert np.linalg.norm(steps) == pytest.approx(np.sqrt(1 / 3), rel=5e-3)


def test_coefficients_are_read_off_the_symbols():
    library = cf.Library(
        anchor=dt(dt(u)), terms={"a": 2 * lap(u) - 3 * u, "d": -dt(u), "s": sp.sin(cf.x) * cf.t}
    )
    found = term_operators(library, {"a": 0.5, "d": 0.2, "s": 3.0}, 2, False)
    assert (found["a"].stiffness, found["a"].mass, found["d"].damping) == (1.0, 1.5, 0.2)
    assert found["s"].source == (3.0 * sp.sin(cf.x) * cf.t,)
    for term in (u**2, cf.x * lap(u), u.diff(cf.x), u.diff(cf.x, 2), dt(u) * cf.x, lap(lap(u))):
        with pytest.raises(NotCovered):
            term_operators(cf.Library(anchor=dt(dt(u)), terms={"t": term}), {"t": 1.0}, 2, False)


def test_what_is_not_covered_says_why():
    problem = cavity(3, steps=2)
    with pytest.raises(NotCovered, match="in the norm H1"):
        WaveCertifier(problem.model).deletion("u", "H1")
    experiment = problem.model.experiment
    partial = cf.Model(
        WAVE,
        {"lap": 1.0},
        cf.Experiment(
            mesh=experiment.mesh,
            elements=experiment.elements,
            initial=experiment.initial,
            time=experiment.time,
            boundary=[cf.Dirichlet(u, 1)],
        ),
    )
    with pytest.raises(NotCovered, match="not a homogeneous essential condition"):
        EnrichedSecondOrderCertifier(partial)
    certificate = WaveCertifier(problem.model).solution(problem.model.factual)
    assert certificate.kind == "guaranteed"
    assert "u = 0 on all of its boundary" in str(certificate)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial": {u: lambda p: 0 * p[0], dt(u): 0}}, "no expressions in the coordinates"),
        ({"stiffness": -1.0}, "the stiffness is negative"),
    ],
    ids=["function", "backward"],
)
def test_hypotheses_that_fail_are_named(changes, message):
    given = {
        "mesh": perturbed(2, 3, 0.0, 0.0),
        "elements": {u: ("Lagrange", 1)},
        "boundary": [cf.Dirichlet(u, 0)],
        "initial": {u: 0, dt(u): 0},
        "time": cf.Window(0, 1, steps=2),
    }
    stiffness = changes.get("stiffness", 1.0)
    experiment = cf.Experiment(**{name: changes.get(name, value) for name, value in given.items()})
    model = cf.Model(WAVE, {"lap": stiffness}, experiment)
    with pytest.raises(NotCovered, match=message):
        WaveCertifier(model).solution(model.factual)


def test_a_domain_that_is_not_convex_gets_the_weaker_bound_that_says_so():
    experiment = cf.Experiment(
        mesh=l_shape(),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * cf.x) * sp.sin(sp.pi * cf.y), dt(u): 0},
        time=cf.Window(0, 0.5, steps=6),
    )
    bound = WaveCertifier(
        cf.Model(WAVE, {"lap": 1.0, "u": -1.0, "damping": 0.1}, experiment)
    ).deletion("damping")
    assert bound.margin < 0.1 * (bound.eta_factual + bound.eta_counterfactual)
    assert "one power of h lost" in bound.certificate.method
