# SPDX-License-Identifier: MIT
"""Which fields of a model a dataset measures, and what its values are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cffem.data.dataset import Dataset
from cffem.symbols.fields import VectorField

if TYPE_CHECKING:
    import sympy as sp

    from cffem.symbols.fields import Field


def parts(unknown: Field) -> list[sp.Expr]:
    """The components of a field as a dataset names them."""
    return (
        [unknown[i] for i in range(unknown.dim)] if isinstance(unknown, VectorField) else [unknown]
    )


def measures(data: Dataset, unknown: Field) -> bool:
    """Whether all components of a field are in the data."""
    return all(part in data.values for part in parts(unknown))


def largest(data: Dataset, unknown: Field) -> float:
    """The largest size of a measured component; missing values do not count."""
    found = [
        np.abs(array[np.isfinite(array)])
        for array in (data.values[part] for part in parts(unknown))
    ]
    return max((float(values.max()) for values in found if values.size), default=0.0)
