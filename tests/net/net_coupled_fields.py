"""Coupled problems with fields of H(curl) and H(div): without divergence, and with weak
divergences and curls.
"""

from __future__ import annotations

import numpy as np
import ufl
from net_coupled import Coupled, E, Entry
from net_meshes import sides
from net_problems import polynomial

import cffem as cf
from cffem import div, grad, lap, x, y


def conductor(rng: np.random.Generator, seed: int) -> Coupled:
    """A field without divergence on Nédélec elements between conducting walls."""
    order, multiplier = int(rng.integers(3)), cf.ScalarField("E_multiplier")

    weighted = bool(rng.uniform() < 0.4)

    def constraint(h):
        weight = 1 + h.x[0] if weighted else 1
        first = ufl.inner(h.values[E], ufl.grad(h.tests[multiplier]))
        return weight * (first + ufl.inner(h.tests[E], ufl.grad(h.values[multiplier]))) * h.dx

    degree = int(rng.integers(1, 3))
    value = (0, 0) if rng.uniform() < 0.5 else tuple(polynomial(rng, 2) for _ in range(2))
    return Coupled(
        name=f"Nédélec {degree}",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={E: ("N1curl", degree), multiplier: ("Lagrange", degree)},
        anchors={E: (None, "rate", "acceleration")[order]},
        entries=[
            Entry(
                E,
                "curl curl",
                -cf.curl(cf.curl(E)),
                float(rng.uniform(0.5, 2)),
                lambda h: -ufl.inner(ufl.curl(h.values[E]), ufl.curl(h.tests[E])) * h.dx,
            ),
            Entry(
                E,
                "loss",
                -x * E,
                0.7,
                lambda h: -h.x[0] * ufl.inner(h.values[E], h.tests[E]) * h.dx,
            ),
        ],
        given=[(E, value, sides(2))],
        constraint=cf.DivergenceFree(E, weight=1 + x if weighted else None),
        extra=[constraint],
        zeros=(multiplier,),
        forcing={E: (1 - y, x * y)},
        start={key: tuple(polynomial(rng, 2) for _ in range(2)) for key in (E, cf.dt(E))[:order]},
        scheme=("sdirk2", "backward-euler", "midpoint")[rng.integers(order + 1)] if order else None,
        seed=seed,
    )


def weak_divergence(rng: np.random.Generator, seed: int) -> Coupled:
    """grad div on Nédélec elements, through the weak divergence s: (s, r) = −(E, ∇r) for all r that
    vanish on the boundary.

    Between conducting walls div E vanishes there, and where E is free its natural trace (div E) n
    says so.
    """
    order, degree, s = int(rng.integers(2)), int(rng.integers(1, 3)), cf.ScalarField("div_E", dim=2)
    free = bool(rng.uniform() < 0.5)

    def definition(h):
        return (h.values[s] * h.tests[s] + ufl.inner(h.values[E], ufl.grad(h.tests[s]))) * h.dx

    return Coupled(
        name=f"grad div on Nédélec {degree}",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={E: ("N1curl", degree), s: ("Lagrange", degree)},
        anchors={E: "rate" if order else None},
        entries=[
            Entry(
                E,
                "grad div",
                grad(div(E)),
                float(rng.uniform(0.5, 2)),
                lambda h: ufl.inner(ufl.grad(h.values[s]), h.tests[E]) * h.dx,
            ),
            Entry(
                E,
                "curl curl",
                -cf.curl(cf.curl(E)),
                float(rng.uniform(0.5, 2)),
                lambda h: -ufl.inner(ufl.curl(h.values[E]), ufl.curl(h.tests[E])) * h.dx,
            ),
            Entry(E, "loss", -E, 2.0, lambda h: -ufl.inner(h.values[E], h.tests[E]) * h.dx),
        ],
        given=[] if free else [(E, tuple(polynomial(rng, 2) for _ in range(2)), sides(2))],
        natural=[cf.Neumann(E, 0)] if free else [],
        extra=[definition],
        zeros=(s,),
        forcing={E: (1 - y, x * y)},
        start={E: tuple(polynomial(rng, 2) for _ in range(2))} if order else {},
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if order else None,
        seed=seed,
    )


def weak_curl(rng: np.random.Generator, seed: int) -> Coupled:
    """curl curl, or lap, on RT and BDM through the weak curl ω: (ω, r) = (E, rot r) + ∮ (E·τ) r.

    Normal components are given; ω vanishes at walls with free slip, and elsewhere the tangential
    part is given.
    """
    order, omega = int(rng.integers(2)), cf.ScalarField("curl_E", dim=2)
    family, degree = (("RT", 1), ("RT", 2), ("BDM", 1))[rng.integers(3)]
    slips, whole = bool(rng.uniform() < 0.5), bool(rng.uniform() < 0.5)

    def rot(r):
        return ufl.as_vector([r.dx(1), -r.dx(0)])

    def definition(h):
        along = -(2 - h.x[1]) * h.n[1] + h.x[0] * h.n[0]
        boundary = 0 if slips else along * h.tests[omega] * h.ds(sides(2))
        return (
            h.values[omega] * h.tests[omega] - ufl.inner(h.values[E], rot(h.tests[omega]))
        ) * h.dx - boundary

    def second(h):
        stretch = ufl.div(h.values[E]) * ufl.div(h.tests[E]) if whole else 0
        return -(ufl.inner(rot(h.values[omega]), h.tests[E]) + stretch) * h.dx

    return Coupled(
        name=f"{'lap' if whole else 'curl curl'} on {family} {degree}",
        cell="triangle",
        elements={E: (family, degree), omega: ("Lagrange", degree + (family == "BDM"))},
        anchors={E: "rate" if order else None},
        entries=[
            Entry(
                E,
                "second",
                lap(E) if whole else -cf.curl(cf.curl(E)),
                float(rng.uniform(0.5, 2)),
                second,
            ),
            Entry(E, "loss", -E, 2.0, lambda h: -ufl.inner(h.values[E], h.tests[E]) * h.dx),
        ],
        given=[(E, tuple(polynomial(rng, 2) for _ in range(2)), sides(2))],
        natural=[cf.Neumann(E, 0)] if slips else [cf.Tangential(E, (2 - y, x))],
        extra=[definition],
        zeros=(omega,) if slips else (),
        forcing={E: (1 - y, x * y)},
        start={E: tuple(polynomial(rng, 2) for _ in range(2))} if order else {},
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if order else None,
        seed=seed,
    )
