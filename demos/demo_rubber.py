# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Rubber: a neo-Hookean block under a given traction
#
# Large deformations are written as in a textbook: $F = I + \nabla u$, $J = \det F$ and the first
# Piola–Kirchhoff stress $P = \mu\,(F - F^{-T}) + \lambda \ln J\,F^{-T}$. A block that slides on
# two sides is pulled by $P n = (g, 0)$ on the right, and free on top. It stretches uniformly, and
# the two stretches solve $P_{11} = g$, $P_{22} = 0$.

# +
import os

import numpy as np
import sympy as sp
from mpi4py import MPI
from scipy.optimize import fsolve

import cffem as cf
from cffem import det, div, grad, identity, inv, transpose

comm = MPI.COMM_WORLD
SHEAR, BULK, PULL = 1.0, 4.0, 0.8
u = cf.VectorField("u", dim=2)
F = identity(2) + grad(u)
back = transpose(inv(F))
library = cf.Library(
    terms={
        "shape": div(F - back),
        "volume": div(sp.log(det(F)) * back),
        "weight": cf.vector(0, -1),
    },
    unknown=u,
)
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=0.25),
    elements={u: ("Lagrange", 2)},
    boundary=[
        cf.Dirichlet(u[0], 0, on="left"),
        cf.Natural(u[1], 0, on="left"),
        cf.Dirichlet(u[1], 0, on="bottom"),
        cf.Natural(u[0], 0, on="bottom"),
        cf.Natural(u, (PULL, 0), on="right"),
        cf.Natural(u, 0, on="top"),
    ],
)
# -

# ## The stretches
#
# The traction is that of both terms together, so `Natural` gives it once.

# +
model = cf.Model(library, {"shape": SHEAR, "volume": BULK}, experiment)


def piola(stretch):
    along, across = stretch
    swelling = BULK * np.log(along * across)
    return [
        SHEAR * (along - 1 / along) + swelling / along - PULL,
        SHEAR * (across - 1 / across) + swelling / across,
    ]


exact = fsolve(piola, [1.2, 0.9], xtol=1e-13)
found = [
    1 + model.measurement(cf.Average(u[i], on=side)).value(model.factual)
    for i, side in enumerate(("right", "top"))
]
if comm.rank == 0:
    print(f"stretches {found[0]:.8f} and {found[1]:.8f}, exactly {exact[0]:.8f} and {exact[1]:.8f}")
assert np.allclose(found, exact, rtol=1e-8)
# -

# ## Verdicts
#
# Without its resistance to changes of volume the block stretches much further; its weight hardly
# matters.

study = cf.Study(
    library,
    experiment,
    coefficients={"shape": SHEAR, "volume": BULK, "weight": 1e-4},
    certification=cf.Certification(epsilon=0.01),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["volume"].decision == "relevant"
assert report.terms["weight"].decision == "irrelevant"
