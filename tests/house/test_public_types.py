"""What editors and mypy see of `import cffem as cf`: every public name has its type, and what is
printed of an object fits on a line.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cffem as cf

TOP = Path(__file__).parents[2]
STUB = TOP / "cffem" / "__init__.pyi"


def test_the_stub_names_what_is_loaded_from_where_it_is_loaded():
    declared = {}
    for node in ast.parse(STUB.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            declared |= {alias.name: node.module for alias in node.names if alias.asname}
    missing = {
        f"from {module} import {name} as {name}"
        for name, module in cf._HOME.items()
        if declared.get(name) != module
    }
    assert not missing, f"add to {STUB.name}:\n" + "\n".join(sorted(missing))
    assert set(declared) == set(cf._HOME), "the stub has names that cffem does not offer"
    for name, module in cf._MODULES.items():
        assert f"\n{name} = {module.rpartition('.')[2]}\n" in STUB.read_text()


def test_mypy_knows_the_public_names(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(
        "import cffem as cf\n"
        "model: cf.Model\n"
        "score: float = model.deletions()['lap'].score\n"
        "cf.Modle\n"
        "wrong: str = model.deletions()\n"
        "cf.mesh.sqare\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(script)]
    done = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    found = [line.split(": error: ")[1] for line in done.stdout.splitlines() if "error" in line]
    assert len(found) == 3, done.stdout + done.stderr
    assert 'no attribute "Modle"' in found[0]
    assert '"Sweep"' in found[1]
    assert 'no attribute "sqare"' in found[2]


def test_a_dataset_is_printed_on_one_line():
    u, v = cf.ScalarField("u"), cf.VectorField("v", dim=2)
    rows, times = np.linspace(0, 1, 50), np.arange(3.0)
    values = {u: np.ones((50, 50, 3)), v: np.ones((2, 50, 50, 3))}
    grid = cf.Dataset.from_arrays({cf.x: rows, cf.y: rows, cf.t: times}, values)
    assert repr(grid) == "Dataset(u, v[0], v[1] on a grid of x, y, t: 50 × 50 × 3)"
    points = cf.Dataset.from_points(
        np.random.default_rng(0).random((20, 2)), times, {u: np.ones((20, 3))}
    )
    assert repr(points) == "Dataset(u on points of 2D and t: 20 × 3)"


@pytest.mark.fem
def test_models_solutions_sweeps_and_bounds_are_printed_on_one_line():
    pytest.importorskip("dolfinx")
    from mpi4py import MPI

    u = cf.ScalarField("u")
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.5),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    library = cf.Library(terms={"lap": cf.lap(u), "u": u}, unknown=u)
    with cf.Model(library, {"lap": 1.0, "u": -5.0}, experiment) as model:
        size = model.spaces.size
        assert repr(model) == f"Model(1 lap, -5 u; {size} unknowns, steady)"
        assert repr(model.factual).startswith("Solution(")
        sweep = model.deletions(["u"], keep=True)
        bound = cf.certify_deletion(model, "u")
        assert repr(sweep) == f"Sweep(L2: u {sweep['u'].score:.4g})"
        for thing in (model, model.factual, sweep, sweep["u"], bound, bound.certificate):
            assert len(repr(thing)) < 160, repr(thing)
            assert "array" not in repr(thing)
