# SPDX-License-Identifier: MIT
"""Interventions: what a deleted problem changes about the factual one.

Deleting term j is the intervention do(α_j := 0) of the paper; scaling by 1 − ρ is the branch from
the factual to the deleted problem. Everything an intervention does not mention stays as it is:
coefficients, forcing, initial and boundary data. Interventions never change and combine with `&`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp

from cffem.symbols.coordinates import COORDINATES, t
from cffem.symbols.errors import LibraryError, nearest
from cffem.symbols.expression_like import DataLike
from cffem.symbols.fields import Field
from cffem.symbols.latex_text import escape_latex
from cffem.symbols.problem.term_checks import check_shape, check_symbols, named_expression

if TYPE_CHECKING:
    from sympy.printing.printer import Printer

    from cffem.symbols.problem.conditions import BoundaryCondition


# What becomes of essential conditions that a deleted equation cannot carry: released, or kept with
# the others.
CONDITIONS = CARRIED, KEPT = "carried", "kept"
Change = tuple[str, str, float]  # term, "set" or "scale", number
Values = tuple[tuple[sp.Expr, Any], ...]
Spell = tuple[float, float, "Intervention"]


@dataclass(frozen=True)
class Intervention:
    """A change of a problem; made by `delete`, `scale`, `set`, `force`, `start`, `boundary` and
    `release`.

    Attributes:
        changes: what happens to coefficients, as (term, "set" or "scale", number).
        forcing: new forcing by field; the forcing of other fields stays.
        initial: new initial values by field or by dt(field); others stay.
        conditions: boundary conditions that take the place of those on the same field and part of
            the boundary.
        released: whether the declared constraint is no longer enforced.
        carried: whether essential conditions are kept only where the changed equation can carry
            them.
        places: terms that are deleted in a subdomain only, each with its name.
        spells: what is changed in a part of the window only, as (start, end, intervention).
        amplitudes: of data that the experiment declares as uncertain, in their order; zero where
            none are given.

    Example:
        >>> from cffem.symbols.problem.interventions import delete, scale
        >>> both = delete("lap") & scale("u", 0.5)
        >>> both.apply({"u": 0.6, "u_x": 1.0, "lap": 1e-3})
        {'u': 0.3, 'u_x': 1.0, 'lap': 0.0}
        >>> print(both)
        delete('lap') & scale('u', 0.5)
    """

    changes: tuple[Change, ...] = ()
    forcing: Values = ()
    initial: Values = ()
    conditions: tuple[BoundaryCondition, ...] = ()
    released: bool = False
    carried: bool = False
    places: tuple[tuple[str, str], ...] = ()
    spells: tuple[Spell, ...] = ()
    amplitudes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for what, keys in (
            ("the coefficient of", [name for name, _, _ in self.changes]),
            ("the forcing of", [field for field, _ in self.forcing]),
            ("the initial value of", [field for field, _ in self.initial]),
            ("in a part", [part_term(*place) for place in self.places]),
        ):
            twice = next((key for key in keys if keys.count(key) > 1), None)
            if twice is not None:
                raise LibraryError(f"the intervention changes {what} {twice} twice; say it once")

    @property
    def names(self) -> tuple[str, ...]:
        """The terms whose coefficients change, those of subdomains included."""
        changed = [name for name, _, _ in self.changes]
        changed += [part_term(*place) for place in self.places]
        for _, _, inner in self.spells:
            changed += [name for name in inner.names if name not in changed]
        return tuple(changed)

    def between(self, start: float, end: float) -> Intervention:
        """What is changed in a part of the window that no end of a spell divides.

        Example:
            >>> print(delete("u", during=(0, 1)).between(0.0, 0.5))
            delete('u')
            >>> print(delete("u", during=(0, 1)).between(1.0, 1.5))
            nothing changed
        """
        found, middle = replace(self, spells=()), (start + end) / 2
        for first, last, inner in self.spells:
            if first < middle < last:
                inside = {name for name, _, _ in inner.changes}
                kept = tuple(change for change in found.changes if change[0] not in inside)
                found = replace(found, changes=kept) & inner
        return found

    def everything(self) -> Intervention:
        """All that is changed at some time, for checks."""
        inner = (each for _, _, each in self.spells)
        found = replace(self, spells=())
        for each in inner:
            inside = {name for name, _, _ in each.changes}
            kept = tuple(change for change in found.changes if change[0] not in inside)
            places = tuple(place for place in found.places if place not in each.places)
            found = replace(found, changes=kept, places=places) & each
        return found

    @property
    def deleted(self) -> tuple[str, ...]:
        """The terms that are deleted, that is whose coefficients become zero."""
        return tuple(name for name, _, number in self.changes if number == 0)

    @property
    def only_coefficients(self) -> bool:
        """Whether nothing but coefficients is changed."""
        data = self.forcing or self.initial or self.conditions or self.amplitudes
        return not (data or self.released or self.spells)

    @property
    def data(self) -> tuple[object, ...]:
        """What takes the place of forcing, initial and boundary values."""
        given = [value for _, value in (*self.forcing, *self.initial)]
        for condition in self.conditions:
            given += [getattr(condition, name, 0) for name in ("value", "coefficient")]
        return tuple(given)

    def at(self, name: str, value: float) -> Intervention:
        """The same intervention in a problem where a coefficient has another value.

        Example:
            >>> print(scale("u", 0.5).at("u", 3.0), "|", delete("u").at("lap", 2.0))
            set('u', 1.5) | delete('u') & set('lap', 2)
        """
        if name not in self.names:
            return self & set(name, value)
        moved = (
            (other, "set", value * number) if (other, how) == (name, "scale") else change
            for change in self.changes
            for other, how, number in (change,)
        )
        return replace(self, changes=tuple(moved))

    def taken(self, coefficients: Mapping[str, float]) -> dict[str, float]:
        """What is taken from each coefficient that changes; a deletion takes all of one.

        Example:
            >>> delete("u").taken({"u": 3.0, "lap": 1.0})
            {'u': 3.0}
        """
        after = self.apply(coefficients)
        return {
            name: coefficients.get(name, 0.0) - after[name]
            for name in self.names
            if after[name] != coefficients.get(name, 0.0)
        }

    def apply(self, coefficients: Mapping[str, float]) -> dict[str, float]:
        """The coefficients of the changed problem, in the same order.

        Raises:
            LibraryError: a term is not among the coefficients; the message says which name is
                nearest.
        """
        result = dict(coefficients)
        for name, how, number in self.changes:
            if name not in result:
                raise LibraryError(
                    f"{self} needs a term called {name!r}; {nearest(name, coefficients)}"
                )
            result[name] = number if how == "set" else result[name] * number
        for name, part in self.places:
            if name not in result:
                raise LibraryError(
                    f"{self} needs a term called {name!r}; {nearest(name, coefficients)}"
                )
            # α T − α T|part is the term outside of the part.
            result[part_term(name, part)] = -result[name]
        return result

    def __and__(self, other: Intervention) -> Intervention:
        if not isinstance(other, Intervention):
            return NotImplemented
        return Intervention(
            self.changes + other.changes,
            self.forcing + other.forcing,
            self.initial + other.initial,
            self.conditions + other.conditions,
            self.released or other.released,
            self.carried or other.carried,
            self.places + other.places,
            self.spells + other.spells,
            self.amplitudes or other.amplitudes,
        )

    def __str__(self) -> str:
        kept = "" if self.carried else ", conditions='kept'"
        parts = [f"delete({', '.join(map(repr, self.deleted))}{kept})"] if self.deleted else []
        parts += [f"delete({name!r}, on={part!r})" for name, part in self.places]
        parts += [
            f"{inner}"[:-1] + f", during=({first:g}, {last:g}))"
            for first, last, inner in self.spells
        ]
        parts += [
            f"{how}({name!r}, {number:g})" for name, how, number in self.changes if number != 0
        ]
        parts += [f"force({{{field}: {value}}})" for field, value in self.forcing]
        parts += [f"start({{{field}: {value}}})" for field, value in self.initial]
        parts += [f"boundary({condition})" for condition in self.conditions]
        parts += ["release()"] if self.released else []
        parts += [f"amplitudes {self.amplitudes}"] if self.amplitudes else []
        return " & ".join(parts) or "nothing changed"

    def _latex(self, printer: Printer | None = None) -> str:
        parts = []
        for name, how, number in self.changes:
            coefficient = rf"\alpha_{{\text{{{escape_latex(name)}}}}}"
            parts.append(
                f"{coefficient} := {sp.latex(sp.nsimplify(number))}"
                + ("" if how == "set" else rf"\, {coefficient}")
            )
        parts += [
            rf"\alpha_{{\text{{{escape_latex(name)}}}}}|_{{\text{{{escape_latex(part)}}}}} := 0"
            for name, part in self.places
        ]
        for first, last, inner in self.spells:
            inside = (
                inner._latex().removeprefix(r"\operatorname{do}\left(").removesuffix(r"\right)")
            )
            parts.append(rf"{inside}\;\text{{for}}\; {first:g} < t < {last:g}")
        parts += [
            f"f_{{{sp.latex(field)}}} := {_latex_value(value)}" for field, value in self.forcing
        ]
        parts += [
            rf"{sp.latex(field)}|_{{t=0}} := {_latex_value(value)}" for field, value in self.initial
        ]
        parts += [rf"\text{{{escape_latex(str(condition))}}}" for condition in self.conditions]
        parts += [r"\text{constraint released}"] if self.released else []
        return rf"\operatorname{{do}}\left({', '.join(parts)}\right)"

    def _repr_latex_(self) -> str:
        return f"${self._latex()}$"


def joint(interventions: Intervention | Iterable[Intervention]) -> Intervention:
    """One intervention from several, all applied together.

    Example:
        >>> from cffem.symbols.problem.interventions import delete, joint
        >>> joint([delete("a"), delete("b")]) == delete("a", "b")
        True
    """
    if isinstance(interventions, Intervention):
        return interventions
    result = Intervention()
    for intervention in interventions:
        if not isinstance(intervention, Intervention):
            raise LibraryError(
                f"{intervention!r} is not an intervention; write cf.delete(…), cf.scale(…), "
                "cf.set(…), …"
            )
        result = result & intervention
    return result


def delete(
    *names: str,
    conditions: str = CARRIED,
    on: str | Iterable[str] | None = None,
    during: tuple[float, float] | None = None,
) -> Intervention:
    """Delete terms, several of them jointly: their coefficients become zero, everywhere and always,
    or in a part of the domain or of the window.

    Args:
        names: the terms.
        conditions: "carried": the deleted equation keeps the essential conditions that it can
            carry, and the others are released, as transport that has lost its diffusion carries
            values at its inflow only; "kept": all stay.
        on: a subdomain, or several, in which the terms are deleted; elsewhere they stay. Essential
            conditions are all kept then.
        during: the first and the last time of the deletion; before and after it the terms are
            there. Both must be time levels, so that steps end there.

    Example:
        >>> from cffem.symbols.problem.interventions import delete
        >>> print(delete("drag", on="coast", during=(0, 1)))
        delete('drag', on='coast', during=(0, 1))
        >>> delete("lap").apply({"u": 0.6, "lap": 1e-3})
        {'u': 0.6, 'lap': 0.0}
    """
    if not names:
        raise LibraryError("delete needs the name of at least one term")
    if conditions not in CONDITIONS:
        raise LibraryError(
            f"conditions are {' or '.join(map(repr, CONDITIONS))}, not {conditions!r}"
        )
    if on is None:
        made = Intervention(
            tuple((_name(name), "set", 0.0) for name in names), carried=conditions == CARRIED
        )
    else:
        parts = (on,) if isinstance(on, str) else tuple(on)
        if not parts or not all(isinstance(part, str) and part for part in parts):
            raise LibraryError(f"a term is deleted on a subdomain, by its name, not {on!r}")
        made = Intervention(places=tuple((_name(name), part) for name in names for part in parts))
    if during is None:
        return made
    try:
        first, last = (_finite(end, "an end of during") for end in during)
    except (TypeError, ValueError) as error:
        if isinstance(error, LibraryError):
            raise
        raise LibraryError(f"during is a pair of times, (0, 1) say, not {during!r}") from None
    if not first < last:
        raise LibraryError(f"during begins before it ends, unlike {during!r}")
    return Intervention(spells=((first, last, made),))


def part_term(name: str, part: str) -> str:
    """What a term in a subdomain alone is called.

    Example:
        >>> part_term("drag", "coast")
        'drag on coast'
    """
    return f"{name} on {part}"


def scale(name: str, factor: float) -> Intervention:
    """Multiply a term's coefficient, by 1 − ρ for a partial deletion."""
    number = _finite(factor, f"the factor of {name!r}")
    return Intervention(((_name(name), "set" if number == 0 else "scale", number),))


