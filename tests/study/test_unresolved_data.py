"""Data that support no model: the study abstains and says so, instead of failing or guessing."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI

import cffem as cf
from cffem import t, x, y

u = cf.ScalarField("u")


def test_noise_is_unresolved_and_land_stays_out():
    """Pure noise beside a coast: no term is selected, every verdict is unresolved, and the
    skill is that of the mean.
    """
    axes = {x: np.linspace(0, 2, 33), y: np.linspace(0, 1, 25), t: np.linspace(0, 1, 25)}
    values = np.random.default_rng(0).standard_normal((33, 25, 25))
    values[:7, :5] = np.nan
    data = cf.Dataset.from_arrays(axes, {u: values})
    library = cf.Library(
        anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "lap": cf.lap(u), "1": 1}
    )
    experiment = cf.Experiment(
        mesh=cf.region_mesh(MPI.COMM_SELF, data, 0.25),
        elements={u: ("Lagrange", 1)},
        time=cf.Window(0, 1, steps=4),
    )
    report = cf.Study(library, experiment, data=data).run()
    assert {term.decision for term in report.terms.values()} == {"unresolved"}
    assert not any(term.selected for term in report.terms.values())
    skill = report.sections["screening"]["skill"]
    assert skill["skill"] == 0.0
    assert skill["rmse"] == skill["mean_predictor"]
