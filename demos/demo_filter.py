# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A filter in a channel: Brinkman's equation with subdomains
#
# The lower half of a channel is filled with a porous medium. Everywhere
# $0 = \mu\,\Delta v - \nabla p + f$, and in the medium the grains brake the fluid with
# $-\frac{\mu}{K} v$ (Brinkman). `cf.on("filter", -v)` is this drag, in the filter only. Pressure is
# the same at both ends, and a body force drives the flow.

# +
import os

import numpy as np
import sympy as sp
from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import lap

comm = MPI.COMM_WORLD
MU, DRAG, FORCE = 0.1, 40.0, 1.0
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
channel = cf.mesh.named(
    create_unit_square(comm, 8, 16),
    cells={"filter": lambda x: x[1] < 0.5 + 1e-9, "fluid": lambda x: x[1] > 0.5 - 1e-9},
    facets={
        "walls": lambda x: np.isclose(x[1] * (1 - x[1]), 0),
        "ends": lambda x: np.isclose(x[0] * (1 - x[0]), 0),
    },
)
library = cf.Library(
    terms={"viscosity": lap(v), "drag": cf.on("filter", -v), "rough fluid": cf.on("fluid", -v)},
    unknown=v,
)
coefficients = {"viscosity": MU, "drag": DRAG, "rough fluid": 1e-4}
experiment = cf.Experiment(
    mesh=channel,
    elements={v: ("Lagrange", 2)},
    boundary=[
        cf.Dirichlet(v, 0, on="walls"),
        cf.Dirichlet(v[1], 0, on="ends"),
        cf.Natural(v[0], 0, on="ends"),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    forcing={v: (FORCE, 0)},
)
# -

# The exact profile has an exponential layer in the filter and a parabola above; velocity and shear
# stress are continuous between them.

# +
y, a, b, c, d = sp.symbols("y a b c d")
rate = sp.sqrt(DRAG / MU)
inside = FORCE / DRAG + a * sp.exp(-rate * y) + b * sp.exp(rate * (y - sp.Rational(1, 2)))
above = -FORCE / (2 * MU) * y**2 + c * y + d
half = sp.Rational(1, 2)
constants = sp.solve(
    [
        inside.subs(y, 0),
        above.subs(y, 1),
        (inside - above).subs(y, half),
        (inside - above).diff(y).subs(y, half),
    ],
    (a, b, c, d),
)
flow = sp.integrate(inside, (y, 0, half)) + sp.integrate(above, (y, half, 1))
exact = float(flow.subs(constants))
model = cf.Model(library, {**coefficients, "rough fluid": 0.0}, experiment)
found = model.measurement(cf.Average(v[0])).value(model.factual)
if comm.rank == 0:
    print(f"flow rate {found:.7f}, exactly {exact:.7f}")
assert abs(found / exact - 1) < 2e-3
# -

study = cf.Study(
    library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=0.01)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["drag"].deletion > 0.1
assert report.terms["rough fluid"].decision == "irrelevant"
