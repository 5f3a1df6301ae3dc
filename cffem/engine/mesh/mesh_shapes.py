# SPDX-License-Identifier: MIT
"""The shapes of `cffem.mesh`: unstructured meshes made by gmsh from the shipped `.geo` sources,
deterministic, with named parts.

Every function takes the communicator and the cell size h; gmsh works on rank 0 and DOLFINx
distributes the result. The sources are in the folder `meshes/`, where small meshes made from them
lie as files too.
"""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cffem._resources import shared_folder
from cffem.engine.collective import collectively
from cffem.engine.mesh.meshes import MeshData, distribute, read_raw
from cffem.engine.mesh.msh_format import MAX_CELLS, MeshError
from cffem.engine.mesh.named_parts import named as named

if TYPE_CHECKING:
    from types import ModuleType

    from dolfinx.mesh import Mesh
    from mpi4py import MPI


# At most this many cells of size h in a shape of size 1, to refuse impossible sizes before gmsh
# tries.
DENSITY = {1: 1, 2: 8, 3: 30}
# Gmsh takes two kilobytes for each cell on the way; finer meshes come from a file.
MOST_CELLS = {1: 2_000_000, 2: MAX_CELLS, 3: MAX_CELLS}
SMALLEST_PART = 1e-4  # of a hole or a ring beside the whole
# Shapes with a curved boundary, which straight cells replace by a polygon or a polyhedron.
CURVED = ("disk", "annulus", "channel", "box_with_void", "torus")
DIMENSION = {"interval": 1, "box": 3, "box_with_void": 3, "torus": 3}

OPTIONS = {
    "General.Terminal": 0,
    "General.NumThreads": 1,
    "Mesh.MshFileVersion": 4.1,
    "Mesh.SaveAll": 0,
    "Mesh.Algorithm": 6,
    "Mesh.Algorithm3D": 1,
    "Mesh.MeshSizeMin": 0,
    "Mesh.MeshSizeMax": 1e22,
    "Mesh.MeshSizeFactor": 1,
    "Mesh.MeshSizeFromPoints": 1,
    "Mesh.MeshSizeFromCurvature": 0,
    "Mesh.MeshSizeExtendFromBoundary": 1,
    "Mesh.RandomSeed": 1,
    "Mesh.ElementOrder": 1,
    "Mesh.SecondOrderLinear": 0,
    "Mesh.HighOrderOptimize": 0,
    "Mesh.RecombineAll": 0,
    "Mesh.RecombinationAlgorithm": 3,
    "Mesh.Binary": 0,
}


@contextlib.contextmanager
def gmsh_session(**options: float) -> Iterator[ModuleType]:
    """Gmsh with known options and a model of its own; a session that the caller already has
    keeps its options and models.
    """
    import gmsh

    begun = not gmsh.isInitialized()
    if begun:
        gmsh.initialize(readConfigFiles=False, interruptible=False)
    wanted = {**OPTIONS, **options}
    before = {name: gmsh.option.getNumber(name) for name in wanted}
    current = None if begun else gmsh.model.getCurrent()
    try:
        for name, value in wanted.items():
            gmsh.option.setNumber(name, value)
        gmsh.model.add("cffem")
        yield gmsh
    finally:
        if begun:
            gmsh.finalize()
        else:
            gmsh.model.remove()
            for name, value in before.items():
                gmsh.option.setNumber(name, value)
            gmsh.model.setCurrent(current)


def write_shape(
    name: str,
    path: Path,
    *,
    degree: int = 1,
    recombine: bool = False,
    binary: bool = False,
    **numbers: float,
) -> None:
    """Mesh a shipped geometry and save it as an MSH 4.1 file; works on the calling rank alone.

    Args:
        name: name of the `.geo` source.
        path: the file to write, ending in `.msh`.
        degree: polynomial degree of the geometry; 2 for curved cells.
        recombine: quadrilaterals or hexahedra instead of simplices.
        binary: whether to write a binary file.
        numbers: values for the constants of the source, `h` among them.
    """
    # Curving the cells at the boundary can turn some inside out; gmsh then moves their inner nodes.
    curved = {"Mesh.ElementOrder": degree, "Mesh.HighOrderOptimize": int(degree > 1)}
    options = {**curved, "Mesh.RecombineAll": int(recombine), "Mesh.Binary": int(binary)}
    with gmsh_session(**options) as gmsh:
        for key, value in numbers.items():
            gmsh.parser.setNumber(key, [value])
        gmsh.merge(str(shared_folder("meshes") / f"{name}.geo"))
        gmsh.model.mesh.generate(gmsh.model.getDimension())
        gmsh.write(str(path))
        for key in numbers:
            gmsh.parser.clear(key)


