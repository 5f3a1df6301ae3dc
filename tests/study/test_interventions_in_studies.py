"""Named interventions and pairs of terms in studies: the same numbers as separate solves, verdicts,
relations of terms with exact answers, resume, TOML and all views of the report.
"""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, timeless, written

import cffem as cf
from cffem import dt, lap, x, y
from cffem.study.report.interventions.intervention_report import interventions_csv
from cffem.study.toml.study_file import read_study

u = cf.ScalarField("u")


class Halt(BaseException):
    """Ends a run in the middle."""


def heat(comm=MPI.COMM_SELF):
    library = cf.Library(dt(u), {"u": u, "u_x": u.diff(x), "lap": lap(u)})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.1),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.2, steps=8),
    )
    return library, experiment, {"u": 0.6, "u_x": 0.3, "lap": 0.1}


CHANGES = {
    "group": cf.delete("u", "u_x"),
    "half": cf.scale("lap", 0.5),
    "set": cf.set("u", -1.0),
    "forced": cf.force({u: 1 + x}),
    "start": cf.start({u: x * (1 - x)}),
    "wall": cf.boundary(cf.Neumann(u, 0, on="left")),
    "joint": cf.scale("lap", 2.0) & cf.force({u: 1}),
}


def homogeneous(terms, coefficients, initial, end=1.0, steps=40, forcing=0):
    """A problem whose solution is a function of the time alone."""
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 1)},
        initial={u: initial},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: forcing},
        time=cf.Window(0, end, steps=steps),
    )
    library = cf.Library(dt(u), {"lap": lap(u), **terms})
    return library, experiment, {"lap": 1.0, **coefficients}


def test_every_kind_of_intervention_has_score_bar_and_verdict():
    """Scores are those of separate solves; guaranteed bars come where the class allows."""
    library, experiment, coefficients = heat()
    certification = cf.Certification(epsilon=1e-2)
    study = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        interventions=CHANGES,
        certification=certification,
        observables={"mass": (cf.Integral(u), 1e-3)},
    )
    report = study.run()
    assert list(report.interventions) == list(CHANGES)
    with cf.Model(library, coefficients, experiment) as model:
        for name, change in CHANGES.items():
            found = report.interventions[name]
            exact = model.factual.distance(model.solve(change))
            assert found.score == pytest.approx(exact, rel=1e-10)
            assert found.certificate in ("guaranteed", "estimated")
            assert 0 < found.margin < exact
            assert found.decision == cf.decide(exact, 1e-2, margin=found.margin)
            mass = report.sections["observables"]["mass"]["interventions"][name]
            value = model.measurement(cf.Integral(u)).value
            assert mass["deletion"] == pytest.approx(
                abs(value(model.factual) - value(model.solve(change))), rel=1e-8, abs=1e-12
            )
            assert mass["decision"] in ("relevant", "irrelevant", "unresolved")


def test_guaranteed_bars_of_data_interventions_contain_the_true_score():
    """−Δu = f with u = sin πx sin πy: twice the force is twice the solution, whose norm is 1/2."""
    force = 2 * sp.pi**2 * sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    library = cf.Library(terms={"lap": lap(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.125),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: force},
    )
    study = cf.Study(
        library,
        experiment,
        coefficients={"lap": 1.0},
        interventions={
            "twice": cf.force({u: 2 * force}),
            "stiffer": cf.scale("lap", 2.0),
            "wall": cf.boundary(cf.Dirichlet(u, 1)),
        },
        certification=cf.Certification(epsilon=1e-2),
    )
    found = study.run().interventions
    for name, true in (("twice", 0.5), ("stiffer", 0.25), ("wall", 1.0)):
        assert found[name].certificate == "guaranteed", name
        assert abs(found[name].score - true) <= found[name].margin


def test_two_sinks_stand_in_for_each_other():
    """u' = −(a + b) u from 1 with a = b = 20: one sink is as good as two, none is not."""
    library, experiment, coefficients = homogeneous(
        {"a": -u, "b": lap(u) - u},  # the same, since u is constant in space
        {"a": 20.0, "b": 20.0},
        1,
        steps=400,
    )
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        pairs=True,
        certification=cf.Certification(epsilon=0.2),
    ).run()
    pair = report.interventions["a & b"]
    assert report.terms["a"].decision == report.terms["b"].decision == "irrelevant"
    assert pair.decision == "relevant"
    assert set(pair.relations) == {"redundant", "synergy"}
    # ‖1 − e^{−40 t}‖ on (0, 1)
    true = math.sqrt(1 - 2 * (1 - math.exp(-40)) / 40 + (1 - math.exp(-80)) / 80)
    assert pair.score == pytest.approx(true, abs=1e-3)
    assert "neither a nor b matters alone" in str(report)


def test_two_terms_that_cancel():
    """u = 2 solves 0 = 2 − u + (u² − u³/2): neither power can go alone, both can."""
    library, experiment, coefficients = homogeneous(
        {"sink": -u, "square": u**2, "cube": -(u**3)},
        {"sink": 1.0, "square": 1.0, "cube": 0.5},
        2,
        forcing=2,
    )
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        pairs=True,
        certification=cf.Certification(epsilon=1e-2),
    ).run()
    pair = report.interventions["square & cube"]
    assert report.terms["square"].decision == report.terms["cube"].decision == "relevant"
    assert pair.score < 1e-10
    assert pair.decision == "irrelevant"
    assert pair.relations == ("compensation",)
    assert "square and cube cancel" in pair.sentence


