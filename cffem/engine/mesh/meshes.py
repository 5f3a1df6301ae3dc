# SPDX-License-Identifier: MIT
"""Meshes with names: from a file, from DOLFINx, or from `cffem.engine.mesh.mesh_shapes`, ready for
the engine.

A mesh file may come from a stranger, so it is read as data (`msh_format`, `xdmf_format`) on rank 0,
checked (`raw_mesh`) and then distributed by DOLFINx. Errors are raised on all ranks alike.
"""

from __future__ import annotations

import difflib
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, cast

import basix.ufl
import numpy as np
import ufl
from dolfinx import cpp, default_real_type, graph
from dolfinx.io import distribute_entity_data
from dolfinx.mesh import (
    GhostMode,
    Mesh,
    MeshTags,
    create_mesh,
    meshtags_from_entities,
)
from mpi4py import MPI

from cffem._compat import cell_geometry, cell_partitioner
from cffem._resources import shared_folder
from cffem.engine.collective import collectively
from cffem.engine.mesh.msh_format import DIMENSIONS, MeshError, read_msh
from cffem.engine.mesh.raw_mesh import FACETS, RawMesh, check, check_jacobians, from_msh
from cffem.engine.mesh.releasing import freed_in_peace
from cffem.engine.mesh.xdmf_format import read_xdmf

MAX_BYTES = 2**30


@dataclass(frozen=True)
class MeshData:
    """A distributed mesh with its named parts.

    Attributes:
        mesh: the DOLFINx mesh.
        cell_tags: number of the part each cell belongs to, or None.
        facet_tags: number of the part each tagged facet belongs to, or None.
        names: for each name its dimension and number.
        curved: makes the same mesh with curved cells, where straight ones stand for a domain with a
            curved boundary; collective.
        remade: makes a mesh of the same domain with cells that are larger by a factor, on a
            communicator; collective over that and that of this mesh. None where nobody knows how.
        within_curves: points of a plane mesh from a file that lie within curves of its geometry, on
            every rank: the boundary has no corner there, however much it turns.
    """

    mesh: Mesh
    cell_tags: MeshTags | None = None
    facet_tags: MeshTags | None = None
    names: dict[str, tuple[int, int]] = field(default_factory=dict)
    curved: Callable[[], MeshData] | None = field(default=None, compare=False, repr=False)
    remade: Callable[[float, MPI.Comm], MeshData] | None = field(
        default=None, compare=False, repr=False
    )
    within_curves: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        freed_in_peace(self.mesh)

    def tag(self, name: str, dimension: int) -> int:
        """The number of a named part, or a `MeshError` with the nearest names.

        Args:
            name: a physical name.
            dimension: of cells or of facets.
        """
        known = {key: tag for key, (dim, tag) in self.names.items() if dim == dimension}
        if name in known:
            return known[name]
        nearest = difflib.get_close_matches(name, known, n=3) or sorted(known)[:10]
        hint = (
            f"did you mean {', '.join(map(repr, nearest))}?"
            if nearest
            else "it has no names of that dimension"
        )
        raise MeshError(f"the mesh has no part {name!r} of dimension {dimension}; {hint}")


def mesh_path(name: str) -> Path:
    """The path of a shipped mesh.

    Example:
        >>> mesh_path("annulus").name
        'annulus.msh'
    """
    folder = shared_folder("meshes")
    known = sorted(path.stem for path in folder.glob("*.msh"))
    if name not in known:
        raise MeshError(f"there is no shipped mesh {name!r}; there are {', '.join(known)}")
    return folder / f"{name}.msh"


def read_mesh(source: object, comm: MPI.Comm | None = None) -> MeshData:
    """A mesh with its names, whatever it is given as.

    Args:
        source: the path of a gmsh mesh (`.msh`) or an XDMF file, a DOLFINx mesh, a `MeshData`, or
            what DOLFINx's reader of gmsh files returns, a mesh with tags and physical groups.
        comm: the MPI communicator for a file; `MPI.COMM_WORLD` only where nothing else is given.

    Raises:
        MeshError: on all ranks, where the file is missing, not a mesh, damaged or geometrically
            impossible.

    Example:
        >>> data = read_mesh(mesh_path("annulus"))
        >>> sorted(data.names)
        ['domain', 'inner', 'outer']
    """
    if isinstance(source, MeshData):
        return source
    if isinstance(source, Mesh):
        check_distributed(source)
        return MeshData(source)
    if all(hasattr(source, name) for name in ("mesh", "cell_tags", "facet_tags")):
        return from_gmshio(cast("TaggedMesh", source))
    if not isinstance(source, str | Path):
        raise MeshError(
            "a mesh is a path, a DOLFINx mesh or what cffem.mesh makes, not "
            f"{type(source).__name__}"
        )
    comm = MPI.COMM_WORLD if comm is None else comm
    path = Path(source)
    raw = collectively(comm, lambda: read_raw(path))
    if comm.bcast(raw is None, root=0):
        data = MeshData(*read_xdmf(path, comm))
        check_distributed(data.mesh)
        return with_coarser(data)
    return with_coarser(distribute(raw, comm))


def with_coarser(data: MeshData) -> MeshData:
    """A mesh that can be made anew with larger cells, where its boundary is enough for that, and
    with curved ones, where its file says what is a curve.
    """
    from cffem.engine.mesh.remeshing import can_be_remeshed, remeshed
    from cffem.engine.mesh.rounded import has_curves, rounded

    if not can_be_remeshed(data):
        return data
    curved = (lambda: rounded(data)) if has_curves(data) else None
    return replace(data, remade=lambda factor, on: remeshed(data, factor, on), curved=curved)


