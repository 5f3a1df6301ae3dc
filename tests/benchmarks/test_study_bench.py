"""`cffem bench study`: its studies are what they say, a tiny one is measured, goals are counted."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.study import study_bench
from benchmarks.study.study_problems import PROBLEMS
from benchmarks.study.study_sides import measured
from cffem.study.toml.study_file import read_study


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_study_is_a_file_with_all_options_at_their_defaults(name, tmp_path):
    problem = PROBLEMS[name]
    study = read_study(problem.write(tmp_path, problem.small), MPI.COMM_SELF)
    asked = study.certification
    assert 5 <= len(study.coefficients) <= 8
    assert (asked.effort, asked.budget, asked.refine, asked.scores) == (4.0, None, False, "auto")
    assert study.refit == "none"
    assert not study.petsc_options
    assert not study.observables


def test_a_tiny_study_is_measured_and_written(tmp_path, monkeypatch, capsys):
    def in_this_process(name, side, path, tiny, limit):
        assert tiny
        return measured(PROBLEMS[name], side, PROBLEMS[name].small, warm=False)

    monkeypatch.setattr(study_bench, "measure", in_this_process)
    arguments = ["--cases", "elasticity", "--tiny", "--out", str(tmp_path)]
    assert study_bench.main(arguments) == 0
    (row,) = json.loads((tmp_path / "bench_study.json").read_text())["rows"]
    # The reference of a tiny run is the same discretisation, so every bar must reach it.
    assert row["wrong"] == row["missed bars"] == []
    assert row["decided"] == row["decidable"] == 5
    assert "elasticity" in capsys.readouterr().out
    assert "| elasticity on a bed" in (tmp_path / "bench_study.md").read_text()
    assert (tmp_path / "bench_study.png").stat().st_size > 5000


def test_a_run_joins_what_an_earlier_one_found(tmp_path, monkeypatch):
    def failed(name, out, tiny, limit):
        return {"name": name, "title": PROBLEMS[name].title, "failed": "the study"}

    monkeypatch.setattr(study_bench, "row", failed)
    monkeypatch.setattr(study_bench, "picture", lambda found, path: None)
    monkeypatch.setattr(study_bench, "pair_goals", lambda tiny: [])
    for cases, more in (("wave", []), ("plane", ["--join"])):
        study_bench.main(["--cases", cases, "--tiny", "--out", str(tmp_path), *more])
    rows = json.loads((tmp_path / "bench_study.json").read_text())["rows"]
    assert [row["name"] for row in rows] == ["plane", "wave"]


def test_goals_that_are_missed_are_named():
    good = {"ratio": 1.2, "memory": 1.1, "guaranteed": False, "decidable": 5, "decided": 5}
    rows = [{**good, "wrong": []}, {**good, "wrong": ["lap"], "ratio": 3.5}]
    missed = [g["goal"] for g in study_bench.goals(rows) if not g["passed"]]
    assert missed == [
        "wrong verdicts",
        "seconds beside the loop by hand, median",
        "the same, at most",
    ]
