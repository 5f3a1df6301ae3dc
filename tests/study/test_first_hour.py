"""The mistakes of a first hour, made in a Python study: each is answered by one sentence,
exit code 2 and no traceback.
"""

from __future__ import annotations

import errno
import subprocess

import pytest

pytest.importorskip("dolfinx")

from study_support import TOML, command, written

import cffem as cf
from cffem.cli import main
from cffem.engine.time.wellposed import why_backward

SCRIPT = """
import cffem as cf, numpy as np, sympy as sp
from cffem import dt, lap, x, t
from mpi4py import MPI
u = cf.ScalarField("u")
library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u})
data = None
experiment = cf.Experiment(
    mesh=cf.mesh.interval(MPI.COMM_SELF, 0.2), boundary=[cf.Dirichlet(u, 0, on="all")],
    elements={u: ("Lagrange", 2)}, initial={u: sp.sin(sp.pi * x)}, time=cf.Window(0, 0.1, steps=2))
certification = cf.Certification(epsilon=1e-2)
coefficients = {"lap": 0.1, "u": 0.5}
study = cf.Study(library, experiment, coefficients=coefficients, certification=certification)
"""

MISTAKES = {
    "misspelt name of cffem": (
        "cf.Dirichlet",
        "cf.Dirchlet",
        "line 9: AttributeError: module 'cffem' has no attribute 'Dirchlet'",
    ),
    "misspelt name of Python": ("MPI.COMM_SELF", "MPI.COM_SELF", "line 9: AttributeError"),
    "not Python": ("data = None", "data = (", "SyntaxError"),
    "misspelt part of the boundary": (
        'on="all"',
        'on="lefft"',
        "its boundary parts are: left, right",
    ),
    "misspelt term": ('"u": 0.5', '"uu": 0.5', "no term 'uu'"),
    "misspelt element": ('"Lagrange"', '"Lagrang"', "did you mean 'Lagrange'?"),
    "degree of an element": ('("Lagrange", 2)', '("Lagrange", 0)', "those of DG with 0"),
    "element without gradient": ('("Lagrange", 2)', '("DG", 0)', "DG"),
    "missing condition": (
        '[cf.Dirichlet(u, 0, on="all")]',
        "[]",
        "nothing is said about u on the boundary part",
    ),
    "no tolerance": ("epsilon=1e-2", "epsilon=0", "epsilon must be a positive number"),
    "negative diffusion": (
        '"lap": 0.1',
        '"lap": -0.1',
        "(-0.1 lap): such an equation runs backward in time",
    ),
    "two anchors": ('"u": u}', '"u": dt(u)}', "equals the anchor"),
    "sum of anchors": ("anchor=dt(u)", "anchor=dt(u) + dt(dt(u))", "must be dt(u) or dt(dt(u))"),
    "unknown option": (
        "epsilon=1e-2",
        "epsilon=1e-2, relativ=True",
        "line 11: TypeError: Certification.__init__()",
    ),
    "data that are nowhere": (
        "data = None",
        "data = np.load('nowhere.npz')",
        "nowhere.npz: No such file",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_in_a_script_is_one_sentence_and_exit_code_2(case, tmp_path, capsys):
    old, new, expected = MISTAKES[case]
    assert old in SCRIPT
    study = tmp_path / "study.py"
    study.write_text(SCRIPT.replace(old, new, 1))
    assert main(["run", str(study), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.startswith("cffem: ")
    assert message.count("\n") == 1


def test_an_error_inside_what_a_script_calls_is_no_mistake_of_its_line(tmp_path, capsys):
    study = tmp_path / "study.py"
    study.write_text("import json\njson.dumps({1j: 0})\n")
    assert main(["run", str(study)]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_script_may_leave_and_its_exit_code_is_kept(tmp_path):
    study = tmp_path / "study.py"
    study.write_text("raise SystemExit\n")
    assert main(["run", str(study), "--out", str(tmp_path / "out")]) == 0
    study.write_text("raise SystemExit(3)\n")
    with pytest.raises(SystemExit) as left:
        main(["run", str(study), "--out", str(tmp_path / "out")])
    assert left.value.code == 3


def test_a_mistake_in_a_script_is_shown_whole_on_request(tmp_path, capsys):
    study = tmp_path / "study.py"
    study.write_text("import cffem\ncffem.nothing\n")
    assert main(["--debug", "run", str(study)]) == 2
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("lap = 0.05", "lap = -0.05", "runs backward in time"),
        ('anchor = "dt(u)"', 'anchor = "dt(u)"\nanchor = "u"', "a key is given twice"),
        ("u_x = 0.3", "u_xx = 0.3", "study.toml: there is no term 'u_xx'"),
        (
            "u_x = 0.3",
            "cubic = 500.0",
            "cannot be solved in 'experiment 1', before anything is deleted",
        ),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence_and_exit_code_2(old, new, expected, tmp_path, capsys):
    path = written(tmp_path, TOML.replace(old, new, 1))
    assert main(["run", str(path), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert message.count("\n") == 1


def test_missing_finite_elements_are_told_by_every_command(monkeypatch, capsys):
    def missing(options):
        raise ModuleNotFoundError("No module named 'mpi4py'", name="mpi4py")

    monkeypatch.setattr("cffem.cli.run_bench", missing)
    assert main(["bench", "sweep"]) == 2
    assert "needs DOLFINx with PETSc and MPI, and mpi4py is missing here" in capsys.readouterr().err


def test_another_missing_package_is_an_error_of_the_program(monkeypatch, capsys):
    def missing(options):
        raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

    monkeypatch.setattr("cffem.cli.run_bench", missing)
    assert main(["bench", "sweep"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_full_disk_is_told_while_printing():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("demo", "--list"), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert (
        done.stderr
        == "cffem: the output cannot be written: No space left on device; make room, or write to "
        "another disk\n"
    )


@pytest.mark.parametrize(
    "where", ["cffem.study.run.checkpoint.write_whole", "cffem.engine.solution.Solution.store"]
)
def test_a_full_disk_is_told_while_computing(where, tmp_path, capsys, monkeypatch):
    calls = []

    def full(*arguments, **options):
        calls.append(1)
        if len(calls) > 1 or "store" in where:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(where, full)
    assert main(["run", str(written(tmp_path)), "--out", str(tmp_path / "out"), "--quiet"]) == 2
    message = capsys.readouterr().err
    assert "No space left on device; make room and resume" in message
    assert message.count("\n") == 1


# Backward in time
# --------------------------------------------------------------------------------------------------

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v = cf.VectorField("v", dim=2)
x, y, dt, lap = cf.x, cf.y, cf.dt, cf.lap


def direction(anchor, terms, coefficients, constrained=False, **options):
    library = cf.Library(anchor=anchor, terms=terms, **options)
    return why_backward(library, coefficients, 2, constrained=constrained)


@pytest.mark.parametrize(
    ("anchor", "terms", "coefficients", "guilty"),
    [
        (dt(u), {"xx": u.diff(x, 2), "yy": u.diff(y, 2)}, {"xx": 1.0, "yy": -0.5}, "-0.5 yy"),
        (dt(u), {"xy": u.diff(x, y), "lap": lap(u)}, {"xy": 3.0, "lap": 1.0}, "3 xy"),
        (dt(dt(u)), {"lap": lap(u), "cubic": u**3}, {"lap": -1.0, "cubic": 1.0}, "-1 lap"),
        (
            dt(v),
            {"lap": lap(v), "carried": -cf.dot(v, cf.grad(v))},
            {"lap": -0.1, "carried": 1.0},
            "-0.1 lap",
        ),
        (dt(u), {"flux": cf.Parameter("k") * lap(u)}, {"flux": -1.0}, "-1 flux"),
        (dt(u), {"bilap": lap(lap(u)), "lap": lap(u)}, {"bilap": 0.1, "lap": 1.0}, "0.1 bilap"),
        (dt(dt(u)), {"lap": lap(u), "damp": lap(dt(u))}, {"lap": 1.0, "damp": -0.1}, "-0.1 damp"),
        (
            dt(v),
            {"rotation": -cf.curl(cf.curl(v)), "graddiv": cf.grad(cf.div(v))},
            {"rotation": 1.0, "graddiv": -1.0},
            "-1 graddiv",
        ),
    ],
)
def test_equations_that_run_backward_are_refused(anchor, terms, coefficients, guilty):
    options = {"parameters": {"k": 2.0}} if "flux" in terms else {}
    words = direction(anchor, terms, coefficients, **options)
    assert f"({guilty}): such an equation runs backward" in words


@pytest.mark.parametrize(
    ("anchor", "terms", "coefficients"),
    [
        (dt(u), {"lap": lap(u), "xx": u.diff(x, 2)}, {"lap": 1.0, "xx": -0.9}),
        (
            dt(u),
            {"lap": lap(u), "bilap": lap(lap(u))},
            {"lap": -1.0, "bilap": -1.0},
        ),  # Kuramoto–Sivashinsky
        (dt(u), {"porous": lap(u**2)}, {"porous": -1.0}),  # its sign is that of u
        (dt(u), {"u_x": u.diff(x)}, {"u_x": -1.0}),
        (dt(u), {"lap": lap(u)}, {"lap": 0.0}),
        # Damping of the finest ripples outweighs their growth.
        (dt(dt(u)), {"lap": lap(u), "damp": lap(dt(u))}, {"lap": -1.0, "damp": 0.1}),
        (dt(u), {"lap": lap(u), "rate": lap(dt(u))}, {"lap": -1.0, "rate": 0.1}),
    ],
)
def test_equations_that_may_run_forward_are_not(anchor, terms, coefficients):
    assert direction(anchor, terms, coefficients) == ""


def test_a_constraint_may_forbid_what_grows():
    terms = {"rotation": -cf.curl(cf.curl(v)), "graddiv": cf.grad(cf.div(v))}
    assert direction(dt(v), terms, {"rotation": 1.0, "graddiv": -1.0}, constrained=True) == ""


def test_steady_equations_have_no_direction_of_time():
    assert why_backward(cf.Library(terms={"lap": lap(u)}, unknown=u), {"lap": -1.0}, 2) == ""


@pytest.mark.parametrize(
    ("coefficients", "backward"),
    [
        ({"u/lap": -1.0, "w/lap": 1.0}, True),  # u + w
        ({"u/lap": 1.0, "w/lap": 1.0}, False),  # Schrödinger's equation
        ({"u/lap": 1.0, "u/own": 1.0, "w/lap": 0.5, "w/own": 1.0}, False),
        ({"u/own": 1.0, "w/own": -0.1}, True),
    ],
)
def test_equations_of_a_system_are_judged_together(coefficients, backward):
    both = cf.System(
        {
            "u": cf.Library(dt(u), {"lap": lap(w), "own": lap(u), "w": w}),
            "w": cf.Library(dt(w), {"lap": -lap(u), "own": lap(w), "u": u}),
        }
    )
    assert bool(why_backward(both, coefficients, 2)) == backward


def test_fields_without_a_rate_leave_the_direction_open():
    mixed = cf.System(
        {
            "u": cf.Library(dt(u), {"lap": -lap(u), "w": w}),
            "w": cf.Library(w - 2 * lap(u), {}, unknown=w),
        }
    )
    assert why_backward(mixed, {"u/lap": 1.0, "u/w": 1.0}, 2) == ""
