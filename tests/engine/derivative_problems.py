"""Small problems of every class whose derivatives are tested, each with an observable that
feels all of its terms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import sympy as sp
from dolfinx.mesh import CellType, create_unit_cube, create_unit_interval, create_unit_square
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import t, x, y, z

u, w = cf.ScalarField("u"), cf.ScalarField("w")
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
E = cf.VectorField("E", dim=3)
BUMP = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
SWIRL = (
    sp.sin(sp.pi * x) ** 2 * sp.sin(2 * sp.pi * y),
    -(sp.sin(sp.pi * y) ** 2) * sp.sin(2 * sp.pi * x),
)


def heat(comm: Any = MPI.COMM_SELF) -> Any:
    """Heat in 1D with a source, a Robin end and boundary values that move."""
    library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "one": sp.Integer(1)})
    experiment = cf.Experiment(
        mesh=create_unit_interval(comm, 12),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.cos(sp.pi * x)},
        boundary=[cf.Robin(u, t, coefficient=2)],
        time=cf.Window(0, 0.4, steps=6),
    )
    return cf.Model(library, {"u": 0.6, "lap": 0.3, "one": 0.5}, experiment), cf.Average(
        u, at="window"
    )


def advection_diffusion(comm: Any = MPI.COMM_SELF) -> Any:
    """Advection–diffusion in 2D by the L-stable scheme, with time-dependent Dirichlet data
    and coefficients.
    """
    terms = {
        "u_x": u.diff(x),
        "stir": cf.dot(cf.vector(y - 0.5, (0.5 - x) * sp.cos(t)), cf.grad(u)),
        "lap": cf.lap(u),
    }
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 4, CellType.quadrilateral),
        elements={u: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[cf.Dirichlet(u, t * x)],
        time=cf.Window(0, 0.4, steps=5, scheme="sdirk2"),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms=terms), {"u_x": -0.8, "stir": 1.0, "lap": 0.1}, experiment
    )
    return model, cf.Integral(u * x, at=0.33)


def reaction_diffusion(comm: Any = MPI.COMM_SELF) -> Any:
    """A nonlinear reaction that is no polynomial, and Burgers' term."""
    terms = {"u": u, "sin": sp.sin(u), "burgers": u * u.diff(x), "lap": cf.lap(u)}
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 4),
        elements={u: ("Lagrange", 2)},
        initial={u: 2 * BUMP},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=5),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms=terms),
        {"u": 1.0, "sin": -0.7, "burgers": -0.5, "lap": 0.05},
        experiment,
    )
    return model, cf.Energy(cf.grad(u), at="window")


def periodic(comm: Any = MPI.COMM_SELF) -> Any:
    """A nonlinear wave going around, in a box that is periodic in one direction."""
    terms = {"u_x": u.diff(x), "lap": cf.lap(u), "square": u**2}
    experiment = cf.Experiment(
        mesh=unit("triangle", 4, comm),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + sp.sin(2 * sp.pi * x) * sp.cos(sp.pi * y)},
        boundary=[cf.Periodic(on="right", to="left"), cf.Neumann(u, 0, on=("top", "bottom"))],
        time=cf.Window(0, 0.4, steps=4),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(u), terms=terms),
        {"u_x": -1.0, "lap": 0.05, "square": -0.3},
        experiment,
    )
    return model, cf.Integral(u**2 * sp.sin(3 * x), at="window")


def stokes(comm: Any = MPI.COMM_SELF) -> Any:
    """Steady Stokes flow (Taylor–Hood) in a closed box, whose pressure is determined up to a
    constant.
    """
    library = cf.Library(
        terms={"lap": cf.lap(v), "drag": v, "wind": cf.vector(y, x * y)}, unknown=v
    )
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 4),
        elements={v: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(v, (0, 0))],
        forcing={v: (sp.sin(3 * y), x)},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Model(library, {"lap": 0.1, "drag": -0.7, "wind": 0.3}, experiment), cf.Integral(
        v[0] * y + p * x
    )


