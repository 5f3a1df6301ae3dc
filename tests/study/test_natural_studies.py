"""Studies with natural laws and stresses: TOML, error bars, checkpoints, and what does not change
the verdict.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx.mesh import create_rectangle
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x, y
from cffem.study.toml.study_file import StudyFileError, read_study

u = cf.ScalarField("u")
TOML = """
title = "a window"
[fields]
u = "scalar"
[parameters]
h = 0.8
[library]
anchor = "dt(u)"
[library.terms]
diffusion = "lap(u)"
decay = "-u"
[coefficients]
diffusion = 0.3
decay = 0.2
[[experiments]]
mesh = { shape = "square", h = 0.25 }
elements = { u = ["Lagrange", 1] }
initial = { u = "1 + x*y" }
boundary = [
  { type = "Natural", field = "u", value = "-h*(u - 2)", on = "right" },
  { type = "Natural", field = "u", value = 0, on = ["left", "top", "bottom"] },
]
time = { end = 0.4, steps = 4 }
[certification]
epsilon = 0.01
"""


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    """Pages are drawn in other tests; here they would be most of the work."""
    monkeypatch.setattr(
        "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
    )


def grid(comm, size):
    """A regular mesh of a square of this size."""
    sides = {"left": (0, 0), "right": (0, size), "bottom": (1, 0), "top": (1, size)}
    return cf.mesh.named(
        create_rectangle(comm, ((0, 0), (size, size)), (4, 4)),
        facets={
            name: lambda p, axis=axis, at=at: np.isclose(p[axis], at, atol=1e-9 * size)
            for name, (axis, at) in sides.items()
        },
    )


def window(law=-0.8 * (u - 2), unit=None, terms=None, coefficients=None, comm=MPI.COMM_SELF):
    """The same study in Python, or on a regular mesh with lengths and times in other units."""
    size = 1.0 if unit is None else unit
    terms = terms or {"diffusion": lap(u), "decay": -u}
    given = coefficients or {"diffusion": 0.3 * size, "decay": 0.2 / size}
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, h=0.25) if unit is None else grid(comm, size),
        elements={u: ("Lagrange", 1)},
        initial={u: 1 + x * y / size**2},
        boundary=[
            cf.Natural(u, law, on="right"),
            cf.Natural(u, 0, on=("left", "top", "bottom")),
        ],
        time=cf.Window(0, 0.4 * size, steps=4),
    )
    return cf.Study(
        cf.Library(anchor=dt(u), terms=terms),
        experiment,
        coefficients=given,
        certification=cf.Certification(epsilon=0.01 * size**1.5),
    )


def test_a_law_in_toml_is_the_law_in_python(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    study = read_study(tmp_path / "study.toml", MPI.COMM_SELF)
    found = study.run(tmp_path / "toml")
    report = window().run(tmp_path / "python")
    for name, term in report.terms.items():
        assert found.terms[name].deletion == pytest.approx(term.deletion, rel=1e-9)
        assert found.terms[name].decision == term.decision == "relevant"
        assert term.certificate == "estimated"
    assert "the natural trace of u on right is released" in report.terms["diffusion"].conditions
    plain = json.loads((tmp_path / "python" / "report.json").read_text())
    assert "Natural(u, 1.6 - 0.8*u, on=right)" in str(plain["scope"])
    with pytest.raises(cf.InputError, match="another study"):
        window(law=-0.7 * (u - 2)).run(tmp_path / "python", resume=True)


@pytest.mark.parametrize(
    "wrong", ['"-h*(w - 2)"', '"-k*u"', '["u", 1]'], ids=["field", "parameter", "shape"]
)
def test_bad_laws_in_toml_name_the_key(tmp_path, wrong):
    (tmp_path / "study.toml").write_text(TOML.replace('"-h*(u - 2)"', wrong))
    with pytest.raises(StudyFileError, match="experiments") as caught:
        read_study(tmp_path / "study.toml", MPI.COMM_SELF)
    assert "\n" not in str(caught.value)


def scores(study):
    return {name: deletion.score for name, deletion in model_of(study).deletions().items()}


def model_of(study):
    (experiment,) = study.experiments.values()
    return cf.Model(study.library, study.coefficients, experiment)


def test_the_order_and_the_halves_of_terms_do_not_matter():
    whole = scores(window())
    turned = scores(window(terms={"decay": -u, "diffusion": lap(u)}))
    assert turned == pytest.approx(whole, rel=1e-9)
    halves = window(
        terms={"diffusion": lap(u), "decay": -u, "more": div((1 + x) * grad(u)) - u.diff(x)},
        coefficients={"diffusion": 0.3, "decay": 0.2, "more": 0.0},
    )
    assert scores(halves)["decay"] == pytest.approx(whole["decay"], rel=1e-9)
    split = window(
        terms={"xx": u.diff(x, 2), "yy": u.diff(y, 2), "decay": -u},
        coefficients={"xx": 0.3, "yy": 0.3, "decay": 0.2},
    )
    assert scores(split)["decay"] == pytest.approx(whole["decay"], rel=1e-9)


@pytest.mark.parametrize("size", [1e-6, 1e4])
def test_units_do_not_matter(size):
    """The flux k ∂u/∂n is a velocity times u, whose number is the same in all of these units."""
    plain, scaled = scores(window(unit=1.0)), scores(window(unit=size))
    for name, score in plain.items():
        assert scaled[name] == pytest.approx(score * size**1.5, rel=1e-6)


def test_natural_equals_neumann_with_the_coefficient():
    flux = sp.cos(y)
    natural = window(law=0.3 * flux)
    (experiment,) = natural.experiments.values()
    boundary = [cf.Neumann(u, flux, on="right"), cf.Neumann(u, 0, on=("left", "top", "bottom"))]
    neumann = cf.Model(
        natural.library,
        natural.coefficients,
        cf.Experiment(
            mesh=experiment.mesh,
            elements=experiment.elements,
            initial=experiment.initial,
            boundary=boundary,
            time=experiment.time,
        ),
    )
    found = neumann.deletions(["decay"])["decay"].score
    assert scores(natural)["decay"] == pytest.approx(found, rel=1e-9)
