# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Spots with a measured diffusivity
#
# Schnakenberg's reaction $\partial_t u = D_u\Delta u + a - u + u^2 v$, $\partial_t v = \nabla\cdot
# (D_v\nabla v) + b - u^2 v$ makes spots where $v$ spreads much faster than $u$. Here $D_v$ comes
# from measurements on a grid, each with an error of one percent: a `cf.Dataset` as the values of a
# known field, interpolated and never extrapolated.

# +
import os

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x

comm = MPI.COMM_WORLD
u, v, D = cf.ScalarField("u"), cf.ScalarField("v"), cf.Known("D")
a, b, Du, Dv = 0.1, 0.9, 1e-3, 4e-2
places = np.linspace(0, 1, 17)
noise = np.random.default_rng(1).normal(size=17)
measured = cf.Dataset.from_arrays({x: places}, {cf.ScalarField("D"): Dv * (1 + 0.01 * noise)})
system = cf.System(
    {
        "u": cf.Library(dt(u), {"diffusion": lap(u), "decay": -u, "birth": u**2 * v}),
        "v": cf.Library(dt(v), {"diffusion": div(D * grad(v)), "death": -(u**2) * v}),
    }
)
coefficients = {"u/diffusion": Du, "u/decay": 1, "u/birth": 1, "v/diffusion": 1, "v/death": 1}
# -

# ## Turing's growth rate
#
# Around the state of rest $u = a + b$, $v = b/(a+b)^2$ a ripple $\cos kx$ grows as $e^{\lambda t}$,
# $\lambda$ being the larger eigenvalue of the reaction's Jacobian less $k^2$ times the
# diffusivities.

# +
k = 4 * np.pi
rest = np.array([a + b, b / (a + b) ** 2])
reaction = np.array(
    [[-1 + 2 * rest[0] * rest[1], rest[0] ** 2], [-2 * rest[0] * rest[1], -(rest[0] ** 2)]]
)
rates, modes = np.linalg.eig(reaction - k**2 * np.diag([Du, Dv]))
growth, mode = rates.real.max(), modes[:, np.argmax(rates.real)].real
ripple = 1e-4 * sp.cos(k * x)
experiment = cf.Experiment(
    mesh=cf.mesh.interval(comm, h=1 / 32),
    elements={u: ("Lagrange", 2), v: ("Lagrange", 2)},
    initial={u: rest[0] + mode[0] * ripple, v: rest[1] + mode[1] * ripple},
    boundary=[cf.Neumann(u, 0), cf.Neumann(v, 0)],
    forcing={u: a, v: b},
    time=cf.Window(0, 4, steps=40, scheme="sdirk2"),
    known={D: measured},
)
model = cf.Model(system, coefficients, experiment)
start, end = (
    model.measurement(cf.Integral(sp.cos(k * x) * u, at=time)).value(model.factual)
    for time in (0, 4)
)
observed = float(np.log(end / start) / 4)
if comm.rank == 0:
    print(f"growth rate {observed:.4f}, by Turing {growth:.4f}")
assert abs(observed - growth) < 0.02 * abs(growth)
# -

# ## Verdicts
#
# The question is asked of the ripple: how much of it is there at the end?

study = cf.Study(
    system,
    experiment,
    coefficients=coefficients,
    certification=cf.Certification(epsilon=1e-2),
    observables={"ripple": (cf.Integral(sp.cos(k * x) * u, at="end"), 1e-6)},
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["u/birth"].decision == "relevant"
