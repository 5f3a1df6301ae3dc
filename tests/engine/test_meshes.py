"""Meshes: every shipped one has its names and measures on any number of ranks; what is no mesh is refused and never run."""

import math
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import hypothesis.strategies as st
import numpy as np
import ufl
from dolfinx import fem, io
from dolfinx import mesh as dolfinx_mesh
from hypothesis import HealthCheck, given, settings
from mpi4py import MPI

from cffem.engine import mesh_shapes
from cffem.engine.collective import collectively
from cffem.engine.meshes import MeshData, mesh_path, read_mesh, read_raw
from cffem.engine.msh_format import MeshError, read_msh
from cffem.engine.raw_mesh import from_msh

pytestmark = pytest.mark.fem
PI = math.pi

# Exact measures, and the largest angle that a chord of the boundary spans: areas and volumes are then wrong by about angle²/6.
SHIPPED = {
    "interval": ({"domain": 1, "left": 1, "right": 1}, 0),
    "square": ({"domain": 1, "left": 1, "right": 1, "bottom": 1, "top": 1}, 0),
    "l_shape": ({"domain": 3, "corner": 2, "outer": 6}, 0),
    "disk": ({"domain": PI, "boundary": 2 * PI}, 0.1),
    "annulus": ({"domain": PI * (1 - 0.5**2), "inner": PI, "outer": 2 * PI}, 0.08 / 0.5),
    "channel": (
        {"fluid": 2.2 * 0.41 - PI * 0.05**2, "inlet": 0.41, "outlet": 0.41, "walls": 4.4, "cylinder": 0.1 * PI},
        0.01 / 0.05,
    ),
    "box": ({"domain": 1, **dict.fromkeys(("left", "right", "front", "back", "bottom", "top"), 1)}, 0),
    "box_with_void": ({"domain": 1 - 4 / 3 * PI * 0.25**3, "outer": 6, "void": 4 * PI * 0.25**2}, 2 * PI / 14),
    "torus": ({"domain": 2 * PI**2 * 0.4**2, "boundary": 4 * PI**2 * 0.4}, 0.2 / 0.4),
}


def measures(data):
    """Length, area or volume of every named part."""
    mesh = data.mesh
    one = fem.Constant(mesh, 1.0)
    dx = ufl.Measure("dx", domain=mesh, subdomain_data=data.cell_tags)
    ds = ufl.Measure("ds", domain=mesh, subdomain_data=data.facet_tags)
    found = {}
    for name, (dimension, tag) in data.names.items():
        form = fem.form(one * (dx(tag) if dimension == mesh.topology.dim else ds(tag)))
        found[name] = mesh.comm.allreduce(fem.assemble_scalar(form))
    return found


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
def test_shipped_meshes(name):
    data = check_shipped(MPI.COMM_WORLD, name)
    assert 20 <= data.mesh.topology.index_map(data.mesh.topology.dim).size_global <= 5000
    assert mesh_path(name).stat().st_size < 300_000


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_on_several_ranks(on_ranks, ranks, tmp_path):
    on_ranks(ranks, check_on_several_ranks, str(tmp_path))


def test_every_shipped_mesh_is_tested_and_has_a_source():
    folder = mesh_path("square").parent
    assert {path.stem for path in folder.glob("*.msh")} == set(SHIPPED) == {path.stem for path in folder.glob("*.geo")}


def test_the_script_makes_the_shipped_meshes(tmp_path):
    pytest.importorskip("gmsh")
    script = mesh_path("square").parent / "make_meshes.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True, timeout=120)
    for name in SHIPPED:
        made, shipped = (from_msh(read_msh(path.read_bytes())) for path in (tmp_path / f"{name}.msh", mesh_path(name)))
        assert made.names == shipped.names
        assert made.cell == shipped.cell
        # Another version of gmsh may place nodes differently, but not many more or fewer of them.
        assert len(made.cells) == pytest.approx(len(shipped.cells), rel=0.1)


# ----------------------------------------------------------------------------------------------------------------------
# Shapes

QUADRILATERALS = ["square", "l_shape", "disk", "annulus", "channel"]


@pytest.mark.parametrize("name", QUADRILATERALS)
def test_quadrilaterals(name):
    pytest.importorskip("gmsh")
    data = getattr(mesh_shapes, name)(MPI.COMM_WORLD, 0.1, cells="quadrilateral")
    assert data.mesh.topology.cell_name() == "quadrilateral"
    expected, angle = SHIPPED[name]
    for part, value in measures(data).items():
        assert value == pytest.approx(expected[part], rel=4 * angle**2 / 5 + 1e-12), part


