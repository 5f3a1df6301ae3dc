"""A study can keep all essential conditions of its deleted problems, in Python and in TOML,
through every station and on resume.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, written

import cffem as cf
from cffem.bounds.refits import RefittedDeletion, recognised
from cffem.study.toml.study_file import read_study
from cffem.symbols.errors import InputError

KEPT = TOML.replace("[certification]", '[certification]\nconditions = "kept"').replace(
    "budget = 1\n", "budget = 1e5\n"
)


def studies(folder):
    """The same study with conditions as the equations carry them, and with all kept."""
    texts = {"carried": TOML.replace("budget = 1\n", "budget = 1e5\n"), "kept": KEPT}
    return {
        name: read_study(written(folder, text, f"{name}.toml"), MPI.COMM_SELF)
        for name, text in texts.items()
    }


def test_scores_and_observables_are_those_of_the_conditions_asked_for(tmp_path):
    reports = {name: study.run() for name, study in studies(tmp_path).items()}
    study = studies(tmp_path)["kept"]
    model = cf.Model(study.library, study.coefficients, next(iter(study.experiments.values())))
    mass = model.measurement(next(iter(study.observables.values()))[0]).value
    for name, report in reports.items():
        solved = {
            term: model.solve(cf.delete(term, conditions=name)) for term in ("u", "u_x", "lap")
        }
        for term, solution in solved.items():
            effect = report.sections["observables"]["mass"]["terms"][term]["deletion"]
            assert effect == pytest.approx(abs(mass(model.factual) - mass(solution)), rel=1e-8), (
                name,
                term,
            )
            assert report.terms[term].deletion == pytest.approx(
                model.factual.distance(solution), rel=1e-10
            ), (name, term)
    assert reports["kept"].terms["lap"].deletion != pytest.approx(
        reports["carried"].terms["lap"].deletion, rel=1e-2
    )
    assert "released" in reports["carried"].terms["lap"].conditions
    assert reports["kept"].terms["lap"].conditions == ""
    assert "with all essential conditions kept" in reports["kept"].sections["scope"]["sentence"]
    assert "essential conditions" not in reports["carried"].sections["scope"]["sentence"]


def test_what_was_kept_is_solved_again_where_it_is_released(tmp_path):
    both = studies(tmp_path)
    kept = both["kept"].run(tmp_path / "out").terms["lap"].deletion
    edited = both["carried"].run(tmp_path / "out", resume=True).terms["lap"].deletion
    fresh = both["carried"].run(tmp_path / "fresh").terms["lap"].deletion
    assert edited == pytest.approx(fresh, rel=1e-10)
    assert edited != pytest.approx(kept, rel=1e-3)


def test_error_bars_are_of_the_same_problem(tmp_path):
    study = studies(tmp_path)["kept"]
    model = cf.Model(study.library, study.coefficients, next(iter(study.experiments.values())))
    kept = cf.delete("lap", conditions="kept")
    assert recognised(model, "lap", kept) == kept
    refitted = model.deletions(["u"], refit="remaining", conditions="kept")["u"].intervention
    assert recognised(model, "u", refitted) == RefittedDeletion("u", "kept")
    assert not RefittedDeletion("u", "kept").on(model).carried


def test_other_words_are_refused():
    with pytest.raises(InputError, match="conditions are 'carried' or 'kept', not 'free'"):
        cf.Certification(conditions="free")
