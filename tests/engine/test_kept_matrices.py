"""Where the matrices of all terms do not fit into memory, some are assembled again: the numbers
are the same, and memory does not grow with the number of terms.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

from derivative_problems import PROBLEMS
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
import cffem.engine.store.kept_matrices as kept
from cffem.engine.store.free_memory import MemorySettings, free_memory, free_per_rank
from cffem.symbols.coordinates import x

NOTHING = replace(kept.KEPT, share=0.0, passing=1)


@pytest.mark.parametrize("name", ["heat", "maxwell", "coupled", "navier_stokes"])
def test_scores_do_not_depend_on_what_is_kept(name, monkeypatch):
    found = []
    for settings in (kept.KEPT, NOTHING):
        monkeypatch.setattr(kept, "KEPT", settings)
        model, observable = PROBLEMS[name]()
        with model:
            scores = {term: deletion.score for term, deletion in model.deletions().items()}
            linearised = {term: float(response) for term, response in model.linearised().items()}
            adjoint = dict(model.observable_scores(observable).sensitivities)
            found.append((scores, linearised, adjoint))
            assert (model.equation.kept.again > 0) == (settings is NOTHING)
    for everything, nothing in zip(*found, strict=True):
        assert nothing == pytest.approx(everything, rel=1e-12, abs=1e-15, nan_ok=True)


def resident() -> int:
    """Resident memory of this process in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def test_many_terms_take_no_more_memory_than_is_given_to_them(monkeypatch):
    u = cf.ScalarField("u")
    domain = mesh.create_unit_interval(MPI.COMM_SELF, 200_000)
    one = kept.KEPT.entry * 3 * 200_001
    monkeypatch.setattr(
        kept, "KEPT", replace(kept.KEPT, share=4.5 * one / free_per_rank(MPI.COMM_SELF))
    )
    # The forms differ in constants that only their values know, so that few are compiled.
    parameters = [cf.Parameter(f"k{n}") for n in range(60)]
    library = cf.Library(
        anchor=cf.dt(u),
        terms={"lap": cf.lap(u), **{f"t{n}": (x + k) * u for n, k in enumerate(parameters)}},
        parameters={k.name: 1.0 + n for n, k in enumerate(parameters)},
    )
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: x * (1 - x)},
        time=cf.Window(0, 0.1, steps=1),
    )
    with cf.Model(library, dict.fromkeys(library.names, 0.01), experiment) as model:
        model.equation.use({"lap": 0.01}, {})
        before = resident()
        model.equation.use(model.coefficients, {})
        grown = resident() - before
        assert model.equation.kept.again >= 50
    assert grown < 20 * one  # sixty of them before


def test_limits_of_control_groups_count(tmp_path):
    group = tmp_path / "a" / "b"
    group.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/a/b\n")
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 4000 kB\n")
    settings = MemorySettings(machine=tmp_path / "meminfo", groups=tmp_path, own=tmp_path / "own")
    assert free_memory(settings) == 4_096_000
    for folder, limit in ((group, "max"), (group.parent, "3000000")):
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.current").write_text("1000000\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 250000\n")
    assert free_memory(settings) == 2_250_000
    (tmp_path / "own").write_text("4:memory:/gone\n")
    (tmp_path / "memory").mkdir()
    for name, value in (("limit", 500), ("usage", 700)):
        (tmp_path / "memory" / f"memory.{name}_in_bytes").write_text(f"{value}\n")
    (tmp_path / "memory" / "memory.stat").write_text("total_inactive_file 0\n")
    assert free_memory(settings) == 0
    assert free_memory(MemorySettings(machine=tmp_path / "no", own=tmp_path / "no")) > 0
