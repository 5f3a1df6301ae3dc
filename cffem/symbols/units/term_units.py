# SPDX-License-Identifier: MIT
"""Units of terms: what follows for a term, and for its coefficient, from those of its fields.

What has no unit counts as a pure number. Only quantities in the same unit can be added, and only
pure numbers have a sine or an exponential, so that a term that hides a constant with a unit is
found when the study is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra import nodes
from cffem.symbols.algebra.shapes import shape_of
from cffem.symbols.algebra.tensor_nodes import Det, Inverse
from cffem.symbols.coordinates import SPACE, t
from cffem.symbols.errors import nearest
from cffem.symbols.fields import Component, Field, Normal
from cffem.symbols.form_terms import FormTerm
from cffem.symbols.known import Known, KnownEntry
from cffem.symbols.restricted import On
from cffem.symbols.units.unit import ONE, Unit, UnitError, read_quantity, read_unit

if TYPE_CHECKING:
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System

SAME = (nodes.Transpose, nodes.Sym, nodes.TensorTrace, sp.Abs, sp.re, sp.im)
ENTRIES = (nodes.ByEntries, sp.Add, sp.Max, sp.Min)
PRODUCTS = (nodes.Product, sp.Mul)
SIGNS = (sp.sign, sp.Heaviside, sp.floor, sp.ceiling)


class NoUnit(UnitError):
    """The unit of a term cannot be told from a formula."""


class Units:
    """The units of a study.

    Args:
        given: a unit for each name: `x` for all coordinates in space, `t`, fields, known fields
            and parameters.
        library: the library or system whose terms are checked.

    Attributes:
        coefficients: by term the unit of its coefficient; without terms that act in a part or are
            forms, whose unit no formula tells.

    Raises:
        UnitError: a name is not there, a unit does not exist, or a term adds what cannot be added.

    Example:
        >>> import cffem as cf
        >>> T = cf.ScalarField("T")
        >>> library = cf.Library(anchor=cf.dt(T), terms={"lap": cf.lap(T), "cooling": -T})
        >>> units = Units({"x": "km", "t": "d", "T": "K"}, library)
        >>> {name: str(unit) for name, unit in units.coefficients.items()}
        {'lap': 'km^2/d', 'cooling': '1/d'}
        >>> units.number("lap", "1000 m^2/s")
        86.4
    """

    def __init__(self, given: Mapping[str, str], library: Library | System):
        self.library = library
        self.given = {str(name): _unit(name, text) for name, text in given.items()}
        expressions = [e for each in library.equations.values() for e in _expressions(each)]
        names = _names(expressions)
        for name in self.given:
            if name not in names:
                raise UnitError(
                    f"units: {name!r} is neither x, t, a field, a known field nor a parameter of "
                    f"this study; {nearest(name, names)}"
                )
        self.rates = {
            unknown: None if each.anchor is None else self._told("the anchor", each.anchor)
            for unknown, each in library.equations.items()
        }
        self.terms: dict[str, Unit] = {}
        for name, term in library.items():
            try:
                self.terms[name] = self._told(f"the term {name!r}", term)
            except NoUnit:
                continue
        self.coefficients: dict[str, Unit] = {}
        for name, unit in self.terms.items():
            rate = self.rates[library.locate(name)[0]]
            if rate is not None:
                self.coefficients[name] = rate / unit

    def _told(self, what: str, expr: sp.Expr) -> Unit:
        try:
            return unit_of(expr, self.given) or ONE
        except NoUnit:
            raise
        except UnitError as error:
            raise UnitError(f"units: {what}: {error}") from None

    def number(self, name: str, value: float | str) -> float:
        """A coefficient as a number in the units of the study.

        Args:
            name: its term.
            value: a number, which is taken as it is, or text with a unit, which is checked.
        """
        if not isinstance(value, str):
            return value
        if name not in self.library.names:
            raise UnitError(f"coefficient of {name!r}: {nearest(name, self.library.names)}")
        try:
            number, unit = read_quantity(value)
        except UnitError as error:
            raise UnitError(f"coefficient of {name!r}: {error}") from None
        if name not in self.terms:
            raise UnitError(
                f"coefficient of {name!r}: the unit of a term that acts in a part of the domain or "
                "is a form is not known; give a number"
            )
        unknown = self.library.locate(name)[0]
        if self.rates[unknown] is None:  # the first coefficient of a steady equation decides
            decided = unit * self.terms[name]
            self.rates[unknown] = decided
            self.coefficients |= {
                each: decided / known
                for each, known in self.terms.items()
                if self.library.locate(each)[0] == unknown
            }
        wanted = self.coefficients[name]
        if not unit.alike(wanted):
            raise UnitError(
                f"coefficient of {name!r}: it is in {wanted}, as the anchor is in "
                f"{self.rates[unknown]} and the term in {self.terms[name]}, and {unit} measures "
                "something else; names without a unit count as pure numbers"
            )
        return float(number * unit.factor / wanted.factor)

    def to_dict(self) -> dict[str, object]:
        """The units as plain data for a report."""
        return {
            "given": {name: str(unit) for name, unit in self.given.items()},
            "coefficients": {name: str(unit) for name, unit in self.coefficients.items()},
        }


def _unit(name: object, text: object) -> Unit:
    try:
        return read_unit(text)  # type: ignore[arg-type]
    except UnitError as error:
        raise UnitError(f"units: {name}: {error}") from None


def _expressions(equation: Library) -> list[sp.Expr]:
    anchor = [] if equation.anchor is None else [equation.anchor]
    return [*anchor, *equation.terms.values()]


def _names(expressions: list[sp.Expr]) -> set[str]:
    found = {"x", "t"}
    for expr in expressions:
        for node in sp.preorder_traversal(expr):
            if isinstance(node, Field | Known):
                found.add(node.name)
            elif isinstance(node, sp.Symbol) and node not in (*SPACE, t):
                found.add(str(node))
    return found


def unit_of(expr: sp.Basic, given: Mapping[str, Unit]) -> Unit | None:
    """The unit of an expression; None for zero, which has any.

    Raises:
        UnitError: it adds different things, or takes a function of what is no pure number.
        NoUnit: it acts in a part or is a form.
    """
    if isinstance(expr, On | FormTerm):
        raise NoUnit("terms in a part and forms have no unit that a formula tells")
    if expr.is_number and not expr.has(Field, Known):
        return None if expr.is_zero else ONE
    if isinstance(expr, sp.Symbol):
        name = "x" if expr in SPACE else str(expr)
        return given.get(name, ONE)
    if isinstance(expr, Component | KnownEntry):
        return unit_of(expr.args[0], given)
    if isinstance(expr, Field | Known):
        return given.get(expr.name, ONE)
    if isinstance(expr, Normal):
        return ONE
    return _unit_of_operation(expr, given)


def _unit_of_operation(expr: sp.Basic, given: Mapping[str, Unit]) -> Unit | None:
    length = given.get("x", ONE)
    if isinstance(expr, sp.Derivative):
        unit = unit_of(expr.expr, given)
        for variable, count in expr.variable_count:
            known = unit_of(variable, given) or ONE
            unit = None if unit is None else unit / known ** Fraction(int(count))
        return unit
    if isinstance(expr, nodes.Grad | nodes.Div | nodes.Curl | nodes.Lap):
        unit = unit_of(expr.args[0], given)
        power = Fraction(2 if isinstance(expr, nodes.Lap) else 1)
        return None if unit is None else unit / length**power
    if isinstance(expr, PRODUCTS):
        product = ONE
        for each in [unit_of(arg, given) for arg in expr.args]:
            if each is None:
                return None
            product = product * each
        return product
    if isinstance(expr, Det | Inverse):
        unit = unit_of(expr.args[0], given)
        rows = (shape_of(expr.args[0])[0] or 0) if isinstance(expr, Det) else -1
        return None if unit is None else unit ** Fraction(rows)
    if isinstance(expr, SAME):
        return unit_of(expr.args[0], given)
    if isinstance(expr, sp.Piecewise):
        return _one_unit(expr, [value for value, _ in expr.args], given)
    if isinstance(expr, ENTRIES):
        return _one_unit(expr, list(expr.args), given)
    if isinstance(expr, sp.Pow):
        return _power(expr, given)
    if isinstance(expr, SIGNS):
        return ONE
    return _function(expr, given)


def _one_unit(expr: sp.Basic, parts: list[sp.Basic], given: Mapping[str, Unit]) -> Unit | None:
    found = [(part, unit_of(part, given)) for part in parts]
    known = [(part, unit) for part, unit in found if unit is not None]
    if not known:
        return None
    first, unit = known[0]
    for part, other in known[1:]:
        if other is not None and unit is not None and not unit.same(other):
            raise UnitError(
                f"{first} is in {unit} and {part} in {other}, so that they cannot be added; make "
                "them terms of their own, or give a parameter the unit that is missing"
            )
    return unit


def _power(expr: sp.Basic, given: Mapping[str, Unit]) -> Unit | None:
    base, power = expr.args
    unit = unit_of(base, given)
    raised = unit_of(power, given)
    if raised is not None and not raised.same(ONE):
        raise UnitError(f"{expr} has a power in {raised}, which must be a pure number")
    if unit is None or unit.same(ONE):
        return unit
    if not power.is_Rational:
        raise UnitError(f"{expr} raises {unit} to a power that is no fraction")
    return unit ** Fraction(int(power.p), int(power.q))


def _function(expr: sp.Basic, given: Mapping[str, Unit]) -> Unit:
    for arg in expr.args:
        unit = unit_of(arg, given) if isinstance(arg, sp.Expr) else None
        if unit is not None and not unit.same(ONE):
            raise UnitError(
                f"{expr} is a function of {unit}, and only pure numbers have one; divide by a "
                "parameter in that unit"
            )
    return ONE
