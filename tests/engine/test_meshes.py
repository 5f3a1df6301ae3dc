"""Meshes: every shipped one has its names and measures on any number of ranks, whatever a
mesh is given as.
"""

import math
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import numpy as np
from dolfinx import mesh as dolfinx_mesh
from mesh_support import measures, write_xdmf
from mpi4py import MPI

from cffem.engine.collective import collectively
from cffem.engine.mesh import mesh_shapes
from cffem.engine.mesh.meshes import MeshData, mesh_path, read_mesh, read_raw
from cffem.engine.mesh.msh_format import MeshError, read_msh
from cffem.engine.mesh.raw_mesh import from_msh

pytestmark = pytest.mark.fem
PI = math.pi

# Exact measures, and the largest angle that a chord of the boundary spans: areas and volumes are
# then wrong by about angle²/6.
SHIPPED = {
    "interval": ({"domain": 1, "left": 1, "right": 1}, 0),
    "square": ({"domain": 1, "left": 1, "right": 1, "bottom": 1, "top": 1}, 0),
    "l_shape": ({"domain": 3, "corner": 2, "outer": 6}, 0),
    "disk": ({"domain": PI, "boundary": 2 * PI}, 0.1),
    "annulus": ({"domain": PI * (1 - 0.5**2), "inner": PI, "outer": 2 * PI}, 0.08 / 0.5),
    "channel": (
        {
            "fluid": 2.2 * 0.41 - PI * 0.05**2,
            "inlet": 0.41,
            "outlet": 0.41,
            "walls": 4.4,
            "cylinder": 0.1 * PI,
        },
        0.01 / 0.05,
    ),
    "box": (
        {"domain": 1, **dict.fromkeys(("left", "right", "front", "back", "bottom", "top"), 1)},
        0,
    ),
    "box_with_void": (
        {"domain": 1 - 4 / 3 * PI * 0.25**3, "outer": 6, "void": 4 * PI * 0.25**2},
        2 * PI / 14,
    ),
    "torus": ({"domain": 2 * PI**2 * 0.4**2, "boundary": 4 * PI**2 * 0.4}, 0.2 / 0.4),
}


def check_shipped(comm, name):
    data = read_mesh(mesh_path(name), comm)
    expected, angle = SHIPPED[name]
    found = measures(data)
    assert set(found) == set(expected)
    for part, value in expected.items():
        assert found[part] == pytest.approx(value, rel=angle**2 / 5 + 1e-12), part
    assert data.mesh.geometry.dim == data.mesh.topology.dim
    return data


def check_on_several_ranks(comm, folder):
    for name in SHIPPED:
        check_shipped(comm, name)
    check_xdmf_on_all_ranks(comm, folder)
    check_errors_are_collective(comm)
    check_nan_on_one_rank(comm)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_meshes_have_their_names_and_exact_measures(name):
    data = check_shipped(MPI.COMM_WORLD, name)
    assert 20 <= data.mesh.topology.index_map(data.mesh.topology.dim).size_global <= 5000
    assert mesh_path(name).stat().st_size < 300_000


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_meshes_names_and_errors_are_the_same_on_several_ranks(on_ranks, ranks, tmp_path):
    on_ranks(ranks, check_on_several_ranks, str(tmp_path))


def test_every_shipped_mesh_is_tested_and_has_a_source():
    folder = mesh_path("square").parent
    assert (
        {path.stem for path in folder.glob("*.msh")}
        == set(SHIPPED)
        == {path.stem for path in folder.glob("*.geo")}
    )


def test_the_script_makes_the_shipped_meshes(tmp_path):
    pytest.importorskip("gmsh")
    script = mesh_path("square").parent / "make_meshes.py"
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)], check=True, capture_output=True, timeout=120
    )
    for name in SHIPPED:
        made, shipped = (
            from_msh(read_msh(path.read_bytes()))
            for path in (tmp_path / f"{name}.msh", mesh_path(name))
        )
        assert made.names == shipped.names
        assert made.cell == shipped.cell
        # Another version of gmsh may place nodes differently, but not many more or fewer of them.
        assert len(made.cells) == pytest.approx(len(shipped.cells), rel=0.1)


# --------------------------------------------------------------------------------------------------
# Shapes

QUADRILATERALS = ["square", "l_shape", "disk", "annulus", "channel"]


