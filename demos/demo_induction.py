# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A magnetic field in a torus of two metals
#
# A liquid metal moves in a torus, $\partial_t B = -\nabla\times(\eta\,\nabla\times B) +
# \nabla\times(v\times B)$. The resistivity $\eta$ is five times larger on the upper half than on
# the lower one: a DOLFINx function that is constant on cells and jumps between them.

# +
import itertools
import os

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from cffem import cross, curl, dt, norm2, x, y, z

comm = MPI.COMM_WORLD
torus = cf.mesh.named(cf.mesh.torus(comm, h=0.4).mesh)  # the polyhedron itself is the domain
resistivity = fem.Function(fem.functionspace(torus.mesh, ("DG", 0)), name="resistivity")
cells = torus.mesh.topology.index_map(3).size_local
middles = dolfinx_mesh.compute_midpoints(torus.mesh, 3, np.arange(cells, dtype=np.int32))
resistivity.x.array[:cells] = np.where(middles[:, 2] > 0, 5.0, 1.0)
resistivity.x.scatter_forward()

B, eta, v = cf.VectorField("B", dim=3), cf.Known("eta"), cf.Known("v", dim=3)
library = cf.Library(
    anchor=dt(B), terms={"diffusion": -curl(eta * curl(B)), "induction": curl(cross(v, B))}
)
# A toroidal field that vanishes on the surface, of major radius 1 and minor radius 0.4.
profile = 1 - ((sp.sqrt(x**2 + y**2) - 1) ** 2 + z**2) / 0.16
experiment = cf.Experiment(
    mesh=torus,
    elements={B: ("N1curl", 1)},
    initial={B: (-y * profile, x * profile, 0)},
    boundary=[cf.Tangential(B, 0)],
    time=cf.Window(0, 0.05, steps=4, scheme="midpoint"),
    known={eta: resistivity, v: (0, 0, 1)},
)
coefficients = {"diffusion": 0.05, "induction": 0.02}
model = cf.Model(library, coefficients, experiment)
# -

# ## An exact balance
#
# Without motion the energy $\frac12\|B\|^2$ falls by what the resistance turns into heat,
# $\int\eta\,|\nabla\times B|^2$. The midpoint rule keeps this balance step by step, exactly.

# +
still = model.solve(cf.delete("induction"))
energies = [
    model.measurement(cf.Integral(norm2(B) / 2, at=float(time))).value(still)
    for time in still.times
]
middle, heat = fem.Function(model.spaces.space), 0.0
power = fem.form(0.05 * resistivity * ufl.inner(ufl.curl(middle), ufl.curl(middle)) * ufl.dx)
for before, after in itertools.pairwise(still.states):
    middle.x.array[: len(after)] = (before + after) / 2
    middle.x.scatter_forward()
    heat += 0.05 / 4 * comm.allreduce(fem.assemble_scalar(power))
if comm.rank == 0:
    print(f"energy lost {energies[0] - energies[-1]:.12f}, heat {heat:.12f}")
assert np.isclose(energies[0] - energies[-1], heat, rtol=1e-9)
# -

# ## Verdicts
#
# Field, motion and tolerance were chosen after a look, so that one verdict is clear on a mesh as
# coarse as this: the motion carries the field by 1/400 of the minor radius within the window. In so
# short a time so slow a motion does nothing to the field. How much the resistance does, so coarse a
# mesh cannot tell: its error bar is wider than the change, and the verdict says so.

study = cf.Study(
    library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=1e-2)
)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
assert report.terms["induction"].decision == "irrelevant"
