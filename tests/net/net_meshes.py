"""Small meshes of the unit interval, square and cube, deformed so that cells stay affine."""

from __future__ import annotations

from typing import Any

import numpy as np
from dolfinx import mesh
from mpi4py import MPI

from cffem.engine.mesh.meshes import MeshData

SIDES = {
    "left": (0, 0.0),
    "right": (0, 1.0),
    "bottom": (1, 0.0),
    "top": (1, 1.0),
    "back": (2, 0.0),
    "front": (2, 1.0),
}
DIMENSION = {"interval": 1, "triangle": 2, "quadrilateral": 2, "tetrahedron": 3, "hexahedron": 3}


def sides(dimension: int) -> tuple[str, ...]:
    """The names of the sides."""
    return tuple(name for name, (axis, _) in SIDES.items() if axis < dimension)


def small_mesh(cell: str, n: int, deformed: int = 0, comm: Any = MPI.COMM_SELF) -> MeshData:
    """A mesh with n cells along each axis and its sides named.

    Args:
        cell: the type of its cells.
        n: how many along each axis.
        deformed: 0 leaves the mesh as it is; other numbers shear it, each in its own way, and
            move the inner nodes of simplices.
        comm: the communicator.
    """
    dimension = DIMENSION[cell]
    kind = getattr(mesh.CellType, cell)
    if dimension == 1:
        domain = mesh.create_unit_interval(comm, n)
    elif dimension == 2:
        domain = mesh.create_unit_square(comm, n, n, kind)
    else:
        domain = mesh.create_unit_cube(comm, n, n, n, kind)
    data = MeshData(domain, None, *tagged(domain))
    if deformed:
        points = domain.geometry.x[:, :dimension]
        if cell in ("interval", "triangle", "tetrahedron"):
            bump = np.prod(np.sin(np.pi * points), axis=1)
            direction = np.cos(deformed * np.arange(1, dimension + 1))
            points = points + 0.2 / n * bump[:, None] * direction
        shear = np.eye(dimension) + 0.2 * np.sin(deformed * np.arange(1, dimension**2 + 1)).reshape(
            dimension, dimension
        )
        domain.geometry.x[:, :dimension] = points @ shear.T
    return data


def tagged(domain: Any) -> tuple[Any, dict[str, tuple[int, int]]]:
    """Tags of the sides of a unit mesh, and the names they have."""
    facet = domain.topology.dim - 1
    names = {name: (facet, tag) for tag, name in enumerate(sides(domain.topology.dim), 1)}
    indices, values = [], []
    for name, (_, tag) in names.items():
        axis, place = SIDES[name]
        found = mesh.locate_entities_boundary(
            domain, facet, lambda x, a=axis, p=place: np.isclose(x[a], p)
        )
        indices.append(found)
        values.append(np.full(len(found), tag))
    index, value = np.concatenate(indices), np.concatenate(values)
    order = np.argsort(index)
    return mesh.meshtags(
        domain, facet, index[order].astype(np.int32), value[order].astype(np.int32)
    ), names
