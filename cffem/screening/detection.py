# SPDX-License-Identifier: MIT
"""Detection limits: the coefficient that a term which was not selected could still have.

A term that is left out is not proved to be absent. Added to the selected terms it gets an estimate
with an error bar, and the 95 % interval around it holds what these data cannot exclude. The share
of the anchor that the term could carry at that limit says whether this matters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cffem.design.design import Design
from cffem.screening import resampling
from cffem.screening.selection import SELECTION, estimate_with_error


@dataclass(frozen=True)
class Detection:
    """What one left-out term could be.

    Attributes:
        name: of the term.
        interval: coefficients that the data do not exclude.
        statistic: its estimate in standard errors when it is added to the support.
        effect: root mean square of the term at its estimate, relative to the anchor.
        share: root mean square of what only this term could explain at the end of the interval,
            relative to the anchor.
    """

    name: str
    interval: tuple[float, float]
    statistic: float
    effect: float
    share: float


def detections(design: Design, support: tuple[int, ...]) -> dict[int, Detection]:
    """The detection limit of every term outside a support, by column.

    Example:
        >>> random = np.random.default_rng(1)
        >>> A = random.standard_normal((400, 2))
        >>> design = Design.from_matrix(
        ...     A, 2 * A[:, 0] + 0.1 * random.standard_normal(400), ["a", "b"]
        ... )
        >>> low, high = detections(design, (0,))[1].interval
        >>> bool(low < 0 < high), bool(high - low < 0.05)
        (True, True)
    """
    return {j: detected(design, support, j) for j in range(len(design.names)) if j not in support}


def detected(design: Design, support: tuple[int, ...], column: int) -> Detection:
    """The detection limit of one term."""
    wider = tuple(sorted((*support, column)))
    place = wider.index(column)
    total = design.grams.total("corrected")
    anchor = float(np.sqrt(max(total[0, 0], 0.0))) or 1.0
    alone = float(np.sqrt(max(total[column + 1, column + 1], 0.0)))
    unique = unique_norm(total, support, column)
    if not unique > 0:
        return Detection(design.names[column], (-np.inf, np.inf), 0.0, 0.0, 0.0)
    estimates, errors = estimate_with_error(design, wider)
    estimate, error = float(estimates[place]), float(errors[place])
    # Interpolation and quadrature can leave this much of the anchor to any term, whatever the
    # resampling sees.
    half = (
        resampling.interval_factor(len(design.grams.labels)) * error
        + SELECTION.relative_floor * anchor / unique
    )
    reach = abs(estimate) + half
    return Detection(
        design.names[column],
        (estimate - half, estimate + half),
        abs(estimate) / max(error, 1e-300),
        abs(estimate) * alone / anchor,
        reach * unique / anchor,
    )


def unique_norm(total: np.ndarray, support: tuple[int, ...], column: int) -> float:
    """Norm of the part of a column that the columns of a support do not reproduce."""
    own = float(total[column + 1, column + 1])
    if not support:
        return float(np.sqrt(max(own, 0.0)))
    index = np.asarray(support) + 1
    scale = np.sqrt(np.abs(np.diag(total)[index])).clip(1e-300)
    inner = total[np.ix_(index, index)] / np.outer(scale, scale)
    across = total[index, column + 1] / scale
    left = own - across @ np.linalg.lstsq(inner, across, rcond=1e-12)[0]
    return float(np.sqrt(left)) if left > 1e-12 * own else 0.0
