"""Every demo runs from the command line and leaves a whole report; its own assertions are the
test. Some run on two ranks too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import cffem.study.report.report
from cffem._resources import shared_folder
from cffem.scripts import demos

NAMES = list(demos())
# The heavier ones run with `-m slow`, and so do all on two ranks but the one that is run as a file.
HEAVY = (
    "aliasing",
    "antenna",
    "bay",
    "block",
    "boussinesq",
    "bump",
    "cantilever",
    "cavity",
    "coast",
    "convection",
    "currents",
    "cylinder",
    "discovery",
    "filter",
    "induction",
    "observables",
    "ocean",
    "rubber",
    "schnakenberg",
)
WITHOUT_STUDY = ("currents", "ocean", "thermometers")  # what they show they print
ON_RANKS = ("toml",)
SCHEMA = Path(cffem.study.report.report.__file__).with_name("report.schema.json")


def test_the_demos_are_there_and_have_titles():
    assert {
        "aliasing",
        "bump",
        "cavity",
        "cylinder",
        "discovery",
        "maxwell",
        "observables",
        "template",
        "thermometers",
        "toml",
    } <= set(NAMES)
    assert set(NAMES) >= {*HEAVY, *ON_RANKS}
    assert all(title and not title.startswith("demo_") for title in demos().values())
    listed = (shared_folder("demos") / "README.md").read_text()
    assert all(f"| `{name}` |" in listed for name in NAMES)


def slow_unless(wanted):
    return [name if wanted(name) else pytest.param(name, marks=pytest.mark.slow) for name in NAMES]


@pytest.mark.parametrize("name", slow_unless(lambda name: name not in HEAVY))
def test_demo_runs_and_its_report_holds_the_whole_reporting_contract(name, tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    command = [sys.executable, "-m", "cffem", "demo", name, "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.strip()
    if name in WITHOUT_STUDY:
        return
    jsonschema.validate(
        json.loads((tmp_path / "report.json").read_text()), json.loads(SCHEMA.read_text())
    )
    page = (tmp_path / "report.html").read_text()
    assert "could not be drawn" not in page
    assert "with and without" in page, "the fields are shown"
    first_page = shared_folder("demos").with_name("docs") / "start.md"
    if name == "maxwell" and first_page.is_file():
        check_table_of_the_first_page(first_page.read_text(), tmp_path)


def check_table_of_the_first_page(text, folder):
    """Coefficients, scores and margins of the first table that a user sees; other versions of
    gmsh make other meshes.
    """
    rows = re.findall(
        r"^    (curl curl|damping|Hall) +(\S+) +(\S+) +(\S+) +guaranteed +(\w+)$", text, re.M
    )
    terms = cffem.study.report.report.Report.read(folder).terms
    assert len(rows) == 3
    for name, *numbers, decision in rows:
        term = terms[name]
        assert [float(number) for number in numbers] == pytest.approx(
            [term.coefficient, term.deletion, term.margin], rel=0.1
        )
        assert term.decision == decision


@pytest.mark.mpi
@pytest.mark.parametrize("name", slow_unless(lambda name: name in ON_RANKS))
def test_demo_runs_on_two_ranks(name, tmp_path, mpirun):
    done = mpirun(
        2, sys.executable, "-m", "cffem", "demo", name, "--out", str(tmp_path), timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("recipe", ["docker.sh", "slurm.sh"])
def test_recipes_are_shell_scripts(recipe):
    subprocess.run(["bash", "-n", str(shared_folder("demos") / recipe)], check=True)
