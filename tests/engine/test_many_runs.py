"""Two ranks do the same work many times in a row without a failure: MUMPS's pivots and
workspace differ from run to run.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp

import cffem as cf
from cffem import dt, x, y, z

u, v, p, E = (
    cf.ScalarField("u"),
    cf.VectorField("v", dim=2),
    cf.ScalarField("p"),
    cf.VectorField("E", dim=3),
)
RUNS = 50
DECIDE = cf.Certification(epsilon=1e-2, relative=True)


def maxwell(comm):
    library = cf.Library(anchor=dt(dt(E)), terms={"cc": -cf.curl(cf.curl(E)), "damp": -dt(E)})
    experiment = cf.Experiment(
        mesh=cf.mesh.box(comm, 0.6),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0), dt(E): (0, 0, 0)},
        boundary=[cf.Tangential(E, 0)],
        time=cf.Window(0, 0.5, steps=2),
        constraint=cf.DivergenceFree(E),
    )
    return cf.Study(
        library, experiment, coefficients={"cc": 1.0, "damp": 0.05}, certification=DECIDE
    )


def flow(comm):
    library = cf.Library(
        terms={"visc": cf.lap(v), "darcy": -sp.Piecewise((1, y < 0.5), (0, True)) * v}, unknown=v
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.25),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, (y * (1 - y), 0), on="left"),
            cf.Dirichlet(v, 0, on=("top", "bottom")),
            cf.Neumann(v, 0, on="right"),
        ],
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Study(
        library, experiment, coefficients={"visc": 1.0, "darcy": 1e3}, certification=DECIDE
    )


def heat(comm, **terms):
    library = cf.Library(anchor=dt(u), terms={"lap": cf.lap(u), "drift": -u.diff(x), **terms})
    experiment = cf.Experiment(
        mesh=cf.mesh.square(comm, 0.25),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
        time=cf.Window(0, 0.5, steps=3),
    )
    coefficients = {"lap": 0.05, "drift": 0.3, **dict.fromkeys(terms, 0.5)}
    return cf.Study(library, experiment, coefficients=coefficients, certification=DECIDE)


def nonlinear(comm):
    return heat(comm, square=u**2)


def run_again_and_again(comm):
    for make in (maxwell, flow, heat, nonlinear):
        first = None
        for run in range(RUNS):
            report = make(comm).run()
            found = {
                name: (term.decision, term.deletion, term.margin)
                for name, term in report.terms.items()
            }
            first = first or found
            for name, (decision, *numbers) in found.items():
                assert decision == first[name][0], (make.__name__, run, name)
                for number, expected, accuracy in zip(
                    numbers, first[name][1:], (1e-9, 1e-4), strict=True
                ):
                    same = number is expected or number == pytest.approx(expected, rel=accuracy)
                    assert same, (make.__name__, run, name, number, expected)
        if comm.rank == 0:
            print(make.__name__, first, flush=True)


@pytest.mark.mpi
@pytest.mark.slow
def test_studies_on_two_ranks_do_not_fail_fifty_times_in_a_row(on_ranks):
    output = on_ranks(2, run_again_and_again, timeout=3600)
    assert all(name in output for name in ("maxwell", "flow", "heat", "nonlinear"))
