"""An unsolvable deletion reports its profile and the verdict of the part that has a solution."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem.study.report.report import JSON_FILE, PAGE_FILE, Report
from cffem.study.toml.study_file import read_study

u, w = cf.ScalarField("u"), cf.ScalarField("w")
FOLD = 3.513830719125162  # u'' + λ eᵘ = 0 on (0, 1) has solutions up to this λ


TOML = """
[fields]
u = "scalar"

[library]
unknown = "u"
[library.terms]
lap = "lap(u)"
heat = "exp(u)"

[coefficients]
lap = 1.0
heat = 2.0

[[experiments]]
mesh = { shape = "interval", h = 0.1 }
elements = { u = ["Lagrange", 2] }
boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }]

[certification]
epsilon = 0.05
"""


def bratu(epsilon, comm=MPI.COMM_SELF, **more):
    library = cf.Library(terms={"lap": cf.lap(u), "heat": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.1),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    return cf.Study(
        library,
        experiment,
        coefficients={"lap": 1.0, "heat": 2.0},
        certification=cf.Certification(epsilon=epsilon, **more),
    )


def test_a_term_is_relevant_if_a_part_of_it_is(tmp_path):
    report = bratu(0.05).run(tmp_path)
    lap = report.terms["lap"]
    assert (lap.decision, lap.code, lap.certificate) == (
        "relevant",
        "deletion-in-part",
        "estimated",
    )
    assert lap.share == 0.25
    assert lap.deletion - lap.margin > 0.05
    assert "already without 25 % of its coefficient" in lap.reason
    assert lap.profile["reach"] < 1 - 2 / FOLD < lap.profile["beyond"]
    assert report.sections["sets"]["relevant"] == ["lap", "heat"]
    assert "lap is relevant (already without 25 %" in " ".join(str(report).split())
    page = (tmp_path / PAGE_FILE).read_text()
    assert "Profile of lap" in page
    assert Report.read(tmp_path).terms["lap"].profile == lap.profile


def test_a_profile_is_not_computed_again(tmp_path, monkeypatch):
    first = bratu(0.05).run(tmp_path)
    (tmp_path / JSON_FILE).unlink()
    monkeypatch.setattr(
        "cffem.study.run.stations.profiling.profile", lambda *_, **__: pytest.fail("solved again")
    )
    again = bratu(0.05).run(tmp_path, resume=True)
    assert again.terms["lap"].profile == first.terms["lap"].profile
    assert again.terms["lap"].reason == first.terms["lap"].reason


def test_small_changes_up_to_the_end_of_solutions_decide_nothing():
    lap = bratu(2.0).run().terms["lap"]
    assert (lap.decision, lap.code) == ("unresolved", "deletion-in-part")
    assert "no solution was found" in lap.reason


def test_without_an_error_bar_a_part_decides_nothing():
    """A budget of one unknown leaves no levels for an estimate."""
    report = bratu(0.05, budget=1.0).run()
    assert report.terms["lap"].decision == "unresolved"
    assert "no error bar" in report.terms["lap"].reason


def test_fields_have_profiles_of_their_own():
    """Without its reaction u is singular; w follows u."""
    first = cf.Library(terms={"lap": cf.lap(u), "reaction": -u}, unknown=u)
    second = cf.Library(terms={"lap": cf.lap(w), "reaction": -w, "source": u}, unknown=w)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        elements={u: ("Lagrange", 2), w: ("Lagrange", 2)},
        boundary=[cf.Neumann(u, 0), cf.Neumann(w, 0)],
        forcing={u: 1 + cf.x},
    )
    system = cf.System({u: first, w: second})
    coefficients = dict.fromkeys(system.names, 1.0)
    asked = cf.Certification(epsilon=0.1)
    study = cf.Study(system, experiment, coefficients=coefficients, certification=asked)
    term = study.run().terms["u/reaction"]
    assert term.code == "deletion-in-part"
    assert {*term.fields} == {"u", "w"}
    assert "unsolvable" not in term.fields.values()
    # The mean of u is multiplied by 1/(1 − ρ): at ρ = 1/4 by a third more.
    assert term.share == 0.25
    assert term.profile["norm"] in ("L2[u]", "L2[w]")


def test_a_toml_study_reports_a_profile(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    report = read_study(tmp_path / "study.toml", MPI.COMM_SELF).run(tmp_path / "out")
    assert report.terms["lap"].decision == "relevant"
    stored = json.loads((tmp_path / "out" / JSON_FILE).read_text())
    (lap,) = (term for term in stored["terms"] if term["name"] == "lap")
    assert lap["profile"]["cause"] == "fold"


def insulated(comm):
    """Δu − u + x = 0 in an insulated square: without the reaction there is no solution."""
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.4),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: cf.x},
    )
    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    asked = cf.Certification(epsilon=1e-2)
    coefficients = {"lap": 1.0, "u": -1.0}
    study = cf.Study(library, experiment, coefficients=coefficients, certification=asked)
    found = study.run().terms["u"]
    return [found.share, found.decision, found.deletion]


def body_of_ranks(comm, expected):
    share, decision, score = insulated(comm)
    assert [share, decision] == json.loads(expected)[:2] == [0.25, "relevant"]
    assert score == pytest.approx(json.loads(expected)[2], rel=1e-9)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_profile_of_a_study_is_the_same_on_any_number_of_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_ranks, json.dumps(insulated(MPI.COMM_SELF)))