def test_the_report_tells_of_interventions_everywhere(tmp_path):
    library, experiment, coefficients = heat()
    report = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        interventions={"half": cf.scale("lap", 0.5)},
        pairs=True,
        certification=cf.Certification(epsilon=1e-2),
    ).run(out=tmp_path / "results")
    folder = tmp_path / "results"
    rows = list(csv.DictReader(io.StringIO((folder / "interventions.csv").read_text())))
    assert [row["name"] for row in rows] == ["half", "u & u_x", "u & lap", "u_x & lap"]
    assert interventions_csv(report.interventions) == (folder / "interventions.csv").read_text()
    assert cf.Report.read(folder).interventions == report.interventions
    page = (folder / "report.html").read_text()
    assert "Named interventions" in page
    assert "Scores of all pairs" in page
    assert r"\label{tab:interventions}" in report.to_latex()
    assert "half is relevant" in str(report)
    kinds = {v["intervention"] for v in report.sections["sets"]["verdicts"]}
    assert kinds == {"deletion", "intervention", "pair of deletions"}
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((Path(cf.__file__).parent / "study/report/report.schema.json").read_text())
    jsonschema.validate(json.loads((folder / "report.json").read_text()), schema)


def test_interventions_are_resumed(tmp_path):
    """A run that was stopped after some interventions goes on, and ends in the same report."""
    library, experiment, coefficients = heat()

    def study():
        return cf.Study(
            library,
            experiment,
            coefficients=coefficients,
            interventions=CHANGES,
            pairs=True,
            certification=cf.Certification(epsilon=1e-2),
        )

    whole = study().run(out=tmp_path / "whole")
    from cffem.study.run import running

    stored, count = running.Run.store, [0]

    def stopping(self, key, value, label):
        if key.startswith(("intervention/", "certificates/intervention", "pair")):
            count[0] += 1
            if count[0] == 5:
                raise Halt
        return stored(self, key, value, label)

    running.Run.store = stopping
    try:
        with pytest.raises(Halt):
            study().run(out=tmp_path / "part")
    finally:
        running.Run.store = stored
    resumed = study().run(out=tmp_path / "part", resume=True)
    first, second = (timeless(json.loads(each.to_json())) for each in (whole, resumed))
    assert first["interventions"] == second["interventions"]
    # Another intervention of the same name is solved for, and the others are as they were.
    other = cf.Study(
        library,
        experiment,
        coefficients=coefficients,
        interventions={**CHANGES, "half": cf.scale("lap", 0.25)},
        pairs=True,
        certification=cf.Certification(epsilon=1e-2),
    )
    edited, fresh = (other.run(out=tmp_path / name).interventions for name in ("part", "fresh"))
    assert edited.keys() == fresh.keys()
    for name, entry in fresh.items():
        assert edited[name].score == pytest.approx(entry.score, rel=1e-10), name
    assert fresh["half"].score != pytest.approx(whole.interventions["half"].score, rel=1e-3)


ASKED = """
[interventions."no reaction"]
delete = ["u", "u_x"]
[interventions.half]
scale = { lap = 0.5 }
set = { u = 0.1 }
[interventions.forced]
force = { u = "1 + x" }
[interventions.other]
start = { u = "x*(1 - x)" }
boundary = [{ type = "Neumann", field = "u", value = 0, on = "left" }]
"""


def test_toml_says_the_same(tmp_path):
    study = read_study(written(tmp_path, f"pairs = true\n{TOML}\n{ASKED}"), MPI.COMM_SELF)
    names = list(study.library.equations)
    (unknown,) = names
    assert study.pairs
    assert study.interventions == {
        "no reaction": cf.delete("u", "u_x"),
        "half": cf.scale("lap", 0.5) & cf.set("u", 0.1),
        "forced": cf.force({unknown: 1 + x}),
        "other": cf.start({unknown: x * (1 - x)}) & cf.boundary(cf.Neumann(unknown, 0, on="left")),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[interventions.a]\nrelease = false", "changes nothing"),
        ('[interventions.a]\ndelete = "lapp"', "did you mean 'lap'"),
        ('[interventions.lap]\ndelete = "u"', "has the name of a term"),
        ("[interventions.a]\nscale = { lap = true }", "finite number"),
        ('[interventions.a]\nremove = "u"', "interventions.a.remove"),
    ],
)
def test_toml_refuses(tmp_path, text, said):
    with pytest.raises(cf.InputError, match=said):
        read_study(written(tmp_path, f"{TOML}\n{text}"), MPI.COMM_SELF)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (cf.boundary(cf.Dirichlet(u, 0, on="nowhere")), "nowhere"),
        (cf.release(), "no constraint"),
        (cf.force({cf.ScalarField("w"): 1}), "no field of this model"),
    ],
)
def test_what_an_experiment_cannot_take_is_refused_before_anything_is_solved(change, said):
    library, experiment, coefficients = heat()
    study = cf.Study(library, experiment, coefficients=coefficients, interventions={"odd": change})
    with pytest.raises(cf.InputError, match=f"the intervention 'odd'.*{said}"):
        study.run()


def test_toml_deletes_in_parts(tmp_path):
    text = '[interventions.a]\ndelete = "u"\non = ["west", "east"]\nduring = [0, 0.25]'
    study = read_study(written(tmp_path, f"{TOML}\n{text}"), MPI.COMM_SELF)
    assert study.interventions["a"] == cf.delete("u", on=("west", "east"), during=(0, 0.25))
