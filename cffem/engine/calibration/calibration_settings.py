# SPDX-License-Identifier: MIT
"""How a study fits coefficients to readings: where the fit starts, what is known, what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cffem.engine.calibration.robust_loss import LOSSES
from cffem.symbols.errors import InputError

METHODS = AUTO, TANGENT, ADJOINT = "auto", "tangent", "adjoint"


@dataclass(frozen=True)
class CalibrationSettings:
    """How coefficients are fitted to readings.

    Args:
        start: where the fit starts, by term (others: zero); None: zero for all, which a steady
            problem cannot be solved with.
        fixed: coefficients that are known and stay.
        bounds: (low, high) by term; None for an end that is open.
        prior: (mean, standard deviation) by term, from elsewhere.
        loss: "linear" for Gaussian noise; "soft_l1", "huber" or "cauchy" against outliers.
        method: "tangent": a derivative by one solve for each coefficient; "adjoint": the gradient
            by one backward solve for all of them, by L-BFGS, and tangents at the end; "auto":
            "adjoint" from 24 coefficients on.
        select: whether terms that the readings do not need are left out of the model.
        profiles: whether intervals are followed by profiles, which do not take the fit to be
            linear.
        visible: standard deviations of what is measured from which a deletion counts as seen.

    Example:
        >>> import cffem as cf
        >>> cf.CalibrationSettings(start={"lap": 0.1}, bounds={"lap": (0, None)}).loss
        'linear'
    """

    start: Mapping[str, float] | None = None
    fixed: Mapping[str, float] | None = None
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None
    prior: Mapping[str, tuple[float, float]] | None = None
    loss: str = "linear"
    method: str = "auto"
    select: bool = True
    profiles: bool = True
    visible: float = 2.0

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise InputError(f"the loss is one of {', '.join(LOSSES)}, not {self.loss!r}")
        if self.method not in METHODS:
            raise InputError(f"the method is one of {', '.join(METHODS)}, not {self.method!r}")
        if not (np.isfinite(self.visible) and self.visible > 0):
            raise InputError(f"visible is a positive number, not {self.visible!r}")
