"""Random problems with several unknowns: flows with a pressure, coupled scalars, Darcy's law, fields without divergence.

As for one unknown, each term is written twice; a `Coupled` problem holds both, its data and its conditions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import default_scalar_type, fem
from net_dense import Dense, Part, compiled, numeric, rate_of
from net_meshes import sides, small_mesh
from net_problems import polynomial
from scipy.linalg import null_space

import cffem as cf
from cffem import div, dot, grad, lap, x, y

v, q, E = (cf.VectorField(name, dim=2) for name in ("v", "q", "E"))
p, u, w, k = (cf.ScalarField(name) for name in ("p", "u", "w", "k"))


@dataclass(frozen=True)
class Entry:
    """One term of one equation.

    Attributes:
        of: the field of the equation.
        name: of the term.
        symbols: in SymPy.
        coefficient: its factor.
        by_hand: the form from (values by field, tests by field, measures); an anchor or constraint has no symbols.
    """

    of: Any
    name: str
    symbols: Any
    coefficient: float
    by_hand: Callable[[Any], Any]


@dataclass
class Coupled:
    """A drawn problem with several unknowns.

    Attributes:
        name: what it is, for messages.
        cell: the type of cells.
        elements: family and degree of each field, multipliers included.
        anchors: for each field None (no anchor), "value", "rate" or "acceleration".
        entries: the terms.
        given: essential conditions as (field or component, value, sides).
        natural: other conditions as cffem takes them.
        constraint: cffem's, or None.
        extra: forms by hand that are no terms: constraints and natural data.
        zeros: fields that vanish on the whole boundary without being asked to.
        floating: the field that is determined up to a constant only, or None.
        forcing: by field, a SymPy value or a DOLFINx function.
        start: initial values by field.
        scheme, steps, end: of the time window.
        nonlinear: whether a term is.
        straight: whether the sides must stay along the axes.
        seed: of the drawing.
    """

    name: str
    cell: str
    elements: dict[Any, tuple[str, int]]
    anchors: dict[Any, str | None]
    entries: list[Entry]
    given: list[tuple[Any, Any, tuple[str, ...]]]
    natural: list[Any] = field(default_factory=list)
    constraint: Any = None
    extra: list[Callable[[Any], Any]] = field(default_factory=list)
    zeros: tuple[Any, ...] = ()
    floating: Any = None
    forcing: dict[Any, Any] = field(default_factory=dict)
    start: dict[Any, Any] = field(default_factory=dict)
    scheme: str | None = None
    steps: int = 2
    end: float = 0.1
    nonlinear: bool = False
    straight: bool = False
    seed: int = 0

    @property
    def order(self) -> int:
        """The highest order in time."""
        return max({"rate": 1, "acceleration": 2}.get(str(kind), 0) for kind in self.anchors.values())

    def __str__(self) -> str:
        terms = " + ".join(f"{e.coefficient:.3g} {e.of}/{e.name}" for e in self.entries)
        said = [f"{f} = {value} on {'+'.join(on)}" for f, value, on in self.given]
        return f"{self.name} (seed {self.seed}, {self.scheme}): {terms}; {said} {[*map(str, self.natural)]} {self.forcing}"

    def model(self, domain: Any) -> Any:
        """cffem's model."""
        libraries = {}
        for unknown, kind in self.anchors.items():
            terms = {e.name: e.symbols for e in self.entries if e.of == unknown}
            anchors = {None: None, "value": unknown, "rate": cf.dt(unknown), "acceleration": cf.dt(cf.dt(unknown))}
            anchor = anchors[kind]
            libraries[unknown] = cf.Library(anchor=anchor, terms=terms, unknown=unknown)
        alone = len(libraries) == 1
        boundary = [cf.Dirichlet(f, value, on=on) for f, value, on in self.given]
        experiment = cf.Experiment(
            mesh=domain,
            elements={f: e for f, e in self.elements.items() if f in self.anchors},
            boundary=[*boundary, *self.natural],
            constraint=self.constraint,
            forcing=self.forcing,
            initial=self.start,
            time=cf.Window(0, self.end, steps=self.steps, scheme=self.scheme) if self.order else None,
        )
        coefficients = {e.name if alone else f"{e.of}/{e.name}": e.coefficient for e in self.entries}
        return cf.Model(next(iter(libraries.values())) if alone else cf.System(libraries), coefficients, experiment)


