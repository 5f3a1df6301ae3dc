# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # An antenna before a block of glass
#
# A sheet of current sends a pulse to both sides. What goes left meets a wall that absorbs it, what
# goes right enters a block of glass, $\varepsilon = 2.25$. Current, wall and glass are parts of one
# mesh: the current is a term in the subdomain `antenna`, the wall is $-\oint \partial_t
# E_{tan}\cdot v$, a term on the boundary, and the glass is the weight of $\partial_{tt} E$.

# +
import os

import numpy as np
import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import curl, dot, dt, n, on, t

comm = MPI.COMM_WORLD
E, eps = cf.VectorField("E", dim=2), cf.Known("eps")
pulse = sp.exp(-(((t - sp.Rational(2, 5)) / sp.Rational(1, 8)) ** 2))
rate = dt(E)
library = cf.Library(
    anchor=eps * dt(dt(E)),
    terms={
        "curl curl": -curl(curl(E)),
        "current": on("antenna", (0, pulse.diff(t))),
        "wall": on("wall", -(rate - dot(rate, n) * n)),
    },
)
strip = cf.mesh.named(
    mesh.create_rectangle(comm, [(0, 0), (2.5, 0.25)], (40, 2)),
    cells={
        "left": lambda p: p[0] < 0.5 + 1e-9,
        "antenna": lambda p: (p[0] > 0.5 - 1e-9) & (p[0] < 0.625 + 1e-9),
        "right": lambda p: (p[0] > 0.625 - 1e-9) & (p[0] < 1.25 + 1e-9),
        "glass": lambda p: p[0] > 1.25 - 1e-9,
    },
    facets={"wall": lambda p: p[0] < 1e-9, "end": lambda p: p[0] > 2.5 - 1e-9},
)
experiment = cf.Experiment(
    mesh=strip,
    elements={E: ("N1curl", 2)},
    initial={E: (0, 0), dt(E): (0, 0)},
    boundary=[cf.Neumann(E, 0, on=("wall", "end")), cf.Tangential(E, 0, on="untagged")],
    time=cf.Window(0, 2.0, steps=100),
    known={eps: {"left": 1, "antenna": 1, "right": 1, "glass": 2.25}},
)
coefficients = {"curl curl": 1.0, "current": 1.0, "wall": 1.0}
model = cf.Model(library, coefficients, experiment)
# -

# ## Fresnel's coefficients
#
# The sheet of width 1/8 sends $\frac12\int F(t - s)\,ds$ to each side, $F$ being the pulse. At the
# glass with $n = 1.5$ the fraction $1 - (\frac{n-1}{n+1})^2 = 0.96$ of the energy goes on, and
# the reflected rest is absorbed by the wall, too, if it is as good as it should be.

# +
s = np.linspace(-2, 2, 4001)
sheet = np.linspace(0, 0.125, 101)
sent = 0.5 * 0.125 * np.exp(-(((s[:, None] - sheet) / 0.125) ** 2)).mean(axis=1)
expected = 0.96 * np.sum(sent**2) * (s[1] - s[0]) * 0.25  # the strip is 0.25 wide
energy = cf.Integral(eps * dot(E, E), on="glass", at="end")
inside = model.measurement(energy).value(model.factual)
if comm.rank == 0:
    print(f"energy in the glass {inside:.6e}, by Fresnel {expected:.6e}")
assert abs(inside - expected) < 0.01 * expected
# -

# ## Verdicts
#
# Everything matters here: without the wall the pulse that went left comes back from a mirror.

study = cf.Study(
    library,
    experiment,
    coefficients=coefficients,
    certification=cf.Certification(epsilon=5e-3),
    observables={"energy in the glass": (energy, 1e-4)},
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["wall"].decision == report.terms["current"].decision == "relevant"
