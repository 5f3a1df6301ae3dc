"""Pictures show the solution itself: exact values at every point, on lines, areas and slices,
on any number of ranks.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import CellType, create_unit_cube, create_unit_interval, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import lap, x, y, z
from cffem.study.report.camera import Camera
from cffem.study.report.solids.solid import viewer

MESHES = {
    "interval": lambda comm: create_unit_interval(comm, 5),
    "triangles": lambda comm: create_unit_square(comm, 4, 4),
    "quadrilaterals": lambda comm: create_unit_square(comm, 4, 4, CellType.quadrilateral),
    "tetrahedra": lambda comm: create_unit_cube(comm, 2, 2, 2),
}


def drawing(comm, kind, limit=20_000):
    """The picture of the harmonic function x + 2y + 3z, and without the forcing term that is
    zero.
    """
    mesh = MESHES[kind](comm)
    dimension = mesh.geometry.dim
    exact = sum(k * c for k, c in zip((1, 2, 3), (x, y, z)[:dimension], strict=False))
    u = cf.ScalarField("u")
    library = cf.Library(terms={"lap": lap(u), "source": sp.Integer(1)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh, elements={u: ("Lagrange", 2)}, boundary=[cf.Dirichlet(u, exact)]
    )
    model = cf.Model(library, {"lap": 1.0, "source": 1.0}, experiment)
    solution = model.solve(cf.delete("source"))
    camera = Camera(solution, limit)
    picture, values = camera.drawing(camera.take(solution)), camera.take(model.factual)
    return None if picture is None else picture.with_deleted("source", values)


@pytest.mark.parametrize("kind", MESHES)
def test_values_are_those_of_the_solution(kind):
    check(drawing(MPI.COMM_SELF, kind))


def check(picture):
    assert picture.time is None
    assert list(picture.deleted) == ["source"]
    weights = dict(zip("xyz", (1.0, 2.0, 3.0), strict=True))
    expected = picture.points @ [weights[axis] for axis in picture.axes]
    if picture.where:
        axis, height = picture.where.removeprefix("slice ").split(" = ")
        expected = expected + weights[axis] * float(height)
    used = np.unique(picture.cells)
    assert np.allclose(picture.factual["u"][used, 0], expected[used], atol=1e-9)
    assert np.nanmax(np.abs(picture.difference("source", "u"))) > 1e-3
    assert covered(picture) == pytest.approx(1.0)


def test_a_volume_is_drawn_as_a_body_with_its_corner_cut_away():
    body(drawing(MPI.COMM_SELF, "tetrahedra"))


def body(picture):
    solid = picture.solid
    used = np.unique(solid.cells)
    expected = solid.points @ [1.0, 2.0, 3.0]
    assert np.allclose(solid.factual["u"][used, 0], expected[used], atol=1e-9)
    assert np.nanmax(np.abs(solid.difference("source", "u"))) > 1e-3
    corners = solid.points[solid.cells]
    sides = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    # Six sides of the cube, and three planes of a quarter each.
    assert np.linalg.norm(sides, axis=1).sum() / 2 == pytest.approx(6.75)
    right, up, towards = viewer()
    assert np.allclose(np.array([right, up, towards]) @ np.array([right, up, towards]).T, np.eye(3))
    # The middle of the cube is in the middle of the picture and is seen, since what stands before
    # it is cut away; at the border nothing is.
    shown = solid.raster.values(solid.points @ towards)
    height, width = shown.shape
    assert shown[height // 2, width // 2] == pytest.approx(0.5 * towards.sum(), abs=0.01)
    assert np.isnan(shown[0, 0])
    assert np.nanmax(shown) < towards @ [1, 0, 1] - 0.1


def covered(picture):
    """The size of all cells together."""
    corners = picture.points[picture.cells]
    if len(picture.axes) == 1:
        return float(np.abs(corners[:, 1] - corners[:, 0]).sum())
    return float(np.abs(np.linalg.det(corners[:, 1:] - corners[:, :1])).sum() / 2)


def test_a_large_mesh_is_drawn_on_a_grid_of_its_own():
    picture = drawing(MPI.COMM_SELF, "triangles", limit=20)
    assert len(picture.points) == 121**2
    check(picture)


@pytest.mark.mpi
def test_pictures_are_the_same_on_two_ranks(on_ranks):
    on_ranks(2, same_on_ranks)


def same_on_ranks(comm):
    for kind in ("triangles", "tetrahedra"):
        picture = drawing(comm, kind)
        assert (picture is None) == (comm.rank > 0)
        if picture is not None:
            check(picture)
            if kind == "tetrahedra":
                body(picture)
