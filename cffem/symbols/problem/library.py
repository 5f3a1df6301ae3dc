# SPDX-License-Identifier: MIT
"""The library: one anchor and the candidate terms of anchor[u] = Σ_j α_j T_j[u] + forcing, checked
when it is written down.

A library without anchor is a steady equation 0 = Σ_j α_j T_j[u] + forcing. Libraries never change:
`without`, `restrict` and `with_terms` return new ones.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

import sympy as sp

from cffem.symbols import term_tables as tables
from cffem.symbols.algebra import analysis
from cffem.symbols.algebra.shapes import Shape, shape_of
from cffem.symbols.coordinates import COORDINATES, Parameter, t
from cffem.symbols.errors import LibraryError, nearest
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Field, ScalarField, VectorField
from cffem.symbols.form_terms import Form, FormTerm
from cffem.symbols.known import Known
from cffem.symbols.problem.term_checks import (
    check_distinct,
    check_fields,
    check_shape,
    check_symbols,
    checked_terms,
    named_expression,
)
from cffem.symbols.restricted import On


class CandidateTerms(Protocol):
    """An anchor and candidate terms by name: all that regression rows are made of."""

    @property
    def anchor(self) -> sp.Expr | None: ...

    @property
    def terms(self) -> Mapping[str, sp.Expr]: ...


class Library(Mapping[str, sp.Expr]):
    """Candidate terms of one equation.

    Args:
        anchor: the term with coefficient one on the left: `dt(u)`, `dt(dt(u))`, one of them with a
            weight (`rho*dt(u)`, `dot(M, dt(v))`; `rho` a number, a `Known` or an expression), a
            steady expression, or None.
        terms: the candidates by name; numbers and tuples are constants and constant vectors, and
            a `Form` is a term given in UFL.
        unknown: the field this equation is for, where the anchor does not tell.
        parameters: values of the `Parameter`s that occur, as far as they are known now.

    Raises:
        LibraryError: the message names the term that is undeclared, misshapen, zero or a multiple
            of another.

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols import Library
        >>> u = cf.ScalarField("u")
        >>> library = Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u), "cubic": u**3})
        >>> print(library)
        Derivative(u, t) = sum of
          name   term    dependence  order
          u      u       linear      0
          lap    lap(u)  linear      2
          cubic  u**3    nonlinear   0
        >>> library.without("cubic").names
        ('u', 'lap')
    """

    __slots__ = ("_anchor", "_dim", "_parameters", "_terms", "_unknown")
    _anchor: sp.Expr | None
    _dim: int | None
    _parameters: dict[Parameter, float]
    _terms: dict[str, sp.Expr]
    _unknown: Field

    def __init__(
        self,
        anchor: ExpressionLike | None = None,
        terms: Mapping[str, ExpressionLike | Form]
        | Iterable[tuple[str, ExpressionLike | Form]] = (),
        unknown: Field | None = None,
        parameters: Mapping[Parameter | str, float] | None = None,
    ):
        left = None if anchor is None else named_expression("the anchor", anchor)
        named = _bound(checked_terms(terms), left, unknown)
        labelled = ([("the anchor", left)] if left is not None else []) + [
            (f"term {k!r}", e) for k, e in named.items()
        ]
        known = [
            *COORDINATES,
            *sorted({s for _, e in labelled for s in e.atoms(Field, Parameter)}, key=str),
        ]
        for label, expr in labelled:
            check_symbols(label, expr, known)
        dim = check_fields(labelled)
        field = _unknown_of(left, named, unknown)
        _check_anchor(left, field)
        self._store(anchor=left, terms=named, unknown=field, dim=dim, parameters={})
        self._store(parameters=_checked_parameters(self.parameters, parameters or {}))
        for label, expr in labelled:
            check_shape(
                label, expr, self.shape, "the anchor" if left is not None else "the equation"
            )
        check_distinct(named, left, dim)

    @classmethod
    def from_terms(
        cls,
        terms: str | Iterable[ExpressionLike],
        *,
        products: int = 1,
        order: int | None = None,
        anchor: ExpressionLike | None = None,
        unknown: Field | None = None,
        fields: Iterable[Field] = (),
        parameters: Mapping[Parameter | str, float] | None = None,
        invariant: bool = False,
    ) -> Library:
        """A generated library: all products of the given terms that fit the equation, named as one
        would write them.

        Args:
            terms: expressions, or a text with commas between them; names in it that are not in
                `fields` are scalar fields.
            products: how many of them are multiplied at most; two vectors make a dot product.
            order: largest number of space derivatives in a product; default: no limit.
            anchor: the left-hand side; default dt of the unknown.
            unknown: the field the equation is for; default: that of the anchor, or the first that
                occurs.
            fields: the fields that a text may name, vectors among them.
            parameters: see `Library`.
            invariant: whether vectors and tensors are contracted in all ways, |v|² v, (∇v)ᵀ v and
                v div v included, and factors that change when space is turned are refused. Cross
                products, which a mirror turns round, are given as terms of their own.

        Example:
            >>> Library.from_terms("1, u, grad(u), lap(u)", products=2).names
            ('1', 'u', 'lap(u)', 'u^2', 'u lap(u)', '|grad(u)|^2', 'lap(u)^2')
        """
        from cffem.symbols.problem.generation import generated_terms, written_terms

        declared = list(fields)
        given = [terms] if isinstance(terms, str) else list(terms)
        if all(isinstance(term, str) for term in given):
            atoms, declared = written_terms(", ".join(map(str, given)), declared)
        else:
            atoms = [named_expression(f"the term {term}", term) for term in given]
            for atom in atoms:
                declared += sorted(atom.atoms(Field) - set(declared), key=str)
        if unknown is None and anchor is not None:
            unknown = _unknown_of(named_expression("the anchor", anchor), {}, None)
        unknown = unknown or next(iter(declared), None)
        if unknown is None:
            raise LibraryError(
                "the terms name no field; say which equation they are for with unknown="
            )
        left = unknown.diff(t) if anchor is None else anchor
        made = generated_terms(atoms, unknown, products, order, invariant)
        return cls(left, made, unknown, parameters)

    def _store(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, f"_{name}", value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Library never changes; use without, restrict or with_terms")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Library never changes; use without, restrict or with_terms")

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in Library.__slots__}

    def __setstate__(self, state: dict[str, object]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def _key(self) -> tuple[object, ...]:
        return (
            self._anchor,
            tuple(self._terms.items()),
            self._unknown,
            tuple(sorted(self._parameters.items(), key=str)),
        )

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Library) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __getitem__(self, name: str) -> sp.Expr:
        if name not in self._terms:
            raise KeyError(f"no term is called {name!r}; {nearest(name, self._terms)}")
        return self._terms[name]

    def __contains__(self, name: object) -> bool:
        return name in self._terms

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __len__(self) -> int:
        return len(self._terms)

    @property
    def anchor(self) -> sp.Expr | None:
        """The left-hand side, None for a steady equation without one."""
        return self._anchor

    @property
    def terms(self) -> Mapping[str, sp.Expr]:
        """The candidate terms by name, in the order they were given."""
        return MappingProxyType(self._terms)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the terms, in order."""
        return tuple(self._terms)

    @property
    def unknown(self) -> Field:
        """The field this equation is for."""
        return self._unknown

    @property
    def unknowns(self) -> tuple[Field, ...]:
        """The unknowns of all equations: here the one."""
        return (self._unknown,)

    @property
    def equations(self) -> Mapping[Field, Library]:
        """The equations by unknown: here this one."""
        return MappingProxyType({self._unknown: self})

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every field that occurs, the unknown first."""
        found = set().union(*(expr.atoms(Field) for expr in self.expressions)) - {self._unknown}
        return (self._unknown, *sorted(found, key=str))

    @property
    def parameters(self) -> Mapping[Parameter, float | None]:
        """The parameters that occur, each with its value or None."""
        found = set().union(*(expr.atoms(Parameter) for expr in self.expressions))
        return MappingProxyType({p: self._parameters.get(p) for p in sorted(found, key=str)})

    @property
    def dim(self) -> int | None:
        """The dimension of space where a field or a term tells it."""
        return self._dim

    @property
    def shape(self) -> Shape:
        """The shape of the anchor and of every term."""
        expr = next(iter(self.expressions), self._unknown)
        return shape_of(expr)

    @property
    def time_order(self) -> int:
        """0 for a steady equation, 1 for dt(u), 2 for dt(dt(u))."""
        return 0 if self._anchor is None else analysis.orders(self._anchor, self._dim)[1]

    @property
    def is_weighted(self) -> bool:
        """Whether the anchor is a time derivative with a weight, rho*dt(u) say."""
        order = self.time_order
        return order > 0 and self._anchor != self._unknown.diff(t, order)

    @property
    def expressions(self) -> list[sp.Expr]:
        """The anchor, where there is one, and all terms."""
        return [*([] if self._anchor is None else [self._anchor]), *self._terms.values()]

    def locate(self, name: str) -> tuple[Field, str]:
        """The unknown of the equation a term belongs to, and the term's name there."""
        self[name]
        return self._unknown, name

    def dependence(self, name: str, fields: Collection[Field] | None = None) -> str:
        """How a term depends on the given fields together (default: all): constant, linear,
        affine or nonlinear.
        """
        term, asked = self[name], self.fields if fields is None else fields
        if isinstance(term, FormTerm):
            there = term.atoms(Field) & {*asked}
            return "constant" if not there else "linear" if term.form.linear else "nonlinear"
        return analysis.dependence(term, asked, self._dim)

    def order(self, name: str) -> int:
        """The highest order of space derivatives in a term; of a form, which has no formula, 2."""
        return 2 if isinstance(self[name], FormTerm) else analysis.orders(self[name], self._dim)[0]

    def check(self, dim: int) -> None:
        """Check the library again where the dimension of space is known: in 1D, lap(u) is u.diff(x,
        2).

        Raises:
            LibraryError: a term is meaningless, zero or a multiple of another in this dimension.
        """
        if self._dim not in (None, dim):
            assert self._dim is not None
            cure = (
                "write components beyond the dimension of space as scalar fields of a System"
                if self._dim > dim
                else f"declare its vectors with dim={dim}"
            )
            raise LibraryError(
                f"the library is written for {self._dim}D, but the mesh or the data are {dim}D; "
                f"{cure}"
            )
        check_distinct(self._terms, self._anchor, dim)

    def without(self, *names: str) -> Library:
        """The library with these terms left out."""
        for name in names:
            self.locate_or_refuse(name)
        return self._replaced({k: e for k, e in self._terms.items() if k not in names})

    def restrict(self, names: Iterable[str]) -> Library:
        """The library with only these terms, in their present order."""
        kept = list(names)
        for name in kept:
            self.locate_or_refuse(name)
        return self._replaced({k: e for k, e in self._terms.items() if k in kept})

    def with_terms(self, terms: Mapping[str, ExpressionLike]) -> Library:
        """The library with more terms, checked against the present ones."""
        for name in terms:
            if name in self._terms:
                raise LibraryError(f"the library already has a term called {name!r}")
        return self._replaced({**self._terms, **terms})

    def locate_or_refuse(self, name: str) -> None:
        """Raise LibraryError with the nearest name if no term has this one."""
        if name not in self._terms:
            raise LibraryError(f"no term is called {name!r}; {nearest(name, self._terms)}")

    def _replaced(self, terms: Mapping[str, ExpressionLike]) -> Library:
        kept = set().union(
            *(e.atoms(Parameter) for e in terms.values() if isinstance(e, sp.Basic)), set()
        )
        kept |= self._anchor.atoms(Parameter) if self._anchor is not None else set()
        values: dict[Parameter | str, float] = {
            p: v for p, v in self._parameters.items() if p in kept
        }
        return Library(self._anchor, terms, self._unknown, values)

    def _rows(self) -> list[tables.Row]:
        return [
            tables.Row(name, expr, self.dependence(name), self.order(name))
            for name, expr in self._terms.items()
        ]

    def __str__(self) -> str:
        return tables.as_text(self._anchor, self._rows())

    def __repr__(self) -> str:
        return (
            f"Library(anchor={self._anchor}, "
            f"terms={{{', '.join(f'{k!r}: {e}' for k, e in self._terms.items())}}})"
        )

    def _repr_latex_(self) -> str:
        return tables.as_latex([(self._anchor, self._rows())])

    def _repr_html_(self) -> str:
        return tables.as_html([(self._anchor, self._rows())])


