"""How noisy gridded data are, and their denoised version.

The standard deviation comes from high differences, which annihilate smooth signals. Denoising is an empirical Wiener filter in
the cosine basis: each coefficient is kept in proportion to how far the mean power around it exceeds the noise power.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import dctn, idctn
from scipy.ndimage import uniform_filter
from scipy.special import comb

MEDIAN_TO_SD = 0.6744897501960817
DIFFERENCES = 6
OVERSUBTRACTION = 1.5


def high_differences(data: np.ndarray, axis: int, order: int = DIFFERENCES) -> np.ndarray:
    """Sixth differences along one axis with unit-norm weights, so that white noise keeps its variance."""
    norm = np.sqrt(comb(2 * order, order))
    return np.diff(data, order, axis=axis) / norm


def noise_sd(data: np.ndarray, missing: np.ndarray | None = None) -> float:
    """Standard deviation of white noise on smooth gridded data.

    Example:
        >>> x, t = np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 60), indexing="ij")
        >>> data = np.sin(6 * x - t) + 0.1 * np.random.default_rng(0).standard_normal(x.shape)
        >>> round(noise_sd(data), 2)
        0.1
    """
    usable = np.ones(data.shape, dtype=bool) if missing is None else ~missing
    data = np.where(usable, data, 0.0)
    for axis in range(data.ndim):
        if data.shape[axis] > 2 * DIFFERENCES:
            data = high_differences(data, axis)
            count = data.shape[axis]
            usable = np.logical_and.reduce([np.take(usable, np.arange(k, k + count), axis) for k in range(DIFFERENCES + 1)])
    values = np.abs(data[usable])
    return float(np.median(values) / MEDIAN_TO_SD) if len(values) else 0.0


def wiener(data: np.ndarray, sd: float, power: np.ndarray | None = None) -> np.ndarray:
    """Denoise by shrinking cosine coefficients.

    Args:
        data: noisy values on a grid.
        sd: standard deviation of the noise.
        power: mean power of the noise in each cosine coefficient relative to sd², for noise that is not white.
    """
    if sd == 0:
        return data
    coefficients = dctn(data, norm="ortho")
    energy = uniform_filter(coefficients**2, size=5, mode="mirror")
    floor = OVERSUBTRACTION * sd**2 * (1.0 if power is None else power)
    gain = np.clip(1 - floor / np.maximum(energy, np.finfo(float).tiny), 0, None)
    return idctn(gain * coefficients, norm="ortho")
