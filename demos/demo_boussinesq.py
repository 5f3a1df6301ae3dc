# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A cavity heated from the side: Boussinesq flow
#
# The benchmark of de Vahl Davis (1983): air in a square, hot on the left and cold on the right,
# Rayleigh number 10⁴. Two fields are coupled in a `System`: warm fluid rises, and the flow carries
# heat. The mean Nusselt number, how much more heat crosses the cavity than by conduction alone, is
# published as 2.243.

# +
import os

from mpi4py import MPI

import cffem as cf
from cffem import dot, grad, lap, vector

comm = MPI.COMM_WORLD
RAYLEIGH, PRANDTL = 1e4, 0.71
v, T, p = cf.VectorField("v", dim=2), cf.ScalarField("T"), cf.ScalarField("p")
system = cf.System(
    {
        v: cf.Library(
            terms={
                "viscosity": lap(v),
                "convection": -dot(grad(v), v),
                "buoyancy": T * vector(0, 1),
            },
            unknown=v,
        ),
        T: cf.Library(terms={"conduction": lap(T), "transport": -dot(v, grad(T))}, unknown=T),
    }
)
coefficients = {
    "v/viscosity": PRANDTL,
    "v/convection": 1.0,
    "v/buoyancy": RAYLEIGH * PRANDTL,
    "T/conduction": 1.0,
    "T/transport": 1.0,
}
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=1 / 16),
    elements={v: ("Lagrange", 2), T: ("Lagrange", 2)},
    boundary=[
        cf.Dirichlet(v, 0),
        cf.Dirichlet(T, 1, on="left"),
        cf.Dirichlet(T, 0, on="right"),
        cf.Natural(T, 0, on=("top", "bottom")),
    ],
    constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
)
# -

# ## The Nusselt number
#
# Heat crosses every vertical line alike, so the flux can be averaged over the whole cavity.

model = cf.Model(system, coefficients, experiment)
nusselt = model.measurement(cf.Average(v[0] * T - T.diff(cf.x))).value(model.factual)
if comm.rank == 0:
    print(f"Nusselt number {nusselt:.4f}")
assert abs(nusselt / 2.243 - 1) < 5e-3

# ## What the cavity is about
#
# Each field is judged against its own norm. Inertia changes the flow by a tenth and the temperature
# hardly at all; without buoyancy nothing moves.

study = cf.Study(
    system, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=0.1)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["v/buoyancy"].decision == "relevant"
assert report.terms["T/transport"].decision == "relevant"
