# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Aliasing: what one experiment cannot tell, and which experiment to add
#
# A substance diffuses and reacts, $\partial_t u = D\,\Delta u + \kappa\,u$. Start it from a single
# mode, $u = a(t)\sin\pi x\sin\pi y$. Then $\Delta u = -2\pi^2 u$ at all times: the two columns of
# the regression are multiples of each other, and every pair $(D, \kappa)$ with the same $\kappa -
# 2\pi^2 D$ explains the data exactly. A method that returns one of these pairs, however good its
# fit, has made it up.

# +
import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

comm = MPI.COMM_WORLD
D, KAPPA = 0.02, 0.5
u = cf.ScalarField("u")
library = cf.Library(anchor=dt(u), terms={"reaction": u, "diffusion": lap(u), "drift": u.diff(x)})
mesh = cf.mesh.square(comm, h=0.12)


def start_from(initial):
    return cf.Experiment(
        mesh=mesh,
        elements={u: ("Lagrange", 3)},
        initial={u: initial},
        boundary=[cf.Dirichlet(u, 0, on="all")],
        time=cf.Window(0, 1, steps=40),
    )


first = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
second = sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y)
coefficients = {"reaction": KAPPA, "diffusion": D}
# -

# ## One mode
#
# The design of the regression is built from the solution, tested with smooth functions of compact
# support. Its rank is one less than its number of columns, and the alias group says which
# combination of the coefficients the experiment does identify. Its value is known well even though
# neither of its parts is known at all.

# +
single = cf.Model(library, coefficients, start_from(first)).solve()
design = cf.Design.from_fields(library, single, kind="weak")
(group,) = design.alias_groups(tolerance=1e-4)
rate = KAPPA - 2 * float(sp.pi) ** 2 * D
if comm.rank == 0:
    print(
        f"rank {design.rank(tolerance=1e-4)} of {len(design.names)} columns, coherence "
        f"{design.coherence():.6f}"
    )
    print(f"identified: {group.identified}, about {group.estimates[0]:.4f}; exact: {rate:.4f}")

assert set(group.terms) == {"reaction", "diffusion"}
assert design.coherence() > 0.99999
assert abs(group.estimates[0] - rate) < 0.01
# -

# ## Which experiment to add
#
# Two candidates: the same mode again, twice as strong, and another mode. A stronger signal does not
# help, because it is the same direction of coefficient space once more; a second mode has another
# eigenvalue, and two eigenvalues separate $D$ from $\kappa$:
#
# $$D = \frac{r_1 - r_2}{\lambda_2 - \lambda_1},\qquad \kappa = r_1 + \lambda_1 D ,$$
#
# where $r_k$ is the growth rate of mode $k$ and $\lambda_k$ its eigenvalue.

# +
candidates = {"the same, stronger": 2 * first, "another mode": second}
offers = {
    name: cf.Design.from_fields(
        library, cf.Model(library, coefficients, start_from(initial)).solve(), kind="weak"
    )
    for name, initial in candidates.items()
}
best = design.best_addition(offers)
if comm.rank == 0:
    print(
        f"add: {best.name} (smallest eigenvalue of the stacked design "
        f"{best.minimum_eigenvalue:.3f})"
    )

assert best.name == "another mode"
assert (
    best.minimum_eigenvalue
    > 100 * design.best_addition({"again": offers["the same, stronger"]}).minimum_eigenvalue
)
# -

# ## Both experiments together
#
# Stacked, the design has full rank and the coefficients come out.

# +
together = design + offers["another mode"]
screen = cf.Screening(method="subset").fit(together)
found = dict(zip(together.names, screen.coef_, strict=True))
if comm.rank == 0:
    print({name: round(float(value), 4) for name, value in found.items()})

assert together.rank(tolerance=1e-4) == 3
assert not together.alias_groups(tolerance=1e-4)
assert abs(found["diffusion"] - D) < 0.02 * D
assert abs(found["reaction"] - KAPPA) < 0.02 * KAPPA
assert found["drift"] == 0
# -

# A study does all this by itself: it finds the group, says which combination is identified, and
# proposes what to measure next. The sentences are also at the top of `report.html`.

report = cf.Study(
    library,
    start_from(first),
    coefficients=coefficients,
    certification=cf.Certification(epsilon=0.01),
).run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert set(report.sections["sets"]["aliased"]) == {"reaction", "diffusion"}
