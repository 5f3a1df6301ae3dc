"""A certificate is about the problem that was solved: interventions on data, refitted
coefficients, relative tolerances.
"""

import math

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem.bounds.entrance import certify_deletion, certify_solution, certify_sweep

u = cf.ScalarField("u")
LOW, HIGH = (sp.sin(k * sp.pi * x) * sp.sin(k * sp.pi * y) for k in (1, 8))
LOWEST, HIGHEST = 2 * math.pi**2, 128 * math.pi**2


def square(cells):
    return mesh.create_unit_square(MPI.COMM_SELF, cells, cells)


def steady(cells=4, degree=1, forcing=LOW, boundary=0):
    library = cf.Library(terms={"lap": lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(cells),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, boundary)],
        forcing={u: forcing},
    )
    return cf.Model(library, {"lap": 1.0, "r": -1.0}, experiment)


def transient(order):
    anchor, terms = (
        (dt(u), {"lap": lap(u), "r": u}) if order == 1 else (dt(dt(u)), {"lap": lap(u), "r": u})
    )
    initial = {u: LOW} if order == 1 else {u: LOW, dt(u): 0}
    experiment = cf.Experiment(
        mesh=square(6),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial=initial,
        time=cf.Window(0, 1, steps=8),
    )
    return cf.Model(cf.Library(anchor=anchor, terms=terms), {"lap": 0.001, "r": -0.1}, experiment)


def norm_in_time(rates, amplitudes, order):
    """‖Σ a_k y_k(t) φ_k‖ in space and time, where y' = r y, or y'' = r y with y'(0) = 0."""
    times = np.linspace(0, 1, 4001)
    shapes = [np.exp(r * times) if order == 1 else np.cos(math.sqrt(-r) * times) for r in rates]
    return math.sqrt(
        np.trapezoid(sum((a * s) ** 2 for a, s in zip(amplitudes, shapes, strict=True)) / 4, times)
    )


@pytest.mark.parametrize("enriched", [False, True])
def test_a_forced_problem_is_certified_and_not_the_factual_one(enriched):
    # The new forcing is far too fine for the mesh: a bound of the factual problem is smaller than
    # the error.
    model, change = steady(), cf.force({u: LOW + 20000 * HIGH})
    found = certify_solution(model, change, enriched=enriched)
    exact = math.hypot(1 / (LOWEST + 1), 20000 / (HIGHEST + 1)) / 2
    assert found.kind == "guaranteed"
    assert (
        found.value
        >= abs(exact - model.solve(change).norm())
        > 100 * certify_solution(model, enriched=enriched).value
    )


@pytest.mark.parametrize("enriched", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_a_problem_with_another_start_is_certified(order, enriched):
    model, change = transient(order), cf.start({u: LOW + 3 * HIGH})
    found = certify_solution(model, change, enriched=enriched)
    rates = [-(0.001 * k + 0.1) for k in (LOWEST, HIGHEST)]
    error = abs(norm_in_time(rates, [1.0, 3.0], order) - model.solve(change).norm())
    assert found.kind == "guaranteed"
    assert found.value >= error > certify_solution(model, enriched=enriched).value


@pytest.mark.parametrize("enriched", [False, True])
def test_coefficients_and_data_may_change_together(enriched):
    model = steady(8)
    change = cf.force({u: 5 * LOW}) & cf.scale("r", 3.0)
    found = certify_solution(model, change, enriched=enriched)
    exact = 5 / (LOWEST + 3) / 2
    error = abs(exact - model.solve(change).norm())
    assert error <= found.value <= 0.3 * exact


@pytest.mark.parametrize("enriched", [False, True])
def test_other_boundary_values_are_certified_or_refused(enriched):
    # u = x solves −Δu + u = x, and u = 1 + x y solves −Δu + u = 1 + x y.
    model = steady(4, degree=2, forcing=x, boundary=x)
    change = cf.boundary(cf.Dirichlet(u, 1 + x * y)) & cf.force({u: 1 + x * y})
    found = certify_solution(model, change, enriched=enriched)
    assert found.kind == "guaranteed"
    assert found.value < 1e-8
    wrong = certify_solution(model, cf.boundary(cf.Dirichlet(u, 1 + x * y)), enriched=enriched)
    assert (
        wrong.value > 1e-4
    )  # the factual forcing belongs to other values, so that u is not in the space
    other = certify_solution(model, cf.boundary(cf.Dirichlet(u, sp.sin(x))), enriched=enriched)
    # Enrichment is for polynomials.
    assert "polynomial" in other.reason if enriched else other.kind == "guaranteed"


def test_a_released_constraint_is_refused():
    E = cf.VectorField("E", dim=2)
    library = cf.Library(anchor=dt(dt(E)), terms={"curl": -cf.curl(cf.curl(E)), "damping": -dt(E)})
    experiment = cf.Experiment(
        mesh=square(3),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y), 0), dt(E): (0, 0)},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 1, steps=3),
        constraint=cf.DivergenceFree(E),
    )
    found = certify_solution(
        cf.Model(library, {"curl": 1.0, "damping": 0.1}, experiment), cf.release()
    )
    assert not found
    assert "constraint" in found.reason


