# SPDX-License-Identifier: MIT
"""What a weak row integrates: every term as a sum of integrals ∫ core ∂^order φ, and the integrands
as NumPy functions.

Powers of noisy values are biased: E (u + noise)² = u² + σ². Hermite polynomials in their place are
unbiased.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy as sp
from sympy.codegen.rewriting import create_expand_pow_optimization

from cffem.data.dataset import Dataset
from cffem.data.rows.conservation import Order, conservative, derivative_order
from cffem.symbols.algebra.components import to_components
from cffem.symbols.coordinates import COORDINATES, SPACE
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, ScalarField, VectorField

multiplied_powers = create_expand_pow_optimization(12)

# A family of test vectors built from one φ: component → (sign, extra derivative of φ).
Family = Mapping[int, tuple[float, Order]]


@dataclass(frozen=True)
class Contribution:
    """coefficient · ∫ core ∂^order φ: what one piece of a term adds to a column."""

    coefficient: float
    core: sp.Expr
    order: Order


@lru_cache(maxsize=4096)
def contributions(
    term: sp.Expr, dim: int, solenoidal: VectorField | None
) -> tuple[tuple[Contribution, ...], ...]:
    """The integrals of a term, one tuple per family of test vectors.

    Args:
        term: scalar or vector expression.
        dim: dimension of space.
        solenoidal: the divergence-free field of a projected equation, tested with divergence-free
            functions; else None.
    """
    entries = to_components(term, dim)
    families = test_families(len(entries), dim, solenoidal is not None)
    result = []
    for family in families:
        parts: dict[tuple[sp.Expr, Order], float] = {}
        for number, (sign, extra) in family.items():
            for piece in conservative(without_divergence(entries[number], solenoidal)):
                order = tuple(a + b for a, b in zip(piece.order, extra, strict=True))
                for summand in sp.Add.make_args(sp.expand(piece.integrand)):
                    factor, core = summand.as_coeff_Mul()
                    parts[core, order] = parts.get((core, order), 0.0) + sign * (-1) ** sum(
                        piece.order
                    ) * float(factor)
        result.append(
            tuple(
                Contribution(value, core, order) for (core, order), value in parts.items() if value
            )
        )
    return tuple(result)


def without_divergence(entry: sp.Expr, solenoidal: VectorField | None) -> sp.Expr:
    """Use div v = 0 to bring v_i ∂_i w into conservation form."""
    if solenoidal is None:
        return entry
    divergence = sp.Add(*(solenoidal[i].diff(SPACE[i]) for i in range(solenoidal.dim)))
    for piece in conservative(entry):
        for summand in sp.Add.make_args(piece.integrand):
            derivatives = list(summand.atoms(sp.Derivative))
            if sum(piece.order) or len(derivatives) != 1:
                continue
            changed = sp.expand(
                entry + summand.as_coeff_Mul()[0] * derivatives[0].expr * divergence
            )
            if not any(derivative_order(p.integrand) for p in conservative(changed)):
                return changed
    return entry


def test_families(components: int, dim: int, projected: bool) -> list[Family]:
    """Test vectors: φ, φ e_i for vectors, curls of φ where a gradient is left open."""

    def unit(axis: int) -> Order:
        return tuple(int(k == axis) for k in range(4))

    zero: Order = (0, 0, 0, 0)
    if not projected:
        return [{i: (1.0, zero)} for i in range(components)]
    if components == 2 and dim == 2:
        return [{0: (1.0, unit(1)), 1: (-1.0, unit(0))}]
    if components == 3 and dim == 3:
        # curl(φ e_k) has component i equal to ε_{ijk} ∂_j φ
        cyclic = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
        return [{i: (1.0, unit(j)), j: (-1.0, unit(i))} for i, j, _ in cyclic]
    raise InputError(
        "divergence-free test functions need a vector equation with as many components as "
        "dimensions (2 or 3)"
    )


class Variance(sp.Symbol):
    """The noise variance of one field."""

    def __new__(cls, of: sp.Expr) -> Variance:
        symbol = sp.Symbol.__xnew__(cls, f"variance_{of}", nonnegative=True)
        symbol.of = of
        return symbol


@lru_cache(maxsize=4096)
def hermite(core: sp.Expr) -> sp.Expr:
    """Replace powers u^a by Hermite polynomials: E h_a(u + noise) = u^a.

    Example:
        >>> import cffem as cf
        >>> hermite(cf.ScalarField("u") ** 2)
        u**2 - variance_u
    """
    factors = []
    for factor in sp.Mul.make_args(core):
        base, exponent = factor.as_base_exp()
        if isinstance(base, ScalarField | Component) and exponent.is_Integer and exponent > 1:
            factors.append(hermite_polynomial(base, int(exponent)))
        else:
            factors.append(factor)
    return sp.Mul(*factors)


def hermite_polynomial(base: sp.Expr, power: int) -> sp.Expr:
    """h_{k+1} = u h_k − k σ² h_{k−1}."""
    variance = Variance(base)
    previous, current = sp.S.One, base
    for k in range(1, power):
        previous, current = current, sp.expand(base * current - k * variance * previous)
    return sp.horner(current, base) if power > 1 else current


@lru_cache(maxsize=4096)
def compiled(expr: sp.Expr) -> tuple[Any, list[sp.Expr]]:
    """A NumPy function of an expression and the order of its arguments."""
    derivatives = sorted(expr.atoms(sp.Derivative), key=str)
    rest = expr.xreplace({d: sp.Symbol(f"d{k}") for k, d in enumerate(derivatives)})
    fields = sorted(rest.atoms(ScalarField, Component), key=str)
    rest = rest.xreplace({f: sp.Symbol(f"f{k}") for k, f in enumerate(fields)})
    others = sorted(
        (s for s in rest.atoms(sp.Symbol) if s in COORDINATES or isinstance(s, Variance)), key=str
    )
    arguments = (
        [sp.Symbol(f"d{k}") for k in range(len(derivatives))]
        + [sp.Symbol(f"f{k}") for k in range(len(fields))]
        + others
    )
    # NumPy raises to the third and higher powers through logarithms, ten times slower than by
    # multiplying.
    return sp.lambdify(arguments, multiplied_powers(rest), "numpy"), [
        *derivatives,
        *fields,
        *others,
    ]


def check_integrand(core: sp.Expr, data: Dataset) -> None:
    """Raise if an integrand needs a field or a parameter that the data do not have."""
    needed = core.atoms(ScalarField, Component)
    missing = {n for n in needed if n not in data.values}
    if missing:
        known = ", ".join(map(str, data.values))
        raise InputError(
            f"the dataset has no values of {', '.join(sorted(map(str, missing)))}, but of {known}"
        )
    absent = core.atoms(sp.Symbol) & set(COORDINATES) - measured_axes(data)
    if absent:
        raise InputError(
            f"a term contains the coordinate {min(map(str, absent))}, along which the data were "
            "not measured"
        )
    symbols = core.atoms(sp.Symbol) - set(COORDINATES)
    if symbols:
        raise InputError(
            f"the term contains the unknown parameter {min(map(str, symbols))}; substitute a "
            "number for it"
        )


def measured_axes(data: Dataset) -> set[sp.Symbol]:
    """The coordinates that data depend on."""
    return set(data.coordinates) | set(SPACE[: data.dim])


def check_axes(order: Order, data: Dataset) -> None:
    """Raise if derivatives are asked for along an axis that the data do not have."""
    axes = measured_axes(data)
    for coordinate, count in zip(COORDINATES, order, strict=True):
        if count and coordinate not in axes:
            raise InputError(
                f"the library has derivatives along {coordinate}, but the data have no such axis; "
                "they depend on "
                f"{', '.join(sorted(map(str, axes)))}"
            )
