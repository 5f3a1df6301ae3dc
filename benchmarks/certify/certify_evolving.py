# SPDX-License-Identifier: MIT
"""Random parabolic problems with variable and jumping coefficients and any boundary, whose factual
and deleted solutions are both known.

For D = −div(A ∇·) + b·∇ let W fulfil the homogeneous conditions of the boundary, and θ(0) = 0. With
w = θ W and u = (ρ θ' W + θ D W)/c both ρ u_t + D u + c u = f and ρ (u + w)_t + D (u + w) = f hold
for the same f, the same start and the same data on the boundary: u + w is the solution without the
reaction c u, and nothing is approximated. Given values and fluxes of u depend on place and time and
are no polynomials. Where A jumps, across the line of symmetry of W, ρ and c jump in proportion, so
that u does not.

Errors are sums over points of a rule of degree twelve, with elements tabulated by basix.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import basix
import numpy as np
import sympy as sp
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_variable import SIDES, u
from cffem._compat import cell_geometry, exterior_facets
from cffem.bounds.certificate import NoCertificate
from cffem.bounds.entrance import certify_deletion, certify_solution
from cffem.engine.mesh.meshes import MeshData
from cffem.symbols.coordinates import SPACE, t

KINDS = ("constant", "linear", "smooth", "jump", "tensor")
SCHEMES = ("backward-euler", "midpoint", "sdirk2")
CELLS = {1: basix.CellType.interval, 2: basix.CellType.triangle, 3: basix.CellType.tetrahedron}
# Norms in time: parts of a step, and Gauss points in each.
PARTS, GAUSS = 3, 4


@dataclass(frozen=True)
class EvolvingCase:
    """A problem with its solutions Σ T_i(t) S_i(x).

    Attributes:
        model: the model; its reaction is the term that is deleted.
        factual, deleted: pairs (T_i, S_i).
        said: what it is.
    """

    model: Any
    factual: list[tuple[sp.Expr, sp.Expr]]
    deleted: list[tuple[sp.Expr, sp.Expr]]
    said: str


def box(dim: int, counts: tuple[int, ...], strength: float, phase: float, size: float) -> MeshData:
    """The interval, square or cube with inner nodes moved, and the names of its sides."""
    make = {
        1: dolfinx_mesh.create_unit_interval,
        2: dolfinx_mesh.create_unit_square,
        3: dolfinx_mesh.create_unit_cube,
    }[dim]
    domain = make(MPI.COMM_SELF, *counts)
    points = domain.geometry.x
    inside = np.prod(np.sin(np.pi * points[:, :dim]), axis=1)
    bump = np.abs(inside) ** 0.25 * (np.abs(inside) > 1e-12)
    waves = [np.cos(37 * points[:, 0] + 53 * points[:, 1] + phase + axis) for axis in range(dim)]
    for axis in range(dim):
        points[:, axis] += strength / counts[axis] * bump * waves[axis]
    points *= size
    return _named(domain, size)


def l_shape(count: int, size: float) -> MeshData:
    """The square without its upper right quarter; its boundary has one name."""
    square = dolfinx_mesh.create_unit_square(MPI.COMM_SELF, 2 * count, 2 * count)
    middle = dolfinx_mesh.compute_midpoints(
        square, 2, np.arange(square.topology.index_map(2).size_local, dtype=np.int32)
    )
    kept = np.flatnonzero((middle[:, 0] < 0.5) | (middle[:, 1] < 0.5)).astype(np.int32)
    domain = dolfinx_mesh.create_submesh(square, 2, kept)[0]
    domain.geometry.x[:] *= size
    return MeshData(domain, None, None, {})


def _named(domain: Any, size: float) -> MeshData:
    dim = domain.topology.dim
    domain.topology.create_connectivity(dim - 1, dim)
    facets = np.sort(exterior_facets(domain))
    middle = dolfinx_mesh.compute_midpoints(domain, dim - 1, facets) / size
    tags = np.zeros(len(facets), dtype=np.int32)
    for axis in range(dim):
        for end in (0, 1):
            tags[np.abs(middle[:, axis] - end) < 1e-9] = 2 * axis + end + 1
    marked = dolfinx_mesh.meshtags(domain, dim - 1, facets, tags)
    names = {name: (dim - 1, place + 1) for place, name in enumerate(SIDES[dim])}
    return MeshData(domain, None, marked, names)


def _number(random: Any, low: float, high: float, digits: int = 3) -> sp.Float:
    return sp.Float(round(float(random.uniform(low, high)), digits))


def _phases(random: Any, held: bool) -> tuple[float, float]:
    if held:
        return math.pi / 2, math.pi / 2
    low, high = (
        {"D": math.pi / 2, "N": 0.0, "R": float(random.uniform(0.2, 1.2))}[kind]
        for kind in random.choice(["D", "D", "N", "R"], 2)
    )
    return (low, high) if low + high > 0 else (0.0, math.pi)


def _rise(random: Any, length: float) -> sp.Expr:
    """θ, with θ(0) = 0."""
    rate = _number(random, 0.5, 4.0) / sp.Float(length)
    kind = int(random.integers(5))
    if kind < 4:
        return [sp.sin(rate * t), 1 - sp.exp(-rate * t), rate * t, rate * t * sp.exp(rate * t)][
            kind
        ]
    # A pulse that may lie between two levels.
    middle, width = _number(random, 0.3, 0.8) * length, _number(random, 0.02, 0.2) * length
    return sp.exp(-(((t - middle) / width) ** 2)) - sp.exp(-((middle / width) ** 2))


@dataclass(frozen=True)
class _Parts:
    tensor: list[list[sp.Expr]]
    wind: list[sp.Expr]
    weight: sp.Expr
    reaction: sp.Expr

    def applied(self, value: sp.Expr) -> sp.Expr:
        """D of a function."""
        space = SPACE[: len(self.wind)]
        result = sum(b * value.diff(s) for b, s in zip(self.wind, space, strict=True))
        for i, one in enumerate(space):
            for j, other in enumerate(space):
                a = self.tensor[i][j]
                if a != 0:
                    slope = 0 if a.has(sp.Piecewise) else a.diff(one)
                    result -= a * value.diff(other).diff(one) + slope * value.diff(other)
        return result


def _coefficients(random: Any, kind: str, dim: int, phases: Any) -> _Parts:
    x, last = SPACE[0], SPACE[dim - 1]
    size = sp.Float(round(float(10 ** random.uniform(-2, 1)), 4))
    first, second = _number(random, 0.1, 0.7), _number(random, 0.1, 0.7)
    contrast = sp.Float(round(float(10 ** random.uniform(0.1, 3)), 3))
    scalar: sp.Expr = {
        "constant": sp.S.One,
        "linear": 1 + first * x,
        "smooth": sp.exp(first * x - (second * last if dim > 1 else 0)),
        "jump": sp.Piecewise((contrast, x < sp.Rational(1, 2)), (sp.S.One, True)),
        "tensor": 1 + first * x,
    }[kind]
    tensor = [[size * scalar if i == j else sp.S.Zero for j in range(dim)] for i in range(dim)]
    if kind == "tensor":
        tensor[0][1] = tensor[1][0] = size * second / 2
    sign = -1 if random.uniform() < 0.3 else 1
    level = sign * size * sp.Float(round(float(10 ** random.uniform(-1, 1.3)), 3))
    if kind == "jump":
        weight, reaction = _number(random, 0.3, 3) * scalar, level * scalar
        weight = weight if random.uniform() < 0.5 else sp.Float(1.0) * scalar
        return _Parts(tensor, [sp.S.Zero] * dim, weight, reaction)
    weight = [sp.S.One, _number(random, 0.3, 3), 1 + first * x, sp.exp(second * last)][
        int(random.integers(4))
    ]
    reaction = level * [sp.S.One, 1 + second * x, sp.exp(-first * last)][int(random.integers(3))]
    wind: list[sp.Expr] = [sp.S.Zero] * dim
    draw = random.uniform()
    if dim > 1 and draw < 0.35:
        stream = size * _number(random, -16, 16) * x * (1 - x) * last * (1 - last)
        wind = [stream.diff(last)] + [sp.S.Zero] * (dim - 2) + [-stream.diff(x)]
    elif draw < 0.6 and phases[0][0] == math.pi / 2:
        # Values are given where it enters.
        wind = [size * _number(random, 0.5, 12)] + [sp.S.Zero] * (dim - 1)
    return _Parts(tensor, wind, weight, reaction)


@dataclass(frozen=True)
class EvolvingProblem:
    """A problem that may be discretised in many ways.

    Attributes:
        dim, kind, corner, size: what it is posed on.
        library, conditions, forcing, initial, length: the problem.
        factual, deleted: pairs (T_i, S_i).
        said: what it is.
    """

    dim: int
    kind: str
    corner: bool
    size: float
    library: Any
    conditions: list[Any]
    forcing: sp.Expr
    initial: sp.Expr
    length: float
    factual: list[tuple[sp.Expr, sp.Expr]]
    deleted: list[tuple[sp.Expr, sp.Expr]]
    said: str

    def case(self, random: Any) -> EvolvingCase:
        """On a random mesh, with random elements and steps."""
        degree, scheme = int(random.choice([1, 2])), str(random.choice(SCHEMES))
        jump, steps = self.kind == "jump", int(random.integers(3, 13))
        domain = _domain(random, self.dim, self.corner, jump, self.size)
        experiment = cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", degree)},
            boundary=self.conditions,
            forcing={u: self.forcing},
            initial={u: self.initial},
            time=cf.Window(0, self.length, steps, scheme=scheme),
        )
        model = cf.Model(self.library, dict.fromkeys(self.library.terms, 1.0), experiment)
        said = f"{self.said} {scheme} {steps} steps P{degree}"
        return EvolvingCase(model, self.factual, self.deleted, said)


def evolving_problem(random: Any, dim: int = 2, corner: bool = False) -> EvolvingProblem:
    """One random problem; with `corner` on the L-shaped domain."""
    kind = str(random.choice(KINDS[:-1] if dim == 1 else KINDS))
    kind = str(random.choice(["constant", "smooth"])) if corner else kind
    space, jump = SPACE[:dim], kind == "jump"
    held = corner or kind == "tensor"
    phases = [_phases(random, held or (jump and axis == 0)) for axis in range(dim)]
    parts = _coefficients(random, kind, dim, phases)
    profile = sp.Integer(1)
    for s, (low, high) in zip(space, phases, strict=True):
        plain = low == high == math.pi / 2
        profile *= (
            sp.sin((2 if corner else 1) * sp.pi * s)
            if plain
            else sp.cos(sp.Float(low + high) * s - sp.Float(low))
        )
    middle = dict.fromkeys(space, sp.Rational(1, 4))
    strong, stiff, weight = (
        abs(float(sp.sympify(part).subs(middle)))
        for part in (parts.reaction, parts.tensor[0][0], parts.weight)
    )
    length = round(float(10 ** random.uniform(-1.5, 0.5)) * weight / stiff, 5) or 1e-5
    profile = sp.Float(round(strong / (10 * stiff), 6) or 1e-6) * profile
    size = float(random.choice([1.0, 1.0, 1.0, 1e-3, 1e3]))
    return _posed(kind, dim, parts, profile, _rise(random, length), length, size, phases, corner)


def _domain(random: Any, dim: int, corner: bool, jump: bool, size: float) -> MeshData:
    if corner:
        return l_shape(int(random.integers(2, 5)), size)
    low, high = {1: (4, 24), 2: (3, 9), 3: (2, 4)}[dim]
    counts = [int(random.integers(low, high)) for _ in range(dim)]
    if jump and random.uniform() < 0.8:
        counts[0] += counts[0] % 2
    strength = 0.0 if jump or dim == 1 else float(random.uniform(0, 0.2))
    if dim == 2 and random.uniform() < 0.15:
        counts[int(random.integers(2))] *= 4
    return box(dim, tuple(counts), strength, float(random.uniform(0, 6)), size)


def _posed(
    kind: str,
    dim: int,
    parts: _Parts,
    profile: sp.Expr,
    rise: sp.Expr,
    length: float,
    size: float,
    phases: Any,
    corner: bool,
) -> EvolvingProblem:
    space = SPACE[:dim]
    quick = parts.weight * profile / parts.reaction
    slow = parts.applied(profile) / parts.reaction
    if kind == "jump":
        quick, slow = _without_jump(quick), _without_jump(slow)
    rates = [rise.diff(t, 2), rise.diff(t), rise]
    forcing = [
        parts.weight * quick,
        parts.weight * (slow + profile) + parts.applied(quick),
        parts.applied(slow + profile),
    ]
    # All of this on a domain of another size.
    scaled = {s: s / sp.Float(size) for s in space} if size != 1 else {}

    def moved(expr: sp.Expr) -> sp.Expr:
        return sp.sympify(expr).subs(scaled, simultaneous=True) if scaled else sp.sympify(expr)

    factual = rates[1] * quick + rates[2] * slow
    conditions, words = _conditions(dim, phases, factual, rates[2] * slow, size, moved, corner)
    tensor = [[size**2 * moved(a) if size != 1 else a for a in row] for row in parts.tensor]
    wind = [size * moved(b) if size != 1 else b for b in parts.wind]
    flux = [sum(tensor[i][j] * u.diff(space[j]) for j in range(dim)) for i in range(dim)]
    diffusion = (
        cf.div(tensor[0][0] * cf.grad(u))
        if kind != "tensor"
        else sp.Add(*(sp.expand(f.diff(s)) for f, s in zip(flux, space, strict=True)))
    )
    terms = {"diffusion": diffusion, "reaction": -moved(parts.reaction) * u}
    if any(b != 0 for b in wind):
        terms["drift"] = -sp.Add(*(b * u.diff(s) for b, s in zip(wind, space, strict=True)))
    pairs = [(rates[1], moved(quick)), (rates[2], moved(slow))]
    place = "L" if corner else f"{dim}D"
    return EvolvingProblem(
        dim,
        kind,
        corner,
        size,
        cf.Library(anchor=moved(parts.weight) * cf.dt(u), terms=terms),
        conditions,
        sp.Add(*(r * moved(f) for r, f in zip(rates, forcing, strict=True))),
        moved(factual.subs(t, 0)),
        length,
        pairs,
        [*pairs, (rise, moved(profile))],
        f"{place} {kind} {words} size {size:g}",
    )


def _without_jump(expr: sp.Expr) -> sp.Expr:
    """The quotient of two functions that jump alike, by its value on the one side."""
    sides = [
        sp.simplify(expr.replace(lambda e: e.is_Piecewise, lambda e, k=k: e.args[k][0]))
        for k in (0, 1)
    ]
    assert (
        sp.simplify(sides[0] - sides[1]).equals(0)
        or abs(float((sides[0] - sides[1]).subs(dict.fromkeys(SPACE, sp.Rational(1, 3))))) < 1e-9
    )
    return sides[0]


def _conditions(
    dim: int,
    phases: Any,
    factual: sp.Expr,
    held: sp.Expr,
    size: float,
    moved: Any,
    corner: bool,
) -> tuple[list[Any], str]:
    """Conditions of all sides; u is `held` where W = 0."""
    if corner:
        plain = sp.simplify(held.subs(SPACE[0], 0)) == 0
        return [cf.Dirichlet(u, 0 if plain else moved(held))], "D0" if plain else "D"
    conditions: list[Any] = []
    words: list[str] = []
    for axis, (low, high) in enumerate(phases):
        for end, phase in enumerate((low, high)):
            name, s = SIDES[dim][2 * axis + end], SPACE[axis]
            normal = (1 if end else -1) * factual.diff(s)
            if abs(phase - math.pi / 2) < 1e-12:
                zero = sp.simplify(held.subs(s, end)) == 0
                conditions.append(cf.Dirichlet(u, 0 if zero else moved(held), on=name))
                words.append("0" if zero else "D")
            elif abs(math.tan(phase)) < 1e-12:
                value = moved(normal.subs(s, end)) / size
                conditions.append(cf.Neumann(u, value, on=name))
                words.append("N")
            else:
                kappa = sp.Float((low + high) * math.tan(phase))
                value = moved((normal + kappa * factual).subs(s, end)) / size
                conditions.append(cf.Robin(u, value, on=name, coefficient=kappa / size))
                words.append("R")
    return conditions, "".join(words)


class EvolvingTruth:
    """Errors of trajectories against exact functions.

    Args:
        model: whose mesh and element are meant.
    """

    def __init__(self, model: Any):
        self.model = model
        domain, space = model.discretisation.mesh, model.spaces.space
        self.dim = domain.topology.dim
        points, self.weights = basix.make_quadrature(CELLS[self.dim], 12)
        element = space.element.basix_element
        table = np.asarray(element.tabulate(1, points))[..., 0]
        corners = domain.geometry.x[cell_geometry(domain)[0], : self.dim]
        jacobian = np.moveaxis(corners[:, 1:] - corners[:, :1], 1, 2)
        self.volume = np.abs(np.linalg.det(jacobian))
        self.places = np.einsum("cij,qj->cqi", jacobian, points) + corners[:, :1]
        self.values, self.slopes = table[0], table[1:]
        self.inverse = np.linalg.inv(jacobian)
        self.nodes = space.dofmap.list

    def sampled(self, expr: sp.Expr) -> np.ndarray:
        """A function of the place with its gradient at the points, shape (1 + dim, cells,
        points)."""
        space, where = SPACE[: self.dim], np.moveaxis(self.places, 2, 0)
        parts = [expr, *(expr.diff(s) for s in space)]
        found = [sp.lambdify(space, part, "numpy")(*where) for part in parts]
        return np.stack([np.broadcast_to(f, self.places.shape[:2]) for f in found])

    def state(self, values: np.ndarray) -> np.ndarray:
        """The same of a function of the space."""
        nodal = values[self.nodes]
        inner = np.einsum("mqv,cv->cqm", self.slopes, nodal)
        steep = np.einsum("cqm,cmi->icq", inner, self.inverse)
        return np.concatenate([(nodal @ self.values.T)[None], steep])

    def norms(self, states: Any, exact: Any, times: np.ndarray) -> tuple[float, float]:
        """‖exact − I states‖ in L2 and H1 over the window; `exact` are pairs of a function of time
        and its sampled place."""
        gauss, weights = np.polynomial.legendre.leggauss(GAUSS)
        factors = [sp.lambdify(t, factor, "numpy") for factor, _ in exact]
        found, sampled = np.zeros(2), [self.state(s) for s in states]
        for n, step in enumerate(np.diff(times)):
            # A pulse may be narrower than the step.
            for part in range(PARTS):
                for place, weight in zip(gauss, weights, strict=True):
                    share = (part + (place + 1) / 2) / PARTS
                    when = times[n] + share * step
                    gap = -(1 - share) * sampled[n] - share * sampled[n + 1]
                    for factor, (_, shape) in zip(factors, exact, strict=True):
                        gap = gap + float(factor(when)) * shape
                    squares = (gap**2 @ self.weights) @ self.volume
                    found += step * weight / (2 * PARTS) * np.array([squares[0], squares.sum()])
        return float(math.sqrt(found[0])), float(math.sqrt(found[1]))


def evolving_outcome(name: str, problem: EvolvingProblem, random: Any) -> Any:
    """One random discretisation: its errors and bounds, or why there is no certificate."""
    # The module of the outcomes imports this one.
    from benchmarks.certify.certify_bench import CertifyOutcome

    case = problem.case(random)
    with case.model as model:
        factual, deleted = model.factual, model.solve(cf.delete("reaction"))
        start = time.perf_counter()
        bound = certify_deletion(model, "reaction", deleted=deleted)
        seconds = time.perf_counter() - start
        if isinstance(bound, NoCertificate):
            return bound.reason
        steep = certify_solution(model, norm="H1")
        truth, times = EvolvingTruth(model), np.asarray(model.times)
        first, second = (
            [(factor, truth.sampled(shape)) for factor, shape in pairs]
            for pairs in (case.factual, case.deleted)
        )
        errors = truth.norms(factual.states, first, times)
        other = truth.norms(deleted.states, second, times)[0]
        gap = [a - b for a, b in zip(deleted.states, factual.states, strict=True)]
        apart = truth.norms(gap, second[-1:], times)[0]
        exact = truth.norms([0 * s for s in gap], second[-1:], times)[0]
    return CertifyOutcome(
        name,
        int(case.said[-1]),
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
