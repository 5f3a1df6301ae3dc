# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Slip on a wall, as a term that can be deleted
#
# A thin film of fluid flows down a wall under a body force. The wall does not hold the fluid, it
# brakes it: $\nu\,\partial v_x/\partial n = -\beta\,v_x$ (Navier's slip). `cf.on("bottom", -v)`
# is that friction as a term of the equation, acting on the wall only, so that one can ask what it
# does. At the free surface $\nu\,\partial v/\partial n - p\,n = 0$ for the tangential part.

# +
import os

import numpy as np
from mpi4py import MPI

import cffem as cf
from cffem import lap, vector

comm = MPI.COMM_WORLD
NU, FRICTION, FORCE = 0.1, 0.5, 1.0
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
library = cf.Library(
    terms={
        "viscosity": lap(v),
        "wall friction": cf.on("bottom", vector(-v[0], 0)),
        "air friction": cf.on("top", vector(-v[0], 0)),
    },
    unknown=v,
)
coefficients = {"viscosity": NU, "wall friction": FRICTION, "air friction": 1e-3}
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=0.2),
    elements={v: ("Lagrange", 2)},
    boundary=[
        cf.Dirichlet(v[1], 0, on="all"),
        cf.Natural(v[0], 0, on=("left", "right", "top", "bottom")),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    forcing={v: (FORCE, 0)},
)
# -

# The profile is known: $v_x = \frac f\nu (y - y^2/2) + \frac f\beta$. Its mean is
# $\frac{f}{3\nu} + \frac f\beta$, and the second part is the slip.

# +
model = cf.Model(library, {**coefficients, "air friction": 0.0}, experiment)
flow = model.measurement(cf.Average(v[0])).value(model.factual)
exact = FORCE / (3 * NU) + FORCE / FRICTION
if comm.rank == 0:
    print(f"mean velocity {flow:.8f}, exactly {exact:.8f}")
assert np.isclose(flow, exact, rtol=1e-8)
# -

# The same friction could be a condition, `cf.Natural(v[0], -FRICTION * v[0], on="bottom")`. Then it
# is part of the data, and no deletion touches it.

# +
wall = cf.Natural(v[0], -FRICTION * v[0], on="bottom")
as_data = cf.Model(
    library,
    {"viscosity": NU},
    cf.Experiment(
        mesh=experiment.mesh,
        elements=experiment.elements,
        boundary=[
            cf.Dirichlet(v[1], 0, on="all"),
            wall,
            cf.Natural(v[0], 0, on=("left", "right", "top")),
        ],
        constraint=experiment.constraint,
        forcing=experiment.forcing,
    ),
)
assert np.isclose(as_data.measurement(cf.Average(v[0])).value(as_data.factual), exact, rtol=1e-8)
study = cf.Study(
    library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=0.2)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
# -

# Without the friction of the wall nothing holds the fluid any more but the air, so that deletion is
# relevant by far; the friction of the air is not.

assert report.terms["air friction"].decision == "irrelevant"
assert report.terms["wall friction"].decision == "relevant"
