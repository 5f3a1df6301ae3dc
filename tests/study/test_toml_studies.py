"""A study as TOML is the study as Python, says what is wrong with it in one sentence, and
never runs code.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, result, timeless, written

import cffem as cf
from cffem import dt, lap, x
from cffem.cli import main
from cffem.engine.mesh.meshes import mesh_path
from cffem.study.toml.allowed import check_petsc_options
from cffem.study.toml.study_file import read_study
from cffem.symbols.errors import InputError


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """Pages are drawn in other tests; here they would be most of the work."""
    monkeypatch.setattr(
        "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
    )


def test_the_same_study_as_toml_and_as_python_gives_the_same_report(tmp_path):
    u = cf.ScalarField("u")
    library = cf.Library(
        anchor=dt(u), terms={"u": u, "u_x": u.diff(x), "lap": lap(u), "cubic": u**3}
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x) / 2},
        boundary=[cf.Dirichlet(u, 0, on="all")],
        time=cf.Window(0, 0.5, steps=8),
    )
    study = cf.Study(
        library,
        experiment,
        coefficients={"u": 0.6, "u_x": 0.3, "lap": 0.05},
        certification=cf.Certification(epsilon=1e-2, budget=1),
        observables={"mass": (cf.Integral(u), 1e-3)},
    )
    study.run(tmp_path / "python")
    assert main(["run", str(written(tmp_path)), "--out", str(tmp_path / "toml"), "--quiet"]) == 0
    assert result(tmp_path / "toml") == result(tmp_path / "python")


def test_a_script_may_leave_its_study_to_the_command(tmp_path, capsys):
    (tmp_path / "study.py").write_text(
        "from mpi4py import MPI\nfrom cffem.study.toml.study_file import read_study\n"
        f"study = read_study({str(written(tmp_path))!r}, MPI.COMM_SELF)\n"
    )
    assert main(["run", str(tmp_path / "study.py"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "report.json").exists()
    captured = capsys.readouterr()
    assert "lap" in captured.out
    assert "deletion: u_x" in captured.err


def test_the_plan_names_sizes_and_solves_without_running(tmp_path, capsys):
    path = written(tmp_path)
    arguments = [
        "run",
        str(path),
        "--out",
        str(tmp_path / "out"),
        "--dry-run",
        "--set",
        "experiments.1.time.steps=16",
    ]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "21 unknowns, 16 time steps" in text
    assert "deletions: 3 solves" in text
    assert "screening: skipped" in text
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_signals_end_a_run_that_can_be_resumed(name, tmp_path, capsys):
    path, out = written(tmp_path), tmp_path / "out"
    before = signal.getsignal(getattr(signal, name))

    def send():
        while not list(out.glob("checkpoint/facts/*.json")):
            pass
        os.kill(os.getpid(), getattr(signal, name))

    threading.Thread(target=send, daemon=True).start()
    assert main(["run", str(path), "--out", str(out), "--quiet"]) == 75
    assert f"stopped by {name}" in capsys.readouterr().err
    assert not (out / "report.json").exists()
    assert signal.getsignal(getattr(signal, name)) == before
    assert main(["run", str(path), "--out", str(out), "--quiet", "--resume"]) == 0


@pytest.mark.mpi
@pytest.mark.slow
def test_a_signal_to_one_rank_ends_all(tmp_path, mpirun):
    program = (
        "import os, signal, sys, threading, time\n"
        "from cffem.cli import main\n"
        "from mpi4py import MPI\n"
        "if MPI.COMM_WORLD.rank == 1:\n"
        "    threading.Timer(8, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    (tmp_path / "program.py").write_text(program)
    path = written(tmp_path)
    import sys

    more = ("--set", "experiments.1.time.steps=100000", "--quiet")
    done = mpirun(
        2,
        sys.executable,
        tmp_path / "program.py",
        "run",
        path,
        "--out",
        tmp_path / "out",
        *more,
        timeout=60,
    )
    assert done.returncode == 75, done.stdout
    assert "stopped by" in done.stdout


def test_quiet_is_quiet(tmp_path, capfd):
    assert main(["run", str(written(tmp_path)), "--out", str(tmp_path / "out"), "--quiet"]) == 0
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


# Everything a file can say
# --------------------------------------------------------------------------------------------------

FLOW = """
refit = "remaining"
seed = 3

[fields]
v = { vector = 2 }
p = "scalar"

[parameters]
nu = 0.1

[library]
anchor = "dt(v)"
[library.terms]
viscosity = "nu*lap(v)"
advection = "-dot(v, grad(v))"

[coefficients]
viscosity = 1
advection = 1

