"""Fitted models that cannot be solved, or not be trusted: what was identified is kept, and
the advice fits what is missing.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x
from cffem.study.report.report import Report
from cffem.study.report.summary import sentences
from cffem.study.run import running
from cffem.study.run.facts import BoundFact, DeletionFact, JudgedDeletion
from cffem.study.run.starting import StartSettings, fitted_start
from cffem.study.run.stations.deciding import verdict

u = cf.ScalarField("u")
RATE = 0.05


def decay(sign=1.0, modes=((1, 1.0), (2, 0.5)), noise=0.0, end=1.0, times=41):
    """Data of u_t = ±RATE u_xx with zero boundary values; the minus sign grows and is no law
    of any experiment.
    """
    grid, clock = np.linspace(0, 1, 65), np.linspace(0, end, times)
    parts = [
        a * np.sin(k * np.pi * grid)[:, None] * np.exp(-sign * RATE * (k * np.pi) ** 2 * clock)
        for k, a in modes
    ]
    values = sum(parts)
    values = values + noise * np.random.default_rng(3).standard_normal(values.shape)
    return cf.Dataset.from_arrays({x: grid, t: clock}, {u: values})


def heat_experiment(h=0.1, degree=2, steps=10):
    return cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, h),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=steps),
    )


def started():
    """The same with a start of its own."""
    return replace(heat_experiment(), initial={u: sp.sin(sp.pi * x)})


HEAT = cf.Library(anchor=dt(u), terms={"u": u, "lap": lap(u)})


def test_a_fit_that_runs_backward_in_time_keeps_its_identification(tmp_path):
    report = cf.Study(
        HEAT,
        heat_experiment(),
        data=decay(-1.0),
        certification=cf.Certification(epsilon=0.02, relative=True),
    ).run(tmp_path)
    found = report.sections["screening"]
    assert found["coefficients"]["lap"] == pytest.approx(-RATE, rel=1e-2)
    assert "skill" in found
    assert report.sections["design"]["rank"] == 2
    for term in report.terms.values():
        assert term.decision == "unresolved"
        assert term.deletion is term.margin is term.linearised is None
    assert report.terms["lap"].code == "model-backward-in-time"
    assert "backward in" in report.terms["lap"].reason
    assert report.sections["scope"]["epsilon"] is None, (
        "ε is relative to a solution that does not exist"
    )
    assert "mend the fitted model" in sentences(report)[2]
    again = Report.read(tmp_path)
    assert again.to_json() == report.to_json()
    assert "backward in time" in (tmp_path / "report.html").read_text()
    jsonschema = pytest.importorskip("jsonschema")
    from cffem.study.report import report as module

    schema = json.loads((module.Path(module.__file__).parent / "report.schema.json").read_text())
    jsonschema.validate(json.loads(report.to_json()), schema)


def test_a_fit_that_runs_away_is_not_marched_on(monkeypatch):
    monkeypatch.setattr(running, "LARGEST_GROWTH", 0.5)
    report = cf.Study(HEAT, heat_experiment(), data=decay()).run()
    assert {term.code for term in report.terms.values() if term.selected} == {"model-grows"}
    assert report.sections["screening"]["support"]
    assert report.sections["screening"]["misfit"]["experiment 1"] == {
        "skipped": "the fitted model was not solved"
    }


def test_one_experiment_that_cannot_be_solved_does_not_take_the_others_with_it(monkeypatch):
    limits = {"good": {}, "bad": {u: 1e-3}}
    monkeypatch.setattr(running, "growth_limits", lambda study, name, model: limits[name])
    experiments = {"good": heat_experiment(), "bad": heat_experiment()}
    report = cf.Study(
        HEAT,
        experiments,
        data={"good": decay(), "bad": decay()},
        certification=cf.Certification(epsilon=1e-2),
    ).run()
    single = {v["experiment"]: v for v in report.sections["sets"]["verdicts"] if v["term"] == "lap"}
    assert single["good"]["decision"] == "relevant"
    assert single["bad"]["decision"] == "unresolved"
    assert single["bad"]["code"] == "model-grows"
    assert report.terms["lap"].decision == "relevant"


@pytest.mark.parametrize(
    ("margin", "spread", "code"),
    [
        (0.01, 0.2, "margin-coefficients"),
        (0.2, 0.01, "margin-discretisation"),
        (0.01, math.inf, "margin-coefficients"),
        (None, math.inf, "margin-coefficients"),
        (None, 0.01, "over-budget"),
    ],
)
def test_what_makes_the_margin_decides_what_is_advised(margin, spread, code):
    bound = BoundFact.from_plain({"reason": "too large", "code": "over-budget"})
    if margin is not None:
        bound = BoundFact(margin=margin, kind="guaranteed", method="flux")
    fact = JudgedDeletion(DeletionFact("solved", 0.5), 0.5, bound)
    found = verdict("lap", "e", "deletion", 0.4, fact, None, spread)
    assert (found.decision, found.code) == ("unresolved", code)
    assert found.margin is None or math.isfinite(found.margin)
    report = cf.Study(
        HEAT,
        started(),
        coefficients={"lap": 0.05, "u": 0.1},
        certification=cf.Certification(budget=1),
    ).run()
    lap_term = replace(report.terms["lap"], decision="unresolved", code=code, margin=found.margin)
    after = sentences(replace(report, terms={"lap": lap_term}))[2]
    assert ("less noise" in after) == (code == "margin-coefficients")
    assert ("refine" in after) == (code == "margin-discretisation")
    assert ("budget" in after) == (code == "over-budget")


def test_where_the_mesh_makes_the_margin_of_a_steady_problem_no_time_steps_are_mentioned():
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: sp.sin(7 * x)},
    )
    model = cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment)
    epsilon = float(model.deletions()["u"].score)
    report = cf.Study(
        library,
        experiment,
        coefficients={"lap": 1.0, "u": -5.0},
        certification=cf.Certification(epsilon=epsilon),
    ).run()
    assert report.terms["u"].decision == "unresolved"
    after = sentences(report)[2]
    assert "mesh" in after
    assert "time step" not in after
    assert "nothing is needed" not in after


def test_exact_terms_on_a_coarse_mesh_are_not_called_incomplete():
    """The misfit of half a dozen elements is the mesh's, which the error of the factual
    solution says.
    """
    report = cf.Study(
        HEAT, heat_experiment(h=0.34, degree=1, steps=4), data=decay(modes=((3, 1.0), (1, 0.3)))
    ).run()
    (found,) = report.sections["screening"]["misfit"].values()
    assert found["misfit"] > 0.05, "coarse enough to be seen"
    assert not found["missing_terms"]
    assert "add terms" not in sentences(report)[2]


def test_the_misfit_of_every_deleted_solution_stands_beside_its_score():
    report = cf.Study(
        HEAT, heat_experiment(), data=decay(), certification=cf.Certification(epsilon=1e-2)
    ).run()
    (found,) = report.sections["screening"]["misfit"].values()
    assert found["misfit"] < 1e-2
    assert found["skill_persistence"] > 0.9
    assert found["skill_mean"] > 0.9
    # Without diffusion the first reading persists, whose relative distance to the data is known.
    values = decay().values[u]
    persisting = np.sqrt(np.mean((values - values[:, :1]) ** 2) / np.mean(values**2))
    assert report.terms["lap"].misfit == pytest.approx(persisting, rel=0.02)


def test_an_unreliable_screen_is_said_first():
    """Two thirds of the data are noise without a law."""
    grid, clock = np.linspace(0, 1, 40), np.linspace(0, 1, 40)
    values = np.random.default_rng(0).standard_normal((40, 40))
    data = cf.Dataset.from_arrays({x: grid, t: clock}, {u: values})
    report = cf.Study(HEAT, heat_experiment(), data=data).run()
    assert not report.sections["screening"]["reliable"]
    assert str(report).startswith("NOT RELIABLE")
    page = report.to_html()
    assert page.index("NOT RELIABLE") < page.index("Decided:")


def test_where_something_is_open_nothing_needed_is_never_said():
    report = cf.Study(
        HEAT,
        started(),
        coefficients={"lap": 0.05},
        certification=cf.Certification(epsilon=1e-2, budget=1),
    )
    found = report.run()
    for name, decision in (("u", "unresolved"), ("lap", "unsolvable")):
        changed = replace(found.terms[name], decision=decision, code="", margin=None)
        assert (
            "nothing is needed"
            not in sentences(replace(found, terms={**found.terms, name: changed}))[2]
        )


# The start of a wave
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_a_wave_starts_with_a_rate_from_several_readings(noise):
    grid, clock = np.linspace(0, 1, 41), np.linspace(0, 1, 61)
    shape, rate = np.sin(np.pi * grid), 3.0 * np.sin(2 * np.pi * grid)
    values = shape[:, None] * np.cos(np.pi * clock) + rate[:, None] * np.sin(2 * np.pi * clock) / (
        2 * np.pi
    )
    noisy = values + noise * np.random.default_rng(1).standard_normal(values.shape)
    state, slope = fitted_start(noisy, clock, noise, StartSettings())
    single = (noisy[:, 1] - noisy[:, 0]) / (clock[1] - clock[0])
    error, naive = (np.sqrt(np.mean((found - rate) ** 2)) for found in (slope, single))
    assert np.sqrt(np.mean((state - shape) ** 2)) <= max(noise, 1e-5)
    assert error < (1e-2 if not noise else 0.25 * naive)


def test_a_study_of_a_wave_takes_state_and_rate_from_the_data():
    grid, clock = np.linspace(0, 1, 41), np.linspace(0, 1, 61)
    values = np.sin(np.pi * grid)[:, None] * np.sin(np.pi * clock) / np.pi + 0.3 * np.sin(
        2 * np.pi * grid
    )[:, None] * np.cos(2 * np.pi * clock)
    data = cf.Dataset.from_arrays({x: grid, t: clock}, {u: values})
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "u": u})
    experiment = replace(heat_experiment(steps=30), time=cf.Window(0, 1, steps=30))
    report = cf.Study(
        library, experiment, data=data, certification=cf.Certification(epsilon=1e-2)
    ).run()
    assert report.terms["lap"].coefficient == pytest.approx(1.0, rel=5e-3)
    (found,) = report.sections["screening"]["misfit"].values()
    assert found["misfit"] < 2e-2
    assert report.terms["lap"].decision == "relevant"


# Detection limits
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_strangers():
    """Heat data and a library with terms that are not there."""
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u_x": u.diff(x), "u": u, "u^2": u**2})
    data = decay(modes=((1, 1.0), (2, 0.7), (3, 0.5), (5, 0.3)), noise=0.002, times=81)
    experiment = heat_experiment()
    return {
        epsilon: cf.Study(
            library, experiment, data=data, certification=cf.Certification(epsilon=epsilon)
        ).run()
        for epsilon in (1e-1, 1e-9)
    }


def test_a_term_that_could_do_nothing_at_its_detection_limit_is_irrelevant(with_strangers):
    report = with_strangers[1e-1]
    assert report.sections["screening"]["support"] == ["lap"]
    assert report.sections["screening"]["reliable"]
    for name in ("u_x", "u", "u^2"):
        low, high = report.sections["screening"]["limits"][name]
        assert low <= 0 <= high
        term = report.terms[name]
        assert term.decision == "irrelevant"
        assert term.certificate == "estimated"
        assert term.deletion + term.margin < 1e-1
        assert f"{max(low, high, key=abs):.2g}" in term.reason


def test_a_term_that_could_matter_at_its_detection_limit_is_unresolved(with_strangers):
    report = with_strangers[1e-9]
    for name in ("u_x", "u", "u^2"):
        assert report.terms[name].decision == "unresolved"
        assert report.terms[name].code == "detection-limit"
        assert "it could be as large as" in report.terms[name].reason
    assert "u_x" in sentences(report)[2]
