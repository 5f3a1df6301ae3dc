# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A cavity with three probes: what no sensor can tell
#
# Three antennas read the electric field in a cavity that rings down. The candidates are curl curl,
# a loss, a mass, and grad div, which vanishes on fields without divergence: whatever the antennas
# read, its coefficient stays unknown. A study must say so and not guess.

# +
import os
from pathlib import Path

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dt, grad, x, y

comm = MPI.COMM_WORLD
E = cf.VectorField("E", dim=2)
library = cf.Library(
    anchor=dt(dt(E)),
    terms={"curl curl": -curl(curl(E)), "loss": -dt(E), "grad div": grad(div(E)), "mass": -E},
)
modes = (
    sp.sin(sp.pi * y) + sp.cos(sp.pi * x) * sp.sin(2 * sp.pi * y),
    sp.sin(sp.pi * x) / 2 - sp.sin(sp.pi * x) * sp.cos(2 * sp.pi * y) / 2,
)
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=0.2),
    elements={E: ("N1curl", 2)},
    initial={E: modes, dt(E): (0, 0)},
    boundary=[cf.Tangential(E, 0, on="all")],
    time=cf.Window(0, 2, steps=20),
    constraint=cf.DivergenceFree(E),
)
# -

# ## Readings of three probes, with 5 % of noise

truth = {"curl curl": 1.0, "loss": 0.4}
generator = np.random.default_rng(11)
points = np.array([(0.2, 0.3), (0.55, 0.7), (0.8, 0.25)])
world = cf.Model(library, truth, experiment)
clean = world.observation(cf.Sensors(points, [E])).values(world.factual)
noise = 0.05 * float(np.sqrt(np.mean(clean**2)))
probes = cf.Sensors(points, [E], noise=noise)
readings = clean + noise * generator.normal(size=len(clean))

# ## The study
#
# Nothing is told about the coefficients but where to start.

study = cf.Study(
    library,
    experiment,
    data=(probes, readings),
    calibration=cf.CalibrationSettings(start={"curl curl": 0.95, "loss": 0.1}, profiles=False),
    certification=cf.Certification(epsilon=0.05, relative=True),
)
report = study.run(Path(os.environ.get("CFFEM_OUT", "out")))
if comm.rank == 0:
    print(report)

# Three probes are enough for the wave speed and the loss. grad div is a null column: it is not
# identified, not visible, and its verdict is that the constraint hides it.

fit = report.sections["calibration"]
for name, value in truth.items():
    low, high = fit["intervals"][name]
    assert low <= value <= high, name
assert report.terms["grad div"].decision == "constraint_null"
assert "grad div" in report.sections["sets"]["not_visible"]
assert set(report.sections["sets"]["needed"]) == set(truth)
assert report.sections["identifiability"]["sensitivity"]["deviations"]["grad div"] is None
