# SPDX-License-Identifier: MIT
"""What a quadrature rule cannot have seen: enclosures of expressions over cells by interval arithmetic.

Cells whose enclosure reaches far beyond the sampled values are divided again and again, until the enclosures of the parts come
close to the sampled values or something is left that may be there. Its L2 size is what the samples may have missed. The rules
of interval arithmetic are in `cffem.engine.enclosure`.
"""

from __future__ import annotations

import math
from functools import reduce

import numpy as np
import sympy as sp

from cffem.bounds.geometry import determinants
from cffem.engine.enclosure import Interval, divided, enclosed

# Values that lie outside the sampled ones by less than this share of the largest one anywhere do not count.
HIDDEN = 0.1
# How often cells are divided, and into how many parts altogether.
DEPTH, PARTS = 7, 200_000


def hidden(expr: sp.Expr, symbols: tuple[sp.Symbol, ...], corners: np.ndarray, sampled: Interval, size: float) -> float:
    """A bound of the L2 size of what lies outside sampled values, on this rank's cells; infinite where enclosures have no end.

    Args:
        expr: the expression in the coordinates.
        symbols: the coordinates.
        corners: corners of simplices, shape (cells, dim + 1, dim).
        sampled: the smallest and the largest sampled value on each cell.
        size: the largest absolute value that was sampled anywhere.

    Raises:
        NotEnclosed: the expression has no enclosure.
    """
    dim, rest = corners.shape[2], HIDDEN * size
    least, largest = sampled
    measure = np.abs(determinants(corners[:, 1:] - corners[:, :1])) / math.factorial(dim)
    for depth in range(DEPTH + 1):
        places = [[corners[:, k, axis] for k in range(dim + 1)] for axis in range(dim)]
        boxes = [(reduce(np.minimum, values), reduce(np.maximum, values)) for values in places]
        low, high = enclosed(expr, dict(zip(symbols, boxes, strict=True)))
        beyond = np.maximum(np.maximum(high - largest, least - low), 0.0)
        left = np.flatnonzero(beyond > rest)
        if depth == DEPTH or len(left) * 2**dim > PARTS or not len(left):
            break
        corners = divided(corners[left])
        least, largest, measure = (np.repeat(values[left], 2**dim) for values in (least, largest, measure))
        measure = measure / 2**dim
    return float(np.sqrt((measure[left] * beyond[left] ** 2).sum()))
