"""Random problems with several unknowns: flows with a pressure, coupled scalars, Darcy's law,
fields without divergence.

As for one unknown, each term is written twice; a `Coupled` problem holds both, its data and its
conditions.
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
from net_meshes import sides
from scipy.linalg import null_space

import cffem as cf

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
        by_hand: the form from (values by field, tests by field, measures); an anchor or constraint
            has no symbols.
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
        return max(
            {"rate": 1, "acceleration": 2}.get(str(kind), 0) for kind in self.anchors.values()
        )

    def __str__(self) -> str:
        terms = " + ".join(f"{e.coefficient:.3g} {e.of}/{e.name}" for e in self.entries)
        said = [f"{f} = {value} on {'+'.join(on)}" for f, value, on in self.given]
        return (
            f"{self.name} (seed {self.seed}, {self.scheme}): {terms}; {said} "
            f"{[*map(str, self.natural)]} {self.forcing}"
        )

    def model(self, domain: Any) -> Any:
        """cffem's model."""
        libraries = {}
        for unknown, kind in self.anchors.items():
            terms = {e.name: e.symbols for e in self.entries if e.of == unknown}
            anchors = {
                None: None,
                "value": unknown,
                "rate": cf.dt(unknown),
                "acceleration": cf.dt(cf.dt(unknown)),
            }
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
            time=cf.Window(0, self.end, steps=self.steps, scheme=self.scheme)
            if self.order
            else None,
        )
        coefficients = {
            e.name if alone else f"{e.of}/{e.name}": e.coefficient for e in self.entries
        }
        return cf.Model(
            next(iter(libraries.values())) if alone else cf.System(libraries),
            coefficients,
            experiment,
        )


class Values:
    """What forms by hand are written with: values, rates and tests by field, coordinates,
    normal and measures.
    """

    def __init__(self, domain: Any, split: list[dict], tests: dict, time: Any):
        self.values, self.rates, self.accelerations = split
        self.tests, self.t = tests, time
        self.x, self.n = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
        self.dx = ufl.Measure("dx", domain=domain.mesh)
        self._ds = ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)
        self._names, self.mesh = domain.names, domain.mesh

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
        self.equation = {
            (e.of, e.name): self._part(e.by_hand(self.hand), -e.coefficient)
            for e in problem.entries
        }
        self.others = [self._part(form, 1.0) for form in self._other_forms()]
        self._given = [
            (self._positions(f, on), f, value)
            for f, value, on in problem.given
            if not self._weak(f)
        ]
        zeros = [self._positions(f, sides(2)) for f in problem.zeros]
        every = [*(dofs for dofs, _, _ in self._given), *zeros]
        self.fixed = (
            np.unique(np.concatenate(every)).astype(int) if every else np.array([], dtype=int)
        )
        still = [
            self.where[f]
            for f in self.fields
            if problem.anchors.get(f) not in ("rate", "acceleration")
        ]
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
                value = (
                    ufl.as_vector([in_space(c, h) for c in value])
                    if f.shape
                    else in_space(value, h)
                )
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
            places[(mine[:, None] * own.index_map_bs + np.arange(own.index_map_bs)).ravel()] = (
                unrolled
            )
        return places

    def _positions(self, target: Any, on: tuple[str, ...]) -> np.ndarray:
        unknown = getattr(target, "field", target)
        own, facet = self.own[unknown], self.domain.mesh.topology.dim - 1
        self.domain.mesh.topology.create_connectivity(facet, facet + 1)
        facets = np.concatenate(
            [self.domain.facet_tags.find(self.domain.names[name][1]) for name in on]
        )
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
        means = fem.assemble_vector(
            compiled(self.hand.tests[self.problem.floating] * self.hand.dx)
        ).array
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
        given = {
            f: self.problem.start[key] for f, key in fields.items() if key in self.problem.start
        }
        state = sum(
            (self.interpolated(f, value, 0.0) for f, value in given.items()), np.zeros(self.size)
        )
        held = self.fixed[self.second_order[self.fixed]] if rate else self.fixed
        state[held] = self.given(0.0, rate)[held]
        if self.problem.constraint is not None:
            return self._projected(state)
        if rate:
            return state
        return state if self.algebraic is None else self._consistent(state, self.start(rate=True))

    def _consistent(self, state: np.ndarray, speed: np.ndarray) -> np.ndarray:
        """The algebraic unknowns that obey their equations at the start, rates of the others
        being those of theirs.
        """
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
            matrix = (
                fold.T
                @ self.jacobian((1.0 * still, 1.0 * first, 1.0 * second), states(found), 0.0)
                @ fold
            )
            found = found - fold @ np.linalg.solve(
                matrix, fold.T @ self.residual(states(found), 0.0)
            )
        return np.where(still, found, state)

    def _projected(self, state: np.ndarray) -> np.ndarray:
        """The nearest state in L2 that obeys the constraint: the saddle point of mass and
        constraint.
        """
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