def set(name: str, value: float) -> Intervention:
    """Give a term another coefficient."""
    return Intervention(((_name(name), "set", _finite(value, f"the coefficient of {name!r}")),))


def force(forcing: Mapping[Field, DataLike]) -> Intervention:
    """Replace the forcing of these fields by functions of x, y, z, t."""
    return Intervention(forcing=_values(forcing, "forcing", derivatives=False))


def start(initial: Mapping[sp.Expr, DataLike]) -> Intervention:
    """Replace the initial values of these fields, or of their time derivatives dt(u)."""
    return Intervention(initial=_values(initial, "initial value", derivatives=True))


def boundary(*conditions: BoundaryCondition | Iterable[BoundaryCondition]) -> Intervention:
    """Replace the boundary conditions on the same fields and parts of the boundary.

    Args:
        conditions: one after the other, or a list of them.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> str(cf.boundary(cf.Dirichlet(u, 0, on="left"))) == str(
        ...     cf.boundary([cf.Dirichlet(u, 0, on="left")])
        ... )
        True
    """
    from cffem.symbols.problem.conditions import BoundaryCondition  # brings NumPy with it

    given: list[BoundaryCondition] = []
    for listed in conditions:
        for condition in listed if isinstance(listed, list | tuple) else (listed,):
            if not isinstance(condition, BoundaryCondition):
                raise LibraryError(
                    "boundary(…) takes Dirichlet, Tangential, Natural, Neumann or Robin "
                    f"conditions, not {condition!r}"
                )
            given.append(condition)
    if not given:
        raise LibraryError("boundary needs at least one boundary condition")
    return Intervention(conditions=tuple(given))


