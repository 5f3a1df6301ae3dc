# SPDX-License-Identifier: MIT
"""Norms as users declare them: of all fields, of one, weighted, in a part of the domain, or by a
form of one's own.

A norm is its name: "L2" is that of all unknown fields together, "L2[T]" that of T alone, and

    L2[u, 0.01*T]     (‖u‖² + (0.01 ‖T‖)²)^{1/2}, a weight being what its field is multiplied by
    L2[T on coast]    ‖T‖ in the subdomain coast; "L2[on coast]" of all fields there
    H1[u] + L2[0.5*T] the same of several kinds

`Norm` writes such names, and every function that takes a norm takes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from cffem.symbols.errors import InputError
from cffem.symbols.fields import Field
from cffem.symbols.registry import Registry

# a(u, v) of trial and test function of one field; None stands for the energy of the equation.
NormForm = Callable[[Any, Any], Any]
NORMS: Registry[NormForm | None] = Registry("norm")
ENERGY = "energy"
ON = "on "
# A weight and a field in the brackets of a name.
ITEM = re.compile(r"(?:(?P<weight>[0-9.eE+-]+)\s*\*\s*)?(?P<field>[^*,\[\]]+)")


@dataclass(frozen=True)
class NormPart:
    """What one part of a norm's name says.

    Attributes:
        kind: the registered norm.
        weights: by the names of fields; none where all unknown fields count.
        on: the subdomain, or nothing.
    """

    kind: str
    weights: tuple[tuple[str, float], ...] = ()
    on: str = ""

    def __str__(self) -> str:
        items = ", ".join(
            name if weight == 1 else f"{weight:.12g}*{name}" for name, weight in self.weights
        )
        inside = " ".join(filter(None, [items, f"{ON}{self.on}" if self.on else ""]))
        return f"{self.kind}[{inside}]" if inside else self.kind


class Norm(str):
    """A norm of verdicts, as the text that names it.

    Args:
        weights: for each field that counts what it is multiplied by, so that fields of different
            units add up; without weights all unknown fields count, and on a System each is judged
            by itself. Pressures and auxiliary fields count where they are named here only.
        kind: "L2", "H1", "H(curl)", "H(div)" or an added one, or one for each field.
        on: a subdomain, by its name.
        form: instead of a kind, a symmetric positive bilinear form a(u, v) in UFL, of trial and
            test function of one field, with its measures.
        name: what the form is called in reports.

    Example:
        >>> import cffem as cf
        >>> u, T = cf.VectorField("u", dim=2), cf.ScalarField("T")
        >>> Norm({u: 1.0, T: 1e-2}, kind="L2")
        'L2[u, 0.01*T]'
        >>> Norm({u: 1.0, T: 1e-2}, kind={u: "H1", T: "L2"}), Norm(on="coast")
        ('H1[u] + L2[0.01*T]', 'L2[on coast]')
    """

    __slots__ = ()

    def __new__(
        cls,
        weights: Mapping[Field | str, float] | None = None,
        kind: str | Mapping[Field | str, str] = "L2",
        on: str | None = None,
        form: NormForm | None = None,
        name: str = "",
    ) -> Norm:
        if form is not None:
            if kind != "L2":
                raise InputError("a norm has a kind or a form, not both")
            kind = registered(form, name)
        elif name:
            raise InputError("a norm has a name of its own only where it is given by a form")
        named = None if weights is None else checked_weights(weights)
        kinds = (
            {str(field): each for field, each in kind.items()} if isinstance(kind, Mapping) else {}
        )
        if kinds and named is None:
            named = dict.fromkeys(kinds, 1.0)
        if on is not None and (not isinstance(on, str) or not on or set(on) & set("[],*")):
            raise InputError(f"a norm is on a subdomain, by its name, not {on!r}")
        grouped: dict[str, dict[str, float]] = {}
        for field, weight in (named or {}).items():
            if kinds and field not in kinds:
                raise InputError(f"the norm says no kind for the field {field}")
            chosen = kinds[field] if kinds else str(kind)
            grouped.setdefault(chosen, {})[field] = weight
        parts = [
            NormPart(each, tuple(items.items()), on or "") for each, items in grouped.items()
        ] or [NormPart(str(kind), (), on or "")]
        return super().__new__(cls, " + ".join(map(str, parts)))

    def __reduce__(self) -> tuple[object, ...]:
        return str, (str(self),)


def checked_weights(given: Mapping[Field | str, float]) -> dict[str, float]:
    """Positive weights by the names of their fields."""
    if not isinstance(given, Mapping) or not given:
        raise InputError("give the weights of a norm as {field: number}")
    found = {}
    for field, weight in given.items():
        if not isinstance(field, Field | str):
            raise InputError(f"a norm weighs fields, not {field!r}")
        good = isinstance(weight, Real) and not isinstance(weight, bool)
        if not good or not math.isfinite(weight) or weight <= 0:
            raise InputError(
                f"the weight of {field} in a norm is a positive number, not {weight!r}"
            )
        found[str(field)] = float(weight)
    return found


def registered(form: NormForm, name: str) -> str:
    """The name of a form in the registry, to which it is added."""
    if not callable(form):
        raise InputError("the form of a norm is a function a(u, v) of trial and test function")
    own = getattr(form, "__name__", "form")
    base = name or ("form" if own == "<lambda>" else own)
    if set(base) & set("[]+"):
        raise InputError(f"the name of a norm has no brackets or +, unlike {base!r}")
    found, count = base, 1
    while found in NORMS and NORMS[found] is not form:
        if name:
            raise InputError(f"there is a norm {name!r} already; choose another name")
        count += 1
        found = f"{base} {count}"
    if found not in NORMS:
        NORMS.add(found, form)
    return found


def norm_parts(name: str) -> tuple[NormPart, ...]:
    """What the name of a norm says.

    Example:
        >>> norm_parts("L2[u, 0.01*T on coast]")
        (NormPart(kind='L2', weights=(('u', 1.0), ('T', 0.01)), on='coast'),)
        >>> [part.kind for part in norm_parts("H1[u] + L2[0.5*T]")]
        ['H1', 'L2']
    """
    return tuple(_part(text.strip(), name) for text in re.split(r"(?<=\])\s*\+\s*", name))


def _part(text: str, name: str) -> NormPart:
    kind, bracket, rest = text.partition("[")
    inside = rest[:-1].strip()
    if not bracket:
        return NormPart(kind)
    if not rest.endswith("]") or not inside or kind == ENERGY:
        raise _unknown(name)
    items, _, on = f" {inside}".partition(f" {ON}")
    weights = {}
    for item in filter(None, map(str.strip, items.split(","))):
        match = ITEM.fullmatch(item)
        if match is None:
            raise _unknown(name)
        try:
            weight = float(match["weight"] or 1.0)
        except ValueError:
            raise _unknown(name) from None
        weights[match["field"].strip()] = weight
    checked_weights(weights or {"all": 1.0})
    return NormPart(kind, tuple(weights.items()), on.strip())


def _unknown(name: str) -> InputError:
    return InputError(
        f"unknown norm {name!r}; that of one field is written L2[u], with weights L2[u, 0.01*T], "
        "in a subdomain L2[u on coast]"
    )


def of_field(name: str, field: str) -> str:
    """The name of the same norm of one field.

    Example:
        >>> of_field("L2", "T"), of_field("L2[on coast]", "T")
        ('L2[T]', 'L2[T on coast]')
    """
    (part,) = norm_parts(name)
    return str(NormPart(part.kind, ((field, 1.0),), part.on))


def names_fields(name: str) -> bool:
    """Whether a norm says which fields count, so that it is one number for all of them.

    Example:
        >>> names_fields("L2[u, 0.01*T]"), names_fields("L2[on coast]"), names_fields("H1")
        (True, False, False)
    """
    return any(part.weights for part in norm_parts(name))
