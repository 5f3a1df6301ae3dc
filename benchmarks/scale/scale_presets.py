# SPDX-License-Identifier: MIT
"""Iterations of the presets at growing sizes: what is flat does not grow with the unknowns.

Usage: `cffem bench scale --presets 20000,80000,300000`; one process, one size after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import sympy as sp
from dolfinx import mesh as meshes
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dot, dt, grad, identity, lap, sym, trace, x, y, z

COMM = MPI.COMM_WORLD


def square(n: int) -> Any:
    return meshes.create_unit_square(COMM, n, n)


def cube(n: int) -> Any:
    return meshes.create_unit_cube(COMM, n, n, n)


def heat(unknowns: int) -> cf.Model:
    """Diffusion with a reaction, P2 in the plane, two time steps."""
    u = cf.ScalarField("u")
    return cf.Model(
        cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u}),
        {"lap": 0.1, "u": 0.3},
        cf.Experiment(
            mesh=square(int(unknowns**0.5 / 2)),
            elements={u: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(u, 0)],
            initial={u: sp.sin(sp.pi * x) * sp.sin(sp.pi * y)},
            time=cf.Window(0, 0.2, steps=2),
        ),
        {"preset": "amg"},
    )


def maxwell(unknowns: int, mass: float) -> cf.Model:
    """curl curl E + mass E = f, edge elements."""
    E = cf.VectorField("E", dim=3)
    terms = {"curl_curl": curl(curl(E)), **({"mass": E} if mass else {})}
    return cf.Model(
        cf.Library(terms=terms, unknown=E),
        {"curl_curl": -1.0, **({"mass": -mass} if mass else {})},
        cf.Experiment(
            mesh=cube(int((unknowns / 7) ** (1 / 3))),
            elements={E: ("N1curl", 1)},
            boundary=[cf.Dirichlet(E, (0, 0, 0))],
            forcing={E: (sp.sin(sp.pi * y), sp.sin(sp.pi * z), sp.sin(sp.pi * x))},
        ),
        {"preset": "ams"},
    )


def beam(unknowns: int, dim: int) -> cf.Model:
    """A clamped beam of length four under its weight, P2."""
    u = cf.VectorField("u", dim=dim)
    n = int((unknowns / dim / 4) ** (1 / dim) / 2)
    ends, counts = [[0.0] * dim, [4.0] + [1.0] * (dim - 1)], [4 * n] + [n] * (dim - 1)
    make = meshes.create_rectangle if dim == 2 else meshes.create_box
    sides: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
        "end": lambda p: np.isclose(p[0], 4),
        **{f"low {k}": lambda p, k=k: np.isclose(p[k], 0) for k in range(1, dim)},
        **{f"high {k}": lambda p, k=k: np.isclose(p[k], 1) for k in range(1, dim)},
    }
    domain = cf.mesh.named(
        make(COMM, ends, counts), facets={"clamp": lambda p: np.isclose(p[0], 0), **sides}
    )
    strain = sym(grad(u))
    terms = {
        "stress": div(2 * strain + 1.5 * trace(strain) * identity(dim)),
        "weight": cf.vector(*[0] * (dim - 1), -1),
    }
    boundary = [cf.Dirichlet(u, 0, on="clamp"), *(cf.Neumann(u, 0, on=side) for side in sides)]
    return cf.Model(
        cf.Library(terms=terms, unknown=u),
        {"stress": 1.0, "weight": 1.0},
        cf.Experiment(mesh=domain, elements={u: ("Lagrange", 2)}, boundary=boundary),
        {"preset": "amg"},
    )


def flow(unknowns: int, dim: int, reynolds: float = 0.0) -> cf.Model:
    """Stokes, or Navier–Stokes with a viscosity of 1/Re, driven by a force; Taylor–Hood."""
    v, p = cf.VectorField("v", dim=dim), cf.ScalarField("p")
    size = 30.0 / reynolds if reynolds else 1.0
    force = (size * sp.sin(sp.pi * y) * sp.cos(sp.pi * x), size * sp.sin(2 * sp.pi * x))
    terms = {"lap": lap(v), **({"inertia": dot(grad(v), v)} if reynolds else {})}
    values = {"lap": 1.0 / (reynolds or 1.0), **({"inertia": -1.0} if reynolds else {})}
    n = (unknowns / 9) ** 0.5 if dim == 2 else (unknowns / 25) ** (1 / 3)
    return cf.Model(
        cf.Library(terms=terms, unknown=v),
        values,
        cf.Experiment(
            mesh=square(int(n)) if dim == 2 else cube(int(n)),
            elements={v: ("Lagrange", 2)},
            boundary=[cf.Dirichlet(v, (0,) * dim)],
            forcing={v: force if dim == 2 else (*force, sp.sin(sp.pi * z))},
            constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        ),
        {"preset": "stokes"},
    )


CASES: dict[str, Callable[[int], cf.Model]] = {
    "heat, plane": heat,
    "Maxwell with mass": lambda unknowns: maxwell(unknowns, 1.0),
    "Maxwell without mass": lambda unknowns: maxwell(unknowns, 0.0),
    "elasticity, plane": lambda unknowns: beam(unknowns, 2),
    "elasticity, space": lambda unknowns: beam(unknowns, 3),
    "Stokes, plane": lambda unknowns: flow(unknowns, 2),
    "Stokes, space": lambda unknowns: flow(unknowns, 3),
    "Navier–Stokes, Re 100": lambda unknowns: flow(unknowns, 2, 100.0),
    "Navier–Stokes, Re 400": lambda unknowns: flow(unknowns, 2, 400.0),
}


def iterations(sizes: list[int], say: Callable[[str], None]) -> dict[str, dict[int, float]]:
    """Iterations of one solve by problem and number of unknowns."""
    found: dict[str, dict[int, float]] = {}
    for name, make in CASES.items():
        for unknowns in sizes:
            with make(unknowns) as model:
                record = model.factual.record
                count = record.iterations / max(record.solves, 1)
                found.setdefault(name, {})[model.spaces.size] = count
                say(f"{name}: {model.spaces.size} unknowns, {count:.1f} iterations")
    return found
