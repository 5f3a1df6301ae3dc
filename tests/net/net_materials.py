"""Random problems with materials: known fields that jump from cell to cell, weights of the time
derivative, and terms that act in a subdomain, on a side or on a surface inside.

Every second cell is glass and the others are air, which no formula knows; some facets between cells
are the surface "skin". The rest of a problem is drawn as in `net_problems`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import ufl
from dolfinx import fem, mesh
from net_problems import Family, Problem, drawn
from net_reference import Reference
from net_terms import Term, diffusion_by_hand, turning_by_hand

import cffem as cf
from cffem import curl, div, dot, grad, lap, on, t, x

K, RHO = cf.Known("k"), cf.Known("rho")
GLASS, AIR = 2.25, 1.0


def flow(dimension: int) -> cf.Known:
    """A known velocity."""
    return cf.Known("w", dim=dimension)


def tensor(dimension: int) -> cf.Known:
    """A known tensor."""
    return cf.Known("T", dim=(dimension, dimension))


def matrices(dimension: int) -> dict[str, tuple[tuple[float, ...], ...]]:
    """The tensors of glass and air."""
    rows = range(dimension)
    return {
        "glass": tuple(tuple(2.0 if i == j else 0.5 for j in rows) for i in rows),
        "air": tuple(tuple(1.0 + i if i == j else 0.0 for j in rows) for i in rows),
    }


VELOCITIES = {"glass": (1.0, 0.5, -0.5), "air": (0.0, 2.0, 1.0)}


def patched(problem: Problem) -> Any:
    """The mesh of a problem with its subdomains and its surface."""
    domain = super(MaterialProblem, problem).mesh()
    topology, dim = domain.mesh.topology, domain.mesh.topology.dim
    cells = np.arange(topology.index_map(dim).size_local, dtype=np.int32)
    cell_tags = mesh.meshtags(domain.mesh, dim, cells, (1 + cells % 2).astype(np.int32))
    topology.create_connectivity(dim - 1, dim)
    links = topology.connectivity(dim - 1, dim)
    facets = np.arange(topology.index_map(dim - 1).size_local, dtype=np.int32)
    inside = np.array([f for f in facets if len(links.links(f)) == 2], dtype=np.int32)[::2]
    skin = max(tag for _, tag in domain.names.values()) + 1
    index = np.concatenate([domain.facet_tags.indices, inside])
    value = np.concatenate([domain.facet_tags.values, np.full(len(inside), skin, dtype=np.int32)])
    order = np.argsort(index)
    return replace(
        domain,
        cell_tags=cell_tags,
        facet_tags=mesh.meshtags(domain.mesh, dim - 1, index[order], value[order]),
        names={**domain.names, "glass": (dim, 1), "air": (dim, 2), "skin": (dim - 1, skin)},
    )


# By hand
# --------------------------------------------------------------------------------------------------


def by_cells(h: Any, glass: Any, air: Any) -> fem.Function:
    """A function with one value in glass and another in air."""
    shape = np.shape(glass)
    tags = h.domain.cell_tags
    space = fem.functionspace(h.domain.mesh, ("DG", 0, shape) if shape else ("DG", 0))
    function = fem.Function(space)
    values = np.where((tags.values == 1)[:, None], np.ravel(glass)[None, :], np.ravel(air)[None, :])
    size = values.shape[1]
    for cell, row in zip(tags.indices, values, strict=True):
        first = space.dofmap.list[cell][0] * size
        function.x.array[first : first + size] = row
    return function


def k_of(h: Any) -> fem.Function:
    return by_cells(h, GLASS, AIR)


def w_of(h: Any) -> fem.Function:
    d = h.dimension
    return by_cells(h, VELOCITIES["glass"][:d], VELOCITIES["air"][:d])


def tensor_of(h: Any) -> fem.Function:
    given = matrices(h.dimension)
    return by_cells(h, given["glass"], given["air"])


def free_sides(h: Any) -> tuple[str, ...]:
    """Sides where a trace stays: not where the value, or the whole natural trace, is given."""
    given = ("essential", "law")
    return tuple(s for c in h.problem.conditions if c.kind not in given for s in c.sides)


def conserved_by_hand(h: Any) -> Any:
    w, free = w_of(h), free_sides(h)
    volume = -h.u * ufl.dot(w, ufl.grad(h.v)) * h.dx
    return volume + (h.u * ufl.dot(w, h.n) * h.v * h.ds(free) if free else 0)


def tensor_by_hand(h: Any) -> Any:
    flux = ufl.dot(tensor_of(h), ufl.grad(h.u))
    return -ufl.inner(flux, ufl.grad(h.v)) * h.dx


def glass_of(h: Any) -> Any:
    return ufl.Measure("dx", domain=h.domain.mesh, subdomain_data=h.domain.cell_tags)(1)


def skin_of(h: Any) -> Any:
    measure = ufl.Measure("dS", domain=h.domain.mesh, subdomain_data=h.domain.facet_tags)
    return measure(h.domain.names["skin"][1])


def both_sides(integrand: Any) -> Any:
    return ufl.avg(integrand)


def along(h: Any, value: Any) -> Any:
    return value - ufl.dot(value, h.n) * h.n


SIDE = "right"


SCALAR = [
    Term("k u", lambda u, d: K * u, lambda h: k_of(h) * h.u * h.v * h.dx),
    Term("k source", lambda u, d: K * (1 + x), lambda h: k_of(h) * (1 + h.x[0]) * h.v * h.dx),
    Term(
        "drift",
        lambda u, d: dot(flow(d), grad(u)) if d > 1 else flow(1)[0] * u.diff(x),
        lambda h: ufl.dot(w_of(h), ufl.grad(h.u)) * h.v * h.dx,
    ),
    Term(
        "entry",
        lambda u, d: tensor(d)[0, d - 1] * u,
        lambda h: tensor_of(h)[0, h.dimension - 1] * h.u * h.v * h.dx,
    ),
    Term(
        "growing",
        lambda u, d: (1 + t) * K * u,
        lambda h: (1 + h.t) * k_of(h) * h.u * h.v * h.dx,
        needs=1,
    ),
    Term("in glass", lambda u, d: on("glass", -x * u), lambda h: -h.x[0] * h.u * h.v * glass_of(h)),
    Term(
        "slope in glass",
        lambda u, d: on("glass", K * u.diff(x)),
        lambda h: k_of(h) * h.u.dx(0) * h.v * glass_of(h),
    ),
    Term(
        "on a side",
        lambda u, d: on(SIDE, -(2 + x) * u),
        lambda h: -(2 + h.x[0]) * h.u * h.v * h.ds((SIDE,)),
    ),
    Term(
        "k on a side", lambda u, d: on(SIDE, K * u), lambda h: k_of(h) * h.u * h.v * h.ds((SIDE,))
    ),
    Term(
        "on the skin",
        lambda u, d: on("skin", -(1 + x) * u),
        lambda h: both_sides(-(1 + h.x[0]) * h.u * h.v) * skin_of(h),
    ),
    Term(
        "k on the skin",
        lambda u, d: on("skin", -K * u),
        lambda h: both_sides(-k_of(h) * h.u * h.v) * skin_of(h),
    ),
    Term(
        "div k grad",
        lambda u, d: div(K * grad(u)),
        lambda h: diffusion_by_hand(h, k_of(h)),
        leading=True,
    ),
    Term(
        "lap and lap in glass",
        lambda u, d: lap(u) + on("glass", lap(u)),
        lambda h: diffusion_by_hand(h, by_cells(h, 2.0, 1.0)),
        leading=True,
    ),
    Term(
        "k square", lambda u, d: -K * u**2, lambda h: -k_of(h) * h.u**2 * h.v * h.dx, nonlinear=True
    ),
    Term(
        "radiation",
        lambda u, d: on(SIDE, -(u**3)),
        lambda h: -(h.u**3) * h.v * h.ds((SIDE,)),
        nonlinear=True,
    ),
    Term("damping", lambda u, d: -K * cf.dt(u), lambda h: -k_of(h) * h.rate * h.v * h.dx, needs=2),
    Term("reaction", lambda u, d: u, lambda h: h.u * h.v * h.dx),
]
PLANE = [
    Term("conserved", lambda u, d: div(flow(d) * u), conserved_by_hand),
    Term("div T grad", lambda u, d: div(dot(tensor(d), grad(u))), tensor_by_hand, leading=True),
]
COMMON = [
    Term("reaction", lambda v, d: v, lambda h: ufl.inner(h.u, h.v) * h.dx),
    Term("k v", lambda v, d: K * v, lambda h: k_of(h) * ufl.inner(h.u, h.v) * h.dx),
    Term(
        "T v",
        lambda v, d: dot(tensor(d), v),
        lambda h: ufl.inner(ufl.dot(tensor_of(h), h.u), h.v) * h.dx,
    ),
    Term("w", lambda v, d: flow(d), lambda h: ufl.inner(w_of(h), h.v) * h.dx),
    Term("in glass", lambda v, d: on("glass", -v), lambda h: -ufl.inner(h.u, h.v) * glass_of(h)),
    Term(
        "slip",
        lambda v, d: on(SIDE, -K * (v - dot(v, cf.n) * cf.n)),
        lambda h: -k_of(h) * ufl.inner(along(h, h.u), h.v) * h.ds((SIDE,)),
    ),
    Term(
        "friction",
        lambda v, d: -K * cf.norm2(v) * v,
        lambda h: -k_of(h) * ufl.inner(h.u, h.u) * ufl.inner(h.u, h.v) * h.dx,
        nonlinear=True,
    ),
]
CURL = [
    *COMMON,
    Term(
        "curl k curl",
        lambda v, d: -curl(K * curl(v)),
        lambda h: turning_by_hand(h, k_of(h)),
        leading=True,
    ),
]
VECTOR = [
    *COMMON,
    Term(
        "carried",
        lambda v, d: dot(grad(v), flow(d)),
        lambda h: ufl.inner(ufl.dot(ufl.grad(h.u), w_of(h)), h.v) * h.dx,
    ),
    Term(
        "lap",
        lambda v, d: lap(v),
        lambda h: (
            -ufl.inner(ufl.grad(h.u), ufl.grad(h.v)) * h.dx + h.natural(lambda g: ufl.inner(g, h.v))
        ),
        leading=True,
    ),
]

# Weights of the time derivative: for cffem, from the rate and the dimension, and by hand.
WEIGHTS = {
    "one": (lambda r, d: r, lambda h, r: r),
    "number": (lambda r, d: 2 * r, lambda h, r: 2 * r),
    "known": (lambda r, d: RHO * r, lambda h, r: by_cells(h, 3.0, 0.5) * r),
    "formula": (lambda r, d: (2 + x) * r, lambda h, r: (2 + h.x[0]) * r),
    "in time": (lambda r, d: (1 + t) * RHO * r, lambda h, r: (1 + h.t) * by_cells(h, 3.0, 0.5) * r),
    "tensor": (lambda r, d: dot(tensor(d), r), lambda h, r: ufl.dot(tensor_of(h), r)),
}


@dataclass(frozen=True)
class MaterialFamily(Family):
    """Problems with materials."""

    @property
    def pool(self) -> list[Term]:
        """The terms that make sense on this element."""
        scalar = [*SCALAR, *(PLANE if self.dimension > 1 else [])]
        return {"scalar": scalar, "curl": CURL, "vector": VECTOR}[self.kind]

    def __str__(self) -> str:
        return f"materials, {super().__str__()}"


@dataclass(frozen=True)
class MaterialProblem(Problem):
    """A problem with a weight and a way in which its known fields are given."""

    weight: str = "one"
    way: str = "names"

    def mesh(self) -> Any:
        """The mesh with its subdomains."""
        return patched(self)

    def anchor(self, u: Any) -> Any:
        """The weighted time derivative."""
        if not self.order:
            return None
        return WEIGHTS[self.weight][0](u.diff(t, self.order), self.family.dimension)

    def known(self, domain: Any, hand: Any) -> dict[Any, Any]:
        """The values of all known fields."""
        d = self.family.dimension
        given: dict[Any, Any] = {
            K: {"glass": GLASS, "air": AIR},
            RHO: {"glass": 3, "air": 0.5},
            flow(d): {name: value[:d] for name, value in VELOCITIES.items()},
            tensor(d): matrices(d),
        }
        if self.way == "tags":
            return {
                key: (domain.cell_tags, {1: v["glass"], 2: v["air"]}) for key, v in given.items()
            }
        if self.way == "functions":
            made = {K: k_of(hand), RHO: by_cells(hand, 3.0, 0.5), flow(d): w_of(hand)}
            return {**given, **made, tensor(d): tensor_of(hand)}
        if self.way == "formulas":
            return {**given, K: {"glass": GLASS + 0 * x, "air": AIR + (x - x) * t}}
        return given

    def __str__(self) -> str:
        return f"{super().__str__()}; weight {self.weight}, by {self.way}"


class MaterialReference(Reference):
    """The same by hand."""

    def _anchor(self) -> list[Any]:
        order = self.problem.order
        if not order:
            return []
        rate = WEIGHTS[self.problem.weight][1](self.hand, self.states[order])
        return [self._part(ufl.inner(rate, self.test) * self.hand.dx, 1.0)]


def drawn_material(family: MaterialFamily, seed: int) -> MaterialProblem:
    """The problem of a seed."""
    plain = drawn(family, seed)
    rng = np.random.default_rng([seed, 7])
    weights = [w for w in WEIGHTS if w != "tensor" or family.kind != "scalar"]
    if plain.order == 2:
        weights.remove("in time")
    leading = {term.name for term, _ in plain.terms if term.leading}
    lower = [term.name for term, _ in plain.terms if term.name not in leading]
    return MaterialProblem(
        **{
            **plain.__dict__,
            "deleted": lower[int(rng.integers(len(lower)))] if lower else None,
            "weight": str(rng.choice(weights)) if plain.order else "one",
            "way": str(rng.choice(["names", "names", "tags", "functions", "formulas"])),
        }
    )
