# SPDX-License-Identifier: MIT
"""Which derivatives of which fields an expression takes: the innermost operator on each field and
the total order in space.

The innermost operator matters because an H(curl) field has a curl and nothing else. It counts as a
curl or divergence only where it acts on the field itself, if need be times a scalar; the divergence
of a cross product, say, takes all first derivatives.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache, singledispatch

import sympy as sp

from cffem.symbols.coordinates import SPACE
from cffem.symbols.fields import Component, Field, VectorField
from cffem.symbols.known import Known, KnownEntry, KnownTensor
from cffem.symbols.operators import Curl, Div, Grad, Lap, Node


@dataclass(frozen=True)
class Derived:
    """A derivative of a field.

    Attributes:
        field: the field.
        operator: the innermost operator, "value", "grad", "div" or "curl".
        order: the number of derivatives in space.
        whole: whether operators so far acted on the field as a whole and not on a component or a
            nonlinear function of it.
    """

    field: Field | Known
    operator: str = "value"
    order: int = 0
    whole: bool = True

    def under(self, operator: str, order: int = 1) -> Derived:
        """This derivative with a further operator applied."""
        if self.order:
            return replace(self, order=self.order + order)
        intact = operator == "grad" or (
            self.whole and isinstance(self.field, VectorField | KnownTensor)
        )
        return replace(self, operator=operator if intact else "grad", order=order)


@lru_cache(maxsize=4096)
def derivatives(expr: sp.Basic) -> frozenset[Derived]:
    """The derivatives of fields that occur in an expression; time derivatives count as the field
    itself.

    Example:
        >>> import cffem as cf
        >>> E = cf.VectorField("E", dim=3)
        >>> [(d.field, d.operator, d.order) for d in derivatives(cf.curl(cf.curl(E)))]
        [(E, 'curl', 2)]
    """
    return frozenset(_walk(expr))


@singledispatch
def _walk(expr: sp.Basic) -> set[Derived]:
    return {replace(d, whole=False) for arg in expr.args for d in derivatives(arg)}


@_walk.register(Field)
def _(expr: Field) -> set[Derived]:
    return {Derived(expr)}


@_walk.register(Known)
def _(expr: Known) -> set[Derived]:
    return {Derived(expr)}


@_walk.register(KnownEntry)
def _(expr: KnownEntry) -> set[Derived]:
    return {replace(d, whole=False) for d in derivatives(expr.known)}


@_walk.register(Component)
def _(expr: Component) -> set[Derived]:
    return {replace(d, whole=False) for d in derivatives(expr.field)}


@_walk.register(sp.Add)
@_walk.register(sp.Mul)
def _(expr: sp.Expr) -> set[Derived]:
    return {d for arg in expr.args for d in derivatives(arg)}


@_walk.register(sp.Derivative)
def _(expr: sp.Derivative) -> set[Derived]:
    order = sum(int(count) for variable, count in expr.variable_count if variable in SPACE)
    return {d.under("grad", order) if order else d for d in derivatives(expr.expr)}


@_walk.register(Grad)
def _(expr: Grad) -> set[Derived]:
    return {d.under("grad") for d in derivatives(expr.args[0])}


@_walk.register(Lap)
def _(expr: Lap) -> set[Derived]:
    return {d.under("grad", 2) for d in derivatives(expr.args[0])}


@_walk.register(Div)
def _(expr: Div) -> set[Derived]:
    return {d.under("div") for d in derivatives(expr.args[0])}


@_walk.register(Curl)
def _(expr: Curl) -> set[Derived]:
    return {d.under("curl") for d in derivatives(expr.args[0])}


def differentiated(expr: sp.Basic) -> list[Field]:
    """The unknown fields whose derivatives an expression takes, by name."""
    found = {d.field for d in derivatives(expr) if d.order > 0 and isinstance(d.field, Field)}
    return sorted(found, key=str)


def order_of(expr: sp.Basic) -> int:
    """The highest order in space of the derivatives of fields in an expression."""
    return max((d.order for d in derivatives(expr)), default=0)


def is_held(node: sp.Basic) -> bool:
    """Whether an operator was kept as written with `evaluate=False`, or because a coefficient
    under it jumps.
    """
    return isinstance(node, Node) and bool(getattr(node, "held", False))
