# SPDX-License-Identifier: MIT
"""Types of what users write: expressions, and data for fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import sympy as sp

if TYPE_CHECKING:
    import numpy as np

# A SymPy expression, a number, or a sequence of these for a vector or tensor.
ExpressionLike: TypeAlias = "sp.Basic | complex | Sequence[ExpressionLike]"


class FunctionLike(Protocol):
    """A function of a finite-element space, of DOLFINx for instance."""

    @property
    def function_space(self) -> object: ...


class DatasetLike(Protocol):
    """Measured fields: a `Dataset`, or what offers the same."""

    @property
    def coordinates(self) -> dict[sp.Symbol, np.ndarray]: ...

    @property
    def values(self) -> dict[sp.Expr, np.ndarray]: ...

    @property
    def points(self) -> np.ndarray | None: ...

    @property
    def mask(self) -> np.ndarray | None: ...


# What an initial value, a forcing or a boundary condition may be given as.
DataLike: TypeAlias = "ExpressionLike | FunctionLike | DatasetLike"
