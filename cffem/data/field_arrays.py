# SPDX-License-Identifier: MIT
"""Arrays of fields and of their axes as users bring them: checked, real, by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import InputError
from cffem.symbols.fields import Component, Field, ScalarField, VectorField
from cffem.symbols.known import Known

if TYPE_CHECKING:
    pass


Coordinates = Mapping[Any, Any] | Sequence[Any]
DEGREE_NAMES = ("lon", "lons", "longitude", "nav_lon", "lat", "lats", "latitude", "nav_lat")


def refuse_degrees(name: str, unit: str = "") -> None:
    """Refuse an axis in degrees: as lengths they are wrong everywhere, and by another factor
    at every latitude.
    """
    if name.lower() in DEGREE_NAMES or unit.lower().startswith("degree"):
        raise InputError(
            f"{name!r} is in degrees, which are no lengths; cf.sphere_dataset (grids) and "
            "cf.sphere_points (stations) make data in "
            "metres on a map of them"
        )


def named_axes(coords: Coordinates) -> dict[sp.Symbol, np.ndarray]:
    """Coordinate symbols with increasing finite values."""
    if not isinstance(coords, Mapping):
        spatial = len(coords) - 1
        if not 0 <= spatial <= 3:
            raise InputError(
                f"give between one and four coordinate arrays (x, y, z, t), not {len(coords)}"
            )
        coords = dict(zip([*"xyz"[:spatial], "t"], coords, strict=True))
    known = {str(c): c for c in COORDINATES}
    axes = {}
    for name, values in coords.items():
        if str(name) not in known:
            raise InputError(f"coordinates are called x, y, z and t, not {name}")
        axes[known[str(name)]] = _increasing(str(name), as_numbers(values))
    return axes


def _increasing(name: str, array: np.ndarray) -> np.ndarray:
    """The values along an axis, refused where they are no axis."""
    if array.ndim != 1 or len(array) < 2:
        raise InputError(
            f"the coordinate {name} must be a one-dimensional array of two values or more"
        )
    if not np.isfinite(array).all():
        raise InputError(
            f"the coordinate {name} must be finite, but its value number "
            f"{np.argmin(np.isfinite(array)) + 1} is not"
        )
    back = np.flatnonzero(np.diff(array) <= 0)
    if len(back):
        raise InputError(
            f"the coordinate {name} must be strictly increasing, but {array[back[0]]:g} is "
            f"followed by {array[back[0] + 1]:g}; "
            "sort the data along it"
        )
    return array


def as_numbers(values: object) -> np.ndarray:
    """Floats, with dates turned into days since the first, and spans of time into days."""
    array = np.asarray(values).squeeze()
    if np.issubdtype(array.dtype, np.datetime64):
        return (array - array[0]) / np.timedelta64(1, "D")
    if np.issubdtype(array.dtype, np.timedelta64):
        return array / np.timedelta64(1, "D")
    if array.dtype == object and array.size and hasattr(array.flat[0], "toordinal"):
        return np.array([(date - array.flat[0]).total_seconds() / 86400 for date in array.flat])
    try:
        return array.astype(float)
    except (TypeError, ValueError):
        raise InputError(
            f"coordinates must be numbers or dates, but {str(array.flat[0])[:40]!r} is neither"
        ) from None


def component_arrays(
    values: Mapping[sp.Expr, np.ndarray], shape: tuple[int, ...]
) -> dict[sp.Expr, np.ndarray]:
    """One array per scalar field and vector component."""
    arrays: dict[sp.Expr, np.ndarray] = {}
    for unknown, data in split_complex(values).items():
        array = real_numbers(unknown, data)
        if isinstance(unknown, VectorField):
            if array.shape != (unknown.dim, *shape):
                raise InputError(
                    f"{unknown} needs an array of shape {(unknown.dim, *shape)}, not {array.shape}"
                )
            arrays.update({unknown[i]: array[i] for i in range(unknown.dim)})
        elif isinstance(unknown, ScalarField | Component):
            if array.shape != shape:
                raise InputError(f"{unknown} needs an array of shape {shape}, not {array.shape}")
            arrays[unknown] = array
        else:
            raise InputError(f"values are given for fields, not for {unknown!r}")
    if not arrays:
        raise InputError("a dataset needs values of at least one field")
    return arrays


def _measured(given: sp.Expr) -> sp.Expr:
    """The field that measured values stand under: of a known field one of its name."""
    if not isinstance(given, Known) or isinstance(given.dim, tuple):
        return given
    return ScalarField(given.name) if given.dim is None else VectorField(given.name, given.dim)


def split_complex(values: Mapping[sp.Expr, np.ndarray]) -> dict[sp.Expr, np.ndarray]:
    """Values of real fields: a complex field ψ becomes its real part psi_re and its imaginary part
    psi_im.

    An equation for a complex field is two for real ones. Values of a complex type whose imaginary
    part is zero throughout are real.

    Example:
        >>> import cffem as cf
        >>> psi = cf.ScalarField("psi")
        >>> split_complex({psi: np.array([1 + 2j, 3j])})
        {psi_re: array([1., 0.]), psi_im: array([2., 3.])}
    """
    found: dict[sp.Expr, np.ndarray] = {}
    for given, data in values.items():
        unknown = _measured(given)
        array = np.asarray(data)
        if not np.iscomplexobj(array) or not isinstance(unknown, Field):
            found[unknown] = data
        elif not np.any(array.imag):
            found[unknown] = array.real
        else:
            parts = {unknown.real_part: array.real, unknown.imaginary_part: array.imag}
            taken = [part for part in parts if part in values]
            if taken:
                raise InputError(
                    f"{taken[0]} is the name of a part of the complex field {unknown} and of a "
                    "field; rename one"
                )
            found |= parts
    return found


def real_numbers(unknown: Field, data: Any) -> np.ndarray:
    """Values of a field as floats, refused where that would lose something."""
    array = np.asarray(data)
    if array.dtype == object and hasattr(data, "isna"):  # pandas.NA is no float
        array = data.to_numpy(dtype=float, na_value=np.nan)
    if np.iscomplexobj(array):
        raise InputError(
            f"the values of {unknown} are complex; an equation for a complex field is two for its "
            "real and imaginary part, so "
            "give a whole field complex values, or declare two fields and give them values.real "
            "and values.imag"
        )
    try:
        array = array.astype(float)
    except (TypeError, ValueError):
        raise InputError(
            f"the values of {unknown} must be numbers, but are of the kind {array.dtype}"
        ) from None
    if np.isinf(array).any():
        raise InputError(
            f"the values of {unknown} contain infinity; write NaN where a value is missing"
        )
    return array


def combined_mask(
    arrays: Mapping[sp.Expr, np.ndarray], mask: object, shape: tuple[int, ...]
) -> np.ndarray | None:
    """Missing values from the given mask and from NaN; None if nothing is missing."""
    missing = np.zeros(shape, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    if missing.shape != shape:
        raise InputError(f"the mask needs shape {shape}, not {missing.shape}")
    for array in arrays.values():
        missing = missing | ~np.isfinite(array)
    if missing.all():
        raise InputError("all values of the dataset are missing")
    return missing if missing.any() else None
