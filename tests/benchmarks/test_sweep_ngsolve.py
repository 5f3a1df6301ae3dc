"""One factual solve by NGSolve: where it is installed it solves the same problems to the same
error, and where not, one is told.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.sweep import sweep_ngsolve
from benchmarks.sweep.sweep_problems import PROBLEMS


def test_without_ngsolve_the_section_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sweep_ngsolve, "installed", lambda: False)
    result = sweep_ngsolve.run(MPI.COMM_SELF, tiny=True)
    assert "pip install ngsolve" in sweep_ngsolve.section(result)


def test_every_term_of_every_problem_has_a_form():
    class Words:
        x = y = z = 1.0

    for build in PROBLEMS.values():
        assert set(build().terms) <= set(sweep_ngsolve.terms_of(Words))


@pytest.mark.parametrize("name", PROBLEMS)
def test_ngsolve_solves_the_same_problem_to_the_same_error(name):
    pytest.importorskip("ngsolve")
    (row,) = sweep_ngsolve.run(MPI.COMM_SELF, tiny=True, problems=[name])["rows"]
    ours = row["cffem"]["error"]
    assert 0 < ours < 0.6
    assert len(row["NGSolve"]) == 2
    for found in row["NGSolve"].values():
        assert found["error"] == pytest.approx(ours, rel=0.05)
        assert found["seconds"] > 0
    assert row["title"] in sweep_ngsolve.section({"version": "", "rows": [row]})
