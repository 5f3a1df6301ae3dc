# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A Maxwell cavity: which terms of the wave equation matter?
#
# An electric field oscillates in a cavity with perfectly conducting walls. Somebody proposes four
# terms for its equation,
#
# $$\partial_t^2 E = -\alpha_1\,\nabla\times\nabla\times E - \alpha_2\,\partial_t E
#   + \alpha_3\,\nabla(\nabla\cdot E) + \alpha_4\,E\times B_0 .$$
#
# Which of them does this experiment see at all, and which change the field when they are deleted?

# +
import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import cross, curl, div, dt, grad, x, y, z

comm = MPI.COMM_WORLD
# -

# The field lives on Nédélec elements, whose tangential components are continuous. Terms are SymPy
# expressions; the library checks that each is a vector, that none is zero and that no two are
# multiples of each other.

E = cf.VectorField("E", dim=3)
library = cf.Library(
    anchor=dt(dt(E)),
    terms={
        "curl curl": -curl(curl(E)),
        "damping": -dt(E),
        "grad div": grad(div(E)),
        "Hall": cross(E, (0, 0, 1)),
    },
)
if comm.rank == 0:
    print(library, "\n")

# The start is a sum of two cavity modes, at rest. The mesh is an unstructured one of tetrahedra,
# and the divergence constraint is enforced in every solve, the factual one and the deleted ones.

modes = (
    sp.sin(sp.pi * y) * sp.sin(sp.pi * z),
    sp.sin(sp.pi * x) * sp.sin(sp.pi * z) / 2,
    0,
)
experiment = cf.Experiment(
    mesh=cf.mesh.box(comm, h=0.25),
    elements={E: ("N1curl", 2)},
    initial={E: modes, dt(E): (0, 0, 0)},
    boundary=[cf.Tangential(E, 0, on="all")],
    time=cf.Window(0, 1, steps=12),
    constraint=cf.DivergenceFree(E),
)

# A study solves the factual problem and one problem for each deleted term, looks for terms that
# vanish on the constraint class, and decides. A verdict needs an error bar; where there is none,
# cffem says `unresolved` rather than guess. The tolerance ε is absolute here: one relative to the
# norm of the field would be known only as well as that norm is.

study = cf.Study(
    library,
    experiment,
    coefficients={"curl curl": 1.0, "damping": 1e-3, "grad div": 1.0, "Hall": 0.1},
    certification=cf.Certification(epsilon=5e-3),
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)

# Four terms, four kinds of knowledge:
#
# * `curl curl` is relevant: without it there is no wave, and the error bar stays clear of ε.
# * `damping` is irrelevant at this tolerance: within one period it takes almost nothing from the
#   field. Both error bars are guaranteed; they come from a majorant of the energy error whose
#   hypotheses the code has checked.
# * `Hall` turns the field, by less than ε. Its error bar is guaranteed, too.
# * `grad div` has coefficient 1, and yet deleting it moves the field by round-off only:
#   $\nabla(\nabla\cdot E)$ vanishes on divergence-free fields, so no experiment of this kind can
#   tell its coefficient. That is a property of the class, proved by rewriting and measured on
#   random members, and not of this one trajectory.
#
# None of this is a law of nature: each verdict holds for this library, this experiment, this norm
# and this ε, as the last sentence of the report says. `report.html` in the same folder shows the
# error bars, the fields with and without each term, and how each error bar was obtained.

assert report.terms["curl curl"].decision == "relevant"
assert report.terms["damping"].decision == "irrelevant"
assert report.terms["damping"].certificate == "guaranteed"
assert report.terms["Hall"].decision == "irrelevant"
assert report.terms["Hall"].certificate == "guaranteed"
assert report.terms["grad div"].decision == "constraint_null"
assert report.terms["grad div"].deletion < 1e-12
assert report.terms["curl curl"].deletion > 0.1
