# SPDX-License-Identifier: MIT
"""Reading meshes from XDMF with HDF5, as DOLFINx writes them, without trusting the file.

XDMF is XML that names HDF5 files. Before DOLFINx opens anything the XML is refused if it declares
entities or a document type, and every HDF5 file it names must lie in the same folder as the XDMF
file itself and keep its numbers to itself. Cells with points that are not there, which would end
the process, are refused by their numbers.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from dolfinx.io import XDMFFile
from dolfinx.mesh import GhostMode, Mesh, MeshTags

from cffem._files import check_amount, check_hdf5
from cffem.engine.collective import collectively
from cffem.engine.mesh.msh_format import MAX_CELLS, MeshError
from cffem.engine.mesh.raw_mesh import as_keys
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    from mpi4py import MPI


MAX_XML = 10_000_000

# The one document type that DOLFINx writes; it declares nothing.
HARMLESS_DOCTYPE = rb'<!DOCTYPE Xdmf SYSTEM "Xdmf\.dtd"\s*(\[\s*\])?\s*>'


def read_xdmf(
    path: Path, comm: MPI.Comm
) -> tuple[Mesh, MeshTags | None, MeshTags | None, dict[str, tuple[int, int]]]:
    """Mesh, cell tags, facet tags and names (the tags' numbers) from an XDMF file; collective.

    Args:
        path: the XDMF file.
        comm: the MPI communicator.
    """
    grids = comm.bcast(collectively(comm, lambda: checked_grids(path)), root=0)
    try:
        with XDMFFile(comm, str(path), "r") as file:
            mesh = file.read_mesh(name=grids[0], ghost_mode=GhostMode.shared_facet)
            for dimension in (mesh.topology.dim - 1, mesh.topology.dim):
                mesh.topology.create_entities(dimension)
                mesh.topology.create_connectivity(dimension, mesh.topology.dim)
            tags = {t.dim: t for t in (file.read_meshtags(mesh, name=name) for name in grids[1:])}
    except RuntimeError as error:
        raise MeshError(
            f"the mesh {path} cannot be read: {' '.join(str(error).split())[:200]}"
        ) from None
    names = {}
    for dimension, found in tags.items():
        for number in sorted(set().union(*comm.allgather(set(found.values.tolist())))):
            names[
                str(number) if str(number) not in names else f"{number} of dimension {dimension}"
            ] = (dimension, number)
    return mesh, tags.get(mesh.topology.dim), tags.get(mesh.topology.dim - 1), names


def checked_grids(path: Path) -> list[str]:
    """What `check_xdmf` finds; whatever is wrong is a `MeshError`."""
    try:
        return check_xdmf(path)
    except MeshError:
        raise
    except InputError as error:
        raise MeshError(f"the mesh {path} cannot be read: {error}") from None


def check_xdmf(path: Path) -> list[str]:
    """Names of the grids in an XDMF file, the mesh first, having checked that it is harmless."""
    text = path.read_bytes()
    if len(text) > MAX_XML:
        raise MeshError(f"{path} has {len(text)} bytes of XML; at most {MAX_XML} are read")
    text = re.sub(HARMLESS_DOCTYPE, b"", text, count=1)
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise MeshError(
            f"{path} declares XML entities or a document type of its own, which no mesh needs"
        )
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise MeshError(f"{path} is not XML: {error}") from None
    if root.tag != "Xdmf":
        raise MeshError(f"{path} is XML but not XDMF")
    for item in root.iter("DataItem"):
        check_reference(path, item)
    arrays = {
        file: check_hdf5(path.parent / file)
        for file in {place_of(item)[0] for item in root.iter("DataItem")}
    }
    for item in root.iter("DataItem"):
        check_shape(path, item, arrays)
    meshes = [
        grid
        for grid in root.iter("Grid")
        if grid.find("Topology") is not None and grid.find("Geometry") is not None
    ]
    if not meshes:
        raise MeshError(f"{path} has no mesh: no grid with topology and geometry")
    tags = [
        grid.get("Name", "")
        for grid in root.iter("Grid")
        if grid is not meshes[0]
        and grid.find("Topology") is not None
        and any(
            a.get("Center") == "Cell" and a.get("AttributeType") == "Scalar"
            for a in grid.findall("Attribute")
        )
    ]
    points = len_of(meshes[0].find("Geometry/DataItem"))
    for grid in root.iter("Grid"):
        if (topology := grid.find("Topology/DataItem")) is not None:
            check_topology(path, topology, points)
    return [meshes[0].get("Name", "mesh"), *tags]


def place_of(item: ElementTree.Element) -> tuple[str, str]:
    """The HDF5 file of a data item, and the dataset in it."""
    file, _, inside = (item.text or "").strip().partition(":")
    return file, inside.strip("/")


def len_of(item: ElementTree.Element | None) -> int:
    return int((item.get("Dimensions") or "0").split()[0]) if item is not None else 0


def check_shape(path: Path, item: ElementTree.Element, arrays: Any) -> None:
    """A data item has the shape that it announces, and holds numbers."""
    file, inside = place_of(item)
    if inside not in arrays[file]:
        raise MeshError(f"the mesh {path} cannot be read: {file} has no dataset {inside[:80]!r}")
    shape, kind = arrays[file][inside]
    announced = tuple(map(int, (item.get("Dimensions") or "").split()))
    if (
        math.prod(shape) != math.prod(announced)
        or shape[:1] != announced[:1]
        or kind.kind not in "iuf"
    ):
        raise MeshError(
            f"the mesh {path} announces {announced} numbers for {inside[:80]!r}, which holds "
            f"{shape} of type {kind}"
        )
    check_amount(path.parent / file, math.prod(shape) * kind.itemsize)


def check_topology(path: Path, item: ElementTree.Element, points: int) -> None:
    """Every cell has points that are there, each once, and no cell is there twice."""
    import h5py

    file, inside = place_of(item)
    with h5py.File(path.parent / file, "r", locking=False) as stored:
        cells = np.asarray(stored[inside])
    if cells.dtype.kind not in "iu" or cells.ndim != 2:
        raise MeshError(f"the mesh {path} has cells whose points are not whole numbers")
    if cells.size and not 0 <= cells.min() <= cells.max() < points:
        raise MeshError(f"the mesh {path} has cells with points that are not there; it is damaged")
    rows = np.sort(cells.astype(np.int64), axis=1)
    if np.any(rows[:, 1:] == rows[:, :-1]):
        raise MeshError(f"the mesh {path} has a cell that names a point twice; it is damaged")
    if len(np.unique(as_keys(rows, points), axis=0)) < len(rows):
        raise MeshError(f"the mesh {path} has a cell twice; it is damaged")


def check_reference(path: Path, item: ElementTree.Element) -> None:
    """A data item names an HDF5 file in the same folder and is not too large."""
    if item.get("Format") != "HDF":
        raise MeshError(
            f"{path} holds data that are not in HDF5; save the mesh with DOLFINx's XDMFFile"
        )
    sizes = (item.get("Dimensions") or "0").split()
    if not all(size.isdigit() and len(size) <= 12 for size in sizes) or (
        sizes and int(sizes[0]) > 8 * MAX_CELLS
    ):
        raise MeshError(f"{path} announces data of size {' '.join(sizes)[:40]}; that is too large")
    file, _, inside = (item.text or "").strip().partition(":")
    target = path.parent / file
    if (
        not file
        or not inside
        or Path(file).name != file
        or target.resolve().parent != path.parent.resolve()
    ):
        raise MeshError(f"{path} names data outside its own folder: {file[:80]!r}")
    if not target.is_file():
        raise MeshError(
            f"{path} names the data file {file!r}, which is not there, or is no ordinary file"
        )
    with open(target, "rb") as handle:
        if handle.read(8) != b"\x89HDF\r\n\x1a\n":
            raise MeshError(f"the data file {target} is not HDF5")
