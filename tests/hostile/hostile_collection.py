"""The hostile collection: studies from strangers that must be refused, each a folder with
`study.toml` and what lies beside it.

`CASES` maps a name to a function that fills the folder. Targets outside are `../outside/…` in the
folder above the cases: a file with a secret, and a pipe that whoever opens it waits at for ever.
"""

# ruff: noqa: E501  files are written as they are
from __future__ import annotations

import json
import os
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

STUDY = """
[fields]
u = "scalar"
[library]
anchor = "dt(u)"
[library.terms]
lap = "lap(u)"
[coefficients]
lap = 0.1
[[experiments]]
mesh = { shape = "interval", h = 0.25 }
elements = { u = ["Lagrange", 1] }
initial = { u = "sin(pi*x)" }
boundary = [{ type = "Dirichlet", field = "u", value = 0 }]
time = { end = 0.1, steps = 2 }
"""
MESH = 'mesh = { shape = "interval", h = 0.25 }'
CASES: dict[str, Callable[[Path], None]] = {}


def changed(old: str, new: str) -> Callable[[Path], None]:
    """The study with one place replaced."""
    assert old in STUDY, old

    def fill(folder: Path) -> None:
        (folder / "study.toml").write_text(STUDY.replace(old, new), encoding="utf-8")

    return fill


def raw(content: str | bytes) -> Callable[[Path], None]:
    """A file that is not the study at all."""

    def fill(folder: Path) -> None:
        (folder / "study.toml").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )

    return fill


def quoted(text: str) -> str:
    """Text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def add(kind: str, cases: dict[str, Callable[[Path], None]]) -> None:
    CASES.update(
        {
            f"{kind}-{number:03d}-{re.sub('[^A-Za-z0-9]+', '-', name)[:40]}": case
            for number, (name, case) in enumerate(cases.items())
        }
    )


# Structure
# --------------------------------------------------------------------------------------------------

add(
    "toml",
    {
        "dotted key of 80 KB": raw("a." * 40_000 + "b = 1\n" + STUDY),
        "quoted dotted key": raw('"a".' * 40_000 + "b = 1\n"),
        "dotted key with blanks": raw("a . " * 40_000 + "b = 1\n"),
        "dotted header": raw("[" + "a." * 40_000 + "b]\n"),
        "dotted header of tables": raw("[[" + "a." * 40_000 + "b]]\n"),
        "nested lists": raw("x = " + "[" * 400_000),
        "nested closed lists": raw("x = " + "[" * 300 + "]" * 300 + STUDY),
        "nested tables": raw("x = " + "{a=" * 100_000),
        "dotted inside a table": raw("x = {" + "a." * 40_000 + "b = 1}\n"),
        "many keys": raw("".join(f"a{k} = 1\n" for k in range(90_000))),
        "many tables": raw("[[a]]\n" * 160_000),
        "many deep keys": raw("".join("a." * 18 + f"b{k} = 1\n" for k in range(20_000))),
        "many deep different keys": raw(
            "".join(f"k{k}." + "a." * 18 + "b = 1\n" for k in range(18_000))
        ),
        "too large": raw(STUDY + "#" * 1_100_000),
        "not text": raw(bytes(range(256)) * 40),
        "null bytes": raw("a = 1\0\n"),
        "utf-16": raw(STUDY.encode("utf-16")),
        "nothing": raw(""),
        "an escape sequence": raw('x = "\x1b[2J"'),
        "number of 100,000 digits": raw("x = " + "9" * 100_000),
        "string without end": raw('x = """' + "a" * 900_000),
        "quotes": raw('"' * 900_000),
        "backslashes": raw('x = "' + "\\" * 900_000),
        "a key twice": raw(STUDY.replace("[coefficients]", "[fields]")),
        "python": raw("import os\nos.system('touch executed')\n"),
        "yaml": raw("!!python/object/apply:os.system ['touch executed']\n"),
        "a wide list": changed("time = {", f"x = [{'1,' * 400_000}]\ntime = {{"),
    },
)