[[experiments]]
name = "ring"
mesh = { shipped = "annulus" }
elements = { v = ["Lagrange", 2], p = ["Lagrange", 1] }
initial = { v = ["-y", "x"] }
forcing = { v = "(0, 0)" }
time = { end = 0.1, steps = 2, scheme = "sdirk2" }
constraint = { type = "DivergenceFree", field = "v", multiplier = { p = ["Lagrange", 1] } }
[[experiments.boundary]]
type = "Dirichlet"
field = "v"
value = ["-y", "x"]
on = ["inner", "outer"]

[[candidates]]
name = "another ring"
mesh = { shape = "annulus", h = 0.4, inner = 0.3 }
elements = { v = ["Lagrange", 2], p = ["Lagrange", 1] }
initial = { v = [0, 0] }
boundary = [
    { type = "Dirichlet", field = "v[0]", value = 0 },
    { type = "Dirichlet", field = "v[1]", value = "sin(x)" },
]
time = { end = 0.1, steps = 2 }

[screening]
method = "subset"
largest = 4

[observables.torque]
type = "Energy"
expr = "v"
at = "window"
epsilon = 0.1

[petsc_options]
preset = "direct"
mat_mumps_icntl_14 = 80
"""


def test_everything_that_a_file_can_say_arrives_in_the_study(tmp_path):
    text = FLOW.replace(
        'elements = { v = ["Lagrange", 2], p = ["Lagrange", 1] }',
        'elements = { v = ["Lagrange", 2] }',
    )
    study = read_study(written(tmp_path, text), MPI.COMM_SELF)
    (experiment,) = study.experiments.values()
    v = next(iter(experiment.elements))
    assert list(study.experiments) == ["ring"]
    assert experiment.initial[v] == (-cf.y, cf.x)
    assert experiment.boundary[0].on == ("inner", "outer")
    assert experiment.time.scheme == "sdirk2"
    assert experiment.constraint.multiplier[1] == ("Lagrange", 1)
    assert study.candidates["another ring"].boundary[0].field == v[0]
    assert study.screening.method == "subset"
    assert study.screening.random_state == study.seed == 3
    assert study.refit == "remaining"
    assert study.observables["torque"][0].at == "window"
    assert study.petsc_options == {"preset": "direct", "mat_mumps_icntl_14": 80}
    assert dict(study.library.parameters) == {cf.Parameter("nu"): 0.1}


def test_measured_arrays_are_read_without_unpickling(tmp_path):
    grid, times = np.linspace(0, 1, 6), np.linspace(0, 1, 4)
    values = np.sin(np.pi * grid)[:, None] * np.exp(-times)
    np.savez(tmp_path / "data.npz", x=grid, t=times, u=values)
    lines = (
        '\ndata = { file = "data.npz", coordinates = { x = "x", t = "t" }, fields = { u = "u" } '
        "}\n[certification]"
    )
    text = TOML.replace("\n[certification]", lines).replace(
        'initial = { u = "sin(pi*x) + sin(2*pi*x)/2" }', ""
    )
    study = read_study(written(tmp_path, text), MPI.COMM_SELF)
    (data,) = study.data.values()
    assert np.array_equal(next(iter(data.values.values())), values)
    np.savez(tmp_path / "data.npz", x=grid, t=times, u=np.array([Trap()], dtype=object))
    with pytest.raises(InputError, match="data"):
        read_study(written(tmp_path, text), MPI.COMM_SELF)
    assert not Trap.sprung


HIGH = """
[fields]
u = "scalar"
psi_re = "scalar"
psi_im = "scalar"

[library]
anchor = "dt(u)"
[library.terms]
bend = "-lap(lap(u))"
third = "diff(u, x, x, x)"

