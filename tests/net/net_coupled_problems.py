"""Coupled problems: flows with a pressure, scalars that act on each other, Darcy's law,
conductivities, transport.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp
import ufl
from net_coupled import Coupled, Entry, in_space, k, p, q, u, v, w
from net_coupled_fields import conductor, weak_curl, weak_divergence
from net_meshes import sides, small_mesh
from net_problems import polynomial

import cffem as cf
from cffem import div, dot, grad, lap, x, y


def stream(rng: np.random.Generator, in_time: bool) -> tuple[Any, Any]:
    """A velocity without divergence, of second degree so that its interpolant has none either."""
    psi = sum(
        round(float(rng.normal()), 3) * m
        for m in (x, y, x * y, x**2, y**2, x**2 * y, x * y**2, x**3)
    )
    psi = psi * (1 + cf.t) if in_time else psi
    return (sp.diff(psi, y), -sp.diff(psi, x))


def flow(rng: np.random.Generator, seed: int) -> Coupled:
    """Stokes' and Navier–Stokes' equations on Taylor–Hood elements."""
    order, bent = int(rng.integers(2)), bool(rng.uniform() < 0.4)
    nu = float(rng.uniform(0.5, 2.0))

    def gradients(h):
        return -ufl.inner(ufl.grad(h.values[v]), ufl.grad(h.tests[v])) * h.dx

    entries = [Entry(v, "viscosity", lap(v), nu, gradients)]
    entries.append(
        Entry(
            v,
            "drag",
            -v,
            float(rng.uniform(0, 2)),
            lambda h: -ufl.inner(h.values[v], h.tests[v]) * h.dx,
        )
    )
    if bent:
        entries.append(
            Entry(
                v,
                "convection",
                -dot(grad(v), v),
                float(rng.uniform(0.1, 0.5)),
                lambda h: (
                    -ufl.inner(ufl.dot(ufl.grad(h.values[v]), h.values[v]), h.tests[v]) * h.dx
                ),
            )
        )

    def constraint(h):
        return -(ufl.div(h.values[v]) * h.tests[p] + ufl.div(h.tests[v]) * h.values[p]) * h.dx

    layout = rng.integers(3)
    value = stream(rng, in_time=order == 1)
    given: list[Any] = [(v, value, sides(2))]
    natural, extra, floating = [], [constraint], p
    if layout == 1:
        given, floating = [(v, value, ("left", "bottom", "top"))], None
        natural = [cf.Neumann(v, (1 + x, y), on="right")]
        extra.append(
            lambda h: (
                -nu * ufl.inner(ufl.as_vector([1 + h.x[0], h.x[1]]), h.tests[v]) * h.ds(("right",))
            )
        )
    if layout == 2:
        given = [(v[0], 0, ("left", "right")), (v[1], 0, ("bottom", "top"))]
        natural = [cf.Neumann(v, 0)]
    return Coupled(
        name="flow",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={v: ("Lagrange", 2), p: ("Lagrange", 1)},
        anchors={v: "rate" if order else None},
        entries=entries,
        given=given,
        natural=natural,
        constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
        extra=extra,
        floating=floating,
        forcing={v: (2 - x * y, x)} if rng.uniform() < 0.7 else {},
        start={v: tuple(polynomial(rng, 2) for _ in range(2))} if order else {},
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if order else None,
        nonlinear=bent,
        straight=bool(layout == 2),
        seed=seed,
    )


def reaction(rng: np.random.Generator, seed: int) -> Coupled:
    """Two scalars that act on each other, one of them possibly without a rate."""
    pairs = [
        ("rate", "rate"),
        ("rate", None),
        (None, None),
        ("acceleration", "rate"),
        ("acceleration", None),
    ]
    kinds = pairs[rng.integers(len(pairs))]
    bent = bool(rng.uniform() < 0.4)

    def diffusion(f):
        return lambda h: -ufl.inner(ufl.grad(h.values[f]), ufl.grad(h.tests[f])) * h.dx

    c = [float(value) for value in rng.normal(size=4) / 2]
    entries = [
        Entry(u, "lap", lap(u), float(rng.uniform(1, 2)), diffusion(u)),
        Entry(u, "w", w, c[0], lambda h: h.values[w] * h.tests[u] * h.dx),
        Entry(u, "w_x", w.diff(x), c[1], lambda h: h.values[w].dx(0) * h.tests[u] * h.dx),
        Entry(w, "lap", lap(w), float(rng.uniform(1, 2)), diffusion(w)),
        Entry(w, "u", u, c[2], lambda h: h.values[u] * h.tests[w] * h.dx),
        Entry(
            w,
            "drift",
            dot((y, -x), grad(w)),
            c[3],
            lambda h: (
                ufl.dot(ufl.as_vector([h.x[1], -h.x[0]]), ufl.grad(h.values[w])) * h.tests[w] * h.dx
            ),
        ),
    ]
    if bent:
        entries.append(
            Entry(u, "uw", u * w, 0.2, lambda h: h.values[u] * h.values[w] * h.tests[u] * h.dx)
        )
    if kinds[0] is not None and rng.uniform() < 0.7:
        entries.append(
            Entry(w, "rate of u", cf.dt(u), 0.3, lambda h: h.rates[u] * h.tests[w] * h.dx)
        )
    strength = entries[3].coefficient
    return Coupled(
        name="coupled scalars",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={u: ("Lagrange", 2), w: ("Lagrange", 1)},
        anchors=dict(zip((u, w), kinds)),
        entries=entries,
        given=[
            (u, polynomial(rng, 2, kinds[0] is not None), sides(2)),
            (w, polynomial(rng, 2), ("left", "top")),
        ],
        natural=[cf.Robin(w, x + y, on=("right", "bottom"), coefficient=2)],
        extra=[
            lambda h: (
                -strength
                * (h.x[0] + h.x[1] - 2 * h.values[w])
                * h.tests[w]
                * h.ds(("right", "bottom"))
            )
        ],
        forcing={u: 2 - x * y} if rng.uniform() < 0.5 else {},
        start={f: polynomial(rng, 2) for f, kind in zip((u, w), kinds) if kind is not None}
        | ({cf.dt(u): polynomial(rng, 2)} if kinds[0] == "acceleration" else {}),
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if kinds[0] else None,
        nonlinear=bent,
        seed=seed,
    )


def darcy(rng: np.random.Generator, seed: int) -> Coupled:
    """q = −grad p, div q = f on the lowest conforming pair, pressure given on some sides,
    flux on the others.
    """
    pressure = polynomial(rng, 2)
    layout = rng.integers(2)
    free = (("left", "right", "bottom", "top"), ("left", "top"))[layout]
    walls = tuple(side for side in sides(2) if side not in free)
    flux = tuple(polynomial(rng, 2) for _ in range(2))
    family = ("RT", "BDM")[rng.integers(2)]
    numbers = sp.symbols("x y", real=True)
    push = float(rng.uniform(0.5, 2.0))

    def trace(h):
        value = sp.lambdify(numbers, pressure, "math")(h.x[0], h.x[1])
        return push * value * ufl.dot(h.tests[q], h.n) * h.ds(free)

    return Coupled(
        name=f"Darcy on {family}",
        cell="triangle",
        elements={q: (family, 1), p: ("DG", 0)},
        anchors={q: None, p: None},
        entries=[
            Entry(
                q,
                "drag",
                -q,
                float(rng.uniform(0.5, 2)),
                lambda h: -ufl.inner(h.values[q], h.tests[q]) * h.dx,
            ),
            Entry(q, "push", -grad(p), push, lambda h: h.values[p] * ufl.div(h.tests[q]) * h.dx),
            Entry(p, "div", -div(q), 1.0, lambda h: -ufl.div(h.values[q]) * h.tests[p] * h.dx),
            Entry(
                p,
                "storage",
                -p,
                float(rng.uniform(0.1, 1)),
                lambda h: -h.values[p] * h.tests[p] * h.dx,
            ),
        ],
        given=[(p, pressure, free), *([(q, flux, walls)] if walls else [])],
        extra=[trace],
        forcing={p: 1 + x * y},
        seed=seed,
    )


def coefficient(rng: np.random.Generator, seed: int) -> Coupled:
    """A conductivity that is a field of the system, on an element of its own."""
    of = (("DG", 0), ("DG", 1), ("Lagrange", 1))[rng.integers(3)]
    strength = float(rng.uniform(0.5, 2))
    values = 1 + (x + round(float(rng.uniform()), 3) * y) ** 2 / 2

    def diffusion(h):
        return -h.values[k] * ufl.inner(ufl.grad(h.values[u]), ufl.grad(h.tests[u])) * h.dx

    return Coupled(
        name=f"a conductivity in {of[0]} {of[1]}",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={u: ("Lagrange", 2), k: of},
        anchors={u: None, k: "value"},
        entries=[
            Entry(u, "diffusion", div(k * grad(u)), strength, diffusion),
            Entry(u, "loss", -u, 0.5, lambda h: -h.values[u] * h.tests[u] * h.dx),
        ],
        given=[(u, polynomial(rng, 2), ("left", "right", "top"))],
        natural=[cf.Neumann(u, 1 + x, on="bottom")],
        extra=[lambda h: -strength * h.values[k] * (1 + h.x[0]) * h.tests[u] * h.ds(("bottom",))],
        forcing={u: 2 - x * y, k: sp.expand(values)},
        start={k: values},
        nonlinear=True,
        seed=seed,
    )


def transport(rng: np.random.Generator, seed: int) -> Coupled:
    """A discontinuous field that is carried along, upwind; its values are given where it
    flows in.
    """
    degree, order = int(rng.integers(3)), int(rng.uniform() < 0.7)
    speed = float(rng.uniform(0.5, 2.0))
    inflow, conserved = polynomial(rng, 2, in_time=order), bool(rng.uniform() < 0.5)

    def carried(h):
        b, value, test = ufl.as_vector([2.0, -1.0]), h.values[u], h.tests[u]
        inside = ufl.dot(b, h.n("+"))
        # Each facet charges its jump to the cell that the field flows into, with the speed at which
        # it does.
        into = ufl.conditional(ufl.lt(inside, 0.0), test("+"), test("-"))
        between = inside * (value("+") - value("-")) * into * ufl.Measure("dS", domain=h.mesh)
        normal = ufl.dot(b, h.n)
        entering = ufl.conditional(ufl.lt(normal, 0.0), normal, 0.0)
        edge = entering * (value - in_space(inflow, h)) * test * h.ds(sides(2))
        return -ufl.dot(b, ufl.grad(value)) * test * h.dx + between + edge

    moved = div(cf.vector(2, -1) * u) if conserved else dot((2, -1), grad(u))
    return Coupled(
        name=f"transport on DG {degree}",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={u: ("DG", degree), w: ("DG", 0)},
        anchors={u: "rate" if order else None, w: "rate" if order else "value"},
        entries=[
            Entry(u, "transport", -moved, speed, carried),
            Entry(u, "loss", -u, 1.0, lambda h: -h.values[u] * h.tests[u] * h.dx),
            Entry(w, "gain", u, 0.5, lambda h: h.values[u] * h.tests[w] * h.dx),
        ],
        given=[(u, inflow, sides(2))],
        start={u: polynomial(rng, 2), w: polynomial(rng, 2)} if order else {},
        scheme=("sdirk2", "backward-euler", "midpoint")[rng.integers(3)] if order else None,
        seed=seed,
    )


KINDS = {
    "flow": flow,
    "reaction": reaction,
    "darcy": darcy,
    "conductor": conductor,
    "coefficient": coefficient,
    "weak divergence": weak_divergence,
    "weak curl": weak_curl,
    "transport": transport,
}


def coupled(kind: str, seed: int) -> tuple[Coupled, Any]:
    """The problem of a seed and its mesh."""
    rng = np.random.default_rng([seed, *map(ord, kind)])
    problem = KINDS[kind](rng, seed)
    return problem, small_mesh(problem.cell, 2, 0 if problem.straight else int(rng.integers(4)))
