"""Refinement until decided, and the screening-to-pruning contract."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cffem.verdicts import decide_by_refinement, pruning_contract


class Levels:
    """A model problem: the true score, and errors and error bars that shrink by four from
    level to level.
    """

    def __init__(self, truth, bar, error, last):
        self.truth, self.bar, self.error, self.last, self.calls = truth, bar, error, last, []

    def __call__(self, names, level):
        self.calls.append((names, level))
        if level > self.last:
            return None
        shrink = 4.0**-level
        return {
            n: SimpleNamespace(score=self.truth[n] + self.error * shrink, margin=self.bar * shrink)
            for n in names
        }


@settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow]
)  # a busy machine is no failure
@given(
    truth=st.dictionaries(st.sampled_from("abcde"), st.floats(0.01, 10), min_size=1),
    epsilon=st.floats(0.01, 10),
    bar=st.floats(0.01, 10),
    share=st.floats(0, 1),
    last=st.integers(0, 8),
)
def test_never_wrong_where_the_bars_hold(truth, epsilon, bar, share, last):
    found = decide_by_refinement(truth, epsilon, Levels(truth, bar, share * bar, last))
    assert list(found) == list(truth)
    for name, verdict in found.items():
        if verdict.decision == "relevant":
            assert truth[name] > epsilon * (1 - 1e-12)
        elif verdict.decision == "irrelevant":
            assert truth[name] < epsilon * (1 + 1e-12)
        else:
            assert verdict.level == last
            assert "budget" in verdict.reason


def test_only_the_undecided_are_refined_from_coarse_to_fine():
    truth = {"far": 10.0, "near": 1.1, "on": 1.0}
    levels = Levels(truth, bar=1.0, error=0.0, last=5)
    found = decide_by_refinement(truth, 1.0, levels)
    assert [level for _, level in levels.calls] == list(range(7))
    assert levels.calls[1][0] == ("near", "on")
    assert levels.calls[-2][0] == ("on",)
    assert (found["far"].level, found["near"].level, found["on"].decision) == (0, 2, "unresolved")


def test_a_gap_between_levels_decides_nothing():
    # Scores that agree on all levels, but no error bar: unresolved for ever.
    def certify(names, level):
        return (
            {
                n: SimpleNamespace(score=5.0, margin=math.inf, reason="no theorem applies")
                for n in names
            }
            if level < 4
            else None
        )

    verdict = decide_by_refinement(["u"], 1e-3, certify)["u"]
    assert verdict.decision == "unresolved"
    assert "no theorem applies" in verdict.reason


def test_a_finer_level_without_bound_keeps_the_coarser_one():
    def certify(names, level):
        if level > 1:
            return None
        bound = (
            SimpleNamespace(score=1.0, margin=0.5)
            if level == 0
            else SimpleNamespace(margin=math.inf, reason="too rough")
        )
        return dict.fromkeys(names, bound)

    verdict = decide_by_refinement(["u"], 0.8, certify)["u"]
    assert (verdict.decision, verdict.level, verdict.margin) == ("unresolved", 0, 0.5)


def test_the_contract_names_the_term_that_breaks_it():
    decisions = {"lap": "relevant", "u": "irrelevant", "u_x": "unresolved", "one": "unsolvable"}
    contract = pruning_contract(decisions, kinds={"lap": "estimated"})
    assert (contract.verdict, contract.breaking, contract.estimated) == (
        "fails",
        ("u_x", "one"),
        True,
    )
    assert pruning_contract(decisions, screened=["lap", "u"]).verdict == "holds"
    assert pruning_contract(decisions, screened=["lap", "u"], recall="unknown").verdict == "unknown"
    assert pruning_contract({"lap": "relevant"}, recall="fails").verdict == "fails"
    with pytest.raises(ValueError, match="no decision"):
        pruning_contract(decisions, screened=["v"])


def test_nobody_calls_an_unscreened_term_irrelevant_without_recall():
    decisions = {"lap": "relevant"}
    assert pruning_contract(decisions, recall="holds").unscreened()[0] == "irrelevant"
    for recall, kinds in (("fails", {}), ("unknown", {}), ("holds", {"lap": "estimated"})):
        decision, reason = pruning_contract(decisions, recall=recall, kinds=kinds).unscreened()
        assert decision == "unresolved"
        assert reason.startswith("not screened")
