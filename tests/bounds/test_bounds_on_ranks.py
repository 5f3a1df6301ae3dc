"""Error bars, and the finer levels that they come from, are the same on any number of ranks.

Intervals, triangles, quadrilaterals, tetrahedra and hexahedra; periodic and natural conditions,
systems of mixed degrees, waves, edge elements; and meshes without ghost cells.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem._compat import exterior_facets, refined
from cffem.bounds.entrance import best_certificates

u, w = (cf.ScalarField(name, dim=1) for name in ("u", "w"))
E = cf.VectorField("E", dim=2)
SHARED, NONE = mesh.GhostMode.shared_facet, mesh.GhostMode.none


def bratu(comm, ghosts=SHARED):
    library = cf.Library(terms={"lap": lap(u), "exp": sp.exp(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_interval(comm, 8, [0, 1], ghost_mode=ghosts),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
    )
    return cf.Model(library, {"lap": 1.0, "exp": 1.0}, experiment)


def heat(comm):
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u})
    experiment = cf.Experiment(
        mesh=mesh.create_interval(comm, 8, [0, 1]),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x)},
        time=cf.Window(0, 0.1, steps=8),
    )
    return cf.Model(library, {"lap": 1.0, "u": 1.0}, experiment)


def wave(comm):
    library = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "cube": -(u**3)})
    experiment = cf.Experiment(
        mesh=mesh.create_interval(comm, 8, [0, 1]),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x), dt(u): 0},
        time=cf.Window(0, 0.4, steps=8),
    )
    return cf.Model(library, {"lap": 1.0, "cube": 0.5}, experiment)


def neumann(comm):
    """Values at the ends come from fluxes there and nowhere else."""
    library = cf.Library(terms={"lap": lap(u), "u": -u, "sin": -sp.sin(u)}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh.create_interval(comm, 9, [0, 1], ghost_mode=NONE),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 1)],
    )
    return cf.Model(library, {"lap": 1.0, "u": 1.0, "sin": 0.5}, experiment)


def mixed(comm):
    """A system on two degrees, with named ends."""
    libraries = {
        u: cf.Library(terms={"lap": lap(u), "exp": sp.exp(u)}, unknown=u),
        w: cf.Library(terms={"lap": lap(w), "u": u}, unknown=w),
    }
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.1),
        elements={u: ("Lagrange", 1), w: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(u, 0),
            cf.Dirichlet(w, 0, on="left"),
            cf.Neumann(w, 1, on="right"),
        ],
    )
    coefficients = {"u/lap": 1.0, "u/exp": 2.0, "w/lap": 1.0, "w/u": 1.0}
    return cf.Model(cf.System(libraries), coefficients, experiment)


def periodic(comm):
    library = cf.Library(terms={"lap": lap(u), "u": -u, "square": u**2}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 0.1),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Periodic(on="right", to="left")],
        forcing={u: sp.cos(2 * sp.pi * x) + sp.Rational(1, 2)},
    )
    return cf.Model(library, {"lap": 0.1, "u": 1.0, "square": 0.1}, experiment)


def reaction(comm, domain, dim):
    field = cf.ScalarField("u", dim=dim)
    library = cf.Library(terms={"lap": lap(field), "u": -field}, unknown=field)
    experiment = cf.Experiment(
        mesh=domain,
        elements={field: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(field, 0)],
        forcing={field: 10 * sp.sin(3 * x + y)},
    )
    return cf.Model(library, {"lap": 1.0, "u": 1.0}, experiment)


def plane(comm, cell=mesh.CellType.triangle):
    return reaction(comm, mesh.create_unit_square(comm, 4, 4, cell), 2)


def space(comm, cell=mesh.CellType.tetrahedron):
    return reaction(comm, mesh.create_unit_cube(comm, 3, 3, 3, cell), 3)


def edges(comm):
    library = cf.Library(terms={"curl": -cf.curl(cf.curl(E)), "E": -E}, unknown=E)
    experiment = cf.Experiment(
        mesh=mesh.create_unit_square(comm, 4, 4),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Dirichlet(E, 0)],
        forcing={E: (sp.sin(y), x)},
    )
    return cf.Model(library, {"curl": 1.0, "E": 1.0}, experiment)


LINES = {
    "bratu": bratu,
    "bratu without ghosts": lambda comm: bratu(comm, NONE),
    "heat": heat,
    "wave": wave,
    "neumann": neumann,
    "mixed": mixed,
    "periodic": periodic,
}
OTHERS = {
    "triangles": plane,
    "quadrilaterals": lambda comm: plane(comm, mesh.CellType.quadrilateral),
    "tetrahedra": space,
    "hexahedra": lambda comm: space(comm, mesh.CellType.hexahedron),
    "edges": edges,
}


def bars(comm, names):
    """By problem and term: score, margin, and δ* with what is left about it."""
    found = {}
    for name in names:
        with (LINES | OTHERS)[name](comm) as model:
            bounds = best_certificates(
                model, list(model.coefficients), cf.Certification(budget=1e5)
            )
        for term, bound in bounds.items():
            found[f"{name}: {term}"] = (
                [bound.score, bound.margin, *(bound.best or ())] if hasattr(bound, "score") else []
            )
    return found


def print_bars(comm, names):
    found = bars(comm, names.split(","))
    if comm.rank == 0:
        print("bars " + json.dumps(found), flush=True)


def check(on_ranks, ranks, names, timeout=120):
    output = on_ranks(ranks, print_bars, ",".join(names), timeout=timeout)
    several = json.loads(output.split("bars ")[1].splitlines()[0])
    one = bars(MPI.COMM_SELF, names)
    assert several.keys() == one.keys()
    assert sum(map(bool, one.values())) >= len(names)
    for key, (score, margin, *best) in ((key, row) for key, row in one.items() if row):
        # A margin is a difference of scores, whose last digits are rounding.
        size = 1e-9 * margin + 1e-12 * score
        assert several[key] == pytest.approx([score, margin, *best], rel=1e-9, abs=size), key
    assert [key for key in one if not one[key]] == [key for key in one if not several[key]]


@pytest.mark.mpi
def test_error_bars_on_an_interval_are_the_same_on_two_ranks(on_ranks):
    check(on_ranks, 2, ["heat", "neumann"])


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("problems", [LINES, OTHERS], ids=["intervals", "others"])
def test_error_bars_are_the_same_on_any_number_of_ranks(on_ranks, ranks, problems):
    check(on_ranks, ranks, list(problems), timeout=400)


def compare_boundaries(comm):
    """The boundary of an interval are its two ends, however it is shared out and refined."""
    for ghosts in (SHARED, NONE):
        domain = mesh.create_interval(comm, 7, [0, 1], ghost_mode=ghosts)
        for interval in (domain, refined(domain)[0], refined(refined(domain)[0])[0]):
            ends = np.concatenate(comm.allgather(interval.geometry.x[exterior_facets(interval), 0]))
            assert sorted(ends) == [0.0, 1.0]
    model = neumann(comm)
    measure = model.discretisation.boundary.whole
    one = fem.form(fem.Constant(model.discretisation.mesh, 1.0) * measure)
    assert comm.allreduce(fem.assemble_scalar(one)) == pytest.approx(2.0)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [1, 3])
def test_the_ends_of_ranks_are_no_boundary(on_ranks, ranks):
    on_ranks(ranks, compare_boundaries)