def shape(
    name: str, comm: MPI.Comm, h: float, cells: str | None = None, degree: int = 1, **numbers: float
) -> MeshData:
    """Make a shape on rank 0 and distribute it; collective."""
    dimension = DIMENSION.get(name, 2)
    simplex, product = (
        ("interval", "interval"),
        ("triangle", "quadrilateral"),
        ("tetrahedron", "hexahedron"),
    )[dimension - 1]
    check_arguments(h, cells or simplex, (simplex, product), degree, numbers)
    round_shapes = {"disk": "radius", "annulus": "outer", "torus": "major"}
    lengths = (
        [numbers[round_shapes[name]]] if name in round_shapes else [1.0, numbers.get("length", 1.0)]
    )
    check_sizes(name, dimension, max(lengths), h, numbers)

    def make() -> Mesh:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shape.msh"
            recombine = cells == product and product != simplex
            try:
                write_shape(
                    name, path, degree=degree, recombine=recombine, binary=True, h=h, **numbers
                )
            except Exception as error:  # gmsh raises nothing more special
                said = " ".join(str(error).split())[:200]
                raise MeshError(
                    f"gmsh cannot mesh the {name} with h = {h:g}: {said}; choose other numbers"
                ) from None
            return read_raw(path)

    found = replace(
        distribute(collectively(comm, make), comm),
        remade=lambda factor, on: shape(name, on, factor * h, cells, degree, **numbers),
    )
    if degree > 1 or name not in CURVED:
        return found
    return replace(found, curved=lambda: shape(name, comm, h, cells, 2, **numbers))


def check_sizes(
    name: str, dimension: int, size: float, h: float, numbers: dict[str, float]
) -> None:
    """Refuse what gmsh would need too much memory or time for, or what its tolerances cannot
    tell apart.
    """
    most = MOST_CELLS[dimension]
    cells = DENSITY[dimension] * (size / h) ** dimension if size / h < 1e12 else math.inf
    if name == "channel":
        # Cells of size `ratio` h up to 0.02 from the cylinder, growing to h at 0.5.
        near = h * numbers["ratio"]
        cells += DENSITY[2] * (0.0075 / near / near + 0.15 / near / h) if near > 1e-12 else math.inf
    if cells > most:
        raise MeshError(
            f"h = {h:g} asks for more than {most} cells; choose a larger h"
            + (" or ratio" if name == "channel" else "")
        )
    lengths = {
        key: numbers[key]
        for key in ("length", "radius", "inner", "outer", "major", "minor")
        if key in numbers
    }
    for key, length in {"the size": size, **lengths}.items():
        if not 1e-100 < length < 1e100 or length < SMALLEST_PART * size:
            raise MeshError(
                f"{key} {length:g} is too small or too large beside {size:g} to be meshed"
            )


def check_arguments(
    h: float, cells: str, known: tuple[str, str], degree: int, numbers: dict[str, float]
) -> None:
    for key, value in {"h": h, **numbers}.items():
        if (
            not isinstance(value, int | float)
            or not 0 <= value < float("inf")
            or (value == 0 and key != "layers")
        ):
            raise MeshError(f"{key} must be a positive number, not {value!r}")
    if cells not in known:
        raise MeshError(f"cells are {' or '.join(sorted(set(known)))} here, not {cells!r}")
    if degree not in (1, 2):
        raise MeshError(f"the geometry has degree 1 or 2, not {degree!r}")


