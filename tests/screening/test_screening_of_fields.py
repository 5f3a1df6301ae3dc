"""What the screen finds in noisy fields, and when it abstains."""

import json
import math
import sys

import numpy as np
import pytest

from benchmarks.measuring import Board
from benchmarks.screening import identification_bench, screening_bench
from benchmarks.screening import screening_data as cases
from cffem import t, x
from cffem.data import Dataset
from cffem.design import Design
from cffem.screening import Screening
from cffem.screening.subset import candidates, search
from cffem.symbols.problem.library import Library

u = cases.u
RANDOM = identification_bench.random_field


@pytest.fixture(scope="module")
def burgers():
    return cases.burgers()


def dataset(example, ratio, seed, correlation=0.0):
    xs, ts, values = example
    return Dataset.from_arrays(
        {x: xs, t: ts}, {u: cases.with_noise(values, ratio, seed, correlation)}
    )


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_burgers_is_identified_under_heavy_noise(burgers, ratio):
    screen = Screening(method="subset").fit(
        Design.from_fields(cases.small_library(2), dataset(burgers, ratio, 0))
    )
    assert set(screen.names_) == {"u u_x", "u_xx"}
    assert screen.reliable_
    names = list(screen.design_.names)
    truth = {"u u_x": -1.0, "u_xx": 0.1}
    for name, value in truth.items():
        low, high = screen.intervals_[names.index(name)]
        assert low <= value <= high
        assert screen.coef_[names.index(name)] == pytest.approx(value, rel=0.15)


def test_default_screen_keeps_every_true_term(burgers):
    screen = Screening().fit(Design.from_fields(cases.small_library(2), dataset(burgers, 0.5, 1)))
    assert {"u u_x", "u_xx"} <= set(screen.names_)


def test_missing_term_is_noticed(burgers):
    full = cases.small_library(2)
    library = Library(
        anchor=full.anchor, terms={n: e for n, e in full.terms.items() if n != "u u_x"}
    )
    screen = Screening(method="subset").fit(Design.from_fields(library, dataset(burgers, 0.2, 700)))
    assert not screen.reliable_
    assert any(reason.startswith("misfit") for reason in screen.reasons_)


def test_correlated_noise_is_handled_or_refused(burgers):
    screen = Screening(method="subset").fit(
        Design.from_fields(cases.small_library(2), dataset(burgers, 0.2, 801, 1.0))
    )
    assert screen.design_.sources[0]["correlation_lengths"]
    assert set(screen.names_) == {"u u_x", "u_xx"} or not screen.reliable_


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_single_mode_never_splits(kind):
    xs, ts, values = cases.heat_modes({2: 1.0}, 0.3, 0.2)
    design = Design.from_fields(
        cases.heat_library(), Dataset.from_arrays({x: xs, t: ts}, {u: values}), kind=kind
    )
    (group,) = design.alias_groups()
    assert set(group.terms) == {"u", "lap"}
    coefficients = {str(k): float(v) for k, v in group.identified.as_coefficients_dict().items()}
    assert coefficients["alpha_lap"] / coefficients["alpha_u"] == pytest.approx(-4.0, rel=1e-3)
    assert group.estimates[0] / coefficients["alpha_u"] == pytest.approx(0.3 - 0.2 * 4, rel=1e-3)
    screen = Screening(method="subset").fit(design)
    assert not screen.reliable_
    assert any(reason.startswith("aliased") for reason in screen.reasons_)


@pytest.mark.parametrize("ratio", [0.01, 0.05, 0.2])
def test_noise_does_not_break_the_tie_of_a_single_mode(ratio):
    xs, ts, values = cases.heat_modes({2: 1.0}, 0.3, 0.2)
    full = {"u": u, "lap": u.diff(x, 2), "u_x": u.diff(x), "u^2": u**2, "u u_x": u * u.diff(x)}
    library = Library(anchor=cases.heat_library().anchor, terms=full)
    data = Dataset.from_arrays({x: xs, t: ts}, {u: cases.with_noise(values, ratio, 1)})
    design = Design.from_fields(library, data)
    (group,) = design.alias_groups()
    assert set(group.terms) == {"u", "lap"}
    coefficients = {str(k): float(v) for k, v in group.identified.as_coefficients_dict().items()}
    assert coefficients["alpha_lap"] / coefficients["alpha_u"] == pytest.approx(-4.0, rel=0.02)
    screen = Screening(method="subset").fit(design)
    assert any(reason.startswith("aliased") for reason in screen.reasons_)


@pytest.mark.parametrize("kind", ["weak", "strong"])
def test_two_modes_identify_both_coefficients(kind):
    xs, ts, values = cases.heat_modes({1: 1.0, 3: 0.7}, 0.3, 0.2)
    design = Design.from_fields(
        cases.heat_library(), Dataset.from_arrays({x: xs, t: ts}, {u: values}), kind=kind
    )
    assert design.alias_groups() == []
    screen = Screening(method="subset").fit(design)
    np.testing.assert_allclose(screen.coef_, [0.3, 0.2], rtol=1e-3)
    assert screen.reliable_


