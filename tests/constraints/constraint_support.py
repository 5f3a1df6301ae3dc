"""Meshes with known topology and small helpers for the tests of constraint classes."""

from __future__ import annotations

import gmsh
import numpy as np
from dolfinx.mesh import locate_entities_boundary, meshtags
from mpi4py import MPI

from cffem.engine.mesh.meshes import MeshData

try:
    from dolfinx.io.gmsh import model_to_mesh
except ImportError:
    from dolfinx.io.gmshio import model_to_mesh


def _mesh(build, size, dim, comm, seed=0):
    """A gmsh mesh of what `build(occ)` makes; other seeds give other triangulations of the
    same domain.
    """
    gmsh.initialize()
    gmsh.option.setNumber("General.Terminal", 0)
    gmsh.option.setNumber("Mesh.RandomSeed", seed + 1)
    gmsh.option.setNumber("Mesh.RandomFactor", 1e-9 if seed == 0 else 1e-3)
    gmsh.option.setNumber("Mesh.MeshSizeMax", size * (1 + 0.02 * seed))
    gmsh.option.setNumber("Mesh.MeshSizeMin", size * 0.7)
    try:
        if comm.rank == 0:
            gmsh.model.add("domain")
            build(gmsh.model.occ)
            gmsh.model.occ.synchronize()
            gmsh.model.addPhysicalGroup(dim, [tag for _, tag in gmsh.model.getEntities(dim)], 1)
            gmsh.model.mesh.generate(dim)
        return model_to_mesh(gmsh.model, comm, 0, gdim=dim)[0]
    finally:
        gmsh.finalize()


def box(comm=MPI.COMM_SELF, size=0.4, seed=0):
    """An unstructured mesh of the unit cube; b₁ = b₂ = 0."""
    return _mesh(lambda occ: occ.addBox(0, 0, 0, 1, 1, 1), size, 3, comm, seed)


def box_with_void(comm=MPI.COMM_SELF, size=0.4):
    """The unit cube without a cube inside; b₁ = 0, b₂ = 1."""

    def build(occ):
        occ.cut(
            [(3, occ.addBox(0, 0, 0, 1, 1, 1))], [(3, occ.addBox(0.35, 0.35, 0.35, 0.3, 0.3, 0.3))]
        )

    return _mesh(build, size, 3, comm)


def torus(comm=MPI.COMM_SELF, size=0.3):
    """A solid torus; b₁ = 1, b₂ = 0."""
    return _mesh(lambda occ: occ.addTorus(0, 0, 0, 1.0, 0.35), size, 3, comm)


def annulus(comm=MPI.COMM_SELF, size=0.2, holes=1):
    """A disk with round holes; b₁ = the number of holes."""

    def build(occ):
        places = (
            [(0.0, 0.0)]
            if holes == 1
            else [
                (0.45 * np.cos(a), 0.45 * np.sin(a)) for a in 2 * np.pi * np.arange(holes) / holes
            ]
        )
        occ.cut(
            [(2, occ.addDisk(0, 0, 0, 1, 1))],
            [(2, occ.addDisk(x, y, 0, 0.25, 0.25)) for x, y in places],
        )

    return _mesh(build, size, 2, comm)


def square(comm=MPI.COMM_SELF, size=0.2, seed=0):
    """An unstructured mesh of the unit square."""
    return _mesh(lambda occ: occ.addRectangle(0, 0, 0, 1, 1), size, 2, comm, seed)


def waves(x):
    """A field without any symmetry, in as many components as the points have coordinates
    worth using.
    """
    return np.stack(
        [
            np.sin(3 * x[0]) + x[1],
            np.cos(2 * x[1]) * x[0] + x[2],
            x[0] * x[2] ** 2 + np.sin(5 * x[1]),
        ]
    )


def plane_waves(x):
    """The first two components of `waves`."""
    return waves(x)[:2]


def free_state(projection, function):
    """A state with the values of a function of the points and zero essential values."""
    field = projection.function()
    field.interpolate(function)
    state = projection.state_of(field)
    state[projection.essential.owned] = 0.0
    return state


DOMAINS = {
    "annulus": annulus,
    "three_holes": lambda: annulus(size=0.15, holes=3),
    "torus": lambda: torus(size=0.4),
    "box_with_void": box_with_void,
    "box": box,
}


def with_sides(mesh):
    """A rectangle's mesh with its sides named left, right, bottom and top, as a mesh file
    would bring them.
    """
    names = {"left": (0, 0), "right": (0, 1), "bottom": (1, 0), "top": (1, 1)}
    low, high = mesh.geometry.x.min(axis=0), mesh.geometry.x.max(axis=0)
    mesh.topology.create_connectivity(1, 2)
    found = []
    for axis, end in names.values():
        place = (low, high)[end][axis]
        found.append(
            locate_entities_boundary(
                mesh, 1, lambda x, axis=axis, place=place: np.isclose(x[axis], place)
            )
        )
    facets = np.concatenate(found)
    values = np.concatenate(
        [np.full(len(part), tag, dtype=np.int32) for tag, part in enumerate(found, start=1)]
    )
    order = np.argsort(facets)
    tags = meshtags(mesh, 1, facets[order], values[order])
    return MeshData(
        mesh=mesh,
        cell_tags=None,
        facet_tags=tags,
        names={name: (1, tag) for tag, name in enumerate(names, start=1)},
    )