def test_hexahedra():
    pytest.importorskip("gmsh")
    data = mesh_shapes.box(MPI.COMM_WORLD, 0.25, cells="hexahedron", length=2)
    assert data.mesh.topology.cell_name() == "hexahedron"
    found = measures(data)
    assert found.pop("domain") == pytest.approx(8, rel=1e-12)
    assert found == pytest.approx(dict.fromkeys(("left", "right", "front", "back", "bottom", "top"), 4), rel=1e-12)


@pytest.mark.parametrize(("name", "part", "exact"), [("disk", "domain", PI), ("torus", "domain", 2 * PI**2 * 0.16)])
def test_curved_cells_converge_with_fourth_order(name, part, exact):
    pytest.importorskip("gmsh")
    sizes = (0.4, 0.2) if name == "disk" else (0.3, 0.15)
    straight, curved = (
        [abs(measures(getattr(mesh_shapes, name)(MPI.COMM_WORLD, h, degree=degree))[part] - exact) / exact for h in sizes]
        for degree in (1, 2)
    )
    assert math.log2(straight[0] / straight[1]) > 1.6
    assert math.log2(curved[0] / curved[1]) > 3
    assert curved[1] < straight[1] / 20


def test_shapes_are_deterministic():
    pytest.importorskip("gmsh")
    first, second = (mesh_shapes.annulus(MPI.COMM_SELF, 0.2, inner=0.3).mesh.geometry.x for _ in range(2))
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


# ----------------------------------------------------------------------------------------------------------------------
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
    expected = {tuple(tuple(place[node][:2]) for node in row) for row in nodes[0].reshape(-1, raw.cells.shape[1])}
    assert {tuple(tuple(raw.points[i].round(10)) for i in row) for row in raw.cells} == expected
    assert raw.names == {"domain": (2, 1), "inner": (1, 2), "outer": (1, 3)}
    found = measures(read_mesh(path, MPI.COMM_SELF))
    assert found["outer"] == pytest.approx(2 * PI, rel={1: 0.02, 2: 1e-3, 3: 1e-4}[degree])


def write_xdmf(folder):
    mesh = dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 3, 3)
    mesh.name = "square"
    mesh.topology.create_connectivity(1, 2)
    left = dolfinx_mesh.locate_entities_boundary(mesh, 1, lambda points: np.isclose(points[0], 0))
    tags = dolfinx_mesh.meshtags(mesh, 1, np.sort(left), np.full(len(left), 7, dtype=np.int32))
    tags.name = "sides"
    with io.XDMFFile(MPI.COMM_SELF, folder / "mesh.xdmf", "w") as file:
        file.write_mesh(mesh)
        file.write_meshtags(tags, mesh.geometry)
    return folder / "mesh.xdmf"


def test_xdmf(tmp_path):
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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mesh.h5:", "../mesh.h5:", "outside its own folder"),
        ("mesh.h5:", "/etc/passwd:", "outside its own folder"),
        ("mesh.h5:", "link.h5:", "outside its own folder"),
        ("mesh.h5:", "missing.h5:", "not there"),
        ("mesh.h5:", "mesh.xdmf:", "not HDF5"),
        ('Format="HDF"', 'Format="Binary"', "not in HDF5"),
        ("<!DOCTYPE Xdmf SYSTEM", "<!DOCTYPE Xdmf SYSTEM", "document type"),
        ("<Domain>", "<Domain>&passwd;", "not XML"),
        ("</Xdmf>", "", "not XML"),
        ("<Xdmf", "<Html", "not XML|not XDMF"),
        ('Dimensions="18 3"', 'Dimensions="99999999999 3"', "too large"),
        ("Topology", "Typology", "no mesh"),
        ("/Mesh/square/topology", "/Mesh/square/nothing", "cannot be read"),
    ],
)
def test_hostile_xdmf(tmp_path, old, new, message):
    path = write_xdmf(tmp_path)
    os.symlink("/etc/hostname", tmp_path / "link.h5")
    text = re.sub(r"<!DOCTYPE[^>]*>", "", path.read_text())
    if "DOCTYPE" in new:
        text = text.replace("<Xdmf", '<!DOCTYPE Xdmf SYSTEM "Xdmf.dtd" [<!ENTITY passwd SYSTEM "file:///etc/passwd">]>\n<Xdmf', 1)
    else:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    with pytest.raises(MeshError, match=message):
        read_mesh(path, MPI.COMM_SELF)


# ----------------------------------------------------------------------------------------------------------------------
# What is no mesh

