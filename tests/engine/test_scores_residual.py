"""Residual contributions, the one-step score and the constants of residual ranking, against
numbers known exactly.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from derivative_problems import problem
from dolfinx.mesh import create_unit_interval, create_unit_square
from engine_support import unit
from mpi4py import MPI
from scipy.linalg import eigh

import cffem as cf
from cffem import x
from cffem.engine.response.residual_scores import factual_gram, response_gram

u = cf.ScalarField("u")


def test_scores_of_a_travelling_line_are_exact():
    """∂_t u = a + b ∂_x u from u = x has u = x + (a + b) t, whose terms are the constants a
    and b.
    """
    a, b, end, steps = 1.0, -0.5, 2.0, 8
    library = cf.Library(
        anchor=cf.dt(u), terms={"one": sp.Integer(1), "u_x": u.diff(x), "cubic": u**3}
    )
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 3, 3),
        elements={u: ("Lagrange", 1)},
        initial={u: x},
        time=cf.Window(0, end, steps=steps),
    )
    scores = cf.Model(library, {"one": a, "u_x": b}, experiment).residual_scores()
    for name, size in (("one", a), ("u_x", -b)):
        assert scores[name].contribution == pytest.approx(size * math.sqrt(end), rel=1e-12)
        assert scores[name].rci == pytest.approx(size / (a + b), rel=1e-12)
        assert scores[name].one_step == pytest.approx(end / steps * size, rel=1e-12)
        assert scores[name].representation == "strong"
    assert scores["cubic"].contribution == 0.0


def mode(degree=1, coefficients=None, terms=None):
    """A decaying sine on a uniform interval, which degree 1 reproduces as a discrete
    eigenfunction.
    """
    library = cf.Library(anchor=cf.dt(u), terms=terms or {"lap": cf.lap(u), "u": u})
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", degree)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=6),
    )
    return cf.Model(library, coefficients or {"lap": 0.05, "u": 0.3}, experiment)


def test_the_laplacian_of_degree_one_goes_through_its_riesz_representative():
    model = mode()
    h = 1 / 8
    eigenvalue = 6 / h**2 * (1 - np.cos(np.pi * h)) / (2 + np.cos(np.pi * h))
    score = model.residual_scores()["lap"]
    assert score.representation == "weak"
    assert score.contribution == pytest.approx(
        0.05 * eigenvalue * model.factual.norm("L2"), rel=1e-11
    )


def test_the_riesz_representative_of_a_periodic_problem_is_periodic():
    number = 12
    experiment = cf.Experiment(
        mesh=unit("interval", number),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(2 * sp.pi * x + 1)},
        boundary=[cf.Periodic(on="right", to="left")],
        time=cf.Window(0, 1, steps=3),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u)}), {"lap": 0.05}, experiment
    )
    angle = 2 * np.pi / number
    eigenvalue = 6 * number**2 * (1 - np.cos(angle)) / (2 + np.cos(angle))
    contribution = model.residual_scores()["lap"].contribution
    assert contribution == pytest.approx(0.05 * eigenvalue * model.factual.norm("L2"), rel=1e-11)


def test_strong_and_weak_representatives_tend_to_the_same_number():
    exact = 0.05 * np.pi**2 * mode(2).factual.norm("L2")
    assert mode(2).residual_scores()["lap"].contribution == pytest.approx(exact, rel=2e-2)
    assert mode(1).residual_scores()["lap"].contribution == pytest.approx(exact, rel=3e-2)


def test_proportional_terms_span_one_direction_with_one_constant():
    model = mode()
    constants, scores, responses = (
        model.ranking_constants(),
        model.residual_scores(),
        model.linearised(),
    )
    assert constants.rank == 1
    assert constants.ratio == pytest.approx(1.0, rel=1e-9)
    for name in ("lap", "u"):
        assert constants.lower * scores[name].contribution == pytest.approx(
            float(responses[name]), rel=1e-9
        )
    larger, smaller = sorted(scores, key=lambda name: -scores[name].contribution)
    assert constants.decides(larger, smaller)


@pytest.mark.parametrize("norm", ["L2", "H1"])
def test_ranking_constants_are_the_extreme_stretches_of_the_span(norm):
    model, _ = problem("reaction_diffusion")
    constants = model.ranking_constants(norm)
    scores, responses = model.residual_scores(), model.linearised(norm=norm)
    for name in model.active:
        stretch = float(responses[name]) / scores[name].contribution
        assert constants.lower * (1 - 1e-10) <= stretch <= constants.upper * (1 + 1e-10)
    assert constants.rank == len(model.active)
    samples, gram = factual_gram(model)
    weights = np.array([model.coefficients[name] for name in samples.names])
    images = response_gram(model, [responses[name].trajectory for name in samples.names], norm)
    squares = eigh(images, gram * np.outer(weights, weights), eigvals_only=True)
    assert (constants.lower, constants.upper) == pytest.approx(
        (math.sqrt(squares[0]), math.sqrt(squares[-1])), rel=1e-6
    )


def test_the_sum_of_a_steady_problem_is_its_forcing():
    experiment = cf.Experiment(
        mesh=create_unit_interval(MPI.COMM_SELF, 8),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 2},
    )
    score = cf.Model(
        cf.Library(terms={"lap": cf.lap(u)}, unknown=u), {"lap": 0.5}, experiment
    ).residual_scores()["lap"]
    assert score.contribution == pytest.approx(2.0, rel=1e-10)
    assert score.rci == pytest.approx(1.0, rel=1e-10)
    assert math.isnan(score.one_step)