class Values:
    """What forms by hand are written with: values, rates and tests by field, coordinates, normal and measures."""

    def __init__(self, domain: Any, split: list[dict], tests: dict, time: Any):
        self.values, self.rates, self.accelerations = split
        self.tests, self.t = tests, time
        self.x, self.n = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
        self.dx = ufl.Measure("dx", domain=domain.mesh)
        self._ds = ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)
        self._names = domain.names

    def ds(self, on: tuple[str, ...]) -> Any:
        """The measure of some sides."""
        return self._ds(tuple(self._names[name][1] for name in on))


class CoupledReference(Dense):
    """A problem with several unknowns by hand on a mesh."""

    def __init__(self, problem: Coupled, domain: Any):
        self.problem, self.domain, mesh = problem, domain, domain.mesh
        self.fields = tuple(problem.elements)
        parts = []
        for unknown, (family, degree) in problem.elements.items():
            plain = family in ("Lagrange", "DG")
            shape = (2,) if unknown.shape and plain else None
            parts.append(basix.ufl.element(family, problem.cell, degree, shape=shape))
        self.space = fem.functionspace(mesh, basix.ufl.mixed_element(parts))
        self.own = {f: fem.functionspace(mesh, element) for f, element in zip(self.fields, parts)}
        self.size = self.space.dofmap.index_map.size_local * self.space.dofmap.index_map_bs
        self.where = {f: self._places(i, f) for i, f in enumerate(self.fields)}
        self.states = tuple(fem.Function(self.space) for _ in range(3))
        self.time = fem.Constant(mesh, default_scalar_type(0))
        split = [dict(zip(self.fields, ufl.split(state))) for state in self.states]
        tests = dict(zip(self.fields, ufl.split(ufl.TestFunction(self.space))))
        self.hand = Values(domain, split, tests, self.time)
        self.equation = {(e.of, e.name): self._part(e.by_hand(self.hand), -e.coefficient) for e in problem.entries}
        self.others = [self._part(form, 1.0) for form in self._other_forms()]
        self._given = [(self._positions(f, on), f, value) for f, value, on in problem.given if not self._weak(f)]
        zeros = [self._positions(f, sides(2)) for f in problem.zeros]
        every = [*(dofs for dofs, _, _ in self._given), *zeros]
        self.fixed = np.unique(np.concatenate(every)).astype(int) if every else np.array([], dtype=int)
        still = [self.where[f] for f in self.fields if problem.anchors.get(f) not in ("rate", "acceleration")]
        self.algebraic = np.concatenate(still) if still and problem.order else None

    def _part(self, form: Any, factor: float) -> Part:
        return Part(form, self.states, factor, self.time)

    def _other_forms(self) -> list[Any]:
        h, problem = self.hand, self.problem
        forms = [extra(h) for extra in problem.extra]
        for f, kind in problem.anchors.items():
            if kind is not None:
                left = {"value": h.values, "rate": h.rates, "acceleration": h.accelerations}[kind]
                forms.append(ufl.inner(left[f], h.tests[f]) * h.dx)
        for f, value in problem.forcing.items():
            if not hasattr(value, "function_space"):
                value = ufl.as_vector([in_space(c, h) for c in value]) if f.shape else in_space(value, h)
            forms.append(-ufl.inner(value, h.tests[f]) * h.dx)
        return forms

    def _weak(self, target: Any) -> bool:
        return self.problem.elements[getattr(target, "field", target)][0] == "DG"

    def _places(self, index: int, unknown: Any) -> np.ndarray:
        """For each unknown of a field's own space its place in the state, cell by cell."""
        own, sub = self.own[unknown].dofmap, self.space.sub(index).dofmap
        places = np.zeros(own.index_map.size_local * own.index_map_bs, dtype=int)
        for mine, theirs in zip(own.list, sub.list):
            unrolled = (theirs[:, None] * sub.bs + np.arange(sub.bs)).ravel()
            places[(mine[:, None] * own.index_map_bs + np.arange(own.index_map_bs)).ravel()] = unrolled
        return places

    def _positions(self, target: Any, on: tuple[str, ...]) -> np.ndarray:
        unknown = getattr(target, "field", target)
        own, facet = self.own[unknown], self.domain.mesh.topology.dim - 1
        self.domain.mesh.topology.create_connectivity(facet, facet + 1)
        facets = np.concatenate([self.domain.facet_tags.find(self.domain.names[name][1]) for name in on])
        blocks, size = fem.locate_dofs_topological(own, facet, facets), own.dofmap.index_map_bs
        chosen = np.arange(size) if unknown == target else np.array([target.index])
        return self.where[unknown][(blocks[:, None] * size + chosen).ravel()]

    def interpolated(self, unknown: Any, value: Any, time: float) -> np.ndarray:
        """A state with one field that has the values of data."""
        state, function = np.zeros(self.size), fem.Function(self.own[unknown])
        if hasattr(value, "function_space"):
            function.interpolate(value)
        else:
            evaluate = numeric(value, 2 if unknown.shape else 0)
            function.interpolate(lambda points: evaluate(points, time))
        state[self.where[unknown]] = function.x.array
        return state

    def given(self, time: float, rate: bool = False) -> np.ndarray:
        """All unknowns, those with essential conditions having their values, or rates."""
        result = np.zeros(self.size)
        for dofs, target, value in self._given:
            unknown = getattr(target, "field", target)
            if unknown != target:
                value = tuple(value if i == target.index else 0 for i in range(2))
            result[dofs] = self.interpolated(unknown, rate_of(value) if rate else value, time)[dofs]
        return result

    @property
    def second_order(self) -> np.ndarray:
        """Over all unknowns, whether they are of second order in time."""
        mask = np.zeros(self.size, dtype=bool)
        for f, kind in self.problem.anchors.items():
            mask[self.where[f]] = kind == "acceleration"
        return mask

    @cached_property
    def folding(self) -> np.ndarray:
        """All states without essential values whose floating field has mean zero."""
        free = np.setdiff1d(np.arange(self.size), self.fixed)
        fold = np.eye(self.size)[:, free]
        if self.problem.floating is None:
            return fold
        means = fem.assemble_vector(compiled(self.hand.tests[self.problem.floating] * self.hand.dx)).array
        return fold @ null_space((means @ fold)[None, :])

    @property
    def admitted(self) -> np.ndarray:
        """All states with any essential values."""
        return np.hstack([self.folding, np.eye(self.size)[:, self.fixed]])

    def parts(self) -> list[Part]:
        """All summands."""
        return [*self.equation.values(), *self.others]

    def start(self, rate: bool = False) -> np.ndarray:
        """Initial values, projected onto what a constraint admits."""
        fields = {f: cf.dt(f) if rate else f for f in self.problem.anchors}
        given = {f: self.problem.start[key] for f, key in fields.items() if key in self.problem.start}
        state = sum((self.interpolated(f, value, 0.0) for f, value in given.items()), np.zeros(self.size))
        held = self.fixed[self.second_order[self.fixed]] if rate else self.fixed
        state[held] = self.given(0.0, rate)[held]
        if rate:
            return state
        if self.problem.constraint is not None:
            return self._projected(state)
        return state if self.algebraic is None else self._consistent(state, self.start(rate=True))

    def _consistent(self, state: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """The algebraic unknowns that obey their equations at the start, rates of the others being those of theirs."""
        still = np.isin(np.arange(self.size), self.algebraic)
        guess = np.where(still, self.given(0.0), self.given(0.0, rate=True))
        guess[np.setdiff1d(np.arange(self.size), self.fixed)] = 0.0

        second = self.second_order
        first = ~still & ~second
        guess[second & (guess != 0)] = 0.0

        def states(found):
            rate = np.where(second, speed, np.where(first, found, 0.0))
            return np.where(still, found, state), rate, np.where(second, found, 0.0)

        fold, found = self.folding, guess
        for _ in range(20):
            matrix = fold.T @ self.jacobian((1.0 * still, 1.0 * first, 1.0 * second), states(found), 0.0) @ fold
            found = found - fold @ np.linalg.solve(matrix, fold.T @ self.residual(states(found), 0.0))
        return np.where(still, found, state)

    def _projected(self, state: np.ndarray) -> np.ndarray:
        """The nearest state in L2 that obeys the constraint: the saddle point of mass and constraint."""
        (leader,) = self.problem.anchors
        h, fold = self.hand, self.folding
        mass = self._part(ufl.inner(h.values[leader], h.tests[leader]) * h.dx, 1.0).matrix(0)
        matrix = fold.T @ (mass + self.others[0].matrix(0)) @ fold
        self.place((state, None, None), 0.0)
        return state - fold @ np.linalg.solve(matrix, fold.T @ self.others[0].residual())


def in_space(value: Any, h: Values) -> Any:
    """Polynomial data in UFL."""
    names = sp.symbols("x y t", real=True)
    return ufl.as_ufl(sp.lambdify(names, sp.sympify(value), "math")(h.x[0], h.x[1], h.t))


# Problems ---------------------------------------------------------------------------------------------------------------------


def stream(rng: np.random.Generator, in_time: bool) -> tuple[Any, Any]:
    """A velocity without divergence, of second degree so that its interpolant has none either."""
    psi = sum(round(float(rng.normal()), 3) * m for m in (x, y, x * y, x**2, y**2, x**2 * y, x * y**2, x**3))
    psi = psi * (1 + cf.t) if in_time else psi
    return (sp.diff(psi, y), -sp.diff(psi, x))


def flow(rng: np.random.Generator, seed: int) -> Coupled:
    """Stokes' and Navier–Stokes' equations on Taylor–Hood elements."""
    order, bent = int(rng.integers(2)), bool(rng.uniform() < 0.4)
    nu = float(rng.uniform(0.5, 2.0))

    def gradients(h):
        return -ufl.inner(ufl.grad(h.values[v]), ufl.grad(h.tests[v])) * h.dx

    entries = [Entry(v, "viscosity", lap(v), nu, gradients)]
    entries.append(Entry(v, "drag", -v, float(rng.uniform(0, 2)), lambda h: -ufl.inner(h.values[v], h.tests[v]) * h.dx))
    if bent:
        entries.append(
            Entry(
                v,
                "convection",
                -dot(grad(v), v),
                float(rng.uniform(0.1, 0.5)),
                lambda h: -ufl.inner(ufl.dot(ufl.grad(h.values[v]), h.values[v]), h.tests[v]) * h.dx,
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
        extra.append(lambda h: -nu * ufl.inner(ufl.as_vector([1 + h.x[0], h.x[1]]), h.tests[v]) * h.ds(("right",)))
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
    pairs = [("rate", "rate"), ("rate", None), (None, None), ("acceleration", "rate"), ("acceleration", None)]
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
            lambda h: ufl.dot(ufl.as_vector([h.x[1], -h.x[0]]), ufl.grad(h.values[w])) * h.tests[w] * h.dx,
        ),
    ]
    if bent:
        entries.append(Entry(u, "uw", u * w, 0.2, lambda h: h.values[u] * h.values[w] * h.tests[u] * h.dx))
    if kinds[0] is not None and rng.uniform() < 0.7:
        entries.append(Entry(w, "rate of u", cf.dt(u), 0.3, lambda h: h.rates[u] * h.tests[w] * h.dx))
    strength = entries[3].coefficient
    return Coupled(
        name="coupled scalars",
        cell=("triangle", "quadrilateral")[rng.integers(2)],
        elements={u: ("Lagrange", 2), w: ("Lagrange", 1)},
        anchors=dict(zip((u, w), kinds)),
        entries=entries,
        given=[(u, polynomial(rng, 2, kinds[0] is not None), sides(2)), (w, polynomial(rng, 2), ("left", "top"))],
        natural=[cf.Robin(w, x + y, on=("right", "bottom"), coefficient=2)],
        extra=[lambda h: -strength * (h.x[0] + h.x[1] - 2 * h.values[w]) * h.tests[w] * h.ds(("right", "bottom"))],
        forcing={u: 2 - x * y} if rng.uniform() < 0.5 else {},
        start={f: polynomial(rng, 2) for f, kind in zip((u, w), kinds) if kind is not None}
        | ({cf.dt(u): polynomial(rng, 2)} if kinds[0] == "acceleration" else {}),
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if kinds[0] else None,
        nonlinear=bent,
        seed=seed,
    )


def darcy(rng: np.random.Generator, seed: int) -> Coupled:
    """q = −grad p, div q = f on the lowest conforming pair, pressure given on some sides, flux on the others."""
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
            Entry(q, "drag", -q, float(rng.uniform(0.5, 2)), lambda h: -ufl.inner(h.values[q], h.tests[q]) * h.dx),
            Entry(q, "push", -grad(p), push, lambda h: h.values[p] * ufl.div(h.tests[q]) * h.dx),
            Entry(p, "div", -div(q), 1.0, lambda h: -ufl.div(h.values[q]) * h.tests[p] * h.dx),
            Entry(p, "storage", -p, float(rng.uniform(0.1, 1)), lambda h: -h.values[p] * h.tests[p] * h.dx),
        ],
        given=[(p, pressure, free), *([(q, flux, walls)] if walls else [])],
        extra=[trace],
        forcing={p: 1 + x * y},
        seed=seed,
    )