def study_is(make: Callable[[Path], None]) -> Callable[[Path], None]:
    return lambda folder: make(folder / "study.toml")


add(
    "study",
    {
        "is a pipe": study_is(os.mkfifo),
        "is a folder": study_is(os.mkdir),
        "is a device": study_is(lambda path: path.symlink_to("/dev/zero")),
        "is a circle": study_is(lambda path: path.symlink_to(path)),
        "is missing": lambda folder: None,
    },
)

# Words and numbers
# --------------------------------------------------------------------------------------------------

STRINGS = json.loads((Path(__file__).parents[1] / "symbols" / "hostile_strings.json").read_text())
add(
    "expression",
    {f"term {k}": changed('"lap(u)"', quoted(text)) for k, text in enumerate(STRINGS[:40])},
)
add(
    "initial",
    {f"value {k}": changed('"sin(pi*x)"', quoted(text)) for k, text in enumerate(STRINGS[40:70])},
)

OPTIONS = {
    "ksp_max_it": "2000000000",
    "ksp_gmres_restart": "100000000",
    "pc_factor_levels": "1000000",
    "pc_factor_fill": "1e300",
    "pc_asm_overlap": "1000000",
    "mat_mumps_icntl_14": "2000000000",
    "pc_sor_its": "2000000000",
    "ksp_rtol": "-1",
    "ksp_atol": "nan",
    "dll_append": '"./libevil"',
    "log_view": '":../outside/secret"',
    "options_file": '"options"',
    "pc_type": '"python"',
    "ksp_type": '"python"',
    "pc_python_type": '"os"',
    "ksp_monitor": '"ascii:../outside/secret"',
    "mat_view": '"::load"',
    "info": '"../outside/secret"',
    "on_error_attach_debugger": '"gdb"',
    "start_in_debugger": "true",
    "malloc_dump": "true",
    "sub_pc_type": '"shell"',
    "fieldsplit_0_ksp_view": '""',
    "snes_type": '"python"',
    "prefix_push": '"x"',
    "help": "true",
    "preset": '"evil"',
    "pc_factor_mat_solver_type": '"../evil"',
    "mat_mumps_ooc_tmpdir": '"/etc"',
    "ksp_converged_reason": "1",
    "pc_hypre_type": "[1, 2]",
    "viewer_binary_filename": '"../outside/x"',
    "saws": "true",
    "dm_plex_filename": '"/etc/passwd"',
}
add(
    "petsc",
    {
        key: raw(f"petsc_options = {{ {key} = {value} }}\n" + STUDY)
        for key, value in OPTIONS.items()
    },
)
add(
    "petsc",
    {"a key of 100,000 letters": raw(f"petsc_options = {{ {'sub_' * 25_000}x = 1 }}\n" + STUDY)},
)

add(
    "number",
    {
        "steps": changed("steps = 2", "steps = 1000000000"),
        "steps of 300 digits": changed("steps = 2", "steps = " + "9" * 300),
        "end is nan": changed("end = 0.1", "end = nan"),
        "end is inf": changed("end = 0.1", "end = inf"),
        "end before start": changed("end = 0.1", "end = -1"),
        "degree": changed('"Lagrange", 1', '"Lagrange", 99'),
        "degree is negative": changed('"Lagrange", 1', '"Lagrange", -1'),
        "degree is a flag": changed('"Lagrange", 1', '"Lagrange", true'),
        "element": changed('"Lagrange"', '"__import__"'),
        "element is Python": changed('"Lagrange"', '"os.system"'),
        "coefficient": changed("lap = 0.1", "lap = " + "9" * 5000),
        "coefficient is text": changed("lap = 0.1", 'lap = "__class__"'),
        "radius 1e-300": raw(
            STUDY + '[observables.p]\ntype = "PointAverage"\nexpr = "u"\npoint = [0.5]\nradius = '
            "1e-300\nepsilon = 1\n"
        ),
        "radius 0": raw(
            STUDY + '[observables.p]\ntype = "PointAverage"\nexpr = "u"\npoint = [0.5]\nradius = '
            "0\nepsilon = 1\n"
        ),
        "a point elsewhere": raw(
            STUDY + '[observables.p]\ntype = "PointAverage"\nexpr = "u"\npoint = [5e300]\nradius '
            "= "
            "1\nepsilon = 1\n"
        ),
        "an observable of a class": raw(
            STUDY + '[observables.p]\ntype = "__class__"\nexpr = "u"\nepsilon = 1\n'
        ),
        "epsilon": raw(STUDY + "[certification]\nepsilon = -1\n"),
        "a component": changed('field = "u"', 'field = "u[1]"'),
        "a component of 5,000 digits": changed('field = "u"', f'field = "u[{"9" * 5000}]"'),
        "seed": raw("seed = -1\n" + STUDY),
        "scheme": changed("steps = 2", "steps = 2, scheme = \"__import__('os')\""),
    },
)

