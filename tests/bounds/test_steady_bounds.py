"""Error bounds of steady problems hold on random cases, are sharp, lead to no wrong decision,
and widen when a solve is faulty.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from bounds_support import (
    DIFFUSIVE,
    LIBRARY,
    REFERENCE,
    SOURCE,
    Modal,
    certifier,
    check_on_two_ranks,
    diffusion_and_reaction,
    l_shape,
    modal_forcing,
    modal_outcome,
    model,
    perturbed,
    random_advection,
    random_reaction_diffusion,
    reference_outcome,
    u,
)
from dolfinx import fem
from dolfinx.mesh import exterior_facet_indices

import cffem as cf
from benchmarks.certify.certify_evolving import l_shape as coarse_l_shape
from cffem.bounds import certify_deletion, certify_solution
from cffem.bounds.certificate import NotCovered
from cffem.bounds.entrance import best_certificates, enriched_size
from cffem.bounds.geometry.mesh_constants import Domain
from cffem.symbols import x, y
from cffem.verdicts import decide

MODAL, ADVECTIVE, SPATIAL, ENRICHED = 20, 12, 4, 8


def case_mesh(random, dim=2):
    return perturbed(
        dim,
        int(random.integers(4, 8)) if dim == 2 else 3,
        random.uniform(0, 0.25),
        random.uniform(0, 6),
    )


def modal_outcomes(plane, spatial, seed):
    """Outcomes of random reaction–diffusion problems with known solutions, and effectivities
    in the energy norm.
    """
    random = np.random.default_rng(seed)
    outcomes, energy = [], []
    for case in range(plane + spatial):
        dim, degree = (2, 1 + case % 2) if case < plane else (3, 1)
        problem = model(
            case_mesh(random, dim),
            DIFFUSIVE,
            random_reaction_diffusion(random),
            degree,
            modal_forcing(dim),
        )
        measured = Modal(problem.spaces.space)
        outcomes.append((dim, modal_outcome(problem, ("mixing", "u")[case // 2 % 2], measured)))
        a, c = diffusion_and_reaction(problem.coefficients)
        value, gradient = measured(problem.factual.function(), (1, a, c))
        bound = certifier(problem).factual
        energy.append(
            (
                dim,
                degree,
                c >= 0,
                bound.gradient / gradient,
                bound.energy / np.sqrt(a * gradient**2 + c * value**2),
            )
        )
        problem.destroy()
    return outcomes, energy


def advective_outcomes(count, seed):
    """Outcomes of random problems with advection against solutions of degree 4 on the same mesh."""
    random = np.random.default_rng(seed)
    outcomes = []
    for case in range(count):
        domain, coefficients = case_mesh(random), random_advection(random)
        problem, reference = (
            model(domain, LIBRARY, coefficients, k, SOURCE) for k in (1 + case % 2, REFERENCE)
        )
        outcomes.append(
            reference_outcome(problem, reference, ("mixing", "u", "u_x", "drift")[case // 2 % 4])
        )
        problem.destroy()
        reference.destroy()
    return outcomes


@pytest.fixture(scope="module")
def modal():
    return modal_outcomes(MODAL, SPATIAL, 20)


@pytest.fixture(scope="module")
def advective():
    return advective_outcomes(ADVECTIVE, 21)


def effectivities(outcomes, degree, part="factual"):
    return [getattr(o, part)[1] / getattr(o, part)[0] for o in outcomes if o.degree == degree]


def test_every_bound_covers_the_true_error(modal, advective):
    outcomes = [o for _, o in modal[0]] + advective
    assert len(outcomes) == MODAL + SPATIAL + ADVECTIVE
    assert [o for o in outcomes if not o.covered] == []


def test_gradient_and_energy_bounds_cover_and_are_sharp(modal):
    assert min(min(row[3:]) for row in modal[1]) >= 1.0
    for degree in (1, 2):
        decaying = [row[4] for row in modal[1] if row[:3] == (2, degree, True)]
        assert len(decaying) >= 5
        assert np.median(decaying) <= 1.2
    # Three cells along each edge of the cube, where data oscillation is a good part of the bound.
    assert np.median([row[4] for row in modal[1] if row[0] == 3]) <= 1.4


def test_l2_bounds_have_the_right_order_of_magnitude(modal, advective):
    plane = [o for dim, o in modal[0] if dim == 2]
    assert np.median(effectivities(plane, 1)) <= 2.2
    assert np.median(effectivities(plane, 2)) <= 5.0
    assert np.median(effectivities(advective, 1)) <= 4.0
    assert np.median(effectivities(advective, 2)) <= 8.0


def test_no_decision_is_wrong_and_the_difference_decides_more(modal, advective):
    decisions = [d for o in [o for _, o in modal[0]] + advective for d in o.decisions()]
    assert len(decisions) == 13 * (MODAL + SPATIAL + ADVECTIVE)
    assert all(
        margin in (truth, "unresolved") and both in (truth, "unresolved")
        for truth, margin, both in decisions
    )
    by_difference = np.mean([margin == "unresolved" for _, margin, _ in decisions])
    by_sum = np.mean([both == "unresolved" for _, _, both in decisions])
    assert by_difference <= 0.28
    assert by_sum >= 1.5 * by_difference


@pytest.mark.slow
def test_many_random_cases_are_covered():
    outcomes = [o for _, o in modal_outcomes(160, 20, 120)[0]] + advective_outcomes(120, 121)
    assert [o for o in outcomes if not o.covered] == []
    decisions = [d for o in outcomes for d in o.decisions()]
    assert all(
        margin in (truth, "unresolved") and both in (truth, "unresolved")
        for truth, margin, both in decisions
    )


def test_a_domain_that_is_not_convex_gets_the_weaker_bound_that_says_so():
    coefficients = {"lap": 1.0, "mixing": 0.2, "u": -3.0, "u_x": -2.0}
    domain = l_shape()
    problem, reference = (model(domain, LIBRARY, coefficients, k, 1 + x) for k in (1, REFERENCE))
    outcome = reference_outcome(problem, reference, "u")
    assert outcome.covered
    assert "Friedrichs" in certify_deletion(problem, "u").certificate.method
    assert "Aubin" not in str(certify_solution(problem))


# Enrichment
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def enriched():
    """Outcomes with one degree more: reaction and diffusion, then advection."""
    random = np.random.default_rng(22)
    outcomes = []
    for case in range(ENRICHED):
        domain, degree, advection = case_mesh(random), 1 + case % 2, case % 4 >= 2
        if advection:
            coefficients = random_advection(random)
            problem, reference = (
                model(domain, LIBRARY, coefficients, k, SOURCE) for k in (degree, REFERENCE)
            )
            outcomes.append(
                reference_outcome(
                    problem, reference, ("mixing", "u_x", "u")[case // 4 % 3], enriched=True
                )
            )
        else:
            problem = model(
                domain, DIFFUSIVE, random_reaction_diffusion(random), degree, modal_forcing(2)
            )
            outcomes.append(
                modal_outcome(
                    problem,
                    ("mixing", "u")[case // 4 % 2],
                    Modal(problem.spaces.space),
                    enriched=True,
                )
            )
    return outcomes


def test_enriched_bounds_cover_and_are_sharp(enriched):
    assert [o for o in enriched if not o.covered] == []
    assert np.median(effectivities(enriched, 1)) <= 1.5
    assert np.median(effectivities(enriched, 2)) <= 2.0
    decisions = [d for o in enriched for d in o.decisions()]
    assert all(margin in (truth, "unresolved") for truth, margin, _ in decisions)
    assert np.mean([margin == "unresolved" for _, margin, _ in decisions]) <= 0.15


# Faults
# --------------------------------------------------------------------------------------------------

COEFFICIENTS = {"lap": 1.0, "mixing": 0.2, "u": -12.0}


@pytest.fixture(scope="module")
def sound():
    problem = model(perturbed(2, 6, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2))
    measured = Modal(problem.spaces.space)
    return modal_outcome(problem, "u", measured)


@pytest.mark.parametrize("broken", ["u", "mixing", "lap"])
def test_a_wrong_sign_in_one_term_widens_the_bound(sound, broken):
    problem = model(perturbed(2, 6, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2))
    problem.equation.terms[broken].matrix(0).scale(-1.0)
    outcome = modal_outcome(problem, "u", Modal(problem.spaces.space))
    assert outcome.covered
    assert outcome.margin > 3 * sound.margin
    assert all(margin in (truth, "unresolved") for truth, margin, _ in outcome.decisions())


def test_a_loosened_solver_widens_the_bound(sound):
    options = {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 5e-2}
    problem = model(
        perturbed(2, 6, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2), options
    )
    outcome = modal_outcome(problem, "u", Modal(problem.spaces.space))
    assert outcome.covered
    assert certifier(problem).factual.residual.algebraic > 1e-4
    assert outcome.margin > 1.2 * sound.margin
    assert all(margin in (truth, "unresolved") for truth, margin, _ in outcome.decisions())


def test_a_fault_in_the_matrix_of_the_norm_is_in_the_margin():
    problem = model(perturbed(2, 4, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2))
    honest = certify_deletion(problem, "u")
    problem.norm("L2").matrix.scale(4.0)
    faulty = certify_deletion(problem, "u")
    assert faulty.score == pytest.approx(2 * honest.score)
    assert faulty.margin == pytest.approx(honest.margin + honest.score)


# What is not covered
# --------------------------------------------------------------------------------------------------


def built(terms=None, coefficients=None, **changes):
    terms = terms or {"lap": cf.lap(u), "u": u}
    options = {
        "elements": {u: ("Lagrange", 1)},
        "boundary": [cf.Dirichlet(u, 0)],
        "forcing": {u: 1},
        **changes,
    }
    experiment = cf.Experiment(mesh=perturbed(2, 3, 0.0, 0.0), **options)
    return cf.Model(
        cf.Library(terms=terms, unknown=u), coefficients or dict.fromkeys(terms, 1.0), experiment
    )


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ({"terms": {"lap": cf.lap(u), "cubic": -(u**3)}}, "nonlinear"),
        ({"coefficients": {"lap": 1.0, "u": 30.0}}, "coercivity is not proved"),
    ],
)
def test_what_no_theorem_covers_has_no_certificate(problem, reason):
    instance = built(**problem)
    name = instance.library.names[-1]
    for missing in (certify_solution(instance), certify_deletion(instance, name)):
        assert not missing
        assert reason in missing.reason
    assert decide(1.0, 1e-9, margin=missing.margin) == "unresolved"


@pytest.mark.parametrize(
    "problem",
    [
        {"boundary": [cf.Neumann(u, 0)], "coefficients": {"lap": 1.0, "u": -1.0}},
        {"boundary": [cf.Dirichlet(u, sp.sin(x))]},
        {"boundary": [cf.Dirichlet(u, x * y)]},
        {"terms": {"lap": cf.lap(u), "u": -x * u}},
        {"terms": {"lap": cf.lap(u), "u": x * y * u.diff(x)}},
        {"terms": {"div": cf.div((1 + x) * cf.grad(u))}},
        {"terms": {"xx": u.diff(x, 2), "yy": 2 * u.diff(y, 2)}},
    ],
)
def test_what_has_no_constants_is_covered_by_enclosures(problem):
    found = certify_solution(built(**problem))
    assert found.kind == "guaranteed"
    assert "variable coefficients" in found.method


def test_a_system_of_one_equation_is_told_from_an_equation():
    plain = built()
    system = cf.Model(cf.System({"u": plain.library}), {"u/lap": 1.0, "u/u": 1.0}, plain.experiment)
    assert certify_deletion(plain, "u")
    for enriched in (False, True):
        assert "system of equations" in certify_deletion(system, "u/u", enriched=enriched).reason
    assert (
        cf.certify_observable(system, cf.Integral(u), ["u/u"])["u/u"].certificate.kind
        == "estimated"
    )


def test_values_given_on_the_boundary_are_covered():
    values, domain, outcomes = 1 + 2 * x - y + x * y, perturbed(2, 4, 0.2, 1.0), []
    for degree, term in ((2, "mixing"), (3, "u_x")):
        first, second = (
            cf.Model(
                LIBRARY,
                {**COEFFICIENTS, "u_x": -2.0, "drift": 0.5},
                cf.Experiment(
                    mesh=domain,
                    elements={u: ("Lagrange", k)},
                    boundary=[cf.Dirichlet(u, values)],
                    forcing={u: SOURCE},
                ),
            )
            for k in (degree, REFERENCE + 1)
        )
        outcomes.append(reference_outcome(first, second, term))
    assert all(o.covered for o in outcomes)
    assert all(o.factual[1] < 30 * o.factual[0] for o in outcomes)


def test_boundary_values_that_a_solution_does_not_have_are_found():
    problem = built(boundary=[cf.Dirichlet(u, 1 + x)], coefficients={"lap": 1.0, "u": -1.0})
    assert certify_solution(problem)
    shifted = problem.factual.states[0].copy()
    shifted[problem.essential.owned[0]] += 1e-6
    with pytest.raises(NotCovered, match="prescribed values"):
        certifier(problem).state(problem.coefficients, shifted)


def test_deleting_the_only_diffusion_has_no_certificate():
    missing = certify_deletion(built(coefficients={"lap": 1.0, "u": -1.0}), "lap")
    assert not missing
    assert "the diffusion coefficient 0 is not positive" in missing.reason


def by_rule(problem, source, degree):
    """The solution with a load by a plain rule, and ‖r‖ with (r, v) = (f, v) − rule(f v) for
    all v of the space.
    """
    space, dx = problem.spaces.space, ufl.dx(domain=problem.spaces.space.mesh)
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    forms = (ufl.inner(ufl.grad(trial), ufl.grad(test)) + trial * test) * dx, trial * test * dx
    matrices = [fem.assemble_matrix(fem.form(form)).to_dense() for form in forms]
    # On cells of 1/3 sin 200x has eleven periods, which 40 points a side integrate to twelve
    # digits.
    loads = [
        fem.assemble_vector(fem.form(source * test * dx(degree=n))).array for n in (80, degree)
    ]
    walls = exterior_facet_indices(space.mesh.topology)
    free = np.setdiff1d(np.arange(len(loads[0])), fem.locate_dofs_topological(space, 1, walls))
    stiffness, mass = (matrix[np.ix_(free, free)] for matrix in matrices)
    state = np.zeros(len(loads[0]))
    state[free] = np.linalg.solve(stiffness, loads[1][free])
    gap = (loads[0] - loads[1])[free]
    return state, float(np.sqrt(gap @ np.linalg.solve(mass, gap)))


def test_a_source_that_quadrature_cannot_see_is_in_the_bound():
    """With r_p by the projection p that the bound has of f, |‖r_p‖ − ‖r‖| ≤ ‖Π f − p‖, which
    the bound calls unseen.
    """
    coefficients = {"lap": 1.0, "u": -1.0}
    smooth, rough = (
        built(forcing={u: f}, coefficients=coefficients) for f in (sp.sin(3 * x), sp.sin(200 * x))
    )
    place = ufl.SpatialCoordinate(rough.spaces.space.mesh)[0]
    for degree in (1, 4, 8):
        state, missed = by_rule(rough, ufl.sin(200 * place), degree)
        assert missed > 0.1
        found = certifier(rough).state(coefficients, state).residual
        assert abs(found.algebraic - missed) <= found.unseen
        # On divided cells p is Π f up to rounding here, whatever the enclosures can say about it.
        assert found.algebraic == pytest.approx(missed, rel=1e-8)
    # The engine has the moments of the rough source, and its ordinary rule sees the smooth one.
    state, missed = by_rule(rough, ufl.sin(200 * place), 80)
    assert missed == 0
    assert rough.factual.states[0] == pytest.approx(state, abs=1e-9)
    assert certifier(rough).factual.residual.algebraic < 1e-8
    residual = certifier(smooth).factual.residual
    assert residual.algebraic + residual.unseen < 1e-4


def test_the_enriched_guarantee_comes_before_an_estimate():
    problem = model(perturbed(2, 6, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2))
    plain, enriched = (certify_deletion(problem, "u", enriched=rich) for rich in (False, True))
    assert enriched.margin < 0.8 * plain.margin
    epsilon, size = plain.score - (plain.margin + enriched.margin) / 2, enriched_size(problem)
    assert size == 13**2
    for budget, method in ((size, "enriched"), (size - 1, "equilibrated"), (1e5, "enriched")):
        found = best_certificates(problem, ["u"], cf.Certification(epsilon=epsilon, budget=budget))[
            "u"
        ]
        assert found.certificate.kind == "guaranteed"
        assert found.certificate.method.startswith(method)
    # Nothing decides near the score; the sharpest guarantee is what is left. At the score itself no
    # guarantee is worth a solve.
    for epsilon, sharpest in (
        (plain.score - 0.3 * enriched.margin, enriched),
        (plain.score, plain),
    ):
        left = best_certificates(problem, ["u"], cf.Certification(epsilon=epsilon, budget=size))[
            "u"
        ]
        assert left.margin == sharpest.margin


def test_certificates_say_what_they_rest_on():
    problem = model(perturbed(2, 4, 0.2, 1.0), DIFFUSIVE, COEFFICIENTS, 1, modal_forcing(2))
    for norm in ("L2", "H1", "energy"):
        bound = certify_deletion(problem, "u", norm)
        certificate = bound.certificate
        assert certificate.kind == "guaranteed"
        assert certificate.norm == norm
        assert certificate.value == bound.margin
        assert bound.margin <= bound.eta_factual + bound.eta_counterfactual
        assert "Dirichlet eigenvalue" in str(certificate)
        assert r"\begin{itemize}" in certificate.latex()
        assert certificate.constants["η_difference"] == bound.difference
        assert certificate.cost["flux solves"] >= 2
        assert "np." not in repr(bound)
    assert not certify_deletion(problem, "u", "H(div)")


# Ranks
# --------------------------------------------------------------------------------------------------


def print_margins(comm):
    problem = model(
        perturbed(2, 4, 0.2, 1.0, comm),
        LIBRARY,
        {**COEFFICIENTS, "u_x": -2.0, "drift": 0.5},
        1,
        SOURCE,
    )
    margins = [certify_deletion(problem, name).margin for name in ("mixing", "u_x", "drift")]
    if comm.rank == 0:
        print("margins", *map(repr, map(float, margins)))


@pytest.mark.mpi
def test_margins_are_the_same_on_two_ranks(on_ranks, capsys):
    check_on_two_ranks(print_margins, on_ranks, capsys)


def test_growth_close_to_the_first_eigenvalue_of_an_l_shape_is_covered():
    """λ₁ = 38.5589; the coarse mesh proves 36.6 only."""
    domain = coarse_l_shape(4, 1.0)
    terms = {"lap": cf.lap(u), "u": u}
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    plain = Domain(domain.mesh).eigenvalue
    library = cf.Library(terms=terms, unknown=u)
    for growth, covered in ((plain + 0.6 * (38.55 - plain), True), (38.6, False)):
        problem = cf.Model(library, {"lap": 1.0, "u": growth}, experiment)
        found = certify_solution(problem)
        assert bool(found) is covered
        if covered:
            assert plain < found.constants["λ₁"] < 38.5589
