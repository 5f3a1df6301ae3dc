# SPDX-License-Identifier: MIT
"""`cffem doctor`: whether this installation works, and what to do about what does not.

Every check really does what it is about: it imports the library, compiles a form, solves a Poisson
problem on two ranks. Under mpirun the solve runs on the ranks there are; otherwise two are started.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI


GET_DOLFINX = (
    "run cffem with containers/run, or use conda-forge's fenics-dolfinx, or Debian 13's "
    "python3-dolfinx-real"
)


@dataclass(frozen=True)
class Finding:
    """One line of the doctor's report."""

    what: str
    good: bool
    text: str
    advice: str = ""
    required: bool = True


def examine() -> int:
    """Print what was found on rank 0; the exit code is 0 if cffem can work here, else 1."""
    findings = [
        Finding(
            "Python",
            sys.version_info >= (3, 11),
            platform.python_version(),
            "cffem needs Python 3.11 or later",
        )
    ]
    findings += [version_of(*row) for row in LIBRARIES]
    missing = {finding.what for finding in findings if not finding.good}
    if not missing & {"DOLFINx", "petsc4py", "mpi4py"}:
        findings += [
            check()
            for check in (
                ranks,
                petsc_packages,
                blas,
                threads,
                compiler,
                compiled_form,
                parallel_solve,
            )
        ]
    comm = communicator()
    if comm is None or comm.rank == 0:
        show(findings)
    bad = any(not finding.good and finding.required for finding in findings)
    return int(comm.allreduce(bad) > 0 if comm is not None else bad)


LIBRARIES: list[tuple[str, str, bool, str]] = [
    ("DOLFINx", "dolfinx", True, GET_DOLFINX),
    ("UFL", "ufl", True, GET_DOLFINX),
    ("Basix", "basix", True, GET_DOLFINX),
    ("FFCx", "ffcx", True, GET_DOLFINX),
    ("petsc4py", "petsc4py", True, GET_DOLFINX),
    ("slepc4py", "slepc4py", True, GET_DOLFINX),
    ("mpi4py", "mpi4py", True, GET_DOLFINX),
    ("gmsh", "gmsh", True, "install python3-gmsh (Debian) or python-gmsh (conda-forge)"),
    ("NumPy", "numpy", True, "pip install cffem"),
    ("SciPy", "scipy", True, "pip install cffem"),
    ("SymPy", "sympy", True, "pip install cffem"),
    ("scikit-learn", "sklearn", True, "pip install cffem"),
    ("xarray", "xarray", False, "for NetCDF data: pip install 'cffem[data]'"),
    ("Matplotlib", "matplotlib", False, "for pictures: pip install 'cffem[viz]'"),
]


def version_of(what: str, module: str, required: bool, advice: str) -> Finding:
    """Import a library and tell its version."""
    try:
        loaded = importlib.import_module(module)
    except Exception as error:
        return Finding(what, False, f"does not import ({error})", advice, required)
    version = getattr(loaded, "__version__", None)
    if version is None:
        try:
            version = importlib.metadata.version(module)
        except importlib.metadata.PackageNotFoundError:
            version = "present"
    if module == "dolfinx":
        recent = tuple(int(part) for part in str(version).split(".")[:2]) >= (0, 9)
        return Finding(what, recent, str(version), "cffem needs DOLFINx 0.9 or later; " + advice)
    return Finding(what, True, str(version), required=required)


def communicator() -> MPI.Comm:
    """COMM_WORLD, or None without mpi4py."""
    try:
        from mpi4py import MPI
    except ImportError:
        return None
    return MPI.COMM_WORLD


