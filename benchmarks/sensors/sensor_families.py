# SPDX-License-Identifier: MIT
"""Model families of `cffem bench sensors`: an equation with candidate terms of which some are not
there, an experiment, and where sensors may stand.

Each has 10 to 30 sensors and noise of 1 to 10 % of the root mean square of what they read. Random
points are drawn anew for every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import curl, div, dot, dt, grad, lap, x, y

COMM = MPI.COMM_SELF
u = cf.ScalarField("u")
PI = sp.pi
BUMP = sp.sin(PI * x) * sp.sin(PI * y)
START = 2 * BUMP + sp.sin(2 * PI * x) * sp.sin(PI * y)


@dataclass(frozen=True)
class SensorFamily:
    """One kind of equation with its sensors.

    Attributes:
        name: what it is.
        make: library and experiment.
        truth: the coefficients that are not zero.
        fields: what the sensors read, from the library.
        count: how many sensors.
        noise: share of the root mean square of the readings.
        box: low and high corner of where sensors stand.
        start: where the fit starts; None for zero.
        fixed: coefficients that are known.
        times: how many time levels are read, evenly; None for all.
        null: terms that no sensor can feel.
        place: makes the points from a generator, where a box will not do.
        peer: whether the readings are those of one scalar field in time, which others could try.
    """

    name: str
    make: Callable[[], tuple[Any, Any]]
    truth: Mapping[str, float]
    fields: Callable[[Any], Sequence[Any]]
    count: int
    noise: float
    box: tuple[Sequence[float], Sequence[float]] = ((0.08, 0.08), (0.92, 0.92))
    start: Mapping[str, float] | None = None
    fixed: Mapping[str, float] = field(default_factory=dict)
    times: int | None = None
    null: tuple[str, ...] = ()
    place: Callable[[np.random.Generator], np.ndarray] | None = None
    peer: bool = False

    @property
    def key(self) -> str:
        """A short name for the command line."""
        return self.make.__name__

    def points(self, generator: np.random.Generator) -> np.ndarray:
        """Where the sensors stand."""
        if self.place is not None:
            return self.place(generator)
        low, high = (np.asarray(corner, dtype=float) for corner in self.box)
        return generator.uniform(low, high, (self.count, len(low)))


def scalar(terms: Mapping[str, Any], initial: Any, end: float, steps: int = 12, h: float = 0.15):
    """A scalar equation of first order on the unit square, zero on its boundary."""
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, h),
        elements={u: ("Lagrange", 2)},
        initial={u: initial},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, end, steps=steps),
    )
    return cf.Library(anchor=dt(u), terms=dict(terms)), experiment


def heat() -> tuple[Any, Any]:
    terms = {"lap": lap(u), "u": u, "u_x": u.diff(x), "u^2": u**2}
    return scalar(terms, START, 0.5)


def transport() -> tuple[Any, Any]:
    terms = {"lap": lap(u), "u_x": u.diff(x), "u_y": u.diff(y), "u": u}
    spot = sp.exp(-40 * ((x - 0.4) ** 2 + (y - 0.45) ** 2)) * 16 * x * (1 - x) * y * (1 - y)
    return scalar(terms, spot, 0.5, h=0.12)


def allen_cahn() -> tuple[Any, Any]:
    terms = {"lap": lap(u), "u": u, "u^3": u**3, "u_x": u.diff(x)}
    return scalar(terms, 0.4 * START, 2.0)


def thermometers() -> tuple[Any, Any]:
    terms = {"u": u, "u_x": u.diff(x), "u_y": u.diff(y), "lap": lap(u), "u^3": u**3}
    return scalar(terms, START, 1.0)


def burgers() -> tuple[Any, Any]:
    library = cf.Library(
        anchor=dt(u), terms={"u_xx": lap(u), "u u_x": u * u.diff(x), "u_x": u.diff(x), "u": u}
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(COMM, 1 / 40),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(2 * PI * x) + sp.sin(PI * x) / 2},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 0.5, steps=20),
    )
    return library, experiment


def gray_scott() -> tuple[Any, Any]:
    a, b = cf.ScalarField("a"), cf.ScalarField("b")
    library = cf.System(
        {
            a: cf.Library(
                anchor=dt(a), terms={"lap": lap(a), "react": -a * b**2, "feed": 1 - a}, unknown=a
            ),
            b: cf.Library(
                anchor=dt(b), terms={"lap": lap(b), "react": a * b**2, "kill": -b}, unknown=b
            ),
        }
    )
    spot = sp.exp(-30 * ((x - 0.45) ** 2 + (y - 0.5) ** 2))
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.2),
        elements={a: ("Lagrange", 2), b: ("Lagrange", 2)},
        initial={a: 1 - spot / 2, b: 0.1 + spot},
        boundary=[cf.Neumann(a, 0), cf.Neumann(b, 0)],
        time=cf.Window(0, 4, steps=15),
    )
    return library, experiment


def wave() -> tuple[Any, Any]:
    library = cf.Library(
        anchor=dt(dt(u)),
        terms={"lap": lap(u), "damping": -dt(u), "mass": -u, "u_x": u.diff(x)},
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.15),
        elements={u: ("Lagrange", 2)},
        initial={u: START, dt(u): 0},
        boundary=[cf.Dirichlet(u, 0)],
        time=cf.Window(0, 1.5, steps=20),
    )
    return library, experiment


def cavity() -> tuple[Any, Any]:
    E = cf.VectorField("E", dim=2)
    library = cf.Library(
        anchor=dt(dt(E)),
        terms={"curl curl": -curl(curl(E)), "damping": -dt(E), "grad div": grad(div(E)), "E": -E},
    )
    modes = (
        sp.sin(PI * y) + sp.cos(PI * x) * sp.sin(2 * PI * y),
        sp.sin(PI * x) / 2 - sp.sin(PI * x) * sp.cos(2 * PI * y) / 2,
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.2),
        elements={E: ("N1curl", 2)},
        initial={E: modes, dt(E): (0, 0)},
        boundary=[cf.Tangential(E, 0, on="all")],
        time=cf.Window(0, 2, steps=20),
        constraint=cf.DivergenceFree(E),
    )
    return library, experiment


def flow(
    terms: Callable[[Any], Mapping[str, Any]],
    mesh: Any,
    boundary: Callable[[Any], list[Any]],
    forcing: Any = None,
) -> tuple[Any, Any]:
    """A steady flow whose pressure is a multiplier."""
    v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
    experiment = cf.Experiment(
        mesh=mesh,
        elements={v: ("Lagrange", 2), p: ("Lagrange", 1)},
        boundary=boundary(v),
        forcing={} if forcing is None else {v: forcing},
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return cf.Library(terms=dict(terms(v)), unknown=v), experiment


def stokes() -> tuple[Any, Any]:
    stir = (sp.sin(PI * y) * (1 + x), -sp.cos(PI * x) * y + x**2)
    return flow(
        lambda v: {
            "viscosity": lap(v),
            "friction": -v,
            "Coriolis": cf.vector(v[1], -v[0]),
            "shear": v.diff(x),
        },
        cf.mesh.square(COMM, 0.15),
        lambda v: [cf.Dirichlet(v, (0, 0))],
        stir,
    )


def cylinder() -> tuple[Any, Any]:
    inflow = (4 * y * (sp.Rational(41, 100) - y) / sp.Rational(41, 100) ** 2 * 3 / 10, 0)
    return flow(
        lambda v: {
            "viscosity": lap(v),
            "convection": -dot(v, grad(v)),
            "friction": -v,
            "Coriolis": cf.vector(v[1], -v[0]),
        },
        cf.mesh.channel(COMM, 0.12),
        lambda v: [
            cf.Dirichlet(v, inflow, on="inlet"),
            cf.Dirichlet(v, (0, 0), on="walls"),
            cf.Dirichlet(v, (0, 0), on="cylinder"),
            cf.Neumann(v, (0, 0), on="outlet"),
        ],
    )


def boussinesq() -> tuple[Any, Any]:
    v, p, T = cf.VectorField("v", dim=2), cf.ScalarField("p"), cf.ScalarField("T")
    library = cf.System(
        {
            v: cf.Library(
                anchor=dt(v),
                terms={
                    "viscosity": lap(v),
                    "convection": -dot(v, grad(v)),
                    "buoyancy": cf.vector(0, T),
                },
                unknown=v,
            ),
            T: cf.Library(
                anchor=dt(T),
                terms={"conduction": lap(T), "transport": -dot(v, grad(T)), "loss": -T},
                unknown=T,
            ),
        }
    )
    hot = sp.exp(-12 * ((x - 0.4) ** 2 + (y - 0.35) ** 2))
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.25),
        elements={v: ("Lagrange", 2), p: ("Lagrange", 1), T: ("Lagrange", 2)},
        initial={v: (0, 0), T: hot},
        boundary=[cf.Dirichlet(v, (0, 0)), cf.Neumann(T, 0)],
        time=cf.Window(0, 2, steps=10),
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
    )
    return library, experiment


def elasticity() -> tuple[Any, Any]:
    w = cf.VectorField("w", dim=2)
    library = cf.Library(
        terms={"shear": 2 * div(cf.sym(grad(w))), "bulk": grad(div(w)), "bedding": -w}, unknown=w
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.12),
        elements={w: ("Lagrange", 2)},
        boundary=[
            cf.Dirichlet(w, (0, 0), on="bottom"),
            *(cf.Natural(w, (0, 0), on=part) for part in ("left", "right", "top")),
        ],
        forcing={w: (sp.Rational(1, 2) + y, -1 - x)},
    )
    return library, experiment


def surface(generator: np.random.Generator) -> np.ndarray:
    """Points on the free sides of the square."""
    where, side = generator.uniform(0.1, 0.95, 12), generator.integers(0, 3, 12)
    zero, one = np.zeros(12), np.ones(12)
    return np.column_stack(
        [np.choose(side, [zero, one, where]), np.choose(side, [where, where, one])]
    )


def darcy() -> tuple[Any, Any]:
    library = cf.Library(
        terms={
            "west": div((1 - x) * grad(u)),
            "east": div(x * grad(u)),
            "leak": -u,
            "drift": u.diff(x),
        },
        unknown=u,
    )
    wells = 40 * sp.exp(-80 * ((x - 0.3) ** 2 + (y - 0.3) ** 2)) - 30 * sp.exp(
        -80 * ((x - 0.7) ** 2 + (y - 0.6) ** 2)
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(COMM, 0.1),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Dirichlet(u, x * (1 - y))],
        forcing={u: wells},
    )
    return library, experiment


def first(library: Any) -> list[Any]:
    """The only unknown."""
    return list(library.unknowns)


FAMILIES = (
    SensorFamily("heat with reaction", heat, {"lap": 0.05, "u": 0.4}, first, 10, 0.02, peer=True),
    SensorFamily(
        "advection–diffusion",
        transport,
        {"lap": 0.02, "u_x": -0.4, "u_y": 0.25},
        first,
        14,
        0.03,
        peer=True,
    ),
    SensorFamily(
        "Allen–Cahn", allen_cahn, {"lap": 0.03, "u": 1.0, "u^3": -1.0}, first, 12, 0.02, peer=True
    ),
    SensorFamily(
        "twelve thermometers",
        thermometers,
        {"u": 0.6, "u_x": 0.5, "lap": 0.02, "u^3": -0.8},
        first,
        12,
        0.05,
        peer=True,
    ),
    SensorFamily(
        "Burgers",
        burgers,
        {"u_xx": 0.03, "u u_x": -0.6},
        first,
        10,
        0.05,
        box=((0.05,), (0.95,)),
        peer=True,
    ),
    SensorFamily(
        "Gray–Scott, one species seen",
        gray_scott,
        {
            "a/lap": 0.05,
            "a/react": 4.0,
            "a/feed": 0.5,
            "b/lap": 0.02,
            "b/react": 4.0,
            "b/kill": 1.0,
        },
        lambda library: [library.unknowns[1]],
        20,
        0.01,
        start={
            "a/lap": 0.04,
            "a/react": 3.5,
            "a/feed": 0.4,
            "b/lap": 0.03,
            "b/react": 3.5,
            "b/kill": 0.9,
        },
    ),
    SensorFamily(
        "wave",
        wave,
        {"lap": 1.0, "damping": 0.5},
        first,
        10,
        0.05,
        start={"lap": 0.9, "damping": 0.1, "mass": 0.0, "u_x": 0.0},
        peer=True,
    ),
    SensorFamily(
        "Maxwell cavity, three probes",
        cavity,
        {"curl curl": 1.0, "damping": 0.4},
        first,
        3,
        0.05,
        start={"curl curl": 0.95, "damping": 0.1},
        null=("grad div",),
    ),
    SensorFamily(
        "Stokes, velocities only",
        stokes,
        {"viscosity": 0.05, "friction": 0.5},
        first,
        12,
        0.02,
        start={"viscosity": 0.1, "friction": 0.1},
        null=("Coriolis",),
    ),
    SensorFamily(
        "Navier–Stokes past a cylinder, velocities only",
        cylinder,
        {"viscosity": 2e-3, "convection": 1.0, "friction": 0.2},
        first,
        12,
        0.02,
        box=((0.4, 0.06), (2.0, 0.35)),
        start={"viscosity": 3e-3, "friction": 0.1},
        fixed={"convection": 1.0},
    ),
    SensorFamily(
        "Boussinesq, temperatures only",
        boussinesq,
        {
            "v/viscosity": 0.05,
            "v/convection": 1.0,
            "v/buoyancy": 2.0,
            "T/conduction": 0.02,
            "T/transport": 1.0,
        },
        lambda library: [f for f in library.unknowns if str(f) == "T"],
        20,
        0.01,
        start={
            "v/viscosity": 0.08,
            "v/buoyancy": 1.5,
            "T/conduction": 0.03,
            "v/convection": 0.9,
        },
        # The velocity is not seen, and its unit is that of this coefficient.
        fixed={"T/transport": 1.0},
    ),
    SensorFamily(
        "elasticity, surface displacements",
        elasticity,
        {"shear": 1.0, "bulk": 1.5},
        first,
        12,
        0.02,
        start={"shear": 0.7, "bulk": 1.0},
        place=surface,
    ),
    SensorFamily(
        "Darcy, wells",
        darcy,
        {"west": 1.0, "east": 3.0, "leak": 8.0},
        first,
        24,
        0.01,
        start={"west": 2.0, "east": 2.0},
    ),
)
