"""Meshes whose cells overlap are no domains: folds, double covers, spirals and islands are
refused; cracks and holes are fine.
"""

from __future__ import annotations

import math

import basix.ufl
import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry.mesh_constants import Domain

u = cf.ScalarField("u")


def made(*parts):
    """One mesh of triangles from points and cells of several parts that share nothing."""
    points, cells = [], []
    for own, triangles in parts:
        cells += [[len(points) + corner for corner in triangle] for triangle in triangles]
        points += own
    element = ufl.Mesh(basix.ufl.element("Lagrange", "triangle", 1, shape=(2,)))
    return mesh.create_mesh(
        MPI.COMM_SELF, np.array(cells, dtype=np.int64), x=np.array(points, dtype=float), e=element
    )


def grid(nx, ny, place=lambda a, b: (a, b)):
    """A grid of (0, 1)² put somewhere."""
    points = [place(i / nx, j / ny) for j in range(ny + 1) for i in range(nx + 1)]
    corners = [j * (nx + 1) + i for j in range(ny) for i in range(nx)]
    return points, [
        t for c in corners for t in ([c, c + 1, c + nx + 2], [c, c + nx + 2, c + nx + 1])
    ]


def around(turns):
    """A strip that goes around the origin."""

    def place(a, b):
        angle = 2 * math.pi * turns * a
        return (1 + b) * math.cos(angle), (1 + b) * math.sin(angle)

    return grid(40, 2, place)


def moved(dx, dy, size=1.0):
    return grid(4, 4, lambda a, b: (size * a + dx, size * b + dy))


SQUARE = grid(4, 4)
CORNERED = SQUARE[0] + [(0.4, 0.6), (0.6, 0.4)], SQUARE[1] + [[24, 25, 26]]


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            [grid(8, 4, lambda a, b: (min(2 * a, 2 - 2 * a), b))], id="folded in the middle"
        ),
        pytest.param([SQUARE, SQUARE], id="covered twice"),
        pytest.param([SQUARE, moved(0.25, 0.25)], id="boundaries that meet at nodes"),
        pytest.param([SQUARE, moved(0.3, 0.37)], id="boundaries that cross"),
        pytest.param([SQUARE, moved(0.3, 0.3, 0.2)], id="an island on the domain"),
        pytest.param([around(1.3)], id="a spiral of more than a turn"),
        pytest.param([CORNERED], id="a cell that hangs on a corner"),
    ],
)
def test_overlapping_cells_in_the_plane_are_refused(parts):
    with pytest.raises(NotCovered, match="overlap"):
        Domain(made(*parts))


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([SQUARE, moved(2.0, 0.5)], id="two parts"),
        pytest.param([around(0.9)], id="almost a ring"),
        pytest.param([around(1.0)], id="a ring with a slit"),
    ],
)
def test_what_only_comes_near_itself_is_a_domain(parts):
    assert not Domain(made(*parts)).convex


def test_solids_are_judged_too():
    folded = mesh.create_unit_cube(MPI.COMM_SELF, 4, 2, 2)
    folded.geometry.x[:, 0] = np.minimum(folded.geometry.x[:, 0], 1 - folded.geometry.x[:, 0])
    with pytest.raises(NotCovered, match="folded"):
        Domain(folded)
    for turns, fine in ((0.9, True), (1.2, False)):
        ring = mesh.create_unit_cube(MPI.COMM_SELF, 30, 2, 2)
        angle, radius = 2 * math.pi * turns * ring.geometry.x[:, 0], 1 + ring.geometry.x[:, 1]
        ring.geometry.x[:, 0], ring.geometry.x[:, 1] = (
            radius * np.cos(angle),
            radius * np.sin(angle),
        )
        if fine:
            assert not Domain(ring).convex
        else:
            with pytest.raises(NotCovered, match="overlap"):
                Domain(ring)


@pytest.mark.parametrize(
    "shape", [cf.mesh.annulus, cf.mesh.l_shape, cf.mesh.disk, cf.mesh.torus, cf.mesh.box_with_void]
)
def test_shapes_with_holes_and_corners_are_domains(shape):
    assert Domain(shape(MPI.COMM_SELF, 0.4).mesh).eigenvalue > 0


def test_no_guarantee_on_a_folded_strip_near_its_true_eigenvalue():
    # The strip (0, 2) × (0, 1) folded onto the unit square has λ₁ = 5π²/4; the square would have
    # 2π².
    domain = made(grid(12, 6, lambda a, b: (min(2 * a, 2 - 2 * a), b)))
    library = cf.Library(terms={"lap": cf.lap(u), "r": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=domain, elements={u: ("Lagrange", 1)}, boundary=[cf.Dirichlet(u, 0)], forcing={u: 1}
    )
    found = cf.certify_deletion(cf.Model(library, {"lap": 1.0, "r": 12.0}, experiment), "r")
    assert not found
    assert "folded" in found.reason
