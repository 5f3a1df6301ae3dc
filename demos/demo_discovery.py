# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Discovery from noisy data: from measurements to verdicts
#
# Somebody has measured a field on a grid, with noise, and proposes seven terms for its equation.
# Which of them do the data support, and which of those change the solution when they are deleted?
# The data here are made from a known equation,
#
# $$\partial_t u = 0.5\,u + 0.02\,\Delta u - 0.3\,\partial_x u ,$$
#
# so that we can see whether the answer is right; cffem is not told.

# +
import os

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, grad, lap, norm2, t, x, y

comm = MPI.COMM_WORLD
NOISE = 0.01
TRUE = {"u": 0.5, "lap": 0.02, "u_x": -0.3}
u = cf.ScalarField("u")
library = cf.Library(
    anchor=dt(u),
    terms={
        "u": u,
        "u2": u**2,
        "u_x": u.diff(x),
        "u_y": u.diff(y),
        "lap": lap(u),
        "grad2": norm2(grad(u)),
        "one": sp.Integer(1),
    },
)
# -

# ## The measurements
#
# A sum of decaying, drifting waves solves the equation exactly. It is sampled at 41 × 41 points and
# 61 times, and noise of one per cent of its standard deviation is added. Derivatives of such data
# are useless: noise divided by a small step is large. cffem moves the derivatives to smooth test
# functions instead, and corrects for the noise that is left.

# +
space, times = np.linspace(0, 1, 41), np.linspace(0, 1, 61)
X, Y, T = np.meshgrid(space, space, times, indexing="ij")
values = np.zeros_like(X)
for (k, m), size in {(1, 1): 1.0, (2, 1): 0.7, (1, 3): 0.5, (3, 2): 0.4}.items():
    rate = TRUE["u"] - TRUE["lap"] * np.pi**2 * (k**2 + m**2)
    values += (
        size * np.exp(rate * T) * np.cos(k * np.pi * (X + TRUE["u_x"] * T)) * np.cos(m * np.pi * Y)
    )
noise = NOISE * values.std() * np.random.default_rng(0).standard_normal(values.shape)
data = cf.Dataset.from_arrays({x: space, y: space, t: times}, {u: values + noise})
# -

# ## The study
#
# No coefficients are given, so the study identifies them: design, screening, refit with intervals.
# Then it solves the fitted model from the initial and boundary values of the data, compares it with
# the data, and deletes each selected term. The intervals of the coefficients widen the error bars
# of the verdicts.

# +
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=0.15), elements={u: ("Lagrange", 2)}, time=cf.Window(0, 1, steps=20)
)
study = cf.Study(
    library,
    experiment,
    data=data,
    screening=cf.Screening(method="subset"),
    certification=cf.Certification(epsilon=0.02, relative=True),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
    print("\n" + report.sections["screening"]["misfit"]["experiment 1"]["sentence"])

found = {name: report.terms[name].coefficient for name in report.sections["sets"]["fit"]}
# -

# The screen keeps the three true terms and nothing else, and their intervals contain the truth. The
# fitted model reproduces the data up to the noise, so nothing speaks for a missing term. Reaction
# and drift are relevant; their error bars are `estimated`, because they rest on estimated
# coefficients. Without diffusion the drift would have to reach boundary values at the outflow that
# it cannot have, the deleted problem is not resolved by any mesh of this size, and its verdict
# stays open.

assert set(found) == set(TRUE)
for name, interval in report.sections["screening"]["intervals"].items():
    if name in TRUE:
        assert interval[0] <= TRUE[name] <= interval[1], (name, interval)
        assert abs(found[name] - TRUE[name]) < 0.05 * abs(TRUE[name])
assert report.terms["u"].decision == report.terms["u_x"].decision == "relevant"
assert not report.sections["screening"]["misfit"]["experiment 1"]["missing_terms"]