def ranks() -> Finding:
    """How many ranks run, and which MPI."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding(
        "MPI",
        True,
        f"{name} {'.'.join(map(str, version))}, {MPI.COMM_WORLD.size} rank(s) on {cores} core(s)",
    )


def petsc_packages() -> Finding:
    """Which of the external packages that cffem uses PETSc was built with."""
    from petsc4py import PETSc

    wanted = ("mumps", "hypre", "superlu_dist", "ptscotch")
    have = [name for name in wanted if PETSc.Sys.hasExternalPackage(name)]
    version = ".".join(map(str, PETSc.Sys.getVersion()))
    text = (
        f"PETSc {version}, scalars {PETSc.ScalarType.__name__}, with "
        f"{', '.join(have) or 'no external packages'}"
    )
    real = PETSc.ScalarType().dtype.kind == "f"
    advice = "cffem needs a real-valued PETSc with MUMPS and hypre: " + GET_DOLFINX
    return Finding("PETSc packages", real and {"mumps", "hypre"} <= set(have), text, advice)


def blas() -> Finding:
    """Which BLAS is really loaded, and how fast it multiplies."""
    import numpy as np

    a = np.random.default_rng(0).random((400, 400))
    a @ a
    best = min(timed(lambda: a @ a) for _ in range(5))
    speed = 2 * 400**3 / best / 1e9
    try:
        with open("/proc/self/maps") as maps:
            loaded = {
                line.split()[-1] for line in maps if "blas" in line.lower() or "mkl" in line.lower()
            }
    except OSError:
        loaded = set()
    known = ("libblas", "libopenblas", "libmkl", "libblis")
    names = sorted(
        {
            name
            for path in loaded
            if (name := os.path.basename(os.path.realpath(path))).startswith(known)
        }
    )
    optimised = (
        any(
            "openblas" in os.path.realpath(path) or "mkl" in path or "blis" in path
            for path in loaded
        )
        or speed > 8
    )
    advice = "the reference BLAS is ten times slower: apt-get install libopenblas0-serial"
    return Finding(
        "BLAS",
        optimised,
        f"{', '.join(names) or 'unknown'}, {speed:.0f} GFlop/s",
        advice,
        required=False,
    )


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def threads() -> Finding:
    """One thread for each rank, or ranks and BLAS threads fight for the cores."""
    value = os.environ.get("OMP_NUM_THREADS", "not set")
    return Finding(
        "OMP_NUM_THREADS",
        value == "1",
        value,
        "export OMP_NUM_THREADS=1 when running with mpirun",
        required=False,
    )


def compiler() -> Finding:
    """Forms are compiled at run time, so a C compiler must be there."""
    path = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
    return Finding(
        "C compiler",
        path is not None,
        path or "none",
        "apt-get install gcc libc6-dev (or conda-forge's c-compiler)",
    )


def compiled_form() -> Finding:
    """Compile and assemble a form; the compiled code is kept in the folder that is shown."""
    from cffem import _compat

    start = time.perf_counter()
    try:
        energy = poisson_energy()
    except Exception as error:
        return Finding(
            "a form compiles",
            False,
            f"no: {error}",
            "see the compiler's message above; is libc6-dev installed?",
        )
    text = f"yes, in {time.perf_counter() - start:.1f} s, kept in {_compat.jit_folder()}"
    return Finding(
        "a form compiles",
        abs(energy - ENERGY) < 1e-3,
        text,
        "the compiled form gives a wrong number: " + GET_DOLFINX,
    )


# Of -lap u = 1 on the unit square, u = 0 on its boundary: the torsion constant 0.140577/4.
ENERGY = 0.0351


def poisson_energy() -> float:
    """Solve -lap u = 1 on the unit square over all ranks and return the energy ∫u, with
    everything that a solve needs.
    """
    import ufl
    from dolfinx import fem, mesh
    from dolfinx.fem import petsc
    from mpi4py import MPI
    from petsc4py import PETSc

    from cffem import _compat

    comm = MPI.COMM_WORLD
    domain = mesh.create_unit_square(comm, 16, 16)
    space = fem.functionspace(domain, ("Lagrange", 2))
    trial, test = ufl.TrialFunction(space), ufl.TestFunction(space)
    domain.topology.create_connectivity(1, 2)
    dofs = fem.locate_dofs_topological(space, 1, mesh.exterior_facet_indices(domain.topology))
    condition = fem.dirichletbc(PETSc.ScalarType(0), dofs, space)
    stiffness = _compat.form(ufl.inner(ufl.grad(trial), ufl.grad(test)) * ufl.dx, comm)
    load = _compat.form(fem.Constant(domain, PETSc.ScalarType(1)) * test * ufl.dx, comm)
    matrix = _compat.assemble_matrix(stiffness, [condition])
    vector = petsc.assemble_vector(load)
    vector.ghostUpdate(addv=PETSc.InsertMode.ADD, mode=PETSc.ScatterMode.REVERSE)
    petsc.set_bc(vector, [condition])
    solver = PETSc.KSP().create(comm)
    solver.setOperators(matrix)
    solver.setType("preonly")
    solver.getPC().setType("lu")
    solver.getPC().setFactorSolverType("mumps")
    solution = matrix.createVecRight()
    solver.solve(vector, solution)
    energy = vector.dot(solution)
    for thing in (solver, matrix, vector, solution):
        thing.destroy()
    return energy


def parallel_solve() -> Finding:
    """Solve on two ranks (or on those there are) and compare with the known number."""
    comm = communicator()
    what = "a solve on several ranks"
    if comm.size > 1:
        good = abs(poisson_energy() - ENERGY) < 1e-3
        return Finding(
            what,
            bool(good),
            f"{'yes' if good else 'wrong result'}, on {comm.size} ranks",
            GET_DOLFINX,
        )
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher is None:
        return Finding(what, False, "no mpirun here", "apt-get install openmpi-bin")
    code = "from cffem.doctor import poisson_energy as e; print('%.6f' % e())"
    command = [launcher, "-n", "2", sys.executable, "-c", code]
    try:
        done = subprocess.run(
            command, env=environment_of_ranks(), capture_output=True, text=True, timeout=120
        )
    except subprocess.TimeoutExpired:
        return Finding(
            what,
            False,
            "mpirun -n 2 hangs",
            "try OMPI_MCA_btl=self,sm; does the host name resolve?",
        )
    numbers = [
        float(text) for text in re.findall(r"0\.\d{6}", done.stdout)
    ]  # ranks may print on one line
    good = (
        done.returncode == 0
        and len(numbers) == 2
        and all(abs(number - ENERGY) < 1e-3 for number in numbers)
    )
    text = (
        "yes, on 2 ranks"
        if good
        else f"mpirun -n 2 failed: {(done.stderr or done.stdout).strip()[-300:]}"
    )
    return Finding(what, good, text, "is mpirun of the same MPI that mpi4py was built with?")


def show(findings: list[Finding]) -> None:
    """Print the report: a line each, and what to do about what is not well."""
    for finding in findings:
        mark = "ok  " if finding.good else ("FAIL" if finding.required else "note")
        print(f"{mark} {finding.what}: {finding.text}")
        if not finding.good and finding.advice:
            print(f"     -> {finding.advice}")


def environment_of_ranks() -> dict[str, str]:
    """The environment without what tells a process that it belongs to a run on ranks, for an
    `mpirun` below this process.

    Example:
        >>> os.environ["PMIX_RANK"] = "0"
        >>> "PMIX_RANK" in environment_of_ranks()
        False
        >>> del os.environ["PMIX_RANK"]
    """
    belonging = ("OMPI_COMM", "PMIX_", "PMI_", "PRTE_LAUNCHED")
    return {name: value for name, value in os.environ.items() if not name.startswith(belonging)}
