"""Studies with sensors: which fit is chosen, what the report says, both kinds of verdicts, resuming
in the middle of a fit, ranks, and refusals.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import x
from cffem.study.report import report as report_module
from cffem.study.run.sensors.calibrating import StoredPoints

SCHEMA = json.loads(
    Path(report_module.__file__).with_name("report.schema.json").read_text(encoding="utf-8")
)
u = cf.ScalarField("u")
TRUTH = {"lap": 0.05, "cubic": -0.8}
POINTS = [0.17, 0.33, 0.58, 0.81]


def problem(comm=MPI.COMM_SELF, **more):
    """u_t = 0.05 u_xx − 0.8 u³, with the candidate u_x that is not there."""
    library = cf.Library(anchor=cf.dt(u), terms={"u_x": u.diff(x), "lap": cf.lap(u), "cubic": u**3})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 1 / 16),
        elements={u: ("Lagrange", 2)},
        initial={u: 1.5 * sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=12),
        **more,
    )
    return library, experiment


def measured(library, experiment, sensors, truth=TRUTH, seed=0):
    model = cf.Model(library, truth, experiment)
    values = model.observation(sensors).values(model.factual)
    noise = np.random.default_rng(seed).normal(size=len(values))
    model.destroy()
    return values + (sensors.noise or 0.02) * noise


@pytest.fixture(scope="module")
def calibrated():
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = measured(library, experiment, sensors)
    return cf.Study(library, experiment, data=(sensors, data)).run()


def test_a_study_of_readings_calibrates_and_says_why(calibrated):
    fit = calibrated.sections["calibration"]
    assert fit["fit"] == "calibration"
    assert "52 readings" in fit["why"]
    assert fit["reliable"], fit["reasons"]
    assert calibrated.sections["scope"]["fit"]["kind"] == "calibration"
    assert "Sensors(4 points, u" in calibrated.sections["scope"]["observation"]
    for name, value in TRUTH.items():
        low, high = fit["intervals"][name]
        assert low <= value <= high
    assert 20 < fit["chi2"] < 90


def test_terms_are_needed_visible_or_not(calibrated):
    sets = calibrated.sections["sets"]
    assert sets["needed"] == ["lap", "cubic"]
    assert "u_x" in sets["visible_not_needed"] + sets["not_visible"]
    for name in TRUTH:
        seen = calibrated.terms[name].sensors
        assert seen["visibility"] == "visible"
        assert seen["score"] - seen["margin"] > 2
        assert seen["p_value"] < 1e-6
        assert calibrated.terms[name].decision == "relevant"
    assert calibrated.terms["u_x"].sensors["p_value"] > 0.01
    assert calibrated.terms["u_x"].coefficient == 0


def test_the_report_is_of_its_schema_and_every_view_shows_the_sensors(calibrated):
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.validate(json.loads(calibrated.to_json()), SCHEMA)
    again = cf.Report.from_json(calibrated.to_json())
    page = again.to_html()
    for words in ("Sensors and calibration", "What sensors see", "needed", "Profiles", "Residuals"):
        assert words in page, words
    assert "could not be drawn" not in page
    assert "Sensors: lap and cubic are needed by the data" in str(again)
    assert "sensor_score" in again.to_csv().splitlines()[0]


def test_the_calibration_has_its_latex_table(calibrated):
    tables = calibrated.to_latex()
    assert r"\label{tab:calibration}" in tables
    row = next(line for line in tables.splitlines() if line.strip().startswith("cubic &"))
    body = tables.split(r"\label{tab:calibration}")[1].split(r"\end{table}")[0]
    assert "readings" in tables
    assert all(f"{name}" in body for name in ("lap", "cubic"))
    assert "needed" in body
    assert row


def test_what_is_seen_is_the_whitened_change_of_the_readings(calibrated):
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    fitted = {n: t.coefficient for n, t in calibrated.terms.items()}
    model = cf.Model(library, fitted, experiment)
    expected = model.observation_deletions(sensors, ["lap"])["lap"]
    assert calibrated.terms["lap"].sensors["score"] == pytest.approx(expected.score, rel=1e-6)
    assert calibrated.terms["lap"].sensors["reading"] == expected.reading


def test_error_bars_of_readings_hold_what_a_much_finer_mesh_gives(calibrated):
    library, experiment = problem()
    fitted = {n: t.coefficient for n, t in calibrated.terms.items()}
    fine = cf.Experiment(
        **{
            **vars(experiment),
            "mesh": cf.mesh.interval(MPI.COMM_SELF, 1 / 64),
            "time": cf.Window(0, 1, steps=96),
        }
    )
    sensors = cf.Sensors(POINTS, [u], times=experiment.time.times, noise=0.02)
    exact = cf.Model(library, fitted, fine).observation_deletions(sensors, list(TRUTH))
    coarse = cf.Model(library, fitted, experiment)
    from cffem.bounds.observation_bounds import ObservationMargin, certify_observation

    changes = {name: cf.delete(name) for name in TRUTH}
    solutions = {name: coarse.solve(change) for name, change in changes.items()}
    bars = certify_observation(coarse, sensors, changes, solutions, threshold=2.0)
    for name, bar in bars.items():
        assert isinstance(bar, ObservationMargin), bar
        assert abs(bar.score - exact[name].score) <= bar.margin
        assert bar.margin < 0.3 * bar.score


def test_given_coefficients_with_sensors_have_both_verdicts_side_by_side():
    sensors = cf.Sensors([0.5], [u], noise=10.0)
    library, experiment = problem(observation=sensors)
    report = cf.Study(library, experiment, coefficients={**TRUTH, "u_x": 0.1}).run()
    assert report.terms["lap"].decision == "relevant"
    assert report.terms["lap"].sensors["visibility"] == "not visible"
    assert report.terms["lap"].sensors["need"] is None
    assert report.sections["sets"]["not_visible"] == ["u_x", "lap", "cubic"]
    assert report.sections["calibration"]["skipped"] == "the coefficients are given"
    design = report.sections["identifiability"]["sensitivity"]
    assert design["rank"] == 3
    assert design["deviations"]["lap"] > 0
    pytest.importorskip("jsonschema").validate(json.loads(report.to_json()), SCHEMA)


def test_a_run_that_was_stopped_in_the_middle_of_a_fit_ends_in_the_same_numbers(
    tmp_path, monkeypatch, calibrated
):
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    study = cf.Study(library, experiment, data=(sensors, measured(library, experiment, sensors)))
    keep, seen = StoredPoints.keep, []

    def stopping(self, key, point):
        keep(self, key, point)
        seen.append(key)
        if len(seen) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(StoredPoints, "keep", stopping)
    with pytest.raises(KeyboardInterrupt):
        study.run(tmp_path / "out")
    monkeypatch.undo()
    report = study.run(tmp_path / "out", resume=True)
    whole, resumed = (r.sections["calibration"] for r in (calibrated, report))
    for key in ("coefficients", "intervals", "chi2", "deletions", "profiles", "selection"):
        assert resumed[key] == whole[key], key
    assert resumed["solves"] < whole["solves"]


def test_readings_with_noise_of_unknown_level_are_judged_by_its_estimate():
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u])
    data = measured(library, experiment, sensors)
    report = cf.Study(
        library,
        experiment,
        data=(sensors, data),
        calibration=cf.CalibrationSettings(profiles=False),
    ).run()
    fit = report.sections["calibration"]
    assert not fit["noise_known"]
    assert 0.013 < fit["noise_level"] < 0.027
    assert report.sections["sets"]["needed"] == ["lap", "cubic"]
    assert report.terms["lap"].sensors["score"] > 10


def test_refits_without_each_term_come_from_the_readings():
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = measured(library, experiment, sensors)
    report = cf.Study(
        library,
        experiment,
        data=(sensors, data),
        refit="remaining",
        calibration=cf.CalibrationSettings(profiles=False, select=False),
    ).run()
    kinds = {v["intervention"] for v in report.sections["sets"]["verdicts"]}
    assert kinds == {"deletion", "deletion with refit"}
    assert report.sections["calibration"]["selection"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"fit": "regression"}, "a regression needs fields"),
        ({"fit": "magic"}, "fit is one of auto, regression, calibration"),
        ({"fit": "calibration", "coefficients": {"lap": 1.0}}, "the coefficients are given"),
    ],
)
def test_fits_that_cannot_be_are_refused(options, words):
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    with pytest.raises(cf.InputError, match=words):
        cf.Study(library, experiment, data=(sensors, np.zeros(52)), **options)


def test_values_alone_need_the_observation_of_their_experiment():
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    library, experiment = problem(observation=sensors)
    study = cf.Study(library, experiment, data=np.zeros(52))
    assert study.calibrated
    library, experiment = problem()
    with pytest.raises(cf.InputError, match="observation=sensors"):
        cf.Study(library, experiment, data=np.zeros(52))
    with pytest.raises(cf.InputError, match="finite numbers"):
        cf.Study(library, experiment, data=(sensors, [np.nan] * 52))
    with pytest.raises(cf.InputError, match="has no readings"):
        cf.Study(library, [experiment] * 2, data=[(sensors, np.zeros(52))]).run()
    with pytest.raises(cf.InputError, match="observation must be"):
        problem(observation=[0.1, 0.2])


def test_few_scattered_points_are_calibrated_and_fields_on_grids_are_not():
    library, experiment = problem()
    times = np.linspace(0, 1, 13)
    few = cf.Dataset.from_points(np.array([[0.2], [0.7]]), times, {u: np.zeros((2, 13))})
    study = cf.Study(library, experiment, data=few)
    assert study.calibrated
    assert "2 points, too few" in study.fit_choice.why
    assert len(study.readings["experiment 1"][1]) == 26
    grid = cf.Dataset.from_arrays(
        {"x": np.linspace(0, 1, 30), "t": times}, {u: np.ones((30, 13)) * np.linspace(1, 2, 13)}
    )
    assert cf.Study(library, experiment, data=grid).regressed
    assert cf.Study(library, experiment, data=grid, fit="calibration").calibrated


def body(comm, path):
    library, experiment = problem(comm)
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = measured(*problem(), sensors)
    settings = cf.CalibrationSettings(profiles=False)
    report = cf.Study(library, experiment, data=(sensors, data), calibration=settings).run()
    if comm.rank == 0:
        fit = report.sections["calibration"]
        seen = {
            name: [term.sensors["score"], term.sensors["margin"], term.sensors["need"]]
            for name, term in report.terms.items()
        }
        next_one = fit["next"] and fit["next"]["point"]
        Path(path).write_text(json.dumps([fit["coefficients"], fit["chi2"], seen, next_one]))


@pytest.mark.slow
def test_two_and_three_ranks_report_what_one_reports(on_ranks, tmp_path):
    path = tmp_path / "found.json"
    body(MPI.COMM_SELF, path)
    coefficients, chi2, seen, next_one = json.loads(path.read_text())
    for ranks in (2, 3):
        on_ranks(ranks, body, str(path))
        other = json.loads(path.read_text())
        assert other[0] == pytest.approx(coefficients, rel=1e-6)
        assert other[1] == pytest.approx(chi2, rel=1e-8)
        assert other[3] == next_one
        for name, (score, margin, need) in seen.items():
            assert other[2][name][2] == need
            assert other[2][name][0] == pytest.approx(score, rel=1e-6)
            assert (margin is None) == (other[2][name][1] is None)


def test_a_part_of_the_domain_is_bounded_by_the_norm_of_the_field():
    """Where a steady field is seen on a part, its error bar is that of the field."""
    library = cf.Library(terms={"lap": cf.lap(u), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.15),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 10},
        observation=cf.Part("domain", noise=0.02),
    )
    report = cf.Study(library, experiment, coefficients={"lap": 1.0, "u": 5.0}).run()
    seen = report.terms["u"].sensors
    assert seen["kind"] == "guaranteed"
    assert "norm of the field on the part" in seen["method"]
    # δ^𝒪 is the root mean square of the change over the noise, on a domain of area one.
    assert seen["score"] == pytest.approx(report.terms["u"].deletion / 0.02, rel=1e-6)


def test_several_experiments_are_calibrated_together():
    library, first = problem()
    second = cf.Experiment(**{**vars(first), "initial": {u: sp.sin(3 * sp.pi * x)}})
    sensors = cf.Sensors([0.2, 0.7], [u], noise=0.02)
    data = {
        name: (sensors, measured(library, experiment, sensors, seed=k))
        for k, (name, experiment) in enumerate({"a": first, "b": second}.items())
    }
    settings = cf.CalibrationSettings(profiles=False)
    report = cf.Study(library, {"a": first, "b": second}, data=data, calibration=settings).run()
    fit = report.sections["calibration"]
    assert fit["readings"] == 52
    assert set(fit["residuals"]) == {"a", "b"}
    for name, value in TRUTH.items():
        low, high = fit["intervals"][name]
        assert low <= value <= high


def test_a_start_that_is_uncertain_is_estimated_in_a_study(tmp_path):
    start = cf.Uncertain(u, {"third": sp.sin(3 * sp.pi * x)}, deviation=0.5)
    library, experiment = problem(uncertain=start)
    true = cf.Experiment(
        **{
            **vars(experiment),
            "initial": {u: experiment.initial[u] + 0.3 * sp.sin(3 * sp.pi * x)},
            "uncertain": (),
        }
    )
    sensors = cf.Sensors(POINTS, [u], noise=0.02)
    data = measured(library, true, sensors)
    settings = cf.CalibrationSettings(profiles=False)
    study = cf.Study(library, experiment, data=(sensors, data), calibration=settings)
    report = study.run(out=tmp_path)
    fit = report.sections["calibration"]
    found = fit["amplitudes"]["u at start: third"]
    assert found["value"] == pytest.approx(0.3, abs=4 * found["deviation"])
    for name, value in TRUTH.items():
        low, high = fit["intervals"][name]
        assert low <= value <= high
    assert report.sections["identifiability"]["sensitivity"]["projected_out"]
    assert "Uncertain data, estimated beside the coefficients" in report.to_html()
    assert "u at start: third" in report.to_latex()
    # Deletions are those of the experiment with the estimate in its data.
    estimated = cf.Experiment(
        **{
            **vars(true),
            "initial": {u: experiment.initial[u] + found["value"] * sp.sin(3 * sp.pi * x)},
        }
    )
    fitted = {n: t.coefficient for n, t in report.terms.items()}
    model = cf.Model(library, fitted, estimated)
    score = model.deletions(["cubic"])["cubic"].score
    assert report.terms["cubic"].deletion == pytest.approx(score, rel=1e-6)
    again = cf.Study(library, experiment, data=(sensors, data), calibration=settings)
    assert again.run(out=tmp_path, resume=True).sections["calibration"] == fit


def test_a_field_and_sensors_are_regressed_and_then_calibrated():
    library, experiment = problem()
    sensors = cf.Sensors(POINTS, [u], noise=0.005)
    data = measured(library, experiment, sensors)
    model = cf.Model(library, TRUTH, experiment)
    grid, times = np.linspace(0, 1, 41), np.linspace(0, 1, 13)
    values = model.observation(cf.Sensors(grid, [u], times=times)).values(model.factual)
    field = cf.Dataset.from_arrays({x: grid, cf.t: times}, {u: values.reshape(41, 13)})
    settings = cf.CalibrationSettings(profiles=False, select=False)
    study = cf.Study(
        library,
        {"field": experiment, "sensors": experiment},
        data={"field": field, "sensors": (cf.Sensors(POINTS, [u]), data)},
        calibration=settings,
    )
    assert study.fit_choice.kind == "both"
    assert "field has a field" in study.fit_choice.why
    fit = study.run().sections["calibration"]
    assert fit["start"]["coefficients"]["cubic"] == pytest.approx(-0.8, rel=0.3)
    assert fit["coefficients"] == pytest.approx({"u_x": 0.0, **TRUTH}, abs=0.02)
    with pytest.raises(cf.InputError, match="needs fields"):
        cf.Study(library, experiment, data=(sensors, data), fit="both")
