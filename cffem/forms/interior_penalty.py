# SPDX-License-Identifier: MIT
"""Diffusion of discontinuous fields: the symmetric interior penalty method, read off the volume
integrand of a term.

Integrated by parts cell by cell, a term of second order leaves a volume integrand V(u, ∇u; v, ∇v)
that is linear in the gradients, V = −A∇u·∇v for div(A∇u). With [u] = u⁺ − u⁻ and {a} = (a⁺ + a⁻)/2

    Σ_K ∫ V dx − ∫ {∂V/∂∇v}·n [v] dS − ∫ {∂V/∂∇u}·n [u] dS − ∫ {τ A_nn} [u][v] dS

is consistent, adjoint consistent and symmetric where A is (Arnold, Brezzi, Cockburn and Marini,
SIAM J. Numer. Anal. 39, 2002). A_nn = −∂²V/∂∇u∂∇v in the direction n: a matrix for vector fields,
which penalises the jumps that the term itself sees, tangential ones for curl curl. With given
values g on the boundary (Nitsche) u − g stands for [u] and v for [v], and the penalty is doubled.
With

    τ = C(k, d) |∂K|/|K|,  C = (k+1)(k+d)/d on simplices and (k+1)² on tensor cells,

the constant of ‖p‖²_F ≤ C |F|/|K| ‖p‖²_K for polynomials of degree k (Warburton and Hesthaven,
2003), the form is coercive for A that is constant on cells: a third of Σ_K ∫ A∇u·∇u and a quarter
of the penalty remain. Means, not harmonic means, are taken of coefficients that jump, because the
fluxes of single terms need not be continuous, only their sum is: other weights for each term would
not be consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import basix
import sympy as sp
import ufl

from cffem.forms.orders import derivatives
from cffem.forms.translation_errors import UnsupportedTerm
from cffem.symbols.algebra.analysis import canonical
from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Field
from cffem.symbols.operators import n

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from ufl.core.expr import Expr

Entries = tuple[sp.Expr, ...]
SIMPLICES = (basix.CellType.interval, basix.CellType.triangle, basix.CellType.tetrahedron)


def trace_constant(element: _ElementBase, dimension: int) -> float:
    """C(k, d), the constant of the trace inequality for the polynomials of an element.

    Example:
        >>> import basix.ufl
        >>> trace_constant(basix.ufl.element("DG", "triangle", 1), 2)
        3.0
    """
    k = element.embedded_superdegree if element.cell_type in SIMPLICES else element.degree
    if element.cell_type in SIMPLICES:
        return (k + 1) * (k + dimension) / dimension
    return float((k + 1) ** 2)


@dataclass(frozen=True)
class InteriorPenalty:
    """What one term of second order leaves on facets; entries are those of components.

    Attributes:
        test: the test function.
        flux: −∂V/∂∇v·n, the flux through a facet, for each component of the test function.
        adjoint: −∂V/∂∇u·n for each component of each discontinuous field.
        matrix: A_nn for each of these fields, by components of the test function and the field.
    """

    test: Field
    flux: Entries
    adjoint: Mapping[Field, Entries]
    matrix: Mapping[Field, tuple[Entries, ...]]

    def scaled(self, factor: sp.Expr) -> InteriorPenalty:
        """A multiple, by the indicator of a subdomain say."""
        return replace(
            self,
            flux=tuple(factor * f for f in self.flux),
            adjoint={u: tuple(factor * g for g in entries) for u, entries in self.adjoint.items()},
            matrix={
                u: tuple(tuple(factor * m for m in row) for row in rows)
                for u, rows in self.matrix.items()
            },
        )

    def between_cells(
        self,
        low: Callable[[sp.Expr], Expr],
        values: Mapping[Field, Expr],
        penalty: Mapping[Field, Expr],
    ) -> Expr:
        """The integrand over facets between cells.

        Args:
            low: translates SymPy expressions.
            values: UFL expressions of the test function and the fields.
            penalty: τ for each field; without any the penalty is left out.
        """
        jump = [ufl.jump(part) for part in _parts(values[self.test])]
        total = sum((_mean_flux(low(f)) * v for f, v in zip(self.flux, jump, strict=True)), 0)
        for field, entries in self.adjoint.items():
            steps = [ufl.jump(part) for part in _parts(values[field])]
            total += sum((_mean_flux(low(g)) * u for g, u in zip(entries, steps, strict=True)), 0)
            if field not in penalty:
                continue
            for row, v in zip(self.matrix[field], jump, strict=True):
                for entry, u in zip(row, steps, strict=True):
                    if entry != 0:
                        total -= ufl.avg(penalty[field] * low(entry)) * u * v
        return total

    def given(self, field: Field, difference: Sequence[sp.Expr]) -> tuple[sp.Expr, sp.Expr]:
        """The integrands over a part of the boundary where a field is given, without the flux: that
        of symmetry, and that of the penalty, which τ multiplies.

        Args:
            field: the field.
            difference: the components of u − g.
        """
        adjoint = sp.Add(*(g * gap for g, gap in zip(self.adjoint[field], difference, strict=True)))
        tests = _components(self.test, len(self.flux))
        penalty = sp.Add(
            *(
                -2 * entry * gap * v
                for row, v in zip(self.matrix[field], tests, strict=True)
                for entry, gap in zip(row, difference, strict=True)
            )
        )
        return adjoint, penalty


def interior_penalty(
    volume: sp.Expr, test: Field, fields: Sequence[Field], dimension: int
) -> InteriorPenalty:
    """The interior penalty method for a volume integrand.

    Args:
        volume: V, with first derivatives only.
        test: the test function.
        fields: the discontinuous fields whose gradients it contains.
        dimension: of space.

    Raises:
        UnsupportedTerm: V is not linear in the gradients of these fields.

    Example:
        >>> import cffem as cf
        >>> u, v = cf.ScalarField("u"), cf.ScalarField("v")
        >>> found = interior_penalty(-cf.x * cf.dot(cf.grad(u), cf.grad(v)), v, [u], 1)
        >>> found.flux, found.adjoint[u], found.matrix[u]
        ((x*n[0]*Derivative(u, x),), (x*n[0]*Derivative(v, x),), ((x*n[0]**2,),))
    """
    (whole,) = canonical(volume, dimension)
    names = {
        (component, i): sp.Dummy(f"{component}_{i}")
        for field in (*fields, test)
        for component in _components(field, dimension)
        for i in range(dimension)
    }
    plain = {component.diff(SPACE[i]): name for (component, i), name in names.items()}
    back = {name: derivative for derivative, name in plain.items()}
    whole = whole.xreplace(plain)
    slopes = [
        name
        for (component, _), name in names.items()
        if component not in _components(test, dimension)
    ]
    strange = [d for d in derivatives(whole) if d.order > 0 and d.field in {*fields, test}]
    linear = all(whole.diff(a).diff(b) == 0 for a in slopes for b in slopes)
    if strange or not linear:
        raise UnsupportedTerm(
            "between discontinuous cells only diffusion that is linear in the gradient has a "
            "flux here, such as div(a*grad(u)) with a(u, x, t); take a Lagrange element"
        )

    def along(entry: sp.Expr, component: sp.Expr) -> sp.Expr:
        """The derivative by the gradient of a component, in the direction of the normal."""
        slope = [entry.diff(names[component, i]) for i in range(dimension)]
        return sp.expand(sp.Add(*(-s * n[i] for i, s in enumerate(slope))))

    tests = _components(test, dimension)
    flux = tuple(along(whole, v) for v in tests)
    adjoint = {f: tuple(along(whole, u) for u in _components(f, dimension)) for f in fields}
    matrix = {
        f: tuple(tuple(along(entry, u) * -1 for u in _components(f, dimension)) for entry in flux)
        for f in fields
    }
    return InteriorPenalty(
        test,
        tuple(entry.xreplace(back) for entry in flux),
        {f: tuple(entry.xreplace(back) for entry in row) for f, row in adjoint.items()},
        {
            f: tuple(tuple(e.xreplace(back) for e in row) for row in rows)
            for f, rows in matrix.items()
        },
    )


def _components(field: Field, dimension: int) -> list[sp.Expr]:
    return [field[i] for i in range(dimension)] if field.shape else [field]


def _parts(value: Expr) -> list[Expr]:
    return [value[i] for i in range(value.ufl_shape[0])] if value.ufl_shape else [value]


def _mean_flux(flux: Expr) -> Expr:
    """The mean of a flux that contains the outward normal, in the direction of that of +."""
    return 0.5 * (flux("+") - flux("-"))