def release() -> Intervention:
    """Do not enforce the declared constraint: its multiplier is deleted. The initial data stay as
    they are.

    Example:
        >>> from cffem.symbols.problem.interventions import delete, release
        >>> print(delete("lap") & release())
        delete('lap') & release()
    """
    return Intervention(released=True)


def _name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise LibraryError(f"an intervention names a term by a string, not {name!r}")
    return name


def _finite(value: object, what: str) -> float:
    try:
        number = sp.sympify(value, strict=True)
    except sp.SympifyError:
        number = sp.nan
    if isinstance(value, bool) or not (number.is_number and number.is_real and number.is_finite):
        raise LibraryError(f"{what} must be a finite real number, not {value!r}")
    return float(number)


def _values(given: Mapping[sp.Expr, object], what: str, derivatives: bool) -> Values:
    """Check functions of the coordinates; other objects (a function on a mesh, a dataset) are
    the engine's to judge.
    """
    if not isinstance(given, Mapping) or not given:
        raise LibraryError(f"give each {what} as {{field: expression}}")
    result = []
    for key, value in given.items():
        field = (
            key.expr
            if derivatives and isinstance(key, sp.Derivative) and key.variables == (t,)
            else key
        )
        if not isinstance(field, Field):
            raise LibraryError(
                f"the {what} is given for a field{' or dt(field)' if derivatives else ''}, not "
                f"for {key}"
            )
        if isinstance(value, sp.Basic | sp.MatrixBase | int | float | tuple | list):
            label = f"the {what} of {key}"
            value = named_expression(label, value)
            check_symbols(label, value, COORDINATES)
            if value.has(Field):
                raise LibraryError(
                    f"{label} is a function of x, y, z, t and cannot contain the field "
                    f"{min(map(str, value.atoms(Field)))}"
                )
            if value != 0:
                check_shape(label, value, field.shape, f"the field {field}")
        result.append((key, value))
    return tuple(result)


def _latex_value(value: object) -> str:
    return (
        sp.latex(value)
        if isinstance(value, sp.Basic)
        else rf"\text{{{escape_latex(type(value).__name__)}}}"
    )