LONG = "n" * 5000
add(
    "name",
    {
        "a field of 5,000 letters": changed('u = "scalar"', f'u = "scalar"\n{LONG} = "vector"'),
        "a key of 5,000 letters": raw(f"{LONG} = 1\n" + STUDY),
        "a part of 5,000 letters": changed("value = 0 }", f'value = 0, on = "{LONG}" }}'),
        "a path of 5,000 letters": changed(MESH, f'mesh = "{LONG}.msh"'),
        "a shape of 5,000 letters": changed('"interval"', f'"{LONG}"'),
        "an expression of 5,000 letters": changed('"lap(u)"', f'"{LONG}"'),
        "a dunder": changed('u = "scalar"', '__class__ = "scalar"'),
        "a keyword": changed('u = "scalar"', 'lambda = "scalar"'),
        "a sentence": changed('u = "scalar"', '"u; import os" = "scalar"'),
        "an escape sequence": changed('field = "u"', 'field = "\\u001b[2J\\u001b]0;x\\u0007"'),
        "right to left": changed('field = "u"', 'field = "\\u202eu"'),
        "no name": changed('u = "scalar"', '"" = "scalar"'),
        "a null byte in a path": changed(MESH, 'mesh = "a\\u0000.msh"'),
    },
)

# Paths
# --------------------------------------------------------------------------------------------------

add(
    "path",
    {
        name: changed(MESH, f"mesh = {quoted(path)}")
        for name, path in {
            "above": "../outside/secret",
            "absolute": "/etc/passwd",
            "a device": "/dev/zero",
            "home": "~/mesh.msh",
            "folder": ".",
            "above and back": "../../../../../../../../etc/passwd",
            "network": "http://127.0.0.1:9/mesh.msh",
            "memory": "/proc/self/mem",
            "file": "file:///etc/passwd",
            "environment": "$HOME/mesh.msh",
            "itself": "study.toml",
            "empty": "",
            "pipe outside": "../outside/pipe",
        }.items()
    },
)


def beside(
    name: str, make: Callable[[Path], object], old: str = MESH, new: str | None = None
) -> Callable[[Path], None]:
    """The study that names a file, and that file."""

    def fill(folder: Path) -> None:
        make(folder / name)
        changed(old, f'mesh = "{name}"' if new is None else new)(folder)

    return fill


add(
    "file",
    {
        "a pipe": beside("mesh.msh", os.mkfifo),
        "a link outside": beside("mesh.msh", lambda path: path.symlink_to("../outside/secret")),
        "a link to a pipe": beside("mesh.msh", lambda path: path.symlink_to("../outside/pipe")),
        "a link to a device": beside("mesh.msh", lambda path: path.symlink_to("/dev/zero")),
        "a circle": beside("mesh.msh", lambda path: path.symlink_to(path)),
        "a folder": beside("mesh.msh", lambda path: path.mkdir()),
    },
)

# Meshes
# --------------------------------------------------------------------------------------------------

