# SPDX-License-Identifier: MIT
"""Terms given as UFL forms, for what the term language cannot say: `Form(lambda u, v, dx: …)`.

In a library a form becomes a `FormTerm`, one symbol that knows its fields and has no formula. It is
compiled once and deleted like any term, and UFL differentiates it for Newton's method, tangents and
adjoints. What is decided by formulas (regression rows, proofs that a term vanishes on a class,
guaranteed error bounds, which conditions a deleted equation carries) leaves it out and says so.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any

import sympy as sp

from cffem.symbols.algebra.components import Entries, _entries
from cffem.symbols.algebra.nodes import Node
from cffem.symbols.algebra.shapes import Shape
from cffem.symbols.errors import SymbolError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Field

if TYPE_CHECKING:
    from sympy.printing.printer import Printer

# What a form may ask for by name besides its fields and the test function.
MEASURES = ("dx", "ds", "dS")


class NoFormula(SymbolError):
    """A term given as a form was asked for its formula."""


class Form:
    """A term given as a UFL form, ⟨T[u], v⟩ = ∫ … dx, for what SymPy terms cannot say.

    The form is what the equation gets: no integration by parts is done, and boundary integrals are
    those that it contains. Where it is the flux form of a divergence, −∫ k ∇u·∇v dx, the natural
    trace of its equation is zero where nothing else is given, and `cf.Natural` gives it.

    Args:
        function: takes the fields as UFL expressions, the test function of the equation, and of
            the measures `dx`, `ds` and `dS` those it names; their tags are those of the mesh.
        linear: whether it is linear in the fields, which is checked; None: UFL finds out.
        fields: what the first arguments stand for, fields of the model, `dt(u)`, `t` or expressions
            in them; default: the unknown of the equation.

    Example:
        >>> import cffem as cf, ufl
        >>> u = cf.ScalarField("u")
        >>> flux = cf.Form(lambda u, v, dx: -ufl.exp(u) * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx)
        >>> library = cf.Library(anchor=cf.dt(u), terms={"flux": flux, "decay": -u})
        >>> library.dependence("flux"), library.dependence("decay")
        ('nonlinear', 'linear')
    """

    def __init__(
        self,
        function: Callable[..., object],
        linear: bool | None = None,
        fields: Sequence[ExpressionLike] | None = None,
    ):
        if not callable(function):
            raise SymbolError(
                f"Form takes a function of the fields, the test function and dx, not {function!r}"
            )
        names = _parameters(function)
        self.measures = tuple(name for name in names if name in MEASURES)
        self.fields = None if fields is None else tuple(fields)
        self.function, self.linear = function, linear
        count = len(names) - len(self.measures) - 1
        wanted = 1 if self.fields is None else len(self.fields)
        if count != wanted or not self.measures:
            given = "one field" if self.fields is None else f"{wanted} fields"
            raise SymbolError(
                f"the function of a Form with {given} takes {wanted} argument"
                f"{'s' * (wanted > 1)}, the test function and dx, but it takes "
                f"({', '.join(names)}); name several fields in fields=(…)"
            )
        self.name = getattr(function, "__name__", "form").strip("<>")
        self.digest = hashlib.sha256(repr(_content(function)).encode()).hexdigest()[:8]

    def term(self, unknown: Field) -> FormTerm:
        """The term in the equation of a field."""
        return FormTerm(self, unknown, *((unknown,) if self.fields is None else self.fields))

    def _sympy_(self) -> sp.Expr:
        raise SymbolError(
            "a Form stands alone as a term of a Library; its factor is its coefficient, and its "
            "part of the domain is named by the tags of its measures"
        )

    def _refuse(self, other: object = None) -> Any:
        return self._sympy_()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = _refuse


class FormTerm(Node):
    """A form as a term of an equation: one symbol without a formula."""

    __slots__ = ("form",)
    symbol = "form"
    form: Form

    def __new__(cls, form: Form, unknown: Field, *fields: sp.Expr) -> FormTerm:
        node = sp.Expr.__new__(cls, unknown, *map(sp.sympify, fields))
        node.held = False
        node.form = form
        return node

    @property
    def func(self) -> Callable[..., sp.Expr]:
        return partial(FormTerm, self.form)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.form.digest, *self.args)

    def sort_key(self, order: object = None) -> tuple[object, ...]:
        return self.class_key(), (1, (str(self),)), sp.S.One.sort_key(), sp.S.One

    def doit(self, **hints: object) -> sp.Expr:
        return self

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        raise NoFormula(f"{self} is given as a UFL form and has no formula to differentiate")

    @property
    def unknown(self) -> Field:
        """The field of its equation."""
        return self.args[0]

    @property
    def arguments(self) -> tuple[sp.Expr, ...]:
        """What the first arguments of the function stand for."""
        return self.args[1:]

    @property
    def shape(self) -> Shape:
        return self.unknown.shape

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.form.name}_{self.form.digest}({', '.join(map(str, self.arguments))})"

    def _latex(self, printer: Printer) -> str:
        inside = ", ".join(map(printer._print, self.arguments))
        name = self.form.name.replace("_", r"\_")
        return rf"\text{{{name}}}\left({inside}\right)"


@_entries.register
def _(expr: FormTerm, dim: int) -> Entries:
    raise NoFormula(f"{expr} is given as a UFL form and has no formula")


def forms_among(terms: Iterable[tuple[str, sp.Expr]]) -> tuple[str, ...]:
    """The names of the terms that are given as forms."""
    return tuple(name for name, term in terms if term.has(FormTerm))


def _parameters(function: Callable[..., object]) -> list[str]:
    """The names of the positional parameters of a function without defaults."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise SymbolError("the function of a Form must tell its arguments") from None
    return [p.name for p in found if p.default is p.empty]


def _content(thing: Any) -> Any:
    """What a function does, as far as its code, its constants and the plain values it sees tell."""
    if isinstance(thing, CodeType):
        constants = tuple(map(_content, thing.co_consts))
        return thing.co_code.hex(), constants, thing.co_names, thing.co_varnames
    if isinstance(thing, partial):
        return _content(thing.func), tuple(map(_content, thing.args)), repr(thing.keywords)
    code = getattr(thing, "__code__", None)
    if code is None:
        plain = isinstance(thing, int | float | str | bytes | tuple | sp.Basic) or thing is None
        return repr(thing) if plain else type(thing).__qualname__
    cells = [cell.cell_contents for cell in thing.__closure__ or ()]
    seen = [thing.__globals__[name] for name in code.co_names if name in thing.__globals__]
    values = [value for value in (*cells, *seen) if isinstance(value, int | float | str | sp.Basic)]
    return _content(code), tuple(map(repr, values)), repr(thing.__defaults__)
