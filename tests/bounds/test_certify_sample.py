"""A sample of `cffem bench certify`: random problems with known solutions, injected faults."""

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import cffem as cf
from benchmarks.certify.certify_bench import (
    CertifyOutcome,
    faults_section,
    measured,
    modal_outcome,
    sample,
)
from benchmarks.certify.certify_faults import wrong_sign
from benchmarks.certify.certify_modal import Truth, _amplitude, families, perturbed
from benchmarks.certify.certify_nonlinear import KINDS, nonlinear_case
from benchmarks.measuring import Board


def test_sixty_cases_hold_their_requirements():
    board = Board()
    outcomes = sample(board)
    assert len(outcomes) == 60
    assert board.missed == []


def test_injected_faults_widen_the_bounds_and_give_no_wrong_verdict():
    board = Board()
    faults_section(board, 1, seed=3)
    assert len(board.figures) == 9  # three faults, each covered, without wrong decisions, and wider
    assert board.missed == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_estimated_case_can_be_made_and_solved(kind):
    model, term = nonlinear_case(kind, np.random.default_rng(5))
    with model:
        assert 0 < model.deletions([term])[term].score < 10 * model.factual.norm()


def test_a_case_without_a_certificate_ends_the_benchmark():
    family = families()["steady 2D"]
    # Growth instead of decay: nothing is proved, and a benchmark of guarantees must not go on.
    model = family.model(perturbed(2, 3, 0.0, 0.0), {"lap": 1.0, "mixing": 0.1, "u": 40.0}, 1, None)
    with pytest.raises(RuntimeError, match="steady 2D: coercivity is not proved"):
        measured(family, "steady 2D", model, "mixing", 1)


def test_a_wrong_sign_really_changes_the_solution():
    family = families()["steady 2D"]
    coefficients = {"lap": 1.0, "mixing": 0.1, "u": -8.0}
    right, wrong = (
        family.model(perturbed(2, 6, 0.1, 1.0), coefficients, 1, None) for _ in range(2)
    )
    wrong_sign(wrong, "u")
    errors = [
        Truth(family, m).error(m.factual.states, [(1.0, coefficients)]) for m in (right, wrong)
    ]
    assert errors[1] > 5 * errors[0]


@pytest.mark.parametrize("name", ["parabolic 2D", "wave 2D", "Maxwell 2D"])
def test_the_exact_solutions_solve_their_problems(name):
    # A fine march converges to them, so they are what the bounds are measured with.
    family = families()[name]
    coefficients = (
        {"stiffness": 1.0, "mass": 3.0, "damping": 0.5}
        if family.kind == "wave"
        else {"lap": 0.2, "mixing": 0.1, "u": 1.0}
    )
    errors = []
    for cells, steps in ((4, 8), (8, 16)):
        model = family.model(
            perturbed(2, cells, 0.0, 0.0), coefficients, 2, cf.Window(0, 0.5, steps)
        )
        errors.append(Truth(family, model).error(model.factual.states, [(1.0, coefficients)]))
    assert np.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.parametrize("time", [0.0, 0.7, 3.0])
def test_critical_damping_is_the_limit_of_the_other_exact_amplitudes(time):
    # k = s²/4: between the oscillations and the decay the formula is another one.
    critical, *near = (_amplitude("wave", k, 2.0, 1.5, time) for k in (1.0, 1.0 - 1e-5, 1.0 + 1e-5))
    assert near == pytest.approx([critical, critical], abs=1e-4)
    assert critical == pytest.approx(1.5 * np.exp(-time) * (1 + time))


def test_an_outcome_that_does_not_hold_is_noticed():
    good = modal_outcome("steady 2D", np.random.default_rng(0))
    assert good.covered
    fields = {name: getattr(good, name) for name in CertifyOutcome.__dataclass_fields__}
    bad = CertifyOutcome(
        **{**fields, "score": (good.true_score, 1e-9), "computed": 2 * good.true_score}
    )
    assert not bad.covered
    assert any(wrong for wrong, _, _ in bad.decisions())
