# SPDX-License-Identifier: MIT
"""Terms modulo a constraint, proved symbolically: normal forms in the jets of fields that obey it.

Values of a field and its derivatives at a point can be chosen freely, except that a constraint c(u)
= 0 and all its derivatives tie some of them together. Solving each component of c for its leading
derivative (highest order, then last component) gives rewriting rules; a term in which no leading
derivative is left is in normal form. For one linear scalar constraint such as div E = 0 this
decides the question: a term vanishes on the class if and only if its normal form is zero. For
systems of constraints it proves.

An equation tested against the class only (Leray or Helmholtz projected) does not see gradients:
there a term is represented by its curl, which vanishes exactly for gradients. Where the weight of a
constraint jumps, components would lose the interface, and only the constraint as a whole is
replaced by zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy as sp
from sympy.core.sorting import default_sort_key

from cffem.symbols.algebra.analysis import canonical, fingerprint, jet
from cffem.symbols.algebra.components import Entries
from cffem.symbols.algebra.nodes import dimension_of
from cffem.symbols.coordinates import COORDINATES, SPACE, Parameter
from cffem.symbols.fields import Component, Field
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.operators import curl, has_jump, vector
from cffem.symbols.problem.constraint_classes import Constraint, DivergenceFree

if TYPE_CHECKING:
    pass


Row = Mapping[Any, sp.Expr]


class Modulo:
    """Rewriting modulo a constraint.

    Args:
        constraint: the constraint.
        dimension: the dimension of space.

    Example:
        >>> import cffem as cf
        >>> E = cf.VectorField("E", dim=3)
        >>> modulo = Modulo(cf.DivergenceFree(E), 3)
        >>> (
        ...     modulo.vanishes(cf.grad(cf.div(E))),
        ...     modulo.vanishes(cf.curl(cf.curl(E)) + cf.lap(E)),
        ...     modulo.vanishes(cf.lap(E)),
        ... )
        (True, True, False)
    """

    def __init__(self, constraint: Constraint, dimension: int | None = None):
        self.constraint = constraint
        self.dimension = dimension or dimension_of(constraint.expr) or 3
        self.jumps = has_jump(constraint.expr)
        self._reduced: dict[sp.Expr, sp.Expr] = {}
        self.rules: list[tuple[sp.Expr, dict[sp.Basic, int], sp.Expr]] = []
        if constraint.pointwise and not self.jumps:
            entries = canonical(constraint.expr, self.dimension)
            self.rules = [
                self._rule(entry) for entry in sorted(entries, key=default_sort_key) if entry != 0
            ]

    def _rule(self, condition: sp.Expr) -> tuple[sp.Expr, dict[sp.Basic, int], sp.Expr]:
        """The leading derivative of a condition (component and orders), and what it equals."""
        leader = max(jet([condition], self.constraint.fields), key=_rank)
        factors = by_jets(condition)
        leading = factors.pop(leader)
        value, orders = _value_and_orders(leader)
        # Coefficient by coefficient, so that the leading derivative is gone and no common factor is
        # left to grow.
        return (
            value,
            orders,
            sp.Add(*(-sp.cancel(factor / leading) * jets for jets, factor in factors.items())),
        )

    # Normal forms
    # ----------------------------------------------------------------------------------------------

    def normal_form(self, term: sp.Expr) -> Entries:
        """The components of a term on the class, in jets that are independent there.

        A term that is given as a form has none; symbols stand for them, so that nothing is proved
        of it.
        """
        if isinstance(term, FormTerm):
            count = self.dimension if term.shape else 1
            return tuple(sp.Symbol(f"{term}[{i}]") for i in range(count))
        if self.jumps:
            term = sp.sympify(term).xreplace({self.constraint.expr: sp.S.Zero})
        return tuple(sp.expand(self.reduce(entry)) for entry in canonical(term, self.dimension))

    def tested_against_class(self, term: sp.Expr) -> Entries:
        """What a projected equation sees of a vector term: the normal form of its curl,
        divided by the weight.
        """
        if isinstance(term, FormTerm):
            return self.normal_form(term)
        weight = self.constraint.weight if isinstance(self.constraint, DivergenceFree) else sp.S.One
        parts = [entry / weight for entry in self.normal_form(term)]
        rotated = canonical(curl(vector(*parts)), self.dimension)
        return tuple(sp.expand(self.reduce(entry)) for entry in rotated)

    def reduce(self, entry: sp.Expr) -> sp.Expr:
        """Replace leading derivatives and their derivatives until none is left."""
        for _ in range(64):
            changes = {
                value: self._replacement(value) for value in jet([entry], self.constraint.fields)
            }
            changes = {old: new for old, new in changes.items() if old != new}
            if not changes:
                return entry
            entry = sp.expand(entry.xreplace(changes))
        return entry

    def _replacement(self, derivative: sp.Expr) -> sp.Expr:
        if derivative not in self._reduced:
            self._reduced[derivative] = derivative
            value, orders = _value_and_orders(derivative)
            for leader, leading, equal in self.rules:
                if value == leader and all(
                    orders.get(s, 0) >= count for s, count in leading.items()
                ):
                    further = [
                        (s, count - leading.get(s, 0))
                        for s, count in orders.items()
                        if count > leading.get(s, 0)
                    ]
                    derived = equal.diff(*further) if further else equal
                    self._reduced[derivative] = sp.Add(
                        *(sp.cancel(f) * jets for jets, f in by_jets(derived).items())
                    )
                    break
        return self._reduced[derivative]

    # Questions
    # ----------------------------------------------------------------------------------------------

    def vanishes(self, term: sp.Expr) -> bool:
        """Whether it is proved that a term is zero on the class."""
        return entries_vanish(self.normal_form(term))

    def is_gradient(self, term: sp.Expr) -> bool:
        """Whether it is proved that a vector term is a gradient on the class (times the
        constraint's weight).

        A term without curl is a gradient where closed loops bound; what depends on the coordinates
        alone could still go round a hole, so it must be free of singularities.
        """
        if (
            self.jumps
            or isinstance(term, FormTerm)
            or len(canonical(term, self.dimension)) != self.dimension
            or self.dimension < 2
        ):
            return False
        fixed = [
            entry.xreplace(dict.fromkeys(jet([entry]), sp.S.Zero))
            for entry in self.normal_form(term)
        ]
        smooth = all(sp.expand(entry).is_polynomial(*SPACE) for entry in fixed)
        return smooth and entries_vanish(self.tested_against_class(term))


def entries_vanish(entries: Sequence[sp.Expr]) -> bool:
    """Whether component expressions are all zero; random numbers say no, only SymPy says yes."""
    if all(entry == 0 for entry in entries):
        return True
    sample = fingerprint(tuple(entries))
    if sample is not None and any(abs(value) > 1e-9 for value in sample):
        return False
    return all(sp.simplify(factor) == 0 for entry in entries for factor in by_jets(entry).values())


def by_jets(entry: sp.Expr) -> dict[sp.Expr, sp.Expr]:
    """The coefficients (functions of the coordinates) of an expression, by its jet monomials."""
    found: dict[sp.Expr, list[sp.Expr]] = {}
    for monomial in sp.Add.make_args(sp.expand(entry)):
        factors = sp.Mul.make_args(monomial)
        jets = sp.Mul(*(f for f in factors if f.atoms(Field)))
        found.setdefault(jets, []).append(sp.Mul(*(f for f in factors if not f.atoms(Field))))
    return {jets: sp.Add(*factors) for jets, factors in found.items()}


def coordinates_of(entries: Sequence[sp.Expr]) -> Row:
    """Components as a vector over constants: the coefficient of every monomial in jets and
    coordinates, by component.
    """
    row: dict[sp.Basic, sp.Expr] = {}
    for index, entry in enumerate(entries):
        for monomial in sp.Add.make_args(sp.expand(entry)):
            constants = [f for f in sp.Mul.make_args(monomial) if not _varies(f)]
            rest = sp.Mul(*(f for f in sp.Mul.make_args(monomial) if _varies(f)))
            key = (index, rest)
            row[key] = row.get(key, sp.S.Zero) + sp.Mul(*constants)
    return {key: value for key, value in row.items() if value != 0}


def _varies(factor: sp.Expr) -> bool:
    """Whether a factor is no constant: parameters are constants."""
    return bool(factor.atoms(Field)) or any(
        s in COORDINATES and not isinstance(s, Parameter) for s in factor.free_symbols
    )


def _value_and_orders(derivative: sp.Expr) -> tuple[sp.Expr, dict[sp.Basic, int]]:
    """The field component under a derivative, and how often each coordinate is differentiated."""
    if isinstance(derivative, sp.Derivative):
        return derivative.expr, {s: int(count) for s, count in derivative.variable_count}
    return derivative, {}


def _rank(derivative: sp.Expr) -> tuple[Any, ...]:
    """The ranking of derivatives: order first, then the component, then the direction;
    derivatives keep it.
    """
    value, orders = _value_and_orders(derivative)
    index = value.index if isinstance(value, Component) else 0
    counts = tuple(orders.get(s, 0) for s in COORDINATES)
    return sum(counts), str(value.field if isinstance(value, Component) else value), index, counts
