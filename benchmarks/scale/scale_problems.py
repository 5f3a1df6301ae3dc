# SPDX-License-Identifier: MIT
"""The problems of `cffem bench scale`, each with four terms that can be deleted, for about a given
number of unknowns.
"""

from __future__ import annotations

from collections.abc import Callable

import sympy as sp
from dolfinx import mesh as meshes
from mpi4py import MPI

import cffem as cf
from cffem import curl, dt, lap, x, y, z

u = cf.ScalarField("u")
E = cf.VectorField("E", dim=3)
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")


def heat(comm: MPI.Comm, unknowns: int) -> cf.Model:
    """∂u/∂t = 0.1 Δu + 0.3 u − 0.2 ∂u/∂x + 0.05 ∂u/∂y on the unit square, P2, four time steps."""
    n = max(round((unknowns**0.5 - 1) / 2), 2)
    return cf.Model(
        cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u, "u_x": u.diff(x), "u_y": u.diff(y)}),
        {"lap": 0.1, "u": 0.3, "u_x": -0.2, "u_y": 0.05},
        cf.Experiment(
            mesh=meshes.create_unit_square(comm, n, n),
            elements={u: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
            time=cf.Window(0, 0.1, steps=4),
        ),
        {"preset": "amg"},
    )


def maxwell(comm: MPI.Comm, unknowns: int) -> cf.Model:
    """curl curl E + 2 E + a weak layer and a drift = f in the unit cube, edge elements."""
    n = max(round((unknowns / 7) ** (1 / 3)), 2)
    terms = {
        "curl_curl": curl(curl(E)),
        "mass": E,
        "layer": sp.sin(sp.pi * x) * E,
        "slope": z * E,
    }
    return cf.Model(
        cf.Library(terms=terms, unknown=E),
        {"curl_curl": -1.0, "mass": -2.0, "layer": -0.5, "slope": -0.05},
        cf.Experiment(
            mesh=meshes.create_unit_cube(comm, n, n, n),
            elements={E: ("N1curl", 1)},
            boundary=[cf.Dirichlet(E, (0, 0, 0))],
            forcing={E: (sp.sin(sp.pi * y), sp.sin(sp.pi * z), sp.sin(sp.pi * x))},
        ),
        {"preset": "ams"},
    )


def stokes(comm: MPI.Comm, unknowns: int) -> cf.Model:
    """Δv − ∇p, drag, a layer and a slow rotation = f, div v = 0 on the unit square, Taylor–Hood."""
    n = max(round((unknowns / 9) ** 0.5), 2)
    terms = {
        "lap": lap(v),
        "drag": v,
        "layer": sp.sin(sp.pi * x) * v,
        "turn": cf.vector(-v[1], v[0]),
    }
    return cf.Model(
        cf.Library(terms=terms, unknown=v),
        {"lap": 1.0, "drag": -2.0, "layer": -0.5, "turn": -0.1},
        cf.Experiment(
            mesh=meshes.create_unit_square(comm, n, n),
            elements={v: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(v, (0, 0))],
            forcing={v: (sp.sin(sp.pi * y) * sp.cos(sp.pi * x), sp.sin(2 * sp.pi * x))},
            constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        ),
        {"preset": "stokes"},
    )


PROBLEMS: dict[str, Callable[[MPI.Comm, int], cf.Model]] = {
    "heat": heat,
    "maxwell": maxwell,
    "stokes": stokes,
}
# Verdicts are scores relative to the factual norm against this.
EPSILON = 0.02