add(
    "shape",
    {
        text: changed(MESH, f"mesh = {{ {text} }}")
        for text in (
            'shape = "interval", h = 1e-8',
            'shape = "interval", h = 1e-300',
            'shape = "interval", h = 0',
            'shape = "interval", h = -1',
            'shape = "interval", h = 1e-3, length = 1e300',
            'shape = "interval", h = 0.1, length = 1e-300',
            'shape = "square", h = 1e-6',
            'shape = "square", h = 0.1, length = 1e-300',
            'shape = "disk", h = 0.1, radius = 1e-300',
            'shape = "disk", h = 0.1, radius = 1e300',
            'shape = "annulus", h = 0.1, inner = 1e-300',
            'shape = "annulus", h = 0.1, inner = 2',
            'shape = "channel", h = 0.1, ratio = 1e-9',
            'shape = "channel", h = 0.1, ratio = 1e-300',
            'shape = "channel", h = 0.1, ratio = 0',
            'shape = "box", h = 1e-4',
            'shape = "torus", h = 0.2, minor = 1e-300',
            'shape = "torus", h = 1e-5',
            'shape = "box_with_void", h = 0.2, radius = 1e-300',
            'shape = "box_with_void", h = 0.2, radius = 0.6',
            'shape = "gmsh_session", h = 1',
            'shape = "write_shape", h = 1',
            'shape = "square", h = 0.1, cells = "__class__"',
            'shape = "interval", h = nan',
            'shipped = "../../../etc/passwd"',
            'shape = "box", h = 1e-3, cells = "hexahedron"',
        )
    },
)

HEAD = b"$MeshFormat\n4.1 %d 8\n%s$EndMeshFormat\n"
TEXT, BINARY = HEAD % (0, b""), HEAD % (1, struct.pack("<i", 1) + b"\n")
SCRIPT = b'SystemCall "touch executed";\n'


def msh(content: bytes) -> Callable[[Path], None]:
    return beside("mesh.msh", lambda path: path.write_bytes(content))


add(
    "msh",
    {
        "a script": msh(SCRIPT),
        "a script after the header": msh(TEXT + SCRIPT),
        "millions of empty element blocks": msh(
            TEXT + b"$Elements\n4000000 0 0 0\n" + b"2 1 2 0\n" * 4_000_000 + b"$EndElements\n"
        ),
        "millions of empty node blocks": msh(
            BINARY
            + b"$Nodes\n"
            + struct.pack("<4Q", 10**7, 0, 0, 0)
            + bytes(20 * 10**6)
            + b"$EndNodes\n"
        ),
        "millions of entities": msh(
            BINARY
            + b"$Entities\n"
            + struct.pack("<4Q", 10**7, 0, 0, 0)
            + bytes(36 * 10**6)
            + b"$EndEntities\n"
        ),
        "a billion blocks announced": msh(TEXT + b"$Nodes\n1000000000000 0 0 0\n$EndNodes\n"),
        "a trillion nodes announced": msh(
            TEXT + b"$Nodes\n1 1 1 1\n2 1 0 1000000000000\n$EndNodes\n"
        ),
        "a trillion elements announced": msh(
            TEXT + b"$Elements\n1 1000000000000 1 1\n2 1 2 1000000000000\n$EndElements\n"
        ),
        "alternating kinds": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Elements\n400000\n"
            + b"1 15 0 1\n2 1 0 1 2\n" * 200_000
            + b"$EndElements\n"
        ),
        "a negative number of labels": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Elements\n1\n1 2 -9 1 2 3\n$EndElements\n"
        ),
        "a word": msh(TEXT + b"$Nodes\n1 zero\n$EndNodes\n"),
        "junk": msh(bytes(range(256)) * 100),
        "one triangle without area": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n3\n1 0 0 0\n2 1 0 0\n3 2 0 "
            b"0\n$EndNodes\n$Elements\n1\n1 2 0 1 2 3\n$EndElements\n"
        ),
        "points that are not there": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n2\n1 0 0 0\n2 1 0 "
            b"0\n$EndNodes\n$Elements\n1\n1 2 0 1 2 9\n$EndElements\n"
        ),
        "two cells alike": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n3\n1 0 0 0\n2 1 0 0\n3 0 1 "
            b"0\n$EndNodes\n"
            b"$Elements\n3\n1 2 0 1 2 3\n2 2 0 1 2 3\n3 2 0 3 2 1\n$EndElements\n"
        ),
        "overflowing coordinates": msh(
            b"$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n3\n1 0 0 0\n2 1e999 0 0\n3 0 1 "
            b"0\n$EndNodes\n$Elements\n1\n1 2 0 1 2 3\n$EndElements\n"
        ),
    },
)