@pytest.mark.parametrize("name", QUADRILATERALS)
def test_shapes_of_quadrilaterals_have_the_measures_of_triangles(name):
    pytest.importorskip("gmsh")
    data = getattr(mesh_shapes, name)(MPI.COMM_WORLD, 0.1, cells="quadrilateral")
    assert data.mesh.topology.cell_name() == "quadrilateral"
    expected, angle = SHIPPED[name]
    for part, value in measures(data).items():
        assert value == pytest.approx(expected[part], rel=4 * angle**2 / 5 + 1e-12), part


def test_a_box_of_hexahedra_has_its_measures():
    pytest.importorskip("gmsh")
    data = mesh_shapes.box(MPI.COMM_WORLD, 0.25, cells="hexahedron", length=2)
    assert data.mesh.topology.cell_name() == "hexahedron"
    found = measures(data)
    assert found.pop("domain") == pytest.approx(8, rel=1e-12)
    assert found == pytest.approx(
        dict.fromkeys(("left", "right", "front", "back", "bottom", "top"), 4), rel=1e-12
    )


@pytest.mark.parametrize(
    ("name", "part", "exact"), [("disk", "domain", PI), ("torus", "domain", 2 * PI**2 * 0.16)]
)
def test_curved_cells_converge_with_fourth_order(name, part, exact):
    pytest.importorskip("gmsh")
    sizes = (0.4, 0.2) if name == "disk" else (0.3, 0.15)
    straight, curved = (
        [
            abs(
                measures(getattr(mesh_shapes, name)(MPI.COMM_WORLD, h, degree=degree))[part] - exact
            )
            / exact
            for h in sizes
        ]
        for degree in (1, 2)
    )
    assert math.log2(straight[0] / straight[1]) > 1.6
    assert math.log2(curved[0] / curved[1]) > 3
    assert curved[1] < straight[1] / 20


def test_shapes_are_deterministic():
    pytest.importorskip("gmsh")
    first, second = (
        mesh_shapes.annulus(MPI.COMM_SELF, 0.2, inner=0.3).mesh.geometry.x for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_shapes_leave_a_session_of_gmsh_alone():
    gmsh = pytest.importorskip("gmsh")
    gmsh.initialize(readConfigFiles=False)
    try:
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.123)
        gmsh.model.add("mine")
        mesh_shapes.box(MPI.COMM_SELF, 0.5)
        assert gmsh.isInitialized()
        assert gmsh.model.getCurrent() == "mine"
        assert gmsh.model.list() == ["", "mine"]
        assert gmsh.option.getNumber("Mesh.MeshSizeMax") == 0.123
    finally:
        gmsh.finalize()


@pytest.mark.parametrize(
    "make",
    [
        lambda: mesh_shapes.square(MPI.COMM_SELF, 0),
        lambda: mesh_shapes.square(MPI.COMM_SELF, -1),
        lambda: mesh_shapes.square(MPI.COMM_SELF, float("nan")),
        lambda: mesh_shapes.square(MPI.COMM_SELF, 1e-6),
        lambda: mesh_shapes.box(MPI.COMM_SELF, 1e-4),
        lambda: mesh_shapes.square(MPI.COMM_SELF, 0.5, cells="hexagon"),
        lambda: mesh_shapes.disk(MPI.COMM_SELF, 0.5, degree=7),
        lambda: mesh_shapes.disk(MPI.COMM_SELF, 0.5, radius=float("inf")),
        lambda: mesh_shapes.annulus(MPI.COMM_SELF, 0.5, inner=2),
        lambda: mesh_shapes.torus(MPI.COMM_SELF, 0.5, minor=2),
        lambda: mesh_shapes.box_with_void(MPI.COMM_SELF, 0.5, radius=0.6),
    ],
)
def test_impossible_shapes_are_refused(make):
    with pytest.raises(MeshError):
        make()


# --------------------------------------------------------------------------------------------------
# What a mesh can be given as


def test_meshes_and_mesh_data_pass_through():
    mesh = dolfinx_mesh.create_unit_square(MPI.COMM_WORLD, 2, 2)
    data = read_mesh(mesh)
    assert data.mesh is mesh
    assert read_mesh(data) is data
    assert data.names == {}
    with pytest.raises(MeshError, match="not int"):
        read_mesh(3)


def test_names_are_looked_up():
    data = read_mesh(str(mesh_path("channel")), MPI.COMM_SELF)
    assert data.tag("cylinder", 1) == data.names["cylinder"][1]
    with pytest.raises(MeshError, match="did you mean 'cylinder'"):
        data.tag("cylindre", 1)
    with pytest.raises(MeshError, match="no part 'fluid' of dimension 1"):
        data.tag("fluid", 1)
    with pytest.raises(MeshError, match="there is no shipped mesh 'squar'"):
        mesh_path("squar")


