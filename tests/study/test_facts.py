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
from cffem.study.run.identified_facts import (
    AdjointFact,
    AliasFact,
    ClassFact,
    ConstraintFact,
    DesignFact,
    DesignFacts,
    EigenvalueFact,
    LimitFact,
    LinearisedFact,
    NullFact,
    ObservableBoundFact,
    PathFact,
    ResidualFact,
    ScreeningFact,
    SelectedFact,
    SkillFact,
    SpreadFact,
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
SELECTED = SelectedFact(("lap",), 0.9, 1.2)
ALIAS = AliasFact(("u", "lap"), ("u - lap",), ("u",), (0.5,), "only u - lap is identified")
DESIGN = DesignFact(
    "weak", 100, 80.0, 2, ("u", "lap"), 0.99, ((1.0, 0.99), (0.99, 1.0)), 1, (ALIAS,),
    EigenvalueFact(1, 0.1, 0.2), SELECTED, ({"noise_sd": {"u": 0.1}},),
)  # fmt: skip
SCREEN = ScreeningFact(
    "Derivative(u, t)", "columns scaled", "lasso", "least squares", 0.1, None, 0.01, ("lap",),
    {"u": 0.0, "lap": 0.5}, {"lap": (0.4, 0.6)}, {"u": (None, 0.1)}, {"lap": 1.0}, 0.1, None, 0.5,
    "holds", "fails", "unknown", True, False, ("few rows",), 0.9,
    PathFact((0.1, 0.2), {"lap": (0.5, 0.4)}), SELECTED, SkillFact(0.9, 0.1, 1.0, 4), 0,
)  # fmt: skip
CONSTRAINT = ConstraintFact(
    "div(u) = 0",
    (NullFact("grad", "numeric", 1e-15, None, 0.0, "exact", "it vanishes"),),
    (ClassFact(("a", "b"), ("a",), ("a + b",), "numeric", 1e-15, "exact"),),
    ("a",),
)
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
    DESIGN,
    SCREEN,
    CONSTRAINT,
    DesignFacts({"u": DESIGN}),
    DesignFacts(skipped="no rows"),
    LimitFact(0.5, {"": 0.1}),
    LimitFact(0.5, None),
    LinearisedFact({"lap": 0.3}),
    ResidualFact(0.1, 0.2, 0.3),
    AdjointFact(1.0, {"lap": 0.3}),
    ObservableBoundFact(0.1, "estimated", "levels"),
    ObservableBoundFact(reason="too large"),
    SpreadFact({"lap": 0.1}, {"mass": {"lap": 0.2}}, 0.3),
]  # fmt: skip


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_facts_are_what_they_were_after_the_checkpoint(fact):
    assert type(fact).from_plain(json.loads(json.dumps(fact.to_plain()))) == fact
    with pytest.raises(FrozenInstanceError):
        setattr(fact, fields(fact)[0].name, None)


# What the report adds to a fact: a design gets the next experiment.
@pytest.mark.parametrize(
    ("section", "fact", "added"),
    [("design", DESIGN, {"next"}), ("screening", SCREEN, set()), ("constraint", CONSTRAINT, set())],
)
def test_the_schema_of_reports_knows_the_facts_by_their_names(section, fact, added):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((module.Path(module.__file__).parent / "report.schema.json").read_text())
    stated, plain = schema["$defs"][section], fact.to_plain()
    assert {*stated["properties"], *stated["required"]} <= {*plain, *added}
    jsonschema.validate({**plain, "next": None}, {**stated, "$defs": schema["$defs"]})


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