XDMF = """<?xml version="1.0"?>
<Xdmf Version="3.0"><Domain><Grid Name="mesh" GridType="Uniform">
<Topology TopologyType="Triangle" NumberOfElements="{cells}" NodesPerElement="3">
<DataItem Dimensions="{cells} 3" NumberType="Int" Format="HDF">mesh.h5:/topology</DataItem></Topology>
<Geometry GeometryType="XY"><DataItem Dimensions="4 2" Format="HDF">mesh.h5:/geometry</DataItem></Geometry>
</Grid></Domain></Xdmf>
"""
CORNERS = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])


def xdmf(
    make: Callable[[object], object], cells: int = 2, text: str = XDMF
) -> Callable[[Path], None]:
    """A mesh of the unit square, whose HDF5 file is made by `make`."""

    def fill(folder: Path) -> None:
        import h5py

        with h5py.File(folder / "mesh.h5", "w") as file:
            make(file)
        (folder / "mesh.xdmf").write_text(text.format(cells=cells))
        changed(MESH, 'mesh = "mesh.xdmf"')(folder)

    return fill


def square(file, cells=((0, 1, 2), (0, 2, 3)), corners=CORNERS) -> None:
    file["topology"], file["geometry"] = np.array(cells), corners


def external(name: str) -> Callable:
    def make(file) -> None:
        file["topology"] = np.array([[0, 1, 2], [0, 2, 3]])
        file.create_dataset("geometry", (4, 2), "f8", external=[(name, 0, 64)])

    return make


def linked(kind: str, target: str) -> Callable:
    def make(file) -> None:
        import h5py

        file["topology"] = np.array([[0, 1, 2], [0, 2, 3]])
        file["geometry"] = (
            h5py.ExternalLink(target, "/geometry") if kind == "external" else h5py.SoftLink(target)
        )

    return make


def virtual(target: str) -> Callable:
    def make(file) -> None:
        import h5py

        file["topology"] = np.array([[0, 1, 2], [0, 2, 3]])
        layout = h5py.VirtualLayout((4, 2), "f8")
        layout[:] = h5py.VirtualSource(target, "geometry", (4, 2))
        file.create_virtual_dataset("geometry", layout)

    return make


def enormous(file) -> None:
    file["topology"] = np.array([[0, 1, 2], [0, 2, 3]])
    file.create_dataset("geometry", (10**8, 2), "f8", chunks=(10**5, 2), compression="gzip")


def millions_of_objects(file) -> None:
    square(file)
    for k in range(12_000):
        file.create_group(f"g{k}")


