# SPDX-License-Identifier: MIT
"""What a term is like: its normal form in components, its derivative order, how it depends on the
fields, and whether it is a multiple of another.

Values of a field and of its derivatives at a point can be chosen freely and independently, so every
question here is one about an ordinary function of finitely many independent variables: the *jet* of
the fields. Questions of equality are first put to random numbers, which settle nearly all of them
with a no, and a yes is believed only when SymPy proves it.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from functools import lru_cache

import sympy as sp
from sympy.core.sorting import default_sort_key

from cffem.symbols.algebra.components import Entries, to_components
from cffem.symbols.algebra.tensor_nodes import Inverse
from cffem.symbols.coordinates import Parameter, t
from cffem.symbols.fields import Component, Field, ScalarField
from cffem.symbols.known import Known, KnownEntry

# What holds for every dimension holds in three, so terms whose dimension is not known yet are
# written out there.
GENERIC_DIMENSION = 3
# Points at which two terms are compared numerically.
SAMPLES = 3


@lru_cache(maxsize=4096)
def canonical(expr: sp.Expr, dim: int | None) -> Entries:
    """The expanded components of an expression; in 3D where the dimension is not known.

    What contains an inverse tensor is not expanded: its quotients have no normal form there, and
    thousands of summands.
    """
    entries = to_components(expr, dim or GENERIC_DIMENSION)
    return entries if expr.has(Inverse) else tuple(sp.expand(entry) for entry in entries)


def jet(entries: Iterable[sp.Expr], fields: Collection[Field] | None = None) -> list[sp.Expr]:
    """The values and derivatives of the given fields (default: all) that occur in component
    expressions, in a fixed order.
    """
    found: set[sp.Expr] = set()

    def visit(node: sp.Basic) -> None:
        if isinstance(node, sp.Derivative | ScalarField | Component):
            given = node.has(Known) and not node.has(Field)
            if not given if fields is None else node.atoms(Field) & {*fields}:
                found.add(node)
        else:
            for arg in node.args:
                visit(arg)

    for entry in entries:
        visit(entry)
    return sorted(found, key=default_sort_key)


def given(entries: Iterable[sp.Expr]) -> list[sp.Expr]:
    """The values and derivatives of known fields in component expressions, in a fixed order."""
    found: set[sp.Expr] = set()

    def visit(node: sp.Basic) -> None:
        if isinstance(node, sp.Derivative | Known | KnownEntry):
            if node.has(Known) and not node.has(Field):
                found.add(node)
        else:
            for arg in node.args:
                visit(arg)

    for entry in entries:
        visit(entry)
    return sorted(found, key=default_sort_key)


def orders(expr: sp.Expr, dim: int | None = None) -> tuple[int, int]:
    """The highest order of derivatives of fields in space and in time.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.analysis import orders
        >>> orders(cf.dt(cf.lap(cf.ScalarField("u"))))
        (2, 1)
    """
    space = time = 0
    for derivative in jet(canonical(expr, dim)):
        if isinstance(derivative, sp.Derivative):
            counts = dict(derivative.variable_count)
            in_time = int(counts.get(t, 0))
            time = max(time, in_time)
            space = max(space, int(sum(counts.values())) - in_time)
    return space, time


def dependence(expr: sp.Expr, fields: Collection[Field], dim: int | None = None) -> str:
    """How an expression depends on the given fields together.

    Returns:
        "constant" if none of them occurs, "linear", "affine" (linear plus something that does not
        vanish with the fields), or "nonlinear".

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.analysis import dependence
        >>> u = cf.ScalarField("u")
        >>> [dependence(e, [u]) for e in (cf.x + 0*u, cf.x*cf.lap(u), cf.x - u, u*u.diff(cf.x))]
        ['constant', 'linear', 'affine', 'nonlinear']
    """
    entries = canonical(expr, dim)
    dummies = {value: sp.Dummy(real=True) for value in jet(entries, fields)}
    if not dummies:
        return "constant"
    plain = [entry.xreplace(dummies) for entry in entries]
    unknown = set(dummies.values())
    for entry in plain:
        for dummy in unknown & entry.free_symbols:
            slope = sp.expand(entry.diff(dummy))
            if slope.free_symbols & unknown and (
                _varies(slope, unknown) or sp.simplify(slope).free_symbols & unknown
            ):
                return "nonlinear"
    at_zero = [entry.xreplace(dict.fromkeys(unknown, sp.S.Zero)) for entry in plain]
    return "linear" if all(sp.expand(value) == 0 for value in at_zero) else "affine"


def _varies(slope: sp.Expr, unknown: set[sp.Dummy]) -> bool:
    """Whether random numbers show that a slope changes with the unknown; where they do not,
    it takes a proof.
    """
    others = {
        s: sp.Float(_random_value(s, 0))
        for s in slope.atoms(sp.Symbol, ScalarField, Component, sp.Derivative, Known, KnownEntry)
        - unknown
    }
    values = []
    for sample in range(2):
        generator = random.Random(sample)
        rule = {
            s: sp.Float(generator.uniform(0.4, 1.6)) for s in sorted(unknown, key=default_sort_key)
        }
        values.append(sp.N(slope.xreplace({**others, **rule})))
    return all(v.is_Float or v.is_Integer for v in values) and abs(values[0] - values[1]) > 1e-9 * (
        1 + abs(values[0])
    )


def is_zero(expr: sp.Expr, dim: int | None = None) -> bool:
    """Whether an expression vanishes for all fields."""
    entries = canonical(expr, dim)
    if all(entry == 0 for entry in entries):
        return True
    sample = fingerprint(entries)
    if sample is not None and any(abs(value) > 1e-9 for value in sample):
        return False
    return all(sp.simplify(entry) == 0 for entry in entries)


def ratio(a: sp.Expr, b: sp.Expr, dim: int | None = None) -> sp.Expr | None:
    """The constant c with b = c·a for all fields, or None. Parameters are constants.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols.algebra.analysis import ratio
        >>> E = cf.VectorField("E", dim=3)
        >>> ratio(cf.curl(cf.curl(E)), 2*cf.lap(E) - 2*cf.grad(cf.div(E)), 3)
        -2
    """
    first, second = canonical(a, dim), canonical(b, dim)
    if len(first) != len(second) or [e == 0 for e in first] != [e == 0 for e in second]:
        return None
    if not _looks_proportional(fingerprint(first), fingerprint(second)):
        return None
    k = next(i for i, entry in enumerate(first) if entry != 0)
    quotient = sp.cancel(sp.together(second[k] / first[k]))
    if any(not isinstance(symbol, Parameter) for symbol in quotient.free_symbols):
        quotient = sp.simplify(quotient)
    if any(not isinstance(symbol, Parameter) for symbol in quotient.free_symbols):
        return None
    same = all(
        sp.simplify(sp.expand(q - quotient * p)) == 0 for p, q in zip(first, second, strict=True)
    )
    return quotient if same else None


def _looks_proportional(a: tuple[float, ...] | None, b: tuple[float, ...] | None) -> bool:
    """Whether two rows of numbers are parallel to nine digits; unknown numbers may be."""
    if a is None or b is None:
        return True
    pivot = max(range(len(a)), key=lambda i: abs(a[i]))
    scale = max(map(abs, a)) * max(map(abs, b))
    return all(abs(p * b[pivot] - q * a[pivot]) <= 1e-9 * scale for p, q in zip(a, b, strict=True))


@lru_cache(maxsize=4096)
def fingerprint(entries: Entries) -> tuple[float, ...] | None:
    """The entries at a few pseudo-random jets, the same for every expression; None where they
    are not finite real numbers.
    """
    variables = [
        *jet(entries),
        *given(entries),
        *sorted(set().union(*(e.atoms(sp.Symbol) for e in entries)), key=str),
    ]
    values: list[float] = []
    for sample in range(SAMPLES):
        rule = {v: sp.Float(_random_value(v, sample)) for v in variables}
        for entry in entries:
            number = sp.N(entry.xreplace(rule))
            if not (number.is_Float or number.is_Integer):
                return None
            values.append(float(number))
    return tuple(values)


def _random_value(variable: sp.Expr, sample: int) -> float:
    # Parameters are constants: the same in every sample. Positive values keep roots and logarithms
    # real.
    key = f"{variable}" if isinstance(variable, Parameter) else f"{variable} {sample}"
    return random.Random(key).uniform(0.4, 1.6)
