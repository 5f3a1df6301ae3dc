# SPDX-License-Identifier: MIT
"""Nonlinear conservation laws between discontinuous cells: the flux of a term, and the
Lax–Friedrichs flux made of it.

A term of first order is Σ_ki B_ki(w) ∂_i w_k, as the chain rule leaves it. Where ∂B_ki/∂w_l =
∂B_li/∂w_k for the discontinuous fields w there is a flux f(w, x) such that the term is
div f − (∂_i f_i)(x), found by integration. Its weak form is −∫ f·∇v dx + ∫ f̂·n [v] dS, and

    f̂·n = {f·n} − sign(α) ½ λ [u],  λ = the largest |eigenvalue| of ∂(f·n)/∂u on both sides,

is monotone for scalars, so that discontinuous solutions converge to the one that satisfies the
entropy condition. Eigenvalues are read off the factors of the characteristic polynomial: exactly
where these are linear or quadratic, else by Fujiwara's bound 2 max |c_k|^(1/k), which is of the
right dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import sympy as sp
import ufl

from cffem.symbols.algebra.analysis import canonical
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Component, Field
from cffem.symbols.operators import has_jump, n

if TYPE_CHECKING:
    from ufl.core.expr import Expr

Entries = tuple[sp.Expr, ...]


@dataclass(frozen=True)
class ConservationForm:
    """A term as the divergence of a flux, component by component.

    Attributes:
        fluxes: f_ji, by components of the equation and directions.
        rest: what is left of the term without derivatives of discontinuous fields.
        fields: the discontinuous fields in the flux.
    """

    fluxes: tuple[Entries, ...]
    rest: Entries
    fields: tuple[Field, ...]

    def normal(self) -> Entries:
        """f·n for each component of the equation."""
        return tuple(sp.Add(*(f * n[i] for i, f in enumerate(row))) for row in self.fluxes)

    def jacobian(self, fields: Sequence[Field], dimension: int) -> sp.Matrix:
        """∂(f·n)/∂w by all components of some fields."""
        columns = [c for field in fields for c in components(field, dimension)]
        return sp.Matrix([[derivative(f, c) for c in columns] for f in self.normal()])


def components(field: Field, dimension: int) -> list[sp.Expr]:
    """The components of a field."""
    return [field[i] for i in range(dimension)] if field.shape else [field]


def derivative(expr: sp.Expr, symbol: sp.Expr) -> sp.Expr:
    """The derivative by a field or component, of which no derivatives occur."""
    name = sp.Dummy()
    return expr.xreplace({symbol: name}).diff(name).xreplace({name: symbol})


def conservation_form(
    term: sp.Expr, fields: Sequence[Field], dimension: int
) -> ConservationForm | None:
    """The flux of a term of first order; None where it has none.

    Args:
        term: the term.
        fields: the discontinuous fields.
        dimension: of space.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> conservation_form(-u * u.diff(cf.x), [u], 1).fluxes
        ((-u**2/2,),)
    """
    entries = canonical(term, dimension)
    parts = [c for field in fields for c in components(field, dimension)]
    slopes = {(c, i): sp.Dummy(f"{c}_{i}") for c in parts for i in range(dimension)}
    plain = {c.diff(SPACE[i]): name for (c, i), name in slopes.items()}
    values = {c: sp.Dummy(str(c), real=True) for c in parts}
    back = {name: c for c, name in values.items()}
    fluxes, rests = [], []
    for entry in entries:
        bare = entry.xreplace(plain).xreplace(values)
        found = []
        for i in range(dimension):
            slope = {values[c]: bare.diff(slopes[c, i]) for c in parts}
            flux = potential(slope, {*slopes.values()})
            if flux is None:
                return None
            found.append(flux)
        rest = bare.xreplace(dict.fromkeys(slopes.values(), sp.S.Zero))
        rest -= sp.Add(*(flux.diff(SPACE[i]) for i, flux in enumerate(found)))
        if any(has_jump(flux) for flux in found):
            return None
        fluxes.append(tuple(flux.xreplace(back) for flux in found))
        rests.append(rest.xreplace(back))
    inside = {symbol for row in fluxes for flux in row for symbol in flux.atoms(Field)}
    return ConservationForm(tuple(fluxes), tuple(rests), tuple(f for f in fields if f in inside))


def potential(slopes: Mapping[sp.Dummy, sp.Expr], strange: set[sp.Dummy]) -> sp.Expr | None:
    """A function with these derivatives, None where there is none or it is not found."""
    if any(slope.free_symbols & strange for slope in slopes.values()):
        return None
    total = sp.S.Zero
    for symbol, slope in slopes.items():
        missing = sp.expand(slope - total.diff(symbol))
        found = sp.integrate(missing, symbol)
        if found.has(sp.Integral, sp.Piecewise) and not missing.has(sp.Piecewise):
            return None
        total += found
    right = all(sp.simplify(total.diff(s) - slope) == 0 for s, slope in slopes.items())
    return sp.expand(total) if right else None


def is_nonlinear(term: sp.Expr, own: Field, fields: Sequence[Field], dimension: int) -> bool:
    """Whether the speeds of a term depend on the field of its equation, or on discontinuous
    fields in a way that is not linear, so that means of both sides would not conserve.

    Example:
        >>> import cffem as cf
        >>> u, w = cf.ScalarField("u"), cf.ScalarField("w")
        >>> [is_nonlinear(e, u, [u, w], 1) for e in (u * u.diff(cf.x), (u * w).diff(cf.x))]
        [True, False]
    """
    parts = [c for field in fields for c in components(field, dimension)]
    slopes = {c.diff(SPACE[i]): sp.Dummy() for c in parts for i in range(dimension)}
    values = {c: sp.Dummy() for c in parts}
    mine = [values[c] for c in components(own, dimension) if c in values]
    for entry in canonical(term, dimension):
        bare = entry.xreplace(slopes).xreplace(values)
        for derivative_, name in slopes.items():
            speed = bare.diff(name)
            if derivative_.expr in components(own, dimension) and speed.free_symbols & {*mine}:
                return True
            if any(speed.diff(a).free_symbols & {*values.values()} for a in values.values()):
                return True
    return False


def speed_matrix(
    terms: Mapping[Field, Sequence[tuple[float, sp.Expr]]], dimension: int
) -> sp.Matrix:
    """Σ α ∂T/∂(∂_i w) n_i of the equations of some fields, by all their components.

    Args:
        terms: for each field the coefficients and terms of its equation.
        dimension: of space.
    """
    columns = [c for field in terms for c in components(field, dimension)]
    slopes = {(c, i): sp.Dummy() for c in columns for i in range(dimension)}
    plain = {c.diff(SPACE[i]): name for (c, i), name in slopes.items()}
    rows = []
    for field, equation in terms.items():
        size = len(components(field, dimension))
        for j in range(size):
            row = [sp.S.Zero] * len(columns)
            for factor, term in equation:
                bare = canonical(term, dimension)[j].xreplace(plain)
                for k, c in enumerate(columns):
                    speeds = [bare.diff(slopes[c, i]) for i in range(dimension)]
                    row[k] += sp.Add(
                        *(
                            sp.Rational(str(factor)) * speed * n[i]
                            for i, speed in enumerate(speeds)
                            if not speed.free_symbols & {*slopes.values()}
                        )
                    )
            rows.append(row)
    return sp.Matrix(rows)


# The speed
# --------------------------------------------------------------------------------------------------


def spectral_bounds(matrix: sp.Matrix) -> list[tuple[sp.Expr, sp.Expr]]:
    """Pairs (a, b) such that |a| + √|b| of one of them bounds each eigenvalue of a matrix.

    Example:
        >>> h, u, g = sp.symbols("h u g", positive=True)
        >>> spectral_bounds(sp.Matrix([[0, 1], [g * h - u**2, 2 * u]]))
        [(-u, g*h)]
    """
    if matrix.shape == (1, 1):
        return [(matrix[0, 0], sp.S.Zero)]
    unknown = sp.Dummy("lambda")
    plain = {symbol: sp.Dummy() for symbol in matrix.atoms(Field) | parts_of(matrix)}
    back = {name: symbol for symbol, name in plain.items()}
    polynomial = matrix.xreplace(plain).charpoly(unknown).as_expr(unknown)
    found = []
    numerator = sp.fraction(sp.together(polynomial))[0]
    for factor, _ in sp.factor_list(numerator)[1]:
        if unknown not in factor.free_symbols:
            continue
        whole = sp.Poly(factor, unknown).monic()
        coefficients = [sp.simplify(c) for c in whole.all_coeffs()[1:]]
        if whole.degree() == 1:
            found.append((coefficients[0], sp.S.Zero))
        elif whole.degree() == 2:
            half = coefficients[0] / 2
            found.append((half, sp.simplify(half**2 - coefficients[1])))
        else:
            found += [
                (2 * sp.Abs(c) ** sp.Rational(1, k), sp.S.Zero)
                for k, c in enumerate(coefficients, 1)
            ]
    return [(sp.expand(a).xreplace(back), sp.expand(b).xreplace(back)) for a, b in found]


def parts_of(matrix: sp.Matrix) -> set[sp.Expr]:
    """Components of fields and of the normal, which polynomials take for symbols."""
    return matrix.atoms(Component) | {n[i] for i in range(3) if matrix.has(n[i])}


def largest_speed(
    bounds: Sequence[tuple[sp.Expr, sp.Expr]], low: Callable[[sp.Expr], Expr]
) -> Expr:
    """The largest of the bounds in UFL, on one side of a facet."""
    found = [abs(low(a)) + (0.0 if b == 0 else ufl.sqrt(abs(low(b)))) for a, b in bounds]
    return reduce(ufl.max_value, found)
