"""Random expressions read twice: by cffem's operators, and by an independent vector calculus on
explicit polynomials.

A *recipe* is a nested tuple such as ("div", ("mul", ("u",), ("E",))). `build` makes the cffem
expression, `reference` the list of component functions, written here from the textbook definitions
without any code of cffem.
"""

from __future__ import annotations

import itertools

import sympy as sp
from hypothesis import strategies as st

import cffem.symbols as cf
from cffem.symbols import x, y, z

SPACE = (x, y, z)
SCALARS, VECTORS = ("u", "v"), ("E", "B")
Recipe = tuple


def fields(dim: int) -> dict[str, cf.ScalarField | cf.VectorField]:
    """The fields of the recipes."""
    return {name: cf.ScalarField(name, dim=dim) for name in SCALARS} | {
        name: cf.VectorField(name, dim=dim) for name in VECTORS
    }


def recipes(dim: int, rank: int, depth: int) -> st.SearchStrategy[Recipe]:
    """Strategy for recipes of a given rank (0 scalar, 1 vector, 2 tensor) with at most this
    many nested operators.
    """
    if depth == 0:
        return st.sampled_from([(name,) for name in ((*SCALARS, "x", "two"), VECTORS)[rank]])
    below = {r: recipes(dim, r, depth - 1) for r in (0, 1)}
    tensor = recipes(dim, 2, depth - 1) if depth > 1 else None
    pairs = lambda word, a, b: st.tuples(st.just(word), a, b)  # noqa: E731
    single = lambda word, a: st.tuples(st.just(word), a)  # noqa: E731
    if rank == 0:
        options = [
            below[0],
            pairs("add", below[0], below[0]),
            pairs("mul", below[0], below[0]),
            single("square", below[0]),
            single("sin", below[0]),
            single("lap", below[0]),
            single("div", below[1]),
            single("dx", below[0]),
            pairs("dot", below[1], below[1]),
            single("first", below[1]),
        ]
        options += (
            [single("curl", below[1]), pairs("cross", below[1], below[1])] if dim == 2 else []
        )
        options += (
            [pairs("inner", tensor, tensor), single("trace", tensor)] if tensor is not None else []
        )
    elif rank == 1:
        options = [
            below[1],
            pairs("add", below[1], below[1]),
            pairs("mul", below[0], below[1]),
            single("grad", below[0]),
            single("lap", below[1]),
            single("dx", below[1]),
        ]
        options += (
            [single("curl", below[1]), pairs("cross", below[1], below[1])] if dim == 3 else []
        )
        options += [single("curl", below[0])] if dim == 2 else []
        options += (
            [single("div", tensor), pairs("dot", tensor, below[1])] if tensor is not None else []
        )
    else:
        options = [single("grad", below[1]), pairs("outer", below[1], below[1])]
        options += (
            [single("transpose", tensor), single("sym", tensor), pairs("mul", below[0], tensor)]
            if tensor is not None
            else []
        )
    return st.one_of(options)


def build(recipe: Recipe, dim: int, evaluate: bool = True) -> sp.Expr:
    """The recipe in cffem's words."""
    head, *rest = recipe
    if head in SCALARS + VECTORS:
        return fields(dim)[head]
    if head in ("x", "two"):
        return {"x": x, "two": sp.Integer(2)}[head]
    args = [build(r, dim, evaluate) for r in rest]
    if head in ("grad", "div", "curl", "lap"):
        return getattr(cf, head)(*args, evaluate=evaluate)
    plain = {
        "add": lambda a, b: a + b,
        "mul": lambda a, b: a * b,
        "square": lambda a: a**2,
        "sin": sp.sin,
        "dx": lambda a: a.diff(x),
        "first": lambda a: cf.component(a, 0),
    }
    return (plain.get(head) or getattr(cf, head))(*args)


def reference(recipe: Recipe, dim: int, values: dict[str, tuple[sp.Expr, ...]]) -> list[sp.Expr]:
    """The components of the recipe on given functions, by the definitions."""
    head, *rest = recipe
    if head in values:
        return list(values[head])
    if head in ("x", "two"):
        return [{"x": x, "two": sp.Integer(2)}[head]]
    a, *others = (reference(r, dim, values) for r in rest)
    b = others[0] if others else []
    return _DEFINITIONS[head](a, b, dim, range(dim))


