# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Heat loss by radiation: a boundary term that can be deleted
#
# A heated wall loses heat through its right face, by radiation, $u^4 - 1$ in units of the
# surroundings, and by air that hardly moves. Both are terms on a part of the boundary: in the weak
# form `cf.on("right", expr)` is $\oint_{right} expr\,v\,ds$.

# +
import os

import numpy as np
from mpi4py import MPI
from scipy.optimize import brentq

import cffem as cf
from cffem import lap, on

u = cf.ScalarField("u")
library = cf.Library(
    terms={"conduction": lap(u), "radiation": on("right", 1 - u**4), "air": on("right", 1 - u)},
    unknown=u,
)
coefficients = {"conduction": 1.0, "radiation": 0.5, "air": 2e-3}
experiment = cf.Experiment(
    mesh=cf.mesh.interval(MPI.COMM_WORLD, h=0.1),
    elements={u: ("Lagrange", 2)},
    initial={u: 1},
    boundary=[cf.Neumann(u, 0)],
    forcing={u: 1},
)
# -

# ## The exact solution
#
# All heat that is made inside leaves through the face: $0.5\,(u_1^4 - 1) + 0.002\,(u_1 - 1) = 1$
# gives its temperature $u_1$, and $u = u_1 + (1 - x^2)/2$.

model = cf.Model(library, coefficients, experiment)
face = brentq(lambda s: 0.5 * (s**4 - 1) + 2e-3 * (s - 1) - 1, 1, 2)
found = model.measurement(cf.Integral(u, on="right")).value(model.factual)
mean = model.measurement(cf.Integral(u)).value(model.factual)
if MPI.COMM_WORLD.rank == 0:
    print(f"temperature of the face: {found:.8f}, exact {face:.8f}")
assert np.isclose(found, face, rtol=1e-9)
assert np.isclose(mean, face + 1 / 3, rtol=1e-9)

# ## Verdicts
#
# Without radiation all heat must leave through the air, and the wall is at 501; without the air
# nothing happens. Without conduction the heat cannot reach the face: there is no solution, but
# without an eighth of it the change is above the tolerance already.

study = cf.Study(
    library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=1e-2)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if MPI.COMM_WORLD.rank == 0:
    print(report)
assert report.terms["radiation"].decision == "relevant"
assert report.terms["air"].decision == "irrelevant"
