"""Random problems with one unknown field, drawn from cells, elements, terms, conditions and data.

A `Problem` says what is drawn and nothing about how it is solved: `declared` makes cffem's model of
it, `net_reference` the forms by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sympy as sp
from net_meshes import DIMENSION, sides, small_mesh
from net_terms import (
    CURL_CONFORMING,
    DISCONTINUOUS,
    DIV_CONFORMING,
    SCALAR,
    STRENGTH,
    STRENGTH_VALUE,
    VECTOR,
    Term,
)

import cffem as cf
from cffem import t, x, y, z

SPACE = (x, y, z)


@dataclass(frozen=True)
class Family:
    """What problems have in common that share compiled forms.

    Attributes:
        cell: the type of the cells.
        element: family and degree.
        kind: "scalar", "vector", "curl", "div" or "discontinuous".
        cells: along each axis.
    """

    cell: str
    element: tuple[str, int]
    kind: str
    cells: int = 2

    @property
    def dimension(self) -> int:
        """The dimension of space."""
        return DIMENSION[self.cell]

    @property
    def pool(self) -> list[Term]:
        """The terms that make sense on this element."""
        return {
            "scalar": SCALAR,
            "vector": VECTOR,
            "curl": CURL_CONFORMING,
            "div": DIV_CONFORMING,
            "discontinuous": DISCONTINUOUS,
        }[self.kind]

    def __str__(self) -> str:
        name = " ".join(map(str, self.element))
        return f"{'vector ' if self.kind == 'vector' else ''}{name} on {self.cell}s"


@dataclass(frozen=True)
class Condition:
    """What holds on some sides.

    Attributes:
        kind: "essential", "neumann", "robin" or "law", the trace of the whole equation.
        sides: their names.
        value: SymPy data, or "function" for natural data that are a DOLFINx function.
        coefficient: of a Robin condition or a law.
        component: the one that an essential condition gives, None for all.
        called: whether an essential value is handed over as a Python function of the points.
    """

    kind: str
    sides: tuple[str, ...]
    value: Any = 0
    coefficient: Any = 0
    component: int | None = None
    called: bool = False


@dataclass(frozen=True)
class Problem:
    """One drawn problem, anchor[u] = Σ_j c_j T_j[u] + forcing.

    Attributes:
        family: cells and element.
        order: of the time derivative; zero is steady.
        terms: with their coefficients.
        conditions: on the sides.
        periodic: whether left and right are identified.
        forcing: a SymPy value, "function" (a DOLFINx function with random values), or None.
        start, speed: initial value and rate.
        scheme, steps, end: of the time window.
        deformed: how the mesh is deformed.
        deleted: a term to be deleted, or None.
        seed: of what is random on the mesh.
    """

    family: Family
    order: int
    terms: tuple[tuple[Term, float], ...]
    conditions: tuple[Condition, ...]
    periodic: bool
    forcing: Any
    start: Any
    speed: Any
    scheme: str | None
    steps: int
    end: float
    deformed: int
    deleted: str | None
    seed: int

    @property
    def nonlinear(self) -> bool:
        """Whether a term is."""
        return any(term.nonlinear for term, _ in self.terms)

    def anchor(self, u: Any) -> Any:
        """The time derivative, None for a steady problem."""
        return (None, cf.dt(u), cf.dt(cf.dt(u)))[self.order]

    def known(self, domain: Any, hand: Any) -> dict[Any, Any]:
        """The values of known fields."""
        return {}

    def mesh(self) -> Any:
        """The mesh with named sides."""
        return small_mesh(self.family.cell, self.family.cells, self.deformed)

    def __str__(self) -> str:
        terms = " + ".join(f"{c:.3g} {term.name}" for term, c in self.terms)
        said = ", ".join(
            f"{c.kind} {'' if c.component is None else c.component} {c.value} on "
            f"{'+'.join(c.sides)}"
            for c in self.conditions
        )
        time = "steady" if self.order == 0 else f"order {self.order} {self.scheme}"
        return (
            f"{self.family} ({time}, seed {self.seed}): {terms}; {said or 'no condition'}"
            + ("; periodic" if self.periodic else "")
            + f"; forcing {self.forcing}"
        )


def polynomial(rng: np.random.Generator, dimension: int, in_time: int = 0) -> sp.Expr:
    """A random polynomial of second degree in space and of a given one in time."""
    space = SPACE[:dimension]
    monomials = [sp.S.One, *space, *(a * b for a in space for b in space)]
    value = sum(round(float(rng.normal()), 3) * m for m in monomials)
    for power in range(1, in_time + 1):
        value += round(float(rng.normal()), 3) * t**power * (1 + space[-1])
    return value


def drawn_value(rng: np.random.Generator, family: Family, in_time: int = 0) -> Any:
    """Data of the shape of the field: values at nodes, which compile nothing."""
    if family.kind in ("scalar", "discontinuous"):
        return polynomial(rng, family.dimension, in_time)
    return tuple(polynomial(rng, family.dimension, in_time) for _ in range(family.dimension))


def pooled(rng: np.random.Generator, family: Family, transient: bool) -> Any:
    """Data that enter a form; few, because each is compiled."""
    last = SPACE[family.dimension - 1]
    pool = [sp.S.Zero, (1 + t) * last if transient else 2 - x * last]
    if family.kind in ("scalar", "discontinuous"):
        return pool[rng.integers(len(pool))]
    chosen = rng.integers(len(pool))
    return tuple(pool[(chosen + i) % len(pool)] for i in range(family.dimension)) if chosen else 0


LAYOUTS = (
    "all given",
    "all given",
    "one side given",
    "robin",
    "mixed",
    "all free",
    "periodic",
    "slip",
)


def drawn_conditions(
    rng: np.random.Generator, family: Family, order: int
) -> tuple[tuple[Condition, ...], bool]:
    """Conditions on all sides, and whether left and right are identified."""
    every = sides(family.dimension)
    layout = LAYOUTS[rng.integers(len(LAYOUTS))]
    # A rate of boundary data that is linear in time is exact in every scheme.
    in_time = {0: 0, 1: int(rng.integers(3)), 2: int(rng.integers(2))}[order]
    value = 0 if rng.uniform() < 0.3 else drawn_value(rng, family, in_time)
    flux, coefficient = pooled(rng, family, order > 0), 1 + x if family.cells > 2 else 2
    if family.kind == "curl":
        # n × curl E = value − coefficient E_t takes energy out where the coefficient is negative.
        coefficient = -coefficient
    if family.kind == "discontinuous":
        return (), False
    if layout == "slip" and family.kind == "vector":
        # One component on each pair of sides; nothing pulls at the others.
        first = [
            Condition("essential", pair, polynomial(rng, family.dimension), component=i)
            for i, pair in enumerate(zip(every[::2], every[1::2]))
        ]
        return (*first, Condition("neumann", every, 0)), False
    if rng.uniform() < 0.25 and family.kind in ("scalar", "vector"):
        flux = "function"
    if layout == "periodic":
        rest = tuple(name for name in every if name not in ("left", "right"))
        kind = ("essential", "neumann")[rng.integers(2)]
        value = 0 if kind == "essential" else flux
        return ((Condition(kind, rest, value),) if rest else ()), True
    if layout in ("all given", "slip"):
        return (
            Condition("essential", every, value, called=order == 0 and rng.uniform() < 0.3),
        ), False
    if layout == "one side given":
        return (
            Condition("essential", every[:1], value),
            Condition("neumann", every[1:], flux),
        ), False
    if layout == "robin":
        return (
            Condition("essential", every[:1], value),
            Condition("robin", every[1:], flux, coefficient),
        ), False
    if layout == "mixed":
        second = [Condition("robin", every[1:2], flux, coefficient)]
        third = (
            [Condition("neumann", every[2:], pooled(rng, family, order > 0))] if every[2:] else []
        )
        return (Condition("essential", every[:1], value), *second, *third), False
    return (Condition("robin", every, flux, coefficient),), False


def drawn_terms(
    rng: np.random.Generator, family: Family, order: int, nonlinear: bool
) -> tuple[tuple[Term, float], ...]:
    """A leading term with a positive coefficient, some others, and at most two nonlinear ones."""
    # A jump inside cells is integrated to a stated accuracy only.
    pool = [
        term for term in family.pool if term.needs <= order and not (term.fits and family.cells % 2)
    ]
    leading = [term for term in pool if term.leading and (nonlinear or not term.nonlinear)]
    others = [term for term in pool if not term.leading and not term.nonlinear]
    bent = [term for term in pool if not term.leading and term.nonlinear]
    chosen: list[tuple[Term, float]] = []
    if leading:
        chosen.append((leading[rng.integers(len(leading))], float(rng.uniform(1.0, 3.0))))
    for term in rng.permutation(np.array(others, dtype=object))[: rng.integers(1, 4)]:
        small = rng.normal() / 2
        second = term.name in ("viscous", "u_xx", "grad div", "curl curl", "damping")
        chosen.append((term, float(abs(small) + 0.1 if second else small)))
    if order == 0 and family.kind != "scalar":
        # The mass term keeps curl and divergence from having a kernel.
        chosen = [(term, c) for term, c in chosen if term.name != "reaction"]
        chosen.append((next(term for term in others if term.name == "reaction"), -4.0))
    if order == 0 and not leading:
        chosen = [(term, c) for term, c in chosen if term.name != "reaction"]
        chosen.append((next(term for term in others if term.name == "reaction"), -6.0))
    if nonlinear and bent:
        for term in rng.permutation(np.array(bent, dtype=object))[: rng.integers(1, 3)]:
            chosen.append((term, float(rng.uniform(0.05, 0.3))))
    unique = {term.name: (term, c) for term, c in chosen}
    return tuple(unique[name] for name in rng.permutation(sorted(unique)))


def drawn_leading(
    family: Family, seed: int, order: int, terms: Any, conditions: tuple[Condition, ...]
) -> str | None:
    """Now and then the leading term, whose deletion releases essential values."""
    leading = [term.name for term, _ in terms if term.leading]
    given = [c for c in conditions if c.kind == "essential"]
    whole = given and all(c.component is None for c in given)
    if family.kind not in ("scalar", "vector") or order == 2 or not leading or not whole:
        return None
    # Numbers of its own, so that everything else about a problem stays what it was.
    return leading[0] if np.random.default_rng([seed, len(terms), 4]).uniform() < 0.4 else None


def drawn(family: Family, seed: int) -> Problem:
    """The problem of a seed."""
    rng = np.random.default_rng([seed, *map(ord, str(family))])
    order = int(rng.choice([0, 0, 1, 1, 2]))
    nonlinear = bool(rng.uniform() < 0.3)
    terms = drawn_terms(rng, family, order, nonlinear)
    conditions, periodic = drawn_conditions(rng, family, order)
    if family.dimension > 1 and any(c.kind != "essential" for c in conditions):
        # Nothing can be said about the natural traces of these; mostly they are left out.
        keep = rng.uniform() < 0.2
        swapped = {"full matrix": "lap", "u_xx": "reaction"}
        names = {term.name: term for term in family.pool}
        chosen = [
            (term if keep else names[swapped.get(term.name, term.name)], c) for term, c in terms
        ]
        terms = tuple({term.name: (term, c) for term, c in chosen}.values())
    fits = any(term.fits for term, _ in terms)
    lower = [term.name for term, c in terms if not term.leading and c and term.name != "u_xx"]
    forcing = (None, pooled(rng, family, order > 0), "function")[rng.integers(3)]
    problem = Problem(
        family=family,
        order=order,
        terms=terms,
        conditions=conditions,
        periodic=periodic,
        forcing=None if forcing == 0 else forcing,
        start=drawn_value(rng, family),
        speed=drawn_value(rng, family),
        scheme=(None, "midpoint", "sdirk2", "backward-euler")[rng.integers(4)] if order else None,
        steps=int(rng.integers(2, 4)),
        end=float(rng.uniform(0.05, 0.2)),
        deformed=0 if fits or periodic else int(rng.integers(4)),
        deleted=drawn_leading(family, seed, order, terms, conditions)
        or (lower[rng.integers(len(lower))] if lower and rng.uniform() < 0.5 else None),
        seed=seed,
    )
    return replace(problem, conditions=drawn_laws(problem))


def drawn_laws(problem: Problem) -> tuple[Condition, ...]:
    """The conditions, now and then with the trace of the whole equation in the place of natural
    ones.
    """
    leading = [term.name for term, _ in problem.terms if term.leading]
    # Numbers of their own, so that everything else about a problem stays what it was.
    rng = np.random.default_rng([problem.seed, len(problem.terms), 5])
    if (
        problem.family.kind != "scalar"
        or not leading
        or problem.deleted in leading
        or rng.uniform() < 0.2
    ):
        return problem.conditions
    return tuple(
        c
        if c.kind == "essential"
        else replace(c, kind="law", coefficient=0 if isinstance(c.value, str) else c.coefficient)
        for c in problem.conditions
    )


def unknown_of(family: Family, name: str = "u") -> Any:
    """The field of a problem."""
    if family.kind in ("scalar", "discontinuous"):
        return cf.ScalarField(name)
    return cf.VectorField(name, dim=family.dimension)


def as_called(value: Any) -> Any:
    """SymPy data as a Python function of the points."""
    parts = [
        sp.lambdify(SPACE, part, "numpy")
        for part in (value if isinstance(value, tuple) else (value,))
    ]

    def called(points: np.ndarray) -> np.ndarray:
        rows = np.array([np.broadcast_to(f(*points), points.shape[1:]) for f in parts], dtype=float)
        return rows if isinstance(value, tuple) else rows[0]

    return called


def declared(
    problem: Problem, domain: Any, forcing: Any, flux: Any = None, hand: Any = None
) -> cf.Model:
    """cffem's model.

    Args:
        problem: what was drawn.
        domain: the mesh with its names.
        forcing: the DOLFINx function for forcing "function".
        flux: the DOLFINx function for natural data "function".
        hand: what forms by hand are written with.
    """
    family = problem.family
    u = unknown_of(family)
    terms = {term.name: term.symbols(u, family.dimension) for term, _ in problem.terms}
    anchor = problem.anchor(u)
    named = any(isinstance(term, sp.Basic) and term.has(STRENGTH) for term in terms.values())
    library = cf.Library(
        anchor=anchor,
        terms=terms,
        unknown=u,
        parameters={STRENGTH: STRENGTH_VALUE} if named else None,
    )
    boundary: list[Any] = [cf.Periodic(on="right", to="left")] if problem.periodic else []
    for c in problem.conditions:
        value = (
            flux
            if isinstance(c.value, str)
            else as_called(c.value)
            if c.called and c.value != 0
            else c.value
        )
        if c.kind == "essential":
            boundary.append(
                cf.Dirichlet(u if c.component is None else u[c.component], value, on=c.sides)
            )
        elif c.kind == "law":
            law = value if c.coefficient == 0 else value - c.coefficient * u
            boundary.append(cf.Natural(u, law, on=c.sides))
        elif c.kind == "neumann":
            boundary.append(cf.Neumann(u, value, on=c.sides))
        else:
            boundary.append(cf.Robin(u, value, on=c.sides, coefficient=c.coefficient))
    given = forcing if problem.forcing == "function" else problem.forcing
    initial = {u: problem.start} if problem.order else {}
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: family.element},
        initial=initial | ({cf.dt(u): problem.speed} if problem.order == 2 else {}),
        boundary=boundary,
        time=cf.Window(0, problem.end, steps=problem.steps, scheme=problem.scheme)
        if problem.order
        else None,
        forcing={} if given is None else {u: given},
        known=problem.known(domain, hand),
    )
    return cf.Model(library, {term.name: c for term, c in problem.terms}, experiment)
