"""The residual–counterfactual gap along ρ and the remainder of the adjoint approximation,
with constants known exactly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import problem
from dolfinx.mesh import create_unit_interval
from mpi4py import MPI

import cffem as cf
from cffem.engine.response.deletion_branch import largest

u = cf.ScalarField("u")


@pytest.fixture(scope="module")
def growth():
    """∂_t u = κ u + D Δu without flux from u = 1: u_j(ρ) = e^{(1−ρ) κ t} for the deletion of u."""
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "one": sp.Integer(1)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 4),
        elements={u: ("Lagrange", 1)},
        initial={u: 1},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 1, steps=64),
    )
    return cf.Model(library, {"u": 1.2, "lap": 0.1, "one": 0.3}, experiment)


def test_the_curvature_of_the_branch_is_estimated(growth):
    model = cf.Model(growth.library, {"u": 1.2}, growth.experiment)
    check = model.gap_check("u")
    times = np.linspace(0, 1, 20001)
    exact = math.sqrt(np.trapezoid(((1.2 * times) ** 2 * np.exp(1.2 * times)) ** 2, times))
    assert check.curvature == pytest.approx(exact, rel=0.02)
    assert check.linearised == pytest.approx(
        math.sqrt(np.trapezoid((1.2 * times * np.exp(1.2 * times)) ** 2, times)), rel=1e-3
    )
    assert check.holds
    assert check.status == "estimated"
    assert check.distances[-1] == pytest.approx(
        math.sqrt(np.trapezoid((np.exp(1.2 * times) - 1) ** 2, times)), rel=1e-3
    )
    # The bound is no empty one: the gap uses most of it.
    assert max(gap / bound for gap, bound in zip(check.gaps, check.bounds, strict=True)) > 0.7


@pytest.mark.parametrize(
    ("name", "norm"), [("reaction_diffusion", "H1"), ("maxwell", "H(curl)"), ("stokes", "L2")]
)
def test_the_gap_theorem_holds_along_every_branch(name, norm):
    model, _ = problem(name)
    for term in model.active[:2]:
        check = model.gap_check(term, norm, points=4)
        assert check.holds, check
        assert check.distances[-1] == pytest.approx(
            model.deletions([term], norm, conditions="kept")[term].score, rel=1e-9
        )


def test_a_term_that_enters_linearly_has_no_gap(growth):
    model = cf.Model(growth.library, {"lap": 0.1, "one": 0.3}, growth.experiment)
    check = model.gap_check("one", points=4)
    assert check.holds
    assert max(check.gaps) <= 1e-12
    assert check.distances[-1] == pytest.approx(check.linearised, rel=1e-10)


def test_a_branch_that_ends_is_reported():
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    model = cf.Model(cf.Library(terms={"lap": cf.lap(u)}, unknown=u), {"lap": 1.0}, experiment)
    check = model.gap_check("lap", points=4)
    assert check.status == "unsolvable"
    assert check.reason
    assert not check.holds
    assert check.rho == (0.25, 0.5, 0.75)
    deleted = model.observable_deletions(cf.Integral(u))["lap"]
    assert deleted.status == "unsolvable"
    assert math.isnan(deleted.score)


def test_an_odd_number_of_points_is_refused(growth):
    with pytest.raises(cf.InputError, match="an even number of points"):
        growth.gap_check("u", points=5)


def test_extrapolation_of_curvatures_is_exact_for_a_straight_line():
    def line(rho):
        return 5.0 - 2.0 * rho

    for count in (2, 3, 5):
        h = 1 / count
        samples = [line(h / 3), *(line(k * h) for k in range(1, count))]
        assert largest(samples) == pytest.approx(line(0.0))
        assert largest([7 - s for s in samples]) == pytest.approx(7 - line(1.0))


def test_the_remainder_of_the_terminal_mass_is_bounded(growth):
    mass = cf.Integral(u, at="end")
    bound = growth.observable_bound(mass, "u", points=4)
    assert bound.holds
    assert bound.certificate == "estimated"
    # The mass is the inner product with one, and linear.
    assert bound.derivative_norm == pytest.approx(1.0, rel=1e-12)
    assert bound.hessian == 0.0
    assert bound.change == pytest.approx(
        -growth.observable_deletions(mass, ["u"])["u"].score, rel=1e-11
    )
    assert 0.5 * bound.bound < abs(bound.remainder) < bound.bound


def test_the_remainder_of_an_energy_is_bounded(growth):
    bound = growth.observable_bound(cf.Energy(u, at="window"), "u", points=4)
    assert bound.holds
    assert bound.hessian == pytest.approx(1.0, rel=1e-10)
    assert bound.derivative_norm == pytest.approx(growth.factual.norm("L2"), rel=1e-10)


def test_the_remainder_with_rates_in_the_observable_is_bounded():
    model, observable = problem("maxwell")
    bound = model.observable_bound(observable, "damping", norm="H(curl)", points=4)
    assert bound.holds
    assert 0 < bound.hessian < 1.1
