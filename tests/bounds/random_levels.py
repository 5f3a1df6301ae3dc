"""Random problems on meshes that can be made coarser, with much finer solutions beside them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y, z
from cffem.bounds.levels.ladders import raised_elements, refined_domain

u = cf.ScalarField("u")
SCHEMES = ("midpoint", "midpoint", "midpoint", "backward-euler", "sdirk2")
PLACES = {"interval": (x,), "square": (x, y), "l_shape": (x, y), "box": (x, y, z)}


def wave(random: np.random.Generator, places: tuple[sp.Symbol, ...], modes: int) -> sp.Expr:
    """A product of sines with random frequencies, zero on the boundary of the unit shapes."""
    result = sp.Float(random.uniform(0.5, 1.5))
    for place in places:
        result *= sp.sin(int(random.integers(1, modes + 1)) * sp.pi * place)
    return result


def problem(seed: int) -> tuple[Any, str]:
    """A random model and what it is, in words."""
    random = np.random.default_rng(seed)
    shape = str(random.choice(["interval", "square", "square", "square", "l_shape", "box"]))
    places = PLACES[shape]
    h = float(
        {"interval": random.uniform(0.01, 0.08), "box": random.uniform(0.12, 0.2)}.get(
            shape, random.uniform(0.04, 0.16)
        )
    )
    degree = int(random.choice([1, 2])) if shape != "box" else 1
    kind = str(random.choice(["linear", "linear", "cubic", "burgers", "steady", "wave"]))
    steps = int(random.integers(5, 25))
    modes = int(random.choice([1, 2, 4]))
    diffusion = float(10 ** random.uniform(-2.3, -0.3))
    drift = -(places[0] + 0.5) * u.diff(places[0])
    terms: dict[str, Any] = {"lap": lap(u), "drift": drift, "r": u, "xr": x * u}
    coefficients = {
        "lap": diffusion,
        "drift": float(random.uniform(0.05, 1.0)),
        "r": float(random.uniform(-1, 0.5)),
        "xr": float(random.uniform(-0.5, 0.5)),
    }
    start = wave(random, places, modes) + wave(random, places, 1)
    chosen: dict[str, Any] = {"boundary": [cf.Dirichlet(u, 0)]}
    if kind == "cubic":
        terms["r"], coefficients["r"] = -(u**3), abs(coefficients["r"]) + 0.1
    if kind == "burgers":
        terms["drift"] = -u * u.diff(places[0])
    if kind == "wave":
        terms["drift"] = -dt(u)
    if kind == "steady":
        library = cf.Library(terms=terms, unknown=u)
        coefficients["r"] = -abs(coefficients["r"])
        chosen["forcing"] = {u: 10 * diffusion * start}
    else:
        order = 2 if kind == "wave" else 1
        library = cf.Library(anchor=dt(u) if order == 1 else dt(dt(u)), terms=terms)
        chosen["initial"] = {u: start} | ({dt(u): 0} if order == 2 else {})
        scheme = str(random.choice(SCHEMES)) if order == 1 else None
        chosen["time"] = cf.Window(0, float(random.uniform(0.1, 1.0)), steps, scheme)
    experiment = cf.Experiment(
        mesh=getattr(cf.mesh, shape)(MPI.COMM_SELF, h), elements={u: ("Lagrange", degree)}, **chosen
    )
    scheme = getattr(chosen.get("time"), "scheme", None)
    words = f"{seed}: {kind} {shape} h={h:.3g} P{degree} {steps} steps {scheme} a={diffusion:.2g}"
    return cf.Model(library, coefficients, experiment), f"{words} modes={modes}"


def reference(model: Any) -> Any:
    """The same model with cells divided, one degree more, and an eighth of the time step."""
    domain, _ = refined_domain(model.discretisation.domain)
    experiment, window = model.experiment, model.experiment.time
    changes: dict[str, Any] = {"mesh": domain, "elements": raised_elements(experiment, 1)}
    if window is not None:
        scheme = "sdirk2" if window.scheme == "backward-euler" else window.scheme
        changes["time"] = dataclasses.replace(window, steps=8 * window.steps, scheme=scheme)
    return cf.Model(model.library, model.coefficients, dataclasses.replace(experiment, **changes))