[[experiments]]
mesh = { shape = "data", h = 0.5 }
elements = { u = ["Lagrange", 2] }
boundary = [{ type = "Dirichlet", field = "u" }, { type = "Dirichlet", field = "lap(u)" }]
time = { start = 0, end = 1, steps = 4 }
data.file = "data.npz"
data.coordinates = { x = "x", t = "t" }
data.fields = { u = "u", psi = "psi" }
data.period = { x = 6.0 }
"""


def test_files_offer_high_orders_periods_complex_data_and_meshes_of_the_data(tmp_path):
    grid, times = np.arange(1.0, 7.0, 0.25), np.linspace(0, 1, 5)
    values = np.sin(grid)[:, None] * np.exp(-times)
    np.savez(tmp_path / "data.npz", x=grid, lon=grid, t=times, u=values, psi=values * (1 + 2j))
    study = read_study(written(tmp_path, HIGH), MPI.COMM_SELF)
    (experiment,), (data,) = study.experiments.values(), study.data.values()
    assert [str(condition) for condition in experiment.boundary] == [
        "Dirichlet(u, 0, on=all)",
        "Dirichlet(lap(u), 0, on=all)",
    ]
    assert data.period == {cf.x: 6.0}
    assert np.array_equal(data.values[cf.ScalarField("psi_im")], 2 * values)
    places = experiment.mesh.mesh.geometry.x[:, 0]
    assert (places.min(), places.max()) == (1.0, 7.0)
    with pytest.raises(InputError, match="degrees"):
        read_study(written(tmp_path, HIGH.replace('x = "x", t', 'x = "lon", t')), MPI.COMM_SELF)
    without = "\n".join(line for line in HIGH.splitlines() if not line.startswith("data."))
    with pytest.raises(InputError, match="to follow the data"):
        read_study(written(tmp_path, without), MPI.COMM_SELF)


class Trap:
    """Would tell if somebody unpickled it."""

    sprung = False

    def __reduce__(self):
        return setattr, (Trap, "sprung", True)


# What is refused
# --------------------------------------------------------------------------------------------------

REFUSED = {
    "missing mesh": (
        'mesh = { shape = "interval", h = 0.1 }',
        'mesh = "nowhere.msh"',
        "nowhere.msh",
    ),
    "mesh of a script": (
        'mesh = { shape = "interval", h = 0.1 }',
        'mesh = "trap.msh"',
        "not a mesh",
    ),
    "path outside": (
        'mesh = { shape = "interval", h = 0.1 }',
        'mesh = "../../annulus.msh"',
        "outside the study's folder",
    ),
    "absolute path": (
        'mesh = { shape = "interval", h = 0.1 }',
        'mesh = "/etc/passwd"',
        "outside the study's folder",
    ),
    "link outside": (
        'mesh = { shape = "interval", h = 0.1 }',
        'mesh = "link.msh"',
        "outside the study's folder",
    ),
    "unknown shape": ('shape = "interval"', 'shape = "intervall"', "did you mean 'interval'"),
    "cells without end": ("h = 0.1", "h = 1e-9", "more than"),
    "physical name": ('on = "all"', 'on = "lefft"', "lefft"),
    "unknown field": ('field = "u"', 'field = "w"', "there is no field 'w'"),
    "unknown term": ("u_x = 0.3", "u_y = 0.3", "no term 'u_y'"),
    "unknown name in a term": ('cubic = "u**3"', 'cubic = "uu**3"', "library.terms.cubic"),
    "code in a term": (
        'cubic = "u**3"',
        "cubic = \"__import__('os').system('touch trap')\"",
        "library.terms.cubic",
    ),
    "huge term": ('cubic = "u**3"', 'cubic = "9**9**9*u"', "library.terms.cubic"),
    "element of another kind": ('["Lagrange", 2]', '["N1curl", 1]', "N1curl"),
    "element that is none": ('["Lagrange", 2]', '["Lagrangian", 2]', "Lagrangian"),
    "element too simple": ('["Lagrange", 2]', '"Lagrange"', "a family and a degree"),
    "initial data of another shape": (
        '"sin(pi*x) + sin(2*pi*x)/2"',
        '["x", "x"]',
        "initial value of u",
    ),
    "initial data of another dimension": ('"sin(pi*x) + sin(2*pi*x)/2"', '"sin(y)"', "dimension 1"),
    "initial data missing": (
        'initial = { u = "sin(pi*x) + sin(2*pi*x)/2" }',
        "",
        "initial value of u is missing",
    ),
    "tolerance": ("epsilon = 1e-2", "epsilon = 0", "positive"),
    "tolerance of an observable": ("epsilon = 1e-3", "epsilon = -1", "positive"),
    "steps without end": (
        "steps = 8",
        "steps = 10000000000",
        "experiments[1].time.steps must be a whole number",
    ),
    "wrong type": ("steps = 8", 'steps = "eight"', "must be a whole number"),
    "unknown key": (
        "epsilon = 1e-2",
        "epsilom = 1e-2",
        "certification.epsilom is not a key of a study; did you mean 'epsilon'",
    ),
    "experiment's table outside": (
        "[coefficients]",
        '[forcing]\nu = "1"\n[coefficients]',
        "or, as a table, [experiments.forcing]",
    ),
    "term without weak form": ('cubic = "u**3"', 'cubic = "diff(u, x, 6)**2"', "term 'cubic': "),
    "no table": ('[fields]\nu = "scalar"', "fields = 1", "fields must be a table"),
    "number without end": (
        "u_x = 0.3",
        f"u_x = 1{'0' * 400}",
        "a finite number, not a very large number",
    ),
    "digits without end": ("u_x = 0.3", f"u_x = 1{'0' * 5000}", "not TOML"),
    "initial data without end": (
        '"sin(pi*x) + sin(2*pi*x)/2"',
        f"1{'0' * 400}",
        "must be a number",
    ),
    "nested without end": (
        "[coefficients]",
        "a = " + "[" * 3000 + "\n[coefficients]",
        "nested too deeply",
    ),
    "a point that is none": (
        'type = "Integral"',
        'type = "PointAverage"\nradius = 0.1\npoint = 5',
        "one to three numbers",
    ),
    "not TOML": ("[coefficients]", "[coefficients", "not TOML"),
    "PETSc runs Python": (
        "[certification]",
        '[petsc_options]\npc_type = "python"\n[certification]',
        "pc_type cannot be 'python'",
    ),
    "PETSc writes files": (
        "[certification]",
        '[petsc_options]\nksp_view = ":x"\n[certification]',
        "'ksp_view' cannot be set",
    ),
    "PETSc loads a library": (
        "[certification]",
        '[petsc_options]\ndll_append = "x.so"\n[certification]',
        "cannot be set",
    ),
    "PETSc debugger": (
        "[certification]",
        "[petsc_options]\non_error_attach_debugger = 1\n[certification]",
        "cannot be set",
    ),
    "norm": ("budget = 1", 'budget = 1\nnorm = "L7"', "L7"),
    "no experiment": ("[[experiments]]", "[[experimnts]]", "experiments"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence_and_exit_code_2(case, tmp_path, capsys):
    old, new, expected = REFUSED[case]
    assert old in TOML
    folder = tmp_path / "outside" / "study"
    folder.mkdir(parents=True)
    shutil.copy(mesh_path("annulus"), tmp_path / "annulus.msh")
    (folder / "trap.msh").write_text('SystemCall "touch trap";\n')
    (folder / "link.msh").symlink_to(tmp_path / "annulus.msh")
    path = written(folder, TOML.replace(old, new, 1))
    assert main(["run", str(path), "--out", str(folder / "out"), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.startswith("cffem: ")
    assert message.count("\n") == 1
    assert "Traceback" not in message
    assert not list(tmp_path.rglob("trap"))


def test_paths_outside_are_read_when_allowed(tmp_path, capsys):
    folder = tmp_path / "study"
    folder.mkdir()
    shutil.copy(mesh_path("annulus"), tmp_path / "annulus.msh")
    text = TOML.replace('mesh = { shape = "interval", h = 0.1 }', 'mesh = "../annulus.msh"')
    arguments = ["run", str(written(folder, text)), "--out", str(folder / "out"), "--dry-run"]
    assert main(arguments) == 2
    assert main([*arguments, "--allow-path"]) == 0


def test_an_output_that_cannot_be_written_is_refused(tmp_path, capsys):
    path = written(tmp_path)
    assert main(["run", str(path), "--out", "/proc/cffem", "--quiet"]) == 2
    (tmp_path / "file").write_text("")
    assert main(["run", str(path), "--out", str(tmp_path / "file"), "--quiet"]) == 2
    assert capsys.readouterr().err.count("cannot be written") == 2


def test_debug_shows_the_traceback(tmp_path, capsys):
    path = written(tmp_path, TOML.replace("epsilon = 1e-2", "epsilon = -1"))
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_names_of_terms_are_text_also_when_they_look_like_markup(tmp_path):
    name = "<script>alert(1)</script>"
    text = TOML.replace("cubic =", f'"{name}" =').replace(
        "lap = 0.05", f'lap = 0.05\n"{name}" = 0.1'
    )
    study = read_study(written(tmp_path, text), MPI.COMM_SELF)
    assert name in study.library.names


def test_petsc_options_with_prefixes_are_looked_at_too():
    assert check_petsc_options({"sub_pc_type": "ilu", "fieldsplit_velocity_ksp_rtol": 1e-3})
    for name, value in {
        "sub_pc_type": "shell",
        "fieldsplit_0_ksp_type": "python",
        "ksp_rtol": "1e-3",
        "ksp_rtol ": 1,
    }.items():
        with pytest.raises(InputError, match="study file"):
            check_petsc_options({name: value})


def test_an_override_that_leads_nowhere_is_refused(tmp_path, capsys):
    path = str(written(tmp_path))
    for pair in ("steps", "experiments.7.time.steps=3", "title.a=1"):
        assert main(["run", path, "--out", str(tmp_path / "out"), "--set", pair]) == 2
    assert capsys.readouterr().err.count("--set") == 3


def test_facts_without_clocks_are_compared(tmp_path):
    assert timeless({"a": [{"seconds": 1, "b": 2}]}) == {"a": [{"b": 2}]}


def test_a_tolerance_may_be_relative(tmp_path):
    text = TOML.replace("[certification]", "[certification]\nrelative = true")
    assert read_study(written(tmp_path, text), MPI.COMM_SELF).certification.relative is True
    wrong = text.replace("relative = true", "relative = 0.5")
    with pytest.raises(InputError, match="relative"):
        read_study(written(tmp_path, wrong), MPI.COMM_SELF)
