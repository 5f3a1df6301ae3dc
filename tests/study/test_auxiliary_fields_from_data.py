"""Equations of third and fourth order from data of one field: auxiliary fields come from
their definitions.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, t, x
from cffem.study.run.auxiliary_fields import definitions

u, w = cf.ScalarField("u"), cf.ScalarField("w")
LENGTH, END = 16.0, 0.3


def two_solitons(place, time, first=1.3, second=0.8):
    """Two solitons of u_t = −6 u u_x − u_xxx, one overtaking the other, by Hirota's formula."""
    a = np.exp(2 * first * (place - 5 - 4 * first**2 * time))
    b = np.exp(2 * second * (place - 8 - 4 * second**2 * time))
    c = ((first - second) / (first + second)) ** 2 * a * b
    f = 1 + a + b + c
    slope = 2 * first * a + 2 * second * b + 2 * (first + second) * c
    bend = 4 * first**2 * a + 4 * second**2 * b + 4 * (first + second) ** 2 * c
    return 2 * (bend / f - (slope / f) ** 2)


def test_korteweg_de_vries_runs_from_data_to_a_report():
    library = cf.System(
        {
            u: cf.Library(dt(u), {"uux": u * u.diff(x), "uxxx": w.diff(x), "u": u}),
            w: cf.Library(w - u.diff(x, 2), {}, unknown=w),
        }
    )
    place, time = np.linspace(0, LENGTH, 321), np.linspace(0, END, 41)
    data = cf.Dataset.from_arrays(
        {x: place, t: time}, {u: two_solitons(place[:, None], time[None])}
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.25, length=LENGTH),
        elements={u: ("Lagrange", 2), w: ("Lagrange", 2)},
        time=cf.Window(0, END, steps=30),
    )
    report = cf.Study(
        library, experiment, data=data, certification=cf.Certification(epsilon=0.1, budget=1)
    ).run()
    assert report.terms["u/uux"].coefficient == pytest.approx(-6.0, rel=1e-2)
    assert report.terms["u/uxxx"].coefficient == pytest.approx(-1.0, rel=1e-2)
    assert not report.terms["u/u"].selected
    (found,) = report.sections["screening"]["misfit"].values()
    assert found["misfit"] < 0.05
    assert found["skill_persistence"] > 0.9
    assert report.terms["u/uxxx"].misfit > 3 * found["misfit"]
    assert report.sections["scope"]["observation"] == "measured values of u"


def test_definitions_are_followed_through_each_other():
    v = cf.ScalarField("v")
    library = cf.System(
        {
            u: cf.Library(dt(u), {"sixth": lap(v)}),
            w: cf.Library(2 * w - lap(u), {}, unknown=w),
            v: cf.Library(v - lap(w), {}, unknown=v),
        }
    )
    found = definitions(library)
    assert found[w] == lap(u) / 2
    assert not found[v].has(w)


def plainly(data, library, end, **others):
    mesh = cf.region_mesh(MPI.COMM_SELF, data, others.pop("h", 0.25))
    experiment = cf.Experiment(
        mesh=mesh, elements={u: ("Lagrange", 2)}, time=cf.Window(0, end, steps=30), **others
    )
    return cf.Study(
        library, experiment, data=data, certification=cf.Certification(epsilon=0.1, budget=1)
    ).run()


def test_third_derivatives_written_plainly_run_from_data_to_a_report():
    """Boundary values of u and of the auxiliary field, which nobody sees, come from the data."""
    library = cf.Library(dt(u), {"uux": u * u.diff(x), "uxxx": u.diff(x, 3), "u": u})
    place, time = np.linspace(0, LENGTH, 321), np.linspace(0, END, 41)
    data = cf.Dataset.from_arrays(
        {x: place, t: time}, {u: two_solitons(place[:, None], time[None])}
    )
    report = plainly(data, library, END)
    assert report.terms["uux"].coefficient == pytest.approx(-6.0, rel=1e-2)
    assert report.terms["uxxx"].coefficient == pytest.approx(-1.0, rel=1e-2)
    (found,) = report.sections["screening"]["misfit"].values()
    assert found["misfit"] < 0.05
    assert report.terms["uxxx"].misfit > 3 * found["misfit"]
    assert report.terms["uxxx"].deletion > 0.5
    first, *rest = str(report).splitlines()
    assert first.startswith("Screen: reliable")
    assert "deletion δ  misfit" in next(line for line in rest if line.startswith("term "))
    assert report.sections["scope"]["observation"] == "measured values of u"