def _bound(
    terms: Mapping[str, sp.Expr | Form], anchor: sp.Expr | None, unknown: Field | None
) -> dict[str, sp.Expr]:
    """The terms with forms as terms of this equation."""
    written = {name: term for name, term in terms.items() if not isinstance(term, Form)}
    if len(written) == len(terms):
        return written
    field = _unknown_of(anchor, written, unknown)
    return {n: term.term(field) if isinstance(term, Form) else term for n, term in terms.items()}


def _unknown_of(
    anchor: sp.Expr | None, terms: Mapping[str, sp.Expr], unknown: Field | None
) -> Field:
    """The field the equation is for: the one said, else the one in the anchor, else the only
    one that fits.
    """
    in_anchor = set() if anchor is None else anchor.atoms(Field)
    anywhere = in_anchor.union(*(expr.atoms(Field) for expr in terms.values()))
    if unknown is not None:
        if isinstance(unknown, Known):
            raise LibraryError(f"{unknown} is a known field and has no equation of its own")
        if not isinstance(unknown, Field):
            raise LibraryError(f"the unknown must be a ScalarField or VectorField, not {unknown!r}")
        rates = () if anchor is None else anchor.atoms(sp.Derivative)
        if unknown not in in_anchor and any(t in rate.variables for rate in rates):
            raise LibraryError(f"the unknown {unknown} does not occur in the anchor {anchor}")
        return unknown
    candidates = in_anchor or anywhere
    if len(candidates) > 1:
        # A pressure or another field may occur as well; the unknown is the one of the equation's
        # own shape.
        model = anchor if anchor is not None else next(iter(terms.values()))
        candidates = {f for f in candidates if len(f.shape) == len(shape_of(model))} or candidates
    if len(candidates) > 1 and anchor is not None and not terms:
        candidates = _defined(anchor, candidates) or candidates
    if len(candidates) != 1:
        found = ", ".join(sorted(map(str, candidates))) or "no field"
        raise LibraryError(
            f"which field the equation is for is not clear ({found}); give unknown=, or write one "
            "Library for each and couple "
            "them in a System"
        )
    return next(iter(candidates))


