"""The benchmark of projections: a tiny run writes its results, and what is missed is said."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

from benchmarks.projection_bench import CASES, growth, main, measure, missed


def test_a_tiny_run_writes_numbers_and_page(tmp_path, capsys):
    assert main(["--tiny", "--cases", "taylor_hood,bdm,nedelec1", "--out", str(tmp_path)]) == 0
    rows = json.loads((tmp_path / "projection.json").read_text())["rows"]
    ways = [[way["method"] for way in row["ways"]] for row in rows]
    assert ways == [
        ["saddle point, factors", "CG on the class"],
        ["stream function, factors", "stream function, CG + AMG"],
        ["potential, CG + AMG"],
    ]
    assert [[unit["degree"] for unit in row["poisson"]] for row in rows] == [[1, 2], [1, 2], [1]]
    assert all(CASES[row["case"]].title in (tmp_path / "projection.md").read_text() for row in rows)
    assert "nothing was missed" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nedelec1", "nedelec2", "taylor_hood", "rt", "bdm"])
def test_a_projection_of_100_000_unknowns_takes_at_most_three_poisson_solves(name):
    row = measure(name, CASES[name].sizes[1], MPI.COMM_SELF)
    assert row["unknowns"] > 90_000
    assert row["ways"][0]["ratios"]["same degree"] <= 3
    assert missed([row], whole=False) == []


def rows(seconds, iterations, error=1e-15, ratio=1.0):
    """Three sizes, each four times the one before."""
    shared = {
        "method": "CG",
        "P² − P": error,
        "orthogonality": 0.0,
        "constraint": 0.0,
        "ratios": {"same degree": ratio},
    }
    return [
        {
            "case": "rt",
            "title": "RT",
            "unknowns": 4**k,
            "poisson": [],
            "ways": [{**shared, "seconds": s, "iterations": i}],
        }
        for k, (s, i) in enumerate(zip(seconds, iterations, strict=True), start=5)
    ]


def test_growth_is_for_each_doubling():
    assert growth(rows((1.0, 4.0, 16.0), (5, 5, 6)))["CG"]["factor"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (rows((1.0, 4.0, 16.0), (5, 5, 6)), []),
        (rows((1.0, 9.0, 81.0), (5, 5, 6)), ["time × 3.00"]),
        (rows((1.0, 4.0, 16.0), (5, 7, 9)), ["iterations 5, 7, 9"]),
        (rows((1.0, 4.0, 16.0), (5, 5, 6), ratio=3.5), ["3.5 Poisson solves"]),
        (rows((1.0, 4.0, 16.0), (5, 5, 6), error=2e-12), ["identities to 2e-12"] * 3),
    ],
    ids=["all reached", "growth", "iterations", "cost", "identities"],
)
def test_what_is_missed_is_said(found, words):
    said = missed(found, whole=True)
    assert len(said) == len(words)
    assert all(word in sentence for word, sentence in zip(words, said, strict=True))


def test_an_unknown_case_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit):
        main(["--cases", "rt,bmd"])
    assert f"there is no case 'bmd'; there are {', '.join(CASES)}" in capsys.readouterr().err
