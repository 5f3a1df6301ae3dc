"""Δχ² of a deletion in small samples, against a parametric bootstrap: readings are made by the
model without the term, again and again, and p-values must be as uniform as they say.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI
from scipy import stats

import cffem as cf
from cffem import x

u = cf.ScalarField("u")
TRUTH = {"lap": 0.08, "u": 0.4}
REPLICATES = 150


def world(scheme=None):
    library = cf.Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "u": u, "u_x": u.diff(x)})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 1 / 8),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) + sp.sin(2 * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1, steps=6, scheme=scheme),
    )
    return library, experiment


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.03, None])
def test_p_values_of_deletions_are_uniform_in_samples_of_nine_readings(noise):
    library, experiment = world()
    model = cf.Model(library, TRUTH, experiment)
    where = {"points": [0.2, 0.55, 0.8], "fields": [u], "times": [0.3, 0.65, 1.0]}
    clean = model.observation(cf.Sensors(**where)).values(model.factual)
    generator = np.random.default_rng(20)
    values, covered = [], 0
    for _ in range(REPLICATES):
        data = clean + 0.03 * generator.normal(size=len(clean))
        fit = cf.calibrate(
            library, experiment, (cf.Sensors(**where, noise=noise), data), start=TRUTH
        )
        values.append(fit.without("u_x").p_value)
        covered += fit.growth("lap", TRUTH["lap"]) <= fit.quantile**2
        fit.destroy()
    # Four standard deviations of a share of 5 % and 95 % in that many replicates.
    slack = 4 * np.sqrt(0.05 * 0.95 / REPLICATES)
    assert abs(np.mean(np.array(values) < 0.05) - 0.05) < slack
    assert abs(covered / REPLICATES - 0.95) < slack
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_a_profile_without_an_end_says_so():
    """A saturating decay: beyond some rate everything is gone before the first reading."""
    library, experiment = world("backward-euler")
    model = cf.Model(library, {"lap": 3.0}, experiment)
    sensors = cf.Sensors([0.4], [u], times=[0.5, 1.0], noise=0.1)
    data = model.observation(sensors).values(model.factual)
    fit = cf.calibrate(
        library,
        experiment,
        (sensors, data),
        start={"lap": 0.5},
        fixed={"u": 0.0, "u_x": 0.0},
        bounds={"lap": (0, None)},
    )
    profile = fit.profile("lap")
    assert not profile.bounded
    assert profile.interval[1] == np.inf
    assert 0 < profile.interval[0] < 3.0
    assert "above" in profile.reason
