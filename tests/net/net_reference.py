"""A problem with one unknown field by hand: its forms in plain UFL and its conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import basix.ufl
import numpy as np
import sympy as sp
import ufl
from dolfinx import default_scalar_type, fem
from net_dense import Dense, Part, T, X, Y, Z, compiled, numeric, rate_of
from net_periodic import identified
from net_released import kept_facets
from net_terms import STRENGTH_VALUE


def in_ufl(value: Any, h: Hand) -> Any:
    """Polynomial data as a UFL expression."""
    if isinstance(value, tuple):
        return ufl.as_vector([in_ufl(part, h) for part in value])
    coordinates = [*h.x, *[0.0] * (3 - h.dimension)]
    return sp.lambdify((X, Y, Z, T), sp.sympify(value), "math")(*coordinates, h.t)


class Hand:
    """What a form by hand is written with.

    Attributes:
        u, rate, v: the unknown, its rate and the test function.
        x, n, t, dx: coordinates, normal, time and the measure of cells.
        strength: the value of the named parameter.
    """

    def __init__(
        self, problem: Any, domain: Any, u: Any, rate: Any, v: Any, time: Any, strength: Any
    ):
        self.problem, self.domain = problem, domain
        shape = tuple(u.ufl_shape)
        self.flux = fem.Function(
            fem.functionspace(domain.mesh, ("Lagrange", 1, shape) if shape else ("Lagrange", 1))
        )
        self.flux.x.array[:] = np.random.default_rng(problem.seed + 2).normal(
            size=len(self.flux.x.array)
        )
        self.dimension = domain.mesh.geometry.dim
        self.u, self.rate, self.v = u, rate, v
        self.x, self.n = ufl.SpatialCoordinate(domain.mesh), ufl.FacetNormal(domain.mesh)
        self.t, self.strength = time, strength
        self.dx = ufl.Measure("dx", domain=domain.mesh)
        self._ds = ufl.Measure("ds", domain=domain.mesh, subdomain_data=domain.facet_tags)
        self._tags = {name: tag for name, (_, tag) in domain.names.items()}

    def ds(self, sides: tuple[str, ...]) -> Any:
        """The measure of some sides."""
        return self._ds(tuple(self._tags[name] for name in sides))

    def natural(
        self,
        integrand: Callable[[Any], Any],
        rate: bool = False,
        kinds: tuple[str, ...] = ("neumann", "robin"),
    ) -> Any:
        """∮ of a natural trace on the sides where a condition of these kinds says what it is."""
        total = 0
        for c in self.problem.conditions:
            if c.kind not in kinds:
                continue
            nothing = (0,) * self.dimension if self.u.ufl_shape else 0
            if isinstance(c.value, str):
                trace = in_ufl(nothing, self) if rate else self.flux
            else:
                value = nothing if c.value == 0 else c.value
                trace = in_ufl(rate_of(value) if rate else value, self)
            if c.kind == "robin" or (c.kind == "law" and c.coefficient != 0):
                trace = trace - in_ufl(c.coefficient, self) * (self.rate if rate else self.u)
            if self.u.ufl_shape or not isinstance(trace, int | float) or trace:
                total += integrand(trace) * self.ds(c.sides)
        return total

    def untouched(self, integrand: Any, factor: float = 1.0) -> Any:
        """∮ of a trace about which no condition can say anything, except in one dimension."""
        if self.dimension == 1:
            return self.natural(lambda g: factor * g * self.v)
        free = tuple(
            side
            for c in self.problem.conditions
            if c.kind in ("neumann", "robin")
            for side in c.sides
        )
        return integrand * self.ds(free) if free else 0


class Reference(Dense):
    """A problem by hand on a mesh.

    Args:
        problem: what was drawn.
        domain: the mesh with its names.
    """

    def __init__(self, problem: Any, domain: Any):
        self.problem, self.domain = problem, domain
        mesh, family = domain.mesh, problem.family
        shape = (family.dimension,) if family.kind == "vector" else None
        element = basix.ufl.element(
            *([family.element[0], family.cell, family.element[1]]), shape=shape
        )
        self.space = fem.functionspace(mesh, element)
        self.size = self.space.dofmap.index_map.size_local * self.space.dofmap.index_map_bs
        self.components = family.dimension if family.kind in ("vector", "curl", "div") else 0
        self.states = tuple(fem.Function(self.space) for _ in range(3))
        self.time = fem.Constant(mesh, default_scalar_type(0))
        strength = fem.Constant(mesh, default_scalar_type(STRENGTH_VALUE))
        self.test = ufl.TestFunction(self.space)
        self.hand = Hand(
            problem, domain, self.states[0], self.states[1], self.test, self.time, strength
        )
        self.force = fem.Function(self.space)
        self.force.x.array[:] = np.random.default_rng(problem.seed).normal(size=self.size)
        self.anchor = self._anchor()
        self.terms = {
            term.name: self._part(term.by_hand(self.hand), -c) for term, c in problem.terms
        }
        self.forcing = [*self._forcing(), *self._laws()]
        self.fixed, self._values = self._essential()

    def _part(self, form: Any, factor: float) -> Part:
        return Part(form, self.states, factor, self.time)

    def _anchor(self) -> list[Part]:
        order = self.problem.order
        if not order:
            return []
        return [self._part(ufl.inner(self.states[order], self.test) * self.hand.dx, 1.0)]

    def _laws(self) -> list[Part]:
        """The traces of the whole equation, which no coefficient multiplies."""
        form = self.hand.natural(lambda g: ufl.inner(g, self.test), kinds=("law",))
        return [] if form == 0 else [self._part(form, -1.0)]

    def _forcing(self) -> list[Part]:
        given = self.problem.forcing
        if given is None:
            return []
        value = self.force if given == "function" else in_ufl(given, self.hand)
        return [self._part(ufl.inner(value, self.test) * self.hand.dx, -1.0)]

    # Conditions -------------------------------------------------------------------------------

    def interpolated(self, value: Any, time: float = 0.0) -> np.ndarray:
        """The unknowns of data."""
        function = fem.Function(self.space)
        evaluate = numeric(0 if value is None else value, self.components)
        function.interpolate(lambda points: evaluate(points, time))
        return function.x.array.copy()

    def solve(self, without: str | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """States and velocities; a deleted problem keeps the essential values that its
        equation can carry.
        """
        self.fixed, self._values = self._essential(without)
        self.__dict__.pop("folding", None)
        return super().solve(without)

    def _essential(
        self, without: str | None = None
    ) -> tuple[np.ndarray, list[tuple[np.ndarray, Any]]]:
        mesh, found = self.domain.mesh, []
        mesh.topology.create_connectivity(mesh.topology.dim - 1, mesh.topology.dim)
        for c in self.problem.conditions:
            if c.kind == "essential":
                where = kept_facets(self.problem, self.domain, without or "", c)
                blocks = fem.locate_dofs_topological(self.space, mesh.topology.dim - 1, where)
                size = self.space.dofmap.index_map_bs
                chosen = np.arange(size) if c.component is None else np.array([c.component])
                value = c.value if c.component is None else (c.value,) * self.components
                found.append(((blocks[:, None] * size + chosen).ravel(), value))
        fixed = (
            np.unique(np.concatenate([dofs for dofs, _ in found]))
            if found
            else np.array([], dtype=int)
        )
        return fixed.astype(int), found

    def given(self, time: float, rate: bool = False) -> np.ndarray:
        """All unknowns, those with essential conditions having their values, or rates."""
        result = np.zeros(self.size)
        for dofs, value in self._values:
            result[dofs] = self.interpolated(rate_of(value) if rate else value, time)[dofs]
        return result

    @cached_property
    def _identified(self) -> tuple[np.ndarray, np.ndarray]:
        if self.problem.periodic:
            return identified(self.space, self.problem.family.kind)
        return np.eye(self.size), np.arange(self.size)

    @property
    def admitted(self) -> np.ndarray:
        """The matrix that makes all unknowns of those that are not identified with others."""
        return self._identified[0]

    @property
    def _free(self) -> np.ndarray:
        """Which columns of `admitted` belong to unknowns without essential conditions."""
        return np.asarray(~self.admitted[self.fixed].any(axis=0))

    @cached_property
    def folding(self) -> np.ndarray:
        """These columns."""
        return self.admitted[:, self._free]

    def parts(self) -> list[Part]:
        """All summands but the deleted one."""
        return [
            *self.anchor,
            *self.forcing,
            *(p for n, p in self.terms.items() if n != self.without),
        ]

    @cached_property
    def mass(self) -> np.ndarray:
        """The matrix of the L2 norm."""
        trial = ufl.TrialFunction(self.space)
        return fem.assemble_matrix(compiled(ufl.inner(trial, self.test) * self.hand.dx)).to_dense()

    def start(self, rate: bool = False) -> np.ndarray:
        """Initial values with those of the boundary in their places, identified unknowns alike."""
        result = self.interpolated(self.problem.speed if rate else self.problem.start)
        if self.problem.periodic:
            result = self.folding @ result[self._identified[1][self._free]]
        result[self.fixed] = self.given(0.0, rate)[self.fixed]
        return result
