# SPDX-License-Identifier: MIT
"""`cffem new NAME`: a commented study that runs as it stands, to be changed into one's own."""

from __future__ import annotations

from pathlib import Path

from cffem.symbols.errors import InputError

PYTHON = '''"""{title}: which terms of this equation matter?

Run it with `cffem run {file}`, or on four ranks with `mpirun -n 4 cffem run {file}`.
"""

import os

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

# 1. The unknown and the candidate terms. The model is dt(u) = Σ α_j T_j[u].
u = cf.ScalarField("u")
library = cf.Library(
    anchor=dt(u),
    terms={{"growth": u, "drift": -u.diff(x), "diffusion": lap(u), "saturation": -(u**3)}},
)

# 2. The experiment. `mesh` may be the path of a gmsh file; `on` is then one of its physical names.
experiment = cf.Experiment(
    mesh=cf.mesh.square(MPI.COMM_WORLD, h=0.1),
    elements={{u: ("Lagrange", 2)}},
    initial={{u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)}},
    boundary=[cf.Dirichlet(u, 0, on="all")],
    time=cf.Window(0, 0.5, steps=20),
)

# 3. The question: with these coefficients, does deleting a term change the solution by more than
#    epsilon in L2? Give `data=cf.Dataset…` instead of coefficients to learn them from measurements.
study = cf.Study(
    library,
    experiment,
    coefficients={{"growth": 1.5, "drift": 2e-3, "diffusion": 0.1, "saturation": 0.5}},
    certification=cf.Certification(epsilon=0.02),
)

# 4. The answer: a table here, and a page in the folder of results.
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if MPI.COMM_WORLD.rank == 0:
    print(report)
'''

TOML = """# {title}: which terms of this equation matter?
# Run it with `cffem run {file}`, or on four ranks with `mpirun -n 4 cffem run {file}`.
title = "{title}"

[fields]
u = "scalar"                    # or {{ vector = 2 }}

# The candidate terms. The model is anchor = sum of coefficient times term.
[library]
anchor = "dt(u)"
[library.terms]
growth = "u"
drift = "-diff(u, x)"
diffusion = "lap(u)"
saturation = "-u**3"

[coefficients]                  # leave this table out, and give data, to learn them
growth = 1.5
drift = 2e-3
diffusion = 0.1
saturation = 0.5

[[experiments]]
mesh = {{ shape = "square", h = 0.1 }}       # or the path of a gmsh file in this folder
elements = {{ u = ["Lagrange", 2] }}
initial = {{ u = "sin(pi*x)*sin(pi*y)" }}
boundary = [{{ type = "Dirichlet", field = "u", value = 0, on = "all" }}]
time = {{ end = 0.5, steps = 20 }}

# Does deleting a term change the solution by more than epsilon in L2?
[certification]
epsilon = 0.02
"""


def write_study(name: str) -> Path:
    """Write a new study and return its path; an existing file is never overwritten.

    Args:
        name: `NAME`, `NAME.py` or `NAME.toml`; without an ending it is a Python script.

    Raises:
        InputError: the file exists, its folder does not, or the ending is another one.
    """
    path = Path(name if Path(name).suffix else f"{name}.py")
    if path.suffix not in (".py", ".toml"):
        raise InputError(f"a study ends in .py or .toml, not in {path.suffix!r}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {path.parent}")
    title = " ".join(path.stem.replace("_", " ").replace("-", " ").split()) or "study"
    if not title.replace(" ", "").isalnum():
        raise InputError(f"call it by letters, digits, - and _, not {path.stem!r}")
    text = (TOML if path.suffix == ".toml" else PYTHON).format(
        title=title[0].upper() + title[1:], file=path.name
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{path} exists already; choose another name") from error
    return path
