# SPDX-License-Identifier: MIT
"""Real numbers out of what a user gave: an imaginary part is refused, never dropped."""

from __future__ import annotations

import numpy as np

from cffem.symbols.errors import AS_TWO_FIELDS, InputError


def check_real_function(function: object, what: str) -> None:
    """Refuse a DOLFINx function whose values are not the real numbers that are computed with."""
    values = getattr(getattr(function, "x", None), "array", np.empty(0))
    if np.iscomplexobj(values):
        raise InputError(f"{what} is a complex function, but fields are real; {AS_TWO_FIELDS}")
    if values.dtype != np.float64:
        raise InputError(
            f"{what} is a function of {values.dtype} numbers; give one of float64, "
            "fem.Function(V, dtype=float) say"
        )


def real_values(values: object, what: str) -> np.ndarray:
    """Values as floating-point numbers.

    Args:
        values: numbers, or an array of them.
        what: how to call them in an error message.

    Raises:
        InputError: one of them has an imaginary part.

    Example:
        >>> real_values([1, 2 + 0j], "the weight")
        array([1., 2.])
        >>> real_values([1j], "the weight")
        Traceback (most recent call last):
        cffem.symbols.errors.InputError: the weight is complex, but fields are real; write a complex
        field as two real ones, its real and its imaginary part
    """
    array = np.asarray(values)
    if not np.iscomplexobj(array):
        return np.asarray(values, dtype=float)
    if np.any(array.imag != 0):  # also where it is not a number
        raise InputError(f"{what} is complex, but fields are real; {AS_TWO_FIELDS}")
    return array.real.astype(float)
