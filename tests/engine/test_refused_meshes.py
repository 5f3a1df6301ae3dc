"""What is no mesh is refused in one sentence and never run: scripts, damaged files,
impossible geometry.
"""

import os
import re
import struct
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, given, settings
from mesh_support import measures, write_xdmf
from mpi4py import MPI

from cffem.engine.mesh import mesh_shapes
from cffem.engine.mesh.meshes import mesh_path, read_mesh
from cffem.engine.mesh.msh_format import MeshError, read_msh
from cffem.engine.mesh.raw_mesh import from_msh

pytestmark = pytest.mark.fem


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
def test_hostile_xdmf_files_are_refused(tmp_path, old, new, message):
    path = write_xdmf(tmp_path)
    os.symlink("/etc/hostname", tmp_path / "link.h5")
    text = re.sub(r"<!DOCTYPE[^>]*>", "", path.read_text())
    if "DOCTYPE" in new:
        text = text.replace(
            "<Xdmf",
            '<!DOCTYPE Xdmf SYSTEM "Xdmf.dtd" [<!ENTITY passwd SYSTEM '
            '"file:///etc/passwd">]>\n<Xdmf',
            1,
        )
    else:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    with pytest.raises(MeshError, match=message):
        read_mesh(path, MPI.COMM_SELF)


# --------------------------------------------------------------------------------------------------
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
    "more cells than fit": re.sub(
        rb"\$Elements\n(\d+) (\d+) ", rb"$Elements\n\1 999999999999 ", GOOD
    ),
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
    for name in (
        "mesh.msh.opt",
        "mesh.opt",
        "mesh.geo",
        "mesh.msh.pos",
        ".gmshrc",
        ".gmsh-options",
    ):
        Path(name).write_bytes(SCRIPT)
    assert read_mesh("mesh.msh", MPI.COMM_SELF).names
    assert not Path("executed").exists()


def test_what_is_not_a_file_is_refused(tmp_path, monkeypatch):
    for path in (tmp_path / "missing.msh", tmp_path, "/dev/zero"):
        with pytest.raises(MeshError):
            read_mesh(path, MPI.COMM_SELF)
    monkeypatch.setattr("cffem.engine.mesh.meshes.MAX_BYTES", 1000)
    with pytest.raises(MeshError, match="at most 1000"):
        read_mesh(mesh_path("square"), MPI.COMM_SELF)


@settings(
    max_examples=300, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
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
            content[place : place + 8] = data.draw(
                st.sampled_from([b"\xff" * 8, struct.pack("<q", 2**40), b"99999999"])
            )
        else:
            content[place : place + 1] = data.draw(
                st.sampled_from([b"9", b"-", b"nan ", b"0", b"\n", b"$"])
            )
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
                options = {
                    "Mesh.MshFileVersion": 2.2 if version == 2 else 4.1,
                    "Mesh.Binary": binary,
                }
                with mesh_shapes.gmsh_session(**options):
                    gmsh.merge(str(mesh_path("l_shape").with_suffix(".geo")))
                    gmsh.option.setNumber("Mesh.MeshSizeFactor", 8)
                    gmsh.model.mesh.generate(2)
                    gmsh.write(str(folder / "mesh.msh"))
                FORMATS[f"{'binary' if binary else 'text'}{version}"] = (
                    folder / "mesh.msh"
                ).read_bytes()
    return FORMATS


# --------------------------------------------------------------------------------------------------
# Impossible geometry


def msh(points, cells, groups="", kind=2, dimension=2):
    """A small MSH 2.2 file."""
    nodes = "\n".join(f"{i + 1} {' '.join(map(str, point))}" for i, point in enumerate(points))
    rows = "\n".join(
        f"{i + 1} {kind} 2 1 1 {' '.join(str(j + 1) for j in cell)}" for i, cell in enumerate(cells)
    )
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
    "several kinds": msh(CORNERS, [(0, 1, 2)]).replace(
        b"$Elements\n1\n", b"$Elements\n2\n7 3 2 1 1 1 2 3 4\n"
    ),
    "numbers two nodes alike": msh(CORNERS, [(0, 1, 2)]).replace(b"\n4 0 1 0", b"\n3 0 1 0"),
    "called 'a'": msh(
        CORNERS, [(0, 1, 2)], '$PhysicalNames\n2\n1 1 "a"\n2 1 "a"\n$EndPhysicalNames\n'
    ).replace(b"$Elements\n1\n", b"$Elements\n2\n7 1 2 1 1 1 2\n"),
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


@pytest.mark.parametrize(
    ("dry", "parts", "message"),
    [
        (
            [2, 3, 4],
            0,
            "belongs to the physical groups 'wet' and 'dry'; give every part to one group",
        ),
        ([3, 4], 2, "partitioned; save it"),
    ],
    ids=["groups that overlap", "partitioned"],
)
def test_files_of_gmsh_that_need_another_look_say_what_to_do(tmp_path, dry, parts, message):
    path = tmp_path / "mesh.msh"
    with mesh_shapes.gmsh_session() as gmsh:
        gmsh.model.occ.addRectangle(0, 0, 0, 1, 1)
        gmsh.model.occ.synchronize()
        for dimension, lines, name in ((2, [1], "pool"), (1, [1, 2], "wet"), (1, dry, "dry")):
            gmsh.model.addPhysicalGroup(dimension, lines, name=name)
        gmsh.model.mesh.generate(2)
        if parts:
            gmsh.model.mesh.partition(parts)
        gmsh.write(str(path))
    with pytest.raises(MeshError, match=message):
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