def test_the_solution_of_another_problem_is_no_deletion():
    model = steady()
    found = certify_deletion(model, "r", deleted=model.solve(cf.force({u: 2 * LOW})))
    assert not found
    assert "force" in found.reason


@pytest.mark.parametrize("degree", [2, 3])
def test_the_error_of_refitted_coefficients_is_in_the_margin(degree):
    first, second = sp.sin(sp.pi * x) * sp.sin(sp.pi * y), sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y)
    k, c, f = math.pi**2 * np.array([2, 5]), -10.0, np.array([1.0, 3.0])
    library = cf.Library(terms={"lap": lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(8),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: f[0] * first + f[1] * second},
    )
    model = cf.Model(library, {"lap": 1.0, "r": c}, experiment)
    amplitudes = f / (k - c)
    fitted = 1 + (c * amplitudes) @ (-k * amplitudes) / ((k * amplitudes) @ (k * amplitudes))
    exact = np.linalg.norm(amplitudes - f / (fitted * k)) / 2
    sweep = model.deletions(["r"], keep=True, refit="remaining")
    bound = certify_sweep(model, sweep, cf.Certification())["r"]
    assert bound.certificate.kind == "estimated"
    assert abs(bound.score - exact) <= bound.margin <= 0.1 * exact
    # Coefficients of one's own are taken as they are, and then there is a theorem.
    own = model.deletions(["r"], keep=True, refit={"r": {"lap": fitted}})
    bound = certify_sweep(model, own, cf.Certification(epsilon=exact * 10))["r"]
    assert bound.certificate.kind == "guaranteed"
    assert abs(bound.score - exact) <= bound.margin


def test_a_refit_without_levels_to_judge_it_has_no_error_bar():
    model = steady(4, degree=2)
    sweep = model.deletions(["r"], keep=True, refit="remaining")
    found = certify_sweep(model, sweep, cf.Certification(budget=1))["r"]
    assert not found
    assert "refitted" in found.reason


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize(
    "tolerances", [(0.6, 0.7), pytest.param((0.5, 0.8), marks=pytest.mark.slow)]
)
def test_a_relative_tolerance_knows_the_error_of_the_norm(tolerances, refine):
    # u has a large part that the mesh does not see: δ/‖u‖ = 0.645, but δ/‖u_h‖ = 0.85.
    high = sp.sin(12 * sp.pi * x) * sp.sin(12 * sp.pi * y)
    library = cf.Library(terms={"lap": lap(u), "src": LOW}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(8),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 60 * 288 * math.pi**2 * high},
    )
    for epsilon in tolerances:
        certification = cf.Certification(epsilon=epsilon, relative=True, refine=refine, budget=2e4)
        report = cf.Study(
            library,
            [experiment],
            coefficients={"lap": 1.0, "src": 1000.0},
            certification=certification,
        ).run()
        term = report.terms["src"]
        assert term.decision in ("unresolved", "relevant" if epsilon < 0.645 else "irrelevant")
        if not refine:
            assert "relative" in term.reason
