# SPDX-License-Identifier: MIT
"""Units of measured variables: what they measure and how to turn them into SI units.

Names are compared as files write them (`degC`, `m s**-1`, `m/s`, `hPa`). A unit of another quantity
than expected is an error: a pressure read as a temperature would pass through everything that
follows without a sound.
"""

from __future__ import annotations

import numpy as np

from cffem.symbols.errors import InputError

# By quantity: names of units, the factor to the SI unit and what is added after it.
QUANTITIES: dict[str, dict[str, tuple[float, float]]] = {
    "temperature": {
        **dict.fromkeys(("k", "kelvin", "degk", "degreek", "degreesk"), (1.0, 0.0)),
        **dict.fromkeys(
            (
                "c",
                "°c",
                "degc",
                "celsius",
                "degreec",
                "degreesc",
                "degreecelsius",
                "degreescelsius",
            ),
            (1.0, 273.15),
        ),
        **dict.fromkeys(("f", "degf", "fahrenheit"), (5 / 9, 273.15 - 32 * 5 / 9)),
    },
    "velocity": {
        **dict.fromkeys(("m/s", "ms-1", "metrespersecond", "meterspersecond"), (1.0, 0.0)),
        **dict.fromkeys(("cm/s", "cms-1"), (0.01, 0.0)),
        **dict.fromkeys(("km/h", "kmh-1"), (1 / 3.6, 0.0)),
        **dict.fromkeys(("knots", "knot", "kt"), (1852 / 3600, 0.0)),
    },
    "pressure": {
        "pa": (1.0, 0.0),
        **dict.fromkeys(("hpa", "mbar", "millibars", "mb"), (100.0, 0.0)),
    },
    "length": {
        **dict.fromkeys(("m", "metre", "meter", "metres", "meters"), (1.0, 0.0)),
        "cm": (0.01, 0.0),
        "km": (1000.0, 0.0),
    },
    "ratio": {
        **dict.fromkeys(("1", "", "kg/kg", "kgkg-1", "m/m"), (1.0, 0.0)),
        **dict.fromkeys(("%", "percent"), (0.01, 0.0)),
    },
}
SI = {"temperature": "K", "velocity": "m/s", "pressure": "Pa", "length": "m", "ratio": "1"}


def to_si(values: np.ndarray, unit: str | None, quantity: str, what: str) -> np.ndarray:
    """Values in the SI unit of a quantity.

    Args:
        values: the numbers.
        unit: the unit they are in, as written in a file; None if it says nothing.
        quantity: "temperature", "velocity", "pressure", "length" or "ratio".
        what: how to call the variable in an error message.

    Raises:
        InputError: the unit is missing, unknown, or one of another quantity.

    Example:
        >>> to_si(np.array([20.0]), "degC", "temperature", "sst")
        array([293.15])
    """
    if quantity not in QUANTITIES:
        raise InputError(
            f"{quantity!r} is no quantity known here; there are {', '.join(QUANTITIES)}"
        )
    if unit is None:
        raise InputError(
            f"{what} has no units; say which with units={{{what!r}: {SI[quantity]!r}}}"
        )
    plain = (
        unit.lower()
        .replace("**", "")
        .replace("^", "")
        .replace(" ", "")
        .replace("_", "")
        .replace(".", "")
    )
    if plain not in QUANTITIES[quantity]:
        kind = next((other for other, names in QUANTITIES.items() if plain in names), None)
        found = f"a {kind}" if kind else "no unit known here"
        raise InputError(
            f"{what} is in {unit!r}, which is {found}, but a {quantity} is needed (in "
            f"{SI[quantity]}, say)"
        )
    factor, offset = QUANTITIES[quantity][plain]
    return np.asarray(values, dtype=float) * factor + offset
