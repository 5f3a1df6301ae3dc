"""What is left beyond three levels: by gaps that shrink alike, by powers of the degree, and
of it what a norm shows.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from benchmarks.sweep.sweep_problems import PROBLEMS
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.levels.level_gaps import Gaps, Levels, left_by_powers
from cffem.bounds.levels.three_levels import norm_shares
from cffem.bounds.refining import Refinement
from cffem.verdicts import decide_by_refinement


def test_the_second_gap_must_be_smaller():
    assert not Gaps("mesh", 1.0, 1.0, 2.0).accepted
    assert Gaps("mesh", 1.0, 0.49, 1.5).accepted
    # Slow gaps widen the estimate, by what they leave and by a larger safety factor.
    assert Gaps("mesh", 1.0, 0.9, 1.9).rest == pytest.approx(2 * 1.5 * 0.9 * 9)
    assert not Gaps("degree", 1.0, 0.5, 1.5).accepted
    assert Gaps("mesh", 1e-14, 3e-14, 4e-14, floor=1e-12).accepted
    # A tiny measured saturation is not relied on.
    assert Gaps("mesh", 1.0, 1e-3, 1.0).rest == pytest.approx(1.5e-3 / 3)


def test_elements_of_first_order_halve_their_gaps():
    # Errors h, h/2, h/4 with h = 1: the gaps are 1/2 and 1/4, and 1/4 is left.
    gaps = Gaps("mesh", 0.5, 0.25, 0.75, first_order=True)
    assert gaps.accepted
    assert gaps.rest == pytest.approx(1.5 * 0.25)
    assert not Gaps("mesh", 0.5, 0.3, 0.8, first_order=True).fast
    # Faster than they can go on for ever does not count.
    assert Gaps("mesh", 0.5, 0.1, 0.6, first_order=True).rest == pytest.approx(1.5 * 0.1)
    assert Gaps("time step", 0.5, 0.1, 0.6, first_order=True).rest == pytest.approx(1.5 * 0.1 / 3)


@given(power=st.floats(0.3, 12.0), degree=st.integers(1, 4), size=st.floats(1e-6, 1e3))
def test_an_error_that_is_a_power_of_the_degree_is_found_from_three_degrees(power, degree, size):
    errors = [size * float(p) ** -power for p in range(degree, degree + 3)]
    first, second = errors[0] - errors[1], errors[1] - errors[2]
    assert left_by_powers(second / first, degree) * second == pytest.approx(errors[2], rel=1e-6)
    assert Gaps("degree", first, second, first + second, degree=degree).rest >= errors[2]


@given(factor=st.floats(0.01, 0.45), degree=st.integers(1, 4))
def test_an_error_that_is_an_exponential_of_the_degree_is_below_the_rest(factor, degree):
    errors = factor ** np.arange(3.0)
    gaps = Gaps(
        "degree", errors[0] - errors[1], errors[1] - errors[2], errors[0] - errors[2], degree=degree
    )
    assert gaps.rest >= errors[2]


def test_gaps_that_no_power_explains_leave_everything_open():
    assert math.isinf(left_by_powers(0.6, 1))
    assert left_by_powers(1e-30, 1) == 0


@given(st.integers(0, 10**6))
def test_shares_are_what_norms_show_of_the_gaps(seed):
    w = np.random.default_rng(seed).normal(size=(3, 5))
    fields = np.stack([w[0] - w[1], w[1] - w[2], w[2]])
    norms = np.linalg.norm(w, axis=1)
    expected = [abs(norms[k] - norms[k + 1]) / np.linalg.norm(fields[k]) for k in (0, 1)]
    assert norm_shares(fields @ fields.T) == pytest.approx(expected, abs=1e-9)


def test_a_norm_is_known_better_than_its_field_where_errors_are_orthogonal_to_it():
    # w_k = (1, h) with h = 0.2, 0.1, 0.05: the norm converges with the second power of h.
    w = np.array([[1.0, h] for h in (0.2, 0.1, 0.05)])
    fields = np.stack([w[0] - w[1], w[1] - w[2], w[2]])
    gram = fields @ fields.T
    gaps = Gaps("mesh", 0.1, 0.05, 0.15, first_order=True, shares=norm_shares(gram))
    levels = Levels((gaps,), float(np.linalg.norm(w[0])), float(np.linalg.norm(w[2])))
    assert levels.rest >= 0.05
    assert abs(1.0 - levels.combined) <= levels.norm_rest < 0.6 * levels.rest
    # A field that is not resolved is not judged by its norm.
    wide = Levels((Gaps("mesh", 4.0, 1.6, 5.6, first_order=True, shares=(0.0, 0.0)),), 1.0, 1.0)
    assert wide.norm_rest == wide.rest
    # A share that is only small by accident on one of the levels does not count.
    assert Gaps("mesh", 0.5, 0.2, 0.7, shares=(0.4, 0.0)).share == 0.8


@pytest.fixture(scope="module")
def cavity():
    """Scores of Maxwell's equations by edge elements of third degree, and the problem with
    first-order elements on few cells.
    """
    import dataclasses

    problem = PROBLEMS["maxwell"]()
    with dataclasses.replace(problem, element=("N1curl", 3)).model(2, 24, MPI.COMM_SELF) as fine:
        scores = {
            name: deletion.score
            for name, deletion in fine.deletions(["curlcurl", "xE", "zzE"]).items()
        }
    return problem, scores


def test_edge_elements_of_first_order_are_decided_on_few_cells_by_dividing_them(cavity):
    problem, scores = cavity
    certification = cf.Certification(epsilon=0.1, refine=True, budget=1e5)
    with problem.model(2, 5, MPI.COMM_SELF) as model:
        found = decide_by_refinement(list(scores), 0.1, Refinement(model, certification))
    assert {name: verdict.decision for name, verdict in found.items()} == {
        "curlcurl": "relevant",
        "xE": "irrelevant",
        "zzE": "irrelevant",
    }
    for name, verdict in found.items():
        assert verdict.level == 0
        assert abs(verdict.bound.score - scores[name]) <= verdict.bound.margin


def test_refinement_raises_the_degree_of_elements_of_first_order(cavity):
    problem, scores = cavity
    with problem.model(2, 5, MPI.COMM_SELF) as model:
        levels = Refinement(model, cf.Certification(epsilon=scores["xE"], refine=True, budget=1e5))
        raised = levels.model(1)
        assert raised.experiment.elements[raised.discretisation.unknowns[0]] == ("N1curl", 2)
        assert raised.experiment.time.steps == 10
        first, second = (levels(("xE",), level)["xE"] for level in (0, 1))
        assert abs(second.score - scores["xE"]) <= second.margin < first.margin / 2
        levels.destroy()


def test_degrees_that_leave_doubt_give_way_to_divided_cells():
    problem = PROBLEMS["maxwell"]()
    with problem.model(2, 5, MPI.COMM_SELF) as model:
        estimates = Estimates(model, 1e5)
        bound = estimates.deletion("xE")
        assert not estimates._certifier("degree").firm
        assert "by the mesh" in bound.certificate.method
        estimates.destroy()
