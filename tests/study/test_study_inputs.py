"""A study is checked when it is written: experiments, data, observables, and everything a
file can say about them.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, written

import cffem as cf
from cffem import dt, lap, t, x
from cffem.cli import main
from cffem.study.report.drawn_fields import Fields
from cffem.study.run.checkpoint import Checkpoint, OutputError
from cffem.study.run.stations.identifying import refitted_without
from cffem.study.toml.study_file import read_study
from cffem.symbols.errors import InputError

u = cf.ScalarField("u")
LIBRARY = cf.Library(anchor=dt(u), terms={"u": u, "lap": lap(u)})
GRID = {x: np.linspace(0, 1, 6), t: np.linspace(0, 1, 4)}
VALUES = np.sin(np.pi * GRID[x])[:, None] * np.exp(-GRID[t])


def experiment():
    given = {
        "elements": {u: ("Lagrange", 1)},
        "boundary": [cf.Dirichlet(u, 0)],
        "initial": {u: x},
        "time": cf.Window(0, 1, steps=1),
    }
    return cf.Experiment(mesh=cf.mesh.interval(MPI.COMM_SELF, 0.5), **given)


def study(library=LIBRARY, experiments=None, **options):
    return cf.Study(
        library,
        experiment() if experiments is None else experiments,
        **{"coefficients": {"lap": 1.0}, **options},
    )


DATA = cf.Dataset.from_arrays(GRID, {u: VALUES})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: study(library={"lap": lap(u)}), "needs a Library or a System, not dict"),
        (lambda: study(coefficients={"lap": 0.0}), "nothing to delete"),
        (lambda: study(coefficients=None), "known coefficients, or data"),
        (lambda: study(refit="all"), "refit is 'none' or 'remaining'"),
        (lambda: study(experiments=[]), "at least one experiment"),
        (lambda: study(experiments={"a": 3}), "'a' is not an Experiment but a int"),
        (lambda: study(experiments={"a/b": experiment()}), "printable text without '/'"),
        (lambda: study(data=[DATA, DATA]), "2 datasets but 1 experiments"),
        (lambda: study(data={"b": DATA}), "data for an experiment 'b'"),
        (lambda: study(data=[VALUES]), "neither a Dataset nor readings but a ndarray"),
        (
            lambda: study(observables={"mass": cf.Integral(u)}),
            "a pair of an observable and its tolerance",
        ),
        (lambda: study(observables={"mass": (cf.Integral(u), 0)}), "must be a positive number"),
    ],
)
def test_a_study_that_cannot_be_done_is_refused_when_it_is_written(make, message):
    with pytest.raises(InputError, match=message):
        make()


# Files
# --------------------------------------------------------------------------------------------------

REPLACED = {
    "a missing key": ("epsilon = 1e-3", "", "the key 'epsilon' of observables.mass is missing"),
    "a misspelt table": (
        "[fields]",
        "[feilds]",
        "the key 'fields' is missing; there is 'feilds', is it misspelt?",
    ),
    "text that is none": ('title = "Heat on an interval"', "title = 3", "title must be text"),
    "a flag that is none": ("budget = 1", "refine = 1", "must be true or false"),
    "a list that is none": (
        'title = "Heat on an interval"',
        "candidates = 3",
        "a list of at most 50 tables",
    ),
    "a field of no kind": ('u = "scalar"', 'u = "tensor"', '"scalar" or { vector = 2 }'),
    "no field": ('u = "scalar"', "", "at least one field"),
    "data that are not there": (
        '"sin(pi*x) + sin(2*pi*x)/2"',
        '"data"',
        "to come from data, but this experiment has none",
    ),
    "a file that is not there": (
        "[certification]",
        'data = { file = "a.npz", fields = { u = "u" } }\n[certification]',
        "no file a.npz",
    ),
    "data of no format": (
        "[certification]",
        'data = { file = "study.toml", fields = { u = "u" } }\n[certification]',
        "data are .npz, .nc, .nc4, .csv files",
    ),
    "data of no field": (
        "[certification]",
        'data = { file = "data.npz", fields = { w = "u" } }\n[certification]',
        "no field 'w'",
    ),
    "data without axes": (
        "[certification]",
        'data = { file = "data.npz", fields = { u = "u" } }\n[certification]',
        "coordinates are needed",
    ),
    "an array that is not there": (
        "[certification]",
        'data = { file = "data.npz", coordinates = { x = "x", t = "t" }, fields = { u = "w" } '
        "}\n[certification]",
        "no array 'w'; it has x, t, u",
    ),
    "an archive that is none": (
        "[certification]",
        'data = { file = "no.npz", fields = { u = "u" }, coordinates = { x = "x", t = "t" } }\n'
        "[certification]",
        "not an .npz archive",
    ),
    "netCDF that is none": (
        "[certification]",
        'data = { file = "no.nc", fields = { u = "u" } }\n[certification]',
        "no.nc is not a netCDF file",
    ),
}


@pytest.mark.parametrize("case", REPLACED)
def test_a_key_that_says_nothing_useful_is_named(case, tmp_path):
    old, new, message = REPLACED[case]
    assert old in TOML
    np.savez(tmp_path / "data.npz", x=GRID[x], t=GRID[t], u=VALUES)
    for name in ("no.npz", "no.nc"):
        (tmp_path / name).write_text("nothing")
    with pytest.raises(InputError, match=message):
        read_study(written(tmp_path, TOML.replace(old, new, 1)), MPI.COMM_SELF)


def test_files_that_are_no_text_or_too_long_are_refused(tmp_path):
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not text in UTF-8"):
        read_study(path, MPI.COMM_SELF)
    path.write_text("#" * 1_000_001)
    with pytest.raises(InputError, match="at most 1000000 bytes"):
        read_study(path, MPI.COMM_SELF)
    with pytest.raises(InputError, match="there is no file"):
        read_study(tmp_path, MPI.COMM_SELF)


def test_two_experiments_of_one_name_are_refused(tmp_path):
    block = TOML[TOML.index("[[experiments]]") : TOML.index("[certification]")]
    named = block.replace("[[experiments]]", '[[experiments]]\nname = "a"')
    with pytest.raises(InputError, match="two of the experiments are called 'a'"):
        read_study(written(tmp_path, TOML.replace(block, named + named)), MPI.COMM_SELF)


SYSTEM = """
[fields]
a = "scalar"
b = "scalar"
[libraries.a]
anchor = "dt(a)"
[libraries.a.terms]
lap = "lap(a)"
[libraries.b]
anchor = "dt(b)"
[libraries.b.terms]
a = "a"
lap = "lap(b)"
[coefficients]
"a/lap" = 0.1
"b/a" = 0.5
"b/lap" = 0.1
[[experiments]]
mesh = { shape = "square", h = 0.5 }
elements = { a = ["Lagrange", 1], b = ["Lagrange", 1] }
initial = { a = "x", b = 0 }
boundary = [
  { type = "Periodic", on = "right", to = "left" },
  { type = "Neumann", field = "a", on = ["top", "bottom"] },
  { type = "Robin", field = "b", coefficient = 2, on = ["top", "bottom"] },
]
time = { end = 1.0, steps = 2 }
[observables.front]
type = "Front"
expr = "a"
level = 0.5
width = 0.1
along = "x"
speed = true
epsilon = 0.1
[observables.flux]
type = "Flux"
expr = "grad(a)"
on = "top"
epsilon = 0.1
[observables.probe]
type = "PointAverage"
expr = "a"
point = [0.5, 0.5]
radius = 0.1
epsilon = 0.1
"""


def test_systems_periodic_conditions_and_observables_are_read(tmp_path):
    made = read_study(written(tmp_path, SYSTEM), MPI.COMM_SELF)
    assert made.library.names == ("a/lap", "b/a", "b/lap")
    (only,) = made.experiments.values()
    assert [type(condition).__name__ for condition in only.boundary] == [
        "Periodic",
        "Neumann",
        "Robin",
    ]
    front, flux, probe = (made.observables[name][0] for name in ("front", "flux", "probe"))
    assert (front.level, front.along, front.speed) == (0.5, x, True)
    assert flux.on == "top"
    assert probe.point == (0.5, 0.5)


@pytest.mark.parametrize(
    ("constraint", "kind"),
    [
        (
            '{ type = "Constraint", expr = "div(v) - x", multiplier = { p = ["Lagrange", 1] } }',
            "Constraint",
        ),
        (
            '{ type = "DivergenceFree", field = "v", weight = "1 + x**2", multiplier = { p = '
            '["Lagrange", 1] } }',
            "DivergenceFree",
        ),
    ],
)
def test_constraints_are_read(tmp_path, constraint, kind):
    text = f"""
