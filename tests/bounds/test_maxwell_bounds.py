"""Error bounds of Maxwell's equations hold with and without mass, constraint and matrix
terms, and widen with faults.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import check_on_two_ranks, perturbed, u
from dolfinx import mesh
from mpi4py import MPI
from wave_support import PLANE, SPACE, Cavity, cavity_mode, check, outcomes

import cffem as cf
from cffem import cross, curl, div, dt, grad, t, x, y, z
from cffem.bounds.certificate import NotCovered
from cffem.bounds.waves import wave_majorant
from cffem.bounds.waves.maxwell import MaxwellCertifier
from cffem.bounds.waves.scalar_waves import WaveCertifier
from cffem.bounds.waves.wave_data import projected
from cffem.bounds.waves.wave_problem import term_operators
from cffem.symbols.algebra.components import evaluate_on
from cffem.symbols.operators import Vec

COEFFICIENTS = {"stiffness": 1.0, "mass": 2.0, "damping": 0.3}


def cavity(n=5, degree=1, steps=10, constrained=True, force=0.0, **changes):
    return Cavity(
        True,
        perturbed(2, n, 0.2, 1.0),
        {**COEFFICIENTS, **changes},
        degree,
        0.8,
        steps,
        constrained,
        force,
    )


@pytest.fixture(scope="module")
def sound():
    return cavity().outcome("damping")


def test_every_bound_covers_and_no_decision_is_wrong():
    found = outcomes(4, 50, vector=True, largest=5)
    check(found)
    assert np.median([o.factual[1] / o.factual[0] for o in found]) <= 10.0


def test_enrichment_is_sharper_and_covers(sound):
    outcome = cavity().outcome("damping", enriched=True)
    check([outcome])
    assert outcome.factual[1] <= 2.0 * outcome.factual[0]
    assert outcome.margin < 0.5 * sound.margin


def test_bounds_in_space_cover():
    problem = Cavity(
        True,
        perturbed(3, 2, 0.1, 1.0),
        {"stiffness": 1.0, "mass": 0.0, "damping": 0.2},
        1,
        0.5,
        6,
        True,
        0.0,
    )
    check([problem.outcome("damping"), problem.outcome("stiffness")])


@pytest.mark.slow
def test_many_random_cavities_are_covered():
    plain, enriched = outcomes(120, 51, vector=True), outcomes(40, 52, vector=True, enriched=True)
    check(plain + outcomes(12, 53, vector=True, dim=3))
    check(enriched)
    assert np.median([o.factual[1] / o.factual[0] for o in plain]) <= 10.0
    assert np.median([o.factual[1] / o.factual[0] for o in enriched]) <= 2.0


def test_the_bound_has_the_order_of_the_error():
    bounds = [MaxwellCertifier(cavity(n, steps=n).model).factual[1].value for n in (5, 10)]
    assert 1.7 < bounds[0] / bounds[1] < 2.5


def test_the_difference_margin_is_proportional_to_the_deleted_coefficient(sound):
    small = cavity(damping=0.003).outcome("damping")
    assert small.difference[1] == pytest.approx(sound.difference[1] / 100, rel=0.2)
    assert small.margin < 0.02 * (small.factual[1] + small.counterfactual[1])


@pytest.mark.parametrize(("name", "constrained"), [("damping", True), ("mass", False)])
def test_residuals_of_differences_are_differences_of_residuals(name, constrained, monkeypatch):
    problem, found = cavity(3, 2, 20, constrained, force=0.5), []
    for kept in (wave_majorant.KEPT_NUMBERS, 0):
        monkeypatch.setattr(wave_majorant, "KEPT_NUMBERS", kept)
        certifier = problem.certifier()
        found.append(
            (
                certifier.deletion(problem.names[name]).difference,
                bool(certifier.factual[1].measured.parts),
            )
        )
    assert [shared for _, shared in found] == [True, False]
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-9)


def test_in_space_the_second_field_has_the_degree_of_the_solution_unless_it_must_match_it():
    found = {}
    for constrained in (False, True):
        problem = Cavity(True, perturbed(3, 2, 0.1, 1.0), COEFFICIENTS, 1, 0.5, 4, constrained, 0.0)
        certifier = problem.certifier()
        check([problem.outcome("damping")])
        found[constrained] = certifier.degree
    assert found == {False: 1, True: 2}


# Matrix terms, where there is no modal solution
# -----------------------------------------------------------------------------


VARYING = {
    PLANE: (0.7 + x) * Vec(PLANE[1], -2 * PLANE[0]),
    SPACE: cross(SPACE, (0, y, 3)),
    u: (x - 3 * y) * u,
}


@pytest.mark.parametrize("field", list(VARYING), ids=["plane", "space", "scalar"])
def test_manufactured_solutions_with_a_matrix_that_varies_are_covered(field):
    dim = field.dim if field.shape else 2
    mode = cavity_mode(
        (1, 1) if dim == 2 else (0, 1, 1), False, (x, y, z)[:dim], sp.sin, sp.cos, sp.pi
    )
    mode = mode if field.shape else (sp.sin(sp.pi * x) * sp.sin(sp.pi * y),)
    exact = tuple(sp.cos(4 * t) * part for part in mode)
    terms = {
        "curl": -curl(curl(field)) if field.shape else cf.lap(field),
        "matrix": VARYING[field],
        "damping": -dt(field),
    }
    library = cf.Library(anchor=dt(dt(field)), terms=terms)
    coefficients = {"curl": 1.0, "matrix": 2.0, "damping": 0.1}
    total = dt(dt(field)) - sum(value * terms[name] for name, value in coefficients.items())
    forcing = evaluate_on(total, {field: exact if field.shape else exact[0]}, dim)
    domain = perturbed(dim, 4 if dim == 2 else 2, 0.1, 2.0)
    experiment = cf.Experiment(
        mesh=domain,
        elements={field: ("N1curl" if field.shape else "Lagrange", 1)},
        initial={field: mode, dt(field): (0,) * dim}
        if field.shape
        else {field: mode[0], dt(field): 0},
        boundary=[cf.Tangential(field, 0) if field.shape else cf.Dirichlet(field, 0)],
        forcing={field: forcing if field.shape else forcing[0]},
        time=cf.Window(0, 0.6, steps=6),
    )
    certifier = (MaxwellCertifier if field.shape else WaveCertifier)(
        cf.Model(library, coefficients, experiment)
    )
    path, bound = certifier.factual
    squares = []
    for k, (left, right) in enumerate(zip(path.states.T[:-1], path.states.T[1:], strict=True)):
        for place in (0.1127, 0.5, 0.8873):
            when = float(path.times[k] + place * path.steps[k])
            given = projected(certifier.ruler.broken, [part.subs(t, when) for part in exact], 0.0)
            squares.append(certifier.ruler.distance(given, (1 - place) * left + place * right) ** 2)
    weights = np.kron(path.steps, [5 / 18, 8 / 18, 5 / 18])
    error = float(np.sqrt(weights @ squares))
    assert error < bound.value < 8 * error


def demo_like(comm):
    library = cf.Library(
        anchor=dt(dt(SPACE)),
        terms={
            "curl curl": -curl(curl(SPACE)),
            "damping": -dt(SPACE),
            "grad div": grad(div(SPACE)),
            "Hall": cross(SPACE, (0, 0, 1)),
        },
    )
    modes = (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), sp.sin(sp.pi * x) * sp.sin(sp.pi * z) / 2, 0)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_cube(comm, 4, 4, 4),
        elements={SPACE: ("N1curl", 1)},
        initial={SPACE: modes, dt(SPACE): (0, 0, 0)},
        boundary=[cf.Tangential(SPACE, 0)],
        time=cf.Window(0, 1, steps=12),
        constraint=cf.DivergenceFree(SPACE),
    )
    return cf.Model(
        library, {"curl curl": 1.0, "damping": 1e-3, "grad div": 1.0, "Hall": 0.1}, experiment
    )


def test_terms_of_a_cavity_are_decided_with_a_guarantee():
    model = demo_like(MPI.COMM_SELF)
    certifier, epsilon = MaxwellCertifier(model), 1e-2 * model.factual.norm()
    curls, damping, null = (
        certifier.deletion(name) for name in ("curl curl", "damping", "grad div")
    )
    assert cf.decide(curls.score, epsilon, margin=curls.margin) == "relevant"
    assert cf.decide(damping.score, epsilon, margin=damping.margin) == "irrelevant"
    assert null.margin < 1e-10 * epsilon
    assert damping.difference < 1e-2 * (damping.eta_factual + damping.eta_counterfactual)
    assert {b.certificate.kind for b in (curls, damping, null)} == {"guaranteed"}
    assert "np." not in repr((curls, damping, null))


@pytest.mark.slow
def test_a_matrix_term_is_deleted_within_its_margin():
    """Against degree 3 and four times as many steps on the same mesh, whose error is far
    below the margin.
    """
    library = cf.Library(
        anchor=dt(dt(PLANE)),
        terms={"curl": -curl(curl(PLANE)), "Hall": Vec(PLANE[1], -PLANE[0]), "damping": -dt(PLANE)},
    )
    mode = cavity_mode((1, 2), False, (x, y), sp.sin, sp.cos, sp.pi)
    scores = []
    for degree, steps in ((1, 10), (3, 40)):
        for constraint in (None, cf.DivergenceFree(PLANE)):
            experiment = cf.Experiment(
                mesh=mesh.create_unit_square(MPI.COMM_SELF, 6, 6),
                elements={PLANE: ("N1curl", degree)},
                initial={PLANE: mode, dt(PLANE): (0, 0)},
                boundary=[cf.Tangential(PLANE, 0)],
                time=cf.Window(0, 0.7, steps=steps),
                constraint=constraint,
            )
            model = cf.Model(library, {"curl": 1.0, "Hall": 3.0, "damping": 0.2}, experiment)
            bound = MaxwellCertifier(model).deletion("Hall") if degree == 1 else None
            scores.append((model.deletions(["Hall"])["Hall"].score, bound))
    for (score, bound), (exact, _) in zip(scores[:2], scores[2:], strict=True):
        assert abs(score - exact) < bound.margin < 60 * abs(score - exact)
        assert bound.margin == pytest.approx(bound.difference, rel=1e-6)


# Faults, ranks, scope
# --------------------------------------------------------------------------------------------------


def test_a_coarse_time_step_widens_the_bound():
    coarse, fine = (cavity(3, 2, steps).outcome("damping") for steps in (3, 12))
    check([coarse, fine])
    assert coarse.factual[1] > 1.5 * fine.factual[1]


def with_fault(broken=None, order=0):
    problem = cavity(3, 2, 6, mass=6.0, damping=1.5)
    if broken is not None:
        problem.model.equation.terms[broken].matrix(order).scale(-1.0)
    return problem.outcome("mass")


@pytest.fixture(scope="module")
def honest():
    return with_fault()


@pytest.mark.parametrize(("broken", "order"), [("mass", 0), ("damping", 1), ("curl", 0)])
def test_a_wrong_sign_in_one_term_widens_the_bound(broken, order, honest):
    outcome = with_fault(broken, order)
    check([honest, outcome])
    assert outcome.margin > 1.5 * honest.margin


def test_a_loosened_solver_widens_the_bound():
    problem, found = cavity(3, 2, 6, constrained=False), []
    for options in ({}, {"ksp_type": "cg", "pc_type": "jacobi", "ksp_rtol": 0.3}):
        problem.model = cf.Model(
            problem.model.library, problem.model.coefficients, problem.model.experiment, options
        )
        problem._measure()
        found.append(problem.outcome("damping"))
    check(found)
    assert found[1].margin > 1.5 * found[0].margin


def print_margins(comm):
    """Of both kinds in one run, since starting ranks takes most of the time."""
    margins = []
    for vector, dim, names in (
        (True, 2, ("damping", "curl")),
        (False, 2, ("damping", "lap")),
        (True, 3, ("damping",)),
    ):
        problem = Cavity(
            vector, perturbed(dim, 3, 0.2, 1.0, comm), COEFFICIENTS, 1, 0.5, 3, vector, 0.0
        )
        certifier = problem.certifier()
        margins += [float(certifier.deletion(name).margin) for name in names]
    if comm.rank == 0:
        print("margins", *map(repr, margins))


@pytest.mark.mpi
def test_margins_are_the_same_on_two_ranks(on_ranks, capsys):
    check_on_two_ranks(print_margins, on_ranks, capsys)


def test_coefficients_are_read_off_the_symbols():
    terms = {
        "lap": cf.lap(SPACE),
        "mix": -curl(curl(SPACE)) + grad(div(SPACE)) - 2 * SPACE,
        "b": cross(SPACE, (0, 0, x)),
    }
    library = cf.Library(anchor=dt(dt(SPACE)), terms=terms)
    found = term_operators(library, dict.fromkeys(terms, 2.0), 3, True)
    assert (found["lap"].stiffness, found["mix"].stiffness, found["mix"].mass) == (2.0, 2.0, 4.0)
    assert found["b"].size(np.array([[-3.0, 0, 0], [1.0, 5.0, 5.0]])) == pytest.approx(6.0)
    assert not found["b"].matrix.any()
    with pytest.raises(NotCovered, match="without the constraint"):
        term_operators(library, {"mix": 1.0}, 3, False)
    for term in (
        curl(SPACE),
        SPACE[0].diff(x, 2) * Vec(1, 0, 0),
        Vec(dt(SPACE[0]), 0, 0),
        dot_cubed(SPACE),
        x**2 * SPACE,
    ):
        with pytest.raises(NotCovered):
            term_operators(cf.Library(anchor=dt(dt(SPACE)), terms={"t": term}), {"t": 1.0}, 3, True)


def dot_cubed(field):
    return cf.dot(field, field) * field


def test_what_is_not_covered_says_why():
    problem = cavity(2, steps=2)
    with pytest.raises(NotCovered, match="in the norm energy"):
        MaxwellCertifier(problem.model).deletion("mass", "energy")
    certificate = MaxwellCertifier(problem.model).solution(
        problem.model.solve(cf.scale("mass", 0.5))
    )
    assert certificate.kind == "guaranteed"
    assert "E × n = 0 on the whole boundary" in str(certificate)
    with pytest.raises(NotCovered, match="changes the forcing"):
        MaxwellCertifier(problem.model).solution(problem.model.solve(cf.start({PLANE: (0, 0)})))
