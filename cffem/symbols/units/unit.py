# SPDX-License-Identifier: MIT
"""Units of measurement: products of powers of the SI's units, with prefixes.

A unit keeps the names it was written with, so that what follows from `km` and `d` is `km^2/d`. Its
dimension says what may be added, its factor what a number in it is in base units.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from cffem.symbols.errors import InputError, nearest

BASE = ("m", "kg", "s", "A", "K", "mol", "cd")
# Factor to base units, and exponents of m, kg, s, A, K, mol, cd.
KNOWN: dict[str, tuple[float, tuple[int, ...]]] = {
    **{name: (1.0, tuple(int(k == i) for k in range(7))) for i, name in enumerate(BASE)},
    "g": (1e-3, (0, 1, 0, 0, 0, 0, 0)),
    "rad": (1.0, (0,) * 7),
    "sr": (1.0, (0,) * 7),
    "deg": (math.pi / 180, (0,) * 7),
    "Hz": (1.0, (0, 0, -1, 0, 0, 0, 0)),
    "N": (1.0, (1, 1, -2, 0, 0, 0, 0)),
    "Pa": (1.0, (-1, 1, -2, 0, 0, 0, 0)),
    "bar": (1e5, (-1, 1, -2, 0, 0, 0, 0)),
    "J": (1.0, (2, 1, -2, 0, 0, 0, 0)),
    "W": (1.0, (2, 1, -3, 0, 0, 0, 0)),
    "C": (1.0, (0, 0, 1, 1, 0, 0, 0)),
    "V": (1.0, (2, 1, -3, -1, 0, 0, 0)),
    "F": (1.0, (-2, -1, 4, 2, 0, 0, 0)),
    "ohm": (1.0, (2, 1, -3, -2, 0, 0, 0)),
    "S": (1.0, (-2, -1, 3, 2, 0, 0, 0)),
    "Wb": (1.0, (2, 1, -2, -1, 0, 0, 0)),
    "T": (1.0, (0, 1, -2, -1, 0, 0, 0)),
    "H": (1.0, (2, 1, -2, -2, 0, 0, 0)),
    "L": (1e-3, (3, 0, 0, 0, 0, 0, 0)),
    "min": (60.0, (0, 0, 1, 0, 0, 0, 0)),
    "h": (3600.0, (0, 0, 1, 0, 0, 0, 0)),
    "d": (86400.0, (0, 0, 1, 0, 0, 0, 0)),
    "yr": (365.25 * 86400.0, (0, 0, 1, 0, 0, 0, 0)),
}
PREFIXES = {
    "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "d": 1e-1,
    "h": 1e2, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
}  # fmt: skip
PREFIXED = {*KNOWN} - {"kg", "rad", "sr", "deg", "min", "h", "d", "yr"}
AFFINE = ("degC", "°C", "celsius", "degF")
LONGEST = 80
TOKENS = re.compile(r"\s*(?:(\*\*|\^|\*|·|/|\(|\))|([A-Za-zµ°]+)|(-?\d+))")
NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


class UnitError(InputError):
    """A unit that does not exist, or quantities of different kinds that are added or compared."""


@dataclass(frozen=True)
class Unit:
    """A product of powers of named units.

    Args:
        powers: names and exponents, by name, none of them zero.

    Example:
        >>> flux = read_unit("kg*m^2/s")
        >>> print(flux / read_unit("kg"), (flux / read_unit("kg")) ** Fraction(1, 2))
        m^2/s m/s^(1/2)
        >>> read_unit("km").factor, read_unit("N/m^2").alike(read_unit("Pa"))
        (1000.0, True)
    """

    powers: tuple[tuple[str, Fraction], ...] = ()

    @classmethod
    def of(cls, powers: Iterable[tuple[str, Fraction]]) -> Unit:
        """Powers of one name are joined."""
        found: dict[str, Fraction] = {}
        for name, power in powers:
            found[name] = found.get(name, Fraction(0)) + power
        return cls(tuple(sorted((name, power) for name, power in found.items() if power)))

    @cached_property
    def factor(self) -> float:
        """What one of it is in base units."""
        return math.prod(_named(name)[0] ** float(power) for name, power in self.powers)

    @cached_property
    def dimension(self) -> tuple[Fraction, ...]:
        """Exponents of the seven base units."""
        each = [[power * k for k in _named(name)[1]] for name, power in self.powers]
        return tuple(sum(column, Fraction(0)) for column in zip(*each, strict=True)) or PURE

    def alike(self, other: Unit) -> bool:
        """Whether both measure the same kind of thing."""
        return self.dimension == other.dimension

    def same(self, other: Unit) -> bool:
        """Whether a number means the same in both."""
        return self.alike(other) and math.isclose(self.factor, other.factor, rel_tol=1e-12)

    def __mul__(self, other: Unit) -> Unit:
        return Unit.of([*self.powers, *other.powers])

    def __truediv__(self, other: Unit) -> Unit:
        return self * other ** Fraction(-1)

    def __pow__(self, power: Fraction) -> Unit:
        return Unit.of((name, each * power) for name, each in self.powers)

    def __str__(self) -> str:
        above = [_written(name, power) for name, power in self.powers if power > 0]
        below = [_written(name, -power) for name, power in self.powers if power < 0]
        rest = below[0] if len(below) == 1 else f"({'*'.join(below)})"
        return ("*".join(above) or "1") + (f"/{rest}" if below else "")


PURE = (Fraction(0),) * 7
ONE = Unit()


def _written(name: str, power: Fraction) -> str:
    if power == 1:
        return name
    return f"{name}^{power}" if power.denominator == 1 else f"{name}^({power})"


def _named(name: str) -> tuple[float, tuple[int, ...]]:
    if name in KNOWN:
        return KNOWN[name]
    factor, powers = KNOWN[name[1:]]
    return PREFIXES[name[0]] * factor, powers


def read_unit(text: str) -> Unit:
    """A unit as people write it: `m^2/s`, `kg*m^-3`, `W/(m*K)`, `1/s`, `1`.

    Raises:
        UnitError: it is no unit.

    Example:
        >>> print(read_unit("W/(m^2 K)"), read_unit("1/d"), read_unit("1"))
        W/(K*m^2) 1/d 1
    """
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise UnitError(f"a unit is a text such as 'm^2/s', not {text!r}")
    tokens, place = [], 0
    while text[place:].strip():
        found = TOKENS.match(text, place)
        if found is None:
            raise UnitError(f"{text!r} is not a unit: {text[place:].strip()[:10]!r} is not read")
        tokens.append(found[0].strip())
        place = found.end()
    unit, rest = _product(tokens, text)
    if rest:
        raise UnitError(f"{text!r} is not a unit: {rest[0]!r} stands where nothing may follow")
    return unit


def _product(tokens: list[str], text: str) -> tuple[Unit, list[str]]:
    unit, tokens = _power(tokens, text)
    while tokens and tokens[0] != ")":
        sign = 1
        if tokens[0] in ("*", "·", "/"):
            sign = -1 if tokens[0] == "/" else 1
            tokens = tokens[1:]
        following, tokens = _power(tokens, text)
        unit = unit * following ** Fraction(sign)
    return unit, tokens


def _power(tokens: list[str], text: str) -> tuple[Unit, list[str]]:
    if not tokens:
        raise UnitError(f"{text!r} is not a unit: something is missing at its end")
    first, rest = tokens[0], tokens[1:]
    if first == "(":
        unit, rest = _product(rest, text)
        if not rest or rest[0] != ")":
            raise UnitError(f"{text!r} is not a unit: a bracket is not closed")
        rest = rest[1:]
    elif first == "1":
        unit = ONE
    else:
        unit = Unit.of([(_checked(first, text), Fraction(1))])
    if rest and rest[0] in ("^", "**"):
        power, rest = _exponent(rest[1:], text)
        unit = unit**power
    return unit, rest


def _exponent(tokens: list[str], text: str) -> tuple[Fraction, list[str]]:
    whole = re.compile(r"-?\d{1,3}")
    if tokens and whole.fullmatch(tokens[0]):
        return Fraction(int(tokens[0])), tokens[1:]
    fraction = tokens[:5]
    if len(fraction) == 5 and (fraction[0], fraction[2], fraction[4]) == ("(", "/", ")"):
        numbers = [whole.fullmatch(part) for part in (fraction[1], fraction[3])]
        if all(numbers) and int(fraction[3]):
            return Fraction(int(fraction[1]), int(fraction[3])), tokens[5:]
    raise UnitError(f"{text!r} is not a unit: an exponent is a whole number, or (1/2) say")


def _checked(name: str, text: str) -> str:
    if name in KNOWN or (name[:1] in PREFIXES and name[1:] in PREFIXED):
        return name
    if name in AFFINE:
        raise UnitError(
            f"{name} does not begin at zero, so that it cannot be multiplied; use K for "
            "temperatures and for their differences"
        )
    raise UnitError(f"{text!r} is not a unit: {name!r} is not known; {nearest(name, KNOWN)}")


def read_quantity(text: str) -> tuple[float, Unit]:
    """A number with its unit: `5000 m^2/s`.

    Example:
        >>> number, unit = read_quantity("2.5e3 m^2/s")
        >>> number, str(unit)
        (2500.0, 'm^2/s')
    """
    found = re.fullmatch(rf"\s*({NUMBER})\s+(\S.*)", text[: LONGEST + 40])
    if found is None or len(text) > LONGEST + 40:
        raise UnitError(
            f"{text[:40]!r} is not a number with a unit; write '5000 m^2/s', or a number alone"
        )
    number = float(found[1])
    if not math.isfinite(number):
        raise UnitError(f"{found[1]} is too large a number")
    return number, read_unit(found[2])
