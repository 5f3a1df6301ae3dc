"""Long loops: deletions neither grow memory nor use up communicators, and models give
everything back.
"""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import x, y

u = cf.ScalarField("u")


def resident():
    """Resident memory of this process in kilobytes."""
    gc.collect()
    fields = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    return int(fields["VmRSS"].split()[0])


def transient(n=10, nonlinear=True, conditions=()):
    terms = {"u": u, "u_x": u.diff(x), "lap": cf.lap(u), **({"cubic": u**3} if nonlinear else {})}
    library = cf.Library(anchor=cf.dt(u), terms=terms)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(MPI.COMM_WORLD, n, n),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.05, steps=2),
    )
    coefficients = {"u": 0.6, "u_x": 0.3, "lap": 0.1, **({"cubic": -0.5} if nonlinear else {})}
    return cf.Model(library, coefficients, experiment)


def grow_by_deletions(model, count, norm="L2"):
    """Relative growth of memory from the fiftieth to the last deletion."""
    names = list(model.active)
    before = None
    for k in range(count):
        model.deletions([names[k % len(names)]], norm)
        if k == 50:
            before = resident()
    return resident() / before - 1.0


@pytest.mark.parametrize("nonlinear", [False, True])
def test_memory_stays_after_fifty_deletions(nonlinear):
    with transient(12, nonlinear) as model:
        assert (
            grow_by_deletions(model, 150 if nonlinear else 300, "L2" if nonlinear else "energy")
            < 0.05
        )


@pytest.mark.slow
@pytest.mark.parametrize("nonlinear", [False, True])
def test_memory_stays_through_a_thousand_deletions(nonlinear):
    with transient(24, nonlinear) as model:
        growth = grow_by_deletions(model, 1000)
        print(f"growth {100 * growth:.2f} %")
        assert growth < 0.05


def test_functions_and_solves_take_no_lasting_communicators():
    """A communicator has attributes and a place in a table; DOLFINx functions take some each,
    and must give them back.
    """
    with transient(4, nonlinear=False) as model:
        solution = model.solve()
        before = resident()
        for k in range(3000):
            solution.function(k=k % 3)
        assert resident() / before < 1.05


def test_models_are_freed():
    sizes = []
    for k in range(8):
        with transient(16, nonlinear=False) as model:
            model.deletions()
            model.factual.norm("H1")
        del model
        if k >= 2:
            sizes.append(resident())
    assert sizes[-1] / sizes[0] < 1.05


def test_a_study_leaves_no_model_behind():
    """Finer levels of its error bars keep deleted solutions, which know their model."""
    made = transient(4)
    certification = cf.Certification(epsilon=1e-3, budget=1e4)
    report = cf.Study(
        made.library, made.experiment, coefficients=made.coefficients, certification=certification
    ).run()
    assert "estimated" in {term.certificate for term in report.terms.values()}
    library = made.library
    made.destroy()
    del made
    gc.collect()
    assert not [
        one for one in gc.get_objects() if isinstance(one, cf.Model) and one.library is library
    ]
