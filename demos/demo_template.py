# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Your own PDE in ten lines
#
# Copy this file, change the terms, the coefficients and the mesh, and run it with `cffem run
# my_study.py`. The model is
#
# $$\partial_t u = \sum_j \alpha_j\,T_j[u],$$
#
# and each term is a SymPy expression. `mesh` may be the path of a gmsh file of your own, `on="…"`
# one of its physical names.

# +
import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

u = cf.ScalarField("u")
library = cf.Library(anchor=dt(u), terms={"reaction": u, "drift": -u.diff(x), "diffusion": lap(u)})
experiment = cf.Experiment(
    mesh=cf.mesh.square(MPI.COMM_WORLD, h=0.1),
    elements={u: ("Lagrange", 2)},
    initial={u: sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y)},
    boundary=[cf.Dirichlet(u, 0, on="all")],
    time=cf.Window(0, 0.5, steps=20),
)
study = cf.Study(
    library,
    experiment,
    coefficients={"reaction": 1.5, "drift": 2e-3, "diffusion": 0.1},
    certification=cf.Certification(epsilon=0.02),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if MPI.COMM_WORLD.rank == 0:
    print(report)
# -

# The folder now holds `report.html` (open it in a browser), `report.json`, `terms.csv` and
# `fields.npz`. With these numbers the reaction is relevant, since without it the solution changes
# by more than ε, and the drift is irrelevant: it is so weak that it moves the solution by less.
# Both error bars are guaranteed. Without diffusion no theorem that cffem knows applies, so the
# error bar of that deletion is an estimate from three levels of refinement, and the report calls it
# `estimated`.

assert report.terms["reaction"].decision == "relevant"
assert report.terms["drift"].decision == "irrelevant"
assert report.terms["reaction"].certificate == report.terms["drift"].certificate == "guaranteed"