class TaggedMesh(Protocol):
    """A mesh with tags, as DOLFINx's reader of gmsh files returns it."""

    @property
    def mesh(self) -> Mesh:
        """The mesh."""

    @property
    def cell_tags(self) -> MeshTags | None:
        """The physical group of each cell."""

    @property
    def facet_tags(self) -> MeshTags | None:
        """The physical group of facets."""


def from_gmshio(source: TaggedMesh) -> MeshData:
    """A mesh with its names from what DOLFINx's reader of gmsh files returns."""
    check_distributed(source.mesh)
    groups = getattr(source, "physical_groups", None) or {}
    names = {str(name): (int(group[0]), int(group[1])) for name, group in groups.items()}
    return MeshData(source.mesh, source.cell_tags, source.facet_tags, names)


def read_raw(path: Path) -> RawMesh | None:
    """The arrays of a gmsh mesh, or None for an XDMF file. The file's content decides, not
    its name.
    """
    data = file_content(path)
    if data.startswith(b"$MeshFormat"):
        return checked(from_msh(read_msh(data)))
    if data.lstrip()[:5] in (b"<?xml", b"<Xdmf"):
        return None
    if data.startswith(b"\x89HDF\r\n\x1a\n"):
        raise MeshError(
            f"{path} holds the numbers of an XDMF mesh; give the .xdmf file that describes them"
        )
    raise MeshError(
        f"{path} is not a mesh: it is neither a gmsh mesh (beginning with $MeshFormat) nor XDMF"
    )


def file_content(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise MeshError(f"{path} is not a file")
        if status.st_size > MAX_BYTES:
            raise MeshError(
                f"{path} has {status.st_size} bytes; meshes of at most {MAX_BYTES} are read"
            )
        return path.read_bytes()
    except OSError as error:
        raise MeshError(f"the mesh {path} cannot be read: {error.strerror}") from None


def dolfinx_order(nodes: np.ndarray, cell: str) -> np.ndarray:
    """Nodes of entities in DOLFINx's order."""
    return (
        nodes
        if cell == "point"
        else nodes[:, cpp.io.perm_gmsh(cpp.mesh.to_type(cell), nodes.shape[1])]
    )


def checked(raw: RawMesh) -> RawMesh:
    """The mesh, having passed all checks."""
    check(raw, dolfinx_order(raw.cells, raw.cell))
    return raw


def check_distributed(mesh: Mesh) -> None:
    """Raise `MeshError` on all ranks if a distributed mesh has coordinates that are not
    finite, or degenerate cells.
    """
    problem = None
    nodes, degree = cell_geometry(mesh)
    points = mesh.geometry.x[:, : mesh.geometry.dim]
    try:
        if not np.isfinite(points).all():
            raise MeshError("the mesh has coordinates that are not finite (NaN or Inf)")
        check_jacobians(mesh.topology.cell_name(), degree, points, nodes)
    except MeshError as error:
        problem = str(error)
    problems = [text for text in mesh.comm.allgather(problem) if text is not None]
    if problems:
        raise MeshError(problems[0])


def distribute(raw: RawMesh | None, comm: MPI.Comm) -> MeshData:
    """Distribute a mesh that rank 0 holds over all ranks.

    Args:
        raw: the arrays on rank 0, None elsewhere.
        comm: the MPI communicator; the call is collective.
    """
    header = (
        (
            raw.cell,
            raw.degree,
            raw.points.shape[1],
            raw.cells.shape[1],
            raw.facets.shape[1],
            raw.names,
        )
        if raw
        else None
    )
    cell, degree, gdim, cell_nodes, facet_nodes, names = comm.bcast(header, root=0)
    dimension = DIMENSIONS[cell]
    if raw is None:
        cells, points = (
            np.empty((0, cell_nodes), dtype=np.int64),
            np.empty((0, gdim), dtype=default_real_type),
        )
        facets = np.empty((0, facet_nodes), dtype=np.int64)
        values = {
            dimension: np.empty(0, dtype=np.int32),
            dimension - 1: np.empty(0, dtype=np.int32),
        }
    else:
        cells, points = dolfinx_order(raw.cells, cell), raw.points.astype(default_real_type)
        facets = dolfinx_order(raw.facets, FACETS[cell])
        values = {dimension: raw.cell_values, dimension - 1: raw.facet_values}
    element = basix.ufl.element(
        "Lagrange",
        cell,
        degree,
        basix.LagrangeVariant.equispaced,
        shape=(gdim,),
        dtype=default_real_type,
    )
    # Shared facets are ghosted, so that integrals over interior facets work on any number of ranks.
    partitioner = cell_partitioner(GhostMode.shared_facet)
    mesh = create_mesh(comm, cells=cells, x=points, e=ufl.Mesh(element), partitioner=partitioner)
    cell_tags = mark(mesh, dimension, cells, values[dimension])
    facet_tags = mark(mesh, dimension - 1, facets, values[dimension - 1])
    within = comm.bcast(None if raw is None else raw.within_curves, root=0)
    return MeshData(mesh, cell_tags, facet_tags, names, within_curves=within)


def mark(mesh: Mesh, dimension: int, nodes: np.ndarray, values: np.ndarray) -> MeshTags:
    """Tags on the entities with the given nodes (original numbering), wherever they went."""
    mesh.topology.create_entities(dimension)
    mesh.topology.create_connectivity(dimension, 0)
    mesh.topology.create_connectivity(dimension, mesh.topology.dim)
    entities, local = distribute_entity_data(
        mesh, dimension, np.ascontiguousarray(nodes, dtype=np.int64), values
    )
    return meshtags_from_entities(
        mesh, dimension, graph.adjacencylist(entities), local.astype(np.int32)
    )
