# SPDX-License-Identifier: MIT
"""Random scalar problems with variable coefficients and any boundary, whose factual and deleted
solutions are both known.

In each direction a profile X(s) = cos(β s − γ₀) with β = γ₀ + γ₁ has X' = κ₀ X at the one end and
X' = −κ₁ X at the other with κ = β tan γ: γ = π/2 is a given value, 0 a Neumann and anything between
a Robin condition. With w = ε Π X, u = 2 + a bump times Π X and D = −div(A ∇·) + b·∇, the problems
D u + c u = f and D (u + w) = f have the same right-hand side for c = (D w)/u, so that the solution
without the reaction c is u + w: nothing is approximated. A may jump where ∂w/∂x and ∂u/∂x vanish.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from dolfinx import fem
from dolfinx import mesh as dolfinx_mesh
from mpi4py import MPI

import cffem as cf
from benchmarks.certify.certify_modal import perturbed
from cffem._compat import exterior_facets, form
from cffem.engine.mesh.meshes import MeshData
from cffem.symbols.coordinates import SPACE

u = cf.ScalarField("u")
SIDES = {1: ("left", "right"), 2: ("left", "right", "bottom", "top")}
SIDES[3] = ("left", "right", "front", "back", "bottom", "top")
KINDS = ("constant", "linear", "smooth", "jump", "tensor")


@dataclass(frozen=True)
class VariableCase:
    """A problem with its solutions.

    Attributes:
        model: the model; its reaction is the term that is deleted.
        factual, deleted: the exact solutions.
        said: what it is.
    """

    model: Any
    factual: sp.Expr
    deleted: sp.Expr
    said: str


def named_box(dim: int, cells: int, strength: float, phase: float) -> MeshData:
    """The unit interval, square or cube with the names of its sides."""
    if dim == 1:
        domain = dolfinx_mesh.create_unit_interval(MPI.COMM_SELF, cells)
    else:
        domain = perturbed(dim, cells, strength, phase)
    domain.topology.create_connectivity(dim - 1, dim)
    facets = exterior_facets(domain)
    middle = dolfinx_mesh.compute_midpoints(domain, dim - 1, facets)
    tags = np.zeros(len(facets), dtype=np.int32)
    for axis in range(dim):
        for end in (0, 1):
            tags[np.abs(middle[:, axis] - end) < 1e-9] = 2 * axis + end + 1
    order = np.argsort(facets)
    marked = dolfinx_mesh.meshtags(domain, dim - 1, facets[order], tags[order])
    names = {name: (dim - 1, place + 1) for place, name in enumerate(SIDES[dim])}
    return MeshData(domain, None, marked, names)


def _phases(random: Any, jump: bool) -> tuple[float, float]:
    if jump:
        return (math.pi / 2, math.pi / 2)
    low, high = (
        {"D": math.pi / 2, "N": 0.0, "R": float(random.uniform(0.2, 1.2))}[kind]
        for kind in random.choice(["D", "N", "R"], 2)
    )
    return (low, high) if low + high > 0 else (0.0, math.pi)


def _tensor(random: Any, kind: str, dim: int) -> list[list[sp.Expr]]:
    x, y = SPACE[:2]
    size = sp.Float(round(float(10 ** random.uniform(-1, 1)), 3))
    first, second = (sp.Float(round(float(random.uniform(0.1, 0.7)), 3)) for _ in range(2))
    scalar: sp.Expr = {
        "constant": sp.S.One,
        "linear": 1 + first * x,
        "smooth": sp.exp(first * x - (second * y if dim > 1 else 0)),
        "jump": sp.Piecewise((1 + 9 * first, x < sp.Rational(1, 2)), (sp.S.One, True)),
        "tensor": 1 + first * x**2,
    }[kind]
    rows = [[size * scalar if i == j else sp.S.Zero for j in range(dim)] for i in range(dim)]
    if kind == "tensor" and dim > 1:
        rows[0][1] = rows[1][0] = size * second / 2
    return rows


def variable_case(
    random: Any, dim: int = 2, cells: int | None = None, uneven: bool = False
) -> VariableCase:
    """One random case; with `uneven` given values are no polynomials."""
    kind = str(random.choice(KINDS[:-1] if dim == 1 else KINDS))
    space, jump, x = SPACE[:dim], kind == "jump", SPACE[0]
    many = {1: (6, 24), 2: (4, 11), 3: (2, 4)}[dim]
    count = cells or int(random.integers(*many))
    count += count % 2 if jump else 0
    strength = 0.0 if jump else float(random.uniform(0, 0.2))
    tensor = _tensor(random, kind, dim)
    phases = [_phases(random, jump and axis == 0) for axis in range(dim)]
    if kind == "tensor":
        # Normal derivatives are no fluxes there: values are given everywhere.
        phases = [(math.pi / 2, math.pi / 2)] * dim
    profile = sp.Integer(1)
    for s, (low, high) in zip(space, phases, strict=True):
        profile *= sp.cos(sp.Float(low + high) * s - sp.Float(low))
    if all(low == high == math.pi / 2 for low, high in phases):
        profile = sp.Mul(*(sp.sin(sp.pi * s) for s in space))
    bump = 1 + sp.Float(round(float(random.uniform(-0.5, 0.5)), 3)) * sp.sin(
        3 * space[-1] + (0 if jump else space[0])
    )
    if jump and dim == 1:
        bump = sp.S.One
    factual = 2 + sp.Float(round(float(random.uniform(-0.8, 0.8)), 3)) * bump * profile
    given: sp.Expr = sp.Integer(2)
    if uneven:
        # It does not change across the line where A may jump.
        wavy = sp.sin(_steep(random) * space[-1]) * (1 if jump else sp.exp(-_steep(random) * x))
        wavy *= sp.Float(round(float(random.uniform(0.1, 0.6)), 3))
        factual, given = factual + wavy, given + wavy
    away = sp.Float(round(float(10 ** random.uniform(-2, -0.5)), 4)) * profile
    wind = _wind(random, dim)
    carried = -sp.Add(
        *(
            tensor[i][j] * away.diff(space[j]).diff(space[i])
            + tensor[i][j].diff(space[i]) * away.diff(space[j])
            for i in range(dim)
            for j in range(dim)
        )
    )
    carried += sum(b * away.diff(s) for b, s in zip(wind, space, strict=True))
    reaction = carried / factual
    forcing = _applied(tensor, wind, space, factual + away)
    return _posed(
        random,
        kind,
        dim,
        named_box(dim, count, strength, float(random.uniform(0, 6))),
        tensor,
        wind,
        reaction,
        forcing,
        phases,
        factual,
        away,
        given,
    )


def _steep(random: Any) -> sp.Float:
    return sp.Float(round(float(10 ** random.uniform(-0.3, 0.8)), 2))


def _applied(tensor: Any, wind: Any, space: Any, value: sp.Expr) -> sp.Expr:
    """D of a function."""
    result = sum(b * value.diff(s) for b, s in zip(wind, space, strict=True))
    for i, one in enumerate(space):
        for j, other in enumerate(space):
            a = tensor[i][j]
            result -= a * value.diff(other).diff(one) + a.diff(one) * value.diff(other)
    return result


def _wind(random: Any, dim: int) -> list[sp.Expr]:
    """A flow that goes along all sides."""
    if dim == 1 or random.uniform() < 0.4:
        return [sp.S.Zero] * dim
    x, y = SPACE[:2]
    stream = sp.Float(round(float(random.uniform(-8, 8)), 3)) * x * (1 - x) * y * (1 - y)
    return [stream.diff(y), -stream.diff(x)] + [sp.S.Zero] * (dim - 2)


def _posed(
    random: Any,
    kind: str,
    dim: int,
    domain: MeshData,
    tensor: Any,
    wind: Any,
    reaction: sp.Expr,
    forcing: sp.Expr,
    phases: Any,
    factual: sp.Expr,
    away: sp.Expr,
    given: sp.Expr,
) -> VariableCase:
    space = SPACE[:dim]
    conditions: list[Any] = []
    words: list[str] = []
    for axis, (low, high) in enumerate(phases):
        total = low + high
        for end, phase in enumerate((low, high)):
            name, s = SIDES[dim][2 * axis + end], space[axis]
            normal = (1 if end else -1) * factual.diff(s)
            if abs(phase - math.pi / 2) < 1e-12:
                conditions.append(cf.Dirichlet(u, given, on=name))
                words.append("D")
            elif abs(math.tan(phase)) < 1e-12:
                conditions.append(cf.Neumann(u, normal.subs(s, end), on=name))
                words.append("N")
            else:
                kappa = sp.Float(total * math.tan(phase))
                value = (normal + kappa * factual).subs(s, end)
                conditions.append(cf.Robin(u, value, on=name, coefficient=kappa))
                words.append("R")
    flux = [sum(tensor[i][j] * u.diff(space[j]) for j in range(dim)) for i in range(dim)]
    diffusion = (
        cf.div(tensor[0][0] * cf.grad(u))
        if kind != "tensor"
        else sp.Add(*(sp.expand(f.diff(s)) for f, s in zip(flux, space, strict=True)))
    )
    terms = {"diffusion": diffusion, "reaction": -reaction * u}
    if any(b != 0 for b in wind):
        terms["drift"] = -sp.Add(*(b * u.diff(s) for b, s in zip(wind, space, strict=True)))
    degree = int(random.choice([1, 2]))
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", degree)},
        boundary=conditions,
        forcing={u: forcing},
    )
    model = cf.Model(cf.Library(terms=terms, unknown=u), dict.fromkeys(terms, 1.0), experiment)
    return VariableCase(model, factual, factual + away, f"{dim}D {kind} {''.join(words)} P{degree}")


def distance(case: VariableCase, combination: Any, exact: sp.Expr, norm: str = "L2") -> float:
    """‖exact − states‖ with the exact function on elements of a high degree.

    Args:
        case: whose mesh is meant.
        combination: pairs of a factor and a solution.
        exact: the exact function.
        norm: "L2" or "H1".
    """
    import ufl

    domain = case.model.discretisation.mesh
    dim, degree = domain.topology.dim, {1: 8, 2: 7, 3: 6}[domain.topology.dim]
    space = fem.functionspace(domain, ("Lagrange", degree))
    best = fem.Function(space)
    value = sp.lambdify(SPACE[:dim], exact, "numpy")
    best.interpolate(lambda p: np.broadcast_to(value(*p[:dim]), p.shape[1]))
    gap = best - sum(factor * solution.function() for factor, solution in combination)
    density = gap**2 + (ufl.inner(ufl.grad(gap), ufl.grad(gap)) if norm == "H1" else 0)
    return math.sqrt(abs(fem.assemble_scalar(form(density * ufl.dx, MPI.COMM_SELF))))
