# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # An elastic cantilever: traction, weight and the first frequency
#
# A beam of length 10 and height 1 is clamped on the left and pulled down by a shear traction on
# the right. The stress is Hooke's, $\sigma = 2\mu\,\varepsilon(u) +
# \lambda\,\mathrm{tr}\,\varepsilon(u)\,I$, and `Natural` gives the traction $\sigma n$ in its own
# units: whatever is deleted inside, the load stays the load.

# +
import os

import numpy as np
from dolfinx.mesh import CellType, create_rectangle
from mpi4py import MPI

import cffem as cf
from cffem import div, grad, identity, sym, trace

comm = MPI.COMM_WORLD
LENGTH, HEIGHT, YOUNG, POISSON, LOAD = 10.0, 1.0, 1e3, 0.3, 0.1
mu, la = YOUNG / (2 * (1 + POISSON)), YOUNG * POISSON / (1 - POISSON**2)  # plane stress
beam = cf.mesh.named(
    create_rectangle(
        comm, ((0, -HEIGHT / 2), (LENGTH, HEIGHT / 2)), (40, 4), CellType.quadrilateral
    ),
    facets={
        "clamp": lambda p: np.isclose(p[0], 0),
        "end": lambda p: np.isclose(p[0], LENGTH),
        "sides": lambda p: np.isclose(np.abs(p[1]), HEIGHT / 2),
    },
)
u = cf.VectorField("u", dim=2)
strain = sym(grad(u))
terms = {
    "stress": div(2 * mu * strain + la * trace(strain) * identity(2)),
    "weight": cf.vector(0, -1),
    "bedding": -u,
}
coefficients = {"stress": 1.0, "weight": 1e-4, "bedding": 1e-4}
boundary = [
    cf.Dirichlet(u, 0, on="clamp"),
    cf.Natural(u, (0, -LOAD / HEIGHT), on="end"),
    cf.Natural(u, 0, on="sides"),
]
experiment = cf.Experiment(mesh=beam, elements={u: ("Lagrange", 2)}, boundary=boundary)
# -

# ## The tip
#
# Timoshenko and Goodier: $\frac{P}{6EI}\left(2L^3 + (4+5\nu)\frac{D^2L}{4}\right)$ with $I =
# D^3/12$.

# +
model = cf.Model(cf.Library(terms=terms, unknown=u), {"stress": 1.0}, experiment)
tip = model.measurement(cf.Average(u[1], on="end")).value(model.factual)
inertia = HEIGHT**3 / 12
reference = -LOAD / (6 * YOUNG * inertia)
reference *= 2 * LENGTH**3 + (4 + 5 * POISSON) * HEIGHT**2 * LENGTH / 4
if comm.rank == 0:
    print(f"tip {tip:.5f}, Timoshenko {reference:.5f}")
assert abs(tip / reference - 1) < 5e-3
# -

# ## The first frequency
#
# A free beam swings with $\omega^2 w = -\nabla\cdot\sigma(w)$. Each solve with the last shape as
# its load brings out the slowest mode by a factor of forty (inverse iteration), and the shapes
# shrink by $\omega_1^2$. For a slender beam $\omega_1 = 1.8751^2 \sqrt{EI/\rho A}/L^2$; shear and
# the rotation of the sections make it a little slower.

# +
shape, sizes = model.factual.function(), []
for _ in range(4):
    free = cf.Experiment(
        mesh=beam,
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0, on="clamp"), cf.Natural(u, 0, on=("end", "sides"))],
        forcing={u: shape},
    )
    swing = cf.Model(cf.Library(terms=terms, unknown=u), {"stress": 1.0}, free)
    sizes.append(swing.norm("L2")(swing.factual.states[0]))
    shape = swing.factual.function()
frequency = np.sqrt(sizes[-2] / sizes[-1])
slender = 1.87510407**2 * np.sqrt(YOUNG * inertia / HEIGHT) / LENGTH**2
if comm.rank == 0:
    print(f"frequency {frequency:.5f}, slender beam {slender:.5f}")
assert 0.985 < frequency / slender < 1
# -

# ## What bends the beam
#
# Weight and an elastic bedding are so weak here that the beam does not feel them.

study = cf.Study(
    cf.Library(terms=terms, unknown=u),
    experiment,
    coefficients=coefficients,
    certification=cf.Certification(epsilon=0.02, relative=True),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["weight"].decision == "irrelevant"
