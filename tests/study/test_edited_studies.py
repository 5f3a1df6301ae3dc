"""A study that is edited in its folder: what was solved and still holds is used again, with the
report of a study that was run anew.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, result, written

from cffem.engine.model import Model
from cffem.study.run.checkpoint import OutputError
from cffem.study.run.edited import edit_of
from cffem.study.toml.study_file import read_study


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """Pages are drawn in other tests."""
    monkeypatch.setattr(
        "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
    )


def study_in(folder, *overrides, text=TOML):
    folder.mkdir(exist_ok=True)
    return read_study(written(folder, text), MPI.COMM_SELF, overrides)


@pytest.fixture
def solved(monkeypatch):
    """The interventions that models of the user's size solve for, factual ones as nothing."""
    found, run = [], Model.run

    def watched(self, change, *arguments, **options):
        if len(self.times) == 9:
            found.append(str(change))
        return run(self, change, *arguments, **options)

    monkeypatch.setattr(Model, "run", watched)
    return found


def without_history(report):
    report["cost"].pop("reused", None)
    return report


SQUARE = """
[observables.end]
type = "Integral"
expr = "u**2"
epsilon = 0.1
"""
EDITS = {
    "tolerance": (("certification.epsilon=3e-3",), TOML),
    "norm": (("certification.norm=H1",), TOML),
    "observable": ((), TOML + SQUARE),
    "candidate": ((), TOML.replace('cubic = "u**3"', 'cubic = "u**3"\nsquare = "u**2"')),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_study_solves_nothing_again_and_ends_as_one_run_anew(name, tmp_path, solved):
    overrides, text = EDITS[name]
    study_in(tmp_path / "first").run(tmp_path / "out", quiet=True)
    before = (tmp_path / "out" / "report.json").read_text()
    assert "delete('lap')" in solved
    solved.clear()
    edited = study_in(tmp_path / "edited", *overrides, text=text)
    report = edited.run(tmp_path / "out", quiet=True)
    assert solved == []
    assert "the study was edited" in report.sections["cost"]["reused"]
    assert "4 solutions" in report.sections["cost"]["reused"]
    assert (tmp_path / "out" / "former" / "report.json").read_text() == before
    edited.run(tmp_path / "anew", quiet=True)
    again, anew = (without_history(result(tmp_path / f)) for f in ("out", "anew"))
    again["cost"].pop("strategies"), anew["cost"].pop("strategies")
    assert again == anew


def test_error_bars_that_do_not_decide_any_more_are_found_anew(tmp_path):
    asked = ("certification.budget=1000",)
    first = study_in(tmp_path / "first", *asked).run(tmp_path / "out", quiet=True)
    term = first.terms["u_x"]
    # One term is nearer to the new tolerance than its error bar; the others stay decided.
    near = f"certification.epsilon={term.deletion + 0.5 * term.margin!r}"
    report = study_in(tmp_path / "near", *asked, near).run(tmp_path / "out", quiet=True)
    assert "2 error bars" in report.sections["cost"]["reused"]


@pytest.mark.parametrize(
    "change", ["coefficients.u=0.7", "experiments.1.time.steps=9", "certification.conditions=kept"]
)
def test_another_study_is_refused_and_conditions_are_solved_anew(change, tmp_path, solved):
    study_in(tmp_path / "first").run(tmp_path / "out", quiet=True)
    before = (tmp_path / "out" / "report.json").read_text()
    solved.clear()
    other = study_in(tmp_path / "other", change)
    if "conditions" in change:
        other.run(tmp_path / "out", quiet=True)
        assert "delete('lap', conditions='kept')" in solved
        return
    with pytest.raises(OutputError, match="holds another study"):
        other.run(tmp_path / "out", quiet=True)
    assert (tmp_path / "out" / "report.json").read_text() == before


@pytest.mark.parametrize("name", ["u", "cubic", "u_x"])
def test_one_more_term_takes_the_factual_solution_for_its_deletion(name, tmp_path, solved):
    # Nothing is released without u or cubic, and what a study has solved is solved once.
    text = TOML.replace("lap = 0.05", "lap = 0.05\ncubic = -0.4")
    line = next(line for line in text.split("[coefficients]")[1].split("\n") if f"{name} =" in line)
    before = text.replace(line + "\n", "", 1)
    study_in(tmp_path / "first", text=before).run(tmp_path / "out", quiet=True)
    solved.clear()
    edited = study_in(tmp_path / "edited", text=text)
    report = edited.run(tmp_path / "out", quiet=True)
    assert f"delete('{name}')" not in solved
    assert "delete('lap')" in solved
    assert "1 solution" in report.sections["cost"]["reused"]
    anew = edited.run(tmp_path / "anew", quiet=True)
    for term, found in report.terms.items():
        assert found.decision == anew.terms[term].decision
        assert found.deletion == pytest.approx(anew.terms[term].deletion, rel=1e-9)
        assert found.margin == pytest.approx(anew.terms[term].margin, rel=1e-9)


def test_one_more_leading_term_is_deleted_with_the_conditions_that_are_left(tmp_path, solved):
    before = TOML.replace("lap = 0.05", "lap = 0")
    study_in(tmp_path / "first", text=before).run(tmp_path / "out", quiet=True)
    solved.clear()
    edited = study_in(tmp_path / "edited")
    report = edited.run(tmp_path / "out", quiet=True)
    # The first study held values at the outflow that the equation without lap does not carry.
    assert "delete('lap')" in solved
    anew = edited.run(tmp_path / "anew", quiet=True)
    assert report.terms["lap"].deletion == anew.terms["lap"].deletion


def test_one_term_may_be_new_and_no_more():
    library = {"u": {"anchor": "dt(u)", "terms": {"a": "u"}}}
    more = {"u": {"anchor": "dt(u)", "terms": {"a": "u", "b": "u**2"}}}
    old = {"library": library, "coefficients": {"a": 1.0}}
    assert edit_of(old, {"library": more, "coefficients": {"a": 1.0}}).library
    assert edit_of(old, {"library": more, "coefficients": {"a": 1.0, "b": 2.0}}).added == "b"
    assert edit_of(old, {"library": more, "coefficients": {"a": 1.5, "b": 2.0}}) is None
    two = {"u": {"anchor": "dt(u)", "terms": {"a": "u", "b": "u**2", "c": "u**3"}}}
    assert edit_of(old, {"library": two, "coefficients": {"a": 1.0, "b": 2.0, "c": 1.0}}) is None
    other = {"u": {"anchor": "dt(u)", "terms": {"a": "2*u"}}}
    assert edit_of(old, {"library": other, "coefficients": {"a": 1.0}}) is None