def _curl(a, dim):
    if len(a) == 1:
        return [a[0].diff(y), -a[0].diff(x)]
    if dim == 2:
        return [a[1].diff(x) - a[0].diff(y)]
    return [_antisymmetric(i, lambda j, k: a[k].diff(SPACE[j])) for i in range(3)]


def _antisymmetric(i, entry):
    return sum(
        sp.LeviCivita(i, j, k) * entry(j, k) for j, k in itertools.product(range(3), repeat=2)
    )


def _cross(a, b, dim):
    return (
        [a[0] * b[1] - a[1] * b[0]]
        if dim == 2
        else [_antisymmetric(i, lambda j, k: a[j] * b[k]) for i in range(3)]
    )


_DEFINITIONS = {
    "add": lambda a, b, d, r: [p + q for p, q in zip(a, b, strict=True)],
    "mul": lambda a, b, d, r: [a[0] * q for q in b],
    "square": lambda a, b, d, r: [a[0] ** 2],
    "sin": lambda a, b, d, r: [sp.sin(a[0])],
    "dx": lambda a, b, d, r: [p.diff(x) for p in a],
    "first": lambda a, b, d, r: [a[0]],
    "grad": lambda a, b, d, r: [p.diff(SPACE[j]) for p in a for j in r],
    "div": lambda a, b, d, r: [
        sum(a[i + j].diff(SPACE[j]) for j in r) for i in range(0, len(a), d)
    ],
    "lap": lambda a, b, d, r: [sum(p.diff(SPACE[j], 2) for j in r) for p in a],
    "curl": lambda a, b, d, r: _curl(a, d),
    "cross": lambda a, b, d, r: _cross(a, b, d),
    "dot": lambda a, b, d, r: [sum(a[i + j] * b[j] for j in r) for i in range(0, len(a), d)],
    "inner": lambda a, b, d, r: [sum(p * q for p, q in zip(a, b, strict=True))],
    "outer": lambda a, b, d, r: [p * q for p in a for q in b],
    "trace": lambda a, b, d, r: [sum(a[i * d + i] for i in r)],
    "transpose": lambda a, b, d, r: [a[j * d + i] for i in r for j in r],
    "sym": lambda a, b, d, r: [(a[i * d + j] + a[j * d + i]) / 2 for i in r for j in r],
}


def polynomials(dim: int) -> dict[str, tuple[sp.Expr, ...]]:
    """Fixed polynomials in general position, one per scalar and per component."""
    coordinates = SPACE[:dim]
    monomials = [m for m in itertools.product(range(4), repeat=dim) if 0 < sum(m) <= 3]

    def polynomial(seed: int) -> sp.Expr:
        chosen = [monomials[(seed * 7 + 5 * k) % len(monomials)] for k in range(3)]
        powers = (sp.Mul(*(s**e for s, e in zip(coordinates, m, strict=True))) for m in chosen)
        return sp.Add(
            *((-1) ** k * (seed + k + 1) * p / 3 for k, p in enumerate(powers))
        ) + sp.Rational(seed, 5)

    values = {name: (polynomial(i + 1),) for i, name in enumerate(SCALARS)}
    for i, name in enumerate(VECTORS):
        values[name] = tuple(polynomial(3 + i * dim + k) for k in range(dim))
    return values


def field_values(dim: int) -> dict[sp.Expr, object]:
    """The polynomials as values of the fields."""
    known = fields(dim)
    return {
        known[name]: value if name in VECTORS else value[0]
        for name, value in polynomials(dim).items()
    }


POINT = {x: sp.Rational(3, 7), y: sp.Rational(-2, 5), z: sp.Rational(5, 11)}


def numbers(entries: list[sp.Expr]) -> list[sp.Float]:
    """The entries at a fixed point, to thirty digits."""
    return [sp.N(sp.sympify(entry).subs(POINT), 30) for entry in entries]


def assert_same(first, second) -> None:
    """Two lists of functions agree at the point to twenty digits."""
    left, right = numbers(list(first)), numbers(list(second))
    assert len(left) == len(right)
    for p, q in zip(left, right, strict=True):
        assert abs(p - q) <= sp.Float("1e-20", 30) * (1 + abs(p) + abs(q)), (p, q)
