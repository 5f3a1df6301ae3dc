# SPDX-License-Identifier: MIT
"""The flux of a state and its measured residual."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import sympy as sp

from cffem.bounds.flux.cells import CellBlock


@dataclass(frozen=True)
class Residual:
    """The measured residual of a state.

    Attributes:
        indicators: t_K of this rank's own cells.
        dual: (Σ t_K²)^{1/2} over all cells.
        weighted: (Σ C_K² t_K²)^{1/2} with the constants of the domain, None where there are none.
        algebraic: ‖r‖.
        unseen: a bound of how far the projection of the source is from the one that was computed.
    """

    indicators: np.ndarray
    dual: float
    weighted: float | None
    algebraic: float
    unseen: float


@dataclass(frozen=True)
class StateFlux:
    """The flux of a state, or of a difference of states.

    Attributes:
        misfit: q + p by the unknowns of RT_{k+1}, shape (unknowns, cells of this rank).
        functional: the part of R that a function in V_h represents, by its values of the nodal
            functions that this rank owns.
        represented: the owned values of this function.
        lumped: the part of R that is represented by functions dual to the nodal ones.
        source, when: s and the time at which it is taken.
    """

    misfit: np.ndarray
    functional: np.ndarray
    represented: np.ndarray
    lumped: np.ndarray
    source: sp.Expr
    when: float

    def __sub__(self, other: StateFlux) -> StateFlux:
        return StateFlux(
            self.misfit - other.misfit,
            self.functional - other.functional,
            self.represented - other.represented,
            self.lumped - other.lumped,
            self.source - other.source,
            self.when,
        )


@dataclass(frozen=True)
class Local:
    """A state and a source on some cells; the last axis counts them.

    Attributes:
        block: the cells.
        nodal: the values of the state at their nodes.
        carried: κ ∇̂ŵ.
        density: the coefficients of Π s − b·∇w − c w in orthonormal polynomials of the reference
            cell.
    """

    block: CellBlock
    nodal: np.ndarray
    carried: list[np.ndarray]
    density: np.ndarray