def _defined(anchor: sp.Expr, candidates: set[Field]) -> set[Field]:
    """The fields that an equation w − lap(u) = 0 can define: those that are a summand."""
    summands = [part.as_coeff_Mul()[1] for part in sp.Add.make_args(anchor)]
    return {f for f in candidates if f in summands}


def _check_anchor(anchor: sp.Expr | None, unknown: Field) -> None:
    """An anchor with a time derivative is dt(u) or dt(dt(u)) of the unknown, if need be with a
    weight that contains no field; any other is steady and not zero.
    """
    if anchor is None:
        return
    if anchor.has(On):
        raise LibraryError(
            f"the anchor {anchor} acts in a part only; give its weight as a cf.Known by subdomains"
        )
    if not anchor.has(Field) and anchor.has(Known):
        raise LibraryError(
            f"the anchor {anchor} contains known fields only, which have no equation of their own"
        )
    if not anchor.has(Field):
        raise LibraryError(
            f"the anchor {anchor} contains no field; it is the term whose coefficient is one"
        )
    if anchor in (unknown.diff(t), unknown.diff(t, 2)):
        return
    if any(t in derivative.variables for derivative in anchor.atoms(sp.Derivative)):
        if any(_weighs(anchor, unknown.diff(t, order)) for order in (1, 2)):
            if anchor.as_coeff_Mul()[0] < 0:
                raise LibraryError(
                    f"the weight of the anchor {anchor} is negative; change all signs of the "
                    "equation, its coefficients and its forcing included"
                )
            return
        raise LibraryError(
            f"the anchor {anchor} must be dt({unknown}) or dt(dt({unknown})), if need be times a "
            "weight without fields such as rho*dt(u), or contain no time derivative"
        )


