# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Flow past a cylinder: what the pressure hides
#
# Water flows through a channel past a cylinder at Reynolds number 20. For the velocity $v$ somebody
# proposes
#
# $$0 = \nu\,\Delta v - (v\cdot\nabla)v + \alpha_3\,\nabla(\nabla\cdot v) - \alpha_4\,v + \nabla p,
#   \qquad \nabla\cdot v = 0 .$$
#
# Velocities are divergence-free, and the pressure does whatever it must to keep them so. In other
# words the equation is only seen through the Leray projection, and a term that is a gradient on the
# class is taken up by the pressure.

# +
import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import div, dot, grad, lap, y

comm = MPI.COMM_WORLD
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
library = cf.Library(
    terms={
        "viscosity": lap(v),
        "convection": -dot(grad(v), v),
        "bulk viscosity": grad(div(v)),
        "friction": -v,
    },
    unknown=v,
)
coefficients = {"viscosity": 1e-3, "convection": 1.0, "bulk viscosity": 1e-3, "friction": 1e-3}
# -

# The channel is the one of the benchmark by Schäfer and Turek (1996): height 0.41, a parabolic
# inflow of mean 0.2, and a cylinder slightly below the middle. Velocity and pressure live on a
# Taylor–Hood pair; at the outlet the fluid leaves freely.

# +
HEIGHT = sp.Rational(41, 100)
inflow = (sp.Rational(6, 5) * y * (HEIGHT - y) / HEIGHT**2, 0)
experiment = cf.Experiment(
    mesh=cf.mesh.channel(comm, h=0.1),
    elements={v: ("Lagrange", 2)},
    boundary=[
        cf.Dirichlet(v, inflow, on="inlet"),
        cf.Dirichlet(v, 0, on=("walls", "cylinder")),
        cf.Neumann(v, 0, on="outlet"),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
)
study = cf.Study(
    library,
    experiment,
    coefficients=coefficients,
    certification=cf.Certification(epsilon=1e-3, relative=True),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
# -

# Four terms, four different answers:
#
# * Convection is relevant: it makes the wake, and without it the flow is that of honey.
# * Friction is there, and at this tolerance nobody would notice if it were not.
# * Without viscosity nothing is left that the walls could hold, and the steady problem has no
#   solution that Newton's method finds. That is not the end: taken away bit by bit, the viscosity
#   has a profile, and without an eighth of it the flow has already changed by more than the
#   tolerance. So it is relevant. How far solutions reach on this mesh stands in the report.
# * The bulk viscosity acts on $\nabla\cdot v$, which is zero on the class: no measurement of
#   incompressible flow can tell its coefficient, and cffem says `constraint_null`. On a Taylor–Hood
#   pair the divergence vanishes in the mean only, so that its deletion still moves the discrete
#   flow a little; the rewriting $\nabla(\nabla\cdot v) = 0$ does not depend on the mesh.

assert report.terms["convection"].decision == "relevant"
assert report.terms["friction"].decision == "irrelevant"
assert report.terms["viscosity"].decision == "relevant"
assert report.terms["viscosity"].share < 0.5 < report.terms["viscosity"].profile["reach"] < 1
assert report.terms["bulk viscosity"].decision == "constraint_null"
assert report.terms["convection"].deletion > 10 * report.terms["friction"].deletion