add(
    "xdmf",
    {
        "an external link": xdmf(linked("external", "../outside/secret.h5")),
        "an external link to a pipe": xdmf(linked("external", "../outside/pipe")),
        "a soft link": xdmf(linked("soft", "/elsewhere")),
        "external storage": xdmf(external("../outside/secret")),
        "external storage in a pipe": xdmf(external("../outside/pipe")),
        "external storage of passwords": xdmf(external("/etc/passwd")),
        "a virtual dataset": xdmf(virtual("../outside/secret.h5")),
        "a virtual dataset of a pipe": xdmf(virtual("../outside/pipe")),
        "indices out of range": xdmf(lambda file: square(file, ((0, 1, 2), (0, 2, 9)))),
        "negative indices": xdmf(lambda file: square(file, ((0, 1, 2), (0, 2, -3)))),
        "enormous indices": xdmf(lambda file: square(file, ((0, 1, 2), (0, 2, 2**62)))),
        "a cell twice": xdmf(lambda file: square(file, ((0, 1, 2), (2, 1, 0)))),
        "a point twice": xdmf(lambda file: square(file, ((0, 1, 2), (0, 2, 2)))),
        "no finite points": xdmf(lambda file: square(file, corners=CORNERS * np.nan)),
        "text for points": xdmf(
            lambda file: square(file, corners=np.array([b"a"] * 8).reshape(4, 2))
        ),
        "other shapes": xdmf(square, cells=3),
        "enormous": xdmf(enormous, text=XDMF.replace("4 2", "100000000 2")),
        "too many objects": xdmf(millions_of_objects),
        "entities": xdmf(square, text="<!DOCTYPE x [<!ENTITY a SYSTEM '/etc/passwd'>]>" + XDMF),
        "a billion laughs": xdmf(
            square, text="<?xml version='1.0'?><!DOCTYPE l [<!ENTITY a 'ha'>]><Xdmf>&a;</Xdmf>"
        ),
        "a file elsewhere": xdmf(square, text=XDMF.replace("mesh.h5:", "../outside/secret.h5:")),
        "nested deeply": xdmf(square, text="<?xml version='1.0'?><Xdmf>" + "<Grid>" * 200_000),
        "included": xdmf(
            square, text=XDMF.replace("<Domain>", '<Domain><xi:include href="/etc/passwd"/>')
        ),
    },
)

# Measurements
# --------------------------------------------------------------------------------------------------

DATA = '{MESH}\ndata = {{ file = "{file}", fields = {{ u = "u" }}{more} }}'
AXES = ', coordinates = { x = "x", t = "t" }'


def data(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    more = AXES if name.endswith(".npz") else ""
    return beside(name, make, MESH, DATA.format(MESH=MESH, file=name, more=more))


def npz(path: Path, **arrays: object) -> None:
    axes = {"x": np.linspace(0, 1, 5), "t": np.linspace(0, 1, 5)}
    np.savez(path, **{**axes, **arrays})  # type: ignore[arg-type]


class Evil:
    def __reduce__(self):
        return os.system, ("touch executed",)


def entry(path: Path, content: bytes) -> None:
    npz(path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("u.npy", content)


def header(shape: str, kind: str = "<f8") -> bytes:
    words = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}"
    words += " " * (117 - len(words)) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(words)) + words.encode()


def bomb(path: Path) -> None:
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("u.npy", "w", force_zip64=True) as handle,
    ):
        handle.write(header("(300000000,)"))
        for _ in range(24):
            handle.write(bytes(10**8))


