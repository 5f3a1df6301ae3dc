"""The three-way decision of the robust relevance theorem."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cffem.symbols.errors import InputError
from cffem.verdicts import decide
from cffem.verdicts.certification import Certification

numbers = st.floats(0, 1e6, allow_nan=False)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure
@given(true=numbers, epsilon=st.floats(1e-9, 1e6), f=numbers, c=numbers, share=st.floats(-1, 1))
def test_never_wrong_when_the_error_bars_hold(true, epsilon, f, c, share):
    score = true + share * (f + c)
    if score < 0 or abs(score - true) > f + c:
        return
    verdict = decide(score, epsilon, f, c)
    if verdict == "relevant":
        assert true > epsilon * (1 - 1e-9)
    if verdict == "irrelevant":
        assert true < epsilon * (1 + 1e-9)


def test_equality_is_unresolved():
    assert decide(0.5, 0.25, 0.125, 0.125) == "unresolved"
    assert decide(0.0, 0.25, 0.125, 0.125) == "unresolved"
    assert decide(0.25, 0.25, margin=0) == "unresolved"


def test_no_error_bar_no_verdict():
    assert decide(1e9, 1e-9) == "unresolved"
    assert decide(1e9, 1e-9, eta_factual=0.0) == "unresolved"
    assert decide(1e9, 1e-9, eta_counterfactual=0.0) == "unresolved"
    assert decide(1e9, 1e-9, margin=0) == "relevant"
    assert decide(0.0, 1e-9, 0.0, 0.0) == "irrelevant"
    assert decide(1e9, 1e-9, margin=math.inf) == "unresolved"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": -1.0, "epsilon": 1.0}, "the score must be"),
        ({"score": math.nan, "epsilon": 1.0}, "the score must be"),
        ({"score": math.inf, "epsilon": 1.0}, "the score must be"),
        ({"score": 1.0, "epsilon": 0.0}, "epsilon must be positive"),
        ({"score": 1.0, "epsilon": math.nan}, "epsilon must be"),
        ({"score": 1.0, "epsilon": 1.0, "margin": -0.1}, "the margin must be"),
        ({"score": 1.0, "epsilon": 1.0, "eta_factual": math.nan}, "eta_factual must be"),
        ({"score": 1.0, "epsilon": 1.0, "eta_factual": 0.1, "margin": 0.1}, "not both"),
    ],
)
def test_misuse_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        decide(**arguments)


@pytest.mark.parametrize("name", ["relative", "refine", "enriched"])
def test_switches_of_a_certification_are_true_or_false(name):
    with pytest.raises(InputError, match=f"{name} is True or False"):
        Certification(**{name: "yes"})


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, True, "1e-3", None])
@pytest.mark.parametrize("name", ["epsilon", "budget", "effort"])
def test_tolerance_and_budget_of_a_certification_are_positive_numbers(name, value):
    if name == "budget" and value is None:  # nothing is said of it
        assert Certification(budget=None).largest > 0
        return
    with pytest.raises(InputError, match=f"{name} must be a positive number, not"):
        Certification(**{name: value})
