"""Growth of the cost: every case runs, factors are those of one doubling, and cutting terms
into two changes no solution.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.sweep import sweep_growth
from benchmarks.sweep.sweep_by_hand import Study
from benchmarks.sweep.sweep_problems import transient


@pytest.mark.parametrize("name", sweep_growth.CASES)
def test_every_case_runs_and_tells_its_factors(name):
    row = sweep_growth.grown(sweep_growth.CASES[name], MPI.COMM_SELF, tiny=True, repeats=1)
    assert row["unknowns"] == sorted(set(row["unknowns"]))
    assert min(row["seconds"]) > 0
    assert row["factor"] == pytest.approx(row["worst"])  # of two sizes
    assert int(row["notes"][-1].split()[-2]) > 0  # it was iterated, not factorised


def test_factors_are_those_of_one_doubling():
    assert sweep_growth.per_doubling([10, 40], [1.0, 4.0]) == pytest.approx(2.0)
    assert sweep_growth.per_doubling([10, 20, 40], [1.0, 9.0, 16.0]) == pytest.approx(4.0)


def test_terms_cut_into_two_have_the_same_solution_and_make_up_the_whole():
    whole, halves = transient(), sweep_growth.doubled(transient())
    assert len(halves.terms) == len(halves.weak) == 2 * len(whole.terms)
    with whole.model(6, 4, MPI.COMM_SELF) as one, halves.model(6, 4, MPI.COMM_SELF) as two:
        size = one.factual.norm()
        assert two.factual.norm() == pytest.approx(size, rel=1e-10)
        scores, parts = one.deletions(), two.deletions()
        by_hand = Study(halves, 6, 4, MPI.COMM_SELF).scores("LU")[1]
        for name, found in parts.items():
            assert found.score == pytest.approx(by_hand[name], rel=1e-8)
            assert 0 < found.score < scores[name.split(",")[0]].score


def test_decisions_for_twice_the_terms():
    (row,) = sweep_growth.run(MPI.COMM_SELF, tiny=True, cases=())["terms"]
    assert row["wrong"] == 0
    assert row["factor"] == pytest.approx(row["seconds"][1] / row["seconds"][0])
    page = sweep_growth.section({"unknowns": [], "terms": [row]})
    assert "early exit" in page
