# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Ocean currents: how far measured flow is from the constraint class
#
# Currents that satellites see through the slope of the sea surface are geostrophic: away from the
# coast they are nearly free of divergence. Interpolated to a grid, and then to a mesh, they are so
# only up to an error. Before terms are identified on them, that error is measured, and the flow can
# be brought onto the class
#
# $$M = \{v : \nabla\cdot v = 0\}.$$
#
# A second flow is a soap film in a laboratory, seen by particle image velocimetry.

# +
import numpy as np
import xarray
from mpi4py import MPI

import cffem as cf
from cffem.data.readers.registry_data import registry_data
from cffem.data.readers.velocimetry import read_vec
from cffem.engine.inputs.field_data import interpolate
from cffem.validation.real_data import unavailable

comm = MPI.COMM_WORLD


def say(*things):
    if comm.rank == 0:
        print(*things, "", sep="\n")


if problem := unavailable(comm, "currents", "soap_film"):
    say(f"This demo needs a network: {problem}")
    raise SystemExit
# -

# On the sphere $\nabla\cdot v = \kappa\,\partial_x v_1 + \partial_y v_2 - (\tan\varphi/R)\,v_2$ on
# a map in metres; multiplied by $\cos\varphi$ this is the divergence of the flux
# $(\cos\varphi_0\,v_1, \cos\varphi\,v_2)$. So the flux is what must be free of divergence on the
# map.

# +
v = cf.VectorField("v", dim=2)
region = cf.Region(west=54, east=64, south=-30, north=-20)
plane = region.plane()
with xarray.open_dataset(registry_data("currents")) as file:
    window = file.isel(time=0).sel(longitude=slice(54, 64), latitude=slice(-30, -20)).load()
lon, lat = window["longitude"].values.astype(float), window["latitude"].values.astype(float)
narrowing = np.cos(np.radians(lat)) / np.cos(np.radians(plane.latitude))
flux = np.stack([window["ugos"].values.T, window["vgos"].values.T * narrowing])
kilometres = {"x": plane.place(lon, 0)[0] / 1e3, "y": plane.place(0, lat)[1] / 1e3}
ocean = cf.Dataset.from_arrays(kilometres, {v: flux})

frame = read_vec(registry_data("soap_film") / "Run000002.T000.D000.P000.H001.L.vec")
film = cf.Dataset.from_arrays({"x": frame.x * 1e3, "y": frame.y * 1e3}, {v: frame.velocity})
# -

# The projection onto $M$ is orthogonal in $L^2$. On Brezzi–Douglas–Marini elements its fields have
# no divergence at any point.

# +
rows = []
for name, data, h in (("geostrophic currents", ocean, 50.0), ("soap film", film, 0.8)):
    mesh = cf.region_mesh(comm, data, h)
    P = cf.projection(cf.DivergenceFree(v), mesh, {v: ("BDM", 1)})
    measured = P.function()
    interpolate(measured, data, v, 0.0, name)
    inside = P.project(measured)
    before, after = P.residual(measured) / P.norm(measured), P.residual(inside) / P.norm(measured)
    rows.append((name, P.spaces.size, P.distance(measured), before, after))
    assert after <= 1e-12 * before
    P.destroy()

say(
    f"{'flow':<24}{'unknowns':>10}{'‖v − Pv‖/‖v‖':>16}{'div before':>14}{'after':>12}",
    *(
        f"{name:<24}{size:>10}{far:>16.3f}{before:>14.2e}{after:>12.1e}"
        for name, size, far, before, after in rows
    ),
)
# -

# Both flows are a few per cent away from the class. What does that mean for terms? On the class the
# dilatation $(\nabla\cdot v)\,v$ vanishes and $\Delta v$ equals $-\nabla\times\nabla\times v$: of
# their coefficients only the difference can be identified, whatever the data are. That is a
# statement about the class, proved by rewriting and measured on random members.

# +
sea = cf.region_mesh(comm, ocean, 150.0)
p = cf.ScalarField("p")
library = cf.Library(
    anchor=cf.dt(v),
    terms={
        "drag": v,
        "dilatation": cf.div(v) * v,
        "viscosity": cf.lap(v),
        "rotation": cf.curl(cf.curl(v)),
    },
)
experiment = cf.Experiment(
    mesh=sea,
    elements={v: ("BDM", 1)},
    initial={v: ocean},
    boundary=[cf.Dirichlet(v, 0), cf.Neumann(v, 0)],
    time=cf.Window(0, 1, steps=1),
    constraint=cf.DivergenceFree(v, multiplier={p: ("DG", 0)}),
)
model = cf.Model(library, {"drag": -1.0}, experiment)
effective = cf.effective_library(model)
say(effective)
assert effective.library.names == ("drag", "viscosity")
(null,) = effective.removed
assert (null.term, null.evidence, null.label) == ("dilatation", "symbolic and numeric", "exact")
# -