def interval(comm: MPI.Comm, h: float, *, length: float = 1.0, origin: float = 0.0) -> MeshData:
    """The interval (origin, origin + length), with ends `left` and `right`.

    Args:
        comm: the MPI communicator.
        h: cell size.
        length: of the interval.
        origin: its left end, which may be negative.

    Example:
        >>> from mpi4py import MPI
        >>> interval(MPI.COMM_SELF, 0.1).mesh.topology.index_map(1).size_global
        10
    """
    if (
        isinstance(origin, bool)
        or not isinstance(origin, int | float)
        or not abs(origin) < float("inf")
    ):
        raise MeshError(f"origin must be a finite number, not {origin!r}")
    found = shape("interval", comm, h, length=length)
    found.mesh.geometry.x[:, 0] += origin
    return replace(
        found, remade=lambda factor, on: interval(on, factor * h, length=length, origin=origin)
    )


def square(comm: MPI.Comm, h: float, *, length: float = 1.0, cells: str = "triangle") -> MeshData:
    """The square (0, length)², with sides `left`, `right`, `bottom` and `top`.

    Args:
        comm: the MPI communicator.
        h: cell size.
        length: of a side.
        cells: `triangle` or `quadrilateral`.
    """
    return shape("square", comm, h, cells, length=length)


def l_shape(comm: MPI.Comm, h: float, *, cells: str = "triangle") -> MeshData:
    """The L-shape (−1, 1)² without [0, 1]×[−1, 0]; `corner` is the two sides at the
    re-entrant corner, `outer` the others.
    """
    return shape("l_shape", comm, h, cells)


def disk(
    comm: MPI.Comm, h: float, *, radius: float = 1.0, cells: str = "triangle", degree: int = 1
) -> MeshData:
    """The disk around the origin, with `boundary`.

    Args:
        comm: the MPI communicator.
        h: cell size.
        radius: of the disk.
        cells: `triangle` or `quadrilateral`.
        degree: of the geometry; 2 for curved cells, which second-order elements need for their full
            order.
    """
    return shape("disk", comm, h, cells, degree, radius=radius)


def annulus(
    comm: MPI.Comm,
    h: float,
    *,
    inner: float = 0.5,
    outer: float = 1.0,
    cells: str = "triangle",
    degree: int = 1,
) -> MeshData:
    """The ring between the circles `inner` and `outer` around the origin."""
    if not inner < outer:
        raise MeshError(f"the inner radius {inner} must be smaller than the outer radius {outer}")
    return shape("annulus", comm, h, cells, degree, inner=inner, outer=outer)


def channel(
    comm: MPI.Comm, h: float, *, ratio: float = 0.2, cells: str = "triangle", degree: int = 1
) -> MeshData:
    """The DFG channel 2.2×0.41 around a cylinder, with `inlet`, `outlet`, `walls`, `cylinder` and
    the cells `fluid`.

    Args:
        comm: the MPI communicator.
        h: cell size far from the cylinder.
        ratio: how much smaller cells are at the cylinder.
        cells: `triangle` or `quadrilateral`.
        degree: of the geometry; 2 for a curved cylinder.
    """
    return shape("channel", comm, h, cells, degree, ratio=ratio)


def box(comm: MPI.Comm, h: float, *, length: float = 1.0, cells: str = "tetrahedron") -> MeshData:
    """The box (0, length)³, with `left`, `right` (x), `front`, `back` (y), `bottom` and `top` (z).

    Args:
        comm: the MPI communicator.
        h: cell size.
        length: of an edge.
        cells: `tetrahedron`, or `hexahedron` for layers of an unstructured mesh of the bottom.
    """
    layers = max(1, round(length / h)) if cells == "hexahedron" and h > 0 else 0
    return shape("box", comm, h, cells, length=length, layers=layers)


def box_with_void(comm: MPI.Comm, h: float, *, radius: float = 0.25) -> MeshData:
    """The unit cube without a ball in its middle; its boundary is `outer` and `void`."""
    if not radius < 0.5:
        raise MeshError(f"the ball of radius {radius} does not fit into the unit cube")
    return shape("box_with_void", comm, h, radius=radius)


def torus(
    comm: MPI.Comm, h: float, *, major: float = 1.0, minor: float = 0.4, degree: int = 1
) -> MeshData:
    """The solid torus around the z axis, with `boundary`."""
    if not minor < major:
        raise MeshError(f"the minor radius {minor} must be smaller than the major radius {major}")
    return shape("torus", comm, h, degree=degree, major=major, minor=minor)
