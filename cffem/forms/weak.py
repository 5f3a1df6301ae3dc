# SPDX-License-Identifier: MIT
"""Weak form: a term paired with a test function, derivatives balanced between both by integration
by parts.

For a term T and the test function v of its equation, ⟨T[u], v⟩ is written as

    ∫ volume dx + ∮ boundary ds − Σ ∫ [trace]·{weight} dS (the last sum for discontinuous elements
    only)

so that each derivative that is left is one the elements have across cells. The natural boundary
terms are part of the result; a declared boundary condition replaces their traces (`imposing`) or
kills their test functions. On H(curl) elements grad(div E) goes through the weak divergence s in
the paired Lagrange space, (s, q) = −(E, ∇q) + ∮ (E·n) q, and the term is (∇s, v), exactly null on
discretely divergence-free fields; on H(div) elements curl curl goes through the weak curl. First
derivatives that an element lacks are taken cell by cell, with the jump of the trace charged to the
average weight: the central flux, which is consistent. The engine makes an upwind flux of it where a
discontinuous field is transported. Second derivatives of discontinuous fields are penalised
(`cffem.forms.interior_penalty`).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.sorting import default_sort_key

from cffem.forms.cancelling import cancelling
from cffem.forms.conservation_laws import components, conservation_form, is_nonlinear
from cffem.forms.elements import (
    H1,
    HCURL,
    HDIV,
    L2,
    SMOOTH,
    before,
    carrier,
    topological_dimension,
)
from cffem.forms.interior_penalty import interior_penalty
from cffem.forms.orders import Derived, derivatives, is_held, order_of
from cffem.forms.parts import IntegrationByParts, Trace, WeakIntegrand
from cffem.forms.translation_errors import DimensionError, UnsupportedTerm
from cffem.forms.weakterm import Auxiliary, WeakTerm
from cffem.symbols.algebra.shapes import shape_of, unify
from cffem.symbols.algebra.splitting import base_of, recovered, split, stand_in
from cffem.symbols.coordinates import SPACE
from cffem.symbols.errors import ShapeError
from cffem.symbols.fields import Field, ScalarField, VectorField, fields_of
from cffem.symbols.known import Known
from cffem.symbols.operators import Curl, Div, Grad, Lap, Sym, curl, div, grad, has_jump, inner, n

if TYPE_CHECKING:
    from basix.ufl import _ElementBase

# Weak forms by all that they depend on, as many as this.
MOST_FOUND = 1000
_FOUND: dict[Hashable, WeakTerm] = {}


def weak_form(
    term: sp.Expr,
    equation: Field,
    elements: Mapping[Field, _ElementBase],
    multipliers: Collection[Field] = (),
    known: Mapping[Known, object] | None = None,
    smooth: bool = False,
) -> WeakTerm:
    """The weak form of a term in the equation of a field.

    Args:
        term: the SymPy term, of the shape of the field.
        equation: the field whose equation the term belongs to; its element is the test space.
        elements: the Basix element of every field in the term and of `equation`.
        multipliers: fields that are never differentiated, whatever their element: grad(p) becomes
            −(p, div v) + ∮ p n·v, the exact transpose of the divergence constraint that p enforces.
        known: the Basix elements of known fields that are finite-element functions.
        smooth: whether the test function is a given one with all derivatives, which then takes
            those that fields lack.

    Raises:
        UnsupportedTerm: the derivatives cannot be balanced (products of second derivatives, say).
        DimensionError: a field or coordinate does not fit the elements' cells.

    Example:
        >>> import basix.ufl, cffem as cf
        >>> u, E = cf.ScalarField("u"), cf.VectorField("E", dim=3)
        >>> print(weak_form(u**2 * cf.lap(u), u, {u: basix.ufl.element("Lagrange", "triangle", 2)}))
        ∫ -u**2*dot(grad(u), grad(u_test)) - 2*u*u_test*dot(grad(u), grad(u)) dx + ∮
        u**2*u_test*dot(n, grad(u)) ds
        >>> print(
        ...     weak_form(cf.grad(cf.div(E)), E, {E: basix.ufl.element("N1curl", "tetrahedron", 1)})
        ... )
        ∫ dot(E_test, grad(div_E)) dx, where (div_E, div_E_test) = ∫ -dot(E, grad(div_E_test)) dx +
        ∮ div_E_test*dot(n, E) ds
    """
    # Every level of an error bar asks for the same forms again.
    key = (term, equation, tuple(elements.items()), tuple(multipliers), smooth)
    if not known and key in _FOUND:
        return _FOUND[key]
    try:
        _check(term, equation, elements)
        found = _Balance(equation, elements, multipliers, known or {}, smooth).weak_form(term)
        if not known and len(_FOUND) < MOST_FOUND:
            _FOUND[key] = found
        return found
    except UnsupportedTerm as error:
        for known in _differentiated_jumps(term):
            words = f"{known} jumps between cells and has no derivative"
            raise UnsupportedTerm(
                f"{words}; give it a continuous function, or write div({known}*grad(u))", term
            ) from None
        raise error.within(term) from None


def _differentiated_jumps(term: sp.Expr) -> list[Known]:
    """The known fields of which a term takes a derivative that they do not have."""
    nodes = term.atoms(Grad, Div, Curl, Lap, sp.Derivative)
    found = {k for node in nodes if not node.atoms(Field) for k in node.atoms(Known)}
    return sorted((known for known in found if not known.smooth), key=str)


def test_of(equation: Field, elements: Mapping[Field, _ElementBase]) -> Field:
    """The symbol of the test function of an equation."""
    kind = VectorField if isinstance(equation, VectorField) else ScalarField
    dimension = topological_dimension(elements[equation])
    return kind(fresh(f"{equation.name}_test", elements), dim=dimension)


def surface_term(
    name: str,
    term: sp.Expr,
    equation: Field,
    elements: Mapping[Field, _ElementBase],
    known: Mapping[Known, object] | None = None,
) -> WeakTerm:
    """∮ term·v over a part of the boundary or a surface inside.

    Raises:
        UnsupportedTerm: the term takes derivatives that the elements do not have there.
    """
    balance = _Balance(equation, elements, (), known)
    _check(term, equation, elements, on_boundary=True)
    if not balance.conforming(term):
        raise UnsupportedTerm(
            f"on {name!r} a term has values and first derivatives only, of fields that have them "
            "there",
            term,
        )
    integrand = inner(term, balance.test)
    return WeakTerm(term, balance.test, sp.S.Zero, surfaces=((name, integrand),))


def fresh(name: str, fields: Iterable[Field]) -> str:
    """A name that none of the fields has."""
    while name in {field.name for field in fields}:
        name += "_"
    return name


def differentiates_jump(expr: sp.Expr) -> bool:
    """Whether an operator acts on a coefficient that jumps, so that the result is no function."""
    return any(has_jump(node.args[0]) for node in expr.atoms(Grad, Div, Curl, Lap))


def _check(
    term: sp.Expr,
    equation: Field,
    elements: Mapping[Field, _ElementBase],
    on_boundary: bool = False,
) -> None:
    for field in sorted(fields_of(term) | {equation}, key=default_sort_key):
        if field not in elements:
            raise UnsupportedTerm("the field has no element", field)
        dimension = topological_dimension(elements[field])
        if field.dim not in (None, dimension):
            raise DimensionError(
                f"the field has dimension {field.dim}, but its mesh has dimension {dimension}",
                field,
            )
    if term.has(n) and not on_boundary:
        raise UnsupportedTerm("the normal exists on the boundary only", n)
    for coordinate in SPACE[topological_dimension(elements[equation]) :]:
        if coordinate in term.atoms(sp.Symbol):
            raise DimensionError(f"the mesh has no coordinate {coordinate}", coordinate)
    try:
        unify(shape_of(term), equation.shape, term)
    except ShapeError as error:
        raise UnsupportedTerm(
            f"it does not have the shape of {equation}, the field of its equation", term
        ) from error


def mark(node: sp.Expr, found: set[sp.Dummy]) -> sp.Dummy:
    """A symbol in place of a second derivative."""
    symbol = sp.Dummy(str(node))
    found.add(symbol)
    return symbol


@dataclass(frozen=True)
class _Piece:
    """One summand: its possible weak forms, and, if none will do by itself, why."""

    choices: tuple[WeakIntegrand, ...]
    jumps: tuple[Trace, ...] = ()
    stuck: str = ""


class _Balance:
    """Balances the derivatives in the terms of one equation."""

    def __init__(
        self,
        equation: Field,
        elements: Mapping[Field, _ElementBase],
        multipliers: Collection[Field] = (),
        known: Mapping[Known, object] | None = None,
        smooth: bool = False,
    ):
        self.dimension = topological_dimension(elements[equation])
        self.equation = equation
        self.test = test_of(equation, elements)
        self.elements = {**elements, self.test: elements[equation]}
        self.carriers = {field: carrier(element) for field, element in self.elements.items()}
        self.carriers |= {
            field: replace(self.carriers[field], space=L2)
            for field in multipliers
            if field in self.carriers
        }
        if smooth:
            self.carriers[self.test] = replace(self.carriers[self.test], space=SMOOTH)
        self.known = dict(known or {})
        self.carriers |= {field: carrier(element) for field, element in self.known.items()}
        self.auxiliaries: dict[sp.Expr, Auxiliary] = {}
        self.order = 0
        self.parts = IntegrationByParts(self.must_move)

    def weak_form(self, term: sp.Expr) -> WeakTerm:
        in_complex = self.in_complex(term)
        self.order = order_of(in_complex)
        if self.order == 2 and self.carriers[self.test].space == L2:
            return self.penalised(term, in_complex)
        if self.order == 1 and self.carriers[self.test].space == L2:
            conserved = self.conserved(in_complex)
            if conserved is not None:
                return conserved
        try:
            moved, jumps = self.combined(self.pieces(in_complex))
        except UnsupportedTerm:
            completed = self.with_recovered(in_complex)
            if completed == in_complex:
                raise
            moved, jumps = self.combined(self.pieces(completed))
        # An auxiliary field may have cancelled again.
        used = fields_of(moved.volume).union(*(fields_of(trace) for trace, _ in moved.traces))
        for auxiliary in reversed(self.auxiliaries.values()):
            used |= fields_of(auxiliary.definition.term) if auxiliary.field in used else set()
        auxiliaries = tuple(a for a in self.auxiliaries.values() if a.field in used)
        return WeakTerm(term, self.test, moved.volume, moved.traces, jumps, auxiliaries)

    # What the elements allow
    # ----------------------------------------------------------------------------------------------

    def conforming(self, expr: sp.Expr) -> bool:
        """Whether every derivative in an expression is a function across cells and across
        jumps of coefficients.
        """
        return not differentiates_jump(expr) and all(self.carries(d) for d in derivatives(expr))

    def carries(self, derived: Derived) -> bool:
        """Whether a derivative is a function; a known field without an element is a formula."""
        if isinstance(derived.field, Known) and derived.field not in self.carriers:
            return True
        return self.carriers[derived.field].conforming(derived.operator, derived.order)

    def must_move(self, expr: sp.Expr) -> bool:
        """Whether an expression must, or as a held operator is meant to, be integrated by parts."""
        return not self.conforming(expr) or any(
            is_held(node) and fields_of(node) for node in expr.atoms(Grad, Div, Curl, Lap)
        )

    # Summands
    # ----------------------------------------------------------------------------------------------

    def pieces(self, term: sp.Expr) -> list[_Piece]:
        return [
            piece
            for monomial in sp.Add.make_args(sp.expand_mul(term))
            for piece in self.integrated(monomial)
        ]

    def integrated(self, monomial: sp.Expr) -> list[_Piece]:
        """The first weak form of a summand whose derivatives the elements all have."""
        direct = WeakIntegrand(inner(monomial, self.test))
        if not self.must_move(monomial):
            return [_Piece((direct,))]
        order = order_of(monomial)
        if order > 2:
            return self.pieces(self.lowered(monomial, order))
        moved, reason = self.moved(monomial, direct)
        if moved is not None and self.carriers[self.test].space == SMOOTH and order == 2:
            moved = self.twice(moved)
        for way in (moved, direct):
            if way is not None and self.conforming(way.volume):
                return [_Piece((way,))]
        completed = self.with_auxiliaries(monomial)
        if completed != monomial:
            return self.pieces(completed)
        if order == 1 and moved is not None and not differentiates_jump(monomial):
            # A jump may be charged to a coefficient, but not to a derivative, unless the method is
            # one of jumps as a whole.
            multiplied = self.carriers[self.test].space != L2 and any(
                order_of(weight) for _, weight in moved.traces
            )
            words = self.lack(direct.volume, f"{monomial} takes") if multiplied else ""
            # As they are before they are solved for: [u]{u v} of u u′ is the conservative flux
            # u⁺u⁻/2, half of it is none.
            jumps = self.parts(monomial, self.test).traces
            return [_Piece((direct, moved), () if multiplied else jumps, words)]
        return [_Piece((direct,) if moved is None else (moved, direct), stuck=reason)]

    def twice(self, moved: WeakIntegrand) -> WeakIntegrand:
        """What was integrated by parts once more, where that can be done."""
        try:
            again = self.parts(moved.volume, sp.S.One)
        except UnsupportedTerm:
            return moved
        return WeakIntegrand(sp.expand_mul(again.volume), moved.traces + again.traces)

    def lowered(self, monomial: sp.Expr, order: int) -> sp.Expr:
        """A summand of third or higher order with auxiliary fields for second derivatives."""
        result = split(monomial, self.second_derivative)
        if order_of(result) >= order:
            raise UnsupportedTerm(
                f"derivatives of order {order} have no weak form here; write it with lap, or "
                "write a "
                "System with a field for a derivative of lower order",
                monomial,
            )
        return result

    def moved(self, monomial: sp.Expr, direct: WeakIntegrand) -> tuple[WeakIntegrand | None, str]:
        """The summand integrated by parts, if it can be, and what is wrong with that."""
        try:
            moved = self.solved(self.parts(monomial, self.test), direct.volume)
        except UnsupportedTerm as error:
            return None, error.reason
        return moved, self.lack(moved.volume)

    def solved(self, moved: WeakIntegrand, direct: sp.Expr) -> WeakIntegrand:
        """If the summand I came back, as in ∫ u' u'' v = R − ∫ u' u'' v, solve I = R + k I."""
        volume = sp.expand_mul(moved.volume)
        if self.conforming(volume) or isinstance(direct, sp.Add):
            return WeakIntegrand(volume, moved.traces)
        rest = [part for part in sp.Add.make_args(volume) if not (part / direct).is_Rational]
        factor = sp.Add(*(part / direct for part in sp.Add.make_args(volume) if part not in rest))
        if factor in (0, 1):
            return WeakIntegrand(volume, moved.traces)
        return WeakIntegrand(sp.Add(*rest), moved.traces).scaled(1 / (1 - factor))

    def combined(self, pieces: list[_Piece]) -> tuple[WeakIntegrand, tuple[Trace, ...]]:
        """The sum of all pieces with its jumps; pieces that nothing can be done about by
        themselves may cancel together.
        """
        unfinished = [piece for piece in pieces if piece.stuck or piece.jumps]
        for together in (unfinished, [piece for piece in pieces if piece.stuck]):
            ways = [piece.choices for piece in together]
            total = cancelling(
                ways, self.conforming, lambda part: not differentiates_jump(part), self.dimension
            )
            if total is not None:
                rest = [piece for piece in pieces if piece not in together]
                jumps = tuple(pair for piece in rest for pair in piece.jumps)
                return sum((piece.choices[0] for piece in rest), total), jumps
        raise UnsupportedTerm(next(piece.stuck for piece in pieces if piece.stuck))

    def lack(self, volume: sp.Expr, subject: str = "integration by parts leaves") -> str:
        """The sentence that names a derivative which an element lacks."""
        for derived in sorted(derivatives(volume), key=lambda d: (-d.order, str(d.field))):
            if not self.carries(derived):
                name = {"value": "value", "grad": "gradient"}.get(
                    derived.operator, derived.operator
                )
                what = name if derived.order == 1 else f"derivatives of order {derived.order}"
                kind = self.carriers[derived.field].description
                lacking = f"{subject} the {what} of {derived.field}, which its {kind} does not have"
                return f"{lacking}; {self.cure(derived.field)}" if derived.order == 1 else lacking
        return f"{subject} the derivative of a coefficient that jumps"

    def cure(self, field: Field | Known) -> str:
        """What to do about a first derivative that an element lacks."""
        if self.carriers[field].space == L2 and field != self.test:
            return (
                "take a Lagrange element, or write what belongs together as one term such as "
                f"div({field}*grad(u))"
            )
        return "take a Lagrange element"

    # Diffusion of discontinuous fields
    # ------------------------------------------------------------------------------------------

    def penalised(self, term: sp.Expr, whole: sp.Expr) -> WeakTerm:
        """A term of second order by the interior penalty method, its summands of lower order as
        they are.
        """
        summands = sp.Add.make_args(sp.expand_mul(whole))
        second = [part for part in summands if order_of(part) == 2 or self.multiplies(part)]
        lower = sp.Add(*(part for part in summands if part not in second))
        rest = WeakTerm(term, self.test, sp.S.Zero) if lower == 0 else self.weak_form(lower)
        moved = sum(
            (
                self.parts(part, self.test)
                if order_of(part) == 2
                else WeakIntegrand(inner(part, self.test))
                for part in second
            ),
            WeakIntegrand(),
        )
        found = {d.field for d in derivatives(moved.volume) if d.order} - {self.test}
        unknown = sorted((f for f in found if isinstance(f, Field)), key=str)
        for field in unknown:
            carried = self.carriers[field]
            if carried.space not in (L2, H1):
                raise UnsupportedTerm(f"{field} has a {carried.description} here", term)
        fields = [f for f in unknown if self.carriers[f].space == L2]
        for field in (self.test, *fields):
            if self.carriers[field].degree == 0:
                name = field if field != self.test else "the field of this equation"
                raise UnsupportedTerm(
                    f"{name} is constant on cells and has no gradient there; take DG of degree 1 "
                    "or higher",
                    term,
                )
        penalty = interior_penalty(moved.volume, self.test, fields, self.dimension)
        return replace(
            rest,
            term=term,
            volume=rest.volume + moved.volume,
            traces=rest.traces + moved.traces,
            penalties=(penalty,),
        )

    def conserved(self, term: sp.Expr) -> WeakTerm | None:
        """A nonlinear term of first order as a conservation law; None where means of both sides
        are conservative or upwind as it is.
        """
        fields = sorted(
            (
                d.field
                for d in derivatives(term)
                if d.order and isinstance(d.field, Field) and self.carriers[d.field].space == L2
            ),
            key=str,
        )
        if not fields or not is_nonlinear(term, self.equation, fields, self.dimension):
            return None
        found = conservation_form(term, fields, self.dimension)
        if found is None:
            raise UnsupportedTerm(
                "it is not linear and not the divergence of a flux, so it has no value between "
                "discontinuous cells; write it as div(…) of one, or take a Lagrange element",
                term,
            )
        tests = components(self.test, self.dimension)
        volume = sp.Add(
            *(
                rest * v - sp.Add(*(f * v.diff(SPACE[i]) for i, f in enumerate(row)))
                for row, rest, v in zip(found.fluxes, found.rest, tests, strict=True)
            )
        )
        if any(
            d.field not in (*fields, self.test) and not self.carries(d) for d in derivatives(volume)
        ):
            raise UnsupportedTerm(self.lack(volume), term)
        return WeakTerm(term, self.test, volume, conserved=found)

    def multiplies(self, monomial: sp.Expr) -> bool:
        """Whether a summand of first order multiplies derivatives that the elements lack, so that
        it can only cancel with what others leave.
        """
        if not self.must_move(monomial):
            return False
        try:
            self.parts(monomial, self.test)
        except UnsupportedTerm:
            return True
        return False

    # The discrete de Rham complex
    # ------------------------------------------------------------------------------------------

    def in_complex(self, term: sp.Expr) -> sp.Expr:
        """Second derivatives of H(curl) and H(div) fields in terms of grad div and curl curl."""
        changes = {}
        for node in term.atoms(Lap, Div):
            strain = (
                isinstance(node, Div)
                and isinstance(node.args[0], Sym)
                and isinstance(node.args[0].args[0], Grad)
            )
            field = (
                node.args[0]
                if isinstance(node, Lap)
                else node.args[0].args[0].args[0]
                if strain
                else sp.S.Zero
            )
            if self.lives_in(field, HCURL, HDIV):
                changes[node] = grad(div(field)) - curl(curl(field)) / (2 if strain else 1)
        return term.xreplace(changes)

    def lives_in(self, expr: sp.Expr, *spaces: str) -> bool:
        """Whether an expression is a vector field of one of these spaces, if need be times
        scalars or differentiated in time.
        """
        return any(
            d.whole
            and d.order == 0
            and isinstance(d.field, VectorField)
            and self.carriers[d.field].space in spaces
            for d in derivatives(expr)
        )

    def with_auxiliaries(self, monomial: sp.Expr) -> sp.Expr:
        """Replace divergences of H(curl) fields, and in terms of second order curls of H(div)
        fields, by auxiliary fields.
        """
        nodes = [
            node
            for node in monomial.atoms(Div)
            if self.lives_in(node.args[0], HCURL) and order_of(node) == 1
        ]
        if self.order == 2:
            nodes += [
                node
                for node in monomial.atoms(Curl)
                if self.lives_in(node.args[0], HDIV) and order_of(node) == 1
            ]
        return monomial.xreplace(
            {node: self.auxiliary(node).field for node in sorted(nodes, key=default_sort_key)}
        )

    def auxiliary(self, node: sp.Expr) -> Auxiliary:
        """The auxiliary field that stands for a divergence or curl."""
        if node not in self.auxiliaries:
            source = next(
                d.field
                for d in derivatives(node)
                if d.operator in ("div", "curl") and isinstance(d.field, Field)
            )
            # Equal operators share a name in all terms of a library, and different ones never do.
            mark = (
                ""
                if node.args[0] == source
                else f"_{sha256(sp.srepr(node).encode()).hexdigest()[:8]}"
            )
            kind = VectorField if shape_of(node) else ScalarField
            field = kind(
                fresh(f"{node.symbol}_{source.name}{mark}", self.elements), dim=self.dimension
            )
            self.define(node, field, before(self.elements[source]))
        return self.auxiliaries[node]

    def define(self, node: sp.Expr, field: Field, element: _ElementBase) -> None:
        """Introduce an auxiliary field."""
        definition = weak_form(node, field, {**self.elements, field: element}, known=self.known)
        self.auxiliaries[node] = Auxiliary(field, element, definition)
        self.elements[field], self.carriers[field] = element, carrier(element)

    def with_recovered(self, term: sp.Expr) -> sp.Expr:
        """Replace second derivatives of scalars on Lagrange elements in the summands that are not
        linear in them.
        """
        fields = {d.field for d in derivatives(term) if d.order == 2}
        if self.order != 2 or any(f.shape or self.carriers[f].space != H1 for f in fields):
            return term
        if any(derivatives(p.base) and not p.exp.is_Integer for p in term.atoms(sp.Pow)):
            return term  # a root of a Laplacian may be meant as an operator, which it is not here
        summands = []
        for monomial in sp.Add.make_args(sp.expand_mul(term)):
            found: set[sp.Dummy] = set()
            marked = split(monomial, lambda node, found=found: mark(node, found))
            plain = sp.Poly(marked, *found).total_degree() if marked.is_polynomial(*found) else 2
            is_linear = not found or plain < 2
            summands.append(
                monomial
                if is_linear
                else split(monomial, lambda node: self.second_derivative(node, recovered(node)))
            )
        return sp.Add(*summands)

    def second_derivative(self, node: sp.Expr, stand: Field | None = None) -> Field:
        """The auxiliary field for a second derivative of a field on a conforming element."""
        if node not in self.auxiliaries:
            source, field = base_of(node.args[0]), stand_in(node) if stand is None else stand
            element = self.elements[source]
            if self.carriers[source].space != H1:
                kind = self.carriers[source].description
                raise UnsupportedTerm(
                    f"terms of third and higher order need a Lagrange element, not a {kind}", node
                )
            if field.name in {other.name for other in self.elements}:
                raise UnsupportedTerm(
                    f"a field is called {field.name}, which is the name of an auxiliary field; "
                    "rename it",
                    node,
                )
            self.define(
                node, field, element if field.shape or not source.shape else element.sub_elements[0]
            )
        return self.auxiliaries[node].field
