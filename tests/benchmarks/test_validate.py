"""`cffem validate`: its tables, its exit code, and the cheap cases."""

from __future__ import annotations

import csv

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from cffem.symbols.errors import InputError
from cffem.validation import validate as validation
from cffem.validation.scalar_cases import GAP
from cffem.validation.validate_board import Board, CaseSettings, latex, markdown, write_tables
from cffem.validation.validate_pictures import draw_pictures
from cffem.validation.validate_scalar import GRID, TIMES, samples

CHEAP = ("observables", "pruning")


def test_the_papers_samples_give_the_papers_figures():
    """44×44×78 samples of the exact solution: coherence 0.9555 and Δt·rms(0.601152 u) =
    6.310e-3, to the printed digits.
    """
    from cffem.design import Design

    X, Y, T = np.meshgrid(GRID, GRID, TIMES, indexing="ij")
    two = np.sin(np.pi * X) * np.sin(np.pi * Y) + 0.5 * np.sin(2 * np.pi * X) * np.sin(
        2 * np.pi * Y
    )
    A, rate = samples(np.exp(0.6 * T) * two)
    design = Design.from_matrix(A, rate, list(validation.validate_design.LIBRARY.terms))
    assert design.rows == 151_008
    assert round(design.coherence(), 4) == GAP.coherence
    assert (TIMES[1] - TIMES[0]) * 0.601152 * design.column_norms[0] == pytest.approx(
        6.310e-3, abs=5e-7
    )
    single, _ = samples(np.exp(0.6 * T) * np.sin(np.pi * X) * np.sin(np.pi * Y))
    assert (TIMES[1] - TIMES[0]) * 0.6 * np.sqrt((single[:, 0] ** 2).mean()) == pytest.approx(
        5.634e-3, abs=5e-7
    )


def test_cases_run_and_leave_tables_pictures_and_a_page(tmp_path, capsys):
    code = validation.validate(CHEAP, seeds=1, quick=True, out=tmp_path)
    assert code == 0
    assert "checks are met" in capsys.readouterr().out
    text = (tmp_path / "validation.md").read_text()
    assert "cffem validate --case observables --case pruning --seeds 1 --quick" in text
    assert "![" in text
    assert (tmp_path / "validation" / "pruning.png").stat().st_size > 1000
    with (tmp_path / "validation" / "checks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["case"] for row in rows} == set(CHEAP)
    assert all(row["passed"] in ("True", "") for row in rows)
    assert (tmp_path / "validation" / "checks.tex").read_text().startswith("\\begin{tabular}")


def test_a_failing_check_fails_the_command(tmp_path, monkeypatch, capsys):
    def broken(settings: CaseSettings) -> Board:
        board = Board("broken", "Broken")
        board.near("pi", 3.0, 3.14159, 0.01)
        return board

    monkeypatch.setitem(validation.CASES, "broken", broken)
    assert validation.validate(["broken"], out=tmp_path) == 1
    assert "FAILS broken: pi is 3.0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cases", "seeds", "text"),
    [(["nothing"], None, "no validation case"), (["gap"], 0, "positive")],
)
def test_wrong_options_are_named(cases, seeds, text):
    with pytest.raises(InputError, match=text):
        validation.validate(cases, seeds)


def test_tables_escape_what_their_language_reads(tmp_path):
    assert markdown(("a",), [("x|y",)]).splitlines()[-1] == "| x\\|y |"
    assert "50\\% \\& \\ensuremath{\\delta}\\_j" in latex(("a",), [("50% & δ_j",)])
    board = Board("one", "One")
    board.figure("a, b", 1.5)
    write_tables([board], tmp_path)
    assert '"a, b"' in (tmp_path / "checks.csv").read_text()


@pytest.mark.parametrize("name", [name for name in validation.CASES if name not in CHEAP])
def test_every_other_case_is_met_with_one_seed(name):
    board = validation.CASES[name](CaseSettings((0,), quick=True))
    assert board.failed == []
    assert all(check.ours == check.ours for check in board.checks)  # no figure is missing


def test_pictures_are_drawn_of_what_the_cases_found(tmp_path):
    scores = {"u": (1e-3, 1e-3, 0.1), "lap": (0.0, 0.0, 0.0)}
    scalar = Board("gap", "A gap")
    scalar.pictures = {
        "design": {"coherence": (0.9, 0.9), "smallest": (0.5, 0.4), "condition": (2.0, 2.5)},
        "relevance": scores,
        "gap": {"rho": [0.5, 1.0], "bounds": [0.01, 0.04], "linear": 0.3, "distance": [0.14, 0.27]},
    }
    reversal = Board("reversal", "Reversal")
    reversal.pictures = {"reversal": {"u": (0.1, 0.2, 0.2), "lap": (0.3, 0.1, 0.1)}}
    captions = draw_pictures([scalar, reversal], tmp_path)
    assert (
        set(captions)
        == {path.name for path in tmp_path.glob("*.png")}
        == {"design.png", "relevance.png", "gap.png"}
    )
