"""The same answer on any number of ranks: scores of every class of problem with the direct
solver, and ranks without cells.
"""

from __future__ import annotations

import json

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y

u, v, p = cf.ScalarField("u"), cf.VectorField("v", dim=2), cf.ScalarField("p")
E = cf.VectorField("E", dim=3)
BUMP = sp.sin(sp.pi * x) * sp.sin(sp.pi * y) * sp.exp(x)


def heat(comm, n):
    """A nonlinear transient problem with Dirichlet, Neumann and Robin conditions."""
    library = cf.Library(
        anchor=cf.dt(u), terms={"u": u, "u_x": u.diff(x), "cubic": u**3, "lap": cf.lap(u)}
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", n, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[
            cf.Dirichlet(u, t * y, on=("left", "right")),
            cf.Neumann(u, x, on="top"),
            cf.Robin(u, 1, on="bottom"),
        ],
        time=cf.Window(0, 0.2, steps=3),
    )
    return cf.Model(library, {"u": 0.6, "u_x": -1.0, "cubic": -1.0, "lap": 0.2}, experiment)


def torus(comm, n):
    """Transport and diffusion with both directions periodic."""
    library = cf.Library(
        anchor=cf.dt(u), terms={"u_x": u.diff(x), "u_y": u.diff(y), "lap": cf.lap(u)}
    )
    experiment = cf.Experiment(
        mesh=unit("quadrilateral", n, comm),
        elements={u: ("Lagrange", 1)},
        initial={u: sp.sin(2 * sp.pi * x + 1) * sp.cos(2 * sp.pi * y + 2)},
        boundary=[cf.Periodic(on="right", to="left"), cf.Periodic(on="top", to="bottom")],
        time=cf.Window(0, 0.2, steps=3),
    )
    return cf.Model(library, {"u_x": -1.0, "u_y": 0.5, "lap": 0.05}, experiment)


def flow(comm, n):
    """A steady flow in a closed box, whose pressure floats."""
    library = cf.Library(
        terms={"lap": cf.lap(v), "adv": -cf.dot(cf.grad(v), v), "drag": v}, unknown=v
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", n, comm),
        elements={v: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(v, (x * (1 - x), 0), on="top"),
            cf.Dirichlet(v, 0, on=("left", "right", "bottom")),
        ],
        forcing={v: (y, -x)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Model(library, {"lap": 0.1, "adv": 1.0, "drag": -1.0}, experiment)


def cavity(comm, n):
    """A wave with the divergence constraint and an auxiliary divergence."""
    library = cf.Library(
        anchor=cf.dt(cf.dt(E)),
        terms={"curl": -cf.curl(cf.curl(E)), "E": -E, "div": cf.grad(cf.div(E))},
    )
    experiment = cf.Experiment(
        mesh=unit("tetrahedron", max(n // 3, 1), comm),
        elements={E: ("N1curl", 1)},
        initial={E: (0, 0, sp.sin(sp.pi * x) * sp.sin(sp.pi * y)), cf.dt(E): 0},
        boundary=[cf.Tangential(E, 0)],
        constraint=cf.DivergenceFree(E),
        time=cf.Window(0, 0.5, steps=3),
    )
    return cf.Model(library, {"curl": 1.0, "E": 0.5, "div": 1.0}, experiment)


def materials(comm, n):
    """A weight, a conductivity by subdomain, and terms in a part, on a side and on a surface."""
    k, rho = cf.Known("k"), cf.Known("rho")
    library = cf.Library(
        anchor=rho * cf.dt(u),
        terms={
            "diffusion": cf.div(k * cf.grad(u)),
            "cooling": cf.on("glass", -u),
            "loss": cf.on("right", -(u**3)),
            "membrane": cf.on("middle", -u),
        },
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.named(
            unit("triangle", n, comm).mesh,
            cells={"glass": lambda p: p[0] < 0.5 + 1e-9, "air": lambda p: p[0] > 0.5 - 1e-9},
            facets={
                "right": lambda p: p[0] > 1 - 1e-9,
                "middle": lambda p: abs(p[0] - 0.5) < 1e-9,
            },
        ),
        elements={u: ("Lagrange", 1)},
        initial={u: BUMP},
        boundary=[cf.Neumann(u, 0)],
        time=cf.Window(0, 0.2, steps=3),
        known={k: {"glass": 2.25, "air": 1.0}, rho: lambda p: 1 + p[0]},
    )
    coefficients = {"diffusion": 0.1, "cooling": 1.0, "loss": 0.5, "membrane": 0.5}
    return cf.Model(library, coefficients, experiment)


def radiating(comm, n):
    """Natural laws: radiation, an absorbing side and a flux, with a nonlinear stress of diffusion
    given as a form.
    """
    flux = cf.Form(lambda u, v, dx: -(1 + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx)
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "flux": flux})
    experiment = cf.Experiment(
        mesh=unit("triangle", n, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[
            cf.Natural(u, 1 - u**4, on="left"),
            cf.Natural(u, -cf.dt(u), on="right"),
            cf.Natural(u, t * x, on=("top", "bottom")),
        ],
        time=cf.Window(0, 0.2, steps=3),
    )
    return cf.Model(library, {"u": -0.6, "lap": 0.2, "flux": 0.1}, experiment)


PROBLEMS = {f.__name__: f for f in (heat, torus, flow, cavity, materials, radiating)}


def scores(comm, n=6, names=tuple(PROBLEMS)) -> dict:
    """‖u‖, all δ_j and the size of the multiplier."""
    found = {}
    for name in names:
        model = PROBLEMS[name](comm, int(n))
        sweep = model.deletions()
        found[name] = {"norm": model.factual.norm(), **{k: d.score for k, d in sweep.items()}}
        assert all(d.status == "solved" for d in sweep.values()), [d.reason for d in sweep.values()]
        if model.discretisation.multiplier is not None:
            found[name]["multiplier"] = comm.allreduce(
                float(abs(model.factual.multiplier().x.array).max(initial=0.0)), op=MPI.MAX
            )
        model.destroy()
    return found


def print_scores(comm, n="6", names="heat,torus,flow,cavity,materials,radiating") -> None:
    """What each run of several ranks does."""
    found = scores(comm, n, names.split(","))
    if comm.rank == 0:
        print("SCORES", json.dumps(found))


def read(output: str) -> dict:
    """The scores that rank 0 printed."""
    return json.loads(
        next(line for line in output.splitlines() if line.startswith("SCORES")).removeprefix(
            "SCORES"
        )
    )


def assert_equal(found, expected):
    """|δ − δ′| ≤ 1e-10 δ + 1e-12 ‖u‖ for every score of every problem."""
    for name, values in expected.items():
        for key, value in values.items():
            assert abs(found[name][key] - value) <= 1e-10 * abs(value) + 1e-12 * values["norm"], (
                name,
                key,
                found[name][key],
                value,
            )


@pytest.fixture(scope="module")
def on_one_rank():
    return scores(MPI.COMM_SELF)


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_scores_do_not_depend_on_the_number_of_ranks(on_ranks, on_one_rank, ranks):
    assert_equal(read(on_ranks(ranks, print_scores, timeout=300)), on_one_rank)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "names", ["torus", pytest.param("heat,flow,cavity", marks=pytest.mark.slow)]
)
def test_eight_ranks_of_which_some_own_no_cells(on_ranks, names):
    """Two cells along each axis of the square are four squares, one along each of the cube
    six tetrahedra.
    """
    found = read(on_ranks(8, print_scores, "2", names, timeout=500))
    assert_equal(found, scores(MPI.COMM_SELF, 2, names.split(",")))