def conductor(rng: np.random.Generator, seed: int) -> Coupled:
    """A field without divergence on Nédélec elements between conducting walls."""
    order, multiplier = int(rng.integers(2)), cf.ScalarField("E_multiplier")

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
        anchors={E: "rate" if order else None},
        entries=[
            Entry(
                E,
                "curl curl",
                -cf.curl(cf.curl(E)),
                float(rng.uniform(0.5, 2)),
                lambda h: -ufl.inner(ufl.curl(h.values[E]), ufl.curl(h.tests[E])) * h.dx,
            ),
            Entry(E, "loss", -x * E, 0.7, lambda h: -h.x[0] * ufl.inner(h.values[E], h.tests[E]) * h.dx),
        ],
        given=[(E, value, sides(2))],
        constraint=cf.DivergenceFree(E, weight=1 + x if weighted else None),
        extra=[constraint],
        zeros=(multiplier,),
        forcing={E: (1 - y, x * y)},
        start={E: tuple(polynomial(rng, 2) for _ in range(2))} if order else {},
        scheme=("sdirk2", "backward-euler")[rng.integers(2)] if order else None,
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


def weak_divergence(rng: np.random.Generator, seed: int) -> Coupled:
    """grad div on Nédélec elements, through the weak divergence s: (s, r) = −(E, ∇r) for all r that vanish on the boundary.

    Between conducting walls div E vanishes there, and where E is free its natural trace (div E) n says so.
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


KINDS = {
    "flow": flow,
    "reaction": reaction,
    "darcy": darcy,
    "conductor": conductor,
    "coefficient": coefficient,
    "weak divergence": weak_divergence,
}


def coupled(kind: str, seed: int) -> tuple[Coupled, Any]:
    """The problem of a seed and its mesh."""
    rng = np.random.default_rng([seed, *map(ord, kind)])
    problem = KINDS[kind](rng, seed)
    return problem, small_mesh(problem.cell, 2, 0 if problem.straight else int(rng.integers(4)))
