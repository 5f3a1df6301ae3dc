# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Observables: which terms change what you measure?
#
# Often nobody asks for the whole field. Here a pollutant drifts and decays in a disk, and the
# question is how much of it is left at the end, $\mathcal O(u) = \int_\Omega u(T)\,dx$. A term may
# change the field and hardly the observable: drift moves the substance about, decay removes it.

# +
import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

comm = MPI.COMM_WORLD
u = cf.ScalarField("u")
library = cf.Library(
    anchor=dt(u),
    terms={
        "decay": -u,
        "swirl": y * u.diff(x) - x * u.diff(y),
        "diffusion": lap(u),
        "saturation": -(u**2),
    },
)
coefficients = {"decay": 0.3, "swirl": 1.0, "diffusion": 5e-3, "saturation": 0.05}
experiment = cf.Experiment(
    mesh=cf.mesh.disk(comm, h=0.25),
    elements={u: ("Lagrange", 2)},
    initial={u: sp.exp(-20 * ((x - 0.4) ** 2 + y**2))},
    boundary=[cf.Dirichlet(u, 0, on="all")],
    time=cf.Window(0, 1, steps=12),
)
model = cf.Model(library, coefficients, experiment)
left_over = cf.Integral(u, at="end")
# -

# ## One backward solve for all terms
#
# The adjoint $\lambda$ of the observable solves one linear problem backwards in time. Then $I_j =
# |\int_0^T (\lambda, \alpha_j T_j[u])\,dt|$ is the first-order change of the observable when term
# $j$ is deleted, for every term at once.

scores = model.observable_scores(left_over)
if comm.rank == 0:
    print(f"left over: {scores.value:.5f}")
    for name, score in scores.items():
        print(f"  {name:<10} adjoint score {score:.3e}")

# ## Is the first order enough?
#
# A Taylor test says so: the remainder of the adjoint's prediction falls with the square of the
# change.

test = cf.taylor_observable(model, left_over, "decay")
if comm.rank == 0:
    print(f"order of the remainder: {test.order:.2f}")

# ## Verdicts on the field and on the observable
#
# A study takes observables with a tolerance of their own each, deletes every term really, and puts
# both answers beside each other.

# +
study = cf.Study(
    library,
    experiment,
    coefficients=coefficients,
    certification=cf.Certification(epsilon=0.02),
    observables={"left over": (left_over, 5e-3)},
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
    for name, change in report.sections["observables"]["left over"]["terms"].items():
        print(
            f"{name:<10} deletion {change['deletion']:.3e}  adjoint {change['adjoint']:.3e}  "
            f"{change['decision']}"
        )

changes = report.sections["observables"]["left over"]["terms"]
# -

# Swirl moves the field most of all and changes what is left over by almost nothing: it is relevant
# for the one and irrelevant for the other. Which of the two matters is a question about the purpose
# of the model, and that is why every verdict names its observation.

assert report.terms["swirl"].decision == "relevant"
assert changes["swirl"]["decision"] == "irrelevant"
assert changes["decay"]["decision"] == "relevant"
assert report.terms["swirl"].deletion > report.terms["decay"].deletion
assert changes["swirl"]["deletion"] < 0.05 * changes["decay"]["deletion"]
assert 0.7 < changes["decay"]["adjoint"] / changes["decay"]["deletion"] < 1.4
