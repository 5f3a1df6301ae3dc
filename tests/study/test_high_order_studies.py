"""Studies of terms of third and fourth order: the fields that split them are kept and
restored.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import resumed, timeless, written

from cffem.study.toml.study_file import read_study

TOML = """
[fields]
u = "scalar"

[library]
{anchor}
[library.terms]
{terms}

[coefficients]
{coefficients}

[[experiments]]
mesh = {{ shape = "interval", h = 0.1 }}
elements = {{ u = ["Lagrange", 2] }}
{conditions}

[certification]
epsilon = 5e-3
"""
RING = """boundary = [{ type = "Periodic", on = "right", to = "left" }]
initial = { u = "sin(2*pi*x)" }
time = { end = 0.1, steps = 4 }"""
CLOSED = """boundary = [{ type = "Neumann", field = "u", value = 0, on = "all" },
  { type = "Neumann", field = "lap(u)", value = 0, on = "all" }]
initial = { u = "cos(pi*x)/4" }
time = { end = 0.1, steps = 4, tolerance = 1e-3 }"""
HELD = """boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" },
  { type = "Dirichlet", field = "lap(u)", value = 0, on = "all" }]
forcing = { u = "1" }"""
STUDIES = {
    "Korteweg–de Vries": (
        'anchor = "dt(u)"',
        'uux = "-6*u*diff(u, x)"\nuxxx = "-diff(u, x, 3)"',
        "uux = 0.1\nuxxx = 1e-3",
        RING,
    ),
    "Cahn–Hilliard with one well": (
        'anchor = "dt(u)"',
        'chemical = "lap(u**3 + u)"\nbending = "-lap(lap(u))"',
        "chemical = 0.1\nbending = 1e-3",
        CLOSED,
    ),
    "beam": (
        'unknown = "u"',
        'bending = "-lap(lap(u))"\nu = "-u"',
        "bending = 1.0\nu = 10.0",
        HELD,
    ),
}


def study(name, folder):
    anchor, terms, coefficients, conditions = STUDIES[name]
    text = TOML.format(anchor=anchor, terms=terms, coefficients=coefficients, conditions=conditions)
    return read_study(written(folder, text), MPI.COMM_SELF)


@pytest.mark.parametrize("name", STUDIES)
def test_a_resumed_study_has_the_report_of_a_whole_one(name, tmp_path, monkeypatch):
    whole = study(name, tmp_path).run(out=tmp_path / "whole", quiet=True)
    for term in whole.terms.values():
        assert term.decision in ("relevant", "irrelevant")
        assert term.certificate == "estimated"
    again = resumed(lambda: study(name, tmp_path), tmp_path / "part", monkeypatch)
    first, second = (timeless(json.loads(each.to_json())) for each in (whole, again))
    assert first == second
