# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Groups and pairs: one effect in two equations
#
# A cavity is warm on the left and cold on the right. Buoyancy drives a flow, and the flow carries
# heat (Boussinesq):
#
# $$\partial_t v = \mathrm{Pr}\,\Delta v - (v\cdot\nabla)v + \mathrm{Ra}\,\mathrm{Pr}\,T e_y -
# \nabla p, \qquad \partial_t T = \Delta T - v\cdot\nabla T.$$
#
# Convection is one effect in two equations, buoyancy in the first and transport in the second. A
# study that deletes single terms cannot ask about it; one with named interventions and pairs can.

# +
import os

from mpi4py import MPI

import cffem as cf
from cffem import dot, dt, grad, lap, vector, x

comm = MPI.COMM_WORLD
v, T, p = cf.VectorField("v", dim=2), cf.ScalarField("T"), cf.ScalarField("p")
library = cf.System(
    {
        v: cf.Library(
            anchor=dt(v),
            terms={"viscosity": lap(v), "inertia": -dot(grad(v), v), "buoyancy": vector(0, T)},
        ),
        T: cf.Library(anchor=dt(T), terms={"conduction": lap(T), "transport": -dot(v, grad(T))}),
    }
)
prandtl, rayleigh = 0.7, 2000.0
coefficients = {
    "v/viscosity": prandtl,
    "v/inertia": 1.0,
    "v/buoyancy": prandtl * rayleigh,
    "T/conduction": 1.0,
    "T/transport": 1.0,
}
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, 0.2),
    elements={v: ("Lagrange", 2), T: ("Lagrange", 2)},
    initial={v: (0, 0), T: 1 - x},
    boundary=[
        cf.Dirichlet(v, 0, on="all"),
        cf.Dirichlet(T, 1, on="left"),
        cf.Dirichlet(T, 0, on="right"),
        cf.Neumann(T, 0, on=("top", "bottom")),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    time=cf.Window(0, 0.15, steps=8),
)
# -

# ## What is asked
#
# Each field is judged against its own norm, so that velocities of ten and temperatures of one stand
# side by side. "No convection" takes both halves of the coupling away, "one way" the heat that the
# flow carries only, "colder" changes a boundary value. `pairs=True` deletes all pairs of terms.

# +
study = cf.Study(
    library,
    experiment,
    coefficients=coefficients,
    interventions={
        "no convection": cf.delete("v/buoyancy", "T/transport"),
        "weaker gravity": cf.scale("v/buoyancy", 0.5),
        "colder": cf.boundary(cf.Dirichlet(T, 0.5, on="left")),
    },
    pairs=True,
    certification=cf.Certification(epsilon=0.05),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
# -

# ## What comes out
#
# Without buoyancy nothing moves, so that transport has nothing to carry: the group changes the
# temperature exactly as much as the deletion of either, and the velocity as much as that of
# buoyancy. A sum of single scores would count the same effect twice.

# +
group = report.interventions["no convection"]
pair = report.interventions["v/buoyancy & T/transport"]
buoyancy, transport = report.terms["v/buoyancy"], report.terms["T/transport"]
by_field = {
    (found["term"], found["field"]): found["score"] for found in report.sections["sets"]["verdicts"]
}
if comm.rank == 0:
    for name in ("v/buoyancy", "T/transport", "no convection"):
        print(f"{name:<14} v: {by_field[name, 'v']:.4f}  T: {by_field[name, 'T']:.4f}")
    print(pair.sentence or "additive")

assert abs(by_field["no convection", "T"] - by_field["v/buoyancy", "T"]) < 1e-8
assert abs(by_field["no convection", "v"] - by_field["v/buoyancy", "v"]) < 1e-8
assert dict(group.fields) == {"v": "relevant", "T": "relevant"}
assert dict(transport.fields)["T"] == "relevant"
assert group.score == pair.score
