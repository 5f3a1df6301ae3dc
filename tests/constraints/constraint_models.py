"""Models with a constraint: the Maxwell cavity and a closed flow, each with twelve candidate
terms and their truth table.
"""

from __future__ import annotations

import sympy as sp

import cffem as cf
from cffem import cross, curl, div, dot, dt, grad, lap, x, y, z

E = cf.VectorField("E", dim=3)
v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
TURNED = cf.vector(-v[1], v[0])

MAXWELL = {
    "rotation": curl(curl(E)),
    "laplacian": lap(E),
    "graddiv": grad(div(E)),
    "damping": dt(E),
    "hall": cross(dt(E), cf.vector(0, 0, 1)),
    "mass": E,
    "charge": div(E) * E,
    "graddiv_rate": grad(div(dt(E))),
    "anisotropic": cf.vector(E[0], 0, 0),
    "tiny": sp.Float(1e-6) * cross(E, cf.vector(1, 0, 0)),
    "cubic": dot(E, E) * E,
    "graddiv_varying": x * grad(div(E)),
}
MAXWELL_NULLS = {"graddiv", "charge", "graddiv_rate", "graddiv_varying"}
MAXWELL_CLASSES = {frozenset({"rotation", "laplacian"})}

FLOW = {
    "viscosity": lap(v),
    "rotrot": curl(curl(v)),
    "convection": dot(grad(v), v),
    "lamb": curl(v) * TURNED,
    "pressure": grad(p),
    "kinetic": grad(dot(v, v) / 2),
    "drag": v,
    "dilatation": div(v) * v,
    "coriolis": TURNED,
    "swirl": cf.vector(-y, x),
    "bulk": grad(div(v)),
    "tiny": sp.Float(1e-6) * dot(v, v) * v,
}
FLOW_NULLS = {"pressure", "kinetic", "dilatation", "coriolis", "bulk"}
FLOW_CLASSES = {frozenset({"viscosity", "rotrot"}), frozenset({"convection", "lamb"})}

MODE = (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), 0, 0)
COEFFICIENTS = {"rotation": -1.0, "graddiv": 0.7, "damping": -0.5, "hall": 1.0}


def cavity(
    mesh,
    degree=1,
    names=tuple(MAXWELL),
    initial=MODE,
    constraint=True,
    boundary=0,
    coefficients=COEFFICIENTS,
):
    """E'' = −curl curl E + … with a perfect conductor around, or with a given tangential field."""
    library = cf.Library(anchor=dt(dt(E)), terms={name: MAXWELL[name] for name in names})
    experiment = cf.Experiment(
        mesh=mesh,
        elements={E: ("N1curl", degree)},
        boundary=[cf.Tangential(E, boundary)],
        initial={E: initial, dt(E): (0, 0, 0)},
        time=cf.Window(0, 1.0, steps=5),
        constraint=cf.DivergenceFree(E) if constraint else None,
    )
    return cf.Model(
        library, {name: value for name, value in coefficients.items() if name in names}, experiment
    )


PAIRS = {
    "Taylor–Hood": (("Lagrange", 2), ("Lagrange", 1)),
    "RT": (("RT", 2), ("DG", 1)),
    "BDM": (("BDM", 1), ("DG", 0)),
}


def flow(mesh, pair="BDM", names=tuple(FLOW), boundary=None, coefficients=None):
    """A velocity with its pressure in a closed box with no-slip walls."""
    velocity, pressure = PAIRS[pair]
    library = cf.Library(anchor=dt(v), terms={name: FLOW[name] for name in names})
    walls = [cf.Dirichlet(v, 0)] if boundary is None else boundary
    if pair != "Taylor–Hood":
        walls = [*walls, cf.Tangential(v, 0)]
    experiment = cf.Experiment(
        mesh=mesh,
        elements={v: velocity},
        boundary=walls,
        initial={
            v: (
                sp.sin(sp.pi * x) ** 2 * sp.sin(2 * sp.pi * y),
                -sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y) ** 2,
            )
        },
        time=cf.Window(0, 0.1, steps=2),
        constraint=cf.DivergenceFree(v, multiplier={p: pressure}),
    )
    return cf.Model(library, coefficients or {names[0]: 0.1}, experiment)
