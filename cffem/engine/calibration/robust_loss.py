# SPDX-License-Identifier: MIT
"""Losses of a fit: Σ ρ(r²) over readings, and what they leave of the statistics of least squares.

With ψ = ρ'(r²) r, an estimate that minimises Σ ρ has the covariance (SᵀS)⁻¹ ⟨ψ²⟩/⟨ψ'⟩², and the
growth of Σ ρ where a coefficient is held is ⟨ψ²⟩/⟨ψ'⟩ times a χ² variable (Huber, Ronchetti). Both
factors are one for the squares of Gaussian noise. Priors are always squares: outliers are a matter
of readings.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LINEAR = "linear"
LOSSES = (LINEAR, "soft_l1", "huber", "cauchy")
# The median of |r| of Gaussian noise with the deviation one.
MEDIAN = 0.674489750196082


@dataclass(frozen=True)
class ReadingLoss:
    """A loss over readings, followed by the squares of priors.

    Args:
        name: "linear", "soft_l1", "huber" or "cauchy".
        readings: how many of the residuals are readings.

    Example:
        >>> loss = ReadingLoss("huber", 2)
        >>> loss.total(np.array([1.0, 3.0, 3.0]))  # 1 + (2·3 − 1) + the square of a prior
        15.0
    """

    name: str
    readings: int

    @property
    def squares(self) -> bool:
        """Whether it is the sum of squares."""
        return self.name == LINEAR

    def __call__(self, square: np.ndarray) -> np.ndarray:
        """ρ, ρ' and ρ'' at the squares of residuals, one row each, as SciPy asks for them."""
        found = np.zeros((3, len(square)))
        found[0], found[1] = square, 1.0
        z = square[: self.readings]
        rows = found[:, : self.readings]
        if self.name == "soft_l1":
            root = np.sqrt(1 + z)
            rows[:] = 2 * (root - 1), 1 / root, -0.5 / root**3
        elif self.name == "huber":
            root = np.sqrt(np.maximum(z, 1.0))
            rows[:] = (
                np.where(z <= 1, z, 2 * root - 1),
                np.where(z <= 1, 1.0, 1 / root),
                np.where(z <= 1, 0.0, -0.5 / root**3),
            )
        elif self.name == "cauchy":
            rows[:] = np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2
        return found

    def total(self, residual: np.ndarray) -> float:
        """Σ ρ(r²)."""
        return float(residual @ residual) if self.squares else float(np.sum(self(residual**2)[0]))

    def weights(self, residual: np.ndarray) -> np.ndarray:
        """ρ'(r²): how much each row counts."""
        return np.ones(len(residual)) if self.squares else self(residual**2)[1]

    def factors(self, residual: np.ndarray, fitted: int) -> tuple[float, float]:
        """⟨ψ²⟩/⟨ψ'⟩² n/(n − p), the variance of an estimate over that of least squares with unit
        noise, and ⟨ψ²⟩/⟨ψ'⟩, the unit of Σ ρ; both one for squares.

        Args:
            residual: at the fit.
            fitted: how many coefficients were fitted.
        """
        if self.squares:
            return 1.0, 1.0
        square = residual[: self.readings] ** 2
        _, slope, bend = self(square)
        power = float(np.mean(slope**2 * square))
        change = float(np.mean(slope + 2 * bend * square))
        if not change > 0:
            return np.inf, np.inf
        small = self.readings / max(self.readings - fitted, 1)
        return small * power / change**2, small * power / change


def typical_size(residual: np.ndarray, fitted: int) -> float:
    """The standard deviation of residuals by their median, which outliers do not move.

    Example:
        >>> noise = np.random.default_rng(0).normal(size=400)
        >>> noise[:4] += 100
        >>> round(typical_size(noise, 2), 1)
        1.0
    """
    small = np.sqrt(len(residual) / max(len(residual) - fitted, 1))
    return float(np.median(np.abs(residual)) / MEDIAN * small)
