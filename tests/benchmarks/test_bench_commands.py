"""The benchmarks as commands: each tells its options, a small run measures and writes, and
goals that are missed are named.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.bench_registry import BENCHES
from benchmarks.certify import certify_bench
from benchmarks.sweep import sweep_extras, sweep_goals, sweep_ngsolve
from cffem.cli import main


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_tells_its_options(name, capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench", name, "--help"])
    assert left.value.code == 0
    assert f"usage: cffem bench {name}" in capsys.readouterr().out


def test_an_estimated_case_of_the_certificates_is_written(tmp_path, capsys):
    file = tmp_path / "cases.json"
    options = [
        "--cases",
        "0",
        "--estimated",
        "1",
        "--variable",
        "0",
        "--faults",
        "0",
        "--cells",
        "0",
        "--json",
        str(file),
    ]
    assert main(["bench", "certify", *options]) == 0
    written = json.loads(file.read_text())
    (case,) = written["cases"]
    assert case["family"] in certify_bench.KINDS
    assert case["score"][0] <= case["score"][1]
    assert "estimated margins that cover" in written["figures"]
    assert "1 cases in" in capsys.readouterr().out


def test_the_leray_table_has_no_order_where_an_entry_is_zero(capsys):
    assert main(["bench", "leray", "--case", "cavity", "--pair", "RT", "--levels", "2"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head == "cavity, RT: h = 0.2, 0.1"
    found = [row.split()[-4:] for row in rows]
    assert all(
        word == "order" and (order == "nan") == (float(last) < 1e-12)
        for _, last, word, order in found
    )
    assert {order == "nan" for *_, order in found} == {True, False}


def test_parts_that_cannot_run_here_say_so(monkeypatch, capsys):
    monkeypatch.setattr(sweep_ngsolve, "installed", lambda: False)
    found = sweep_extras.measured(MPI.COMM_SELF, tiny=True, parts=["ngsolve"])
    assert "pip install ngsolve" in capsys.readouterr().out
    assert "pip install ngsolve" in sweep_extras.sections(found)


def test_goals_count_verdicts_that_resolve_nothing_and_gain_nothing():
    verdicts = {
        "estimated margins, far": {"resolved": 6, "gain": 4.0},
        "estimated margins, near": {"resolved": 8, "gain": 1.0},
    }
    row = {
        "problem": "maxwell",
        "title": "Maxwell",
        "terms": 8,
        "gain, all scores": 3.0,
        "ratios": {
            "all scores": 4.0,
            "estimated margins, far": 0.6,
            "estimated margins, near": 2.0,
        },
        "verdicts": verdicts,
    }
    # The smaller size misses everything, but only the larger one counts.
    small = {**row, "cells per side": 4, "ratios": dict.fromkeys(row["ratios"], 99.0)}
    assert sweep_goals.missed([{**row, "cells per side": 8}, small]) == [
        "Maxwell: estimated margins, far resolve 6 of 8 terms",
        "Maxwell: estimated margins, far gain 4.0 (goal 10)",
    ]
