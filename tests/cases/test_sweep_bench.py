"""The benchmark of sweeps: the study by hand and cffem are the same mathematics, and a tiny run writes all its results."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from cffem.cases.sweep_bench import COLUMNS, main
from cffem.cases.sweep_by_hand import Study
from cffem.cases.sweep_problems import PROBLEMS


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


@pytest.mark.slow
def test_a_tiny_run_writes_numbers_page_and_picture(tmp_path, capsys):
    assert main(["--tiny", "--problems", "steady,constant", "--out", str(tmp_path)]) == 0
    steady, guaranteed = json.loads((tmp_path / "sweep.json").read_text())["rows"]
    assert set(guaranteed["ratios"]) == set(COLUMNS)
    assert set(steady["ratios"]) == {column for column in COLUMNS if "guaranteed" not in column}
    assert all(verdicts["wrong"] == 0 for row in (steady, guaranteed) for verdicts in row["verdicts"].values())
    assert "2D steady" in (tmp_path / "sweep.md").read_text()
    assert (tmp_path / "sweep.png").stat().st_size > 1000
    assert "study by hand" in capsys.readouterr().out
