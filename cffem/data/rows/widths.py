# SPDX-License-Identifier: MIT
"""How wide test functions on noisy scattered data should be: as wide as makes the expected error of
a coefficient least.

A row holds signal and noise. With r the ratio of their energies and n independent rows, the error
of a coefficient is about √((c + r + r²)/n): wider test functions average more noise (r falls) and
leave fewer rows (n falls), and where they average the signal out as well r rises again. The
constant c stands for what rows without noise still lack, as columns look alike. The spectrum of the
data knows the signal's finest scale, not this balance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class WidthRule:
    """Which widths are compared.

    Args:
        factors: radii in units of the radius that the spectrum asks for.
        largest_share: of the extent of the domain that a radius may take.
        shares: half widths in time as shares of the number of reading times.
        fewest_rows: independent rows below which statistics of them are worth nothing.
        noisy: noise level from which noise, not the reconstruction, decides.
        samples: test functions per width with which energies are estimated.
        lack: c, the noise-to-signal ratio below which less noise is worth less than more rows.
    """

    factors: tuple[float, ...] = (1.0, 1.4, 1.9, 2.5)
    largest_share: float = 0.25
    shares: tuple[float, ...] = (1 / 12, 1 / 8, 1 / 6)
    fewest_rows: float = 60.0
    noisy: float = 0.05
    samples: int = 48
    lack: float = 0.3


@dataclass(frozen=True)
class Width:
    """One choice of widths with its expected error."""

    factor: float
    half: int
    error: float
    rows: float


def expected_error(
    signals: Sequence[float], noises: Sequence[float], rows: float, lack: float
) -> float:
    """√(Σ (c + r + r²)/n) over the kinds of rows, with r their noise-to-signal ratios.

    Example:
        >>> round(expected_error([1.0], [0.1], 11.0, 0.0), 3)
        0.1
    """
    ratios = [noise / max(signal, 1e-300) for signal, noise in zip(signals, noises, strict=True)]
    return math.sqrt(sum(lack + r + r * r for r in ratios) / rows)


def best_width(candidates: Sequence[Width], rule: WidthRule) -> Width:
    """The width with the least expected error among those that leave enough rows; else the
    one that leaves most.
    """
    enough = [c for c in candidates if c.rows >= rule.fewest_rows]
    return min(enough, key=lambda c: c.error) if enough else max(candidates, key=lambda c: c.rows)


def unbiased_energy(noisy: np.ndarray, noise: float) -> float:
    """Energy of the signal in rows of noisy data whose noise energy is known, never less than
    a small share of the whole.
    """
    total = float((noisy**2).mean())
    return max(total - noise, 1e-3 * total)
