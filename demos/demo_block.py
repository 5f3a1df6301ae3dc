# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A nearly incompressible block, without locking
#
# With $\lambda/\mu = 10^6$ displacements alone are far too stiff. The mixed form has a pressure
# of its own: $\sigma = 2\mu\,\varepsilon(w) - p I$ and $\nabla\cdot w + p/\lambda = 0$. A block
# is glued between two plates and pressed on the left, $\sigma n = -q\,n$; on the right it is
# free. In the limit its shape is a parabola, $w_x = \frac{q}{2\mu}\,y\,(1-y)$, and the pressure
# falls along it.

# +
import os

import numpy as np
from mpi4py import MPI

import cffem as cf
from cffem import div, grad, identity, n, sym

comm = MPI.COMM_WORLD
MU, LAMBDA, PRESSURE = 1.0, 1e6, 0.2
w, p = cf.VectorField("w", dim=2), cf.ScalarField("p")
mesh = cf.mesh.square(comm, h=0.125)
boundary = [
    cf.Dirichlet(w, 0, on=("top", "bottom")),
    cf.Dirichlet(w[1], 0, on=("left", "right")),
    cf.Natural(w[0], -PRESSURE * n[0], on="left"),
    cf.Natural(w[0], 0, on="right"),
]
system = cf.System(
    {
        w: cf.Library(
            terms={"stress": div(2 * sym(grad(w)) - p * identity(2)), "weight": cf.vector(1, 0)},
            unknown=w,
        ),
        p: cf.Library(terms={"volume": -div(w), "bulk": -p}, unknown=p),
    }
)
coefficients = {"w/stress": MU, "w/weight": 1e-5, "p/volume": 1.0, "p/bulk": 1 / LAMBDA}
experiment = cf.Experiment(
    mesh=mesh, elements={w: ("Lagrange", 2), p: ("Lagrange", 1)}, boundary=boundary
)
# -

# The traction of `div(2*sym(grad(w)) - p*identity(2))` contains the pressure, because the
# divergence is kept as it is written.

# +
model = cf.Model(system, {**coefficients, "w/weight": 0.0}, experiment)
through = model.measurement(cf.Average(w[0], on="right")).value(model.factual)
exact = PRESSURE / (12 * MU)
locked = cf.Model(
    cf.Library(terms={"stress": div(2 * MU * sym(grad(w)) + LAMBDA * div(w) * identity(2))}),
    {"stress": 1.0},
    cf.Experiment(mesh=mesh, elements={w: ("Lagrange", 1)}, boundary=boundary),
)
stiff = locked.measurement(cf.Average(w[0], on="right")).value(locked.factual)
if comm.rank == 0:
    print(f"mixed {through:.7f}, exactly {exact:.7f}, displacements alone {stiff:.7f}")
assert np.isclose(through, exact, rtol=1e-5)
assert stiff < 0.5 * exact
# -

# Whether the block is compressible at all is a question like any other: the term $p/\lambda$ can be
# deleted, and makes no difference.

study = cf.Study(
    system, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=0.01)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["p/bulk"].decision == "irrelevant"
