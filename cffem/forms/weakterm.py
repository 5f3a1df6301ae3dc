# SPDX-License-Identifier: MIT
"""What the weak form of a term consists of: integrands as SymPy expressions, auxiliary fields, and
the UFL forms made of them.

The integrands are ordinary expressions in the fields, the test function and the normal n, so they
print, and a boundary condition is a substitution in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import sympy as sp
import ufl

from cffem.forms.conservation_laws import ConservationForm
from cffem.forms.interior_penalty import InteriorPenalty
from cffem.forms.lowering import Context, Lowering
from cffem.forms.parts import Trace, contraction
from cffem.forms.quadrature import with_fixed_quadrature
from cffem.symbols.fields import Field
from cffem.symbols.operators import as_expr

if TYPE_CHECKING:
    from basix.ufl import _ElementBase
    from ufl.core.expr import Expr


@dataclass(frozen=True)
class TermForms:
    """The UFL forms of a term; a part that is not there is an empty form.

    Attributes:
        volume: integrals over cells.
        boundary: the natural boundary integrals.
        interior: integrals over facets between cells (discontinuous elements).
    """

    volume: ufl.Form
    boundary: ufl.Form
    interior: ufl.Form

    @property
    def total(self) -> ufl.Form:
        """All parts: equal to ⟨T[u], v⟩ for smooth u."""
        return self.volume + self.boundary + self.interior


@dataclass(frozen=True)
class WeakTerm:
    """The weak form of a term.

    Attributes:
        term: the term as written.
        test: the symbol of the test function; give it a UFL test function in the context.
        volume: the integrand over cells.
        traces: pairs (trace, weight); the boundary integrand is the sum of their inner products.
        jumps: pairs (trace, weight); between cells −[trace]·{weight} is integrated, with [a] = a⁺ +
            a⁻ of traces that contain n.
        auxiliaries: further fields that `volume` contains, each with its own definition.
        surfaces: pairs (name, integrand) of integrals over parts of the boundary and surfaces
            inside, test function included.
        penalties: what terms of second order leave between discontinuous cells.
        conserved: the flux of a nonlinear conservation law, whose values between cells and on the
            boundary the engine gives.
    """

    term: sp.Expr
    test: Field
    volume: sp.Expr
    traces: tuple[Trace, ...] = ()
    jumps: tuple[Trace, ...] = ()
    auxiliaries: tuple[Auxiliary, ...] = ()
    surfaces: tuple[tuple[str, sp.Expr], ...] = ()
    penalties: tuple[InteriorPenalty, ...] = ()
    conserved: ConservationForm | None = None

    @property
    def boundary(self) -> sp.Expr:
        """The natural boundary integrand."""
        return contraction(self.traces)

    def plus(self, other: WeakTerm, indicator: sp.Expr | None = None) -> WeakTerm:
        """The sum with another weak term, which may be restricted to the cells of an indicator."""
        factor = sp.S.One if indicator is None else indicator
        known = {a.field for a in self.auxiliaries}
        return replace(
            self,
            volume=self.volume + factor * other.volume,
            traces=self.traces + tuple((trace, factor * weight) for trace, weight in other.traces),
            jumps=self.jumps + tuple((trace, factor * weight) for trace, weight in other.jumps),
            auxiliaries=self.auxiliaries
            + tuple(a for a in other.auxiliaries if a.field not in known),
            surfaces=self.surfaces + other.surfaces,
            penalties=self.penalties + tuple(p.scaled(factor) for p in other.penalties),
            conserved=other.conserved if self.conserved is None else self.conserved,
        )

    def imposing(self, values: Mapping[sp.Expr, sp.Expr]) -> WeakTerm:
        """The same term with traces replaced by data, for instance `{dot(n, grad(u)): g}` for a
        Neumann condition.

        Example:
            >>> import basix.ufl, cffem as cf
            >>> from cffem.forms.weak import weak_form
            >>> u, nu = cf.ScalarField("u"), cf.Parameter("nu")
            >>> weak = weak_form(
            ...     nu * cf.lap(u), u, {u: basix.ufl.element("Lagrange", "triangle", 1)}
            ... )
            >>> weak.boundary, weak.imposing({cf.dot(cf.grad(u), cf.n): cf.x}).boundary
            (nu*u_test*dot(n, grad(u)), nu*u_test*x)
        """
        rule = {symbol: as_expr(value) for symbol, value in values.items()}
        replaced = tuple((trace.xreplace(rule), weight) for trace, weight in self.traces)
        return replace(
            self, traces=tuple((trace, weight) for trace, weight in replaced if trace != 0)
        )

    def forms(
        self,
        context: Context,
        dx: ufl.Measure = ufl.dx,
        ds: ufl.Measure = ufl.ds,
        dS: ufl.Measure = ufl.dS,
    ) -> TermForms:
        """The UFL forms in a context that gives a value to every field, auxiliary field, parameter
        and to `test`.

        Args:
            context: what the symbols mean.
            dx, ds, dS: measures over cells, boundary and interior facets, for instance restricted
                to the part of the boundary where no condition is declared, or with a quadrature
                degree; without one it is estimated and fixed.
        """
        low, domain = Lowering(context), context.domain
        volume = low(self.volume) * dx(domain=domain) if self.volume != 0 else ufl.Form([])
        boundary = low(self.boundary) * ds(domain=domain) if self.boundary != 0 else ufl.Form([])
        interior = ufl.Form([])
        for trace, weight in self.jumps:
            jump = low(trace)
            interior -= ufl.inner(jump("+") + jump("-"), ufl.avg(low(weight))) * dS(domain=domain)
        for penalty in self.penalties:
            interior += penalty.between_cells(low, context.values, {}) * dS(domain=domain)
        return TermForms(*map(with_fixed_quadrature, (volume, boundary, interior)))

    def __str__(self) -> str:
        parts = [f"∫ {self.volume} dx"] if self.volume != 0 else []
        parts += [f"∮ {self.boundary} ds"] if self.boundary != 0 else []
        parts += [f"−∫ [{trace}]·{{{weight}}} dS" for trace, weight in self.jumps]
        parts += ["interior penalties"] if self.penalties else []
        parts += ["fluxes between cells"] if self.conserved is not None else []
        parts += [f"∮ {integrand} ds({name})" for name, integrand in self.surfaces]
        where = [f"({a.field}, {a.test}) = {a.definition}" for a in self.auxiliaries]
        return " + ".join(parts or ["0"]) + "".join(f", where {text}" for text in where)


@dataclass(frozen=True)
class Auxiliary:
    """A field that stands for a derivative which the element of its argument lacks, defined weakly.

    (field, test) = definition for every test function of the auxiliary space; with the boundary
    part of the definition it is the projection of the derivative itself. Where the traces of the
    auxiliary space are constrained to zero (on a perfect conductor, say) the boundary part has no
    test functions to meet. For a linear term, with M the mass matrix, B the matrix of the
    definition and C that of the term's volume as a form in `field`, the term is C M⁻¹ B; or `field`
    is solved for as well.

    Attributes:
        field: the symbol, which occurs in the volume integrand of the term.
        element: the Basix element of the auxiliary space.
        definition: the weak form of the operator it stands for (`definition.term`), tested in the
            auxiliary space.
    """

    field: Field
    element: _ElementBase
    definition: WeakTerm

    @property
    def test(self) -> Field:
        """The symbol of the test function of the auxiliary space."""
        return self.definition.test

    def mass(self, trial: Expr, test: Expr, dx: ufl.Measure = ufl.dx) -> ufl.Form:
        """The left-hand side of the definition, the mass form of the auxiliary space."""
        return ufl.inner(trial, test) * dx