def many_entries(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(20_000):
            archive.writestr(f"a{k}.npy", b"")


def lying_size(path: Path) -> None:
    entry(path, header("(5, 5)") + bytes(200))
    content = bytearray(path.read_bytes())
    place = content.rfind(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<I", 2**32 - 2)
    path.write_bytes(bytes(content))


add(
    "npz",
    {
        "a pickle": data("data.npz", lambda path: npz(path, u=np.array([Evil()], dtype=object))),
        "only a pickle": data("data.npz", lambda path: path.write_bytes(pickle.dumps(Evil()))),
        "a header that runs": data(
            "data.npz",
            lambda path: entry(path, header("__import__('os').system('touch executed')")),
        ),
        "a header of 5,000 brackets": data(
            "data.npz", lambda path: entry(path, header("(" * 50 + ")" * 50))
        ),
        "a trillion numbers announced": data(
            "data.npz", lambda path: entry(path, header("(1000000, 1000000)"))
        ),
        "a negative shape": data("data.npz", lambda path: entry(path, header("(-1, -1)"))),
        "objects": data("data.npz", lambda path: entry(path, header("(5, 5)", "|O") + bytes(200))),
        "text": data("data.npz", lambda path: npz(path, u=np.array(["a"] * 25).reshape(5, 5))),
        "2.4 GB in 10 MB": data("data.npz", bomb),
        "20,000 entries": data("data.npz", many_entries),
        "a lying size": data("data.npz", lying_size),
        "cut": data(
            "data.npz",
            lambda path: (npz(path, u=np.zeros((5, 5))), path.write_bytes(path.read_bytes()[:-30])),
        ),
        "flipped": data(
            "data.npz",
            lambda path: (
                npz(path, u=np.zeros((5, 5))),
                path.write_bytes(path.read_bytes().replace(bytes(64), b"\x01" * 64)),
            ),
        ),
        "no arrays": data("data.npz", lambda path: path.write_bytes(b"PK\x05\x06" + bytes(18))),
        "nothing": data("data.npz", lambda path: path.write_bytes(b"")),
        "another name": data("data.npz", lambda path: npz(path, v=np.zeros((5, 5)))),
        "another shape": data("data.npz", lambda path: npz(path, u=np.zeros((5, 7)))),
        "a pipe": data("data.npz", os.mkfifo),
        "a link outside": data("data.npz", lambda path: path.symlink_to("../outside/secret")),
    },
)


def netcdf(make: Callable[[object], object]) -> Callable[[Path], None]:
    """A netCDF file of the variable u on x and t, to which `make` does something by h5py."""

    def fill(path: Path) -> None:
        import h5py
        import netCDF4

        with netCDF4.Dataset(path, "w") as file:
            for axis in "xt":
                file.createDimension(axis, 5)
                file.createVariable(axis, "f8", (axis,))[:] = np.linspace(0, 1, 5)
            file.createVariable("v", "f8", ("x", "t"))[:] = 0
        with h5py.File(path, "r+") as file:
            make(file)

    return data("data.nc", fill)


def storage(file) -> None:
    file.create_dataset("u", (5, 5), "u1", external=[("/etc/passwd", 0, 25)])


def virtual_variable(target: str) -> Callable:
    def make(file) -> None:
        import h5py

        layout = h5py.VirtualLayout((5, 5), "f8")
        layout[:] = h5py.VirtualSource(target, "geometry", (5, 5))
        file.create_virtual_dataset("u", layout)

    return make


def link_to(target: str) -> Callable:
    def make(file) -> None:
        import h5py

        file["u"] = h5py.ExternalLink(target, "/geometry")

    return make


def large_variable(path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        for axis, size in (("x", 20_000), ("t", 20_000)):
            file.createDimension(axis, size)
        file.createVariable("u", "f8", ("x", "t"), zlib=True, chunksizes=(1000, 1000))


def large_axis(path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(path, "w") as file:
        file.createDimension("x", 400_000_000)
        file.createDimension("t", 5)
        file.createVariable("x", "f8", ("x",), zlib=True, chunksizes=(10**6,))
        file.createVariable("u", "f4", ("t", "x"), zlib=True, chunksizes=(1, 10**6))


def classic(path: Path) -> None:
    import netCDF4

    with netCDF4.Dataset(path, "w", format="NETCDF3_64BIT_OFFSET") as file:
        for axis in "xt":
            file.createDimension(axis, 5)
        file.createVariable("u", "f8", ("x", "t"))[:] = 0
    path.write_bytes(path.read_bytes().replace(struct.pack(">I", 5), struct.pack(">I", 20_000)))


add(
    "netcdf",
    {
        "external storage of passwords": netcdf(storage),
        "a virtual dataset": netcdf(virtual_variable("../outside/secret.h5")),
        "a virtual dataset of a pipe": netcdf(virtual_variable("../outside/pipe")),
        "an external link": netcdf(link_to("../outside/secret.h5")),
        "an external link to a pipe": netcdf(link_to("../outside/pipe")),
        "an external link beside": netcdf(lambda file: link_to("../outside/secret.h5")(file)),
        "a foreign filter": netcdf(
            lambda file: file.create_dataset(
                "u", (5, 5), "f8", chunks=(5, 5), compression=32000, allow_unknown_filter=True
            )
        ),
        "3.2 GB in 20 KB": data("data.nc", large_variable),
        "an axis of 3.2 GB": data("data.nc", large_axis),
        "a classic file of 3.2 GB": data("data.nc", classic),
        "another variable": netcdf(lambda file: None),
        "text": netcdf(
            lambda file: file.create_dataset("u", data=np.array([b"a"] * 25).reshape(5, 5))
        ),
        "not netCDF": data("data.nc", lambda path: path.write_bytes(b"CDF" + bytes(range(256)))),
        "a page": data("data.nc", lambda path: path.write_text("<html>")),
        "damaged": data(
            "data.nc", lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 8)
        ),
        "a pipe": data("data.nc", os.mkfifo),
    },
)

add(
    "csv",
    {
        "formulas": data(
            "data.csv", lambda path: path.write_text("x,t,u\n=cmd|' /C calc'!A0,0,0\n")
        ),
        "rows of another length": data("data.csv", lambda path: path.write_text("x,t,u\n1,2\n")),
        "one line of 5 MB": data("data.csv", lambda path: path.write_text("x" * 5_000_000)),
        "a cell of 5 MB": data(
            "data.csv", lambda path: path.write_text("x,t,u\n1,2," + "9" * 5_000_000)
        ),
        "a quote without end": data(
            "data.csv", lambda path: path.write_text('x,t,u\n"' + "1,2,3\n" * 100_000)
        ),
        "not text": data("data.csv", lambda path: path.write_bytes(bytes(range(128, 256)) * 100)),
        "nothing": data("data.csv", lambda path: path.write_text("")),
        "only names": data("data.csv", lambda path: path.write_text("x,t,u\n")),
        "a pipe": data("data.csv", os.mkfifo),
        "a pickle": data("data.pkl", lambda path: path.write_bytes(pickle.dumps(Evil()))),
        "python": data(
            "data.py", lambda path: path.write_text("import os; os.system('touch executed')")
        ),
    },
)

# Results
# --------------------------------------------------------------------------------------------------


def result(make: Callable[[Path], object]) -> Callable[[Path], None]:
    """The plain study, with something in the place of its results."""

    def fill(folder: Path) -> None:
        (folder / "study.toml").write_text(STUDY)
        make(folder / "result")

    return fill


def inside_result(name: str, target: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).symlink_to(target)

    return result(make)


add(
    "result",
    {
        "is a link outside": result(lambda path: path.symlink_to("../outside")),
        "is a link that leads nowhere": result(lambda path: path.symlink_to("../outside/new")),
        "is a pipe": result(os.mkfifo),
        "is a file": result(lambda path: path.write_text("mine")),
        "has a lock that is a link": inside_result(".lock", "../../outside/new"),
        "has a report that is a link": inside_result("report.json", "../../outside/secret"),
        "has a checkpoint that is a link": inside_result("checkpoint", "../../outside"),
        "has facts that are a link": inside_result("checkpoint/facts", "../../../outside"),
        "has a study that is a link": inside_result(
            "checkpoint/study.json", "../../../outside/secret"
        ),
        "has a study that is a pipe": result(
            lambda path: (
                (path / "checkpoint").mkdir(parents=True),
                os.mkfifo(path / "checkpoint/study.json"),
            )
        ),
        "has a fact that is a pipe": result(
            lambda path: (
                (path / "checkpoint/facts").mkdir(parents=True),
                os.mkfifo(path / "checkpoint/facts/a.json"),
            )
        ),
        "has somebody else's report": result(
            lambda path: (path.mkdir(), (path / "report.json").write_text("{}"))
        ),
        "has another version's checkpoint": result(
            lambda path: (
                (path / "checkpoint").mkdir(parents=True),
                (path / "checkpoint/study.json").write_text('{"format": "cffem-checkpoint/99"}'),
            )
        ),
        "has a study of another type": result(
            lambda path: (
                (path / "checkpoint").mkdir(parents=True),
                (path / "checkpoint/study.json").write_text("[" * 5000),
            )
        ),
    },
)


def outside(folder: Path) -> None:
    """What no study may touch."""
    import h5py

    folder.mkdir()
    (folder / "secret").write_bytes(b"secret" * 100)
    os.mkfifo(folder / "pipe")
    with h5py.File(folder / "secret.h5", "w") as file:
        file["geometry"] = CORNERS
