"""Sensors, readings and calibration in study files, and what strangers' files may not do."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from cffem.study.toml.study_file import read_study
from cffem.study.toml.study_keys import StudyFileError

BASE = """
{top}
[fields]
u = "scalar"
[library]
anchor = "dt(u)"
[library.terms]
lap = "lap(u)"
cubic = "u**3"
[[experiments]]
mesh = {{ shape = "interval", h = 0.0625 }}
elements = {{ u = ["Lagrange", 2] }}
initial = {{ u = "1.5*sin(pi*x) + sin(2*pi*x)" }}
boundary = [{{ type = "Dirichlet", field = "u", value = 0 }}]
time = {{ start = 0, end = 1, steps = 8 }}
{experiment}
{bottom}
"""


def written(folder, experiment="", top="", bottom=""):
    path = folder / "study.toml"
    path.write_text(BASE.format(experiment=experiment, top=top, bottom=bottom))
    return path


def table(folder, name="readings.csv", header="sensor,x,t,field,value,noise", field="u"):
    """Readings of u_t = 0.05 u_xx − 0.8 u³."""
    u = cf.ScalarField("u")
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "cubic": u**3})
    study = read_study(
        written(folder, top="[coefficients]\nlap = 0.05\ncubic = -0.8"), MPI.COMM_SELF
    )
    experiment = next(iter(study.experiments.values()))
    model = cf.Model(library, {"lap": 0.05, "cubic": -0.8}, experiment)
    points = [0.2, 0.45, 0.8]
    values = model.observation(cf.Sensors(points, [u])).values(model.factual).reshape(3, -1)
    noise = 0.01 * np.random.default_rng(1).normal(size=values.shape)
    rows = [
        f"T{k},{p},{t},{field},{v},0.01"
        for k, (p, row) in enumerate(zip(points, values + noise, strict=True))
        for t, v in zip(model.times, row, strict=True)
    ]
    (folder / name).write_text("\n".join([header, *rows]))


def test_a_study_file_with_readings_is_calibrated(tmp_path):
    table(tmp_path)
    bottom = """
[calibration]
profiles = false
start = { lap = 0.02 }
bounds.lap = { low = 0 }
prior.cubic = { mean = -1, deviation = 2 }
loss = "linear"
visible = 3
"""
    path = written(tmp_path, 'readings = "readings.csv"', 'fit = "auto"', bottom)
    study = read_study(path, MPI.COMM_SELF)
    assert study.calibrated
    assert study.calibration.bounds == {"lap": (0, None)}
    assert study.calibration.visible == 3
    report = study.run()
    low, high = report.sections["calibration"]["intervals"]["lap"]
    assert low <= 0.05 <= high
    assert report.sections["sets"]["needed"] == ["lap", "cubic"]
    assert "27 readings of u by 3 sensors" in report.sections["scope"]["observation"]


def test_sensors_without_readings_are_written_out(tmp_path):
    lines = """
[[experiments.sensors]]
points = [[0.2], [0.7]]
fields = ["u"]
times = [0.5, 1.0]
noise = 0.02
[[experiments.sensors]]
kind = "part"
on = "domain"
noise = 0.1
"""
    path = written(tmp_path, lines, "[coefficients]\nlap = 0.05\ncubic = -0.8")
    study = read_study(path, MPI.COMM_SELF)
    (observation,) = study.observations.values()
    assert [type(part).__name__ for part in observation.parts] == ["Sensors", "Part"]
    assert observation.parts[0].noise == 0.02


@pytest.mark.parametrize(
    ("experiment", "words"),
    [
        ('readings = "../outside.csv"', "outside the study's folder"),
        ('readings = "nowhere.csv"', "nowhere.csv"),
        ('readings = "study.toml"', "a table in a .csv file"),
        ('readings = { file = "readings.csv", noise = -1 }', "do not give another"),
        ('readings = { file = "readings.csv", sigma = 1 }', "not a key of a study"),
        ('sensors = { points = [[0.2]], fields = ["w"] }', "there is no field 'w'"),
        ('sensors = { points = [[0.2]], fields = ["u[0]"] }', "has no component"),
        ('sensors = { points = [], fields = ["u"] }', "a list of at most"),
        ('sensors = { points = [[0.2]], fields = ["u"], noise = 0 }', "noise must be positive"),
        ('sensors = { kind = "magic", points = [[0.2]], fields = ["u"] }', "kind cannot be"),
        ('sensors = { points = [["x"]], fields = ["u"] }', "must be numbers"),
    ],
)
def test_what_a_file_says_wrongly_is_named_with_its_key(tmp_path, experiment, words):
    table(tmp_path)
    with pytest.raises(cf.InputError, match=words) as caught:
        read_study(written(tmp_path, experiment), MPI.COMM_SELF)
    assert "\n" not in str(caught.value)


def test_a_link_to_a_file_elsewhere_is_no_table_of_readings(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    table(outside)
    (inside / "readings.csv").symlink_to(outside / "readings.csv")
    with pytest.raises(StudyFileError, match="outside the study's folder"):
        read_study(written(inside, 'readings = "readings.csv"'), MPI.COMM_SELF)


@pytest.mark.parametrize(
    ("bottom", "words"),
    [
        ('[calibration]\nloss = "square"', "loss cannot be"),
        ("[calibration]\nbounds.lap = { low = 1, high = 0 }", "need low < high"),
        ("[calibration]\nstart = { lapp = 1 }", "no term 'lapp'"),
        ("[calibration]\nvisible = -1", "visible is a positive number"),
        ("[calibration]\nprior.lap = { mean = 1 }", "'deviation'"),
    ],
)
def test_wrong_settings_of_a_calibration_are_refused(tmp_path, bottom, words):
    table(tmp_path)
    path = written(tmp_path, 'readings = "readings.csv"', bottom=bottom)
    with pytest.raises(cf.InputError, match=words):
        read_study(path, MPI.COMM_SELF).run()


def test_uncertain_data_and_the_method_are_read(tmp_path):
    table(tmp_path)
    more = """readings = "readings.csv"
uncertain = [
  { field = "u", basis = { third = "sin(3*pi*x)" }, deviation = 0.5 },
  { field = "u", basis = { shift = "1 - x" }, on = "all" },
]"""
    settings = '[calibration]\nmethod = "tangent"'
    path = written(tmp_path, more, bottom=settings)
    study = read_study(path, MPI.COMM_SELF)
    first, second = next(iter(study.experiments.values())).uncertain
    assert first.labels == ("u at start: third",)
    assert (first.deviation, second.on) == (0.5, "all")
    assert study.calibration.method == "tangent"
    modes = 'readings = "readings.csv"\nuncertain = [{ field = "u", basis = 3 }]'
    study = read_study(written(tmp_path, modes), MPI.COMM_SELF)
    assert len(next(iter(study.experiments.values())).uncertain[0]) == 3
    wrong = 'readings = "readings.csv"\nuncertain = [{ field = "w", basis = 3 }]'
    with pytest.raises(StudyFileError, match="w"):
        read_study(written(tmp_path, wrong), MPI.COMM_SELF)
