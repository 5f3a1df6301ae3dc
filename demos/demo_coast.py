# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A seiche in a basin with a rough coast
#
# Water in a closed basin swings to and fro. With depth and gravity one, the shallow-water equations
# are $\partial_t v = -\nabla\eta$, $\partial_t\eta = -\nabla\cdot v$. Near the coast the bottom is
# rough and brakes: `cf.on("coast", -v)` is a drag in that subdomain only, and far out there may be
# a weaker one.

# +
import os

import numpy as np
import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, on, x

comm = MPI.COMM_WORLD
v, eta = cf.VectorField("v", dim=2), cf.ScalarField("eta")
system = cf.System(
    {
        "v": cf.Library(
            anchor=dt(v),
            terms={
                "slope": -grad(eta),
                "coastal drag": on("coast", -v),
                "drag at sea": on("sea", -v),
            },
        ),
        "eta": cf.Library(anchor=dt(eta), terms={"outflow": -div(v)}),
    }
)
basin = cf.mesh.named(
    mesh.create_rectangle(comm, [(0, 0), (1, 0.25)], (24, 6)),
    cells={"coast": lambda p: p[0] < 0.25 + 1e-9, "sea": lambda p: p[0] > 0.25 - 1e-9},
)
experiment = cf.Experiment(
    mesh=basin,
    elements={v: ("RT", 1), eta: ("DG", 0)},
    initial={v: (0, 0), eta: sp.cos(sp.pi * x)},
    boundary=[cf.Dirichlet(v, (0, 0))],
    time=cf.Window(0, 2, steps=60, scheme="midpoint"),
)
coefficients = {"v/slope": 1.0, "v/coastal drag": 0.5, "v/drag at sea": 1e-4, "eta/outflow": 1.0}
model = cf.Model(system, coefficients, experiment)
# -

# ## Merian's formula
#
# Without drag the basin of length $L = 1$ swings with the period $2L/\sqrt{gH} = 2$ (Merian 1828):
# after one period the surface is what it was, and after half a period its mirror image.

# +
free = model.solve(cf.delete("v/coastal drag", "v/drag at sea"))
along = {
    time: model.measurement(cf.Integral(sp.cos(sp.pi * x) * eta, at=time)).value(free)
    for time in (0, 1, 2)
}
if comm.rank == 0:
    print(f"after half a period {along[1] / along[0]:+.5f}, after one {along[2] / along[0]:+.5f}")
assert np.isclose(along[1], -along[0], rtol=5e-3)
assert np.isclose(along[2], along[0], rtol=5e-3)
# -

# ## Verdicts
#
# Each field is judged against its own norm. The drag at the coast damps the swinging, the one at
# sea is too weak.

study = cf.Study(
    system, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=1e-2)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["v/coastal drag"].decision == "relevant"
assert report.terms["v/drag at sea"].decision == "irrelevant"
