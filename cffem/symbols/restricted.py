# SPDX-License-Identifier: MIT
"""Terms in a part: `on("coast", -v)` acts in a subdomain, on a part of the boundary or on a surface
inside, as the mesh names it.

In the weak form such a term is integrated over that part alone: ∫_coast −v·w dx, or ∮_wall −β v·w
ds. For everything that is decided by symbols (multiples, dependence, null terms) it is the term
times the indicator of the part, a function of place that no formula knows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.expr import AtomicExpr

from cffem.symbols.algebra.components import Entries, _entries
from cffem.symbols.algebra.nodes import Node, as_expr
from cffem.symbols.algebra.shapes import Shape, shape_of
from cffem.symbols.errors import SymbolError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.known import KnownScalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from sympy.printing.printer import Printer


class Indicator(KnownScalar):
    """One in a part of the domain and zero elsewhere."""

    __slots__ = ()

    def __new__(cls, name: str, **_: object) -> Indicator:
        obj = AtomicExpr.__new__(cls)
        obj.name, obj.dim, obj.smooth = name, None, False
        return obj

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        return (self.name,), {}

    @property
    def plain(self) -> Indicator:
        """Itself: it has no smooth twin."""
        return self

    def _sympystr(self, printer: Printer) -> str:
        return f"on_{self.name}"


class On(Node):
    """A term that acts in one part only."""

    __slots__ = ("place",)
    symbol = "on"
    place: str

    def __new__(cls, place: str, expr: object) -> sp.Expr:
        inner = as_expr(expr)
        if inner == 0:
            return sp.S.Zero
        if inner.has(On):
            raise SymbolError(f"on({place!r}, …) within another on(…) names two parts at once")
        shape_of(inner)
        node = sp.Expr.__new__(cls, inner)
        node.held = False
        node.place = place
        return node

    @property
    def func(self) -> Callable[..., sp.Expr]:
        return partial(On, self.place)

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        return (self.place, *self.args), {}

    def _hashable_content(self) -> tuple[object, ...]:
        return (self.place, *self.args)

    def sort_key(self, order: object = None) -> tuple[object, ...]:
        (inner,) = self.args
        return self.class_key(), (1, (self.place, inner.sort_key())), sp.S.One.sort_key(), sp.S.One

    def doit(self, **hints: object) -> sp.Expr:
        return On(self.place, self.args[0].doit(**hints))

    @property
    def shape(self) -> Shape:
        return shape_of(self.args[0])

    def _sympystr(self, printer: Printer) -> str:
        return f"on({self.place!r}, {printer._print(self.args[0])})"

    def _latex(self, printer: Printer) -> str:
        words = self.place.replace("_", r"\_")
        return rf"\left.{printer._print(self.args[0])}\right|_{{\text{{{words}}}}}"


@_entries.register
def _(expr: On, dim: int) -> Entries:
    return tuple(Indicator(expr.place) * entry for entry in _entries(expr.args[0], dim))


def on(part: str | tuple[str, ...], expr: ExpressionLike) -> sp.Expr:
    """A term that acts in a part: a subdomain, a part of the boundary, or a surface in the mesh.

    In a subdomain the weak form of the term is integrated over its cells only. On a part of the
    boundary the term is ∮ expr·v ds, friction, slip, heat loss or an impedance as a term that can
    be deleted; there `cf.n` is the outward normal. On a surface inside it is the same integral, of
    the mean of both sides, each with its own outward normal.

    Args:
        part: the name of the part, or several.
        expr: the term.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> print(cf.Library(cf.dt(u), {"lap": cf.lap(u), "loss": cf.on("wall", -u)})["loss"])
        on('wall', -u)
    """
    names = part if isinstance(part, tuple | list) else (part,)
    if not names or not all(isinstance(name, str) and name.strip() == name != "" for name in names):
        raise SymbolError(f"on(…) takes the name of a part of the mesh, not {part!r}")
    if len({*names}) != len(names):
        raise SymbolError(f"on({part!r}, …) names a part twice")
    return sp.Add(*(On(name, expr) for name in names))


def split_parts(term: sp.Expr) -> tuple[sp.Expr, dict[str, sp.Expr]]:
    """What acts everywhere, and what acts in each named part.

    Raises:
        SymbolError: an `on` stands inside an operator or a function.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> split_parts(cf.lap(u) - 2 * cf.on("wall", u))
        (lap(u), {'wall': -2*u})
    """
    if not term.has(On):
        return term, {}
    plain, parts = sp.S.Zero, dict[str, sp.Expr]()
    for monomial in sp.Add.make_args(sp.expand_mul(term)):
        factors = sp.Mul.make_args(monomial)
        inside = [factor for factor in factors if isinstance(factor, On)]
        rest = sp.Mul(*(factor for factor in factors if not isinstance(factor, On)))
        if rest.has(On) or len(inside) > 1:
            raise SymbolError(
                f"{monomial}: on(…) stands outside of operators and functions, as in "
                "on('coast', div(k*grad(u)))"
            )
        if inside:
            name = inside[0].place
            parts[name] = parts.get(name, sp.S.Zero) + rest * inside[0].args[0]
        else:
            plain += monomial
    return plain, parts
