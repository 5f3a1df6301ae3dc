"""The wheel: version in one place, demos and meshes inside, and a plain Python without
DOLFINx can install and use it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import cffem

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    # A copy, because building leaves traces in the tree.
    shutil.copytree(
        TOP,
        source,
        ignore=shutil.ignore_patterns(".*", "tests", "out", "build", "*.egg-info", "__pycache__"),
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    (path,) = folder.glob("*.whl")
    return path


def test_the_wheel_carries_the_version_the_demos_and_the_meshes(wheel):
    assert f"cffem-{cffem.__version__}-" in wheel.name
    names = zipfile.ZipFile(wheel).namelist()
    demos = {path.name for path in (TOP / "demos").glob("*.*")}
    assert {".py", ".toml", ".sh", ".md"} <= {Path(name).suffix for name in demos}
    assert "cffem/study/report/report.schema.json" in names
    assert {"cffem/py.typed", "cffem/__init__.pyi"} <= set(names)
    meshes = {path.name for path in (TOP / "meshes").glob("*.msh")}
    assert demos <= {Path(name).name for name in names if name.startswith("cffem/_shared/demos/")}
    assert meshes <= {Path(name).name for name in names if name.startswith("cffem/_shared/meshes/")}
    assert not [name for name in names if name.startswith(("tests/", "meshes/", "demos/"))]
    assert [name for name in names if name.endswith("/LICENSE")]


def test_the_command_lists_the_demos_from_an_installed_wheel_outside_the_checkout(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from cffem.cli import main; "
        "main(['demo', '--list'])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert "maxwell" in done.stdout, done.stderr


@pytest.mark.slow
def test_pip_installs_it_on_a_plain_python_without_dolfinx(wheel, tmp_path):
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    subprocess.run(
        [venv / "bin" / "pip", "install", "--quiet", f"{wheel}[data]", "pytest", "hypothesis"],
        check=True,
    )
    python = str(venv / "bin" / "python")
    tests = [
        str(TOP / "tests" / name)
        for name in ("data", "design", "screening", "verdicts", "symbols")
        if (TOP / "tests" / name).is_dir()
    ]
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-c", "/dev/null", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    missing = subprocess.run(
        [python, "-c", "import cffem; cffem.Model"], cwd=tmp_path, capture_output=True, text=True
    )
    assert "needs DOLFINx" in missing.stderr


def test_version_and_licence_are_the_same_wherever_they_are_told():
    citation, changes = (TOP / "CITATION.cff").read_text(), (TOP / "CHANGELOG.md").read_text()
    assert f"\nversion: {cffem.__version__}\n" in citation
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert newest is not None
    assert newest.group(1) == cffem.__version__
    recipe = (TOP / "containers" / "conda-recipe" / "recipe.yaml").read_text()
    assert f"\n  version: {cffem.__version__}\n" in recipe
    assert "\nlicense: MIT\n" in citation
    assert 'license = "MIT"' in (TOP / "pyproject.toml").read_text()
    assert (TOP / "LICENSE").read_text().startswith("MIT License")


def test_every_file_of_the_package_names_its_licence():
    silent = [
        str(path)
        for path in sorted((TOP / "cffem").rglob("*.py"))
        if not path.read_text().startswith("# SPDX-License-Identifier: MIT\n")
    ]
    assert silent == []