[fields]
v = {{ vector = 2 }}
p = "scalar"
[library]
unknown = "v"
[library.terms]
lap = "lap(v)"
[coefficients]
lap = 1
[[experiments]]
mesh = {{ shape = "square", h = 0.5 }}
elements = {{ v = ["Lagrange", 2] }}
boundary = [{{ type = "Dirichlet", field = "v", value = [0, 0] }}]
constraint = {constraint}
"""
    made = read_study(written(tmp_path, text), MPI.COMM_SELF)
    (only,) = made.experiments.values()
    assert type(only.constraint).__name__ == kind
    assert only.time is None


@pytest.mark.parametrize("kind", ["csv", "nc", "points"])
def test_data_of_every_format_are_read_alike(tmp_path, kind):
    if kind == "csv":
        rows = [
            f"{a},{s},{float(VALUES[i, k])!r}"
            for i, a in enumerate(GRID[x])
            for k, s in enumerate(GRID[t])
        ]
        (tmp_path / "data.csv").write_text("x,t,u\n" + "\n".join(rows))
        entry = '{ file = "data.csv", fields = { u = "u" } }'
    elif kind == "nc":
        xarray = pytest.importorskip("xarray")
        stored = xarray.Dataset({"u": (("x", "t"), VALUES)}, {"x": GRID[x], "t": GRID[t]})
        stored.to_netcdf(tmp_path / "data.nc")
        entry = '{ file = "data.nc", fields = { u = "u" } }'
    else:
        np.savez(tmp_path / "data.npz", places=GRID[x][::-1, None], t=GRID[t], u=VALUES[::-1])
        entry = '{ file = "data.npz", points = "places", times = "t", fields = { u = "u" } }'
    text = TOML.replace("[certification]", f"data = {entry}\n[certification]").replace(
        '"sin(pi*x) + sin(2*pi*x)/2"', '"data"'
    )
    (data,) = read_study(written(tmp_path, text), MPI.COMM_SELF).data.values()
    (values,) = data.values.values()
    np.testing.assert_array_equal(values, VALUES)


# Folders
# --------------------------------------------------------------------------------------------------


def test_checkpoints_that_cannot_be_read_are_told(tmp_path):
    description = {"a": 1}
    Checkpoint(MPI.COMM_SELF, tmp_path, description).close(finished=False)
    stored = tmp_path / "checkpoint" / "study.json"
    (tmp_path / "checkpoint" / "facts" / "a.json").write_text("{")
    with pytest.raises(OutputError, match=r"is damaged .*; delete it and resume"):
        Checkpoint(MPI.COMM_SELF, tmp_path, description, resume=True)
    stored.write_text(json.dumps({"format": "another", "study": description}))
    with pytest.raises(OutputError, match=r"cannot be read .*; choose another folder"):
        Checkpoint(MPI.COMM_SELF, tmp_path, description, resume=True)


def test_a_report_that_cannot_be_read_is_told(tmp_path, capsys):
    (tmp_path / "report.json").mkdir()
    assert main(["report", str(tmp_path)]) == 2
    assert "report.json" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cells": np.zeros((1, 2), dtype=int)}, "simplices"),
        ({"cells": np.array([[0, 1, 9]])}, "a point that is not there"),
        ({"factual": {"u": np.zeros((2, 1))}}, "values at each point"),
    ],
)
def test_drawings_that_do_not_fit_together_are_refused(changes, message):
    given = {
        "axes": ("x", "y"),
        "points": np.zeros((3, 2)),
        "cells": np.array([[0, 1, 2]]),
        "time": None,
        "where": "",
        "factual": {"u": np.zeros((3, 1))},
        "deleted": {},
    }
    Fields(**given)
    with pytest.raises(ValueError, match=message):
        Fields(**{**given, **changes})


# Coefficients
# --------------------------------------------------------------------------------------------------


def test_without_a_term_the_others_are_refitted_on_the_data():
    A = np.random.default_rng(5).standard_normal((80, 4))
    y = A @ [1.0, 2.0, 0.0, -0.5]
    designs = {
        "u": cf.Design.from_matrix(A, y, ["a", "b", "c", "d"]),
        "w": cf.Design.from_matrix(A, y, ["e", "f", "g", "h"]),
    }
    screens = {
        "u": SimpleNamespace(support=["a", "b", "d"]),
        "w": SimpleNamespace(support=["e"]),
    }
    found = refitted_without(SimpleNamespace(designs=designs), screens, "b")
    expected = np.linalg.lstsq(A[:, [0, 3]], y, rcond=None)[0]
    assert found == {"a": pytest.approx(expected[0]), "d": pytest.approx(expected[1])}
