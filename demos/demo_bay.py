# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Where and when does a term matter?
#
# A tracer drifts through a bay. It is taken up by the sea bed along the coast, a strip of a tenth
# of the bay, it decays everywhere, and it spreads. A verdict says whether the uptake matters; a map
# says where and when, and deletions in a part ask whether one could leave it out elsewhere.

# +
import os

import numpy as np
import sympy as sp
from dolfinx.mesh import CellType, create_rectangle
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

comm = MPI.COMM_WORLD
rectangle = create_rectangle(
    comm, [np.array([0.0, 0.0]), np.array([2.0, 1.0])], [40, 20], CellType.triangle
)
bay = cf.mesh.named(
    rectangle,
    cells={"coast": lambda p: p[1] < 0.1 + 1e-9, "open sea": lambda p: p[1] > 0.1 - 1e-9},
    facets={
        "west": lambda p: p[0] < 1e-9,
        "north": lambda p: p[1] > 1 - 1e-9,
        "east": lambda p: p[0] > 2 - 1e-9,
        "shore": lambda p: p[1] < 1e-9,
    },
)
u = cf.ScalarField("u")
library = cf.Library(
    anchor=dt(u),
    terms={
        "drift": -u.diff(x),
        "spread": lap(u),
        "decay": -u,
        "uptake": cf.on("coast", -u),
        "settling": u.diff(y),
    },
)
coefficients = {"drift": 0.5, "spread": 0.01, "decay": 0.1, "uptake": 4.0, "settling": 0.1}
experiment = cf.Experiment(
    mesh=bay,
    elements={u: ("Lagrange", 2)},
    initial={u: sp.exp(-40 * ((x - 0.5) ** 2 + (y - 0.35) ** 2))},
    boundary=[cf.Dirichlet(u, 0, on=("west", "north")), cf.Neumann(u, 0, on=("east", "shore"))],
    time=cf.Window(0, 2, steps=20),
)
# -

# ## What is asked
#
# Each term, and by name: no settling in the open sea, no settling in the first half of the window,
# and half of the spread. A deletion `on` a subdomain leaves the term in the others; one `during` a
# part of the window changes coefficients at two time levels.

# +
study = cf.Study(
    library,
    experiment,
    coefficients=coefficients,
    interventions={
        "no settling at sea": cf.delete("settling", on="open sea"),
        "no settling at first": cf.delete("settling", during=(0, 1)),
        "half the spread": cf.scale("spread", 0.5),
    },
    profiles=["uptake"],
    certification=cf.Certification(epsilon=0.02, relative=True),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
    for name, found in report.maps.items():
        print(
            f"{name:<22} 90 % of the change in {found.domain_share:6.1%} of the bay, "
            f"{found.window_share:6.1%} of the window"
        )
# -

# ## The map of the uptake
#
# `report.maps["uptake"]` holds the density of $|u - u_j|^2$ by cell, here summed over the window,
# and its integral over the bay at each time. The report shows it as a picture, and `maps/maps.pvd`
# opens in ParaView. Most of what the uptake changes lies near the coast, although the tracer is
# everywhere: the change is carried downstream along it.

uptake = report.maps["uptake"]
near = uptake.midpoints[:, 1] < 0.35
share = float((uptake.density * uptake.volumes)[near].sum())
share /= float((uptake.density * uptake.volumes).sum())
if comm.rank == 0:
    print(f"{share:.0%} of what the uptake changes lies within 0.35 of the coast")
    print(report.profiles["uptake"][0].sentence)

assert share > 0.9
assert uptake.growth[0] < 1e-20 < uptake.growth[-1]
assert report.terms["uptake"].decision == "relevant"
assert report.interventions["no settling at sea"].decision == "relevant"
# The second half makes up for little of what was not settled in the first.
whole, first = report.terms["settling"], report.interventions["no settling at first"]
assert 0.3 * whole.deletion < first.score < whole.deletion
assert 0 < report.profiles["uptake"][0].relevant_from < 1
