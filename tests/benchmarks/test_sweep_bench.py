"""The benchmark of sweeps: the study by hand and cffem are the same mathematics, and a tiny
run writes all its results.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.sweep.sweep_bench import COLUMNS, main
from benchmarks.sweep.sweep_by_hand import Study
from benchmarks.sweep.sweep_problems import PROBLEMS


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_study_by_hand_has_the_scores_of_cffem(name):
    problem = PROBLEMS[name]()
    n, steps = (6 if problem.dimension == 2 else 3), (4 if problem.order else 0)
    assert len(problem.terms) == len(problem.weak) == 8
    factual, by_hand = (study := Study(problem, n, steps, MPI.COMM_SELF)).scores("LU")
    with problem.model(n, steps, MPI.COMM_SELF) as model:
        # What differs is the quadrature of the steady problem's forcing.
        tolerance = 1e-9 if problem.order else 1e-5
        assert study.norm(factual) == pytest.approx(model.factual.norm(), rel=tolerance)
        for term, deletion in model.deletions().items():
            assert deletion.score == pytest.approx(by_hand[term], rel=tolerance)
    _, iterative = study.scores("GMRES+ILU")
    assert iterative == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize("name", ["steady", pytest.param("constant", marks=pytest.mark.slow)])
def test_a_tiny_run_writes_numbers_page_and_picture(name, tmp_path, capsys):
    assert main(["--tiny", "--problems", name, "--out", str(tmp_path)]) == 0
    (row,) = json.loads((tmp_path / "sweep.json").read_text())["rows"]
    guaranteed = PROBLEMS[name]().guaranteed
    assert set(row["ratios"]) == {
        column for column in COLUMNS if guaranteed or "guaranteed" not in column
    }
    assert all(verdicts["wrong"] == 0 for verdicts in row["verdicts"].values())
    assert row["title"] in (tmp_path / "sweep.md").read_text()
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    assert "study by hand" in capsys.readouterr().out
