# SPDX-License-Identifier: MIT
"""Random steady flows without slip or with given polynomial velocities, whose factual and deleted
solutions are both known.

Let L = −ν Δ + b·∇ + c₀ with constants, J the quarter turn, and w the curl of a function that
vanishes on the walls up to fourth order: then w and L w vanish there, and J w is a gradient. With a
harmonic cubic q the field v = (L w + ∇q)/c is free of divergence and a polynomial on the walls. The
problems (L + ω J + c) v + ∇p = f and (L + ω J) (v + w) + ∇p_j = f have the same data where p_j − p
is made of q and of the function with the gradient J w: v + w is the flow without the drag c, and
nothing is approximated. Where a·∇ with a constant a is deleted, w = (a·∇) W, and v = L W and a
constant.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_evolving import l_shape
from benchmarks.certify.certify_modal import perturbed
from cffem._compat import form
from cffem.bounds.certificate import NoCertificate
from cffem.bounds.entrance import certify_deletion, certify_solution
from cffem.symbols.coordinates import SPACE

v, p = cf.VectorField("v", dim=2), cf.ScalarField("p")
DOMAINS = ("square", "rectangle", "L-shape")
# Exact functions are interpolated by elements of this degree.
EXACT = 7


@dataclass(frozen=True)
class FlowProblem:
    """A problem with its solutions.

    Attributes:
        library, coefficients: the equation; the term `deleted` is deleted.
        data: forcing and boundary values.
        factual, difference: the exact velocity, and that without the term less it.
        kind, long: the domain and its length.
        said: what it is.
    """

    library: Any
    coefficients: dict[str, float]
    data: dict[str, Any]
    factual: tuple[sp.Expr, ...]
    difference: tuple[sp.Expr, ...]
    kind: str
    long: float
    said: str

    def model(self, random: Any) -> Any:
        """The problem on a random mesh."""
        experiment = cf.Experiment(
            mesh=self._mesh(random),
            elements={v: ("Lagrange", 2)},
            constraint=cf.DivergenceFree(v, multiplier={p: ("Lagrange", 1)}),
            **self.data,
        )
        return cf.Model(self.library, self.coefficients, experiment)

    def _mesh(self, random: Any) -> Any:
        count = int(random.integers(4, 13))
        if self.kind == "L-shape":
            return l_shape(max(count // 2, 2), 1.0)
        strength, phase = float(random.uniform(0, 0.2)), float(random.uniform(0, 6))
        domain = perturbed(2, count, strength, phase)
        domain.geometry.x[:, 0] *= self.long
        return domain


def _number(random: Any, low: float, high: float, digits: int = 3) -> sp.Float:
    return sp.Float(round(float(random.uniform(low, high)), digits))


def _bump(s: sp.Symbol, waves: int, long: float) -> sp.Expr:
    """sin⁴(n π s/L), which vanishes at both ends with three derivatives."""
    turn = 2 * waves * sp.pi * s / sp.nsimplify(long)
    return (3 - 4 * sp.cos(turn) + sp.cos(2 * turn)) / 8


def flow_problem(random: Any, kind: str) -> FlowProblem:
    """A random problem on a domain of a kind."""
    x, y = SPACE[:2]
    long = float(round(random.uniform(1.5, 3), 1)) if kind == "rectangle" else 1.0
    waves = (2, 2) if kind == "L-shape" else random.integers(1, 3, 2)
    viscosity = sp.Float(round(float(10 ** random.uniform(-1.5, 1)), 4))
    windy, turns, drag = (int(random.uniform() < share) for share in (0.5, 0.5, 0.6))
    wind = [_number(random, -10, 10) * viscosity * windy for _ in range(2)]
    turning = _number(random, -10, 10) * viscosity * turns
    # No two terms are alike.
    still = sp.S.Zero if drag else _number(random, 0, 10) * viscosity
    strength = sp.Float(round(float(10 ** random.uniform(-1, 1.3)), 4)) * viscosity
    away = [_number(random, -1, 1) * strength for _ in range(2)]
    stream = _bump(x, int(waves[0]), long) * _bump(y, int(waves[1]), 1.0)
    base = (stream.diff(y), -stream.diff(x))

    def along(direction: Any, entry: sp.Expr) -> sp.Expr:
        return direction[0] * entry.diff(x) + direction[1] * entry.diff(y)

    def applied(entry: sp.Expr) -> sp.Expr:
        laplacian = entry.diff(x, 2) + entry.diff(y, 2)
        return -viscosity * laplacian + along(wind, entry) + still * entry

    size = strength / (viscosity * 200)
    q = _number(random, -1, 1) * (x**3 - 3 * x * y**2) + _number(random, -1, 1) * x * y
    given = [q.diff(s) / 10 for s in (x, y)]
    if not drag:
        # A constant flow is not seen by the deleted term.
        given = [_number(random, -1, 1) for _ in range(2)]
    factual = [
        sp.expand(size / strength * applied(entry) + more)
        for entry, more in zip(base, given, strict=True)
    ]
    change = [size * (entry if drag else along(away, entry) / strength) for entry in base]
    acting = [strength * entry if drag else along(away, entry) for entry in factual]
    pressure = sp.sin(2 * x + y) * _number(random, -2, 2) * viscosity
    turned = [-factual[1], factual[0]]
    forcing = tuple(
        sp.expand(applied(entry) + turning * other + force + pressure.diff(s))
        for entry, other, force, s in zip(factual, turned, acting, (x, y), strict=True)
    )
    terms = {"viscosity": cf.lap(v), "deleted": -v if drag else _transport(away)}
    coefficients = {"viscosity": float(viscosity), "deleted": float(strength) if drag else 1.0}
    more = {
        "wind": (_transport(wind), float(windy)),
        "drag": (-v, float(still)),
        "turning": (cf.vector(v[1], -v[0]), float(turning)),
    }
    for name, (term, coefficient) in more.items():
        if coefficient:
            terms[name], coefficients[name] = term, coefficient
    data = {"boundary": [cf.Dirichlet(v, tuple(given))], "forcing": {v: forcing}}
    said = f"{kind} {'drag' if drag else 'transport'} ν={float(viscosity):.2g}"
    library = cf.Library(terms=terms, unknown=v)
    return FlowProblem(library, coefficients, data, tuple(factual), tuple(change), kind, long, said)


def _transport(wind: Any) -> Any:
    return -cf.vector(
        *(wind[0] * entry.diff(SPACE[0]) + wind[1] * entry.diff(SPACE[1]) for entry in (v[0], v[1]))
    )


def flow_distances(
    model: Any, combination: Any, exact: tuple[sp.Expr, ...] | None
) -> tuple[float, float]:
    """The distances of an exact velocity from a combination of solutions in L2 and H1.

    Args:
        model: whose mesh is meant.
        combination: pairs of a factor and a solution.
        exact: the velocity.
    """
    space = fem.functionspace(model.discretisation.mesh, ("Lagrange", EXACT, (2,)))
    best = fem.Function(space)
    if exact is not None:
        values = sp.lambdify(SPACE[:2], exact, "numpy", cse=True)
        best.interpolate(
            lambda q: np.stack([np.broadcast_to(part, q.shape[1]) for part in values(*q[:2])])
        )
    gap = best
    for factor, solution in combination:
        gap = gap - factor * solution.function()
    squares = [
        abs(fem.assemble_scalar(form(density * ufl.dx, MPI.COMM_SELF)))
        for density in (ufl.inner(gap, gap), ufl.inner(ufl.grad(gap), ufl.grad(gap)))
    ]
    return math.sqrt(squares[0]), math.sqrt(sum(squares))


def flow_outcome(name: str, case: FlowProblem, random: Any) -> Any:
    """One random case: its errors and bounds, or why there is no certificate."""
    # The module of the outcomes imports what imports this one.
    from benchmarks.certify.certify_bench import CertifyOutcome

    with case.model(random) as model:
        factual, deleted = model.factual, model.solve(cf.delete("deleted"))
        start = time.perf_counter()
        bound = certify_deletion(model, "deleted", deleted=deleted)
        seconds = time.perf_counter() - start
        if isinstance(bound, NoCertificate):
            return bound.reason
        steep = certify_solution(model, norm="H1")
        without = tuple(a + b for a, b in zip(case.factual, case.difference, strict=True))
        errors = flow_distances(model, [(1, factual)], case.factual)
        other = flow_distances(model, [(1, deleted)], without)[0]
        apart = flow_distances(model, [(1, deleted), (-1, factual)], case.difference)[0]
        exact = flow_distances(model, [], case.difference)[0]
    return CertifyOutcome(
        name,
        2,
        case.said,
        (errors[0], float(bound.eta_factual)),
        (other, float(bound.eta_counterfactual)),
        (apart, float(bound.difference)),
        (abs(bound.score - exact), float(bound.margin)),
        exact,
        float(bound.score),
        None,
        (errors[1], float(getattr(steep, "value", math.inf))),
        bound.certificate.kind,
        seconds,
    )