SCRIPT = b'SystemCall "touch executed";\n'
GOOD = mesh_path("square").read_bytes()
HOSTILE = {
    "a script": SCRIPT,
    "a script after blanks": b"\n  $MeshFormat\n" + SCRIPT,
    "a script after the first line": b"$MeshFormat\n" + SCRIPT,
    "a script after the header": b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n" + SCRIPT,
    "a script in the header": b"$MeshFormat\n4.1 0 8\n" + SCRIPT + b"$EndMeshFormat\n",
    "a script after the mesh": GOOD + SCRIPT,
    "a script between sections": GOOD.replace(b"$Nodes", SCRIPT + b"$Nodes"),
    "a script among nodes": GOOD.replace(b"$EndNodes", SCRIPT + b"$EndNodes"),
    "python": b"import os\nos.system('touch executed')\n",
    "nothing": b"",
    "only the header": b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n",
    "another version": GOOD.replace(b"4.1 0 8", b"9.9 0 8", 1),
    "binary junk": bytes(range(256)) * 40,
    "binary junk after the header": b"$MeshFormat\n4.1 1 8\n"
    + struct.pack("<i", 1)
    + b"\n$EndMeshFormat\n$Nodes\n"
    + bytes(range(256)) * 9,
    "another byte order": b"$MeshFormat\n4.1 1 8\n" + struct.pack(">i", 1) + b"\n$EndMeshFormat\n",
    "half of a mesh": GOOD[: len(GOOD) // 2],
    "a mesh without its end": GOOD[:-20],
    "more nodes than there are": re.sub(rb"\$Nodes\n(\d+) ", rb"$Nodes\n999999999999 ", GOOD),
    "more cells than fit": re.sub(rb"\$Elements\n(\d+) (\d+) ", rb"$Elements\n\1 999999999999 ", GOOD),
    "a negative count": re.sub(rb"\$Nodes\n(\d+) ", rb"$Nodes\n-1 ", GOOD),
    "an unknown element": re.sub(rb"(\$Elements\n[^\n]*\n\d+ \d+) \d+ ", rb"\1 99 ", GOOD),
    "html": b"<html><script>alert(1)</script></html>",
    "xml": b"<?xml version='1.0'?><a/>",
    "hdf5": b"\x89HDF\r\n\x1a\n" + b"\0" * 100,
    "a number that is a word": GOOD.replace(b"\n1 0 0\n", b"\n1 zero 0\n", 1),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused_and_not_run(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    Path("mesh.msh").write_bytes(HOSTILE[kind])
    with pytest.raises(MeshError) as caught:
        read_mesh("mesh.msh", MPI.COMM_SELF)
    assert "\n" not in str(caught.value)
    assert os.listdir() == ["mesh.msh"]


def test_scripts_beside_a_mesh_are_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mesh.msh").write_bytes(GOOD)
    for name in ("mesh.msh.opt", "mesh.opt", "mesh.geo", "mesh.msh.pos", ".gmshrc", ".gmsh-options"):
        Path(name).write_bytes(SCRIPT)
    assert read_mesh("mesh.msh", MPI.COMM_SELF).names
    assert not Path("executed").exists()


def test_what_is_not_a_file_is_refused(tmp_path, monkeypatch):
    for path in (tmp_path / "missing.msh", tmp_path, "/dev/zero"):
        with pytest.raises(MeshError):
            read_mesh(path, MPI.COMM_SELF)
    monkeypatch.setattr("cffem.engine.meshes.MAX_BYTES", 1000)
    with pytest.raises(MeshError, match="at most 1000"):
        read_mesh(mesh_path("square"), MPI.COMM_SELF)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory, data):
    name = data.draw(st.sampled_from(["text2", "binary2", "text4", "binary4"]))
    content = bytearray(formats(tmp_path_factory)[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(12, max(12, len(content) - 9)))
        kind = data.draw(st.sampled_from(["cut", "byte", "remove", "huge", "digit"]))
        if kind == "cut":
            del content[place + 9 :]
        elif kind == "byte":
            content[place : place + 1] = [data.draw(st.integers(0, 255))]
        elif kind == "remove":
            del content[place : place + data.draw(st.integers(1, 8))]
        elif kind == "huge":
            content[place : place + 8] = data.draw(st.sampled_from([b"\xff" * 8, struct.pack("<q", 2**40), b"99999999"]))
        else:
            content[place : place + 1] = data.draw(st.sampled_from([b"9", b"-", b"nan ", b"0", b"\n", b"$"]))
    try:
        raw = from_msh(read_msh(bytes(content)))
    except MeshError:
        return
    assert np.isfinite(raw.points).all()
    assert raw.cells.min() >= 0
    assert raw.cells.max() < len(raw.points)


FORMATS: dict[str, bytes] = {}


def formats(factory):
    """The same mesh in every format, made once."""
    if not FORMATS:
        gmsh = pytest.importorskip("gmsh")
        folder = factory.mktemp("formats")
        for version in (2, 4):
            for binary in (0, 1):
                options = {"Mesh.MshFileVersion": 2.2 if version == 2 else 4.1, "Mesh.Binary": binary}
                with mesh_shapes.gmsh_session(**options):
                    gmsh.merge(str(mesh_path("l_shape").with_suffix(".geo")))
                    gmsh.option.setNumber("Mesh.MeshSizeFactor", 8)
                    gmsh.model.mesh.generate(2)
                    gmsh.write(str(folder / "mesh.msh"))
                FORMATS[f"{'binary' if binary else 'text'}{version}"] = (folder / "mesh.msh").read_bytes()
    return FORMATS


# ----------------------------------------------------------------------------------------------------------------------
# Impossible geometry


def msh(points, cells, groups="", kind=2, dimension=2):
    """A small MSH 2.2 file."""
    nodes = "\n".join(f"{i + 1} {' '.join(map(str, point))}" for i, point in enumerate(points))
    rows = "\n".join(f"{i + 1} {kind} 2 1 1 {' '.join(str(j + 1) for j in cell)}" for i, cell in enumerate(cells))
    return (
        f"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n{groups}$Nodes\n{len(points)}\n{nodes}\n$EndNodes\n"
        f"$Elements\n{len(cells)}\n{rows}\n$EndElements\n"
    ).encode()


CORNERS = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 0.5, 0), (2, 2, 0)]
IMPOSSIBLE = {
    "not finite": msh([*CORNERS[:3], ("nan", 1, 0)], [(0, 1, 2), (0, 2, 3)]),
    "not finite ": msh([*CORNERS[:3], (0, "inf", 0)], [(0, 1, 2), (0, 2, 3)]),
    "degenerate": msh(CORNERS, [(0, 1, 2), (0, 4, 2)]),
    "degenerate or inverted": msh(CORNERS, [(0, 2, 1, 3)], kind=3),
    "folds over itself": msh(CORNERS, [(0, 1, 2), (0, 1, 4)]),
    "more than two cells": msh(CORNERS, [(0, 1, 2), (0, 2, 3), (0, 2, 5 - 2)]),
    "nodes that it does not contain": msh(CORNERS, [(0, 1, 7)]),
    "no cells": msh(CORNERS, [(0,), (1,)], kind=15),
    "lie in a space of dimension 1": msh([(0, 0, 0), (1, 0, 0), (2, 0, 0)], [(0, 1, 2)]),
    "several kinds": msh(CORNERS, [(0, 1, 2)]).replace(b"$Elements\n1\n", b"$Elements\n2\n7 3 2 1 1 1 2 3 4\n"),
    "numbers two nodes alike": msh(CORNERS, [(0, 1, 2)]).replace(b"\n4 0 1 0", b"\n3 0 1 0"),
    "called 'a'": msh(CORNERS, [(0, 1, 2)], '$PhysicalNames\n2\n1 1 "a"\n2 1 "a"\n$EndPhysicalNames\n').replace(
        b"$Elements\n1\n", b"$Elements\n2\n7 1 2 1 1 1 2\n"
    ),
    "belongs to two physical groups": msh(CORNERS, [(0, 1, 2)]).replace(
        b"$Elements\n1\n", b"$Elements\n3\n7 1 2 1 1 1 2\n8 1 2 2 1 2 1\n"
    ),
}


@pytest.mark.parametrize("reason", IMPOSSIBLE)
def test_impossible_geometry_is_refused(tmp_path, reason):
    path = tmp_path / "mesh.msh"
    path.write_bytes(IMPOSSIBLE[reason])
    with pytest.raises(MeshError, match=reason.strip()):
        read_mesh(path, MPI.COMM_SELF)


def test_orientation_does_not_matter(tmp_path):
    path = tmp_path / "mesh.msh"
    path.write_bytes(msh(CORNERS, [(0, 1, 2), (0, 3, 2)]))
    data = read_mesh(path, MPI.COMM_SELF)
    assert measures(data) == {"1": pytest.approx(1)}
    assert data.mesh.geometry.dim == 2


def test_a_surface_in_space_keeps_three_coordinates(tmp_path):
    path = tmp_path / "mesh.msh"
    path.write_bytes(msh([(0, 0, 0), (1, 0, 0), (1, 1, 1), (0, 1, 0)], [(0, 1, 2), (0, 2, 3)]))
    data = read_mesh(path, MPI.COMM_SELF)
    assert (data.mesh.geometry.dim, data.mesh.topology.dim) == (3, 2)


# ----------------------------------------------------------------------------------------------------------------------
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


def test_errors():
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
def test_more_ranks_than_cells(on_ranks):
    on_ranks(5, check_more_ranks_than_cells)
