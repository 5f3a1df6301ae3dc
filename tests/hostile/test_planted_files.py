"""Files that libraries look for, planted in the folder of a study: none is read, none runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

from hostile_collection import STUDY
from processes import mpi_environment

import cffem

CONSTRUCTOR = """
#include <stdio.h>
__attribute__((constructor)) static void run(void) {{
    FILE *f = fopen("{mark}", "w"); if (f) fclose(f);
}}
"""
MODULES = ["typing", "numpy", "sitecustomize", "usercustomize", "cffem_plugin"]
MODULES += ["sympy", "dolfinx", "mpi4py", "xarray", "h5py", "gmsh"]
PETSC = "-dll_append ./libevil\n-log_view :{mark}\n-ksp_view ascii:{mark}\n"


def plant(folder: Path, mark: Path) -> None:
    """Everything that would write `mark` if somebody read it."""
    library = folder / "libevil.so"
    (folder / "evil.c").write_text(CONSTRUCTOR.format(mark=mark))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, folder / "evil.c"], check=True)
    arch = folder / "arch"
    arch.mkdir()
    for name in ("PETSc", "SLEPc"):
        shutil.copy(library, arch / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}")
    for name in (".petscrc", "petscrc"):
        (folder / name).write_text(PETSC.format(mark=mark))
    for name in ("petsc.cfg", "slepc.cfg"):
        (folder / name).write_text(f"PETSC_ARCH = {arch}\n")
    (folder / "ucx.conf").write_text(f"UCX_LOG_FILE={mark}\nUCX_LOG_LEVEL=trace\n")
    python = f"open({str(mark)!r}, 'w').write(__name__)\n"
    for name in MODULES:
        (folder / f"{name}.py").write_text(python)
    plugin = "[xarray.backends]\nevil = cffem_plugin:Backend\n"
    for where in (folder, folder / f"__editable__.cffem-{cffem.__version__}.finder.__path_hook__"):
        (where / "evil-1.0.dist-info").mkdir(parents=True)
        (where / "evil-1.0.dist-info" / "entry_points.txt").write_text(plugin)
        (where / "evil-1.0.dist-info" / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    (folder / "ffcx_options.json").write_text(
        '{"epsilon": 0.5, "table_atol": 0.5, "scalar_type": "float32"}'
    )
    (folder / "dolfinx_jit_options.json").write_text('{"cffi_libraries": ["evil"], "timeout": 0}')
    (folder / "setup.cfg").write_text("[build_ext]\ncompiler = evil\n[build]\ncompiler = evil\n")
    (folder / "pyproject.toml").write_text("[tool.setuptools\n")
    (folder / "untitled.geo").write_text(f'SystemCall "touch {mark}";\n')
    for name in (".gmshrc", ".gmsh-options", "default.geo"):
        (folder / name).write_text(f'SystemCall "touch {mark}";\n')
    for name in ("matplotlibrc", ".ncrc", ".dodsrc", ".daprc", "adios2.xml", ".numba_config.yaml"):
        os.mkfifo(folder / name)  # whoever opens it waits for ever


def environment(home: Path) -> dict[str, str]:
    """A home with PETSc's and FFCx's files in it, and PETSc's options in the environment."""
    config = home / ".config"
    (config / "ffcx").mkdir(parents=True)
    (config / "ffcx" / "ffcx_options.json").write_text('{"epsilon": 0.5, "table_atol": 0.5}')
    clean = {key: value for key, value in mpi_environment().items() if key != "PYTHONPATH"}
    return {**clean, "PETSC_OPTIONS": "-dll_append ./libevil", "XDG_CONFIG_HOME": str(config)}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    base = tmp_path_factory.mktemp("planted")
    folder, mark = base / "stranger", base / "MARK"
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    plain = subprocess.run(
        [sys.executable, "-m", "cffem", "run", "study.toml", "--out", "plain", "--quiet"],
        cwd=folder, env=mpi_environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert plain.returncode == 0, plain.stderr
    plant(folder, mark)
    return folder, mark, environment(base / "home")


def scores(folder: Path) -> list:
    report = json.loads((folder / "report.json").read_text())
    return [(term["name"], term["deletion"], term["decision"]) for term in report["terms"]]


def run(planted, *command: str) -> subprocess.CompletedProcess[str]:
    folder, mark, variables = planted
    mark.unlink(missing_ok=True)
    before = {path.name for path in folder.iterdir()}
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, timeout=150
    )
    assert not mark.exists(), f"{command} ran or read {mark.read_text()!r}"
    assert done.returncode == 0, done.stderr[-2000:]
    assert {path.name for path in folder.iterdir()} - before <= {"out", "ranks", "module", "fresh"}
    return done


def test_the_command_reads_nothing_of_a_strangers_folder(planted):
    run(planted, shutil.which("cffem"), "run", "study.toml", "--out", "out", "--quiet")
    assert scores(planted[0] / "out") == scores(planted[0] / "plain")


def test_the_module_reads_nothing_of_a_strangers_folder(planted):
    run(planted, sys.executable, "-m", "cffem", "run", "study.toml", "--out", "module", "--quiet")
    assert scores(planted[0] / "module") == scores(planted[0] / "plain")


def test_two_ranks_read_nothing_of_a_strangers_folder(planted):
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun here")
    run(
        planted,
        "mpirun",
        "-n",
        "2",
        shutil.which("cffem"),
        "run",
        "study.toml",
        "--out",
        "ranks",
        "--quiet",
    )
    assert [name for name, *_ in scores(planted[0] / "ranks")] == ["lap"]


def test_forms_are_compiled_without_files_of_a_strangers_folder(planted, tmp_path):
    """Compilers run, in a cache of its own; setuptools reads nothing of the current folder."""
    folder, mark, variables = planted
    run(
        (folder, mark, {**variables, "CFFEM_CACHE": str(tmp_path)}),
        shutil.which("cffem"),
        "run",
        "study.toml",
        "--out",
        "fresh",
        "--quiet",
    )
    assert scores(folder / "fresh") == scores(folder / "plain")


PROGRAM = """
import cffem
{ask}
from petsc4py import PETSc
print("asked" if PETSc.Options().hasName("asked_for") else "nothing")
"""


@pytest.mark.parametrize(
    ("ask", "said"), [("", "nothing"), ("import petsc4py, sys; petsc4py.init(sys.argv)", "asked")]
)
def test_a_program_gets_options_of_petsc_where_it_asks(tmp_path, ask, said):
    (tmp_path / ".petscrc").write_text("-asked_for 1\n")
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(ask=ask))
    variables = {**mpi_environment(), "PETSC_OPTIONS": "-asked_for 1"}
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split()[:1] == [said], done.stderr