def test_a_second_experiment_separates_the_alias():
    designs = {}
    for k in (1, 2):
        xs, ts, values = cases.heat_modes({k: 1.0}, 0.3, 0.2)
        designs[k] = Design.from_fields(
            cases.heat_library(), Dataset.from_arrays({x: xs, t: ts}, {u: values})
        )
    assert (
        designs[1].best_addition({"same": designs[1], "other mode": designs[2]}).name
        == "other mode"
    )
    screen = Screening(method="subset").fit(designs[1] + designs[2])
    np.testing.assert_allclose(screen.coef_, [0.3, 0.2], rtol=1e-3)


def test_search_finds_cancelling_pairs():
    random = np.random.default_rng(0)
    common, small = random.standard_normal(2000), random.standard_normal(2000)
    others = random.standard_normal((2000, 10))
    A = np.column_stack([common + 0.05 * small, common - 0.05 * small, others])
    y = 10 * (A[:, 0] - A[:, 1]) + 0.3 * others[:, 0] + 0.01 * random.standard_normal(2000)
    Z = np.column_stack([y, A])
    best = search(Z.T @ Z, 4)
    assert tuple(best[2][0]) == (0, 1, 2)
    assert () in {c.support for c in candidates([Z.T @ Z], 3)}


def test_pure_noise_selects_nothing_confidently():
    random = np.random.default_rng(3)
    screen = Screening(method="subset").fit(
        random.standard_normal((300, 6)), random.standard_normal(300)
    )
    assert not screen.reliable_


def test_sections_of_the_screening_benchmark_meet_their_targets(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pysindy", None)  # as if it were not installed
    file = tmp_path / "figures.json"
    chosen = ["heat", "coherent", "missing", "peer"]
    assert screening_bench.main(["--only", *chosen, "--seeds", "1", "--json", str(file)]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if line.startswith("==")] == [
        f"== {name}" for name in chosen
    ]
    assert "comparison skipped" in shown
    written = json.loads(file.read_text())
    assert len(written["figures"]) == 6
    assert written["missed"] == []


def test_the_page_of_identification_is_made_of_the_records_of_several_runs(tmp_path, capsys):
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, family in zip(files, ("Klein–Gordon", "Allen–Cahn, thin fronts"), strict=True):
        code = screening_bench.main(
            ["--only", "families", "--families", family, "--seeds", "1", "--json", str(file)]
        )
        assert code == 0
    page = tmp_path / "page.md"
    screening_bench.main(["--join", *map(str, files), "--page", str(page)])
    text = page.read_text()
    assert "| Klein–Gordon | 100% | 1/1 | 1 | 0 | 0 | 100% |" in text
    assert "| confidently wrong | 0 (0.0%) | ≤ 1 % |" in text
    assert "## Below the detection limit" in text
    assert "| runs | 8 |" in text  # thin fronts are counted
    assert "| 50% | 0/1 | 0 | 0 | 0 | – | – |" in text  # not believed
    assert "cffem bench screening --only families --families Klein–Gordon" in text
    assert "goals met. None missed." in text
    assert text.count("(sources ") == 2
    assert "confidently wrong 0" in capsys.readouterr().out


def test_lacking_and_random_runs_are_counted(monkeypatch):
    from benchmarks.screening import identification_bench as bench
    from benchmarks.screening.identification_page import page

    board = bench.Identification(chosen=("Klein–Gordon",))
    bench.lacking_terms(board, 1)
    monkeypatch.setattr(bench, "random_field", lambda seed: RANDOM(seed, 17, 60))
    bench.null_fields(board, 1)
    assert board.missed == []
    text = page(board.records, board.figures, [("cffem bench screening", "sources 0")])
    assert "0 of 4 runs believed" in text
    assert "| random fields, strong rows | 0 of 4 | – |" in text


@pytest.mark.filterwarnings(
    "ignore:Mean of empty slice"
)  # of errors of coefficients, when no support is right
def test_a_missed_target_is_an_exit_code(monkeypatch, capsys):
    def wrong(board: Board, seeds: int) -> None:
        run = screening_bench.ScreenOutcome(False, True, math.nan, math.nan, 0.1, ("u_x",), ())
        screening_bench.report_runs(board, "waves", [run], seeds)

    monkeypatch.setattr(screening_bench, "SECTIONS", {"wrong": wrong})
    assert screening_bench.main(["--seeds", "1"]) == 1
    assert "2 missed: waves: exact; waves: confidently wrong" in capsys.readouterr().out


@pytest.mark.parametrize(
    "method",
    [
        "lasso",
        pytest.param("thresholded", marks=pytest.mark.slow),
        pytest.param("adaptive", marks=pytest.mark.slow),
        pytest.param("subset", marks=pytest.mark.slow),
    ],
)
def test_scikit_learn_accepts_the_estimator(method):
    from sklearn.utils.estimator_checks import check_estimator

    check_estimator(Screening(method=method, replicates=20))
