# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A cavity half filled with glass
#
# How fast does a cavity ring that is half filled with glass of permittivity $\varepsilon = 2.25$?
# The equation $\varepsilon\,\partial_{tt}E = -\nabla\times\nabla\times E$ has a weight on its time
# derivative that jumps along cells, on Nédélec elements: a `cf.Known` by subdomain.

# +
import os

import numpy as np
import sympy as sp
from dolfinx import mesh
from mpi4py import MPI
from scipy.optimize import brentq

import cffem as cf
from cffem import curl, dot, dt, on, x

comm = MPI.COMM_WORLD
E, eps = cf.VectorField("E", dim=2), cf.Known("eps")
library = cf.Library(
    anchor=eps * dt(dt(E)), terms={"curl curl": -curl(curl(E)), "loss": on("glass", -dt(E))}
)
# -

# ## The exact mode
#
# $E = (0, f(x))$ with $f = \sin(n\omega x)$ in the glass and a multiple of $\sin(\omega(1-x))$ in
# the air, $n = 1.5$. Both meet with equal values and slopes at $x = 1/2$ where $n\cos(n\omega/2)
# \sin(\omega/2) + \sin(n\omega/2)\cos(\omega/2) = 0$.

# +
n = 1.5
omega = brentq(
    lambda w: n * np.cos(n * w / 2) * np.sin(w / 2) + np.sin(n * w / 2) * np.cos(w / 2), 2, 3
)
ratio = np.sin(n * omega / 2) / np.sin(omega / 2)
mode = sp.Piecewise((sp.sin(n * omega * x), x <= 0.5), (ratio * sp.sin(omega * (1 - x)), True))
quarter = np.pi / (2 * omega)
experiment = cf.Experiment(
    mesh=cf.mesh.named(
        mesh.create_rectangle(comm, [(0, 0), (1, 0.25)], (16, 4)),
        cells={"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9},
    ),
    elements={E: ("N1curl", 2)},
    initial={E: (0, mode), dt(E): (0, 0)},
    boundary=[cf.Tangential(E, 0)],
    time=cf.Window(0, quarter, steps=20),
    known={eps: {"glass": 2.25, "air": 1.0}},
)
coefficients = {"curl curl": 1.0, "loss": 0.05}
model = cf.Model(library, coefficients, experiment)
# -

# Without loss the mode swings as $\cos\omega t$ and is gone after a quarter of a period; what is
# left of it tells the frequency that the discretisation has.

# +
ringing = model.solve(cf.delete("loss"))
left, start = (
    model.measurement(cf.Integral(eps * dot((0, mode), E), at=time)).value(ringing)
    for time in (quarter, 0)
)
measured = float(np.arccos(left / start) / quarter)
if comm.rank == 0:
    print(f"frequency {measured:.6f}, exact {omega:.6f}; empty it would be {np.pi:.6f}")
assert abs(measured - omega) < 1e-3 * omega
# -

# ## Verdicts
#
# Within a quarter of a period a weak loss in the glass changes nothing that matters.

study = cf.Study(
    library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=2e-3)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["curl curl"].decision == "relevant"
assert report.terms["loss"].decision == "irrelevant"
