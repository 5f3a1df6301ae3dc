"""Taylor tests of linearised responses and adjoint scores for every class of problems, and
their agreement with each other.
"""

from __future__ import annotations

import math

import pytest

pytest.importorskip("dolfinx")

from derivative_problems import PROBLEMS, problem

import cffem as cf

CLASSES = pytest.mark.parametrize("name", PROBLEMS)


@CLASSES
def test_the_linearised_response_is_the_derivative_of_the_solution(name):
    model, _ = problem(name)
    for term in model.active:
        test = cf.taylor_linearised(model, term)
        assert test.passed(), (term, test)


@CLASSES
def test_the_adjoint_gives_the_derivative_of_the_observable(name):
    model, observable = problem(name)
    for term in model.active:
        test = cf.taylor_observable(model, observable, term)
        assert test.passed(), (term, test)


@CLASSES
def test_adjoint_and_linearised_response_agree(name):
    model, observable = problem(name)
    scores, responses = model.observable_scores(observable), model.linearised()
    measurement = model.measurement(observable)
    for term in model.active:
        direct = measurement.derivative(model.factual, responses[term].trajectory)
        assert abs(direct) > 1e-8, "an observable that does not feel a term tests nothing"
        assert scores.signed[term] == pytest.approx(-direct, rel=1e-10), term
        assert scores[term] == abs(scores.signed[term])


def test_a_taylor_test_notices_a_wrong_derivative():
    model, observable = problem("reaction_diffusion")
    measurement, slope = (
        model.measurement(observable),
        -model.observable_scores(observable).signed["sin"],
    )

    def value(step):
        return measurement.value(model.solve(cf.scale("sin", 1 - step)))

    assert cf.taylor_order(value, slope) > 1.99
    assert cf.taylor_order(value, 1.001 * slope) < 1.9


def test_a_forcing_like_term_of_a_linear_equation_is_exactly_linear():
    model, observable = problem("heat")
    assert cf.taylor_linearised(model, "one").exact
    assert cf.taylor_observable(model, observable, "one").exact
    assert not cf.taylor_linearised(model, "lap").exact


def test_orders_and_exactness_of_the_generic_test():
    assert cf.taylor_order(math.exp, 1.0) == pytest.approx(2.0, abs=0.01)
    assert cf.taylor_order(lambda step: 3.0 + 2.0 * step, 2.0) == math.inf