def _weighs(anchor: sp.Expr, rate: sp.Expr) -> bool:
    """Whether an anchor is a rate times a scalar weight, or a tensor dotted with it."""
    if rate not in anchor.atoms(sp.Derivative):
        return False
    place = VectorField("rate_", rate.expr.dim) if shape_of(rate) else ScalarField("rate_")
    # Every other occurrence of the field, and every other field, is none of a weight.
    plain = anchor.xreplace({rate: place})
    return plain.atoms(Field) == {place} and (
        analysis.dependence(plain, [place], rate.expr.dim) == "linear"
        and analysis.orders(plain, rate.expr.dim)[0] == 0
    )


def _checked_parameters(
    occurring: Mapping[Parameter, object], given: Mapping[Parameter | str, float]
) -> dict[Parameter, float]:
    """Real finite values for parameters that occur, keyed by the parameter."""
    by_name = {p.name: p for p in occurring}
    values: dict[Parameter, float] = {}
    for key, value in given.items():
        parameter = by_name.get(key.name if isinstance(key, Parameter) else key)
        if parameter is None:
            raise LibraryError(f"no term uses the parameter {key}; {nearest(key, by_name)}")
        number = sp.sympify(value)
        if not (number.is_number and number.is_real and number.is_finite):
            raise LibraryError(
                f"the parameter {parameter} must have a finite real value, not {value!r}"
            )
        values[parameter] = float(number)
    return values