def navier_stokes(comm: Any = MPI.COMM_SELF) -> Any:
    """Transient Navier–Stokes flow (Taylor–Hood)."""
    terms = {"lap": cf.lap(v), "convection": cf.dot(cf.grad(v), v), "drag": v}
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 4),
        elements={v: ("Lagrange", 2)},
        initial={v: SWIRL},
        boundary=[cf.Dirichlet(v, (0, 0))],
        forcing={v: (y, 0)},
        time=cf.Window(0, 0.3, steps=3),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(v), terms=terms),
        {"lap": 0.05, "convection": -1.0, "drag": -0.4},
        experiment,
    )
    return model, cf.Integral(v[0] ** 2 + p * x, at="window")


def curl_curl(comm: Any = MPI.COMM_SELF) -> Any:
    """The steady curl-curl equation on edge elements."""
    library = cf.Library(
        terms={"curlcurl": cf.curl(cf.curl(E)), "E": E, "cubic": cf.dot(E, E) * E}, unknown=E
    )
    experiment = cf.Experiment(
        mesh=create_unit_cube(comm, 2, 2, 2),
        elements={E: ("N1curl", 1)},
        boundary=[cf.Tangential(E, (0, 0, 0))],
        forcing={E: (sp.sin(y), z, x * y)},
    )
    return cf.Model(library, {"curlcurl": -1.0, "E": -2.0, "cubic": -0.5}, experiment), cf.Energy(
        cf.curl(E)
    )


def maxwell(comm: Any = MPI.COMM_SELF) -> Any:
    """The Maxwell wave with damping, second order in time; the observable is the energy with
    its rate.
    """
    terms = {"curlcurl": cf.curl(cf.curl(E)), "damping": cf.dt(E), "E": E}
    experiment = cf.Experiment(
        mesh=create_unit_cube(comm, 2, 2, 2),
        elements={E: ("N1curl", 1)},
        initial={E: (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0), cf.dt(E): (0, x, 0)},
        boundary=[cf.Tangential(E, (0, 0, 0))],
        time=cf.Window(0, 0.5, steps=6),
    )
    model = cf.Model(
        cf.Library(anchor=cf.dt(cf.dt(E)), terms=terms),
        {"curlcurl": -1.0, "damping": -0.4, "E": 0.5},
        experiment,
    )
    energy = cf.dot(cf.dt(E), cf.dt(E)) / 2 + cf.dot(cf.curl(E), cf.curl(E)) / 2
    return model, cf.Integral(energy, at="window")


def coupled(comm: Any = MPI.COMM_SELF) -> Any:
    """A field with a rate coupled to one without, whose initial value is solved for."""
    system = cf.System(
        {
            "u": cf.Library(
                anchor=cf.dt(u),
                terms={"lap": cf.lap(u), "drift": cf.div(u * cf.grad(w)), "w": w},
                unknown=u,
            ),
            "w": cf.Library(anchor=None, terms={"lap": cf.lap(w), "u": u, "w": w}, unknown=w),
        }
    )
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 4, 4),
        elements={u: ("Lagrange", 2), w: ("Lagrange", 2)},
        initial={u: BUMP},
        boundary=[cf.Dirichlet(u, 0), cf.Dirichlet(w, 0)],
        time=cf.Window(0, 0.3, steps=4),
    )
    coefficients = {"u/lap": 0.2, "u/drift": 0.5, "u/w": 1.0, "w/lap": 1.0, "w/u": 1.5, "w/w": -1.0}
    return cf.Model(system, coefficients, experiment), cf.Integral(w**2 + u * x, at="window")


PROBLEMS: dict[str, Callable[..., Any]] = {
    f.__name__: f
    for f in (
        heat,
        advection_diffusion,
        reaction_diffusion,
        periodic,
        stokes,
        navier_stokes,
        curl_curl,
        maxwell,
        coupled,
    )
}


@cache
def problem(name: str) -> Any:
    """(model, observable) of a problem on one rank, made once."""
    return PROBLEMS[name]()
