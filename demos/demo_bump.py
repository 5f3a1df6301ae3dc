# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Behind a bump: a flow from ten velocity readings, pressure never seen
#
# Water flows steadily through a channel past a cylinder. Ten small probes read its velocity with
# 2 % of noise; nobody measures the pressure. How viscous is the water, does the bed brake it, and
# does the Earth's rotation matter? Regression would need the whole field and the pressure. Here the
# flow is solved for trial coefficients, the pressure with it, and compared with the probes.

# +
import os
from pathlib import Path

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dot, grad, lap, y

comm = MPI.COMM_WORLD
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
library = cf.Library(
    terms={
        "viscosity": lap(v),
        "convection": -dot(v, grad(v)),
        "friction": -v,
        "Coriolis": cf.vector(v[1], -v[0]),
    },
    unknown=v,
)
width = sp.Rational(41, 100)
inflow = (4 * y * (width - y) / width**2 * 3 / 10, 0)
experiment = cf.Experiment(
    mesh=cf.mesh.channel(comm, h=0.12),
    elements={v: ("Lagrange", 2), p: ("Lagrange", 1)},
    boundary=[
        cf.Dirichlet(v, inflow, on="inlet"),
        cf.Dirichlet(v, (0, 0), on="walls"),
        cf.Dirichlet(v, (0, 0), on="cylinder"),
        cf.Neumann(v, (0, 0), on="outlet"),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
)
# -

# ## Readings
#
# A hidden truth plays the river: viscous, braked by its bed, without rotation.

truth = {"viscosity": 2e-3, "convection": 1.0, "friction": 0.2}
generator = np.random.default_rng(3)
points = generator.uniform((0.35, 0.06), (1.8, 0.35), (10, 2))
world = cf.Model(library, truth, experiment)
clean = world.observation(cf.Sensors(points, [v])).values(world.factual)
noise = 0.02 * float(np.sqrt(np.mean(clean**2)))
probes = cf.Sensors(points, [v], noise=noise)
readings = clean + noise * generator.normal(size=len(clean))

# ## What velocities can tell at all
#
# A steady equation without forcing is the same equation when all of its coefficients are doubled:
# velocities fix ratios only, whatever the sensors. The sensitivities find that by themselves.

design = world.sensitivities(probes)
if comm.rank == 0:
    for group in design.alias_groups():
        print(group)

# So one coefficient must be known: convection has the coefficient one in physical units.

# ## The study

folder = Path(os.environ.get("CFFEM_OUT", "out"))
study = cf.Study(
    library,
    experiment,
    data=(probes, readings),
    calibration=cf.CalibrationSettings(
        start={"viscosity": 3e-3, "friction": 0.1}, fixed={"convection": 1.0}, profiles=False
    ),
    certification=cf.Certification(epsilon=0.02, relative=True),
)
report = study.run(folder)
if comm.rank == 0:
    print(report)

# The intervals hold the truth, and the data need the viscosity and the friction of the bed.
# Rotation is not needed: what a gradient does, the pressure takes up, and the rest is small.

fit = report.sections["calibration"]
for name in ("viscosity", "friction"):
    low, high = fit["intervals"][name]
    assert low <= truth[name] <= high, name
assert any(group.name == "scale" for group in design.alias_groups())
assert "viscosity" in report.sections["sets"]["needed"]
assert "Coriolis" not in report.sections["sets"]["needed"]