@pytest.mark.parametrize("version", [2.2, 4.1])
@pytest.mark.parametrize("binary", [0, 1])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_all_formats_are_read_like_gmsh_reads_them(tmp_path, version, binary, degree):
    gmsh = pytest.importorskip("gmsh")
    path = tmp_path / "mesh.msh"
    options = {"Mesh.MshFileVersion": version, "Mesh.Binary": binary, "Mesh.ElementOrder": degree}
    with mesh_shapes.gmsh_session(**options):
        gmsh.parser.setNumber("h", [0.4])
        gmsh.merge(str(mesh_path("annulus").with_suffix(".geo")))
        gmsh.model.mesh.generate(2)
        gmsh.write(str(path))
        tags, points, _ = gmsh.model.mesh.getNodes()
        place = dict(zip(tags, points.reshape(-1, 3).round(10), strict=True))
        _, _, nodes = gmsh.model.mesh.getElements(2)
    raw = read_raw(path)
    expected = {
        tuple(tuple(place[node][:2]) for node in row)
        for row in nodes[0].reshape(-1, raw.cells.shape[1])
    }
    assert {tuple(tuple(raw.points[i].round(10)) for i in row) for row in raw.cells} == expected
    assert raw.names == {"domain": (2, 1), "inner": (1, 2), "outer": (1, 3)}
    found = measures(read_mesh(path, MPI.COMM_SELF))
    assert found["outer"] == pytest.approx(2 * PI, rel={1: 0.02, 2: 1e-3, 3: 1e-4}[degree])


def test_an_xdmf_file_is_read_with_its_names(tmp_path):
    data = read_mesh(write_xdmf(tmp_path), MPI.COMM_SELF)
    assert data.names == {"7": (1, 7)}
    assert measures(data)["7"] == pytest.approx(1)
    assert data.mesh.topology.index_map(2).size_global == 18


def check_xdmf_on_all_ranks(comm, folder):
    if comm.rank == 0:
        write_xdmf(Path(folder))
    comm.barrier()
    data = read_mesh(Path(folder) / "mesh.xdmf", comm)
    assert data.names == {"7": (1, 7)}
    assert measures(data)["7"] == pytest.approx(1)
    with pytest.raises(MeshError):
        read_mesh(Path(folder) / "nothing.xdmf", comm)


# --------------------------------------------------------------------------------------------------
# Errors on all ranks


def check_errors_are_collective(comm):
    with pytest.raises(MeshError, match="cannot be read"):
        read_mesh("/nowhere/mesh.msh", comm)
    with pytest.raises(ZeroDivisionError):
        collectively(comm, lambda: 1 / 0)

    class Local(Exception):
        def __init__(self, one, two):
            super().__init__(one)

    def fail():
        raise Local("one", "two")

    with pytest.raises((Local, RuntimeError), match="one"):
        collectively(comm, fail)
    assert collectively(comm, lambda: 42) == (42 if comm.rank == 0 else None)


def test_errors_reach_a_single_rank_too():
    check_errors_are_collective(MPI.COMM_SELF)
    check_nan_on_one_rank(MPI.COMM_SELF)


def test_degenerate_cells_of_a_dolfinx_mesh_are_refused():
    mesh = dolfinx_mesh.create_unit_cube(MPI.COMM_SELF, 2, 2, 2)
    mesh.geometry.x[:, 2] = 0
    with pytest.raises(MeshError, match="degenerate"):
        read_mesh(mesh)


def check_nan_on_one_rank(comm):
    mesh = dolfinx_mesh.create_unit_square(comm, 4, 4)
    if comm.rank == comm.size - 1:
        mesh.geometry.x[0, 0] = np.nan
    with pytest.raises(MeshError, match="not finite"):
        read_mesh(mesh)


def check_more_ranks_than_cells(comm):
    pytest.importorskip("gmsh")
    data = mesh_shapes.square(comm, 1.0)
    assert isinstance(data, MeshData)
    assert measures(data)["domain"] == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.mpi
def test_a_shape_with_fewer_cells_than_ranks_is_made(on_ranks):
    on_ranks(5, check_more_ranks_than_cells)


def test_an_interval_may_start_anywhere():
    data = mesh_shapes.interval(MPI.COMM_SELF, 0.25, length=2.0, origin=-1.5)
    places = data.mesh.geometry.x[:, 0]
    assert (places.min(), places.max()) == pytest.approx((-1.5, 0.5))
    with pytest.raises(MeshError, match="origin must be a finite number"):
        mesh_shapes.interval(MPI.COMM_SELF, 0.25, origin=float("nan"))
