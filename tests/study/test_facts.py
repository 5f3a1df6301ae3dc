"""Facts survive the checkpoint as they were, and what the report takes of them is what its schema
says.
"""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields

import pytest

pytest.importorskip("dolfinx")

from cffem.engine.solve.solve_record import SolveRecord
from cffem.study.report import report as module
from cffem.study.run.facts import (
    BoundFact,
    DeletionFact,
    FactualFact,
    JudgedDeletion,
    LevelFact,
    PartialFact,
    RefinementFact,
    TermDeletion,
)
from cffem.symbols.reasons import Code, Reason
from cffem.verdicts.certification import Certification

RECORD = SolveRecord(3, 4, 1, 2, 1e-9, "lu", ["gave way"], ["unstable"])
BOUND = BoundFact(
    0.1,
    2.0,
    0.03,
    None,
    "guaranteed",
    "flux",
    "a ≤ b",
    r"a \leq b",
    (("Ω is convex", "by its edges"),),
    {"C": 0.5, "unknown": None},
    {"seconds": 1.0},
)
MISSING = BoundFact(missing=Reason(Code.OVER_BUDGET, "too large"))
PROFILE = {"rho": [0.1], "scores": [0.2], "reach": 0.5}
FACTS = [
    FactualFact(100, 50, "triangle", 4, 1.5, {"u": 1.0}, RECORD, ("a note",)),
    FactualFact(100, 50, "triangle", 4, unsolved=Reason(Code.MODEL_GROWS, "it grows")),
    BOUND,
    MISSING,
    DeletionFact(
        "solved", 0.2, {"u": 0.2}, "", "", "released", RECORD, "difference", 1e-6, {"u": 0.0},
        {"mass": 1.0}, 0.3,
    ),
    DeletionFact("unsolvable", None, reason="it blows up", cause="blow-up"),
    PartialFact(PROFILE, 0.4, 0.2, BOUND),
    PartialFact(PROFILE),
    LevelFact(1, 0.2, 0.01),
    RefinementFact((LevelFact(0, 0.2, 0.1), LevelFact(1, 0.2, 0.01)), 1, 0.2, BOUND),
    RefinementFact((), reason="beyond the budget"),
]  # fmt: skip


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_facts_are_what_they_were_after_the_checkpoint(fact):
    assert type(fact).from_plain(json.loads(json.dumps(fact.to_plain()))) == fact
    with pytest.raises(FrozenInstanceError):
        setattr(fact, fields(fact)[0].name, None)


@pytest.mark.parametrize("bound", [BOUND, MISSING])
def test_bounds_are_what_the_schema_of_reports_calls_a_proof(bound):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((module.Path(module.__file__).parent / "report.schema.json").read_text())
    proof = {**schema["$defs"]["term"]["properties"]["proof"], "$defs": schema["$defs"]}
    jsonschema.validate(bound.to_plain(), proof)
    wrong = {**BOUND.to_plain(), "hypotheses": [["one word"]]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, proof)


def test_only_what_an_error_bar_leaves_open_is_refined():
    asked, fact = Certification(epsilon=0.2), DeletionFact("solved", 0.5)
    assert not JudgedDeletion(fact, 0.5).undecided(0.2, asked)  # nobody asked for a bound
    assert JudgedDeletion(fact, 0.5, MISSING).undecided(0.2, asked)
    assert not JudgedDeletion(fact, 0.5, BOUND).undecided(0.2, asked)
    assert JudgedDeletion(fact, 0.5, BOUND).undecided(0.45, asked)


def test_a_part_stands_for_a_deletion_without_a_solution_only():
    whole, none = DeletionFact("solved", 0.5), DeletionFact("unsolvable", None)
    part = PartialFact(PROFILE, 0.4, 0.2, BOUND)
    assert JudgedDeletion(whole, 0.5).at_share(part, True).share is None
    found = JudgedDeletion(none, None).at_share(part, True)
    assert (found.share, found.score, found.reach, found.bound) == (0.4, 0.2, 0.5, BOUND)
    fitted = JudgedDeletion(none, None).at_share(part, False).bound
    assert fitted is not None
    assert fitted.margin is None


def test_fields_that_are_judged_by_themselves_have_their_own_scores_and_bounds():
    fact = DeletionFact("solved", 0.5, {"u": 0.1, "T": 0.4})
    found = TermDeletion.of(fact, ("u", "T"), {"u": BOUND, "T": MISSING}).judged
    assert {name: each.score for name, each in found.items()} == {"u": 0.1, "T": 0.4}
    assert (found["u"].bound, found["T"].bound) == (BOUND, MISSING)
    assert TermDeletion.of(fact, (), None).judged[""].score == 0.5
